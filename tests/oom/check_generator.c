/* Generation when memory runs out: each allocation of a call fails in turn; the call says so,
 * changes nothing, leaks nothing and works when it is repeated. */
#include "support/failing_alloc.h"
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"

#include <stdio.h>
#include <string.h>

static generation_world world;

#define SMALL_CHUNKS OPTIONS(DRAWN, INT("context", 192), INT("chunk", 4))

static const char prompt[] = "the weather: thethe!";

static void open_world(void) { generation_open_tiny(&world, NULL); }
static void close_world(void) { generation_close(&world); } /* the failing world removes the file */

static mlsys_generator start(const generation_option *options) {
    mlsys_generator g = generation_create(&world, options);
    check_ok(mlsys_generator_append(g, prompt));
    return g;
}

typedef struct failing {
    failing_alloc alloc;
    generation_world world;
    mlsys_generator g;
} failing;

static void open_failing(failing *f) {
    memset(f, 0, sizeof *f);
    mlsys_hooks hooks = failing_alloc_hooks(&f->alloc);
    generation_open_tiny(&f->world, &hooks);
    f->g = generation_create(&f->world, SMALL_CHUNKS);
}

static void close_failing(failing *f) {
    check_ok(mlsys_release(f->g));
    generation_close_tiny(&f->world);
    ck_assert_int_eq(f->alloc.blocks, 0);
    ck_assert_int_eq(f->alloc.destroyed, 1);
}

/* Call with the first, second, ... allocation failing until the call succeeds; every failure must
 * leave the number of tokens as it was. Returns how often it failed. */
static int until_it_works(failing *f, mlsys_status (*call)(failing *f)) {
    int64_t n = generation_tokens(f->g);
    for (int k = 1;; k++) {
        f->alloc.fail_at = f->alloc.calls + k;
        mlsys_status st = call(f);
        int reached = f->alloc.calls >= f->alloc.fail_at;
        f->alloc.fail_at = 0;
        if (st == MLSYS_OK) {
            REQUIRE(!reached); /* an allocation's failure must not be passed over */
            return k - 1;
        }
        ck_assert_msg(st == MLSYS_E_NOMEM, "%s: %s", mlsys_status_name(st), mlsys_last_error());
        ck_assert_int_eq(generation_tokens(f->g), n);
        ck_assert_int_lt(k, 2000);
    }
}

static generation produced;
static mlsys_status step(failing *f) {
    static char text[MLSYS_GENERATOR_TEXT];
    int32_t id;
    mlsys_status st = mlsys_generator_next(f->g, &id, text, sizeof text, NULL);
    if (st == MLSYS_OK) produced.ids[produced.n++] = id;
    return st;
}
static mlsys_status append_prompt(failing *f) { return mlsys_generator_append(f->g, prompt); }
static mlsys_status say_b(failing *f) { return mlsys_generator_chat(f->g, "a", "b"); }
static mlsys_status say_c(failing *f) { return mlsys_generator_chat(f->g, NULL, "c"); }

START_TEST(a_failed_step_can_be_repeated) {
    failing f;
    generation want;
    mlsys_generator h = start(SMALL_CHUNKS);
    generation_run(h, 6, &want);
    open_failing(&f);
    int failures = until_it_works(&f, append_prompt);
    ck_assert_int_gt(failures, 0);
    produced.n = 0;
    for (int i = 0; i < 6; i++)
        failures += until_it_works(&f, step);
    printf("%d failed allocations in an append and 6 steps\n", failures);
    ck_assert_int_gt(failures, 10);
    ck_assert_mem_eq(produced.ids, want.ids, sizeof(int32_t) * 6);
    close_failing(&f);
    check_ok(mlsys_release(h));
}
END_TEST

START_TEST(a_failed_chat_can_be_repeated) {
    failing f;
    generation want, tail;
    mlsys_generator h = generation_create(&world, SMALL_CHUNKS);
    check_ok(mlsys_generator_chat(h, "a", "b"));
    generation_run(h, 3, &want);
    check_ok(mlsys_generator_chat(h, NULL, "c"));
    generation_run(h, 3, &want);
    open_failing(&f);
    int failures = until_it_works(&f, say_b);
    generation_run(f.g, 3, &tail);
    failures += until_it_works(&f, say_c);
    generation_run(f.g, 3, &tail);
    generation_equal(&want, &tail, "without and with failures");
    printf("%d failed allocations in two messages\n", failures);
    ck_assert_int_gt(failures, 10);
    close_failing(&f);
    check_ok(mlsys_release(h));
}
END_TEST

static mlsys_status create_one(failing *f) {
    mlsys_generator g = NULL;
    mlsys_status st = mlsys_generator_create(f->world.model, f->world.stream, NULL, &g);
    if (st != MLSYS_OK) ck_assert_ptr_null(g);
    mlsys_release(g);
    return st;
}

/* Every 7th allocation of creation, from a different start each time: all would take too long. */
START_TEST(a_failed_creation_leaks_nothing) {
    failing f;
    open_failing(&f);
    int64_t blocks = f.alloc.blocks, calls = f.alloc.calls, failures = 0;
    check_ok(create_one(&f));
    calls = f.alloc.calls - calls;
    blocks = f.alloc.blocks; /* the stream may have grown */
    for (int64_t k = 1; k <= calls; k += 7) {
        f.alloc.fail_at = f.alloc.calls + k;
        mlsys_status st = create_one(&f);
        f.alloc.fail_at = 0;
        if (st != MLSYS_OK) ck_assert_int_eq(st, MLSYS_E_NOMEM);
        failures += st != MLSYS_OK;
        ck_assert_int_eq(f.alloc.blocks, blocks);
    }
    printf("%lld allocations in a creation, %lld failed\n", (long long)calls, (long long)failures);
    ck_assert_int_gt(failures, calls / 14);
    close_failing(&f);
}
END_TEST

static void add_failures(Suite *suite) {
    TCase *tc = tcase_create("failures");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_test(tc, a_failed_step_can_be_repeated);
    tcase_add_test(tc, a_failed_chat_can_be_repeated);
    tcase_add_test(tc, a_failed_creation_leaks_nothing);
    suite_add_tcase(suite, tc);
}

int main(void) {
    Suite *suite = suite_create("generator_oom");
    add_failures(suite);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
