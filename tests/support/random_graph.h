/* Random graphs that pass type inference, from a typed generator, and tensors full of special
 * values for their inputs. A graph is a function of the random state only. */
#ifndef MLSI_TESTS_RANDOM_GRAPH_H
#define MLSI_TESTS_RANDOM_GRAPH_H

#include "ir/graph/ir.h"
#include "support/kernel_case.h"

typedef struct rg_options {
    int nodes, inputs, outputs; /* about as many nodes; at least one input and output */
    bool symbols;               /* extents B in [1,4], L in [0,6], S even in [2,6] */
    bool control;               /* call, if, while */
    bool donate;
} rg_options;

/* g must be freshly initialised (ctx); constants are made on device. */
void rg_graph(kc_rng *r, mlsi_graph *g, mlsi_device *device, const rg_options *o);
/* Values of the symbols B, L, S; any of them may be absent from the graph. */
typedef struct rg_extents {
    int64_t b, l, s;
} rg_extents;
rg_extents rg_bind(kc_rng *r);
/* Tensors for main's inputs under these extents, filled with all kinds of values. n = f->n_inputs.
 */
void rg_inputs(kc_rng *r, const mlsi_graph *g, mlsys_device device, rg_extents e,
               mlsys_tensor *out);

/* All kinds of values of its dtype. */
void rg_fill(kc_rng *r, const mlsi_view *v);

/* A view of t: transposed, reversed, every second row, or with an axis repeated. Releases t. */
mlsys_tensor rg_random_view(kc_rng *r, mlsys_tensor t);

/* Same dtype, shape and bits, NaN equal to NaN: the index of the first difference, or -1. */
int64_t rg_difference(mlsys_tensor a, mlsys_tensor b);
/* A view of a tensor's memory. */
mlsi_view rg_view(mlsys_tensor t);

#endif
