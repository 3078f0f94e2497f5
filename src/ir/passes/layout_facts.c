/* What every run will know about values' memory. */
#include "ir/passes/passes.h"

#include <string.h>

static bool extent_is_one(const mlsi_operand *o, int d) { return o->shape[d] == 1; }

/* Full ranges in all axes but the first one that is not of extent 1: the elements stay adjacent. */
static void slice_flags(const mlsi_attr_slice *a, const mlsi_operand *source, mlsi_operand *o) {
    int first = 0;
    bool adjacent = true;
    while (first < o->rank && extent_is_one(o, first))
        first++;
    for (int d = 0; d < o->rank; d++) {
        bool same = source->shape[d] >= 0 && source->shape[d] == o->shape[d];
        bool open = a->starts.v[d] == 0 && a->stops.v[d] == INT64_MAX && a->steps.v[d] == 1;
        if (a->steps.v[d] != 1 && !extent_is_one(o, d)) adjacent = false;
        if (d > first && !(same || open)) adjacent = false;
    }
    o->contiguous = source->contiguous && adjacent;
    o->inner_unit = source->inner_unit && (o->rank == 0 || a->steps.v[o->rank - 1] == 1);
}

static void view_flags(const mlsi_node *node, const mlsi_operand *source, mlsi_operand *o) {
    o->contiguous = o->inner_unit = false;
    switch (node->op) {
    case MLSI_OP_BARRIER:
        o->contiguous = source->contiguous;
        o->inner_unit = source->inner_unit;
        break;
    case MLSI_OP_RESHAPE: o->contiguous = o->inner_unit = true; break;
    case MLSI_OP_SLICE: slice_flags(node->attrs, source, o); break;
    case MLSI_OP_TRANSPOSE: {
        const mlsi_attr_transpose *a = node->attrs;
        o->inner_unit =
            source->inner_unit && (o->rank == 0 || a->perm.v[o->rank - 1] == o->rank - 1);
        break;
    }
    case MLSI_OP_BROADCAST:
        o->inner_unit = source->inner_unit && o->rank && source->rank &&
                        source->shape[source->rank - 1] == o->shape[o->rank - 1] &&
                        o->shape[o->rank - 1] >= 0;
        break;
    case MLSI_OP_REVERSE: {
        const mlsi_attr_axes *a = node->attrs;
        o->inner_unit = source->inner_unit;
        for (int64_t i = 0; i < a->axes.n; i++)
            if (a->axes.v[i] == o->rank - 1) o->inner_unit = false;
        break;
    }
    default: break;
    }
}

bool mlsi_is_view(const mlsi_node *node, const mlsi_operand *source) {
    if (!(mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW)) return false;
    return node->op != MLSI_OP_RESHAPE || source->contiguous;
}

void mlsi_layout_facts_of(const mlsi_graph *g, int32_t func, int32_t value, mlsi_operand *facts) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_value_def *def = &f->values[value];
    mlsi_operand *o = &facts[value];
    memset(o, 0, sizeof *o);
    o->present = o->contiguous = o->inner_unit = true;
    o->dtype = def->type.dtype;
    o->rank = def->type.rank;
    for (int d = 0; d < o->rank; d++)
        o->shape[d] = def->type.dims[d] >= 0 ? def->type.dims[d] : -1;
    if (def->kind == MLSI_VALUE_CONST) {
        const mlsi_layout *l = &g->consts[def->index]->layout;
        o->constant = true;
        o->contiguous = mlsi_layout_contiguous(l);
        o->inner_unit = !l->rank || l->shape[l->rank - 1] == 1 || l->strides[l->rank - 1] == 1;
    } else if (def->kind == MLSI_VALUE_NODE) {
        const mlsi_node *node = &f->nodes[def->index];
        if (mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW &&
            mlsi_is_view(node, &facts[node->in[0]]))
            view_flags(node, &facts[node->in[0]], o);
    }
}

void mlsi_layout_facts(const mlsi_graph *g, int32_t func, mlsi_operand *facts) {
    for (int64_t v = 0; v < g->funcs[func].n_values; v++)
        mlsi_layout_facts_of(g, func, (int32_t)v, facts);
}

const mlsi_kernel *mlsi_choose_kernel(const mlsi_pass_ctx *p, const mlsi_node *node,
                                      const mlsi_operand *facts, bool all_contiguous) {
    mlsi_operand in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    memset(in, 0, sizeof *in * (size_t)node->n_in);
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        in[i] = facts[node->in[i]];
        if (all_contiguous) in[i].contiguous = in[i].inner_unit = true;
    }
    for (int i = 0; i < node->n_out; i++)
        out[i] = facts[node->first_out + i];
    mlsi_query q = {.op = node->op,
                    .attrs = node->attrs,
                    .n_in = node->n_in,
                    .n_out = node->n_out,
                    .in = in,
                    .out = out,
                    .numerics = p->numerics};
    return p->backend->find(&q, p->isa_limit);
}
