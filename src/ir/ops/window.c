/* Pooling, and the extents of sliding windows. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/window.h"

static mlsys_status fill_list(const mlsi_infer *t, const char *what, mlsi_list *l, int n,
                              int64_t value, int64_t least) {
    if (l->n == 0)
        for (int i = 0; i < n; i++)
            l->v[l->n++] = value;
    if (l->n != n)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %lld entries, expected %d", what,
                               (long long)l->n, n);
    for (int i = 0; i < n; i++)
        if (l->v[i] < least || l->v[i] > MLSI_WINDOW_LIMIT)
            return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %lld outside [%lld,%d]", what,
                                   (long long)l->v[i], (long long)least, MLSI_WINDOW_LIMIT);
    return MLSYS_OK;
}

mlsys_status mlsi_infer_window_lists(const mlsi_infer *t, int spatial, mlsi_list *strides,
                                     mlsi_list *dilations, mlsi_list *pads) {
    MLSI_TRY(fill_list(t, "strides", strides, spatial, 1, 1));
    MLSI_TRY(fill_list(t, "dilations", dilations, spatial, 1, 1));
    return fill_list(t, "pads", pads, 2 * spatial, 0, 0);
}

mlsys_status mlsi_infer_window_kernel(const mlsi_infer *t, const mlsi_window_axis *w) {
    int64_t lo, hi;
    char a[128];
    mlsi_dim_range(t->symbols, w->kernel, &lo, &hi);
    if (lo >= 1 && hi <= MLSI_WINDOW_LIMIT) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "kernel: extent %s outside [1,%d]",
                           mlsi_dim_text(t->symbols, w->kernel, a, sizeof a), MLSI_WINDOW_LIMIT);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

/* With ceil, a last window that would begin in the high padding is left out. */
static mlsys_status ceil_extent(const mlsi_infer *t, const mlsi_window_axis *w, int64_t *out) {
    char a[128];
    if (w->extent < 0)
        return mlsi_infer_fail(
            t, MLSYS_E_SHAPE, 0, "ceil_mode with stride %lld over symbolic extent %s",
            (long long)w->stride, mlsi_dim_text(t->symbols, w->extent, a, sizeof a));
    int64_t room = w->extent + w->low + w->high - w->dilation * (w->kernel - 1) - 1;
    int64_t n = floor_div(room + w->stride - 1, w->stride) + 1;
    if (n > 0 && (n - 1) * w->stride >= w->extent + w->low) n--;
    *out = n;
    return mlsi_infer_extent(t, "result", n);
}

mlsys_status mlsi_infer_window_extent(const mlsi_infer *t, const mlsi_window_axis *w,
                                      bool ceil_mode, int64_t *out) {
    mlsi_symtab *tab = t->symbols;
    int64_t room;
    if (ceil_mode && w->stride > 1) return ceil_extent(t, w, out);
    MLSI_TRY(
        mlsi_dim_combine(tab, w->low + w->high + w->dilation - 1, -w->dilation, w->kernel, &room));
    if (w->extent >= 0 && room > MLSI_DIM_CODE) {
        if (!mlsi_add_i64(w->extent, room, &room))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "extent and pads overflow int64");
        *out = floor_div(room, w->stride) + 1;
        return mlsi_infer_extent(t, "result", *out);
    }
    MLSI_TRY(mlsi_dim_combine(tab, w->extent, 1, room, &room));
    if (room > MLSI_DIM_CODE) { /* the symbols cancel */
        *out = floor_div(room, w->stride) + 1;
        return mlsi_infer_extent(t, "result", *out);
    }
    MLSI_TRY(mlsi_dim_op(tab, '/', room, w->stride, out));
    MLSI_TRY(mlsi_dim_op(tab, '+', *out, 1, out));
    return mlsi_infer_extent(t, "result", *out);
}

/* ---- pool ---------------------------------------------------------------------------------- */

const char *const mlsi_pool_kinds[] = {"max", "average", "sum", NULL};

mlsys_status mlsi_infer_pool(mlsi_infer *t) {
    mlsi_attr_pool *at = t->attrs;
    const mlsi_type *x = &t->in[0];
    int spatial = x->rank - 2;
    char a[160];
    if (at->kind < MLSI_POOL_MAX || at->kind > MLSI_POOL_SUM)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute kind: %lld", (long long)at->kind);
    MLSI_TRY(mlsi_infer_class(t, 0, at->kind == MLSI_POOL_AVERAGE ? MLSI_FLOATS : MLSI_NUMBERS));
    if (spatial < 1 || at->kernel.n != spatial)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0,
                               "%s has not the %lld spatial axes of the kernel, >= 1",
                               mlsi_type_text(t->symbols, x, a, sizeof a), (long long)at->kernel.n);
    MLSI_TRY(mlsi_infer_window_lists(t, spatial, &at->strides, &at->dilations, &at->pads));
    t->out[0] = *x;
    for (int d = 0; d < spatial; d++) {
        mlsi_window_axis axis = {x->dims[2 + d],     at->kernel.v[d], at->strides.v[d],
                                 at->dilations.v[d], at->pads.v[d],   at->pads.v[spatial + d]};
        MLSI_TRY(mlsi_infer_window_kernel(t, &axis));
        MLSI_TRY(mlsi_infer_window_extent(t, &axis, at->ceil_mode != 0, &t->out[0].dims[2 + d]));
    }
    return MLSYS_OK;
}

typedef struct pool_walk {
    const mlsi_view *x;
    const mlsi_attr_pool *at;
    int spatial;
    int64_t index[MLSYS_MAX_DIMS];  /* of the result */
    int64_t source[MLSYS_MAX_DIMS]; /* of the cell last looked at */
} pool_walk;

enum { CELL_X, CELL_PAD, CELL_OUTSIDE }; /* outside: past the padding, with ceil_mode */

/* Where cell i (row-major in the kernel) of the window lies; its index in x if inside. */
static int pool_cell(pool_walk *p, int64_t i, int64_t *linear) {
    int64_t tap[MLSYS_MAX_DIMS];
    int where = CELL_X;
    mlsi_ref_unravel(p->spatial, p->at->kernel.v, i, tap);
    p->source[0] = p->index[0];
    p->source[1] = p->index[1];
    for (int d = 0; d < p->spatial; d++) {
        int64_t n = p->x->shape[2 + d], low = p->at->pads.v[d],
                high = p->at->pads.v[p->spatial + d];
        int64_t v = p->index[2 + d] * p->at->strides.v[d] + tap[d] * p->at->dilations.v[d] - low;
        if (v >= n + high)
            where = CELL_OUTSIDE;
        else if ((v < 0 || v >= n) && where == CELL_X)
            where = CELL_PAD;
        p->source[2 + d] = v;
    }
    if (where == CELL_X) *linear = mlsi_ref_ravel(p->x->rank, p->x->shape, p->source);
    return where;
}

static double pool_value(void *user, int64_t i) {
    pool_walk *p = user;
    int64_t at;
    return pool_cell(p, i, &at) == CELL_X ? mlsi_ref_get_f(p->x, at) : 0.0;
}

static double pool_float(pool_walk *p, int64_t cells) {
    bool f64 = mlsi_ref_is_f64(p->x->dtype);
    double m = -INFINITY;
    int64_t at, count = 0;
    for (int64_t i = 0; i < cells; i++) {
        int where = pool_cell(p, i, &at);
        if (where == CELL_X) m = mlsi_ref_max(m, mlsi_ref_get_f(p->x, at));
        bool counts = p->at->count_pad || mlsi_fault(MLSI_FAULT_OPS_POOL_DIVISOR);
        if (where == CELL_X || (where == CELL_PAD && counts)) count++;
    }
    if (p->at->kind == MLSI_POOL_MAX) return m;
    double sum = mlsi_ref_sum(f64, cells, pool_value, p);
    return p->at->kind == MLSI_POOL_SUM ? sum : mlsi_ref_div(f64, sum, (double)count);
}

static int64_t pool_int(pool_walk *p, int64_t cells, mlsys_dtype dtype) {
    int bits = 8 * mlsi_dtype_size(dtype);
    bool is_signed = mlsi_dtype_get(dtype)->is_signed, max = p->at->kind == MLSI_POOL_MAX;
    int64_t v = max && is_signed ? INT64_MIN >> (64 - bits) : 0, at;
    for (int64_t i = 0; i < cells; i++) {
        if (pool_cell(p, i, &at) != CELL_X) continue;
        int64_t e = mlsi_ref_get_i(p->x, at);
        v = max ? (e > v ? e : v) : mlsi_ref_iadd(v, e);
    }
    return v;
}

static mlsys_status ref_pool(const mlsi_ref_args *a) {
    const mlsi_view *y = &a->out[0];
    pool_walk p = {.x = &a->in[0], .at = a->attrs, .spatial = a->in[0].rank - 2};
    int64_t cells = 1;
    for (int d = 0; d < p.spatial; d++)
        cells *= p.at->kernel.v[d];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, p.index);
        if (mlsi_dtype_is_float(y->dtype))
            mlsi_ref_set_f(y, i, pool_float(&p, cells));
        else
            mlsi_ref_set_i(y, i, pool_int(&p, cells, y->dtype));
    }
    return MLSYS_OK;
}

static void cost_pool(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_pool *at = a->attrs;
    uint64_t cells = 1;
    for (int64_t d = 0; d < at->kernel.n; d++)
        cells *= (uint64_t)at->kernel.v[d];
    c->flops = cells * mlsi_cost_count(&a->out[0]);
}

static const mlsi_attr_desc pool_attrs[] = {MLSI_POOL_ATTRS, {.name = NULL}};

const mlsi_op_def mlsi_op_def_pool = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_pool),
    .attrs = pool_attrs,
    .infer = mlsi_infer_pool,
    .reduces = mlsi_loops_pool_space,
    .term = mlsi_loops_pool_term,
    .reduced = mlsi_loops_pool_mean,
    .cost = cost_pool,
    .ref = ref_pool,
    .vjp = mlsi_vjp_pool,
    .doc = "x [N, C, spatial...]: maximum, average or sum over a "
           "sliding window. The sum is the canonical sum "
           "over the window's cells in row-major order, in which "
           "cells outside x are +0. The average divides it "
           "by the number of cells in x, with count_pad by the "
           "number of cells in x and its padding. Extents as "
           "conv; with ceil_mode the division rounds up.",
    .special = "max: NaN if any cell is NaN; a window without cells of "
               "x gives -inf (integers: the least value). "
               "average of such a window: 0 / 0 = NaN, with count_pad 0.",
    .onnx = "MaxPool, AveragePool"};
