/* Activations: composites of elementwise primitives. Narrow floats are computed in f32 and rounded
 * once. */
#include "ir/ops/decompose.h"
#include "ir/ops/elementwise.h"
#include "ir/ops/gradient.h"

static mlsys_status decompose_relu(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    (void)attrs, (void)n_in, (void)n_out;
    int32_t zero = mlsi_emit_int(&e, t, 0); /* the float field of full is 0 as well */
    out[0] = mlsi_emit_2(&e, MLSI_OP_MAX, in[0], zero);
    return e.st;
}

static mlsys_status decompose_silu(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    (void)attrs, (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]);
    int32_t y = mlsi_emit_2(&e, MLSI_OP_MUL, x, mlsi_emit_1(&e, MLSI_OP_SIGMOID, x));
    out[0] = mlsi_emit_cast(&e, y, t);
    return e.st;
}

/* The bracket of gelu's formula without its 1. */
static int32_t gelu_inner(mlsi_emit *e, int64_t form, int32_t x) {
    if (form == MLSI_GELU_ERF)
        return mlsi_emit_1(e, MLSI_OP_ERF,
                           mlsi_emit_2(e, MLSI_OP_MUL, x, mlsi_emit_float(e, 0.70710678118654752)));
    int32_t cube = mlsi_emit_2(e, MLSI_OP_MUL, mlsi_emit_2(e, MLSI_OP_MUL, x, x), x);
    int32_t bent = mlsi_emit_2(e, MLSI_OP_MUL, mlsi_emit_float(e, 0.044715), cube);
    int32_t sum = mlsi_emit_2(e, MLSI_OP_ADD, x, bent);
    int32_t arg = mlsi_emit_2(e, MLSI_OP_MUL, mlsi_emit_float(e, 0.79788456080286536), sum);
    return mlsi_emit_1(e, MLSI_OP_TANH, arg);
}

static mlsys_status decompose_gelu(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_gelu *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsys_dtype t = mlsi_emit_type(&e, in[0])->dtype;
    (void)n_in, (void)n_out;
    int32_t x = mlsi_emit_widen(&e, in[0]);
    int32_t half = mlsi_emit_2(&e, MLSI_OP_MUL, mlsi_emit_float(&e, 0.5), x);
    if (mlsi_fault(MLSI_FAULT_OPS_GELU_ROUNDING)) half = mlsi_emit_2(&e, MLSI_OP_ADD, half, x);
    int32_t one = mlsi_emit_float(&e, 1);
    int32_t y = mlsi_emit_2(&e, MLSI_OP_MUL, half,
                            mlsi_emit_2(&e, MLSI_OP_ADD, one, gelu_inner(&e, at->form, x)));
    out[0] = mlsi_emit_cast(&e, y, t);
    return e.st;
}

static mlsys_status infer_gelu(mlsi_infer *t) {
    const mlsi_attr_gelu *attrs = t->attrs;
    if (attrs->form != MLSI_GELU_ERF && attrs->form != MLSI_GELU_TANH)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute form: %lld", (long long)attrs->form);
    return mlsi_elementwise_infer_floats(t);
}

static void cost_activation(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->transcendentals = mlsi_cost_count(&a->out[0]);
    c->flops = 4 * mlsi_cost_count(&a->out[0]);
}

static const char *const gelu_forms[] = {"erf", "tanh", NULL};
static const mlsi_attr_desc gelu_attrs[] = {
    {.name = "form",
     .kind = MLSI_ATTR_ENUM,
     .offset = offsetof(mlsi_attr_gelu, form),
     .names = gelu_forms,
     .help = "erf: by the error function; tanh: its approximation"},
    {.name = NULL}};

#define ACTIVATION                                                                                 \
    .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .operands = "x",                         \
    .traits = MLSI_SMOOTH_TRAITS, .narrow = MLSI_NARROW_FOLLOWS

const mlsi_op_def mlsi_op_def_relu = {.shares = MLSI_SHARES_ELEMENTS,
                                      ACTIVATION,
                                      .attrs_size = sizeof(mlsi_attr_none),
                                      .infer = mlsi_elementwise_infer_numbers,
                                      .cost = mlsi_elementwise_cost,
                                      .decompose = decompose_relu,
                                      .vjp = mlsi_vjp_relu,
                                      .doc = "max(x, 0).",
                                      .special = "NaN stays NaN; relu(-0) = +0.",
                                      .onnx = "Relu"};
const mlsi_op_def mlsi_op_def_gelu = {
    .shares = MLSI_SHARES_ELEMENTS,
    ACTIVATION,
    .attrs_size = sizeof(mlsi_attr_gelu),
    .attrs = gelu_attrs,
    .infer = infer_gelu,
    .cost = cost_activation,
    .decompose = decompose_gelu,
    .doc = "erf: (0.5 * x) * (1 + erf(x * 0.70710678118654752)); tanh: (0.5 * x) * (1 + "
           "tanh(0.79788456080286536 * (x + 0.044715 * ((x * x) * x)))). Every written operation "
           "rounds in the "
           "compute type, the result once to x's dtype.",
    .special = "gelu(-inf) = -inf * 0 = NaN, gelu(inf) = inf.",
    .onnx = "Gelu"};
const mlsi_op_def mlsi_op_def_silu = {
    .shares = MLSI_SHARES_ELEMENTS,
    ACTIVATION,
    .attrs_size = sizeof(mlsi_attr_none),
    .infer = mlsi_elementwise_infer_floats,
    .cost = cost_activation,
    .decompose = decompose_silu,
    .vjp = mlsi_vjp_silu,
    .doc =
        "x * sigmoid(x), each operation rounded in the compute type, the result once to x's dtype.",
    .special = "silu(-inf) = -inf * 0 = NaN, silu(inf) = inf.",
    .onnx = "Swish"};
