/* Ops without data inputs. */
#include "core/rng.h"
#include "ir/ops/loops.h"
#include "ir/ops/movement.h"

#define DTYPE_ATTR(type)                                                                           \
    {                                                                                              \
        .name = "dtype", .kind = MLSI_ATTR_DTYPE, .offset = offsetof(type, dtype),                 \
        .required = true, .help = "dtype of the result"                                            \
    }
#define SHAPE_ATTR(type)                                                                           \
    {                                                                                              \
        .name = "shape", .kind = MLSI_ATTR_DIMS, .offset = offsetof(type, shape),                  \
        .required = true, .help = "extents of the result"                                          \
    }

static mlsys_status created(mlsi_infer *t, int64_t dtype, const mlsi_list *shape,
                            unsigned classes) {
    const mlsi_dtype_info *info = mlsi_dtype_get((mlsys_dtype)dtype);
    if (!info || !(classes >> info->class_ & 1))
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: %s is not allowed",
                               info ? info->name : "0");
    t->out[0].dtype = (mlsys_dtype)dtype;
    return mlsi_infer_shape(t, "shape", shape, &t->out[0]);
}

/* ---- iota ---------------------------------------------------------------------------------- */

static mlsys_status infer_iota(mlsi_infer *t) {
    mlsi_attr_iota *attrs = t->attrs;
    MLSI_TRY(created(t, attrs->dtype, &attrs->shape, MLSI_NUMBERS));
    return mlsi_infer_axis(t, "axis", t->out[0].rank, &attrs->axis);
}

static mlsys_status ref_iota(const mlsi_ref_args *a) {
    const mlsi_attr_iota *attrs = a->attrs;
    const mlsi_view *y = &a->out[0];
    int64_t index[MLSYS_MAX_DIMS];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        mlsi_ref_set_i(y, i, index[mlsi_fault(MLSI_FAULT_OPS_IOTA_AXIS) ? 0 : attrs->axis]);
    }
    return MLSYS_OK;
}

static const mlsi_attr_desc iota_attrs[] = {DTYPE_ATTR(mlsi_attr_iota),
                                            SHAPE_ATTR(mlsi_attr_iota),
                                            {.name = "axis",
                                             .kind = MLSI_ATTR_I64,
                                             .offset = offsetof(mlsi_attr_iota, axis),
                                             .help = "axis that counts"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_iota = {
    .shares = MLSI_SHARES_MOVEMENT,
    .element = mlsi_loops_iota,
    .min_out = 1,
    .max_out = 1,
    .operands = "",
    .traits = MLSI_TRAIT_CREATION,
    .attrs_size = sizeof(mlsi_attr_iota),
    .attrs = iota_attrs,
    .infer = infer_iota,
    .cost = mlsi_elementwise_cost_move,
    .ref = ref_iota,
    .doc = "y[i] = i[axis], converted as cast does from i64. Rank >= 1.",
    .special = "Counts past an integer dtype's range wrap.",
    .onnx = "Range"};

/* ---- full ---------------------------------------------------------------------------------- */

static mlsys_status infer_full(mlsi_infer *t) {
    const mlsi_attr_full *attrs = t->attrs;
    return created(t, attrs->dtype, &attrs->shape, MLSI_PLAIN);
}

static mlsys_status ref_full(const mlsi_ref_args *a) {
    const mlsi_attr_full *attrs = a->attrs;
    const mlsi_view *y = &a->out[0];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        if (mlsi_dtype_is_float(y->dtype))
            mlsi_ref_set_f(y, i, attrs->value);
        else
            mlsi_ref_set_i(y, i, attrs->ivalue);
    }
    return MLSYS_OK;
}

static const mlsi_attr_desc full_attrs[] = {DTYPE_ATTR(mlsi_attr_full),
                                            SHAPE_ATTR(mlsi_attr_full),
                                            {.name = "value",
                                             .kind = MLSI_ATTR_F64,
                                             .offset = offsetof(mlsi_attr_full, value),
                                             .help = "value of float results, rounded once"},
                                            {.name = "ivalue",
                                             .kind = MLSI_ATTR_I64,
                                             .offset = offsetof(mlsi_attr_full, ivalue),
                                             .help = "value of integer and bool results, wrapped"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_full = {
    .shares = MLSI_SHARES_MOVEMENT,
    .element = mlsi_loops_full,
    .min_out = 1,
    .max_out = 1,
    .operands = "",
    .traits = MLSI_TRAIT_CREATION,
    .attrs_size = sizeof(mlsi_attr_full),
    .attrs = full_attrs,
    .infer = infer_full,
    .cost = mlsi_elementwise_cost_move,
    .ref = ref_full,
    .doc = "Every element is value (floats) or ivalue (integers, bool).",
    .special = "Any value, NaN and infinities included.",
    .onnx = "ConstantOfShape"};

/* ---- random -------------------------------------------------------------------------------- */

static const char *const random_kinds[] = {"bits", "uniform", "normal", NULL};

static mlsys_status infer_random(mlsi_infer *t) {
    const mlsi_attr_random *attrs = t->attrs;
    char a[160];
    for (int i = 0; i < 2; i++)
        if (t->in[i].dtype != MLSYS_I64 || t->in[i].rank != 0)
            return mlsi_infer_fail(t, t->in[i].rank ? MLSYS_E_SHAPE : MLSYS_E_DTYPE, i,
                                   "%s, expected i64[]",
                                   mlsi_type_text(t->symbols, &t->in[i], a, sizeof a));
    if (attrs->kind < MLSI_RANDOM_BITS || attrs->kind > MLSI_RANDOM_NORMAL)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute kind: %lld", (long long)attrs->kind);
    MLSI_TRY(created(t, attrs->dtype, &attrs->shape, MLSI_NUMBERS));
    bool is_int = mlsi_dtype_is_int(t->out[0].dtype);
    bool wide = t->out[0].dtype == MLSYS_F32 || t->out[0].dtype == MLSYS_F64;
    if (attrs->kind == MLSI_RANDOM_BITS ? !is_int : !wide)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: %s has no %s numbers",
                               mlsi_dtype_get(t->out[0].dtype)->name, random_kinds[attrs->kind]);
    return MLSYS_OK;
}

static mlsys_status ref_random(const mlsi_ref_args *a) {
    const mlsi_attr_random *attrs = a->attrs;
    const mlsi_view *y = &a->out[0];
    uint64_t key = (uint64_t)mlsi_ref_get_i(&a->in[0], 0),
             stream = (uint64_t)mlsi_ref_get_i(&a->in[1], 0);
    bool f64 = y->dtype == MLSYS_F64;
    for (int64_t k = 0, n = mlsi_view_count(y); k < n; k++) {
        uint64_t i = (uint64_t)k;
        if (attrs->kind == MLSI_RANDOM_BITS)
            mlsi_ref_set_i(y, k,
                           y->dtype == MLSYS_I64 ? (int64_t)mlsi_rng_bits64(key, stream, i)
                                                 : (int64_t)mlsi_rng_bits32(key, stream, i));
        else if (attrs->kind == MLSI_RANDOM_UNIFORM)
            mlsi_ref_set_f(y, k,
                           f64 ? mlsi_rng_uniform64(key, stream, i)
                               : (double)mlsi_rng_uniform32(key, stream, i));
        else
            mlsi_ref_set_f(y, k,
                           f64 ? mlsi_rng_normal64(key, stream, i)
                               : (double)mlsi_rng_normal32(key, stream, i));
    }
    return MLSYS_OK;
}

static const mlsi_attr_desc random_attrs[] = {
    DTYPE_ATTR(mlsi_attr_random),
    SHAPE_ATTR(mlsi_attr_random),
    {.name = "kind",
     .kind = MLSI_ATTR_ENUM,
     .offset = offsetof(mlsi_attr_random, kind),
     .names = random_kinds,
     .help = "bits: all integers (i64 takes 64 bits, narrower dtypes the low ones of 32); uniform: "
             "[0,1), f32 or f64; normal: mean 0, variance 1, f32 or f64"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_random = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "key, stream",
    .traits = MLSI_TRAIT_CREATION,
    .attrs_size = sizeof(mlsi_attr_random),
    .attrs = random_attrs,
    .infer = infer_random,
    .element = mlsi_loops_random,
    .cost = mlsi_elementwise_cost_math,
    .ref = ref_random,
    .doc =
        "Element i is a function of (key, stream, i) alone: Philox 4x32-10. key and stream are i64 "
        "scalars.",
    .special = "Uniform numbers never are 1; normal ones are finite."};
