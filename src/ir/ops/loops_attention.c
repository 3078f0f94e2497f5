/* Loops of attention: per query an online softmax over segments of 64 keys, in the order of docs/numerics.md. A score of
 * -inf is the mark of an invisible key, and a maximum of -inf that of no visible key so far. */
#include "ir/ops/loops_attention.h"
#include "ir/ops/loops.h"

#include "core/faults.h"

#include <math.h>
#include <string.h>

enum { SEGMENT = 64 };
static const int64_t scalar[1] = {0}; /* dims and index of memory of rank 0 */

/* ---- a query -------------------------------------------------------------------------------------------- */

int32_t mlsi_loops_real(const mlsi_loops_query *q, double value) {
    return mlsi_nest_float(q->n, q->dtype, value);
}

int32_t mlsi_loops_arith(const mlsi_loops_query *q, mlsi_op op, int32_t a, int32_t b) {
    return mlsi_nest_op(q->n, op, q->dtype, a, b, -1);
}

mlsi_loops_query mlsi_loops_query_of(mlsi_lower *l) {
    const mlsi_type *x = mlsi_lower_in(l, 0), *k = mlsi_lower_in(l, 1);
    mlsi_loops_query q = {.l = l, .n = l->n, .at = l->attrs};
    q.dtype = x->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32;
    q.queries = x->dims[1];
    q.heads = x->dims[2];
    q.depth = x->dims[3];
    q.keys = k->dims[1];
    q.kv_heads = k->dims[2];
    q.group = q.kv_heads ? q.heads / q.kv_heads : 1; /* no heads at all */
    q.width = mlsi_lower_in(l, 2)->dims[3];
    return q;
}

static int32_t operand4(const mlsi_loops_query *q, int operand, int64_t i0, int64_t i1, int64_t i2,
                        int64_t i3) {
    const int64_t index[4] = {i0, i1, i2, i3};
    return mlsi_nest_cast(q->n, mlsi_lower_operand(q->l, operand, index), q->dtype);
}

int32_t mlsi_loops_query_value(const mlsi_loops_query *q, int operand, int64_t d) {
    return operand4(q, operand, q->b, q->i, q->h, d);
}

int32_t mlsi_loops_key_value(const mlsi_loops_query *q, int operand, int64_t d) {
    return operand4(q, operand, q->b, q->key, q->kv_head, d);
}

int32_t mlsi_loops_score(const mlsi_loops_query *q, int32_t *tanh_of) {
    mlsi_nest *n = q->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, q->dtype, q->depth);
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->depth);
    int32_t x = mlsi_loops_query_value(q, 0, d), y = mlsi_loops_key_value(q, 1, d);
    mlsi_nest_add(n, acc, d, x, y);
    mlsi_nest_end(n);
    int32_t s = mlsi_nest_acc_value(n, acc);
    s = mlsi_loops_arith(q, MLSI_OP_MUL, s, mlsi_loops_real(q, q->at->scale));
    *tanh_of = -1;
    if ((q->dtype == MLSYS_F64 ? q->at->softcap : (double)(float)q->at->softcap) > 0) {
        int32_t cap = mlsi_loops_real(q, q->at->softcap);
        *tanh_of = mlsi_nest_op(n, MLSI_OP_TANH, q->dtype, mlsi_loops_arith(q, MLSI_OP_DIV, s, cap),
                                -1, -1);
        *tanh_of = mlsi_nest_let(n, "tanh", *tanh_of);
        s = mlsi_loops_arith(q, MLSI_OP_MUL, cap, *tanh_of);
    }
    if (mlsi_lower_has(q->l, MLSI_ATTENTION_MASK) &&
        mlsi_lower_in(q->l, MLSI_ATTENTION_MASK)->dtype != MLSYS_BOOL) {
        int32_t mask = mlsi_loops_mask(q);
        s = mlsi_loops_arith(q, MLSI_OP_ADD, s, mlsi_nest_cast(n, mask, q->dtype));
    }
    return mlsi_nest_let(n, "score", s);
}

int32_t mlsi_loops_mask(const mlsi_loops_query *q) {
    const int64_t index[4] = {q->b, q->h, q->i, q->key};
    return mlsi_lower_broadcast(q->l, MLSI_ATTENTION_MASK, 4, index);
}

/* ---- attention ------------------------------------------------------------------------------------------ */

/* Valid keys of a batch, checked. */
static int64_t valid_keys(const mlsi_loops_query *q, int64_t b) {
    if (!mlsi_lower_has(q->l, MLSI_ATTENTION_KV_LEN)) return q->keys;
    return mlsi_nest_bind_at(q->n, "n", mlsi_lower_operand(q->l, MLSI_ATTENTION_KV_LEN, &b), b,
                             mlsi_nest_index(q->n, '+', q->keys, 1), false, "attention: kv_len");
}

/* Opens conditions under which the query sees the key; how many. */
static int if_visible(const mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    const mlsi_attr_attention *at = q->at;
    int64_t p = q->i;
    int opened = 2;
    mlsi_nest_if_range(n, 0, q->key, q->keys);
    mlsi_nest_if_range(n, 0, q->key, q->valid);
    if (at->causal == MLSI_CAUSAL_BOTTOM_RIGHT)
        p = mlsi_nest_index(n, '+', p, mlsi_nest_index(n, '-', q->valid, q->queries));
    if (at->causal != MLSI_CAUSAL_NONE) {
        mlsi_nest_if_range(n, 0, q->key, mlsi_nest_index(n, '+', p, 1));
        opened++;
    }
    if (at->window > 0) {
        int64_t oldest =
            mlsi_nest_index(n, '-', p, at->window - !mlsi_fault(MLSI_FAULT_LOOPS_WINDOW));
        mlsi_nest_if_range(n, oldest, q->key, q->keys);
        opened++;
    }
    if (mlsi_lower_has(q->l, MLSI_ATTENTION_MASK) &&
        mlsi_lower_in(q->l, MLSI_ATTENTION_MASK)->dtype == MLSYS_BOOL) {
        mlsi_nest_if(n, mlsi_loops_mask(q));
        opened++;
    }
    return opened;
}

/* Scores of a segment's slots, -inf where invisible; the result is their maximum. */
static int32_t segment_scores(mlsi_loops_query *q, int64_t first, int32_t scores) {
    mlsi_nest *n = q->n;
    int32_t tanh_of;
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", SEGMENT);
    mlsi_nest_store(n, scores, &j, mlsi_loops_real(q, -INFINITY));
    q->key = mlsi_nest_index(n, '+', first, j);
    int opened = if_visible(q);
    mlsi_nest_store(n, scores, &j, mlsi_loops_score(q, &tanh_of));
    for (int i = 0; i <= opened; i++)
        mlsi_nest_end(n);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_MAX, q->dtype, SEGMENT);
    j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", SEGMENT);
    mlsi_nest_add(n, acc, j, mlsi_nest_load(n, scores, &j), -1);
    mlsi_nest_end(n);
    return mlsi_nest_let(n, "m", mlsi_nest_acc_value(n, acc));
}

static int32_t is_low(const mlsi_loops_query *q, int32_t x) {
    return mlsi_nest_op(q->n, MLSI_OP_EQ, 0, x, mlsi_loops_real(q, -INFINITY), -1);
}

static int32_t select3(const mlsi_loops_query *q, int32_t cond, int32_t a, int32_t b) {
    return mlsi_nest_op(q->n, MLSI_OP_SELECT, q->dtype, cond, a, b);
}

static int32_t exp_of_difference(const mlsi_loops_query *q, int32_t x, int32_t m) {
    return mlsi_nest_op(q->n, MLSI_OP_EXP, q->dtype, mlsi_loops_arith(q, MLSI_OP_SUB, x, m), -1,
                        -1);
}

/* e_j = exp(s_j - m), +0 where invisible; their sum. */
static int32_t segment_weights(const mlsi_loops_query *q, int32_t scores, int32_t weights,
                               int32_t m) {
    mlsi_nest *n = q->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, q->dtype, SEGMENT);
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", SEGMENT);
    int32_t s = mlsi_nest_let(n, "s", mlsi_nest_load(n, scores, &j));
    int32_t e = exp_of_difference(q, s, m);
    e = mlsi_nest_let(n, "e", select3(q, is_low(q, s), mlsi_loops_real(q, 0), e));
    mlsi_nest_store(n, weights, &j, e);
    mlsi_nest_add(n, acc, j, e, -1);
    mlsi_nest_end(n);
    return mlsi_nest_let(n, "l", mlsi_nest_acc_value(n, acc));
}

/* sum(e_j * v_j[d]), one chain. What is skipped there takes part as 0 * -0, which changes no sum, not even one of -0. */
static int32_t segment_output(mlsi_loops_query *q, int64_t first, int64_t d, int32_t scores,
                              int32_t weights) {
    mlsi_nest *n = q->n;
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_DOT, q->dtype, SEGMENT);
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", SEGMENT);
    int32_t e = mlsi_nest_load(n, weights, &j), nothing;
    nothing = mlsi_loops_real(q, mlsi_fault(MLSI_FAULT_LOOPS_HIDDEN_KEY) ? 0.0 : -0.0);
    q->key = mlsi_nest_index(n, '+', first, j);
    mlsi_lower_lazy(q->l, 1);
    int32_t v = mlsi_nest_guard(n, 0, q->key, q->keys, mlsi_loops_key_value(q, 2, d), nothing);
    mlsi_lower_lazy(q->l, -1);
    v = select3(q, is_low(q, mlsi_nest_load(n, scores, &j)), nothing, v);
    mlsi_nest_add(n, acc, j, e, v);
    mlsi_nest_end(n);
    return mlsi_nest_acc_value(n, acc);
}

/* What is known of the keys so far: m, l, o; scalars and a row of LOCAL memory. */
typedef struct summary {
    int32_t m, l, o;
} summary;

static summary begin_summary(const mlsi_loops_query *q) {
    mlsi_nest *n = q->n;
    summary s = {mlsi_nest_local(n, "m", q->dtype, 0, scalar),
                 mlsi_nest_local(n, "l", q->dtype, 0, scalar),
                 mlsi_nest_local(n, "o", q->dtype, 1, &q->width)};
    mlsi_nest_store(n, s.m, scalar, mlsi_loops_real(q, -INFINITY));
    mlsi_nest_store(n, s.l, scalar, mlsi_loops_real(q, 0));
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->width);
    mlsi_nest_store(n, s.o, &d, mlsi_loops_real(q, 0));
    mlsi_nest_end(n);
    return s;
}

/* fma(old, a, new * b), or new where there is nothing old. */
static int32_t merged(const mlsi_loops_query *q, int32_t none, int32_t old, int32_t a, int32_t new,
                      int32_t b) {
    int32_t part = mlsi_loops_arith(q, MLSI_OP_MUL, new, b);
    return select3(q, none, new, mlsi_nest_op(q->n, MLSI_OP_FMA, q->dtype, old, a, part));
}

static void add_segment(mlsi_loops_query *q, summary *s, int64_t first) {
    mlsi_nest *n = q->n;
    const int64_t slots = SEGMENT;
    int32_t scores = mlsi_nest_local(n, "s", q->dtype, 1, &slots);
    int32_t weights = mlsi_nest_local(n, "e", q->dtype, 1, &slots);
    int32_t m = segment_scores(q, first, scores);
    mlsi_nest_if(n, mlsi_nest_op(n, MLSI_OP_NE, 0, m, mlsi_loops_real(q, -INFINITY), -1));
    int32_t sum = segment_weights(q, scores, weights, m);
    int32_t old = mlsi_nest_let(n, "before", mlsi_nest_load(n, s->m, scalar));
    int32_t none = mlsi_nest_let(n, "none", is_low(q, old));
    int32_t top = select3(q, none, m, mlsi_loops_arith(q, MLSI_OP_MAX, old, m));
    top = mlsi_nest_let(n, "top", top);
    int32_t a = mlsi_nest_let(n, "a", exp_of_difference(q, old, top));
    int32_t b = mlsi_nest_let(n, "b", exp_of_difference(q, m, top));
    if (mlsi_fault(MLSI_FAULT_LOOPS_RESCALE)) a = mlsi_loops_real(q, 1);
    mlsi_nest_store(n, s->m, scalar, top);
    mlsi_nest_store(n, s->l, scalar, merged(q, none, mlsi_nest_load(n, s->l, scalar), a, sum, b));
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->width);
    int32_t part = mlsi_nest_let(n, "part", segment_output(q, first, d, scores, weights));
    mlsi_nest_store(n, s->o, &d, merged(q, none, mlsi_nest_load(n, s->o, &d), a, part, b));
    mlsi_nest_end(n);
    mlsi_nest_end(n);
}

/* o / l and m + log(l); 0 and -inf for a query that saw no key. */
static void give_results(const mlsi_loops_query *q, const summary *s) {
    mlsi_nest *n = q->n;
    int32_t m = mlsi_nest_let(n, "m", mlsi_nest_load(n, s->m, scalar));
    int32_t l = mlsi_nest_let(n, "l", mlsi_nest_load(n, s->l, scalar));
    int32_t none = mlsi_nest_let(n, "none", is_low(q, m));
    if (q->l->node->n_out > 1) {
        const int64_t at[3] = {q->b, q->h, q->i};
        int32_t log = mlsi_nest_op(n, MLSI_OP_LOG, q->dtype, l, -1, -1);
        mlsi_lower_result(q->l, 1, at,
                          select3(q, none, m, mlsi_loops_arith(q, MLSI_OP_ADD, m, log)));
    }
    int64_t d = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "d", q->width);
    const int64_t at[4] = {q->b, q->i, q->h, d};
    int32_t o = mlsi_loops_arith(q, MLSI_OP_DIV, mlsi_nest_load(n, s->o, &d), l);
    mlsi_lower_result(q->l, 0, at, select3(q, none, mlsi_loops_real(q, 0), o));
    mlsi_nest_end(n);
}

mlsys_status mlsi_loops_attention(mlsi_lower *l) {
    mlsi_nest *n = l->n;
    mlsi_loops_query q = mlsi_loops_query_of(l);
    int64_t batch = mlsi_lower_in(l, 0)->dims[0];
    if (mlsi_lower_has(l,
                       MLSI_ATTENTION_KV_LEN)) { /* each is checked, also when there is no query */
        int64_t b = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "b", batch);
        (void)valid_keys(&q, b);
        mlsi_nest_end(n);
    }
    q.b = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "b", batch);
    q.valid = valid_keys(&q, q.b);
    q.i = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", q.queries);
    q.h = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "h", q.heads);
    q.kv_head = mlsi_nest_index(n, '/', q.h, q.group);
    summary s = begin_summary(&q);
    int64_t rounded = mlsi_nest_index(n, '+', q.keys, SEGMENT - 1);
    int64_t segments = mlsi_nest_index(n, '/', rounded, SEGMENT);
    int64_t segment = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "segment", segments);
    add_segment(&q, &s, mlsi_nest_index(n, '*', segment, SEGMENT));
    mlsi_nest_end(n);
    give_results(&q, &s);
    for (int i = 0; i < 3; i++)
        mlsi_nest_end(n);
    return n->status;
}
