/* MLSYS_CUDA_GUARD=1: a pattern before and behind each allocation, looked at when it is released. For finding kernels that
 * write outside their memory; every release waits for the device. */
#include "cuda/device.h"

#include <string.h>

enum { PATTERN = 0xa7 };

static char *behind(const mlsi_cuda_block *b) { return b->address + MLSI_CUDA_GUARD + b->asked; }

static mlsys_status paint(mlsi_accel *d, const char *to) {
    return mlsi_cuda_check(
        d, d->driver->memset_d8((CUdeviceptr)(uintptr_t)to, PATTERN, MLSI_CUDA_GUARD, NULL),
        "cuMemsetD8Async", "");
}

static mlsys_status wait(mlsi_accel *d, CUstream s) {
    return mlsi_cuda_check(d, d->driver->stream_synchronize(s), "cuStreamSynchronize", "");
}

mlsys_status mlsi_cuda_guard_paint(mlsi_accel *d, const mlsi_cuda_block *b) {
    MLSI_TRY(paint(d, b->address));
    MLSI_TRY(paint(d, behind(b)));
    return wait(d, NULL);
}

static mlsys_status check(mlsi_accel *d, const mlsi_cuda_block *b, const char *from,
                          const char *side) {
    unsigned char seen[MLSI_CUDA_GUARD];
    int wrong = 0, first = -1;
    MLSI_TRY(mlsi_cuda_check(
        d, d->driver->memcpy_dtoh(seen, (CUdeviceptr)(uintptr_t)from, sizeof seen, NULL),
        "cuMemcpyDtoHAsync", ""));
    MLSI_TRY(wait(d, NULL));
    for (int i = 0; i < MLSI_CUDA_GUARD; i++) {
        if (seen[i] == PATTERN) continue;
        if (first < 0) first = i;
        wrong++;
    }
    if (!wrong) return MLSYS_OK;
    mlsys_status st = mlsi_fail(
        MLSYS_E_DEVICE,
        "CUDA device %d: %d bytes were written %s allocation %llu (of %llu bytes), the first %d "
        "bytes away from it",
        d->index, wrong, side, (unsigned long long)b->number, (unsigned long long)b->asked,
        from == b->address ? MLSI_CUDA_GUARD - first : first);
    return mlsi_cuda_kill(d, st);
}

mlsys_status mlsi_cuda_guard_check(mlsi_accel *d, const mlsi_cuda_block *b) {
    for (const mlsi_queue *q = d->queues; q; q = q->next)
        if (mlsi_cuda_dirty(q)) MLSI_TRY(wait(d, q->stream));
    MLSI_TRY(check(d, b, b->address, "before"));
    return check(d, b, behind(b), "behind");
}
