/* The indices of a product
 *
 *     C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n]     (docs/numerics.md)
 *
 * Each of batch, m, n, k is a nest of dims with one stride per operand, so that transposed, sliced and broadcast operands,
 * several contracted axes and strided outputs are all the same case. */
#ifndef MLSI_PRODUCT_H
#define MLSI_PRODUCT_H

#include "core/layout.h"
#include "core/op_attrs.h"

enum { MLSI_K_SEGMENT = 256 }; /* of the order along K: fixed by docs/numerics.md */

typedef enum mlsi_product_operand {
    MLSI_PRODUCT_A,
    MLSI_PRODUCT_B,
    MLSI_PRODUCT_C,
    MLSI_PRODUCT_OPERANDS
} mlsi_product_operand;

/* Starts as {.count = 1}; dims of extent 1 are left out. Strides are in elements. */
typedef struct mlsi_index {
    int dims;
    int64_t count;
    int64_t extent[MLSYS_MAX_DIMS];
    int64_t stride[MLSI_PRODUCT_OPERANDS][MLSYS_MAX_DIMS];
} mlsi_index;

void mlsi_index_add(mlsi_index *x, int64_t extent, int64_t sa, int64_t sb, int64_t sc);
/* Merge dims that all operands walk as one. */
void mlsi_index_merge(mlsi_index *x);
int64_t mlsi_index_offset(const mlsi_index *x, mlsi_product_operand o, int64_t i);
/* Offsets of n elements from element first. */
void mlsi_index_offsets(const mlsi_index *x, mlsi_product_operand o, int64_t first, int64_t n,
                        int64_t *offsets);
/* One stride for the whole index (any value when count <= 1)? */
static inline bool mlsi_index_linear(const mlsi_index *x) { return x->dims <= 1; }
static inline int64_t mlsi_index_stride(const mlsi_index *x, mlsi_product_operand o) {
    return x->dims ? x->stride[o][x->dims - 1] : 1;
}

typedef struct mlsi_product {
    mlsi_index batch, m, n, k;
} mlsi_product;

/* The product that a dot_general asks for: output dims are batch, lhs free, rhs free. a and c may be NULL when only B is of
 * interest. ordinals: batch strides of B count matrices. */
void mlsi_product_of_dot(mlsi_product *p, const mlsi_view *a, const mlsi_view *b,
                         const mlsi_view *c, const mlsi_attr_dot *at, bool ordinals);
void mlsi_product_merge(mlsi_product *p);

#endif
