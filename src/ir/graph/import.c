/* Copying functions between graphs, and dropping what nobody needs. */
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <string.h>

/* ---- which functions a function needs -------------------------------------------------------- */

static int callees(const mlsi_node *node, int64_t out[2]) {
    const mlsi_attr_control *c = node->attrs;
    if (node->op != MLSI_OP_CALL && node->op != MLSI_OP_IF && node->op != MLSI_OP_WHILE) return 0;
    out[0] = c->fn1;
    out[1] = c->fn2;
    return node->op == MLSI_OP_CALL ? 1 : 2;
}

/* map[f] = 0 for func and all that it reaches, -1 for the others. Callees come later than callers, so
 * one walk in order finds them all. */
static mlsys_status mark_reached(const mlsi_graph *g, int32_t func, int32_t *map) {
    memset(map, 0xff, sizeof *map * (size_t)g->n_funcs);
    map[func] = 0;
    for (int32_t f = func; f < g->n_funcs; f++) {
        if (map[f] < 0) continue;
        for (int64_t n = 0; n < g->funcs[f].n_nodes; n++) {
            int64_t called[2];
            for (int k = callees(&g->funcs[f].nodes[n], called) - 1; k >= 0; k--) {
                if (called[k] <= f || called[k] >= g->n_funcs)
                    return mlsi_fail(MLSYS_E_ARG, "graph: function %d calls %lld, not a later one",
                                     f, (long long)called[k]);
                map[called[k]] = 0;
            }
        }
    }
    return MLSYS_OK;
}

/* ---- import ------------------------------------------------------------------------------------ */

typedef struct importer {
    mlsi_graph *to;
    const mlsi_graph *from;
    int32_t *func_map; /* -1 = not needed */
} importer;

static mlsys_status import_type(importer *im, const mlsi_type *t, mlsi_type *out) {
    *out = *t;
    for (int i = 0; i < t->rank; i++)
        MLSI_TRY(mlsi_dim_import(&im->to->symbols, &im->from->symbols, t->dims[i], &out->dims[i]));
    return MLSYS_OK;
}

static mlsys_status import_attrs(importer *im, const mlsi_op_def *def, void *attrs) {
    for (const mlsi_attr_desc *d = def->attrs; d && d->name; d++) {
        if (d->kind != MLSI_ATTR_DIMS) continue;
        mlsi_list *l = (mlsi_list *)((char *)attrs + d->offset);
        for (int64_t i = 0; i < l->n; i++)
            MLSI_TRY(mlsi_dim_import(&im->to->symbols, &im->from->symbols, l->v[i], &l->v[i]));
    }
    return MLSYS_OK;
}

static mlsys_status import_custom(importer *im, mlsi_attr_custom *attrs) {
    mlsi_graph *to = im->to;
    const mlsi_custom_use *use = &im->from->customs[attrs->op_index];
    MLSI_TRY(MLSI_GROW(to->alloc, &to->customs, &to->cap_customs, to->n_customs + 1));
    if (use->attrs) {
        if (!mlsi_handle_of(use->attrs)) return mlsys_last_status();
        mlsi_repin(use->attrs);
    }
    attrs->op_index = to->n_customs;
    to->customs[to->n_customs++] = *use;
    return MLSYS_OK;
}

/* The node with operands of the new graph. */
static mlsys_status copy_node(importer *im, const mlsi_node *node, int32_t func, const int32_t *in,
                              int32_t *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    int64_t called[2];
    void *attrs;
    MLSI_TRY(mlsi_arena_zalloc(&im->to->arena, def->attrs_size, &attrs));
    memcpy(attrs, node->attrs, def->attrs_size);
    MLSI_TRY(import_attrs(im, def, attrs));
    if (node->op == MLSI_OP_CUSTOM) MLSI_TRY(import_custom(im, attrs));
    int n = callees(node, called);
    mlsi_attr_control *c = attrs;
    if (n > 0) c->fn1 = im->func_map[called[0]];
    if (n > 1) c->fn2 = im->func_map[called[1]];
    return mlsi_build_node(im->to, func, node->op, attrs, node->n_in, in, node->n_out, out);
}

static mlsys_status import_node(importer *im, const mlsi_node *node, int32_t func, int32_t *map) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
    MLSI_TRY(copy_node(im, node, func, in, out));
    for (int i = 0; i < node->n_out; i++)
        map[node->first_out + i] = out[i];
    return MLSYS_OK;
}

mlsys_status mlsi_graph_import_node(mlsi_graph *to, int32_t func, const mlsi_graph *from,
                                    const mlsi_node *node, const int32_t *in, int32_t *out) {
    importer im = {.to = to, .from = from};
    int64_t called[2];
    if (callees(node, called))
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: its functions cannot be copied alone",
                         mlsi_op_name(node->op));
    return copy_node(&im, node, func, in, out);
}

static mlsys_status import_body(importer *im, const mlsi_func *f, int32_t func, int32_t *map) {
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        mlsi_type type;
        if (def->kind == MLSI_VALUE_INPUT) {
            MLSI_TRY(import_type(im, &def->type, &type));
            MLSI_TRY(mlsi_build_input(im->to, func, def->name, &type, &map[v]));
            mlsi_func *to = &im->to->funcs[func];
            to->donated[to->n_inputs - 1] = f->donated[def->index];
        } else if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(mlsi_build_const(im->to, func, im->from->consts[def->index], &map[v]));
        } else if (def->result == 0) {
            MLSI_TRY(import_node(im, &f->nodes[def->index], func, map));
        }
    }
    for (int64_t i = 0; i < f->n_outputs; i++)
        MLSI_TRY(mlsi_build_output(im->to, func, f->outputs[i].name, map[f->outputs[i].value]));
    return MLSYS_OK;
}

static mlsys_status import_func(importer *im, int32_t func) {
    const mlsi_func *f = &im->from->funcs[func];
    int32_t *map = NULL;
    MLSI_TRY(MLSI_NEW_N(im->to->alloc, f->n_values + 1, &map));
    mlsys_status st = import_body(im, f, im->func_map[func], map);
    mlsi_mem_free(im->to->alloc, map);
    return st;
}

/* Numbers first, in the old order, then bodies from the last one on: a caller's types come from its
 * callees. */
static mlsys_status import_funcs(importer *im, int32_t func) {
    const mlsi_graph *from = im->from;
    MLSI_TRY(mark_reached(from, func, im->func_map));
    for (int64_t f = func; f < from->n_funcs; f++)
        if (im->func_map[f] >= 0)
            MLSI_TRY(mlsi_func_add(im->to, from->funcs[f].name, &im->func_map[f]));
    if (im->to->n_funcs > MLSI_MAX_FUNCS)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "graph: more than %d functions", MLSI_MAX_FUNCS);
    for (int64_t f = from->n_funcs - 1; f >= func; f--)
        if (im->func_map[f] >= 0) MLSI_TRY(import_func(im, (int32_t)f));
    return MLSYS_OK;
}

mlsys_status mlsi_graph_import(mlsi_graph *to, const mlsi_graph *from, int32_t func, int32_t *out) {
    importer im = {.to = to, .from = from};
    int64_t before = to->n_funcs;
    MLSI_TRY(MLSI_NEW_N(to->alloc, from->n_funcs, &im.func_map));
    mlsys_status st = import_funcs(&im, func);
    if (st == MLSYS_OK)
        *out = im.func_map[func];
    else
        mlsi_graph_truncate(to, before);
    mlsi_mem_free(to->alloc, im.func_map);
    return st;
}

/* ---- compaction -------------------------------------------------------------------------------- */

/* Attributes are the graph's own, but a rewrite may share them between nodes: a node gets new ones. */
static mlsys_status renumber_callees(mlsi_graph *g, mlsi_node *node, const int32_t *map) {
    int64_t called[2];
    int n = callees(node, called);
    if (n == 0 || (map[called[0]] == called[0] && (n == 1 || map[called[1]] == called[1])))
        return MLSYS_OK;
    void *own;
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, sizeof(mlsi_attr_control), &own));
    mlsi_attr_control *c = own;
    *c = *(const mlsi_attr_control *)node->attrs;
    c->fn1 = map[called[0]];
    if (n > 1) c->fn2 = map[called[1]];
    node->attrs = own;
    return MLSYS_OK;
}

static mlsys_status drop_funcs(mlsi_graph *g, int32_t *map) {
    int64_t n = 0;
    MLSI_TRY(mark_reached(g, 0, map));
    for (int64_t f = 0; f < g->n_funcs; f++)
        if (map[f] >= 0) map[f] = (int32_t)n++;
    if (n == g->n_funcs) return MLSYS_OK;
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t i = 0; map[f] >= 0 && i < g->funcs[f].n_nodes; i++)
            MLSI_TRY(renumber_callees(g, &g->funcs[f].nodes[i], map));
    for (int64_t f = 0; f < g->n_funcs; f++) { /* kept ones to the front, the others behind them */
        if (map[f] < 0 || map[f] == f) continue;
        mlsi_func t = g->funcs[map[f]];
        g->funcs[map[f]] = g->funcs[f];
        g->funcs[f] = t;
    }
    mlsi_graph_truncate(g, n);
    return MLSYS_OK;
}

static void mark_consts(const mlsi_graph *g, int32_t *map) {
    memset(map, 0xff, sizeof *map * (size_t)g->n_consts);
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t v = 0; v < g->funcs[f].n_values; v++)
            if (g->funcs[f].values[v].kind == MLSI_VALUE_CONST)
                map[g->funcs[f].values[v].index] = 0;
}

static void drop_consts(mlsi_graph *g, int32_t *map) {
    int64_t n = 0;
    mark_consts(g, map);
    for (int64_t c = 0; c < g->n_consts; c++) {
        if (map[c] < 0) {
            mlsi_unpin(g->consts[c]);
            continue;
        }
        map[c] = (int32_t)n;
        g->consts[n++] = g->consts[c];
    }
    if (n == g->n_consts) return;
    g->n_consts = n;
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t v = 0; v < g->funcs[f].n_values; v++) {
            mlsi_value_def *def = &g->funcs[f].values[v];
            if (def->kind == MLSI_VALUE_CONST) def->index = map[def->index];
        }
    mlsi_graph_index_consts(g);
}

mlsys_status mlsi_graph_compact(mlsi_graph *g) {
    int64_t n = g->n_funcs > g->n_consts ? g->n_funcs : g->n_consts;
    int32_t *map;
    MLSI_TRY(MLSI_NEW_N(g->alloc, n, &map));
    mlsys_status st = drop_funcs(g, map);
    if (st == MLSYS_OK) drop_consts(g, map);
    mlsi_mem_free(g->alloc, map);
    return st;
}
