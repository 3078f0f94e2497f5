/* Transposes that cancel, merge, or become strides: what the pass leaves, and the bits. */
#include "ir/passes/passes.h"
#include "support/program_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static int count(const mlsi_graph *g, mlsi_op op) {
    int n = 0;
    for (int64_t i = 0; i < g->funcs[0].n_nodes; i++)
        n += g->funcs[0].nodes[i].op == op;
    return n;
}

#define HEAD                                                                                       \
    "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[6,40,30]\n"                          \
    "  %1 = input \"y\" : f32[6,40,30]\n  %2 = input \"b\" : f32[40]\n"                            \
    "  %3 = input \"c\" : f32[6,1,1]\n"
#define TURN(n, x) "  %" #n " = transpose(%" #x ") {perm=[0,2,1]} : f32[6,30,40]\n"
#define BACK(n, x) "  %" #n " = transpose(%" #x ") {perm=[0,2,1]} : f32[6,40,30]\n"
#define OUT(n)     "  output \"z\" %" #n "\n}\n"

static const struct {
    const char *name, *text;
    int before, after; /* transposes */
} cases[] = {
    {"there and back", HEAD TURN(4, 0) "  %5 = exp(%4) : f32[6,30,40]\n" BACK(6, 5) OUT(6), 2, 0},
    {"two that come, one that leaves",
     HEAD TURN(4, 0) TURN(5, 1) "  %6 = mul(%4, %5) : f32[6,30,40]\n"
                                "  %7 = tanh(%6) : f32[6,30,40]\n" BACK(8, 7) OUT(8),
     3, 0},
    {"two that come become one that leaves",
     HEAD TURN(4, 0) TURN(5, 1) "  %6 = mul(%4, %5) : f32[6,30,40]\n"
                                "  %7 = tanh(%6) : f32[6,30,40]\n" OUT(7),
     2, 1},
    {"one that comes stays: its result would be transposed instead",
     HEAD TURN(4, 0) "  %5 = exp(%4) : f32[6,30,40]\n" OUT(5), 1, 1},
    {"a bias along the last axis keeps it there",
     HEAD TURN(4, 0) "  %5 = add(%4, %2) : f32[6,30,40]\n" BACK(6, 5) OUT(6), 2, 2},
    {"a small operand is transposed, which moves nothing",
     HEAD TURN(4, 0) "  %5 = mul(%4, %3) : f32[6,30,40]\n" BACK(6, 5) OUT(6), 2, 1},
    {"leading axes change places beside a bias",
     HEAD "  %4 = reshape(%0) {shape=[6,30,40]} : f32[6,30,40]\n"
          "  %5 = transpose(%4) {perm=[1,0,2]} : f32[30,6,40]\n"
          "  %6 = add(%5, %2) : f32[30,6,40]\n"
          "  %7 = transpose(%6) {perm=[1,0,2]} : f32[6,30,40]\n" OUT(7),
     2, 0},
    {"orders that differ stay",
     HEAD TURN(4, 0) "  %5 = reshape(%1) {shape=[40,6,30]} : f32[40,6,30]\n"
                     "  %6 = transpose(%5) {perm=[1,2,0]} : f32[6,30,40]\n"
                     "  %7 = add(%4, %6) : f32[6,30,40]\n" OUT(7),
     2, 2},
    {"a cycle of three axes",
     HEAD "  %4 = transpose(%0) {perm=[1,2,0]} : f32[40,30,6]\n"
          "  %5 = exp(%4) : f32[40,30,6]\n  %6 = neg(%5) : f32[40,30,6]\n"
          "  %7 = transpose(%6) {perm=[2,0,1]} : f32[6,40,30]\n" OUT(7),
     2, 0},
    {"the same cycle twice",
     HEAD "  %4 = transpose(%0) {perm=[1,2,0]} : f32[40,30,6]\n"
          "  %5 = exp(%4) : f32[40,30,6]\n"
          "  %6 = transpose(%5) {perm=[1,2,0]} : f32[30,6,40]\n" OUT(6),
     2, 1}, /* [2,0,1], as it leaves */
    {"a product reads strides",
     HEAD TURN(4, 0) "  %5 = exp(%4) : f32[6,30,40]\n"
                     "  %6 = matmul(%5, %1) : f32[6,30,30]\n" OUT(6),
     1, 1},
    {"a product is computed transposed",
     HEAD "  %4 = matmul(%0, %1) {transpose_b=true} : f32[6,40,40]\n"
          "  %5 = transpose(%4) {perm=[0,2,1]} : f32[6,40,40]\n"
          "  %6 = exp(%5) : f32[6,40,40]\n" OUT(6),
     1, 0},
    {"of one that others read too the transpose is a view",
     HEAD "  %4 = matmul(%0, %1) {transpose_b=true} : f32[6,40,40]\n"
          "  %5 = transpose(%4) {perm=[0,2,1]} : f32[6,40,40]\n"
          "  %6 = add(%5, %4) : f32[6,40,40]\n" OUT(6),
     1, 1},
    {"batches of a product change places as they are",
     HEAD "  %4 = matmul(%0, %1) {transpose_b=true} : f32[6,40,40]\n"
          "  %5 = transpose(%4) {perm=[1,0,2]} : f32[40,6,40]\n" OUT(5),
     1, 1},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

static void inputs(mlsys_tensor in[4]) {
    static const int64_t wide[3] = {6, 40, 30}, bias[1] = {40}, small[3] = {6, 1, 1};
    kc_rng r = kc_seed(17);
    in[0] = pc_random(&pc, &r, MLSYS_F32, 3, wide);
    in[1] = pc_random(&pc, &r, MLSYS_F32, 3, wide);
    in[2] = pc_random(&pc, &r, MLSYS_F32, 1, bias);
    in[3] = pc_random(&pc, &r, MLSYS_F32, 3, small);
}

static int transposes(mlsys_graph g, const char *settings) {
    mlsi_program *p;
    mlsys_program handle = pc_compile(&pc, g, settings);
    OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "test", &p));
    int n = count(&p->graph, MLSI_OP_TRANSPOSE);
    mlsi_unpin(p);
    OK(mlsys_release(handle));
    return n;
}

START_TEST(what_is_left) {
    mlsys_graph g = pc_parse(&pc, cases[_i].text);
    mlsys_tensor in[4];
    inputs(in);
    int before = transposes(g, "fuse=never passes_off=transpose,simplify,simplify2,fold,fold2");
    int after = transposes(g, "fuse=never");
    ck_assert_msg(before == cases[_i].before && after == cases[_i].after, "%s: %d, then %d",
                  cases[_i].name, before, after);
    pc_compare(&pc, g, "numerics=exact fuse=never", 4, in, 1);
    pc_compare(&pc, g, "numerics=exact fuse=always jit=never", 4, in, 1);
    pc_compare(&pc, g, "numerics=exact fuse=never passes_off=transpose", 4, in, 1);
    pc_release(4, in);
    OK(mlsys_release(g));
}
END_TEST

/* ---- random chains ------------------------------------------------------------------------------------------ */

/* Elementwise nodes over values of one shape or of it turned, transposes, products, outputs of any of them. */
static void random_graph(test_random *r, mlsi_graph *g) {
    static const mlsi_op ops[] = {MLSI_OP_EXP, MLSI_OP_NEG, MLSI_OP_ADD, MLSI_OP_MUL, MLSI_OP_SUB};
    const mlsi_type wide = {.dtype = MLSYS_F32, .rank = 3, .dims = {5, 5, 5}};
    const mlsi_type row = {.dtype = MLSYS_F32, .rank = 1, .dims = {5}};
    int32_t values[40], n = 0;
    for (int i = 0; i < 4; i++)
        OK(mlsi_build_input(g, 0, NULL, i < 3 ? &wide : &row, &values[n++]));
    while (n < 30) {
        mlsi_attr_transpose turn;
        int64_t perm[3] = {0, 1, 2}, kind = test_int(r, 0, 9);
        int32_t in[2] = {values[test_int(r, 0, n - 1)], values[test_int(r, 0, n - 1)]};
        for (int i = 0; i < 2; i++)
            if (mlsi_type_of(g, 0, in[i])->rank < 3) in[i] = values[i];
        if (kind == 9) in[1] = values[3];
        memset(&turn, 0, sizeof turn);
        for (int i = 2; i > 0; i--) {
            int64_t k = test_int(r, 0, i), t = perm[i];
            perm[i] = perm[k], perm[k] = t;
        }
        turn.perm.n = 3;
        memcpy(turn.perm.v, perm, sizeof perm);
        int64_t op = kind == 9 ? 2 : test_int(r, 0, 4);
        if (kind < 4)
            OK(mlsi_build_node(g, 0, MLSI_OP_TRANSPOSE, &turn, 1, in, 1, &values[n++]));
        else if (kind == 4)
            OK(mlsi_build_node(g, 0, MLSI_OP_MATMUL, NULL, 2, in, 1, &values[n++]));
        else
            OK(mlsi_build_node(g, 0, ops[op], NULL, op < 2 ? 1 : 2, in, 1, &values[n++]));
    }
    for (int i = 0; i < 3; i++)
        OK(mlsi_build_output(g, 0, NULL, values[n - 1 - test_int(r, 0, 6)]));
}

START_TEST(random_chains_keep_their_bits) {
    test_random r = test_random_seed("check_transpose", 1);
    int better = 0;
    for (int k = 0; k < 300; k++) {
        mlsi_graph g;
        const int64_t shape[3] = {5, 5, 5};
        mlsys_tensor in[4], want[3] = {0}, got[3] = {0};
        kc_rng values = kc_seed((uint64_t)k);
        OK(mlsi_graph_init(&g, pc.ctx));
        random_graph(&r, &g);
        for (int i = 0; i < 4; i++)
            in[i] = pc_random(&pc, &values, MLSYS_F32, i < 3 ? 3 : 1, shape);
        pc_interpret_inside(&pc, &g, 4, in, 3, want);
        mlsi_program *p;
        mlsys_program handle = pc_compile_inside(&pc, &g, "numerics=exact fuse=never");
        OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "test", &p));
        better += count(&p->graph, MLSI_OP_TRANSPOSE) < count(&g, MLSI_OP_TRANSPOSE);
        mlsi_unpin(p);
        OK(mlsys_program_run(handle, pc.stream, 4, in, 3, got));
        for (int i = 0; i < 3; i++)
            ck_assert_msg(rg_difference(got[i], want[i]) < 0, "graph %d, output %d", k, i);
        pc_release(4, in), pc_release(3, want), pc_release(3, got);
        OK(mlsys_release(handle));
        mlsi_graph_free(&g);
    }
    ck_assert_int_gt(better, 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("transpose");
    TCase *t = tcase_create("transpose");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, what_is_left, 0, N_CASES);
    tcase_add_test(t, random_chains_keep_their_bits);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
