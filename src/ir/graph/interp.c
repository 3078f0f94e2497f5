/* The reference interpreter: every node by its definition's ref, or its decomposition; dense buffers,
 * one per value, made at its definition and freed after its last use; no kernels, no planning. It is
 * the judge, not a fast path. */
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <string.h>

enum {
    MAX_DEPTH = MLSI_MAX_NEST + 32
}; /* of functions, and of decompositions inside the last one */

typedef struct interp {
    const mlsi_graph *g;
    const int64_t *binding;
    const mlsi_interpret_custom *custom; /* NULL: refuse custom ops */
    int depth;
    const mlsi_interpret_watch *watch; /* NULL: nobody looks on */
} interp;

static mlsys_status run_func(const interp *it, int32_t func, int n_in, const mlsi_view *in,
                             int n_out, const mlsi_view *out);

/* A composite: build its decomposition for these very shapes and run that. */
static mlsys_status run_decomposed(const interp *it, const mlsi_op_def *def,
                                   const mlsi_ref_args *a) {
    mlsi_graph g;
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    mlsi_view views[MLSI_MAX_OPERANDS];
    int n = 0;
    MLSI_TRY(mlsi_graph_init(&g, it->g->ctx));
    mlsys_status st = MLSYS_OK;
    for (int i = 0; i < a->n_in && st == MLSYS_OK; i++) {
        mlsi_type t = {.dtype = a->in[i].dtype, .rank = a->in[i].rank};
        in[i] = -1;
        if (!t.dtype) continue;
        memcpy(t.dims, a->in[i].shape, sizeof t.dims);
        st = mlsi_build_input(&g, 0, NULL, &t, &in[i]);
        views[n++] = a->in[i];
    }
    if (st == MLSYS_OK) st = def->decompose(&g, 0, a->attrs, a->n_in, in, a->n_out, out);
    for (int i = 0; i < a->n_out && st == MLSYS_OK; i++)
        st = mlsi_build_output(&g, 0, NULL, out[i]);
    interp inner = {&g, NULL, NULL, it->depth + 1, NULL};
    if (st == MLSYS_OK) st = run_func(&inner, 0, n, views, a->n_out, a->out);
    mlsi_graph_free(&g);
    return st;
}

static mlsys_status new_view(mlsi_alloc *a, const mlsi_layout *l, mlsi_view *out) {
    void *p;
    MLSI_TRY(mlsi_mem_alloc(a, mlsi_layout_bytes(l), &p));
    *out = mlsi_view_of(p, l);
    return MLSYS_OK;
}

static mlsys_status run_while(const interp *it, const mlsi_attr_control *c,
                              const mlsi_ref_args *a) {
    uint8_t keep = 0;
    mlsi_view flag = {.data = &keep, .dtype = MLSYS_BOOL};
    mlsi_view next[MLSI_MAX_OPERANDS];
    mlsys_status st = MLSYS_OK;
    int n = 0;
    while (n < a->n_out && st == MLSYS_OK) {
        mlsi_layout l;
        st = mlsi_layout_row_major(&l, a->out[n].dtype, a->out[n].rank, a->out[n].shape);
        if (st == MLSYS_OK) st = new_view(a->alloc, &l, &next[n]);
        if (st != MLSYS_OK) break;
        mlsi_copy_view(&a->out[n], &a->in[n]);
        n++;
    }
    while (st == MLSYS_OK) {
        st = run_func(it, (int32_t)c->fn1, a->n_out, a->out, 1, &flag);
        if (st != MLSYS_OK || !keep) break;
        st = run_func(it, (int32_t)c->fn2, a->n_out, a->out, a->n_out, next);
        for (int i = 0; i < a->n_out && st == MLSYS_OK; i++)
            mlsi_copy_view(&a->out[i], &next[i]);
    }
    for (int i = 0; i < n; i++)
        mlsi_mem_free(a->alloc, next[i].data);
    return st;
}

static mlsys_status run_custom(const interp *it, const mlsi_ref_args *a) {
    const mlsi_attr_custom *c = a->attrs;
    const mlsi_custom_use *use = &it->g->customs[c->op_index];
    if (!it->custom)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "interpret: custom op %s needs a stream",
                         use->op->name);
    return it->custom->run(it->custom->user, use, a->n_in, a->in, a->n_out, a->out);
}

static mlsys_status run_node(const interp *it, const mlsi_node *node, const mlsi_ref_args *a) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    const mlsi_attr_control *c = a->attrs;
    if (it->depth > MAX_DEPTH)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "interpret: nested deeper than %d", MAX_DEPTH);
    switch (node->op) {
    case MLSI_OP_CALL: return run_func(it, (int32_t)c->fn1, a->n_in, a->in, a->n_out, a->out);
    case MLSI_OP_IF:
        return run_func(it, (int32_t)(*(const uint8_t *)a->in[0].data ? c->fn1 : c->fn2),
                        a->n_in - 1, a->in + 1, a->n_out, a->out);
    case MLSI_OP_WHILE: return run_while(it, c, a);
    case MLSI_OP_CUSTOM: return run_custom(it, a);
    default: break;
    }
    if (def->ref) return def->ref(a);
    if (def->decompose) return run_decomposed(it, def, a);
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: has no reference meaning", mlsi_op_name(node->op));
}

/* One run of a function. */
typedef struct frame {
    const mlsi_func *f;
    mlsi_view *values;
    int64_t *last; /* node that reads the value last; n_nodes for outputs, -1 for nobody */
} frame;

static mlsys_status eval_node(const interp *it, const mlsi_node *node, mlsi_view *values) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_view in[MLSI_MAX_OPERANDS];
    void *attrs;
    memset(in, 0, sizeof *in * (size_t)node->n_in);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) in[i] = values[node->in[i]];
    MLSI_TRY(mlsi_mem_zalloc(it->g->alloc, 1, def->attrs_size, &attrs));
    mlsys_status st = mlsi_attrs_resolve(def, node->attrs, &it->g->symbols, it->binding, attrs);
    mlsi_ref_args a = {.alloc = it->g->alloc,
                       .attrs = attrs,
                       .n_in = node->n_in,
                       .n_out = node->n_out,
                       .in = in,
                       .out = values + node->first_out,
                       .graph = it->g};
    interp inner = *it;
    inner.depth++;
    if (st == MLSYS_OK) st = run_node(&inner, node, &a);
    mlsi_mem_free(it->g->alloc, attrs);
    return st;
}

static void free_value(const interp *it, frame *fr, int32_t v) {
    if (v < 0 || fr->f->values[v].kind != MLSI_VALUE_NODE) return;
    mlsi_mem_free(it->g->alloc, fr->values[v].data);
    fr->values[v].data = NULL;
}

static mlsys_status run_nodes(const interp *it, frame *fr) {
    for (int64_t n = 0; n < fr->f->n_nodes; n++) {
        const mlsi_node *node = &fr->f->nodes[n];
        for (int i = 0; i < node->n_out; i++) {
            mlsi_layout l;
            int32_t v = node->first_out + i;
            MLSI_TRY(mlsi_type_layout(&it->g->symbols, &fr->f->values[v].type, it->binding, &l));
            MLSI_TRY(new_view(it->g->alloc, &l, &fr->values[v]));
        }
        MLSI_TRY(eval_node(it, node, fr->values));
        if (it->depth == 0 && it->watch && it->watch->seen(it->watch->user, node, fr->values))
            return MLSYS_OK;
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0 && fr->last[node->in[i]] == n) free_value(it, fr, node->in[i]);
        for (int i = 0; i < node->n_out; i++)
            if (fr->last[node->first_out + i] < 0) free_value(it, fr, node->first_out + i);
    }
    return MLSYS_OK;
}

static void start_frame(const interp *it, frame *fr, const mlsi_view *in) {
    const mlsi_func *f = fr->f;
    memset(fr->last, 0xff, sizeof *fr->last * (size_t)f->n_values);
    for (int64_t n = 0; n < f->n_nodes; n++)
        for (int i = 0; i < f->nodes[n].n_in; i++)
            if (f->nodes[n].in[i] >= 0) fr->last[f->nodes[n].in[i]] = n;
    for (int64_t i = 0; i < f->n_outputs; i++)
        fr->last[f->outputs[i].value] = f->n_nodes;
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) fr->values[v] = in[def->index];
        if (def->kind == MLSI_VALUE_CONST)
            fr->values[v] = mlsi_tensor_view_of(it->g->consts[def->index]);
    }
}

static mlsys_status run_func(const interp *it, int32_t func, int n_in, const mlsi_view *in,
                             int n_out, const mlsi_view *out) {
    const mlsi_func *f = &it->g->funcs[func];
    frame fr = {f, NULL, NULL};
    if (n_in != f->n_inputs || n_out != f->n_outputs)
        return mlsi_fail(MLSYS_E_ARG,
                         "interpret %s: %d inputs and %d outputs given, has %lld and %lld", f->name,
                         n_in, n_out, (long long)f->n_inputs, (long long)f->n_outputs);
    MLSI_TRY(MLSI_NEW_N(it->g->alloc, f->n_values + 1, &fr.values));
    mlsys_status st = MLSI_NEW_N(it->g->alloc, f->n_values + 1, &fr.last);
    if (st == MLSYS_OK) {
        start_frame(it, &fr, in);
        st = run_nodes(it, &fr);
    }
    for (int i = 0; out && i < n_out && st == MLSYS_OK; i++)
        mlsi_copy_view(&out[i], &fr.values[f->outputs[i].value]);
    for (int64_t v = 0; v < f->n_values; v++)
        free_value(it, &fr, (int32_t)v);
    mlsi_mem_free(it->g->alloc, fr.last);
    mlsi_mem_free(it->g->alloc, fr.values);
    return st;
}

static mlsys_status bind_and_run(interp *it, int32_t func, int n_in, const mlsi_view *in, int n_out,
                                 const mlsi_view *out, mlsi_layout *layouts,
                                 const mlsi_layout **refs, int64_t *binding) {
    for (int i = 0; i < n_in; i++) {
        refs[i] = &layouts[i];
        MLSI_TRY(mlsi_layout_row_major(&layouts[i], in[i].dtype, in[i].rank, in[i].shape));
    }
    MLSI_TRY(mlsi_bind_inputs(it->g, func, n_in, refs, binding));
    it->binding = binding;
    return run_func(it, func, n_in, in, n_out, out);
}

static mlsys_status interpret(interp it, int32_t func, int n_in, const mlsi_view *in, int n_out,
                              const mlsi_view *out) {
    const mlsi_graph *g = it.g;
    const mlsi_func *f = &g->funcs[func];
    mlsi_layout *layouts = NULL;
    const mlsi_layout **refs = NULL;
    int64_t *binding = NULL;
    if (n_in != f->n_inputs)
        return mlsi_fail(MLSYS_E_ARG, "interpret: %d inputs given, %s takes %lld", n_in, f->name,
                         (long long)f->n_inputs);
    mlsys_status st = MLSI_NEW_N(g->alloc, n_in + 1, &layouts);
    if (st == MLSYS_OK) st = MLSI_NEW_N(g->alloc, n_in + 1, &refs);
    if (st == MLSYS_OK) st = MLSI_NEW_N(g->alloc, g->symbols.n_symbols + 1, &binding);
    if (st == MLSYS_OK) st = bind_and_run(&it, func, n_in, in, n_out, out, layouts, refs, binding);
    mlsi_mem_free(g->alloc, binding);
    mlsi_mem_free(g->alloc, refs);
    mlsi_mem_free(g->alloc, layouts);
    return st;
}

mlsys_status mlsi_interpret_with(const mlsi_graph *g, int32_t func, int n_in, const mlsi_view *in,
                                 int n_out, const mlsi_view *out,
                                 const mlsi_interpret_custom *custom) {
    return interpret((interp){g, NULL, custom, 0, NULL}, func, n_in, in, n_out, out);
}

mlsys_status mlsi_interpret_watched(const mlsi_graph *g, int n_in, const mlsi_view *in,
                                    const mlsi_interpret_custom *custom,
                                    const mlsi_interpret_watch *watch) {
    return interpret((interp){g, NULL, custom, 0, watch}, 0, n_in, in, (int)g->funcs[0].n_outputs,
                     NULL);
}

mlsys_status mlsi_interpret(const mlsi_graph *g, int32_t func, int n_in, const mlsi_view *in,
                            int n_out, const mlsi_view *out) {
    return mlsi_interpret_with(g, func, n_in, in, n_out, out, NULL);
}
