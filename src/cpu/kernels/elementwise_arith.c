/* Arithmetic on floats, integers and bool, element by element. */
#include "cpu/kernels/elementwise.h"
#include "core/scalar_ops.h"

#include <math.h>

V_FN VF sign32(VF a) {
    VM keep = vm_or(vf_eq(a, vf_zero()), vf_isnan(a));
    return vf_select(keep, a, vf_copysign(vf_set1(1.0f), a));
}

/* ---- one input ------------------------------------------------------------------------------- */

MAP_F32(neg, 1, vf_neg(a))
MAP_F64(neg, 1, -a)
MAP_I64(neg, 1, wrap_sub(0, a))
ELEMENTWISE_OP(neg, neg_f32, neg_f64, neg_i64, false)

MAP_F32(abs, 1, vf_abs(a))
MAP_F64(abs, 1, fabs(a))
MAP_I64(abs, 1, int_abs(a))
ELEMENTWISE_OP(abs, abs_f32, abs_f64, abs_i64, false)

MAP_F32(sign, 1, sign32(a))
MAP_F64(sign, 1, sign64(a))
MAP_I64(sign, 1, int_sign(a))
ELEMENTWISE_OP(sign, sign_f32, sign_f64, sign_i64, false)

MAP_I64(identity, 1, a)
MAP_F32(ceil, 1, vf_ceil(a))
MAP_F64(ceil, 1, ceil(a))
ELEMENTWISE_OP(ceil, ceil_f32, ceil_f64, identity_i64, false)
MAP_F32(floor, 1, vf_floor(a))
MAP_F64(floor, 1, floor(a))
ELEMENTWISE_OP(floor, floor_f32, floor_f64, identity_i64, false)
MAP_F32(trunc, 1, vf_trunc(a))
MAP_F64(trunc, 1, trunc(a))
ELEMENTWISE_OP(trunc, trunc_f32, trunc_f64, identity_i64, false)
MAP_F32(round, 1, vf_rint(a))
MAP_F64(round, 1, nearbyint(a))
ELEMENTWISE_OP(round, round_f32, round_f64, identity_i64, false)

MAP_F32(sqrt, 1, vf_sqrt(a))
MAP_F64(sqrt, 1, sqrt(a))
ELEMENTWISE_OP(sqrt, sqrt_f32, sqrt_f64, NULL, false)
MAP_F32(rsqrt, 1, vf_div(vf_set1(1.0f), vf_sqrt(a)))
MAP_F64(rsqrt, 1, 1.0 / sqrt(a))
ELEMENTWISE_OP(rsqrt, rsqrt_f32, rsqrt_f64, NULL, false)

MAP_F32(relu, 1, vf_maximum(a, vf_zero()))
MAP_F64(relu, 1, max64(a, 0.0))
MAP_I64(relu, 1, a > 0 ? a : 0)
ELEMENTWISE_OP(relu, relu_f32, relu_f64, relu_i64, false)

/* ---- two inputs ------------------------------------------------------------------------------ */

MAP_F32(add, 2, vf_add(a, b))
MAP_F64(add, 2, a + b)
MAP_I64(add, 2, wrap_add(a, b))
ELEMENTWISE_OP(add, add_f32, add_f64, add_i64, false)
MAP_F32(sub, 2, vf_sub(a, b))
MAP_F64(sub, 2, a - b)
MAP_I64(sub, 2, wrap_sub(a, b))
ELEMENTWISE_OP(sub, sub_f32, sub_f64, sub_i64, false)
MAP_F32(mul, 2, vf_mul(a, b))
MAP_F64(mul, 2, a *b)
MAP_I64(mul, 2, wrap_mul(a, b))
ELEMENTWISE_OP(mul, mul_f32, mul_f64, mul_i64, false)
MAP_F32(div, 2, vf_div(a, b))
MAP_F64(div, 2, a / b)
MAP_I64(div, 2, int_div(a, b))
ELEMENTWISE_OP(div, div_f32, div_f64, div_i64, false)

MAP_SCALAR(rem, f32, float, float, 2, fmodf(a, b))
MAP_F64(rem, 2, fmod(a, b))
MAP_I64(rem, 2, int_rem(a, b))
ELEMENTWISE_OP(rem, rem_f32, rem_f64, rem_i64, false)
MAP_SCALAR(mod, f32, float, float, 2, float_mod32(a, b))
MAP_F64(mod, 2, float_mod64(a, b))
MAP_I64(mod, 2, int_mod(a, b))
ELEMENTWISE_OP(mod, mod_f32, mod_f64, mod_i64, false)
MAP_I64(pow_int, 2, int_pow(a, b))
ELEMENTWISE_OP(pow_int, NULL, NULL, pow_int_i64, false)

MAP_F32(max, 2, vf_maximum(a, b))
MAP_F64(max, 2, max64(a, b))
MAP_I64(max, 2, int_max(a, b))
ELEMENTWISE_OP(max, max_f32, max_f64, max_i64, false)
MAP_F32(min, 2, vf_minimum(a, b))
MAP_F64(min, 2, min64(a, b))
MAP_I64(min, 2, int_min(a, b))
ELEMENTWISE_OP(min, min_f32, min_f64, min_i64, false)

/* ---- three inputs ---------------------------------------------------------------------------- */

MAP_F32(clamp, 3, vf_minimum(vf_maximum(a, b), c))
MAP_F64(clamp, 3, min64(max64(a, b), c))
MAP_I64(clamp, 3, int_min(int_max(a, b), c))
ELEMENTWISE_OP(clamp, clamp_f32, clamp_f64, clamp_i64, false)
MAP_F32(fma, 3, vf_fma(a, b, c))
MAP_F64(fma, 3, fma(a, b, c))
MAP_I64(fma, 3, wrap_add(wrap_mul(a, b), c))
ELEMENTWISE_OP(fma, fma_f32, fma_f64, fma_i64, false)

MLSI_KERNEL_TABLE(elementwise_arith) = {
    ELEMENTWISE_ROW(NEG, neg, accepts_number, 1),
    ELEMENTWISE_ROW(ABS, abs, accepts_number, 1),
    ELEMENTWISE_ROW(SIGN, sign, accepts_number, 1),
    ELEMENTWISE_ROW(CEIL, ceil, accepts_number, 1),
    ELEMENTWISE_ROW(FLOOR, floor, accepts_number, 1),
    ELEMENTWISE_ROW(TRUNC, trunc, accepts_number, 1),
    ELEMENTWISE_ROW(ROUND, round, accepts_number, 1),
    ELEMENTWISE_ROW(SQRT, sqrt, accepts_float, 1),
    ELEMENTWISE_ROW(RSQRT, rsqrt, accepts_float, 1),
    ELEMENTWISE_ROW(RELU, relu, accepts_number, 1),
    ELEMENTWISE_ROW(ADD, add, accepts_number, 3),
    ELEMENTWISE_ROW(SUB, sub, accepts_number, 3),
    ELEMENTWISE_ROW(MUL, mul, accepts_number, 3),
    ELEMENTWISE_ROW(DIV, div, accepts_number, 3),
    ELEMENTWISE_ROW(REM, rem, accepts_number, 3),
    ELEMENTWISE_ROW(MOD, mod, accepts_number, 3),
    ELEMENTWISE_ROW(POW, pow_int, accepts_integer, 3),
    ELEMENTWISE_ROW(MAX, max, accepts_number, 3),
    ELEMENTWISE_ROW(MIN, min, accepts_number, 3),
    ELEMENTWISE_ROW(CLAMP, clamp, accepts_number, 7),
    ELEMENTWISE_ROW(FMA, fma, accepts_number, 7),
    {.run = NULL},
};
