/* A view of memory as movements of the value that fills it. */
#include "core/faults.h"
#include "ir/ops/op_def.h"
#include "run/tape.h"

#include <string.h>

static mlsys_status reshape(mlsi_graph *g, int32_t func, int32_t value, int32_t rank,
                            const int64_t *shape, int32_t *out) {
    mlsi_attr_shape a;
    memset(&a, 0, sizeof a);
    a.shape.n = rank;
    memcpy(a.shape.v, shape, sizeof *shape * (size_t)rank);
    return mlsi_build_node(g, func, MLSI_OP_RESHAPE, &a, 1, &value, 1, out);
}

/* A dense layout with its axes in another order: `order` lists them from the largest stride to the smallest. */
static bool is_permuted(const mlsi_layout *l, int32_t *order) {
    int64_t stride = 1;
    for (int32_t d = 0; d < l->rank; d++) {
        int32_t at = d;
        for (; at > 0 && l->strides[order[at - 1]] < l->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int32_t k = l->rank - 1; k >= 0; k--) {
        if (l->shape[order[k]] != 1 && l->strides[order[k]] != stride) return false;
        stride *= l->shape[order[k]];
    }
    return true;
}

static mlsys_status transpose(mlsi_graph *g, int32_t func, int32_t value, const mlsi_layout *l,
                              const int32_t *order, int32_t *out) {
    mlsi_attr_transpose a;
    int64_t sorted[MLSYS_MAX_DIMS];
    memset(&a, 0, sizeof a);
    a.perm.n = l->rank;
    for (int32_t k = 0; k < l->rank; k++) {
        sorted[k] = l->shape[order[k]];
        a.perm.v[order[k]] = k;
    }
    MLSI_TRY(reshape(g, func, value, l->rank, sorted, &value));
    return mlsi_build_node(g, func, MLSI_OP_TRANSPOSE, &a, 1, &value, 1, out);
}

/* Element i of the result is number index[i] of the memory. */
static void fill_index(const mlsi_layout *l, int64_t *index) {
    int64_t at[MLSYS_MAX_DIMS] = {0}, n = mlsi_layout_count(l), element = l->offset;
    for (int64_t i = 0; i < n; i++) {
        index[i] = element;
        for (int32_t d = l->rank - 1; d >= 0; d--) {
            element += l->strides[d];
            if (++at[d] < l->shape[d]) break;
            element -= at[d] * l->strides[d];
            at[d] = 0;
        }
    }
}

static mlsys_status gather(mlsi_graph *g, int32_t func, mlsi_device *device, int32_t value,
                           const mlsi_layout *l, int32_t *out) {
    mlsi_layout dense;
    mlsys_tensor handle;
    mlsi_tensor *index;
    int32_t in[2] = {value, -1};
    MLSI_TRY(mlsi_layout_row_major(&dense, MLSYS_I64, l->rank, l->shape));
    MLSI_TRY(mlsi_tensor_new(device, &dense, &handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_TENSOR, "tape: index", &index);
    if (st == MLSYS_OK) {
        fill_index(l, mlsi_tensor_view_of(index).data);
        st = mlsi_build_const(g, func, index, &in[1]);
        mlsi_unpin(index);
    }
    mlsys_release(handle);
    return st == MLSYS_OK ? mlsi_build_node(g, func, MLSI_OP_GATHER, NULL, 2, in, 1, out) : st;
}

mlsys_status mlsi_tape_view(mlsi_graph *g, int32_t func, mlsi_device *device, int32_t value,
                            const mlsi_layout *from, const mlsi_layout *to, int32_t *out) {
    int32_t order[MLSYS_MAX_DIMS];
    int64_t n = mlsi_layout_count(from);
    bool whole = to->offset == 0 && mlsi_layout_count(to) == n;
    if (whole && mlsi_layout_contiguous(to)) {
        bool same = from->rank == to->rank &&
                    !memcmp(from->shape, to->shape, sizeof *to->shape * (size_t)to->rank);
        if (same) return *out = value, MLSYS_OK;
        return reshape(g, func, value, to->rank, to->shape, out);
    }
    if (whole && is_permuted(to, order)) return transpose(g, func, value, to, order, out);
    if (from->rank != 1) MLSI_TRY(reshape(g, func, value, 1, &n, &value));
    return gather(g, func, device, value, to, out);
}
