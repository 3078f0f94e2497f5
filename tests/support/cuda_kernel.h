/* Generated CUDA C in tests: nests as kernels of one text, run by the shim (tests/cuda_shim). */
#ifndef MLSI_TESTS_CUDA_KERNEL_H
#define MLSI_TESTS_CUDA_KERNEL_H

#include "cuda_shim/cuda_shim.h"
#include "ir/codegen/codegen.h"
#include "support/kernel_case.h"

typedef struct cuda_kernel {
    mlsi_gpu_code code;
    void *launches, *parts[MLSI_GPU_PARTS]; /* of the shim's module */
} cuda_kernel;

/* By its name; false: the module lacks one of its kernels. */
bool cuda_kernel_find(cuda_shim_module *m, const char *name, cuda_kernel *k);
/* Runs a kernel on dense views, inputs then outputs, with the given number of blocks; ARG where a BIND failed. */
mlsys_status cuda_kernel_run(cuda_shim_module *m, const cuda_kernel *k, const mlsi_nest *n,
                             const int64_t *dims, const mlsi_view *params, uint32_t blocks,
                             cuda_shim_order order);
/* The vocabulary and the kernels' text as one string; free it. */
char *cuda_kernel_source(const char *kernels);
/* By NVRTC for sm_90, with the options of the run-time. 1: compiled without a word; 0: log says why not; -1: no NVRTC here. */
int cuda_kernel_nvrtc(const char *source, char *log, size_t size);

#endif
