/* Gradient rules of reductions and scans. */
#include "ir/ops/gradient.h"
#include "ir/ops/reduce.h"

#include <string.h>

/* What a reduction gave, or its adjoint, in the shape of x with extent 1 on the reduced axes. */
static int32_t kept(mlsi_emit *e, int32_t y, int32_t x, const mlsi_list *axes) {
    mlsi_type t;
    if (e->st != MLSYS_OK) return y;
    mlsi_reduced_type(mlsi_emit_type(e, x), axes, true, &t);
    return mlsi_emit_reshape(e, y, t.rank, t.dims);
}

static int32_t like(mlsi_emit *e, int32_t y, int32_t x) {
    if (e->st != MLSYS_OK) return y;
    mlsi_type t = *mlsi_emit_type(e, x);
    return mlsi_emit_broadcast(e, y, t.rank, t.dims);
}

mlsys_status mlsi_vjp_reduce_sum(mlsi_vjp *v) {
    const mlsi_attr_reduce *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    v->din[0] = like(&e, kept(&e, v->dout[0], v->in[0], &at->axes), v->in[0]);
    return e.st;
}

mlsys_status mlsi_vjp_batch_sum(mlsi_vjp *v) {
    const mlsi_attr_batch_sum *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    int32_t x = v->in[0];
    if (v->wanted[0]) {
        int32_t dx = like(&e, kept(&e, v->dout[0], x, &at->axes), x);
        v->din[0] = mlsi_emit_cast(&e, dx, mlsi_emit_type(&e, x)->dtype);
    }
    if (v->n_in > 1 && v->wanted[1]) v->din[1] = v->dout[0];
    return e.st;
}

/* dy over the number of elements, as a float of the compute type, like the mean itself. */
mlsys_status mlsi_vjp_reduce_mean(mlsi_vjp *v) {
    const mlsi_attr_reduce *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_full ones;
    mlsi_attr_reduce all;
    mlsi_type t = *mlsi_emit_type(&e, v->in[0]);
    memset(&ones, 0, sizeof ones);
    memset(&all, 0, sizeof all);
    ones.dtype = MLSYS_I64;
    ones.ivalue = 1;
    for (int64_t i = 0; i < at->axes.n; i++)
        ones.shape.v[ones.shape.n++] = t.dims[at->axes.v[i]];
    int32_t one = mlsi_emit_op(&e, MLSI_OP_FULL, &ones, 0, NULL);
    int32_t sum = mlsi_emit_op(&e, MLSI_OP_REDUCE_SUM, &all, 1, &one);
    int32_t count = mlsi_emit_cast(&e, sum, e.compute), dy = mlsi_emit_widen(&e, v->dout[0]);
    int32_t share = mlsi_emit_cast(&e, mlsi_emit_2(&e, MLSI_OP_DIV, dy, count), t.dtype);
    v->din[0] = like(&e, kept(&e, share, v->in[0], &at->axes), v->in[0]);
    return e.st;
}

/* Shared equally by the elements that are the extreme. */
static mlsys_status vjp_extreme(mlsi_vjp *v) {
    const mlsi_attr_reduce *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_reduce keep = *at;
    int32_t x = v->in[0], y = kept(&e, v->out[0], x, &at->axes);
    int32_t dy = kept(&e, v->dout[0], x, &at->axes);
    mlsys_dtype t = mlsi_emit_type(&e, x)->dtype;
    int32_t equal = mlsi_emit_2(&e, MLSI_OP_EQ, x, y);
    int32_t ones = mlsi_emit_cast(&e, equal, MLSYS_I64);
    keep.keep = 1;
    int32_t count = mlsi_emit_op(&e, MLSI_OP_REDUCE_SUM, &keep, 1, &ones);
    int32_t n = mlsi_emit_cast(&e, count, e.compute), wide = mlsi_emit_widen(&e, dy);
    int32_t share = mlsi_emit_cast(&e, mlsi_emit_2(&e, MLSI_OP_DIV, wide, n), t);
    int32_t zero = mlsi_emit_scalar(&e, t, 0);
    v->din[0] = mlsi_emit_select(&e, equal, share, zero);
    return e.st;
}
mlsys_status mlsi_vjp_reduce_max(mlsi_vjp *v) { return vjp_extreme(v); }
mlsys_status mlsi_vjp_reduce_min(mlsi_vjp *v) { return vjp_extreme(v); }

/* ---- products ------------------------------------------------------------------------------ */

static int32_t scan(mlsi_emit *e, int64_t kind, int axis, bool exclusive, bool reverse, int32_t x) {
    mlsi_attr_scan at;
    memset(&at, 0, sizeof at);
    at.kind = kind;
    at.axis = axis;
    at.exclusive = exclusive;
    at.reverse = reverse;
    return mlsi_emit_op(e, MLSI_OP_SCAN, &at, 1, &x);
}

/* x with the reduced axes last, as one axis; *moved: its shape before they became one. */
static int32_t rows_of(mlsi_emit *e, int32_t x, const mlsi_list *axes, mlsi_attr_transpose *perm,
                       mlsi_type *moved) {
    if (e->st != MLSYS_OK) return x;
    mlsi_type t = *mlsi_emit_type(e, x);
    int64_t row = 1, dims[MLSYS_MAX_DIMS];
    memset(perm, 0, sizeof *perm);
    for (int want = 0; want < 2; want++)
        for (int d = 0; d < t.rank; d++) {
            bool reduced = false;
            for (int64_t i = 0; i < axes->n; i++)
                reduced = reduced || axes->v[i] == d;
            if (reduced == want) perm->perm.v[perm->perm.n++] = d;
        }
    x = mlsi_emit_op(e, MLSI_OP_TRANSPOSE, perm, 1, &x);
    if (e->st != MLSYS_OK) return x;
    *moved = *mlsi_emit_type(e, x);
    int kept_rank = t.rank - (int)axes->n;
    for (int d = kept_rank; d < t.rank && e->st == MLSYS_OK; d++)
        e->st = mlsi_dim_op(&e->g->symbols, '*', row, moved->dims[d], &row);
    memcpy(dims, moved->dims, sizeof dims);
    if (kept_rank == MLSYS_MAX_DIMS) return x; /* nothing is reduced */
    dims[kept_rank] = row;
    return mlsi_emit_reshape(e, x, kept_rank + 1, dims);
}

/* The product of all others, from the product before an element and the one behind it: no division, so
 * zeros need no case of their own. */
mlsys_status mlsi_vjp_reduce_prod(mlsi_vjp *v) {
    const mlsi_attr_reduce *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_transpose perm, inverse;
    mlsi_type moved;
    int32_t x = v->in[0];
    if (!at->axes.n) return v->din[0] = v->dout[0], MLSYS_OK; /* of a scalar */
    int32_t rows = rows_of(&e, x, &at->axes, &perm, &moved);
    if (e.st != MLSYS_OK) return e.st;
    int axis = mlsi_emit_type(&e, rows)->rank - 1;
    int32_t before = scan(&e, MLSI_SCAN_PROD, axis, true, false, rows);
    int32_t behind = scan(&e, MLSI_SCAN_PROD, axis, true, true, rows);
    int32_t others = mlsi_emit_2(&e, MLSI_OP_MUL, before, behind);
    others = mlsi_emit_reshape(&e, others, moved.rank, moved.dims);
    memset(&inverse, 0, sizeof inverse);
    inverse.perm.n = perm.perm.n;
    for (int64_t i = 0; i < perm.perm.n; i++)
        inverse.perm.v[perm.perm.v[i]] = i;
    others = mlsi_emit_op(&e, MLSI_OP_TRANSPOSE, &inverse, 1, &others);
    int32_t dy = kept(&e, v->dout[0], x, &at->axes);
    v->din[0] = mlsi_emit_2(&e, MLSI_OP_MUL, others, dy);
    return e.st;
}

/* ---- scans --------------------------------------------------------------------------------- */

/* iota over `axis` in the shape [1.., n, ..1] of x's rank. */
static int32_t positions(mlsi_emit *e, int32_t x, int axis) {
    if (e->st != MLSYS_OK) return x;
    const mlsi_type *t = mlsi_emit_type(e, x);
    return mlsi_emit_positions(e, t->rank, axis, t->dims[axis]);
}

static int32_t integer(mlsi_emit *e, int64_t value) { return mlsi_emit_int(e, MLSYS_I64, value); }

/* Adjoints to the positions that `from` names along axis (i64, -1 = none), summed: x's type. The scatter
 * works along one axis for all rows, so rows and axis become one. */
static int32_t collect(mlsi_emit *e, int32_t x, int axis, int32_t from, int32_t dy) {
    mlsi_attr_iota number;
    mlsi_attr_scatter add;
    if (e->st != MLSYS_OK) return x;
    mlsi_type t = *mlsi_emit_type(e, x);
    int64_t total = 1;
    for (int d = 0; d < t.rank && e->st == MLSYS_OK; d++)
        e->st = mlsi_dim_op(&e->g->symbols, '*', total, t.dims[d], &total);
    memset(&number, 0, sizeof number);
    number.dtype = MLSYS_I64;
    number.shape.n = 1;
    number.shape.v[0] = total;
    /* element number + (from - own position) * elements below the axis */
    int32_t own =
        mlsi_emit_reshape(e, mlsi_emit_op(e, MLSI_OP_IOTA, &number, 0, NULL), t.rank, t.dims);
    int32_t nobody = mlsi_emit_2(e, MLSI_OP_LT, from, integer(e, 0));
    int32_t at = positions(e, x, axis), safe = mlsi_emit_select(e, nobody, at, from);
    int32_t steps = mlsi_emit_2(e, MLSI_OP_SUB, safe, at);
    int32_t stride = mlsi_emit_count_int(e, x, axis + 1, t.rank);
    int32_t index = mlsi_emit_2(e, MLSI_OP_ADD, own, mlsi_emit_2(e, MLSI_OP_MUL, steps, stride));
    int32_t zero = mlsi_emit_scalar(e, t.dtype, 0);
    int32_t kept_dy = mlsi_emit_select(e, nobody, zero, dy);
    memset(&add, 0, sizeof add);
    add.kind = MLSI_SCATTER_ADD;
    int32_t in[3];
    in[0] = mlsi_emit_reshape(e, mlsi_emit_zeros_like(e, x), 1, &total);
    in[1] = mlsi_emit_reshape(e, index, 1, &total);
    in[2] = mlsi_emit_reshape(e, kept_dy, 1, &total);
    int32_t flat = mlsi_emit_op(e, MLSI_OP_SCATTER, &add, 3, in);
    return mlsi_emit_reshape(e, flat, t.rank, t.dims);
}

/* To the element that set the running extreme, the latest one of equals. */
static int32_t vjp_scan_extreme(mlsi_emit *e, const mlsi_attr_scan *at, int32_t x, int32_t dy) {
    int axis = (int)at->axis;
    int32_t inclusive = scan(e, at->kind, axis, false, at->reverse != 0, x);
    int32_t record = mlsi_emit_2(e, MLSI_OP_EQ, x, inclusive), at_self = positions(e, x, axis);
    /* Walking forward the latest record is the largest position; backward the smallest, so positions count
     * down there. */
    int32_t n = mlsi_emit_count_int(e, x, axis, axis + 1), one = integer(e, 1),
            none = integer(e, -1);
    int32_t last = mlsi_emit_2(e, MLSI_OP_SUB, n, one);
    int32_t down = mlsi_emit_2(e, MLSI_OP_SUB, last, at_self);
    int32_t step = at->reverse ? down : at_self;
    int32_t marks = mlsi_emit_select(e, record, step, none);
    int32_t latest = scan(e, MLSI_SCAN_MAX, axis, at->exclusive != 0, at->reverse != 0, marks);
    int32_t from = latest;
    if (at->reverse) {
        int32_t missing = mlsi_emit_2(e, MLSI_OP_LT, latest, integer(e, 0));
        from = mlsi_emit_select(e, missing, none, mlsi_emit_2(e, MLSI_OP_SUB, last, latest));
    }
    return collect(e, x, axis, from, dy);
}

/* y_j = prod of x_k before or at j: dx_i = sum over j of dy_j * (product of the others up to j), with the
 * products in an n x n square per row: no division, so zeros are no special case. */
static int32_t vjp_scan_product(mlsi_emit *e, const mlsi_attr_scan *at, int32_t x, int32_t dy) {
    mlsi_attr_reduce sum;
    int axis = (int)at->axis;
    if (e->st != MLSYS_OK) return x;
    mlsi_type t = *mlsi_emit_type(e, x);
    if (t.rank == MLSYS_MAX_DIMS) {
        e->st = mlsi_fail(MLSYS_E_UNSUPPORTED, "scan: gradient of a product of rank %d", t.rank);
        return x;
    }
    /* square[.., i, j, ..]: x_j, but 1 where j = i; scanned along j; kept where i is in y_j's product */
    mlsi_type row = t, square = t;
    row.rank = square.rank = t.rank + 1;
    for (int d = t.rank; d > axis; d--)
        row.dims[d] = square.dims[d] = t.dims[d - 1];
    row.dims[axis] = 1;
    square.dims[axis] = square.dims[axis + 1] = t.dims[axis];
    int32_t wide = mlsi_emit_broadcast(e, mlsi_emit_reshape(e, x, row.rank, row.dims), square.rank,
                                       square.dims);
    int32_t i = positions(e, wide, axis), j = positions(e, wide, axis + 1);
    int32_t self = mlsi_emit_2(e, MLSI_OP_EQ, i, j), one = mlsi_emit_scalar(e, t.dtype, 1);
    int32_t others = scan(e, MLSI_SCAN_PROD, axis + 1, at->exclusive != 0, at->reverse != 0,
                          mlsi_emit_select(e, self, one, wide));
    mlsi_op inside = at->exclusive ? (at->reverse ? MLSI_OP_GT : MLSI_OP_LT)
                                   : (at->reverse ? MLSI_OP_GE : MLSI_OP_LE);
    int32_t dy_row = mlsi_emit_reshape(e, dy, row.rank, row.dims);
    int32_t terms = mlsi_emit_2(e, MLSI_OP_MUL, others, dy_row);
    int32_t part = mlsi_emit_2(e, inside, i, j), zero = mlsi_emit_scalar(e, t.dtype, 0);
    terms = mlsi_emit_select(e, part, terms, zero);
    memset(&sum, 0, sizeof sum);
    sum.axes.n = 1;
    sum.axes.v[0] = axis + 1;
    return mlsi_emit_op(e, MLSI_OP_REDUCE_SUM, &sum, 1, &terms);
}

/* ---- order --------------------------------------------------------------------------------- */

/* y as long as x along axis, filled up with one value. */
static int32_t fill_up(mlsi_emit *e, int32_t y, int32_t x, int axis, int64_t ivalue) {
    mlsi_attr_full rest;
    mlsi_attr_axis join = {.axis = axis};
    if (e->st != MLSYS_OK) return y;
    mlsi_type t = *mlsi_emit_type(e, y);
    int64_t whole = mlsi_emit_type(e, x)->dims[axis];
    if (t.dims[axis] == whole) return y;
    memset(&rest, 0, sizeof rest);
    rest.dtype = t.dtype;
    rest.ivalue = ivalue;
    rest.shape.n = t.rank;
    memcpy(rest.shape.v, t.dims, sizeof *t.dims * (size_t)t.rank);
    e->st = mlsi_dim_op(&e->g->symbols, '-', whole, t.dims[axis], &rest.shape.v[axis]);
    int32_t in[2] = {y, mlsi_emit_op(e, MLSI_OP_FULL, &rest, 0, NULL)};
    return mlsi_emit_op(e, MLSI_OP_CONCAT, &join, 2, in);
}

/* Back to the positions that the elements came from. */
static mlsys_status vjp_order(mlsi_vjp *v, mlsi_op op, int axis) {
    mlsi_emit e = mlsi_vjp_begin(v);
    int32_t out[2];
    mlsi_emit_many(&e, op, v->attrs, 1, v->in, 2, out);
    int32_t from = fill_up(&e, out[1], v->in[0], axis, -1);
    int32_t dy = fill_up(&e, v->dout[0], v->in[0], axis, 0);
    v->din[0] = collect(&e, v->in[0], axis, from, dy);
    return e.st;
}
mlsys_status mlsi_vjp_sort(mlsi_vjp *v) {
    return vjp_order(v, MLSI_OP_SORT, (int)((const mlsi_attr_sort *)v->attrs)->axis);
}
mlsys_status mlsi_vjp_topk(mlsi_vjp *v) {
    return vjp_order(v, MLSI_OP_TOPK, (int)((const mlsi_attr_topk *)v->attrs)->axis);
}

mlsys_status mlsi_vjp_scan(mlsi_vjp *v) {
    const mlsi_attr_scan *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    if (at->kind == MLSI_SCAN_SUM)
        v->din[0] =
            scan(&e, MLSI_SCAN_SUM, (int)at->axis, at->exclusive != 0, !at->reverse, v->dout[0]);
    else if (at->kind == MLSI_SCAN_PROD)
        v->din[0] = vjp_scan_product(&e, at, v->in[0], v->dout[0]);
    else
        v->din[0] = vjp_scan_extreme(&e, at, v->in[0], v->dout[0]);
    return e.st;
}
