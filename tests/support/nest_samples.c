#include "support/nest_case.h"

#include <math.h>

/* ---- short ways to write nests ---------------------------------------------------------------------------------- */

#define AT(...)                                                                                    \
    (const int64_t[]) { __VA_ARGS__ }

static int32_t param(mlsi_nest *n, mlsi_scope scope, mlsys_dtype dtype, int rank,
                     const int64_t *dims) {
    mlsi_type t = {.dtype = dtype, .rank = rank};
    for (int d = 0; d < rank; d++)
        t.dims[d] = dims[d];
    return mlsi_nest_param(n, scope, NULL, &t);
}
static int32_t in(mlsi_nest *n, int rank, const int64_t *dims) {
    return param(n, MLSI_SCOPE_INPUT, MLSYS_F32, rank, dims);
}
static int32_t result(mlsi_nest *n, int rank, const int64_t *dims) {
    return param(n, MLSI_SCOPE_OUTPUT, MLSYS_F32, rank, dims);
}
static int64_t loop(mlsi_nest *n, const char *name, int64_t extent) {
    return mlsi_nest_for(n, MLSI_LOOP_SERIAL, name, extent);
}
static void end(mlsi_nest *n, int count) {
    while (count--)
        mlsi_nest_end(n);
}
static int32_t op2(mlsi_nest *n, mlsi_op op, int32_t a, int32_t b) {
    return mlsi_nest_op(n, op, 0, a, b, -1);
}
static int32_t op1(mlsi_nest *n, mlsi_op op, int32_t a) {
    return mlsi_nest_op(n, op, 0, a, -1, -1);
}
static int32_t number(mlsi_nest *n, double x) { return mlsi_nest_float(n, MLSYS_F32, x); }
static int64_t plus(mlsi_nest *n, int64_t a, int64_t b) { return mlsi_nest_index(n, '+', a, b); }

/* ---- without dependences ------------------------------------------------------------------------------------------ */

static void elementwise(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), b = in(n, 1, AT(columns));
    int32_t y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    int32_t t = mlsi_nest_let(
        n, "t", op2(n, MLSI_OP_MUL, mlsi_nest_load(n, x, AT(i, j)), mlsi_nest_load(n, b, &j)));
    mlsi_nest_store(n, y, AT(i, j), op2(n, MLSI_OP_ADD, t, op1(n, MLSI_OP_EXP, t)));
    end(n, 2);
}

static void transposed(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), y = result(n, 2, AT(columns, m));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(j, i), mlsi_nest_load(n, x, AT(i, j)));
    end(n, 2);
}

/* y is written through one flat axis. */
static void flattened(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int64_t size = mlsi_nest_index(n, '*', m, columns);
    int32_t x = in(n, 2, AT(m, columns)), y = result(n, 1, &size);
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    int64_t at = plus(n, mlsi_nest_index(n, '*', i, columns), j);
    mlsi_nest_store(n, y, &at, op1(n, MLSI_OP_NEG, mlsi_nest_load(n, x, AT(i, j))));
    end(n, 2);
}

static void gather(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(3, columns)), ids = param(n, MLSI_SCOPE_INPUT, MLSYS_I64, 1, &m);
    int32_t y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m);
    int64_t row = mlsi_nest_bind(n, "row", mlsi_nest_load(n, ids, &i), 3, false, "gather: index");
    int64_t j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(i, j), mlsi_nest_load(n, x, AT(row, j)));
    end(n, 2);
}

/* ---- reductions ----------------------------------------------------------------------------------------------------- */

/* addend: the sum begins with an element of a third operand. */
static void product(mlsi_nest *n, int64_t m, int64_t columns, int64_t k, mlsys_dtype dtype,
                    bool addend) {
    int32_t a = param(n, MLSI_SCOPE_INPUT, dtype, 2, AT(m, k));
    int32_t b = param(n, MLSI_SCOPE_INPUT, dtype, 2, AT(k, columns));
    int32_t c = addend ? param(n, MLSI_SCOPE_INPUT, dtype, 1, &columns) : -1;
    int32_t y = param(n, MLSI_SCOPE_OUTPUT, dtype, 2, AT(m, columns));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    int32_t first = addend ? mlsi_nest_load(n, c, &j) : -1;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, dtype, k);
    if (acc >= 0) n->accs[acc].init = first;
    int64_t at = loop(n, "k", k);
    mlsi_nest_add(n, acc, at, mlsi_nest_load(n, a, AT(i, at)), mlsi_nest_load(n, b, AT(at, j)));
    end(n, 1);
    int32_t r = mlsi_nest_let(n, "r", mlsi_nest_acc_value(n, acc));
    mlsi_nest_store(n, y, AT(i, j), op1(n, MLSI_OP_NEG, r));
    end(n, 2);
}
static void matmul(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    product(n, m, columns, k, MLSYS_F32, false);
}
static void matmul_fixed(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)m, (void)columns, (void)k;
    product(n, 6, 10, 512, MLSYS_F32, false);
}
static void matmul_i32(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    product(n, m, columns, k, MLSYS_I32, false);
}
static void matmul_add(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    product(n, m, columns, k, MLSYS_F32, true);
}
static void matmul_add_i32(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    product(n, m, columns, k, MLSYS_I32, true);
}

static void softmax(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m);
    int32_t row = mlsi_nest_local(n, "row", MLSYS_F32, 1, &columns);
    int32_t max = mlsi_nest_acc(n, MLSI_ACC_MAX, MLSYS_F32, columns);
    int64_t j = loop(n, "j", columns);
    mlsi_nest_add(n, max, j, mlsi_nest_load(n, x, AT(i, j)), -1);
    end(n, 1);
    int32_t top = mlsi_nest_let(n, "top", mlsi_nest_acc_value(n, max));
    int32_t sum = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_F32, columns);
    j = loop(n, "j", columns);
    int32_t e = mlsi_nest_let(
        n, "e", op1(n, MLSI_OP_EXP, op2(n, MLSI_OP_SUB, mlsi_nest_load(n, x, AT(i, j)), top)));
    mlsi_nest_store(n, row, &j, e);
    mlsi_nest_add(n, sum, j, e, -1);
    end(n, 1);
    int32_t all = mlsi_nest_let(n, "all", mlsi_nest_acc_value(n, sum));
    j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(i, j), op2(n, MLSI_OP_DIV, mlsi_nest_load(n, row, &j), all));
    end(n, 2);
}

static void reduce(mlsi_nest *n, mlsi_acc_kind kind, mlsys_dtype dtype, int64_t count,
                   int64_t rows) {
    int32_t x = param(n, MLSI_SCOPE_INPUT, dtype, 2, AT(rows, count));
    int32_t y = param(n, MLSI_SCOPE_OUTPUT, kind == MLSI_ACC_ARGMAX ? MLSYS_I64 : dtype, 1, &rows);
    int64_t i = loop(n, "i", rows);
    int32_t acc = mlsi_nest_acc(n, kind, dtype, count);
    int64_t k = loop(n, "k", count);
    mlsi_nest_add(n, acc, k, mlsi_nest_load(n, x, AT(i, k)), -1);
    end(n, 1);
    mlsi_nest_store(n, y, &i, mlsi_nest_acc_value(n, acc));
    end(n, 1);
}
static void sum_long(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)m, (void)columns;
    reduce(n, MLSI_ACC_SUM, MLSYS_F32, mlsi_nest_index(n, '*', k, 31), 2); /* up to 9300 of 300 */
}
static void sum_i32(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)columns;
    reduce(n, MLSI_ACC_SUM, MLSYS_I32, k, m);
}
static void max_row(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)columns;
    reduce(n, MLSI_ACC_MAX, MLSYS_F32, k, m);
}
static void argmax_row(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)columns;
    reduce(n, MLSI_ACC_ARGMAX, MLSYS_F32, k, m);
}

/* Two axes, the terms in row-major order. */
static void sum_plane(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), y = result(n, 0, NULL);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_F32, mlsi_nest_index(n, '*', m, columns));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    mlsi_nest_add(n, acc, plus(n, mlsi_nest_index(n, '*', i, columns), j),
                  mlsi_nest_load(n, x, AT(i, j)), -1);
    end(n, 2);
    mlsi_nest_store(n, y, NULL, mlsi_nest_acc_value(n, acc));
}

/* A window of 3 over a padded row. */
static void window(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), f = in(n, 1, AT(3)), y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, MLSYS_F32, 3);
    int64_t t = loop(n, "t", 3);
    int64_t at = mlsi_nest_index(n, '-', plus(n, j, t), 1);
    int32_t value =
        mlsi_nest_guard(n, 0, at, columns, mlsi_nest_load(n, x, AT(i, at)), number(n, 0));
    mlsi_nest_add(n, acc, t, value, mlsi_nest_load(n, f, &t));
    end(n, 1);
    mlsi_nest_store(n, y, AT(i, j), mlsi_nest_acc_value(n, acc));
    end(n, 2);
}

/* ---- a producer in LOCAL memory ----------------------------------------------------------------------------------------- */

static void stencil(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int64_t wide = plus(n, columns, 2);
    int32_t x = in(n, 2, AT(m, wide)), y = result(n, 2, AT(m, columns));
    int32_t t = mlsi_nest_local(n, "t", MLSYS_F32, 2, AT(m, wide));
    int64_t a = loop(n, "a", m), b = loop(n, "b", wide);
    mlsi_nest_store(n, t, AT(a, b), op1(n, MLSI_OP_EXP, mlsi_nest_load(n, x, AT(a, b))));
    end(n, 2);
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(i, j),
                    op2(n, MLSI_OP_ADD, mlsi_nest_load(n, t, AT(i, j)),
                        mlsi_nest_load(n, t, AT(i, plus(n, j, 2)))));
    end(n, 2);
}

/* Every row reads all of the producer, which reduces. */
static void whole(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    int32_t x = in(n, 2, AT(columns, k)), y = result(n, 2, AT(m, columns));
    int32_t t = mlsi_nest_local(n, "t", MLSYS_F32, 1, &columns);
    int64_t a = loop(n, "a", columns);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_F32, k);
    int64_t b = loop(n, "b", k);
    mlsi_nest_add(n, acc, b, mlsi_nest_load(n, x, AT(a, b)), -1);
    end(n, 1);
    mlsi_nest_store(n, t, &a, mlsi_nest_acc_value(n, acc));
    end(n, 1);
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(i, j), mlsi_nest_load(n, t, &j));
    end(n, 2);
}

/* ---- with dependences ---------------------------------------------------------------------------------------------------- */

/* y[i + 1] = y[i] + x[i] */
static void running(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)m, (void)k;
    int32_t x = in(n, 1, &columns), y = result(n, 1, AT(plus(n, columns, 1)));
    mlsi_nest_store(n, y, AT(0), number(n, 1));
    int64_t i = loop(n, "i", columns);
    mlsi_nest_store(n, y, AT(plus(n, i, 1)),
                    op2(n, MLSI_OP_ADD, mlsi_nest_load(n, y, &i), mlsi_nest_load(n, x, &i)));
    end(n, 1);
}

/* y[i, j] of y[i - 1, j + 1]: rows in order, their elements in any. */
static void wave(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m), j = loop(n, "j", columns);
    int64_t up = mlsi_nest_index(n, '-', i, 1), right = plus(n, j, 1);
    int32_t before = mlsi_nest_guard(
        n, 0, up, m,
        mlsi_nest_guard(n, 0, right, columns, mlsi_nest_load(n, y, AT(up, right)), number(n, 1)),
        number(n, 2));
    mlsi_nest_store(n, y, AT(i, j), op2(n, MLSI_OP_SUB, before, mlsi_nest_load(n, x, AT(i, j))));
    end(n, 2);
}

/* The last one wins. */
static void scatter(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(m, columns)), ids = param(n, MLSI_SCOPE_INPUT, MLSYS_I64, 1, &m);
    int32_t y = result(n, 2, AT(3, columns));
    int64_t a = loop(n, "a", 3), b = loop(n, "b", columns);
    mlsi_nest_store(n, y, AT(a, b), number(n, 0));
    end(n, 2);
    int64_t i = loop(n, "i", m);
    int64_t row = mlsi_nest_bind(n, "row", mlsi_nest_load(n, ids, &i), 3, false, "scatter: index");
    int64_t j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(row, j), mlsi_nest_load(n, x, AT(i, j)));
    end(n, 2);
}

static void triangle(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)m, (void)k;
    int32_t x = in(n, 2, AT(columns, columns)), y = result(n, 2, AT(columns, columns));
    int64_t a = loop(n, "a", columns), b = loop(n, "b", columns);
    mlsi_nest_store(n, y, AT(a, b), number(n, 0));
    end(n, 2);
    int64_t i = loop(n, "i", columns), j = loop(n, "j", plus(n, i, 1));
    mlsi_nest_store(n, y, AT(i, j), mlsi_nest_load(n, x, AT(i, j)));
    end(n, 2);
}

/* Every element is written three times; the last time counts. */
static void overwritten(mlsi_nest *n, int64_t m, int64_t columns, int64_t k) {
    (void)k;
    int32_t x = in(n, 2, AT(3, columns)), y = result(n, 2, AT(m, columns));
    int64_t i = loop(n, "i", m), r = loop(n, "r", 3), j = loop(n, "j", columns);
    mlsi_nest_store(n, y, AT(i, j), mlsi_nest_load(n, x, AT(r, j)));
    end(n, 3);
}

const nest_sample nest_samples[] = {
    {"elementwise", elementwise}, {"transposed", transposed},
    {"flattened", flattened},     {"gather", gather},
    {"matmul", matmul},           {"matmul_fixed", matmul_fixed},
    {"matmul_i32", matmul_i32},   {"softmax", softmax},
    {"matmul_add", matmul_add},   {"matmul_add_i32", matmul_add_i32},
    {"sum_long", sum_long},       {"sum_i32", sum_i32},
    {"max_row", max_row},         {"argmax_row", argmax_row},
    {"sum_plane", sum_plane},     {"window", window},
    {"stencil", stencil},         {"whole", whole},
    {"running", running},         {"wave", wave},
    {"scatter", scatter},         {"triangle", triangle},
    {"overwritten", overwritten},
};
const int nest_sample_count = (int)(sizeof nest_samples / sizeof nest_samples[0]);
