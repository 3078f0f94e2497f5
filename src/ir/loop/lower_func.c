/* A function of the tensor IR as one nest of loops. */
#include "ir/loop/lowering.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <string.h>

/* Is output o computed where an element of the node's result r is given? */
static bool follows(const mlsi_lowering *d, const mlsi_node *node, int r, int64_t o) {
    int32_t v = d->f->outputs[o].value, result = node->first_out + r;
    if (v == result) return true;
    return node->n_out == 1 && mlsi_type_equal(&d->f->values[v].type, &d->f->values[result].type);
}

void mlsi_lower_result(mlsi_lower *l, int r, const int64_t *index, int32_t value) {
    mlsi_lowering *d = l->driver;
    int32_t v = l->node->first_out + r;
    mlsi_lower_hold(
        d, v, index,
        mlsi_nest_let(d->n, "y", mlsi_nest_cast(d->n, value, mlsi_lower_out(l, r)->dtype)));
    for (int64_t o = 0; o < d->f->n_outputs; o++) {
        if (!follows(d, l->node, r, o)) continue;
        int32_t x = mlsi_lower_value(d, d->f->outputs[o].value, index);
        mlsi_nest_store(d->n, (int32_t)(d->f->n_inputs + o), index, x);
    }
}

int32_t mlsi_lower_result_buffer(mlsi_lower *l, int r) {
    mlsi_lowering *d = l->driver;
    for (int64_t o = 0; o < d->f->n_outputs; o++)
        if (d->f->outputs[o].value == l->node->first_out + r) return (int32_t)(d->f->n_inputs + o);
    mlsi_lower_refuse(d, "has loops that read their own result back: ", mlsi_op_name(l->node->op));
    return -1;
}

/* One view of the bytes of a parameter for all who read it. */
static int32_t bytes_of(mlsi_nest *n, int32_t buffer) {
    for (int32_t b = 0; buffer >= 0 && b < n->n_buffers; b++)
        if (n->buffers[b].bytes && n->buffers[b].scope == n->buffers[buffer].scope &&
            n->buffers[b].param == n->buffers[buffer].param)
            return b;
    return mlsi_nest_bytes(n, buffer);
}

int32_t mlsi_lower_bytes(mlsi_lower *l, int i) {
    mlsi_lowering *d = l->driver;
    const mlsi_lowered *v = &d->values[l->node->in[i]];
    if (v->place == MLSI_PLACE_PARAM) return bytes_of(d->n, v->buffer);
    mlsi_lower_refuse(d, "blocks must be an input: ", mlsi_op_name(l->node->op));
    return -1;
}

/* ---- parameters and constants ------------------------------------------------------------------------ */

static void place_const(mlsi_lowering *d, int32_t value) {
    const mlsi_value_def *def = &d->f->values[value];
    mlsi_view view = mlsi_tensor_view_of(d->g->consts[def->index]);
    if (mlsi_view_count(&view) != 1 || mlsi_dtype_is_block(view.dtype)) {
        mlsi_lower_refuse(d, "a constant of more than one element is no input", "");
        return;
    }
    d->values[value].place = MLSI_PLACE_CONST;
    d->values[value].expr = mlsi_nest_const(d->n, view.dtype, view.data);
}

static void place_values(mlsi_lowering *d) {
    for (int64_t i = 0; i < d->f->n_inputs; i++) {
        int32_t v = d->f->inputs[i];
        d->values[v].place = MLSI_PLACE_PARAM;
        d->values[v].buffer = mlsi_nest_param(d->n, MLSI_SCOPE_INPUT, NULL, &d->f->values[v].type);
    }
    for (int64_t i = 0; i < d->f->n_outputs; i++)
        (void)mlsi_nest_param(d->n, MLSI_SCOPE_OUTPUT, NULL,
                              &d->f->values[d->f->outputs[i].value].type);
    for (int32_t v = 0; v < d->f->n_values; v++)
        if (d->f->values[v].kind == MLSI_VALUE_CONST) place_const(d, v);
}

/* Loops of its own: a rule for whole loops, where a rule for a reduction per element does not fit. */
static bool has_nest(mlsi_lowering *d, const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_lower l = mlsi_lower_of(d, node);
    mlsi_reduction r = {.rank = 0};
    return def->nest && !(def->reduces && def->reduces(&l, &r));
}

/* Composites count a symbolic extent by a sum of equal integers: that is their number times the integer. -1 = not so. */
static int32_t counted(mlsi_lowering *d, const mlsi_node *node) {
    const mlsi_attr_reduce *a = node->attrs;
    if (node->op != MLSI_OP_REDUCE_SUM) return -1;
    const mlsi_value_def *x = &d->f->values[node->in[0]];
    const mlsi_node *full = x->kind == MLSI_VALUE_NODE ? &d->f->nodes[x->index] : node;
    if (full->op != MLSI_OP_FULL || !mlsi_dtype_is_int(x->type.dtype)) return -1;
    int64_t count = 1;
    for (int64_t i = 0; i < a->axes.n; i++)
        count = mlsi_nest_index(d->n, '*', count, x->type.dims[a->axes.v[i]]);
    int64_t value = ((const mlsi_attr_full *)full->attrs)->ivalue;
    if (mlsi_fault(MLSI_FAULT_LOOPS_COUNT)) count = mlsi_nest_index(d->n, '+', count, 1);
    int32_t n = mlsi_nest_index_value(d->n, count);
    n = mlsi_nest_op(d->n, MLSI_OP_MUL, 0, n, mlsi_nest_int(d->n, MLSYS_I64, value), -1);
    return mlsi_nest_cast(d->n, n, x->type.dtype);
}

/* Blocks that pass through unchanged are those of the parameter. */
static bool place_blocks(mlsi_lowering *d, const mlsi_node *node) {
    if (!mlsi_dtype_is_block(d->f->values[node->first_out].type.dtype)) return false;
    const mlsi_lowered *x = &d->values[node->in[0]];
    if ((node->op != MLSI_OP_COPY && node->op != MLSI_OP_BARRIER) || x->place != MLSI_PLACE_PARAM)
        mlsi_lower_refuse(d, "makes blocks: ", mlsi_op_name(node->op));
    d->values[node->first_out] = *x;
    return true;
}

static void classify(mlsi_lowering *d) {
    for (int64_t i = 0; i < d->f->n_nodes; i++) {
        const mlsi_node *node = &d->f->nodes[i];
        const mlsi_op_def *def = mlsi_op_get(node->op);
        int32_t count = counted(d, node);
        if (count >= 0) {
            d->values[node->first_out].place = MLSI_PLACE_CONST;
            d->values[node->first_out].expr = count;
        } else if (place_blocks(d, node)) {
            continue;
        } else if (has_nest(d, node)) {
            if (d->nest_node >= 0)
                mlsi_lower_refuse(d, "two nodes have loops of their own: ", mlsi_op_name(node->op));
            d->nest_node = (int32_t)i;
        } else if (def->reduces) {
            d->values[node->first_out].place = MLSI_PLACE_ROW;
        } else if (!mlsi_lower_has_element(def)) {
            mlsi_lower_refuse(d, "no loops are known for ", mlsi_op_name(node->op));
        }
    }
}

/* ---- the function ------------------------------------------------------------------------------------ */

static bool gives_blocks(const mlsi_lowering *d, int64_t o) {
    return mlsi_dtype_is_block(d->f->values[d->f->outputs[o].value].type.dtype);
}

/* An output of blocks: the bytes of a parameter. */
static void copy_blocks(mlsi_lowering *d, int64_t o) {
    const mlsi_lowered *x = &d->values[d->f->outputs[o].value];
    int64_t index[MLSYS_MAX_DIMS];
    if (x->place != MLSI_PLACE_PARAM) mlsi_lower_refuse(d, "blocks must be an input", "");
    int32_t from = bytes_of(d->n, x->buffer), to = bytes_of(d->n, (int32_t)(d->f->n_inputs + o));
    if (d->n->status != MLSYS_OK) return;
    int rank = d->n->buffers[to].rank;
    for (int i = 0; i < rank; i++)
        index[i] = mlsi_nest_for(d->n, MLSI_LOOP_SERIAL, "i", d->n->buffers[to].dims[i]);
    mlsi_nest_store(d->n, to, index, mlsi_nest_load(d->n, from, index));
    for (int i = 0; i < rank; i++)
        mlsi_nest_end(d->n);
}

/* True where the outputs are blocks, which have no elements to compute. */
static bool copy_outputs(mlsi_lowering *d) {
    int64_t blocks = 0;
    for (int64_t o = 0; o < d->f->n_outputs; o++)
        blocks += gives_blocks(d, o);
    if (blocks && (blocks < d->f->n_outputs || d->nest_node >= 0))
        mlsi_lower_refuse(d, "outputs of blocks beside others", "");
    for (int64_t o = 0; blocks && o < d->f->n_outputs; o++)
        copy_blocks(d, o);
    return blocks > 0;
}

/* The loops of the one node that has some, and the outputs that are computed where its results are given. */
static void lower_own_loops(mlsi_lowering *d, const mlsi_node *node) {
    mlsi_lower l = mlsi_lower_of(d, node);
    for (int64_t o = 0; o < d->f->n_outputs; o++) {
        bool given = false;
        for (int r = 0; r < node->n_out; r++)
            given = given || follows(d, node, r, o);
        if (!given) mlsi_lower_refuse(d, "an output has other loops than ", mlsi_op_name(node->op));
    }
    if (d->n->status == MLSYS_OK) mlsi_nest_fail(d->n, mlsi_op_get(node->op)->nest(&l));
}

mlsys_status mlsi_lower_func(const mlsi_graph *g, int32_t func, const char *name, mlsi_nest *n) {
    mlsi_lowering d = {.g = g, .f = &g->funcs[func], .func = func, .n = n, .nest_node = -1};
    mlsi_nest_init(n, g->alloc, &g->symbols, name);
    if (d.f->n_outputs < 1 || d.f->n_outputs > 64)
        mlsi_lower_refuse(&d, "has no or more than 64 outputs", "");
    mlsi_nest_fail(n, MLSI_NEW_N(g->alloc, d.f->n_values + 1, &d.values));
    if (n->status == MLSYS_OK) place_values(&d);
    if (n->status == MLSYS_OK) classify(&d);
    bool copied = n->status == MLSYS_OK && copy_outputs(&d);
    if (n->status == MLSYS_OK && d.nest_node >= 0)
        lower_own_loops(&d, &d.f->nodes[d.nest_node]);
    else if (n->status == MLSYS_OK && !copied)
        mlsi_lower_rows(&d);
    mlsi_mem_free(g->alloc, d.values);
    mlsi_mem_free(g->alloc, d.held);
    return mlsi_nest_finish(n);
}
