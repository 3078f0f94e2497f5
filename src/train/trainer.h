/* A training run: compiled step, state, counters. One thread at a time. */
#ifndef MLSI_TRAINER_H
#define MLSI_TRAINER_H

#include "train/step_graph.h"

/* A tensor that the trainer owns. */
typedef struct mlsi_owned_tensor {
    mlsys_tensor handle;
    mlsi_tensor *tensor; /* pinned */
} mlsi_owned_tensor;

typedef struct mlsi_trainer {
    mlsi_object object;
    mlsi_stream *stream; /* pinned */
    mlsys_stream stream_handle;
    mlsi_step_graph graph;
    mlsys_program handle[2];
    mlsi_program *program[2]; /* pinned */
    int64_t accumulate;
    mlsi_owned_tensor *state; /* per state */
    mlsi_owned_tensor *spare; /* per state whose new value cannot be written in place */
    mlsi_owned_tensor result[MLSI_RESULTS];
    mlsi_owned_tensor
        *batch; /* on the trainer's device, for batches of the host; NULL: not needed yet */
    mlsi_tensor **batch_in;
    mlsi_tensor **in; /* arguments of a run */
    mlsys_tensor *out;
    mlsi_text settings; /* mlsi_trainer_options_text */
    char model[65];     /* digest of the graph */
    const char *optimizer;
    bool same_settings;
    uint64_t state_bytes, peak_bytes;
    double flops, seconds; /* of the last step */
} mlsi_trainer;

mlsys_status mlsi_trainer_create(const mlsi_graph *g, int32_t loss, int32_t n,
                                 const int32_t *params, mlsi_tensor *const *initial, mlsi_stream *s,
                                 const mlsi_config *config, mlsys_trainer *out);
/* The caller holds the stream. */
mlsys_status mlsi_trainer_step(mlsi_trainer *t, int32_t n_in, mlsi_tensor *const *in, double *loss);
mlsys_status mlsi_trainer_stat(const mlsi_trainer *t, const char *name, double *out);
/* What mlsi_find_nonfinite says of the forward and the backward pass with this batch and the present state. The
 * caller holds the stream. */
mlsys_status mlsi_trainer_find_nonfinite(mlsi_trainer *t, int32_t n_in, mlsi_tensor *const *in,
                                         mlsi_text *out);
/* The names that it knows, one a line with type and meaning. */
void mlsi_trainer_stats_text(mlsi_text *out);
/* A copy of a state. Errors NOTFOUND. */
mlsys_status mlsi_trainer_tensor(const mlsi_trainer *t, const char *name, mlsys_tensor *out);

#endif
