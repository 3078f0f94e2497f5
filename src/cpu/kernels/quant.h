/* Block formats on the CPU: dequantised runs, and products with packed panels (core/quant_panel.h). */
#ifndef MLSI_KERNELS_QUANT_H
#define MLSI_KERNELS_QUANT_H

#include "core/quant_panel.h"
#include "cpu/kernels/gemm.h"

/* Dequantise elements [k0, k0 + n) of a row that starts at block 0; k0 and n are multiples of
 * 32. */
void MLSI_K(quant_dequantize)(mlsys_dtype t, const uint8_t *row, int64_t k0, int64_t n, float *dst);

/* Rows of x times packed panels in registers, the `rows` of a source; absent from the portable
 * build (it expands and multiplies tiles: emulated vectors gain nothing here). */
#if defined(MLSI_ISA_IS_PORTABLE)
#define QUANT_ROWS_FN(name) NULL
#else
#define QUANT_ROWS_FN(name) MLSI_K(quant_rows_##name)
#define QUANT_FORMATS(X)                                                                           \
    X(q4_0, MLSYS_Q4_0)                                                                            \
    X(q4_1, MLSYS_Q4_1)                                                                            \
    X(q5_0, MLSYS_Q5_0)                                                                            \
    X(q5_1, MLSYS_Q5_1)                                                                            \
    X(q8_0, MLSYS_Q8_0) X(q4_k, MLSYS_Q4_K) X(q5_k, MLSYS_Q5_K) X(q6_k, MLSYS_Q6_K)
#define QUANT_ROWS_ARGS                                                                            \
    const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr, const float *a,         \
        int64_t lda, float *out, int64_t ldo
#define QUANT_ROWS_DECLARE(name, T) void MLSI_K(quant_rows_##name)(QUANT_ROWS_ARGS);
QUANT_FORMATS(QUANT_ROWS_DECLARE)
#endif

/* The product that a quant_matmul asks for, and whether operands are of the dtypes that rows
 * take. */
void MLSI_K(quant_problem)(gemm *g, const mlsi_kernel_args *args);
bool MLSI_K(quant_operands)(const mlsi_query *q);

/* Sources: packed panels of a dtype, and rows as the file has them (g->b, n strided). */
const gemm_source *MLSI_K(quant_packed_source)(mlsys_dtype t);
extern const gemm_source MLSI_K(quant_strided);

#endif
