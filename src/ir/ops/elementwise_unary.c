/* Elementwise ops of one input: y[i] = f(x[i]). */
#include "ir/ops/elementwise.h"
#include "ir/ops/gradient.h"

/* ---- type rules and costs of all elementwise ops ------------------------------------------- */

mlsys_status mlsi_elementwise_infer(mlsi_infer *t, unsigned classes) {
    for (int i = 0; i < t->n_in; i++) {
        MLSI_TRY(mlsi_infer_class(t, i, classes));
        MLSI_TRY(mlsi_infer_same_dtype(t, 0, i));
    }
    return mlsi_infer_broadcast(t, 0, t->n_in, &t->out[0]);
}

mlsys_status mlsi_elementwise_infer_predicate(mlsi_infer *t, unsigned classes) {
    MLSI_TRY(mlsi_elementwise_infer(t, classes));
    t->out[0].dtype = MLSYS_BOOL;
    return MLSYS_OK;
}

mlsys_status mlsi_elementwise_infer_floats(mlsi_infer *t) {
    return mlsi_elementwise_infer(t, MLSI_FLOATS);
}
mlsys_status mlsi_elementwise_infer_numbers(mlsi_infer *t) {
    return mlsi_elementwise_infer(t, MLSI_NUMBERS);
}
static mlsys_status infer_logic(mlsi_infer *t) {
    return mlsi_elementwise_infer(t, MLSI_INTS | MLSI_BOOLS);
}
static mlsys_status infer_float_predicate(mlsi_infer *t) {
    return mlsi_elementwise_infer_predicate(t, MLSI_FLOATS);
}

void mlsi_elementwise_cost(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->out[0]);
}
void mlsi_elementwise_cost_math(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->transcendentals = mlsi_cost_count(&a->out[0]);
}
void mlsi_elementwise_cost_move(const mlsi_cost_args *a, mlsi_op_cost *c) {
    (void)a;
    c->flops = 0;
}

/* ---- reference ---------------------------------------------------------------------------------
 */

typedef struct unary {
    float (*f)(float);
    double (*d)(double);
    int64_t (*i)(int64_t); /* wrapped to the dtype by the store; NULL = floats only */
} unary;

static mlsys_status map(const mlsi_ref_args *a, const unary *u) {
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t n = mlsi_view_count(y);
    for (int64_t i = 0; i < n; i++) {
        if (!mlsi_dtype_is_float(x->dtype))
            mlsi_ref_set_i(y, i, u->i(mlsi_ref_get_i(x, i)));
        else if (mlsi_ref_is_f64(x->dtype))
            mlsi_ref_set_f(y, i, u->d(mlsi_ref_get_f(x, i)));
        else
            mlsi_ref_set_f(y, i, (double)u->f((float)mlsi_ref_get_f(x, i)));
    }
    return MLSYS_OK;
}

static float neg_f(float x) { return -x; }
static double neg_d(double x) { return -x; }
static int64_t neg_i(int64_t x) { return mlsi_ref_isub(0, x); }
static int64_t abs_i(int64_t x) { return x < 0 ? mlsi_ref_isub(0, x) : x; }
static float sign_f(float x) { return isnan(x) || x == 0 ? x : copysignf(1, x); }
static double sign_d(double x) { return isnan(x) || x == 0 ? x : copysign(1, x); }
static int64_t sign_i(int64_t x) { return (x > 0) - (x < 0); }
static int64_t same_i(int64_t x) { return x; }
static float rsqrt_f(float x) { return 1.0f / sqrtf(x); }
static double rsqrt_d(double x) { return 1.0 / sqrt(x); }
static float sigmoid_f(float x) { return 1.0f / (1.0f + mlsi_ef_exp(-x)); }
static double sigmoid_d(double x) { return 1.0 / (1.0 + mlsi_ed_exp(-x)); }

/* An op: its ref is map over one row, the rest of the definition follows as designated
 * initialisers. */
#define UNARY(name, f_, d_, i_, ...)                                                               \
    static mlsys_status ref_##name(const mlsi_ref_args *a) {                                       \
        static const unary u = {f_, d_, i_};                                                       \
        return map(a, &u);                                                                         \
    }                                                                                              \
    const mlsi_op_def mlsi_op_def_##name = {.min_in = 1,                                           \
                                            .max_in = 1,                                           \
                                            .min_out = 1,                                          \
                                            .max_out = 1,                                          \
                                            .operands = "x",                                       \
                                            .ref = ref_##name,                                     \
                                            .attrs_size = sizeof(mlsi_attr_none),                  \
                                            .vjp = mlsi_vjp_##name,                                \
                                            __VA_ARGS__}

/* Exact on floats and integers. */
#define EXACT .infer = mlsi_elementwise_infer_numbers, .cost = mlsi_elementwise_cost
/* One of the library's elementary functions. */
#define ELEMENTARY                                                                                 \
    .infer = mlsi_elementwise_infer_floats, .cost = mlsi_elementwise_cost_math,                    \
    .traits = MLSI_SMOOTH_TRAITS

UNARY(neg, neg_f, neg_d, neg_i, EXACT, .traits = MLSI_SMOOTH_TRAITS, .narrow = MLSI_NARROW_FOLLOWS,
      .doc = "y = -x: the sign bit is flipped; integers wrap.",
      .special = "neg(+0) = -0. The smallest signed integer is its own negative.", .onnx = "Neg");
UNARY(abs, fabsf, fabs, abs_i, EXACT, .traits = MLSI_SMOOTH_TRAITS, .narrow = MLSI_NARROW_FOLLOWS,
      .doc = "y = |x|: the sign bit is cleared; integers wrap.",
      .special = "abs(-0) = +0. The smallest signed integer is its own absolute value.",
      .onnx = "Abs");
UNARY(sign, sign_f, sign_d, sign_i, EXACT, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "y = -1, 0 or 1 by the sign of x.", .special = "sign(NaN) = NaN, sign(+-0) = +-0.",
      .onnx = "Sign");
UNARY(ceil, ceilf, ceil, same_i, EXACT, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "Smallest integer >= x; integers are unchanged.",
      .special = "NaN, infinities and signed zeros are unchanged; (-1,0) gives -0.",
      .onnx = "Ceil");
UNARY(floor, floorf, floor, same_i, EXACT, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "Largest integer <= x; integers are unchanged.",
      .special = "NaN, infinities and signed zeros are unchanged.", .onnx = "Floor");
UNARY(trunc, truncf, trunc, same_i, EXACT, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "Integer part of x, toward zero; integers are unchanged.",
      .special = "NaN, infinities and signed zeros are unchanged; (-1,0) gives -0.");
UNARY(round, rintf, rint, same_i, EXACT, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "Nearest integer, halves to even; integers are unchanged.",
      .special = "NaN, infinities and signed zeros are unchanged; [-0.5,0) gives -0.",
      .onnx = "Round");

UNARY(sqrt, sqrtf, sqrt, NULL, .infer = mlsi_elementwise_infer_floats,
      .cost = mlsi_elementwise_cost, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "Square root, correctly rounded.", .special = "sqrt(-0) = -0, sqrt(x < 0) = NaN.",
      .onnx = "Sqrt");
UNARY(rsqrt, rsqrt_f, rsqrt_d, NULL, .infer = mlsi_elementwise_infer_floats,
      .cost = mlsi_elementwise_cost, .traits = MLSI_SMOOTH_TRAITS,
      .doc = "1 / sqrt(x), the root and the quotient each rounded.",
      .special = "rsqrt(+-0) = +-inf, rsqrt(inf) = +0, rsqrt(x < 0) = NaN.");
UNARY(cbrt, mlsi_ef_cbrt, mlsi_ed_cbrt, NULL, ELEMENTARY, .doc = "Cube root.",
      .special = "cbrt(+-0) = +-0, cbrt(+-inf) = +-inf.");
UNARY(exp, mlsi_ef_exp, mlsi_ed_exp, NULL, ELEMENTARY, .doc = "e to the power x.",
      .special = "exp(-inf) = +0, exp(inf) = inf.", .onnx = "Exp");
UNARY(exp2, mlsi_ef_exp2, mlsi_ed_exp2, NULL, ELEMENTARY, .doc = "2 to the power x.",
      .special = "exp2(-inf) = +0, exp2(inf) = inf.");
UNARY(expm1, mlsi_ef_expm1, mlsi_ed_expm1, NULL, ELEMENTARY,
      .doc = "e^x - 1 without cancellation near 0.",
      .special = "expm1(+-0) = +-0, expm1(-inf) = -1, expm1(inf) = inf.");
UNARY(log, mlsi_ef_log, mlsi_ed_log, NULL, ELEMENTARY, .doc = "Natural logarithm.",
      .special = "log(+-0) = -inf, log(x < 0) = NaN, log(inf) = inf.", .onnx = "Log");
UNARY(log2, mlsi_ef_log2, mlsi_ed_log2, NULL, ELEMENTARY, .doc = "Logarithm to base 2.",
      .special = "log2(+-0) = -inf, log2(x < 0) = NaN, log2(inf) = inf.");
UNARY(log10, mlsi_ef_log10, mlsi_ed_log10, NULL, ELEMENTARY, .doc = "Logarithm to base 10.",
      .special = "log10(+-0) = -inf, log10(x < 0) = NaN, log10(inf) = inf.");
UNARY(log1p, mlsi_ef_log1p, mlsi_ed_log1p, NULL, ELEMENTARY,
      .doc = "log(1 + x) without cancellation near 0.",
      .special = "log1p(+-0) = +-0, log1p(-1) = -inf, log1p(x < -1) = NaN.");
UNARY(sin, mlsi_ef_sin, mlsi_ed_sin, NULL, ELEMENTARY, .doc = "Sine of x radians.",
      .special = "sin(+-0) = +-0, sin(+-inf) = NaN.", .onnx = "Sin");
UNARY(cos, mlsi_ef_cos, mlsi_ed_cos, NULL, ELEMENTARY, .doc = "Cosine of x radians.",
      .special = "cos(+-0) = 1, cos(+-inf) = NaN.", .onnx = "Cos");
UNARY(tan, mlsi_ef_tan, mlsi_ed_tan, NULL, ELEMENTARY, .doc = "Tangent of x radians.",
      .special = "tan(+-0) = +-0, tan(+-inf) = NaN.", .onnx = "Tan");
UNARY(asin, mlsi_ef_asin, mlsi_ed_asin, NULL, ELEMENTARY, .doc = "Arc sine, in [-pi/2, pi/2].",
      .special = "asin(+-0) = +-0, NaN for |x| > 1.", .onnx = "Asin");
UNARY(acos, mlsi_ef_acos, mlsi_ed_acos, NULL, ELEMENTARY, .doc = "Arc cosine, in [0, pi].",
      .special = "acos(1) = +0, NaN for |x| > 1.", .onnx = "Acos");
UNARY(atan, mlsi_ef_atan, mlsi_ed_atan, NULL, ELEMENTARY, .doc = "Arc tangent, in [-pi/2, pi/2].",
      .special = "atan(+-0) = +-0, atan(+-inf) = +-pi/2.", .onnx = "Atan");
UNARY(sinh, mlsi_ef_sinh, mlsi_ed_sinh, NULL, ELEMENTARY, .doc = "Hyperbolic sine.",
      .special = "sinh(+-0) = +-0, sinh(+-inf) = +-inf.", .onnx = "Sinh");
UNARY(cosh, mlsi_ef_cosh, mlsi_ed_cosh, NULL, ELEMENTARY, .doc = "Hyperbolic cosine.",
      .special = "cosh(+-0) = 1, cosh(+-inf) = inf.", .onnx = "Cosh");
UNARY(tanh, mlsi_ef_tanh, mlsi_ed_tanh, NULL, ELEMENTARY, .narrow = MLSI_NARROW_FOLLOWS,
      .doc = "Hyperbolic tangent.", .special = "tanh(+-0) = +-0, tanh(+-inf) = +-1.",
      .onnx = "Tanh");
UNARY(asinh, mlsi_ef_asinh, mlsi_ed_asinh, NULL, ELEMENTARY, .doc = "Inverse hyperbolic sine.",
      .special = "asinh(+-0) = +-0, asinh(+-inf) = +-inf.", .onnx = "Asinh");
UNARY(acosh, mlsi_ef_acosh, mlsi_ed_acosh, NULL, ELEMENTARY, .doc = "Inverse hyperbolic cosine.",
      .special = "acosh(1) = +0, NaN for x < 1.", .onnx = "Acosh");
UNARY(atanh, mlsi_ef_atanh, mlsi_ed_atanh, NULL, ELEMENTARY, .doc = "Inverse hyperbolic tangent.",
      .special = "atanh(+-0) = +-0, atanh(+-1) = +-inf, NaN for |x| > 1.", .onnx = "Atanh");
UNARY(erf, mlsi_ef_erf, mlsi_ed_erf, NULL, ELEMENTARY, .doc = "Error function.",
      .special = "erf(+-0) = +-0, erf(+-inf) = +-1.", .onnx = "Erf");
UNARY(erfc, mlsi_ef_erfc, mlsi_ed_erfc, NULL, ELEMENTARY,
      .doc = "1 - erf(x) without cancellation for large x.",
      .special = "erfc(inf) = +0, erfc(-inf) = 2.");
UNARY(sigmoid, sigmoid_f, sigmoid_d, NULL, ELEMENTARY, .narrow = MLSI_NARROW_FOLLOWS,
      .doc = "1 / (1 + exp(-x)), each operation rounded.",
      .special = "sigmoid(-inf) = +0, sigmoid(inf) = 1.", .onnx = "Sigmoid");

/* ---- logic and predicates ------------------------------------------------------------------ */

static mlsys_status ref_not(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        int64_t v = mlsi_ref_get_i(x, i);
        mlsi_ref_set_i(y, i, x->dtype == MLSYS_BOOL ? !v : ~v);
    }
    return MLSYS_OK;
}

static mlsys_status ref_is_nan(const mlsi_ref_args *a) {
    for (int64_t i = 0, n = mlsi_view_count(&a->out[0]); i < n; i++)
        mlsi_ref_set_i(&a->out[0], i, isnan(mlsi_ref_get_f(&a->in[0], i)));
    return MLSYS_OK;
}

static mlsys_status ref_is_finite(const mlsi_ref_args *a) {
    for (int64_t i = 0, n = mlsi_view_count(&a->out[0]); i < n; i++)
        mlsi_ref_set_i(&a->out[0], i, isfinite(mlsi_ref_get_f(&a->in[0], i)));
    return MLSYS_OK;
}

#define MAPPED                                                                                     \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .traits = MLSI_MAP_TRAITS, .cost = mlsi_elementwise_cost, .attrs_size = sizeof(mlsi_attr_none)

const mlsi_op_def mlsi_op_def_not = {
    MAPPED,
    .infer = infer_logic,
    .ref = ref_not,
    .doc = "Logical negation of bool, bitwise complement of integers.",
    .special = "None.",
    .onnx = "Not"};
const mlsi_op_def mlsi_op_def_is_nan = {MAPPED,
                                        .infer = infer_float_predicate,
                                        .ref = ref_is_nan,
                                        .doc = "bool: is x a NaN?",
                                        .special = "Quiet or signalling, any payload.",
                                        .onnx = "IsNaN"};
const mlsi_op_def mlsi_op_def_is_finite = {
    MAPPED, .infer = infer_float_predicate, .ref = ref_is_finite,
    .doc = "bool: is x neither NaN nor infinite?", .special = "Subnormals and zeros are finite."};

/* ---- conversions --------------------------------------------------------------------------- */

static const mlsi_attr_desc cast_attrs[] = {{.name = "dtype",
                                             .kind = MLSI_ATTR_DTYPE,
                                             .offset = offsetof(mlsi_attr_cast, dtype),
                                             .required = true,
                                             .help = "dtype of the result; no block dtypes"},
                                            {.name = NULL}};

/* Attributes that reached inference as a struct were not read from a config: check the code. */
static mlsys_status infer_conversion(mlsi_infer *t) {
    const mlsi_attr_cast *c = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    if (!mlsi_dtype_get((mlsys_dtype)c->dtype) || mlsi_dtype_is_block((mlsys_dtype)c->dtype)) {
        const mlsi_dtype_info *info = mlsi_dtype_get((mlsys_dtype)c->dtype);
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: %s is not a plain dtype",
                               info ? info->name : "0");
    }
    t->out[0] = t->in[0];
    t->out[0].dtype = (mlsys_dtype)c->dtype;
    return MLSYS_OK;
}

static mlsys_status ref_cast(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        if (mlsi_dtype_is_float(x->dtype))
            mlsi_ref_set_f(y, i, mlsi_ref_get_f(x, i));
        else
            mlsi_ref_set_i(y, i, mlsi_ref_get_i(x, i));
    }
    return MLSYS_OK;
}

static mlsys_status infer_bitcast(mlsi_infer *t) {
    MLSI_TRY(infer_conversion(t));
    mlsys_dtype from = t->in[0].dtype, to = t->out[0].dtype;
    if (mlsi_dtype_size(from) != mlsi_dtype_size(to) || (to == MLSYS_BOOL && from != MLSYS_BOOL))
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, 0, "dtype %s cannot be read as %s",
                               mlsi_dtype_get(from)->name, mlsi_dtype_get(to)->name);
    return MLSYS_OK;
}

static mlsys_status ref_bitcast(const mlsi_ref_args *a) {
    for (int64_t i = 0, n = mlsi_view_count(&a->out[0]); i < n; i++)
        mlsi_ref_move(&a->out[0], i, &a->in[0], i);
    return MLSYS_OK;
}

#define CONVERSION                                                                                 \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .attrs_size = sizeof(mlsi_attr_cast), .attrs = cast_attrs

const mlsi_op_def mlsi_op_def_cast = {
    CONVERSION,
    .traits = MLSI_SMOOTH_TRAITS,
    .infer = infer_conversion,
    .cost = mlsi_elementwise_cost,
    .ref = ref_cast,
    .vjp = mlsi_vjp_cast,
    .doc = "x converted to dtype. Float to float and integer to float round once, to nearest even; "
           "float to integer truncates and saturates; integer to integer wraps; to bool is x != 0.",
    .special = "NaN to an integer is 0, to bool true. A float beyond the target's range becomes an "
               "infinity; f8e4m3 has none: there finite values saturate at +-448 and infinities "
               "become NaN.",
    .onnx = "Cast"};
const mlsi_op_def mlsi_op_def_bitcast = {
    .shares = MLSI_SHARES_NOTHING, /* no lanes: a kernel with it would be scalar */

    CONVERSION,
    .traits = MLSI_MAP_TRAITS,
    .infer = infer_bitcast,
    .cost = mlsi_elementwise_cost_move,
    .ref = ref_bitcast,
    .doc = "The bits of x read as another dtype of the same size; bool is not a target.",
    .special = "NaN payloads are kept: this op is about bits.",
    .onnx = "BitCast"};
