#include "api/api.h"
#include "api/api_graph.h"
#include "autodiff/forward.h"
#include "autodiff/reverse.h"
#include "ir/passes/passes.h"
#include "run/program.h"

#include <string.h>

enum { MAX_GRADIENTS = 1 << 20 }; /* values of one call */

static void destroy(mlsi_object *self) {
    mlsi_graph *g = (mlsi_graph *)self;
    mlsi_alloc *a = g->alloc;
    mlsi_graph_free(g);
    mlsi_mem_free(a, g);
}

mlsys_status mlsi_graph_create(mlsi_ctx *ctx, mlsys_graph *out, mlsi_graph **object) {
    mlsi_graph *g;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &g));
    mlsys_status st = mlsi_graph_init(g, ctx);
    if (st == MLSYS_OK) {
        st = mlsi_handle_create(&g->object, MLSYS_KIND_GRAPH, ctx, destroy, out);
        if (st != MLSYS_OK) mlsi_graph_free(g);
    }
    if (st != MLSYS_OK) {
        mlsi_mem_free(&ctx->alloc, g);
        return st;
    }
    *object = g;
    return MLSYS_OK;
}

static mlsys_value public_value(mlsi_graph *g, int32_t v) {
    const mlsi_graph_call c = {g, g, 0};
    return mlsi_graph_call_value(&c, v);
}

static mlsys_status own_value(mlsi_graph *g, mlsys_value v, const char *what, int32_t *out) {
    const mlsi_graph_call c = {g, g, 0};
    return mlsi_graph_call_own(&c, v, what, out);
}

mlsys_status mlsys_graph_create(mlsys_ctx ctx, mlsys_graph *out) {
    mlsi_ctx *c;
    mlsi_graph *g;
    API_OUT_HANDLE(out, "graph_create: out");
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "graph_create: ctx", &c));
    mlsys_status st = mlsi_graph_create(c, out, &g);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_graph_symbol(mlsys_graph graph, const char *name, int64_t min, int64_t max,
                                int64_t divisor, mlsys_dim *out) {
    mlsi_graph *g;
    API_NOT_NULL(out, "graph_symbol: out");
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_symbol: g", &g));
    mlsys_status st = mlsi_dim_symbol(&g->symbols, name, min, max, divisor, out);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_dim(mlsys_graph graph, int32_t op, mlsys_dim a, mlsys_dim b,
                             mlsys_dim *out) {
    mlsi_graph_call c;
    API_NOT_NULL(out, "graph_dim: out");
    MLSI_TRY(mlsi_graph_call_begin(graph, "graph_dim: g", &c));
    mlsys_status st = mlsi_dim_op(&c.graph->symbols, op, a, b, out);
    mlsi_graph_call_end(&c);
    return st;
}

mlsys_status mlsys_graph_input(mlsys_graph graph, const char *name, mlsys_dtype dtype, int32_t ndim,
                               const mlsys_dim *shape, mlsys_value *out) {
    mlsi_graph *g;
    int32_t v;
    mlsi_type t = {.dtype = dtype, .rank = ndim};
    API_NOT_NULL(out, "graph_input: out");
    *out = 0;
    if (ndim < 0 || ndim > MLSYS_MAX_DIMS)
        return mlsi_fail(MLSYS_E_SHAPE, "graph_input: ndim %d outside [0,%d]", ndim,
                         MLSYS_MAX_DIMS);
    if (ndim) {
        API_NOT_NULL(shape, "graph_input: shape");
        memcpy(t.dims, shape, sizeof *shape * (size_t)ndim);
    }
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_input: g", &g));
    mlsys_status st = mlsi_build_input(g, 0, name, &t, &v);
    if (st == MLSYS_OK) *out = public_value(g, v);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_donate(mlsys_graph graph, mlsys_value input) {
    mlsi_graph *g;
    int32_t v;
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_donate: g", &g));
    mlsys_status st = own_value(g, input, "graph_donate: input", &v);
    if (st == MLSYS_OK && g->funcs[0].values[v].kind != MLSI_VALUE_INPUT)
        st = mlsi_fail(MLSYS_E_ARG, "graph_donate: value %d is not an input", v);
    if (st == MLSYS_OK) g->funcs[0].donated[g->funcs[0].values[v].index] = true;
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_const(mlsys_graph graph, mlsys_tensor tensor, mlsys_value *out) {
    mlsi_graph_call c;
    mlsi_tensor *t;
    int32_t v;
    API_NOT_NULL(out, "graph_const: out");
    *out = 0;
    MLSI_TRY(mlsi_graph_call_begin(graph, "graph_const: g", &c));
    mlsys_status st = mlsi_pin(tensor, MLSYS_KIND_TENSOR, "graph_const: t", &t);
    if (st == MLSYS_OK) {
        st = mlsi_api_same_ctx(&c.named->object, &t->object, "graph_const: t");
        if (st == MLSYS_OK) st = mlsi_build_const(c.graph, c.func, t, &v);
        if (st == MLSYS_OK) *out = mlsi_graph_call_value(&c, v);
        mlsi_unpin(t);
    }
    mlsi_graph_call_end(&c);
    return st;
}

/* A copy, so that later changes of the caller's config do not reach the graph. Which of its lists are
 * shapes is the custom op's secret, so dims could not be translated when the graph is copied. */
static mlsys_status copy_config(const char *op, const mlsi_config *from, mlsi_config **out) {
    mlsys_config handle;
    *out = NULL;
    if (!from) return MLSYS_OK;
    for (int64_t i = 0; i < from->count; i++)
        for (int32_t k = 0; from->entries[i].type == 'v' && k < from->entries[i].n; k++)
            if (from->entries[i].v[k] <= MLSI_DIM_CODE && from->entries[i].v[k] != INT64_MIN)
                return mlsi_fail(
                    MLSYS_E_UNSUPPORTED,
                    "%s: attribute %s: entry %d is a symbolic dim; a custom op takes numbers", op,
                    from->entries[i].key, k);
    MLSI_TRY(mlsi_config_create(&handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_CONFIG, "config", out);
    for (int64_t i = 0; i < from->count && st == MLSYS_OK; i++)
        st = mlsi_config_set(*out, from->entries[i].key, &from->entries[i]);
    if (st != MLSYS_OK) {
        mlsi_unpin(*out);
        *out = NULL;
        mlsys_release(handle);
    }
    return st; /* the user reference keeps the handle valid for the op's callbacks */
}

mlsys_status mlsi_graph_add_op(mlsi_graph *g, int32_t func, const char *name,
                               const mlsi_config *attrs, int32_t n_in, const int32_t *in,
                               int32_t n_out, int32_t *out) {
    mlsi_op op = mlsi_op_by_name(name);
    const mlsi_custom_op *custom = NULL;
    if (op == MLSI_OP_CUSTOM || op == MLSI_OP_CALL || op == MLSI_OP_IF || op == MLSI_OP_WHILE)
        return mlsi_fail(MLSYS_E_ARG,
                         "op: \"%s\" is made by mlsys_graph_control or mlsys_op_register", name);
    if (op == MLSI_OP_COUNT) {
        custom = mlsi_custom_op_find(g->ctx, name);
        if (!custom) return mlsi_fail(MLSYS_E_NOTFOUND, "op: no op \"%.64s\"", name);
    }
    if (custom) {
        mlsi_attr_custom a = {g->n_customs};
        mlsi_custom_use use = {custom, NULL};
        if (n_in != custom->def.n_in || n_out != custom->def.n_out)
            return mlsi_fail(MLSYS_E_ARG, "%s: %d operands and %d results given, takes %d and %d",
                             name, n_in, n_out, custom->def.n_in, custom->def.n_out);
        MLSI_TRY(MLSI_GROW(g->alloc, &g->customs, &g->cap_customs, g->n_customs + 1));
        MLSI_TRY(copy_config(name, attrs, &use.attrs));
        g->customs[g->n_customs++] = use;
        return mlsi_build_node(g, func, MLSI_OP_CUSTOM, &a, n_in, in, n_out, out);
    }
    const mlsi_op_def *def = mlsi_op_get(op);
    _Alignas(16) char own[1024];
    if (def->attrs_size > sizeof own)
        return mlsi_fail(MLSYS_E_INTERNAL, "%s: attributes of %zu bytes", name, def->attrs_size);
    MLSI_TRY(mlsi_attrs_from_config(def, name, &g->symbols, attrs, own));
    return mlsi_build_node(g, func, op, own, n_in, in, n_out, out);
}

static mlsys_status check_counts(const char *what, int32_t n_in, const void *in, int32_t n_out,
                                 const void *out) {
    if (n_in < 0 || n_in > MLSI_MAX_OPERANDS || n_out < 1 || n_out > MLSI_MAX_OPERANDS)
        return mlsi_fail(MLSYS_E_ARG, "%s: n_in %d outside [0,%d] or n_out %d outside [1,%d]", what,
                         n_in, MLSI_MAX_OPERANDS, n_out, MLSI_MAX_OPERANDS);
    if ((n_in && !in) || !out) return mlsi_fail(MLSYS_E_ARG, "%s: in or out is NULL", what);
    return MLSYS_OK;
}

static mlsys_status own_values(const mlsi_graph_call *c, int32_t n, const mlsys_value *in,
                               const char *what, int32_t *out) {
    for (int32_t i = 0; i < n; i++) {
        out[i] = -1;
        if (in[i] && mlsi_graph_call_own(c, in[i], what, &out[i]) != MLSYS_OK)
            return mlsi_fail_in(MLSYS_E_ARG, "operand %d", i);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_graph_own_values(mlsi_graph *g, int32_t n, const mlsys_value *in,
                                   const char *what, int32_t *out) {
    return own_values(&(mlsi_graph_call){g, g, 0}, n, in, what, out);
}

mlsys_status mlsys_graph_op(mlsys_graph graph, const char *op, int32_t n_in, const mlsys_value *in,
                            mlsys_config attrs, int32_t n_out, mlsys_value *out) {
    API_COMPUTES;
    mlsi_graph_call call = {0};
    mlsi_config *c = NULL;
    int32_t values[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    API_NOT_NULL(op, "graph_op: op");
    MLSI_TRY(check_counts("graph_op", n_in, in, n_out, out));
    mlsys_status st = mlsi_graph_call_begin(graph, "graph_op: g", &call);
    if (st == MLSYS_OK) st = own_values(&call, n_in, in, op, values);
    for (int i = 0; i < n_out; i++)
        out[i] = 0; /* now: in and out may be one array */
    if (st == MLSYS_OK && attrs)
        st = mlsi_pin_exclusive(attrs, MLSYS_KIND_CONFIG, "graph_op: attrs", &c);
    if (st == MLSYS_OK)
        st = mlsi_graph_add_op(call.graph, call.func, op, c, n_in, values, n_out, results);
    for (int i = 0; i < n_out && st == MLSYS_OK; i++)
        out[i] = mlsi_graph_call_value(&call, results[i]);
    mlsi_unpin_exclusive(c);
    mlsi_graph_call_end(&call);
    return st;
}

static mlsys_status import_callee(mlsi_graph *g, mlsys_graph handle, const char *what,
                                  int64_t *out) {
    mlsi_graph *callee;
    int32_t func = 0;
    MLSI_TRY(mlsi_pin_exclusive(handle, MLSYS_KIND_GRAPH, what, &callee));
    mlsys_status st = mlsi_api_same_ctx(&g->object, &callee->object, what);
    if (st == MLSYS_OK) st = mlsi_graph_import(g, callee, 0, &func);
    mlsi_unpin_exclusive(callee);
    *out = func;
    return st;
}

mlsys_status mlsys_graph_control(mlsys_graph graph, const char *kind, mlsys_graph g1,
                                 mlsys_graph g2, int32_t n_in, const mlsys_value *in, int32_t n_out,
                                 mlsys_value *out) {
    mlsi_graph *g = NULL;
    mlsi_attr_control a = {0, 0};
    int32_t values[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    API_NOT_NULL(kind, "graph_control: kind");
    MLSI_TRY(check_counts("graph_control", n_in, in, n_out, out));
    mlsi_op op = mlsi_op_by_name(kind);
    if (op != MLSI_OP_CALL && op != MLSI_OP_IF && op != MLSI_OP_WHILE)
        return mlsi_fail(MLSYS_E_ARG, "graph_control: kind \"%.32s\" is not call, if or while",
                         kind);
    if (op == MLSI_OP_CALL && g2)
        return mlsi_fail(MLSYS_E_ARG, "graph_control: g2 is given, but call takes one function");
    mlsys_status st = mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_control: g", &g);
    if (st == MLSYS_OK) st = own_values(&(mlsi_graph_call){g, g, 0}, n_in, in, kind, values);
    for (int i = 0; i < n_out; i++)
        out[i] = 0;
    int64_t before = g ? g->n_funcs : 0;
    if (st == MLSYS_OK) st = import_callee(g, g1, "graph_control: g1", &a.fn1);
    if (st == MLSYS_OK && op != MLSI_OP_CALL)
        st = import_callee(g, g2, "graph_control: g2", &a.fn2);
    if (st == MLSYS_OK) st = mlsi_build_node(g, 0, op, &a, n_in, values, n_out, results);
    if (st != MLSYS_OK && g) mlsi_graph_truncate(g, before);
    for (int i = 0; i < n_out && st == MLSYS_OK; i++)
        out[i] = public_value(g, results[i]);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_output(mlsys_graph graph, const char *name, mlsys_value v) {
    mlsi_graph *g;
    int32_t value;
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_output: g", &g));
    mlsys_status st = own_value(g, v, "graph_output: v", &value);
    if (st == MLSYS_OK) st = mlsi_build_output(g, 0, name, value);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_type(mlsys_graph graph, mlsys_value v, mlsys_dtype *dtype, int32_t cap,
                              mlsys_dim *shape, int32_t *ndim) {
    mlsi_graph_call c;
    int32_t value;
    MLSI_TRY(mlsi_graph_call_begin(graph, "graph_type: g", &c));
    mlsys_status st = mlsi_graph_call_own(&c, v, "graph_type: v", &value);
    if (st == MLSYS_OK) {
        const mlsi_type *t = mlsi_type_of(c.graph, c.func, value);
        if (dtype) *dtype = t->dtype;
        if (ndim) *ndim = t->rank;
        if (cap < 0 || (cap && !shape))
            st = mlsi_fail(MLSYS_E_ARG, "graph_type: cap %d with shape %s", cap,
                           shape ? "" : "NULL");
        else if (shape && cap < t->rank)
            st = mlsi_fail(MLSYS_E_BUFFER, "graph_type: rank %d, room for %d", t->rank, cap);
        else if (shape)
            memcpy(shape, t->dims, sizeof *shape * (size_t)t->rank);
    }
    mlsi_graph_call_end(&c);
    return st;
}

mlsys_status mlsys_graph_find(mlsys_graph graph, const char *name, mlsys_value *out) {
    mlsi_graph *g;
    int32_t found = -1;
    API_NOT_NULL(name, "graph_find: name");
    API_NOT_NULL(out, "graph_find: out");
    *out = 0;
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_find: g", &g));
    const mlsi_func *f = &g->funcs[0];
    for (int64_t i = 0; i < f->n_inputs && found < 0; i++) {
        const char *have = f->values[f->inputs[i]].name;
        if (have && !strcmp(have, name)) found = f->inputs[i];
    }
    for (int64_t i = 0; i < f->n_outputs && found < 0; i++)
        if (f->outputs[i].name && !strcmp(f->outputs[i].name, name)) found = f->outputs[i].value;
    mlsys_status st = MLSYS_OK;
    if (found < 0)
        st = mlsi_fail(MLSYS_E_NOTFOUND, "graph_find: no input or output \"%.96s\"", name);
    else
        *out = public_value(g, found);
    mlsi_unpin_exclusive(g);
    return st;
}

/* y, seeds, x and dx one behind the other in v. */
static mlsys_status gradient(mlsi_graph *g, const mlsi_checkpoint *c, int32_t n_y,
                             const mlsys_value *y, const mlsys_value *seeds, int32_t n_x,
                             const mlsys_value *x, int32_t *v, mlsys_value *dx) {
    int32_t *seed = v + n_y, *by = seed + n_y, *out = by + n_x;
    for (int32_t j = 0; j < n_x; j++)
        MLSI_TRY(own_value(g, x[j], "graph_gradient: x", &by[j]));
    for (int32_t i = 0; i < n_y; i++) {
        seed[i] = -1;
        MLSI_TRY(own_value(g, y[i], "graph_gradient: y", &v[i]));
        if (seeds && seeds[i]) MLSI_TRY(own_value(g, seeds[i], "graph_gradient: seeds", &seed[i]));
    }
    MLSI_TRY(mlsi_gradient_keeping(g, 0, c, n_y, v, seed, n_x, by, out));
    for (int32_t j = 0; j < n_x; j++)
        dx[j] = out[j] < 0 ? 0 : public_value(g, out[j]);
    return MLSYS_OK;
}

mlsys_status mlsys_graph_gradient(mlsys_graph graph, int32_t n_y, const mlsys_value *y,
                                  const mlsys_value *seeds, int32_t n_x, const mlsys_value *x,
                                  mlsys_config config, mlsys_value *dx) {
    mlsi_graph *g;
    mlsi_config *settings = NULL;
    mlsi_checkpoint c;
    int32_t *v;
    API_NOT_NULL(y, "graph_gradient: y");
    API_NOT_NULL(x, "graph_gradient: x");
    API_NOT_NULL(dx, "graph_gradient: dx");
    if (n_y < 1 || n_x < 1 || n_y > MAX_GRADIENTS || n_x > MAX_GRADIENTS)
        return mlsi_fail(MLSYS_E_ARG, "graph_gradient: %d outputs by %d values, 1 to %d", n_y, n_x,
                         MAX_GRADIENTS);
    memset(dx, 0, sizeof *dx * (size_t)n_x);
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_gradient: g", &g));
    mlsys_status st = MLSYS_OK;
    if (config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "graph_gradient: config", &settings);
    if (st == MLSYS_OK) st = mlsi_checkpoint_read(settings, &c);
    if (st == MLSYS_OK) st = MLSI_NEW_N(g->alloc, 2 * (n_y + n_x), &v);
    if (st == MLSYS_OK) {
        st = gradient(g, &c, n_y, y, seeds, n_x, x, v, dx);
        mlsi_mem_free(g->alloc, v);
    }
    mlsi_unpin_exclusive(settings);
    mlsi_unpin_exclusive(g);
    return st;
}

/* x, dx, y and dy one behind the other in v. */
static mlsys_status tangent(mlsi_graph *g, int32_t n_x, const mlsys_value *x, const mlsys_value *dx,
                            int32_t n_y, const mlsys_value *y, int32_t *v, mlsys_value *dy) {
    int32_t *by = v + n_x, *of = by + n_x, *out = of + n_y;
    for (int32_t j = 0; j < n_x; j++) {
        by[j] = -1;
        MLSI_TRY(own_value(g, x[j], "graph_tangent: x", &v[j]));
        if (dx[j]) MLSI_TRY(own_value(g, dx[j], "graph_tangent: dx", &by[j]));
    }
    for (int32_t i = 0; i < n_y; i++)
        MLSI_TRY(own_value(g, y[i], "graph_tangent: y", &of[i]));
    MLSI_TRY(mlsi_tangent(g, 0, n_x, v, by, n_y, of, out));
    for (int32_t i = 0; i < n_y; i++)
        dy[i] = out[i] < 0 ? 0 : public_value(g, out[i]);
    return MLSYS_OK;
}

mlsys_status mlsys_graph_tangent(mlsys_graph graph, int32_t n_x, const mlsys_value *x,
                                 const mlsys_value *dx, int32_t n_y, const mlsys_value *y,
                                 mlsys_value *dy) {
    mlsi_graph *g;
    int32_t *v;
    API_NOT_NULL(x, "graph_tangent: x");
    API_NOT_NULL(dx, "graph_tangent: dx");
    API_NOT_NULL(y, "graph_tangent: y");
    API_NOT_NULL(dy, "graph_tangent: dy");
    if (n_y < 1 || n_x < 1 || n_y > MAX_GRADIENTS || n_x > MAX_GRADIENTS)
        return mlsi_fail(MLSYS_E_ARG, "graph_tangent: %d outputs by %d values, 1 to %d", n_y, n_x,
                         MAX_GRADIENTS);
    memset(dy, 0, sizeof *dy * (size_t)n_y);
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_tangent: g", &g));
    mlsys_status st = MLSI_NEW_N(g->alloc, 2 * (n_y + n_x), &v);
    if (st == MLSYS_OK) {
        st = tangent(g, n_x, x, dx, n_y, y, v, dy);
        mlsi_mem_free(g->alloc, v);
    }
    mlsi_unpin_exclusive(g);
    return st;
}

static mlsys_status narrow(mlsi_graph *g, mlsys_dtype dtype, const mlsi_config *c, int32_t n,
                           mlsys_value *values, int32_t *v) {
    for (int32_t i = 0; i < n; i++)
        MLSI_TRY(own_value(g, values[i], "graph_narrow: values", &v[i]));
    MLSI_TRY(mlsi_graph_narrow(g, dtype, c, n, v));
    mlsi_graph_renumber(g); /* values that the caller kept elsewhere are refused from now on */
    for (int32_t i = 0; i < n; i++)
        values[i] = public_value(g, v[i]);
    return MLSYS_OK;
}

mlsys_status mlsys_graph_narrow(mlsys_graph graph, mlsys_dtype dtype, mlsys_config config,
                                int32_t n, mlsys_value *values) {
    API_COMPUTES;
    mlsi_graph *g;
    mlsi_config *c = NULL;
    int32_t *v;
    if (n < 0 || n > MAX_GRADIENTS)
        return mlsi_fail(MLSYS_E_ARG, "graph_narrow: n is %d, outside [0,%d]", n, MAX_GRADIENTS);
    if (n) API_NOT_NULL(values, "graph_narrow: values");
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_narrow: g", &g));
    mlsys_status st = MLSI_NEW_N(g->alloc, n + 1, &v);
    if (st == MLSYS_OK) {
        if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "graph_narrow: config", &c);
        if (st == MLSYS_OK) st = narrow(g, dtype, c, n, values, v);
        mlsi_unpin_exclusive(c);
        mlsi_mem_free(g->alloc, v);
    }
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_verify(mlsys_graph graph) {
    mlsi_graph *g;
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_verify: g", &g));
    mlsys_status st = mlsi_graph_verify(g);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_print(mlsys_graph graph, char *buf, uint64_t cap, uint64_t *need) {
    API_COMPUTES;
    mlsi_graph *g;
    mlsi_text text;
    API_TEXT(buf, cap, "graph_print");
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_print: g", &g));
    mlsi_text_init(&text, g->alloc);
    mlsi_graph_print(g, &text);
    mlsys_status st = mlsi_text_out(&text, buf, cap, need);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_graph_parse(mlsys_ctx ctx, const char *source, mlsys_graph *out) {
    API_COMPUTES;
    mlsi_ctx *c;
    mlsi_graph *g;
    mlsys_device device = NULL;
    mlsi_device *d;
    API_OUT_HANDLE(out, "graph_parse: out");
    API_NOT_NULL(source, "graph_parse: text");
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "graph_parse: ctx", &c));
    mlsys_status st = mlsi_device_get(c, MLSYS_CPU, 0, &device);
    if (st == MLSYS_OK) st = mlsi_graph_create(c, out, &g);
    if (st == MLSYS_OK) {
        st = mlsi_pin(device, MLSYS_KIND_DEVICE, "graph_parse: device", &d);
        if (st == MLSYS_OK) {
            st = mlsi_graph_parse(g, d, source);
            mlsi_unpin(d);
        }
        if (st != MLSYS_OK) {
            mlsys_release(*out);
            *out = NULL;
        }
    }
    mlsys_release(device);
    mlsi_unpin(c);
    return st;
}
