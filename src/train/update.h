/* From gradients to new state: mean, clipping, the check for what is not finite, the optimisers' steps. */
#ifndef MLSI_TRAIN_UPDATE_H
#define MLSI_TRAIN_UPDATE_H

#include "ir/ops/decompose.h"
#include "train/step_graph.h"

/* One phase while it is built. */
typedef struct mlsi_step_builder {
    mlsi_step_graph *s;
    mlsi_phase *phase;
    const mlsi_trainer_options *o;
    const mlsi_param_plan *plans;
    mlsi_emit e;
    int32_t *value; /* per state: the input that it is, -1 = not read so far */
    int32_t *next;  /* per state: its new value, -1 = it stays */
    int32_t *grad;  /* per parameter */
    int32_t norm;   /* of all gradients */
    mlsi_sums sums; /* with accumulation */
    int32_t *sum;   /* per term: its state */
    int32_t result[MLSI_RESULTS];
} mlsi_step_builder;

/* A state as an input of the phase. */
int32_t mlsi_step_state(mlsi_step_builder *b, int32_t state);
/* The state's new value unless the update is skipped. */
void mlsi_step_set(mlsi_step_builder *b, int32_t state, int32_t skip, int32_t value);
/* Appends the update by b->grad. A failure is left in b->e.st. */
void mlsi_update(mlsi_step_builder *b);

/* The optimiser that updates a parameter of this type and name. */
mlsi_optimizer mlsi_update_optimizer(const mlsi_trainer_options *o, const mlsi_type *type,
                                     const char *name);
/* Name's ending and type of slot k that the optimiser keeps for a parameter; NULL: none. type comes in as the
 * parameter's, wide. */
const char *mlsi_update_slot(const mlsi_trainer_options *o, mlsi_optimizer optimizer, int k,
                             mlsi_type *type);

#endif
