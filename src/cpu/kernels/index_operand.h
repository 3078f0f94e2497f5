/* Index operands: values checked against [-n, n) and gathered into one array of non-negative i64.
 */
#ifndef MLSI_KERNELS_INDEX_OPERAND_H
#define MLSI_KERNELS_INDEX_OPERAND_H

#include "cpu/kernels/stage.h"
#include "core/faults.h"

/* Element offset of the linear row-major index i within dims [first, first + count) of v. */
static inline int64_t dims_offset(const mlsi_view *v, int first, int count, int64_t i) {
    int64_t offset = 0;
    for (int d = first + count - 1; d >= first; d--) {
        offset += i % v->shape[d] * v->strides[d];
        i /= v->shape[d];
    }
    return offset;
}

/* to[j] = ids[j], negative ones counted from the end, all of them in row-major order. */
static inline mlsys_status load_indices(const char *op, const mlsi_view *ids, int64_t n,
                                        int64_t *to) {
    int64_t count = mlsi_view_count(ids);
    int size = mlsi_dtype_size(ids->dtype);
    for (int64_t j = 0; j < count; j++) {
        const char *at = (const char *)ids->data + dims_offset(ids, 0, ids->rank, j) * size;
        load_i64(&to[j], at, ids->dtype, size, 1);
        if (to[j] < -n || to[j] >= n + mlsi_fault(MLSI_FAULT_CPU_INDEX_END))
            return mlsi_fail(MLSYS_E_ARG,
                             "%s: indices: index %lld at position %lld outside [%lld,%lld)", op,
                             (long long)to[j], (long long)j, (long long)-n, (long long)n);
        if (to[j] < 0) to[j] += n;
    }
    return MLSYS_OK;
}

static inline bool is_index_dtype(mlsys_dtype t) { return t == MLSYS_I32 || t == MLSYS_I64; }

#endif
