/* The elementary functions in CUDA device code: the vector vocabulary with one lane per thread,
 * then the same sources as on the CPU, so that ef_exp(float), ed_exp(double) and the others give
 * the same bits. Meanings are stated in cpu/simd.h, bounds in core/elementary.h.
 *
 * f32 operations are the _rn intrinsics, which the compiler never contracts. The f64 text uses
 * operators: compile with --fmad=false (the contract's default), and never with --use_fast_math or
 * --ftz=true. */
#ifndef MLSI_CUDA_ELEMENTARY_DEVICE_H
#define MLSI_CUDA_ELEMENTARY_DEVICE_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#include <string.h>
#endif

#define V_FN     static __device__ __forceinline__
#define VF_LANES 1

typedef float VF;
typedef int VI;
typedef bool VM;

V_FN VF vf_set1(float x) { return x; }
V_FN VF vf_zero() { return 0.0f; }
V_FN VF vf_add(VF a, VF b) { return __fadd_rn(a, b); }
V_FN VF vf_sub(VF a, VF b) { return __fsub_rn(a, b); }
V_FN VF vf_mul(VF a, VF b) { return __fmul_rn(a, b); }
V_FN VF vf_div(VF a, VF b) { return __fdiv_rn(a, b); }
V_FN VF vf_sqrt(VF a) { return __fsqrt_rn(a); }
V_FN VF vf_fma(VF a, VF b, VF c) { return __fmaf_rn(a, b, c); }
V_FN VF vf_fms(VF a, VF b, VF c) { return __fmaf_rn(a, b, -c); }
V_FN VF vf_fnma(VF a, VF b, VF c) { return __fmaf_rn(-a, b, c); }

V_FN VI vf_bits(VF a) { return __float_as_int(a); }
V_FN VF vf_from_bits(VI a) { return __int_as_float(a); }
V_FN VI vi_set1(int x) { return x; }
V_FN VI vi_zero() { return 0; }
V_FN VF vf_abs(VF a) { return vf_from_bits(vf_bits(a) & 0x7fffffff); }
V_FN VF vf_neg(VF a) { return vf_from_bits(vf_bits(a) ^ (int)0x80000000); }
V_FN VF vf_copysign(VF mag, VF sgn) {
    return vf_from_bits((vf_bits(mag) & 0x7fffffff) | (vf_bits(sgn) & (int)0x80000000));
}

V_FN VM vm_and(VM a, VM b) { return a && b; }
V_FN VM vm_or(VM a, VM b) { return a || b; }
V_FN VM vm_xor(VM a, VM b) { return a != b; }
V_FN VM vm_not(VM a) { return !a; }
V_FN bool vm_any(VM a) { return a; }
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
V_FN VF vf_rint(VF a) { return rintf(a); }
V_FN VF vi_cvt_f(VI a) { return __int2float_rn(a); }

V_FN VI vi_add(VI a, VI b) { return (VI)((unsigned)a + (unsigned)b); }
V_FN VI vi_sub(VI a, VI b) { return (VI)((unsigned)a - (unsigned)b); }
V_FN VI vi_mul(VI a, VI b) { return (VI)((unsigned)a * (unsigned)b); }
V_FN VI vi_mulhi_u(VI a, VI b) { return (VI)__umulhi((unsigned)a, (unsigned)b); }
V_FN VI vi_and(VI a, VI b) { return a & b; }
V_FN VI vi_or(VI a, VI b) { return a | b; }
V_FN VI vi_xor(VI a, VI b) { return a ^ b; }
V_FN VI vi_sll(VI a, int count) { return (VI)((unsigned)a << count); }
V_FN VI vi_srl(VI a, int count) { return (VI)((unsigned)a >> count); }
V_FN VI vi_sra(VI a, int count) { return a >> count; }
V_FN VI vi_sllv(VI a, VI counts) { return (unsigned)counts < 32 ? vi_sll(a, counts) : 0; }
V_FN VI vi_srlv(VI a, VI counts) { return (unsigned)counts < 32 ? vi_srl(a, counts) : 0; }
V_FN VI vi_max(VI a, VI b) { return a > b ? a : b; }
V_FN VM vi_eq(VI a, VI b) { return a == b; }
V_FN VM vi_lt(VI a, VI b) { return a < b; }

#define ED_FN           static __device__ __forceinline__
#define ED_FMA(a, b, c) __fma_rn((a), (b), (c))
#define ED_SQRT(a)      __dsqrt_rn(a)

#include "core/elementary.inc"
#include "core/elementary_f64.inc"

#endif
