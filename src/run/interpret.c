#include "run/program.h"

#include <string.h>

typedef struct results {
    mlsi_tensor *tensors[MLSI_MAX_ARGS];
    mlsys_tensor made[MLSI_MAX_ARGS];
    mlsi_view views[MLSI_MAX_ARGS];
} results;

static mlsys_status take_result(const mlsi_graph *g, mlsi_device *device, const int64_t *binding, int o,
                                mlsys_tensor given, results *r) {
    const mlsi_func *f = &g->funcs[0];
    mlsi_layout want;
    MLSI_TRY(mlsi_type_layout(&g->symbols, &f->values[f->outputs[o].value].type, binding, &want));
    if (!given) MLSI_TRY(mlsi_tensor_new(device, &want, &r->made[o]));
    MLSI_TRY(mlsi_pin(given ? given : r->made[o], MLSYS_KIND_TENSOR, "interpret: output",
                      &r->tensors[o]));
    const mlsi_layout *have = &r->tensors[o]->layout;
    char a[128], b[128];
    if (have->dtype != want.dtype || have->rank != want.rank ||
        memcmp(have->shape, want.shape, sizeof(int64_t) * (size_t)want.rank))
        return mlsi_fail(MLSYS_E_SHAPE, "interpret: output %d is %s, expected %s", o,
                         mlsi_layout_text(have, a, sizeof a), mlsi_layout_text(&want, b, sizeof b));
    if (given) MLSI_TRY(mlsi_tensor_writable(r->tensors[o], "interpret: output"));
    r->views[o] = mlsi_tensor_view_of(r->tensors[o]);
    return MLSYS_OK;
}

static mlsys_status interpret(const mlsi_graph *g, mlsi_device *device, const int64_t *binding,
                              int n_in, mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    mlsi_view views[MLSI_MAX_ARGS];
    results r;
    mlsys_status st = MLSYS_OK;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < n_in; i++) views[i] = mlsi_tensor_view_of(in[i]);
    for (int o = 0; o < n_out && st == MLSYS_OK; o++)
        st = take_result(g, device, binding, o, inout[o], &r);
    if (st == MLSYS_OK) st = mlsi_interpret(g, 0, n_in, views, n_out, r.views);
    for (int o = 0; o < n_out; o++) {
        mlsi_unpin(r.tensors[o]);
        if (st == MLSYS_OK && r.made[o]) inout[o] = r.made[o];
        if (st != MLSYS_OK) mlsys_release(r.made[o]);
    }
    return st;
}

mlsys_status mlsi_interpret_tensors(const mlsi_graph *g, mlsi_device *device, int n_in,
                                    mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    const mlsi_func *f = &g->funcs[0];
    const mlsi_layout *layouts[MLSI_MAX_ARGS];
    int64_t *binding;
    if (n_in != f->n_inputs || n_out != f->n_outputs)
        return mlsi_fail(MLSYS_E_ARG, "interpret: %d inputs and %d outputs given, the graph has %lld and %lld",
                         n_in, n_out, (long long)f->n_inputs, (long long)f->n_outputs);
    MLSI_TRY(mlsi_graph_verify(g));
    for (int i = 0; i < n_in; i++) layouts[i] = &in[i]->layout;
    MLSI_TRY(MLSI_NEW_N(g->alloc, g->symbols.n_symbols + 1, &binding));
    mlsys_status st = mlsi_bind_inputs(g, 0, n_in, layouts, binding);
    if (st == MLSYS_OK) st = interpret(g, device, binding, n_in, in, n_out, inout);
    mlsi_mem_free(g->alloc, binding);
    return st;
}
