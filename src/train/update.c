#include "train/update.h"

#include "core/faults.h"

#include <string.h>

/* ---- what an optimiser keeps --------------------------------------------------------------- */

mlsi_optimizer mlsi_update_optimizer(const mlsi_trainer_options *o, const mlsi_type *type,
                                     const char *name) {
    if (o->optimizer != MLSI_OPT_MUON) return o->optimizer;
    return type->rank == 2 && !mlsi_name_listed(o->adam_for, name) ? MLSI_OPT_MUON : MLSI_OPT_ADAMW;
}

const char *mlsi_update_slot(const mlsi_trainer_options *o, mlsi_optimizer optimizer, int k,
                             mlsi_type *type) {
    (void)type;
    switch (optimizer) {
    case MLSI_OPT_SGD: return k == 0 && o->momentum > 0 ? ".m" : NULL;
    case MLSI_OPT_LION: return k == 0 ? ".m" : NULL;
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

/* The state's new value unless the update is skipped. The old value is the operand that comes first, so that the
 * result takes its memory. */
static void set_state(mlsi_step_builder *b, int32_t state, int32_t skip, int32_t value) {
    int32_t old = mlsi_step_state(b, state);
    if (mlsi_fault(MLSI_FAULT_TRAIN_NO_SKIP)) skip = mlsi_emit_int(&b->e, MLSYS_BOOL, 0);
    b->next[state] = mlsi_emit_select(&b->e, skip, old, value);
}

/* ---- gradients ----------------------------------------------------------------------------- */

/* Means of unscaled gradients, in at least f32. */
static void take_means(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    int32_t below = -1;
    if (b->o->scaled) below = scalar(b, MLSI_STATE_SCALE);
    if (b->o->accumulate > 1) {
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

/* The norm of all gradients together, and whether one of them is not finite. */
static int32_t measure(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    mlsi_attr_reduce all;
    int32_t sum = -1, finite = -1;
    memset(&all, 0, sizeof all);
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        int32_t square = mlsi_emit_2(e, MLSI_OP_MUL, b->grad[i], b->grad[i]);
        int32_t one = mlsi_emit_op(e, MLSI_OP_REDUCE_SUM, &all, 1, &square);
        one = mlsi_emit_cast(e, one, MLSYS_F32);
        sum = sum < 0 ? one : mlsi_emit_2(e, MLSI_OP_ADD, sum, one);
        int32_t good = mlsi_emit_1(e, MLSI_OP_IS_FINITE, b->grad[i]);
        good = mlsi_emit_op(e, MLSI_OP_REDUCE_AND, &all, 1, &good);
        finite = finite < 0 ? good : mlsi_emit_2(e, MLSI_OP_AND, finite, good);
    }
    b->result[MLSI_RESULT_NORM] = mlsi_emit_1(e, MLSI_OP_SQRT, sum);
    return mlsi_emit_1(e, MLSI_OP_NOT, finite);
}

/* Times min(1, clip / norm). */
static void clip(mlsi_step_builder *b) {
    mlsi_emit *e = &b->e;
    int32_t most = mlsi_emit_scalar(e, MLSYS_F32, b->o->clip), norm = b->result[MLSI_RESULT_NORM];
    int32_t over = mlsi_emit_2(e, MLSI_OP_GT, norm, most);
    int32_t share = mlsi_emit_2(e, MLSI_OP_DIV, most, norm);
    int32_t factor = mlsi_emit_select(e, over, share, mlsi_emit_scalar(e, MLSYS_F32, 1));
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        int32_t by = mlsi_emit_cast(e, factor, mlsi_emit_type(e, b->grad[i])->dtype);
        b->grad[i] = mlsi_emit_2(e, MLSI_OP_MUL, b->grad[i], by);
    }
}

/* ---- steps --------------------------------------------------------------------------------- */

static void step_of(mlsi_step_builder *b, int32_t i, int32_t rate, int32_t count, int32_t *out,
                    int *n_out) {
    const mlsi_param_plan *p = &b->plans[i];
    const mlsi_trainer_options *o = b->o;
    double decay = p->decays ? o->weight_decay : 0;
    int32_t in[6] = {mlsi_step_state(b, i), b->grad[i], rate};
    mlsi_op op = MLSI_OP_SGD_STEP;
    const void *attrs;
    int n = 3;
    for (int k = 0; k < MLSI_MAX_SLOTS; k++)
        if (p->slot[k] >= 0) in[n++] = mlsi_step_state(b, p->slot[k]);
    *n_out = n - 2;
    mlsi_attr_sgd sgd;
    mlsi_attr_adam adam;
    mlsi_attr_lion lion;
    memset(&sgd, 0, sizeof sgd);
    memset(&adam, 0, sizeof adam);
    memset(&lion, 0, sizeof lion);
    if (p->optimizer == MLSI_OPT_SGD) {
        sgd = (mlsi_attr_sgd){o->momentum, o->dampening, decay, o->nesterov};
        attrs = &sgd;
    } else if (p->optimizer == MLSI_OPT_LION) {
        op = MLSI_OP_LION_STEP;
        lion = (mlsi_attr_lion){o->beta1, o->beta2, decay};
        attrs = &lion;
    } else {
        op = MLSI_OP_ADAM_STEP;
        adam = (mlsi_attr_adam){o->beta1, o->beta2, o->eps, decay, p->optimizer != MLSI_OPT_ADAM};
        attrs = &adam;
        in[n++] = count;
    }
    if (b->e.st == MLSYS_OK) b->e.st = mlsi_build_node(b->e.g, 0, op, attrs, n, in, *n_out, out);
}

/* ema' = decay * ema + (1 - decay) * w' */
static void average(mlsi_step_builder *b, int32_t i, int32_t skip) {
    mlsi_emit *e = &b->e;
    int32_t state = b->plans[i].ema;
    if (state < 0 || e->st != MLSYS_OK) return;
    mlsys_dtype t = b->s->states[state].type.dtype;
    int32_t old = mlsi_step_state(b, state), w = mlsi_emit_cast(e, b->next[i], t);
    int32_t kept = mlsi_emit_2(e, MLSI_OP_MUL, mlsi_emit_scalar(e, t, b->o->ema), old);
    int32_t fresh = mlsi_emit_2(e, MLSI_OP_MUL, mlsi_emit_scalar(e, t, 1 - b->o->ema), w);
    set_state(b, state, skip, mlsi_emit_2(e, MLSI_OP_ADD, kept, fresh));
}

static int32_t rate_of(mlsi_step_builder *b) {
    return mlsi_emit_scalar(&b->e, MLSYS_F32, b->o->rate);
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
    int32_t rate = b->result[MLSI_RESULT_RATE] = rate_of(b);
    for (int32_t i = 0; i < b->s->n_params && e->st == MLSYS_OK; i++) {
        int32_t out[1 + MLSI_MAX_SLOTS];
        int n_out;
        step_of(b, i, rate, count, out, &n_out);
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
