/* Elements of values: loads, lets that hold them, producers computed in place. */
#include "ir/loop/lowering.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <string.h>

bool mlsi_lower_has_element(const mlsi_op_def *def) {
    return def->element || ((def->traits & MLSI_TRAIT_ELEMENTWISE) && !def->decompose);
}

mlsi_lower mlsi_lower_of(mlsi_lowering *d, const mlsi_node *node) {
    return (mlsi_lower){
        .n = d->n, .driver = d, .graph = d->g, .func = d->func, .node = node, .attrs = node->attrs};
}

void mlsi_lower_refuse(mlsi_lowering *d, const char *why, const char *what) {
    if (d->n->status == MLSYS_OK)
        mlsi_nest_fail(d->n, mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: %s%s", d->n->name, why, what));
}

bool mlsi_lower_has(const mlsi_lower *l, int i) { return i < l->node->n_in && l->node->in[i] >= 0; }

const mlsi_type *mlsi_lower_in(const mlsi_lower *l, int i) {
    return mlsi_type_of(l->graph, l->func, l->node->in[i]);
}

const mlsi_type *mlsi_lower_out(const mlsi_lower *l, int r) {
    return mlsi_type_of(l->graph, l->func, l->node->first_out + r);
}

int32_t mlsi_lower_operand(mlsi_lower *l, int i, const int64_t *index) {
    return mlsi_lower_value(l->driver, l->node->in[i], index);
}

int32_t mlsi_lower_broadcast(mlsi_lower *l, int i, int rank, const int64_t *index) {
    const mlsi_type *t = mlsi_lower_in(l, i);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < t->rank; d++)
        own[d] = t->dims[d] == 1 && !mlsi_fault(MLSI_FAULT_ELEMENT_BROADCAST)
                     ? 0
                     : index[rank - t->rank + d];
    return mlsi_lower_operand(l, i, own);
}

void mlsi_lower_lazy(mlsi_lower *l, int more) { l->driver->lazy += more; }

int64_t mlsi_lower_bind(mlsi_lower *l, int32_t value, int64_t position, int64_t extent, bool wrap,
                        const char *text) {
    if (l->driver->lazy)
        mlsi_lower_refuse(l->driver,
                          "an index from data is read behind a guard: ", mlsi_op_name(l->node->op));
    return mlsi_nest_bind_at(l->n, "at", value, position, extent, wrap, text);
}

/* ---- what is held ------------------------------------------------------------------------------------- */

/* Loops of an op's own rule end unseen by the driver, so a let's scope is asked of the nest. What is out of scope lies on
 * top: bodies close in the reverse order of their opening. */
static void forget_closed(mlsi_lowering *d) {
    while (d->n_held && !mlsi_fault(MLSI_FAULT_ELEMENT_HELD_SCOPE)) {
        const mlsi_held *h = &d->held[d->n_held - 1];
        if (h->depth <= d->n->depth && d->n->open[h->depth].stmt == h->body) return;
        d->n_held--;
    }
}

static int32_t find_held(mlsi_lowering *d, int32_t value, int rank, const int64_t *index) {
    forget_closed(d);
    for (int64_t i = d->n_held - 1; i >= 0; i--) {
        const mlsi_held *h = &d->held[i];
        if (mlsi_fault(MLSI_FAULT_LOWER_HELD) && rank > 1) rank = 1;
        if (h->value == value && (mlsi_fault(MLSI_FAULT_ELEMENT_HELD_INDEX) ||
                                  !memcmp(h->index, index, sizeof *index * (size_t)rank)))
            return h->expr;
    }
    return -1;
}

static void hold(mlsi_lowering *d, int32_t value, int rank, const int64_t *index, int32_t expr) {
    mlsi_held h = {.value = value, .expr = expr, .depth = d->n->depth};
    h.body = d->n->open[h.depth].stmt;
    forget_closed(d);
    memcpy(h.index, index, sizeof *index * (size_t)rank);
    mlsys_status st = MLSI_GROW(d->n->alloc, &d->held, &d->cap_held, d->n_held + 1);
    mlsi_nest_fail(d->n, st);
    if (st == MLSYS_OK) d->held[d->n_held++] = h;
}

void mlsi_lower_hold(mlsi_lowering *d, int32_t value, const int64_t *index, int32_t expr) {
    hold(d, value, d->f->values[value].type.rank, index, expr);
}

/* ---- places ------------------------------------------------------------------------------------------ */

static void row_axes_first(const mlsi_lowering *d, int rank, int32_t *axes) {
    bool special = rank == d->space_rank;
    uint32_t taken = 0;
    int n = 0;
    for (; n < rank && n < d->row_rank; n++)
        taken |= 1u << (axes[n] = special ? d->row_axis[n] : n);
    for (int i = 0; i < rank; i++)
        if (!(taken >> i & 1)) axes[n++] = i;
}

void mlsi_lower_split(const mlsi_lowering *d, int rank, const int64_t *from, int64_t *to) {
    int32_t axes[MLSYS_MAX_DIMS];
    row_axes_first(d, rank, axes);
    for (int i = 0; i < rank; i++)
        to[i] = from[axes[i]];
}

void mlsi_lower_join(const mlsi_lowering *d, int rank, const int64_t *from, int64_t *to) {
    int32_t axes[MLSYS_MAX_DIMS];
    row_axes_first(d, rank, axes);
    for (int i = 0; i < rank; i++)
        to[axes[i]] = from[i];
}

static bool in_row(const mlsi_lowering *d, int rank, const int64_t *split) {
    return rank >= d->row_rank && !memcmp(split, d->row, sizeof *split * (size_t)d->row_rank);
}

static int32_t row_value(mlsi_lowering *d, int32_t value, int rank, const int64_t *index) {
    const mlsi_lowered *v = &d->values[value];
    int64_t split[MLSYS_MAX_DIMS];
    mlsi_lower_split(d, rank, index, split);
    bool same = in_row(d, rank, split);
    for (int i = d->row_rank; same && i < rank; i++)
        same = split[i] == 0;
    if (!same || !v->known) {
        mlsi_lower_refuse(d, "a reduction is read outside its row", "");
        return -1;
    }
    return v->expr;
}

static int32_t compute(mlsi_lowering *d, const mlsi_node *node, int result, const int64_t *index) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_lower l = mlsi_lower_of(d, node);
    if (def->element) return def->element(&l, result, index);
    int32_t in[3] = {-1, -1, -1};
    const mlsi_type *t = mlsi_lower_out(&l, result);
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_lower_broadcast(&l, i, t->rank, index);
    return mlsi_nest_op(d->n, node->op, t->dtype, in[0], in[1], in[2]);
}

/* The row of a TEMP is kept where the loops that read it walk all of it, in order. */
static bool may_fill(const mlsi_lowering *d, const mlsi_type *t, const int64_t *split) {
    int64_t dims[MLSYS_MAX_DIMS];
    size_t inner = sizeof *split * (size_t)d->inner_rank;
    mlsi_lower_split(d, t->rank, t->dims, dims);
    return !d->lazy && t->rank == d->row_rank + d->inner_rank && in_row(d, t->rank, split) &&
           !memcmp(dims + d->row_rank, d->inner_extent, inner) &&
           !memcmp(split + d->row_rank, d->inner, inner);
}

static int32_t temp_value(mlsi_lowering *d, int32_t value, int rank, const int64_t *index) {
    mlsi_lowered *v = &d->values[value];
    int64_t split[MLSYS_MAX_DIMS];
    mlsi_lower_split(d, rank, index, split);
    if (in_row(d, rank, split) && v->known && !v->filling)
        return mlsi_nest_load(d->n, v->buffer, split + d->row_rank);
    const mlsi_value_def *def = &d->f->values[value];
    int32_t x = compute(d, &d->f->nodes[def->index], def->result, index);
    if (v->known || !may_fill(d, &def->type, split)) return x;
    x = mlsi_nest_let(d->n, "t", x);
    mlsi_nest_store(d->n, v->buffer, split + d->row_rank, x);
    v->known = v->filling = true;
    return x;
}

static int32_t fresh_value(mlsi_lowering *d, int32_t value, int rank, const int64_t *index) {
    const mlsi_lowered *v = &d->values[value];
    const mlsi_value_def *def = &d->f->values[value];
    switch (v->place) {
    case MLSI_PLACE_PARAM: return mlsi_nest_load(d->n, v->buffer, index);
    case MLSI_PLACE_CONST: return v->expr;
    case MLSI_PLACE_ROW: return row_value(d, value, rank, index);
    case MLSI_PLACE_TEMP: return temp_value(d, value, rank, index);
    case MLSI_PLACE_INLINE: break;
    }
    const mlsi_node *node = &d->f->nodes[def->index];
    if (!mlsi_lower_has_element(mlsi_op_get(node->op))) {
        mlsi_lower_refuse(
            d, "an element is read elsewhere than it was given: ", mlsi_op_name(node->op));
        return -1;
    }
    return compute(d, node, def->result, index);
}

int32_t mlsi_lower_value(mlsi_lowering *d, int32_t value, const int64_t *index) {
    enum { MOST = 1 << 17 }; /* expressions: guards can double them */
    int rank = d->f->values[value].type.rank;
    if (d->n->n_exprs > MOST) mlsi_lower_refuse(d, "too many expressions", "");
    if (mlsi_dtype_is_block(d->f->values[value].type.dtype))
        mlsi_lower_refuse(d, "blocks have no elements to read", "");
    if (d->n->status != MLSYS_OK) return -1;
    int32_t x = find_held(d, value, rank, index);
    if (x >= 0) return x;
    x = fresh_value(d, value, rank, index);
    if (d->lazy || x < 0) return x;
    x = mlsi_nest_let(d->n, "v", x);
    hold(d, value, rank, index, x);
    return x;
}
