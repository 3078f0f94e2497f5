/* From a function to steps: which node is a view, which is a step, where values lie. */
#include "run/export.h"

#include "core/faults.h"

#include <limits.h>
#include <string.h>

enum { MAX_INPUTS = 2 * MLSI_MAX_OPERANDS, MAX_ARGS = MAX_INPUTS + MLSI_MAX_OPERANDS };
static const mlsi_spot nowhere = {-1, 0};

/* One function of the copy. Views are no steps: a value that lies dense in memory is told by its spot, another one is an
 * index map over the memory of its root. */
typedef struct walk {
    mlsi_export *x;
    mlsi_func f; /* by value: the array moves */
    mlsi_spot *spots, *roots;
    mlsi_layout *layouts; /* over the roots */
    int32_t *map;         /* per value: that of the function being made, -1 = none yet */
} walk;

/* The function of one step, being made. */
typedef struct making {
    int32_t func, n_args;
    mlsi_spot args[MAX_ARGS];
} making;

static mlsys_status add_place(mlsi_export *x, mlsi_place_kind kind, int32_t index, uint64_t bytes,
                              mlsi_spot *out) {
    mlsi_place_of p = {kind, index, bytes, 0, INT_MAX, -1};
    MLSI_TRY(MLSI_GROW(x->graph.alloc, &x->places, &x->cap_places, x->n_places + 1));
    *out = (mlsi_spot){(int32_t)x->n_places, 0};
    x->places[x->n_places++] = p;
    return MLSYS_OK;
}

/* The one place of a constant. */
static mlsys_status const_spot(mlsi_export *x, int32_t index, const mlsi_layout *l,
                               mlsi_spot *out) {
    for (int64_t i = 0; i < x->n_places; i++)
        if (x->places[i].kind == MLSI_AT_CONST && x->places[i].index == index)
            return *out = (mlsi_spot){(int32_t)i, 0}, MLSYS_OK;
    return add_place(x, MLSI_AT_CONST, index, mlsi_layout_bytes(l), out);
}

/* ---- operands of a step's function ------------------------------------------------------------------------------ */

static mlsys_status add_input(walk *w, making *m, const mlsi_type *type, mlsi_spot spot,
                              int32_t *out) {
    if (m->n_args == MAX_INPUTS)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "more than %d operands", MAX_INPUTS);
    m->args[m->n_args++] = spot;
    return mlsi_build_input(&w->x->graph, m->func, NULL, type, out);
}

/* One element is written into the text, more become an array of the file. */
static mlsys_status constant(walk *w, making *m, const mlsi_value_def *def, int32_t *out) {
    mlsi_spot spot;
    mlsi_layout l;
    MLSI_TRY(mlsi_type_layout(&w->x->graph.symbols, &def->type, w->x->binding, &l));
    if (mlsi_layout_count(&l) == 1 && !mlsi_dtype_is_block(l.dtype))
        return mlsi_build_const_value(&w->x->graph, m->func, def->index, out);
    MLSI_TRY(const_spot(w->x, def->index, &l, &spot));
    mlsi_type t = def->type;
    return add_input(w, m, &t, spot, out);
}

/* A value inside the function: an input where it is dense, else the views that lead to it. */
static mlsys_status operand(walk *w, making *m, int32_t v, int32_t *out) {
    mlsi_graph *g = &w->x->graph;
    if (v < 0) return *out = -1, MLSYS_OK;
    if (w->map[v] < 0) {
        const mlsi_value_def *def = &w->f.values[v];
        if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(constant(w, m, def, &w->map[v]));
        } else if (w->spots[v].place >= 0) {
            mlsi_type t = def->type;
            MLSI_TRY(add_input(w, m, &t, w->spots[v], &w->map[v]));
        } else {
            const mlsi_node *view = &w->f.nodes[def->index];
            int32_t in;
            MLSI_TRY(operand(w, m, view->in[0], &in));
            MLSI_TRY(mlsi_build_node(g, m->func, view->op, view->attrs, 1, &in, 1, &w->map[v]));
        }
    }
    return *out = w->map[v], MLSYS_OK;
}

/* ---- bodies of a step's function ----------------------------------------------------------------------------------- */

static mlsys_status build_node(walk *w, making *m, const mlsi_node *node, int32_t *out) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        MLSI_TRY(operand(w, m, node->in[i], &in[i]));
    return mlsi_build_node(&w->x->graph, m->func, node->op, node->attrs, node->n_in, in,
                           node->n_out, out);
}

/* The nodes of the function that a call names, with the call's operands. */
static mlsys_status build_body(walk *w, making *m, const mlsi_func *f, const mlsi_node *call,
                               int32_t *map) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            MLSI_TRY(operand(w, m, call->in[def->index], &map[v]));
        } else if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(constant(w, m, def, &map[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &f->nodes[def->index];
            for (int i = 0; i < node->n_in; i++)
                in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
            MLSI_TRY(mlsi_build_node(&w->x->graph, m->func, node->op, node->attrs, node->n_in, in,
                                     node->n_out, &map[node->first_out]));
        }
    }
    return MLSYS_OK;
}

static mlsys_status build_call(walk *w, making *m, const mlsi_node *call, int32_t *out) {
    const mlsi_func f = w->x->graph.funcs[((const mlsi_attr_control *)call->attrs)->fn1];
    int32_t *map;
    MLSI_TRY(MLSI_NEW_N(w->x->graph.alloc, f.n_values + 1, &map));
    mlsys_status st = build_body(w, m, &f, call, map);
    for (int i = 0; st == MLSYS_OK && i < call->n_out; i++)
        out[i] = map[f.outputs[i].value];
    mlsi_mem_free(w->x->graph.alloc, map);
    return st;
}

/* "mul, add -> f32[2,3]": for the reader of the file. */
static void describe(const walk *w, const mlsi_node *node, mlsi_text *t) {
    const mlsi_graph *g = &w->x->graph;
    char type[160];
    if (node->op == MLSI_OP_CALL) {
        const mlsi_func *f = &g->funcs[((const mlsi_attr_control *)node->attrs)->fn1];
        for (int64_t i = 0; i < f->n_nodes; i++)
            mlsi_text_add(t, "%s%s", i ? ", " : "", mlsi_op_name(f->nodes[i].op));
    } else {
        mlsi_text_add(t, "%s", mlsi_op_name(node->op));
    }
    for (int i = 0; i < node->n_out; i++)
        mlsi_text_add(
            t, "%s%s", i ? ", " : " -> ",
            mlsi_type_text(&g->symbols, &w->f.values[node->first_out + i].type, type, sizeof type));
}

/* ---- the walk ------------------------------------------------------------------------------- */

static mlsys_status walk_func(mlsi_export *x, int32_t func, const mlsi_spot *in, mlsi_spot *out);

/* The node, or the function it calls, over dense operands, in m->func. */
static mlsys_status build_func(walk *w, making *m, const mlsi_node *node) {
    mlsi_graph *g = &w->x->graph;
    int32_t out[MLSI_MAX_OPERANDS];
    memset(w->map, 0xff, sizeof *w->map * (size_t)w->f.n_values);
    if (node->op == MLSI_OP_CALL)
        MLSI_TRY(build_call(w, m, node, out));
    else
        MLSI_TRY(build_node(w, m, node, out));
    for (int i = 0; i < node->n_out; i++)
        MLSI_TRY(mlsi_build_output(g, m->func, NULL, out[i]));
    return mlsi_decompose_to_loops(&w->x->pass, m->func);
}

static mlsys_status place_results(walk *w, making *m, const mlsi_node *node) {
    for (int i = 0; i < node->n_out; i++) {
        int32_t v = node->first_out + i;
        MLSI_TRY(
            add_place(w->x, MLSI_AT_ARENA, 0, mlsi_layout_bytes(&w->layouts[v]), &w->spots[v]));
        m->args[m->n_args++] = w->roots[v] = w->spots[v];
    }
    return MLSYS_OK;
}

/* Each output becomes memory of its own, which no other value shows. */
static mlsys_status own_outputs(mlsi_graph *g, int32_t func) {
    for (int64_t o = 0; o < g->funcs[func].n_outputs; o++) {
        int32_t v = g->funcs[func].outputs[o].value;
        MLSI_TRY(mlsi_build_node(g, func, MLSI_OP_COPY, NULL, 1, &v, 1, &v));
        g->funcs[func].outputs[o].value = v;
    }
    return MLSYS_OK;
}

/* What is no single nest: each of its nodes becomes a step, which must be one. */
static mlsys_status walk_parts(walk *w, making *m, const mlsi_node *node) {
    mlsi_spot out[MLSI_MAX_OPERANDS];
    const mlsi_func *f = &w->x->graph.funcs[m->func];
    int64_t parts = 0;
    for (int64_t i = 0; i < f->n_nodes; i++)
        parts += !(mlsi_op_get(f->nodes[i].op)->traits & MLSI_TRAIT_VIEW);
    if (parts < 2) return MLSYS_E_UNSUPPORTED; /* with the sentence of its loops */
    MLSI_TRY(own_outputs(&w->x->graph, m->func));
    MLSI_TRY(walk_func(w->x, m->func, m->args, out));
    for (int i = 0; i < node->n_out; i++)
        w->spots[node->first_out + i] = w->roots[node->first_out + i] =
            out[mlsi_fault(MLSI_FAULT_EXPORT_PARTS) ? 0 : i];
    return MLSYS_OK;
}

static mlsys_status make_step(walk *w, making *m, const mlsi_node *node) {
    mlsi_text what;
    MLSI_TRY(build_func(w, m, node));
    MLSI_TRY(place_results(w, m, node));
    mlsi_text_init(&what, w->x->graph.alloc);
    describe(w, node, &what);
    mlsys_status st = what.st;
    if (st == MLSYS_OK) st = mlsi_export_step_of(w->x, m->func, what.data, m->n_args, m->args);
    mlsi_text_free(&what);
    return st == MLSYS_E_UNSUPPORTED ? walk_parts(w, m, node) : st;
}

static mlsys_status walk_step(walk *w, const mlsi_node *node) {
    making m = {.n_args = 0};
    if ((mlsi_op_get(node->op)->traits & MLSI_TRAIT_CONTROL) && node->op != MLSI_OP_CALL)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: has no loops", mlsi_op_name(node->op));
    MLSI_TRY(mlsi_func_add(&w->x->graph, mlsi_op_name(node->op), &m.func));
    mlsys_status st = make_step(w, &m, node);
    mlsi_graph_truncate(&w->x->graph, m.func);
    return st;
}

static mlsys_status walk_node(walk *w, const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    const int32_t v = node->first_out;
    bool is_view = false;
    _Alignas(16) char attrs[1024];
    mlsi_layout type = w->layouts[v], *l = &w->layouts[v];
    if (def->traits & MLSI_TRAIT_VIEW) {
        MLSI_TRY(mlsi_attrs_resolve(def, node->attrs, &w->x->graph.symbols, w->x->binding, attrs));
        MLSI_TRY(def->view(attrs, &w->layouts[node->in[0]], &type, l, &is_view));
    }
    if (!is_view) {
        *l = type;
        return walk_step(w, node);
    }
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    w->roots[v] = w->roots[node->in[0]];
    w->spots[v] = nowhere;
    if (!mlsi_layout_contiguous(l)) return MLSYS_OK;
    w->spots[v] = w->roots[v];
    if (!mlsi_fault(MLSI_FAULT_EXPORT_OFFSET))
        w->spots[v].offset += (uint64_t)(l->offset / info->block_elems * info->block_bytes);
    return MLSYS_OK;
}

static mlsys_status walk_values(walk *w, const mlsi_spot *in) {
    const mlsi_symtab *symbols = &w->x->graph.symbols;
    for (int64_t v = 0; v < w->f.n_values; v++) {
        MLSI_TRY(mlsi_type_layout(symbols, &w->f.values[v].type, w->x->binding, &w->layouts[v]));
        w->spots[v] = w->roots[v] = nowhere;
    }
    for (int64_t v = 0; v < w->f.n_values; v++) {
        const mlsi_value_def *def = &w->f.values[v];
        if (def->kind == MLSI_VALUE_INPUT)
            w->spots[v] = w->roots[v] = in[def->index];
        else if (def->kind == MLSI_VALUE_CONST)
            MLSI_TRY(const_spot(w->x, def->index, &w->layouts[v], &w->spots[v]));
        else if (def->result == 0)
            MLSI_TRY(walk_node(w, &w->f.nodes[def->index]));
        if (def->kind == MLSI_VALUE_CONST) w->roots[v] = w->spots[v];
    }
    return MLSYS_OK;
}

static mlsys_status walk_func(mlsi_export *x, int32_t func, const mlsi_spot *in, mlsi_spot *out) {
    walk w = {.x = x, .f = x->graph.funcs[func]};
    mlsi_alloc *a = x->graph.alloc;
    mlsys_status st = MLSI_NEW_N(a, w.f.n_values + 1, &w.spots);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, w.f.n_values + 1, &w.roots);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, w.f.n_values + 1, &w.layouts);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, w.f.n_values + 1, &w.map);
    if (st == MLSYS_OK) st = walk_values(&w, in);
    for (int64_t i = 0; st == MLSYS_OK && i < w.f.n_outputs; i++)
        out[i] = w.spots[w.f.outputs[i].value];
    mlsi_mem_free(a, w.spots);
    mlsi_mem_free(a, w.roots);
    mlsi_mem_free(a, w.layouts);
    mlsi_mem_free(a, w.map);
    return st;
}

static mlsys_status walk_main(mlsi_export *x, mlsi_spot *in, mlsi_spot *out) {
    const mlsi_func f = x->graph.funcs[0];
    for (int64_t i = 0; i < f.n_inputs; i++)
        MLSI_TRY(add_place(x, MLSI_AT_INPUT, (int32_t)i, 0, &in[i]));
    mlsys_status st = walk_func(x, 0, in, out);
    if (st != MLSYS_OK && st != MLSYS_E_NOMEM)
        return mlsi_fail_in(st, "program_export: step %lld", (long long)x->n_steps + 1);
    MLSI_TRY(st);
    for (int64_t i = 0; i < f.n_outputs;
         i++) { /* the layout pass has given each memory of its own */
        mlsi_place_of *p = out[i].place < 0 ? NULL : &x->places[out[i].place];
        if (!p || p->kind != MLSI_AT_ARENA || out[i].offset)
            return mlsi_fail(MLSYS_E_INTERNAL,
                             "program_export: output %lld has no memory of its own", (long long)i);
        p->kind = MLSI_AT_OUTPUT;
        p->index = (int32_t)i;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_export_walk(mlsi_export *x) {
    mlsi_spot *spots;
    const int64_t n_in = x->graph.funcs[0].n_inputs, n_out = x->graph.funcs[0].n_outputs;
    MLSI_TRY(MLSI_NEW_N(x->graph.alloc, n_in + n_out + 1, &spots));
    mlsys_status st = walk_main(x, spots, spots + n_in);
    mlsi_mem_free(x->graph.alloc, spots);
    return st;
}
