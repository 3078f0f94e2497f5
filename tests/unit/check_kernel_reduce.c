/* Reductions, argmax, argmin and scans against literal code. */
#include "support/canonical_reference.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261201 };

static const mlsys_dtype numbers[] = {MLSYS_F32, MLSYS_F64, MLSYS_F16, MLSYS_BF16, MLSYS_F8E5M2,
                                      MLSYS_I64, MLSYS_I32, MLSYS_I16, MLSYS_I8,   MLSYS_U8};
enum { NUMBERS = (int)(sizeof numbers / sizeof numbers[0]) };

static double larger(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == 0 && b == 0) return signbit(a) && signbit(b) ? -0.0 : 0.0;
    return a > b ? a : b;
}
static double smaller(double a, double b) { return -larger(-a, -b); }

/* ---- reductions ------------------------------------------------------------------------------ */

/* The elements of x of which result k is made, in row-major order of the reduced axes. */
static int64_t row_of(const mlsi_view *x, const bool *reduced, int64_t k, int64_t *elements) {
    int64_t n = 0, total = mlsi_view_count(x);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, result = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            if (!reduced[d]) {
                result += rest % x->shape[d] * step;
                step *= x->shape[d];
            }
            rest /= x->shape[d];
        }
        if (result == k) elements[n++] = i;
    }
    return n;
}

static void reduce_floats(mlsi_op op, const mlsi_view *x, const int64_t *at, int64_t n,
                          const mlsi_view *y, int64_t k) {
    bool f64 = x->dtype == MLSYS_F64;
    double *v = malloc((size_t)(n + 1) * sizeof *v), r;
    for (int64_t i = 0; i < n; i++)
        v[i] = kc_get_f(x, at[i]);
    switch (op) {
    case MLSI_OP_REDUCE_SUM: r = cr_sum(f64, v, n); break;
    case MLSI_OP_REDUCE_MEAN:
        r = cr_sum(f64, v, n);
        r = f64 ? r / (double)n : (double)((float)r / (float)n);
        break;
    case MLSI_OP_REDUCE_PROD: r = cr_product(f64, v, n); break;
    default:
        r = v[0];
        for (int64_t i = 1; i < n; i++)
            r = op == MLSI_OP_REDUCE_MAX ? larger(r, v[i]) : smaller(r, v[i]);
    }
    kc_set_f(y, k, r);
    free(v);
}

static void reduce_ints(mlsi_op op, const mlsi_view *x, const int64_t *at, int64_t n,
                        const mlsi_view *y, int64_t k) {
    bool one = op == MLSI_OP_REDUCE_PROD || op == MLSI_OP_REDUCE_AND;
    int64_t r = n ? kc_get_i(x, at[0]) : one;
    for (int64_t i = 1; i < n; i++) {
        int64_t v = kc_get_i(x, at[i]);
        switch (op) {
        case MLSI_OP_REDUCE_SUM: r = (int64_t)((uint64_t)r + (uint64_t)v); break;
        case MLSI_OP_REDUCE_PROD: r = (int64_t)((uint64_t)r * (uint64_t)v); break;
        case MLSI_OP_REDUCE_MAX: r = r > v ? r : v; break;
        case MLSI_OP_REDUCE_MIN: r = r < v ? r : v; break;
        case MLSI_OP_REDUCE_AND: r = r && v; break;
        default: r = r || v; break;
        }
    }
    kc_set_i(y, k, r);
}

static void check_reduce(kc_rng *r, mlsi_op op, mlsys_dtype t, int rank, const int64_t *shape,
                         unsigned axes, kc_layout layout, kc_fill_kind fill) {
    bool reduced[MLSYS_MAX_DIMS] = {false}, empty_row = false;
    int64_t out[MLSYS_MAX_DIMS];
    int out_rank = 0;
    char what[160];
    mlsi_attr_reduce attrs = {.keep = (int64_t)(kc_bits(r) % 2)};
    for (int d = 0; d < rank; d++) {
        reduced[d] = axes >> d & 1;
        if (reduced[d]) attrs.axes.v[attrs.axes.n++] = d;
        if (reduced[d] && shape[d] == 0) empty_row = true;
        if (!reduced[d] || attrs.keep) out[out_rank++] = reduced[d] ? 1 : shape[d];
    }
    if (attrs.axes.n == 0 && rank > 0) return;
    if (empty_row && (op == MLSI_OP_REDUCE_MAX || op == MLSI_OP_REDUCE_MIN)) return;
    kc_call c = {.op = op, .attrs = &attrs, .n_in = 1, .n_out = 1};
    c.in[0] = kc_tensor_new(r, t, rank, shape, layout);
    kc_fill(r, &c.in[0], fill);
    c.out[0] = kc_tensor_new(r, t, out_rank, out, (kc_layout)kc_int(r, 0, KC_PADDED));
    kc_tensor e = kc_tensor_new(r, t, out_rank, out, KC_DENSE);
    int64_t *at = malloc((size_t)(mlsi_view_count(&c.in[0].view) + 1) * sizeof *at);
    for (int64_t k = 0; k < mlsi_view_count(&e.view); k++) {
        int64_t n = row_of(&c.in[0].view, reduced, k, at);
        if (mlsi_dtype_is_float(t))
            reduce_floats(op, &c.in[0].view, at, n, &e.view, k);
        else
            reduce_ints(op, &c.in[0].view, at, n, &e.view, k);
    }
    snprintf(what, sizeof what, "%s of %s rank %d first extents %lld,%lld axes %x layout %d",
             mlsi_op_name(op), mlsi_dtype_get(t)->name, rank, (long long)(rank > 0 ? shape[0] : 1),
             (long long)(rank > 1 ? shape[1] : 1), axes, layout);
    ck_assert_msg(kc_check(&c, &e, what) > 0, "no kernel: %s", what);
    free(at);
    kc_tensor_free(&e);
    kc_call_free(&c);
}

static void check_small_shapes(mlsi_op op, mlsys_dtype t, int repeats) {
    static const int64_t extents[] = {0, 1, 2, 3, 7, 16, 17, 40, 130};
    kc_rng r = kc_seed(SEED + (uint64_t)op * 100 + (uint64_t)t);
    for (int repeat = 0; repeat < repeats; repeat++) {
        int rank = (int)kc_int(&r, 0, 4);
        int64_t shape[MLSYS_MAX_DIMS], count = 1;
        for (int d = 0; d < rank; d++) {
            shape[d] = extents[kc_int(&r, kc_int(&r, 0, 9) ? 1 : 0, 8)];
            if (count * shape[d] > 900) shape[d] = 2;
            count *= shape[d];
        }
        check_reduce(&r, op, t, rank, shape, (unsigned)kc_int(&r, 1, 15) & ((1u << rank) - 1),
                     (kc_layout)kc_int(&r, 0, KC_BROADCAST), repeat % 3 ? KC_FINITE : KC_ANY);
    }
}

START_TEST(small_shapes) {
    for (int op = MLSI_OP_REDUCE_SUM; op <= MLSI_OP_REDUCE_MIN; op++)
        for (int t = 0; t < NUMBERS; t++)
            check_small_shapes((mlsi_op)op, numbers[t], 20);
    for (int t = 0; t < 5; t++)
        check_small_shapes(MLSI_OP_REDUCE_MEAN, numbers[t], 20);
    check_small_shapes(MLSI_OP_REDUCE_AND, MLSYS_BOOL, 40);
    check_small_shapes(MLSI_OP_REDUCE_OR, MLSYS_BOOL, 40);
}
END_TEST

/* Rows, columns and whole tensors longer than a chunk; the widths around a panel of columns. */
START_TEST(long_rows) {
    static const struct {
        int rank;
        int64_t shape[3];
        unsigned axes;
    } cases[] = {{1, {4095}, 1},       {1, {4096}, 1},      {1, {4097}, 1},
                 {1, {70001}, 1},      {2, {3, 9000}, 2},   {2, {9000, 3}, 1},
                 {2, {9000, 17}, 1},   {2, {257, 300}, 1},  {2, {129, 256}, 1},
                 {3, {2, 300, 33}, 2}, {3, {90, 4, 41}, 5}, {3, {5, 40, 50}, 6}};
    static const mlsi_op ops[] = {MLSI_OP_REDUCE_SUM, MLSI_OP_REDUCE_MEAN, MLSI_OP_REDUCE_PROD,
                                  MLSI_OP_REDUCE_MAX};
    kc_rng r = kc_seed(SEED + 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int op = 0; op < 4; op++) {
            /* The literal walk over all results is quadratic: one dtype each. */
            mlsys_dtype t = op == 0 ? MLSYS_F32 : numbers[kc_int(&r, 0, 3)];
            int64_t results = 1;
            for (int d = 0; d < cases[i].rank; d++)
                if (!(cases[i].axes >> d & 1)) results *= cases[i].shape[d];
            if (results > 20 && op > 1) continue;
            check_reduce(&r, ops[op], t, cases[i].rank, cases[i].shape, cases[i].axes, KC_DENSE,
                         KC_FINITE);
            if (results <= 20)
                check_reduce(&r, ops[op], t, cases[i].rank, cases[i].shape, cases[i].axes,
                             (kc_layout)kc_int(&r, 1, 3), KC_FINITE);
        }
}
END_TEST

/* ---- argmax, argmin -------------------------------------------------------------------------- */

static int64_t extreme_at(const mlsi_view *x, const int64_t *at, int64_t n, bool greatest) {
    int64_t best = 0;
    bool is_float = mlsi_dtype_is_float(x->dtype);
    for (int64_t i = 0; i < n && is_float; i++)
        if (isnan(kc_get_f(x, at[i]))) return i;
    for (int64_t i = 1; i < n; i++) {
        double a = is_float ? kc_get_f(x, at[i]) : 0, b = is_float ? kc_get_f(x, at[best]) : 0;
        int64_t p = is_float ? 0 : kc_get_i(x, at[i]), q = is_float ? 0 : kc_get_i(x, at[best]);
        if (greatest ? a > b || p > q : a < b || p < q) best = i;
    }
    return best;
}

START_TEST(argmax_argmin) {
    kc_rng r = kc_seed(SEED + 2);
    for (int repeat = 0; repeat < 300; repeat++) {
        int64_t shape[3] = {kc_int(&r, 1, 4), kc_int(&r, 1, 40), kc_int(&r, 1, 5)}, out[3];
        int axis = (int)kc_int(&r, 0, 2), rank = 0;
        if (repeat % 10 == 0) shape[axis] = 4096 + kc_int(&r, 0, 2000);
        mlsys_dtype t = numbers[repeat % NUMBERS];
        mlsi_attr_arg attrs = {.axis = repeat % 2 ? axis - 3 : axis, .keep = repeat / 2 % 2};
        bool reduced[3] = {axis == 0, axis == 1, axis == 2};
        for (int d = 0; d < 3; d++)
            if (d != axis || attrs.keep) out[rank++] = d == axis ? 1 : shape[d];
        kc_call c = {.op = repeat % 3 ? MLSI_OP_ARGMAX : MLSI_OP_ARGMIN,
                     .attrs = &attrs,
                     .n_in = 1,
                     .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], repeat % 4 == 0 ? KC_ANY : repeat % 4 == 1 ? KC_SMALL : KC_FINITE);
        if (repeat % 5 == 0 && mlsi_dtype_is_float(t)) /* ties, also of zeros of both signs */
            for (int64_t i = 0; i < mlsi_view_count(&c.in[0].view); i++)
                kc_set_f(&c.in[0].view, i, kc_bits(&r) % 2 ? 0.0 : -0.0);
        memcpy(c.in[0].before, c.in[0].block, c.in[0].bytes);
        c.out[0] = kc_tensor_new(&r, MLSYS_I64, rank, out, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, MLSYS_I64, rank, out, KC_DENSE);
        int64_t *at = malloc((size_t)mlsi_view_count(&c.in[0].view) * sizeof *at);
        for (int64_t k = 0; k < mlsi_view_count(&e.view); k++) {
            int64_t n = row_of(&c.in[0].view, reduced, k, at);
            kc_set_i(&e.view, k, extreme_at(&c.in[0].view, at, n, c.op == MLSI_OP_ARGMAX));
        }
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        free(at);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* ---- scan ------------------------------------------------------------------------------------ */

typedef struct element {
    double f;
    int64_t i;
} element;

static element combine(int64_t kind, mlsys_dtype t, element a, element b) {
    bool f64 = t == MLSYS_F64;
    element r = {0, 0};
    switch (kind) {
    case MLSI_SCAN_SUM:
        r.f = f64 ? a.f + b.f : (double)((float)a.f + (float)b.f);
        r.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
        break;
    case MLSI_SCAN_PROD:
        r.f = f64 ? a.f * b.f : (double)((float)a.f * (float)b.f);
        r.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i);
        break;
    case MLSI_SCAN_MAX: r = (element){larger(a.f, b.f), a.i > b.i ? a.i : b.i}; break;
    default: r = (element){smaller(a.f, b.f), a.i < b.i ? a.i : b.i}; break;
    }
    return r;
}

/* Value i of the inclusive scan of v, straight from the definition. */
static element scan_at(int64_t kind, mlsys_dtype t, const element *v, int64_t i) {
    int64_t s = i / 64;
    element local = v[s * 64];
    for (int64_t k = s * 64 + 1; k <= i; k++)
        local = combine(kind, t, local, v[k]);
    if (s == 0) return local;
    element *totals = malloc((size_t)s * sizeof *totals);
    for (int64_t j = 0; j < s; j++) {
        totals[j] = v[j * 64];
        for (int64_t k = 1; k < 64; k++)
            totals[j] = combine(kind, t, totals[j], v[j * 64 + k]);
    }
    element prefix = scan_at(kind, t, totals, s - 1);
    free(totals);
    return combine(kind, t, prefix, local);
}

static element scan_identity(int64_t kind, mlsys_dtype t) {
    switch (kind) {
    case MLSI_SCAN_SUM: return (element){0, 0};
    case MLSI_SCAN_PROD: return (element){1, 1};
    case MLSI_SCAN_MAX: return (element){-INFINITY, mlsi_f64_to_int(-1e30, t)};
    default: return (element){INFINITY, mlsi_f64_to_int(1e30, t)};
    }
}

static void scan_reference(const mlsi_attr_scan *a, const mlsi_view *x, const mlsi_view *y) {
    int64_t n = x->shape[1], inner = x->shape[2];
    element *v = malloc((size_t)(n + 1) * sizeof *v);
    bool is_float = mlsi_dtype_is_float(x->dtype);
    for (int64_t o = 0; o < x->shape[0] * inner; o++) {
        int64_t base = o / inner * n * inner + o % inner;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = base + (a->reverse ? n - 1 - i : i) * inner;
            v[i] = is_float ? (element){kc_get_f(x, at), 0} : (element){0, kc_get_i(x, at)};
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t at = base + (a->reverse ? n - 1 - i : i) * inner;
            element e = !a->exclusive ? scan_at(a->kind, x->dtype, v, i)
                        : i           ? scan_at(a->kind, x->dtype, v, i - 1)
                                      : scan_identity(a->kind, x->dtype);
            if (is_float)
                kc_set_f(y, at, e.f);
            else
                kc_set_i(y, at, e.i);
        }
    }
    free(v);
}

START_TEST(scans) {
    kc_rng r = kc_seed(SEED + 3);
    for (int repeat = 0; repeat < 320; repeat++) {
        static const int64_t lengths[] = {0, 1, 2, 63, 64, 65, 128, 130, 200};
        mlsys_dtype t = numbers[repeat % NUMBERS];
        int64_t shape[3] = {kc_int(&r, 1, 2), lengths[kc_int(&r, 0, 8)], kc_int(&r, 1, 3)};
        if (repeat % 40 == 0) shape[1] = 64 * 64 + 70;
        mlsi_attr_scan attrs = {.kind = kc_int(&r, 0, 3),
                                .axis = repeat % 2 ? 1 : -2,
                                .exclusive = (int64_t)(kc_bits(&r) % 2),
                                .reverse = (int64_t)(kc_bits(&r) % 2)};
        kc_call c = {.op = MLSI_OP_SCAN, .attrs = &attrs, .n_in = 1, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], repeat % 3 ? KC_SMALL : KC_ANY);
        c.out[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, 3, shape, KC_DENSE);
        scan_reference(&attrs, &c.in[0].view, &e.view);
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_reduce");
    TCase *t = tcase_create("reduce");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, small_shapes);
    tcase_add_test(t, long_rows);
    tcase_add_test(t, argmax_argmin);
    tcase_add_test(t, scans);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
