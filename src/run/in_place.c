/* Which inputs of a generated kernel an output may be written over, by its loops. */
#include "run/program.h"

#include "ir/loop/prove.h"

static int32_t buffer_of(const mlsi_nest *n, mlsi_scope scope, int32_t param) {
    for (int32_t b = 0; b < n->n_buffers; b++)
        if (n->buffers[b].scope == scope && n->buffers[b].param == param && !n->buffers[b].bytes)
            return b;
    return -1;
}

static mlsys_status find(const mlsi_nest *n, uint64_t *in_place) {
    for (int32_t o = 0; o < n->n_outputs; o++)
        for (int32_t i = 0; i < n->n_inputs && i < 64; i++) {
            int32_t input = buffer_of(n, MLSI_SCOPE_INPUT, i);
            int32_t output = buffer_of(n, MLSI_SCOPE_OUTPUT, o);
            if (input < 0 || output < 0) continue;
            mlsys_status st = mlsi_prove_in_place(n, input, output);
            if (st == MLSYS_E_NOMEM) return st;
            if (st == MLSYS_OK) in_place[o] |= (uint64_t)1 << i;
        }
    return MLSYS_OK;
}

mlsys_status mlsi_find_in_place(const mlsi_program *p, mlsi_generated *k) {
    mlsi_verdict v = {MLSI_PROVED, ""};
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, k->nest.n_outputs + 1, &k->in_place));
    MLSI_TRY(find(&k->nest, k->in_place));
    if (p->prove) MLSI_TRY(mlsi_check_in_place(&k->nest, k->in_place, &v));
    return v.answer == MLSI_PROVED ? MLSYS_OK
                                   : mlsi_fail(MLSYS_E_INTERNAL, "compile: proof of %s", v.why);
}
