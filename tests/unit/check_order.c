/* Orders of tasks: plans get smaller and never larger, bits stay, and what must keep its place does. */
#include "ir/passes/order.h"
#include "support/program_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static mlsi_program *pinned(mlsys_program handle) {
    mlsi_program *p;
    OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "test", &p));
    return p;
}

static uint64_t arena_of(mlsys_program handle) {
    mlsi_program *p = pinned(handle);
    mlsi_bound *b;
    OK(mlsi_bound_create(p, &b));
    OK(mlsi_bound_names(b, 0, NULL, NULL));
    OK(mlsi_bound_bind(b));
    uint64_t bytes = b->routines[0].arena_bytes;
    mlsi_bound_free(&pc.ctx->alloc, b);
    mlsi_unpin(p);
    return bytes;
}

static uint64_t arena_with(const mlsi_graph *g, const char *settings) {
    mlsys_program p = pc_compile_inside(&pc, g, settings);
    uint64_t bytes = arena_of(p);
    OK(mlsys_release(p));
    return bytes;
}

static mlsi_graph *inside(mlsys_graph handle) {
    mlsi_graph *g;
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "test", &g));
    mlsi_unpin(g); /* the handle keeps it */
    return g;
}

/* ---- graphs whose own order is bad -------------------------------------------------------------------- */

#define WIDE "f32[64,256]"
#define HEAD "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : " WIDE "\n"

static const struct {
    const char *name, *text;
    uint64_t before, after; /* in wide tensors, rounded down: a sum works in two */
} bad[] = {
    {"all wide values first, all sums behind them",
     HEAD "  %1 = exp(%0) : " WIDE "\n  %2 = sin(%0) : " WIDE "\n  %3 = cos(%0) : " WIDE "\n"
          "  %4 = tanh(%0) : " WIDE "\n"
          "  %5 = reduce_sum(%1) {axes=[1]} : f32[64]\n  %6 = reduce_sum(%2) {axes=[1]} : f32[64]\n"
          "  %7 = reduce_sum(%3) {axes=[1]} : f32[64]\n  %8 = reduce_sum(%4) {axes=[1]} : f32[64]\n"
          "  %9 = add(%5, %6) : f32[64]\n  %10 = add(%9, %7) : f32[64]\n"
          "  %11 = add(%10, %8) : f32[64]\n  output \"y\" %11\n}\n",
     6, 3},
    {"a small value's wide operand waits for it",
     HEAD "  %1 = exp(%0) : " WIDE "\n  %2 = sin(%0) : " WIDE "\n  %3 = neg(%2) : " WIDE "\n"
          "  %4 = mul(%2, %3) : " WIDE "\n  %5 = reduce_sum(%4) {axes=[1]} : f32[64]\n"
          "  %6 = reduce_sum(%1) {axes=[1]} : f32[64]\n  %7 = add(%5, %6) : f32[64]\n"
          "  output \"y\" %7\n}\n",
     4, 3},
};
enum { N_BAD = (int)(sizeof bad / sizeof bad[0]) };

START_TEST(a_bad_order_becomes_a_good_one) {
    const uint64_t wide = 64 * 256 * sizeof(float);
    const int64_t shape[2] = {64, 256};
    kc_rng r = kc_seed(5);
    mlsys_graph g = pc_parse(&pc, bad[_i].text);
    uint64_t before = arena_with(inside(g), "fuse=never passes_off=order");
    uint64_t after = arena_with(inside(g), "fuse=never");
    mlsys_tensor in[1] = {pc_random(&pc, &r, MLSYS_F32, 2, shape)};
    printf("%s: %llu to %llu bytes\n", bad[_i].name, (unsigned long long)before,
           (unsigned long long)after);
    fflush(stdout);
    ck_assert_uint_eq(before / wide, bad[_i].before);
    ck_assert_uint_eq(after / wide, bad[_i].after);
    pc_compare(&pc, g, "numerics=exact fuse=never", 1, in, 1);
    pc_release(1, in);
    OK(mlsys_release(g));
}
END_TEST

/* ---- random graphs -------------------------------------------------------------------------------------- */

static void check_seed(uint64_t seed, uint64_t bytes[2], int *better) {
    kc_rng r = kc_seed(seed);
    mlsi_graph g;
    mlsys_tensor in[3], want[3] = {0}, got[3] = {0};
    rg_options o = {.nodes = 20 + (int)(seed % 60),
                    .inputs = 3,
                    .outputs = 3,
                    .symbols = seed & 1,
                    .control = seed >> 1 & 1};
    static const char *const settings[2][2] = {
        {"numerics=exact fuse=never passes_off=order", "numerics=exact fuse=never"},
        {"numerics=exact fuse=always jit=never passes_off=order",
         "numerics=exact fuse=always jit=never"}};
    OK(mlsi_graph_init(&g, pc.ctx));
    rg_graph(&r, &g, pc.device, &o);
    rg_inputs(&r, &g, pc.device_handle, rg_bind(&r), in);
    pc_interpret_inside(&pc, &g, 3, in, 3, want);
    for (int s = 0; s < 2; s++) {
        uint64_t before = arena_with(&g, settings[s][0]);
        mlsys_program p = pc_compile_inside(&pc, &g, settings[s][1]);
        uint64_t after = arena_of(p);
        REQUIRE(after <= before);
        OK(mlsys_program_run(p, pc.stream, 3, in, 3, got));
        for (int k = 0; k < 3; k++)
            ck_assert_msg(rg_difference(got[k], want[k]) < 0, "seed %llu, %s",
                          (unsigned long long)seed, settings[s][1]);
        pc_release(3, got);
        OK(mlsys_release(p));
        *better += after < before;
        bytes[0] += before, bytes[1] += after;
    }
    pc_release(3, in);
    pc_release(3, want);
    mlsi_graph_free(&g);
}

/* Wide values and sums of them in any order, all of which are added up at the end. */
static void wide_graph(test_random *r, mlsi_graph *g) {
    static const mlsi_op ops[] = {MLSI_OP_EXP, MLSI_OP_NEG, MLSI_OP_ADD, MLSI_OP_MUL};
    const mlsi_type wide = {.dtype = MLSYS_F32, .rank = 2, .dims = {16, 128}};
    mlsi_attr_reduce rows;
    int32_t values[32], sum = -1, n = 0;
    memset(&rows, 0, sizeof rows);
    rows.axes.n = 1;
    rows.axes.v[0] = 1;
    OK(mlsi_build_input(g, 0, NULL, &wide, &values[n++]));
    for (; n < 24; n++) {
        int64_t op = test_int(r, 0, 3), far = n > 6 ? n - 6 : 0;
        int32_t in[2] = {values[test_int(r, far, n - 1)], values[test_int(r, 0, n - 1)]};
        OK(mlsi_build_node(g, 0, ops[op], NULL, op < 2 ? 1 : 2, in, 1, &values[n]));
    }
    for (int i = 1; i < n; i++) {
        int32_t in[2] = {sum, -1};
        OK(mlsi_build_node(g, 0, MLSI_OP_REDUCE_SUM, &rows, 1, &values[i], 1, &in[1]));
        if (sum < 0)
            sum = in[1];
        else
            OK(mlsi_build_node(g, 0, MLSI_OP_ADD, NULL, 2, in, 1, &sum));
    }
    OK(mlsi_build_output(g, 0, NULL, sum));
}

START_TEST(random_wide_plans_shrink) {
    test_random r = test_random_seed("check_order", 1);
    uint64_t bytes[2] = {0};
    int better = 0;
    for (int k = 0; k < 60; k++) {
        const int64_t shape[2] = {16, 128};
        kc_rng values = kc_seed((uint64_t)k);
        mlsys_tensor in[1] = {pc_random(&pc, &values, MLSYS_F32, 2, shape)}, want[1] = {0},
                     got[1] = {0};
        mlsi_graph g;
        OK(mlsi_graph_init(&g, pc.ctx));
        wide_graph(&r, &g);
        pc_interpret_inside(&pc, &g, 1, in, 1, want);
        uint64_t before = arena_with(&g, "numerics=exact fuse=never passes_off=order");
        mlsys_program p = pc_compile_inside(&pc, &g, "numerics=exact fuse=never");
        uint64_t after = arena_of(p);
        ck_assert_uint_le(after, before);
        OK(mlsys_program_run(p, pc.stream, 1, in, 1, got));
        ck_assert(rg_difference(got[0], want[0]) < 0);
        better += after < before;
        bytes[0] += before, bytes[1] += after;
        OK(mlsys_release(p));
        pc_release(1, in), pc_release(1, want), pc_release(1, got);
        mlsi_graph_free(&g);
    }
    printf("%d of 60 wide plans smaller, %llu to %llu bytes\n", better,
           (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    ck_assert_int_gt(better, 30);
}
END_TEST

START_TEST(random_plans_never_grow) {
    enum { SEEDS = 100 };
    uint64_t seed = test_random_seed("check_order", 1).state % 100000, bytes[2] = {0};
    int better = 0;
    for (uint64_t k = 0; k < SEEDS; k++)
        check_seed(seed + k, bytes, &better);
    printf("seeds from %llu: %d of %d plans smaller, %llu to %llu bytes\n",
           (unsigned long long)seed, better, 2 * SEEDS, (unsigned long long)bytes[0],
           (unsigned long long)bytes[1]);
}
END_TEST

/* ---- orders of a function ------------------------------------------------------------------------------- */

static mlsi_graph graph;

static void parse(const char *body) {
    char text[4096];
    snprintf(text, sizeof text, "mlsys-ir 1\n%s", body);
    OK(mlsi_graph_init(&graph, pc.ctx));
    mlsys_status st = mlsi_graph_parse(&graph, pc.device, text);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

/* Plans that get smaller, or larger, whatever the order. */
typedef struct planner {
    uint64_t bytes;
    int64_t by;
    mlsys_status fails;
    int asked;
} planner;

static mlsys_status peak(void *user, int32_t func, uint64_t *bytes) {
    planner *p = user;
    (void)func;
    *bytes = p->bytes;
    p->bytes += (uint64_t)p->by;
    p->asked++;
    return p->fails ? mlsi_fail(p->fails, "no plan") : MLSYS_OK;
}

static char *order_with(planner *how) {
    mlsi_pass_ctx p = {.g = &graph,
                       .device = pc.device,
                       .backend = &mlsi_cpu_backend,
                       .numerics = MLSI_EXACT,
                       .prove = true,
                       .peak = peak,
                       .planner = how};
    mlsi_text t;
    mlsi_text_init(&t, &pc.ctx->alloc);
    OK(mlsi_passes_run_late(&p, "", true));
    mlsi_graph_print(&graph, &t);
    char *text = strdup(t.data);
    mlsi_text_free(&t);
    return text;
}

/* An order stays only where the plan says that it is better: not when it says the same, or cannot say. */
START_TEST(only_a_smaller_plan_is_kept) {
    static const planner how[] = {
        {1000, -1, 0, 0}, {1000, 0, 0, 0}, {1000, 1, 0, 0}, {1000, -1, MLSYS_E_SHAPE, 0}};
    parse(bad[0].text);
    mlsi_text was;
    mlsi_text_init(&was, &pc.ctx->alloc);
    mlsi_graph_print(&graph, &was);
    for (int i = 3; i >= 0; i--) {
        planner p = how[i];
        char *text = order_with(&p);
        ck_assert_int_gt(p.asked, 0);
        ck_assert_msg(!strcmp(text, was.data) == (i > 0), "%d: %s", i, text);
        free(text);
    }
    mlsi_text_free(&was);
    mlsi_graph_free(&graph);
}
END_TEST

static int32_t place_of(const mlsi_graph *g, mlsi_op op, int nth) {
    for (int32_t i = 0; i < g->funcs[0].n_nodes; i++)
        if (g->funcs[0].nodes[i].op == op && nth-- == 0) return i;
    ck_abort_msg("no %s", mlsi_op_name(op));
}

/* The first gather's wide result is wanted last: only that both may fail keeps them in their order. */
START_TEST(what_may_fail_keeps_its_place) {
    planner p = {1000, -1, 0, 0};
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[64,256]\n"
          "  %1 = input \"i\" : i64[64]\n  %2 = input \"j\" : i64[1]\n"
          "  %3 = gather(%0, %1) {axis=0} : f32[64,256]\n"
          "  %4 = gather(%0, %2) {axis=0} : f32[1,256]\n  %5 = exp(%4) : f32[1,256]\n"
          "  %6 = broadcast(%5) {shape=[64,256]} : f32[64,256]\n  %7 = exp(%6) : f32[64,256]\n"
          "  %8 = reduce_sum(%7) {axes=[0]} : f32[256]\n"
          "  %9 = sub(%3, %8) : f32[64,256]\n  %10 = reduce_sum(%9) {axes=[0]} : f32[256]\n"
          "  output \"y\" %10\n}\n");
    free(order_with(&p));
    int32_t first = place_of(&graph, MLSI_OP_GATHER, 0);
    const mlsi_func *f = &graph.funcs[0];
    ck_assert_int_eq(f->values[f->nodes[first].first_out].type.dims[0], 64);
    mlsi_graph_free(&graph);
}
END_TEST

/* The wide value of w would wait for its reader behind the update, which writes over w. */
START_TEST(a_donated_input_is_read_before_it_goes) {
    mlsys_graph g = pc_parse(
        &pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"w\" : f32[64,64] donated\n"
             "  %1 = input \"x\" : f32[64,64]\n"
             "  %2 = broadcast(%0) {shape=[2,64,64]} : f32[2,64,64]\n"
             "  %3 = exp(%2) : f32[2,64,64]\n"
             "  %4 = exp(%1) : f32[64,64]\n  %5 = sin(%1) : f32[64,64]\n"
             "  %6 = fma(%0, %4, %5) : f32[64,64]\n"
             "  %7 = broadcast(%1) {shape=[2,64,64]} : f32[2,64,64]\n"
             "  %8 = sin(%7) : f32[2,64,64]\n  %9 = reduce_sum(%8) {axes=[0]} : f32[64,64]\n"
             "  %10 = mul(%3, %9) : f32[2,64,64]\n"
             "  %11 = reduce_sum(%10) {axes=[0]} : f32[64,64]\n"
             "  output \"w\" %6\n  output \"y\" %11\n}\n");
    mlsys_program handle = pc_compile(&pc, g, "fuse=never");
    ck_assert_uint_le(arena_of(handle), arena_with(inside(g), "fuse=never passes_off=order"));
    mlsi_program *p = pinned(handle);
    ck_assert_int_eq(p->routines[0].alias_input[0], 0);
    mlsi_unpin(p);
    OK(mlsys_release(handle));
    OK(mlsys_release(g));
}
END_TEST

/* A node before its operand is no function. */
START_TEST(definitions_come_first) {
    static const int32_t order[] = {1, 0};
    mlsi_pass_ctx p = {.g = &graph, .device = pc.device, .backend = &mlsi_cpu_backend};
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n"
          "  %1 = exp(%0) : f32[4]\n  %2 = neg(%1) : f32[4]\n  output \"y\" %2\n}\n");
    ck_assert_int_ne(mlsi_rewrite_reorder(&p, 0, order, NULL, NULL), MLSYS_OK);
    ck_assert_int_eq(graph.funcs[0].nodes[0].op, MLSI_OP_EXP);
    OK(mlsi_graph_verify(&graph));
    mlsi_graph_free(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("order");
    TCase *t = tcase_create("order");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, a_bad_order_becomes_a_good_one, 0, N_BAD);
    tcase_add_test(t, random_wide_plans_shrink);
    tcase_add_test(t, random_plans_never_grow);
    tcase_add_test(t, only_a_smaller_plan_is_kept);
    tcase_add_test(t, what_may_fail_keeps_its_place);
    tcase_add_test(t, a_donated_input_is_read_before_it_goes);
    tcase_add_test(t, definitions_come_first);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
