/* Memory that a run writes over: in place only when proved (BO-05), donation. */
#include "support/program_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

static mlsys_tensor copy_of(mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    mlsys_tensor c = pc_tensor(&pc, v.dtype, v.rank, v.shape, NULL);
    OK(mlsys_tensor_copy(c, t, pc.stream));
    return c;
}

/* ---- BO-05: x[1:] = x[:-1] ------------------------------------------------------------------------ */

/* One axis' worth of a shift: elements [from, from + n) go to [to, to + n). */
typedef struct shift {
    int64_t extent, from, to, n;
} shift;

static shift shift_by(int64_t extent, int64_t by) {
    int64_t n = extent - (by < 0 ? -by : by);
    return (shift){extent, by < 0 ? -by : 0, by < 0 ? 0 : by, n};
}

/* y = x with x[from..] written at `to`, by slice and dynamic_update_slice; the input is donated. */
static mlsys_graph shift_graph(const shift *s, int rank, bool donated) {
    char text[2048], full[64] = "", part[64] = "", starts[64] = "", stops[64] = "";
    int64_t to[3];
    for (int d = 0; d < rank; d++) {
        const char *comma = d ? "," : "";
        snprintf(full + strlen(full), sizeof full - strlen(full), "%s%lld", comma,
                 (long long)s[d].extent);
        snprintf(part + strlen(part), sizeof part - strlen(part), "%s%lld", comma,
                 (long long)s[d].n);
        snprintf(starts + strlen(starts), sizeof starts - strlen(starts), "%s%lld", comma,
                 (long long)s[d].from);
        snprintf(stops + strlen(stops), sizeof stops - strlen(stops), "%s%lld", comma,
                 (long long)(s[d].from + s[d].n));
        to[d] = s[d].to;
    }
    int n = snprintf(
        text, sizeof text,
        "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[%s]%s\n"
        "  %%1 = slice(%%0) {starts=[%s], stops=[%s]} : f32[%s]\n  %%2 = const i64[%d] hex:",
        full, donated ? " donated" : "", starts, stops, part, rank);
    for (int d = 0; d < rank; d++)
        for (int k = 0; k < 8; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%02x",
                          (unsigned)(to[d] >> 8 * k & 255));
    snprintf(text + n, sizeof text - (size_t)n,
             "\n  %%3 = dynamic_update_slice(%%0, %%1, %%2) : f32[%s]\n  output \"y\" %%3\n}\n",
             full);
    return pc_parse(&pc, text);
}

static void expect_shifted(const shift *s, int rank, const float *x, const float *y) {
    int64_t count = 1, index[3];
    for (int d = 0; d < rank; d++)
        count *= s[d].extent;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, source = 0, step = 1;
        bool moved = true;
        for (int d = rank - 1; d >= 0; d--) {
            index[d] = rest % s[d].extent;
            rest /= s[d].extent;
            moved = moved && index[d] >= s[d].to && index[d] < s[d].to + s[d].n;
        }
        for (int d = rank - 1; d >= 0; d--) {
            source += (index[d] - (moved ? s[d].to - s[d].from : 0)) * step;
            step *= s[d].extent;
        }
        if (y[i] != x[source])
            ck_abort_msg("element %lld is %g, not %g", (long long)i, (double)y[i],
                         (double)x[source]);
    }
}

static void run_shift(const shift *s, int rank, bool donated) {
    int64_t shape[3], count = 1;
    mlsys_graph g = shift_graph(s, rank, donated);
    mlsys_program p = pc_compile(&pc, g, "");
    for (int d = 0; d < rank; d++)
        count *= shape[d] = s[d].extent;
    float *x = malloc(sizeof *x * (size_t)count);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 7 % 8191);
    for (int turn = 0; turn < 3; turn++) {
        mlsys_tensor in[1] = {pc_tensor(&pc, MLSYS_F32, rank, shape, x)}, out[1] = {0};
        if (turn == 2) out[0] = pc_tensor(&pc, MLSYS_F32, rank, shape, NULL);
        OK(mlsys_program_run(p, pc.stream, 1, in, 1, out));
        expect_shifted(s, rank, x, rg_view(out[0]).data);
        if (!donated) ck_assert(!memcmp(rg_view(in[0]).data, x, sizeof *x * (size_t)count));
        pc_release(1, in);
        pc_release(1, out);
    }
    free(x);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}

START_TEST(overlapping_update) { /* 1 and 7 threads */
    pc_close(&pc);
    pc_open(&pc, _i ? 7 : 1);
    static const int64_t by[] = {1, -1, 3};
    for (int donated = 0; donated < 2; donated++) {
        for (int k = 0; k < 3; k++) {
            shift a[3] = {shift_by(3, by[k] % 3), shift_by(16, 0), shift_by(16, 0)};
            run_shift(a, 3, donated);
            shift b[3] = {shift_by(3, 0), shift_by(16, by[k]), shift_by(16, -by[k])};
            run_shift(b, 3, donated);
            shift c[2] = {shift_by(1024, by[k]), shift_by(2048, 0)};
            run_shift(c, 2, donated);
        }
        shift d[2] = {shift_by(1024, 1), shift_by(2048, -1)};
        run_shift(d, 2, donated);
    }
}
END_TEST

/* ---- in place -------------------------------------------------------------------------------------- */

/* Chains in which each temptation to write over something still needed occurs. */
static const char *const tempting[] = {
    "  %1 = exp(%0) : f32[8]\n  %2 = neg(%1) : f32[8]\n  %3 = add(%1, %2) : f32[8]\n  output \"\" "
    "%3",
    "  %1 = exp(%0) : f32[8]\n  %2 = add(%1, %1) : f32[8]\n  %3 = mul(%2, %1) : f32[8]\n  output "
    "\"\" %3",
    "  %1 = exp(%0) : f32[8]\n  %2 = reverse(%1) {axes=[0]} : f32[8]\n  %3 = sub(%1, %2) : f32[8]\n"
    "  output \"\" %3",
    "  %1 = exp(%0) : f32[8]\n  %2 = reshape(%1) {shape=[2,4]} : f32[2,4]\n  %3 = neg(%2) : "
    "f32[2,4]\n"
    "  %4 = reshape(%3) {shape=[8]} : f32[8]\n  %5 = sub(%4, %1) : f32[8]\n  output \"\" %5",
    "  %1 = exp(%0) : f32[8]\n  %2 = slice(%1) {starts=[4], stops=[8]} : f32[4]\n  %3 = neg(%2) : "
    "f32[4]\n"
    "  %4 = slice(%1) {starts=[0], stops=[4]} : f32[4]\n  %5 = sub(%4, %3) : f32[4]\n  output \"\" "
    "%5",
    "  %1 = exp(%0) : f32[8]\n  %2 = neg(%1) : f32[8]\n  output \"\" %1\n  output \"\" %2",
    "  %1 = neg(%0) : f32[8]\n  %2 = exp(%1) : f32[8]\n  %3 = sin(%2) : f32[8]\n  %4 = add(%3, %0) "
    ": f32[8]\n"
    "  output \"\" %4\n  output \"\" %0",
    "  %1 = exp(%0) : f32[8]\n  %2 = broadcast(%1) {shape=[2,8]} : f32[2,8]\n  %3 = neg(%2) : "
    "f32[2,8]\n"
    "  %4 = add(%3, %1) : f32[2,8]\n  output \"\" %4",
    "  %1 = exp(%0) : f32[8]\n  %2 = scan(%1) {kind=sum, axis=0} : f32[8]\n  %3 = add(%2, %1) : "
    "f32[8]\n"
    "  %4 = softmax(%3) {axis=0} : f32[8]\n  %5 = sort(%4) {axis=0} : f32[8]\n  output \"\" %5",
};
enum { N_TEMPTING = (int)(sizeof tempting / sizeof tempting[0]) };

START_TEST(results_do_not_land_on_what_is_needed) {
    for (int donated = 0; donated < 2; donated++) {
        char text[2048];
        const char *body = tempting[_i];
        int n_out = 0;
        for (const char *at = body; (at = strstr(at, "output")) != NULL; at++)
            n_out++;
        snprintf(text, sizeof text,
                 "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[8]%s\n%s\n}\n",
                 donated ? " donated" : "", body);
        mlsys_graph g = pc_parse(&pc, text);
        mlsys_program p = pc_compile(&pc, g, "passes_off=cse,cse2,simplify,simplify2");
        mlsys_tensor x = pc_f32(&pc, 8, (const float[]){1, -2, 3, 0.5f, -0.25f, 6, 7, -8}),
                     keep = copy_of(x);
        mlsys_tensor want[2] = {0}, got[2] = {0};
        OK(mlsys_graph_interpret(g, pc.stream, 1, &keep, n_out, want));
        OK(mlsys_program_run(p, pc.stream, 1, &x, n_out, got));
        for (int o = 0; o < n_out; o++) {
            int64_t at = rg_difference(got[o], want[o]);
            if (at >= 0) ck_abort_msg("output %d element %lld of\n%s", o, (long long)at, text);
        }
        if (!donated) ck_assert_int_eq(rg_difference(x, keep), -1);
        pc_release(2, want);
        pc_release(2, got);
        pc_release(1, &x);
        pc_release(1, &keep);
        OK(mlsys_release(p));
        OK(mlsys_release(g));
    }
}
END_TEST

/* Written in place only the window moves; else the whole tensor does. */
START_TEST(update_costs_its_window_in_place) {
    for (int donated = 0; donated < 2; donated++) {
        char text[512];
        snprintf(text, sizeof text,
                 "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[1000]%s\n"
                 "  %%1 = input \"u\" : f32[100]\n  %%2 = input \"at\" : i64[1]\n"
                 "  %%3 = dynamic_update_slice(%%0, %%1, %%2) : f32[1000]\n  output \"y\" %%3\n}\n",
                 donated ? " donated" : "");
        mlsys_graph g = pc_parse(&pc, text);
        mlsys_program p = pc_compile(&pc, g, "");
        mlsys_cost cost = {.size = sizeof cost};
        OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
        ck_assert_uint_eq(cost.bytes_written, donated ? 100 * 4 : 1000 * 4);
        OK(mlsys_release(p));
        OK(mlsys_release(g));
    }
}
END_TEST

/* Constants are counted by the memory that they are, whoever shares it. */
START_TEST(constants_in_one_storage_count_once) {
    int64_t shape[1] = {1000}, stride[1] = {1};
    mlsys_tensor whole = pc_tensor(&pc, MLSYS_F32, 1, shape, NULL), part;
    mlsys_graph g;
    mlsys_value x, a, b, y;
    mlsys_cost cost = {.size = sizeof cost};
    shape[0] = 600;
    OK(mlsys_tensor_view(whole, 1, shape, stride, 300, &part));
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 1, shape, &x));
    OK(mlsys_graph_const(g, whole, &a));
    OK(mlsys_graph_const(g, part, &b));
    OK(mlsys_graph_op(g, "add", 2, (mlsys_value[]){x, b}, NULL, 1, &y));
    OK(mlsys_graph_output(g, "y", y));
    OK(mlsys_graph_output(g, "a", a));
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    ck_assert_uint_eq(cost.constant_bytes, 1000 * sizeof(float));
    OK(mlsys_release(p));
    OK(mlsys_release(g));
    OK(mlsys_release(part));
    OK(mlsys_release(whole));
}
END_TEST

START_TEST(chains_run_in_place) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[1024] donated\n"
                      "  %1 = exp(%0) : f32[1024]\n  %2 = sin(%1) : f32[1024]\n"
                      "  %3 = neg(%2) : f32[1024]\n  %4 = abs(%3) : f32[1024]\n"
                      "  output \"\" %4\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_cost cost = {.size = sizeof cost};
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    ck_assert_uint_eq(cost.peak_bytes, 0); /* all of it in the donated input */
    mlsys_tensor in[1] = {pc_f32(&pc, 1024, NULL)}, out[1] = {0};
    uint64_t a, b;
    OK(mlsys_program_run(p, pc.stream, 1, in, 1, out));
    OK(mlsys_tensor_storage_id(in[0], &a));
    OK(mlsys_tensor_storage_id(out[0], &b));
    ck_assert_uint_eq(a, b);
    pc_release(1, in);
    pc_release(1, out);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* An input under another shape may hold the result, but is not its tensor. */
START_TEST(donated_memory_keeps_the_output_shape) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2,4] donated\n"
                      "  %1 = reshape(%0) {shape=[8]} : f32[8]\n  %2 = exp(%1) : f32[8]\n"
                      "  output \"\" %2\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor in[1] = {pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){2, 4},
                                    (const float[]){1, 2, 3, 4, 5, 6, 7, 8})};
    mlsys_tensor keep = copy_of(in[0]), out[1] = {0}, want[1] = {0};
    OK(mlsys_graph_interpret(g, pc.stream, 1, &keep, 1, want));
    OK(mlsys_program_run(p, pc.stream, 1, in, 1, out));
    ck_assert_int_eq(rg_difference(out[0], want[0]), -1);
    pc_release(1, in);
    pc_release(1, out);
    pc_release(1, want);
    pc_release(1, &keep);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(random_programs_with_donation) {
    printf("seeds 1 to 200\n");
    for (uint64_t seed = 1; seed <= 200; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        mlsys_tensor in[4], keep[4], got[4] = {0}, want[4] = {0};
        rg_options o = {.nodes = 16,
                        .inputs = 4,
                        .outputs = 4,
                        .symbols = seed & 1,
                        .control = seed % 3 == 0,
                        .donate = true};
        OK(mlsi_graph_init(&g, pc.ctx));
        rg_graph(&r, &g, pc.device, &o);
        mlsys_program p = pc_compile_inside(&pc, &g, seed % 7 ? "" : "plan=0");
        rg_inputs(&r, &g, pc.device_handle, rg_bind(&r), in);
        for (int i = 0; i < 4; i++)
            keep[i] = copy_of(in[i]);
        pc_interpret_inside(&pc, &g, 4, keep, 4, want);
        for (int i = 0; i < 4 && seed % 2; i++) { /* outputs given */
            mlsi_view v = rg_view(want[i]);
            got[i] = pc_tensor(&pc, v.dtype, v.rank, v.shape, NULL);
        }
        OK(mlsys_program_run(p, pc.stream, 4, in, 4, got));
        for (int i = 0; i < 4; i++) {
            if (rg_difference(got[i], want[i]) >= 0)
                ck_abort_msg("seed %d: output %d", (int)seed, i);
            if (!g.funcs[0].donated[i] && rg_difference(in[i], keep[i]) >= 0)
                ck_abort_msg("seed %d: input %d was changed", (int)seed, i);
        }
        pc_release(4, in);
        pc_release(4, keep);
        pc_release(4, got);
        pc_release(4, want);
        OK(mlsys_release(p));
        mlsi_graph_free(&g);
    }
}
END_TEST

/* ---- donation --------------------------------------------------------------------------------------- */

static const char *const donating = "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[8] "
                                    "donated\n  %1 = input \"y\" : f32[8]\n"
                                    "  %2 = add(%0, %1) : f32[8]\n  output \"z\" %2\n}\n";

START_TEST(donated_inputs_are_checked) {
    mlsys_graph g = pc_parse(&pc, donating);
    mlsys_program p = pc_compile(&pc, g, "");
    float data[24] = {1, 2, 3};
    mlsys_tensor big = pc_f32(&pc, 24, data), y = pc_f32(&pc, 8, data), x = pc_f32(&pc, 8, data),
                 view, other;
    mlsys_tensor out[1] = {0};
    OK(mlsys_tensor_slice(big, 0, 0, 16, 2, &view));
    pc_expect(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, y}, 1, out), MLSYS_E_ARG,
              "donated input 0 is not contiguous");
    pc_release(1, &view);
    pc_expect(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){x, x}, 1, out), MLSYS_E_ARG,
              "donated input 0 shares memory with input 1");
    OK(mlsys_tensor_slice(big, 0, 0, 8, 1, &view));
    OK(mlsys_tensor_slice(big, 0, 7, 15, 1, &other));
    pc_expect(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, other}, 1, out),
              MLSYS_E_ARG, "shares memory");
    pc_release(1, &other);
    OK(mlsys_tensor_slice(big, 0, 8, 16, 1, &other)); /* beside each other */
    OK(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, other}, 1, out));
    pc_release(1, out);
    /* Outputs: the input itself, elsewhere, but not across it. */
    out[0] = view;
    OK(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, other}, 1, out));
    pc_release(1, &other);
    OK(mlsys_tensor_slice(big, 0, 1, 9, 1, &other));
    out[0] = other;
    pc_expect(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, y}, 1, out), MLSYS_E_ARG,
              "output 0 shares memory with input 0");
    pc_release(1, &other);
    OK(mlsys_tensor_reverse(view, 0, &other)); /* the same elements in another order */
    out[0] = other;
    pc_expect(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, y}, 1, out), MLSYS_E_ARG,
              "output 0 shares memory with input 0");
    pc_release(1, &other);
    out[0] = x;
    OK(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){view, y}, 1, out));
    ck_assert(((const float *)rg_view(x).data)[0] == ((const float *)rg_view(view).data)[0]);
    pc_release(1, &view);
    pc_release(1, &big);
    pc_release(1, &x);
    pc_release(1, &y);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("program memory");
    TCase *tc = tcase_create("memory");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, overlapping_update, 0, 2);
    tcase_add_loop_test(tc, results_do_not_land_on_what_is_needed, 0, N_TEMPTING);
    tcase_add_test(tc, update_costs_its_window_in_place);
    tcase_add_test(tc, constants_in_one_storage_count_once);
    tcase_add_test(tc, chains_run_in_place);
    tcase_add_test(tc, donated_memory_keeps_the_output_shape);
    tcase_add_test(tc, random_programs_with_donation);
    tcase_add_test(tc, donated_inputs_are_checked);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
