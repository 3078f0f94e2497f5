/* Hand-written kernels. A unit is what is compiled and loaded at once, on a device's first launch of one of its kernels; the
 * .cu beside each table holds its text. */
#ifndef MLSI_CUDA_ROWS_H
#define MLSI_CUDA_ROWS_H

#include "core/backend.h"
#include "core/product.h"
#include "cuda/rows/params.h"

typedef enum mlsi_cuda_unit {
    MLSI_CUDA_WINDOW,
    MLSI_CUDA_PRODUCT,
    MLSI_CUDA_ATTENTION,
    MLSI_CUDA_ROPE,
    MLSI_CUDA_QUANT, /* q4_0, and the other formats in the order of mlsi_cuda_quant_unit */
    MLSI_CUDA_UNITS = MLSI_CUDA_QUANT + 8
} mlsi_cuda_unit;

/* Starts kernel `name` of a unit on the row's queue; params: the one struct that it takes. No blocks: nothing to do. */
mlsys_status mlsi_cuda_row_launch(const mlsi_kernel_args *args, mlsi_cuda_unit unit,
                                  const char *name, int64_t blocks, uint32_t threads,
                                  uint32_t shared_bytes, void *params);
/* Of a device that is closed. */
void mlsi_cuda_rows_free(mlsi_accel *d);

mlsi_cuda_unit mlsi_cuda_quant_unit(mlsys_dtype t);
/* Which float types the kernels take. */
static inline bool mlsi_cuda_takes(mlsys_dtype t) {
    return t == MLSYS_F32 || t == MLSYS_F16 || t == MLSYS_BF16;
}
void mlsi_cuda_index_of(const mlsi_index *x, cuda_index *out);

/* Tables, each ended by a row without run. */
extern const mlsi_kernel mlsi_cuda_window_rows[], mlsi_cuda_product_rows[],
    mlsi_cuda_attention_rows[], mlsi_cuda_quant_rows[], mlsi_cuda_rope_rows[];

/* Texts of the units' kernels. */
extern const char mlsi_cuda_text_window[], mlsi_cuda_text_product[], mlsi_cuda_text_attention[],
    mlsi_cuda_text_rope[], mlsi_cuda_text_quant[];

#endif
