/* Decoding packed blocks in registers: one group is VF_LANES rows of a panel, see quant.h. */
#ifndef MLSI_KERNELS_QUANT_DECODE_H
#define MLSI_KERNELS_QUANT_DECODE_H

#include "core/faults.h"
#include "cpu/kernels/quant.h"

/* Operands that live in memory, used where they stand: left to itself the compiler loads them early and
 * spills other registers for it. FINISH(v): compute v here; it keeps the chains interleaved. */
#if defined(MLSI_ISA_IS_PORTABLE)
#define FINISH(v) ((void)0)
V_FN VF load_here(const float *p) { return vf_load(p); }
V_FN VF mul_memory(VF a, const float *p) { return vf_mul(a, vf_load(p)); }
V_FN VF fma_memory(VF a, const float *p, VF c) { return vf_fma(a, vf_load(p), c); }
#else
#define FINISH(v) __asm__ volatile("" : "+v"(v))
V_FN VF load_here(const float *p) {
    VF v;
    __asm__ volatile("vmovaps %1, %0" : "=v"(v) : "m"(*(const VF *)(const void *)p));
    return v;
}
V_FN VF mul_memory(VF a, const float *p) {
    VF v;
    __asm__ volatile("vmulps %2, %1, %0" : "=v"(v) : "v"(a), "m"(*(const VF *)(const void *)p));
    return v;
}
V_FN VF fma_memory(VF a, const float *p, VF c) {
    __asm__ volatile("vfmadd132ps %2, %1, %0"
                     : "+v"(a)
                     : "v"(c), "m"(*(const VF *)(const void *)p));
    return a;
}
#endif

enum { QUANT_GROUPS = MLSI_PANEL_ROWS / VF_LANES }; /* registers that hold a panel's rows */

/* Scales of k < 16 and k >= 16, and the minimum, of one 32-element run and one group of rows. */
typedef struct affine {
    VF scale[2], min;
} affine;

V_FN affine load_affine(mlsi_panel_format f, const uint8_t *block, const uint8_t *run, int group) {
    const uint16_t *d = (const uint16_t *)(const void *)block + group * VF_LANES;
    /* Signed codes sit at the top of the word. */
    VF unit = vf_set1(f.is_signed ? 1.0f / (float)(1u << (32 - f.bits)) : 1.0f);
    affine r;
    r.scale[0] = vf_load_f16(d);
    if (f.is_signed) r.scale[0] = vf_mul(r.scale[0], unit);
    r.min = f.has_min ? vf_load_f16(d + MLSI_PANEL_ROWS) : vf_zero();
    r.scale[1] = r.scale[0];
    if (f.scale_bytes) {
        const uint8_t *s = run + group * VF_LANES;
        if (f.has_min) {
            r.scale[0] = vf_mul(r.scale[0], vi_cvt_f(vi_load_u8(s)));
            r.scale[1] = r.scale[0];
            VF scale = vi_cvt_f(vi_load_u8(s + MLSI_PANEL_ROWS));
            if (mlsi_fault(MLSI_FAULT_QUANT_MIN)) scale = vf_set1(1.0f);
            r.min = vf_neg(vf_mul(r.min, scale));
        } else {
            const int8_t *i = (const int8_t *)s;
            r.scale[1] = vf_mul(r.scale[1], vi_cvt_f(vi_load_i8(i + MLSI_PANEL_ROWS)));
            r.scale[0] = vf_mul(r.scale[0], vi_cvt_f(vi_load_i8(i)));
        }
    }
    return r;
}

/* Field j of a word, as an integer (unsigned) or at the word's top (signed). */
V_FN VI word_field(mlsi_panel_format f, VI word, int j) {
    int pos = mlsi_panel_base(f.bits) + f.bits * j;
    if (f.is_signed) {
        VI top = pos + f.bits == 32 ? word : vi_sll(word, 32 - f.bits - pos);
        return pos == 0 ? top : vi_and(top, vi_set1((int32_t)(UINT32_MAX << (32 - f.bits))));
    }
    VI low = pos == 0 ? word : vi_srl(word, pos);
    return pos + f.bits == 32 ? low : vi_and(low, vi_set1((1 << f.bits) - 1));
}

/* Code 30 or 31 of 5- and 6-bit runs, from the two low bits of the words. */
V_FN VI split_field(mlsi_panel_format f, const int32_t *words, int k) {
    int w = k == 30 || mlsi_fault(MLSI_FAULT_QUANT_SPLIT) ? 0 : 3;
    VI two = vi_set1(3), low = vi_and(vi_load(words + w * MLSI_PANEL_ROWS), two);
    VI mid = vi_sll(vi_and(vi_load(words + (w + 1) * MLSI_PANEL_ROWS), two), 2);
    VI top = vi_load(words + (f.bits == 5 ? 2 : w + 2) * MLSI_PANEL_ROWS);
    if (f.bits == 5)
        top = vi_and(k == 30 ? vi_sll(top, 4) : vi_sll(top, 3), vi_set1(16));
    else
        top = vi_sll(vi_and(top, two), 4);
    VI q = vi_or(vi_or(low, mid), top);
    return f.is_signed ? vi_sll(q, 32 - f.bits) : q;
}

V_FN VF weight(mlsi_panel_format f, VF scale, VF min, VI q) {
    return f.has_min ? vf_fma(scale, vi_cvt_f(q), min) : vf_mul(scale, vi_cvt_f(q));
}

V_FN int64_t quant_panel_bytes(mlsi_panel_format f, int64_t k) {
    return k / f.block * mlsi_panel_block_bytes(f);
}

#endif
