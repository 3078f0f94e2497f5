/* Gradient rules of row composites. Sums along rows are taken in the compute type, and narrow results are
 * rounded once, as in the forward ops. */
#include "core/faults.h"
#include "ir/ops/gradient.h"

#include <math.h>
#include <string.h>

static int32_t row_sum(mlsi_emit *e, int32_t x, int first, int rank) {
    return mlsi_emit_reduce(e, MLSI_OP_REDUCE_SUM, x, first, rank);
}
static int32_t row_mean(mlsi_emit *e, int32_t x, int first, int rank) {
    int32_t sum = row_sum(e, x, first, rank);
    return mlsi_emit_2(e, MLSI_OP_DIV, sum, mlsi_emit_count(e, x, first, rank));
}
static int32_t mul(mlsi_emit *e, int32_t a, int32_t b) { return mlsi_emit_2(e, MLSI_OP_MUL, a, b); }
static int32_t sub(mlsi_emit *e, int32_t a, int32_t b) { return mlsi_emit_2(e, MLSI_OP_SUB, a, b); }

/* ---- softmax and its kin ------------------------------------------------------------------- */

/* dx = y * (dy - sum(dy * y)): rows of zeros (masked_zero) give zeros. */
mlsys_status mlsi_vjp_softmax(mlsi_vjp *v) {
    int axis = (int)((const mlsi_attr_softmax *)v->attrs)->axis;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsys_dtype t = mlsi_emit_type(&e, v->in[0])->dtype;
    int32_t y = mlsi_emit_widen(&e, v->out[0]), dy = mlsi_emit_widen(&e, v->dout[0]);
    int32_t mean = row_sum(&e, mul(&e, dy, y), axis, axis + 1);
    v->din[0] = mlsi_emit_cast(&e, mul(&e, y, sub(&e, dy, mean)), t);
    return e.st;
}

/* dx = dy - exp(y) * sum(dy) */
mlsys_status mlsi_vjp_log_softmax(mlsi_vjp *v) {
    int axis = (int)((const mlsi_attr_axis *)v->attrs)->axis;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsys_dtype t = mlsi_emit_type(&e, v->in[0])->dtype;
    int32_t y = mlsi_emit_widen(&e, v->out[0]), dy = mlsi_emit_widen(&e, v->dout[0]);
    int32_t sum = row_sum(&e, dy, axis, axis + 1), p = mlsi_emit_1(&e, MLSI_OP_EXP, y);
    v->din[0] = mlsi_emit_cast(&e, sub(&e, dy, mul(&e, p, sum)), t);
    return e.st;
}

/* exp(x - y), 0 for a row that is -inf altogether. */
static int32_t shares(mlsi_emit *e, int32_t x, int32_t y) {
    int32_t low = mlsi_emit_float(e, -INFINITY), zero = mlsi_emit_float(e, 0);
    int32_t empty = mlsi_emit_2(e, MLSI_OP_EQ, y, low);
    int32_t safe = mlsi_emit_select(e, empty, zero, y);
    return mlsi_emit_1(e, MLSI_OP_EXP, sub(e, x, safe));
}

mlsys_status mlsi_vjp_logsumexp(mlsi_vjp *v) {
    int axis = (int)((const mlsi_attr_arg *)v->attrs)->axis;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_type t = *mlsi_emit_type(&e, v->in[0]);
    int32_t x = mlsi_emit_widen(&e, v->in[0]), y = mlsi_emit_widen(&e, v->out[0]);
    int32_t dy = mlsi_emit_widen(&e, v->dout[0]);
    mlsi_type row = t;
    row.dims[axis] = 1;
    y = mlsi_emit_reshape(&e, y, row.rank, row.dims);
    dy = mlsi_emit_reshape(&e, dy, row.rank, row.dims);
    v->din[0] = mlsi_emit_cast(&e, mul(&e, shares(&e, x, y), dy), t.dtype);
    return e.st;
}

/* dlogits = dy * (softmax - one at the target), 0 in ignored rows. */
mlsys_status mlsi_vjp_cross_entropy(mlsi_vjp *v) {
    const mlsi_attr_cross_entropy *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_type t = *mlsi_emit_type(&e, v->in[0]), row = t;
    mlsi_attr_iota classes;
    mlsi_attr_arg lse_attrs = {.axis = t.rank - 1, .keep = 1};
    row.dims[t.rank - 1] = 1;
    int32_t x = mlsi_emit_widen(&e, v->in[0]);
    int32_t lse = mlsi_emit_op(&e, MLSI_OP_LOGSUMEXP, &lse_attrs, 1, &x), p = shares(&e, x, lse);
    int32_t target = mlsi_emit_reshape(&e, v->in[1], row.rank, row.dims);
    mlsys_dtype id = mlsi_emit_type(&e, v->in[1])->dtype;
    memset(&classes, 0, sizeof classes);
    classes.dtype = id;
    classes.shape.n = 1;
    classes.shape.v[0] = t.dims[t.rank - 1];
    int32_t hit =
        mlsi_emit_2(&e, MLSI_OP_EQ, mlsi_emit_op(&e, MLSI_OP_IOTA, &classes, 0, NULL), target);
    int32_t one = mlsi_emit_float(&e, 1), zero = mlsi_emit_float(&e, 0);
    int32_t slope = mlsi_emit_select(&e, hit, sub(&e, p, one), p);
    int32_t dy = mlsi_emit_widen(&e, v->dout[0]);
    dy = mlsi_emit_reshape(&e, dy, row.rank, row.dims);
    int32_t ignored = mlsi_emit_2(&e, MLSI_OP_EQ, target, mlsi_emit_int(&e, id, at->ignore_index));
    int32_t dx = mlsi_emit_select(&e, ignored, zero, mul(&e, slope, dy));
    v->din[0] = mlsi_emit_cast(&e, dx, t.dtype);
    return e.st;
}

/* ---- norms --------------------------------------------------------------------------------- */

typedef struct norm_vjp {
    mlsi_vjp *v;
    mlsi_emit e;
    int axis, rank;
    mlsys_dtype dtype;
    int32_t d, r, unit, dy; /* the centred row, 1 / its deviation, d * r, dy: in the compute type */
} norm_vjp;

static norm_vjp begin_norm(mlsi_vjp *v, bool centred) {
    const mlsi_attr_norm *at = v->attrs;
    norm_vjp n = {.v = v, .e = mlsi_vjp_begin(v), .axis = (int)at->axis};
    const mlsi_type *t = mlsi_emit_type(&n.e, v->in[0]);
    n.rank = t->rank;
    n.dtype = t->dtype;
    n.d = mlsi_emit_widen(&n.e, v->in[0]);
    if (centred) n.d = sub(&n.e, n.d, row_mean(&n.e, n.d, n.axis, n.rank));
    int32_t square = row_mean(&n.e, mul(&n.e, n.d, n.d), n.axis, n.rank);
    int32_t eps = mlsi_emit_float(&n.e, at->eps);
    n.r = mlsi_emit_1(&n.e, MLSI_OP_RSQRT, mlsi_emit_2(&n.e, MLSI_OP_ADD, square, eps));
    n.unit = mul(&n.e, n.d, n.r);
    n.dy = mlsi_emit_widen(&n.e, v->dout[0]);
    return n;
}

static void give_parameter(norm_vjp *n, int i, int32_t adjoint) {
    if (n->v->n_in <= i || n->v->in[i] < 0 || !n->v->wanted[i] || n->e.st != MLSYS_OK) return;
    mlsys_dtype t = mlsi_emit_type(&n->e, n->v->in[i])->dtype;
    int32_t sum = mlsi_emit_unbroadcast(&n->e, adjoint, n->v->in[i]);
    n->v->din[i] = mlsi_emit_cast(&n->e, sum, t);
}

/* With u = d * r and g = dy * gamma: dx = r * (g - mean(g) - u * mean(g * u)); without the centring, no
 * mean(g). */
static mlsys_status finish_norm(norm_vjp *n, bool centred) {
    mlsi_vjp *v = n->v;
    mlsi_emit *e = &n->e;
    bool scaled = v->n_in > 1 && v->in[1] >= 0;
    if (scaled && v->wanted[1]) give_parameter(n, 1, mul(e, n->dy, n->unit));
    give_parameter(n, 2, n->dy);
    if (!v->wanted[0]) return e->st;
    int32_t g = scaled ? mul(e, n->dy, mlsi_emit_widen(e, v->in[1])) : n->dy;
    int32_t along = row_mean(e, mul(e, g, n->unit), n->axis, n->rank);
    int32_t rest = centred && !mlsi_fault(MLSI_FAULT_ADJOINT_TERM)
                       ? sub(e, g, row_mean(e, g, n->axis, n->rank))
                       : g;
    int32_t dx = mul(e, n->r, sub(e, rest, mul(e, n->unit, along)));
    v->din[0] = mlsi_emit_cast(e, dx, n->dtype);
    return e->st;
}

mlsys_status mlsi_vjp_layer_norm(mlsi_vjp *v) {
    norm_vjp n = begin_norm(v, true);
    return finish_norm(&n, true);
}

mlsys_status mlsi_vjp_rms_norm(mlsi_vjp *v) {
    norm_vjp n = begin_norm(v, false);
    return finish_norm(&n, false);
}

/* ---- rotary embedding ---------------------------------------------------------------------- */

/* A rotation's transpose is the rotation by the opposite angle. */
mlsys_status mlsi_vjp_rope(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    if (v->wanted[2]) return v->through_decomposition = true, MLSYS_OK;
    int32_t in[3] = {v->dout[0], v->in[1], mlsi_emit_1(&e, MLSI_OP_NEG, v->in[2])};
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_ROPE, v->attrs, 3, in);
    return e.st;
}
