/* Speed of the matmul rows of the CPU backend, against what this machine can do at this moment.
 *
 *     matmul_kernels [threads [filter]]
 *
 * Peak: 12 independent FMA chains in registers. Stream: reading 256 MB once. Both are measured
 * first and again at the end, and percentages are of the better. One thread is timed by its own CPU
 * time, so a busy machine disturbs less; more threads by the wall clock. Each line is the best of
 * several repetitions; in brackets the median. */
#include "core/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int threads = 1;
static mlsi_pool *pool;
static mlsi_isa isa; /* asked once: cpuid is slow in a virtual machine */

static double now(void) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Best and median seconds of one call. */
static double time_of(void (*call)(void *), void *user, double *median) {
    enum { SAMPLES = 9 };
    double samples[SAMPLES], once;
    int64_t repeat = 1;
    call(user);
    for (;; repeat *= 2) {
        double start = now();
        for (int64_t i = 0; i < repeat; i++)
            call(user);
        once = now() - start;
        if (once > 0.01 || repeat > 1 << 20) break;
    }
    for (int s = 0; s < SAMPLES; s++) {
        double start = now();
        for (int64_t i = 0; i < repeat; i++)
            call(user);
        samples[s] = (now() - start) / (double)repeat;
    }
    qsort(samples, SAMPLES, sizeof samples[0], by_value);
    *median = samples[SAMPLES / 2];
    return samples[0];
}

/* ---- what the machine can do ----------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>
enum { PEAK_STEPS = 4096 };
/* Twelve registers by name: an array might live in memory. */
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FMA_CHAINS(type, set1, fma, add, store)                                                    \
    type x = set1(0.999f), y = set1(1e-3f), sum = y;                                               \
    EACH_CHAIN(CHAIN_START)                                                                        \
    for (int n = 0; n < PEAK_STEPS; n++) {                                                         \
        EACH_CHAIN(CHAIN_STEP)                                                                     \
    }                                                                                              \
    EACH_CHAIN(CHAIN_END)                                                                          \
    store(sink, sum)
__attribute__((target("avx2,fma"))) static void peak_256(float *sink) {
#define CHAIN_START(i) __m256 s##i = _mm256_set1_ps((float)i);
#define CHAIN_STEP(i)                                                                              \
    s##i = _mm256_fmadd_ps(s##i, x, y);                                                            \
    __asm__ volatile("" : "+x"(s##i));
#define CHAIN_END(i) sum = _mm256_add_ps(sum, s##i);
    FMA_CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_storeu_ps);
#undef CHAIN_START
#undef CHAIN_STEP
#undef CHAIN_END
}
__attribute__((target("avx512f"))) static void peak_512(float *sink) {
#define CHAIN_START(i) __m512 s##i = _mm512_set1_ps((float)i);
#define CHAIN_STEP(i)                                                                              \
    s##i = _mm512_fmadd_ps(s##i, x, y);                                                            \
    __asm__ volatile("" : "+v"(s##i));
#define CHAIN_END(i) sum = _mm512_add_ps(sum, s##i);
    FMA_CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_storeu_ps);
}
static void peak_item(void *user, int64_t item, int worker) {
    (void)user, (void)item, (void)worker;
    float sink[16];
    if (isa == MLSI_ISA_AVX512)
        peak_512(sink);
    else if (isa == MLSI_ISA_AVX2)
        peak_256(sink);
    __asm__ volatile("" ::"r"(sink) : "memory");
}
static double peak_flops(void) { /* of one call, all threads */
    int lanes = isa == MLSI_ISA_AVX512 ? 16 : 8;
    return 2.0 * 12 * lanes * PEAK_STEPS * threads;
}
#else
static void peak_item(void *user, int64_t item, int worker) {
    (void)user, (void)item, (void)worker;
}
static double peak_flops(void) { return 0; }
#endif
static void peak_call(void *user) {
    (void)user;
    mlsi_pool_run(pool, threads, peak_item, NULL);
}

enum { STREAM_BYTES = 256 << 20 };
static char *stream;
static void stream_item(void *user, int64_t item, int worker) {
    (void)user, (void)worker;
    int64_t quarter = STREAM_BYTES / threads / 4;
    const uint64_t *p = (const uint64_t *)(const void *)(stream + item * (STREAM_BYTES / threads));
    uint64_t s[4] = {0};
    for (int64_t i = 0; i < quarter / 8; i += 8)
        for (int q = 0; q < 4; q++)
            for (int j = 0; j < 8; j++)
                s[q] += p[q * (quarter / 8) + i + j];
    __asm__ volatile("" ::"r"(s[0] + s[1] + s[2] + s[3]));
}
static void stream_call(void *user) {
    (void)user;
    mlsi_pool_run(pool, threads, stream_item, NULL);
}

static double peak_gf, stream_gb;
static void measure_machine(void) {
    double median, gf = peak_flops() / time_of(peak_call, NULL, &median) * 1e-9;
    double gb = STREAM_BYTES / time_of(stream_call, NULL, &median) * 1e-9;
    printf("machine: FMA peak %.1f GF, read %.1f GB/s\n", gf, gb);
    if (gf > peak_gf) peak_gf = gf;
    if (gb > stream_gb) stream_gb = gb;
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct product {
    const mlsi_kernel *row;
    mlsi_kernel_args args;
    mlsi_view in[2], out;
} product;

static void *memory(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) exit(1);
    memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}

static mlsi_view matrix(mlsys_dtype t, int64_t rows, int64_t columns) {
    const mlsi_dtype_info *info = mlsi_dtype_get(t);
    mlsi_view v = {.dtype = t, .rank = 2, .shape = {rows, columns}, .strides = {columns, 1}};
    uint64_t bytes = (uint64_t)(rows * columns / info->block_elems * info->block_bytes);
    uint8_t *p = memory(bytes);
    for (uint64_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i * 37 >> 3 & 0x3b); /* small finite numbers in every format */
    v.data = p;
    return v;
}

static void run_product(void *user) {
    product *p = user;
    if (p->row->run(&p->args) != MLSYS_OK) exit(1);
}

enum { PLAIN, CONSTANT = 1, TRANSPOSED = 2, INT8 = 4 };

static void bench(mlsys_dtype t, int flags, int64_t m, int64_t n, int64_t k, const char *filter) {
    bool constant = flags & CONSTANT, transpose_b = flags & TRANSPOSED;
    bool quant = mlsi_dtype_is_block(t);
    mlsys_dtype x_type = quant ? MLSYS_F32 : t;
    mlsi_attr_matmul at = {0, transpose_b};
    mlsi_attr_quant_matmul quant_at = {flags & INT8 ? MLSI_ACT_INT8 : MLSI_ACT_F32};
    product p = {
        .in = {matrix(x_type, m, k), quant || transpose_b ? matrix(t, n, k) : matrix(t, k, n)},
        .out = matrix(x_type, m, n)};
    mlsi_operand in[2] = {{.present = true, .dtype = x_type, .rank = 2},
                          {.present = true, .dtype = t, .rank = 2, .constant = constant}},
                 out = {.present = true, .dtype = x_type, .rank = 2};
    mlsi_query q = {.op = quant ? MLSI_OP_QUANT_MATMUL : MLSI_OP_MATMUL,
                    .attrs = quant ? (const void *)&quant_at : (const void *)&at,
                    .n_in = 2,
                    .n_out = 1,
                    .in = in,
                    .out = &out,
                    .numerics = MLSI_EXACT};
    p.row = mlsi_cpu_backend.find(&q, isa);
    p.args = (mlsi_kernel_args){
        .attrs = q.attrs, .n_in = 2, .n_out = 1, .in = p.in, .out = &p.out, .pool = pool};
    char name[96];
    snprintf(name, sizeof name, "%s%s%s%s %lldx%lldx%lld", mlsi_dtype_get(t)->name,
             flags & INT8 ? " int8" : "", constant ? " packed" : "", transpose_b ? " T" : "",
             (long long)m, (long long)n, (long long)k);
    void *packed = NULL;
    if (!filter || strstr(name, filter)) {
        if (p.row->pack) {
            packed = memory(p.row->pack_bytes(&p.in[1], q.attrs));
            p.row->pack(&p.in[1], q.attrs, packed, pool);
            p.args.packed = packed;
        }
        p.args.work_bytes = p.row->work ? p.row->work(&p.args, threads) : 0;
        p.args.work = memory(p.args.work_bytes);
        const mlsi_dtype_info *info = mlsi_dtype_get(t);
        double median, best = time_of(run_product, &p, &median);
        double flops = 2.0 * (double)m * (double)n * (double)k;
        double bytes = (double)(n * k) / info->block_elems * info->block_bytes;
        printf("%-28s %8.1f us [%8.1f]  %6.1f GF %3.0f%%  %5.1f GB/s %3.0f%%\n", name, best * 1e6,
               median * 1e6, flops / best * 1e-9, 100 * flops / best * 1e-9 / peak_gf,
               bytes / best * 1e-9, 100 * bytes / best * 1e-9 / stream_gb);
        fflush(stdout);
        free(p.args.work);
    }
    free(packed);
    free(p.in[0].data);
    free(p.in[1].data);
    free(p.out.data);
}

int main(int argc, char **argv) {
    static const int64_t dense[][3] = {{16, 16, 16},       {64, 64, 64},     {128, 128, 128},
                                       {256, 256, 256},    {512, 512, 512},  {1024, 1024, 1024},
                                       {2048, 2048, 2048}, {128, 3072, 768}, {128, 768, 3072},
                                       {32, 4096, 4096},   {1, 4096, 4096}};
    static const struct {
        mlsys_dtype t;
        int64_t n, k;
    } quant[] = {{MLSYS_Q4_1, 576, 576},  {MLSYS_Q4_1, 192, 576},   {MLSYS_Q4_1, 1536, 576},
                 {MLSYS_Q4_1, 576, 1536}, {MLSYS_Q8_0, 49152, 576}, {MLSYS_Q4_1, 49152, 576},
                 {MLSYS_Q4_0, 2048, 640}, {MLSYS_Q5_0, 2048, 640},  {MLSYS_Q5_1, 2048, 640},
                 {MLSYS_Q8_0, 2048, 640}, {MLSYS_Q4_K, 640, 2048},  {MLSYS_Q5_K, 640, 2048},
                 {MLSYS_Q6_K, 640, 2048}};
    static const int64_t ms[] = {1, 2, 4, 8, 64, 512};
    mlsi_alloc alloc;
    if (argc > 1) threads = atoi(argv[1]);
    const char *filter = argc > 2 ? argv[2] : NULL;
    isa = mlsi_cpu_backend.isa();
    mlsi_alloc_init(&alloc, NULL);
    if (threads > 1 && mlsi_pool_create(&alloc, threads, &pool) != MLSYS_OK) return 1;
    stream = memory(STREAM_BYTES);
    measure_machine();
    for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) {
        const int64_t *s = dense[i];
        bench(MLSYS_F32, PLAIN, s[0], s[1], s[2], filter);
        bench(MLSYS_F32, TRANSPOSED, s[0], s[1], s[2], filter);
        bench(MLSYS_F32, CONSTANT, s[0], s[1], s[2], filter);
        bench(MLSYS_BF16, CONSTANT, s[0], s[1], s[2], filter);
    }
    for (size_t i = 0; i < sizeof quant / sizeof quant[0]; i++)
        for (size_t j = 0; j < sizeof ms / sizeof ms[0]; j++)
            for (int flags = CONSTANT; flags <= (CONSTANT | INT8); flags += INT8)
                if (quant[i].n < 10000 || ms[j] <= 64)
                    bench(quant[i].t, flags, ms[j], quant[i].n, quant[i].k, filter);
    measure_machine();
    free(stream);
    mlsi_pool_destroy(pool);
    return 0;
}
