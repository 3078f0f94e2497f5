/* Two networks for small grey images, as graphs: one training step, and one evaluation. */
#ifndef NETWORK_H
#define NETWORK_H

#include <mlsys/mlsys.h>

enum { MAX_PARAMETERS = 16, FIRST_PARAMETER = 4 };

typedef struct parameter {
    int rank;
    int64_t shape[4];
    double spread; /* of the normal numbers that it starts from; 0: zeros */
} parameter;

typedef struct network {
    const char *name;
    int64_t side, classes;
    double rate;  /* highest learning rate that suits it */
    int mirrored; /* train on images and, at random, their mirror images */
    int n;
    parameter parameters[MAX_PARAMETERS];
} network;

/* "mlp" or "conv"; 0 for another name. */
int network_of(const char *name, int64_t side, network *out);

/* Step: images u8 [B, side, side], labels i64 [B], lr f32, count i64 (1 in the first step), the parameters,
 * their first and their second moments (all donated), to the new parameters and moments, and the mean loss.
 * AdamW without decay. */
mlsys_status network_step(const network *n, mlsys_ctx ctx, mlsys_graph *out);
/* Evaluation: images, the parameters, to the class of each image (i64 [B]). */
mlsys_status network_classes(const network *n, mlsys_ctx ctx, mlsys_graph *out);

#endif
