/* Copying between views of the same shape and dtype, any strides. */
#ifndef MLSI_KERNELS_COPY_VIEW_H
#define MLSI_KERNELS_COPY_VIEW_H

#include "cpu/kernels/stage.h"

enum { COPY_GRAIN_BYTES = 1 << 18, COPY_TILE = 16 };

static inline void copy_run(const void *user, char *const *p, const int64_t *stride, int64_t n,
                            int worker) {
    const int64_t *size = user;
    (void)worker;
    if (*size == 1 || *size == 2 || *size == 4 || *size == 8) {
        stage_move(p[0], stride[0], p[1], stride[1], (int)*size, n);
        return;
    }
    if (stride[0] == *size && stride[1] == *size) {
        memcpy(p[0], p[1], (size_t)(n * *size));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(p[0] + i * stride[0], p[1] + i * stride[1], (size_t)*size);
}

/* Transposing copies: view 0 is gapless along its last dim, view 1 along dim `turn`. Square tiles of
 * one cache line by one cache line use every line that they touch in full. */
typedef struct transpose_job {
    mlsi_iter it;
    int turn;
    int64_t size, rows, columns, tiles_r, tiles_c;
} transpose_job;

#define TRANSPOSE_TILE(type)                                                                       \
    for (int64_t r = 0; r < rows; r++)                                                             \
        for (int64_t c = 0; c < columns; c++)                                                      \
            memcpy(dst + r * dst_step + c * (int64_t)sizeof(type),                                 \
                   src + c * src_step + r * (int64_t)sizeof(type), sizeof(type))

static inline void transpose_tile(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                                  int64_t rows, int64_t columns, int64_t size) {
    switch (size) {
    case 1: TRANSPOSE_TILE(uint8_t); break;
    case 2: TRANSPOSE_TILE(uint16_t); break;
    case 4: TRANSPOSE_TILE(uint32_t); break;
    case 8: TRANSPOSE_TILE(uint64_t); break;
    default: break;
    }
}

/* One work item: one band of TRANSPOSE_BAND x TRANSPOSE_BAND elements of one outer index. */
enum { TRANSPOSE_BAND = 256 };

static inline void transpose_band(const void *user, int64_t first, int64_t last, int worker) {
    const transpose_job *job = user;
    const mlsi_iter *it = &job->it;
    int inner = it->rank - 1;
    (void)worker;
    for (int64_t item = first; item < last; item++) {
        int64_t band_c = item % job->tiles_c, rest = item / job->tiles_c;
        int64_t band_r = rest % job->tiles_r;
        char *dst = it->base[0];
        const char *src = it->base[1];
        rest /= job->tiles_r;
        for (int d = inner - 1; d >= 0; d--) {
            if (d == job->turn) continue;
            dst += rest % it->shape[d] * it->strides[0][d];
            src += rest % it->shape[d] * it->strides[1][d];
            rest /= it->shape[d];
        }
        int64_t r0 = band_r * TRANSPOSE_BAND, c0 = band_c * TRANSPOSE_BAND;
        int64_t r1 = r0 + TRANSPOSE_BAND < job->rows ? r0 + TRANSPOSE_BAND : job->rows;
        int64_t c1 = c0 + TRANSPOSE_BAND < job->columns ? c0 + TRANSPOSE_BAND : job->columns;
        int64_t ds = it->strides[0][job->turn], ss = it->strides[1][inner];
        for (int64_t c = c0; c < c1; c += COPY_TILE)
            for (int64_t r = r0; r < r1; r += COPY_TILE)
                transpose_tile(dst + r * ds + c * job->size, ds, src + c * ss + r * job->size, ss,
                               r1 - r < COPY_TILE ? r1 - r : COPY_TILE,
                               c1 - c < COPY_TILE ? c1 - c : COPY_TILE, job->size);
    }
}

static inline bool copy_transposing(const mlsi_iter *it, int64_t size, mlsi_pool *pool) {
    int inner = it->rank - 1, turn = -1;
    if (size > 8 || (size & (size - 1)) || it->count == 0) return false;
    if (it->strides[0][inner] != size || it->strides[1][inner] == size) return false;
    for (int d = 0; d < inner; d++)
        if (it->strides[1][d] == size) turn = d;
    if (turn < 0 || it->shape[turn] < 4 || it->shape[inner] < 4) return false;
    transpose_job job = {.it = *it, .turn = turn, .size = size};
    job.rows = it->shape[turn];
    job.columns = it->shape[inner];
    job.tiles_r = (job.rows + TRANSPOSE_BAND - 1) / TRANSPOSE_BAND;
    job.tiles_c = (job.columns + TRANSPOSE_BAND - 1) / TRANSPOSE_BAND;
    int64_t outer = it->count / (job.rows * job.columns);
    int64_t band = job.rows < TRANSPOSE_BAND ? job.rows : TRANSPOSE_BAND;
    band *= job.columns < TRANSPOSE_BAND ? job.columns : TRANSPOSE_BAND;
    int64_t grain = COPY_GRAIN_BYTES / (band * size);
    mlsi_range_run(pool, outer * job.tiles_r * job.tiles_c, grain, transpose_band, &job);
    return true;
}

/* src is broadcast to dst's shape. */
static inline void copy_view(const mlsi_view *dst, const mlsi_view *src, mlsi_pool *pool) {
    const mlsi_view *views[2] = {dst, src};
    int64_t size = mlsi_dtype_size(dst->dtype);
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    if (copy_transposing(&it, size, pool)) return;
    mlsi_iter_run(&it, pool, COPY_GRAIN_BYTES / size, copy_run, &size);
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
