/* Sums over micro-batches with the order of the whole batch.
 *
 * A parameter's gradient ends in nodes that add up over the batch (a product along it, batch_sum, scatter), the
 * *terms*, and in a *tail* behind them that moves and adds what they gave. Each term has a sum of its own, which
 * the next call's node goes on with, as its addend; the tail is applied once, to the sums of all calls. A value
 * that no such node makes is a term, too, and is added to its sum call by call. */
#ifndef MLSI_TRAIN_SUMS_H
#define MLSI_TRAIN_SUMS_H

#include "ir/graph/ir.h"

enum {
    MLSI_MAX_TERMS = 4
}; /* of a parameter; one that is used more often has one term, its gradient */

typedef struct mlsi_sum_term {
    int32_t value;     /* of main */
    int32_t parameter; /* the first whose gradient it is part of */
    bool continues;    /* its node takes an addend; else values are added */
    mlsi_type type;    /* of the sum: wide */
    double initial;    /* the sum of nothing */
} mlsi_sum_term;

typedef struct mlsi_sums {
    int32_t n;
    mlsi_sum_term *terms;
    int32_t *term_of; /* per value of main: its term, -1 */
    bool *tail;       /* per value of main */
    int64_t n_values;
} mlsi_sums;

/* The terms of n gradients, values of g's main, in an order that depends on the graph alone. */
mlsys_status mlsi_sums_find(mlsi_arena *arena, const mlsi_graph *g, int32_t n, const int32_t *grad,
                            mlsi_sums *out);
/* Rewrites main: nodes of terms that continue go on from addend[term], inputs of it, and what only the tail reads
 * goes. *n_nodes, *n_values: the first so many nodes and values; translated. */
mlsys_status mlsi_sums_continue(mlsi_graph *g, const mlsi_sums *s, const int32_t *addend,
                                int64_t *n_nodes, int64_t *n_values);
/* The tail over sum[term], values of another graph's main: the gradients there. */
mlsys_status mlsi_sums_finish(mlsi_graph *to, const mlsi_graph *from, const mlsi_sums *s,
                              const int32_t *sum, int32_t n, const int32_t *grad, int32_t *out);

#endif
