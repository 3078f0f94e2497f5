/* FMA: twelve independent chains: latency times width of every unit met so far is at most ten. An
 * empty asm statement after each step keeps the compiler from folding chains whose values it could
 * compute. Reads: one stream alone does not keep enough lines in flight. */
#include "support/isa_loops.h"

#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#if defined(__x86_64__)
#include <immintrin.h>

/* Baseline x86-64 has no FMA: a product and a sum, rounded each. */
static void fma_portable(int64_t steps, float *sink) {
    __m128 x = _mm_set1_ps(0.999f), y = _mm_set1_ps(1e-3f), sum = y;
#define START(i) __m128 s##i = _mm_set1_ps((float)i);
#define STEP(i)                                                                                    \
    s##i = _mm_add_ps(_mm_mul_ps(s##i, x), y);                                                     \
    __asm__ volatile("" : "+x"(s##i));
#define END(i) sum = _mm_add_ps(sum, s##i);
    EACH_CHAIN(START)
    for (int64_t n = 0; n < steps; n++) {
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(END)
    _mm_storeu_ps(sink, sum);
#undef START
#undef STEP
#undef END
}

__attribute__((target("avx2,fma"))) static void fma_avx2(int64_t steps, float *sink) {
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f), sum = y;
#define START(i) __m256 s##i = _mm256_set1_ps((float)i);
#define STEP(i)                                                                                    \
    s##i = _mm256_fmadd_ps(s##i, x, y);                                                            \
    __asm__ volatile("" : "+x"(s##i));
#define END(i) sum = _mm256_add_ps(sum, s##i);
    EACH_CHAIN(START)
    for (int64_t n = 0; n < steps; n++) {
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(END)
    _mm256_storeu_ps(sink, sum);
#undef START
#undef STEP
#undef END
}

__attribute__((target("avx512f"))) static void fma_avx512(int64_t steps, float *sink) {
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f), sum = y;
#define START(i) __m512 s##i = _mm512_set1_ps((float)i);
#define STEP(i)                                                                                    \
    s##i = _mm512_fmadd_ps(s##i, x, y);                                                            \
    __asm__ volatile("" : "+v"(s##i));
#define END(i) sum = _mm512_add_ps(sum, s##i);
    EACH_CHAIN(START)
    for (int64_t n = 0; n < steps; n++) {
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(END)
    _mm512_storeu_ps(sink, sum);
#undef START
#undef STEP
#undef END
}

/* x |= a load per stream and half-line: one cheap operation a load. */
#define READ_LOOP(type, load, or)                                                                  \
    const uint64_t n = bytes / 4 / sizeof(type);                                                   \
    const type *p = (const type *)data;                                                            \
    type a = load(p), b = a, c = a, d = a;                                                         \
    for (uint64_t i = 0; i < n; i += 2) {                                                          \
        a = or (or (a, load(p + i)), load(p + i + 1));                                             \
        b = or (or (b, load(p + n + i)), load(p + n + i + 1));                                     \
        c = or (or (c, load(p + 2 * n + i)), load(p + 2 * n + i + 1));                             \
        d = or (or (d, load(p + 3 * n + i)), load(p + 3 * n + i + 1));                             \
    }                                                                                              \
    a = or (or (a, b), or (c, d));                                                                 \
    __asm__ volatile("" ::"x"(a))

static void read_portable(const void *data, uint64_t bytes) {
    READ_LOOP(__m128i, _mm_load_si128, _mm_or_si128);
}
__attribute__((target("avx2"))) static void read_avx2(const void *data, uint64_t bytes) {
    READ_LOOP(__m256i, _mm256_load_si256, _mm256_or_si256);
}

static void copy_portable(void *to, const void *from, uint64_t bytes) {
    __m128i *d = to;
    const __m128i *p = from;
    for (uint64_t i = 0; i < bytes / sizeof *d; i += 2) {
        __m128i a = _mm_load_si128(p + i), b = _mm_load_si128(p + i + 1);
        _mm_store_si128(d + i, a);
        _mm_store_si128(d + i + 1, b);
    }
}
__attribute__((target("avx2"))) static void copy_avx2(void *to, const void *from, uint64_t bytes) {
    __m256i *d = to;
    const __m256i *p = from;
    for (uint64_t i = 0; i < bytes / sizeof *d; i += 2) {
        __m256i a = _mm256_load_si256(p + i), b = _mm256_load_si256(p + i + 1);
        _mm256_store_si256(d + i, a);
        _mm256_store_si256(d + i + 1, b);
    }
}

static bool always(void) { return true; }
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) { return __builtin_cpu_supports("avx512f"); }

/* Wider loads than 32 bytes gain nothing beyond the first level, so AVX-512 reads as AVX2 does. */
const bench_isa_loops bench_isas[] = {
    {"portable", always, fma_portable, 12 * 4 * 2, read_portable, copy_portable},
    {"avx2", has_avx2, fma_avx2, 12 * 8 * 2, read_avx2, copy_avx2},
    {"avx512", has_avx512, fma_avx512, 12 * 16 * 2, read_avx2, copy_avx2}};
#else
/* Vectors as the compiler makes them for this machine. */
typedef float vec4 __attribute__((vector_size(16)));

static void fma_portable(int64_t steps, float *sink) {
    vec4 x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {1e-3f, 1e-3f, 1e-3f, 1e-3f}, sum = y;
#define START(i) vec4 s##i = y * (float)i;
#define STEP(i)                                                                                    \
    s##i = s##i * x + y;                                                                           \
    __asm__ volatile("" : "+w"(s##i));
#define END(i) sum += s##i;
    EACH_CHAIN(START)
    for (int64_t n = 0; n < steps; n++) {
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(END)
    for (int i = 0; i < 4; i++)
        sink[i] = sum[i];
#undef START
#undef STEP
#undef END
}
static void read_portable(const void *data, uint64_t bytes) {
    typedef uint64_t words __attribute__((vector_size(16)));
    const uint64_t n = bytes / 4 / sizeof(words);
    const words *p = data;
    words a = p[0], b = a, c = a, d = a;
    for (uint64_t i = 0; i < n; i += 2) {
        a |= p[i] | p[i + 1];
        b |= p[n + i] | p[n + i + 1];
        c |= p[2 * n + i] | p[2 * n + i + 1];
        d |= p[3 * n + i] | p[3 * n + i + 1];
    }
    a |= b | c | d;
    __asm__ volatile("" ::"w"(a));
}
static bool always(void) { return true; }
static void copy_portable(void *to, const void *from, uint64_t bytes) {
    uint64_t *d = to;
    const uint64_t *p = from;
    for (uint64_t i = 0; i < bytes / 8; i++)
        d[i] = p[i];
}
const bench_isa_loops bench_isas[] = {
    {"portable", always, fma_portable, 12 * 4 * 2, read_portable, copy_portable}};
#endif

const int bench_isa_count = sizeof bench_isas / sizeof bench_isas[0];
