/* Graph objects, for the files of this room and the model builder. */
#ifndef MLSI_API_GRAPH_H
#define MLSI_API_GRAPH_H

#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

/* A graph with a handle; *object is alive as long as the handle is. */
mlsys_status mlsi_graph_create(mlsi_ctx *ctx, mlsys_graph *out, mlsi_graph **object);
/* The numbers of public values of g's main; 0 gives -1. */
mlsys_status mlsi_graph_own_values(mlsi_graph *g, int32_t n, const mlsys_value *in,
                                   const char *what, int32_t *out);
/* Append an op, built-in or custom, by name. */
mlsys_status mlsi_graph_add_op(mlsi_graph *g, int32_t func, const char *name,
                               const mlsi_config *attrs, int32_t n_in, const int32_t *in,
                               int32_t n_out, int32_t *out);

/* A call that builds on a graph: exclusive, or through the window of a gradient rule (api_gradient_rule.c). */
typedef struct mlsi_graph_call {
    mlsi_graph *named; /* what the handle names: its values are public */
    mlsi_graph *graph; /* what the call builds on, and in which function */
    int32_t func;
} mlsi_graph_call;
mlsys_status mlsi_graph_call_begin(mlsys_graph handle, const char *what, mlsi_graph_call *c);
void mlsi_graph_call_end(mlsi_graph_call *c); /* zeroed ones accepted */
mlsys_value mlsi_graph_call_value(const mlsi_graph_call *c, int32_t v);
mlsys_status mlsi_graph_call_own(const mlsi_graph_call *c, mlsys_value v, const char *what,
                                 int32_t *out);
/* The user's gradient rule: mlsi_custom_op.vjp of ops that have one. */
mlsys_status mlsi_custom_vjp(const mlsi_custom_op *op, const mlsi_config *attrs, mlsi_vjp *v);

#endif
