#include "api/api.h"
#include "model/model.h"

static mlsys_status pin_config(mlsys_config config, const char *what, mlsi_config **out) {
    *out = NULL;
    return config ? mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, what, out) : MLSYS_OK;
}

/* Pins tensors one by one; *n counts those that are. */
static mlsys_status pin_tensors(int32_t count, const char *const *names,
                                const mlsys_tensor *handles, mlsi_tensor **out, int32_t *n) {
    for (*n = 0; *n < count; ++*n) {
        if (!names[*n]) return mlsi_fail(MLSYS_E_ARG, "model_adapt: names[%d] is NULL", *n);
        MLSI_TRY(mlsi_pin(handles[*n], MLSYS_KIND_TENSOR, "model_adapt: tensors", &out[*n]));
    }
    return MLSYS_OK;
}

mlsys_status mlsys_model_adapt(mlsys_model model, int32_t n, const char *const *names,
                               const mlsys_tensor *tensors, mlsys_config config, mlsys_model *out) {
    API_COMPUTES;
    mlsi_model *m;
    mlsi_config *c = NULL;
    mlsi_tensor **pinned = NULL;
    int32_t n_pinned = 0;
    API_OUT_HANDLE(out, "model_adapt: out");
    if (n < 0) return mlsi_fail(MLSYS_E_ARG, "model_adapt: n is %d", n);
    if (n) {
        API_NOT_NULL(names, "model_adapt: names");
        API_NOT_NULL(tensors, "model_adapt: tensors");
    }
    MLSI_TRY(mlsi_pin(model, MLSYS_KIND_MODEL, "model_adapt: m", &m));
    mlsys_status st = pin_config(config, "model_adapt: config", &c);
    if (st == MLSYS_OK) st = MLSI_NEW_N(&m->object.ctx->alloc, (int64_t)n + 1, &pinned);
    if (st == MLSYS_OK) st = pin_tensors(n, names, tensors, pinned, &n_pinned);
    if (st == MLSYS_OK) st = mlsi_model_adapt(m, n, names, pinned, c, out);
    for (int32_t i = 0; i < n_pinned; i++)
        mlsi_unpin(pinned[i]);
    mlsi_mem_free(&m->object.ctx->alloc, pinned);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(m);
    return st;
}

mlsys_status mlsys_model_save(mlsys_model model, const char *path, mlsys_config config) {
    API_COMPUTES;
    mlsi_model *m;
    mlsi_config *c = NULL;
    API_NOT_NULL(path, "model_save: path");
    MLSI_TRY(mlsi_pin(model, MLSYS_KIND_MODEL, "model_save: m", &m));
    mlsys_status st = pin_config(config, "model_save: config", &c);
    if (st == MLSYS_OK) st = mlsi_model_save(m, path, c);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(m);
    return st;
}
