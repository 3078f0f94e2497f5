/* scatter: y = x, then y[.., index[j], ..] (op)= updates[.., j, ..] in ascending j.
 *
 * Work is divided over the elements of a slab (x without the axis), never over j: each element of y
 * then meets its updates in order, whatever the number of threads. */
#include "cpu/kernels/copy_view.h"
#include "cpu/kernels/index_operand.h"
#include "core/faults.h"

#include <math.h>

typedef struct scatter_job {
    const mlsi_view *updates;
    int axis, index_dims;
    int64_t kind, count, size, axis_step; /* axis_step: of y, in bytes */
    mlsys_dtype dtype;
    const int64_t *index;
} scatter_job;

#define COMBINE(suffix, type)                                                                      \
    static void combine_##suffix(int64_t kind, type *y, const type *u, int64_t n) {                \
        switch (kind) {                                                                            \
        case MLSI_SCATTER_ADD:                                                                     \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = y[i] + u[i];                                                                \
            break;                                                                                 \
        case MLSI_SCATTER_MUL:                                                                     \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = y[i] * u[i];                                                                \
            break;                                                                                 \
        case MLSI_SCATTER_MAX:                                                                     \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = isnan(y[i]) || isnan(u[i])                        ? y[i] + u[i]             \
                       : y[i] > u[i] || (y[i] == u[i] && !signbit(y[i])) ? y[i]                    \
                                                                         : u[i];                   \
            break;                                                                                 \
        default:                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = isnan(y[i]) || isnan(u[i])                       ? y[i] + u[i]              \
                       : y[i] < u[i] || (y[i] == u[i] && signbit(y[i])) ? y[i]                     \
                                                                        : u[i];                    \
            break;                                                                                 \
        }                                                                                          \
    }
COMBINE(f32, float)
COMBINE(f64, double)

static void combine_i64(int64_t kind, int64_t *y, const int64_t *u, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        switch (kind) {
        case MLSI_SCATTER_ADD: y[i] = (int64_t)((uint64_t)y[i] + (uint64_t)u[i]); break;
        case MLSI_SCATTER_MUL: y[i] = (int64_t)((uint64_t)y[i] * (uint64_t)u[i]); break;
        case MLSI_SCATTER_MAX: y[i] = y[i] > u[i] ? y[i] : u[i]; break;
        default: y[i] = y[i] < u[i] ? y[i] : u[i]; break;
        }
    }
}

/* One update of a run. Each step rounds to the dtype. */
static void scatter_step(const scatter_job *job, char *y, int64_t y_step, const char *u,
                         int64_t u_step, int64_t n) {
    stage_block a, b;
    mlsys_dtype t = job->dtype;
    if (job->kind == MLSI_SCATTER_SET) {
        stage_move(y, y_step, u, u_step, (int)job->size, n);
        return;
    }
    for (int64_t i = 0; i < n; i += STAGE) {
        int64_t m = n - i < STAGE ? n - i : STAGE;
        char *to = y + i * y_step;
        stage_load(&a, to, t, y_step, m);
        stage_load(&b, u + i * u_step, t, u_step, m);
        switch (compute_type_of(t)) {
        case COMPUTE_F32: combine_f32(job->kind, a.f32, b.f32, m); break;
        case COMPUTE_F64: combine_f64(job->kind, a.f64, b.f64, m); break;
        case COMPUTE_I64: combine_i64(job->kind, a.i64, b.i64, m); break;
        }
        stage_store(to, t, y_step, &a, m);
    }
}

static void scatter_slab(const void *user, char *const *p, const int64_t *stride, int64_t n,
                         int worker) {
    const scatter_job *job = user;
    (void)worker;
    for (int64_t i = 0; i < job->count; i++) {
        int64_t j = mlsi_fault(MLSI_FAULT_CPU_SCATTER_ORDER) ? job->count - 1 - i : i;
        int64_t from = dims_offset(job->updates, job->axis, job->index_dims, j) * job->size;
        scatter_step(job, p[0] + job->index[j] * job->axis_step, stride[0], p[1] + from, stride[1],
                     n);
    }
}

static uint64_t scatter_work(const mlsi_kernel_args *args, int threads) {
    (void)threads;
    return (uint64_t)mlsi_view_count(&args->in[1]) * sizeof(int64_t);
}

static mlsys_status scatter_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 1024 };
    const mlsi_attr_scatter *attrs = args->attrs;
    const mlsi_view *x = &args->in[0], *ids = &args->in[1], *updates = &args->in[2];
    const mlsi_view *y = &args->out[0];
    int axis = (int)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    scatter_job job = {.updates = updates,
                       .axis = axis,
                       .index_dims = ids->rank,
                       .kind = attrs->kind,
                       .count = mlsi_view_count(ids),
                       .size = mlsi_dtype_size(x->dtype),
                       .dtype = x->dtype,
                       .index = args->work};
    MLSI_TRY(load_indices("scatter", ids, x->shape[axis], args->work));
    if (y->data != x->data) copy_view(y, x, args->pool);
    job.axis_step = y->strides[axis] * job.size;
    mlsi_view slab_y = mlsi_view_drop(y, axis, 1);
    mlsi_view slab_u = mlsi_view_drop(updates, axis, ids->rank);
    const mlsi_view *views[2] = {&slab_y, &slab_u};
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    mlsi_iter_run(&it, args->pool, GRAIN, scatter_slab, &job);
    return MLSYS_OK;
}

static bool accepts_scatter(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return is_plain(t) && q->in[2].dtype == t && q->out[0].dtype == t &&
           is_index_dtype(q->in[1].dtype);
}

MLSI_KERNEL_TABLE(scatter) = {
    {.op = MLSI_OP_SCATTER,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("scatter_slabs"),
     .accepts = accepts_scatter,
     .run = scatter_run,
     .work = scatter_work,
     .in_place = 1},
    {.run = NULL},
};
