/* Reverse-mode differentiation of tensor IR: appends to a function the nodes that compute gradients. */
#ifndef MLSI_REVERSE_H
#define MLSI_REVERSE_H

#include "autodiff/checkpoint.h"

/* dx[j] = sum over i of seeds[i] * d y[i] / d x[j], as values of func; -1 where no y depends on x[j] through
 * floats (a structural zero). seeds[i] = -1: ones. y and x are floats; x may be any values, also inner ones.
 * The nodes that are there stay as they are; adjoints of a value with several uses are added from its last
 * use to its first. After a failure the function is as before.
 * Errors: DTYPE, a y or x that is not a float; SHAPE, a seed not of its y's type; UNSUPPORTED, an op that
 * cannot be differentiated, by name. Work is linear in the nodes, the stack is not used. */
mlsys_status mlsi_gradient(mlsi_graph *g, int32_t func, int32_t n_y, const int32_t *y,
                           const int32_t *seeds, int32_t n_x, const int32_t *x, int32_t *dx);

/* The same, computing forward values again as c says. The bits do not change. */
mlsys_status mlsi_gradient_keeping(mlsi_graph *g, int32_t func, const mlsi_checkpoint *c,
                                   int32_t n_y, const int32_t *y, const int32_t *seeds, int32_t n_x,
                                   const int32_t *x, int32_t *dx);

/* ---- between the files of this room -------------------------------------------------------- */

/* What a function has grown by since: taken back when a call fails. */
typedef struct mlsi_growth {
    int64_t n_nodes, n_values, n_funcs;
} mlsi_growth;
mlsi_growth mlsi_growth_of(const mlsi_graph *g, int32_t func);
void mlsi_growth_undo(mlsi_graph *g, int32_t func, mlsi_growth at);

/* A constant float of v's type. */
mlsys_status mlsi_full_like(mlsi_graph *g, int32_t func, int32_t v, double value, int32_t *out);
/* A node of call, if or while: the rule of mlsi_op_def.vjp for them (control.c). */
mlsys_status mlsi_vjp_control(mlsi_vjp *v, mlsi_op op);

#endif
