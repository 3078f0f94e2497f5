/* Windows of an array at positions that are known at run time only. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/movement.h"

/* Operand i is i64 [rank]. */
static mlsys_status check_starts(const mlsi_infer *t, int i, int64_t rank) {
    char a[160];
    if (t->in[i].dtype == MLSYS_I64 && t->in[i].rank == 1 && t->in[i].dims[0] == rank)
        return MLSYS_OK;
    return mlsi_infer_fail(t, t->in[i].dtype == MLSYS_I64 ? MLSYS_E_SHAPE : MLSYS_E_DTYPE, i,
                           "%s, expected i64[%lld]",
                           mlsi_type_text(t->symbols, &t->in[i], a, sizeof a), (long long)rank);
}

/* size <= extent for all values of the symbols. */
static mlsys_status check_window(const mlsi_infer *t, int operand, int axis, int64_t size,
                                 int64_t extent) {
    int64_t room, lo, hi;
    char a[128], b[128];
    MLSI_TRY(mlsi_dim_op(t->symbols, '-', extent, size, &room));
    mlsi_dim_range(t->symbols, room, &lo, &hi);
    if (lo >= 0) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, operand,
                           "axis %d: window of %s is not provably inside extent %s", axis,
                           mlsi_dim_text(t->symbols, size, a, sizeof a),
                           mlsi_dim_text(t->symbols, extent, b, sizeof b));
}

static mlsys_status infer_dynamic_slice(mlsi_infer *t) {
    const mlsi_attr_dynamic_slice *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(check_starts(t, 1, t->in[0].rank));
    MLSI_TRY(mlsi_infer_list_length(t, "sizes", &attrs->sizes, t->in[0].rank));
    MLSI_TRY(mlsi_infer_shape(t, "sizes", &attrs->sizes, &t->out[0]));
    t->out[0].dtype = t->in[0].dtype;
    for (int d = 0; d < t->in[0].rank; d++)
        MLSI_TRY(check_window(t, 0, d, t->out[0].dims[d], t->in[0].dims[d]));
    return MLSYS_OK;
}

static mlsys_status read_starts(const char *op, const mlsi_view *starts, const mlsi_view *whole,
                                const int64_t *sizes, int64_t *start) {
    for (int d = 0; d < whole->rank; d++) {
        start[d] = mlsi_ref_get_i(starts, d);
        if (start[d] < 0 || start[d] > whole->shape[d] - sizes[d])
            return mlsi_fail(MLSYS_E_ARG, "%s: start %lld of axis %d outside [0,%lld]", op,
                             (long long)start[d], d, (long long)(whole->shape[d] - sizes[d]));
    }
    return MLSYS_OK;
}

static mlsys_status ref_dynamic_slice(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t start[MLSYS_MAX_DIMS], index[MLSYS_MAX_DIMS];
    MLSI_TRY(read_starts("dynamic_slice", &a->in[1], x, y->shape, start));
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        for (int d = 0; d < y->rank; d++)
            index[d] += start[d];
        mlsi_ref_move(y, i, x, mlsi_ref_ravel(x->rank, x->shape, index));
    }
    return MLSYS_OK;
}

static void cost_dynamic_slice(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->bytes_read = mlsi_view_bytes(&a->out[0]) + mlsi_view_bytes(&a->in[1]);
}

static const mlsi_attr_desc dynamic_slice_attrs[] = {
    {.name = "sizes",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_dynamic_slice, sizes),
     .required = true,
     .help = "extents of the window"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_dynamic_slice = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, starts",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_dynamic_slice),
    .attrs = dynamic_slice_attrs,
    .infer = infer_dynamic_slice,
    .element = mlsi_loops_dynamic_slice,
    .cost = cost_dynamic_slice,
    .ref = ref_dynamic_slice,
    .vjp = mlsi_vjp_dynamic_slice,
    .doc = "The window of x with the given sizes that begins at starts (i64 [rank of x]).",
    .special = "A start outside [0, extent - size] is an error at run time, never clamped."};

static mlsys_status infer_dynamic_update_slice(mlsi_infer *t) {
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    MLSI_TRY(mlsi_infer_same_dtype(t, 0, 1));
    if (t->in[1].rank != t->in[0].rank)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s has not the rank of %s",
                               mlsi_type_text(t->symbols, &t->in[1], a, sizeof a),
                               mlsi_type_text(t->symbols, &t->in[0], b, sizeof b));
    MLSI_TRY(check_starts(t, 2, t->in[0].rank));
    for (int d = 0; d < t->in[0].rank; d++)
        MLSI_TRY(check_window(t, 1, d, t->in[1].dims[d], t->in[0].dims[d]));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status ref_dynamic_update_slice(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *u = &a->in[1], *y = &a->out[0];
    int64_t start[MLSYS_MAX_DIMS], index[MLSYS_MAX_DIMS];
    MLSI_TRY(read_starts("dynamic_update_slice", &a->in[2], x, u->shape, start));
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++)
        mlsi_ref_move(y, i, x, i);
    for (int64_t i = 0, n = mlsi_view_count(u); i < n; i++) {
        mlsi_ref_unravel(u->rank, u->shape, i, index);
        for (int d = 0; d < y->rank; d++)
            index[d] += start[d];
        mlsi_ref_move(y, mlsi_ref_ravel(y->rank, y->shape, index), u, i);
    }
    return MLSYS_OK;
}

static void cost_dynamic_update_slice(const mlsi_cost_args *a, mlsi_op_cost *c) {
    if (!a->in_place) return;
    c->bytes_written = mlsi_view_bytes(&a->in[1]);
    c->bytes_read = c->bytes_written + mlsi_view_bytes(&a->in[2]);
}

const mlsi_op_def mlsi_op_def_dynamic_update_slice = {
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, update, starts",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_none),
    .infer = infer_dynamic_update_slice,
    .element = mlsi_loops_dynamic_update_slice,
    .cost = cost_dynamic_update_slice,
    .ref = ref_dynamic_update_slice,
    .vjp = mlsi_vjp_dynamic_update_slice,
    .doc = "x with the window that begins at starts (i64 [rank of x]) replaced by update.",
    .special = "A start outside [0, extent - size] is an error at run time, never clamped."};
