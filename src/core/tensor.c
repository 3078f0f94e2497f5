#include "core/tensor.h"

#include "core/faults.h"

/* ---- storage -------------------------------------------------------------------------------- */

static mlsi_storage *storage_init(mlsi_storage *s, mlsi_ctx *ctx) {
    atomic_store(&s->refs, 1);
    s->ctx = ctx;
    mlsi_repin(ctx);
    /* The context's slot makes the number unique in the process. */
    s->id = (ctx->object.handle >> 8 & 0xffffff) << 40 |
            ((atomic_fetch_add(&ctx->next_serial, 1) + 1) & 0xffffffffff);
    return s;
}

mlsys_status mlsi_storage_create(mlsi_device *device, uint64_t bytes, mlsi_storage **out) {
    *out = NULL;
    mlsi_ctx *ctx = device->object.ctx;
    mlsi_storage *s;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &s));
    char *base;
    mlsys_status st = mlsi_device_alloc(device, bytes, &base);
    if (st != MLSYS_OK) {
        if (!mlsi_fault(MLSI_FAULT_STORAGE_LEAK)) mlsi_mem_free(&ctx->alloc, s);
        return st;
    }
    s->base = base;
    s->bytes = bytes;
    s->device = device;
    mlsi_repin(device);
    *out = storage_init(s, ctx);
    return MLSYS_OK;
}

static void adopted_without_done(void *user) { (void)user; }

mlsys_status mlsi_storage_adopt(mlsi_ctx *ctx, void *base, uint64_t bytes, bool readonly,
                                void (*done)(void *), void *user, mlsi_storage **out) {
    *out = NULL;
    mlsi_storage *s;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &s));
    static _Alignas(64) char nothing[64];
    s->base = base ? base : nothing; /* of 0 bytes; views may compute with the address */
    s->bytes = bytes;
    s->readonly = readonly;
    s->done = done ? done : adopted_without_done;
    s->user = user;
    *out = storage_init(s, ctx);
    return MLSYS_OK;
}

void mlsi_storage_disown(mlsi_storage *s) { s->done = adopted_without_done; }

void mlsi_storage_retain(mlsi_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void mlsi_storage_written(mlsi_storage *s) {
    atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed);
}

void mlsi_storage_release(mlsi_storage *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    mlsi_ctx *ctx = s->ctx;
    if (s->done)
        s->done(s->user);
    else
        mlsi_device_free(s->device, s->base);
    mlsi_unpin(s->device);
    mlsi_mem_free(&ctx->alloc, s);
    mlsi_unpin(ctx);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void tensor_destroy(mlsi_object *object) {
    mlsi_tensor *t = (mlsi_tensor *)object;
    mlsi_storage_release(t->storage);
    mlsi_unpin(t->device);
    mlsi_mem_free(&object->ctx->alloc, t);
}

static mlsys_status check_inside(const mlsi_layout *l, const mlsi_storage *s) {
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    uint64_t elements = s->bytes / (uint64_t)info->block_bytes;
    if (!mlsi_mul_u64(elements, (uint64_t)info->block_elems, &elements) ||
        elements > (uint64_t)INT64_MAX)
        elements = (uint64_t)INT64_MAX;
    int64_t low, high;
    MLSI_TRY(mlsi_layout_bounds(l, &low, &high));
    char text[128];
    if (low < 0 || (uint64_t)high > elements)
        return mlsi_fail(MLSYS_E_SHAPE,
                         "tensor: %s at offset %lld reaches elements %lld..%lld of a storage of "
                         "%llu",
                         mlsi_layout_text(l, text, sizeof text), (long long)l->offset,
                         (long long)low, (long long)high - 1, (unsigned long long)elements);
    if (l->offset < 0 || (uint64_t)l->offset > elements)
        return mlsi_fail(MLSYS_E_SHAPE, "tensor: offset %lld is outside a storage of %llu elements",
                         (long long)l->offset, (unsigned long long)elements);
    return MLSYS_OK;
}

mlsys_status mlsi_tensor_make(mlsi_device *device, mlsi_storage *storage, const mlsi_layout *l,
                              mlsys_tensor *out) {
    *out = NULL;
    MLSI_TRY(mlsi_layout_validate(l));
    MLSI_TRY(check_inside(l, storage));
    mlsi_ctx *ctx = device->object.ctx;
    mlsi_tensor *t;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &t));
    t->device = device;
    t->storage = storage;
    t->layout = *l;
    for (int d = l->rank; d < MLSYS_MAX_DIMS; d++)
        t->layout.shape[d] = t->layout.strides[d] = 0;
    mlsi_repin(device);
    mlsi_storage_retain(storage);
    mlsys_status st = mlsi_handle_create(&t->object, MLSYS_KIND_TENSOR, ctx, tensor_destroy, out);
    if (st != MLSYS_OK) {
        mlsi_storage_release(storage);
        mlsi_unpin(device);
        mlsi_mem_free(&ctx->alloc, t);
    }
    return st;
}

mlsys_status mlsi_tensor_new(mlsi_device *device, const mlsi_layout *l, mlsys_tensor *out) {
    *out = NULL;
    mlsi_layout dense;
    MLSI_TRY(mlsi_layout_row_major(&dense, l->dtype, l->rank, l->shape));
    mlsi_storage *storage;
    MLSI_TRY(mlsi_storage_create(device, mlsi_layout_bytes(&dense), &storage));
    mlsys_status st = mlsi_tensor_make(device, storage, &dense, out);
    mlsi_storage_release(storage);
    return st;
}

mlsys_status mlsi_tensor_copy_reshaped(mlsi_tensor *t, const mlsi_layout *l, mlsys_tensor *out) {
    MLSI_TRY(mlsi_tensor_new(t->device, l, out));
    mlsi_tensor *fresh;
    MLSI_TRY(mlsi_pin(*out, MLSYS_KIND_TENSOR, "tensor: copy", &fresh));
    mlsi_tensor dense = *fresh; /* t's own shape over the new memory; checked when t was made */
    mlsys_status st =
        mlsi_layout_row_major(&dense.layout, t->layout.dtype, t->layout.rank, t->layout.shape);
    if (st == MLSYS_OK) st = mlsi_tensor_transfer(&dense, t);
    mlsi_unpin(fresh);
    if (st != MLSYS_OK) {
        mlsys_release(*out);
        *out = NULL;
    }
    return st;
}

mlsi_view mlsi_tensor_view_of(const mlsi_tensor *t) {
    return mlsi_view_of(t->storage->base, &t->layout);
}

mlsys_status mlsi_tensor_writable(const mlsi_tensor *t, const char *what) {
    char text[128];
    if (t->storage->readonly)
        return mlsi_fail(MLSYS_E_ARG, "%s: %s is in read-only memory", what,
                         mlsi_layout_text(&t->layout, text, sizeof text));
    if (mlsi_layout_self_overlaps(&t->layout))
        return mlsi_fail(MLSYS_E_ARG, "%s: %s overlaps itself", what,
                         mlsi_layout_text(&t->layout, text, sizeof text));
    return MLSYS_OK;
}
