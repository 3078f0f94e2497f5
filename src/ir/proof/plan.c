/* A memory plan, replayed: which value each piece of memory holds after each step. */
#include "ir/ops/op_def.h"
#include "ir/proof/proof.h"

#include <string.h>

typedef struct replay {
    const mlsi_plan_claim *c;
    const mlsi_func *f;
    int32_t *root;  /* per value: the value whose memory it shows */
    int32_t *holds; /* per slot: a root, -1 = nothing that is known */
    int64_t step;
} replay;

static mlsys_status refuse(const replay *r, const char *why, int32_t value) {
    return mlsi_fail(MLSYS_E_INTERNAL, "plan of function %s: step %lld: %%%d %s", r->f->name,
                     (long long)r->step, value, why);
}

static int32_t slot_of(const replay *r, int32_t value) { return r->c->slot_of[value]; }

static const mlsi_plan_slot *memory_of(const replay *r, int32_t value) {
    return &r->c->slots[slot_of(r, value)];
}

static mlsys_status check_read(const replay *r, int32_t value) {
    return r->holds[slot_of(r, value)] == r->root[value]
               ? MLSYS_OK
               : refuse(r, "is read, but its memory has been given to another value", value);
}

static bool meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

static bool is_operand(const replay *r, const mlsi_node *node, int32_t slot) {
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && slot_of(r, node->in[i]) == slot) return true;
    return false;
}

/* Bytes of the arena are written: what lay there is lost, and may not belong to the step. */
static mlsys_status overwrite(replay *r, const mlsi_node *node, int32_t own, uint64_t at,
                              uint64_t bytes) {
    uint64_t end;
    if (!mlsi_add_u64(at, bytes, &end) || end > r->c->arena_bytes)
        return refuse(r, "lies outside the arena", node->first_out);
    for (int32_t s = 0; s < r->c->n_slots; s++) {
        const mlsi_plan_slot *o = &r->c->slots[s];
        if (s == own || o->kind != MLSI_PLAN_SCRATCH || !meet(at, bytes, o->offset, o->bytes))
            continue;
        if (is_operand(r, node, s) && r->holds[s] >= 0)
            return refuse(r, "overlaps an operand of its step", node->first_out);
        for (int i = 0; i < node->n_out; i++)
            if (slot_of(r, node->first_out + i) == s)
                return refuse(r, "overlaps another result of its step", node->first_out);
        r->holds[s] = -1;
    }
    return MLSYS_OK;
}

static bool allows(const mlsi_plan_step *step, const mlsi_node *node, int operand, int bit,
                   int result) {
    if (step->generated) return operand < 64 && step->generated[result] >> operand & 1;
    return operand < 32 && step->in_place >> operand & 1 && (node->n_out == 1 || bit == result);
}

/* In place: of an operand that the kernel names for this result, of the same type, and of no other. */
static mlsys_status check_in_place(const replay *r, const mlsi_plan_step *step,
                                   const mlsi_node *node, int result) {
    int32_t value = node->first_out + result, found = -1;
    for (int i = 0, bit = 0; i < node->n_in; i++) {
        bool named = allows(step, node, i, bit, result);
        bit += i < 32 && step->in_place >> i & 1;
        if (node->in[i] < 0 || slot_of(r, node->in[i]) != slot_of(r, value)) continue;
        if (found >= 0 || !named ||
            !mlsi_type_equal(&r->f->values[node->in[i]].type, &r->f->values[value].type))
            return refuse(r, "is written over an operand that its kernel still reads", value);
        found = i;
    }
    return MLSYS_OK;
}

static mlsys_status write_result(replay *r, const mlsi_plan_step *step, const mlsi_node *node,
                                 int result) {
    int32_t value = node->first_out + result, slot = slot_of(r, value);
    const mlsi_plan_slot *s = &r->c->slots[slot];
    if (s->kind == MLSI_PLAN_CONST || (s->kind == MLSI_PLAN_INPUT && !r->f->donated[s->index]))
        return refuse(r, "is written over a constant, or an input that the caller keeps", value);
    MLSI_TRY(check_in_place(r, step, node, result));
    if (s->kind == MLSI_PLAN_SCRATCH) MLSI_TRY(overwrite(r, node, slot, s->offset, s->bytes));
    r->holds[slot] = value;
    return MLSYS_OK;
}

static mlsys_status replay_step(replay *r, const mlsi_plan_step *step) {
    const mlsi_node *node = &r->f->nodes[step->node];
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) MLSI_TRY(check_read(r, node->in[i]));
    for (int i = 0; step->work_bytes && i < node->n_out; i++) {
        const mlsi_plan_slot *s = memory_of(r, node->first_out + i);
        if (s->kind == MLSI_PLAN_SCRATCH &&
            meet(step->work_offset, step->work_bytes, s->offset, s->bytes))
            return refuse(r, "overlaps the work memory of its step", node->first_out + i);
    }
    if (step->work_bytes) MLSI_TRY(overwrite(r, node, -1, step->work_offset, step->work_bytes));
    for (int i = 0; i < node->n_out; i++)
        MLSI_TRY(write_result(r, step, node, i));
    return MLSYS_OK;
}

/* Nodes without a step show their operand's memory. */
static mlsys_status find_roots(replay *r) {
    int64_t next = 0;
    for (int32_t v = 0; v < r->f->n_values; v++) {
        const mlsi_value_def *def = &r->f->values[v];
        const mlsi_node *node = def->kind == MLSI_VALUE_NODE ? &r->f->nodes[def->index] : NULL;
        r->root[v] = v;
        if (!node) {
            r->holds[slot_of(r, v)] = v;
            continue;
        }
        bool step = next < r->c->n_steps && r->c->steps[next].node == def->index;
        if (step && def->result == node->n_out - 1) next++;
        if (step) continue;
        if (!(mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW) ||
            slot_of(r, node->in[0]) != slot_of(r, v))
            return refuse(r, "is made by no step and shows no operand", v);
        r->root[v] = r->root[node->in[0]];
    }
    return next == r->c->n_steps ? MLSYS_OK : refuse(r, "steps are not in the order of nodes", 0);
}

static mlsys_status run(replay *r) {
    memset(r->holds, 0xff, sizeof *r->holds * (size_t)r->c->n_slots);
    MLSI_TRY(find_roots(r));
    for (r->step = 0; r->step < r->c->n_steps; r->step++)
        MLSI_TRY(replay_step(r, &r->c->steps[r->step]));
    for (int32_t i = 0; i < r->f->n_outputs; i++) {
        int32_t v = r->f->outputs[i].value;
        const mlsi_plan_slot *s = memory_of(r, v);
        MLSI_TRY(check_read(r, v));
        if (s->kind == MLSI_PLAN_INPUT ? r->c->alias_input[i] != s->index
                                       : s->kind != MLSI_PLAN_OUTPUT || s->index != i)
            return refuse(r, "is an output in memory that is not that output's", v);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_check_plan(const mlsi_plan_claim *c, int32_t *scratch) {
    const mlsi_func *f = &c->g->funcs[c->func];
    replay r = {.c = c, .f = f, .root = scratch, .holds = scratch + f->n_values};
    return run(&r);
}
