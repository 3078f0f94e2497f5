/* hoist: what does not change in a loop is computed before it. A carried value that the body of a `while` hands on as it came
 * is the same in every turn, and so is what is computed of such values and of constants alone; it becomes one more
 * carried value that is handed on. (Handing on costs nothing: such a value stays where it is, see run/exec.c.)
 *
 * A loop may have no turn, and then nothing may fail or be drawn that was not before. So ops that look at their data and may refuse it
 * stay, and random draws, custom ops and control flow; barriers stay where they stand. Movement stays with its reader: it costs
 * nothing there, and outside it would be memory.
 *
 * Memory: a moved value lives for the whole loop, twice (as operand and as carried value). All values moved out of one loop have at
 * most as many bytes as it carries already, or LEAST where that is more; what does not fit stays inside. */
#include "core/faults.h"
#include "ir/passes/fuse.h"
#include "ir/passes/passes.h"

#include <string.h>

enum { COND, BODY, PARTS };
enum { LEAST = 1 << 20 };
enum { GONE = -1, INSIDE = -2 }; /* else: which added operand the value is */

typedef struct hoist_part {
    int32_t func, made; /* as it was, as it becomes */
    bool *still;        /* per value: the same in every turn */
    bool *above;        /* per value: computed before the loop */
    int32_t *place;     /* per value */
} hoist_part;

typedef struct hoist_loop {
    int32_t node;
    hoist_part part[PARTS];
    int n_moved;
    struct {
        int part;
        int32_t value;
    } moved[MLSI_MAX_OPERANDS];
    int64_t bytes_left;
} hoist_loop;

typedef struct hoist_pass {
    mlsi_graph *g;
    hoist_loop *loops;
    int64_t n_loops, cap_loops;
} hoist_pass;

/* ---- what may move ----------------------------------------------------------------------------------------- */

static bool may_move(mlsi_op op) {
    unsigned stays = MLSI_TRAIT_CONTROL | MLSI_TRAIT_CHECKS_DATA;
    if (mlsi_fault(MLSI_FAULT_HOIST_CHECKS)) stays = MLSI_TRAIT_CONTROL;
    return !(mlsi_op_get(op)->traits & stays) && op != MLSI_OP_BARRIER && op != MLSI_OP_RANDOM;
}

/* The body hands carried value i on as it came. */
static bool hands_on(const mlsi_func *body, int64_t i) {
    return body->outputs[i].value == body->inputs[i] || mlsi_fault(MLSI_FAULT_HOIST_CARRIED);
}

static void find_still(const mlsi_func *f, const mlsi_func *body, bool *still) {
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        still[v] = def->kind == MLSI_VALUE_INPUT ? hands_on(body, def->index) : true;
        if (def->kind != MLSI_VALUE_NODE) continue;
        const mlsi_node *node = &f->nodes[def->index];
        still[v] = may_move(node->op);
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0) still[v] = still[v] && still[node->in[i]];
    }
}

/* Costs nothing where it is read. */
static bool is_movement(mlsi_op op) {
    return mlsi_fuse_is_movement(op) || mlsi_op_get(op)->traits & MLSI_TRAIT_VIEW;
}

/* ---- the plan of one loop -------------------------------------------------------------------------------------- */

/* Room for the needed results of a node, as operands and in memory. */
static bool fits(const mlsi_graph *g, const mlsi_func *f, const mlsi_node *node, int n_in,
                 const hoist_loop *loop, const int32_t *place, int64_t *bytes) {
    int n = 0;
    *bytes = 0;
    for (int i = 0; i < node->n_out; i++) {
        int32_t v = node->first_out + i;
        if (place[v] == GONE) continue;
        n++;
        if (!mlsi_add_i64(*bytes, mlsi_type_most_bytes(&g->symbols, &f->values[v].type), bytes))
            return false;
    }
    return n_in + loop->n_moved + n <= MLSI_MAX_OPERANDS && *bytes <= loop->bytes_left;
}

static void want_operands(const mlsi_node *node, int32_t *place) {
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) place[node->in[i]] = INSIDE;
}

/* From the results back: a needed value that is still moves out, and then its operands are not needed for it. */
static void plan_part(const mlsi_graph *g, hoist_loop *loop, int k, int n_in) {
    hoist_part *p = &loop->part[k];
    const mlsi_func *f = &g->funcs[p->func];
    for (int64_t o = 0; o < f->n_outputs; o++)
        p->place[f->outputs[o].value] = INSIDE;
    for (int64_t n = f->n_nodes - 1; n >= 0; n--) {
        const mlsi_node *node = &f->nodes[n];
        int64_t bytes;
        bool needed = false;
        for (int i = 0; i < node->n_out; i++)
            needed |= p->place[node->first_out + i] != GONE;
        if (!needed) continue;
        if (!p->still[node->first_out] || is_movement(node->op) ||
            !fits(g, f, node, n_in, loop, p->place, &bytes)) {
            want_operands(node, p->place);
            continue;
        }
        loop->bytes_left -= bytes;
        for (int i = 0; i < node->n_out; i++) {
            int32_t v = node->first_out + i;
            if (p->place[v] == GONE) continue;
            p->place[v] = loop->n_moved;
            p->above[v] = true;
            loop->moved[loop->n_moved].part = k;
            loop->moved[loop->n_moved++].value = v;
        }
    }
    for (int64_t n = f->n_nodes - 1; n >= 0; n--) {
        const mlsi_node *node = &f->nodes[n];
        bool above = false;
        for (int i = 0; i < node->n_out; i++)
            above |= p->above[node->first_out + i];
        for (int i = 0; above && i < node->n_in; i++)
            if (node->in[i] >= 0) p->above[node->in[i]] = true;
    }
}

static mlsys_status plan_loop(const mlsi_graph *g, const mlsi_func *f, hoist_loop *loop) {
    const mlsi_node *node = &f->nodes[loop->node];
    const mlsi_func *body = &g->funcs[loop->part[BODY].func];
    int64_t carried = 0;
    for (int i = 0; i < node->n_in; i++)
        if (!mlsi_add_i64(carried, mlsi_type_most_bytes(&g->symbols, &f->values[node->in[i]].type),
                          &carried))
            carried = INT64_MAX;
    loop->bytes_left = carried > LEAST ? carried : LEAST;
    for (int k = 0; k < PARTS; k++) {
        hoist_part *p = &loop->part[k];
        const mlsi_func *pf = &g->funcs[p->func];
        MLSI_TRY(MLSI_NEW_N(g->alloc, pf->n_values + 1, &p->still));
        MLSI_TRY(MLSI_NEW_N(g->alloc, pf->n_values + 1, &p->above));
        MLSI_TRY(MLSI_NEW_N(g->alloc, pf->n_values + 1, &p->place));
        memset(p->place, 0xff, sizeof *p->place * (size_t)(pf->n_values + 1));
        find_still(pf, body, p->still);
        plan_part(g, loop, k, node->n_in);
    }
    return MLSYS_OK;
}

static void free_loop(const mlsi_graph *g, hoist_loop *loop) {
    for (int k = 0; k < PARTS; k++) {
        mlsi_mem_free(g->alloc, loop->part[k].still);
        mlsi_mem_free(g->alloc, loop->part[k].above);
        mlsi_mem_free(g->alloc, loop->part[k].place);
    }
}

/* ---- condition and body with the moved values as inputs ------------------------------------------------------------ */

static const mlsi_type *moved_type(const mlsi_graph *g, const hoist_loop *loop, int i) {
    return mlsi_type_of(g, loop->part[loop->moved[i].part].func, loop->moved[i].value);
}

static mlsys_status fill_part(mlsi_graph *g, const hoist_loop *loop, int k, int32_t *map,
                              int32_t *added) {
    const hoist_part *p = &loop->part[k];
    const mlsi_func f = g->funcs[p->func]; /* by value: the array moves */
    int32_t in[MLSI_MAX_OPERANDS];
    for (int64_t i = 0; i < f.n_inputs; i++) {
        const mlsi_value_def *def = &f.values[f.inputs[i]];
        MLSI_TRY(mlsi_build_input(g, p->made, def->name, &def->type, &map[f.inputs[i]]));
    }
    for (int i = 0; i < loop->n_moved; i++) {
        mlsi_type t = *moved_type(g, loop, i);
        MLSI_TRY(mlsi_build_input(g, p->made, NULL, &t, &added[i]));
        if (loop->moved[i].part == k) map[loop->moved[i].value] = added[i];
    }
    for (int64_t v = 0; v < f.n_values; v++) {
        const mlsi_value_def *def = &f.values[v];
        if (def->kind == MLSI_VALUE_CONST && p->place[v] == INSIDE)
            MLSI_TRY(mlsi_build_const_value(g, p->made, def->index, &map[v]));
        if (def->kind != MLSI_VALUE_NODE || def->result) continue;
        const mlsi_node *node = &f.nodes[def->index];
        bool inside = false;
        for (int i = 0; i < node->n_out; i++)
            inside |= p->place[v + i] == INSIDE;
        if (!inside) continue;
        for (int i = 0; i < node->n_in; i++)
            in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
        MLSI_TRY(mlsi_build_node(g, p->made, node->op, node->attrs, node->n_in, in, node->n_out,
                                 &map[v]));
    }
    for (int64_t o = 0; o < f.n_outputs; o++)
        MLSI_TRY(mlsi_build_output(g, p->made, f.outputs[o].name, map[f.outputs[o].value]));
    return MLSYS_OK;
}

static mlsys_status make_part(mlsi_graph *g, hoist_loop *loop, int k) {
    int32_t *map, added[MLSI_MAX_OPERANDS];
    int64_t n_values = g->funcs[loop->part[k].func].n_values;
    MLSI_TRY(MLSI_NEW_N(g->alloc, n_values + 1, &map));
    mlsys_status st = mlsi_func_add(g, g->funcs[loop->part[k].func].name, &loop->part[k].made);
    if (st == MLSYS_OK) st = fill_part(g, loop, k, map, added);
    for (int i = 0; k == BODY && i < loop->n_moved && st == MLSYS_OK; i++)
        st = mlsi_build_output(g, loop->part[k].made, NULL, added[i]);
    mlsi_mem_free(g->alloc, map);
    return st;
}

/* ---- before the loop ------------------------------------------------------------------------------------------------- */

static mlsys_status emit_above(mlsi_rewrite *rw, const mlsi_node *loop, const hoist_part *p,
                               int32_t *map) {
    const mlsi_func f = rw->g->funcs[p->func]; /* by value: the array moves */
    for (int64_t v = 0; v < f.n_values; v++) {
        const mlsi_value_def *def = &f.values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            map[v] = mlsi_rewrite_operand(rw, loop, def->index);
        } else if (def->kind == MLSI_VALUE_CONST) {
            if (p->above[v]) MLSI_TRY(mlsi_rewrite_constant(rw, def->index, &map[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &f.nodes[def->index];
            int32_t in[MLSI_MAX_OPERANDS];
            bool above = false;
            for (int i = 0; i < node->n_out; i++)
                above |= p->above[v + i];
            if (!above) continue;
            for (int i = 0; i < node->n_in; i++)
                in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
            MLSI_TRY(mlsi_build_node(rw->g, rw->func, node->op, node->attrs, node->n_in, in,
                                     node->n_out, &map[v]));
        }
    }
    return MLSYS_OK;
}

static mlsys_status emit_moved(mlsi_rewrite *rw, const mlsi_node *node, const hoist_loop *loop,
                               int32_t *in) {
    for (int k = 0; k < PARTS; k++) {
        const hoist_part *p = &loop->part[k];
        int32_t *map;
        MLSI_TRY(MLSI_NEW_N(rw->g->alloc, rw->g->funcs[p->func].n_values + 1, &map));
        mlsys_status st = emit_above(rw, node, p, map);
        for (int i = 0; i < loop->n_moved && st == MLSYS_OK; i++)
            if (loop->moved[i].part == k) in[i] = map[loop->moved[i].value];
        mlsi_mem_free(rw->g->alloc, map);
        MLSI_TRY(st);
    }
    return MLSYS_OK;
}

static const hoist_loop *loop_at(const hoist_pass *h, int64_t node) {
    for (int64_t i = 0; i < h->n_loops; i++)
        if (h->loops[i].node == node) return &h->loops[i];
    return NULL;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const hoist_loop *loop = loop_at(rw->user, node - rw->old.nodes);
    int32_t in[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    if (!loop) return mlsi_rewrite_keep(rw, node, out);
    const mlsi_attr_control attrs = {.fn1 = loop->part[COND].made, .fn2 = loop->part[BODY].made};
    const int n = node->n_in + loop->n_moved;
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    MLSI_TRY(emit_moved(rw, node, loop, in + node->n_in));
    if (mlsi_fault(MLSI_FAULT_HOIST_OPERAND) && n > node->n_in + 1) in[n - 1] = in[node->n_in];
    MLSI_TRY(mlsi_build_node(rw->g, rw->func, MLSI_OP_WHILE, &attrs, n, in, n, results));
    memcpy(out, results, sizeof *out * (size_t)node->n_out);
    mlsi_rewrite_by(rw, MLSI_BY_MOVED, NULL);
    return MLSYS_OK;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------------- */

/* How often functions are named. */
static mlsys_status count_uses(const mlsi_graph *g, int32_t **uses) {
    MLSI_TRY(MLSI_NEW_N(g->alloc, g->n_funcs, uses));
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t i = 0; i < g->funcs[f].n_nodes; i++) {
            const mlsi_node *node = &g->funcs[f].nodes[i];
            const mlsi_attr_control *c = node->attrs;
            if (node->op != MLSI_OP_CALL && node->op != MLSI_OP_IF && node->op != MLSI_OP_WHILE)
                continue;
            (*uses)[c->fn1]++;
            if (node->op != MLSI_OP_CALL) (*uses)[c->fn2]++;
        }
    return MLSYS_OK;
}

/* Loops out of which something moves; their functions are nobody else's. */
static mlsys_status find_loops(hoist_pass *h, int32_t func, const int32_t *uses) {
    mlsi_graph *g = h->g;
    for (int32_t n = 0; n < g->funcs[func].n_nodes; n++) {
        const mlsi_node *node = &g->funcs[func].nodes[n];
        const mlsi_attr_control *c = node->attrs;
        if (node->op != MLSI_OP_WHILE || uses[c->fn1] != 1 || uses[c->fn2] != 1) continue;
        MLSI_TRY(MLSI_GROW(g->alloc, &h->loops, &h->cap_loops, h->n_loops + 1));
        hoist_loop *loop = &h->loops[h->n_loops++];
        memset(loop, 0, sizeof *loop);
        loop->node = n;
        loop->part[COND].func = (int32_t)c->fn1;
        loop->part[BODY].func = (int32_t)c->fn2;
        MLSI_TRY(plan_loop(g, &g->funcs[func], loop));
        if (loop->n_moved) continue;
        free_loop(g, loop);
        h->n_loops--;
    }
    return MLSYS_OK;
}

/* The new functions take the old ones' numbers, so that callees keep higher numbers than callers. */
static void put_in_place(mlsi_graph *g, int32_t func, const hoist_loop *loop) {
    for (int64_t i = 0; i < g->funcs[func].n_nodes; i++) {
        const mlsi_node *node = &g->funcs[func].nodes[i];
        mlsi_attr_control *c = (mlsi_attr_control *)(uintptr_t)node->attrs; /* this node's own */
        if (node->op != MLSI_OP_WHILE || c->fn2 != loop->part[BODY].made) continue;
        c->fn1 = loop->part[COND].func;
        c->fn2 = loop->part[BODY].func;
    }
    for (int k = 0; k < PARTS; k++) {
        mlsi_func made = g->funcs[loop->part[k].made];
        g->funcs[loop->part[k].made] = g->funcs[loop->part[k].func];
        g->funcs[loop->part[k].func] = made;
    }
}

static bool has_loop(const mlsi_func *f) {
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == MLSI_OP_WHILE) return true;
    return false;
}

mlsys_status mlsi_pass_hoist(mlsi_pass_ctx *p, int32_t func) {
    mlsi_graph *g = p->g;
    hoist_pass h = {.g = g};
    int32_t *uses = NULL;
    const int64_t n_funcs = g->n_funcs;
    if (!has_loop(&g->funcs[func])) return MLSYS_OK;
    mlsys_status st = count_uses(g, &uses);
    if (st == MLSYS_OK) st = find_loops(&h, func, uses);
    for (int64_t i = 0; i < h.n_loops; i++)
        for (int k = 0; k < PARTS && st == MLSYS_OK; k++)
            st = make_part(g, &h.loops[i], k);
    if (st == MLSYS_OK && h.n_loops) st = mlsi_rewrite_run(p, func, visit, &h);
    for (int64_t i = 0; i < h.n_loops; i++) {
        if (st == MLSYS_OK) put_in_place(g, func, &h.loops[i]);
        free_loop(g, &h.loops[i]);
    }
    mlsi_graph_truncate(g, n_funcs);
    mlsi_mem_free(g->alloc, h.loops);
    mlsi_mem_free(g->alloc, uses);
    return st;
}
