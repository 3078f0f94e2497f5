/* Ops that only move elements: copies of views, and ops that fill parts of their output. */
#include "cpu/kernels/copy_view.h"
#include "core/faults.h"

static bool accepts_same_dtype(const mlsi_query *q) { return q->in[0].dtype == q->out[0].dtype; }
static bool accepts_plain(const mlsi_query *q) {
    return accepts_same_dtype(q) && is_plain(q->out[0].dtype);
}

/* ---- views of operand 0 ---------------------------------------------------------------------- */

/* COPY and BROADCAST. */
static mlsys_status copy_run_op(const mlsi_kernel_args *args) {
    copy_view(&args->out[0], &args->in[0], args->pool);
    return MLSYS_OK;
}

static mlsys_status transpose_run(const mlsi_kernel_args *args) {
    const mlsi_attr_transpose *attrs = args->attrs;
    mlsi_view v = args->in[0];
    for (int d = 0; d < v.rank; d++) {
        v.shape[d] = args->in[0].shape[attrs->perm.v[d]];
        v.strides[d] = args->in[0].strides[attrs->perm.v[d]];
    }
    copy_view(&args->out[0], &v, args->pool);
    return MLSYS_OK;
}

static mlsys_status slice_run(const mlsi_kernel_args *args) {
    const mlsi_attr_slice *attrs = args->attrs;
    mlsi_view v = args->in[0];
    for (int d = 0; d < v.rank; d++) {
        int64_t first, count, step = d < attrs->steps.n ? attrs->steps.v[d] : 1;
        mlsi_slice_range(v.shape[d], attrs->starts.v[d], attrs->stops.v[d], step, &first, &count);
        if (count) v = narrow_view(&v, d, first, count);
        v.shape[d] = count;
        v.strides[d] *= step;
    }
    copy_view(&args->out[0], &v, args->pool);
    return MLSYS_OK;
}

static mlsys_status reverse_run(const mlsi_kernel_args *args) {
    const mlsi_attr_axes *attrs = args->attrs;
    mlsi_view v = args->in[0];
    for (int64_t i = 0; i < attrs->axes.n; i++) {
        int d = (int)(attrs->axes.v[i] < 0 ? attrs->axes.v[i] + v.rank : attrs->axes.v[i]);
        if (v.shape[d] == 0) continue;
        v = narrow_view(&v, d, v.shape[d] - 1, v.shape[d]);
        v.strides[d] = -v.strides[d];
    }
    copy_view(&args->out[0], &v, args->pool);
    return MLSYS_OK;
}

/* v's elements, which are gapless and row-major, in another shape of the same count. */
static mlsi_view reshaped(const mlsi_view *v, const mlsi_view *shape) {
    mlsi_view r = {.data = v->data, .dtype = v->dtype, .rank = shape->rank};
    int64_t stride = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        r.shape[d] = shape->shape[d];
        r.strides[d] = stride;
        stride *= shape->shape[d];
    }
    return r;
}

/* One element at a time: neither side is gapless. */
static void reshape_strided(const mlsi_view *y, const mlsi_view *x, int64_t size) {
    int64_t n = mlsi_view_count(x), iy[MLSYS_MAX_DIMS] = {0}, ix[MLSYS_MAX_DIMS] = {0};
    char *to = y->data, *from = x->data;
    for (int64_t i = 0; i < n; i++) {
        memcpy(to, from, (size_t)size);
        for (int d = y->rank - 1; d >= 0; d--) {
            to += y->strides[d] * size;
            if (++iy[d] < y->shape[d]) break;
            to -= y->shape[d] * y->strides[d] * size;
            iy[d] = 0;
        }
        for (int d = x->rank - 1; d >= 0; d--) {
            from += x->strides[d] * size;
            if (++ix[d] < x->shape[d]) break;
            from -= x->shape[d] * x->strides[d] * size;
            ix[d] = 0;
        }
    }
}

static mlsys_status reshape_run(const mlsi_kernel_args *args) {
    const mlsi_view *x = &args->in[0], *y = &args->out[0];
    if (mlsi_view_contiguous(x)) {
        mlsi_view v = reshaped(x, y);
        copy_view(y, &v, args->pool);
    } else if (mlsi_view_contiguous(y)) {
        mlsi_view v = reshaped(y, x);
        copy_view(&v, x, args->pool);
    } else {
        reshape_strided(y, x, mlsi_dtype_size(x->dtype));
    }
    return MLSYS_OK;
}

/* ---- pad, concat ----------------------------------------------------------------------------- */

static mlsi_view scalar_view(void *bytes, mlsys_dtype t) {
    return (mlsi_view){.data = bytes, .dtype = t, .rank = 0};
}

/* The border of axis d is filled within the interior of the axes before it, so that no element is
 * written twice. */
static mlsys_status pad_run(const mlsi_kernel_args *args) {
    const mlsi_attr_pad *attrs = args->attrs;
    mlsi_view x = args->in[0], y = args->out[0];
    char bytes[8] = {0};
    int64_t count = mlsi_f64_to_int(attrs->value, y.dtype);
    if (mlsi_dtype_is_float(y.dtype))
        store_f64(bytes, y.dtype, attrs->value);
    else
        store_i64(bytes, y.dtype, 8, &count, 1);
    mlsi_view value = scalar_view(bytes, y.dtype);
    for (int d = 0; d < y.rank; d++) {
        int64_t low = attrs->low.v[d], high = attrs->high.v[d], extent = y.shape[d];
        if (low < 0) x = narrow_view(&x, d, -low, x.shape[d] + low);
        if (high < 0) x = narrow_view(&x, d, 0, x.shape[d] + high);
        if (x.shape[d] < 0) x.shape[d] = 0;
        if (low < 0) low = 0;
        if (low > extent) low = extent;
        int64_t end = low + x.shape[d] < extent ? low + x.shape[d] : extent;
        mlsi_view before = narrow_view(&y, d, 0, low);
        mlsi_view after = narrow_view(&y, d, end, extent - end);
        copy_view(&before, &value, args->pool);
        copy_view(&after, &value, args->pool);
        y = narrow_view(&y, d, low, end - low);
    }
    copy_view(&y, &x, args->pool);
    return MLSYS_OK;
}

static mlsys_status concat_run(const mlsi_kernel_args *args) {
    const mlsi_attr_axis *attrs = args->attrs;
    int axis = (int)(attrs->axis < 0 ? attrs->axis + args->out[0].rank : attrs->axis);
    int64_t at = 0;
    for (int i = 0; i < args->n_in; i++) {
        int64_t extent = args->in[i].shape[axis];
        mlsi_view part = narrow_view(&args->out[0], axis, at, extent);
        copy_view(&part, &args->in[i], args->pool);
        at += extent;
    }
    return MLSYS_OK;
}

/* ---- windows at run-time positions ----------------------------------------------------------- */

/* window = whole[starts..., size of window]; a start outside is an error, never clamped. */
static mlsys_status locate_window(const char *op, const mlsi_view *starts, const mlsi_view *whole,
                                  const int64_t *sizes, mlsi_view *window) {
    *window = *whole;
    for (int d = 0; d < whole->rank; d++) {
        int64_t start = 0, room = whole->shape[d] - sizes[d];
        int bytes = mlsi_dtype_size(starts->dtype);
        load_i64(&start, (const char *)starts->data + d * starts->strides[0] * bytes, starts->dtype,
                 bytes, 1);
        if (start < 0 || start > room + mlsi_fault(MLSI_FAULT_CPU_WINDOW_END))
            return mlsi_fail(MLSYS_E_ARG,
                             "%s: start outside its range: axis %d, start %lld, size %lld, extent "
                             "%lld",
                             op, d, (long long)start, (long long)sizes[d],
                             (long long)whole->shape[d]);
        *window = narrow_view(window, d, start, sizes[d]);
    }
    return MLSYS_OK;
}

static mlsys_status dynamic_slice_run(const mlsi_kernel_args *args) {
    mlsi_view window;
    MLSI_TRY(
        locate_window("dynamic_slice", &args->in[1], &args->in[0], args->out[0].shape, &window));
    copy_view(&args->out[0], &window, args->pool);
    return MLSYS_OK;
}

/* When the output shares x's buffer, everything outside the window is in place already. */
static mlsys_status dynamic_update_slice_run(const mlsi_kernel_args *args) {
    const mlsi_view *x = &args->in[0], *update = &args->in[1], *y = &args->out[0];
    mlsi_view window;
    MLSI_TRY(locate_window("dynamic_update_slice", &args->in[2], y, update->shape, &window));
    if (y->data != x->data) copy_view(y, x, args->pool);
    copy_view(&window, update, args->pool);
    return MLSYS_OK;
}

static bool accepts_window(const mlsi_query *q) {
    mlsys_dtype t = q->in[q->n_in - 1].dtype;
    return accepts_same_dtype(q) && is_plain(q->in[0].dtype) && (t == MLSYS_I64 || t == MLSYS_I32);
}

#define MOVEMENT_ROW(ID, id, accept, shareable)                                                    \
    {                                                                                              \
        .op = MLSI_OP_##ID, .isa = MLSI_K_ISA, .name = MLSI_K_NAME(#id), .accepts = accept,        \
        .run = id##_run, .in_place = shareable                                                     \
    }

MLSI_KERNEL_TABLE(movement) = {
    {.op = MLSI_OP_COPY,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("copy"),
     .accepts = accepts_same_dtype,
     .run = copy_run_op},
    {.op = MLSI_OP_BROADCAST,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("broadcast"),
     .accepts = accepts_plain,
     .run = copy_run_op},
    MOVEMENT_ROW(RESHAPE, reshape, accepts_plain, 0),
    MOVEMENT_ROW(TRANSPOSE, transpose, accepts_plain, 0),
    MOVEMENT_ROW(SLICE, slice, accepts_plain, 0),
    MOVEMENT_ROW(REVERSE, reverse, accepts_plain, 0),
    MOVEMENT_ROW(PAD, pad, accepts_plain, 0),
    MOVEMENT_ROW(CONCAT, concat, accepts_plain, 0),
    MOVEMENT_ROW(DYNAMIC_SLICE, dynamic_slice, accepts_window, 0),
    MOVEMENT_ROW(DYNAMIC_UPDATE_SLICE, dynamic_update_slice, accepts_window, 1),
    {.run = NULL},
};
