/* Attention's contract beyond single calls: masks (BO-01), alignments and chunking (BO-13). Kernels
 * that accept the same call are held to the reference's bits. */
#include "support/op_eval.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261203 };

/* ---- BO-01: rows without visible keys ------------------------------------------------------ */

/* Rows 4..7 see nothing; keys 6 and 7 are hidden from all and hold NaN and huge values. */
static op_eval masked_square(const char *mask_type) {
    char operands[160];
    snprintf(operands, sizeof operands,
             "f32[1,8,1,8]:small; f32[1,8,1,8]:small; f32[1,8,1,8]:small; %s[8,8]", mask_type);
    op_eval e = op_eval_begin("attention", operands, "lse=true", 2, NULL);
    bool additive = strcmp(mask_type, "bool") != 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            bool visible = i < 4 && j < 6;
            op_eval_set(&e, 3, i * 8 + j, additive ? (visible ? 0 : -INFINITY) : visible);
        }
    for (int operand = 1; operand < 3 && !additive; operand++)
        for (int d = 0; d < 8; d++) {
            op_eval_set(&e, operand, 6 * 8 + d, NAN);
            op_eval_set(&e, operand, 7 * 8 + d, 3e38);
        }
    return e;
}

START_TEST(fully_masked_rows_are_zero) {
    static const char *const masks[] = {"bool", "f32"};
    double first[4 * 8];
    for (int m = 0; m < 2; m++) {
        op_eval e = masked_square(masks[m]);
        op_eval_run(&e);
        for (int i = 0; i < 8; i++) {
            double lse = op_eval_get(&e, 1, i);
            ck_assert_msg(i < 4 ? isfinite(lse) : lse == -INFINITY, "%s: lse of row %d is %g",
                          masks[m], i, lse);
            for (int d = 0; d < 8; d++) {
                double y = op_eval_get(&e, 0, i * 8 + d);
                ck_assert_msg(i < 4 ? isfinite(y) : y == 0 && !signbit(y), "%s: row %d gives %g",
                              masks[m], i, y);
                if (i < 4 && m == 0) first[i * 8 + d] = y;
                if (i < 4) ck_assert(y == first[i * 8 + d]);
            }
        }
        op_eval_end(&e);
    }
}
END_TEST

START_TEST(visible_nan_reaches_its_query_only) {
    op_eval e =
        op_eval_begin("attention", "f32[1,3,1,2]:small; f32[1,3,1,2]:small; f32[1,3,1,2]:small",
                      "causal=top_left", 1, NULL);
    op_eval_set(&e, 2, 2, NAN); /* value of key 1: seen by queries 1 and 2, in one column */
    op_eval_run(&e);
    for (int i = 0; i < 3; i++) {
        ck_assert(isnan(op_eval_get(&e, 0, i * 2)) == (i >= 1));
        ck_assert(isfinite(op_eval_get(&e, 0, i * 2 + 1)));
    }
    op_eval_end(&e);
}
END_TEST

/* ---- BO-13: alignments --------------------------------------------------------------------- */

/* Which keys a query sees: scores are equal, so key j's one-hot value shows as a nonzero column j.
 */
static void expect_visible(const char *operands, const char *attrs, int queries, int keys,
                           const char *const *rows) {
    op_eval e = op_eval_begin("attention", operands, attrs, 1, NULL);
    for (int i = 0; i < queries * 2; i++)
        op_eval_set(&e, 0, i, 0);
    for (int j = 0; j < keys; j++)
        for (int d = 0; d < keys; d++)
            op_eval_set(&e, 2, j * keys + d, d == j);
    op_eval_run(&e);
    for (int i = 0; i < queries; i++)
        for (int j = 0; j < keys; j++)
            ck_assert_msg((op_eval_get(&e, 0, i * keys + j) != 0) == (rows[i][j] == 'x'),
                          "%s {%s}: query %d, key %d, expected row %s", operands, attrs, i, j,
                          rows[i]);
    op_eval_end(&e);
}

START_TEST(alignments_are_named) {
    const char *square = "f32[1,3,1,2]; f32[1,3,1,2]:small; f32[1,3,1,3]";
    const char *decode = "f32[1,1,1,2]; f32[1,4,1,2]:small; f32[1,4,1,4]";
    const char *wide = "f32[1,2,1,2]; f32[1,4,1,2]:small; f32[1,4,1,4]";
    const char *tall = "f32[1,5,1,2]; f32[1,2,1,2]:small; f32[1,2,1,2]";
    expect_visible(square, "", 3, 3, (const char *const[]){"xxx", "xxx", "xxx"});
    expect_visible(square, "causal=top_left", 3, 3, (const char *const[]){"x..", "xx.", "xxx"});
    expect_visible(square, "causal=bottom_right", 3, 3, (const char *const[]){"x..", "xx.", "xxx"});
    expect_visible(decode, "causal=top_left", 1, 4, (const char *const[]){"x..."});
    expect_visible(decode, "causal=bottom_right", 1, 4, (const char *const[]){"xxxx"});
    expect_visible(wide, "causal=top_left", 2, 4, (const char *const[]){"x...", "xx.."});
    expect_visible(wide, "causal=bottom_right", 2, 4, (const char *const[]){"xxx.", "xxxx"});
    expect_visible(tall, "causal=bottom_right", 5, 2,
                   (const char *const[]){"..", "..", "..", "x.", "xx"});
    expect_visible(tall, "causal=top_left", 5, 2,
                   (const char *const[]){"x.", "xx", "xx", "xx", "xx"});
    expect_visible(wide, "causal=bottom_right, window=2", 2, 4,
                   (const char *const[]){".xx.", "..xx"});
    expect_visible(square, "window=1", 3, 3, (const char *const[]){"xxx", ".xx", "..x"});
    expect_visible("f32[1,2,1,2]; f32[1,4,1,2]:small; f32[1,4,1,4]; _; i64[1]:const(3)",
                   "causal=bottom_right", 2, 4, (const char *const[]){"xx..", "xxx."});
    expect_visible("f32[1,2,1,2]; f32[1,4,1,2]:small; f32[1,4,1,4]; _; i64[1]:const(1)",
                   "causal=bottom_right", 2, 4, (const char *const[]){"....", "x..."});
    expect_visible("f32[1,2,1,2]; f32[1,4,1,2]:small; f32[1,4,1,4]; _; i64[1]:const(0)", "", 2, 4,
                   (const char *const[]){"....", "...."});
}
END_TEST

enum { TOKENS = 150, HEADS = 2, WIDTH = 5 };

/* Queries [first, first + n) of a sequence against a cache that holds first + n keys and NaN behind
 * them. */
static void chunk(const char *attrs, const double *q, const double *kv, int first, int n,
                  double *y) {
    char operands[200];
    snprintf(operands, sizeof operands,
             "f32[1,%d,%d,%d]; f32[1,%d,1,%d]; f32[1,%d,1,%d]; _; i64[1]:const(%d)", n, HEADS,
             WIDTH, TOKENS, WIDTH, TOKENS, WIDTH, first + n);
    double *k = malloc(sizeof *k * TOKENS * WIDTH), *v = malloc(sizeof *v * TOKENS * WIDTH);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        k[i] = i < (first + n) * WIDTH ? kv[i] : NAN;
        v[i] = i < (first + n) * WIDTH ? kv[TOKENS * WIDTH + i] : NAN;
    }
    const double *in[] = {q + first * HEADS * WIDTH, k, v, NULL};
    op_eval e = op_eval_begin("attention", operands, attrs, 1, in);
    op_eval_run(&e);
    for (int i = 0; i < n * HEADS * WIDTH; i++)
        y[first * HEADS * WIDTH + i] = op_eval_get(&e, 0, i);
    op_eval_end(&e);
    free(k);
    free(v);
}

START_TEST(chunks_and_tokens_give_the_bits_of_the_whole) {
    static const char *const attrs[] = {"causal=bottom_right", "causal=bottom_right, window=70",
                                        "causal=bottom_right, softcap=3, scale=0.7"};
    static double q[TOKENS * HEADS * WIDTH], kv[2 * TOKENS * WIDTH], whole[TOKENS * HEADS * WIDTH],
        y[TOKENS * HEADS * WIDTH];
    kc_rng r = kc_seed(SEED);
    printf("seed %d\n", SEED);
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = (float)kc_uniform(&r, -2, 2);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        kv[i] = (float)kc_uniform(&r, -2, 2);
    for (int a = 0; a < 3; a++) {
        chunk(attrs[a], q, kv, 0, TOKENS, whole);
        static const int sizes[] = {1, 7, 64};
        for (int s = 0; s < 3; s++) {
            /* Single tokens are slow to interpret: the last dozen suffices. */
            int from = sizes[s] == 1 ? TOKENS - 12 : 0;
            memcpy(y, whole, sizeof y);
            memset(y + from * HEADS * WIDTH, 0,
                   sizeof y - sizeof *y * (size_t)(from * HEADS * WIDTH));
            for (int first = from; first < TOKENS; first += sizes[s])
                chunk(attrs[a], q, kv, first, first + sizes[s] > TOKENS ? TOKENS - first : sizes[s],
                      y);
            ck_assert_msg(!memcmp(y, whole, sizeof y), "{%s}: chunks of %d differ from the whole",
                          attrs[a], sizes[s]);
        }
    }
}
END_TEST

/* An f64 softmax of the plain kind stays close: the fixed order is a rounding matter only. */
START_TEST(agrees_with_plain_softmax) {
    op_eval e =
        op_eval_begin("attention", "f64[2,3,2,4]:small; f64[2,130,1,4]:small; f64[2,130,1,3]:small",
                      "lse=true", 2, NULL);
    op_eval_run(&e);
    const mlsi_view *q = &e.call.in[0].view, *k = &e.call.in[1].view, *v = &e.call.in[2].view;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++)
            for (int h = 0; h < 2; h++) {
                double s[130], sum = 0;
                for (int j = 0; j < 130; j++) {
                    s[j] = 0;
                    for (int d = 0; d < 4; d++)
                        s[j] += kc_get_f(q, ((b * 3 + i) * 2 + h) * 4 + d) *
                                kc_get_f(k, (b * 130 + j) * 4 + d) * 0.5;
                    sum += s[j] = exp(s[j]);
                }
                ck_assert(fabs(op_eval_get(&e, 1, (b * 2 + h) * 3 + i) - log(sum)) < 1e-12);
                for (int d = 0; d < 3; d++) {
                    double o = 0;
                    for (int j = 0; j < 130; j++)
                        o += s[j] / sum * kc_get_f(v, (b * 130 + j) * 3 + d);
                    ck_assert(fabs(op_eval_get(&e, 0, ((b * 3 + i) * 2 + h) * 3 + d) - o) < 1e-12);
                }
            }
    op_eval_end(&e);
}
END_TEST

int main(void) {
    Suite *s = suite_create("op attention");
    TCase *tc = tcase_create("attention");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, fully_masked_rows_are_zero);
    tcase_add_test(tc, visible_nan_reaches_its_query_only);
    tcase_add_test(tc, alignments_are_named);
    tcase_add_test(tc, chunks_and_tokens_give_the_bits_of_the_whole);
    tcase_add_test(tc, agrees_with_plain_softmax);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
