/* Graph objects, for the files of this room and the model builder. */
#ifndef MLSI_API_GRAPH_H
#define MLSI_API_GRAPH_H

#include "ir/graph/ir.h"

/* A graph with a handle; *object is alive as long as the handle is. */
mlsys_status mlsi_graph_create(mlsi_ctx *ctx, mlsys_graph *out, mlsi_graph **object);
/* The numbers of public values of g's main; 0 gives -1. */
mlsys_status mlsi_graph_own_values(const mlsi_graph *g, int32_t n, const mlsys_value *in,
                                   const char *what, int32_t *out);
/* Append an op, built-in or custom, by name. */
mlsys_status mlsi_graph_add_op(mlsi_graph *g, int32_t func, const char *name,
                               const mlsi_config *attrs, int32_t n_in, const int32_t *in,
                               int32_t n_out, int32_t *out);

#endif
