/* transpose: layouts of elementwise values. Nodes that go element by element over one shape and read each other form a region, which
 * may be computed with its axes in any order; what enters and leaves it is then transposed. The order is the one in which the fewest
 * bytes are read or written across their order in memory, the given one where none is better: transposes that enter and leave
 * cancel (simplify comes next), and those that a product reads are strides, which cost it nothing.
 *
 * A product that only a transpose reads is computed transposed, (a b)^T = b^T a^T: the same sums in the same order. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <string.h>

enum { MOST_ORDERS = 6 };

typedef struct region {
    mlsi_list order
        [MOST_ORDERS]; /* element i of axis j of a value is element i of axis order.v[j] inside; 0: as given */
    int64_t cost[MOST_ORDERS]; /* bytes */
    int n_orders, best;
} region;

typedef struct transpose_pass {
    const mlsi_graph *g;
    const mlsi_func *f;
    int32_t *
        region_of; /* per node: its region's first node, itself; -1: it does not go element by element */
    region *regions; /* per node: of those that are first */
    int32_t *uses;   /* per value */
    int32_t *inside; /* per old value of a region in another order: the new value inside */
} transpose_pass;

/* ---- regions --------------------------------------------------------------------------------------------------- */

static const mlsi_type *type_of(const transpose_pass *t, int32_t value) {
    return &t->f->values[value].type;
}

static bool same_dims(const mlsi_type *a, const mlsi_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

static bool goes_by_elements(const mlsi_node *node, const mlsi_type *type) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    for (const mlsi_attr_desc *a = def->attrs; a && a->name; a++)
        if (a->kind == MLSI_ATTR_LIST || a->kind == MLSI_ATTR_DIMS) return false;
    bool elements = def->traits & MLSI_TRAIT_ELEMENTWISE || def->shares == MLSI_SHARES_ELEMENTS;
    return elements && !(def->traits & MLSI_TRAIT_VIEW) && node->op != MLSI_OP_COPY &&
           node->n_out == 1 && type->rank >= 2 && !mlsi_dtype_is_block(type->dtype);
}

static int32_t first_of(const transpose_pass *t, int32_t n) {
    while (t->region_of[n] != n)
        n = t->region_of[n] = t->region_of[t->region_of[n]];
    return n;
}

/* The node that defines a value of a region of this shape, -1 = none. */
static int32_t member(const transpose_pass *t, int32_t value, const mlsi_type *shape) {
    const mlsi_value_def *def = value < 0 ? NULL : &t->f->values[value];
    if (!def || def->kind != MLSI_VALUE_NODE || t->region_of[def->index] < 0) return -1;
    return same_dims(&def->type, shape) ? def->index : -1;
}

static void find_regions(transpose_pass *t) {
    for (int32_t n = 0; n < t->f->n_nodes; n++) {
        const mlsi_node *node = &t->f->nodes[n];
        const mlsi_type *type = type_of(t, node->first_out);
        t->region_of[n] = goes_by_elements(node, type) ? n : -1;
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i] >= 0) t->uses[node->in[i]]++;
            int32_t other = t->region_of[n] < 0 ? -1 : member(t, node->in[i], type);
            if (other >= 0) t->region_of[first_of(t, other)] = first_of(t, n);
        }
    }
    for (int64_t o = 0; o < t->f->n_outputs; o++)
        t->uses[t->f->outputs[o].value]++;
}

/* ---- orders -------------------------------------------------------------------------------------------------------- */

static mlsi_list as_given(int32_t rank) {
    mlsi_list order;
    memset(&order, 0, sizeof order);
    order.n = rank;
    for (int i = 0; i < rank; i++)
        order.v[i] = i;
    return order;
}

static bool is_as_given(const mlsi_list *order) {
    for (int64_t i = 0; i < order->n; i++)
        if (order->v[i] != i) return false;
    return true;
}

/* The transpose that a value is, or NULL. */
static const mlsi_attr_transpose *transpose_at(const mlsi_func *f, int32_t value) {
    const mlsi_value_def *def = &f->values[value];
    if (def->kind != MLSI_VALUE_NODE || f->nodes[def->index].op != MLSI_OP_TRANSPOSE) return NULL;
    return f->nodes[def->index].attrs;
}

static void add_order(region *r, const mlsi_list *order) {
    for (int k = 0; k < r->n_orders; k++)
        if (!memcmp(&r->order[k], order, sizeof *order)) return;
    if (r->n_orders < MOST_ORDERS) r->order[r->n_orders++] = *order;
}

static mlsi_list inverse_of(const mlsi_list *p) {
    mlsi_list q = *p;
    for (int64_t i = 0; i < p->n; i++)
        q.v[p->v[i]] = i;
    return q;
}

/* Of operands that come transposed, and of transposes that leave. */
static void find_orders(transpose_pass *t) {
    for (int32_t n = 0; n < t->f->n_nodes; n++) {
        const mlsi_node *node = &t->f->nodes[n];
        const mlsi_attr_transpose *a = node->op == MLSI_OP_TRANSPOSE ? node->attrs : NULL;
        int32_t from = a ? member(t, node->in[0], type_of(t, node->in[0])) : -1;
        const mlsi_list leaves = a ? inverse_of(&a->perm) : as_given(0);
        if (from >= 0) add_order(&t->regions[first_of(t, from)], &leaves);
        if (t->region_of[n] < 0) continue;
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i] < 0 || !same_dims(type_of(t, node->in[i]), type_of(t, node->first_out)))
                continue;
            a = transpose_at(t->f, node->in[i]);
            if (a) add_order(&t->regions[first_of(t, n)], &a->perm);
        }
    }
}

/* ---- costs -------------------------------------------------------------------------------------------------------- */

static void add_cost(const transpose_pass *t, region *r, int k, int32_t value) {
    int64_t bytes = mlsi_type_most_bytes(&t->g->symbols, type_of(t, value));
    if (!mlsi_add_i64(r->cost[k], bytes, &r->cost[k])) r->cost[k] = INT64_MAX;
}

/* An operand from outside, when the region is computed in order k. */
static void cost_of_operand(const transpose_pass *t, region *r, int k, int32_t value) {
    const mlsi_list *order = &r->order[k];
    const int64_t rank = type_of(t, value)->rank;
    const mlsi_attr_transpose *a = transpose_at(t->f, value);
    for (int64_t i = order->n - rank; rank < order->n && i < order->n; i++)
        if (order->v[i] != i) r->cost[k] = INT64_MAX; /* broadcasts along other axes */
    if (rank < order->n) return;
    if (a ? memcmp(&a->perm, order, sizeof *order) != 0 : !is_as_given(order))
        add_cost(t, r, k, value);
}

/* A value that a node outside reads. */
static void cost_of_reader(const transpose_pass *t, region *r, int k, const mlsi_node *reader,
                           int32_t value) {
    mlsi_list seen = r->order[k];
    if (reader->op == MLSI_OP_MATMUL || reader->op == MLSI_OP_DOT_GENERAL) return;
    if (reader->op == MLSI_OP_TRANSPOSE) {
        const mlsi_attr_transpose *a = reader->attrs;
        for (int64_t i = 0; i < seen.n; i++)
            seen.v[i] = r->order[k].v[a->perm.v[i]];
    }
    if (!is_as_given(&seen)) add_cost(t, r, k, value);
}

static void add_costs(transpose_pass *t, const mlsi_node *node, int32_t n) {
    const mlsi_type *shape = type_of(t, node->first_out);
    for (int i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i];
        if (v < 0) continue;
        int32_t from = member(t, v, type_of(t, v)), own = t->region_of[n] < 0 ? -1 : first_of(t, n);
        region *to = own < 0 ? NULL : &t->regions[own];
        bool joined = own >= 0 && member(t, v, shape) >= 0;
        for (int k = 0; to && !joined && k < to->n_orders; k++)
            cost_of_operand(t, to, k, v);
        region *r = from < 0 || joined ? NULL : &t->regions[first_of(t, from)];
        for (int k = 0; r && k < r->n_orders; k++)
            cost_of_reader(t, r, k, node, v);
    }
}

static void choose_orders(transpose_pass *t) {
    for (int32_t n = 0; n < t->f->n_nodes; n++)
        add_costs(t, &t->f->nodes[n], n);
    for (int64_t o = 0; o < t->f->n_outputs; o++) {
        int32_t v = t->f->outputs[o].value, from = member(t, v, type_of(t, v));
        region *r = from < 0 ? NULL : &t->regions[first_of(t, from)];
        for (int k = 0; r && k < r->n_orders; k++)
            if (!is_as_given(&r->order[k])) add_cost(t, r, k, v);
    }
    for (int32_t n = 0; n < t->f->n_nodes; n++)
        for (int k = 1; k < t->regions[n].n_orders; k++)
            if (t->regions[n].cost[k] < t->regions[n].cost[t->regions[n].best])
                t->regions[n].best = k;
}

/* ---- rewriting ------------------------------------------------------------------------------------------------------ */

static mlsys_status turn(mlsi_rewrite *rw, int32_t value, const mlsi_list *perm, int32_t *out) {
    mlsi_attr_transpose a;
    memset(&a, 0, sizeof a);
    a.perm = *perm;
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_TRANSPOSE, &a, 1, &value, 1, out);
}

/* What, transposed by the order, is the new value: through the transpose that it is, if any. */
static mlsys_status take_inside(mlsi_rewrite *rw, int32_t value, const mlsi_list *order,
                                int32_t *out) {
    mlsi_list perm = inverse_of(order);
    const mlsi_node *def = mlsi_rewrite_def(rw, value);
    if (mlsi_type_of(rw->g, rw->func, value)->rank < order->n) return *out = value, MLSYS_OK;
    if (def && def->op == MLSI_OP_TRANSPOSE) {
        const mlsi_attr_transpose *a = def->attrs;
        value = def->in[0];
        for (int64_t i = 0; i < perm.n; i++)
            perm.v[i] = a->perm.v[perm.v[i]];
    }
    if (is_as_given(&perm)) return *out = value, MLSYS_OK;
    return turn(rw, value, &perm, out);
}

static mlsys_status visit_member(mlsi_rewrite *rw, const mlsi_node *node, const mlsi_list *order,
                                 int32_t *out) {
    transpose_pass *t = rw->user;
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++) {
        int32_t old = node->in[i];
        in[i] = -1;
        if (old < 0) continue;
        if (member(t, old, type_of(t, node->first_out)) >= 0)
            in[i] = t->inside[old];
        else
            MLSI_TRY(take_inside(rw, rw->map[old], order, &in[i]));
    }
    MLSI_TRY(mlsi_build_node(rw->g, rw->func, node->op, node->attrs, node->n_in, in, 1,
                             &t->inside[node->first_out]));
    mlsi_list outer = *order;
    if (mlsi_fault(MLSI_FAULT_TRANSPOSE_INVERSE)) outer = inverse_of(order);
    mlsi_rewrite_by(rw, MLSI_BY_IDENTITY, "transpose_past_elements");
    return turn(rw, t->inside[node->first_out], &outer, out);
}

/* Of a product of two matrices that nobody else reads, by their last two axes. */
static const mlsi_node *product_of(const transpose_pass *t, const mlsi_node *node) {
    const mlsi_value_def *def = &t->f->values[node->in[0]];
    const mlsi_node *product = def->kind == MLSI_VALUE_NODE ? &t->f->nodes[def->index] : NULL;
    if (!product || product->op != MLSI_OP_MATMUL || t->uses[node->in[0]] != 1) return NULL;
    const mlsi_list *p = &((const mlsi_attr_transpose *)node->attrs)->perm;
    const mlsi_type *a = type_of(t, product->in[0]), *b = type_of(t, product->in[1]);
    if (a->rank < 2 || b->rank < 2 || a->dtype != b->dtype) return NULL;
    for (int64_t i = 0; i < p->n; i++)
        if (p->v[i] != (i < p->n - 2 ? i : 2 * p->n - 3 - i)) return NULL;
    return product;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    const transpose_pass *t = rw->user;
    int32_t n = (int32_t)(node - rw->old.nodes);
    const region *r = t->region_of[n] < 0 ? NULL : &t->regions[first_of(t, n)];
    const mlsi_node *product = node->op == MLSI_OP_TRANSPOSE ? product_of(t, node) : NULL;
    if (r && r->best) return visit_member(rw, node, &r->order[r->best], out);
    if (!product) return mlsi_rewrite_keep(rw, node, out);
    const mlsi_attr_matmul *a = product->attrs;
    const mlsi_attr_matmul turned = {.transpose_a = !a->transpose_b,
                                     .transpose_b = !a->transpose_a};
    int32_t in[2] = {rw->map[product->in[1]], rw->map[product->in[0]]};
    mlsi_rewrite_by(rw, MLSI_BY_IDENTITY, "transpose_of_matmul");
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_MATMUL,
                           mlsi_fault(MLSI_FAULT_TRANSPOSE_FACTORS) ? a : &turned, 2, in, 1, out);
}

static bool has_transpose(const mlsi_func *f) {
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == MLSI_OP_TRANSPOSE) return true;
    return false;
}

mlsys_status mlsi_pass_transpose(mlsi_pass_ctx *p, int32_t func) {
    const mlsi_func f = p->g->funcs[func]; /* by value: the array moves */
    mlsi_alloc *a = p->g->alloc;
    transpose_pass t = {.g = p->g, .f = &f};
    if (!has_transpose(&f)) return MLSYS_OK;
    mlsys_status st = MLSI_NEW_N(a, f.n_nodes + 1, &t.region_of);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, f.n_nodes + 1, &t.regions);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, f.n_values + 1, &t.uses);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, f.n_values + 1, &t.inside);
    if (st == MLSYS_OK) {
        find_regions(&t);
        for (int32_t n = 0; n < f.n_nodes; n++) {
            mlsi_list given = as_given(type_of(&t, f.nodes[n].first_out)->rank);
            if (t.region_of[n] == n) add_order(&t.regions[n], &given);
        }
        find_orders(&t);
        choose_orders(&t);
        st = mlsi_rewrite_run(p, func, visit, &t);
    }
    void *owned[] = {t.region_of, t.regions, t.uses, t.inside};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(a, owned[i]);
    return st;
}
