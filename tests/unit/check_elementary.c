/* Elementary functions: accuracy against libm in higher precision and MPFR, special values, and the
 * same bits from every instance. tests/tools/elementary_sweep.c covers all 2^32 arguments. */
#include "core/elementary.h"
#include "support/elementary_instance.h"
#include "support/elementary_reference.h"
#include "support/random.h"
#include "support/skip.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024 };
static uint64_t seed; /* printed by main */

static float f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static int same(float a, float b) { return (isnan(a) && isnan(b)) || bits(a) == bits(b); }

/* Zero, smallest and largest of each kind, NaNs quiet and signalling, and the points where
 * functions turn: of both signs. */
static const uint32_t special[] = {
    0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001, 0x0d800000, 0x20000000,
    0x2f7fffff, 0x32800000, 0x33000000, 0x33800000, 0x38ffffff, 0x39800000, 0x3c23d70a, 0x3e800000,
    0x3eaaaaab, 0x3eb17218, 0x3f000000, 0x3f2aaaaa, 0x3f2aaaab, 0x3f317218, 0x3f490fdb, 0x3f666666,
    0x3f6b851f, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3faaaaaa, 0x3faaaaab, 0x3fc90fdb, 0x40000000,
    0x40490fdb, 0x40400000, 0x40800000, 0x40800001, 0x40a00000, 0x41100000, 0x4120f5c3, 0x41880000,
    0x42aeac50, 0x42b00000, 0x42b17217, 0x42b17218, 0x42b2d4fc, 0x42cff1b5, 0x42d00000, 0x43160000,
    0x47800000, 0x47800001, 0x4b000000, 0x4b800000, 0x4b800001, 0x4d800000, 0x4e800000, 0x4f000000,
    0x5f000000, 0x72000000, 0x7e800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001, 0x7fffffff};
enum { SPECIALS = 2 * sizeof special / sizeof special[0] };

static float special_at(int i) { return f32(special[i / 2] | (uint32_t)(i & 1) << 31); }

/* ---- accuracy -------------------------------------------------------------------------------- */

/* The largest error of n results; *where is its index. */
static double worst_error(int row, const float *x, const float *y, const float *out, int n,
                          int *where) {
    double worst = -1.0;
    for (int i = 0; i < n; i++) {
        double e = ulp_error_f32(out[i], reference_f64(row, x[i], y[i]));
        if (e > worst) {
            worst = e;
            *where = i;
        }
    }
    return worst;
}

static const elementary_instance *widest(void) {
    for (int i = ELEMENTARY_INSTANCES - 1;; i--)
        if (elementary_instance_get(i)->available) return elementary_instance_get(i);
}

/* Block b of the arguments of row: every 1999th bit pattern, or pairs; block -1: the specials. */
static void f32_arguments(int row, int64_t b, test_random *r, float *x, float *y) {
    for (int i = 0; i < BLOCK; i++) {
        x[i] = b < 0 ? special_at(i % SPECIALS) : f32((uint32_t)((b * BLOCK + i) * 1999));
        y[i] = b < 0 ? special_at((i * 7 + i / SPECIALS) % SPECIALS) : 0.0f;
        if (b >= 0 && mlsi_elementary_table[row].f32_2) {
            uint64_t h = test_bits(r);
            x[i] = f32((uint32_t)h);
            y[i] = f32((uint32_t)(h >> 32));
            if (h & 7) elementary_moderate_pair(row, test_bits(r), &x[i], &y[i]);
        }
    }
}

START_TEST(f32_within_bounds) {
    static float x[BLOCK], y[BLOCK], out[BLOCK];
    const mlsi_elementary_row *t = &mlsi_elementary_table[_i];
    test_random r = (test_random){seed};
    for (int64_t b = -1; b * BLOCK * 1999 < INT64_C(1) << 32; b++) {
        int w = 0;
        f32_arguments(_i, b, &r, x, y);
        widest()->map(_i, x, y, out, BLOCK);
        double e = worst_error(_i, x, y, out, BLOCK, &w);
        ck_assert_msg(e <= t->f32_ulp, "%s(%a, %a) = %a: %.3f ulp, bound %.2f", t->name,
                      (double)x[w], (double)y[w], (double)out[w], e, t->f32_ulp);
    }
}
END_TEST

static uint64_t next_bits(void *state) { return test_bits(state); }

static void f64_within_bounds(int row, int count, long double (*reference)(int, double, double)) {
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
    test_random r = (test_random){seed};
    for (int i = 0; i < count; i++) {
        double x, y;
        elementary_f64_arguments(row, next_bits, &r, &x, &y);
        if (reference_out_of_contract(row, x)) continue;
        double got = t->f64_1 ? t->f64_1(x) : t->f64_2(x, y);
        double e = ulp_error_f64(got, reference(row, x, y));
        ck_assert_msg(e <= t->f64_ulp, "%s(%a, %a) = %a: %.3f ulp, bound %.2f", t->name, x, y, got,
                      e, t->f64_ulp);
    }
}

START_TEST(f64_against_long_double) {
    if (!reference_long_works())
        TEST_SKIP("elementary f64 against long double: long double is not wider here");
    f64_within_bounds(_i, 20000, reference_long);
}
END_TEST

START_TEST(f64_against_mpfr) {
    if (!reference_mpfr_open()) TEST_SKIP("elementary f64 against MPFR: libmpfr not found");
    for (int row = 0; row < mlsi_elementary_count; row++)
        f64_within_bounds(row, 2000, reference_mpfr);
}
END_TEST

/* ---- the same bits -----------------------------------------------------------------------------
 */

static int first_difference(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        if (!same(a[i], b[i])) return i;
    return -1;
}

/* Instance i against the scalar functions, on a grid of 43 thousand patterns and all special
 * values. */
static void same_bits(int row, const elementary_instance *e) {
    static float x[BLOCK], y[BLOCK], out[BLOCK], want[BLOCK];
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
    test_random r = (test_random){seed};
    for (int64_t b = -1; b * BLOCK * 1999 < INT64_C(1) << 32; b += b < 0 ? 1 : 50) {
        f32_arguments(row, b, &r, x, y);
        for (int i = 0; i < BLOCK; i++)
            want[i] = t->f32_1 ? t->f32_1(x[i]) : t->f32_2(x[i], y[i]);
        memset(out, 0xa5, sizeof out);
        e->map(row, x, y, out, BLOCK);
        int d = first_difference(out, want, BLOCK);
        ck_assert_msg(d < 0, "%s(%a, %a): %s gives %a, scalar %a", t->name, (double)x[d],
                      (double)y[d], e->isa, (double)out[d], (double)want[d]);
    }
}

static void same_bits_all(int instance) {
    const elementary_instance *e = elementary_instance_get(instance);
    if (!e->available) TEST_SKIP("elementary bits on %s: this CPU lacks it", e->isa);
    for (int row = 0; row < mlsi_elementary_count; row++)
        same_bits(row, e);
}
START_TEST(same_bits_portable) { same_bits_all(0); }
END_TEST
START_TEST(same_bits_avx2) { same_bits_all(1); }
END_TEST
START_TEST(same_bits_avx2_pairs) { same_bits_all(2); }
END_TEST
START_TEST(same_bits_avx512) { same_bits_all(3); }
END_TEST

/* A lane that needs the long reduction must not change its neighbours, nor the length of the array.
 */
START_TEST(bits_do_not_depend_on_neighbours) {
    static float x[BLOCK], y[BLOCK], all[BLOCK], one;
    test_random r = (test_random){seed};
    const elementary_instance *e = widest();
    for (int row = 0; row < mlsi_elementary_count; row++) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = f32((uint32_t)test_bits(&r));
            y[i] = f32((uint32_t)test_bits(&r));
        }
        e->map(row, x, y, all, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            e->map(row, x + i, y + i, &one, 1);
            ck_assert_msg(same(one, all[i]), "%s(%a)", mlsi_elementary_table[row].name,
                          (double)x[i]);
        }
    }
}
END_TEST

/* ---- special values: C99 Annex F ------------------------------------------------------------- */

#define INF  ((double)INFINITY)
#define QNAN ((double)NAN)
typedef struct special_row {
    const char *name;
    double x, y, want;
} special_row;
static const special_row special_rows[] = {{"exp", 0.0, 0, 1.0},
                                           {"exp", -0.0, 0, 1.0},
                                           {"exp", INF, 0, INF},
                                           {"exp", -INF, 0, 0.0},
                                           {"exp", 1e30, 0, INF},
                                           {"exp", -1e30, 0, 0.0},
                                           {"exp2", 0.0, 0, 1.0},
                                           {"exp2", 10.0, 0, 1024.0},
                                           {"exp2", -3.0, 0, 0.125},
                                           {"exp2", INF, 0, INF},
                                           {"exp2", -INF, 0, 0.0},
                                           {"expm1", 0.0, 0, 0.0},
                                           {"expm1", -0.0, 0, -0.0},
                                           {"expm1", INF, 0, INF},
                                           {"expm1", -INF, 0, -1.0},
                                           {"log", 0.0, 0, -INF},
                                           {"log", -0.0, 0, -INF},
                                           {"log", 1.0, 0, 0.0},
                                           {"log", -1.0, 0, QNAN},
                                           {"log", INF, 0, INF},
                                           {"log", -INF, 0, QNAN},
                                           {"log2", 1.0, 0, 0.0},
                                           {"log2", 1024.0, 0, 10.0},
                                           {"log2", 0.125, 0, -3.0},
                                           {"log2", -0.0, 0, -INF},
                                           {"log2", -2.0, 0, QNAN},
                                           {"log2", INF, 0, INF},
                                           {"log10", 1.0, 0, 0.0},
                                           {"log10", 1000.0, 0, 3.0},
                                           {"log10", 1e10, 0, 10.0},
                                           {"log10", 0.0, 0, -INF},
                                           {"log10", -2.0, 0, QNAN},
                                           {"log10", INF, 0, INF},
                                           {"log1p", 0.0, 0, 0.0},
                                           {"log1p", -0.0, 0, -0.0},
                                           {"log1p", -1.0, 0, -INF},
                                           {"log1p", -2.0, 0, QNAN},
                                           {"log1p", INF, 0, INF},
                                           {"sin", 0.0, 0, 0.0},
                                           {"sin", -0.0, 0, -0.0},
                                           {"sin", INF, 0, QNAN},
                                           {"sin", -INF, 0, QNAN},
                                           {"cos", 0.0, 0, 1.0},
                                           {"cos", -0.0, 0, 1.0},
                                           {"cos", INF, 0, QNAN},
                                           {"tan", 0.0, 0, 0.0},
                                           {"tan", -0.0, 0, -0.0},
                                           {"tan", -INF, 0, QNAN},
                                           {"asin", 0.0, 0, 0.0},
                                           {"asin", -0.0, 0, -0.0},
                                           {"asin", 2.0, 0, QNAN},
                                           {"asin", -INF, 0, QNAN},
                                           {"acos", 1.0, 0, 0.0},
                                           {"acos", 1.5, 0, QNAN},
                                           {"acos", INF, 0, QNAN},
                                           {"atan", 0.0, 0, 0.0},
                                           {"atan", -0.0, 0, -0.0},
                                           {"sinh", 0.0, 0, 0.0},
                                           {"sinh", -0.0, 0, -0.0},
                                           {"sinh", INF, 0, INF},
                                           {"sinh", -INF, 0, -INF},
                                           {"sinh", 1e4, 0, INF},
                                           {"cosh", 0.0, 0, 1.0},
                                           {"cosh", INF, 0, INF},
                                           {"cosh", -INF, 0, INF},
                                           {"cosh", -1e4, 0, INF},
                                           {"tanh", 0.0, 0, 0.0},
                                           {"tanh", -0.0, 0, -0.0},
                                           {"tanh", INF, 0, 1.0},
                                           {"tanh", -INF, 0, -1.0},
                                           {"asinh", 0.0, 0, 0.0},
                                           {"asinh", -0.0, 0, -0.0},
                                           {"asinh", INF, 0, INF},
                                           {"asinh", -INF, 0, -INF},
                                           {"acosh", 1.0, 0, 0.0},
                                           {"acosh", 0.5, 0, QNAN},
                                           {"acosh", INF, 0, INF},
                                           {"acosh", -INF, 0, QNAN},
                                           {"atanh", 0.0, 0, 0.0},
                                           {"atanh", -0.0, 0, -0.0},
                                           {"atanh", 1.0, 0, INF},
                                           {"atanh", -1.0, 0, -INF},
                                           {"atanh", 2.0, 0, QNAN},
                                           {"erf", 0.0, 0, 0.0},
                                           {"erf", -0.0, 0, -0.0},
                                           {"erf", INF, 0, 1.0},
                                           {"erf", -INF, 0, -1.0},
                                           {"erfc", INF, 0, 0.0},
                                           {"erfc", -INF, 0, 2.0},
                                           {"erfc", 0.0, 0, 1.0},
                                           {"sqrt", -0.0, 0, -0.0},
                                           {"sqrt", -1.0, 0, QNAN},
                                           {"sqrt", INF, 0, INF},
                                           {"rsqrt", 0.0, 0, INF},
                                           {"rsqrt", -0.0, 0, -INF},
                                           {"rsqrt", INF, 0, 0.0},
                                           {"rsqrt", -1.0, 0, QNAN},
                                           {"cbrt", 0.0, 0, 0.0},
                                           {"cbrt", -0.0, 0, -0.0},
                                           {"cbrt", 27.0, 0, 3.0},
                                           {"cbrt", -INF, 0, -INF},
                                           {"cbrt", INF, 0, INF},
                                           {"sigmoid", 0.0, 0, 0.5},
                                           {"sigmoid", INF, 0, 1.0},
                                           {"sigmoid", -INF, 0, 0.0},
                                           {"softplus", INF, 0, INF},
                                           {"softplus", -INF, 0, 0.0},
                                           {"softplus", 1e4, 0, 1e4},
                                           {"pow", 0.0, -3.0, INF},
                                           {"pow", -0.0, -3.0, -INF},
                                           {"pow", -0.0, -2.0, INF},
                                           {"pow", 0.0, -0.5, INF},
                                           {"pow", -0.0, -INF, INF},
                                           {"pow", 0.0, 3.0, 0.0},
                                           {"pow", -0.0, 3.0, -0.0},
                                           {"pow", -0.0, 2.5, 0.0},
                                           {"pow", -1.0, INF, 1.0},
                                           {"pow", -1.0, -INF, 1.0},
                                           {"pow", 1.0, QNAN, 1.0},
                                           {"pow", 1.0, INF, 1.0},
                                           {"pow", QNAN, 0.0, 1.0},
                                           {"pow", QNAN, -0.0, 1.0},
                                           {"pow", -INF, 0.0, 1.0},
                                           {"pow", -8.0, 1 / 3.0, QNAN},
                                           {"pow", 0.5, -INF, INF},
                                           {"pow", -2.0, -INF, 0.0},
                                           {"pow", 0.5, INF, 0.0},
                                           {"pow", -2.0, INF, INF},
                                           {"pow", -INF, -3.0, -0.0},
                                           {"pow", -INF, -2.0, 0.0},
                                           {"pow", -INF, 3.0, -INF},
                                           {"pow", -INF, 2.5, INF},
                                           {"pow", INF, -1.0, 0.0},
                                           {"pow", INF, 1.0, INF},
                                           {"pow", -2.0, 3.0, -8.0},
                                           {"pow", -2.0, 2.0, 4.0},
                                           {"pow", 2.0, 0.5, 0x1.6a09e667f3bcdp0},
                                           {"pow", QNAN, 1.0, QNAN},
                                           {"pow", 2.0, QNAN, QNAN},
                                           {"pow", 0.0, INF, 0.0},
                                           {"pow", INF, INF, INF},
                                           {"pow", INF, -INF, 0.0},
                                           {"pow", -2.0, 1e30, INF},
                                           {"atan2", 0.0, 1.0, 0.0},
                                           {"atan2", -0.0, 1.0, -0.0},
                                           {"atan2", 0.0, 0.0, 0.0},
                                           {"atan2", -0.0, 0.0, -0.0},
                                           {"atan2", 0.0, -0.0, M_PI},
                                           {"atan2", -0.0, -0.0, -M_PI},
                                           {"atan2", 0.0, -1.0, M_PI},
                                           {"atan2", -0.0, -1.0, -M_PI},
                                           {"atan2", 1.0, 0.0, M_PI_2},
                                           {"atan2", -1.0, -0.0, -M_PI_2},
                                           {"atan2", 1.0, INF, 0.0},
                                           {"atan2", -1.0, INF, -0.0},
                                           {"atan2", 1.0, -INF, M_PI},
                                           {"atan2", INF, 1.0, M_PI_2},
                                           {"atan2", -INF, -1.0, -M_PI_2},
                                           {"atan2", INF, INF, M_PI_4},
                                           {"atan2", INF, -INF, 3 * M_PI_4},
                                           {"atan2", -INF, INF, -M_PI_4},
                                           {"atan2", -INF, -INF, -3 * M_PI_4},
                                           {"atan2", QNAN, 1.0, QNAN},
                                           {"atan2", 1.0, QNAN, QNAN}};

static const mlsi_elementary_row *row_named(const char *name) {
    for (int i = 0; i < mlsi_elementary_count; i++)
        if (!strcmp(mlsi_elementary_table[i].name, name)) return &mlsi_elementary_table[i];
    ck_abort_msg("no function %s", name);
    return NULL;
}

static int same64(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

START_TEST(special_values) {
    for (size_t i = 0; i < sizeof special_rows / sizeof special_rows[0]; i++) {
        const special_row *s = &special_rows[i];
        const mlsi_elementary_row *t = row_named(s->name);
        float x = (float)s->x, y = (float)s->y;
        float g = t->f32_1 ? t->f32_1(x) : t->f32_2(x, y);
        double d = t->f64_1 ? t->f64_1(s->x) : t->f64_2(s->x, s->y);
        ck_assert_msg(same(g, (float)s->want), "f32 %s(%g, %g) = %a, not %a", s->name, s->x, s->y,
                      (double)g, s->want);
        ck_assert_msg(same64(d, s->want), "f64 %s(%g, %g) = %a, not %a", s->name, s->x, s->y, d,
                      s->want);
    }
}
END_TEST

/* A signalling f64 NaN stays one: a conversion from f32 would quieten it. */
static double nan64(uint32_t nan32) {
    uint64_t u = (uint64_t)(nan32 & 0x8007ffff) << 32 | UINT64_C(0x7ff0000000000001);
    if (nan32 & 0x400000) u |= UINT64_C(1) << 51;
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* A NaN argument gives a quiet NaN; the exceptions of pow are in the table above. */
START_TEST(nan_in_quiet_nan_out) {
    const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345, 0x7fffffff};
    for (int row = 0; row < mlsi_elementary_count; row++) {
        const mlsi_elementary_row *t = &mlsi_elementary_table[row];
        for (int k = 0; k < 5; k++) {
            float x = f32(nans[k]);
            float g = t->f32_1 ? t->f32_1(x) : t->f32_2(x, 0.7f);
            double d = t->f64_1 ? t->f64_1(nan64(nans[k])) : t->f64_2(0.7, nan64(nans[k]));
            ck_assert_msg(isnan(g) && (bits(g) & 0x400000), "%s: %08x", t->name, bits(g));
            uint64_t u;
            memcpy(&u, &d, sizeof u);
            ck_assert_msg(isnan(d) && (u >> 51 & 1), "f64 %s: %a", t->name, d);
        }
    }
}
END_TEST

/* ---- negative controls: each comparison must be able to fail -----------------------------------
 */

START_TEST(comparisons_see_one_bit) {
    static float x[BLOCK], y[BLOCK], out[BLOCK], changed[BLOCK];
    test_random r = (test_random){seed};
    int exp_row = 0, w = 0;
    for (int i = 0; i < BLOCK; i++)
        x[i] = (float)test_int(&r, -80000, 80000) * 1e-3f;
    widest()->map(exp_row, x, y, out, BLOCK);
    memcpy(changed, out, sizeof out);
    ck_assert_int_eq(first_difference(out, changed, BLOCK), -1);
    changed[700] = nextafterf(changed[700], HUGE_VALF);
    ck_assert_int_eq(first_difference(out, changed, BLOCK), 700);
    ck_assert(worst_error(exp_row, x, y, out, BLOCK, &w) <= 1.0);
    changed[701] = f32(bits(out[701]) + 2);
    ck_assert(worst_error(exp_row, x, y, changed, BLOCK, &w) > 1.0);
    ck_assert_int_eq(w, 701);
    ck_assert(ulp_error_f32(0.0f, -0.0) == HUGE_VAL);
    ck_assert(ulp_error_f32(NAN, 1.0) == HUGE_VAL);
    ck_assert(ulp_error_f32(INFINITY, 1e38) > 1e6);
    ck_assert(ulp_error_f32(0x1p-149f, 0.0) == 1.0);
    ck_assert(ulp_error_f64(nextafter(1.0, 0.0), 1.0L) == 0.5);
    ck_assert(ulp_error_f64(0.0, -0.0L) == HUGE_VAL);
    ck_assert(!same(0.0f, -0.0f) && same(NAN, -NAN) && !same64(0.0, -0.0));
}
END_TEST

int main(void) {
    seed = test_random_seed("elementary", 20260101).state;
    Suite *s = suite_create("elementary");
    TCase *t = tcase_create("elementary");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, f32_within_bounds, 0, mlsi_elementary_count);
    tcase_add_loop_test(t, f64_against_long_double, 0, mlsi_elementary_count);
    tcase_add_test(t, f64_against_mpfr);
    tcase_add_test(t, same_bits_portable);
    tcase_add_test(t, same_bits_avx2);
    tcase_add_test(t, same_bits_avx2_pairs);
    tcase_add_test(t, same_bits_avx512);
    tcase_add_test(t, bits_do_not_depend_on_neighbours);
    tcase_add_test(t, special_values);
    tcase_add_test(t, nan_in_quiet_nan_out);
    tcase_add_test(t, comparisons_see_one_bit);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
