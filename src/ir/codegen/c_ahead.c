/* What the next row will read, asked for while this row is written.
 *
 * A kernel of rows reads a row from memory in its first loop and, by then in the caches, writes it in its last one: memory
 * stands still in the one, the core in the other. So the last loop prefetches what the first loop of the next task
 * will load. No bits depend on it. */
#include "ir/codegen/c_writer.h"

/* The first and the last loop of a task's body in lanes, where they walk the same extent. */
void mlsi_c_find_row(mlsi_c_writer *w, int32_t row_var, int32_t body) {
    int32_t first = -1, last = -1;
    w->row_var = w->row_first = w->row_last = -1;
    for (int32_t i = body; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->kind != MLSI_LS_FOR || s->loop != MLSI_LOOP_VECTOR) continue;
        if (first < 0) first = i;
        last = i;
    }
    if (row_var < 0 || first == last) return;
    const mlsi_ls *a = &w->n->stmts[first], *b = &w->n->stmts[last];
    if (w->n->vars[a->var].extent != w->n->vars[b->var].extent) return;
    w->row_var = row_var;
    w->row_first = first;
    w->row_last = last;
}

/* From an element to the one of the next row, in elements; false where that is no number, or none. */
static bool row_strides(const mlsi_c_writer *w, const mlsi_lx *x, int64_t *strides) {
    bool moves = false;
    for (int d = 0; d < w->n->buffers[x->ref].rank; d++) {
        if (!mlsi_c_stride(w->n, x->index[d], w->row_var, &strides[d])) return false;
        moves |= strides[d] != 0;
    }
    return moves;
}

static void ask(mlsi_c_writer *w, const mlsi_lx *load) {
    mlsi_nest *n = w->n;
    const mlsi_lx x = *load; /* interning may move the table */
    const mlsi_loop_buffer *b = &n->buffers[x.ref];
    int64_t strides[MLSYS_MAX_DIMS], index[MLSYS_MAX_DIMS];
    const char *plus = "";
    if (!row_strides(w, &x, strides)) return;
    for (int d = 0; d < b->rank; d++)
        index[d] = x.index[d];
    int64_t *last = &index[b->rank - 1];
    *last = mlsi_nest_index(n, '-', *last, n->vars[n->stmts[w->row_first].var].code);
    *last = mlsi_nest_index(n, '+', *last, n->vars[n->stmts[w->row_last].var].code);
    mlsi_text_add(w->out, "ml_ahead(ahead, &m_%s[", b->name);
    mlsi_c_address(w, x.ref, index);
    mlsi_text_add(w->out, "], %d * (", mlsi_dtype_size(b->dtype));
    for (int d = 0; d < b->rank; d++) {
        if (!strides[d]) continue;
        mlsi_text_add(w->out, "%sINT64_C(%lld)", plus, (long long)strides[d]);
        if (d + 1 < b->rank) mlsi_text_add(w->out, " * m_%s_s%d", b->name, d);
        plus = " + ";
    }
    mlsi_text_add(w->out, "));\n");
}

/* Each input once. */
static void walk_value(mlsi_c_writer *w, int32_t expr, uint64_t *seen) {
    const mlsi_lx *x = &w->n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD && x->ref < 64 && !(*seen >> x->ref & 1) &&
        w->n->buffers[x->ref].scope == MLSI_SCOPE_INPUT &&
        mlsi_c_access_of(w->n, x->ref, x->index, w->n->stmts[w->row_first].var) == MLSI_C_UNIT) {
        *seen |= UINT64_C(1) << x->ref;
        ask(w, x);
    }
    for (int i = 0; i < w->n->exprs[expr].n_args; i++)
        walk_value(w, w->n->exprs[expr].args[i], seen);
}

void mlsi_c_ahead(mlsi_c_writer *w, const mlsi_ls *loop) {
    uint64_t seen = 0;
    if (w->row_last < 0 || loop != &w->n->stmts[w->row_last]) return;
    for (int32_t i = w->n->stmts[w->row_first].body; i >= 0; i = w->n->stmts[i].next) {
        if (w->n->stmts[i].value >= 0) walk_value(w, w->n->stmts[i].value, &seen);
        if (w->n->stmts[i].value2 >= 0) walk_value(w, w->n->stmts[i].value2, &seen);
    }
}
