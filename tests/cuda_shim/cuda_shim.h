/* Runs CUDA C on the host: a text is compiled by the C++ compiler (CXX, or c++) to a library whose kernels run on host memory, the
 * threads of a block as fibers that change at barriers and shuffles. It finds missing barriers: the order of the threads
 * between two barriers is the caller's. Warps, memory and time are not a GPU's. One launch at a time. */
#ifndef CUDA_SHIM_H
#define CUDA_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cuda_shim_module cuda_shim_module;

/* text: the vocabulary of generated code (mlsi_gen_device_text) and kernels. NULL: cuda_shim_error says why. */
cuda_shim_module *cuda_shim_load(const char *text);
void cuda_shim_unload(cuda_shim_module *m);
/* Bytes of each parameter of a kernel, and how many there are; -1: none of this name. */
int cuda_shim_parameters(const cuda_shim_module *m, const char *name, size_t *bytes);
/* NULL: none of this name. */
void *cuda_shim_kernel(const cuda_shim_module *m, const char *name);

typedef enum cuda_shim_order {
    CUDA_SHIM_ASCENDING,
    CUDA_SHIM_DESCENDING,
    CUDA_SHIM_ORDERS
} cuda_shim_order;

typedef struct cuda_shim_launch {
    void *kernel;
    uint32_t blocks, threads, shared_bytes; /* without dynamic shared memory threads do not wait, */
    bool waits;                             /* unless this is said */
    void **params;                          /* pointers to the arguments, in order */
    cuda_shim_order order;
} cuda_shim_launch;
/* False where threads of a block wait at different barriers, or some end while others wait. */
bool cuda_shim_run(cuda_shim_module *m, const cuda_shim_launch *l);
/* Of the last call that failed. */
const char *cuda_shim_error(void);

#endif
