/* The trainer against a loop of its own calls: gradients by a compiled graph, steps by eager ops, and the decisions
 * (skip, mean, clipping, groups) on the host. All bits must agree. */
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static training tr;

/* ---- the loop ------------------------------------------------------------------------------ */

typedef struct loop {
    mlsys_program program; /* batch and parameters to loss and gradients */
    mlsys_tensor w[TR_PARAMS], slot[2][TR_PARAMS], sum[TR_PARAMS], ema[TR_PARAMS];
    const char *op; /* of the optimiser; its attributes but the decay: */
    const char *attrs;
    int slots; /* moments */
    double rate, decay, ema_decay, clip;
    bool decays[TR_PARAMS];
    int64_t step;
} loop;

static mlsys_tensor run(const char *op, int n, const mlsys_tensor *in) {
    mlsys_tensor out = NULL;
    OK(mlsys_op_run(tr.pc.stream, op, n, in, NULL, 1, &out));
    return out;
}
/* op(a, b), in place of a. */
static void change(const char *op, mlsys_tensor *a, mlsys_tensor b) {
    const mlsys_tensor in[2] = {*a, b};
    mlsys_tensor out = run(op, 2, in);
    OK(mlsys_release(*a));
    *a = out;
}
static mlsys_tensor scalar(double x) {
    const float f = (float)x;
    return pc_tensor(&tr.pc, MLSYS_F32, 0, NULL, &f);
}
static void change_by(const char *op, mlsys_tensor *a, double x) {
    mlsys_tensor b = scalar(x);
    change(op, a, b);
    OK(mlsys_release(b));
}

static mlsys_tensor zeros_like(mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    mlsys_tensor z = pc_tensor(&tr.pc, v.dtype, v.rank, v.shape, NULL);
    memset(rg_view(z).data, 0, mlsi_view_bytes(&v));
    return z;
}
static mlsys_tensor copy_of(mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    return pc_tensor(&tr.pc, v.dtype, v.rank, v.shape, v.data);
}

static void loop_open(loop *l, const char *numerics) {
    mlsys_value dx[TR_PARAMS];
    mlsi_graph *g;
    memset(l, 0, sizeof *l);
    OK(mlsys_graph_gradient(tr.g, 1, &tr.loss, NULL, TR_PARAMS, tr.params, NULL, dx));
    OK(mlsys_graph_output(tr.g, "loss", tr.loss));
    for (int i = 0; i < TR_PARAMS; i++) {
        OK(mlsys_graph_output(tr.g, tn_names[i], dx[i]));
        l->w[i] = copy_of(tr.initial[i]);
        l->ema[i] = copy_of(tr.initial[i]);
        l->slot[0][i] = zeros_like(l->w[i]);
        l->slot[1][i] = zeros_like(l->w[i]);
        l->decays[i] = i % 2 == 0; /* matrices */
    }
    l->program = pc_compile(&tr.pc, tr.g, numerics);
    OK(mlsi_pin(tr.g, MLSYS_KIND_GRAPH, "graph", &g));
    g->funcs[0].n_outputs = 0;
    mlsi_unpin(g);
}

static void loop_close(loop *l) {
    pc_release(TR_PARAMS, l->w);
    pc_release(TR_PARAMS, l->slot[0]);
    pc_release(TR_PARAMS, l->slot[1]);
    pc_release(TR_PARAMS, l->ema);
    OK(mlsys_release(l->program));
}

/* Adds the batch's gradients to the sums. */
static void loop_gradients(loop *l, int64_t number, bool first) {
    mlsys_tensor in[2 + TR_PARAMS], out[1 + TR_PARAMS] = {0};
    tn_batch(&tr, number, 16, in);
    memcpy(in + 2, l->w, sizeof l->w);
    OK(mlsys_program_run(l->program, tr.pc.stream, 2 + TR_PARAMS, in, 1 + TR_PARAMS, out));
    for (int i = 0; i < TR_PARAMS; i++) {
        if (first) {
            l->sum[i] = out[1 + i];
        } else {
            change("add", &l->sum[i], out[1 + i]);
            OK(mlsys_release(out[1 + i]));
        }
    }
    OK(mlsys_release(out[0]));
    pc_release(2, in);
}

static mlsys_config step_attrs(const loop *l, int i) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_f64(c, "weight_decay", l->decays[i] ? l->decay : 0));
    char text[128], *save = NULL;
    snprintf(text, sizeof text, "%s", l->attrs);
    for (char *s = strtok_r(text, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        char *value = strchr(s, '=');
        *value++ = 0;
        if (!strcmp(s, "nesterov") || !strcmp(s, "decoupled"))
            OK(mlsys_config_set_i64(c, s, atoi(value)));
        else
            OK(mlsys_config_set_f64(c, s, strtod(value, NULL)));
    }
    return c;
}

static void loop_update(loop *l) {
    int64_t count = ++l->step;
    mlsys_tensor rate = scalar(l->rate), n = pc_tensor(&tr.pc, MLSYS_I64, 0, NULL, &count);
    for (int i = 0; i < TR_PARAMS; i++) {
        mlsys_tensor in[6] = {l->w[i], l->sum[i], rate}, out[3] = {0};
        mlsys_config c = step_attrs(l, i);
        int n_in = 3;
        for (int s = 0; s < l->slots; s++)
            in[n_in++] = l->slot[s][i];
        if (!strcmp(l->op, "adam_step")) in[n_in++] = n;
        OK(mlsys_op_run(tr.pc.stream, l->op, n_in, in, c, 1 + l->slots, out));
        OK(mlsys_release(c));
        OK(mlsys_release(l->w[i]));
        l->w[i] = out[0];
        for (int s = 0; s < l->slots; s++) {
            OK(mlsys_release(l->slot[s][i]));
            l->slot[s][i] = out[1 + s];
        }
        if (l->ema_decay > 0) {
            mlsys_tensor fresh = copy_of(l->w[i]);
            change_by("mul", &fresh, 1 - l->ema_decay);
            change_by("mul", &l->ema[i], l->ema_decay);
            change("add", &l->ema[i], fresh);
            OK(mlsys_release(fresh));
        }
    }
    pc_release(TR_PARAMS, l->sum);
    OK(mlsys_release(rate));
    OK(mlsys_release(n));
}

static void same(mlsys_trainer t, const char *suffix, const mlsys_tensor *want, int64_t at) {
    for (int i = 0; i < TR_PARAMS; i++) {
        char name[32];
        mlsys_tensor have;
        snprintf(name, sizeof name, "%s%s", tn_names[i], suffix);
        OK(mlsys_trainer_tensor(t, name, &have));
        int64_t d = rg_difference(have, want[i]);
        ck_assert_msg(d < 0, "%s differs at element %lld after %lld batches", name, (long long)d,
                      (long long)at);
        OK(mlsys_release(have));
    }
}

static void compare(const char *settings, loop *l, int64_t accumulate, int64_t steps) {
    mlsys_trainer t = tn_create(&tr, settings);
    for (int64_t i = 0; i < steps; i++) {
        tn_steps(&tr, t, i, i + 1);
        loop_gradients(l, i, i % accumulate == 0);
        if ((i + 1) % accumulate == 0) {
            for (int p = 0; p < TR_PARAMS && accumulate > 1; p++)
                change_by("div", &l->sum[p], (double)accumulate);
            loop_update(l);
        }
        same(t, "", l->w, i);
        if (l->slots) same(t, ".m", l->slot[0], i);
        if (l->slots > 1) same(t, ".v", l->slot[1], i);
        if (l->ema_decay > 0) same(t, ".ema", l->ema, i);
    }
    ck_assert(tn_stat(t, "step") == (double)(steps / accumulate));
    ck_assert(tn_stat(t, "batches") == (double)steps);
    ck_assert(tn_stat(t, "skipped") == 0);
    loop_close(l);
    OK(mlsys_release(t));
}

/* ---- tests --------------------------------------------------------------------------------- */

static void setup(void) { tn_open(&tr, 2); }
static void teardown(void) { tn_close(&tr); }

static const struct {
    const char *settings, *op, *attrs;
    int slots;
    double decay, ema;
    int64_t accumulate;
} cases[] = {{"optimizer=adamw rate=0.01", "adam_step", "", 2, 0.01, 0, 1},
             {"optimizer=adam rate=0.01 weight_decay=0.1 beta1=0.8 beta2=0.99 eps=1e-6",
              "adam_step", "decoupled=0 beta1=0.8 beta2=0.99 eps=1e-6", 2, 0.1, 0, 1},
             {"optimizer=sgd rate=0.01", "sgd_step", "momentum=0", 0, 0, 0, 1},
             {"optimizer=sgd rate=0.01 momentum=0.9 nesterov=1 weight_decay=0.05", "sgd_step",
              "momentum=0.9 nesterov=1", 1, 0.05, 0, 1},
             {"optimizer=lion rate=0.01 weight_decay=0.05", "lion_step", "", 1, 0.05, 0, 1},
             {"optimizer=adamw rate=0.01 ema=0.9", "adam_step", "", 2, 0.01, 0.9, 1},
             {"optimizer=adamw rate=0.01 accumulate=3", "adam_step", "", 2, 0.01, 0, 3},
             {"optimizer=sgd rate=0.01 accumulate=4 ema=0.5 numerics=exact", "sgd_step",
              "momentum=0", 0, 0, 0.5, 4}};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

START_TEST(bits_of_a_loop) {
    loop l;
    loop_open(&l, strstr(cases[_i].settings, "exact") ? "numerics=exact" : "");
    l.op = cases[_i].op;
    l.attrs = cases[_i].attrs;
    l.slots = cases[_i].slots;
    l.rate = 0.01;
    l.decay = cases[_i].decay;
    l.ema_decay = cases[_i].ema;
    compare(cases[_i].settings, &l, cases[_i].accumulate, 12);
}
END_TEST

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

START_TEST(groups_that_do_not_decay) {
    loop l;
    loop_open(&l, "");
    l.op = "adam_step", l.attrs = "", l.slots = 2, l.rate = 0.01, l.decay = 0.3;
    for (int i = 0; i < TR_PARAMS; i++)
        l.decays[i] = i != 2 && i != 1; /* w1 by name, b0 by name */
    compare("optimizer=adamw rate=0.01 weight_decay=0.3 no_decay=nothing,w1,,b0 decay_rank=1", &l,
            1, 6);
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
    tcase_add_loop_test(tc, bits_of_a_loop, 0, CASES);
    tcase_add_test(tc, groups_that_do_not_decay);
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
