#include "api/api.h"
#include "autodiff/checkpoint.h"
#include "engine/generator.h"
#include "ir/ops/op_def.h"
#include "ir/passes/passes.h"
#include "model/arch.h"
#include "model/model.h"
#include "run/program.h"
#include "run/tune.h"
#include "train/trainer.h"
#include "train/dataset.h"

static mlsys_status set(mlsys_config config, const char *what, const char *key,
                        const mlsi_config_entry *value) {
    mlsi_config *c;
    MLSI_TRY(mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, what, &c));
    mlsys_status st = mlsi_config_set(c, key, value);
    mlsi_unpin_exclusive(c);
    return st;
}

mlsys_status mlsys_config_create(mlsys_config *out) {
    API_OUT_HANDLE(out, "config_create: out");
    return mlsi_config_create(out);
}

mlsys_status mlsys_config_set_i64(mlsys_config config, const char *key, int64_t value) {
    mlsi_config_entry e = {.type = 'i', .i = value};
    return set(config, "config_set_i64: config", key, &e);
}

mlsys_status mlsys_config_set_f64(mlsys_config config, const char *key, double value) {
    mlsi_config_entry e = {.type = 'f', .f = value};
    return set(config, "config_set_f64: config", key, &e);
}

mlsys_status mlsys_config_set_str(mlsys_config config, const char *key, const char *value) {
    API_NOT_NULL(value, "config_set_str: value");
    mlsi_config_entry e = {.type = 's', .s = (char *)value};
    return set(config, "config_set_str: config", key, &e);
}

mlsys_status mlsys_config_set_i64s(mlsys_config config, const char *key, int32_t n,
                                   const int64_t *values) {
    mlsi_config_entry e = {.type = 'v', .n = n};
    int32_t room = (int32_t)(sizeof e.v / sizeof e.v[0]);
    if (n < 0 || n > room)
        return mlsi_fail(MLSYS_E_ARG, "config_set_i64s: n is %d, outside 0..%d", n, room);
    if (n) {
        API_NOT_NULL(values, "config_set_i64s: values");
        memcpy(e.v, values, (size_t)n * sizeof e.v[0]);
    }
    return set(config, "config_set_i64s: config", key, &e);
}

mlsys_status mlsys_config_get_i64(mlsys_config config, const char *key, int64_t *out) {
    API_NOT_NULL(key, "config_get_i64: key");
    API_NOT_NULL(out, "config_get_i64: out");
    mlsi_config *c;
    MLSI_TRY(mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "config_get_i64: config", &c));
    const mlsi_config_entry *e = mlsi_config_find(c, key);
    mlsys_status st = MLSYS_OK;
    if (!e)
        st = mlsi_fail(MLSYS_E_NOTFOUND, "config_get_i64: no key \"%s\"", key);
    else if (e->type != 'i')
        st = mlsi_fail(MLSYS_E_ARG, "config_get_i64: key \"%s\" is not an integer", key);
    else
        *out = e->i;
    mlsi_unpin_exclusive(c);
    return st;
}

/* Every scope of mlsys_config_keys that is a table; other names are looked up as ops. */
static const struct {
    const char *scope;
    const mlsi_config_key *(*keys)(int *n);
} scopes[] = {
    {"ctx", mlsi_ctx_config_keys},
    {"profile", mlsi_profile_config_keys},
    {"compile", mlsi_compile_config_keys},
    {"tune", mlsi_tune_config_keys},
    {"export", mlsi_export_config_keys},
    {"model", mlsi_model_graph_config_keys},
    {"generate", mlsi_generator_config_keys},
    {"model_open", mlsi_model_open_config_keys},
    {"dataset", mlsi_dataset_config_keys},
    {"model_adapt", mlsi_model_adapt_config_keys},
    {"model_save", mlsi_model_save_config_keys},
    {"check_gradient", mlsi_check_gradient_config_keys},
    {"trainer", mlsi_trainer_config_keys},
    {"gradient", mlsi_gradient_config_keys},
    {"narrow", mlsi_narrow_config_keys},
};

mlsys_status mlsys_config_keys(const char *scope, char *buf, uint64_t cap, uint64_t *need) {
    API_COMPUTES;
    API_NOT_NULL(scope, "config_keys: scope");
    API_TEXT(buf, cap, "config_keys");
    mlsi_text text;
    mlsi_text_init(&text, &mlsi_alloc_process);
    mlsi_op op = mlsi_op_by_name(scope);
    size_t i = 0, n_scopes = sizeof scopes / sizeof scopes[0];
    while (i < n_scopes && strcmp(scopes[i].scope, scope))
        i++;
    if (i < n_scopes) {
        int n;
        const mlsi_config_key *keys = scopes[i].keys(&n);
        mlsi_config_keys_text(keys, n, &text);
    } else if (!strcmp(scope, "generator_stats")) {
        mlsi_generator_stats_text(&text);
    } else if (!strcmp(scope, "trainer_stats")) {
        mlsi_trainer_stats_text(&text);
    } else if (op != MLSI_OP_COUNT) {
        mlsi_op_attrs_text(op, &text);
    } else {
        return mlsi_fail(MLSYS_E_NOTFOUND, "config_keys: unknown scope \"%.64s\"", scope);
    }
    return mlsi_text_out(&text, buf, cap, need);
}
