/* Loop kinds: vectorize, unroll, parallel, bind, and what each demands. */
#include "ir/loop/schedule_edit.h"

#include <string.h>

enum { MOST_UNROLLED = 64, MOST_WARPS = 32, WARP = 32 };

static const char *kind_name(mlsi_loop_kind k) {
    static const char *const names[] = {"",         "serial", "parallel", "vector",
                                        "unrolled", "grid",   "block",    "lane"};
    return names[k];
}

/* ---- what stands around a loop ---------------------------------------------------------------------------- */

static bool is_alone(const mlsi_nest *w, int32_t s) {
    int32_t parent = mlsi_edit_parent(w, s);
    return (parent < 0 ? w->first : w->stmts[parent].body) == s && w->stmts[s].next < 0;
}

/* A loop of several threads' tasks, or of a GPU's blocks, is the outermost, with nothing beside it. */
static void check_outermost(mlsi_nest *w, const char *what, int32_t s) {
    const char *kind = kind_name(w->stmts[s].loop);
    if (!is_alone(w, s))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                         "%s: loop %s cannot be %s: other statements stand beside it", what,
                         mlsi_edit_name(w, s), kind);
    int32_t p = mlsi_edit_parent(w, s);
    if (p >= 0 && (w->stmts[p].kind != MLSI_LS_FOR || w->stmts[p].loop != w->stmts[s].loop))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                         "%s: loop %s cannot be %s inside of %s, which is not", what,
                         mlsi_edit_name(w, s), kind,
                         w->stmts[p].kind == MLSI_LS_FOR ? mlsi_edit_name(w, p) : "a condition");
}

static void check_around(mlsi_nest *w, const char *what, int32_t s) {
    mlsi_loop_kind inner = w->stmts[s].loop;
    for (int32_t p = mlsi_edit_parent(w, s); p >= 0; p = mlsi_edit_parent(w, p)) {
        if (w->stmts[p].kind != MLSI_LS_FOR) continue;
        mlsi_loop_kind outer = w->stmts[p].loop;
        bool cpu = outer == MLSI_LOOP_PARALLEL || outer == MLSI_LOOP_VECTOR;
        bool refused = false;
        if (inner == MLSI_LOOP_VECTOR)
            refused = outer == MLSI_LOOP_VECTOR || outer >= MLSI_LOOP_GRID;
        if (inner == MLSI_LOOP_BLOCK) refused = cpu || outer >= MLSI_LOOP_BLOCK;
        if (inner == MLSI_LOOP_LANE) refused = cpu || outer == MLSI_LOOP_LANE;
        if (refused)
            mlsi_edit_refuse(
                w, MLSYS_E_UNSUPPORTED, "%s: loop %s cannot be %s inside of %s, which is %s", what,
                mlsi_edit_name(w, s), kind_name(inner), mlsi_edit_name(w, p), kind_name(outer));
    }
}

/* LOCAL memory from outside belongs to one thread. */
static void check_local(mlsi_nest *w, const char *what, int32_t loop) {
    mlsi_accesses all = {0};
    mlsi_edit_accesses(w, loop, &all);
    for (int64_t i = 0; i < all.n && w->status == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &w->buffers[all.items[i].buffer];
        int32_t alloc = mlsi_edit_opening(w, MLSI_LS_ALLOC, all.items[i].buffer);
        if (b->scope == MLSI_SCOPE_LOCAL && !mlsi_edit_inside(w, alloc, loop))
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                             "%s: loop %s uses %s, which is memory of one thread", what,
                             mlsi_edit_name(w, loop), b->name);
    }
    mlsi_mem_free(w->alloc, all.items);
}

void mlsi_edit_check_kinds(mlsi_nest *w, const char *what) {
    for (int32_t *list = mlsi_edit_list(w, -1), *i = list; list; i++) {
        if (*i < 0 || w->status != MLSYS_OK) {
            mlsi_mem_free(w->alloc, list);
            return;
        }
        if (w->stmts[*i].kind != MLSI_LS_FOR || w->stmts[*i].loop == MLSI_LOOP_SERIAL) continue;
        if (w->stmts[*i].loop == MLSI_LOOP_PARALLEL || w->stmts[*i].loop == MLSI_LOOP_GRID)
            check_outermost(w, what, *i);
        else
            check_around(w, what, *i);
        mlsi_loop_kind kind = w->stmts[*i].loop;
        if (kind != MLSI_LOOP_VECTOR && kind != MLSI_LOOP_UNROLLED) check_local(w, what, *i);
    }
}

/* ---- iterations at once -------------------------------------------------------------------------------------- */

typedef struct at_once {
    const char *what;
    int32_t loop;
} at_once;

static bool refuse_conflict(mlsi_nest *w, void *user, const mlsi_conflict *c) {
    const at_once *a = user;
    return mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                            "%s: loop %s carries a dependence through %s: its iterations may %s "
                            "the same element",
                            a->what, mlsi_edit_name(w, a->loop), w->buffers[c->a->buffer].name,
                            c->a->write && c->b->write ? "write" : "write and read");
}

static void check_at_once(mlsi_nest *w, const char *what, int32_t loop) {
    at_once a = {what, loop};
    const char *why = mlsi_edit_ordered(w, loop);
    if (why)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: loop %s holds %s", what,
                         mlsi_edit_name(w, loop), why);
    if (w->status == MLSYS_OK) mlsi_edit_conflicts(w, 1, &loop, refuse_conflict, &a);
}

static void set_kind(mlsi_nest *w, const char *what, const char *name, mlsi_loop_kind kind) {
    int32_t loop = mlsi_edit_loop(w, what, name);
    if (loop < 0) return;
    mlsi_ls *s = &w->stmts[loop];
    if (s->loop != MLSI_LOOP_SERIAL) {
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: loop %s is %s already", what, name,
                         kind_name(s->loop));
        return;
    }
    s->loop = kind;
    mlsi_edit_check_kinds(w, what);
    if (w->status == MLSYS_OK && kind != MLSI_LOOP_UNROLLED) check_at_once(w, what, loop);
}

/* A number of at most most iterations. */
static void check_extent(mlsi_nest *w, const char *what, const char *name, int64_t most) {
    int32_t loop = mlsi_edit_loop(w, what, name);
    char text[64];
    if (loop < 0) return;
    int64_t extent = w->vars[w->stmts[loop].var].extent;
    if (extent < 0 || extent > most)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                         "%s: the extent of loop %s must be a number of at most %lld: %s", what,
                         name, (long long)most, mlsi_dim_text(&w->tab, extent, text, sizeof text));
}

void mlsi_edit_vectorize(mlsi_nest *w, const mlsi_directive *s) {
    set_kind(w, "vectorize", s->names[0], MLSI_LOOP_VECTOR);
}

void mlsi_edit_unroll(mlsi_nest *w, const mlsi_directive *s) {
    check_extent(w, "unroll", s->names[0], MOST_UNROLLED);
    set_kind(w, "unroll", s->names[0], MLSI_LOOP_UNROLLED);
}

void mlsi_edit_parallel(mlsi_nest *w, const mlsi_directive *s) {
    set_kind(w, "parallel", s->names[0], MLSI_LOOP_PARALLEL);
}

void mlsi_edit_bind(mlsi_nest *w, const mlsi_directive *s) {
    const char *kind = s->names[1];
    if (!strcmp(kind, "grid")) {
        set_kind(w, "bind", s->names[0], MLSI_LOOP_GRID);
    } else if (!strcmp(kind, "block")) {
        check_extent(w, "bind", s->names[0], MOST_WARPS);
        set_kind(w, "bind", s->names[0], MLSI_LOOP_BLOCK);
    } else if (!strcmp(kind, "lane")) {
        check_extent(w, "bind", s->names[0], WARP);
        set_kind(w, "bind", s->names[0], MLSI_LOOP_LANE);
    } else {
        mlsi_edit_refuse(w, MLSYS_E_ARG, "bind: %s is not one of grid, block, lane", kind);
    }
}
