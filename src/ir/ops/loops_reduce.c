/* Loops of the reductions: a result element is a reduction over the reduced axes, in row-major order. */
#include "ir/ops/loops.h"

#include "core/faults.h"

static mlsi_acc_kind kind_of(mlsi_op op) {
    switch (op) {
    case MLSI_OP_REDUCE_PROD: return MLSI_ACC_PROD;
    case MLSI_OP_REDUCE_MAX: return MLSI_ACC_MAX;
    case MLSI_OP_REDUCE_MIN: return MLSI_ACC_MIN;
    case MLSI_OP_REDUCE_AND: return MLSI_ACC_AND;
    case MLSI_OP_REDUCE_OR: return MLSI_ACC_OR;
    default: return MLSI_ACC_SUM;
    }
}

bool mlsi_loops_reduce_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_attr_reduce *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    r->kind = kind_of(l->node->op);
    bool rounds = r->kind == MLSI_ACC_SUM || r->kind == MLSI_ACC_PROD;
    bool narrow = mlsi_dtype_is_float(x->dtype) && x->dtype != MLSYS_F64;
    r->dtype = rounds && narrow ? MLSYS_F32 : x->dtype; /* sums in the compute type */
    for (int64_t i = 0; i < a->axes.n; i++)
        r->extents[r->rank++] = x->dims[a->axes.v[i]];
    return true;
}

void mlsi_loops_reduce_term(mlsi_lower *l, const int64_t *index, const int64_t *k,
                            int32_t value[2]) {
    const mlsi_attr_reduce *a = l->attrs;
    int64_t in[MLSYS_MAX_DIMS];
    int rank = mlsi_lower_in(l, 0)->rank, at = 0, kept = 0;
    for (int d = 0; d < rank; d++) {
        bool reduced = at < a->axes.n && a->axes.v[at] == d;
        in[d] = reduced ? k[at++] : index[kept];
        if (!reduced || a->keep) kept++;
    }
    value[0] = mlsi_lower_operand(l, 0, in);
}

/* ---- argmax, argmin -------------------------------------------------------------------------------------- */

bool mlsi_loops_arg_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_attr_arg *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    bool greatest = l->node->op == MLSI_OP_ARGMAX || mlsi_fault(MLSI_FAULT_LOOPS_ARGMIN);
    r->kind = greatest ? MLSI_ACC_ARGMAX : MLSI_ACC_ARGMIN;
    r->dtype = x->dtype;
    r->extents[r->rank++] = x->dims[a->axis];
    return true;
}

void mlsi_loops_arg_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]) {
    const mlsi_attr_arg *a = l->attrs;
    int64_t in[MLSYS_MAX_DIMS];
    for (int d = 0; d < mlsi_lower_in(l, 0)->rank; d++)
        in[d] = d == a->axis ? k[0] : index[d < a->axis || a->keep ? d : d - 1];
    value[0] = mlsi_lower_operand(l, 0, in);
}
