/* Gradients of call, if and while.
 *
 * A function that is called gets an adjoint function: its inputs, then the adjoints of its results, to the
 * adjoints of its inputs; the forward values are computed again inside. It is built in a graph of its own and
 * imported, because a function may call later ones only.
 *
 * while: nobody knows the number of turns before the run, so no state is kept. The turns are counted; then
 * for each turn, from the last, the state before it is computed again from the first one and the body's
 * adjoint function applied: memory as for one turn, time with the square of the turns. */
#include "autodiff/reverse.h"

#include "core/faults.h"

#include <string.h>

typedef struct request {
    int32_t n_in, n_out;
    const bool *seeded; /* per result: an adjoint is given */
    const bool *wanted; /* per input: an adjoint is asked for */
    bool dense; /* zeros for what is structurally zero, so that all wanted ones are results */
} request;

static mlsys_status integer(mlsi_graph *g, int32_t func, int64_t value, int32_t *out) {
    mlsi_attr_full attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.dtype = MLSYS_I64;
    attrs.ivalue = value;
    return mlsi_build_node(g, func, MLSI_OP_FULL, &attrs, 0, NULL, 1, out);
}

static mlsys_status binary(mlsi_graph *g, int32_t func, mlsi_op op, int32_t a, int32_t b,
                           int32_t *out) {
    int32_t in[2] = {a, b};
    return mlsi_build_node(g, func, op, NULL, 2, in, 1, out);
}

static mlsys_status call(mlsi_graph *g, int32_t func, mlsi_op op, int64_t fn1, int64_t fn2,
                         int32_t n_in, const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_attr_control at;
    memset(&at, 0, sizeof at);
    at.fn1 = fn1;
    at.fn2 = fn2;
    return mlsi_build_node(g, func, op, &at, n_in, in, n_out, out);
}

/* A graph without functions: the first one to come is its main. */
static mlsys_status empty_graph(mlsi_graph *own, mlsi_ctx *ctx) {
    MLSI_TRY(mlsi_graph_init(own, ctx));
    mlsi_graph_truncate(own, 0);
    return MLSYS_OK;
}

/* ---- the adjoint of a function ------------------------------------------------------------- */

static mlsys_status build_adjoint(mlsi_graph *own, const request *r, int32_t *place) {
    int32_t y[MLSI_MAX_OPERANDS], seeds[MLSI_MAX_OPERANDS], x[MLSI_MAX_OPERANDS],
        dx[MLSI_MAX_OPERANDS], n_y = 0, n_x = 0, n = 0;
    for (int32_t i = 0; i < r->n_out; i++) {
        if (!r->seeded[i]) continue;
        mlsi_type t = *mlsi_type_of(own, 0, y[n_y] = own->funcs[0].outputs[i].value);
        MLSI_TRY(mlsi_build_input(own, 0, NULL, &t, &seeds[n_y++]));
    }
    for (int32_t i = 0; i < r->n_in; i++)
        if (r->wanted[i]) x[n_x++] = own->funcs[0].inputs[i];
    MLSI_TRY(mlsi_gradient(own, 0, n_y, y, seeds, n_x, x, dx));
    own->funcs[0].n_outputs = 0;
    for (int32_t i = 0, k = 0; i < r->n_in; i++) {
        place[i] = -1;
        if (!r->wanted[i]) continue;
        int32_t v = dx[k++];
        if (v < 0 && r->dense) MLSI_TRY(mlsi_full_like(own, 0, own->funcs[0].inputs[i], 0, &v));
        if (v < 0) continue;
        MLSI_TRY(mlsi_build_output(own, 0, NULL, v));
        place[i] = n++;
    }
    return MLSYS_OK;
}

/* The adjoint function of g's function `callee`, in g. place[i]: which of its results is the adjoint of
 * input i, -1 = none. *out -1: all are structurally zero. */
static mlsys_status adjoint_function(mlsi_graph *g, const mlsi_graph *from, int64_t callee,
                                     const request *r, int32_t *place, int32_t *out) {
    mlsi_graph own;
    int32_t main;
    *out = -1;
    MLSI_TRY(empty_graph(&own, g->ctx));
    mlsys_status st = mlsi_graph_import(&own, from, (int32_t)callee, &main);
    if (st == MLSYS_OK) st = build_adjoint(&own, r, place);
    if (st == MLSYS_OK && own.funcs[0].n_outputs) st = mlsi_graph_import(g, &own, 0, out);
    mlsi_graph_free(&own);
    return st;
}

static int32_t count(int32_t n, const bool *set) {
    int32_t c = 0;
    for (int32_t i = 0; i < n; i++)
        c += set[i];
    return c;
}

/* Operands of an adjoint function's call: the forward ones and the adjoints that are there. */
static mlsys_status arguments(const mlsi_vjp *v, int first, int32_t *in, bool *seeded, int32_t *n) {
    int64_t total = v->n_in - first;
    for (int i = 0; i < v->n_out; i++)
        total += seeded[i] = v->dout[i] >= 0;
    if (total > MLSI_MAX_OPERANDS - 1)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "gradient: a call with %lld operands and adjoints, at most %d",
                         (long long)total, MLSI_MAX_OPERANDS - 1);
    *n = 0;
    for (int i = first; i < v->n_in; i++)
        in[(*n)++] = v->in[i];
    for (int i = 0; i < v->n_out; i++)
        if (seeded[i]) in[(*n)++] = v->dout[i];
    return MLSYS_OK;
}

static mlsys_status vjp_call(mlsi_vjp *v) {
    const mlsi_attr_control *c = v->attrs;
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], place[MLSI_MAX_OPERANDS], n, fn;
    bool seeded[MLSI_MAX_OPERANDS];
    MLSI_TRY(arguments(v, 0, in, seeded, &n));
    request r = {v->n_in, v->n_out, seeded, v->wanted, false};
    MLSI_TRY(adjoint_function(v->graph, v->graph, c->fn1, &r, place, &fn));
    if (fn < 0) return MLSYS_OK;
    int32_t n_out = (int32_t)v->graph->funcs[fn].n_outputs;
    MLSI_TRY(call(v->graph, v->func, MLSI_OP_CALL, fn, 0, n, in, n_out, out));
    for (int i = 0; i < v->n_in; i++)
        if (place[i] >= 0) v->din[i] = out[place[i]];
    return MLSYS_OK;
}

static mlsys_status vjp_if(mlsi_vjp *v) {
    const mlsi_attr_control *c = v->attrs;
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], place[MLSI_MAX_OPERANDS], n, fn[2];
    bool seeded[MLSI_MAX_OPERANDS];
    in[0] = v->in[0];
    MLSI_TRY(arguments(v, 1, in + 1, seeded, &n));
    request r = {v->n_in - 1, v->n_out, seeded, v->wanted + 1, true};
    for (int k = 0; k < 2; k++)
        MLSI_TRY(adjoint_function(v->graph, v->graph, k ? c->fn2 : c->fn1, &r, place, &fn[k]));
    int32_t n_out = count(r.n_in, r.wanted);
    MLSI_TRY(call(v->graph, v->func, MLSI_OP_IF, fn[0], fn[1], n + 1, in, n_out, out));
    for (int i = 0; i < r.n_in; i++)
        if (place[i] >= 0) v->din[1 + i] = out[place[i]];
    return MLSYS_OK;
}

/* ---- while --------------------------------------------------------------------------------- */

/* What the functions of a while's gradient are made of. */
typedef struct loop {
    mlsi_graph *g;
    int64_t cond, body;
    int32_t n; /* carried values */
    mlsi_type type[MLSI_MAX_OPERANDS];
    bool is_float[MLSI_MAX_OPERANDS];
    int32_t n_floats;
} loop;

/* A graph with one function, whose inputs are the carried values and `extra` i64 scalars. */
static mlsys_status begin(const loop *l, mlsi_graph *own, int extra, int32_t *in) {
    static const mlsi_type number = {.dtype = MLSYS_I64};
    int32_t func;
    MLSI_TRY(mlsi_func_add(own, "turn", &func));
    for (int32_t i = 0; i < l->n + extra; i++) {
        mlsi_type t = i < l->n ? l->type[i] : number;
        for (int d = 0; d < t.rank; d++)
            MLSI_TRY(mlsi_dim_import(&own->symbols, &l->g->symbols, t.dims[d], &t.dims[d]));
        MLSI_TRY(mlsi_build_input(own, 0, NULL, &t, &in[i]));
    }
    return MLSYS_OK;
}

typedef mlsys_status (*build_fn)(const loop *l, mlsi_graph *own);

static mlsys_status add_function(const loop *l, mlsi_graph *to, build_fn build, int32_t *out) {
    mlsi_graph own;
    MLSI_TRY(empty_graph(&own, l->g->ctx));
    mlsys_status st = build(l, &own);
    if (st == MLSYS_OK) st = mlsi_graph_import(to, &own, 0, out);
    mlsi_graph_free(&own);
    return st;
}

/* cond(state, ...) for the counting loop, whose last value is the count. */
static mlsys_status build_count_cond(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], fn, flag;
    MLSI_TRY(begin(l, own, 1, in));
    MLSI_TRY(mlsi_graph_import(own, l->g, (int32_t)l->cond, &fn));
    MLSI_TRY(call(own, 0, MLSI_OP_CALL, fn, 0, l->n, in, 1, &flag));
    return mlsi_build_output(own, 0, NULL, flag);
}

/* (state, n) to (body(state), n + 1) */
static mlsys_status build_count_body(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], fn, one, next;
    MLSI_TRY(begin(l, own, 1, in));
    MLSI_TRY(mlsi_graph_import(own, l->g, (int32_t)l->body, &fn));
    MLSI_TRY(call(own, 0, MLSI_OP_CALL, fn, 0, l->n, in, l->n, out));
    MLSI_TRY(integer(own, 0, 1, &one));
    MLSI_TRY(binary(own, 0, MLSI_OP_ADD, in[l->n], one, &next));
    for (int32_t i = 0; i < l->n; i++)
        MLSI_TRY(mlsi_build_output(own, 0, NULL, out[i]));
    return mlsi_build_output(own, 0, NULL, next);
}

/* (state, turns left) : turns left > 0 */
static mlsys_status build_replay_cond(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], zero, flag;
    MLSI_TRY(begin(l, own, 1, in));
    MLSI_TRY(integer(own, 0, 0, &zero));
    MLSI_TRY(binary(own, 0, MLSI_OP_GT, in[l->n], zero, &flag));
    return mlsi_build_output(own, 0, NULL, flag);
}

/* (state, turns left) to (body(state), turns left - 1) */
static mlsys_status build_replay_body(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], fn, one, next;
    MLSI_TRY(begin(l, own, 1, in));
    MLSI_TRY(mlsi_graph_import(own, l->g, (int32_t)l->body, &fn));
    MLSI_TRY(call(own, 0, MLSI_OP_CALL, fn, 0, l->n, in, l->n, out));
    MLSI_TRY(integer(own, 0, 1, &one));
    MLSI_TRY(binary(own, 0, MLSI_OP_SUB, in[l->n], one, &next));
    for (int32_t i = 0; i < l->n; i++)
        MLSI_TRY(mlsi_build_output(own, 0, NULL, out[i]));
    return mlsi_build_output(own, 0, NULL, next);
}

/* Inputs of the loop backwards: first state, turns left, adjoints of the floats. */
static mlsys_status begin_back(const loop *l, mlsi_graph *own, int32_t *in) {
    MLSI_TRY(begin(l, own, 1, in));
    for (int32_t i = 0, k = l->n + 1; i < l->n; i++) {
        if (!l->is_float[i]) continue;
        mlsi_type t = *mlsi_type_of(own, 0, in[i]);
        MLSI_TRY(mlsi_build_input(own, 0, NULL, &t, &in[k++]));
    }
    return MLSYS_OK;
}

static mlsys_status build_back_cond(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], zero, flag;
    MLSI_TRY(begin_back(l, own, in));
    MLSI_TRY(integer(own, 0, 0, &zero));
    MLSI_TRY(binary(own, 0, MLSI_OP_GT, in[l->n], zero, &flag));
    return mlsi_build_output(own, 0, NULL, flag);
}

/* (first, k, adjoints) to (first, k - 1, body's adjoints at the state after k - 1 turns). */
static mlsys_status build_back_body(const loop *l, mlsi_graph *own) {
    int32_t in[MLSI_MAX_OPERANDS], state[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS],
        place[MLSI_MAX_OPERANDS], cond, body, adjoint, one, left;
    MLSI_TRY(begin_back(l, own, in));
    MLSI_TRY(integer(own, 0, 1, &one));
    MLSI_TRY(binary(own, 0, MLSI_OP_SUB, in[l->n], one, &left));
    MLSI_TRY(add_function(l, own, build_replay_cond, &cond));
    MLSI_TRY(add_function(l, own, build_replay_body, &body));
    memcpy(state, in, sizeof *in * (size_t)l->n);
    state[l->n] = mlsi_fault(MLSI_FAULT_ADJOINT_TURNS) ? in[l->n] : left;
    MLSI_TRY(call(own, 0, MLSI_OP_WHILE, cond, body, l->n + 1, state, l->n + 1, out));
    request r = {l->n, l->n, l->is_float, l->is_float, true};
    MLSI_TRY(adjoint_function(own, l->g, l->body, &r, place, &adjoint));
    memcpy(state, out, sizeof *out * (size_t)l->n);
    memcpy(state + l->n, in + l->n + 1, sizeof *in * (size_t)l->n_floats);
    MLSI_TRY(call(own, 0, MLSI_OP_CALL, adjoint, 0, l->n + l->n_floats, state, l->n_floats, out));
    for (int32_t i = 0; i < l->n; i++)
        MLSI_TRY(mlsi_build_output(own, 0, NULL, in[i]));
    MLSI_TRY(mlsi_build_output(own, 0, NULL, left));
    for (int32_t i = 0; i < l->n_floats; i++)
        MLSI_TRY(mlsi_build_output(own, 0, NULL, out[i]));
    return MLSYS_OK;
}

static mlsys_status begin_loop(const mlsi_vjp *v, loop *l) {
    const mlsi_attr_control *c = v->attrs;
    *l = (loop){.g = v->graph, .cond = c->fn1, .body = c->fn2, .n = v->n_in};
    for (int32_t i = 0; i < l->n; i++) {
        l->type[i] = *mlsi_type_of(v->graph, v->func, v->in[i]);
        l->n_floats += l->is_float[i] = mlsi_dtype_is_float(l->type[i].dtype);
    }
    if (l->n + l->n_floats + 1 <= MLSI_MAX_OPERANDS) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "gradient: while: %d carried values, %d of them floats: the way "
                     "back carries more than %d",
                     l->n, l->n_floats, MLSI_MAX_OPERANDS);
}

static mlsys_status vjp_while(mlsi_vjp *v) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], cond, body;
    loop l;
    MLSI_TRY(begin_loop(v, &l));
    memcpy(in, v->in, sizeof *in * (size_t)l.n);
    MLSI_TRY(integer(v->graph, v->func, 0, &in[l.n]));
    MLSI_TRY(add_function(&l, v->graph, build_count_cond, &cond));
    MLSI_TRY(add_function(&l, v->graph, build_count_body, &body));
    MLSI_TRY(call(v->graph, v->func, MLSI_OP_WHILE, cond, body, l.n + 1, in, l.n + 1, out));
    in[l.n] = out[l.n];
    for (int32_t i = 0, k = l.n + 1; i < l.n; i++) {
        if (!l.is_float[i]) continue;
        in[k] = v->dout[i];
        if (in[k] < 0) MLSI_TRY(mlsi_full_like(v->graph, v->func, v->in[i], 0, &in[k]));
        k++;
    }
    MLSI_TRY(add_function(&l, v->graph, build_back_cond, &cond));
    MLSI_TRY(add_function(&l, v->graph, build_back_body, &body));
    int32_t n = l.n + 1 + l.n_floats;
    MLSI_TRY(call(v->graph, v->func, MLSI_OP_WHILE, cond, body, n, in, n, out));
    for (int32_t i = 0, k = l.n + 1; i < l.n; i++)
        if (l.is_float[i]) v->din[i] = out[k++];
    return MLSYS_OK;
}

mlsys_status mlsi_vjp_control(mlsi_vjp *v, mlsi_op op) {
    return op == MLSI_OP_CALL ? vjp_call(v) : op == MLSI_OP_IF ? vjp_if(v) : vjp_while(v);
}
