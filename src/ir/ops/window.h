/* Sliding windows: attributes and extents of conv and pool. */
#ifndef MLSI_WINDOW_H
#define MLSI_WINDOW_H

#include "ir/ops/reference.h"

typedef struct mlsi_window_axis {
    int64_t extent, kernel, stride, dilation, low, high; /* extent and kernel may be dim codes */
} mlsi_window_axis;

/* Empty lists become all 1 (strides, dilations) or all 0 (pads: low per axis, then high). */
mlsys_status mlsi_infer_window_lists(const mlsi_infer *t, int spatial, mlsi_list *strides,
                                     mlsi_list *dilations, mlsi_list *pads);
/* The kernel's extent is at least 1 and sensible. */
mlsys_status mlsi_infer_window_kernel(const mlsi_infer *t, const mlsi_window_axis *w);
/* floor((L + low + high - dilation * (k - 1) - 1) / stride) + 1, or with ceil. */
mlsys_status mlsi_infer_window_extent(const mlsi_infer *t, const mlsi_window_axis *w,
                                      bool ceil_mode, int64_t *out);

mlsys_status mlsi_infer_pool(mlsi_infer *t);
/* Cells of a window, counted no further than MLSI_POOL_GRAD_CELLS + 1. */
int64_t mlsi_pool_cells(const mlsi_attr_pool *at);
/* Windows (stride = kernel, no dilation) that share no cell, and are few enough to be put in order by concat. */
bool mlsi_pool_side_by_side(const mlsi_attr_pool *at, int spatial);
extern const char *const mlsi_pool_kinds[];

enum {
    MLSI_POOL_GRAD_CELLS = 4096, /* of a window, at most: the decomposition has nodes for each */
    MLSI_WINDOW_LIMIT = 1 << 24  /* of kernels, strides, dilations, pads: keeps products in int64 */
};

#define MLSI_WINDOW_ATTRS(type)                                                                    \
    {.name = "strides",                                                                            \
     .kind = MLSI_ATTR_LIST,                                                                       \
     .offset = offsetof(type, strides),                                                            \
     .help = "step of the window per spatial axis; empty: 1"},                                     \
        {.name = "dilations",                                                                      \
         .kind = MLSI_ATTR_LIST,                                                                   \
         .offset = offsetof(type, dilations),                                                      \
         .help = "distance of the window's cells per spatial axis; empty: 1"},                     \
    {                                                                                              \
        .name = "pads", .kind = MLSI_ATTR_LIST, .offset = offsetof(type, pads),                    \
        .help = "cells before each spatial axis, then cells behind each; empty: 0"                 \
    }

#define MLSI_POOL_ATTRS                                                                            \
    {.name = "kind",                                                                               \
     .kind = MLSI_ATTR_ENUM,                                                                       \
     .offset = offsetof(mlsi_attr_pool, kind),                                                     \
     .names = mlsi_pool_kinds,                                                                     \
     .help = "what a window gives"},                                                               \
        {.name = "kernel",                                                                         \
         .kind = MLSI_ATTR_LIST,                                                                   \
         .offset = offsetof(mlsi_attr_pool, kernel),                                               \
         .required = true,                                                                         \
         .help = "extent of the window per spatial axis"},                                         \
        MLSI_WINDOW_ATTRS(mlsi_attr_pool),                                                         \
        {.name = "count_pad",                                                                      \
         .kind = MLSI_ATTR_BOOL,                                                                   \
         .offset = offsetof(mlsi_attr_pool, count_pad),                                            \
         .help = "average: padded cells count in the divisor"},                                    \
    {                                                                                              \
        .name = "ceil_mode", .kind = MLSI_ATTR_BOOL,                                               \
        .offset = offsetof(mlsi_attr_pool, ceil_mode),                                             \
        .help = "a last partial window counts, unless it begins in the high padding"               \
    }

#endif
