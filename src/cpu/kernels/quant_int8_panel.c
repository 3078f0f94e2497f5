/* act = int8: quantising x, packing W, and a panel of W times up to four rows.
 *
 * Per 32 k, VF_LANES rows of W and one row of x: eight multiply-adds of bytes (32 products each)
 * whose 16-bit results add up as long as they fit, one widening, one conversion and one FMA: some
 * 22 vector operations for 256 products, where f32 activations take 140. */
#include "core/faults.h"
#include "cpu/kernels/quant_decode.h"
#include "cpu/kernels/quant_int8.h"

#include <math.h>

/* Rows of x and groups of W at once. The portable build rolls its loops and takes one of each:
 * emulated vectors, unrolled, are big. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define UNROLL
enum { MANY_ROWS = 1, SOME_ROWS = 1, ONE_ROW_GROUPS = 1 };
#else
#define UNROLL _Pragma("GCC unroll 8")
enum { MANY_ROWS = 8, SOME_ROWS = 4, ONE_ROW_GROUPS = MLSI_PANEL_ROWS / VF_LANES < 4 ? 2 : 4 };
#endif
enum { GROUPS = MLSI_PANEL_ROWS / VF_LANES, QUADS = 8 };

/* ---- x --------------------------------------------------------------------------------------- */

void MLSI_K(int8_quantise)(const float *x, int8_block *b) {
    VF most = vf_abs(vf_load(x));
    int32_t code[INT8_BLOCK], lanes[VF_LANES];
    for (int i = VF_LANES; i < INT8_BLOCK; i += VF_LANES)
        most = vf_maximum(most, vf_abs(vf_load(x + i)));
    float s = vf_reduce_maximum(most) / 127.0f;
    b->scale = s, b->total = 0.0f, b->sum[0] = b->sum[1] = 0;
    if (!(s > 0.0f && s < INFINITY)) { /* 0, infinite, NaN: codes are 0, the scale alone tells */
        memset(b->q, 0, sizeof b->q);
        return;
    }
    VI half[2] = {vi_zero(), vi_zero()};
    UNROLL
    for (int i = 0; i < INT8_BLOCK; i += VF_LANES) {
        VF q = vf_rint(vf_div(vf_load(x + i), vf_set1(s)));
        /* A subnormal scale may be far below max / 127. */
        if (!mlsi_fault(MLSI_FAULT_INT8_SATURATE))
            q = vf_max_sel(vf_min_sel(q, vf_set1(127.0f)), vf_set1(-128.0f));
        VI c = vf_cvt_i(q);
        vi_store(code + i, c);
        half[i >= INT8_BLOCK / 2] = vi_add(half[i >= INT8_BLOCK / 2], c);
    }
    for (int i = 0; i < INT8_BLOCK; i++)
        b->q[i] = (int8_t)code[i];
    vi_store(lanes, half[0]);
    for (int i = 0; i < VF_LANES; i++)
        b->sum[0] += lanes[i];
    vi_store(lanes, vi_add(half[0], half[1]));
    for (int i = 0; i < VF_LANES; i++)
        b->sum[1] += lanes[i];
    b->total = (float)b->sum[1];
}

/* ---- W --------------------------------------------------------------------------------------- */

static uint32_t four_codes(const uint8_t *q) {
    uint32_t v;
    memcpy(&v, q, 4); /* little-endian, as all supported machines */
    return v;
}

static void pack_codes(int bits, const uint8_t q[32], uint32_t words[8]) {
    const uint32_t low = 0x0f0f0f0f;
    words[4] = words[5] = 0;
    for (int s = 0; s < QUADS; s++) {
        uint32_t v = four_codes(q + 4 * s), high = v >> 4 & low;
        if (bits == 8)
            words[s] = v;
        else if (s % 2)
            words[s / 2] |= (v & low) << 4;
        else
            words[s / 2] = v & low;
        if (bits == 5) words[4] |= high << s;
        if (bits == 6) words[4 + s / 4] |= high << (s % 4 * 2);
    }
}

static void pack_run(mlsys_dtype t, mlsi_panel_format f, const uint8_t *block, int sub, int row,
                     uint8_t *out) {
    mlsi_panel_codes c;
    uint32_t words[8];
    mlsi_panel_codes_of(t, block, sub, &c);
    pack_codes(f.bits, c.q, words);
    memcpy(out + row * 2, t == MLSYS_Q6_K ? block + sizeof(mlsi_q6_k) - 2 : block, 2);
    if (f.has_min) memcpy(out + (MLSI_PANEL_ROWS + row) * 2, block + 2, 2);
    out += mlsi_panel_head_bytes(f) + sub * mlsi_panel_sub_bytes(f);
    if (f.scale_bytes) {
        out[row] = (uint8_t)c.sc[0];
        out[MLSI_PANEL_ROWS + row] = (uint8_t)(f.has_min ? c.mn : c.sc[1]);
        out += 2 * MLSI_PANEL_ROWS;
    }
    for (int i = 0; i < f.bits; i++)
        memcpy(out + (i * MLSI_PANEL_ROWS + row) * 4, &words[i], 4);
}

void MLSI_K(int8_pack_panel)(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t rows,
                             int64_t k, uint8_t *packed) {
    mlsi_panel_format f = mlsi_panel_format_of(t);
    int64_t blocks = k / f.block, bytes = mlsi_panel_block_bytes(f);
    int file_bytes = mlsi_dtype_get(t)->block_bytes;
    if (blocks > 0 && rows < MLSI_PANEL_ROWS) memset(packed, 0, (size_t)(blocks * bytes));
    for (int64_t b = 0; b < blocks; b++, packed += bytes)
        for (int row = 0; row < rows; row++)
            for (int sub = 0; sub < f.block / 32; sub++)
                pack_run(t, f, w + row * row_bytes + b * file_bytes, sub, row, packed);
}

/* ---- product --------------------------------------------------------------------------------- */

/* Four k of one group: unsigned bytes. High nibbles of 8-bit codes apart, in *high. */
V_FN VI quad(int bits, const int32_t *words, int s, VI *high) {
    const VI nibble = vi_set1(0x0f0f0f0f);
    if (bits == 8) {
        VI v = vi_load(words + s * MLSI_PANEL_ROWS);
        *high = vi_and(vi_srl(v, 4), nibble);
        return vi_and(v, nibble);
    }
    VI v = vi_load(words + s / 2 * MLSI_PANEL_ROWS);
    if (s % 2) v = vi_srl(v, 4);
    v = vi_and(v, nibble);
    if (bits == 4) return v;
    const int at = bits == 5 ? s : s % 4 * 2; /* where the high part lies; it belongs at bit 4 */
    VI h = vi_load(words + (bits == 5 ? 4 : 4 + s / 4) * MLSI_PANEL_ROWS);
    h = at < 4 ? vi_sll(h, 4 - at) : vi_srl(h, at - 4);
    return vi_or(v, vi_and(h, vi_set1(bits == 5 ? 0x10101010 : 0x30303030)));
}

/* Quads whose 16-bit sums are sure to fit: 2 * (2^bits - 1) * 128 each; 8-bit codes go by
 * nibbles. */
V_FN int quads_per_sum(int bits) { return bits == 5 ? 4 : bits == 6 ? 2 : 8; }

/* Sums being made, [row of x][group]. */
typedef struct integers {
    VI part[INT8_MAX_ROWS][GROUPS], high[INT8_MAX_ROWS][GROUPS]; /* 16 bits */
    VI sum[2][INT8_MAX_ROWS][GROUPS];                            /* of the halves, or all in [0] */
} integers;

/* The products of 32 k, before scales. */
V_FN void dot_run(int bits, int mr, int gu, const int32_t *words, const int8_block *x, int64_t ldx,
                  integers *n) {
    const VI one = vi_set1(0x00010001);
    const int per = quads_per_sum(bits);
    UNROLL
    for (int s = 0; s < QUADS; s++)
        UNROLL
    for (int g = 0; g < gu; g++) {
        VI h = vi_zero(), w = quad(bits, words + g * VF_LANES, s, &h);
        UNROLL
        for (int r = 0; r < mr; r++) {
            int32_t four;
            memcpy(&four, x[r * ldx].q + 4 * s, 4);
            VI q = vi_set1(four), p = vw_dot_u8i8(w, q);
            n->part[r][g] = s % per ? vw_add(n->part[r][g], p) : p;
            if (bits == 8) {
                p = vw_dot_u8i8(h, q);
                n->high[r][g] = s ? vw_add(n->high[r][g], p) : p;
                FINISH(n->high[r][g]);
            }
            FINISH(n->part[r][g]); /* in this order: loads far ahead would only spill */
            if ((s + 1) % per) continue;
            const int half = bits == 6 && s >= QUADS / 2;
            VI sum = vi_dot_i16(n->part[r][g], one);
            if (bits == 8) sum = vi_add(sum, vi_sll(vi_dot_i16(n->high[r][g], one), 4));
            bool first = s < per || (bits == 6 && s - QUADS / 2 < per && half);
            n->sum[half][r][g] = first ? sum : vi_add(n->sum[half][r][g], sum);
        }
    }
}

/* Scales of 32 k of a group. The integers are floats here: their products stay below 2^24, so
 * float arithmetic on them is exact and cheaper than integer multiplication. */
typedef struct run_scales {
    VF d, m, sc[2], mn;
} run_scales;

V_FN run_scales load_scales(mlsi_panel_format f, const uint8_t *block, const uint8_t *run, int g) {
    const uint16_t *d = (const uint16_t *)(const void *)block + g * VF_LANES;
    const uint8_t *s = run + g * VF_LANES;
    run_scales r = {.d = vf_load_f16(d)};
    if (f.has_min) r.m = vf_load_f16(d + MLSI_PANEL_ROWS);
    if (f.scale_bytes && f.has_min) {
        r.m = vf_neg(r.m);
        r.sc[0] = vi_cvt_f(vi_load_u8(s)), r.mn = vi_cvt_f(vi_load_u8(s + MLSI_PANEL_ROWS));
    } else if (f.scale_bytes) {
        r.sc[0] = vi_cvt_f(vi_load_i8((const int8_t *)s));
        r.sc[1] = vi_cvt_f(vi_load_i8((const int8_t *)s + MLSI_PANEL_ROWS));
    }
    return r;
}

/* The exact integer of 32 k: products times integer scales, zero point off. */
V_FN VF run_integer(mlsi_panel_format f, const run_scales *r, VI low, VI high,
                    const int8_block *x) {
    const int zero = f.is_signed ? 1 << (f.bits - 1) : 0;
    if (f.bits == 6) { /* q6_k: a scale for each half */
        VI a = vi_sub(low, vi_set1(zero * x->sum[0]));
        int32_t second = mlsi_fault(MLSI_FAULT_INT8_ZERO) ? x->sum[0] : x->sum[1] - x->sum[0];
        VI b = vi_sub(high, vi_set1(zero * second));
        return vf_add(vf_mul(r->sc[0], vi_cvt_f(a)), vf_mul(r->sc[1], vi_cvt_f(b)));
    }
    if (zero) low = vi_sub(low, vi_set1(zero * x->sum[1]));
    return f.scale_bytes ? vf_mul(r->sc[0], vi_cvt_f(low)) : vi_cvt_f(low);
}

V_FN void run_step(mlsi_panel_format f, int mr, int gu, int g0, const uint8_t *block,
                   const uint8_t *run, const int8_block *x, int64_t ldx, VF (*t)[GROUPS]) {
    const int32_t *words = (const int32_t *)(const void *)(run + f.scale_bytes * MLSI_PANEL_ROWS);
    integers n;
#if defined(MLSI_ISA_IS_PORTABLE)
    memset(&n, 0, sizeof n); /* rolled loops hide from the compiler that the first step assigns */
#endif
    dot_run(f.bits, mr, gu, words + g0 * VF_LANES, x, ldx, &n);
    UNROLL
    for (int g = 0; g < gu; g++) {
        run_scales sc = load_scales(f, block, run, g0 + g);
        UNROLL
        for (int r = 0; r < mr; r++) {
            const int8_block *b = x + r * ldx;
            VF i = run_integer(f, &sc, n.sum[0][r][g], n.sum[1][r][g], b);
            VF scale = vf_set1(b->scale);
            t[r][g] = vf_fma(vf_mul(sc.d, scale), i, t[r][g]);
            if (!f.has_min) continue;
            VF j = vf_set1(b->total);
            if (f.scale_bytes) j = vf_mul(sc.mn, j);
            t[r][g] = vf_fma(vf_mul(sc.m, scale), j, t[r][g]);
        }
    }
}

V_FN void panel_body(mlsi_panel_format f, int mr, int gu, int g0, const uint8_t *panel,
                     int64_t k_count, const int8_block *x, float *out) {
    VF total[INT8_MAX_ROWS][GROUPS], t[INT8_MAX_ROWS][GROUPS];
    int64_t ldx = k_count / INT8_BLOCK;
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            total[r][g] = t[r][g] = vf_zero();
    const uint8_t *block = panel, *run = panel + mlsi_panel_head_bytes(f);
    for (int64_t k = 32; k <= k_count; k += 32, x++) {
        if (g0 == 0)
            for (int64_t i = 0; i < mlsi_panel_sub_bytes(f); i += 64)
                __builtin_prefetch(run + 2560 + i);
        run_step(f, mr, gu, g0, block, run, x, ldx, t);
        run += mlsi_panel_sub_bytes(f);
        if (k % f.block == 0) block = run, run += mlsi_panel_head_bytes(f);
        if (k % MLSI_K_SEGMENT && k < k_count) continue;
        UNROLL
        for (int r = 0; r < mr; r++)
            UNROLL
        for (int g = 0; g < gu; g++) {
            total[r][g] = k <= MLSI_K_SEGMENT ? t[r][g] : vf_add(total[r][g], t[r][g]);
            t[r][g] = vf_zero();
        }
    }
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            vf_store(out + r * MLSI_PANEL_ROWS + (g0 + g) * VF_LANES, total[r][g]);
}

V_FN void panel_of(mlsys_dtype type, const uint8_t *panel, int64_t k, int mr, const int8_block *x,
                   float *out) {
    const mlsi_panel_format f = mlsi_panel_format_of(type);
    const int many = f.bits == 4 ? MANY_ROWS : SOME_ROWS;
    int64_t ldx = k / INT8_BLOCK;
    for (; many > 1 && mr >= many; mr -= many, x += many * ldx, out += many * MLSI_PANEL_ROWS)
        for (int g = 0; g < GROUPS; g++)
            panel_body(f, many, 1, g, panel, k, x, out);
    for (; SOME_ROWS > 1 && many > SOME_ROWS && mr >= SOME_ROWS;
         mr -= SOME_ROWS, x += SOME_ROWS * ldx, out += SOME_ROWS * MLSI_PANEL_ROWS)
        for (int g = 0; g < GROUPS; g++)
            panel_body(f, SOME_ROWS, 1, g, panel, k, x, out);
    for (; mr > 0; mr--, x += ldx, out += MLSI_PANEL_ROWS)
        for (int g = 0; g < GROUPS; g += ONE_ROW_GROUPS)
            panel_body(f, 1, ONE_ROW_GROUPS, g, panel, k, x, out);
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
