/* The vocabulary of generated CUDA C (ir/codegen/cuda*.c): one lane a thread, then the text that generated C uses too, so that
 * both compute the same bits. Embedded into the library as text with all that it includes and put before the kernels; nvcc
 * takes the header itself. Compile with --fmad=false --prec-div=true --prec-sqrt=true --ftz=false.
 *
 * NVRTC has no headers: what <stdint.h> and the compiler's builtins would give is defined here for it. */
#ifndef MLSI_CUDA_GEN_DEVICE_H
#define MLSI_CUDA_GEN_DEVICE_H

#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177,                                                                      \
    550 /* it holds more than one kernel uses; a result may be all zeros */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INT64_C(x)  x##LL
#define UINT64_C(x) x##ULL
#define INT64_MAX   INT64_C(9223372036854775807)
#define INT64_MIN   (-INT64_MAX - 1)
#define INT32_MAX   2147483647
#define INT32_MIN   (-INT32_MAX - 1)
#define INT16_MAX   32767
#define INT16_MIN   (-32768)
#define INT8_MAX    127
#define INT8_MIN    (-128)
#define UINT8_MAX   255
#endif

#define MLSI_TEXT_FN    static __device__ inline
#define MLSI_TEXT_CONST static __device__ const

/* The builtins that generated text and the shared headers name. Each is exact or rounded once: fmod too, as CUDA's has no error. */
#ifdef __CUDACC__
#define __builtin_fabsf(x)        fabsf(x)
#define __builtin_fabs(x)         fabs(x)
#define __builtin_floor(x)        floor(x)
#define __builtin_ceil(x)         ceil(x)
#define __builtin_trunc(x)        trunc(x)
#define __builtin_nearbyint(x)    rint(x)
#define __builtin_sqrtf(x)        __fsqrt_rn(x)
#define __builtin_sqrt(x)         __dsqrt_rn(x)
#define __builtin_fmaf(x, y, z)   __fmaf_rn(x, y, z)
#define __builtin_fma(x, y, z)    __fma_rn(x, y, z)
#define __builtin_fmodf(x, y)     fmodf(x, y)
#define __builtin_fmod(x, y)      fmod(x, y)
#define __builtin_copysignf(x, y) copysignf(x, y)
#define __builtin_copysign(x, y)  copysign(x, y)
#define __builtin_signbit(x)      (__double_as_longlong(x) < 0)
#define __builtin_inff()          __int_as_float(0x7f800000)
#define __builtin_inf()           __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(text)      __int_as_float(0x7fc00000)
#define __builtin_nan(text)       __longlong_as_double(0x7ff8000000000000LL)
#endif

#include "core/small_float.h"
#include "cuda/elementary_device.h"

/* ---- the rest of the vector vocabulary, as far as one lane needs it: cpu/simd.h ---------------------------- */

/* Equal operands differ only as zeros: | of the bits is -0 if either is, & is +0 if either is. */
V_FN VF vf_minimum(VF a, VF b) {
    if (a != a || b != b) return vf_add(a, b);
    return vf_from_bits(vf_bits(vf_min_sel(a, b)) | vf_bits(vf_min_sel(b, a)));
}
V_FN VF vf_maximum(VF a, VF b) {
    if (a != a || b != b) return vf_add(a, b);
    return vf_from_bits(vf_bits(vf_max_sel(a, b)) & vf_bits(vf_max_sel(b, a)));
}
V_FN VF vf_floor(VF a) { return floorf(a); }
V_FN VF vf_ceil(VF a) { return ceilf(a); }
V_FN VF vf_trunc(VF a) { return truncf(a); }
V_FN void vf_store(float *p, VF v) { *p = v; }

/* Integer code, as small_float.h; f16 by the machine's conversions, which are exact or round once to nearest even. */
V_FN VF vf_load_f16_n(const uint16_t *p, int) {
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(*p));
    if (x == x) return x;
    return vf_from_bits((*p & 0x8000) << 16 | 0x7fc00000 |
                        (*p & 0x3ff) << 13); /* keeps a NaN's bits */
#else
    return (float)small_to_f64(*p, small_f16);
#endif
}
V_FN void vf_store_f16_n(uint16_t *p, VF v, int) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*p) : "f"(v));
    if (v != v) *p = (uint16_t)((vf_bits(v) >> 16 & 0x8000) | 0x7e00 | (vf_bits(v) >> 13 & 0x3ff));
#else
    *p = (uint16_t)small_from_f64(v, small_f16);
#endif
}
V_FN VF vf_load_bf16_n(const uint16_t *p, int) { return vf_from_bits(vi_sll(*p, 16)); }
V_FN void vf_store_bf16_n(uint16_t *p, VF v, int) {
    VI b = vf_bits(v), odd = vi_and(vi_srl(b, 16), 1);
    VI rounded = vi_srl(vi_add(b, vi_add(odd, 0x7fff)), 16);
    *p = (uint16_t)(v != v ? vi_or(vi_srl(b, 16), 0x40) : rounded);
}
V_FN VF vf_load_f16(const uint16_t *p) { return vf_load_f16_n(p, 1); }
V_FN VF vf_load_bf16(const uint16_t *p) { return vf_load_bf16_n(p, 1); }
V_FN void vf_store_f16(uint16_t *p, VF v) { vf_store_f16_n(p, v, 1); }
V_FN void vf_store_bf16(uint16_t *p, VF v) { vf_store_bf16_n(p, v, 1); }

#include "core/gen_scalar.h"

/* ---- tasks, failures ----------------------------------------------------------------------------------------- */

/* Of task numbers, which are not negative: 64-bit divisions take some hundred instructions, 32-bit ones a tenth. */
V_FN int64_t ml_quotient(int64_t a, int64_t b) {
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
    return a / b;
}

/* A BIND out of range. The first one is told; its number is not 0. */
V_FN void ml_fail(int64_t *error, int64_t number, int64_t value, int64_t extent, int64_t position) {
    if (atomicCAS((unsigned long long *)error, 0ULL, (unsigned long long)number)) return;
    error[1] = value;
    error[2] = extent;
    error[3] = position;
}

/* ---- packs: neighbouring elements in registers ---------------------------------------------------------------- */

template <class T, int N> struct alignas(sizeof(T) * N) ml_pack { T x[N]; };
/* The first n of N elements, at once where they are all and p is aligned. */
template <class T, int N> V_FN void ml_load_pack(ml_pack<T, N> &to, const T *p, int n) {
    if (n == N && ((uintptr_t)p & (sizeof to - 1)) == 0) {
        to = *(const ml_pack<T, N> *)p;
        return;
    }
#pragma unroll
    for (int u = 0; u < N; u++)
        if (u < n) to.x[u] = p[u];
}
template <class T, int N> V_FN void ml_store_pack(const ml_pack<T, N> &from, T *p, int n) {
    if (n == N && ((uintptr_t)p & (sizeof from - 1)) == 0) {
        *(ml_pack<T, N> *)p = from;
        return;
    }
#pragma unroll
    for (int u = 0; u < N; u++)
        if (u < n) p[u] = from.x[u];
}

/* ---- sums of few terms ---------------------------------------------------------------------------------------- */

/* The canonical tree of at most `most` terms, a power of 2 up to 128: each is a lane. */
#define ML_FEW(name, T, op, identity, most)                                                        \
    typedef struct name {                                                                          \
        T lane[most];                                                                              \
        int32_t n;                                                                                 \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) { s->n = 0; }                                                 \
    ML_FN void name##_add(name *s, T x) { s->lane[s->n++] = op(identity, x); }                     \
    ML_FN T name##_end(name *s) {                                                                  \
        if (s->n == 0) return identity;                                                            \
        for (int32_t h = most / 2; h; h /= 2)                                                      \
            for (int32_t j = 0; j < h && j + h < s->n; j++)                                        \
                s->lane[j] = op(s->lane[j], s->lane[j + h]);                                       \
        return s->lane[0];                                                                         \
    }
/* Of at most 4096 terms: one chunk. */
#define ML_FOUR_K(name, T, op, identity)                                                           \
    typedef struct name {                                                                          \
        T lane[128];                                                                               \
        int32_t n;                                                                                 \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) { s->n = 0; }                                                 \
    ML_FN void name##_add(name *s, T x) {                                                          \
        int32_t i = s->n++;                                                                        \
        s->lane[i & 127] = op(i < 128 ? identity : s->lane[i & 127], x);                           \
    }                                                                                              \
    ML_FN T name##_end(name *s) {                                                                  \
        int32_t used = s->n < 128 ? s->n : 128;                                                    \
        if (used == 0) return identity;                                                            \
        for (int32_t h = 64; h; h /= 2)                                                            \
            for (int32_t j = 0; j < h && j + h < used; j++)                                        \
                s->lane[j] = op(s->lane[j], s->lane[j + h]);                                       \
        return s->lane[0];                                                                         \
    }
#define ML_SMALL_SUMS(name, T, op, identity)                                                       \
    ML_FEW(name##_8, T, op, identity, 8)                                                           \
    ML_FEW(name##_32, T, op, identity, 32)                                                         \
    ML_FEW(name##_128, T, op, identity, 128)                                                       \
    ML_FOUR_K(name##_4096, T, op, identity)
ML_SMALL_SUMS(ml_sum_f32, float, ML_ADD, 0.0f)
ML_SMALL_SUMS(ml_sum_f64, double, ML_ADD, 0.0)
ML_SMALL_SUMS(ml_prod_f32, float, ML_MUL, 1.0f)
ML_SMALL_SUMS(ml_prod_f64, double, ML_MUL, 1.0)

/* The block's memory: 2048 bytes in which reductions are folded, then LOCAL buffers. */
#ifndef ML_HAS_SHARED
extern __shared__ __align__(16) unsigned char ml_shared[];
#endif
#include "cuda/gen_block.h"

#endif
