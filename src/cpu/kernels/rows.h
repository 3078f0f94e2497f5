/* The engine of the row kernels: an op is a function on one contiguous f32 row; this file hands it
 * rows of any float dtype and layout. The row's dims are [axis, axis + dims) of x and y. */
#ifndef MLSI_KERNELS_ROWS_H
#define MLSI_KERNELS_ROWS_H

#include "cpu/kernels/stage.h"

/* y may be x. params is what the kernel passed to rows_run. */
typedef void (*row_fn)(float *y, const float *x, int64_t n, const void *params);

typedef struct row_job {
    row_fn fn;
    const void *params;
    mlsi_view x, y; /* the dims of a row only */
    int64_t n;      /* elements of a row */
    bool x_direct, y_direct;
    bool stream; /* y is large and gapless: rows go from scratch past the caches */
    char *work;  /* one staged row per worker where x or y is not direct */
    int64_t work_stride;
} row_job;

/* Are the row's dims one gapless array of f32? */
static inline bool row_is_direct(const mlsi_view *row) {
    return row->dtype == MLSYS_F32 && mlsi_view_contiguous(row);
}

static inline mlsi_view row_dims(const mlsi_view *v, int axis, int dims) {
    mlsi_view r = {.data = v->data, .dtype = v->dtype, .rank = dims};
    for (int d = 0; d < dims; d++) {
        r.shape[d] = v->shape[axis + d];
        r.strides[d] = v->strides[axis + d];
    }
    return r;
}

/* Walk the innermost runs of a row in row-major order: load (to = staged) or store. */
static inline void row_stage(const mlsi_view *row, char *base, float *staged, bool store) {
    int64_t size = mlsi_dtype_size(row->dtype), index[MLSYS_MAX_DIMS] = {0};
    int last = row->rank - 1;
    int64_t run = last < 0 ? 1 : row->shape[last];
    int64_t stride = last < 0 ? size : row->strides[last] * size;
    if (mlsi_view_count(row) == 0) return;
    for (;;) {
        if (store)
            store_f32(base, row->dtype, stride, staged, run);
        else
            load_f32(staged, base, row->dtype, stride, run);
        staged += run;
        int d = last - 1;
        for (; d >= 0; d--) {
            base += row->strides[d] * size;
            if (++index[d] < row->shape[d]) break;
            base -= row->shape[d] * row->strides[d] * size;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static inline void rows_run_block(const void *user, char *const *p, const int64_t *stride,
                                  int64_t rows, int worker) {
    const row_job *job = user;
    float *staged = (float *)(void *)(job->work + worker * job->work_stride);
    for (int64_t r = 0; r < rows; r++) {
        char *y = p[0] + r * stride[0], *x = p[1] + r * stride[1];
        const float *src = job->x_direct ? (const float *)(void *)x : staged;
        float *dst = job->y_direct ? (float *)(void *)y : staged;
        if (!job->x_direct) row_stage(&job->x, x, staged, false);
        job->fn(dst, src, job->n, job->params);
        if (job->stream)
            stream_bytes(y, (const char *)dst, job->n * 4);
        else if (!job->y_direct)
            row_stage(&job->y, y, staged, true);
    }
    if (job->stream) v_stream_fence();
}

static inline uint64_t row_bytes(const mlsi_view *x, int axis, int dims) {
    uint64_t n = 1;
    for (int d = 0; d < dims; d++)
        n *= (uint64_t)x->shape[axis + d];
    return (n * sizeof(float) + 63) / 64 * 64;
}

/* Scratch for rows_run: at most this, whatever the strides are. */
static inline uint64_t rows_work(const mlsi_view *x, int axis, int dims, int threads) {
    return row_bytes(x, axis, dims) * (uint64_t)threads;
}

/* y and x have the same shape. work holds rows_work bytes. */
static inline void rows_run(const mlsi_kernel_args *args, int axis, int dims, row_fn fn,
                            const void *params, void *work) {
    enum { GRAIN = 16384 }; /* elements per work item */
    const mlsi_view *x = &args->in[0], *y = &args->out[0];
    row_job job = {.fn = fn, .params = params, .work = work};
    job.x = row_dims(x, axis, dims);
    job.y = row_dims(y, axis, dims);
    job.n = mlsi_view_count(&job.x);
    job.x_direct = row_is_direct(&job.x);
    job.y_direct = row_is_direct(&job.y);
    job.work_stride = (int64_t)row_bytes(x, axis, dims);
    if (job.n == 0) return;
    job.stream = job.y_direct && x->data != y->data && mlsi_view_count(y) * 4 >= STREAM_BYTES;
    if (job.stream) job.y_direct = false;
    mlsi_view heads_y = mlsi_view_drop(y, axis, dims), heads_x = mlsi_view_drop(x, axis, dims);
    const mlsi_view *views[2] = {&heads_y, &heads_x};
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    mlsi_iter_run(&it, args->pool, GRAIN / job.n, rows_run_block, &job);
}

#endif
