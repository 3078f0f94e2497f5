/* llama.cpp's own bench program as the peer: one process a sample. Its times exclude loading and
 * one warm-up run, as ours do. */
#ifndef BENCH_LLAMA_BENCH_H
#define BENCH_LLAMA_BENCH_H

#include <stdbool.h>

typedef struct llama_bench {
    const char *program, *model, *flash_attention; /* "auto", "on" or "off" */
    int threads;
    bool cpu_time;      /* one thread: CPU time of a second repetition, by the difference of two
                           processes */
    char settings[256]; /* of the last run, as it reports them */
} llama_bench;

/* Tokens a second of `prompt` tokens, or of `generate` tokens, after `depth` tokens. false, with a
 * line on standard error, when the program cannot be run or answers something else. */
bool llama_bench_run(llama_bench *b, int depth, int prompt, int generate,
                     double *tokens_per_second);

#endif
