#include "api/api.h"
#include "model/arch.h"

mlsys_status mlsys_model_graph(mlsys_model model, mlsys_config config, mlsys_graph *out) {
    API_COMPUTES;
    mlsi_model *m;
    mlsi_config *c = NULL;
    mlsi_decoder_params p;
    mlsi_graph_options o;
    int n;
    API_OUT_HANDLE(out, "model_graph: out");
    MLSI_TRY(mlsi_pin(model, MLSYS_KIND_MODEL, "model_graph: m", &m));
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "model_graph: config", &c);
    const mlsi_config_key *keys = mlsi_model_graph_config_keys(&n);
    if (st == MLSYS_OK) st = mlsi_config_check(c, "model", keys, n);
    if (st == MLSYS_OK) st = mlsi_graph_options_read(m, c, &o);
    if (st == MLSYS_OK) st = mlsi_decoder_params_read(m, &p);
    if (st == MLSYS_OK) st = mlsi_decoder_build(m, &p, &o, out);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(m);
    return st;
}
