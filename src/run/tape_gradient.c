/* The gradient of a tape: a copy of the record is differentiated; of that, what was appended becomes a graph of its
 * own, whose inputs are the tensors that the tape kept. It is compiled and run like any other. */
#include "autodiff/reverse.h"
#include "core/faults.h"
#include "run/program.h"
#include "run/tape.h"

#include <stdio.h>
#include <string.h>

typedef struct backward {
    mlsi_tape *t;
    int32_t n_y, n_x;
    mlsi_tensor *const *y, *const *seeds, *const *x;
    mlsi_graph all; /* the record, copied as function func, and what is appended to it */
    int32_t func;
    int32_t *y_value, *seed_value, *x_value, *dx_value; /* -1: none */
    const mlsi_tape_memory **x_memory;
    mlsi_graph part;    /* what was appended, alone */
    int32_t *map;       /* from values of all to those of part, -1 = not there */
    bool *live;         /* per value of all: what a result depends on */
    mlsi_tensor **args; /* inputs of part, pinned */
    mlsys_tensor *handles;
    int64_t n_args, cap_args, cap_handles;
} backward;

static mlsi_func *func_of(backward *b) { return &b->all.funcs[b->func]; }
static const mlsi_func *record_of(const backward *b) { return &b->t->graph->funcs[0]; }

/* ---- what is asked -------------------------------------------------------------------------- */

static mlsys_status check_float(const char *what, int32_t i, const mlsi_tensor *x) {
    char have[128];
    if (mlsi_dtype_is_float(x->layout.dtype)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_DTYPE, "tape_gradient: %s %d is %s, expected a float", what, i,
                     mlsi_layout_text(&x->layout, have, sizeof have));
}

/* The value of memory m as a tensor with layout l sees it; value stands for m's (or its adjoint). */
static mlsys_status see(backward *b, const char *what, int32_t i, const mlsi_tape_memory *m,
                        int32_t value, const mlsi_layout *l, int32_t *out) {
    char have[128], other[128];
    if (m->part && memcmp(&m->layout, l, sizeof *l))
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "tape_gradient: %s %d is %s, recorded was %s", what,
                         i, mlsi_layout_text(l, have, sizeof have),
                         mlsi_layout_text(&m->layout, other, sizeof other));
    if (m->part) return *out = value, MLSYS_OK;
    return mlsi_tape_view(&b->all, b->func, b->t->stream->device, value, &m->layout, l, out);
}

static mlsys_status find_y(backward *b, int32_t i) {
    const mlsi_tensor *y = b->y[i];
    MLSI_TRY(check_float("y", i, y));
    for (int64_t at = mlsi_tape_find(b->t, y->storage); at >= 0; at = b->t->memories[at].before) {
        const mlsi_tape_memory *m = &b->t->memories[at];
        if (!m->computed) continue;
        if (m->version != atomic_load(&y->storage->version))
            return mlsi_fail(MLSYS_E_STATE, "tape_gradient: y %d was written since it was recorded",
                             i);
        return see(b, "y", i, m, m->value, &y->layout, &b->y_value[i]);
    }
    return mlsi_fail(MLSYS_E_ARG, "tape_gradient: y %d is no result that the tape recorded", i);
}

static mlsys_status find_x(backward *b, int32_t j) {
    const mlsi_tensor *x = b->x[j];
    const mlsi_tape_memory *found = NULL;
    bool known = false;
    MLSI_TRY(check_float("x", j, x));
    for (int64_t at = mlsi_tape_find(b->t, x->storage); at >= 0; at = b->t->memories[at].before) {
        const mlsi_tape_memory *m = &b->t->memories[at];
        known = true;
        if (m->value < 0 || m->constant) continue;
        if (found) /* which of its contents is meant? */
            return mlsi_fail(MLSYS_E_STATE,
                             "tape_gradient: x %d was written between its uses on the tape", j);
        found = m;
    }
    if (!known) return mlsi_fail(MLSYS_E_ARG, "tape_gradient: x %d is not on the tape", j);
    if (mlsi_layout_self_overlaps(&x->layout))
        return mlsi_fail(MLSYS_E_ARG, "tape_gradient: x %d overlaps itself", j);
    b->x_memory[j] = found;
    b->x_value[j] = found ? found->value : -1;
    return MLSYS_OK;
}

static mlsys_status add_seed(backward *b, int32_t i) {
    b->seed_value[i] = -1;
    if (!b->seeds || !b->seeds[i]) return MLSYS_OK;
    mlsi_type type = {.dtype = b->seeds[i]->layout.dtype, .rank = b->seeds[i]->layout.rank};
    memcpy(type.dims, b->seeds[i]->layout.shape, sizeof type.dims);
    return mlsi_build_input(&b->all, b->func, NULL, &type, &b->seed_value[i]);
}

/* By the x that are no constants: mlsi_gradient takes no others. */
static mlsys_status adjoints(backward *b) {
    int32_t n = 0, *x = b->dx_value, *values;
    MLSI_TRY(MLSI_NEW_N(b->all.alloc, 2 * b->n_x, &values));
    for (int32_t j = 0; j < b->n_x; j++)
        if (b->x_value[j] >= 0) values[n++] = b->x_value[j];
    mlsys_status st = MLSYS_OK;
    if (n)
        st = mlsi_gradient(&b->all, b->func, b->n_y, b->y_value, b->seed_value, n, values,
                           values + b->n_x);
    n = 0;
    for (int32_t j = 0; j < b->n_x && st == MLSYS_OK; j++) {
        x[j] = b->x_value[j] >= 0 ? values[b->n_x + n++] : -1;
        if (x[j] >= 0) st = see(b, "x", j, b->x_memory[j], x[j], &b->x[j]->layout, &x[j]);
    }
    mlsi_mem_free(b->all.alloc, values);
    return st;
}

static mlsys_status differentiate(backward *b) {
    MLSI_TRY(mlsi_graph_import(&b->all, b->t->graph, 0, &b->func));
    for (int32_t i = 0; i < b->n_y; i++)
        MLSI_TRY(add_seed(b, i));
    for (int32_t i = 0; i < b->n_y; i++)
        MLSI_TRY(find_y(b, i));
    for (int32_t j = 0; j < b->n_x; j++)
        MLSI_TRY(find_x(b, j));
    return adjoints(b);
}

/* ---- the part that runs --------------------------------------------------------------------- */

static void mark_live(backward *b) {
    const mlsi_func *f = func_of(b);
    for (int32_t j = 0; j < b->n_x; j++)
        if (b->dx_value[j] >= 0) b->live[b->dx_value[j]] = true;
    for (int64_t i = f->n_nodes - 1; i >= record_of(b)->n_nodes; i--) {
        const mlsi_node *node = &f->nodes[i];
        bool live = false;
        for (int k = 0; k < node->n_out; k++)
            live = live || b->live[node->first_out + k];
        for (int k = 0; k < node->n_in && live; k++)
            if (node->in[k] >= 0) b->live[node->in[k]] = true;
    }
}

static const char *name_of(const backward *b, const mlsi_node *node) {
    const mlsi_attr_custom *custom = node->attrs;
    if (node->op != MLSI_OP_CUSTOM) return mlsi_op_name(node->op);
    return b->t->graph->customs[custom->op_index].op->name;
}

/* "operand 1 of mul, result 0 of exp" */
static void describe(const backward *b, int32_t v, char *out, size_t cap) {
    const mlsi_func *f = record_of(b);
    const mlsi_value_def *def = &f->values[v];
    size_t n = 0;
    for (int64_t i = 0; i < f->n_nodes && !n; i++)
        for (int k = 0; k < f->nodes[i].n_in && !n; k++)
            if (f->nodes[i].in[k] == v)
                n = (size_t)snprintf(out, cap, "operand %d of %s", k, name_of(b, &f->nodes[i]));
    if (def->kind == MLSI_VALUE_NODE)
        snprintf(out + n, cap - n, "%sresult %d of %s", n ? ", " : "", def->result,
                 name_of(b, &f->nodes[def->index]));
}

/* The tensor that the tape kept of a recorded value. */
static mlsys_status saved_tensor(backward *b, int32_t v, mlsys_tensor *out) {
    const mlsi_tape_saved *s = &b->t->saved[v];
    char what[160] = "a value", have[128];
    if (s->version != atomic_load(&s->storage->version) && !mlsi_fault(MLSI_FAULT_TAPE_STALE)) {
        describe(b, v, what, sizeof what);
        return mlsi_fail(MLSYS_E_STATE, "tape_gradient: %s, %s, was written since it was recorded",
                         what, mlsi_layout_text(&s->layout, have, sizeof have));
    }
    return mlsi_tensor_make(b->t->stream->device, s->storage, &s->layout, out);
}

static mlsys_status seed_tensor(backward *b, int32_t v, mlsys_tensor *out) {
    for (int32_t i = 0; i < b->n_y; i++)
        if (b->seed_value[i] == v) {
            *out = mlsi_handle_of(b->seeds[i]);
            return *out ? MLSYS_OK : mlsys_last_status();
        }
    return mlsi_fail(MLSYS_E_INTERNAL, "tape_gradient: value %d is not kept", v);
}

/* An input of the part; past the number that a program takes, a constant. */
static mlsys_status add_arg(backward *b, int32_t v) {
    mlsi_alloc *a = b->part.alloc;
    const mlsi_type *type = &func_of(b)->values[v].type;
    bool recorded = v < record_of(b)->n_values;
    MLSI_TRY(MLSI_GROW(a, &b->args, &b->cap_args, b->n_args + 1));
    MLSI_TRY(MLSI_GROW(a, &b->handles, &b->cap_handles, b->n_args + 1));
    mlsys_tensor *handle = &b->handles[b->n_args];
    mlsi_tensor **arg = &b->args[b->n_args];
    MLSI_TRY(recorded ? saved_tensor(b, v, handle) : seed_tensor(b, v, handle));
    b->n_args++;
    MLSI_TRY(mlsi_pin(*handle, MLSYS_KIND_TENSOR, "tape_gradient", arg));
    if (b->n_args <= MLSI_MAX_ARGS) return mlsi_build_input(&b->part, 0, NULL, type, &b->map[v]);
    return mlsi_build_const(&b->part, 0, *arg, &b->map[v]);
}

static mlsys_status take_value(backward *b, int32_t v) {
    const mlsi_value_def *def = &func_of(b)->values[v];
    if (b->map[v] >= 0) return MLSYS_OK;
    if (def->kind == MLSI_VALUE_CONST)
        return mlsi_build_const(&b->part, 0, b->all.consts[def->index], &b->map[v]);
    return add_arg(b, v);
}

static mlsys_status build_part(backward *b) {
    const mlsi_func *f = func_of(b);
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    memset(b->map, 0xff, sizeof *b->map * (size_t)f->n_values);
    mark_live(b);
    for (int64_t i = record_of(b)->n_nodes; i < f->n_nodes; i++) {
        const mlsi_node *node = &f->nodes[i];
        bool live = false;
        for (int k = 0; k < node->n_out; k++)
            live = live || b->live[node->first_out + k];
        if (!live) continue;
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) MLSI_TRY(take_value(b, node->in[k]));
            in[k] = node->in[k] < 0 ? -1 : b->map[node->in[k]];
        }
        MLSI_TRY(mlsi_graph_import_node(&b->part, 0, &b->all, node, in, out));
        for (int k = 0; k < node->n_out; k++)
            b->map[node->first_out + k] = out[k];
    }
    for (int32_t j = 0; j < b->n_x; j++) {
        if (b->dx_value[j] < 0) continue;
        MLSI_TRY(take_value(b, b->dx_value[j])); /* an adjoint may be a seed as it is */
        MLSI_TRY(mlsi_build_output(&b->part, 0, NULL, b->map[b->dx_value[j]]));
    }
    return MLSYS_OK;
}

static mlsys_status run_part(backward *b, mlsys_tensor *dx) {
    mlsi_program *p;
    mlsi_compile_options o;
    int n_out = (int)b->part.funcs[0].n_outputs;
    if (!n_out) return MLSYS_OK;
    mlsys_tensor *out;
    MLSI_TRY(mlsi_compile_options_read(b->part.ctx, NULL, &o));
    MLSI_TRY(MLSI_NEW_N(b->part.alloc, n_out, &out));
    mlsys_status st = MLSI_NEW(b->part.alloc, &p);
    if (st == MLSYS_OK) st = mlsi_program_init(p, &b->part, b->t->stream->device, &o);
    if (st == MLSYS_OK) {
        st =
            mlsi_program_exec(p, b->t->stream, (int)b->part.funcs[0].n_inputs, b->args, n_out, out);
        mlsi_bound_forget(p, b->t->stream);
        mlsi_program_free(p);
    }
    mlsi_mem_free(b->part.alloc, p);
    for (int32_t j = b->n_x - 1; j >= 0 && st == MLSYS_OK; j--)
        if (b->dx_value[j] >= 0) dx[j] = out[--n_out];
    mlsi_mem_free(b->part.alloc, out);
    return st;
}

/* ---- the call ------------------------------------------------------------------------------- */

static mlsys_status values_new(backward *b, int32_t **values) {
    mlsi_alloc *a = b->all.alloc;
    MLSI_TRY(MLSI_NEW_N(a, 2 * (int64_t)b->n_y + 2 * (int64_t)b->n_x, values));
    b->y_value = *values;
    b->seed_value = b->y_value + b->n_y;
    b->x_value = b->seed_value + b->n_y;
    b->dx_value = b->x_value + b->n_x;
    return MLSI_NEW_N(a, b->n_x, &b->x_memory);
}

static mlsys_status gradient(backward *b, mlsys_tensor *dx) {
    mlsi_alloc *a = b->all.alloc;
    int32_t *values = NULL;
    mlsys_status st = values_new(b, &values);
    if (st == MLSYS_OK) st = differentiate(b);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, func_of(b)->n_values, &b->map);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, func_of(b)->n_values, &b->live);
    if (st == MLSYS_OK) st = build_part(b);
    if (st == MLSYS_OK) st = run_part(b, dx);
    for (int64_t i = 0; i < b->n_args; i++) {
        mlsi_unpin(b->args[i]);
        mlsys_release(b->handles[i]);
    }
    void *const blocks[] = {values, b->x_memory, b->map, b->live, b->args, b->handles};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        mlsi_mem_free(a, blocks[i]);
    return st;
}

mlsys_status mlsi_tape_gradient(mlsi_tape *t, int32_t n_y, mlsi_tensor *const *y,
                                mlsi_tensor *const *seeds, int32_t n_x, mlsi_tensor *const *x,
                                mlsys_tensor *dx) {
    backward b = {.t = t, .n_y = n_y, .n_x = n_x, .y = y, .seeds = seeds, .x = x};
    MLSI_TRY(mlsi_graph_init(&b.all, t->object.ctx));
    mlsys_status st = mlsi_graph_init(&b.part, t->object.ctx);
    if (st == MLSYS_OK) {
        st = gradient(&b, dx);
        mlsi_graph_free(&b.part);
    }
    mlsi_graph_free(&b.all);
    return st;
}
