/* softmax and log_softmax on rows. */
#include "cpu/kernels/exp_rows.h"
#include "cpu/kernels/rows.h"
#include "core/faults.h"

static bool has_nan(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[i]) return true;
    return false;
}

static void softmax_row(float *y, const float *x, int64_t n, const void *params) {
    const mlsi_attr_softmax *attrs = params;
    float m = row_max(x, n);
    if (attrs->masked_zero && m == -INFINITY &&
        (mlsi_fault(MLSI_FAULT_CPU_SOFTMAX_NAN) || !has_nan(x, n))) {
        memset(y, 0, (size_t)n * sizeof *y);
        return;
    }
    VF s = vf_set1(sum_terms(y, x, n, term_exp, vf_set1(m)));
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, vf_div(vf_load(y + i), s));
    if (i < n) vf_store_n(y + i, vf_div(vf_load_n(y + i, (int)(n - i)), s), (int)(n - i));
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

static int positive_axis(int64_t axis, const mlsi_kernel_args *args) {
    return (int)(axis < 0 ? axis + args->in[0].rank : axis);
}
static int softmax_axis(const mlsi_kernel_args *args) {
    return positive_axis(((const mlsi_attr_softmax *)args->attrs)->axis, args);
}
static int log_softmax_axis(const mlsi_kernel_args *args) {
    return positive_axis(((const mlsi_attr_axis *)args->attrs)->axis, args);
}

static uint64_t softmax_work(const mlsi_kernel_args *args, int threads) {
    return rows_work(&args->in[0], softmax_axis(args), 1, threads);
}
static uint64_t log_softmax_work(const mlsi_kernel_args *args, int threads) {
    return rows_work(&args->in[0], log_softmax_axis(args), 1, threads);
}
static mlsys_status softmax_run(const mlsi_kernel_args *args) {
    rows_run(args, softmax_axis(args), 1, softmax_row, args->attrs, args->work);
    return MLSYS_OK;
}
static mlsys_status log_softmax_run(const mlsi_kernel_args *args) {
    rows_run(args, log_softmax_axis(args), 1, log_softmax_row, NULL, args->work);
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
     .work = log_softmax_work,
     .in_place = 1},
    {.run = NULL},
};
