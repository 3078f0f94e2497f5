/* Copies in LOCAL memory of what an iteration reads or writes. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include "core/faults.h"

#include <stdio.h>
#include <string.h>

/* The one statement that stores to the buffer in the loop, when nothing in it loads the buffer; read, written: how many
 * accesses of each kind there are. */
static int32_t count_accesses(mlsi_nest *w, int32_t loop, int32_t buffer, int *read, int *written) {
    mlsi_accesses all = {0};
    int32_t store = -1;
    *read = *written = 0;
    mlsi_edit_accesses(w, loop, &all);
    for (int64_t i = 0; i < all.n; i++) {
        const mlsi_access *a = &all.items[i];
        if (a->buffer != buffer) continue;
        if (a->write) store = a->stmt;
        *(a->write ? written : read) += 1;
        if (a->whole)
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "schedule: %s is an operand of matrix units",
                             w->buffers[buffer].name);
    }
    mlsi_mem_free(w->alloc, all.items);
    return store;
}

static void loop_name(const mlsi_nest *w, const char *buffer, int d, char out[MLSI_STEP_NAME]) {
    char base[MLSI_STEP_NAME];
    snprintf(base, sizeof base, "%.50s_%d", buffer, d);
    mlsi_edit_free_name(w, base, out);
}

/* ---- cache_read ---------------------------------------------------------------------------------------------- */

/* for v in box: if it is in the buffer: to[v] = from[base + v]. The outermost statement. */
static int32_t fill(mlsi_nest *w, int32_t from, int32_t to, const mlsi_box *r) {
    int64_t at[MLSYS_MAX_DIMS], source[MLSYS_MAX_DIMS];
    int32_t top = -1, inner = -1, s;
    for (int d = 0; d < r->rank && w->status == MLSYS_OK; d++) {
        char name[MLSI_STEP_NAME];
        loop_name(w, w->buffers[to].name, d, name);
        s = mlsi_edit_new_for(w, "cache_read", name, r->extent[d]);
        if (s < 0) return -1;
        at[d] = w->vars[w->stmts[s].var].code;
        source[d] = mlsi_nest_index(w, '+', r->base[d], at[d]);
        if (top < 0)
            top = s;
        else
            mlsi_edit_append(w, inner, s);
        inner = s;
    }
    for (int d = 0; d < r->rank && w->status == MLSYS_OK; d++) {
        if (!r->clipped[d]) continue;
        s = mlsi_edit_new_if(w, 0, source[d], w->buffers[from].dims[d]);
        mlsi_edit_append(w, inner, s);
        inner = s;
    }
    int32_t value = mlsi_nest_load(w, from, source);
    s = mlsi_edit_new(w, MLSI_LS_STORE);
    if (s < 0) return -1;
    w->stmts[s].ref = to;
    w->stmts[s].value = value;
    w->stmts[s].n_index = r->rank;
    memcpy(w->stmts[s].index, at, sizeof at[0] * (size_t)r->rank);
    if (top >= 0) mlsi_edit_append(w, inner, s);
    return top >= 0 ? top : s;
}

void mlsi_edit_cache_read(mlsi_nest *w, const mlsi_directive *s) {
    int32_t buffer = mlsi_edit_buffer(w, "cache_read", s->names[0]);
    int32_t loop = mlsi_edit_loop(w, "cache_read", s->names[1]), alloc;
    int read, written;
    mlsi_box r;
    if (w->status != MLSYS_OK) return;
    const mlsi_loop_buffer b = w->buffers[buffer];
    if (b.scope != MLSI_SCOPE_INPUT)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "cache_read: %s is no input", b.name);
    (void)count_accesses(w, loop, buffer, &read, &written);
    if (w->status == MLSYS_OK && !mlsi_edit_box(w, loop, buffer, false, &r))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "cache_read: loop %s does not read %s",
                         s->names[1], b.name);
    if (w->status != MLSYS_OK) return;
    if (mlsi_fault(MLSI_FAULT_SCHEDULE_CACHE_CLIP)) memset(r.clipped, 0, sizeof r.clipped);
    int32_t to =
        mlsi_edit_new_local(w, "cache_read", s->results[0], b.dtype, r.rank, r.extent, &alloc);
    if (to < 0) return;
    mlsi_edit_redirect(w, loop, buffer, to, true, false, r.base);
    mlsi_edit_prepend(w, loop, fill(w, buffer, to, &r));
    mlsi_edit_prepend(w, loop, alloc);
}

/* ---- cache_write ------------------------------------------------------------------------------------------------ */

/* The loops and guards from the loop (outside) to the store, outer first; 0 with a failure. */
static int path_to(mlsi_nest *w, int32_t loop, int32_t store, int32_t *path, int cap) {
    int n = 0;
    for (int32_t p = mlsi_edit_parent(w, store); p != loop; p = mlsi_edit_parent(w, p)) {
        if (n == cap || (w->stmts[p].kind == MLSI_LS_IF && w->stmts[p].value >= 0)) {
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                             "cache_write: loop %s stores to %s under a condition on data",
                             mlsi_edit_name(w, loop), w->buffers[w->stmts[store].ref].name);
            return 0;
        }
        path[n++] = p;
    }
    for (int i = 0; i < n / 2; i++) {
        int32_t p = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = p;
    }
    return n;
}

/* Everything that decides where the store goes must be loops on the path or known outside. */
static void check_path(mlsi_nest *w, int32_t loop, int32_t store, int n, const int32_t *path) {
    int32_t *list = mlsi_edit_list(w, loop);
    for (int32_t *i = list; list && *i >= 0; i++) {
        const mlsi_ls *s = &w->stmts[*i];
        if (s->kind != MLSI_LS_BIND) continue;
        int32_t symbol = w->vars[s->var].symbol;
        bool used = false;
        for (int k = 0; k < w->stmts[store].n_index; k++)
            used |= mlsi_dim_names(&w->tab, w->stmts[store].index[k], symbol);
        for (int k = 0; k < n; k++) {
            const mlsi_ls *p = &w->stmts[path[k]];
            if (p->kind == MLSI_LS_FOR)
                used |= mlsi_dim_names(&w->tab, w->vars[p->var].extent, symbol);
            for (int j = 0; j < p->n_index; j++)
                used |= mlsi_dim_names(&w->tab, p->index[j], symbol);
        }
        if (used)
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                             "cache_write: where loop %s stores to %s depends on data",
                             mlsi_edit_name(w, loop), w->buffers[w->stmts[store].ref].name);
    }
    mlsi_mem_free(w->alloc, list);
}

/* The path again, with variables of its own; the store at its end: buffer[index] = to[index - base]. */
static int32_t copy_out(mlsi_nest *w, int32_t store, int32_t to, int n, const int32_t *path,
                        const mlsi_box *r) {
    int32_t symbols[MLSI_EDIT_VARS], top = -1, inner = -1, made;
    int64_t by[MLSI_EDIT_VARS], from[MLSYS_MAX_DIMS];
    int count = 0;
    mlsi_ls out = w->stmts[store];
    for (int i = 0; i <= n && w->status == MLSYS_OK; i++) {
        mlsi_ls s = i < n ? w->stmts[path[i]] : out;
        bool ok = true;
        for (int k = 0; k < s.n_index; k++)
            ok = ok && mlsi_index_replace(w, s.index[k], count, symbols, by, &s.index[k]);
        if (s.kind == MLSI_LS_FOR) {
            mlsi_loop_var v = w->vars[s.var];
            char name[MLSI_STEP_NAME];
            loop_name(w, w->buffers[to].name, count, name);
            ok = ok && mlsi_index_replace(w, v.extent, count, symbols, by, &v.extent);
            s.var = mlsi_edit_new_var(w, "cache_write", name, v.extent);
            s.loop = MLSI_LOOP_SERIAL;
            if (w->status != MLSYS_OK) return -1;
            symbols[count] = v.symbol;
            by[count++] = w->vars[s.var].code;
        }
        if (!ok) mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "cache_write: subscripts are too large");
        if (i == n) {
            for (int d = 0; d < r->rank; d++)
                from[d] = mlsi_nest_index(w, '-', s.index[d], r->base[d]);
            s.value = mlsi_nest_load(w, to, from);
        }
        s.next = s.body = -1;
        made = mlsi_edit_new(w, s.kind);
        if (made < 0) return -1;
        w->stmts[made] = s;
        if (top < 0)
            top = made;
        else
            mlsi_edit_append(w, inner, made);
        inner = made;
    }
    return top;
}

void mlsi_edit_cache_write(mlsi_nest *w, const mlsi_directive *s) {
    int32_t buffer = mlsi_edit_buffer(w, "cache_write", s->names[0]);
    int32_t loop = mlsi_edit_loop(w, "cache_write", s->names[1]), alloc, path[32];
    int read, written;
    mlsi_box r;
    if (w->status != MLSYS_OK) return;
    const mlsi_loop_buffer b = w->buffers[buffer];
    int32_t store = count_accesses(w, loop, buffer, &read, &written);
    if (written != 1 || read || (store >= 0 && w->stmts[store].kind != MLSI_LS_STORE))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "cache_write: loop %s %s %s", s->names[1],
                         read      ? "reads"
                         : written ? "stores at several places to"
                                   : "does not store to",
                         b.name);
    if (w->status != MLSYS_OK) return;
    int n = path_to(w, loop, store, path, 32);
    check_path(w, loop, store, n, path);
    if (w->status != MLSYS_OK || !mlsi_edit_box(w, loop, buffer, true, &r)) return;
    int32_t to =
        mlsi_edit_new_local(w, "cache_write", s->results[0], b.dtype, r.rank, r.extent, &alloc);
    if (to < 0) return;
    int32_t copy = copy_out(w, store, to, n, path, &r);
    mlsi_edit_redirect(w, loop, buffer, to, false, true, r.base);
    if (!mlsi_fault(MLSI_FAULT_SCHEDULE_CACHE_FLUSH)) mlsi_edit_append(w, loop, copy);
    mlsi_edit_prepend(w, loop, alloc);
}
