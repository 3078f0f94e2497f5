#include "train/options.h"

#include <math.h>
#include <string.h>

static const mlsi_config_key keys[] = {
    {"optimizer", 's', "adamw", 0, 0, "sgd, adam, adamw, adafactor, lion or muon"},
    {"rate", 'f', "0.001", 0, 1e6, "learning rate, before the schedule's factor"},
    {"momentum", 'f', "by optimizer", 0, 1, "sgd (0) and muon (0.95); sgd: 0 keeps no moment"},
    {"dampening", 'f', "0", 0, 1, "sgd: of what enters the moment"},
    {"nesterov", 'i', "by optimizer", 0, 1, "sgd (0) and muon (1): look ahead along the moment"},
    {"beta1", 'f', "0.9", 0, 1, "adam, adamw, lion, muon: of the first moment"},
    {"beta2", 'f', "by optimizer", 0, 1, "adam, adamw, muon (0.999), lion (0.99)"},
    {"eps", 'f', "by optimizer", 0, 1,
     "adam, adamw, muon's others: added to the root of the second moment (1e-8); adafactor: to the "
     "squares of gradients (1e-30)"},
    {"muon_eps", 'f', "1e-7", 0, 1, "muon: least norm that a direction is divided by"},
    {"weight_decay", 'f', "by optimizer", 0, 1e6, "adamw 0.01, others 0"},
    {"no_decay", 's', "", 0, 0, "comma-separated parts of names of parameters that do not decay"},
    {"decay_rank", 'i', "2", 0, 9, "parameters of a lower rank do not decay"},
    {"adam_for", 's', "embd,embed,head,output", 0, 0,
     "muon: comma-separated parts of names of matrices that AdamW updates"},
    {"relative", 'i', "1", 0, 1,
     "adafactor: steps relative to the parameter, at most 1/sqrt(count)"},
    {"decay_rate", 'f', "0.8", 0, 10,
     "adafactor: a step enters the moments with count^-decay_rate"},
    {"eps_w", 'f', "0.001", 0, 1, "adafactor: least size of a parameter that scales its step"},
    {"update_clip", 'f', "1", 0, 1e6, "adafactor: longest root mean square of an update"},
    {"schedule", 's', "constant", 0, 0,
     "of the rate: constant, linear, cosine, inverse_sqrt, step or wsd (op learning_rate)"},
    {"warmup", 'i', "0", 0, 1e15, "updates over which the rate rises from 0"},
    {"steps", 'i', "0", 0, 1e15, "the update that reaches the floor (linear, cosine, wsd)"},
    {"floor", 'f', "0", 0, 1, "least share of the rate after the warm-up"},
    {"factor", 'f', "0.1", 0, 1, "of one drop (step)"},
    {"drop_every", 'i', "0", 0, 1e15, "updates between drops (step)"},
    {"decay_steps", 'i', "0", 0, 1e15, "updates of the final decline (wsd)"},
    {"clip", 'f', "0", 0, 1e30, "largest norm of all gradients together; 0 = none"},
    {"accumulate", 'i', "1", 1, 1 << 30, "calls of a step for one update"},
    {"accumulate_mean", 'i', "1", 0, 1,
     "1: an update is by the mean of its calls' gradients, 0: by their sum"},
    {"ema", 'f', "0", 0, 1, "decay of a moving average of the parameters; 0 = none"},
    {"precision", 's', "f32", 0, 0, "of what gains from it: f32 (as the graph is), bf16 or f16"},
    {"precision_wide", 's', "", 0, 0, "comma-separated ops that keep their dtype besides"},
    {"precision_narrow", 's', "", 0, 0,
     "comma-separated ops that compute in the precision besides"},
    {"loss_scale", 'f', "by precision", 0, 1e30,
     "f16: the first factor of the loss, a power of two (65536); others: 0 = none"},
    {"loss_scale_period", 'i', "2000", 1, 1e15, "good updates after which the loss scale doubles"},
    {"checkpoint", 's', "none", 0, 0,
     "what is kept for the backward pass: none (all that it reads), every, sqrt, ops, bytes"},
    {"checkpoint_every", 'i', "32", 1, 1e9, "every: nodes per segment"},
    {"checkpoint_keep", 's', "dot_general,matmul,quant_matmul,conv,attention", 0, 0,
     "ops: whose results are kept"},
    {"checkpoint_bytes", 'i', "0", 0, 9e18, "bytes: of forward values alive in the backward pass"},
    {"resume", 's', "exact", 0, 0,
     "what a loaded file must agree in: exact (the model and all settings) or state (parameters "
     "and "
     "the optimiser's state)"},
    {"numerics", 's', "stable", 0, 0, "exact, stable or fast (docs/numerics.md)"},
    {"isa", 's', "auto", 0, 0, "highest instruction set: auto, portable, avx2, avx512"},
    {"passes_off", 's', "", 0, 0, "comma-separated optional passes to leave out"},
    {"plan", 'i', "1", 0, 1, "0 gives every buffer memory of its own"},
    {"verify", 'i', "0", 0, 1, "1 verifies the graph after every pass"}};

static const char *const optimizers[] = {"sgd", "adam", "adamw", "adafactor", "lion", "muon"};
/* In the order of MLSI_SCHEDULE_... */
static const char *const schedules[] = {"constant",     "linear", "cosine",
                                        "inverse_sqrt", "step",   "wsd"};
enum { OPTIMIZERS = 6, SCHEDULES = 6 };

const mlsi_config_key *mlsi_trainer_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

const char *mlsi_optimizer_name(mlsi_optimizer o) { return optimizers[o]; }

bool mlsi_name_listed(const char *list, const char *name) {
    char part[64];
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n && n < sizeof part) {
            memcpy(part, list, n);
            part[n] = 0;
            if (strstr(name, part)) return true;
        }
        list += n + (list[n] == ',');
    }
    return false;
}

static mlsys_status choose(const mlsi_config *c, const char *key, const char *absent, int n,
                           const char *const *names, int *out) {
    const char *text = mlsi_config_str(c, key, absent);
    for (*out = 0; *out < n; (*out)++)
        if (!strcmp(names[*out], text)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG,
                     "trainer: %s \"%.64s\" is unknown: mlsys_config_keys(\"trainer\")", key, text);
}

static mlsys_status check_list(const char *key, const char *list) {
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n >= 64)
            return mlsi_fail(MLSYS_E_ARG, "trainer: %s: a part is longer than 63 bytes", key);
        p += n + (p[n] == ',');
    }
    return MLSYS_OK;
}

/* Keys that another scope reads, by their names here and there. */
static mlsys_status pass_on(const mlsi_config *from, const char *const (*names)[2], int n,
                            mlsys_config *out, mlsi_config **pinned) {
    MLSI_TRY(mlsi_config_create(out));
    mlsys_status st = mlsi_pin(*out, MLSYS_KIND_CONFIG, "trainer: config", pinned);
    for (int i = 0; i < n && st == MLSYS_OK; i++) {
        const mlsi_config_entry *e = mlsi_config_find(from, names[i][0]);
        if (e) st = mlsi_config_set(*pinned, names[i][1], e);
    }
    return st;
}

static mlsys_status read_others(mlsi_ctx *ctx, const mlsi_config *from, mlsi_trainer_options *o) {
    static const char *const compile[][2] = {{"numerics", "numerics"},
                                             {"isa", "isa"},
                                             {"passes_off", "passes_off"},
                                             {"plan", "plan"},
                                             {"verify", "verify"}};
    static const char *const gradient[][2] = {{"checkpoint", "checkpoint"},
                                              {"checkpoint_every", "every"},
                                              {"checkpoint_keep", "keep"},
                                              {"checkpoint_bytes", "bytes"}};
    static const char *const narrow[][2] = {{"precision_wide", "wide"},
                                            {"precision_narrow", "narrow"}};
    MLSI_TRY(pass_on(from, narrow, 2, &o->narrow_config, &o->narrow_pinned));
    MLSI_TRY(pass_on(from, gradient, 4, &o->gradient_config, &o->gradient_pinned));
    MLSI_TRY(mlsi_checkpoint_read(o->gradient_pinned, &o->checkpoint));
    MLSI_TRY(pass_on(from, compile, 5, &o->compile_config, &o->compile_pinned));
    return mlsi_compile_options_read(ctx, o->compile_pinned, &o->compile);
}

static mlsys_status read_numbers(const mlsi_config *c, mlsi_trainer_options *o) {
    bool muon = o->optimizer == MLSI_OPT_MUON, lion = o->optimizer == MLSI_OPT_LION;
    o->momentum = mlsi_config_f64(c, "momentum", muon ? 0.95 : 0);
    o->dampening = mlsi_config_f64(c, "dampening", 0);
    o->nesterov = mlsi_config_i64(c, "nesterov", muon) != 0;
    o->beta1 = mlsi_config_f64(c, "beta1", 0.9);
    o->beta2 = mlsi_config_f64(c, "beta2", lion ? 0.99 : 0.999);
    o->eps = mlsi_config_f64(c, "eps", o->optimizer == MLSI_OPT_ADAFACTOR ? 1e-30 : 1e-8);
    o->muon_eps = mlsi_config_f64(c, "muon_eps", 1e-7);
    o->decay_rate = mlsi_config_f64(c, "decay_rate", 0.8);
    o->eps_w = mlsi_config_f64(c, "eps_w", 1e-3);
    o->update_clip = mlsi_config_f64(c, "update_clip", 1);
    o->relative = mlsi_config_i64(c, "relative", 1) != 0;
    o->weight_decay = mlsi_config_f64(c, "weight_decay", o->optimizer == MLSI_OPT_ADAMW ? 0.01 : 0);
    o->decay_rank = mlsi_config_i64(c, "decay_rank", 2);
    o->no_decay = mlsi_config_str(c, "no_decay", "");
    o->adam_for = mlsi_config_str(c, "adam_for", "embd,embed,head,output");
    o->clip = mlsi_config_f64(c, "clip", 0);
    o->ema = mlsi_config_f64(c, "ema", 0);
    o->accumulate = mlsi_config_i64(c, "accumulate", 1);
    o->accumulate_mean = mlsi_config_i64(c, "accumulate_mean", 1) != 0;
    MLSI_TRY(check_list("no_decay", o->no_decay));
    return check_list("adam_for", o->adam_for);
}

/* The numbers are checked by the op's own rules. */
static mlsys_status read_schedule(const mlsi_config *c, mlsi_trainer_options *o) {
    int chosen;
    MLSI_TRY(choose(c, "schedule", "constant", SCHEDULES, schedules, &chosen));
    o->schedule.schedule = chosen;
    o->schedule.rate = mlsi_config_f64(c, "rate", 0.001);
    o->schedule.warmup = mlsi_config_i64(c, "warmup", 0);
    o->schedule.steps = mlsi_config_i64(c, "steps", 0);
    o->schedule.floor = mlsi_config_f64(c, "floor", 0);
    o->schedule.factor = mlsi_config_f64(c, "factor", 0.1);
    o->schedule.every = mlsi_config_i64(c, "drop_every", 0);
    o->schedule.decay = mlsi_config_i64(c, "decay_steps", 0);
    return MLSYS_OK;
}

/* A power of two, so that dividing by it rounds nothing but subnormals. */
static bool is_power_of_two(double x) {
    int exponent;
    return x > 0 && frexp(x, &exponent) == 0.5;
}

static mlsys_status read_precision(const mlsi_config *c, mlsi_trainer_options *o) {
    static const char *const names[] = {"f32", "bf16", "f16"};
    static const mlsys_dtype dtypes[] = {MLSYS_F32, MLSYS_BF16, MLSYS_F16};
    int p;
    MLSI_TRY(choose(c, "precision", "f32", 3, names, &p));
    o->precision = dtypes[p];
    o->loss_scale = mlsi_config_f64(c, "loss_scale", p == 2 ? 65536 : 0);
    o->loss_scale_period = mlsi_config_i64(c, "loss_scale_period", 2000);
    o->scaled = o->loss_scale > 0;
    if (o->scaled && (!is_power_of_two(o->loss_scale) || o->loss_scale < 1))
        return mlsi_fail(MLSYS_E_ARG, "trainer: loss_scale %.17g is no power of two from 1 on",
                         o->loss_scale);
    return MLSYS_OK;
}

mlsys_status mlsi_trainer_options_read(mlsi_ctx *ctx, const mlsi_config *c,
                                       mlsi_trainer_options *o) {
    static const char *const resume[] = {"exact", "state"};
    int n, chosen;
    const mlsi_config_key *table = mlsi_trainer_config_keys(&n);
    memset(o, 0, sizeof *o);
    MLSI_TRY(mlsi_config_check(c, "trainer", table, n));
    MLSI_TRY(choose(c, "optimizer", "adamw", OPTIMIZERS, optimizers, &chosen));
    o->optimizer = (mlsi_optimizer)chosen;
    MLSI_TRY(choose(c, "resume", "exact", 2, resume, &chosen));
    o->same_settings = chosen == 0;
    MLSI_TRY(read_numbers(c, o));
    MLSI_TRY(read_schedule(c, o));
    MLSI_TRY(read_precision(c, o));
    return read_others(ctx, c, o);
}

void mlsi_trainer_options_free(mlsi_trainer_options *o) {
    mlsi_unpin(o->compile_pinned);
    mlsi_unpin(o->gradient_pinned);
    mlsi_unpin(o->narrow_pinned);
    mlsys_release(o->compile_config);
    mlsys_release(o->gradient_config);
    mlsys_release(o->narrow_config);
}

void mlsi_trainer_options_text(const mlsi_trainer_options *o, mlsi_text *out) {
    static const char *const numerics[] = {"", "exact", "stable", "fast"};
    const mlsi_attr_learning_rate *s = &o->schedule;
    mlsi_text_add(out, "optimizer %s\nrate %.17g\nmomentum %.17g\ndampening %.17g\nnesterov %d\n",
                  optimizers[o->optimizer], o->schedule.rate, o->momentum, o->dampening,
                  o->nesterov);
    mlsi_text_add(out, "beta1 %.17g\nbeta2 %.17g\neps %.17g\nweight_decay %.17g\n", o->beta1,
                  o->beta2, o->eps, o->weight_decay);
    mlsi_text_add(out, "no_decay %s\ndecay_rank %lld\nadam_for %s\n", o->no_decay,
                  (long long)o->decay_rank, o->adam_for);
    mlsi_text_add(out, "muon_eps %.17g\ndecay_rate %.17g\neps_w %.17g\nupdate_clip %.17g\n",
                  o->muon_eps, o->decay_rate, o->eps_w, o->update_clip);
    mlsi_text_add(out, "relative %d\nschedule %s\nwarmup %lld\nsteps %lld\nfloor %.17g\n",
                  o->relative, schedules[s->schedule], (long long)s->warmup, (long long)s->steps,
                  s->floor);
    mlsi_text_add(out, "factor %.17g\ndrop_every %lld\ndecay_steps %lld\n", s->factor,
                  (long long)s->every, (long long)s->decay);
    mlsi_text_add(out, "clip %.17g\naccumulate %lld\nema %.17g\n", o->clip,
                  (long long)o->accumulate, o->ema);
    if (!o->accumulate_mean) mlsi_text_add(out, "accumulate_mean 0\n");
    const char *wide = mlsi_config_str(o->narrow_pinned, "wide", "");
    const char *narrow = mlsi_config_str(o->narrow_pinned, "narrow", "");
    mlsi_text_add(out, "precision_wide %s\nprecision_narrow %s\n", wide, narrow);
    mlsi_text_add(out, "precision %s\nloss_scale %.17g\nloss_scale_period %lld\nnumerics %s\n",
                  mlsi_dtype_get(o->precision)->name, o->loss_scale,
                  (long long)o->loss_scale_period, numerics[o->compile.numerics]);
}
