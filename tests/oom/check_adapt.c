/* Adapting, saving and building a training graph when memory runs out: each call says so, leaks nothing, leaves no
 * file and works when it is repeated. */
#include "support/failing_alloc.h"
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static failing_alloc memory;
static generation_world world;
static mlsys_tensor tensors[3];
static const char *const names[3] = {"blk.0.attn_q.lora_a", "blk.0.attn_q.lora_b",
                                     "output_norm.weight"};
static mlsys_model adapted;
static char path[64], temporary[80];

static void open_world(void) {
    static const int64_t shapes[3][2] = {{2, TINY_WIDTH}, {TINY_WIDTH, 2}, {TINY_WIDTH, 0}};
    memset(&memory, 0, sizeof memory);
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    generation_open_tiny(&world, &hooks);
    for (int i = 0; i < 3; i++) {
        check_ok(
            mlsys_tensor_create(world.device, MLSYS_F32, i < 2 ? 2 : 1, shapes[i], &tensors[i]));
        check_ok(mlsys_tensor_random(tensors[i], world.stream, "normal", 1, (uint64_t)i));
    }
    snprintf(path, sizeof path, "/tmp/mlsys-adapt-%ld.gguf", (long)getpid());
    snprintf(temporary, sizeof temporary, "%s.tmp-0", path);
}

static void close_world(void) {
    for (int i = 0; i < 3; i++)
        check_ok(mlsys_release(tensors[i]));
    generation_close_tiny(&world);
    ck_assert_int_eq(memory.blocks, 0);
    unlink(path);
}

static mlsys_status adapt(void) {
    mlsys_model m = NULL;
    mlsys_status st = mlsys_model_adapt(world.model, 3, names, tensors, NULL, &m);
    if (st != MLSYS_OK) ck_assert_ptr_null(m);
    mlsys_release(m);
    return st;
}

static mlsys_status save(void) {
    mlsys_status st = mlsys_model_save(adapted, path, NULL);
    ck_assert_int_ne(access(temporary, F_OK), 0);
    if (st != MLSYS_OK) ck_assert_int_ne(access(path, F_OK), 0);
    return st;
}

static mlsys_status build(void) {
    mlsys_graph g = NULL;
    mlsys_config c = generation_config(
        OPTIONS(STR("mode", "train"), STR("trainable", "lora"), STR("lora_targets", "ffn_up")));
    mlsys_status st = mlsys_model_graph(adapted, c, &g);
    if (st != MLSYS_OK) ck_assert_ptr_null(g);
    mlsys_release(g);
    check_ok(mlsys_release(c));
    return st;
}

/* Every k-th allocation fails in turn until the call succeeds. */
static int until_it_works(mlsys_status (*call)(void), int every) {
    int failures = 0;
    int64_t blocks = memory.blocks;
    for (int k = 1;; k += every) {
        memory.fail_at = memory.calls + k;
        mlsys_status st = call();
        int reached = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        ck_assert_int_eq(memory.blocks, blocks);
        if (st == MLSYS_OK) {
            REQUIRE(!reached);
            return failures;
        }
        ck_assert_msg(st == MLSYS_E_NOMEM, "%s: %s", mlsys_status_name(st), mlsys_last_error());
        failures++;
    }
}

START_TEST(calls_fail_whole_and_can_be_repeated) {
    int n = until_it_works(adapt, 1);
    check_ok(mlsys_model_adapt(world.model, 3, names, tensors, NULL, &adapted));
    printf("%d failed allocations in adapting", n);
    ck_assert_int_ge(n, 4);
    n = until_it_works(save, 1);
    printf(", %d in saving", n);
    ck_assert_int_gt(n, 10);
    n = until_it_works(build, 1);
    printf(", %d in a training graph\n", n);
    ck_assert_int_gt(n, 60);
    check_ok(mlsys_release(adapted));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("adapt_oom");
    TCase *tc = tcase_create("failures");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_test(tc, calls_fail_whole_and_can_be_repeated);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
