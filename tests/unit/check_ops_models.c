/* Ops whose reference no other suite holds against a second opinion: models of slice (BO-04),
 * convolution, integer activations, creation. */
#include "core/rng.h"
#include "support/op_eval.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- slice: every start, stop and step ----------------------------------------------------- */

/* Indices of an axis of extent n, found by walking. */
static int walk(int n, int64_t start, int64_t stop, int64_t step, int *index) {
    int count = 0;
    if (start < 0 && start > -1000) start += n; /* the open ends stay where they are */
    if (stop < 0 && stop > -1000) stop += n;
    if (step > 0) {
        int64_t first = start < 0 ? 0 : start;
        for (int64_t i = first; i < n && i < stop; i += step)
            index[count++] = (int)i;
    } else {
        int64_t first = start >= n ? n - 1 : start < 0 ? 0 : start;
        for (int64_t i = first; i < n && i >= 0 && i > stop; i += step)
            index[count++] = (int)i;
    }
    return count;
}

START_TEST(slices_clamp_as_onnx_says) {
    int checked = 0;
    for (int n = 0; n <= 5; n++)
        for (int a = -n - 2; a <= n + 2; a++)
            for (int b = -n - 2; b <= n + 2; b++)
                for (int step = -3; step <= 3; step++) {
                    if (step == 0) continue;
                    int64_t start = a == -n - 2 ? INT64_MIN : a == n + 2 ? INT64_MAX : a;
                    int64_t stop = b == -n - 2 ? INT64_MIN : b == n + 2 ? INT64_MAX : b;
                    char operands[32], attrs[128];
                    double x[5] = {10, 11, 12, 13, 14};
                    int index[8], count = walk(n, start, stop, step, index);
                    snprintf(operands, sizeof operands, "f32[%d]", n);
                    snprintf(attrs, sizeof attrs, "starts=[%lld], stops=[%lld], steps=[%d]",
                             (long long)start, (long long)stop, step);
                    op_eval e =
                        op_eval_begin("slice", operands, attrs, 1, (const double *const[]){x});
                    op_eval_run(&e);
                    ck_assert_msg(e.expected[0].view.shape[0] == count,
                                  "%s {%s}: %lld elements, expected %d", operands, attrs,
                                  (long long)e.expected[0].view.shape[0], count);
                    for (int i = 0; i < count; i++)
                        ck_assert(op_eval_get(&e, 0, i) == x[index[i]]);
                    op_eval_end(&e);
                    checked++;
                }
    ck_assert_int_gt(checked, 3000);
}
END_TEST

/* ---- conv: numbers, and the transposed map as the adjoint ---------------------------------- */

static void expect(const char *op, const char *operands, const char *attrs, const double *const *in,
                   int n, const double *want) {
    op_eval e = op_eval_begin(op, operands, attrs, 1, in);
    op_eval_run(&e);
    ck_assert_int_eq(mlsi_view_count(&e.expected[0].view), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(op_eval_get(&e, 0, i) == want[i],
                      "%s(%s) {%s}: element %d is %g, expected %g", op, operands, attrs, i,
                      op_eval_get(&e, 0, i), want[i]);
    op_eval_end(&e);
}
#define VALUES(...) ((const double[]){__VA_ARGS__})
#define INPUTS(...) ((const double *const[]){__VA_ARGS__})

START_TEST(convolutions_by_hand) {
    const double *one[] = {VALUES(1, 2, 3, 4), VALUES(1, 10)};
    expect("conv", "f32[1,1,4]; f32[1,1,2]", "", one, 3, VALUES(21, 32, 43));
    expect("conv", "f32[1,1,4]; f32[1,1,2]", "pads=[1,0]", one, 4, VALUES(10, 21, 32, 43));
    expect("conv", "f32[1,1,4]; f32[1,1,2]", "pads=[0,2], strides=[2]", one, 3, VALUES(21, 43, 0));
    expect("conv", "f32[1,1,4]; f32[1,1,2]", "dilations=[2]", one, 2, VALUES(31, 42));
    /* Two groups of one channel, two results each. */
    expect("conv", "f32[1,2,2]; f32[4,1,1]", "groups=2",
           INPUTS(VALUES(1, 2, 3, 4), VALUES(1, 10, 100, 1000)), 8,
           VALUES(1, 2, 10, 20, 300, 400, 3000, 4000));
    expect("conv", "f32[1,1,2]; f32[1,1,3]", "transposed=true, strides=[2]",
           INPUTS(VALUES(1, 10), VALUES(1, 2, 3)), 5, VALUES(1, 2, 13, 20, 30));
    expect("conv", "f32[1,1,2]; f32[1,1,3]",
           "transposed=true, strides=[2], pads=[1,1], output_pads=[1]",
           INPUTS(VALUES(1, 10), VALUES(1, 2, 3)), 4, VALUES(2, 13, 20, 30));
    /* Rows of the kernel, then columns. */
    expect("conv", "f32[1,1,2,3]; f32[1,1,2,2]", "",
           INPUTS(VALUES(1, 2, 3, 4, 5, 6), VALUES(1, 10, 100, 1000)), 2,
           VALUES(1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000));
}
END_TEST

static double inner(const mlsi_view *a, const mlsi_view *b) {
    double s = 0;
    ck_assert_int_eq(mlsi_view_count(a), mlsi_view_count(b));
    for (int64_t i = 0; i < mlsi_view_count(a); i++)
        s += kc_get_f(a, i) * kc_get_f(b, i);
    return s;
}

static void fill_integers(op_eval *e, int operand, kc_rng *r) {
    for (int64_t i = 0; i < mlsi_view_count(&e->call.in[operand].view); i++)
        op_eval_set(e, operand, i, (double)kc_int(r, -9, 9));
}

/* <conv(x, w), y> = <x, conv_transposed(y, w)>, exactly: all values are small integers. */
static void check_adjoint(const char *x, const char *w, const char *y, const char *attrs,
                          const char *back) {
    char operands[128], both[160];
    kc_rng r = kc_seed(11);
    snprintf(operands, sizeof operands, "%s; %s", x, w);
    op_eval f = op_eval_begin("conv", operands, attrs, 1, NULL);
    fill_integers(&f, 0, &r);
    fill_integers(&f, 1, &r);
    snprintf(operands, sizeof operands, "%s; %s", y, w);
    snprintf(both, sizeof both, "transposed=true, %s%s", attrs, back);
    op_eval b = op_eval_begin("conv", operands, both, 1, NULL);
    fill_integers(&b, 0, &r);
    for (int64_t i = 0; i < mlsi_view_count(&f.call.in[1].view); i++)
        op_eval_set(&b, 1, i, kc_get_f(&f.call.in[1].view, i));
    op_eval_run(&f);
    op_eval_run(&b);
    ck_assert(inner(&f.expected[0].view, &b.call.in[0].view) ==
              inner(&f.call.in[0].view, &b.expected[0].view));
    op_eval_end(&f);
    op_eval_end(&b);
}

START_TEST(transposed_convolution_is_the_adjoint) {
    check_adjoint("f64[2,3,9]", "f64[4,3,3]", "f64[2,4,4]", "strides=[2]", "");
    check_adjoint("f64[1,4,8,7]", "f64[6,2,3,2]", "f64[1,6,5,6]",
                  "strides=[2,1], pads=[1,0,2,1], dilations=[1,2], groups=2",
                  ", output_pads=[0,0]");
    check_adjoint("f64[1,2,8]", "f64[2,2,3]", "f64[1,2,2]", "strides=[3]", ", output_pads=[2]");
}
END_TEST

/* ---- quant_matmul: integer activations that quantise exactly ------------------------------- */

/* x in steps of 1/8 with 127/8 in every block: the scale is 1/8 and nothing is lost, so the integer
 * path differs from the float path by rounding only. */
START_TEST(exact_activations_give_the_float_product) {
    int n;
    const mlsys_dtype *all = mlsi_dtype_all(&n);
    for (int t = 0; t < n; t++) {
        if (!mlsi_dtype_is_block(all[t])) continue;
        char operands[64];
        snprintf(operands, sizeof operands, "f32[2,512]; %s[3,512]", mlsi_dtype_get(all[t])->name);
        op_eval ints = op_eval_begin("quant_matmul", operands, "act=int8", 1, NULL);
        op_eval floats = op_eval_begin("quant_matmul", operands, "", 1, NULL);
        kc_rng r = kc_seed(5);
        for (int i = 0; i < 1024; i++) {
            double x = i % 32 == 5 ? 127.0 / 8 : (double)kc_int(&r, -127, 127) / 8;
            op_eval_set(&ints, 0, i, x);
            op_eval_set(&floats, 0, i, x);
        }
        op_eval_run(&ints);
        op_eval_run(&floats);
        for (int i = 0; i < 6; i++) {
            double a = op_eval_get(&ints, 0, i), b = op_eval_get(&floats, 0, i);
            ck_assert_msg(fabs(a - b) <= 1e-4 * (100 + fabs(b)),
                          "%s: %.9g by integers, %.9g by floats", operands, a, b);
        }
        op_eval_end(&ints);
        op_eval_end(&floats);
    }
}
END_TEST

START_TEST(odd_activations) {
    op_eval e = op_eval_begin("quant_matmul", "f32[3,64]; q8_0[2,64]", "act=int8", 1, NULL);
    for (int i = 0; i < 64; i++)
        op_eval_set(&e, 0, i, 0), op_eval_set(&e, 0, 64 + i, i == 40 ? NAN : 1),
            op_eval_set(&e, 0, 128 + i, i == 3 ? INFINITY : 1);
    op_eval_run(&e);
    for (int j = 0; j < 2; j++) {
        ck_assert(op_eval_get(&e, 0, j) == 0);
        ck_assert(isnan(op_eval_get(&e, 0, 2 + j)));
        ck_assert(isnan(op_eval_get(&e, 0, 4 + j)));
    }
    op_eval_end(&e);
}
END_TEST

/* ---- creation ------------------------------------------------------------------------------ */

START_TEST(created_values) {
    expect("iota", "", "dtype=f32, shape=[2,3], axis=1", NULL, 6, VALUES(0, 1, 2, 0, 1, 2));
    expect("iota", "", "dtype=i8, shape=[2,3], axis=-2", NULL, 6, VALUES(0, 0, 0, 1, 1, 1));
    expect("full", "", "dtype=i8, shape=[2], ivalue=300", NULL, 2, VALUES(44, 44));
    expect("full", "", "dtype=f16, shape=[1], value=2049", NULL, 1, VALUES(2048));
    expect("full", "", "dtype=bool, shape=[], ivalue=7", NULL, 1, VALUES(1));
    const double *keys[] = {VALUES(12345), VALUES(-7)};
    double bits[5], uniform[5], low[5];
    for (int i = 0; i < 5; i++) {
        uint64_t stream = (uint64_t)-7;
        bits[i] = (int32_t)mlsi_rng_bits32(12345, stream, (uint64_t)i);
        low[i] = (uint8_t)mlsi_rng_bits32(12345, stream, (uint64_t)i);
        uniform[i] = mlsi_rng_uniform64(12345, stream, (uint64_t)i);
    }
    expect("random", "i64[]; i64[]", "dtype=i32, shape=[5]", keys, 5, bits);
    expect("random", "i64[]; i64[]", "dtype=u8, shape=[5,1]", keys, 5, low);
    expect("random", "i64[]; i64[]", "dtype=f64, shape=[5], kind=uniform", keys, 5, uniform);
}
END_TEST

START_TEST(rotation_by_hand) {
    /* A quarter turn in exact terms does not exist; a zero angle and the formula in f32 do. */
    expect("rope", "f32[1,1,1,5]; i64[1]; f32[2]", "",
           INPUTS(VALUES(1, 2, 3, 4, 5), VALUES(0), VALUES(1, 0.5)), 5, VALUES(1, 2, 3, 4, 5));
    float c = cosf(3), s = sinf(3); /* libm is close, not equal: compare loosely */
    op_eval halves = op_eval_begin("rope", "f32[1,1,1,4]; i64[1]; f32[2]", "", 1,
                                   INPUTS(VALUES(1, 2, 3, 4), VALUES(3), VALUES(1, 0)));
    op_eval pairs = op_eval_begin("rope", "f32[1,1,1,4]; i64[1]; f32[2]", "pairing=pairs", 1,
                                  INPUTS(VALUES(1, 2, 3, 4), VALUES(3), VALUES(1, 0)));
    op_eval_run(&halves);
    op_eval_run(&pairs);
    const double want_halves[] = {c - 3 * s, 2, 3 * c + s, 4},
                 want_pairs[] = {c - 2 * s, 2 * c + s, 3, 4};
    for (int i = 0; i < 4; i++) {
        ck_assert(fabs(op_eval_get(&halves, 0, i) - want_halves[i]) < 1e-5);
        ck_assert(fabs(op_eval_get(&pairs, 0, i) - want_pairs[i]) < 1e-5);
    }
    op_eval_end(&halves);
    op_eval_end(&pairs);
}
END_TEST

int main(void) {
    Suite *s = suite_create("op models");
    TCase *tc = tcase_create("models");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, slices_clamp_as_onnx_says);
    tcase_add_test(tc, convolutions_by_hand);
    tcase_add_test(tc, transposed_convolution_is_the_adjoint);
    tcase_add_test(tc, exact_activations_give_the_float_product);
    tcase_add_test(tc, odd_activations);
    tcase_add_test(tc, created_values);
    tcase_add_test(tc, rotation_by_hand);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
