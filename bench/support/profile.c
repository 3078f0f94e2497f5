#include "support/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 64, SHOWN = 12 };

typedef struct kernel_total {
    char name[96];
    double us, flops, bytes;
    long calls;
} kernel_total;

static int by_time(const void *a, const void *b) {
    double x = ((const kernel_total *)a)->us, y = ((const kernel_total *)b)->us;
    return (x < y) - (x > y);
}

/* Number after "key": in one event's line; 0 when absent. */
static double number(const char *line, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : 0;
}

static void add_event(kernel_total *totals, int *n, const char *line) {
    char name[96];
    const char *at = strstr(line, "\"name\":\"");
    int i = 0;
    if (!at || !strstr(line, "\"dur\":")) return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 8, "\""), at + 8);
    while (i < *n && strcmp(totals[i].name, name))
        i++;
    if (i == MAX_KERNELS) return;
    if (i == *n) {
        memset(&totals[i], 0, sizeof totals[i]);
        memcpy(totals[i].name, name, sizeof name);
        ++*n;
    }
    totals[i].us += number(line, "dur");
    totals[i].flops += number(line, "flops");
    totals[i].bytes += number(line, "bytes");
    totals[i].calls++;
}

static int read_trace(mlsys_ctx ctx, kernel_total *totals) {
    uint64_t need = 0;
    int n = 0;
    mlsys_status st = mlsys_profile_read(ctx, NULL, 0, &need);
    char *text = bench_memory(need);
    if (st == MLSYS_OK || st == MLSYS_E_BUFFER) st = mlsys_profile_read(ctx, text, need, NULL);
    bench_need(st, "trace");
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0; /* one event a line */
        add_event(totals, &n, line);
    }
    free(text);
    qsort(totals, (size_t)n, sizeof *totals, by_time);
    return n;
}

void bench_profile(bench_program *p, const bench_library *l, int threads, bool (*call)(void *user),
                   void *user) {
    kernel_total totals[MAX_KERNELS];
    double all = 0, peak = bench_peak_flops(&p->limits, NULL, threads);
    double read = bench_bandwidth(&p->limits, BENCH_LIMIT_READ, threads, UINT64_MAX);
    bench_need(mlsys_profile_start(l->ctx, NULL), "profile");
    double start = bench_now();
    if (!call(user)) bench_need(mlsys_last_status(), "profiled call");
    double seconds = bench_now() - start;
    bench_need(mlsys_profile_stop(l->ctx), "profile");
    int n = read_trace(l->ctx, totals);
    for (int i = 0; i < n; i++)
        all += totals[i].us;
    printf("    profile: %.2f ms in kernels of %.2f ms\n", all * 1e-3, seconds * 1e3);
    for (int i = 0; i < n && i < SHOWN; i++) {
        const kernel_total *k = &totals[i];
        printf("    %5.1f %%  %-44s %6ld calls %9.1f us each  %6.1f GF/s (%3.0f %%)  %6.1f GB/s "
               "(%3.0f %%)\n",
               100 * k->us / all, k->name, k->calls, k->us / (double)k->calls,
               k->flops / k->us * 1e-3, 100 * k->flops / k->us * 1e6 / peak,
               k->bytes / k->us * 1e-3, 100 * k->bytes / k->us * 1e6 / read);
    }
}
