/* The table by which core and run reach CUDA devices. */
#include "cuda/device.h"
#include "cuda/jit.h"
#include "cuda/module.h"

const mlsi_accelerator mlsi_cuda_accelerator = {
    .count = mlsi_cuda_count,
    .open = mlsi_cuda_open,
    .close = mlsi_cuda_close,
    .describe = mlsi_cuda_describe,
    .allocate = mlsi_cuda_allocate,
    .release = mlsi_cuda_release,
    .memory = mlsi_cuda_memory_of,
    .trim = mlsi_cuda_trim,
    .queue_create = mlsi_cuda_queue_create,
    .queue_destroy = mlsi_cuda_queue_destroy,
    .sync = mlsi_cuda_sync,
    .upload = mlsi_cuda_upload,
    .download = mlsi_cuda_download,
    .copy = mlsi_cuda_copy,
    .fill = mlsi_cuda_fill,
    .load = mlsi_cuda_load,
    .kernel = mlsi_cuda_kernel,
    .unload = mlsi_cuda_unload,
    .resident = mlsi_cuda_resident,
    .launch = mlsi_cuda_launch,
    .record_begin = mlsi_cuda_record_begin,
    .record_end = mlsi_cuda_record_end,
    .replay = mlsi_cuda_replay,
    .record_free = mlsi_cuda_record_free,
};
