/* Rebuilding a function, node by node. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

static void mark_live(const mlsi_func *f, uint8_t *live) {
    for (int64_t i = 0; i < f->n_outputs; i++)
        live[f->outputs[i].value] = 1;
    for (int64_t n = f->n_nodes - 1; n >= 0; n--) {
        const mlsi_node *node = &f->nodes[n];
        bool used = false;
        for (int i = 0; i < node->n_out; i++)
            used |= live[node->first_out + i];
        for (int i = 0; used && i < node->n_in; i++)
            if (node->in[i] >= 0) live[node->in[i]] = 1;
    }
}

void mlsi_rewrite_by(mlsi_rewrite *rw, mlsi_reason by, const char *identity) {
    rw->by = by;
    rw->identity = identity;
}

static void record(mlsi_rewrite *rw, int32_t value, mlsi_reason by, const char *identity) {
    if (rw->why) rw->why[value] = (mlsi_proof_pair){value, -1, by, identity};
}

static mlsys_status rebuild_node(mlsi_rewrite *rw, const mlsi_node *node, mlsi_visit_fn visit) {
    int32_t out[MLSI_MAX_OPERANDS];
    mlsi_rewrite_by(rw, MLSI_BY_SAME, NULL);
    MLSI_TRY(visit(rw, node, out));
    for (int i = 0; i < node->n_out; i++) {
        rw->map[node->first_out + i] = out[i];
        record(rw, node->first_out + i, rw->by, rw->identity);
    }
    return MLSYS_OK;
}

static mlsys_status rebuild_outputs(mlsi_rewrite *rw, mlsi_output_fn output) {
    for (int64_t i = 0; i < rw->old.n_outputs; i++) {
        const mlsi_output *o = &rw->old.outputs[i];
        int32_t value = rw->map[o->value];
        if (mlsi_fault(MLSI_FAULT_REWRITE_OUTPUT)) value = rw->map[rw->old.outputs[0].value];
        if (output) MLSI_TRY(output(rw, i, &value));
        MLSI_TRY(mlsi_build_output(rw->g, rw->func, o->name, value));
    }
    return MLSYS_OK;
}

static mlsys_status rebuild_live(mlsi_rewrite *rw, const uint8_t *live, int64_t n,
                                 mlsi_visit_fn visit) {
    const mlsi_node *node = &rw->old.nodes[n];
    bool used = false;
    for (int i = 0; i < node->n_out; i++)
        used |= live[node->first_out + i];
    return used ? rebuild_node(rw, node, visit) : MLSYS_OK;
}

/* In the order of the values; nodes behind the others where an order is given. */
static mlsys_status rebuild_values(mlsi_rewrite *rw, const uint8_t *live, mlsi_visit_fn visit) {
    const mlsi_func *f = &rw->old;
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            MLSI_TRY(mlsi_build_input(rw->g, rw->func, def->name, &def->type, &rw->map[v]));
            mlsi_func *made = &rw->g->funcs[rw->func];
            made->donated[made->n_inputs - 1] =
                f->donated[def->index] || mlsi_fault(MLSI_FAULT_REWRITE_DONATED);
            record(rw, (int32_t)v, MLSI_BY_INPUT, NULL);
        } else if (def->kind == MLSI_VALUE_CONST) {
            if (!live[v]) continue;
            MLSI_TRY(mlsi_rewrite_constant(rw, def->index, &rw->map[v]));
            record(rw, (int32_t)v, MLSI_BY_CONSTANT, NULL);
        } else if (def->result == 0 && !rw->order) {
            MLSI_TRY(rebuild_live(rw, live, def->index, visit));
        }
    }
    for (int64_t i = 0; rw->order && i < f->n_nodes; i++)
        MLSI_TRY(rebuild_live(rw, live, rw->order[i], visit));
    return MLSYS_OK;
}

/* The new body stands at func, the old one at rw->func. */
static mlsys_status prove(mlsi_rewrite *rw, int32_t func) {
    const mlsi_pass_ctx *p = rw->pass;
    const mlsi_proof_claim claim = {rw->g, rw->func, func, func, p->name, p->numerics};
    mlsi_certificate c;
    mlsys_status st = MLSYS_OK;
    if (!rw->why) return MLSYS_OK;
    mlsi_certificate_init(&c, rw->g->alloc, p->name, p->numerics, func);
    for (int32_t v = 0; v < rw->old.n_values && st == MLSYS_OK; v++)
        if (rw->map[v] >= 0)
            st = mlsi_certificate_add(&c, v, rw->map[v], rw->why[v].by, rw->why[v].identity);
    if (st == MLSYS_OK) st = mlsi_check_certificate(&claim, &c);
    if (st == MLSYS_OK && p->proved) st = p->proved(p->user, &claim, &c);
    mlsi_certificate_free(&c);
    return st;
}

mlsys_status mlsi_rewrite_run(mlsi_pass_ctx *p, int32_t func, mlsi_visit_fn visit, void *user) {
    return mlsi_rewrite_run_with(p, func, visit, NULL, user);
}

static void swap(mlsi_graph *g, int32_t a, int32_t b) {
    mlsi_func f = g->funcs[a];
    g->funcs[a] = g->funcs[b];
    g->funcs[b] = f;
}

static mlsys_status rebuild(mlsi_rewrite *rw, uint8_t *live, mlsi_visit_fn visit,
                            mlsi_output_fn output) {
    memset(rw->map, 0xff, sizeof *rw->map * (size_t)(rw->old.n_values + 1));
    memset(rw->const_value, 0xff, sizeof *rw->const_value * (size_t)(rw->n_consts + 1));
    mark_live(&rw->old, live);
    MLSI_TRY(rebuild_values(rw, live, visit));
    return rebuild_outputs(rw, output);
}

/* keep NULL: yes. */
static mlsys_status run(mlsi_rewrite *rw, int32_t func, mlsi_visit_fn visit, mlsi_output_fn output,
                        mlsi_keep_fn keep) {
    mlsi_graph *g = rw->g;
    uint8_t *live = NULL;
    bool kept = true;
    MLSI_TRY(mlsi_func_add(g, g->funcs[func].name, &rw->func));
    rw->old = g->funcs[func];
    rw->n_consts = g->n_consts;
    mlsys_status st = MLSI_NEW_N(g->alloc, rw->old.n_values + 1, &rw->map);
    if (st == MLSYS_OK) st = MLSI_NEW_N(g->alloc, rw->n_consts + 1, &rw->const_value);
    if (st == MLSYS_OK) st = MLSI_NEW_N(g->alloc, rw->old.n_values + 1, &live);
    if (st == MLSYS_OK && rw->pass->prove)
        st = MLSI_NEW_N(g->alloc, rw->old.n_values + 1, &rw->why);
    if (st == MLSYS_OK) st = rebuild(rw, live, visit, output);
    if (st == MLSYS_OK) { /* the new body takes the old place; the other one is freed below */
        swap(g, func, rw->func);
        st = prove(rw, func);
        if (st == MLSYS_OK && keep) st = keep(rw->user, &kept);
        if (!kept) swap(g, func, rw->func);
    }
    mlsi_graph_truncate(g, rw->func);
    mlsi_mem_free(g->alloc, rw->why);
    mlsi_mem_free(g->alloc, rw->map);
    mlsi_mem_free(g->alloc, rw->const_value);
    mlsi_mem_free(g->alloc, live);
    return st;
}

mlsys_status mlsi_rewrite_run_with(mlsi_pass_ctx *p, int32_t func, mlsi_visit_fn visit,
                                   mlsi_output_fn output, void *user) {
    mlsi_rewrite rw = {.pass = p, .g = p->g, .user = user};
    return run(&rw, func, visit, output, NULL);
}

mlsys_status mlsi_rewrite_reorder(mlsi_pass_ctx *p, int32_t func, const int32_t *order,
                                  mlsi_keep_fn keep, void *user) {
    mlsi_rewrite rw = {.pass = p, .g = p->g, .user = user, .order = order};
    return run(&rw, func, mlsi_rewrite_keep, NULL, keep);
}

mlsys_status mlsi_rewrite_constant(mlsi_rewrite *rw, int32_t constant, int32_t *out) {
    int32_t *known = constant < rw->n_consts ? &rw->const_value[constant] : NULL;
    if (known && *known >= 0) return *out = *known, MLSYS_OK;
    MLSI_TRY(mlsi_build_const_value(rw->g, rw->func, constant, out));
    if (known) *known = *out;
    return MLSYS_OK;
}

int32_t mlsi_rewrite_operand(const mlsi_rewrite *rw, const mlsi_node *node, int i) {
    return i >= node->n_in || node->in[i] < 0 ? -1 : rw->map[node->in[i]];
}

mlsys_status mlsi_rewrite_keep(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    return mlsi_build_node(rw->g, rw->func, node->op, node->attrs, node->n_in, in, node->n_out,
                           out);
}

const mlsi_node *mlsi_rewrite_def(const mlsi_rewrite *rw, int32_t new_value) {
    if (new_value < 0) return NULL;
    const mlsi_func *f = &rw->g->funcs[rw->func];
    const mlsi_value_def *def = &f->values[new_value];
    return def->kind == MLSI_VALUE_NODE ? &f->nodes[def->index] : NULL;
}

mlsi_tensor *mlsi_rewrite_const(const mlsi_rewrite *rw, int32_t new_value) {
    if (new_value < 0) return NULL;
    const mlsi_value_def *def = &rw->g->funcs[rw->func].values[new_value];
    return def->kind == MLSI_VALUE_CONST ? rw->g->consts[def->index] : NULL;
}
