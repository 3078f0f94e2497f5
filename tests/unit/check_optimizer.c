/* sgd_step, adam_step and lion_step over several steps against their papers' formulas, written out in f64. */
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 7, STEPS = 6 };
static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static double gradient(int i, int step) { return sin(1.7 * i + 0.9 * step) * (i == 3 ? 0 : 1); }

static mlsys_config settings(const char *text) {
    mlsys_config c;
    char key[64];
    double value;
    int used;
    OK(mlsys_config_create(&c));
    for (; sscanf(text, " %63[^=]=%lf%n", key, &value, &used) == 2; text += used)
        if (!strcmp(key, "nesterov") || !strcmp(key, "decoupled"))
            OK(mlsys_config_set_i64(c, key, (int64_t)value));
        else
            OK(mlsys_config_set_f64(c, key, value));
    return c;
}

typedef struct state {
    double w[N], m[N], v[N];
} state;

/* STEPS steps of the op from w = 1, 2, ..., moments 0; count: does it take v and the count? */
static state run(const char *op, const char *attrs, int moments, double lr) {
    state s = {{0}, {0}, {0}};
    const int64_t shape[1] = {N};
    mlsys_config c = settings(attrs);
    for (int i = 0; i < N; i++)
        s.w[i] = i + 1;
    for (int64_t step = 1; step <= STEPS; step++) {
        double g[N];
        mlsys_tensor in[6], out[3] = {0};
        for (int i = 0; i < N; i++)
            g[i] = gradient(i, (int)step);
        in[0] = pc_tensor(&pc, MLSYS_F64, 1, shape, s.w);
        in[1] = pc_tensor(&pc, MLSYS_F64, 1, shape, g);
        in[2] = pc_tensor(&pc, MLSYS_F64, 0, NULL, &lr);
        in[3] = pc_tensor(&pc, MLSYS_F64, 1, shape, s.m);
        in[4] = pc_tensor(&pc, MLSYS_F64, 1, shape, s.v);
        in[5] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &step);
        OK(mlsys_op_run(pc.stream, op, moments == 2 ? 6 : 3 + moments, in, c, 1 + moments, out));
        memcpy(s.w, rg_view(out[0]).data, sizeof s.w);
        if (moments) memcpy(s.m, rg_view(out[1]).data, sizeof s.m);
        if (moments > 1) memcpy(s.v, rg_view(out[2]).data, sizeof s.v);
        pc_release(6, in);
        pc_release(1 + moments, out);
    }
    OK(mlsys_release(c));
    return s;
}

static void expect_close(const char *what, const double *got, const double *want) {
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= 1e-13 * fmax(1, fabs(want[i])),
                      "%s[%d] is %.17g, not %.17g", what, i, got[i], want[i]);
}

START_TEST(sgd) {
    static const struct {
        const char *attrs;
        int moments;
        double momentum, dampening, decay;
        bool nesterov;
    } rows[] = {{"", 0, 0, 0, 0, false},
                {"weight_decay=0.1", 0, 0, 0, 0.1, false},
                {"", 1, 0.9, 0, 0, false},
                {"momentum=0.5 dampening=0.25 weight_decay=0.01", 1, 0.5, 0.25, 0.01, false},
                {"momentum=0.8 nesterov=1", 1, 0.8, 0, 0, true}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double w[N], m[N] = {0};
        state got = run("sgd_step", rows[r].attrs, rows[r].moments, 0.05);
        for (int i = 0; i < N; i++) {
            w[i] = i + 1;
            for (int step = 1; step <= STEPS; step++) {
                double d = gradient(i, step) + rows[r].decay * w[i];
                m[i] = rows[r].momentum * m[i] + (1 - rows[r].dampening) * d;
                if (rows[r].moments) d = rows[r].nesterov ? d + rows[r].momentum * m[i] : m[i];
                w[i] -= 0.05 * d;
            }
        }
        expect_close("w", got.w, w);
        if (rows[r].moments) expect_close("m", got.m, m);
    }
}
END_TEST

START_TEST(adam) {
    static const struct {
        const char *attrs;
        double beta1, beta2, eps, decay;
        bool decoupled;
    } rows[] = {{"", 0.9, 0.999, 1e-8, 0.01, true},
                {"weight_decay=0", 0.9, 0.999, 1e-8, 0, true},
                {"beta1=0.5 beta2=0.75 eps=0.001 weight_decay=0.2", 0.5, 0.75, 1e-3, 0.2, true},
                {"weight_decay=0.1 decoupled=0", 0.9, 0.999, 1e-8, 0.1, false}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double w[N], m[N] = {0}, v[N] = {0};
        state got = run("adam_step", rows[r].attrs, 2, 0.01);
        for (int i = 0; i < N; i++) {
            w[i] = i + 1;
            for (int step = 1; step <= STEPS; step++) {
                double g = gradient(i, step) + (rows[r].decoupled ? 0 : rows[r].decay * w[i]);
                if (rows[r].decoupled) w[i] -= 0.01 * rows[r].decay * w[i];
                m[i] = rows[r].beta1 * m[i] + (1 - rows[r].beta1) * g;
                v[i] = rows[r].beta2 * v[i] + (1 - rows[r].beta2) * g * g;
                double mean = m[i] / (1 - pow(rows[r].beta1, step));
                double square = v[i] / (1 - pow(rows[r].beta2, step));
                w[i] -= 0.01 * mean / (sqrt(square) + rows[r].eps);
            }
        }
        expect_close("w", got.w, w);
        expect_close("m", got.m, m);
        expect_close("v", got.v, v);
    }
}
END_TEST

/* In f32 a first step is lr * g / (|g| + eps) too: 1 - beta^count keeps its bits. */
START_TEST(adam_first_step_in_f32) {
    enum { BIG = 5000 }; /* also for the kernel, which takes blocks */
    static float w[BIG], g[BIG], zero[BIG];
    const int64_t shape[1] = {BIG}, count = 1;
    const float lr = 0.01f;
    mlsys_tensor in[6], out[3] = {0};
    for (int i = 0; i < BIG; i++)
        g[i] = (float)(i % 2 ? 1 + i : -1 - i);
    in[0] = pc_tensor(&pc, MLSYS_F32, 1, shape, w);
    in[1] = pc_tensor(&pc, MLSYS_F32, 1, shape, g);
    in[2] = pc_tensor(&pc, MLSYS_F32, 0, NULL, &lr);
    in[3] = pc_tensor(&pc, MLSYS_F32, 1, shape, zero);
    in[4] = pc_tensor(&pc, MLSYS_F32, 1, shape, zero);
    in[5] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &count);
    OK(mlsys_op_run(pc.stream, "adam_step", 6, in, NULL, 3, out));
    const float *step = rg_view(out[0]).data;
    for (int i = 0; i < BIG; i++) {
        double want = i % 2 ? -(double)lr : (double)lr;
        ck_assert_msg(fabs(step[i] - want) <= 4e-7 * fabs(want), "w[%d] is %.9g, not %.9g", i,
                      (double)step[i], want);
    }
    pc_release(6, in);
    pc_release(3, out);
}
END_TEST

START_TEST(lion) {
    double w[N], m[N] = {0};
    state got = run("lion_step", "beta1=0.8 beta2=0.95 weight_decay=0.1", 1, 0.02);
    for (int i = 0; i < N; i++) {
        w[i] = i + 1;
        for (int step = 1; step <= STEPS; step++) {
            double g = gradient(i, step), u = 0.8 * m[i] + 0.2 * g;
            w[i] -= 0.02 * 0.1 * w[i] + 0.02 * ((u > 0) - (u < 0));
            m[i] = 0.95 * m[i] + 0.05 * g;
        }
    }
    expect_close("w", got.w, w);
    expect_close("m", got.m, m);
}
END_TEST

int main(void) {
    Suite *s = suite_create("optimizer");
    TCase *tc = tcase_create("optimizer");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sgd);
    tcase_add_test(tc, adam);
    tcase_add_test(tc, adam_first_step_in_f32);
    tcase_add_test(tc, lion);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
