/* cross_entropy: negative log-likelihood of a class under the softmax of a row. */
#include "ir/ops/decompose.h"
#include "ir/ops/gradient.h"

#include <string.h>

static mlsys_status infer_cross_entropy(mlsi_infer *t) {
    const mlsi_type *x = &t->in[0], *target = &t->in[1];
    int64_t lo, hi;
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    if (target->dtype != MLSYS_I32 && target->dtype != MLSYS_I64)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, 1, "%s, expected i32 or i64",
                               mlsi_type_text(t->symbols, target, a, sizeof a));
    if (x->rank < 1 || target->rank != x->rank - 1 ||
        memcmp(x->dims, target->dims, sizeof *x->dims * (size_t)target->rank))
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s, expected the leading axes of %s",
                               mlsi_type_text(t->symbols, target, a, sizeof a),
                               mlsi_type_text(t->symbols, x, b, sizeof b));
    mlsi_dim_range(t->symbols, x->dims[x->rank - 1], &lo, &hi);
    if (lo < 1)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s: the class axis may be empty",
                               mlsi_type_text(t->symbols, x, a, sizeof a));
    t->out[0] = *target;
    t->out[0].dtype = x->dtype;
    return MLSYS_OK;
}

typedef struct class_row {
    const mlsi_view *x;
    int64_t first;
    double m;
    bool f64;
} class_row;

static double shifted_exp(void *user, int64_t i) {
    const class_row *r = user;
    return mlsi_ref_exp(r->f64, mlsi_ref_sub(r->f64, mlsi_ref_get_f(r->x, r->first + i), r->m));
}

static mlsys_status ref_cross_entropy(const mlsi_ref_args *a) {
    const mlsi_attr_cross_entropy *at = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t classes = x->shape[x->rank - 1];
    for (int64_t k = 0, n = mlsi_view_count(y); k < n; k++) {
        class_row r = {x, k * classes, -INFINITY, mlsi_ref_is_f64(x->dtype)};
        int64_t target = mlsi_ref_get_i(&a->in[1], k);
        if (target == at->ignore_index) {
            mlsi_ref_set_f(y, k, 0);
            continue;
        }
        if (target < 0 || target >= classes)
            return mlsi_fail(MLSYS_E_ARG,
                             "cross_entropy: target: class %lld at position %lld outside "
                             "[0,%lld)",
                             (long long)target, (long long)k, (long long)classes);
        for (int64_t i = 0; i < classes; i++)
            r.m = mlsi_ref_max(r.m, mlsi_ref_get_f(x, r.first + i));
        if (!isfinite(r.m)) r.m = 0;
        double lse = mlsi_ref_log(r.f64, mlsi_ref_sum(r.f64, classes, shifted_exp, &r));
        lse = mlsi_ref_add(r.f64, lse, r.m);
        mlsi_ref_set_f(y, k, mlsi_ref_sub(r.f64, lse, mlsi_ref_get_f(x, r.first + target)));
    }
    return MLSYS_OK;
}

/* Position of each row's target in the flattened x; a class out of range goes to a position that
 * gather refuses. */
static int32_t target_positions(mlsi_emit *e, int32_t x, int32_t target, int32_t ignored) {
    mlsi_attr_iota iota;
    if (e->st != MLSYS_OK) return target;
    memset(&iota, 0, sizeof iota);
    iota.dtype = MLSYS_I64;
    iota.shape.n = 1;
    iota.shape.v[0] = mlsi_emit_type(e, target)->dims[0];
    int last = mlsi_emit_type(e, x)->rank - 1;
    int32_t zero = mlsi_emit_int(e, MLSYS_I64, 0),
            classes = mlsi_emit_count_int(e, x, last, last + 1);
    int32_t used = mlsi_emit_select(e, ignored, zero, target);
    int32_t above = mlsi_emit_2(e, MLSI_OP_GE, used, zero);
    int32_t inside = mlsi_emit_2(e, MLSI_OP_AND, above, mlsi_emit_2(e, MLSI_OP_LT, used, classes));
    int32_t rows = mlsi_emit_op(e, MLSI_OP_IOTA, &iota, 0, NULL);
    int32_t position =
        mlsi_emit_2(e, MLSI_OP_ADD, mlsi_emit_2(e, MLSI_OP_MUL, rows, classes), used);
    return mlsi_emit_select(e, inside, position, mlsi_emit_int(e, MLSYS_I64, INT64_MAX));
}

static mlsys_status decompose_cross_entropy(mlsi_graph *g, int32_t func, const void *attrs,
                                            int32_t n_in, const int32_t *in, int32_t n_out,
                                            int32_t *out) {
    const mlsi_attr_cross_entropy *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    mlsi_infer sub = {.symbols = &g->symbols};
    int64_t rows, elements;
    mlsi_attr_arg lse_attrs = {.axis = t.rank - 1};
    mlsi_attr_axis gather = {.axis = 0};
    (void)n_in, (void)n_out;
    MLSI_TRY(mlsi_infer_product(&sub, t.dims, t.rank - 1, &rows));
    MLSI_TRY(mlsi_infer_product(&sub, t.dims, t.rank, &elements));
    int32_t x = mlsi_emit_widen(&e, in[0]);
    int32_t target = mlsi_emit_reshape(&e, mlsi_emit_cast(&e, in[1], MLSYS_I64), 1, &rows);
    int32_t ignored =
        mlsi_emit_2(&e, MLSI_OP_EQ, target, mlsi_emit_int(&e, MLSYS_I64, at->ignore_index));
    int32_t lse =
        mlsi_emit_reshape(&e, mlsi_emit_op(&e, MLSI_OP_LOGSUMEXP, &lse_attrs, 1, &x), 1, &rows);
    int32_t pick[2];
    pick[0] = mlsi_emit_reshape(&e, x, 1, &elements);
    pick[1] = target_positions(&e, x, target, ignored);
    int32_t chosen = mlsi_emit_op(&e, MLSI_OP_GATHER, &gather, 2, pick);
    int32_t loss = mlsi_emit_2(&e, MLSI_OP_SUB, lse, chosen);
    loss = mlsi_emit_select(&e, ignored, mlsi_emit_float(&e, 0), loss);
    out[0] = mlsi_emit_reshape(&e, mlsi_emit_cast(&e, loss, t.dtype), t.rank - 1, t.dims);
    return e.st;
}

static void cost_cross_entropy(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->transcendentals = mlsi_cost_count(&a->in[0]);
    c->flops = 3 * mlsi_cost_count(&a->in[0]);
}

static const mlsi_attr_desc cross_entropy_attrs[] = {
    {.name = "ignore_index",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_cross_entropy, ignore_index),
     .default_i = -100,
     .help = "rows with this target give 0"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_cross_entropy = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "logits, target",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .attrs_size = sizeof(mlsi_attr_cross_entropy),
    .attrs = cross_entropy_attrs,
    .infer = infer_cross_entropy,
    .cost = cost_cross_entropy,
    .ref = ref_cross_entropy,
    .decompose = decompose_cross_entropy,
    .vjp = mlsi_vjp_cross_entropy,
    .doc = "logits [..., V], target [...] (i32 or i64) to [...]: logsumexp(row) - row[target], in "
           "the compute "
           "type, rounded once to the dtype of logits.",
    .special = "+0 where target = ignore_index, whatever the row holds; other targets outside [0, "
               "V) are an "
               "error at run time. A class of -inf gives +inf.",
    .onnx = "SoftmaxCrossEntropyLoss (reduction none)"};
