#include "api/api.h"
#include "model/model.h"

static mlsys_status pin_config(mlsys_config config, const char *what, mlsi_config **out) {
    *out = NULL;
    return config ? mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, what, out) : MLSYS_OK;
}

mlsys_status mlsys_model_adapt(mlsys_model model, int32_t n, const char *const *names,
                               const mlsys_tensor *tensors, mlsys_config config, mlsys_model *out) {
    API_COMPUTES;
    mlsi_model *m;
    mlsi_config *c = NULL;
    mlsi_tensor **pinned = NULL;
    API_OUT_HANDLE(out, "model_adapt: out");
    if (n < 0) return mlsi_fail(MLSYS_E_ARG, "model_adapt: n is %d", n);
    if (n) {
        API_NOT_NULL(names, "model_adapt: names");
        API_NOT_NULL(tensors, "model_adapt: tensors");
    }
    MLSI_TRY(mlsi_pin(model, MLSYS_KIND_MODEL, "model_adapt: m", &m));
    mlsys_status st = pin_config(config, "model_adapt: config", &c);
    if (st == MLSYS_OK) st = MLSI_NEW_N(&m->object.ctx->alloc, (int64_t)n + 1, &pinned);
    for (int32_t i = 0; i < n && st == MLSYS_OK; i++)
        if (!names[i]) st = mlsi_fail(MLSYS_E_ARG, "model_adapt: names[%d] is NULL", i);
    if (st == MLSYS_OK)
        st = mlsi_api_pin_tensors(NULL, "model_adapt: tensors", n, tensors, false, pinned);
    if (st == MLSYS_OK) st = mlsi_model_adapt(m, n, names, pinned, c, out);
    mlsi_api_unpin_tensors(n, pinned);
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
