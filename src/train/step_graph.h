/* The graphs of a training step: forward pass, backward pass and update over named state.
 *
 * State is a list of tensors: the parameters, what the optimiser keeps for each, and scalars that count. Each
 * phase of a step is a graph that reads state and batch and gives new state. Without accumulation there is one
 * phase. With it there are two: the first goes on with the sums of which gradients are made (sums.h), the second,
 * which the k-th call runs after it, updates by their mean and empties the sums. Whether an update happens, at which rate and scale, is computed inside: the
 * host decides nothing but when k calls are over.
 *
 * New state is written last: each old value is read by a final select(skip, old, new) behind all gradients, so
 * that a run that fails before (a custom op, an index out of range) leaves the state as it was. */
#ifndef MLSI_STEP_GRAPH_H
#define MLSI_STEP_GRAPH_H

#include "train/options.h"
#include "train/sums.h"

enum {                         /* scalars, the first states after the parameters */
       MLSI_STATE_BATCHES = 0, /* i64: calls so far */
       MLSI_STATE_STEP,        /* i64: updates so far */
       MLSI_STATE_SKIPPED,     /* i64: updates left out */
       MLSI_STATE_SCALE,       /* f32: of the loss */
       MLSI_STATE_GOOD,        /* i64: updates since the scale last changed */
       MLSI_STATE_SCALARS
};

enum { /* results that are no state */
       MLSI_RESULT_LOSS = 0,
       MLSI_RESULT_NORM, /* of the gradient, before clipping; f32 */
       MLSI_RESULT_RATE, /* f32 */
       MLSI_RESULTS
};

typedef struct mlsi_state {
    const char *name;
    int32_t parameter; /* whose it is, -1: a scalar */
    mlsi_type type;    /* static */
    double initial;    /* every element's */
    bool of_parameter; /* starts as the parameter's value */
    bool apart;        /* a new value is written while the old one must stay: never in its memory */
} mlsi_state;

typedef struct mlsi_phase {
    mlsi_graph graph;
    bool made; /* graph is there */
    /* what the forward and the backward pass have of main; the update comes behind it */
    int64_t pass_nodes, pass_values, pass_inputs;
    int32_t n_in, n_out;
    int32_t *in;  /* per input: a state, or -1 - b: tensor b of the batch */
    int32_t *out; /* per output: a state, or -1 - one of MLSI_RESULT_ */
} mlsi_phase;

typedef struct mlsi_step_graph {
    mlsi_alloc *alloc;
    mlsi_arena arena; /* names and lists */
    mlsi_state *states;
    int32_t n_params, n_states, cap_states; /* parameters come first, then scalars */
    int32_t n_batch;
    mlsi_phase phases[2];
    int32_t n_phases;
    mlsys_dtype loss_dtype;
} mlsi_step_graph;

/* g is copied. loss and params are values of its main. Errors: ARG, DTYPE, SHAPE for arguments that do not fit;
 * what the gradient refuses. On failure nothing is left. */
mlsys_status mlsi_step_graph_create(const mlsi_graph *g, int32_t loss, int32_t n,
                                    const int32_t *params, const mlsi_trainer_options *o,
                                    mlsi_step_graph *out);
void mlsi_step_graph_free(mlsi_step_graph *s);
/* The first scalar's number among the states. */
static inline int32_t mlsi_scalar_state(const mlsi_step_graph *s, int which) {
    return s->n_params + which;
}

/* ---- between the files of this room -------------------------------------------------------- */

/* What a parameter's optimiser keeps: numbers of states, -1 = none. */
enum { MLSI_MAX_SLOTS = 3 };
typedef struct mlsi_param_plan {
    mlsi_optimizer optimizer; /* of this parameter */
    bool decays;
    int32_t slot[MLSI_MAX_SLOTS];
    int32_t ema;
} mlsi_param_plan;

#endif
