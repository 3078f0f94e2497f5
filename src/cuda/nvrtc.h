/* NVIDIA's compiler of CUDA C, found when the library runs: what MLSYS_NVRTC names, else libnvrtc.so.13 or .12 where the loader or
 * /usr/local/cuda/lib64 has it. Declared as nvrtc.h of CUDA 12 and 13 has it. */
#ifndef MLSI_CUDA_NVRTC_H
#define MLSI_CUDA_NVRTC_H

#include "core/alloc.h"
#include "cuda/module.h"

typedef struct nvrtc_program *nvrtcProgram;

enum { MLSI_NVRTC_ARCHS = 64, MLSI_NVRTC_TARGET = 48 };

/* member, exported symbol, parameters */
#define MLSI_NVRTC_FUNCTIONS(F)                                                                    \
    F(version, nvrtcVersion, (int *major, int *minor))                                             \
    F(n_archs, nvrtcGetNumSupportedArchs, (int *))                                                 \
    F(archs, nvrtcGetSupportedArchs, (int *))                                                      \
    F(create, nvrtcCreateProgram,                                                                  \
      (nvrtcProgram *, const char *text, const char *name, int n, const char *const *headers,      \
       const char *const *names))                                                                  \
    F(destroy, nvrtcDestroyProgram, (nvrtcProgram *))                                              \
    F(compile, nvrtcCompileProgram, (nvrtcProgram, int n, const char *const *options))             \
    F(log_size, nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                  \
    F(log, nvrtcGetProgramLog, (nvrtcProgram, char *))                                             \
    F(cubin_size, nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                     \
    F(cubin, nvrtcGetCUBIN, (nvrtcProgram, char *))                                                \
    F(ptx_size, nvrtcGetPTXSize, (nvrtcProgram, size_t *))                                         \
    F(ptx, nvrtcGetPTX, (nvrtcProgram, char *))

typedef struct mlsi_nvrtc {
#define MLSI_NVRTC_MEMBER(member, symbol, parameters) int(*member) parameters;
    MLSI_NVRTC_FUNCTIONS(MLSI_NVRTC_MEMBER)
#undef MLSI_NVRTC_MEMBER
    int major, minor;
    int n_known, known[MLSI_NVRTC_ARCHS]; /* architectures: 90 is sm_90 */
} mlsi_nvrtc;

/* The process's compiler; it stays for good. UNSUPPORTED says why there is none; the next call tries again. */
mlsys_status mlsi_nvrtc_get(const mlsi_nvrtc **out);

/* What to compile for, "sm_90a", and whether that is PTX ("compute_..."): for a device that is newer than the compiler. */
mlsys_status mlsi_nvrtc_target(const mlsi_nvrtc *n, int arch, char target[MLSI_NVRTC_TARGET],
                               bool *ptx);
/* The options that decide results, ended by NULL; the target is apart. */
const char *const *mlsi_nvrtc_options(void);
/* IO with the first error line when the text is refused; *log (may be NULL) gets all words. Any thread. */
mlsys_status mlsi_nvrtc_compile(const mlsi_nvrtc *n, mlsi_alloc *a, const char *text,
                                const char *target, bool ptx, mlsi_cuda_image *out, mlsi_text *log);

#endif
