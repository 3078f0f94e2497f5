/* Gradient rules of custom ops. The rule gets a graph handle of its own: a window on the function that is being
 * differentiated, which is in use by that call, may be no public graph, and need not be its main function. While
 * the rule runs, mlsys_graph_op, _const, _dim and _type of its thread pass through; every other call finds the
 * window in use. Afterwards the window is an empty graph, whoever may have kept it. */
#include "api/api.h"
#include "api/api_graph.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char this_thread; /* its address tells threads apart */

/* ---- calls that may pass through ----------------------------------------------------------- */

mlsys_status mlsi_graph_call_begin(mlsys_graph handle, const char *what, mlsi_graph_call *c) {
    mlsi_graph *g;
    memset(c, 0, sizeof *c);
    MLSI_TRY(mlsi_pin(handle, MLSYS_KIND_GRAPH, what, &g));
    if (atomic_load(&g->window.thread) != &this_thread) {
        mlsi_unpin(g);
        MLSI_TRY(mlsi_pin_exclusive(handle, MLSYS_KIND_GRAPH, what, &c->named));
        c->graph = c->named;
        return MLSYS_OK;
    }
    if (g->window.in_call) { /* from a callback of a call that passes through */
        mlsi_unpin(g);
        return mlsi_fail(MLSYS_E_BUSY, "%s: the graph is in use by another call", what);
    }
    g->window.in_call = true;
    c->named = g;
    c->graph = g->window.graph;
    c->func = g->window.func;
    return MLSYS_OK;
}

void mlsi_graph_call_end(mlsi_graph_call *c) {
    if (!c->named) return;
    if (c->graph == c->named) {
        mlsi_unpin_exclusive(c->named);
        return;
    }
    c->named->window.in_call = false;
    mlsi_unpin(c->named);
}

mlsys_value mlsi_graph_call_value(const mlsi_graph_call *c, int32_t v) {
    return (int64_t)c->named->serial << 32 | (int64_t)(v + 1);
}

mlsys_status mlsi_graph_call_own(const mlsi_graph_call *c, mlsys_value v, const char *what,
                                 int32_t *out) {
    int64_t n = (v & 0xffffffff) - 1;
    if (v <= 0 || (uint32_t)(v >> 32) != c->named->serial || n < 0 ||
        n >= c->graph->funcs[c->func].n_values)
        return mlsi_fail(MLSYS_E_ARG, "%s: %lld is not a value of this graph", what, (long long)v);
    *out = (int32_t)n;
    return MLSYS_OK;
}

/* ---- the rule ------------------------------------------------------------------------------- */

typedef struct rule_values {
    mlsys_value in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], dout[MLSI_MAX_OPERANDS],
        din[MLSI_MAX_OPERANDS];
    int32_t wanted[MLSI_MAX_OPERANDS];
} rule_values;

static void values_of(const mlsi_graph_call *c, const mlsi_vjp *v, rule_values *r) {
    memset(r, 0, sizeof *r);
    for (int k = 0; k < v->n_in; k++) {
        if (v->in[k] >= 0) r->in[k] = mlsi_graph_call_value(c, v->in[k]);
        r->wanted[k] = v->wanted[k];
    }
    for (int k = 0; k < v->n_out; k++) {
        r->out[k] = mlsi_graph_call_value(c, v->out[k]);
        if (v->dout[k] >= 0) r->dout[k] = mlsi_graph_call_value(c, v->dout[k]);
    }
}

/* The rule's answers, which may be anything. */
static mlsys_status take_answers(const mlsi_graph_call *c, const char *op, const rule_values *r,
                                 mlsi_vjp *v) {
    char have[160], want[160], what[96];
    const mlsi_symtab *tab = &v->graph->symbols;
    for (int k = 0; k < v->n_in; k++) {
        int32_t value;
        if (!v->wanted[k] || !r->din[k]) continue;
        snprintf(what, sizeof what, "custom op %s: gradient: din[%d]", op, k);
        if (mlsi_graph_call_own(c, r->din[k], what, &value) != MLSYS_OK)
            return mlsi_fail_in(MLSYS_E_CALLBACK, "gradient");
        const mlsi_type *a = mlsi_type_of(v->graph, v->func, value);
        const mlsi_type *b = mlsi_type_of(v->graph, v->func, v->in[k]);
        if (!mlsi_type_equal(a, b) && !mlsi_fault(MLSI_FAULT_CUSTOM_GRADIENT_TYPE))
            return mlsi_fail(MLSYS_E_CALLBACK, "%s is %s, the operand is %s", what,
                             mlsi_type_text(tab, a, have, sizeof have),
                             mlsi_type_text(tab, b, want, sizeof want));
        v->din[k] = value;
    }
    return MLSYS_OK;
}

static mlsys_status call_rule(const mlsi_custom_op *op, const mlsi_config *attrs,
                              mlsys_graph handle, const mlsi_graph_call *c, mlsi_vjp *v) {
    rule_values r;
    values_of(c, v, &r);
    mlsys_config own = attrs ? (mlsys_config)(uintptr_t)attrs->object.handle : NULL;
    mlsys_status st = op->def.gradient(op->def.user, handle, v->n_in, r.in, own, v->n_out, r.out,
                                       r.dout, r.wanted, r.din);
    if (st == MLSYS_OK) return take_answers(c, op->name, &r, v);
    if (mlsys_last_status() != st) /* the recorded sentence is older than this failure */
        return mlsi_fail(MLSYS_E_CALLBACK, "custom op %s: gradient returned %s", op->name,
                         mlsys_status_name(st));
    return mlsi_fail_in(MLSYS_E_CALLBACK, "custom op %s: gradient returned %s", op->name,
                        mlsys_status_name(st));
}

mlsys_status mlsi_custom_vjp(const mlsi_custom_op *op, const mlsi_config *attrs, mlsi_vjp *v) {
    mlsys_graph handle;
    mlsi_graph *window;
    MLSI_TRY(mlsi_graph_create(v->graph->ctx, &handle, &window));
    /* Taken like any object in use: what may not pass through is refused by that. */
    mlsys_status st = mlsi_pin_exclusive(handle, MLSYS_KIND_GRAPH, "gradient", &window);
    if (st == MLSYS_OK) {
        window->window.graph = v->graph;
        window->window.func = v->func;
        atomic_store(&window->window.thread, &this_thread);
        const mlsi_graph_call c = {window, v->graph, v->func};
        st = call_rule(op, attrs, handle, &c, v);
        atomic_store(&window->window.thread, NULL);
        window->window.graph = NULL;
        mlsi_unpin_exclusive(window);
    }
    if (mlsi_handle_release(handle, "gradient") != MLSYS_OK)
        return mlsi_fail(MLSYS_E_CALLBACK,
                         "custom op %s: gradient released the graph that it was lent", op->name);
    return st;
}
