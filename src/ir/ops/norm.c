/* Row composites: softmax and its kin, mean, norms. Formulas: docs/numerics.md, "Rows". Narrow
 * floats are computed in f32 and rounded once. */
#include "ir/ops/decompose.h"
#include "ir/ops/gradient.h"
#include "ir/ops/reduce.h"

#include <string.h>

/* ---- softmax, log_softmax, logsumexp ------------------------------------------------------- */

/* Row maximum, kept. An axis that may be empty gets one cell of -inf, which changes no maximum and
 * makes that of an empty row -inf. */
static int32_t row_max(mlsi_emit *e, int32_t x, int axis) {
    int64_t lo, hi;
    if (e->st != MLSYS_OK) return x;
    const mlsi_type *t = mlsi_emit_type(e, x);
    mlsi_dim_range(&e->g->symbols, t->dims[axis], &lo, &hi);
    if (lo < 1) {
        mlsi_attr_pad pad;
        memset(&pad, 0, sizeof pad);
        pad.low.n = pad.high.n = t->rank;
        pad.high.v[axis] = 1;
        pad.value = -INFINITY;
        x = mlsi_emit_op(e, MLSI_OP_PAD, &pad, 1, &x);
    }
    return mlsi_emit_reduce(e, MLSI_OP_REDUCE_MAX, x, axis, axis + 1);
}

/* The maximum where it is finite, else 0. */
static int32_t finite_row_max(mlsi_emit *e, int32_t x, int axis) {
    int32_t m = row_max(e, x, axis);
    int32_t zero = mlsi_emit_float(e, 0);
    return mlsi_emit_select(e, mlsi_emit_1(e, MLSI_OP_IS_FINITE, m), m, zero);
}

/* log(sum(exp(x - m))) for shifted = x - m. */
static int32_t log_sum_exp(mlsi_emit *e, int32_t shifted, int axis) {
    int32_t ex = mlsi_emit_1(e, MLSI_OP_EXP, shifted);
    return mlsi_emit_1(e, MLSI_OP_LOG, mlsi_emit_reduce(e, MLSI_OP_REDUCE_SUM, ex, axis, axis + 1));
}

static mlsys_status decompose_softmax(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                      const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_softmax *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    int axis = (int)at->axis;
    (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]), m = row_max(&e, x, axis);
    int32_t ex = mlsi_emit_1(&e, MLSI_OP_EXP, mlsi_emit_2(&e, MLSI_OP_SUB, x, m));
    int32_t sum = mlsi_emit_reduce(&e, MLSI_OP_REDUCE_SUM, ex, axis, axis + 1);
    int32_t y = mlsi_emit_2(&e, MLSI_OP_DIV, ex, sum);
    if (at->masked_zero && !mlsi_fault(MLSI_FAULT_OPS_MASKED_ZERO)) {
        int32_t masked = mlsi_emit_2(&e, MLSI_OP_EQ, m, mlsi_emit_float(&e, -INFINITY));
        y = mlsi_emit_select(&e, masked, mlsi_emit_float(&e, 0), y);
    }
    out[0] = mlsi_emit_cast(&e, y, t);
    return e.st;
}

static mlsys_status decompose_log_softmax(mlsi_graph *g, int32_t func, const void *attrs,
                                          int32_t n_in, const int32_t *in, int32_t n_out,
                                          int32_t *out) {
    const mlsi_attr_axis *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]);
    int32_t d = mlsi_emit_2(&e, MLSI_OP_SUB, x, finite_row_max(&e, x, (int)at->axis));
    int32_t y = mlsi_emit_2(&e, MLSI_OP_SUB, d, log_sum_exp(&e, d, (int)at->axis));
    out[0] = mlsi_emit_cast(&e, y, t);
    return e.st;
}

/* logsumexp of a widened x, axis kept. */
static int32_t kept_logsumexp(mlsi_emit *e, int32_t x, int axis) {
    int32_t m = finite_row_max(e, x, axis);
    int32_t d = mlsi_emit_2(e, MLSI_OP_SUB, x, m);
    return mlsi_emit_2(e, MLSI_OP_ADD, log_sum_exp(e, d, axis), m);
}

/* y without axes first..last-1, which have extent 1. */
static int32_t drop_axes(mlsi_emit *e, int32_t y, int first, int last) {
    int64_t dims[MLSYS_MAX_DIMS];
    int rank = 0;
    if (e->st != MLSYS_OK) return y;
    const mlsi_type *t = mlsi_emit_type(e, y);
    for (int d = 0; d < t->rank; d++)
        if (d < first || d >= last) dims[rank++] = t->dims[d];
    return mlsi_emit_reshape(e, y, rank, dims);
}

static mlsys_status decompose_logsumexp(mlsi_graph *g, int32_t func, const void *attrs,
                                        int32_t n_in, const int32_t *in, int32_t n_out,
                                        int32_t *out) {
    const mlsi_attr_arg *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    int axis = (int)at->axis;
    (void)n_in, (void)n_out;
    int32_t y = mlsi_emit_cast(&e, kept_logsumexp(&e, mlsi_emit_widen(&e, in[0]), axis), t);
    out[0] = at->keep ? y : drop_axes(&e, y, axis, axis + 1);
    return e.st;
}

static mlsys_status infer_rows(mlsi_infer *t, int64_t *axis) {
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, axis));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status infer_softmax(mlsi_infer *t) {
    return infer_rows(t, &((mlsi_attr_softmax *)t->attrs)->axis);
}
static mlsys_status infer_log_softmax(mlsi_infer *t) {
    return infer_rows(t, &((mlsi_attr_axis *)t->attrs)->axis);
}
static mlsys_status infer_logsumexp(mlsi_infer *t) {
    mlsi_attr_arg *attrs = t->attrs;
    MLSI_TRY(infer_rows(t, &attrs->axis));
    mlsi_list axes = {.n = 1, .v = {attrs->axis}};
    mlsi_reduced_type(&t->in[0], &axes, attrs->keep != 0, &t->out[0]);
    return MLSYS_OK;
}

static void cost_rows(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->transcendentals = mlsi_cost_count(&a->in[0]);
    c->flops = 4 * mlsi_cost_count(&a->in[0]);
}

static const mlsi_attr_desc softmax_attrs[] = {
    {.name = "axis",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_softmax, axis),
     .default_i = -1,
     .help = "axis of the rows"},
    {.name = "masked_zero",
     .kind = MLSI_ATTR_BOOL,
     .offset = offsetof(mlsi_attr_softmax, masked_zero),
     .help = "rows of nothing but -inf give zeros instead of NaN"},
    {.name = NULL}};
static const mlsi_attr_desc log_softmax_attrs[] = {{.name = "axis",
                                                    .kind = MLSI_ATTR_I64,
                                                    .offset = offsetof(mlsi_attr_axis, axis),
                                                    .default_i = -1,
                                                    .help = "axis of the rows"},
                                                   {.name = NULL}};
static const mlsi_attr_desc logsumexp_attrs[] = {{.name = "axis",
                                                  .kind = MLSI_ATTR_I64,
                                                  .offset = offsetof(mlsi_attr_arg, axis),
                                                  .default_i = -1,
                                                  .help = "axis to reduce"},
                                                 {.name = "keep",
                                                  .kind = MLSI_ATTR_BOOL,
                                                  .offset = offsetof(mlsi_attr_arg, keep),
                                                  .help = "keep the axis with extent 1"},
                                                 {.name = NULL}};

#define ROWS                                                                                       \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .traits = MLSI_TRAIT_DIFFERENTIABLE, .cost = cost_rows

const mlsi_op_def mlsi_op_def_softmax = {
    .shares = MLSI_SHARES_ROWS_ALONG,
    ROWS,
    .attrs_size = sizeof(mlsi_attr_softmax),
    .attrs = softmax_attrs,
    .infer = infer_softmax,
    .decompose = decompose_softmax,
    .vjp = mlsi_vjp_softmax,
    .doc = "Along axis: m = max(x), e = exp(x - m), y = e / sum(e).",
    .special = "A row with NaN or +inf is NaN. A row of -inf is NaN, or zeros with masked_zero.",
    .onnx = "Softmax"};
const mlsi_op_def mlsi_op_def_log_softmax = {
    .shares = MLSI_SHARES_ROWS_ALONG,
    ROWS,
    .attrs_size = sizeof(mlsi_attr_axis),
    .attrs = log_softmax_attrs,
    .infer = infer_log_softmax,
    .decompose = decompose_log_softmax,
    .vjp = mlsi_vjp_log_softmax,
    .doc = "Along axis, with m = max(x) if that is finite, else 0: y = (x - m) - log(sum(exp(x - "
           "m))).",
    .special = "A row with NaN or +inf is NaN; a row of -inf is NaN (-inf - -inf).",
    .onnx = "LogSoftmax"};
const mlsi_op_def mlsi_op_def_logsumexp = {
    ROWS,
    .attrs_size = sizeof(mlsi_attr_arg),
    .attrs = logsumexp_attrs,
    .infer = infer_logsumexp,
    .decompose = decompose_logsumexp,
    .vjp = mlsi_vjp_logsumexp,
    .doc = "Along axis, with m = max(x) if that is finite, else 0: log(sum(exp(x - m))) + m.",
    .special =
        "A row of -inf and an empty row give -inf; a row with +inf gives +inf, one with NaN NaN.",
    .onnx = "ReduceLogSumExp"};

/* ---- reduce_mean --------------------------------------------------------------------------- */

static mlsys_status infer_mean(mlsi_infer *t) {
    mlsi_attr_reduce *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_reduce_axes(t, &attrs->axes));
    mlsi_reduced_type(&t->in[0], &attrs->axes, attrs->keep != 0, &t->out[0]);
    return MLSYS_OK;
}

/* Product of the extents of the listed axes as a float. */
static int32_t count_of_axes(mlsi_emit *e, int32_t x, const mlsi_list *axes) {
    int32_t n = mlsi_emit_int(e, MLSYS_I64, 1);
    for (int64_t i = 0; i < axes->n; i++) {
        int32_t one = mlsi_emit_count_int(e, x, (int)axes->v[i], (int)axes->v[i] + 1);
        n = i ? mlsi_emit_2(e, MLSI_OP_MUL, n, one) : one;
    }
    return mlsi_emit_cast(e, n, e->compute);
}

static mlsys_status decompose_mean(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    const mlsi_attr_reduce *at = attrs;
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    int32_t x = mlsi_emit_widen(&e, in[0]);
    (void)n_in, (void)n_out;
    /* Also of a scalar, which has no axes: the sum makes +0 of -0. */
    int32_t sum = mlsi_emit_op(&e, MLSI_OP_REDUCE_SUM, at, 1, &x);
    int32_t y = mlsi_emit_2(&e, MLSI_OP_DIV, sum, count_of_axes(&e, x, &at->axes));
    out[0] = mlsi_emit_cast(&e, y, t);
    return e.st;
}

static void cost_mean(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->in[0]) + mlsi_cost_count(&a->out[0]);
}

static const mlsi_attr_desc mean_attrs[] = {{.name = "axes",
                                             .kind = MLSI_ATTR_LIST,
                                             .offset = offsetof(mlsi_attr_reduce, axes),
                                             .help = "axes to reduce; empty: all"},
                                            {.name = "keep",
                                             .kind = MLSI_ATTR_BOOL,
                                             .offset = offsetof(mlsi_attr_reduce, keep),
                                             .help = "keep reduced axes with extent 1"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_reduce_mean = {
    .shares = MLSI_SHARES_REDUCTION,
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_reduce),
    .attrs = mean_attrs,
    .infer = infer_mean,
    .cost = cost_mean,
    .decompose = decompose_mean,
    .vjp = mlsi_vjp_reduce_mean,
    .doc = "Canonical sum over axes divided by the count as a float; rounded once to x's dtype.",
    .special = "An empty row gives 0 / 0 = NaN.",
    .onnx = "ReduceMean"};

/* ---- layer_norm, rms_norm ------------------------------------------------------------------ */

static mlsys_status infer_norm(mlsi_infer *t) {
    mlsi_attr_norm *attrs = t->attrs;
    const mlsi_type *x = &t->in[0];
    char a[160], b[160];
    MLSI_TRY(infer_rows(t, &attrs->axis));
    int axis = (int)attrs->axis;
    for (int i = 1; i < t->n_in; i++) {
        const mlsi_type *p = &t->in[i];
        if (!p->dtype) continue;
        MLSI_TRY(mlsi_infer_class(t, i, MLSI_FLOATS));
        if ((p->dtype == MLSYS_F64) != (x->dtype == MLSYS_F64))
            MLSI_TRY(mlsi_infer_same_dtype(t, 0, i));
        if (p->rank != x->rank - axis ||
            memcmp(p->dims, x->dims + axis, sizeof *p->dims * (size_t)p->rank))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s is not of the shape of axes %d.. of %s",
                                   mlsi_type_text(t->symbols, p, a, sizeof a), axis,
                                   mlsi_type_text(t->symbols, x, b, sizeof b));
    }
    return MLSYS_OK;
}

/* mean over axes axis.. of v, kept */
static int32_t row_mean(mlsi_emit *e, int32_t v, int axis, int rank) {
    int32_t sum = mlsi_emit_reduce(e, MLSI_OP_REDUCE_SUM, v, axis, rank);
    return mlsi_emit_2(e, MLSI_OP_DIV, sum, mlsi_emit_count(e, v, axis, rank));
}

/* d * rsqrt(mean(d * d) + eps) * gamma + beta */
static int32_t scale_rows(mlsi_emit *e, int32_t d, const mlsi_attr_norm *at, int rank, int32_t n_in,
                          const int32_t *in) {
    int32_t v = row_mean(e, mlsi_emit_2(e, MLSI_OP_MUL, d, d), (int)at->axis, rank);
    int32_t r =
        mlsi_emit_1(e, MLSI_OP_RSQRT, mlsi_emit_2(e, MLSI_OP_ADD, v, mlsi_emit_float(e, at->eps)));
    int32_t y = mlsi_emit_2(e, MLSI_OP_MUL, d, r);
    if (n_in > 1 && in[1] >= 0) y = mlsi_emit_2(e, MLSI_OP_MUL, y, mlsi_emit_widen(e, in[1]));
    if (n_in > 2 && in[2] >= 0) y = mlsi_emit_2(e, MLSI_OP_ADD, y, mlsi_emit_widen(e, in[2]));
    return y;
}

static mlsys_status decompose_rms_norm(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                       const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    (void)n_out;
    int32_t y = scale_rows(&e, mlsi_emit_widen(&e, in[0]), attrs, t.rank, n_in, in);
    out[0] = mlsi_emit_cast(&e, y, t.dtype);
    return e.st;
}

static mlsys_status decompose_layer_norm(mlsi_graph *g, int32_t func, const void *attrs,
                                         int32_t n_in, const int32_t *in, int32_t n_out,
                                         int32_t *out) {
    const mlsi_attr_norm *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    int32_t x = mlsi_emit_widen(&e, in[0]);
    (void)n_out;
    int32_t d = mlsi_emit_2(&e, MLSI_OP_SUB, x, row_mean(&e, x, (int)at->axis, t.rank));
    out[0] = mlsi_emit_cast(&e, scale_rows(&e, d, at, t.rank, n_in, in), t.dtype);
    return e.st;
}

static void cost_norm(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 6 * mlsi_cost_count(&a->in[0]);
}

#define NORM_ATTRS(eps_)                                                                           \
    {.name = "axis",                                                                               \
     .kind = MLSI_ATTR_I64,                                                                        \
     .offset = offsetof(mlsi_attr_norm, axis),                                                     \
     .default_i = -1,                                                                              \
     .help = "rows span the axes from this one to the last"},                                      \
        {.name = "eps",                                                                            \
         .kind = MLSI_ATTR_F64,                                                                    \
         .offset = offsetof(mlsi_attr_norm, eps),                                                  \
         .default_f = eps_,                                                                        \
         .help = "added to the variance or mean square, in the compute type"},                     \
    {                                                                                              \
        .name = NULL                                                                               \
    }
static const mlsi_attr_desc layer_norm_attrs[] = {NORM_ATTRS(1e-5)};
static const mlsi_attr_desc rms_norm_attrs[] = {NORM_ATTRS(1e-6)};

#define NORM                                                                                       \
    .min_in = 1, .min_out = 1, .max_out = 1, .traits = MLSI_TRAIT_DIFFERENTIABLE,                  \
    .attrs_size = sizeof(mlsi_attr_norm), .infer = infer_norm, .cost = cost_norm

const mlsi_op_def mlsi_op_def_layer_norm = {
    .shares = MLSI_SHARES_ROWS_FROM,
    NORM,
    .max_in = 3,
    .operands = "x, gamma?, beta?",
    .attrs = layer_norm_attrs,
    .decompose = decompose_layer_norm,
    .vjp = mlsi_vjp_layer_norm,
    .doc = "Per row of n elements: mu = sum(x) / n, d = x - mu, v = sum(d * d) / n, r = rsqrt(v + "
           "eps), "
           "y = (d * r) * gamma + beta. gamma and beta have the shape of a row; each may be absent "
           "and be of "
           "another float dtype (f64 only with f64).",
    .special = "A row with NaN or an infinity is NaN. Empty rows have no elements to write.",
    .onnx = "LayerNormalization"};
const mlsi_op_def mlsi_op_def_rms_norm = {
    .shares = MLSI_SHARES_ROWS_FROM,
    NORM,
    .max_in = 2,
    .operands = "x, gamma?",
    .attrs = rms_norm_attrs,
    .decompose = decompose_rms_norm,
    .vjp = mlsi_vjp_rms_norm,
    .doc =
        "Per row of n elements: r = rsqrt(sum(x * x) / n + eps), y = (x * r) * gamma. gamma as in "
        "layer_norm.",
    .special = "A row with an infinity has NaN there (inf * 0) and zeros elsewhere; NaN makes the "
               "row NaN.",
    .onnx = "RMSNormalization"};
