/* Groups of nodes that one kernel can compute, between fuse_group.c (which) and fuse.c (make functions of them). */
#ifndef MLSI_FUSE_H
#define MLSI_FUSE_H

#include "ir/passes/passes.h"

enum { MLSI_FUSE_NODES = 64, MLSI_FUSE_VALUES = 60 };

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
} mlsi_fuse_state;

/* The group that ends with a node; false when the node stays alone or too little would be saved. */
bool mlsi_fuse_grow(mlsi_fuse_state *s, int32_t root, mlsi_fusion *out);
/* Does the op only say where elements lie? A copy of such a node costs nothing. */
bool mlsi_fuse_is_movement(mlsi_op op);

#endif
