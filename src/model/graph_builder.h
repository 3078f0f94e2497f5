/* A sticky-error writer over the public graph API: after a failure every call is a no-op that
 * answers 0, and st holds the first status. */
#ifndef MLSI_GRAPH_BUILDER_H
#define MLSI_GRAPH_BUILDER_H

#include "model/model.h"

typedef struct mlsi_builder {
    mlsi_model *m;
    mlsys_device device;
    mlsys_graph g;
    mlsys_status st;
    bool trainable; /* weights are f32 inputs under their names, not constants */
} mlsi_builder;

typedef struct mlsi_attr_arg_text { /* one attribute */
    const char *key;
    char type; /* 'i', 'f', 's', 'v'; 0 ends a list */
    int64_t i;
    double f;
    const char *s;
    int32_t n;
    const int64_t *v;
} mlsi_set;

#define MLSI_SET_I(key, value)     ((mlsi_set){(key), 'i', (value), 0, NULL, 0, NULL})
#define MLSI_SET_F(key, value)     ((mlsi_set){(key), 'f', 0, (value), NULL, 0, NULL})
#define MLSI_SET_S(key, value)     ((mlsi_set){(key), 's', 0, 0, (value), 0, NULL})
#define MLSI_SET_V(key, n, values) ((mlsi_set){(key), 'v', 0, 0, NULL, (n), (values)})
#define MLSI_SET_END               ((mlsi_set){NULL, 0, 0, 0, NULL, 0, NULL})

/* attrs ended by MLSI_SET_END, or NULL. */
mlsys_value mlsi_b_op(mlsi_builder *b, const char *op, int32_t n_in, const mlsys_value *in,
                      const mlsi_set *attrs);
mlsys_value mlsi_b_unary(mlsi_builder *b, const char *op, mlsys_value x);
mlsys_value mlsi_b_binary(mlsi_builder *b, const char *op, mlsys_value x, mlsys_value y);
mlsys_value mlsi_b_reshape(mlsi_builder *b, mlsys_value x, int32_t rank, const mlsys_dim *shape);
mlsys_value mlsi_b_input(mlsi_builder *b, const char *name, mlsys_dtype dtype, int32_t rank,
                         const mlsys_dim *shape);
/* A constant of the caller's bytes. */
mlsys_value mlsi_b_const(mlsi_builder *b, mlsys_dtype dtype, int32_t rank, const int64_t *shape,
                         const void *bytes);
mlsys_value mlsi_b_scalar(mlsi_builder *b, float value);
/* A tensor of the model, which must have this shape and a float type, or a block type when it is a
 * matrix; absent optional ones give 0. Ask once for each name: an input cannot be made twice. */
mlsys_value mlsi_b_weight(mlsi_builder *b, const char *name, int32_t rank, const int64_t *shape,
                          bool optional);

#endif
