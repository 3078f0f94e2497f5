/* Memory against compute in reverse mode: of the forward values that the backward pass reads, some are kept, and
 * the others are computed again just before they are needed, by copies of their nodes.
 *
 * The gradient is built twice. The first time tells which forward values each node's rule really reads; it is
 * taken back. A policy then chooses what is kept. The second time the walk, before it applies a node's rule, appends
 * copies of the nodes that give what the rule reads from what is kept, each node at most once. A copy, and a rule,
 * reads a kept value or an input through a barrier of its own, so no pass can merge copies with originals, which
 * would keep the originals alive. Programs run in the order of their nodes, so nothing is computed again early.
 *
 * A copy has the bits of its original: equal ops on equal operands; random draws are functions of their operands.
 * Rules and the order of adding adjoints are the same, so gradients have the same bits, whatever is kept.
 *
 * Inputs and constants are always there. Views are never kept but their base is; call, if and while are nodes like
 * others here (their adjoints compute forward values again anyway, see control.c). */
#ifndef MLSI_CHECKPOINT_H
#define MLSI_CHECKPOINT_H

#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

typedef enum mlsi_checkpoint_kind {
    MLSI_CHECKPOINT_NONE = 0, /* all that the rules read is kept */
    MLSI_CHECKPOINT_EVERY,    /* what crosses the boundary of every k-th node */
    MLSI_CHECKPOINT_SQRT,     /* what crosses the boundaries of about sqrt(n) segments of n nodes */
    MLSI_CHECKPOINT_OPS,      /* results of the named ops */
    MLSI_CHECKPOINT_BYTES     /* what costs most to compute again, within a budget */
} mlsi_checkpoint_kind;

typedef struct mlsi_checkpoint {
    mlsi_checkpoint_kind kind;
    int64_t every, bytes;
    const char *keep; /* names of ops, comma-separated; of the config */
} mlsi_checkpoint;

const mlsi_config_key *mlsi_gradient_config_keys(int *n);
/* c NULL = defaults. Errors ARG, NOTFOUND: an unknown key, policy or op. */
mlsys_status mlsi_checkpoint_read(const mlsi_config *c, mlsi_checkpoint *out);

/* ---- between the files of this room -------------------------------------------------------- */

typedef enum mlsi_replay_kind {
    MLSI_REPLAY_FREE = 0, /* constants, and what fold makes of them: read as they are */
    MLSI_REPLAY_INPUT,    /* always there, read through a barrier */
    MLSI_REPLAY_VIEW,     /* made again from its base, at no cost */
    MLSI_REPLAY_COMPUTED  /* kept, or computed again */
} mlsi_replay_kind;

/* The forward nodes and values of one gradient: those that are there before it. */
typedef struct mlsi_replay {
    mlsi_graph *g;
    int32_t func;
    mlsi_arena arena; /* of all arrays */
    int64_t n_nodes, n_values;
    bool learned;        /* false: the first time, which only sets reached */
    int64_t *reached;    /* per node: how many nodes there were when the walk came to it */
    int64_t *need_start; /* per node, and one more: its part of need */
    int32_t *need;       /* forward values that must be there when the node's rule is applied */
    uint8_t *kind;       /* per value */
    bool *kept;          /* per value; COMPUTED ones only */
    bool *done;          /* per node: computed again by now */
    int32_t *now;        /* per value: what stands for it in the backward pass; -1 = not there */
    int32_t *batch;      /* nodes that a demand adds, */
    int64_t n_batch;
    int32_t *fresh; /* values whose now was set by the last mlsi_replay_node */
    int64_t n_fresh;
    int32_t *stack;
    int64_t next_barrier;
} mlsi_replay;

mlsys_status mlsi_replay_init(mlsi_replay *r, mlsi_graph *g, int32_t func);
void mlsi_replay_free(mlsi_replay *r);
/* After the first time, before its nodes go: what is needed where, so that dx are computed. */
mlsys_status mlsi_replay_learn(mlsi_replay *r, int32_t n_dx, const int32_t *dx);
/* Sets kept. */
mlsys_status mlsi_replay_choose(mlsi_replay *r, const mlsi_checkpoint *c);
/* Before the rule of a forward node: append what it needs. */
mlsys_status mlsi_replay_node(mlsi_replay *r, int64_t node);
/* Add to batch the nodes that must run again for value v, unless they are done; they are then. Computed values
 * of nodes below limit become kept instead. */
void mlsi_replay_demand(mlsi_replay *r, int32_t v, int64_t limit);

#endif
