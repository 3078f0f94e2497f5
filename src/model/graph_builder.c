#include "model/graph_builder.h"

#include <string.h>

static mlsys_config make_config(mlsi_builder *b, const mlsi_set *attrs) {
    mlsys_config c = NULL;
    if (!attrs || b->st != MLSYS_OK) return NULL;
    b->st = mlsys_config_create(&c);
    for (const mlsi_set *a = attrs; a->type && b->st == MLSYS_OK; a++) {
        if (a->type == 'i') b->st = mlsys_config_set_i64(c, a->key, a->i);
        if (a->type == 'f') b->st = mlsys_config_set_f64(c, a->key, a->f);
        if (a->type == 's') b->st = mlsys_config_set_str(c, a->key, a->s);
        if (a->type == 'v') b->st = mlsys_config_set_i64s(c, a->key, a->n, a->v);
    }
    return c;
}

mlsys_value mlsi_b_op(mlsi_builder *b, const char *op, int32_t n_in, const mlsys_value *in,
                      const mlsi_set *attrs) {
    mlsys_value out = 0;
    mlsys_config c = make_config(b, attrs);
    if (b->st == MLSYS_OK) b->st = mlsys_graph_op(b->g, op, n_in, in, c, 1, &out);
    mlsys_release(c);
    return out;
}

mlsys_value mlsi_b_unary(mlsi_builder *b, const char *op, mlsys_value x) {
    return mlsi_b_op(b, op, 1, &x, NULL);
}

mlsys_value mlsi_b_binary(mlsi_builder *b, const char *op, mlsys_value x, mlsys_value y) {
    mlsys_value in[2] = {x, y};
    return mlsi_b_op(b, op, 2, in, NULL);
}

mlsys_value mlsi_b_reshape(mlsi_builder *b, mlsys_value x, int32_t rank, const mlsys_dim *shape) {
    mlsi_set attrs[] = {MLSI_SET_V("shape", rank, shape), MLSI_SET_END};
    return mlsi_b_op(b, "reshape", 1, &x, attrs);
}

mlsys_value mlsi_b_input(mlsi_builder *b, const char *name, mlsys_dtype dtype, int32_t rank,
                         const mlsys_dim *shape) {
    mlsys_value v = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_input(b->g, name, dtype, rank, shape, &v);
    return v;
}

mlsys_value mlsi_b_const(mlsi_builder *b, mlsys_dtype dtype, int32_t rank, const int64_t *shape,
                         const void *bytes) {
    mlsys_tensor t = NULL;
    mlsys_value v = 0;
    void *data;
    uint64_t n;
    if (b->st == MLSYS_OK) b->st = mlsys_tensor_create(b->device, dtype, rank, shape, &t);
    if (b->st == MLSYS_OK) b->st = mlsys_tensor_data(t, &data, &n);
    if (b->st == MLSYS_OK) {
        memcpy(data, bytes, n);
        b->st = mlsys_graph_const(b->g, t, &v);
    }
    mlsys_release(t);
    return v;
}

mlsys_value mlsi_b_scalar(mlsi_builder *b, float value) {
    return mlsi_b_const(b, MLSYS_F32, 0, NULL, &value);
}

mlsys_value mlsi_b_weight(mlsi_builder *b, const char *name, int32_t rank, const int64_t *shape,
                          bool optional) {
    mlsys_tensor t = NULL;
    mlsys_value v = 0;
    mlsi_layout want;
    char have[128], expected[128];
    if (b->st != MLSYS_OK) return 0;
    const mlsi_gguf_tensor *found = mlsi_model_find(b->m, name);
    if (!found && optional) return 0;
    b->st = mlsi_model_get(b->m, name, &found);
    if (b->st != MLSYS_OK) return 0;
    if (found->layout.rank != rank ||
        memcmp(found->layout.shape, shape, sizeof *shape * (size_t)rank)) {
        memset(&want, 0, sizeof want);
        want.dtype = found->layout.dtype;
        want.rank = rank;
        memcpy(want.shape, shape, sizeof *shape * (size_t)rank);
        b->st =
            mlsi_fail(MLSYS_E_FORMAT, "model: %s: tensor \"%s\" is %s, expected %s",
                      b->m->gguf->file, name, mlsi_layout_text(&found->layout, have, sizeof have),
                      mlsi_layout_text(&want, expected, sizeof expected));
        return 0;
    }
    if (!mlsi_dtype_is_float(found->layout.dtype) &&
        !(rank == 2 && mlsi_dtype_is_block(found->layout.dtype))) {
        b->st =
            mlsi_fail(MLSYS_E_FORMAT, "model: %s: tensor \"%s\" is %s, expected %s",
                      b->m->gguf->file, name, mlsi_layout_text(&found->layout, have, sizeof have),
                      rank == 2 ? "a float or block type" : "a float type");
        return 0;
    }
    if (b->trainable) return mlsi_b_input(b, name, MLSYS_F32, rank, shape);
    b->st = mlsi_model_tensor(b->m, found, &t);
    if (b->st == MLSYS_OK) b->st = mlsys_graph_const(b->g, t, &v);
    mlsys_release(t);
    return v;
}
