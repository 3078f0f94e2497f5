/* Training when memory runs out: each allocation of a call fails in turn; the call says so, changes nothing, leaks
 * nothing and works when it is repeated. */
#include "support/failing_alloc.h"
#include "support/training.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static failing_alloc memory;
static training tr;
static mlsys_trainer trainer;
static mlsys_tensor batch[2], tensor;
static char path[64];
static const char *settings;

static mlsys_status create(void) {
    mlsys_config c = tn_config(settings);
    mlsys_status st = mlsys_trainer_create(tr.g, tr.loss, TR_PARAMS, tr.params, tr.initial,
                                           tr.pc.stream, c, &trainer);
    OK(mlsys_release(c));
    return st;
}
static mlsys_status step(void) { return mlsys_trainer_step(trainer, 2, batch, NULL); }
static mlsys_status save(void) { return mlsys_trainer_save(trainer, path); }
static mlsys_status load(void) { return mlsys_trainer_load(trainer, path); }
static mlsys_status copy(void) { return mlsys_trainer_tensor(trainer, "w0.m", &tensor); }

/* Call with the first, second, ... allocation failing until the call succeeds. steady: a failure keeps no memory.
 * A stream keeps what runs need. */
static int until_it_works(const char *name, mlsys_status (*call)(void), bool steady) {
    char before[65] = "", after[65] = "";
    bool made = trainer != NULL;
    for (int k = 1;; k++) {
        if (made) tn_hash(trainer, before);
        int64_t blocks = memory.blocks;
        memory.fail_at = memory.calls + k;
        memory.all_after = k % 2;
        mlsys_status st = call();
        bool reached = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        if (st == MLSYS_OK) {
            ck_assert_msg(!reached, "%s did without an allocation", name);
            return k - 1;
        }
        ck_assert_msg(st == MLSYS_E_NOMEM, "%s, allocation %d: %s: %s", name, k,
                      mlsys_status_name(st), mlsys_last_error());
        ck_assert_msg(!steady || memory.blocks == blocks, "%s, allocation %d: %lld blocks stayed",
                      name, k, (long long)(memory.blocks - blocks));
        if (made) {
            tn_hash(trainer, after);
            ck_assert_str_eq(before, after);
        }
    }
}

static const char *const all_settings[] = {
    "rate=0.02 ema=0.9 clip=1", "optimizer=sgd rate=0.02 momentum=0.9 accumulate=2 loss_scale=4"};

START_TEST(training_without_memory) {
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    char want[65], got[65];
    int failures = 0;
    settings = all_settings[_i];
    snprintf(path, sizeof path, "/tmp/mlsys-oom-%d.safetensors", (int)getpid());
    tn_open_hooks(&tr, 2, &hooks);
    OK(create());
    tn_steps(&tr, trainer, 0, 4);
    tn_hash(trainer, want);
    OK(mlsys_release(trainer));
    trainer = NULL;
    failures += until_it_works("create", create, true);
    for (int i = 0; i < 4; i++) {
        tn_batch(&tr, i, 16, batch);
        failures += until_it_works("step", step, false);
        pc_release(2, batch);
    }
    tn_hash(trainer, got);
    ck_assert_str_eq(want, got);
    failures += until_it_works("tensor", copy, true);
    OK(mlsys_release(tensor));
    if (mlsys_has_feature("jansson")) {
        failures += until_it_works("save", save, true);
        failures += until_it_works("load", load, true);
    }
    tn_hash(trainer, got);
    ck_assert_str_eq(want, got);
    unlink(path);
    OK(mlsys_release(trainer));
    tn_close(&tr);
    ck_assert_int_eq(memory.blocks, 0);
    ck_assert_int_eq(memory.bytes, 0);
    printf("training: %d failed allocations\n", failures);
    ck_assert_int_gt(failures, 200);
}
END_TEST

int main(void) {
    Suite *s = suite_create("oom_trainer");
    TCase *tc = tcase_create("oom_trainer");
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, training_without_memory, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
