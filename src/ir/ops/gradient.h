/* Gradient rules: mlsi_vjp_<op>, named by the op's definition, in gradient_<family>.c. Formulas are those of
 * the derivative; where a function has none (kinks, steps) the rule's comment says what is chosen. */
#ifndef MLSI_GRADIENT_H
#define MLSI_GRADIENT_H

#include "ir/ops/decompose.h"

/* Emits into the rule's function; the compute type is that of result 0. */
mlsi_emit mlsi_vjp_begin(const mlsi_vjp *v);
/* Zeros of x's type. */
int32_t mlsi_emit_zeros_like(mlsi_emit *e, int32_t x);
/* dy, shaped as a broadcast of x: the sum over the axes along which x was repeated, in x's shape. */
int32_t mlsi_emit_unbroadcast(mlsi_emit *e, int32_t dy, int32_t x);
/* dx where v->alive, else 0. */
int32_t mlsi_emit_alive(mlsi_emit *e, const mlsi_vjp *v, int32_t dx);
/* The results of a node with several. */
void mlsi_emit_many(mlsi_emit *e, mlsi_op op, const void *attrs, int32_t n_in, const int32_t *in,
                    int32_t n_out, int32_t *out);

/* attention_grad in primitives (gradient_attention.c). */
mlsys_status mlsi_decompose_attention_grad(mlsi_graph *g, int32_t func, const void *attrs,
                                           int32_t n_in, const int32_t *in, int32_t n_out,
                                           int32_t *out);

/* pool_grad in primitives (gradient_window.c). */
mlsys_status mlsi_decompose_pool_grad(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                      const int32_t *in, int32_t n_out, int32_t *out);

/* No gradient flows: the function is constant almost everywhere. */
mlsys_status mlsi_vjp_zero(mlsi_vjp *v);

#define MLSI_OP(ID, name, family) mlsys_status mlsi_vjp_##name(mlsi_vjp *v);
#include "core/op_list.h"
#undef MLSI_OP

#endif
