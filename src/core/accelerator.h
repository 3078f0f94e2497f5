/* The part of a backend that a device with memory of its own has: memory, queues, loaded code, launches.
 *
 *  - `mlsi_accel` is an open device. Calls may come from any thread; a queue belongs to one thread at a time. After a fork the
 *    child may only close.
 *  - A queue runs what it is given in order. `launch`, `copy` and `fill` may return before the work is done; `upload` when `from`
 *    may change; `download` and `sync` when everything queued before is done.
 *  - Errors: DEVICE with the driver's words and the call's name. A device that failed (an illegal address, a lost device) gives
 *    the same failure at every later call: nothing else is tried on it. NOMEM names what was asked, what is free and the
 *    largest hole. Nothing is printed, nothing aborts.
 *  - Addresses are char * of the device's address space: never followed on the host, never compared with host addresses. */
#ifndef MLSI_ACCELERATOR_H
#define MLSI_ACCELERATOR_H

#include "core/alloc.h"

typedef struct mlsi_accel mlsi_accel;               /* an open device */
typedef struct mlsi_queue mlsi_queue;               /* work in order */
typedef struct mlsi_accel_module mlsi_accel_module; /* loaded code */
typedef struct mlsi_accel_kernel
    mlsi_accel_kernel; /* one function of it; lives as long as the module */

enum { MLSI_ACCEL_ALIGN = 256 }; /* of each allocation */

typedef struct mlsi_accel_memory {
    uint64_t used, cached; /* bytes handed out, bytes kept for reuse */
    uint64_t most;         /* greatest `used` since the device was opened */
    uint64_t device_free, device_total;
    uint64_t allocations; /* calls of the driver's allocator */
} mlsi_accel_memory;

/* One launch. `params`: addresses of the kernel's parameters, in order, as many as it has. */
typedef struct mlsi_launch {
    mlsi_accel_kernel *kernel;
    uint32_t blocks, threads; /* one axis each, both >= 1 */
    uint32_t shared_bytes;    /* dynamic */
    void **params;
    const char *what; /* the op, for errors */
} mlsi_launch;

typedef struct mlsi_accelerator {
    /* How many there are; DEVICE: none can be, and why. */
    mlsys_status (*count)(int32_t *out);
    /* limit: most bytes of memory to hold, 0 = the device's. */
    mlsys_status (*open)(mlsi_alloc *a, int32_t index, uint64_t limit, mlsi_accel **out);
    void (*close)(mlsi_accel *d);
    /* {"type":"cuda","index":0,"name":...,"capability":"9.0","multiprocessors":132,"memory":bytes} */
    void (*describe)(const mlsi_accel *d, mlsi_text *out);

    mlsys_status (*allocate)(mlsi_accel *d, uint64_t bytes,
                             char **out); /* bytes 0: an address all the same */
    /* Work that is queued may still use it: memory is handed out again only behind that. */
    void (*release)(mlsi_accel *d, char *p);
    void (*memory)(mlsi_accel *d, mlsi_accel_memory *out);
    mlsys_status (*trim)(mlsi_accel *d); /* gives kept memory back to the driver */

    mlsys_status (*queue_create)(mlsi_accel *d, mlsi_queue **out);
    void (*queue_destroy)(mlsi_queue *q); /* waits */
    mlsys_status (*sync)(mlsi_queue *q);
    mlsys_status (*upload)(mlsi_queue *q, char *to, const void *from, uint64_t bytes);
    mlsys_status (*download)(mlsi_queue *q, void *to, const char *from, uint64_t bytes);
    mlsys_status (*copy)(mlsi_queue *q, char *to, const char *from, uint64_t bytes); /* apart */
    mlsys_status (*fill)(mlsi_queue *q, char *to, uint8_t byte, uint64_t bytes);

    /* Compiles CUDA C text (ir/codegen; the vocabulary is put before it), or finds it in the cache, and loads it. UNSUPPORTED: no
     * compiler library; IO: it fails, with its first error line. */
    mlsys_status (*load)(mlsi_accel *d, mlsi_alloc *a, const char *text, mlsi_accel_module **out);
    mlsi_accel_kernel *(*kernel)(mlsi_accel_module *m, const char *name); /* NULL: it has none */
    void (*unload)(mlsi_alloc *a, mlsi_accel_module *m);
    /* Blocks of so many threads with so much shared memory that run at once on the whole device; >= 1. */
    uint32_t (*resident)(mlsi_accel_kernel *k, uint32_t threads, uint32_t shared_bytes);
    mlsys_status (*launch)(mlsi_queue *q, const mlsi_launch *l);

    /* Graph replay. Between begin and end a queue records launches, copies and fills instead of running them; *out is to be
     * replayed with the same addresses. */
    mlsys_status (*record_begin)(mlsi_queue *q);
    mlsys_status (*record_end)(mlsi_queue *q,
                               void **out); /* also after a failure, which forgets it */
    mlsys_status (*replay)(mlsi_queue *q, void *recorded);
    void (*record_free)(mlsi_accel *d, void *recorded);
} mlsi_accelerator;

/* The table of src/cuda. */
extern const mlsi_accelerator mlsi_cuda_accelerator;

#endif
