/* An open CUDA device: its primary context, memory, queues, and the failure that ends it.
 *
 * Every call of the driver stands between mlsi_cuda_enter and mlsi_cuda_leave, so that the host's own current context is the
 * same before and after each call of ours. Locks: `lock` (memory, fences, list of queues, kernels) before `failure_lock`. */
#ifndef MLSI_CUDA_DEVICE_H
#define MLSI_CUDA_DEVICE_H

#include "core/accelerator.h"
#include "cuda/driver.h"
#include "cuda/memory.h"
#include "cuda/rows/rows.h"

#include <pthread.h>

struct mlsi_accel {
    mlsi_alloc *alloc;
    const mlsi_driver *driver;
    CUdevice device;
    CUcontext context;
    int32_t index, pid;
    uint32_t epoch; /* of the process that opened it */
    char name[128];
    int capability, multiprocessors, shared_most; /* 90 is 9.0; bytes of a block at most */
    uint64_t total;

    pthread_mutex_t failure_lock;
    _Atomic bool failed; /* set behind `failure` */
    mlsys_status failure_code;
    char failure[500];

    pthread_mutex_t lock;
    mlsi_queue *queues;
    uint64_t issued_before; /* work of queues that are gone */
    mlsi_cuda_memory memory;

    pthread_mutex_t rows_lock;                /* taken before `lock` */
    mlsi_accel_module *rows[MLSI_CUDA_UNITS]; /* hand-written kernels, as they were needed */
};

/* Work in order. One thread at a time; `issued`, `synced` and `recording` are read by others under the device's lock. */
enum { MLSI_STAGE_BYTES = 4 << 20 };
struct mlsi_queue {
    mlsi_accel *device;
    CUstream stream;
    mlsi_queue *next;
    _Atomic uint64_t issued, synced; /* pieces of work given to the driver, and known to be done */
    bool recording;
    mlsys_status record_status; /* the first failure while recording, and its sentence */
    char record_failure[300];
    int64_t launches; /* since the last sync */
    char first[64];   /* the first of them: an asynchronous error is its, or a later one's */
    struct {          /* pinned memory that transfers go through, made at the first one */
        char *host;
        CUevent event;
        bool busy; /* the driver may still read it */
    } stage[2];
    int turn; /* of the stages */
};

/* Refused in a forked child (STATE), and on a device that failed (its failure). On success the context is current. */
mlsys_status mlsi_cuda_enter(mlsi_accel *d);
void mlsi_cuda_leave(mlsi_accel *d);
/* For giving things back, which is tried on a device that failed too: what it failed of may not have ended the context. */
bool mlsi_cuda_enter_to_free(mlsi_accel *d);
/* A result of the driver as a status. call: its name; op: " in ..." whose work it may be, or "". Failures that end the
 * context are kept: every later enter gives them. */
mlsys_status mlsi_cuda_check(mlsi_accel *d, CUresult r, const char *call, const char *op);
/* The thread's recorded sentence becomes the device's failure. */
mlsys_status mlsi_cuda_kill(mlsi_accel *d, mlsys_status code);
bool mlsi_cuda_is_child(const mlsi_accel *d);

mlsys_status mlsi_cuda_count(int32_t *out);
mlsys_status mlsi_cuda_open(mlsi_alloc *a, int32_t index, uint64_t limit, mlsi_accel **out);
void mlsi_cuda_close(mlsi_accel *d);
void mlsi_cuda_describe(const mlsi_accel *d, mlsi_text *out);

/* queue.c, transfer.c, record.c */
mlsys_status mlsi_cuda_queue_create(mlsi_accel *d, mlsi_queue **out);
void mlsi_cuda_queue_destroy(mlsi_queue *q);
mlsys_status mlsi_cuda_sync(mlsi_queue *q);
mlsys_status mlsi_cuda_copy(mlsi_queue *q, char *to, const char *from, uint64_t bytes);
mlsys_status mlsi_cuda_fill(mlsi_queue *q, char *to, uint8_t byte, uint64_t bytes);
mlsys_status mlsi_cuda_upload(mlsi_queue *q, char *to, const void *from, uint64_t bytes);
mlsys_status mlsi_cuda_download(mlsi_queue *q, void *to, const char *from, uint64_t bytes);
mlsys_status mlsi_cuda_record_begin(mlsi_queue *q);
mlsys_status mlsi_cuda_record_end(mlsi_queue *q, void **out);
mlsys_status mlsi_cuda_replay(mlsi_queue *q, void *recorded);
void mlsi_cuda_record_free(mlsi_accel *d, void *recorded);
/* Inside enter: waits for the queue's work. */
mlsys_status mlsi_cuda_wait(mlsi_queue *q);
/* A result of a call that gave the queue work. */
mlsys_status mlsi_cuda_issued(mlsi_queue *q, CUresult r, const char *call, const char *what);
/* Refuses what a recording cannot hold. */
mlsys_status mlsi_cuda_not_recording(const mlsi_queue *q, const char *what);
void mlsi_cuda_stage_free(mlsi_queue *q);
/* Work whose end is not known? Under the device's lock. */
bool mlsi_cuda_dirty(const mlsi_queue *q);

#endif
