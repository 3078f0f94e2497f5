/* Emitting primitives from a composite's decomposition. A builder remembers its first failure, so
 * that formulas can be written as expressions; the caller returns e.st at the end. C leaves the
 * order of arguments open, so a call has at most one argument that emits: the order of nodes is
 * fixed. */
#ifndef MLSI_DECOMPOSE_H
#define MLSI_DECOMPOSE_H

#include "ir/ops/reference.h"

typedef struct mlsi_emit {
    mlsi_graph *g;
    int32_t func;
    mlsys_dtype compute; /* f64 for f64, else f32 */
    mlsys_status st;
} mlsi_emit;

/* x decides the compute type. */
mlsi_emit mlsi_emit_begin(mlsi_graph *g, int32_t func, int32_t x);
const mlsi_type *mlsi_emit_type(const mlsi_emit *e, int32_t v);

int32_t mlsi_emit_op(mlsi_emit *e, mlsi_op op, const void *attrs, int32_t n_in, const int32_t *in);
int32_t mlsi_emit_1(mlsi_emit *e, mlsi_op op, int32_t x);
int32_t mlsi_emit_2(mlsi_emit *e, mlsi_op op, int32_t x, int32_t y);
int32_t mlsi_emit_select(mlsi_emit *e, int32_t cond, int32_t x, int32_t y);
/* x itself when it has the dtype. */
int32_t mlsi_emit_cast(mlsi_emit *e, int32_t x, mlsys_dtype dtype);
/* x in the compute type. */
int32_t mlsi_emit_widen(mlsi_emit *e, int32_t x);
/* A scalar of a float dtype. */
int32_t mlsi_emit_scalar(mlsi_emit *e, mlsys_dtype dtype, double value);
/* i64 0, 1, ... along one axis of rank ones. */
int32_t mlsi_emit_positions(mlsi_emit *e, int rank, int axis, int64_t extent);
/* A scalar of the compute type; of dtype. */
int32_t mlsi_emit_float(mlsi_emit *e, double value);
int32_t mlsi_emit_int(mlsi_emit *e, mlsys_dtype dtype, int64_t value);
/* Reduction over axes first, first + 1, ..., last - 1 (first < last: no axes would mean all), kept
 * with extent 1. */
int32_t mlsi_emit_reduce(mlsi_emit *e, mlsi_op op, int32_t x, int first, int last);
/* Product of x's extents first..last-1 as a scalar of the compute type, rounded once; also when
 * they are symbolic. */
int32_t mlsi_emit_count(mlsi_emit *e, int32_t x, int first, int last);
/* The same as i64. */
int32_t mlsi_emit_count_int(mlsi_emit *e, int32_t x, int first, int last);
/* mlsi_dim_combine: a + k * b. */
int64_t mlsi_emit_dim(mlsi_emit *e, int64_t a, int64_t k, int64_t b);
/* Elements [start, stop) of one axis; start and stop may be dims. */
int32_t mlsi_emit_slice(mlsi_emit *e, int32_t x, int axis, int64_t start, int64_t stop);
int32_t mlsi_emit_concat(mlsi_emit *e, int32_t x, int32_t y, int axis);
int32_t mlsi_emit_reshape(mlsi_emit *e, int32_t x, int rank, const int64_t *dims);
int32_t mlsi_emit_broadcast(mlsi_emit *e, int32_t x, int rank, const int64_t *dims);

#endif
