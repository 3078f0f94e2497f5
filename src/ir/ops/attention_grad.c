/* attention_grad: type rule and definition; the formula is in gradient_attention.c. */
#include "ir/ops/attention.h"
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"

#include <string.h>

enum { O = 5, LSE, DO, DLSE };

static mlsys_status expect(const mlsi_infer *t, int i, const mlsi_type *want) {
    char a[160], b[160];
    if (mlsi_type_equal(&t->in[i], want)) return MLSYS_OK;
    return mlsi_infer_fail(t, t->in[i].dtype != want->dtype ? MLSYS_E_DTYPE : MLSYS_E_SHAPE, i,
                           "%s, expected %s", mlsi_type_text(t->symbols, &t->in[i], a, sizeof a),
                           mlsi_type_text(t->symbols, want, b, sizeof b));
}

static mlsys_status infer_attention_grad(mlsi_infer *t) {
    const mlsi_type *q = &t->in[0];
    MLSI_TRY(mlsi_infer_attention(t));
    mlsi_type o = *q, lse = {q->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32,
                             3,
                             {q->dims[0], q->dims[2], q->dims[1]}};
    o.dims[3] = t->in[2].dims[3];
    MLSI_TRY(expect(t, O, &o));
    MLSI_TRY(expect(t, LSE, &lse));
    MLSI_TRY(expect(t, DO, &o));
    if (t->n_in > DLSE && t->in[DLSE].dtype) MLSI_TRY(expect(t, DLSE, &lse));
    memcpy(t->out, t->in, 3 * sizeof *t->out);
    return MLSYS_OK;
}

/* Five products over all pairs of query and key, an upper bound as for attention. */
static void cost_attention_grad(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_view *q = &a->in[0], *k = &a->in[1], *v = &a->in[2];
    uint64_t scores = (uint64_t)(q->shape[0] * q->shape[1] * q->shape[2]) * (uint64_t)k->shape[1];
    c->flops = 2 * scores * (uint64_t)(3 * q->shape[3] + 2 * v->shape[3]);
    c->transcendentals = scores;
}

static const mlsi_attr_desc attention_grad_attrs[] = {MLSI_ATTENTION_ATTRS, {.name = NULL}};

const mlsi_op_def mlsi_op_def_attention_grad = {
    .min_in = 8,
    .max_in = 9,
    .min_out = 3,
    .max_out = 3,
    .operands = "q, k, v, mask?, kv_len?, o, lse, do, dlse?",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_attention),
    .attrs = attention_grad_attrs,
    .infer = infer_attention_grad,
    .cost = cost_attention_grad,
    .decompose = mlsi_decompose_attention_grad,
    .nest = mlsi_loops_attention_grad,
    .doc = "The adjoints dq, dk, dv of attention's operands from the adjoints do [B, Lq, H, Dv] "
           "and dlse "
           "[B, H, Lq] (absent: 0) of its results o and lse, which are operands too; the other "
           "operands and "
           "the attributes are attention's. With s the scores of attention: p = exp(s - lse) where "
           "visible, "
           "else 0; ds = p * (do . v - sum(do * o) + dlse), with softcap times 1 - tanh(s / "
           "cap)^2, times "
           "scale; dq = ds . k, dk = ds^T . q, dv = p^T . do, each a product along K over all "
           "keys, or over "
           "all (query, head of the group) of a kv head. A kernel computes the scores again tile "
           "by tile and "
           "holds none of them. attention's gradient emits this op; a float mask whose gradient is "
           "wanted is "
           "differentiated in primitives.",
    .special = "A query whose lse is -inf saw no key: it passes nothing back. Keys and values "
               "behind kv_len "
               "count as zeros, whatever they hold. A zero result is +0. kv_len outside [0, Lk] is "
               "an error of "
               "attention; here it is bounded."};
