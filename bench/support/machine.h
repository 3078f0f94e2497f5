/* What a figure was measured on: facts that the system tells, and limits that are measured in the
 * same run, so that percentages mean something on a machine whose speed changes from hour to hour.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "support/report.h"

/* ---- facts -------------------------------------------------------------------------------------
 */

int bench_processors(void);            /* that this process may use */
uint64_t bench_cache_bytes(int level); /* of one instance of level 1 (data), 2, 3; 0 = not told */
uint64_t bench_memory_bytes(void);
uint64_t bench_peak_memory(void); /* highest resident set of this process, in bytes */
double bench_load(void);          /* runnable threads, mean of the last minute; -1 = not told */
void bench_date(char *out, size_t cap); /* UTC */
/* Every fact that BENCH_RECORD_MACHINE requires. */
void bench_machine_facts(bench_record *out);

/* ---- limits ------------------------------------------------------------------------------------
 */

enum { BENCH_MAX_LIMITS = 64 };

typedef enum bench_limit_kind {
    BENCH_LIMIT_FMA = 1, /* flop/s: f32 multiply-adds in registers, two flops each */
    BENCH_LIMIT_READ,    /* bytes/s read */
    BENCH_LIMIT_COPY     /* bytes/s, read and written both counted */
} bench_limit_kind;

typedef struct bench_limit {
    bench_limit_kind kind;
    const char *what; /* instruction set, or where the data lies: "L1", "L2", "L3", "memory" */
    int threads;
    uint64_t bytes; /* working set of one thread; 0 for FMA */
    bench_summary rate;
} bench_limit;

typedef struct bench_limits {
    int n;
    bench_limit row[BENCH_MAX_LIMITS];
} bench_limits;

/* Measure for 1 thread and, if larger, `threads`. quick: fewer samples, a smaller memory buffer. */
void bench_measure_limits(bench_limits *out, int threads, bool quick, uint64_t seed);
/* FMA peak and memory read rate of one thread now, as shares of what l says: how far the machine
 * has drifted. */
void bench_limits_again(const bench_limits *l, bool quick, double *fma, double *read);
/* The best rate seen, of the best instruction set or of the named one; NaN when not measured. */
double bench_peak_flops(const bench_limits *l, const char *isa, int threads);
/* Bandwidth of the smallest level that holds `bytes` in all (UINT64_MAX: memory). */
double bench_bandwidth(const bench_limits *l, bench_limit_kind kind, int threads, uint64_t bytes);
/* The least time that arithmetic and compulsory traffic allow. */
typedef struct bench_roof {
    double seconds;
    const char *name; /* "arithmetic" or "bandwidth" */
} bench_roof;
/* Bytes read and written once each; cold: from memory, else from the level that holds them all. */
bench_roof bench_roof_of(const bench_limits *l, double operations, double reads, double writes,
                         bool cold, int threads);
void bench_limits_print(const bench_limits *l);
bool bench_limits_report(const bench_limits *l, bench_report *report);

#endif
