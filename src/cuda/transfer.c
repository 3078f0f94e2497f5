/* Transfers through two pieces of pinned memory per queue: while the device reads or writes one, the host does the other. */
#include "cuda/device.h"

#include "core/faults.h"
#include <string.h>

static mlsys_status make_stages(mlsi_queue *q) {
    mlsi_accel *d = q->device;
    for (int i = 0; i < 2; i++) {
        if (!q->stage[i].host) {
            void *p = NULL;
            CUresult r = d->driver->mem_host_alloc(&p, MLSI_STAGE_BYTES, 0);
            MLSI_TRY(mlsi_cuda_check(d, r, "cuMemHostAlloc", ""));
            q->stage[i].host = p;
        }
        if (!q->stage[i].event) {
            CUevent e = NULL;
            CUresult r = d->driver->event_create(&e, CU_EVENT_DISABLE_TIMING);
            MLSI_TRY(mlsi_cuda_check(d, r, "cuEventCreate", ""));
            q->stage[i].event = e;
        }
    }
    return MLSYS_OK;
}

void mlsi_cuda_stage_free(mlsi_queue *q) {
    for (int i = 0; i < 2; i++) {
        if (q->stage[i].event) (void)q->device->driver->event_destroy(q->stage[i].event);
        if (q->stage[i].host) (void)q->device->driver->mem_free_host(q->stage[i].host);
    }
}

static mlsys_status wait_for_stage(mlsi_queue *q, int i) {
    if (!q->stage[i].busy || mlsi_fault(MLSI_FAULT_CUDA_STAGE)) return MLSYS_OK;
    CUresult r = q->device->driver->event_synchronize(q->stage[i].event);
    MLSI_TRY(mlsi_cuda_issued(q, r, "cuEventSynchronize", NULL));
    q->stage[i].busy = false;
    return MLSYS_OK;
}

static mlsys_status mark_stage(mlsi_queue *q, int i) {
    CUresult r = q->device->driver->event_record(q->stage[i].event, q->stream);
    q->stage[i].busy = true;
    return mlsi_cuda_issued(q, r, "cuEventRecord", NULL);
}

static uint64_t piece(uint64_t at, uint64_t bytes) {
    return bytes - at < MLSI_STAGE_BYTES ? bytes - at : MLSI_STAGE_BYTES;
}

static mlsys_status upload(mlsi_queue *q, char *to, const char *from, uint64_t bytes) {
    MLSI_TRY(mlsi_cuda_not_recording(q, "an upload"));
    MLSI_TRY(make_stages(q));
    for (uint64_t at = 0; at < bytes; at += MLSI_STAGE_BYTES) {
        int i = q->turn;
        uint64_t n = piece(at, bytes);
        q->turn ^= 1;
        MLSI_TRY(wait_for_stage(q, i));
        memcpy(q->stage[i].host, from + at, n);
        CUresult r = q->device->driver->memcpy_htod((CUdeviceptr)(uintptr_t)to + at,
                                                    q->stage[i].host, n, q->stream);
        MLSI_TRY(mlsi_cuda_issued(q, r, "cuMemcpyHtoDAsync", NULL));
        MLSI_TRY(mark_stage(q, i));
    }
    return MLSYS_OK;
}

/* The next piece is under way while one is copied out. An earlier upload's reading of a stage comes before, in the queue. */
static mlsys_status start_piece(mlsi_queue *q, int i, const char *from, uint64_t n) {
    CUresult r = q->device->driver->memcpy_dtoh(q->stage[i].host, (CUdeviceptr)(uintptr_t)from, n,
                                                q->stream);
    MLSI_TRY(mlsi_cuda_issued(q, r, "cuMemcpyDtoHAsync", NULL));
    return mark_stage(q, i);
}

static mlsys_status download(mlsi_queue *q, char *to, const char *from, uint64_t bytes) {
    MLSI_TRY(mlsi_cuda_not_recording(q, "a download"));
    MLSI_TRY(make_stages(q));
    if (bytes) MLSI_TRY(start_piece(q, q->turn, from, piece(0, bytes)));
    for (uint64_t at = 0; at < bytes; at += MLSI_STAGE_BYTES) {
        int i = q->turn;
        uint64_t next = at + MLSI_STAGE_BYTES;
        q->turn ^= 1;
        if (next < bytes) MLSI_TRY(start_piece(q, q->turn, from + next, piece(next, bytes)));
        MLSI_TRY(wait_for_stage(q, i));
        memcpy(to + at, q->stage[i].host, piece(at, bytes));
    }
    return mlsi_cuda_wait(q);
}

mlsys_status mlsi_cuda_upload(mlsi_queue *q, char *to, const void *from, uint64_t bytes) {
    if (!bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = upload(q, to, from, bytes);
    mlsi_cuda_leave(q->device);
    return st;
}

mlsys_status mlsi_cuda_download(mlsi_queue *q, void *to, const char *from, uint64_t bytes) {
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = download(q, to, from, bytes);
    mlsi_cuda_leave(q->device);
    return st;
}
