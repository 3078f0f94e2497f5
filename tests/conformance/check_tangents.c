/* Forward mode. Every row of tests/op_cases.h with f64 operands: <w, J dx> = <J^T w, dx>, by the interpreter in
 * f64, for random w and dx; J^T itself is held against differences by check_gradients. Then values against central
 * differences, structural zeros, tangents of tangents, refusals. */
#include "autodiff/forward.h"
#include "autodiff/reverse.h"
#include "support/op_case.h"
#include "support/program_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64 };

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* ---- every op ------------------------------------------------------------------------------ */

typedef struct call {
    mlsi_graph g; /* inputs: operands, then dx, then w; outputs: dy, then gx */
    kc_rng r;
    kc_tensor in[MAX_ARGS], out[MAX_ARGS];
    int n_in, n_x, n_y;
    int32_t x[MAX_ARGS], dx[MAX_ARGS], y[MAX_ARGS], w[MAX_ARGS], dy[MAX_ARGS], gx[MAX_ARGS];
    int dx_at[MAX_ARGS], w_at[MAX_ARGS], dy_at[MAX_ARGS],
        gx_at[MAX_ARGS]; /* -1: a structural zero */
} call;

static mlsys_status add_input(call *c, int32_t like, int32_t *value, int *at) {
    mlsi_type t = *mlsi_type_of(&c->g, 0, like);
    *at = (int)c->g.funcs[0].n_inputs;
    return mlsi_build_input(&c->g, 0, NULL, &t, value);
}

static mlsys_status add_output(call *c, int32_t value, int *at) {
    *at = value < 0 ? -1 : (int)c->g.funcs[0].n_outputs;
    return value < 0 ? MLSYS_OK : mlsi_build_output(&c->g, 0, NULL, value);
}

static mlsys_status differentiate(call *c) {
    mlsi_func *f = &c->g.funcs[0];
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].view.dtype == MLSYS_F64) c->x[c->n_x++] = f->inputs[i];
    for (int64_t o = 0; o < f->n_outputs; o++)
        if (f->values[f->outputs[o].value].type.dtype == MLSYS_F64)
            c->y[c->n_y++] = f->outputs[o].value;
    for (int j = 0; j < c->n_x; j++)
        MLSI_TRY(add_input(c, c->x[j], &c->dx[j], &c->dx_at[j]));
    for (int i = 0; i < c->n_y; i++)
        MLSI_TRY(add_input(c, c->y[i], &c->w[i], &c->w_at[i]));
    if (!c->n_y) return c->n_x = 0, MLSYS_OK;
    MLSI_TRY(mlsi_tangent(&c->g, 0, c->n_x, c->x, c->dx, c->n_y, c->y, c->dy));
    MLSI_TRY(mlsi_gradient(&c->g, 0, c->n_y, c->y, c->w, c->n_x, c->x, c->gx));
    c->g.funcs[0].n_outputs = 0;
    for (int i = 0; i < c->n_y; i++)
        MLSI_TRY(add_output(c, c->dy[i], &c->dy_at[i]));
    for (int j = 0; j < c->n_x; j++)
        MLSI_TRY(add_output(c, c->gx[j], &c->gx_at[j]));
    return mlsi_graph_verify(&c->g);
}

static mlsys_status evaluate(call *c) {
    const mlsi_func *f = &c->g.funcs[0];
    mlsi_view in[MAX_ARGS], out[MAX_ARGS];
    for (; c->n_in < f->n_inputs; c->n_in++) {
        const mlsi_type *t = mlsi_type_of(&c->g, 0, f->inputs[c->n_in]);
        c->in[c->n_in] = kc_tensor_new(&c->r, t->dtype, t->rank, t->dims, KC_DENSE);
        for (int64_t k = 0, n = mlsi_view_count(&c->in[c->n_in].view); k < n; k++)
            kc_set_f(&c->in[c->n_in].view, k, kc_uniform(&c->r, -1, 1));
    }
    for (int o = 0; o < f->n_outputs; o++) {
        const mlsi_type *t = mlsi_type_of(&c->g, 0, f->outputs[o].value);
        c->out[o] = kc_tensor_new(&c->r, t->dtype, t->rank, t->dims, KC_DENSE);
        out[o] = c->out[o].view;
    }
    for (int i = 0; i < c->n_in; i++)
        in[i] = c->in[i].view;
    return mlsi_interpret(&c->g, 0, c->n_in, in, (int)f->n_outputs, out);
}

/* <a, b>, and the sum of the terms' sizes. */
static double dot(const mlsi_view *a, const mlsi_view *b, double *size) {
    double sum = 0;
    for (int64_t k = 0, n = mlsi_view_count(a); k < n; k++) {
        double term = kc_get_f(a, k) * kc_get_f(b, k);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

static void compare(call *c, const char *text) {
    double forward = 0, reverse = 0, size = 0;
    int64_t elements = 0;
    for (int j = 0; j < c->n_x; j++)
        elements += mlsi_view_count(&c->in[c->dx_at[j]].view);
    if (c->n_x && !elements) return; /* a mean of nothing is NaN, and so is its tangent */
    for (int i = 0; i < c->n_y; i++)
        if (c->dy_at[i] >= 0)
            forward += dot(&c->in[c->w_at[i]].view, &c->out[c->dy_at[i]].view, &size);
    for (int j = 0; j < c->n_x; j++)
        if (c->gx_at[j] >= 0)
            reverse += dot(&c->in[c->dx_at[j]].view, &c->out[c->gx_at[j]].view, &size);
    ck_assert_msg(fabs(forward - reverse) <= 1e-12 * (1 + size),
                  "%s: <w, J dx> %.17g, <J^T w, dx> %.17g", text, forward, reverse);
}

/* Positive below 1: where nearly every function is defined. acosh is not: NaN is not compared there. */
static void fill_operands(call *c, const op_variant *v) {
    for (int i = 0; i < v->n_in; i++) {
        if (v->in[i].absent) continue;
        kc_tensor *t = &c->in[c->n_in++];
        const mlsi_type *type = &v->in[i].type;
        double low = v->op == MLSI_OP_ACOSH ? 1.25 : 0.25;
        *t = kc_tensor_new(&c->r, type->dtype, type->rank, type->dims, KC_DENSE);
        if (type->dtype != MLSYS_F64)
            op_operand_fill(&c->r, t, &v->in[i]);
        else
            for (int64_t k = 0, n = mlsi_view_count(&t->view); k < n; k++)
                kc_set_f(&t->view, k, kc_uniform(&c->r, low, low + 0.65));
    }
}

static mlsys_status check_variant(mlsi_ctx *ctx, const op_variant *v, const char *text) {
    call *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->r = kc_seed(23 + (uint64_t)v->op);
    mlsys_status st = op_variant_graph(ctx, v, &c->g);
    if (st == MLSYS_OK) fill_operands(c, v);
    if (st == MLSYS_OK) st = differentiate(c);
    if (st == MLSYS_OK) st = evaluate(c);
    if (st == MLSYS_OK) compare(c, text);
    for (int i = 0; i < c->n_in; i++)
        kc_tensor_free(&c->in[i]);
    for (int o = 0; st == MLSYS_OK && o < c->g.funcs[0].n_outputs; o++)
        kc_tensor_free(&c->out[o]);
    mlsi_graph_free(&c->g);
    free(c);
    return st;
}

static bool is_candidate(const op_variant *v) {
    bool f64 = false;
    for (int i = 0; i < v->n_in; i++) {
        mlsys_dtype t = v->in[i].absent ? MLSYS_F64 : v->in[i].type.dtype;
        f64 = f64 || (!v->in[i].absent && t == MLSYS_F64);
        if (mlsi_dtype_is_float(t) && t != MLSYS_F64) return false;
    }
    return f64;
}

START_TEST(forward_is_the_transpose_of_reverse) {
    mlsi_ctx *ctx = op_ctx_new();
    const char *only = getenv("MLSYS_TEST_OP");
    int checked = 0;
    for (int i = 0; i < op_case_count; i++) {
        op_variant v;
        if (only && strcmp(only, op_cases[i].op)) continue;
        for (int k = 0; op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            char text[600];
            if (!is_candidate(&v)) continue;
            op_variant_text(&v, text, sizeof text);
            mlsys_status st = check_variant(ctx, &v, text);
            ck_assert_msg(st == MLSYS_OK, "%s: %s", text, mlsys_last_error());
            checked++;
        }
    }
    printf("%d calls\n", checked);
    if (!only) ck_assert_int_ge(checked, 200);
    op_ctx_free(ctx);
}
END_TEST

/* ---- the public function ------------------------------------------------------------------- */

static mlsys_value input(mlsys_graph g, const char *name, mlsys_dtype t, int64_t n) {
    mlsys_value v;
    OK(mlsys_graph_input(g, name, t, 1, &n, &v));
    return v;
}

static mlsys_value op(mlsys_graph g, const char *name, mlsys_value a, mlsys_value b) {
    mlsys_value out;
    OK(mlsys_graph_op(g, name, b ? 2 : 1, (mlsys_value[]){a, b}, NULL, 1, &out));
    return out;
}

static void evaluate_f64(mlsys_graph g, const char *settings, int n_in, double (*in)[3],
                         double *out) {
    mlsys_program p = pc_compile(&pc, g, settings);
    mlsys_tensor t[4], y[1] = {0};
    const int64_t n[1] = {3};
    for (int i = 0; i < n_in; i++)
        t[i] = pc_tensor(&pc, MLSYS_F64, 1, n, in[i]);
    OK(mlsys_program_run(p, pc.stream, n_in, t, 1, y));
    memcpy(out, rg_view(y[0]).data, 3 * sizeof *out);
    pc_release(n_in, t);
    pc_release(1, y);
    OK(mlsys_release(p));
}

/* y = exp(sin(x) * z) / z: along (dx, dz), by compiled programs, against central differences. */
START_TEST(along_a_direction) {
    double in[4][3] = {{0.5, -1, 2}, {1.5, 2, -0.7}, {0.3, -0.2, 1}, {1, 0.5, -0.25}}, dy[3];
    mlsys_graph g, f;
    for (int k = 0; k < 2; k++) { /* with tangents, then y alone */
        mlsys_graph *at = k ? &f : &g;
        OK(mlsys_graph_create(pc.ctx_handle, at));
        mlsys_value x = input(*at, "x", MLSYS_F64, 3), z = input(*at, "z", MLSYS_F64, 3);
        mlsys_value s = op(*at, "mul", op(*at, "sin", x, 0), z), y = op(*at, "exp", s, 0), t;
        y = op(*at, "div", y, z);
        if (!k) {
            mlsys_value d[2] = {input(*at, "dx", MLSYS_F64, 3), input(*at, "dz", MLSYS_F64, 3)};
            OK(mlsys_graph_tangent(*at, 2, (mlsys_value[]){x, z}, d, 1, &y, &t));
            y = t;
        }
        OK(mlsys_graph_output(*at, "y", y));
    }
    evaluate_f64(g, "", 4, in, dy);
    double step = 1e-5, up[2][3], down[2][3], high[3], low[3];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            up[i][k] = in[i][k] + step * in[2 + i][k];
            down[i][k] = in[i][k] - step * in[2 + i][k];
        }
    evaluate_f64(f, "", 2, up, high);
    evaluate_f64(f, "", 2, down, low);
    for (int k = 0; k < 3; k++) {
        double want = (high[k] - low[k]) / (2 * step);
        ck_assert_msg(fabs(dy[k] - want) < 1e-8 * fmax(1, fabs(want)), "%d: %.12g, %.12g", k, dy[k],
                      want);
    }
    OK(mlsys_release(g));
    OK(mlsys_release(f));
}
END_TEST

/* The tangent of the tangent of x^3 along ones: 6 x. And nothing of the first pass is computed. */
START_TEST(tangents_of_tangents) {
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F64, 3), d = input(g, "d", MLSYS_F64, 3), t[2];
    mlsys_value y = op(g, "mul", op(g, "mul", x, x), x);
    OK(mlsys_graph_tangent(g, 1, &x, &d, 1, &y, &t[0]));
    OK(mlsys_graph_tangent(g, 1, &x, &d, 1, &t[0], &t[1]));
    OK(mlsys_graph_output(g, "t", t[1]));
    double in[2][3] = {{0.5, -1, 2}, {1, 1, 1}}, out[3];
    evaluate_f64(g, "", 2, in, out);
    for (int k = 0; k < 3; k++)
        ck_assert_double_eq_tol(out[k], 6 * in[0][k], 1e-14);
    OK(mlsys_release(g));
}
END_TEST

/* exp along d is exp and one product. */
START_TEST(unused_nodes_go) {
    mlsys_graph g;
    mlsys_cost cost = {.size = sizeof cost};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F64, 3), d = input(g, "d", MLSYS_F64, 3), t;
    mlsys_value y = op(g, "exp", x, 0);
    OK(mlsys_graph_tangent(g, 1, &x, &d, 1, &y, &t));
    OK(mlsys_graph_output(g, "t", t));
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    ck_assert_uint_eq(cost.kernels, 2);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(structural_zeros) {
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F64, 3), z = input(g, "z", MLSYS_F64, 3);
    mlsys_value d = input(g, "d", MLSYS_F64, 3), none[2] = {d, 0}, dy[5];
    mlsys_value y[5] = {op(g, "exp", x, 0), op(g, "floor", x, 0), op(g, "rsqrt", z, 0),
                        op(g, "mul", x, z), d};
    OK(mlsys_graph_tangent(g, 2, (mlsys_value[]){x, z}, none, 5, y, dy));
    ck_assert_int_ne(dy[0], 0);
    ck_assert_int_eq(dy[1], 0); /* flat */
    ck_assert_int_ne(dy[2], 0); /* depends on z, whose tangent is zeros: zeros */
    ck_assert_int_ne(dy[3], 0);
    ck_assert_int_eq(dy[4], 0); /* depends on neither */
    double in[3][3] = {{1, 2, 3}, {0, 4, 5}, {6, 7, 8}}, out[3];
    mlsys_value sum = op(g, "add", dy[2], dy[3]);
    OK(mlsys_graph_output(g, "sum", sum));
    evaluate_f64(g, "", 3, in, out);
    for (int k = 0; k < 3; k++) /* rsqrt's slope at 0 is infinite, and not looked at */
        ck_assert_double_eq(out[k], in[1][k] * in[2][k]);
    OK(mlsys_graph_tangent(g, 1, &x, &d, 1, &x, dy)); /* dx/dx: the seed's value */
    ck_assert_int_ne(dy[0], 0);
    OK(mlsys_release(g));
}
END_TEST

/* where(x == 0, x / 2, sqrt(x)) at 0. */
START_TEST(the_road_not_taken) {
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    mlsys_value x = input(g, "x", MLSYS_F64, 3), d = input(g, "d", MLSYS_F64, 3), t, y;
    mlsys_value zero = op(g, "sub", x, x), half = op(g, "sub", x, op(g, "neg", x, 0));
    mlsys_value in[3] = {op(g, "eq", x, zero), half, op(g, "sqrt", x, 0)};
    OK(mlsys_graph_op(g, "select", 3, in, NULL, 1, &y));
    OK(mlsys_graph_tangent(g, 1, &x, &d, 1, &y, &t));
    OK(mlsys_graph_output(g, "t", t));
    double values[2][3] = {{0, 4, 1}, {3, 1, 1}}, out[3];
    evaluate_f64(g, "", 2, values, out);
    ck_assert_double_eq(out[0], 6);
    ck_assert_double_eq(out[1], 0.25);
    OK(mlsys_release(g));
}
END_TEST

START_TEST(what_is_refused) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f64[4]\n"
                      "  %1 = input \"i\" : i64[2]\n  %2 = input \"u\" : f64[1,1,5000]\n"
                      "  %3 = pool(%2) {kernel=[5000]} : f64[1,1,1]\n"
                      "  %4 = exp(%3) : f64[1,1,1]\n"
                      "  %5 = exp(%4) : f64[1,1,1]\n  output \"\" %5\n}\n");
    mlsi_graph *inside;
    static char before[1 << 14], after[1 << 14];
    OK(mlsys_graph_print(g, before, sizeof before, NULL));
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    int32_t u = 2, y = 5, d = 0, i = 1;
    pc_expect(mlsi_tangent(inside, 0, 1, &u, &u, 1, &y, &d), MLSYS_E_UNSUPPORTED, "pool");
    pc_expect(mlsi_tangent(inside, 0, 1, &u, &y, 1, &y, &d), MLSYS_E_SHAPE,
              "dx 0 is f64[1,1,1], x is f64[1,1,5000]");
    pc_expect(mlsi_tangent(inside, 0, 1, &i, &i, 1, &y, &d), MLSYS_E_DTYPE, "x 0 is i64[2]");
    pc_expect(mlsi_tangent(inside, 0, 1, &u, &u, 1, &i, &d), MLSYS_E_DTYPE, "y 0 is i64[2]");
    mlsys_value out = 9, foreign = (int64_t)inside->serial << 32 | 99;
    mlsys_value own = (int64_t)inside->serial << 32 | 1;
    mlsi_unpin(inside);
    pc_expect(mlsys_graph_tangent(g, 1, &foreign, &own, 1, &own, &out), MLSYS_E_ARG, "x");
    ck_assert_int_eq(out, 0);
    pc_expect(mlsys_graph_tangent(g, 1, &own, &foreign, 1, &own, &out), MLSYS_E_ARG, "dx");
    pc_expect(mlsys_graph_tangent(g, 1, &own, &own, 1, &foreign, &out), MLSYS_E_ARG, "y");
    pc_expect(mlsys_graph_tangent(g, 0, &own, &own, 1, &own, &out), MLSYS_E_ARG, "by 0 values");
    pc_expect(mlsys_graph_tangent(g, 1, &own, NULL, 1, &own, &out), MLSYS_E_ARG, "dx is NULL");
    OK(mlsys_graph_print(g, after, sizeof after, NULL));
    ck_assert_str_eq(before, after);
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("tangents");
    TCase *tc = tcase_create("ops"), *api = tcase_create("api");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, forward_is_the_transpose_of_reverse);
    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(api, setup, teardown);
    tcase_add_test(api, along_a_direction);
    tcase_add_test(api, tangents_of_tangents);
    tcase_add_test(api, unused_nodes_go);
    tcase_add_test(api, structural_zeros);
    tcase_add_test(api, the_road_not_taken);
    tcase_add_test(api, what_is_refused);
    suite_add_tcase(s, api);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
