/* Groups of nodes that one kernel can compute, between fuse_group.c (which), fuse.c (make functions of them) and
 * fuse_report.c (tell). */
#ifndef MLSI_FUSE_H
#define MLSI_FUSE_H

#include "ir/passes/passes.h"

enum { MLSI_FUSE_NODES = 64, MLSI_FUSE_VALUES = 60 };

/* Why a producer and its reader are not in one kernel: what the rules of fuse_group.c answer. Each is about the producer, or, with
 * MLSI_FUSE_READER, about the reader; fuse_report.c has the words. */
typedef enum mlsi_fuse_why {
    MLSI_FUSE_JOINED = 0,
    MLSI_FUSE_VIEW, /* no kernel asked for it: a view that a step reads */
    MLSI_FUSE_NO_LOOPS,
    MLSI_FUSE_DTYPE,
    MLSI_FUSE_MEMORY,
    MLSI_FUSE_AXES,
    MLSI_FUSE_SHAPES,
    MLSI_FUSE_ROWS,
    MLSI_FUSE_NEIGHBOURS,
    MLSI_FUSE_EARLIER,
    MLSI_FUSE_ELSEWHERE,
    MLSI_FUSE_FULL,
    MLSI_FUSE_FAR,
    MLSI_FUSE_VALUES_FULL,
    MLSI_FUSE_ALONE,
    MLSI_FUSE_LITTLE,
    MLSI_FUSE_N_WHYS,
    MLSI_FUSE_READER = 0x40
} mlsi_fuse_why;

typedef struct mlsi_fusion {
    int32_t nodes[MLSI_FUSE_NODES]; /* ascending once done; the last one is where the call stands */
    int32_t n_nodes;
    int32_t inputs[MLSI_FUSE_VALUES], n_inputs; /* values from outside */
    int32_t outputs[MLSI_FUSE_VALUES], n_outputs;
    mlsi_type space;  /* shape that the group walks */
    int32_t row_rank; /* leading axes that reductions leave; the rank of space without reductions */
} mlsi_fusion;

typedef struct mlsi_fuse_state {
    mlsi_pass_ctx *p;
    const mlsi_graph *g;
    const mlsi_func *f;
    int32_t func;
    mlsi_operand *facts; /* layout facts of the values */
    int32_t *group_of;   /* per node: fusion number, -1 = none */
    int32_t *first_use,
        *last_use; /* per value: nodes; first_use INT32_MAX, last_use -1 = none; outputs: n_nodes */
    bool *wanted;  /* per node: a member reads it (scratch of the group being made) */
    int8_t *
        aligned; /* per wanted node: so many leading indices at which it is read are those of space */
    int32_t *edges;    /* per node: its first operand's number among all operands */
    uint8_t *edge_why; /* per operand: mlsi_fuse_why; the last attempt's with the reader inside */
} mlsi_fuse_state;

/* The group that ends with a node; false when the node stays alone or too little would be saved. */
bool mlsi_fuse_grow(mlsi_fuse_state *s, int32_t root, mlsi_fusion *out);
/* The group of one node, with the views through which it reads memory that is not contiguous. False: it has too many
 * operands or results, or no loops. */
bool mlsi_fuse_alone(mlsi_fuse_state *s, int32_t node, mlsi_fusion *out);
/* What the group saves at least, in bytes. */
int64_t mlsi_fuse_least(const mlsi_fuse_state *s);
/* Bytes of a value at the symbols' maxima; saturates. */
int64_t mlsi_fuse_bytes(const mlsi_fuse_state *s, int32_t value);
/* Groups, what each saves, and every edge between two nodes that is not inside one, with its reason. func_of: per group the
 * function made of it. */
void mlsi_fuse_report(const mlsi_fuse_state *s, const mlsi_fusion *groups, const int32_t *func_of,
                      int64_t n_groups, mlsi_text *out);
/* Does the op only say where elements lie? A copy of such a node costs nothing. */
bool mlsi_fuse_is_movement(mlsi_op op);

#endif
