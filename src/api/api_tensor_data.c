/* Tensors: facts, contents, exchange. */
#include "api/api.h"
#include "core/dlpack.h"
#include "core/op_attrs.h"
#include "core/rng.h"

/* ---- facts ---------------------------------------------------------------------------------- */

/* Copy up to cap of n numbers; a cap of 0 only asks for n. */
static mlsys_status numbers_out(const char *call, const int64_t *from, int32_t n, int32_t cap,
                                int64_t *to) {
    if (cap < 0 || (cap && !to))
        return mlsi_fail(MLSYS_E_ARG, "%s: cap is %d, the array is %s", call, cap,
                         to ? "given" : "NULL");
    for (int i = 0; i < n && i < cap; i++)
        to[i] = from[i];
    if (cap && cap < n)
        return mlsi_fail(MLSYS_E_BUFFER, "%s: rank %d, the array holds %d", call, n, cap);
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_shape(mlsys_tensor t, int32_t cap, int64_t *shape, int32_t *ndim) {
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_shape: t", &x));
    if (ndim) *ndim = x->layout.rank;
    mlsys_status st = numbers_out("tensor_shape", x->layout.shape, x->layout.rank, cap, shape);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_tensor_strides(mlsys_tensor t, int32_t cap, int64_t *strides, int64_t *offset) {
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_strides: t", &x));
    if (offset) *offset = x->layout.offset;
    mlsys_status st =
        numbers_out("tensor_strides", x->layout.strides, x->layout.rank, cap, strides);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_tensor_dtype(mlsys_tensor t, mlsys_dtype *out) {
    API_NOT_NULL(out, "tensor_dtype: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_dtype: t", &x));
    *out = x->layout.dtype;
    mlsi_unpin(x);
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_device(mlsys_tensor t, mlsys_device *out) {
    API_OUT_HANDLE(out, "tensor_device: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_device: t", &x));
    *out = mlsi_handle_of(x->device);
    mlsi_unpin(x);
    return *out ? MLSYS_OK : mlsys_last_status();
}

mlsys_status mlsys_tensor_bounds(mlsys_tensor t, uint64_t *low, uint64_t *high) {
    API_NOT_NULL(low, "tensor_bounds: low");
    API_NOT_NULL(high, "tensor_bounds: high");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_bounds: t", &x));
    const mlsi_dtype_info *info = mlsi_dtype_get(x->layout.dtype);
    int64_t first = 0, end = 0; /* inside the storage since creation */
    mlsys_status st = mlsi_layout_bounds(&x->layout, &first, &end);
    *low = (uint64_t)(first / info->block_elems * info->block_bytes);
    *high = (uint64_t)(end / info->block_elems * info->block_bytes);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_tensor_layout(mlsys_tensor t, int32_t *contiguous, int32_t *overlaps) {
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_layout: t", &x));
    if (contiguous) *contiguous = mlsi_layout_contiguous(&x->layout);
    if (overlaps) *overlaps = mlsi_layout_self_overlaps(&x->layout);
    mlsi_unpin(x);
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_data(mlsys_tensor t, void **out, uint64_t *bytes) {
    API_OUT_HANDLE(out, "tensor_data: out");
    if (bytes) *bytes = 0;
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_data: t", &x));
    mlsi_view v = mlsi_tensor_view_of(x);
    mlsys_status st = mlsi_tensor_on_host(x, "tensor_data: t");
    if (st == MLSYS_OK) *out = v.data;
    if (st == MLSYS_OK && bytes)
        *bytes = x->storage->bytes - (uint64_t)((char *)v.data - x->storage->base);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_tensor_storage_id(mlsys_tensor t, uint64_t *out) {
    API_NOT_NULL(out, "tensor_storage_id: out");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_storage_id: t", &x));
    *out = x->storage->id;
    mlsi_unpin(x);
    return MLSYS_OK;
}

/* ---- contents ------------------------------------------------------------------------------- */

typedef struct tensor_call {
    mlsi_tensor *t;
    mlsi_stream *stream;
} tensor_call;

static mlsys_status call_begin(tensor_call *c, mlsys_tensor t, const char *t_what,
                               mlsys_stream stream, const char *stream_what) {
    *c = (tensor_call){0};
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, t_what, &c->t));
    mlsys_status st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, stream_what, &c->stream);
    if (st == MLSYS_OK) {
        st = mlsi_api_same_ctx(&c->t->object, &c->stream->object, "tensor and stream");
        if (st != MLSYS_OK) mlsi_unpin_exclusive(c->stream);
    }
    if (st != MLSYS_OK) mlsi_unpin(c->t);
    return st;
}

static mlsys_status call_end(tensor_call *c, const char *call, mlsys_status st) {
    mlsi_unpin_exclusive(c->stream);
    mlsi_unpin(c->t);
    return st ? mlsi_fail_in(st, "%s", call) : st;
}

/* Dense row-major host memory of t's elements. */
static mlsys_status check_host(const mlsi_tensor *t, const void *host, uint64_t bytes) {
    uint64_t needed = mlsi_layout_bytes(&t->layout);
    if (bytes != needed)
        return mlsi_fail(MLSYS_E_ARG, "bytes is %llu, the tensor has %llu",
                         (unsigned long long)bytes, (unsigned long long)needed);
    if (!host && bytes) return mlsi_fail(MLSYS_E_ARG, "the host memory is NULL");
    return MLSYS_OK;
}

mlsys_status mlsys_tensor_write(mlsys_tensor t, mlsys_stream stream, const void *src,
                                uint64_t bytes) {
    tensor_call c;
    MLSI_TRY(call_begin(&c, t, "tensor_write: t", stream, "tensor_write: stream"));
    mlsys_status st = mlsi_tensor_writable(c.t, "t");
    if (st == MLSYS_OK) st = check_host(c.t, src, bytes);
    if (st == MLSYS_OK) mlsi_storage_written(c.t->storage);
    if (st == MLSYS_OK) st = mlsi_tensor_upload(c.t, src);
    return call_end(&c, "tensor_write", st);
}

mlsys_status mlsys_tensor_read(mlsys_tensor t, mlsys_stream stream, void *dst, uint64_t bytes) {
    tensor_call c;
    MLSI_TRY(call_begin(&c, t, "tensor_read: t", stream, "tensor_read: stream"));
    mlsys_status st = check_host(c.t, dst, bytes);
    if (st == MLSYS_OK) st = mlsi_tensor_download(c.t, dst);
    return call_end(&c, "tensor_read", st);
}

static mlsys_status copy(mlsi_tensor *dst, const mlsi_tensor *src) {
    const mlsi_layout *a = &dst->layout, *b = &src->layout;
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->shape[d] == b->shape[d];
    char dst_text[128], src_text[128];
    if (!same)
        return mlsi_fail(a->dtype == b->dtype ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                         "dst is %s, src is %s", mlsi_layout_text(a, dst_text, sizeof dst_text),
                         mlsi_layout_text(b, src_text, sizeof src_text));
    MLSI_TRY(mlsi_api_same_ctx(&dst->object, &src->object, "dst and src"));
    MLSI_TRY(mlsi_tensor_writable(dst, "dst"));
    mlsi_storage_written(dst->storage);
    return mlsi_tensor_transfer(dst, src);
}

mlsys_status mlsys_tensor_copy(mlsys_tensor dst, mlsys_tensor src, mlsys_stream stream) {
    tensor_call c;
    MLSI_TRY(call_begin(&c, dst, "tensor_copy: dst", stream, "tensor_copy: stream"));
    mlsi_tensor *from;
    mlsys_status st = mlsi_pin(src, MLSYS_KIND_TENSOR, "tensor_copy: src", &from);
    if (st != MLSYS_OK) {
        mlsi_unpin_exclusive(c.stream);
        mlsi_unpin(c.t);
        return st;
    }
    st = copy(c.t, from);
    mlsi_unpin(from);
    return call_end(&c, "tensor_copy", st);
}

/* ---- random --------------------------------------------------------------------------------- */

enum { RANDOM_CHUNK = 8192 };

typedef struct random_job {
    char *data;
    mlsys_dtype dtype;
    int kind;
    uint64_t key, stream_id;
    int64_t count;
} random_job;

static void random_chunk(void *user, int64_t item, int worker) {
    (void)worker;
    const random_job *job = user;
    int64_t first = item * RANDOM_CHUNK, left = job->count - first;
    mlsi_rng_fill(job->data + first * mlsi_dtype_size(job->dtype), job->dtype, job->kind, job->key,
                  job->stream_id, (uint64_t)first, left < RANDOM_CHUNK ? left : RANDOM_CHUNK);
}

static mlsys_status random_kind(const char *name, int *out) {
    static const char *const names[] = {"bits", "uniform", "normal"}; /* MLSI_RANDOM_* order */
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name)) {
            *out = i;
            return MLSYS_OK;
        }
    return mlsi_fail(MLSYS_E_ARG, "kind is none of bits, uniform, normal: \"%s\"", name);
}

static mlsys_status fill_random(mlsi_tensor *t, const char *kind, uint64_t key,
                                uint64_t stream_id) {
    mlsi_ctx *ctx = t->object.ctx;
    mlsi_view view = mlsi_tensor_view_of(t), dense = view;
    random_job job = {
        .dtype = view.dtype, .key = key, .stream_id = stream_id, .count = mlsi_view_count(&view)};
    MLSI_TRY(random_kind(kind, &job.kind));
    MLSI_TRY(mlsi_rng_check(view.dtype, job.kind));
    MLSI_TRY(mlsi_tensor_writable(t, "t"));
    void *scratch = NULL;
    bool direct = mlsi_view_contiguous(&view) && mlsi_is_host(t->device);
    if (!direct) {
        mlsi_layout l;
        MLSI_TRY(mlsi_layout_row_major(&l, view.dtype, view.rank, view.shape));
        MLSI_TRY(mlsi_mem_alloc(&ctx->alloc, mlsi_layout_bytes(&l), &scratch));
        dense = mlsi_view_of(scratch, &l);
    }
    job.data = dense.data;
    mlsi_storage_written(t->storage);
    mlsi_pool_run(ctx->pool, (job.count + RANDOM_CHUNK - 1) / RANDOM_CHUNK, random_chunk, &job);
    mlsys_status st = direct ? MLSYS_OK : mlsi_tensor_upload(t, dense.data);
    mlsi_mem_free(&ctx->alloc, scratch);
    return st;
}

mlsys_status mlsys_tensor_random(mlsys_tensor t, mlsys_stream stream, const char *kind,
                                 uint64_t key, uint64_t stream_id) {
    API_COMPUTES;
    API_NOT_NULL(kind, "tensor_random: kind");
    tensor_call c;
    MLSI_TRY(call_begin(&c, t, "tensor_random: t", stream, "tensor_random: stream"));
    return call_end(&c, "tensor_random", fill_random(c.t, kind, key, stream_id));
}

/* ---- DLPack --------------------------------------------------------------------------------- */

mlsys_status mlsys_tensor_to_dlpack(mlsys_tensor t, mlsys_stream stream, uint64_t flags,
                                    void **managed) {
    API_OUT_HANDLE(managed, "tensor_to_dlpack: managed");
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TENSOR, "tensor_to_dlpack: t", &x));
    mlsi_stream *s = NULL;
    mlsys_status st = MLSYS_OK;
    if (stream) st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "tensor_to_dlpack: stream", &s);
    if (st == MLSYS_OK) st = mlsi_dlpack_export(x, flags, managed);
    mlsi_unpin_exclusive(s);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_tensor_from_dlpack(mlsys_device device, void *managed, mlsys_stream stream,
                                      mlsys_tensor *out) {
    API_OUT_HANDLE(out, "tensor_from_dlpack: out");
    API_NOT_NULL(managed, "tensor_from_dlpack: managed");
    mlsi_device *d;
    MLSI_TRY(mlsi_pin(device, MLSYS_KIND_DEVICE, "tensor_from_dlpack: device", &d));
    mlsi_stream *s = NULL;
    mlsys_status st = MLSYS_OK;
    if (stream)
        st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "tensor_from_dlpack: stream", &s);
    if (st == MLSYS_OK) st = mlsi_dlpack_import(d, managed, out);
    mlsi_unpin_exclusive(s);
    mlsi_unpin(d);
    return st;
}

mlsys_status mlsys_dlpack_free(void *managed) {
    mlsi_dlpack_free(managed);
    return MLSYS_OK;
}
