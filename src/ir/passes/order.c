/* order: tasks of a function in an order that needs less memory. The graph's own order is kept where none of those tried
 * (order_list.c) is better, by the plan that each would get: so the arena at the symbols' maxima never grows.
 *
 * What stays in order: definitions before uses; tasks that may fail by what they read, so that the first failure is the same one;
 * the last reader of a donated input, which may write over it, behind its other readers and behind what may fail. Functions that
 * are one kernel have no tasks. */
#include "core/faults.h"
#include "ir/passes/order.h"

#include <string.h>

enum { MOST_TASKS = 1 << 16 };

/* ---- tasks ------------------------------------------------------------------------------------------------- */

static mlsys_status add_edge(mlsi_tasks *t, int32_t from, int32_t to) {
    MLSI_TRY(MLSI_GROW(t->alloc, &t->edges, &t->cap_edges, t->n_edges + 1));
    t->edges[t->n_edges++] = (mlsi_task_edge){from, to};
    return MLSYS_OK;
}

/* Neighbours of each task side by side: counting sort. */
static mlsys_status list_neighbours(const mlsi_tasks *t, bool next, int32_t **first,
                                    int32_t **list) {
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->n + 2, first));
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->n_edges + 1, list));
    int32_t *end = *first + 1; /* of the task before, which is where a task's own begin */
    for (int64_t e = 0; e < t->n_edges; e++)
        end[next ? t->edges[e].from : t->edges[e].to]++;
    for (int32_t i = 0; i < t->n; i++)
        end[i] += (*first)[i];
    for (int64_t e = t->n_edges - 1; e >= 0; e--) {
        int32_t from = next ? t->edges[e].from : t->edges[e].to;
        (*list)[--end[from]] = next ? t->edges[e].to : t->edges[e].from;
    }
    memmove(*first, end, sizeof **first * (size_t)t->n);
    (*first)[t->n] = (int32_t)t->n_edges;
    return MLSYS_OK;
}

static bool checks_data(const mlsi_graph *g, const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    if (node->op != MLSI_OP_CALL)
        return (def->traits & (MLSI_TRAIT_CHECKS_DATA | MLSI_TRAIT_CONTROL)) != 0;
    const mlsi_func *f = &g->funcs[((const mlsi_attr_control *)node->attrs)->fn1];
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (checks_data(g, &f->nodes[i])) return true;
    return false;
}

/* Data, and what may fail in turn. */
static mlsys_status find_edges(const mlsi_graph *g, mlsi_tasks *t) {
    int32_t last = -1;
    for (int32_t n = 0; n < t->n; n++) {
        const mlsi_node *node = &t->f->nodes[n];
        for (int i = 0; i < node->n_in; i++) {
            const mlsi_value_def *def = node->in[i] < 0 ? NULL : &t->f->values[node->in[i]];
            if (def && def->kind == MLSI_VALUE_NODE) MLSI_TRY(add_edge(t, def->index, n));
        }
        if (!checks_data(g, node)) continue;
        if (last >= 0 && !mlsi_fault(MLSI_FAULT_ORDER_EFFECTS)) MLSI_TRY(add_edge(t, last, n));
        last = n;
    }
    return MLSYS_OK;
}

static bool reads(const mlsi_tasks *t, int32_t n, int32_t root) {
    const mlsi_node *node = &t->f->nodes[n];
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && t->root[node->in[i]] == root) return true;
    return false;
}

/* The last reader of a donated input may write over it: behind its other readers, and behind all that may fail before it, so that
 * a run which fails leaves the input as it was where it did so in the graph's order. */
static mlsys_status find_donated(const mlsi_graph *g, mlsi_tasks *t, int32_t root) {
    int32_t last = -1;
    bool fails = false;
    for (int32_t n = t->n - 1; n >= 0; n--) {
        const bool reader = !t->view[n] && reads(t, n, root);
        const bool failing = last >= 0 && !fails && checks_data(g, &t->f->nodes[n]);
        if (last >= 0 && (reader || failing)) MLSI_TRY(add_edge(t, n, last));
        if (reader && last < 0) last = n;
        fails |= failing;
    }
    return MLSYS_OK;
}

static void count_readers(mlsi_tasks *t) {
    for (int32_t n = 0; n < t->n; n++) {
        const mlsi_node *node = &t->f->nodes[n];
        for (int i = 0; i < node->n_in && !t->view[n]; i++) {
            bool first = node->in[i] >= 0;
            for (int k = 0; k < i && first; k++)
                first = node->in[k] < 0 || t->root[node->in[k]] != t->root[node->in[i]];
            if (first) t->readers[t->root[node->in[i]]]++;
        }
    }
}

static void find_memory(mlsi_pass_ctx *p, const mlsi_operand *facts, mlsi_tasks *t) {
    for (int32_t v = 0; v < t->f->n_values; v++) {
        const mlsi_value_def *def = &t->f->values[v];
        t->root[v] = v;
        if (def->kind != MLSI_VALUE_NODE) continue;
        const mlsi_node *node = &t->f->nodes[def->index];
        t->view[def->index] = mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW &&
                              mlsi_is_view(node, &facts[node->in[0]]);
        if (t->view[def->index])
            t->root[v] = t->root[node->in[0]];
        else
            t->bytes[v] = mlsi_type_most_bytes(&p->g->symbols, &def->type);
    }
    for (int64_t o = 0; o < t->f->n_outputs; o++)
        t->bytes[t->f->outputs[o].value] = 0; /* the caller's */
    for (int32_t n = 0; n < t->n; n++) {
        const mlsi_node *node = &t->f->nodes[n];
        bool control = mlsi_op_get(node->op)->traits & MLSI_TRAIT_CONTROL;
        const mlsi_kernel *k =
            t->view[n] || control ? NULL : mlsi_choose_kernel(p, node, facts, false);
        /* What a fused kernel may do is not known here; most of them may. */
        t->in_place[n] = node->op == MLSI_OP_CALL ? ~(uint32_t)0 : k ? k->in_place : 0;
    }
}

mlsys_status mlsi_tasks_find(mlsi_pass_ctx *p, int32_t func, mlsi_tasks *t) {
    const mlsi_func *f = &p->g->funcs[func];
    mlsi_alloc *a = p->g->alloc;
    mlsi_operand *facts = NULL;
    *t = (mlsi_tasks){.alloc = a, .f = f, .n = (int32_t)f->n_nodes};
    MLSI_TRY(MLSI_NEW_N(a, f->n_values + 1, &t->root));
    MLSI_TRY(MLSI_NEW_N(a, f->n_values + 1, &t->bytes));
    MLSI_TRY(MLSI_NEW_N(a, f->n_values + 1, &t->readers));
    MLSI_TRY(MLSI_NEW_N(a, f->n_nodes + 1, &t->view));
    MLSI_TRY(MLSI_NEW_N(a, f->n_nodes + 1, &t->in_place));
    MLSI_TRY(MLSI_NEW_N(a, f->n_values + 1, &facts));
    mlsi_layout_facts(p->g, func, facts);
    find_memory(p, facts, t);
    mlsi_mem_free(a, facts);
    count_readers(t);
    MLSI_TRY(find_edges(p->g, t));
    for (int64_t i = 0; i < f->n_inputs && func == 0; i++)
        if (f->donated[i] && !mlsi_fault(MLSI_FAULT_ORDER_DONATED))
            MLSI_TRY(find_donated(p->g, t, f->inputs[i]));
    MLSI_TRY(list_neighbours(t, true, &t->first_next, &t->next));
    return list_neighbours(t, false, &t->first_prev, &t->prev);
}

void mlsi_tasks_free(mlsi_tasks *t) {
    void *owned[] = {t->root,  t->bytes,      t->readers, t->view,       t->in_place,
                     t->edges, t->first_next, t->next,    t->first_prev, t->prev};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(t->alloc, owned[i]);
}

/* ---- the pass -------------------------------------------------------------------------------------------------- */

typedef struct trial {
    const mlsi_pass_ctx *p;
    int32_t func;
    uint64_t before;
} trial;

static mlsys_status is_better(void *user, bool *keep) {
    const trial *t = user;
    uint64_t after;
    *keep = false;
    mlsys_status st = t->p->peak(t->p->planner, t->func, &after);
    if (st != MLSYS_OK) return st == MLSYS_E_NOMEM ? st : MLSYS_OK;
    *keep = after < t->before || mlsi_fault(MLSI_FAULT_ORDER_WORSE);
    return MLSYS_OK;
}

static bool is_called(const mlsi_graph *g, int32_t func) {
    for (int64_t f = 0; f < g->n_funcs; f++)
        for (int64_t i = 0; i < g->funcs[f].n_nodes; i++) {
            const mlsi_node *node = &g->funcs[f].nodes[i];
            if (node->op == MLSI_OP_CALL && ((const mlsi_attr_control *)node->attrs)->fn1 == func)
                return true;
        }
    return false;
}

/* Symbols may be so large that no plan fits their maxima: then nothing is known. */
static mlsys_status reorder(mlsi_pass_ctx *p, int32_t func, const int32_t *order) {
    trial t = {p, func, 0};
    mlsys_status st = p->peak(p->planner, func, &t.before);
    if (st != MLSYS_OK) return st == MLSYS_E_NOMEM ? st : MLSYS_OK;
    return mlsi_rewrite_reorder(p, func, order, is_better, &t);
}

mlsys_status mlsi_pass_order(mlsi_pass_ctx *p, int32_t func) {
    mlsi_tasks t;
    int32_t *order = NULL;
    bool better = false;
    if (!p->peak || p->g->funcs[func].n_nodes > MOST_TASKS || is_called(p->g, func))
        return MLSYS_OK;
    mlsys_status st = mlsi_tasks_find(p, func, &t);
    if (st == MLSYS_OK) st = MLSI_NEW_N(p->g->alloc, t.n + 1, &order);
    for (int32_t i = 0; i < t.n && st == MLSYS_OK; i++)
        order[i] = i;
    if (st == MLSYS_OK) st = mlsi_order_search(&t, order, &better);
    mlsi_tasks_free(&t);
    if (st == MLSYS_OK && better) st = reorder(p, func, order);
    mlsi_mem_free(p->g->alloc, order);
    return st;
}
