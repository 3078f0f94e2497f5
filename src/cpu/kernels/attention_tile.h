/* The arithmetic of one attention tile: FMA chains over a small k for a few rows at once, and the
 * transposition that puts keys into lanes. */
#ifndef MLSI_KERNELS_ATTENTION_TILE_H
#define MLSI_KERNELS_ATTENTION_TILE_H

#include "cpu/kernel.h"

#include <string.h>

enum { ATT_SEGMENT = 64, ATT_ROWS = 6, ATT_REGS = ATT_SEGMENT / VF_LANES };

/* c[r][0..2*VF_LANES) = chain over k ascending of a[r][k] * b[k][..], from +0. */
V_FN void chain_block(int rows, int64_t kn, const float *a, int64_t lda, const float *b,
                      int64_t ldb, float *c, int64_t ldc) {
    VF acc[ATT_ROWS][2];
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = vf_zero();
    for (int64_t k = 0; k < kn; k++) {
        VF b0 = vf_load(b + k * ldb), b1 = vf_load(b + k * ldb + VF_LANES);
        for (int r = 0; r < rows; r++) {
            VF x = vf_set1(a[r * lda + k]);
            acc[r][0] = vf_fma(x, b0, acc[r][0]);
            acc[r][1] = vf_fma(x, b1, acc[r][1]);
        }
    }
    for (int r = 0; r < rows; r++) {
        vf_store(c + r * ldc, acc[r][0]);
        vf_store(c + r * ldc + VF_LANES, acc[r][1]);
    }
}

/* The last columns, n < 2 * VF_LANES, one register at a time. */
V_FN void chain_edge(int rows, int64_t kn, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float *c, int64_t ldc, int n) {
    for (int at = 0; at < n; at += VF_LANES) {
        int m = n - at < VF_LANES ? n - at : VF_LANES;
        VF acc[ATT_ROWS];
        for (int r = 0; r < rows; r++)
            acc[r] = vf_zero();
        for (int64_t k = 0; k < kn; k++) {
            VF bv = vf_load_n(b + k * ldb + at, m);
            for (int r = 0; r < rows; r++)
                acc[r] = vf_fma(vf_set1(a[r * lda + k]), bv, acc[r]);
        }
        for (int r = 0; r < rows; r++)
            vf_store_n(c + r * ldc + at, acc[r], m);
    }
}

V_FN void chain_rows(int rows, int64_t kn, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float *c, int64_t ldc, int64_t n) {
    int64_t at = 0;
    for (; at + 2 * VF_LANES <= n; at += 2 * VF_LANES)
        chain_block(rows, kn, a, lda, b + at, ldb, c + at, ldc);
    if (at < n) chain_edge(rows, kn, a, lda, b + at, ldb, c + at, ldc, (int)(n - at));
}

/* c [rows, n] = chains of a [rows, kn] times b [kn, n]; the row count is a constant in each case. */
static void chain(int64_t rows, int64_t kn, const float *a, int64_t lda, const float *b,
                  int64_t ldb, float *c, int64_t ldc, int64_t n) {
    for (; rows >= ATT_ROWS; rows -= ATT_ROWS, a += ATT_ROWS * lda, c += ATT_ROWS * ldc)
        chain_rows(ATT_ROWS, kn, a, lda, b, ldb, c, ldc, n);
    switch (rows) {
    case 5: chain_rows(5, kn, a, lda, b, ldb, c, ldc, n); break;
    case 4: chain_rows(4, kn, a, lda, b, ldb, c, ldc, n); break;
    case 3: chain_rows(3, kn, a, lda, b, ldb, c, ldc, n); break;
    case 2: chain_rows(2, kn, a, lda, b, ldb, c, ldc, n); break;
    case 1: chain_rows(1, kn, a, lda, b, ldb, c, ldc, n); break;
    default: break;
    }
}

/* n consecutive elements of a dtype that widens to f32. */
static void load_row(float *to, const void *from, mlsys_dtype dtype, int64_t n) {
    const uint16_t *h = from;
    int64_t i = 0;
    if (dtype == MLSYS_F32) {
        memcpy(to, from, sizeof *to * (size_t)n);
    } else if (dtype == MLSYS_F16) {
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_store(to + i, vf_load_f16(h + i));
        if (i < n) vf_store_n(to + i, vf_load_f16_n(h + i, (int)(n - i)), (int)(n - i));
    } else {
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_store(to + i, vf_load_bf16(h + i));
        if (i < n) vf_store_n(to + i, vf_load_bf16_n(h + i, (int)(n - i)), (int)(n - i));
    }
}

#if defined(__AVX2__)
/* to[d][j] = from[j][d] for 8 keys and 8 dims. */
V_FN void transpose_8x8(float *to, int64_t ldt, const float *const *from, int64_t d) {
    __m256 r[8], t[8];
    for (int j = 0; j < 8; j++)
        r[j] = _mm256_loadu_ps(from[j] + d);
    for (int j = 0; j < 4; j++) {
        t[2 * j] = _mm256_unpacklo_ps(r[2 * j], r[2 * j + 1]);
        t[2 * j + 1] = _mm256_unpackhi_ps(r[2 * j], r[2 * j + 1]);
    }
    for (int j = 0; j < 2; j++) {
        r[4 * j] = _mm256_shuffle_ps(t[4 * j], t[4 * j + 2], 0x44);
        r[4 * j + 1] = _mm256_shuffle_ps(t[4 * j], t[4 * j + 2], 0xee);
        r[4 * j + 2] = _mm256_shuffle_ps(t[4 * j + 1], t[4 * j + 3], 0x44);
        r[4 * j + 3] = _mm256_shuffle_ps(t[4 * j + 1], t[4 * j + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(to + j * ldt, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
        _mm256_storeu_ps(to + (j + 4) * ldt, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
    }
}
#else
V_FN void transpose_8x8(float *to, int64_t ldt, const float *const *from, int64_t d) {
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 8; e++)
            to[e * ldt + j] = from[j][d + e];
}
#endif

/* kt [dim, 64] from n <= 64 keys; columns past n are zero. rows is scratch for 8 keys. */
static void pack_keys(float *kt, const char *key, int64_t stride_bytes, mlsys_dtype dtype,
                      int64_t n, int64_t dim, float *rows) {
    if (n < ATT_SEGMENT) memset(kt, 0, sizeof *kt * (size_t)(dim * ATT_SEGMENT));
    for (int64_t j = 0; j < n; j += 8) {
        const float *from[8];
        int64_t m = n - j < 8 ? n - j : 8, d = 0;
        for (int64_t e = 0; e < m; e++) {
            from[e] = (const float *)(const void *)(key + (j + e) * stride_bytes);
            if (dtype == MLSYS_F32) continue;
            load_row(rows + e * dim, from[e], dtype, dim);
            from[e] = rows + e * dim;
        }
        for (; m == 8 && d + 8 <= dim; d += 8)
            transpose_8x8(kt + d * ATT_SEGMENT + j, ATT_SEGMENT, from, d);
        for (; d < dim; d++)
            for (int64_t e = 0; e < m; e++)
                kt[d * ATT_SEGMENT + j + e] = from[e][d];
    }
}

#endif
