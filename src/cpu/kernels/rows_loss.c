/* logsumexp and cross_entropy: one value per row. */
#include "cpu/kernels/exp_rows.h"
#include "cpu/kernels/index_operand.h"
#include "cpu/kernels/rows.h"

typedef struct loss_job {
    mlsi_view row; /* of x */
    mlsys_dtype type, target_type;
    int64_t n, ignore_index; /* ignore_index: cross_entropy only */
    bool cross_entropy, direct;
    char *work;
    int64_t work_stride;
} loss_job;

/* p: y, x, and the targets of cross_entropy, which were checked. */
static void loss_rows(const void *user, char *const *p, const int64_t *stride, int64_t rows,
                      int worker) {
    const loss_job *job = user;
    float *staged = (float *)(void *)(job->work + worker * job->work_stride);
    for (int64_t r = 0; r < rows; r++) {
        char *from = p[1] + r * stride[1];
        int64_t target = 0;
        float shift, y = 0.0f;
        if (job->cross_entropy) load_i64(&target, p[2] + r * stride[2], job->target_type, 8, 1);
        if (!job->cross_entropy || target != job->ignore_index) {
            const float *x = job->direct ? (const float *)(void *)from : staged;
            if (!job->direct) row_stage(&job->row, from, staged, false);
            y = log_sum(x, job->n, &shift);
            y = y + shift;
            if (job->cross_entropy) y = y - x[target];
        }
        store_f32(p[0] + r * stride[0], job->type, 4, &y, 1);
    }
}

static void loss_run(const mlsi_kernel_args *args, int axis, mlsi_view y, loss_job *job) {
    enum { GRAIN = 16384 };
    const mlsi_view *x = &args->in[0];
    mlsi_view heads = mlsi_view_drop(x, axis, 1), target = args->in[args->n_in - 1];
    const mlsi_view *views[3] = {&y, &heads, &target};
    mlsi_iter it;
    job->row = row_dims(x, axis, 1);
    job->type = x->dtype;
    job->target_type = target.dtype;
    job->n = x->shape[axis];
    job->direct = row_is_direct(&job->row);
    job->work = args->work;
    job->work_stride = (int64_t)row_bytes(x, axis, 1);
    mlsi_iter_init(&it, views, job->cross_entropy ? 3 : 2);
    mlsi_iter_run(&it, args->pool, GRAIN / (job->n + 1), loss_rows, job);
}

static int logsumexp_axis(const mlsi_kernel_args *args) {
    const mlsi_attr_arg *attrs = args->attrs;
    return (int)(attrs->axis < 0 ? attrs->axis + args->in[0].rank : attrs->axis);
}

static uint64_t logsumexp_work(const mlsi_kernel_args *args, int threads) {
    return rows_work(&args->in[0], logsumexp_axis(args), 1, threads);
}

static mlsys_status logsumexp_run(const mlsi_kernel_args *args) {
    const mlsi_attr_arg *attrs = args->attrs;
    int axis = logsumexp_axis(args);
    loss_job job = {.cross_entropy = false};
    mlsi_view y = args->out[0];
    if (attrs->keep) y = mlsi_view_drop(&args->out[0], axis, 1);
    loss_run(args, axis, y, &job);
    return MLSYS_OK;
}

static uint64_t cross_entropy_work(const mlsi_kernel_args *args, int threads) {
    return rows_work(&args->in[0], args->in[0].rank - 1, 1, threads);
}

static mlsys_status cross_entropy_run(const mlsi_kernel_args *args) {
    const mlsi_attr_cross_entropy *attrs = args->attrs;
    const mlsi_view *x = &args->in[0], *targets = &args->in[1];
    int64_t classes = x->shape[x->rank - 1], count = mlsi_view_count(targets);
    int size = mlsi_dtype_size(targets->dtype);
    loss_job job = {.cross_entropy = true, .ignore_index = attrs->ignore_index};
    for (int64_t k = 0; k < count; k++) {
        int64_t target = 0;
        const char *at =
            (const char *)targets->data + dims_offset(targets, 0, targets->rank, k) * size;
        load_i64(&target, at, targets->dtype, size, 1);
        if (target != attrs->ignore_index && (target < 0 || target >= classes))
            return mlsi_fail(MLSYS_E_ARG,
                             "cross_entropy: target: class %lld at position %lld outside [0,%lld)",
                             (long long)target, (long long)k, (long long)classes);
    }
    loss_run(args, x->rank - 1, args->out[0], &job);
    return MLSYS_OK;
}

static bool accepts_rows(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return compute_type_of(t) == COMPUTE_F32 && is_plain(t) && q->out[0].dtype == t &&
           (q->n_in < 2 || is_index_dtype(q->in[1].dtype));
}

MLSI_KERNEL_TABLE(rows_loss) = {
    {.op = MLSI_OP_LOGSUMEXP,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("logsumexp_rows"),
     .accepts = accepts_rows,
     .run = logsumexp_run,
     .work = logsumexp_work},
    {.op = MLSI_OP_CROSS_ENTROPY,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("cross_entropy_rows"),
     .accepts = accepts_rows,
     .run = cross_entropy_run,
     .work = cross_entropy_work},
    {.run = NULL},
};
