/* Gradient rules of ops that address rows by index. */
#include "ir/ops/gradient.h"

#include <string.h>

static int32_t scatter(mlsi_emit *e, int64_t kind, int64_t axis, int32_t x, int32_t indices,
                       int32_t updates) {
    mlsi_attr_scatter at;
    int32_t in[3] = {x, indices, updates};
    memset(&at, 0, sizeof at);
    at.axis = axis;
    at.kind = kind;
    return mlsi_emit_op(e, MLSI_OP_SCATTER, &at, 3, in);
}

static int32_t gather(mlsi_emit *e, int64_t axis, int32_t x, int32_t indices) {
    mlsi_attr_axis at = {.axis = axis};
    int32_t in[2] = {x, indices};
    return mlsi_emit_op(e, MLSI_OP_GATHER, &at, 2, in);
}

mlsys_status mlsi_vjp_gather(mlsi_vjp *v) {
    const mlsi_attr_axis *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    int32_t zero = mlsi_emit_zeros_like(&e, v->in[0]);
    v->din[0] = scatter(&e, MLSI_SCATTER_ADD, at->axis, zero, v->in[1], v->dout[0]);
    return e.st;
}

mlsys_status mlsi_vjp_embedding(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsys_dtype t = mlsi_emit_type(&e, v->in[0])->dtype;
    int32_t dy = mlsi_emit_cast(&e, v->dout[0], t), zero = mlsi_emit_zeros_like(&e, v->in[0]);
    v->din[0] = scatter(&e, MLSI_SCATTER_ADD, 0, zero, v->in[1], dy);
    return e.st;
}

/* ---- scatter ------------------------------------------------------------------------------- */

/* Which updates were written last to their row: bool, 1 axis per axis of indices, then [1, ...] to broadcast
 * against updates. */
static int32_t last_writers(mlsi_emit *e, const mlsi_vjp *v, int64_t axis) {
    mlsi_attr_iota iota;
    mlsi_attr_full none;
    if (e->st != MLSYS_OK) return 0;
    mlsi_type ids = *mlsi_emit_type(e, v->in[1]), x = *mlsi_emit_type(e, v->in[0]);
    int64_t count = 1, dims[MLSYS_MAX_DIMS];
    for (int d = 0; d < ids.rank && e->st == MLSYS_OK; d++)
        e->st = mlsi_dim_op(&e->g->symbols, '*', count, ids.dims[d], &count);
    memset(&iota, 0, sizeof iota);
    iota.dtype = MLSYS_I64;
    iota.shape.n = 1;
    iota.shape.v[0] = count;
    int32_t number = mlsi_emit_op(e, MLSI_OP_IOTA, &iota, 0, NULL);
    number = mlsi_emit_reshape(e, number, ids.rank, ids.dims);
    memset(&none, 0, sizeof none);
    none.dtype = MLSYS_I64;
    none.ivalue = -1;
    none.shape.n = 1;
    none.shape.v[0] = x.dims[axis];
    int32_t nobody = mlsi_emit_op(e, MLSI_OP_FULL, &none, 0, NULL);
    int32_t writer = scatter(e, MLSI_SCATTER_SET, 0, nobody, v->in[1], number);
    int32_t last = mlsi_emit_2(e, MLSI_OP_EQ, gather(e, 0, writer, v->in[1]), number);
    int rank = 0;
    for (int d = 0; d < ids.rank; d++)
        dims[rank++] = ids.dims[d];
    for (int d = (int)axis + 1; d < x.rank; d++)
        dims[rank++] = 1;
    return mlsi_emit_reshape(e, last, rank, dims);
}

/* set: rows that were written over pass nothing back; of several updates of a row the last one counts. */
static void vjp_set(mlsi_emit *e, mlsi_vjp *v, int64_t axis) {
    if (v->wanted[0]) {
        int32_t zero = mlsi_emit_zeros_like(e, v->in[2]);
        v->din[0] = scatter(e, MLSI_SCATTER_SET, axis, v->dout[0], v->in[1], zero);
    }
    if (!v->wanted[2]) return;
    int32_t du = gather(e, axis, v->dout[0], v->in[1]), last = last_writers(e, v, axis);
    mlsys_dtype t = e->st == MLSYS_OK ? mlsi_emit_type(e, du)->dtype : MLSYS_F32;
    int32_t zero = mlsi_emit_scalar(e, t, 0);
    v->din[2] = mlsi_emit_select(e, last, du, zero);
}

/* max, min: shared equally by x and the updates that are the result. */
static void vjp_extreme(mlsi_emit *e, mlsi_vjp *v, int64_t axis) {
    int32_t x = v->in[0], y = v->out[0], ids = v->in[1], u = v->in[2];
    mlsys_dtype t = e->st == MLSYS_OK ? mlsi_emit_type(e, x)->dtype : MLSYS_F32;
    int32_t own = mlsi_emit_2(e, MLSI_OP_EQ, x, y);
    int32_t theirs = mlsi_emit_2(e, MLSI_OP_EQ, u, gather(e, axis, y, ids));
    int32_t mine = mlsi_emit_cast(e, own, MLSYS_I64), hits = mlsi_emit_cast(e, theirs, MLSYS_I64);
    int32_t n = mlsi_emit_cast(e, scatter(e, MLSI_SCATTER_ADD, axis, mine, ids, hits), t);
    int32_t share = mlsi_emit_2(e, MLSI_OP_DIV, v->dout[0], n), zero = mlsi_emit_scalar(e, t, 0);
    if (v->wanted[0]) v->din[0] = mlsi_emit_select(e, own, share, zero);
    if (v->wanted[2]) v->din[2] = mlsi_emit_select(e, theirs, gather(e, axis, share, ids), zero);
}

/* mul: y = x * (product of the cell's updates). An update's factor is the product of the others: that of those
 * which are not 0, divided by its own; 0 where another one is 0. */
static void vjp_product(mlsi_emit *e, mlsi_vjp *v, int64_t axis) {
    int32_t x = v->in[0], ids = v->in[1], u = v->in[2];
    if (e->st != MLSYS_OK) return;
    mlsys_dtype t = mlsi_emit_type(e, x)->dtype;
    int32_t one = mlsi_emit_scalar(e, t, 1), zero = mlsi_emit_scalar(e, t, 0);
    int32_t ones = mlsi_emit_2(e, MLSI_OP_ADD, mlsi_emit_zeros_like(e, x), one);
    if (v->wanted[0]) {
        int32_t factor = scatter(e, MLSI_SCATTER_MUL, axis, ones, ids, u);
        v->din[0] = mlsi_emit_2(e, MLSI_OP_MUL, v->dout[0], factor);
    }
    if (!v->wanted[2]) return;
    int32_t is_zero = mlsi_emit_2(e, MLSI_OP_EQ, u, zero);
    int32_t divisor = mlsi_emit_select(e, is_zero, one, u);
    int32_t product = scatter(e, MLSI_SCATTER_MUL, axis, ones, ids, divisor);
    int32_t none = mlsi_emit_cast(e, mlsi_emit_zeros_like(e, x), MLSYS_I64);
    int32_t own = mlsi_emit_cast(e, is_zero, MLSYS_I64);
    int32_t zeros = gather(e, axis, scatter(e, MLSI_SCATTER_ADD, axis, none, ids, own), ids);
    int32_t others = mlsi_emit_2(e, MLSI_OP_DIV, gather(e, axis, product, ids), divisor);
    others = mlsi_emit_select(e, mlsi_emit_2(e, MLSI_OP_EQ, zeros, own), others, zero);
    int32_t outer = gather(e, axis, mlsi_emit_2(e, MLSI_OP_MUL, v->dout[0], x), ids);
    v->din[2] = mlsi_emit_2(e, MLSI_OP_MUL, outer, others);
}

mlsys_status mlsi_vjp_scatter(mlsi_vjp *v) {
    const mlsi_attr_scatter *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    switch (at->kind) {
    case MLSI_SCATTER_SET: vjp_set(&e, v, at->axis); break;
    case MLSI_SCATTER_ADD:
        if (v->wanted[0]) v->din[0] = v->dout[0];
        if (v->wanted[2]) v->din[2] = gather(&e, at->axis, v->dout[0], v->in[1]);
        break;
    case MLSI_SCATTER_MUL: vjp_product(&e, v, at->axis); break;
    default: vjp_extreme(&e, v, at->axis); break;
    }
    return e.st;
}
