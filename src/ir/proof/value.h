/* The state of one certificate's check, between value.c and identities.c. */
#ifndef MLSI_PROOF_VALUE_H
#define MLSI_PROOF_VALUE_H

#include "ir/ops/op_def.h"
#include "ir/proof/proof.h"
#include "ir/proof/tuples.h"

/* Words of an expression. Of a node: tag, op, result, n_out, n_in, operands' ids (-1 = absent), attributes. */
enum { MLSI_WORD_INPUT = 1, MLSI_WORD_CONST, MLSI_WORD_NODE, MLSI_WORD_CARRIED };
enum {
    MLSI_WORD_TAG = 0,
    MLSI_WORD_OP,
    MLSI_WORD_RESULT,
    MLSI_WORD_OUTS,
    MLSI_WORD_INS,
    MLSI_WORD_OPERANDS
};

typedef struct mlsi_value_check {
    const mlsi_proof_claim *claim;
    mlsi_graph *g;
    mlsi_func before, after; /* by value: the array moves */
    mlsi_tuples t;
    int32_t *before_id, *after_id; /* per value: its expression, -1 = not known */
    int32_t *image;                /* per old value: the new value of its pair, -1 = none */
    bool *grouped;                 /* per new node: its result is claimed to be a group */
    bool has_groups;
    const char *why; /* of the refusal, static; NULL so far */
} mlsi_value_check;

/* NULL when the identity makes new value `after` of the old node, else what is missing. */
const char *mlsi_identity_refuses(const mlsi_value_check *k, const char *name,
                                  const mlsi_node *node, int32_t after);
/* Records the first refusal's reason; MLSYS_OK. */
mlsys_status mlsi_value_refuse(mlsi_value_check *k, const char *why);
/* Expressions of a function's outputs over those of its inputs; -1 where one is not known. */
mlsys_status mlsi_value_body(mlsi_value_check *k, int32_t func, const int32_t *args, int32_t *out);
/* Result `result` of the old loop is value `after`, of a loop that carries more (loops.c). */
mlsys_status mlsi_check_moved(mlsi_value_check *k, const mlsi_node *old, int result, int32_t after);
/* The node that defines a value, or NULL. */
static inline const mlsi_node *mlsi_node_of(const mlsi_func *f, int32_t value) {
    const mlsi_value_def *def = &f->values[value];
    return def->kind == MLSI_VALUE_NODE ? &f->nodes[def->index] : NULL;
}

#endif
