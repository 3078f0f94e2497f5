#include "train/step_graph.h"

#include "autodiff/reverse.h"
#include "core/faults.h"
#include "ir/ops/decompose.h"
#include "ir/passes/passes.h"
#include "train/update.h"

#include <stdio.h>
#include <string.h>

/* ---- the list of states -------------------------------------------------------------------- */

static mlsys_status add_state(mlsi_step_graph *s, const char *name, const char *suffix,
                              int32_t parameter, const mlsi_type *type, int32_t *out) {
    char *text;
    size_t n = strlen(name), m = strlen(suffix);
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, n + m + 1, (void **)&text));
    memcpy(text, name, n);
    memcpy(text + n, suffix, m);
    *out = s->n_states;
    s->states[s->n_states++] = (mlsi_state){.name = text, .parameter = parameter, .type = *type};
    return MLSYS_OK;
}

static mlsys_status add_scalars(mlsi_step_graph *s, const mlsi_trainer_options *o) {
    static const char *const names[] = {"state.batches", "state.step", "state.skipped",
                                        "state.loss_scale", "state.good_steps"};
    for (int i = 0; i < MLSI_STATE_SCALARS; i++) {
        mlsi_type t = {.dtype = i == MLSI_STATE_SCALE ? MLSYS_F32 : MLSYS_I64};
        int32_t at;
        MLSI_TRY(add_state(s, names[i], "", -1, &t, &at));
        if (i == MLSI_STATE_SCALE) s->states[at].initial = o->scaled ? o->loss_scale : 1;
    }
    return MLSYS_OK;
}

static mlsys_status add_param_states(mlsi_step_graph *s, const mlsi_trainer_options *o, int32_t i,
                                     mlsi_param_plan *p) {
    const mlsi_state own = s->states[i];
    mlsi_type wide = own.type;
    if (wide.dtype != MLSYS_F64) wide.dtype = MLSYS_F32;
    p->optimizer = mlsi_update_optimizer(o, &own.type, own.name);
    p->decays = own.type.rank >= o->decay_rank && !mlsi_name_listed(o->no_decay, own.name);
    if (mlsi_fault(MLSI_FAULT_TRAIN_DECAY_ALL)) p->decays = true;
    p->ema = -1;
    for (int k = 0; k < MLSI_MAX_SLOTS; k++) {
        mlsi_type t = wide;
        p->slot[k] = -1;
        const char *suffix = mlsi_update_slot(o, p->optimizer, k, &t);
        if (suffix) MLSI_TRY(add_state(s, own.name, suffix, i, &t, &p->slot[k]));
    }
    if (o->ema > 0) {
        MLSI_TRY(add_state(s, own.name, ".ema", i, &wide, &p->ema));
        s->states[p->ema].of_parameter = true;
    }
    return MLSYS_OK;
}

/* The sums of a batch's terms: NAME.sum, and NAME.sum2, ... where a parameter has several. */
static mlsys_status add_sums(mlsi_step_graph *s, mlsi_step_builder *b) {
    int32_t *terms_of;
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *b->sum * (size_t)(b->sums.n + 1), (void **)&b->sum));
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *terms_of * (size_t)(s->n_params + 1),
                               (void **)&terms_of));
    for (int32_t i = 0; i < b->sums.n; i++) {
        const mlsi_sum_term *t = &b->sums.terms[i];
        char suffix[16] = ".sum";
        int32_t number = ++terms_of[t->parameter];
        if (number > 1) snprintf(suffix, sizeof suffix, ".sum%d", number);
        MLSI_TRY(
            add_state(s, s->states[t->parameter].name, suffix, t->parameter, &t->type, &b->sum[i]));
        s->states[b->sum[i]].initial = t->initial;
        s->states[b->sum[i]].apart = t->continues;
    }
    return MLSYS_OK;
}

/* ---- phases -------------------------------------------------------------------------------- */

static mlsys_status phase_begin(mlsi_step_graph *s, mlsi_ctx *ctx, mlsi_step_builder *b,
                                const mlsi_trainer_options *o, const mlsi_param_plan *plans) {
    mlsi_phase *ph = &s->phases[s->n_phases];
    *b = (mlsi_step_builder){.s = s, .phase = ph, .o = o, .plans = plans};
    MLSI_TRY(mlsi_graph_init(&ph->graph, ctx));
    ph->made = true;
    s->n_phases++;
    b->e = (mlsi_emit){.g = &ph->graph, .func = 0, .compute = MLSYS_F32};
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *b->value * (size_t)s->cap_states, (void **)&b->value));
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *b->next * (size_t)s->cap_states, (void **)&b->next));
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *b->grad * (size_t)s->n_params, (void **)&b->grad));
    memset(b->value, 0xff, sizeof *b->value * (size_t)s->cap_states);
    memset(b->next, 0xff, sizeof *b->next * (size_t)s->cap_states);
    memset(b->result, 0xff, sizeof b->result);
    return MLSYS_OK;
}

/* Which tensor each input and output is; what changes is donated. */
static mlsys_status phase_end(mlsi_step_graph *s, mlsi_step_builder *b, int32_t n_batch) {
    mlsi_phase *ph = b->phase;
    mlsi_func *f = &ph->graph.funcs[0];
    MLSI_TRY(b->e.st);
    f->n_outputs = 0;
    int32_t room = s->n_states + MLSI_RESULTS + n_batch;
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *ph->in * (size_t)room, (void **)&ph->in));
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *ph->out * (size_t)room, (void **)&ph->out));
    for (int r = 0; r < MLSI_RESULTS; r++) {
        if (b->result[r] < 0) continue;
        MLSI_TRY(mlsi_build_output(&ph->graph, 0, NULL, b->result[r]));
        ph->out[ph->n_out++] = -1 - r;
    }
    for (int32_t i = 0; i < s->n_states; i++) {
        if (b->next[i] < 0) continue;
        MLSI_TRY(mlsi_build_output(&ph->graph, 0, NULL, b->next[i]));
        ph->out[ph->n_out++] = i;
    }
    int32_t batch = 0;
    for (int64_t k = 0; k < f->n_inputs; k++) {
        int32_t state = -1;
        for (int32_t i = 0; i < s->n_states && state < 0; i++)
            if (b->value[i] == f->inputs[k]) state = i;
        f->donated[k] = state >= 0 && b->next[state] >= 0 && !s->states[state].apart;
        ph->in[ph->n_in++] = state >= 0 ? state : -1 - batch++;
    }
    if (batch != n_batch)
        return mlsi_fail(MLSYS_E_INTERNAL, "trainer: %d batch inputs, not %d", batch, n_batch);
    return MLSYS_OK;
}

static mlsys_status gradients(mlsi_step_builder *b, int32_t loss, int32_t seed,
                              const int32_t *values) {
    mlsi_graph *own = &b->phase->graph;
    MLSI_TRY(mlsi_gradient_keeping(own, 0, &b->o->checkpoint, 1, &loss, &seed, b->s->n_params,
                                   values, b->grad));
    for (int32_t i = 0; i < b->s->n_params; i++)
        if (b->grad[i] < 0) MLSI_TRY(mlsi_full_like(own, 0, values[i], 0, &b->grad[i]));
    return MLSYS_OK;
}

/* What the gradients are sums of is known when they are made, and sums must be there before: so they are made twice.
 */
static mlsys_status gradients_with_sums(mlsi_step_builder *b, int32_t loss, int32_t seed,
                                        const int32_t *values) {
    mlsi_graph *own = &b->phase->graph;
    mlsi_step_graph *s = b->s;
    mlsi_growth before = mlsi_growth_of(own, 0);
    MLSI_TRY(gradients(b, loss, seed, values));
    MLSI_TRY(mlsi_sums_find(&s->arena, own, s->n_params, b->grad, &b->sums));
    MLSI_TRY(add_sums(s, b));
    mlsi_growth_undo(own, 0, before);
    for (int32_t i = 0; i < b->sums.n; i++)
        mlsi_step_state(b, b->sum[i]);
    MLSI_TRY(b->e.st);
    MLSI_TRY(gradients(b, loss, seed, values));
    int32_t n = b->sums.n;
    MLSI_TRY(mlsi_sums_find(&s->arena, own, s->n_params, b->grad, &b->sums));
    if (n == b->sums.n) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_INTERNAL, "trainer: %d sums at first, then %d", n, b->sums.n);
}

/* The model into the phase's graph, with its values under their old numbers, and the gradients behind it. */
static mlsys_status differentiate(mlsi_step_builder *b, const mlsi_graph *g, int32_t loss,
                                  const int32_t *params) {
    mlsi_graph *own = &b->phase->graph;
    mlsi_step_graph *s = b->s;
    int32_t main, seed = -1;
    mlsi_graph_truncate(own, 0);
    MLSI_TRY(mlsi_graph_import(own, g, 0, &main));
    if (own->funcs[0].n_values != g->funcs[0].n_values)
        return mlsi_fail(MLSYS_E_INTERNAL, "trainer: the copy of the graph has other values");
    int32_t *values; /* the parameters, then the loss */
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *values * ((size_t)s->n_params + 1), (void **)&values));
    memcpy(values, params, sizeof *params * (size_t)s->n_params);
    values[s->n_params] = loss;
    if (b->o->precision != MLSYS_F32)
        MLSI_TRY(
            mlsi_graph_narrow(own, b->o->precision, b->o->narrow_pinned, s->n_params + 1, values));
    loss = values[s->n_params];
    for (int32_t i = 0; i < s->n_params; i++)
        b->value[i] = values[i];
    if (b->o->scaled) {
        int32_t scale = mlsi_step_state(b, mlsi_scalar_state(s, MLSI_STATE_SCALE));
        seed = mlsi_emit_cast(&b->e, scale, s->loss_dtype);
        MLSI_TRY(b->e.st);
    }
    MLSI_TRY(b->o->accumulate > 1 ? gradients_with_sums(b, loss, seed, values)
                                  : gradients(b, loss, seed, values));
    b->phase->pass_nodes = own->funcs[0].n_nodes;
    b->phase->pass_values = own->funcs[0].n_values;
    b->phase->pass_inputs = own->funcs[0].n_inputs;
    b->result[MLSI_RESULT_LOSS] = loss;
    /* One more call. */
    int32_t state = mlsi_scalar_state(s, MLSI_STATE_BATCHES), one;
    int32_t batches = mlsi_step_state(b, state);
    one = mlsi_emit_int(&b->e, MLSYS_I64, 1);
    b->next[state] = mlsi_emit_2(&b->e, MLSI_OP_ADD, batches, one);
    return b->e.st;
}

/* New sums: what a term that goes on with its sum gives (mlsi_sums_continue), or sum + value. */
static void add_up(mlsi_step_builder *b) {
    for (int32_t i = 0; i < b->sums.n && b->e.st == MLSYS_OK; i++) {
        const mlsi_sum_term *t = &b->sums.terms[i];
        int32_t sum = b->sum[i], value = t->value;
        if (!t->continues) {
            value = mlsi_emit_cast(&b->e, value, t->type.dtype);
            value = mlsi_emit_2(&b->e, MLSI_OP_ADD, mlsi_step_state(b, sum), value);
        }
        b->next[sum] = value;
    }
}

/* The gradients from the sums, which begin anew. */
static mlsys_status take_sums(mlsi_step_builder *b, const mlsi_step_builder *first) {
    mlsi_step_graph *s = b->s;
    int32_t *sum, no = mlsi_emit_int(&b->e, MLSYS_BOOL, 0);
    b->sums = first->sums;
    b->sum = first->sum;
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *sum * (size_t)(b->sums.n + 1), (void **)&sum));
    for (int32_t i = 0; i < b->sums.n; i++) {
        const mlsi_state *state = &s->states[b->sum[i]];
        sum[i] = mlsi_step_state(b, b->sum[i]);
        MLSI_TRY(b->e.st);
        int32_t empty;
        MLSI_TRY(mlsi_full_like(b->e.g, 0, sum[i], state->initial, &empty));
        if (mlsi_fault(MLSI_FAULT_TRAIN_SUM_STALE))
            continue;
        else if (state->apart)
            b->next[b->sum[i]] = empty;
        else
            mlsi_step_set(b, b->sum[i], no, empty);
    }
    MLSI_TRY(b->e.st);
    return mlsi_sums_finish(b->e.g, &first->phase->graph, &b->sums, sum, s->n_params, first->grad,
                            b->grad);
}

/* Terms go on with their sums; inputs and outputs stay. */
static mlsys_status continue_sums(mlsi_step_graph *s, const mlsi_step_builder *b) {
    int32_t *addend;
    MLSI_TRY(
        mlsi_arena_zalloc(&s->arena, sizeof *addend * (size_t)(b->sums.n + 1), (void **)&addend));
    for (int32_t i = 0; i < b->sums.n; i++)
        addend[i] = b->value[b->sum[i]];
    return mlsi_sums_continue(&b->phase->graph, &b->sums, addend, &b->phase->pass_nodes,
                              &b->phase->pass_values);
}

static mlsys_status build_phases(mlsi_step_graph *s, const mlsi_graph *g, int32_t loss,
                                 const int32_t *params, const mlsi_trainer_options *o,
                                 const mlsi_param_plan *plans) {
    mlsi_step_builder first, second;
    MLSI_TRY(phase_begin(s, g->ctx, &first, o, plans));
    MLSI_TRY(differentiate(&first, g, loss, params));
    if (o->accumulate == 1) {
        mlsi_update(&first);
        return phase_end(s, &first, s->n_batch);
    }
    add_up(&first);
    MLSI_TRY(phase_end(s, &first, s->n_batch));
    MLSI_TRY(phase_begin(s, g->ctx, &second, o, plans));
    MLSI_TRY(take_sums(&second, &first));
    mlsi_update(&second);
    MLSI_TRY(phase_end(s, &second, 0));
    return continue_sums(s, &first);
}

/* ---- arguments ----------------------------------------------------------------------------- */

static mlsys_status check_arguments(const mlsi_graph *g, int32_t loss, int32_t n,
                                    const int32_t *params) {
    char text[160];
    const mlsi_func *f = &g->funcs[0];
    const mlsi_type *t = &f->values[loss].type;
    if (!mlsi_dtype_is_float(t->dtype) || t->rank)
        return mlsi_fail(t->rank ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                         "trainer: loss is %s, expected a float scalar",
                         mlsi_type_text(&g->symbols, t, text, sizeof text));
    for (int32_t i = 0; i < n; i++) {
        const mlsi_value_def *v = &f->values[params[i]];
        if (v->kind != MLSI_VALUE_INPUT || !v->name || !v->name[0])
            return mlsi_fail(MLSYS_E_ARG, "trainer: parameter %d is not a named input", i);
        if (!mlsi_dtype_is_float(v->type.dtype))
            return mlsi_fail(MLSYS_E_DTYPE, "trainer: parameter %s is %s, expected floats", v->name,
                             mlsi_type_text(&g->symbols, &v->type, text, sizeof text));
        if (!mlsi_type_static(&v->type))
            return mlsi_fail(MLSYS_E_SHAPE, "trainer: parameter %s is %s: its shape must be fixed",
                             v->name, mlsi_type_text(&g->symbols, &v->type, text, sizeof text));
        for (int32_t j = 0; j < i; j++)
            if (params[j] == params[i])
                return mlsi_fail(MLSYS_E_ARG, "trainer: parameter %s is given twice", v->name);
    }
    return MLSYS_OK;
}

static mlsys_status create(const mlsi_graph *g, int32_t loss, int32_t n, const int32_t *params,
                           const mlsi_trainer_options *o, mlsi_step_graph *s) {
    const mlsi_func *f = &g->funcs[0];
    mlsi_param_plan *plans;
    size_t room = (size_t)n * (2 + MLSI_MAX_SLOTS + MLSI_MAX_TERMS) + MLSI_STATE_SCALARS;
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *s->states * room, (void **)&s->states));
    MLSI_TRY(mlsi_arena_zalloc(&s->arena, sizeof *plans * (size_t)(n + 1), (void **)&plans));
    for (int32_t i = 0; i < n; i++) {
        int32_t at;
        MLSI_TRY(add_state(s, f->values[params[i]].name, "", i, &f->values[params[i]].type, &at));
    }
    s->n_params = n;
    s->cap_states = (int32_t)room;
    s->n_batch = (int32_t)f->n_inputs - n;
    s->loss_dtype = f->values[loss].type.dtype;
    MLSI_TRY(add_scalars(s, o));
    for (int32_t i = 0; i < n; i++)
        MLSI_TRY(add_param_states(s, o, i, &plans[i]));
    return build_phases(s, g, loss, params, o, plans);
}

mlsys_status mlsi_step_graph_create(const mlsi_graph *g, int32_t loss, int32_t n,
                                    const int32_t *params, const mlsi_trainer_options *o,
                                    mlsi_step_graph *out) {
    memset(out, 0, sizeof *out);
    out->alloc = g->alloc;
    mlsi_arena_init(&out->arena, g->alloc);
    mlsys_status st = check_arguments(g, loss, n, params);
    if (st == MLSYS_OK) st = create(g, loss, n, params, o, out);
    if (st != MLSYS_OK) mlsi_step_graph_free(out);
    return st;
}

void mlsi_step_graph_free(mlsi_step_graph *s) {
    for (int i = 0; i < 2; i++)
        if (s->phases[i].made) mlsi_graph_free(&s->phases[i].graph);
    if (s->alloc) mlsi_arena_free(&s->arena);
    memset(s, 0, sizeof *s);
}
