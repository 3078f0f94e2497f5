/* The elementary functions on a CUDA device against the CPU, bit for bit.
 *
 *     elementary_cuda [-s stride]
 *
 * Unary f32 functions: every stride-th of all 2^32 arguments (default 1), against the widest CPU instance.
 * Binary f32 functions and f64: 2^24 arguments from a counter-based hash. Any NaN equals any NaN. Prints
 * the number of differences of each function and the first; exit 1 if there is one.
 *
 * nvcc -arch=native --fmad=false -Isrc -Itests -Xcompiler -fopenmp elementary_cuda.cu <objects of
 * core/elementary.c, core/elementary_f64.c, tests/support/elementary_*.c> */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "core/elementary.h"
#include "support/elementary_instance.h"
}
#include "cuda/elementary_device.h"

static __host__ __device__ uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#define KERNEL_1(name, u32, u64)                                                                   \
    __global__ void f32_##name(const float *x, const float *, float *out, int n) {                 \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) out[i] = ef_##name(x[i]);                                                       \
    }                                                                                              \
    __global__ void f64_##name(const double *x, const double *, double *out, int n) {              \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) out[i] = ed_##name(x[i]);                                                       \
    }
#define KERNEL_2(name, u32, u64)                                                                   \
    __global__ void f32_##name(const float *x, const float *y, float *out, int n) {                \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) out[i] = ef_##name(x[i], y[i]);                                                 \
    }                                                                                              \
    __global__ void f64_##name(const double *x, const double *y, double *out, int n) {             \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) out[i] = ed_##name(x[i], y[i]);                                                 \
    }
MLSI_ELEMENTARY_UNARY(KERNEL_1)
MLSI_ELEMENTARY_BINARY(KERNEL_2)

#define F32_ENTRY(name, u32, u64) f32_##name,
#define F64_ENTRY(name, u32, u64) f64_##name,
static void (*const f32_kernels[])(const float *, const float *, float *, int) = {
    MLSI_ELEMENTARY_UNARY(F32_ENTRY) MLSI_ELEMENTARY_BINARY(F32_ENTRY)};
static void (*const f64_kernels[])(const double *, const double *, double *, int) = {
    MLSI_ELEMENTARY_UNARY(F64_ENTRY) MLSI_ELEMENTARY_BINARY(F64_ENTRY)};

enum { CHUNK = 1 << 24 };

static void require(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "elementary_cuda: %s: %s\n", what, cudaGetErrorString(e));
    exit(2);
}

template <typename T> static T argument(uint64_t h, int dense) {
    T v;
    uint64_t u = sizeof(T) == 8 ? mix(h) : mix(h) >> 32;
    memcpy(&v, &u, sizeof v);
    /* half of the pairs near 1, where the functions live */
    if (dense) v = (T)((double)(int64_t)mix(h + 1) * 0x1p-63) * (T)(h & 2 ? 700.0 : 2.0);
    return v;
}

template <typename T> struct buffers {
    std::vector<T> x, y, got, want;
    T *dx, *dy, *dout;
    buffers() : x(CHUNK), y(CHUNK), got(CHUNK), want(CHUNK) {
        require(cudaMalloc(&dx, CHUNK * sizeof(T)), "cudaMalloc");
        require(cudaMalloc(&dy, CHUNK * sizeof(T)), "cudaMalloc");
        require(cudaMalloc(&dout, CHUNK * sizeof(T)), "cudaMalloc");
    }
    void device(void (*kernel)(const T *, const T *, T *, int), int n) {
        size_t bytes = (size_t)n * sizeof(T);
        require(cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice), "copy");
        require(cudaMemcpy(dy, y.data(), bytes, cudaMemcpyHostToDevice), "copy");
        kernel<<<(n + 255) / 256, 256>>>(dx, dy, dout, n);
        require(cudaGetLastError(), "launch");
        require(cudaMemcpy(got.data(), dout, bytes, cudaMemcpyDeviceToHost), "copy");
    }
    int64_t compare(const char *name, int n, int64_t before) {
        int64_t count = 0;
#pragma omp parallel for reduction(+ : count)
        for (int i = 0; i < n; i++)
            count += memcmp(&got[i], &want[i], sizeof(T)) != 0 &&
                     !(got[i] != got[i] && want[i] != want[i]);
        for (int i = 0; count && !before && i < n; i++) {
            if (memcmp(&got[i], &want[i], sizeof(T)) == 0 ||
                (got[i] != got[i] && want[i] != want[i]))
                continue;
            printf("  %s(%a, %a): device %a, CPU %a\n", name, (double)x[i], (double)y[i],
                   (double)got[i], (double)want[i]);
            break;
        }
        return count;
    }
};

static int64_t run_f32(buffers<float> &b, const elementary_instance *e, int row, uint64_t stride) {
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
    uint64_t total = t->f32_2 ? CHUNK : ((1ull << 32) + stride - 1) / stride;
    int64_t count = 0;
    for (uint64_t at = 0; at < total; at += CHUNK) {
        int n = (int)(total - at < CHUNK ? total - at : CHUNK);
#pragma omp parallel for
        for (int i = 0; i < n; i++) {
            uint32_t u = (uint32_t)((at + i) * stride);
            memcpy(&b.x[i], &u, 4);
            b.y[i] = 0;
            if (t->f32_2) {
                b.x[i] = argument<float>(4 * i, i & 1);
                b.y[i] = argument<float>(4 * i + 2, i & 1);
            }
        }
        b.device(f32_kernels[row], n);
#pragma omp parallel for
        for (int i = 0; i < n; i += 4096)
            e->map(row, &b.x[i], &b.y[i], &b.want[i], (size_t)(n - i < 4096 ? n - i : 4096));
        count += b.compare(t->name, n, count);
    }
    printf("f32 %-9s %lld differences in %llu against %s\n", t->name, (long long)count,
           (unsigned long long)total, e->isa);
    return count;
}

static int64_t run_f64(buffers<double> &b, int row) {
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
#pragma omp parallel for
    for (int i = 0; i < CHUNK; i++) {
        b.x[i] = argument<double>(4 * (uint64_t)i, i & 1);
        b.y[i] = argument<double>(4 * (uint64_t)i + 2, i & 1);
        b.want[i] = t->f64_1 ? t->f64_1(b.x[i]) : t->f64_2(b.x[i], b.y[i]);
    }
    b.device(f64_kernels[row], CHUNK);
    int64_t count = b.compare(t->name, CHUNK, 0);
    printf("f64 %-9s %lld differences in %d\n", t->name, (long long)count, (int)CHUNK);
    return count;
}

int main(int argc, char **argv) {
    uint64_t stride = argc == 3 && !strcmp(argv[1], "-s") ? strtoull(argv[2], NULL, 0) : 1;
    const elementary_instance *e = NULL;
    for (int i = 0; i < ELEMENTARY_INSTANCES; i++)
        if (elementary_instance_get(i)->available) e = elementary_instance_get(i);
    static elementary_instance widest;
    widest = *e; /* the table is per thread */
    int64_t count = 0;
    buffers<float> f;
    buffers<double> d;
    for (int row = 0; row < mlsi_elementary_count; row++) {
        count += run_f32(f, &widest, row, stride);
        count += run_f64(d, row);
        fflush(stdout);
    }
    printf("%lld differences\n", (long long)count);
    return count != 0;
}
