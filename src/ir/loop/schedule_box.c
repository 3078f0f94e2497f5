/* The box of a buffer that one iteration touches, and accesses moved to another buffer. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include "core/faults.h"

#include <string.h>

/* ---- boxes ------------------------------------------------------------------------------------------------- */

static bool only_shape_symbols(const mlsi_nest *w, int64_t d) {
    for (int64_t s = w->n_shape_symbols; s < w->tab.n_symbols; s++)
        if (mlsi_dim_names(&w->tab, d, (int32_t)s)) return false;
    return true;
}

/* [lo, hi] of one subscript over the variables inside. */
static bool subscript_bounds(mlsi_nest *w, const mlsi_edit_vars *inside, int64_t index, int64_t *lo,
                             int64_t *hi) {
    return mlsi_index_extreme(w, inside, index, false, lo) &&
           mlsi_index_extreme(w, inside, index, true, hi);
}

/* The lesser (greater) of two, where their difference has a sign. */
static bool choose(mlsi_nest *w, int64_t a, int64_t b, bool greater, int64_t *out) {
    int64_t d;
    if (!mlsi_index_op(w, '-', b, a, &d)) return false;
    if (mlsi_index_at_least(w, d, 0)) return *out = greater ? b : a, true;
    if (!mlsi_index_op(w, '-', a, b, &d)) return false;
    if (mlsi_index_at_least(w, d, 0)) return *out = greater ? a : b, true;
    return false;
}

typedef struct span {
    int64_t lo, hi;
    bool any, whole;
} span;

static void widen(mlsi_nest *w, const mlsi_edit_vars *inside, int64_t index, span *s) {
    int64_t lo, hi;
    if (s->whole) return;
    s->whole = !subscript_bounds(w, inside, index, &lo, &hi) ||
               (s->any && (!choose(w, s->lo, lo, false, &lo) || !choose(w, s->hi, hi, true, &hi)));
    s->lo = lo, s->hi = hi, s->any = true;
}

/* base and extent of an axis, all of it where the span is not one of a size known before the loops. */
static void set_axis(mlsi_nest *w, const span *s, int64_t dim, mlsi_box *r, int d) {
    int64_t extent = 0, least, most, end, left;
    bool whole = s->whole || !mlsi_index_op(w, '-', s->hi, s->lo, &extent) ||
                 !mlsi_index_op(w, '+', extent, 1, &extent) || !only_shape_symbols(w, extent);
    if (!whole && mlsi_fault(MLSI_FAULT_SCHEDULE_BOX) && extent > 1) extent--;
    if (!whole) {
        mlsi_dim_range(&w->tab, extent, &least, &most);
        whole = least < 0;
    }
    r->base[d] = whole ? 0 : s->lo;
    r->extent[d] = whole ? dim : extent;
    r->clipped[d] = !whole;
    if (whole || !mlsi_index_at_least(w, s->lo, 0)) return;
    if (mlsi_index_op(w, '+', s->lo, extent, &end) && mlsi_index_op(w, '-', dim, end, &left))
        r->clipped[d] = !mlsi_index_at_least(w, left, 0);
}

int mlsi_edit_box(mlsi_nest *w, int32_t loop, int32_t buffer, bool write, mlsi_box *r) {
    mlsi_accesses all = {0};
    mlsi_edit_vars inside;
    span spans[MLSYS_MAX_DIMS] = {{0}};
    int count = 0;
    mlsi_edit_accesses(w, loop, &all);
    mlsi_edit_vars_inside(w, loop, &inside);
    for (int64_t i = 0; w->status == MLSYS_OK && i < all.n; i++) {
        const mlsi_access *a = &all.items[i];
        if (a->buffer != buffer || a->write != write) continue;
        count++;
        for (int d = 0; d < a->rank; d++) {
            spans[d].whole |= a->whole;
            widen(w, &inside, a->index[d], &spans[d]);
        }
    }
    mlsi_mem_free(w->alloc, all.items);
    r->rank = w->buffers[buffer].rank;
    for (int d = 0; w->status == MLSYS_OK && count && d < r->rank; d++)
        set_axis(w, &spans[d], w->buffers[buffer].dims[d], r, d);
    return w->status == MLSYS_OK ? count : 0;
}

/* ---- redirection --------------------------------------------------------------------------------------------------- */

typedef struct redirection {
    mlsi_nest *w;
    int32_t from, to;
    const int64_t *base;
    int64_t n;     /* expressions before */
    int32_t *made; /* number + 1 of what replaces an expression */
} redirection;

static void less_base(redirection *r, int n, int64_t *index) {
    for (int d = 0; d < n; d++)
        index[d] = mlsi_nest_index(r->w, '-', index[d], r->base[d]);
}

/* Expressions may be shared with statements elsewhere: what changes is made anew. */
static int32_t redirect(redirection *r, int32_t expr) {
    mlsi_nest *w = r->w;
    if (expr < 0 || w->status != MLSYS_OK) return -1;
    if (r->made[expr]) return r->made[expr] - 1;
    mlsi_lx x = w->exprs[expr];
    bool changed = x.kind == MLSI_LX_LOAD && x.ref == r->from;
    if (changed) {
        x.ref = r->to;
        less_base(r, x.n_index, x.index);
    }
    for (int k = 0; k < x.n_args; k++) {
        int32_t arg = redirect(r, x.args[k]);
        changed |= arg != x.args[k];
        x.args[k] = arg;
    }
    int32_t made = expr;
    if (changed) {
        mlsi_nest_fail(w, MLSI_GROW(w->alloc, &w->exprs, &w->cap_exprs, w->n_exprs + 1));
        if (w->status != MLSYS_OK) return -1;
        made = (int32_t)w->n_exprs++;
        w->exprs[made] = x;
    }
    r->made[expr] = made + 1;
    return made;
}

void mlsi_edit_redirect(mlsi_nest *w, int32_t loop, int32_t from, int32_t to, bool loads,
                        bool stores, const int64_t *base) {
    redirection r = {.w = w, .from = from, .to = to, .base = base, .n = w->n_exprs};
    int32_t *list = mlsi_edit_list(w, loop);
    mlsi_nest_fail(w, MLSI_NEW_N(w->alloc, w->n_exprs + 1, &r.made));
    for (int32_t *i = list; w->status == MLSYS_OK && *i >= 0; i++) {
        if (loads) {
            int32_t value = redirect(&r, w->stmts[*i].value);
            int32_t value2 = redirect(&r, w->stmts[*i].value2);
            w->stmts[*i].value = value;
            w->stmts[*i].value2 = value2;
            if (w->stmts[*i].kind == MLSI_LS_ACC)
                w->accs[w->stmts[*i].ref].init = redirect(&r, mlsi_edit_addend(w, *i));
        }
        mlsi_ls *s = &w->stmts[*i];
        if (!stores || s->kind != MLSI_LS_STORE || s->ref != from) continue;
        s->ref = to;
        less_base(&r, s->n_index, s->index);
    }
    mlsi_mem_free(w->alloc, r.made);
    mlsi_mem_free(w->alloc, list);
}
