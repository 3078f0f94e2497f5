/* Memory of devices as bytes, and elements between devices. Streams' work is done when their calls return, so that transfers
 * need not wait for it. */
#include "core/tensor.h"

#include <string.h>

mlsys_status mlsi_device_alloc(mlsi_device *d, uint64_t bytes, char **out) {
    if (mlsi_is_host(d)) return mlsi_mem_alloc(&d->object.ctx->alloc, bytes, (void **)out);
    return d->accel->allocate(d->opened, bytes, out);
}

void mlsi_device_free(mlsi_device *d, void *p) {
    if (!p) return;
    if (mlsi_is_host(d))
        mlsi_mem_free(&d->object.ctx->alloc, p);
    else
        d->accel->release(d->opened, p);
}

mlsys_status mlsi_device_upload(mlsi_device *d, char *to, const void *from, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    if (mlsi_is_host(d)) return memcpy(to, from, bytes), MLSYS_OK;
    pthread_mutex_lock(&d->lock);
    mlsys_status st = d->accel->upload(d->transfers, to, from, bytes);
    if (st == MLSYS_OK) st = d->accel->sync(d->transfers);
    pthread_mutex_unlock(&d->lock);
    return st;
}

mlsys_status mlsi_device_download(mlsi_device *d, void *to, const char *from, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    if (mlsi_is_host(d)) return memcpy(to, from, bytes), MLSYS_OK;
    pthread_mutex_lock(&d->lock);
    mlsys_status st = d->accel->download(d->transfers, to, from, bytes);
    pthread_mutex_unlock(&d->lock);
    return st;
}

mlsys_status mlsi_device_zero(mlsi_device *d, char *to, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    if (mlsi_is_host(d)) return memset(to, 0, bytes), MLSYS_OK;
    pthread_mutex_lock(&d->lock);
    mlsys_status st = d->accel->fill(d->transfers, to, 0, bytes);
    if (st == MLSYS_OK) st = d->accel->sync(d->transfers);
    pthread_mutex_unlock(&d->lock);
    return st;
}

mlsys_status mlsi_tensor_on_host(const mlsi_tensor *t, const char *what) {
    char text[128];
    if (mlsi_is_host(t->device)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: %s lies on CUDA device %d", what,
                     mlsi_layout_text(&t->layout, text, sizeof text), t->device->index);
}

/* ---- elements ---------------------------------------------------------------------------------- */

static mlsys_status dense_view(const mlsi_tensor *t, const void *host, mlsi_view *out) {
    mlsi_layout l;
    MLSI_TRY(mlsi_layout_row_major(&l, t->layout.dtype, t->layout.rank, t->layout.shape));
    *out = mlsi_view_of((void *)host, &l);
    return MLSYS_OK;
}

/* The bytes that a device's view touches, on the host: *span is to be freed, v then shows it. */
static mlsys_status fetch_span(const mlsi_tensor *t, mlsi_view *v, char **span, uintptr_t *low,
                               uint64_t *bytes) {
    uintptr_t high;
    *v = mlsi_tensor_view_of(t);
    mlsi_view_range(v, low, &high);
    *bytes = high - *low;
    MLSI_TRY(mlsi_mem_alloc(&t->object.ctx->alloc, *bytes, (void **)span));
    mlsys_status st = mlsi_device_download(t->device, *span, (const char *)*low, *bytes);
    if (st != MLSYS_OK) mlsi_mem_free(&t->object.ctx->alloc, *span);
    v->data = *span + ((uintptr_t)v->data - *low);
    return st;
}

mlsys_status mlsi_tensor_download(const mlsi_tensor *t, void *host) {
    mlsi_view to, v = mlsi_tensor_view_of(t);
    uintptr_t low;
    uint64_t bytes;
    char *span;
    MLSI_TRY(dense_view(t, host, &to));
    if (mlsi_is_host(t->device)) return mlsi_copy_overlapping(&t->object.ctx->alloc, &to, &v);
    if (mlsi_layout_contiguous(&t->layout))
        return mlsi_device_download(t->device, host, v.data, mlsi_view_bytes(&v));
    MLSI_TRY(fetch_span(t, &v, &span, &low, &bytes));
    mlsi_copy_view(&to, &v);
    mlsi_mem_free(&t->object.ctx->alloc, span);
    return MLSYS_OK;
}

mlsys_status mlsi_tensor_upload(mlsi_tensor *t, const void *host) {
    mlsi_view from, v = mlsi_tensor_view_of(t);
    uintptr_t low;
    uint64_t bytes;
    char *span;
    MLSI_TRY(dense_view(t, host, &from));
    if (mlsi_is_host(t->device)) return mlsi_copy_overlapping(&t->object.ctx->alloc, &v, &from);
    if (mlsi_layout_contiguous(&t->layout))
        return mlsi_device_upload(t->device, v.data, host, mlsi_view_bytes(&v));
    MLSI_TRY(fetch_span(t, &v, &span, &low, &bytes));
    mlsi_copy_view(&v, &from);
    mlsys_status st = mlsi_device_upload(t->device, (char *)low, span, bytes);
    mlsi_mem_free(&t->object.ctx->alloc, span);
    return st;
}

/* Of one device, gapless, and apart: nothing needs the host. */
static bool copies_directly(const mlsi_tensor *dst, const mlsi_tensor *src) {
    const mlsi_view to = mlsi_tensor_view_of(dst), from = mlsi_tensor_view_of(src);
    const uint64_t bytes = mlsi_layout_bytes(&src->layout);
    uintptr_t a = (uintptr_t)to.data, b = (uintptr_t)from.data;
    return dst->device == src->device && mlsi_layout_contiguous(&dst->layout) &&
           mlsi_layout_contiguous(&src->layout) && (a < b ? b - a : a - b) >= bytes;
}

static mlsys_status copy_on_device(mlsi_device *d, char *to, const char *from, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    pthread_mutex_lock(&d->lock);
    mlsys_status st = d->accel->copy(d->transfers, to, from, bytes);
    if (st == MLSYS_OK) st = d->accel->sync(d->transfers);
    pthread_mutex_unlock(&d->lock);
    return st;
}

mlsys_status mlsi_tensor_transfer(mlsi_tensor *dst, const mlsi_tensor *src) {
    mlsi_alloc *a = &dst->object.ctx->alloc;
    mlsi_view to = mlsi_tensor_view_of(dst), from = mlsi_tensor_view_of(src);
    void *host;
    if (mlsi_is_host(dst->device) && mlsi_is_host(src->device))
        return mlsi_copy_overlapping(a, &to, &from);
    if (copies_directly(dst, src))
        return copy_on_device(dst->device, to.data, from.data, mlsi_layout_bytes(&src->layout));
    if (mlsi_is_host(dst->device) && mlsi_layout_contiguous(&dst->layout))
        return mlsi_tensor_download(src, to.data);
    if (mlsi_is_host(src->device) && mlsi_layout_contiguous(&src->layout))
        return mlsi_tensor_upload(dst, from.data);
    MLSI_TRY(mlsi_mem_alloc(a, mlsi_layout_bytes(&src->layout), &host));
    mlsys_status st = mlsi_tensor_download(src, host);
    if (st == MLSYS_OK) st = mlsi_tensor_upload(dst, host);
    mlsi_mem_free(a, host);
    return st;
}
