/* Gradient rules of convolution and pooling. Extents of the spatial axes may be symbolic: then paddings and crops are
 * expressions, and what remains of a division by a stride is one, too. */
#include "core/faults.h"
#include "ir/ops/gradient.h"
#include "ir/ops/window.h"

#include <math.h>
#include <string.h>

/* ---- conv ---------------------------------------------------------------------------------- */

static int32_t swap_first_axes(mlsi_emit *e, int32_t x) {
    mlsi_attr_transpose at;
    if (e->st != MLSYS_OK) return x;
    memset(&at, 0, sizeof at);
    at.perm.n = mlsi_emit_type(e, x)->rank;
    for (int64_t i = 0; i < at.perm.n; i++)
        at.perm.v[i] = i < 2 ? 1 - i : i;
    return mlsi_emit_op(e, MLSI_OP_TRANSPOSE, &at, 1, &x);
}

/* x [N, g * C, ...] as [C, g * N, ...]: channels of a group become the batch, the batch the channels. */
static int32_t batch_as_channels(mlsi_emit *e, int32_t x, int64_t groups) {
    mlsi_attr_transpose at;
    if (e->st != MLSYS_OK || groups == 1) return swap_first_axes(e, x);
    mlsi_type t = *mlsi_emit_type(e, x);
    int64_t split[MLSYS_MAX_DIMS], joined[MLSYS_MAX_DIMS], channels;
    if (t.rank == MLSYS_MAX_DIMS) {
        e->st = mlsi_fail(MLSYS_E_UNSUPPORTED, "conv: gradient of groups at rank %d", t.rank);
        return x;
    }
    e->st = mlsi_dim_op(&e->g->symbols, '/', t.dims[1], groups, &channels);
    split[0] = t.dims[0], split[1] = groups, split[2] = channels;
    joined[0] = channels;
    if (e->st == MLSYS_OK) e->st = mlsi_dim_op(&e->g->symbols, '*', t.dims[0], groups, &joined[1]);
    memset(&at, 0, sizeof at);
    at.perm.n = t.rank + 1;
    at.perm.v[0] = 2, at.perm.v[1] = 1, at.perm.v[2] = 0;
    for (int d = 2; d < t.rank; d++) {
        split[d + 1] = joined[d] = t.dims[d];
        at.perm.v[d + 1] = d + 1;
    }
    x = mlsi_emit_reshape(e, x, t.rank + 1, split);
    x = mlsi_emit_op(e, MLSI_OP_TRANSPOSE, &at, 1, &x);
    return mlsi_emit_reshape(e, x, t.rank, joined);
}

/* Cells from the first that windows meet to the last: stride * (windows - 1) + dilation * (kernel - 1) + 1. */
static int64_t span(mlsi_emit *e, int64_t kernel, int64_t dilation, int64_t windows,
                    int64_t stride) {
    int64_t cells = mlsi_emit_dim(e, 1 - dilation - stride, dilation, kernel);
    return mlsi_emit_dim(e, cells, stride, windows);
}

/* What is made for symbolic numbers of windows needs one at least; as the kernel of a convolution they must be few
 * enough for one, too. */
static mlsys_status check_windows(const mlsi_emit *e, const char *op, int32_t y, bool as_kernel) {
    char text[128];
    const mlsi_type *t = mlsi_emit_type(e, y);
    for (int d = 2; d < t->rank; d++) {
        int64_t lo, hi, most = as_kernel ? MLSI_WINDOW_LIMIT : INT64_MAX;
        mlsi_dim_range(&e->g->symbols, t->dims[d], &lo, &hi);
        if (t->dims[d] >= 0 && !as_kernel) continue;
        if (lo < 1 || hi > most)
            return mlsi_fail(MLSYS_E_UNSUPPORTED,
                             "%s: gradient over %s windows along axis %d, outside [1,%lld]", op,
                             mlsi_dim_text(&e->g->symbols, t->dims[d], text, sizeof text), d,
                             (long long)most);
    }
    return MLSYS_OK;
}

/* dw[o, c, tap] = sum over n and positions p of small[n, o, p] * big[n, c, p * stride + tap * dilation -
 * pad]: a convolution whose batch is c, channels are n, kernel is `small`, with strides and dilations in each
 * other's place. Result [o, c, taps]. */
static int32_t filter_adjoint(mlsi_emit *e, const mlsi_attr_conv *at, int32_t big, int32_t small,
                              int32_t w) {
    mlsi_attr_conv c;
    mlsi_attr_pad fit;
    if (e->st != MLSYS_OK) return w;
    mlsi_type tb = *mlsi_emit_type(e, big), ts = *mlsi_emit_type(e, small),
              tw = *mlsi_emit_type(e, w);
    int spatial = tb.rank - 2;
    memset(&c, 0, sizeof c);
    memset(&fit, 0, sizeof fit);
    c.groups = at->groups;
    c.strides = at->dilations;
    c.dilations = at->strides;
    fit.low.n = fit.high.n = tb.rank;
    for (int d = 0; d < spatial; d++) { /* exactly as many cells as the taps meet */
        int64_t reach =
            span(e, tw.dims[2 + d], at->dilations.v[d], ts.dims[2 + d], at->strides.v[d]);
        int64_t low = at->pads.v[d];
        if (mlsi_fault(MLSI_FAULT_ADJOINT_FILTER_SHIFT) && tb.dims[2 + d] < 0) low++;
        fit.low.v[2 + d] = low;
        fit.high.v[2 + d] = mlsi_emit_dim(e, mlsi_emit_dim(e, reach, -1, low), -1, tb.dims[2 + d]);
    }
    big = mlsi_emit_op(e, MLSI_OP_PAD, &fit, 1, &big);
    int32_t in[2];
    in[0] = batch_as_channels(e, big, at->groups);
    in[1] = swap_first_axes(e, small);
    return swap_first_axes(e, mlsi_emit_op(e, MLSI_OP_CONV, &c, 2, in));
}

/* The convolution that carries dy back to x's cells. */
static int32_t input_adjoint(mlsi_emit *e, const mlsi_attr_conv *at, int32_t x, int32_t w,
                             int32_t dy) {
    mlsi_attr_conv c = *at;
    if (e->st != MLSYS_OK) return x;
    mlsi_type tx = *mlsi_emit_type(e, x), ty = *mlsi_emit_type(e, dy), tw = *mlsi_emit_type(e, w);
    int spatial = tx.rank - 2;
    c.transposed = !at->transposed;
    for (int d = 0; d < spatial; d++) {
        int64_t whole =
            span(e, tw.dims[2 + d], at->dilations.v[d], ty.dims[2 + d], at->strides.v[d]);
        int64_t padded =
            mlsi_emit_dim(e, at->pads.v[d] + at->pads.v[spatial + d], 1, tx.dims[2 + d]);
        c.output_pads.v[d] = at->transposed ? 0 : mlsi_emit_dim(e, padded, -1, whole);
    }
    int32_t in[2] = {dy, w};
    return mlsi_emit_op(e, MLSI_OP_CONV, &c, 2, in);
}

mlsys_status mlsi_vjp_conv(mlsi_vjp *v) {
    const mlsi_attr_conv *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    if (v->wanted[1])
        MLSI_TRY(check_windows(&e, "conv", at->transposed ? v->in[0] : v->dout[0], true));
    if (v->wanted[0]) v->din[0] = input_adjoint(&e, at, v->in[0], v->in[1], v->dout[0]);
    if (v->wanted[1])
        v->din[1] = at->transposed ? filter_adjoint(&e, at, v->dout[0], v->in[0], v->in[1])
                                   : filter_adjoint(&e, at, v->in[0], v->dout[0], v->in[1]);
    if (v->n_in > 2 && v->wanted[2]) v->din[2] = v->dout[0];
    return e.st;
}

/* ---- pool ---------------------------------------------------------------------------------- */

typedef struct pool_vjp {
    mlsi_emit e;
    const mlsi_attr_pool *at;
    mlsi_type x, y;
    int spatial;
    mlsi_attr_pad around; /* x's cells up to the last one that a window meets: may crop */
} pool_vjp;

static pool_vjp begin_pool(mlsi_graph *g, int32_t func, const mlsi_attr_pool *at, int32_t x,
                           int32_t y) {
    pool_vjp p = {.e = mlsi_emit_begin(g, func, y), .at = at};
    p.x = *mlsi_emit_type(&p.e, x);
    p.y = *mlsi_emit_type(&p.e, y);
    p.spatial = p.x.rank - 2;
    p.around.low.n = p.around.high.n = p.x.rank;
    for (int d = 0; d < p.spatial; d++) {
        int64_t reach = span(&p.e, p.at->kernel.v[d], p.at->dilations.v[d], p.y.dims[2 + d],
                             p.at->strides.v[d]);
        int64_t high = mlsi_emit_dim(&p.e, reach, -1, p.at->pads.v[d]);
        p.around.low.v[2 + d] = p.at->pads.v[d];
        high = mlsi_emit_dim(&p.e, high, -1, p.x.dims[2 + d]);
        bool number = p.x.dims[2 + d] >= 0;
        p.around.high.v[2 + d] = number && high < 0 ? 0 : high;
    }
    return p;
}

/* Where kernel cell `tap` lies for all windows: a slice of the padded x. */
static mlsi_attr_slice tap_slice(pool_vjp *p, int64_t tap) {
    mlsi_attr_slice s;
    memset(&s, 0, sizeof s);
    s.starts.n = s.stops.n = s.steps.n = p->x.rank;
    for (int d = p->x.rank - 1; d >= 0; d--) {
        s.stops.v[d] = INT64_MAX;
        s.steps.v[d] = 1;
        if (d < 2) continue;
        int64_t cell = tap % p->at->kernel.v[d - 2];
        tap /= p->at->kernel.v[d - 2];
        s.starts.v[d] = cell * p->at->dilations.v[d - 2];
        s.steps.v[d] = p->at->strides.v[d - 2];
        s.stops.v[d] =
            mlsi_emit_dim(&p->e, s.starts.v[d] + 1 - s.steps.v[d], s.steps.v[d], p->y.dims[d]);
    }
    return s;
}

/* What each window passes to each of its cells (share of a tap, in y's shape) added up per cell of x. */
static int32_t add_taps(pool_vjp *p, int32_t padded, int64_t taps,
                        int32_t (*share)(pool_vjp *p, int64_t tap, void *user), void *user) {
    int32_t sum = -1;
    for (int64_t tap = 0; tap < taps && p->e.st == MLSYS_OK; tap++) {
        mlsi_attr_slice s = tap_slice(p, tap);
        bool wanted = true;
        int32_t part = -1, dout = share(p, tap, user);
        mlsi_vjp v = {.graph = p->e.g,
                      .func = p->e.func,
                      .attrs = &s,
                      .n_in = 1,
                      .n_out = 1,
                      .in = &padded,
                      .out = &dout,
                      .dout = &dout,
                      .wanted = &wanted,
                      .din = &part,
                      .alive = -1};
        if (p->e.st == MLSYS_OK) p->e.st = mlsi_vjp_slice(&v);
        sum = sum < 0 ? part : mlsi_emit_2(&p->e, MLSI_OP_ADD, sum, part);
    }
    mlsi_attr_pad crop = p->around;
    crop.value = 0;
    for (int64_t d = 0; d < crop.low.n; d++) {
        crop.low.v[d] = -crop.low.v[d];
        crop.high.v[d] = mlsi_emit_dim(&p->e, 0, -1, crop.high.v[d]);
    }
    return mlsi_emit_op(&p->e, MLSI_OP_PAD, &crop, 1, &sum);
}

bool mlsi_pool_side_by_side(const mlsi_attr_pool *at, int spatial) {
    for (int d = 0; d < spatial; d++)
        if (at->strides.v[d] != at->kernel.v[d] || at->dilations.v[d] != 1) return false;
    return mlsi_pool_cells(at) <= MLSI_MAX_OPERANDS && 2 + 2 * spatial <= MLSYS_MAX_DIMS;
}

/* What windows side by side pass to their cells is the result, put in order, [N, C, y, tap, y, tap, ...]. */

static int32_t stack_taps(pool_vjp *p, int64_t taps,
                          int32_t (*share)(pool_vjp *p, int64_t tap, void *user), void *user) {
    int32_t part[MLSI_MAX_OPERANDS];
    int64_t apart[MLSYS_MAX_DIMS], joined[MLSYS_MAX_DIMS];
    mlsi_attr_pad fit;
    memset(&fit, 0, sizeof fit);
    fit.low.n = fit.high.n = p->x.rank;
    apart[0] = joined[0] = p->y.dims[0], apart[1] = joined[1] = p->y.dims[1];
    for (int d = 0; d < p->spatial; d++) {
        apart[2 + 2 * d] = p->y.dims[2 + d], apart[3 + 2 * d] = 1;
        joined[2 + d] = mlsi_emit_dim(&p->e, 0, p->at->kernel.v[d], p->y.dims[2 + d]);
        int64_t padded = mlsi_emit_dim(&p->e, p->at->pads.v[d], 1, p->x.dims[2 + d]);
        fit.low.v[2 + d] = -p->at->pads.v[d];
        fit.high.v[2 + d] = mlsi_emit_dim(&p->e, padded, -1, joined[2 + d]);
    }
    for (int64_t tap = 0; tap < taps; tap++)
        part[tap] = mlsi_emit_reshape(&p->e, share(p, tap, user), 2 + 2 * p->spatial, apart);
    for (int d = p->spatial - 1; d >= 0; d--) {
        mlsi_attr_axis join = {.axis = 3 + 2 * d};
        int64_t k = p->at->kernel.v[d];
        taps /= k;
        for (int64_t i = 0; i < taps; i++)
            part[i] = mlsi_emit_op(&p->e, MLSI_OP_CONCAT, &join, (int32_t)k, part + i * k);
    }
    int32_t all = mlsi_emit_reshape(&p->e, part[0], p->x.rank, joined);
    return mlsi_emit_op(&p->e, MLSI_OP_PAD, &fit, 1, &all);
}

static int32_t gather_taps(pool_vjp *p, int32_t padded, int64_t taps,
                           int32_t (*share)(pool_vjp *p, int64_t tap, void *user), void *user) {
    return mlsi_pool_side_by_side(p->at, p->spatial) ? stack_taps(p, taps, share, user)
                                                     : add_taps(p, padded, taps, share, user);
}

static int32_t same_share(pool_vjp *p, int64_t tap, void *user) {
    (void)p, (void)tap;
    return *(int32_t *)user;
}

/* 1 / (what the average divides by), per window: the average of ones over the sum of ones. */
static int32_t weights(pool_vjp *p) {
    mlsi_attr_full one;
    mlsi_attr_pool sum = *p->at;
    memset(&one, 0, sizeof one);
    one.dtype = p->x.dtype;
    one.value = 1;
    one.shape.n = p->x.rank;
    for (int d = 0; d < p->x.rank; d++)
        one.shape.v[d] = d < 2 ? 1 : p->x.dims[d];
    int32_t ones = mlsi_emit_op(&p->e, MLSI_OP_FULL, &one, 0, NULL);
    int32_t average = mlsi_emit_op(&p->e, MLSI_OP_POOL, p->at, 1, &ones);
    sum.kind = MLSI_POOL_SUM;
    int32_t count = mlsi_emit_op(&p->e, MLSI_OP_POOL, &sum, 1, &ones);
    return mlsi_emit_2(&p->e, MLSI_OP_DIV, average, count);
}

/* Max: to the first cell of the window that holds it. */
typedef struct max_cells {
    int32_t padded, y, dy, taken, zero; /* taken: windows whose cell was found, -1 at first */
} max_cells;

static int32_t first_of_max(pool_vjp *p, int64_t tap, void *user) {
    max_cells *m = user;
    mlsi_attr_slice s = tap_slice(p, tap);
    int32_t cell = mlsi_emit_op(&p->e, MLSI_OP_SLICE, &s, 1, &m->padded);
    int32_t hit = mlsi_emit_2(&p->e, MLSI_OP_EQ, cell, m->y);
    if (m->taken >= 0) {
        int32_t open = mlsi_emit_1(&p->e, MLSI_OP_NOT, m->taken);
        hit = mlsi_emit_2(&p->e, MLSI_OP_AND, hit, open);
        m->taken = mlsi_emit_2(&p->e, MLSI_OP_OR, m->taken, hit);
    } else {
        m->taken = hit;
    }
    return mlsi_emit_select(&p->e, hit, m->dy, m->zero);
}

mlsys_status mlsi_decompose_pool_grad(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                      const int32_t *in, int32_t n_out, int32_t *out) {
    pool_vjp p = begin_pool(g, func, attrs, in[0], in[1]);
    int64_t taps = mlsi_pool_cells(p.at);
    (void)n_in, (void)n_out;
    p.around.value = p.at->kind == MLSI_POOL_MAX ? NAN : 0; /* equals no maximum */
    int32_t padded = mlsi_emit_op(&p.e, MLSI_OP_PAD, &p.around, 1, &in[0]);
    if (p.at->kind == MLSI_POOL_MAX) {
        max_cells m = {padded, in[1], in[2], -1, mlsi_emit_scalar(&p.e, p.x.dtype, 0)};
        out[0] = gather_taps(&p, padded, taps, first_of_max, &m);
    } else {
        int32_t share = in[2];
        if (p.at->kind == MLSI_POOL_AVERAGE)
            share = mlsi_emit_2(&p.e, MLSI_OP_MUL, share, weights(&p));
        out[0] = gather_taps(&p, padded, taps, same_share, &share);
    }
    return p.e.st;
}

mlsys_status mlsi_vjp_pool(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    const mlsi_attr_pool *at = v->attrs;
    int32_t in[3] = {v->in[0], v->out[0], v->dout[0]};
    MLSI_TRY(check_windows(&e, "pool", v->out[0], false));
    if (mlsi_pool_cells(at) > MLSI_POOL_GRAD_CELLS)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "pool: gradient of a window of more than %d cells",
                         MLSI_POOL_GRAD_CELLS);
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_POOL_GRAD, at, 3, in);
    return e.st;
}
