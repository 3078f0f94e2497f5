/* fuse: groups of nodes that share their loops become functions, and a call stands where the last node of each stood. Equal
 * groups (the layers of a model) share one function, so that each kernel is made once. */
#include "core/faults.h"
#include "ir/passes/fuse.h"

#include <stdio.h>
#include <string.h>

typedef struct fuse_pass {
    mlsi_fuse_state s;
    mlsi_fusion *groups;
    int32_t *func_of; /* per group: the function made of it */
    int64_t n_groups, cap_groups, cap_funcs;
} fuse_pass;

static mlsys_status find_uses(fuse_pass *p) {
    mlsi_fuse_state *s = &p->s;
    mlsi_alloc *a = s->g->alloc;
    int64_t values = s->f->n_values + 1, nodes = s->f->n_nodes + 1;
    MLSI_TRY(MLSI_NEW_N(a, values, &s->facts));
    MLSI_TRY(MLSI_NEW_N(a, values, &s->first_use));
    MLSI_TRY(MLSI_NEW_N(a, values, &s->last_use));
    MLSI_TRY(MLSI_NEW_N(a, nodes, &s->group_of));
    MLSI_TRY(MLSI_NEW_N(a, nodes, &s->wanted));
    MLSI_TRY(MLSI_NEW_N(a, nodes, &s->aligned));
    MLSI_TRY(MLSI_NEW_N(a, nodes, &s->edges));
    for (int64_t n = 0; n < s->f->n_nodes; n++)
        s->edges[n + 1] = s->edges[n] + s->f->nodes[n].n_in;
    MLSI_TRY(MLSI_NEW_N(a, s->edges[s->f->n_nodes] + 1, &s->edge_why));
    memset(s->edge_why, MLSI_FUSE_VIEW, (size_t)s->edges[s->f->n_nodes]);
    memset(s->last_use, 0xff, sizeof *s->last_use * (size_t)values);
    memset(s->group_of, 0xff, sizeof *s->group_of * (size_t)nodes);
    for (int64_t v = 0; v < values; v++)
        s->first_use[v] = INT32_MAX;
    mlsi_layout_facts(s->g, s->func, s->facts);
    for (int32_t n = 0; n < s->f->n_nodes; n++)
        for (int i = 0; i < s->f->nodes[n].n_in; i++) {
            int32_t v = s->f->nodes[n].in[i];
            if (v < 0) continue;
            s->last_use[v] = n;
            if (s->first_use[v] > n) s->first_use[v] = n;
        }
    for (int64_t i = 0; i < s->f->n_outputs; i++) {
        int32_t v = s->f->outputs[i].value;
        s->last_use[v] = (int32_t)s->f->n_nodes;
        if (s->first_use[v] == INT32_MAX) s->first_use[v] = (int32_t)s->f->n_nodes;
    }
    return MLSYS_OK;
}

static mlsys_status find_groups(fuse_pass *p) {
    mlsi_alloc *a = p->s.g->alloc;
    for (int32_t n = (int32_t)p->s.f->n_nodes - 1; n >= 0; n--) {
        mlsi_fusion u;
        if (!mlsi_fuse_grow(&p->s, n, &u)) continue;
        MLSI_TRY(MLSI_GROW(a, &p->groups, &p->cap_groups, p->n_groups + 1));
        MLSI_TRY(MLSI_GROW(a, &p->func_of, &p->cap_funcs, p->n_groups + 1));
        for (int i = 0; i < u.n_nodes; i++)
            if (!mlsi_fuse_is_movement(p->s.f->nodes[u.nodes[i]].op))
                p->s.group_of[u.nodes[i]] = (int32_t)p->n_groups;
        p->groups[p->n_groups++] = u;
    }
    return MLSYS_OK;
}

/* Is every node of the function in one kernel already, since a call names it? */
static bool is_kernel(const mlsi_graph *g, int32_t func) {
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t i = 0; i < g->funcs[f].n_nodes; i++) {
            const mlsi_node *node = &g->funcs[f].nodes[i];
            if (node->op == MLSI_OP_CALL && ((const mlsi_attr_control *)node->attrs)->fn1 == func)
                return true;
        }
    return false;
}

/* A group for each node that has no kernel. */
static mlsys_status find_lone(fuse_pass *p) {
    mlsi_alloc *a = p->s.g->alloc;
    for (int32_t n = (int32_t)p->s.f->n_nodes - 1; n >= 0; n--) {
        const mlsi_node *node = &p->s.f->nodes[n];
        uint32_t traits = mlsi_op_get(node->op)->traits;
        mlsi_fusion u;
        if (traits & MLSI_TRAIT_CONTROL || node->op == MLSI_OP_CUSTOM) continue;
        if (traits & MLSI_TRAIT_VIEW && mlsi_is_view(node, &p->s.facts[node->in[0]])) continue;
        if (mlsi_choose_kernel(p->s.p, node, p->s.facts, false)) continue;
        if (!mlsi_fuse_alone(&p->s, n, &u)) continue;
        MLSI_TRY(MLSI_GROW(a, &p->groups, &p->cap_groups, p->n_groups + 1));
        MLSI_TRY(MLSI_GROW(a, &p->func_of, &p->cap_funcs, p->n_groups + 1));
        p->s.group_of[n] = (int32_t)p->n_groups;
        p->groups[p->n_groups++] = u;
    }
    return MLSYS_OK;
}

/* ---- a function of a group ------------------------------------------------------------------------------- */

static mlsys_status operand(mlsi_graph *g, int32_t func, const mlsi_func *f, int32_t v,
                            int32_t *map, int32_t *out) {
    if (v >= 0 && map[v] < 0)
        MLSI_TRY(mlsi_build_const_value(g, func, f->values[v].index, &map[v]));
    return *out = v < 0 ? -1 : map[v], MLSYS_OK;
}

static mlsys_status fill_func(mlsi_graph *g, int32_t func, const mlsi_func *f, const mlsi_fusion *u,
                              int32_t *map) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < u->n_inputs; i++) {
        mlsi_type t = f->values[u->inputs[i]].type;
        MLSI_TRY(mlsi_build_input(g, func, NULL, &t, &map[u->inputs[i]]));
    }
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &f->nodes[u->nodes[i]];
        for (int k = 0; k < node->n_in; k++)
            MLSI_TRY(operand(g, func, f, node->in[k], map, &in[k]));
        if (mlsi_fault(MLSI_FAULT_FUSE_OPERANDS) && node->op == MLSI_OP_SUB) {
            int32_t first = in[0];
            in[0] = in[1], in[1] = first;
        }
        MLSI_TRY(mlsi_build_node(g, func, node->op, node->attrs, node->n_in, in, node->n_out,
                                 &map[node->first_out]));
    }
    for (int i = 0; i < u->n_outputs; i++)
        MLSI_TRY(mlsi_build_output(g, func, NULL, map[u->outputs[i]]));
    return MLSYS_OK;
}

static bool same_node(const mlsi_node *a, const mlsi_node *b) {
    bool op = a->op == b->op || mlsi_fault(MLSI_FAULT_FUSE_SAME_OP);
    bool in = !memcmp(a->in, b->in, sizeof *a->in * (size_t)a->n_in) ||
              mlsi_fault(MLSI_FAULT_FUSE_SAME_OPERANDS);
    bool attrs = a->op != b->op || mlsi_attrs_equal(mlsi_op_get(a->op), a->attrs, b->attrs) ||
                 mlsi_fault(MLSI_FAULT_FUSE_SAME_ATTRIBUTES);
    return op && a->n_in == b->n_in && a->n_out == b->n_out && a->first_out == b->first_out && in &&
           attrs;
}

static bool same_func(const mlsi_func *a, const mlsi_func *b) {
    if (a->n_nodes != b->n_nodes || a->n_values != b->n_values || a->n_inputs != b->n_inputs ||
        a->n_outputs != b->n_outputs)
        return false;
    for (int64_t v = 0; v < a->n_values; v++) {
        const mlsi_value_def *x = &a->values[v], *y = &b->values[v];
        bool index = x->index == y->index ||
                     (mlsi_fault(MLSI_FAULT_FUSE_SAME_CONSTANT) && x->kind == MLSI_VALUE_CONST);
        if (x->kind != y->kind || !index || !mlsi_type_equal(&x->type, &y->type)) return false;
    }
    for (int64_t i = 0; i < a->n_outputs; i++)
        if (a->outputs[i].value != b->outputs[i].value) return false;
    for (int64_t i = 0; i < a->n_nodes; i++)
        if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
    return true;
}

static mlsys_status make_func(fuse_pass *p, mlsi_graph *g, int32_t first, int64_t group,
                              int32_t *map) {
    const mlsi_func f = g->funcs[p->s.func]; /* by value: the array moves */
    char name[32];
    int32_t func;
    snprintf(name, sizeof name, "fused%d", p->s.p->n_fused + 1);
    memset(map, 0xff, sizeof *map * (size_t)(f.n_values + 1));
    MLSI_TRY(mlsi_func_add(g, name, &func));
    MLSI_TRY(fill_func(g, func, &f, &p->groups[group], map));
    MLSI_TRY(mlsi_decompose_to_loops(p->s.p, func));
    p->func_of[group] = func;
    p->s.p->n_fused++;
    for (int32_t other = first; other < func; other++)
        if (same_func(&g->funcs[other], &g->funcs[func])) {
            p->func_of[group] = other;
            mlsi_graph_truncate(g, func);
            p->s.p->n_fused--;
            break;
        }
    return MLSYS_OK;
}

static mlsys_status make_funcs(fuse_pass *p, mlsi_graph *g) {
    int32_t first = (int32_t)g->n_funcs, *map;
    MLSI_TRY(MLSI_NEW_N(g->alloc, p->s.f->n_values + 1, &map));
    mlsys_status st = MLSYS_OK;
    for (int64_t i = 0; i < p->n_groups && st == MLSYS_OK; i++)
        st = make_func(p, g, first, i, map);
    mlsi_mem_free(g->alloc, map);
    return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------- */

static mlsys_status emit_call(mlsi_rewrite *rw, const mlsi_fusion *u, int32_t func) {
    mlsi_attr_control attrs;
    int32_t in[MLSI_FUSE_VALUES], out[MLSI_FUSE_VALUES];
    memset(&attrs, 0, sizeof attrs);
    attrs.fn1 = func;
    for (int i = 0; i < u->n_inputs; i++)
        in[i] = rw->map[u->inputs[mlsi_fault(MLSI_FAULT_FUSE_ARGUMENT) ? 0
                                  : mlsi_fault(MLSI_FAULT_FUSE_INPUTS) ? u->n_inputs - 1 - i
                                                                       : i]];
    MLSI_TRY(
        mlsi_build_node(rw->g, rw->func, MLSI_OP_CALL, &attrs, u->n_inputs, in, u->n_outputs, out));
    for (int i = 0; i < u->n_outputs; i++)
        rw->map[u->outputs[i]] = out[mlsi_fault(MLSI_FAULT_FUSE_RESULT) ? 0 : i];
    return MLSYS_OK;
}

/* Movement of a value that is not there, as it is inside a group: nobody else reads it. */
static bool moves_inside(const mlsi_rewrite *rw, const mlsi_node *node) {
    if (!mlsi_fuse_is_movement(node->op) || !node->n_in) return false;
    return rw->old.values[node->in[0]].kind == MLSI_VALUE_NODE && rw->map[node->in[0]] < 0;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const fuse_pass *p = rw->user;
    int32_t n = (int32_t)(node - rw->old.nodes), group = p->s.group_of[n];
    if (group < 0 && moves_inside(rw, node)) return out[0] = -1, MLSYS_OK;
    if (group < 0) return mlsi_rewrite_keep(rw, node, out);
    const mlsi_fusion *u = &p->groups[group];
    mlsi_rewrite_by(rw, MLSI_BY_GROUPED, NULL);
    if (n == u->nodes[u->n_nodes - 1]) MLSI_TRY(emit_call(rw, u, p->func_of[group]));
    for (int i = 0; i < node->n_out;
         i++) /* values inside a group are nobody's operand outside it */
        out[i] = rw->map[node->first_out + i];
    return MLSYS_OK;
}

/* Groups as `find` finds them. */
static mlsys_status group(mlsi_pass_ctx *ctx, int32_t func, mlsys_status (*find)(fuse_pass *p),
                          bool tell) {
    mlsi_graph *g = ctx->g;
    mlsi_func f = g->funcs[func];
    fuse_pass p = {.s = {.p = ctx, .g = g, .f = &f, .func = func}};
    mlsys_status st = find_uses(&p);
    if (st == MLSYS_OK) st = find(&p);
    if (st == MLSYS_OK && p.n_groups) st = make_funcs(&p, g);
    if (st == MLSYS_OK && ctx->report && tell) {
        mlsi_fuse_report(&p.s, p.groups, p.func_of, p.n_groups, &ctx->report->fusion);
        st = ctx->report->fusion.st;
    }
    if (st == MLSYS_OK && p.n_groups) st = mlsi_rewrite_run(ctx, func, visit, &p);
    void *owned[] = {p.s.facts,   p.s.first_use, p.s.last_use, p.s.group_of, p.s.wanted,
                     p.s.aligned, p.s.edges,     p.s.edge_why, p.groups,     p.func_of};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(g->alloc, owned[i]);
    return st;
}

mlsys_status mlsi_pass_fuse(mlsi_pass_ctx *ctx, int32_t func) {
    bool generates = ctx->backend->load || ctx->backend->accel;
    return ctx->fuse_least < 0 || !generates ? MLSYS_OK : group(ctx, func, find_groups, true);
}

/* What is left on an accelerator after fusion and layout. */
mlsys_status mlsi_pass_outline(mlsi_pass_ctx *ctx, int32_t func) {
    if (!ctx->backend->accel || is_kernel(ctx->g, func)) return MLSYS_OK;
    return group(ctx, func, find_lone, false);
}
