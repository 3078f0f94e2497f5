/* Proof: certificates of what the compiler did, and a checker that believes none of them.
 *
 * A pass that rebuilds a function says for each value why the new one is equal; a nest says nothing and is
 * evaluated symbolically; a memory plan is replayed. The checker finds each claim again by rules of its own and
 * refuses with a sentence that names the certificate, the pair and the condition. It shares no code with the passes,
 * the lowering or the schedules: it includes core, ir/graph, the op table's header and the nest's.
 *
 * Trusted: the verifier of the tensor IR (types, attributes, definitions before uses); the op table (a composite is its
 * decomposition, a constant is what the reference gives); the normal form, the ranges and the prover of dims.h; the list of identities
 * in identities.c and of element maps in nest_function.c; hash-consing in tuples.c. Nothing of ir/passes, ir/loop's lowering,
 * run's plan or a backend is.
 *
 * What is claimed:
 *  - value: each new value that a pair names is, for all inputs and all sizes of the symbols, the old value bit for bit (NaN
 *    payloads apart), in the numerics mode of the certificate.
 *  - observability: inputs (number, order, name, type, donation) and outputs (number, order, name) are the same, and each output
 *    is the new value of the old output. So nothing that somebody else reads was dropped.
 *  Whether a rewrite makes the program faster, or two values that were kept apart by barriers stay apart in time, is not claimed. */
#ifndef MLSI_PROOF_H
#define MLSI_PROOF_H

#include "ir/loop/nest.h"

/* Why a new value is equal to an old one. */
typedef enum mlsi_reason {
    MLSI_BY_INPUT = 1,  /* the input of the same number */
    MLSI_BY_CONSTANT,   /* the same constant of the graph */
    MLSI_BY_SAME,       /* same op, attributes and result number; operands equal one by one */
    MLSI_BY_COPY,       /* the old value copies one whose new value this is */
    MLSI_BY_IDENTITY,   /* a listed identity of that name and its side conditions */
    MLSI_BY_FOLDED,     /* a constant: what the reference makes of the old node's constants */
    MLSI_BY_DECOMPOSED, /* the old op's decomposition over the new operands */
    MLSI_BY_INLINED,    /* the body of the function that the old node calls */
    MLSI_BY_GROUPED,    /* a call whose body over the arguments is the old nodes: fusion */
    MLSI_BY_MOVED       /* a loop that carries more: what its body computed anew in each turn */
} mlsi_reason;

typedef struct mlsi_proof_pair {
    int32_t before, after; /* value numbers */
    mlsi_reason by;
    const char *identity; /* BY_IDENTITY: its name, static */
} mlsi_proof_pair;

typedef struct mlsi_certificate {
    mlsi_alloc *alloc;
    const char *pass; /* static */
    mlsi_numerics numerics;
    int32_t func;           /* of the graph */
    mlsi_proof_pair *pairs; /* ascending by `before`; values that went have none */
    int64_t n_pairs, cap_pairs;
} mlsi_certificate;

/* What the driver knows and the certificate must say too. Both functions are in the graph. */
typedef struct mlsi_proof_claim {
    mlsi_graph *g; /* helper functions are added and removed again; dims are interned */
    int32_t before, after;
    int32_t func; /* the function that is rewritten */
    const char *pass;
    mlsi_numerics numerics;
} mlsi_proof_claim;

const char *mlsi_reason_name(mlsi_reason by);
/* INTERNAL with "certificate of PASS, function NAME: %3 -> %1 (identity mul_one): why" when it does not hold. */
mlsys_status mlsi_check_certificate(const mlsi_proof_claim *claim, const mlsi_certificate *c);
/* i-th listed identity, NULL past the end; the op that it is about, MLSI_OP_COUNT: any that goes element by element. */
const char *mlsi_identity_name(int i, mlsi_op *op);

/* ---- nests ---------------------------------------------------------------------------------------------- */

typedef enum mlsi_answer { MLSI_PROVED = 0, MLSI_NOT_COVERED, MLSI_REFUSED } mlsi_answer;

typedef struct mlsi_verdict {
    mlsi_answer answer;
    char why[160]; /* unless proved */
} mlsi_verdict;

/* Claims about a nest that lowers function func of g, for all sizes of the symbols:
 *  - value: each output element is the function's expression at its index: the same ops in the same order on the same elements, a
 *    reduction being (kind, dtype, count, term at position k), whatever the loops that give the terms;
 *  - index: every subscript is in range; each output element is stored once; a reduction's positions are each taken once;
 *  - hazard: no iteration of a loop that may run beside others writes what another one reads or writes.
 * Not covered, by name: ops with loops of their own, indices from data, shared memory and what goes with it.
 * The status is for running out of memory. */
mlsys_status mlsi_check_nest(mlsi_graph *g, int32_t func, mlsi_nest *n, mlsi_verdict *v);

/* in_place: per output of a nest that holds, inputs (bit i) whose memory it may take. Claim: whatever runs at once on CPUs, an
 * element of such an input is loaded for the last time before the output's element is stored. */
mlsys_status mlsi_check_in_place(mlsi_nest *n, const uint64_t *in_place, mlsi_verdict *v);

/* ---- memory plans ----------------------------------------------------------------------------------------- */

typedef enum mlsi_plan_kind {
    MLSI_PLAN_INPUT = 1, /* memory of input `index` */
    MLSI_PLAN_CONST,
    MLSI_PLAN_SCRATCH, /* offset in the arena */
    MLSI_PLAN_OUTPUT   /* memory of output `index` */
} mlsi_plan_kind;

typedef struct mlsi_plan_slot {
    mlsi_plan_kind kind;
    int32_t index;
    uint64_t offset, bytes;
} mlsi_plan_slot;

typedef struct mlsi_plan_step {
    int32_t node;
    uint32_t in_place;         /* what the kernel allows (core/backend.h) */
    const uint64_t *generated; /* what a generated kernel allows, per result; NULL: it is none */
    uint64_t work_offset, work_bytes;
} mlsi_plan_step;

/* Lifetimes are no part of it: they follow from the steps. Nodes without a step are views of their first operand. */
typedef struct mlsi_plan_claim {
    const mlsi_graph *g;
    int32_t func;
    int64_t n_steps, n_slots;
    const mlsi_plan_step *steps; /* in the order of nodes */
    const mlsi_plan_slot *slots;
    const int32_t *slot_of;     /* per value */
    const int32_t *alias_input; /* per output: the donated input whose memory it is, or -1 */
    uint64_t arena_bytes;
} mlsi_plan_claim;

/* Hazard: each value is still in its memory when a step, or the caller, reads it; a step's results and work memory are apart
 * from each other and from its operands, but for results in place as its kernel allows; only donated inputs are
 * written over. INTERNAL with the step and value otherwise. scratch: an entry per value and slot. */
mlsys_status mlsi_check_plan(const mlsi_plan_claim *claim, int32_t *scratch);

#endif
