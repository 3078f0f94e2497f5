/* Elementary functions with the same bits on every machine.
 *
 * f32: the scalar instance of core/elementary.inc, which SIMD kernels and CUDA code instantiate
 * too. f64: core/elementary_f64*.inc, written under the same rule (IEEE operations and explicit
 * FMA). The library never calls libm for these functions: its bits change with version and machine.
 *
 * Special values follow C99 Annex F (which quiet NaN comes out is unspecified); subnormal arguments
 * and results are exact to the same bound; the rounding mode must be to nearest, as C starts it.
 * Floating-point exception flags are not part of the contract.
 *
 * Bounds, in units in the last place of the exact result, are in mlsi_elementary_table and in
 * docs/elementary.md.  Threads: pure functions. */
#ifndef MLSI_CORE_ELEMENTARY_H
#define MLSI_CORE_ELEMENTARY_H

/* X(name, f32 bound, f64 bound); a bound of 0.5 is correct rounding. */
#define MLSI_ELEMENTARY_UNARY(X)                                                                   \
    X(exp, 1.0, 1.0)                                                                               \
    X(exp2, 1.0, 1.0)                                                                              \
    X(expm1, 1.25, 1.0)                                                                            \
    X(log, 1.0, 1.0)                                                                               \
    X(log2, 1.0, 1.0)                                                                              \
    X(log10, 1.0, 1.0)                                                                             \
    X(log1p, 1.0, 1.0)                                                                             \
    X(sin, 1.0, 1.0)                                                                               \
    X(cos, 1.0, 1.0)                                                                               \
    X(tan, 1.5, 1.0)                                                                               \
    X(asin, 1.0, 1.0)                                                                              \
    X(acos, 1.0, 1.0)                                                                              \
    X(atan, 1.0, 1.0)                                                                              \
    X(sinh, 1.0, 1.0)                                                                              \
    X(cosh, 1.0, 1.0)                                                                              \
    X(tanh, 1.0, 1.0)                                                                              \
    X(asinh, 1.0, 1.0)                                                                             \
    X(acosh, 1.25, 1.0)                                                                            \
    X(atanh, 1.25, 1.0)                                                                            \
    X(erf, 1.0, 1.0)                                                                               \
    X(erfc, 2.0, 1.0)                                                                              \
    X(sqrt, 0.5, 0.5)                                                                              \
    X(rsqrt, 1.5, 1.5)                                                                             \
    X(cbrt, 1.0, 1.0)                                                                              \
    X(sigmoid, 2.5, 2.5)                                                                           \
    X(softplus, 2.0, 2.0)
#define MLSI_ELEMENTARY_BINARY(X)                                                                  \
    X(pow, 1.0, 1.0)                                                                               \
    X(atan2, 1.0, 1.0)

#define MLSI_ELEMENTARY_DECLARE_1(name, ulp32, ulp64)                                              \
    float mlsi_ef_##name(float x);                                                                 \
    double mlsi_ed_##name(double x);
#define MLSI_ELEMENTARY_DECLARE_2(name, ulp32, ulp64)                                              \
    float mlsi_ef_##name(float x, float y);                                                        \
    double mlsi_ed_##name(double x, double y);
MLSI_ELEMENTARY_UNARY(MLSI_ELEMENTARY_DECLARE_1)
MLSI_ELEMENTARY_BINARY(MLSI_ELEMENTARY_DECLARE_2)

/* Any unary row has f32_1 and f64_1, any binary row f32_2 and f64_2 (atan2 takes (y, x)). */
typedef struct mlsi_elementary_row {
    const char *name;
    float (*f32_1)(float);
    double (*f64_1)(double);
    float (*f32_2)(float, float);
    double (*f64_2)(double, double);
    double f32_ulp; /* published bounds: tests fail above them */
    double f64_ulp;
} mlsi_elementary_row;

extern const mlsi_elementary_row mlsi_elementary_table[];
extern const int mlsi_elementary_count;

#endif
