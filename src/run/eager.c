/* Eager calls: the op's one-node graph gives types and checks; a kernel that takes the tensors as they
 * lie runs at once, anything else goes through a program. */
#include "run/program.h"

#include <string.h>

static mlsys_status run_program(mlsi_graph *g, mlsi_stream *s, int n_in, mlsi_tensor *const *in,
                                int n_out, mlsys_tensor *inout) {
    mlsi_program *p;
    mlsi_compile_options o;
    MLSI_TRY(mlsi_compile_options_read(g->ctx, NULL, &o));
    MLSI_TRY(MLSI_NEW(g->alloc, &p));
    mlsys_status st = mlsi_program_init(p, g, s->device, &o);
    if (st == MLSYS_OK) {
        st = mlsi_program_exec(p, s, n_in, in, n_out, inout);
        mlsi_bound_forget(p, s); /* or it would push out those of real programs */
        mlsi_program_free(p);
    }
    mlsi_mem_free(g->alloc, p);
    return st;
}

/* Facts of tensors as they lie. */
static void tensor_facts(const mlsi_view *v, mlsi_operand *o) {
    memset(o, 0, sizeof *o);
    o->present = true;
    o->dtype = v->dtype;
    o->rank = v->rank;
    memcpy(o->shape, v->shape, sizeof o->shape);
    o->contiguous = mlsi_view_contiguous(v);
    o->inner_unit = !v->rank || v->shape[v->rank - 1] == 1 || v->strides[v->rank - 1] == 1;
}

static mlsys_status call_kernel(mlsi_graph *g, const mlsi_kernel *k, const mlsi_node *node,
                                const mlsi_view *operands) {
    mlsi_kernel_args a = {.attrs = node->attrs,
                          .n_in = node->n_in,
                          .n_out = node->n_out,
                          .in = operands,
                          .out = operands + node->n_in,
                          .pool = g->ctx->pool};
    if (k->work) a.work_bytes = k->work(&a, mlsi_pool_threads(g->ctx->pool));
    if (a.work_bytes) MLSI_TRY(mlsi_mem_alloc(g->alloc, a.work_bytes, &a.work));
    mlsys_status st = k->run(&a);
    mlsi_mem_free(g->alloc, a.work);
    return st;
}

/* *done = false: no kernel takes these tensors directly. */
static mlsys_status run_kernel(mlsi_graph *g, mlsi_stream *s, mlsi_tensor *const *in, int n_out,
                               mlsys_tensor *inout, bool *done) {
    const mlsi_func *f = &g->funcs[0];
    const mlsi_node *node = &f->nodes[0];
    mlsi_view operands[2 * MLSI_MAX_OPERANDS];
    mlsi_operand facts[2 * MLSI_MAX_OPERANDS];
    mlsys_tensor made[MLSI_MAX_OPERANDS] = {0};
    mlsi_tensor *outs[MLSI_MAX_OPERANDS] = {0};
    mlsi_pass_ctx pass = {g, s->device, &mlsi_cpu_backend, (mlsi_isa)g->ctx->isa_limit,
                          MLSI_STABLE};
    mlsys_status st = MLSYS_OK;
    *done = false;
    if (node->op == MLSI_OP_CUSTOM || !mlsi_is_host(s->device)) return MLSYS_OK;
    for (int i = 0; i < node->n_in; i++) /* refused with the sentence of a program's run */
        if (node->in[i] >= 0 && in[f->values[node->in[i]].index]->device != s->device)
            return MLSYS_OK;
    memset(operands, 0, sizeof operands);
    memset(facts, 0, sizeof facts);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) {
            operands[i] = mlsi_tensor_view_of(in[f->values[node->in[i]].index]);
            tensor_facts(&operands[i], &facts[node->in[i]]);
        }
    for (int o = 0; o < n_out; o++) {
        mlsi_layout_facts_of(g, 0, node->first_out + o, facts);
        facts[node->first_out + o].contiguous = facts[node->first_out + o].inner_unit = true;
        if (inout[o]) return MLSYS_OK; /* given outputs take the checked road of a program */
    }
    const mlsi_kernel *k = mlsi_choose_kernel(&pass, node, facts, false);
    if (!k) return MLSYS_OK;
    for (int o = 0; o < n_out && st == MLSYS_OK; o++) {
        mlsi_layout l;
        st = mlsi_type_layout(&g->symbols, &f->values[node->first_out + o].type, NULL, &l);
        if (st == MLSYS_OK) st = mlsi_tensor_new(s->device, &l, &made[o]);
        if (st == MLSYS_OK) st = mlsi_pin(made[o], MLSYS_KIND_TENSOR, "op_run", &outs[o]);
        if (st == MLSYS_OK) operands[node->n_in + o] = mlsi_tensor_view_of(outs[o]);
    }
    if (st == MLSYS_OK) st = call_kernel(g, k, node, operands);
    for (int o = 0; o < n_out; o++) {
        mlsi_unpin(outs[o]);
        if (st == MLSYS_OK)
            inout[o] = made[o];
        else
            mlsys_release(made[o]);
    }
    *done = true;
    return st;
}

mlsys_status mlsi_eager_run(mlsi_graph *g, mlsi_stream *s, int n_in, mlsi_tensor *const *in,
                            int n_out, mlsys_tensor *inout) {
    bool done;
    MLSI_TRY(run_kernel(g, s, in, n_out, inout, &done));
    return done ? MLSYS_OK : run_program(g, s, n_in, in, n_out, inout);
}
