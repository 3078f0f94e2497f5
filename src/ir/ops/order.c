/* Order along an axis: sort, topk. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/reference.h"

#include <string.h>

/* Is x strictly before y? NaN is the greatest, and equal to NaN; -0 equals +0. */
static bool before_f(double x, double y, bool descending) {
    bool nx = isnan(x), ny = isnan(y);
    if (nx || ny) return descending ? nx && !ny : !nx && ny;
    return descending ? x > y : x < y;
}

typedef struct order_row {
    const mlsi_view *x;
    int64_t axis, n, index[MLSYS_MAX_DIMS];
    bool descending;
    int64_t *perm;
} order_row;

static int64_t element(order_row *r, const mlsi_view *v, int64_t i) {
    r->index[r->axis] = i;
    return mlsi_ref_ravel(v->rank, v->shape, r->index);
}

static bool before(order_row *r, int64_t i, int64_t j) {
    int64_t a = element(r, r->x, i), b = element(r, r->x, j);
    if (mlsi_dtype_is_float(r->x->dtype))
        return before_f(mlsi_ref_get_f(r->x, a), mlsi_ref_get_f(r->x, b), r->descending);
    int64_t p = mlsi_ref_get_i(r->x, a), q = mlsi_ref_get_i(r->x, b);
    return r->descending ? p > q : p < q;
}

/* Insertion: stable by construction. */
static void sort_row(order_row *r) {
    for (int64_t i = 0; i < r->n; i++) {
        int64_t j = i;
        bool unstable = mlsi_fault(MLSI_FAULT_OPS_SORT_UNSTABLE);
        for (; j > 0 && (unstable ? !before(r, r->perm[j - 1], i) : before(r, i, r->perm[j - 1]));
             j--)
            r->perm[j] = r->perm[j - 1];
        r->perm[j] = i;
    }
}

/* The first `take` of each sorted row: values, and their positions when asked for. */
static mlsys_status order(const mlsi_ref_args *a, int64_t axis, bool descending, int64_t take) {
    const mlsi_view *x = &a->in[0];
    int64_t heads[MLSYS_MAX_DIMS], rows = 1;
    order_row r = {.x = x, .axis = axis, .n = x->shape[axis], .descending = descending};
    for (int d = 0; d < x->rank; d++)
        rows *= heads[d] = d == axis ? 1 : x->shape[d];
    MLSI_TRY(MLSI_NEW_N(a->alloc, r.n + 1, &r.perm));
    for (int64_t k = 0; k < rows; k++) {
        mlsi_ref_unravel(x->rank, heads, k, r.index);
        sort_row(&r);
        for (int64_t i = 0; i < take; i++) {
            int64_t from = element(&r, x, r.perm[i]), to = element(&r, &a->out[0], i);
            mlsi_ref_move(&a->out[0], to, x, from);
            if (a->n_out > 1) mlsi_ref_set_i(&a->out[1], to, r.perm[i]);
        }
    }
    mlsi_mem_free(a->alloc, r.perm);
    return MLSYS_OK;
}

static void set_outputs(mlsi_infer *t) {
    if (t->n_out < 2) return;
    t->out[1] = t->out[0];
    t->out[1].dtype = MLSYS_I64;
}

static uint64_t log2_ceil(uint64_t n) {
    uint64_t b = 0;
    while (b < 63 && (uint64_t)1 << b < n)
        b++;
    return b;
}

/* ---- sort ---------------------------------------------------------------------------------- */

static mlsys_status infer_sort(mlsi_infer *t) {
    mlsi_attr_sort *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_NUMBERS));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    t->out[0] = t->in[0];
    set_outputs(t);
    return MLSYS_OK;
}

static mlsys_status ref_sort(const mlsi_ref_args *a) {
    const mlsi_attr_sort *attrs = a->attrs;
    return order(a, attrs->axis, attrs->descending != 0, a->in[0].shape[attrs->axis]);
}

static void cost_sort(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_sort *attrs = a->attrs;
    c->flops = mlsi_cost_count(&a->in[0]) * log2_ceil((uint64_t)a->in[0].shape[attrs->axis]);
}

static const mlsi_attr_desc sort_attrs[] = {{.name = "axis",
                                             .kind = MLSI_ATTR_I64,
                                             .offset = offsetof(mlsi_attr_sort, axis),
                                             .default_i = -1,
                                             .help = "axis along which elements are ordered"},
                                            {.name = "descending",
                                             .kind = MLSI_ATTR_BOOL,
                                             .offset = offsetof(mlsi_attr_sort, descending),
                                             .help = "greatest first"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_sort = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 2,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_sort),
    .attrs = sort_attrs,
    .infer = infer_sort,
    .cost = cost_sort,
    .ref = ref_sort,
    .nest = mlsi_loops_sort,
    .vjp = mlsi_vjp_sort,
    .doc = "x ordered along axis; a second result, if asked for, holds the positions (i64) that "
           "the elements "
           "came from. Equal elements keep their order, descending too.",
    .special = "NaN is the greatest value, all NaNs are equal; -0 equals +0. Bits are kept."};

/* ---- topk ---------------------------------------------------------------------------------- */

static mlsys_status infer_topk(mlsi_infer *t) {
    mlsi_attr_topk *attrs = t->attrs;
    int64_t lo, hi;
    char a[128];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_NUMBERS));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    mlsi_dim_range(t->symbols, t->in[0].dims[attrs->axis], &lo, &hi);
    if (attrs->k < 0 || attrs->k > lo)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0,
                               "axis %lld: k = %lld is not provably within extent %s",
                               (long long)attrs->axis, (long long)attrs->k,
                               mlsi_dim_text(t->symbols, t->in[0].dims[attrs->axis], a, sizeof a));
    t->out[0] = t->in[0];
    t->out[0].dims[attrs->axis] = attrs->k;
    set_outputs(t);
    return MLSYS_OK;
}

static mlsys_status ref_topk(const mlsi_ref_args *a) {
    const mlsi_attr_topk *attrs = a->attrs;
    return order(a, attrs->axis, true, attrs->k);
}

static void cost_topk(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_topk *attrs = a->attrs;
    c->flops = mlsi_cost_count(&a->in[0]) * (1 + log2_ceil((uint64_t)attrs->k));
}

static const mlsi_attr_desc topk_attrs[] = {
    {.name = "k",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_topk, k),
     .required = true,
     .help = "elements to take, at most the extent of axis"},
    {.name = "axis",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_topk, axis),
     .default_i = -1,
     .help = "axis along which elements are ordered"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_topk = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 2,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_topk),
    .attrs = topk_attrs,
    .infer = infer_topk,
    .cost = cost_topk,
    .ref = ref_topk,
    .nest = mlsi_loops_topk,
    .vjp = mlsi_vjp_topk,
    .doc = "The k greatest elements along axis, greatest first, and, if a second result is asked "
           "for, their "
           "positions (i64). Ties: the lower position first.",
    .special = "NaN is the greatest value; -0 equals +0. k = 0 is legal. Bits are kept.",
    .onnx = "TopK"};
