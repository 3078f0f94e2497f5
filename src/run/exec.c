/* Running a bound routine. */
#include "core/faults.h"
#include "run/program.h"

#include <string.h>

typedef struct exec {
    const mlsi_program *p;
    mlsi_stream *s;
    mlsi_bound *b;
} exec;

static mlsys_status run_routine(const exec *x, int32_t index, char *arena);

/* The scratch of a routine that needs none: its empty tensors have an address all the same. */
static _Alignas(MLSI_PLAN_ALIGN) char nothing[MLSI_PLAN_ALIGN];

/* Layout of a while node's work: predicate, next values of what changes, then the larger of the two
 * arenas. */
mlsys_status mlsi_control_work_bytes(const mlsi_bound *b, const mlsi_node *node,
                                     const mlsi_view *operands, uint64_t *out) {
    *out = 0;
    const mlsi_attr_control *c = node->attrs;
    if (node->op == MLSI_OP_CALL) {
        const mlsi_generated *k = mlsi_generated_of(b->program, node);
        if (k) return mlsi_generated_work(b->program, k, b->wanted, out);
        return *out = b->routines[c->fn1].arena_bytes, MLSYS_OK;
    }
    if (node->op != MLSI_OP_IF && node->op != MLSI_OP_WHILE) return MLSYS_OK;
    uint64_t a1 = b->routines[c->fn1].arena_bytes, a2 = b->routines[c->fn2].arena_bytes;
    *out = a1 > a2 ? a1 : a2;
    if (node->op == MLSI_OP_IF) return MLSYS_OK;
    *out += MLSI_PLAN_ALIGN; /* below 2^63 + 64 */
    for (int i = 0; i < node->n_out; i++)
        if (!mlsi_hands_on(&b->program->routines[c->fn2], i) &&
            !mlsi_add_u64(*out, mlsi_plan_align(mlsi_view_bytes(&operands[node->n_in + i])), out))
            return mlsi_fail(MLSYS_E_SHAPE, "program: while carries more than 2^64 bytes");
    return MLSYS_OK;
}

static mlsys_status call_routine(const exec *x, int32_t index, const mlsi_view *in,
                                 char *const *out, char *arena) {
    const mlsi_routine *r = &x->p->routines[index];
    mlsi_bound_routine *br = &x->b->routines[index];
    for (int64_t s = 0; s < r->n_slots; s++) {
        if (r->slots[s].kind == MLSI_SLOT_INPUT) br->base[s] = in[r->slots[s].index].data;
        if (r->slots[s].kind == MLSI_SLOT_OUTPUT) br->base[s] = out[r->slots[s].index];
    }
    return run_routine(x, index, arena);
}

/* Bytes from one buffer of the program's device to another. */
static mlsys_status move(const exec *x, void *to, const void *from, uint64_t bytes) {
    if (x->s->queue && bytes) return x->s->device->accel->copy(x->s->queue, to, from, bytes);
    if (!x->s->queue) memcpy(to, from, bytes);
    return MLSYS_OK;
}

/* A predicate's value, which decides what the host does next. */
static mlsys_status read_flag(const exec *x, const void *flag, bool *out) {
    uint8_t byte = 0;
    if (x->s->queue)
        MLSI_TRY(x->s->device->accel->download(x->s->queue, &byte, flag, 1));
    else
        byte = *(const uint8_t *)flag;
    return *out = byte != 0, MLSYS_OK;
}

/* A fused function: one kernel, or without code its steps. */
static mlsys_status run_call(const exec *x, const mlsi_node *node, const mlsi_kernel_args *a) {
    const mlsi_attr_control *c = a->attrs;
    const mlsi_generated *k = mlsi_generated_of(x->p, node);
    char *out[MLSI_MAX_OPERANDS];
    if (k && k->launches) return mlsi_accel_launch(x->b, k, a);
    if (k) return mlsi_generated_run(k, x->b->binding, a);
    for (int i = 0; i < a->n_out; i++)
        out[i] = a->out[i].data;
    return call_routine(x, (int32_t)c->fn1, a->in, out, a->work);
}

static mlsys_status run_if(const exec *x, const mlsi_kernel_args *a) {
    const mlsi_attr_control *c = a->attrs;
    char *out[MLSI_MAX_OPERANDS];
    bool yes;
    for (int i = 0; i < a->n_out; i++)
        out[i] = a->out[i].data;
    MLSI_TRY(read_flag(x, a->in[0].data, &yes));
    return call_routine(x, (int32_t)(yes ? c->fn1 : c->fn2), a->in + 1, out, a->work);
}

static mlsys_status run_while(const exec *x, const mlsi_kernel_args *a) {
    const mlsi_attr_control *c = a->attrs;
    const mlsi_routine *body = &x->p->routines[c->fn2];
    char *next[MLSI_MAX_OPERANDS], *at = (char *)a->work + MLSI_PLAN_ALIGN;
    for (int i = 0; i < a->n_out; i++) {
        MLSI_TRY(move(x, a->out[i].data, a->in[i].data, mlsi_view_bytes(&a->out[i])));
        next[i] = NULL;
        if (mlsi_hands_on(body, i)) continue;
        next[i] = at;
        at += mlsi_plan_align(mlsi_view_bytes(&a->out[i]));
    }
    char *flag = a->work;
    bool more;
    for (;;) {
        MLSI_TRY(call_routine(x, (int32_t)c->fn1, a->out, &flag, at));
        MLSI_TRY(read_flag(x, flag, &more));
        if (!more) return MLSYS_OK;
        MLSI_TRY(call_routine(x, (int32_t)c->fn2, a->out, next, at));
        for (int i = 0; i < a->n_out; i++)
            if (next[i]) MLSI_TRY(move(x, a->out[i].data, next[i], mlsi_view_bytes(&a->out[i])));
    }
}

static mlsys_status run_reference(const exec *x, const mlsi_step *s, const mlsi_kernel_args *a) {
    mlsi_ref_args ra = {.alloc = x->p->graph.alloc,
                        .attrs = a->attrs,
                        .n_in = a->n_in,
                        .n_out = a->n_out,
                        .in = a->in,
                        .out = a->out,
                        .graph = &x->p->graph};
    return mlsi_op_get(s->op)->ref(&ra);
}

typedef struct plain_step {
    const exec *x;
    const mlsi_bound_routine *br;
    const mlsi_step *s;
} plain_step;

/* No control flow: a kernel, the reference, or a custom op. */
static mlsys_status run_plain(void *user, const mlsi_kernel_args *a) {
    const plain_step *q = user;
    if (q->s->op == MLSI_OP_CUSTOM) {
        const mlsi_attr_custom *c = a->attrs;
        return mlsi_custom_call(&q->x->p->graph.customs[c->op_index], q->x->s, a,
                                q->br->customs + q->s->first_operand);
    }
    return q->s->kernel ? q->s->kernel->run(a) : run_reference(q->x, q->s, a);
}

static mlsys_status dispatch(const exec *x, const mlsi_bound_routine *br, const mlsi_step *s,
                             const mlsi_node *node, const mlsi_kernel_args *a) {
    plain_step plain = {x, br, s};
    switch (s->op) {
    case MLSI_OP_CALL: return run_call(x, node, a);
    case MLSI_OP_IF: return run_if(x, a);
    case MLSI_OP_WHILE: return run_while(x, a);
    default: break;
    }
    if (s->on_host) return mlsi_accel_on_host(x->p, a, node, run_plain, &plain);
    return run_plain(&plain, a);
}

static mlsys_status run_step(const exec *x, int32_t index, int64_t i, char *arena) {
    const mlsi_routine *r = &x->p->routines[index];
    const mlsi_step *s = &r->steps[i];
    mlsi_bound_routine *br = &x->b->routines[index];
    const mlsi_node *node = &x->p->graph.funcs[r->func].nodes[s->node];
    mlsi_view *operands = br->operands + s->first_operand;
    for (int k = 0; k < node->n_in + node->n_out; k++) {
        int32_t slot = br->operand_slot[s->first_operand + k];
        if (slot >= 0) operands[k].data = br->base[slot] + br->operand_offset[s->first_operand + k];
    }
    mlsi_kernel_args a = {.attrs = br->attrs + br->attr_offset[i],
                          .n_in = node->n_in,
                          .n_out = node->n_out,
                          .in = operands,
                          .out = operands + node->n_in,
                          .packed = mlsi_step_packed(x->p, s),
                          .work = arena + br->work_offset[i], /* an address, be it of no bytes */
                          .work_bytes = br->work_bytes[i],
                          .pool = x->p->graph.ctx->pool,
                          .queue = x->s->queue,
                          .error = s->error < 0 ? NULL : mlsi_accel_error(x->b, s->error)};
    mlsi_trace *trace = x->p->graph.ctx->trace;
    if (!mlsi_trace_enabled(trace)) return dispatch(x, br, s, node, &a);
    int64_t t0 = mlsi_now_ns();
    mlsys_status st = dispatch(x, br, s, node, &a);
    mlsi_op_cost cost;
    mlsi_step_cost(x->p, x->b, index, i, &cost);
    mlsi_trace_add(trace, "kernel", mlsi_step_name(x->p, node, s), t0, mlsi_now_ns(), cost.flops,
                   cost.bytes_read + cost.bytes_written);
    return st;
}

static mlsys_status run_routine(const exec *x, int32_t index, char *arena) {
    const mlsi_routine *r = &x->p->routines[index];
    mlsi_bound_routine *br = &x->b->routines[index];
    if (!arena) arena = nothing;
    for (int64_t s = 0; s < r->n_slots; s++) {
        if (r->slots[s].kind == MLSI_SLOT_SCRATCH) br->base[s] = arena + br->slot_offset[s];
        if (r->slots[s].kind != MLSI_SLOT_CONST) continue;
        int32_t c = r->slots[s].index;
        br->base[s] = x->p->backend->accel ? mlsi_accel_constant(x->p, c)
                                           : mlsi_tensor_view_of(x->p->graph.consts[c]).data;
    }
    for (int64_t i = 0; i < r->n_steps; i++) {
        mlsys_status st = run_step(x, index, i, arena);
        if (st != MLSYS_OK)
            return mlsi_fail_in(st, "run: step %lld (%s)", (long long)i,
                                mlsi_op_name(r->steps[i].op));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_stream_reserve(mlsi_stream *s, uint64_t bytes) {
    if (bytes <= s->scratch_bytes) return MLSYS_OK;
    mlsi_device_free(s->device, s->scratch);
    s->scratch = NULL;
    s->scratch_bytes = 0;
    MLSI_TRY(mlsi_device_alloc(s->device, bytes, &s->scratch));
    s->scratch_bytes = bytes;
    return MLSYS_OK;
}

/* ---- arguments of a run ------------------------------------------------------------------------- */

/* Addresses are those of the program's device. */
static mlsys_status check_device(const mlsi_device *want, const mlsi_device *have, const char *what,
                                 int i) {
    static const char *const names[] = {"?", "CPU", "CUDA"};
    if (have == want) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "run: %s %d is on %s device %d, the program on %s device %d",
                     what, i, names[have->type], have->index, names[want->type], want->index);
}

typedef struct run_args {
    const exec *x;
    int n_in, n_out;
    mlsi_tensor *const *in;
    mlsi_tensor *out[MLSI_MAX_ARGS];
    mlsys_tensor made[MLSI_MAX_ARGS]; /* outputs that this run made */
    bool pinned[MLSI_MAX_ARGS];
    mlsi_range in_range[MLSI_MAX_ARGS], out_range[MLSI_MAX_ARGS];
} run_args;

static mlsys_status apart_from_constants(const mlsi_program *p, mlsi_range r, const char *what,
                                         int i) {
    int64_t low = 0, high = p->n_const_ranges; /* the first one that ends above r.low */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (p->const_ranges[middle].high <= r.low)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == p->n_const_ranges || !mlsi_ranges_meet(r, p->const_ranges[low])) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "run: %s %d shares memory with a constant of the program", what,
                     i);
}

/* The output of a donated input is the input's tensor or memory elsewhere, not a part of it. */
static bool is_same_memory(const mlsi_tensor *a, const mlsi_tensor *b) {
    return mlsi_tensor_view_of(a).data == mlsi_tensor_view_of(b).data &&
           mlsi_layout_contiguous(&a->layout) && mlsi_layout_contiguous(&b->layout);
}

static mlsys_status check_output(run_args *ra, int o, int32_t alias) {
    const mlsi_func *f = &ra->x->p->graph.funcs[0];
    const mlsi_tensor *t = ra->out[o];
    mlsi_layout want;
    char have[128], expected[128];
    MLSI_TRY(mlsi_type_layout(&ra->x->p->graph.symbols, &f->values[f->outputs[o].value].type,
                              ra->x->b->binding, &want));
    if (t->layout.dtype != want.dtype || t->layout.rank != want.rank ||
        memcmp(t->layout.shape, want.shape, sizeof(int64_t) * (size_t)want.rank))
        return mlsi_fail(t->layout.dtype == want.dtype ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                         "run: output %d is %s, expected %s", o,
                         mlsi_layout_text(&t->layout, have, sizeof have),
                         mlsi_layout_text(&want, expected, sizeof expected));
    MLSI_TRY(check_device(ra->x->p->device, t->device, "output", o));
    MLSI_TRY(mlsi_tensor_writable(t, "run: output"));
    ra->out_range[o] = mlsi_tensor_range(t);
    for (int i = 0; i < ra->n_in; i++)
        if (mlsi_ranges_meet(ra->out_range[o], ra->in_range[i]) &&
            !(i == alias && is_same_memory(t, ra->in[i])) && !mlsi_fault(MLSI_FAULT_RUN_OVERLAP))
            return mlsi_fail(MLSYS_E_ARG, "run: output %d shares memory with input %d", o, i);
    return apart_from_constants(ra->x->p, ra->out_range[o], "output", o);
}

/* Outputs: given ones are checked, missing ones made (or are the donated input). */
static mlsys_status take_outputs(run_args *ra, mlsys_tensor *inout) {
    const mlsi_program *p = ra->x->p;
    const mlsi_func *f = &p->graph.funcs[0];
    for (int o = 0; o < ra->n_out; o++) {
        int32_t alias = p->routines[0].alias_input[o];
        if (inout[o]) {
            MLSI_TRY(mlsi_pin(inout[o], MLSYS_KIND_TENSOR, "program_run: output", &ra->out[o]));
            ra->pinned[o] = true;
            if (ra->out[o]->object.ctx != p->graph.ctx)
                return mlsi_fail(MLSYS_E_ARG, "run: output %d is from another context", o);
            MLSI_TRY(check_output(ra, o, alias));
        } else if (alias >= 0) {
            ra->made[o] = mlsi_handle_of(ra->in[alias]);
            if (!ra->made[o]) return mlsys_last_status();
            ra->out[o] = ra->in[alias];
            ra->out_range[o] = ra->in_range[alias];
        } else {
            mlsi_layout l;
            MLSI_TRY(mlsi_type_layout(&p->graph.symbols, &f->values[f->outputs[o].value].type,
                                      ra->x->b->binding, &l));
            MLSI_TRY(mlsi_tensor_new(p->device, &l, &ra->made[o]));
            MLSI_TRY(mlsi_pin(ra->made[o], MLSYS_KIND_TENSOR, "program_run: output", &ra->out[o]));
            ra->pinned[o] = true;
        }
    }
    for (int o = 0; o < ra->n_out; o++)
        for (int j = 0; j < o; j++)
            if (mlsi_ranges_meet(ra->out_range[o], ra->out_range[j]))
                return mlsi_fail(MLSYS_E_ARG, "run: output %d shares memory with output %d", o, j);
    return MLSYS_OK;
}

static bool add_dense(const mlsi_tensor *t, uint64_t *bytes) {
    if (mlsi_layout_contiguous(&t->layout)) return true;
    return mlsi_add_u64(*bytes, mlsi_plan_align(mlsi_layout_bytes(&t->layout)), bytes);
}

/* The arena, and dense copies of strided inputs and outputs past it. */
static mlsys_status reserve(const run_args *ra, uint64_t arena) {
    uint64_t bytes = arena;
    bool fits = true;
    for (int i = 0; i < ra->n_in; i++)
        fits = fits && add_dense(ra->in[i], &bytes);
    for (int o = 0; o < ra->n_out; o++)
        fits = fits && add_dense(ra->out[o], &bytes);
    if (!fits) return mlsi_fail(MLSYS_E_SHAPE, "run: copies of strided arguments pass 2^64 bytes");
    return mlsi_stream_reserve(ra->x->s, bytes);
}

static mlsi_view dense_view(const mlsi_tensor *t, char **at) {
    mlsi_layout l;
    mlsi_view v = mlsi_tensor_view_of(t);
    if (mlsi_layout_contiguous(&t->layout)) return v;
    /* the shape was checked when the tensor was made */
    (void)mlsi_layout_row_major(&l, t->layout.dtype, t->layout.rank, t->layout.shape);
    mlsi_view dense = mlsi_view_of(*at, &l);
    *at += mlsi_plan_align(mlsi_layout_bytes(&l));
    return dense;
}

/* Between a strided argument and its dense copy in the stream's scratch. */
static mlsys_status copy_argument(const mlsi_tensor *t, const mlsi_view *dense, bool to_dense) {
    mlsi_view v = mlsi_tensor_view_of(t);
    if (mlsi_is_host(t->device)) {
        if (to_dense)
            mlsi_copy_view(dense, &v);
        else
            mlsi_copy_view(&v, dense);
        return MLSYS_OK;
    }
    mlsi_storage storage = {.base = dense->data};
    mlsi_tensor seen = *t, strided = *t;
    seen.storage = &storage;
    MLSI_TRY(mlsi_layout_row_major(&seen.layout, t->layout.dtype, t->layout.rank, t->layout.shape));
    return to_dense ? mlsi_tensor_transfer(&seen, t) : mlsi_tensor_transfer(&strided, &seen);
}

static mlsys_status check_donated(const run_args *ra) {
    const mlsi_func *f = &ra->x->p->graph.funcs[0];
    for (int i = 0; i < ra->n_in; i++) {
        if (!f->donated[i]) continue;
        if (!mlsi_layout_contiguous(&ra->in[i]->layout))
            return mlsi_fail(MLSYS_E_ARG, "run: donated input %d is not contiguous", i);
        MLSI_TRY(mlsi_tensor_writable(ra->in[i], "run: donated input"));
        for (int j = 0; j < ra->n_in; j++)
            if (j != i && mlsi_ranges_meet(ra->in_range[i], ra->in_range[j]))
                return mlsi_fail(MLSYS_E_ARG, "run: donated input %d shares memory with input %d",
                                 i, j);
        MLSI_TRY(apart_from_constants(ra->x->p, ra->in_range[i], "donated input", i));
    }
    return MLSYS_OK;
}

static mlsys_status run_queued(void *user) {
    const exec *x = user;
    MLSI_TRY(mlsi_accel_begin(x->b, x->s));
    return run_routine(x, 0, x->s->scratch);
}

static mlsys_status run_main(run_args *ra) {
    const exec *x = ra->x;
    const mlsi_routine *r = &x->p->routines[0];
    mlsi_bound_routine *br = &x->b->routines[0];
    MLSI_TRY(reserve(ra, br->arena_bytes));
    char *at = x->s->scratch ? x->s->scratch + br->arena_bytes : nothing;
    char *outputs[MLSI_MAX_ARGS];
    for (int o = 0; o < ra->n_out; o++)
        outputs[o] = dense_view(ra->out[o], &at).data;
    for (int64_t s = 0; s < r->n_slots; s++) {
        const mlsi_slot *slot = &r->slots[s];
        if (slot->kind == MLSI_SLOT_OUTPUT) br->base[s] = outputs[slot->index];
        if (slot->kind != MLSI_SLOT_INPUT) continue;
        const mlsi_tensor *t = ra->in[slot->index];
        mlsi_view dense = dense_view(t, &at);
        if (dense.data != mlsi_tensor_view_of(t).data) MLSI_TRY(copy_argument(t, &dense, true));
        br->base[s] = dense.data;
    }
    if (x->s->queue) {
        MLSI_TRY(mlsi_replay_run(x->b, x->s, run_queued, (void *)x));
        MLSI_TRY(mlsi_accel_end(x->b, x->s));
    } else {
        MLSI_TRY(run_routine(x, 0, x->s->scratch));
    }
    for (int o = 0; o < ra->n_out; o++) {
        mlsi_view v = mlsi_tensor_view_of(ra->out[o]);
        int32_t alias = r->alias_input[o];
        char *from = alias >= 0 ? mlsi_tensor_view_of(ra->in[alias]).data : outputs[o];
        mlsi_layout l;
        if (from == v.data) continue;
        (void)mlsi_layout_row_major(&l, v.dtype, v.rank, v.shape); /* checked before */
        mlsi_view dense = mlsi_view_of(from, &l);
        MLSI_TRY(copy_argument(ra->out[o], &dense, false));
    }
    return MLSYS_OK;
}

/* Before the run, which may fail in the middle. */
static void mark_written(const run_args *ra) {
    const mlsi_func *f = &ra->x->p->graph.funcs[0];
    if (mlsi_fault(MLSI_FAULT_TAPE_WRITTEN)) return;
    for (int i = 0; i < ra->n_in; i++)
        if (f->donated[i]) mlsi_storage_written(ra->in[i]->storage);
    for (int o = 0; o < ra->n_out; o++)
        mlsi_storage_written(ra->out[o]->storage);
}

mlsys_status mlsi_program_exec(const mlsi_program *p, mlsi_stream *s, int n_in,
                               mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    const mlsi_func *f = &p->graph.funcs[0];
    const mlsi_layout *layouts[MLSI_MAX_ARGS];
    exec x = {p, s, NULL};
    run_args ra;
    if (n_in != f->n_inputs || n_out != f->n_outputs)
        return mlsi_fail(MLSYS_E_ARG,
                         "run: %d inputs and %d outputs given, the program has %lld and %lld", n_in,
                         n_out, (long long)f->n_inputs, (long long)f->n_outputs);
    ra.x = &x, ra.n_in = n_in, ra.n_out = n_out, ra.in = in;
    for (int o = 0; o < n_out; o++) {
        ra.out[o] = NULL, ra.made[o] = NULL, ra.pinned[o] = false;
        ra.out_range[o] = (mlsi_range){0, 0};
    }
    MLSI_TRY(check_device(p->device, s->device, "stream", 0));
    for (int i = 0; i < n_in; i++)
        MLSI_TRY(check_device(p->device, in[i]->device, "input", i));
    MLSI_TRY(mlsi_bound_get(p, s, &x.b));
    for (int i = 0; i < n_in; i++) {
        layouts[i] = &in[i]->layout;
        ra.in_range[i] = mlsi_tensor_range(in[i]);
    }
    MLSI_TRY(mlsi_bind_inputs(&p->graph, 0, n_in, layouts, x.b->wanted));
    MLSI_TRY(mlsi_bound_bind(x.b));
    MLSI_TRY(check_donated(&ra));
    mlsys_status st = take_outputs(&ra, inout);
    if (st == MLSYS_OK) mark_written(&ra);
    if (st == MLSYS_OK) st = run_main(&ra);
    for (int o = 0; o < n_out; o++) {
        if (ra.pinned[o]) mlsi_unpin(ra.out[o]);
        if (!ra.made[o]) continue;
        if (st == MLSYS_OK)
            inout[o] = ra.made[o];
        else
            mlsys_release(ra.made[o]);
    }
    return st;
}
