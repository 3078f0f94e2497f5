/* What a candidate must prove before it runs: everything that the default schedule proves. The provers know less than is
 * true, so a part that they cannot show of the default either is no condition; that no two threads meet always is one. */
#include "run/tune.h"

#include "core/faults.h"
#include "ir/loop/prove.h"

enum { PARTS = 4 };

static mlsys_status ask_checker(mlsi_tune_bench *b, mlsi_nest *n, mlsi_verdict *v) {
    MLSI_TRY(mlsi_check_nest(&b->graph, b->func, n, v));
    return v->answer == MLSI_REFUSED
               ? mlsi_fail(MLSYS_E_INTERNAL, "tune: the checker refuses %s", v->why)
               : MLSYS_OK;
}

mlsys_status mlsi_tune_prove_default(mlsi_tune_bench *b, mlsi_nest *n) {
    mlsi_verdict v;
    b->proofs = MLSI_PROVE_HAZARDS;
    MLSI_TRY(mlsi_nest_verify(n));
    for (int i = 0; i < PARTS; i++) {
        mlsys_status st = mlsi_nest_prove(n, 1u << i);
        if (st == MLSYS_E_NOMEM) return st;
        if (st == MLSYS_OK) b->proofs |= 1u << i;
    }
    MLSI_TRY(ask_checker(b, n, &v));
    b->certified = v.answer == MLSI_PROVED;
    return MLSYS_OK;
}

mlsys_status mlsi_tune_prove(mlsi_tune_bench *b, mlsi_nest *n) {
    mlsi_verdict v;
    if (mlsi_fault(MLSI_FAULT_TUNE_PROOF)) return MLSYS_OK;
    MLSI_TRY(mlsi_nest_verify(n));
    MLSI_TRY(mlsi_nest_prove(n, b->proofs));
    MLSI_TRY(ask_checker(b, n, &v));
    if (b->certified && v.answer != MLSI_PROVED)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "the checker cannot follow it: %s", v.why);
    return MLSYS_OK;
}
