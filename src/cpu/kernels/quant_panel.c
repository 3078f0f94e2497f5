/* Packed block panels: packing, and expansion to the f32 tiles of the product. */
#include "cpu/kernels/quant_decode.h"

/* The portable build rolls its loops: its vectors are emulated, unrolled they are megabytes of
 * code. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- packing --------------------------------------------------------------------------------- */

/* Eight bytes of a nibble each to one word, byte i to bits 4i. */
static uint32_t eight_nibbles(const uint8_t *q) {
    uint64_t v;
    memcpy(&v, q, 8); /* little-endian, as all supported machines */
    v = (v | v >> 4) & 0x00ff00ff00ff00ff;
    v = (v | v >> 8) & 0x0000ffff0000ffff;
    return (uint32_t)(v | v >> 16);
}

static void pack_words(int bits, const uint8_t q[32], uint32_t *words) {
    if (bits == 8) {
        memcpy(words, q, 32);
        return;
    }
    if (bits == 4) {
        for (int w = 0; w < 4; w++)
            words[w] = eight_nibbles(q + 8 * w);
        return;
    }
    int fields = word_fields(bits), base = word_base(bits);
    for (int w = 0; w < bits; w++) {
        uint32_t word = 0;
        for (int j = 0; j < fields && w * fields + j < 32; j++)
            word |= (uint32_t)q[w * fields + j] << (base + bits * j);
        words[w] = word;
    }
    if (bits == 5) {
        words[0] |= q[30] & 3u, words[1] |= q[30] >> 2 & 3u, words[2] |= q[30] >> 4 & 1u;
        words[3] |= q[31] & 3u, words[4] |= q[31] >> 2 & 3u, words[2] |= (q[31] >> 4 & 1u) << 1;
    }
    if (bits == 6)
        for (int i = 0; i < 6; i++)
            words[i] |= (uint32_t)q[30 + i / 3] >> (i % 3 * 2) & 3u;
}

int64_t MLSI_K(quant_packed_bytes)(mlsys_dtype t, int64_t n, int64_t k) {
    quant_format f = quant_format_of(t);
    return (n + QUANT_ROWS - 1) / QUANT_ROWS * (k / f.block) * quant_block_bytes(f);
}

typedef struct pack_job {
    mlsys_dtype t;
    const uint8_t *w;
    int64_t row_bytes, n, k;
    uint8_t *packed;
} pack_job;

/* Run `sub` of a block of one row into column `row` of the packed block. */
static void pack_run(const pack_job *job, quant_format f, const uint8_t *block, int sub, int row,
                     uint8_t *out) {
    quant_codes c;
    uint32_t words[8];
    uint16_t head[2] = {0, 0};
    MLSI_K(quant_codes_of)(job->t, block, sub, &c);
    if (f.is_signed)
        for (int i = 0; i < 32; i++)
            c.q[i] = (uint8_t)((c.q[i] ^ 1u << (f.bits - 1)) & ((1u << f.bits) - 1));
    pack_words(f.bits, c.q, words);
    if (job->t == MLSYS_Q6_K)
        memcpy(head, block + sizeof(mlsi_q6_k) - 2, 2);
    else
        memcpy(head, block, f.has_min ? 4 : 2);
    memcpy(out + row * 2, &head[0], 2);
    if (f.has_min) memcpy(out + (QUANT_ROWS + row) * 2, &head[1], 2);
    out += quant_head_bytes(f) + sub * quant_sub_bytes(f);
    if (f.scale_bytes) {
        out[row] = (uint8_t)c.sc[0];
        out[QUANT_ROWS + row] = (uint8_t)(f.has_min ? c.mn : c.sc[1]);
        out += 2 * QUANT_ROWS;
    }
    for (int i = 0; i < f.bits; i++)
        memcpy(out + (i * QUANT_ROWS + row) * 4, &words[i], 4);
}

static void pack_panel(void *user, int64_t panel, int worker) {
    (void)worker;
    const pack_job *job = user;
    quant_format f = quant_format_of(job->t);
    int64_t blocks = job->k / f.block, bytes = quant_block_bytes(f);
    int file_bytes = mlsi_dtype_get(job->t)->block_bytes;
    uint8_t *out = job->packed + panel * blocks * bytes;
    int64_t row0 = panel * QUANT_ROWS,
            rows = job->n - row0 < QUANT_ROWS ? job->n - row0 : QUANT_ROWS;
    if (blocks > 0 && rows < QUANT_ROWS)
        memset(out, 0, (size_t)(blocks * bytes)); /* missing rows weigh 0 */
    for (int64_t b = 0; b < blocks; b++, out += bytes)
        for (int row = 0; row < rows; row++) {
            const uint8_t *block = job->w + (row0 + row) * job->row_bytes + b * file_bytes;
            for (int sub = 0; sub < f.block / 32; sub++)
                pack_run(job, f, block, sub, row, out);
        }
}

void MLSI_K(quant_pack)(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t n, int64_t k,
                        uint8_t *packed, mlsi_pool *pool) {
    pack_job job = {t, w, row_bytes, n, k, packed};
    mlsi_pool_run(pool, (n + QUANT_ROWS - 1) / QUANT_ROWS, pack_panel, &job);
}

/* ---- expansion to tiles ---------------------------------------------------------------------- */

V_FN void expand_run(quant_format f, const uint8_t *block, const uint8_t *run, float *dst,
                     int64_t kc) {
    for (int g = 0; g < QUANT_GROUPS; g++) {
        affine a = load_affine(f, block, run, g);
        const int32_t *words = (const int32_t *)(const void *)(run + f.scale_bytes * QUANT_ROWS);
        float *tile = dst + g / 2 * kc * GEMM_NR + g % 2 * VF_LANES;
        words += g * VF_LANES;
        UNROLL
        for (int w = 0; w < f.bits; w++) {
            VI word = vi_load(words + w * QUANT_ROWS);
            UNROLL
            for (int j = 0; j < word_fields(f.bits); j++) {
                int k = w * word_fields(f.bits) + j;
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
    quant_format f = quant_format_of(t);
    const uint8_t *block =
        g->packed + panel * quant_panel_bytes(f, g->k.count) + k0 / f.block * quant_block_bytes(f);
    for (int64_t k = 0; k < kc; k += f.block, block += quant_block_bytes(f)) {
        const uint8_t *run = block + quant_head_bytes(f);
        for (int sub = 0; sub < f.block / 32; sub++, run += quant_sub_bytes(f))
            expand_run(f, block, run, buffer + (k + sub * 32) * GEMM_NR, kc);
    }
    return buffer;
}

/* ---- sources --------------------------------------------------------------------------------- */

static int64_t locate(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                      const char **at) {
    (void)b_batch;
    quant_format f = quant_format_of(g->b_type);
    *at = (const char *)g->packed + panel * quant_panel_bytes(f, g->k.count) +
          k0 / f.block * quant_block_bytes(f);
    return kc / f.block * quant_block_bytes(f);
}

#define SOURCE(name, T)                                                                            \
    static const float *expand_##name(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,   \
                                      int64_t kc, float *buffer) {                                 \
        (void)b_batch;                                                                             \
        return expand_of(T, g, panel, k0, kc, buffer);                                             \
    }                                                                                              \
    static const gemm_source source_##name = {QUANT_ROWS, 2, expand_##name, locate,                \
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
    int64_t n0 = panel * QUANT_ROWS, left = g->n.count - n0;
    int64_t rows = left < QUANT_ROWS ? left : QUANT_ROWS;
    float row[GEMM_SEGMENT];
    for (int64_t n = 0; n < QUANT_ROWS; n++) {
        float *tile = buffer + n / GEMM_NR * kc * GEMM_NR + n % GEMM_NR;
        if (n < rows) {
            int64_t offset = MLSI_K(gemm_index_offset)(&g->n, GEMM_B, n0 + n);
            MLSI_K(quant_dequantize)
            (g->b_type, (const uint8_t *)g->b + offset / info->block_elems * info->block_bytes, k0,
             kc, row);
        }
        for (int64_t k = 0; k < kc; k++)
            tile[k * GEMM_NR] = n < rows ? row[k] : 0.0f;
    }
    return buffer;
}

const gemm_source MLSI_K(quant_strided) = {.width = QUANT_ROWS, .expand = expand_strided};
