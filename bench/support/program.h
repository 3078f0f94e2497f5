/* What every program of bench/ shares: options, limits measured first, a report and a picture at
 * the end. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "support/machine.h"
#include "support/roofline.h"

#include <mlsys/mlsys.h>

typedef struct bench_option {
    const char *flag, *argument; /* argument NULL: a switch */
    const char *meaning;
    enum { BENCH_FLAG, BENCH_INTEGER, BENCH_STRING } type;
    void *target; /* bool, long or const char * */
} bench_option;

typedef struct bench_program {
    const char *name, *summary;
    bool quick, plant, cpu_time;
    long threads, samples, seed; /* samples 0: the program's own default */
    const char *output, *only;
    char arguments[BENCH_TEXT];
    double load_before;
    bench_report report;
    bench_limits limits;
    bench_roofline roofline;
    int wrong; /* subjects without a passed verdict */
} bench_program;

/* Read options (the shared ones and `own`, ended by a NULL flag), print the machine, measure its
 * limits. false: stop with *status (after --help, or a wrong option). */
bool bench_begin(bench_program *p, int argc, char **argv, const bench_option *own, int *status);
/* Thread counts to measure: 1 and p->threads. Returns how many. */
int bench_thread_counts(const bench_program *p, int out[2]);
/* Is the subject wanted (--only)? */
bool bench_wanted(const bench_program *p, const char *name);
/* Write OUTPUT/NAME.json and NAME.svg. fields of the run record may be set in `extra`. The exit
 * status: 0, or 1 when something was wrong or nothing could be written. */
int bench_end(bench_program *p, bench_record *extra);

/* A context with so many threads, its CPU device and a stream; exits with the library's sentence on
 * failure. */
typedef struct bench_library {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
} bench_library;
void bench_library_open(bench_library *l, int threads, const char *isa);
void bench_library_close(bench_library *l);
/* Exit with the library's sentence unless st is MLSYS_OK. */
void bench_need(mlsys_status st, const char *what);

#endif
