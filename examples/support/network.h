/* Two networks for small grey images, as graphs: their loss, and their answer. */
#ifndef NETWORK_H
#define NETWORK_H

#include <mlsys/mlsys.h>

enum { MAX_PARAMETERS = 16 };

typedef struct parameter {
    char name[24];
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

/* images u8 [B, side, side], labels i64 [B], the parameters, to the mean loss. */
mlsys_status network_loss(const network *n, mlsys_ctx ctx, mlsys_graph *out, mlsys_value *loss,
                          mlsys_value *parameters);
/* Evaluation: images, the parameters, to the class of each image (i64 [B]). */
mlsys_status network_classes(const network *n, mlsys_ctx ctx, mlsys_graph *out);
/* The trained network, its weights inside: images to the scores of all classes (f32 [B, classes]) and the class. */
mlsys_status network_trained(const network *n, mlsys_ctx ctx, const mlsys_tensor *weights,
                             mlsys_graph *out);

#endif
