/* dtypes: facts, and every conversion against a reference that searches the table of all values. */
#include "core/dtype.h"
#include "support/random.h"
#include "support/require.h"

#include <math.h>
#include <string.h>

/* ---- facts ---------------------------------------------------------------------------------- */

START_TEST(codes_and_sizes_are_frozen) {
    static const struct {
        mlsys_dtype code;
        int value, elems, bytes;
        const char *name;
    } rows[] = {
        {MLSYS_F64, 1, 1, 8, "f64"},        {MLSYS_F32, 2, 1, 4, "f32"},
        {MLSYS_F16, 3, 1, 2, "f16"},        {MLSYS_BF16, 4, 1, 2, "bf16"},
        {MLSYS_F8E4M3, 5, 1, 1, "f8e4m3"},  {MLSYS_F8E5M2, 6, 1, 1, "f8e5m2"},
        {MLSYS_I64, 16, 1, 8, "i64"},       {MLSYS_I32, 17, 1, 4, "i32"},
        {MLSYS_I16, 18, 1, 2, "i16"},       {MLSYS_I8, 19, 1, 1, "i8"},
        {MLSYS_U8, 24, 1, 1, "u8"},         {MLSYS_BOOL, 32, 1, 1, "bool"},
        {MLSYS_Q4_0, 64, 32, 18, "q4_0"},   {MLSYS_Q4_1, 67, 32, 20, "q4_1"},
        {MLSYS_Q5_0, 68, 32, 22, "q5_0"},   {MLSYS_Q5_1, 69, 32, 24, "q5_1"},
        {MLSYS_Q8_0, 70, 32, 34, "q8_0"},   {MLSYS_Q4_K, 72, 256, 144, "q4_k"},
        {MLSYS_Q5_K, 73, 256, 176, "q5_k"}, {MLSYS_Q6_K, 74, 256, 210, "q6_k"},
    };
    enum { ROWS = (int)(sizeof rows / sizeof rows[0]) };
    int n;
    const mlsys_dtype *all = mlsi_dtype_all(&n);
    ck_assert_int_eq(n, ROWS);
    for (int i = 0; i < ROWS; i++) {
        const mlsi_dtype_info *info = mlsi_dtype_get(rows[i].code);
        ck_assert_int_eq(rows[i].code, rows[i].value);
        ck_assert_int_eq(all[i], rows[i].code);
        ck_assert_int_eq(info->block_elems, rows[i].elems);
        ck_assert_int_eq(info->block_bytes, rows[i].bytes);
        ck_assert_str_eq(info->name, rows[i].name);
        ck_assert_int_eq(mlsi_dtype_by_name(rows[i].name), rows[i].code);
        ck_assert_int_eq(mlsi_dtype_is_float(rows[i].code), info->class_ == MLSI_CLASS_FLOAT);
        ck_assert_int_eq(mlsi_dtype_is_int(rows[i].code), info->class_ == MLSI_CLASS_INT);
        ck_assert_int_eq(mlsi_dtype_is_block(rows[i].code), info->class_ == MLSI_CLASS_BLOCK);
        int32_t elems, bytes;
        const char *name;
        ck_assert_int_eq(mlsys_dtype_info(rows[i].code, &elems, &bytes, &name), MLSYS_OK);
        ck_assert(elems == rows[i].elems && bytes == rows[i].bytes && !strcmp(name, rows[i].name));
    }
    for (mlsys_dtype t = -1; t < 200; t++) {
        bool known = false;
        for (int i = 0; i < ROWS; i++)
            known = known || rows[i].code == t;
        ck_assert_int_eq(mlsi_dtype_get(t) != NULL, known);
        ck_assert_int_eq(mlsys_dtype_info(t, NULL, NULL, NULL), known ? MLSYS_OK : MLSYS_E_DTYPE);
    }
    ck_assert_int_eq(mlsi_dtype_by_name("f99"), 0);
}
END_TEST

/* ---- small floats --------------------------------------------------------------------------- */

typedef struct format {
    const char *name;
    int exp_bits, man_bits;
    bool has_inf;
    float (*up)(uint32_t);
    uint32_t (*from_f32)(float);
    uint32_t (*from_f64)(double);
} format;

static float up_f16(uint32_t h) { return mlsi_f16_to_f32((uint16_t)h); }
static float up_bf16(uint32_t h) { return mlsi_bf16_to_f32((uint16_t)h); }
static float up_e4m3(uint32_t h) { return mlsi_f8e4m3_to_f32((uint8_t)h); }
static float up_e5m2(uint32_t h) { return mlsi_f8e5m2_to_f32((uint8_t)h); }
static uint32_t f16_of_f32(float f) { return mlsi_f32_to_f16(f); }
static uint32_t bf16_of_f32(float f) { return mlsi_f32_to_bf16(f); }
static uint32_t e4m3_of_f32(float f) { return mlsi_f32_to_f8e4m3(f); }
static uint32_t e5m2_of_f32(float f) { return mlsi_f32_to_f8e5m2(f); }
static uint32_t f16_of_f64(double f) { return mlsi_f64_to_f16(f); }
static uint32_t bf16_of_f64(double f) { return mlsi_f64_to_bf16(f); }
static uint32_t e4m3_of_f64(double f) { return mlsi_f64_to_f8e4m3(f); }
static uint32_t e5m2_of_f64(double f) { return mlsi_f64_to_f8e5m2(f); }

static const format formats[] = {
    {"f16", 5, 10, true, up_f16, f16_of_f32, f16_of_f64},
    {"bf16", 8, 7, true, up_bf16, bf16_of_f32, bf16_of_f64},
    {"f8e4m3", 4, 3, false, up_e4m3, e4m3_of_f32, e4m3_of_f64},
    {"f8e5m2", 5, 2, true, up_e5m2, e5m2_of_f32, e5m2_of_f64},
};
enum { FORMATS = 4, VALUES_MAX = 1 << 15 };

static int bits_of(const format *f) { return 1 + f->exp_bits + f->man_bits; }

/* Non-negative finite values in order: value[p] is what pattern p means, by the definition. */
static int table_of(const format *f, double *value) {
    int n = 0, bias = (1 << (f->exp_bits - 1)) - 1, last_exp = (1 << f->exp_bits) - 1;
    for (int e = 0; e <= last_exp; e++)
        for (int m = 0; m < 1 << f->man_bits; m++) {
            bool special = e == last_exp && (f->has_inf || m == (1 << f->man_bits) - 1);
            if (special) return n;
            double fraction = m / exp2(f->man_bits);
            value[n++] = e ? (1 + fraction) * exp2(e - bias) : fraction * exp2(1 - bias);
        }
    return n;
}

START_TEST(widening_is_exact_for_every_pattern) {
    static double value[VALUES_MAX];
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        int n = table_of(f, value), half = 1 << (bits_of(f) - 1);
        for (int p = 0; p < half; p++) {
            float plus = f->up((uint32_t)p), minus = f->up((uint32_t)(p + half));
            if (p < n) {
                REQUIRE(plus == value[p] && minus == -value[p]);
                REQUIRE(signbit(minus) && !signbit(plus));
            } else if (f->has_inf && p == n) {
                REQUIRE(plus == INFINITY && minus == -INFINITY);
            } else {
                REQUIRE(isnan(plus) && isnan(minus) && signbit(minus) && !signbit(plus));
            }
        }
    }
}
END_TEST

/* Nearest value, ties to the even pattern, by bisection; the largest value's neighbour decides
 * overflow. */
static uint32_t reference(const format *f, const double *value, int n, double x) {
    uint32_t sign = signbit(x) ? 1u << (bits_of(f) - 1) : 0;
    double a = fabs(x);
    if (isnan(x)) return UINT32_MAX;
    if (isinf(x)) return f->has_inf ? sign | (uint32_t)n : UINT32_MAX;
    double step = value[n - 1] - value[n - 2], beyond = value[n - 1] + step / 2;
    if (a >= beyond) return sign | (uint32_t)(f->has_inf ? n : n - 1);
    if (a >= value[n - 1]) return sign | (uint32_t)(n - 1);
    int low = 0, high = n - 1; /* value[low] <= a < value[high] */
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (value[mid] <= a)
            low = mid;
        else
            high = mid;
    }
    double middle = (value[low] + value[high]) / 2; /* exact: few bits */
    if (a < middle) return sign | (uint32_t)low;
    if (a > middle) return sign | (uint32_t)high;
    return sign | (uint32_t)(low % 2 ? high : low);
}

static void expect_pattern(const format *f, uint32_t got, uint32_t want, double x) {
    bool ok =
        want == UINT32_MAX ? isnan(f->up(got)) && !signbit(f->up(got)) == !signbit(x) : got == want;
    if (!ok) ck_abort_msg("%s(%a): 0x%x, not 0x%x", f->name, x, got, want);
}

static void narrow_both(const format *f, const double *value, int n, double x) {
    expect_pattern(f, f->from_f64(x), reference(f, value, n, x), x);
    expect_pattern(f, f->from_f64(-x), reference(f, value, n, -x), -x);
    float y = (float)x;
    expect_pattern(f, f->from_f32(y), reference(f, value, n, y), y);
    expect_pattern(f, f->from_f32(-y), reference(f, value, n, -y), -y);
}

/* Around every value and every midpoint: itself, and the next f32 and f64 on both sides. A rounding
 * through f32 first would be caught at the f64 neighbours of midpoints. */
START_TEST(narrowing_at_every_boundary) {
    static double value[VALUES_MAX];
    for (int k = 0; k < FORMATS; k++) {
        int n = table_of(&formats[k], value);
        for (int p = 0; p < n; p++) {
            double next = p + 1 < n ? value[p + 1] : 2 * value[p] - value[p - 1];
            double points[2] = {value[p], (value[p] + next) / 2};
            for (int i = 0; i < 2; i++) {
                double x = points[i];
                float y = (float)x;
                narrow_both(&formats[k], value, n, x);
                narrow_both(&formats[k], value, n, nextafter(x, INFINITY));
                narrow_both(&formats[k], value, n, nextafter(x, 0));
                narrow_both(&formats[k], value, n, nextafterf(y, INFINITY));
                narrow_both(&formats[k], value, n, nextafterf(y, 0));
            }
        }
        static const double odd[] = {INFINITY,
                                     NAN,
                                     0.0,
                                     0x1p-1074,
                                     0x1p-149,
                                     0x1p-150,
                                     0x1p-1022,
                                     0x1.fffffep127,
                                     0x1.fffffffffffffp1023,
                                     65519,
                                     65520,
                                     464,
                                     448,
                                     480,
                                     57344,
                                     61440};
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
            narrow_both(&formats[k], value, n, odd[i]);
    }
}
END_TEST

START_TEST(narrowing_of_random_and_swept_patterns) {
    static double value[VALUES_MAX];
    test_random r = test_random_seed("narrowing", 9);
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        int n = table_of(f, value);
        for (uint64_t u = 0; u <= UINT32_MAX; u += 9973) { /* prime: all mantissa ends occur */
            float x = mlsi_bits_f32((uint32_t)u);
            expect_pattern(f, f->from_f32(x), reference(f, value, n, x), x);
        }
        for (int i = 0; i < 200000; i++) {
            double x;
            uint64_t u = test_bits(&r);
            if (i % 2) /* exponents in the format's range */
                u = (u & ~(0x7ffull << 52)) | (uint64_t)(test_int(&r, 850, 1200)) << 52;
            memcpy(&x, &u, 8);
            expect_pattern(f, f->from_f64(x), reference(f, value, n, x), x);
        }
    }
}
END_TEST

/* ---- integers ------------------------------------------------------------------------------- */

static const struct {
    mlsys_dtype dtype;
    int64_t min, max;
} ranges[] = {{MLSYS_I64, INT64_MIN, INT64_MAX},
              {MLSYS_I32, INT32_MIN, INT32_MAX},
              {MLSYS_I16, INT16_MIN, INT16_MAX},
              {MLSYS_I8, INT8_MIN, INT8_MAX},
              {MLSYS_U8, 0, UINT8_MAX}};

static int64_t saturate(long double x, int64_t min, int64_t max) {
    if (isnan(x)) return 0;
    x = truncl(x);
    return x < (long double)min ? min : x > (long double)max ? max : (int64_t)x;
}

START_TEST(floats_truncate_and_saturate) {
    test_random r = test_random_seed("saturate", 10);
    for (int k = 0; k < 5; k++) {
        int64_t min = ranges[k].min, max = ranges[k].max;
        double edges[] = {
            (double)min, (double)max, 0.0,    -0.0,         0.5,          -0.5,         -1,
            1,           1e30,        -1e30,  0x1p63,       -0x1p63,      0x1p62,       INFINITY,
            -INFINITY,   NAN,         -NAN,   0x1p-1074,    254.5,        255.5,        127.9,
            128.1,       -128.9,      -129.1, 2147483646.5, 2147483648.5, -2147483649.5};
        for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
            for (int step = -1; step <= 1; step++) {
                double x = step ? nextafter(edges[i], step * INFINITY) : edges[i];
                if (mlsi_f64_to_int(x, ranges[k].dtype) != saturate(x, min, max))
                    ck_abort_msg("%a to %s: %lld", x, mlsi_dtype_get(ranges[k].dtype)->name,
                                 (long long)mlsi_f64_to_int(x, ranges[k].dtype));
            }
        for (int i = 0; i < 100000; i++) {
            uint64_t u = (test_bits(&r) & ~(0x7ffull << 52)) | (uint64_t)test_int(&r, 1010, 1090)
                                                                   << 52;
            double x;
            memcpy(&x, &u, 8);
            REQUIRE(mlsi_f64_to_int(x, ranges[k].dtype) == saturate(x, min, max));
        }
    }
    ck_assert_int_eq(mlsi_f64_to_int(NAN, MLSYS_BOOL), 1);
    ck_assert_int_eq(mlsi_f64_to_int(0.25, MLSYS_BOOL), 1);
    ck_assert_int_eq(mlsi_f64_to_int(-0.0, MLSYS_BOOL), 0);
}
END_TEST

START_TEST(integers_wrap) {
    test_random r = test_random_seed("wrap", 11);
    for (int k = 0; k < 5; k++) {
        __int128 width = (__int128)ranges[k].max - ranges[k].min + 1;
        for (int i = 0; i < 20000; i++) {
            int64_t v = (int64_t)test_bits(&r) >> test_int(&r, 0, 63);
            __int128 w = ((__int128)v - ranges[k].min) % width;
            if (w < 0) w += width;
            REQUIRE(mlsi_int_wrap(v, ranges[k].dtype) == (int64_t)(w + ranges[k].min));
        }
    }
    ck_assert_int_eq(mlsi_int_wrap(-7, MLSYS_BOOL), 1);
    ck_assert_int_eq(mlsi_int_wrap(0, MLSYS_BOOL), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("dtype");
    TCase *t = tcase_create("dtype");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, codes_and_sizes_are_frozen);
    tcase_add_test(t, widening_is_exact_for_every_pattern);
    tcase_add_test(t, narrowing_at_every_boundary);
    tcase_add_test(t, narrowing_of_random_and_swept_patterns);
    tcase_add_test(t, floats_truncate_and_saturate);
    tcase_add_test(t, integers_wrap);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
