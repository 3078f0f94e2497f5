#include "autodiff/checkpoint.h"

#include "core/faults.h"

#include <stdlib.h>
#include <string.h>

/* Results over constants up to this size are kept: fold makes constants of them. */
enum { FREE_BYTES = 1 << 20 };

static mlsi_func *func_of(const mlsi_replay *r) { return &r->g->funcs[r->func]; }

#define ARRAY(r, n, out)                                                                           \
    mlsi_arena_zalloc(&(r)->arena, sizeof **(out) * ((size_t)(n) + 1), (void **)(out))

/* ---- what there is ------------------------------------------------------------------------- */

static bool small(const mlsi_replay *r, const mlsi_type *t) {
    mlsi_layout l;
    return mlsi_type_static(t) && mlsi_type_layout(&r->g->symbols, t, NULL, &l) == MLSYS_OK &&
           mlsi_layout_bytes(&l) <= FREE_BYTES;
}

static mlsi_replay_kind kind_of(const mlsi_replay *r, const mlsi_value_def *def) {
    if (def->kind == MLSI_VALUE_INPUT) return MLSI_REPLAY_INPUT;
    if (def->kind == MLSI_VALUE_CONST) return MLSI_REPLAY_FREE;
    const mlsi_node *node = &func_of(r)->nodes[def->index];
    bool free = true;
    for (int i = 0; i < node->n_in; i++)
        free = free && (node->in[i] < 0 || r->kind[node->in[i]] == MLSI_REPLAY_FREE);
    if (free && (!node->n_in || small(r, &def->type))) return MLSI_REPLAY_FREE;
    return mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW ? MLSI_REPLAY_VIEW
                                                           : MLSI_REPLAY_COMPUTED;
}

static mlsys_status init(mlsi_replay *r) {
    const mlsi_func *f = func_of(r);
    int64_t operands = 0;
    for (int64_t i = 0; i < f->n_nodes; i++) {
        operands += f->nodes[i].n_in;
        if (f->nodes[i].op != MLSI_OP_BARRIER) continue;
        const mlsi_attr_barrier *a = f->nodes[i].attrs;
        if (a->id >= r->next_barrier && a->id < INT64_MAX / 2) r->next_barrier = a->id + 1;
    }
    MLSI_TRY(ARRAY(r, r->n_nodes, &r->reached));
    MLSI_TRY(ARRAY(r, r->n_nodes + 1, &r->need_start));
    MLSI_TRY(ARRAY(r, operands + r->n_values, &r->need));
    MLSI_TRY(ARRAY(r, r->n_values, &r->kind));
    MLSI_TRY(ARRAY(r, r->n_values, &r->kept));
    MLSI_TRY(ARRAY(r, r->n_nodes, &r->done));
    MLSI_TRY(ARRAY(r, r->n_values, &r->now));
    MLSI_TRY(ARRAY(r, r->n_nodes, &r->batch));
    MLSI_TRY(ARRAY(r, r->n_values, &r->fresh));
    MLSI_TRY(ARRAY(r, operands, &r->stack));
    for (int64_t v = 0; v < r->n_values; v++) {
        r->now[v] = -1;
        r->kind[v] = (uint8_t)kind_of(r, &f->values[v]);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_replay_init(mlsi_replay *r, mlsi_graph *g, int32_t func) {
    *r = (mlsi_replay){.g = g,
                       .func = func,
                       .n_nodes = g->funcs[func].n_nodes,
                       .n_values = g->funcs[func].n_values};
    mlsi_arena_init(&r->arena, g->alloc);
    mlsys_status st = init(r);
    if (st != MLSYS_OK) mlsi_replay_free(r);
    return st;
}

void mlsi_replay_free(mlsi_replay *r) { mlsi_arena_free(&r->arena); }

/* ---- who reads what ------------------------------------------------------------------------ */

typedef struct readers {
    bool *live;      /* per value: dx comes from it */
    int32_t *reader; /* per forward value: the node whose rule was last seen to read it */
    int32_t *listed; /* ... whose needs it was last put into */
    bool *stray;     /* per forward value: read by the rule of a node that it is no part of */
} readers;

static void mark_live(const mlsi_func *f, int64_t first, int32_t n_dx, const int32_t *dx,
                      bool *live) {
    for (int32_t i = 0; i < n_dx; i++)
        if (dx[i] >= 0) live[dx[i]] = true;
    for (int64_t i = f->n_nodes - 1; i >= first; i--) {
        const mlsi_node *node = &f->nodes[i];
        bool used = false;
        for (int k = 0; k < node->n_out; k++)
            used = used || live[node->first_out + k];
        for (int k = 0; used && k < node->n_in; k++)
            if (node->in[k] >= 0) live[node->in[k]] = true;
    }
}

static bool has_part(const mlsi_node *node, int32_t v) {
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] == v) return true;
    return v >= node->first_out && v < node->first_out + node->n_out;
}

/* What the rule of forward node i has been seen to read. A value that the node is no part of was left by a rule
 * before (a mask of select): it is then needed where that rule met it. */
static void note_reads(const mlsi_replay *r, readers *s, int64_t i) {
    const mlsi_func *f = func_of(r);
    int64_t end = i ? r->reached[i - 1] : f->n_nodes;
    for (int64_t b = r->reached[i]; b < end; b++) {
        const mlsi_node *node = &f->nodes[b];
        bool used = false;
        for (int k = 0; k < node->n_out; k++)
            used = used || s->live[node->first_out + k];
        for (int k = 0; used && k < node->n_in; k++) {
            int32_t v = node->in[k];
            if (v < 0 || v >= r->n_values) continue;
            s->reader[v] = (int32_t)i;
            if (!has_part(&f->nodes[i], v)) s->stray[v] = true;
        }
    }
}

static void list_need(mlsi_replay *r, readers *s, int64_t i, int32_t v, int64_t *n) {
    if (v < 0 || r->kind[v] == MLSI_REPLAY_FREE || s->listed[v] == i) return;
    if (s->reader[v] != i && !s->stray[v]) return;
    s->listed[v] = (int32_t)i;
    r->need[(*n)++] = v;
}

static void list_needs(mlsi_replay *r, readers *s, int64_t i, int64_t *n) {
    const mlsi_node *node = &func_of(r)->nodes[i];
    for (int k = 0; k < node->n_in; k++)
        list_need(r, s, i, node->in[k], n);
    for (int k = 0; k < node->n_out; k++)
        list_need(r, s, i, node->first_out + k, n);
}

mlsys_status mlsi_replay_learn(mlsi_replay *r, int32_t n_dx, const int32_t *dx) {
    const mlsi_func *f = func_of(r);
    readers s;
    int64_t n = 0;
    MLSI_TRY(ARRAY(r, f->n_values, &s.live));
    MLSI_TRY(ARRAY(r, r->n_values, &s.reader));
    MLSI_TRY(ARRAY(r, r->n_values, &s.listed));
    MLSI_TRY(ARRAY(r, r->n_values, &s.stray));
    memset(s.reader, 0xff, sizeof *s.reader * (size_t)r->n_values);
    memset(s.listed, 0xff, sizeof *s.listed * (size_t)r->n_values);
    mark_live(f, r->n_nodes, n_dx, dx, s.live);
    for (int64_t i = 0; i < r->n_nodes; i++)
        note_reads(r, &s, i); /* who is stray */
    for (int64_t i = 0; i < r->n_nodes; i++) {
        note_reads(r, &s, i);
        r->need_start[i] = n;
        list_needs(r, &s, i, &n);
    }
    r->need_start[r->n_nodes] = n;
    r->learned = true;
    return MLSYS_OK;
}

/* ---- computing again ----------------------------------------------------------------------- */

void mlsi_replay_demand(mlsi_replay *r, int32_t v, int64_t limit) {
    const mlsi_func *f = func_of(r);
    int64_t depth = 0;
    for (r->stack[depth++] = v; depth;) {
        v = r->stack[--depth];
        if (v < 0 || r->kind[v] < MLSI_REPLAY_VIEW || r->kept[v]) continue;
        int32_t n = f->values[v].index;
        if (r->done[n]) continue;
        if (n < limit && r->kind[v] == MLSI_REPLAY_COMPUTED) {
            r->kept[v] = true;
            continue;
        }
        r->done[n] = true;
        r->batch[r->n_batch++] = n;
        for (int k = 0; k < f->nodes[n].n_in; k++)
            r->stack[depth++] = f->nodes[n].in[k];
    }
}

static mlsys_status barrier(mlsi_replay *r, int32_t v, int32_t *out) {
    mlsi_attr_barrier a = {r->next_barrier++};
    if (mlsi_fault(MLSI_FAULT_CHECKPOINT_MERGED)) return *out = v, MLSYS_OK;
    return mlsi_build_node(r->g, r->func, MLSI_OP_BARRIER, &a, 1, &v, 1, out);
}

/* A planted defect: of two kept values of one type the first. */
static int32_t wrong_one(const mlsi_replay *r, int32_t v) {
    const mlsi_value_def *values = func_of(r)->values;
    for (int32_t w = 0; w < v; w++)
        if (r->kept[w] && r->kept[v] && mlsi_type_equal(&values[w].type, &values[v].type)) return w;
    return v;
}

/* What stands for v in the backward pass; v is free, an input, kept, or computed again by now. */
static mlsys_status stand_in(mlsi_replay *r, int32_t v, int32_t *out) {
    *out = v;
    if (v < 0 || r->kind[v] == MLSI_REPLAY_FREE) return MLSYS_OK;
    if (r->now[v] < 0) {
        int32_t from = mlsi_fault(MLSI_FAULT_CHECKPOINT_WRONG) ? wrong_one(r, v) : v;
        MLSI_TRY(barrier(r, from, &r->now[v]));
        r->fresh[r->n_fresh++] = v;
    }
    *out = r->now[v];
    return MLSYS_OK;
}

static mlsys_status copy_node(mlsi_replay *r, int32_t n) {
    mlsi_node node = func_of(r)->nodes[n]; /* the array moves */
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    bool free = true;
    for (int k = 0; k < node.n_in; k++) {
        free = free && (node.in[k] < 0 || r->kind[node.in[k]] == MLSI_REPLAY_FREE);
        MLSI_TRY(stand_in(r, node.in[k], &in[k]));
    }
    for (int k = 0; free && k < node.n_in; k++) /* nothing else tells it from the original */
        if (in[k] >= 0) MLSI_TRY(barrier(r, in[k], &in[k]));
    if (mlsi_fault(MLSI_FAULT_CHECKPOINT_REDRAW) && node.op == MLSI_OP_RANDOM) in[1] = in[0];
    MLSI_TRY(mlsi_build_node(r->g, r->func, node.op, node.attrs, node.n_in, in, node.n_out, out));
    for (int k = 0; k < node.n_out; k++) {
        int32_t v = node.first_out + k;
        if (r->kept[v]) continue;
        r->now[v] = out[k];
        r->fresh[r->n_fresh++] = v;
    }
    return MLSYS_OK;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

mlsys_status mlsi_replay_node(mlsi_replay *r, int64_t node) {
    int32_t stands;
    r->n_batch = r->n_fresh = 0;
    for (int64_t i = r->need_start[node]; i < r->need_start[node + 1]; i++)
        mlsi_replay_demand(r, r->need[i], 0);
    qsort(r->batch, (size_t)r->n_batch, sizeof *r->batch, ascending);
    for (int64_t i = 0; i < r->n_batch; i++)
        MLSI_TRY(copy_node(r, r->batch[i]));
    for (int64_t i = r->need_start[node]; i < r->need_start[node + 1]; i++)
        MLSI_TRY(stand_in(r, r->need[i], &stands));
    return MLSYS_OK;
}
