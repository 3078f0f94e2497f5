/* quant_matmul for few rows: W streams once through registers, decoded on the way.
 *
 * One step takes the codes of one k and VF_LANES rows of W: mask, convert, w = fma(scale, q, min)
 * or scale * q, sum = fma(x_k, w, sum): about 4.4 vector operations, so with four pipes little more
 * than one cycle. What it takes to get near: four chains side by side in program order (the sums
 * alone stay in registers; scales and minima are memory operands, since sixteen registers do not
 * hold them and the compiler would rather spill the sums), two fields per shift where codes
 * are unsigned (the second mask leaves q * 2^bits and its scale is 2^-bits smaller: exact), and
 * prefetching, as a block is only ten cache lines. Zen 3: 1.45 cycles a step (q4_1, q4_k), 1.6
 * (q8_0); without the interleaving 1.9. */
#include "cpu/kernels/quant_decode.h"

#if !defined(MLSI_ISA_IS_PORTABLE)

enum {
    MAX_GROUPS = 4, /* side by side; they may span two panels */
    GROUPS = QUANT_GROUPS,
    AHEAD = 2560, /* bytes that the prefetch runs ahead */
    LINE = 64,
};
/* Slots of the operands in memory: [group][slot]. */
enum { SCALE = 0, SCALE_2 = 1, MIN = 2, SLOTS = 3 };

typedef float operands[MAX_GROUPS][SLOTS][VF_LANES];
typedef VF sums[GEMM_SMALL_M][MAX_GROUPS];

/* Where group g of the panels from `base` on lies in an array of MLSI_PANEL_ROWS elements of `size`. */
V_FN const uint8_t *group_at(const uint8_t *base, int64_t panel_bytes, int g, int size) {
    return base + g / QUANT_GROUPS * panel_bytes + g % QUANT_GROUPS * VF_LANES * size;
}

V_FN void set_operands(mlsi_panel_format f, int gu, int g0, const uint8_t *block,
                       const uint8_t *run, int64_t panel_bytes, operands o) {
    const int base = mlsi_panel_base(f.bits);
#pragma GCC unroll 4
    for (int g = 0; g < gu; g++) {
        int64_t panel = (g0 + g) / QUANT_GROUPS * panel_bytes;
        affine a = load_affine(f, block + panel, run + panel, (g0 + g) % QUANT_GROUPS);
        if (f.has_min) {
            VF s = base ? vf_mul(a.scale[0], vf_set1(1.0f / (float)(1 << base))) : a.scale[0];
            vf_store(o[g][SCALE], s);
            vf_store(o[g][SCALE_2], vf_mul(s, vf_set1(1.0f / (float)(1 << f.bits))));
            vf_store(o[g][MIN], a.min);
        } else {
            vf_store(o[g][SCALE], a.scale[0]);
            if (f.bits == 6) vf_store(o[g][SCALE_2], a.scale[1]);
        }
    }
}

/* Masks of the two lowest fields (unsigned codes) or of the highest (signed). */
typedef struct masks {
    VI first, second;
} masks;

V_FN masks masks_of(mlsi_panel_format f) {
    uint32_t field = (1u << f.bits) - 1;
    uint32_t first = field << (f.has_min ? mlsi_panel_base(f.bits) : 32 - f.bits);
    masks m = {vi_set1((int32_t)first), vi_set1((int32_t)(first << f.bits))};
    FINISH(m.first); /* else the constants are made again for each word */
    if (f.has_min) FINISH(m.second);
    return m;
}

/* A word of unsigned codes: fields j and j + 1 by two masks, then one shift. One row of x: */
V_FN void word_unsigned_1(mlsi_panel_format f, int gu, masks m, VI *v, const float *x,
                          const float (*o)[SLOTS][VF_LANES], VF (*s)[MAX_GROUPS]) {
#pragma GCC unroll 4
    for (int j = 0; j < mlsi_panel_fields(f.bits); j += 2) {
        VF x0 = vf_set1(x[j]), x1 = vf_set1(x[j + 1]);
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++) {
            VF min = load_here(o[g][MIN]);
            VF w0 = fma_memory(vi_cvt_f(vi_and(v[g], m.first)), o[g][SCALE], min);
            VF w1 = fma_memory(vi_cvt_f(vi_and(v[g], m.second)), o[g][SCALE_2], min);
            s[0][g] = vf_fma(x0, w0, s[0][g]);
            s[0][g] = vf_fma(x1, w1, s[0][g]);
            FINISH(s[0][g]);
            if (j + 2 < mlsi_panel_fields(f.bits)) v[g] = vi_srl(v[g], 2 * f.bits);
        }
    }
}

/* Several rows: one field at a time, so that no more than mr elements of x are in registers. */
V_FN void word_unsigned(mlsi_panel_format f, int mr, int gu, masks m, VI *v, const float *x,
                        int64_t ldx, const float (*o)[SLOTS][VF_LANES], VF (*s)[MAX_GROUPS]) {
#pragma GCC unroll 8
    for (int j = 0; j < mlsi_panel_fields(f.bits); j++) {
        const int second = j % 2;
        VF xj[GEMM_SMALL_M];
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++)
            xj[r] = vf_set1(x[r * ldx + j]);
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++) {
            VI q = vi_and(v[g], second ? m.second : m.first);
            VF w = fma_memory(vi_cvt_f(q), o[g][second ? SCALE_2 : SCALE], load_here(o[g][MIN]));
#pragma GCC unroll 4
            for (int r = 0; r < mr; r++) {
                s[r][g] = vf_fma(xj[r], w, s[r][g]);
                FINISH(s[r][g]);
            }
            if (second && j + 1 < mlsi_panel_fields(f.bits)) v[g] = vi_srl(v[g], 2 * f.bits);
        }
    }
}

/* A word of signed codes: each field to the top. Field 0 uses slot `scale0`, the others `scale`. */
V_FN void word_signed(mlsi_panel_format f, int mr, int gu, masks m, const VI *v, const float *x,
                      int64_t ldx, int scale0, int scale, const float (*o)[SLOTS][VF_LANES],
                      VF (*s)[MAX_GROUPS]) {
#pragma GCC unroll 8
    for (int j = 0; j < mlsi_panel_fields(f.bits); j++) {
        VF xj[GEMM_SMALL_M];
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++)
            xj[r] = vf_set1(x[r * ldx + j]);
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++) {
            const int pos = mlsi_panel_base(f.bits) + f.bits * j;
            VI q = pos + f.bits == 32 ? v[g] : vi_sll(v[g], 32 - f.bits - pos);
            if (pos) q = vi_and(q, m.first);
            VF w = mul_memory(vi_cvt_f(q), o[g][j ? scale : scale0]);
#pragma GCC unroll 4
            for (int r = 0; r < mr; r++) {
                s[r][g] = vf_fma(xj[r], w, s[r][g]);
                FINISH(s[r][g]);
            }
        }
    }
}

/* k = 30 and 31 of 5- and 6-bit codes. */
V_FN void split_codes(mlsi_panel_format f, int mr, int gu, int g0, const uint8_t *words,
                      int64_t panel_bytes, const float *x, int64_t ldx,
                      const float (*o)[SLOTS][VF_LANES], VF (*s)[MAX_GROUPS]) {
    const int slot = f.bits == 6 ? SCALE_2 : SCALE;
#pragma GCC unroll 2
    for (int k = 30; k < 32; k++)
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++) {
            const uint8_t *p = group_at(words, panel_bytes, g0 + g, 4);
            VI q = split_field(f, (const int32_t *)(const void *)p, k);
            VF scale = vf_load(o[g][slot]);
            /* The slot is meant for a field at the base. */
            if (f.has_min) q = vi_sll(q, mlsi_panel_base(f.bits));
            VF w = f.has_min ? vf_fma(vi_cvt_f(q), scale, vf_load(o[g][MIN]))
                             : vf_mul(vi_cvt_f(q), scale);
#pragma GCC unroll 4
            for (int r = 0; r < mr; r++)
                s[r][g] = vf_fma(vf_set1(x[r * ldx + k]), w, s[r][g]);
        }
}

/* 32 k of groups [g0, g0 + gu). */
V_FN void run_step(mlsi_panel_format f, int mr, int gu, int g0, const uint8_t *block,
                   const uint8_t *run, int64_t panel_bytes, masks m, const float *x, int64_t ldx,
                   VF (*s)[MAX_GROUPS]) {
    const uint8_t *words = run + f.scale_bytes * MLSI_PANEL_ROWS;
    _Alignas(64) operands memory;
    set_operands(f, gu, g0, block, run, panel_bytes, memory);
    const float(*o)[SLOTS][VF_LANES] = (const float(*)[SLOTS][VF_LANES])memory;
    for (int w = 0; w < f.bits; w++) {
        const uint8_t *word = words + w * MLSI_PANEL_ROWS * 4;
        const float *xw = x + w * mlsi_panel_fields(f.bits);
        VI v[MAX_GROUPS];
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++)
            v[g] = vi_load((const int32_t *)(const void *)group_at(word, panel_bytes, g0 + g, 4));
        if (f.has_min && mr == 1)
            word_unsigned_1(f, gu, m, v, xw, o, s);
        else if (f.has_min)
            word_unsigned(f, mr, gu, m, v, xw, ldx, o, s);
        else if (f.bits != 6)
            word_signed(f, mr, gu, m, v, xw, ldx, SCALE, SCALE, o, s);
        else /* q6_k changes scale at k = 16, field 1 of word 3 */
            word_signed(f, mr, gu, m, v, xw, ldx, w < 4 ? SCALE : SCALE_2, w < 3 ? SCALE : SCALE_2,
                        o, s);
    }
    if (f.bits == 5 || f.bits == 6) split_codes(f, mr, gu, g0, words, panel_bytes, x, ldx, o, s);
}

/* mr rows of x times groups [g0, g0 + gu) counted from a panel. */
V_FN void rows_body(mlsi_panel_format f, int mr, int gu, int g0, const uint8_t *panel,
                    int64_t panel_bytes, int64_t k_count, const float *x, int64_t ldx, float *out,
                    int64_t ldo) {
    sums total, s;
    const masks m = masks_of(f);
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int g = 0; g < gu; g++)
            s[r][g] = total[r][g] = vf_zero();
    const uint8_t *block = panel, *run = panel + mlsi_panel_head_bytes(f);
    for (int64_t k = 32; k <= k_count; k += 32, x += 32) {
        for (int p = 0; p * QUANT_GROUPS < gu; p++)
            for (int i = 0; i < mlsi_panel_sub_bytes(f); i += LINE)
                __builtin_prefetch(run + p * panel_bytes + AHEAD + i);
        run_step(f, mr, gu, g0, block, run, panel_bytes, m, x, ldx, s);
        run += mlsi_panel_sub_bytes(f);
        if (k % f.block == 0) block = run, run += mlsi_panel_head_bytes(f);
        if (k % MLSI_K_SEGMENT && k < k_count) continue;
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++) /* a segment is complete */
#pragma GCC unroll 4
            for (int g = 0; g < gu; g++) {
                total[r][g] = k <= MLSI_K_SEGMENT ? s[r][g] : vf_add(total[r][g], s[r][g]);
                s[r][g] = vf_zero();
            }
    }
    for (int r = 0; r < mr; r++)
        for (int g = 0; g < gu; g++)
            vf_store(out + r * ldo + (g0 + g) * VF_LANES, total[r][g]);
}

/* Three rows are two and one: the second pass reads a panel that is in L1 or L2. */
V_FN void rows_of(mlsys_dtype t, QUANT_ROWS_ARGS) {
    (void)b_batch;
    const mlsi_panel_format f = mlsi_panel_format_of(t);
    int64_t k = g->k.count, panel_bytes = quant_panel_bytes(f, k);
    const uint8_t *b = g->packed + panel * panel_bytes;
#define BODY(mr_, gu_, g0_, row)                                                                   \
    rows_body(f, mr_, gu_, g0_, b, panel_bytes, k, a + (row)*lda, lda, out + (row)*ldo, ldo)
    while (panels > 0) {
        const int pair = GROUPS < MAX_GROUPS && mr == 1 && panels > 1;
        if (mr == 4)
            for (int g0 = 0; g0 < QUANT_GROUPS; g0 += 2)
                BODY(4, 2, g0, 0);
        if (mr == 2 || mr == 3)
            for (int g0 = 0; g0 < QUANT_GROUPS; g0 += 2)
                BODY(2, 2, g0, 0);
        if (GROUPS == MAX_GROUPS ? mr & 1 : pair)
            BODY(1, MAX_GROUPS, 0, mr - 1);
        else if (mr & 1)
            BODY(1, QUANT_GROUPS, 0, mr - 1);
        b += (1 + pair) * panel_bytes, out += (1 + pair) * MLSI_PANEL_ROWS, panels -= 1 + pair;
    }
#undef BODY
}

#define DEFINE(name, T)                                                                            \
    void MLSI_K(quant_rows_##name)(QUANT_ROWS_ARGS) {                                              \
        rows_of(T, g, b_batch, panel, panels, mr, a, lda, out, ldo);                               \
    }
QUANT_FORMATS(DEFINE)

#endif
