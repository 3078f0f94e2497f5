/* The identities that the checker knows, with their side conditions. All keep every bit in every numerics mode (NaN
 * payloads are outside the contract); x + (+0) = x is not among them: it turns -0 into +0. The caller has seen that the new
 * value's type is the old one's. */
#include "ir/proof/value.h"

#include <math.h>
#include <string.h>

typedef const char *(*identity_fn)(const mlsi_value_check *k, const mlsi_node *node, int32_t after);

/* Is the new value that of operand i? */
static bool is_operand(const mlsi_value_check *k, const mlsi_node *node, int i, int32_t after) {
    return i < node->n_in && node->in[i] >= 0 && k->image[node->in[i]] == after;
}

static const int64_t *operand_words(const mlsi_value_check *k, const mlsi_node *node, int i) {
    return mlsi_tuple_words(&k->t, k->before_id[node->in[i]]);
}

static bool is_node(const int64_t *words, mlsi_op op) {
    return words[MLSI_WORD_TAG] == MLSI_WORD_NODE && words[MLSI_WORD_OP] == (int64_t)op;
}

static const void *attrs_of(const int64_t *words) {
    return words + MLSI_WORD_OPERANDS + words[MLSI_WORD_INS];
}

/* ---- results that are an operand ---------------------------------------------------------------------- */

static const char *same_type(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    return is_operand(k, node, 0, after) ? NULL : "the new value is not that of operand 0";
}

static const char *slice_all(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    const mlsi_attr_slice *a = node->attrs;
    for (int64_t i = 0; i < a->steps.n; i++)
        if (a->steps.v[i] != 1) return "a step is not 1";
    return same_type(k, node, after);
}

static const char *reverse_none(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    const mlsi_attr_axes *a = node->attrs;
    return a->axes.n ? "an axis is reversed" : same_type(k, node, after);
}

static const char *pad_none(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    const mlsi_attr_pad *a = node->attrs;
    for (int64_t i = 0; i < a->low.n; i++)
        if (a->low.v[i] || a->high.v[i]) return "an axis is padded or cropped";
    return same_type(k, node, after);
}

static const char *concat_one(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    return node->n_in == 1 ? same_type(k, node, after) : "there is more than one operand";
}

/* ---- constants -------------------------------------------------------------------------------------------- */

/* Is every element of operand i the number? Seen through broadcasts and reshapes. */
static bool is_all(const mlsi_value_check *k, const mlsi_node *node, int i, double f, int64_t n) {
    const int64_t *w = operand_words(k, node, i);
    while (is_node(w, MLSI_OP_BROADCAST) || is_node(w, MLSI_OP_RESHAPE))
        w = mlsi_tuple_words(&k->t, (int32_t)w[MLSI_WORD_OPERANDS]);
    mlsys_dtype dtype = k->before.values[node->in[i]].type.dtype;
    double vf = 0;
    int64_t vn = 0;
    if (is_node(w, MLSI_OP_FULL)) {
        const mlsi_attr_full *a = attrs_of(w);
        vf = a->value, vn = a->ivalue;
    } else if (w[MLSI_WORD_TAG] == MLSI_WORD_CONST) {
        mlsi_view v = mlsi_tensor_view_of(k->g->consts[w[1]]);
        if (mlsi_view_count(&v) != 1 || mlsi_dtype_is_block(dtype)) return false;
        if (mlsi_dtype_is_float(dtype))
            vf = mlsi_ref_get_f(&v, 0);
        else
            vn = mlsi_ref_get_i(&v, 0);
    } else {
        return false;
    }
    return mlsi_dtype_is_float(dtype) ? vf == f && !signbit(vf) == !signbit(f) : vn == n;
}

static const char *mul_one(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    for (int i = 0; i < 2; i++)
        if (is_operand(k, node, 1 - i, after) && is_all(k, node, i, 1, 1)) return NULL;
    return "the other operand is not 1 everywhere";
}

static const char *div_one(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    return is_all(k, node, 1, 1, 1) ? same_type(k, node, after) : "the divisor is not 1 everywhere";
}

static const char *add_zero(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    for (int i = 0; i < 2; i++)
        if (is_operand(k, node, 1 - i, after) && is_all(k, node, i, -0.0, 0)) return NULL;
    return "the other operand is not -0 (integers: 0) everywhere";
}

static const char *sub_zero(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    return is_all(k, node, 1, 0, 0) ? same_type(k, node, after)
                                    : "what is subtracted is not +0 everywhere";
}

/* ---- two ops of one kind ------------------------------------------------------------------------------------ */

static const char *involution(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    const int64_t *w = operand_words(k, node, 0);
    if (!is_node(w, node->op)) return "the operand is not the same op";
    return w[MLSI_WORD_OPERANDS] == k->after_id[after] ? NULL
                                                       : "the new value is not what both undo";
}

static const char *reshape_of_reshape(const mlsi_value_check *k, const mlsi_node *node,
                                      int32_t after) {
    const int64_t *w = operand_words(k, node, 0);
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    if (!is_node(w, MLSI_OP_RESHAPE)) return "the operand is no reshape";
    if (is_operand(k, node, 0, after)) return "the new value is the inner reshape itself";
    if (!made || made->op != MLSI_OP_RESHAPE) return "the new value is no reshape";
    return w[MLSI_WORD_OPERANDS] == k->after_id[made->in[0]]
               ? NULL
               : "the new reshape does not read what the inner one reads";
}

/* The permutation of a transpose and what it reads, through a transpose below it. */
static int32_t composed(const mlsi_value_check *k, const mlsi_node *node, mlsi_list *perm) {
    const int64_t *w = operand_words(k, node, 0);
    *perm = ((const mlsi_attr_transpose *)node->attrs)->perm;
    if (!is_node(w, MLSI_OP_TRANSPOSE)) return k->before_id[node->in[0]];
    const mlsi_attr_transpose *inner = attrs_of(w);
    for (int64_t i = 0; i < perm->n; i++)
        perm->v[i] = inner->perm.v[perm->v[i]];
    return (int32_t)w[MLSI_WORD_OPERANDS];
}

static const char *transpose_none(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    mlsi_list perm;
    int32_t source = composed(k, node, &perm);
    for (int64_t i = 0; i < perm.n; i++)
        if (perm.v[i] != i) return "axes change places";
    return k->after_id[after] == source ? NULL : "the new value is not what is transposed";
}

static const char *transpose_of_transpose(const mlsi_value_check *k, const mlsi_node *node,
                                          int32_t after) {
    mlsi_list perm;
    int32_t source = composed(k, node, &perm);
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    if (source == k->before_id[node->in[0]]) return "the operand is no transpose";
    if (!made || made->op != MLSI_OP_TRANSPOSE) return "the new value is no transpose";
    if (memcmp(&perm, &((const mlsi_attr_transpose *)made->attrs)->perm, sizeof perm))
        return "the permutations do not compose";
    return k->after_id[made->in[0]] == source ? NULL
                                              : "the new transpose does not read the inner operand";
}

/* ---- transposes past other ops ---------------------------------------------------------------------------- */

/* An expression as a permutation of one that is no transpose; that one. */
static int32_t turned(const mlsi_value_check *k, int32_t id, int32_t rank, int64_t *perm) {
    const int64_t *w = mlsi_tuple_words(&k->t, id);
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    for (; is_node(w, MLSI_OP_TRANSPOSE); w = mlsi_tuple_words(&k->t, id)) {
        const mlsi_attr_transpose *a = attrs_of(w);
        for (int i = 0; i < rank; i++)
            perm[i] = a->perm.v[perm[i]];
        id = (int32_t)w[MLSI_WORD_OPERANDS];
    }
    return id;
}

/* Is the old operand the new one transposed by p? One of lower rank, or that broadcasts, must look the same either way. */
static const char *operand_turned(const mlsi_value_check *k, int32_t old, int32_t now,
                                  const mlsi_list *p) {
    int64_t before[MLSYS_MAX_DIMS], after[MLSYS_MAX_DIMS];
    const int32_t rank = k->before.values[old].type.rank, all = (int32_t)p->n;
    if (rank != k->after.values[now].type.rank) return "an operand has another rank";
    if (rank < all) {
        for (int i = all - rank; i < all; i++)
            if (p->v[i] != i) return "an operand of lower rank broadcasts along other axes";
        return k->before_id[old] == k->after_id[now] ? NULL : "an operand differs";
    }
    if (turned(k, k->before_id[old], rank, before) != turned(k, k->after_id[now], rank, after))
        return "an operand differs";
    for (int i = 0; i < rank; i++)
        if (before[i] != after[p->v[i]]) return "an operand is turned another way";
    return NULL;
}

/* Element by element, whatever the axes: no attribute is about them. */
static bool is_elementwise(const mlsi_op_def *def) {
    for (const mlsi_attr_desc *a = def->attrs; a && a->name; a++)
        if (a->kind == MLSI_ATTR_LIST || a->kind == MLSI_ATTR_DIMS) return false;
    return def->traits & MLSI_TRAIT_ELEMENTWISE || def->shares == MLSI_SHARES_ELEMENTS;
}

static const char *transpose_past_elements(const mlsi_value_check *k, const mlsi_node *node,
                                           int32_t after) {
    const mlsi_node *outer = mlsi_node_of(&k->after, after), *made;
    const mlsi_op_def *def = mlsi_op_get(node->op);
    if (!outer || outer->op != MLSI_OP_TRANSPOSE) return "the new value is no transpose";
    made = mlsi_node_of(&k->after, outer->in[0]);
    if (!is_elementwise(def) || node->n_out != 1) return "the op does not go element by element";
    if (!made || made->op != node->op || made->n_in != node->n_in) return "the ops differ";
    if (memcmp(made->attrs, node->attrs, def->attrs_size)) return "the attributes differ";
    for (int i = 0; i < node->n_in; i++) {
        const char *why = NULL;
        if ((node->in[i] < 0) != (made->in[i] < 0)) return "an operand differs";
        if (node->in[i] >= 0)
            why = operand_turned(k, node->in[i], made->in[i],
                                 &((const mlsi_attr_transpose *)outer->attrs)->perm);
        if (why) return why;
    }
    return NULL;
}

/* (a b)^T = b^T a^T: each sum has the same products in the same order. */
static const char *transpose_of_matmul(const mlsi_value_check *k, const mlsi_node *node,
                                       int32_t after) {
    const int64_t *w = operand_words(k, node, 0);
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    const mlsi_list *p = &((const mlsi_attr_transpose *)node->attrs)->perm;
    if (!is_node(w, MLSI_OP_MATMUL)) return "the operand is no product";
    if (!made || made->op != MLSI_OP_MATMUL) return "the new value is no product";
    for (int64_t i = 0; i < p->n; i++)
        if (p->v[i] != (i < p->n - 2 ? i : 2 * p->n - 3 - i)) return "other axes change places";
    const mlsi_type *a = &k->after.values[made->in[0]].type,
                    *b = &k->after.values[made->in[1]].type;
    if (a->rank < 2 || b->rank < 2 || a->dtype != b->dtype) return "a factor is no matrix";
    if (k->after_id[made->in[0]] != (int32_t)w[MLSI_WORD_OPERANDS + 1] ||
        k->after_id[made->in[1]] != (int32_t)w[MLSI_WORD_OPERANDS])
        return "the factors do not change places";
    const mlsi_attr_matmul *old = attrs_of(w), *now = made->attrs;
    return !now->transpose_a == !!old->transpose_b && !now->transpose_b == !!old->transpose_a
               ? NULL
               : "a factor is not transposed";
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* Whether the log-sum-exp is given out too makes no difference to result 0. */
static const char *attention_twin(const mlsi_value_check *k, const mlsi_node *node, int32_t after) {
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    mlsi_attr_attention a = *(const mlsi_attr_attention *)node->attrs;
    if (!made || made->op != MLSI_OP_ATTENTION || made->n_in != node->n_in ||
        made->first_out != after)
        return "the new value is no first result of attention";
    a.lse = 1;
    if (node->n_out != 1 || memcmp(&a, made->attrs, sizeof a))
        return "attributes other than lse differ";
    for (int i = 0; i < node->n_in; i++) {
        int32_t old = node->in[i] < 0 ? -1 : k->before_id[node->in[i]];
        int32_t now = made->in[i] < 0 ? -1 : k->after_id[made->in[i]];
        if (old != now) return "an operand differs";
    }
    return NULL;
}

static const mlsi_op any_op = MLSI_OP_COUNT;
static const struct {
    const char *name;
    mlsi_op op;
    identity_fn refuses;
} identities[] = {
    {"cast_same", MLSI_OP_CAST, same_type},
    {"broadcast_same", MLSI_OP_BROADCAST, same_type},
    {"reshape_same", MLSI_OP_RESHAPE, same_type},
    {"reshape_of_reshape", MLSI_OP_RESHAPE, reshape_of_reshape},
    {"slice_all", MLSI_OP_SLICE, slice_all},
    {"reverse_none", MLSI_OP_REVERSE, reverse_none},
    {"pad_none", MLSI_OP_PAD, pad_none},
    {"concat_one", MLSI_OP_CONCAT, concat_one},
    {"neg_neg", MLSI_OP_NEG, involution},
    {"not_not", MLSI_OP_NOT, involution},
    {"mul_one", MLSI_OP_MUL, mul_one},
    {"div_one", MLSI_OP_DIV, div_one},
    {"add_zero", MLSI_OP_ADD, add_zero},
    {"sub_zero", MLSI_OP_SUB, sub_zero},
    {"transpose_none", MLSI_OP_TRANSPOSE, transpose_none},
    {"transpose_of_transpose", MLSI_OP_TRANSPOSE, transpose_of_transpose},
    {"transpose_past_elements", MLSI_OP_COUNT, transpose_past_elements},
    {"transpose_of_matmul", MLSI_OP_TRANSPOSE, transpose_of_matmul},
    {"attention_twin", MLSI_OP_ATTENTION, attention_twin},
};
enum { N_IDENTITIES = (int)(sizeof identities / sizeof identities[0]) };

const char *mlsi_identity_name(int i, mlsi_op *op) {
    if (i < 0 || i >= N_IDENTITIES) return NULL;
    *op = identities[i].op;
    return identities[i].name;
}

const char *mlsi_identity_refuses(const mlsi_value_check *k, const char *name,
                                  const mlsi_node *node, int32_t after) {
    for (int i = 0; i < N_IDENTITIES; i++) {
        if (!name || strcmp(identities[i].name, name)) continue;
        if (identities[i].op != node->op && identities[i].op != any_op)
            return "the identity is about another op";
        return identities[i].refuses(k, node, after);
    }
    return "no such identity is listed";
}
