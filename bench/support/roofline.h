/* The roofline picture: flops per byte against flops per second, both logarithmic. */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include "support/machine.h"

enum { BENCH_MAX_POINTS = 64 };

typedef struct bench_point {
    char name[64];
    double intensity; /* flops per byte of compulsory traffic */
    double rate;      /* flop/s */
    int threads;
} bench_point;

typedef struct bench_roofline {
    const char *title;
    const bench_limits *limits; /* the roofs */
    int n;
    bench_point point[BENCH_MAX_POINTS];
} bench_roofline;

/* Points that are not positive and finite are left out. */
void bench_roofline_add(bench_roofline *r, const char *name, double intensity, double rate,
                        int threads);
/* An SVG file; false, with a line on standard error, when it cannot be written. */
bool bench_roofline_write(const bench_roofline *r, const char *path);

#endif
