/* Elementary functions against NumPy's validation sets:
 * $MLSYS_NUMPY_DATA/umath-validation-set-NAME.csv, the files of numpy/_core/tests/data in NumPy's
 * wheel. A line is
 *
 *     np.float32,0xargument,0xexpected,tolerance     (np.float64 too; comments start with #)
 *
 * with the expected value correctly rounded. Ours is within our own published bound of the exact
 * value, so at most floor(bound + 1/2) numbers away; NumPy's wider tolerance is not used. */
#include "core/elementary.h"
#include "support/skip.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *file, *name;
} sets[] = {{"arccos", "acos"}, {"arccosh", "acosh"}, {"arcsin", "asin"}, {"arcsinh", "asinh"},
            {"arctan", "atan"}, {"arctanh", "atanh"}, {"cbrt", "cbrt"},   {"cos", "cos"},
            {"cosh", "cosh"},   {"exp", "exp"},       {"exp2", "exp2"},   {"expm1", "expm1"},
            {"log", "log"},     {"log10", "log10"},   {"log1p", "log1p"}, {"log2", "log2"},
            {"sin", "sin"},     {"sinh", "sinh"},     {"tan", "tan"},     {"tanh", "tanh"}};
enum { SETS = sizeof sets / sizeof sets[0] };

static const mlsi_elementary_row *row_named(const char *name) {
    for (int i = 0; i < mlsi_elementary_count; i++)
        if (!strcmp(mlsi_elementary_table[i].name, name)) return &mlsi_elementary_table[i];
    ck_abort_msg("no function %s", name);
    return NULL;
}

/* Position on the line of all numbers, so that neighbours differ by one. */
static int64_t ordinal32(uint32_t u) { return u >> 31 ? -(int64_t)(u & 0x7fffffff) : (int64_t)u; }
static int64_t ordinal64(uint64_t u) {
    return u >> 63 ? -(int64_t)(u & ~(UINT64_C(1) << 63)) : (int64_t)u;
}

/* Distance in numbers between f(argument) and expected, -1 if one is NaN and the other is not. */
static int64_t distance32(const mlsi_elementary_row *t, uint32_t argument, uint32_t expected) {
    float x, want, got;
    uint32_t u;
    memcpy(&x, &argument, 4);
    memcpy(&want, &expected, 4);
    got = t->f32_1(x);
    memcpy(&u, &got, 4);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : -1;
    return llabs(ordinal32(u) - ordinal32(expected));
}
static int64_t distance64(const mlsi_elementary_row *t, uint64_t argument, uint64_t expected) {
    double x, want, got;
    uint64_t u;
    memcpy(&x, &argument, 8);
    memcpy(&want, &expected, 8);
    got = t->f64_1(x);
    memcpy(&u, &got, 8);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : -1;
    return llabs(ordinal64(u) - ordinal64(expected));
}

/* Checks one line; 1 if it held a value of a dtype that we have. */
static int check_line(const mlsi_elementary_row *t, const char *line, uint64_t flip) {
    char dtype[32];
    uint64_t x, want;
    if (sscanf(line, "%31[^,],0x%" SCNx64 ",0x%" SCNx64, dtype, &x, &want) != 3) return 0;
    int wide = !strcmp(dtype, "np.float64");
    if (!wide && strcmp(dtype, "np.float32")) return 0;
    want ^= flip;
    int64_t d = wide ? distance64(t, x, want) : distance32(t, (uint32_t)x, (uint32_t)want);
    int64_t limit = (int64_t)floor((wide ? t->f64_ulp : t->f32_ulp) + 0.5);
    ck_assert_msg((d >= 0 && d <= limit) != (flip != 0), "%s %s: %" PRId64 " numbers away: %s",
                  t->name, dtype, d, line);
    return 1;
}

static FILE *open_set(int i) {
    char path[4096];
    const char *folder = getenv("MLSYS_NUMPY_DATA");
    if (!folder || !*folder) return NULL;
    snprintf(path, sizeof path, "%s/umath-validation-set-%s.csv", folder, sets[i].file);
    return fopen(path, "r");
}

START_TEST(within_our_bound_of_numpy) {
    FILE *f = open_set(_i);
    if (!f) TEST_SKIP("numpy validation set of %s: not in MLSYS_NUMPY_DATA", sets[_i].file);
    const mlsi_elementary_row *t = row_named(sets[_i].name);
    char line[512];
    int n = 0;
    while (fgets(line, sizeof line, f))
        n += check_line(t, line, 0);
    fclose(f);
    printf("%s: %d rows\n", t->name, n);
    ck_assert_int_gt(n, 100);
}
END_TEST

/* A changed expectation must be seen: an expectation moved by eight numbers fails. */
START_TEST(wrong_expectation_is_seen) {
    const mlsi_elementary_row *t = row_named("exp");
    ck_assert_int_eq(check_line(t, "np.float32,0x3f800000,0x402df854,4", 0), 1);
    ck_assert_int_eq(check_line(t, "np.float32,0x3f800000,0x402df854,4", 8), 1);
    ck_assert_int_eq(check_line(t, "np.float32,0x3f800000,0x7fc00000,4", 0x400000), 1);
    ck_assert_int_eq(check_line(t, "np.float64,0x3ff0000000000000,0x4005bf0a8b145769,4", 8), 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("numpy_ulp");
    TCase *t = tcase_create("numpy_ulp");
    suite_add_tcase(s, t);
    tcase_add_loop_test(t, within_our_bound_of_numpy, 0, SETS);
    tcase_add_test(t, wrong_expectation_is_seen);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
