/* decompose: a composite stays whole when a kernel of the target claims it, else its primitives take
 * its place (and are visited in turn). */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

/* Facts as if every operand were contiguous: the layout pass can make them so. */
static bool claimed(const mlsi_rewrite *rw, const mlsi_node *node) {
    mlsi_operand facts[2 * MLSI_MAX_OPERANDS];
    mlsi_query q = {.op = node->op,
                    .attrs = node->attrs,
                    .n_in = node->n_in,
                    .n_out = node->n_out,
                    .in = facts,
                    .out = facts + MLSI_MAX_OPERANDS,
                    .numerics = rw->pass->numerics};
    memset(facts, 0, sizeof facts);
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        mlsi_operand *o = &facts[i < node->n_in ? i : MLSI_MAX_OPERANDS + i - node->n_in];
        int32_t v = i < node->n_in ? node->in[i] : node->first_out + i - node->n_in;
        if (v < 0) continue;
        const mlsi_value_def *def = &rw->old.values[v];
        o->present = o->contiguous = o->inner_unit = true;
        o->dtype = def->type.dtype;
        o->rank = def->type.rank;
        for (int d = 0; d < o->rank; d++)
            o->shape[d] = def->type.dims[d] >= 0 ? def->type.dims[d] : -1;
        o->constant = def->kind == MLSI_VALUE_CONST;
    }
    return rw->pass->backend->find(&q, rw->pass->isa_limit) != NULL;
}

static mlsys_status decompose(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    if (mlsi_fault(MLSI_FAULT_DECOMPOSE_OPERAND) && node->n_in > 1) in[0] = in[1];
    *(int64_t *)rw->user += 1;
    mlsi_rewrite_by(rw, MLSI_BY_DECOMPOSED, NULL);
    return def->decompose(rw->g, rw->func, node->attrs, node->n_in, in, node->n_out, out);
}

static bool has_loops(const mlsi_op_def *def) { return def->element || def->reduces || def->nest; }

/* On an accelerator the loops of elements are as good as a kernel: they become one. A nest of an op's own is worth less there
 * than its parts, which may have kernels. */
static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    bool loops = rw->pass->backend->accel && (def->element || def->reduces);
    bool kept = !def->decompose || claimed(rw, node) || loops;
    return kept ? mlsi_rewrite_keep(rw, node, out) : decompose(rw, node, out);
}

static mlsys_status visit_loops(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    if (!def->decompose || has_loops(def)) return mlsi_rewrite_keep(rw, node, out);
    return decompose(rw, node, out);
}

static mlsys_status repeat(mlsi_pass_ctx *p, int32_t func, mlsi_visit_fn fn) {
    int64_t decomposed = 1;
    for (int round = 0; decomposed && round < 16; round++) { /* composites of composites */
        decomposed = 0;
        MLSI_TRY(mlsi_rewrite_run(p, func, fn, &decomposed));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_pass_decompose(mlsi_pass_ctx *p, int32_t func) { return repeat(p, func, visit); }

mlsys_status mlsi_decompose_to_loops(mlsi_pass_ctx *p, int32_t func) {
    return repeat(p, func, visit_loops);
}
