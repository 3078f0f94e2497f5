/* What a training program says about its run: a line of progress with the time that is left, and the curve of
 * its losses as an SVG picture. Shared by the programs of examples/. */
#ifndef RUN_LOG_H
#define RUN_LOG_H

#include <mlsys/mlsys.h>

typedef struct run_log {
    const char *unit; /* what a step consumes: "tokens", "images" */
    long first, total;
    double flops; /* of the step that run_log_step is told next; 0: unknown */
    double peak;  /* flops a second of a large product (run_log_peak); 0: unknown */
    /* kept by the functions below */
    long done;
    double *loss, *seconds; /* [total - first] of each step: its loss, how long it took */
    double units, work, started, shown, ended;
} run_log;

/* Seconds of a clock that only runs forwards. */
double run_seconds(void);
/* Steps first .. total - 1 follow. 0 without memory. */
int run_log_begin(run_log *r, long first, long total, const char *unit);
/* Time a few large f32 products, the fastest that this device does: rates are then also told as a share of that. */
mlsys_status run_log_peak(run_log *r, mlsys_device device, mlsys_stream stream);
/* One step is done: its loss, and how many units it consumed. A line on stderr now and then. */
void run_log_step(run_log *r, double loss, double units);
/* The line that sums up, on stdout. */
void run_log_end(run_log *r);
/* Write the curve; 0 with a sentence on stderr when the file cannot be written. */
int run_log_curve(const run_log *r, const char *path, const char *title);
void run_log_free(run_log *r);

#endif
