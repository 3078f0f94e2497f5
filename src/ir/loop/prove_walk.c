/* The walk over a nest with its facts, and the proof that subscripts are in range. */
#include "ir/loop/prove_walk.h"

#include "core/faults.h"
#include "ir/ops/op_def.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct walker {
    const mlsi_walk *w;
    mlsi_walk_place at;
    /* Conditions under which an expression was met: each GUARD entered is a context of its own. An expression met in an
     * open context need not be met again: what encloses it holds here too. */
    int32_t *met;     /* per expression: the context, 0 = none */
    uint8_t *is_open; /* per context */
    int64_t n_contexts, cap_contexts;
} walker;

mlsys_status mlsi_unproved(const mlsi_walk_place *p, const char *format, ...) {
    char why[600];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return mlsi_fail(MLSYS_E_STATE, "nest %s: statement %d: %s", p->n->name, (int)p->stmt, why);
}

static mlsys_status open_context(walker *k, int32_t *context) {
    enum { MOST = 1 << 20 };
    if (k->n_contexts == MOST)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "nest %s: too many guards to prove", k->at.n->name);
    MLSI_TRY(MLSI_GROW(k->at.n->alloc, &k->is_open, &k->cap_contexts, k->n_contexts + 1));
    k->is_open[k->n_contexts] = 1;
    *context = (int32_t)++k->n_contexts;
    return MLSYS_OK;
}

static mlsys_status walk_value(walker *k, int32_t value, int32_t context);

static mlsys_status walk_guard(walker *k, const mlsi_lx *x, int32_t context) {
    int32_t inside;
    int known = k->at.facts.n;
    MLSI_TRY(walk_value(k, x->args[1], context));
    MLSI_TRY(open_context(k, &inside));
    mlsi_facts_range(&k->at.facts, x->index[0], x->index[1], x->index[2]);
    mlsys_status st = walk_value(k, x->args[0], inside);
    k->at.facts.n = known;
    k->is_open[inside - 1] = 0;
    return st;
}

static mlsys_status walk_value(walker *k, int32_t value, int32_t context) {
    const mlsi_lx *x = &k->at.n->exprs[value];
    if (k->met[value] && k->is_open[k->met[value] - 1]) return MLSYS_OK;
    k->met[value] = context;
    if (k->w->value) MLSI_TRY(k->w->value(k->w->user, &k->at, x));
    if (x->kind == MLSI_LX_LOAD && k->w->access)
        MLSI_TRY(k->w->access(k->w->user, &k->at, x->ref, x->index, false));
    if (x->kind == MLSI_LX_GUARD) return walk_guard(k, x, context);
    for (int i = 0; i < x->n_args; i++)
        MLSI_TRY(walk_value(k, x->args[i], context));
    return MLSYS_OK;
}

static mlsys_status walk_values(walker *k, const mlsi_ls *s) {
    int32_t context;
    MLSI_TRY(open_context(k, &context));
    if (s->value >= 0) MLSI_TRY(walk_value(k, s->value, context));
    if (s->value2 >= 0) MLSI_TRY(walk_value(k, s->value2, context));
    if (s->kind == MLSI_LS_ACC && k->at.n->accs[s->ref].init >= 0)
        MLSI_TRY(walk_value(k, k->at.n->accs[s->ref].init, context));
    k->is_open[context - 1] = 0;
    return MLSYS_OK;
}

static mlsys_status walk_body(walker *k, int32_t first) {
    for (int32_t i = first; i >= 0; i = k->at.n->stmts[i].next) {
        const mlsi_ls *s = &k->at.n->stmts[i];
        int known = k->at.facts.n;
        k->at.stmt = i;
        if (k->w->stmt) MLSI_TRY(k->w->stmt(k->w->user, &k->at, s));
        if ((s->kind == MLSI_LS_STORE || s->kind == MLSI_LS_COPY) && k->w->access)
            MLSI_TRY(k->w->access(k->w->user, &k->at, s->ref, s->index, true));
        MLSI_TRY(walk_values(k, s));
        if (s->kind == MLSI_LS_BIND) mlsi_facts_loop(&k->at.facts, k->at.n->vars[s->var].extent);
        if (s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_IF) continue;
        if (s->kind == MLSI_LS_FOR) mlsi_facts_loop(&k->at.facts, k->at.n->vars[s->var].extent);
        if (s->kind == MLSI_LS_IF && s->value < 0)
            mlsi_facts_range(&k->at.facts, s->index[0], s->index[1], s->index[2]);
        k->at.around[k->at.depth++] = i;
        MLSI_TRY(walk_body(k, s->body));
        k->at.depth--;
        k->at.facts.n = known;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_nest_walk(const mlsi_nest *n, const mlsi_walk *w) {
    walker k = {.w = w, .at = {.n = n, .facts = {.tab = &n->tab}}};
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_exprs + 1, &k.met));
    mlsys_status st = walk_body(&k, n->first);
    mlsi_mem_free(n->alloc, k.met);
    mlsi_mem_free(n->alloc, k.is_open);
    return st;
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */

static mlsys_status prove_access(void *user, const mlsi_walk_place *p, int32_t buffer,
                                 const int64_t *index, bool write) {
    const mlsi_loop_buffer *b = &p->n->buffers[buffer];
    char i[200], extent[200];
    (void)user;
    for (int d = 0; d < b->rank; d++)
        if (!mlsi_prove_in_range(&p->facts, 0, index[d], b->dims[d]))
            return mlsi_unproved(
                p, "%s of %s: subscript %d is not proved to be in range: %s in [0,%s)",
                write ? "store" : "load", b->name, d,
                mlsi_dim_text(&p->n->tab, index[d], i, sizeof i),
                mlsi_dim_text(&p->n->tab, b->dims[d], extent, sizeof extent));
    return MLSYS_OK;
}

/* Tiles of a matrix product reach from the element that is named to M, N, K behind it. */
static mlsys_status prove_tile(const mlsi_walk_place *p, int32_t buffer, const int64_t *base,
                               int axis, int64_t count) {
    const mlsi_loop_buffer *b = &p->n->buffers[buffer];
    mlsi_expr last = mlsi_expr_of(&p->n->tab, b->dims[axis]);
    if (mlsi_expr_add_multiple(&p->n->tab, &last, base ? base[axis] : 0, -1) &&
        mlsi_expr_add_multiple(&p->n->tab, &last, count, -1) &&
        mlsi_expr_prove(&p->n->tab, p->facts.n, p->facts.list, &last))
        return MLSYS_OK;
    return mlsi_unproved(p, "the tile of %s is not proved to be in range along axis %d", b->name,
                         axis);
}

static mlsys_status prove_mma(void *user, const mlsi_walk_place *p, const mlsi_ls *s) {
    (void)user;
    if (s->kind != MLSI_LS_MMA) return MLSYS_OK;
    const mlsi_lx *a = &p->n->exprs[s->value], *b = &p->n->exprs[s->value2];
    MLSI_TRY(prove_tile(p, s->ref, NULL, 0, s->index[0]));
    MLSI_TRY(prove_tile(p, s->ref, NULL, 1, s->index[1]));
    MLSI_TRY(prove_tile(p, a->ref, a->index, a->n_index - 2, s->index[0]));
    MLSI_TRY(prove_tile(p, a->ref, a->index, a->n_index - 1, s->index[2]));
    MLSI_TRY(prove_tile(p, b->ref, b->index, b->n_index - 2, s->index[2]));
    return prove_tile(p, b->ref, b->index, b->n_index - 1, s->index[1]);
}

mlsys_status mlsi_nest_prove(const mlsi_nest *n, unsigned parts) {
    const mlsi_walk bounds = {.stmt = prove_mma, .access = prove_access};
    MLSI_TRY(mlsi_nest_verify(n));
    if (parts & MLSI_PROVE_BOUNDS) MLSI_TRY(mlsi_nest_walk(n, &bounds));
    if (parts & MLSI_PROVE_POSITIONS) MLSI_TRY(mlsi_prove_positions(n));
    if (parts & MLSI_PROVE_OUTPUTS) MLSI_TRY(mlsi_prove_outputs(n));
    if (parts & MLSI_PROVE_HAZARDS) MLSI_TRY(mlsi_prove_hazards(n));
    return MLSYS_OK;
}
