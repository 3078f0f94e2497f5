/* What the hand-written kernels are given, as structs by value: their C and their CUDA C read this. */
#ifndef MLSI_CUDA_PARAMS_H
#define MLSI_CUDA_PARAMS_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

/* Element types by number: mlsys_dtype of f32, f16, bf16. */
enum { CUDA_F32 = 2, CUDA_F16 = 3, CUDA_BF16 = 4 };

/* A nest of dims, the last one fastest; strides in elements of each operand. */
typedef struct cuda_index {
    int64_t count;
    int32_t dims;
    int64_t extent[8], stride[3][8];
} cuda_index;

/* C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n]; the sum goes on from `addend`, which is laid out as C, or NULL. */
typedef struct cuda_product {
    const char *a, *b, *addend;
    char *c;
    int32_t a_type, b_type, c_type;
    int32_t a_along_k,
        b_along_k; /* neighbouring threads fetch neighbours along k, else along m or n */
    cuda_index batch, m, n, k;
} cuda_product;

/* y[m, n] = x[m, :] . W[n, :], W in panels (core/quant_panel.h). */
typedef struct cuda_quant_product {
    const char *x;
    const uint8_t *panels;
    char *y;
    int32_t x_type, y_type;
    int64_t n, k; /* of W */
    cuda_index m; /* strides of x and y */
    int64_t x_step, y_step;
} cuda_quant_product;

/* Strides in elements; mask_type 0: no mask. len NULL: all Lk keys. lse NULL: not asked for. */
typedef struct cuda_attention {
    const char *q, *k, *v, *mask, *len;
    char *out;
    float *lse;
    int32_t q_type, k_type, v_type, mask_type, out_type, len_is_i64;
    int64_t batch, queries, heads, kv_heads, keys, dim, value_dim;
    int64_t q_stride[4], k_stride[4], v_stride[4], out_stride[4], mask_stride[4], lse_stride[3],
        len_stride;
    int64_t window;
    float scale, cap;
    int32_t causal; /* 0 none, 1 top left, 2 bottom right */
    int32_t wide;   /* rows of keys are read four elements at a time */
    int64_t *error;
} cuda_attention;

/* Copies the window at `starts` of y from `update`; rank dims, strides in elements of `size` bytes. */
typedef struct cuda_window {
    char *y;
    const char *update;
    const int64_t *starts;
    int64_t starts_stride, count;
    int32_t rank, size;
    int64_t shape[8], extent[8], y_stride[8], update_stride[8]; /* extent: of the window */
    int64_t *error;
} cuda_window;

/* Rows are (batch, token, head); strides in elements. */
typedef struct cuda_rope {
    const char *x;
    char *y;
    const void *positions;
    const float *freqs;
    int32_t type, positions_are_i64, halves;
    int64_t rows, length, heads, width, pairs, freqs_step;
    int64_t x_stride[4], y_stride[4], position_stride[2];
} cuda_rope;

#endif
