/* An open model file as an object: bytes, index, tensors. Immutable, so any thread may use it. */
#ifndef MLSI_MODEL_H
#define MLSI_MODEL_H

#include "core/tensor.h"
#include "core/file_bytes.h"
#include "model/gguf.h"

typedef struct mlsi_model {
    mlsi_object object;
    mlsi_file_bytes file;
    mlsi_gguf *gguf;
} mlsi_model;

/* Keys of the config of mlsys_model_open. */
const mlsi_config_key *mlsi_model_open_config_keys(int *n);

mlsys_status mlsi_model_open(mlsi_ctx *ctx, const char *path, const mlsi_config *config,
                             mlsys_model *out);
/* A read-only tensor over the file's bytes, which keeps the model alive. */
mlsys_status mlsi_model_tensor(mlsi_model *m, const mlsi_gguf_tensor *t, mlsys_tensor *out);
/* Lines "key: value": format, metadata, then tensors. */
void mlsi_model_describe(const mlsi_model *m, mlsi_text *out);

#endif
