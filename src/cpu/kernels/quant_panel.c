/* Packed block panels: expansion to the f32 tiles of the product. */
#include "cpu/kernels/quant_decode.h"

/* The portable build rolls its loops: its vectors are emulated, unrolled they are megabytes of
 * code. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- expansion to tiles ---------------------------------------------------------------------- */

V_FN void expand_run(mlsi_panel_format f, const uint8_t *block, const uint8_t *run, float *dst,
                     int64_t kc) {
    for (int g = 0; g < QUANT_GROUPS; g++) {
        affine a = load_affine(f, block, run, g);
        const int32_t *words =
            (const int32_t *)(const void *)(run + f.scale_bytes * MLSI_PANEL_ROWS);
        float *tile = dst + g / 2 * kc * GEMM_NR + g % 2 * VF_LANES;
        words += g * VF_LANES;
        UNROLL
        for (int w = 0; w < f.bits; w++) {
            VI word = vi_load(words + w * MLSI_PANEL_ROWS);
            UNROLL
            for (int j = 0; j < mlsi_panel_fields(f.bits); j++) {
                int k = w * mlsi_panel_fields(f.bits) + j;
                vf_store(tile + k * GEMM_NR,
                         weight(f, a.scale[k >= 16], a.min, word_field(f, word, j)));
            }
        }
        if (f.bits == 5 || f.bits == 6) UNROLL
        for (int k = 30; k < 32; k++)
            vf_store(tile + k * GEMM_NR, weight(f, a.scale[1], a.min, split_field(f, words, k)));
    }
}

V_FN const float *expand_of(mlsys_dtype t, const gemm *g, int64_t panel, int64_t k0, int64_t kc,
                            float *buffer) {
    mlsi_panel_format f = mlsi_panel_format_of(t);
    const uint8_t *block = g->packed + panel * quant_panel_bytes(f, g->k.count) +
                           k0 / f.block * mlsi_panel_block_bytes(f);
    for (int64_t k = 0; k < kc; k += f.block, block += mlsi_panel_block_bytes(f)) {
        const uint8_t *run = block + mlsi_panel_head_bytes(f);
        for (int sub = 0; sub < f.block / 32; sub++, run += mlsi_panel_sub_bytes(f))
            expand_run(f, block, run, buffer + (k + sub * 32) * GEMM_NR, kc);
    }
    return buffer;
}

/* ---- sources --------------------------------------------------------------------------------- */

static int64_t locate(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                      const char **at) {
    (void)b_batch;
    mlsi_panel_format f = mlsi_panel_format_of(g->b_type);
    *at = (const char *)g->packed + panel * quant_panel_bytes(f, g->k.count) +
          k0 / f.block * mlsi_panel_block_bytes(f);
    return kc / f.block * mlsi_panel_block_bytes(f);
}

#define SOURCE(name, T)                                                                            \
    static const float *expand_##name(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,   \
                                      int64_t kc, float *buffer) {                                 \
        (void)b_batch;                                                                             \
        return expand_of(T, g, panel, k0, kc, buffer);                                             \
    }                                                                                              \
    static const gemm_source source_##name = {MLSI_PANEL_ROWS, 2, expand_##name, locate,           \
                                              QUANT_ROWS_FN(name)};
SOURCE(q4_0, MLSYS_Q4_0)
SOURCE(q4_1, MLSYS_Q4_1)
SOURCE(q5_0, MLSYS_Q5_0)
SOURCE(q5_1, MLSYS_Q5_1)
SOURCE(q8_0, MLSYS_Q8_0)
SOURCE(q4_k, MLSYS_Q4_K)
SOURCE(q5_k, MLSYS_Q5_K)
SOURCE(q6_k, MLSYS_Q6_K)

const gemm_source *MLSI_K(quant_packed_source)(mlsys_dtype t) {
    switch (t) {
    case MLSYS_Q4_0: return &source_q4_0;
    case MLSYS_Q4_1: return &source_q4_1;
    case MLSYS_Q5_0: return &source_q5_0;
    case MLSYS_Q5_1: return &source_q5_1;
    case MLSYS_Q8_0: return &source_q8_0;
    case MLSYS_Q4_K: return &source_q4_k;
    case MLSYS_Q5_K: return &source_q5_k;
    default: return &source_q6_k;
    }
}

/* ---- blocks as the file has them ------------------------------------------------------------- */

static const float *expand_strided(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                                   int64_t kc, float *buffer) {
    (void)b_batch;
    const mlsi_dtype_info *info = mlsi_dtype_get(g->b_type);
    int64_t n0 = panel * MLSI_PANEL_ROWS, left = g->n.count - n0;
    int64_t rows = left < MLSI_PANEL_ROWS ? left : MLSI_PANEL_ROWS;
    float row[MLSI_K_SEGMENT];
    for (int64_t n = 0; n < MLSI_PANEL_ROWS; n++) {
        float *tile = buffer + n / GEMM_NR * kc * GEMM_NR + n % GEMM_NR;
        if (n < rows) {
            int64_t offset = mlsi_index_offset(&g->n, MLSI_PRODUCT_B, n0 + n);
            MLSI_K(quant_dequantize)
            (g->b_type, (const uint8_t *)g->b + offset / info->block_elems * info->block_bytes, k0,
             kc, row);
        }
        for (int64_t k = 0; k < kc; k++)
            tile[k * GEMM_NR] = n < rows ? row[k] : 0.0f;
    }
    return buffer;
}

const gemm_source MLSI_K(quant_strided) = {.width = MLSI_PANEL_ROWS, .expand = expand_strided};
