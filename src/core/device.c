#include "core/tensor.h"

/* In a forked child nobody else runs, and the lock may have been held by a thread that is gone. */
static void device_destroy(mlsi_object *object) {
    mlsi_ctx *ctx = object->ctx;
    mlsi_device *d = (mlsi_device *)object;
    bool local = mlsi_handle_is_local(object);
    if (local) pthread_mutex_lock(&ctx->lock);
    for (mlsi_device **link = &ctx->devices; *link; link = &(*link)->next)
        if (*link == d) {
            *link = d->next;
            break;
        }
    if (local) pthread_mutex_unlock(&ctx->lock);
    if (d->transfers) d->accel->queue_destroy(d->transfers);
    if (d->opened) d->accel->close(d->opened);
    pthread_mutex_destroy(&d->lock);
    mlsi_mem_free(&ctx->alloc, d);
}

/* The living device, pinned, or NULL. A dying one cannot be freed while the lock is held. */
static mlsi_device *device_find(mlsi_ctx *ctx, mlsys_devtype type, int32_t index) {
    for (mlsi_device *d = ctx->devices; d; d = d->next)
        if (d->type == type && d->index == index && mlsi_try_repin(d)) return d;
    return NULL;
}

static mlsys_status device_handle(mlsi_device *device, mlsys_device *out) {
    *out = mlsi_handle_of(device);
    mlsi_unpin(device);
    return *out ? MLSYS_OK : mlsys_last_status();
}

mlsys_status mlsi_device_count(mlsys_devtype type, int32_t *out) {
    *out = 0;
    if (type == MLSYS_CPU) return *out = 1, MLSYS_OK;
    if (type != MLSYS_CUDA)
        return mlsi_fail(MLSYS_E_ARG, "device_count: unknown device type %d", type);
    mlsys_status st = mlsi_cuda_accelerator.count(out);
    return st == MLSYS_E_DEVICE ? MLSYS_OK : st; /* none; device_get says why */
}

static mlsys_status device_open(mlsi_device *d, mlsys_devtype type) {
    if (type == MLSYS_CPU) return MLSYS_OK;
    int32_t count;
    MLSI_TRY(mlsi_cuda_accelerator.count(&count));
    if (d->index < 0 || d->index >= count)
        return mlsi_fail(MLSYS_E_DEVICE, "CUDA device %d is absent: there are %d", d->index, count);
    d->accel = &mlsi_cuda_accelerator;
    MLSI_TRY(d->accel->open(&d->object.ctx->alloc, d->index, 0, &d->opened));
    return d->accel->queue_create(d->opened, &d->transfers);
}

static mlsys_status device_create(mlsi_ctx *ctx, mlsys_devtype type, int32_t index,
                                  mlsi_device **out) {
    mlsi_device *d;
    mlsys_device handle;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &d));
    d->type = type;
    d->index = index;
    d->object.ctx = ctx;
    pthread_mutex_init(&d->lock, NULL);
    mlsys_status st = device_open(d, type);
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&d->object, MLSYS_KIND_DEVICE, ctx, device_destroy, &handle);
    if (st == MLSYS_OK) return *out = d, MLSYS_OK;
    if (d->transfers) d->accel->queue_destroy(d->transfers);
    if (d->opened) d->accel->close(d->opened);
    pthread_mutex_destroy(&d->lock);
    mlsi_mem_free(&ctx->alloc, d);
    return st;
}

mlsys_status mlsi_device_get(mlsi_ctx *ctx, mlsys_devtype type, int32_t index, mlsys_device *out) {
    *out = NULL;
    if (type != MLSYS_CPU && type != MLSYS_CUDA)
        return mlsi_fail(MLSYS_E_ARG, "device_get: unknown device type %d", type);
    if (type == MLSYS_CPU && index != 0)
        return mlsi_fail(MLSYS_E_DEVICE, "device_get: CPU device %d is absent", index);
    pthread_mutex_lock(&ctx->lock);
    mlsi_device *found = device_find(ctx, type, index), *fresh = NULL;
    pthread_mutex_unlock(&ctx->lock);
    if (found) return device_handle(found, out);

    mlsys_status st = device_create(ctx, type, index, &fresh);
    if (st != MLSYS_OK) return mlsi_fail_in(st, "device_get");
    pthread_mutex_lock(&ctx->lock);
    found = device_find(ctx, type, index); /* another thread may have been faster */
    if (!found) {
        fresh->next = ctx->devices;
        ctx->devices = fresh;
    }
    pthread_mutex_unlock(&ctx->lock);
    *out = (mlsys_device)(uintptr_t)fresh->object.handle;
    if (!found) return MLSYS_OK;
    mlsi_handle_release(*out, "device_get: device");
    return device_handle(found, out);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void stream_free(mlsi_stream *s) {
    mlsi_device *d = s->device;
    mlsi_alloc *a = &d->object.ctx->alloc;
    if (s->plan_free) s->plan_free(a, s->plan_cache);
    if (s->queue) d->accel->queue_destroy(s->queue);
    mlsi_device_free(d, s->scratch);
    mlsi_mem_free(a, s);
    mlsi_unpin(d);
}

static void stream_destroy(mlsi_object *object) { stream_free((mlsi_stream *)object); }

mlsys_status mlsi_stream_create(mlsi_device *device, const mlsi_config *config, mlsys_stream *out) {
    *out = NULL;
    MLSI_TRY(mlsi_config_check(config, "stream", NULL, 0));
    mlsi_alloc *a = &device->object.ctx->alloc;
    mlsi_stream *s;
    MLSI_TRY(MLSI_NEW(a, &s));
    s->device = device;
    mlsi_repin(device);
    mlsys_status st = MLSYS_OK;
    if (device->accel) st = device->accel->queue_create(device->opened, &s->queue);
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&s->object, MLSYS_KIND_STREAM, device->object.ctx, stream_destroy,
                                out);
    if (st != MLSYS_OK) stream_free(s);
    return st;
}
