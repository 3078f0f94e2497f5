/* What can be proved about index expressions of a nest: ranges, equality, multiples, strides, and which maps from
 * iterations to elements are one to one. Never yes wrongly; no may mean unknown. The method is that of mlsi_dim_prove
 * (ir/graph/dims_prove.c): variables are bounded by their extents, which may be symbolic. */
#ifndef MLSI_PROVE_H
#define MLSI_PROVE_H

#include "ir/loop/nest.h"

/* What holds at a place of a nest: conditions of the GUARDs and IFs around, and that the loops around have an
 * iteration. A stack: to leave a body, set n back. What does not fit is left out. */
typedef struct mlsi_facts {
    const mlsi_symtab *tab;
    int n;
    mlsi_dim_fact list[48];
} mlsi_facts;

/* lo <= index < hi holds. */
void mlsi_facts_range(mlsi_facts *f, int64_t lo, int64_t index, int64_t hi);
/* A loop with this extent is around. */
void mlsi_facts_loop(mlsi_facts *f, int64_t extent);

bool mlsi_prove_in_range(const mlsi_facts *f, int64_t lo, int64_t index, int64_t hi);
bool mlsi_prove_equal(const mlsi_facts *f, int64_t a, int64_t b);
/* a is a multiple of b > 0, whatever the symbols are: alignment of an address. */
bool mlsi_prove_multiple(const mlsi_symtab *t, int64_t a, int64_t b);

/* Does d name the symbol? */
bool mlsi_dim_names(const mlsi_symtab *t, int64_t d, int32_t symbol);

/* By how much an expression grows when a variable (a symbol of the table) grows by one. */
typedef enum mlsi_stride_kind {
    MLSI_STRIDE_NUMBER = 1, /* value; 0: it does not depend on the variable */
    MLSI_STRIDE_FIXED,      /* not a number, but the same along the loop */
    MLSI_STRIDE_UNKNOWN
} mlsi_stride_kind;

typedef struct mlsi_stride {
    mlsi_stride_kind kind;
    int64_t value;
} mlsi_stride;

mlsi_stride mlsi_index_stride(const mlsi_symtab *t, int64_t index, int32_t symbol);

/* ---- maps from iterations (prove_map.c) ---- */

/* A number as digits: base + weight[0] * v[0] + ... + weight[n - 1] * v[n - 1], where for all i what follows digit i is
 * in [0, weight[i]). So the number tells the digits. v is a variable, or (turned) what it lacks to its extent - 1. */
enum { MLSI_MAP_DIGITS = 16 };
typedef struct mlsi_digits {
    int n, n_turned;
    int32_t symbol[MLSI_MAP_DIGITS], turned[MLSI_MAP_DIGITS];
    mlsi_expr weight[MLSI_MAP_DIGITS], base;
} mlsi_digits;

/* inner: per symbol of the table, is it one of the variables whose digits are asked for? Others are constants. Ends
 * early, with *whole false, at a rest in which no digit can be found. */
void mlsi_find_digits(const mlsi_facts *f, const bool *inner, const mlsi_expr *number,
                      mlsi_digits *out, bool *whole);

/* A region of iterations: variables, and conditions lo <= index < hi on them. */
typedef struct mlsi_region {
    int n_vars, n_conditions;
    const int32_t *vars; /* of the nest */
    const int64_t (*conditions)[3];
} mlsi_region;

/* Do the iterations of the region give each tuple of the box [0, dims[0]) x ... exactly once? f: what holds around the
 * region. MLSYS_OK with the answer, or NOMEM. */
mlsys_status mlsi_prove_onto(const mlsi_nest *n, const mlsi_facts *f, const mlsi_region *r,
                             int rank, const int64_t *index, const int64_t *dims, bool *proved);

/* Row-major number of an element; false when it does not fit an expression. */
bool mlsi_linear_number(const mlsi_symtab *t, int rank, const int64_t *index, const int64_t *dims,
                        mlsi_expr *out);

/* ---- the whole nest (prove_nest.c, prove_hazard.c) ---- */

enum {
    MLSI_PROVE_BOUNDS = 1, /* every subscript in [0, extent), under the conditions around it */
    MLSI_PROVE_POSITIONS =
        2, /* reductions: positions are [0, count), each once; read behind the terms */
    MLSI_PROVE_OUTPUTS = 4, /* of each output, a store that writes every element exactly once */
    MLSI_PROVE_HAZARDS =
        8, /* iterations of parallel and vector loops touch nothing that another one writes */
    MLSI_PROVE_ALL = 15
};

/* Proves the parts asked for, of a nest that verifies. STATE names the statement and expression that it cannot show; that
 * may be because it is wrong or because the prover is too weak (positions, outputs: where the map is not affine). */
mlsys_status mlsi_nest_prove(const mlsi_nest *n, unsigned parts);
/* May buffer `output` lie in the memory of buffer `input`? Each element must be loaded, for the last time, before it is stored:
 * whatever runs at once, on CPUs. STATE where that cannot be shown. */
mlsys_status mlsi_prove_in_place(const mlsi_nest *n, int32_t input, int32_t output);

#endif
