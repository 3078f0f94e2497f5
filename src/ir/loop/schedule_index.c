/* Index expressions under edit: replacing variables, linear parts, extremes, bounds. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include <string.h>

bool mlsi_index_has_any(const mlsi_symtab *t, int64_t d, const mlsi_edit_vars *v) {
    for (int i = 0; i < v->n; i++)
        if (mlsi_dim_names(t, d, v->symbol[i])) return true;
    return false;
}

bool mlsi_index_op(mlsi_nest *w, int op, int64_t a, int64_t b, int64_t *out) {
    mlsys_status st = mlsi_dim_op(&w->tab, op, a, b, out);
    if (st == MLSYS_E_NOMEM) mlsi_nest_fail(w, st);
    return st == MLSYS_OK;
}

/* ---- replacing ---------------------------------------------------------------------------------------------- */

/* The code of a symbol's unit. */
static bool unit_of(mlsi_nest *w, int32_t symbol, int64_t *out) {
    mlsi_symbol s = w->tab.symbols[symbol];
    mlsys_status st = mlsi_dim_symbol(&w->tab, s.name, s.min, s.max, s.divisor, out);
    if (st == MLSYS_E_NOMEM) mlsi_nest_fail(w, st);
    return st == MLSYS_OK && mlsi_index_op(w, '/', *out, s.divisor, out);
}

static bool map_atom(mlsi_nest *w, int32_t atom, mlsi_atom_map *map, void *user, int64_t *out) {
    mlsi_atom a = w->tab.atoms[atom];
    int64_t x, y;
    if (map(w, user, atom, out)) return w->status == MLSYS_OK;
    if (!a.op) return unit_of(w, a.symbol, out);
    return mlsi_index_map(w, a.a, map, user, &x) && mlsi_index_map(w, a.b, map, user, &y) &&
           mlsi_index_op(w, a.op, x, y, out);
}

bool mlsi_index_map(mlsi_nest *w, int64_t d, mlsi_atom_map *map, void *user, int64_t *out) {
    *out = d;
    if (!mlsi_dim_is_code(&w->tab, d)) return true;
    mlsi_expr e = w->tab.exprs[MLSI_DIM_CODE - d];
    int64_t sum = 0, part, x;
    for (int i = 0; i < e.n; i++) {
        int64_t c = e.terms[i].coef;
        part = c < 0 ? -c : c;
        for (int j = 0; j < e.terms[i].n; j++)
            if (!map_atom(w, e.terms[i].atoms[j], map, user, &x) ||
                !mlsi_index_op(w, '*', part, x, &part))
                return false;
        if (!mlsi_index_op(w, c < 0 ? '-' : '+', sum, part, &sum)) return false;
    }
    *out = sum;
    return true;
}

typedef struct replacement {
    int count;
    const int32_t *symbols;
    const int64_t *by;
} replacement;

static bool replace_symbol(mlsi_nest *w, void *user, int32_t atom, int64_t *out) {
    const replacement *r = user;
    const mlsi_atom *a = &w->tab.atoms[atom];
    for (int i = 0; i < r->count; i++)
        if (!a->op && r->symbols[i] == a->symbol) return *out = r->by[i], true;
    return false;
}

bool mlsi_index_replace(mlsi_nest *w, int64_t d, int count, const int32_t *symbols,
                        const int64_t *by, int64_t *out) {
    replacement r = {count, symbols, by};
    bool has = false;
    for (int i = 0; i < count; i++)
        has |= mlsi_dim_names(&w->tab, d, symbols[i]);
    *out = d;
    return !has || mlsi_index_map(w, d, replace_symbol, &r, out);
}

void mlsi_edit_replace(mlsi_nest *w, int count, const int32_t *symbols, const int64_t *by) {
    bool ok = true;
    if (w->status != MLSYS_OK) return;
    for (int64_t i = 0; i < w->n_exprs; i++)
        for (int k = 0; k < w->exprs[i].n_index; k++)
            ok = ok && mlsi_index_replace(w, w->exprs[i].index[k], count, symbols, by,
                                          &w->exprs[i].index[k]);
    for (int64_t i = 0; i < w->n_stmts; i++)
        for (int k = 0; k < w->stmts[i].n_index; k++)
            ok = ok && mlsi_index_replace(w, w->stmts[i].index[k], count, symbols, by,
                                          &w->stmts[i].index[k]);
    for (int64_t i = 0; i < w->n_vars; i++)
        ok = ok && mlsi_index_replace(w, w->vars[i].extent, count, symbols, by, &w->vars[i].extent);
    for (int64_t i = 0; i < w->n_accs; i++)
        ok = ok && mlsi_index_replace(w, w->accs[i].count, count, symbols, by, &w->accs[i].count);
    for (int64_t i = 0; i < w->n_buffers; i++)
        for (int d = 0; d < w->buffers[i].rank; d++)
            ok = ok && mlsi_index_replace(w, w->buffers[i].dims[d], count, symbols, by,
                                          &w->buffers[i].dims[d]);
    if (!ok && w->status == MLSYS_OK)
        mlsi_nest_fail(w, mlsi_fail_in(MLSYS_E_UNSUPPORTED, "schedule"));
}

/* ---- bounds ------------------------------------------------------------------------------------------------------- */

bool mlsi_index_linear(mlsi_nest *w, int64_t d, int32_t symbol, int64_t code, int64_t *factor,
                       int64_t *rest) {
    const int64_t zero = 0, one = 1;
    int64_t at_one, back;
    *factor = 0;
    *rest = d;
    if (!mlsi_dim_names(&w->tab, d, symbol)) return true;
    return mlsi_index_replace(w, d, 1, &symbol, &zero, rest) &&
           mlsi_index_replace(w, d, 1, &symbol, &one, &at_one) &&
           mlsi_index_op(w, '-', at_one, *rest, factor) &&
           mlsi_index_op(w, '*', *factor, code, &back) &&
           mlsi_index_op(w, '+', back, *rest, &back) && back == d;
}

/* One variable out of d: at its first or last value, by the sign of its factor. */
static bool eliminate(mlsi_nest *w, int32_t symbol, int64_t code, int64_t extent, bool greatest,
                      int64_t *d) {
    int64_t factor, rest, lo, hi, last;
    if (!mlsi_dim_names(&w->tab, *d, symbol)) return true;
    if (!mlsi_index_linear(w, *d, symbol, code, &factor, &rest)) return false;
    mlsi_dim_range(&w->tab, factor, &lo, &hi);
    if (lo < 0 && hi > 0) return false;
    if (greatest == (lo >= 0)) {
        if (!mlsi_index_op(w, '-', extent, 1, &last) ||
            !mlsi_index_op(w, '*', last, factor, &last) ||
            !mlsi_index_op(w, '+', rest, last, &rest))
            return false;
    }
    *d = rest;
    return true;
}

bool mlsi_index_extreme(mlsi_nest *w, const mlsi_edit_vars *v, int64_t d, bool greatest,
                        int64_t *out) {
    *out = d;
    for (int i = v->n - 1; i >= 0; i--)
        if (!eliminate(w, v->symbol[i], v->code[i], v->extent[i], greatest, out)) return false;
    return true;
}

bool mlsi_index_at_least(mlsi_nest *w, int64_t d, int64_t least) {
    return mlsi_dim_prove(&w->tab, 0, NULL, d, 0, least);
}

/* ---- variables ---------------------------------------------------------------------------------------------------- */

static void add_var(mlsi_nest *w, mlsi_edit_vars *v, int32_t var) {
    const mlsi_loop_var *x = &w->vars[var];
    if (x->symbol < 0) return;
    if (v->n == MLSI_EDIT_VARS) {
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "schedule: more than %d variables",
                         MLSI_EDIT_VARS);
        return;
    }
    v->symbol[v->n] = x->symbol;
    v->code[v->n] = x->code;
    v->extent[v->n++] = x->extent;
}

void mlsi_edit_vars_around(mlsi_nest *w, int32_t s, mlsi_edit_vars *v) {
    int32_t path[64];
    int n = 0;
    v->n = 0;
    for (; s >= 0 && n < 64; s = mlsi_edit_parent(w, s))
        if (w->stmts[s].kind == MLSI_LS_FOR) path[n++] = w->stmts[s].var;
    while (n)
        add_var(w, v, path[--n]);
}

void mlsi_edit_vars_inside(mlsi_nest *w, int32_t top, mlsi_edit_vars *v) {
    int32_t *list = mlsi_edit_list(w, top);
    v->n = 0;
    for (int32_t *s = list; s && *s >= 0; s++)
        if (*s != top && (w->stmts[*s].kind == MLSI_LS_FOR || w->stmts[*s].kind == MLSI_LS_BIND))
            add_var(w, v, w->stmts[*s].var);
    mlsi_mem_free(w->alloc, list);
}
