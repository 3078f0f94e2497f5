/* fold: a node whose operands are all constants is computed now, by the reference meaning, so the bits
 * are those of a run. Results that would grow the program (a dequantised weight) are left alone, and
 * so is what the slow reference would take long for. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

enum {
    FOLD_BYTES = 1 << 20,  /* largest result worth keeping */
    FOLD_TOTAL = 64 << 20, /* of all results of one function: links of a chain are alive together */
    FULL_BYTES = 4096,     /* a larger fill is cheaper to make than to keep */
    FOLD_FLOPS = 1 << 24
};

/* Operations of the node by its cost rule; extents are known. */
static uint64_t work_of(const mlsi_rewrite *rw, const mlsi_node *node, const mlsi_layout *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_view in[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    mlsi_op_cost cost = {0};
    memset(in, 0, sizeof *in * (size_t)node->n_in);
    for (int i = 0; i < node->n_in; i++) {
        const mlsi_tensor *t = mlsi_rewrite_const(rw, mlsi_rewrite_operand(rw, node, i));
        if (t) in[i] = mlsi_tensor_view_of(t);
    }
    for (int i = 0; i < node->n_out; i++)
        results[i] = mlsi_view_of(NULL, &out[i]);
    mlsi_cost_args a = {
        .attrs = node->attrs, .n_in = node->n_in, .n_out = node->n_out, .in = in, .out = results};
    if (def->cost) def->cost(&a, &cost);
    return cost.flops + cost.transcendentals;
}

static bool foldable(const mlsi_rewrite *rw, const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_layout layouts[MLSI_MAX_OPERANDS];
    uint64_t in_bytes = 0, out_bytes = *(const uint64_t *)rw->user;
    /* Broadcast views cost nothing at run time and are better left as views. */
    if (def->traits & MLSI_TRAIT_CONTROL || node->op == MLSI_OP_BROADCAST ||
        node->op == MLSI_OP_BARRIER)
        return false;
    for (int i = 0; i < node->n_in; i++) {
        int32_t v = mlsi_rewrite_operand(rw, node, i);
        if (v < 0) continue;
        const mlsi_tensor *t = mlsi_rewrite_const(rw, v);
        if (!t || mlsi_dtype_is_block(t->layout.dtype)) return false;
        in_bytes += mlsi_layout_bytes(&t->layout);
    }
    for (int i = 0; i < node->n_out; i++) {
        const mlsi_type *t = &rw->old.values[node->first_out + i].type;
        mlsi_layout *l = &layouts[i];
        if (!mlsi_type_static(t) || mlsi_type_layout(&rw->g->symbols, t, NULL, l) != MLSYS_OK ||
            mlsi_layout_bytes(l) > (node->op == MLSI_OP_FULL ? FULL_BYTES : FOLD_BYTES))
            return false;
        out_bytes += mlsi_layout_bytes(l);
    }
    return in_bytes <= FOLD_BYTES && out_bytes <= FOLD_TOTAL &&
           work_of(rw, node, layouts) <= FOLD_FLOPS;
}

/* A one-node graph over the same constants, interpreted. */
static mlsys_status evaluate(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    mlsi_graph g;
    int32_t in[MLSI_MAX_OPERANDS], res[MLSI_MAX_OPERANDS];
    mlsys_tensor made[MLSI_MAX_OPERANDS] = {0};
    mlsi_tensor *tensors[MLSI_MAX_OPERANDS] = {0};
    mlsi_view views[MLSI_MAX_OPERANDS];
    MLSI_TRY(mlsi_graph_init(&g, rw->g->ctx));
    mlsys_status st = MLSYS_OK;
    for (int i = 0; i < node->n_in && st == MLSYS_OK; i++) {
        mlsi_tensor *t = mlsi_rewrite_const(rw, mlsi_rewrite_operand(rw, node, i));
        in[i] = -1;
        if (t) st = mlsi_build_const(&g, 0, t, &in[i]);
    }
    if (st == MLSYS_OK)
        st = mlsi_build_node(&g, 0, node->op, node->attrs, node->n_in, in, node->n_out, res);
    for (int i = 0; i < node->n_out && st == MLSYS_OK; i++) {
        mlsi_layout l;
        st = mlsi_build_output(&g, 0, NULL, res[i]);
        if (st == MLSYS_OK)
            st = mlsi_type_layout(&g.symbols, mlsi_type_of(&g, 0, res[i]), NULL, &l);
        if (st == MLSYS_OK) st = mlsi_tensor_new(rw->pass->device, &l, &made[i]);
        if (st == MLSYS_OK) st = mlsi_pin(made[i], MLSYS_KIND_TENSOR, "fold", &tensors[i]);
        if (st == MLSYS_OK) views[i] = mlsi_tensor_view_of(tensors[i]);
    }
    if (st == MLSYS_OK) st = mlsi_interpret(&g, 0, 0, NULL, node->n_out, views);
    for (int i = 0; i < node->n_out; i++) {
        if (st == MLSYS_OK) {
            if (mlsi_fault(MLSI_FAULT_FOLD_BITS) && mlsi_view_count(&views[i]))
                *(char *)views[i].data ^= 1;
            *(uint64_t *)rw->user += mlsi_layout_bytes(&tensors[i]->layout);
            st = mlsi_build_const(rw->g, rw->func, tensors[i], &out[i]);
        }
        mlsi_unpin(tensors[i]);
        mlsys_release(made[i]);
    }
    mlsi_graph_free(&g);
    return st;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    if (!foldable(rw, node)) return mlsi_rewrite_keep(rw, node, out);
    mlsys_status st = evaluate(rw, node, out);
    if (st == MLSYS_OK) mlsi_rewrite_by(rw, MLSI_BY_FOLDED, NULL);
    if (mlsi_fault(MLSI_FAULT_FOLD_FAILS)) return st;
    /* A node that fails at run time (an index out of range) must fail there, not at compile. */
    return st == MLSYS_OK || st == MLSYS_E_NOMEM ? st : mlsi_rewrite_keep(rw, node, out);
}

mlsys_status mlsi_pass_fold(mlsi_pass_ctx *p, int32_t func) {
    uint64_t bytes = 0;
    return mlsi_rewrite_run(p, func, visit, &bytes);
}
