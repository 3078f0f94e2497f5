/* Loops on chosen values, which random operands do not meet: signed zeros at the ends of sums, NaN where nothing may be
 * read, rows that quantise to nothing. The reference must show the effect; the loops must give its bits. */
#include "support/loop_case.h"
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    op_variant v;
    mlsi_graph g, decomposed;
    loop_case loops;
    kc_tensor in[KC_OPERANDS], want[KC_OPERANDS], got[KC_OPERANDS];
    mlsi_view views[KC_OPERANDS], params[2 * KC_OPERANDS];
    int n_in;
} call;

static kc_tensor dense(kc_rng *r, const mlsi_type *t) {
    return kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
}

static void begin(call *c, mlsi_ctx *ctx, const op_case *row) {
    kc_rng r = kc_seed(20261206);
    memset(c, 0, sizeof *c);
    ck_assert(op_case_variant(row, 0, NULL, &c->v));
    ck_assert_msg(op_variant_graph(ctx, &c->v, &c->g) == MLSYS_OK, "%s", mlsys_last_error());
    ck_assert_int_eq(op_variant_graph(ctx, &c->v, &c->decomposed), MLSYS_OK);
    for (int i = 0; i < c->v.n_in; i++) {
        if (c->v.in[i].absent) continue;
        c->in[c->n_in] = dense(&r, &c->v.in[i].type);
        op_operand_fill(&r, &c->in[c->n_in], &c->v.in[i]);
        c->n_in++;
    }
    for (int o = 0; o < c->v.n_out; o++) {
        const mlsi_type *t = mlsi_type_of(&c->g, 0, c->g.funcs[0].outputs[o].value);
        c->want[o] = dense(&r, t);
        c->got[o] = dense(&r, t);
    }
}

static void set(call *c, int input, int n, const double *values) {
    for (int i = 0; i < n; i++)
        kc_set_f(&c->in[input].view, i, values[i]);
}

static void run(call *c) {
    mlsi_view want[KC_OPERANDS];
    int64_t binding[3] = {1, 0, 2}; /* B, L, S of every graph of a row */
    for (int i = 0; i < c->n_in; i++)
        c->views[i] = c->params[i] = c->in[i].view;
    for (int o = 0; o < c->v.n_out; o++) {
        want[o] = c->want[o].view;
        c->params[c->n_in + o] = c->got[o].view;
    }
    mlsys_status st = mlsi_interpret(&c->g, 0, c->n_in, c->views, c->v.n_out, want);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    st = loop_case_lower(&c->decomposed, mlsi_op_name(c->v.op), &c->loops);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    ck_assert_int_eq(c->loops.parts[0].node, -1);
    st = loop_case_run(&c->loops, binding, c->params);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    for (int o = 0; o < c->v.n_out; o++)
        for (int64_t i = 0, n = mlsi_view_count(&want[o]); i < n; i++) {
            double x = kc_get_f(&want[o], i), y = kc_get_f(&c->got[o].view, i);
            bool same = isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y);
            ck_assert_msg(same, "%s: result %d element %lld is %.17g, expected %.17g",
                          mlsi_op_name(c->v.op), o, (long long)i, y, x);
        }
}

static void end(call *c) {
    loop_case_free(&c->loops);
    for (int i = 0; i < c->n_in; i++)
        kc_tensor_free(&c->in[i]);
    for (int o = 0; o < c->v.n_out; o++) {
        kc_tensor_free(&c->want[o]);
        kc_tensor_free(&c->got[o]);
    }
    mlsi_graph_free(&c->g);
    mlsi_graph_free(&c->decomposed);
}

/* Key 0 underflows to -0, key 1 is masked, key 2 adds 1 * -0. */
START_TEST(an_invisible_key_leaves_negative_zero) {
    static const op_case row = {"attention", "",
                                "f32[1,1,1,1]; f32[1,3,1,1]; f32[1,3,1,1]; f32[1,3]", "", 1};
    static const double zeros[3] = {0}, v[3] = {-1e-45, 5, -0.0}, mask[3] = {-2, -INFINITY, 0};
    mlsi_ctx *ctx = op_ctx_new();
    call c;
    begin(&c, ctx, &row);
    set(&c, 0, 1, zeros);
    set(&c, 1, 3, zeros);
    set(&c, 2, 3, v);
    set(&c, 3, 3, mask);
    run(&c);
    double y = kc_get_f(&c.want[0].view, 0);
    ck_assert(y == 0 && signbit(y));
    end(&c);
    op_ctx_free(ctx);
}
END_TEST

START_TEST(keys_behind_kv_len_reach_no_adjoint) {
    static const op_case row = {
        "attention_grad", "",
        "f32[1,2,1,1]:small; f32[1,3,1,1]; f32[1,3,1,1]; _; i64[1]:const(2); "
        "f32[1,2,1,1]:small; f32[1,1,2]:small; f32[1,2,1,1]:small",
        "", 3};
    static const double values[3] = {0.5, -2, NAN};
    mlsi_ctx *ctx = op_ctx_new();
    call c;
    begin(&c, ctx, &row);
    set(&c, 1, 3, values);
    set(&c, 2, 3, values);
    run(&c);
    ck_assert(isfinite(kc_get_f(&c.want[0].view, 0)));
    end(&c);
    op_ctx_free(ctx);
}
END_TEST

/* The middle cell of three lies in both windows of two. */
START_TEST(shares_of_negative_zero_stay) {
    static const op_case row = {"pool_grad", "", "f32[1,1,3]:small; f32[1,1,2]:small; f32[1,1,2]",
                                "kind=sum, kernel=[2]", 1};
    static const double dy[2] = {-0.0, -0.0};
    mlsi_ctx *ctx = op_ctx_new();
    call c;
    begin(&c, ctx, &row);
    set(&c, 2, 2, dy);
    run(&c);
    ck_assert(!signbit(kc_get_f(&c.want[0].view, 0)) && signbit(kc_get_f(&c.want[0].view, 1)));
    end(&c);
    op_ctx_free(ctx);
}
END_TEST

/* Rows of zeros, of a NaN, of an infinity, of one tie to even. */
START_TEST(rows_that_quantise_oddly) {
    static const op_case row = {"quant_matmul", "Q", "f32[4,256]:small; T[2,256]", "act=int8", 1};
    mlsi_ctx *ctx = op_ctx_new();
    call c;
    begin(&c, ctx, &row);
    const mlsi_view *x = &c.in[0].view;
    for (int i = 0; i < 256; i++) {
        kc_set_f(x, i, i % 2 ? 0.0 : -0.0);
        kc_set_f(x, 3 * 256 + i, i % 32 ? 0.5 : 127); /* scale 1 */
    }
    kc_set_f(x, 256 + 40, NAN);
    kc_set_f(x, 512 + 255, -INFINITY);
    run(&c);
    ck_assert(kc_get_f(&c.want[0].view, 0) == 0);
    ck_assert(isnan(kc_get_f(&c.want[0].view, 2)) && isnan(kc_get_f(&c.want[0].view, 4)));
    end(&c);
    op_ctx_free(ctx);
}
END_TEST

/* ---- neighbours of loops of their own: computed where they are read, and before what they give is stored ------ */

static const char *const fused[] = {
    "  %0 = input \"\" : f32[2,3,2,4]\n  %1 = input \"\" : f32[2,5,1,4]\n"
    "  %2 = input \"\" : f32[2,3,2,4]\n  %3 = mul(%0, %0) : f32[2,3,2,4]\n"
    "  %4 = attention(%3, %1, %1) {causal=bottom_right} : f32[2,3,2,4]\n"
    "  %5 = add(%4, %2) : f32[2,3,2,4]\n  output \"\" %5\n",
    "  %0 = input \"\" : f32[5,7]\n  %1 = input \"\" : f32[5,7]\n  %2 = neg(%0) : f32[5,7]\n"
    "  %3, %4 = sort(%2) {axis=0} : f32[5,7], i64[5,7]\n  %5 = mul(%3, %1) : f32[5,7]\n"
    "  output \"\" %3\n  output \"\" %4\n",
    "  %0 = input \"\" : f32[3,64]\n  %1 = input \"\" : q4_1[5,64]\n  %2 = input \"\" : f32[5]\n"
    "  %3 = exp(%0) : f32[3,64]\n  %4 = quant_matmul(%3, %1) {act=int8} : f32[3,5]\n"
    "  %5 = add(%4, %2) : f32[3,5]\n  output \"\" %5\n",
    "  %0 = input \"\" : f32[3,64]\n  %1 = input \"\" : q5_0[5,64]\n  %2 = input \"\" : f32[5]\n"
    "  %3 = neg(%0) : f32[3,64]\n  %4 = quant_matmul(%3, %1) : f32[3,5]\n"
    "  %5 = add(%4, %2) : f32[3,5]\n  output \"\" %5\n",
    "  %0 = input \"\" : f32[1,2,6]\n  %1 = input \"\" : f32[1,2,3]\n"
    "  %2 = input \"\" : f32[1,2,3]\n  %3 = sub(%2, %1) : f32[1,2,3]\n"
    "  %4 = pool_grad(%0, %1, %3) {kind=average, kernel=[2], strides=[2]} : f32[1,2,6]\n"
    "  %5 = mul(%4, %0) : f32[1,2,6]\n  output \"\" %5\n",
    "  %0 = input \"\" : f32[3,64]\n  %1 = input \"\" : q6_k[2,256]\n"
    "  %2 = dequantize(%1) : f32[2,256]\n  %3 = abs(%2) : f32[2,256]\n"
    "  %4 = softmax(%3) {axis=0} : f32[2,256]\n  output \"\" %4\n"};

static void read_graph(mlsi_ctx *ctx, const char *body, mlsi_graph *g) {
    char text[2048];
    snprintf(text, sizeof text, "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n%s}\n", body);
    ck_assert_int_eq(mlsi_graph_init(g, ctx), MLSYS_OK);
    mlsys_status st = mlsi_graph_parse(g, NULL, text);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", body, mlsys_last_error());
}

START_TEST(neighbours_are_computed_in_place) {
    kc_rng r = kc_seed(20261207);
    mlsi_ctx *ctx = op_ctx_new();
    call c;
    memset(&c, 0, sizeof c);
    read_graph(ctx, fused[_i], &c.g);
    read_graph(ctx, fused[_i], &c.decomposed);
    const mlsi_func *f = &c.g.funcs[0];
    c.n_in = (int)f->n_inputs;
    c.v.op = c.g.funcs[0].nodes[f->n_nodes - 1].op;
    c.v.n_in = c.n_in;
    c.v.n_out = (int)f->n_outputs;
    for (int i = 0; i < c.n_in; i++) {
        op_operand o = {.type = f->values[f->inputs[i]].type, .domain = "small"};
        c.in[i] = dense(&r, &o.type);
        op_operand_fill(&r, &c.in[i], &o);
    }
    for (int i = 0; i < c.v.n_out; i++) {
        c.want[i] = dense(&r, &f->values[f->outputs[i].value].type);
        c.got[i] = dense(&r, &f->values[f->outputs[i].value].type);
    }
    run(&c);
    end(&c);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("loop values");
    TCase *tc = tcase_create("values");
    tcase_add_test(tc, an_invisible_key_leaves_negative_zero);
    tcase_add_test(tc, keys_behind_kv_len_reach_no_adjoint);
    tcase_add_test(tc, shares_of_negative_zero_stay);
    tcase_add_test(tc, rows_that_quantise_oddly);
    tcase_add_loop_test(tc, neighbours_are_computed_in_place, 0,
                        (int)(sizeof fused / sizeof fused[0]));
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
