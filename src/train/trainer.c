#include "train/trainer.h"

#include "core/faults.h"
#include "core/sha256.h"
#include "core/trace.h"

#include <math.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------- */

static void drop(mlsi_owned_tensor *t) {
    mlsi_unpin(t->tensor);
    mlsys_release(t->handle);
    *t = (mlsi_owned_tensor){NULL, NULL};
}

static void destroy(mlsi_object *self) {
    mlsi_trainer *t = (mlsi_trainer *)self;
    mlsi_alloc *a = &t->object.ctx->alloc;
    for (int32_t i = 0; t->state && i < t->graph.n_states; i++)
        drop(&t->state[i]);
    for (int32_t i = 0; t->spare && i < t->graph.n_states; i++)
        drop(&t->spare[i]);
    for (int32_t i = 0; t->batch && i < t->graph.n_batch; i++)
        drop(&t->batch[i]);
    for (int r = 0; r < MLSI_RESULTS; r++)
        drop(&t->result[r]);
    for (int p = 0; p < 2; p++) {
        mlsi_unpin(t->program[p]);
        mlsys_release(t->handle[p]);
    }
    mlsi_step_graph_free(&t->graph);
    mlsi_mem_free(a, t->state);
    mlsi_mem_free(a, t->spare);
    mlsi_mem_free(a, t->batch);
    mlsi_mem_free(a, t->batch_in);
    mlsi_mem_free(a, t->in);
    mlsi_mem_free(a, t->out);
    mlsi_text_free(&t->settings);
    mlsys_release(t->stream_handle);
    mlsi_unpin(t->stream);
    mlsi_mem_free(a, t);
}

static mlsys_status own_tensor(mlsi_trainer *t, const mlsi_type *type, mlsi_owned_tensor *out) {
    mlsi_layout l;
    MLSI_TRY(mlsi_layout_row_major(&l, type->dtype, type->rank, type->dims));
    MLSI_TRY(mlsi_tensor_new(t->stream->device, &l, &out->handle));
    return mlsi_pin(out->handle, MLSYS_KIND_TENSOR, "trainer: state", &out->tensor);
}

static void fill(const mlsi_view *v, double value) {
    for (int64_t i = 0, n = mlsi_view_count(v); i < n; i++) {
        if (mlsi_dtype_is_float(v->dtype))
            mlsi_ref_set_f(v, i, value);
        else
            mlsi_ref_set_i(v, i, (int64_t)value);
    }
}

/* First value of a state that is not a parameter, dense on the host; `of` the parameter's elements, where it is made of them. */
static void fill_state(const mlsi_state *s, const mlsi_view *v, const mlsi_view *of) {
    if (s->of_parameter) {
        for (int64_t k = 0, n = mlsi_view_count(v); k < n; k++)
            mlsi_ref_set_f(v, k, mlsi_ref_get_f(of, k));
    } else if (s->initial == 0 && !signbit(s->initial)) {
        memset(v->data, 0, mlsi_view_bytes(v));
    } else {
        fill(v, s->initial);
    }
}

/* Dense memory of a tensor on the host; of a host tensor its own. */
static mlsys_status host_room(const mlsi_tensor *t, mlsi_view *out, void **made) {
    *made = NULL;
    *out = mlsi_tensor_view_of(t);
    if (mlsi_is_host(t->device)) return MLSYS_OK;
    MLSI_TRY(mlsi_mem_alloc(&t->object.ctx->alloc, mlsi_view_bytes(out), made));
    out->data = *made;
    return MLSYS_OK;
}

static mlsys_status start_state(mlsi_trainer *t, int32_t i, mlsi_tensor *const *initial) {
    const mlsi_state *s = &t->graph.states[i];
    mlsi_alloc *a = &t->object.ctx->alloc;
    mlsi_view v, of = {0};
    void *room, *of_room = NULL;
    MLSI_TRY(own_tensor(t, &s->type, &t->state[i]));
    mlsi_tensor *own = t->state[i].tensor;
    t->state_bytes += mlsi_layout_bytes(&own->layout);
    if (i < t->graph.n_params) return mlsi_tensor_transfer(own, initial[i]);
    MLSI_TRY(host_room(own, &v, &room));
    mlsys_status st = MLSYS_OK;
    if (s->of_parameter) st = host_room(t->state[s->parameter].tensor, &of, &of_room);
    if (st == MLSYS_OK && of_room)
        st = mlsi_tensor_download(t->state[s->parameter].tensor, of_room);
    if (st == MLSYS_OK) fill_state(s, &v, &of);
    if (st == MLSYS_OK && room) st = mlsi_tensor_upload(own, room);
    mlsi_mem_free(a, of_room);
    mlsi_mem_free(a, room);
    return st;
}

static mlsys_status check_initial(const mlsi_trainer *t, mlsi_tensor *const *initial) {
    char have[160], want[160];
    for (int32_t i = 0; i < t->graph.n_params; i++) {
        const mlsi_type *type = &t->graph.states[i].type;
        const mlsi_layout *l = &initial[i]->layout;
        bool shape = l->rank == type->rank &&
                     !memcmp(l->shape, type->dims, sizeof *l->shape * (size_t)l->rank);
        if (shape && l->dtype == type->dtype) continue;
        return mlsi_fail(
            shape ? MLSYS_E_DTYPE : MLSYS_E_SHAPE, "trainer: first value of %s is %s, expected %s",
            t->graph.states[i].name, mlsi_layout_text(l, have, sizeof have),
            mlsi_type_text(&t->graph.phases[0].graph.symbols, type, want, sizeof want));
    }
    return MLSYS_OK;
}

/* A state whose new value does not take the old one's memory gets a second tensor, and the two take turns. */
static mlsys_status make_spares(mlsi_trainer *t, int p) {
    const mlsi_phase *ph = &t->graph.phases[p];
    const int32_t *alias = t->program[p]->routines[0].alias_input;
    for (int32_t o = 0; o < ph->n_out; o++) {
        int32_t s = ph->out[o];
        if (s < 0 || t->spare[s].handle || (alias[o] >= 0 && ph->in[alias[o]] == s)) continue;
        MLSI_TRY(own_tensor(t, &t->graph.states[s].type, &t->spare[s]));
        t->state_bytes += mlsi_layout_bytes(&t->spare[s].tensor->layout);
    }
    return MLSYS_OK;
}

static mlsys_status make_tensors(mlsi_trainer *t, mlsi_tensor *const *initial) {
    mlsi_alloc *a = &t->object.ctx->alloc;
    int32_t most = 0;
    for (int p = 0; p < t->graph.n_phases; p++) {
        const mlsi_phase *ph = &t->graph.phases[p];
        most = ph->n_in > most ? ph->n_in : most;
        most = ph->n_out > most ? ph->n_out : most;
    }
    MLSI_TRY(MLSI_NEW_N(a, t->graph.n_states, &t->state));
    MLSI_TRY(MLSI_NEW_N(a, t->graph.n_states, &t->spare));
    MLSI_TRY(MLSI_NEW_N(a, most + 1, &t->in));
    MLSI_TRY(MLSI_NEW_N(a, most + 1, &t->out));
    MLSI_TRY(check_initial(t, initial));
    for (int32_t i = 0; i < t->graph.n_states; i++)
        MLSI_TRY(start_state(t, i, initial));
    for (int r = 0; r < MLSI_RESULTS; r++) {
        mlsi_type type = {.dtype = r == MLSI_RESULT_LOSS ? t->graph.loss_dtype : MLSYS_F32};
        MLSI_TRY(own_tensor(t, &type, &t->result[r]));
        mlsi_tensor *own = t->result[r].tensor;
        MLSI_TRY(mlsi_device_zero(own->device, mlsi_tensor_view_of(own).data,
                                  mlsi_layout_bytes(&own->layout)));
    }
    return MLSYS_OK;
}

static mlsys_status digest(mlsi_trainer *t, const mlsi_graph *g) {
    mlsi_text text;
    mlsi_sha256 sha;
    uint8_t bytes[32];
    mlsi_text_init(&text, g->alloc);
    mlsi_graph_print_brief(g, &text);
    mlsys_status st = text.st;
    if (st == MLSYS_OK) {
        mlsi_sha256_init(&sha);
        mlsi_sha256_add(&sha, text.data, (size_t)text.len);
        mlsi_sha256_finish(&sha, bytes);
        mlsi_sha256_hex(bytes, t->model);
    }
    mlsi_text_free(&text);
    return st;
}

static mlsys_status init(mlsi_trainer *t, const mlsi_graph *g, int32_t loss, int32_t n,
                         const int32_t *params, mlsi_tensor *const *initial,
                         const mlsi_trainer_options *o) {
    MLSI_TRY(digest(t, g));
    mlsi_trainer_options_text(o, &t->settings);
    MLSI_TRY(t->settings.st);
    t->accumulate = o->accumulate;
    t->optimizer = mlsi_optimizer_name(o->optimizer);
    t->same_settings = o->same_settings;
    MLSI_TRY(mlsi_step_graph_create(g, loss, n, params, o, &t->graph));
    MLSI_TRY(make_tensors(t, initial));
    for (int p = 0; p < t->graph.n_phases; p++) {
        MLSI_TRY(mlsi_program_create(&t->graph.phases[p].graph, t->stream->device, &o->compile,
                                     &t->handle[p]));
        MLSI_TRY(mlsi_pin(t->handle[p], MLSYS_KIND_PROGRAM, "trainer: program", &t->program[p]));
        MLSI_TRY(make_spares(t, p));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_trainer_create(const mlsi_graph *g, int32_t loss, int32_t n,
                                 const int32_t *params, mlsi_tensor *const *initial, mlsi_stream *s,
                                 const mlsi_config *config, mlsys_trainer *out) {
    mlsi_trainer_options o;
    mlsi_trainer *t;
    mlsi_alloc *a = g->alloc;
    *out = NULL;
    mlsys_status st = mlsi_trainer_options_read(g->ctx, config, &o);
    if (st == MLSYS_OK) st = MLSI_NEW(a, &t);
    if (st == MLSYS_OK) {
        t->object.ctx = g->ctx; /* for destroy; the handle sets and pins it */
        t->stream = s;
        mlsi_repin(s);
        mlsi_text_init(&t->settings, a);
        t->stream_handle = mlsi_handle_of(s);
        st = t->stream_handle ? init(t, g, loss, n, params, initial, &o) : mlsys_last_status();
        if (st == MLSYS_OK)
            st = mlsi_handle_create(&t->object, MLSYS_KIND_TRAINER, g->ctx, destroy, out);
        if (st != MLSYS_OK) destroy(&t->object);
    }
    mlsi_trainer_options_free(&o);
    return st;
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Facts of the phase under its binding, with all the memory that a run needs. */
static mlsys_status prepare(mlsi_trainer *t, int p) {
    mlsi_bound *b;
    MLSI_TRY(mlsi_bound_get(t->program[p], t->stream, &b));
    MLSI_TRY(mlsi_bound_names(b, 0, NULL, NULL));
    MLSI_TRY(mlsi_bound_bind(b));
    return mlsi_stream_reserve(t->stream, b->routines[0].arena_bytes);
}

static mlsys_status run_phase(mlsi_trainer *t, int p, mlsi_tensor *const *batch) {
    const mlsi_phase *ph = &t->graph.phases[p];
    mlsi_bound *b;
    for (int32_t i = 0; i < ph->n_in; i++)
        t->in[i] = ph->in[i] < 0 ? batch[-1 - ph->in[i]] : t->state[ph->in[i]].tensor;
    for (int32_t o = 0; o < ph->n_out; o++) {
        int32_t s = ph->out[o];
        t->out[o] = s < 0                ? t->result[-1 - s].handle
                    : t->spare[s].handle ? t->spare[s].handle
                                         : t->state[s].handle;
    }
    MLSI_TRY(mlsi_program_exec(t->program[p], t->stream, ph->n_in, t->in, ph->n_out, t->out));
    for (int32_t o = 0; o < ph->n_out; o++) {
        int32_t s = ph->out[o];
        if (s < 0 || !t->spare[s].handle) continue;
        mlsi_owned_tensor old = t->state[s];
        t->state[s] = t->spare[s];
        t->spare[s] = old;
    }
    MLSI_TRY(mlsi_bound_get(t->program[p], t->stream, &b)); /* it is there */
    mlsi_op_cost cost;
    mlsi_routine_cost(t->program[p], b, 0, &cost);
    t->flops += (double)cost.flops;
    uint64_t peak = t->state_bytes + b->routines[0].arena_bytes;
    if (peak > t->peak_bytes) t->peak_bytes = peak;
    return MLSYS_OK;
}

/* NaN where a device cannot tell any more. */
static double scalar_of(const mlsi_owned_tensor *t) {
    uint64_t element = 0;
    mlsi_view v = mlsi_tensor_view_of(t->tensor);
    v.data = &element;
    if (mlsi_tensor_download(t->tensor, &element) != MLSYS_OK) return NAN;
    return mlsi_dtype_is_float(v.dtype) ? mlsi_ref_get_f(&v, 0) : (double)mlsi_ref_get_i(&v, 0);
}

static mlsys_status counter(const mlsi_trainer *t, int which, int64_t *out) {
    return mlsi_tensor_download(t->state[mlsi_scalar_state(&t->graph, which)].tensor, out);
}

static mlsys_status wrong_batch(const mlsi_trainer *t, const char *what, int32_t n_in) {
    return mlsi_fail(MLSYS_E_ARG, "%s: %d tensors given, a batch has %d", what, n_in,
                     t->graph.n_batch);
}

/* A batch of the host becomes one of the trainer's device, in tensors that stay for the next batch. */
static mlsys_status move_batch(mlsi_trainer *t, int32_t n, mlsi_tensor *const *in,
                               mlsi_tensor *const **out) {
    mlsi_device *d = t->stream->device;
    *out = in;
    if (mlsi_is_host(d)) return MLSYS_OK;
    if (!t->batch) MLSI_TRY(MLSI_NEW_N(&t->object.ctx->alloc, n, &t->batch));
    if (!t->batch_in) MLSI_TRY(MLSI_NEW_N(&t->object.ctx->alloc, n, &t->batch_in));
    for (int32_t i = 0; i < n; i++) {
        const mlsi_layout *l = &in[i]->layout;
        mlsi_owned_tensor *own = &t->batch[i];
        t->batch_in[i] = in[i];
        if (in[i]->device == d) continue;
        bool fits =
            own->tensor && own->tensor->layout.dtype == l->dtype &&
            own->tensor->layout.rank == l->rank &&
            !memcmp(own->tensor->layout.shape, l->shape, sizeof l->shape[0] * (size_t)l->rank);
        if (!fits) {
            mlsi_type type = {.dtype = l->dtype, .rank = l->rank};
            memcpy(type.dims, l->shape, sizeof l->shape);
            drop(own);
            MLSI_TRY(own_tensor(t, &type, own));
        }
        MLSI_TRY(mlsi_tensor_transfer(own->tensor, in[i]));
        t->batch_in[i] = own->tensor;
    }
    *out = t->batch_in;
    return MLSYS_OK;
}

mlsys_status mlsi_trainer_step(mlsi_trainer *t, int32_t n_in, mlsi_tensor *const *in,
                               double *loss) {
    int64_t t0 = mlsi_now_ns(), batches = 0, left;
    MLSI_TRY(counter(t, MLSI_STATE_BATCHES, &batches));
    left = t->accumulate - batches % t->accumulate;
    if (n_in != t->graph.n_batch) return wrong_batch(t, "trainer_step", n_in);
    bool second = t->graph.n_phases > 1 && left == 1;
    /* Whatever the update's run may lack is found before the sums change. */
    if (second) MLSI_TRY(prepare(t, 1));
    MLSI_TRY(move_batch(t, n_in, in, &in));
    t->flops = 0;
    MLSI_TRY(run_phase(t, 0, in));
    if (second) MLSI_TRY(run_phase(t, 1, in));
    if (loss) *loss = scalar_of(&t->result[MLSI_RESULT_LOSS]);
    t->seconds = (double)(mlsi_now_ns() - t0) * 1e-9;
    return MLSYS_OK;
}

/* A copy of the first phase without the update's nodes. */
static mlsys_status copy_passes(const mlsi_phase *ph, mlsi_graph *own) {
    int32_t main;
    mlsi_graph_truncate(own, 0);
    MLSI_TRY(mlsi_graph_import(own, &ph->graph, 0, &main));
    own->funcs[0].n_nodes = ph->pass_nodes;
    own->funcs[0].n_values = ph->pass_values;
    own->funcs[0].n_inputs = ph->pass_inputs;
    own->funcs[0].n_outputs = 0;
    return MLSYS_OK;
}

mlsys_status mlsi_trainer_find_nonfinite(mlsi_trainer *t, int32_t n_in, mlsi_tensor *const *in,
                                         mlsi_text *out) {
    const mlsi_phase *ph = &t->graph.phases[0];
    mlsi_graph own;
    if (n_in != t->graph.n_batch) return wrong_batch(t, "trainer_find_nonfinite", n_in);
    int32_t n = (int32_t)ph->pass_inputs;
    for (int32_t i = 0; i < n; i++)
        t->in[i] = ph->in[i] < 0 ? in[-1 - ph->in[i]] : t->state[ph->in[i]].tensor;
    MLSI_TRY(mlsi_graph_init(&own, t->object.ctx));
    mlsys_status st = copy_passes(ph, &own);
    if (st == MLSYS_OK) st = mlsi_find_nonfinite(&own, t->stream, n, t->in, out);
    mlsi_graph_free(&own);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------- */

#define SCALAR(which) scalar_of(&t->state[mlsi_scalar_state(&t->graph, which)])
#define TRAINER_STATS(X)                                                                           \
    X("step", SCALAR(MLSI_STATE_STEP), "updates of the parameters")                                \
    X("batches", SCALAR(MLSI_STATE_BATCHES), "calls of mlsys_trainer_step")                        \
    X("skipped", SCALAR(MLSI_STATE_SKIPPED), "updates left out: a gradient was not finite")        \
    X("loss", scalar_of(&t->result[MLSI_RESULT_LOSS]), "of the last batch")                        \
    X("rate", scalar_of(&t->result[MLSI_RESULT_RATE]), "of the last update")                       \
    X("gradient_norm", scalar_of(&t->result[MLSI_RESULT_NORM]),                                    \
      "of the last update, before clipping")                                                       \
    X("loss_scale", SCALAR(MLSI_STATE_SCALE), "factor of the loss; 1 = none")                      \
    X("seconds", t->seconds, "that the last step took")                                            \
    X("flops", t->flops, "of the last step")                                                       \
    X("state_bytes", (double)t->state_bytes, "parameters and what is kept for them")               \
    X("peak_bytes", (double)t->peak_bytes, "most bytes of state and planned memory in a step")

mlsys_status mlsi_trainer_stat(const mlsi_trainer *t, const char *name, double *out) {
#define STAT_VALUE(name_, value, meaning)                                                          \
    if (!strcmp(name, name_)) return *out = (value), MLSYS_OK;
    TRAINER_STATS(STAT_VALUE)
#undef STAT_VALUE
    return mlsi_fail(MLSYS_E_NOTFOUND, "trainer_stat: no name \"%.64s\"", name);
}

void mlsi_trainer_stats_text(mlsi_text *out) {
#define STAT_LINE(name_, value, meaning) mlsi_text_add(out, "%s f64: %s\n", name_, meaning);
    TRAINER_STATS(STAT_LINE)
#undef STAT_LINE
}

mlsys_status mlsi_trainer_tensor(const mlsi_trainer *t, const char *name, mlsys_tensor *out) {
    for (int32_t i = 0; i < t->graph.n_states; i++)
        if (!strcmp(t->graph.states[i].name, name))
            return mlsi_tensor_copy_reshaped(t->state[i].tensor, &t->state[i].tensor->layout, out);
    return mlsi_fail(MLSYS_E_NOTFOUND, "trainer_tensor: no parameter or state \"%.96s\"", name);
}
