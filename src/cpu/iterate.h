/* Walking several strided views at once.
 *
 * An iterator holds the dims of one shape, merged where all views allow it and ordered so that view
 * 0 (the output) is walked in memory order. It hands out inner runs: one pointer and one byte
 * stride per view and a number of elements. Kernels are written for runs and see no shapes. */
#ifndef MLSI_ITERATE_H
#define MLSI_ITERATE_H

#include "core/layout.h"
#include "core/pool.h"

enum { MLSI_ITER_VIEWS = 6 };

typedef struct mlsi_iter {
    int views, rank; /* rank >= 1; the last dim is the run */
    int64_t count;   /* elements in all */
    int64_t shape[MLSYS_MAX_DIMS];
    int64_t strides[MLSI_ITER_VIEWS][MLSYS_MAX_DIMS]; /* bytes */
    char *base[MLSI_ITER_VIEWS];
} mlsi_iter;

/* n elements, element j of view v at p[v] + j * stride[v]. worker indexes per-worker scratch. */
typedef void (*mlsi_run_fn)(const void *user, char *const *p, const int64_t *stride, int64_t n,
                            int worker);

/* View 0 gives the shape, the others broadcast to it (aligned right, extent 1 repeats). The order
 * of elements is not kept. A block dtype is walked by whole blocks. */
void mlsi_iter_init(mlsi_iter *it, const mlsi_view *const *views, int n);
/* Hand out all runs, cut so that a work item has about `grain` elements. */
void mlsi_iter_run(const mlsi_iter *it, mlsi_pool *pool, int64_t grain, mlsi_run_fn fn,
                   const void *user);
/* The view without dims [axis, axis + count): its elements are the heads of rows. */
mlsi_view mlsi_view_drop(const mlsi_view *v, int axis, int count);
/* A block dtype's view with its last extent and its strides counted in blocks; others unchanged. */
mlsi_view mlsi_view_whole_blocks(const mlsi_view *v);
/* v seen as having the given shape (broadcast: extent 1 or a missing leading dim repeats). */
mlsi_view mlsi_view_broadcast(const mlsi_view *v, int rank, const int64_t *shape);

/* n indices in [0, n) cut into work items of `grain`. */
typedef void (*mlsi_range_fn)(const void *user, int64_t first, int64_t last, int worker);
void mlsi_range_run(mlsi_pool *pool, int64_t n, int64_t grain, mlsi_range_fn fn, const void *user);

#endif
