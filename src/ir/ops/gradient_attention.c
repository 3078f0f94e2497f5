/* The gradient rule of attention, in primitives. With heads as [Hkv, G], G = H / Hkv, and all rows side by
 * side as [B, Hkv, Lq, G, Lk]:
 *
 *     p = exp(s - lse) where visible, else 0          dp = do . v
 *     delta = sum(do * o)                             ds = p * (dp - delta + dlse)
 *     dq = scale * ds . k,  dk = scale * ds^T . q,  dv = p^T . do,  dmask = ds
 *
 * and ds * (1 - tanh^2) in front of the scale where scores are capped (Dao et al., FlashAttention, appendix
 * B). A query that sees nothing has lse = -inf and passes nothing back. */
#include "ir/ops/gradient.h"

#include <math.h>
#include <string.h>

typedef struct attention_vjp {
    mlsi_vjp *v;
    mlsi_emit e;
    const mlsi_attr_attention *at;
    mlsys_dtype dtype;
    int64_t b, lq, lk, h, hkv, group, d, dv;
    int32_t q, k, val, d_o; /* [B, Lq, Hkv, G, *], [B, Lk, Hkv, *]: in the compute type */
    int32_t capped, visible, p, ds;
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

/* bool, broadcastable to the rows; -1: all keys. */
static int32_t visible_keys(attention_vjp *x) {
    const mlsi_vjp *v = x->v;
    bool has_len = v->n_in > 4 && v->in[4] >= 0, has_mask = v->n_in > 3 && v->in[3] >= 0;
    int32_t seen = -1, j = mlsi_emit_positions(&x->e, 5, 4, x->lk);
    int32_t n = mlsi_emit_count_int(&x->e, v->in[1], 1, 2);
    if (has_len) {
        int64_t dims[5] = {x->b, 1, 1, 1, 1};
        n = mlsi_emit_reshape(&x->e, mlsi_emit_cast(&x->e, v->in[4], MLSYS_I64), 5, dims);
        seen = op2(x, MLSI_OP_LT, j, n);
    }
    if (x->at->causal != MLSI_CAUSAL_NONE || x->at->window > 0) {
        int32_t i = mlsi_emit_positions(&x->e, 5, 2, x->lq);
        if (x->at->causal == MLSI_CAUSAL_BOTTOM_RIGHT) {
            int32_t lq = mlsi_emit_count_int(&x->e, v->in[0], 1, 2);
            i = op2(x, MLSI_OP_ADD, i, op2(x, MLSI_OP_SUB, n, lq));
        }
        if (x->at->causal != MLSI_CAUSAL_NONE) seen = both(x, seen, op2(x, MLSI_OP_LE, j, i));
        if (x->at->window > 0) {
            int32_t w = mlsi_emit_int(&x->e, MLSYS_I64, x->at->window);
            int32_t oldest = op2(x, MLSI_OP_SUB, i, w);
            seen = both(x, seen, op2(x, MLSI_OP_GT, j, oldest));
        }
    }
    if (has_mask && mlsi_emit_type(&x->e, v->in[3])->dtype == MLSYS_BOOL)
        seen = both(x, seen, spread_mask(x, v->in[3]));
    return seen;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Zeros behind kv_len: what lies there may be anything, and 0 * NaN would reach the sums. */
static int32_t valid_keys(attention_vjp *x, int32_t t) {
    const mlsi_vjp *v = x->v;
    if (v->n_in < 5 || v->in[4] < 0) return t;
    int64_t dims[4] = {x->b, 1, 1, 1};
    int32_t j = mlsi_emit_positions(&x->e, 4, 1, x->lk);
    int32_t n = mlsi_emit_reshape(&x->e, mlsi_emit_cast(&x->e, v->in[4], MLSYS_I64), 4, dims);
    int32_t valid = op2(x, MLSI_OP_LT, j, n), zero = mlsi_emit_float(&x->e, 0);
    return mlsi_emit_select(&x->e, valid, t, zero);
}

static attention_vjp begin(mlsi_vjp *v) {
    attention_vjp x = {.v = v, .e = mlsi_vjp_begin(v), .at = v->attrs};
    mlsi_type q = *mlsi_emit_type(&x.e, v->in[0]), k = *mlsi_emit_type(&x.e, v->in[1]);
    mlsi_type val = *mlsi_emit_type(&x.e, v->in[2]);
    x.dtype = q.dtype;
    x.b = q.dims[0], x.lq = q.dims[1], x.h = q.dims[2], x.d = q.dims[3];
    x.lk = k.dims[1], x.hkv = k.dims[2], x.dv = val.dims[3];
    x.group = x.hkv > 0 ? x.h / x.hkv : 1;
    x.q = heads_apart(&x, v->in[0], x.d);
    x.k = valid_keys(&x, mlsi_emit_widen(&x.e, v->in[1]));
    x.val = valid_keys(&x, mlsi_emit_widen(&x.e, v->in[2]));
    return x;
}

static double scale_of(const attention_vjp *x) {
    return x->at->scale != 0 ? x->at->scale : 1 / sqrt((double)x->d);
}

/* Scores as the forward op has them: scaled, capped, masked. */
static int32_t scores(attention_vjp *x) {
    int32_t s = along_heads(x, x->q, x->k);
    s = op2(x, MLSI_OP_MUL, s, mlsi_emit_float(&x->e, scale_of(x)));
    x->capped = -1;
    if (x->at->softcap != 0) {
        int32_t cap = mlsi_emit_float(&x->e, x->at->softcap);
        x->capped = mlsi_emit_1(&x->e, MLSI_OP_TANH, op2(x, MLSI_OP_DIV, s, cap));
        s = op2(x, MLSI_OP_MUL, cap, x->capped);
    }
    int32_t mask = x->v->n_in > 3 ? x->v->in[3] : -1;
    if (mask >= 0 && x->e.st == MLSYS_OK && mlsi_emit_type(&x->e, mask)->dtype != MLSYS_BOOL)
        s = op2(x, MLSI_OP_ADD, s, mlsi_emit_widen(&x->e, spread_mask(x, mask)));
    return s;
}

static int32_t kept_visible(attention_vjp *x, int32_t rows, double otherwise) {
    if (x->visible < 0) return rows;
    int32_t other = mlsi_emit_float(&x->e, otherwise);
    return mlsi_emit_select(&x->e, x->visible, rows, other);
}

/* p, from the log-sum-exp that the forward op gave or one computed here. */
static void probabilities(attention_vjp *x) {
    int32_t s = scores(x), lse;
    x->visible = visible_keys(x);
    s = kept_visible(x, s, -INFINITY);
    if (x->v->n_out > 1) {
        lse = per_row(x, x->v->out[1], false);
    } else {
        mlsi_attr_arg last = {.axis = 4, .keep = 1};
        lse = mlsi_emit_op(&x->e, MLSI_OP_LOGSUMEXP, &last, 1, &s);
    }
    int32_t low = mlsi_emit_float(&x->e, -INFINITY), zero = mlsi_emit_float(&x->e, 0);
    int32_t blind = op2(x, MLSI_OP_EQ, lse, low);
    int32_t safe = mlsi_emit_select(&x->e, blind, zero, lse);
    x->p = mlsi_emit_1(&x->e, MLSI_OP_EXP, op2(x, MLSI_OP_SUB, s, safe));
}

/* ds = p * (do . v - sum(do * o) + dlse) */
static void score_adjoint(attention_vjp *x) {
    const mlsi_vjp *v = x->v;
    int32_t sum = -1;
    if (v->dout[0] >= 0) {
        x->d_o = heads_apart(x, v->dout[0], x->dv);
        int32_t o = mlsi_emit_widen(&x->e, v->out[0]), d_o = mlsi_emit_widen(&x->e, v->dout[0]);
        int32_t delta =
            mlsi_emit_reduce(&x->e, MLSI_OP_REDUCE_SUM, op2(x, MLSI_OP_MUL, d_o, o), 3, 4);
        int32_t dp = along_heads(x, x->d_o, x->val);
        sum = op2(x, MLSI_OP_SUB, dp, per_row(x, delta, true));
    }
    if (v->n_out > 1 && v->dout[1] >= 0) {
        int32_t dlse = per_row(x, v->dout[1], false);
        sum = sum < 0 ? dlse : op2(x, MLSI_OP_ADD, sum, dlse);
    }
    x->ds = kept_visible(x, op2(x, MLSI_OP_MUL, x->p, sum), 0);
}

static void give_mask(attention_vjp *x) {
    static const int64_t perm[5] = {0, 1, 3, 2, 4};
    int64_t dims[4] = {x->b, x->h, x->lq, x->lk};
    mlsi_vjp *v = x->v;
    if (v->n_in < 4 || v->in[3] < 0 || !v->wanted[3] || x->e.st != MLSYS_OK) return;
    mlsys_dtype t = mlsi_emit_type(&x->e, v->in[3])->dtype;
    int32_t d = mlsi_emit_reshape(&x->e, permuted(x, x->ds, 5, perm), 4, dims);
    v->din[3] = mlsi_emit_cast(&x->e, mlsi_emit_unbroadcast(&x->e, d, v->in[3]), t);
}

static void give(attention_vjp *x, int i, int32_t adjoint) {
    if (x->e.st != MLSYS_OK) return;
    mlsi_type t = *mlsi_emit_type(&x->e, x->v->in[i]);
    adjoint = mlsi_emit_reshape(&x->e, adjoint, t.rank, t.dims);
    x->v->din[i] = mlsi_emit_cast(&x->e, adjoint, t.dtype);
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

mlsys_status mlsi_vjp_attention(mlsi_vjp *v) {
    attention_vjp x = begin(v);
    probabilities(&x);
    score_adjoint(&x);
    give_mask(&x);
    int32_t ds = x.ds;
    if (x.capped >= 0) {
        int32_t square = op2(&x, MLSI_OP_MUL, x.capped, x.capped), one = mlsi_emit_float(&x.e, 1);
        ds = op2(&x, MLSI_OP_MUL, ds, op2(&x, MLSI_OP_SUB, one, square));
    }
    ds = op2(&x, MLSI_OP_MUL, ds, mlsi_emit_float(&x.e, scale_of(&x)));
    if (v->wanted[0]) give(&x, 0, query_adjoint(&x, ds));
    if (v->wanted[1]) give(&x, 1, over_queries(&x, ds, x.q));
    if (v->wanted[2] && v->dout[0] >= 0) give(&x, 2, over_queries(&x, x.p, x.d_o));
    return x.e.st;
}
