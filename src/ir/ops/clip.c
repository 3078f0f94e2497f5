/* What a train step asks of its gradients: how long they are, whether they are numbers, and to be shorter. */
#include "ir/ops/elementwise.h"
#include "ir/ops/optimizer.h"
#include "ir/ops/reduce.h"

static int32_t reduce_all(mlsi_emit *e, mlsi_op op, int32_t x) {
    mlsi_attr_reduce all;
    memset(&all, 0, sizeof all);
    return mlsi_emit_op(e, op, &all, 1, &x);
}

/* ---- sum_squares --------------------------------------------------------------------------- */

static mlsys_status infer_sum_squares(mlsi_infer *t) {
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    t->out[0] = (mlsi_type){.dtype = t->in[0].dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32};
    return MLSYS_OK;
}

static void cost_sum_squares(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 2 * mlsi_cost_count(&a->in[0]);
}

static mlsys_status decompose_sum_squares(mlsi_graph *g, int32_t func, const void *attrs,
                                          int32_t n_in, const int32_t *in, int32_t n_out,
                                          int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    (void)attrs, (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]);
    out[0] = reduce_all(&e, MLSI_OP_REDUCE_SUM, mlsi_emit_2(&e, MLSI_OP_MUL, x, x));
    return e.st;
}

const mlsi_op_def mlsi_op_def_sum_squares = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_none),
    .infer = infer_sum_squares,
    .cost = cost_sum_squares,
    .decompose = decompose_sum_squares,
    .doc = "Canonical sum of x * x over all elements in row-major order, a scalar of the compute "
           "type: f32, or "
           "f64 for f64, also for narrow x, whose own range it would leave. The global norm of "
           "several tensors "
           "is the root of the sum of theirs, added in one stated order.",
    .special = "NaN if any element is NaN; infinite if any is infinite or the sum overflows; an "
               "empty x gives 0."};

/* ---- clip_norm ----------------------------------------------------------------------------- */

static mlsys_status infer_clip(mlsi_infer *t) {
    const mlsi_attr_clip *a = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_scalar(t, 1, false));
    if ((t->in[0].dtype == MLSYS_F64) != (t->in[1].dtype == MLSYS_F64))
        MLSI_TRY(mlsi_infer_same_dtype(t, 0, 1));
    MLSI_TRY(mlsi_infer_range(t, "max", a->max, a->max > 0 && a->max <= 1e300, "> 0, finite"));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static void cost_clip(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->out[0]) + 3;
}

static mlsys_status decompose_clip(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_clip *a = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype dtype = mlsi_emit_type(&e, in[0])->dtype;
    (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]), norm = mlsi_emit_widen(&e, in[1]);
    int32_t below = mlsi_emit_2(&e, MLSI_OP_ADD, norm, mlsi_emit_float(&e, 1e-6));
    int32_t most = mlsi_emit_float(&e, a->max), one = mlsi_emit_float(&e, 1);
    int32_t factor = mlsi_emit_2(&e, MLSI_OP_DIV, most, below);
    factor = mlsi_emit_2(&e, MLSI_OP_MIN, factor, one);
    int32_t known = mlsi_emit_1(&e, MLSI_OP_IS_FINITE, norm);
    if (!mlsi_fault(MLSI_FAULT_OPS_CLIP_NONFINITE))
        factor = mlsi_emit_select(&e, known, factor, one);
    out[0] = mlsi_emit_cast(&e, mlsi_emit_2(&e, MLSI_OP_MUL, x, factor), dtype);
    return e.st;
}

static const mlsi_attr_desc clip_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_clip, max, 1, "longest norm that stays as it is"), {.name = NULL}};

const mlsi_op_def mlsi_op_def_clip_norm = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, norm",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_clip),
    .attrs = clip_attrs,
    .infer = infer_clip,
    .cost = cost_clip,
    .decompose = decompose_clip,
    .doc = "x * min(1, max / (norm + 1e-6)) (Pascanu et al. 2013): one of the tensors whose global "
           "norm is norm, "
           "a float scalar; see sum_squares. In the compute type, rounded once to x's dtype.",
    .special = "A norm that is not finite leaves x as it is, so that clipping makes no NaN of a "
               "number: whoever "
               "wants to skip such a step looks at the norm."};

/* ---- all_finite ---------------------------------------------------------------------------- */

static mlsys_status infer_all_finite(mlsi_infer *t) {
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    t->out[0] = (mlsi_type){.dtype = MLSYS_BOOL};
    return MLSYS_OK;
}

static mlsys_status decompose_all_finite(mlsi_graph *g, int32_t func, const void *attrs,
                                         int32_t n_in, const int32_t *in, int32_t n_out,
                                         int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    (void)attrs, (void)n_in, (void)n_out;
    out[0] = reduce_all(&e, MLSI_OP_REDUCE_AND, mlsi_emit_1(&e, MLSI_OP_IS_FINITE, in[0]));
    return e.st;
}

static void cost_all_finite(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->in[0]);
}

const mlsi_op_def mlsi_op_def_all_finite = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .attrs_size = sizeof(mlsi_attr_none),
    .infer = infer_all_finite,
    .cost = cost_all_finite,
    .decompose = decompose_all_finite,
    .doc = "A bool scalar: no element of x is NaN or infinite.",
    .special = "An empty x is all finite."};
