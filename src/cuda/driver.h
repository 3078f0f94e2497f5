/* The CUDA driver, found when the library runs: libcuda.so.1, or what MLSYS_CUDA_DRIVER names. No CUDA header is needed to
 * build; the few types and numbers are declared here, as cuda.h of CUDA 11.4 to 13 has them. */
#ifndef MLSI_CUDA_DRIVER_H
#define MLSI_CUDA_DRIVER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; /* an enum there */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_CONTAINED = 226,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
    CUDA_ERROR_EXTERNAL_DEVICE = 911,
    CUDA_ERROR_UNKNOWN = 999
};

enum { /* attributes and flags */
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
       CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       CU_STREAM_NON_BLOCKING = 1,
       CU_EVENT_DISABLE_TIMING = 2,
       CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

/* member, exported symbol, parameters */
#define MLSI_DRIVER_FUNCTIONS(F)                                                                   \
    F(get_error_name, cuGetErrorName, (CUresult, const char **))                                   \
    F(get_error_string, cuGetErrorString, (CUresult, const char **))                               \
    F(init, cuInit, (unsigned flags))                                                              \
    F(driver_version, cuDriverGetVersion, (int *))                                                 \
    F(device_count, cuDeviceGetCount, (int *))                                                     \
    F(device_get, cuDeviceGet, (CUdevice *, int index))                                            \
    F(device_name, cuDeviceGetName, (char *, int size, CUdevice))                                  \
    F(device_attribute, cuDeviceGetAttribute, (int *, int attribute, CUdevice))                    \
    F(device_total_mem, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                 \
    F(primary_ctx_retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                       \
    F(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                               \
    F(ctx_push, cuCtxPushCurrent_v2, (CUcontext))                                                  \
    F(ctx_pop, cuCtxPopCurrent_v2, (CUcontext *))                                                  \
    F(mem_alloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                           \
    F(mem_free, cuMemFree_v2, (CUdeviceptr))                                                       \
    F(mem_get_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                              \
    F(mem_host_alloc, cuMemHostAlloc, (void **, size_t, unsigned flags))                           \
    F(mem_free_host, cuMemFreeHost, (void *))                                                      \
    F(memcpy_htod, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))            \
    F(memcpy_dtoh, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                  \
    F(memcpy_dtod, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))             \
    F(memset_d8, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                  \
    F(stream_create, cuStreamCreate, (CUstream *, unsigned flags))                                 \
    F(stream_destroy, cuStreamDestroy_v2, (CUstream))                                              \
    F(stream_synchronize, cuStreamSynchronize, (CUstream))                                         \
    F(stream_begin_capture, cuStreamBeginCapture_v2, (CUstream, int mode))                         \
    F(stream_end_capture, cuStreamEndCapture, (CUstream, CUgraph *))                               \
    F(event_create, cuEventCreate, (CUevent *, unsigned flags))                                    \
    F(event_destroy, cuEventDestroy_v2, (CUevent))                                                 \
    F(event_record, cuEventRecord, (CUevent, CUstream))                                            \
    F(event_query, cuEventQuery, (CUevent))                                                        \
    F(event_synchronize, cuEventSynchronize, (CUevent))                                            \
    F(module_load, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **))       \
    F(module_unload, cuModuleUnload, (CUmodule))                                                   \
    F(module_get_function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))            \
    F(func_get_attribute, cuFuncGetAttribute, (int *, int attribute, CUfunction))                  \
    F(func_set_attribute, cuFuncSetAttribute, (CUfunction, int attribute, int value))              \
    F(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t))    \
    F(launch, cuLaunchKernel,                                                                      \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,    \
       CUstream, void **params, void **extra))                                                     \
    F(graph_instantiate, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, uint64_t flags))    \
    F(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))                                        \
    F(graph_exec_destroy, cuGraphExecDestroy, (CUgraphExec))                                       \
    F(graph_destroy, cuGraphDestroy, (CUgraph))

typedef struct mlsi_driver {
#define MLSI_DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    MLSI_DRIVER_FUNCTIONS(MLSI_DRIVER_MEMBER)
#undef MLSI_DRIVER_MEMBER
    int version; /* 13000 is 13.0 */
} mlsi_driver;

/* The process's driver, initialised; it stays for good. DEVICE says why there is none; the next call tries again. */
mlsys_status mlsi_driver_get(const mlsi_driver **out);

/* "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)" */
void mlsi_driver_error(const mlsi_driver *driver, CUresult r, char *text, size_t size);

#endif
