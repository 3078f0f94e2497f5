/* Every source in cpu/kernels/ includes this first. It is compiled once per instruction set, so
 * each file-scope name with external linkage goes through MLSI_K, and all else is static.
 *
 *     MLSI_KERNEL_TABLE(softmax) = {
 *         {.op = MLSI_OP_SOFTMAX, .isa = MLSI_K_ISA, .name = MLSI_K_NAME("softmax_rows"), ...},
 *         {.run = NULL},
 *     };
 *
 * plus one line in cpu/kernel_files.h puts the rows into the CPU backend's table. */
#ifndef MLSI_KERNEL_H
#define MLSI_KERNEL_H

#include "core/backend.h"
#include "cpu/simd.h"

#if defined(MLSI_ISA_IS_AVX512)
#define MLSI_K(name)      name##_avx512
#define MLSI_K_NAME(text) text "_avx512"
#define MLSI_K_ISA        MLSI_ISA_AVX512
#elif defined(MLSI_ISA_IS_AVX2)
#define MLSI_K(name)      name##_avx2
#define MLSI_K_NAME(text) text "_avx2"
#define MLSI_K_ISA        MLSI_ISA_AVX2
#else
#define MLSI_K(name)      name##_portable
#define MLSI_K_NAME(text) text "_portable"
#define MLSI_K_ISA        MLSI_ISA_PORTABLE
#endif

/* A table is ended by a row without a run function. */
#define MLSI_KERNEL_TABLE(file)                                                                    \
    extern const mlsi_kernel MLSI_K(mlsi_kernels_##file)[];                                        \
    const mlsi_kernel MLSI_K(mlsi_kernels_##file)[]

#endif
