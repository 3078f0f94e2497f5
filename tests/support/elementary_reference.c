#include "support/elementary_reference.h"

#include <math.h>
#include <string.h>

#include "core/elementary.h"

static double rsqrt(double x) { return x == 0 ? copysign(HUGE_VAL, x) : 1.0 / sqrt(x); }

/* The f32 definition overflows where exp(-x) does; docs/elementary.md. */
static double sigmoid(double x) { return x < -88.7228390520683 ? 0.0 : 1.0 / (1.0 + exp(-x)); }

static double softplus(double x) { return (x > 0 || x != x ? x : 0.0) + log1p(exp(-fabs(x))); }

double reference_f64(int row, double x, double y) {
#define ENTRY_1(name, u32, u64) name,
#define ENTRY_2(name, u32, u64) name,
    static double (*const unary[])(double) = {MLSI_ELEMENTARY_UNARY(ENTRY_1)};
    static double (*const binary[])(double, double) = {MLSI_ELEMENTARY_BINARY(ENTRY_2)};
    const int n = (int)(sizeof unary / sizeof unary[0]);
    return row < n ? unary[row](x) : binary[row - n](x, y);
}

double ulp_error_f32(float got, double exact) {
    double g = (double)got;
    int e;
    if (isnan(exact) || isnan(g)) return isnan(exact) && isnan(g) ? 0.0 : HUGE_VAL;
    if (g == 0 && exact == 0) return !signbit(got) == !signbit(exact) ? 0.0 : HUGE_VAL;
    if (isinf(exact)) return g == exact ? 0.0 : HUGE_VAL;
    if (isinf(g)) g = copysign(0x1p128, g);
    frexp(exact, &e);
    if (exact == 0) e = -149;
    e = e - 24 < -149 ? -149 : e - 24;
    if (e > 104) e = 104;
    if (fabs(exact) > 0x1p128 && fabs(g) == 0x1p128 && (g > 0) == (exact > 0)) return 0.0;
    return ldexp(fabs(g - exact), -e);
}

static float uniform(uint32_t bits, float lo, float hi) {
    return lo + (hi - lo) * ((float)(bits >> 8) * 0x1p-24f);
}

void elementary_moderate_pair(int row, uint64_t h, float *x, float *y) {
    uint32_t a = (uint32_t)h, b = (uint32_t)(h >> 32);
    if (strcmp(mlsi_elementary_table[row].name, "pow") == 0) {
        /* x = 2^u, y such that |y log2 x| < 150 */
        float u = uniform(a, -1.0f, 1.0f);
        u = u * u * u * ((h & 8) ? 126.0f : 1.0f);
        *x = exp2f(u);
        *y = uniform(b, -150.0f, 150.0f) / log2f(*x);
        if (!(fabsf(*y) < 3e38f)) *y = 1.0f;
        if ((h & 0x70) == 0) {
            *x = -*x;
            *y = rintf(*y);
        }
    } else {
        float r = exp2f(uniform(a, -30.0f, 30.0f));
        *x = uniform(b, -1.0f, 1.0f);
        *y = *x * r;
        if (h & 8) *y = -*y;
    }
}
