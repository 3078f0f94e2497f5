/* The statement tree under edit: finding, making and moving statements. */
#include "ir/loop/schedule_edit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool mlsi_edit_refuse(mlsi_nest *w, mlsys_status st, const char *format, ...) {
    char text[400];
    va_list args;
    if (w->status != MLSYS_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mlsi_nest_fail(w, mlsi_fail(st, "%s", text));
    return false;
}

/* ---- finding ------------------------------------------------------------------------------------------ */

const char *mlsi_edit_name(const mlsi_nest *w, int32_t loop) {
    return w->vars[w->stmts[loop].var].name;
}

int32_t mlsi_edit_loop(mlsi_nest *w, const char *what, const char *name) {
    for (int32_t i = 0; w->status == MLSYS_OK && i < w->n_stmts; i++)
        if (w->stmts[i].kind == MLSI_LS_FOR && !strcmp(mlsi_edit_name(w, i), name)) return i;
    mlsi_edit_refuse(w, MLSYS_E_ARG, "%s: there is no loop %s", what, name);
    return -1;
}

int32_t mlsi_edit_buffer(mlsi_nest *w, const char *what, const char *name) {
    for (int32_t i = 0; w->status == MLSYS_OK && i < w->n_buffers; i++)
        if (!strcmp(w->buffers[i].name, name)) return i;
    mlsi_edit_refuse(w, MLSYS_E_ARG, "%s: there is no buffer %s", what, name);
    return -1;
}

/* The statement whose body holds s, in the body that begins with first; -2 = not in it. */
static int32_t parent_in(const mlsi_nest *w, int32_t first, int32_t parent, int32_t s) {
    for (int32_t i = first; i >= 0; i = w->stmts[i].next) {
        if (i == s) return parent;
        int32_t found = parent_in(w, w->stmts[i].body, i, s);
        if (found != -2) return found;
    }
    return -2;
}

int32_t mlsi_edit_parent(const mlsi_nest *w, int32_t s) {
    int32_t parent = parent_in(w, w->first, -1, s);
    return parent < 0 ? -1 : parent;
}

bool mlsi_edit_inside(const mlsi_nest *w, int32_t s, int32_t top) {
    for (; s >= 0; s = mlsi_edit_parent(w, s))
        if (s == top) return true;
    return false;
}

int32_t mlsi_edit_opening(const mlsi_nest *w, mlsi_ls_kind kind, int32_t ref) {
    for (int32_t i = 0; i < w->n_stmts; i++)
        if (w->stmts[i].kind == kind && w->stmts[i].ref == ref) return i;
    return -1;
}

static int64_t list_into(const mlsi_nest *w, int32_t first, int32_t *out, int64_t at) {
    for (int32_t i = first; i >= 0; i = w->stmts[i].next) {
        out[at++] = i;
        at = list_into(w, w->stmts[i].body, out, at);
    }
    return at;
}

int32_t *mlsi_edit_list(mlsi_nest *w, int32_t top) {
    int32_t *list = NULL;
    if (w->status != MLSYS_OK) return NULL;
    mlsi_nest_fail(w, MLSI_NEW_N(w->alloc, w->n_stmts + 1, &list));
    if (!list) return NULL;
    int64_t n = 0;
    if (top >= 0) {
        list[n++] = top;
        n = list_into(w, w->stmts[top].body, list, n);
    } else {
        n = list_into(w, w->first, list, 0);
    }
    list[n] = -1;
    return list;
}

/* ---- making ----------------------------------------------------------------------------------------------- */

int32_t mlsi_edit_new(mlsi_nest *w, mlsi_ls_kind kind) {
    if (w->status != MLSYS_OK) return -1;
    mlsi_nest_fail(w, MLSI_GROW(w->alloc, &w->stmts, &w->cap_stmts, w->n_stmts + 1));
    if (w->status != MLSYS_OK) return -1;
    w->stmts[w->n_stmts] = (mlsi_ls){
        .kind = kind, .next = -1, .body = -1, .var = -1, .ref = -1, .value = -1, .value2 = -1};
    return (int32_t)w->n_stmts++;
}

static bool is_taken(const mlsi_nest *w, const char *name) {
    for (int64_t i = 0; i < w->tab.n_symbols; i++)
        if (!strcmp(w->tab.symbols[i].name, name)) return true;
    for (int64_t i = 0; i < w->n_vars; i++)
        if (!strcmp(w->vars[i].name, name)) return true;
    for (int64_t i = 0; i < w->n_buffers; i++)
        if (!strcmp(w->buffers[i].name, name)) return true;
    for (int64_t i = 0; i < w->n_lets; i++)
        if (!strcmp(w->lets[i].name, name)) return true;
    for (int64_t i = 0; i < w->n_accs; i++)
        if (!strcmp(w->accs[i].name, name)) return true;
    return false;
}

static bool check_name(mlsi_nest *w, const char *what, const char *name) {
    if (w->status == MLSYS_OK && is_taken(w, name))
        mlsi_edit_refuse(w, MLSYS_E_ARG, "%s: the name %s is taken", what, name);
    return w->status == MLSYS_OK;
}

void mlsi_edit_free_name(const mlsi_nest *w, const char *base, char out[MLSI_STEP_NAME]) {
    snprintf(out, MLSI_STEP_NAME, "%.50s", base);
    for (int k = 2; is_taken(w, out); k++)
        snprintf(out, MLSI_STEP_NAME, "%.50s_%d", base, k);
}

int32_t mlsi_edit_new_var(mlsi_nest *w, const char *what, const char *name, int64_t extent) {
    mlsi_loop_var v = {.extent = extent, .symbol = -1};
    int64_t lo, hi;
    if (!check_name(w, what, name)) return -1;
    mlsi_dim_range(&w->tab, extent, &lo, &hi);
    if (lo < 0 && !mlsi_index_at_least(w, extent, 0)) {
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "%s: the extent of %s may be %lld", what, name,
                         (long long)lo);
        return -1;
    }
    mlsi_nest_fail(w, MLSI_GROW(w->alloc, &w->vars, &w->cap_vars, w->n_vars + 1));
    mlsi_nest_fail(w, mlsi_arena_strdup(&w->arena, name, &v.name));
    if (w->status == MLSYS_OK && hi > 1) {
        mlsi_nest_fail(w, mlsi_dim_variable(&w->tab, v.name, extent, &v.code));
        if (w->status == MLSYS_OK) v.symbol = mlsi_dim_as_symbol(&w->tab, v.code);
    }
    if (w->status != MLSYS_OK) return -1;
    w->vars[w->n_vars] = v;
    return (int32_t)w->n_vars++;
}

int32_t mlsi_edit_new_for(mlsi_nest *w, const char *what, const char *name, int64_t extent) {
    int32_t var = mlsi_edit_new_var(w, what, name, extent), s = mlsi_edit_new(w, MLSI_LS_FOR);
    if (s < 0) return -1;
    w->stmts[s].var = var;
    w->stmts[s].loop = MLSI_LOOP_SERIAL;
    return s;
}

int32_t mlsi_edit_new_if(mlsi_nest *w, int64_t lo, int64_t index, int64_t hi) {
    int32_t s = mlsi_edit_new(w, MLSI_LS_IF);
    if (s < 0) return -1;
    w->stmts[s].n_index = 3;
    w->stmts[s].index[0] = lo, w->stmts[s].index[1] = index, w->stmts[s].index[2] = hi;
    return s;
}

int32_t mlsi_edit_new_local(mlsi_nest *w, const char *what, const char *name, mlsys_dtype dtype,
                            int rank, const int64_t *dims, int32_t *alloc) {
    mlsi_loop_buffer b = {.scope = MLSI_SCOPE_LOCAL, .dtype = dtype, .rank = rank, .param = -1};
    if (!check_name(w, what, name)) return -1;
    if (rank) memcpy(b.dims, dims, sizeof *dims * (size_t)rank);
    *alloc = mlsi_edit_new(w, MLSI_LS_ALLOC);
    mlsi_nest_fail(w, MLSI_GROW(w->alloc, &w->buffers, &w->cap_buffers, w->n_buffers + 1));
    mlsi_nest_fail(w, mlsi_arena_strdup(&w->arena, name, &b.name));
    if (w->status != MLSYS_OK) return -1;
    w->buffers[w->n_buffers] = b;
    w->stmts[*alloc].ref = (int32_t)w->n_buffers;
    return (int32_t)w->n_buffers++;
}

/* ---- moving ---------------------------------------------------------------------------------------------- */

/* The field that holds s: first, or a body or next. */
static int32_t *link_to(mlsi_nest *w, int32_t s) {
    if (w->first == s) return &w->first;
    for (int32_t i = 0; i < w->n_stmts; i++) {
        if (w->stmts[i].body == s) return &w->stmts[i].body;
        if (w->stmts[i].next == s) return &w->stmts[i].next;
    }
    return NULL;
}

void mlsi_edit_unlink(mlsi_nest *w, int32_t s) {
    if (w->status != MLSYS_OK) return;
    int32_t *link = link_to(w, s);
    if (link) *link = w->stmts[s].next;
    w->stmts[s].next = -1;
}

void mlsi_edit_prepend(mlsi_nest *w, int32_t parent, int32_t s) {
    if (w->status != MLSYS_OK) return;
    int32_t *head = parent < 0 ? &w->first : &w->stmts[parent].body;
    w->stmts[s].next = *head;
    *head = s;
}

void mlsi_edit_append(mlsi_nest *w, int32_t parent, int32_t s) {
    if (w->status != MLSYS_OK) return;
    int32_t *link = parent < 0 ? &w->first : &w->stmts[parent].body;
    while (*link >= 0)
        link = &w->stmts[*link].next;
    *link = s;
}

void mlsi_edit_before(mlsi_nest *w, int32_t at, int32_t s) {
    if (w->status != MLSYS_OK) return;
    int32_t *link = link_to(w, at);
    w->stmts[s].next = at;
    if (link) *link = s;
}
