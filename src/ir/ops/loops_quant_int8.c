/* Loops of quant_matmul with act = int8: a row of x becomes codes, scales and sums of codes per block of 32; then each
 * result adds, block by block, exact integer products. The order is on the op's page. */
#include "ir/ops/loops.h"
#include "ir/ops/loops_quant.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <string.h>

enum { BLOCK = 32, SEGMENT = 256 };
static const int64_t scalar[1] = {0}; /* dims and index of memory of rank 0 */

/* A row of x. */
typedef struct codes {
    mlsi_lower *l;
    mlsi_nest *n;
    int64_t x[MLSYS_MAX_DIMS]; /* index of the row */
    int32_t q, scale, sum;     /* memory: i8 [K], f32 and i32 [K / 32] */
} codes;

static int32_t f32_op(mlsi_nest *n, mlsi_op op, int32_t a, int32_t b) {
    return mlsi_nest_op(n, op, MLSYS_F32, a, b, -1);
}

/* Element number `at` of the row, and where it is. */
static int32_t element(codes *c, int64_t block, int64_t j, int64_t *at) {
    *at = mlsi_nest_index(c->n, '+', mlsi_nest_index(c->n, '*', block, BLOCK), j);
    c->x[mlsi_lower_in(c->l, 0)->rank - 1] = *at;
    return mlsi_nest_cast(c->n, mlsi_lower_operand(c->l, 0, c->x), MLSYS_F32);
}

/* s = max|x| / 127, q_i = x_i / s rounded half to even and saturated, all 0 where s = 0. */
static void quantise_block(codes *c, int64_t block) {
    mlsi_nest *n = c->n;
    int64_t at;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_MAX, MLSYS_F32, BLOCK);
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", BLOCK);
    mlsi_nest_add(n, acc, j, f32_op(n, MLSI_OP_ABS, element(c, block, j, &at), -1), -1);
    mlsi_nest_end(n);
    int32_t s = mlsi_nest_acc_value(n, acc);
    s = f32_op(n, MLSI_OP_DIV, s, mlsi_nest_float(n, MLSYS_F32, 127));
    s = mlsi_nest_let(n, "s", s);
    mlsi_nest_store(n, c->scale, &block, s);
    int32_t flat = mlsi_nest_op(n, MLSI_OP_EQ, 0, s, mlsi_nest_float(n, MLSYS_F32, 0), -1);
    flat = mlsi_nest_let(n, "flat", flat);
    acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_I32, BLOCK);
    j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", BLOCK);
    int32_t q = f32_op(n, MLSI_OP_DIV, element(c, block, j, &at), s);
    q = mlsi_nest_cast(n, f32_op(n, MLSI_OP_ROUND, q, -1), MLSYS_I8);
    q = mlsi_nest_op(n, MLSI_OP_SELECT, 0, flat, mlsi_nest_int(n, MLSYS_I8, 0), q);
    q = mlsi_nest_let(n, "q", q);
    mlsi_nest_store(n, c->q, &at, q);
    mlsi_nest_add(n, acc, j, q, -1);
    mlsi_nest_end(n);
    mlsi_nest_store(n, c->sum, &block, mlsi_nest_acc_value(n, acc));
}

static int32_t i32_mul(mlsi_nest *n, int32_t a, int32_t b) {
    return mlsi_nest_op(n, MLSI_OP_MUL, MLSYS_I32, a, b, -1);
}

/* Sum of the block's code products, times their integer scales. */
static int32_t block_product(const codes *c, int64_t row, int64_t first) {
    mlsi_nest *n = c->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_I32, BLOCK);
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", BLOCK);
    int64_t index[2] = {row, mlsi_nest_index(n, '+', first, j)};
    mlsi_loops_block b = mlsi_loops_block_of(c->l, 1, index);
    int32_t p = mlsi_loops_block_code(&b), inner = mlsi_loops_block_factor(&b);
    if (inner >= 0) p = i32_mul(n, p, inner);
    int32_t q = mlsi_nest_cast(n, mlsi_nest_load(n, c->q, &index[1]), MLSYS_I32);
    mlsi_nest_add(n, acc, j, i32_mul(n, p, q), -1);
    mlsi_nest_end(n);
    return mlsi_nest_acc_value(n, acc);
}

/* One chain over `count` blocks from block `first` on: t = fma(d * s, I, t), then t = fma(m * s, J, t). */
static int32_t segment(const codes *c, int64_t row, int64_t first, int64_t count) {
    mlsi_nest *n = c->n;
    bool has_min = mlsi_loops_block_has_minimum(mlsi_lower_in(c->l, 1)->dtype);
    int64_t steps = 1 + has_min;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, MLSYS_F32, count * steps);
    int64_t k = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "block", count);
    int64_t number = mlsi_nest_index(n, '+', first, k), at = mlsi_nest_index(n, '*', k, steps);
    const int64_t index[2] = {row, mlsi_nest_index(n, '*', number, BLOCK)};
    int32_t i = block_product(c, row, index[1]), s = mlsi_nest_load(n, c->scale, &number);
    mlsi_loops_block b = mlsi_loops_block_of(c->l, 1, index);
    mlsi_nest_add(n, acc, at, f32_op(n, MLSI_OP_MUL, mlsi_loops_block_scale(&b), s), i);
    if (has_min) {
        int32_t j = mlsi_nest_load(n, c->sum, &number), weight = mlsi_loops_block_min_factor(&b);
        int32_t m = mlsi_loops_block_minimum(&b);
        if (weight >= 0 && !mlsi_fault(MLSI_FAULT_LOOPS_INT8_MINIMUM)) j = i32_mul(n, weight, j);
        mlsi_nest_add(n, acc, mlsi_nest_index(n, '+', at, 1), f32_op(n, MLSI_OP_MUL, m, s), j);
    }
    mlsi_nest_end(n);
    return mlsi_nest_acc_value(n, acc);
}

/* Whole segments, then what is left. The sum begins as -0, to which the first segment adds nothing but itself. */
static int32_t product(const codes *c, int64_t row, int64_t depth) {
    mlsi_nest *n = c->n;
    int64_t whole = depth / SEGMENT, left = depth % SEGMENT / BLOCK, blocks = SEGMENT / BLOCK;
    int32_t sum = mlsi_nest_local(n, "c", MLSYS_F32, 0, scalar);
    mlsi_nest_store(n, sum, scalar, mlsi_nest_float(n, MLSYS_F32, depth ? -0.0 : 0.0));
    int64_t k = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "segment", whole);
    int32_t part = segment(c, row, mlsi_nest_index(n, '*', k, blocks), blocks);
    mlsi_nest_store(n, sum, scalar, f32_op(n, MLSI_OP_ADD, mlsi_nest_load(n, sum, scalar), part));
    mlsi_nest_end(n);
    if (!left) return mlsi_nest_load(n, sum, scalar);
    part = segment(c, row, whole * blocks, left);
    return f32_op(n, MLSI_OP_ADD, mlsi_nest_load(n, sum, scalar), part);
}

mlsys_status mlsi_loops_quant_int8(mlsi_lower *l) {
    mlsi_nest *n = l->n;
    const mlsi_type *x = mlsi_lower_in(l, 0), *w = mlsi_lower_in(l, 1);
    int64_t index[MLSYS_MAX_DIMS], depth = w->dims[1], blocks = depth / BLOCK;
    int last = x->rank - 1;
    codes c = {.l = l, .n = n};
    for (int d = 0; d < last; d++)
        c.x[d] = index[d] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", x->dims[d]);
    c.q = mlsi_nest_local(n, "q", MLSYS_I8, 1, &depth);
    c.scale = mlsi_nest_local(n, "scale", MLSYS_F32, 1, &blocks);
    c.sum = mlsi_nest_local(n, "sum", MLSYS_I32, 1, &blocks);
    int64_t block = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "block", blocks);
    quantise_block(&c, block);
    mlsi_nest_end(n);
    index[last] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "n", w->dims[0]);
    mlsi_lower_result(l, 0, index, product(&c, index[last], depth));
    for (int d = 0; d <= last; d++)
        mlsi_nest_end(n);
    return n->status;
}
