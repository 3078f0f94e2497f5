/* CUDA C text to loaded code. */
#ifndef MLSI_CUDA_JIT_H
#define MLSI_CUDA_JIT_H

#include "cuda/module.h"

/* The vocabulary of generated kernels, embedded: what each text stands behind. */
extern const char mlsi_gen_device_text[];

/* Finds each part of the text in the cache or compiles it, and loads all as one module. UNSUPPORTED: no compiler library; IO:
 * it fails, with its first error line. */
mlsys_status mlsi_cuda_load(mlsi_accel *d, mlsi_alloc *a, const char *text,
                            mlsi_accel_module **out);
/* Vocabulary and text to machine code of sm_<arch> (90 is 9.0), or PTX that ends in a NUL where the compiler does not know it
 * yet. Needs no device. log, if not NULL, gets the compiler's words. */
mlsys_status mlsi_cuda_compile(mlsi_alloc *a, const char *text, int arch, void **cubin,
                               uint64_t *bytes, mlsi_text *log);

#endif
