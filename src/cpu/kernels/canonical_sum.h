/* The canonical sum of docs/numerics.md on contiguous f32: chunks of 4096, 128 lanes, halving
 * folds.
 *
 * Register r of the accumulators holds lanes r * VF_LANES ... of the 128. Folding registers and
 * then the lanes of the last register is the stated fold, for every VF_LANES. A lane is never -0,
 * so adding +0 to lanes past the end changes nothing. */
#ifndef MLSI_KERNELS_CANONICAL_SUM_H
#define MLSI_KERNELS_CANONICAL_SUM_H

#include "cpu/kernel.h"
#include "cpu/sum_tree.h"

enum { SUM_LANES = MLSI_SUM_LANES, SUM_CHUNK = MLSI_SUM_CHUNK, SUM_REGS = SUM_LANES / VF_LANES };

/* The summand as a function of the element and one parameter; always inlined. */
typedef VF (*sum_term)(VF x, VF c);
V_FN VF term_identity(VF x, VF c) { return (void)c, x; }
V_FN VF term_square(VF x, VF c) { return (void)c, vf_mul(x, x); }
V_FN VF term_centred_square(VF x, VF c) {
    VF d = vf_sub(x, c);
    return vf_mul(d, d);
}

V_FN float sum_fold_registers(VF *acc) {
    for (int h = SUM_REGS / 2; h >= 1; h /= 2)
        for (int r = 0; r < h; r++)
            acc[r] = vf_add(acc[r], acc[r + h]);
    return vf_reduce_add(acc[0]);
}

/* One chunk, n <= SUM_CHUNK. With y, the terms are also stored (y may be x). */
V_FN float sum_chunk(float *y, const float *x, int64_t n, sum_term term, VF c) {
    VF acc[SUM_REGS];
    int64_t i = 0;
    for (int r = 0; r < SUM_REGS; r++)
        acc[r] = vf_zero();
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (int r = 0; r < SUM_REGS; r++) {
            VF v = term(vf_load(x + i + r * VF_LANES), c);
            if (y) vf_store(y + i + r * VF_LANES, v);
            acc[r] = vf_add(acc[r], v);
        }
    for (int r = 0; r < SUM_REGS; r++) {
        int64_t at = i + r * VF_LANES;
        if (at >= n) break;
        int m = n - at < VF_LANES ? (int)(n - at) : VF_LANES;
        VF v = term(vf_load_n(x + at, m), c);
        if (y) vf_store_n(y + at, v, m);
        v = vf_select(vi_lt(vi_iota(), vi_set1(m)), v, vf_zero());
        acc[r] = vf_add(acc[r], v);
    }
    return sum_fold_registers(acc);
}

/* The whole sum of terms. */
V_FN float sum_terms(float *y, const float *x, int64_t n, sum_term term, VF c) {
    if (n <= SUM_CHUNK) return sum_chunk(y, x, n, term, c);
    mlsi_sum_tree tree;
    mlsi_sum_tree_init(&tree, false, true);
    for (int64_t i = 0; i < n; i += SUM_CHUNK) {
        int64_t m = n - i < SUM_CHUNK ? n - i : SUM_CHUNK;
        mlsi_sum_tree_push(&tree, sum_chunk(y ? y + i : NULL, x + i, m, term, c));
    }
    return (float)mlsi_sum_tree_result(&tree);
}

#endif
