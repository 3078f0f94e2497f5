/* Special values, edge extents and fixed orders of the reference meanings, against models written
 * here after docs/numerics.md. Kernels that accept the same call are held to the reference's bits.
 */
#include "support/op_eval.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

#define VALUES(...) ((const double[]){__VA_ARGS__})
#define INPUTS(...) ((const double *const[]){__VA_ARGS__})

/* op on the inputs gives exactly `want`. */
static void expect(const char *op, const char *operands, const char *attrs, const double *const *in,
                   int n, const double *want) {
    op_eval e = op_eval_begin(op, operands, attrs, 1, in);
    op_eval_run(&e);
    ck_assert_int_eq(mlsi_view_count(&e.expected[0].view), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(same(op_eval_get(&e, 0, i), want[i]),
                      "%s(%s) {%s}: element %d is %.17g, expected %.17g", op, operands, attrs, i,
                      op_eval_get(&e, 0, i), want[i]);
    op_eval_end(&e);
}

/* ---- BO-02: empty reductions are written --------------------------------------------------- */

START_TEST(empty_sums_are_identities) {
    static const double zeros[64], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const char *const dtypes[] = {"f32", "f64", "f16", "i32", "i8"};
    char a[64], b[64];
    for (int i = 0; i < 5; i++) {
        snprintf(a, sizeof a, "%s[4,0]; %s[0,4]", dtypes[i], dtypes[i]);
        expect("matmul", a, "", NULL, 16, zeros);
        snprintf(b, sizeof b, "%s[2,4,0]; %s[2,0,8]", dtypes[i], dtypes[i]);
        expect("matmul", b, "", NULL, 64, zeros);
        snprintf(a, sizeof a, "%s[0,4,3]; %s[0,3,4]", dtypes[i], dtypes[i]);
        expect("matmul", a, "", NULL, 0, NULL);
        snprintf(a, sizeof a, "%s[4,0]; %s[0,4]", dtypes[i], dtypes[i]);
        expect("dot_general", a, "lhs_contract=[1], rhs_contract=[0]", NULL, 16, zeros);
        snprintf(a, sizeof a, "%s[8,0,3]", dtypes[i]);
        expect("reduce_sum", a, "axes=[1,2]", NULL, 8, zeros);
        expect("reduce_prod", a, "axes=[1,2]", NULL, 8, ones);
    }
    expect("reduce_and", "bool[3,0]", "axes=[1]", NULL, 3, ones);
    expect("reduce_or", "bool[3,0]", "axes=[1]", NULL, 3, zeros);
    expect("quant_matmul", "f32[2,0]; q4_0[3,0]", "", NULL, 6, zeros);
    expect("logsumexp", "f32[2,0]", "", NULL, 2, VALUES(-INFINITY, -INFINITY));
    expect("reduce_mean", "f32[2,0]", "axes=[1]", NULL, 2, VALUES(NAN, NAN));
    expect("conv", "f32[1,0,3]; f32[2,0,1]", "", NULL, 6, zeros);
}
END_TEST

/* ---- BO-03: NaN in maxima ------------------------------------------------------------------ */

/* Row i of an [n, n] matrix has a NaN at i, and one more behind it in every other row. */
static void check_nan_rows(const char *dtype, int n) {
    char operands[64];
    double *x = calloc((size_t)(n * n), sizeof *x);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x[i * n + j] =
                j == i || (i % 2 && j == n - 1 && j > i) ? NAN : (i * 7 + j * 5) % 11 - 5;
    snprintf(operands, sizeof operands, "%s[%d,%d]", dtype, n, n);
    static const char *const ops[] = {"reduce_max", "reduce_min"}, *const args[] = {"argmax",
                                                                                    "argmin"};
    for (int k = 0; k < 2; k++) {
        op_eval e = op_eval_begin(ops[k], operands, "axes=[1]", 1, INPUTS(x));
        op_eval f = op_eval_begin(args[k], operands, "axis=1", 1, INPUTS(x));
        op_eval_run(&e);
        op_eval_run(&f);
        for (int i = 0; i < n; i++) {
            ck_assert_msg(isnan(op_eval_get(&e, 0, i)), "%s(%s): row %d lost its NaN", ops[k],
                          operands, i);
            ck_assert_msg(op_eval_get(&f, 0, i) == i, "%s(%s): row %d: %g", args[k], operands, i,
                          op_eval_get(&f, 0, i));
        }
        op_eval_end(&e);
        op_eval_end(&f);
    }
    free(x);
}

START_TEST(nan_wins_in_every_position) {
    for (int n = 1; n <= 70; n++)
        check_nan_rows("f32", n);
    for (int n = 1; n <= 70; n += 23)
        check_nan_rows("f64", n), check_nan_rows("f16", n), check_nan_rows("bf16", n);
    const double *in[] = {VALUES(1, NAN, NAN, -0.0, 0.0, -0.0, INFINITY),
                          VALUES(NAN, 1, NAN, 0.0, -0.0, -0.0, NAN)};
    expect("max", "f32[7]; f32[7]", "", in, 7, VALUES(NAN, NAN, NAN, 0.0, 0.0, -0.0, NAN));
    expect("min", "f64[7]; f64[7]", "", in, 7, VALUES(NAN, NAN, NAN, -0.0, -0.0, -0.0, NAN));
    expect("relu", "f32[4]", "", INPUTS(VALUES(NAN, -0.0, -INFINITY, INFINITY)), 4,
           VALUES(NAN, 0.0, 0.0, INFINITY));
    expect("clamp", "f32[3]; f32[3]; f32[3]", "",
           INPUTS(VALUES(5, NAN, 0), VALUES(0, 0, NAN), VALUES(1, 1, 1)), 3, VALUES(1, NAN, NAN));
}
END_TEST

START_TEST(argmax_takes_the_first_of_equals) {
    expect("argmax", "f32[2,5]", "", INPUTS(VALUES(3, 7, 7, 1, 7, -0.0, 0.0, -0.0, -1, 0.0)), 2,
           VALUES(1, 0));
    expect("argmin", "f32[2,5]", "", INPUTS(VALUES(3, -7, -7, 1, -7, 0.0, -0.0, 0.0, 1, -0.0)), 2,
           VALUES(1, 0));
    expect("argmax", "i32[4]", "", INPUTS(VALUES(-3, -1, -1, -2)), 1, VALUES(1));
    expect("argmax", "f32[3]", "", INPUTS(VALUES(INFINITY, NAN, NAN)), 1, VALUES(1));
    expect("reduce_max", "f32[3]", "", INPUTS(VALUES(-0.0, 0.0, -0.0)), 1, VALUES(0.0));
    expect("reduce_min", "f32[3]", "", INPUTS(VALUES(0.0, -0.0, 0.0)), 1, VALUES(-0.0));
}
END_TEST

/* ---- arithmetic ---------------------------------------------------------------------------- */

START_TEST(remainders_by_sign) {
    const double *in[] = {VALUES(7, -7, 7, -7, 6, -6, 0, 5), VALUES(3, 3, -3, -3, -3, 3, -3, 0)};
    expect("rem", "i32[8]; i32[8]", "", in, 8, VALUES(1, -1, 1, -1, 0, 0, 0, 0));
    expect("mod", "i32[8]; i32[8]", "", in, 8, VALUES(1, 2, -2, -1, 0, 0, 0, 0));
    expect("rem", "f32[8]; f32[8]", "", in, 8, VALUES(1, -1, 1, -1, 0.0, -0.0, 0.0, NAN));
    expect("mod", "f32[8]; f32[8]", "", in, 8, VALUES(1, 2, -2, -1, -0.0, 0.0, -0.0, NAN));
    const double *inf[] = {VALUES(-1, 1, INFINITY, 2), VALUES(INFINITY, -INFINITY, 2, INFINITY)};
    expect("mod", "f64[4]; f64[4]", "", inf, 4, VALUES(INFINITY, -INFINITY, NAN, 2));
    expect("rem", "f64[4]; f64[4]", "", inf, 4, VALUES(-1, 1, NAN, 2));
    expect("mod", "i8[2]; i8[2]", "", INPUTS(VALUES(-128, -128), VALUES(-1, 127)), 2,
           VALUES(0, 126));
}
END_TEST

START_TEST(integers_wrap_and_divide_by_nothing) {
    expect("div", "i8[4]; i8[4]", "", INPUTS(VALUES(-128, 5, -7, 7), VALUES(-1, 0, 2, -2)), 4,
           VALUES(-128, 0, -3, -3));
    expect("add", "u8[2]; u8[2]", "", INPUTS(VALUES(250, 1), VALUES(10, 1)), 2, VALUES(4, 2));
    expect("neg", "i16[2]", "", INPUTS(VALUES(-32768, 3)), 2, VALUES(-32768, -3));
    expect("abs", "i16[2]", "", INPUTS(VALUES(-32768, -3)), 2, VALUES(-32768, 3));
    expect("pow", "i32[6]; i32[6]", "",
           INPUTS(VALUES(1, -1, -1, 2, 0, 3), VALUES(-5, -5, -4, -1, -1, 5)), 6,
           VALUES(1, -1, 1, 0, 0, 243));
    const double *shift[] = {VALUES(-8, -8, -8, 8, 8, -1), VALUES(1, 8, -1, 8, -1, 7)};
    expect("shift_right", "i8[6]; i8[6]", "", shift, 6, VALUES(-4, -1, -1, 0, 0, -1));
    expect("shift_left", "i8[6]; i8[6]", "", shift, 6, VALUES(-16, 0, 0, 0, 0, -128));
    expect("reduce_sum", "i8[3]", "", INPUTS(VALUES(100, 100, 1)), 1, VALUES(-55));
    expect("dot_general", "i8[1,2]; i8[2,1]", "lhs_contract=[1], rhs_contract=[0], dtype=i32",
           INPUTS(VALUES(100, 100), VALUES(100, 50)), 1, VALUES(15000));
}
END_TEST

START_TEST(casts_at_the_ends) {
    const double *x = VALUES(NAN, INFINITY, -INFINITY, 1e30, -1e30, -0.9, 2.9, -2.9);
    expect("cast", "f32[8]", "dtype=i32", INPUTS(x), 8,
           VALUES(0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, 2, -2));
    expect("cast", "f64[8]", "dtype=i8", INPUTS(x), 8, VALUES(0, 127, -128, 127, -128, 0, 2, -2));
    expect("cast", "f16[8]", "dtype=u8", INPUTS(x), 8, VALUES(0, 255, 0, 255, 0, 0, 2, 0));
    expect("cast", "f32[8]", "dtype=i64", INPUTS(x), 8,
           VALUES(0, 0x1p63, -0x1p63, 0x1p63, -0x1p63, 0, 2, -2)); /* INT64_MAX reads as 2^63 */
    expect("cast", "f32[8]", "dtype=bool", INPUTS(x), 8, VALUES(1, 1, 1, 1, 1, 1, 1, 1));
    expect("cast", "f32[2]", "dtype=bool", INPUTS(VALUES(0.0, -0.0)), 2, VALUES(0, 0));
    expect("cast", "f32[4]", "dtype=f8e4m3", INPUTS(VALUES(1e9, -1e9, INFINITY, NAN)), 4,
           VALUES(448, -448, NAN, NAN));
    expect("cast", "f32[3]", "dtype=f8e5m2", INPUTS(VALUES(1e9, -INFINITY, NAN)), 3,
           VALUES(INFINITY, -INFINITY, NAN));
    expect("cast", "f32[3]", "dtype=bf16", INPUTS(VALUES(FLT_MAX, 1.00390625, 1.01171875)), 3,
           VALUES(INFINITY, 1.0, 1.015625)); /* to infinity; two ties to even */
    /* One rounding: a tie broken by a bit that f32 cannot hold. */
    expect("cast", "f64[2]", "dtype=f16", INPUTS(VALUES(1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11)), 2,
           VALUES(1 + 0x1p-10, 1.0));
    expect("cast", "i64[2]", "dtype=f32", INPUTS(VALUES(16777217, 16777219)), 2,
           VALUES(16777216, 16777220));
    op_eval e =
        op_eval_begin("cast", "i64[1]", "dtype=bf16", 1, NULL); /* 2^60 + 2^52 + 1: above the tie */
    kc_set_i(&e.call.in[0].view, 0, ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1);
    memcpy(e.call.in[0].before, e.call.in[0].block, e.call.in[0].bytes);
    op_eval_run(&e);
    ck_assert(op_eval_get(&e, 0, 0) == 0x1p60 + 0x1p53);
    op_eval_end(&e);
}
END_TEST

/* ---- fixed orders -------------------------------------------------------------------------- */

static float model_sum(const float *x, int64_t n) {
    if (n > 4096) {
        int64_t chunks = (n + 4095) / 4096;
        float *sums = calloc((size_t)chunks, sizeof *sums);
        for (int64_t c = 0; c < chunks; c++)
            sums[c] = model_sum(x + c * 4096, n - c * 4096 < 4096 ? n - c * 4096 : 4096);
        float s = model_sum(sums, chunks);
        free(sums);
        return s;
    }
    float lane[128] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 128] += x[i];
    for (int h = 64; h; h /= 2)
        for (int j = 0; j < h; j++)
            lane[j] += lane[j + h];
    return lane[0];
}

static float model_dot(const float *a, const float *b, int64_t k) {
    float c = 0;
    for (int64_t first = 0; first < k; first += 256) {
        float s = 0;
        for (int64_t i = first; i < k && i < first + 256; i++)
            s = fmaf(a[i], b[i], s);
        c = first ? c + s : s;
    }
    return c;
}

/* Recursive halves of the rule: segment scans, then the totals before each. */
static void model_scan(float *x, int64_t n) {
    float totals[128], prefix;
    int64_t segments = (n + 63) / 64;
    for (int64_t s = 0; s < segments; s++) {
        int64_t last = s * 64 + 64 < n ? s * 64 + 64 : n;
        for (int64_t i = s * 64 + 1; i < last; i++)
            x[i] = x[i - 1] + x[i];
        totals[s] = x[last - 1];
    }
    if (segments == 1) return;
    model_scan(totals, segments);
    for (int64_t i = 64; i < n; i++) {
        prefix = totals[i / 64 - 1];
        x[i] = prefix + x[i];
    }
}

static const float *data_f32(const op_eval *e, int i) { return e->call.in[i].view.data; }

START_TEST(sums_follow_the_tree) {
    static const int lengths[] = {1, 2, 127, 128, 129, 255, 4095, 4096, 4097, 8193, 9001};
    char operands[64];
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        snprintf(operands, sizeof operands, "f32[%d]:finite", lengths[k]);
        op_eval e = op_eval_begin("reduce_sum", operands, "", 1, NULL);
        op_eval_run(&e);
        ck_assert(same(op_eval_get(&e, 0, 0), model_sum(data_f32(&e, 0), lengths[k])));
        op_eval_end(&e);
        e = op_eval_begin("reduce_mean", operands, "", 1, NULL);
        op_eval_run(&e);
        ck_assert(same(op_eval_get(&e, 0, 0),
                       model_sum(data_f32(&e, 0), lengths[k]) / (float)lengths[k]));
        op_eval_end(&e);
    }
}
END_TEST

/* A lane starts at +0, and +0 + -0 = +0: no sum is -0, not even that of a scalar. */
START_TEST(sums_of_negative_zeros_are_positive) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
    static const struct {
        const char *shape, *axes;
        int n;
    } rows[] = {{"[]", "", 1},
                {"[]", "keep=true", 1},
                {"[1]", "", 1},
                {"[2]", "axes=[0]", 1},
                {"[2,1]", "axes=[1]", 2},
                {"[1,2]", "axes=[0], keep=true", 2},
                {"[2,1,1]", "axes=[1,2]", 2},
                {"[1,16]", "axes=[0]", 16}};
    static const double zeros[16];
    double negative[16];
    char operands[32];
    for (int i = 0; i < 16; i++)
        negative[i] = -0.0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int t = 0; t < 4; t++) {
            snprintf(operands, sizeof operands, "%s%s", dtypes[t], rows[i].shape);
            expect("reduce_sum", operands, rows[i].axes, INPUTS(negative), rows[i].n, zeros);
            expect("reduce_mean", operands, rows[i].axes, INPUTS(negative), rows[i].n, zeros);
        }
    /* 1 * -0 = -0, and a maximum takes an element as it is. */
    expect("reduce_prod", "f32[]", "", INPUTS(negative), 1, negative);
    expect("reduce_max", "f32[]", "", INPUTS(negative), 1, negative);
    expect("reduce_min", "f32[]", "", INPUTS(negative), 1, negative);
}
END_TEST

START_TEST(products_follow_the_segments) {
    static const int lengths[] = {1, 2, 255, 256, 257, 512, 700};
    char operands[64];
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        snprintf(operands, sizeof operands, "f32[%d]:finite; f32[%d]:finite", lengths[k],
                 lengths[k]);
        op_eval e = op_eval_begin("matmul", operands, "", 1, NULL);
        op_eval_run(&e);
        ck_assert(
            same(op_eval_get(&e, 0, 0), model_dot(data_f32(&e, 0), data_f32(&e, 1), lengths[k])));
        op_eval_end(&e);
    }
}
END_TEST

START_TEST(scans_follow_the_segments) {
    static const int lengths[] = {1, 63, 64, 65, 128, 129, 4096, 4097, 5000};
    char operands[64];
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        snprintf(operands, sizeof operands, "f32[%d]:finite", lengths[k]);
        op_eval e = op_eval_begin("scan", operands, "kind=sum", 1, NULL);
        float *model = malloc(sizeof *model * (size_t)lengths[k]);
        memcpy(model, data_f32(&e, 0), sizeof *model * (size_t)lengths[k]);
        model_scan(model, lengths[k]);
        op_eval_run(&e);
        for (int i = 0; i < lengths[k]; i++)
            ck_assert_msg(same(op_eval_get(&e, 0, i), model[i]), "scan of %d: element %d",
                          lengths[k], i);
        free(model);
        op_eval_end(&e);
    }
}
END_TEST

/* ---- rows ---------------------------------------------------------------------------------- */

START_TEST(masked_rows) {
    const double inf = INFINITY;
    const double *x[] = {VALUES(-inf, -inf, -inf, 0, -inf, 0)};
    expect("softmax", "f32[2,3]", "", x, 6, VALUES(NAN, NAN, NAN, 0.5, 0, 0.5));
    expect("softmax", "f32[2,3]", "masked_zero=true", x, 6, VALUES(0, 0, 0, 0.5, 0, 0.5));
    expect("softmax", "f32[3]", "masked_zero=true", INPUTS(VALUES(-inf, NAN, -inf)), 3,
           VALUES(NAN, NAN, NAN));
    expect("logsumexp", "f32[2,2]", "", INPUTS(VALUES(-inf, -inf, inf, 0)), 2, VALUES(-inf, inf));
    expect("log_softmax", "f32[2]", "", INPUTS(VALUES(-inf, -inf)), 2, VALUES(NAN, NAN));
    expect("cross_entropy", "f32[3,2]; i64[3]", "ignore_index=1",
           INPUTS(VALUES(0, 0, -inf, 0, NAN, NAN), VALUES(1, 0, 1)), 3, VALUES(0, inf, 0));
    /* Mean square minus squared mean would cancel to nothing here. */
    expect("layer_norm", "f32[4]", "eps=0", INPUTS(VALUES(40000, 40001, 40002, 40003)), 4,
           VALUES(-1.5f * (1.0f / sqrtf(1.25f)), -0.5f * (1.0f / sqrtf(1.25f)),
                  0.5f * (1.0f / sqrtf(1.25f)), 1.5f * (1.0f / sqrtf(1.25f))));
}
END_TEST

/* ---- errors of values ---------------------------------------------------------------------- */

static void fails(const char *op, const char *operands, const char *attrs, const double *const *in,
                  const char *text) {
    op_eval e = op_eval_begin(op, operands, attrs, 1, in);
    op_eval_must_fail(&e, MLSYS_E_ARG, text);
    op_eval_end(&e);
}

START_TEST(indices_out_of_range_are_errors) {
    fails("gather", "f32[3,2]; i64[2]", "", INPUTS(NULL, VALUES(0, 3)),
          "gather: indices: index 3 at position 1 outside [-3,3)");
    fails("gather", "f32[3,2]; i32[2]", "", INPUTS(NULL, VALUES(-4, 0)), "index -4 at position 0");
    fails("gather", "f32[3,0]; i64[1]", "", INPUTS(NULL, VALUES(7)), "index 7 at position 0");
    fails("gather", "f32[0,3]; i64[1]", "", INPUTS(NULL, VALUES(0)),
          "index 0 at position 0 outside [0,0)");
    fails("embedding", "f32[3,2]; i64[1]", "", INPUTS(NULL, VALUES(3)),
          "embedding: indices: index 3");
    fails("scatter", "f32[3]; i64[2]; f32[2]", "", INPUTS(NULL, VALUES(2, -4), NULL),
          "scatter: indices: index -4 at position 1");
    fails("dynamic_slice", "f32[5]; i64[1]", "sizes=[3]", INPUTS(NULL, VALUES(3)), "dynamic_slice");
    fails("dynamic_update_slice", "f32[5]; f32[3]; i64[1]", "", INPUTS(NULL, NULL, VALUES(-1)),
          "dynamic_update_slice");
    fails("cross_entropy", "f32[2,3]; i64[2]", "", INPUTS(NULL, VALUES(0, 3)),
          "cross_entropy: target: class 3 at position 1 outside [0,3)");
    fails("attention", "f32[1,1,1,2]; f32[1,3,1,2]; f32[1,3,1,2]; _; i64[1]", "",
          INPUTS(NULL, NULL, NULL, VALUES(4)), "attention: kv_len[0] is 4, outside [0,3]");
}
END_TEST

START_TEST(order_of_equals) {
    op_eval e = op_eval_begin("sort", "f32[7]", "", 2,
                              INPUTS(VALUES(NAN, 1, -0.0, 0.0, -INFINITY, NAN, 1)));
    op_eval_run(&e);
    static const double where[] = {4, 2, 3, 1, 6, 0, 5}, down[] = {0, 5, 1, 6, 2, 3, 4};
    for (int i = 0; i < 7; i++)
        ck_assert(op_eval_get(&e, 1, i) == where[i]);
    ck_assert(signbit(op_eval_get(&e, 0, 1)) && !signbit(op_eval_get(&e, 0, 2)));
    op_eval_end(&e);
    e = op_eval_begin("sort", "f32[7]", "descending=true", 2,
                      INPUTS(VALUES(NAN, 1, -0.0, 0.0, -INFINITY, NAN, 1)));
    op_eval_run(&e);
    for (int i = 0; i < 7; i++)
        ck_assert(op_eval_get(&e, 1, i) == down[i]);
    op_eval_end(&e);
    e = op_eval_begin("topk", "f32[7]", "k=4", 2,
                      INPUTS(VALUES(NAN, 1, -0.0, 0.0, -INFINITY, NAN, 1)));
    op_eval_run(&e);
    for (int i = 0; i < 4; i++)
        ck_assert(op_eval_get(&e, 1, i) == down[i]);
    op_eval_end(&e);
    expect("scatter", "f32[3]; i64[3]; f32[3]", "",
           INPUTS(VALUES(1, 2, 3), VALUES(1, -2, 1), VALUES(7, 8, 9)), 3, VALUES(1, 9, 3));
    expect("scatter", "f16[1]; i64[2]; f16[2]", "kind=add",
           INPUTS(VALUES(2048), VALUES(0, 0), VALUES(1, 1)), 1, VALUES(2048));
}
END_TEST

/* BO-08, the pool's half: padding in the divisor only when asked. */
START_TEST(pool_divisors) {
    const double *x[] = {VALUES(2, 4, 6)};
    expect("pool", "f32[1,1,3]", "kind=average, kernel=[2], pads=[1,1]", x, 4, VALUES(2, 3, 5, 6));
    expect("pool", "f32[1,1,3]", "kind=average, kernel=[2], pads=[1,1], count_pad=true", x, 4,
           VALUES(1, 3, 5, 3));
    expect("pool", "f32[1,1,3]", "kernel=[2], pads=[1,1]", INPUTS(VALUES(-2, NAN, -6)), 4,
           VALUES(-2, NAN, NAN, -6));
    expect("pool", "f32[1,1,3]", "kernel=[2], strides=[2], ceil_mode=true", x, 2, VALUES(4, 6));
    expect("pool", "f32[1,1,3]", "kernel=[2], strides=[2]", x, 1, VALUES(4));
    expect("pool", "f32[1,1,3]",
           "kind=average, kernel=[1], strides=[2], pads=[0,3], ceil_mode=true, count_pad=true", x,
           3, VALUES(2, 6, 0));
}
END_TEST

int main(void) {
    Suite *s = suite_create("op values");
    TCase *tc = tcase_create("values");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, empty_sums_are_identities);
    tcase_add_test(tc, nan_wins_in_every_position);
    tcase_add_test(tc, argmax_takes_the_first_of_equals);
    tcase_add_test(tc, remainders_by_sign);
    tcase_add_test(tc, integers_wrap_and_divide_by_nothing);
    tcase_add_test(tc, casts_at_the_ends);
    tcase_add_test(tc, sums_follow_the_tree);
    tcase_add_test(tc, sums_of_negative_zeros_are_positive);
    tcase_add_test(tc, products_follow_the_segments);
    tcase_add_test(tc, scans_follow_the_segments);
    tcase_add_test(tc, masked_rows);
    tcase_add_test(tc, indices_out_of_range_are_errors);
    tcase_add_test(tc, order_of_equals);
    tcase_add_test(tc, pool_divisors);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
