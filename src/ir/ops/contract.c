/* Products along contracted axes: dot_general, and matmul on top of it. */
#include "ir/ops/decompose.h"
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/movement.h"

#include <string.h>

/* ---- dot_general --------------------------------------------------------------------------- */

static bool contains(const mlsi_list *l, int64_t axis) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == axis) return true;
    return false;
}

/* Operands: integers of one dtype, or floats that share a compute type. */
static mlsys_status infer_factors(const mlsi_infer *t) {
    for (int i = 0; i < 2; i++)
        MLSI_TRY(mlsi_infer_class(t, i, MLSI_NUMBERS));
    mlsys_dtype a = t->in[0].dtype, b = t->in[1].dtype;
    if (mlsi_dtype_is_float(a) && mlsi_dtype_is_float(b) && (a == MLSYS_F64) == (b == MLSYS_F64))
        return MLSYS_OK;
    return mlsi_infer_same_dtype(t, 0, 1);
}

static mlsys_status dot_dtype(const mlsi_infer *t, int64_t dtype, mlsys_dtype *out) {
    mlsys_dtype a = t->in[0].dtype;
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype ? (mlsys_dtype)dtype : a);
    *out = dtype ? (mlsys_dtype)dtype : a;
    bool same_class = info && info->class_ == mlsi_dtype_get(a)->class_;
    if (same_class && (*out != MLSYS_F64 || a == MLSYS_F64)) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: %s cannot hold products of %s",
                           info ? info->name : "0", mlsi_dtype_get(a)->name);
}

/* Axes in range, none twice over the two lists of one operand. */
static mlsys_status check_axes(const mlsi_infer *t, int operand, const char *what, mlsi_list *batch,
                               mlsi_list *contract) {
    uint32_t seen = 0;
    int64_t rank = t->in[operand].rank;
    for (int which = 0; which < 2; which++) {
        mlsi_list *l = which ? contract : batch;
        for (int64_t i = 0; i < l->n; i++) {
            if (l->v[i] < -rank || l->v[i] >= rank)
                return mlsi_infer_fail(t, MLSYS_E_ARG, operand, "%s axis %lld outside [%lld,%lld)",
                                       what, (long long)l->v[i], (long long)-rank, (long long)rank);
            if (l->v[i] < 0) l->v[i] += rank;
            if (seen >> l->v[i] & 1)
                return mlsi_infer_fail(t, MLSYS_E_ARG, operand, "%s axis %lld is named twice", what,
                                       (long long)l->v[i]);
            seen |= 1u << l->v[i];
        }
    }
    return MLSYS_OK;
}

static mlsys_status check_pairs(const mlsi_infer *t, const char *what, const mlsi_list *l,
                                const mlsi_list *r) {
    char a[128], b[128];
    if (l->n != r->n)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%lld %s axes of lhs, %lld of rhs",
                               (long long)l->n, what, (long long)r->n);
    for (int64_t i = 0; i < l->n; i++) {
        int64_t x = t->in[0].dims[l->v[i]], y = t->in[1].dims[r->v[i]];
        if (x == y) continue;
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s axis %lld: extent %s, lhs has %s", what,
                               (long long)r->v[i], mlsi_dim_text(t->symbols, y, b, sizeof b),
                               mlsi_dim_text(t->symbols, x, a, sizeof a));
    }
    return MLSYS_OK;
}

static mlsys_status add_dim(const mlsi_infer *t, int64_t dim) {
    mlsi_type *y = &t->out[0];
    if (y->rank == MLSYS_MAX_DIMS)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "result has more than %d axes",
                               MLSYS_MAX_DIMS);
    y->dims[y->rank++] = dim;
    return MLSYS_OK;
}

static mlsys_status infer_dot(mlsi_infer *t) {
    mlsi_attr_dot *at = t->attrs;
    MLSI_TRY(infer_factors(t));
    MLSI_TRY(check_axes(t, 0, "lhs", &at->lhs_batch, &at->lhs_contract));
    MLSI_TRY(check_axes(t, 1, "rhs", &at->rhs_batch, &at->rhs_contract));
    MLSI_TRY(check_pairs(t, "batch", &at->lhs_batch, &at->rhs_batch));
    MLSI_TRY(check_pairs(t, "contracted", &at->lhs_contract, &at->rhs_contract));
    t->out[0] = (mlsi_type){0};
    MLSI_TRY(dot_dtype(t, at->dtype, &t->out[0].dtype));
    at->dtype = t->out[0].dtype;
    for (int64_t i = 0; i < at->lhs_batch.n; i++)
        MLSI_TRY(add_dim(t, t->in[0].dims[at->lhs_batch.v[i]]));
    for (int d = 0; d < t->in[0].rank; d++)
        if (!contains(&at->lhs_batch, d) && !contains(&at->lhs_contract, d))
            MLSI_TRY(add_dim(t, t->in[0].dims[d]));
    for (int d = 0; d < t->in[1].rank; d++)
        if (!contains(&at->rhs_batch, d) && !contains(&at->rhs_contract, d))
            MLSI_TRY(add_dim(t, t->in[1].dims[d]));
    return mlsi_infer_addend(t, 2);
}

typedef struct dot_walk {
    const mlsi_view *a, *b;
    const mlsi_attr_dot *at;
    int64_t ia[MLSYS_MAX_DIMS], ib[MLSYS_MAX_DIMS], contract_shape[MLSYS_MAX_DIMS], k;
} dot_walk;

static void dot_locate(dot_walk *w, int64_t k) {
    int64_t index[MLSYS_MAX_DIMS];
    mlsi_ref_unravel((int32_t)w->at->lhs_contract.n, w->contract_shape, k, index);
    for (int64_t i = 0; i < w->at->lhs_contract.n; i++) {
        w->ia[w->at->lhs_contract.v[i]] = index[i];
        w->ib[w->at->rhs_contract.v[i]] = index[i];
    }
}

static void dot_pair(void *user, int64_t k, double *a, double *b) {
    dot_walk *w = user;
    dot_locate(w, k);
    *a = mlsi_ref_get_f(w->a, mlsi_ref_ravel(w->a->rank, w->a->shape, w->ia));
    *b = mlsi_ref_get_f(w->b, mlsi_ref_ravel(w->b->rank, w->b->shape, w->ib));
}

static int64_t dot_ints(dot_walk *w, int64_t s) {
    for (int64_t k = 0; k < w->k; k++) {
        dot_locate(w, k);
        s = mlsi_ref_iadd(
            s, mlsi_ref_imul(mlsi_ref_get_i(w->a, mlsi_ref_ravel(w->a->rank, w->a->shape, w->ia)),
                             mlsi_ref_get_i(w->b, mlsi_ref_ravel(w->b->rank, w->b->shape, w->ib))));
    }
    return s;
}

static mlsys_status ref_dot(const mlsi_ref_args *r) {
    const mlsi_attr_dot *at = r->attrs;
    const mlsi_view *y = &r->out[0];
    dot_walk w = {.a = &r->in[0], .b = &r->in[1], .at = at, .k = 1};
    int64_t index[MLSYS_MAX_DIMS];
    for (int64_t i = 0; i < at->lhs_contract.n; i++) {
        w.contract_shape[i] = w.a->shape[at->lhs_contract.v[i]];
        w.k *= w.contract_shape[i];
    }
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        int o = 0;
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        for (int64_t d = 0; d < at->lhs_batch.n; d++, o++)
            w.ia[at->lhs_batch.v[d]] = w.ib[at->rhs_batch.v[d]] = index[o];
        for (int d = 0; d < w.a->rank; d++)
            if (!contains(&at->lhs_batch, d) && !contains(&at->lhs_contract, d))
                w.ia[d] = index[o++];
        for (int d = 0; d < w.b->rank; d++)
            if (!contains(&at->rhs_batch, d) && !contains(&at->rhs_contract, d))
                w.ib[d] = index[o++];
        if (mlsi_dtype_is_float(y->dtype)) {
            double addend = mlsi_ref_addend(r, 2, i);
            mlsi_ref_set_f(y, i,
                           mlsi_ref_dot(mlsi_ref_is_f64(w.a->dtype), addend, w.k, dot_pair, &w));
        } else {
            bool given = r->n_in > 2 && r->in[2].data;
            mlsi_ref_set_i(y, i, dot_ints(&w, given ? mlsi_ref_get_i(&r->in[2], i) : 0));
        }
    }
    return MLSYS_OK;
}

static void cost_dot(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_dot *at = a->attrs;
    uint64_t k = 1;
    for (int64_t i = 0; i < at->lhs_contract.n; i++)
        k *= (uint64_t)a->in[0].shape[at->lhs_contract.v[i]];
    c->flops = 2 * k * mlsi_cost_count(&a->out[0]);
}

#define DOT_LIST(field, text)                                                                      \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_LIST, .offset = offsetof(mlsi_attr_dot, field),          \
        .help = text                                                                               \
    }

static const mlsi_attr_desc dot_attrs[] = {
    DOT_LIST(lhs_batch, "axes of lhs that are paired, in the order of the result"),
    DOT_LIST(rhs_batch, "their partners in rhs"),
    DOT_LIST(lhs_contract, "axes of lhs that are summed over, outermost first"),
    DOT_LIST(rhs_contract, "their partners in rhs"),
    {.name = "dtype",
     .kind = MLSI_ATTR_DTYPE,
     .offset = offsetof(mlsi_attr_dot, dtype),
     .help = "dtype of the result, of lhs's class; default lhs's"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_dot_general = {
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "lhs, rhs, addend?",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_COMPUTES,
    .attrs_size = sizeof(mlsi_attr_dot),
    .attrs = dot_attrs,
    .infer = infer_dot,
    .reduces = mlsi_loops_dot_space,
    .term = mlsi_loops_dot_term,
    .cost = cost_dot,
    .ref = ref_dot,
    .vjp = mlsi_vjp_dot_general,
    .doc = "Sum over the contracted axes of lhs * rhs, for each pair of batch indices and all free "
           "axes. "
           "Result axes: batch, then lhs's free ones, then rhs's, each in operand order. Products "
           "along K as "
           "docs/numerics.md states, one rounding to the result's dtype. Floats of different "
           "dtypes may be "
           "mixed unless one is f64; integers wrap in the result's width. addend, of the result's "
           "type: the segments "
           "along K are added to it in their order, so a product over the first rows of K, whole "
           "segments, and the "
           "addend of one over the others give the bits of one product.",
    .special = "K = 0 gives +0, or addend + 0. 0 * inf = NaN takes part like any product."};

/* ---- matmul -------------------------------------------------------------------------------- */

typedef struct matmul_axes {
    int batch_a, batch_b; /* number of leading batch axes */
    int m, ka, kb, n;     /* axes; m, n = -1 for vectors */
} matmul_axes;

static matmul_axes axes_of(const mlsi_attr_matmul *at, int rank_a, int rank_b) {
    matmul_axes x = {.batch_a = rank_a > 2 ? rank_a - 2 : 0,
                     .batch_b = rank_b > 2 ? rank_b - 2 : 0,
                     .m = rank_a - 2,
                     .ka = rank_a - 1,
                     .kb = 0,
                     .n = -1};
    if (rank_a > 1 && at->transpose_a) x.m = rank_a - 1, x.ka = rank_a - 2;
    if (rank_b > 1) {
        x.kb = at->transpose_b ? rank_b - 1 : rank_b - 2;
        x.n = at->transpose_b ? rank_b - 2 : rank_b - 1;
    }
    return x;
}

/* Leading batch axes of operand i only, broadcast with the other's. */
static mlsys_status infer_batch(const mlsi_infer *t, matmul_axes x, mlsi_type *batch) {
    mlsi_type lead[2] = {t->in[0], t->in[1]};
    lead[0].rank = x.batch_a;
    lead[1].rank = x.batch_b;
    mlsi_infer sub = *t;
    sub.in = lead;
    return mlsi_infer_broadcast(&sub, 0, 2, batch);
}

static mlsys_status infer_matmul(mlsi_infer *t) {
    const mlsi_type *a = &t->in[0], *b = &t->in[1];
    char p[160], q[160];
    MLSI_TRY(infer_factors(t));
    for (int i = 0; i < 2; i++)
        if (t->in[i].rank == 0)
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "rank 0, expected >= 1");
    matmul_axes x = axes_of(t->attrs, a->rank, b->rank);
    if (a->dims[x.ka] != b->dims[x.kb])
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s: K axis %d does not match axis %d of %s",
                               mlsi_type_text(t->symbols, b, p, sizeof p), x.kb, x.ka,
                               mlsi_type_text(t->symbols, a, q, sizeof q));
    MLSI_TRY(infer_batch(t, x, &t->out[0]));
    if (x.m >= 0) MLSI_TRY(add_dim(t, a->dims[x.m]));
    if (x.n >= 0) MLSI_TRY(add_dim(t, b->dims[x.n]));
    return MLSYS_OK;
}

static void cost_matmul(const mlsi_cost_args *a, mlsi_op_cost *c) {
    matmul_axes x = axes_of(a->attrs, a->in[0].rank, a->in[1].rank);
    c->flops = 2 * mlsi_cost_count(&a->out[0]) * (uint64_t)a->in[0].shape[x.ka];
}

/* Give v the batch dims, keeping its last two axes. */
static int32_t with_batch(mlsi_emit *e, int32_t v, int own, const mlsi_type *batch) {
    int64_t dims[MLSYS_MAX_DIMS];
    if (e->st != MLSYS_OK) return v;
    const mlsi_type *t = mlsi_emit_type(e, v);
    memcpy(dims, batch->dims, sizeof dims);
    for (int i = own; i < t->rank; i++)
        dims[batch->rank + i - own] = t->dims[i];
    return mlsi_emit_broadcast(e, v, batch->rank + t->rank - own, dims);
}

static mlsys_status decompose_matmul(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                     const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type types[2] = {*mlsi_emit_type(&e, in[0]), *mlsi_emit_type(&e, in[1])};
    matmul_axes x = axes_of(attrs, types[0].rank, types[1].rank);
    int32_t ab[2] = {in[0], in[1]};
    mlsi_attr_dot dot;
    (void)n_in, (void)n_out;
    memset(&dot, 0, sizeof dot);
    int lead_a = x.batch_a, lead_b = x.batch_b;
    if (x.batch_b) { /* rhs batches: lhs must have them too */
        mlsi_type batch;
        mlsi_infer t = {.symbols = &g->symbols,
                        .def = mlsi_op_get(MLSI_OP_MATMUL),
                        .op = "matmul",
                        .n_in = 2,
                        .in = types};
        MLSI_TRY(infer_batch(&t, x, &batch));
        if (x.m >= 0) {
            ab[0] = with_batch(&e, ab[0], x.batch_a, &batch);
            ab[1] = with_batch(&e, ab[1], x.batch_b, &batch);
            lead_a = lead_b = batch.rank;
            for (int d = 0; d < batch.rank; d++)
                dot.lhs_batch.v[dot.lhs_batch.n++] = dot.rhs_batch.v[dot.rhs_batch.n++] = d;
        }
    }
    dot.lhs_contract.n = dot.rhs_contract.n = 1;
    dot.lhs_contract.v[0] = lead_a + x.ka - x.batch_a;
    dot.rhs_contract.v[0] = lead_b + x.kb - x.batch_b;
    out[0] = mlsi_emit_op(&e, MLSI_OP_DOT_GENERAL, &dot, 2, ab);
    return e.st;
}

static const mlsi_attr_desc matmul_attrs[] = {
    {.name = "transpose_a",
     .kind = MLSI_ATTR_BOOL,
     .offset = offsetof(mlsi_attr_matmul, transpose_a),
     .help = "read a as [..., K, M]; no effect on a vector"},
    {.name = "transpose_b",
     .kind = MLSI_ATTR_BOOL,
     .offset = offsetof(mlsi_attr_matmul, transpose_b),
     .help = "read b as [..., N, K]; no effect on a vector"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_matmul = {.min_in = 2,
                                        .max_in = 2,
                                        .min_out = 1,
                                        .max_out = 1,
                                        .operands = "a, b",
                                        .traits = MLSI_TRAIT_DIFFERENTIABLE,
                                        .narrow = MLSI_NARROW_COMPUTES,
                                        .attrs_size = sizeof(mlsi_attr_matmul),
                                        .attrs = matmul_attrs,
                                        .infer = infer_matmul,
                                        .cost = cost_matmul,
                                        .decompose = decompose_matmul,
                                        .doc = "a [..., M, K] times b [..., K, N] = [..., M, N]; "
                                               "leading axes broadcast. A vector a is [K] and "
                                               "drops M, a vector b is [K] and drops N. Bits and "
                                               "dtypes as dot_general; the result has a's "
                                               "dtype.",
                                        .special = "K = 0 gives +0.",
                                        .onnx = "MatMul"};
