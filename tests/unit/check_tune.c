/* Tuning: draws by number, records that survive kills and foreign hands, replay, proofs and bits before time, budgets. */
#include "core/faults.h"
#include "ir/loop/prove.h"
#include "support/require.h"
#include "support/tune_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 8192 };
static const char fast[] = "split(i_0, 2) -> i_0_o, i_0_i; parallel(i_0_o);";

static tune_case tc;

static void setup(void) {
    tc_cache();
    tc_open(&tc, 1);
}

static void teardown(void) {
    tc_close(&tc);
    tc_cache_remove();
}

/* ---- records ----------------------------------------------------------------------------------------------- */

static void append_bytes(const char *path, const char *bytes) {
    int fd = open(path, O_WRONLY | O_APPEND);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
    REQUIRE(close(fd) == 0);
}

static char *text_of(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    REQUIRE(f && text && fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static mlsi_tune_records expect_records(int64_t n, int64_t ignored) {
    mlsi_tune_records r = tc_read(&tc, 16);
    ck_assert_int_eq(r.n, n);
    ck_assert_int_eq(r.ignored, ignored);
    return r;
}

START_TEST(records_read_back) {
    mlsi_tune_key key = tc_key(&tc, 16);
    mlsi_tune_record r = {.seed = 7,
                          .number = 3,
                          .verdict = MLSI_TUNE_TIMED,
                          .time = 812345,
                          .ns = 4567,
                          .point = {{0, 3, 0, 12}},
                          .schedule = (char *)(uintptr_t)fast};
    OK(mlsi_tune_append(tc.pc.ctx, &key, &r));
    mlsi_tune_record refused = {.number = 4, .verdict = MLSI_TUNE_REFUSED, .schedule = ""};
    OK(mlsi_tune_append(tc.pc.ctx, &key, &refused));
    mlsi_tune_records back = expect_records(2, 0);
    mlsi_tune_record *b = mlsi_tune_records_find(&back, 7, 3);
    REQUIRE(b && b->verdict == r.verdict && b->time == r.time && b->ns == r.ns);
    REQUIRE(!memcmp(&b->point, &r.point, sizeof r.point) && !strcmp(b->schedule, fast));
    b = mlsi_tune_records_find(&back, 0, 4);
    REQUIRE(b && b->verdict == MLSI_TUNE_REFUSED && !b->schedule[0]);
    mlsi_tune_records_free(&back);
    r.time = 5; /* measured again: what is later counts */
    OK(mlsi_tune_append(tc.pc.ctx, &key, &r));
    back = expect_records(2, 0);
    REQUIRE(mlsi_tune_records_find(&back, 7, 3)->time == 5);
    mlsi_tune_records_free(&back);
}
END_TEST

/* A single look was luck, two are not. */
START_TEST(settled_ones_come_first) {
    mlsi_tune_key key = tc_key(&tc, 16);
    mlsi_tune_record r = {.number = 2,
                          .verdict = MLSI_TUNE_SETTLED,
                          .time = 950000,
                          .schedule = (char *)(uintptr_t) "parallel(i_0);"};
    tc_record(&tc, 16, 1, 600000, fast);
    mlsi_tune_records back = expect_records(1, 0);
    REQUIRE(mlsi_tune_records_best(&back)->number == 1);
    mlsi_tune_records_free(&back);
    OK(mlsi_tune_append(tc.pc.ctx, &key, &r));
    back = expect_records(2, 0);
    REQUIRE(mlsi_tune_records_best(&back)->number == 2);
    mlsi_tune_records_free(&back);
    r.time = 995000; /* no more than noise: the default */
    OK(mlsi_tune_append(tc.pc.ctx, &key, &r));
    back = expect_records(2, 0);
    REQUIRE(!mlsi_tune_records_best(&back));
    mlsi_tune_records_free(&back);
}
END_TEST

START_TEST(a_torn_line_is_ignored_and_hurts_no_other) {
    char path[PATH];
    tc_record(&tc, 16, 1, 900000, fast);
    tc_path(&tc, 16, path);
    append_bytes(path, "0 2 timed 100000 1 0 | split(i_0, ");
    mlsi_tune_records r = expect_records(1, 1);
    mlsi_tune_records_free(&r);
    tc_record(&tc, 16, 3, 800000, fast); /* behind what was left of a line */
    r = expect_records(2, 1);
    REQUIRE(mlsi_tune_records_find(&r, 0, 3)->time == 800000);
    mlsi_tune_records_free(&r);
    char *log = tc_log(&tc);
    ck_assert_msg(strstr(log, "1 lines ignored: torn") != NULL, "%s", log);
    free(log);
}
END_TEST

START_TEST(lines_of_other_keys_are_ignored) {
    char path[PATH], other[PATH];
    tc_record(&tc, 16, 1, 900000, fast);
    tc_record(&tc, 32, 2, 100000, fast);
    tc_path(&tc, 16, path);
    tc_path(&tc, 32, other);
    char *text = text_of(other), *mine = text_of(path), *line = strrchr(text, '#');
    line = strchr(line, '\n') + 1;
    append_bytes(path, line);
    char *copy = strrchr(mine, '#'); /* one digit of the time is another one */
    copy = strchr(copy, '\n') + 1;
    *strchr(copy, '9') = '1';
    append_bytes(path, copy);
    mlsi_tune_records r = expect_records(1, 2);
    REQUIRE(mlsi_tune_records_find(&r, 0, 1)->time == 900000);
    mlsi_tune_records_free(&r);
    free(text);
    free(mine);
}
END_TEST

START_TEST(a_file_that_others_may_write_is_not_read) {
    char path[PATH];
    tc_record(&tc, 16, 1, 900000, fast);
    tc_path(&tc, 16, path);
    REQUIRE(chmod(path, 0666) == 0);
    mlsi_tune_records r = expect_records(0, 0);
    mlsi_tune_records_free(&r);
}
END_TEST

/* ---- replay ---------------------------------------------------------------------------------------------------- */

static bool codes_are_equal(const tune_case *a, const char *x, const tune_case *b, const char *y) {
    char *one = tc_code(a, x), *two = tc_code(b, y);
    bool equal = !strcmp(one, two);
    free(one);
    free(two);
    return equal;
}

START_TEST(replay_applies_the_record) {
    tune_case other;
    kc_rng rng = kc_seed(5);
    mlsys_tensor x = pc_random(&tc.pc, &rng, MLSYS_F32, 2, (int64_t[]){7, 96});
    REQUIRE(codes_are_equal(&tc, "fuse=always", &tc, "fuse=always tune=replay"));
    tc_record(&tc, 16, 1, 700000, fast);
    REQUIRE(!codes_are_equal(&tc, "fuse=always", &tc, "fuse=always tune=replay"));
    REQUIRE(codes_are_equal(&tc, "fuse=always tune=replay", &tc, "fuse=always tune=replay"));
    pc_compare(&tc.pc, tc.graph, "fuse=always tune=replay", 1, &x, 1);
    tc_open(&other, 1); /* another context reads the same */
    REQUIRE(codes_are_equal(&tc, "fuse=always tune=replay", &other, "fuse=always tune=replay"));
    tc_close(&other);
    tc_open(&other, 2); /* a machine with more threads does not */
    REQUIRE(codes_are_equal(&tc, "fuse=always", &other, "fuse=always tune=replay"));
    tc_close(&other);
    pc_release(1, &x);
}
END_TEST

START_TEST(of_several_sizes_the_largest_decides) {
    static const char wide[] = "parallel(i_0); vectorize(j_3);";
    tc_record(&tc, 16, 1, 300000, fast);
    char *small = tc_code(&tc, "fuse=always tune=replay");
    tc_record(&tc, 32, 1, 900000, wide);
    char *large = tc_code(&tc, "fuse=always tune=replay");
    REQUIRE(strcmp(small, large));
    tc_record(&tc, 2, 1, 100000, fast);
    char *still = tc_code(&tc, "fuse=always tune=replay");
    REQUIRE(!strcmp(large, still));
    tc_record(&tc, 32, 1, 1200000, wide); /* on a second look it was slower than the default */
    REQUIRE(codes_are_equal(&tc, "fuse=always", &tc, "fuse=always tune=replay"));
    free(small);
    free(large);
    free(still);
}
END_TEST

START_TEST(a_record_that_does_not_apply_is_ignored) {
    tc_record(&tc, 16, 1, 700000, "split(gone, 4) -> a, b;");
    REQUIRE(codes_are_equal(&tc, "fuse=always", &tc, "fuse=always tune=replay"));
    char *log = tc_log(&tc);
    ck_assert_msg(strstr(log, "the recorded schedule is ignored") && strstr(log, "gone"), "%s",
                  log);
    free(log);
}
END_TEST

/* ---- the search ---------------------------------------------------------------------------------------------------- */

static void same_draws(const mlsi_tune_records *a, const mlsi_tune_records *b, int64_t upto) {
    for (int64_t n = 0; n <= upto; n++) {
        mlsi_tune_record *x = mlsi_tune_records_find(a, 3, n), *y = mlsi_tune_records_find(b, 3, n);
        REQUIRE(!x == !y);
        if (x) REQUIRE(!memcmp(&x->point, &y->point, sizeof x->point));
        if (x) REQUIRE(!strcmp(x->schedule, y->schedule));
    }
}

START_TEST(it_searches_resumes_and_replays) {
    mlsys_tune_report r = tc_tune(&tc, 6, 3);
    printf("%lld measured, %lld refused, best %.3f of the default\n", (long long)r.measured,
           (long long)r.refused, r.best_ns / r.default_ns);
    REQUIRE(r.kernels == 1 && r.measured > 0 && !r.resumed && !r.different && !r.stopped);
    REQUIRE(r.default_ns > 0 && r.best_ns <= r.default_ns);
    mlsi_tune_records before = tc_read(&tc, 16);
    REQUIRE(before.n >= 6 && !before.ignored);
    r = tc_tune(&tc, 6, 3); /* nothing is left to try */
    REQUIRE(r.measured == 0 && r.resumed == before.n - 1);
    r = tc_tune(&tc, 9, 3);
    REQUIRE(r.measured <= 3 && r.resumed == before.n - 1);
    mlsi_tune_records after = tc_read(&tc, 16);
    same_draws(&before, &after, 6);
    char *once = tc_code(&tc, "fuse=always tune=replay"),
         *again = tc_code(&tc, "fuse=always tune=replay");
    REQUIRE(!strcmp(once, again));
    mlsi_tune_records_free(&before);
    tc_cache_remove();
    tc_cache(); /* without what was learned the same draws again */
    (void)tc_tune(&tc, 9, 3);
    before = tc_read(&tc, 16);
    same_draws(&before, &after, 9);
    mlsi_tune_records_free(&before);
    mlsi_tune_records_free(&after);
    free(once);
    free(again);
}
END_TEST

static int count_lines(const char *path) {
    FILE *f = fopen(path, "r");
    int n = 0, c;
    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f) fclose(f);
    return n;
}

/* A child that is killed in the middle: what it wrote is whole, and its numbers are not tried again. */
START_TEST(a_killed_search_resumes) {
    enum { HEAD = 4, SOME = 5 };
    char path[PATH];
    tc_path(&tc, 16, path);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (!child) { /* the parent's context is not the child's */
        tune_case own;
        tc_open(&own, 1);
        (void)tc_tune(&own, 100000, 0);
        _exit(0);
    }
    for (int i = 0; i < 6000 && count_lines(path) < HEAD + SOME; i++)
        (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
    REQUIRE(kill(child, SIGKILL) == 0);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    mlsi_tune_records r = tc_read(&tc, 16);
    REQUIRE(r.n >= SOME && r.ignored <= 1);
    int64_t known = 0;
    for (int64_t n = 1; n <= 12; n++)
        known += mlsi_tune_records_find(&r, 0, n) != NULL;
    mlsi_tune_records_free(&r);
    mlsys_tune_report report = tc_tune(&tc, 12, 0);
    printf("%lld of 12 numbers known\n", (long long)known);
    ck_assert_int_eq(report.resumed, known);
    REQUIRE(report.measured + report.refused <= 12 - known);
}
END_TEST

/* ---- what is never chosen ------------------------------------------------------------------------------------------------ */

static int64_t wrong_kernel(mlsi_gen_args *a) {
    memset(a->data[1], 0, 4);
    return 0;
}

/* The backend of a compiler with a defect: fast code with other bits, for all but the default. */
static mlsi_gen_fn wrong_function(const mlsi_module *m, const char *name) {
    return strcmp(name, "mlsi_t0") ? wrong_kernel : mlsi_cpu_backend.function(m, name);
}

START_TEST(other_bits_are_never_chosen) {
    mlsi_backend wrong = mlsi_cpu_backend;
    const mlsi_backend *right = tc.program->backend;
    wrong.function = wrong_function;
    tc.program->backend = &wrong;
    mlsys_tune_report r = tc_tune(&tc, 4, 0);
    tc.program->backend = right;
    REQUIRE(r.different > 0 && r.measured == 0 && r.improved == 0);
    REQUIRE(codes_are_equal(&tc, "fuse=always", &tc, "fuse=always tune=replay"));
    mlsi_tune_records records = tc_read(&tc, 16);
    for (int64_t i = 0; i < records.n; i++) /* the same C as the default's is as fast */
        REQUIRE(!mlsi_tune_has_time(&records.list[i]) || records.list[i].time == MLSI_TUNE_UNIT);
    mlsi_tune_records_free(&records);
    char *log = tc_log(&tc);
    REQUIRE(strstr(log, "other bits"));
    free(log);
}
END_TEST

/* Nests that no schedule makes: tasks that write each other's element, a row that is left out. */
START_TEST(what_is_not_proved_is_refused) {
    mlsi_tune_bench b;
    mlsi_nest n;
    OK(mlsi_tune_bench_open(tc.program, tc_func(&tc), (int64_t[]){16}, 0, &b));
    REQUIRE(b.certified && b.proofs == MLSI_PROVE_ALL);
    for (int fault = 0; fault < 3; fault++) {
        OK(mlsi_nest_copy(&b.nest, &n));
        for (int64_t i = 0; i < n.n_stmts; i++) {
            mlsi_ls *s = &n.stmts[i];
            bool output = s->kind == MLSI_LS_STORE && n.buffers[s->ref].param >= 0;
            if (fault == 1 && output) s->index[0] = 0;
            if (fault == 2 && s->kind == MLSI_LS_FOR && n.vars[s->var].extent != 96)
                n.vars[s->var].extent = 1;
            if (fault && s->kind == MLSI_LS_FOR && n.vars[s->var].extent != 96)
                s->loop = MLSI_LOOP_PARALLEL;
        }
        mlsys_status st = mlsi_tune_prove(&b, &n);
        ck_assert_msg((st == MLSYS_OK) == !fault, "fault %d: %s", fault, mlsys_last_error());
        mlsi_nest_free(&n);
    }
    mlsi_tune_bench_close(&b);
}
END_TEST

/* ---- time, threads, callers ------------------------------------------------------------------------------------------------ */

START_TEST(the_budget_is_kept) {
    mlsys_tune_report r = {.size = sizeof r};
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "budget_ms", 2000));
    OK(mlsys_config_set_i64(c, "candidates", 1000));
    time_t start = time(NULL);
    OK(mlsys_program_tune(tc.handle, 0, NULL, NULL, c, NULL, NULL, &r));
    printf("budget 2000 ms, took %lld, %lld measured\n", (long long)r.elapsed_ms,
           (long long)r.measured);
    REQUIRE(r.elapsed_ms < 20000 && time(NULL) - start < 21);
    REQUIRE(r.measured < 900);
    OK(mlsys_release(c));
}
END_TEST

static int32_t stop_at_once(void *user, const mlsys_tune_progress *at) {
    int *calls = user;
    REQUIRE(at->size == sizeof *at && at->kernels == 1 && at->index == 0 && at->number > 0);
    REQUIRE(!strncmp(at->kernel, "fused", 5) && at->best <= 1 && at->candidates == 256);
    return ++*calls == 1;
}

START_TEST(progress_stops_it) {
    mlsys_tune_report r = {.size = sizeof r};
    int calls = 0;
    OK(mlsys_program_tune(tc.handle, 0, NULL, NULL, NULL, stop_at_once, &calls, &r));
    REQUIRE(r.stopped == 1 && r.measured <= 16 && calls >= 1);
}
END_TEST

static void *tune_beside(void *user) {
    mlsys_tune_report *r = user;
    *r = tc_tune(&tc, 5, (uint64_t)(r->size - sizeof *r));
    return NULL;
}

START_TEST(several_threads_at_once) {
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    mlsys_tune_report r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        r[i].size = sizeof r[i] + (uint64_t)(i / 2); /* two of them with the same seed */
        REQUIRE(!pthread_create(&thread[i], NULL, tune_beside, &r[i]));
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_join(thread[i], NULL));
    for (int i = 0; i < THREADS; i++)
        REQUIRE(r[i].kernels == 1 && !r[i].different);
    mlsi_tune_records records = tc_read(&tc, 16);
    REQUIRE(!records.ignored && records.n > 5);
    mlsi_tune_records_free(&records);
}
END_TEST

START_TEST(wrong_calls_are_errors) {
    static const char *const names[] = {"C"};
    mlsys_config c;
    pc_expect(mlsys_program_tune(tc.handle, 1, names, (int64_t[]){4}, NULL, NULL, NULL, NULL),
              MLSYS_E_NOTFOUND, "no symbol \"C\"");
    pc_expect(mlsys_program_tune(tc.handle, 1, (const char *const[]){"B"}, (int64_t[]){65}, NULL,
                                 NULL, NULL, NULL),
              MLSYS_E_SHAPE, "outside [1, 64]");
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "budget", 1));
    pc_expect(mlsys_program_tune(tc.handle, 0, NULL, NULL, c, NULL, NULL, NULL), MLSYS_E_NOTFOUND,
              "budget");
    OK(mlsys_release(c));
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "tune", "search"));
    mlsys_program p;
    pc_expect(mlsys_graph_compile(tc.graph, tc.pc.device_handle, c, &p), MLSYS_E_ARG,
              "tune \"search\" is not off or replay");
    OK(mlsys_release(c));
    REQUIRE(!setenv("MLSYS_CACHE", "/proc/none", 1)); /* nowhere to write to */
    pc_expect(mlsys_program_tune(tc.handle, 0, NULL, NULL, NULL, NULL, NULL, NULL), MLSYS_E_IO,
              "no folder");
}
END_TEST

int main(void) {
    Suite *s = suite_create("tune");
    TCase *c = tcase_create("tune");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 180);
    tcase_add_test(c, records_read_back);
    tcase_add_test(c, settled_ones_come_first);
    tcase_add_test(c, a_torn_line_is_ignored_and_hurts_no_other);
    tcase_add_test(c, lines_of_other_keys_are_ignored);
    tcase_add_test(c, a_file_that_others_may_write_is_not_read);
    tcase_add_test(c, replay_applies_the_record);
    tcase_add_test(c, of_several_sizes_the_largest_decides);
    tcase_add_test(c, a_record_that_does_not_apply_is_ignored);
    tcase_add_test(c, it_searches_resumes_and_replays);
    tcase_add_test(c, a_killed_search_resumes);
    tcase_add_test(c, other_bits_are_never_chosen);
    tcase_add_test(c, what_is_not_proved_is_refused);
    tcase_add_test(c, the_budget_is_kept);
    tcase_add_test(c, progress_stops_it);
    tcase_add_test(c, several_threads_at_once);
    tcase_add_test(c, wrong_calls_are_errors);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
