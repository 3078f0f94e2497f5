/* The ops around an optimiser's step - learning_rate, sum_squares, clip_norm, all_finite, ema_step - against their
 * formulas, written out in f64, over odd, empty and strided shapes. */
#include "support/program_case.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

static mlsys_config settings(int n, const char *const *keys, const double *values) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    for (int i = 0; i < n; i++)
        if (values[i] == floor(values[i]) && strcmp(keys[i], "rate") && strcmp(keys[i], "floor"))
            OK(mlsys_config_set_i64(c, keys[i], (int64_t)values[i]));
        else
            OK(mlsys_config_set_f64(c, keys[i], values[i]));
    return c;
}

static mlsys_tensor run1(const char *op, int n, const mlsys_tensor *in, mlsys_config c) {
    mlsys_tensor out = NULL;
    OK(mlsys_op_run(pc.stream, op, n, in, c, 1, &out));
    return out;
}

/* ---- learning_rate ------------------------------------------------------------------------- */

enum { CONSTANT, LINEAR, COSINE, INVERSE_SQRT, STEP, WSD };
typedef struct plan {
    const char *name;
    int kind;
    double rate, warmup, steps, floor, factor, every, decay;
} plan;

static double rate_at(const plan *p, int64_t step) {
    double t = step < 1 ? 1 : (double)step, w = p->warmup, share = 1;
    double done = fmin((t - w) / (p->steps - w), 1);
    if (t < w) return p->rate * (t / w);
    switch (p->kind) {
    case LINEAR: share = p->floor + (1 - p->floor) * (1 - done); break;
    case COSINE: share = p->floor + (1 - p->floor) * (0.5 * (1 + cos(M_PI * done))); break;
    case INVERSE_SQRT: share = fmax(p->floor, sqrt(fmax(w, 1) / t)); break;
    case STEP: share = fmax(p->floor, pow(p->factor, floor(fmax(t - w - 1, 0) / p->every))); break;
    case WSD:
        done = fmin(fmax(t - (p->steps - p->decay), 0) / p->decay, 1);
        share = p->floor + (1 - p->floor) * (1 - done);
        break;
    default: break;
    }
    return p->rate * share;
}

START_TEST(schedules) {
    static const plan plans[] = {
        {"constant", CONSTANT, 0.1, 0, 0, 0, 1, 1, 1},
        {"constant", CONSTANT, 0.1, 5, 0, 0, 1, 1, 1},
        {"linear", LINEAR, 3e-4, 10, 100, 0, 1, 1, 1},
        {"linear", LINEAR, 3e-4, 0, 7, 0.25, 1, 1, 1},
        {"cosine", COSINE, 6e-4, 10, 100, 0.1, 1, 1, 1},
        {"cosine", COSINE, 6e-4, 0, 1, 0, 1, 1, 1},
        {"inverse_sqrt", INVERSE_SQRT, 1, 40, 0, 0, 1, 1, 1},
        {"inverse_sqrt", INVERSE_SQRT, 1, 0, 0, 0.2, 1, 1, 1},
        {"step", STEP, 0.5, 3, 0, 0.01, 0.1, 30, 1},
        {"step", STEP, 0.5, 0, 0, 0, 0.5, 1, 1},
        {"wsd", WSD, 0.02, 10, 100, 0, 1, 1, 20},
        {"wsd", WSD, 0.02, 0, 10, 0.5, 1, 1, 10},
    };
    static const char *const keys[] = {"rate",   "warmup", "steps", "floor",
                                       "factor", "every",  "decay"};
    static const int64_t far[] = {INT64_MIN, -1, 0, 1000, (1 << 24) + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        const plan *p = &plans[i];
        mlsys_config c = settings(
            7, keys,
            (double[]){p->rate, p->warmup, p->steps, p->floor, p->factor, p->every, p->decay});
        OK(mlsys_config_set_str(c, "schedule", p->name));
        for (int64_t k = 1; k < 130; k++) {
            int64_t step = k <= 120 ? k : far[k % 6];
            mlsys_tensor in = pc_tensor(&pc, MLSYS_I64, 0, NULL, &step);
            mlsys_tensor out = run1("learning_rate", 1, &in, c);
            double got = *(const float *)rg_view(out).data, want = rate_at(p, step);
            ck_assert_msg(fabs(got - want) <= 6e-8 * p->rate,
                          "%s (row %zu), step %lld: %.9g, not %.9g", p->name, i, (long long)step,
                          got, want);
            pc_release(1, &in);
            pc_release(1, &out);
        }
        OK(mlsys_release(c));
    }
}
END_TEST

/* What a schedule promises by name, without its formula. */
START_TEST(ends) {
    static const char *const keys[] = {"rate", "warmup", "steps", "floor"};
    mlsys_config c = settings(4, keys, (double[]){0.75, 4, 12, 0.5});
    OK(mlsys_config_set_str(c, "schedule", "cosine"));
    static const float want[][2] = {{1, 0.1875f}, {4, 0.75f}, {12, 0.375f}, {99, 0.375f}};
    for (size_t i = 0; i < 4; i++) {
        int64_t step = (int64_t)want[i][0];
        mlsys_tensor in = pc_tensor(&pc, MLSYS_I64, 0, NULL, &step);
        mlsys_tensor out = run1("learning_rate", 1, &in, c);
        ck_assert(*(const float *)rg_view(out).data == want[i][1]);
        pc_release(1, &in);
        pc_release(1, &out);
    }
    OK(mlsys_release(c));
}
END_TEST

/* ---- norms --------------------------------------------------------------------------------- */

static double scalar_of(mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    return kc_get_f(&v, 0);
}

/* sum_squares of a tensor, then of its transpose and of every second row: other orders, the same sum. */
static void squares(mlsys_dtype dtype, int64_t rows, int64_t columns, double tolerance) {
    kc_rng r = kc_seed((uint64_t)(rows * 1000 + columns));
    const int64_t shape[2] = {rows, columns};
    mlsys_tensor x = pc_tensor(&pc, dtype, 2, shape, NULL), turned, half;
    mlsi_view v = rg_view(x);
    double all = 0, even = 0;
    for (int64_t k = 0; k < rows * columns; k++) {
        kc_set_f(&v, k, kc_uniform(&r, -3, 3));
        double y = kc_get_f(&v, k);
        all += y * y;
        if (k / columns % 2 == 0) even += y * y;
    }
    OK(mlsys_tensor_permute(x, 2, (const int32_t[]){1, 0}, &turned));
    OK(mlsys_tensor_slice(x, 0, 0, rows, 2, &half));
    const struct {
        mlsys_tensor t;
        double want;
    } rows_of[] = {{x, all}, {turned, all}, {half, even}};
    for (int i = 0; i < 3; i++) {
        mlsys_tensor out = run1("sum_squares", 1, &rows_of[i].t, NULL);
        double got = scalar_of(out);
        ck_assert_int_eq(rg_view(out).dtype, dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32);
        ck_assert_msg(fabs(got - rows_of[i].want) <= tolerance * (1 + rows_of[i].want),
                      "way %d of [%lld,%lld]: %.17g, not %.17g", i, (long long)rows,
                      (long long)columns, got, rows_of[i].want);
        pc_release(1, &out);
    }
    OK(mlsys_release(half));
    OK(mlsys_release(turned));
    OK(mlsys_release(x));
}

START_TEST(sums_of_squares) {
    static const int64_t shapes[][2] = {{1, 1}, {0, 5}, {3, 0}, {7, 11}, {67, 129}, {3, 5000}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        squares(MLSYS_F64, shapes[i][0], shapes[i][1], 1e-14);
        squares(MLSYS_F32, shapes[i][0], shapes[i][1], 1e-6);
        squares(MLSYS_F16, shapes[i][0], shapes[i][1], 1e-6); /* beyond f16's range */
        squares(MLSYS_BF16, shapes[i][0], shapes[i][1], 1e-6);
    }
}
END_TEST

START_TEST(clips) {
    static const double norms[] = {0, 0.25, 1, 2, 1e9, INFINITY, NAN};
    const double x[5] = {1, -2, 0, 3.5, -0.125};
    const int64_t shape[1] = {5};
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
            static const char *const keys[] = {"max"};
            double max = m ? 0.5 : 1, factor = fmin(1, max / (norms[i] + 1e-6));
            mlsys_config c = m ? settings(1, keys, &max) : NULL;
            mlsys_tensor in[2] = {pc_tensor(&pc, MLSYS_F64, 1, shape, x),
                                  pc_tensor(&pc, MLSYS_F64, 0, NULL, &norms[i])};
            mlsys_tensor out = run1("clip_norm", 2, in, c);
            if (!isfinite(norms[i])) factor = 1;
            for (int k = 0; k < 5; k++)
                ck_assert_msg(((const double *)rg_view(out).data)[k] == x[k] * factor,
                              "max %g, norm %g: element %d is not times %g", max, norms[i], k,
                              factor);
            pc_release(2, in);
            pc_release(1, &out);
            if (c) OK(mlsys_release(c));
        }
}
END_TEST

START_TEST(finiteness) {
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    enum { N = 300 };
    float x[N];
    for (int bad = -1; bad < 3; bad++)
        for (int at = 0; at < N; at += 41) {
            for (int i = 0; i < N; i++)
                x[i] = i % 2 ? FLT_MAX : -1e-40f;
            if (bad >= 0) x[at] = odd[bad];
            mlsys_tensor in = pc_f32(&pc, N, x), out = run1("all_finite", 1, &in, NULL);
            ck_assert_int_eq(*(const uint8_t *)rg_view(out).data, bad < 0);
            pc_release(1, &in);
            pc_release(1, &out);
        }
}
END_TEST

START_TEST(moving_average) {
    enum { N = 67 };
    const int64_t shape[1] = {N};
    double e[N], w[N];
    kc_rng r = kc_seed(5);
    for (int i = 0; i < N; i++)
        e[i] = kc_uniform(&r, -2, 2);
    double want[N];
    memcpy(want, e, sizeof e);
    for (int step = 0; step < 20; step++) {
        static const char *const keys[] = {"decay"};
        mlsys_config c = settings(1, keys, (double[]){0.9});
        for (int i = 0; i < N; i++) {
            w[i] = kc_uniform(&r, -2, 2);
            want[i] = 0.9 * want[i] + 0.1 * w[i];
        }
        mlsys_tensor in[2] = {pc_tensor(&pc, MLSYS_F64, 1, shape, e),
                              pc_tensor(&pc, MLSYS_F64, 1, shape, w)};
        mlsys_tensor out = run1("ema_step", 2, in, c);
        memcpy(e, rg_view(out).data, sizeof e);
        pc_release(2, in);
        pc_release(1, &out);
        OK(mlsys_release(c));
    }
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(e[i] - want[i]) <= 1e-14, "[%d] is %.17g, not %.17g", i, e[i], want[i]);
}
END_TEST

int main(void) {
    Suite *s = suite_create("train_ops");
    TCase *tc = tcase_create("train_ops");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, schedules);
    tcase_add_test(tc, ends);
    tcase_add_test(tc, sums_of_squares);
    tcase_add_test(tc, clips);
    tcase_add_test(tc, finiteness);
    tcase_add_test(tc, moving_average);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
