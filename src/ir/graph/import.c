/* Copying functions between graphs. */
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <string.h>

typedef struct importer {
    mlsi_graph *to;
    const mlsi_graph *from;
    int32_t *func_map; /* -1 = not yet */
} importer;

static mlsys_status import_func(importer *im, int32_t func, int depth, int32_t *out);

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
        mlsi_repin(use->attrs);
        (void)mlsi_handle_of(use->attrs);
    }
    attrs->op_index = to->n_customs;
    to->customs[to->n_customs++] = *use;
    return MLSYS_OK;
}

static mlsys_status import_node(importer *im, const mlsi_node *node, int depth, int32_t func,
                                int32_t *map) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    void *attrs;
    for (int i = 0; i < node->n_in; i++) in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
    MLSI_TRY(mlsi_arena_zalloc(&im->to->arena, def->attrs_size, &attrs));
    memcpy(attrs, node->attrs, def->attrs_size);
    MLSI_TRY(import_attrs(im, def, attrs));
    if (node->op == MLSI_OP_CUSTOM) MLSI_TRY(import_custom(im, attrs));
    if (def->traits & MLSI_TRAIT_CONTROL && node->op != MLSI_OP_CUSTOM) {
        mlsi_attr_control *c = attrs;
        int32_t fn;
        MLSI_TRY(import_func(im, (int32_t)c->fn1, depth + 1, &fn));
        c->fn1 = fn;
        if (node->op != MLSI_OP_CALL) {
            MLSI_TRY(import_func(im, (int32_t)c->fn2, depth + 1, &fn));
            c->fn2 = fn;
        }
    }
    MLSI_TRY(mlsi_build_node(im->to, func, node->op, attrs, node->n_in, in, node->n_out, out));
    for (int i = 0; i < node->n_out; i++) map[node->first_out + i] = out[i];
    return MLSYS_OK;
}

static mlsys_status import_body(importer *im, const mlsi_func *f, int depth, int32_t func,
                                int32_t *map) {
    int64_t next_node = 0;
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
        } else if (def->index == next_node) {
            MLSI_TRY(import_node(im, &f->nodes[next_node++], depth, func, map));
        }
    }
    for (int64_t i = 0; i < f->n_outputs; i++)
        MLSI_TRY(mlsi_build_output(im->to, func, f->outputs[i].name, map[f->outputs[i].value]));
    return MLSYS_OK;
}

static mlsys_status import_func(importer *im, int32_t func, int depth, int32_t *out) {
    const mlsi_func *f = &im->from->funcs[func];
    int32_t *map = NULL;
    if (im->func_map[func] >= 0) return *out = im->func_map[func], MLSYS_OK;
    if (depth > 64) return mlsi_fail(MLSYS_E_UNSUPPORTED, "graph: calls nested deeper than 64");
    MLSI_TRY(MLSI_NEW_N(im->to->alloc, f->n_values + 1, &map));
    mlsys_status st = mlsi_func_add(im->to, f->name, out);
    if (st == MLSYS_OK) st = import_body(im, f, depth, *out, map);
    if (st == MLSYS_OK) im->func_map[func] = *out;
    mlsi_mem_free(im->to->alloc, map);
    return st;
}

mlsys_status mlsi_graph_import(mlsi_graph *to, const mlsi_graph *from, int32_t func, int32_t *out) {
    importer im = {.to = to, .from = from};
    MLSI_TRY(MLSI_NEW_N(to->alloc, from->n_funcs, &im.func_map));
    memset(im.func_map, 0xff, sizeof *im.func_map * (size_t)from->n_funcs);
    mlsys_status st = import_func(&im, func, 0, out);
    mlsi_mem_free(to->alloc, im.func_map);
    return st;
}
