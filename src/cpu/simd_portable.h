/* Vector vocabulary without instruction-set intrinsics: 4 lanes in a GCC/Clang vector of 16 bytes,
 * the width that every SIMD baseline (SSE2, NEON, Wasm) holds in one register and passes by value.
 * Arithmetic, comparisons and integers are vector operators; FMA and square root go lane by lane
 * through the C library, which is exact everywhere but slow where the machine has no FMA.
 * Meanings are stated in cpu/simd.h. */
#ifndef MLSI_CPU_SIMD_PORTABLE_H
#define MLSI_CPU_SIMD_PORTABLE_H

#include <stdint.h>
#include <string.h>

#define VF_LANES        4
#define VF_STREAM_ALIGN 16
#define VF_ISA_NAME     "portable"
#define V_FN            static inline __attribute__((always_inline))

typedef float VF __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef uint32_t VU_ __attribute__((vector_size(16)));
typedef VI VM; /* -1 or 0 per lane */

#define V_EACH_ for (int i = 0; i < VF_LANES; i++)

/* f32 arithmetic */
V_FN VF vf_set1(float x) { return (VF){x, x, x, x}; }
V_FN VF vf_zero(void) { return vf_set1(0.0f); }
V_FN VF vf_add(VF a, VF b) { return a + b; }
V_FN VF vf_sub(VF a, VF b) { return a - b; }
V_FN VF vf_mul(VF a, VF b) { return a * b; }
V_FN VF vf_div(VF a, VF b) { return a / b; }
V_FN VF vf_sqrt(VF a) {
    VF r;
    V_EACH_ r[i] = __builtin_sqrtf(a[i]);
    return r;
}
V_FN VF vf_fma(VF a, VF b, VF c) {
    VF r;
    V_EACH_ r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}
V_FN VF vf_fms(VF a, VF b, VF c) { return vf_fma(a, b, -c); }
V_FN VF vf_fnma(VF a, VF b, VF c) { return vf_fma(-a, b, c); }

/* reinterpretation and signs */
V_FN VI vf_bits(VF a) { return (VI)a; }
V_FN VF vf_from_bits(VI a) { return (VF)a; }
V_FN VI vi_set1(int32_t x) { return (VI){x, x, x, x}; }
V_FN VI vi_zero(void) { return vi_set1(0); }
V_FN VF vf_abs(VF a) { return (VF)((VI)a & vi_set1(INT32_MAX)); }
V_FN VF vf_neg(VF a) { return (VF)((VI)a ^ vi_set1(INT32_MIN)); }
V_FN VF vf_copysign(VF mag, VF sgn) {
    return (VF)(((VI)mag & vi_set1(INT32_MAX)) | ((VI)sgn & vi_set1(INT32_MIN)));
}

/* masks */
V_FN VM vm_and(VM a, VM b) { return a & b; }
V_FN VM vm_or(VM a, VM b) { return a | b; }
V_FN VM vm_xor(VM a, VM b) { return a ^ b; }
V_FN VM vm_not(VM a) { return ~a; }
V_FN int vm_any(VM a) { return (a[0] | a[1] | a[2] | a[3]) != 0; }
V_FN int vm_all(VM a) { return (a[0] & a[1] & a[2] & a[3]) != 0; }
V_FN VI vi_select(VM m, VI a, VI b) { return (m & a) | (~m & b); }
V_FN VF vf_select(VM m, VF a, VF b) { return (VF)vi_select(m, (VI)a, (VI)b); }

/* f32 comparisons */
V_FN VM vf_lt(VF a, VF b) { return (VM)(a < b); }
V_FN VM vf_le(VF a, VF b) { return (VM)(a <= b); }
V_FN VM vf_gt(VF a, VF b) { return (VM)(a > b); }
V_FN VM vf_ge(VF a, VF b) { return (VM)(a >= b); }
V_FN VM vf_eq(VF a, VF b) { return (VM)(a == b); }
V_FN VM vf_ne(VF a, VF b) { return (VM)(a != b); }
V_FN VM vf_isnan(VF a) { return (VM)(a != a); }

V_FN VF vf_min_sel(VF a, VF b) { return vf_select(vf_lt(a, b), a, b); }
V_FN VF vf_max_sel(VF a, VF b) { return vf_select(vf_gt(a, b), a, b); }
/* Equal operands differ only as zeros: | of the bits is -0 if either is, & is +0 if either is. */
V_FN VF vf_minimum(VF a, VF b) {
    VF r = (VF)((VI)vf_min_sel(a, b) | (VI)vf_min_sel(b, a));
    return vf_select(vm_or(vf_isnan(a), vf_isnan(b)), a + b, r);
}
V_FN VF vf_maximum(VF a, VF b) {
    VF r = (VF)((VI)vf_max_sel(a, b) & (VI)vf_max_sel(b, a));
    return vf_select(vm_or(vf_isnan(a), vf_isnan(b)), a + b, r);
}

/* Adding and taking away 2^23 rounds |a| < 2^23 to an integer; larger values are integers. */
V_FN VF vf_rint(VF a) {
    VF mag = vf_abs(a), two23 = vf_set1(0x1p23f);
    VF r = vf_copysign((mag + two23) - two23, a);
    return vf_select(vf_lt(mag, two23), r, a + vf_zero());
}
V_FN VF vf_floor(VF a) {
    VF r = vf_rint(a);
    return vf_select(vf_gt(r, a), vf_copysign(r - vf_set1(1.0f), a), r);
}
V_FN VF vf_ceil(VF a) { return vf_neg(vf_floor(vf_neg(a))); }
V_FN VF vf_trunc(VF a) { return vf_copysign(vf_floor(vf_abs(a)), a); }
/* Out of range: the conversion of INT32_MIN, so that no lane is undefined in C. */
V_FN VI vf_cvtt_i(VF a) {
    VM fits = vm_and(vf_ge(a, vf_set1(-0x1p31f)), vf_lt(a, vf_set1(0x1p31f)));
    VF safe = vf_select(fits, a, vf_set1(-0x1p31f));
    VI r;
    V_EACH_ r[i] = (int32_t)safe[i];
    return r;
}
V_FN VI vf_cvt_i(VF a) { return vf_cvtt_i(vf_rint(a)); }
V_FN VF vi_cvt_f(VI a) {
    VF r;
    V_EACH_ r[i] = (float)a[i];
    return r;
}

/* i32: through unsigned lanes where signed overflow would be undefined */
V_FN VI vi_iota(void) { return (VI){0, 1, 2, 3}; }
V_FN VI vi_add(VI a, VI b) { return (VI)((VU_)a + (VU_)b); }
V_FN VI vi_sub(VI a, VI b) { return (VI)((VU_)a - (VU_)b); }
V_FN VI vi_mul(VI a, VI b) { return (VI)((VU_)a * (VU_)b); }
V_FN VI vi_mulhi_u(VI a, VI b) {
    VI r;
    V_EACH_ r[i] = (int32_t)(uint32_t)(((uint64_t)(uint32_t)a[i] * (uint32_t)b[i]) >> 32);
    return r;
}
V_FN VI vi_and(VI a, VI b) { return a & b; }
V_FN VI vi_or(VI a, VI b) { return a | b; }
V_FN VI vi_xor(VI a, VI b) { return a ^ b; }
V_FN VI vi_sll(VI a, int count) { return (VI)((VU_)a << (unsigned)count); }
V_FN VI vi_srl(VI a, int count) { return (VI)((VU_)a >> (unsigned)count); }
V_FN VI vi_sra(VI a, int count) { return a >> count; }
V_FN VI vi_sllv(VI a, VI counts) {
    VI ok = (VI)((VU_)counts < (VU_)vi_set1(32));
    return (VI)((VU_)a << ((VU_)counts & (VU_)vi_set1(31))) & ok;
}
V_FN VI vi_srlv(VI a, VI counts) {
    VI ok = (VI)((VU_)counts < (VU_)vi_set1(32));
    return (VI)((VU_)a >> ((VU_)counts & (VU_)vi_set1(31))) & ok;
}
V_FN VM vi_eq(VI a, VI b) { return (VM)(a == b); }
V_FN VM vi_gt(VI a, VI b) { return (VM)(a > b); }
V_FN VM vi_lt(VI a, VI b) { return (VM)(a < b); }
V_FN VI vi_min(VI a, VI b) { return vi_select(vi_lt(a, b), a, b); }
V_FN VI vi_max(VI a, VI b) { return vi_select(vi_gt(a, b), a, b); }

/* i16 pairs and bytes in i32 lanes */
typedef int16_t VW_ __attribute__((vector_size(16)));
typedef uint16_t VUW_ __attribute__((vector_size(16)));
typedef int8_t VB_ __attribute__((vector_size(16)));
typedef uint8_t VUB_ __attribute__((vector_size(16)));
V_FN VI vw_add(VI a, VI b) { return (VI)((VUW_)a + (VUW_)b); }
V_FN VI vw_sll(VI a, int count) { return (VI)((VUW_)a << (uint16_t)count); }
V_FN VI vw_sra(VI a, int count) { return (VI)((VW_)a >> (int16_t)count); }
V_FN VI vw_dot_u8i8(VI a, VI b) {
    VUB_ u = (VUB_)a;
    VB_ s = (VB_)b;
    VW_ r;
    for (int i = 0; i < 8; i++)
        r[i] = (int16_t)(u[2 * i] * s[2 * i] + u[2 * i + 1] * s[2 * i + 1]);
    return (VI)r;
}
V_FN VI vi_dot_i16(VI a, VI b) {
    VW_ x = (VW_)a, y = (VW_)b;
    VI r;
    V_EACH_
    r[i] = (int32_t)((uint32_t)(x[2 * i] * y[2 * i]) + (uint32_t)(x[2 * i + 1] * y[2 * i + 1]));
    return r;
}

/* memory */
V_FN VF vf_load_n(const float *p, int n) {
    float t[VF_LANES] = {0};
    VF r;
    memcpy(t, p, (size_t)n * sizeof *p);
    memcpy(&r, t, sizeof r);
    return r;
}
V_FN void vf_store_n(float *p, VF v, int n) { memcpy(p, &v, (size_t)n * sizeof *p); }
V_FN VF vf_load(const float *p) { return vf_load_n(p, VF_LANES); }
V_FN void vf_store(float *p, VF v) { vf_store_n(p, v, VF_LANES); }
V_FN void vf_stream(float *p, VF v) { vf_store(p, v); }
V_FN void v_stream_fence(void) {}
V_FN VI vi_load_n(const int32_t *p, int n) {
    int32_t t[VF_LANES] = {0};
    VI r;
    memcpy(t, p, (size_t)n * sizeof *p);
    memcpy(&r, t, sizeof r);
    return r;
}
V_FN void vi_store_n(int32_t *p, VI v, int n) { memcpy(p, &v, (size_t)n * sizeof *p); }
V_FN VI vi_load(const int32_t *p) { return vi_load_n(p, VF_LANES); }
V_FN void vi_store(int32_t *p, VI v) { vi_store_n(p, v, VF_LANES); }
V_FN VI vi_load_i8(const int8_t *p) { return (VI){p[0], p[1], p[2], p[3]}; }
V_FN VI vi_load_u8(const uint8_t *p) { return (VI){p[0], p[1], p[2], p[3]}; }

/* f16: the exponent is rebased by an exact multiplication with 2^112, which also turns half
 * subnormals into normal values; infinities and NaNs get the full exponent afterwards. */
V_FN VF vf_of_f16_(VI h) {
    VI sign = vi_sll(h & vi_set1(0x8000), 16);
    VI mag = h & vi_set1(0x7fff);
    VI finite = (VI)((VF)vi_sll(mag, 13) * vf_set1(0x1p112f));
    VI quiet = vi_set1(0x400000) & vi_gt(mag, vi_set1(0x7c00));
    VI special = vi_sll(mag, 13) | vi_set1(0x7f800000) | quiet;
    return (VF)(sign | vi_select(vi_lt(mag, vi_set1(0x7c00)), finite, special));
}
/* A normal half is rounded by the carry of an integer add.  Below 2^-14, adding 0.5 lets the
 * hardware round to a multiple of 2^-24, the unit of half subnormals, left in the low bits. */
V_FN VI vf_to_f16_(VF v) {
    VI bits = (VI)v;
    VI sign = vi_srl(bits, 16) & vi_set1(0x8000);
    VI mag = bits & vi_set1(INT32_MAX);
    VI odd = vi_srl(mag, 13) & vi_set1(1);
    VI normal = vi_srl(vi_add(mag, vi_add(odd, vi_set1(0xfff - (112 << 23)))), 13);
    VI small = vi_sub((VI)((VF)mag + vf_set1(0.5f)), vi_set1(0x3f000000));
    VI nan = vi_srl(mag & vi_set1(0x7fffff), 13) | vi_set1(0x7e00);
    VI r = vi_select(vi_lt(mag, vi_set1(0x38800000)), small, normal);
    r = vi_select(vi_gt(mag, vi_set1(0x477fefff)), vi_set1(0x7c00), r);
    return sign | vi_select(vi_gt(mag, vi_set1(0x7f800000)), nan, r);
}
V_FN VF vf_of_bf16_(VI h) { return (VF)vi_sll(h, 16); }
V_FN VI vf_to_bf16_(VF v) {
    VI b = (VI)v;
    VI odd = vi_srl(b, 16) & vi_set1(1);
    VI rounded = vi_srl(vi_add(b, vi_add(odd, vi_set1(0x7fff))), 16);
    return vi_select(vf_isnan(v), vi_srl(b, 16) | vi_set1(0x40), rounded);
}
V_FN VI v_load16_n_(const uint16_t *p, int n) {
    uint16_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *p);
    return (VI){t[0], t[1], t[2], t[3]};
}
V_FN void v_store16_n_(uint16_t *p, VI v, int n) {
    uint16_t t[VF_LANES];
    V_EACH_ t[i] = (uint16_t)v[i];
    memcpy(p, t, (size_t)n * sizeof *p);
}
V_FN VF vf_load_f16_n(const uint16_t *p, int n) { return vf_of_f16_(v_load16_n_(p, n)); }
V_FN VF vf_load_f16(const uint16_t *p) { return vf_load_f16_n(p, VF_LANES); }
V_FN void vf_store_f16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_f16_(v), n); }
V_FN void vf_store_f16(uint16_t *p, VF v) { vf_store_f16_n(p, v, VF_LANES); }
V_FN VF vf_load_bf16_n(const uint16_t *p, int n) { return vf_of_bf16_(v_load16_n_(p, n)); }
V_FN VF vf_load_bf16(const uint16_t *p) { return vf_load_bf16_n(p, VF_LANES); }
V_FN void vf_store_bf16_n(uint16_t *p, VF v, int n) { v_store16_n_(p, vf_to_bf16_(v), n); }
V_FN void vf_store_bf16(uint16_t *p, VF v) { vf_store_bf16_n(p, v, VF_LANES); }

/* reductions of one register: fold the upper half onto the lower */
#define V_FOLD_(v, op)                                                                             \
    VF h4_ = op((v), (VF){(v)[2], (v)[3], (v)[0], (v)[1]});                                        \
    VF h2_ = op(h4_, (VF){h4_[1], h4_[0], h4_[3], h4_[2]});                                        \
    return h2_[0]
V_FN float vf_reduce_add(VF v) { V_FOLD_(v, vf_add); }
V_FN float vf_reduce_maximum(VF v) { V_FOLD_(v, vf_maximum); }
V_FN float vf_reduce_minimum(VF v) { V_FOLD_(v, vf_minimum); }
#undef V_FOLD_
#undef V_EACH_

#endif
