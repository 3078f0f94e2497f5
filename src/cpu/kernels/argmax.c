/* argmax and argmin: the first NaN, else the first extreme; zeros of both signs are equal. */
#include "cpu/kernels/rows.h"

#include <math.h>

typedef struct arg_job {
    const mlsi_view *x;
    int64_t n, x_step; /* the row; its step in bytes */
    bool greatest;
} arg_job;

/* The extreme of one block, NaN if it holds one. */
V_FN VF pick(VF a, VF b, bool greatest) { return greatest ? vf_maximum(a, b) : vf_minimum(a, b); }

V_FN float block_extreme(const float *x, int64_t n, bool greatest) {
    VF acc[4];
    int64_t i = 0;
    for (int r = 0; r < 4; r++)
        acc[r] = vf_set1(x[0]);
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        for (int r = 0; r < 4; r++)
            acc[r] = pick(vf_load(x + i + r * VF_LANES), acc[r], greatest);
    for (; i < n; i++)
        acc[0] = pick(vf_set1(x[i]), acc[0], greatest);
    acc[0] = pick(pick(acc[0], acc[1], greatest), pick(acc[2], acc[3], greatest), greatest);
    return greatest ? vf_reduce_maximum(acc[0]) : vf_reduce_minimum(acc[0]);
}

static int64_t position_of(const float *x, int64_t n, float value) {
    VF v = vf_set1(value);
    int64_t i = 0;
    if (isnan(value)) {
        while (i < n && !isnan(x[i]))
            i++;
        return i;
    }
    while (i + VF_LANES <= n && !vm_any(vf_eq(vf_load(x + i), v)))
        i += VF_LANES;
    while (i < n && x[i] != value)
        i++;
    return i;
}

static int64_t arg_f32(const arg_job *job, const char *x) {
    enum { BLOCK = 4 * STAGE };
    float staged[BLOCK], best = 0;
    int64_t at = -1;
    bool direct = is_staged(job->x->dtype, job->x_step);
    for (int64_t i = 0; i < job->n; i += BLOCK) {
        int64_t m = job->n - i < BLOCK ? job->n - i : BLOCK;
        const char *src = x + i * job->x_step;
        const float *block = direct ? (const float *)(const void *)src : staged;
        if (!direct) load_f32(staged, src, job->x->dtype, job->x_step, m);
        float e = job->greatest ? block_extreme(block, m, true) : block_extreme(block, m, false);
        if (at < 0 || isnan(e) || (job->greatest ? e > best : e < best)) {
            best = e;
            at = i + position_of(block, m, e);
        }
        if (isnan(e)) break;
    }
    return at;
}

static int64_t arg_f64(const arg_job *job, const char *x) {
    int64_t at = 0;
    double best = 0;
    for (int64_t i = 0; i < job->n; i++, x += job->x_step) {
        double v;
        memcpy(&v, x, sizeof v);
        if (i > 0 && !isnan(v) && (job->greatest ? v <= best : v >= best)) continue;
        best = v;
        at = i;
        if (isnan(v)) break;
    }
    return at;
}

static int64_t arg_i64(const arg_job *job, const char *x) {
    int64_t at = 0, best = 0, block[STAGE];
    for (int64_t i = 0; i < job->n; i += STAGE) {
        int64_t m = job->n - i < STAGE ? job->n - i : STAGE;
        load_i64(block, x + i * job->x_step, job->x->dtype, job->x_step, m);
        for (int64_t k = 0; k < m; k++)
            if (i + k == 0 || (job->greatest ? block[k] > best : block[k] < best)) {
                best = block[k];
                at = i + k;
            }
    }
    return at;
}

static void arg_rows(const void *user, char *const *p, const int64_t *stride, int64_t rows,
                     int worker) {
    const arg_job *job = user;
    (void)worker;
    for (int64_t r = 0; r < rows; r++) {
        const char *x = p[1] + r * stride[1];
        int64_t at;
        switch (compute_type_of(job->x->dtype)) {
        case COMPUTE_F32: at = arg_f32(job, x); break;
        case COMPUTE_F64: at = arg_f64(job, x); break;
        default: at = arg_i64(job, x); break;
        }
        memcpy(p[0] + r * stride[0], &at, sizeof at);
    }
}

static mlsys_status arg_run(const mlsi_kernel_args *args, bool greatest) {
    enum { GRAIN = 16384 };
    const mlsi_attr_arg *attrs = args->attrs;
    const mlsi_view *x = &args->in[0];
    int axis = (int)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    arg_job job = {.x = x, .n = x->shape[axis], .greatest = greatest};
    job.x_step = x->strides[axis] * mlsi_dtype_size(x->dtype);
    mlsi_view heads = mlsi_view_drop(x, axis, 1), y = args->out[0];
    if (attrs->keep) y = mlsi_view_drop(&args->out[0], axis, 1);
    const mlsi_view *views[2] = {&y, &heads};
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    mlsi_iter_run(&it, args->pool, GRAIN / (job.n + 1), arg_rows, &job);
    return MLSYS_OK;
}

static mlsys_status argmax_run(const mlsi_kernel_args *args) { return arg_run(args, true); }
static mlsys_status argmin_run(const mlsi_kernel_args *args) { return arg_run(args, false); }

static bool accepts_arg(const mlsi_query *q) {
    return is_plain(q->in[0].dtype) && q->out[0].dtype == MLSYS_I64;
}

MLSI_KERNEL_TABLE(argmax) = {
    {.op = MLSI_OP_ARGMAX,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("argmax"),
     .accepts = accepts_arg,
     .run = argmax_run},
    {.op = MLSI_OP_ARGMIN,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("argmin"),
     .accepts = accepts_arg,
     .run = argmin_run},
    {.run = NULL},
};
