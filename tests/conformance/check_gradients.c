/* Gradient rules against central differences in f64: every row of tests/op_cases.h that has f64 operands, first
 * and second order, by the reference interpreter. */
#include "autodiff/reverse.h"
#include "support/difference.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values -------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    int operand; /* -1: all */
    double lo, hi;
} domains[] = {
    {"sqrt", -1, 0.2, 3},
    {"rsqrt", -1, 0.2, 3},
    {"cbrt", -1, 0.2, 3},
    {"log", -1, 0.2, 3},
    {"log2", -1, 0.2, 3},
    {"log10", -1, 0.2, 3},
    {"log1p", -1, -0.7, 3},
    {"asin", -1, -0.9, 0.9},
    {"acos", -1, -0.9, 0.9},
    {"atanh", -1, -0.9, 0.9},
    {"acosh", -1, 1.2, 3},
    {"tan", -1, -1, 1},
    {"div", 1, 0.5, 2},
    {"rem", 1, 0.7, 3},
    {"mod", 1, 0.7, 3},
    {"pow", 0, 0.3, 2},
    {"adam_step", 4, 0.2, 2},
    {"reduce_prod", -1, 0.8, 1.25},
    {"scan", -1, 0.7, 1.4},
    {"atan2", -1, 0.2, 2},
    {"clip_norm", 1, 0.3, 3},
    {"adafactor_step", 4, 0.2, 2},
    {"adafactor_step", 5, 0.2, 2},
};

static void fill(kc_rng *r, const op_variant *v, int i, kc_tensor *t) {
    double lo = -2, hi = 2;
    if (t->view.dtype != MLSYS_F64) {
        op_operand_fill(r, t, &v->in[i]);
        return;
    }
    for (size_t d = 0; d < sizeof domains / sizeof domains[0]; d++)
        if (!strcmp(domains[d].op, mlsi_op_name(v->op)) &&
            (domains[d].operand < 0 || domains[d].operand == i))
            lo = domains[d].lo, hi = domains[d].hi;
    for (int64_t k = 0, n = mlsi_view_count(&t->view); k < n; k++)
        kc_set_f(&t->view, k, kc_uniform(r, lo, hi));
}

/* ---- one call ------------------------------------------------------------------------------ */

typedef struct call {
    const op_variant *v; /* of the table, or */
    const char *source;  /* IR text */
    mlsi_device *device;
    char text[600];
    kc_rng r;
    mlsi_graph g[3]; /* the call, its gradient, the gradient of that */
    kc_tensor in[MAX_ARGS];
    int n_in; /* operands present, then the weights of each order */
    int x[MAX_ARGS], n_x;
} call;

static kc_tensor tensor_of(call *c, const mlsi_type *t) {
    return kc_tensor_new(&c->r, t->dtype, t->rank, t->dims, KC_DENSE);
}

static function function_of(call *c, mlsi_graph *g, int first_weight) {
    function f = {.g = g, .n_in = (int)g->funcs[0].n_inputs, .in = c->in};
    f.n_out = (int)f.g->funcs[0].n_outputs;
    for (int o = 0; o < f.n_out; o++) {
        const mlsi_type *t = mlsi_type_of(f.g, 0, f.g->funcs[0].outputs[o].value);
        f.out[o] = tensor_of(c, t);
        f.weight[o] = mlsi_dtype_is_float(t->dtype) ? first_weight++ : -1;
    }
    return f;
}

static void free_outputs(function *f) {
    for (int o = 0; o < f->n_out; o++)
        kc_tensor_free(&f->out[o]);
}

/* Differentiates g's outputs by the call's f64 operands; weights become inputs, gradients the outputs.
 * have[j]: is there a gradient of operand j. */
static mlsys_status differentiate(call *c, mlsi_graph *g, bool *have) {
    int32_t y[MAX_ARGS], seeds[MAX_ARGS], x[MAX_ARGS], dx[MAX_ARGS];
    int n_y = 0;
    for (int64_t o = 0; o < g->funcs[0].n_outputs; o++) {
        int32_t value = g->funcs[0].outputs[o].value;
        mlsi_type t = *mlsi_type_of(g, 0, value);
        if (!mlsi_dtype_is_float(t.dtype)) continue;
        MLSI_TRY(mlsi_build_input(g, 0, NULL, &t, &seeds[n_y]));
        y[n_y++] = value;
    }
    for (int j = 0; j < c->n_x; j++)
        x[j] = g->funcs[0].inputs[c->x[j]];
    MLSI_TRY(mlsi_gradient(g, 0, n_y, y, seeds, c->n_x, x, dx));
    g->funcs[0].n_outputs = 0;
    for (int j = 0; j < c->n_x; j++) {
        have[j] = dx[j] >= 0;
        if (have[j]) MLSI_TRY(mlsi_build_output(g, 0, NULL, dx[j]));
    }
    return mlsi_graph_verify(g);
}

/* The weights that the graph of this order takes behind the inputs so far. */
static void add_weights(call *c, const mlsi_graph *g) {
    for (; c->n_in < g->funcs[0].n_inputs; c->n_in++) {
        const mlsi_type *t = mlsi_type_of(g, 0, g->funcs[0].inputs[c->n_in]);
        c->in[c->n_in] = tensor_of(c, t);
        for (int64_t k = 0, n = mlsi_view_count(&c->in[c->n_in].view); k < n; k++)
            kc_set_f(&c->in[c->n_in].view, k, kc_uniform(&c->r, -1, 1));
    }
}

/* Some elements by themselves, and one direction in which all move, so that none is left out. */
static void probe(call *c, int order, int j, function *low, const mlsi_view *gradient) {
    line l = line_of(&c->in[c->x[j]].view);
    double along = 0;
    char what[760];
    for (int64_t p = 0; p < l.n && p < MAX_PROBES; p++) {
        int64_t k = l.n <= MAX_PROBES ? p : kc_int(&c->r, 0, l.n - 1);
        snprintf(what, sizeof what, "%s, order %d, operand %d, element %lld", c->text, order, j,
                 (long long)k);
        l.direction[k] = 1;
        compare(low, &l, gradient ? kc_get_f(gradient, k) : 0, what);
        l.direction[k] = 0;
    }
    for (int64_t k = 0; k < l.n; k++) {
        l.direction[k] = kc_uniform(&c->r, -1, 1);
        if (gradient) along += l.direction[k] * kc_get_f(gradient, k);
    }
    snprintf(what, sizeof what, "%s, order %d, operand %d, a direction", c->text, order, j);
    if (l.n) compare(low, &l, along, what);
    free(l.at);
    free(l.direction);
}

static mlsys_status rebuild(call *c, mlsi_ctx *ctx, mlsi_graph *g, int order);

/* What one operand gets when it alone is asked for: the same values, elementwise. */
static mlsys_status check_alone(call *c, mlsi_ctx *ctx, int j, const mlsi_view *gradient) {
    mlsi_graph own;
    bool have[MAX_ARGS];
    int all = c->n_x, x = c->x[0];
    mlsys_status st = rebuild(c, ctx, &own, 0);
    c->x[0] = c->x[j], c->n_x = 1;
    if (st == MLSYS_OK) st = differentiate(c, &own, have);
    c->x[0] = x, c->n_x = all;
    if (st == MLSYS_OK) ck_assert_int_eq(have[0], gradient != NULL);
    if (st == MLSYS_OK && have[0]) {
        function f = function_of(c, &own, -1);
        f.weight[0] = -1;
        value_of(&f);
        for (int64_t k = 0, n = mlsi_view_count(gradient); k < n; k++)
            ck_assert_msg(kc_get_f(&f.out[0].view, k) == kc_get_f(gradient, k),
                          "%s, operand %d alone, element %lld: %.17g, with the others %.17g",
                          c->text, j, (long long)k, kc_get_f(&f.out[0].view, k),
                          kc_get_f(gradient, k));
        free_outputs(&f);
    }
    mlsi_graph_free(&own);
    return st;
}

static mlsys_status check_order(call *c, mlsi_ctx *ctx, int order) {
    bool have[MAX_ARGS];
    int first_weight = c->n_in;
    MLSI_TRY(differentiate(c, &c->g[order], have));
    add_weights(c, &c->g[order]);
    function low = function_of(c, &c->g[order - 1], first_weight);
    function high = function_of(c, &c->g[order], -1);
    mlsys_status st = MLSYS_OK;
    for (int o = 0; o < high.n_out; o++)
        high.weight[o] = -1;
    value_of(&high);
    for (int j = 0, o = 0; j < c->n_x && st == MLSYS_OK; j++) {
        const mlsi_view *gradient = have[j] ? &high.out[o].view : NULL;
        probe(c, order, j, &low, gradient);
        if (order == 1 && c->n_x > 1) st = check_alone(c, ctx, j, gradient);
        o += have[j];
    }
    free_outputs(&low);
    free_outputs(&high);
    return st;
}

/* The graph of `order`, up to the one before. */
static mlsys_status rebuild(call *c, mlsi_ctx *ctx, mlsi_graph *g, int order) {
    bool have[MAX_ARGS];
    if (c->v) MLSI_TRY(op_variant_graph(ctx, c->v, g));
    if (!c->v) MLSI_TRY(mlsi_graph_init(g, ctx));
    if (!c->v) MLSI_TRY(mlsi_graph_parse(g, c->device, c->source));
    for (int i = 1; i < order; i++)
        MLSI_TRY(differentiate(c, g, have));
    return MLSYS_OK;
}

static void fill_operands(call *c) {
    const op_variant *v = c->v;
    for (int i = 0; i < v->n_in; i++) {
        if (v->in[i].absent) continue;
        c->in[c->n_in] = tensor_of(c, &v->in[i].type);
        fill(&c->r, v, i, &c->in[c->n_in]);
        if (v->in[i].type.dtype == MLSYS_F64) c->x[c->n_x++] = c->n_in;
        c->n_in++;
    }
}

/* Of a text: floats in [-1, 1], integers 3, bools true. */
static void fill_inputs(call *c) {
    const mlsi_func *f = &c->g[0].funcs[0];
    for (; c->n_in < f->n_inputs; c->n_in++) {
        const mlsi_type *t = &f->values[f->inputs[c->n_in]].type;
        kc_tensor *x = &c->in[c->n_in];
        *x = tensor_of(c, t);
        if (t->dtype == MLSYS_F64) c->x[c->n_x++] = c->n_in;
        for (int64_t k = 0, n = mlsi_view_count(&x->view); k < n; k++)
            if (t->dtype == MLSYS_F64)
                kc_set_f(&x->view, k, kc_uniform(&c->r, -1, 1));
            else
                kc_set_i(&x->view, k, t->dtype == MLSYS_BOOL ? 1 : 3);
    }
}

static mlsys_status check_call(mlsi_ctx *ctx, call *c, int orders) {
    mlsys_status st = rebuild(c, ctx, &c->g[0], 0);
    int built = 1;
    if (st == MLSYS_OK && c->v) fill_operands(c);
    if (st == MLSYS_OK && !c->v) fill_inputs(c);
    for (int order = 1; order <= orders && st == MLSYS_OK; order++, built++) {
        st = rebuild(c, ctx, &c->g[order], order);
        if (st == MLSYS_OK) st = check_order(c, ctx, order);
    }
    for (int i = 0; i < built; i++)
        mlsi_graph_free(&c->g[i]);
    for (int i = 0; i < c->n_in; i++)
        kc_tensor_free(&c->in[i]);
    return st;
}

static mlsys_status check_variant(mlsi_ctx *ctx, const op_variant *v) {
    call *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->v = v;
    c->r = kc_seed(11 + (uint64_t)v->op);
    op_variant_text(v, c->text, sizeof c->text);
    mlsys_status st = check_call(ctx, c, 2);
    free(c);
    return st;
}

/* ---- all calls ----------------------------------------------------------------------------- */

static bool is_candidate(const op_variant *v) {
    bool f64 = false;
    if (v->op == MLSI_OP_CAST && !strstr(v->attrs, "f64")) return false; /* a staircase */
    if (v->op == MLSI_OP_STOP_GRADIENT) return false; /* no derivative, on purpose */
    if (v->op == MLSI_OP_ROPE) return v->in[0].type.dtype == MLSYS_F64; /* frequencies are f32 */
    for (int i = 0; i < v->n_in; i++) {
        if (v->in[i].absent) continue;
        mlsys_dtype t = v->in[i].type.dtype;
        f64 = f64 || t == MLSYS_F64;
        if (mlsi_dtype_is_float(t) && t != MLSYS_F64) return false;
    }
    return f64;
}

/* MLSYS_TEST_OP: the ops to check, separated by commas; unset: all. */
static bool is_chosen(const char *op) {
    const char *list = getenv("MLSYS_TEST_OP");
    size_t n = strlen(op);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !memcmp(at, op, n)) return true;
    return !list;
}

START_TEST(rules_are_derivatives) {
    mlsi_ctx *ctx = op_ctx_new();
    int checked = 0;
    for (int i = 0; i < op_case_count; i++) {
        op_variant v;
        if (!is_chosen(op_cases[i].op)) continue;
        for (int k = 0; op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            char text[600];
            if (!is_candidate(&v)) continue;
            mlsys_status st = check_variant(ctx, &v);
            ck_assert_msg(st == MLSYS_OK, "%s: %s", op_variant_text(&v, text, sizeof text),
                          mlsys_last_error());
            checked++;
        }
    }
    if (!getenv("MLSYS_TEST_OP")) ck_assert_int_ge(checked, 200);
    op_ctx_free(ctx);
}
END_TEST

/* ---- whole graphs -------------------------------------------------------------------------- */

#define MAIN(body)        "func 0 \"main\" {\n" body "}\n"
#define FN(n, name, body) "func " #n " \"" name "\" {\n" body "}\n"
static const struct {
    const char *name, *text;
    int orders;
} graphs[] = {
    {"a value used three times, and an output that is used",
     "mlsys-ir 1\nfunctions 1\n" MAIN(
         "  %0 = input \"x\" : f64[3]\n  %1 = mul(%0, %0) : f64[3]\n"
         "  %2 = sin(%1) : f64[3]\n  %3 = mul(%1, %2) : f64[3]\n  %4 = add(%3, %1) : f64[3]\n"
         "  output \"\" %2\n  output \"\" %4\n"),
     2},
    {"call, twice the same function",
     "mlsys-ir 1\nfunctions 2\n" FN(
         1, "f",
         "  %0 = input \"a\" : f64[4]\n  %1 = input \"b\" : f64[]\n  %2 = input \"n\" : i32[4]\n"
         "  %3 = mul(%0, %1) : f64[4]\n  %4 = tanh(%3) : f64[4]\n"
         "  output \"\" %4\n  output \"\" %2\n  output \"\" %0\n")
         MAIN("  %0 = input \"x\" : f64[4]\n  %1 = input \"y\" : f64[]\n  %2 = input \"k\" : "
              "i32[4]\n"
              "  %3, %4, %5 = call(%0, %1, %2) {fn1=1} : f64[4], i32[4], f64[4]\n"
              "  %6, %7, %8 = call(%3, %1, %4) {fn1=1} : f64[4], i32[4], f64[4]\n"
              "  %9 = mul(%6, %8) : f64[4]\n  output \"\" %9\n"),
     2},
    {"if, the first branch",
     "mlsys-ir 1\nfunctions 3\n" FN(2, "g",
                                    "  %0 = input \"a\" : f64[4]\n  %1 = input \"b\" : f64[4]\n  "
                                    "%2 = exp(%0) : f64[4]\n  output \"\" %2\n")
         FN(1, "f",
            "  %0 = input \"a\" : f64[4]\n  %1 = input \"b\" : f64[4]\n  %2 = mul(%0, %1) : "
            "f64[4]\n  output \"\" %2\n")
             MAIN("  %0 = input \"p\" : bool[]\n  %1 = input \"x\" : f64[4]\n  %2 = input \"y\" : "
                  "f64[4]\n"
                  "  %3 = if(%0, %1, %2) {fn1=1, fn2=2} : f64[4]\n  output \"\" %3\n"),
     2},
    {"if, the second branch, in which one operand has no part",
     "mlsys-ir 1\nfunctions 3\n" FN(2, "g",
                                    "  %0 = input \"a\" : f64[4]\n  %1 = input \"b\" : f64[4]\n  "
                                    "%2 = exp(%0) : f64[4]\n  output \"\" %2\n")
         FN(1, "f",
            "  %0 = input \"a\" : f64[4]\n  %1 = input \"b\" : f64[4]\n  %2 = mul(%0, %1) : "
            "f64[4]\n  output \"\" %2\n")
             MAIN("  %0 = input \"p\" : bool[]\n  %1 = input \"x\" : f64[4]\n  %2 = input \"y\" : "
                  "f64[4]\n"
                  "  %3 = not(%0) : bool[]\n"
                  "  %4 = if(%3, %1, %2) {fn1=1, fn2=2} : f64[4]\n  output \"\" %4\n"),
     2},
    {"while: x = sin(x * y) + x, three times",
     "mlsys-ir 1\nfunctions 3\n" FN(
         2, "turn",
         "  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[]\n  %2 = input \"i\" : i64[]\n"
         "  %3 = mul(%0, %1) : f64[3]\n  %4 = sin(%3) : f64[3]\n  %5 = add(%4, %0) : f64[3]\n"
         "  %6 = full() {dtype=i64, ivalue=1, shape=[]} : i64[]\n  %7 = sub(%2, %6) : i64[]\n"
         "  output \"\" %5\n  output \"\" %1\n  output \"\" %7\n")
         FN(1, "more",
            "  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[]\n  %2 = input \"i\" : i64[]\n"
            "  %3 = full() {dtype=i64, ivalue=0, shape=[]} : i64[]\n  %4 = gt(%2, %3) : bool[]\n  "
            "output \"\" %4\n")
             MAIN("  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[]\n  %2 = input \"n\" : "
                  "i64[]\n"
                  "  %3, %4, %5 = while(%0, %1, %2) {fn1=1, fn2=2} : f64[3], f64[], i64[]\n"
                  "  %6 = exp(%3) : f64[3]\n  output \"\" %6\n"),
     2},
    {"while, a value that the next turn forgets",
     "mlsys-ir 1\nfunctions 3\n" FN(
         2, "turn",
         "  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[3]\n  %2 = input \"i\" : i64[]\n"
         "  %3 = mul(%1, %1) : f64[3]\n  %4 = sin(%1) : f64[3]\n"
         "  %5 = full() {dtype=i64, ivalue=1, shape=[]} : i64[]\n  %6 = sub(%2, %5) : i64[]\n"
         "  output \"\" %3\n  output \"\" %4\n  output \"\" %6\n")
         FN(1, "more",
            "  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[3]\n  %2 = input \"i\" : i64[]\n"
            "  %3 = full() {dtype=i64, ivalue=0, shape=[]} : i64[]\n  %4 = gt(%2, %3) : bool[]\n  "
            "output \"\" %4\n")
             MAIN("  %0 = input \"x\" : f64[3]\n  %1 = input \"y\" : f64[3]\n  %2 = input \"n\" : "
                  "i64[]\n"
                  "  %3, %4, %5 = while(%0, %1, %2) {fn1=1, fn2=2} : f64[3], f64[3], i64[]\n"
                  "  %6 = add(%3, %4) : f64[3]\n  output \"\" %6\n"),
     2},
    {"where(x < 9, x, rsqrt(0 * x)): the other side's slope is infinite everywhere",
     "mlsys-ir 1\nfunctions 1\n" MAIN(
         "  %0 = input \"x\" : f64[5]\n  %1 = full() {dtype=f64, value=9, shape=[]} : f64[]\n"
         "  %2 = lt(%0, %1) : bool[5]\n  %3 = full() {dtype=f64, shape=[5]} : f64[5]\n"
         "  %4 = mul(%0, %3) : f64[5]\n  %5 = rsqrt(%4) : f64[5]\n  %6 = select(%2, %0, %5) : "
         "f64[5]\n"
         "  output \"\" %6\n"),
     2},
    {"where(x * 0 == 0, x / 2, log2(x * 0) + 1 / (x * 0))",
     "mlsys-ir 1\nfunctions 1\n" MAIN(
         "  %0 = input \"x\" : f64[5]\n  %1 = full() {dtype=f64, value=2, shape=[]} : f64[]\n"
         "  %2 = full() {dtype=f64, shape=[]} : f64[]\n  %3 = mul(%0, %2) : f64[5]\n"
         "  %4 = eq(%3, %2) : bool[5]\n  %5 = div(%0, %1) : f64[5]\n  %6 = log2(%3) : f64[5]\n"
         "  %7 = full() {dtype=f64, value=1, shape=[]} : f64[]\n  %8 = div(%7, %3) : f64[5]\n"
         "  %9 = add(%6, %8) : f64[5]\n  %10 = select(%4, %5, %9) : f64[5]\n  output \"\" %10\n"),
     2},
};

START_TEST(graphs_differentiate) {
    mlsi_ctx *ctx = op_ctx_new();
    mlsys_device handle;
    call *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->r = kc_seed(5);
    c->source = graphs[_i].text;
    snprintf(c->text, sizeof c->text, "%s", graphs[_i].name);
    ck_assert_int_eq(mlsi_device_get(ctx, MLSYS_CPU, 0, &handle), MLSYS_OK);
    ck_assert_int_eq(mlsi_pin(handle, MLSYS_KIND_DEVICE, "device", &c->device), MLSYS_OK);
    mlsys_status st = check_call(ctx, c, graphs[_i].orders);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", graphs[_i].name, mlsys_last_error());
    mlsi_unpin(c->device);
    mlsys_release(handle);
    free(c);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gradients");
    TCase *tc = tcase_create("rules");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, rules_are_derivatives);
    tcase_add_loop_test(tc, graphs_differentiate, 0, (int)(sizeof graphs / sizeof graphs[0]));
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
