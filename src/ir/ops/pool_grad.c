/* pool_grad: type rule and definition; the formula is in gradient_window.c. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/window.h"

#include <string.h>

int64_t mlsi_pool_cells(const mlsi_attr_pool *at) {
    int64_t cells = 1, most = MLSI_POOL_GRAD_CELLS;
    for (int64_t d = 0; d < at->kernel.n && cells <= most; d++)
        cells = at->kernel.v[d] > most ? most + 1 : cells * at->kernel.v[d];
    return cells <= most ? cells : most + 1;
}

static mlsys_status infer_pool_grad(mlsi_infer *t) {
    mlsi_type y;
    mlsi_infer pool = *t;
    char a[160], b[160];
    pool.n_in = pool.n_out = 1;
    pool.out = &y;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_pool(&pool));
    if (mlsi_pool_cells(t->attrs) > MLSI_POOL_GRAD_CELLS)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "kernel: a window of more than %d cells",
                               MLSI_POOL_GRAD_CELLS);
    for (int i = 1; i < 3; i++)
        if (!mlsi_type_equal(&t->in[i], &y))
            return mlsi_infer_fail(t, t->in[i].dtype != y.dtype ? MLSYS_E_DTYPE : MLSYS_E_SHAPE, i,
                                   "%s, expected %s",
                                   mlsi_type_text(t->symbols, &t->in[i], a, sizeof a),
                                   mlsi_type_text(t->symbols, &y, b, sizeof b));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static void cost_pool_grad(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = (uint64_t)mlsi_pool_cells(a->attrs) * mlsi_cost_count(&a->in[1]);
}

static const mlsi_attr_desc pool_grad_attrs[] = {MLSI_POOL_ATTRS, {.name = NULL}};

const mlsi_op_def mlsi_op_def_pool_grad = {
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, y, dy",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_pool),
    .attrs = pool_grad_attrs,
    .infer = infer_pool_grad,
    .cost = cost_pool_grad,
    .decompose = mlsi_decompose_pool_grad,
    .nest = mlsi_loops_pool_grad,
    .doc = "The adjoint of pool's operand x from the adjoint dy of its result y; the attributes "
           "are pool's. max: "
           "each window's dy goes to its first cell (row-major in the kernel) that equals y; sum: "
           "to all cells; "
           "average: dy divided by the count to all cells. A cell of several windows gets their "
           "sum, added in "
           "the order of its place in them. pool's gradient emits "
           "this op.",
    .special = "max: a window whose y is NaN passes nothing on, since NaN equals no cell."};
