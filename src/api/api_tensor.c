/* Tensors: creation and views. Reading, writing and facts are in api_tensor_data.c. */
#include "api/api.h"

mlsys_status mlsys_tensor_create(mlsys_device device, mlsys_dtype dtype, int32_t ndim,
                                 const int64_t *shape, mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_create: out");
    mlsi_device *d;
    MLSI_TRY(mlsi_pin(device, MLSYS_KIND_DEVICE, "tensor_create: device", &d));
    mlsi_layout l;
    mlsys_status st = mlsi_layout_row_major(&l, dtype, ndim, shape);
    if (st == MLSYS_OK) st = mlsi_tensor_new(d, &l, out);
    mlsi_unpin(d);
    return st ? mlsi_fail_in(st, "tensor_create") : st;
}

/* Row-major when strides is NULL. */
static mlsys_status layout_from(mlsys_dtype dtype, int32_t ndim, const int64_t *shape,
                                const int64_t *strides, int64_t offset, mlsi_layout *l) {
    MLSI_TRY(mlsi_layout_row_major(l, dtype, ndim, shape));
    for (int d = 0; strides && d < ndim; d++)
        l->strides[d] = strides[d];
    l->offset = offset;
    return mlsi_layout_validate(l);
}

static mlsys_status wrap(mlsi_device *d, const mlsi_layout *l, void *base, uint64_t bytes,
                         void (*done)(void *), void *user, mlsys_tensor *out) {
    mlsi_storage *storage;
    MLSI_TRY(mlsi_storage_adopt(d->object.ctx, base, bytes, false, done, user, &storage));
    mlsys_status st = mlsi_tensor_make(d, storage, l, out);
    if (st != MLSYS_OK) mlsi_storage_disown(storage);
    mlsi_storage_release(storage);
    return st;
}

mlsys_status mlsys_tensor_wrap(mlsys_device device, mlsys_dtype dtype, int32_t ndim,
                               const int64_t *shape, const int64_t *strides, int64_t offset,
                               void *base, uint64_t bytes, void (*done)(void *user), void *user,
                               mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_wrap: out");
    if (bytes) API_NOT_NULL(base, "tensor_wrap: base");
    mlsi_device *d;
    MLSI_TRY(mlsi_pin(device, MLSYS_KIND_DEVICE, "tensor_wrap: device", &d));
    mlsi_layout l;
    mlsys_status st = layout_from(dtype, ndim, shape, strides, offset, &l);
    if (st == MLSYS_OK && (uintptr_t)base % (uintptr_t)mlsi_dtype_align(dtype))
        st = mlsi_fail(MLSYS_E_ARG, "base %p is not aligned to %d bytes", base,
                       mlsi_dtype_align(dtype));
    if (st == MLSYS_OK) st = wrap(d, &l, base, bytes, done, user, out);
    mlsi_unpin(d);
    return st ? mlsi_fail_in(st, "tensor_wrap") : st;
}

/* ---- views: each computes a layout over the same storage ------------------------------------- */

/* Ends a view call: publish the layout if it was found, and unpin. */
static mlsys_status view_end(mlsi_tensor *t, const char *call, mlsys_status st,
                             const mlsi_layout *l, mlsys_tensor *out) {
    if (st == MLSYS_OK) st = mlsi_tensor_make(t->device, t->storage, l, out);
    mlsi_unpin(t);
    return st ? mlsi_fail_in(st, "%s", call) : st;
}

mlsys_status mlsys_tensor_view(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                               const int64_t *strides, int64_t offset, mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_view: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_view: t", &x));
    mlsi_layout l;
    mlsys_status st = layout_from(x->layout.dtype, ndim, shape, strides, offset, &l);
    return view_end(x, "tensor_view", st, &l, out);
}

mlsys_status mlsys_tensor_permute(mlsys_tensor t, int32_t ndim, const int32_t *perm,
                                  mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_permute: out");
    if (ndim > 0) API_NOT_NULL(perm, "tensor_permute: perm");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_permute: t", &x));
    mlsi_layout l;
    mlsys_status st = MLSYS_OK;
    if (ndim != x->layout.rank)
        st = mlsi_fail(MLSYS_E_ARG, "ndim is %d, t has rank %d", ndim, x->layout.rank);
    if (st == MLSYS_OK) st = mlsi_layout_permute(&x->layout, perm, &l);
    return view_end(x, "tensor_permute", st, &l, out);
}

/* Negative axes count from the end. */
static mlsys_status normalize_axis(const char *name, int32_t *axis, int32_t rank) {
    if (*axis < -rank || *axis >= rank)
        return mlsi_fail(MLSYS_E_ARG, "%s %d is outside [%d, %d)", name, *axis, -rank, rank);
    if (*axis < 0) *axis += rank;
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_transpose(mlsys_tensor t, int32_t axis0, int32_t axis1,
                                    mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_transpose: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_transpose: t", &x));
    int32_t perm[MLSYS_MAX_DIMS];
    mlsi_layout l;
    mlsys_status st = normalize_axis("axis0", &axis0, x->layout.rank);
    if (st == MLSYS_OK) st = normalize_axis("axis1", &axis1, x->layout.rank);
    if (st == MLSYS_OK) {
        for (int d = 0; d < x->layout.rank; d++)
            perm[d] = d;
        perm[axis0] = axis1;
        perm[axis1] = axis0;
        st = mlsi_layout_permute(&x->layout, perm, &l);
    }
    return view_end(x, "tensor_transpose", st, &l, out);
}

mlsys_status mlsys_tensor_slice(mlsys_tensor t, int32_t axis, int64_t start, int64_t stop,
                                int64_t step, mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_slice: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_slice: t", &x));
    mlsi_layout l;
    mlsys_status st = mlsi_layout_slice(&x->layout, axis, start, stop, step, &l);
    return view_end(x, "tensor_slice", st, &l, out);
}

mlsys_status mlsys_tensor_reverse(mlsys_tensor t, int32_t axis, mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_reverse: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_reverse: t", &x));
    mlsi_layout l;
    mlsys_status st = mlsi_layout_slice(&x->layout, axis, -1, INT64_MIN, -1, &l);
    return view_end(x, "tensor_reverse", st, &l, out);
}

mlsys_status mlsys_tensor_broadcast(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                                    mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_broadcast: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_broadcast: t", &x));
    mlsi_layout l;
    mlsys_status st = mlsi_layout_broadcast(&x->layout, ndim, shape, &l);
    return view_end(x, "tensor_broadcast", st, &l, out);
}

/* Replace the -1, if any, so that the element counts agree. */
static mlsys_status infer_extent(const mlsi_layout *l, int32_t ndim, const int64_t *shape,
                                 int64_t *full) {
    if (ndim < 0 || ndim > MLSYS_MAX_DIMS)
        return mlsi_fail(MLSYS_E_SHAPE, "rank %d is outside 0..%d", ndim, MLSYS_MAX_DIMS);
    if (ndim && !shape) return mlsi_fail(MLSYS_E_ARG, "shape is NULL for rank %d", ndim);
    int unknown = -1;
    int64_t known = 1, count = mlsi_layout_count(l);
    for (int d = 0; d < ndim; d++) {
        full[d] = shape[d];
        if (shape[d] == -1 && unknown >= 0)
            return mlsi_fail(MLSYS_E_SHAPE, "axes %d and %d are both -1", unknown, d);
        if (shape[d] == -1)
            unknown = d;
        else if (shape[d] < 0 || !mlsi_mul_i64(known, shape[d], &known))
            return mlsi_fail(MLSYS_E_SHAPE, "extent %lld of axis %d", (long long)shape[d], d);
    }
    if (unknown < 0) return MLSYS_OK;
    if (!known || count % known)
        return mlsi_fail(MLSYS_E_SHAPE, "axis %d cannot be inferred: %lld elements over %lld",
                         unknown, (long long)count, (long long)known);
    full[unknown] = count / known;
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_reshape(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                                  mlsys_tensor *out, int32_t *copied) {
    API_OUT_HANDLE(out, "tensor_reshape: out");
    if (copied) *copied = 0;
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_reshape: t", &x));
    int64_t full[MLSYS_MAX_DIMS];
    mlsi_layout l;
    bool is_view = true;
    mlsys_status st = infer_extent(&x->layout, ndim, shape, full);
    if (st == MLSYS_OK) st = mlsi_layout_reshape(&x->layout, ndim, full, &l, &is_view);
    if (st != MLSYS_OK || is_view) return view_end(x, "tensor_reshape", st, &l, out);
    st = mlsi_tensor_copy_reshaped(x, &l, out);
    if (copied && st == MLSYS_OK) *copied = 1;
    mlsi_unpin(x);
    return st ? mlsi_fail_in(st, "tensor_reshape") : st;
}
