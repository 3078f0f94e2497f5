/* Sliding windows of conv and pool: which element of x a cell of the window meets.
 *
 * Result positions (row-major over the spatial axes) are taken in panels. For a panel and a cell of
 * the window, a table holds the byte offset of x's element for each position, or why there is none.
 */
#ifndef MLSI_KERNELS_WINDOW_H
#define MLSI_KERNELS_WINDOW_H

#include "cpu/kernels/stage.h"

enum {
    WINDOW_PANEL = 64,
    WINDOW_SPATIAL = MLSYS_MAX_DIMS - 2,
};

/* Offsets are relative to the element (0, ..., 0) of a channel and may be negative in a view that
 * runs backwards, so the codes lie beyond any address. */
static const int64_t WINDOW_PAD = INT64_MIN;         /* in the padding */
static const int64_t WINDOW_OUTSIDE = INT64_MIN + 1; /* behind the padding (ceil_mode) */
static inline bool window_inside(int64_t offset) { return offset > WINDOW_OUTSIDE; }

typedef struct window {
    int spatial;
    bool transposed;
    int64_t cells; /* of the window */
    int64_t positions;
    int64_t x_extent[WINDOW_SPATIAL], x_step[WINDOW_SPATIAL]; /* bytes */
    int64_t y_extent[WINDOW_SPATIAL], y_step[WINDOW_SPATIAL]; /* bytes */
    int64_t kernel[WINDOW_SPATIAL];
    int64_t stride[WINDOW_SPATIAL], dilation[WINDOW_SPATIAL];
    int64_t low[WINDOW_SPATIAL], high[WINDOW_SPATIAL];
} window;

/* Lists may be empty: strides and dilations 1, pads 0. */
static inline void window_init(window *w, const mlsi_view *x, const mlsi_view *y,
                               const int64_t *kernel, const mlsi_list *strides,
                               const mlsi_list *dilations, const mlsi_list *pads) {
    *w = (window){.spatial = x->rank - 2, .cells = 1, .positions = 1};
    int64_t x_size = mlsi_dtype_size(x->dtype), y_size = mlsi_dtype_size(y->dtype);
    for (int d = 0; d < w->spatial; d++) {
        w->x_extent[d] = x->shape[2 + d];
        w->x_step[d] = x->strides[2 + d] * x_size;
        w->y_extent[d] = y->shape[2 + d];
        w->y_step[d] = y->strides[2 + d] * y_size;
        w->kernel[d] = kernel[d];
        w->stride[d] = strides->n ? strides->v[d] : 1;
        w->dilation[d] = dilations->n ? dilations->v[d] : 1;
        w->low[d] = pads->n ? pads->v[d] : 0;
        w->high[d] = pads->n ? pads->v[w->spatial + d] : 0;
        w->cells *= kernel[d];
        w->positions *= y->shape[2 + d];
    }
}

/* Coordinate along axis d that cell `tap` meets at result index `out`; false where there is none.
 */
static inline bool window_coordinate(const window *w, int d, int64_t out, int64_t tap, int64_t *v) {
    if (!w->transposed) {
        *v = out * w->stride[d] + tap * w->dilation[d] - w->low[d];
        return *v >= 0 && *v < w->x_extent[d];
    }
    *v = out + w->low[d] - tap * w->dilation[d];
    if (*v < 0 || *v % w->stride[d]) return false;
    *v /= w->stride[d];
    return *v < w->x_extent[d];
}

/* offset[cell * WINDOW_PANEL + j] for positions first + j, j < n; and the byte offset of y's
 * element. */
static inline void window_offsets(const window *w, int64_t first, int64_t n, int64_t *offset,
                                  int64_t *y_offset) {
    for (int64_t j = 0; j < n; j++) {
        int64_t out[WINDOW_SPATIAL], tap[WINDOW_SPATIAL] = {0}, rest = first + j;
        y_offset[j] = 0;
        for (int d = w->spatial - 1; d >= 0; d--) {
            out[d] = rest % w->y_extent[d];
            rest /= w->y_extent[d];
            y_offset[j] += out[d] * w->y_step[d];
        }
        for (int64_t cell = 0; cell < w->cells; cell++) {
            int64_t at = 0;
            for (int d = 0; d < w->spatial; d++) {
                int64_t v;
                bool inside = window_coordinate(w, d, out[d], tap[d], &v);
                if (!w->transposed && v >= w->x_extent[d] + w->high[d])
                    at = WINDOW_OUTSIDE;
                else if (!inside && at != WINDOW_OUTSIDE)
                    at = WINDOW_PAD;
                else if (inside && window_inside(at))
                    at += v * w->x_step[d];
            }
            offset[cell * WINDOW_PANEL + j] = at;
            for (int d = w->spatial - 1; d >= 0 && ++tap[d] == w->kernel[d]; d--)
                tap[d] = 0;
        }
    }
}

/* How the VF_LANES positions of a group meet x: consecutive f32, all inside, or with holes. */
enum { GROUP_RUN, GROUP_INSIDE, GROUP_HOLES, WINDOW_GROUPS = WINDOW_PANEL / VF_LANES };

/* group[cell * WINDOW_GROUPS + j / VF_LANES] for a filled offset table. */
static inline void window_groups(const window *w, mlsys_dtype t, const int64_t *offset,
                                 uint8_t *group) {
    for (int64_t g = 0; g < w->cells * WINDOW_GROUPS; g++) {
        const int64_t *o = offset + g * VF_LANES;
        bool inside = true, run = t == MLSYS_F32;
        for (int i = 0; i < VF_LANES && inside; i++) {
            inside = window_inside(o[i]);
            run = run && inside && o[i] - o[0] == 4 * i;
        }
        group[g] = !inside ? GROUP_HOLES : run ? GROUP_RUN : GROUP_INSIDE;
    }
}

/* The elements of one group; `hole` where there is none. */
V_FN void window_load(float *to, const char *channel, const int64_t *offset, int group,
                      mlsys_dtype t, float hole) {
    if (group == GROUP_RUN) {
        vf_store(to, vf_load((const float *)(const void *)(channel + offset[0])));
    } else if (group == GROUP_INSIDE && t == MLSYS_F32) {
        for (int i = 0; i < VF_LANES; i++)
            memcpy(&to[i], channel + offset[i], 4);
    } else {
        for (int i = 0; i < VF_LANES; i++) {
            to[i] = hole;
            if (window_inside(offset[i])) load_f32(&to[i], channel + offset[i], t, 4, 1);
        }
    }
}

/* Offsets, then groups. */
static inline int64_t window_table_bytes(int64_t cells) {
    return cells * WINDOW_PANEL * 8 + (cells * WINDOW_GROUPS + 63) / 64 * 64;
}

/* Results of one channel: y_offset from window_offsets. */
static inline void window_store(char *y, const int64_t *y_offset, mlsys_dtype t, const float *v,
                                int64_t n) {
    int64_t step = n > 1 ? y_offset[1] - y_offset[0] : 0, j = 1;
    while (j < n && y_offset[j] - y_offset[j - 1] == step)
        j++;
    if (j >= n) {
        store_f32(y + y_offset[0], t, step, v, n);
        return;
    }
    for (j = 0; j < n; j++)
        store_f32(y + y_offset[j], t, 4, v + j, 1);
}

#endif
