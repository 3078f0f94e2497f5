/* Axes that nobody tells apart become one. */
#include "ir/passes/passes.h"

#include <string.h>

static bool one_element(const mlsi_type *t) {
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] != 1) return false;
    return true;
}

static bool same_dims(const mlsi_type *a, const mlsi_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

/* Every value has the shape or one element, and every node works element by element. */
static bool can_flatten(const mlsi_func *f, const mlsi_type *shape) {
    if (shape->rank < 2) return false;
    for (int64_t i = 0; i < f->n_values; i++)
        if (!same_dims(&f->values[i].type, shape) &&
            (!one_element(&f->values[i].type) ||
             (f->values[i].kind == MLSI_VALUE_CONST && f->values[i].type.rank > 1)))
            return false;
    for (int64_t i = 0; i < f->n_nodes; i++) {
        const mlsi_op_def *def = mlsi_op_get(f->nodes[i].op);
        if (!(def->traits & MLSI_TRAIT_ELEMENTWISE) || def->decompose) return false;
    }
    return true;
}

static mlsys_status flat_type(mlsi_graph *g, const mlsi_type *t, mlsi_type *out) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        MLSI_TRY(mlsi_dim_op(&g->symbols, '*', n, t->dims[d], &n));
    *out = (mlsi_type){.dtype = t->dtype, .rank = one_element(t) ? 0 : 1, .dims = {n}};
    return MLSYS_OK;
}

static mlsys_status flat_value(mlsi_graph *g, int32_t func, const mlsi_func *f, int64_t v,
                               int32_t *map) {
    const mlsi_value_def *def = &f->values[v];
    int32_t in[MLSI_MAX_OPERANDS];
    mlsi_type t;
    if (def->kind == MLSI_VALUE_CONST) return mlsi_build_const_value(g, func, def->index, &map[v]);
    if (def->kind == MLSI_VALUE_INPUT) {
        MLSI_TRY(flat_type(g, &def->type, &t));
        return mlsi_build_input(g, func, NULL, &t, &map[v]);
    }
    const mlsi_node *node = &f->nodes[def->index];
    for (int i = 0; i < node->n_in; i++)
        in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
    return mlsi_build_node(g, func, node->op, node->attrs, node->n_in, in, node->n_out, &map[v]);
}

mlsys_status mlsi_flatten_func(mlsi_graph *g, int32_t func, int32_t *out) {
    const mlsi_func f = g->funcs[func]; /* by value: the array moves */
    int32_t *map;
    *out = func;
    if (f.n_outputs < 1 || !can_flatten(&f, &f.values[f.outputs[0].value].type)) return MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(g->alloc, f.n_values + 1, &map));
    mlsys_status st = mlsi_func_add(g, f.name, out);
    for (int64_t v = 0; v < f.n_values && st == MLSYS_OK; v++)
        st = flat_value(g, *out, &f, v, map);
    for (int64_t i = 0; i < f.n_outputs && st == MLSYS_OK; i++)
        st = mlsi_build_output(g, *out, NULL, map[f.outputs[i].value]);
    mlsi_mem_free(g->alloc, map);
    return st;
}
