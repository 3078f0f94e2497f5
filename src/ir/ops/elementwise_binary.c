/* Elementwise ops of two and three inputs, with NumPy broadcasting. */
#include "ir/ops/elementwise.h"
#include "ir/ops/gradient.h"

typedef struct binary {
    float (*f)(float, float);
    double (*d)(double, double);
    int64_t (*i)(int64_t, int64_t, mlsys_dtype); /* wrapped to the dtype by the store */
} binary;

static mlsys_status zip(const mlsi_ref_args *a, const binary *b) {
    const mlsi_view *x = &a->in[0], *y = &a->in[1], *z = &a->out[0];
    int64_t n = mlsi_view_count(z);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = mlsi_ref_broadcast_index(x, z, k), j = mlsi_ref_broadcast_index(y, z, k);
        if (!mlsi_dtype_is_float(x->dtype))
            mlsi_ref_set_i(z, k, b->i(mlsi_ref_get_i(x, i), mlsi_ref_get_i(y, j), x->dtype));
        else if (mlsi_ref_is_f64(x->dtype))
            mlsi_ref_set_f(z, k, b->d(mlsi_ref_get_f(x, i), mlsi_ref_get_f(y, j)));
        else
            mlsi_ref_set_f(z, k,
                           (double)b->f((float)mlsi_ref_get_f(x, i), (float)mlsi_ref_get_f(y, j)));
    }
    return MLSYS_OK;
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static float add_f(float a, float b) { return a + b; }
static double add_d(double a, double b) { return a + b; }
static int64_t add_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, mlsi_ref_iadd(a, b); }
static float sub_f(float a, float b) { return a - b; }
static double sub_d(double a, double b) { return a - b; }
static int64_t sub_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, mlsi_ref_isub(a, b); }
static float mul_f(float a, float b) { return a * b; }
static double mul_d(double a, double b) { return a * b; }
static int64_t mul_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, mlsi_ref_imul(a, b); }
static float div_f(float a, float b) { return a / b; }
static double div_d(double a, double b) { return a / b; }
static int64_t div_i(int64_t a, int64_t b, mlsys_dtype t) {
    (void)t;
    if (b == 0) return 0;
    return b == -1 ? mlsi_ref_isub(0, a) : a / b;
}
static int64_t rem_i(int64_t a, int64_t b, mlsys_dtype t) {
    (void)t;
    return b == 0 || b == -1 ? 0 : a % b;
}

/* The result has the divisor's sign, also as a zero. */
static float mod_f(float a, float b) {
    float r = fmodf(a, b);
    if (mlsi_fault(MLSI_FAULT_OPS_MOD_SIGN)) return r;
    if (r == 0) return copysignf(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
static double mod_d(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
static int64_t mod_i(int64_t a, int64_t b, mlsys_dtype t) {
    int64_t r = rem_i(a, b, t);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t pow_i(int64_t a, int64_t b, mlsys_dtype t) {
    (void)t;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; b; b >>= 1) {
        if (b & 1) r = mlsi_ref_imul(r, a);
        a = mlsi_ref_imul(a, a);
    }
    return r;
}

static float max_f(float a, float b) { return (float)mlsi_ref_max(a, b); }
static float min_f(float a, float b) { return (float)mlsi_ref_min(a, b); }
static int64_t max_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, a > b ? a : b; }
static int64_t min_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, a < b ? a : b; }

#define BINARY(name, f_, d_, i_, ...)                                                              \
    static mlsys_status ref_##name(const mlsi_ref_args *a) {                                       \
        static const binary b = {f_, d_, i_};                                                      \
        return zip(a, &b);                                                                         \
    }                                                                                              \
    const mlsi_op_def mlsi_op_def_##name = {.min_in = 2,                                           \
                                            .max_in = 2,                                           \
                                            .min_out = 1,                                          \
                                            .max_out = 1,                                          \
                                            .operands = "a, b",                                    \
                                            .ref = ref_##name,                                     \
                                            .attrs_size = sizeof(mlsi_attr_none),                  \
                                            __VA_ARGS__}
#define NUMBERS            .infer = mlsi_elementwise_infer_numbers, .cost = mlsi_elementwise_cost
#define SMOOTH             .traits = MLSI_SMOOTH_TRAITS
#define SMOOTH_COMMUTATIVE .traits = (MLSI_SMOOTH_TRAITS | MLSI_TRAIT_COMMUTATIVE)

BINARY(add, add_f, add_d, add_i, NUMBERS, SMOOTH_COMMUTATIVE, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_add, .doc = "a + b with NumPy broadcasting; integers wrap.",
       .special = "inf + -inf = NaN.", .onnx = "Add");
BINARY(sub, sub_f, sub_d, sub_i, NUMBERS, SMOOTH, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_sub, .doc = "a - b with NumPy broadcasting; integers wrap.",
       .special = "inf - inf = NaN.", .onnx = "Sub");
BINARY(mul, mul_f, mul_d, mul_i, NUMBERS, SMOOTH_COMMUTATIVE, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_mul, .doc = "a * b with NumPy broadcasting; integers wrap.",
       .special = "0 * inf = NaN.", .onnx = "Mul");
BINARY(div, div_f, div_d, div_i, NUMBERS, SMOOTH, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_div, .doc = "a / b with NumPy broadcasting; integers truncate toward zero.",
       .special = "Floats: x/0 is an infinity, 0/0 NaN. Integers: x/0 = 0, MIN/-1 = MIN.",
       .onnx = "Div");
/* rem and mod have no lanes: a kernel with them would be scalar. */
BINARY(rem, fmodf, fmod, rem_i, NUMBERS, SMOOTH, .shares = MLSI_SHARES_NOTHING, .vjp = mlsi_vjp_rem,
       .doc = "Remainder of a / b truncated: it has the sign of a (C's fmod and %).",
       .special =
           "Floats: rem(x, 0) and rem(inf, y) are NaN, rem(x, inf) = x. Integers: rem(x, 0) = 0.",
       .onnx = "Mod (fmod=1)");
BINARY(
    mod, mod_f, mod_d, mod_i, NUMBERS, SMOOTH, .shares = MLSI_SHARES_NOTHING, .vjp = mlsi_vjp_mod,
    .doc =
        "Remainder of a / b rounded down: r = rem(a, b), and r + b (rounded) where r is not zero "
        "and its sign is not b's.",
    .special =
        "A zero result has the sign of b. Floats: mod(x, 0) and mod(inf, y) are NaN, mod(-1, inf) "
        "= inf. Integers: mod(x, 0) = 0.",
    .onnx = "Mod (fmod=0)");
BINARY(pow, mlsi_ef_pow, mlsi_ed_pow, pow_i, .infer = mlsi_elementwise_infer_numbers,
       .cost = mlsi_elementwise_cost_math, SMOOTH, .vjp = mlsi_vjp_pow,
       .doc = "a^b; integers wrap.",
       .special =
           "Floats as C99 pow: pow(x, 0) = pow(1, y) = 1 even for NaN. Integers with b < 0: 1 for "
           "a = 1, +-1 for a = -1, else 0.",
       .onnx = "Pow");
BINARY(atan2, mlsi_ef_atan2, mlsi_ed_atan2, NULL, .infer = mlsi_elementwise_infer_floats,
       .cost = mlsi_elementwise_cost_math, SMOOTH, .vjp = mlsi_vjp_atan2,
       .doc = "Angle of the point (b, a) in radians, in [-pi, pi].",
       .special = "Signed zeros and infinities as C99 atan2.");
BINARY(max, max_f, mlsi_ref_max, max_i, NUMBERS, SMOOTH_COMMUTATIVE, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_max, .doc = "The larger of a and b.",
       .special = "NaN if either is NaN; max(-0, +0) = +0.", .onnx = "Max");
BINARY(min, min_f, mlsi_ref_min, min_i, NUMBERS, SMOOTH_COMMUTATIVE, .narrow = MLSI_NARROW_FOLLOWS,
       .vjp = mlsi_vjp_min, .doc = "The smaller of a and b.",
       .special = "NaN if either is NaN; min(-0, +0) = -0.", .onnx = "Min");

/* ---- bits ---------------------------------------------------------------------------------- */

static int64_t and_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, a & b; }
static int64_t or_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, a | b; }
static int64_t xor_i(int64_t a, int64_t b, mlsys_dtype t) { return (void)t, a ^ b; }
static int64_t shift_left_i(int64_t a, int64_t b, mlsys_dtype t) {
    return b < 0 || b >= mlsi_int_bits(t) ? 0 : (int64_t)((uint64_t)a << b);
}
static int64_t shift_right_i(int64_t a, int64_t b, mlsys_dtype t) {
    if (b < 0 || b >= mlsi_int_bits(t)) return a < 0 ? -1 : 0;
    return a >> b;
}

static mlsys_status infer_logic(mlsi_infer *t) {
    return mlsi_elementwise_infer(t, MLSI_INTS | MLSI_BOOLS);
}
static mlsys_status infer_ints(mlsi_infer *t) { return mlsi_elementwise_infer(t, MLSI_INTS); }

#define LOGIC                                                                                      \
    .infer = infer_logic, .cost = mlsi_elementwise_cost,                                           \
    .traits = (MLSI_MAP_TRAITS | MLSI_TRAIT_COMMUTATIVE)
#define SHIFT .infer = infer_ints, .cost = mlsi_elementwise_cost, .traits = MLSI_MAP_TRAITS

BINARY(and, NULL, NULL, and_i, LOGIC, .doc = "Logical and of bool, bitwise and of integers.",
       .special = "None.", .onnx = "And, BitwiseAnd");
BINARY(or, NULL, NULL, or_i, LOGIC, .doc = "Logical or of bool, bitwise or of integers.",
       .special = "None.", .onnx = "Or, BitwiseOr");
BINARY(xor, NULL, NULL, xor_i, LOGIC, .doc = "Logical xor of bool, bitwise xor of integers.",
       .special = "None.", .onnx = "Xor, BitwiseXor");
BINARY(shift_left, NULL, NULL, shift_left_i, SHIFT, .doc = "a * 2^b, wrapped.",
       .special = "0 for b < 0 and for b >= the dtype's width.", .onnx = "BitShift (LEFT)");
BINARY(shift_right, NULL, NULL, shift_right_i, SHIFT,
       .doc = "a / 2^b rounded down: arithmetic on signed dtypes, logical on u8.",
       .special = "For b < 0 and b >= the dtype's width: 0, or -1 where a < 0.",
       .onnx = "BitShift (RIGHT)");

/* ---- comparisons --------------------------------------------------------------------------- */

typedef struct comparison {
    bool less, equal, greater, unordered;
} comparison;

static mlsys_status compare(const mlsi_ref_args *a, comparison c) {
    const mlsi_view *x = &a->in[0], *y = &a->in[1], *z = &a->out[0];
    for (int64_t k = 0, n = mlsi_view_count(z); k < n; k++) {
        int64_t i = mlsi_ref_broadcast_index(x, z, k), j = mlsi_ref_broadcast_index(y, z, k);
        bool r;
        if (mlsi_dtype_is_float(x->dtype)) {
            double p = mlsi_ref_get_f(x, i), q = mlsi_ref_get_f(y, j);
            r = p < q ? c.less : p == q ? c.equal : p > q ? c.greater : c.unordered;
        } else {
            int64_t p = mlsi_ref_get_i(x, i), q = mlsi_ref_get_i(y, j);
            r = p < q ? c.less : p == q ? c.equal : c.greater;
        }
        mlsi_ref_set_i(z, k, r);
    }
    return MLSYS_OK;
}

static mlsys_status infer_compare(mlsi_infer *t) {
    return mlsi_elementwise_infer_predicate(t, MLSI_PLAIN);
}

#define COMPARE(name, traits_, doc_, special_, onnx_, ...)                                         \
    static mlsys_status ref_##name(const mlsi_ref_args *a) {                                       \
        return compare(a, (comparison)__VA_ARGS__);                                                \
    }                                                                                              \
    const mlsi_op_def mlsi_op_def_##name = {.min_in = 2,                                           \
                                            .max_in = 2,                                           \
                                            .min_out = 1,                                          \
                                            .max_out = 1,                                          \
                                            .operands = "a, b",                                    \
                                            .traits = (MLSI_MAP_TRAITS | traits_),                 \
                                            .attrs_size = sizeof(mlsi_attr_none),                  \
                                            .infer = infer_compare,                                \
                                            .cost = mlsi_elementwise_cost,                         \
                                            .ref = ref_##name,                                     \
                                            .doc = doc_,                                           \
                                            .special = special_,                                   \
                                            .onnx = onnx_}

COMPARE(eq, MLSI_TRAIT_COMMUTATIVE, "bool: a == b.", "NaN equals nothing; -0 == +0.", "Equal",
        {.equal = true});
COMPARE(ne, MLSI_TRAIT_COMMUTATIVE, "bool: a != b.", "True where either is NaN; -0 == +0.", NULL,
        {.less = true, .greater = true, .unordered = true});
COMPARE(lt, 0, "bool: a < b; false < true.", "False where either is NaN.", "Less", {.less = true});
COMPARE(le, 0, "bool: a <= b; false < true.", "False where either is NaN.", "LessOrEqual",
        {.less = true, .equal = true});
COMPARE(gt, 0, "bool: a > b; false < true.", "False where either is NaN.", "Greater",
        {.greater = true});
COMPARE(ge, 0, "bool: a >= b; false < true.", "False where either is NaN.", "GreaterOrEqual",
        {.greater = true, .equal = true});

/* ---- three inputs -------------------------------------------------------------------------- */

static mlsys_status infer_select(mlsi_infer *t) {
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_BOOLS));
    MLSI_TRY(mlsi_infer_class(t, 1, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_same_dtype(t, 1, 2));
    MLSI_TRY(mlsi_infer_broadcast(t, 0, 3, &t->out[0]));
    t->out[0].dtype = t->in[1].dtype;
    return MLSYS_OK;
}

static mlsys_status ref_select(const mlsi_ref_args *a) {
    const mlsi_view *z = &a->out[0];
    for (int64_t k = 0, n = mlsi_view_count(z); k < n; k++) {
        bool c = mlsi_ref_get_i(&a->in[0], mlsi_ref_broadcast_index(&a->in[0], z, k)) != 0;
        const mlsi_view *from = &a->in[c ? 1 : 2];
        mlsi_ref_move(z, k, from, mlsi_ref_broadcast_index(from, z, k));
    }
    return MLSYS_OK;
}

static mlsys_status ref_clamp(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *lo = &a->in[1], *hi = &a->in[2], *z = &a->out[0];
    for (int64_t k = 0, n = mlsi_view_count(z); k < n; k++) {
        int64_t i = mlsi_ref_broadcast_index(x, z, k), l = mlsi_ref_broadcast_index(lo, z, k),
                h = mlsi_ref_broadcast_index(hi, z, k);
        if (mlsi_dtype_is_float(x->dtype)) {
            double v = mlsi_ref_max(mlsi_ref_get_f(x, i), mlsi_ref_get_f(lo, l));
            mlsi_ref_set_f(z, k, mlsi_ref_min(v, mlsi_ref_get_f(hi, h)));
        } else {
            int64_t v = max_i(mlsi_ref_get_i(x, i), mlsi_ref_get_i(lo, l), x->dtype);
            mlsi_ref_set_i(z, k, min_i(v, mlsi_ref_get_i(hi, h), x->dtype));
        }
    }
    return MLSYS_OK;
}

static mlsys_status ref_fma(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *y = &a->in[1], *w = &a->in[2], *z = &a->out[0];
    bool f64 = mlsi_ref_is_f64(x->dtype);
    for (int64_t k = 0, n = mlsi_view_count(z); k < n; k++)
        mlsi_ref_set_f(z, k,
                       mlsi_ref_fma(f64, mlsi_ref_get_f(x, mlsi_ref_broadcast_index(x, z, k)),
                                    mlsi_ref_get_f(y, mlsi_ref_broadcast_index(y, z, k)),
                                    mlsi_ref_get_f(w, mlsi_ref_broadcast_index(w, z, k))));
    return MLSYS_OK;
}

static void cost_fma(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 2 * mlsi_cost_count(&a->out[0]);
}

#define TERNARY                                                                                    \
    .min_in = 3, .max_in = 3, .min_out = 1, .max_out = 1, .traits = MLSI_SMOOTH_TRAITS,            \
    .narrow = MLSI_NARROW_FOLLOWS, .attrs_size = sizeof(mlsi_attr_none)

const mlsi_op_def mlsi_op_def_select = {
    TERNARY,
    .vjp = mlsi_vjp_select,
    .operands = "cond, a, b",
    .infer = infer_select,
    .cost = mlsi_elementwise_cost,
    .ref = ref_select,
    .doc = "a where cond (bool) is true, else b; all three broadcast. The value not chosen has no "
           "influence.",
    .special = "Elements move bit for bit, NaN payloads included.",
    .onnx = "Where"};
const mlsi_op_def mlsi_op_def_clamp = {TERNARY,
                                       .vjp = mlsi_vjp_clamp,
                                       .operands = "x, lo, hi",
                                       .infer = mlsi_elementwise_infer_numbers,
                                       .cost = cost_fma,
                                       .ref = ref_clamp,
                                       .doc = "min(max(x, lo), hi), all three broadcast.",
                                       .special =
                                           "NaN if any of the three is NaN; hi where lo > hi.",
                                       .onnx = "Clip"};
const mlsi_op_def mlsi_op_def_fma = {
    TERNARY,
    .vjp = mlsi_vjp_fma,
    .operands = "a, b, c",
    .infer = mlsi_elementwise_infer_floats,
    .cost = cost_fma,
    .ref = ref_fma,
    .doc = "a * b + c with one rounding in the compute type (f32 for the narrow dtypes).",
    .special = "0 * inf + c = NaN."};
