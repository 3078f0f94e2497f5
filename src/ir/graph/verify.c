/* The verifier: every rule of the IR, checked from scratch; it trusts nothing the builder did. Order
 * matters: each check may rely on those before it. */
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static mlsys_status bad(const mlsi_func *f, int64_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static mlsys_status bad(const mlsi_func *f, int64_t node, const char *format, ...) {
    char what[640];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return mlsi_fail(MLSYS_E_ARG, "verify: %s: node %lld (%s): %s", f->name, (long long)node,
                     mlsi_op_name(f->nodes[node].op), what);
}

/* ---- structure: numbers that point somewhere --------------------------------------------------- */

static mlsys_status verify_inputs(const mlsi_func *f) {
    for (int64_t i = 0; i < f->n_inputs; i++) {
        int32_t v = f->inputs[i];
        if (v < 0 || v >= f->n_values || f->values[v].kind != MLSI_VALUE_INPUT ||
            f->values[v].index != i)
            return mlsi_fail(MLSYS_E_ARG,
                             "verify: %s: input %lld is value %d, which is another thing", f->name,
                             (long long)i, v);
    }
    return MLSYS_OK;
}

/* Is the value's definition there, and does it claim the value? */
static bool has_definition(const mlsi_graph *g, const mlsi_func *f, int64_t v) {
    const mlsi_value_def *def = &f->values[v];
    switch (def->kind) {
    case MLSI_VALUE_INPUT:
        return def->index >= 0 && def->index < f->n_inputs && f->inputs[def->index] == v;
    case MLSI_VALUE_CONST: return def->index >= 0 && def->index < g->n_consts;
    case MLSI_VALUE_NODE:
        return def->index >= 0 && def->index < f->n_nodes && def->result >= 0 &&
               def->result < f->nodes[def->index].n_out &&
               f->nodes[def->index].first_out + (int64_t)def->result == v;
    default: return false;
    }
}

static mlsys_status verify_value(const mlsi_graph *g, const mlsi_func *f, int64_t v) {
    const mlsi_value_def *def = &f->values[v];
    char what[128], have[160], want[160];
    if (!has_definition(g, f, v))
        return mlsi_fail(MLSYS_E_ARG, "verify: %s: value %lld has no definition", f->name,
                         (long long)v);
    snprintf(what, sizeof what, "verify: %.64s: value %lld", f->name, (long long)v);
    MLSI_TRY(mlsi_type_check(g, what, &def->type));
    if (def->kind != MLSI_VALUE_CONST) return MLSYS_OK;
    const mlsi_layout *l = &g->consts[def->index]->layout;
    bool same = l->dtype == def->type.dtype && l->rank == def->type.rank;
    for (int d = 0; same && d < l->rank; d++)
        same = l->shape[d] == def->type.dims[d];
    if (same) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "%s has type %s, its constant is %s", what,
                     mlsi_type_text(&g->symbols, &def->type, have, sizeof have),
                     mlsi_layout_text(l, want, sizeof want));
}

static mlsys_status verify_structure(const mlsi_graph *g, const mlsi_func *f) {
    int64_t next = 0; /* nodes stand in the order of their results */
    for (int64_t n = 0; n < f->n_nodes; n++) {
        const mlsi_node *node = &f->nodes[n];
        if (node->op < 0 || node->op >= MLSI_OP_COUNT)
            return mlsi_fail(MLSYS_E_ARG, "verify: %s: node %lld: unknown op %d", f->name,
                             (long long)n, (int)node->op);
        if (node->n_in < 0 || node->n_in > MLSI_MAX_OPERANDS || node->n_out < 1 ||
            node->n_out > MLSI_MAX_OPERANDS || (node->n_in && !node->in) || !node->attrs)
            return bad(f, n, "%d operands and %d results", node->n_in, node->n_out);
        if (node->first_out < next || node->first_out > f->n_values - node->n_out)
            return bad(f, n, "results from value %d on, of %lld, are not in order", node->first_out,
                       (long long)f->n_values);
        next = node->first_out + (int64_t)node->n_out;
        for (int i = 0; i < node->n_out; i++) {
            const mlsi_value_def *v = &f->values[node->first_out + i];
            if (v->kind != MLSI_VALUE_NODE || v->index != n || v->result != i)
                return bad(f, n, "result %d is value %d, which is another thing", i,
                           node->first_out + i);
        }
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] < -1 || node->in[i] >= node->first_out)
                return bad(f, n, "operand %d is value %d, defined at or after the node", i,
                           node->in[i]);
    }
    MLSI_TRY(verify_inputs(f));
    for (int64_t v = 0; v < f->n_values; v++)
        MLSI_TRY(verify_value(g, f, v));
    for (int64_t i = 0; i < f->n_outputs; i++)
        if (f->outputs[i].value < 0 || f->outputs[i].value >= f->n_values)
            return mlsi_fail(MLSYS_E_ARG,
                             "verify: %s: output %lld is value %d, which does not exist", f->name,
                             (long long)i, f->outputs[i].value);
    return MLSYS_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

/* What any attribute must be, whatever the op. */
static mlsys_status verify_attr(const mlsi_graph *g, const mlsi_func *f, int64_t n,
                                const mlsi_attr_desc *d) {
    const char *p = (const char *)f->nodes[n].attrs + d->offset;
    int64_t names = 0, v;
    if (d->kind == MLSI_ATTR_LIST || d->kind == MLSI_ATTR_DIMS) {
        const mlsi_list *l = (const mlsi_list *)p;
        if (l->n < 0 || l->n > MLSI_LIST_CAP)
            return bad(f, n, "attribute %s: %lld entries", d->name, (long long)l->n);
        for (int64_t i = 0; i < MLSI_LIST_CAP; i++) {
            if (i >= l->n && l->v[i])
                return bad(f, n, "attribute %s: an unused entry is %lld", d->name,
                           (long long)l->v[i]);
            if (i < l->n && d->kind == MLSI_ATTR_DIMS && l->v[i] <= MLSI_DIM_CODE &&
                l->v[i] != INT64_MIN && !mlsi_dim_is_code(&g->symbols, l->v[i]))
                return bad(f, n, "attribute %s: entry %lld is not a dim of this graph", d->name,
                           (long long)i);
        }
        return MLSYS_OK;
    }
    memcpy(&v, p, sizeof v);
    if (d->kind == MLSI_ATTR_BOOL && v != 0 && v != 1)
        return bad(f, n, "attribute %s: %lld is neither true nor false", d->name, (long long)v);
    while (d->kind == MLSI_ATTR_ENUM && d->names[names])
        names++;
    if (d->kind == MLSI_ATTR_ENUM && (v < 0 || v >= names))
        return bad(f, n, "attribute %s: %lld outside [0,%lld)", d->name, (long long)v,
                   (long long)names);
    if (d->kind == MLSI_ATTR_DTYPE && v != 0 &&
        (v < INT32_MIN || v > INT32_MAX || !mlsi_dtype_get((mlsys_dtype)v)))
        return bad(f, n, "attribute %s: unknown dtype %lld", d->name, (long long)v);
    return MLSYS_OK;
}

/* Callees have higher numbers than callers, so recursion is impossible; nest[f] is how deep functions
 * nest below f, known for all later ones. */
static mlsys_status verify_control(const mlsi_graph *g, int32_t func, int64_t n, int32_t *nest) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_node *node = &f->nodes[n];
    if (node->op == MLSI_OP_CUSTOM) {
        const mlsi_attr_custom *a = node->attrs;
        if (a->op_index >= 0 && a->op_index < g->n_customs && g->customs[a->op_index].op)
            return MLSYS_OK;
        return bad(f, n, "unknown custom op %lld", (long long)a->op_index);
    }
    const mlsi_attr_control *c = node->attrs;
    const int64_t called[2] = {c->fn1, c->fn2};
    for (int k = 0; k < (node->op == MLSI_OP_CALL ? 1 : 2); k++) {
        if (called[k] <= func || called[k] >= g->n_funcs)
            return bad(f, n, "names function %lld, which is not a later one of this graph",
                       (long long)called[k]);
        if (nest[called[k]] + 1 > nest[func]) nest[func] = nest[called[k]] + 1;
    }
    return nest[func] <= MLSI_MAX_NEST
               ? MLSYS_OK
               : mlsi_fail(MLSYS_E_UNSUPPORTED, "verify: %s: functions nest deeper than %d",
                           f->name, MLSI_MAX_NEST);
}

static mlsys_status verify_types(const mlsi_graph *g, const mlsi_func *f, int64_t n,
                                 const mlsi_type *types) {
    const mlsi_node *node = &f->nodes[n];
    char have[256], want[256];
    for (int i = 0; i < node->n_out; i++) {
        const mlsi_value_def *v = &f->values[node->first_out + i];
        if (mlsi_type_equal(&v->type, &types[i])) continue;
        return bad(f, n, "result %d has type %s, its operands give %s", i,
                   mlsi_type_text(&g->symbols, &v->type, have, sizeof have),
                   mlsi_type_text(&g->symbols, &types[i], want, sizeof want));
    }
    return MLSYS_OK;
}

static mlsys_status verify_node(const mlsi_graph *g, int32_t func, int64_t n, int32_t *nest) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_node *node = &f->nodes[n];
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_type types[MLSI_MAX_OPERANDS];
    for (const mlsi_attr_desc *d = def->attrs; d && d->name; d++)
        MLSI_TRY(verify_attr(g, f, n, d));
    if (def->traits & MLSI_TRAIT_CONTROL) MLSI_TRY(verify_control(g, func, n, nest));
    void *attrs;
    MLSI_TRY(mlsi_mem_zalloc(g->alloc, 1, def->attrs_size, &attrs));
    memcpy(attrs, node->attrs, def->attrs_size);
    /* Inference interns dims, which changes the table but no meaning. */
    mlsys_status st = mlsi_infer_node((mlsi_graph *)g, func, node->op, attrs, node->n_in, node->in,
                                      node->n_out, types);
    bool normal = st != MLSYS_OK || mlsi_attrs_equal(def, attrs, node->attrs);
    mlsi_mem_free(g->alloc, attrs);
    if (st != MLSYS_OK) return mlsi_fail_in(st, "verify: %s: node %lld", f->name, (long long)n);
    return normal ? verify_types(g, f, n, types) : bad(f, n, "attributes are not in normal form");
}

static mlsys_status verify_funcs(const mlsi_graph *g, int32_t *nest) {
    for (int32_t func = 0; func < g->n_funcs; func++) {
        if (!g->funcs[func].name)
            return mlsi_fail(MLSYS_E_ARG, "verify: function %d has no name", func);
        MLSI_TRY(verify_structure(g, &g->funcs[func]));
    }
    for (int32_t func = (int32_t)g->n_funcs - 1; func >= 0; func--) /* callees before callers */
        for (int64_t n = 0; n < g->funcs[func].n_nodes; n++)
            MLSI_TRY(verify_node(g, func, n, nest));
    return MLSYS_OK;
}

mlsys_status mlsi_graph_verify(const mlsi_graph *g) {
    int32_t *nest;
    if (g->n_funcs < 1) return mlsi_fail(MLSYS_E_ARG, "verify: the graph has no function");
    MLSI_TRY(MLSI_NEW_N(g->alloc, g->n_funcs, &nest));
    mlsys_status st = verify_funcs(g, nest);
    mlsi_mem_free(g->alloc, nest);
    return st;
}
