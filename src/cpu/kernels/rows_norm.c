/* rms_norm and layer_norm over the dims from an axis to the end. */
#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/rows.h"

#include <math.h>

typedef struct norm_params {
    float eps;
    const float *gamma, *beta; /* contiguous, or NULL */
} norm_params;

static float inverse_root(float sum, int64_t n, float eps) {
    return 1.0f / sqrtf(sum / (float)n + eps);
}

/* y = (x - mu) * r, then * gamma, then + beta; each step rounds. Without gamma or beta the step is
 * left out. */
V_FN VF normalise(VF x, VF mu, VF r, bool centre) { return vf_mul(centre ? vf_sub(x, mu) : x, r); }

V_FN void scale_row(float *y, const float *x, int64_t n, float mean, float root,
                    const norm_params *p, bool centre) {
    VF mu = vf_set1(mean), r = vf_set1(root);
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        VF v = normalise(vf_load(x + i), mu, r, centre);
        if (p->gamma) v = vf_mul(v, vf_load(p->gamma + i));
        if (p->beta) v = vf_add(v, vf_load(p->beta + i));
        vf_store(y + i, v);
    }
    if (i < n) {
        int m = (int)(n - i);
        VF v = normalise(vf_load_n(x + i, m), mu, r, centre);
        if (p->gamma) v = vf_mul(v, vf_load_n(p->gamma + i, m));
        if (p->beta) v = vf_add(v, vf_load_n(p->beta + i, m));
        vf_store_n(y + i, v, m);
    }
}

static void rms_norm_row(float *y, const float *x, int64_t n, const void *params) {
    const norm_params *p = params;
    float sum = sum_terms(NULL, x, n, term_square, vf_zero());
    scale_row(y, x, n, 0.0f, inverse_root(sum, n, p->eps), p, false);
}

static void layer_norm_row(float *y, const float *x, int64_t n, const void *params) {
    const norm_params *p = params;
    float mean = sum_terms(NULL, x, n, term_identity, vf_zero()) / (float)n;
    float sum = sum_terms(NULL, x, n, term_centred_square, vf_set1(mean));
    scale_row(y, x, n, mean, inverse_root(sum, n, p->eps), p, true);
}

static int norm_axis(const mlsi_kernel_args *args) {
    const mlsi_attr_norm *attrs = args->attrs;
    return (int)(attrs->axis < 0 ? attrs->axis + args->in[0].rank : attrs->axis);
}

/* Staged gamma and beta, then one row per worker. */
static uint64_t norm_work(const mlsi_kernel_args *args, int threads) {
    int axis = norm_axis(args), dims = args->in[0].rank - axis;
    return rows_work(&args->in[0], axis, dims, threads + 2);
}

/* A parameter as f32 array of the row's size: in place, or staged into `to`. */
static const float *norm_parameter(const mlsi_kernel_args *args, int i, int axis, float *to) {
    if (i >= args->n_in || !args->in[i].data) return NULL;
    const mlsi_view *x = &args->in[0];
    mlsi_view v = mlsi_view_broadcast(&args->in[i], x->rank - axis, x->shape + axis);
    if (row_is_direct(&v)) return v.data;
    row_stage(&v, v.data, to, false);
    return to;
}

static mlsys_status norm_run(const mlsi_kernel_args *args, row_fn fn) {
    const mlsi_attr_norm *attrs = args->attrs;
    int axis = norm_axis(args), dims = args->in[0].rank - axis;
    char *work = args->work;
    uint64_t step = row_bytes(&args->in[0], axis, dims);
    norm_params p = {.eps = (float)attrs->eps};
    p.gamma = norm_parameter(args, 1, axis, (float *)(void *)work);
    p.beta = norm_parameter(args, 2, axis, (float *)(void *)(work + step));
    rows_run(args, axis, dims, fn, &p, work + 2 * step);
    return MLSYS_OK;
}

static mlsys_status rms_norm_run(const mlsi_kernel_args *args) {
    return norm_run(args, rms_norm_row);
}
static mlsys_status layer_norm_run(const mlsi_kernel_args *args) {
    return norm_run(args, layer_norm_row);
}

static bool accepts_norm(const mlsi_query *q) {
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i].present &&
            (!is_plain(q->in[i].dtype) || !mlsi_dtype_is_float(q->in[i].dtype) ||
             q->in[i].dtype == MLSYS_F64))
            return false;
    return q->out[0].dtype == q->in[0].dtype;
}

MLSI_KERNEL_TABLE(rows_norm) = {
    {.op = MLSI_OP_RMS_NORM,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("rms_norm_rows"),
     .accepts = accepts_norm,
     .run = rms_norm_run,
     .work = norm_work,
     .in_place = 1},
    {.op = MLSI_OP_LAYER_NORM,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("layer_norm_rows"),
     .accepts = accepts_norm,
     .run = layer_norm_run,
     .work = norm_work,
     .in_place = 1},
    {.run = NULL},
};
