/* Shape, strides and offset, all in elements (a block dtype's last dimension counts elements too,
 * but moves only by whole blocks). The address of index i is offset + sum_d i[d] * strides[d]. */
#ifndef MLSI_LAYOUT_H
#define MLSI_LAYOUT_H

#include "core/dtype.h"

typedef struct mlsi_layout {
    mlsys_dtype dtype;
    int32_t rank; /* 0..8 */
    int64_t shape[MLSYS_MAX_DIMS];
    int64_t strides[MLSYS_MAX_DIMS];
    int64_t offset;
} mlsi_layout;

/* Check rank, extents, and that elements and bytes fit int64; fill row-major strides, offset 0. */
mlsys_status mlsi_layout_row_major(mlsi_layout *l, mlsys_dtype dtype, int32_t rank,
                                   const int64_t *shape);
/* Every rule of a layout: rank, extents, counts and addresses that fit int64, and for block dtypes
 * a last stride of 1, a last extent of whole blocks, and offset and strides in whole blocks. */
mlsys_status mlsi_layout_validate(const mlsi_layout *l);
/* Elements (checked at construction, so this cannot overflow). */
int64_t mlsi_layout_count(const mlsi_layout *l);
/* Bytes of a dense copy. */
uint64_t mlsi_layout_bytes(const mlsi_layout *l);
/* Lowest and one past the highest reachable element; 0,0 when empty; overflow is an error. */
mlsys_status mlsi_layout_bounds(const mlsi_layout *l, int64_t *low, int64_t *high);
/* Row-major and gapless from its offset (size-1 and empty dims have any stride). */
bool mlsi_layout_contiguous(const mlsi_layout *l);
/* Do two distinct indices reach the same element? Exact, see layout_overlap.c; true without proof
 * only where 2^20 steps of search did not settle it. */
bool mlsi_layout_self_overlaps(const mlsi_layout *l);

mlsys_status mlsi_layout_permute(const mlsi_layout *l, const int32_t *perm, mlsi_layout *out);
/* ONNX clamping of start and stop; see mlsys_tensor_slice. */
mlsys_status mlsi_layout_slice(const mlsi_layout *l, int32_t axis, int64_t start, int64_t stop,
                               int64_t step, mlsi_layout *out);
/* Clamp (start, stop, step) to an extent: first index and count. */
void mlsi_slice_range(int64_t extent, int64_t start, int64_t stop, int64_t step, int64_t *first,
                      int64_t *count);
mlsys_status mlsi_layout_broadcast(const mlsi_layout *l, int32_t rank, const int64_t *shape,
                                   mlsi_layout *out);
/* *is_view tells whether strides exist that address l's elements in the new shape; out is then the
 * view, else the row-major layout of a copy. shape holds no -1. */
mlsys_status mlsi_layout_reshape(const mlsi_layout *l, int32_t rank, const int64_t *shape,
                                 mlsi_layout *out, bool *is_view);
/* "f32[2,3]" for error sentences. */
const char *mlsi_layout_text(const mlsi_layout *l, char *buf, int cap);

/* What kernels see: data already points at element (0,...,0). */
typedef struct mlsi_view {
    void *data;
    mlsys_dtype dtype;
    int32_t rank;
    int64_t shape[MLSYS_MAX_DIMS];
    int64_t strides[MLSYS_MAX_DIMS];
} mlsi_view;

/* A NULL base gives a view without data. */
mlsi_view mlsi_view_of(void *storage_base, const mlsi_layout *l);
int64_t mlsi_view_count(const mlsi_view *v);
/* Of its elements, however far apart they lie. */
uint64_t mlsi_view_bytes(const mlsi_view *v);
bool mlsi_view_contiguous(const mlsi_view *v);
/* Byte range [low, high) that the view touches, as addresses; empty views give low == high. */
void mlsi_view_range(const mlsi_view *v, uintptr_t *low, uintptr_t *high);

#endif
