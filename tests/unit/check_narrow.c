/* Mixed precision: which ops are narrow after the pass and where casts stand, that functions keep their interface,
 * and that an MLP and a transformer train in bf16 and f16 to nearly the loss of f32. */
#include "autodiff/reverse.h"
#include "ir/passes/passes.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 12 };
static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

static const char mlp[] =
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"x\" : f32[32,16]\n  %1 = input \"t\" : i64[32]\n"
    "  %2 = input \"w1\" : f32[16,24]\n  %3 = input \"b1\" : f32[24]\n"
    "  %4 = input \"w2\" : f32[4,24]\n  %5 = input \"b2\" : f32[4]\n"
    "  %6 = matmul(%0, %2) : f32[32,24]\n  %7 = add(%6, %3) : f32[32,24]\n"
    "  %8 = gelu(%7) : f32[32,24]\n  %9 = transpose(%4) : f32[24,4]\n"
    "  %10 = matmul(%8, %9) : f32[32,4]\n  %11 = add(%10, %5) : f32[32,4]\n"
    "  %12 = cross_entropy(%11, %1) : f32[32]\n  %13 = reduce_mean(%12) : f32[]\n"
    "  output \"loss\" %13\n}\n";

static const char transformer[] =
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"x\" : i64[4,8]\n  %1 = input \"t\" : i64[4,8]\n"
    "  %2 = input \"table\" : f32[11,16]\n  %3 = input \"n1\" : f32[16]\n"
    "  %4 = input \"wq\" : f32[16,16]\n  %5 = input \"wk\" : f32[16,16]\n"
    "  %6 = input \"wv\" : f32[16,16]\n  %7 = input \"wo\" : f32[16,16]\n"
    "  %8 = input \"n2\" : f32[16]\n  %9 = input \"up\" : f32[16,32]\n"
    "  %10 = input \"down\" : f32[32,16]\n  %11 = input \"n3\" : f32[16]\n"
    "  %12 = embedding(%2, %0) : f32[4,8,16]\n  %13 = rms_norm(%12, %3) : f32[4,8,16]\n"
    "  %14 = matmul(%13, %4) : f32[4,8,16]\n  %15 = matmul(%13, %5) : f32[4,8,16]\n"
    "  %16 = matmul(%13, %6) : f32[4,8,16]\n"
    "  %17 = reshape(%14) {shape=[4, 8, 2, 8]} : f32[4,8,2,8]\n"
    "  %18 = reshape(%15) {shape=[4, 8, 2, 8]} : f32[4,8,2,8]\n"
    "  %19 = reshape(%16) {shape=[4, 8, 2, 8]} : f32[4,8,2,8]\n"
    "  %20 = attention(%17, %18, %19) {causal=top_left} : f32[4,8,2,8]\n"
    "  %21 = reshape(%20) {shape=[4, 8, 16]} : f32[4,8,16]\n"
    "  %22 = matmul(%21, %7) : f32[4,8,16]\n  %23 = add(%12, %22) : f32[4,8,16]\n"
    "  %24 = rms_norm(%23, %8) : f32[4,8,16]\n  %25 = matmul(%24, %9) : f32[4,8,32]\n"
    "  %26 = silu(%25) : f32[4,8,32]\n  %27 = matmul(%26, %10) : f32[4,8,16]\n"
    "  %28 = add(%23, %27) : f32[4,8,16]\n  %29 = rms_norm(%28, %11) : f32[4,8,16]\n"
    "  %30 = matmul(%29, %2) {transpose_b=true} : f32[4,8,11]\n"
    "  %31 = cross_entropy(%30, %1) : f32[4,8]\n  %32 = reduce_mean(%31) : f32[]\n"
    "  output \"loss\" %32\n}\n";

static mlsi_graph *open_graph(const char *text, mlsys_graph *handle) {
    mlsi_graph *g;
    *handle = pc_parse(&pc, text);
    OK(mlsi_pin(*handle, MLSYS_KIND_GRAPH, "graph", &g));
    return g;
}
static void close_graph(mlsi_graph *g, mlsys_graph handle) {
    mlsi_unpin(g);
    OK(mlsys_release(handle));
}

static char *text_of(mlsys_graph g) {
    static char text[1 << 16];
    uint64_t need;
    OK(mlsys_graph_print(g, text, sizeof text, &need));
    return text;
}

static mlsys_dtype dtype_of(const mlsi_graph *g, int32_t v) { return mlsi_type_of(g, 0, v)->dtype; }

static bool is_among(mlsi_op op, const char *const *names) {
    while (*names && strcmp(*names, mlsi_op_name(op)))
        names++;
    return *names != NULL;
}

/* ---- types --------------------------------------------------------------------------------- */

START_TEST(the_whole_text) {
    mlsys_graph handle;
    mlsi_graph *g = open_graph(mlp, &handle);
    OK(mlsi_graph_narrow(g, MLSYS_BF16, NULL, 0, NULL));
    OK(mlsi_graph_verify(g));
    ck_assert_str_eq(
        text_of(handle),
        "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n"
        "  %0 = input \"x\" : f32[32,16]\n  %1 = input \"t\" : i64[32]\n"
        "  %2 = input \"w1\" : f32[16,24]\n  %3 = input \"b1\" : f32[24]\n"
        "  %4 = input \"w2\" : f32[4,24]\n  %5 = input \"b2\" : f32[4]\n"
        "  %6 = cast(%0) {dtype=bf16} : bf16[32,16]\n"
        "  %7 = cast(%2) {dtype=bf16} : bf16[16,24]\n"
        "  %8 = matmul(%6, %7) : bf16[32,24]\n  %9 = cast(%3) {dtype=bf16} : bf16[24]\n"
        "  %10 = add(%8, %9) : bf16[32,24]\n  %11 = gelu(%10) : bf16[32,24]\n"
        "  %12 = cast(%4) {dtype=bf16} : bf16[4,24]\n  %13 = transpose(%12) {perm=[1, 0]} : "
        "bf16[24,4]\n"
        "  %14 = matmul(%11, %13) : bf16[32,4]\n  %15 = cast(%14) {dtype=f32} : f32[32,4]\n"
        "  %16 = add(%15, %5) : f32[32,4]\n  %17 = cross_entropy(%16, %1) : f32[32]\n"
        "  %18 = reduce_mean(%17) {axes=[0]} : f32[]\n  output \"loss\" %18\n}\n");
    close_graph(g, handle);
}
END_TEST

/* Operands and results of an op are of one dtype; of the transformer, by op. */
START_TEST(dtypes_by_op) {
    static const char *const narrow[] = {"matmul", "attention", "silu", "reshape", NULL};
    static const char *const wide[] = {"rms_norm",  "cross_entropy", "reduce_mean",
                                       "embedding", "add",           NULL};
    static const mlsys_dtype dtypes[] = {MLSYS_BF16, MLSYS_F16};
    for (int d = 0; d < 2; d++) {
        mlsys_graph handle;
        mlsi_graph *g = open_graph(transformer, &handle);
        int32_t values[2] = {32, 2};
        OK(mlsi_graph_narrow(g, dtypes[d], NULL, 2, values));
        OK(mlsi_graph_verify(g));
        const mlsi_func *f = &g->funcs[0];
        ck_assert_int_eq(values[0], f->outputs[0].value);
        ck_assert_int_eq(values[1], f->inputs[2]);
        ck_assert_int_eq(dtype_of(g, values[0]), MLSYS_F32);
        int casts[16] = {0};
        for (int64_t n = 0; n < f->n_nodes; n++) {
            const mlsi_node *node = &f->nodes[n];
            const mlsi_value_def *source = &f->values[node->in[0]];
            if (node->op == MLSI_OP_CAST && source->kind == MLSI_VALUE_INPUT)
                casts[source->index]++;
            if (node->op == MLSI_OP_CAST) continue;
            bool is_wide = is_among(node->op, wide);
            ck_assert_msg(is_wide != is_among(node->op, narrow), "%s", mlsi_op_name(node->op));
            for (int i = 0; i < node->n_in + node->n_out; i++) {
                int32_t v = i < node->n_in ? node->in[i] : node->first_out + i - node->n_in;
                if (!mlsi_dtype_is_float(dtype_of(g, v))) continue;
                ck_assert_msg(dtype_of(g, v) == (is_wide ? MLSYS_F32 : dtypes[d]),
                              "%s: value %d is %s", mlsi_op_name(node->op), i,
                              mlsi_dtype_get(dtype_of(g, v))->name);
            }
        }
        for (int64_t i = 0; i < f->n_inputs; i++) {
            int want = i >= 2 && mlsi_type_of(g, 0, f->inputs[i])->rank == 2;
            ck_assert_msg(casts[i] == want, "input %d is cast %d times", (int)i, casts[i]);
        }
        close_graph(g, handle);
    }
}
END_TEST

/* A value with two readers is cast once, and one turned twice before it is read. */
START_TEST(one_cast_a_value) {
    mlsys_graph handle;
    mlsi_graph *g = open_graph("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[3,3]\n"
                               "  %1 = input \"w\" : f32[3,3]\n  %2 = transpose(%1) : f32[3,3]\n"
                               "  %3 = matmul(%0, %1) : f32[3,3]\n"
                               "  %4 = matmul(%3, %2) : f32[3,3]\n"
                               "  %5 = matmul(%4, %2) : f32[3,3]\n  output \"y\" %5\n}\n",
                               &handle);
    OK(mlsi_graph_narrow(g, MLSYS_F16, NULL, 0, NULL));
    ck_assert_str_eq(
        text_of(handle),
        "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[3,3]\n"
        "  %1 = input \"w\" : f32[3,3]\n  %2 = cast(%1) {dtype=f16} : f16[3,3]\n"
        "  %3 = transpose(%2) {perm=[1, 0]} : f16[3,3]\n  %4 = cast(%0) {dtype=f16} : f16[3,3]\n"
        "  %5 = matmul(%4, %2) : f16[3,3]\n  %6 = matmul(%5, %3) : f16[3,3]\n"
        "  %7 = matmul(%6, %3) : f16[3,3]\n  %8 = cast(%7) {dtype=f32} : f32[3,3]\n"
        "  output \"y\" %8\n}\n");
    close_graph(g, handle);
}
END_TEST

/* Control flow keeps its types, its functions are narrow inside; a result dtype that was stated follows. */
START_TEST(functions) {
    mlsys_graph handle;
    mlsi_graph *g = open_graph(
        "functions 2\nfunc 1 \"layer\" {\n  %0 = input \"x\" : f32[3,3]\n"
        "  %1 = dot_general(%0, %0) {lhs_contract=[1], rhs_contract=[0], dtype=f32} : f32[3,3]\n"
        "  %2 = exp(%1) : f32[3,3]\n  output \"y\" %2\n}\n"
        "func 0 \"main\" {\n  %0 = input \"x\" : f32[3,3]\n"
        "  %1 = call(%0) {fn1=1} : f32[3,3]\n  output \"y\" %1\n}\n",
        &handle);
    OK(mlsi_graph_narrow(g, MLSYS_BF16, NULL, 0, NULL));
    OK(mlsi_graph_verify(g));
    const char *text = text_of(handle);
    ck_assert_msg(strstr(text, "%1 = call(%0) {fn1=1} : f32[3,3]") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "dtype=bf16} : bf16[3,3]\n  %3 = cast(%2)") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "= exp(%3) : f32[3,3]") != NULL, "%s", text);
    close_graph(g, handle);
}
END_TEST

/* ---- settings and failures ------------------------------------------------------------------- */

static mlsys_status narrow_with(mlsys_graph g, const char *key, const char *list) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, key, list));
    mlsys_status st = mlsys_graph_narrow(g, MLSYS_BF16, c, 0, NULL);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", mlsys_last_error());
    OK(mlsys_release(c));
    if (st != MLSYS_OK) mlsi_fail(st, "%s", sentence);
    return st;
}

START_TEST(lists) {
    static const struct {
        const char *key, *list, *part;
    } rows[] = {{"wide", "matmul", "= gelu(%7) : f32[32,24]"},
                {"wide", "gelu,conv", "gelu(%10) : f32[32,24]"},
                {"narrow", "cross_entropy", "= cross_entropy(%16, %1) : bf16[32]"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mlsys_graph g = pc_parse(&pc, mlp);
        OK(narrow_with(g, rows[i].key, rows[i].list));
        OK(mlsys_graph_verify(g));
        ck_assert_msg(strstr(text_of(g), rows[i].part) != NULL, "%s=%s: no %s in\n%s", rows[i].key,
                      rows[i].list, rows[i].part, text_of(g));
        OK(mlsys_release(g));
    }
}
END_TEST

START_TEST(refused) {
    static const char source[] = "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[3]\n"
                                 "  %1 = neg(%0) : f32[3]\n"
                                 "  %2 = bitcast(%1) {dtype=i32} : i32[3]\n  output \"y\" %2\n}\n";
    mlsys_graph g = pc_parse(&pc, source);
    char before[1024];
    uint64_t need;
    OK(mlsys_graph_print(g, before, sizeof before, &need));
    pc_expect(mlsys_graph_narrow(g, MLSYS_F32, NULL, 0, NULL), MLSYS_E_DTYPE,
              "narrow: dtype f32 (2), expected bf16 or f16");
    pc_expect(mlsys_graph_narrow(g, 999, NULL, 0, NULL), MLSYS_E_DTYPE, "unknown (999)");
    pc_expect(mlsys_graph_narrow(g, MLSYS_BF16, NULL, -1, NULL), MLSYS_E_ARG, "n is -1");
    pc_expect(mlsys_graph_narrow(g, MLSYS_BF16, NULL, 1, NULL), MLSYS_E_ARG, "values");
    pc_expect(mlsys_graph_narrow(NULL, MLSYS_BF16, NULL, 0, NULL), MLSYS_E_HANDLE, "graph_narrow");
    pc_expect(mlsys_graph_narrow(g, MLSYS_BF16, NULL, 1, (mlsys_value[]){7}), MLSYS_E_ARG,
              "not a value of this graph");
    pc_expect(narrow_with(g, "wide", "softmax,sotfmax"), MLSYS_E_NOTFOUND,
              "narrow: wide names no op \"sotfmax\"");
    pc_expect(narrow_with(g, "narrow", "full"), MLSYS_E_ARG, "full has no precision of its own");
    pc_expect(narrow_with(g, "fast", "1"), MLSYS_E_NOTFOUND, "fast");
    pc_expect(narrow_with(g, "narrow", "bitcast"), MLSYS_E_DTYPE, "bitcast");
    ck_assert_str_eq(text_of(g), before);
    OK(mlsys_release(g));
}
END_TEST

/* Through the public calls: values are translated, and old ones are refused. */
START_TEST(values) {
    mlsys_graph g;
    mlsys_value x, w, y, loss, dw, old;
    mlsys_dtype dtype;
    const mlsys_dim shape[2] = {3, 3};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &x));
    OK(mlsys_graph_input(g, "w", MLSYS_F32, 2, shape, &w));
    OK(mlsys_graph_op(g, "matmul", 2, (mlsys_value[]){x, w}, NULL, 1, &y));
    OK(mlsys_graph_op(g, "reduce_sum", 1, &y, NULL, 1, &loss));
    old = loss;
    mlsys_value v[2] = {w, loss};
    OK(mlsys_graph_narrow(g, MLSYS_BF16, NULL, 2, v));
    pc_expect(mlsys_graph_output(g, "loss", old), MLSYS_E_ARG, "not a value of this graph");
    OK(mlsys_graph_type(g, v[1], &dtype, 0, NULL, NULL));
    ck_assert_int_eq(dtype, MLSYS_F32);
    OK(mlsys_graph_gradient(g, 1, &v[1], NULL, 1, v, NULL, &dw));
    OK(mlsys_graph_type(g, dw, &dtype, 0, NULL, NULL));
    ck_assert_int_eq(dtype, MLSYS_F32);
    OK(mlsys_graph_output(g, "dw", dw));
    OK(mlsys_graph_verify(g));
    OK(mlsys_release(g));
}
END_TEST

/* ---- training ------------------------------------------------------------------------------ */

/* A sum over a batch is a product with ones (batch_sum), and keeps its dtype as sums do. */
static bool is_ones(const mlsi_graph *g, int32_t value) {
    const mlsi_value_def *def = &g->funcs[0].values[value];
    if (def->kind == MLSI_VALUE_NODE) {
        const mlsi_node *node = &g->funcs[0].nodes[def->index];
        return node->op == MLSI_OP_FULL && ((const mlsi_attr_full *)node->attrs)->value == 1;
    }
    if (def->kind != MLSI_VALUE_CONST) return false;
    mlsi_view v = mlsi_tensor_view_of(g->consts[def->index]);
    bool ones = true;
    for (int64_t i = 0; i < mlsi_view_count(&v); i++)
        ones = ones && mlsi_ref_get_f(&v, i) == 1;
    return ones;
}

/* The program that runs has so many products of this dtype, and no others. */
static void expect_products(mlsys_program handle, mlsys_dtype dtype, int expected) {
    mlsi_program *p;
    int found[2] = {0};
    OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "program", &p));
    const mlsi_func *f = &p->graph.funcs[0];
    for (int64_t n = 0; n < f->n_nodes; n++) {
        const mlsi_node *node = &f->nodes[n];
        if (node->op != MLSI_OP_DOT_GENERAL && node->op != MLSI_OP_MATMUL) continue;
        if (is_ones(&p->graph, node->in[0])) continue;
        bool both =
            dtype_of(&p->graph, node->in[0]) == dtype && dtype_of(&p->graph, node->in[1]) == dtype;
        found[!both]++;
    }
    ck_assert_msg(found[0] == expected && !found[1], "%d narrow products, %d others", found[0],
                  found[1]);
    mlsi_unpin(p);
}

/* Loss after `steps` of SGD with momentum 0 on one batch; dtype 0: not narrowed. */
static double train(const char *text, int32_t loss, mlsys_dtype dtype, double lr, int steps,
                    int products, double *first) {
    mlsys_graph handle;
    mlsi_graph *g = open_graph(text, &handle);
    int32_t v[1 + MAX_PARAMS] = {loss}, d[MAX_PARAMS];
    int n = (int)g->funcs[0].n_inputs - 2;
    for (int i = 0; i < n; i++)
        v[1 + i] = g->funcs[0].inputs[2 + i];
    if (dtype) OK(mlsi_graph_narrow(g, dtype, NULL, 1 + n, v));
    OK(mlsi_gradient(g, 0, 1, v, NULL, n, v + 1, d));
    const mlsi_type scalar = {.dtype = MLSYS_F32};
    int32_t rate;
    OK(mlsi_build_input(g, 0, "lr", &scalar, &rate));
    for (int i = 0; i < n; i++) {
        int32_t in[3] = {v[1 + i], d[i], rate}, next;
        ck_assert_int_eq(dtype_of(g, d[i]), MLSYS_F32);
        OK(mlsi_build_node(g, 0, MLSI_OP_SGD_STEP, NULL, 3, in, 1, &next));
        OK(mlsi_build_output(g, 0, NULL, next));
    }
    mlsys_program p = pc_compile(&pc, handle, "");
    if (dtype) expect_products(p, dtype, products);
    mlsys_tensor in[3 + MAX_PARAMS], out[1 + MAX_PARAMS] = {0};
    kc_rng r = kc_seed(11);
    for (int i = 0; i < 2 + n; i++) {
        const mlsi_type *t = mlsi_type_of(g, 0, g->funcs[0].inputs[i]);
        in[i] = pc_tensor(&pc, t->dtype, t->rank, t->dims, NULL);
        mlsi_view x = rg_view(in[i]);
        for (int64_t k = 0; k < mlsi_view_count(&x); k++)
            if (t->dtype == MLSYS_I64)
                ((int64_t *)x.data)[k] = (k * k + i) % 4;
            else
                ((float *)x.data)[k] = i > 1 && t->rank == 1 ? 1 : (float)kc_uniform(&r, -0.5, 0.5);
    }
    float rate_value = (float)lr, now = 0;
    in[2 + n] = pc_tensor(&pc, MLSYS_F32, 0, NULL, &rate_value);
    for (int step = 0; step < steps; step++) {
        OK(mlsys_program_run(p, pc.stream, 3 + n, in, 1 + n, out));
        now = *(const float *)rg_view(out[0]).data;
        if (!step) *first = now;
        pc_release(n, in + 2);
        memcpy(in + 2, out + 1, sizeof *in * (size_t)n);
        mlsys_release(out[0]);
        memset(out, 0, sizeof out);
    }
    pc_release(3 + n, in);
    OK(mlsys_release(p));
    close_graph(g, handle);
    return now;
}

START_TEST(trains) {
    static const struct {
        const char *text;
        int32_t loss;
        double lr;
        int steps, products;
    } nets[] = {{mlp, 13, 0.5, 120, 5}, {transformer, 32, 0.2, 120, 21}};
    for (size_t i = 0; i < 2; i++) {
        double first = 0, begin = 0;
        double want = train(nets[i].text, nets[i].loss, 0, nets[i].lr, nets[i].steps,
                            nets[i].products, &first);
        ck_assert_msg(want < 0.5 * first, "net %zu: f32 goes from %g to %g", i, first, want);
        for (int d = 0; d < 2; d++) {
            mlsys_dtype dtype = d ? MLSYS_F16 : MLSYS_BF16;
            double got = train(nets[i].text, nets[i].loss, dtype, nets[i].lr, nets[i].steps,
                               nets[i].products, &begin);
            printf("net %zu in %s: first loss %.5f (f32 %.5f), last %.5f (f32 %.5f)\n", i,
                   mlsi_dtype_get(dtype)->name, begin, first, got, want);
            /* 8 and 11 digits; a forward pass of four layers */
            ck_assert_msg(fabs(begin - first) <= (d ? 0.002 : 0.016) * first,
                          "net %zu: first loss %g, f32 %g", i, begin, first);
            ck_assert_msg(fabs(got - want) <= 0.05 * first, "net %zu: last loss %g, f32 %g", i, got,
                          want);
        }
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("narrow");
    TCase *tc = tcase_create("narrow");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_whole_text);
    tcase_add_test(tc, dtypes_by_op);
    tcase_add_test(tc, one_cast_a_value);
    tcase_add_test(tc, functions);
    tcase_add_test(tc, lists);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, values);
    tcase_add_test(tc, trains);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
