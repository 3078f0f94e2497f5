/* Settings: what is set is found, what no table knows is refused by name; versioned structs. */
#include "core/ctx.h"
#include "support/require.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static void expect(mlsys_status st, mlsys_status want, const char *sentence) {
    if (st != want || !strstr(mlsys_last_error(), sentence))
        ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static mlsi_config *config_new(mlsys_config *handle) {
    mlsi_config *c;
    check_ok(mlsys_config_create(handle));
    check_ok(mlsi_pin(*handle, MLSYS_KIND_CONFIG, "test", &c));
    return c;
}

static void config_end(mlsys_config handle, mlsi_config *c) {
    mlsi_unpin(c);
    check_ok(mlsys_release(handle));
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}

START_TEST(values_are_found_by_type) {
    mlsys_config h;
    mlsi_config *c = config_new(&h);
    int64_t v;
    check_ok(mlsys_config_set_i64(h, "i", -5));
    check_ok(mlsys_config_set_f64(h, "f", 0.5));
    check_ok(mlsys_config_set_str(h, "s", "text"));
    check_ok(mlsys_config_set_i64s(h, "v", 3, (int64_t[]){1, 2, 3}));
    check_ok(mlsys_config_set_i64s(h, "none", 0, NULL));
    ck_assert_int_eq(mlsi_config_i64(c, "i", 9), -5);
    ck_assert(mlsi_config_f64(c, "f", 9) == 0.5 && mlsi_config_f64(c, "i", 9) == -5);
    ck_assert_str_eq(mlsi_config_str(c, "s", "other"), "text");
    ck_assert_int_eq(mlsi_config_i64(c, "absent", 9), 9);
    ck_assert_int_eq(mlsi_config_i64(c, "f", 9), 9);
    ck_assert_str_eq(mlsi_config_str(NULL, "s", "default"), "default");
    const mlsi_config_entry *e = mlsi_config_find(c, "v");
    ck_assert(e && e->type == 'v' && e->n == 3 && e->v[2] == 3);
    check_ok(mlsys_config_get_i64(h, "i", &v));
    ck_assert_int_eq(v, -5);
    expect(mlsys_config_get_i64(h, "f", &v), MLSYS_E_ARG, "\"f\" is not an integer");
    expect(mlsys_config_get_i64(h, "absent", &v), MLSYS_E_NOTFOUND, "no key \"absent\"");
    config_end(h, c);
}
END_TEST

START_TEST(a_key_set_again_is_replaced) {
    mlsys_config h;
    mlsi_config *c = config_new(&h);
    char key[16];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 40; i++) {
            snprintf(key, sizeof key, "k%d", i);
            if (round % 2)
                check_ok(mlsys_config_set_str(h, key, "text"));
            else
                check_ok(mlsys_config_set_i64(h, key, i));
        }
    ck_assert_int_eq(c->count, 40);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(mlsi_config_i64(c, key, -1), i);
    }
    config_end(h, c);
}
END_TEST

START_TEST(copies_are_independent) {
    mlsys_config h, h2, h3;
    mlsi_config *c = config_new(&h), *copy;
    check_ok(mlsys_config_set_str(h, "s", "text"));
    check_ok(mlsys_config_set_i64s(h, "v", 2, (int64_t[]){4, 5}));
    check_ok(mlsi_config_copy(c, &h2));
    check_ok(mlsi_config_copy(NULL, &h3));
    check_ok(mlsys_config_set_str(h, "s", "changed"));
    check_ok(mlsi_pin(h2, MLSYS_KIND_CONFIG, "test", &copy));
    ck_assert_str_eq(mlsi_config_str(copy, "s", ""), "text");
    ck_assert_int_eq(mlsi_config_find(copy, "v")->v[1], 5);
    mlsi_unpin(copy);
    mlsys_release(h2), mlsys_release(h3);
    config_end(h, c);
}
END_TEST

START_TEST(setters_refuse_bad_arguments) {
    mlsys_config h;
    mlsi_config *c = config_new(&h);
    char key[100];
    int64_t v[17] = {0};
    memset(key, 'k', sizeof key);
    key[99] = 0;
    expect(mlsys_config_set_i64(h, key, 1), MLSYS_E_ARG, "longer than 63 bytes");
    key[63] = 0;
    check_ok(mlsys_config_set_i64(h, key, 1));
    expect(mlsys_config_set_i64(h, "", 1), MLSYS_E_ARG, "empty");
    expect(mlsys_config_set_i64(h, NULL, 1), MLSYS_E_ARG, "(NULL)");
    expect(mlsys_config_set_str(h, "s", NULL), MLSYS_E_ARG, "value is NULL");
    expect(mlsys_config_set_i64s(h, "v", 17, v), MLSYS_E_ARG, "n is 17");
    expect(mlsys_config_set_i64s(h, "v", -1, v), MLSYS_E_ARG, "n is -1");
    expect(mlsys_config_set_i64s(h, "v", 1, NULL), MLSYS_E_ARG, "values is NULL");
    check_ok(mlsys_config_set_i64s(h, "v", 16, v));
    expect(mlsys_config_get_i64(h, NULL, v), MLSYS_E_ARG, "key is NULL");
    expect(mlsys_config_get_i64(h, "i", NULL), MLSYS_E_ARG, "out is NULL");
    expect(mlsys_config_create(NULL), MLSYS_E_ARG, "out is NULL");
    config_end(h, c);
}
END_TEST

static const mlsi_config_key keys[] = {
    {"count", 'i', "3", 1, 10, "how many"},
    {"rate", 'f', "0.5", 0, 1, "how fast"},
    {"name", 's', "none", 0, 0, "what"},
};

START_TEST(checks_name_scope_key_and_value) {
    static const struct {
        const char *key;
        char type;
        int64_t i;
        double f;
        mlsys_status want;
        const char *sentence;
    } rows[] = {
        {"count", 'i', 1, 0, MLSYS_OK, ""},
        {"count", 'i', 10, 0, MLSYS_OK, ""},
        {"count", 'i', 0, 0, MLSYS_E_ARG, "test: key \"count\" is outside 1..10: 0"},
        {"count", 'i', INT64_MAX, 0, MLSYS_E_ARG, "9223372036854775807"},
        {"count", 'f', 0, 2, MLSYS_E_ARG, "test: key \"count\" is an integer, not a number"},
        {"rate", 'f', 0, 1, MLSYS_OK, ""},
        {"rate", 'i', 1, 0, MLSYS_OK, ""},
        {"rate", 'i', 2, 0, MLSYS_E_ARG, "outside 0..1: 2"},
        {"rate", 'f', 0, -0.5, MLSYS_E_ARG, "outside 0..1: -0.5"},
        {"rate", 'f', 0, NAN, MLSYS_E_ARG, "outside"},
        {"rate", 's', 0, 0, MLSYS_E_ARG, "a number, not a text"},
        {"name", 's', 0, 0, MLSYS_OK, ""},
        {"name", 'v', 0, 0, MLSYS_E_ARG, "a text, not a list of integers"},
        {"Count", 'i', 1, 0, MLSYS_E_NOTFOUND, "test: unknown key \"Count\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mlsys_config h;
        mlsi_config *c = config_new(&h);
        mlsi_config_entry e = {.type = rows[i].type, .i = rows[i].i, .f = rows[i].f, .s = "x"};
        check_ok(mlsi_config_set(c, rows[i].key, &e));
        expect(mlsi_config_check(c, "test", keys, 3), rows[i].want, rows[i].sentence);
        config_end(h, c);
    }
    check_ok(mlsi_config_check(NULL, "test", keys, 3));
}
END_TEST

START_TEST(scopes_list_their_keys) {
    char text[2048];
    uint64_t need;
    check_ok(mlsys_config_keys("ctx", text, sizeof text, &need));
    ck_assert_uint_eq(need, strlen(text) + 1);
    ck_assert_ptr_nonnull(strstr(text, "threads i64 "));
    ck_assert_ptr_nonnull(strstr(text, "[1, 1024]: "));
    ck_assert_ptr_nonnull(strstr(text, "\nisa str auto: "));
    ck_assert_int_eq(text[need - 2], '\n');
    check_ok(mlsys_config_keys("profile", text, sizeof text, &need));
    ck_assert_int_eq(mlsys_config_keys("ctx", text, 3, &need), MLSYS_E_BUFFER);
    expect(mlsys_config_keys("no such scope", text, sizeof text, &need), MLSYS_E_NOTFOUND,
           "no such scope");
    expect(mlsys_config_keys(NULL, text, sizeof text, &need), MLSYS_E_ARG, "scope is NULL");
    expect(mlsys_config_keys("ctx", NULL, 9, &need), MLSYS_E_ARG, "buf is NULL");
}
END_TEST

static mlsys_status ctx_with_i64(const char *key, int64_t value) {
    mlsys_config h;
    mlsys_ctx ctx;
    check_ok(mlsys_config_create(&h));
    check_ok(mlsys_config_set_i64(h, key, value));
    mlsys_status st = mlsys_ctx_create(h, NULL, &ctx);
    REQUIRE((st == MLSYS_OK) == (ctx != NULL));
    mlsys_release(ctx), mlsys_release(h);
    return st;
}

START_TEST(contexts_check_their_config) {
    expect(ctx_with_i64("threads", 0), MLSYS_E_ARG, "ctx: key \"threads\" is outside 1..1024: 0");
    expect(ctx_with_i64("threads", 1025), MLSYS_E_ARG, "1025");
    expect(ctx_with_i64("isa", 1), MLSYS_E_ARG, "a text, not an integer");
    expect(ctx_with_i64("thread", 1), MLSYS_E_NOTFOUND, "unknown key \"thread\"");
    check_ok(ctx_with_i64("threads", 7));
    static const char *const isas[] = {"auto", "portable", "avx2", "avx512", "sse"};
    for (int i = 0; i < 5; i++) {
        mlsys_config h;
        mlsys_ctx ctx;
        check_ok(mlsys_config_create(&h));
        check_ok(mlsys_config_set_str(h, "isa", isas[i]));
        ck_assert_int_eq(mlsys_ctx_create(h, NULL, &ctx), i < 4 ? MLSYS_OK : MLSYS_E_ARG);
        if (i < 4) {
            mlsi_ctx *c;
            check_ok(mlsi_pin(ctx, MLSYS_KIND_CTX, "test", &c));
            int best = mlsys_has_feature("avx512") ? 2 : mlsys_has_feature("avx2"), asked = i - 1;
            ck_assert_int_eq(c->isa_limit, i && asked < best ? asked : best);
            mlsi_unpin(c);
        }
        mlsys_release(ctx), mlsys_release(h);
    }
}
END_TEST

/* ---- versioned structs ----------------------------------------------------------------------- */

static void *hook_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                        uint64_t align) {
    (void)user, (void)type, (void)index;
    void *p = NULL;
    return posix_memalign(&p, align, bytes) ? NULL : p;
}
static void hook_dealloc(void *user, mlsys_devtype type, int32_t index, void *p, uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    free(p);
}
static void hook_destroy(void *user) { ++*(int *)user; }

START_TEST(hooks_of_older_and_newer_callers) {
    struct {
        mlsys_hooks hooks;
        uint64_t future[2];
    } newer;
    mlsys_ctx ctx;
    int destroyed = 0;
    check_ok(mlsys_hooks_init(&newer.hooks, sizeof newer));
    ck_assert_uint_eq(newer.hooks.size, sizeof newer);
    newer.hooks.user = &destroyed;
    newer.hooks.destroy = hook_destroy;
    check_ok(mlsys_ctx_create(NULL, &newer.hooks, &ctx)); /* zero tail: nothing new is asked */
    mlsys_release(ctx);
    ck_assert_int_eq(destroyed, 1);
    newer.future[1] = 1;
    expect(mlsys_ctx_create(NULL, &newer.hooks, &ctx), MLSYS_E_VERSION, "byte ");
    ck_assert_ptr_null(ctx);

    mlsys_hooks older;
    memset(&older, 0xff, sizeof older);
    uint64_t known = offsetof(mlsys_hooks, log); /* a caller that knew no log and no destroy */
    check_ok(mlsys_hooks_init(&older, known));
    older.alloc = hook_alloc;
    older.dealloc = hook_dealloc;
    ck_assert_int_eq(((unsigned char *)&older)[known], 0xff); /* not written past its size */
    check_ok(mlsys_ctx_create(NULL, &older, &ctx));
    mlsys_release(ctx);
    older.dealloc = NULL;
    expect(mlsys_ctx_create(NULL, &older, &ctx), MLSYS_E_ARG, "alloc and dealloc");
    older.size = 0;
    expect(mlsys_ctx_create(NULL, &older, &ctx), MLSYS_E_VERSION, "size 0");
    older.size = UINT64_MAX;
    expect(mlsys_ctx_create(NULL, &older, &ctx), MLSYS_E_VERSION, "size");
    expect(mlsys_hooks_init(NULL, 8), MLSYS_E_ARG, "h is NULL");
    expect(mlsys_hooks_init(&older, 7), MLSYS_E_ARG, "size is 7");
}
END_TEST

START_TEST(versions_and_features) {
    ck_assert_int_eq(mlsys_version(), MLSYS_VERSION_NUMBER);
    ck_assert_ptr_nonnull(strstr(mlsys_build_info(), MLSYS_VERSION_STRING));
    ck_assert_int_eq(mlsys_has_feature("cpu"), 1);
    ck_assert_int_eq(mlsys_has_feature("no such feature"), 0);
    ck_assert_int_eq(mlsys_has_feature(NULL), 0);
    ck_assert_str_eq(mlsys_status_name(MLSYS_E_SHAPE), "E_SHAPE");
    ck_assert_str_eq(mlsys_status_name(-1), "E_?");
    ck_assert_str_eq(mlsys_status_name(MLSYS_E_FORMAT + 1), "E_?");
    ck_assert_int_eq(mlsys_set_error(MLSYS_E_IO, "mine"), MLSYS_E_IO);
    ck_assert_str_eq(mlsys_last_error(), "mine");
    ck_assert_int_eq(mlsys_last_status(), MLSYS_E_IO);
    check_ok(mlsys_release(NULL)); /* a success leaves the text */
    ck_assert_str_eq(mlsys_last_error(), "mine");
    ck_assert_int_eq(mlsys_set_error(0, "x"), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_set_error(MLSYS_E_IO, NULL), MLSYS_E_IO);
    ck_assert_str_eq(mlsys_last_error(), "");
}
END_TEST

int main(void) {
    Suite *s = suite_create("config");
    TCase *t = tcase_create("config");
    tcase_add_test(t, values_are_found_by_type);
    tcase_add_test(t, a_key_set_again_is_replaced);
    tcase_add_test(t, copies_are_independent);
    tcase_add_test(t, setters_refuse_bad_arguments);
    tcase_add_test(t, checks_name_scope_key_and_value);
    tcase_add_test(t, scopes_list_their_keys);
    tcase_add_test(t, contexts_check_their_config);
    tcase_add_test(t, hooks_of_older_and_newer_callers);
    tcase_add_test(t, versions_and_features);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
