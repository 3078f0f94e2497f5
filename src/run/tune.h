/* Tuning: which schedule of a generated kernel is the fastest on this machine, by trial.
 *
 * A candidate is a point of the nest's space of schedules (ir/loop/schedule_space.h). It is proved, compiled, run on random
 * input and compared with the default schedule's output bit for bit, and only then timed, interleaved with the best so far.
 * What was learned goes to disk line by line, so that a search that was interrupted goes on where it was; compiling
 * with tune = replay reads these lines and nothing else. docs/schedules.md has the format. */
#ifndef MLSI_TUNE_H
#define MLSI_TUNE_H

#include "ir/loop/schedule_space.h"
#include "run/program.h"

/* ---- records (tune_record.c) --------------------------------------------------------------------------------- */

/* What a record is true of. */
typedef struct mlsi_tune_key {
    char device[256]; /* model of CPU, instruction set, threads */
    char content[65]; /* SHA-256 of the nest as it was lowered */
    char sizes[512];  /* "B=8 L=128": the symbols that the nest names; "" = none, or not bound */
} mlsi_tune_key;

typedef enum mlsi_tune_verdict {
    MLSI_TUNE_TIMED = 1,
    MLSI_TUNE_REFUSED, /* not proved, or not to be written as C */
    MLSI_TUNE_DIFFERS, /* other bits than the default's */
    MLSI_TUNE_FAILED,  /* the compiler, or the run */
    MLSI_TUNE_SETTLED  /* timed, and once more in the end */
} mlsi_tune_verdict;

enum {
    MLSI_TUNE_UNIT = 1000000,     /* of times: the default's is this */
    MLSI_TUNE_SAMPLE_NS = 2000000 /* a sample repeats the kernel so long */
};

typedef struct mlsi_tune_record {
    uint64_t seed;
    int64_t number; /* of the draw; 0 is the default */
    mlsi_tune_verdict verdict;
    int64_t time; /* in units of which the default takes MLSI_TUNE_UNIT */
    int64_t ns;   /* of one run, when it was measured; for people */
    mlsi_point point;
    char *schedule; /* its text in one line; "" = the default */
} mlsi_tune_record;

typedef struct mlsi_tune_records {
    mlsi_alloc *alloc;
    mlsi_tune_record *list;
    int64_t n, cap;
    int64_t ignored; /* lines that are torn, or of another key */
} mlsi_tune_records;

/* Device and content. n as it was lowered; its name does not count. */
mlsys_status mlsi_tune_key_of(const mlsi_ctx *ctx, mlsi_isa isa, mlsi_nest *n, mlsi_tune_key *key);
/* The sizes: binding has a value per symbol of the nest. */
mlsys_status mlsi_tune_key_bind(const mlsi_nest *n, const int64_t *binding, mlsi_tune_key *key);

/* All whole lines of the key with its sizes; of two of one seed and number the later one. None is no error. out is
 * initialised here; free it also after a failure. */
mlsys_status mlsi_tune_records_read(mlsi_ctx *ctx, const mlsi_tune_key *key,
                                    mlsi_tune_records *out);
void mlsi_tune_records_free(mlsi_tune_records *r);
mlsi_tune_record *mlsi_tune_records_find(const mlsi_tune_records *r, uint64_t seed, int64_t number);
/* Remember: takes r->schedule over, also after a failure. */
mlsys_status mlsi_tune_records_put(mlsi_tune_records *records, mlsi_tune_record *r);
/* One line at the end of the key's file, on disk when this returns. IO: there is no folder, or it cannot be written. */
mlsys_status mlsi_tune_append(mlsi_ctx *ctx, const mlsi_tune_key *key, const mlsi_tune_record *r);
static inline bool mlsi_tune_has_time(const mlsi_tune_record *r) {
    return r->verdict == MLSI_TUNE_TIMED || r->verdict == MLSI_TUNE_SETTLED;
}
/* The least time, of those that are settled if there are any; NULL when no schedule is faster than the default by what times are uncertain. */
const mlsi_tune_record *mlsi_tune_records_best(const mlsi_tune_records *r);
/* The schedule to compile with, from a's memory: of the records of device and content, those of the largest sizes. NULL:
 * none, or the default is the best. */
mlsys_status mlsi_tune_replay(mlsi_ctx *ctx, mlsi_alloc *a, const mlsi_tune_key *key,
                              char **schedule);

/* ---- one kernel's candidates (tune_trial.c, tune_proof.c) ---------------------------------------------------------- */

typedef struct mlsi_tune_candidate {
    mlsi_generated kernel;
    char *schedule;            /* NULL = the default */
    mlsi_tune_verdict verdict; /* 0: none yet */
    char why[200];             /* unless it was timed */
    int64_t first_ns;          /* of the run that was compared */
    uint64_t code;             /* hash of its C: equal ones need no second trial */
} mlsi_tune_candidate;

typedef struct mlsi_tune_bench {
    const mlsi_program *program;
    mlsi_alloc *alloc;
    const char *name;     /* of the function */
    mlsi_graph graph;     /* its own, for the proofs intern */
    int32_t source, func; /* the function, and as it was lowered: with axes merged */
    mlsi_nest nest;       /* as it was lowered */
    unsigned proofs;      /* MLSI_PROVE_ parts that hold of the default */
    bool certified;       /* ir/proof follows the default */
    int64_t *binding;
    mlsi_view in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    char *wanted[MLSI_MAX_OPERANDS]; /* the default's outputs */
    int n_in, n_out;
    char *work;
    uint64_t work_bytes;
    mlsi_module **modules; /* loaded so far */
    int64_t n_modules, cap_modules;
    mlsi_tune_candidate default_; /* ready to run */
} mlsi_tune_bench;

/* Lowers function func of p again, fills random inputs (seed) and runs the default. Uses p as a run does: any thread. */
mlsys_status mlsi_tune_bench_open(const mlsi_program *p, int32_t func, const int64_t *binding,
                                  uint64_t seed, mlsi_tune_bench *out);
void mlsi_tune_bench_close(mlsi_tune_bench *b); /* also after a failed open */

/* Applies the schedule (NULL = default) to a copy of the nest, proves it and writes it as C under a name with that number.
 * A refusal is the candidate's verdict; the status is for lack of memory. */
mlsys_status mlsi_tune_make(mlsi_tune_bench *b, const char *schedule, int number,
                            mlsi_tune_candidate *c);
/* Compiles those without a verdict as one module. */
mlsys_status mlsi_tune_load(mlsi_tune_bench *b, int n, mlsi_tune_candidate *const *c);
/* Runs it into poisoned outputs, and compares. */
mlsys_status mlsi_tune_compare(mlsi_tune_bench *b, mlsi_tune_candidate *c);
/* Nanoseconds of one run of each, the least of `most` samples that are taken in turns; of `least` when b is far behind a. */
mlsys_status mlsi_tune_time(mlsi_tune_bench *bench, const mlsi_tune_candidate *a,
                            const mlsi_tune_candidate *b, int least, int most, int64_t ns[2]);
void mlsi_tune_candidate_free(mlsi_tune_bench *b, mlsi_tune_candidate *c);

/* Every proof that the default has, this nest must have; one that fails says what is missing. graph: where func is. */
mlsys_status mlsi_tune_prove_default(mlsi_tune_bench *b, mlsi_nest *n);
mlsys_status mlsi_tune_prove(mlsi_tune_bench *b, mlsi_nest *n);

/* ---- draws (tune_draw.c) ---- */

/* A point's program in one line. */
mlsys_status mlsi_tune_text(const mlsi_schedule_space *s, const mlsi_point *p, mlsi_text *out);
/* The point with a number; NOTFOUND: no legal one. Random points are functions of seed and number alone, changes also of what
 * the records say is fast. */
mlsys_status mlsi_tune_draw(const mlsi_schedule_space *s, const mlsi_nest *n,
                            const mlsi_tune_records *records, uint64_t seed, int64_t number,
                            mlsi_point *out);
/* The k-th fastest of those with a schedule, NULL past the last. */
const mlsi_tune_record *mlsi_tune_ranked(const mlsi_tune_records *records, int k);
/* Does the record's point still mean its text? */
mlsys_status mlsi_tune_is_of_space(const mlsi_schedule_space *s, mlsi_alloc *a,
                                   const mlsi_tune_record *r, bool *same);

/* ---- the search (tune.c) ----------------------------------------------------------------------------------------------- */

typedef struct mlsi_tune_options {
    int64_t budget_ms, candidates;
    uint64_t seed;
    int32_t (*progress)(void *user, const mlsys_tune_progress *at); /* not 0: stop; may be NULL */
    void *user;
} mlsi_tune_options;

const mlsi_config_key *mlsi_tune_config_keys(int *n);
/* All generated kernels of p under a value per symbol. */
mlsys_status mlsi_tune_program(const mlsi_program *p, const int64_t *binding,
                               const mlsi_tune_options *o, mlsys_tune_report *report);

#endif
