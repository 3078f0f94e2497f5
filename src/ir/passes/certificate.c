/* Certificates as data: what a rewrite records and people read. The checker of them is ir/proof. */
#include "ir/passes/passes.h"

void mlsi_certificate_init(mlsi_certificate *c, mlsi_alloc *a, const char *pass, mlsi_numerics m,
                           int32_t func) {
    *c = (mlsi_certificate){.alloc = a, .pass = pass, .numerics = m, .func = func};
}

mlsys_status mlsi_certificate_add(mlsi_certificate *c, int32_t before, int32_t after,
                                  mlsi_reason by, const char *identity) {
    MLSI_TRY(MLSI_GROW(c->alloc, &c->pairs, &c->cap_pairs, c->n_pairs + 1));
    c->pairs[c->n_pairs++] = (mlsi_proof_pair){before, after, by, identity};
    return MLSYS_OK;
}

void mlsi_certificate_free(mlsi_certificate *c) {
    mlsi_mem_free(c->alloc, c->pairs);
    c->pairs = NULL;
    c->n_pairs = c->cap_pairs = 0;
}

void mlsi_certificate_print(const mlsi_certificate *c, mlsi_text *out) {
    mlsi_text_add(out, "certificate of %s, function %d, %lld values\n", c->pass, c->func,
                  (long long)c->n_pairs);
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const mlsi_proof_pair *p = &c->pairs[i];
        mlsi_text_add(out, "  %%%d -> %%%d %s%s%s\n", p->before, p->after, mlsi_reason_name(p->by),
                      p->identity ? " " : "", p->identity ? p->identity : "");
    }
}
