/* The allocator, and what happens when it refuses: each allocation of a scenario fails in turn. */
#include "core/ctx.h"
#include "support/failing_alloc.h"
#include "support/require.h"

#include <stdio.h>
#include <string.h>

/* ---- allocator, arena, text ------------------------------------------------------------------ */

START_TEST(blocks_are_aligned_and_counted) {
    failing_alloc f = {0};
    mlsys_hooks h = failing_alloc_hooks(&f);
    mlsi_alloc a;
    mlsi_alloc_init(&a, &h);
    void *p[64];
    for (uint64_t i = 0; i < 64; i++) {
        ck_assert_int_eq(mlsi_mem_alloc(&a, i * i, &p[i]), MLSYS_OK);
        ck_assert_uint_eq((uintptr_t)p[i] % 64, 0);
        memset(p[i], 0xaa, i * i);
    }
    ck_assert_uint_eq(a.live_bytes, (uint64_t)f.bytes);
    uint64_t peak = a.live_bytes;
    for (int i = 0; i < 64; i++)
        mlsi_mem_free(&a, p[i]);
    mlsi_mem_free(&a, NULL);
    ck_assert_uint_eq(a.live_bytes, 0);
    ck_assert_uint_eq(a.peak_bytes, peak);
    ck_assert_uint_eq(a.allocations, 64);
    ck_assert_int_eq(f.blocks, 0);
}
END_TEST

START_TEST(impossible_sizes_are_refused) {
    void *p = &p;
    ck_assert_int_eq(mlsi_mem_alloc(&mlsi_alloc_process, UINT64_MAX, &p), MLSYS_E_NOMEM);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(mlsi_mem_alloc(&mlsi_alloc_process, UINT64_MAX - 63, &p), MLSYS_E_NOMEM);
    ck_assert_int_eq(mlsi_mem_zalloc(&mlsi_alloc_process, UINT64_MAX / 2, 3, &p), MLSYS_E_NOMEM);
    ck_assert_int_eq(mlsi_mem_zalloc(&mlsi_alloc_process, (uint64_t)1 << 61, 4, &p), MLSYS_E_NOMEM);
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}
END_TEST

START_TEST(arrays_grow) {
    int32_t *v = NULL;
    int64_t cap = 0;
    for (int32_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(MLSI_GROW(&mlsi_alloc_process, &v, &cap, i + 1), MLSYS_OK);
        REQUIRE(v[i] == 0);
        v[i] = i;
    }
    for (int32_t i = 0; i < 1000; i++)
        REQUIRE(v[i] == i);
    ck_assert_int_eq(MLSI_GROW(&mlsi_alloc_process, &v, &cap, INT64_MAX), MLSYS_E_NOMEM);
    REQUIRE(v[999] == 999); /* kept on failure */
    mlsi_mem_free(&mlsi_alloc_process, v);
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}
END_TEST

START_TEST(arenas_die_as_one) {
    failing_alloc f = {0};
    mlsys_hooks h = failing_alloc_hooks(&f);
    mlsi_alloc a;
    mlsi_arena arena;
    mlsi_alloc_init(&a, &h);
    mlsi_arena_init(&arena, &a);
    for (uint64_t i = 0; i < 300; i++) {
        unsigned char *p;
        ck_assert_int_eq(mlsi_arena_zalloc(&arena, i * 7, (void **)&p), MLSYS_OK);
        REQUIRE((uintptr_t)p % 16 == 0);
        for (uint64_t k = 0; k < i * 7; k++)
            REQUIRE(p[k] == 0);
        memset(p, 0xff, i * 7);
    }
    void *big;
    const char *text;
    ck_assert_int_eq(mlsi_arena_zalloc(&arena, 1 << 20, &big), MLSYS_OK);
    ck_assert_int_eq(mlsi_arena_strdup(&arena, "text", &text), MLSYS_OK);
    ck_assert_str_eq(text, "text");
    ck_assert_int_eq(mlsi_arena_zalloc(&arena, UINT64_MAX, &big), MLSYS_E_NOMEM);
    mlsi_arena_free(&arena);
    mlsi_arena_free(&arena);
    ck_assert_int_eq(f.blocks, 0);
}
END_TEST

START_TEST(text_outputs_follow_the_rule) {
    char buf[8] = "zzzzzzz";
    uint64_t need;
    mlsi_text t;
    for (uint64_t cap = 0; cap <= 8; cap++) {
        mlsi_text_init(&t, &mlsi_alloc_process);
        mlsi_text_add(&t, "%s-%d", "abc", 42); /* 6 characters */
        memset(buf, 'z', 7);
        mlsys_status st = mlsi_text_out(&t, cap ? buf : NULL, cap, &need);
        ck_assert_int_eq(st, cap == 0 || cap >= 7 ? MLSYS_OK : MLSYS_E_BUFFER);
        ck_assert_uint_eq(need, 7);
        if (cap) ck_assert_int_eq(strncmp(buf, "abc-42", cap - 1), 0);
        if (cap) ck_assert_int_eq(buf[cap < 7 ? cap - 1 : 6], 0);
        if (cap && cap < 7) ck_assert_int_eq(buf[cap], cap == 7 ? 0 : 'z');
    }
    mlsi_text_init(&t, &mlsi_alloc_process); /* an empty text */
    ck_assert_int_eq(mlsi_text_out(&t, buf, sizeof buf, &need), MLSYS_OK);
    ck_assert_uint_eq(need, 1);
    ck_assert_str_eq(buf, "");
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}
END_TEST

/* ---- scenarios ------------------------------------------------------------------------------- */

static mlsys_status first_error(mlsys_status a, mlsys_status b) { return a ? a : b; }

/* Everything that the core's objects do, once. Returns the first failure; leaves nothing. */
static mlsys_status scenario(const mlsys_hooks *hooks) {
    mlsys_config config = NULL;
    mlsys_ctx ctx = NULL;
    mlsys_device device = NULL;
    mlsys_stream stream = NULL;
    mlsys_tensor t = NULL, v = NULL, w = NULL, imported = NULL;
    void *managed = NULL;
    mlsys_status st;
    char text[64];
    uint64_t need;
    int32_t values[24] = {0};
    MLSI_TRY_GOTO(end, st, mlsys_config_create(&config));
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "key%d", i);
        MLSI_TRY_GOTO(end, st, mlsys_config_set_str(config, text, "value"));
        MLSI_TRY_GOTO(end, st, mlsys_config_set_f64(config, text, 1));
    }
    st = mlsys_ctx_create(config, hooks, &ctx);
    if (st == MLSYS_OK) ck_abort_msg("unknown keys were accepted");
    if (st != MLSYS_E_NOTFOUND) goto end;
    mlsys_release(config);
    config = NULL;
    MLSI_TRY_GOTO(end, st, mlsys_config_create(&config));
    MLSI_TRY_GOTO(end, st, mlsys_config_set_i64(config, "threads", 3));
    MLSI_TRY_GOTO(end, st, mlsys_ctx_create(config, hooks, &ctx));
    MLSI_TRY_GOTO(end, st, mlsys_device_get(ctx, MLSYS_CPU, 0, &device));
    MLSI_TRY_GOTO(end, st, mlsys_stream_create(device, NULL, &stream));
    MLSI_TRY_GOTO(end, st, mlsys_device_describe(device, NULL, 0, &need));
    MLSI_TRY_GOTO(end, st, mlsys_profile_start(ctx, NULL));
    MLSI_TRY_GOTO(end, st, mlsys_profile_read(ctx, NULL, 0, &need));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_create(device, MLSYS_I32, 2, (int64_t[]){4, 6}, &t));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_write(t, stream, values, sizeof values));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_transpose(t, 0, 1, &v));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_random(v, stream, "bits", 1, 2));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_reshape(v, 1, (int64_t[]){24}, &w, NULL));
    MLSI_TRY_GOTO(end, st, mlsys_release(w));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_reshape(t, 2, (int64_t[]){6, 4}, &w, NULL));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_copy(w, v, stream)); /* overlapping: needs scratch */
    MLSI_TRY_GOTO(end, st, mlsys_tensor_to_dlpack(v, stream, 2, &managed));
    MLSI_TRY_GOTO(end, st, mlsys_tensor_from_dlpack(device, managed, stream, &imported));
    managed = NULL;
end:
    st = first_error(st, mlsys_dlpack_free(managed));
    st = first_error(st, mlsys_release(imported));
    st = first_error(st, mlsys_release(w));
    st = first_error(st, mlsys_release(v));
    st = first_error(st, mlsys_release(t));
    st = first_error(st, mlsys_release(stream));
    st = first_error(st, mlsys_release(device));
    st = first_error(st, mlsys_release(ctx));
    return first_error(st, mlsys_release(config));
}

/* Through the context's hooks (configs use the process allocator, the second loop). */
static void fail_each(bool process, int all_after) {
    mlsys_hooks saved = mlsi_alloc_process.hooks;
    int64_t n = 0;
    for (bool done = false; !done;) {
        failing_alloc f = {.fail_at = ++n, .all_after = all_after};
        mlsys_hooks h = failing_alloc_hooks(&f);
        if (process) mlsi_alloc_process.hooks = h;
        mlsys_status st = scenario(process ? NULL : &h);
        mlsi_alloc_process.hooks = saved;
        done = f.calls < n;
        if (st != (done ? MLSYS_OK : MLSYS_E_NOMEM))
            ck_abort_msg("allocation %d: %s: %s", (int)n, mlsys_status_name(st),
                         mlsys_last_error());
        if (!done && !strstr(mlsys_last_error(), "alloc:"))
            ck_abort_msg("allocation %d: the cause is gone: %s", (int)n, mlsys_last_error());
        if (f.blocks || f.bytes)
            ck_abort_msg("allocation %d leaks %d blocks", (int)n, (int)f.blocks);
        REQUIRE(f.destroyed <= 1);
    }
    REQUIRE(n > (process ? 60 : 20)); /* the scenario did allocate */
}

START_TEST(each_allocation_fails_once) {
    fail_each(false, 0);
    fail_each(true, 0);
}
END_TEST

START_TEST(all_allocations_fail_from_some_point) {
    fail_each(false, 1);
    fail_each(true, 1);
}
END_TEST

START_TEST(creation_that_fails_leaves_user_to_the_caller) {
    failing_alloc f = {.fail_at = 3};
    mlsys_hooks h = failing_alloc_hooks(&f);
    mlsys_ctx ctx;
    ck_assert_int_eq(mlsys_ctx_create(NULL, &h, &ctx), MLSYS_E_NOMEM);
    ck_assert_ptr_null(ctx);
    ck_assert_int_eq(f.destroyed, 0);
    f.fail_at = 0;
    ck_assert_int_eq(mlsys_ctx_create(NULL, &h, &ctx), MLSYS_OK);
    mlsys_release(ctx);
    ck_assert_int_eq(f.destroyed, 1);
    ck_assert_int_eq(f.blocks, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("alloc");
    TCase *t = tcase_create("alloc");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, blocks_are_aligned_and_counted);
    tcase_add_test(t, impossible_sizes_are_refused);
    tcase_add_test(t, arrays_grow);
    tcase_add_test(t, arenas_die_as_one);
    tcase_add_test(t, text_outputs_follow_the_rule);
    tcase_add_test(t, each_allocation_fails_once);
    tcase_add_test(t, all_allocations_fail_from_some_point);
    tcase_add_test(t, creation_that_fails_leaves_user_to_the_caller);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
