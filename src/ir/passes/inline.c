/* inline: a call becomes its callee's nodes. The driver takes functions from the last one to main, so a
 * callee holds no calls any more when its callers take it in. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

/* Calls of calls of calls double without end: a text of a few kilobytes may ask for 2^64 nodes. */
enum { MAX_NODES = 1 << 18 };

static mlsys_status emit_values(mlsi_rewrite *rw, const mlsi_func *f, const int32_t *args,
                                int32_t *map) {
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            map[v] = args[mlsi_fault(MLSI_FAULT_INLINE_ARGS) ? 0 : def->index];
        } else if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(mlsi_rewrite_constant(rw, def->index, &map[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &f->nodes[def->index];
            int32_t in[MLSI_MAX_OPERANDS];
            for (int i = 0; i < node->n_in; i++)
                in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
            MLSI_TRY(mlsi_build_node(rw->g, rw->func, node->op, node->attrs, node->n_in, in,
                                     node->n_out, &map[v]));
        }
    }
    return MLSYS_OK;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const mlsi_attr_control *c = node->attrs;
    int32_t in[MLSI_MAX_OPERANDS], *map;
    if (node->op != MLSI_OP_CALL) return mlsi_rewrite_keep(rw, node, out);
    mlsi_rewrite_by(rw, MLSI_BY_INLINED, NULL);
    mlsi_func f = rw->g->funcs[c->fn1]; /* by value: the array moves */
    if (rw->g->funcs[rw->func].n_nodes + f.n_nodes > MAX_NODES)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "call of %s: more than %d nodes once all calls are written out", f.name,
                         MAX_NODES);
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    MLSI_TRY(MLSI_NEW_N(rw->g->alloc, f.n_values + 1, &map));
    mlsys_status st = emit_values(rw, &f, in, map);
    for (int64_t i = 0; i < f.n_outputs && st == MLSYS_OK; i++)
        out[i] = map[f.outputs[i].value];
    mlsi_mem_free(rw->g->alloc, map);
    return st;
}

mlsys_status mlsi_pass_inline(mlsi_pass_ctx *p, int32_t func) {
    const mlsi_func *f = &p->g->funcs[func];
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == MLSI_OP_CALL) return mlsi_rewrite_run(p, func, visit, NULL);
    return MLSYS_OK;
}
