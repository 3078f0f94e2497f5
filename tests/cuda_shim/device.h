/* CUDA C as C++ for the host: what generated kernels (src/cuda/gen_device.h) need of the language and of the machine. Put before
 * their text by cuda_shim.c, which runs the threads of a block as fibers. */
#ifndef CUDA_SHIM_DEVICE_H
#define CUDA_SHIM_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#include "machine.h"

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __shared__      static
#define __align__(n)    __attribute__((aligned(n)))

extern "C" {
cuda_shim_machine *cuda_shim; /* set when the module is loaded */
alignas(128) unsigned char ml_shared[CUDA_SHIM_SHARED];
}
#define ML_HAS_SHARED 1
#define threadIdx     (cuda_shim->thread)
#define blockIdx      (cuda_shim->block)
#define blockDim      (cuda_shim->block_dim)
#define gridDim       (cuda_shim->grid_dim)

static inline void __syncthreads() { cuda_shim->barrier(); }
static inline void __syncwarp(unsigned = 0xffffffffu) { cuda_shim->warp_barrier(); }

/* A thread that is two shuffles ahead waits for the others to have read: two slots in turn are enough. */
template <class T> static inline T cuda_shim_from(unsigned of, T x) {
    const unsigned t = threadIdx.x, turn = cuda_shim->turn[t] ^= 1;
    T y;
    memcpy(&cuda_shim->slot[turn][t], &x, sizeof x);
    cuda_shim->warp_barrier();
    memcpy(&y, &cuda_shim->slot[turn][of], sizeof y);
    return y;
}
template <class T> static inline T __shfl_xor_sync(unsigned, T x, int lanes) {
    return cuda_shim_from(threadIdx.x ^ (unsigned)lanes, x);
}
template <class T> static inline T __shfl_down_sync(unsigned, T x, unsigned by) {
    const unsigned t = threadIdx.x;
    return cuda_shim_from((t & 31) + by < 32 ? t + by : t, x);
}
template <class T> static inline T __shfl_sync(unsigned, T x, int lane) {
    return cuda_shim_from((threadIdx.x & ~31u) + ((unsigned)lane & 31), x);
}

/* Which threads of the warp say yes. */
static inline unsigned __ballot_sync(unsigned, int yes) {
    unsigned all = yes ? 1u << (threadIdx.x & 31) : 0;
    for (int h = 16; h; h /= 2)
        all |= __shfl_xor_sync(0xffffffffu, all, h);
    return all;
}

static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long was,
                                           unsigned long long now) {
    const unsigned long long old = *p;
    if (old == was) *p = now;
    return old;
}

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline float __int2float_rn(int a) { return (float)a; }
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __float_as_int(float x) {
    int i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline float __int_as_float(int i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

/* A launch's parameters are pointers to arguments. */
template <class... A, size_t... I>
static void cuda_shim_apply(void (*kernel)(A...), void **params, std::index_sequence<I...>) {
    kernel(*(A *)params[I]...);
}
template <class... A> static int cuda_shim_sizes(void (*)(A...), size_t *out) {
    const size_t sizes[] = {sizeof(A)..., 0};
    for (size_t i = 0; i < sizeof...(A); i++)
        out[i] = sizes[i];
    return sizeof...(A);
}
template <class... A> static void cuda_shim_call(void (*kernel)(A...), void **params) {
    cuda_shim_apply(kernel, params, std::make_index_sequence<sizeof...(A)>());
}

#endif
