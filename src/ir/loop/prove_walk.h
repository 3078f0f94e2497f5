/* Walking a nest with what is known at each place; between the files that prove things of whole nests. */
#ifndef MLSI_LOOP_PROVE_WALK_H
#define MLSI_LOOP_PROVE_WALK_H

#include "ir/loop/prove.h"

enum { MLSI_WALK_DEPTH = 64 };

/* The place of a statement or of an expression in it. */
typedef struct mlsi_walk_place {
    const mlsi_nest *n;
    int32_t stmt;
    int depth;                       /* statements around */
    int32_t around[MLSI_WALK_DEPTH]; /* FORs and IFs, outermost first */
    mlsi_facts facts;                /* of loops, IFs, and GUARDs in the expression */
} mlsi_walk_place;

typedef struct mlsi_walk {
    /* Each may be NULL. An access: of the statement itself (STORE, COPY; write) or of a LOAD. */
    mlsys_status (*stmt)(void *user, const mlsi_walk_place *p, const mlsi_ls *s);
    mlsys_status (*access)(void *user, const mlsi_walk_place *p, int32_t buffer,
                           const int64_t *index, bool write);
    mlsys_status (*value)(void *user, const mlsi_walk_place *p, const mlsi_lx *x);
    void *user;
} mlsi_walk;

/* All statements in the order of the text, of each first itself, then its expressions, then its body. An expression that is
 * met again under conditions under which it has been met already is not met again. */
mlsys_status mlsi_nest_walk(const mlsi_nest *n, const mlsi_walk *w);

/* STATE: what cannot be shown, of the statement. */
mlsys_status mlsi_unproved(const mlsi_walk_place *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

mlsys_status mlsi_prove_positions(const mlsi_nest *n);
mlsys_status mlsi_prove_outputs(const mlsi_nest *n);
mlsys_status mlsi_prove_hazards(const mlsi_nest *n);

#endif
