/* Control flow and user ops: types only, from the functions they name. The interpreter and the
 * program executor run them. */
#include "core/faults.h"
#include "ir/ops/op_def.h"

#include <stdio.h>
#include <string.h>

static mlsys_status check_func(const mlsi_infer *t, const char *what, int64_t fn,
                               const mlsi_func **out) {
    if (fn < 1 || fn >= t->graph->n_funcs)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: function %lld outside [1,%lld)",
                               what, (long long)fn, (long long)t->graph->n_funcs);
    *out = &t->graph->funcs[fn];
    return MLSYS_OK;
}

/* Operands first.. are the function's inputs. */
static mlsys_status check_arguments(const mlsi_infer *t, const mlsi_func *f, int first) {
    char a[160], b[160];
    if (t->n_in - first != f->n_inputs)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d arguments, function %s takes %lld",
                               t->n_in - first, f->name, (long long)f->n_inputs);
    for (int i = first; i < t->n_in; i++) {
        const mlsi_type *want = &f->values[f->inputs[i - first]].type;
        if (!mlsi_type_equal(want, &t->in[i]))
            return mlsi_infer_fail(t, want->dtype == t->in[i].dtype ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                                   i, "%s, function %s takes %s",
                                   mlsi_type_text(t->symbols, &t->in[i], a, sizeof a), f->name,
                                   mlsi_type_text(t->symbols, want, b, sizeof b));
    }
    return MLSYS_OK;
}

static mlsys_status check_count(const mlsi_infer *t, const mlsi_func *f, int n) {
    if (f->n_outputs == n) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d results, function %s gives %lld", n, f->name,
                           (long long)f->n_outputs);
}

static const mlsi_type *result_type(const mlsi_func *f, int i) {
    return &f->values[f->outputs[i].value].type;
}

static mlsys_status infer_call(mlsi_infer *t) {
    const mlsi_attr_control *c = t->attrs;
    const mlsi_func *f = NULL;
    MLSI_TRY(check_func(t, "fn1", c->fn1, &f));
    MLSI_TRY(check_arguments(t, f, 0));
    MLSI_TRY(check_count(t, f, t->n_out));
    for (int i = 0; i < t->n_out; i++)
        t->out[i] = *result_type(f, i);
    return MLSYS_OK;
}

static mlsys_status infer_if(mlsi_infer *t) {
    const mlsi_attr_control *c = t->attrs;
    const mlsi_func *f = NULL, *g = NULL;
    char a[160], b[160];
    MLSI_TRY(check_func(t, "fn1", c->fn1, &f));
    MLSI_TRY(check_func(t, "fn2", c->fn2, &g));
    if (t->in[0].dtype != MLSYS_BOOL || t->in[0].rank != 0)
        return mlsi_infer_fail(t, t->in[0].dtype == MLSYS_BOOL ? MLSYS_E_SHAPE : MLSYS_E_DTYPE, 0,
                               "%s, expected bool[]",
                               mlsi_type_text(t->symbols, &t->in[0], a, sizeof a));
    MLSI_TRY(check_arguments(t, f, 1));
    MLSI_TRY(check_arguments(t, g, 1));
    MLSI_TRY(check_count(t, f, t->n_out));
    MLSI_TRY(check_count(t, g, t->n_out));
    for (int i = 0; i < t->n_out; i++) {
        t->out[i] = *result_type(f, i);
        if (!mlsi_type_equal(&t->out[i], result_type(g, i)) && !mlsi_fault(MLSI_FAULT_OPS_IF_TYPES))
            return mlsi_infer_fail(
                t, MLSYS_E_SHAPE, -1, "result %d: %s from function %s, %s from %s", i,
                mlsi_type_text(t->symbols, &t->out[i], a, sizeof a), f->name,
                mlsi_type_text(t->symbols, result_type(g, i), b, sizeof b), g->name);
    }
    return MLSYS_OK;
}

static mlsys_status infer_while(mlsi_infer *t) {
    const mlsi_attr_control *c = t->attrs;
    const mlsi_func *cond = NULL, *body = NULL;
    char a[160], b[160];
    MLSI_TRY(check_func(t, "fn1", c->fn1, &cond));
    MLSI_TRY(check_func(t, "fn2", c->fn2, &body));
    MLSI_TRY(check_arguments(t, cond, 0));
    MLSI_TRY(check_arguments(t, body, 0));
    MLSI_TRY(check_count(t, cond, 1));
    MLSI_TRY(check_count(t, body, t->n_in));
    const mlsi_type *flag = result_type(cond, 0);
    if (flag->dtype != MLSYS_BOOL || flag->rank != 0)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "condition %s gives %s, expected bool[]",
                               cond->name, mlsi_type_text(t->symbols, flag, a, sizeof a));
    if (t->n_out != t->n_in)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d results for %d carried values", t->n_out,
                               t->n_in);
    for (int i = 0; i < t->n_in; i++) {
        t->out[i] = t->in[i];
        if (!mlsi_type_equal(&t->in[i], result_type(body, i)))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s, body %s gives %s",
                                   mlsi_type_text(t->symbols, &t->in[i], a, sizeof a), body->name,
                                   mlsi_type_text(t->symbols, result_type(body, i), b, sizeof b));
    }
    return MLSYS_OK;
}

static void cost_none(const mlsi_cost_args *a, mlsi_op_cost *c) {
    (void)a;
    c->flops = 0; /* the functions' own nodes are counted by the executor */
}

static const mlsi_attr_desc call_attrs[] = {{.name = "fn1",
                                             .kind = MLSI_ATTR_I64,
                                             .offset = offsetof(mlsi_attr_control, fn1),
                                             .required = true,
                                             .help = "function to call"},
                                            {.name = NULL}};
static const mlsi_attr_desc if_attrs[] = {{.name = "fn1",
                                           .kind = MLSI_ATTR_I64,
                                           .offset = offsetof(mlsi_attr_control, fn1),
                                           .required = true,
                                           .help = "function run when pred is true"},
                                          {.name = "fn2",
                                           .kind = MLSI_ATTR_I64,
                                           .offset = offsetof(mlsi_attr_control, fn2),
                                           .required = true,
                                           .help = "function run when pred is false"},
                                          {.name = NULL}};
static const mlsi_attr_desc while_attrs[] = {{.name = "fn1",
                                              .kind = MLSI_ATTR_I64,
                                              .offset = offsetof(mlsi_attr_control, fn1),
                                              .required = true,
                                              .help = "condition: carried values to bool[]"},
                                             {.name = "fn2",
                                              .kind = MLSI_ATTR_I64,
                                              .offset = offsetof(mlsi_attr_control, fn2),
                                              .required = true,
                                              .help = "body: carried values to new carried values"},
                                             {.name = NULL}};

#define CONTROL                                                                                    \
    .min_out = 1, .max_in = MLSI_MAX_OPERANDS, .max_out = MLSI_MAX_OPERANDS, .cost = cost_none,    \
    .traits = MLSI_TRAIT_CONTROL | MLSI_TRAIT_DIFFERENTIABLE,                                      \
    .attrs_size = sizeof(mlsi_attr_control), .special = "None of its own."

const mlsi_op_def mlsi_op_def_call = {
    CONTROL, .operands = "args...", .attrs = call_attrs, .infer = infer_call,
    .doc = "Results of function fn1 of the graph; argument types are exactly its inputs'."};
const mlsi_op_def mlsi_op_def_if = {CONTROL,
                                    .min_in = 1,
                                    .operands = "pred, args...",
                                    .attrs = if_attrs,
                                    .infer = infer_if,
                                    .doc = "fn1(args) if pred (bool scalar) is true, else "
                                           "fn2(args). Both have the same types; only the chosen "
                                           "one runs.",
                                    .onnx = "If"};
const mlsi_op_def mlsi_op_def_while = {CONTROL,
                                       .min_in = 1,
                                       .operands = "carried...",
                                       .attrs = while_attrs,
                                       .infer = infer_while,
                                       .doc = "While fn1(carried) is true, carried = fn2(carried); "
                                              "the results are the last carried values. Types "
                                              "do not change.",
                                       .onnx = "Loop"};

/* ---- custom -------------------------------------------------------------------------------- */

typedef struct custom_types {
    mlsys_dtype in_dtypes[MLSI_MAX_OPERANDS], out_dtypes[MLSI_MAX_OPERANDS];
    int32_t in_ndims[MLSI_MAX_OPERANDS], out_ndims[MLSI_MAX_OPERANDS];
    int64_t in_shapes[MLSI_MAX_OPERANDS * MLSYS_MAX_DIMS],
        out_shapes[MLSI_MAX_OPERANDS * MLSYS_MAX_DIMS];
} custom_types;

static mlsys_status custom_results(mlsi_infer *t, const char *name, const custom_types *c) {
    for (int i = 0; i < t->n_out; i++) {
        mlsi_type *y = &t->out[i];
        const mlsi_dtype_info *info = mlsi_dtype_get(c->out_dtypes[i]);
        if (!info || c->out_ndims[i] < 0 || c->out_ndims[i] > MLSYS_MAX_DIMS)
            return mlsi_infer_fail(t, MLSYS_E_CALLBACK, -1,
                                   "op %s: result %d: dtype %d or rank %d is not valid", name, i,
                                   c->out_dtypes[i], c->out_ndims[i]);
        y->dtype = c->out_dtypes[i];
        y->rank = c->out_ndims[i];
        for (int d = 0; d < y->rank; d++) {
            y->dims[d] = c->out_shapes[i * MLSYS_MAX_DIMS + d];
            if (!mlsi_dim_valid(t->symbols, y->dims[d]))
                return mlsi_infer_fail(t, MLSYS_E_CALLBACK, -1,
                                       "op %s: result %d: extent %d is %lld", name, i, d,
                                       (long long)y->dims[d]);
        }
    }
    return MLSYS_OK;
}

static mlsys_status infer_custom(mlsi_infer *t) {
    const mlsi_attr_custom *at = t->attrs;
    if (at->op_index < 0 || at->op_index >= t->graph->n_customs)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute op_index: %lld outside [0,%lld)",
                               (long long)at->op_index, (long long)t->graph->n_customs);
    const mlsi_custom_use *use = &t->graph->customs[at->op_index];
    const mlsys_opdef *def = &use->op->def;
    if (t->n_in != def->n_in || t->n_out != def->n_out)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1,
                               "op %s: %d operands and %d results, takes %d and %d", use->op->name,
                               t->n_in, t->n_out, def->n_in, def->n_out);
    custom_types *c;
    MLSI_TRY(MLSI_NEW(t->graph->alloc, &c));
    for (int i = 0; i < t->n_in; i++) {
        c->in_dtypes[i] = t->in[i].dtype;
        c->in_ndims[i] = t->in[i].rank;
        memcpy(&c->in_shapes[i * MLSYS_MAX_DIMS], t->in[i].dims, sizeof t->in[i].dims);
    }
    mlsys_config attrs = use->attrs ? mlsi_handle_of(use->attrs) : NULL;
    mlsys_status st = def->infer(def->user, t->n_in, c->in_dtypes, c->in_ndims, c->in_shapes, attrs,
                                 t->n_out, c->out_dtypes, c->out_ndims, c->out_shapes);
    if (attrs) mlsys_release(attrs);
    if (st == MLSYS_OK)
        st = custom_results(t, use->op->name, c);
    else if (mlsys_last_status() != st) /* the recorded sentence is older than this failure */
        st = mlsi_fail(MLSYS_E_CALLBACK, "op %s: infer returned %s", use->op->name,
                       mlsys_status_name(st));
    else
        st = mlsi_fail_in(MLSYS_E_CALLBACK, "op %s: infer returned %s", use->op->name,
                          mlsys_status_name(st));
    mlsi_mem_free(t->graph->alloc, c);
    return st;
}

static const mlsi_attr_desc custom_attrs[] = {{.name = "op_index",
                                               .kind = MLSI_ATTR_I64,
                                               .offset = offsetof(mlsi_attr_custom, op_index),
                                               .required = true,
                                               .help = "which of the graph's custom ops"},
                                              {.name = NULL}};

const mlsi_op_def mlsi_op_def_custom = {
    .min_out = 1,
    .max_in = MLSI_MAX_OPERANDS,
    .max_out = MLSI_MAX_OPERANDS,
    .operands = "args...",
    .attrs_size = sizeof(mlsi_attr_custom),
    .attrs = custom_attrs,
    .traits = MLSI_TRAIT_CONTROL,
    .infer = infer_custom,
    .cost = cost_none,
    .doc = "An op that the program registered (mlsys_op_register): its callbacks give types and "
           "values.",
    .special = "As the op defines."};
