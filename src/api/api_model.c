#include "api/api.h"
#include "model/model.h"

mlsys_status mlsys_model_open(mlsys_ctx ctx, const char *path, mlsys_config config,
                              mlsys_model *out) {
    API_COMPUTES;
    API_OUT_HANDLE(out, "model_open: out");
    API_NOT_NULL(path, "model_open: path");
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "model_open: ctx", &c));
    mlsi_config *set = NULL;
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "model_open: config", &set);
    if (st == MLSYS_OK) st = mlsi_model_open(c, path, set, out);
    mlsi_unpin_exclusive(set);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_model_describe(mlsys_model m, char *buf, uint64_t cap, uint64_t *need) {
    API_COMPUTES;
    API_TEXT(buf, cap, "model_describe");
    mlsi_model *model;
    MLSI_TRY(mlsi_pin(m, MLSYS_KIND_MODEL, "model_describe: m", &model));
    mlsi_text text;
    mlsi_text_init(&text, &model->object.ctx->alloc);
    mlsi_model_describe(model, &text);
    mlsys_status st = mlsi_text_out(&text, buf, cap, need);
    mlsi_unpin(model);
    return st;
}

mlsys_status mlsys_model_meta(mlsys_model m, const char *key, char *buf, uint64_t cap,
                              uint64_t *need) {
    API_COMPUTES;
    API_TEXT(buf, cap, "model_meta");
    API_NOT_NULL(key, "model_meta: key");
    mlsi_model *model;
    MLSI_TRY(mlsi_pin(m, MLSYS_KIND_MODEL, "model_meta: m", &model));
    const mlsi_gguf_kv *kv = mlsi_gguf_find(model->gguf, key);
    mlsys_status st;
    if (kv) {
        mlsi_text text;
        mlsi_text_init(&text, &model->object.ctx->alloc);
        mlsi_gguf_value_text(kv, false, UINT64_MAX, &text);
        st = mlsi_text_out(&text, buf, cap, need);
    } else {
        st = mlsi_fail(MLSYS_E_NOTFOUND, "model_meta: %s: no metadata key \"%.96s\"",
                       model->gguf->file, key);
    }
    mlsi_unpin(model);
    return st;
}

mlsys_status mlsys_model_tensor(mlsys_model m, const char *name, mlsys_tensor *out) {
    API_OUT_HANDLE(out, "model_tensor: out");
    API_NOT_NULL(name, "model_tensor: name");
    mlsi_model *model;
    const mlsi_gguf_tensor *t;
    MLSI_TRY(mlsi_pin(m, MLSYS_KIND_MODEL, "model_tensor: m", &model));
    mlsys_status st = mlsi_model_get(model, name, &t);
    if (st != MLSYS_OK)
        st = mlsi_fail_in(st, "model_tensor");
    else
        st = mlsi_model_tensor(model, t, out);
    mlsi_unpin(model);
    return st;
}
