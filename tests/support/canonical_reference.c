#include "support/canonical_reference.h"

#include <math.h>
#include <stdlib.h>

double cr_round(bool f64, double x) { return f64 ? x : (double)(float)x; }

static double apply(bool product, bool f64, double a, double b) {
    if (f64) return product ? a * b : a + b;
    float x = (float)a, y = (float)b;
    return (double)(product ? x * y : x + y);
}

static double tree(bool product, bool f64, const double *x, int64_t n) {
    double lane[128];
    if (n > 4096) { /* chunk sums are a new sequence */
        int64_t chunks = (n + 4095) / 4096;
        double *sums = malloc((size_t)chunks * sizeof *sums);
        for (int64_t c = 0; c < chunks; c++)
            sums[c] = tree(product, f64, x + c * 4096, c + 1 < chunks ? 4096 : n - c * 4096);
        double total = tree(product, f64, sums, chunks);
        free(sums);
        return total;
    }
    for (int j = 0; j < 128; j++)
        lane[j] = product ? 1 : 0;
    for (int64_t i = 0; i < n; i++)
        lane[i % 128] = apply(product, f64, lane[i % 128], x[i]);
    for (int h = 64; h >= 1; h /= 2)
        for (int j = 0; j < h; j++)
            lane[j] = apply(product, f64, lane[j], lane[j + h]);
    return lane[0];
}

double cr_sum(bool f64, const double *x, int64_t n) { return tree(false, f64, x, n); }
double cr_product(bool f64, const double *x, int64_t n) { return tree(true, f64, x, n); }

double cr_dot(bool f64, const double *a, const double *b, int64_t n) {
    double c = 0;
    for (int64_t first = 0; first < n; first += 256) {
        double s = 0;
        for (int64_t k = first; k < n && k < first + 256; k++)
            s = f64 ? fma(a[k], b[k], s) : (double)fmaf((float)a[k], (float)b[k], (float)s);
        c = first ? apply(false, f64, c, s) : s;
    }
    return c;
}
