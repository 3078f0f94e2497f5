/* Vector vocabulary, AVX2 + FMA + F16C: 8 lanes.  Meanings are stated in cpu/simd.h. */
#ifndef MLSI_CPU_SIMD_AVX2_H
#define MLSI_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VF_LANES        8
#define VF_STREAM_ALIGN 32
#define VF_ISA_NAME     "avx2"
/* Always inlined: a vector must never cross a call between sources built for different ISAs. */
#define V_FN static inline __attribute__((always_inline))

typedef __m256 VF;
typedef __m256i VI;
typedef __m256 VM; /* all ones or all zeros per lane */

/* f32 arithmetic */
V_FN VF vf_set1(float x) { return _mm256_set1_ps(x); }
V_FN VF vf_zero(void) { return _mm256_setzero_ps(); }
V_FN VF vf_add(VF a, VF b) { return _mm256_add_ps(a, b); }
V_FN VF vf_sub(VF a, VF b) { return _mm256_sub_ps(a, b); }
V_FN VF vf_mul(VF a, VF b) { return _mm256_mul_ps(a, b); }
V_FN VF vf_div(VF a, VF b) { return _mm256_div_ps(a, b); }
V_FN VF vf_sqrt(VF a) { return _mm256_sqrt_ps(a); }
V_FN VF vf_fma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
V_FN VF vf_fms(VF a, VF b, VF c) { return _mm256_fmsub_ps(a, b, c); }
V_FN VF vf_fnma(VF a, VF b, VF c) { return _mm256_fnmadd_ps(a, b, c); }

/* reinterpretation and signs */
V_FN VI vf_bits(VF a) { return _mm256_castps_si256(a); }
V_FN VF vf_from_bits(VI a) { return _mm256_castsi256_ps(a); }
V_FN VF vf_abs(VF a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
V_FN VF vf_neg(VF a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a); }
V_FN VF vf_copysign(VF mag, VF sgn) {
    VF s = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(s, mag), _mm256_and_ps(s, sgn));
}

/* masks */
V_FN VM vm_and(VM a, VM b) { return _mm256_and_ps(a, b); }
V_FN VM vm_or(VM a, VM b) { return _mm256_or_ps(a, b); }
V_FN VM vm_xor(VM a, VM b) { return _mm256_xor_ps(a, b); }
V_FN VM vm_not(VM a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
V_FN int vm_any(VM a) { return _mm256_movemask_ps(a) != 0; }
V_FN int vm_all(VM a) { return _mm256_movemask_ps(a) == 0xff; }
V_FN VF vf_select(VM m, VF a, VF b) { return _mm256_blendv_ps(b, a, m); }
V_FN VI vi_select(VM m, VI a, VI b) {
    return vf_bits(_mm256_blendv_ps(vf_from_bits(b), vf_from_bits(a), m));
}

/* f32 comparisons */
V_FN VM vf_lt(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
V_FN VM vf_le(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
V_FN VM vf_gt(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
V_FN VM vf_ge(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
V_FN VM vf_eq(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
V_FN VM vf_ne(VF a, VF b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
V_FN VM vf_isnan(VF a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }

V_FN VF vf_min_sel(VF a, VF b) { return _mm256_min_ps(a, b); }
V_FN VF vf_max_sel(VF a, VF b) { return _mm256_max_ps(a, b); }
/* minps(a, b) | minps(b, a) is -0 if either zero is negative, and & gives +0 for the maximum; the
 * sum of unordered operands is their quiet NaN. */
V_FN VF vf_minimum(VF a, VF b) {
    VF r = _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a));
    return _mm256_blendv_ps(r, vf_add(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
V_FN VF vf_maximum(VF a, VF b) {
    VF r = _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a));
    return _mm256_blendv_ps(r, vf_add(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

#define V_ROUND_(a, mode) _mm256_round_ps((a), (mode) | _MM_FROUND_NO_EXC)
V_FN VF vf_rint(VF a) { return V_ROUND_(a, _MM_FROUND_TO_NEAREST_INT); }
V_FN VF vf_floor(VF a) { return V_ROUND_(a, _MM_FROUND_TO_NEG_INF); }
V_FN VF vf_ceil(VF a) { return V_ROUND_(a, _MM_FROUND_TO_POS_INF); }
V_FN VF vf_trunc(VF a) { return V_ROUND_(a, _MM_FROUND_TO_ZERO); }
#undef V_ROUND_
V_FN VI vf_cvt_i(VF a) { return _mm256_cvtps_epi32(a); }
V_FN VI vf_cvtt_i(VF a) { return _mm256_cvttps_epi32(a); }
V_FN VF vi_cvt_f(VI a) { return _mm256_cvtepi32_ps(a); }

/* i32 */
V_FN VI vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
V_FN VI vi_zero(void) { return _mm256_setzero_si256(); }
V_FN VI vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
V_FN VI vi_add(VI a, VI b) { return _mm256_add_epi32(a, b); }
V_FN VI vi_sub(VI a, VI b) { return _mm256_sub_epi32(a, b); }
V_FN VI vi_mul(VI a, VI b) { return _mm256_mullo_epi32(a, b); }
V_FN VI vi_mulhi_u(VI a, VI b) {
    VI even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
    VI odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    return _mm256_blend_epi32(even, odd, 0xaa);
}
V_FN VI vi_and(VI a, VI b) { return _mm256_and_si256(a, b); }
V_FN VI vi_or(VI a, VI b) { return _mm256_or_si256(a, b); }
V_FN VI vi_xor(VI a, VI b) { return _mm256_xor_si256(a, b); }
V_FN VI vi_sll(VI a, int count) { return _mm256_slli_epi32(a, count); }
V_FN VI vi_srl(VI a, int count) { return _mm256_srli_epi32(a, count); }
V_FN VI vi_sra(VI a, int count) { return _mm256_srai_epi32(a, count); }
V_FN VI vi_sllv(VI a, VI counts) { return _mm256_sllv_epi32(a, counts); }
V_FN VI vi_srlv(VI a, VI counts) { return _mm256_srlv_epi32(a, counts); }
V_FN VI vi_min(VI a, VI b) { return _mm256_min_epi32(a, b); }
V_FN VI vi_max(VI a, VI b) { return _mm256_max_epi32(a, b); }
V_FN VM vi_eq(VI a, VI b) { return vf_from_bits(_mm256_cmpeq_epi32(a, b)); }
V_FN VM vi_gt(VI a, VI b) { return vf_from_bits(_mm256_cmpgt_epi32(a, b)); }
V_FN VM vi_lt(VI a, VI b) { return vf_from_bits(_mm256_cmpgt_epi32(b, a)); }

/* i16 pairs and bytes in i32 lanes */
V_FN VI vw_add(VI a, VI b) { return _mm256_add_epi16(a, b); }
V_FN VI vw_sll(VI a, int count) { return _mm256_slli_epi16(a, count); }
V_FN VI vw_sra(VI a, int count) { return _mm256_srai_epi16(a, count); }
V_FN VI vw_dot_u8i8(VI a, VI b) { return _mm256_maddubs_epi16(a, b); }
V_FN VI vi_dot_i16(VI a, VI b) { return _mm256_madd_epi16(a, b); }

/* memory */
V_FN VI vi_first_n_(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), vi_iota()); }
V_FN VF vf_load(const float *p) { return _mm256_loadu_ps(p); }
V_FN void vf_store(float *p, VF v) { _mm256_storeu_ps(p, v); }
V_FN VF vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, vi_first_n_(n)); }
V_FN void vf_store_n(float *p, VF v, int n) { _mm256_maskstore_ps(p, vi_first_n_(n), v); }
V_FN void vf_stream(float *p, VF v) { _mm256_stream_ps(p, v); }
V_FN void v_stream_fence(void) { _mm_sfence(); }
V_FN VI vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
V_FN void vi_store(int32_t *p, VI v) { _mm256_storeu_si256((__m256i *)p, v); }
V_FN VI vi_load_n(const int32_t *p, int n) { return _mm256_maskload_epi32(p, vi_first_n_(n)); }
V_FN void vi_store_n(int32_t *p, VI v, int n) { _mm256_maskstore_epi32(p, vi_first_n_(n), v); }
V_FN VI vi_load_i8(const int8_t *p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
V_FN VI vi_load_u8(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* f16, bf16: eight 16-bit values in an __m128i */
V_FN __m128i v_load16_(const uint16_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
V_FN __m128i v_load16_n_(const uint16_t *p, int n) {
    uint16_t t[8] = {0};
    memcpy(t, p, (size_t)n * sizeof *p);
    return v_load16_(t);
}
V_FN void v_store16_(uint16_t *p, __m128i v) { _mm_storeu_si128((__m128i *)(void *)p, v); }
V_FN void v_store16_n_(uint16_t *p, __m128i v, int n) {
    uint16_t t[8];
    v_store16_(t, v);
    memcpy(p, t, (size_t)n * sizeof *p);
}
V_FN __m128i vf_to_f16_(VF v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
V_FN VF vf_of_bf16_(__m128i h) {
    return vf_from_bits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
V_FN __m128i vf_to_bf16_(VF v) {
    VI b = vf_bits(v);
    VI odd = vi_and(vi_srl(b, 16), vi_set1(1));
    VI rounded = vi_srl(vi_add(b, vi_add(odd, vi_set1(0x7fff))), 16);
    VI r = vi_select(vf_isnan(v), vi_or(vi_srl(b, 16), vi_set1(0x40)), rounded);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}
V_FN VF vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(v_load16_(p)); }
V_FN VF vf_load_f16_n(const uint16_t *p, int n) { return _mm256_cvtph_ps(v_load16_n_(p, n)); }
V_FN void vf_store_f16(uint16_t *p, VF v) { v_store16_(p, vf_to_f16_(v)); }
V_FN void vf_store_f16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_f16_(v), n); }
V_FN VF vf_load_bf16(const uint16_t *p) { return vf_of_bf16_(v_load16_(p)); }
V_FN VF vf_load_bf16_n(const uint16_t *p, int n) { return vf_of_bf16_(v_load16_n_(p, n)); }
V_FN void vf_store_bf16(uint16_t *p, VF v) { v_store16_(p, vf_to_bf16_(v)); }
V_FN void vf_store_bf16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_bf16_(v), n); }

/* reductions of one register: fold the upper half onto the lower */
#define V_FOLD_(v, op)                                                                             \
    VF h8_ = op((v), _mm256_permute2f128_ps((v), (v), 1));                                         \
    VF h4_ = op(h8_, _mm256_permute_ps(h8_, 0x4e));                                                \
    VF h2_ = op(h4_, _mm256_permute_ps(h4_, 0xb1));                                                \
    return _mm256_cvtss_f32(h2_)
V_FN float vf_reduce_add(VF v) { V_FOLD_(v, vf_add); }
V_FN float vf_reduce_maximum(VF v) { V_FOLD_(v, vf_maximum); }
V_FN float vf_reduce_minimum(VF v) { V_FOLD_(v, vf_minimum); }
#undef V_FOLD_

#endif
