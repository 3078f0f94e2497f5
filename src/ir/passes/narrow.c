/* narrow: mixed precision. Ops whose definition says so compute in bf16 or f16, all others as before; casts stand
 * between. A function keeps the types of its inputs and outputs, so each is rewritten by itself.
 *
 * Only f32 values take part. An op that follows (add, reshape...) is narrow if something it reads is narrow and
 * some op behind it, through others that follow, wants it so: sums that end in a norm or a loss stay f32 though
 * products enter them. One that only moves elements is also narrow when all its readers are: then what it
 * reads, a parameter say, is cast once however often it is turned. */
#include "core/ctx.h"
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

static const mlsi_config_key keys[] = {
    {"wide", 's', "", 0, 0,
     "comma-separated ops that keep their dtype besides those that do anyway"},
    {"narrow", 's', "", 0, 0, "comma-separated ops that compute in the narrow dtype besides"}};

const mlsi_config_key *mlsi_narrow_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

/* Reads and results of one value. */
enum {
    LIVE = 1,
    WANTED = 2, /* something reads it narrow */
    WIDE = 4    /* something reads it as it is */
};

typedef struct narrowing {
    mlsi_graph *g;
    mlsys_dtype dtype;
    uint8_t policy[MLSI_OP_COUNT];
    mlsi_func old; /* by value: the array moves */
    int32_t func;  /* being built */
    uint8_t *use;  /* per old value */
    int32_t *wide,
        *narrow; /* per old value: its new one of the old dtype, of the narrow dtype; -1 */
} narrowing;

/* ---- policy -------------------------------------------------------------------------------- */

static mlsys_status set_policy(narrowing *w, const char *key, const char *list, uint8_t policy) {
    for (const char *p = list; *p;) {
        const char *end = strchr(p, ',');
        size_t n = end ? (size_t)(end - p) : strlen(p);
        char name[64];
        mlsi_op op = MLSI_OP_COUNT;
        if (n < sizeof name) {
            memcpy(name, p, n);
            name[n] = 0;
            op = mlsi_op_by_name(name);
        }
        if (op == MLSI_OP_COUNT)
            return mlsi_fail(MLSYS_E_NOTFOUND, "narrow: %s names no op \"%.*s\"", key,
                             n > 64 ? 64 : (int)n, p);
        if (mlsi_op_get(op)->traits & (MLSI_TRAIT_CONTROL | MLSI_TRAIT_CREATION))
            return mlsi_fail(MLSYS_E_ARG, "narrow: %s: %s has no precision of its own", key, name);
        w->policy[op] = policy;
        p = end ? end + 1 : p + n;
    }
    return MLSYS_OK;
}

static mlsys_status read_policy(narrowing *w, const mlsi_config *c) {
    MLSI_TRY(mlsi_config_check(c, "narrow", keys, (int)(sizeof keys / sizeof keys[0])));
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        w->policy[op] = (uint8_t)mlsi_op_get((mlsi_op)op)->narrow;
        if (mlsi_fault(MLSI_FAULT_NARROW_LOSS) && w->policy[op] == MLSI_NARROW_NEVER &&
            mlsi_op_get((mlsi_op)op)->decompose)
            w->policy[op] = MLSI_NARROW_COMPUTES;
    }
    MLSI_TRY(set_policy(w, "narrow", mlsi_config_str(c, "narrow", ""), MLSI_NARROW_COMPUTES));
    return set_policy(w, "wide", mlsi_config_str(c, "wide", ""), MLSI_NARROW_NEVER);
}

/* Is operand i one that the policy moves? */
static bool moves(const narrowing *w, const mlsi_node *node, int i) {
    return node->in[i] >= 0 && w->old.values[node->in[i]].type.dtype == MLSYS_F32 &&
           !(mlsi_op_get(node->op)->narrow_keeps >> i & 1);
}

static bool any_result(const narrowing *w, const mlsi_node *node, uint8_t use) {
    bool any = false;
    for (int i = 0; i < node->n_out; i++)
        any |= (w->use[node->first_out + i] & use) != 0;
    return any;
}

static void mark_uses(narrowing *w, int32_t n_roots, const int32_t *roots) {
    for (int64_t i = 0; i < w->old.n_outputs; i++)
        w->use[w->old.outputs[i].value] |= LIVE | WIDE;
    for (int32_t i = 0; i < n_roots; i++)
        w->use[roots[i]] |= LIVE | WIDE;
    for (int64_t n = w->old.n_nodes - 1; n >= 0; n--) {
        const mlsi_node *node = &w->old.nodes[n];
        if (!any_result(w, node, LIVE)) continue;
        uint8_t policy = w->policy[node->op];
        bool wants = policy == MLSI_NARROW_COMPUTES ||
                     (policy == MLSI_NARROW_FOLLOWS && any_result(w, node, WANTED));
        bool keeps = policy == MLSI_NARROW_NEVER ||
                     (policy == MLSI_NARROW_FOLLOWS && any_result(w, node, WIDE));
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0)
                w->use[node->in[i]] |= (uint8_t)(LIVE | (wants && moves(w, node, i) ? WANTED : 0) |
                                                 (keeps || !moves(w, node, i) ? WIDE : 0));
    }
}

/* Does the node compute narrow, now that its operands are built? */
static bool is_narrow(const narrowing *w, const mlsi_node *node) {
    bool reads_narrow = false, reads = false;
    for (int i = 0; i < node->n_in; i++)
        if (moves(w, node, i)) reads = true, reads_narrow |= w->narrow[node->in[i]] >= 0;
    switch (w->policy[node->op]) {
    case MLSI_NARROW_COMPUTES: return reads;
    case MLSI_NARROW_FOLLOWS:
        if (!reads || !any_result(w, node, WANTED)) return false;
        return reads_narrow ||
               (mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW && !any_result(w, node, WIDE));
    default: return false;
    }
}

/* ---- rebuilding ---------------------------------------------------------------------------- */

static mlsys_status cast(narrowing *w, int32_t value, mlsys_dtype dtype, int32_t *out) {
    const mlsi_attr_cast attrs = {.dtype = dtype};
    return mlsi_build_node(w->g, w->func, MLSI_OP_CAST, &attrs, 1, &value, 1, out);
}

static mlsys_status as_narrow(narrowing *w, int32_t v, int32_t *out) {
    if (w->narrow[v] < 0 || mlsi_fault(MLSI_FAULT_NARROW_TWICE))
        MLSI_TRY(cast(w, w->wide[v], w->dtype, &w->narrow[v]));
    *out = w->narrow[v];
    return MLSYS_OK;
}

static mlsys_status as_wide(narrowing *w, int32_t v, int32_t *out) {
    if (w->wide[v] < 0) MLSI_TRY(cast(w, w->narrow[v], MLSYS_F32, &w->wide[v]));
    *out = w->wide[v];
    return MLSYS_OK;
}

/* A result dtype that an attribute states follows, too. */
static void narrow_attrs(const narrowing *w, const mlsi_op_def *def, void *attrs) {
    for (const mlsi_attr_desc *d = def->attrs; d && d->name; d++) {
        int64_t *dtype = (int64_t *)((char *)attrs + d->offset);
        if (d->kind == MLSI_ATTR_DTYPE && *dtype == MLSYS_F32) *dtype = w->dtype;
    }
}

static mlsys_status rebuild_node(narrowing *w, const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    _Alignas(16) char attrs[1024];
    bool narrow = is_narrow(w, node);
    if (def->attrs_size > sizeof attrs)
        return mlsi_fail(MLSYS_E_INTERNAL, "narrow: %s: attributes of %zu bytes",
                         mlsi_op_name(node->op), def->attrs_size);
    for (int i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        if (narrow && moves(w, node, i))
            MLSI_TRY(as_narrow(w, node->in[i], &in[i]));
        else
            MLSI_TRY(as_wide(w, node->in[i], &in[i]));
    }
    memcpy(attrs, node->attrs, def->attrs_size);
    if (narrow) narrow_attrs(w, def, attrs);
    MLSI_TRY(mlsi_build_node(w->g, w->func, node->op, attrs, node->n_in, in, node->n_out, out));
    for (int i = 0; i < node->n_out; i++) {
        int32_t v = node->first_out + i;
        bool changed = mlsi_type_of(w->g, w->func, out[i])->dtype != w->old.values[v].type.dtype;
        *(changed ? &w->narrow[v] : &w->wide[v]) = out[i];
    }
    return MLSYS_OK;
}

static mlsys_status rebuild(narrowing *w) {
    for (int64_t v = 0; v < w->old.n_values; v++) {
        const mlsi_value_def *def = &w->old.values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            MLSI_TRY(mlsi_build_input(w->g, w->func, def->name, &def->type, &w->wide[v]));
            mlsi_func *made = &w->g->funcs[w->func];
            made->donated[made->n_inputs - 1] = w->old.donated[def->index];
        } else if (def->kind == MLSI_VALUE_CONST) {
            if (w->use[v]) MLSI_TRY(mlsi_build_const_value(w->g, w->func, def->index, &w->wide[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &w->old.nodes[def->index];
            if (any_result(w, node, LIVE)) MLSI_TRY(rebuild_node(w, node));
        }
    }
    for (int64_t i = 0; i < w->old.n_outputs; i++) {
        int32_t value;
        MLSI_TRY(as_wide(w, w->old.outputs[i].value, &value));
        MLSI_TRY(mlsi_build_output(w->g, w->func, w->old.outputs[i].name, value));
    }
    return MLSYS_OK;
}

/* Appends the narrowed form of function func, and where its roots went. */
static mlsys_status narrow_func(narrowing *w, int32_t func, int32_t n, const int32_t *roots,
                                int32_t *moved) {
    mlsi_alloc *a = w->g->alloc;
    MLSI_TRY(mlsi_func_add(w->g, w->g->funcs[func].name, &w->func));
    w->old = w->g->funcs[func];
    w->use = NULL;
    w->wide = w->narrow = NULL;
    int64_t room = w->old.n_values + 1;
    mlsys_status st = MLSI_NEW_N(a, room, &w->use);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, room, &w->wide);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, room, &w->narrow);
    if (st == MLSYS_OK) {
        memset(w->wide, 0xff, sizeof *w->wide * (size_t)room);
        memset(w->narrow, 0xff, sizeof *w->narrow * (size_t)room);
        mark_uses(w, n, roots);
        st = rebuild(w);
    }
    for (int32_t i = 0; i < n && st == MLSYS_OK; i++)
        st = as_wide(w, roots[i], &moved[i]);
    mlsi_mem_free(a, w->use);
    mlsi_mem_free(a, w->wide);
    mlsi_mem_free(a, w->narrow);
    return st;
}

mlsys_status mlsi_graph_narrow(mlsi_graph *g, mlsys_dtype dtype, const mlsi_config *c, int32_t n,
                               int32_t *values) {
    narrowing w = {.g = g, .dtype = dtype};
    int32_t *moved;
    int64_t n_funcs = g->n_funcs;
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    if (dtype != MLSYS_BF16 && dtype != MLSYS_F16)
        return mlsi_fail(MLSYS_E_DTYPE, "narrow: dtype %s (%d), expected bf16 or f16",
                         info ? info->name : "unknown", (int)dtype);
    MLSI_TRY(read_policy(&w, c));
    MLSI_TRY(mlsi_graph_verify(g));
    MLSI_TRY(MLSI_NEW_N(g->alloc, n + 1, &moved));
    mlsys_status st = narrow_func(&w, 0, n, values, moved);
    for (int32_t f = 1; f < n_funcs && st == MLSYS_OK; f++)
        st = narrow_func(&w, f, 0, NULL, NULL);
    for (int64_t f = 0; f < n_funcs && st == MLSYS_OK; f++) { /* all or none */
        mlsi_func made = g->funcs[n_funcs + f];
        g->funcs[n_funcs + f] = g->funcs[f];
        g->funcs[f] = made;
    }
    mlsi_graph_truncate(g, n_funcs);
    if (st == MLSYS_OK && n) memcpy(values, moved, sizeof *moved * (size_t)n);
    mlsi_mem_free(g->alloc, moved);
    return st;
}
