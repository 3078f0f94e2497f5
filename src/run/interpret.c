/* The reference interpreter on tensors. */
#include "run/program.h"

#include <string.h>

typedef struct results {
    mlsi_tensor *tensors[MLSI_MAX_ARGS];
    mlsys_tensor made[MLSI_MAX_ARGS];
    mlsi_view *views; /* inputs, then outputs */
} results;

static mlsys_status check_result(const mlsi_layout *want, int o, const results *r, int n_in,
                                 mlsi_tensor *const *in) {
    const mlsi_tensor *t = r->tensors[o];
    mlsi_range range = mlsi_tensor_range(t);
    char a[128], b[128];
    if (t->layout.dtype != want->dtype || t->layout.rank != want->rank ||
        memcmp(t->layout.shape, want->shape, sizeof(int64_t) * (size_t)want->rank))
        return mlsi_fail(t->layout.dtype == want->dtype ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                         "interpret: output %d is %s, expected %s", o,
                         mlsi_layout_text(&t->layout, a, sizeof a),
                         mlsi_layout_text(want, b, sizeof b));
    MLSI_TRY(mlsi_tensor_writable(t, "interpret: output"));
    for (int i = 0; i < n_in; i++)
        if (mlsi_ranges_meet(range, mlsi_tensor_range(in[i])))
            return mlsi_fail(MLSYS_E_ARG, "interpret: output %d shares memory with input %d", o, i);
    for (int j = 0; j < o; j++)
        if (mlsi_ranges_meet(range, mlsi_tensor_range(r->tensors[j])))
            return mlsi_fail(MLSYS_E_ARG, "interpret: output %d shares memory with output %d", o,
                             j);
    return MLSYS_OK;
}

static mlsys_status take_result(const mlsi_graph *g, mlsi_device *device, const int64_t *binding,
                                int o, int n_in, mlsi_tensor *const *in, mlsys_tensor given,
                                results *r) {
    const mlsi_func *f = &g->funcs[0];
    mlsi_layout want;
    MLSI_TRY(mlsi_type_layout(&g->symbols, &f->values[f->outputs[o].value].type, binding, &want));
    if (!given) MLSI_TRY(mlsi_tensor_new(device, &want, &r->made[o]));
    MLSI_TRY(mlsi_pin(given ? given : r->made[o], MLSYS_KIND_TENSOR, "interpret: output",
                      &r->tensors[o]));
    if (r->tensors[o]->object.ctx != g->ctx)
        return mlsi_fail(MLSYS_E_ARG, "interpret: output %d is from another context", o);
    if (given) MLSI_TRY(check_result(&want, o, r, n_in, in));
    r->views[n_in + o] = mlsi_tensor_view_of(r->tensors[o]);
    return MLSYS_OK;
}

static mlsys_status interpret(const mlsi_graph *g, mlsi_stream *s, const int64_t *binding, int n_in,
                              mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    const mlsi_interpret_custom custom = {mlsi_custom_run, s};
    results r;
    memset(&r, 0, sizeof r);
    MLSI_TRY(MLSI_NEW_N(g->alloc, n_in + n_out + 1, &r.views));
    mlsys_status st = MLSYS_OK;
    for (int i = 0; i < n_in && st == MLSYS_OK; i++) {
        r.views[i] = mlsi_tensor_view_of(in[i]);
        st = mlsi_tensor_on_host(in[i], "interpret: input");
    }
    for (int o = 0; o < n_out && st == MLSYS_OK; o++)
        st = take_result(g, s->device, binding, o, n_in, in, inout[o], &r);
    for (int o = 0; o < n_out && st == MLSYS_OK; o++)
        mlsi_storage_written(r.tensors[o]->storage);
    if (st == MLSYS_OK)
        st = mlsi_interpret_with(g, 0, n_in, r.views, n_out, r.views + n_in, &custom);
    for (int o = 0; o < n_out; o++) {
        mlsi_unpin(r.tensors[o]);
        if (st == MLSYS_OK && r.made[o]) inout[o] = r.made[o];
        if (st != MLSYS_OK) mlsys_release(r.made[o]);
    }
    mlsi_mem_free(g->alloc, r.views);
    return st;
}

mlsys_status mlsi_interpret_tensors(const mlsi_graph *g, mlsi_stream *s, int n_in,
                                    mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    const mlsi_func *f = &g->funcs[0];
    const mlsi_layout *layouts[MLSI_MAX_ARGS];
    int64_t *binding;
    if (n_in != f->n_inputs || n_out != f->n_outputs)
        return mlsi_fail(MLSYS_E_ARG,
                         "interpret: %d inputs and %d outputs given, the graph has %lld and %lld",
                         n_in, n_out, (long long)f->n_inputs, (long long)f->n_outputs);
    MLSI_TRY(mlsi_graph_verify(g));
    for (int i = 0; i < n_in; i++)
        layouts[i] = &in[i]->layout;
    MLSI_TRY(MLSI_NEW_N(g->alloc, g->symbols.n_symbols + 1, &binding));
    mlsys_status st = mlsi_bind_inputs(g, 0, n_in, layouts, binding);
    if (st == MLSYS_OK) st = interpret(g, s, binding, n_in, in, n_out, inout);
    mlsi_mem_free(g->alloc, binding);
    return st;
}
