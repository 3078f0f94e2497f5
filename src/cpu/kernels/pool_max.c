/* Maximum over 2-d windows of f32 planes whose rows are contiguous: first over the rows of a window, whole rows at
 * a time, then over its columns. A maximum has no order, so the bits are those of any other way. */
#include "cpu/kernels/window.h"

#include <math.h>

enum { CHUNK = 64 };

typedef struct max_job {
    window w;
    const mlsi_view *x, *y;
    char *work;
    int64_t work_stride;
} max_job;

/* row = max(row, x) */
V_FN void maximum_into(float *row, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(row + i, vf_maximum(vf_load(row + i), vf_load(x + i)));
    int left = (int)(n - i);
    if (left)
        vf_store_n(row + i, vf_maximum(vf_load_n(row + i, left), vf_load_n(x + i, left)), left);
}

static void fill_low(float *row, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        row[i] = -INFINITY;
}

/* The rows of x that the windows of result row oy meet. */
static void rows_of(const max_job *job, const char *plane, int64_t oy, float *row) {
    const window *w = &job->w;
    bool any = false;
    for (int64_t tap = 0; tap < w->kernel[0]; tap++) {
        int64_t iy = oy * w->stride[0] + tap * w->dilation[0] - w->low[0];
        if (iy < 0 || iy >= w->x_extent[0]) continue;
        const float *x = (const float *)(const void *)(plane + iy * w->x_step[0]);
        if (any)
            maximum_into(row, x, w->x_extent[1]);
        else
            memcpy(row, x, (size_t)w->x_extent[1] * sizeof *row);
        any = true;
    }
    if (!any) fill_low(row, w->x_extent[1]);
}

/* Of the row, what result columns ox .. ox + n meet. */
static void columns_of(const max_job *job, const float *row, int64_t ox, int64_t n, float *to) {
    const window *w = &job->w;
    float best[CHUNK], cell[CHUNK];
    fill_low(best, CHUNK);
    for (int64_t tap = 0; tap < w->kernel[1]; tap++) {
        int64_t at = ox * w->stride[1] + tap * w->dilation[1] - w->low[1], step = w->stride[1];
        bool inside = at >= 0 && at + (n - 1) * step < w->x_extent[1];
        for (int64_t j = 0; j < n; j++) {
            int64_t ix = at + j * step;
            cell[j] = inside || (ix >= 0 && ix < w->x_extent[1]) ? row[ix] : -INFINITY;
        }
        maximum_into(best, cell, n);
    }
    memcpy(to, best, (size_t)n * sizeof *to);
}

static void max_planes(const void *user, int64_t item, int64_t last, int worker) {
    const max_job *job = user;
    const mlsi_view *x = job->x, *y = job->y;
    float *row = (float *)(void *)(job->work + worker * job->work_stride);
    for (; item < last; item++) {
        int64_t image = item / x->shape[1], channel = item % x->shape[1];
        const char *from =
            (const char *)x->data + (image * x->strides[0] + channel * x->strides[1]) * 4;
        char *to = (char *)y->data + (image * y->strides[0] + channel * y->strides[1]) * 4;
        for (int64_t oy = 0; oy < y->shape[2]; oy++) {
            float *out = (float *)(void *)(to + oy * job->w.y_step[0]);
            rows_of(job, from, oy, row);
            for (int64_t ox = 0; ox < y->shape[3]; ox += CHUNK)
                columns_of(job, row, ox, y->shape[3] - ox < CHUNK ? y->shape[3] - ox : CHUNK,
                           out + ox);
        }
    }
}

static void describe(const mlsi_kernel_args *args, max_job *job) {
    const mlsi_attr_pool *at = args->attrs;
    *job = (max_job){.x = &args->in[0], .y = &args->out[0], .work = args->work};
    window_init(&job->w, job->x, job->y, at->kernel.v, &at->strides, &at->dilations, &at->pads);
    job->work_stride = (job->x->shape[3] * (int64_t)sizeof(float) + 63) / 64 * 64;
}

static uint64_t work(const mlsi_kernel_args *args, int threads) {
    max_job job;
    describe(args, &job);
    return (uint64_t)job.work_stride * (uint64_t)threads;
}

static mlsys_status run(const mlsi_kernel_args *args) {
    max_job job;
    describe(args, &job);
    if (mlsi_view_count(job.y) == 0) return MLSYS_OK;
    mlsi_range_run(args->pool, job.y->shape[0] * job.y->shape[1], 4, max_planes, &job);
    return MLSYS_OK;
}

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_pool *at = q->attrs;
    return at->kind == MLSI_POOL_MAX && q->in[0].dtype == MLSYS_F32 &&
           q->out[0].dtype == MLSYS_F32 && q->in[0].rank == 4 && q->in[0].inner_unit &&
           q->out[0].inner_unit;
}

MLSI_KERNEL_TABLE(pool_max) = {{.op = MLSI_OP_POOL,
                                .isa = MLSI_K_ISA,
                                .name = MLSI_K_NAME("pool_max_rows"),
                                .accepts = accepts,
                                .run = run,
                                .work = work},
                               {.run = NULL}};
