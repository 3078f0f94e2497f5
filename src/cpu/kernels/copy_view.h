/* Copying between views of the same shape and dtype, any strides. */
#ifndef MLSI_KERNELS_COPY_VIEW_H
#define MLSI_KERNELS_COPY_VIEW_H

#include "cpu/kernels/stage.h"
#include "cpu/kernels/transpose.h"

typedef struct copy_job {
    int64_t size; /* of an element */
    bool stream;  /* the output is large */
} copy_job;

static inline void copy_run(const void *user, char *const *p, const int64_t *stride, int64_t n,
                            int worker) {
    const copy_job *job = user;
    int64_t size = job->size;
    (void)worker;
    if (stride[0] == size && stride[1] == size) {
        if (job->stream)
            stream_bytes(p[0], p[1], n * size);
        else
            memcpy(p[0], p[1], (size_t)(n * size));
    } else if (size == 1 || size == 2 || size == 4 || size == 8) {
        stage_move(p[0], stride[0], p[1], stride[1], (int)size, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(p[0] + i * stride[0], p[1] + i * stride[1], (size_t)size);
    }
    if (job->stream) v_stream_fence();
}

/* src is broadcast to dst's shape. */
static inline void copy_view(const mlsi_view *dst, const mlsi_view *src, mlsi_pool *pool) {
    const mlsi_view *views[2] = {dst, src};
    copy_job job = {.size = mlsi_dtype_size(dst->dtype)};
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    job.stream = it.count * job.size >= STREAM_BYTES;
    if (copy_transposing(&it, job.size, job.stream, pool)) return;
    mlsi_iter_run(&it, pool, COPY_GRAIN_BYTES / job.size, copy_run, &job);
}

/* The elements [start, start + size) of an axis; data moves to the first of them. */
static inline mlsi_view narrow_view(const mlsi_view *v, int axis, int64_t start, int64_t size) {
    mlsi_view r = *v;
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    r.data = (char *)v->data + start * v->strides[axis] / info->block_elems * info->block_bytes;
    r.shape[axis] = size;
    return r;
}

#endif
