/* Panels of a float B: gathered from a strided view, or packed once in B's own dtype. */
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/stage.h"

/* ---- gather ---------------------------------------------------------------------------------- */

#if !defined(MLSI_ISA_IS_PORTABLE)
#define HAVE_TRANSPOSE 1
static inline __m256 load8(const char *p, mlsys_dtype t) {
    if (t == MLSYS_F32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (t == MLSYS_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* dst[i * ld + j] = src_j[i], 8 x 8. */
static inline void transpose8(float *dst, int64_t ld, const char *const src[8], mlsys_dtype t) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        r[j] = load8(src[j], t);
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 4) { /* 4 x 4 blocks inside the 128-bit halves */
        __m256 a = _mm256_unpacklo_ps(r[j], r[j + 1]), b = _mm256_unpackhi_ps(r[j], r[j + 1]);
        __m256 c = _mm256_unpacklo_ps(r[j + 2], r[j + 3]),
               d = _mm256_unpackhi_ps(r[j + 2], r[j + 3]);
        s[j] = _mm256_shuffle_ps(a, c, 0x44);
        s[j + 1] = _mm256_shuffle_ps(a, c, 0xee);
        s[j + 2] = _mm256_shuffle_ps(b, d, 0x44);
        s[j + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * ld, _mm256_permute2f128_ps(s[i], s[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * ld, _mm256_permute2f128_ps(s[i], s[i + 4], 0x31));
    }
}
#else
#define HAVE_TRANSPOSE 0
#endif

static inline float load1(const char *p, mlsys_dtype t) {
    float x = 0.0f;
    load_f32(&x, p, t, 0, 1);
    return x;
}

/* Columns are contiguous in the source: read along them. Whole blocks of 8 x 8; the rest is left
 * to the caller. */
static void gather_transposed(float *dst, int64_t ld, const char *src, mlsys_dtype t, int64_t size,
                              int64_t row0, const int64_t *column, int64_t rows, int64_t columns) {
#if HAVE_TRANSPOSE
    for (int64_t j = 0; j < columns; j += 8) {
        const char *p[8];
        for (int c = 0; c < 8; c++)
            p[c] = src + (row0 + column[j + c]) * size;
        for (int64_t i = 0; i < rows; i += 8) {
            transpose8(dst + i * ld + j, ld, p, t);
            for (int c = 0; c < 8; c++)
                p[c] += 8 * size;
        }
    }
#else
    (void)size;
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            dst[i * ld + j] = load1(src + (row0 + i + column[j]) * size, t);
#endif
}

/* Rows from the first on that follow each other in memory. */
static int64_t neighbours(const int64_t *row, int64_t rows) {
    int64_t n = 1;
    while (n < rows && row[n] == row[n - 1] + 1)
        n++;
    return n;
}

void MLSI_K(gemm_gather)(float *dst, int64_t ld, const char *src, mlsys_dtype t, const int64_t *row,
                         int64_t rows, const int64_t *column, int64_t columns,
                         int64_t column_step) {
    int64_t size = mlsi_dtype_size(t), c8 = columns & ~(int64_t)7;
    bool wide = t == MLSYS_F32 || t == MLSYS_F16 || t == MLSYS_BF16;
    bool turns = wide && column_step != 1 && c8;
    for (int64_t i = 0; columns && i < rows;) {
        int64_t r8 = turns ? neighbours(row + i, rows - i) & ~(int64_t)7 : 0;
        const char *p = src + row[i] * size;
        float *to = dst + i * ld;
        i += r8 ? r8 : 1;
        if (r8) {
            gather_transposed(to, ld, src, t, size, row[i - r8], column, r8, c8);
            for (int64_t k = 0; k < r8; k++, to += ld, p += size)
                for (int64_t j = c8; j < columns; j++)
                    to[j] = load1(p + column[j] * size, t);
        } else if (column_step) {
            load_f32(to, p + column[0] * size, t, column_step * size, columns);
        } else {
            for (int64_t j = 0; j < columns; j++)
                to[j] = load1(p + column[j] * size, t);
        }
    }
}

/* ---- a strided B ----------------------------------------------------------------------------- */

/* The plain case, a row-major f32 B: copy rows of GEMM_WIDE columns, a few cache lines each. */
static void copy_wide(float *dst, const float *src, int64_t ldb, int64_t kc) {
    for (int64_t k = 0; k < kc; k++, src += ldb)
#pragma GCC unroll 8
        for (int v = 0; v < GEMM_WIDE / VF_LANES; v++)
            vf_store(dst + v / 2 * kc * GEMM_NR + k * GEMM_NR + v % 2 * VF_LANES,
                     vf_load(src + v * VF_LANES));
}

const float *MLSI_K(gemm_expand_strided)(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                                         int64_t kc, float *buffer) {
    int64_t n0 = panel * GEMM_WIDE, left = g->n.count - n0;
    int64_t size = mlsi_dtype_size(g->b_type);
    const char *b = g->b + b_batch * size;
    int64_t k_step = mlsi_index_linear(&g->k) ? mlsi_index_stride(&g->k, MLSI_PRODUCT_B) : 0;
    int64_t n_step = mlsi_index_linear(&g->n) ? mlsi_index_stride(&g->n, MLSI_PRODUCT_B) : 0;
    if (g->b_type == MLSYS_F32 && n_step == 1 && mlsi_index_linear(&g->k) && left >= GEMM_WIDE) {
        copy_wide(buffer, (const float *)(const void *)b + k0 * k_step + n0, k_step, kc);
        return buffer;
    }
    int64_t row[MLSI_K_SEGMENT], column[GEMM_NR];
    mlsi_index_offsets(&g->k, MLSI_PRODUCT_B, k0, kc, row);
    for (float *tile = buffer; left > 0 && tile < buffer + kc * GEMM_WIDE;
         tile += kc * GEMM_NR, n0 += GEMM_NR, left -= GEMM_NR) {
        int64_t columns = left < GEMM_NR ? left : GEMM_NR;
        mlsi_index_offsets(&g->n, MLSI_PRODUCT_B, n0, columns, column);
        if (columns < GEMM_NR) memset(tile, 0, (size_t)(kc * GEMM_NR) * sizeof *tile);
        MLSI_K(gemm_gather)(tile, GEMM_NR, b, g->b_type, row, kc, column, columns, n_step);
    }
    return buffer;
}

const gemm_source MLSI_K(gemm_strided) = {.width = GEMM_WIDE,
                                          .expand = MLSI_K(gemm_expand_strided)};

/* ---- packed: [matrix][panel][k][GEMM_NR] ----------------------------------------------------- */

static int64_t panel_elements(const gemm *g) { return g->k.count * GEMM_NR; }

static int64_t matrix_panels(const gemm *g) { return (g->n.count + GEMM_NR - 1) / GEMM_NR; }

uint64_t MLSI_K(gemm_pack_bytes)(const gemm *g) {
    return (uint64_t)(g->batch.count * matrix_panels(g) * panel_elements(g) *
                      mlsi_dtype_size(g->b_type));
}

typedef struct pack_job {
    const gemm *g;
    char *packed;
} pack_job;

static void pack_panel(void *user, int64_t item, int worker) {
    (void)worker;
    const pack_job *job = user;
    const gemm *g = job->g;
    int64_t panels = matrix_panels(g), n0 = item % panels * GEMM_NR;
    int64_t columns = g->n.count - n0 < GEMM_NR ? g->n.count - n0 : GEMM_NR;
    int64_t row[MLSI_K_SEGMENT], column[GEMM_NR], size = mlsi_dtype_size(g->b_type);
    int64_t n_step = mlsi_index_linear(&g->n) ? mlsi_index_stride(&g->n, MLSI_PRODUCT_B) : 0;
    const char *b = g->b + mlsi_index_offset(&g->batch, MLSI_PRODUCT_B, item / panels) * size;
    float tile[MLSI_K_SEGMENT * GEMM_NR];
    mlsi_index_offsets(&g->n, MLSI_PRODUCT_B, n0, columns, column);
    for (int64_t k0 = 0; k0 < g->k.count; k0 += MLSI_K_SEGMENT) {
        int64_t kc = g->k.count - k0 < MLSI_K_SEGMENT ? g->k.count - k0 : MLSI_K_SEGMENT;
        if (columns < GEMM_NR) memset(tile, 0, sizeof tile);
        mlsi_index_offsets(&g->k, MLSI_PRODUCT_B, k0, kc, row);
        MLSI_K(gemm_gather)(tile, GEMM_NR, b, g->b_type, row, kc, column, columns, n_step);
        /* Back to B's own dtype: exact, the values came from there. */
        store_f32(job->packed + (item * panel_elements(g) + k0 * GEMM_NR) * size, g->b_type, size,
                  tile, kc * GEMM_NR);
    }
}

void MLSI_K(gemm_pack)(const gemm *g, void *packed, mlsi_pool *pool) {
    pack_job job = {.g = g, .packed = packed};
    mlsi_pool_run(pool, g->batch.count * matrix_panels(g), pack_panel, &job);
}

static const char *packed_at(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                             int64_t size) {
    return (const char *)g->packed + b_batch * g->packed_matrix_bytes +
           (panel * panel_elements(g) + k0 * GEMM_NR) * size;
}

static int64_t locate_32(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                         const char **at) {
    *at = packed_at(g, b_batch, panel, k0, 4);
    return kc * GEMM_NR * 4;
}
static int64_t locate_16(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                         const char **at) {
    *at = packed_at(g, b_batch, panel, k0, 2);
    return kc * GEMM_NR * 2;
}

static const float *expand_f32(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                               int64_t kc, float *buffer) {
    (void)kc, (void)buffer;
    return (const float *)(const void *)packed_at(g, b_batch, panel, k0, 4);
}

static const float *expand_f16(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                               int64_t kc, float *buffer) {
    widen_f16(buffer, (const uint16_t *)(const void *)packed_at(g, b_batch, panel, k0, 2),
              kc * GEMM_NR);
    return buffer;
}

static const float *expand_bf16(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                                int64_t kc, float *buffer) {
    widen_bf16(buffer, (const uint16_t *)(const void *)packed_at(g, b_batch, panel, k0, 2),
               kc * GEMM_NR);
    return buffer;
}

/* ---- few rows times whole panels ------------------------------------------------------------- */

/* np panels at once: mr * np * 2 chains hide the latency of the FMA. */
V_FN void rows_body(mlsys_dtype t, int mr, int np, const char *b, int64_t panel_bytes,
                    int64_t k_count, const float *a, int64_t lda, float *out, int64_t ldo,
                    bool add) {
    int size = t == MLSYS_F32 ? 4 : 2;
    VF total[GEMM_SMALL_M][8];
    for (int r = 0; r < mr; r++) /* -0 changes no sum */
        for (int v = 0; v < 2 * np; v++)
            total[r][v] = add ? vf_load(out + r * ldo + v * VF_LANES) : vf_set1(-0.0f);
    for (int64_t k0 = 0; k0 == 0 || k0 < k_count; k0 += MLSI_K_SEGMENT) {
        int64_t kc = k_count - k0 < MLSI_K_SEGMENT ? k_count - k0 : MLSI_K_SEGMENT;
        VF s[GEMM_SMALL_M][8];
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
            for (int v = 0; v < 2 * np; v++)
                s[r][v] = vf_zero();
        for (int64_t k = 0; k < kc; k++, b += GEMM_NR * size)
#pragma GCC unroll 8
            for (int v = 0; v < 2 * np; v++) {
                VF w = load_lanes(b + v / 2 * panel_bytes + v % 2 * VF_LANES * size, t);
#pragma GCC unroll 8
                for (int r = 0; r < mr; r++)
                    s[r][v] = vf_fma(vf_set1(a[r * lda + k0 + k]), w, s[r][v]);
            }
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
            for (int v = 0; v < 2 * np; v++)
                total[r][v] = vf_add(total[r][v], s[r][v]);
    }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < 2 * np; v++)
            vf_store(out + r * ldo + v * VF_LANES, total[r][v]);
}

V_FN void rows_of(mlsys_dtype t, const gemm *g, int64_t b_batch, int64_t panel, int64_t panels,
                  int mr, const float *a, int64_t lda, float *out, int64_t ldo) {
    int64_t size = t == MLSYS_F32 ? 4 : 2, panel_bytes = panel_elements(g) * size;
    const char *b = packed_at(g, b_batch, panel, 0, size);
    int64_t k = g->k.count;
#define ROWS(mr_, np_) rows_body(t, mr_, np_, b, panel_bytes, k, a, lda, out, ldo, g->accumulate)
    for (int64_t step; panels > 0; panels -= step, b += step * panel_bytes, out += step * GEMM_NR) {
        step = mr == 1 && panels >= 4 ? 4 : mr <= 3 && panels >= 2 ? 2 : 1;
        switch (mr * 8 + (int)step) {
        case 8 + 4: ROWS(1, 4); break;
        case 8 + 2: ROWS(1, 2); break;
        case 8 + 1: ROWS(1, 1); break;
        case 16 + 2: ROWS(2, 2); break;
        case 16 + 1: ROWS(2, 1); break;
        case 24 + 2: ROWS(3, 2); break;
        case 24 + 1: ROWS(3, 1); break;
        default: ROWS(4, 1); break;
        }
    }
#undef ROWS
}

static void rows_f32(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                     const float *a, int64_t lda, float *out, int64_t ldo) {
    rows_of(MLSYS_F32, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}
static void rows_f16(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                     const float *a, int64_t lda, float *out, int64_t ldo) {
    rows_of(MLSYS_F16, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}
static void rows_bf16(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                      const float *a, int64_t lda, float *out, int64_t ldo) {
    rows_of(MLSYS_BF16, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}

static const gemm_source packed_f32 = {GEMM_NR, GEMM_WIDE / GEMM_NR, expand_f32, locate_32,
                                       rows_f32};
static const gemm_source packed_f16 = {GEMM_NR, GEMM_WIDE / GEMM_NR, expand_f16, locate_16,
                                       rows_f16};
static const gemm_source packed_bf16 = {GEMM_NR, GEMM_WIDE / GEMM_NR, expand_bf16, locate_16,
                                        rows_bf16};

const gemm_source *MLSI_K(gemm_packed_source)(mlsys_dtype t) {
    if (t == MLSYS_F32) return &packed_f32;
    if (t == MLSYS_F16) return &packed_f16;
    return t == MLSYS_BF16 ? &packed_bf16 : NULL;
}
