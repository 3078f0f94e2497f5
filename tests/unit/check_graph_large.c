/* Graphs: what the builder refuses, what the verifier finds, and graphs of a hundred thousand
 * nodes. */
#include "ir/ops/op_def.h"
#include "support/graph_case.h"
#include "support/random_graph.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mlsys_value input(const char *name, mlsys_dtype dtype, int32_t rank, int64_t a, int64_t b) {
    mlsys_value v;
    const mlsys_dim shape[2] = {a, b};
    OK(mlsys_graph_input(graph, name, dtype, rank, shape, &v));
    return v;
}

static mlsys_value op1(const char *op, mlsys_value a) {
    mlsys_value v;
    OK(mlsys_graph_op(graph, op, 1, &a, NULL, 1, &v));
    return v;
}

static char *printed(const mlsi_graph *g) {
    mlsi_text t;
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    ck_assert_int_eq(t.st, MLSYS_OK);
    char *copy = strdup(t.data);
    mlsi_text_free(&t);
    return copy;
}

/* ---- large graphs
 * -------------------------------------------------------------------------------- */

enum { CHAIN = 100000 };

START_TEST(a_long_chain) {
    mlsys_stream stream;
    mlsys_program program;
    mlsys_graph back;
    mlsys_tensor in, out[1] = {NULL}, ref[1] = {NULL};
    mlsys_value v = input("x", MLSYS_F32, 1, 4, 0);
    const int64_t shape[1] = {4};
    const float x[4] = {1, 2, -3, 0.5f};
    static const char *const ops[] = {"neg", "abs", "sin", "neg", "round"};
    for (int i = 0; i < CHAIN; i++)
        v = op1(ops[i % 5], v);
    OK(mlsys_graph_output(graph, "y", v));
    OK(mlsys_graph_verify(graph));
    char *text = printed(inside);
    OK(mlsys_graph_parse(ctx_handle, text, &back));
    free(text);
    OK(mlsys_stream_create(device_handle, NULL, &stream));
    OK(mlsys_tensor_create(device_handle, MLSYS_F32, 1, shape, &in));
    OK(mlsys_tensor_write(in, stream, x, sizeof x));
    OK(mlsys_graph_compile(back, device_handle, NULL, &program));
    OK(mlsys_program_run(program, stream, 1, &in, 1, out));
    OK(mlsys_graph_interpret(graph, stream, 1, &in, 1, ref));
    ck_assert_int_eq(rg_difference(out[0], ref[0]), -1);
    void *handles[] = {in, out[0], ref[0], program, back, stream};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        OK(mlsys_release(handles[i]));
}
END_TEST

/* Many values alive at once, many constants, no memory shared. */
START_TEST(a_wide_graph) {
    enum { WIDTH = 4000 };
    static mlsys_value leaves[2 * WIDTH];
    mlsys_stream stream;
    mlsys_program program;
    mlsys_tensor in, out[1] = {NULL}, ref[1] = {NULL};
    const int64_t shape[2] = {4, 4};
    float data[16];
    mlsys_value x = input("x", MLSYS_F32, 2, 4, 4);
    OK(mlsys_stream_create(device_handle, NULL, &stream));
    for (int i = 0; i < WIDTH; i++) {
        mlsys_tensor t;
        mlsys_value c;
        for (int k = 0; k < 16; k++)
            data[k] = (float)(i * 16 + k) / 1024;
        OK(mlsys_tensor_create(device_handle, MLSYS_F32, 2, shape, &t));
        OK(mlsys_tensor_write(t, stream, data, sizeof data));
        OK(mlsys_graph_const(graph, t, &c));
        OK(mlsys_release(t));
        OK(mlsys_graph_op(graph, "matmul", 2, (mlsys_value[]){x, c}, NULL, 1, &leaves[i]));
    }
    int n = WIDTH; /* a tree of sums */
    for (int i = 0; i + 1 < n; i += 2)
        OK(mlsys_graph_op(graph, "add", 2, &leaves[i], NULL, 1, &leaves[n++]));
    OK(mlsys_graph_output(graph, NULL, leaves[n - 1]));
    OK(mlsys_tensor_create(device_handle, MLSYS_F32, 2, shape, &in));
    OK(mlsys_tensor_write(in, stream, data, sizeof data));
    OK(mlsys_graph_compile(graph, device_handle, NULL, &program));
    OK(mlsys_program_run(program, stream, 1, &in, 1, out));
    OK(mlsys_graph_interpret(graph, stream, 1, &in, 1, ref));
    ck_assert_int_eq(rg_difference(out[0], ref[0]), -1);
    void *handles[] = {in, out[0], ref[0], program, stream};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        OK(mlsys_release(handles[i]));
}
END_TEST

/* depth functions, each called by the one before it. */
static void nest(const char *kind, int depth, mlsys_graph *out) {
    mlsys_graph inner = NULL, outer;
    for (int i = 0; i <= depth; i++) {
        mlsys_value x, p, y;
        const mlsys_dim four[1] = {4};
        OK(mlsys_graph_create(ctx_handle, &outer));
        OK(mlsys_graph_input(outer, "x", MLSYS_F32, 1, four, &x));
        OK(mlsys_graph_input(outer, "p", MLSYS_BOOL, 0, NULL, &p));
        if (!inner)
            OK(mlsys_graph_op(outer, "sin", 1, &x, NULL, 1, &y));
        else if (!strcmp(kind, "call"))
            OK(mlsys_graph_control(outer, "call", inner, NULL, 2, (mlsys_value[]){x, p}, 1, &y));
        else
            OK(mlsys_graph_control(outer, "if", inner, inner, 3, (mlsys_value[]){p, x, p}, 1, &y));
        OK(mlsys_graph_output(outer, NULL, y));
        OK(mlsys_release(inner));
        inner = outer;
    }
    *out = inner;
}

static void run_nested(mlsys_graph g, bool works) {
    mlsys_stream stream;
    mlsys_program program = NULL;
    mlsys_tensor in[2], out[1] = {NULL}, ref[1] = {NULL};
    const int64_t shape[1] = {4};
    OK(mlsys_stream_create(device_handle, NULL, &stream));
    OK(mlsys_tensor_create(device_handle, MLSYS_F32, 1, shape, &in[0]));
    OK(mlsys_tensor_create(device_handle, MLSYS_BOOL, 0, NULL, &in[1]));
    OK(mlsys_tensor_write(in[0], stream, (const float[]){1, 2, 3, 4}, 16));
    OK(mlsys_tensor_write(in[1], stream, "\1", 1));
    if (works) {
        OK(mlsys_graph_compile(g, device_handle, NULL, &program));
        OK(mlsys_program_run(program, stream, 2, in, 1, out));
        OK(mlsys_graph_interpret(g, stream, 2, in, 1, ref));
        ck_assert_int_eq(rg_difference(out[0], ref[0]), -1);
    } else {
        expect(mlsys_graph_compile(g, device_handle, NULL, &program), MLSYS_E_UNSUPPORTED,
               "nest deeper than 64");
        expect(mlsys_graph_interpret(g, stream, 2, in, 1, ref), MLSYS_E_UNSUPPORTED,
               "nest deeper than 64");
        expect(mlsys_graph_verify(g), MLSYS_E_UNSUPPORTED, "nest deeper than 64");
    }
    void *handles[] = {in[0], in[1], out[0], ref[0], program, stream};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        OK(mlsys_release(handles[i]));
}

START_TEST(deep_nesting) {
    static const struct {
        const char *kind;
        int depth;
        bool works;
    } cases[] = {{"call", 64, true}, {"call", 65, false}, {"if", 8, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mlsys_graph g;
        nest(cases[i].kind, cases[i].depth, &g);
        run_nested(g, cases[i].works);
        OK(mlsys_release(g));
    }
}
END_TEST

/* if of one function in both branches, 64 deep: work doubles with each level unless each function
 * is looked at once. */
START_TEST(deep_shared_branches) {
    char *text = malloc(65536);
    int n = snprintf(text, 65536, "mlsys-ir 1\nfunctions 65\n");
    for (int i = 64; i >= 0; i--) {
        n += snprintf(text + n, 65536 - (size_t)n,
                      "func %d \"f\" {\n  %%0 = input \"x\" : f32[4]\n"
                      "  %%1 = input \"p\" : bool[]\n",
                      i);
        n += i == 64
                 ? snprintf(text + n, 65536 - (size_t)n, "  %%2 = sin(%%0) : f32[4]\n")
                 : snprintf(text + n, 65536 - (size_t)n,
                            "  %%2 = if(%%1, %%0, %%1) {fn1=%d, fn2=%d} : f32[4]\n", i + 1, i + 1);
        n += snprintf(text + n, 65536 - (size_t)n, "  output \"\" %%2\n}\n");
    }
    mlsys_graph g;
    OK(mlsys_graph_parse(ctx_handle, text, &g));
    run_nested(g, true);
    OK(mlsys_release(g));
    free(text);
}
END_TEST

int main(void) {
    Suite *s = suite_create("large graphs");
    TCase *tc = tcase_create("large");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_long_chain);
    tcase_add_test(tc, a_wide_graph);
    tcase_add_test(tc, deep_nesting);
    tcase_add_test(tc, deep_shared_branches);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
