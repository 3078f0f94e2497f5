/* Rows by index: gather, embedding, scatter. An index i of an axis of extent n lies in [-n, n);
 * others are an error at run time. */
#include "ir/ops/elementwise.h"
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"

#include <string.h>

static mlsys_status check_ids(const mlsi_infer *t, int i) {
    if (t->in[i].dtype == MLSYS_I32 || t->in[i].dtype == MLSYS_I64) return MLSYS_OK;
    const mlsi_dtype_info *info = mlsi_dtype_get(t->in[i].dtype);
    return mlsi_infer_fail(t, MLSYS_E_DTYPE, i, "dtype %s, expected i32 or i64",
                           info ? info->name : "absent");
}

/* x's shape with axis replaced by the shape of ids. */
static mlsys_status indexed_shape(const mlsi_infer *t, int64_t axis, mlsi_type *out) {
    const mlsi_type *x = &t->in[0], *ids = &t->in[1];
    mlsi_type y = {.dtype = x->dtype};
    if (x->rank - 1 + ids->rank > MLSYS_MAX_DIMS)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "result has %d axes, at most %d",
                               x->rank - 1 + ids->rank, MLSYS_MAX_DIMS);
    for (int d = 0; d < axis; d++)
        y.dims[y.rank++] = x->dims[d];
    for (int d = 0; d < ids->rank; d++)
        y.dims[y.rank++] = ids->dims[d];
    for (int d = (int)axis + 1; d < x->rank; d++)
        y.dims[y.rank++] = x->dims[d];
    *out = y;
    return MLSYS_OK;
}

/* Every index is checked, also when no element would move. */
static mlsys_status check_values(const char *op, const mlsi_view *ids, int64_t n) {
    int64_t row;
    for (int64_t j = 0, count = mlsi_view_count(ids); j < count; j++)
        MLSI_TRY(mlsi_ref_index(op, "indices", ids, j, n, &row));
    return MLSYS_OK;
}

/* Element `linear` of a view of indexed shape: which index position it is at (*j), and the linear
 * index in x when that position's row is `row`. */
static int64_t split_index(const mlsi_view *x, const mlsi_view *ids, const mlsi_view *y,
                           int64_t axis, int64_t linear, int64_t *j, const int64_t *row) {
    int64_t index[MLSYS_MAX_DIMS], from[MLSYS_MAX_DIMS];
    mlsi_ref_unravel(y->rank, y->shape, linear, index);
    *j = mlsi_ref_ravel(ids->rank, ids->shape, index + axis);
    for (int d = 0; d < x->rank; d++)
        from[d] = d < axis ? index[d] : d == axis ? *row : index[d - 1 + ids->rank];
    return mlsi_ref_ravel(x->rank, x->shape, from);
}

/* ---- gather -------------------------------------------------------------------------------- */

static mlsys_status infer_gather(mlsi_infer *t) {
    mlsi_attr_axis *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(check_ids(t, 1));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    return indexed_shape(t, attrs->axis, &t->out[0]);
}

static mlsys_status ref_gather(const mlsi_ref_args *a) {
    const mlsi_attr_axis *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *ids = &a->in[1], *y = &a->out[0];
    MLSI_TRY(check_values("gather", ids, x->shape[attrs->axis]));
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        int64_t j, row = 0;
        split_index(x, ids, y, attrs->axis, i, &j, &row);
        MLSI_TRY(mlsi_ref_index("gather", "indices", ids, j, x->shape[attrs->axis], &row));
        mlsi_ref_move(y, i, x, split_index(x, ids, y, attrs->axis, i, &j, &row));
    }
    return MLSYS_OK;
}

static void cost_gather(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->bytes_read = mlsi_view_bytes(&a->out[0]) + mlsi_view_bytes(&a->in[1]);
}

static const mlsi_attr_desc gather_attrs[] = {{.name = "axis",
                                               .kind = MLSI_ATTR_I64,
                                               .offset = offsetof(mlsi_attr_axis, axis),
                                               .help = "axis of x that the indices address"},
                                              {.name = NULL}};

const mlsi_op_def mlsi_op_def_gather = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, indices",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_axis),
    .attrs = gather_attrs,
    .infer = infer_gather,
    .element = mlsi_loops_gather,
    .cost = cost_gather,
    .ref = ref_gather,
    .vjp = mlsi_vjp_gather,
    .doc = "y[a, j, b] = x[a, indices[j], b]: axis of x is replaced by the axes of indices (i32 or "
           "i64).",
    .special = "Index range [-n, n); others are an error at run time. Bits are kept.",
    .onnx = "Gather"};

/* ---- embedding ----------------------------------------------------------------------------- */

static mlsys_status infer_embedding(mlsi_infer *t) {
    mlsi_attr_embedding *attrs = t->attrs;
    const mlsi_type *table = &t->in[0];
    char a[160];
    bool block = mlsi_dtype_is_block(table->dtype);
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS | MLSI_BLOCKS));
    if (block) MLSI_TRY(mlsi_infer_blocks(t, 0, 2));
    if (table->rank != 2)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s, expected [V, D]",
                               mlsi_type_text(t->symbols, table, a, sizeof a));
    MLSI_TRY(check_ids(t, 1));
    if (!attrs->dtype) attrs->dtype = block ? MLSYS_F32 : table->dtype;
    if (!mlsi_dtype_is_float((mlsys_dtype)attrs->dtype) ||
        (attrs->dtype == MLSYS_F64) != (table->dtype == MLSYS_F64))
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: not a result of rows of %s",
                               mlsi_dtype_get(table->dtype)->name);
    MLSI_TRY(indexed_shape(t, 0, &t->out[0]));
    t->out[0].dtype = (mlsys_dtype)attrs->dtype;
    return MLSYS_OK;
}

static mlsys_status ref_embedding(const mlsi_ref_args *a) {
    const mlsi_view *table = &a->in[0], *ids = &a->in[1], *y = &a->out[0];
    int64_t width = table->shape[1], row;
    float *decoded;
    MLSI_TRY(check_values("embedding", ids, table->shape[0]));
    MLSI_TRY(MLSI_NEW_N(a->alloc, width + 1, &decoded));
    for (int64_t j = 0, n = mlsi_view_count(ids); j < n; j++) {
        mlsys_status st = mlsi_ref_index("embedding", "indices", ids, j, table->shape[0], &row);
        if (st != MLSYS_OK) return mlsi_mem_free(a->alloc, decoded), st;
        if (mlsi_dtype_is_block(table->dtype)) mlsi_ref_block_row(table, row, decoded);
        for (int64_t i = 0; i < width; i++)
            mlsi_ref_set_f(y, j * width + i,
                           mlsi_dtype_is_block(table->dtype)
                               ? (double)decoded[i]
                               : mlsi_ref_get_f(table, row * width + i));
    }
    mlsi_mem_free(a->alloc, decoded);
    return MLSYS_OK;
}

static void cost_embedding(const mlsi_cost_args *a, mlsi_op_cost *c) {
    mlsi_view row = a->in[0];
    row.shape[0] = 1;
    c->bytes_read = mlsi_cost_count(&a->in[1]) * mlsi_view_bytes(&row) + mlsi_view_bytes(&a->in[1]);
}

static const mlsi_attr_desc embedding_attrs[] = {
    {.name = "dtype",
     .kind = MLSI_ATTR_DTYPE,
     .offset = offsetof(mlsi_attr_embedding, dtype),
     .help = "dtype of the result; default the table's, f32 for block dtypes"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_embedding = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "table, indices",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .attrs_size = sizeof(mlsi_attr_embedding),
    .attrs = embedding_attrs,
    .infer = infer_embedding,
    .element = mlsi_loops_embedding,
    .cost = cost_embedding,
    .ref = ref_embedding,
    .vjp = mlsi_vjp_embedding,
    .doc = "Rows of table [V, D] (floats or a block dtype) by indices (i32 or i64): y [indices..., "
           "D]. Values are "
           "dequantised and converted as dequantize and cast do.",
    .special = "Index range [-V, V); others are an error at run time."};

/* ---- scatter ------------------------------------------------------------------------------- */

static const char *const scatter_kinds[] = {"set", "add", "mul", "max", "min", NULL};

static mlsys_status infer_scatter(mlsi_infer *t) {
    mlsi_attr_scatter *attrs = t->attrs;
    mlsi_type want;
    char a[160], b[160];
    if (attrs->kind < MLSI_SCATTER_SET || attrs->kind > MLSI_SCATTER_MIN)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute kind: %lld", (long long)attrs->kind);
    MLSI_TRY(mlsi_infer_class(t, 0, attrs->kind == MLSI_SCATTER_SET ? MLSI_PLAIN : MLSI_NUMBERS));
    MLSI_TRY(check_ids(t, 1));
    MLSI_TRY(mlsi_infer_same_dtype(t, 0, 2));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    MLSI_TRY(indexed_shape(t, attrs->axis, &want));
    if (!mlsi_type_equal(&want, &t->in[2]))
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 2, "%s, expected %s",
                               mlsi_type_text(t->symbols, &t->in[2], a, sizeof a),
                               mlsi_type_text(t->symbols, &want, b, sizeof b));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static void update_float(const mlsi_view *y, int64_t at, int64_t kind, double u) {
    bool f64 = mlsi_ref_is_f64(y->dtype);
    double v = mlsi_ref_get_f(y, at);
    switch (kind) {
    case MLSI_SCATTER_ADD: v = mlsi_ref_add(f64, v, u); break;
    case MLSI_SCATTER_MUL: v = mlsi_ref_mul(f64, v, u); break;
    case MLSI_SCATTER_MAX: v = mlsi_ref_max(v, u); break;
    default: v = mlsi_ref_min(v, u); break;
    }
    mlsi_ref_set_f(y, at, v);
}

static void update_int(const mlsi_view *y, int64_t at, int64_t kind, int64_t u) {
    int64_t v = mlsi_ref_get_i(y, at);
    switch (kind) {
    case MLSI_SCATTER_ADD: v = mlsi_ref_iadd(v, u); break;
    case MLSI_SCATTER_MUL: v = mlsi_ref_imul(v, u); break;
    case MLSI_SCATTER_MAX: v = v > u ? v : u; break;
    default: v = v < u ? v : u; break;
    }
    mlsi_ref_set_i(y, at, v);
}

static mlsys_status ref_scatter(const mlsi_ref_args *a) {
    const mlsi_attr_scatter *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *ids = &a->in[1], *u = &a->in[2], *y = &a->out[0];
    MLSI_TRY(check_values("scatter", ids, x->shape[attrs->axis]));
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++)
        mlsi_ref_move(y, i, x, i);
    /* Row-major order of updates visits the positions of one result element in ascending order. */
    for (int64_t k = 0, n = mlsi_view_count(u); k < n; k++) {
        int64_t j, row = 0, i = mlsi_fault(MLSI_FAULT_OPS_SCATTER_ORDER) ? n - 1 - k : k;
        split_index(x, ids, u, attrs->axis, i, &j, &row);
        MLSI_TRY(mlsi_ref_index("scatter", "indices", ids, j, x->shape[attrs->axis], &row));
        int64_t at = split_index(x, ids, u, attrs->axis, i, &j, &row);
        if (attrs->kind == MLSI_SCATTER_SET)
            mlsi_ref_move(y, at, u, i);
        else if (mlsi_dtype_is_float(y->dtype))
            update_float(y, at, attrs->kind, mlsi_ref_get_f(u, i));
        else
            update_int(y, at, attrs->kind, mlsi_ref_get_i(u, i));
    }
    return MLSYS_OK;
}

static void cost_scatter(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->in[2]);
}

static const mlsi_attr_desc scatter_attrs[] = {{.name = "axis",
                                                .kind = MLSI_ATTR_I64,
                                                .offset = offsetof(mlsi_attr_scatter, axis),
                                                .help = "axis of x that the indices address"},
                                               {.name = "kind",
                                                .kind = MLSI_ATTR_ENUM,
                                                .offset = offsetof(mlsi_attr_scatter, kind),
                                                .names = scatter_kinds,
                                                .help = "how an update meets the element"},
                                               {.name = NULL}};

const mlsi_op_def mlsi_op_def_scatter = {
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, indices, updates",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .attrs_size = sizeof(mlsi_attr_scatter),
    .attrs = scatter_attrs,
    .infer = infer_scatter,
    .cost = cost_scatter,
    .ref = ref_scatter,
    .nest = mlsi_loops_scatter,
    .vjp = mlsi_vjp_scatter,
    .doc = "x with y[a, indices[j], b] (op)= updates[a, j, b] for j in ascending row-major order; "
           "updates has "
           "x's shape with axis replaced by the axes of indices. Each step computes in the compute "
           "type and "
           "rounds to x's dtype.",
    .special = "Index range [-n, n); others are an error at run time. set: the last update wins. "
               "max, min: NaN "
               "wins.",
    .onnx = "ScatterElements, ScatterND (rows)"};
