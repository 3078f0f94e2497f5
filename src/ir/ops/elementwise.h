/* What the elementwise files share: type rules and costs. */
#ifndef MLSI_ELEMENTWISE_H
#define MLSI_ELEMENTWISE_H

#include "ir/ops/reference.h"

/* Operands of one dtype of the given classes, broadcast; the result has that dtype. */
mlsys_status mlsi_elementwise_infer(mlsi_infer *t, unsigned classes);
/* The same, result bool. */
mlsys_status mlsi_elementwise_infer_predicate(mlsi_infer *t, unsigned classes);
mlsys_status mlsi_elementwise_infer_floats(mlsi_infer *t);
mlsys_status mlsi_elementwise_infer_numbers(mlsi_infer *t);

void mlsi_elementwise_cost(const mlsi_cost_args *a, mlsi_op_cost *c); /* one flop each */
void mlsi_elementwise_cost_math(const mlsi_cost_args *a,
                                mlsi_op_cost *c); /* one transcendental each */
void mlsi_elementwise_cost_move(const mlsi_cost_args *a, mlsi_op_cost *c); /* nothing but bytes */

/* Bits in an integer dtype. */
static inline int mlsi_int_bits(mlsys_dtype t) { return 8 * mlsi_dtype_size(t); }

enum {
    MLSI_MAP_TRAITS = MLSI_TRAIT_ELEMENTWISE,
    MLSI_SMOOTH_TRAITS = MLSI_TRAIT_ELEMENTWISE | MLSI_TRAIT_DIFFERENTIABLE
};

#endif
