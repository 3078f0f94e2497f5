#include "support/llama_bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* Standard output of the command into text; standard error is dropped. Its exit status, -1 when it
 * did not run. cpu: the processor time that it took. */
static int capture(char *const argv[], char *text, size_t cap, double *cpu) {
    int ends[2], status = -1;
    size_t used = 0;
    ssize_t got;
    pid_t child;
    struct rusage used_time;
    posix_spawn_file_actions_t actions;
    if (pipe(ends)) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    while (!failed && used + 1 < cap && (got = read(ends[0], text + used, cap - 1 - used)) > 0)
        used += (size_t)got;
    close(ends[0]);
    text[used] = 0;
    if (failed || wait4(child, &status, 0, &used_time) < 0 || !WIFEXITED(status)) return -1;
    *cpu = seconds_of(used_time.ru_utime) + seconds_of(used_time.ru_stime);
    return WEXITSTATUS(status);
}

/* Text after "key": in one line of JSON, up to the next comma or brace; empty when absent. */
static void field(const char *json, const char *key, char *out, size_t cap) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(json, quoted);
    *out = 0;
    if (!at) return;
    at += strlen(quoted) + strspn(at + strlen(quoted), " \"");
    snprintf(out, cap, "%.*s", (int)strcspn(at, ",}\""), at);
}

/* One process with so many repetitions. */
static bool run_once(llama_bench *b, const int sizes[3], int repetitions, double *rate,
                     double *cpu) {
    char p[16], n[16], d[16], t[16], r[16], text[8192], commit[32], k[16], fa[16], value[32];
    snprintf(d, sizeof d, "%d", sizes[0]);
    snprintf(p, sizeof p, "%d", sizes[1]);
    snprintf(n, sizeof n, "%d", sizes[2]);
    snprintf(t, sizeof t, "%d", b->threads);
    snprintf(r, sizeof r, "%d", repetitions);
    char *argv[] = {(char *)b->program,
                    "-m",
                    (char *)b->model,
                    "-p",
                    p,
                    "-n",
                    n,
                    "-d",
                    d,
                    "-t",
                    t,
                    "-r",
                    r,
                    "-fa",
                    (char *)b->flash_attention,
                    "-o",
                    "jsonl",
                    NULL};
    int status = capture(argv, text, sizeof text, cpu);
    field(text, "avg_ts", value, sizeof value);
    *rate = strtod(value, NULL);
    if (status || !(*rate > 0)) {
        fprintf(stderr, "bench: %s answered with status %d and no rate\n", b->program, status);
        return false;
    }
    field(text, "build_commit", commit, sizeof commit);
    field(text, "type_k", k, sizeof k);
    field(text, "flash_attn", fa, sizeof fa);
    snprintf(b->settings, sizeof b->settings,
             "llama.cpp %s, -t %d, cache %s, -fa %s (flash_attn %s), repack on, 1 warm-up, %s",
             commit, b->threads, k, b->flash_attention, fa,
             b->cpu_time ? "CPU time" : "its own wall-clock rate");
    return true;
}

bool llama_bench_run(llama_bench *b, int depth, int prompt, int generate,
                     double *tokens_per_second) {
    const int sizes[3] = {depth, prompt, generate};
    double cpu[2], ignored;
    if (!b->cpu_time) return run_once(b, sizes, 1, tokens_per_second, cpu);
    /* Loading and warm-up are in both. */
    if (!run_once(b, sizes, 1, &ignored, &cpu[0]) || !run_once(b, sizes, 2, &ignored, &cpu[1]))
        return false;
    *tokens_per_second = (prompt + generate) / (cpu[1] - cpu[0]);
    return cpu[1] > cpu[0];
}
