/* Loops of attention_grad, which hold no matrix of scores: per query a row of ds makes dq, then per key a column of ds
 * and of p makes dk and dv. The scores are computed in both. The formula and its order: docs/numerics.md. */
#include "ir/ops/loops.h"
#include "ir/ops/loops_attention.h"

#include "core/faults.h"

#include <math.h>

enum { O = 5, LSE, DO, DLSE }; /* operands */

/* ---- a pair of query and key ------------------------------------------------------------------------------ */

static int32_t both(mlsi_nest *n, int32_t a, int32_t b) {
    return a < 0 ? b : mlsi_nest_op(n, MLSI_OP_AND, 0, a, b, -1);
}

/* Valid keys, any number: it is compared, never an index. */
static int32_t valid_keys(const mlsi_loops_query *q) {
    if (!mlsi_lower_has(q->l, MLSI_ATTENTION_KV_LEN)) return mlsi_nest_index_value(q->n, q->keys);
    return mlsi_nest_cast(q->n, mlsi_lower_operand(q->l, MLSI_ATTENTION_KV_LEN, &q->b), MLSYS_I64);
}

static int32_t is_valid(const mlsi_loops_query *q) {
    int32_t j = mlsi_nest_index_value(q->n, q->key);
    return mlsi_nest_op(q->n, MLSI_OP_LT, 0, j, valid_keys(q), -1);
}

/* bool; -1: always. */
static int32_t is_visible(const mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    const mlsi_attr_attention *at = q->at;
    int32_t j = mlsi_nest_index_value(n, q->key), p = mlsi_nest_index_value(n, q->i);
    int32_t seen = mlsi_lower_has(q->l, MLSI_ATTENTION_KV_LEN) ? is_valid(q) : -1;
    if (at->causal == MLSI_CAUSAL_BOTTOM_RIGHT) {
        int32_t queries = mlsi_nest_index_value(n, q->queries);
        int32_t ahead = mlsi_nest_op(n, MLSI_OP_SUB, 0, valid_keys(q), queries, -1);
        p = mlsi_nest_op(n, MLSI_OP_ADD, 0, p, ahead, -1);
    }
    if (at->causal != MLSI_CAUSAL_NONE)
        seen = both(n, seen, mlsi_nest_op(n, MLSI_OP_LE, 0, j, p, -1));
    if (at->window > 0) {
        int32_t window = mlsi_nest_int(n, MLSYS_I64, at->window);
        int32_t oldest = mlsi_nest_op(n, MLSI_OP_SUB, 0, p, window, -1);
        seen = both(n, seen, mlsi_nest_op(n, MLSI_OP_GT, 0, j, oldest, -1));
    }
    bool mask = mlsi_lower_has(q->l, MLSI_ATTENTION_MASK);
    if (mask && mlsi_lower_in(q->l, MLSI_ATTENTION_MASK)->dtype == MLSYS_BOOL)
        seen = both(n, seen, mlsi_loops_mask(q));
    return seen;
}

/* delta = sum(do * o) of the query. */
static int32_t delta_of(const mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, q->dtype, q->width);
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->width);
    int32_t x = mlsi_loops_query_value(q, DO, d), y = mlsi_loops_query_value(q, O, d);
    mlsi_nest_add(n, acc, d, mlsi_loops_arith(q, MLSI_OP_MUL, x, y), -1);
    mlsi_nest_end(n);
    return mlsi_nest_let(n, "delta", mlsi_nest_acc_value(n, acc));
}

/* dp = do . v. */
static int32_t output_product(const mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, q->dtype, q->width);
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->width);
    int32_t x = mlsi_loops_query_value(q, DO, d), y = mlsi_loops_key_value(q, 2, d);
    mlsi_nest_add(n, acc, d, x, y);
    mlsi_nest_end(n);
    return mlsi_nest_acc_value(n, acc);
}

/* A value per query of operand i, [B, H, Lq]. */
static int32_t per_query(const mlsi_loops_query *q, int i) {
    const int64_t index[3] = {q->b, q->h, q->i};
    return mlsi_lower_operand(q->l, i, index);
}

/* Stores p (unless that memory is -1) and ds of the pair, 0 where the key is invisible. */
static void store_pair(const mlsi_loops_query *q, int32_t delta, int64_t at, int32_t p_row,
                       int32_t ds_row) {
    mlsi_nest *n = q->n;
    int32_t zero = mlsi_loops_real(q, 0), r, seen = is_visible(q);
    if (p_row >= 0) mlsi_nest_store(n, p_row, &at, zero);
    mlsi_nest_store(n, ds_row, &at, zero);
    if (seen >= 0) mlsi_nest_if(n, seen);
    int32_t s = mlsi_loops_score(q, &r), lse = per_query(q, LSE);
    int32_t blind = mlsi_nest_op(n, MLSI_OP_EQ, 0, lse, mlsi_loops_real(q, -INFINITY), -1);
    lse = mlsi_nest_op(n, MLSI_OP_SELECT, 0, blind, zero, lse);
    int32_t p = mlsi_loops_arith(q, MLSI_OP_SUB, s, lse);
    p = mlsi_nest_let(n, "p", mlsi_nest_op(n, MLSI_OP_EXP, q->dtype, p, -1, -1));
    int32_t t = mlsi_loops_arith(q, MLSI_OP_SUB, output_product(q), delta);
    if (mlsi_lower_has(q->l, DLSE)) t = mlsi_loops_arith(q, MLSI_OP_ADD, t, per_query(q, DLSE));
    int32_t ds = mlsi_loops_arith(q, MLSI_OP_MUL, p, t);
    if (r >= 0) {
        int32_t square = mlsi_loops_arith(q, MLSI_OP_MUL, r, r);
        int32_t slope = mlsi_loops_arith(q, MLSI_OP_SUB, mlsi_loops_real(q, 1), square);
        ds = mlsi_loops_arith(q, MLSI_OP_MUL, ds, slope);
    }
    if (p_row >= 0) mlsi_nest_store(n, p_row, &at, p);
    ds = mlsi_loops_arith(q, MLSI_OP_MUL, ds, mlsi_loops_real(q, q->at->scale));
    mlsi_nest_store(n, ds_row, &at, ds);
    if (seen >= 0) mlsi_nest_end(n);
}

/* ---- results ------------------------------------------------------------------------------------------------ */

/* x + 0: a zero is +0. */
static void give(const mlsi_loops_query *q, int result, const int64_t *index, int32_t acc) {
    int32_t x = mlsi_nest_acc_value(q->n, acc);
    mlsi_lower_result(q->l, result, index,
                      mlsi_loops_arith(q, MLSI_OP_ADD, x, mlsi_loops_real(q, 0)));
}

/* dq of one query from its row of ds; keys behind kv_len count as zeros. */
static void query_adjoint(mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    int32_t ds = mlsi_nest_local(n, "ds", q->dtype, 1, &q->keys), delta = delta_of(q);
    q->key = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", q->keys);
    store_pair(q, delta, q->key, -1, ds);
    mlsi_nest_end(n);
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->depth);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, q->dtype, q->keys);
    q->key = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", q->keys);
    int32_t k = mlsi_loops_key_value(q, 1, d);
    bool zeros = !mlsi_fault(MLSI_FAULT_LOOPS_BEHIND_KV_LEN);
    if (mlsi_lower_has(q->l, MLSI_ATTENTION_KV_LEN) && zeros)
        k = mlsi_nest_op(n, MLSI_OP_SELECT, q->dtype, is_valid(q), k, mlsi_loops_real(q, 0));
    mlsi_nest_add(n, acc, q->key, mlsi_nest_load(n, ds, &q->key), k);
    mlsi_nest_end(n);
    const int64_t index[4] = {q->b, q->i, q->h, d};
    give(q, 0, index, acc);
    mlsi_nest_end(n);
}

/* Opens the loops over the queries that read the key's head; the number of the row. */
static int64_t open_rows(mlsi_loops_query *q) {
    q->i = mlsi_nest_for(q->n, MLSI_LOOP_SERIAL, "i", q->queries);
    int64_t g = mlsi_nest_for(q->n, MLSI_LOOP_SERIAL, "g", q->group);
    q->h = mlsi_nest_index(q->n, '*', q->kv_head, q->group);
    q->h = mlsi_nest_index(q->n, '+', q->h, g);
    return mlsi_nest_index(q->n, '+', mlsi_nest_index(q->n, '*', q->i, q->group), g);
}

static void end_rows(const mlsi_loops_query *q) {
    mlsi_nest_end(q->n);
    mlsi_nest_end(q->n);
}

/* dk or dv of one key: its column times rows of an operand. */
static void key_adjoint(mlsi_loops_query *q, int result, int64_t width, int32_t column,
                        int operand) {
    mlsi_nest *n = q->n;
    int64_t rows = mlsi_nest_index(n, '*', q->queries, q->group);
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", width);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, q->dtype, rows);
    int64_t row = open_rows(q);
    int32_t x = mlsi_nest_load(n, column, &row), y = mlsi_loops_query_value(q, operand, d);
    mlsi_nest_add(n, acc, row, x, y);
    end_rows(q);
    const int64_t index[4] = {q->b, q->key, q->kv_head, d};
    give(q, result, index, acc);
    mlsi_nest_end(n);
}

static void key_adjoints(mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    int64_t rows = mlsi_nest_index(n, '*', q->queries, q->group);
    int32_t ds = mlsi_nest_local(n, "ds", q->dtype, 1, &rows);
    int32_t p = mlsi_nest_local(n, "p", q->dtype, 1, &rows);
    int64_t row = open_rows(q);
    store_pair(q, delta_of(q), row, p, ds);
    end_rows(q);
    key_adjoint(q, 1, q->depth, ds, 0);
    key_adjoint(q, 2, q->width, p, DO);
}

mlsys_status mlsi_loops_attention_grad(mlsi_lower *l) {
    mlsi_nest *n = l->n;
    mlsi_loops_query q = mlsi_loops_query_of(l);
    int64_t batch = mlsi_lower_in(l, 0)->dims[0];
    q.b = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "b", batch);
    q.i = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", q.queries);
    q.h = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "h", q.heads);
    q.kv_head = mlsi_nest_index(n, '/', q.h, q.group);
    query_adjoint(&q);
    for (int i = 0; i < 3; i++)
        mlsi_nest_end(n);
    q.b = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "b", batch);
    q.key = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", q.keys);
    q.kv_head = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "h", q.kv_heads);
    key_adjoints(&q);
    for (int i = 0; i < 3; i++)
        mlsi_nest_end(n);
    return n->status;
}
