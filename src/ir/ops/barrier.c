/* barrier: a value that is told apart from its operand. Recomputation reads what is kept through it
 * (autodiff/checkpoint.h): else equal nodes would be merged again, and what was to go would stay. */
#include "ir/ops/loops.h"
#include "ir/ops/gradient.h"
#include "ir/ops/movement.h"

static mlsys_status infer_barrier(mlsi_infer *t) {
    const mlsi_attr_barrier *attrs = t->attrs;
    if (attrs->id < 0)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute id: %lld is negative",
                               (long long)attrs->id);
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status ref_barrier(const mlsi_ref_args *a) {
    mlsi_copy_view(&a->out[0], &a->in[0]);
    return MLSYS_OK;
}

static mlsys_status view_barrier(const void *attrs, const mlsi_layout *in,
                                 const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    (void)attrs, (void)out_type;
    *is_view = true;
    *out = *in;
    return MLSYS_OK;
}

static const mlsi_attr_desc barrier_attrs[] = {
    {.name = "id",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_barrier, id),
     .help = ">= 0; barriers of one value with different numbers stay different values"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_barrier =
    {/* what stands behind it is computed again, at its own place in time */
     .shares = MLSI_SHARES_NOTHING,

     .element = mlsi_loops_same,
     .min_in = 1,
     .max_in = 1,
     .min_out = 1,
     .max_out = 1,
     .operands = "x",
     .traits = MLSI_TRAIT_ELEMENTWISE | MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
     .attrs_size = sizeof(mlsi_attr_barrier),
     .attrs = barrier_attrs,
     .infer = infer_barrier,
     .cost = mlsi_elementwise_cost_move,
     .ref = ref_barrier,
     .view = view_barrier,
     .vjp = mlsi_vjp_barrier,
     .doc = "x itself, which no pass looks through: what is computed from it is computed again, "
            "though "
            "the same was computed from x before. It moves nothing. Block dtypes are allowed.",
     .special = "Bits are kept."};
