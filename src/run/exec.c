/* Running a bound routine. */
#include "run/program.h"

#include <string.h>

typedef struct exec {
    const mlsi_program *p;
    mlsi_stream *s;
    mlsi_bound *b;
} exec;

static mlsys_status run_routine(const exec *x, int32_t index, char *arena);

static uint64_t align_up(uint64_t n) {
    return (n + MLSI_PLAN_ALIGN - 1) & ~(uint64_t)(MLSI_PLAN_ALIGN - 1);
}

static uint64_t view_bytes(const mlsi_view *v) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    return (uint64_t)(mlsi_view_count(v) / info->block_elems) * (uint64_t)info->block_bytes;
}

/* Layout of a while node's work: predicate, next values, then the larger of the two arenas. */
uint64_t mlsi_control_work_bytes(const mlsi_bound *b, const mlsi_node *node,
                                 const mlsi_view *operands) {
    if (node->op != MLSI_OP_IF && node->op != MLSI_OP_WHILE) return 0;
    const mlsi_attr_control *c = node->attrs;
    uint64_t a1 = b->routines[c->fn1].arena_bytes, a2 = b->routines[c->fn2].arena_bytes;
    uint64_t total = a1 > a2 ? a1 : a2;
    if (node->op == MLSI_OP_IF) return total;
    total += MLSI_PLAN_ALIGN;
    for (int i = 0; i < node->n_out; i++) total += align_up(view_bytes(&operands[node->n_in + i]));
    return total;
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

static mlsys_status run_if(const exec *x, const mlsi_kernel_args *a) {
    const mlsi_attr_control *c = a->attrs;
    char *out[MLSI_MAX_OPERANDS];
    for (int i = 0; i < a->n_out; i++) out[i] = a->out[i].data;
    int64_t fn = *(const uint8_t *)a->in[0].data ? c->fn1 : c->fn2;
    return call_routine(x, (int32_t)fn, a->in + 1, out, a->work);
}

static mlsys_status run_while(const exec *x, const mlsi_kernel_args *a) {
    const mlsi_attr_control *c = a->attrs;
    char *next[MLSI_MAX_OPERANDS], *at = (char *)a->work + MLSI_PLAN_ALIGN;
    for (int i = 0; i < a->n_out; i++) {
        next[i] = at;
        at += align_up(view_bytes(&a->out[i]));
        memcpy(a->out[i].data, a->in[i].data, view_bytes(&a->out[i]));
    }
    char *flag = a->work;
    for (;;) {
        MLSI_TRY(call_routine(x, (int32_t)c->fn1, a->out, &flag, at));
        if (!*flag) return MLSYS_OK;
        MLSI_TRY(call_routine(x, (int32_t)c->fn2, a->out, next, at));
        for (int i = 0; i < a->n_out; i++)
            memcpy(a->out[i].data, next[i], view_bytes(&a->out[i]));
    }
}

static mlsys_status run_reference(const exec *x, const mlsi_step *s, const mlsi_kernel_args *a) {
    mlsi_ref_args ra = {.alloc = x->p->graph.alloc, .attrs = a->attrs, .n_in = a->n_in,
                        .n_out = a->n_out, .in = a->in, .out = a->out, .graph = &x->p->graph};
    return mlsi_op_get(s->op)->ref(&ra);
}

static mlsys_status dispatch(const exec *x, const mlsi_step *s, const mlsi_kernel_args *a) {
    switch (s->op) {
    case MLSI_OP_IF: return run_if(x, a);
    case MLSI_OP_WHILE: return run_while(x, a);
    case MLSI_OP_CUSTOM: {
        const mlsi_attr_custom *c = a->attrs;
        return mlsi_custom_run(&x->p->graph.customs[c->op_index], x->s, a);
    }
    default: break;
    }
    return s->kernel ? s->kernel->run(a) : run_reference(x, s, a);
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
    mlsi_kernel_args a = {.attrs = br->attrs + br->attr_offset[i], .n_in = node->n_in,
                          .n_out = node->n_out, .in = operands, .out = operands + node->n_in,
                          .packed = s->pack >= 0 ? x->p->packs[s->pack].data : NULL,
                          .work = br->work_bytes[i] ? arena + br->work_offset[i] : NULL,
                          .work_bytes = br->work_bytes[i], .pool = x->p->graph.ctx->pool};
    mlsi_trace *trace = x->p->graph.ctx->trace;
    if (!mlsi_trace_enabled(trace)) return dispatch(x, s, &a);
    int64_t t0 = mlsi_now_ns();
    mlsys_status st = dispatch(x, s, &a);
    mlsi_op_cost cost;
    mlsi_step_cost(x->p, x->b, index, i, &cost);
    mlsi_trace_add(trace, "kernel", s->kernel ? s->kernel->name : mlsi_op_name(s->op), t0,
                   mlsi_now_ns(), cost.flops, cost.bytes_read + cost.bytes_written);
    return st;
}

static mlsys_status run_routine(const exec *x, int32_t index, char *arena) {
    const mlsi_routine *r = &x->p->routines[index];
    mlsi_bound_routine *br = &x->b->routines[index];
    for (int64_t s = 0; s < r->n_slots; s++) {
        if (r->slots[s].kind == MLSI_SLOT_SCRATCH) br->base[s] = arena + br->slot_offset[s];
        if (r->slots[s].kind == MLSI_SLOT_CONST)
            br->base[s] = mlsi_tensor_view_of(x->p->graph.consts[r->slots[s].index]).data;
    }
    for (int64_t i = 0; i < r->n_steps; i++) {
        mlsys_status st = run_step(x, index, i, arena);
        if (st != MLSYS_OK)
            return mlsi_fail_in(st, "run: step %lld (%s)", (long long)i,
                                mlsi_op_name(r->steps[i].op));
    }
    return MLSYS_OK;
}

/* Custom ops get tensors; their objects are made for the call. */
mlsys_status mlsi_custom_run(const mlsi_custom_use *use, mlsi_stream *s, const mlsi_kernel_args *a) {
    mlsys_tensor handles[2 * MLSI_MAX_OPERANDS] = {0};
    int n = a->n_in + a->n_out;
    mlsys_status st = MLSYS_OK;
    for (int i = 0; i < n && st == MLSYS_OK; i++) {
        const mlsi_view *v = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        mlsi_storage *storage = NULL;
        mlsi_layout l = {.dtype = v->dtype, .rank = v->rank};
        uintptr_t low, high;
        if (!v->data) continue;
        memcpy(l.shape, v->shape, sizeof l.shape);
        memcpy(l.strides, v->strides, sizeof l.strides);
        mlsi_view_range(v, &low, &high);
        const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
        l.offset = (int64_t)((uintptr_t)v->data - low) / info->block_bytes * info->block_elems;
        st = mlsi_storage_adopt(s->object.ctx, (void *)low, high - low, i < a->n_in, NULL, NULL,
                                &storage);
        if (st == MLSYS_OK) st = mlsi_tensor_make(s->device, storage, &l, &handles[i]);
        mlsi_storage_release(storage);
    }
    if (st == MLSYS_OK)
        st = use->op->def.run(use->op->def.user, (mlsys_stream)(uintptr_t)s->object.handle, a->n_in,
                              handles,
                              use->attrs ? (mlsys_config)(uintptr_t)use->attrs->object.handle : NULL,
                              a->n_out, handles + a->n_in);
    if (st != MLSYS_OK && use->op) st = mlsi_fail_in(st, "custom op %s", use->op->name);
    for (int i = 0; i < n; i++) mlsys_release(handles[i]);
    return st;
}

mlsys_status mlsi_stream_reserve(mlsi_stream *s, uint64_t bytes) {
    mlsi_alloc *a = &s->object.ctx->alloc;
    if (bytes <= s->scratch_bytes) return MLSYS_OK;
    mlsi_mem_free(a, s->scratch);
    s->scratch = NULL;
    s->scratch_bytes = 0;
    MLSI_TRY(mlsi_mem_alloc(a, bytes, (void **)&s->scratch));
    s->scratch_bytes = bytes;
    return MLSYS_OK;
}

/* ---- arguments of a run ------------------------------------------------------------------------- */

typedef struct range { /* of addresses that a tensor touches */
    uintptr_t low, high;
} range;

typedef struct run_args {
    const exec *x;
    int n_in, n_out;
    mlsi_tensor *const *in;
    mlsi_tensor *out[MLSI_MAX_ARGS];
    mlsys_tensor made[MLSI_MAX_ARGS]; /* outputs that this run made */
    bool pinned[MLSI_MAX_ARGS];
    range in_range[MLSI_MAX_ARGS], out_range[MLSI_MAX_ARGS];
} run_args;

static range range_of(const mlsi_tensor *t) {
    mlsi_view v = mlsi_tensor_view_of(t);
    range r;
    mlsi_view_range(&v, &r.low, &r.high);
    return r;
}

static bool ranges_overlap(range a, range b) { return a.low < b.high && b.low < a.high; }

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
    MLSI_TRY(mlsi_tensor_writable(t, "run: output"));
    ra->out_range[o] = range_of(t);
    for (int i = 0; i < ra->n_in; i++)
        if (i != alias && ranges_overlap(ra->out_range[o], ra->in_range[i]))
            return mlsi_fail(MLSYS_E_ARG, "run: output %d shares memory with input %d", o, i);
    for (int j = 0; j < o; j++)
        if (ranges_overlap(ra->out_range[o], ra->out_range[j]))
            return mlsi_fail(MLSYS_E_ARG, "run: output %d shares memory with output %d", o, j);
    return MLSYS_OK;
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
            MLSI_TRY(check_output(ra, o, alias));
        } else if (alias >= 0) {
            ra->made[o] = mlsi_handle_of(ra->in[alias]);
            ra->out[o] = ra->in[alias];
        } else {
            mlsi_layout l;
            MLSI_TRY(mlsi_type_layout(&p->graph.symbols, &f->values[f->outputs[o].value].type,
                                      ra->x->b->binding, &l));
            MLSI_TRY(mlsi_tensor_new(p->device, &l, &ra->made[o]));
            MLSI_TRY(mlsi_pin(ra->made[o], MLSYS_KIND_TENSOR, "program_run: output", &ra->out[o]));
            ra->pinned[o] = true;
        }
    }
    return MLSYS_OK;
}

/* Memory behind strided inputs and outputs: dense copies past the arena. */
static uint64_t dense_bytes(const run_args *ra) {
    uint64_t bytes = 0;
    for (int i = 0; i < ra->n_in; i++)
        if (!mlsi_layout_contiguous(&ra->in[i]->layout))
            bytes += align_up(mlsi_layout_bytes(&ra->in[i]->layout));
    for (int o = 0; o < ra->n_out; o++)
        if (!mlsi_layout_contiguous(&ra->out[o]->layout))
            bytes += align_up(mlsi_layout_bytes(&ra->out[o]->layout));
    return bytes;
}

static mlsi_view dense_view(const mlsi_tensor *t, char **at) {
    mlsi_layout l;
    mlsi_view v = mlsi_tensor_view_of(t);
    if (mlsi_layout_contiguous(&t->layout)) return v;
    /* the shape was checked when the tensor was made */
    (void)mlsi_layout_row_major(&l, t->layout.dtype, t->layout.rank, t->layout.shape);
    mlsi_view dense = mlsi_view_of(*at, &l);
    *at += align_up(mlsi_layout_bytes(&l));
    return dense;
}

static mlsys_status check_donated(const run_args *ra) {
    const mlsi_func *f = &ra->x->p->graph.funcs[0];
    for (int i = 0; i < ra->n_in; i++) {
        if (!f->donated[i]) continue;
        if (!mlsi_layout_contiguous(&ra->in[i]->layout))
            return mlsi_fail(MLSYS_E_ARG, "run: donated input %d is not contiguous", i);
        MLSI_TRY(mlsi_tensor_writable(ra->in[i], "run: donated input"));
        for (int j = 0; j < ra->n_in; j++)
            if (j != i && ranges_overlap(ra->in_range[i], ra->in_range[j]))
                return mlsi_fail(MLSYS_E_ARG, "run: donated input %d shares memory with input %d", i,
                                 j);
    }
    return MLSYS_OK;
}

static mlsys_status run_main(run_args *ra) {
    const exec *x = ra->x;
    const mlsi_routine *r = &x->p->routines[0];
    mlsi_bound_routine *br = &x->b->routines[0];
    MLSI_TRY(mlsi_stream_reserve(x->s, br->arena_bytes + dense_bytes(ra)));
    char *at = x->s->scratch + br->arena_bytes;
    mlsi_view outputs[MLSI_MAX_ARGS];
    for (int o = 0; o < ra->n_out; o++) outputs[o] = dense_view(ra->out[o], &at);
    for (int64_t s = 0; s < r->n_slots; s++) {
        const mlsi_slot *slot = &r->slots[s];
        if (slot->kind == MLSI_SLOT_OUTPUT) br->base[s] = outputs[slot->index].data;
        if (slot->kind != MLSI_SLOT_INPUT) continue;
        mlsi_view dense = dense_view(ra->in[slot->index], &at), v;
        v = mlsi_tensor_view_of(ra->in[slot->index]);
        if (dense.data != v.data) mlsi_copy_view(&dense, &v);
        br->base[s] = dense.data;
    }
    MLSI_TRY(run_routine(x, 0, x->s->scratch));
    for (int o = 0; o < ra->n_out; o++) {
        mlsi_view v = mlsi_tensor_view_of(ra->out[o]), from = outputs[o];
        int32_t alias = r->alias_input[o];
        if (alias >= 0) from = mlsi_tensor_view_of(ra->in[alias]);
        if (from.data != v.data) mlsi_copy_view(&v, &from);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_program_exec(const mlsi_program *p, mlsi_stream *s, int n_in,
                               mlsi_tensor *const *in, int n_out, mlsys_tensor *inout) {
    const mlsi_func *f = &p->graph.funcs[0];
    const mlsi_layout *layouts[MLSI_MAX_ARGS];
    exec x = {p, s, NULL};
    run_args ra;
    if (n_in != f->n_inputs || n_out != f->n_outputs)
        return mlsi_fail(MLSYS_E_ARG, "run: %d inputs and %d outputs given, the program has %lld and %lld",
                         n_in, n_out, (long long)f->n_inputs, (long long)f->n_outputs);
    ra.x = &x, ra.n_in = n_in, ra.n_out = n_out, ra.in = in;
    for (int o = 0; o < n_out; o++) {
        ra.out[o] = NULL, ra.made[o] = NULL, ra.pinned[o] = false;
        ra.out_range[o] = (range){0, 0};
    }
    MLSI_TRY(mlsi_bound_get(p, s, &x.b));
    for (int i = 0; i < n_in; i++) {
        layouts[i] = &in[i]->layout;
        ra.in_range[i] = range_of(in[i]);
    }
    MLSI_TRY(mlsi_bind_inputs(&p->graph, 0, n_in, layouts, x.b->wanted));
    MLSI_TRY(mlsi_bound_bind(x.b));
    MLSI_TRY(check_donated(&ra));
    mlsys_status st = take_outputs(&ra, inout);
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
