#include "core/layout.h"

#include "core/alloc.h"
#include "core/faults.h"

#include <stdio.h>

#define LL(x) ((long long)(x))

/* ---- construction and checks ---------------------------------------------------------------- */

/* Rank and extents are legal, and elements and bytes fit int64 even with empty dims read as 1, so
 * that no later product of extents can overflow. */
static mlsys_status check_shape(mlsys_dtype dtype, int32_t rank, const int64_t *shape) {
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    if (!info) return mlsi_fail(MLSYS_E_DTYPE, "shape: unknown dtype %d", dtype);
    if (rank < 0 || rank > MLSYS_MAX_DIMS)
        return mlsi_fail(MLSYS_E_SHAPE, "shape: rank %d is outside 0..%d", rank, MLSYS_MAX_DIMS);
    if (rank && !shape) return mlsi_fail(MLSYS_E_ARG, "shape: NULL for rank %d", rank);
    int64_t count = 1, bytes;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0)
            return mlsi_fail(MLSYS_E_SHAPE, "shape: extent %lld of axis %d is negative",
                             LL(shape[d]), d);
        if (!mlsi_mul_i64(count, shape[d] ? shape[d] : 1, &count))
            return mlsi_fail(MLSYS_E_SHAPE,
                             "shape: element count overflows at axis %d, extent %lld", d,
                             LL(shape[d]));
    }
    if (!mlsi_mul_i64(count, info->block_bytes, &bytes))
        return mlsi_fail(MLSYS_E_SHAPE, "shape: byte count of %lld %s elements overflows",
                         LL(count), info->name);
    if (info->block_elems > 1 && (!rank || shape[rank - 1] % info->block_elems))
        return mlsi_fail(MLSYS_E_SHAPE,
                         "shape: %s needs a last extent in multiples of %d, not %lld", info->name,
                         info->block_elems, rank ? LL(shape[rank - 1]) : 1LL);
    return MLSYS_OK;
}

static void fill_row_major(mlsi_layout *l, mlsys_dtype dtype, int32_t rank, const int64_t *shape) {
    mlsi_layout r = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        r.shape[d] = shape[d];
        r.strides[d] = stride;
        stride *= shape[d] ? shape[d] : 1;
    }
    *l = r;
}

mlsys_status mlsi_layout_row_major(mlsi_layout *l, mlsys_dtype dtype, int32_t rank,
                                   const int64_t *shape) {
    MLSI_TRY(check_shape(dtype, rank, shape));
    fill_row_major(l, dtype, rank, shape);
    return MLSYS_OK;
}

mlsys_status mlsi_layout_validate(const mlsi_layout *l) {
    MLSI_TRY(check_shape(l->dtype, l->rank, l->shape));
    int64_t low, high;
    MLSI_TRY(mlsi_layout_bounds(l, &low, &high));
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    int block = info->block_elems;
    if (block == 1) return MLSYS_OK;
    if (l->strides[l->rank - 1] != 1)
        return mlsi_fail(MLSYS_E_SHAPE, "layout: %s needs a last stride of 1, not %lld", info->name,
                         LL(l->strides[l->rank - 1]));
    if (l->offset % block && !mlsi_fault(MLSI_FAULT_BLOCK_CUT))
        return mlsi_fail(MLSYS_E_SHAPE, "layout: offset %lld cuts a block of %s (%d elements)",
                         LL(l->offset), info->name, block);
    for (int d = 0; d < l->rank - 1 && low < high; d++) /* an empty tensor reaches no block */
        if (l->shape[d] > 1 && l->strides[d] % block)
            return mlsi_fail(MLSYS_E_SHAPE,
                             "layout: stride %lld of axis %d cuts a block of %s (%d elements)",
                             LL(l->strides[d]), d, info->name, block);
    return MLSYS_OK;
}

int64_t mlsi_layout_count(const mlsi_layout *l) {
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++)
        n *= l->shape[d];
    return n;
}

uint64_t mlsi_layout_bytes(const mlsi_layout *l) {
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    return (uint64_t)mlsi_layout_count(l) / (uint64_t)info->block_elems *
           (uint64_t)info->block_bytes;
}

mlsys_status mlsi_layout_bounds(const mlsi_layout *l, int64_t *low, int64_t *high) {
    *low = *high = 0;
    if (!mlsi_layout_count(l)) return MLSYS_OK;
    int64_t lo = l->offset, hi = l->offset;
    for (int d = 0; d < l->rank; d++) {
        int64_t span, *end = l->strides[d] < 0 ? &lo : &hi;
        if (!mlsi_mul_i64(l->shape[d] - 1, l->strides[d], &span) || !mlsi_add_i64(*end, span, end))
            return mlsi_fail(MLSYS_E_SHAPE, "layout: stride %lld of axis %d, extent %lld overflows",
                             LL(l->strides[d]), d, LL(l->shape[d]));
    }
    if (!mlsi_add_i64(hi, 1, &hi))
        return mlsi_fail(MLSYS_E_SHAPE, "layout: offset %lld overflows", LL(l->offset));
    *low = lo;
    *high = hi;
    return MLSYS_OK;
}

static bool dense(int32_t rank, const int64_t *shape, const int64_t *strides) {
    int64_t expected = 1;
    bool gapless = true;
    for (int d = rank - 1; d >= 0; d--) {
        if (shape[d] == 0) return true;
        if (shape[d] == 1) continue;
        if (gapless && strides[d] == expected)
            expected *= shape[d];
        else
            gapless = false; /* an outer empty dim would still make it dense */
    }
    return gapless;
}

bool mlsi_layout_contiguous(const mlsi_layout *l) { return dense(l->rank, l->shape, l->strides); }

/* ---- views ---------------------------------------------------------------------------------- */

mlsys_status mlsi_layout_permute(const mlsi_layout *l, const int32_t *perm, mlsi_layout *out) {
    mlsi_layout r = {.dtype = l->dtype, .rank = l->rank, .offset = l->offset};
    uint32_t seen = 0;
    for (int d = 0; d < l->rank; d++) {
        int32_t from = perm[d];
        if (from < 0 || from >= l->rank || seen >> from & 1)
            return mlsi_fail(MLSYS_E_ARG, "permute: entry %d is %d, not a permutation of 0..%d", d,
                             from, l->rank - 1);
        seen |= 1u << from;
        r.shape[d] = l->shape[from];
        r.strides[d] = l->strides[from];
    }
    MLSI_TRY(mlsi_layout_validate(&r));
    *out = r;
    return MLSYS_OK;
}

/* ONNX Slice: negative positions count from the end; then for step > 0 both are clamped to
 * [0, extent], for step < 0 start to [0, extent - 1] and stop to [-1, extent - 1]. */
void mlsi_slice_range(int64_t extent, int64_t start, int64_t stop, int64_t step, int64_t *first,
                      int64_t *count) {
    int64_t high = step > 0 ? extent : extent - 1, stop_low = step > 0 ? 0 : -1;
    if (mlsi_fault(MLSI_FAULT_SLICE_OPEN_END)) stop_low = 0;
    *first = *count = 0;
    if (extent <= 0 || step == 0) return;
    if (start < 0) start += extent;
    if (stop < 0) stop += extent;
    start = start < 0 ? 0 : start > high ? high : start;
    stop = stop < stop_low ? stop_low : stop > high ? high : stop;
    uint64_t distance = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && start < stop) distance = (uint64_t)(stop - start);
    if (step < 0 && start > stop) distance = (uint64_t)(start - stop);
    if (!distance) return;
    *first = start;
    *count = (int64_t)((distance - 1) / stride) + 1;
}

mlsys_status mlsi_layout_slice(const mlsi_layout *l, int32_t axis, int64_t start, int64_t stop,
                               int64_t step, mlsi_layout *out) {
    if (axis < -l->rank || axis >= l->rank)
        return mlsi_fail(MLSYS_E_ARG, "slice: axis %d is outside [%d, %d)", axis, -l->rank,
                         l->rank);
    if (step == 0) return mlsi_fail(MLSYS_E_ARG, "slice: step is 0");
    if (axis < 0) axis += l->rank;
    mlsi_layout r = *l;
    int64_t first, count;
    mlsi_slice_range(l->shape[axis], start, stop, step, &first, &count);
    r.shape[axis] = count;
    if (mlsi_layout_count(l)) r.offset += first * l->strides[axis]; /* else nothing is reached */
    /* |step| < extent here, so the product stays inside the bounds of l. */
    if (count > 1) r.strides[axis] = l->strides[axis] * step;
    MLSI_TRY(mlsi_layout_validate(&r));
    *out = r;
    return MLSYS_OK;
}

mlsys_status mlsi_layout_broadcast(const mlsi_layout *l, int32_t rank, const int64_t *shape,
                                   mlsi_layout *out) {
    MLSI_TRY(check_shape(l->dtype, rank, shape));
    char text[128];
    if (rank < l->rank)
        return mlsi_fail(MLSYS_E_SHAPE, "broadcast: %s has a higher rank than %d",
                         mlsi_layout_text(l, text, sizeof text), rank);
    mlsi_layout r = {.dtype = l->dtype, .rank = rank, .offset = l->offset};
    for (int d = 0; d < rank; d++) {
        int from = d - (rank - l->rank);
        r.shape[d] = shape[d];
        if (from < 0) continue;
        if (l->shape[from] == shape[d])
            r.strides[d] = l->strides[from];
        else if (l->shape[from] != 1)
            return mlsi_fail(MLSYS_E_SHAPE, "broadcast: axis %d of %s cannot become %lld", from,
                             mlsi_layout_text(l, text, sizeof text), LL(shape[d]));
    }
    MLSI_TRY(mlsi_layout_validate(&r));
    *out = r;
    return MLSYS_OK;
}

/* Merge neighbouring dims that step as one: (n, s*m), (m, s) -> (n*m, s). Unit dims vanish. */
static int merge_dims(const mlsi_layout *l, int64_t *shape, int64_t *strides) {
    int n = 0;
    for (int d = 0; d < l->rank; d++) {
        if (l->shape[d] == 1) continue;
        int64_t step;
        if (n && mlsi_mul_i64(l->strides[d], l->shape[d], &step) &&
            (strides[n - 1] == step || mlsi_fault(MLSI_FAULT_RESHAPE_MERGE))) {
            shape[n - 1] *= l->shape[d];
            strides[n - 1] = l->strides[d];
        } else {
            shape[n] = l->shape[d];
            strides[n++] = l->strides[d];
        }
    }
    return n;
}

mlsys_status mlsi_layout_reshape(const mlsi_layout *l, int32_t rank, const int64_t *shape,
                                 mlsi_layout *out, bool *is_view) {
    mlsi_layout r;
    char from[128], to[128];
    *is_view = false;
    MLSI_TRY(mlsi_layout_row_major(&r, l->dtype, rank, shape));
    if (mlsi_layout_count(l) != mlsi_layout_count(&r))
        return mlsi_fail(MLSYS_E_SHAPE, "reshape: %s has %lld elements, %s has %lld",
                         mlsi_layout_text(l, from, sizeof from), LL(mlsi_layout_count(l)),
                         mlsi_layout_text(&r, to, sizeof to), LL(mlsi_layout_count(&r)));
    *out = r;
    r.offset = l->offset;
    if (mlsi_layout_count(l) == 0) {
        *out = r;
        *is_view = true;
        return MLSYS_OK;
    }
    /* The merged dims are the longest runs of constant step; a view exists if and only if the new
     * dims split each run exactly, taken from the right. */
    int64_t run_shape[MLSYS_MAX_DIMS], run_strides[MLSYS_MAX_DIMS];
    int run = merge_dims(l, run_shape, run_strides) - 1;
    int64_t left = run >= 0 ? run_shape[run] : 1, stride = run >= 0 ? run_strides[run] : 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (r.shape[d] > 1 && left == 1) { /* this run is used up */
            run--;
            left = run_shape[run];
            stride = run_strides[run];
        }
        if (left % r.shape[d]) return MLSYS_OK;
        r.strides[d] = stride;
        left /= r.shape[d];
        if (left > 1) stride *= r.shape[d];
    }
    *out = r;
    *is_view = true;
    return MLSYS_OK;
}

const char *mlsi_layout_text(const mlsi_layout *l, char *buf, int cap) {
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    int n = snprintf(buf, (size_t)cap, "%s[", info ? info->name : "?");
    for (int d = 0; d < l->rank && n < cap; d++)
        n += snprintf(buf + n, (size_t)(cap - n), d ? ",%lld" : "%lld", LL(l->shape[d]));
    if (n < cap) snprintf(buf + n, (size_t)(cap - n), "]");
    return buf;
}

/* ---- kernel views --------------------------------------------------------------------------- */

mlsi_view mlsi_view_of(void *storage_base, const mlsi_layout *l) {
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    mlsi_view v = {.dtype = l->dtype, .rank = l->rank};
    if (storage_base)
        v.data = (char *)storage_base + l->offset / info->block_elems * info->block_bytes;
    for (int d = 0; d < l->rank; d++) {
        v.shape[d] = l->shape[d];
        v.strides[d] = l->strides[d];
    }
    return v;
}

int64_t mlsi_view_count(const mlsi_view *v) {
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++)
        n *= v->shape[d];
    return n;
}

uint64_t mlsi_view_bytes(const mlsi_view *v) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    return (uint64_t)(mlsi_view_count(v) / info->block_elems) * (uint64_t)info->block_bytes;
}

bool mlsi_view_contiguous(const mlsi_view *v) { return dense(v->rank, v->shape, v->strides); }

void mlsi_view_range(const mlsi_view *v, uintptr_t *low, uintptr_t *high) {
    *low = *high = (uintptr_t)v->data;
    if (!mlsi_view_count(v)) return;
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < v->rank; d++) {
        int64_t span = (v->shape[d] - 1) * v->strides[d];
        if (span < 0)
            lo += span;
        else
            hi += span;
    }
    *low += (uintptr_t)(lo / info->block_elems * info->block_bytes);
    *high += (uintptr_t)((hi + 1) / info->block_elems * info->block_bytes);
}
