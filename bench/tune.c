/* The tuner against the best schedules that were written by hand, shape by shape: make bench-tune.
 *
 * Each shape is one generated kernel. All hand-written schedules and the default are timed beside each other; then the
 * tuner searches from an empty cache; then its choice and the best of the others are timed in turns. */
#include "run/tune.h"
#include "support/program.h"
#include "tune_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HAND_SAMPLES = 7, LAST_SAMPLES = 31, NEEDED = 95 };

typedef struct options {
    long budget_ms, threads;
    const char *only;
    bool print;
} options;

/* The kernel's function is called by main, as fusion leaves it; no passes, for not every kernel here is one that fusion
 * makes today. */
typedef struct contest {
    mlsi_program program;
    mlsi_tune_bench bench;
    int64_t binding[1];
} contest;

static void open_contest(contest *x, bench_library *l, const tune_shape *shape) {
    char text[4096];
    mlsi_ctx *ctx;
    mlsi_device *device;
    memset(x, 0, sizeof *x);
    snprintf(text, sizeof text,
             "mlsys-ir 1\nfunctions 2\nfunc 1 \"fused\" {\n%s}\nfunc 0 \"main\" {\n%s}\n",
             shape->ir, shape->caller);
    bench_need(mlsi_pin(l->ctx, MLSYS_KIND_CTX, "ctx", &ctx), "ctx");
    bench_need(mlsi_pin(l->device, MLSYS_KIND_DEVICE, "device", &device), "device");
    bench_need(mlsi_graph_init(&x->program.graph, ctx), "graph");
    bench_need(mlsi_graph_parse(&x->program.graph, device, text), shape->name);
    x->program.backend = &mlsi_cpu_backend;
    x->program.isa_limit = (mlsi_isa)ctx->isa_limit;
    x->program.device = device;
    bench_need(mlsi_generate(&x->program), shape->name);
    mlsi_unpin(device);
    mlsi_unpin(ctx);
    if (!x->program.generated[1].fn)
        bench_need(mlsi_fail(MLSYS_E_STATE, "%s", x->program.generated[1].refused), shape->name);
    bench_need(mlsi_tune_bench_open(&x->program, 1, x->binding, 0, &x->bench), "bench");
}

static void close_contest(contest *x) {
    mlsi_tune_bench_close(&x->bench);
    mlsi_generated_free(&x->program);
    mlsi_graph_free(&x->program.graph);
}

static void make(contest *x, const char *schedule, int number, mlsi_tune_candidate *c) {
    mlsi_tune_candidate *list[] = {c};
    bench_need(mlsi_tune_make(&x->bench, schedule, number, c), "make");
    if (!c->verdict) bench_need(mlsi_tune_load(&x->bench, 1, list), "load");
    if (!c->verdict) bench_need(mlsi_tune_compare(&x->bench, c), "compare");
    if (c->verdict) fprintf(stderr, "  not usable: %s: %s\n", schedule, c->why);
}

/* Number of the best hand-written schedule, -1 = the default. */
static int best_hand(contest *x, const tune_shape *shape, double *share) {
    int best = -1;
    *share = 1;
    for (int i = 0; i < TUNE_HANDS && shape->hands[i]; i++) {
        mlsi_tune_candidate c;
        int64_t ns[2];
        make(x, shape->hands[i], i + 1, &c);
        if (!c.verdict) {
            bench_need(
                mlsi_tune_time(&x->bench, &x->bench.default_, &c, HAND_SAMPLES, HAND_SAMPLES, ns),
                "time");
            double part = (double)ns[1] / (double)ns[0];
            printf("  %.3f of the default: %s\n", part, shape->hands[i]);
            if (part < *share) {
                *share = part;
                best = i;
            }
        }
        mlsi_tune_candidate_free(&x->bench, &c);
    }
    return best;
}

static char *tuned_schedule(contest *x, long budget_ms, mlsys_tune_report *r) {
    const mlsi_tune_options o = {.budget_ms = budget_ms, .candidates = 100000};
    mlsi_ctx *ctx = x->program.graph.ctx;
    mlsi_tune_key key;
    char *schedule;
    *r = (mlsys_tune_report){.size = sizeof *r};
    bench_need(mlsi_tune_program(&x->program, x->binding, &o, r), "tune");
    bench_need(mlsi_tune_key_of(ctx, x->program.isa_limit, &x->bench.nest, &key), "key");
    bench_need(mlsi_tune_replay(ctx, x->bench.alloc, &key, &schedule), "replay");
    return schedule;
}

/* How fast the tuner's choice is, in hundredths of the best hand-written schedule's speed. */
static double compete(contest *x, const tune_shape *shape, const options *o) {
    mlsi_tune_candidate hand, tuned;
    mlsys_tune_report r;
    double share;
    int64_t ns[2];
    int best = best_hand(x, shape, &share);
    char *schedule = tuned_schedule(x, o->budget_ms, &r);
    make(x, best < 0 ? NULL : shape->hands[best], 100, &hand);
    make(x, schedule, 101, &tuned);
    bench_need(mlsi_tune_time(&x->bench, &hand, &tuned, LAST_SAMPLES, LAST_SAMPLES, ns), "time");
    double speed = 100.0 * (double)ns[0] / (double)ns[1];
    printf("%-22s hand %9.1f us, tuned %9.1f us: %5.1f %% (%lld timed, %lld refused, %.1f s)\n"
           "  hand:  %s\n  tuned: %s\n",
           shape->name, (double)ns[0] * 1e-3, (double)ns[1] * 1e-3, speed, (long long)r.measured,
           (long long)r.refused, (double)r.elapsed_ms * 1e-3,
           best < 0 ? "the default" : shape->hands[best], schedule ? schedule : "the default");
    fflush(stdout);
    mlsi_tune_candidate_free(&x->bench, &hand);
    mlsi_tune_candidate_free(&x->bench, &tuned);
    mlsi_mem_free(x->bench.alloc, schedule);
    return speed;
}

static void print_nest(contest *x) {
    mlsi_text t;
    mlsi_text_init(&t, x->bench.alloc);
    mlsi_nest_print(&x->bench.nest, &t);
    printf("%s\n", t.data ? t.data : mlsys_last_error());
    mlsi_text_free(&t);
}

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--quick"))
            o->budget_ms = 5000;
        else if (!strcmp(argv[i], "--print"))
            o->print = true;
        else if (!strcmp(argv[i], "--only") && value)
            o->only = value, i++;
        else if (!strcmp(argv[i], "--budget-ms") && value)
            o->budget_ms = atol(value), i++;
        else if (!strcmp(argv[i], "--threads") && value)
            o->threads = atol(value), i++;
        else
            return false;
    }
    return o->budget_ms > 0 && o->threads > 0;
}

int main(int argc, char **argv) {
    options o = {.budget_ms = 60000, .threads = 2};
    char cache[] = "/tmp/mlsys-bench-tune-XXXXXX", command[64];
    int behind = 0, count = 0;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "bench/tune [--quick | --budget-ms N] [--threads N] [--only NAME] "
                        "[--print: the nests, no contest]\n");
        return 2;
    }
    if (!mkdtemp(cache) || setenv("MLSYS_CACHE", cache, 1)) return 2;
    bench_library l;
    bench_library_open(&l, (int)o.threads, NULL);
    for (int i = 0; i < tune_shape_count; i++) {
        const tune_shape *shape = &tune_shapes[i];
        contest x;
        if (o.only && !strstr(shape->name, o.only)) continue;
        open_contest(&x, &l, shape);
        if (o.print)
            print_nest(&x);
        else
            behind += compete(&x, shape, &o) < NEEDED;
        count++;
        close_contest(&x);
    }
    bench_library_close(&l);
    printf("%d shapes, %d below %d %% of the best hand-written schedule\n", count, behind, NEEDED);
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    return system(command) || behind > 0;
}
