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

/* The same for f64 (at least 2^-1074). */
double ulp_error_f64(double got, long double exact);

/* Row of mlsi_elementary_table beyond f64, as references for f64 results.  By libm in long double, which
 * must have 64 bits of precision or more (reference_long_works); by MPFR, found at run time
 * (reference_mpfr_open: 0 if absent). */
int reference_long_works(void);
long double reference_long(int row, double x, double y);
int reference_mpfr_open(void);
long double reference_mpfr(int row, double x, double y);

/* The finite f64 value nearest below which sigmoid's exp(-x) overflows: there it is 0 by definition. */
int reference_out_of_contract(int row, double x);

/* Arguments for row from random bits: all exponents, and dense where the function lives. */
void elementary_f64_arguments(int row, uint64_t (*next)(void *), void *state, double *x, double *y);

/* A pair for a binary row whose result is mostly neither 0 nor infinite, from 64 random bits. */
void elementary_moderate_pair(int row, uint64_t h, float *x, float *y);

#endif
