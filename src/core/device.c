#include "core/tensor.h"

/* In a forked child nobody else runs, and the lock may have been held by a thread that is gone. */
static void device_destroy(mlsi_object *object) {
    mlsi_ctx *ctx = object->ctx;
    bool local = mlsi_handle_is_local(object);
    if (local) pthread_mutex_lock(&ctx->lock);
    if (ctx->cpu_device == (mlsi_device *)object) ctx->cpu_device = NULL;
    if (local) pthread_mutex_unlock(&ctx->lock);
    mlsi_mem_free(&ctx->alloc, object);
}

/* The living device, pinned, or NULL. A dying one cannot be freed while the lock is held. */
static mlsi_device *device_find(mlsi_ctx *ctx) {
    return ctx->cpu_device && mlsi_try_repin(ctx->cpu_device) ? ctx->cpu_device : NULL;
}

static mlsys_status device_handle(mlsi_device *device, mlsys_device *out) {
    *out = mlsi_handle_of(device);
    mlsi_unpin(device);
    return *out ? MLSYS_OK : mlsys_last_status();
}

mlsys_status mlsi_device_get(mlsi_ctx *ctx, mlsys_devtype type, int32_t index, mlsys_device *out) {
    *out = NULL;
    if (type != MLSYS_CPU && type != MLSYS_CUDA)
        return mlsi_fail(MLSYS_E_ARG, "device_get: unknown device type %d", type);
    if (type != MLSYS_CPU)
        return mlsi_fail(MLSYS_E_DEVICE, "device_get: CUDA device %d is absent", index);
    if (index != 0) return mlsi_fail(MLSYS_E_DEVICE, "device_get: CPU device %d is absent", index);
    pthread_mutex_lock(&ctx->lock);
    mlsi_device *found = device_find(ctx);
    pthread_mutex_unlock(&ctx->lock);
    if (found) return device_handle(found, out);

    mlsi_device *fresh;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &fresh));
    fresh->type = type;
    fresh->index = index;
    mlsys_status st =
        mlsi_handle_create(&fresh->object, MLSYS_KIND_DEVICE, ctx, device_destroy, out);
    if (st != MLSYS_OK) {
        mlsi_mem_free(&ctx->alloc, fresh);
        return st;
    }
    pthread_mutex_lock(&ctx->lock);
    found = device_find(ctx); /* another thread may have been faster */
    if (!found) ctx->cpu_device = fresh;
    pthread_mutex_unlock(&ctx->lock);
    if (!found) return MLSYS_OK;
    mlsi_handle_release(*out, "device_get: device");
    return device_handle(found, out);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void stream_destroy(mlsi_object *object) {
    mlsi_stream *s = (mlsi_stream *)object;
    mlsi_alloc *a = &object->ctx->alloc;
    if (s->plan_free) s->plan_free(a, s->plan_cache);
    mlsi_mem_free(a, s->scratch);
    mlsi_unpin(s->device);
    mlsi_mem_free(a, s);
}

mlsys_status mlsi_stream_create(mlsi_device *device, const mlsi_config *config, mlsys_stream *out) {
    *out = NULL;
    MLSI_TRY(mlsi_config_check(config, "stream", NULL, 0));
    mlsi_alloc *a = &device->object.ctx->alloc;
    mlsi_stream *s;
    MLSI_TRY(MLSI_NEW(a, &s));
    s->device = device;
    mlsi_repin(device);
    mlsys_status st =
        mlsi_handle_create(&s->object, MLSYS_KIND_STREAM, device->object.ctx, stream_destroy, out);
    if (st != MLSYS_OK) {
        mlsi_unpin(device);
        mlsi_mem_free(a, s);
    }
    return st;
}
