/* What the elementary functions should give, and how far a result is from it. */
#ifndef MLSYS_TESTS_ELEMENTARY_REFERENCE_H
#define MLSYS_TESTS_ELEMENTARY_REFERENCE_H

#include <stdint.h>

/* Row of mlsi_elementary_table in f64 by libm: a reference for f32 results. */
double reference_f64(int row, double x, double y);

/* |got - exact| in units in the last place of the exact result (of f32: at least 2^-149).  Both NaN
 * or both the same infinity or zero: 0.  A result beyond the largest number counts as 2^128.  NaN
 * against a number, or a wrong sign of zero or infinity: HUGE_VAL. */
double ulp_error_f32(float got, double exact);

/* A pair for a binary row whose result is mostly neither 0 nor infinite, from 64 random bits. */
void elementary_moderate_pair(int row, uint64_t h, float *x, float *y);

#endif
