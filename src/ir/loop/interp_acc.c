/* Accumulators of the loop interpreter: terms are kept by position, and the result is made of the sequence in the order
 * of docs/numerics.md when it is read. */
#include "ir/loop/interp.h"

#include "core/dtype.h"
#include "ir/ops/op_def.h"

#include <math.h>

void mlsi_machine_acc_free(mlsi_machine *m, int32_t acc) {
    mlsi_machine_acc *s = &m->accs[acc];
    mlsi_mem_free(m->n->alloc, s->a);
    mlsi_mem_free(m->n->alloc, s->b);
    mlsi_mem_free(m->n->alloc, s->seen);
    *s = (mlsi_machine_acc){0};
}

mlsys_status mlsi_machine_acc_begin(mlsi_machine *m, int32_t acc, int64_t count) {
    mlsi_machine_acc *s = &m->accs[acc];
    mlsi_machine_acc_free(m, acc);
    s->count = count;
    MLSI_TRY(MLSI_NEW_N(m->n->alloc, count + 1, &s->a));
    MLSI_TRY(MLSI_NEW_N(m->n->alloc, count + 1, &s->b));
    return MLSI_NEW_N(m->n->alloc, count + 1, &s->seen);
}

mlsys_status mlsi_machine_acc_add(mlsi_machine *m, int32_t acc, int64_t position, uint64_t a,
                                  uint64_t b) {
    mlsi_machine_acc *s = &m->accs[acc];
    if (position < 0 || position >= s->count || s->seen[position])
        return mlsi_fail(MLSYS_E_STATE, "nest %s: position %lld of %s %s", m->n->name,
                         (long long)position, m->n->accs[acc].name,
                         position < 0 || position >= s->count ? "is outside its count"
                                                              : "is added twice");
    s->a[position] = a;
    s->b[position] = b;
    s->seen[position] = 1;
    s->added++;
    return MLSYS_OK;
}

typedef struct sequence {
    mlsi_view a, b;
} sequence;

static double term(void *user, int64_t i) { return mlsi_ref_get_f(&((sequence *)user)->a, i); }
static void factors(void *user, int64_t i, double *a, double *b) {
    *a = mlsi_ref_get_f(&((sequence *)user)->a, i);
    *b = mlsi_ref_get_f(&((sequence *)user)->b, i);
}

/* Elements of a term's dtype, each in 8 bytes of its own. */
static mlsi_view spread(uint64_t *bits, mlsys_dtype dtype, int64_t count) {
    return (mlsi_view){.data = bits,
                       .dtype = dtype,
                       .rank = 1,
                       .shape = {count},
                       .strides = {8 / mlsi_dtype_size(dtype)}};
}

static mlsys_status fold(mlsi_machine *m, mlsi_op op, const mlsi_acc *acc,
                         const mlsi_machine_acc *s, uint64_t first, uint64_t *out) {
    const mlsys_dtype dtypes[2] = {acc->dtype, acc->dtype};
    uint64_t result = first;
    for (int64_t i = 0; i < s->count; i++) {
        uint64_t args[2] = {result, s->a[i]};
        if (acc->kind == MLSI_ACC_DOT) {
            uint64_t pair[2] = {s->a[i], s->b[i]};
            MLSI_TRY(mlsi_machine_op(m, MLSI_OP_MUL, acc->dtype, 2, dtypes, pair, &args[1]));
        }
        if (i == 0 && (op == MLSI_OP_MAX || op == MLSI_OP_MIN))
            result = args[1];
        else
            MLSI_TRY(mlsi_machine_op(m, op, acc->dtype, 2, dtypes, args, &result));
    }
    *out = result;
    return MLSYS_OK;
}

static int64_t extreme(const mlsi_acc *acc, const mlsi_machine_acc *s) {
    mlsi_view v = spread(s->a, acc->dtype, s->count);
    bool greatest = acc->kind == MLSI_ACC_ARGMAX;
    int64_t best = 0;
    for (int64_t i = 1; i < s->count; i++) {
        bool better;
        if (mlsi_dtype_is_float(acc->dtype)) {
            double x = mlsi_ref_get_f(&v, i), y = mlsi_ref_get_f(&v, best);
            better = !isnan(y) && (isnan(x) || (greatest ? x > y : x < y));
        } else {
            int64_t x = mlsi_ref_get_i(&v, i), y = mlsi_ref_get_i(&v, best);
            better = greatest ? x > y : x < y;
        }
        if (better) best = i;
    }
    return best;
}

static void sum_floats(const mlsi_acc *acc, const mlsi_machine_acc *s, uint64_t *out) {
    sequence q = {spread(s->a, acc->dtype, s->count), spread(s->b, acc->dtype, s->count)};
    bool f64 = acc->dtype == MLSYS_F64;
    uint64_t bits = s->init;
    mlsi_view init = {.data = (char *)&bits, .dtype = acc->dtype};
    mlsi_view y = {.data = out, .dtype = acc->dtype};
    *out = 0;
    mlsi_ref_set_f(&y, 0,
                   acc->kind == MLSI_ACC_DOT
                       ? mlsi_ref_dot(f64, s->init_known ? mlsi_ref_get_f(&init, 0) : -0.0,
                                      s->count, factors, &q)
                   : acc->kind == MLSI_ACC_PROD ? mlsi_ref_product(f64, s->count, term, &q)
                                                : mlsi_ref_sum(f64, s->count, term, &q));
}

mlsys_status mlsi_machine_acc_value(mlsi_machine *m, int32_t acc, uint64_t *out) {
    const mlsi_acc *a = &m->n->accs[acc];
    const mlsi_machine_acc *s = &m->accs[acc];
    if (s->added != s->count)
        return mlsi_fail(MLSYS_E_STATE, "nest %s: %s is read with %lld of %lld terms", m->n->name,
                         a->name, (long long)s->added, (long long)s->count);
    bool rounds = a->kind == MLSI_ACC_SUM || a->kind == MLSI_ACC_PROD || a->kind == MLSI_ACC_DOT;
    if (rounds && mlsi_dtype_is_float(a->dtype)) return sum_floats(a, s, out), MLSYS_OK;
    switch (a->kind) {
    case MLSI_ACC_SUM: return fold(m, MLSI_OP_ADD, a, s, 0, out);
    case MLSI_ACC_DOT: return fold(m, MLSI_OP_ADD, a, s, s->init_known ? s->init : 0, out);
    case MLSI_ACC_PROD: return fold(m, MLSI_OP_MUL, a, s, 1, out);
    case MLSI_ACC_MAX: return fold(m, MLSI_OP_MAX, a, s, 0, out);
    case MLSI_ACC_MIN: return fold(m, MLSI_OP_MIN, a, s, 0, out);
    case MLSI_ACC_AND: return fold(m, MLSI_OP_AND, a, s, 1, out);
    case MLSI_ACC_OR: return fold(m, MLSI_OP_OR, a, s, 0, out);
    case MLSI_ACC_ARGMAX:
    case MLSI_ACC_ARGMIN: return *out = (uint64_t)extreme(a, s), MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_INTERNAL, "nest %s: accumulator kind %d", m->n->name, (int)a->kind);
}
