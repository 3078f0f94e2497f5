/* Loaded code: one or more images of the driver, and the kernels that were asked for by name. */
#ifndef MLSI_CUDA_MODULE_H
#define MLSI_CUDA_MODULE_H

#include "core/accelerator.h"
#include "cuda/driver.h"

struct mlsi_accel_kernel {
    mlsi_accel_module *module;
    mlsi_accel_kernel *next;
    CUfunction function;
    _Atomic uint32_t shared_most; /* dynamic shared memory that it may have so far */
    char name[];
};

struct mlsi_accel_module {
    mlsi_accel *device;
    mlsi_alloc *alloc;
    mlsi_accel_kernel *kernels;
    int64_t n;
    CUmodule modules[];
};

/* What the driver loads: machine code, or PTX that ends in a NUL. */
typedef struct mlsi_cuda_image {
    void *data;
    uint64_t bytes;
} mlsi_cuda_image;

mlsys_status mlsi_cuda_module_load(mlsi_accel *d, mlsi_alloc *a, const mlsi_cuda_image *images,
                                   int64_t n, mlsi_accel_module **out);
void mlsi_cuda_unload(mlsi_alloc *a, mlsi_accel_module *m);
mlsi_accel_kernel *mlsi_cuda_kernel(mlsi_accel_module *m, const char *name);
uint32_t mlsi_cuda_resident(mlsi_accel_kernel *k, uint32_t threads, uint32_t shared_bytes);
mlsys_status mlsi_cuda_launch(mlsi_queue *q, const mlsi_launch *l);

#endif
