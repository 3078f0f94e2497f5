/* Gradients at single points, exactly: what docs/autodiff.md says is chosen where there is no derivative, at
 * infinities, in narrow floats and of ops that central differences cannot reach. Interpreted and compiled. */
#include "autodiff/reverse.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INPUTS = 6, MAX_VALUES = 16 };

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* types: of the inputs, and the output's behind a colon; call: of %0, %1...; the last input is the output's
 * adjoint; want: of the other float inputs, in their order. */
static const struct {
    const char *name, *types, *call;
    double in[MAX_INPUTS][MAX_VALUES], want[MAX_INPUTS][MAX_VALUES];
} rows[] = {
    {"abs at 0", "f32[3]; f32[3]: f32[3]", "abs(%0)", {{-2, 0, 3}, {1, 1, 1}}, {{-1, 0, 1}}},
    {"relu at 0", "f32[3]; f32[3]: f32[3]", "relu(%0)", {{-2, 0, 3}, {4, 5, 6}}, {{0, 0, 6}}},
    {"step", "f32[2]; f32[2]: f32[2]", "floor(%0)", {{1, 2.5}, {1, 1}}, {{0}}},
    {"max of equals",
     "f32[3]; f32[3]; f32[3]: f32[3]",
     "max(%0, %1)",
     {{1, 2, 3}, {1, 5, 0}, {2, 4, 6}},
     {{1, 0, 6}, {1, 4, 0}}},
    {"min of equals",
     "f32[3]; f32[3]; f32[3]: f32[3]",
     "min(%0, %1)",
     {{1, 2, 3}, {1, 5, 0}, {2, 4, 6}},
     {{1, 4, 0}, {1, 0, 6}}},
    {"clamp at its ends",
     "f32[5]; f32[]; f32[]; f32[5]: f32[5]",
     "clamp(%0, %1, %2)",
     {{0, 1, 2, 5, -3}, {0}, {2}, {1, 2, 4, 8, 16}},
     {{1, 2, 4}, {16}, {8}}},
    {"clamp, lo above hi",
     "f32[3]; f32[3]; f32[3]; f32[3]: f32[3]",
     "clamp(%0, %1, %2)",
     {{0, 9, 2.5}, {3, 3, 3}, {2, 2, 2}, {1, 2, 4}},
     {{0}, {0}, {1, 2, 4}}},
    {"the road not taken, by the graph's first value",
     "bool[2]; f32[2]; f32[2]: f32[2]",
     "rsqrt(%1) : f32[2]\n  %4 = select(%0, %3, %1)",
     {{0, 1}, {0, 4}, {1, 2}},
     {{1, -0.125}}},
    {"no road, where the graph's first value could choose one",
     "bool[2]; f32[2]; f32[2]: f32[2]",
     "sqrt(%1)",
     {{0, 0}, {4, 16}, {1, 2}},
     {{0.25, 0.25}}},
    {"the road not taken, used twice",
     "bool[2]; f32[2]; f32[2]: f32[2]",
     "rsqrt(%1) : f32[2]\n  %4 = add(%3, %3) : f32[2]\n  %5 = select(%0, %4, %1)",
     {{0, 1}, {0, 4}, {1, 2}},
     {{1, -0.25}}},
    {"the road not taken, at a fork on a road not taken",
     "bool[2]; bool[2]; f32[2]; f32[2]: f32[2]",
     "rsqrt(%2) : f32[2]\n  %5 = select(%1, %4, %2) : f32[2]\n  %6 = select(%0, %5, %2)",
     {{0, 1}, {1, 1}, {0, 4}, {1, 2}},
     {{1, -0.125}}},
    {"the road not taken, where it was broadcast",
     "bool[2]; f32[2]; f32[]; f32[2]: f32[2]",
     "sqrt(%2) : f32[]\n  %5 = mul(%1, %4) : f32[2]\n  %6 = select(%0, %5, %1)",
     {{1, 0}, {3, 5}, {4}, {1, 2}},
     {{2, 2}, {0.75}}},
    {"rem",
     "f32[2]; f32[2]; f32[2]: f32[2]",
     "rem(%0, %1)",
     {{5, -5}, {2, 2}, {1, 1}},
     {{1, 1}, {-2, 2}}},
    {"mod",
     "f32[2]; f32[2]; f32[2]: f32[2]",
     "mod(%0, %1)",
     {{5, -5}, {2, 2}, {1, 1}},
     {{1, 1}, {-2, 3}}},
    {"pow where a or b is 0",
     "f32[5]; f32[5]; f32[5]: f32[5]",
     "pow(%0, %1)",
     {{0, 0, 0, 1, 1}, {0, 1, 2, 0, 3}, {1, 1, 1, 1, 1}},
     {{0, 1, 0, 0, 3}, {0}}},
    {"pow of 0 to a negative power: by b it has no limit",
     "f32[1]; f32[1]; f32[1]: f32[1]",
     "pow(%0, %1)",
     {{0}, {-2}, {1}},
     {{-INFINITY}, {-INFINITY}}},
    {"reduce_max, equal shares",
     "f32[2,3]; f32[2]: f32[2]",
     "reduce_max(%0) {axes=[1]}",
     {{4, 4, 1, 2, 7, 7}, {2, 6}},
     {{1, 1, 0, 0, 3, 3}}},
    {"reduce_min, equal shares",
     "f16[2,3]; f16[2]: f16[2]",
     "reduce_min(%0) {axes=[1]}",
     {{4, 1, 1, 2, 2, 7}, {2, 6}},
     {{0, 1, 1, 3, 3, 0}}},
    {"reduce_prod with zeros",
     "f32[3,3]; f32[3]: f32[3]",
     "reduce_prod(%0) {axes=[1]}",
     {{0, 2, 3, 0, 0, 5, 1, 2, 3}, {1, 1, 1}},
     {{6, 0, 0, 0, 0, 0, 6, 3, 2}}},
    {"reduce_mean", "f16[4]; f16[]: f16[]", "reduce_mean(%0)", {{1, 2, 3, 4}, {8}}, {{2, 2, 2, 2}}},
    {"running max, the latest of equals",
     "f32[4]; f32[4]: f32[4]",
     "scan(%0) {kind=max}",
     {{1, 3, 3, 2}, {1, 2, 4, 8}},
     {{1, 2, 12, 0}}},
    {"running max, backwards",
     "f32[4]; f32[4]: f32[4]",
     "scan(%0) {kind=max, reverse=true}",
     {{2, 3, 3, 1}, {1, 2, 4, 8}},
     {{0, 3, 4, 8}}},
    {"running max, exclusive",
     "f32[4]; f32[4]: f32[4]",
     "scan(%0) {kind=max, exclusive=true}",
     {{1, 3, 3, 2}, {1, 2, 4, 8}},
     {{2, 4, 8, 0}}},
    {"running min, exclusive and backwards",
     "f32[1,4]; f32[1,4]: f32[1,4]",
     "scan(%0) {kind=min, exclusive=true, reverse=true}",
     {{2, 1, 1, 3}, {1, 2, 4, 8}},
     {{0, 1, 2, 4}}},
    {"running min along the first axis",
     "f32[3,2]; f32[3,2]: f32[3,2]",
     "scan(%0) {kind=min, axis=0}",
     {{3, 1, 1, 2, 2, 0}, {1, 2, 4, 8, 16, 32}},
     {{1, 10, 20, 0, 0, 32}}},
    {"running product with a zero",
     "f32[3]; f32[3]: f32[3]",
     "scan(%0) {kind=prod}",
     {{2, 0, 5}, {1, 1, 1}},
     {{1, 12, 0}}},
    {"pool, the first of equals",
     "f32[1,1,4]; f32[1,1,3]: f32[1,1,3]",
     "pool(%0) {kernel=[2]}",
     {{1, 1, 1, 0}, {1, 2, 4}},
     {{1, 2, 4, 0}}},
    {"pool, windows side by side, the first of equals",
     "f32[1,1,4]; f32[1,1,2]: f32[1,1,2]",
     "pool(%0) {kernel=[2], strides=[2]}",
     {{1, 1, 0, 1}, {1, 2}},
     {{1, 0, 0, 2}}},
    {"pool of infinities beside padding",
     "f32[1,1,2]; f32[1,1,3]: f32[1,1,3]",
     "pool(%0) {kernel=[2], pads=[1,1]}",
     {{-INFINITY, INFINITY}, {1, 2, 4}},
     {{1, 6}}},
    {"pool of infinities beside padding, windows side by side",
     "f32[1,1,2]; f32[1,1,2]: f32[1,1,2]",
     "pool(%0) {kernel=[2], strides=[2], pads=[1,1]}",
     {{-INFINITY, INFINITY}, {1, 2}},
     {{1, 2}}},
    {"scatter max, equal shares",
     "f32[2]; i64[3]; f32[3]; f32[2]: f32[2]",
     "scatter(%0, %1, %2) {kind=max}",
     {{2, 1}, {0, 0, 1}, {2, 2, 0}, {3, 5}},
     {{1, 5}, {1, 1, 0}}},
    {"scatter min, equal shares",
     "f32[2]; i64[3]; f32[3]; f32[2]: f32[2]",
     "scatter(%0, %1, %2) {kind=min}",
     {{2, 1}, {0, 0, 1}, {2, 3, 0}, {4, 5}},
     {{2, 0}, {2, 0, 5}}},
    {"scatter, the last update of a row",
     "f32[3]; i64[3]; f32[3]; f32[3]: f32[3]",
     "scatter(%0, %1, %2) {kind=set}",
     {{1, 2, 3}, {0, -3, 2}, {4, 5, 6}, {1, 2, 4}},
     {{0, 2, 0}, {0, 1, 4}}},
    {"scatter along a middle axis",
     "f32[1,2,2]; i32[3]; f32[1,3,2]; f32[1,2,2]: f32[1,2,2]",
     "scatter(%0, %1, %2) {kind=set, axis=1}",
     {{1, 2, 3, 4}, {1, 0, 1}, {5, 6, 7, 8, 9, 10}, {1, 2, 4, 8}},
     {{0}, {0, 0, 1, 2, 4, 8}}},
    {"scatter of factors",
     "f32[3]; i64[3]; f32[3]: f32[3]",
     "full() {dtype=f32, value=3, shape=[3]} : f32[3]\n  %4 = scatter(%0, %1, %3) {kind=mul}",
     {{5, 6, 7}, {0, 0, 2}, {1, 2, 4}},
     {{9, 2, 12}}},
    {"scatter of factors, some of them 0",
     "f32[3]; i64[5]; f32[5]; f32[3]: f32[3]",
     "scatter(%0, %1, %2) {kind=mul}",
     {{5, 6, 7}, {0, 0, 2, 2, 1}, {2, 0, 0, 0, 4}, {1, 2, 4}},
     {{0, 8, 0}, {0, 10, 0, 0, 12}}},
    {"logsumexp of -inf",
     "f32[2,2]; f32[2]: f32[2]",
     "logsumexp(%0)",
     {{-INFINITY, -INFINITY, 0, -INFINITY}, {1, 3}},
     {{0, 0, 3, 0}}},
    {"an ignored target",
     "f32[2,2]; i64[2]; f32[2]: f32[2]",
     "cross_entropy(%0, %1)",
     {{0, 0, NAN, INFINITY}, {0, -100}, {2, 4}},
     {{-1, 1, 0, 0}}},
    {"softmax", "f16[2]; f16[2]: f16[2]", "softmax(%0)", {{3, 3}, {1, 3}}, {{-0.5, 0.5}}},
    {"log_softmax beside -inf",
     "f16[2]; f16[2]: f16[2]",
     "log_softmax(%0)",
     {{3, -INFINITY}, {1, 3}},
     {{-3, 3}}},
    {"layer_norm of narrow rows",
     "f16[1,4]; f32[4]; f32[4]; f16[1,4]: f16[1,4]",
     "layer_norm(%0, %1, %2) {eps=0x0p+0}",
     {{-1, 1, -1, 1}, {2, 2, 2, 2}, {0}, {0.5, 1.5, 1, 3}},
     {{-0.5, -1.5, 0.5, 1.5}, {-0.5, 1.5, -1, 3}, {0.5, 1.5, 1, 3}}},
    {"layer_norm, whose factors are the graph's first value",
     "f32[4]; f32[1,4]; f32[4]; f32[1,4]: f32[1,4]",
     "layer_norm(%1, %0, %2) {eps=0x0p+0}",
     {{2, 2, 2, 2}, {-1, 1, -1, 1}, {0}, {0.5, 1.5, 1, 3}},
     {{-0.5, 1.5, -1, 3}, {-0.5, -1.5, 0.5, 1.5}, {0.5, 1.5, 1, 3}}},
    {"layer_norm, whose terms are the graph's first value",
     "f32[4]; f32[1,4]; f32[4]; f32[1,4]: f32[1,4]",
     "layer_norm(%1, %2, %0) {eps=0x0p+0}",
     {{0}, {-1, 1, -1, 1}, {2, 2, 2, 2}, {0.5, 1.5, 1, 3}},
     {{0.5, 1.5, 1, 3}, {-0.5, -1.5, 0.5, 1.5}, {-0.5, 1.5, -1, 3}}},
    {"rms_norm of narrow rows",
     "f16[2,2]; f32[2]; f16[2,2]: f16[2,2]",
     "rms_norm(%0, %1) {eps=0x0p+0}",
     {{1, 1, 1, -1}, {1, 2}, {1, 3, 2, 1}},
     {{-2.5, 2.5, 2, 2}, {3, 2}}},
    {"embedding of a narrow table",
     "f16[3,2]; i32[3]; f32[3,2]: f32[3,2]",
     "embedding(%0, %1) {dtype=f32}",
     {{1, 2, 3, 4, 5, 6}, {1, -2, 0}, {1, 2, 4, 8, 16, 32}},
     {{16, 32, 5, 10, 0, 0}}},
    {"sort, equals in their order",
     "f32[4]; f32[4]: f32[4]",
     "sort(%0)",
     {{2, 1, 1, 0}, {1, 2, 4, 8}},
     {{8, 2, 4, 1}}},
    {"sort downwards, equals in their order",
     "f32[3]; f32[3]: f32[3]",
     "sort(%0) {descending=true}",
     {{1, 1, 2}, {1, 2, 4}},
     {{2, 4, 1}}},
    {"topk, the lower of equals first",
     "f32[3,1]; f32[2,1]: f32[2,1]",
     "topk(%0) {k=2, axis=0}",
     {{3, 1, 3}, {1, 2}},
     {{1, 0, 2}}},
    {"rope by its frequencies, two positions",
     "f32[1,2,1,2]; i64[2]; f32[1]; f32[1,2,1,2]: f32[1,2,1,2]",
     "rope(%0, %1, %2)",
     {{2, 3, 1, 1}, {3, 4}, {0}, {5, 7, 2, 9}},
     {{5, 7, 2, 9}, {25}}},
    {"a query that sees no key",
     "f32[1,2,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; bool[2,2]; f32[1,2,1,1]: f32[1,2,1,1]",
     "attention(%0, %1, %2, %3)",
     {{1, 2}, {1, 1}, {3, 5}, {0, 0, 1, 1}, {7, 2}},
     {{0, 0}, {-2, 2}, {1, 1}}},
    {"a mask that is the graph's first value",
     "f32[2]; f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%1, %2, %3, %0)",
     {{0, 0}, {0}, {1, -1}, {3, 5}, {2}},
     {{-1, 1}, {-2}, {0, 0}, {1, 1}}},
    {"a window of one key and those behind it",
     "f32[1,2,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[1,2,1,1]: f32[1,2,1,1]",
     "attention(%0, %1, %2) {window=1}",
     {{0, 0}, {1, -1}, {3, 5}, {2, 4}},
     {{-2, 0}, {0, 0}, {1, 5}}},
    {"a mask of bools that is the graph's first value",
     "bool[2]; f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%1, %2, %3, %0)",
     {{0, 1}, {1}, {7, 1}, {3, 5}, {2}},
     {{0}, {0, 0}, {0, 2}}},
    {"no mask, where the graph's first value could be one",
     "bool[2]; f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%1, %2, %3)",
     {{0, 1}, {0}, {1, -1}, {3, 5}, {2}},
     {{-2}, {0, 0}, {1, 1}}},
    {"a number of keys that is the graph's first value",
     "i64[1]; f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%1, %2, %3, %4, %0)",
     {{1}, {1}, {1, NAN}, {3, NAN}, {0}, {2}},
     {{0}, {0, 0}, {2, 0}, {0}}},
    {"a query whose mask is -inf",
     "f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[2]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%0, %1, %2, %3)",
     {{1}, {1, 1}, {3, 5}, {-INFINITY, -INFINITY}, {7}},
     {{0}, {0, 0}, {0, 0}, {0, 0}}},
    {"keys behind the valid ones hold anything",
     "f32[1,1,1,1]; f32[1,2,1,1]; f32[1,2,1,1]; f32[]; i32[1]; f32[1,1,1,1]: f32[1,1,1,1]",
     "attention(%0, %1, %2, %3, %4)",
     {{1}, {1, NAN}, {3, NAN}, {0}, {1}, {2}},
     {{0}, {0, 0}, {2, 0}, {0}}},
};

/* IR text of a row; the number of its inputs, and the value of the output. */
static int row_text(int i, char *text, size_t cap, int32_t *y) {
    const char *p = rows[i].types;
    size_t n = (size_t)snprintf(text, cap, "functions 1\nfunc 0 \"main\" {\n");
    int inputs = 0;
    for (; *p != ':'; inputs++) {
        size_t len = strcspn(p, ";:");
        n += (size_t)snprintf(text + n, cap - n, "  %%%d = input \"x%d\" : %.*s\n", inputs, inputs,
                              (int)len, p);
        p += len + (p[len] == ';' ? 2 : 0);
    }
    *y = inputs;
    for (const char *c = rows[i].call; *c; c++)
        *y += *c == '\n';
    snprintf(text + n, cap - n, "  %%%d = %s :%s\n  output \"\" %%%d\n}\n", inputs, rows[i].call,
             p + 1, (int)*y);
    return inputs;
}

static mlsys_tensor tensor_of(const mlsi_type *t, const double *values) {
    double data[MAX_VALUES]; /* room for every dtype */
    mlsi_view v = {.data = data, .dtype = t->dtype, .rank = t->rank};
    int64_t count = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        v.shape[d] = t->dims[d];
        v.strides[d] = count;
        count *= t->dims[d];
    }
    for (int64_t k = 0; k < count; k++)
        if (mlsi_dtype_is_float(t->dtype))
            kc_set_f(&v, k, values[k]);
        else
            kc_set_i(&v, k, (int64_t)values[k]);
    return pc_tensor(&pc, t->dtype, t->rank, t->dims, data);
}

static void expect(int row, const int *of, int n, mlsys_tensor *out, const char *how) {
    for (int j = 0; j < n; j++) {
        mlsi_view v = rg_view(out[j]);
        for (int64_t k = 0; k < mlsi_view_count(&v); k++)
            ck_assert_msg(kc_get_f(&v, k) == rows[row].want[j][k],
                          "%s, %s: gradient by input %d, element %d: %g, expected %g",
                          rows[row].name, how, of[j], (int)k, kc_get_f(&v, k),
                          rows[row].want[j][k]);
    }
    pc_release(n, out);
}

START_TEST(rows_have_these_gradients) {
    char text[1024];
    int32_t y, x[MAX_INPUTS], dx[MAX_INPUTS];
    int n = row_text(_i, text, sizeof text, &y), of[MAX_INPUTS], n_x = 0;
    mlsys_graph g = pc_parse(&pc, text);
    mlsi_graph *inside;
    int32_t seed = n - 1;
    mlsys_tensor in[MAX_INPUTS], out[MAX_INPUTS] = {0};
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    for (int i = 0; i < n; i++) {
        const mlsi_type *t = mlsi_type_of(inside, 0, i);
        in[i] = tensor_of(t, rows[_i].in[i]);
        if (i < n - 1 && mlsi_dtype_is_float(t->dtype)) of[n_x] = x[n_x] = i, n_x++;
    }
    OK(mlsi_gradient(inside, 0, 1, &y, &seed, n_x, x, dx));
    inside->funcs[0].n_outputs = 0;
    for (int j = 0; j < n_x; j++) {
        if (dx[j] < 0) OK(mlsi_full_like(inside, 0, x[j], 0, &dx[j]));
        OK(mlsi_build_output(inside, 0, NULL, dx[j]));
    }
    mlsi_unpin(inside);
    OK(mlsys_graph_interpret(g, pc.stream, n, in, n_x, out));
    expect(_i, of, n_x, out, "interpreted");
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_run(p, pc.stream, n, in, n_x, out));
    expect(_i, of, n_x, out, "compiled");
    OK(mlsys_release(p));
    pc_release(n, in);
    OK(mlsys_release(g));
}
END_TEST

/* An adjoint that is the graph's value 0 is one: x * x by call, if and while, three times 2 * x * s; x + x, by a sum
 * of two; gelu, a composite, of 10 * x, where its slope is 1. */
START_TEST(an_adjoint_that_is_the_first_value) {
    mlsys_graph g = pc_parse(
        &pc, "functions 4\n"
             "func 3 \"turn\" {\n  %0 = input \"x\" : f32[2]\n  %1 = input \"n\" : i64[]\n"
             "  %2 = mul(%0, %0) : f32[2]\n  %3 = sub(%1, %1) : i64[]\n"
             "  output \"\" %2\n  output \"\" %3\n}\n"
             "func 2 \"more\" {\n  %0 = input \"x\" : f32[2]\n  %1 = input \"n\" : i64[]\n"
             "  %2 = full() {dtype=i64, ivalue=0, shape=[]} : i64[]\n"
             "  %3 = gt(%1, %2) : bool[]\n  output \"\" %3\n}\n"
             "func 1 \"square\" {\n  %0 = input \"x\" : f32[2]\n"
             "  %1 = mul(%0, %0) : f32[2]\n  output \"\" %1\n}\n"
             "func 0 \"main\" {\n  %0 = input \"s\" : f32[2]\n  %1 = input \"x\" : f32[2]\n"
             "  %2 = input \"p\" : bool[]\n  %3 = input \"n\" : i64[]\n"
             "  %4 = call(%1) {fn1=1} : f32[2]\n  %5 = if(%2, %1) {fn1=1, fn2=1} : f32[2]\n"
             "  %6, %7 = while(%1, %3) {fn1=2, fn2=3} : f32[2], i64[]\n"
             "  %8 = full() {dtype=f32, value=10, shape=[]} : f32[]\n  %9 = mul(%1, %8) : f32[2]\n"
             "  %10 = gelu(%9) : f32[2]\n  %11 = add(%1, %1) : f32[2]\n  output \"\" %4\n}\n");
    mlsi_graph *inside;
    const int32_t y[5] = {4, 5, 6, 10, 11}, seeds[5] = {0, 0, 0, 0, 0}, x = 1;
    const bool p = true;
    const int64_t n = 1;
    int32_t dx;
    mlsys_tensor in[4] = {
        pc_f32(&pc, 2, (const float[]){1, 2}), pc_f32(&pc, 2, (const float[]){3, 5}),
        pc_tensor(&pc, MLSYS_BOOL, 0, NULL, &p), pc_tensor(&pc, MLSYS_I64, 0, NULL, &n)};
    mlsys_tensor out[1] = {0};
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    OK(mlsi_gradient(inside, 0, 5, y, seeds, 1, &x, &dx));
    inside->funcs[0].n_outputs = 0;
    OK(mlsi_build_output(inside, 0, NULL, dx));
    mlsi_unpin(inside);
    OK(mlsys_graph_interpret(g, pc.stream, 4, in, 1, out));
    const float *got = rg_view(out[0]).data;
    ck_assert_float_eq(got[0], 18 + 2 + 10);
    ck_assert_float_eq(got[1], 60 + 4 + 20);
    pc_release(4, in);
    pc_release(1, out);
    OK(mlsys_release(g));
}
END_TEST

/* The same of attention's results: dv = s, and by the log-sum-exp dq = s * k and dmask = s. */
START_TEST(an_adjoint_of_attention_that_is_the_first_value) {
    static const struct {
        int32_t y, x; /* 5: the result, 6: its log-sum-exp; 1: q, 3: v, 4: the mask */
        float want;
    } ways[] = {{5, 3, 3}, {6, 1, 15}, {6, 4, 3}};
    for (int i = 0; i < 3; i++) {
        char text[512];
        bool lse = ways[i].y == 6, masked = ways[i].x == 4;
        snprintf(text, sizeof text,
                 "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"s\" : f32[1,1,1%s]\n"
                 "  %%1 = input \"q\" : f32[1,1,1,1]\n  %%2 = input \"k\" : f32[1,1,1,1]\n"
                 "  %%3 = input \"v\" : f32[1,1,1,1]\n  %%4 = input \"m\" : f32[1,1,1,1]\n"
                 "  %%5, %%6 = attention(%%1, %%2, %%3%s) {lse=true} : f32[1,1,1,1], f32[1,1,1]\n"
                 "  output \"\" %%5\n}\n",
                 lse ? "" : ",1", masked ? ", %4" : "");
        mlsys_graph g = pc_parse(&pc, text);
        mlsi_graph *inside;
        const int64_t one[4] = {1, 1, 1, 1};
        const float values[5] = {3, 2, 5, 7, 0.5f};
        const int32_t seed = 0;
        int32_t dx;
        mlsys_tensor in[5], out[1] = {0};
        for (int k = 0; k < 5; k++)
            in[k] = pc_tensor(&pc, MLSYS_F32, k || !lse ? 4 : 3, one, &values[k]);
        OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
        OK(mlsi_gradient(inside, 0, 1, &ways[i].y, &seed, 1, &ways[i].x, &dx));
        ck_assert_int_ge(dx, 0);
        inside->funcs[0].n_outputs = 0;
        OK(mlsi_build_output(inside, 0, NULL, dx));
        mlsi_unpin(inside);
        OK(mlsys_graph_interpret(g, pc.stream, 5, in, 1, out));
        ck_assert_float_eq(*(const float *)rg_view(out[0]).data, ways[i].want);
        pc_release(5, in);
        pc_release(1, out);
        OK(mlsys_release(g));
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("gradient_values");
    TCase *tc = tcase_create("rows");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, rows_have_these_gradients, 0, (int)(sizeof rows / sizeof rows[0]));
    tcase_add_test(tc, an_adjoint_that_is_the_first_value);
    tcase_add_test(tc, an_adjoint_of_attention_that_is_the_first_value);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
