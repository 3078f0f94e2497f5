/* Calls of tests/op_cases.h as loops: what is lowered, and runs of it beside the reference interpreter. */
#ifndef MLSI_TESTS_LOOP_CALL_H
#define MLSI_TESTS_LOOP_CALL_H

#include "ir/loop/lower.h"
#include "ir/passes/passes.h"
#include "support/loop_case.h"
#include "support/op_case.h"

enum { LC_SYMBOLS = 64 };

/* One call, as a graph and as loops. */
typedef struct lc_call {
    mlsi_graph g, loops; /* the call; what was lowered */
    loop_case c;
    mlsys_status st; /* of lowering */
    bool built, symbolic;
    char text[560];
} lc_call;

enum { LC_FIXED, LC_ONE_SYMBOL, LC_SYMBOLIC, LC_MODES };

/* built = false where symbolic types are refused as not provable. Free with lc_free and free. */
lc_call *lc_lower(mlsi_ctx *ctx, const op_variant *v, int mode);
void lc_free(lc_call *w);

/* Runs under a few extents of the symbols, on fresh inputs: bits, or the failure, are the reference interpreter's; nothing
 * around results and no input is written. */
void lc_compare(const lc_call *w, const op_variant *v, kc_rng *r, loop_part_fn run, void *user);

#endif
