/* Reductions. Order and rounding: docs/numerics.md, "Sums". */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/reduce.h"

/* ---- type rules ---------------------------------------------------------------------------- */

/* Over an empty axis there is no greatest element: the extent must provably be >= 1. */
static mlsys_status need_elements(const mlsi_infer *t, int64_t axis) {
    int64_t lo, hi;
    char a[128];
    mlsi_dim_range(t->symbols, t->in[0].dims[axis], &lo, &hi);
    if (lo >= 1 || mlsi_fault(MLSI_FAULT_OPS_EMPTY_MAX)) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0,
                           "axis %lld: extent %s may be 0, and an empty row has no "
                           "result",
                           (long long)axis,
                           mlsi_dim_text(t->symbols, t->in[0].dims[axis], a, sizeof a));
}

void mlsi_reduced_type(const mlsi_type *x, const mlsi_list *axes, bool keep, mlsi_type *out) {
    mlsi_type y = {.dtype = x->dtype};
    for (int d = 0; d < x->rank; d++) {
        bool reduced = false;
        for (int64_t i = 0; i < axes->n; i++)
            reduced = reduced || axes->v[i] == d;
        if (!reduced || keep) y.dims[y.rank++] = reduced ? 1 : x->dims[d];
    }
    *out = y;
}

mlsys_status mlsi_infer_reduce_axes(mlsi_infer *t, mlsi_list *axes) {
    if (axes->n == 0)
        for (int d = 0; d < t->in[0].rank; d++)
            axes->v[axes->n++] = d;
    return mlsi_infer_axes(t, "axes", t->in[0].rank, axes);
}

static mlsys_status infer_reduce(mlsi_infer *t, unsigned classes, bool empty_allowed) {
    mlsi_attr_reduce *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, classes));
    MLSI_TRY(mlsi_infer_reduce_axes(t, &attrs->axes));
    for (int64_t i = 0; i < attrs->axes.n && !empty_allowed; i++)
        MLSI_TRY(need_elements(t, attrs->axes.v[i]));
    mlsi_reduced_type(&t->in[0], &attrs->axes, attrs->keep != 0, &t->out[0]);
    return MLSYS_OK;
}

static mlsys_status infer_total(mlsi_infer *t) { return infer_reduce(t, MLSI_NUMBERS, true); }
static mlsys_status infer_extreme(mlsi_infer *t) { return infer_reduce(t, MLSI_NUMBERS, false); }
static mlsys_status infer_logic(mlsi_infer *t) { return infer_reduce(t, MLSI_BOOLS, true); }

static mlsys_status infer_arg(mlsi_infer *t) {
    mlsi_attr_arg *attrs = t->attrs;
    mlsi_list axes = {.n = 1};
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_NUMBERS));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    MLSI_TRY(need_elements(t, attrs->axis));
    axes.v[0] = attrs->axis;
    mlsi_reduced_type(&t->in[0], &axes, attrs->keep != 0, &t->out[0]);
    t->out[0].dtype = MLSYS_I64;
    return MLSYS_OK;
}

static void cost_reduce(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->in[0]);
}

/* ---- walking rows -------------------------------------------------------------------------- */

/* A row: the elements of x that one result is made of, in row-major order of the reduced axes. */
typedef struct row {
    const mlsi_view *x;
    int reduced_rank, axes[MLSYS_MAX_DIMS];
    int64_t reduced_shape[MLSYS_MAX_DIMS], length;
    int64_t index[MLSYS_MAX_DIMS]; /* of the kept axes; the reduced ones are filled per element */
} row;

static void row_init(row *r, const mlsi_view *x, const mlsi_list *axes) {
    *r = (row){.x = x, .length = 1};
    for (int64_t i = 0; i < axes->n; i++) {
        r->axes[r->reduced_rank] = (int)axes->v[i];
        r->reduced_shape[r->reduced_rank++] = x->shape[axes->v[i]];
        r->length *= x->shape[axes->v[i]];
    }
}

/* The row of result k of y. */
static void row_select(row *r, const mlsi_view *y, int64_t k, bool keep) {
    int64_t index[MLSYS_MAX_DIMS];
    mlsi_ref_unravel(y->rank, y->shape, k, index);
    for (int d = 0, o = 0, a = 0; d < r->x->rank; d++) {
        bool reduced = a < r->reduced_rank && r->axes[a] == d;
        if (reduced) a++;
        r->index[d] = reduced ? 0 : index[o];
        if (!reduced || keep) o++;
    }
}

static int64_t row_element(row *r, int64_t i) {
    int64_t reduced[MLSYS_MAX_DIMS];
    mlsi_ref_unravel(r->reduced_rank, r->reduced_shape, i, reduced);
    for (int a = 0; a < r->reduced_rank; a++)
        r->index[r->axes[a]] = reduced[a];
    return mlsi_ref_ravel(r->x->rank, r->x->shape, r->index);
}

static double row_f(void *user, int64_t i) {
    row *r = user;
    return mlsi_ref_get_f(r->x, row_element(r, i));
}
static int64_t row_i(row *r, int64_t i) { return mlsi_ref_get_i(r->x, row_element(r, i)); }

/* ---- reference ----------------------------------------------------------------------------- */

typedef struct reduction {
    double (*floats)(row *r, bool f64);
    int64_t (*ints)(int64_t a, int64_t b);
    int64_t identity; /* of ints, when the row may be empty */
} reduction;

static mlsys_status reduce(const mlsi_ref_args *a, const reduction *red) {
    const mlsi_attr_reduce *attrs = a->attrs;
    const mlsi_view *y = &a->out[0];
    bool is_float = mlsi_dtype_is_float(y->dtype);
    row r;
    row_init(&r, &a->in[0], &attrs->axes);
    for (int64_t k = 0, n = mlsi_view_count(y); k < n; k++) {
        row_select(&r, y, k, attrs->keep != 0);
        if (is_float) {
            mlsi_ref_set_f(y, k, red->floats(&r, mlsi_ref_is_f64(y->dtype)));
            continue;
        }
        int64_t v = r.length ? row_i(&r, 0) : red->identity;
        for (int64_t i = 1; i < r.length; i++)
            v = red->ints(v, row_i(&r, i));
        mlsi_ref_set_i(y, k, v);
    }
    return MLSYS_OK;
}

static double sum_row(row *r, bool f64) { return mlsi_ref_sum(f64, r->length, row_f, r); }
static double product_row(row *r, bool f64) { return mlsi_ref_product(f64, r->length, row_f, r); }
static double max_row(row *r, bool f64) {
    double v = row_f(r, 0);
    (void)f64;
    for (int64_t i = 1; i < r->length; i++)
        v = mlsi_ref_max(v, row_f(r, i));
    return v;
}
static double min_row(row *r, bool f64) {
    double v = row_f(r, 0);
    (void)f64;
    for (int64_t i = 1; i < r->length; i++)
        v = mlsi_ref_min(v, row_f(r, i));
    return v;
}
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t both(int64_t a, int64_t b) { return a & b; }
static int64_t either(int64_t a, int64_t b) { return a | b; }

static const mlsi_attr_desc reduce_attrs[] = {{.name = "axes",
                                               .kind = MLSI_ATTR_LIST,
                                               .offset = offsetof(mlsi_attr_reduce, axes),
                                               .help = "axes to reduce; empty: all"},
                                              {.name = "keep",
                                               .kind = MLSI_ATTR_BOOL,
                                               .offset = offsetof(mlsi_attr_reduce, keep),
                                               .help = "keep reduced axes with extent 1"},
                                              {.name = NULL}};

#define REDUCE(name, floats_, ints_, identity_, ...)                                               \
    static mlsys_status ref_##name(const mlsi_ref_args *a) {                                       \
        static const reduction r = {floats_, ints_, identity_};                                    \
        return reduce(a, &r);                                                                      \
    }                                                                                              \
    const mlsi_op_def mlsi_op_def_##name = {.min_in = 1,                                           \
                                            .max_in = 1,                                           \
                                            .min_out = 1,                                          \
                                            .max_out = 1,                                          \
                                            .operands = "x",                                       \
                                            .attrs_size = sizeof(mlsi_attr_reduce),                \
                                            .attrs = reduce_attrs,                                 \
                                            .cost = cost_reduce,                                   \
                                            .ref = ref_##name,                                     \
                                            .reduces = mlsi_loops_reduce_space,                    \
                                            .term = mlsi_loops_reduce_term,                        \
                                            __VA_ARGS__}

REDUCE(reduce_sum, sum_row, mlsi_ref_iadd, 0, .shares = MLSI_SHARES_REDUCTION, .infer = infer_total,
       .traits = MLSI_TRAIT_DIFFERENTIABLE, .vjp = mlsi_vjp_reduce_sum,
       .doc = "Sum over axes, in the canonical tree; rounded once to x's dtype. Integers wrap.",
       .special = "An empty row gives +0.", .onnx = "ReduceSum");
REDUCE(reduce_prod, product_row, mlsi_ref_imul, 1, .infer = infer_total,
       .traits = MLSI_TRAIT_DIFFERENTIABLE, .vjp = mlsi_vjp_reduce_prod,
       .doc = "Product over axes, in the canonical tree with 1 and *; rounded once. Integers wrap.",
       .special = "An empty row gives 1.", .onnx = "ReduceProd");
REDUCE(reduce_max, max_row, larger, 0, .shares = MLSI_SHARES_REDUCTION, .infer = infer_extreme,
       .traits = MLSI_TRAIT_DIFFERENTIABLE, .vjp = mlsi_vjp_reduce_max,
       .doc = "Greatest element over axes.",
       .special =
           "NaN if any element is NaN; +0 above -0. An axis that may be empty is an error of the "
           "type.",
       .onnx = "ReduceMax");
REDUCE(reduce_min, min_row, smaller, 0, .shares = MLSI_SHARES_REDUCTION, .infer = infer_extreme,
       .traits = MLSI_TRAIT_DIFFERENTIABLE, .vjp = mlsi_vjp_reduce_min,
       .doc = "Least element over axes.",
       .special =
           "NaN if any element is NaN; -0 below +0. An axis that may be empty is an error of the "
           "type.",
       .onnx = "ReduceMin");
REDUCE(reduce_and, NULL, both, 1, .infer = infer_logic, .doc = "bool: are all elements true?",
       .special = "An empty row gives true.");
REDUCE(reduce_or, NULL, either, 0, .infer = infer_logic, .doc = "bool: is any element true?",
       .special = "An empty row gives false.");

/* ---- argmax, argmin ------------------------------------------------------------------------ */

/* The first NaN, else the first extreme. -0 and +0 are equal here. */
static mlsys_status find_extreme(const mlsi_ref_args *a, bool greatest) {
    const mlsi_attr_arg *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    mlsi_list axes = {.n = 1, .v = {attrs->axis}};
    row r;
    row_init(&r, x, &axes);
    for (int64_t k = 0, n = mlsi_view_count(y); k < n; k++) {
        int64_t best = 0;
        row_select(&r, y, k, attrs->keep != 0);
        for (int64_t i = 1; i < r.length; i++) {
            bool better;
            if (mlsi_dtype_is_float(x->dtype)) {
                double v = row_f(&r, i), w = row_f(&r, best);
                better = !isnan(w) && (isnan(v) || (greatest ? v > w : v < w));
            } else {
                int64_t v = row_i(&r, i), w = row_i(&r, best);
                better = greatest ? v > w : v < w;
            }
            if (better) best = i;
        }
        mlsi_ref_set_i(y, k, best);
    }
    return MLSYS_OK;
}

static mlsys_status ref_argmax(const mlsi_ref_args *a) { return find_extreme(a, true); }
static mlsys_status ref_argmin(const mlsi_ref_args *a) { return find_extreme(a, false); }

static const mlsi_attr_desc arg_attrs[] = {{.name = "axis",
                                            .kind = MLSI_ATTR_I64,
                                            .offset = offsetof(mlsi_attr_arg, axis),
                                            .default_i = -1,
                                            .help = "axis to search"},
                                           {.name = "keep",
                                            .kind = MLSI_ATTR_BOOL,
                                            .offset = offsetof(mlsi_attr_arg, keep),
                                            .help = "keep the axis with extent 1"},
                                           {.name = NULL}};

#define ARG                                                                                        \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .attrs_size = sizeof(mlsi_attr_arg), .attrs = arg_attrs, .infer = infer_arg,                   \
    .cost = cost_reduce, .reduces = mlsi_loops_arg_space, .term = mlsi_loops_arg_term
#define ARG_SPECIAL                                                                                \
    "The first NaN if there is one; ties (also -0 and +0) go to the lowest index. An axis that "   \
    "may be "                                                                                      \
    "empty is an error of the type."

const mlsi_op_def mlsi_op_def_argmax = {ARG, .ref = ref_argmax,
                                        .doc = "i64: index of the greatest "
                                               "element along axis.",
                                        .special = ARG_SPECIAL, .onnx = "ArgMax"};
const mlsi_op_def mlsi_op_def_argmin = {ARG, .ref = ref_argmin,
                                        .doc = "i64: index of the least "
                                               "element along axis.",
                                        .special = ARG_SPECIAL, .onnx = "ArgMin"};
