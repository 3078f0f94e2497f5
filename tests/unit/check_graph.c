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

/* ---- builder ------------------------------------------------------------------------------------
 */

START_TEST(builder_names_op_operand_and_values) {
    mlsys_value x = input("x", MLSYS_F32, 2, 2, 3), y = input("y", MLSYS_F32, 2, 4, 3),
                i = input("i", MLSYS_I32, 2, 2, 3), out[2];
    expect(mlsys_graph_op(graph, "add", 2, (mlsys_value[]){x, y}, NULL, 1, out), MLSYS_E_SHAPE,
           "add: operand 1 (b): extent 4 against 2");
    expect(mlsys_graph_op(graph, "add", 2, (mlsys_value[]){x, i}, NULL, 1, out), MLSYS_E_DTYPE,
           "add: operand 1 (b): dtype i32, expected f32");
    expect(mlsys_graph_op(graph, "add", 1, &x, NULL, 1, out), MLSYS_E_ARG,
           "add: 1 operands given, takes 2");
    expect(mlsys_graph_op(graph, "add", 2, (mlsys_value[]){x, 0}, NULL, 1, out), MLSYS_E_ARG,
           "add: operand 1 of (a, b) is absent");
    expect(mlsys_graph_op(graph, "add", 2, (mlsys_value[]){x, x}, NULL, 2, out), MLSYS_E_ARG,
           "add: 2 results asked, gives 1");
    expect(mlsys_graph_op(graph, "nothing", 1, &x, NULL, 1, out), MLSYS_E_NOTFOUND, "\"nothing\"");
    expect(mlsys_graph_op(graph, "call", 1, &x, NULL, 1, out), MLSYS_E_ARG, "mlsys_graph_control");
    expect(mlsys_graph_op(graph, "exp", 1, (mlsys_value[]){x + 1000}, NULL, 1, out), MLSYS_E_ARG,
           "not a value of this graph");
    ck_assert_int_eq(out[0], 0);
    expect(mlsys_graph_output(graph, "z", 12345), MLSYS_E_ARG, "12345 is not a value");
    expect(mlsys_graph_output(graph, "z", -1), MLSYS_E_ARG, "not a value");
    OK(mlsys_graph_verify(graph));
}
END_TEST

START_TEST(inputs_are_checked) {
    mlsys_value v;
    mlsys_dim b, minus;
    char name[300];
    const mlsys_dim row[2] = {2, 33}, huge[3] = {INT64_MAX, 2, 2}, bad[1] = {-5};
    OK(mlsys_graph_symbol(graph, "B", 0, 8, 1, &b));
    OK(mlsys_graph_dim(graph, '-', b, 3, &minus));
    input("x", MLSYS_F32, 2, 2, 3);
    expect(mlsys_graph_input(graph, "x", MLSYS_F32, 1, row, &v), MLSYS_E_ARG,
           "input x: the name is taken");
    expect(mlsys_graph_input(graph, "w", MLSYS_Q8_0, 2, row, &v), MLSYS_E_SHAPE,
           "input w: last extent 33 is not whole blocks of 32 (q8_0)");
    expect(mlsys_graph_input(graph, "w", MLSYS_Q8_0, 0, NULL, &v), MLSYS_E_SHAPE, "rank 0");
    expect(mlsys_graph_input(graph, "w", MLSYS_Q8_0, 1, &b, &v), MLSYS_E_SHAPE,
           "last extent B is not whole");
    expect(mlsys_graph_input(graph, "h", MLSYS_F32, 3, huge, &v), MLSYS_E_SHAPE, "2^63");
    expect(mlsys_graph_input(graph, "n", MLSYS_F32, 1, bad, &v), MLSYS_E_SHAPE, "extent 0 is -5");
    expect(mlsys_graph_input(graph, "n", MLSYS_F32, 1, &minus, &v), MLSYS_E_SHAPE,
           "may be negative (-3)");
    expect(mlsys_graph_input(graph, "n", 77, 1, row, &v), MLSYS_E_DTYPE, "unknown dtype 77");
    expect(mlsys_graph_input(graph, "n", MLSYS_F32, 9, row, &v), MLSYS_E_SHAPE, "ndim 9");
    memset(name, 'n', sizeof name);
    name[256] = 0;
    expect(mlsys_graph_input(graph, name, MLSYS_F32, 1, row, &v), MLSYS_E_ARG,
           "longer than 255 bytes");
    name[255] = 0;
    OK(mlsys_graph_input(graph, name, MLSYS_F32, 1, row, &v));
    OK(mlsys_graph_input(graph, NULL, MLSYS_F32, 1, row, &v));
    OK(mlsys_graph_input(graph, "", MLSYS_F32, 1, row, &v));
    mlsys_dim k; /* a multiple of 32 holds whole blocks */
    OK(mlsys_graph_symbol(graph, "K", 32, 320, 32, &k));
    OK(mlsys_graph_input(graph, "blocks", MLSYS_Q8_0, 1, &k, &v));
    OK(mlsys_graph_verify(graph));
}
END_TEST

START_TEST(values_belong_to_one_graph) {
    mlsys_graph other;
    mlsys_value x = input("x", MLSYS_F32, 1, 4, 0), y, out;
    const mlsys_dim four[1] = {4};
    mlsys_dim shape[8];
    int32_t rank;
    OK(mlsys_graph_create(ctx_handle, &other));
    OK(mlsys_graph_input(other, "y", MLSYS_F32, 1, four, &y));
    expect(mlsys_graph_op(graph, "add", 2, (mlsys_value[]){x, y}, NULL, 1, &out), MLSYS_E_ARG,
           "operand 1: add");
    expect(mlsys_graph_output(graph, "o", y), MLSYS_E_ARG, "not a value of this graph");
    expect(mlsys_graph_donate(graph, y), MLSYS_E_ARG, "not a value of this graph");
    expect(mlsys_graph_type(graph, y, NULL, 8, shape, &rank), MLSYS_E_ARG,
           "not a value of this graph");
    expect(mlsys_graph_type(graph, x, NULL, 0, NULL, &rank), MLSYS_OK, "");
    expect(mlsys_graph_type(graph, x, NULL, 0, shape, &rank), MLSYS_E_BUFFER, "room for 0");
    OK(mlsys_release(other));
}
END_TEST

START_TEST(only_inputs_are_donated) {
    mlsys_value x = input("x", MLSYS_F32, 1, 4, 0), y = op1("exp", x), c;
    mlsys_tensor t;
    const int64_t four[1] = {4};
    OK(mlsys_tensor_create(device_handle, MLSYS_F32, 1, four, &t));
    OK(mlsys_graph_const(graph, t, &c));
    OK(mlsys_release(t));
    OK(mlsys_graph_donate(graph, x));
    expect(mlsys_graph_donate(graph, y), MLSYS_E_ARG, "value 1 is not an input");
    expect(mlsys_graph_donate(graph, c), MLSYS_E_ARG, "is not an input");
    ck_assert(inside->funcs[0].donated[0]);
}
END_TEST

START_TEST(a_failed_control_leaves_nothing) {
    mlsys_graph callee;
    mlsys_value x = input("x", MLSYS_F32, 1, 4, 0), y, out;
    const mlsys_dim five[1] = {5};
    OK(mlsys_graph_create(ctx_handle, &callee));
    OK(mlsys_graph_input(callee, "y", MLSYS_F32, 1, five, &y));
    OK(mlsys_graph_output(callee, NULL, y));
    expect(mlsys_graph_control(graph, "call", callee, NULL, 1, &x, 1, &out), MLSYS_E_SHAPE,
           "f32[5]");
    expect(mlsys_graph_control(graph, "while", callee, callee, 1, &x, 1, &out), MLSYS_E_SHAPE,
           "f32[5]");
    expect(mlsys_graph_control(graph, "call", callee, callee, 1, &x, 1, &out), MLSYS_E_ARG,
           "g2 is given");
    expect(mlsys_graph_control(graph, "if", callee, NULL, 1, &x, 1, &out), MLSYS_E_HANDLE,
           "g2 is NULL");
    expect(mlsys_graph_control(graph, "jump", callee, NULL, 1, &x, 1, &out), MLSYS_E_ARG,
           "\"jump\"");
    expect(mlsys_graph_control(graph, "call", graph, NULL, 1, &x, 1, &out), MLSYS_E_BUSY, "in use");
    ck_assert_int_eq(inside->n_funcs, 1);
    OK(mlsys_graph_verify(graph));
    OK(mlsys_release(callee));
}
END_TEST

/* ---- verifier -----------------------------------------------------------------------------------
 */

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

static void parse_sample(mlsi_graph *g) {
    OK(mlsi_graph_init(g, ctx));
    OK(mlsi_graph_parse(g, device, sample));
    OK(mlsi_graph_verify(g));
}

/* Corruptions of the sample, each of one invariant; the name is what the sentence must hold. */
typedef void (*damage_fn)(mlsi_graph *g);
#define MAIN     (g->funcs[0])
#define NODE(n)  (g->funcs[0].nodes[n])
#define VALUE(v) (g->funcs[0].values[v])

static mlsi_node *node_at(mlsi_graph *g, int n) { return &g->funcs[0].nodes[n]; }
static void *attrs_of(mlsi_graph *g, int n) { return (void *)(uintptr_t)node_at(g, n)->attrs; }
static int32_t *operands_of(mlsi_graph *g, int n) {
    return (int32_t *)(uintptr_t)node_at(g, n)->in;
}

static void unknown_op(mlsi_graph *g) { NODE(0).op = (mlsi_op)999; }
static void negative_op(mlsi_graph *g) { NODE(0).op = (mlsi_op)-1; }
static void other_op(mlsi_graph *g) { NODE(0).op = MLSI_OP_LT; }
static void operand_count(mlsi_graph *g) { NODE(0).n_in = 1; }
static void many_operands(mlsi_graph *g) { NODE(0).n_in = 1000000; }
static void negative_operands(mlsi_graph *g) { NODE(0).n_in = -1; }
static void no_operands(mlsi_graph *g) { NODE(0).in = NULL; }
static void no_attrs(mlsi_graph *g) { NODE(0).attrs = NULL; }
static void no_results(mlsi_graph *g) { NODE(0).n_out = 0; }
static void many_results(mlsi_graph *g) { NODE(0).n_out = 1000; }
static void later_operand(mlsi_graph *g) { operands_of(g, 0)[1] = 5; }
static void own_operand(mlsi_graph *g) { operands_of(g, 0)[0] = 3; }
static void negative_operand(mlsi_graph *g) { operands_of(g, 0)[0] = -2; }
static void absent_operand(mlsi_graph *g) { operands_of(g, 0)[0] = -1; }
static void results_before(mlsi_graph *g) { NODE(1).first_out = 3; }
static void results_past_end(mlsi_graph *g) { NODE(5).first_out = (int32_t)MAIN.n_values; }
static void negative_results(mlsi_graph *g) { NODE(0).first_out = -7; }
static void wrong_type(mlsi_graph *g) { VALUE(3).type.dims[1] = 5; }
static void wrong_dtype(mlsi_graph *g) { VALUE(3).type.dtype = MLSYS_F64; }
static void unknown_dtype(mlsi_graph *g) { VALUE(0).type.dtype = 1234; }
static void rank_past_end(mlsi_graph *g) { VALUE(3).type.rank = 1000; }
static void negative_rank(mlsi_graph *g) { VALUE(0).type.rank = -1; }
static void stale_dim(mlsi_graph *g) { VALUE(0).type.dims[0] = MLSI_DIM_CODE - 5000; }
static void negative_dim(mlsi_graph *g) { VALUE(0).type.dims[1] = -3; }
static void value_kind(mlsi_graph *g) { VALUE(3).kind = (mlsi_value_kind)0; }
static void value_node(mlsi_graph *g) { VALUE(3).index = 77; }
static void value_other_node(mlsi_graph *g) { VALUE(3).index = 1; }
static void value_result(mlsi_graph *g) { VALUE(6).result = 0; }
static void value_constant(mlsi_graph *g) { VALUE(2).index = 9; }
static void constant_type(mlsi_graph *g) { VALUE(2).type.dims[0] = 3; }
static void input_number(mlsi_graph *g) { VALUE(0).index = 1; }
static void input_value(mlsi_graph *g) { MAIN.inputs[1] = 3; }
static void input_outside(mlsi_graph *g) { MAIN.inputs[1] = 5000; }
static void output_outside(mlsi_graph *g) { MAIN.outputs[2].value = 10; }
static void negative_output(mlsi_graph *g) { MAIN.outputs[0].value = -1; }
static void callee_self(mlsi_graph *g) { ((mlsi_attr_control *)attrs_of(g, 1))->fn1 = 0; }
static void callee_outside(mlsi_graph *g) { ((mlsi_attr_control *)attrs_of(g, 1))->fn2 = 2; }
static void callee_huge(mlsi_graph *g) { ((mlsi_attr_control *)attrs_of(g, 1))->fn1 = INT64_MAX; }
static void callee_type(mlsi_graph *g) { g->funcs[1].values[0].type.dims[1] = 5; }
static void attr_axis(mlsi_graph *g) { ((mlsi_attr_topk *)attrs_of(g, 2))->axis = 7; }
static void attr_not_normal(mlsi_graph *g) { ((mlsi_attr_topk *)attrs_of(g, 2))->axis = -1; }
static void attr_enum(mlsi_graph *g) { ((mlsi_attr_gelu *)attrs_of(g, 3))->form = 44; }
static void attr_list(mlsi_graph *g) { ((mlsi_attr_shape *)attrs_of(g, 4))->shape.n = 17; }
static void attr_list_negative(mlsi_graph *g) { ((mlsi_attr_shape *)attrs_of(g, 4))->shape.n = -1; }
static void attr_list_rest(mlsi_graph *g) { ((mlsi_attr_shape *)attrs_of(g, 4))->shape.v[9] = 1; }
static void attr_stale_dim(mlsi_graph *g) {
    ((mlsi_attr_shape *)attrs_of(g, 4))->shape.v[0] = MLSI_DIM_CODE - 777;
}
static void attr_perm(mlsi_graph *g) { ((mlsi_attr_transpose *)attrs_of(g, 5))->perm.v[1] = 1; }
static void no_name(mlsi_graph *g) { MAIN.name = NULL; }
static void no_functions(mlsi_graph *g) { mlsi_graph_truncate(g, 0); }

static const struct {
    damage_fn damage;
    const char *text;
} damages[] = {
    {unknown_op, "unknown op 999"},
    {negative_op, "unknown op"},
    {other_op, "node 0 (lt): result 0 has type f32[B,4], its operands give bool[B,4]"},
    {operand_count, "add: 1 operands given"},
    {many_operands, "node 0 (add): 1000000 operands"},
    {negative_operands, "node 0 (add): -1 operands"},
    {no_operands, "node 0 (add)"},
    {no_attrs, "node 0 (add)"},
    {no_results, "0 results"},
    {many_results, "1000 results"},
    {later_operand, "operand 1 is value 5, defined at or after the node"},
    {own_operand, "operand 0 is value 3"},
    {negative_operand, "operand 0 is value -2"},
    {absent_operand, "operand 0 of (a, b) is absent"},
    {results_before, "not in order"},
    {results_past_end, "not in order"},
    {negative_results, "not in order"},
    {wrong_type, "result 0 has type f32[B,5], its operands give f32[B,4]"},
    {wrong_dtype, "result 0 has type f64[B,4]"},
    {unknown_dtype, "value 0: unknown dtype 1234"},
    {rank_past_end, "value 3: rank 1000"},
    {negative_rank, "value 0: rank -1"},
    {stale_dim, "value 0: extent 0 is"},
    {negative_dim, "value 0: extent 1 is -3"},
    {value_kind, "result 0 is value 3, which is another thing"},
    {value_node, "result 0 is value 3, which is another thing"},
    {value_other_node, "result 0 is value 3, which is another thing"},
    {value_result, "result 1 is value 6, which is another thing"},
    {value_constant, "value 2 has no definition"},
    {constant_type, "value 2 has type f32[3], its constant is f32[4]"},
    {input_number, "input 0 is value 0, which is another thing"},
    {input_value, "input 1 is value 3, which is another thing"},
    {input_outside, "input 1 is value 5000"},
    {output_outside, "output 2 is value 10"},
    {negative_output, "output 0 is value -1"},
    {callee_self, "node 1 (if): names function 0"},
    {callee_outside, "node 1 (if): names function 2"},
    {callee_huge, "names function 9223372036854775807"},
    {callee_type, "verify: body: node 0"},
    {attr_axis, "topk"},
    {attr_not_normal, "node 2 (topk): attributes are not in normal form"},
    {attr_enum, "node 3 (gelu): attribute form: 44 outside [0,2)"},
    {attr_list, "node 4 (reshape): attribute shape: 17 entries"},
    {attr_list_negative, "attribute shape: -1 entries"},
    {attr_list_rest, "attribute shape: an unused entry is 1"},
    {attr_stale_dim, "attribute shape: entry 0 is not a dim of this graph"},
    {attr_perm, "transpose"},
    {no_name, "function 0 has no name"},
    {no_functions, "no function"},
};
enum { N_DAMAGES = (int)(sizeof damages / sizeof damages[0]) };

START_TEST(verifier_finds_every_damage) {
    mlsi_graph g;
    parse_sample(&g);
    damages[_i].damage(&g);
    mlsys_status st = mlsi_graph_verify(&g);
    ck_assert_msg(st != MLSYS_OK, "not found: %s", damages[_i].text);
    ck_assert_msg(!strncmp(mlsys_last_error(), "verify: ", 8) &&
                      strstr(mlsys_last_error(), damages[_i].text),
                  "\"%s\", expected \"%s\"", mlsys_last_error(), damages[_i].text);
    mlsi_graph_free(&g);
}
END_TEST

/* Any bytes in the numbers of a graph: found, or harmless. */
START_TEST(verifier_survives_random_damage) {
    kc_rng r = kc_seed(77);
    int found = 0;
    for (int trial = 0; trial < 3000; trial++) {
        mlsi_graph g;
        mlsi_text t;
        parse_sample(&g);
        mlsi_func *f = &g.funcs[kc_int(&r, 0, 1)];
        static const int64_t edges[] = {-1, 0, 1, 2, 7, 64, 65, INT32_MAX, INT32_MIN};
        int32_t v = (int32_t)edges[kc_int(&r, 0, 8)];
        int32_t *fields[] = {&f->nodes[kc_int(&r, 0, f->n_nodes - 1)].n_in,
                             &f->nodes[kc_int(&r, 0, f->n_nodes - 1)].n_out,
                             &f->nodes[kc_int(&r, 0, f->n_nodes - 1)].first_out,
                             (int32_t *)(uintptr_t)&f->nodes[kc_int(&r, 0, f->n_nodes - 1)].in[0],
                             &f->values[kc_int(&r, 0, f->n_values - 1)].index,
                             &f->values[kc_int(&r, 0, f->n_values - 1)].result,
                             &f->values[kc_int(&r, 0, f->n_values - 1)].type.rank,
                             &f->values[kc_int(&r, 0, f->n_values - 1)].type.dtype,
                             &f->inputs[0],
                             &f->outputs[0].value};
        int64_t which = kc_int(&r, 0, 9);
        int32_t *field = fields[which], before = *field;
        *field = v;
        if (mlsi_graph_verify(&g) != MLSYS_OK) {
            found++;
            *field = before; /* so that it can be freed */
        } else {
            mlsi_text_init(&t, g.alloc); /* what passes can be printed */
            mlsi_graph_print(&g, &t);
            ck_assert_int_eq(t.st, MLSYS_OK);
            mlsi_text_free(&t);
        }
        mlsi_graph_free(&g);
    }
    ck_assert_int_gt(found, 2000);
}
END_TEST

static void add_tests(TCase *tc) {
    tcase_add_test(tc, builder_names_op_operand_and_values);
    tcase_add_test(tc, inputs_are_checked);
    tcase_add_test(tc, values_belong_to_one_graph);
    tcase_add_test(tc, only_inputs_are_donated);
    tcase_add_test(tc, a_failed_control_leaves_nothing);
    tcase_add_loop_test(tc, verifier_finds_every_damage, 0, N_DAMAGES);
    tcase_add_test(tc, verifier_survives_random_damage);
}

int main(void) {
    Suite *s = suite_create("graph");
    TCase *tc = tcase_create("graph");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    add_tests(tc);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
