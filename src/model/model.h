/* An open model file as an object: bytes, index, tensors. Immutable, so any thread may use it. */
#ifndef MLSI_MODEL_H
#define MLSI_MODEL_H

#include "core/tensor.h"
#include "core/file_bytes.h"
#include "model/gguf.h"

/* A tensor that an adapted model has in the place of a file's, or one half of an adapter. */
typedef struct mlsi_model_change {
    mlsi_gguf_tensor as; /* name and layout as of a tensor of the file; data is the tensor's */
    mlsi_tensor *tensor; /* pinned; row-major without gaps, on the CPU */
    float scale;         /* of NAME.lora_a: what b a is multiplied by */
} mlsi_model_change;

typedef struct mlsi_model {
    mlsi_object object;
    mlsi_file_bytes file;
    mlsi_gguf *gguf; /* of an adapted model its base's */
    /* Of a model made by mlsi_model_adapt: the model of the file, pinned (never itself adapted), and what
     * differs from it, in ascending order of names. */
    struct mlsi_model *base;
    mlsi_arena arena; /* names of changes */
    mlsi_model_change *changes;
    int64_t n_changes;
} mlsi_model;

/* Keys of the config of mlsys_model_open. */
const mlsi_config_key *mlsi_model_open_config_keys(int *n);

mlsys_status mlsi_model_open(mlsi_ctx *ctx, const char *path, const mlsi_config *config,
                             mlsys_model *out);
void mlsi_model_free(mlsi_alloc *a, mlsi_model *m);
void mlsi_model_destroy(mlsi_object *self); /* of its handle */
/* The tensor of this name: the one that replaces it, an adapter's, or the file's; NULL when absent. */
const mlsi_gguf_tensor *mlsi_model_find(const mlsi_model *m, const char *name);
/* The same as an error NOTFOUND that names file and tensor. */
mlsys_status mlsi_model_get(const mlsi_model *m, const char *name, const mlsi_gguf_tensor **out);
/* The change of this name, NULL when there is none. */
const mlsi_model_change *mlsi_model_change_find(const mlsi_model *m, const char *name);
/* A tensor that mlsi_model_find gave, read-only over the file's bytes, which keeps the model alive; or one
 * more over a replacing tensor's memory. */
mlsys_status mlsi_model_tensor(mlsi_model *m, const mlsi_gguf_tensor *t, mlsys_tensor *out);
/* Lines "key: value": format, metadata, then tensors. */
void mlsi_model_describe(const mlsi_model *m, mlsi_text *out);

/* ---- adapted models (adapt.c) ------------------------------------------------------------------ */

const mlsi_config_key *mlsi_model_adapt_config_keys(int *n);
mlsys_status mlsi_model_adapt(mlsi_model *m, int32_t n, const char *const *names,
                              mlsi_tensor *const *tensors, const mlsi_config *config,
                              mlsys_model *out);
/* "NAME.lora_a" or "NAME.lora_b": which, 'a' or 'b', and the length of NAME; 0 for other names. */
char mlsi_adapter_name(const char *name, size_t *stem);

/* ---- writing (save.c) --------------------------------------------------------------------------- */

const mlsi_config_key *mlsi_model_save_config_keys(int *n);
mlsys_status mlsi_model_save(mlsi_model *m, const char *path, const mlsi_config *config);

#endif
