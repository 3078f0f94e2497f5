#include "support/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds -------------------------------------------------------------------------------------
 */

enum { MAX_FIELDS = 32 };

static const struct kind {
    const char *name;
    const char *required[MAX_FIELDS];
    const char *timed[MAX_FIELDS]; /* required with the verdict "pass", forbidden without it */
    const char *optional[MAX_FIELDS];
} kinds[] = {
    [BENCH_RECORD_RUN] = {"run",
                          {"program", "library", "build_info", "compiler", "commit", "date", "seed",
                           "time", "arguments", "load_before", "load_after", "drift_fma",
                           "drift_read", "peak_memory"},
                          {NULL},
                          {"model", "model_bytes", "note"}},
    [BENCH_RECORD_MACHINE] = {"machine",
                              {"cpu", "flags", "processors", "processors_usable", "mhz", "governor",
                               "hypervisor", "l1d_bytes", "l2_bytes", "l3_bytes", "memory_bytes",
                               "huge_pages", "kernel", "clock"},
                              {NULL},
                              {NULL}},
    [BENCH_RECORD_LIMIT] = {"limit",
                            {"name", "unit", "threads", "best", "samples", "median", "p95", "min",
                             "max", "q1", "q3", "low", "high"},
                            {NULL},
                            {"bytes_per_thread"}},
    [BENCH_RECORD_RESULT] = {"result",
                             {"name", "boundary", "cache", "threads", "verdict", "oracle",
                              "finding", "shape", "dtype", "numerics"},
                             {"digest", "repeats", "raw_seconds", "samples", "median", "p95", "min",
                              "max", "q1", "q3", "low", "high", "cpu_share"},
                             {"flops",           "bytes",           "transcendentals",
                              "intensity",       "gflops",          "gbytes_s",
                              "roof_seconds",    "roof_percent",    "roof",
                              "kernel",          "tokens",          "tokens_s",
                              "flops_per_token", "bytes_per_token", "bandwidth_percent",
                              "fma_percent",     "constant_bytes",  "scratch_bytes",
                              "cache_bytes",     "planted",         "kernels_before",
                              "kernels_after",   "bytes_before",    "bytes_after"}},
    [BENCH_RECORD_COMPARISON] = {"comparison",
                                 {"name", "ours", "peer", "threads", "verdict", "ratio_of",
                                  "method", "peer_settings"},
                                 {"raw_ours", "raw_peer", "median_ours", "median_peer", "samples",
                                  "median", "p95", "min", "max", "q1", "q3", "low", "high"},
                                 {"unit", "note"}},
};

static bool listed(const char *const *list, const char *key) {
    for (int i = 0; i < MAX_FIELDS && list[i]; i++)
        if (!strcmp(list[i], key)) return true;
    return false;
}

/* ---- records -----------------------------------------------------------------------------------
 */

static void *grow(void *p, size_t bytes) {
    void *q = realloc(p, bytes);
    if (!q) {
        fputs("bench: no memory for the report\n", stderr);
        exit(2);
    }
    return q;
}

static char *copy_text(const char *s) { return strcpy(grow(NULL, strlen(s) + 1), s); }

static struct bench_field *find(const bench_record *r, const char *key) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->fields[i].key, key)) return &r->fields[i];
    return NULL;
}

static void set_json(bench_record *r, const char *key, char *json) {
    struct bench_field *f = find(r, key);
    if (f) {
        free(f->json);
        f->json = json;
        return;
    }
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 32;
        r->fields = grow(r->fields, sizeof *r->fields * (size_t)r->cap);
    }
    r->fields[r->n++] = (struct bench_field){copy_text(key), json};
}

static char *quoted(const char *s) {
    char *out = grow(NULL, 6 * strlen(s) + 3), *at = out;
    *at++ = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') *at++ = '\\';
        if (c < 0x20)
            at += sprintf(at, "\\u%04x", c);
        else
            *at++ = (char)c;
    }
    *at++ = '"';
    *at = 0;
    return out;
}

void bench_set_text(bench_record *r, const char *key, const char *value) {
    if (value && *value) set_json(r, key, quoted(value));
}

void bench_set_number(bench_record *r, const char *key, double value) {
    char text[32];
    if (!isfinite(value)) return;
    snprintf(text, sizeof text, value == floor(value) && fabs(value) < 9e15 ? "%.0f" : "%.9g",
             value);
    set_json(r, key, copy_text(text));
}

void bench_set_numbers(bench_record *r, const char *key, const double *values, int n) {
    char *json = grow(NULL, (size_t)n * 26 + 3), *at = json;
    for (int i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            free(json);
            return;
        }
        at += sprintf(at, "%c%.9g", i ? ',' : '[', values[i]);
    }
    strcpy(at, n ? "]" : "[]");
    if (n)
        set_json(r, key, json);
    else
        free(json);
}

void bench_set_flag(bench_record *r, const char *key, bool value) {
    set_json(r, key, copy_text(value ? "true" : "false"));
}

void bench_record_free(bench_record *r) {
    for (int i = 0; i < r->n; i++) {
        free(r->fields[i].key);
        free(r->fields[i].json);
    }
    free(r->fields);
    *r = (bench_record){NULL, 0, 0};
}

const char *bench_record_fault(const bench_record *r, bench_record_kind kind) {
    static char sentence[BENCH_TEXT];
    const struct kind *k = &kinds[kind];
    const struct bench_field *verdict = find(r, "verdict");
    bool timed = verdict && !strcmp(verdict->json, "\"pass\"");
    for (int i = 0; i < MAX_FIELDS && k->required[i]; i++)
        if (!find(r, k->required[i])) {
            snprintf(sentence, sizeof sentence, "%s: field \"%s\" is missing", k->name,
                     k->required[i]);
            return sentence;
        }
    for (int i = 0; timed && i < MAX_FIELDS && k->timed[i]; i++)
        if (!find(r, k->timed[i])) {
            snprintf(sentence, sizeof sentence, "%s: field \"%s\" is missing", k->name,
                     k->timed[i]);
            return sentence;
        }
    for (int i = 0; i < r->n; i++) {
        const char *key = r->fields[i].key;
        if (listed(k->required, key) ||
            (timed && (listed(k->timed, key) || listed(k->optional, key))) ||
            (!k->timed[0] && listed(k->optional, key)) || !strcmp(key, "planted"))
            continue;
        bool known = listed(k->timed, key) || listed(k->optional, key);
        snprintf(sentence, sizeof sentence, "%s: field \"%s\" %s", k->name, key,
                 known ? "needs the verdict \"pass\"" : "is unknown");
        return sentence;
    }
    return NULL;
}

/* ---- results -----------------------------------------------------------------------------------
 */

void bench_set_summary(bench_record *r, const bench_summary *s) {
    if (s->n) bench_set_number(r, "samples", s->n);
    bench_set_number(r, "median", s->median);
    bench_set_number(r, "p95", s->p95);
    bench_set_number(r, "min", s->min);
    bench_set_number(r, "max", s->max);
    bench_set_number(r, "q1", s->q1);
    bench_set_number(r, "q3", s->q3);
    bench_set_number(r, "low", s->low);
    bench_set_number(r, "high", s->high);
}

void bench_set_result(bench_record *r, const bench_subject *s, const bench_result *result,
                      uint64_t seed) {
    const bench_verdict *v = &result->verdict;
    bench_summary summary = bench_result_summary(result, seed);
    char digest[20];
    bench_set_text(r, "name", s->name);
    bench_set_text(r, "boundary", bench_boundary_name(s->boundary));
    bench_set_text(r, "cache", bench_cache_name(s->cache));
    bench_set_number(r, "threads", s->threads);
    if (v->judgement != BENCH_UNJUDGED)
        bench_set_text(r, "verdict", v->judgement == BENCH_PASS ? "pass" : "fail");
    bench_set_text(r, "oracle", v->oracle);
    bench_set_text(r, "finding", v->finding);
    if (v->judgement != BENCH_PASS) return;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)v->digest);
    bench_set_text(r, "digest", digest);
    bench_set_number(r, "repeats", (double)result->repeats);
    bench_set_numbers(r, "raw_seconds", result->seconds, result->n);
    bench_set_number(r, "cpu_share", result->cpu_share);
    bench_set_summary(r, &summary);
}

void bench_set_pair(bench_record *r, const char *name, const char *ours, const char *peer,
                    const char *settings, int threads, const bench_pair *pair) {
    bench_summary a = bench_result_summary(&pair->a, 1), b = bench_result_summary(&pair->b, 1);
    bool pass = pair->a.verdict.judgement == BENCH_PASS && pair->b.verdict.judgement == BENCH_PASS;
    bench_set_text(r, "name", name);
    bench_set_text(r, "ours", ours);
    bench_set_text(r, "peer", peer);
    bench_set_number(r, "threads", threads);
    bench_set_text(r, "verdict", pass ? "pass" : "fail");
    bench_set_text(r, "ratio_of", "seconds, peer / ours, pair by pair");
    bench_set_text(r, "method", "interleaved in one process, order swapped each round");
    bench_set_text(r, "peer_settings", settings);
    if (!pass) return;
    bench_set_numbers(r, "raw_ours", pair->a.seconds, pair->a.n);
    bench_set_numbers(r, "raw_peer", pair->b.seconds, pair->b.n);
    bench_set_number(r, "median_ours", a.median);
    bench_set_number(r, "median_peer", b.median);
    bench_set_text(r, "unit", "second");
    bench_set_summary(r, &pair->ratio);
}

/* ---- the report --------------------------------------------------------------------------------
 */

static char *record_json(const bench_record *r) {
    size_t bytes = 3;
    for (int i = 0; i < r->n; i++)
        bytes += strlen(r->fields[i].key) + strlen(r->fields[i].json) + 6;
    char *out = grow(NULL, bytes), *at = out;
    *at++ = '{';
    for (int i = 0; i < r->n; i++)
        at += sprintf(at, "%s\"%s\": %s", i ? ", " : "", r->fields[i].key, r->fields[i].json);
    strcpy(at, "}");
    return out;
}

bool bench_report_add(bench_report *report, bench_record_kind kind, bench_record *r) {
    const char *fault = bench_record_fault(r, kind);
    bool once = kind == BENCH_RECORD_RUN || kind == BENCH_RECORD_MACHINE;
    if (fault) {
        fprintf(stderr, "bench: record refused: %s\n", fault);
        report->refused++;
    } else if (once) {
        bench_record *into = kind == BENCH_RECORD_RUN ? &report->run : &report->machine;
        bench_record_free(into);
        *into = *r;
        *r = (bench_record){NULL, 0, 0};
    } else {
        char ***list = &report->entries[kind];
        *list = grow(*list, sizeof **list * (size_t)(report->n[kind] + 1));
        (*list)[report->n[kind]++] = record_json(r);
    }
    bench_record_free(r);
    return !fault;
}

static const char *report_fault(const bench_report *report) {
    const char *fault = bench_record_fault(&report->run, BENCH_RECORD_RUN);
    if (!fault) fault = bench_record_fault(&report->machine, BENCH_RECORD_MACHINE);
    if (!fault && report->refused) fault = "a record was refused";
    if (!fault && !report->n[BENCH_RECORD_RESULT]) fault = "there is no result";
    if (!fault && !report->n[BENCH_RECORD_LIMIT]) fault = "the limits were not measured";
    return fault;
}

static void write_list(FILE *f, const bench_report *report, bench_record_kind kind,
                       const char *key) {
    fprintf(f, ",\n \"%s\": [", key);
    for (int i = 0; i < report->n[kind]; i++)
        fprintf(f, "%s\n  %s", i ? "," : "", report->entries[kind][i]);
    fputs("]", f);
}

bool bench_report_write(bench_report *report, const char *path) {
    const char *fault = report_fault(report);
    char temporary[4096];
    if (fault) {
        fprintf(stderr, "bench: no report written: %s\n", fault);
        return false;
    }
    snprintf(temporary, sizeof temporary, "%s.part", path);
    FILE *f = fopen(temporary, "w");
    bool ok = f != NULL;
    if (f) {
        char *run = record_json(&report->run), *machine = record_json(&report->machine);
        fprintf(f, "{\"format\": 1,\n \"run\": %s,\n \"machine\": %s", run, machine);
        write_list(f, report, BENCH_RECORD_LIMIT, "limits");
        write_list(f, report, BENCH_RECORD_RESULT, "results");
        write_list(f, report, BENCH_RECORD_COMPARISON, "comparisons");
        fputs("}\n", f);
        free(run);
        free(machine);
        ok = !ferror(f);
        ok = !fclose(f) && ok && !rename(temporary, path);
    }
    if (!ok) fprintf(stderr, "bench: cannot write %s\n", path);
    return ok;
}

void bench_report_free(bench_report *report) {
    bench_record_free(&report->run);
    bench_record_free(&report->machine);
    for (int k = 0; k <= BENCH_RECORD_COMPARISON; k++) {
        for (int i = 0; i < report->n[k]; i++)
            free(report->entries[k][i]);
        free(report->entries[k]);
    }
    memset(report, 0, sizeof *report);
}
