#include "train/update.h"

#include "core/faults.h"

#include <string.h>

/* ---- what an optimiser keeps --------------------------------------------------------------- */

mlsi_optimizer mlsi_update_optimizer(const mlsi_trainer_options *o, const mlsi_type *type,
                                     const char *name) {
    if (o->optimizer != MLSI_OPT_MUON) return o->optimizer;
    return type->rank == 2 && !mlsi_name_listed(o->adam_for, name) ? MLSI_OPT_MUON : MLSI_OPT_ADAMW;
}

static void drop_axis(mlsi_type *t, int axis) {
    for (int d = axis; d + 1 < t->rank; d++)
        t->dims[d] = t->dims[d + 1];
    t->rank--;
}

/* Adafactor keeps means over rows and over columns of what has both. */
static const char *adafactor_slot(int k, mlsi_type *type) {
    if (type->rank < 2) return k == 0 ? ".v" : NULL;
    if (k < 2) drop_axis(type, type->rank - 1 - k);
    return k == 0 ? ".rows" : k == 1 ? ".columns" : NULL;
}

const char *mlsi_update_slot(const mlsi_trainer_options *o, mlsi_optimizer optimizer, int k,
                             mlsi_type *type) {
    switch (optimizer) {
    case MLSI_OPT_SGD: return k == 0 && o->momentum > 0 ? ".m" : NULL;
    case MLSI_OPT_LION:
    case MLSI_OPT_MUON: return k == 0 ? ".m" : NULL;
    case MLSI_OPT_ADAFACTOR: return adafactor_slot(k, type);
    default: return k == 0 ? ".m" : k == 1 ? ".v" : NULL;
    }
}

/* ---- helpers ------------------------------------------------------------------------------- */

int32_t mlsi_step_state(mlsi_step_builder *b, int32_t state) {
    const mlsi_state *s = &b->s->states[state];
    if (b->value[state] < 0 && b->e.st == MLSYS_OK)
        b->e.st = mlsi_build_input(b->e.g, 0, s->name, &s->type, &b->value[state]);
    return b->e.st == MLSYS_OK ? b->value[state] : 0;
}

static int32_t scalar(mlsi_step_builder *b, int which) {
    return mlsi_step_state(b, mlsi_scalar_state(b->s, which));
}

/* The old value is the operand that comes first, so that the result takes its memory. */
void mlsi_step_set(mlsi_step_builder *b, int32_t state, int32_t skip, int32_t value) {
    int32_t old = mlsi_step_state(b, state);
    b->next[state] = mlsi_emit_select(&b->e, skip, old, value);
}

static void set_state(mlsi_step_builder *b, int32_t state, int32_t skip, int32_t value) {
    if (mlsi_fault(MLSI_FAULT_TRAIN_NO_SKIP)) skip = mlsi_emit_int(&b->e, MLSYS_BOOL, 0);
    mlsi_step_set(b, state, skip, value);
}

/* ---- gradients ----------------------------------------------------------------------------- */

/* Means of unscaled gradients, in at least f32. */
static void take_means(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    int32_t below = -1;
    if (b->o->scaled && !mlsi_fault(MLSI_FAULT_TRAIN_UNSCALED)) below = scalar(b, MLSI_STATE_SCALE);
    if (b->o->accumulate > 1 && b->o->accumulate_mean && !mlsi_fault(MLSI_FAULT_TRAIN_NO_MEAN)) {
        int32_t k = mlsi_emit_scalar(e, MLSYS_F32, (double)b->o->accumulate);
        below = below < 0 ? k : mlsi_emit_2(e, MLSI_OP_MUL, below, k);
    }
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        mlsys_dtype own = mlsi_emit_type(e, b->grad[i])->dtype;
        mlsys_dtype wide = own == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32;
        b->grad[i] = mlsi_emit_cast(e, b->grad[i], wide);
        if (below < 0) continue;
        int32_t divisor = mlsi_emit_cast(e, below, wide);
        b->grad[i] = mlsi_emit_2(e, MLSI_OP_DIV, b->grad[i], divisor);
    }
}

/* The norm of all gradients together, and whether it is no number: a gradient is not finite, or is out of all
 * proportion. */
static int32_t measure(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    mlsys_dtype wide = MLSYS_F32;
    int32_t sum = -1;
    for (int32_t i = 0; i < b->s->n_params; i++)
        if (b->s->states[i].type.dtype == MLSYS_F64) wide = MLSYS_F64;
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        int32_t one = mlsi_emit_1(e, MLSI_OP_SUM_SQUARES, b->grad[i]);
        one = mlsi_emit_cast(e, one, wide);
        sum = sum < 0 ? one : mlsi_emit_2(e, MLSI_OP_ADD, sum, one);
    }
    b->norm = mlsi_emit_1(e, MLSI_OP_SQRT, sum);
    b->result[MLSI_RESULT_NORM] = mlsi_emit_cast(e, b->norm, MLSYS_F32);
    int32_t finite = mlsi_emit_1(e, MLSI_OP_IS_FINITE, b->norm);
    return mlsi_emit_1(e, MLSI_OP_NOT, finite);
}

static void clip(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    mlsi_attr_clip attrs = {.max = b->o->clip};
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        mlsys_dtype own = mlsi_emit_type(e, b->grad[i])->dtype;
        int32_t norm = mlsi_emit_cast(e, b->norm, own);
        int32_t in[2] = {b->grad[i], norm};
        b->grad[i] = mlsi_emit_op(e, MLSI_OP_CLIP_NORM, &attrs, 2, in);
    }
}

/* ---- steps --------------------------------------------------------------------------------- */

/* An optimiser's step op for one parameter. */
typedef struct step_op {
    mlsi_op op;
    union {
        mlsi_attr_sgd sgd;
        mlsi_attr_adam adam;
        mlsi_attr_lion lion;
        mlsi_attr_muon muon;
        mlsi_attr_adafactor adafactor;
    } attrs;
    bool count_first, count_last; /* the number of the step stands before or behind what is kept */
} step_op;

static void choose_step(const mlsi_trainer_options *o, const mlsi_param_plan *p, step_op *s) {
    double decay = p->decays ? o->weight_decay : 0;
    memset(s, 0, sizeof *s);
    switch (p->optimizer) {
    case MLSI_OPT_SGD:
        s->op = MLSI_OP_SGD_STEP;
        s->attrs.sgd = (mlsi_attr_sgd){o->momentum, o->dampening, decay, o->nesterov};
        return;
    case MLSI_OPT_LION:
        s->op = MLSI_OP_LION_STEP;
        s->attrs.lion = (mlsi_attr_lion){o->beta1, o->beta2, decay};
        return;
    case MLSI_OPT_MUON:
        s->op = MLSI_OP_MUON_STEP;
        s->attrs.muon = (mlsi_attr_muon){.momentum = o->momentum,
                                         .weight_decay = decay,
                                         .eps = o->muon_eps,
                                         .nesterov = o->nesterov};
        return;
    case MLSI_OPT_ADAFACTOR:
        s->op = MLSI_OP_ADAFACTOR_STEP;
        s->attrs.adafactor = (mlsi_attr_adafactor){.decay_rate = o->decay_rate,
                                                   .eps = o->eps,
                                                   .eps_w = o->eps_w,
                                                   .clip = o->update_clip,
                                                   .weight_decay = decay,
                                                   .relative = o->relative,
                                                   .scale = o->relative};
        s->count_first = true;
        return;
    default:
        s->op = MLSI_OP_ADAM_STEP;
        s->attrs.adam =
            (mlsi_attr_adam){o->beta1, o->beta2, o->eps, decay, p->optimizer != MLSI_OPT_ADAM};
        s->count_last = true;
    }
}

/* out: the parameter, then what is kept. */
static void step_of(mlsi_step_builder *b, int32_t i, int32_t rate, int32_t count, int32_t *out) {
    const mlsi_param_plan *p = &b->plans[i];
    step_op s;
    int32_t in[4 + MLSI_MAX_SLOTS] = {mlsi_step_state(b, i), b->grad[i], rate};
    int n = 3, kept = 0;
    choose_step(b->o, p, &s);
    if (s.count_first) in[n++] = count;
    for (int k = 0; k < MLSI_MAX_SLOTS; k++)
        if (p->slot[k] >= 0) in[n++] = mlsi_step_state(b, p->slot[k]), kept++;
    if (s.count_last) in[n++] = count;
    if (b->e.st == MLSYS_OK)
        b->e.st = mlsi_build_node(b->e.g, 0, s.op, &s.attrs, n, in, 1 + kept, out);
}

static void average(mlsi_step_builder *b, int32_t i, int32_t skip) {
    mlsi_emit *e = &b->e;
    int32_t state = b->plans[i].ema;
    mlsi_attr_ema attrs = {.decay = b->o->ema};
    if (state < 0 || e->st != MLSYS_OK) return;
    int32_t in[2] = {mlsi_step_state(b, state), b->next[i]};
    if (mlsi_fault(MLSI_FAULT_TRAIN_EMA_BEFORE)) in[1] = mlsi_step_state(b, i);
    set_state(b, state, skip, mlsi_emit_op(e, MLSI_OP_EMA_STEP, &attrs, 2, in));
}

/* Halved when skipped, down to 1; doubled after so many good updates. */
static void update_scale(mlsi_step_builder *b, int32_t skip) {
    mlsi_emit *e = &b->e;
    int32_t scale = scalar(b, MLSI_STATE_SCALE), good = scalar(b, MLSI_STATE_GOOD);
    int32_t one = mlsi_emit_int(e, MLSYS_I64, 1), zero = mlsi_emit_int(e, MLSYS_I64, 0);
    int32_t more = mlsi_emit_2(e, MLSI_OP_ADD, good, one);
    int32_t period = mlsi_emit_int(e, MLSYS_I64, b->o->loss_scale_period);
    int32_t full = mlsi_emit_2(e, MLSI_OP_GE, more, period);
    int32_t two = mlsi_emit_scalar(e, MLSYS_F32, 2), least = mlsi_emit_scalar(e, MLSYS_F32, 1);
    int32_t most = mlsi_emit_scalar(e, MLSYS_F32, 0x1p100);
    int32_t doubled = mlsi_emit_2(e, MLSI_OP_MIN, mlsi_emit_2(e, MLSI_OP_MUL, scale, two), most);
    int32_t halved = mlsi_emit_2(e, MLSI_OP_MAX, mlsi_emit_2(e, MLSI_OP_DIV, scale, two), least);
    int32_t kept = mlsi_emit_select(e, full, doubled, scale);
    int32_t counted = mlsi_emit_select(e, full, zero, more);
    b->next[mlsi_scalar_state(b->s, MLSI_STATE_GOOD)] = mlsi_emit_select(e, skip, zero, counted);
    b->next[mlsi_scalar_state(b->s, MLSI_STATE_SCALE)] = mlsi_emit_select(e, skip, halved, kept);
}

void mlsi_update(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    take_means(b);
    int32_t skip = measure(b);
    if (b->o->clip > 0) clip(b);
    int32_t step = scalar(b, MLSI_STATE_STEP), one = mlsi_emit_int(e, MLSYS_I64, 1);
    int32_t count = mlsi_emit_2(e, MLSI_OP_ADD, step, one);
    int32_t rate = mlsi_emit_op(e, MLSI_OP_LEARNING_RATE, &b->o->schedule, 1, &count);
    b->result[MLSI_RESULT_RATE] = rate;
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        int32_t out[1 + MLSI_MAX_SLOTS];
        step_of(b, i, rate, count, out);
        if (e->st != MLSYS_OK) return;
        set_state(b, i, skip, out[0]);
        for (int k = 0, r = 1; k < MLSI_MAX_SLOTS; k++)
            if (b->plans[i].slot[k] >= 0) set_state(b, b->plans[i].slot[k], skip, out[r++]);
        average(b, i, skip);
    }
    set_state(b, mlsi_scalar_state(b->s, MLSI_STATE_STEP), skip, count);
    int32_t skipped = scalar(b, MLSI_STATE_SKIPPED);
    int32_t more = mlsi_emit_2(e, MLSI_OP_ADD, skipped, one);
    b->next[mlsi_scalar_state(b->s, MLSI_STATE_SKIPPED)] = mlsi_emit_select(e, skip, more, skipped);
    if (b->o->scaled) update_scale(b, skip);
}
