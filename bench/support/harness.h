/* How this project measures. A subject says what is timed (its boundary), in which state of the
 * caches, and how its result is checked. bench_measure checks first: a subject whose verdict is not
 * "pass" gets no samples, and nothing that reads samples gives a number for it.
 *
 * The programs of bench/ are single-threaded outside the code that they time. They print, and exit
 * when memory is short: none of this is part of the library. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_MAX_SAMPLES = 256, BENCH_TEXT = 256 };

typedef enum bench_boundary {
    BENCH_KERNEL = 1, /* kernels alone: operands bound, scratch planned, constants packed */
    BENCH_CALL,       /* one public call on ready objects: argument checks and binding included */
    BENCH_END_TO_END  /* what a user waits for: tokens in, logits out, all layers */
} bench_boundary;

typedef enum bench_cache {
    BENCH_WARM = 1, /* called again and again: data lies where the last call left it */
    BENCH_COLD      /* before each sample a buffer larger than the last-level cache is streamed */
} bench_cache;

const char *bench_boundary_name(bench_boundary b);
const char *bench_cache_name(bench_cache c);

/* ---- verdicts ----------------------------------------------------------------------------------
 */

typedef enum bench_judgement { BENCH_UNJUDGED = 0, BENCH_PASS, BENCH_FAIL } bench_judgement;

typedef struct bench_verdict {
    bench_judgement judgement;
    char oracle[BENCH_TEXT];  /* what the result was compared with, and how strictly */
    char finding[BENCH_TEXT]; /* what was found */
    uint64_t digest;          /* of the output that was judged */
} bench_verdict;

__attribute__((format(printf, 4, 5))) void
bench_judge(bench_verdict *v, bool pass, const char *oracle, const char *finding, ...);
/* FNV-1a over 64-bit words, the last one padded with zeros. */
uint64_t bench_digest(const void *data, size_t bytes);

/* ---- one measurement ---------------------------------------------------------------------------
 */

typedef struct bench_subject {
    const char *name;
    bench_boundary boundary;
    bench_cache cache;
    int threads;
    void *user;
    void (*before)(void *user);                  /* untimed, before each call; may be NULL */
    bool (*call)(void *user);                    /* timed; false = it failed */
    uint64_t (*digest)(void *user);              /* of the output of the last call */
    void (*check)(void *user, bench_verdict *v); /* judges the output of the last call */
} bench_subject;

typedef struct bench_sampling {
    int warmup;            /* calls before the first sample */
    int samples;           /* 1 .. BENCH_MAX_SAMPLES */
    double sample_seconds; /* a warm sample repeats the call until it lasts about this long */
    /* Idle time before each sample of a pair: the other's threads may spin on. */
    double settle_seconds;
} bench_sampling;

typedef struct bench_result {
    bench_verdict verdict;
    int n;                             /* samples; 0 unless the verdict is "pass" */
    int64_t repeats;                   /* calls per sample */
    double seconds[BENCH_MAX_SAMPLES]; /* of one call, in the order taken */
    double wall, cpu;                  /* of all samples; CPU time of the whole process */
    double cpu_share; /* cpu / (wall * threads): low when others had the processor */
} bench_result;

/* Run, judge, warm up, sample, and compare the last output's digest with the judged one's. Returns
 * whether r holds samples; r->verdict tells why not. */
bool bench_measure(const bench_subject *s, const bench_sampling *how, bench_result *r);
/* Its parts, for samples that alternate with something else. bench_sample adds one; false = the
 * verdict fell, and the samples with it. bench_finish compares the digests. */
bool bench_prepare(const bench_subject *s, const bench_sampling *how, bench_result *r);
bool bench_sample(const bench_subject *s, bench_result *r);
bool bench_finish(const bench_subject *s, bench_result *r);

/* ---- samples -----------------------------------------------------------------------------------
 */

typedef struct bench_summary {
    int n;
    double median, p95, min, max, q1, q3; /* p95 by nearest rank: the maximum below 20 samples */
    double low, high;                     /* 95 % bootstrap interval of the median */
} bench_summary;

/* All members are NaN when n is 0. */
bench_summary bench_summarise(const double *samples, int n, uint64_t seed);
/* The same of a result: without a passed verdict there are no numbers. */
bench_summary bench_result_summary(const bench_result *r, uint64_t seed);
/* (q3 - q1) / median. */
double bench_spread(const bench_summary *s);
/* Of a[i] / b[i]: samples i were taken side by side. */
bench_summary bench_ratio(const double *a, const double *b, int n, uint64_t seed);

/* ---- pairs -------------------------------------------------------------------------------------
 */

typedef struct bench_pair {
    bench_result a, b;
    bench_summary ratio; /* of seconds b[i] / a[i]: above 1 means that a is faster */
} bench_pair;

/* a and b interleaved, sample by sample, the order swapped every time. Both are judged first. */
bool bench_measure_pair(const bench_subject *a, const bench_subject *b, const bench_sampling *how,
                        uint64_t seed, bench_pair *out);

/* ---- time and caches ---------------------------------------------------------------------------
 */

double bench_now(void); /* monotonic seconds, or CPU time after bench_count_cpu_time */
/* From now on the clock is this process's CPU time: on a busy machine, and for one thread, it says
 * more. */
void bench_count_cpu_time(void);
double bench_cpu_time(void); /* seconds of all threads of this process */
/* Stream more memory than the last-level cache holds, on `threads` threads. */
void bench_flush_caches(int threads);
/* Run fn(user, 0 .. threads-1) at once; seconds from the earliest start to the latest end. */
double bench_parallel(int threads, void (*fn)(void *user, int thread), void *user);
/* Zeroed, 64-byte aligned, on huge pages where the system gives them; exits when there is none. */
void *bench_memory(uint64_t bytes);

#endif
