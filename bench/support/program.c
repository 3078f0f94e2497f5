#include "support/program.h"

#include "commit.h" /* made by the build: BENCH_COMMIT */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- options -----------------------------------------------------------------------------------
 */

static void print_option(const bench_option *o) {
    char left[48];
    snprintf(left, sizeof left, "%s %s", o->flag, o->argument ? o->argument : "");
    printf("  %-18s %s\n", left, o->meaning);
}

static void print_help(const bench_program *p, const bench_option *shared,
                       const bench_option *own) {
    printf("usage: %s [options]\n%s\n", p->name, p->summary);
    for (const bench_option *o = own; o->flag; o++)
        print_option(o);
    for (const bench_option *o = shared; o->flag; o++)
        print_option(o);
    puts("  --help             this text");
}

static const bench_option *find_option(const bench_option *list, const char *flag) {
    for (; list->flag; list++)
        if (!strcmp(list->flag, flag)) return list;
    return NULL;
}

static bool set_option(const bench_option *o, const char *value) {
    char *end;
    if (o->type == BENCH_FLAG) {
        *(bool *)o->target = true;
    } else if (o->type == BENCH_STRING) {
        *(const char **)o->target = value;
    } else {
        *(long *)o->target = strtol(value, &end, 10);
        return *value && !*end && *(long *)o->target >= 0;
    }
    return true;
}

static bool parse(bench_program *p, int argc, char **argv, const bench_option *own, int *status) {
    const bench_option shared[] = {
        {"--threads", "N", "largest thread count (default: all processors of this process)",
         BENCH_INTEGER, &p->threads},
        {"--samples", "N", "samples per subject", BENCH_INTEGER, &p->samples},
        {"--seed", "N", "of random inputs and of the bootstrap (default 1)", BENCH_INTEGER,
         &p->seed},
        {"--only", "TEXT", "only subjects whose name contains TEXT", BENCH_STRING, &p->only},
        {"--output", "DIR", "where report and picture go (default: .)", BENCH_STRING, &p->output},
        {"--quick", NULL, "fewer subjects and samples", BENCH_FLAG, &p->quick},
        {"--cpu-time", NULL, "one thread, by CPU time instead of the wall clock", BENCH_FLAG,
         &p->cpu_time},
        {"--plant", NULL, "spoil every output by one bit: no subject may then give a time",
         BENCH_FLAG, &p->plant},
        {NULL, NULL, NULL, BENCH_FLAG, NULL}};
    *status = 2;
    for (int i = 1; i < argc; i++) {
        const bench_option *o = find_option(own, argv[i]);
        if (!strcmp(argv[i], "--help")) {
            print_help(p, shared, own);
            *status = 0;
            return false;
        }
        if (!o) o = find_option(shared, argv[i]);
        size_t used = strlen(p->arguments);
        snprintf(p->arguments + used, sizeof p->arguments - used, "%s%s", used ? " " : "", argv[i]);
        if (!o || (o->argument && i + 1 == argc) ||
            !set_option(o, o->argument ? argv[i + 1] : NULL)) {
            fprintf(stderr, "%s: %s %s; see --help\n", p->name, argv[i],
                    o ? "has no usable value" : "is unknown");
            return false;
        }
        if (!o->argument) continue;
        used = strlen(p->arguments);
        snprintf(p->arguments + used, sizeof p->arguments - used, " %s", argv[++i]);
    }
    return true;
}

/* ---- begin and end -----------------------------------------------------------------------------
 */

bool bench_begin(bench_program *p, int argc, char **argv, const bench_option *own, int *status) {
    char date[32];
    bench_record machine = {NULL, 0, 0};
    p->threads = bench_processors();
    p->seed = 1;
    p->output = ".";
    if (!parse(p, argc, argv, own, status)) return false;
    if (p->threads < 1 || p->cpu_time) p->threads = 1;
    if (p->cpu_time) bench_count_cpu_time();
    p->load_before = bench_load();
    bench_date(date, sizeof date);
    bench_machine_facts(&machine);
    printf("%s, commit %s, %s, load %.1f, %ld processors usable\n%s\n", p->name, BENCH_COMMIT, date,
           p->load_before, (long)bench_processors(), mlsys_build_info());
    if (!bench_report_add(&p->report, BENCH_RECORD_MACHINE, &machine)) exit(1);
    bench_measure_limits(&p->limits, (int)p->threads, p->quick, (uint64_t)p->seed);
    bench_limits_print(&p->limits);
    p->roofline.title = p->name;
    p->roofline.limits = &p->limits;
    if (!bench_limits_report(&p->limits, &p->report)) exit(1);
    fflush(stdout);
    return true;
}

int bench_thread_counts(const bench_program *p, int out[2]) {
    out[0] = 1;
    out[1] = (int)p->threads;
    return p->threads > 1 ? 2 : 1;
}

bool bench_wanted(const bench_program *p, const char *name) {
    return !p->only || strstr(name, p->only);
}

int bench_end(bench_program *p, bench_record *extra) {
    char text[4096];
    double fma, read;
    uint64_t peak_memory = bench_peak_memory();
    bench_limits_again(&p->limits, p->quick, &fma, &read);
    printf("\nat the end: load %.1f, FMA peak %.0f %%, memory read %.0f %% of the beginning\n",
           bench_load(), 100 * fma, 100 * read);
    bench_set_text(extra, "program", p->name);
    bench_set_text(extra, "library", MLSYS_VERSION_STRING);
    bench_set_text(extra, "build_info", mlsys_build_info());
    bench_set_text(extra, "compiler", __VERSION__);
    bench_set_text(extra, "commit", BENCH_COMMIT);
    bench_date(text, sizeof text);
    bench_set_text(extra, "date", text);
    bench_set_number(extra, "seed", (double)p->seed);
    bench_set_text(extra, "time", p->cpu_time ? "CPU time" : "wall clock");
    bench_set_text(extra, "arguments", *p->arguments ? p->arguments : "none");
    bench_set_number(extra, "load_before", p->load_before);
    bench_set_number(extra, "load_after", bench_load());
    bench_set_number(extra, "drift_fma", fma);
    bench_set_number(extra, "drift_read", read);
    bench_set_number(extra, "peak_memory", (double)peak_memory);
    bool ok = bench_report_add(&p->report, BENCH_RECORD_RUN, extra);
    mkdir(p->output, 0777); /* what fails here fails again at the file, and is said there */
    snprintf(text, sizeof text, "%s/%s.json", p->output, p->name);
    ok = bench_report_write(&p->report, text) && ok;
    if (ok) printf("report %s\n", text);
    snprintf(text, sizeof text, "%s/%s.svg", p->output, p->name);
    if (p->roofline.n && bench_roofline_write(&p->roofline, text)) printf("picture %s\n", text);
    if (p->wrong)
        printf("%s: %d subject%s WRONG: no time\n", p->name, p->wrong, p->wrong > 1 ? "s" : "");
    bench_report_free(&p->report);
    return ok && !p->wrong ? 0 : 1;
}

/* ---- the library -------------------------------------------------------------------------------
 */

void bench_need(mlsys_status st, const char *what) {
    if (st == MLSYS_OK) return;
    fprintf(stderr, "bench: %s: %s\n", what, mlsys_last_error());
    exit(2);
}

void bench_library_open(bench_library *l, int threads, const char *isa) {
    mlsys_config c;
    bench_need(mlsys_config_create(&c), "config");
    bench_need(mlsys_config_set_i64(c, "threads", threads), "threads");
    if (isa) bench_need(mlsys_config_set_str(c, "isa", isa), "isa");
    bench_need(mlsys_ctx_create(c, NULL, &l->ctx), "context");
    mlsys_release(c);
    bench_need(mlsys_device_get(l->ctx, MLSYS_CPU, 0, &l->device), "device");
    bench_need(mlsys_stream_create(l->device, NULL, &l->stream), "stream");
}

void bench_library_close(bench_library *l) {
    mlsys_release(l->stream);
    mlsys_release(l->device);
    mlsys_release(l->ctx);
}
