/* Random numbers: published vectors, one value per position whoever asks, sane distributions. */
#include "core/rng.h"
#include "core/dtype.h"
#include "core/fpenv.h"
#include "core/op_attrs.h"
#include "support/random.h"
#include "support/require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

/* The vectors that come with the paper's code: counter words are block, then stream. */
START_TEST(philox_known_answers) {
    static const struct {
        uint64_t key, stream, block;
        uint32_t out[4];
    } rows[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t out[4];
        mlsi_philox(rows[i].key, rows[i].stream, rows[i].block, out);
        for (int w = 0; w < 4; w++)
            ck_assert_uint_eq(out[w], rows[i].out[w]);
    }
}
END_TEST

START_TEST(elements_are_words_of_the_stream) {
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t at = i < 500 ? i : (uint64_t)1 << 40 | i; /* also past 32 bits */
        uint32_t w[4], v[4];
        mlsi_philox(7, 9, at / 4, w);
        mlsi_philox(7, 9, at / 2, v);
        REQUIRE(mlsi_rng_bits32(7, 9, at) == w[at % 4]);
        uint64_t both = (uint64_t)v[at % 2 * 2 + 1] << 32 | v[at % 2 * 2];
        REQUIRE(mlsi_rng_bits64(7, 9, at) == both);
        REQUIRE(mlsi_rng_uniform32(7, 9, at) == (float)(w[at % 4] >> 8) / 16777216.0f);
        REQUIRE(mlsi_rng_uniform64(7, 9, at) == (double)(both >> 11) / 9007199254740992.0);
    }
}
END_TEST

/* Mean, variance, skewness and kurtosis of 2^18 draws, within 5 standard errors. */
static void expect_moments(const double *x, int n, double mean, double variance, double kurtosis) {
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    for (int i = 0; i < n; i++)
        m1 += x[i];
    m1 /= n;
    for (int i = 0; i < n; i++) {
        double d = x[i] - m1;
        m2 += d * d, m3 += d * d * d, m4 += d * d * d * d;
    }
    m2 /= n, m3 /= n, m4 /= n;
    double s = sqrt(variance), se = 5 / sqrt(n);
    ck_assert_double_le(fabs(m1 - mean), se * s);
    ck_assert_double_le(fabs(m2 / variance - 1), se * sqrt(kurtosis - 1));
    ck_assert_double_le(fabs(m3 / (variance * s)), se * 4);
    ck_assert_double_le(fabs(m4 / (variance * variance) - kurtosis), se * 10);
}

START_TEST(distributions) {
    enum { N = 1 << 18 };
    double *x = malloc(N * sizeof *x);
    for (int i = 0; i < N; i++) {
        x[i] = mlsi_rng_uniform32(1, 2, (uint64_t)i);
        REQUIRE(x[i] >= 0 && x[i] < 1);
    }
    expect_moments(x, N, 0.5, 1.0 / 12, 1.8);
    for (int i = 0; i < N; i++)
        x[i] = mlsi_rng_uniform64(3, 4, (uint64_t)i);
    expect_moments(x, N, 0.5, 1.0 / 12, 1.8);
    for (int i = 0; i < N; i++)
        x[i] = mlsi_rng_normal32(5, 6, (uint64_t)i);
    expect_moments(x, N, 0, 1, 3);
    for (int i = 0; i < N; i++)
        x[i] = mlsi_rng_normal64(7, 8, (uint64_t)i);
    expect_moments(x, N, 0, 1, 3);
    int below = 0; /* the normal's lower half and its one-sigma interval */
    for (int i = 0; i < N; i++)
        below += fabs(x[i]) < 1;
    ck_assert_double_le(fabs((double)below / N - 0.6826894921), 0.005);
    free(x);
}
END_TEST

/* Box-Muller computed by libm in f64. */
START_TEST(normals_match_their_formula) {
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t w0 = mlsi_rng_bits32(11, 12, 2 * i), w1 = mlsi_rng_bits32(11, 12, 2 * i + 1);
        double u = ((double)(w0 >> 8) + 1) / 16777216.0, v = (double)(w1 >> 8) / 16777216.0;
        double want = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
        REQUIRE(fabs(mlsi_rng_normal32(11, 12, i) - want) < 4e-6);
        u = ((double)w0 + 1) / 4294967296.0, v = (double)w1 / 4294967296.0;
        want = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
        REQUIRE(fabs(mlsi_rng_normal64(11, 12, i) - want) < 1e-14);
    }
}
END_TEST

/* ---- fill ----------------------------------------------------------------------------------- */

static double element(const void *p, mlsys_dtype dtype, int64_t i) {
    switch (dtype) {
    case MLSYS_F64: return ((const double *)p)[i];
    case MLSYS_F32: return ((const float *)p)[i];
    case MLSYS_F16: return mlsi_f16_to_f32(((const uint16_t *)p)[i]);
    case MLSYS_BF16: return mlsi_bf16_to_f32(((const uint16_t *)p)[i]);
    case MLSYS_F8E4M3: return mlsi_f8e4m3_to_f32(((const uint8_t *)p)[i]);
    case MLSYS_F8E5M2: return mlsi_f8e5m2_to_f32(((const uint8_t *)p)[i]);
    case MLSYS_I64: return (double)((const int64_t *)p)[i];
    case MLSYS_I32: return ((const int32_t *)p)[i];
    case MLSYS_I16: return ((const int16_t *)p)[i];
    case MLSYS_I8: return ((const int8_t *)p)[i];
    default: return ((const uint8_t *)p)[i];
    }
}

static double expected(mlsys_dtype dtype, int kind, uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w = mlsi_rng_bits32(key, stream, i);
    if (kind == MLSI_RANDOM_BITS) {
        if (dtype == MLSYS_I64) return (double)(int64_t)mlsi_rng_bits64(key, stream, i);
        return (double)mlsi_int_wrap((int64_t)w, dtype);
    }
    if (dtype == MLSYS_F64)
        return kind == MLSI_RANDOM_UNIFORM ? mlsi_rng_uniform64(key, stream, i)
                                           : mlsi_rng_normal64(key, stream, i);
    float n = mlsi_rng_normal32(key, stream, i);
    bool uniform = kind == MLSI_RANDOM_UNIFORM;
    switch (dtype) { /* floor to the dtype's significand */
    case MLSYS_F16: return uniform ? (w >> 21) / 2048.0 : mlsi_f16_to_f32(mlsi_f32_to_f16(n));
    case MLSYS_BF16: return uniform ? (w >> 24) / 256.0 : mlsi_bf16_to_f32(mlsi_f32_to_bf16(n));
    case MLSYS_F8E4M3:
        return uniform ? (w >> 28) / 16.0 : mlsi_f8e4m3_to_f32(mlsi_f32_to_f8e4m3(n));
    case MLSYS_F8E5M2: return uniform ? (w >> 29) / 8.0 : mlsi_f8e5m2_to_f32(mlsi_f32_to_f8e5m2(n));
    default: return uniform ? mlsi_rng_uniform32(key, stream, i) : n;
    }
}

START_TEST(fill_is_the_element_functions) {
    int n_dtypes, combinations = 0;
    const mlsys_dtype *dtypes = mlsi_dtype_all(&n_dtypes);
    char buffer[8 * 301];
    for (int t = 0; t < n_dtypes; t++)
        for (int kind = 0; kind < 3; kind++) {
            bool fits = kind == MLSI_RANDOM_BITS ? mlsi_dtype_is_int(dtypes[t])
                                                 : mlsi_dtype_is_float(dtypes[t]);
            ck_assert_int_eq(mlsi_rng_fill(buffer, dtypes[t], kind, 0, 0, 0, 0),
                             fits ? MLSYS_OK : MLSYS_E_DTYPE);
            if (!fits) continue;
            combinations++;
            for (uint64_t first = 0; first < 9; first++) {
                memset(buffer, 0x5a, sizeof buffer);
                check_ok(mlsi_rng_fill(buffer, dtypes[t], kind, 21, 22, first, 300));
                for (int64_t i = 0; i < 300; i++) {
                    double got = element(buffer, dtypes[t], i);
                    REQUIRE(got == expected(dtypes[t], kind, 21, 22, first + (uint64_t)i));
                    REQUIRE(kind != MLSI_RANDOM_UNIFORM || (got >= 0 && got < 1));
                }
                REQUIRE(buffer[mlsi_dtype_size(dtypes[t]) * 300] == 0x5a);
            }
        }
    ck_assert_int_eq(combinations, 5 + 2 * 6);
    ck_assert_int_eq(mlsi_rng_fill(buffer, MLSYS_F32, 3, 0, 0, 0, 0), MLSYS_E_ARG);
}
END_TEST

/* ---- tensors: the same bits for any threads, layout and floating-point state ----------------- */

static uint64_t hash_of(int threads, bool strided, const char *kind) {
    enum { N = 50021 };
    mlsys_config config;
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_tensor t, v;
    check_ok(mlsys_config_create(&config));
    check_ok(mlsys_config_set_i64(config, "threads", threads));
    check_ok(mlsys_ctx_create(config, NULL, &ctx));
    check_ok(mlsys_device_get(ctx, MLSYS_CPU, 0, &device));
    check_ok(mlsys_stream_create(device, NULL, &stream));
    check_ok(mlsys_tensor_create(device, MLSYS_F32, 1, (int64_t[]){strided ? 3 * N : N}, &t));
    check_ok(mlsys_tensor_slice(t, 0, strided ? -1 : 0, strided ? INT64_MIN : INT64_MAX,
                                strided ? -3 : 1, &v));
    check_ok(mlsys_tensor_random(v, stream, kind, 31, 32));
    float *x = malloc(N * sizeof *x);
    check_ok(mlsys_tensor_read(v, stream, x, N * sizeof *x));
    uint64_t h = 14695981039346656037ull;
    for (int i = 0; i < N; i++)
        h = (h ^ mlsi_f32_bits(x[i])) * 1099511628211ull;
    for (int i = 0; i < N; i += 997)
        REQUIRE(x[i] == (float)expected(MLSYS_F32, kind[0] == 'u' ? 1 : 2, 31, 32, (uint64_t)i));
    free(x);
    mlsys_release(v), mlsys_release(t), mlsys_release(stream), mlsys_release(device);
    mlsys_release(ctx), mlsys_release(config);
    return h;
}

START_TEST(threads_layout_and_host_state_do_not_matter) {
    uint64_t uniform = hash_of(1, false, "uniform"), normal = hash_of(1, false, "normal");
    ck_assert_uint_ne(uniform, normal);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int strided = 0; strided < 2; strided++) {
            ck_assert_uint_eq(hash_of(threads, strided, "uniform"), uniform);
            ck_assert_uint_eq(hash_of(threads, strided, "normal"), normal);
        }
}
END_TEST

START_TEST(host_state_is_neither_used_nor_changed) {
#if defined(__x86_64__)
    mlsys_ctx ctx = NULL;
    mlsys_device device = NULL;
    mlsys_stream stream = NULL;
    mlsys_tensor t = NULL;
    float want[512], got[512];
    check_ok(mlsi_rng_fill(want, MLSYS_F32, MLSI_RANDOM_NORMAL, 1, 2, 0, 512));
    uint32_t csr = 0x1f80 | 0x8040 | 0x4000, after[5]; /* FTZ, DAZ, upward */
    uint16_t x87 = 0x0b7f, x87_after;                  /* upward */
    __asm__ volatile("fldcw %0" : : "m"(x87));
    _mm_setcsr(csr);
    mlsys_status st = mlsys_ctx_create(NULL, NULL, &ctx);
    after[0] = _mm_getcsr();
    if (!st) st = mlsys_device_get(ctx, MLSYS_CPU, 0, &device);
    if (!st) st = mlsys_stream_create(device, NULL, &stream);
    if (!st) st = mlsys_tensor_create(device, MLSYS_F32, 1, (int64_t[]){512}, &t);
    after[1] = _mm_getcsr();
    if (!st) st = mlsys_tensor_random(t, stream, "normal", 1, 2);
    after[2] = _mm_getcsr();
    if (!st) st = mlsys_tensor_read(t, stream, got, sizeof got);
    after[3] = _mm_getcsr();
    mlsys_release(t), mlsys_release(stream), mlsys_release(device), mlsys_release(ctx);
    after[4] = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(x87_after));
    _mm_setcsr(0x1f80);
    uint16_t normal = 0x037f;
    __asm__ volatile("fldcw %0" : : "m"(normal));
    check_ok(st);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(after[i], csr);
    ck_assert_uint_eq(x87_after, x87);
    ck_assert_int_eq(memcmp(want, got, sizeof got), 0);
#endif
}
END_TEST

int main(void) {
    Suite *s = suite_create("rng");
    TCase *t = tcase_create("rng");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, philox_known_answers);
    tcase_add_test(t, elements_are_words_of_the_stream);
    tcase_add_test(t, distributions);
    tcase_add_test(t, normals_match_their_formula);
    tcase_add_test(t, fill_is_the_element_functions);
    tcase_add_test(t, threads_layout_and_host_state_do_not_matter);
    tcase_add_test(t, host_state_is_neither_used_nor_changed);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
