/* adafactor_step and muon_step over several steps against their papers' formulas, written out in f64. */
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, CAP = 600 };
static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

/* A parameter [batch, rows, columns] with its gradient of a step; batch and rows of 0 are left out of the shape. */
typedef struct matrix {
    int64_t batch, rows, columns;
} matrix;

static int64_t count_of(const matrix *m) {
    return (m->batch ? m->batch : 1) * (m->rows ? m->rows : 1) * m->columns;
}
static double weight(int64_t i) { return 0.5 * cos(0.7 * (double)i) + 0.1; }
static double gradient(int64_t i, int64_t step) {
    return sin(1.7 * (double)i + 0.9 * (double)step) * (i == 3 ? 0 : 1);
}

static mlsys_tensor tensor_of(const matrix *m, bool rows, bool columns, const double *data) {
    int64_t shape[3];
    int rank = 0;
    if (m->batch) shape[rank++] = m->batch;
    if (m->rows && rows) shape[rank++] = m->rows;
    if (columns) shape[rank++] = m->columns;
    return pc_tensor(&pc, MLSYS_F64, rank, shape, data);
}

static void expect_close(const char *what, int64_t n, const double *got, const double *want,
                         double tolerance) {
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])),
                      "%s[%lld] is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
}

/* ---- adafactor ----------------------------------------------------------------------------- */

typedef struct adafactor {
    double decay_rate, eps, eps_w, clip, weight_decay, lr;
    bool relative, scale, factored;
} adafactor;

static double size_of(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* Estimates of the second moment from the factors of one matrix. */
static void factor(const adafactor *a, const matrix *m, double fresh, const double *g, double *r,
                   double *c, double *v) {
    double all = 0;
    for (int64_t i = 0; i < m->rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < m->columns; j++)
            sum += g[i * m->columns + j] * g[i * m->columns + j] + a->eps;
        r[i] += fresh * (sum / (double)m->columns - r[i]);
        all += r[i] / (double)m->rows;
    }
    for (int64_t j = 0; j < m->columns; j++) {
        double sum = 0;
        for (int64_t i = 0; i < m->rows; i++)
            sum += g[i * m->columns + j] * g[i * m->columns + j] + a->eps;
        c[j] += fresh * (sum / (double)m->rows - c[j]);
    }
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->columns; j++)
            v[i * m->columns + j] = r[i] * c[j] / all;
}

static void reference(const adafactor *a, const matrix *m, int64_t step, double *w, double *v,
                      double *c) {
    int64_t n = count_of(m), each = m->rows * m->columns;
    double g[CAP], u[CAP], estimate[CAP], fresh = pow((double)step, -a->decay_rate);
    for (int64_t i = 0; i < n; i++)
        g[i] = gradient(i, step);
    if (a->factored) {
        for (int64_t b = 0; b < (m->batch ? m->batch : 1); b++)
            factor(a, m, fresh, g + b * each, v + b * m->rows, c + b * m->columns,
                   estimate + b * each);
    } else {
        for (int64_t i = 0; i < n; i++)
            estimate[i] = v[i] += fresh * (g[i] * g[i] + a->eps - v[i]);
    }
    for (int64_t i = 0; i < n; i++)
        u[i] = g[i] / sqrt(estimate[i]);
    double rho = a->relative ? fmin(a->lr, 1 / sqrt((double)step)) : a->lr;
    if (a->scale) rho *= fmax(a->eps_w, size_of(w, n));
    rho /= fmax(1, size_of(u, n) / a->clip);
    for (int64_t i = 0; i < n; i++)
        w[i] = w[i] * (1 - a->lr * a->weight_decay) - rho * u[i];
}

static mlsys_config settings_of(const adafactor *a) {
    mlsys_config s;
    OK(mlsys_config_create(&s));
    OK(mlsys_config_set_f64(s, "decay_rate", a->decay_rate));
    OK(mlsys_config_set_f64(s, "eps", a->eps));
    OK(mlsys_config_set_f64(s, "eps_w", a->eps_w));
    OK(mlsys_config_set_f64(s, "clip", a->clip));
    OK(mlsys_config_set_f64(s, "weight_decay", a->weight_decay));
    OK(mlsys_config_set_i64(s, "relative", a->relative));
    OK(mlsys_config_set_i64(s, "scale", a->scale));
    return s;
}

static void check_adafactor(const adafactor *a, const matrix *m) {
    double w[CAP], v[CAP] = {0}, c[CAP] = {0}, want_w[CAP], want_v[CAP] = {0}, want_c[CAP] = {0};
    int64_t n = count_of(m), batch = m->batch ? m->batch : 1;
    int64_t n_v = a->factored ? batch * m->rows : n, n_c = batch * m->columns;
    mlsys_config s = settings_of(a);
    for (int64_t i = 0; i < n; i++)
        w[i] = want_w[i] = weight(i);
    for (int64_t step = 1; step <= STEPS; step++) {
        double g[CAP];
        mlsys_tensor in[6] = {0}, out[3] = {0};
        for (int64_t i = 0; i < n; i++)
            g[i] = gradient(i, step);
        in[0] = tensor_of(m, true, true, w);
        in[1] = tensor_of(m, true, true, g);
        in[2] = pc_tensor(&pc, MLSYS_F64, 0, NULL, &a->lr);
        in[3] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &step);
        in[4] = tensor_of(m, true, !a->factored, v);
        if (a->factored) in[5] = tensor_of(m, false, true, c);
        OK(mlsys_op_run(pc.stream, "adafactor_step", 5 + a->factored, in, s, 2 + a->factored, out));
        memcpy(w, rg_view(out[0]).data, sizeof *w * (size_t)n);
        memcpy(v, rg_view(out[1]).data, sizeof *v * (size_t)n_v);
        if (a->factored) memcpy(c, rg_view(out[2]).data, sizeof *c * (size_t)n_c);
        reference(a, m, step, want_w, want_v, want_c);
        pc_release(5 + a->factored, in);
        pc_release(2 + a->factored, out);
    }
    expect_close("w", n, w, want_w, 1e-12);
    expect_close("v", n_v, v, want_v, 1e-12);
    if (a->factored) expect_close("columns", n_c, c, want_c, 1e-12);
    OK(mlsys_release(s));
}

START_TEST(adafactor_steps) {
    static const adafactor rows[] = {
        {0.8, 1e-30, 1e-3, 1, 0, 0.01, true, true, true},
        {0.8, 1e-30, 1e-3, 1, 0, 0.01, true, true, false},
        {0.5, 1e-3, 10, 0.25, 0.1, 0.9, true, true, true},
        {1, 1e-3, 10, 1e9, 0.1, 0.02, false, false, true},
        {0.8, 1e-8, 1e-3, 0.5, 0, 0.02, false, true, false},
    };
    static const matrix shapes[] = {{0, 3, 5}, {0, 17, 9}, {2, 3, 4}, {0, 1, 1}, {3, 1, 7}};
    static const matrix flat[] = {{0, 0, 7}, {0, 0, 1}, {0, 3, 5}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t i = 0; i < (rows[r].factored ? 5 : 3); i++)
            check_adafactor(&rows[r], rows[r].factored ? &shapes[i] : &flat[i]);
}
END_TEST

/* ---- muon ---------------------------------------------------------------------------------- */

typedef struct muon {
    double momentum, weight_decay, eps, lr;
    bool nesterov;
} muon;

/* c = a b, or a b^T */
static void multiply(int64_t m, int64_t k, int64_t n, const double *a, const double *b, bool turn,
                     double *c) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int64_t l = 0; l < k; l++)
                c[i * n + j] += a[i * k + l] * b[turn ? j * k + l : l * n + j];
        }
}

/* Five Newton-Schulz steps; the Gram matrix is the one of the rows, also of a tall matrix: the same map. */
static void orthogonal(const muon *o, int64_t m, int64_t n, double *x) {
    static double gram[CAP * 4], square[CAP * 4], moved[CAP];
    double size = fmax(size_of(x, m * n) * sqrt((double)(m * n)), o->eps);
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= size;
    for (int step = 0; step < 5; step++) {
        multiply(m, n, m, x, x, true, gram);
        multiply(m, m, m, gram, gram, false, square);
        for (int64_t i = 0; i < m * m; i++)
            gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
        multiply(m, m, n, gram, x, false, moved);
        for (int64_t i = 0; i < m * n; i++)
            x[i] = 3.4445 * x[i] + moved[i];
    }
}

static void check_muon(const muon *o, const matrix *m) {
    double w[CAP], v[CAP] = {0}, want_w[CAP], want_v[CAP] = {0}, d[CAP], g[CAP];
    int64_t n = count_of(m);
    mlsys_config s;
    OK(mlsys_config_create(&s));
    OK(mlsys_config_set_f64(s, "momentum", o->momentum));
    OK(mlsys_config_set_f64(s, "weight_decay", o->weight_decay));
    OK(mlsys_config_set_f64(s, "eps", o->eps));
    OK(mlsys_config_set_i64(s, "nesterov", o->nesterov));
    for (int64_t i = 0; i < n; i++)
        w[i] = want_w[i] = weight(i);
    for (int64_t step = 1; step <= STEPS; step++) {
        mlsys_tensor out[2] = {0};
        double factor = sqrt(fmax(1, (double)m->rows / (double)m->columns));
        for (int64_t i = 0; i < n; i++) {
            g[i] = gradient(i, step);
            want_v[i] = o->momentum * want_v[i] + (1 - o->momentum) * g[i];
            d[i] = o->nesterov ? o->momentum * want_v[i] + (1 - o->momentum) * g[i] : want_v[i];
        }
        orthogonal(o, m->rows, m->columns, d);
        for (int64_t i = 0; i < n; i++)
            want_w[i] = want_w[i] * (1 - o->lr * o->weight_decay) - o->lr * factor * d[i];
        mlsys_tensor in[4] = {tensor_of(m, true, true, w), tensor_of(m, true, true, g),
                              pc_tensor(&pc, MLSYS_F64, 0, NULL, &o->lr),
                              tensor_of(m, true, true, v)};
        OK(mlsys_op_run(pc.stream, "muon_step", 4, in, s, 2, out));
        memcpy(w, rg_view(out[0]).data, sizeof *w * (size_t)n);
        memcpy(v, rg_view(out[1]).data, sizeof *v * (size_t)n);
        pc_release(4, in);
        pc_release(2, out);
    }
    expect_close("m", n, v, want_v, 1e-13);
    /* The iteration multiplies differences by up to 3.4445^5 = 485 a step. */
    expect_close("w", n, w, want_w, 1e-11);
    OK(mlsys_release(s));
}

START_TEST(muon_steps) {
    static const muon rows[] = {{0.95, 0.1, 1e-7, 0.02, true}, {0.5, 0, 10, 0.1, false}};
    static const matrix shapes[] = {{0, 3, 5}, {0, 17, 9}, {0, 33, 2}, {0, 1, 1}, {0, 4, 4}};
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < 5; i++)
            check_muon(&rows[r], &shapes[i]);
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

/* Weights and moments that are donated are written in place: no output needs memory of its own, and a run leaves
 * the addresses as they were. */
static void in_place(const char *op, int n_in, int n_out, const char *operands, const int *state) {
    char text[1200];
    snprintf(text, sizeof text, "functions 1\nfunc 0 \"main\" {\n%s}\n", operands);
    mlsys_graph g = pc_parse(&pc, text);
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor in[6], out[3] = {0};
    void *before[3];
    kc_rng r = kc_seed(3);
    for (int i = 0; i < n_in; i++) {
        mlsi_graph *inside;
        OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "g", &inside));
        const mlsi_type t = *mlsi_type_of(inside, 0, inside->funcs[0].inputs[i]);
        mlsi_unpin(inside);
        in[i] = pc_random(&pc, &r, t.dtype, t.rank, t.dims);
        mlsi_view v = rg_view(in[i]);
        for (int64_t k = 0; k < mlsi_view_count(&v); k++)
            if (t.dtype == MLSYS_F32)
                ((float *)v.data)[k] = (float)kc_uniform(&r, 0.1, 1);
            else
                ((int64_t *)v.data)[k] = 2;
    }
    for (int o = 0; o < n_out; o++)
        before[o] = rg_view(in[state[o]]).data;
    OK(mlsys_program_run(p, pc.stream, n_in, in, n_out, out));
    for (int o = 0; o < n_out; o++)
        ck_assert_msg(rg_view(out[o]).data == before[o], "%s: result %d is elsewhere", op, o);
    pc_release(n_in, in);
    pc_release(n_out, out);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}

#define MATRIX(n, name, donated) "  %" #n " = input \"" name "\" : f32[33,65]" donated "\n"
START_TEST(donated_state_stays_in_place) {
    in_place("muon_step", 4, 2,
             MATRIX(0, "w", " donated") MATRIX(1, "g", "") "  %2 = input \"lr\" : f32[]\n" MATRIX(
                 3, "m", " donated") "  %4, %5 = muon_step(%0, %1, %2, %3) : f32[33,65], "
                                     "f32[33,65]\n  output \"w\" %4\n  output \"m\" %5\n",
             (const int[]){0, 3});
    in_place("adafactor_step", 6, 3,
             MATRIX(0, "w", " donated")
                 MATRIX(1, "g",
                        "") "  %2 = input \"lr\" : f32[]\n"
                            "  %3 = input \"count\" : i64[]\n  %4 = input \"v\" : f32[33] donated\n"
                            "  %5 = input \"c\" : f32[65] donated\n"
                            "  %6, %7, %8 = adafactor_step(%0, %1, %2, %3, %4, %5) : f32[33,65], "
                            "f32[33], f32[65]\n"
                            "  output \"w\" %6\n  output \"v\" %7\n  output \"c\" %8\n",
             (const int[]){0, 4, 5});
    in_place(
        "adam_step", 6, 3,
        MATRIX(0, "w", " donated")
            MATRIX(1, "g", "") "  %2 = input \"lr\" : f32[]\n" MATRIX(3, "m", " donated") MATRIX(
                4, "v",
                " donated") "  %5 = input \"count\" : i64[]\n"
                            "  %6, %7, %8 = adam_step(%0, %1, %2, %3, %4, %5) : f32[33,65], "
                            "f32[33,65], "
                            "f32[33,65]\n  output \"w\" %6\n  output \"m\" %7\n  output \"v\" %8\n",
        (const int[]){0, 3, 4});
    in_place("ema_step", 2, 1,
             MATRIX(0, "e", " donated")
                 MATRIX(1, "w", "") "  %2 = ema_step(%0, %1) : f32[33,65]\n  output \"e\" %2\n",
             (const int[]){0});
}
END_TEST

/* A gradient that is a view, and sizes around those of vectors and blocks: the bits of the interpreter. */
START_TEST(views_and_sizes) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {1, 17}, {64, 32}, {33, 127}, {5, 4097}};
    static const char *const settings[] = {"", "isa=portable", "plan=0"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[1500], m[32];
        int rows = (int)sizes[i][0], columns = (int)sizes[i][1];
        snprintf(m, sizeof m, "f32[%d,%d]", rows, columns);
        snprintf(text, sizeof text,
                 "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"w\" : %s\n"
                 "  %%1 = input \"g\" : f32[%d,%d]\n  %%2 = input \"lr\" : f32[]\n"
                 "  %%3 = input \"m\" : %s\n  %%4 = input \"v\" : %s\n"
                 "  %%5 = full() {dtype=i64, ivalue=3, shape=[]} : i64[]\n  %%6 = transpose(%%1) "
                 "{perm=[1, 0]} : %s\n"
                 "  %%7, %%8, %%9 = adam_step(%%0, %%6, %%2, %%3, %%4, %%5) : %s, %s, %s\n"
                 "  %%10, %%11 = lion_step(%%7, %%6, %%2, %%8) {weight_decay=0.1} : %s, %s\n"
                 "  %%12, %%13 = sgd_step(%%10, %%6, %%2, %%11) {nesterov=true} : %s, %s\n"
                 "  %%14 = ema_step(%%9, %%12) : %s\n  output \"a\" %%12\n  output \"b\" %%13\n"
                 "  output \"c\" %%14\n}\n",
                 m, columns, rows, m, m, m, m, m, m, m, m, m, m, m);
        mlsys_graph g = pc_parse(&pc, text);
        kc_rng r = kc_seed((uint64_t)i);
        const int64_t shape[2] = {rows, columns}, turned[2] = {columns, rows};
        mlsys_tensor in[5] = {
            pc_random(&pc, &r, MLSYS_F32, 2, shape), pc_random(&pc, &r, MLSYS_F32, 2, turned),
            pc_random(&pc, &r, MLSYS_F32, 0, NULL), pc_random(&pc, &r, MLSYS_F32, 2, shape),
            pc_random(&pc, &r, MLSYS_F32, 2, shape)};
        for (int s = 0; s < 3; s++)
            pc_compare(&pc, g, settings[s], 5, in, 3);
        pc_release(5, in);
        OK(mlsys_release(g));
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("optimizer_matrix");
    TCase *tc = tcase_create("optimizer_matrix");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, adafactor_steps);
    tcase_add_test(tc, muon_steps);
    tcase_add_test(tc, donated_state_stays_in_place);
    tcase_add_test(tc, views_and_sizes);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
