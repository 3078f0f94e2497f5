/* A CUDA driver on host memory, as a shared library of its own: what the library finds by MLSYS_CUDA_DRIVER in tests. It is
 * strict where the driver is: no call without a current context, copies inside live memory only, no waiting in a capture.
 * Knobs and counts are one exported struct. With FAKE_CUDA_RUN=1 kernels run as well: their text is compiled by the host's C++
 * compiler (tests/cuda_shim). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda/driver.h"

#include <stdbool.h>

/* What a kernel does; params: addresses of 8-byte parameters. */
typedef struct fake_kernel {
    const char *name;
    int n_params;
    void (*run)(void **params, unsigned blocks, unsigned threads, unsigned shared_bytes);
} fake_kernel;

typedef struct fake_cuda {
    /* knobs */
    int devices;
    uint64_t memory;     /* of the device */
    CUresult init;       /* what cuInit answers */
    bool deferred;       /* work runs when somebody waits for it */
    const char *fail_in; /* the function that fails, NULL: any */
    int64_t fail_at;     /* its call that fails, from 1; 0: none */
    CUresult fail_with;
    int64_t
        poison; /* the launch that turns out to be an illegal access when it runs, from 1; 0: none */
    const fake_kernel *kernels;
    int n_kernels;
    int nvrtc_newest; /* the newest architecture that the compiler knows */
    /* counts */
    int64_t calls; /* that count for fail_at */
    int64_t launches, frees, attribute_sets, compiles, syncs;
    int64_t allocations, host_allocations, streams, events, modules, graphs, execs, contexts;
    uint64_t bytes;
    const char *failed_in; /* the function that failed by fail_at */
    int64_t left;          /* objects that a healthy context still had when it went */
    int64_t bad_context;   /* calls without the current context */
    int depth;             /* contexts pushed and not popped, by all threads */
} fake_cuda;

#endif
