/* Is the measuring itself sound? The same subject against itself (A/A: what differs is noise), a
 * subject with a fifth more work (the difference must be seen), and wrong subjects (no time may
 * come out). */
#include "support/one_op.h"

#include <math.h>
#include <stdio.h>

#define PRODUCT(text, m)                                                                           \
    {                                                                                              \
        .name = text, .op = "matmul", .out_row = 1, .out_column = 2, .rows = 3, .columns = 17,     \
        .in = {                                                                                    \
            {MLSYS_F32, 2, {m, 256}, .row = 1},                                                    \
            {MLSYS_F32, 2, {256, 256}, .column = 2, .constant = true}                              \
        }                                                                                          \
    }

static const one_op_case base = PRODUCT("matmul 240x256x256", 240),
                         more = PRODUCT("matmul 288x256x256", 288);

static bench_sampling sampling(const bench_program *p) {
    return (bench_sampling){.warmup = 3,
                            .samples = p->samples ? (int)p->samples
                                       : p->quick ? 15
                                                  : 41,
                            .sample_seconds = p->quick ? 0.01 : 0.03};
}

static void add_result(bench_program *p, const one_op *o, const bench_subject *s,
                       const bench_result *r) {
    bench_record record = {NULL, 0, 0};
    char shapes[BENCH_TEXT];
    one_op_shapes(o->what, shapes, sizeof shapes);
    bench_set_result(&record, s, r, (uint64_t)p->seed);
    bench_set_text(&record, "shape", shapes);
    bench_set_text(&record, "dtype", "f32");
    bench_set_text(&record, "numerics", o->numerics);
    if (o->plant) bench_set_flag(&record, "planted", true);
    bench_report_add(&p->report, BENCH_RECORD_RESULT, &record);
}

static void compare(bench_program *p, const char *name, const one_op_case *first,
                    const one_op_case *second, int threads, double expected) {
    static bench_pair pair;
    bench_record record = {NULL, 0, 0};
    one_op a = {.portable_limit = 1e9, .plant = p->plant}, b = a;
    bench_sampling how = sampling(p);
    one_op_open(&a, first, threads, "exact", (uint64_t)p->seed);
    one_op_open(&b, second, threads, "exact", (uint64_t)p->seed);
    bench_subject sa = one_op_subject(&a, BENCH_CALL, BENCH_WARM, threads, first->name);
    bench_subject sb = one_op_subject(&b, BENCH_CALL, BENCH_WARM, threads, second->name);
    bool ok = bench_measure_pair(&sa, &sb, &how, (uint64_t)p->seed, &pair);
    add_result(p, &a, &sa, &pair.a);
    add_result(p, &b, &sb, &pair.b);
    bench_set_pair(&record, name, "A", "B", "the same library", threads, &pair);
    bench_report_add(&p->report, BENCH_RECORD_COMPARISON, &record);
    printf("%-22s %d thread%s ", name, threads, threads > 1 ? "s" : " ");
    if (ok)
        printf("B / A %.3f, 95 %% interval [%.3f, %.3f], middle half [%.3f, %.3f]; expected %.2f\n",
               pair.ratio.median, pair.ratio.low, pair.ratio.high, pair.ratio.q1, pair.ratio.q3,
               expected);
    else
        printf("WRONG, no time: %s\n", pair.a.verdict.finding);
    p->wrong += !ok;
    one_op_close(&a);
    one_op_close(&b);
}

/* A result that is off by one bit must not get a time; otherwise the harness is broken. */
static void expect_refusal(bench_program *p) {
    static bench_result r;
    one_op o = {.portable_limit = 1e9, .plant = true};
    bench_sampling how = sampling(p);
    one_op_open(&o, &base, 1, "exact", (uint64_t)p->seed);
    bench_subject s = one_op_subject(&o, BENCH_CALL, BENCH_WARM, 1, "matmul with one wrong bit");
    bool timed = bench_measure(&s, &how, &r);
    bench_summary t = bench_result_summary(&r, 1);
    bool refused = !timed && r.n == 0 && isnan(t.median) && r.verdict.judgement == BENCH_FAIL;
    printf("%-22s %s: %s\n", "one planted wrong bit", refused ? "no time" : "WAS TIMED",
           r.verdict.finding);
    add_result(p, &o, &s, &r);
    p->wrong += !refused;
    one_op_close(&o);
}

int main(int argc, char **argv) {
    static bench_program p = {
        .name = "bench_harness",
        .summary = "The noise of a measurement, and whether the harness catches what it must."};
    const bench_option own[] = {{NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run = {NULL, 0, 0};
    int counts[2], status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    int n = bench_thread_counts(&p, counts);
    putchar('\n');
    for (int i = 0; i < n; i++) {
        compare(&p, "A/A", &base, &base, counts[i], 1);
        compare(&p, "a fifth more work", &base, &more, counts[i], 1.2);
    }
    expect_refusal(&p);
    return bench_end(&p, &run);
}
