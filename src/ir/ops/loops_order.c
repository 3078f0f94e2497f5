/* Loops of sort and topk. An element's place in its row is its rank, the number of elements that come before it: a count
 * per element, which needs no order of evaluation and no memory. Rows and elements are independent, so all loops may
 * run at once. */
#include "ir/ops/loops.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <string.h>

/* Is x strictly before y? NaN is the greatest value and equal to NaN; -0 equals +0. */
static int32_t before(mlsi_nest *n, int32_t x, int32_t y, bool descending) {
    int32_t less = mlsi_nest_op(n, descending ? MLSI_OP_GT : MLSI_OP_LT, 0, x, y, -1);
    if (!mlsi_dtype_is_float(mlsi_nest_dtype(n, x))) return less;
    int32_t nan_x = mlsi_nest_op(n, MLSI_OP_IS_NAN, 0, x, -1, -1);
    int32_t nan_y = mlsi_nest_op(n, MLSI_OP_IS_NAN, 0, y, -1, -1);
    int32_t other = mlsi_nest_op(n, MLSI_OP_NOT, 0, descending ? nan_y : nan_x, -1, -1);
    int32_t last = mlsi_nest_op(n, MLSI_OP_AND, 0, descending ? nan_x : nan_y, other, -1);
    return mlsi_nest_op(n, MLSI_OP_OR, 0, less, last, -1);
}

/* How many elements of its row element i comes behind: those before it, and earlier ones that it is not before. */
static int32_t rank_of(mlsi_lower *l, int axis, bool descending, const int64_t *index, int32_t x) {
    mlsi_nest *n = l->n;
    int64_t other[MLSYS_MAX_DIMS], i = index[axis], extent = mlsi_lower_in(l, 0)->dims[axis];
    memcpy(other, index, sizeof other);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_I64, extent);
    int64_t j = other[axis] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", extent);
    int32_t y = mlsi_lower_operand(l, 0, other);
    int32_t first = before(n, y, x, descending), after = before(n, x, y, descending);
    int32_t tied = mlsi_nest_op(n, MLSI_OP_NOT, 0, after, -1, -1);
    bool later = mlsi_fault(MLSI_FAULT_LOOPS_SORT_TIES);
    int32_t yes = mlsi_nest_int(n, MLSYS_BOOL, 1), no = mlsi_nest_int(n, MLSYS_BOOL, 0);
    int32_t earlier = mlsi_nest_guard(n, 0, later ? i : j, later ? j : i, yes, no);
    tied = mlsi_nest_op(n, MLSI_OP_AND, 0, tied, earlier, -1);
    first = mlsi_nest_op(n, MLSI_OP_OR, 0, first, tied, -1);
    mlsi_nest_add(n, acc, j, first, -1);
    mlsi_nest_end(n);
    return mlsi_nest_acc_value(n, acc);
}

/* The first `take` elements of each row, and their positions. */
static mlsys_status order(mlsi_lower *l, int axis, bool descending, int64_t take) {
    mlsi_nest *n = l->n;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    int64_t index[MLSYS_MAX_DIMS] = {0};
    bool all = take == x->dims[axis];
    for (int d = 0; d < x->rank; d++)
        if (d != axis) index[d] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", x->dims[d]);
    int64_t i = index[axis] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", x->dims[axis]);
    int32_t element = mlsi_nest_let(n, "x", mlsi_lower_operand(l, 0, index));
    int32_t rank = rank_of(l, axis, descending, index, element);
    index[axis] = mlsi_nest_bind(n, "rank", rank, x->dims[axis], false, "rank");
    if (!all) mlsi_nest_if_range(n, 0, index[axis], take);
    mlsi_lower_result(l, 0, index, element);
    if (l->node->n_out > 1) mlsi_lower_result(l, 1, index, mlsi_nest_index_value(n, i));
    for (int d = 0; d < x->rank + !all; d++)
        mlsi_nest_end(n);
    return n->status;
}

mlsys_status mlsi_loops_sort(mlsi_lower *l) {
    const mlsi_attr_sort *a = l->attrs;
    return order(l, (int)a->axis, a->descending != 0, mlsi_lower_in(l, 0)->dims[a->axis]);
}

mlsys_status mlsi_loops_topk(mlsi_lower *l) {
    const mlsi_attr_topk *a = l->attrs;
    return order(l, (int)a->axis, true, a->k);
}
