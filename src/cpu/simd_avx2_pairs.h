/* Vector vocabulary, AVX2 with two registers side by side: 16 lanes. Meanings are stated in cpu/simd.h.
 *
 * For generated code, whose loops are long chains of dependent operations: every operation is written for both halves, so two
 * chains alternate in the text and hide each other's latency. Out of order execution alone does not: one chain of an
 * exponential has more instructions than the scheduler of a core holds. Kernels that interleave by themselves use simd_avx2.h. */
#ifndef MLSI_CPU_SIMD_AVX2_PAIRS_H
#define MLSI_CPU_SIMD_AVX2_PAIRS_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VF_LANES        16
#define VF_STREAM_ALIGN 32
#define VF_ISA_NAME     "avx2 pairs"
/* Always inlined: a vector must never cross a call between sources built for different ISAs. */
#define V_FN static inline __attribute__((always_inline))

typedef struct VF {
    __m256 a, b;
} VF;
typedef struct VI {
    __m256i a, b;
} VI;
typedef struct VM { /* all ones or all zeros per lane */
    __m256 a, b;
} VM;

#define V_1_(R, name, X, half)                                                                     \
    V_FN R name(X x) { return (R){half(x.a), half(x.b)}; }
#define V_2_(R, name, X, half)                                                                     \
    V_FN R name(X x, X y) { return (R){half(x.a, y.a), half(x.b, y.b)}; }
#define V_3_(R, name, X, half)                                                                     \
    V_FN R name(X x, X y, X z) { return (R){half(x.a, y.a, z.a), half(x.b, y.b, z.b)}; }
#define V_SHIFT_(name, half)                                                                       \
    V_FN VI name(VI x, int count) { return (VI){half(x.a, count), half(x.b, count)}; }

/* f32 arithmetic */
V_FN VF vf_set1(float x) { return (VF){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
V_FN VF vf_zero(void) { return (VF){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
V_2_(VF, vf_add, VF, _mm256_add_ps)
V_2_(VF, vf_sub, VF, _mm256_sub_ps)
V_2_(VF, vf_mul, VF, _mm256_mul_ps)
V_2_(VF, vf_div, VF, _mm256_div_ps)
V_1_(VF, vf_sqrt, VF, _mm256_sqrt_ps)
V_3_(VF, vf_fma, VF, _mm256_fmadd_ps)
V_3_(VF, vf_fms, VF, _mm256_fmsub_ps)
V_3_(VF, vf_fnma, VF, _mm256_fnmadd_ps)

/* reinterpretation and signs */
V_1_(VI, vf_bits, VF, _mm256_castps_si256)
V_1_(VF, vf_from_bits, VI, _mm256_castsi256_ps)
V_FN __m256 v_abs_(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
V_FN __m256 v_neg_(__m256 x) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), x); }
V_FN __m256 v_copysign_(__m256 mag, __m256 sgn) {
    return _mm256_or_ps(v_abs_(mag), _mm256_and_ps(_mm256_set1_ps(-0.0f), sgn));
}
V_1_(VF, vf_abs, VF, v_abs_)
V_1_(VF, vf_neg, VF, v_neg_)
V_2_(VF, vf_copysign, VF, v_copysign_)

/* masks */
V_2_(VM, vm_and, VM, _mm256_and_ps)
V_2_(VM, vm_or, VM, _mm256_or_ps)
V_2_(VM, vm_xor, VM, _mm256_xor_ps)
V_FN __m256 v_not_(__m256 x) {
    return _mm256_xor_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
V_1_(VM, vm_not, VM, v_not_)
V_FN int vm_any(VM m) { return _mm256_movemask_ps(_mm256_or_ps(m.a, m.b)) != 0; }
V_FN int vm_all(VM m) { return _mm256_movemask_ps(_mm256_and_ps(m.a, m.b)) == 0xff; }
V_FN VF vf_select(VM m, VF x, VF y) {
    return (VF){_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}
V_FN VI vi_select(VM m, VI x, VI y) {
    return vf_bits(vf_select(m, vf_from_bits(x), vf_from_bits(y)));
}

/* f32 comparisons */
#define V_COMPARE_(name, how)                                                                      \
    V_FN VM name(VF x, VF y) {                                                                     \
        return (VM){_mm256_cmp_ps(x.a, y.a, how), _mm256_cmp_ps(x.b, y.b, how)};                   \
    }
V_COMPARE_(vf_lt, _CMP_LT_OQ)
V_COMPARE_(vf_le, _CMP_LE_OQ)
V_COMPARE_(vf_gt, _CMP_GT_OQ)
V_COMPARE_(vf_ge, _CMP_GE_OQ)
V_COMPARE_(vf_eq, _CMP_EQ_OQ)
V_COMPARE_(vf_ne, _CMP_NEQ_UQ)
V_COMPARE_(v_unordered_, _CMP_UNORD_Q)
V_FN VM vf_isnan(VF x) { return v_unordered_(x, x); }

V_2_(VF, vf_min_sel, VF, _mm256_min_ps)
V_2_(VF, vf_max_sel, VF, _mm256_max_ps)
/* min(x, y) | min(y, x) is -0 if either zero is negative, and & gives +0 for the maximum; the sum of unordered operands is
 * their quiet NaN. */
V_FN __m256 v_either_(__m256 x, __m256 y, __m256 r) {
    return _mm256_blendv_ps(r, _mm256_add_ps(x, y), _mm256_cmp_ps(x, y, _CMP_UNORD_Q));
}
V_FN __m256 v_minimum_(__m256 x, __m256 y) {
    return v_either_(x, y, _mm256_or_ps(_mm256_min_ps(x, y), _mm256_min_ps(y, x)));
}
V_FN __m256 v_maximum_(__m256 x, __m256 y) {
    return v_either_(x, y, _mm256_and_ps(_mm256_max_ps(x, y), _mm256_max_ps(y, x)));
}
V_2_(VF, vf_minimum, VF, v_minimum_)
V_2_(VF, vf_maximum, VF, v_maximum_)

#define V_ROUND_(name, mode)                                                                       \
    V_FN VF name(VF x) {                                                                           \
        return (VF){_mm256_round_ps(x.a, (mode) | _MM_FROUND_NO_EXC),                              \
                    _mm256_round_ps(x.b, (mode) | _MM_FROUND_NO_EXC)};                             \
    }
V_ROUND_(vf_rint, _MM_FROUND_TO_NEAREST_INT)
V_ROUND_(vf_floor, _MM_FROUND_TO_NEG_INF)
V_ROUND_(vf_ceil, _MM_FROUND_TO_POS_INF)
V_ROUND_(vf_trunc, _MM_FROUND_TO_ZERO)
V_1_(VI, vf_cvt_i, VF, _mm256_cvtps_epi32)
V_1_(VI, vf_cvtt_i, VF, _mm256_cvttps_epi32)
V_1_(VF, vi_cvt_f, VI, _mm256_cvtepi32_ps)

/* i32 */
V_FN VI vi_set1(int32_t x) { return (VI){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
V_FN VI vi_zero(void) { return (VI){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
V_FN VI vi_iota(void) {
    return (VI){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
V_FN __m256i v_mulhi_u_(__m256i x, __m256i y) {
    __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, y), 32);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    return _mm256_blend_epi32(even, odd, 0xaa);
}
V_2_(VI, vi_add, VI, _mm256_add_epi32)
V_2_(VI, vi_sub, VI, _mm256_sub_epi32)
V_2_(VI, vi_mul, VI, _mm256_mullo_epi32)
V_2_(VI, vi_mulhi_u, VI, v_mulhi_u_)
V_2_(VI, vi_and, VI, _mm256_and_si256)
V_2_(VI, vi_or, VI, _mm256_or_si256)
V_2_(VI, vi_xor, VI, _mm256_xor_si256)
V_SHIFT_(vi_sll, _mm256_slli_epi32)
V_SHIFT_(vi_srl, _mm256_srli_epi32)
V_SHIFT_(vi_sra, _mm256_srai_epi32)
V_2_(VI, vi_sllv, VI, _mm256_sllv_epi32)
V_2_(VI, vi_srlv, VI, _mm256_srlv_epi32)
V_2_(VI, vi_min, VI, _mm256_min_epi32)
V_2_(VI, vi_max, VI, _mm256_max_epi32)
V_FN __m256 v_eq_(__m256i x, __m256i y) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(x, y)); }
V_FN __m256 v_gt_(__m256i x, __m256i y) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(x, y)); }
V_2_(VM, vi_eq, VI, v_eq_)
V_2_(VM, vi_gt, VI, v_gt_)
V_FN VM vi_lt(VI x, VI y) { return vi_gt(y, x); }

/* i16 pairs and bytes in i32 lanes */
V_2_(VI, vw_add, VI, _mm256_add_epi16)
V_SHIFT_(vw_sll, _mm256_slli_epi16)
V_SHIFT_(vw_sra, _mm256_srai_epi16)
V_2_(VI, vw_dot_u8i8, VI, _mm256_maddubs_epi16)
V_2_(VI, vi_dot_i16, VI, _mm256_madd_epi16)

/* memory */
V_FN VI vi_first_n_(int n) {
    const VI at = vi_iota();
    const __m256i end = _mm256_set1_epi32(n);
    return (VI){_mm256_cmpgt_epi32(end, at.a), _mm256_cmpgt_epi32(end, at.b)};
}
V_FN VF vf_load(const float *p) { return (VF){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
V_FN void vf_store(float *p, VF v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
/* Masked lanes fault at no address. */
V_FN VF vf_load_n(const float *p, int n) {
    VI m = vi_first_n_(n);
    return (VF){_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}
V_FN void vf_store_n(float *p, VF v, int n) {
    VI m = vi_first_n_(n);
    _mm256_maskstore_ps(p, m.a, v.a);
    _mm256_maskstore_ps(p + 8, m.b, v.b);
}
V_FN void vf_stream(float *p, VF v) {
    _mm256_stream_ps(p, v.a);
    _mm256_stream_ps(p + 8, v.b);
}
V_FN void v_stream_fence(void) { _mm_sfence(); }
V_FN VI vi_load(const int32_t *p) {
    return (VI){_mm256_loadu_si256((const __m256i *)p),
                _mm256_loadu_si256((const __m256i *)(p + 8))};
}
V_FN void vi_store(int32_t *p, VI v) {
    _mm256_storeu_si256((__m256i *)p, v.a);
    _mm256_storeu_si256((__m256i *)(p + 8), v.b);
}
V_FN VI vi_load_n(const int32_t *p, int n) {
    VI m = vi_first_n_(n);
    return (VI){_mm256_maskload_epi32(p, m.a), _mm256_maskload_epi32(p + 8, m.b)};
}
V_FN void vi_store_n(int32_t *p, VI v, int n) {
    VI m = vi_first_n_(n);
    _mm256_maskstore_epi32(p, m.a, v.a);
    _mm256_maskstore_epi32(p + 8, m.b, v.b);
}
V_FN VI vi_load_i8(const int8_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (VI){_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x))};
}
V_FN VI vi_load_u8(const uint8_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (VI){_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(x, x))};
}

/* f16, bf16: sixteen 16-bit values in two __m128i */
typedef struct v_halves_ {
    __m128i a, b;
} v_halves_;
V_FN v_halves_ v_load16_(const uint16_t *p) {
    return (v_halves_){_mm_loadu_si128((const __m128i *)(const void *)p),
                       _mm_loadu_si128((const __m128i *)(const void *)(p + 8))};
}
V_FN v_halves_ v_load16_n_(const uint16_t *p, int n) {
    uint16_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *p);
    return v_load16_(t);
}
V_FN void v_store16_(uint16_t *p, v_halves_ v) {
    _mm_storeu_si128((__m128i *)(void *)p, v.a);
    _mm_storeu_si128((__m128i *)(void *)(p + 8), v.b);
}
V_FN void v_store16_n_(uint16_t *p, v_halves_ v, int n) {
    uint16_t t[VF_LANES];
    v_store16_(t, v);
    memcpy(p, t, (size_t)n * sizeof *p);
}
V_FN v_halves_ vf_to_f16_(VF v) {
    return (v_halves_){_mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT),
                       _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT)};
}
V_FN VF vf_of_f16_(v_halves_ h) { return (VF){_mm256_cvtph_ps(h.a), _mm256_cvtph_ps(h.b)}; }
V_FN VF vf_of_bf16_(v_halves_ h) {
    return vf_from_bits(vi_sll((VI){_mm256_cvtepu16_epi32(h.a), _mm256_cvtepu16_epi32(h.b)}, 16));
}
V_FN __m128i v_pack16_(__m256i x) {
    return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
V_FN v_halves_ vf_to_bf16_(VF v) {
    VI b = vf_bits(v);
    VI odd = vi_and(vi_srl(b, 16), vi_set1(1));
    VI rounded = vi_srl(vi_add(b, vi_add(odd, vi_set1(0x7fff))), 16);
    VI r = vi_select(vf_isnan(v), vi_or(vi_srl(b, 16), vi_set1(0x40)), rounded);
    return (v_halves_){v_pack16_(r.a), v_pack16_(r.b)};
}
V_FN VF vf_load_f16(const uint16_t *p) { return vf_of_f16_(v_load16_(p)); }
V_FN VF vf_load_f16_n(const uint16_t *p, int n) { return vf_of_f16_(v_load16_n_(p, n)); }
V_FN void vf_store_f16(uint16_t *p, VF v) { v_store16_(p, vf_to_f16_(v)); }
V_FN void vf_store_f16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_f16_(v), n); }
V_FN VF vf_load_bf16(const uint16_t *p) { return vf_of_bf16_(v_load16_(p)); }
V_FN VF vf_load_bf16_n(const uint16_t *p, int n) { return vf_of_bf16_(v_load16_n_(p, n)); }
V_FN void vf_store_bf16(uint16_t *p, VF v) { v_store16_(p, vf_to_bf16_(v)); }
V_FN void vf_store_bf16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_bf16_(v), n); }

/* reductions: fold the upper half onto the lower; the halves first */
#define V_FOLD_(v, op)                                                                             \
    __m256 h16_ = op((v).a, (v).b);                                                                \
    __m256 h8_ = op(h16_, _mm256_permute2f128_ps(h16_, h16_, 1));                                  \
    __m256 h4_ = op(h8_, _mm256_permute_ps(h8_, 0x4e));                                            \
    __m256 h2_ = op(h4_, _mm256_permute_ps(h4_, 0xb1));                                            \
    return _mm256_cvtss_f32(h2_)
V_FN float vf_reduce_add(VF v) { V_FOLD_(v, _mm256_add_ps); }
V_FN float vf_reduce_maximum(VF v) { V_FOLD_(v, v_maximum_); }
V_FN float vf_reduce_minimum(VF v) { V_FOLD_(v, v_minimum_); }

#undef V_1_
#undef V_2_
#undef V_3_
#undef V_SHIFT_
#undef V_COMPARE_
#undef V_ROUND_
#undef V_FOLD_

#endif
