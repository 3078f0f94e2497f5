/* Dependences through memory: which accesses of one buffer may meet in different iterations of loops.
 *
 * Two accesses a and b in the loops meet in iterations v and v' where all their subscripts are equal. If for some sum of
 * multiples of the axes a - b' = c * (v - v') + d with |d| < |c|, they meet only where v = v'. What is so known of one loop
 * helps with the next. Everything else that varies is taken to be different on both sides. */
#include "ir/loop/schedule_edit.h"

#include <stdio.h>
#include <string.h>

/* ---- accesses --------------------------------------------------------------------------------------------- */

typedef struct gatherer {
    mlsi_nest *w;
    mlsi_accesses *out;
    int32_t stmt;
    int32_t *seen; /* statement + 1 that has had this expression */
} gatherer;

static mlsi_access *add_access(gatherer *g, int32_t buffer, int32_t expr, bool write) {
    mlsi_accesses *l = g->out;
    mlsi_nest_fail(g->w, MLSI_GROW(g->w->alloc, &l->items, &l->cap, l->n + 1));
    if (g->w->status != MLSYS_OK) return NULL;
    mlsi_access *a = &l->items[l->n++];
    *a = (mlsi_access){.stmt = g->stmt, .buffer = buffer, .expr = expr, .write = write};
    a->rank = g->w->buffers[buffer].rank;
    return a;
}

static void gather_expr(gatherer *g, int32_t expr) {
    if (expr < 0 || g->w->status != MLSYS_OK || g->seen[expr] == g->stmt + 1) return;
    const mlsi_lx *x = &g->w->exprs[expr];
    g->seen[expr] = g->stmt + 1;
    if (x->kind == MLSI_LX_LOAD) {
        mlsi_access *a = add_access(g, x->ref, expr, false);
        if (a) memcpy(a->index, x->index, sizeof a->index);
        if (a) a->whole = g->w->stmts[g->stmt].kind == MLSI_LS_MMA;
    }
    for (int k = 0; k < x->n_args; k++)
        gather_expr(g, x->args[k]);
}

void mlsi_edit_accesses(mlsi_nest *w, int32_t top, mlsi_accesses *out) {
    gatherer g = {.w = w, .out = out};
    int32_t *list = mlsi_edit_list(w, top);
    *out = (mlsi_accesses){0};
    if (list) mlsi_nest_fail(w, MLSI_NEW_N(w->alloc, w->n_exprs + 1, &g.seen));
    for (int32_t *i = list; w->status == MLSYS_OK && *i >= 0; i++) {
        const mlsi_ls *s = &w->stmts[*i];
        g.stmt = *i;
        gather_expr(&g, s->value);
        gather_expr(&g, s->value2);
        if (s->kind == MLSI_LS_MMA) { /* reads the tile, and writes it */
            mlsi_access *a = add_access(&g, s->ref, -1, false);
            if (a) a->whole = true;
        }
        if (s->kind != MLSI_LS_STORE && s->kind != MLSI_LS_COPY && s->kind != MLSI_LS_MMA) continue;
        mlsi_access *a = add_access(&g, s->ref, -1, true);
        if (a) memcpy(a->index, s->index, sizeof a->index);
        if (a) a->whole = s->kind == MLSI_LS_MMA;
    }
    mlsi_mem_free(w->alloc, g.seen);
    mlsi_mem_free(w->alloc, list);
}

/* ---- what has an order beyond subscripts --------------------------------------------------------------------- */

/* Marks the expressions that an expression evaluates. */
static void reach(const mlsi_nest *w, int32_t expr, uint8_t *reached) {
    if (expr < 0 || reached[expr]) return;
    reached[expr] = 1;
    for (int k = 0; k < w->exprs[expr].n_args; k++)
        reach(w, w->exprs[expr].args[k], reached);
}

static bool evaluates(const mlsi_nest *w, const uint8_t *reached, mlsi_lx_kind kind, int32_t ref) {
    for (int64_t i = 0; i < w->n_exprs; i++)
        if (reached[i] && w->exprs[i].kind == kind && (ref < 0 || w->exprs[i].ref == ref))
            return true;
    return false;
}

const char *mlsi_edit_ordered(mlsi_nest *w, int32_t top) {
    int32_t *list = mlsi_edit_list(w, top);
    uint8_t *reached = NULL;
    const char *why = NULL;
    mlsi_nest_fail(w, MLSI_NEW_N(w->alloc, w->n_exprs + 1, &reached));
    for (int32_t *i = list; list && reached && *i >= 0; i++) {
        reach(w, w->stmts[*i].value, reached);
        reach(w, w->stmts[*i].value2, reached);
    }
    for (int32_t *i = list; w->status == MLSYS_OK && *i >= 0 && !why; i++) {
        const mlsi_ls *s = &w->stmts[*i];
        if (s->kind == MLSI_LS_BARRIER) why = "a barrier";
        if (s->kind == MLSI_LS_COPY || s->kind == MLSI_LS_WAIT) why = "an asynchronous copy";
        if (s->kind == MLSI_LS_ADD && evaluates(w, reached, MLSI_LX_ACC, s->ref) &&
            !mlsi_edit_inside(w, mlsi_edit_opening(w, MLSI_LS_ACC, s->ref), top))
            why = "a reduction that is read while its terms are added";
    }
    if (w->status == MLSYS_OK && evaluates(w, reached, MLSI_LX_SHUFFLE, -1)) why = "a shuffle";
    mlsi_mem_free(w->alloc, reached);
    mlsi_mem_free(w->alloc, list);
    return why;
}

/* ---- meetings ---------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    mlsi_nest *w;
    int count;
    const int32_t *loops;
    mlsi_edit_vars outer;           /* the same on both sides */
    mlsi_edit_vars vars, other;     /* what varies: on the one side, on the other */
    int32_t stmt[MLSI_EDIT_VARS];   /* its FOR or BIND */
    bool equal[MLSI_EDIT_VARS];     /* the same on both sides wherever the two meet */
    bool apart;                     /* they never meet */
} meeting;

/* A variable of its own for the other side; its extent in terms of the other side. */
static bool add_other(meeting *m, int i) {
    mlsi_nest *w = m->w;
    int64_t extent, code;
    char base[32], name[MLSI_STEP_NAME];
    if (!mlsi_index_replace(w, m->vars.extent[i], m->other.n, m->vars.symbol, m->other.code,
                            &extent))
        return false;
    snprintf(base, sizeof base, "_other_%d", i);
    mlsi_edit_free_name(w, base, name);
    int64_t max = w->tab.symbols[m->vars.symbol[i]].max;
    mlsi_nest_fail(w, mlsi_dim_symbol(&w->tab, name, 0, max, 1, &code));
    if (w->status != MLSYS_OK) return false;
    m->other.symbol[i] = mlsi_dim_as_symbol(&w->tab, code);
    m->other.code[i] = code;
    m->other.extent[i] = extent;
    m->other.n = i + 1;
    return true;
}

static bool open_meeting(meeting *m) {
    mlsi_nest *w = m->w;
    int32_t top = m->loops[0], around = mlsi_edit_parent(w, top), n = 0;
    int32_t *list = mlsi_edit_list(w, top);
    mlsi_edit_vars_around(w, around, &m->outer);
    for (int32_t *i = list; list && *i >= 0 && w->status == MLSYS_OK; i++) {
        const mlsi_ls *s = &w->stmts[*i];
        if (s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_BIND) continue;
        const mlsi_loop_var *v = &w->vars[s->var];
        if (v->symbol < 0) continue;
        if (n == MLSI_EDIT_VARS) {
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "schedule: more than %d variables",
                             MLSI_EDIT_VARS);
            break;
        }
        m->stmt[n] = *i;
        m->vars.symbol[n] = v->symbol, m->vars.code[n] = v->code, m->vars.extent[n] = v->extent;
        m->vars.n = n + 1;
        if (!add_other(m, n++))
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "schedule: the extent of %s is too large",
                             v->name);
    }
    mlsi_mem_free(w->alloc, list);
    return w->status == MLSYS_OK;
}

/* d as the other side sees it. */
static bool other_side(meeting *m, int64_t d, int64_t *out) {
    int32_t symbols[MLSI_EDIT_VARS];
    int64_t by[MLSI_EDIT_VARS];
    int n = 0;
    for (int i = 0; i < m->vars.n; i++)
        if (!m->equal[i]) symbols[n] = m->vars.symbol[i], by[n++] = m->other.code[i];
    return mlsi_index_replace(m->w, d, n, symbols, by, out);
}

/* Both sides' variables and those around, for bounds. */
static bool at_least(meeting *m, int64_t d, int64_t least) {
    for (int i = m->vars.n - 1; i >= 0; i--) {
        mlsi_edit_vars two = {.n = 2,
                              .symbol = {m->vars.symbol[i], m->other.symbol[i]},
                              .code = {m->vars.code[i], m->other.code[i]},
                              .extent = {m->vars.extent[i], m->other.extent[i]}};
        int64_t out;
        for (int k = 1; k >= 0; k--) {
            two.n = k + 1;
            mlsi_edit_vars one = {.n = 1,
                                  .symbol = {two.symbol[k]},
                                  .code = {two.code[k]},
                                  .extent = {two.extent[k]}};
            if (mlsi_index_extreme(m->w, &one, d, false, &out)) d = out;
        }
    }
    return mlsi_index_at_least(m->w, &m->outer, d, least);
}

/* |rest| < factor */
static bool within(meeting *m, int64_t factor, int64_t rest) {
    int64_t below, above;
    return mlsi_index_op(m->w, '-', factor, rest, &below) && at_least(m, below, 1) &&
           mlsi_index_op(m->w, '+', factor, rest, &above) && at_least(m, above, 1);
}

/* a and b are one sum of multiples of the subscripts, seen from both sides: what their equality tells. */
static bool learn(meeting *m, int64_t a, int64_t b) {
    mlsi_nest *w = m->w;
    int64_t d, minus, factor, other, rest;
    if (!other_side(m, b, &b) || !mlsi_index_op(w, '-', a, b, &d)) return false;
    if (mlsi_index_op(w, '-', 0, d, &minus) && (at_least(m, d, 1) || at_least(m, minus, 1)))
        return m->apart = true;
    bool more = false;
    for (int i = 0; i < m->vars.n; i++) {
        if (m->equal[i]) continue;
        if (!mlsi_index_linear(w, d, m->vars.symbol[i], m->vars.code[i], &factor, &rest) ||
            !mlsi_index_linear(w, rest, m->other.symbol[i], m->other.code[i], &other, &rest) ||
            !mlsi_index_op(w, '-', 0, other, &other) || factor != other || factor == 0)
            continue;
        if (!within(m, factor, rest) &&
            (!mlsi_index_op(w, '-', 0, factor, &factor) || !within(m, factor, rest)))
            continue;
        m->equal[i] = more = true;
        return true; /* the two sides have changed */
    }
    return more;
}

/* The subscripts from axis d on as one row-major number. */
static bool row_major(meeting *m, const mlsi_access *a, int d, int64_t *out) {
    const int64_t *dims = m->w->buffers[a->buffer].dims;
    *out = a->index[d];
    for (int k = d + 1; k < a->rank; k++)
        if (mlsi_index_has_any(&m->w->tab, dims[k], &m->vars) ||
            !mlsi_index_op(m->w, '*', *out, dims[k], out) ||
            !mlsi_index_op(m->w, '+', *out, a->index[k], out))
            return false;
    return true;
}

/* A fused loop f leaves f / E and f % E in two axes: E times the one plus the other is f again. */
static bool learn_quotients(meeting *m, const mlsi_access *a, const mlsi_access *b) {
    mlsi_nest *w = m->w;
    for (int d = 0; d < a->rank; d++) {
        if (!mlsi_dim_is_code(&w->tab, a->index[d])) continue;
        mlsi_expr e = w->tab.exprs[MLSI_DIM_CODE - a->index[d]];
        for (int t = 0; t < e.n; t++) {
            mlsi_atom atom = w->tab.atoms[e.terms[t].atoms[0]];
            int64_t x, y;
            if (e.terms[t].n != 1 || !atom.op || mlsi_index_has_any(&w->tab, atom.b, &m->vars))
                continue;
            for (int k = 0; k < a->rank; k++)
                if (k != d && mlsi_index_op(w, '*', a->index[d], atom.b, &x) &&
                    mlsi_index_op(w, '+', x, a->index[k], &x) &&
                    mlsi_index_op(w, '*', b->index[d], atom.b, &y) &&
                    mlsi_index_op(w, '+', y, b->index[k], &y) && learn(m, x, y))
                    return true;
        }
    }
    return false;
}

static bool learn_once(meeting *m, const mlsi_access *a, const mlsi_access *b) {
    int64_t x, y;
    for (int d = 0; d < a->rank; d++)
        if (learn(m, a->index[d], b->index[d])) return true;
    for (int d = a->rank - 2; d >= 0; d--)
        if (row_major(m, a, d, &x) && row_major(m, b, d, &y) && learn(m, x, y)) return true;
    return learn_quotients(m, a, b);
}

/* Only what encloses both statements has iterations of both. */
static uint32_t may_differ(meeting *m, const mlsi_access *a, const mlsi_access *b) {
    uint32_t free = 0;
    memset(m->equal, 0, sizeof m->equal);
    m->apart = false;
    if (!a->whole && !b->whole && a->buffer == b->buffer)
        while (!m->apart && learn_once(m, a, b))
            continue;
    if (m->apart) return 0;
    for (int l = 0; l < m->count; l++) {
        bool equal = m->w->vars[m->w->stmts[m->loops[l]].var].symbol < 0;
        for (int i = 0; i < m->vars.n; i++)
            if (m->stmt[i] == m->loops[l]) equal = m->equal[i];
        if (!equal) free |= (uint32_t)1 << l;
    }
    return free;
}

/* Do two buffers show the same memory? */
static bool is_same_memory(const mlsi_nest *w, int32_t a, int32_t b) {
    const mlsi_loop_buffer *x = &w->buffers[a], *y = &w->buffers[b];
    return a == b || (x->param >= 0 && x->param == y->param && x->scope == y->scope);
}

/* Buffers whose memory belongs to one iteration of the loop: 1. NULL after a failure. */
static uint8_t *own_buffers(mlsi_nest *w, int32_t loop) {
    int32_t *list = mlsi_edit_list(w, loop);
    uint8_t *own = NULL;
    mlsi_nest_fail(w, MLSI_NEW_N(w->alloc, w->n_buffers + 1, &own));
    for (int32_t *i = list; list && own && *i >= 0; i++)
        if (w->stmts[*i].kind == MLSI_LS_ALLOC) own[w->stmts[*i].ref] = 1;
    mlsi_mem_free(w->alloc, list);
    return own;
}

void mlsi_edit_conflicts(mlsi_nest *w, int count, const int32_t *loops, mlsi_conflict_seen *seen,
                         void *user) {
    meeting m = {.w = w, .count = count, .loops = loops};
    mlsi_accesses all = {0};
    uint8_t *own = own_buffers(w, loops[count - 1]);
    mlsi_edit_accesses(w, loops[count - 1], &all);
    bool more = w->status == MLSYS_OK && open_meeting(&m);
    for (int64_t i = 0; more && i < all.n; i++) {
        for (int64_t j = i; more && !own[all.items[i].buffer] && j < all.n; j++) {
            mlsi_conflict c = {.a = &all.items[i], .b = &all.items[j]};
            if (!is_same_memory(w, c.a->buffer, c.b->buffer) || (!c.a->write && !c.b->write))
                continue;
            c.free = may_differ(&m, c.a, c.b);
            if (c.free) more = seen(w, user, &c);
        }
    }
    mlsi_mem_free(w->alloc, own);
    mlsi_mem_free(w->alloc, all.items);
}
