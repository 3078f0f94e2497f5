/* OpenBLAS as the peer of f32 products: loaded at run time, called in this process. */
#ifndef BENCH_BLAS_PEER_H
#define BENCH_BLAS_PEER_H

#include "support/harness.h"

typedef struct blas_peer {
    bool present;
    bool wide; /* 64-bit integers in the interface */
    void (*gemm)(void);
    char settings[BENCH_TEXT];
} blas_peer;

/* c [m,n] = a [m,k] b [k,n], all row-major. */
typedef struct blas_product {
    const blas_peer *blas;
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    uint64_t seed;
} blas_product;

/* Load the library (a cblas, plain or as NumPy and SciPy carry it) for so many threads; false, with a line on
 * standard error, when it cannot be had. */
bool blas_open(blas_peer *p, const char *path, int threads);
/* Judged by dot products in f64 at 64 places, within K * 2^-23 * sum |a b|. */
bench_subject blas_subject(blas_product *p, int threads, const char *name);

#endif
