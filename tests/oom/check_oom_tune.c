/* Tuning and replay that run out of memory: allocations fail in turn, alone or with all later ones; the call says NOMEM,
 * leaves nothing behind, and what it wrote to disk is whole. */
#include "support/failing_alloc.h"
#include "support/tune_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static failing_alloc memory;
static tune_case tc;
static mlsi_backend fake;

/* Code that takes a sample's time, and a compiler that takes none. */
static int64_t pause_a_while(mlsi_gen_args *a) {
    (void)a;
    return nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static mlsys_status load_nothing(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out) {
    (void)a, (void)text, (void)isa;
    *out = NULL;
    return MLSYS_OK;
}

static mlsi_gen_fn find_pause(const mlsi_module *m, const char *name) {
    (void)m, (void)name;
    return pause_a_while;
}

static void unload_nothing(mlsi_alloc *a, mlsi_module *m) { (void)a, (void)m; }

static void setup(void) {
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    tc_cache();
    tc_open_hooks(&tc, 1, &hooks);
    fake = mlsi_cpu_backend;
    fake.load_once = load_nothing;
    fake.function = find_pause;
    fake.unload = unload_nothing;
}

static void teardown(void) {
    tc_close(&tc);
    tc_cache_remove();
}

static mlsys_status tune(uint64_t seed) {
    const mlsi_tune_options o = {.budget_ms = 60000, .candidates = 3, .seed = seed};
    const mlsi_backend *right = tc.program->backend;
    mlsys_tune_report report = {.size = sizeof report};
    tc.program->backend = &fake;
    mlsys_status st = mlsi_tune_program(tc.program, (int64_t[]){16}, &o, &report);
    tc.program->backend = right;
    return st;
}

static mlsys_status compile(void) {
    const mlsi_compile_options o = {.numerics = MLSI_EXACT,
                                    .plan_reuse = true,
                                    .replay = true,
                                    .fuse_least = -1,
                                    .passes_off = "",
                                    .isa_limit = (mlsi_isa)tc.pc.ctx->isa_limit};
    mlsi_graph *g;
    mlsys_program p;
    OK(mlsi_pin(tc.graph, MLSYS_KIND_GRAPH, "graph", &g));
    mlsys_status st = mlsi_program_create(g, tc.pc.device, &o, &p);
    mlsi_unpin(g);
    if (st == MLSYS_OK) OK(mlsys_release(p));
    return st;
}

/* Every one of the first, then fewer and fewer. A file of the cache of code that cannot be read for lack of memory is made
 * again: that is a success. */
static int64_t fail_in_turn(mlsys_status (*call)(uint64_t turn), int rarer) {
    int64_t failures = 0;
    for (int64_t n = 1, turn = 0;; n += 1 + n / rarer, turn++) {
        int64_t blocks = memory.blocks;
        memory.all_after = turn % 2;
        int64_t last = memory.fail_at = memory.calls + n;
        mlsys_status st = call((uint64_t)turn);
        memory.fail_at = 0;
        ck_assert_int_eq(memory.blocks, blocks);
        if (memory.calls < last) break;
        ck_assert_msg(st == MLSYS_E_NOMEM || st == MLSYS_OK, "allocation %lld: %s", (long long)n,
                      mlsys_last_error());
        failures += st == MLSYS_E_NOMEM;
    }
    return failures;
}

START_TEST(a_search) {
    int64_t failures = fail_in_turn(tune, 20);
    mlsi_tune_records r = tc_read(&tc, 16);
    printf("%lld allocations failed, %lld records\n", (long long)failures, (long long)r.n);
    ck_assert_int_gt(failures, 100);
    ck_assert_int_eq(r.ignored, 0);
    mlsi_tune_records_free(&r);
}
END_TEST

static mlsys_status compile_in_turn(uint64_t turn) {
    (void)turn;
    return compile();
}

START_TEST(a_replay) {
    tc_record(&tc, 16, 1, 700000, "split(i_0, 2) -> i_0_o, i_0_i; parallel(i_0_o);");
    OK(compile()); /* the code is in the cache from here on */
    int64_t failures = fail_in_turn(compile_in_turn, 200);
    printf("%lld allocations failed\n", (long long)failures);
    ck_assert_int_gt(failures, 100);
}
END_TEST

int main(void) {
    Suite *s = suite_create("oom_tune");
    TCase *c = tcase_create("tune");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, a_search);
    tcase_add_test(c, a_replay);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
