/* layout: makes memory fit. Inserts a copy
 *  - before an operand whose kernel wants contiguous memory (when a faster row, or any row, asks),
 *  - before a reshape of memory that is not contiguous,
 *  - for an output that is an input, a constant, a view, or another output's value: each output owns
 *    contiguous memory (exceptions: a donated input's own output, found by the planner; what the body of a loop
 *    hands on as it came). The copy of a
 *    view of what a node has made follows the view at once: later, and both would be alive till the end. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

typedef struct layout_state {
    mlsi_operand *facts; /* of the new function's first `done` values */
    int64_t cap, done;
    int32_t *output_of; /* per old value: an output that it is, plus 1; 0 = none */
    int32_t *own;       /* per output: its copy, 0 = none yet (no copy is value 0) */
    bool is_body;       /* the function is the body of loops and nothing else */
} layout_state;

static mlsys_status refresh(mlsi_rewrite *rw) {
    layout_state *s = rw->user;
    const mlsi_func *f = &rw->g->funcs[rw->func];
    MLSI_TRY(MLSI_GROW(rw->g->alloc, &s->facts, &s->cap, f->n_values));
    for (; s->done < f->n_values; s->done++)
        mlsi_layout_facts_of(rw->g, rw->func, (int32_t)s->done, s->facts);
    return MLSYS_OK;
}

static mlsys_status add_copy(mlsi_rewrite *rw, int32_t value, int32_t *out) {
    MLSI_TRY(mlsi_build_node(rw->g, rw->func, MLSI_OP_COPY, NULL, 1, &value, 1, out));
    return refresh(rw);
}

/* Is the memory that a view shows that of a node's result? */
static bool shows_node(const mlsi_rewrite *rw, int32_t v) {
    const mlsi_node *node = mlsi_rewrite_def(rw, v);
    while (node && mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW)
        node = mlsi_rewrite_def(rw, node->in[0]);
    return node != NULL;
}

/* The node as it would stand in the new function, with facts of its results appended for the query. */
static mlsys_status wants_contiguous(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                     bool *wants) {
    layout_state *s = rw->user;
    mlsi_operand local[2 * MLSI_MAX_OPERANDS];
    int32_t numbers[MLSI_MAX_OPERANDS];
    mlsi_node probe = *node;
    bool strided = false;
    *wants = false;
    memset(local, 0, sizeof local);
    for (int i = 0; i < node->n_in; i++) {
        numbers[i] = in[i] < 0 ? -1 : i;
        if (in[i] < 0) continue;
        local[i] = s->facts[in[i]];
        strided |= !local[i].contiguous;
    }
    if (!strided) return MLSYS_OK;
    for (int i = 0; i < node->n_out; i++) {
        const mlsi_type *t = &rw->old.values[node->first_out + i].type;
        mlsi_operand *o = &local[MLSI_MAX_OPERANDS + i];
        o->present = o->contiguous = o->inner_unit = true;
        o->dtype = t->dtype;
        o->rank = t->rank;
        for (int d = 0; d < t->rank; d++)
            o->shape[d] = t->dims[d] >= 0 ? t->dims[d] : -1;
    }
    probe.in = numbers;
    probe.first_out = MLSI_MAX_OPERANDS;
    const mlsi_kernel *as_is = mlsi_choose_kernel(rw->pass, &probe, local, false);
    if (as_is && as_is->isa > MLSI_ISA_PORTABLE) return MLSYS_OK;
    const mlsi_kernel *best = mlsi_choose_kernel(rw->pass, &probe, local, true);
    *wants = best && best != as_is;
    return MLSYS_OK;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    layout_state *s = rw->user;
    int32_t in[MLSI_MAX_OPERANDS];
    bool wants = false;
    MLSI_TRY(refresh(rw)); /* inputs and constants may have come since */
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    if (node->op == MLSI_OP_RESHAPE)
        wants = !s->facts[in[0]].contiguous;
    else if (mlsi_op_get(node->op)->traits & MLSI_TRAIT_CONTROL && node->op != MLSI_OP_CUSTOM)
        wants = true; /* a function's inputs are contiguous */
    else if (!(mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW) && node->op != MLSI_OP_COPY)
        MLSI_TRY(wants_contiguous(rw, node, in, &wants));
    for (int i = 0; wants && i < node->n_in; i++)
        if (in[i] >= 0 && !s->facts[in[i]].contiguous) MLSI_TRY(add_copy(rw, in[i], &in[i]));
    MLSI_TRY(
        mlsi_build_node(rw->g, rw->func, node->op, node->attrs, node->n_in, in, node->n_out, out));
    MLSI_TRY(refresh(rw));
    int32_t output = s->output_of[node->first_out];
    if (mlsi_fault(MLSI_FAULT_OUTPUT_COPY_LATE)) output = 0;
    if (!output || !(mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW) || !shows_node(rw, out[0]))
        return MLSYS_OK;
    return add_copy(rw, out[0], &s->own[output - 1]);
}

/* Gives output i memory of its own. */
static mlsys_status own_output(mlsi_rewrite *rw, int64_t i, int32_t *value) {
    const layout_state *s = rw->user;
    const mlsi_func *f = &rw->g->funcs[rw->func];
    const mlsi_node *node = mlsi_rewrite_def(rw, *value);
    int32_t v = *value;
    if (mlsi_fault(MLSI_FAULT_LAYOUT_OUTPUT) && i) v = f->outputs[0].value;
    if (s->own[i]) return *value = s->own[i], MLSYS_OK;
    if (s->is_body && f->inputs[i] == v) return MLSYS_OK;
    bool own = node && !(mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW);
    for (int64_t j = 0; own && j < i; j++)
        own = f->outputs[j].value != v;
    if (own) return MLSYS_OK;
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_COPY, NULL, 1, &v, 1, value);
}

static bool is_body(const mlsi_graph *g, int32_t func) {
    bool is = false;
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t i = 0; i < g->funcs[f].n_nodes; i++) {
            const mlsi_node *node = &g->funcs[f].nodes[i];
            const mlsi_attr_control *c = node->attrs;
            bool loop = node->op == MLSI_OP_WHILE;
            if (!loop && node->op != MLSI_OP_IF && node->op != MLSI_OP_CALL) continue;
            if (c->fn1 == func || (!loop && node->op == MLSI_OP_IF && c->fn2 == func)) return false;
            is |= loop && c->fn2 == func;
        }
    return is;
}

mlsys_status mlsi_pass_layout(mlsi_pass_ctx *p, int32_t func) {
    layout_state s = {.is_body = func > 0 && is_body(p->g, func)};
    const mlsi_func *f = &p->g->funcs[func];
    mlsys_status st = MLSI_NEW_N(p->g->alloc, f->n_values + 1, &s.output_of);
    if (st == MLSYS_OK) st = MLSI_NEW_N(p->g->alloc, f->n_outputs + 1, &s.own);
    for (int64_t i = 0; st == MLSYS_OK && i < f->n_outputs; i++)
        s.output_of[f->outputs[i].value] = (int32_t)i + 1;
    if (st == MLSYS_OK) st = mlsi_rewrite_run_with(p, func, visit, own_output, &s);
    mlsi_mem_free(p->g->alloc, s.output_of);
    mlsi_mem_free(p->g->alloc, s.own);
    mlsi_mem_free(p->g->alloc, s.facts);
    return st;
}
