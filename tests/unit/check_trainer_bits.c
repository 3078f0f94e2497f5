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
    const char *op[TR_PARAMS]; /* of the optimiser; its attributes but the decay: */
    const char *attrs[TR_PARAMS];
    int slots[TR_PARAMS];  /* what is kept */
    const char *suffix[2]; /* of their names */
    double rate, decay, ema_decay, clip;
    const char *schedule; /* attributes of learning_rate; "" = constant */
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

/* "key=value ..." as attributes. */
static mlsys_config attrs_of(const char *settings) {
    static const char *const whole[] = {"nesterov", "decoupled", "warmup", "steps", "relative"};
    mlsys_config c;
    char text[160], *save = NULL;
    OK(mlsys_config_create(&c));
    snprintf(text, sizeof text, "%s", settings);
    for (char *s = strtok_r(text, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        char *value = strchr(s, '='), *end;
        *value++ = 0;
        double number = strtod(value, &end);
        bool integer = false;
        for (size_t k = 0; k < sizeof whole / sizeof whole[0]; k++)
            integer = integer || !strcmp(whole[k], s);
        if (*end)
            OK(mlsys_config_set_str(c, s, value));
        else if (integer)
            OK(mlsys_config_set_i64(c, s, (int64_t)number));
        else
            OK(mlsys_config_set_f64(c, s, number));
    }
    return c;
}

static mlsys_tensor run_with(const char *op, int n, const mlsys_tensor *in, const char *attrs) {
    mlsys_tensor out = NULL;
    mlsys_config c = attrs_of(attrs);
    OK(mlsys_op_run(tr.pc.stream, op, n, in, c, 1, &out));
    OK(mlsys_release(c));
    return out;
}

static void loop_clip(loop *l) {
    mlsys_tensor sum = NULL;
    char attrs[32];
    for (int i = 0; i < TR_PARAMS; i++) {
        mlsys_tensor one = run("sum_squares", 1, &l->sum[i]);
        if (!sum) {
            sum = one;
        } else {
            change("add", &sum, one);
            OK(mlsys_release(one));
        }
    }
    mlsys_tensor norm = run("sqrt", 1, &sum);
    snprintf(attrs, sizeof attrs, "max=%.17g", l->clip);
    for (int i = 0; i < TR_PARAMS; i++) {
        mlsys_tensor in[2] = {l->sum[i], norm}, shorter = run_with("clip_norm", 2, in, attrs);
        OK(mlsys_release(l->sum[i]));
        l->sum[i] = shorter;
    }
    OK(mlsys_release(norm));
    OK(mlsys_release(sum));
}

static void loop_update_one(loop *l, int i, mlsys_tensor rate, mlsys_tensor count) {
    mlsys_tensor in[6] = {l->w[i], l->sum[i], rate}, out[3] = {0};
    mlsys_config c = attrs_of(l->attrs[i]);
    int n_in = 3;
    OK(mlsys_config_set_f64(c, "weight_decay", l->decays[i] ? l->decay : 0));
    if (!strcmp(l->op[i], "adafactor_step")) in[n_in++] = count;
    for (int s = 0; s < l->slots[i]; s++)
        in[n_in++] = l->slot[s][i];
    if (!strcmp(l->op[i], "adam_step")) in[n_in++] = count;
    OK(mlsys_op_run(tr.pc.stream, l->op[i], n_in, in, c, 1 + l->slots[i], out));
    OK(mlsys_release(c));
    OK(mlsys_release(l->w[i]));
    l->w[i] = out[0];
    for (int s = 0; s < l->slots[i]; s++) {
        OK(mlsys_release(l->slot[s][i]));
        l->slot[s][i] = out[1 + s];
    }
}

static void loop_update(loop *l) {
    int64_t count = ++l->step;
    char schedule[160], ema[32];
    mlsys_tensor n = pc_tensor(&tr.pc, MLSYS_I64, 0, NULL, &count);
    snprintf(schedule, sizeof schedule, "rate=%.17g %s", l->rate, l->schedule);
    snprintf(ema, sizeof ema, "decay=%.17g", l->ema_decay);
    mlsys_tensor rate = run_with("learning_rate", 1, &n, schedule);
    if (l->clip > 0) loop_clip(l);
    for (int i = 0; i < TR_PARAMS; i++) {
        loop_update_one(l, i, rate, n);
        if (l->ema_decay <= 0) continue;
        mlsys_tensor in[2] = {l->ema[i], l->w[i]}, fresh = run_with("ema_step", 2, in, ema);
        OK(mlsys_release(l->ema[i]));
        l->ema[i] = fresh;
    }
    pc_release(TR_PARAMS, l->sum);
    OK(mlsys_release(rate));
    OK(mlsys_release(n));
}

static void same(mlsys_trainer t, const char *suffix, const mlsys_tensor *want, const int *slots,
                 int slot, int64_t at) {
    for (int i = 0; i < TR_PARAMS; i++) {
        char name[32];
        if (slots && slots[i] <= slot) continue;
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
        same(t, "", l->w, NULL, 0, i);
        for (int k = 0; k < 2; k++)
            same(t, l->suffix[k], l->slot[k], l->slots, k, i);
        if (l->ema_decay > 0) same(t, ".ema", l->ema, NULL, 0, i);
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

/* One op and its moments for all parameters. */
static void use(loop *l, const char *op, const char *attrs, int slots) {
    for (int i = 0; i < TR_PARAMS; i++) {
        l->op[i] = op;
        l->attrs[i] = attrs;
        l->slots[i] = slots;
    }
    l->suffix[0] = ".m", l->suffix[1] = ".v";
    l->schedule = "";
    l->rate = 0.01;
}

static const struct {
    const char *settings, *op, *attrs;
    int slots;
    double decay, ema;
    int64_t accumulate;
    double clip;
    const char *schedule;
} cases[] = {{"optimizer=adamw rate=0.01", "adam_step", "", 2, 0.01, 0, 1, 0, ""},
             {"optimizer=adam rate=0.01 weight_decay=0.1 beta1=0.8 beta2=0.99 eps=1e-6",
              "adam_step", "decoupled=0 beta1=0.8 beta2=0.99 eps=1e-6", 2, 0.1, 0, 1, 0, ""},
             {"optimizer=sgd rate=0.01", "sgd_step", "momentum=0", 0, 0, 0, 1, 0, ""},
             {"optimizer=sgd rate=0.01 momentum=0.9 nesterov=1 weight_decay=0.05", "sgd_step",
              "momentum=0.9 nesterov=1", 1, 0.05, 0, 1, 0, ""},
             {"optimizer=lion rate=0.01 weight_decay=0.05", "lion_step", "", 1, 0.05, 0, 1, 0, ""},
             {"optimizer=adamw rate=0.01 ema=0.9", "adam_step", "", 2, 0.01, 0.9, 1, 0, ""},
             {"optimizer=adamw rate=0.01 accumulate=3", "adam_step", "", 2, 0.01, 0, 3, 0, ""},
             {"optimizer=sgd rate=0.01 accumulate=4 ema=0.5 numerics=exact", "sgd_step",
              "momentum=0", 0, 0, 0.5, 4, 0, ""},
             {"optimizer=adamw rate=0.01 clip=0.1", "adam_step", "", 2, 0.01, 0, 1, 0.1, ""},
             {"optimizer=sgd rate=0.01 clip=0.01 accumulate=2", "sgd_step", "momentum=0", 0, 0, 0,
              2, 0.01, ""},
             {"optimizer=adamw rate=0.01 schedule=cosine warmup=3 steps=9 floor=0.1", "adam_step",
              "", 2, 0.01, 0, 1, 0, "schedule=cosine warmup=3 steps=9 floor=0.1"},
             {"optimizer=adamw rate=0.01 schedule=linear steps=8", "adam_step", "", 2, 0.01, 0, 1,
              0, "schedule=linear steps=8"}};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

START_TEST(bits_of_a_loop) {
    loop l;
    loop_open(&l, strstr(cases[_i].settings, "exact") ? "numerics=exact" : "");
    use(&l, cases[_i].op, cases[_i].attrs, cases[_i].slots);
    l.decay = cases[_i].decay;
    l.ema_decay = cases[_i].ema;
    l.clip = cases[_i].clip;
    l.schedule = cases[_i].schedule;
    compare(cases[_i].settings, &l, cases[_i].accumulate, 12);
}
END_TEST

START_TEST(muon_for_matrices) {
    loop l;
    loop_open(&l, "");
    use(&l, "muon_step", "", 1);
    l.decay = 0.02;
    for (int i = 0; i < TR_PARAMS; i++)
        if (i != 0) l.op[i] = "adam_step", l.slots[i] = 2; /* w1 by its name */
    compare("optimizer=muon rate=0.01 weight_decay=0.02 adam_for=w1", &l, 1, 6);
}
END_TEST

START_TEST(adafactor_by_rows_and_columns) {
    loop l;
    loop_open(&l, "");
    use(&l, "adafactor_step", "", 2);
    l.suffix[0] = ".rows", l.suffix[1] = ".columns";
    for (int i = 0; i < TR_PARAMS; i++) {
        mlsi_view v = rg_view(l.w[i]);
        if (v.rank < 2) {
            l.slots[i] = 1;
            continue;
        }
        pc_release(1, &l.slot[0][i]);
        pc_release(1, &l.slot[1][i]);
        float zeros[16] = {0};
        l.slot[0][i] = pc_f32(&tr.pc, v.shape[0], zeros);
        l.slot[1][i] = pc_f32(&tr.pc, v.shape[1], zeros);
    }
    mlsys_trainer t = tn_create(&tr, "optimizer=adafactor rate=0.01");
    for (int64_t i = 0; i < 6; i++) {
        tn_steps(&tr, t, i, i + 1);
        loop_gradients(&l, i, true);
        loop_update(&l);
        same(t, "", l.w, NULL, 0, i);
    }
    mlsys_tensor v;
    OK(mlsys_trainer_tensor(t, "b1.v", &v));
    ck_assert(rg_difference(v, l.slot[0][3]) < 0);
    OK(mlsys_release(v));
    OK(mlsys_trainer_tensor(t, "w0.columns", &v));
    ck_assert(rg_difference(v, l.slot[1][0]) < 0);
    OK(mlsys_release(v));
    loop_close(&l);
    OK(mlsys_release(t));
}
END_TEST

START_TEST(groups_that_do_not_decay) {
    loop l;
    loop_open(&l, "");
    use(&l, "adam_step", "", 2);
    l.decay = 0.3;
    for (int i = 0; i < TR_PARAMS; i++)
        l.decays[i] = i != 2 && i != 1; /* w1 by name, b0 by name */
    compare("optimizer=adamw rate=0.01 weight_decay=0.3 no_decay=nothing,w1,,b0 decay_rank=1", &l,
            1, 6);
}
END_TEST

int main(void) {
    Suite *s = suite_create("trainer_bits");
    TCase *tc = tcase_create("trainer_bits");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, bits_of_a_loop, 0, CASES);
    tcase_add_test(tc, muon_for_matrices);
    tcase_add_test(tc, adafactor_by_rows_and_columns);
    tcase_add_test(tc, groups_that_do_not_decay);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
