/* Few rows of A times a row-major B, which is read along its rows: STEP rows k of B at a time, a few
 * cache lines of each, into sums that stay in L1. */
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/stage.h"

enum { STEP = 8, NEAR = 1 << 20 /* bytes of a B that stays in the caches */ };

/* s[r][0 .. columns) += the chain over steps rows of B, which lie ldb bytes apart. */
V_FN void add_rows(mlsys_dtype t, int mr, int steps, const float *a, int64_t lda, const char *b,
                   int64_t ldb, float *s, int64_t lds, int64_t columns) {
    int64_t size = t == MLSYS_F32 ? 4 : 2, j = 0;
    for (; j + GEMM_NR <= columns; j += GEMM_NR) /* two registers share an element of A */
        for (int r = 0; r < mr; r++) {
            VF v = vf_load(s + r * lds + j), w = vf_load(s + r * lds + j + VF_LANES);
            const char *p = b + j * size;
#pragma GCC unroll 8
            for (int k = 0; k < steps; k++, p += ldb) {
                VF x = vf_set1(a[r * lda + k]);
                v = vf_fma(x, load_lanes(p, t), v);
                w = vf_fma(x, load_lanes(p + VF_LANES * size, t), w);
            }
            vf_store(s + r * lds + j, v);
            vf_store(s + r * lds + j + VF_LANES, w);
        }
    for (; j + VF_LANES <= columns; j += VF_LANES)
        for (int r = 0; r < mr; r++) {
            VF v = vf_load(s + r * lds + j);
#pragma GCC unroll 8
            for (int k = 0; k < steps; k++)
                v = vf_fma(vf_set1(a[r * lda + k]), load_lanes(b + k * ldb + j * size, t), v);
            vf_store(s + r * lds + j, v);
        }
    int left = (int)(columns - j);
    for (int r = 0; left && r < mr; r++) {
        VF v = vf_load(s + r * lds + j);
        for (int k = 0; k < steps; k++)
            v = vf_fma(vf_set1(a[r * lda + k]), load_lanes_n(b + k * ldb + j * size, t, left), v);
        vf_store(s + r * lds + j, v);
    }
}

/* Each row of B is a new page to the hardware's prefetcher. */
static void fetch_rows(const char *b, int64_t ldb, int64_t bytes) {
    for (int k = 0; k < STEP; k++)
        for (int64_t i = 0; i < bytes; i += 64)
            __builtin_prefetch(b + k * ldb + i);
}

V_FN void row_major(mlsys_dtype t, const gemm *g, int64_t b_batch, int64_t panel, int64_t panels,
                    int mr, const float *a, int64_t lda, float *out, int64_t ldo) {
    int64_t size = t == MLSYS_F32 ? 4 : 2, n0 = panel * GEMM_WIDE, columns = g->n.count - n0;
    if (columns > panels * GEMM_WIDE) columns = panels * GEMM_WIDE;
    int64_t k_count = g->k.count, ldb = mlsi_index_stride(&g->k, MLSI_PRODUCT_B) * size;
    const char *b = g->b + (b_batch + n0) * size;
    float s[GEMM_SMALL_M * GEMM_SMALL_N];
    bool far = k_count * ldb > NEAR;
    for (int64_t k0 = 0; k0 == 0 || k0 < k_count; k0 += MLSI_K_SEGMENT) {
        int64_t end = k_count - k0 < MLSI_K_SEGMENT ? k_count : k0 + MLSI_K_SEGMENT, k = k0;
        memset(s, 0, (size_t)(mr * ldo) * sizeof *s);
        for (; k + STEP <= end; k += STEP) {
            if (far && k + 2 * STEP <= k_count)
                fetch_rows(b + (k + STEP) * ldb, ldb, columns * size);
            if (mr == 1)
                add_rows(t, 1, STEP, a + k, lda, b + k * ldb, ldb, s, ldo, columns);
            else
                add_rows(t, mr, STEP, a + k, lda, b + k * ldb, ldb, s, ldo, columns);
        }
        for (; k < end; k++)
            add_rows(t, mr, 1, a + k, lda, b + k * ldb, ldb, s, ldo, columns);
        for (int64_t i = 0; i < mr * ldo; i += VF_LANES) {
            VF v = vf_load(s + i);
            vf_store(out + i, k0 || g->accumulate ? vf_add(vf_load(out + i), v) : v);
        }
    }
}

static void rows_f32(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                     const float *a, int64_t lda, float *out, int64_t ldo) {
    row_major(MLSYS_F32, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}
static void rows_f16(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                     const float *a, int64_t lda, float *out, int64_t ldo) {
    row_major(MLSYS_F16, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}
static void rows_bf16(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                      const float *a, int64_t lda, float *out, int64_t ldo) {
    row_major(MLSYS_BF16, g, b_batch, panel, panels, mr, a, lda, out, ldo);
}

static const gemm_source source_f32 = {GEMM_WIDE, 8, MLSI_K(gemm_expand_strided), NULL, rows_f32};
static const gemm_source source_f16 = {GEMM_WIDE, 8, MLSI_K(gemm_expand_strided), NULL, rows_f16};
static const gemm_source source_bf16 = {GEMM_WIDE, 8, MLSI_K(gemm_expand_strided), NULL, rows_bf16};

const gemm_source *MLSI_K(gemm_row_major)(mlsys_dtype t) {
    if (t == MLSYS_F32) return &source_f32;
    if (t == MLSYS_F16) return &source_f16;
    return t == MLSYS_BF16 ? &source_bf16 : NULL;
}
