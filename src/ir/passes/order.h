/* Tasks of a function as a graph with bytes, between order.c (what they are, the pass) and order_list.c (orders). */
#ifndef MLSI_ORDER_H
#define MLSI_ORDER_H

#include "ir/passes/passes.h"

typedef struct mlsi_task_edge {
    int32_t from, to;
} mlsi_task_edge;

/* Nodes are tasks; views among them take no memory and no time. A value's memory is that of its root. */
typedef struct mlsi_tasks {
    mlsi_alloc *alloc;
    const mlsi_func *f;
    int32_t n;
    int32_t *root; /* per value: the value whose memory it shows */
    int64_t *
        bytes; /* per root: what it takes in the arena, at the symbols' maxima; 0: it lies elsewhere */
    int32_t *readers;      /* per root: tasks that read it; views do not count */
    bool *view;            /* per task */
    uint32_t *in_place;    /* per task: operands whose memory its result 0 may take */
    mlsi_task_edge *edges; /* from runs before to */
    int64_t n_edges, cap_edges;
    int32_t *first_next,
        *next; /* task i runs before next[first_next[i]] ... next[first_next[i + 1] - 1] */
    int32_t *first_prev, *prev; /* and behind those */
} mlsi_tasks;

mlsys_status mlsi_tasks_find(mlsi_pass_ctx *p, int32_t func, mlsi_tasks *t);
void mlsi_tasks_free(mlsi_tasks *t);

/* The most bytes alive while a task of the order runs. */
mlsys_status mlsi_order_peak(const mlsi_tasks *t, const int32_t *order, int64_t *bytes);
/* Of some orders that keep all edges the one with the least peak, into order (n entries: at first a legal one, which stays unless
 * another one is better); *better says whether. */
mlsys_status mlsi_order_search(const mlsi_tasks *t, int32_t *order, bool *better);

#endif
