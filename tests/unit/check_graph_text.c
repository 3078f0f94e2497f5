/* The text form: it reads back to the same graph, and malformed text is refused. */
#include "ir/ops/op_def.h"
#include "support/graph_case.h"
#include "support/op_case.h"
#include "support/random_graph.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const sample =
    "mlsys-ir 1\nsymbol B 1 8 1\nfunctions 2\n"
    "func 1 \"body\" {\n  %0 = input \"x\" : f32[B,4]\n  %1 = exp(%0) : f32[B,4]\n  output \"y\" "
    "%1\n}\n"
    "func 0 \"main\" {\n  %0 = input \"x\" : f32[B,4] donated\n  %1 = input \"p\" : bool[]\n"
    "  %2 = const f32[4] hex:0000803f000000400000404000008040\n  %3 = add(%0, %2) : f32[B,4]\n"
    "  %4 = if(%1, %3) {fn1=1, fn2=1} : f32[B,4]\n  %5, %6 = topk(%4) {k=2, axis=1} : f32[B,2], "
    "i64[B,2]\n"
    "  %7 = gelu(%5) {form=tanh} : f32[B,2]\n  %8 = reshape(%7) {shape=[2*B]} : f32[2*B]\n"
    "  %9 = transpose(%7) {perm=[1, 0]} : f32[2,B]\n"
    "  output \"a\" %8\n  output \"b\" %6\n  output \"c\" %9\n}\n";

/* ---- text ---------------------------------------------------------------------------------------
 */

static char *printed(const mlsi_graph *g) {
    mlsi_text t;
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    ck_assert_int_eq(t.st, MLSYS_OK);
    char *copy = strdup(t.data);
    mlsi_text_free(&t);
    return copy;
}

static void check_round_trip(const mlsi_graph *g) {
    mlsi_graph back;
    char *first = printed(g);
    OK(mlsi_graph_init(&back, ctx));
    mlsys_status st = mlsi_graph_parse(&back, device, first);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), first);
    char *second = printed(&back);
    if (strcmp(first, second)) ck_abort_msg("printed\n%s\nread back as\n%s", first, second);
    for (int64_t f = 0; f < g->n_funcs; f++) /* not in the text alone */
        for (int64_t v = 0; v < g->funcs[f].n_values; v++) {
            REQUIRE(g->funcs[f].values[v].kind == back.funcs[f].values[v].kind);
            REQUIRE(g->funcs[f].values[v].type.rank == back.funcs[f].values[v].type.rank);
        }
    free(first);
    free(second);
    mlsi_graph_free(&back);
}

START_TEST(every_op_reads_back) {
    int graphs = 0, symbolic = 0;
    for (int c = 0; c < op_case_count; c++) {
        op_variant v;
        for (int i = 0; op_case_variant(&op_cases[c], i, NULL, &v); i++) {
            mlsi_graph g;
            int32_t in[KC_OPERANDS], out[KC_OPERANDS];
            OK(op_variant_graph(ctx, &v, &g));
            check_round_trip(&g);
            mlsi_graph_free(&g);
            graphs++;
            if (op_variant_symbolic(ctx, &v, i % 2, &g, in, out) == MLSYS_OK) {
                check_round_trip(&g);
                symbolic++;
            }
            mlsi_graph_free(&g);
        }
    }
    printf("%d graphs, %d symbolic ones\n", graphs, symbolic);
    ck_assert_int_gt(symbolic, graphs / 4);
}
END_TEST

START_TEST(random_graphs_read_back) {
    printf("seeds 1 to 300\n");
    for (uint64_t seed = 1; seed <= 300; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        rg_options o = {.nodes = 20,
                        .inputs = 3,
                        .outputs = 4,
                        .symbols = seed & 1,
                        .control = seed & 2,
                        .donate = true};
        OK(mlsi_graph_init(&g, ctx));
        rg_graph(&r, &g, device, &o);
        check_round_trip(&g);
        mlsi_graph_free(&g);
    }
}
END_TEST

/* Constants of every dtype and layout, with all bit patterns. */
START_TEST(constants_read_back) {
    static const mlsys_dtype dtypes[] = {
        MLSYS_F64,  MLSYS_F32,  MLSYS_F16,  MLSYS_BF16, MLSYS_F8E4M3, MLSYS_F8E5M2, MLSYS_I64,
        MLSYS_I32,  MLSYS_I16,  MLSYS_I8,   MLSYS_U8,   MLSYS_BOOL,   MLSYS_Q4_0,   MLSYS_Q4_1,
        MLSYS_Q5_0, MLSYS_Q5_1, MLSYS_Q8_0, MLSYS_Q4_K, MLSYS_Q5_K,   MLSYS_Q6_K};
    kc_rng r = kc_seed(3);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const mlsi_dtype_info *info = mlsi_dtype_get(dtypes[i]);
        const int64_t shape[2] = {3, 4 * info->block_elems};
        mlsys_tensor t, view;
        mlsys_value v;
        void *data;
        uint64_t bytes;
        OK(mlsys_tensor_create(device_handle, dtypes[i], 2, shape, &t));
        OK(mlsys_tensor_data(t, &data, &bytes));
        for (uint64_t k = 0; k < bytes; k++)
            ((uint8_t *)data)[k] = (uint8_t)kc_bits(&r);
        if (dtypes[i] == MLSYS_BOOL)
            for (uint64_t k = 0; k < bytes; k++)
                ((uint8_t *)data)[k] &= 1;
        OK(mlsys_graph_const(graph, t, &v));
        OK(mlsys_graph_output(graph, NULL, v));
        if (info->block_elems == 1)
            OK(mlsys_tensor_transpose(t, 0, 1, &view));
        else
            OK(mlsys_tensor_reverse(t, 0, &view));
        OK(mlsys_graph_const(graph, view, &v));
        OK(mlsys_release(view));
        OK(mlsys_release(t));
    }
    check_round_trip(inside);
    char *text = printed(inside); /* the transpose is printed in its own row-major order */
    ck_assert(strstr(text, "%1 = const f64[4,3] hex:"));
    free(text);
}
END_TEST

START_TEST(names_read_back) {
    mlsys_value x;
    char all[256];
    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    all[255] = 0;
    OK(mlsys_graph_input(graph, all, MLSYS_F32, 0, NULL, &x));
    OK(mlsys_graph_output(graph, all, x));
    OK(mlsys_graph_output(graph, "\"\\x00\"", x));
    OK(mlsys_graph_output(graph,
                          "gr\xc3\xb6\xc3\x9f"
                          "e",
                          x));
    check_round_trip(inside);
    mlsys_graph back;
    char *text = printed(inside);
    OK(mlsys_graph_parse(ctx_handle, text, &back));
    mlsi_graph *g;
    OK(mlsi_pin(back, MLSYS_KIND_GRAPH, "back", &g));
    ck_assert_str_eq(g->funcs[0].values[0].name, all);
    ck_assert_str_eq(g->funcs[0].outputs[1].name, "\"\\x00\"");
    mlsi_unpin(g);
    OK(mlsys_release(back));
    free(text);
}
END_TEST

static mlsys_status same_type_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                                    const int32_t *ndims, const int64_t *in_shapes,
                                    mlsys_config attrs, int32_t n_out, mlsys_dtype *out_dtypes,
                                    int32_t *out_ndims, int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, sizeof *in_shapes * 8);
    return MLSYS_OK;
}

static mlsys_status no_run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                           mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    (void)user, (void)stream, (void)n_in, (void)in, (void)attrs, (void)n_out, (void)out;
    return MLSYS_OK;
}

START_TEST(custom_ops_read_back) {
    mlsys_opdef d;
    mlsys_config c;
    mlsys_dim b;
    char text[400];
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "mine.v2", d.n_in = d.n_out = 1, d.infer = same_type_infer, d.run = no_run;
    OK(mlsys_op_register(ctx_handle, &d));
    OK(mlsys_graph_symbol(graph, "B", 1, 8, 1, &b));
    const mlsys_dim shape[2] = {b, 4};
    mlsys_value x, y;
    OK(mlsys_graph_input(graph, "x", MLSYS_F32, 2, shape, &x));
    OK(mlsys_config_create(&c));
    memset(text, 'a', sizeof text);
    text[399] = 0, text[7] = '"', text[8] = '\n', text[9] = '}';
    const int64_t list[3] = {INT64_MIN, 0, INT64_MAX};
    OK(mlsys_config_set_str(c, "long text", text));
    OK(mlsys_config_set_str(c, "empty", ""));
    OK(mlsys_config_set_i64(c, "int", INT64_MIN));
    OK(mlsys_config_set_f64(c, "tiny", 0x1.8p-1070));
    OK(mlsys_config_set_f64(c, "minus", -1.0 / 3));
    OK(mlsys_config_set_f64(c, "inf", -__builtin_inf()));
    OK(mlsys_config_set_f64(c, "nan", __builtin_nan("")));
    OK(mlsys_config_set_i64s(c, "list", 3, list));
    OK(mlsys_config_set_i64s(c, "none", 0, list));
    OK(mlsys_graph_op(graph, "mine.v2", 1, &x, c, 1, &y));
    OK(mlsys_graph_op(graph, "mine.v2", 1, &y, NULL, 1, &y));
    OK(mlsys_graph_output(graph, "y", y));
    check_round_trip(inside);
    /* Dims in a list could not be translated into another graph. */
    OK(mlsys_config_set_i64s(c, "shape", 2, shape));
    expect(mlsys_graph_op(graph, "mine.v2", 1, &y, c, 1, &y), MLSYS_E_UNSUPPORTED,
           "mine.v2: attribute shape: entry 0 is a symbolic dim");
    OK(mlsys_release(c));
}
END_TEST

/* Text in, text out through the public calls. */
/* An expression of numbers in an attribute is the number that it is, so that text reads back. */
START_TEST(expressions_of_numbers) {
    static const char form[] =
        "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[4]\n"
        "  %%1 = slice(%%0) {starts=[0], stops=[%s], steps=[1]} : f32[2]\n"
        "  output \"\" %%1\n}\n";
    char text[512], plain[512];
    mlsi_graph g;
    snprintf(text, sizeof text, form, "- 5 + 3");
    snprintf(plain, sizeof plain, form, "-2");
    OK(mlsi_graph_init(&g, ctx));
    OK(mlsi_graph_parse(&g, device, text));
    char *got = printed(&g);
    ck_assert_str_eq(got, plain);
    free(got);
    check_round_trip(&g);
    mlsi_graph_free(&g);
    snprintf(text, sizeof text, form, "- 9223372036854775807");
    OK(mlsi_graph_init(&g, ctx));
    expect(mlsi_graph_parse(&g, device, text), MLSYS_E_ARG,
           "stops: entry 0 is not a dim of this graph");
    mlsi_graph_free(&g);
}
END_TEST

START_TEST(public_text) {
    mlsys_graph back;
    char *text = malloc(65536), *again = malloc(65536);
    uint64_t need;
    OK(mlsys_graph_parse(ctx_handle, sample, &back));
    expect(mlsys_graph_print(back, text, 10, &need), MLSYS_E_BUFFER, "needed");
    ck_assert_uint_eq(need, strlen(sample) + 1);
    OK(mlsys_graph_print(back, text, 65536, &need));
    ck_assert_str_eq(text, sample);
    OK(mlsys_release(back));
    free(text);
    free(again);
}
END_TEST

/* ---- malformed text
 * ------------------------------------------------------------------------------ */

static void refuse(const char *text) {
    mlsi_graph g;
    uint64_t live = atomic_load(&ctx->alloc.live_bytes);
    OK(mlsi_graph_init(&g, ctx));
    mlsys_status st = mlsi_graph_parse(&g, device, text);
    if (st == MLSYS_OK) ck_abort_msg("was read:\n%s", text);
    if (strncmp(mlsys_last_error(), "ir: ", 4) && strncmp(mlsys_last_error(), "verify: ", 8))
        ck_abort_msg("\"%s\" for\n%s", mlsys_last_error(), text);
    mlsi_graph_free(&g);
    ck_assert_uint_eq(atomic_load(&ctx->alloc.live_bytes), live);
}

START_TEST(cut_text) {
    size_t n = strlen(sample);
    char *text = malloc(n + 1);
    for (size_t i = 0; i + 1 < n; i++) { /* without the last line's end it is whole */
        memcpy(text, sample, i);
        text[i] = 0;
        refuse(text);
    }
    free(text);
}
END_TEST

#define HEAD     "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n"
#define F0(body) HEAD body "\n}\n"
static const char *const malformed[] = {
    "",
    "mlsys-ir 2\nfunctions 1\nfunc 0 \"main\" {\n}\n",
    "mlsys-ir 1\nfunctions 0\n",
    "mlsys-ir 1\nfunctions -1\n",
    "mlsys-ir 1\nfunctions 99999999999999999999\n",
    "mlsys-ir 1\nfunctions 5000\n",
    "mlsys-ir 1\nfunctions 2\nfunc 0 \"main\" {\n}\n",
    "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n}\nfunc 0 \"main\" {\n}\n",
    "mlsys-ir 1\nfunctions 1\nfunc 1 \"main\" {\n}\n",
    "mlsys-ir 1\nsymbol B 1\nfunctions 1\nfunc 0 \"m\" {\n}\n",
    "mlsys-ir 1\nsymbol B 5 1 1\nfunctions 1\nfunc 0 \"m\" {\n}\n",
    "mlsys-ir 1\nsymbol B 1 99999999999999999999 1\nfunctions 1\nfunc 0 \"m\" {\n}\n",
    "mlsys-ir 1\nsymbol B 1 4 1\nsymbol B 1 5 1\nfunctions 1\nfunc 0 \"m\" {\n}\n",
    F0("  %2 = exp(%0) : f32[4]"),
    F0("  %1 = exp(%1) : f32[4]"),
    F0("  %1 = exp(%-1) : f32[4]"),
    F0("  %1 = exp(%99999999999999999999) : f32[4]"),
    F0("  %1 = exp(_) : f32[4]"),
    F0("  %1 = exp() : f32[4]"),
    F0("  %1 = exp(%0 : f32[4]"),
    F0("  %1 = exp(%0,) : f32[4]"),
    F0("  %1 = exp(%0) : f32[5]"),
    F0("  %1 = exp(%0) : f64[4]"),
    F0("  %1 = exp(%0)"),
    F0("  %1 = exp(%0) : f32[4] more"),
    F0("  %1 = exp(%0) {x=1} : f32[4]"),
    F0("  %1 = nothing(%0) : f32[4]"),
    F0("  %1 = transpose(%0) {perm=[0,1]} : f32[4]"),
    F0("  %1 = cast(%0) : f32[4]"),
    F0("  %1 = cast(%0) {dtype=f32, dtype=f32} : f32[4]"),
    F0("  %1 = reduce_sum(%0) {axes=[9]} : f32[]"),
    F0("  %1 = reduce_sum(%0) {axes=[0] : f32[]"),
    F0("  %1, %2 = exp(%0) : f32[4], f32[4]"),
    F0("  %1, %3 = topk(%0) {k=1} : f32[1], i32[1]"),
    F0("  %1 = call(%0) {fn1=0} : f32[4]"),
    F0("  %1 = call(%0) {fn1=1} : f32[4]"),
    F0("  %1 = custom \"absent\"(%0) : f32[4]"),
    F0("  %1 = input \"x\" : f32[4]"),
    F0("  %1 = input \"y\" : f32[4"),
    F0("  %1 = input \"y\" : f32[-4]"),
    F0("  %1 = input \"y\" : f32[Q]"),
    F0("  %1 = input \"y\" : f32[1,1,1,1,1,1,1,1,1]"),
    F0("  %1 = input \"y\" : f31[4]"),
    F0("  %1 = input \"y : f32[4]"),
    F0("  %1 = input \"\\x00\" : f32[4]"),
    F0("  %1 = input \"\\n\" : f32[4]"),
    F0("  %1, %2 = input \"y\" : f32[4]"),
    F0("  %1 = input \"y\" : q8_0[33]"),
    F0("  %1 = const f32[2] hex:0000803f"),
    F0("  %1 = const f32[2] hex:0000803f0000803f0"),
    F0("  %1 = const f32[2] hex:0000803F0000803F"),
    F0("  %1 = const f32[2] 0000803f0000803f"),
    F0("  %1 = const f32[4611686018427387904,4] hex:"),
    F0("  %1 = const f32[1000000000000] hex:00"),
    F0("  output \"y\" %1"),
    F0("  output y %0"),
    F0("  output \"y\" 0"),
    F0("  output \"y\" %0 %0"),
};
enum { N_MALFORMED = (int)(sizeof malformed / sizeof malformed[0]) };

START_TEST(malformed_text) {
    for (int i = 0; i < N_MALFORMED; i++)
        refuse(malformed[i]);
    char name[400], text[600]; /* a string past the limit */
    memset(name, 'n', sizeof name);
    name[256] = 0;
    snprintf(text, sizeof text, "%s  output \"%s\" %%0\n}\n", HEAD, name);
    refuse(text);
}
END_TEST

START_TEST(malformed_custom_attributes) {
    static const char *const bad[] = {"{\"a\"}",
                                      "{\"a\"=}",
                                      "{\"a\"=1",
                                      "{a=1}",
                                      "{\"a\"=1,}",
                                      "{\"a\"=[1}",
                                      "{\"a\"=[1,]}",
                                      "{\"a\"=[1 2]}",
                                      "{\"a\"=0x}",
                                      "{\"a\"=0x1p}",
                                      "{\"a\"=1.5}",
                                      "{\"a\"=nope}",
                                      "{\"a\"=\"}",
                                      "{\"\"=1}",
                                      "{\"a\"=1 \"b\"=1}",
                                      "{\"a\"=1, \"a\"=2}",
                                      "{\"a\"=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}"};
    mlsys_opdef d;
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "mine", d.n_in = d.n_out = 1, d.infer = same_type_infer, d.run = no_run;
    OK(mlsys_op_register(ctx_handle, &d));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[300];
        snprintf(text, sizeof text, "%s  %%1 = custom \"mine\"(%%0) %s : f32[4]\n}\n", HEAD,
                 bad[i]);
        refuse(text);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("graph text");
    TCase *tc = tcase_create("text");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_op_reads_back);
    tcase_add_test(tc, random_graphs_read_back);
    tcase_add_test(tc, constants_read_back);
    tcase_add_test(tc, names_read_back);
    tcase_add_test(tc, custom_ops_read_back);
    tcase_add_test(tc, expressions_of_numbers);
    tcase_add_test(tc, public_text);
    tcase_add_test(tc, cut_text);
    tcase_add_test(tc, malformed_text);
    tcase_add_test(tc, malformed_custom_attributes);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
