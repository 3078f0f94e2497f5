#include "core/faults.h"
#include "ir/ops/gradient.h"

#include <string.h>

mlsi_emit mlsi_vjp_begin(const mlsi_vjp *v) {
    return mlsi_emit_begin(v->graph, v->func, v->out[0]);
}

mlsys_status mlsi_vjp_zero(mlsi_vjp *v) {
    (void)v;
    return MLSYS_OK;
}

int32_t mlsi_emit_zeros_like(mlsi_emit *e, int32_t x) {
    mlsi_attr_full attrs;
    if (e->st != MLSYS_OK) return x;
    const mlsi_type *t = mlsi_emit_type(e, x);
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = t->dtype;
    attrs.shape.n = t->rank;
    memcpy(attrs.shape.v, t->dims, sizeof *t->dims * (size_t)t->rank);
    return mlsi_emit_op(e, MLSI_OP_FULL, &attrs, 0, NULL);
}

/* A batch is what leading axes count: their sum is one that accumulation can take in parts. Other axes come
 * first, by the tree, which reads memory that lies together at full speed. */
int32_t mlsi_emit_unbroadcast(mlsi_emit *e, int32_t dy, int32_t x) {
    mlsi_attr_reduce rest;
    mlsi_attr_batch_sum batch;
    if (e->st != MLSYS_OK) return dy;
    mlsi_type from = *mlsi_emit_type(e, dy), to = *mlsi_emit_type(e, x);
    int lead = from.rank - to.rank, kept = 0;
    bool all = true, mean = mlsi_fault(MLSI_FAULT_ADJOINT_BROADCAST);
    memset(&rest, 0, sizeof rest);
    memset(&batch, 0, sizeof batch);
    for (int d = 0; d < from.rank; d++)
        all = all && (d < lead || from.dims[d] != to.dims[d - lead]);
    for (int d = 0; d < from.rank; d++) {
        bool summed = d < lead || from.dims[d] != to.dims[d - lead];
        kept += !summed && from.dims[d] != 1;
        if (!summed) continue;
        bool leads = !kept && (!all || d == 0); /* of a sum over everything: the first axis */
        mlsi_list *list = leads ? &batch.axes : &rest.axes;
        list->v[list->n++] = d;
    }
    if (rest.axes.n)
        dy = mlsi_emit_op(e, mean ? MLSI_OP_REDUCE_MEAN : MLSI_OP_REDUCE_SUM, &rest, 1, &dy);
    if (batch.axes.n && mean)
        dy = mlsi_emit_reduce(e, MLSI_OP_REDUCE_MEAN, dy, 0, (int)batch.axes.n);
    else if (batch.axes.n)
        dy = mlsi_emit_op(e, MLSI_OP_BATCH_SUM, &batch, 1, &dy);
    if (e->st != MLSYS_OK || mlsi_type_equal(mlsi_emit_type(e, dy), &to)) return dy;
    return mlsi_emit_reshape(e, dy, to.rank, to.dims);
}

int32_t mlsi_emit_alive(mlsi_emit *e, const mlsi_vjp *v, int32_t dx) {
    if (v->alive < 0 || mlsi_fault(MLSI_FAULT_ADJOINT_ALIVE) || e->st != MLSYS_OK) return dx;
    int32_t zero = mlsi_emit_scalar(e, mlsi_emit_type(e, dx)->dtype, 0);
    return mlsi_emit_select(e, v->alive, dx, zero);
}

void mlsi_emit_many(mlsi_emit *e, mlsi_op op, const void *attrs, int32_t n_in, const int32_t *in,
                    int32_t n_out, int32_t *out) {
    memset(out, 0, sizeof *out * (size_t)n_out);
    if (e->st == MLSYS_OK) e->st = mlsi_build_node(e->g, e->func, op, attrs, n_in, in, n_out, out);
}
