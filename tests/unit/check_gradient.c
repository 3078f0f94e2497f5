/* mlsys_graph_gradient: programs with gradients, what it refuses, and what it leaves alone. */
#include "autodiff/reverse.h"
#include "support/program_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static mlsys_value input(mlsys_graph g, const char *name, mlsys_dtype t, int rank,
                         const int64_t *shape) {
    mlsys_value v;
    OK(mlsys_graph_input(g, name, t, rank, shape, &v));
    return v;
}

static mlsys_value op(mlsys_graph g, const char *name, int n, const mlsys_value *in,
                      const char *key, int64_t value) {
    mlsys_value out;
    mlsys_config c = NULL;
    if (key) {
        OK(mlsys_config_create(&c));
        OK(mlsys_config_set_i64(c, key, value));
    }
    OK(mlsys_graph_op(g, name, n, in, c, 1, &out));
    if (c) OK(mlsys_release(c));
    return out;
}
#define OP1(g, name, a)    op(g, name, 1, (mlsys_value[]){a}, NULL, 0)
#define OP2(g, name, a, b) op(g, name, 2, (mlsys_value[]){a, b}, NULL, 0)

static mlsys_value number(mlsys_graph g, double x) {
    mlsys_config c;
    mlsys_value v;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "dtype", "f32"));
    OK(mlsys_config_set_f64(c, "value", x));
    OK(mlsys_config_set_i64s(c, "shape", 0, NULL));
    OK(mlsys_graph_op(g, "full", 0, NULL, c, 1, &v));
    OK(mlsys_release(c));
    return v;
}

static const float *data(mlsys_tensor t) { return rg_view(t).data; }

/* ---- values -------------------------------------------------------------------------------- */

/* where(x == 0, x / 2, f(x) + 1): the road not taken is not defined at 0, and must not be seen there
 * (PyTorch issue 23395). In every mode, with every pass and with none. */
START_TEST(the_road_not_taken) {
    static const struct {
        const char *f;
        float slope; /* at 16 */
    } rows[] = {{"sqrt", 0.125f}, {"log", 1.0f / 16}, {"rsqrt", -0.5f / 64}, {"cbrt", 0}};
    static const char *const settings[] = {"", "numerics=exact", "numerics=fast",
                                           "passes_off=simplify,fold,cse"};
    const int64_t shape[1] = {2};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mlsys_graph g;
        OK(mlsys_graph_create(pc.ctx_handle, &g));
        mlsys_value x = input(g, "x", MLSYS_F32, 1, shape), zero = number(g, 0), dx;
        mlsys_value cond = OP2(g, "eq", x, zero), half = OP2(g, "div", x, number(g, 2));
        mlsys_value other = OP2(g, "add", OP1(g, rows[i].f, x), number(g, 1));
        mlsys_value y = op(g, "select", 3, (mlsys_value[]){cond, half, other}, NULL, 0);
        OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, &x, NULL, &dx));
        OK(mlsys_graph_output(g, "dx", dx));
        for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
            mlsys_program p = pc_compile(&pc, g, settings[k]);
            mlsys_tensor in[1] = {pc_f32(&pc, 2, (const float[]){16, 0})}, out[1] = {0};
            OK(mlsys_program_run(p, pc.stream, 1, in, 1, out));
            if (rows[i].slope != 0) ck_assert_float_eq(data(out[0])[0], rows[i].slope);
            ck_assert_float_eq(data(out[0])[1], 0.5f);
            pc_release(1, in);
            pc_release(1, out);
            OK(mlsys_release(p));
        }
        OK(mlsys_release(g));
    }
}
END_TEST

/* A layer with shared weights, symbolic batch: one compiled program serves every batch, and its bits are the
 * interpreter's. */
START_TEST(one_program_for_every_batch) {
    mlsys_graph g;
    mlsys_dim b, xs[2], ts[1];
    const int64_t ws[2] = {5, 5};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_symbol(g, "B", 1, 64, 1, &b));
    xs[0] = ts[0] = b, xs[1] = 5;
    mlsys_value x = input(g, "x", MLSYS_F32, 2, xs), t = input(g, "t", MLSYS_I64, 1, ts);
    mlsys_value w = input(g, "w", MLSYS_F32, 2, ws);
    mlsys_value h = OP1(g, "gelu", OP2(g, "matmul", x, w)), n = OP1(g, "rms_norm", h);
    mlsys_value logits = op(g, "matmul", 2, (mlsys_value[]){n, w}, "transpose_b", 1);
    mlsys_value loss = OP1(g, "reduce_mean", OP2(g, "cross_entropy", logits, t)), d[2];
    OK(mlsys_graph_gradient(g, 1, &loss, NULL, 2, (mlsys_value[]){w, x}, NULL, d));
    OK(mlsys_graph_output(g, "dw", d[0]));
    OK(mlsys_graph_output(g, "dx", d[1]));
    OK(mlsys_graph_output(g, "loss", loss));
    kc_rng r = kc_seed(3);
    static const int64_t batches[] = {1, 3, 64};
    for (int i = 0; i < 3; i++) {
        const int64_t shape[2] = {batches[i], 5};
        int64_t target[64];
        for (int k = 0; k < 64; k++)
            target[k] = kc_int(&r, 0, 4);
        mlsys_tensor in[3] = {pc_random(&pc, &r, MLSYS_F32, 2, shape),
                              pc_tensor(&pc, MLSYS_I64, 1, shape, target),
                              pc_random(&pc, &r, MLSYS_F32, 2, ws)};
        pc_compare(&pc, g, "numerics=exact", 3, in, 3);
        pc_release(3, in);
    }
    OK(mlsys_release(g));
}
END_TEST

START_TEST(structural_zeros_and_seeds) {
    const int64_t shape[1] = {4};
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F32, 1, shape), z = input(g, "z", MLSYS_F32, 1, shape);
    mlsys_value s = input(g, "s", MLSYS_F32, 1, shape), y[2], seeds[2], d[3];
    y[0] = OP1(g, "exp", x);
    y[1] = OP1(g, "floor", z);
    seeds[0] = s, seeds[1] = 0;
    OK(mlsys_graph_gradient(g, 2, y, seeds, 3, (mlsys_value[]){x, z, s}, NULL, d));
    ck_assert_int_ne(d[0], 0);
    ck_assert_int_eq(d[1], 0); /* floor is flat */
    ck_assert_int_eq(d[2], 0); /* a seed is not differentiated */
    mlsys_value stopped = OP1(g, "stop_gradient", x);
    OK(mlsys_graph_gradient(g, 1, &stopped, NULL, 1, &x, NULL, d));
    ck_assert_int_eq(d[0], 0);
    OK(mlsys_graph_gradient(g, 1, y, seeds, 1, y, NULL, d)); /* dy/dy: the seed itself */
    ck_assert_int_eq(d[0], s);
    OK(mlsys_release(g));
}
END_TEST

/* 100,000 nodes in a row: no recursion, and time in proportion. */
START_TEST(a_deep_chain) {
    const int64_t shape[1] = {1};
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F32, 1, shape), y = x, dx;
    for (int i = 0; i < 100000; i++)
        y = i % 2 ? OP1(g, "neg", y) : OP2(g, "add", y, x);
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, &x, NULL, &dx));
    OK(mlsys_graph_output(g, "dx", dx));
    mlsys_tensor in[1] = {pc_f32(&pc, 1, (const float[]){0.5f})}, out[1] = {0};
    OK(mlsys_graph_interpret(g, pc.stream, 1, in, 1, out));
    ck_assert_float_eq(data(out[0])[0], 1); /* y = -(y + x), an even number of times: y' = x' */
    pc_release(1, in);
    pc_release(1, out);
    OK(mlsys_release(g));
}
END_TEST

/* ---- attention ----------------------------------------------------------------------------- */

static mlsys_graph attention_step(int64_t l, mlsys_value *in, mlsys_value *grads) {
    const int64_t qs[4] = {1, l, 2, 16}, ks[4] = {1, l, 1, 16};
    mlsys_graph g;
    mlsys_config c;
    mlsys_value o;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    in[0] = input(g, "q", MLSYS_F32, 4, qs);
    in[1] = input(g, "k", MLSYS_F32, 4, ks);
    in[2] = input(g, "v", MLSYS_F32, 4, ks);
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "causal", "top_left"));
    OK(mlsys_graph_op(g, "attention", 3, in, c, 1, &o));
    OK(mlsys_release(c));
    mlsys_value y = OP2(g, "mul", o, o);
    OK(mlsys_graph_output(g, "y", y));
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 3, in, NULL, grads));
    for (int i = 0; i < 3; i++)
        OK(mlsys_graph_output(g, NULL, grads[i]));
    return g;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
        n++;
    return n;
}

/* One attention, whose log-sum-exp the backward op takes, and no buffer of all scores. */
START_TEST(attention_goes_back_without_its_scores) {
    mlsys_value x[3], d[3];
    mlsys_graph g = attention_step(2048, x, d);
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_cost cost = {.size = sizeof cost};
    char *text = malloc(1 << 16);
    ck_assert_ptr_nonnull(text);
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    OK(mlsys_program_dump(p, MLSYS_DUMP_KERNELS, text, 1 << 16, NULL));
    ck_assert_msg(count(text, "attention_online") == 1, "%s", text);
    ck_assert_msg(count(text, "attention_grad_tiles") == 1, "%s", text);
    ck_assert_msg(cost.peak_bytes < 2048 * 2048 * 4, "%llu bytes of peak memory",
                  (unsigned long long)cost.peak_bytes);
    free(text);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* The program's bits are the interpreter's, also of the gradient's gradient and with every pass off. */
START_TEST(attention_gradients_in_programs) {
    static const char *const settings[] = {"numerics=exact", "passes_off=cse", ""};
    const int64_t qs[4] = {1, 20, 2, 16}, ks[4] = {1, 20, 1, 16};
    mlsys_value x[3], d[3], dd;
    mlsys_graph g = attention_step(20, x, d);
    OK(mlsys_graph_gradient(g, 1, &d[1], NULL, 1, x, NULL, &dd));
    OK(mlsys_graph_output(g, NULL, dd));
    kc_rng r = kc_seed(17);
    mlsys_tensor in[3] = {pc_random(&pc, &r, MLSYS_F32, 4, qs),
                          pc_random(&pc, &r, MLSYS_F32, 4, ks),
                          pc_random(&pc, &r, MLSYS_F32, 4, ks)};
    for (int i = 0; i < 3; i++)
        pc_compare(&pc, g, settings[i], 3, in, 5);
    pc_release(3, in);
    OK(mlsys_release(g));
}
END_TEST

/* Keys behind the valid ones do not reach the gradient of a gradient, whatever they hold: dq = s * (v - o) * k of one visible key is 0 for every s. */
START_TEST(keys_behind_the_valid_ones_in_second_order) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"q\" : f32[1,1,1,1]\n"
                      "  %1 = input \"k\" : f32[1,2,1,1]\n  %2 = input \"v\" : f32[1,2,1,1]\n"
                      "  %3 = input \"n\" : i32[1]\n  %4 = input \"s\" : f32[1,1,1,1]\n"
                      "  %5 = input \"t\" : f32[1,1,1,1]\n"
                      "  %6 = attention(%0, %1, %2, _, %3) : f32[1,1,1,1]\n  output \"\" %6\n}\n");
    const int64_t one[4] = {1, 1, 1, 1}, two[4] = {1, 2, 1, 1};
    const float q = 1, k[2] = {1, NAN}, v[2] = {3, NAN}, seed = 2, again = 1;
    const int32_t n = 1, y = 6, s = 4, t = 5, x = 0, both[2] = {0, 4};
    mlsys_tensor in[6] = {
        pc_tensor(&pc, MLSYS_F32, 4, one, &q),    pc_tensor(&pc, MLSYS_F32, 4, two, k),
        pc_tensor(&pc, MLSYS_F32, 4, two, v),     pc_tensor(&pc, MLSYS_I32, 1, one, &n),
        pc_tensor(&pc, MLSYS_F32, 4, one, &seed), pc_tensor(&pc, MLSYS_F32, 4, one, &again)};
    mlsys_tensor out[2] = {0};
    mlsi_graph *inside;
    int32_t dq, d[2];
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    OK(mlsi_gradient(inside, 0, 1, &y, &s, 1, &x, &dq));
    OK(mlsi_gradient(inside, 0, 1, &dq, &t, 2, both, d));
    inside->funcs[0].n_outputs = 0;
    for (int i = 0; i < 2; i++)
        OK(mlsi_build_output(inside, 0, NULL, d[i]));
    mlsi_unpin(inside);
    OK(mlsys_graph_interpret(g, pc.stream, 6, in, 2, out));
    for (int i = 0; i < 2; i++)
        ck_assert_float_eq(*(const float *)rg_view(out[i]).data, 0);
    pc_release(6, in);
    pc_release(2, out);
    OK(mlsys_release(g));
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------ */

START_TEST(what_is_refused) {
    const int64_t shape[1] = {4}, three[1] = {3};
    mlsys_graph g, other;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_create(pc.ctx_handle, &other));
    mlsys_value x = input(g, "x", MLSYS_F32, 1, shape), k = input(g, "k", MLSYS_I32, 1, shape);
    mlsys_value s = input(g, "s", MLSYS_F32, 1, three), y = OP1(g, "exp", x), d = 77;
    mlsys_value foreign = input(other, "x", MLSYS_F32, 1, shape);
    char *before = malloc(1 << 16), *after = malloc(1 << 16);
    OK(mlsys_graph_print(g, before, 1 << 16, NULL));
    pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, 1, &k, NULL, &d), MLSYS_E_DTYPE,
              "x 0 is i32[4]");
    ck_assert_int_eq(d, 0);
    pc_expect(mlsys_graph_gradient(g, 1, &k, NULL, 1, &x, NULL, &d), MLSYS_E_DTYPE,
              "y 0 is i32[4]");
    pc_expect(mlsys_graph_gradient(g, 1, &y, &s, 1, &x, NULL, &d), MLSYS_E_SHAPE,
              "seed 0 is f32[3]");
    pc_expect(mlsys_graph_gradient(g, 1, &foreign, NULL, 1, &x, NULL, &d), MLSYS_E_ARG,
              "is not a value");
    pc_expect(mlsys_graph_gradient(g, 0, &y, NULL, 1, &x, NULL, &d), MLSYS_E_ARG, "0 outputs");
    pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, -1, &x, NULL, &d), MLSYS_E_ARG, "by -1 values");
    pc_expect(mlsys_graph_gradient(g, 1, NULL, NULL, 1, &x, NULL, &d), MLSYS_E_ARG, "y");
    OK(mlsys_graph_print(g, after, 1 << 16, NULL));
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    OK(mlsys_release(other));
    OK(mlsys_release(g));
}
END_TEST

/* An op without a gradient is named, and the nodes that were emitted by then are gone. */
START_TEST(an_op_without_a_gradient) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[1,1,5000]\n"
                      "  %1 = pool(%0) {kernel=[5000]} : f32[1,1,1]\n"
                      "  %2 = exp(%1) : f32[1,1,1]\n  output \"\" %2\n}\n");
    mlsi_graph *inside;
    int32_t y = 2, x = 0, dx = 0;
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    int64_t nodes = inside->funcs[0].n_nodes, values = inside->funcs[0].n_values;
    pc_expect(mlsi_gradient(inside, 0, 1, &y, NULL, 1, &x, &dx), MLSYS_E_UNSUPPORTED,
              "pool: gradient of a window of more than 4096 cells");
    ck_assert_int_eq(inside->funcs[0].n_nodes, nodes);
    ck_assert_int_eq(inside->funcs[0].n_values, values);
    OK(mlsi_graph_verify(inside));
    mlsi_unpin(inside);
    OK(mlsys_release(g));
}
END_TEST

/* The largest window that pool has a gradient for. */
START_TEST(a_window_of_4096_cells) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[1,1,4096]\n"
                      "  %1 = pool(%0) {kernel=[4096]} : f32[1,1,1]\n  output \"\" %1\n}\n");
    mlsi_graph *inside;
    int32_t y = 1, x = 0, dx = -1;
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    OK(mlsi_gradient(inside, 0, 1, &y, NULL, 1, &x, &dx));
    ck_assert_int_ge(dx, 0);
    mlsi_unpin(inside);
    OK(mlsys_release(g));
}
END_TEST

/* ---- the public check ---------------------------------------------------------------------- */

/* f64 inputs of a graph, as they come: strided, broadcast, empty. */
START_TEST(gradients_are_checked) {
    mlsys_graph g = pc_parse(
        &pc, "symbol B 1 9 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f64[B,3]\n"
             "  %1 = input \"w\" : f64[3,2]\n  %2 = input \"n\" : i64[]\n"
             "  %3 = matmul(%0, %1) : f64[B,2]\n  %4 = softmax(%3) : f64[B,2]\n"
             "  %5 = abs(%0) : f64[B,3]\n  output \"\" %4\n  output \"\" %5\n}\n");
    const int64_t xs[2] = {4, 3}, ws[2] = {3, 2};
    const double x[12] = {0.5, -1, 2, 1e-9, 1.5, -0.25, 1, 1, -2, 0.75, 3, -1},
                 w[6] = {1, -0.5, 0.25, 2, -1, 0.5};
    const int64_t n = 0;
    mlsys_tensor in[3] = {pc_tensor(&pc, MLSYS_F64, 2, xs, x), pc_tensor(&pc, MLSYS_F64, 2, ws, w),
                          pc_tensor(&pc, MLSYS_I64, 0, NULL, &n)};
    mlsys_gradient_report r = {.size = sizeof r};
    OK(mlsys_graph_check_gradient(g, 3, in, NULL, &r));
    ck_assert_int_eq(r.checked, 18);
    ck_assert_int_eq(r.kinks, 1); /* |x| next to 0 */
    ck_assert(r.worst < 1e-6);
    mlsys_tensor turned; /* the same numbers backwards in memory, a stride of -1 */
    OK(mlsys_tensor_reverse(in[0], 0, &turned));
    OK(mlsys_graph_check_gradient(g, 3, (mlsys_tensor[]){turned, in[1], in[2]}, NULL, NULL));
    pc_release(1, &turned);
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_f64(c, "tolerance", 1e-30));
    pc_expect(mlsys_graph_check_gradient(g, 3, in, c, &r), MLSYS_E_ARG, "difference quotient");
    ck_assert_int_ge(r.input, 0);
    OK(mlsys_release(c));
    pc_expect(mlsys_graph_check_gradient(g, 2, in, NULL, &r), MLSYS_E_ARG,
              "2 inputs given, 3 expected");
    ck_assert_int_eq(r.input, -1);
    pc_release(3, in);
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("gradient");
    TCase *tc = tcase_create("gradient");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_road_not_taken);
    tcase_add_test(tc, one_program_for_every_batch);
    tcase_add_test(tc, structural_zeros_and_seeds);
    tcase_add_test(tc, a_deep_chain);
    tcase_add_test(tc, attention_goes_back_without_its_scores);
    tcase_add_test(tc, attention_gradients_in_programs);
    tcase_add_test(tc, keys_behind_the_valid_ones_in_second_order);
    tcase_add_test(tc, what_is_refused);
    tcase_add_test(tc, an_op_without_a_gradient);
    tcase_add_test(tc, a_window_of_4096_cells);
    tcase_add_test(tc, gradients_are_checked);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
