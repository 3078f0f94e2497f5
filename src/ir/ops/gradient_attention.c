/* Attention backwards, in primitives: what attention_grad means, and attention's gradient rule. With heads as
 * [Hkv, G], G = H / Hkv, and all rows side by side as [B, Hkv, Lq, G, Lk]:
 *
 *     p = exp(s - lse) where visible, else 0          dp = do . v
 *     delta = sum(do * o)                             ds = p * (dp - delta + dlse)
 *     dq = scale * ds . k,  dk = scale * ds^T . q,  dv = p^T . do,  dmask = ds
 *
 * and ds * (1 - tanh^2) in front of the scale where scores are capped (Dao et al., FlashAttention, appendix
 * B). A query that sees nothing has lse = -inf and passes nothing back. The sums are products along K over
 * all keys or all rows, invisible ones as zeros; a zero result is +0, so that a kernel may leave out what is
 * zero. */
#include "ir/ops/gradient.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, MASK, KV_LEN, O, LSE, DO, DLSE, OPERANDS }; /* of attention_grad */

typedef struct attention_vjp {
    int32_t in[OPERANDS]; /* -1: absent */
    mlsi_emit e;
    const mlsi_attr_attention *at;
    int64_t b, lq, lk, h, hkv, group, d, dv;
    int32_t q, k, val, d_o;          /* [B, Lq, Hkv, G, *], [B, Lk, Hkv, *]: in the compute type */
    int32_t capped, visible, p, raw; /* raw: p * (dp - delta + dlse) */
} attention_vjp;

static int32_t op2(attention_vjp *x, mlsi_op op, int32_t a, int32_t b) {
    return mlsi_emit_2(&x->e, op, a, b);
}

static int32_t heads_apart(attention_vjp *x, int32_t t, int64_t last) {
    int64_t dims[5] = {x->b, x->lq, x->hkv, x->group, last};
    return mlsi_emit_reshape(&x->e, mlsi_emit_widen(&x->e, t), 5, dims);
}

static int32_t permuted(attention_vjp *x, int32_t t, int n, const int64_t *perm) {
    mlsi_attr_transpose at;
    memset(&at, 0, sizeof at);
    at.perm.n = n;
    memcpy(at.perm.v, perm, sizeof *perm * (size_t)n);
    return mlsi_emit_op(&x->e, MLSI_OP_TRANSPOSE, &at, 1, &t);
}

/* [B, Lq, Hkv, G, *] times [B, Lk, Hkv, *] to [B, Hkv, Lq, G, Lk]. */
static int32_t along_heads(attention_vjp *x, int32_t a, int32_t b) {
    mlsi_attr_dot at = {.lhs_batch = {2, {0, 2}},
                        .rhs_batch = {2, {0, 2}},
                        .lhs_contract = {1, {4}},
                        .rhs_contract = {1, {3}}};
    int32_t in[2] = {a, b};
    return mlsi_emit_op(&x->e, MLSI_OP_DOT_GENERAL, &at, 2, in);
}

/* rows [B, Hkv, Lq, G, Lk] times [B, Lq, Hkv, G, *], over all queries of a group: [B, Lk, Hkv, *]. */
static int32_t over_queries(attention_vjp *x, int32_t rows, int32_t t) {
    static const int64_t back[4] = {0, 2, 1, 3};
    mlsi_attr_dot at = {.lhs_batch = {2, {0, 1}},
                        .rhs_batch = {2, {0, 2}},
                        .lhs_contract = {2, {2, 3}},
                        .rhs_contract = {2, {1, 3}}};
    int32_t in[2] = {rows, t};
    return permuted(x, mlsi_emit_op(&x->e, MLSI_OP_DOT_GENERAL, &at, 2, in), 4, back);
}

/* A value per query, [B, H, Lq] or [B, Lq, H] (heads_last), as [B, Hkv, Lq, G, 1]. */
static int32_t per_row(attention_vjp *x, int32_t t, bool heads_last) {
    static const int64_t from_first[5] = {0, 1, 3, 2, 4}, from_last[5] = {0, 2, 1, 3, 4};
    int64_t first[5] = {x->b, x->hkv, x->group, x->lq, 1},
            last[5] = {x->b, x->lq, x->hkv, x->group, 1};
    t = mlsi_emit_reshape(&x->e, mlsi_emit_widen(&x->e, t), 5, heads_last ? last : first);
    return permuted(x, t, 5, heads_last ? from_last : from_first);
}

/* A mask, broadcastable to [B, H, Lq, Lk], as one to [B, Hkv, Lq, G, Lk]. */
static int32_t spread_mask(attention_vjp *x, int32_t mask) {
    static const int64_t perm[5] = {0, 1, 3, 2, 4};
    if (x->e.st != MLSYS_OK) return mask;
    mlsi_type t = *mlsi_emit_type(&x->e, mask);
    int64_t full[4] = {1, 1, 1, 1};
    for (int d = 0; d < t.rank; d++)
        full[4 - t.rank + d] = t.dims[d];
    bool per_head = full[1] != 1;
    int64_t dims[5] = {full[0], per_head ? x->hkv : 1, per_head ? x->group : 1, full[2], full[3]};
    return permuted(x, mlsi_emit_reshape(&x->e, mask, 5, dims), 5, perm);
}

/* ---- which keys a query sees --------------------------------------------------------------- */

static int32_t both(attention_vjp *x, int32_t a, int32_t b) {
    return a < 0 ? b : op2(x, MLSI_OP_AND, a, b);
}

static bool additive_mask(const attention_vjp *x) {
    return x->e.st == MLSYS_OK && x->in[MASK] >= 0 &&
           mlsi_emit_type(&x->e, x->in[MASK])->dtype != MLSYS_BOOL;
}

/* bool, broadcastable to the rows; -1: all keys. */
static int32_t visible_keys(attention_vjp *x) {
    int32_t seen = -1, j = mlsi_emit_positions(&x->e, 5, 4, x->lk);
    int32_t n = mlsi_emit_count_int(&x->e, x->in[K], 1, 2);
    if (x->in[KV_LEN] >= 0) {
        int64_t dims[5] = {x->b, 1, 1, 1, 1};
        n = mlsi_emit_reshape(&x->e, mlsi_emit_cast(&x->e, x->in[KV_LEN], MLSYS_I64), 5, dims);
        seen = op2(x, MLSI_OP_LT, j, n);
    }
    if (x->at->causal != MLSI_CAUSAL_NONE || x->at->window > 0) {
        int32_t i = mlsi_emit_positions(&x->e, 5, 2, x->lq);
        if (x->at->causal == MLSI_CAUSAL_BOTTOM_RIGHT) {
            int32_t lq = mlsi_emit_count_int(&x->e, x->in[Q], 1, 2);
            i = op2(x, MLSI_OP_ADD, i, op2(x, MLSI_OP_SUB, n, lq));
        }
        if (x->at->causal != MLSI_CAUSAL_NONE) seen = both(x, seen, op2(x, MLSI_OP_LE, j, i));
        if (x->at->window > 0) {
            int32_t w = mlsi_emit_int(&x->e, MLSYS_I64, x->at->window);
            int32_t oldest = op2(x, MLSI_OP_SUB, i, w);
            seen = both(x, seen, op2(x, MLSI_OP_GT, j, oldest));
        }
    }
    if (x->in[MASK] >= 0 && !additive_mask(x)) seen = both(x, seen, spread_mask(x, x->in[MASK]));
    return seen;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Zeros behind kv_len: what lies there may be anything, and 0 * NaN would reach the sums. */
static int32_t valid_keys(attention_vjp *x, int32_t t) {
    if (x->in[KV_LEN] < 0) return t;
    int64_t dims[4] = {x->b, 1, 1, 1};
    int32_t j = mlsi_emit_positions(&x->e, 4, 1, x->lk);
    int32_t n = mlsi_emit_reshape(&x->e, mlsi_emit_cast(&x->e, x->in[KV_LEN], MLSYS_I64), 4, dims);
    int32_t valid = op2(x, MLSI_OP_LT, j, n), zero = mlsi_emit_float(&x->e, 0);
    return mlsi_emit_select(&x->e, valid, t, zero);
}

static attention_vjp begin(mlsi_graph *g, int32_t func, const mlsi_attr_attention *at, int32_t n_in,
                           const int32_t *in) {
    attention_vjp x = {.e = mlsi_emit_begin(g, func, in[Q]), .at = at, .capped = -1};
    for (int i = 0; i < OPERANDS; i++)
        x.in[i] = i < n_in ? in[i] : -1;
    mlsi_type q = *mlsi_emit_type(&x.e, in[Q]), k = *mlsi_emit_type(&x.e, in[K]);
    x.b = q.dims[0], x.lq = q.dims[1], x.h = q.dims[2], x.d = q.dims[3];
    x.lk = k.dims[1], x.hkv = k.dims[2], x.dv = mlsi_emit_type(&x.e, in[V])->dims[3];
    x.group = x.hkv > 0 ? x.h / x.hkv : 1;
    x.q = heads_apart(&x, in[Q], x.d);
    x.d_o = heads_apart(&x, in[DO], x.dv);
    x.k = valid_keys(&x, mlsi_emit_widen(&x.e, in[K]));
    x.val = valid_keys(&x, mlsi_emit_widen(&x.e, in[V]));
    return x;
}

/* Scores as the forward op has them: scaled, capped, masked. */
static int32_t scores(attention_vjp *x) {
    int32_t s = along_heads(x, x->q, x->k);
    s = op2(x, MLSI_OP_MUL, s, mlsi_emit_float(&x->e, x->at->scale));
    if (x->at->softcap != 0) {
        int32_t cap = mlsi_emit_float(&x->e, x->at->softcap);
        x->capped = mlsi_emit_1(&x->e, MLSI_OP_TANH, op2(x, MLSI_OP_DIV, s, cap));
        s = op2(x, MLSI_OP_MUL, cap, x->capped);
    }
    if (additive_mask(x))
        s = op2(x, MLSI_OP_ADD, s, mlsi_emit_widen(&x->e, spread_mask(x, x->in[MASK])));
    return s;
}

static int32_t where_visible(attention_vjp *x, int32_t rows) {
    if (x->visible < 0) return rows;
    int32_t zero = mlsi_emit_float(&x->e, 0);
    return mlsi_emit_select(&x->e, x->visible, rows, zero);
}

static void probabilities(attention_vjp *x) {
    int32_t s = scores(x);
    x->visible = visible_keys(x);
    int32_t lse = per_row(x, x->in[LSE], false);
    int32_t low = mlsi_emit_float(&x->e, -INFINITY), zero = mlsi_emit_float(&x->e, 0);
    int32_t blind = op2(x, MLSI_OP_EQ, lse, low);
    int32_t safe = mlsi_emit_select(&x->e, blind, zero, lse);
    x->p = where_visible(x, mlsi_emit_1(&x->e, MLSI_OP_EXP, op2(x, MLSI_OP_SUB, s, safe)));
}

static void score_adjoint(attention_vjp *x) {
    int32_t o = mlsi_emit_widen(&x->e, x->in[O]), d_o = mlsi_emit_widen(&x->e, x->in[DO]);
    int32_t delta = mlsi_emit_reduce(&x->e, MLSI_OP_REDUCE_SUM, op2(x, MLSI_OP_MUL, d_o, o), 3, 4);
    int32_t dp = along_heads(x, x->d_o, x->val);
    int32_t sum = op2(x, MLSI_OP_SUB, dp, per_row(x, delta, true));
    if (x->in[DLSE] >= 0) sum = op2(x, MLSI_OP_ADD, sum, per_row(x, x->in[DLSE], false));
    x->raw = op2(x, MLSI_OP_MUL, x->p, sum);
}

/* What reaches q . k. */
static int32_t product_adjoint(attention_vjp *x) {
    int32_t ds = x->raw;
    if (x->capped >= 0) {
        int32_t square = op2(x, MLSI_OP_MUL, x->capped, x->capped), one = mlsi_emit_float(&x->e, 1);
        ds = op2(x, MLSI_OP_MUL, ds, op2(x, MLSI_OP_SUB, one, square));
    }
    return where_visible(x, op2(x, MLSI_OP_MUL, ds, mlsi_emit_float(&x->e, x->at->scale)));
}

static int32_t mask_adjoint(attention_vjp *x) {
    static const int64_t perm[5] = {0, 1, 3, 2, 4};
    int64_t dims[4] = {x->b, x->h, x->lq, x->lk};
    if (x->e.st != MLSYS_OK) return -1;
    mlsys_dtype t = mlsi_emit_type(&x->e, x->in[MASK])->dtype;
    int32_t d = permuted(x, where_visible(x, x->raw), 5, perm);
    d = mlsi_emit_unbroadcast(&x->e, mlsi_emit_reshape(&x->e, d, 4, dims), x->in[MASK]);
    return mlsi_emit_cast(&x->e, d, t);
}

/* In the operand's type; x + 0 makes -0 a +0. */
static int32_t as_operand(attention_vjp *x, int i, int32_t adjoint) {
    if (x->e.st != MLSYS_OK) return -1;
    mlsi_type t = *mlsi_emit_type(&x->e, x->in[i]);
    adjoint = op2(x, MLSI_OP_ADD, adjoint, mlsi_emit_float(&x->e, 0));
    adjoint = mlsi_emit_reshape(&x->e, adjoint, t.rank, t.dims);
    return mlsi_emit_cast(&x->e, adjoint, t.dtype);
}

static int32_t query_adjoint(attention_vjp *x, int32_t ds) {
    static const int64_t back[5] = {0, 2, 1, 3, 4};
    mlsi_attr_dot at = {.lhs_batch = {2, {0, 1}},
                        .rhs_batch = {2, {0, 2}},
                        .lhs_contract = {1, {4}},
                        .rhs_contract = {1, {1}}};
    int32_t in[2] = {ds, x->k};
    return permuted(x, mlsi_emit_op(&x->e, MLSI_OP_DOT_GENERAL, &at, 2, in), 5, back);
}

/* dq, dk, dv, and the mask's adjoint when dmask is not NULL. */
static mlsys_status emit_adjoints(attention_vjp *x, int32_t *out, int32_t *dmask) {
    probabilities(x);
    score_adjoint(x);
    if (dmask) *dmask = mask_adjoint(x);
    int32_t ds = product_adjoint(x);
    out[0] = as_operand(x, Q, query_adjoint(x, ds));
    out[1] = as_operand(x, K, over_queries(x, ds, x->q));
    out[2] = as_operand(x, V, over_queries(x, x->p, x->d_o));
    return x->e.st;
}

mlsys_status mlsi_decompose_attention_grad(mlsi_graph *g, int32_t func, const void *attrs,
                                           int32_t n_in, const int32_t *in, int32_t n_out,
                                           int32_t *out) {
    (void)n_out;
    attention_vjp x = begin(g, func, attrs, n_in, in);
    return emit_adjoints(&x, out, NULL);
}

/* ---- the rule of attention ----------------------------------------------------------------- */

/* The operands of attention_grad. A node without a log-sum-exp gets a twin that has it; the pass cse makes
 * one node of the two. */
static mlsys_status grad_operands(const mlsi_vjp *v, int32_t *in) {
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_attention twin = *(const mlsi_attr_attention *)v->attrs;
    int32_t out[2] = {v->out[0], v->n_out > 1 ? v->out[1] : -1};
    for (int i = 0; i < OPERANDS; i++)
        in[i] = i < v->n_in ? v->in[i] : -1;
    twin.lse = 1;
    if (out[1] < 0) mlsi_emit_many(&e, MLSI_OP_ATTENTION, &twin, v->n_in, v->in, 2, out);
    in[O] = out[0];
    in[LSE] = out[1];
    in[DO] = v->dout[0] >= 0 ? v->dout[0] : mlsi_emit_zeros_like(&e, v->out[0]);
    in[DLSE] = v->n_out > 1 ? v->dout[1] : -1;
    return e.st;
}

mlsys_status mlsi_vjp_attention(mlsi_vjp *v) {
    int32_t in[OPERANDS], out[3];
    bool mask = v->n_in > MASK && v->in[MASK] >= 0 && v->wanted[MASK];
    mlsi_emit e = mlsi_vjp_begin(v);
    mlsi_attr_attention at = *(const mlsi_attr_attention *)v->attrs;
    MLSI_TRY(grad_operands(v, in));
    at.lse = 0;
    if (mask) {
        attention_vjp x = begin(v->graph, v->func, &at, OPERANDS, in);
        MLSI_TRY(emit_adjoints(&x, out, &v->din[MASK]));
    } else {
        mlsi_emit_many(&e, MLSI_OP_ATTENTION_GRAD, &at, OPERANDS - (in[DLSE] < 0), in, 3, out);
    }
    for (int i = Q; i <= V; i++)
        if (v->wanted[i]) v->din[i] = out[i];
    return e.st;
}
