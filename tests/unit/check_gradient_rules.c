/* What gradient rules emit, beside the values: the cheaper of two forms where both are right, the ops of weights in
 * a format, and refusals. */
#include "autodiff/reverse.h"
#include "support/program_case.h"

#include <stdio.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* How many of the nodes from `first` on are of this op. */
static int count(const mlsi_graph *g, int64_t first, mlsi_op op) {
    int n = 0;
    for (int64_t i = first; i < g->funcs[0].n_nodes; i++)
        n += g->funcs[0].nodes[i].op == op;
    return n;
}

/* Gradients by the first input, and the numbers of two ops in them. */
static const struct {
    const char *name, *text;
    mlsi_op op[2];
    int n[2];
} forms[] = {
    {"steps of 1: cells come back by a pad",
     "  %0 = input \"x\" : f32[2,9]\n  %1 = slice(%0) {starts=[0,2], stops=[2,7], steps=[1,1]} : "
     "f32[2,5]\n",
     {MLSI_OP_PAD, MLSI_OP_SCATTER},
     {1, 0}},
    {"steps of 1, nothing taken",
     "  %0 = input \"x\" : f32[2,9]\n  %1 = slice(%0) {starts=[0,4], stops=[2,4], steps=[1,1]} : "
     "f32[2,0]\n",
     {MLSI_OP_PAD, MLSI_OP_SCATTER},
     {1, 0}},
    {"another step: by a scatter",
     "  %0 = input \"x\" : f32[2,9]\n  %1 = slice(%0) {starts=[0,0], stops=[2,9], steps=[1,4]} : "
     "f32[2,3]\n",
     {MLSI_OP_PAD, MLSI_OP_SCATTER},
     {0, 1}},
    {"all of it: nothing to do",
     "  %0 = input \"x\" : f32[2,9]\n  %1 = slice(%0) {starts=[0,0], stops=[2,9], steps=[1,1]} : "
     "f32[2,9]\n",
     {MLSI_OP_PAD, MLSI_OP_SCATTER},
     {0, 0}},
    {"a product whose axes lie in order",
     "  %0 = input \"x\" : f32[4,3]\n  %1 = input \"w\" : f32[3,5]\n"
     "  %2 = dot_general(%0, %1) {lhs_contract=[1], rhs_contract=[0]} : f32[4,5]\n",
     {MLSI_OP_DOT_GENERAL, MLSI_OP_TRANSPOSE},
     {1, 0}},
    {"a product whose axes do not",
     "  %0 = input \"x\" : f32[3,4]\n  %1 = input \"w\" : f32[3,5]\n"
     "  %2 = dot_general(%0, %1) {lhs_contract=[0], rhs_contract=[0]} : f32[4,5]\n",
     {MLSI_OP_DOT_GENERAL, MLSI_OP_TRANSPOSE},
     {1, 1}},
    {"a filter of one group: no group is split off",
     "  %0 = input \"w\" : f32[3,2,2]\n  %1 = input \"x\" : f32[1,2,5]\n"
     "  %2 = conv(%1, %0) : f32[1,3,4]\n",
     {MLSI_OP_TRANSPOSE, MLSI_OP_RESHAPE},
     {3, 0}},
    {"a norm by x alone: no sum for its terms",
     "  %0 = input \"x\" : f32[2,3]\n  %1 = input \"w\" : f32[3]\n  %2 = input \"b\" : f32[3]\n"
     "  %3 = layer_norm(%0, %1, %2) : f32[2,3]\n",
     {MLSI_OP_REDUCE_SUM, MLSI_OP_LAYER_NORM},
     {4, 0}},
    {"nothing was broadcast: nothing to sum",
     "  %0 = input \"x\" : f32[3,4]\n  %1 = input \"y\" : f32[3,4]\n  %2 = add(%0, %1) : "
     "f32[3,4]\n",
     {MLSI_OP_RESHAPE, MLSI_OP_REDUCE_SUM},
     {0, 0}},
};

static mlsi_graph *parse(const char *body, mlsys_graph *g) {
    char text[1024];
    mlsi_graph *inside;
    snprintf(text, sizeof text, "symbol L 4 64 1\nfunctions 1\nfunc 0 \"main\" {\n%s}\n", body);
    *g = pc_parse(&pc, text);
    OK(mlsi_pin(*g, MLSYS_KIND_GRAPH, "graph", &inside));
    return inside;
}

static void done(mlsys_graph g, mlsi_graph *inside) {
    mlsi_unpin(inside);
    OK(mlsys_release(g));
}

START_TEST(the_cheaper_form) {
    mlsys_graph handle;
    char body[600];
    snprintf(body, sizeof body, "%s  output \"\" %%0\n", forms[_i].text);
    mlsi_graph *g = parse(body, &handle);
    int32_t y = (int32_t)g->funcs[0].n_values - 1, x = 0, dx;
    int64_t first = g->funcs[0].n_nodes;
    OK(mlsi_gradient(g, 0, 1, &y, NULL, 1, &x, &dx));
    for (int k = 0; k < 2; k++)
        ck_assert_msg(count(g, first, forms[_i].op[k]) == forms[_i].n[k],
                      "%s: %d times %s, expected %d", forms[_i].name,
                      count(g, first, forms[_i].op[k]), mlsi_op_name(forms[_i].op[k]),
                      forms[_i].n[k]);
    done(handle, g);
}
END_TEST

/* ---- operands that are not there ----------------------------------------------------------- */

static const char *const optional[] = {
    "  %0 = input \"x\" : f32[2,3]\n  %1 = input \"w\" : f32[3]\n"
    "  %2 = layer_norm(%0, %1) : f32[2,3]\n",
    "  %0 = input \"x\" : f32[2,3]\n  %1 = rms_norm(%0) : f32[2,3]\n",
    "  %0 = input \"q\" : f32[1,1,1,1]\n  %1 = attention(%0, %0, %0) : f32[1,1,1,1]\n",
    "  %0 = input \"x\" : f32[2]\n  %1 = input \"p\" : bool[2]\n"
    "  %2 = select(%1, %0, %0) : f32[2]\n",
};

/* What lies behind the operands of a call, here values that would fit, is no operand. */
START_TEST(rules_read_no_operand_behind_the_last) {
    enum { ROOM = 8 };
    mlsys_graph handle;
    char body[600];
    snprintf(body, sizeof body, "%s  output \"\" %%0\n", optional[_i]);
    mlsi_graph *g = parse(body, &handle);
    const mlsi_node node = g->funcs[0].nodes[g->funcs[0].n_nodes - 1];
    int32_t in[ROOM] = {0}, din[ROOM], din_alive[ROOM];
    bool wanted[ROOM];
    for (int k = 0; k < ROOM; k++)
        wanted[k] = true, din[k] = din_alive[k] = -1;
    for (int k = 0; k < node.n_in; k++) {
        in[k] = node.in[k];
        wanted[k] = mlsi_dtype_is_float(mlsi_type_of(g, 0, in[k])->dtype);
    }
    mlsi_vjp v = {.graph = g,
                  .attrs = node.attrs,
                  .n_in = node.n_in,
                  .n_out = node.n_out,
                  .in = in,
                  .out = &node.first_out,
                  .dout = &node.first_out,
                  .wanted = wanted,
                  .din = din,
                  .alive = -1,
                  .din_alive = din_alive};
    OK(mlsi_op_get(node.op)->vjp(&v));
    for (int k = 0; k < ROOM; k++) {
        bool there = k < node.n_in;
        ck_assert_msg((din[k] >= 0) == (there && wanted[k]), "operand %d of %d: adjoint %d", k,
                      (int)node.n_in, (int)din[k]);
        ck_assert(there || din_alive[k] == -1);
    }
    done(handle, g);
}
END_TEST

/* ---- pools --------------------------------------------------------------------------------- */

/* Windows side by side are put in order, others added up; x is padded as far as its windows reach. */
static const struct {
    const char *text;
    int concats, adds;
    int64_t padded; /* the last extent of the padded x */
} pools[] = {
    {"  %0 = input \"x\" : f32[1,1,4,4,4]\n  %1 = input \"y\" : f32[1,1,2,2,2]\n"
     "  %2 = pool_grad(%0, %1, %1) {kind=sum, kernel=[2,2,2], strides=[2,2,2]} : "
     "f32[1,1,4,4,4]\n",
     7, 0, 4},
    {"  %0 = input \"x\" : f32[1,1,64]\n  %1 = input \"y\" : f32[1,1,1]\n"
     "  %2 = pool_grad(%0, %1, %1) {kind=sum, kernel=[64], strides=[64]} : f32[1,1,64]\n",
     1, 0, 64},
    {"  %0 = input \"x\" : f32[1,1,8]\n  %1 = input \"y\" : f32[1,1,3]\n"
     "  %2 = pool_grad(%0, %1, %1) {kind=sum, kernel=[3], strides=[2]} : f32[1,1,8]\n",
     0, 2, 8},
    {"  %0 = input \"x\" : f32[1,1,8]\n  %1 = input \"y\" : f32[1,1,4]\n"
     "  %2 = pool_grad(%0, %1, %1) {kind=sum, kernel=[3], strides=[2], pads=[0,1]} : "
     "f32[1,1,8]\n",
     0, 2, 9},
    {"  %0 = input \"x\" : f32[1,1,8]\n  %1 = input \"y\" : f32[1,1,2]\n"
     "  %2 = pool_grad(%0, %1, %1) {kind=sum, kernel=[2], strides=[2], dilations=[5]} : "
     "f32[1,1,8]\n",
     0, 1, 8},
};

START_TEST(windows_side_by_side) {
    mlsys_graph handle;
    char body[600];
    int32_t out;
    snprintf(body, sizeof body, "%s  output \"\" %%2\n", pools[_i].text);
    mlsi_graph *g = parse(body, &handle);
    int64_t first = g->funcs[0].n_nodes;
    const mlsi_node node = g->funcs[0].nodes[first - 1];
    OK(mlsi_op_get(node.op)->decompose(g, 0, node.attrs, node.n_in, node.in, 1, &out));
    ck_assert_int_eq(count(g, first, MLSI_OP_CONCAT), pools[_i].concats);
    ck_assert_int_eq(count(g, first, MLSI_OP_ADD), pools[_i].adds);
    while (g->funcs[0].nodes[first].op != MLSI_OP_PAD)
        first++;
    const mlsi_type *padded = mlsi_type_of(g, 0, g->funcs[0].nodes[first].first_out);
    ck_assert_int_eq(padded->dims[padded->rank - 1], pools[_i].padded);
    done(handle, g);
}
END_TEST

/* ---- weights in a format ------------------------------------------------------------------- */

/* A block of q8_0: d as f16, then 32 int8. */
static mlsys_tensor q8_0_rows(kc_rng *r, int64_t rows) {
    const int64_t shape[2] = {rows, 32};
    uint8_t data[5 * 34];
    for (int64_t i = 0; i < rows * 34; i++)
        data[i] = (uint8_t)kc_int(r, 0, 255);
    for (int64_t i = 0; i < rows; i++)
        data[34 * i] = 0, data[34 * i + 1] = (uint8_t)(0x30 + i); /* 1/8, ... */
    return pc_tensor(&pc, MLSYS_Q8_0, 2, shape, data);
}

static mlsys_tensor small_numbers(kc_rng *r, mlsys_dtype t, int64_t rows, int64_t width) {
    const int64_t shape[2] = {rows, width};
    mlsys_tensor x = pc_tensor(&pc, t, 2, shape, NULL);
    mlsi_view v = rg_view(x);
    for (int64_t i = 0; i < rows * width; i++)
        kc_set_f(&v, i, kc_uniform(r, -2, 2));
    return x;
}

/* dx = dy * dequantize(w), in x's dtype. */
START_TEST(quant_matmul_goes_back_through_the_decoded_weights) {
    const char *type = _i ? "f16" : "f32";
    const mlsys_dtype t = _i ? MLSYS_F16 : MLSYS_F32;
    const int32_t y = 3, seed = 2, x = 0;
    mlsys_graph handle;
    char body[800];
    int32_t dx;
    snprintf(body, sizeof body,
             "  %%0 = input \"x\" : %s[3,32]\n  %%1 = input \"w\" : q8_0[5,32]\n"
             "  %%2 = input \"dy\" : %s[3,5]\n  %%3 = quant_matmul(%%0, %%1) : %s[3,5]\n"
             "  %%4 = dequantize(%%1) {dtype=f32} : f32[5,32]\n"
             "  %%5 = cast(%%2) {dtype=f32} : f32[3,5]\n"
             "  %%6 = matmul(%%5, %%4) : f32[3,32]\n  %%7 = cast(%%6) {dtype=%s} : %s[3,32]\n"
             "  output \"\" %%7\n",
             type, type, type, type, type);
    mlsi_graph *g = parse(body, &handle);
    OK(mlsi_gradient(g, 0, 1, &y, &seed, 1, &x, &dx));
    OK(mlsi_build_output(g, 0, NULL, dx));
    kc_rng r = kc_seed(23);
    mlsys_tensor in[3] = {small_numbers(&r, t, 3, 32), q8_0_rows(&r, 5),
                          small_numbers(&r, t, 3, 5)},
                 out[2] = {0};
    pc_interpret_inside(&pc, g, 3, in, 2, out);
    ck_assert_int_lt(rg_difference(out[0], out[1]), 0);
    pc_release(3, in);
    pc_release(2, out);
    done(handle, g);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gradient_rules");
    TCase *tc = tcase_create("rules");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_cheaper_form, 0, (int)(sizeof forms / sizeof forms[0]));
    tcase_add_loop_test(tc, rules_read_no_operand_behind_the_last, 0,
                        (int)(sizeof optional / sizeof optional[0]));
    tcase_add_loop_test(tc, windows_side_by_side, 0, (int)(sizeof pools / sizeof pools[0]));
    tcase_add_loop_test(tc, quant_matmul_goes_back_through_the_decoded_weights, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
