/* Loops of scatter: the result begins as x, then the updates meet it one after the other. */
#include "ir/ops/loops.h"

#include "core/faults.h"

#include <string.h>

/* The row that indices[j] names. */
static int64_t row_of(mlsi_lower *l, const int64_t *j, int64_t extent) {
    const mlsi_type *ids = mlsi_lower_in(l, 1);
    int64_t position = 0;
    for (int d = 0; d < ids->rank; d++) {
        position = mlsi_nest_index(l->n, '*', position, ids->dims[d]);
        position = mlsi_nest_index(l->n, '+', position, j[d]);
    }
    return mlsi_nest_bind_at(l->n, "row", mlsi_lower_operand(l, 1, j), position, extent, true,
                             "scatter: indices: index");
}

static mlsi_op step_of(int64_t kind) {
    switch (kind) {
    case MLSI_SCATTER_ADD: return MLSI_OP_ADD;
    case MLSI_SCATTER_MUL: return MLSI_OP_MUL;
    case MLSI_SCATTER_MAX: return MLSI_OP_MAX;
    default: return MLSI_OP_MIN;
    }
}

/* Opens a loop per axis. */
static void open_loops(mlsi_nest *n, const int64_t *dims, int rank, int64_t *index) {
    for (int d = 0; d < rank; d++)
        index[d] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", dims[d]);
}

static void end_loops(mlsi_nest *n, int count) {
    for (int d = 0; d < count; d++)
        mlsi_nest_end(n);
}

mlsys_status mlsi_loops_scatter(mlsi_lower *l) {
    const mlsi_attr_scatter *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0), *ids = mlsi_lower_in(l, 1), *u = mlsi_lower_in(l, 2);
    mlsi_nest *n = l->n;
    int axis = (int)a->axis;
    int64_t index[MLSYS_MAX_DIMS], to[MLSYS_MAX_DIMS];
    int32_t y = mlsi_lower_result_buffer(l, 0);
    open_loops(n, ids->dims, ids->rank,
               index); /* each index is checked, also when no element moves */
    (void)row_of(l, index, x->dims[axis]);
    end_loops(n, ids->rank);
    open_loops(n, x->dims, x->rank, index);
    mlsi_nest_store(n, y, index, mlsi_lower_operand(l, 0, index));
    end_loops(n, x->rank);
    open_loops(n, u->dims, u->rank, index);
    int64_t row = row_of(l, index + axis, x->dims[axis]);
    for (int d = 0; d < x->rank; d++)
        to[d] = d < axis ? index[d] : d == axis ? row : index[d - 1 + ids->rank];
    int32_t value = mlsi_lower_operand(l, 2, index);
    int32_t old = mlsi_fault(MLSI_FAULT_LOOPS_SCATTER_FORGETS) ? mlsi_lower_operand(l, 0, to)
                                                               : mlsi_nest_load(n, y, to);
    if (a->kind != MLSI_SCATTER_SET)
        value = mlsi_nest_op(n, step_of(a->kind), x->dtype, old, value, -1);
    mlsi_nest_store(n, y, to, value);
    end_loops(n, u->rank);
    return n->status;
}
