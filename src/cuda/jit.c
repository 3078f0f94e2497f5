#include "cuda/jit.h"

mlsys_status mlsi_cuda_load(mlsi_accel *d, mlsi_alloc *a, const char *text,
                            mlsi_accel_module **out) {
    (void)d, (void)a, (void)text;
    *out = NULL;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA: no compiler library");
}
