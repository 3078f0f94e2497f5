/* Gradient rules of products. matmul has none of its own: its decomposition is a dot_general, and products
 * with transposed operands are dot_general with other axes, so nothing is copied. */
#include "core/faults.h"
#include "ir/ops/gradient.h"

#include <string.h>

static bool contains(const mlsi_list *l, int64_t axis) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == axis) return true;
    return false;
}

static mlsi_list free_axes(int rank, const mlsi_list *batch, const mlsi_list *contract) {
    mlsi_list free;
    memset(&free, 0, sizeof free);
    for (int d = 0; d < rank; d++)
        if (!contains(batch, d) && !contains(contract, d)) free.v[free.n++] = d;
    return free;
}

static mlsi_list range(int64_t first, int64_t n) {
    mlsi_list l;
    memset(&l, 0, sizeof l);
    for (int64_t i = 0; i < n; i++)
        l.v[l.n++] = first + i;
    return l;
}

/* One side of a dot_general: its operand, and its axes. */
typedef struct side {
    int32_t value;
    int rank;
    mlsi_list batch, contract, free;
} side;

static side side_of(const mlsi_emit *e, int32_t value, const mlsi_list *batch,
                    const mlsi_list *contract) {
    side s = {.value = value, .batch = *batch, .contract = *contract};
    if (e->st != MLSYS_OK) return s;
    s.rank = mlsi_emit_type(e, value)->rank;
    s.free = free_axes(s.rank, batch, contract);
    return s;
}

/* The adjoint of `own`: dy, whose axes are the batch, then lhs's free ones, then rhs's, times `other` over
 * other's free axes. The product has the batch, own's free axes, and own's contracted ones in the order in
 * which they lie in other; a transposition puts them where own has them. */
static int32_t adjoint(mlsi_emit *e, const side *own, const side *other, bool own_first,
                       int32_t dy) {
    mlsi_attr_dot at;
    mlsi_attr_transpose perm;
    int64_t nb = own->batch.n, place = 0;
    if (e->st != MLSYS_OK) return dy;
    memset(&at, 0, sizeof at);
    memset(&perm, 0, sizeof perm);
    at.dtype = mlsi_emit_type(e, own->value)->dtype;
    at.lhs_batch = range(0, nb);
    at.rhs_batch = other->batch;
    at.lhs_contract = range(nb + (own_first ? own->free.n : 0), other->free.n);
    at.rhs_contract = other->free;
    int32_t in[2] = {dy, other->value};
    int32_t product = mlsi_emit_op(e, MLSI_OP_DOT_GENERAL, &at, 2, in);
    perm.perm.n = own->rank;
    for (int64_t i = 0; i < nb; i++)
        perm.perm.v[own->batch.v[i]] = place++;
    for (int64_t i = 0; i < own->free.n; i++)
        perm.perm.v[own->free.v[i]] = place++;
    for (int d = 0; d < other->rank; d++)
        for (int64_t i = 0; i < other->contract.n; i++)
            if (other->contract.v[i] == d) perm.perm.v[own->contract.v[i]] = place++;
    for (int d = 0; d < own->rank; d++)
        if (perm.perm.v[d] != d && !mlsi_fault(MLSI_FAULT_ADJOINT_TRANSPOSE))
            return mlsi_emit_op(e, MLSI_OP_TRANSPOSE, &perm, 1, &product);
    return product;
}

mlsys_status mlsi_vjp_dot_general(mlsi_vjp *v) {
    const mlsi_attr_dot *at = v->attrs;
    mlsi_emit e = mlsi_vjp_begin(v);
    side lhs = side_of(&e, v->in[0], &at->lhs_batch, &at->lhs_contract);
    side rhs = side_of(&e, v->in[1], &at->rhs_batch, &at->rhs_contract);
    if (v->wanted[0]) v->din[0] = adjoint(&e, &lhs, &rhs, true, v->dout[0]);
    if (v->wanted[1]) v->din[1] = adjoint(&e, &rhs, &lhs, false, v->dout[0]);
    if (v->n_in > 2 && v->wanted[2]) v->din[2] = v->dout[0];
    return e.st;
}

/* The weights are constants of the format; rounding activations to int8 counts as the identity. */
mlsys_status mlsi_vjp_quant_matmul(mlsi_vjp *v) {
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_cast as_float = {.dtype = MLSYS_F32};
    mlsys_dtype t = mlsi_emit_type(&e, v->in[0])->dtype;
    int32_t w = mlsi_emit_op(&e, MLSI_OP_DEQUANTIZE, &as_float, 1, &v->in[1]);
    int32_t dx = mlsi_emit_2(&e, MLSI_OP_MATMUL, v->dout[0], w);
    v->din[0] = mlsi_emit_cast(&e, dx, t);
    return e.st;
}
