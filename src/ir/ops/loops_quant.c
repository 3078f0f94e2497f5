/* Loops of what reads block dtypes: an element from the bytes of its block, by the formulas of docs/numerics.md
 * ("dequantize"), and the products with them. */
#include "ir/ops/loops.h"
#include "ir/ops/loops_quant.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <stddef.h>
#include <string.h>

/* ---- a block ---------------------------------------------------------------------------------------------- */

typedef mlsi_loops_block block;

static int64_t add(const block *b, int64_t x, int64_t y) {
    return mlsi_nest_index(b->n, '+', x, y);
}
static int64_t times(const block *b, int64_t x, int64_t y) {
    return mlsi_nest_index(b->n, '*', x, y);
}
static int64_t over(const block *b, int64_t x, int64_t y) {
    return mlsi_nest_index(b->n, '/', x, y);
}
static int64_t rest(const block *b, int64_t x, int64_t y) {
    return mlsi_nest_index(b->n, '%', x, y);
}

static int32_t integer(const block *b, int64_t value) {
    return mlsi_nest_int(b->n, MLSYS_I32, value);
}

static int32_t int_op(const block *b, mlsi_op op, int32_t x, int32_t y) {
    return mlsi_nest_op(b->n, op, MLSYS_I32, x, y, -1);
}

/* A byte of the block, as a number of 0..255. */
static int32_t byte(const block *b, int64_t number) {
    int64_t index[MLSYS_MAX_DIMS];
    memcpy(index, b->at, sizeof index);
    index[b->rank] = number;
    return mlsi_nest_cast(b->n, mlsi_nest_load(b->n, b->bytes, index), MLSYS_I32);
}

/* The same as -128..127. */
static int32_t signed_byte(const block *b, int64_t number) {
    return mlsi_nest_cast(b->n, mlsi_nest_cast(b->n, byte(b, number), MLSYS_I8), MLSYS_I32);
}

/* x >> shift & mask; shift is an index expression. */
static int32_t bits(const block *b, int32_t x, int64_t shift, int mask) {
    int32_t by = mlsi_nest_cast(b->n, mlsi_nest_index_value(b->n, shift), MLSYS_I32);
    if (shift) x = int_op(b, MLSI_OP_SHIFT_RIGHT, x, by);
    return int_op(b, MLSI_OP_AND, x, integer(b, mask));
}

static int32_t or_shifted(const block *b, int32_t low, int32_t high, int shift) {
    return int_op(b, MLSI_OP_OR, low, int_op(b, MLSI_OP_SHIFT_LEFT, high, integer(b, shift)));
}

/* The f16 at a byte, widened. */
static int32_t half_float(const block *b, int64_t number) {
    int32_t word = or_shifted(b, byte(b, number), byte(b, number + 1), 8);
    word = mlsi_nest_cast(b->n, word, MLSYS_I16);
    return mlsi_nest_cast(b->n, mlsi_nest_op(b->n, MLSI_OP_BITCAST, MLSYS_F16, word, -1, -1),
                          MLSYS_F32);
}

/* ---- codes: zero point taken off ------------------------------------------------------------------------------ */

/* Formats of 32: byte i of q has element i in its low half, i + 16 in its high half. */
static int32_t nibble(const block *b, int64_t q) {
    int64_t shift = times(b, over(b, b->e, 16), 4);
    return bits(b, byte(b, add(b, q, rest(b, b->e, 16))), shift, 15);
}

/* Bit e of the word at h is bit 4 of element e. */
static int32_t with_fifth_bit(const block *b, int32_t low, int64_t h) {
    int32_t high = bits(b, byte(b, add(b, h, over(b, b->e, 8))), rest(b, b->e, 8), 1);
    return or_shifted(b, low, high, 4);
}

/* q4_k, q5_k: groups 2p and 2p + 1 of 32 share 32 bytes, low halves first. */
static int32_t k_nibble(const block *b, int64_t q) {
    int64_t at = add(b, times(b, over(b, b->e, 64), 32), rest(b, b->e, 32));
    return bits(b, byte(b, add(b, q, at)), times(b, rest(b, over(b, b->e, 32), 2), 4), 15);
}

/* Halves of 128, each of four quarters: quarters 0 and 1 are low nibbles, 2 and 3 high ones of the same 64 bytes; bits 4
 * and 5 of quarter r are bits 2r and 2r + 1 of 32 more. */
static int32_t q6_code(const block *b) {
    int64_t half = over(b, b->e, 128), in_half = rest(b, b->e, 128);
    int64_t low_at = add(b, times(b, half, 64), rest(b, b->e, 64));
    int64_t high_at = add(b, times(b, half, 32), rest(b, b->e, 32));
    int32_t low = byte(b, add(b, offsetof(mlsi_q6_k, ql), low_at));
    int32_t high = byte(b, add(b, offsetof(mlsi_q6_k, qh), high_at));
    low = bits(b, low, times(b, over(b, in_half, 64), 4), 15);
    high = bits(b, high, times(b, over(b, in_half, 32), 2), 3);
    return int_op(b, MLSI_OP_SUB, or_shifted(b, low, high, 4), integer(b, 32));
}

int32_t mlsi_loops_block_code(const block *b) {
    switch (b->dtype) {
    case MLSYS_Q4_0:
        return int_op(b, MLSI_OP_SUB, nibble(b, offsetof(mlsi_q4_0, q)), integer(b, 8));
    case MLSYS_Q4_1: return nibble(b, offsetof(mlsi_q4_1, q));
    case MLSYS_Q5_0: {
        int32_t q = with_fifth_bit(b, nibble(b, offsetof(mlsi_q5_0, q)), offsetof(mlsi_q5_0, h));
        return int_op(b, MLSI_OP_SUB, q, integer(b, 16));
    }
    case MLSYS_Q5_1:
        return with_fifth_bit(b, nibble(b, offsetof(mlsi_q5_1, q)), offsetof(mlsi_q5_1, h));
    case MLSYS_Q8_0: return signed_byte(b, add(b, offsetof(mlsi_q8_0, q), b->e));
    case MLSYS_Q4_K: return k_nibble(b, offsetof(mlsi_q4_k, q));
    case MLSYS_Q5_K: { /* bit 4 of element i of group j is bit j of h[i] */
        int32_t h = byte(b, add(b, offsetof(mlsi_q5_k, h), rest(b, b->e, 32)));
        return or_shifted(b, k_nibble(b, offsetof(mlsi_q5_k, q)), bits(b, h, over(b, b->e, 32), 1),
                          4);
    }
    default: return q6_code(b);
    }
}

/* ---- scales ------------------------------------------------------------------------------------------------- */

static bool is_k(mlsys_dtype t) { return t == MLSYS_Q4_K || t == MLSYS_Q5_K; }
bool mlsi_loops_block_has_minimum(mlsys_dtype t) {
    return t == MLSYS_Q4_1 || t == MLSYS_Q5_1 || is_k(t);
}

int32_t mlsi_loops_block_scale(const block *b) {
    return half_float(b, b->dtype == MLSYS_Q6_K ? (int64_t)offsetof(mlsi_q6_k, d) : 0);
}

int32_t mlsi_loops_block_minimum(const block *b) {
    int32_t m = half_float(b, 2);
    return is_k(b->dtype) ? mlsi_nest_op(b->n, MLSI_OP_NEG, MLSYS_F32, m, -1, -1) : m;
}

/* Six bits of the element's group j in q4_k and q5_k: of its scale (first = 0) or its minimum (4). Groups 0..3: low bits of byte
 * first + j. Groups 4..7: a half of byte j + 4 and the top bits of byte first + j - 4. */
static int32_t group_bits(const block *b, int first) {
    int64_t scales = offsetof(mlsi_q4_k, scales), j = over(b, b->e, 32);
    int32_t low = bits(b, byte(b, add(b, scales + first, j)), 0, 63);
    int32_t half = bits(b, byte(b, add(b, scales + 4, j)), first, 15);
    int64_t top_at = mlsi_nest_index(b->n, '-', add(b, scales + first, j), 4);
    if (mlsi_fault(MLSI_FAULT_LOOPS_GROUP_BITS)) top_at = add(b, scales, j);
    int32_t top = bits(b, byte(b, top_at), 6, 3);
    return mlsi_nest_guard(b->n, 4, j, 8, or_shifted(b, half, top, 4), low);
}

int32_t mlsi_loops_block_factor(const block *b) {
    if (is_k(b->dtype)) return group_bits(b, 0);
    if (b->dtype != MLSYS_Q6_K) return -1;
    return signed_byte(b, add(b, offsetof(mlsi_q6_k, scales), over(b, b->e, 16)));
}

int32_t mlsi_loops_block_min_factor(const block *b) {
    return is_k(b->dtype) ? group_bits(b, 4) : -1;
}

/* ---- an element ------------------------------------------------------------------------------------------------ */

block mlsi_loops_block_of(mlsi_lower *l, int i, const int64_t *index) {
    const mlsi_type *t = mlsi_lower_in(l, i);
    int64_t elems = mlsi_dtype_get(t->dtype)->block_elems;
    block b = {.n = l->n, .dtype = t->dtype, .rank = t->rank, .bytes = mlsi_lower_bytes(l, i)};
    memcpy(b.at, index, sizeof b.at[0] * (size_t)t->rank);
    b.at[t->rank - 1] = over(&b, index[t->rank - 1], elems);
    b.e = rest(&b, index[t->rank - 1], elems);
    return b;
}

static int32_t real_op(const block *b, mlsi_op op, int32_t x, int32_t y) {
    return mlsi_nest_op(b->n, op, MLSYS_F32, mlsi_nest_cast(b->n, x, MLSYS_F32),
                        mlsi_nest_cast(b->n, y, MLSYS_F32), -1);
}

int32_t mlsi_loops_block_element(mlsi_lower *l, int i, const int64_t *index) {
    block b = mlsi_loops_block_of(l, i, index);
    int32_t d = mlsi_loops_block_scale(&b), factor = mlsi_loops_block_factor(&b);
    if (factor >= 0) d = real_op(&b, MLSI_OP_MUL, d, factor);
    int32_t x = real_op(&b, MLSI_OP_MUL, d, mlsi_loops_block_code(&b));
    if (!mlsi_loops_block_has_minimum(b.dtype)) return x;
    int32_t m = mlsi_loops_block_minimum(&b), min_factor = mlsi_loops_block_min_factor(&b);
    if (min_factor >= 0) m = real_op(&b, MLSI_OP_MUL, m, min_factor); /* x - y is x + -y */
    return real_op(&b, MLSI_OP_ADD, x, m);
}

int32_t mlsi_loops_dequantize(mlsi_lower *l, int result, const int64_t *index) {
    int32_t x = mlsi_loops_block_element(l, 0, index);
    return mlsi_nest_cast(l->n, x, mlsi_lower_out(l, result)->dtype);
}

/* ---- quant_matmul, act = f32: products along K with dequantised weights ----------------------------------------- */

bool mlsi_loops_quant_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_attr_quant_matmul *a = l->attrs;
    *r = (mlsi_reduction){.kind = MLSI_ACC_DOT,
                          .dtype = MLSYS_F32,
                          .rank = 1,
                          .extents = {mlsi_lower_in(l, 1)->dims[1]}};
    return a->act == MLSI_ACT_F32;
}

void mlsi_loops_quant_term(mlsi_lower *l, const int64_t *index, const int64_t *k,
                           int32_t value[2]) {
    int64_t x[MLSYS_MAX_DIMS];
    int last = mlsi_lower_in(l, 0)->rank - 1;
    const int64_t w[2] = {index[last], k[0]};
    memcpy(x, index, sizeof x[0] * (size_t)last);
    x[last] = k[0];
    value[0] = mlsi_lower_operand(l, 0, x);
    value[1] = mlsi_loops_block_element(l, 1, w);
}
