/* Tapes: the gradients of recorded eager ops have the bits of the graph road, whatever views the operands were; saved
 * tensors that were written over are noticed; nothing forward is computed again. */
#include "support/tape_case.h"

#include <string.h>

static int custom_runs;

/* ---- ops ------------------------------------------------------------------------------------ */

static mlsys_status infer(void *user, int32_t n_in, const mlsys_dtype *dtypes, const int32_t *ndims,
                          const int64_t *in_shapes, mlsys_config attrs, int32_t n_out,
                          mlsys_dtype *out_dtypes, int32_t *out_ndims, int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, sizeof *in_shapes * 8);
    return MLSYS_OK;
}

/* The square; meanwhile nobody else gets at the stream or its tape. */
static mlsys_status square_run(void *user, mlsys_stream stream, int32_t n_in,
                               const mlsys_tensor *in, mlsys_config attrs, int32_t n_out,
                               const mlsys_tensor *out) {
    const float *x = rg_view(in[0]).data;
    mlsi_view y = rg_view(out[0]);
    (void)user, (void)stream, (void)n_in, (void)attrs, (void)n_out;
    custom_runs++;
    pc_expect(mlsys_tape_record(tape, 0), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_tape_clear(tape), MLSYS_E_BUSY, "in use");
    for (int64_t i = 0; i < mlsi_view_count(&y); i++)
        ((float *)y.data)[i] = x[i] * x[i];
    return MLSYS_OK;
}

static mlsys_status square_gradient(void *user, mlsys_graph g, int32_t n_in, const mlsys_value *in,
                                    mlsys_config attrs, int32_t n_out, const mlsys_value *out,
                                    const mlsys_value *dout, const int32_t *wanted,
                                    mlsys_value *din) {
    mlsys_value a[2] = {dout[0], in[0]}, t;
    (void)user, (void)n_in, (void)attrs, (void)n_out, (void)out, (void)wanted;
    OK(mlsys_graph_op(g, "mul", 2, a, NULL, 1, &t));
    a[0] = a[1] = t;
    return mlsys_graph_op(g, "add", 2, a, NULL, 1, &din[0]);
}

static void setup(void) {
    mlsys_opdef d;
    pc_open(&pc, 2);
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "square";
    d.n_in = d.n_out = 1;
    d.infer = infer, d.run = square_run, d.gradient = square_gradient;
    OK(mlsys_op_register(pc.ctx_handle, &d));
    OK(mlsys_tape_create(pc.stream, &tape));
    custom_runs = 0;
}
static void teardown(void) {
    OK(mlsys_release(tape));
    pc_close(&pc);
}

/* ---- the graph road ------------------------------------------------------------------------- */

/* x (as input 0) through the graph text's ops, seeded with ones: d y / d inputs. */
static void expect_graph(const char *text, int y, int n, const mlsys_tensor *x,
                         const mlsys_tensor *dx) {
    mlsys_graph handle = pc_parse(&pc, text);
    mlsi_graph *g;
    mlsys_value d[4], from[4], top;
    mlsys_tensor out[4] = {0};
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "graph", &g));
    for (int i = 0; i < n; i++)
        from[i] = (int64_t)g->serial << 32 | (int64_t)(i + 1);
    top = (int64_t)g->serial << 32 | (int64_t)(y + 1);
    mlsi_unpin(g);
    OK(mlsys_graph_gradient(handle, 1, &top, NULL, n, from, NULL, d));
    for (int i = 0; i < n; i++)
        OK(mlsys_graph_output(handle, NULL, d[i]));
    mlsys_program p = pc_compile(&pc, handle, "");
    OK(mlsys_program_run(p, pc.stream, n, x, n, out));
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(count(out[i]), count(dx[i]));
        ck_assert_msg(
            !memcmp(numbers(out[i]), numbers(dx[i]), sizeof(float) * (size_t)count(dx[i])),
            "gradient %d differs", i);
    }
    pc_release(n, out);
    OK(mlsys_release(p));
    OK(mlsys_release(handle));
}

START_TEST(the_bits_of_the_graph_road) {
    mlsys_tensor x[3] = {matrix(5, 4), matrix(3, 4), ramp(1, (int64_t[]){3})}, wt, h, y[1], dx[3];
    OK(mlsys_tensor_transpose(x[1], 0, 1, &wt));
    mlsys_tensor xw = op("matmul", x[0], wt), z = op("add", xw, x[2]);
    h = op("tanh", z, NULL);
    y[0] = op("mul", h, h); /* twice the same operand */
    for (int again = 0; again < 2; again++) {
        OK(mlsys_tape_gradient(tape, 1, y, NULL, 3, x, dx));
        expect_graph(
            "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[5,4]\n"
            "  %1 = input \"w\" : f32[3,4]\n  %2 = input \"b\" : f32[3]\n"
            "  %3 = transpose(%1) {perm=[1, 0]} : f32[4,3]\n  %4 = matmul(%0, %3) : f32[5,3]\n"
            "  %5 = add(%4, %2) : f32[5,3]\n  %6 = tanh(%5) : f32[5,3]\n"
            "  %7 = mul(%6, %6) : f32[5,3]\n}\n",
            7, 3, x, dx);
        pc_release(3, dx);
    }
    pc_release(3, x);
    mlsys_tensor rest[] = {wt, xw, z, h, y[0]};
    pc_release(5, rest);
}
END_TEST

/* One op eagerly on the tape, and in a graph: d result 0 / d floats. */
static void same_by_graph(const char *name, int n, const mlsys_tensor *in, int n_out) {
    mlsys_value v[4], y[2], d[4], from[4];
    mlsys_tensor out[2] = {0}, dx[4], x[4], want[4] = {0};
    mlsys_graph g;
    int n_x = 0;
    OK(mlsys_op_run(pc.stream, name, n, in, NULL, n_out, out));
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    for (int i = 0; i < n; i++) {
        mlsi_view view = rg_view(in[i]);
        OK(mlsys_graph_input(g, NULL, view.dtype, view.rank, view.shape, &v[i]));
        if (view.dtype == MLSYS_F32) from[n_x] = v[i], x[n_x++] = in[i];
    }
    OK(mlsys_tape_gradient(tape, 1, out, NULL, n_x, x, dx));
    OK(mlsys_graph_op(g, name, n, v, NULL, n_out, y));
    OK(mlsys_graph_gradient(g, 1, y, NULL, n_x, from, NULL, d));
    for (int i = 0; i < n_x; i++)
        OK(mlsys_graph_output(g, NULL, d[i]));
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_run(p, pc.stream, n, in, n_x, want));
    for (int i = 0; i < n_x; i++)
        ck_assert_msg(
            !memcmp(numbers(dx[i]), numbers(want[i]), sizeof(float) * (size_t)count(dx[i])),
            "%s: gradient %d", name, i);
    pc_release(n_x, dx);
    pc_release(n_x, want);
    pc_release(n_out, out);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
    OK(mlsys_tape_clear(tape));
}

START_TEST(ops_of_every_kind) {
    static const char *const unary[] = {"exp", "gelu",       "softmax", "logsumexp", "reduce_mean",
                                        "log", "reduce_max", "sort",    "copy",      "abs"};
    mlsys_tensor m = matrix(5, 6), n = matrix(6, 4), b = ramp(1, (int64_t[]){6});
    mlsys_tensor q = ramp(4, (int64_t[]){1, 3, 2, 4}), k = ramp(4, (int64_t[]){1, 3, 2, 4}),
                 value = ramp(4, (int64_t[]){1, 3, 2, 4}),
                 images = ramp(4, (int64_t[]){2, 3, 6, 6}),
                 kernel = ramp(4, (int64_t[]){4, 3, 3, 3});
    mlsys_tensor classes = pc_tensor(&pc, MLSYS_I64, 1, (int64_t[]){5}, (int64_t[]){0, 5, 2, 2, 1});
    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++)
        same_by_graph(unary[i], 1, &m, 1);
    same_by_graph("matmul", 2, (mlsys_tensor[]){m, n}, 1);
    same_by_graph("div", 2, (mlsys_tensor[]){m, b}, 1);
    same_by_graph("layer_norm", 2, (mlsys_tensor[]){m, b}, 1);
    same_by_graph("cross_entropy", 2, (mlsys_tensor[]){m, classes}, 1);
    same_by_graph("attention", 3, (mlsys_tensor[]){q, k, value}, 1);
    same_by_graph("conv", 2, (mlsys_tensor[]){images, kernel}, 1);
    mlsys_tensor rest[] = {m, n, b, q, k, value, images, kernel, classes};
    pc_release(9, rest);
}
END_TEST

/* Seeds, several results, an inner tensor as x, one that nothing depends on. */
START_TEST(seeds_and_inner_tensors) {
    mlsys_tensor x = matrix(2, 2), other = matrix(2, 2), e = op("exp", x, NULL), a, b, dx[3],
                 seeds[2];
    a = op("mul", e, e);
    b = op("neg", e, NULL);
    drop(op("exp", other, NULL)); /* on the tape, apart from x */
    seeds[0] = NULL;
    seeds[1] = matrix(2, 2);
    mlsys_tensor y[2] = {a, b}, from[3] = {e, other, x};
    OK(mlsys_tape_gradient(tape, 2, y, seeds, 3, from, dx));
    ck_assert(dx[0] && !dx[1] && dx[2]);
    for (int i = 0; i < 4; i++) {
        float v = numbers(e)[i], d = v + v - numbers(seeds[1])[i];
        ck_assert_float_eq_tol(numbers(dx[0])[i], d, 1e-6f);
        ck_assert_float_eq_tol(numbers(dx[2])[i], d * v, 1e-5f);
    }
    pc_release(1, &dx[0]);
    pc_release(1, &dx[2]);
    seeds[0] = seeds[1];
    y[1] = y[0]; /* the gradient by the result itself is its seeds */
    OK(mlsys_tape_gradient(tape, 1, &y[0], seeds, 1, &y[0], dx));
    ck_assert(!memcmp(numbers(dx[0]), numbers(seeds[0]), 16));
    mlsys_tensor rest[] = {x, other, e, a, b, seeds[1], dx[0]};
    pc_release(7, rest);
}
END_TEST

START_TEST(nothing_forward_is_computed_again) {
    mlsys_tensor x = matrix(2, 3), y = op("square", x, NULL), z = op("square", y, NULL);
    ck_assert_int_eq(custom_runs, 2);
    mlsys_tensor dx = by(z, x);
    ck_assert_int_eq(custom_runs, 2);
    for (int i = 0; i < 6; i++) {
        float v = numbers(x)[i];
        ck_assert_float_eq_tol(numbers(dx)[i], 4 * v * v * v, 1e-4f);
    }
    drop(dx);
    OK(mlsys_tensor_write(y, pc.stream, numbers(x), 24));
    pc_expect(mlsys_tape_gradient(tape, 1, &z, NULL, 1, &x, &dx), MLSYS_E_STATE,
              "operand 0 of square, result 0 of square, f32[2,3], was written");
    mlsys_tensor rest[] = {x, y, z};
    pc_release(3, rest);
}
END_TEST

/* ---- constants ------------------------------------------------------------------------------ */

START_TEST(record_detach_clear) {
    mlsys_tensor x = matrix(2, 2), a = op("exp", x, NULL), y, dx;
    OK(mlsys_tape_record(tape, 0));
    mlsys_tensor hidden = op("exp", x, NULL);
    OK(mlsys_tape_record(tape, 1));
    y = op("mul", a, hidden); /* hidden counts as a constant */
    dx = by(y, x);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(numbers(dx)[i], numbers(hidden)[i] * numbers(a)[i]);
    drop(dx);
    OK(mlsys_tape_detach(tape, a));
    drop(y);
    y = op("mul", a, hidden);
    ck_assert(!by(y, x));
    ck_assert(!by(y, x));
    drop(y);
    OK(mlsys_tape_detach(tape, x));
    y = op("sin", x, NULL);
    ck_assert(!by(y, x));
    OK(mlsys_tape_clear(tape));
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &dx), MLSYS_E_ARG,
              "y 0 is no result that the tape recorded");
    drop(y);
    y = op("sin", x, NULL); /* the tape goes on after it was cleared, and x is a leaf again */
    drop(by(y, x));
    mlsys_tensor rest[] = {x, a, hidden, y};
    pc_release(4, rest);
}
END_TEST

/* ---- saved tensors that were written --------------------------------------------------------- */

static void overwrite(mlsys_tensor t, int how) {
    mlsys_tensor from = matrix(2, 2);
    mlsys_value v, w;
    mlsys_graph g;
    mlsys_dim shape[2] = {2, 2};
    switch (how) {
    case 0: OK(mlsys_tensor_write(t, pc.stream, numbers(from), 16)); break;
    case 1: OK(mlsys_tensor_copy(t, from, pc.stream)); break;
    case 2: OK(mlsys_tensor_random(t, pc.stream, "normal", 1, 2)); break;
    case 3:
        OK(mlsys_tape_record(tape, 0));
        OK(mlsys_op_run(pc.stream, "neg", 1, &from, NULL, 1, &t));
        OK(mlsys_tape_record(tape, 1));
        break;
    default: /* 4: as a program's output, 5: donated to one, 6: as an output of the interpreter */
        OK(mlsys_graph_create(pc.ctx_handle, &g));
        OK(mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &v));
        if (how == 5) OK(mlsys_graph_donate(g, v));
        OK(mlsys_graph_op(g, "neg", 1, &v, NULL, 1, &w));
        OK(mlsys_graph_output(g, NULL, w));
        mlsys_program p = pc_compile(&pc, g, "");
        mlsys_tensor out = NULL;
        if (how == 4) OK(mlsys_program_run(p, pc.stream, 1, &from, 1, &t));
        if (how == 5) OK(mlsys_program_run(p, pc.stream, 1, &t, 1, &out));
        if (how == 6) OK(mlsys_graph_interpret(g, pc.stream, 1, &from, 1, &t));
        if (out) drop(out);
        OK(mlsys_release(p));
        OK(mlsys_release(g));
    }
    drop(from);
}

START_TEST(written_operands_are_noticed) {
    for (int how = 0; how <= 6; how++) {
        mlsys_tensor x = matrix(2, 2), w = matrix(2, 2), y, dx, e;
        y = op("mul", x, w);
        e = op("exp", x, NULL);
        overwrite(w, how);
        pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &dx), MLSYS_E_STATE,
                  "operand 1 of mul, f32[2,2], was written since it was recorded");
        ck_assert(!dx);
        drop(by(e, x)); /* it does not matter there */
        overwrite(e, how);
        mlsys_tensor z = op("add", y, y);
        pc_expect(mlsys_tape_gradient(tape, 1, &e, NULL, 1, &x, &dx), MLSYS_E_STATE,
                  "y 0 was written since it was recorded");
        mlsys_tensor in[1] = {e}, out[1] = {NULL};
        pc_expect(mlsys_op_run(pc.stream, "neg", 1, in, NULL, 1, out), MLSYS_E_STATE,
                  "neg: operand 0, f32[2,2], was computed on the tape and written since");
        OK(mlsys_tape_detach(tape, e));
        drop(op("neg", e, NULL));
        mlsys_tensor rest[] = {x, w, y, e, z};
        pc_release(5, rest);
        OK(mlsys_tape_clear(tape));
    }
}
END_TEST

START_TEST(written_results_are_noticed) {
    mlsys_tensor x = matrix(2, 2), e = op("exp", x, NULL), y = op("neg", e, NULL), dx, z;
    overwrite(e, 0);
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &dx), MLSYS_E_STATE,
              "operand 0 of neg, result 0 of exp");
    /* What was not saved for the backward pass may change: the operands of add. */
    OK(mlsys_tape_clear(tape));
    z = op("add", x, e);
    overwrite(x, 0);
    overwrite(e, 0);
    dx = by(z, x);
    ck_assert_float_eq(numbers(dx)[0], 1);
    drop(dx);
    /* x in two states on one tape: which is meant? */
    drop(op("neg", x, NULL));
    pc_expect(mlsys_tape_gradient(tape, 1, &z, NULL, 1, &x, &dx), MLSYS_E_STATE,
              "x 0 was written between its uses");
    mlsys_tensor rest[] = {x, e, y, z};
    pc_release(4, rest);
}
END_TEST

/* Results in the caller's memory: whole, or a part that can be read as it is only. */
START_TEST(given_outputs) {
    mlsys_tensor x = matrix(2, 2), whole = matrix(2, 2), big = matrix(4, 2), part, in[2], out[1],
                 dx, y;
    out[0] = whole;
    OK(mlsys_op_run(pc.stream, "exp", 1, &x, NULL, 1, out));
    y = op("mul", whole, whole);
    dx = by(y, x);
    ck_assert_float_eq_tol(numbers(dx)[0], 2 * numbers(y)[0], 1e-5f);
    drop(dx);
    drop(y);
    OK(mlsys_tensor_slice(big, 0, 1, 3, 1, &part));
    out[0] = part;
    OK(mlsys_op_run(pc.stream, "exp", 1, &x, NULL, 1, out));
    y = op("mul", part, part);
    dx = by(y, x);
    ck_assert_float_eq_tol(numbers(dx)[0], 2 * numbers(y)[0], 1e-5f);
    in[0] = big;
    out[0] = NULL;
    pc_expect(mlsys_op_run(pc.stream, "neg", 1, in, NULL, 1, out), MLSYS_E_UNSUPPORTED,
              "neg: operand 0, f32[4,2], shares memory with f32[2,2]");
    mlsys_tensor rest[] = {x, whole, big, part, y, dx};
    pc_release(6, rest);
}
END_TEST

/* ---- odds and ends --------------------------------------------------------------------------- */

START_TEST(refusals) {
    mlsys_tensor x = matrix(2, 2), y = op("exp", x, NULL), other = matrix(2, 2), dx, wide,
                 seed = matrix(1, 4);
    mlsys_tensor ints = pc_tensor(&pc, MLSYS_I64, 1, (int64_t[]){2}, (int64_t[]){0, 1});
    mlsys_tape second;
    pc_expect(mlsys_tape_create(pc.stream, &second), MLSYS_E_STATE, "a tape records the stream");
    pc_expect(mlsys_tape_record(tape, 2), MLSYS_E_ARG, "on is 2");
    pc_expect(mlsys_tape_gradient(tape, 1, &other, NULL, 1, &x, &dx), MLSYS_E_ARG,
              "y 0 is no result");
    pc_expect(mlsys_tape_gradient(tape, 1, &x, NULL, 1, &x, &dx), MLSYS_E_ARG, "y 0 is no result");
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &other, &dx), MLSYS_E_ARG,
              "x 0 is not on the tape");
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &ints, &dx), MLSYS_E_DTYPE,
              "x 0 is i64[2], expected a float");
    pc_expect(mlsys_tape_gradient(tape, 1, &y, &seed, 1, &x, &dx), MLSYS_E_SHAPE, "seed 0");
    pc_expect(mlsys_tape_gradient(tape, 0, &y, NULL, 1, &x, &dx), MLSYS_E_ARG, "0 results");
    OK(mlsys_tensor_broadcast(x, 3, (int64_t[]){2, 2, 2}, &wide));
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &wide, &dx), MLSYS_E_ARG,
              "overlaps itself");
    ck_assert(!dx);
    /* An op that fails leaves no record, and one without a gradient is named when it is asked. */
    mlsys_tensor in[2] = {y, ints}, out[1] = {NULL};
    pc_expect(mlsys_op_run(pc.stream, "matmul", 2, in, NULL, 1, out), MLSYS_E_DTYPE, "matmul");
    drop(by(y, x));
    mlsys_tensor rest[] = {x, y, other, wide, seed, ints};
    pc_release(6, rest);
}
END_TEST

/* Integer operands are saved too; ops without floats leave no record. */
START_TEST(integers) {
    mlsys_tensor table = matrix(3, 2),
                 ids = pc_tensor(&pc, MLSYS_I64, 1, (int64_t[]){4}, (int64_t[]){2, 0, 2, 2});
    mlsys_tensor rows = op("gather", table, ids), twice = op("add", ids, ids), d = by(rows, table);
    static const float want[6] = {1, 1, 0, 0, 3, 3};
    ck_assert(!memcmp(numbers(d), want, sizeof want));
    drop(d);
    int64_t three[4] = {1, 1, 1, 1};
    OK(mlsys_tensor_write(ids, pc.stream, three, sizeof three));
    pc_expect(mlsys_tape_gradient(tape, 1, &rows, NULL, 1, &table, &d), MLSYS_E_STATE,
              "operand 1 of gather, i64[4]");
    mlsys_tensor rest[] = {table, ids, rows, twice};
    pc_release(4, rest);
}
END_TEST

START_TEST(more_saved_tensors_than_a_program_has_inputs) {
    enum { LONG = MLSI_MAX_ARGS + 100 };
    mlsys_tensor x = ramp(1, (int64_t[]){3}), y = x, next;
    for (int i = 0; i < LONG; i++) {
        next = op("sin", y, NULL);
        if (y != x) drop(y); /* the tape keeps it */
        y = next;
    }
    mlsys_tensor dx = by(y, x);
    ck_assert(numbers(dx)[0] > 0 && numbers(dx)[0] < 1);
    mlsys_tensor rest[] = {x, y, dx};
    pc_release(3, rest);
}
END_TEST

START_TEST(lives) {
    mlsys_device device = pc.device_handle;
    mlsys_stream stream;
    mlsys_tape first, second;
    mlsys_tensor x = matrix(2, 2), y = NULL, dx;
    OK(mlsys_stream_create(device, NULL, &stream));
    OK(mlsys_tape_create(stream, &first));
    OK(mlsys_release(first));
    OK(mlsys_tape_create(stream, &second)); /* the place is free again */
    OK(mlsys_op_run(stream, "exp", 1, &x, NULL, 1, &y));
    OK(mlsys_release(stream)); /* the tape keeps it */
    pc_expect(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &dx), MLSYS_E_ARG, "y 0 is no result");
    OK(mlsys_tape_gradient(second, 1, &y, NULL, 1, &x, &dx));
    mlsys_tensor rest[] = {x, y, dx};
    pc_release(3, rest);
    OK(mlsys_release(second));
}
END_TEST

int main(void) {
    Suite *s = suite_create("tape");
    TCase *tc = tcase_create("tape");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_bits_of_the_graph_road);
    tcase_add_test(tc, ops_of_every_kind);
    tcase_add_test(tc, seeds_and_inner_tensors);
    tcase_add_test(tc, nothing_forward_is_computed_again);
    tcase_add_test(tc, record_detach_clear);
    tcase_add_test(tc, written_operands_are_noticed);
    tcase_add_test(tc, written_results_are_noticed);
    tcase_add_test(tc, given_outputs);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, integers);
    tcase_add_test(tc, more_saved_tensors_than_a_program_has_inputs);
    tcase_add_test(tc, lives);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
