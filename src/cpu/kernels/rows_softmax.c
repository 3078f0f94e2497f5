/* softmax, log_softmax, logsumexp and cross_entropy on rows. */
#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/rows.h"
#include "core/elementary.inc"
#include "core/elementary.h"

#include <math.h>

/* e_i = exp(x_i - m). */
V_FN VF term_exp(VF x, VF m) { return ef_exp(vf_sub(x, m)); }

/* The largest element that is not NaN (a NaN makes the sum NaN whatever m is), -inf if there is none.
 * Which zero comes out when both occur does not matter: exp of both is 1, and then the sum is > 1. */
static float row_max(const float *x, int64_t n) {
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

static bool has_nan(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[i]) return true;
    return false;
}

static void softmax_row(float *y, const float *x, int64_t n, const void *params) {
    const mlsi_attr_softmax *attrs = params;
    float m = row_max(x, n);
    if (attrs->masked_zero && m == -INFINITY && !has_nan(x, n)) {
        memset(y, 0, (size_t)n * sizeof *y);
        return;
    }
    VF s = vf_set1(sum_terms(y, x, n, term_exp, vf_set1(m)));
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, vf_div(vf_load(y + i), s));
    if (i < n) vf_store_n(y + i, vf_div(vf_load_n(y + i, (int)(n - i)), s), (int)(n - i));
}

/* m' and log(sum(exp(x - m'))). */
static float log_sum(const float *x, int64_t n, float *shift) {
    float m = row_max(x, n);
    *shift = isfinite(m) ? m : 0.0f;
    return mlsi_ef_log(sum_terms(NULL, x, n, term_exp, vf_set1(*shift)));
}

static void log_softmax_row(float *y, const float *x, int64_t n, const void *params) {
    float shift, l = log_sum(x, n, &shift);
    VF m = vf_set1(shift), s = vf_set1(l);
    int64_t i = 0;
    (void)params;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, vf_sub(vf_sub(vf_load(x + i), m), s));
    if (i < n) {
        int k = (int)(n - i);
        vf_store_n(y + i, vf_sub(vf_sub(vf_load_n(x + i, k), m), s), k);
    }
}

static int softmax_axis(const mlsi_kernel_args *args) {
    const mlsi_attr_softmax *attrs = args->attrs;
    return (int)(attrs->axis < 0 ? attrs->axis + args->in[0].rank : attrs->axis);
}

static uint64_t softmax_work(const mlsi_kernel_args *args, int threads) {
    return rows_work(&args->in[0], softmax_axis(args), 1, threads);
}
static mlsys_status softmax_run(const mlsi_kernel_args *args) {
    rows_run(args, softmax_axis(args), 1, softmax_row, args->attrs, args->work);
    return MLSYS_OK;
}
static mlsys_status log_softmax_run(const mlsi_kernel_args *args) {
    rows_run(args, softmax_axis(args), 1, log_softmax_row, args->attrs, args->work);
    return MLSYS_OK;
}

static bool accepts_softmax(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return compute_type_of(t) == COMPUTE_F32 && is_plain(t) && q->out[0].dtype == t;
}

MLSI_KERNEL_TABLE(rows_softmax) = {
    {.op = MLSI_OP_SOFTMAX,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("softmax_rows"),
     .accepts = accepts_softmax,
     .run = softmax_run,
     .work = softmax_work,
     .in_place = 1},
    {.op = MLSI_OP_LOG_SOFTMAX,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("log_softmax_rows"),
     .accepts = accepts_softmax,
     .run = log_softmax_run,
     .work = softmax_work,
     .in_place = 1},
    {.run = NULL},
};
