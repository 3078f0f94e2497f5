#include "run/tape.h"

#include "core/faults.h"
#include "core/hash.h"
#include "ir/ops/op_def.h"

#include <string.h>

/* ---- the object ----------------------------------------------------------------------------- */

static mlsi_func *record_of(const mlsi_tape *t) { return &t->graph->funcs[0]; }

static mlsys_status graph_new(mlsi_ctx *ctx, mlsi_graph **out) {
    MLSI_TRY(MLSI_NEW(&ctx->alloc, out));
    mlsys_status st = mlsi_graph_init(*out, ctx);
    if (st != MLSYS_OK) {
        mlsi_mem_free(&ctx->alloc, *out);
        *out = NULL;
    }
    return st;
}

/* Forget values and memories from these numbers on. */
static void drop_records(mlsi_tape *t, int64_t n_values, int64_t n_memories) {
    for (int64_t v = n_values; v < record_of(t)->n_values && v < t->cap_saved; v++) {
        mlsi_storage_release(t->saved[v].storage);
        memset(&t->saved[v], 0, sizeof t->saved[v]);
    }
    while (t->n_memories > n_memories)
        mlsi_storage_release(t->memories[--t->n_memories].storage);
}

static void graph_delete(mlsi_alloc *a, mlsi_graph *g) {
    if (g) mlsi_graph_free(g);
    mlsi_mem_free(a, g);
}

static void tape_free(mlsi_alloc *a, mlsi_tape *t) {
    if (t->graph) drop_records(t, 0, 0);
    graph_delete(a, t->graph);
    mlsi_mem_free(a, t->saved);
    mlsi_mem_free(a, t->memories);
    mlsi_mem_free(a, t->slots);
    mlsi_unpin(t->stream);
    mlsi_mem_free(a, t);
}

static void tape_destroy(mlsi_object *self) {
    mlsi_tape *t = (mlsi_tape *)self;
    uint64_t own = self->handle;
    atomic_compare_exchange_strong(&t->stream->tape, &own, 0);
    tape_free(&self->ctx->alloc, t);
}

mlsys_status mlsi_tape_create(mlsi_stream *s, mlsys_tape *out) {
    mlsi_ctx *ctx = s->object.ctx;
    mlsi_tape *t;
    *out = NULL;
    if (atomic_load(&s->tape))
        return mlsi_fail(MLSYS_E_STATE, "tape_create: a tape records the stream already");
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &t));
    t->on = true;
    mlsi_repin(s);
    t->stream = s;
    mlsys_status st = graph_new(ctx, &t->graph);
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&t->object, MLSYS_KIND_TAPE, ctx, tape_destroy, out);
    if (st != MLSYS_OK) {
        tape_free(&ctx->alloc, t);
        return st;
    }
    atomic_store(&s->tape, t->object.handle);
    return MLSYS_OK;
}

mlsys_status mlsi_tape_clear(mlsi_tape *t) {
    mlsi_graph *fresh;
    MLSI_TRY(graph_new(t->object.ctx, &fresh));
    drop_records(t, 0, 0);
    if (t->slots) memset(t->slots, 0, sizeof *t->slots * (size_t)t->n_slots);
    graph_delete(&t->object.ctx->alloc, t->graph);
    t->graph = fresh;
    return MLSYS_OK;
}

/* ---- memories ------------------------------------------------------------------------------- */

/* Where the storage's entry is in the table, or would be. */
static int64_t slot_of(const mlsi_tape *t, const mlsi_storage *s) {
    int64_t at = (int64_t)(mlsi_hash_mix(s->id) & (uint64_t)(t->n_slots - 1));
    while (t->slots[at] && t->memories[t->slots[at] - 1].storage != s)
        at = (at + 1) & (t->n_slots - 1);
    return at;
}

int64_t mlsi_tape_find(const mlsi_tape *t, const mlsi_storage *s) {
    return t->n_slots ? t->slots[slot_of(t, s)] - 1 : -1;
}

static void index_memories(mlsi_tape *t) {
    if (t->slots) memset(t->slots, 0, sizeof *t->slots * (size_t)t->n_slots);
    for (int64_t i = 0; i < t->n_memories; i++)
        t->slots[slot_of(t, t->memories[i].storage)] = i + 1;
}

/* Room for n more memories, so that adding them cannot fail. */
static mlsys_status reserve_memories(mlsi_tape *t, int64_t n) {
    mlsi_alloc *a = t->graph->alloc;
    MLSI_TRY(MLSI_GROW(a, &t->memories, &t->cap_memories, t->n_memories + n));
    int64_t slots = t->n_slots ? t->n_slots : 64, *fresh;
    while (slots < 2 * (t->n_memories + n))
        slots *= 2;
    if (slots == t->n_slots) return MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(a, slots, &fresh));
    mlsi_mem_free(a, t->slots);
    t->slots = fresh;
    t->n_slots = slots;
    index_memories(t);
    return MLSYS_OK;
}

static mlsi_tape_memory *add_memory(mlsi_tape *t, mlsi_storage *s, int32_t value,
                                    const mlsi_layout *l) {
    int64_t slot = slot_of(t, s);
    mlsi_tape_memory *m = &t->memories[t->n_memories];
    *m = (mlsi_tape_memory){.storage = s,
                            .version = atomic_load(&s->version),
                            .value = value,
                            .layout = *l,
                            .before = t->slots[slot] - 1};
    mlsi_storage_retain(s);
    t->slots[slot] = ++t->n_memories;
    return m;
}

static mlsys_status reserve_saved(mlsi_tape *t, int64_t more) {
    return MLSI_GROW(t->graph->alloc, &t->saved, &t->cap_saved, record_of(t)->n_values + more);
}

static void save(mlsi_tape *t, int32_t value, mlsi_storage *s, const mlsi_layout *l) {
    mlsi_storage_retain(s);
    t->saved[value] = (mlsi_tape_saved){s, atomic_load(&s->version), *l};
}

/* ---- operands ------------------------------------------------------------------------------- */

static mlsys_status add_input(mlsi_tape *t, mlsi_storage *s, const mlsi_layout *l, int32_t *out) {
    mlsi_type type = {.dtype = l->dtype, .rank = l->rank};
    memcpy(type.dims, l->shape, sizeof type.dims);
    MLSI_TRY(reserve_saved(t, 1));
    MLSI_TRY(mlsi_build_input(t->graph, 0, NULL, &type, out));
    save(t, *out, s, l);
    return MLSYS_OK;
}

static bool fills(const mlsi_layout *l, const mlsi_storage *s) {
    uint64_t n = s->bytes / (uint64_t)mlsi_dtype_size(l->dtype);
    return l->offset == 0 && mlsi_layout_contiguous(l) && (uint64_t)mlsi_layout_count(l) == n;
}

/* The whole storage becomes a leaf, in x's shape if x shows all of it in order. */
static mlsys_status add_leaf(mlsi_tape *t, mlsi_tensor *x, bool constant, int64_t *out) {
    mlsi_layout l = x->layout;
    int32_t value;
    int64_t n = (int64_t)(x->storage->bytes / (uint64_t)mlsi_dtype_size(l.dtype));
    if (!fills(&l, x->storage)) MLSI_TRY(mlsi_layout_row_major(&l, l.dtype, 1, &n));
    MLSI_TRY(reserve_memories(t, 1));
    MLSI_TRY(add_input(t, x->storage, &l, &value));
    add_memory(t, x->storage, value, &l)->constant = constant;
    *out = t->n_memories - 1;
    return MLSYS_OK;
}

static mlsys_status view(mlsi_tape *t, const mlsi_tape_memory *m, mlsi_tensor *x, int32_t *out) {
    enum { MORE = 3 }; /* values at most */
    const int64_t first = record_of(t)->n_values;
    mlsi_layout l;
    MLSI_TRY(reserve_saved(t, MORE));
    MLSI_TRY(mlsi_tape_view(t->graph, 0, t->stream->device, m->value, &m->layout, &x->layout, out));
    for (int64_t v = first; v < record_of(t)->n_values; v++) {
        const mlsi_value_def *def = &record_of(t)->values[v];
        if (def->kind == MLSI_VALUE_CONST) continue;
        /* Between: the whole memory in order, by other extents. */
        MLSI_TRY(mlsi_layout_row_major(&l, def->type.dtype, def->type.rank, def->type.dims));
        save(t, (int32_t)v, x->storage, v == *out ? &x->layout : &l);
    }
    return MLSYS_OK;
}

static bool same_layout(const mlsi_layout *a, const mlsi_layout *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || a->offset != b->offset) return false;
    for (int32_t d = 0; d < a->rank; d++)
        if (a->shape[d] != b->shape[d] || a->strides[d] != b->strides[d]) return false;
    return true;
}

static mlsys_status operand(mlsi_tape *t, const char *op, int32_t i, mlsi_tensor *x, int32_t *out) {
    char have[128], other[128];
    bool constant = false;
    if (!mlsi_dtype_is_float(x->layout.dtype)) return add_input(t, x->storage, &x->layout, out);
    int64_t at = mlsi_tape_find(t, x->storage);
    if (at >= 0) {
        const mlsi_tape_memory *m = &t->memories[at];
        bool written = m->version != atomic_load(&x->storage->version);
        if (written && m->computed && !m->detached)
            return mlsi_fail(
                MLSYS_E_STATE,
                "%s: operand %d, %s, was computed on the tape and written since: detach "
                "it or clear the tape",
                op, i, mlsi_layout_text(&x->layout, have, sizeof have));
        constant = m->detached || (m->constant && !m->computed);
        if (written || m->detached) at = -1;
    }
    if (at < 0) MLSI_TRY(add_leaf(t, x, constant, &at));
    const mlsi_tape_memory m = t->memories[at];
    if (same_layout(&m.layout, &x->layout)) return *out = m.value, MLSYS_OK;
    if (m.part || m.layout.dtype != x->layout.dtype)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "%s: operand %d, %s, shares memory with %s, which the tape cannot follow",
                         op, i, mlsi_layout_text(&x->layout, have, sizeof have),
                         mlsi_layout_text(&m.layout, other, sizeof other));
    if (mlsi_fault(MLSI_FAULT_TAPE_VIEW)) return add_input(t, x->storage, &x->layout, out);
    return view(t, &m, x, out);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void roll_back(mlsi_tape *t, const mlsi_tape_mark *mark) {
    mlsi_func *f = record_of(t);
    drop_records(t, mark->n_values, mark->n_memories);
    index_memories(t);
    f->n_nodes = mark->n_nodes;
    f->n_values = mark->n_values;
    f->n_inputs = mark->n_inputs;
}

static mlsys_status record(mlsi_tape *t, const mlsi_graph *call, int32_t n_in,
                           mlsi_tensor *const *in) {
    const mlsi_node *node = &call->funcs[0].nodes[0];
    int32_t values[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    const char *name = mlsi_op_name(node->op);
    if (node->op == MLSI_OP_CUSTOM) name = call->customs[0].op->name;
    for (int32_t i = 0; i < n_in; i++) {
        values[i] = -1;
        if (in[i]) MLSI_TRY(operand(t, name, i, in[i], &values[i]));
    }
    MLSI_TRY(reserve_saved(t, node->n_out));
    MLSI_TRY(reserve_memories(t, node->n_out));
    return mlsi_graph_import_node(t->graph, 0, call, node, values, results);
}

mlsys_status mlsi_tape_begin(mlsi_tape *t, const mlsi_graph *call, int32_t n_in,
                             mlsi_tensor *const *in, mlsi_tape_mark *mark) {
    const mlsi_func *f = record_of(t);
    *mark = (mlsi_tape_mark){false, f->n_nodes, f->n_values, f->n_inputs, t->n_memories};
    for (int32_t i = 0; i < n_in && t->on; i++) /* what depends on no float has no gradient */
        if (in[i] && mlsi_dtype_is_float(in[i]->layout.dtype)) mark->recorded = true;
    if (!mark->recorded) return MLSYS_OK;
    mlsys_status st = record(t, call, n_in, in);
    if (st != MLSYS_OK) roll_back(t, mark);
    return st;
}

void mlsi_tape_end(mlsi_tape *t, const mlsi_tape_mark *mark, mlsys_status st, int32_t n_out,
                   mlsi_tensor *const *out) {
    if (!mark->recorded) return;
    if (st != MLSYS_OK) {
        roll_back(t, mark);
        return;
    }
    int32_t first = record_of(t)->nodes[record_of(t)->n_nodes - 1].first_out;
    for (int32_t k = 0; k < n_out; k++) {
        save(t, first + k, out[k]->storage, &out[k]->layout);
        if (!mlsi_dtype_is_float(out[k]->layout.dtype)) continue;
        mlsi_tape_memory *m = add_memory(t, out[k]->storage, first + k, &out[k]->layout);
        m->computed = true;
        m->part = !fills(&out[k]->layout, out[k]->storage);
    }
}

mlsys_status mlsi_tape_detach(mlsi_tape *t, mlsi_tensor *x) {
    int64_t at = mlsi_tape_find(t, x->storage);
    if (at < 0) {
        MLSI_TRY(reserve_memories(t, 1));
        add_memory(t, x->storage, -1, &x->layout);
        at = t->n_memories - 1;
    }
    t->memories[at].detached = true;
    return MLSYS_OK;
}
