/* A table with shape symbols and variables of symbolic extents, and all values they can have. */
#ifndef MLSI_TESTS_VARIABLE_TABLE_H
#define MLSI_TESTS_VARIABLE_TABLE_H

#include "ir/graph/dims.h"
#include "support/require.h"

#include <string.h>

/* N, P, Z, K are shape symbols; the others variables. */
enum { S_N, S_P, S_Z, S_K, V_I, V_J, V_Z, V_T, V_F, V_U, N_VARIABLE_SYMBOLS };

static mlsi_symtab tab;
static int64_t codes[N_VARIABLE_SYMBOLS];

static inline int64_t dim(const char *text) {
    const char *p = text;
    int64_t d = 0;
    if (mlsi_dim_parse(&tab, &p, &d) != MLSYS_OK || *p)
        ck_abort_msg("%s: %s", text, mlsys_last_error());
    return d;
}

static inline const char *text(int64_t d) {
    static char buf[4][512];
    static int at;
    at = (at + 1) % 4;
    return mlsi_dim_text(&tab, d, buf[at], sizeof buf[at]);
}

static inline void variable(int at, const char *name, const char *extent) {
    REQUIRE(mlsi_dim_variable(&tab, name, dim(extent), &codes[at]) == MLSYS_OK);
    REQUIRE(tab.n_symbols == at + 1);
}

static inline void setup(void) {
    mlsi_symtab_init(&tab, &mlsi_alloc_process);
    REQUIRE(mlsi_dim_symbol(&tab, "N", 1, 4, 1, &codes[S_N]) == MLSYS_OK);
    REQUIRE(mlsi_dim_symbol(&tab, "P", 1, 3, 1, &codes[S_P]) == MLSYS_OK);
    REQUIRE(mlsi_dim_symbol(&tab, "Z", 0, 2, 1, &codes[S_Z]) == MLSYS_OK);
    REQUIRE(mlsi_dim_symbol(&tab, "K", 2, 6, 2, &codes[S_K]) == MLSYS_OK);
    variable(V_I, "i", "N");
    variable(V_J, "j", "P");
    variable(V_Z, "z", "Z");
    variable(V_T, "t", "i+1"); /* a triangle */
    variable(V_F, "f", "N*P");
    variable(V_U, "u", "4");
}

static inline void teardown(void) { mlsi_symtab_free(&tab); }

/* ---- all values of the symbols that some dims name ------------------------------------------------------- */

typedef struct domain {
    bool named[N_VARIABLE_SYMBOLS];
    int64_t value[N_VARIABLE_SYMBOLS], last[N_VARIABLE_SYMBOLS];
    bool started;
} domain;

static inline void domain_name(domain *d, int64_t code) {
    if (!mlsi_dim_is_code(&tab, code)) return;
    mlsi_expr e = mlsi_expr_of(&tab, code);
    for (int i = 0; i < e.n; i++)
        for (int j = 0; j < e.terms[i].n; j++) {
            const mlsi_atom *a = &tab.atoms[e.terms[i].atoms[j]];
            if (a->op) {
                domain_name(d, a->a);
                domain_name(d, a->b);
            } else if (!d->named[a->symbol]) {
                d->named[a->symbol] = true;
                domain_name(d, tab.symbols[a->symbol].extent);
            }
        }
}

/* First values of the symbols s.. for those before; a variable that has none, or -1. */
static inline int domain_fill(domain *d, int s) {
    for (; s < N_VARIABLE_SYMBOLS; s++) {
        const mlsi_symbol *symbol = &tab.symbols[s];
        d->value[s] = (symbol->min + symbol->divisor - 1) / symbol->divisor * symbol->divisor;
        d->last[s] = d->named[s] ? symbol->max / symbol->divisor * symbol->divisor : d->value[s];
        if (!symbol->extent || !d->named[s]) continue;
        REQUIRE(mlsi_dim_eval(&tab, symbol->extent, d->value, &d->last[s]) == MLSYS_OK);
        if (--d->last[s] < 0) return s;
    }
    return -1;
}

/* The next point; false behind the last one. */
static inline bool domain_next(domain *d) {
    int s = N_VARIABLE_SYMBOLS - 1;
    if (!d->started) {
        d->started = true;
        s = domain_fill(d, 0);
        if (s < 0) return true;
    }
    for (;;) { /* the last symbol up to s that has another value */
        while (s >= 0 && d->value[s] + tab.symbols[s].divisor > d->last[s])
            s--;
        if (s < 0) return false;
        d->value[s] += tab.symbols[s].divisor;
        s = domain_fill(d, s + 1);
        if (s < 0) return true;
    }
}

static inline int64_t at(const domain *d, int64_t code) {
    int64_t v = 0;
    if (mlsi_dim_eval(&tab, code, d->value, &v) != MLSYS_OK)
        ck_abort_msg("%s: %s", text(code), mlsys_last_error());
    return v;
}

#endif
