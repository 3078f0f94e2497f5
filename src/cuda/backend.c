/* The CUDA backend: kernels that the library generates; hand-written rows come beside them. */
#include "core/backend.h"

static const mlsi_kernel *find(const mlsi_query *q, mlsi_isa isa) {
    (void)q, (void)isa;
    return NULL;
}

static const mlsi_kernel *row(int i) {
    (void)i;
    return NULL;
}

const mlsi_backend mlsi_cuda_backend = {
    .name = "cuda", .type = MLSYS_CUDA, .accel = &mlsi_cuda_accelerator, .find = find, .row = row};
