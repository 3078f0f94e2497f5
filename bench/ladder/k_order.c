/* What the order along K costs a CPU: one f32 product, several orders, the same blocking.
 *
 *     k_order [chain]     chain: only the order of that name
 *
 * Orders: one chain over all K; segments of 64, 128, 256, 512, each a chain from +0, added
 * ascending (docs/numerics.md takes 256); and `lanes`, the order that a dot product along K
 * suggests: 8 partial sums of every eighth k, folded at the end, which needs B by columns.
 *
 * Part 1: C = A B, 1024 cubed, register tiles of 6 x 16 on packed panels. Rungs differ in where a
 *         chain is cut; one chain over all K keeps its sums in registers for the whole of K, so a
 *         panel no longer fits L1.
 * Part 2: one row times a packed [K, N] matrix in L2, 64 x 1024: chains per output, and lanes.
 * Part 3: error against f64, root mean square over a 64 x 64 product with K = 4096.
 *
 * AVX2 with FMA; elsewhere it says so and stops. */
#if !defined(__x86_64__)
#include <stdio.h>
int main(void) {
    printf("k_order: needs AVX2\n");
    return 0;
}
#else
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MR = 6, NR = 16, MB = 240, ALL = 1 << 30 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t n) {
    float *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
    unsigned state = 1;
    if (!p) exit(1);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    return p;
}

/* ---- part 1 ---------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void
tile(int mr, const float *a, long lda, const float *b, long kc, float *c, long ldc, int add) {
    __m256 s[MR][2];
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        s[r][0] = s[r][1] = _mm256_setzero_ps();
    for (long k = 0; k < kc; k++, b += NR) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
            __m256 x = _mm256_set1_ps(a[r * lda + k]);
            s[r][0] = _mm256_fmadd_ps(x, b0, s[r][0]);
            s[r][1] = _mm256_fmadd_ps(x, b1, s[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < 2; v++) {
            float *p = c + r * ldc + v * 8;
            _mm256_storeu_ps(p, add ? _mm256_add_ps(_mm256_loadu_ps(p), s[r][v]) : s[r][v]);
        }
}

static void tile6(const float *a, long lda, const float *b, long kc, float *c, long ldc, int add) {
    tile(6, a, lda, b, kc, c, ldc, add);
}

/* m a multiple of MB. One chain over all K is one segment of all K. */
static void product(const float *a, const float *b, float *c, long m, long n, long k,
                    long segment) {
    static float block[MB * 4096];
    for (long m0 = 0; m0 < m; m0 += MB)
        for (long k0 = 0; k0 < k; k0 += segment) {
            long kc = k - k0 < segment ? k - k0 : segment;
            for (long r = 0; r < MB; r++)
                memcpy(block + r * kc, a + (m0 + r) * k + k0, (size_t)kc * sizeof *a);
            for (long j = 0; j < n; j += NR)
                for (long r = 0; r < MB; r += MR)
                    tile6(block + r * kc, kc, b + j * k + k0 * NR, kc, c + (m0 + r) * n + j, n,
                          k0 > 0);
        }
}

/* ---- part 2 ---------------------------------------------------------------------------------- */

/* Four panels at once, as the library does: eight chains. */
static void row_chains(const float *x, const float *b, float *y, long n, long k, long segment) {
    for (long j = 0; j < n; j += 64) {
        const float *p = b + j * k;
        __m256 total[8];
        for (long k0 = 0; k0 < k; k0 += segment) {
            long end = k - k0 < segment ? k : k0 + segment;
            __m256 s[8];
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++)
                s[v] = _mm256_setzero_ps();
            for (long i = k0; i < end; i++) {
                __m256 xi = _mm256_set1_ps(x[i]);
#pragma GCC unroll 8
                for (int v = 0; v < 8; v++)
                    s[v] = _mm256_fmadd_ps(
                        xi, _mm256_loadu_ps(p + v / 2 * NR * k + i * NR + v % 2 * 8), s[v]);
            }
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++)
                total[v] = k0 ? _mm256_add_ps(total[v], s[v]) : s[v];
        }
        for (int v = 0; v < 8; v++)
            _mm256_storeu_ps(y + j + v * 8, total[v]);
    }
}

/* B^T row-major; eight rows at once so that eight chains run. */
static void row_lanes(const float *x, const float *bt, float *y, long n, long k) {
    for (long j = 0; j < n; j += 8) {
        __m256 s[8];
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
            s[v] = _mm256_setzero_ps();
        for (long i = 0; i < k; i += 8) {
            __m256 xi = _mm256_loadu_ps(x + i);
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++)
                s[v] = _mm256_fmadd_ps(xi, _mm256_loadu_ps(bt + (j + v) * k + i), s[v]);
        }
        for (int v = 0; v < 8; v++) {
            float l[8];
            _mm256_storeu_ps(l, s[v]);
            for (int h = 4; h; h /= 2)
                for (int i = 0; i < h; i++)
                    l[i] += l[i + h];
            y[j + v] = l[0];
        }
    }
}

/* ---- part 3 ---------------------------------------------------------------------------------- */

static float dot_segments(const float *a, const float *b, long k, long segment) {
    float total = 0, s = 0;
    for (long i = 0; i < k; i++) {
        s = fmaf(a[i], b[i], s);
        if ((i + 1) % segment && i + 1 < k) continue;
        total = i < segment ? s : total + s;
        s = 0;
    }
    return total;
}
static float dot_lanes(const float *a, const float *b, long k) {
    float l[8] = {0};
    for (long i = 0; i < k; i++)
        l[i % 8] = fmaf(a[i], b[i], l[i % 8]);
    for (int h = 4; h; h /= 2)
        for (int i = 0; i < h; i++)
            l[i] += l[i + h];
    return l[0];
}

static double error_of(const float *a, const float *b, long k, long segment) {
    double sum = 0;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            double exact = 0;
            for (long t = 0; t < k; t++)
                exact += (double)a[i * k + t] * (double)b[j * k + t];
            float got = segment ? dot_segments(a + i * k, b + j * k, k, segment)
                                : dot_lanes(a + i * k, b + j * k, k);
            sum += ((double)got - exact) * ((double)got - exact);
        }
    return sqrt(sum / 4096);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        long segment;
    } orders[] = {{"chain", ALL}, {"64", 64},   {"128", 128},
                  {"256", 256},   {"512", 512}, {"lanes", 0}};
    enum { ORDERS = 6, ROUNDS = 15, N = 1024, M = 960, K = 1024, ROW_N = 64 };
    float *a = floats((size_t)1024 * 4096), *b = floats((size_t)N * 4096),
          *c = floats((size_t)M * N);
    double gemm[ORDERS], row[ORDERS];
    for (int o = 0; o < ORDERS; o++)
        gemm[o] = row[o] = 1e9;
    for (int round = 0; round < ROUNDS; round++) /* interleaved: a busy machine hits all alike */
        for (int o = 0; o < ORDERS; o++) {
            long segment = orders[o].segment;
            if (argc > 1 && strcmp(argv[1], orders[o].name)) continue;
            double start = now();
            if (segment) {
                product(a, b, c, M, N, K, segment < K ? segment : K);
                double t = now() - start;
                if (t < gemm[o]) gemm[o] = t;
            }
            start = now();
            for (int i = 0; i < 20; i++)
                if (segment)
                    row_chains(a, b, c, ROW_N, K, segment);
                else
                    row_lanes(a, b, c, ROW_N, K);
            double t = (now() - start) / 20;
            if (t < row[o]) row[o] = t;
        }
    printf("order   960x1024x1024 GF   1x64x1024 GB/s   rms error, K = 4096\n");
    for (int o = 0; o < ORDERS; o++) {
        if (argc > 1 && strcmp(argv[1], orders[o].name)) continue;
        printf("%-7s %16.1f %17.1f %21.2e\n", orders[o].name,
               orders[o].segment ? 2e-9 * M * N * K / gemm[o] : 0.0, 4e-9 * ROW_N * K / row[o],
               error_of(a, b, 4096, orders[o].segment));
    }
    free(a);
    free(b);
    free(c);
    return 0;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
