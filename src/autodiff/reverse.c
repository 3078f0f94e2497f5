#include "autodiff/reverse.h"

#include "autodiff/checkpoint.h"
#include "core/faults.h"

#include <string.h>

/* The arrays have an entry per value; values that rules emit are added when a node of theirs is walked. */
typedef struct tape {
    mlsi_graph *g;
    int32_t func;
    mlsi_replay *replay; /* NULL: all forward values are kept */
    int32_t *adjoint;    /* -1: structurally zero so far */
    int32_t *alive;      /* where the adjoint is no zero by structure (mlsi_vjp); -1: everywhere */
    int32_t *origin;     /* the value that this one stands for in the backward pass, itself else */
    bool *depends;       /* on an x, through floats */
    int64_t cap_adjoint, cap_alive, cap_origin, cap_depends, n;
} tape;

static mlsi_func *func_of(const tape *t) { return &t->g->funcs[t->func]; }

static bool is_float(const tape *t, int32_t v) {
    return mlsi_dtype_is_float(func_of(t)->values[v].type.dtype);
}

/* ---- which values depend on an x ----------------------------------------------------------- */

static mlsys_status extend(tape *t) {
    int64_t n = func_of(t)->n_values;
    MLSI_TRY(MLSI_GROW(t->g->alloc, &t->adjoint, &t->cap_adjoint, n));
    MLSI_TRY(MLSI_GROW(t->g->alloc, &t->alive, &t->cap_alive, n));
    MLSI_TRY(MLSI_GROW(t->g->alloc, &t->origin, &t->cap_origin, n));
    MLSI_TRY(MLSI_GROW(t->g->alloc, &t->depends, &t->cap_depends, n));
    for (; t->n < n; t->n++) {
        t->adjoint[t->n] = t->alive[t->n] = -1;
        t->origin[t->n] = (int32_t)t->n;
        t->depends[t->n] = false;
    }
    return MLSYS_OK;
}

static void mark_dependents(tape *t, int64_t first, int64_t last) {
    const mlsi_func *f = func_of(t);
    for (int64_t i = first; i < last; i++) {
        const mlsi_node *node = &f->nodes[i];
        bool depends = false;
        for (int k = 0; k < node->n_in; k++)
            depends = depends || (node->in[k] >= 0 && t->depends[node->in[k]]);
        for (int k = 0; k < node->n_out; k++)
            if (depends && is_float(t, node->first_out + k)) t->depends[node->first_out + k] = true;
    }
}

/* ---- adjoints ------------------------------------------------------------------------------ */

static mlsys_status accumulate(tape *t, int32_t v, int32_t adjoint, int32_t alive) {
    v = t->origin[v];
    if (t->adjoint[v] < 0 || mlsi_fault(MLSI_FAULT_ADJOINT_OVERWRITE))
        return t->adjoint[v] = adjoint, t->alive[v] = alive, MLSYS_OK;
    int32_t in[2] = {t->adjoint[v], adjoint}, either[2] = {t->alive[v], alive};
    MLSI_TRY(mlsi_build_node(t->g, t->func, MLSI_OP_ADD, NULL, 2, in, 1, &t->adjoint[v]));
    t->alive[v] = -1;
    if (either[0] < 0 || either[1] < 0) return MLSYS_OK;
    return mlsi_build_node(t->g, t->func, MLSI_OP_OR, NULL, 2, either, 1, &t->alive[v]);
}

static mlsys_status walk(tape *t, int64_t first, int64_t last);

/* A composite without a rule of its own: its primitives, walked at once. They come from this call, so the
 * recursion is as deep as composites nest in composites. */
static mlsys_status through_decomposition(tape *t, const mlsi_node *node, const int32_t *dout) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    int32_t out[MLSI_MAX_OPERANDS];
    int64_t first = func_of(t)->n_nodes;
    MLSI_TRY(def->decompose(t->g, t->func, node->attrs, node->n_in, node->in, node->n_out, out));
    int64_t last = func_of(t)->n_nodes;
    MLSI_TRY(extend(t));
    mark_dependents(t, first, last);
    for (int i = 0; i < node->n_out; i++)
        if (dout[i] >= 0) MLSI_TRY(accumulate(t, out[i], dout[i], -1));
    MLSI_TRY(extend(t));
    return walk(t, first, last);
}

static mlsys_status give(tape *t, const mlsi_node *node, int k, int32_t adjoint, int32_t alive) {
    char a[160], b[160];
    const mlsi_type *have = mlsi_type_of(t->g, t->func, adjoint);
    const mlsi_type *want = mlsi_type_of(t->g, t->func, node->in[k]);
    if (!mlsi_type_equal(have, want))
        return mlsi_fail(MLSYS_E_INTERNAL, "gradient: %s: adjoint %s of operand %d, which is %s",
                         mlsi_op_name(node->op), mlsi_type_text(&t->g->symbols, have, a, sizeof a),
                         k, mlsi_type_text(&t->g->symbols, want, b, sizeof b));
    return accumulate(t, node->in[k], adjoint, alive);
}

/* Zeros by structure of a result are such of an elementwise operand, unless it was broadcast. */
static int32_t alive_of(const tape *t, const mlsi_node *node, const mlsi_vjp *v, int k) {
    int32_t alive = v->din_alive[k] >= 0 ? v->din_alive[k] : v->alive;
    if (alive < 0 || !(mlsi_op_get(node->op)->traits & MLSI_TRAIT_ELEMENTWISE)) return -1;
    const mlsi_type *mask = mlsi_type_of(t->g, t->func, alive);
    const mlsi_type *x = mlsi_type_of(t->g, t->func, node->in[k]);
    bool same =
        mask->rank == x->rank && !memcmp(mask->dims, x->dims, sizeof *x->dims * (size_t)x->rank);
    return same ? alive : -1;
}

static mlsys_status apply_custom(const mlsi_node *node, mlsi_vjp *v) {
    const mlsi_attr_custom *custom = node->attrs;
    mlsi_custom_use use = v->graph->customs[custom->op_index]; /* rules append to the array */
    if (use.op->vjp) return use.op->vjp(use.op, use.attrs, v);
    if (mlsi_fault(MLSI_FAULT_ADJOINT_ZERO)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "gradient: %s cannot be differentiated: a custom op without a gradient",
                     use.op->name);
}

static mlsys_status apply_rule(const mlsi_node *node, mlsi_vjp *v) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    if (def->traits & MLSI_TRAIT_CONTROL && node->op != MLSI_OP_CUSTOM)
        return mlsi_vjp_control(v, node->op);
    if (def->vjp) return def->vjp(v);
    v->through_decomposition = def->decompose != NULL;
    if (v->through_decomposition) return MLSYS_OK;
    if (node->op == MLSI_OP_CUSTOM) return apply_custom(node, v);
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "gradient: %s cannot be differentiated",
                     mlsi_op_name(node->op));
}

/* Forward values that the rule of a node needs are there again. */
static mlsys_status replay(tape *t, int64_t index) {
    mlsi_replay *r = t->replay;
    if (!r || index >= r->n_nodes) return MLSYS_OK;
    if (!r->learned) return r->reached[index] = func_of(t)->n_nodes, MLSYS_OK;
    MLSI_TRY(mlsi_replay_node(r, index));
    MLSI_TRY(extend(t));
    for (int64_t i = 0; i < r->n_fresh; i++) {
        int32_t v = r->fresh[i], stands = r->now[v];
        if (stands == v) continue;
        t->origin[stands] = v;
        t->depends[stands] = t->depends[v];
    }
    return MLSYS_OK;
}

/* What rules read in place of v. */
static int32_t current(const tape *t, int32_t v) {
    const mlsi_replay *r = t->replay;
    bool stands = r && v >= 0 && v < r->n_values && r->now[v] >= 0;
    return stands ? r->now[v] : v;
}

static mlsys_status walk_node(tape *t, int64_t index) {
    MLSI_TRY(replay(t, index));
    mlsi_node node = func_of(t)->nodes[index]; /* rules append to the array */
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], dout[MLSI_MAX_OPERANDS],
        din[MLSI_MAX_OPERANDS], din_alive[MLSI_MAX_OPERANDS];
    bool wanted[MLSI_MAX_OPERANDS], any_out = false, any_in = false;
    for (int k = 0; k < node.n_out; k++) {
        out[k] = current(t, node.first_out + k);
        dout[k] = t->adjoint[node.first_out + k];
        any_out = any_out || dout[k] >= 0;
    }
    if (!any_out) return MLSYS_OK;
    for (int k = 0; k < node.n_in; k++) {
        in[k] = current(t, node.in[k]);
        din[k] = din_alive[k] = -1;
        wanted[k] = in[k] >= 0 && t->depends[node.in[k]];
        any_in = any_in || wanted[k];
    }
    if (!any_in) return MLSYS_OK;
    node.in = in;
    mlsi_vjp v = {.graph = t->g,
                  .func = t->func,
                  .attrs = node.attrs,
                  .n_in = node.n_in,
                  .n_out = node.n_out,
                  .in = in,
                  .out = out,
                  .dout = dout,
                  .wanted = wanted,
                  .din = din,
                  .alive = t->alive[node.first_out],
                  .din_alive = din_alive};
    MLSI_TRY(apply_rule(&node, &v));
    MLSI_TRY(extend(t));
    if (v.through_decomposition) return through_decomposition(t, &node, dout);
    for (int k = 0; k < node.n_in; k++)
        if (wanted[k] && din[k] >= 0)
            MLSI_TRY(give(t, &node, k, din[k], alive_of(t, &node, &v, k)));
    return extend(t);
}

static mlsys_status walk(tape *t, int64_t first, int64_t last) {
    for (int64_t i = last - 1; i >= first; i--)
        MLSI_TRY(walk_node(t, mlsi_fault(MLSI_FAULT_ADJOINT_ORDER) ? first + last - 1 - i : i));
    return MLSYS_OK;
}

/* ---- the public part ----------------------------------------------------------------------- */

static mlsys_status check_float(const tape *t, const char *what, int32_t i, int32_t v) {
    char a[160];
    if (is_float(t, v)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_DTYPE, "gradient: %s %d is %s, expected a float", what, i,
                     mlsi_type_text(&t->g->symbols, mlsi_type_of(t->g, t->func, v), a, sizeof a));
}

mlsys_status mlsi_full_like(mlsi_graph *g, int32_t func, int32_t v, double value, int32_t *out) {
    mlsi_attr_full attrs;
    const mlsi_type *t = mlsi_type_of(g, func, v);
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = t->dtype;
    attrs.value = value;
    attrs.shape.n = t->rank;
    memcpy(attrs.shape.v, t->dims, sizeof *t->dims * (size_t)t->rank);
    return mlsi_build_node(g, func, MLSI_OP_FULL, &attrs, 0, NULL, 1, out);
}

static mlsys_status seed(tape *t, int32_t i, int32_t y, int32_t given) {
    char a[160], b[160];
    MLSI_TRY(check_float(t, "y", i, y));
    if (given < 0) {
        MLSI_TRY(mlsi_full_like(t->g, t->func, y, 1, &given));
        MLSI_TRY(extend(t));
    }
    const mlsi_type *have = mlsi_type_of(t->g, t->func, given),
                    *want = mlsi_type_of(t->g, t->func, y);
    if (!mlsi_type_equal(have, want))
        return mlsi_fail(MLSYS_E_SHAPE, "gradient: seed %d is %s, y is %s", i,
                         mlsi_type_text(&t->g->symbols, have, a, sizeof a),
                         mlsi_type_text(&t->g->symbols, want, b, sizeof b));
    MLSI_TRY(accumulate(t, y, given, -1));
    return extend(t);
}

static mlsys_status differentiate(tape *t, int32_t n_y, const int32_t *y, const int32_t *seeds,
                                  int32_t n_x, const int32_t *x, int32_t *dx) {
    int64_t n_nodes = func_of(t)->n_nodes;
    MLSI_TRY(extend(t));
    for (int32_t i = 0; i < n_x; i++) {
        MLSI_TRY(check_float(t, "x", i, x[i]));
        t->depends[x[i]] = true;
    }
    mark_dependents(t, 0, n_nodes);
    for (int32_t i = 0; i < n_y; i++)
        MLSI_TRY(seed(t, i, y[i], seeds ? seeds[i] : -1));
    MLSI_TRY(walk(t, 0, n_nodes));
    for (int32_t i = 0; i < n_x; i++)
        dx[i] = t->adjoint[x[i]];
    return MLSYS_OK;
}

static mlsys_status one_pass(mlsi_graph *g, int32_t func, mlsi_replay *replay, int32_t n_y,
                             const int32_t *y, const int32_t *seeds, int32_t n_x, const int32_t *x,
                             int32_t *dx) {
    tape t = {.g = g, .func = func, .replay = replay};
    mlsys_status st = differentiate(&t, n_y, y, seeds, n_x, x, dx);
    mlsi_mem_free(g->alloc, t.adjoint);
    mlsi_mem_free(g->alloc, t.alive);
    mlsi_mem_free(g->alloc, t.origin);
    mlsi_mem_free(g->alloc, t.depends);
    return st;
}

mlsi_growth mlsi_growth_of(const mlsi_graph *g, int32_t func) {
    return (mlsi_growth){g->funcs[func].n_nodes, g->funcs[func].n_values, g->n_funcs};
}

void mlsi_growth_undo(mlsi_graph *g, int32_t func, mlsi_growth at) {
    g->funcs[func].n_nodes = at.n_nodes;
    g->funcs[func].n_values = at.n_values;
    mlsi_graph_truncate(g, at.n_funcs);
}

mlsys_status mlsi_gradient(mlsi_graph *g, int32_t func, int32_t n_y, const int32_t *y,
                           const int32_t *seeds, int32_t n_x, const int32_t *x, int32_t *dx) {
    mlsi_growth before = mlsi_growth_of(g, func);
    mlsys_status st = one_pass(g, func, NULL, n_y, y, seeds, n_x, x, dx);
    if (st != MLSYS_OK) mlsi_growth_undo(g, func, before);
    return st;
}

mlsys_status mlsi_gradient_keeping(mlsi_graph *g, int32_t func, const mlsi_checkpoint *c,
                                   int32_t n_y, const int32_t *y, const int32_t *seeds, int32_t n_x,
                                   const int32_t *x, int32_t *dx) {
    mlsi_growth before = mlsi_growth_of(g, func);
    mlsi_replay r;
    if (c->kind == MLSI_CHECKPOINT_NONE) return mlsi_gradient(g, func, n_y, y, seeds, n_x, x, dx);
    MLSI_TRY(mlsi_replay_init(&r, g, func));
    mlsys_status st = one_pass(g, func, &r, n_y, y, seeds, n_x, x, dx);
    if (st == MLSYS_OK) st = mlsi_replay_learn(&r, n_x, dx);
    mlsi_growth_undo(g, func, before);
    if (st == MLSYS_OK) st = mlsi_replay_choose(&r, c);
    if (st == MLSYS_OK) st = one_pass(g, func, &r, n_y, y, seeds, n_x, x, dx);
    if (st != MLSYS_OK) mlsi_growth_undo(g, func, before);
    mlsi_replay_free(&r);
    return st;
}
