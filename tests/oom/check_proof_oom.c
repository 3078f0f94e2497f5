/* Proofs that run out of memory: each allocation fails in turn, alone or with all later ones; the call says NOMEM, leaves
 * nothing behind, and is never a refusal. */
#include "ir/loop/lower.h"
#include "support/failing_alloc.h"
#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>

static failing_alloc memory;
static program_case pc;
static mlsi_graph graph;

static void setup(void) {
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    pc_open_hooks(&pc, 1, &hooks);
}

static void teardown(void) {
    mlsi_graph_free(&graph);
    pc_close(&pc);
}

static void parse(const char *text) {
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsi_graph_parse(&graph, pc.device, text));
}

START_TEST(a_verified_compile) {
    const mlsi_compile_options o = {.numerics = MLSI_EXACT,
                                    .plan_reuse = true,
                                    .verify = true,
                                    .fuse_least = -1,
                                    .passes_off = "",
                                    .isa_limit = MLSI_ISA_PORTABLE};
    int64_t failures = 0;
    parse("mlsys-ir 1\nsymbol B 1 64 1\nfunctions 2\nfunc 1 \"f\" {\n%0 = input \"x\" : f32[B,2]\n"
          "%1 = neg(%0) : f32[B,2]\n%2 = neg(%1) : f32[B,2]\noutput \"\" %2\n}\nfunc 0 \"main\" {\n"
          "%0 = input \"x\" : f32[B,2]\n%1 = const f32[2] hex:0000803f00000040\n"
          "%2 = exp(%1) : f32[2]\n%3 = call(%0) {fn1=1} : f32[B,2]\n%4 = add(%3, %2) : f32[B,2]\n"
          "%5 = softmax(%4) {axis=1} : f32[B,2]\n%6 = gelu(%5) : f32[B,2]\noutput \"\" %6\n"
          "output \"\" %4\n}\n");
    for (int64_t n = 1;; n++) {
        mlsys_program p;
        int64_t blocks = memory.blocks;
        memory.all_after = n % 2;
        memory.fail_at = memory.calls + n;
        mlsys_status st = mlsi_program_create(&graph, pc.device, &o, &p);
        memory.fail_at = 0;
        if (st == MLSYS_OK) {
            OK(mlsys_release(p));
            break;
        }
        ck_assert_msg(st == MLSYS_E_NOMEM, "%s", mlsys_last_error());
        ck_assert_int_eq(memory.blocks, blocks);
        failures++;
    }
    printf("%lld allocations failed\n", (long long)failures);
    ck_assert_int_gt(failures, 200);
}
END_TEST

START_TEST(a_nest) {
    mlsi_nest n;
    mlsi_verdict v;
    int64_t failures = 0;
    parse(
        "mlsys-ir 1\nsymbol B 1 64 1\nfunctions 1\nfunc 0 \"main\" {\n%0 = input \"x\" : f32[B,9]\n"
        "%1 = softmax(%0) {axis=1} : f32[B,9]\noutput \"\" %1\n}\n");
    mlsi_pass_ctx p = {.g = &graph};
    OK(mlsi_decompose_to_loops(&p, 0));
    OK(mlsi_lower_func(&graph, 0, "nest", &n));
    for (int64_t k = 1;; k++) {
        memory.all_after = k % 2;
        memory.fail_at = memory.calls + k;
        mlsys_status st = mlsi_check_nest(&graph, 0, &n, &v);
        memory.fail_at = 0;
        if (st == MLSYS_OK) break;
        ck_assert_int_eq(st, MLSYS_E_NOMEM);
        ck_assert_int_ne(v.answer, MLSI_REFUSED);
        failures++;
    }
    ck_assert_msg(v.answer == MLSI_PROVED, "%s", v.why);
    ck_assert_int_gt(failures, 10);
    mlsi_nest_free(&n);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proof oom");
    TCase *tc = tcase_create("oom");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_verified_compile);
    tcase_add_test(tc, a_nest);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
