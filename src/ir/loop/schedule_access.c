/* Dependences through memory: which accesses of one buffer may meet in different iterations of loops.
 *
 * Two accesses a and b in the loops meet in iterations v and v' where all their subscripts are equal. If for some sum of
 * multiples of the axes a - b' = c * (v - v') + d with |d| < |c|, they meet only where v = v'. What is so known of one loop
 * helps with the next. Everything else that varies is taken to be different on both sides. A quotient, which fused loops
 * leave, is a variable of its own until it is known to be equal: f / E in one axis makes f % E = f - E * (f / E) in another
 * tell f. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include "core/faults.h"

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
        gather_expr(&g, mlsi_edit_addend(w, *i));
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
        reach(w, mlsi_edit_addend(w, *i), reached);
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

enum { MOST_GUARDS = 4 };

typedef struct meeting {
    mlsi_nest *w;
    int count;
    const int32_t *loops;
    mlsi_edit_vars vars, other;   /* what varies: on the one side, on the other */
    int32_t stmt[MLSI_EDIT_VARS]; /* its FOR or BIND, -1 = a quotient */
    int32_t atom[MLSI_EDIT_VARS]; /* the quotient */
    bool equal[MLSI_EDIT_VARS];   /* the same on both sides wherever the two meet */
    bool apart;                   /* they never meet */
    int n_guards[2];              /* of each access: lo <= index < hi holds */
    int64_t guards[2][MOST_GUARDS][3];
} meeting;

/* A variable of a name that nothing has. */
static bool new_variable(mlsi_nest *w, const char *kind, int i, int64_t extent, int32_t *symbol,
                         int64_t *code) {
    char base[32], name[MLSI_STEP_NAME];
    snprintf(base, sizeof base, "_%s_%d", kind, i);
    mlsi_edit_free_name(w, base, name);
    *symbol = (int32_t)w->tab.n_symbols;
    mlsi_nest_fail(w, mlsi_dim_variable(&w->tab, name, extent, code));
    return w->status == MLSYS_OK;
}

/* Something that varies, and what it is on the other side, its extent in terms of that side. */
static bool add_varying(meeting *m, int32_t stmt, int32_t atom, int32_t symbol, int64_t code,
                        int64_t extent) {
    int i = m->vars.n;
    int64_t other;
    if (i == MLSI_EDIT_VARS)
        return mlsi_edit_refuse(m->w, MLSYS_E_UNSUPPORTED, "schedule: more than %d variables",
                                MLSI_EDIT_VARS);
    if (!mlsi_index_replace(m->w, extent, i, m->vars.symbol, m->other.code, &other))
        return mlsi_edit_refuse(m->w, MLSYS_E_UNSUPPORTED, "schedule: an extent is too large");
    m->stmt[i] = stmt, m->atom[i] = atom;
    m->vars.symbol[i] = symbol, m->vars.code[i] = code, m->vars.extent[i] = extent;
    if (!new_variable(m->w, "other", i, other, &m->other.symbol[i], &m->other.code[i]))
        return false;
    m->vars.n = m->other.n = i + 1;
    return true;
}

static bool open_meeting(meeting *m) {
    mlsi_nest *w = m->w;
    int32_t top = m->loops[0];
    int32_t *list = mlsi_edit_list(w, top);
    for (int32_t *i = list; list && *i >= 0 && w->status == MLSYS_OK; i++) {
        if (w->stmts[*i].kind != MLSI_LS_FOR && w->stmts[*i].kind != MLSI_LS_BIND) continue;
        const mlsi_loop_var v = w->vars[w->stmts[*i].var];
        if (v.symbol >= 0) add_varying(m, *i, -1, v.symbol, v.code, v.extent);
    }
    mlsi_mem_free(w->alloc, list);
    return w->status == MLSYS_OK;
}

/* A quotient of what varies, as a variable from 0 on. */
static bool hide_quotient(mlsi_nest *w, void *user, int32_t atom, int64_t *out) {
    meeting *m = user;
    mlsi_atom a = w->tab.atoms[atom];
    int64_t lo, hi, extent, code;
    int32_t symbol;
    if (!a.op || (!mlsi_index_has_any(&w->tab, a.a, &m->vars) &&
                  !mlsi_index_has_any(&w->tab, a.b, &m->vars)))
        return false;
    if (!mlsi_atom_range(&w->tab, &a, &lo, &hi) || lo == hi || !mlsi_add_i64(hi, -lo, &extent) ||
        !mlsi_add_i64(extent, 1, &extent))
        return false;
    int i = 0;
    while (i < m->vars.n && (m->stmt[i] >= 0 || m->atom[i] != atom))
        i++;
    if (i == m->vars.n && (!new_variable(w, "quotient", i, extent, &symbol, &code) ||
                           !add_varying(m, -1, atom, symbol, code, extent)))
        return false;
    int64_t start = lo < 0 ? -lo : lo;
    return mlsi_index_op(w, lo < 0 ? '-' : '+', m->vars.code[i], start, out);
}

static void hide_quotients(meeting *m, mlsi_accesses *all) {
    for (int64_t i = 0; i < all->n; i++)
        for (int d = 0; d < all->items[i].rank; d++) {
            int64_t hidden;
            if (mlsi_index_map(m->w, all->items[i].index[d], hide_quotient, m, &hidden))
                all->items[i].index[d] = hidden;
        }
}

/* A quotient of what is equal is equal. */
static bool learn_quotient(meeting *m) {
    for (int i = 0; i < m->vars.n; i++) {
        if (m->stmt[i] >= 0 || m->equal[i]) continue;
        mlsi_atom a = m->w->tab.atoms[m->atom[i]];
        bool equal = true;
        for (int k = 0; k < m->vars.n; k++)
            equal = equal && (m->equal[k] || (!mlsi_dim_names(&m->w->tab, a.a, m->vars.symbol[k]) &&
                                              !mlsi_dim_names(&m->w->tab, a.b, m->vars.symbol[k])));
        if (equal) return m->equal[i] = true;
    }
    return false;
}

/* d as the other side sees it. */
static bool other_side(meeting *m, int64_t d, int64_t *out) {
    int32_t symbols[MLSI_EDIT_VARS];
    int64_t by[MLSI_EDIT_VARS];
    int n = 0;
    for (int i = 0; i < m->vars.n; i++)
        if (!m->equal[i] && !(i && mlsi_fault(MLSI_FAULT_SCHEDULE_ONE_SIDE)))
            symbols[n] = m->vars.symbol[i], by[n++] = m->other.code[i];
    return mlsi_index_replace(m->w, d, n, symbols, by, out);
}

/* Is d >= least where both accesses are made? */
static bool at_least(meeting *m, int64_t d, int64_t least) {
    mlsi_dim_fact facts[4 * MOST_GUARDS];
    int n = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < m->n_guards[side]; i++) {
            int64_t g[3];
            bool ok = true;
            for (int k = 0; k < 3; k++) {
                g[k] = m->guards[side][i][k];
                ok = ok && (!side || other_side(m, g[k], &g[k]));
            }
            if (!ok) continue;
            facts[n++] = (mlsi_dim_fact){.big = g[1], .small = g[0], .least = 0};
            facts[n++] = (mlsi_dim_fact){.big = g[2], .small = g[1], .least = 1};
        }
    return mlsi_dim_prove(&m->w->tab, n, facts, d, 0, least);
}

/* |rest| < factor */
static bool within(meeting *m, int64_t factor, int64_t rest) {
    int64_t below, above, least = mlsi_fault(MLSI_FAULT_SCHEDULE_MEETING) ? 0 : 1;
    return mlsi_index_op(m->w, '-', factor, rest, &below) && at_least(m, below, least) &&
           mlsi_index_op(m->w, '+', factor, rest, &above) && at_least(m, above, least);
}

/* a and b are one sum of multiples of the subscripts, seen from both sides: what their equality tells. */
static bool learn(meeting *m, int64_t a, int64_t b) {
    mlsi_nest *w = m->w;
    int64_t d, minus, factor, other, rest;
    if (!other_side(m, b, &b) || !mlsi_index_op(w, '-', a, b, &d)) return false;
    if (mlsi_index_op(w, '-', 0, d, &minus) && (at_least(m, d, 1) || at_least(m, minus, 1)))
        return m->apart = true;
    for (int i = 0; i < m->vars.n; i++) {
        if (m->equal[i]) continue;
        if (!mlsi_index_linear(w, d, m->vars.symbol[i], m->vars.code[i], &factor, &rest) ||
            !mlsi_index_linear(w, rest, m->other.symbol[i], m->other.code[i], &other, &rest) ||
            !mlsi_index_op(w, '-', 0, other, &other) || factor != other || factor == 0)
            continue;
        if (!within(m, factor, rest) &&
            (!mlsi_index_op(w, '-', 0, factor, &factor) || !within(m, factor, rest)))
            continue;
        return m->equal[i] = true; /* the other side has changed: from the start */
    }
    return false;
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

static bool learn_once(meeting *m, const mlsi_access *a, const mlsi_access *b) {
    int64_t x, y;
    for (int d = 0; d < a->rank; d++)
        if (learn(m, a->index[d], b->index[d])) return true;
    for (int d = a->rank - 2; d >= 0; d--)
        if (row_major(m, a, d, &x) && row_major(m, b, d, &y) && learn(m, x, y)) return true;
    return learn_quotient(m);
}

/* The guards between the loops and an access. */
static void find_guards(meeting *m, int side, const mlsi_access *a) {
    mlsi_nest *w = m->w;
    int n = 0;
    for (int32_t s = a->stmt; s != m->loops[0] && n < MOST_GUARDS; s = mlsi_edit_parent(w, s)) {
        if (w->stmts[s].kind != MLSI_LS_IF || w->stmts[s].value >= 0) continue;
        bool ok = true;
        for (int k = 0; k < 3; k++)
            ok = ok &&
                 mlsi_index_map(w, w->stmts[s].index[k], hide_quotient, m, &m->guards[side][n][k]);
        n += ok;
    }
    m->n_guards[side] = n;
}

/* Only what encloses both statements has iterations of both. */
static uint32_t may_differ(meeting *m, const mlsi_access *a, const mlsi_access *b) {
    uint32_t free = 0;
    memset(m->equal, 0, sizeof m->equal);
    m->apart = false;
    find_guards(m, 0, a);
    find_guards(m, 1, b);
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
    if (more) hide_quotients(&m, &all);
    more = w->status == MLSYS_OK && more;
    for (int64_t i = 0; more && i < all.n; i++) {
        for (int64_t j = i; more && !own[all.items[i].buffer] && j < all.n; j++) {
            mlsi_conflict c = {.a = &all.items[i], .b = &all.items[j]};
            if (!is_same_memory(w, c.a->buffer, c.b->buffer) || (!c.a->write && !c.b->write))
                continue;
            if (mlsi_fault(MLSI_FAULT_SCHEDULE_READS) && !(c.a->write && c.b->write)) continue;
            c.free = may_differ(&m, c.a, c.b);
            if (c.free) more = seen(w, user, &c);
        }
    }
    mlsi_mem_free(w->alloc, own);
    mlsi_mem_free(w->alloc, all.items);
}
