/* Packed block panels: packing, expansion to f32 tiles, and whole rows times panels in registers.
 *
 * One step of the row kernel takes the codes of one k and VF_LANES rows: shift, mask, convert,
 * w = fma(scale, q, min) (or scale * q), sum = fma(x_k, w, sum). All chains of a panel interleave, so
 * the step costs its five operations and not the latency of the FMA. */
#include "cpu/kernels/quant.h"

enum { GROUPS = QUANT_ROWS / VF_LANES }; /* registers that hold a panel's rows */

/* The portable build expands panels and multiplies tiles: one more copy of each row kernel would cost
 * megabytes of code (its vectors are emulated) and gain little. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define HAVE_ROWS 0
#define UNROLL
#else
#define HAVE_ROWS 1
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- packing ------------------------------------------------------------------------------------ */

/* Whole fields of a word, and the position of the first. */
V_FN int word_fields(int bits) { return 32 / bits; }
V_FN int word_base(int bits) { return 32 - word_fields(bits) * bits; }

static void pack_words(int bits, const uint8_t q[32], uint32_t *words) {
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
    int64_t row0 = panel * QUANT_ROWS, rows = job->n - row0 < QUANT_ROWS ? job->n - row0 : QUANT_ROWS;
    if (rows < QUANT_ROWS) memset(out, 0, (size_t)(blocks * bytes)); /* missing rows weigh 0 */
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

/* ---- decoding ----------------------------------------------------------------------------------- */

/* Scales of k < 16 and k >= 16, and the minimum, of one 32-element run and one group of rows. */
typedef struct affine {
    VF scale[2], min;
} affine;

V_FN affine load_affine(quant_format f, const uint8_t *block, const uint8_t *run, int group) {
    const uint16_t *d = (const uint16_t *)(const void *)block + group * VF_LANES;
    /* Signed codes sit at the top of the word. */
    VF unit = vf_set1(f.is_signed ? 1.0f / (float)(1u << (32 - f.bits)) : 1.0f);
    affine r;
    r.scale[0] = vf_load_f16(d);
    if (f.is_signed) r.scale[0] = vf_mul(r.scale[0], unit);
    r.min = f.has_min ? vf_load_f16(d + QUANT_ROWS) : vf_zero();
    r.scale[1] = r.scale[0];
    if (f.scale_bytes) {
        const uint8_t *s = run + group * VF_LANES;
        if (f.has_min) {
            r.scale[0] = vf_mul(r.scale[0], vi_cvt_f(vi_load_u8(s)));
            r.scale[1] = r.scale[0];
            r.min = vf_neg(vf_mul(r.min, vi_cvt_f(vi_load_u8(s + QUANT_ROWS))));
        } else {
            const int8_t *i = (const int8_t *)s;
            r.scale[1] = vf_mul(r.scale[1], vi_cvt_f(vi_load_i8(i + QUANT_ROWS)));
            r.scale[0] = vf_mul(r.scale[0], vi_cvt_f(vi_load_i8(i)));
        }
    }
    return r;
}

/* Field j of a word, as an integer (unsigned) or at the word's top (signed). */
V_FN VI word_field(quant_format f, VI word, int j) {
    int pos = word_base(f.bits) + f.bits * j;
    if (f.is_signed) {
        VI top = pos + f.bits == 32 ? word : vi_sll(word, 32 - f.bits - pos);
        return pos == 0 ? top : vi_and(top, vi_set1((int32_t)(UINT32_MAX << (32 - f.bits))));
    }
    VI low = pos == 0 ? word : vi_srl(word, pos);
    return pos + f.bits == 32 ? low : vi_and(low, vi_set1((1 << f.bits) - 1));
}

/* Code 30 or 31 of 5- and 6-bit runs, from the two low bits of the words. */
V_FN VI split_field(quant_format f, const int32_t *words, int k) {
    int w = k == 30 ? 0 : 3;
    VI two = vi_set1(3), low = vi_and(vi_load(words + w * QUANT_ROWS), two);
    VI mid = vi_sll(vi_and(vi_load(words + (w + 1) * QUANT_ROWS), two), 2);
    VI top = vi_load(words + (f.bits == 5 ? 2 : w + 2) * QUANT_ROWS);
    if (f.bits == 5)
        top = vi_and(k == 30 ? vi_sll(top, 4) : vi_sll(top, 3), vi_set1(16));
    else
        top = vi_sll(vi_and(top, two), 4);
    VI q = vi_or(vi_or(low, mid), top);
    return f.is_signed ? vi_sll(q, 32 - f.bits) : q;
}

V_FN VF weight(quant_format f, VF scale, VF min, VI q) {
    return f.has_min ? vf_fma(scale, vi_cvt_f(q), min) : vf_mul(scale, vi_cvt_f(q));
}

/* ---- expansion to tiles ------------------------------------------------------------------------- */

V_FN void expand_run(quant_format f, const uint8_t *block, const uint8_t *run, float *dst,
                     int64_t kc) {
    for (int g = 0; g < GROUPS; g++) {
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
                vf_store(tile + k * GEMM_NR, weight(f, a.scale[k >= 16], a.min, word_field(f, word, j)));
            }
        }
        if (f.bits == 5 || f.bits == 6)
            UNROLL
            for (int k = 30; k < 32; k++)
                vf_store(tile + k * GEMM_NR,
                         weight(f, a.scale[1], a.min, split_field(f, words, k)));
    }
}

V_FN const uint8_t *panel_at(const gemm *g, quant_format f, int64_t panel) {
    return g->packed + panel * (g->k.count / f.block) * quant_block_bytes(f);
}

V_FN const float *expand_of(mlsys_dtype t, const gemm *g, int64_t panel, int64_t k0, int64_t kc,
                            float *buffer) {
    quant_format f = quant_format_of(t);
    const uint8_t *block = panel_at(g, f, panel) + k0 / f.block * quant_block_bytes(f);
    for (int64_t k = 0; k < kc; k += f.block, block += quant_block_bytes(f)) {
        const uint8_t *run = block + quant_head_bytes(f);
        for (int sub = 0; sub < f.block / 32; sub++, run += quant_sub_bytes(f))
            expand_run(f, block, run, buffer + (k + sub * 32) * GEMM_NR, kc);
    }
    return buffer;
}

/* ---- whole rows --------------------------------------------------------------------------------- */

#if HAVE_ROWS
/* One word of gu groups: fields of consecutive k, the first scaled by first[], the rest by rest[]. */
V_FN void word_step(quant_format f, int mr, int gu, const int32_t *word, const float *x, int64_t ldx,
                    const VF *first, const VF *rest, const VF *min, VF (*s)[GROUPS]) {
#pragma GCC unroll 8
    for (int g = 0; g < gu; g++) {
        VI v = vi_load(word + g * VF_LANES);
#pragma GCC unroll 8
        for (int j = 0; j < word_fields(f.bits); j++) {
            VF b = weight(f, j ? rest[g] : first[g], min[g], word_field(f, v, j));
#pragma GCC unroll 4
            for (int r = 0; r < mr; r++)
                s[r][g] = vf_fma(vf_set1(x[r * ldx + j]), b, s[r][g]);
        }
    }
}

/* 32 k of gu groups from group g0. */
V_FN void run_step(quant_format f, int mr, int gu, int g0, const uint8_t *block, const uint8_t *run,
                   const float *x, int64_t ldx, VF (*s)[GROUPS]) {
    const int32_t *words = (const int32_t *)(const void *)(run + f.scale_bytes * QUANT_ROWS);
    const int fields = word_fields(f.bits);
    VF low[GROUPS], high[GROUPS], min[GROUPS];
    words += g0 * VF_LANES;
#pragma GCC unroll 8
    for (int g = 0; g < gu; g++) {
        affine a = load_affine(f, block, run, g0 + g);
        low[g] = a.scale[0], high[g] = a.scale[1], min[g] = a.min;
    }
#define STEP(w, first, rest)                                                                       \
    word_step(f, mr, gu, words + (w) * QUANT_ROWS, x + (w) * fields, ldx, first, rest, min, s)
    if (f.bits == 6) { /* k = 16, where q6_k changes scale, is field 1 of word 3 */
        for (int w = 0; w < 3; w++)
            STEP(w, low, low);
        STEP(3, low, high);
        for (int w = 4; w < 6; w++)
            STEP(w, high, high);
    } else {
        for (int w = 0; w < f.bits; w++)
            STEP(w, low, low);
    }
#undef STEP
    if (f.bits == 5 || f.bits == 6)
#pragma GCC unroll 8
        for (int g = 0; g < gu; g++)
#pragma GCC unroll 2
            for (int k = 30; k < 32; k++) {
                VF b = weight(f, high[g], min[g], split_field(f, words + g * VF_LANES, k));
#pragma GCC unroll 4
                for (int r = 0; r < mr; r++)
                    s[r][g] = vf_fma(vf_set1(x[r * ldx + k]), b, s[r][g]);
            }
}

/* mr rows of x times groups [g0, g0 + gu) of a panel. */
V_FN void rows_body(quant_format f, int mr, int gu, int g0, const uint8_t *panel, int64_t k_count,
                    const float *x, int64_t ldx, float *out, int64_t ldo) {
    VF total[GEMM_SMALL_M][GROUPS], s[GEMM_SMALL_M][GROUPS];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int g = 0; g < gu; g++)
            s[r][g] = total[r][g] = vf_zero();
    const uint8_t *block = panel, *run = panel + quant_head_bytes(f);
    for (int64_t k = 32; k <= k_count; k += 32, x += 32) {
        run_step(f, mr, gu, g0, block, run, x, ldx, s);
        run += quant_sub_bytes(f);
        if (k % f.block == 0) block = run, run += quant_head_bytes(f);
        if (k % GEMM_SEGMENT && k < k_count) continue;
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++) /* a segment is complete */
#pragma GCC unroll 8
            for (int g = 0; g < gu; g++) {
                total[r][g] = k <= GEMM_SEGMENT ? s[r][g] : vf_add(total[r][g], s[r][g]);
                s[r][g] = vf_zero();
            }
    }
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            vf_store(out + r * ldo + (g0 + g) * VF_LANES, total[r][g]);
}

/* All groups of a panel, as many at once as give enough chains and fit the registers. */
#define ROWS_OF(mr, want)                                                                          \
    V_FN void rows_##mr(quant_format f, const uint8_t *panel, int64_t k, const float *x,           \
                        int64_t ldx, float *out, int64_t ldo) {                                    \
        const int gu = want < GROUPS ? want : GROUPS;                                              \
        for (int g0 = 0; g0 < GROUPS; g0 += gu)                                                    \
            rows_body(f, mr, gu, g0, panel, k, x, ldx, out, ldo);                                  \
    }
ROWS_OF(1, 4) ROWS_OF(2, 2) ROWS_OF(4, 2)

V_FN void rows_of(mlsys_dtype t, const gemm *g, int64_t panel, int64_t panels, int mr,
                  const float *a, int64_t lda, float *out, int64_t ldo) {
    quant_format f = quant_format_of(t);
    int64_t k = g->k.count;
    for (int64_t p = panel; p < panel + panels; p++, out += QUANT_ROWS) {
        const uint8_t *b = panel_at(g, f, p);
        if (mr == 4) rows_4(f, b, k, a, lda, out, ldo);
        if (mr == 2 || mr == 3) rows_2(f, b, k, a, lda, out, ldo);
        if (mr & 1) rows_1(f, b, k, a + (mr - 1) * lda, lda, out + (mr - 1) * ldo, ldo);
    }
}

#define SOURCE_ROWS(name, T)                                                                       \
    static void rows_##name(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr, \
                            const float *a, int64_t lda, float *out, int64_t ldo) {                \
        (void)b_batch;                                                                             \
        rows_of(T, g, panel, panels, mr, a, lda, out, ldo);                                        \
    }
#define SOURCE_ROWS_FN(name) rows_##name
#else
#define SOURCE_ROWS(name, T)
#define SOURCE_ROWS_FN(name) NULL
#endif

#define SOURCE(name, T)                                                                            \
    static const float *expand_##name(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,   \
                                      int64_t kc, float *buffer) {                                 \
        (void)b_batch;                                                                             \
        return expand_of(T, g, panel, k0, kc, buffer);                                             \
    }                                                                                              \
    SOURCE_ROWS(name, T)                                                                           \
    static const gemm_source source_##name = {QUANT_ROWS, expand_##name,                           \
                                               SOURCE_ROWS_FN(name)};
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

/* ---- blocks as the file has them ---------------------------------------------------------------- */

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
            MLSI_K(quant_dequantize)(g->b_type,
                                     (const uint8_t *)g->b +
                                         offset / info->block_elems * info->block_bytes,
                                     k0, kc, row);
        }
        for (int64_t k = 0; k < kc; k++)
            tile[k * GEMM_NR] = n < rows ? row[k] : 0.0f;
    }
    return buffer;
}

const gemm_source MLSI_K(quant_strided) = {.width = QUANT_ROWS, .expand = expand_strided};
