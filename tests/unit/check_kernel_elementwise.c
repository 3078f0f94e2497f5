/* Elementwise kernels against scalar code written after docs/numerics.md. */
#include "core/elementary.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261130 };

static const mlsys_dtype plain[] = {MLSYS_F64,    MLSYS_F32,    MLSYS_F16, MLSYS_BF16,
                                    MLSYS_F8E4M3, MLSYS_F8E5M2, MLSYS_I64, MLSYS_I32,
                                    MLSYS_I16,    MLSYS_I8,     MLSYS_U8,  MLSYS_BOOL};
enum { PLAIN = (int)(sizeof plain / sizeof plain[0]) };

/* One op in each compute type. */
typedef struct reference {
    mlsi_op op;
    float (*f)(float, float, float);
    double (*d)(double, double, double);
    int64_t (*i)(int64_t, int64_t, int64_t, mlsys_dtype);
    bool predicate;
} reference;

/* ---- scalar meanings ------------------------------------------------------------------------- */

#define F(name, expr)                                                                              \
    static float f_##name(float a, float b, float c) { return (void)a, (void)b, (void)c, expr; }
#define D(name, expr)                                                                              \
    static double d_##name(double a, double b, double c) { return (void)a, (void)b, (void)c, expr; }
#define I(name, expr)                                                                              \
    static int64_t i_##name(int64_t a, int64_t b, int64_t c, mlsys_dtype t) {                      \
        return (void)a, (void)b, (void)c, (void)t, (int64_t)(expr);                                \
    }
#define U(x) ((uint64_t)(x))

static double max_of(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == 0 && b == 0) return signbit(a) && signbit(b) ? -0.0 : 0.0;
    return a > b ? a : b;
}
static double min_of(double a, double b) { return -max_of(-a, -b); }
static double mod_of(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return signbit(r) != signbit(b) ? r + b : r;
}
static float mod_off(float a, float b) {
    float r = fmodf(a, b);
    if (r == 0) return copysignf(0, b);
    return signbit(r) != signbit(b) ? r + b : r;
}
static int64_t idiv(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - U(a)) : a / b;
}
static int64_t irem(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static int64_t imod(int64_t a, int64_t b) {
    int64_t r = irem(a, b);
    return r && (r ^ b) < 0 ? r + b : r;
}
static int64_t ipow(int64_t a, int64_t b) {
    uint64_t r = 1;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (int bit = 62; bit >= 0; bit--) {
        r *= r;
        if (b >> bit & 1) r *= U(a);
    }
    return (int64_t)r;
}
static int width(mlsys_dtype t) { return 8 * mlsi_dtype_size(t); }

/* clang-format off */
F(neg, -a) D(neg, -a) I(neg, 0 - U(a))
F(abs, fabsf(a)) D(abs, fabs(a)) I(abs, a < 0 ? 0 - U(a) : U(a))
F(sign, a > 0 ? 1 : a < 0 ? -1 : a) D(sign, a > 0 ? 1 : a < 0 ? -1 : a)
I(sign, a > 0 ? 1 : a ? -1 : 0)
F(ceil, ceilf(a)) D(ceil, ceil(a)) F(floor, floorf(a)) D(floor, floor(a)) I(same, a)
F(trunc, truncf(a)) D(trunc, trunc(a)) F(round, rintf(a)) D(round, rint(a))
F(sqrt, sqrtf(a)) D(sqrt, sqrt(a)) F(rsqrt, 1.0f / sqrtf(a)) D(rsqrt, 1.0 / sqrt(a))
F(relu, (float)max_of(a, 0)) D(relu, max_of(a, 0)) I(relu, a > 0 ? a : 0)
F(add, a + b) D(add, a + b) I(add, U(a) + U(b))
F(sub, a - b) D(sub, a - b) I(sub, U(a) - U(b))
F(mul, a * b) D(mul, a * b) I(mul, U(a) * U(b))
F(div, a / b) D(div, a / b) I(div, idiv(a, b))
F(rem, fmodf(a, b)) D(rem, fmod(a, b)) I(rem, irem(a, b))
F(mod, mod_off(a, b)) D(mod, mod_of(a, b)) I(mod, imod(a, b)) I(pow, ipow(a, b))
F(max, (float)max_of(a, b)) D(max, max_of(a, b)) I(max, a > b ? a : b)
F(min, (float)min_of(a, b)) D(min, min_of(a, b)) I(min, a < b ? a : b)
F(clamp, (float)min_of(max_of(a, b), c)) D(clamp, min_of(max_of(a, b), c))
I(clamp, i_min(i_max(a, b, 0, t), c, 0, t))
F(fma, fmaf(a, b, c)) D(fma, fma(a, b, c)) I(fma, U(a) * U(b) + U(c))
F(eq, a == b) D(eq, a == b) I(eq, a == b) F(ne, a != b) D(ne, a != b) I(ne, a != b)
F(lt, a < b) D(lt, a < b) I(lt, a < b) F(le, a <= b) D(le, a <= b) I(le, a <= b)
F(gt, a > b) D(gt, a > b) I(gt, a > b) F(ge, a >= b) D(ge, a >= b) I(ge, a >= b)
F(is_nan, isnan(a)) D(is_nan, isnan(a)) F(is_finite, isfinite(a)) D(is_finite, isfinite(a))
I(not, t == MLSYS_BOOL ? !a : ~a) I(and, a & b) I(or, a | b) I(xor, a ^ b)
I(shl, b < 0 || b >= width(t) ? 0 : U(a) << b)
I(shr, b < 0 || b >= width(t) ? (a < 0 ? -1 : 0) : a >> b)

#define MATH(name) F(name, mlsi_ef_##name(a)) D(name, mlsi_ed_##name(a))
MATH(cbrt) MATH(exp) MATH(exp2) MATH(expm1) MATH(log) MATH(log2) MATH(log10) MATH(log1p) MATH(sin)
MATH(cos) MATH(tan) MATH(asin) MATH(acos) MATH(atan) MATH(sinh) MATH(cosh) MATH(tanh) MATH(asinh)
MATH(acosh) MATH(atanh) MATH(erf) MATH(erfc)
F(pow, mlsi_ef_pow(a, b)) D(pow, mlsi_ed_pow(a, b))
F(atan2, mlsi_ef_atan2(a, b)) D(atan2, mlsi_ed_atan2(a, b))
F(sigmoid, 1.0f / (1.0f + mlsi_ef_exp(-a))) D(sigmoid, 1.0 / (1.0 + mlsi_ed_exp(-a)))
F(silu, a * f_sigmoid(a, 0, 0)) D(silu, a * d_sigmoid(a, 0, 0))
    /* clang-format on */

    static const reference unary[] = {
        {MLSI_OP_NEG, f_neg, d_neg, i_neg},
        {MLSI_OP_ABS, f_abs, d_abs, i_abs},
        {MLSI_OP_SIGN, f_sign, d_sign, i_sign},
        {MLSI_OP_CEIL, f_ceil, d_ceil, i_same},
        {MLSI_OP_FLOOR, f_floor, d_floor, i_same},
        {MLSI_OP_TRUNC, f_trunc, d_trunc, i_same},
        {MLSI_OP_ROUND, f_round, d_round, i_same},
        {MLSI_OP_SQRT, f_sqrt, d_sqrt},
        {MLSI_OP_RSQRT, f_rsqrt, d_rsqrt},
        {MLSI_OP_RELU, f_relu, d_relu, i_relu},
        {MLSI_OP_CBRT, f_cbrt, d_cbrt},
        {MLSI_OP_EXP, f_exp, d_exp},
        {MLSI_OP_EXP2, f_exp2, d_exp2},
        {MLSI_OP_EXPM1, f_expm1, d_expm1},
        {MLSI_OP_LOG, f_log, d_log},
        {MLSI_OP_LOG2, f_log2, d_log2},
        {MLSI_OP_LOG10, f_log10, d_log10},
        {MLSI_OP_LOG1P, f_log1p, d_log1p},
        {MLSI_OP_SIN, f_sin, d_sin},
        {MLSI_OP_COS, f_cos, d_cos},
        {MLSI_OP_TAN, f_tan, d_tan},
        {MLSI_OP_ASIN, f_asin, d_asin},
        {MLSI_OP_ACOS, f_acos, d_acos},
        {MLSI_OP_ATAN, f_atan, d_atan},
        {MLSI_OP_SINH, f_sinh, d_sinh},
        {MLSI_OP_COSH, f_cosh, d_cosh},
        {MLSI_OP_TANH, f_tanh, d_tanh},
        {MLSI_OP_ASINH, f_asinh, d_asinh},
        {MLSI_OP_ACOSH, f_acosh, d_acosh},
        {MLSI_OP_ATANH, f_atanh, d_atanh},
        {MLSI_OP_ERF, f_erf, d_erf},
        {MLSI_OP_ERFC, f_erfc, d_erfc},
        {MLSI_OP_SIGMOID, f_sigmoid, d_sigmoid},
        {MLSI_OP_SILU, f_silu, d_silu},
        {MLSI_OP_NOT, NULL, NULL, i_not},
        {MLSI_OP_IS_NAN, f_is_nan, d_is_nan, NULL, true},
        {MLSI_OP_IS_FINITE, f_is_finite, d_is_finite, NULL, true},
};
static const reference binary[] = {
    {MLSI_OP_ADD, f_add, d_add, i_add},       {MLSI_OP_SUB, f_sub, d_sub, i_sub},
    {MLSI_OP_MUL, f_mul, d_mul, i_mul},       {MLSI_OP_DIV, f_div, d_div, i_div},
    {MLSI_OP_REM, f_rem, d_rem, i_rem},       {MLSI_OP_MOD, f_mod, d_mod, i_mod},
    {MLSI_OP_POW, f_pow, d_pow, i_pow},       {MLSI_OP_ATAN2, f_atan2, d_atan2},
    {MLSI_OP_MAX, f_max, d_max, i_max},       {MLSI_OP_MIN, f_min, d_min, i_min},
    {MLSI_OP_AND, NULL, NULL, i_and},         {MLSI_OP_OR, NULL, NULL, i_or},
    {MLSI_OP_XOR, NULL, NULL, i_xor},         {MLSI_OP_SHIFT_LEFT, NULL, NULL, i_shl},
    {MLSI_OP_SHIFT_RIGHT, NULL, NULL, i_shr}, {MLSI_OP_EQ, f_eq, d_eq, i_eq, true},
    {MLSI_OP_NE, f_ne, d_ne, i_ne, true},     {MLSI_OP_LT, f_lt, d_lt, i_lt, true},
    {MLSI_OP_LE, f_le, d_le, i_le, true},     {MLSI_OP_GT, f_gt, d_gt, i_gt, true},
    {MLSI_OP_GE, f_ge, d_ge, i_ge, true},
};
static const reference ternary[] = {{MLSI_OP_CLAMP, f_clamp, d_clamp, i_clamp},
                                    {MLSI_OP_FMA, f_fma, d_fma, i_fma}};

/* ---- driver ---------------------------------------------------------------------------------- */

static bool is_logic(mlsi_op op) {
    return op == MLSI_OP_AND || op == MLSI_OP_OR || op == MLSI_OP_XOR || op == MLSI_OP_NOT;
}

static bool defined_for(const reference *r, mlsys_dtype t) {
    if (t == MLSYS_F64) return r->d != NULL;
    if (mlsi_dtype_is_float(t)) return r->f != NULL;
    if (t == MLSYS_BOOL) return is_logic(r->op) || (r->predicate && r->i);
    return r->i != NULL;
}

static void reference_result(const reference *r, const kc_call *c, kc_tensor *expected) {
    const mlsi_view *y = &expected->view;
    for (int64_t i = 0; i < mlsi_view_count(y); i++) {
        double d[3] = {0};
        int64_t q[3] = {0};
        mlsys_dtype t = c->in[0].view.dtype;
        for (int k = 0; k < c->n_in; k++) {
            int64_t at = kc_broadcast_index(&c->in[k].view, y, i);
            if (mlsi_dtype_is_float(t))
                d[k] = kc_get_f(&c->in[k].view, at);
            else
                q[k] = kc_get_i(&c->in[k].view, at);
        }
        double x = 0;
        int64_t n = 0;
        if (t == MLSYS_F64)
            x = r->d(d[0], d[1], d[2]);
        else if (mlsi_dtype_is_float(t))
            x = (double)r->f((float)d[0], (float)d[1], (float)d[2]);
        else
            n = r->i(q[0], q[1], q[2], t);
        if (!mlsi_dtype_is_float(t))
            kc_set_i(y, i, n);
        else if (r->predicate)
            kc_set_i(y, i, x != 0);
        else
            kc_set_f(y, i, x);
    }
}

static void random_shape(kc_rng *r, int *rank, int64_t *shape) {
    static const int64_t extents[] = {0, 1, 1, 2, 3, 5, 7, 8, 17, 33, 130};
    int64_t count = 1;
    *rank = (int)kc_int(r, 0, 4);
    for (int d = 0; d < *rank; d++) {
        shape[d] = extents[kc_int(r, kc_int(r, 0, 9) ? 1 : 0, 10)];
        if (count * shape[d] > 3000) shape[d] = 2;
        count *= shape[d];
    }
    if (kc_int(r, 0, 3) == 0) { /* several staging blocks and work items */
        *rank = 1;
        shape[0] = kc_int(r, 500, 1100);
        if (kc_int(r, 0, 9) == 0) shape[0] += 33000;
    }
}

/* An operand's shape: the output's, with some extents 1 or leading dims missing. */
static kc_tensor random_operand(kc_rng *r, mlsys_dtype t, int rank, const int64_t *shape,
                                bool broadcast) {
    int64_t own[MLSYS_MAX_DIMS];
    int drop = broadcast && kc_int(r, 0, 3) == 0 ? (int)kc_int(r, 0, rank) : 0;
    for (int d = drop; d < rank; d++)
        own[d - drop] = broadcast && kc_int(r, 0, 4) == 0 ? 1 : shape[d];
    kc_tensor x = kc_tensor_new(r, t, rank - drop, own, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, &x, KC_ANY);
    return x;
}

static void check_op(kc_rng *r, const reference *ref, int inputs, mlsys_dtype t) {
    char what[128];
    int rank;
    int64_t shape[MLSYS_MAX_DIMS];
    random_shape(r, &rank, shape);
    kc_call c = {.op = ref->op, .n_in = inputs, .n_out = 1};
    mlsys_dtype result = ref->predicate ? MLSYS_BOOL : t;
    for (int k = 0; k < inputs; k++)
        c.in[k] = random_operand(r, t, rank, shape, inputs > 1);
    if (ref->op == MLSI_OP_SHIFT_LEFT || ref->op == MLSI_OP_SHIFT_RIGHT)
        for (int64_t i = 0; i < mlsi_view_count(&c.in[1].view); i++)
            kc_set_i(&c.in[1].view, i, kc_int(r, -2, width(t) + 2));
    memcpy(c.in[inputs - 1].before, c.in[inputs - 1].block, c.in[inputs - 1].bytes);
    c.out[0] = kc_tensor_new(r, result, rank, shape, (kc_layout)kc_int(r, 0, KC_PADDED));
    kc_tensor expected = kc_tensor_new(r, result, rank, shape, KC_DENSE);
    reference_result(ref, &c, &expected);
    snprintf(what, sizeof what, "%s of %s", mlsi_op_name(ref->op), mlsi_dtype_get(t)->name);
    ck_assert_msg(kc_check(&c, &expected, what) > 0, "no kernel accepts %s", what);
    kc_tensor_free(&expected);
    kc_call_free(&c);
}

static void check_table(const reference *table, size_t n, int inputs) {
    kc_rng r = kc_seed(SEED + (uint64_t)inputs);
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < PLAIN; t++)
            for (int repeat = 0; repeat < 12 && defined_for(&table[i], plain[t]); repeat++)
                check_op(&r, &table[i], inputs, plain[t]);
}

START_TEST(one_input) { check_table(unary, sizeof unary / sizeof unary[0], 1); }
END_TEST
START_TEST(two_inputs) { check_table(binary, sizeof binary / sizeof binary[0], 2); }
END_TEST
START_TEST(three_inputs) { check_table(ternary, sizeof ternary / sizeof ternary[0], 3); }
END_TEST

/* ---- gelu, select, cast ---------------------------------------------------------------------- */

static float gelu_of(float x, int64_t form) {
    if (form == MLSI_GELU_ERF) return (0.5f * x) * (1.0f + mlsi_ef_erf(x * 0.70710678118654752f));
    float cube = (x * x) * x;
    return (0.5f * x) * (1.0f + mlsi_ef_tanh(0.79788456080286536f * (x + 0.044715f * cube)));
}
static double gelu_of_f64(double x, int64_t form) {
    if (form == MLSI_GELU_ERF) return (0.5 * x) * (1.0 + mlsi_ed_erf(x * 0.70710678118654752));
    double cube = (x * x) * x;
    return (0.5 * x) * (1.0 + mlsi_ed_tanh(0.79788456080286536 * (x + 0.044715 * cube)));
}

START_TEST(gelu) {
    kc_rng r = kc_seed(SEED + 10);
    for (int repeat = 0; repeat < 120; repeat++) {
        int rank;
        int64_t shape[MLSYS_MAX_DIMS];
        mlsys_dtype t = plain[repeat % 6];
        random_shape(&r, &rank, shape);
        mlsi_attr_gelu attrs = {.form = repeat % 2};
        kc_call c = {.op = MLSI_OP_GELU, .attrs = &attrs, .n_in = 1, .n_out = 1};
        c.in[0] = random_operand(&r, t, rank, shape, false);
        c.out[0] = kc_tensor_new(&r, t, rank, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, rank, shape, KC_DENSE);
        for (int64_t i = 0; i < mlsi_view_count(&e.view); i++) {
            double x = kc_get_f(&c.in[0].view, i);
            kc_set_f(&e.view, i,
                     t == MLSYS_F64 ? gelu_of_f64(x, attrs.form)
                                    : (double)gelu_of((float)x, attrs.form));
        }
        ck_assert_msg(kc_check(&c, &e, "gelu") > 0, "no kernel for %s", mlsi_dtype_get(t)->name);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

START_TEST(select_moves_bits) {
    kc_rng r = kc_seed(SEED + 11);
    for (int repeat = 0; repeat < 200; repeat++) {
        int rank;
        int64_t shape[MLSYS_MAX_DIMS];
        mlsys_dtype t = plain[repeat % PLAIN];
        random_shape(&r, &rank, shape);
        kc_call c = {.op = MLSI_OP_SELECT, .n_in = 3, .n_out = 1};
        c.in[0] = random_operand(&r, MLSYS_BOOL, rank, shape, true);
        c.in[1] = random_operand(&r, t, rank, shape, true);
        c.in[2] = random_operand(&r, t, rank, shape, true);
        c.out[0] = kc_tensor_new(&r, t, rank, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, rank, shape, KC_DENSE);
        for (int64_t i = 0; i < mlsi_view_count(&e.view); i++) {
            bool first = kc_get_i(&c.in[0].view, kc_broadcast_index(&c.in[0].view, &e.view, i));
            const mlsi_view *from = &c.in[first ? 1 : 2].view;
            memcpy(kc_at(&e.view, i), kc_at(from, kc_broadcast_index(from, &e.view, i)),
                   (size_t)mlsi_dtype_size(t));
        }
        ck_assert_int_gt(kc_check(&c, &e, "select"), 0);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* An integer as a double that still rounds rightly to few bits: inexact values keep an odd last
 * bit. */
static double odd_double(int64_t x) {
    long double wide = (long double)x; /* exact: 64 bits */
    double d = (double)wide;
    if ((long double)d == wide) return d;
    double toward_zero = fabsl((long double)d) > fabsl(wide) ? nextafter(d, 0) : d;
    uint64_t u;
    memcpy(&u, &toward_zero, 8);
    u |= 1;
    memcpy(&d, &u, 8);
    return d;
}

static void cast_element(const mlsi_view *x, const mlsi_view *y, int64_t i) {
    if (mlsi_dtype_is_float(x->dtype)) {
        double v = kc_get_f(x, i);
        if (mlsi_dtype_is_float(y->dtype))
            kc_set_f(y, i, v);
        else
            kc_set_i(y, i, mlsi_f64_to_int(v, y->dtype));
        return;
    }
    int64_t n = kc_get_i(x, i);
    float f = (float)n;
    if (y->dtype == MLSYS_F64)
        kc_set_f(y, i, (double)n);
    else if (y->dtype == MLSYS_F32)
        memcpy(kc_at(y, i), &f, 4);
    else if (mlsi_dtype_is_float(y->dtype))
        kc_set_f(y, i, odd_double(n));
    else
        kc_set_i(y, i, n);
}

START_TEST(cast_all_pairs) {
    kc_rng r = kc_seed(SEED + 12);
    for (int from = 0; from < PLAIN; from++)
        for (int to = 0; to < PLAIN; to++)
            for (int repeat = 0; repeat < 6; repeat++) {
                char what[64];
                int rank;
                int64_t shape[MLSYS_MAX_DIMS];
                random_shape(&r, &rank, shape);
                mlsi_attr_cast attrs = {.dtype = plain[to]};
                kc_call c = {.op = MLSI_OP_CAST, .attrs = &attrs, .n_in = 1, .n_out = 1};
                c.in[0] = random_operand(&r, plain[from], rank, shape, false);
                int64_t n = mlsi_view_count(&c.in[0].view);
                if (plain[from] == MLSYS_I64 &&
                    n > 2) { /* one past a tie of bf16, of f16, of f32 */
                    kc_set_i(&c.in[0].view, 0, (1LL << 62) + (1LL << 54) + 1);
                    kc_set_i(&c.in[0].view, 1, (1LL << 61) + (1LL << 37) + 1);
                }
                memcpy(c.in[0].before, c.in[0].block, c.in[0].bytes);
                c.out[0] =
                    kc_tensor_new(&r, plain[to], rank, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
                kc_tensor e = kc_tensor_new(&r, plain[to], rank, shape, KC_DENSE);
                for (int64_t i = 0; i < n; i++)
                    cast_element(&c.in[0].view, &e.view, i);
                snprintf(what, sizeof what, "cast %s to %s", mlsi_dtype_get(plain[from])->name,
                         mlsi_dtype_get(plain[to])->name);
                ck_assert_msg(kc_check(&c, &e, what) > 0, "no kernel: %s", what);
                kc_tensor_free(&e);
                kc_call_free(&c);
            }
}
END_TEST

/* The output may be the buffer of an input whose bit is set in in_place. */
START_TEST(in_place) {
    kc_rng r = kc_seed(SEED + 13);
    static const int64_t shape[2] = {37, 129};
    for (size_t op = 0; op < sizeof binary / sizeof binary[0]; op++)
        for (int k = 0; k < 2; k++) {
            const mlsi_kernel *row = kc_row(binary[op].op, 0);
            if (!binary[op].f || !(row->in_place >> k & 1)) continue;
            for (int layout = 0; layout < KC_BROADCAST; layout++) {
                kc_call c = {.op = binary[op].op, .n_in = 2, .n_out = 1};
                for (int j = 0; j < 2; j++) {
                    c.in[j] = kc_tensor_new(&r, MLSYS_BF16, 2, shape, (kc_layout)layout);
                    kc_fill(&r, &c.in[j], KC_ANY);
                }
                c.out[0] = c.in[k];
                kc_tensor e = kc_tensor_new(&r, MLSYS_BF16, 2, shape, KC_DENSE);
                reference_result(&binary[op], &c, &e);
                ck_assert_int_gt(kc_check(&c, &e, "in place"), 0);
                kc_tensor_free(&e);
                kc_call_free(&c);
            }
        }
}
END_TEST

/* Outputs large enough to be written past the caches. */
START_TEST(large_outputs) {
    int64_t n = (1 << 23) + 77;
    kc_rng r = kc_seed(SEED + 14);
    kc_call c = {.op = MLSI_OP_MUL, .n_in = 2, .n_out = 1};
    for (int i = 0; i < 2; i++) {
        c.in[i] = kc_tensor_new(&r, MLSYS_F32, 1, &n, KC_DENSE);
        kc_fill(&r, &c.in[i], KC_FINITE);
    }
    c.out[0] = kc_tensor_new(&r, MLSYS_F32, 1, &n, KC_DENSE);
    kc_tensor e = kc_tensor_new(&r, MLSYS_F32, 1, &n, KC_DENSE);
    const float *a = c.in[0].view.data, *b = c.in[1].view.data;
    for (int64_t i = 0; i < n; i++)
        ((float *)e.view.data)[i] = a[i] * b[i];
    ck_assert_int_gt(kc_check(&c, &e, "large"), 0);
    kc_tensor_free(&e);
    kc_call_free(&c);
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_elementwise");
    TCase *t = tcase_create("elementwise");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_input);
    tcase_add_test(t, two_inputs);
    tcase_add_test(t, three_inputs);
    tcase_add_test(t, gelu);
    tcase_add_test(t, select_moves_bits);
    tcase_add_test(t, cast_all_pairs);
    tcase_add_test(t, in_place);
    tcase_add_test(t, large_outputs);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
