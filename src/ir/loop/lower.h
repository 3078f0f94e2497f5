/* From tensor IR to loop IR: what an op's definition says about its loops.
 *
 * A definition has one of
 *   element          an element of a result from elements of the operands (elementwise, movement, creation);
 *   reduces, term    each result element is a reduction over a space of its own (sums, products, matmul, convolution);
 *   nest             loops of its own (sort, scan, scatter, attention...), which read operands through
 *                    mlsi_lower_operand and give results through mlsi_lower_result.
 * A composite without any is lowered by its decomposition. Control flow is never lowered.
 *
 * Operands are read by element, so a producer that has `element` is computed in place of the load (prologue fusion); a
 * result is given by element, so its consumers may be computed before it is stored (epilogue fusion). Rules must not
 * care which of the two happens. Indices are index expressions (ir/loop/nest.h), one per axis. */
#ifndef MLSI_LOWER_H
#define MLSI_LOWER_H

#include "ir/loop/nest.h"

typedef struct mlsi_lowering mlsi_lowering; /* the driver's state: lower_func.c */

typedef struct mlsi_lower {
    mlsi_nest *n;
    mlsi_lowering *driver;
    const mlsi_graph
        *graph; /* dims of types and attributes are codes of its table: also of n->tab */
    int32_t func;
    const mlsi_node *node;
    const void *attrs;
} mlsi_lower;

typedef struct mlsi_reduction {
    mlsi_acc_kind kind;
    mlsys_dtype dtype; /* of the terms */
    int32_t rank;
    int32_t addend; /* DOT: operand whose element the first segment is added to; 0 = none */
    int64_t extents[MLSYS_MAX_DIMS]; /* the reduced space; positions are its row-major order */
} mlsi_reduction;

/* Is operand i there? Its type; a result's type. */
bool mlsi_lower_has(const mlsi_lower *l, int i);
const mlsi_type *mlsi_lower_in(const mlsi_lower *l, int i);
const mlsi_type *mlsi_lower_out(const mlsi_lower *l, int r);
/* An element of operand i, in its dtype. */
int32_t mlsi_lower_operand(mlsi_lower *l, int i, const int64_t *index);
/* The same by the index of a value that operand i broadcasts to, of the given rank (NumPy rules). */
int32_t mlsi_lower_broadcast(mlsi_lower *l, int i, int rank, const int64_t *index);
/* +1 before, -1 after the expressions of a guard's arguments are made: nothing is computed ahead of the guard. */
void mlsi_lower_lazy(mlsi_lower *l, int more);
/* A variable bound to an index from data, for what is computed in the open body (mlsi_nest_bind_at). Not behind guards:
 * a bind is a statement, and would be checked where it is not wanted. */
int64_t mlsi_lower_bind(mlsi_lower *l, int32_t value, int64_t position, int64_t extent, bool wrap,
                        const char *text);
/* nest: gives an element of result r, in its dtype; each exactly once. */
void mlsi_lower_result(mlsi_lower *l, int r, const int64_t *index, int32_t value);
/* nest: the memory of result r, where a rule must read back what it gave (scatter). Excludes epilogue fusion. */
int32_t mlsi_lower_result_buffer(mlsi_lower *l, int r);
/* nest: bytes of a block operand, as a buffer. */
int32_t mlsi_lower_bytes(mlsi_lower *l, int i);

/* A nest that computes function func; parameters are its inputs, then its outputs. Constants of one element are written
 * into the expressions; a larger one is UNSUPPORTED (make it an input). n is initialised here; free it also after a
 * failure. UNSUPPORTED with the reason where the function's values do not share loops, which fusion must not ask for. */
mlsys_status mlsi_lower_func(const mlsi_graph *g, int32_t func, const char *name, mlsi_nest *n);

#endif
