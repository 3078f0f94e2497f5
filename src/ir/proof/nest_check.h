/* The state of one nest's check, between nest.c, nest_function.c, nest_index.c and nest_place.c. Expressions are tuples on which both sides
 * agree; index expressions are codes of the nest's table. */
#ifndef MLSI_PROOF_NEST_CHECK_H
#define MLSI_PROOF_NEST_CHECK_H

#include "ir/ops/op_def.h"
#include "ir/proof/proof.h"
#include "ir/proof/tuples.h"

typedef enum mlsi_nx_tag {
    MLSI_NX_LOAD = 1, /* dtype, input, subscripts */
    MLSI_NX_CONST,    /* dtype, bits */
    MLSI_NX_INDEX,    /* i64, index */
    MLSI_NX_OP,       /* dtype, op, arguments */
    MLSI_NX_REDUCE, /* dtype, kind, count, term, second term, first; mlsi_nx_position is the position */
    MLSI_NX_GUARD, /* dtype, lo, index, hi, then, else */
    MLSI_NX_ENV,   /* values of variables */
    MLSI_NX_KNOWN, /* lo, index, hi of a GUARD around, the one around that */
    MLSI_NX_MEMO   /* what has been computed: stands for its answer */
} mlsi_nx_tag;

/* Values of the nest's variables, in the order of its table; KEEP: the variable itself. */
enum { MLSI_NX_VARS = 64, MLSI_NX_DEEPEST = 400 /* of the stack */ };
#define MLSI_NX_KEEP INT64_MIN
typedef struct mlsi_nx_env {
    int64_t of[MLSI_NX_VARS];
} mlsi_nx_env;

static inline mlsi_nx_env mlsi_nx_keep_all(void) {
    mlsi_nx_env env;
    for (int i = 0; i < MLSI_NX_VARS; i++)
        env.of[i] = MLSI_NX_KEEP;
    return env;
}

/* A function whose elements are read: the one that is lowered, or the decomposition of a composite of a frame before. */
typedef struct mlsi_nest_frame {
    mlsi_func f;      /* by value: the array moves */
    mlsi_type *types; /* per value, with dims of the nest's table */
    int32_t parent;
    const mlsi_node *node;
} mlsi_nest_frame;

typedef struct mlsi_nest_check {
    mlsi_graph *g;
    mlsi_nest own, *n; /* n = &own: the checker's copy */
    mlsi_tuples t;
    int32_t *answer; /* per tuple: of a MEMO, plus 1 */
    int64_t cap_answer;
    int32_t *parent; /* per statement, -1 = none */
    int32_t *order;  /* per statement: its place in the text */
    bool joins;      /* reductions of results of reductions are read as one */
    int32_t *met;    /* per expression: the last context that its loads were looked at in */
    int32_t contexts;
    int32_t *var_of; /* per symbol of the nest */
    int64_t n_symbols;
    mlsi_nest_frame *frames;
    int64_t n_frames, cap_frames;
    int32_t deep;
    mlsys_status st; /* the first failure */
    mlsi_verdict *v; /* the first reason */
} mlsi_nest_check;

/* Sticky: the first counts. what: an op's or a buffer's name, "" = none. */
void mlsi_nx_refuse(mlsi_nest_check *k, const char *why, const char *what);
void mlsi_nx_uncovered(mlsi_nest_check *k, const char *why, const char *what);
static inline bool mlsi_nx_stop(const mlsi_nest_check *k) {
    return k->st != MLSYS_OK || k->v->answer != MLSI_PROVED;
}

/* Variables of the symbols; parents and places of the statements (nest.c). */
mlsys_status mlsi_nx_variables(mlsi_nest_check *k);
mlsys_status mlsi_nx_places(mlsi_nest_check *k);

/* ---- expressions (nest_function.c); -1 after a stop ---- */

int32_t mlsi_nx(mlsi_nest_check *k, const int64_t *words, int n);
int32_t mlsi_nx_op(mlsi_nest_check *k, mlsi_op op, mlsys_dtype dtype, int n, const int32_t *args);
int32_t mlsi_nx_index(mlsi_nest_check *k, int64_t index);
int32_t mlsi_nx_guard(mlsi_nest_check *k, const int64_t range[3], int32_t then, int32_t other);
int32_t mlsi_nx_reduce(mlsi_nest_check *k, mlsi_acc_kind kind, mlsys_dtype dtype, int64_t count,
                       int32_t term, int32_t second, int32_t init);
/* The memo of words; *found = its answer or -1. */
int32_t mlsi_nx_memo(mlsi_nest_check *k, const int64_t *words, int n, int32_t *found);
void mlsi_nx_answer(mlsi_nest_check *k, int32_t memo, int32_t x);
/* node: the composite of frame parent that func decomposes, NULL for the function that is lowered. */
mlsys_status mlsi_nest_frame_add(mlsi_nest_check *k, int32_t func, int32_t parent,
                                 const mlsi_node *node);
/* An element of a value of a frame; depth: reductions around it. */
int32_t mlsi_nest_element(mlsi_nest_check *k, int32_t frame, int32_t value, const int64_t *index,
                          int depth);

/* ---- index expressions (nest_index.c) ---- */

/* What does not fit is left out: fewer facts prove less. */
enum { MLSI_NX_FACTS = 60 };
typedef struct mlsi_nx_facts {
    int n;
    mlsi_dim_fact list[MLSI_NX_FACTS];
} mlsi_nx_facts;
int64_t mlsi_nx_ix(mlsi_nest_check *k, int op, int64_t a, int64_t b);
int64_t mlsi_nx_subst(mlsi_nest_check *k, int64_t code, const mlsi_nx_env *env);
/* Without the quotients that are 0 where the facts hold. */
int64_t mlsi_nx_simpler(mlsi_nest_check *k, int64_t code, const mlsi_nx_facts *f);
/* The position in a reduction of count terms, under `depth` others. */
int64_t mlsi_nx_position(mlsi_nest_check *k, int depth, int64_t count);
/* Any index along an axis of an output. */
int64_t mlsi_nx_element(mlsi_nest_check *k, int axis, int64_t extent);
/* number / below mod extent; extent 0 = no mod. */
int64_t mlsi_nx_digit(mlsi_nest_check *k, int64_t number, int64_t below, int64_t extent);

/* ---- the nest (nest_copy.c) ---- */

/* k->n becomes a copy of n; close it also after a failure. */
mlsys_status mlsi_nx_open(mlsi_nest_check *k, const mlsi_nest *n);
void mlsi_nx_close(mlsi_nest_check *k);
mlsys_status mlsi_nx_take_apart(mlsi_nest_check *k);

/* ---- places and maps (nest_map.c) ---- */

/* The one statement of a kind about ref; -1 and a reason when there is none or more. */
int32_t mlsi_nx_only(mlsi_nest_check *k, mlsi_ls_kind kind, int32_t ref, const char *what);
bool mlsi_nx_encloses(const mlsi_nest_check *k, int32_t outer, int32_t s);
/* Does s stand before `at`, in a body that is open there? */
bool mlsi_nx_in_scope(const mlsi_nest_check *k, int32_t s, int32_t at);
bool mlsi_nx_never_runs(const mlsi_nest_check *k, int32_t s);

/* lo <= x < hi holds. */
void mlsi_nx_know(mlsi_nx_facts *f, int64_t lo, int64_t x, int64_t hi);
/* All that is known where statement `at` runs, with variables as env says. */
void mlsi_nx_facts_at(mlsi_nest_check *k, int32_t at, const mlsi_nx_env *env, mlsi_nx_facts *f);
bool mlsi_nx_within(mlsi_nest_check *k, const mlsi_nx_facts *f, int64_t lo, int64_t x, int64_t hi);

/* Subscripts, and an element of the box [0, extent[0]) x ... as expressions. */
typedef struct mlsi_nx_box {
    int rank;
    const int64_t *code, *extent, *element;
} mlsi_nx_box;
/* Does statement s, over the loops below the body of `since` (-1: the root's), name the element exactly once, where the facts
 * hold, and nothing outside of the box ever? Variables become those of the element's iteration. */
bool mlsi_nx_maps_onto(mlsi_nest_check *k, int32_t since, int32_t s, const mlsi_nx_box *b,
                       const mlsi_nx_facts *f, mlsi_nx_env *env);

#endif
