/* inline: a call becomes its callee's nodes. Callees are inlined before their callers would be, since
 * the walk recurses; recursion was refused by the verifier. */
#include "ir/passes/passes.h"

#include <string.h>

static mlsys_status emit_body(mlsi_rewrite *rw, int32_t callee, int32_t n_in, const int32_t *in,
                              int depth, int32_t *out);

static mlsys_status emit_node(mlsi_rewrite *rw, const mlsi_node *node, int32_t n_in,
                              const int32_t *in, int depth, int32_t *out) {
    if (node->op == MLSI_OP_CALL) {
        const mlsi_attr_control *c = node->attrs;
        return emit_body(rw, (int32_t)c->fn1, n_in, in, depth + 1, out);
    }
    return mlsi_build_node(rw->g, rw->func, node->op, node->attrs, n_in, in, node->n_out, out);
}

static mlsys_status emit_values(mlsi_rewrite *rw, const mlsi_func *f, const int32_t *args, int depth,
                                int32_t *map) {
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            map[v] = args[def->index];
        } else if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(mlsi_build_const(rw->g, rw->func, rw->g->consts[def->index], &map[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &f->nodes[def->index];
            int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
            for (int i = 0; i < node->n_in; i++) in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
            MLSI_TRY(emit_node(rw, node, node->n_in, in, depth, out));
            memcpy(&map[v], out, sizeof *out * (size_t)node->n_out);
        }
    }
    return MLSYS_OK;
}

static mlsys_status emit_body(mlsi_rewrite *rw, int32_t callee, int32_t n_in, const int32_t *in,
                              int depth, int32_t *out) {
    mlsi_func f = rw->g->funcs[callee]; /* by value: the array moves */
    int32_t *map;
    (void)n_in;
    if (depth > 64) return mlsi_fail(MLSYS_E_UNSUPPORTED, "call: nested deeper than 64");
    MLSI_TRY(MLSI_NEW_N(rw->g->alloc, f.n_values + 1, &map));
    mlsys_status st = emit_values(rw, &f, in, depth, map);
    for (int64_t i = 0; i < f.n_outputs && st == MLSYS_OK; i++) out[i] = map[f.outputs[i].value];
    mlsi_mem_free(rw->g->alloc, map);
    return st;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++) in[i] = mlsi_rewrite_operand(rw, node, i);
    return emit_node(rw, node, node->n_in, in, 0, out);
}

mlsys_status mlsi_pass_inline(mlsi_pass_ctx *p, int32_t func) {
    const mlsi_func *f = &p->g->funcs[func];
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == MLSI_OP_CALL) return mlsi_rewrite_run(p, func, visit, NULL);
    return MLSYS_OK;
}
