/* Loops of pool_grad: a cell of x looks at the windows that hold it, tap by tap. The bits are those of the decomposition
 * (gradient_window.c): windows side by side give a cell one share or nothing; others are added in the order of the
 * taps, a tap without window as +0. */
#include "ir/ops/loops.h"
#include "ir/ops/window.h"

#include "core/faults.h"

#include <math.h>
#include <string.h>

typedef struct pool_cell {
    mlsi_lower *l;
    mlsi_nest *n;
    const mlsi_attr_pool *at;
    mlsys_dtype dtype;
    int spatial, opened;
    int64_t x[MLSYS_MAX_DIMS]; /* the cell */
    int64_t y[MLSYS_MAX_DIMS]; /* the window that has it at tap */
    int64_t tap[MLSYS_MAX_DIMS];
} pool_cell;

static int64_t minus(const pool_cell *c, int64_t a, int64_t b) {
    return mlsi_nest_index(c->n, '-', a, b);
}

static int32_t real(const pool_cell *c, double value) {
    return mlsi_nest_float(c->n, c->dtype, value);
}

/* Opens loops over the cells of the kernel; their row-major number. */
static int64_t open_taps(pool_cell *c, int64_t *tap) {
    int64_t number = 0;
    for (int d = 0; d < c->spatial; d++) {
        tap[d] = mlsi_nest_for(c->n, MLSI_LOOP_SERIAL, "tap", c->at->kernel.v[d]);
        number = mlsi_nest_index(c->n, '*', number, c->at->kernel.v[d]);
        number = mlsi_nest_index(c->n, '+', number, tap[d]);
    }
    return number;
}

static void end(pool_cell *c, int bodies) {
    for (int i = 0; i < bodies; i++)
        mlsi_nest_end(c->n);
}

/* Opens conditions under which a window has the cell at the tap: it begins at x + pad - tap * dilation, a multiple of the stride. */
static void if_window(pool_cell *c) {
    mlsi_nest *n = c->n;
    const mlsi_type *y = mlsi_lower_in(c->l, 1);
    c->opened = 0;
    for (int d = 0; d < c->spatial; d++) {
        int64_t reach = mlsi_nest_index(n, '*', c->tap[d], c->at->dilations.v[d]);
        int64_t at = mlsi_nest_index(n, '+', c->x[2 + d], c->at->pads.v[d]);
        at = minus(c, at, reach);
        c->y[2 + d] = mlsi_nest_index(n, '/', at, c->at->strides.v[d]);
        mlsi_nest_if_range(n, 0, c->y[2 + d], y->dims[2 + d]);
        mlsi_nest_if_range(n, 0, mlsi_nest_index(n, '%', at, c->at->strides.v[d]), 1);
        c->opened += 2;
    }
}

/* Where the window has its cell number tap along axis d. */
static int64_t window_cell(const pool_cell *c, int d, int64_t tap) {
    int64_t at = mlsi_nest_index(c->n, '*', c->y[2 + d], c->at->strides.v[d]);
    at = mlsi_nest_index(c->n, '+', at, mlsi_nest_index(c->n, '*', tap, c->at->dilations.v[d]));
    return minus(c, at, c->at->pads.v[d]);
}

/* ---- max: dy to the first cell that equals y --------------------------------------------------------------------- */

/* The window's cell at a tap equals y; false outside x. */
static int32_t is_hit(pool_cell *c, const int64_t *tap) {
    mlsi_nest *n = c->n;
    const mlsi_type *x = mlsi_lower_in(c->l, 0);
    int64_t cell[MLSYS_MAX_DIMS];
    memcpy(cell, c->x, sizeof cell);
    for (int d = 0; d < c->spatial; d++)
        cell[2 + d] = window_cell(c, d, tap[d]);
    mlsi_lower_lazy(c->l, 1);
    int32_t value = mlsi_lower_operand(c->l, 0, cell);
    mlsi_lower_lazy(c->l, -1);
    int32_t outside = real(c, NAN);
    for (int d = 0; d < c->spatial; d++)
        value = mlsi_nest_guard(n, 0, cell[2 + d], x->dims[2 + d], value, outside);
    return mlsi_nest_op(n, MLSI_OP_EQ, 0, value, mlsi_lower_operand(c->l, 1, c->y), -1);
}

static int32_t max_share(pool_cell *c, int64_t number, int64_t cells) {
    mlsi_nest *n = c->n;
    int64_t other[MLSYS_MAX_DIMS];
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_OR, MLSYS_BOOL, cells);
    int64_t earlier = open_taps(c, other);
    int32_t hit = is_hit(c, other), no = mlsi_nest_int(n, MLSYS_BOOL, 0);
    mlsi_nest_add(n, acc, earlier, mlsi_nest_guard(n, 0, earlier, number, hit, no), -1);
    end(c, c->spatial);
    int32_t open = mlsi_nest_op(n, MLSI_OP_NOT, 0, mlsi_nest_acc_value(n, acc), -1, -1);
    if (mlsi_fault(MLSI_FAULT_LOOPS_POOL_FIRST)) open = mlsi_nest_int(n, MLSYS_BOOL, 1);
    hit = mlsi_nest_op(n, MLSI_OP_EQ, 0, mlsi_lower_operand(c->l, 0, c->x),
                       mlsi_lower_operand(c->l, 1, c->y), -1);
    hit = mlsi_nest_op(n, MLSI_OP_AND, 0, hit, open, -1);
    return mlsi_nest_op(n, MLSI_OP_SELECT, c->dtype, hit, mlsi_lower_operand(c->l, 2, c->y),
                        real(c, 0));
}

/* ---- average: dy * (average of ones / sum of ones) ---------------------------------------------------------------- */

/* Cells of the window in x, and with padding those in x and its padding. */
static int32_t count_cells(pool_cell *c, int64_t cells, bool padding) {
    mlsi_nest *n = c->n;
    const mlsi_type *x = mlsi_lower_in(c->l, 0);
    int64_t tap[MLSYS_MAX_DIMS];
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_I64, cells);
    int64_t number = open_taps(c, tap);
    int32_t one = mlsi_nest_int(n, MLSYS_I64, 1), none = mlsi_nest_int(n, MLSYS_I64, 0);
    for (int d = 0; d < c->spatial; d++) {
        int64_t low = padding ? c->at->pads.v[d] : 0;
        int64_t high = x->dims[2 + d] + (padding ? c->at->pads.v[c->spatial + d] : 0);
        int64_t at = mlsi_nest_index(n, '+', window_cell(c, d, tap[d]), low);
        one = mlsi_nest_guard(n, 0, at, high + low, one, none);
    }
    mlsi_nest_add(n, acc, number, one, -1);
    end(c, c->spatial);
    int32_t count = mlsi_nest_acc_value(n, acc);
    return mlsi_nest_let(n, "count",
                         mlsi_nest_cast(n, count, c->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32));
}

static int32_t average_share(pool_cell *c, int64_t cells) {
    mlsi_nest *n = c->n;
    int32_t sum = count_cells(c, cells, false);
    int32_t divisor = c->at->count_pad ? count_cells(c, cells, true) : sum;
    int32_t average = mlsi_nest_op(n, MLSI_OP_DIV, 0, sum, divisor, -1);
    average = mlsi_nest_cast(n, average, c->dtype);
    sum = mlsi_nest_cast(n, sum, c->dtype);
    int32_t weight = mlsi_nest_op(n, MLSI_OP_DIV, c->dtype, average, sum, -1);
    return mlsi_nest_op(n, MLSI_OP_MUL, c->dtype, mlsi_lower_operand(c->l, 2, c->y), weight, -1);
}

/* ---- the sum of a cell ----------------------------------------------------------------------------------------------- */

static int32_t share_of(pool_cell *c, int64_t number, int64_t cells) {
    if (c->at->kind == MLSI_POOL_MAX) return max_share(c, number, cells);
    if (c->at->kind == MLSI_POOL_AVERAGE) return average_share(c, cells);
    return mlsi_lower_operand(c->l, 2, c->y);
}

/* Where windows share no cell, memory takes the one share; else the sum begins as -0, which changes nothing. */
static int32_t cell_sum(pool_cell *c, int64_t cells) {
    mlsi_nest *n = c->n;
    static const int64_t scalar[1] = {0};
    bool single = mlsi_pool_side_by_side(c->at, c->spatial);
    int32_t sum = mlsi_nest_local(n, "sum", c->dtype, 0, scalar);
    int32_t part = mlsi_nest_local(n, "part", c->dtype, 0, scalar);
    mlsi_nest_store(n, sum, scalar, real(c, mlsi_fault(MLSI_FAULT_LOOPS_POOL_ZERO) ? 0.0 : -0.0));
    mlsi_nest_store(n, part, scalar, real(c, 0));
    int64_t number = open_taps(c, c->tap);
    if (!single) mlsi_nest_store(n, part, scalar, real(c, 0));
    if_window(c);
    mlsi_nest_store(n, part, scalar, share_of(c, number, cells));
    end(c, c->opened);
    if (!single) {
        int32_t x = mlsi_nest_load(n, sum, scalar), y = mlsi_nest_load(n, part, scalar);
        mlsi_nest_store(n, sum, scalar, mlsi_nest_op(n, MLSI_OP_ADD, c->dtype, x, y, -1));
    }
    end(c, c->spatial);
    return mlsi_nest_load(n, single ? part : sum, scalar);
}

mlsys_status mlsi_loops_pool_grad(mlsi_lower *l) {
    const mlsi_type *x = mlsi_lower_in(l, 0);
    pool_cell c = {.l = l, .n = l->n, .at = l->attrs, .dtype = x->dtype, .spatial = x->rank - 2};
    for (int d = 0; d < x->rank; d++)
        c.x[d] = mlsi_nest_for(l->n, MLSI_LOOP_SERIAL, "i", x->dims[d]);
    c.y[0] = c.x[0], c.y[1] = c.x[1];
    mlsi_lower_result(l, 0, c.x, cell_sum(&c, mlsi_pool_cells(c.at)));
    end(&c, x->rank);
    return l->n->status;
}
