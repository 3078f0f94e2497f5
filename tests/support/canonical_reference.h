/* The canonical orders of docs/numerics.md, written literally and slowly. Values are doubles; with
 * f64 false every operation rounds to f32. */
#ifndef MLSI_TEST_CANONICAL_REFERENCE_H
#define MLSI_TEST_CANONICAL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

double cr_round(bool f64, double x);
double cr_sum(bool f64, const double *x, int64_t n);
double cr_product(bool f64, const double *x, int64_t n);
/* Segments of 256 FMA chains, added in ascending order. */
double cr_dot(bool f64, const double *a, const double *b, int64_t n);

#endif
