/* Comparisons, predicates, bit operations and selection. */
#include "cpu/kernels/elementwise.h"
#include "core/scalar_ops.h"

#include <math.h>

/* ---- predicates: operands of any dtype, result bool ------------------------------------------ */

#define COMPARE(name, operator)                                                                    \
    MAP_SCALAR(name, f32, float, uint8_t, 2, a operator b)                                         \
    MAP_SCALAR(name, f64, double, uint8_t, 2, a operator b)                                        \
    MAP_SCALAR(name, i64, int64_t, uint8_t, 2, a operator b)                                       \
    MAP_BOOL(name, 2, a operator b)                                                                \
    ELEMENTWISE_OP_OR_BOOL(name, name##_f32, name##_f64, name##_i64, name##_bool, true)
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

MAP_SCALAR(is_nan, f32, float, uint8_t, 1, a != a)
MAP_SCALAR(is_nan, f64, double, uint8_t, 1, a != a)
MAP_SCALAR(is_nan, i64, int64_t, uint8_t, 1, 0)
ELEMENTWISE_OP(is_nan, is_nan_f32, is_nan_f64, is_nan_i64, true)
MAP_SCALAR(is_finite, f32, float, uint8_t, 1, isfinite(a) != 0)
MAP_SCALAR(is_finite, f64, double, uint8_t, 1, isfinite(a) != 0)
MAP_SCALAR(is_finite, i64, int64_t, uint8_t, 1, 1)
ELEMENTWISE_OP(is_finite, is_finite_f32, is_finite_f64, is_finite_i64, true)

/* ---- bits: integers bit by bit, bool as truth values ----------------------------------------- */

MAP_I64(not, 1, t == MLSYS_BOOL ? !a : ~a)
MAP_BOOL(not, 1, !a)
ELEMENTWISE_OP_OR_BOOL(not, NULL, NULL, not_i64, not_bool, false)
MAP_I64(and, 2, a &b)
MAP_BOOL(and, 2, a &b)
ELEMENTWISE_OP_OR_BOOL(and, NULL, NULL, and_i64, and_bool, false)
MAP_I64(or, 2, a | b)
MAP_BOOL(or, 2, a | b)
ELEMENTWISE_OP_OR_BOOL(or, NULL, NULL, or_i64, or_bool, false)
MAP_I64(xor, 2, a ^ b)
MAP_BOOL(xor, 2, a ^ b)
ELEMENTWISE_OP_OR_BOOL(xor, NULL, NULL, xor_i64, xor_bool, false)

MAP_I64(shift_left, 2, shift_left(a, b, 8 * mlsi_dtype_size(t)))
ELEMENTWISE_OP(shift_left, NULL, NULL, shift_left_i64, false)
MAP_I64(shift_right, 2, shift_right(a, b, 8 * mlsi_dtype_size(t)))
ELEMENTWISE_OP(shift_right, NULL, NULL, shift_right_i64, false)

/* ---- select(condition, a, b): bit for bit, by element size ----------------------------------- */

#define SELECT(type)                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type v;                                                                                    \
        memcpy(&v, p[1][i * stride[1]] ? p[2] + i *stride[2] : p[3] + i * stride[3], sizeof v);    \
        memcpy(p[0] + i * stride[0], &v, sizeof v);                                                \
    }                                                                                              \
    break

static void select_run_elements(const void *user, char *const *p, const int64_t *stride, int64_t n,
                                int worker) {
    const int *size = user;
    (void)worker;
    if (stride[1] ==
        0) { /* one condition for the run: a copy, or nothing when the result is in place */
        int chosen = *p[1] ? 2 : 3;
        if (stride[0] == *size && stride[chosen] == *size) {
            if (p[chosen] != p[0]) memcpy(p[0], p[chosen], (size_t)n * (size_t)*size);
            return;
        }
    }
    switch (*size) {
    case 1: SELECT(uint8_t);
    case 2: SELECT(uint16_t);
    case 4: SELECT(uint32_t);
    default: SELECT(uint64_t);
    }
}

static mlsys_status select_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 16384 };
    const mlsi_view *views[4] = {&args->out[0], &args->in[0], &args->in[1], &args->in[2]};
    int size = mlsi_dtype_size(args->out[0].dtype);
    mlsi_iter it;
    mlsi_iter_init(&it, views, 4);
    mlsi_iter_run(&it, args->pool, GRAIN, select_run_elements, &size);
    return MLSYS_OK;
}

/* The same on tiles. */
#define SELECT_TILE(suffix, type)                                                                  \
    static void select_##suffix(void *yv, const void *const *x, int64_t n, mlsys_dtype t) {        \
        type *y = yv;                                                                              \
        const uint8_t *condition = x[0];                                                           \
        const type *a = x[1], *b = x[2];                                                           \
        (void)t;                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = condition[i] ? a[i] : b[i];                                                     \
    }
SELECT_TILE(f32, uint32_t)
SELECT_TILE(f64, uint64_t)
SELECT_TILE(bool, uint8_t)
static const elementwise_op select_op = {{select_f32, select_f64, select_f64, select_bool}, false};

static bool accepts_select(const mlsi_query *q) {
    mlsys_dtype t = q->out[0].dtype;
    return q->in[0].dtype == MLSYS_BOOL && q->in[1].dtype == t && q->in[2].dtype == t &&
           is_plain(t);
}

MLSI_KERNEL_TABLE(elementwise_logic) = {
    ELEMENTWISE_ROW(EQ, eq, accepts_predicate, 0),
    ELEMENTWISE_ROW(NE, ne, accepts_predicate, 0),
    ELEMENTWISE_ROW(LT, lt, accepts_predicate, 0),
    ELEMENTWISE_ROW(LE, le, accepts_predicate, 0),
    ELEMENTWISE_ROW(GT, gt, accepts_predicate, 0),
    ELEMENTWISE_ROW(GE, ge, accepts_predicate, 0),
    ELEMENTWISE_ROW(IS_NAN, is_nan, accepts_predicate, 0),
    ELEMENTWISE_ROW(IS_FINITE, is_finite, accepts_predicate, 0),
    ELEMENTWISE_ROW(NOT, not, accepts_integer, 1),
    ELEMENTWISE_ROW(AND, and, accepts_integer, 3),
    ELEMENTWISE_ROW(OR, or, accepts_integer, 3),
    ELEMENTWISE_ROW(XOR, xor, accepts_integer, 3),
    ELEMENTWISE_ROW(SHIFT_LEFT, shift_left, accepts_integer, 3),
    ELEMENTWISE_ROW(SHIFT_RIGHT, shift_right, accepts_integer, 3),
    ELEMENTWISE_ROW(SELECT, select, accepts_select, 6),
    {.run = NULL},
};
