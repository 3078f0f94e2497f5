#include "api/api.h"
#include "run/tune.h"

#include <string.h>

static mlsys_status tune(mlsi_program *p, int32_t n, const char *const *names,
                         const int64_t *values, const mlsi_config *c, mlsi_tune_options *o,
                         mlsys_tune_report *report) {
    mlsi_bound *b;
    int n_keys;
    const mlsi_config_key *keys = mlsi_tune_config_keys(&n_keys);
    MLSI_TRY(mlsi_config_check(c, "tune", keys, n_keys));
    o->budget_ms = mlsi_config_i64(c, "budget_ms", 10000);
    o->candidates = mlsi_config_i64(c, "candidates", 256);
    o->seed = (uint64_t)mlsi_config_i64(c, "seed", 0);
    MLSI_TRY(mlsi_bound_create(p, &b));
    mlsys_status st = mlsi_bound_names(b, n, names, values);
    if (st == MLSYS_OK) st = mlsi_tune_program(p, b->wanted, o, report);
    mlsi_bound_free(p->graph.alloc, b);
    return st;
}

mlsys_status mlsys_program_tune(mlsys_program program, int32_t n, const char *const *names,
                                const int64_t *values, mlsys_config config,
                                int32_t (*progress)(void *user, const mlsys_tune_progress *at),
                                void *user, mlsys_tune_report *out) {
    API_COMPUTES;
    mlsi_program *p;
    mlsi_config *c = NULL;
    mlsi_tune_options o = {.progress = progress, .user = user};
    mlsys_tune_report report = {.size = out ? out->size : 0};
    if (out && out->size < sizeof(uint64_t))
        return mlsi_fail(MLSYS_E_ARG, "program_tune: out->size is %llu",
                         (unsigned long long)out->size);
    MLSI_TRY(mlsi_api_check_names("program_tune", n, names, values));
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_tune: p", &p));
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "program_tune: config", &c);
    if (st == MLSYS_OK) st = tune(p, n, names, values, c, &o, &report);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(p);
    if (out) memcpy(out, &report, out->size < sizeof report ? (size_t)out->size : sizeof report);
    return st;
}
