/* No runtime for CUDA devices yet: none is counted. */
#include "core/accelerator.h"

static mlsys_status count(int32_t *out) {
    *out = 0;
    return mlsi_fail(MLSYS_E_DEVICE, "CUDA: this build has no runtime for its devices");
}

const mlsi_accelerator mlsi_cuda_accelerator = {.count = count};
