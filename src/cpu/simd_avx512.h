/* Vector vocabulary, AVX-512 F/BW/DQ/VL: 16 lanes.  Meanings are stated in cpu/simd.h. */
#ifndef MLSI_CPU_SIMD_AVX512_H
#define MLSI_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VF_LANES        16
#define VF_STREAM_ALIGN 64
#define VF_ISA_NAME     "avx512"
/* Always inlined: a vector must never cross a call between sources built for different ISAs. */
#define V_FN static inline __attribute__((always_inline))

typedef __m512 VF;
typedef __m512i VI;
typedef __mmask16 VM;

/* f32 arithmetic */
V_FN VF vf_set1(float x) { return _mm512_set1_ps(x); }
V_FN VF vf_zero(void) { return _mm512_setzero_ps(); }
V_FN VF vf_add(VF a, VF b) { return _mm512_add_ps(a, b); }
V_FN VF vf_sub(VF a, VF b) { return _mm512_sub_ps(a, b); }
V_FN VF vf_mul(VF a, VF b) { return _mm512_mul_ps(a, b); }
V_FN VF vf_div(VF a, VF b) { return _mm512_div_ps(a, b); }
V_FN VF vf_sqrt(VF a) { return _mm512_sqrt_ps(a); }
V_FN VF vf_fma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
V_FN VF vf_fms(VF a, VF b, VF c) { return _mm512_fmsub_ps(a, b, c); }
V_FN VF vf_fnma(VF a, VF b, VF c) { return _mm512_fnmadd_ps(a, b, c); }

/* reinterpretation and signs */
V_FN VI vf_bits(VF a) { return _mm512_castps_si512(a); }
V_FN VF vf_from_bits(VI a) { return _mm512_castsi512_ps(a); }
V_FN VF vf_abs(VF a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
V_FN VF vf_neg(VF a) { return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a); }
V_FN VF vf_copysign(VF mag, VF sgn) {
    VF s = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(s, mag), _mm512_and_ps(s, sgn));
}

/* masks */
V_FN VM vm_and(VM a, VM b) { return (VM)(a & b); }
V_FN VM vm_or(VM a, VM b) { return (VM)(a | b); }
V_FN VM vm_xor(VM a, VM b) { return (VM)(a ^ b); }
V_FN VM vm_not(VM a) { return (VM)~a; }
V_FN int vm_any(VM a) { return a != 0; }
V_FN int vm_all(VM a) { return a == 0xffff; }
V_FN VF vf_select(VM m, VF a, VF b) { return _mm512_mask_blend_ps(m, b, a); }
V_FN VI vi_select(VM m, VI a, VI b) { return _mm512_mask_blend_epi32(m, b, a); }

/* f32 comparisons */
V_FN VM vf_lt(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_FN VM vf_le(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
V_FN VM vf_gt(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
V_FN VM vf_ge(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
V_FN VM vf_eq(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
V_FN VM vf_ne(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
V_FN VM vf_isnan(VF a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }

V_FN VF vf_min_sel(VF a, VF b) { return _mm512_min_ps(a, b); }
V_FN VF vf_max_sel(VF a, VF b) { return _mm512_max_ps(a, b); }
/* minps(a, b) | minps(b, a) is -0 if either zero is negative, and & gives +0 for the maximum; the
 * sum of unordered operands is their quiet NaN. */
V_FN VF vf_minimum(VF a, VF b) {
    VF r = _mm512_or_ps(_mm512_min_ps(a, b), _mm512_min_ps(b, a));
    return _mm512_mask_add_ps(r, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b);
}
V_FN VF vf_maximum(VF a, VF b) {
    VF r = _mm512_and_ps(_mm512_max_ps(a, b), _mm512_max_ps(b, a));
    return _mm512_mask_add_ps(r, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b);
}

#define V_ROUND_(a, mode) _mm512_roundscale_ps((a), (mode) | _MM_FROUND_NO_EXC)
V_FN VF vf_rint(VF a) { return V_ROUND_(a, _MM_FROUND_TO_NEAREST_INT); }
V_FN VF vf_floor(VF a) { return V_ROUND_(a, _MM_FROUND_TO_NEG_INF); }
V_FN VF vf_ceil(VF a) { return V_ROUND_(a, _MM_FROUND_TO_POS_INF); }
V_FN VF vf_trunc(VF a) { return V_ROUND_(a, _MM_FROUND_TO_ZERO); }
#undef V_ROUND_
V_FN VI vf_cvt_i(VF a) { return _mm512_cvtps_epi32(a); }
V_FN VI vf_cvtt_i(VF a) { return _mm512_cvttps_epi32(a); }
V_FN VF vi_cvt_f(VI a) { return _mm512_cvtepi32_ps(a); }

/* i32 */
V_FN VI vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
V_FN VI vi_zero(void) { return _mm512_setzero_si512(); }
V_FN VI vi_iota(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
V_FN VI vi_add(VI a, VI b) { return _mm512_add_epi32(a, b); }
V_FN VI vi_sub(VI a, VI b) { return _mm512_sub_epi32(a, b); }
V_FN VI vi_mul(VI a, VI b) { return _mm512_mullo_epi32(a, b); }
V_FN VI vi_mulhi_u(VI a, VI b) {
    VI even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
    VI odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}
V_FN VI vi_and(VI a, VI b) { return _mm512_and_si512(a, b); }
V_FN VI vi_or(VI a, VI b) { return _mm512_or_si512(a, b); }
V_FN VI vi_xor(VI a, VI b) { return _mm512_xor_si512(a, b); }
V_FN VI vi_sll(VI a, int count) { return _mm512_slli_epi32(a, (unsigned)count); }
V_FN VI vi_srl(VI a, int count) { return _mm512_srli_epi32(a, (unsigned)count); }
V_FN VI vi_sra(VI a, int count) { return _mm512_srai_epi32(a, (unsigned)count); }
V_FN VI vi_sllv(VI a, VI counts) { return _mm512_sllv_epi32(a, counts); }
V_FN VI vi_srlv(VI a, VI counts) { return _mm512_srlv_epi32(a, counts); }
V_FN VI vi_min(VI a, VI b) { return _mm512_min_epi32(a, b); }
V_FN VI vi_max(VI a, VI b) { return _mm512_max_epi32(a, b); }
V_FN VM vi_eq(VI a, VI b) { return _mm512_cmpeq_epi32_mask(a, b); }
V_FN VM vi_gt(VI a, VI b) { return _mm512_cmpgt_epi32_mask(a, b); }
V_FN VM vi_lt(VI a, VI b) { return _mm512_cmplt_epi32_mask(a, b); }

/* i16 pairs and bytes in i32 lanes */
V_FN VI vw_add(VI a, VI b) { return _mm512_add_epi16(a, b); }
V_FN VI vw_sll(VI a, int count) { return _mm512_slli_epi16(a, (unsigned)count); }
V_FN VI vw_sra(VI a, int count) { return _mm512_srai_epi16(a, (unsigned)count); }
V_FN VI vw_dot_u8i8(VI a, VI b) { return _mm512_maddubs_epi16(a, b); }
V_FN VI vi_dot_i16(VI a, VI b) { return _mm512_madd_epi16(a, b); }

/* memory */
V_FN __mmask16 vm_first_n_(int n) { return (__mmask16)((1u << n) - 1u); }
V_FN VF vf_load(const float *p) { return _mm512_loadu_ps(p); }
V_FN void vf_store(float *p, VF v) { _mm512_storeu_ps(p, v); }
V_FN VF vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first_n_(n), p); }
V_FN void vf_store_n(float *p, VF v, int n) { _mm512_mask_storeu_ps(p, vm_first_n_(n), v); }
V_FN void vf_stream(float *p, VF v) { _mm512_stream_ps(p, v); }
V_FN void v_stream_fence(void) { _mm_sfence(); }
V_FN VI vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
V_FN void vi_store(int32_t *p, VI v) { _mm512_storeu_si512(p, v); }
V_FN VI vi_load_n(const int32_t *p, int n) { return _mm512_maskz_loadu_epi32(vm_first_n_(n), p); }
V_FN void vi_store_n(int32_t *p, VI v, int n) { _mm512_mask_storeu_epi32(p, vm_first_n_(n), v); }
V_FN VI vi_load_i8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
V_FN VI vi_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* f16, bf16: sixteen 16-bit values in an __m256i */
V_FN __m256i v_load16_(const uint16_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
V_FN __m256i v_load16_n_(const uint16_t *p, int n) {
    return _mm256_maskz_loadu_epi16(vm_first_n_(n), p);
}
V_FN void v_store16_(uint16_t *p, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }
V_FN void v_store16_n_(uint16_t *p, __m256i v, int n) {
    _mm256_mask_storeu_epi16(p, vm_first_n_(n), v);
}
V_FN __m256i vf_to_f16_(VF v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
V_FN VF vf_of_bf16_(__m256i h) {
    return vf_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
V_FN __m256i vf_to_bf16_(VF v) {
    VI b = vf_bits(v);
    VI odd = vi_and(vi_srl(b, 16), vi_set1(1));
    VI rounded = vi_srl(vi_add(b, vi_add(odd, vi_set1(0x7fff))), 16);
    VI r = vi_select(vf_isnan(v), vi_or(vi_srl(b, 16), vi_set1(0x40)), rounded);
    return _mm512_cvtepi32_epi16(r);
}
V_FN VF vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(v_load16_(p)); }
V_FN VF vf_load_f16_n(const uint16_t *p, int n) { return _mm512_cvtph_ps(v_load16_n_(p, n)); }
V_FN void vf_store_f16(uint16_t *p, VF v) { v_store16_(p, vf_to_f16_(v)); }
V_FN void vf_store_f16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_f16_(v), n); }
V_FN VF vf_load_bf16(const uint16_t *p) { return vf_of_bf16_(v_load16_(p)); }
V_FN VF vf_load_bf16_n(const uint16_t *p, int n) { return vf_of_bf16_(v_load16_n_(p, n)); }
V_FN void vf_store_bf16(uint16_t *p, VF v) { v_store16_(p, vf_to_bf16_(v)); }
V_FN void vf_store_bf16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_bf16_(v), n); }

/* reductions of one register: fold the upper half onto the lower */
#define V_FOLD_(v, op)                                                                             \
    VF h16_ = op((v), _mm512_shuffle_f32x4((v), (v), 0x4e));                                       \
    VF h8_ = op(h16_, _mm512_shuffle_f32x4(h16_, h16_, 0xb1));                                     \
    VF h4_ = op(h8_, _mm512_permute_ps(h8_, 0x4e));                                                \
    VF h2_ = op(h4_, _mm512_permute_ps(h4_, 0xb1));                                                \
    return _mm512_cvtss_f32(h2_)
V_FN float vf_reduce_add(VF v) { V_FOLD_(v, vf_add); }
V_FN float vf_reduce_maximum(VF v) { V_FOLD_(v, vf_maximum); }
V_FN float vf_reduce_minimum(VF v) { V_FOLD_(v, vf_minimum); }
#undef V_FOLD_

#endif
