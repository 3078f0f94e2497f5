#include "support/blas_peer.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, PLACES = 64 };

typedef void gemm_32(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                     int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void gemm_64(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc);
typedef void set_threads_fn(int);
typedef char *get_config_fn(void);

/* A function pointer from dlsym, by the detour that POSIX names. */
static void (*function(void *library, const char *name))(void) {
    void (*f)(void) = NULL;
    void *symbol = dlsym(library, name);
    memcpy(&f, &symbol, sizeof f);
    return f;
}

bool blas_open(blas_peer *p, const char *path, int threads) {
    static const struct {
        const char *gemm, *threads, *config;
        bool wide;
    } spellings[] = {
        {"cblas_sgemm", "openblas_set_num_threads", "openblas_get_config", false},
        {"cblas_sgemm64_", "openblas_set_num_threads64_", "openblas_get_config64_", true},
        {"scipy_cblas_sgemm64_", "scipy_openblas_set_num_threads64_",
         "scipy_openblas_get_config64_", true},
        {"scipy_cblas_sgemm", "scipy_openblas_set_num_threads", "scipy_openblas_get_config",
         false}};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* kept open: its threads live on */
    memset(p, 0, sizeof *p);
    for (size_t i = 0; library && i < sizeof spellings / sizeof spellings[0]; i++) {
        void (*set_threads)(void) = function(library, spellings[i].threads);
        void (*config)(void) = function(library, spellings[i].config);
        p->gemm = function(library, spellings[i].gemm);
        if (!p->gemm || !set_threads) continue;
        p->wide = spellings[i].wide;
        ((set_threads_fn *)set_threads)(threads);
        snprintf(p->settings, sizeof p->settings, "%.200s, %d threads",
                 config ? ((get_config_fn *)config)() : path, threads);
        return p->present = true;
    }
    fprintf(stderr, "bench: %s is no OpenBLAS that can be loaded\n", path);
    return false;
}

static bool call(void *user) {
    const blas_product *p = user;
    if (p->blas->wide)
        ((gemm_64 *)p->blas->gemm)(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, p->m, p->n, p->k, 1, p->a,
                                   p->k, p->b, p->n, 0, p->c, p->n);
    else
        ((gemm_32 *)p->blas->gemm)(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, (int)p->m, (int)p->n,
                                   (int)p->k, 1, p->a, (int)p->k, p->b, (int)p->n, 0, p->c,
                                   (int)p->n);
    return true;
}

static uint64_t digest(void *user) {
    const blas_product *p = user;
    return bench_digest(p->c, sizeof(float) * (size_t)(p->m * p->n));
}

static void check(void *user, bench_verdict *v) {
    const blas_product *p = user;
    uint64_t random = p->seed;
    double worst = 0; /* error / bound */
    for (int i = 0; i < PLACES; i++) {
        double sum = 0, size = 0;
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t row = (int64_t)(random >> 33) % p->m,
                column = (int64_t)(random >> 13 & 0xfffff) % p->n;
        for (int64_t k = 0; k < p->k; k++) {
            double x = (double)p->a[row * p->k + k] * (double)p->b[k * p->n + column];
            sum += x;
            size += fabs(x);
        }
        double error =
            fabs((double)p->c[row * p->n + column] - sum) / ((double)p->k * 0x1p-23 * size);
        if (!(error <= worst)) worst = error;
    }
    bench_judge(v, worst <= 1, "f64 dot products at 64 places, K 2^-23 sum |a b|",
                "worst error %.3f of the bound", worst);
}

bench_subject blas_subject(blas_product *p, int threads, const char *name) {
    return (bench_subject){.name = name,
                           .boundary = BENCH_CALL,
                           .cache = BENCH_WARM,
                           .threads = threads,
                           .user = p,
                           .call = call,
                           .digest = digest,
                           .check = check};
}
