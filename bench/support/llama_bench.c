#include "support/llama_bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Standard output of the command into text; standard error is dropped. Its exit status, -1 when it
 * did not run. */
static int capture(char *const argv[], char *text, size_t cap) {
    int ends[2], status = -1;
    size_t used = 0;
    ssize_t got;
    pid_t child;
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
    if (failed || waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
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

bool llama_bench_run(llama_bench *b, int depth, int prompt, int generate,
                     double *tokens_per_second) {
    char p[16], n[16], d[16], t[16], text[8192], commit[32], k[16], fa[16], rate[32];
    snprintf(p, sizeof p, "%d", prompt);
    snprintf(n, sizeof n, "%d", generate);
    snprintf(d, sizeof d, "%d", depth);
    snprintf(t, sizeof t, "%d", b->threads);
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
                    "1",
                    "-fa",
                    (char *)b->flash_attention,
                    "-o",
                    "jsonl",
                    NULL};
    int status = capture(argv, text, sizeof text);
    field(text, "avg_ts", rate, sizeof rate);
    *tokens_per_second = strtod(rate, NULL);
    if (status || !(*tokens_per_second > 0)) {
        fprintf(stderr, "bench: %s answered with status %d and no rate\n", b->program, status);
        return false;
    }
    field(text, "build_commit", commit, sizeof commit);
    field(text, "type_k", k, sizeof k);
    field(text, "flash_attn", fa, sizeof fa);
    snprintf(b->settings, sizeof b->settings,
             "llama.cpp %s, -t %d, cache %s, -fa %s (flash_attn %s), repack on, 1 warm-up", commit,
             b->threads, k, b->flash_attention, fa);
    return true;
}
