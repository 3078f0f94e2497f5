/* batch_sum: a sum that can be taken in parts. reduce_sum's tree has no place where it could be cut at any length;
 * the chain of segments of a product along K has one every 256 elements, so the sum is a product with ones. */
#include "ir/ops/decompose.h"
#include "ir/ops/gradient.h"
#include "ir/ops/reduce.h"

#include <string.h>

static mlsys_status infer_batch_sum(mlsi_infer *t) {
    mlsi_attr_batch_sum *attrs = t->attrs;
    mlsys_dtype x = t->in[0].dtype;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_reduce_axes(t, &attrs->axes));
    mlsi_reduced_type(&t->in[0], &attrs->axes, false, &t->out[0]);
    if (!attrs->dtype) attrs->dtype = x;
    if (!mlsi_dtype_is_float((mlsys_dtype)attrs->dtype) ||
        (attrs->dtype == MLSYS_F64 && x != MLSYS_F64))
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1, "attribute dtype: %lld cannot hold sums of %s",
                               (long long)attrs->dtype, mlsi_dtype_get(x)->name);
    t->out[0].dtype = (mlsys_dtype)attrs->dtype;
    return mlsi_infer_addend(t, 1);
}

static mlsys_status decompose_batch_sum(mlsi_graph *g, int32_t func, const void *attrs,
                                        int32_t n_in, const int32_t *in, int32_t n_out,
                                        int32_t *out) {
    const mlsi_attr_batch_sum *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    mlsi_attr_full ones;
    mlsi_attr_dot dot;
    (void)n_out;
    memset(&ones, 0, sizeof ones);
    memset(&dot, 0, sizeof dot);
    ones.dtype = t.dtype;
    ones.value = 1;
    for (int64_t i = 0; i < at->axes.n; i++) {
        ones.shape.v[ones.shape.n++] = t.dims[at->axes.v[i]];
        dot.lhs_contract.v[dot.lhs_contract.n++] = i;
    }
    dot.rhs_contract = at->axes;
    dot.dtype = at->dtype;
    int32_t factors[3] = {mlsi_emit_op(&e, MLSI_OP_FULL, &ones, 0, NULL), in[0],
                          n_in > 1 ? in[1] : -1};
    out[0] = mlsi_emit_op(&e, MLSI_OP_DOT_GENERAL, &dot, factors[2] < 0 ? 2 : 3, factors);
    return e.st;
}

static void cost_batch_sum(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = mlsi_cost_count(&a->in[0]);
}

static const mlsi_attr_desc batch_sum_attrs[] = {
    {.name = "axes",
     .kind = MLSI_ATTR_LIST,
     .offset = offsetof(mlsi_attr_batch_sum, axes),
     .help = "axes that are summed over, in row-major order; empty: all"},
    {.name = "dtype",
     .kind = MLSI_ATTR_DTYPE,
     .offset = offsetof(mlsi_attr_batch_sum, dtype),
     .help = "dtype of the result, a float; default x's"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_batch_sum = {
    .min_in = 1,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, addend?",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_batch_sum),
    .attrs = batch_sum_attrs,
    .infer = infer_batch_sum,
    .cost = cost_batch_sum,
    .decompose = decompose_batch_sum,
    .vjp = mlsi_vjp_batch_sum,
    .doc = "Sum over axes in the order of products along K (docs/numerics.md): the product of x "
           "with ones. addend, of "
           "the result's type: the segments of 256 are added to it, so a sum can be taken in "
           "parts of whole segments "
           "with the bits of the sum of all. Gradient rules emit it for sums over a batch.",
    .special = "No elements: +0, or addend + 0."};
