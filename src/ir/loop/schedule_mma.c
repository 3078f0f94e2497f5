/* tensorize: loops i and j around a reduction over k of a[.., i, k] * b[.., k, j] as one MMA.
 *
 *     for i, for j: { acc; for k: add a * b; rest(acc) }
 *  -> c[i, j] = -0 for all; MMA c += a * b; for i, for j: rest(c[i, j])
 *
 * -0 + x is x for every x, so the first segment of the order along K begins the sum. An outer loop of the reduction stays
 * around the MMA: its iterations add whole segments of 256 in turn, which is that order. */
#include "ir/loop/schedule_edit.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <string.h>

enum { SEGMENT = 256 };

typedef struct pattern {
    int32_t i, j, k,
        outer; /* loops; outer: the reduction's outermost one, k itself when there is one */
    int32_t add, acc;
    int32_t a, b; /* LOADs */
    int64_t m, n, depth;
} pattern;

static bool refuse(mlsi_nest *w, const pattern *p, const char *why) {
    return mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "tensorize: loops %s, %s, %s: %s",
                            mlsi_edit_name(w, p->i), mlsi_edit_name(w, p->j),
                            mlsi_edit_name(w, p->k), why);
}

static int64_t code_of(const mlsi_nest *w, int32_t loop) {
    return w->vars[w->stmts[loop].var].code;
}
static int32_t symbol_of(const mlsi_nest *w, int32_t loop) {
    return w->vars[w->stmts[loop].var].symbol;
}
static int64_t extent_of(const mlsi_nest *w, int32_t loop) {
    return w->vars[w->stmts[loop].var].extent;
}

static bool is_only(const mlsi_nest *w, int32_t loop, mlsi_ls_kind kind) {
    int32_t body = w->stmts[loop].body;
    return body >= 0 && w->stmts[body].kind == kind && w->stmts[body].next < 0;
}

static bool match_loops(mlsi_nest *w, pattern *p) {
    if (w->stmts[p->i].body != p->j || !is_only(w, p->i, MLSI_LS_FOR))
        return refuse(w, p, "the second is not all that is in the first");
    p->outer = p->k;
    if (mlsi_edit_parent(w, p->k) != p->j) {
        p->outer = mlsi_edit_parent(w, p->k);
        if (p->outer < 0 || mlsi_edit_parent(w, p->outer) != p->j ||
            !is_only(w, p->outer, MLSI_LS_FOR))
            return refuse(w, p, "the third is no loop of a reduction right inside of the second");
    }
    if (!is_only(w, p->k, MLSI_LS_ADD)) return refuse(w, p, "the third does more than add terms");
    for (int32_t l = p->i;; l = l == p->i ? p->j : l == p->j ? p->outer : p->k) {
        if (w->stmts[l].loop != MLSI_LOOP_SERIAL) return refuse(w, p, "they must be serial");
        if (l == p->k) break;
    }
    p->add = w->stmts[p->k].body;
    p->acc = w->stmts[p->add].ref;
    if (w->accs[p->acc].kind != MLSI_ACC_DOT ||
        mlsi_edit_parent(w, mlsi_edit_opening(w, MLSI_LS_ACC, p->acc)) != p->j)
        return refuse(w, p, "the third is no sum of products for each of the second");
    if (w->accs[p->acc].init >= 0) return refuse(w, p, "the sum begins with an addend");
    p->m = extent_of(w, p->i);
    p->n = extent_of(w, p->j);
    p->depth = extent_of(w, p->k);
    return true;
}

/* Positions: k, or depth * outer + k in whole segments. */
static bool match_positions(mlsi_nest *w, const pattern *p) {
    const mlsi_acc *acc = &w->accs[p->acc];
    int64_t position = code_of(w, p->k), count = p->depth, least, most;
    bool rounds = mlsi_dtype_is_float(acc->dtype);
    if (p->outer != p->k) {
        if (p->depth < 1 || (rounds && p->depth % SEGMENT))
            return refuse(w, p, "the order of the sum has no partial results of this length");
        position = mlsi_nest_index(w, '+', position,
                                   mlsi_nest_index(w, '*', code_of(w, p->outer), p->depth));
        count = mlsi_nest_index(w, '*', count, extent_of(w, p->outer));
    }
    if (w->status != MLSYS_OK || w->stmts[p->add].index[0] != position || acc->count != count)
        return refuse(w, p, "terms do not come in the order of the loops");
    mlsi_dim_range(&w->tab, count, &least, &most);
    return (least >= 1 || !rounds) || refuse(w, p, "there may be no terms");
}

/* The load under a cast. */
static int32_t load_of(const mlsi_nest *w, int32_t expr) {
    const mlsi_lx *x = &w->exprs[expr];
    if (x->kind == MLSI_LX_OP && x->op == MLSI_OP_CAST) expr = x->args[0], x = &w->exprs[expr];
    return x->kind == MLSI_LX_LOAD && x->n_index >= 2 ? expr : -1;
}

/* Is the load [.., row, column] of these loops, and of no other of the three? */
static bool walks(mlsi_nest *w, const pattern *p, int32_t load, int32_t row, int32_t column) {
    const mlsi_lx x = w->exprs[load];
    const int32_t loops[3] = {p->i, p->j, p->k};
    for (int d = 0; d < x.n_index; d++) {
        int32_t along = d == x.n_index - 2 ? row : d == x.n_index - 1 ? column : -1;
        for (int l = 0; l < 3; l++) {
            int64_t factor, rest;
            if (!mlsi_index_linear(w, x.index[d], symbol_of(w, loops[l]), code_of(w, loops[l]),
                                   &factor, &rest))
                return false;
            bool one_value = symbol_of(w, loops[l]) < 0;
            if (factor != (loops[l] == along && !one_value)) return false;
        }
    }
    return true;
}

static bool match_operands(mlsi_nest *w, pattern *p) {
    p->a = load_of(w, w->stmts[p->add].value);
    p->b = load_of(w, w->stmts[p->add].value2);
    if (p->a < 0 || p->b < 0) return refuse(w, p, "the factors are no elements of buffers");
    if (!walks(w, p, p->a, p->i, p->k)) { /* products commute */
        int32_t a = p->a;
        p->a = p->b;
        p->b = a;
    }
    if (!walks(w, p, p->a, p->i, p->k) || !walks(w, p, p->b, p->k, p->j))
        return refuse(w, p, "the factors are not [.., i, k] and [.., k, j]");
    mlsi_accesses all = {0};
    mlsi_edit_accesses(w, p->i, &all);
    for (int64_t i = 0; i < all.n; i++)
        if (all.items[i].write && (all.items[i].buffer == w->exprs[p->a].ref ||
                                   all.items[i].buffer == w->exprs[p->b].ref))
            refuse(w, p, "a factor is written in them");
    mlsi_mem_free(w->alloc, all.items);
    return w->status == MLSYS_OK;
}

/* ---- rewriting ------------------------------------------------------------------------------------------------- */

/* for i, for j: c[i, j] = -0 */
static int32_t clear(mlsi_nest *w, const pattern *p, int32_t c) {
    char name[2][MLSI_STEP_NAME];
    const int64_t extents[2] = {p->m, p->n};
    int64_t at[2];
    int32_t loops[2];
    for (int d = 0; d < 2; d++) {
        mlsi_edit_free_name(w, d ? "clear_j" : "clear_i", name[d]);
        loops[d] = mlsi_edit_new_for(w, "tensorize", name[d], extents[d]);
        if (loops[d] < 0) return -1;
        at[d] = code_of(w, loops[d]);
    }
    mlsys_dtype dtype = w->buffers[c].dtype;
    int32_t value =
        mlsi_dtype_is_float(dtype)
            ? mlsi_nest_float(w, dtype, mlsi_fault(MLSI_FAULT_SCHEDULE_PLUS_ZERO) ? 0.0 : -0.0)
            : mlsi_nest_int(w, dtype, 0);
    int32_t store = mlsi_edit_new(w, MLSI_LS_STORE);
    if (store < 0) return -1;
    w->stmts[store].ref = c;
    w->stmts[store].value = value;
    w->stmts[store].n_index = 2;
    memcpy(w->stmts[store].index, at, sizeof at);
    mlsi_edit_append(w, loops[1], store);
    mlsi_edit_append(w, loops[0], loops[1]);
    return loops[0];
}

/* The tile that begins where i, j and k are 0, as an expression of its own. */
static int32_t origin(mlsi_nest *w, const pattern *p, int32_t load) {
    const int32_t symbols[3] = {symbol_of(w, p->i), symbol_of(w, p->j), symbol_of(w, p->k)};
    const int64_t zeros[3] = {0, 0, 0};
    mlsi_lx x = w->exprs[load];
    for (int d = 0; d < x.n_index; d++)
        if (!mlsi_index_replace(w, x.index[d], 3, symbols, zeros, &x.index[d]))
            refuse(w, p, "subscripts are too large");
    return mlsi_nest_load(w, x.ref, x.index);
}

/* Who reads the reduction reads the tile: in place, since its ACC statement goes. */
static void read_tile(mlsi_nest *w, const pattern *p, int32_t c) {
    for (int64_t i = 0; i < w->n_exprs; i++) {
        mlsi_lx *x = &w->exprs[i];
        if (x->kind != MLSI_LX_ACC || x->ref != p->acc) continue;
        x->kind = MLSI_LX_LOAD;
        x->ref = c;
        x->n_index = 2;
        x->index[0] = code_of(w, p->i);
        x->index[1] = code_of(w, p->j);
    }
}

void mlsi_edit_tensorize(mlsi_nest *w, const mlsi_directive *s) {
    pattern p = {.i = mlsi_edit_loop(w, "tensorize", s->names[0]),
                 .j = mlsi_edit_loop(w, "tensorize", s->names[1]),
                 .k = mlsi_edit_loop(w, "tensorize", s->names[2])};
    int32_t alloc;
    if (w->status != MLSYS_OK) return;
    if (!match_loops(w, &p) || !match_positions(w, &p) || !match_operands(w, &p)) return;
    const int64_t dims[2] = {p.m, p.n};
    int32_t c =
        mlsi_edit_new_local(w, "tensorize", s->results[0], w->accs[p.acc].dtype, 2, dims, &alloc);
    if (c < 0) return;
    int32_t fill = clear(w, &p, c), a = origin(w, &p, p.a), b = origin(w, &p, p.b);
    int32_t mma = mlsi_edit_new(w, MLSI_LS_MMA);
    if (mma < 0) return;
    w->stmts[mma].ref = c;
    w->stmts[mma].value = a;
    w->stmts[mma].value2 = b;
    w->stmts[mma].n_index = 3;
    w->stmts[mma].index[0] = p.m, w->stmts[mma].index[1] = p.n, w->stmts[mma].index[2] = p.depth;
    mlsi_edit_unlink(w, p.outer);
    mlsi_edit_unlink(w, mlsi_edit_opening(w, MLSI_LS_ACC, p.acc));
    read_tile(w, &p, c);
    int32_t product = mma;
    if (p.outer != p.k) {
        w->stmts[p.outer].body = mma;
        product = p.outer;
    }
    mlsi_edit_before(w, p.i, alloc);
    mlsi_edit_before(w, p.i, fill);
    mlsi_edit_before(w, p.i, product);
}
