#include "cuda/device.h"

#include "core/faults.h"
#include <stdio.h>
#include <string.h>

bool mlsi_cuda_dirty(const mlsi_queue *q) {
    return !q->recording && atomic_load(&q->issued) != atomic_load(&q->synced);
}

/* ", in NAME or one of the 3 launches behind it": an error shows up where it is waited for. */
static void blame(const mlsi_queue *q, const char *what, char *text, size_t size) {
    text[0] = 0;
    if (q->launches == 2)
        snprintf(text, size, ", in %s or the launch behind it", q->first);
    else if (q->launches > 2)
        snprintf(text, size, ", in %s or one of the %lld launches behind it", q->first,
                 (long long)q->launches - 1);
    else if (q->launches)
        snprintf(text, size, ", in %s", q->first);
    else if (what)
        snprintf(text, size, ", in %.63s", what);
}

static void remember_failure(mlsi_queue *q, mlsys_status st) {
    if (!q->recording || st == MLSYS_OK || q->record_status != MLSYS_OK) return;
    q->record_status = st;
    snprintf(q->record_failure, sizeof q->record_failure, "%s", mlsys_last_error());
}

mlsys_status mlsi_cuda_issued(mlsi_queue *q, CUresult r, const char *call, const char *what) {
    char text[128];
    if (r == CUDA_SUCCESS) {
        /* Behind the driver's call: an event that is recorded now lies behind the work that it counts. */
        if (!q->recording && !mlsi_fault(MLSI_FAULT_CUDA_ISSUED)) atomic_fetch_add(&q->issued, 1);
        return MLSYS_OK;
    }
    blame(q, what, text, sizeof text);
    mlsys_status st = mlsi_cuda_check(q->device, r, call, text);
    remember_failure(q, st);
    return st;
}

mlsys_status mlsi_cuda_not_recording(const mlsi_queue *q, const char *what) {
    if (!q->recording) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA device %d: a recording cannot hold %s",
                     q->device->index, what);
}

mlsys_status mlsi_cuda_wait(mlsi_queue *q) {
    char text[128];
    uint64_t issued = atomic_load(&q->issued);
    CUresult r = q->device->driver->stream_synchronize(q->stream);
    blame(q, NULL, text, sizeof text);
    MLSI_TRY(mlsi_cuda_check(q->device, r, "cuStreamSynchronize", text));
    atomic_store(&q->synced, issued);
    q->launches = 0;
    q->stage[0].busy = q->stage[1].busy = false;
    return MLSYS_OK;
}

/* ---- create, destroy --------------------------------------------------------------------------------- */

mlsys_status mlsi_cuda_queue_create(mlsi_accel *d, mlsi_queue **out) {
    mlsi_queue *q;
    *out = NULL;
    MLSI_TRY(mlsi_cuda_enter(d));
    mlsys_status st = MLSI_NEW(d->alloc, &q);
    if (st == MLSYS_OK) {
        q->device = d;
        st = mlsi_cuda_check(d, d->driver->stream_create(&q->stream, CU_STREAM_NON_BLOCKING),
                             "cuStreamCreate", "");
        if (st != MLSYS_OK) mlsi_mem_free(d->alloc, q);
    }
    mlsi_cuda_leave(d);
    if (st != MLSYS_OK) return st;
    pthread_mutex_lock(&d->lock);
    q->next = d->queues;
    d->queues = q;
    pthread_mutex_unlock(&d->lock);
    return *out = q, MLSYS_OK;
}

static void unlink_queue(mlsi_accel *d, const mlsi_queue *q) {
    pthread_mutex_lock(&d->lock);
    for (mlsi_queue **link = &d->queues; *link; link = &(*link)->next)
        if (*link == q) {
            *link = q->next;
            break;
        }
    d->issued_before += atomic_load(&q->issued);
    pthread_mutex_unlock(&d->lock);
}

void mlsi_cuda_queue_destroy(mlsi_queue *q) {
    if (!q) return;
    mlsi_accel *d = q->device;
    void *recorded = NULL;
    if (!mlsi_cuda_is_child(d)) {
        if (q->recording && mlsi_cuda_record_end(q, &recorded) == MLSYS_OK)
            mlsi_cuda_record_free(d, recorded);
        bool entered = mlsi_cuda_enter_to_free(d);
        if (entered) (void)mlsi_cuda_wait(q);
        unlink_queue(d, q);
        if (entered) {
            if (!mlsi_fault(MLSI_FAULT_CUDA_LEAK)) mlsi_cuda_stage_free(q);
            (void)d->driver->stream_destroy(q->stream);
            mlsi_cuda_leave(d);
        }
    }
    mlsi_mem_free(d->alloc, q);
}

/* ---- work ---------------------------------------------------------------------------------------------- */

mlsys_status mlsi_cuda_sync(mlsi_queue *q) {
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = mlsi_cuda_not_recording(q, "a wait");
    if (st == MLSYS_OK) st = mlsi_cuda_wait(q);
    mlsi_cuda_leave(q->device);
    return st;
}

mlsys_status mlsi_cuda_copy(mlsi_queue *q, char *to, const char *from, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_cuda_enter(q->device));
    CUresult r = q->device->driver->memcpy_dtod((CUdeviceptr)(uintptr_t)to,
                                                (CUdeviceptr)(uintptr_t)from, bytes, q->stream);
    mlsys_status st = mlsi_cuda_issued(q, r, "cuMemcpyDtoDAsync", NULL);
    mlsi_cuda_leave(q->device);
    return st;
}

mlsys_status mlsi_cuda_fill(mlsi_queue *q, char *to, uint8_t byte, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_cuda_enter(q->device));
    CUresult r = q->device->driver->memset_d8((CUdeviceptr)(uintptr_t)to, byte, bytes, q->stream);
    mlsys_status st = mlsi_cuda_issued(q, r, "cuMemsetD8Async", NULL);
    mlsi_cuda_leave(q->device);
    return st;
}
