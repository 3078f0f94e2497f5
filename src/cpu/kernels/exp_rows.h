/* What softmax, logsumexp and cross_entropy share: the maximum of a row and the sum of
 * exponentials. */
#ifndef MLSI_KERNELS_EXP_ROWS_H
#define MLSI_KERNELS_EXP_ROWS_H

#include "cpu/kernels/canonical_sum.h"
#include "core/elementary.inc"
#include "core/elementary.h"
#include "core/faults.h"

#include <math.h>

/* e_i = exp(x_i - m). */
V_FN VF term_exp(VF x, VF m) { return ef_exp(vf_sub(x, m)); }

/* The largest element that is not NaN (a NaN makes the sum NaN whatever m is), -inf if there is
 * none. Which zero comes out when both occur does not matter: exp of both is 1, and then the sum is
 * > 1. */
static inline float row_max(const float *x, int64_t n) {
    VF acc[4];
    int64_t i = 0;
    for (int r = 0; r < 4; r++)
        acc[r] = vf_set1(-INFINITY);
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        for (int r = 0; r < 4; r++)
            acc[r] = vf_max_sel(vf_load(x + i + r * VF_LANES), acc[r]);
    for (; i < n; i += VF_LANES) {
        int m = n - i < VF_LANES ? (int)(n - i) : VF_LANES;
        VF v = vf_select(vi_lt(vi_iota(), vi_set1(m)), vf_load_n(x + i, m), vf_set1(-INFINITY));
        acc[0] = vf_max_sel(v, acc[0]);
    }
    acc[0] = vf_max_sel(vf_max_sel(acc[0], acc[1]), vf_max_sel(acc[2], acc[3]));
    return vf_reduce_maximum(acc[0]);
}

/* m' and log(sum(exp(x - m'))). */
static inline float log_sum(const float *x, int64_t n, float *shift) {
    float m = row_max(x, n);
    *shift = isfinite(m) || mlsi_fault(MLSI_FAULT_CPU_LOGSUMEXP_INF) ? m : 0.0f;
    return mlsi_ef_log(sum_terms(NULL, x, n, term_exp, vf_set1(*shift)));
}

#endif
