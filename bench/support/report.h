/* The JSON report. Each record has a kind; a kind has required and optional fields; a record that
 * lacks a required field, has an unknown one, or gives a time without a passed verdict is refused.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "support/harness.h"

typedef enum bench_record_kind {
    BENCH_RECORD_RUN = 1,   /* once a report: program, commit, date, ... */
    BENCH_RECORD_MACHINE,   /* once a report */
    BENCH_RECORD_LIMIT,     /* a measured limit of the hardware */
    BENCH_RECORD_RESULT,    /* a subject that was judged and, if right, timed */
    BENCH_RECORD_COMPARISON /* two subjects measured interleaved */
} bench_record_kind;

typedef struct bench_record {
    struct bench_field {
        char *key, *json;
    } * fields;
    int n, cap;
} bench_record;

/* Setting a field again replaces it. Empty text and numbers that are not finite set nothing: the
 * field stays missing. */
void bench_set_text(bench_record *r, const char *key, const char *value);
void bench_set_number(bench_record *r, const char *key, double value);
void bench_set_numbers(bench_record *r, const char *key, const double *values, int n);
void bench_set_flag(bench_record *r, const char *key, bool value);
void bench_record_free(bench_record *r);
/* NULL when complete, else a sentence (static, overwritten by the next call). */
const char *bench_record_fault(const bench_record *r, bench_record_kind kind);

/* Fields of a result: name, boundary, cache, threads, verdict, samples, median, p95, ... */
void bench_set_result(bench_record *r, const bench_subject *s, const bench_result *result,
                      uint64_t seed);
void bench_set_summary(bench_record *r, const bench_summary *s);

/* Fields of a comparison of two subjects that bench_measure_pair interleaved. */
void bench_set_pair(bench_record *r, const char *name, const char *ours, const char *peer,
                    const char *settings, int threads, const bench_pair *pair);

typedef struct bench_report {
    bench_record run, machine;
    char **entries[BENCH_RECORD_COMPARISON + 1]; /* JSON by kind */
    int n[BENCH_RECORD_COMPARISON + 1];
    int refused; /* records that were not taken */
} bench_report;

/* Takes the record's contents and empties it; false, with a line on standard error, when refused.
 */
bool bench_report_add(bench_report *report, bench_record_kind kind, bench_record *r);
/* The whole report, or nothing: false, with a line on standard error, when run or machine are
 * incomplete, there is no result, a record was refused, or the file cannot be written. */
bool bench_report_write(bench_report *report, const char *path);
void bench_report_free(bench_report *report);

#endif
