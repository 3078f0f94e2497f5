/* Which nodes share their loops: a group grows from its last node towards its producers.
 *
 * All members walk one shape, `space`. Elementwise members have it; reductions go over its trailing axes, the same for all,
 * and what is computed of their results has one element a row. Movement that keeps neighbours along the last axis
 * neighbours is taken in with its reader. A member that others read too becomes an output, if they all come later. */
#include "ir/passes/fuse.h"

#include "core/faults.h"

#include <string.h>

typedef enum role { ROLE_NONE, ROLE_ELEMENT, ROLE_MOVEMENT, ROLE_REDUCTION, ROLE_ROWS } role;

bool mlsi_fuse_is_movement(mlsi_op op) { return mlsi_op_get(op)->shares == MLSI_SHARES_MOVEMENT; }

static role role_of(mlsi_op op) {
    const mlsi_op_def *def = mlsi_op_get(op);
    switch (def->shares) {
    case MLSI_SHARES_BY_TRAITS:
        return def->traits & MLSI_TRAIT_ELEMENTWISE ? ROLE_ELEMENT : ROLE_NONE;
    case MLSI_SHARES_ELEMENTS: return ROLE_ELEMENT;
    case MLSI_SHARES_MOVEMENT: return ROLE_MOVEMENT;
    case MLSI_SHARES_REDUCTION: return ROLE_REDUCTION;
    case MLSI_SHARES_ROWS_ALONG:
    case MLSI_SHARES_ROWS_FROM: return ROLE_ROWS;
    case MLSI_SHARES_NOTHING: break;
    }
    return ROLE_NONE;
}

static const mlsi_type *type_of(const mlsi_fuse_state *s, int32_t value) {
    return &s->f->values[value].type;
}

static bool dtype_fits(mlsys_dtype t) {
    return t == MLSYS_F32 || t == MLSYS_F16 || t == MLSYS_BF16 || t == MLSYS_BOOL ||
           t == MLSYS_I64 || t == MLSYS_I32;
}

static bool same_dims(const mlsi_type *a, const mlsi_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

/* Leading axes of space, then ones: one element a row of so many axes; -1: no such shape. */
static int rows_of_value(const mlsi_fusion *u, const mlsi_type *t) {
    int rows = 0;
    while (rows < t->rank && rows < u->space.rank && t->dims[rows] == u->space.dims[rows] &&
           t->dims[rows] != 1)
        rows++;
    for (int d = rows; d < t->rank; d++)
        if (t->dims[d] != 1) return -1;
    return rows >= 1 && t->rank <= u->space.rank ? rows : -1;
}

/* ---- rules of a node by itself --------------------------------------------------------------------------- */

/* Are both the same but for axes of extent 1? */
static bool same_but_ones(const mlsi_type *a, const mlsi_type *b) {
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (a->dims[i] != b->dims[k]) return false;
    }
}

/* Loops find the operand's index by dividing by its extents, which so must not be 0. */
static bool can_divide(const mlsi_fuse_state *s, const mlsi_type *t) {
    int64_t lo = 1, hi;
    for (int d = 0; d < t->rank && lo >= 1; d++)
        mlsi_dim_range(&s->g->symbols, t->dims[d], &lo, &hi);
    return lo >= 1;
}

/* Neighbours along the last axis stay neighbours. */
static bool keeps_neighbours(const mlsi_fuse_state *s, const mlsi_node *node) {
    const mlsi_type *out = type_of(s, node->first_out);
    if (node->op == MLSI_OP_BROADCAST || node->op == MLSI_OP_IOTA || node->op == MLSI_OP_FULL)
        return true;
    const mlsi_type *in = type_of(s, node->in[0]);
    if (!in->rank || !out->rank) return false;
    if (node->op == MLSI_OP_SLICE)
        return ((const mlsi_attr_slice *)node->attrs)->steps.v[out->rank - 1] == 1;
    if (node->op == MLSI_OP_TRANSPOSE)
        return ((const mlsi_attr_transpose *)node->attrs)->perm.v[out->rank - 1] == out->rank - 1;
    return in->dims[in->rank - 1] == out->dims[out->rank - 1] &&
           (same_but_ones(in, out) || can_divide(s, in));
}

/* Operands are dense in memory, or made inside the group. */
static bool reads_dense(const mlsi_fuse_state *s, const mlsi_node *node) {
    for (int i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i];
        if (v < 0 || s->facts[v].contiguous) continue;
        const mlsi_value_def *def = &s->f->values[v];
        if (def->kind != MLSI_VALUE_NODE) return false;
        const mlsi_node *from = &s->f->nodes[def->index];
        if (!mlsi_fuse_is_movement(from->op) || !keeps_neighbours(s, from) || !reads_dense(s, from))
            return false;
    }
    return true;
}

static mlsi_fuse_why node_fits(const mlsi_fuse_state *s, const mlsi_node *node) {
    if (node->n_out != 1) return MLSI_FUSE_NO_LOOPS;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && !dtype_fits(type_of(s, node->in[i])->dtype)) return MLSI_FUSE_DTYPE;
    if (!dtype_fits(type_of(s, node->first_out)->dtype)) return MLSI_FUSE_DTYPE;
    return reads_dense(s, node) ? MLSI_FUSE_JOINED : MLSI_FUSE_MEMORY;
}

/* Reduced axes are the trailing ones; how many lead. -1: they are not. */
static int rows_of_reduction(const mlsi_fuse_state *s, const mlsi_node *node) {
    const mlsi_attr_reduce *a = node->attrs;
    int rank = type_of(s, node->in[0])->rank, lead = rank - (int)a->axes.n;
    for (int64_t i = 0; i < a->axes.n; i++)
        if (a->axes.v[i] != lead + i) return -1;
    return lead;
}

static int64_t axis_of(const mlsi_node *node) {
    const mlsi_attr_desc *a = mlsi_op_get(node->op)->attrs;
    while (strcmp(a->name, "axis"))
        a++;
    return *(const int64_t *)(const void *)((const char *)node->attrs + a->offset);
}

static int rows_of(const mlsi_fuse_state *s, const mlsi_node *node) {
    mlsi_sharing shares = mlsi_op_get(node->op)->shares;
    if (shares == MLSI_SHARES_REDUCTION) return rows_of_reduction(s, node);
    int axis = (int)axis_of(node);
    bool last = axis == type_of(s, node->in[0])->rank - 1;
    return shares == MLSI_SHARES_ROWS_FROM || last ? axis : -1;
}

/* ---- joining ------------------------------------------------------------------------------------------------ */

static bool starts_rows(const mlsi_fusion *u, int rows) {
    return rows >= 1 && (u->row_rank == rows || u->row_rank == u->space.rank);
}

/* May the node be part of the group, by shapes? Reductions fix the rows. */
static mlsi_fuse_why shapes_fit(const mlsi_fuse_state *s, mlsi_fusion *u, int32_t n, role r) {
    const mlsi_node *node = &s->f->nodes[n];
    const mlsi_type *out = type_of(s, node->first_out);
    if (r == ROLE_ELEMENT && same_dims(out, &u->space)) return MLSI_FUSE_JOINED;
    if (r == ROLE_MOVEMENT)
        return keeps_neighbours(s, node) ? MLSI_FUSE_JOINED : MLSI_FUSE_NEIGHBOURS;
    if (r != ROLE_ELEMENT && !same_dims(type_of(s, node->in[0]), &u->space))
        return MLSI_FUSE_SHAPES;
    int rows = r == ROLE_ELEMENT ? rows_of_value(u, out) : rows_of(s, node);
    if (r == ROLE_ELEMENT && rows < 0) return MLSI_FUSE_SHAPES;
    bool turned =
        r != ROLE_ELEMENT && s->aligned[n] < rows && !mlsi_fault(MLSI_FAULT_FUSE_ROWS_TURNED);
    if (!starts_rows(u, rows) || turned) return MLSI_FUSE_ROWS;
    u->row_rank = rows;
    return MLSI_FUSE_JOINED;
}

static bool is_member(const mlsi_fusion *u, int32_t node) {
    for (int i = 0; i < u->n_nodes; i++)
        if (u->nodes[i] == node) return true;
    return false;
}

static bool reads(const mlsi_node *node, int32_t v) {
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] == v) return true;
    return false;
}

/* Are all readers of a value before `end` members? Movement stays outside too where somebody outside reads it, and stands
 * there before the group: then it counts as one of those. */
static bool only_members_read(const mlsi_fuse_state *s, const mlsi_fusion *u, int32_t v,
                              int32_t end) {
    for (int32_t n = s->first_use[v]; n <= s->last_use[v] && n < end; n++) {
        const mlsi_node *node = &s->f->nodes[n];
        if (!reads(node, v)) continue;
        if (!is_member(u, n)) return false;
        if (mlsi_fuse_is_movement(node->op) &&
            (s->last_use[node->first_out] == s->f->n_nodes ||
             !only_members_read(s, u, node->first_out, (int32_t)s->f->n_nodes)))
            return false;
    }
    return true;
}

/* Everybody outside that reads the node's result comes after the group. */
static bool outside_is_later(const mlsi_fuse_state *s, const mlsi_fusion *u, int32_t node,
                             int32_t root) {
    int32_t v = s->f->nodes[node].first_out;
    return s->first_use[v] > root || only_members_read(s, u, v, root) ||
           mlsi_fault(MLSI_FAULT_FUSE_EARLY_READER);
}

/* ---- rows stay rows -------------------------------------------------------------------------------------------- */

static int equal_lead(const mlsi_type *a, const mlsi_type *b) {
    int n = 0;
    while (n < a->rank && n < b->rank && a->dims[n] == b->dims[n])
        n++;
    return n;
}

/* So many leading indices of operand i are those of the node's result. */
static int kept_indices(const mlsi_fuse_state *s, const mlsi_node *node, int i) {
    const mlsi_type *in = type_of(s, node->in[i]), *out = type_of(s, node->first_out);
    const mlsi_attr_slice *slice = node->attrs;
    const mlsi_attr_transpose *turn = node->attrs;
    int same = equal_lead(in, out), n = 0;
    switch (node->op) {
    case MLSI_OP_SLICE:
        while (n < same && slice->steps.v[n] == 1)
            n++;
        return n;
    case MLSI_OP_TRANSPOSE:
        while (n < same && turn->perm.v[n] == n)
            n++;
        return n;
    case MLSI_OP_RESHAPE: return same;
    default: break;
    }
    role r = role_of(node->op);
    if (r == ROLE_REDUCTION || (r == ROLE_ROWS && i == 0)) return rows_of(s, node);
    return in->rank != out->rank ? 0 : same;
}

static void want_operands(mlsi_fuse_state *s, int32_t member) {
    const mlsi_node *node = &s->f->nodes[member];
    for (int i = 0; i < node->n_in; i++) {
        const mlsi_value_def *def = node->in[i] < 0 ? NULL : &s->f->values[node->in[i]];
        if (!def || def->kind != MLSI_VALUE_NODE) continue;
        int kept = kept_indices(s, node, i);
        if (kept > s->aligned[member]) kept = s->aligned[member];
        if (!s->wanted[def->index] || kept < s->aligned[def->index])
            s->aligned[def->index] = (int8_t)kept;
        s->wanted[def->index] = true;
    }
}

static void forget_operands(mlsi_fuse_state *s, const mlsi_node *node) {
    for (int i = 0; i < node->n_in; i++) {
        const mlsi_value_def *def = node->in[i] < 0 ? NULL : &s->f->values[node->in[i]];
        if (def && def->kind == MLSI_VALUE_NODE) s->wanted[def->index] = false;
    }
}

static void take(mlsi_fuse_state *s, mlsi_fusion *u, int32_t node) {
    u->nodes[u->n_nodes++] = node;
    want_operands(s, node);
}

static mlsi_fuse_why may_begin(mlsi_fuse_state *s, int32_t root, mlsi_fusion *u) {
    const mlsi_node *node = &s->f->nodes[root];
    role r = role_of(node->op);
    if (r == ROLE_MOVEMENT) return MLSI_FUSE_VIEW;
    if (r == ROLE_NONE) return MLSI_FUSE_NO_LOOPS;
    mlsi_fuse_why why = node_fits(s, node);
    if (why != MLSI_FUSE_JOINED) return why;
    u->space = *type_of(s, r == ROLE_REDUCTION ? node->in[0] : node->first_out);
    u->row_rank = u->space.rank;
    s->aligned[root] = MLSYS_MAX_DIMS;
    return u->space.rank ? shapes_fit(s, u, root, r) : MLSI_FUSE_AXES;
}

static mlsi_fuse_why may_join(const mlsi_fuse_state *s, mlsi_fusion *u, int32_t n, int32_t root) {
    const mlsi_node *node = &s->f->nodes[n];
    role r = role_of(node->op);
    if (r == ROLE_NONE) return MLSI_FUSE_NO_LOOPS;
    if (s->group_of[n] >= 0) return MLSI_FUSE_ELSEWHERE;
    mlsi_fuse_why why = node_fits(s, node);
    if (why != MLSI_FUSE_JOINED) return why;
    if (r != ROLE_MOVEMENT && !outside_is_later(s, u, n, root)) return MLSI_FUSE_EARLIER;
    return shapes_fit(s, u, n, r);
}

/* ---- values of a group ----------------------------------------------------------------------------------------- */

static bool is_scalar_const(const mlsi_fuse_state *s, int32_t v) {
    const mlsi_value_def *def = &s->f->values[v];
    if (def->kind != MLSI_VALUE_CONST) return false;
    mlsi_view view = mlsi_tensor_view_of(s->g->consts[def->index]);
    return mlsi_view_count(&view) == 1;
}

static bool add_input(mlsi_fusion *u, int32_t v) {
    for (int i = 0; i < u->n_inputs; i++)
        if (u->inputs[i] == v) return true;
    if (u->n_inputs == MLSI_FUSE_VALUES) return false;
    u->inputs[u->n_inputs++] = v;
    return true;
}

static bool read_outside(const mlsi_fuse_state *s, int32_t v, int32_t root) {
    if (s->last_use[v] > root && !mlsi_fault(MLSI_FAULT_FUSE_OUTPUT)) return true;
    return s->f->values[v].index == root;
}

static bool find_values(const mlsi_fuse_state *s, mlsi_fusion *u, int32_t root) {
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &s->f->nodes[u->nodes[i]];
        for (int k = 0; k < node->n_in; k++) {
            int32_t v = node->in[k];
            const mlsi_value_def *def = v < 0 ? NULL : &s->f->values[v];
            if (!def || (def->kind == MLSI_VALUE_NODE && is_member(u, def->index)) ||
                is_scalar_const(s, v))
                continue;
            if (!add_input(u, v)) return false;
        }
        if (mlsi_fuse_is_movement(node->op) || !read_outside(s, node->first_out, root)) continue;
        if (u->n_outputs == MLSI_FUSE_VALUES) return false;
        u->outputs[u->n_outputs++] = node->first_out;
    }
    return true;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* Movement may be in several groups: an edge that is inside one of them stays so. */
static void answer(mlsi_fuse_state *s, int32_t edge, mlsi_fuse_why why) {
    if (s->edge_why[edge] != MLSI_FUSE_JOINED) s->edge_why[edge] = (uint8_t)why;
}

/* Of all members' edges from a node that did not join. */
static void answer_readers(mlsi_fuse_state *s, const mlsi_fusion *u, int32_t producer,
                           mlsi_fuse_why why) {
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &s->f->nodes[u->nodes[i]];
        for (int k = 0; k < node->n_in; k++) {
            const mlsi_value_def *def = node->in[k] < 0 ? NULL : &s->f->values[node->in[k]];
            if (def && def->kind == MLSI_VALUE_NODE && def->index == producer)
                answer(s, s->edges[u->nodes[i]] + k, why);
        }
    }
}

static void answer_members(mlsi_fuse_state *s, const mlsi_fusion *u, mlsi_fuse_why why) {
    for (int i = 0; i < u->n_nodes; i++)
        answer_readers(s, u, u->nodes[i], why);
}

/* Of a node that begins no group: it is the reader that does not fit. */
static void answer_operands(mlsi_fuse_state *s, int32_t reader, mlsi_fuse_why why) {
    int side = mlsi_fault(MLSI_FAULT_FUSE_SIDE) ? 0 : MLSI_FUSE_READER;
    for (int k = 0; k < s->f->nodes[reader].n_in && why != MLSI_FUSE_VIEW; k++)
        answer(s, s->edges[reader] + k, why | side);
}

/* ---- is it worth it? ------------------------------------------------------------------------------------------------ */

int64_t mlsi_fuse_bytes(const mlsi_fuse_state *s, int32_t value) {
    return mlsi_type_most_bytes(&s->g->symbols, type_of(s, value));
}

int64_t mlsi_fuse_least(const mlsi_fuse_state *s) {
    enum { LEAST = 1 << 20 };
    return s->p->fuse_least ? s->p->fuse_least : LEAST;
}

/* What no longer goes through memory: written and read again. */
static int64_t saved_bytes(const mlsi_fuse_state *s, const mlsi_fusion *u, int *real) {
    int64_t saved = 0;
    *real = 0;
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &s->f->nodes[u->nodes[i]];
        bool output = false;
        if (mlsi_fuse_is_movement(node->op)) continue;
        *real += 1;
        for (int k = 0; k < u->n_outputs; k++)
            output |= u->outputs[k] == node->first_out;
        int64_t bytes = mlsi_fuse_bytes(s, node->first_out);
        if (i < u->n_nodes - 1 &&
            (!mlsi_mul_i64(bytes, output ? 1 : 2, &bytes) || !mlsi_add_i64(saved, bytes, &saved)))
            return INT64_MAX;
    }
    return saved;
}

static void sort(mlsi_fusion *u) {
    for (int i = 1; i < u->n_nodes; i++)
        for (int j = i; j > 0 && u->nodes[j - 1] > u->nodes[j]; j--) {
            int32_t t = u->nodes[j];
            u->nodes[j] = u->nodes[j - 1];
            u->nodes[j - 1] = t;
        }
}

/* Producers from the root backwards, each asked once. */
static void collect(mlsi_fuse_state *s, int32_t root, mlsi_fusion *u) {
    enum { WINDOW = 512 };
    take(s, u, root);
    for (int32_t n = root - 1; n >= 0 && n > root - WINDOW && u->n_nodes < MLSI_FUSE_NODES; n--) {
        if (!s->wanted[n]) continue;
        s->wanted[n] = false;
        mlsi_fuse_why why = may_join(s, u, n, root);
        if (why == MLSI_FUSE_JOINED)
            take(s, u, n);
        else if (!mlsi_fault(MLSI_FAULT_FUSE_SILENT))
            answer_readers(s, u, n, why);
    }
    mlsi_fuse_why cut = u->n_nodes < MLSI_FUSE_NODES ? MLSI_FUSE_FAR : MLSI_FUSE_FULL;
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &s->f->nodes[u->nodes[i]];
        for (int k = 0; k < node->n_in; k++) {
            const mlsi_value_def *def = node->in[k] < 0 ? NULL : &s->f->values[node->in[k]];
            if (def && def->kind == MLSI_VALUE_NODE && s->wanted[def->index])
                answer(s, s->edges[u->nodes[i]] + k, cut);
        }
    }
    for (int i = 0; i < u->n_nodes; i++)
        forget_operands(s, &s->f->nodes[u->nodes[i]]);
}

bool mlsi_fuse_grow(mlsi_fuse_state *s, int32_t root, mlsi_fusion *u) {
    int real;
    if (s->group_of[root] >= 0) return false;
    memset(u, 0, sizeof *u);
    mlsi_fuse_why why = may_begin(s, root, u);
    if (why != MLSI_FUSE_JOINED) return answer_operands(s, root, why), false;
    collect(s, root, u);
    sort(u);
    if (!find_values(s, u, root))
        why = MLSI_FUSE_VALUES_FULL;
    else if (saved_bytes(s, u, &real) < mlsi_fuse_least(s))
        why = real < 2 ? MLSI_FUSE_ALONE : MLSI_FUSE_LITTLE;
    else if (real < 2)
        why = MLSI_FUSE_ALONE;
    answer_members(s, u, why);
    return why == MLSI_FUSE_JOINED;
}

/* ---- one node ---------------------------------------------------------------------------------------------------------- */

static bool has_loops(const mlsi_op_def *def) {
    return def->element || def->reduces || def->nest || def->decompose ||
           def->shares != MLSI_SHARES_BY_TRAITS || def->traits & MLSI_TRAIT_ELEMENTWISE;
}

/* Takes in, before their reader, the views between a value and contiguous memory. */
static bool take_views(const mlsi_fuse_state *s, mlsi_fusion *u, int32_t v) {
    while (v >= 0 && !s->facts[v].contiguous) {
        const mlsi_value_def *def = &s->f->values[v];
        if (def->kind != MLSI_VALUE_NODE) return false; /* a strided constant */
        if (is_member(u, def->index)) return true;
        if (u->n_nodes == MLSI_FUSE_NODES) return false;
        u->nodes[u->n_nodes++] = def->index;
        v = s->f->nodes[def->index].in[0];
    }
    return true;
}

bool mlsi_fuse_alone(mlsi_fuse_state *s, int32_t root, mlsi_fusion *u) {
    const mlsi_node *node = &s->f->nodes[root];
    memset(u, 0, sizeof *u);
    if (!has_loops(mlsi_op_get(node->op))) return false;
    u->nodes[u->n_nodes++] = root;
    for (int i = 0; i < node->n_in; i++)
        if (!take_views(s, u, node->in[i])) return false;
    sort(u);
    if (!find_values(s, u, root)) return false;
    u->n_outputs = 0;
    for (int r = 0; r < node->n_out && r < MLSI_FUSE_VALUES; r++)
        u->outputs[u->n_outputs++] = node->first_out + r;
    return u->n_outputs == node->n_out;
}
