#include "train/sums.h"

#include "core/faults.h"
#include "ir/ops/decompose.h"
#include "ir/passes/passes.h"

#include <string.h>

static const mlsi_func *main_of(const mlsi_graph *g) { return &g->funcs[0]; }

static const mlsi_node *node_of(const mlsi_graph *g, int32_t v) {
    const mlsi_value_def *def = &main_of(g)->values[v];
    return def->kind == MLSI_VALUE_NODE ? &main_of(g)->nodes[def->index] : NULL;
}

static bool static_float(const mlsi_graph *g, int32_t v) {
    const mlsi_type *t = mlsi_type_of(g, 0, v);
    return mlsi_type_static(t) && mlsi_dtype_is_float(t->dtype);
}

static mlsys_dtype wide(mlsys_dtype t) { return t == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32; }

/* ---- nodes that go on with a sum ----------------------------------------------------------- */

static const struct {
    mlsi_op op;
    int addend; /* operand */
} continuing[] = {
    {MLSI_OP_DOT_GENERAL, 2}, {MLSI_OP_BATCH_SUM, 1}, {MLSI_OP_CONV, 2}, {MLSI_OP_SCATTER, 0}};
enum { CONTINUING = (int)(sizeof continuing / sizeof continuing[0]) };

static int addend_of(mlsi_op op) {
    for (int i = 0; i < CONTINUING; i++)
        if (continuing[i].op == op) return continuing[i].addend;
    return -1;
}

/* scatter begins with rows of +0. */
static bool adds_to_zeros(const mlsi_graph *g, const mlsi_node *node) {
    const mlsi_attr_scatter *at = node->attrs;
    const mlsi_node *x = node_of(g, node->in[0]);
    return at->kind == MLSI_SCATTER_ADD && x && x->op == MLSI_OP_FULL &&
           ((const mlsi_attr_full *)x->attrs)->value == 0;
}

/* The attribute that says in which dtype sums are rounded, NULL where there is none. */
static int64_t *result_dtype(mlsi_op op, void *attrs) {
    if (op == MLSI_OP_DOT_GENERAL) return &((mlsi_attr_dot *)attrs)->dtype;
    return op == MLSI_OP_BATCH_SUM ? &((mlsi_attr_batch_sum *)attrs)->dtype : NULL;
}

/* A narrow sum would round with each call, so its dtype must be wide or one that can be chosen. */
static bool continues(const mlsi_graph *g, int32_t v) {
    const mlsi_node *node = node_of(g, v);
    int addend = node ? addend_of(node->op) : -1;
    if (addend < 0 || !static_float(g, v) || mlsi_fault(MLSI_FAULT_TRAIN_SUM_APART)) return false;
    if (node->op == MLSI_OP_SCATTER && !adds_to_zeros(g, node)) return false;
    if (addend && node->n_in > addend && node->in[addend] >= 0) return false;
    mlsys_dtype t = mlsi_type_of(g, 0, v)->dtype;
    return t == wide(t) || node->op == MLSI_OP_DOT_GENERAL || node->op == MLSI_OP_BATCH_SUM;
}

/* ---- tails --------------------------------------------------------------------------------- */

/* A function of its operands that commutes with sums of calls. */
static bool linear(const mlsi_graph *g, int32_t v) {
    const mlsi_node *node = node_of(g, v);
    if (!node || !static_float(g, v)) return false;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] < 0 || !static_float(g, node->in[i])) return false;
    switch (node->op) {
    case MLSI_OP_ADD:
        return mlsi_type_equal(mlsi_type_of(g, 0, node->in[0]), mlsi_type_of(g, 0, node->in[1]));
    case MLSI_OP_PAD: return ((const mlsi_attr_pad *)node->attrs)->value == 0;
    case MLSI_OP_NEG:
    case MLSI_OP_CAST:
    case MLSI_OP_TRANSPOSE:
    case MLSI_OP_RESHAPE:
    case MLSI_OP_REVERSE:
    case MLSI_OP_SLICE: return true;
    default: return false;
    }
}

/* A cast of what is added call by call is better added behind it, in the wider dtype. */
static bool is_tail(const mlsi_graph *g, int32_t v) {
    if (!linear(g, v)) return false;
    const mlsi_node *node = node_of(g, v);
    return node->op != MLSI_OP_CAST || linear(g, node->in[0]) || continues(g, node->in[0]);
}

/* Does v's tail end in few terms? Their number is that of the open branches. */
static bool few_terms(const mlsi_graph *g, int32_t v) {
    int32_t open[MLSI_MAX_TERMS];
    int n = 1, terms = 0;
    open[0] = v;
    while (n > 0) {
        v = open[--n];
        const mlsi_node *node = is_tail(g, v) ? node_of(g, v) : NULL;
        if (!node) terms++;
        for (int i = 0; node && i < node->n_in; i++) {
            if (terms + n >= MLSI_MAX_TERMS) return false;
            open[n++] = node->in[i];
        }
    }
    return true;
}

/* ---- finding them -------------------------------------------------------------------------- */

/* Per value. */
typedef struct reads {
    int32_t *all, *by_tail;
    int32_t *parameter; /* whose gradient it is part of, -1 = none */
    bool *whole;        /* a gradient that is one term */
} reads;

static mlsys_status count_reads(mlsi_arena *arena, const mlsi_graph *g, int32_t n,
                                const int32_t *grad, reads *r) {
    const mlsi_func *f = main_of(g);
    size_t room = (size_t)f->n_values + 1;
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *r->all, (void **)&r->all));
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *r->by_tail, (void **)&r->by_tail));
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *r->parameter, (void **)&r->parameter));
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *r->whole, (void **)&r->whole));
    memset(r->parameter, 0xff, room * sizeof *r->parameter);
    for (int64_t i = 0; i < f->n_nodes; i++)
        for (int k = 0; k < f->nodes[i].n_in; k++)
            if (f->nodes[i].in[k] >= 0) r->all[f->nodes[i].in[k]]++;
    for (int32_t i = n - 1; i >= 0; i--) {
        r->parameter[grad[i]] = i;
        r->whole[grad[i]] = !few_terms(g, grad[i]);
    }
    return MLSYS_OK;
}

static void add_term(const mlsi_graph *g, mlsi_sums *s, int32_t v, int32_t parameter,
                     bool goes_on) {
    mlsi_sum_term *t = &s->terms[s->n];
    *t = (mlsi_sum_term){v, parameter, goes_on, *mlsi_type_of(g, 0, v), -0.0};
    if (goes_on && node_of(g, v)->op == MLSI_OP_SCATTER) t->initial = 0;
    t->type.dtype = wide(t->type.dtype);
    s->term_of[v] = s->n++;
}

/* From the last value to the first, so that all that reads a value is known. What something besides the tail reads
 * stays as it is: a sum must not take its place. */
mlsys_status mlsi_sums_find(mlsi_arena *arena, const mlsi_graph *g, int32_t n, const int32_t *grad,
                            mlsi_sums *out) {
    reads r;
    int64_t n_values = main_of(g)->n_values;
    size_t room = (size_t)n_values + 1, most = (size_t)n * MLSI_MAX_TERMS + 1;
    *out = (mlsi_sums){.n_values = n_values};
    MLSI_TRY(count_reads(arena, g, n, grad, &r));
    MLSI_TRY(mlsi_arena_zalloc(arena, most * sizeof *out->terms, (void **)&out->terms));
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *out->term_of, (void **)&out->term_of));
    MLSI_TRY(mlsi_arena_zalloc(arena, room * sizeof *out->tail, (void **)&out->tail));
    memset(out->term_of, 0xff, room * sizeof *out->term_of);
    for (int32_t v = (int32_t)n_values - 1; v >= 0; v--) {
        if (r.parameter[v] < 0) continue;
        bool own = r.all[v] == r.by_tail[v];
        out->tail[v] = own && !r.whole[v] && is_tail(g, v);
        if (!out->tail[v]) {
            add_term(g, out, v, r.parameter[v], own && continues(g, v));
            continue;
        }
        const mlsi_node *node = node_of(g, v);
        for (int i = 0; i < node->n_in; i++) {
            int32_t *owner = &r.parameter[node->in[i]];
            r.by_tail[node->in[i]]++;
            if (*owner < 0 || *owner > r.parameter[v]) *owner = r.parameter[v];
        }
    }
    return MLSYS_OK;
}

/* ---- the first program --------------------------------------------------------------------- */

typedef struct continuation {
    const mlsi_sums *sums;
    const int32_t *addend;
    int64_t n_nodes, done_nodes, done_values;
} continuation;

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    continuation *c = rw->user;
    bool known = node->first_out < c->sums->n_values; /* others came later */
    int32_t term = known ? c->sums->term_of[node->first_out] : -1, in[MLSI_MAX_OPERANDS];
    const mlsi_op_def *def = mlsi_op_get(node->op);
    _Alignas(16) char attrs[1024];
    bool goes_on = term >= 0 && c->sums->terms[term].continues;
    if (!goes_on) {
        MLSI_TRY(mlsi_rewrite_keep(rw, node, out));
    } else {
        int addend = addend_of(node->op), n_in = node->n_in > addend + 1 ? node->n_in : addend + 1;
        if (def->attrs_size > sizeof attrs)
            return mlsi_fail(MLSYS_E_INTERNAL, "trainer: attributes of %zu bytes", def->attrs_size);
        memcpy(attrs, node->attrs, def->attrs_size);
        int64_t *dtype = result_dtype(node->op, attrs);
        if (dtype) *dtype = c->sums->terms[term].type.dtype;
        for (int i = 0; i < n_in; i++)
            in[i] = mlsi_rewrite_operand(rw, node, i);
        in[addend] = rw->map[c->addend[term]];
        MLSI_TRY(mlsi_build_node(rw->g, rw->func, node->op, attrs, n_in, in, 1, out));
    }
    if (node - rw->old.nodes < c->n_nodes) {
        c->done_nodes = rw->g->funcs[rw->func].n_nodes;
        c->done_values = rw->g->funcs[rw->func].n_values;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_sums_continue(mlsi_graph *g, const mlsi_sums *s, const int32_t *addend,
                                int64_t *n_nodes, int64_t *n_values) {
    continuation c = {.sums = s, .addend = addend, .n_nodes = *n_nodes};
    mlsi_pass_ctx pass = {.g = g};
    MLSI_TRY(mlsi_rewrite_run(&pass, 0, visit, &c));
    *n_nodes = c.done_nodes;
    *n_values = c.done_values;
    return MLSYS_OK;
}

/* ---- the second program -------------------------------------------------------------------- */

mlsys_status mlsi_sums_finish(mlsi_graph *to, const mlsi_graph *from, const mlsi_sums *s,
                              const int32_t *sum, int32_t n, const int32_t *grad, int32_t *out) {
    int32_t *map, in[MLSI_MAX_OPERANDS];
    mlsi_emit e = {.g = to, .func = 0, .compute = MLSYS_F32};
    MLSI_TRY(MLSI_NEW_N(to->alloc, s->n_values + 1, &map));
    for (int32_t v = 0; v < s->n_values && e.st == MLSYS_OK; v++) {
        int32_t term = s->term_of[v];
        if (term >= 0) { /* rounded once, as the whole batch's */
            map[v] = mlsi_emit_cast(&e, sum[term], mlsi_type_of(from, 0, v)->dtype);
        } else if (s->tail[v]) {
            const mlsi_node *node = node_of(from, v);
            for (int i = 0; i < node->n_in; i++)
                in[i] = map[node->in[i]];
            e.st = mlsi_graph_import_node(to, 0, from, node, in, &map[v]);
        }
    }
    for (int32_t i = 0; i < n && e.st == MLSYS_OK; i++) {
        int32_t term = s->term_of[grad[i]];
        out[i] = term >= 0 && !s->terms[term].continues ? sum[term] : map[grad[i]];
    }
    mlsi_mem_free(to->alloc, map);
    return e.st;
}
