/* The verifier: every rule of the IR, checked from scratch; it trusts nothing the builder did. */
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <stdio.h>
#include <string.h>

static mlsys_status bad(const mlsi_func *f, int64_t node, const char *what) {
    return mlsi_fail(MLSYS_E_ARG, "verify: %s: node %lld (%s): %s", f->name, (long long)node,
                     mlsi_op_name(f->nodes[node].op), what);
}

static mlsys_status verify_operands(const mlsi_func *f, int64_t n) {
    const mlsi_node *node = &f->nodes[n];
    char what[96];
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < node->first_out) continue;
        snprintf(what, sizeof what, "operand %d is value %d, defined at or after the node", i,
                 node->in[i]);
        return bad(f, n, what);
    }
    return MLSYS_OK;
}

/* Callees have higher numbers than callers, so recursion is impossible. */
static mlsys_status verify_control(const mlsi_graph *g, int32_t func, int64_t n) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_node *node = &f->nodes[n];
    if (node->op == MLSI_OP_CUSTOM) {
        const mlsi_attr_custom *c = node->attrs;
        return c->op_index < 0 || c->op_index >= g->n_customs ? bad(f, n, "unknown custom op")
                                                              : MLSYS_OK;
    }
    const mlsi_attr_control *c = node->attrs;
    bool two = node->op != MLSI_OP_CALL;
    if (c->fn1 <= func || c->fn1 >= g->n_funcs || (two && (c->fn2 <= func || c->fn2 >= g->n_funcs)))
        return bad(f, n, "names a function that is not a later one of this graph");
    return MLSYS_OK;
}

static mlsys_status verify_node(const mlsi_graph *g, int32_t func, int64_t n) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_node *node = &f->nodes[n];
    char have[256], want[256], what[640];
    mlsi_type types[MLSI_MAX_OPERANDS];
    if (node->op < 0 || node->op >= MLSI_OP_COUNT)
        return mlsi_fail(MLSYS_E_ARG, "verify: %s: node %lld: unknown op", f->name, (long long)n);
    const mlsi_op_def *def = mlsi_op_get(node->op);
    MLSI_TRY(verify_operands(f, n));
    if (def->traits & MLSI_TRAIT_CONTROL) MLSI_TRY(verify_control(g, func, n));
    void *attrs;
    MLSI_TRY(mlsi_mem_zalloc(g->alloc, 1, def->attrs_size, &attrs));
    memcpy(attrs, node->attrs, def->attrs_size);
    /* Inference interns dims, which changes the table but no meaning. */
    mlsys_status st = mlsi_infer_node((mlsi_graph *)g, func, node->op, attrs, node->n_in, node->in,
                                      node->n_out, types);
    bool normal = st != MLSYS_OK || mlsi_attrs_equal(def, attrs, node->attrs);
    mlsi_mem_free(g->alloc, attrs);
    if (st != MLSYS_OK) return mlsi_fail_in(st, "verify: %s: node %lld", f->name, (long long)n);
    if (!normal) return bad(f, n, "attributes are not in normal form");
    for (int i = 0; i < node->n_out; i++) {
        const mlsi_value_def *v = &f->values[node->first_out + i];
        if (v->kind != MLSI_VALUE_NODE || v->index != n || v->result != i)
            return bad(f, n, "its results are not its own");
        if (mlsi_type_equal(&v->type, &types[i])) continue;
        snprintf(what, sizeof what, "result %d has type %s, its operands give %s", i,
                 mlsi_type_text(&g->symbols, &v->type, have, sizeof have),
                 mlsi_type_text(&g->symbols, &types[i], want, sizeof want));
        return bad(f, n, what);
    }
    return MLSYS_OK;
}

static mlsys_status verify_value(const mlsi_graph *g, const mlsi_func *f, int64_t v) {
    const mlsi_value_def *def = &f->values[v];
    bool ok = true;
    if (def->kind == MLSI_VALUE_INPUT)
        ok = def->index >= 0 && def->index < f->n_inputs && f->inputs[def->index] == v;
    else if (def->kind == MLSI_VALUE_CONST)
        ok = def->index >= 0 && def->index < g->n_consts;
    else
        ok = def->kind == MLSI_VALUE_NODE && def->index >= 0 && def->index < f->n_nodes;
    for (int i = 0; ok && i < def->type.rank; i++) ok = mlsi_dim_valid(&g->symbols, def->type.dims[i]);
    if (ok) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "verify: %s: value %lld has no definition", f->name, (long long)v);
}

mlsys_status mlsi_graph_verify(const mlsi_graph *g) {
    for (int32_t func = 0; func < g->n_funcs; func++) {
        const mlsi_func *f = &g->funcs[func];
        for (int64_t v = 0; v < f->n_values; v++) MLSI_TRY(verify_value(g, f, v));
        for (int64_t n = 0; n < f->n_nodes; n++) MLSI_TRY(verify_node(g, func, n));
        for (int64_t i = 0; i < f->n_outputs; i++)
            if (f->outputs[i].value < 0 || f->outputs[i].value >= f->n_values)
                return mlsi_fail(MLSYS_E_ARG, "verify: %s: output %lld is value %d, which does not exist",
                                 f->name, (long long)i, f->outputs[i].value);
    }
    return MLSYS_OK;
}
