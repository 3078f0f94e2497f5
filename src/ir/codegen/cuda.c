/* No generated CUDA C yet. */
#include "ir/codegen/codegen.h"

mlsys_status mlsi_codegen_cuda(mlsi_nest *n, const char *name, mlsi_text *out,
                               mlsi_gpu_code *code) {
    (void)name, (void)out, (void)code;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "codegen: no CUDA C for %s", n->name);
}

mlsys_status mlsi_codegen_cuda_schedule(mlsi_nest *n) {
    (void)n;
    return MLSYS_OK;
}

mlsys_status mlsi_codegen_cuda_work(const mlsi_nest *n, const mlsi_gpu_code *code,
                                    const int64_t *dims, uint64_t *bytes) {
    (void)n, (void)code, (void)dims;
    *bytes = 0;
    return MLSYS_OK;
}
