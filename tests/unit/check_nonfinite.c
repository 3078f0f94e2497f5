/* mlsi_find_nonfinite names the op where NaN or an infinity first appears, with its operands. */
#include "autodiff/reverse.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* The report for inputs x f32[3] and, if the graph takes it, s f32[]. */
static void expect(const mlsi_graph *g, const float *x, const float *s, const char *want) {
    mlsys_tensor in[2] = {pc_f32(&pc, 3, x), NULL};
    mlsi_tensor *pinned[2];
    mlsi_stream *stream;
    mlsi_text text;
    int n = 1;
    if (s) in[n++] = pc_tensor(&pc, MLSYS_F32, 0, NULL, s);
    for (int i = 0; i < n; i++)
        OK(mlsi_pin(in[i], MLSYS_KIND_TENSOR, "in", &pinned[i]));
    OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "stream", &stream));
    mlsi_text_init(&text, g->alloc);
    OK(mlsi_find_nonfinite(g, stream, n, pinned, &text));
    char got[1024] = "";
    if (text.len) snprintf(got, sizeof got, "%.*s", (int)text.len, text.data);
    ck_assert_str_eq(got, want);
    mlsi_text_free(&text);
    mlsi_unpin(stream);
    for (int i = 0; i < n; i++)
        mlsi_unpin(pinned[i]);
    pc_release(n, in);
}

START_TEST(named) {
    mlsys_graph handle = pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n"
                                       "  %0 = input \"x\" : f32[3]\n"
                                       "  %1 = full() {dtype=f32, value=-inf, shape=[]} : f32[]\n"
                                       "  %2 = log(%0) : f32[3]\n"
                                       "  %3 = sub(%2, %0) : f32[3]\n"
                                       "  %4 = sqrt(%3) : f32[3]\n"
                                       "  output \"y\" %4\n}\n");
    mlsi_graph *g;
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "graph", &g));
    expect(
        g, (float[]){1, 0, -1}, NULL,
        "log: %2 f32[3] in [0, 0], 1 NaN, 1 infinite of 3; operand 0: %0 \"x\" f32[3] in [-1, 1]");
    expect(g, (float[]){0, 1, 1}, NULL,
           "log: %2 f32[3] in [0, 0], 1 infinite of 3; operand 0: %0 \"x\" f32[3] in [0, 1]");
    expect(g, (float[]){1, 1, 2}, NULL,
           "sqrt: %4 f32[3], 3 NaN of 3; operand 0: %3 f32[3] in [-1.30685, -1]");
    expect(g, (float[]){NAN, NAN, NAN}, NULL,
           "log: %2 f32[3], 3 NaN of 3; operand 0: %0 \"x\" f32[3], 3 NaN of 3");
    mlsi_unpin(g);
    OK(mlsys_release(handle));
}
END_TEST

/* Backward nodes take part though no output needs them; a call is named as a whole. */
START_TEST(backward_and_calls) {
    mlsys_graph handle = pc_parse(&pc, "functions 2\nfunc 1 \"root\" {\n"
                                       "  %0 = input \"x\" : f32[3]\n"
                                       "  %1 = sqrt(%0) : f32[3]\n  output \"y\" %1\n}\n"
                                       "func 0 \"main\" {\n"
                                       "  %0 = input \"x\" : f32[3]\n"
                                       "  %1 = input \"s\" : f32[]\n"
                                       "  %2 = call(%0) {fn1=1} : f32[3]\n"
                                       "  %3 = mul(%2, %1) : f32[3]\n"
                                       "  %4 = reduce_sum(%3) : f32[]\n"
                                       "  output \"y\" %4\n}\n");
    mlsi_graph *g;
    int32_t y = 4, x = 0, dx;
    char got[64];
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "graph", &g));
    expect(g, (float[]){4, 0, 1}, (float[]){3}, "");
    expect(g, (float[]){4, -1, 1}, (float[]){3},
           "call: %2 f32[3] in [1, 2], 1 NaN of 3; operand 0: %0 \"x\" f32[3] in [-1, 4]");
    OK(mlsi_gradient(g, 0, 1, &y, NULL, 1, &x, &dx));
    OK(mlsi_graph_verify(g));
    snprintf(got, sizeof got, "call: %%%d f32[3] in [0.75, 1.5], 1 infinite of 3", dx);
    mlsi_text text;
    mlsi_stream *stream;
    mlsys_tensor in[2] = {pc_f32(&pc, 3, (float[]){4, 0, 1}),
                          pc_tensor(&pc, MLSYS_F32, 0, NULL, (float[]){3})};
    mlsi_tensor *pinned[2];
    for (int i = 0; i < 2; i++)
        OK(mlsi_pin(in[i], MLSYS_KIND_TENSOR, "in", &pinned[i]));
    OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "stream", &stream));
    mlsi_text_init(&text, g->alloc);
    OK(mlsi_find_nonfinite(g, stream, 2, pinned, &text));
    ck_assert_msg(text.len && !strncmp(text.data, got, strlen(got)), "%s", text.data);
    pc_expect(mlsi_find_nonfinite(g, stream, 1, pinned, &text), MLSYS_E_ARG, "1 inputs given");
    mlsi_text_free(&text);
    mlsi_unpin(stream);
    for (int i = 0; i < 2; i++)
        mlsi_unpin(pinned[i]);
    pc_release(2, in);
    mlsi_unpin(g);
    OK(mlsys_release(handle));
}
END_TEST

int main(void) {
    Suite *s = suite_create("nonfinite");
    TCase *tc = tcase_create("nonfinite");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, named);
    tcase_add_test(tc, backward_and_calls);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
