/* The vector vocabulary with one lane: float, int32_t and int.  It makes the scalar functions of
 * core/elementary.c out of core/elementary.inc.  Meanings are stated in cpu/simd.h. */
#ifndef MLSI_CORE_ELEMENTARY_SCALAR_H
#define MLSI_CORE_ELEMENTARY_SCALAR_H

#include <stdint.h>
#include <string.h>

#define V_FN     static inline
#define VF_LANES 1

typedef float VF;
typedef int32_t VI;
typedef int VM;

V_FN VF vf_set1(float x) { return x; }
V_FN VF vf_zero(void) { return 0.0f; }
V_FN VF vf_add(VF a, VF b) { return a + b; }
V_FN VF vf_sub(VF a, VF b) { return a - b; }
V_FN VF vf_mul(VF a, VF b) { return a * b; }
V_FN VF vf_div(VF a, VF b) { return a / b; }
V_FN VF vf_sqrt(VF a) { return __builtin_sqrtf(a); }
V_FN VF vf_fma(VF a, VF b, VF c) { return __builtin_fmaf(a, b, c); }
V_FN VF vf_fms(VF a, VF b, VF c) { return __builtin_fmaf(a, b, -c); }
V_FN VF vf_fnma(VF a, VF b, VF c) { return __builtin_fmaf(-a, b, c); }

V_FN VI vf_bits(VF a) {
    VI r;
    memcpy(&r, &a, sizeof r);
    return r;
}
V_FN VF vf_from_bits(VI a) {
    VF r;
    memcpy(&r, &a, sizeof r);
    return r;
}
V_FN VI vi_set1(int32_t x) { return x; }
V_FN VI vi_zero(void) { return 0; }
V_FN VF vf_abs(VF a) { return vf_from_bits(vf_bits(a) & INT32_MAX); }
V_FN VF vf_neg(VF a) { return vf_from_bits(vf_bits(a) ^ INT32_MIN); }
V_FN VF vf_copysign(VF mag, VF sgn) {
    return vf_from_bits((vf_bits(mag) & INT32_MAX) | (vf_bits(sgn) & INT32_MIN));
}

V_FN VM vm_and(VM a, VM b) { return a & b; }
V_FN VM vm_or(VM a, VM b) { return a | b; }
V_FN VM vm_xor(VM a, VM b) { return a ^ b; }
V_FN VM vm_not(VM a) { return !a; }
V_FN int vm_any(VM a) { return a; }
V_FN VF vf_select(VM m, VF a, VF b) { return m ? a : b; }
V_FN VI vi_select(VM m, VI a, VI b) { return m ? a : b; }

V_FN VM vf_lt(VF a, VF b) { return a < b; }
V_FN VM vf_le(VF a, VF b) { return a <= b; }
V_FN VM vf_gt(VF a, VF b) { return a > b; }
V_FN VM vf_ge(VF a, VF b) { return a >= b; }
V_FN VM vf_eq(VF a, VF b) { return a == b; }
V_FN VM vf_ne(VF a, VF b) { return a != b; }
V_FN VM vf_isnan(VF a) { return a != a; }
V_FN VF vf_min_sel(VF a, VF b) { return a < b ? a : b; }
V_FN VF vf_max_sel(VF a, VF b) { return a > b ? a : b; }
V_FN VF vf_rint(VF a) { return __builtin_rintf(a); }
V_FN VF vi_cvt_f(VI a) { return (float)a; }

/* Through uint32_t: signed overflow and shifts of negative numbers are undefined in C. */
V_FN VI vi_add(VI a, VI b) { return (VI)((uint32_t)a + (uint32_t)b); }
V_FN VI vi_sub(VI a, VI b) { return (VI)((uint32_t)a - (uint32_t)b); }
V_FN VI vi_mul(VI a, VI b) { return (VI)((uint32_t)a * (uint32_t)b); }
V_FN VI vi_mulhi_u(VI a, VI b) {
    return (VI)(uint32_t)(((uint64_t)(uint32_t)a * (uint32_t)b) >> 32);
}
V_FN VI vi_and(VI a, VI b) { return a & b; }
V_FN VI vi_or(VI a, VI b) { return a | b; }
V_FN VI vi_xor(VI a, VI b) { return a ^ b; }
V_FN VI vi_sll(VI a, int count) { return (VI)((uint32_t)a << count); }
V_FN VI vi_srl(VI a, int count) { return (VI)((uint32_t)a >> count); }
V_FN VI vi_sra(VI a, int count) { return a >> count; } /* arithmetic in GCC and Clang */
V_FN VI vi_sllv(VI a, VI counts) { return (uint32_t)counts < 32 ? (VI)((uint32_t)a << counts) : 0; }
V_FN VI vi_srlv(VI a, VI counts) { return (uint32_t)counts < 32 ? (VI)((uint32_t)a >> counts) : 0; }
V_FN VI vi_max(VI a, VI b) { return a > b ? a : b; }
V_FN VM vi_eq(VI a, VI b) { return a == b; }
V_FN VM vi_lt(VI a, VI b) { return a < b; }

#endif
