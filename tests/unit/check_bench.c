/* The bench harness: no number without a passed verdict, no report with a gap, statistics as
 * defined. */
#include "support/report.h"
#include "support/roofline.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a subject whose faults can be chosen ------------------------------------------------------
 */

typedef struct fake {
    int calls, befores, fail_at, change_at; /* 0 = never */
    int value, expected;
    bool silent; /* gives no verdict */
    char *order; /* where calls are written down */
    char letter;
} fake;

static bool fake_call(void *user) {
    fake *f = user;
    f->calls++;
    if (f->order) strncat(f->order, &f->letter, 1);
    if (f->change_at && f->calls >= f->change_at) f->value++;
    return f->calls != f->fail_at;
}

static void fake_before(void *user) { ((fake *)user)->befores++; }
static uint64_t fake_digest(void *user) {
    return bench_digest(&((fake *)user)->value, sizeof(int));
}

static void fake_check(void *user, bench_verdict *v) {
    const fake *f = user;
    if (!f->silent) bench_judge(v, f->value == f->expected, "equality", "value %d", f->value);
}

static bench_subject subject_of(fake *f) {
    return (bench_subject){.name = "fake",
                           .boundary = BENCH_CALL,
                           .cache = BENCH_WARM,
                           .threads = 1,
                           .user = f,
                           .call = fake_call,
                           .digest = fake_digest,
                           .check = fake_check};
}

static const bench_sampling ten = {.warmup = 2, .samples = 10, .sample_seconds = 1e-5};

static void expect_no_numbers(const bench_subject *s, const bench_result *r) {
    bench_summary t = bench_result_summary(r, 1);
    bench_record record = {NULL, 0, 0};
    ck_assert_int_eq(r->n, 0);
    ck_assert_int_ne(r->verdict.judgement, BENCH_PASS);
    ck_assert(isnan(t.median) && isnan(t.p95) && isnan(t.min) && isnan(t.max));
    for (int i = 0; i < BENCH_MAX_SAMPLES; i++)
        ck_assert(isnan(r->seconds[i]));
    bench_set_result(&record, s, r, 1);
    for (int i = 0; i < record.n; i++) {
        ck_assert_str_ne(record.fields[i].key, "median");
        ck_assert_str_ne(record.fields[i].key, "raw_seconds");
    }
    bench_record_free(&record);
}

START_TEST(a_right_subject_is_timed) {
    static bench_result r;
    fake f = {.value = 3, .expected = 3};
    bench_subject s = subject_of(&f);
    ck_assert(bench_measure(&s, &ten, &r));
    ck_assert_int_eq(r.n, 10);
    ck_assert(r.repeats > 1); /* the call is far shorter than a sample */
    ck_assert(bench_result_summary(&r, 1).median > 0);
}
END_TEST

START_TEST(a_wrong_subject_gives_no_time) {
    static bench_result r;
    fake f = {.value = 4, .expected = 3};
    bench_subject s = subject_of(&f);
    ck_assert(!bench_measure(&s, &ten, &r));
    ck_assert_int_eq(f.calls, 1); /* it was not even run again */
    ck_assert_str_eq(r.verdict.finding, "value 4");
    ck_assert(!bench_sample(&s, &r));
    ck_assert(!bench_finish(&s, &r));
    expect_no_numbers(&s, &r);
}
END_TEST

START_TEST(a_subject_without_a_verdict_gives_no_time) {
    static bench_result r;
    fake f = {.silent = true};
    bench_subject s = subject_of(&f);
    ck_assert(!bench_measure(&s, &ten, &r));
    expect_no_numbers(&s, &r);
    ck_assert_str_eq(r.verdict.finding, "the subject gave no verdict");
}
END_TEST

START_TEST(samples_without_a_verdict_are_not_read) {
    static bench_result r;
    fake f = {0};
    bench_subject s = subject_of(&f);
    ck_assert(bench_measure(&s, &ten, &r));
    bench_judge(&r.verdict, false, "later", "found wrong");
    ck_assert(isnan(bench_result_summary(&r, 1).median));
}
END_TEST

START_TEST(a_failing_call_gives_no_time) {
    static bench_result r;
    for (int at = 1; at < 12; at++) { /* judged, warm-up, sampled */
        fake f = {.fail_at = at};
        bench_subject s = subject_of(&f);
        s.before = fake_before;
        ck_assert(!bench_measure(&s, &ten, &r));
        expect_no_numbers(&s, &r);
    }
}
END_TEST

START_TEST(an_output_that_changes_while_timed_gives_no_time) {
    static bench_result r;
    fake f = {.change_at = 9};
    bench_subject s = subject_of(&f);
    ck_assert(!bench_measure(&s, &ten, &r));
    expect_no_numbers(&s, &r);
    ck_assert_ptr_nonnull(strstr(r.verdict.finding, "after timing"));
}
END_TEST

START_TEST(preparation_runs_before_each_call) {
    static bench_result r;
    fake f = {0};
    bench_subject s = subject_of(&f);
    s.before = fake_before;
    ck_assert(bench_measure(&s, &ten, &r));
    ck_assert_int_eq(f.befores, f.calls);
}
END_TEST

START_TEST(cold_samples_are_single_calls) {
    static bench_result r;
    fake f = {0};
    bench_subject s = subject_of(&f);
    s.cache = BENCH_COLD;
    bench_sampling two = {.warmup = 1, .samples = 2, .sample_seconds = 1};
    ck_assert(bench_measure(&s, &two, &r));
    ck_assert_int_eq(r.repeats, 1);
    ck_assert_int_eq(f.calls, 4);
}
END_TEST

START_TEST(pairs_alternate_and_swap) {
    static bench_pair pair;
    char order[64] = "";
    fake a = {.order = order, .letter = 'a'}, b = {.order = order, .letter = 'b'};
    bench_subject sa = subject_of(&a), sb = subject_of(&b);
    bench_sampling four = {.warmup = 0, .samples = 4, .sample_seconds = 0};
    ck_assert(bench_measure_pair(&sa, &sb, &four, 1, &pair));
    ck_assert_str_eq(order, "ab"
                            "abbaabba");
    ck_assert_int_eq(pair.ratio.n, 4);
    ck_assert(fabs(pair.b.seconds[2] / pair.a.seconds[2] -
                   bench_ratio(pair.b.seconds + 2, pair.a.seconds + 2, 1, 1).median) < 1e-12);
}
END_TEST

START_TEST(one_wrong_half_spoils_the_pair) {
    static bench_pair pair;
    fake a = {0}, b = {.value = 1};
    bench_subject sa = subject_of(&a), sb = subject_of(&b);
    ck_assert(!bench_measure_pair(&sa, &sb, &ten, 1, &pair));
    ck_assert(isnan(pair.ratio.median));
    ck_assert_int_eq(pair.a.n, 0);
}
END_TEST

/* ---- statistics --------------------------------------------------------------------------------
 */

START_TEST(summaries_are_order_statistics) {
    const double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2};
    bench_summary s = bench_summarise(odd, 5, 7);
    ck_assert(s.median == 3 && s.min == 1 && s.max == 5 && s.q1 == 2 && s.q3 == 4 && s.p95 == 5);
    ck_assert(s.low >= 1 && s.low <= s.median && s.high >= s.median && s.high <= 5);
    ck_assert(fabs(bench_spread(&s) - 2.0 / 3) < 1e-12);
    s = bench_summarise(even, 4, 7);
    ck_assert(s.median == 2.5 && s.q1 == 1.75 && s.q3 == 3.25);
    ck_assert(isnan(bench_summarise(odd, 0, 7).median));
}
END_TEST

START_TEST(p95_is_the_nearest_rank) {
    double x[100];
    for (int i = 0; i < 100; i++)
        x[i] = 100 - i;
    ck_assert(bench_summarise(x, 100, 1).p95 == 95);
    ck_assert(bench_summarise(x + 80, 20, 1).p95 == 19); /* 20 .. 1 */
}
END_TEST

START_TEST(intervals_are_reproducible_and_narrow_for_equal_samples) {
    double x[16];
    for (int i = 0; i < 16; i++)
        x[i] = i % 2 ? 1.0 : 1.1;
    bench_summary a = bench_summarise(x, 16, 5), b = bench_summarise(x, 16, 5);
    ck_assert(a.low == b.low && a.high == b.high);
    for (int i = 0; i < 16; i++)
        x[i] = 2;
    a = bench_summarise(x, 16, 5);
    ck_assert(a.low == 2 && a.high == 2);
}
END_TEST

/* ---- reports -----------------------------------------------------------------------------------
 */

/* What docs/bench.md says a record has; # marks a number, = a list. The last part needs the verdict
 * "pass". */
static const char *const fields_of[][2] = {
    [BENCH_RECORD_RUN] = {"program library build_info compiler commit date #seed time arguments "
                          "#load_before #load_after "
                          "#drift_fma #drift_read #peak_memory",
                          ""},
    [BENCH_RECORD_MACHINE] =
        {"cpu flags #processors #processors_usable mhz governor hypervisor #l1d_bytes #l2_bytes "
         "#l3_bytes #memory_bytes huge_pages kernel clock",
         ""},
    [BENCH_RECORD_LIMIT] =
        {"name unit #threads #best #samples #median #p95 #min #max #q1 #q3 #low #high", ""},
    [BENCH_RECORD_RESULT] =
        {"name boundary cache #threads verdict oracle finding shape dtype numerics",
         "digest #repeats =raw_seconds #samples #median #p95 #min #max #q1 #q3 #low #high "
         "#cpu_share"},
    [BENCH_RECORD_COMPARISON] =
        {"name ours peer #threads verdict ratio_of method peer_settings",
         "=raw_ours =raw_peer #median_ours #median_peer #samples #median #p95 #min #max #q1 #q3 "
         "#low #high"},
};

static void set_fields(bench_record *r, const char *list, const char *leave_out) {
    char text[512], *rest = NULL;
    const double values[] = {1.5, 2.5};
    snprintf(text, sizeof text, "%s", list);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const char *key = word + (*word == '#' || *word == '=');
        if (leave_out && !strcmp(key, leave_out)) continue;
        if (*word == '#')
            bench_set_number(r, key, 2);
        else if (*word == '=')
            bench_set_numbers(r, key, values, 2);
        else
            bench_set_text(r, key, strcmp(key, "verdict") ? "text" : "pass");
    }
}

static bench_record complete(bench_record_kind kind, const char *leave_out) {
    bench_record r = {NULL, 0, 0};
    set_fields(&r, fields_of[kind][0], leave_out);
    set_fields(&r, fields_of[kind][1], leave_out);
    return r;
}

START_TEST(every_missing_field_is_refused) {
    bench_record_kind kind = (bench_record_kind)_i;
    bench_record all = complete(kind, NULL);
    ck_assert_msg(!bench_record_fault(&all, kind), "%s", bench_record_fault(&all, kind));
    for (int i = 0; i < all.n; i++) {
        char quoted[64];
        bench_report report = {0};
        bench_record r = complete(kind, all.fields[i].key);
        const char *fault = bench_record_fault(&r, kind);
        /* Without a verdict the samples are what is wrong. */
        snprintf(quoted, sizeof quoted, "\"%s\"", all.fields[i].key);
        ck_assert_msg(fault && strstr(fault, quoted), "%s left out: %s", quoted,
                      fault ? fault : "accepted");
        ck_assert(!bench_report_add(&report, kind, &r));
        ck_assert_int_eq(report.refused, 1);
        bench_report_free(&report);
    }
    bench_record_free(&all);
}
END_TEST

START_TEST(an_unknown_field_is_refused) {
    bench_record r = complete((bench_record_kind)_i, NULL);
    bench_set_number(&r, "mdeian", 1);
    const char *fault = bench_record_fault(&r, (bench_record_kind)_i);
    ck_assert_ptr_nonnull(fault);
    ck_assert_ptr_nonnull(strstr(fault, "unknown"));
    bench_record_free(&r);
}
END_TEST

START_TEST(a_time_needs_a_passed_verdict) {
    bench_record r = complete(BENCH_RECORD_RESULT, NULL);
    bench_set_text(&r, "verdict", "fail");
    const char *fault = bench_record_fault(&r, BENCH_RECORD_RESULT);
    ck_assert_ptr_nonnull(fault);
    ck_assert_ptr_nonnull(strstr(fault, "needs the verdict"));
    bench_record_free(&r);
    set_fields(&r, fields_of[BENCH_RECORD_RESULT][0], NULL);
    bench_set_text(&r, "verdict", "fail");
    ck_assert_ptr_null(
        bench_record_fault(&r, BENCH_RECORD_RESULT)); /* a failure is worth reporting */
    bench_set_number(&r, "tokens_s", 100);
    ck_assert_ptr_nonnull(bench_record_fault(&r, BENCH_RECORD_RESULT));
    bench_record_free(&r);
}
END_TEST

START_TEST(what_is_no_value_counts_as_missing) {
    const double holes[] = {1, NAN};
    bench_record r = {NULL, 0, 0};
    bench_set_number(&r, "median", NAN);
    bench_set_number(&r, "median", INFINITY);
    bench_set_text(&r, "cpu", "");
    bench_set_text(&r, "cpu", NULL);
    bench_set_numbers(&r, "raw_seconds", holes, 2);
    bench_set_numbers(&r, "raw_seconds", holes, 0);
    ck_assert_int_eq(r.n, 0);
    bench_record_free(&r);
}
END_TEST

static void temporary(char *path, size_t cap) {
    snprintf(path, cap, "/tmp/check_bench.%ld", (long)getpid());
    remove(path);
}

static char *contents(const char *path) {
    static char text[20000];
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

START_TEST(a_report_is_whole_or_not_written) {
    static const bench_record_kind kinds[] = {BENCH_RECORD_RUN, BENCH_RECORD_MACHINE,
                                              BENCH_RECORD_LIMIT, BENCH_RECORD_RESULT};
    char path[64];
    temporary(path, sizeof path);
    for (int without = 0; without <= 4; without++) { /* 4: nothing */
        bench_report report = {0};
        for (int k = 0; k < 4; k++) {
            bench_record r = complete(kinds[k], NULL);
            if (k != without) ck_assert(bench_report_add(&report, kinds[k], &r));
            bench_record_free(&r);
        }
        ck_assert(bench_report_write(&report, path) == (without == 4));
        ck_assert((access(path, F_OK) == 0) == (without == 4));
        bench_report_free(&report);
    }
    const char *text = contents(path);
    ck_assert_ptr_nonnull(strstr(text, "\"raw_seconds\": [1.5,2.5]"));
    remove(path);
}
END_TEST

START_TEST(one_refused_record_spoils_the_report) {
    char path[64];
    temporary(path, sizeof path);
    bench_report report = {0};
    for (int k = BENCH_RECORD_RUN; k <= BENCH_RECORD_COMPARISON; k++) {
        bench_record r =
            complete((bench_record_kind)k, k == BENCH_RECORD_COMPARISON ? "method" : NULL);
        ck_assert(bench_report_add(&report, (bench_record_kind)k, &r) ==
                  (k != BENCH_RECORD_COMPARISON));
    }
    ck_assert(!bench_report_write(&report, path));
    ck_assert_int_ne(access(path, F_OK), 0);
    bench_report_free(&report);
}
END_TEST

START_TEST(text_is_quoted) {
    bench_record r = {NULL, 0, 0};
    bench_set_text(&r, "cpu", "a \"b\" \\ c\td\n");
    ck_assert_str_eq(r.fields[0].json, "\"a \\\"b\\\" \\\\ c\\u0009d\\u000a\"");
    bench_set_number(&r, "seed", 123456789012.0);
    bench_set_number(&r, "best", 0.1);
    ck_assert_str_eq(r.fields[1].json, "123456789012");
    ck_assert_str_eq(r.fields[2].json, "0.1");
    bench_set_number(&r, "best", 2); /* replaced */
    ck_assert_int_eq(r.n, 3);
    ck_assert_str_eq(r.fields[2].json, "2");
    bench_record_free(&r);
}
END_TEST

/* ---- machine and picture -----------------------------------------------------------------------
 */

START_TEST(this_machine_gives_all_its_facts) {
    bench_record r = {NULL, 0, 0};
    bench_machine_facts(&r);
    ck_assert_msg(!bench_record_fault(&r, BENCH_RECORD_MACHINE), "%s",
                  bench_record_fault(&r, BENCH_RECORD_MACHINE));
    bench_record_free(&r);
}
END_TEST

static bench_limit limit(bench_limit_kind kind, const char *what, uint64_t bytes, double rate) {
    return (bench_limit){kind, what, 1, bytes, {.n = 1, .max = rate, .median = rate}};
}

static bench_limits made_up(void) {
    bench_limits l = {.n = 4};
    l.row[0] = limit(BENCH_LIMIT_FMA, "portable", 0, 40e9);
    l.row[1] = limit(BENCH_LIMIT_FMA, "avx2", 0, 100e9);
    l.row[2] = limit(BENCH_LIMIT_READ, "L2", 256 << 10, 90e9);
    l.row[3] = limit(BENCH_LIMIT_READ, "memory", 256 << 20, 20e9);
    return l;
}

START_TEST(limits_are_found_by_isa_and_level) {
    bench_limits l = made_up();
    ck_assert(bench_peak_flops(&l, NULL, 1) == 100e9 &&
              bench_peak_flops(&l, "portable", 1) == 40e9);
    ck_assert(isnan(bench_peak_flops(&l, "avx512", 1)) && isnan(bench_peak_flops(&l, NULL, 2)));
    ck_assert(bench_bandwidth(&l, BENCH_LIMIT_READ, 1, 512 << 10) == 90e9);
    ck_assert(bench_bandwidth(&l, BENCH_LIMIT_READ, 1, (512 << 10) + 1) == 20e9);
    ck_assert(bench_bandwidth(&l, BENCH_LIMIT_READ, 1, UINT64_MAX) == 20e9);
    ck_assert(isnan(bench_bandwidth(&l, BENCH_LIMIT_COPY, 1, 1)));
}
END_TEST

START_TEST(the_picture_shows_roofs_and_points) {
    static bench_roofline r;
    bench_limits l = made_up();
    char path[64];
    temporary(path, sizeof path);
    r = (bench_roofline){.title = "a < b", .limits = &l};
    bench_roofline_add(&r, "matmul", 50, 80e9, 1);
    bench_roofline_add(&r, "not a number", NAN, 1e9, 1);
    bench_roofline_add(&r, "no flops", 0, 1e9, 1);
    ck_assert_int_eq(r.n, 1);
    ck_assert(bench_roofline_write(&r, path));
    const char *svg = contents(path);
    ck_assert_ptr_nonnull(strstr(svg, "a &lt; b"));
    ck_assert_ptr_nonnull(strstr(svg, "<polyline"));
    ck_assert_ptr_nonnull(strstr(svg, "matmul: 80 GF/s"));
    ck_assert_ptr_nonnull(strstr(svg, "1 thread: 100 GF/s, memory 20.0 GB/s"));
    ck_assert_ptr_nonnull(strstr(svg, "</svg>"));
    remove(path);
}
END_TEST

int main(void) {
    Suite *s = suite_create("bench");
    TCase *measure = tcase_create("measure"), *report = tcase_create("report"),
          *rest = tcase_create("rest");
    tcase_add_test(measure, a_right_subject_is_timed);
    tcase_add_test(measure, a_wrong_subject_gives_no_time);
    tcase_add_test(measure, a_subject_without_a_verdict_gives_no_time);
    tcase_add_test(measure, samples_without_a_verdict_are_not_read);
    tcase_add_test(measure, a_failing_call_gives_no_time);
    tcase_add_test(measure, an_output_that_changes_while_timed_gives_no_time);
    tcase_add_test(measure, preparation_runs_before_each_call);
    tcase_add_test(measure, cold_samples_are_single_calls);
    tcase_add_test(measure, pairs_alternate_and_swap);
    tcase_add_test(measure, one_wrong_half_spoils_the_pair);
    tcase_add_loop_test(report, every_missing_field_is_refused, BENCH_RECORD_RUN,
                        BENCH_RECORD_COMPARISON + 1);
    tcase_add_loop_test(report, an_unknown_field_is_refused, BENCH_RECORD_RUN,
                        BENCH_RECORD_COMPARISON + 1);
    tcase_add_test(report, a_time_needs_a_passed_verdict);
    tcase_add_test(report, what_is_no_value_counts_as_missing);
    tcase_add_test(report, a_report_is_whole_or_not_written);
    tcase_add_test(report, one_refused_record_spoils_the_report);
    tcase_add_test(report, text_is_quoted);
    tcase_add_test(rest, summaries_are_order_statistics);
    tcase_add_test(rest, p95_is_the_nearest_rank);
    tcase_add_test(rest, intervals_are_reproducible_and_narrow_for_equal_samples);
    tcase_add_test(rest, this_machine_gives_all_its_facts);
    tcase_add_test(rest, limits_are_found_by_isa_and_level);
    tcase_add_test(rest, the_picture_shows_roofs_and_points);
    suite_add_tcase(s, measure);
    suite_add_tcase(s, report);
    suite_add_tcase(s, rest);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
