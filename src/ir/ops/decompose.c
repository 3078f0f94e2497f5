#include "ir/ops/decompose.h"

#include <string.h>

mlsi_emit mlsi_emit_begin(mlsi_graph *g, int32_t func, int32_t x) {
    mlsi_emit e = {.g = g, .func = func, .compute = MLSYS_F32};
    if (mlsi_type_of(g, func, x)->dtype == MLSYS_F64) e.compute = MLSYS_F64;
    return e;
}

const mlsi_type *mlsi_emit_type(const mlsi_emit *e, int32_t v) {
    return mlsi_type_of(e->g, e->func, v);
}

/* After a failure value 0 stands for every result: it is never looked at. */
int32_t mlsi_emit_op(mlsi_emit *e, mlsi_op op, const void *attrs, int32_t n_in, const int32_t *in) {
    int32_t out = 0;
    if (e->st == MLSYS_OK) e->st = mlsi_build_node(e->g, e->func, op, attrs, n_in, in, 1, &out);
    return out;
}

int32_t mlsi_emit_1(mlsi_emit *e, mlsi_op op, int32_t x) {
    return mlsi_emit_op(e, op, NULL, 1, &x);
}

int32_t mlsi_emit_2(mlsi_emit *e, mlsi_op op, int32_t x, int32_t y) {
    int32_t in[2] = {x, y};
    return mlsi_emit_op(e, op, NULL, 2, in);
}

int32_t mlsi_emit_select(mlsi_emit *e, int32_t cond, int32_t x, int32_t y) {
    int32_t in[3] = {cond, x, y};
    return mlsi_emit_op(e, MLSI_OP_SELECT, NULL, 3, in);
}

int32_t mlsi_emit_cast(mlsi_emit *e, int32_t x, mlsys_dtype dtype) {
    mlsi_attr_cast attrs = {.dtype = dtype};
    if (e->st != MLSYS_OK || mlsi_emit_type(e, x)->dtype == dtype) return x;
    return mlsi_emit_op(e, MLSI_OP_CAST, &attrs, 1, &x);
}

int32_t mlsi_emit_widen(mlsi_emit *e, int32_t x) { return mlsi_emit_cast(e, x, e->compute); }

int32_t mlsi_emit_scalar(mlsi_emit *e, mlsys_dtype dtype, double value) {
    mlsi_attr_full attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = dtype;
    attrs.value = value;
    return mlsi_emit_op(e, MLSI_OP_FULL, &attrs, 0, NULL);
}

int32_t mlsi_emit_float(mlsi_emit *e, double value) {
    return mlsi_emit_scalar(e, e->compute, value);
}

int32_t mlsi_emit_int(mlsi_emit *e, mlsys_dtype dtype, int64_t value) {
    mlsi_attr_full attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = dtype;
    attrs.ivalue = value;
    return mlsi_emit_op(e, MLSI_OP_FULL, &attrs, 0, NULL);
}

int32_t mlsi_emit_positions(mlsi_emit *e, int rank, int axis, int64_t extent) {
    mlsi_attr_iota attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = MLSYS_I64;
    attrs.axis = axis;
    attrs.shape.n = rank;
    for (int d = 0; d < rank; d++)
        attrs.shape.v[d] = d == axis ? extent : 1;
    return mlsi_emit_op(e, MLSI_OP_IOTA, &attrs, 0, NULL);
}

int32_t mlsi_emit_reduce(mlsi_emit *e, mlsi_op op, int32_t x, int first, int last) {
    mlsi_attr_reduce attrs;
    if (e->st != MLSYS_OK) return x;
    memset(&attrs, 0, sizeof attrs);
    attrs.keep = 1;
    for (int d = first; d < last; d++)
        attrs.axes.v[attrs.axes.n++] = d;
    return mlsi_emit_op(e, op, &attrs, 1, &x);
}

int32_t mlsi_emit_count_int(mlsi_emit *e, int32_t x, int first, int last) {
    int64_t count = 1;
    if (e->st != MLSYS_OK) return 0;
    mlsi_attr_full ones;
    memset(&ones, 0, sizeof ones);
    ones.dtype = MLSYS_I64;
    ones.ivalue = 1;
    for (int d = first; d < last; d++) {
        int64_t n = mlsi_emit_type(e, x)->dims[d];
        ones.shape.v[ones.shape.n++] = n;
        if (count >= 0)
            e->st = n < 0 ? MLSYS_OK : mlsi_dim_op(&e->g->symbols, '*', count, n, &count);
        if (n < 0) count = -1;
        if (e->st != MLSYS_OK) return 0;
    }
    if (count >= 0) return mlsi_emit_int(e, MLSYS_I64, count);
    /* A symbolic count becomes data by counting: integer ones, summed. */
    mlsi_attr_reduce all;
    memset(&all, 0, sizeof all);
    int32_t one = mlsi_emit_op(e, MLSI_OP_FULL, &ones, 0, NULL);
    return mlsi_emit_op(e, MLSI_OP_REDUCE_SUM, &all, 1, &one);
}

int32_t mlsi_emit_count(mlsi_emit *e, int32_t x, int first, int last) {
    return mlsi_emit_cast(e, mlsi_emit_count_int(e, x, first, last), e->compute);
}

int32_t mlsi_emit_slice(mlsi_emit *e, int32_t x, int axis, int64_t start, int64_t stop) {
    mlsi_attr_slice attrs;
    if (e->st != MLSYS_OK) return x;
    memset(&attrs, 0, sizeof attrs);
    attrs.starts.n = attrs.stops.n = attrs.steps.n = mlsi_emit_type(e, x)->rank;
    for (int d = 0; d < attrs.starts.n; d++) {
        attrs.starts.v[d] = d == axis ? start : 0;
        attrs.stops.v[d] = d == axis ? stop : INT64_MAX;
        attrs.steps.v[d] = 1;
    }
    return mlsi_emit_op(e, MLSI_OP_SLICE, &attrs, 1, &x);
}

int32_t mlsi_emit_concat(mlsi_emit *e, int32_t x, int32_t y, int axis) {
    mlsi_attr_axis attrs = {.axis = axis};
    int32_t in[2] = {x, y};
    return mlsi_emit_op(e, MLSI_OP_CONCAT, &attrs, 2, in);
}

static int32_t emit_shaped(mlsi_emit *e, mlsi_op op, int32_t x, int rank, const int64_t *dims) {
    mlsi_attr_shape attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.shape.n = rank;
    if (rank) memcpy(attrs.shape.v, dims, sizeof *dims * (size_t)rank);
    return mlsi_emit_op(e, op, &attrs, 1, &x);
}

int32_t mlsi_emit_reshape(mlsi_emit *e, int32_t x, int rank, const int64_t *dims) {
    return emit_shaped(e, MLSI_OP_RESHAPE, x, rank, dims);
}

int32_t mlsi_emit_broadcast(mlsi_emit *e, int32_t x, int rank, const int64_t *dims) {
    if (e->st == MLSYS_OK) {
        const mlsi_type *t = mlsi_emit_type(e, x);
        if (t->rank == rank && !memcmp(t->dims, dims, sizeof *dims * (size_t)rank)) return x;
    }
    return emit_shaped(e, MLSI_OP_BROADCAST, x, rank, dims);
}

int64_t mlsi_emit_dim(mlsi_emit *e, int64_t a, int64_t k, int64_t b) {
    int64_t sum = 0;
    if (e->st == MLSYS_OK) e->st = mlsi_dim_combine(&e->g->symbols, a, k, b, &sum);
    return sum;
}
