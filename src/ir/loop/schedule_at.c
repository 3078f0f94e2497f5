/* compute_at: a producer's loops inside the consumer's loop, for the part that one iteration reads.
 *
 * The producer fills a LOCAL buffer, each element once by one store at exactly its loops' variables, from what nobody writes
 * until the consumer is done: so an element has the same value wherever, and however often, it is computed. */
#include "ir/loop/schedule_edit.h"

#include "core/faults.h"

#include <stdio.h>
#include <string.h>

typedef struct producer {
    int32_t buffer, alloc, store, top, loop; /* loop: the consumer's */
    int32_t n, chain[MLSYS_MAX_DIMS];        /* by axis */
} producer;

static bool refuse(mlsi_nest *w, const producer *p, const char *why) {
    return mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "compute_at: %s cannot move into loop %s: %s",
                            w->buffers[p->buffer].name, mlsi_edit_name(w, p->loop), why);
}

/* The store and the loads: one, and all in the loop. */
static bool find_accesses(mlsi_nest *w, producer *p) {
    mlsi_accesses all = {0};
    mlsi_edit_accesses(w, -1, &all);
    p->store = -1;
    for (int64_t i = 0; i < all.n && w->status == MLSYS_OK; i++) {
        const mlsi_access *a = &all.items[i];
        if (a->buffer != p->buffer) continue;
        if (a->whole || (a->write && p->store >= 0))
            refuse(w, p, "it is filled at several places");
        else if (a->write)
            p->store = a->stmt;
        else if (!mlsi_edit_inside(w, a->stmt, p->loop))
            refuse(w, p, "it is read elsewhere too");
    }
    mlsi_mem_free(w->alloc, all.items);
    if (p->store < 0 || w->stmts[p->store].kind != MLSI_LS_STORE) refuse(w, p, "nothing fills it");
    return w->status == MLSYS_OK;
}

/* The producer's loops: a perfect nest before the consumer's, in a body that holds both. */
static bool find_chain(mlsi_nest *w, producer *p) {
    int32_t loops[MLSYS_MAX_DIMS], top = -1, bottom = mlsi_edit_parent(w, p->store), n = 0;
    for (int32_t up = bottom; up >= 0 && !mlsi_edit_inside(w, p->loop, up);
         up = mlsi_edit_parent(w, up))
        top = up;
    if (top < 0 || w->stmts[top].kind != MLSI_LS_FOR)
        return refuse(w, p, "no loops of its own fill it");
    bool before = false;
    for (int32_t after = w->stmts[top].next; after >= 0; after = w->stmts[after].next)
        before |= mlsi_edit_inside(w, p->loop, after);
    if (!before) return refuse(w, p, "the loop comes before what fills it");
    int32_t s = top;
    for (; n < MLSYS_MAX_DIMS && s >= 0; s = w->stmts[s].body) {
        bool guard = w->stmts[s].kind == MLSI_LS_IF && w->stmts[s].value < 0;
        if ((w->stmts[s].kind != MLSI_LS_FOR && !guard) || (s != top && w->stmts[s].next >= 0))
            break;
        if (!guard) loops[n++] = s; /* what a guard leaves out nobody reads */
        if (s == bottom) break;
    }
    if (s != bottom) return refuse(w, p, "the loops that fill it do not nest perfectly");
    const mlsi_loop_buffer *b = &w->buffers[p->buffer];
    bool used[MLSYS_MAX_DIMS] = {false};
    for (int d = 0; d < b->rank; d++) {
        int at = 0;
        while (at < n &&
               (used[at] || w->vars[w->stmts[loops[at]].var].code != w->stmts[p->store].index[d] ||
                w->vars[w->stmts[loops[at]].var].extent != b->dims[d]))
            at++;
        if (at == n) return refuse(w, p, "its elements are not filled one by one");
        used[at] = true;
        p->chain[d] = loops[at];
    }
    p->top = top;
    p->n = n;
    return n == b->rank || refuse(w, p, "its elements are filled more than once");
}

/* Does the statement act on what is outside of the producer? */
static bool is_own(mlsi_nest *w, const producer *p, int32_t i) {
    const mlsi_ls *s = &w->stmts[i];
    switch (s->kind) {
    case MLSI_LS_FOR: return s->loop == MLSI_LOOP_SERIAL || s->loop == MLSI_LOOP_VECTOR;
    case MLSI_LS_LET:
    case MLSI_LS_IF:
    case MLSI_LS_ALLOC:
    case MLSI_LS_ACC: return true;
    case MLSI_LS_ADD: return mlsi_edit_inside(w, mlsi_edit_opening(w, MLSI_LS_ACC, s->ref), p->top);
    case MLSI_LS_STORE:
        return i == p->store ||
               mlsi_edit_inside(w, mlsi_edit_opening(w, MLSI_LS_ALLOC, s->ref), p->top);
    default: return false;
    }
}

static bool is_written_after(mlsi_nest *w, const producer *p, int32_t buffer) {
    bool written = false;
    for (int32_t s = w->stmts[p->top].next; s >= 0 && !written; s = w->stmts[s].next) {
        mlsi_accesses all = {0};
        mlsi_edit_accesses(w, s, &all);
        for (int64_t i = 0; i < all.n; i++)
            written |= all.items[i].buffer == buffer && all.items[i].write;
        mlsi_mem_free(w->alloc, all.items);
        if (mlsi_edit_inside(w, p->loop, s)) break;
    }
    return written;
}

static bool check_effects(mlsi_nest *w, const producer *p) {
    int32_t *list = mlsi_edit_list(w, p->top);
    mlsi_accesses all = {0};
    for (int32_t *i = list; list && *i >= 0; i++)
        if (!is_own(w, p, *i)) refuse(w, p, "the loops that fill it do more than that");
    mlsi_mem_free(w->alloc, list);
    mlsi_edit_accesses(w, p->top, &all);
    for (int64_t i = 0; i < all.n && w->status == MLSYS_OK; i++) {
        int32_t b = all.items[i].buffer;
        if (all.items[i].write || w->buffers[b].scope == MLSI_SCOPE_INPUT) continue;
        if (b == p->buffer || is_written_after(w, p, b))
            refuse(w, p, "what it is made of changes before it is read");
    }
    mlsi_mem_free(w->alloc, all.items);
    return w->status == MLSYS_OK;
}

/* The chain's loops walk the box instead of the buffer. */
static void walk_box(mlsi_nest *w, const producer *p, const mlsi_box *r) {
    int32_t symbols[MLSYS_MAX_DIMS], inner = mlsi_edit_parent(w, p->store);
    int64_t by[MLSYS_MAX_DIMS], at[MLSYS_MAX_DIMS], dims[MLSYS_MAX_DIMS];
    for (int d = 0; d < r->rank && w->status == MLSYS_OK; d++) {
        char base[MLSI_STEP_NAME], name[MLSI_STEP_NAME];
        snprintf(base, sizeof base, "%.50s_%d", w->buffers[p->buffer].name, d);
        mlsi_edit_free_name(w, base, name);
        int32_t var = mlsi_edit_new_var(w, "compute_at", name, r->extent[d]);
        if (var < 0) return;
        symbols[d] = w->vars[w->stmts[p->chain[d]].var].symbol;
        at[d] = w->vars[var].code;
        by[d] = mlsi_nest_index(w, '+', r->base[d], at[d]);
        dims[d] = w->buffers[p->buffer].dims[d];
        w->stmts[p->chain[d]].var = var;
        w->buffers[p->buffer].dims[d] = r->extent[d];
    }
    mlsi_edit_replace(w, r->rank, symbols, by);
    for (int d = 0; d < r->rank && w->status == MLSYS_OK; d++) {
        w->stmts[p->store].index[d] = at[d];
        if (!r->clipped[d] || mlsi_fault(MLSI_FAULT_SCHEDULE_AT_CLIP)) continue;
        int32_t guard = mlsi_edit_new_if(w, 0, by[d], dims[d]);
        if (guard < 0) return;
        w->stmts[guard].body = w->stmts[inner].body;
        w->stmts[inner].body = guard;
    }
}

void mlsi_edit_compute_at(mlsi_nest *w, const mlsi_directive *s) {
    producer p = {.buffer = mlsi_edit_buffer(w, "compute_at", s->names[0]),
                  .loop = mlsi_edit_loop(w, "compute_at", s->names[1])};
    mlsi_box r;
    if (w->status != MLSYS_OK) return;
    if (w->buffers[p.buffer].scope != MLSI_SCOPE_LOCAL) {
        refuse(w, &p, "it is no local memory");
        return;
    }
    p.alloc = mlsi_edit_opening(w, MLSI_LS_ALLOC, p.buffer);
    if (!find_accesses(w, &p) || !find_chain(w, &p) || !check_effects(w, &p)) return;
    if (!mlsi_edit_box(w, p.loop, p.buffer, false, &r)) {
        refuse(w, &p, "the loop does not read it");
        return;
    }
    mlsi_edit_redirect(w, p.loop, p.buffer, p.buffer, true, false, r.base);
    walk_box(w, &p, &r);
    mlsi_edit_unlink(w, p.top);
    mlsi_edit_prepend(w, p.loop, p.top);
    mlsi_edit_unlink(w, p.alloc);
    mlsi_edit_prepend(w, p.loop, p.alloc);
}
