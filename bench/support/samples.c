/* Robust statistics of few samples. */
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear interpolation between order statistics, 0 <= q <= 1. */
static double quantile(const double *sorted, int n, double q) {
    double at = q * (n - 1);
    int i = (int)at;
    if (i >= n - 1) return sorted[n - 1];
    return sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Percentile bootstrap of the median. */
static void bootstrap(const double *samples, int n, uint64_t seed, double *low, double *high) {
    double medians[RESAMPLES], drawn[BENCH_MAX_SAMPLES];
    for (int r = 0; r < RESAMPLES; r++) {
        for (int i = 0; i < n; i++)
            drawn[i] = samples[next_random(&seed) % (uint64_t)n];
        qsort(drawn, (size_t)n, sizeof *drawn, by_value);
        medians[r] = quantile(drawn, n, 0.5);
    }
    qsort(medians, RESAMPLES, sizeof *medians, by_value);
    *low = quantile(medians, RESAMPLES, 0.025);
    *high = quantile(medians, RESAMPLES, 0.975);
}

bench_summary bench_summarise(const double *samples, int n, uint64_t seed) {
    bench_summary s = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double sorted[BENCH_MAX_SAMPLES];
    if (n < 1 || n > BENCH_MAX_SAMPLES) return s;
    memcpy(sorted, samples, sizeof *sorted * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    s.n = n;
    s.min = sorted[0];
    s.max = sorted[n - 1];
    s.median = quantile(sorted, n, 0.5);
    s.q1 = quantile(sorted, n, 0.25);
    s.q3 = quantile(sorted, n, 0.75);
    s.p95 = sorted[(int)ceil(0.95 * n) - 1];
    bootstrap(samples, n, seed, &s.low, &s.high);
    return s;
}

bench_summary bench_result_summary(const bench_result *r, uint64_t seed) {
    return bench_summarise(r->seconds, r->verdict.judgement == BENCH_PASS ? r->n : 0, seed);
}

double bench_spread(const bench_summary *s) { return (s->q3 - s->q1) / s->median; }

bench_summary bench_ratio(const double *a, const double *b, int n, uint64_t seed) {
    double ratio[BENCH_MAX_SAMPLES];
    if (n > BENCH_MAX_SAMPLES) n = BENCH_MAX_SAMPLES;
    for (int i = 0; i < n; i++)
        ratio[i] = a[i] / b[i];
    return bench_summarise(ratio, n, seed);
}
