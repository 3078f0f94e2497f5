/* A trainer: learning, skipping, loss scale, precision, what is not finite, memory, equal bits everywhere, misuse. Its
 * updates are compared with a loop of own calls in check_trainer_bits.c. */
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static training tr;

static void setup(void) { tn_open(&tr, 2); }
static void teardown(void) { tn_close(&tr); }

START_TEST(checkpoints_change_no_bit) {
    static const char *const ways[] = {"checkpoint=sqrt", "checkpoint=every checkpoint_every=2",
                                       "checkpoint=ops checkpoint_keep=matmul",
                                       "checkpoint=bytes checkpoint_bytes=1"};
    char want[65], got[65];
    mlsys_trainer t = tn_create(&tr, "rate=0.02");
    tn_steps(&tr, t, 0, 5);
    tn_hash(t, want);
    OK(mlsys_release(t));
    for (int i = 0; i < 4; i++) {
        char settings[96];
        snprintf(settings, sizeof settings, "rate=0.02 %s", ways[i]);
        t = tn_create(&tr, settings);
        tn_steps(&tr, t, 0, 5);
        tn_hash(t, got);
        ck_assert_msg(!strcmp(want, got), "%s", ways[i]);
        OK(mlsys_release(t));
    }
}
END_TEST

START_TEST(learns) {
    mlsys_trainer t = tn_create(&tr, "rate=0.02");
    double first = tn_steps(&tr, t, 0, 1), last = tn_steps(&tr, t, 1, 300);
    ck_assert_msg(last < 0.5 * first, "loss %g, then %g", first, last);
    ck_assert(tn_stat(t, "loss") == last);
    ck_assert(fabs(tn_stat(t, "rate") - 0.02) < 1e-8);
    ck_assert(tn_stat(t, "gradient_norm") > 0 && tn_stat(t, "flops") > 1000);
    ck_assert(tn_stat(t, "peak_bytes") > tn_stat(t, "state_bytes"));
    OK(mlsys_release(t));
}
END_TEST

/* An infinite input makes gradients that are not finite. */
static void bad_step(mlsys_trainer t, double value) {
    mlsys_tensor in[2];
    tn_batch(&tr, 0, 16, in);
    ((float *)rg_view(in[0]).data)[5] = (float)value;
    OK(mlsys_trainer_step(t, 2, in, NULL));
    pc_release(2, in);
}

static const char *const states[] = {"w0",   "b0",   "w1",     "b1",
                                     "w0.m", "w1.v", "b1.ema", "state.step"};
enum { STATES = (int)(sizeof states / sizeof states[0]) };

START_TEST(not_finite_changes_nothing) {
    mlsys_trainer t = tn_create(&tr, "rate=0.02 ema=0.9 weight_decay=0.1");
    char before[STATES][65], after[65];
    tn_steps(&tr, t, 0, 3);
    for (int i = 0; i < STATES; i++)
        tn_hash_of(t, states[i], before[i]);
    bad_step(t, _i ? (double)NAN : (double)INFINITY);
    for (int i = 0; i < STATES; i++) {
        tn_hash_of(t, states[i], after);
        ck_assert_msg(!strcmp(before[i], after), "%s has changed", states[i]);
    }
    ck_assert(tn_stat(t, "skipped") == 1 && tn_stat(t, "step") == 3 && tn_stat(t, "batches") == 4);
    tn_steps(&tr, t, 3, 4);
    ck_assert(tn_stat(t, "skipped") == 1 && tn_stat(t, "step") == 4);
    OK(mlsys_release(t));
}
END_TEST

/* A bad batch spoils the mean that it is in, and no other. */
START_TEST(not_finite_in_a_sum) {
    mlsys_trainer t = tn_create(&tr, "rate=0.02 accumulate=2");
    char before[65], after[65];
    tn_steps(&tr, t, 0, 2);
    tn_hash(t, before);
    bad_step(t, (double)NAN);
    tn_steps(&tr, t, 1, 2);
    tn_hash(t, after);
    ck_assert_str_eq(before, after);
    ck_assert(tn_stat(t, "skipped") == 1 && tn_stat(t, "step") == 1);
    tn_steps(&tr, t, 2, 4);
    tn_hash(t, after);
    ck_assert_str_ne(before, after);
    ck_assert(tn_stat(t, "skipped") == 1 && tn_stat(t, "step") == 2);
    OK(mlsys_release(t));
}
END_TEST

START_TEST(loss_scale_moves) {
    mlsys_trainer t = tn_create(&tr, "loss_scale=4 loss_scale_period=3 rate=0.01");
    mlsys_trainer plain = tn_create(&tr, "rate=0.01");
    char a[65], b[65];
    static const double want[] = {4, 4, 8, 8, 8, 16};
    for (int i = 0; i < 6; i++) {
        tn_steps(&tr, t, i, i + 1);
        tn_steps(&tr, plain, i, i + 1);
        ck_assert_msg(tn_stat(t, "loss_scale") == want[i], "%g", tn_stat(t, "loss_scale"));
    }
    tn_hash(t, a);
    tn_hash(plain, b);
    ck_assert_str_eq(a, b); /* powers of two round nothing */
    for (int i = 0; i < 6; i++)
        bad_step(t, (double)INFINITY);
    ck_assert(tn_stat(t, "loss_scale") == 1 && tn_stat(t, "skipped") == 6);
    OK(mlsys_release(t));
    OK(mlsys_release(plain));
}
END_TEST

START_TEST(narrow_precision) {
    const char *settings =
        _i ? "precision=f16 rate=0.02 loss_scale=1024" : "precision=bf16 rate=0.02";
    mlsys_trainer t = tn_create(&tr, settings), wide = tn_create(&tr, "rate=0.02");
    char a[65], b[65];
    double first = tn_steps(&tr, t, 0, 1);
    tn_steps(&tr, wide, 0, 1);
    tn_hash(t, a);
    tn_hash(wide, b);
    ck_assert_str_ne(a, b); /* something was narrow */
    double last = tn_steps(&tr, t, 1, 200), like = tn_steps(&tr, wide, 1, 200);
    ck_assert_msg(last < 0.5 * first && fabs(last - like) < 0.05, "%g, %g, f32 %g", first, last,
                  like);
    ck_assert(tn_stat(t, "skipped") == 0);
    OK(mlsys_release(wide));
    OK(mlsys_release(t));
}
END_TEST

/* 65504 is the largest f16: a scale that passes it is halved until gradients fit. */
START_TEST(overflow_of_f16) {
    mlsys_trainer t = tn_create(&tr, "precision=f16 rate=0.02 loss_scale=1073741824");
    tn_steps(&tr, t, 0, 40);
    ck_assert(tn_stat(t, "skipped") > 3 && tn_stat(t, "step") > 10);
    ck_assert(tn_stat(t, "loss_scale") == 1073741824 / pow(2, tn_stat(t, "skipped")));
    OK(mlsys_release(t));
}
END_TEST

START_TEST(the_first_that_is_not_finite) {
    mlsys_trainer t = tn_create(&tr, _i ? "accumulate=2" : "ema=0.9");
    mlsys_tensor in[2];
    char text[512], before[65], after[65];
    uint64_t need;
    tn_hash(t, before);
    tn_batch(&tr, 0, 16, in);
    OK(mlsys_trainer_find_nonfinite(t, 2, in, text, sizeof text, &need));
    ck_assert_str_eq(text, "");
    ((float *)rg_view(in[0]).data)[5] = NAN;
    OK(mlsys_trainer_find_nonfinite(t, 2, in, text, sizeof text, &need));
    ck_assert_msg(strstr(text, "matmul") == text && strstr(text, "\"x\"") && strstr(text, "1 NaN"),
                  "%s", text);
    pc_expect(mlsys_trainer_find_nonfinite(t, 1, in, text, sizeof text, &need), MLSYS_E_ARG,
              "a batch has 2");
    pc_expect(mlsys_trainer_find_nonfinite(t, 2, in, NULL, 5, &need), MLSYS_E_ARG, "buf is NULL");
    tn_hash(t, after);
    ck_assert_str_eq(before, after);
    ck_assert(tn_stat(t, "batches") == 0);
    pc_release(2, in);
    OK(mlsys_release(t));
}
END_TEST

START_TEST(steady_state_allocates_nothing_large) {
    mlsys_trainer t = tn_create(&tr, _i ? "accumulate=2 ema=0.9" : "ema=0.9 clip=1");
    mlsys_tensor in[2];
    mlsys_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    tn_batch(&tr, 0, 16, in);
    for (int i = 0; i < 20; i++) {
        if (i == 4) OK(mlsys_ctx_stats(tr.pc.ctx_handle, &before));
        OK(mlsys_trainer_step(t, 2, in, NULL));
    }
    OK(mlsys_ctx_stats(tr.pc.ctx_handle, &after));
    ck_assert_uint_eq(before.live_bytes, after.live_bytes);
    ck_assert_uint_eq(before.peak_bytes, after.peak_bytes);
    ck_assert_uint_eq(before.allocations, after.allocations);
    pc_release(2, in);
    OK(mlsys_release(t));
}
END_TEST

START_TEST(same_bits_everywhere) {
    static const struct {
        int threads;
        const char *settings;
    } ways[] = {{1, ""}, {2, ""}, {7, ""}, {1, " isa=portable"}, {3, " isa=avx2"}, {2, " plan=0"}};
    char first[65] = "", hash[65];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char settings[128];
        training own;
        tn_open(&own, ways[i].threads);
        snprintf(settings, sizeof settings, "rate=0.02 numerics=exact ema=0.99 clip=0.5%s",
                 ways[i].settings);
        mlsys_trainer t = tn_create(&own, settings);
        tn_steps(&own, t, 0, 100);
        tn_hash(t, hash);
        OK(mlsys_release(t));
        tn_close(&own);
        if (!i) strcpy(first, hash);
        ck_assert_msg(!strcmp(first, hash), "%d threads%s: %s, not %s", ways[i].threads,
                      ways[i].settings, hash, first);
    }
}
END_TEST

static mlsys_status try_create(const char *settings, mlsys_value loss, int n,
                               const mlsys_value *params, const mlsys_tensor *initial) {
    mlsys_trainer t = (mlsys_trainer)(uintptr_t)1;
    mlsys_config c = tn_config(settings);
    mlsys_status st = mlsys_trainer_create(tr.g, loss, n, params, initial, tr.pc.stream, c, &t);
    ck_assert(st == MLSYS_OK || !t);
    if (st == MLSYS_OK) OK(mlsys_release(t));
    OK(mlsys_release(c));
    return st;
}

START_TEST(misuse) {
    mlsys_value p[TR_PARAMS], x, f64;
    mlsys_tensor w[TR_PARAMS], in[2], out;
    double value;
    const int64_t two = 2;
#define REFUSED(code, text, settings, loss, n)                                                     \
    pc_expect(try_create(settings, loss, n, p, w), code, text)
    memcpy(p, tr.params, sizeof p);
    memcpy(w, tr.initial, sizeof w);
    REFUSED(MLSYS_E_NOTFOUND, "unknown key \"speed\"", "speed=1", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "optimizer \"best\" is unknown", "optimizer=best", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "outside", "accumulate=0", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "loss_scale 3 is no power of two", "loss_scale=3", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "is no power of two", "loss_scale=0.5", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "precision \"f8\"", "precision=f8", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "is not exact, stable or fast", "numerics=good", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "checkpoint \"some\" is not", "checkpoint=some", tr.loss, TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "n is 0", "", tr.loss, 0);
    REFUSED(MLSYS_E_SHAPE, "loss is f32[6,8]", "", p[0], TR_PARAMS);
    REFUSED(MLSYS_E_ARG, "is 0, no value", "", 0, TR_PARAMS);
    p[1] = tr.loss;
    REFUSED(MLSYS_E_ARG, "parameter 1 is not a named input", "", tr.loss, TR_PARAMS);
    p[1] = p[0];
    REFUSED(MLSYS_E_ARG, "parameter w0 is given twice", "", tr.loss, TR_PARAMS);
    p[1] = 77;
    REFUSED(MLSYS_E_ARG, "not a value of this graph", "", tr.loss, TR_PARAMS);
    memcpy(p, tr.params, sizeof p);
    w[3] = w[1];
    REFUSED(MLSYS_E_SHAPE, "first value of b1 is f32[8], expected f32[4]", "", tr.loss, TR_PARAMS);
    w[3] = NULL;
    REFUSED(MLSYS_E_HANDLE, "initial", "", tr.loss, TR_PARAMS);
    OK(mlsys_graph_input(tr.g, "w0.m", MLSYS_F32, 1, &two, &x));
    memcpy(w, tr.initial, sizeof w);
    REFUSED(MLSYS_E_ARG, "w0.m: the name is taken", "", tr.loss, TR_PARAMS);
    OK(mlsys_graph_input(tr.g, "half", MLSYS_I64, 1, &two, &f64));
    p[1] = f64;
    REFUSED(MLSYS_E_DTYPE, "parameter half is i64[2]", "", tr.loss, TR_PARAMS);
    tn_close(&tr);
    tn_open(&tr, 2);
    mlsys_trainer t = tn_create(&tr, "rate=0.01");
    char before[65], after[65];
    tn_hash(t, before);
    tn_batch(&tr, 1, 4, in);
    pc_expect(mlsys_trainer_step(t, 1, in, NULL), MLSYS_E_ARG, "1 tensors given, a batch has 2");
    pc_expect(mlsys_trainer_step(t, 2, NULL, NULL), MLSYS_E_ARG, "in is NULL");
    mlsys_tensor swapped[2] = {in[1], in[0]};
    pc_expect(mlsys_trainer_step(t, 2, swapped, NULL), MLSYS_E_DTYPE, "");
    ((int64_t *)rg_view(in[1]).data)[2] = 99; /* found by the loss, in the middle of a run */
    pc_expect(mlsys_trainer_step(t, 2, in, NULL), MLSYS_E_ARG, "99");
    tn_hash(t, after);
    ck_assert_str_eq(before, after);
    ck_assert(tn_stat(t, "batches") == 0);
    pc_expect(mlsys_trainer_stat(t, "speed", &value), MLSYS_E_NOTFOUND, "no name \"speed\"");
    pc_expect(mlsys_trainer_tensor(t, "w9", &out), MLSYS_E_NOTFOUND, "no parameter or state");
    ck_assert_ptr_null(out);
    pc_expect(mlsys_trainer_step((mlsys_trainer)(void *)tr.pc.stream, 2, in, NULL), MLSYS_E_HANDLE,
              "");
    pc_release(2, in);
    OK(mlsys_release(t));
}
END_TEST

int main(void) {
    Suite *s = suite_create("trainer");
    TCase *tc = tcase_create("trainer");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, narrow_precision, 0, 2);
    tcase_add_test(tc, overflow_of_f16);
    tcase_add_loop_test(tc, the_first_that_is_not_finite, 0, 2);
    tcase_add_test(tc, checkpoints_change_no_bit);
    tcase_add_test(tc, learns);
    tcase_add_loop_test(tc, not_finite_changes_nothing, 0, 2);
    tcase_add_test(tc, not_finite_in_a_sum);
    tcase_add_test(tc, loss_scale_moves);
    tcase_add_loop_test(tc, steady_state_allocates_nothing_large, 0, 2);
    tcase_add_test(tc, same_bits_everywhere);
    tcase_add_test(tc, misuse);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
