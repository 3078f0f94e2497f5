/* cpu/soft_float.h against the C library, bit for bit: special values in all combinations, then random operands of the kinds that
 * are hard: near cancellation, ties, subnormal results, overflow. */
#include "core/faults.h"
#define SOFT_FAULT                                                                                 \
    (mlsi_fault(MLSI_FAULT_SOFT_STICKY) ? 1 : mlsi_fault(MLSI_FAULT_SOFT_ROOT) ? 2 : 0)
#include "cpu/soft_float.h"
#include "support/random.h"
#include "support/require.h"

#include <math.h>
#include <string.h>

static float f32_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t bits32(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static void same(const char *what, double got, double want, double a, double b, double c) {
    if ((got != got && want != want) || soft_bits(got) == soft_bits(want)) return;
    ck_abort_msg("%s(%a, %a, %a) = %a, not %a", what, a, b, c, got, want);
}
static void same32(const char *what, float got, float want, float a, float b, float c) {
    if ((got != got && want != want) || bits32(got) == bits32(want)) return;
    ck_abort_msg("%s(%a, %a, %a) = %a, not %a", what, (double)a, (double)b, (double)c, (double)got,
                 (double)want);
}

static void check_f64(double a, double b, double c) {
    same("fma", soft_fma(a, b, c), fma(a, b, c), a, b, c);
    same("fmod", soft_fmod(a, b), fmod(a, b), a, b, 0);
    same("sqrt", soft_sqrt(a), sqrt(a), a, 0, 0);
    same("floor", soft_floor(a), floor(a), a, 0, 0);
    same("ceil", soft_ceil(a), ceil(a), a, 0, 0);
    same("trunc", soft_trunc(a), trunc(a), a, 0, 0);
    same("rint", soft_rint(a), nearbyint(a), a, 0, 0);
}
static void check_f32(float a, float b, float c) {
    same32("fmaf", soft_fmaf(a, b, c), fmaf(a, b, c), a, b, c);
    same32("fmodf", soft_fmodf(a, b), fmodf(a, b), a, b, 0);
    same32("sqrtf", soft_sqrtf(a), sqrtf(a), a, 0, 0);
}

START_TEST(special_values) {
    static const double x[] = {0,
                               1,
                               1.5,
                               3,
                               0.5,
                               0x1p52,
                               0x1p53,
                               0x1.fffffffffffffp51,
                               0x1.fffffffffffffp52,
                               0x1.0000000000001p0,
                               0x1.fffffffffffffp-1,
                               0x1p-1022,
                               0x0.fffffffffffffp-1022,
                               0x1p-1074,
                               0x1.8p-537,
                               0x1p-538,
                               0x1.fffffffffffffp1023,
                               0x1p1023,
                               0x1p512,
                               0x1p-149,
                               0x1p-126,
                               0x1.fffffep127,
                               0x1.000002p0,
                               0x1p-60,
                               INFINITY,
                               NAN};
    enum { N = 2 * sizeof x / sizeof x[0] };
    double all[N];
    for (int i = 0; i < N; i++)
        all[i] = i % 2 ? -x[i / 2] : x[i / 2];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) {
                check_f64(all[i], all[j], all[k]);
                check_f32((float)all[i], (float)all[j], (float)all[k]);
            }
}
END_TEST

/* Bits of an f64 whose exponent is within `spread` of `around`, and whose mantissa is sparse now and then. */
static double near(test_random *r, int around, int spread) {
    uint64_t man = test_bits(r) >> 12, exp = (uint64_t)(around + test_int(r, -spread, spread));
    uint64_t kind = test_bits(r) % 4;
    if (kind == 0) man = 0;
    if (kind == 1) man &= UINT64_C(0xfffff) << (test_bits(r) % 33);
    return soft_of_bits(test_bits(r) << 63 | (exp & 2047) << 52 | man);
}

START_TEST(random_f64) {
    test_random r = test_random_seed("f64", 64);
    for (int i = 0; i < 200000; i++) {
        double a = near(&r, 1023, 60), b = near(&r, 1023, 60), c = near(&r, 1023, 120);
        check_f64(a, b, c);
        check_f64(a, b, -a * b);         /* what is left of the rounded product */
        check_f64(a, b, a * b * 0x1p53); /* about half a unit */
        check_f64(near(&r, 520, 520), near(&r, 520, 520), near(&r, 20, 20));     /* subnormal */
        check_f64(near(&r, 1600, 420), near(&r, 1600, 420), near(&r, 2020, 26)); /* overflow */
        check_f64(soft_of_bits(test_bits(&r)), soft_of_bits(test_bits(&r)),
                  soft_of_bits(test_bits(&r)));
    }
}
END_TEST

START_TEST(random_f32) {
    test_random r = test_random_seed("f32", 32);
    for (int i = 0; i < 1000000; i++) {
        float a = f32_of((uint32_t)test_bits(&r)), b = f32_of((uint32_t)test_bits(&r));
        float c = f32_of((uint32_t)test_bits(&r));
        check_f32(a, b, c);
        if (!isfinite(a) || !isfinite(b)) continue;
        int e; /* of like magnitudes */
        a = frexpf(a, &e), b = ldexpf(frexpf(b, &e), (int)test_int(&r, -20, 20));
        check_f32(a, b, -a * b);
        check_f32(a, b, a * b * 0x1p24f);
        check_f32(a, b, ldexpf(frexpf(c, &e), (int)test_int(&r, -40, 40)));
        check_f32(ldexpf(a, -100), ldexpf(b, -40), ldexpf(c, -120));
        /* ties of the f32, decided far below: 1 + 2^-24 and a product of 2^-60 */
        check_f32(a * 0x1p-60f, 0x1p-20f, 1 + 0x1p-23f * (float)test_int(&r, 0, 3));
    }
}
END_TEST

/* A byte in turn at each place, nothing beside the range. */
START_TEST(copies) {
    unsigned char from[40], to[40];
    for (size_t n = 0; n <= 32; n++) {
        memset(to, 7, sizeof to);
        for (size_t i = 0; i < sizeof from; i++)
            from[i] = (unsigned char)(i * 37 + n);
        ck_assert_ptr_eq(soft_copy(to + 3, from, n), to + 3);
        for (size_t i = 0; i < sizeof to; i++)
            ck_assert_int_eq(to[i], i >= 3 && i < 3 + n ? from[i - 3] : 7);
        ck_assert_ptr_eq(soft_fill(to + 3, 300, n), to + 3);
        for (size_t i = 0; i < sizeof to; i++)
            ck_assert_int_eq(to[i], i >= 3 && i < 3 + n ? 44 : 7);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("soft_float");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, special_values);
    tcase_add_test(tc, random_f64);
    tcase_add_test(tc, random_f32);
    tcase_add_test(tc, copies);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
