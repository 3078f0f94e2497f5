/* Row kernels (softmax, norms, losses, rope) against literal code. */
#include "core/elementary.h"
#include "support/canonical_reference.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261202 };

static const mlsys_dtype floats[] = {MLSYS_F32, MLSYS_F32, MLSYS_F16, MLSYS_BF16, MLSYS_F8E5M2};
enum { FLOATS = (int)(sizeof floats / sizeof floats[0]) };

static const int64_t widths[] = {1, 2, 5, 8, 16, 17, 64, 127, 128, 129, 300, 1000};
enum { WIDTHS = (int)(sizeof widths / sizeof widths[0]) };

/* ---- one row --------------------------------------------------------------------------------- */

static double max_of(const double *x, int64_t n) {
    double m = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) return NAN;
        if (x[i] > m || (x[i] == 0 && m == 0 && signbit(m))) m = x[i];
    }
    return m;
}

/* exp(x_i - m) in f32 */
static void exps(const double *x, int64_t n, float m, double *e) {
    for (int64_t i = 0; i < n; i++)
        e[i] = (double)mlsi_ef_exp((float)x[i] - m);
}

static void softmax_reference(double *y, const double *x, int64_t n, bool masked_zero) {
    float m = (float)max_of(x, n);
    exps(x, n, m, y);
    float s = (float)cr_sum(false, y, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = masked_zero && m == -INFINITY ? 0 : (double)((float)y[i] / s);
}

/* m' and log(sum(exp(x - m'))) */
static float log_sum(const double *x, int64_t n, float *shift) {
    double *e = malloc((size_t)(n + 1) * sizeof *e), m = max_of(x, n);
    *shift = isfinite(m) ? (float)m : 0;
    exps(x, n, *shift, e);
    float s = (float)cr_sum(false, e, n);
    free(e);
    return mlsi_ef_log(s);
}

static void log_softmax_reference(double *y, const double *x, int64_t n) {
    float m, l = log_sum(x, n, &m);
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)(((float)x[i] - m) - l);
}

static void norm_reference(double *y, const double *x, int64_t n, bool centre, float eps,
                           const double *gamma, const double *beta) {
    double *d = malloc((size_t)(n + 1) * sizeof *d), *q = malloc((size_t)(n + 1) * sizeof *q);
    float mu = centre ? (float)cr_sum(false, x, n) / (float)n : 0;
    for (int64_t i = 0; i < n; i++) {
        d[i] = centre ? (double)((float)x[i] - mu) : x[i];
        q[i] = (double)((float)d[i] * (float)d[i]);
    }
    float r = 1.0f / sqrtf((float)cr_sum(false, q, n) / (float)n + eps);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)d[i] * r;
        if (gamma) v = v * (float)gamma[i];
        if (beta) v = v + (float)beta[i];
        y[i] = (double)v;
    }
    free(d);
    free(q);
}

/* ---- rows of a tensor ------------------------------------------------------------------------ */

typedef struct row_case {
    mlsi_op op;
    bool masked_zero;
    float eps;
    const double *gamma, *beta;
} row_case;

static void row_reference(const row_case *k, double *y, const double *x, int64_t n) {
    switch (k->op) {
    case MLSI_OP_SOFTMAX: softmax_reference(y, x, n, k->masked_zero); break;
    case MLSI_OP_LOG_SOFTMAX: log_softmax_reference(y, x, n); break;
    default: norm_reference(y, x, n, k->op == MLSI_OP_LAYER_NORM, k->eps, k->gamma, k->beta);
    }
}

/* Rows are `rows` groups of n elements `inner` apart: the linear index of element i of row (o, j)
 * is (o * n + i) * inner + j. */
static void rows_reference(const row_case *k, const mlsi_view *x, const mlsi_view *y, int64_t n,
                           int64_t inner) {
    double *from = malloc((size_t)(n + 1) * sizeof *from),
           *to = malloc((size_t)(n + 1) * sizeof *to);
    int64_t rows = n ? mlsi_view_count(x) / n : 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t base = r / inner * n * inner + r % inner;
        for (int64_t i = 0; i < n; i++)
            from[i] = kc_get_f(x, base + i * inner);
        row_reference(k, to, from, n);
        for (int64_t i = 0; i < n; i++)
            kc_set_f(y, base + i * inner, to[i]);
    }
    free(from);
    free(to);
}

/* Rows of -inf, with a NaN, with +inf, of zeros of both signs, far from zero. */
static void put_special_rows(kc_rng *r, kc_tensor *t, int64_t n) {
    int64_t rows = n ? mlsi_view_count(&t->view) / n : 0;
    for (int64_t k = 0; k < rows; k++) {
        int64_t what = kc_int(r, 0, 9), at = kc_int(r, 0, n - 1);
        for (int64_t i = 0; i < n; i++) {
            double v = kc_get_f(&t->view, k * n + i);
            if (what == 0) v = -INFINITY;
            if (what == 1 && i == at) v = NAN;
            if (what == 2 && i == at) v = INFINITY;
            if (what == 3) v = kc_bits(r) % 2 ? 0.0 : -0.0;
            if (what == 4) v = v + 1e4;
            if (what == 5 && i != at) v = -INFINITY;
            if (what == 6) v = i == at ? NAN : -INFINITY;
            kc_set_f(&t->view, k * n + i, v);
        }
    }
    memcpy(t->before, t->block, t->bytes);
}

START_TEST(softmax_rows) {
    kc_rng r = kc_seed(SEED);
    for (int repeat = 0; repeat < 240; repeat++) {
        mlsys_dtype t = floats[repeat % FLOATS];
        bool log = repeat % 3 == 0, last = repeat % 4 != 1;
        int64_t shape[3] = {kc_int(&r, 1, 3), kc_int(&r, 0, 5), widths[kc_int(&r, 0, WIDTHS - 1)]};
        if (repeat % 60 == 0) shape[2] = 4096 + 300; /* more than a chunk */
        if (repeat % 50 == 7) shape[2] = 0;
        mlsi_attr_softmax attrs = {.axis = last ? -1 : 1, .masked_zero = repeat % 2};
        mlsi_attr_axis log_attrs = {.axis = attrs.axis};
        kc_call c = {.op = log ? MLSI_OP_LOG_SOFTMAX : MLSI_OP_SOFTMAX,
                     .attrs = log ? (const void *)&log_attrs : (const void *)&attrs,
                     .n_in = 1,
                     .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], KC_FINITE);
        if (last) put_special_rows(&r, &c.in[0], shape[2]);
        c.out[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, 3, shape, KC_DENSE);
        row_case k = {.op = c.op, .masked_zero = attrs.masked_zero != 0};
        rows_reference(&k, &c.in[0].view, &e.view, last ? shape[2] : shape[1], last ? 1 : shape[2]);
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

static double *parameter(kc_rng *r, kc_call *c, int i, int axis, const int64_t *shape, int64_t n) {
    if (kc_int(r, 0, 3) == 0) {
        c->absent[i] = true;
        return NULL;
    }
    c->in[i] = kc_tensor_new(r, floats[kc_int(r, 0, FLOATS - 1)], 3 - axis, shape + axis,
                             (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, &c->in[i], KC_FINITE);
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t j = 0; j < n; j++)
        v[j] = kc_get_f(&c->in[i].view, j);
    return v;
}

START_TEST(norms) {
    kc_rng r = kc_seed(SEED + 1);
    for (int repeat = 0; repeat < 240; repeat++) {
        mlsys_dtype t = floats[repeat % FLOATS];
        int axis = repeat % 4 ? 2 : 1;
        int64_t shape[3] = {kc_int(&r, 1, 4), kc_int(&r, 1, 6), widths[kc_int(&r, 0, WIDTHS - 1)]};
        if (repeat % 50 == 7) shape[2] = 0;
        int64_t n = axis == 1 ? shape[1] * shape[2] : shape[2];
        mlsi_attr_norm attrs = {.axis = repeat % 3 ? axis : axis - 3, .eps = 1e-5};
        kc_call c = {.op = repeat % 2 ? MLSI_OP_RMS_NORM : MLSI_OP_LAYER_NORM,
                     .attrs = &attrs,
                     .n_in = repeat % 2 ? 2 : 3,
                     .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], repeat % 7 ? KC_FINITE : KC_ANY);
        double *gamma = parameter(&r, &c, 1, axis, shape, n);
        double *beta = repeat % 2 ? NULL : parameter(&r, &c, 2, axis, shape, n);
        c.out[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, 3, shape, KC_DENSE);
        row_case k = {.op = c.op, .eps = 1e-5f, .gamma = gamma, .beta = beta};
        rows_reference(&k, &c.in[0].view, &e.view, n, 1);
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        free(gamma);
        free(beta);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* A result large enough to be written past the caches: its rows are those of a small call. */
START_TEST(large_norm) {
    static const int64_t shape[2] = {2800, 3001}, width = 3001;
    kc_rng r = kc_seed(SEED + 6);
    mlsi_attr_norm attrs = {.axis = 1, .eps = 1e-5};
    kc_call c = {.op = MLSI_OP_RMS_NORM, .attrs = &attrs, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(&r, MLSYS_F32, 2, shape, KC_DENSE);
    c.in[1] = kc_tensor_new(&r, MLSYS_F32, 1, &width, KC_DENSE);
    kc_fill(&r, &c.in[0], KC_FINITE);
    kc_fill(&r, &c.in[1], KC_FINITE);
    c.out[0] = kc_tensor_new(&r, MLSYS_F32, 2, shape, KC_DENSE);
    kc_tensor e = kc_tensor_new(&r, MLSYS_F32, 2, shape, KC_DENSE);
    const mlsi_kernel *k = kc_row(MLSI_OP_RMS_NORM, 0);
    for (int64_t row = 0; row < shape[0]; row++) {
        mlsi_view in[2] = {c.in[0].view, c.in[1].view}, out = e.view;
        in[0].data = (float *)c.in[0].view.data + row * width;
        out.data = (float *)e.view.data + row * width;
        in[0].shape[0] = out.shape[0] = 1;
        _Alignas(64) float work[3 * 3056];
        mlsi_kernel_args args = {
            .attrs = &attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out, .work = work};
        ck_assert_uint_le(k->work(&args, 1), sizeof work);
        ck_assert_int_eq(k->run(&args), MLSYS_OK);
    }
    ck_assert_int_gt(kc_check(&c, &e, "large"), 0);
    kc_tensor_free(&e);
    kc_call_free(&c);
}
END_TEST

/* The output may be x's buffer. */
START_TEST(rows_in_place) {
    static const mlsi_op ops[] = {MLSI_OP_SOFTMAX, MLSI_OP_LOG_SOFTMAX, MLSI_OP_RMS_NORM,
                                  MLSI_OP_LAYER_NORM};
    static const int64_t shape[2] = {5, 77};
    kc_rng r = kc_seed(SEED + 2);
    for (int op = 0; op < 4; op++)
        for (int layout = 0; layout < KC_BROADCAST; layout++) {
            mlsi_attr_softmax softmax = {.axis = 1};
            mlsi_attr_axis log_softmax = {.axis = 1};
            mlsi_attr_norm norm = {.axis = 1, .eps = 1e-6};
            kc_call c = {.op = ops[op], .n_in = 1, .n_out = 1};
            c.attrs = op == 0   ? (const void *)&softmax
                      : op == 1 ? (const void *)&log_softmax
                                : (const void *)&norm;
            ck_assert_uint_eq(kc_row(ops[op], 0)->in_place & 1, 1);
            c.in[0] = kc_tensor_new(&r, floats[1 + layout % 2], 2, shape, (kc_layout)layout);
            kc_fill(&r, &c.in[0], KC_FINITE);
            c.out[0] = c.in[0];
            kc_tensor e = kc_tensor_new(&r, c.in[0].view.dtype, 2, shape, KC_DENSE);
            row_case k = {.op = ops[op], .eps = 1e-6f};
            rows_reference(&k, &c.in[0].view, &e.view, 77, 1);
            ck_assert_int_gt(kc_check(&c, &e, "in place"), 0);
            kc_tensor_free(&e);
            kc_call_free(&c);
        }
}
END_TEST

/* ---- one value per row ----------------------------------------------------------------------- */

START_TEST(logsumexp_rows) {
    kc_rng r = kc_seed(SEED + 3);
    for (int repeat = 0; repeat < 100; repeat++) {
        mlsys_dtype t = floats[repeat % FLOATS];
        int axis = repeat % 3 ? 1 : 0;
        int64_t shape[2] = {kc_int(&r, 1, 6), widths[kc_int(&r, 0, WIDTHS - 1)]}, out[2];
        if (repeat % 30 == 1) shape[1] = 0;
        mlsi_attr_arg attrs = {.axis = repeat % 2 ? axis : axis - 2, .keep = repeat / 2 % 2};
        int rank = 0;
        for (int d = 0; d < 2; d++)
            if (d != axis || attrs.keep) out[rank++] = d == axis ? 1 : shape[d];
        kc_call c = {.op = MLSI_OP_LOGSUMEXP, .attrs = &attrs, .n_in = 1, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 2, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], KC_FINITE);
        put_special_rows(&r, &c.in[0], shape[1]);
        c.out[0] = kc_tensor_new(&r, t, rank, out, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, rank, out, KC_DENSE);
        double *row = malloc((size_t)(shape[axis] + 1) * sizeof *row);
        for (int64_t k = 0; k < mlsi_view_count(&e.view); k++) {
            float m;
            for (int64_t i = 0; i < shape[axis]; i++)
                row[i] = kc_get_f(&c.in[0].view, axis ? k * shape[1] + i : i * shape[1] + k);
            float l = log_sum(row, shape[axis], &m);
            kc_set_f(&e.view, k, (double)(l + m));
        }
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        free(row);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

START_TEST(cross_entropy_rows) {
    kc_rng r = kc_seed(SEED + 4);
    for (int repeat = 0; repeat < 60; repeat++) {
        mlsys_dtype t = floats[repeat % FLOATS];
        int64_t shape[3] = {kc_int(&r, 0, 3), kc_int(&r, 1, 5), widths[kc_int(&r, 0, 9)]};
        int64_t n = shape[2], row_count = shape[0] * shape[1];
        mlsi_attr_cross_entropy attrs = {.ignore_index = -100};
        kc_call c = {.op = MLSI_OP_CROSS_ENTROPY, .attrs = &attrs, .n_in = 2, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], KC_FINITE);
        put_special_rows(&r, &c.in[0], n);
        c.in[1] = kc_tensor_new(&r, repeat % 2 ? MLSYS_I64 : MLSYS_I32, 2, shape,
                                (kc_layout)kc_int(&r, 0, KC_PADDED));
        for (int64_t k = 0; k < row_count; k++)
            kc_set_i(&c.in[1].view, k, kc_int(&r, 0, 3) ? kc_int(&r, 0, n - 1) : -100);
        memcpy(c.in[1].before, c.in[1].block, c.in[1].bytes);
        c.out[0] = kc_tensor_new(&r, t, 2, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, 2, shape, KC_DENSE);
        double *row = malloc((size_t)n * sizeof *row);
        for (int64_t k = 0; k < row_count; k++) {
            int64_t target = kc_get_i(&c.in[1].view, k);
            float m, loss = 0;
            for (int64_t i = 0; i < n; i++)
                row[i] = kc_get_f(&c.in[0].view, k * n + i);
            if (target != -100) {
                float l = log_sum(row, n, &m) + m;
                loss = l - (float)row[target];
            }
            kc_set_f(&e.view, k, (double)loss);
        }
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        if (row_count) { /* a class out of range is refused by name */
            int64_t at = kc_int(&r, 0, row_count - 1);
            kc_set_i(&c.in[1].view, at, repeat % 3 ? n : -1);
            memcpy(c.in[1].before, c.in[1].block, c.in[1].bytes);
            char want[128];
            snprintf(want, sizeof want, "class %lld at position %lld",
                     (long long)(repeat % 3 ? n : -1), (long long)at);
            ck_assert_int_eq(kc_run(kc_row(c.op, 0), &c, 2), MLSYS_E_ARG);
            ck_assert_ptr_nonnull(strstr(mlsys_last_error(), want));
        }
        free(row);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* ---- rope ------------------------------------------------------------------------------------ */

static void rope_reference(const kc_call *c, bool halves, const mlsi_view *y) {
    const mlsi_view *x = &c->in[0].view, *p = &c->in[1].view;
    int64_t L = x->shape[1], H = x->shape[2], D = x->shape[3], n = c->in[2].view.shape[0];
    for (int64_t row = 0; row < x->shape[0] * L * H; row++) {
        int64_t l = row / H % L, b = row / H / L;
        int64_t at = p->rank == 1 ? l : (p->shape[0] == 1 ? 0 : b) * L + l;
        float position = (float)kc_get_i(p, at);
        for (int64_t i = 2 * n; i < D; i++)
            kc_set_f(y, row * D + i, kc_get_f(x, row * D + i));
        for (int64_t i = 0; i < n; i++) {
            int64_t i0 = row * D + (halves ? i : 2 * i),
                    i1 = row * D + (halves ? i + n : 2 * i + 1);
            float a = position * (float)kc_get_f(&c->in[2].view, i);
            float co = mlsi_ef_cos(a), si = mlsi_ef_sin(a);
            float x0 = (float)kc_get_f(x, i0), x1 = (float)kc_get_f(x, i1);
            kc_set_f(y, i0, (double)(x0 * co - x1 * si));
            kc_set_f(y, i1, (double)(x1 * co + x0 * si));
        }
    }
}

START_TEST(rope) {
    kc_rng r = kc_seed(SEED + 5);
    for (int repeat = 0; repeat < 120; repeat++) {
        mlsys_dtype t = floats[repeat % FLOATS];
        int64_t n = kc_int(&r, 0, 40), shape[4] = {kc_int(&r, 1, 3), kc_int(&r, 0, 5),
                                                   kc_int(&r, 1, 4), 2 * n + kc_int(&r, 0, 5)};
        if (repeat % 30 == 0)
            n = 1200, shape[3] = 2403; /* more pairs than fit the tables at once */
        int64_t positions[2] = {repeat % 3 == 1 ? 1 : shape[0], shape[1]};
        mlsi_attr_rope attrs = {.pairing = repeat % 2};
        kc_call c = {.op = MLSI_OP_ROPE, .attrs = &attrs, .n_in = 3, .n_out = 1};
        kc_layout layout = (kc_layout)kc_int(&r, 0, KC_BROADCAST);
        c.in[0] = kc_tensor_new(&r, t, 4, shape, layout);
        kc_fill(&r, &c.in[0], KC_FINITE);
        c.in[1] = kc_tensor_new(&r, repeat % 2 ? MLSYS_I64 : MLSYS_I32, repeat % 3 ? 2 : 1,
                                repeat % 3 ? positions : positions + 1,
                                (kc_layout)kc_int(&r, 0, KC_PADDED));
        for (int64_t i = 0; i < mlsi_view_count(&c.in[1].view); i++)
            kc_set_i(&c.in[1].view, i,
                     kc_int(&r, 0, 9) ? kc_int(&r, 0, 9000) : -kc_int(&r, 0, 99999));
        memcpy(c.in[1].before, c.in[1].block, c.in[1].bytes);
        c.in[2] = kc_tensor_new(&r, MLSYS_F32, 1, &n, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_fill(&r, &c.in[2], KC_FINITE);
        c.out[0] = kc_tensor_new(&r, t, 4, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, 4, shape, KC_DENSE);
        rope_reference(&c, attrs.pairing == MLSI_ROPE_HALVES, &e.view);
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        if (layout != KC_BROADCAST) {
            kc_tensor_free(&c.out[0]);
            c.out[0] = c.in[0];
            ck_assert_int_gt(kc_check(&c, &e, "in place"), 0);
        }
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_rows");
    TCase *t = tcase_create("rows");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, softmax_rows);
    tcase_add_test(t, norms);
    tcase_add_test(t, large_norm);
    tcase_add_test(t, rows_in_place);
    tcase_add_test(t, logsumexp_rows);
    tcase_add_test(t, cross_entropy_rows);
    tcase_add_test(t, rope);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
