/* A model's graph in mode "train" with values for its trainable inputs, for tests of fine-tuning. */
#ifndef MLSI_TESTS_TRAINED_MODEL_H
#define MLSI_TESTS_TRAINED_MODEL_H

#include "support/generation.h"

enum { TRAINED_MAX = 160 };

typedef struct trained_param {
    char name[64];
    int32_t rank;
    int64_t shape[2], count;
    mlsys_tensor t; /* f32 */
} trained_param;

typedef struct trained_model {
    const generation_world *w;
    mlsys_graph g;
    mlsys_program p;
    int64_t vocab;
    int n;
    trained_param params[TRAINED_MAX]; /* in the order that the header states */
    mlsys_value loss;                  /* 0 without */
} trained_model;

/* Build the graph and fill params: weights from the model, halves of adapters with normal numbers of
 * spread 0.05, or with zeros in B. options are those of the "model" config, without "mode". A step has the
 * logits, the mean cross-entropy with targets i32 [B,L] and the gradients by all params as outputs. */
void trained_create(trained_model *t, const generation_world *w, mlsys_model m,
                    const generation_option *options, const char *numerics, int zero_b, int step);
void trained_release(trained_model *t);
/* Logits [batch * length * vocab] of tokens [batch * length]. */
void trained_logits(trained_model *t, int64_t batch, int64_t length, const int32_t *tokens,
                    float *out);
/* One step of gradient descent on a row of length + 1 tokens; the loss before it. */
double trained_step(trained_model *t, int64_t length, const int32_t *tokens, float rate);
/* The model with the params as they are now. */
mlsys_status trained_adapt(trained_model *t, mlsys_model m, double alpha, mlsys_model *out);

#endif
