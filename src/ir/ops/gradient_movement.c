/* Gradient rules of data movement: every element goes back where it came from; what nobody reads gets 0. */
#include "core/layout.h"
#include "ir/ops/gradient.h"

#include <string.h>

mlsys_status mlsi_vjp_reshape(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_type t = *mlsi_emit_type(&e, v->in[0]);
    v->din[0] = mlsi_emit_reshape(&e, v->dout[0], t.rank, t.dims);
    return e.st;
}

mlsys_status mlsi_vjp_broadcast(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    v->din[0] = mlsi_emit_unbroadcast(&e, v->dout[0], v->in[0]);
    return e.st;
}

mlsys_status mlsi_vjp_transpose(mlsi_vjp *v) {
    const mlsi_attr_transpose *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_transpose inverse;
    memset(&inverse, 0, sizeof inverse);
    inverse.perm.n = at->perm.n;
    for (int64_t i = 0; i < at->perm.n; i++)
        inverse.perm.v[at->perm.v[i]] = i;
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_TRANSPOSE, &inverse, 1, v->dout);
    return e.st;
}

mlsys_status mlsi_vjp_reverse(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_REVERSE, v->attrs, 1, v->dout);
    return e.st;
}

/* The opposite padding: cells that were added go, cells that were cropped come back as 0. */
mlsys_status mlsi_vjp_pad(mlsi_vjp *v) {
    const mlsi_attr_pad *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_pad opposite = *at;
    opposite.value = 0;
    for (int64_t i = 0; i < at->low.n; i++) {
        opposite.low.v[i] = mlsi_emit_dim(&e, 0, -1, at->low.v[i]);
        opposite.high.v[i] = mlsi_emit_dim(&e, 0, -1, at->high.v[i]);
    }
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_PAD, &opposite, 1, v->dout);
    return e.st;
}

mlsys_status mlsi_vjp_concat(mlsi_vjp *v) {
    int axis = (int)((const mlsi_attr_axis *)v->attrs)->axis;
    mlsi_emit e = mlsi_vjp_begin(v);
    int64_t start = 0, stop;
    for (int i = 0; i < v->n_in; i++, start = stop) {
        int64_t extent = mlsi_emit_type(&e, v->in[i])->dims[axis];
        MLSI_TRY(mlsi_dim_op(&v->graph->symbols, '+', start, extent, &stop));
        if (v->wanted[i]) v->din[i] = mlsi_emit_slice(&e, v->dout[0], axis, start, stop);
    }
    return e.st;
}

/* ---- slice --------------------------------------------------------------------------------- */

/* Elements of axis d of dy to where axis d of the slice took them from: the same slice of 0, 1, 2, ... says
 * where, whatever its bounds and step. */
static int32_t spread_axis(mlsi_emit *e, const mlsi_attr_slice *at, int d, int64_t extent,
                           int32_t dy) {
    mlsi_attr_iota iota;
    mlsi_attr_slice one;
    mlsi_attr_full zero;
    mlsi_attr_scatter set;
    if (e->st != MLSYS_OK) return dy;
    mlsi_type t = *mlsi_emit_type(e, dy);
    memset(&iota, 0, sizeof iota);
    iota.dtype = MLSYS_I64;
    iota.shape.n = 1;
    iota.shape.v[0] = extent;
    int32_t count = mlsi_emit_op(e, MLSI_OP_IOTA, &iota, 0, NULL);
    memset(&one, 0, sizeof one);
    one.starts.n = one.stops.n = one.steps.n = 1;
    one.starts.v[0] = at->starts.v[d];
    one.stops.v[0] = at->stops.v[d];
    one.steps.v[0] = at->steps.v[d];
    int32_t index = mlsi_emit_op(e, MLSI_OP_SLICE, &one, 1, &count);
    memset(&zero, 0, sizeof zero);
    zero.dtype = t.dtype;
    zero.shape.n = t.rank;
    memcpy(zero.shape.v, t.dims, sizeof *t.dims * (size_t)t.rank);
    zero.shape.v[d] = extent;
    memset(&set, 0, sizeof set);
    set.axis = d;
    set.kind = MLSI_SCATTER_SET;
    int32_t in[3] = {mlsi_emit_op(e, MLSI_OP_FULL, &zero, 0, NULL), index, dy};
    return mlsi_emit_op(e, MLSI_OP_SCATTER, &set, 3, in);
}

/* Is the start of a slice over a symbolic extent, which needs no clamping, that from its beginning? */
static bool known_start(const mlsi_emit *e, int64_t start) {
    int64_t lo, hi;
    mlsi_dim_range(&e->g->symbols, start, &lo, &hi);
    return lo >= 0 && start != INT64_MAX;
}

mlsys_status mlsi_vjp_slice(mlsi_vjp *v) {
    const mlsi_attr_slice *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_type x = *mlsi_emit_type(&e, v->in[0]), y = *mlsi_emit_type(&e, v->out[0]);
    int32_t dx = v->dout[0];
    mlsi_attr_pad pad;
    bool padded = false;
    memset(&pad, 0, sizeof pad);
    pad.low.n = pad.high.n = x.rank;
    for (int d = 0; d < x.rank; d++) {
        int64_t first, count;
        if (x.dims[d] == y.dims[d] && at->steps.v[d] == 1) continue;
        bool number = x.dims[d] >= 0 && y.dims[d] >= 0;
        if (at->steps.v[d] != 1 || (!number && !known_start(&e, at->starts.v[d]))) {
            dx = spread_axis(&e, at, d, x.dims[d], dx);
            continue;
        }
        first = at->starts.v[d], count = y.dims[d];
        if (number) mlsi_slice_range(x.dims[d], first, at->stops.v[d], 1, &first, &count);
        pad.low.v[d] = count ? first : 0;
        pad.high.v[d] = mlsi_emit_dim(&e, x.dims[d], -1, count);
        pad.high.v[d] = mlsi_emit_dim(&e, pad.high.v[d], -1, pad.low.v[d]);
        padded = true;
    }
    v->din[0] = padded ? mlsi_emit_op(&e, MLSI_OP_PAD, &pad, 1, &dx) : dx;
    return e.st;
}

/* ---- windows at positions known in the run ------------------------------------------------- */

mlsys_status mlsi_vjp_dynamic_slice(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    int32_t in[3] = {mlsi_emit_zeros_like(&e, v->in[0]), v->dout[0], v->in[1]};
    v->din[0] = mlsi_emit_op(&e, MLSI_OP_DYNAMIC_UPDATE_SLICE, NULL, 3, in);
    return e.st;
}

mlsys_status mlsi_vjp_dynamic_update_slice(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    if (v->wanted[0]) {
        int32_t in[3] = {v->dout[0], mlsi_emit_zeros_like(&e, v->in[1]), v->in[2]};
        v->din[0] = mlsi_emit_op(&e, MLSI_OP_DYNAMIC_UPDATE_SLICE, NULL, 3, in);
    }
    if (v->wanted[1]) {
        mlsi_attr_dynamic_slice window;
        const mlsi_type *u = mlsi_emit_type(&e, v->in[1]);
        int32_t in[2] = {v->dout[0], v->in[2]};
        memset(&window, 0, sizeof window);
        window.sizes.n = u->rank;
        memcpy(window.sizes.v, u->dims, sizeof *u->dims * (size_t)u->rank);
        v->din[1] = mlsi_emit_op(&e, MLSI_OP_DYNAMIC_SLICE, &window, 2, in);
    }
    return e.st;
}
