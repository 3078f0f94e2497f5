/* A program with one generated kernel, and a cache folder of the test's own. */
#ifndef MLSI_TESTS_TUNE_CASE_H
#define MLSI_TESTS_TUNE_CASE_H

#include "run/tune.h"
#include "support/program_case.h"

typedef struct tune_case {
    program_case pc;
    mlsys_graph graph;
    mlsys_program handle;
    mlsi_program *program; /* pinned */
} tune_case;

/* A fresh folder becomes the cache of what follows; its path. */
const char *tc_cache(void);
void tc_cache_remove(void);
/* Softmax of scaled rows, f32[B,96], B in [1,64]. */
void tc_open(tune_case *t, int threads);
void tc_open_hooks(tune_case *t, int threads, const mlsys_hooks *hooks);
void tc_close(tune_case *t);
/* The kernel's function, and the key of its records at B. */
int32_t tc_func(const tune_case *t);
mlsi_tune_key tc_key(const tune_case *t, int64_t b);
/* B = 16; budget a minute. */
mlsys_tune_report tc_tune(const tune_case *t, int64_t candidates, uint64_t seed);
/* As one that tuning wrote: time in units. */
void tc_record(const tune_case *t, int64_t b, int64_t number, int64_t time, const char *schedule);
mlsi_tune_records tc_read(const tune_case *t, int64_t b);
/* Generated C of the graph compiled with these settings; free it. */
char *tc_code(const tune_case *t, const char *settings);
/* All that the context logged since the last call; free it. */
char *tc_log(const tune_case *t);
/* The file of the key's records. */
void tc_path(const tune_case *t, int64_t b, char path[]);

#endif
