/* A graph as loops: one nest where its values share loops, else a nest per node, as if nothing were fused. */
#ifndef MLSI_TEST_LOOP_CASE_H
#define MLSI_TEST_LOOP_CASE_H

#include "ir/loop/nest.h"
#include "support/kernel_case.h"

typedef struct loop_part {
    mlsi_graph g; /* one node over its operands */
    mlsi_nest n;
    int32_t node; /* -1: the whole function */
} loop_part;

typedef struct loop_case {
    mlsi_graph *g; /* decomposed; the caller's */
    loop_part *parts;
    int64_t n_parts;
} loop_case;

/* Decomposes function 0 of g to ops with loops of their own, and lowers it. UNSUPPORTED with the sentence of the first
 * node that has none. Free it also after a failure. */
mlsys_status loop_case_lower(mlsi_graph *g, const char *name, loop_case *out);
/* A part by the loop interpreter. */
mlsys_status loop_part_interpret(void *user, const loop_part *part, const int64_t *dims,
                                 const mlsi_view *params, int n_params);
/* The nests one after the other by the loop interpreter; params as for a nest of the whole. */
mlsys_status loop_case_run(const loop_case *c, const int64_t *binding, const mlsi_view *params);
/* The same by another way of running a part; dims are values of its nest's shape symbols. */
typedef mlsys_status (*loop_part_fn)(void *user, const loop_part *part, const int64_t *dims,
                                     const mlsi_view *params, int n_params);
mlsys_status loop_case_run_by(const loop_case *c, const int64_t *binding, const mlsi_view *params,
                              loop_part_fn fn, void *user);
/* The default schedule and what follows it, as a program's kernels get them; none for ops with loops of their own. */
mlsys_status loop_part_schedule(const loop_case *c, loop_part *part);
/* The same for a GPU. */
mlsys_status loop_part_schedule_cuda(const loop_case *c, loop_part *part);
void loop_case_free(loop_case *c);

#endif
