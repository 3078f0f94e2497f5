/* Schedules: programs that rewrite a nest without changing what it computes (docs/schedules.md).
 *
 * A step is a primitive with its arguments; loops and buffers go by name. Each step proves that every point is still
 * visited exactly once and that dependences hold, for all values of the symbols, or fails with a sentence that names loop
 * and reason (UNSUPPORTED; ARG for a name or number that cannot be) and leaves the nest as it was. Reductions give no
 * dependences: their terms carry positions (nest.h). */
#ifndef MLSI_SCHEDULE_H
#define MLSI_SCHEDULE_H

#include "ir/loop/nest.h"

typedef enum mlsi_primitive {
    MLSI_SCHEDULE_SPLIT = 1,
    MLSI_SCHEDULE_REORDER,
    MLSI_SCHEDULE_FUSE,
    MLSI_SCHEDULE_TILE,
    MLSI_SCHEDULE_VECTORIZE,
    MLSI_SCHEDULE_UNROLL,
    MLSI_SCHEDULE_PARALLEL,
    MLSI_SCHEDULE_BIND,
    MLSI_SCHEDULE_CACHE_READ,
    MLSI_SCHEDULE_CACHE_WRITE,
    MLSI_SCHEDULE_COMPUTE_AT,
    MLSI_SCHEDULE_RFACTOR,
    MLSI_SCHEDULE_TENSORIZE
} mlsi_primitive;

enum { MLSI_STEP_NAMES = 8, MLSI_STEP_NAME = 64, MLSI_STEP_RESULTS = 4, MLSI_STEP_NUMBERS = 2 };

typedef struct mlsi_directive {
    mlsi_primitive primitive;
    int32_t n_names, n_numbers, n_results;
    char names[MLSI_STEP_NAMES][MLSI_STEP_NAME]; /* loops, buffers, the kind of a bind */
    int64_t numbers[MLSI_STEP_NUMBERS];
    char results[MLSI_STEP_RESULTS][MLSI_STEP_NAME]; /* names of what it makes */
} mlsi_directive;

typedef struct mlsi_schedule {
    mlsi_alloc *alloc;
    mlsi_directive *steps;
    int64_t n, cap;
} mlsi_schedule;

/* The same nest without what its statements do not reach: numbers of variables, lets, accumulators, local buffers and
 * expressions are those of their first appearance. to is uninitialised; free it also after a failure. */
mlsys_status mlsi_nest_copy(const mlsi_nest *from, mlsi_nest *to);

/* ---- one step at a time ------------------------------------------------------------------------------- */

mlsys_status mlsi_schedule_step(mlsi_nest *n, const mlsi_directive *step);

/* for l in E -> for outer in ceil(E / factor), for inner in factor; a guard where factor may not divide E. */
mlsys_status mlsi_schedule_split(mlsi_nest *n, const char *loop, int64_t factor, const char *outer,
                                 const char *inner);
/* The named loops of one perfect nest, in this order in the places they have together. */
mlsys_status mlsi_schedule_reorder(mlsi_nest *n, int count, const char *const *loops);
/* Two loops, the second all that is in the first, as one. */
mlsys_status mlsi_schedule_fuse(mlsi_nest *n, const char *outer, const char *inner,
                                const char *fused);
/* split, split, reorder: names are those of the outer two, then of the inner two. */
mlsys_status mlsi_schedule_tile(mlsi_nest *n, const char *a, const char *b, int64_t factor_a,
                                int64_t factor_b, const char *const names[4]);
mlsys_status mlsi_schedule_vectorize(mlsi_nest *n, const char *loop);
mlsys_status mlsi_schedule_unroll(mlsi_nest *n, const char *loop);
mlsys_status mlsi_schedule_parallel(mlsi_nest *n, const char *loop);
/* kind: "grid", "block" or "lane". */
mlsys_status mlsi_schedule_bind(mlsi_nest *n, const char *loop, const char *kind);
/* What the loop's body reads of the buffer is copied to LOCAL memory where an iteration begins. */
mlsys_status mlsi_schedule_cache_read(mlsi_nest *n, const char *buffer, const char *loop,
                                      const char *name);
/* What the loop's body writes of the buffer goes to LOCAL memory and is copied out where an iteration ends. */
mlsys_status mlsi_schedule_cache_write(mlsi_nest *n, const char *buffer, const char *loop,
                                       const char *name);
/* The loops that fill a LOCAL buffer move to the beginning of the loop's body, and fill what that iteration reads. */
mlsys_status mlsi_schedule_compute_at(mlsi_nest *n, const char *buffer, const char *loop);
/* Each iteration of a reduction's loop becomes a reduction of its own, whose results are the terms of the old one:
 * where the order of docs/numerics.md has these partial results. */
mlsys_status mlsi_schedule_rfactor(mlsi_nest *n, const char *loop);
/* Loops i and j around a reduction over k of products a[.., i, k] * b[.., k, j] become one MMA on a tile in LOCAL memory. */
mlsys_status mlsi_schedule_tensorize(mlsi_nest *n, const char *i, const char *j, const char *k,
                                     const char *name);

/* No schedule: lets that do not change in a loop are evaluated before it (invariant.c), wherever that is legal. */
mlsys_status mlsi_nest_move_invariants(mlsi_nest *n);

/* ---- programs ------------------------------------------------------------------------------------------- */

void mlsi_schedule_init(mlsi_schedule *s, mlsi_alloc *a);
void mlsi_schedule_free(mlsi_schedule *s);
/* "split(i, 64) -> i_o, i_i; reorder(i_o, k, i_i); vectorize(i_i)": steps end with ';' or the text; '#' starts a
 * comment to the end of the line. Names of results may be left out. Appends to s; ARG errors quote the place. */
mlsys_status mlsi_schedule_parse(mlsi_schedule *s, const char *text);
/* A step a line, every result named: reads back. */
void mlsi_schedule_print(const mlsi_schedule *s, mlsi_text *out);
/* All steps, or none: the sentence names the step that fails. */
mlsys_status mlsi_schedule_run(mlsi_nest *n, const mlsi_schedule *s);
mlsys_status mlsi_schedule_apply(mlsi_nest *n, const char *text);

#endif
