/* What the loops of attention and of its backward op share: a query, a key, and their score. */
#ifndef MLSI_LOOPS_ATTENTION_H
#define MLSI_LOOPS_ATTENTION_H

#include "ir/ops/op_def.h"

enum { MLSI_ATTENTION_MASK = 3, MLSI_ATTENTION_KV_LEN = 4 }; /* operands */

typedef struct mlsi_loops_query {
    mlsi_lower *l;
    mlsi_nest *n;
    const mlsi_attr_attention *at;
    mlsys_dtype dtype; /* of the scores and sums */
    int64_t queries, keys, heads, kv_heads, group, depth,
        width;                /* Lq, Lk, H, Hkv, H / Hkv, D, Dv */
    int64_t b, i, h, kv_head; /* of the query: index expressions */
    int64_t key;              /* whose score is looked at */
    int64_t valid;            /* keys, where kv_len was bound */
} mlsi_loops_query;

mlsi_loops_query mlsi_loops_query_of(mlsi_lower *l);
/* A number, an operation in the dtype of the scores. */
int32_t mlsi_loops_real(const mlsi_loops_query *q, double value);
int32_t mlsi_loops_arith(const mlsi_loops_query *q, mlsi_op op, int32_t a, int32_t b);
/* Element d of the query's row, [b, i, h, d], or of the key's, [b, key, kv_head, d], of an operand; widened. */
int32_t mlsi_loops_query_value(const mlsi_loops_query *q, int operand, int64_t d);
int32_t mlsi_loops_key_value(const mlsi_loops_query *q, int operand, int64_t d);
/* The mask's element, in its dtype. */
int32_t mlsi_loops_mask(const mlsi_loops_query *q);
/* Scaled, capped, masked; *tanh_of: the tanh of a capped one, -1 without a cap. */
int32_t mlsi_loops_score(const mlsi_loops_query *q, int32_t *tanh_of);

#endif
