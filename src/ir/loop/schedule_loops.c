/* Loops rewritten: split, fuse, reorder, tile. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include "core/faults.h"

#include <string.h>

/* ---- split: i = factor * outer + inner ------------------------------------------------------------------------ */

/* ceil(extent / factor); exact: factor divides it for all symbols. */
static int64_t tiles_of(mlsi_nest *w, int64_t extent, int64_t factor, bool *exact) {
    int64_t tiles = 0;
    mlsi_nest_fail(w, mlsi_dim_divide_exact(&w->tab, extent, factor, &tiles, exact));
    if (mlsi_fault(MLSI_FAULT_SCHEDULE_GUARD)) *exact = true, tiles = 0;
    if (*exact && tiles) return tiles;
    int64_t rounded = mlsi_nest_index(w, '+', extent, factor - 1);
    if (mlsi_fault(MLSI_FAULT_SCHEDULE_LAST_TILE)) rounded = extent;
    return mlsi_nest_index(w, '/', rounded, factor);
}

static void split(mlsi_nest *w, const char *what, const char *name, int64_t factor,
                  const char *outer, const char *inner) {
    bool exact = false;
    int32_t loop = mlsi_edit_loop(w, what, name);
    if (factor < 1)
        mlsi_edit_refuse(w, MLSYS_E_ARG, "%s: the factor of loop %s is %lld", what, name,
                         (long long)factor);
    if (w->status != MLSYS_OK) return;
    if (w->stmts[loop].loop != MLSI_LOOP_SERIAL) {
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: loop %s is not serial", what, name);
        return;
    }
    mlsi_loop_var v = w->vars[w->stmts[loop].var];
    int32_t o = mlsi_edit_new_var(w, what, outer, tiles_of(w, v.extent, factor, &exact));
    int32_t i = mlsi_edit_new_for(w, what, inner, factor);
    if (w->status != MLSYS_OK) return;
    int64_t start = mlsi_nest_index(w, '*', w->vars[o].code, factor);
    if (mlsi_fault(MLSI_FAULT_SCHEDULE_SPLIT_STRIDE))
        start = mlsi_nest_index(w, '*', w->vars[o].code, factor - 1);
    int64_t index = mlsi_nest_index(w, '+', start, w->vars[w->stmts[i].var].code);
    if (v.symbol >= 0) mlsi_edit_replace(w, 1, &v.symbol, &index);
    w->stmts[loop].var = o;
    int32_t body = w->stmts[loop].body, guard = i;
    w->stmts[loop].body = i;
    if (!exact) {
        guard = mlsi_edit_new_if(w, 0, index, v.extent);
        if (guard < 0) return;
        w->stmts[i].body = guard;
    }
    w->stmts[guard].body = body;
}

void mlsi_edit_split(mlsi_nest *w, const mlsi_directive *s) {
    split(w, "split", s->names[0], s->numbers[0], s->results[0], s->results[1]);
}

/* ---- perfect nests ------------------------------------------------------------------------------------------------- */

static bool is_guard(const mlsi_ls *s) { return s->kind == MLSI_LS_IF && s->value < 0; }

int mlsi_edit_chain(mlsi_nest *w, const char *what, int32_t top, int32_t bottom, int32_t *loops,
                    int cap) {
    int32_t guards[64];
    int n = 0, n_guards = 0;
    if (w->status != MLSYS_OK) return 0;
    for (int32_t s = top; n < cap && n_guards < 64; s = w->stmts[s].body) {
        bool alone = s == top || (s >= 0 && w->stmts[s].next < 0);
        if (s < 0 || !alone || (w->stmts[s].kind != MLSI_LS_FOR && !is_guard(&w->stmts[s]))) break;
        if (w->stmts[s].kind != MLSI_LS_FOR) {
            guards[n_guards++] = s;
            continue;
        }
        int64_t lo, hi;
        mlsi_dim_range(&w->tab, w->vars[w->stmts[s].var].extent, &lo, &hi);
        if (n_guards && lo < 0) break; /* an extent only under the guard */
        loops[n++] = s;
        if (s != bottom) continue;
        for (int g = n_guards - 1; g >= 0; g--) { /* the first one outermost */
            int32_t *link = &w->stmts[mlsi_edit_parent(w, guards[g])].body;
            *link = w->stmts[guards[g]].body;
            w->stmts[guards[g]].body = w->stmts[bottom].body;
            w->stmts[bottom].body = guards[g];
        }
        return n;
    }
    mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: loops %s and %s do not nest perfectly: %s", what,
                     mlsi_edit_name(w, top), mlsi_edit_name(w, bottom),
                     mlsi_edit_inside(w, bottom, top) ? "other statements stand between them"
                                                      : "neither is inside of the other");
    return 0;
}

/* ---- fuse: outer = f / E, inner = f % E ----------------------------------------------------------------------------- */

void mlsi_edit_fuse(mlsi_nest *w, const mlsi_directive *s) {
    int32_t a = mlsi_edit_loop(w, "fuse", s->names[0]), b = mlsi_edit_loop(w, "fuse", s->names[1]);
    int32_t loops[2];
    int64_t lo, hi, by[2] = {0, 0};
    if (w->status != MLSYS_OK) return;
    mlsi_loop_var x = w->vars[w->stmts[a].var], y = w->vars[w->stmts[b].var];
    int n = mlsi_edit_chain(w, "fuse", a, b, loops, 2);
    if (n != 2) {
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "fuse: %s is no loop right inside of %s", y.name,
                         x.name);
        return;
    }
    if (w->stmts[a].loop != w->stmts[b].loop)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "fuse: loops %s and %s differ in kind", x.name,
                         y.name);
    if (mlsi_dim_names(&w->tab, y.extent, x.symbol))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "fuse: the extent of %s depends on %s", y.name,
                         x.name);
    mlsi_dim_range(&w->tab, y.extent, &lo, &hi);
    if (lo < 1) mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "fuse: the extent of %s may be 0", y.name);
    int32_t f =
        mlsi_edit_new_var(w, "fuse", s->results[0], mlsi_nest_index(w, '*', x.extent, y.extent));
    if (w->status != MLSYS_OK) return;
    int64_t code = w->vars[f].code;
    if (x.symbol >= 0) {
        by[0] = mlsi_nest_index(w, '/', code, y.extent);
        by[1] = mlsi_nest_index(w, '%', code, y.extent);
        if (mlsi_fault(MLSI_FAULT_SCHEDULE_FUSE_SWAPPED)) {
            by[0] = mlsi_nest_index(w, '%', code, x.extent);
            by[1] = mlsi_nest_index(w, '/', code, x.extent);
        }
    } else {
        by[1] = code; /* the outer loop runs at most once */
    }
    mlsi_edit_replace(w, 2, (int32_t[2]){x.symbol, y.symbol}, by);
    w->stmts[a].var = f;
    w->stmts[a].body = w->stmts[b].body;
    w->stmts[b].body = -1;
}

/* ---- reorder ---------------------------------------------------------------------------------------------------------- */

typedef struct order {
    int n;
    int32_t loops[MLSI_EDIT_VARS]; /* as they were, outer first */
    int to[MLSI_EDIT_VARS];        /* new place of each */
} order;

/* What may meet in different iterations of loops must keep the order of these. */
static bool refuse_swap(mlsi_nest *w, void *user, const mlsi_conflict *c) {
    const order *o = user;
    if (mlsi_fault(MLSI_FAULT_SCHEDULE_DEPENDENCE)) return true;
    for (int i = 0; i < o->n; i++)
        for (int j = i + 1; j < o->n; j++)
            if ((c->free >> i & 1) && (c->free >> j & 1) && o->to[i] > o->to[j])
                return mlsi_edit_refuse(
                    w, MLSYS_E_UNSUPPORTED,
                    "reorder: loops %s and %s carry a dependence through %s: their order decides "
                    "what is %s",
                    mlsi_edit_name(w, o->loops[i]), mlsi_edit_name(w, o->loops[j]),
                    w->buffers[c->a->buffer].name, c->a->write && c->b->write ? "left" : "read");
    return true;
}

static void check_extents(mlsi_nest *w, const order *o) {
    for (int i = 0; i < o->n; i++)
        for (int j = i + 1; j < o->n; j++) {
            const mlsi_loop_var *x = &w->vars[w->stmts[o->loops[i]].var];
            const mlsi_loop_var *y = &w->vars[w->stmts[o->loops[j]].var];
            if (o->to[i] > o->to[j] && mlsi_dim_names(&w->tab, y->extent, x->symbol))
                mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "reorder: the extent of %s depends on %s",
                                 y->name, x->name);
        }
}

static int depth_of(const mlsi_nest *w, int32_t s) {
    int depth = 0;
    for (; s >= 0; s = mlsi_edit_parent(w, s))
        depth++;
    return depth;
}

static int place_in(const order *o, int32_t loop) {
    for (int i = 0; i < o->n; i++)
        if (o->loops[i] == loop) return i;
    return -1;
}

/* names[0..count): the new order of these; the others of the nest stay where they are. */
static bool find_order(mlsi_nest *w, const char *what, int count, const int32_t *named, order *o) {
    int32_t top = named[0], bottom = named[0];
    bool listed[MLSI_EDIT_VARS] = {false};
    for (int i = 1; i < count; i++) {
        if (depth_of(w, named[i]) < depth_of(w, top)) top = named[i];
        if (depth_of(w, named[i]) > depth_of(w, bottom)) bottom = named[i];
    }
    o->n = mlsi_edit_chain(w, what, top, bottom, o->loops, 32);
    for (int i = 0; i < o->n; i++)
        o->to[i] = i;
    for (int i = 0; o->n && i < count; i++) {
        int at = place_in(o, named[i]);
        if (at < 0 || listed[at])
            return mlsi_edit_refuse(w, at < 0 ? MLSYS_E_UNSUPPORTED : MLSYS_E_ARG, "%s: loop %s %s",
                                    what, mlsi_edit_name(w, named[i]),
                                    at < 0 ? "is not in the nest of the others" : "is named twice");
        listed[at] = true;
    }
    for (int i = 0, at = 0; o->n && i < count; i++, at++) {
        while (!listed[at])
            at++;
        o->to[place_in(o, named[i])] = at;
    }
    return w->status == MLSYS_OK;
}

static void reorder(mlsi_nest *w, const char *what, int count,
                    const char (*names)[MLSI_STEP_NAME]) {
    int32_t named[MLSI_STEP_NAMES];
    order o = {.n = 0};
    mlsi_ls old[MLSI_EDIT_VARS];
    for (int i = 0; i < count; i++)
        named[i] = mlsi_edit_loop(w, what, names[i]);
    if (w->status != MLSYS_OK || !find_order(w, what, count, named, &o)) return;
    check_extents(w, &o);
    bool moves = false;
    for (int i = 0; i < o.n; i++)
        moves |= o.to[i] != i;
    if (!moves || w->status != MLSYS_OK) return;
    const char *why = mlsi_edit_ordered(w, o.loops[0]);
    if (why)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: loop %s holds %s", what,
                         mlsi_edit_name(w, o.loops[0]), why);
    if (w->status == MLSYS_OK) mlsi_edit_conflicts(w, o.n, o.loops, refuse_swap, &o);
    for (int i = 0; i < o.n; i++)
        old[i] = w->stmts[o.loops[i]];
    for (int i = 0; i < o.n; i++) { /* the statements stay, the variables move */
        w->stmts[o.loops[o.to[i]]].var = old[i].var;
        w->stmts[o.loops[o.to[i]]].loop = old[i].loop;
    }
}

void mlsi_edit_reorder(mlsi_nest *w, const mlsi_directive *s) {
    reorder(w, "reorder", s->n_names, s->names);
}

void mlsi_edit_tile(mlsi_nest *w, const mlsi_directive *s) {
    split(w, "tile", s->names[0], s->numbers[0], s->results[0], s->results[2]);
    split(w, "tile", s->names[1], s->numbers[1], s->results[1], s->results[3]);
    if (w->status == MLSYS_OK) reorder(w, "tile", 4, s->results);
}
