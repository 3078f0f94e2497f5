#include "api/api.h"
#include "train/dataset.h"

mlsys_status mlsys_dataset_open(mlsys_ctx ctx, const char *path, mlsys_config config,
                                mlsys_dataset *out) {
    API_COMPUTES;
    API_OUT_HANDLE(out, "dataset_open: out");
    API_NOT_NULL(path, "dataset_open: path");
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "dataset_open: ctx", &c));
    mlsi_config *set = NULL;
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "dataset_open: config", &set);
    if (st == MLSYS_OK) st = mlsi_dataset_open(c, path, set, out);
    mlsi_unpin_exclusive(set);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_dataset_wrap(mlsys_ctx ctx, int32_t n, const mlsys_tensor *fields,
                                mlsys_config config, mlsys_dataset *out) {
    API_COMPUTES;
    API_OUT_HANDLE(out, "dataset_wrap: out");
    API_NOT_NULL(fields, "dataset_wrap: fields");
    mlsi_ctx *c;
    mlsi_config *set = NULL;
    mlsi_tensor *tensors[MLSI_DATASET_FIELDS];
    if (n < 1 || n > MLSI_DATASET_FIELDS)
        return mlsi_fail(MLSYS_E_ARG, "dataset_wrap: n is %d, outside [1,%d]", n,
                         MLSI_DATASET_FIELDS);
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "dataset_wrap: ctx", &c));
    mlsys_status st = mlsi_api_pin_tensors(c, "dataset_wrap: fields", n, fields, false, tensors);
    if (st == MLSYS_OK && config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "dataset_wrap: config", &set);
    if (st == MLSYS_OK) st = mlsi_dataset_wrap(c, n, tensors, set, out);
    mlsi_unpin_exclusive(set);
    mlsi_api_unpin_tensors(n, tensors);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_dataset_size(mlsys_dataset dataset, int64_t *examples, int32_t *fields) {
    mlsi_dataset *d;
    MLSI_TRY(mlsi_pin(dataset, MLSYS_KIND_DATASET, "dataset_size: d", &d));
    if (examples) *examples = d->count;
    if (fields) *fields = d->n_fields;
    mlsi_unpin(d);
    return MLSYS_OK;
}

mlsys_status mlsys_dataset_batch(mlsys_dataset dataset, int64_t position, int64_t n, int32_t n_out,
                                 mlsys_tensor *out) {
    mlsi_dataset *d;
    API_NOT_NULL(out, "dataset_batch: out");
    for (int32_t i = 0; i < n_out && i < MLSI_DATASET_FIELDS; i++)
        out[i] = NULL;
    MLSI_TRY(mlsi_pin(dataset, MLSYS_KIND_DATASET, "dataset_batch: d", &d));
    mlsys_status st = MLSYS_OK;
    if (n_out != d->n_fields)
        st = mlsi_fail(MLSYS_E_ARG, "dataset_batch: n_out is %d, an example has %d fields", n_out,
                       d->n_fields);
    if (st == MLSYS_OK) st = mlsi_dataset_batch(d, position, n, out);
    mlsi_unpin(d);
    return st;
}
