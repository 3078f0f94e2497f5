/* Elementary functions of floats and the activations made of them. */
#include "cpu/kernels/elementwise.h"
#include "core/elementary.h"
#include "core/elementary.inc"

#define MATH(name)                                                                                 \
    MAP_F32(name, 1, ef_##name(a))                                                                 \
    MAP_F64(name, 1, mlsi_ed_##name(a))                                                            \
    ELEMENTWISE_OP(name, name##_f32, name##_f64, NULL, false)

MATH(cbrt)
MATH(exp)
MATH(exp2)
MATH(expm1)
MATH(log)
MATH(log2)
MATH(log10)
MATH(log1p)
MATH(sin)
MATH(cos)
MATH(tan)
MATH(asin)
MATH(acos)
MATH(atan)
MATH(sinh)
MATH(cosh)
MATH(tanh)
MATH(asinh)
MATH(acosh)
MATH(atanh)
MATH(erf)
MATH(erfc)
MAP_F32(pow, 2, ef_pow(a, b))
MAP_F64(pow, 2, mlsi_ed_pow(a, b))
ELEMENTWISE_OP(pow, pow_f32, pow_f64, NULL, false)
MAP_F32(atan2, 2, ef_atan2(a, b))
MAP_F64(atan2, 2, mlsi_ed_atan2(a, b))
ELEMENTWISE_OP(atan2, atan2_f32, atan2_f64, NULL, false)

/* ---- activations: every written operation rounds --------------------------------------------- */

V_FN VF gelu_tanh(VF x) {
    VF cube = vf_mul(vf_mul(x, x), x);
    VF inner = vf_mul(vf_set1(0.79788456080286536f), vf_add(x, vf_mul(vf_set1(0.044715f), cube)));
    return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(vf_set1(1.0f), ef_tanh(inner)));
}

V_FN VF gelu_erf(VF x) {
    VF e = ef_erf(vf_mul(x, vf_set1(0.70710678118654752f)));
    return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(vf_set1(1.0f), e));
}

static double sigmoid64(double x) { return 1.0 / (1.0 + mlsi_ed_exp(-x)); }

static double gelu_tanh64(double x) {
    double inner = 0.79788456080286536 * (x + 0.044715 * ((x * x) * x));
    return (0.5 * x) * (1.0 + mlsi_ed_tanh(inner));
}

static double gelu_erf64(double x) {
    return (0.5 * x) * (1.0 + mlsi_ed_erf(x * 0.70710678118654752));
}

MAP_F32(sigmoid, 1, ef_sigmoid(a))
MAP_F64(sigmoid, 1, sigmoid64(a))
ELEMENTWISE_OP(sigmoid, sigmoid_f32, sigmoid_f64, NULL, false)
MAP_F32(silu, 1, vf_mul(a, ef_sigmoid(a)))
MAP_F64(silu, 1, a *sigmoid64(a))
ELEMENTWISE_OP(silu, silu_f32, silu_f64, NULL, false)
MAP_F32(gelu_tanh, 1, gelu_tanh(a))
MAP_F64(gelu_tanh, 1, gelu_tanh64(a))
ELEMENTWISE_OP(gelu_tanh, gelu_tanh_f32, gelu_tanh_f64, NULL, false)
MAP_F32(gelu_erf, 1, gelu_erf(a))
MAP_F64(gelu_erf, 1, gelu_erf64(a))
ELEMENTWISE_OP(gelu_erf, gelu_erf_f32, gelu_erf_f64, NULL, false)

static mlsys_status gelu_run(const mlsi_kernel_args *args) {
    const mlsi_attr_gelu *attrs = args->attrs;
    return attrs->form == MLSI_GELU_TANH ? gelu_tanh_run(args) : gelu_erf_run(args);
}

#define MATH_ROW(ID, id) ELEMENTWISE_ROW(ID, id, accepts_float, 1)

MLSI_KERNEL_TABLE(elementwise_math) = {
    MATH_ROW(CBRT, cbrt),
    MATH_ROW(EXP, exp),
    MATH_ROW(EXP2, exp2),
    MATH_ROW(EXPM1, expm1),
    MATH_ROW(LOG, log),
    MATH_ROW(LOG2, log2),
    MATH_ROW(LOG10, log10),
    MATH_ROW(LOG1P, log1p),
    MATH_ROW(SIN, sin),
    MATH_ROW(COS, cos),
    MATH_ROW(TAN, tan),
    MATH_ROW(ASIN, asin),
    MATH_ROW(ACOS, acos),
    MATH_ROW(ATAN, atan),
    MATH_ROW(SINH, sinh),
    MATH_ROW(COSH, cosh),
    MATH_ROW(TANH, tanh),
    MATH_ROW(ASINH, asinh),
    MATH_ROW(ACOSH, acosh),
    MATH_ROW(ATANH, atanh),
    MATH_ROW(ERF, erf),
    MATH_ROW(ERFC, erfc),
    MATH_ROW(SIGMOID, sigmoid),
    MATH_ROW(SILU, silu),
    {.op = MLSI_OP_GELU,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("gelu"),
     .accepts = accepts_float,
     .run = gelu_run,
     .in_place = 1},
    ELEMENTWISE_ROW(POW, pow, accepts_float, 3),
    ELEMENTWISE_ROW(ATAN2, atan2, accepts_float, 3),
    {.run = NULL},
};
