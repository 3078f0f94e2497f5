/* Ops that move elements by a fixed index map: copy, reshape, broadcast, transpose, reverse, pad,
 * concat. Slices are in slice.c and dynamic_slice.c. */
#include "ir/ops/loops.h"
#include "ir/ops/gradient.h"
#include "ir/ops/movement.h"

#include <string.h>

#define MOVE                                                                                       \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .cost = mlsi_elementwise_cost_move

static const mlsi_attr_desc shape_attrs[] = {{.name = "shape",
                                              .kind = MLSI_ATTR_DIMS,
                                              .offset = offsetof(mlsi_attr_shape, shape),
                                              .required = true,
                                              .help = "extents of the result"},
                                             {.name = NULL}};

/* ---- copy ---------------------------------------------------------------------------------- */

static mlsys_status infer_copy(mlsi_infer *t) {
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status ref_copy(const mlsi_ref_args *a) {
    if (mlsi_dtype_is_block(a->in[0].dtype)) {
        mlsi_copy_view(&a->out[0], &a->in[0]);
        return MLSYS_OK;
    }
    for (int64_t i = 0, n = mlsi_view_count(&a->out[0]); i < n; i++)
        mlsi_ref_move(&a->out[0], i, &a->in[0], i);
    return MLSYS_OK;
}

const mlsi_op_def mlsi_op_def_copy = {.element = mlsi_loops_same,
                                      MOVE,
                                      .traits = MLSI_TRAIT_DIFFERENTIABLE,
                                      .narrow = MLSI_NARROW_FOLLOWS,
                                      .attrs_size = sizeof(mlsi_attr_none),
                                      .infer = infer_copy,
                                      .ref = ref_copy,
                                      .vjp = mlsi_vjp_copy,
                                      .doc = "x in new memory. Block dtypes are allowed.",
                                      .special = "Bits are kept.",
                                      .onnx = "Identity"};

/* ---- stop_gradient ------------------------------------------------------------------------- */

static mlsys_status infer_stop(mlsi_infer *t) {
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

/* x itself, as a view of its own shape. */
static mlsys_status decompose_stop(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    (void)attrs, (void)n_in, (void)n_out;
    out[0] = mlsi_emit_reshape(&e, in[0], t.rank, t.dims);
    return e.st;
}

const mlsi_op_def mlsi_op_def_stop_gradient = {
    MOVE,
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_none),
    .infer = infer_stop,
    .decompose = decompose_stop,
    .vjp = mlsi_vjp_zero,
    .doc = "x, as a constant for gradients: none passes through it.",
    .special = "Bits are kept."};

/* ---- reshape ------------------------------------------------------------------------------- */

/* Replace the one -1 by (elements of x) / (the other extents), which must be exact. */
static mlsys_status resolve_open_extent(mlsi_infer *t, mlsi_list *shape, int64_t elements) {
    int64_t others = 1, open = -1;
    bool exact;
    char a[128], b[128];
    for (int64_t i = 0; i < shape->n; i++) {
        if (shape->v[i] != -1) {
            MLSI_TRY(mlsi_dim_op(t->symbols, '*', others, shape->v[i], &others));
        } else if (open >= 0) {
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "attribute shape: more than one -1");
        } else {
            open = i;
        }
    }
    if (open < 0) return MLSYS_OK;
    MLSI_TRY(mlsi_dim_divide_exact(t->symbols, elements, others, &shape->v[open], &exact));
    if (exact) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s elements: -1 cannot be found from %s",
                           mlsi_dim_text(t->symbols, elements, a, sizeof a),
                           mlsi_dim_text(t->symbols, others, b, sizeof b));
}

static mlsys_status infer_reshape(mlsi_infer *t) {
    mlsi_attr_shape *attrs = t->attrs;
    int64_t elements, result;
    char a[128], b[160], c[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_product(t, t->in[0].dims, t->in[0].rank, &elements));
    for (int64_t i = 0; i < attrs->shape.n && attrs->shape.n <= MLSYS_MAX_DIMS; i++)
        if (attrs->shape.v[i] != -1 && !mlsi_dim_valid(t->symbols, attrs->shape.v[i]))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "attribute shape: entry %lld is %lld",
                                   (long long)i, (long long)attrs->shape.v[i]);
    if (attrs->shape.n <= MLSYS_MAX_DIMS) MLSI_TRY(resolve_open_extent(t, &attrs->shape, elements));
    MLSI_TRY(mlsi_infer_shape(t, "shape", &attrs->shape, &t->out[0]));
    t->out[0].dtype = t->in[0].dtype;
    MLSI_TRY(mlsi_infer_product(t, t->out[0].dims, t->out[0].rank, &result));
    if (result == elements) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s elements of %s are not provably those of %s",
                           mlsi_dim_text(t->symbols, elements, a, sizeof a),
                           mlsi_type_text(t->symbols, &t->in[0], b, sizeof b),
                           mlsi_type_text(t->symbols, &t->out[0], c, sizeof c));
}

static mlsys_status view_reshape(const void *attrs, const mlsi_layout *in,
                                 const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    (void)attrs;
    return mlsi_layout_reshape(in, out_type->rank, out_type->shape, out, is_view);
}

static const mlsi_attr_desc reshape_attrs[] = {
    {.name = "shape",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_shape, shape),
     .required = true,
     .help = "extents of the result; one may be -1: what is left of x's elements"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_reshape = {.shares = MLSI_SHARES_MOVEMENT,
                                         .element = mlsi_loops_reshape,
                                         MOVE,
                                         .traits = MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
                                         .narrow = MLSI_NARROW_FOLLOWS,
                                         .attrs_size = sizeof(mlsi_attr_shape),
                                         .attrs = reshape_attrs,
                                         .infer = infer_reshape,
                                         .ref = ref_copy,
                                         .view = view_reshape,
                                         .vjp = mlsi_vjp_reshape,
                                         .doc = "The elements of x in row-major order under "
                                                "another shape. The products of the extents must "
                                                "be provably equal.",
                                         .special =
                                             "Bits are kept. 0 is an extent, not a wildcard.",
                                         .onnx = "Reshape"};

/* ---- broadcast ----------------------------------------------------------------------------- */

static mlsys_status infer_broadcast(mlsi_infer *t) {
    const mlsi_attr_shape *attrs = t->attrs;
    const mlsi_type *x = &t->in[0];
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_shape(t, "shape", &attrs->shape, &t->out[0]));
    t->out[0].dtype = x->dtype;
    int shift = t->out[0].rank - x->rank;
    bool fits = shift >= 0;
    for (int d = 0; d < x->rank && fits; d++)
        fits = x->dims[d] == 1 || x->dims[d] == t->out[0].dims[d + shift];
    if (fits) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s does not broadcast to %s",
                           mlsi_type_text(t->symbols, x, a, sizeof a),
                           mlsi_type_text(t->symbols, &t->out[0], b, sizeof b));
}

static mlsys_status ref_broadcast(const mlsi_ref_args *a) {
    for (int64_t i = 0, n = mlsi_view_count(&a->out[0]); i < n; i++)
        mlsi_ref_move(&a->out[0], i, &a->in[0], mlsi_ref_broadcast_index(&a->in[0], &a->out[0], i));
    return MLSYS_OK;
}

static mlsys_status view_broadcast(const void *attrs, const mlsi_layout *in,
                                   const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    (void)attrs;
    *is_view = true;
    return mlsi_layout_broadcast(in, out_type->rank, out_type->shape, out);
}

const mlsi_op_def mlsi_op_def_broadcast = {
    .shares = MLSI_SHARES_MOVEMENT,
    .element = mlsi_loops_broadcast,
    MOVE,
    .traits = MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_shape),
    .attrs = shape_attrs,
    .infer = infer_broadcast,
    .ref = ref_broadcast,
    .view = view_broadcast,
    .vjp = mlsi_vjp_broadcast,
    .doc = "x repeated along new leading axes and along axes of extent 1, as NumPy broadcasts.",
    .special = "Bits are kept.",
    .onnx = "Expand"};

/* ---- transpose, reverse -------------------------------------------------------------------- */

static mlsys_status infer_transpose(mlsi_infer *t) {
    mlsi_attr_transpose *attrs = t->attrs;
    int rank = t->in[0].rank;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    if (attrs->perm.n == 0)
        for (int i = 0; i < rank; i++)
            attrs->perm.v[attrs->perm.n++] = rank - 1 - i;
    MLSI_TRY(mlsi_infer_list_length(t, "perm", &attrs->perm, rank));
    mlsi_list sorted = attrs->perm;
    MLSI_TRY(mlsi_infer_axes(t, "perm", rank, &sorted));
    t->out[0] = t->in[0];
    for (int i = 0; i < rank; i++) {
        if (attrs->perm.v[i] < 0) attrs->perm.v[i] += rank;
        t->out[0].dims[i] = t->in[0].dims[attrs->perm.v[i]];
    }
    return MLSYS_OK;
}

static mlsys_status ref_transpose(const mlsi_ref_args *a) {
    const mlsi_attr_transpose *attrs = a->attrs;
    int64_t to[MLSYS_MAX_DIMS], from[MLSYS_MAX_DIMS];
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, to);
        for (int d = 0; d < y->rank; d++)
            from[attrs->perm.v[d]] = to[d];
        if (mlsi_fault(MLSI_FAULT_OPS_TRANSPOSE_ELEMENT) && i == 1) from[0] = 0;
        mlsi_ref_move(y, i, x, mlsi_ref_ravel(x->rank, x->shape, from));
    }
    return MLSYS_OK;
}

static mlsys_status view_transpose(const void *attrs, const mlsi_layout *in,
                                   const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    const mlsi_attr_transpose *t = attrs;
    int32_t perm[MLSYS_MAX_DIMS];
    (void)out_type;
    for (int i = 0; i < in->rank; i++)
        perm[i] = (int32_t)t->perm.v[i];
    *is_view = true;
    return mlsi_layout_permute(in, perm, out);
}

static const mlsi_attr_desc transpose_attrs[] = {
    {.name = "perm",
     .kind = MLSI_ATTR_LIST,
     .offset = offsetof(mlsi_attr_transpose, perm),
     .help = "axis of x that becomes axis i of the result; empty: reversed order"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_transpose = {.shares = MLSI_SHARES_MOVEMENT,
                                           .element = mlsi_loops_transpose,
                                           MOVE,
                                           .traits = MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
                                           .narrow = MLSI_NARROW_FOLLOWS,
                                           .attrs_size = sizeof(mlsi_attr_transpose),
                                           .attrs = transpose_attrs,
                                           .infer = infer_transpose,
                                           .ref = ref_transpose,
                                           .view = view_transpose,
                                           .vjp = mlsi_vjp_transpose,
                                           .doc = "Axes permuted: y.shape[i] = x.shape[perm[i]].",
                                           .special = "Bits are kept.",
                                           .onnx = "Transpose"};

static mlsys_status infer_reverse(mlsi_infer *t) {
    mlsi_attr_axes *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_axes(t, "axes", t->in[0].rank, &attrs->axes));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status ref_reverse(const mlsi_ref_args *a) {
    const mlsi_attr_axes *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t index[MLSYS_MAX_DIMS];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        for (int64_t k = 0; k < attrs->axes.n; k++)
            index[attrs->axes.v[k]] = y->shape[attrs->axes.v[k]] - 1 - index[attrs->axes.v[k]];
        mlsi_ref_move(y, i, x, mlsi_ref_ravel(x->rank, x->shape, index));
    }
    return MLSYS_OK;
}

static mlsys_status view_reverse(const void *attrs, const mlsi_layout *in,
                                 const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    const mlsi_attr_axes *r = attrs;
    (void)out_type;
    *out = *in;
    *is_view = true;
    for (int64_t i = 0; i < r->axes.n; i++)
        MLSI_TRY(mlsi_layout_slice(out, (int32_t)r->axes.v[i], INT64_MAX, INT64_MIN, -1, out));
    return MLSYS_OK;
}

static const mlsi_attr_desc reverse_attrs[] = {{.name = "axes",
                                                .kind = MLSI_ATTR_LIST,
                                                .offset = offsetof(mlsi_attr_axes, axes),
                                                .required = true,
                                                .help = "axes to reverse"},
                                               {.name = NULL}};

const mlsi_op_def mlsi_op_def_reverse = {
    .element = mlsi_loops_reverse,
    MOVE,
    .traits = MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_axes),
    .attrs = reverse_attrs,
    .infer = infer_reverse,
    .ref = ref_reverse,
    .view = view_reverse,
    .vjp = mlsi_vjp_reverse,
    .doc = "The order of the elements along the given axes reversed.",
    .special = "Bits are kept."};

/* ---- pad ----------------------------------------------------------------------------------- */

static mlsys_status infer_pad(mlsi_infer *t) {
    const mlsi_attr_pad *attrs = t->attrs;
    int rank = t->in[0].rank;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_list_length(t, "low", &attrs->low, rank));
    MLSI_TRY(mlsi_infer_list_length(t, "high", &attrs->high, rank));
    t->out[0] = t->in[0];
    for (int d = 0; d < rank; d++) {
        int64_t lo = attrs->low.v[d], hi = attrs->high.v[d], limit = (int64_t)1 << 40, *out;
        if (lo > limit || hi > limit)
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1,
                                   "axis %d: pads %lld and %lld are too large", d, (long long)lo,
                                   (long long)hi);
        out = &t->out[0].dims[d];
        MLSI_TRY(mlsi_dim_combine(t->symbols, t->in[0].dims[d], 1, lo, out));
        MLSI_TRY(mlsi_dim_combine(t->symbols, *out, 1, hi, out));
        MLSI_TRY(mlsi_infer_extent(t, "result", t->out[0].dims[d]));
    }
    return MLSYS_OK;
}

static mlsys_status ref_pad(const mlsi_ref_args *a) {
    const mlsi_attr_pad *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t index[MLSYS_MAX_DIMS];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        bool inside = true;
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        for (int d = 0; d < y->rank; d++) {
            index[d] -= attrs->low.v[d];
            inside = inside && index[d] >= 0 && index[d] < x->shape[d];
        }
        if (inside)
            mlsi_ref_move(y, i, x, mlsi_ref_ravel(x->rank, x->shape, index));
        else
            mlsi_ref_set_f(y, i, attrs->value);
    }
    return MLSYS_OK;
}

static const mlsi_attr_desc pad_attrs[] = {
    {.name = "low",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_pad, low),
     .required = true,
     .help = "cells before each axis; negative crops"},
    {.name = "high",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_pad, high),
     .required = true,
     .help = "cells behind each axis; negative crops"},
    {.name = "value",
     .kind = MLSI_ATTR_F64,
     .offset = offsetof(mlsi_attr_pad, value),
     .help = "what new cells hold, converted as cast does from f64"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_pad = {
    MOVE,
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_pad),
    .attrs = pad_attrs,
    .infer = infer_pad,
    .element = mlsi_loops_pad,
    .ref = ref_pad,
    .vjp = mlsi_vjp_pad,
    .doc = "y.shape[d] = low[d] + x.shape[d] + high[d]; y[i] = x[i - low], or value outside x.",
    .special = "Moved bits are kept. Crops that leave a negative extent are an error.",
    .onnx = "Pad"};

/* ---- concat -------------------------------------------------------------------------------- */

static mlsys_status infer_concat(mlsi_infer *t) {
    mlsi_attr_axis *attrs = t->attrs;
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    t->out[0] = t->in[0];
    for (int i = 1; i < t->n_in; i++) {
        const mlsi_type *x = &t->in[i];
        MLSI_TRY(mlsi_infer_same_dtype(t, 0, i));
        bool fits = x->rank == t->in[0].rank;
        for (int d = 0; d < x->rank && fits; d++)
            fits = d == attrs->axis || x->dims[d] == t->in[0].dims[d];
        if (!fits)
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s does not join %s along axis %lld",
                                   mlsi_type_text(t->symbols, x, a, sizeof a),
                                   mlsi_type_text(t->symbols, &t->in[0], b, sizeof b),
                                   (long long)attrs->axis);
        MLSI_TRY(mlsi_dim_op(t->symbols, '+', t->out[0].dims[attrs->axis], x->dims[attrs->axis],
                             &t->out[0].dims[attrs->axis]));
    }
    return MLSYS_OK;
}

static mlsys_status ref_concat(const mlsi_ref_args *a) {
    const mlsi_attr_axis *attrs = a->attrs;
    const mlsi_view *y = &a->out[0];
    int64_t at = 0, index[MLSYS_MAX_DIMS];
    for (int k = 0; k < a->n_in; k++) {
        const mlsi_view *x = &a->in[k];
        for (int64_t i = 0, n = mlsi_view_count(x); i < n; i++) {
            mlsi_ref_unravel(x->rank, x->shape, i, index);
            index[attrs->axis] += at;
            mlsi_ref_move(y, mlsi_ref_ravel(y->rank, y->shape, index), x, i);
        }
        at += x->shape[attrs->axis];
    }
    return MLSYS_OK;
}

static const mlsi_attr_desc concat_attrs[] = {
    {.name = "axis",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_axis, axis),
     .help = "axis along which the operands follow each other"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_concat = {
    .min_in = 1,
    .max_in = MLSI_MAX_OPERANDS,
    .min_out = 1,
    .max_out = 1,
    .operands = "x...",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_axis),
    .attrs = concat_attrs,
    .infer = infer_concat,
    .element = mlsi_loops_concat,
    .cost = mlsi_elementwise_cost_move,
    .ref = ref_concat,
    .vjp = mlsi_vjp_concat,
    .doc = "1 to 64 operands of one dtype, equal but for their extents along axis, which add up.",
    .special = "Bits are kept; operands may be empty.",
    .onnx = "Concat"};
