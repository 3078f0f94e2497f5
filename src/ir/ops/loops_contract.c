/* Loops of products along contracted axes. */
#include "ir/ops/loops.h"

#include "core/dtype.h"

static bool contains(const mlsi_list *l, int64_t axis) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == axis) return true;
    return false;
}

/* Floats multiply in the compute type, integers in the result's dtype: modulo 2^n that is the same wherever it wraps. */
bool mlsi_loops_dot_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_attr_dot *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    mlsys_dtype compute = x->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32;
    r->kind = MLSI_ACC_DOT;
    r->addend = mlsi_lower_has(l, 2) ? 2 : 0;
    r->dtype = mlsi_dtype_is_float(x->dtype) ? compute : mlsi_lower_out(l, 0)->dtype;
    for (int64_t i = 0; i < a->lhs_contract.n; i++)
        r->extents[r->rank++] = x->dims[a->lhs_contract.v[i]];
    return true;
}

/* The operand's free axes from the result's index, which begins at free. */
static int fill_free(mlsi_lower *l, int i, const mlsi_list *batch, const mlsi_list *contract,
                     const int64_t *free, int64_t *own) {
    int used = 0;
    for (int d = 0; d < mlsi_lower_in(l, i)->rank; d++)
        if (!contains(batch, d) && !contains(contract, d)) own[d] = free[used++];
    return used;
}

void mlsi_loops_dot_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]) {
    const mlsi_attr_dot *a = l->attrs;
    int64_t lhs[MLSYS_MAX_DIMS], rhs[MLSYS_MAX_DIMS];
    for (int64_t i = 0; i < a->lhs_batch.n; i++)
        lhs[a->lhs_batch.v[i]] = rhs[a->rhs_batch.v[i]] = index[i];
    for (int64_t i = 0; i < a->lhs_contract.n; i++)
        lhs[a->lhs_contract.v[i]] = rhs[a->rhs_contract.v[i]] = k[i];
    const int64_t *free = index + a->lhs_batch.n;
    free += fill_free(l, 0, &a->lhs_batch, &a->lhs_contract, free, lhs);
    fill_free(l, 1, &a->rhs_batch, &a->rhs_contract, free, rhs);
    value[0] = mlsi_lower_operand(l, 0, lhs);
    value[1] = mlsi_lower_operand(l, 1, rhs);
}
