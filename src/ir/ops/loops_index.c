/* Elements of the ops that read at positions from data. Indices are checked where an element is read: of an empty result
 * none is. */
#include "ir/ops/loops.h"

#include "core/dtype.h"

#include <string.h>

/* Row-major number of an index of operand i. */
static int64_t position(mlsi_lower *l, int i, const int64_t *index) {
    const mlsi_type *t = mlsi_lower_in(l, i);
    int64_t p = 0;
    for (int d = 0; d < t->rank; d++)
        p = mlsi_nest_index(l->n, '+', mlsi_nest_index(l->n, '*', p, t->dims[d]), index[d]);
    return p;
}

/* The index of x, whose axis is replaced by those of the indices: index is one of the result. */
static void indexed(mlsi_lower *l, int64_t axis, const char *text, const int64_t *index,
                    int64_t *own) {
    const mlsi_type *x = mlsi_lower_in(l, 0);
    int32_t id = mlsi_lower_operand(l, 1, index + axis);
    int rank = mlsi_lower_in(l, 1)->rank;
    for (int d = 0; d < x->rank; d++)
        own[d] = d < axis ? index[d] : index[d - 1 + rank];
    own[axis] = mlsi_lower_bind(l, id, position(l, 1, index + axis), x->dims[axis], true, text);
}

int32_t mlsi_loops_gather(mlsi_lower *l, int result, const int64_t *index) {
    int64_t own[MLSYS_MAX_DIMS];
    (void)result;
    indexed(l, ((const mlsi_attr_axis *)l->attrs)->axis, "gather: indices: index", index, own);
    return mlsi_lower_operand(l, 0, own);
}

int32_t mlsi_loops_embedding(mlsi_lower *l, int result, const int64_t *index) {
    int64_t own[MLSYS_MAX_DIMS];
    indexed(l, 0, "embedding: indices: index", index, own);
    bool block = mlsi_dtype_is_block(mlsi_lower_in(l, 0)->dtype);
    int32_t x = block ? mlsi_loops_block_element(l, 0, own) : mlsi_lower_operand(l, 0, own);
    return mlsi_nest_cast(l->n, x, mlsi_lower_out(l, result)->dtype);
}

/* ---- windows -------------------------------------------------------------------------------------------- */

/* Where a window of operand 0 begins along axis d: operand i has the starts. */
static int64_t window_start(mlsi_lower *l, int i, int64_t d, int64_t size, const char *text) {
    int64_t room = mlsi_nest_index(l->n, '-', mlsi_lower_in(l, 0)->dims[d], size);
    int32_t start = mlsi_lower_operand(l, i, &d);
    return mlsi_lower_bind(l, start, d, mlsi_nest_index(l->n, '+', room, 1), false, text);
}

int32_t mlsi_loops_dynamic_slice(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_type *out = mlsi_lower_out(l, result);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < out->rank; d++) {
        int64_t start = window_start(l, 1, d, out->dims[d], "dynamic_slice: start");
        own[d] = mlsi_nest_index(l->n, '+', index[d], start);
    }
    return mlsi_lower_operand(l, 0, own);
}

int32_t mlsi_loops_dynamic_update_slice(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_type *u = mlsi_lower_in(l, 1);
    int64_t start[MLSYS_MAX_DIMS], own[MLSYS_MAX_DIMS];
    (void)result;
    for (int d = 0; d < u->rank; d++) {
        start[d] = window_start(l, 2, d, u->dims[d], "dynamic_update_slice: start");
        own[d] = mlsi_nest_index(l->n, '-', index[d], start[d]);
    }
    mlsi_lower_lazy(l, 1);
    int32_t before = mlsi_lower_operand(l, 0, index), y = mlsi_lower_operand(l, 1, own);
    mlsi_lower_lazy(l, -1);
    for (int d = u->rank - 1; d >= 0; d--)
        y = mlsi_nest_guard(l->n, 0, own[d], u->dims[d], y, before);
    return y;
}
