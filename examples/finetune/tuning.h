/* A language model as something to train: its loss as a graph, the weights or adapters that are trained, and the
 * model that comes out. */
#ifndef TUNING_H
#define TUNING_H

#include <mlsys/mlsys.h>

typedef struct tuning {
    mlsys_model model; /* borrowed */
    mlsys_device cpu;  /* borrowed */
    mlsys_stream stream;
    long rank; /* of the adapters; 0: all weights are trained */
    double alpha;
    const char *targets;
    long batch, length; /* at most */
    /* made by tuning_build */
    mlsys_graph
        g; /* inputs tokens i32 [B, L], what is trained, targets i32 [B, L]; outputs logits, loss */
    mlsys_value loss;
    int n;
    char **names;
    mlsys_value *values;
    mlsys_tensor *start; /* f32 */
} tuning;

/* Build the graph and the values to start from: the weights of the model, or adapters that change nothing yet. */
mlsys_status tuning_build(tuning *t, unsigned long seed);
/* The model with what the trainer has reached. */
mlsys_status tuning_result(const tuning *t, mlsys_trainer trainer, mlsys_model *out);
void tuning_release(tuning *t);

#endif
