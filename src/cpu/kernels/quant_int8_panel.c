/* act = int8: quantising x, packing W, and a panel of W times up to four rows.
 *
 * Per 32 k, VF_LANES rows of W and one row of x: eight multiply-adds of bytes (32 products each) whose 16-bit
 * results add up as long as they fit, one widening, one conversion and one FMA: some 22 vector operations for
 * 256 products, where f32 activations take 140. */
#include "cpu/kernels/quant_int8.h"

#include <math.h>

/* The portable build rolls its loops and takes one row at a time: emulated vectors, unrolled, are big. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define UNROLL
enum { ROWS_AT_ONCE = 1, GROUPS_AT_ONCE = 1 };
#else
#define UNROLL _Pragma("GCC unroll 8")
enum { ROWS_AT_ONCE = 4, GROUPS_AT_ONCE = 2 };
#endif
enum { GROUPS = QUANT_ROWS / VF_LANES, QUADS = 8, MAX_ROWS = 4 };

/* ---- x ------------------------------------------------------------------------------------------ */

void MLSI_K(int8_quantise)(const float *x, bool wide, int8_block *b) {
    VF most = vf_abs(vf_load(x));
    int32_t code[INT8_BLOCK];
    for (int i = VF_LANES; i < INT8_BLOCK; i += VF_LANES)
        most = vf_maximum(most, vf_abs(vf_load(x + i)));
    float s = vf_reduce_maximum(most) / 127.0f;
    b->scale = s;
    /* Zero, infinite or NaN: the codes are 0 and the scale alone tells. */
    bool ordinary = s > 0.0f && s < INFINITY;
    for (int i = 0; i < INT8_BLOCK; i += VF_LANES) {
        VF q = vf_rint(vf_div(vf_load(x + i), vf_set1(s)));
        q = vf_max_sel(vf_min_sel(q, vf_set1(127.0f)), vf_set1(-128.0f));
        vi_store(code + i, ordinary ? vf_cvt_i(q) : vi_zero());
    }
    static const uint8_t order[4] = {0, 2, 1, 3};
    b->sum[0] = b->sum[1] = 0;
    for (int i = 0; i < INT8_BLOCK; i++) {
        if (wide)
            b->q.i16[i] = (int16_t)code[(i & ~3) + order[i & 3]];
        else
            b->q.i8[i] = (int8_t)code[i];
        b->sum[1] += code[i];
        if (i == 15) b->sum[0] = b->sum[1];
    }
}

/* ---- W ------------------------------------------------------------------------------------------ */

static void pack_codes(int bits, const uint8_t q[32], uint32_t words[8]) {
    memset(words, 0, 8 * sizeof *words);
    for (int k = 0; k < 32; k++) {
        int s = k / 4, i = k % 4;
        uint32_t low = q[k] & 15u, high = (uint32_t)q[k] >> 4;
        if (bits == 8)
            words[s] |= (uint32_t)q[k] << (8 * i);
        else
            words[s / 2] |= low << (8 * i + s % 2 * 4);
        if (bits == 5) words[4] |= high << (8 * i + s);
        if (bits == 6) words[4 + s / 4] |= high << (8 * i + s % 4 * 2);
    }
}

static void pack_run(mlsys_dtype t, quant_format f, const uint8_t *block, int sub, int row,
                     uint8_t *out) {
    quant_codes c;
    uint32_t words[8];
    MLSI_K(quant_codes_of)(t, block, sub, &c);
    if (f.bits == 8)
        for (int i = 0; i < 32; i++)
            c.q[i] ^= 0x80;
    pack_codes(f.bits, c.q, words);
    memcpy(out + row * 2, t == MLSYS_Q6_K ? block + sizeof(mlsi_q6_k) - 2 : block, 2);
    if (f.has_min) memcpy(out + (QUANT_ROWS + row) * 2, block + 2, 2);
    out += quant_head_bytes(f) + sub * quant_sub_bytes(f);
    if (f.scale_bytes) {
        out[row] = (uint8_t)c.sc[0];
        out[QUANT_ROWS + row] = (uint8_t)(f.has_min ? c.mn : c.sc[1]);
        out += 2 * QUANT_ROWS;
    }
    for (int i = 0; i < f.bits; i++)
        memcpy(out + (i * QUANT_ROWS + row) * 4, &words[i], 4);
}

void MLSI_K(int8_pack_panel)(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t rows,
                             int64_t k, uint8_t *packed) {
    quant_format f = quant_format_of(t);
    int64_t blocks = k / f.block, bytes = quant_block_bytes(f);
    int file_bytes = mlsi_dtype_get(t)->block_bytes;
    if (rows < QUANT_ROWS) memset(packed, 0, (size_t)(blocks * bytes));
    for (int64_t b = 0; b < blocks; b++, packed += bytes)
        for (int row = 0; row < rows; row++)
            for (int sub = 0; sub < f.block / 32; sub++)
                pack_run(t, f, w + row * row_bytes + b * file_bytes, sub, row, packed);
}

/* ---- product ------------------------------------------------------------------------------------ */

/* Four k of one group: unsigned bytes, or signed ones for 8 bits. */
V_FN VI quad(int bits, const int32_t *words, int s) {
    if (bits == 8) return vi_load(words + s * QUANT_ROWS);
    VI v = vi_load(words + s / 2 * QUANT_ROWS);
    if (s % 2) v = vi_srl(v, 4);
    v = vi_and(v, vi_set1(0x0f0f0f0f));
    if (bits == 4) return v;
    const int at = bits == 5 ? s : s % 4 * 2; /* where the high part lies; it belongs at bit 4 */
    VI h = vi_load(words + (bits == 5 ? 4 : 4 + s / 4) * QUANT_ROWS);
    h = at < 4 ? vi_sll(h, 4 - at) : vi_srl(h, at - 4);
    return vi_or(v, vi_and(h, vi_set1(bits == 5 ? 0x10101010 : 0x30303030)));
}

/* Products that fit 16 bits before they must be widened: 2 * (2^bits - 1) * 128 each. */
V_FN int quads_per_sum(int bits) { return bits == 4 ? 8 : bits == 5 ? 4 : 2; }

/* Sum over quads [from, to) of one group and one row of x. */
V_FN VI dot_quads(int bits, const VI *w, const int8_block *x, int from, int to) {
    VI sum = vi_zero(), part = vi_zero();
    UNROLL
    for (int s = from; s < to; s++) {
        if (bits == 8) { /* even bytes, odd bytes */
            int32_t even, odd;
            memcpy(&even, x->q.i16 + 4 * s, 4);
            memcpy(&odd, x->q.i16 + 4 * s + 2, 4);
            VI lo = vw_sra(vw_sll(w[s], 8), 8), hi = vw_sra(w[s], 8);
            sum = vi_add(sum, vi_add(vi_dot_i16(lo, vi_set1(even)), vi_dot_i16(hi, vi_set1(odd))));
            continue;
        }
        int32_t four;
        memcpy(&four, x->q.i8 + 4 * s, 4);
        VI p = vw_dot_u8i8(w[s], vi_set1(four));
        bool first = (s - from) % quads_per_sum(bits) == 0;
        part = first ? p : vw_add(part, p);
        if ((s - from + 1) % quads_per_sum(bits) == 0 || s + 1 == to)
            sum = vi_add(sum, vi_dot_i16(part, vi_set1(0x00010001)));
    }
    return sum;
}

/* Scales of 32 k of a group. */
typedef struct run_scales {
    VF d, m;
    VI sc[2], mn;
} run_scales;

V_FN run_scales load_scales(quant_format f, const uint8_t *block, const uint8_t *run, int g) {
    const uint16_t *d = (const uint16_t *)(const void *)block + g * VF_LANES;
    const uint8_t *s = run + g * VF_LANES;
    run_scales r = {.d = vf_load_f16(d)};
    if (f.has_min) r.m = vf_load_f16(d + QUANT_ROWS);
    if (f.scale_bytes && f.has_min) {
        r.m = vf_neg(r.m);
        r.sc[0] = vi_load_u8(s), r.mn = vi_load_u8(s + QUANT_ROWS);
    } else if (f.scale_bytes) {
        r.sc[0] = vi_load_i8((const int8_t *)s);
        r.sc[1] = vi_load_i8((const int8_t *)s + QUANT_ROWS);
    }
    return r;
}

/* The exact integer of 32 k: products times integer scales, zero point off. */
V_FN VI run_integer(quant_format f, run_scales r, const VI *w, const int8_block *x) {
    const int zero = f.is_signed && f.bits != 8 ? 1 << (f.bits - 1) : 0;
    if (f.bits == 6) { /* q6_k: a scale for each half */
        VI a = vi_sub(dot_quads(6, w, x, 0, 4), vi_set1(zero * x->sum[0]));
        VI b = vi_sub(dot_quads(6, w, x, 4, 8), vi_set1(zero * (x->sum[1] - x->sum[0])));
        return vi_add(vi_mul(r.sc[0], a), vi_mul(r.sc[1], b));
    }
    VI i = dot_quads(f.bits, w, x, 0, QUADS);
    if (zero) i = vi_sub(i, vi_set1(zero * x->sum[1]));
    return f.scale_bytes ? vi_mul(r.sc[0], i) : i;
}

V_FN void run_step(quant_format f, int mr, int gu, int g0, const uint8_t *block, const uint8_t *run,
                   const int8_block *x, int64_t ldx, VF (*t)[GROUPS]) {
    const int32_t *words = (const int32_t *)(const void *)(run + f.scale_bytes * QUANT_ROWS);
    UNROLL
    for (int g = 0; g < gu; g++) {
        run_scales sc = load_scales(f, block, run, g0 + g);
        VI w[QUADS];
    UNROLL
        for (int s = 0; s < QUADS; s++)
            w[s] = quad(f.bits, words + (g0 + g) * VF_LANES, s);
    UNROLL
        for (int r = 0; r < mr; r++) {
            const int8_block *b = x + r * ldx;
            VF scale = vf_set1(b->scale), i = vi_cvt_f(run_integer(f, sc, w, b));
            t[r][g] = vf_fma(vf_mul(sc.d, scale), i, t[r][g]);
            if (!f.has_min) continue;
            VI j = f.scale_bytes ? vi_mul(sc.mn, vi_set1(b->sum[1])) : vi_set1(b->sum[1]);
            t[r][g] = vf_fma(vf_mul(sc.m, scale), vi_cvt_f(j), t[r][g]);
        }
    }
}

V_FN void panel_body(quant_format f, int mr, int gu, int g0, const uint8_t *panel, int64_t k_count,
                     const int8_block *x, float *out) {
    VF total[MAX_ROWS][GROUPS], t[MAX_ROWS][GROUPS];
    int64_t ldx = k_count / INT8_BLOCK;
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            total[r][g] = t[r][g] = vf_zero();
    const uint8_t *block = panel, *run = panel + quant_head_bytes(f);
    for (int64_t k = 32; k <= k_count; k += 32, x++) {
        if (g0 == 0)
            for (int64_t i = 0; i < quant_sub_bytes(f); i += 64)
                __builtin_prefetch(run + 2560 + i);
        run_step(f, mr, gu, g0, block, run, x, ldx, t);
        run += quant_sub_bytes(f);
        if (k % f.block == 0) block = run, run += quant_head_bytes(f);
        if (k % GEMM_SEGMENT && k < k_count) continue;
    UNROLL
        for (int r = 0; r < mr; r++)
    UNROLL
            for (int g = 0; g < gu; g++) {
                total[r][g] = k <= GEMM_SEGMENT ? t[r][g] : vf_add(total[r][g], t[r][g]);
                t[r][g] = vf_zero();
            }
    }
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            vf_store(out + r * QUANT_ROWS + (g0 + g) * VF_LANES, total[r][g]);
}

V_FN void panel_of(mlsys_dtype type, const uint8_t *panel, int64_t k, int mr, const int8_block *x,
                   float *out) {
    const quant_format f = quant_format_of(type);
    int64_t ldx = k / INT8_BLOCK;
    if (mr == ROWS_AT_ONCE && mr > 1) {
        for (int g = 0; g < GROUPS; g++)
            panel_body(f, ROWS_AT_ONCE, 1, g, panel, k, x, out);
        return;
    }
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < GROUPS; g += GROUPS_AT_ONCE)
            panel_body(f, 1, GROUPS_AT_ONCE, g, panel, k, x + r * ldx, out + r * QUANT_ROWS);
}

#define DEFINE(name, T)                                                                            \
    static void panel_##name(const uint8_t *panel, int64_t k, int mr, const int8_block *x,         \
                             float *out) {                                                         \
        panel_of(T, panel, k, mr, x, out);                                                         \
    }
DEFINE(q4_0, MLSYS_Q4_0)
DEFINE(q4_1, MLSYS_Q4_1)
DEFINE(q5_0, MLSYS_Q5_0)
DEFINE(q5_1, MLSYS_Q5_1)
DEFINE(q8_0, MLSYS_Q8_0)
DEFINE(q4_k, MLSYS_Q4_K)
DEFINE(q5_k, MLSYS_Q5_K)
DEFINE(q6_k, MLSYS_Q6_K)

int8_panel_fn MLSI_K(int8_panel)(mlsys_dtype t) {
    switch (t) {
    case MLSYS_Q4_0: return panel_q4_0;
    case MLSYS_Q4_1: return panel_q4_1;
    case MLSYS_Q5_0: return panel_q5_0;
    case MLSYS_Q5_1: return panel_q5_1;
    case MLSYS_Q8_0: return panel_q8_0;
    case MLSYS_Q4_K: return panel_q4_k;
    case MLSYS_Q5_K: return panel_q5_k;
    default: return panel_q6_k;
    }
}
