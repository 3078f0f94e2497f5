/* simplify: identities that keep every bit in every numerics mode (NaN payloads are outside the
 * contract). x + (+0) is not among them: it turns -0 into +0. Each rule is one function of the table;
 * it answers the new value that stands for the node's result, or -1. */
#include "core/faults.h"
#include "ir/passes/passes.h"

#include <math.h>
#include <string.h>

typedef mlsys_status (*rule_fn)(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                int32_t *out);

static const mlsi_type *type_of(const mlsi_rewrite *rw, int32_t v) {
    return mlsi_type_of(rw->g, rw->func, v);
}

static bool keeps_type(const mlsi_rewrite *rw, const mlsi_node *node, int32_t v) {
    return mlsi_type_equal(&rw->old.values[node->first_out].type, type_of(rw, v));
}

enum { LOOK_BACK = 4 }; /* broadcasts and reshapes between an operand and its one value */

/* A one-element constant, or a full node, seen through a few broadcasts and reshapes: its value. */
static bool splat_value(const mlsi_rewrite *rw, int32_t v, double *f, int64_t *i) {
    const mlsi_node *def = mlsi_rewrite_def(rw, v);
    for (int k = 0;
         k < LOOK_BACK && def && (def->op == MLSI_OP_BROADCAST || def->op == MLSI_OP_RESHAPE);
         k++) {
        v = def->in[0];
        def = mlsi_rewrite_def(rw, v);
    }
    const mlsi_tensor *t = mlsi_rewrite_const(rw, v);
    if (t && mlsi_layout_count(&t->layout) == 1 && !mlsi_dtype_is_block(t->layout.dtype)) {
        mlsi_view view = mlsi_tensor_view_of(t);
        *f = 0, *i = 0;
        if (mlsi_dtype_is_float(view.dtype))
            *f = mlsi_ref_get_f(&view, 0);
        else
            *i = mlsi_ref_get_i(&view, 0);
        return true;
    }
    if (!def || def->op != MLSI_OP_FULL) return false;
    const mlsi_attr_full *a = def->attrs;
    *f = a->value;
    *i = a->ivalue;
    return true;
}

static bool is_splat(const mlsi_rewrite *rw, int32_t v, double f, int64_t i) {
    double vf;
    int64_t vi;
    if (!splat_value(rw, v, &vf, &vi)) return false;
    if (mlsi_dtype_is_float(type_of(rw, v)->dtype)) return vf == f && signbit(vf) == signbit(f);
    return vi == i;
}

static mlsys_status same_type(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                              int32_t *out) {
    if (keeps_type(rw, node, in[0])) *out = in[0];
    return MLSYS_OK;
}

static mlsys_status identity(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                             int32_t *out) {
    (void)rw, (void)node;
    *out = in[0];
    return MLSYS_OK;
}

static mlsys_status involution(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                               int32_t *out) {
    const mlsi_node *def = mlsi_rewrite_def(rw, in[0]);
    bool undoes =
        def && (def->op == node->op || (mlsi_fault(MLSI_FAULT_INVOLUTION_OP) && def->n_in == 1));
    if (undoes && keeps_type(rw, node, def->in[0])) *out = def->in[0];
    return MLSYS_OK;
}

/* No rule at all: exp(a) * exp(b) is not exp(a + b), see exp(100) * exp(-100) in f32. */
static mlsys_status wrong_exp_product(mlsi_rewrite *rw, const int32_t *in, int32_t *out) {
    const mlsi_node *a = mlsi_rewrite_def(rw, in[0]), *b = mlsi_rewrite_def(rw, in[1]);
    if (!a || !b || a->op != MLSI_OP_EXP || b->op != MLSI_OP_EXP) return MLSYS_OK;
    int32_t terms[2] = {a->in[0], b->in[0]}, sum;
    MLSI_TRY(mlsi_build_node(rw->g, rw->func, MLSI_OP_ADD, NULL, 2, terms, 1, &sum));
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_EXP, NULL, 1, &sum, 1, out);
}

static mlsys_status mul_one(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                            int32_t *out) {
    if (mlsi_fault(MLSI_FAULT_EXP_PRODUCT)) return wrong_exp_product(rw, in, out);
    if (is_splat(rw, in[1], 1, 1) && keeps_type(rw, node, in[0])) *out = in[0];
    if (is_splat(rw, in[0], 1, 1) && keeps_type(rw, node, in[1])) *out = in[1];
    return MLSYS_OK;
}

static mlsys_status div_one(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                            int32_t *out) {
    if (mlsi_fault(MLSI_FAULT_SIMPLIFY_OPERAND) && is_splat(rw, in[1], 1, 1) &&
        keeps_type(rw, node, in[1]))
        return *out = in[1], MLSYS_OK;
    if (is_splat(rw, in[1], 1, 1) && keeps_type(rw, node, in[0])) *out = in[0];
    return MLSYS_OK;
}

static mlsys_status add_zero(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                             int32_t *out) {
    double zero = mlsi_fault(MLSI_FAULT_ADD_POSITIVE_ZERO) ? 0.0 : -0.0;
    if (is_splat(rw, in[1], zero, 0) && keeps_type(rw, node, in[0])) *out = in[0];
    if (is_splat(rw, in[0], zero, 0) && keeps_type(rw, node, in[1])) *out = in[1];
    return MLSYS_OK;
}

static mlsys_status sub_zero(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                             int32_t *out) {
    if (is_splat(rw, in[1], 0, 0) && keeps_type(rw, node, in[0])) *out = in[0];
    return MLSYS_OK;
}

static mlsys_status reshape_reshape(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                    int32_t *out) {
    const mlsi_node *def = mlsi_rewrite_def(rw, in[0]);
    if (!def || def->op != MLSI_OP_RESHAPE) return MLSYS_OK;
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_RESHAPE, node->attrs, 1, def->in, 1, out);
}

/* The permutation of a transpose through the one below it, if any, and what it reads. */
static int32_t compose(const mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                       mlsi_attr_transpose *a) {
    const mlsi_node *def = mlsi_rewrite_def(rw, in[0]);
    const mlsi_attr_transpose *outer = node->attrs;
    *a = *outer;
    if (!def || def->op != MLSI_OP_TRANSPOSE) return in[0];
    const mlsi_attr_transpose *inner = def->attrs;
    for (int64_t i = 0; i < a->perm.n; i++)
        a->perm.v[i] = mlsi_fault(MLSI_FAULT_TRANSPOSE_ORDER) ? outer->perm.v[inner->perm.v[i]]
                                                              : inner->perm.v[outer->perm.v[i]];
    return def->in[0];
}

static mlsys_status transpose_none(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                   int32_t *out) {
    mlsi_attr_transpose a;
    int32_t source = compose(rw, node, in, &a);
    for (int64_t i = 0; i < a.perm.n; i++)
        if (a.perm.v[i] != i) return MLSYS_OK;
    *out = source;
    return MLSYS_OK;
}

static mlsys_status transpose_transpose(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                        int32_t *out) {
    mlsi_attr_transpose a;
    int32_t source = compose(rw, node, in, &a);
    if (source == in[0]) return MLSYS_OK;
    return mlsi_build_node(rw->g, rw->func, MLSI_OP_TRANSPOSE, &a, 1, &source, 1, out);
}

/* A slice may keep the type and still reverse: only step 1 is the identity. */
static mlsys_status slice_all(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                              int32_t *out) {
    const mlsi_attr_slice *a = node->attrs;
    for (int64_t i = 0; i < a->steps.n; i++)
        if (a->steps.v[i] != 1 && !mlsi_fault(MLSI_FAULT_SLICE_STEP)) return MLSYS_OK;
    return same_type(rw, node, in, out);
}

static mlsys_status reverse_none(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                                 int32_t *out) {
    (void)rw;
    const mlsi_attr_axes *a = node->attrs;
    if (!a->axes.n) *out = in[0];
    return MLSYS_OK;
}

static mlsys_status pad_none(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                             int32_t *out) {
    const mlsi_attr_pad *a = node->attrs;
    for (int64_t i = 0; i < a->low.n; i++)
        if (a->low.v[i] || a->high.v[i]) return MLSYS_OK;
    return same_type(rw, node, in, out);
}

static mlsys_status concat_one(mlsi_rewrite *rw, const mlsi_node *node, const int32_t *in,
                               int32_t *out) {
    (void)rw;
    if (node->n_in == 1) *out = in[0];
    return MLSYS_OK;
}

static const struct {
    mlsi_op op;
    rule_fn rule;
    const char *name; /* of the identity in its certificate; NULL: a copy */
} rules[] = {
    {MLSI_OP_COPY, identity, NULL},
    {MLSI_OP_CAST, same_type, "cast_same"},
    {MLSI_OP_BROADCAST, same_type, "broadcast_same"},
    {MLSI_OP_RESHAPE, same_type, "reshape_same"},
    {MLSI_OP_RESHAPE, reshape_reshape, "reshape_of_reshape"},
    {MLSI_OP_SLICE, slice_all, "slice_all"},
    {MLSI_OP_REVERSE, reverse_none, "reverse_none"},
    {MLSI_OP_PAD, pad_none, "pad_none"},
    {MLSI_OP_CONCAT, concat_one, "concat_one"},
    {MLSI_OP_NEG, involution, "neg_neg"},
    {MLSI_OP_NOT, involution, "not_not"},
    {MLSI_OP_MUL, mul_one, "mul_one"},
    {MLSI_OP_DIV, div_one, "div_one"},
    {MLSI_OP_ADD, add_zero, "add_zero"},
    {MLSI_OP_SUB, sub_zero, "sub_zero"},
    {MLSI_OP_TRANSPOSE, transpose_none, "transpose_none"},
    {MLSI_OP_TRANSPOSE, transpose_transpose, "transpose_of_transpose"},
};

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    int32_t in[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        int32_t value = -1;
        if (rules[r].op != node->op) continue;
        MLSI_TRY(rules[r].rule(rw, node, in, &value));
        if (value < 0) continue;
        mlsi_rewrite_by(rw, rules[r].name ? MLSI_BY_IDENTITY : MLSI_BY_COPY, rules[r].name);
        return *out = value, MLSYS_OK;
    }
    return mlsi_rewrite_keep(rw, node, out);
}

mlsys_status mlsi_pass_simplify(mlsi_pass_ctx *p, int32_t func) {
    return mlsi_rewrite_run(p, func, visit, NULL);
}
