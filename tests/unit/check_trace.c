/* The trace ring and the log ring: bounded, ordered, thread-safe; the trace is valid JSON. */
#include "core/ctx.h"
#include "core/trace.h"
#include "support/require.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

/* ---- a JSON checker: advances *p over one value, false on a syntax error --------------------- */

static void space(const char **p) {
    while (**p && strchr(" \t\r\n", **p))
        ++*p;
}

static bool json_string(const char **p) {
    if (*(*p)++ != '"') return false;
    for (; **p != '"'; ++*p) {
        if ((unsigned char)**p < 0x20) return false;
        if (**p != '\\') continue;
        ++*p;
        if (**p == 'u') {
            for (int i = 0; i < 4; i++)
                if (!strchr("0123456789abcdefABCDEF", *++*p) || !**p) return false;
        } else if (!**p || !strchr("\"\\/bfnrt", **p)) {
            return false;
        }
    }
    ++*p;
    return true;
}

static bool json_value(const char **p) {
    space(p);
    if (**p == '"') return json_string(p);
    if (**p == '{' || **p == '[') {
        char open = *(*p)++, close = open == '{' ? '}' : ']';
        space(p);
        if (**p == close) return ++*p, true;
        for (;;) {
            if (open == '{') {
                space(p);
                if (!json_string(p)) return false;
                space(p);
                if (*(*p)++ != ':') return false;
            }
            if (!json_value(p)) return false;
            space(p);
            if (**p == close) return ++*p, true;
            if (*(*p)++ != ',') return false;
        }
    }
    char *end;
    strtod(*p, &end);
    if (end == *p) return false;
    *p = end;
    return true;
}

static char *json_of(mlsi_trace *t) {
    mlsi_text text;
    uint64_t need;
    mlsi_text_init(&text, &mlsi_alloc_process);
    mlsi_trace_json(t, &text);
    check_ok(text.st);
    char *s = strdup(text.data);
    check_ok(mlsi_text_out(&text, NULL, 0, &need));
    const char *p = s;
    bool valid = json_value(&p);
    space(&p);
    if (!valid || *p) ck_abort_msg("not JSON at %.40s", p);
    return s;
}

static int occurrences(const char *s, const char *what) {
    int n = 0;
    while ((s = strstr(s, what)))
        n++, s++;
    return n;
}

/* ---- trace ---------------------------------------------------------------------------------- */

START_TEST(events_are_written_as_json) {
    mlsi_trace *t;
    check_ok(mlsi_trace_create(&mlsi_alloc_process, 8, &t));
    mlsi_trace_add(t, "op", "unseen", 0, 1, 0, 0); /* not enabled */
    mlsi_trace_enable(t, true);
    ck_assert(mlsi_trace_enabled(t) && !mlsi_trace_enabled(NULL));
    mlsi_trace_add(t, "op", "matmul", 1500, 4000, 200, 64);
    mlsi_trace_add(t, "kernel", "say \"hi\"\\\n\x01", 2000000, 2000001, 0, 0);
    mlsi_trace_add(t, "op", "a name that is much longer than what an event has room for, truncated",
                   5, 6, 0, 0);
    mlsi_trace_enable(t, false);
    mlsi_trace_add(t, "op", "unseen", 0, 1, 0, 0);
    char *s = json_of(t);
    ck_assert_int_eq(occurrences(s, "\"ph\":\"X\""), 3);
    ck_assert_int_eq(occurrences(s, "process_name"), 2);
    ck_assert_ptr_null(strstr(s, "unseen"));
    ck_assert_ptr_nonnull(strstr(s, "\"name\":\"matmul\",\"ts\":1.500,\"dur\":2.500,"
                                    "\"args\":{\"flops\":200,\"bytes\":64}"));
    ck_assert_ptr_nonnull(strstr(s, "say \\\"hi\\\"\\\\\\u000a\\u0001"));
    ck_assert_ptr_nonnull(strstr(s, "\"ts\":2000.000,\"dur\":0.001}"));
    free(s);
    mlsi_trace_destroy(t);
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}
END_TEST

START_TEST(the_ring_keeps_the_newest) {
    mlsi_trace *t;
    char name[32];
    check_ok(mlsi_trace_create(&mlsi_alloc_process, 5, &t));
    mlsi_trace_enable(t, true);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "event%d", i);
        mlsi_trace_add(t, "op", name, i, i + 1, 0, 0);
    }
    char *s = json_of(t), *at = s;
    ck_assert_ptr_nonnull(strstr(s, "\"dropped\":7"));
    ck_assert_ptr_null(strstr(s, "event6"));
    for (int i = 7; i < 12; i++) { /* oldest first */
        snprintf(name, sizeof name, "\"event%d\"", i);
        at = strstr(at, name);
        ck_assert_ptr_nonnull(at);
    }
    free(s);
    check_ok(mlsi_trace_reserve(t, 2)); /* starts anew */
    s = json_of(t);
    ck_assert_int_eq(occurrences(s, "event"), 0);
    free(s);
    check_ok(mlsi_trace_reserve(t, 0));
    mlsi_trace_add(t, "op", "nowhere", 0, 1, 0, 0);
    s = json_of(t);
    free(s);
    ck_assert_int_eq(mlsi_trace_reserve(t, -1), MLSYS_E_ARG);
    mlsi_trace_destroy(t);
}
END_TEST

static void *trace_main(void *arg) {
    for (int i = 0; i < 3000; i++)
        mlsi_trace_add(arg, i % 2 ? "op" : "kernel", "x", i, i + 1, 1, 1);
    return NULL;
}

START_TEST(threads_add_while_others_read) {
    mlsi_trace *t;
    check_ok(mlsi_trace_create(&mlsi_alloc_process, 100, &t));
    mlsi_trace_enable(t, true);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, trace_main, t);
    for (int i = 0; i < 20; i++) {
        free(json_of(t));
        check_ok(mlsi_trace_reserve(t, 100 + i % 3));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    mlsi_trace_destroy(t);
}
END_TEST

START_TEST(profiles_through_the_api) {
    mlsys_ctx ctx;
    mlsys_config config;
    mlsi_ctx *inside;
    char text[2048];
    uint64_t need;
    check_ok(mlsys_ctx_create(NULL, NULL, &ctx));
    check_ok(mlsys_config_create(&config));
    check_ok(mlsys_config_set_i64(config, "capacity", 0));
    ck_assert_int_eq(mlsys_profile_start(ctx, config), MLSYS_E_ARG);
    check_ok(mlsys_config_set_i64(config, "capacity", 4));
    check_ok(mlsys_profile_start(ctx, config));
    check_ok(mlsi_pin(ctx, MLSYS_KIND_CTX, "test", &inside));
    for (int i = 0; i < 9; i++)
        mlsi_trace_add(inside->trace, "op", "step", i, i + 1, 0, 0);
    check_ok(mlsys_profile_stop(ctx));
    mlsi_trace_add(inside->trace, "op", "late", 0, 1, 0, 0);
    mlsi_unpin(inside);
    check_ok(mlsys_profile_read(ctx, NULL, 0, &need));
    check_ok(mlsys_profile_read(ctx, text, sizeof text, &need));
    ck_assert_uint_eq(need, strlen(text) + 1);
    ck_assert_int_eq(occurrences(text, "\"step\""), 4);
    ck_assert_ptr_null(strstr(text, "late"));
    ck_assert_int_eq(mlsys_profile_read(ctx, text, 10, &need), MLSYS_E_BUFFER);
    mlsys_release(ctx), mlsys_release(config);
}
END_TEST

/* ---- log ------------------------------------------------------------------------------------ */

typedef struct heard {
    int lines;
    int32_t level;
    char area[32], line[600];
} heard;

static void hear(void *user, int32_t level, const char *area, const char *line) {
    heard *h = user;
    h->lines++;
    h->level = level;
    snprintf(h->area, sizeof h->area, "%s", area);
    snprintf(h->line, sizeof h->line, "%s", line);
}

static mlsi_ctx *log_ctx(int level, heard *h, mlsys_ctx *ctx) {
    mlsys_hooks hooks;
    mlsys_config config;
    mlsi_ctx *inside;
    check_ok(mlsys_hooks_init(&hooks, sizeof hooks));
    hooks.user = h;
    hooks.log = hear;
    check_ok(mlsys_config_create(&config));
    check_ok(mlsys_config_set_i64(config, "log_level", level));
    check_ok(mlsys_config_set_i64(config, "threads", 1));
    check_ok(mlsys_ctx_create(config, &hooks, ctx));
    check_ok(mlsi_pin(*ctx, MLSYS_KIND_CTX, "test", &inside));
    mlsys_release(config);
    return inside;
}

START_TEST(log_lines_reach_hook_and_ring) {
    heard h = {0};
    mlsys_ctx ctx;
    char text[256];
    uint64_t need;
    mlsi_ctx *c = log_ctx(MLSYS_LOG_INFO, &h, &ctx);
    mlsi_log(c, MLSYS_LOG_DEBUG, "model", "too detailed");
    mlsi_log(c, MLSYS_LOG_WARN, "model", "%d of %s\nmore", 3, "five");
    mlsi_log(c, MLSYS_LOG_INFO, "run", "done");
    mlsi_log(c, 0, "run", "no level");
    ck_assert_int_eq(h.lines, 2);
    ck_assert_int_eq(h.level, MLSYS_LOG_INFO);
    ck_assert_str_eq(h.area, "run");
    ck_assert_str_eq(h.line, "done");
    ck_assert_int_eq(mlsys_ctx_read_log(ctx, text, 10, &need), MLSYS_E_BUFFER);
    ck_assert_str_eq(text, "W model: ");
    check_ok(mlsys_ctx_read_log(ctx, NULL, 0, &need));
    check_ok(mlsys_ctx_read_log(ctx, text, need, &need)); /* nothing was consumed before */
    ck_assert_str_eq(text, "W model: 3 of five more\nI run: done\n");
    check_ok(mlsys_ctx_read_log(ctx, text, sizeof text, &need));
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(need, 1);
    mlsi_unpin(c);
    mlsys_release(ctx);
}
END_TEST

START_TEST(the_log_drops_whole_old_lines) {
    heard h = {0};
    mlsys_ctx ctx;
    mlsi_ctx *c = log_ctx(MLSYS_LOG_DEBUG, &h, &ctx);
    char filler[1000], *text = malloc(1 << 20);
    uint64_t need;
    memset(filler, 'x', sizeof filler);
    filler[999] = 0;
    for (int i = 0; i < 2000; i++)
        mlsi_log(c, MLSYS_LOG_DEBUG, "t", "%d %.*s", i, i % 1000, filler);
    mlsi_log(c, MLSYS_LOG_DEBUG, "t", "%s", filler); /* longer than a line may be */
    ck_assert_int_eq(h.lines, 2001);
    ck_assert_uint_lt(strlen(h.line), 512);
    check_ok(mlsys_ctx_read_log(ctx, text, 1 << 20, &need));
    ck_assert_uint_gt(need, 30000);
    int line = -1;
    for (char *p = text; *p;) { /* every line is whole; numbers ascend to the last */
        char *end = strchr(p, '\n');
        REQUIRE(end && !strncmp(p, "D t: ", 5));
        int number = p[5] == 'x' ? 2000 : atoi(p + 5);
        REQUIRE(line < 0 || number == line + 1);
        line = number;
        p = end + 1;
    }
    ck_assert_int_eq(line, 2000);
    free(text);
    mlsi_unpin(c);
    mlsys_release(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("trace");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, events_are_written_as_json);
    tcase_add_test(t, the_ring_keeps_the_newest);
    tcase_add_test(t, threads_add_while_others_read);
    tcase_add_test(t, profiles_through_the_api);
    tcase_add_test(t, log_lines_reach_hook_and_ring);
    tcase_add_test(t, the_log_drops_whole_old_lines);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
