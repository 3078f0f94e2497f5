/* sgemm_ and dgemm_ over the library's matmul, so that netlib's BLAS testers run on it (LD_PRELOAD).
 *
 *   C = alpha op(A) op(B) + beta C, column-major: row-major views with swapped strides, no copies.
 * The product is the library's; the shim only scales and adds. */
#include <mlsys/mlsys.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The tester brings its own, which records the call. */
extern void xerbla_(const char *name, const int *info, size_t length) __attribute__((weak));

static mlsys_stream the_stream(mlsys_device *device) {
    static mlsys_ctx ctx;
    static mlsys_device d;
    static mlsys_stream s;
    if (!s && (mlsys_ctx_create(NULL, NULL, &ctx) || mlsys_device_get(ctx, MLSYS_CPU, 0, &d) ||
               mlsys_stream_create(d, NULL, &s)))
        abort();
    *device = d;
    return s;
}

static int letter(const char *p) { return *p & ~32; }
static int known(const char *p) { return letter(p) == 'N' || letter(p) == 'T' || letter(p) == 'C'; }

/* The number of the first bad argument, 0 for none: BLAS's rule. */
static int check(const char *ta, const char *tb, int m, int n, int k, int lda, int ldb, int ldc) {
    int rows_a = letter(ta) == 'N' ? m : k, rows_b = letter(tb) == 'N' ? k : n;
    if (!known(ta)) return 1;
    if (!known(tb)) return 2;
    if (m < 0) return 3;
    if (n < 0) return 4;
    if (k < 0) return 5;
    if (lda < (rows_a > 1 ? rows_a : 1)) return 8;
    if (ldb < (rows_b > 1 ? rows_b : 1)) return 10;
    if (ldc < (m > 1 ? m : 1)) return 13;
    return 0;
}

/* op(X), rows x cols, over column-major memory. */
static mlsys_tensor view(mlsys_device d, mlsys_dtype type, size_t size, const void *x,
                         int transposed, int64_t rows, int64_t cols, int64_t ld) {
    const int64_t shape[2] = {rows, cols};
    const int64_t strides[2] = {transposed ? ld : 1, transposed ? 1 : ld};
    int64_t stored_cols = transposed ? rows : cols;
    mlsys_tensor t = NULL;
    if (mlsys_tensor_wrap(d, type, 2, shape, strides, 0, (void *)(uintptr_t)x,
                          size * (uint64_t)(ld * stored_cols), NULL, NULL, &t))
        abort();
    return t;
}

#define DEFINE_GEMM(function, real, type, name)                                                    \
    void function(const char *ta, const char *tb, const int *m, const int *n, const int *k,        \
                  const real *alpha, const real *a, const int *lda, const real *b, const int *ldb, \
                  const real *beta, real *c, const int *ldc) {                                     \
        int bad = check(ta, tb, *m, *n, *k, *lda, *ldb, *ldc);                                     \
        if (bad) {                                                                                 \
            if (xerbla_) xerbla_(name, &bad, 6);                                                   \
            return;                                                                                \
        }                                                                                          \
        if (!*m || !*n || ((*alpha == 0 || !*k) && *beta == 1)) return;                            \
        const real *p = NULL;                                                                      \
        void *data = NULL;                                                                         \
        mlsys_device d;                                                                            \
        mlsys_stream s = the_stream(&d);                                                           \
        mlsys_tensor ab[2] = {NULL, NULL}, product = NULL;                                         \
        if (*alpha != 0) {                                                                         \
            ab[0] = view(d, type, sizeof(real), a, letter(ta) != 'N', *m, *k, *lda);               \
            ab[1] = view(d, type, sizeof(real), b, letter(tb) != 'N', *k, *n, *ldb);               \
            if (mlsys_matmul(s, ab[0], ab[1], &product) ||                                         \
                mlsys_tensor_data(product, &data, NULL))                                           \
                abort();                                                                           \
            p = data;                                                                              \
        }                                                                                          \
        for (int64_t j = 0; j < *n; j++)                                                           \
            for (int64_t i = 0; i < *m; i++) {                                                     \
                real *to = &c[j * *ldc + i];                                                       \
                real old = *beta == 0 ? 0 : *beta * *to;                                           \
                *to = p ? *alpha * p[i * *n + j] + old : old;                                      \
            }                                                                                      \
        mlsys_release(product);                                                                    \
        mlsys_release(ab[0]);                                                                      \
        mlsys_release(ab[1]);                                                                      \
    }

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *,
            const float *, const int *, const float *, const int *, const float *, float *,
            const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);
DEFINE_GEMM(sgemm_, float, MLSYS_F32, "SGEMM ")
DEFINE_GEMM(dgemm_, double, MLSYS_F64, "DGEMM ")
