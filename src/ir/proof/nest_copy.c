/* The nest as the checker reads it: a copy, in which loops are taken apart again where quotients of their variables are
 * read. A loop of a * c turns over v is a loop of a turns over q with one of c turns over r inside, in the same order, where
 * v = q * c + r: then v / c is q, and subscripts are sums. */
#include "ir/proof/nest_check.h"

#include <stdio.h>
#include <string.h>

enum { MORE = MLSI_NX_VARS }; /* loops and variables that may come */

static mlsys_status copy_of(mlsi_alloc *a, const void *from, int64_t n, size_t size, int64_t more,
                            void **to) {
    MLSI_TRY(mlsi_mem_zalloc(a, (uint64_t)(n + more + 1), size, to));
    if (n) memcpy(*to, from, size * (size_t)n);
    return MLSYS_OK;
}

#define COPY(k, from, what, n_what, more)                                                          \
    copy_of((from)->alloc, (from)->what, (from)->n_what, sizeof *(from)->what, more,               \
            (void **)&(k)->own.what)

/* Names and lets stay the nest's. */
mlsys_status mlsi_nx_open(mlsi_nest_check *k, const mlsi_nest *n) {
    k->own = *n;
    k->own.buffers = NULL, k->own.vars = NULL, k->own.accs = NULL;
    k->own.exprs = NULL, k->own.stmts = NULL;
    mlsi_symtab_init(&k->own.tab, n->alloc);
    MLSI_TRY(mlsi_symtab_copy(&k->own.tab, &n->tab));
    MLSI_TRY(COPY(k, n, buffers, n_buffers, 0));
    MLSI_TRY(COPY(k, n, vars, n_vars, MORE));
    MLSI_TRY(COPY(k, n, accs, n_accs, 0));
    MLSI_TRY(COPY(k, n, exprs, n_exprs, 0));
    MLSI_TRY(COPY(k, n, stmts, n_stmts, MORE));
    k->n = &k->own;
    return MLSYS_OK;
}

void mlsi_nx_close(mlsi_nest_check *k) {
    void *owned[] = {k->own.buffers, k->own.vars, k->own.accs, k->own.exprs, k->own.stmts};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(k->own.alloc, owned[i]);
    mlsi_symtab_free(&k->own.tab);
}

/* ---- loops taken apart ------------------------------------------------------------------------------------------------ */

/* c of a quotient v / c in the table, of which the loop has a whole number; 0 = none. turns = extent / c. */
static int64_t divisor_of(mlsi_nest_check *k, const mlsi_loop_var *v, int64_t *turns) {
    const mlsi_symtab *t = &k->n->tab;
    for (int64_t i = 0; v->symbol >= 0 && i < t->n_atoms; i++) {
        const mlsi_atom a = t->atoms[i];
        int64_t lo, hi;
        bool exact = false;
        if (!a.op || a.a != v->code) continue;
        mlsi_dim_range(t, a.b, &lo, &hi);
        mlsys_status st =
            lo < 1 ? MLSYS_OK : mlsi_dim_divide_exact(&k->n->tab, v->extent, a.b, turns, &exact);
        if (st != MLSYS_OK) k->st = st == MLSYS_E_NOMEM ? st : k->st;
        if (exact && *turns != 1 && a.b != 1) return a.b;
    }
    return 0;
}

static mlsys_status add_var(mlsi_nest_check *k, int number, int64_t extent, int32_t *var) {
    char name[40];
    int64_t lo, hi;
    mlsi_loop_var v = {.name = "", .extent = extent, .symbol = -1};
    mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
    snprintf(name, sizeof name, "proof_digit_%d", number);
    if (hi > 1) {
        MLSI_TRY(mlsi_dim_variable(&k->n->tab, name, extent, &v.code));
        v.symbol = mlsi_dim_as_symbol(&k->n->tab, v.code);
    }
    *var = (int32_t)k->n->n_vars;
    k->n->vars[k->n->n_vars++] = v;
    return MLSYS_OK;
}

static void replace(mlsi_nest_check *k, const mlsi_nx_env *env) {
    mlsi_nest *n = k->n;
    for (int64_t i = 0; i < n->n_exprs; i++)
        for (int j = 0; j < n->exprs[i].n_index; j++)
            n->exprs[i].index[j] = mlsi_nx_subst(k, n->exprs[i].index[j], env);
    for (int64_t i = 0; i < n->n_stmts; i++)
        for (int j = 0; j < n->stmts[i].n_index; j++)
            n->stmts[i].index[j] = mlsi_nx_subst(k, n->stmts[i].index[j], env);
    for (int64_t i = 0; i < n->n_vars; i++)
        n->vars[i].extent = mlsi_nx_subst(k, n->vars[i].extent, env);
    for (int64_t i = 0; i < n->n_accs; i++)
        n->accs[i].count = mlsi_nx_subst(k, n->accs[i].count, env);
}

static int32_t loop_over(const mlsi_nest *n, int32_t var) {
    for (int32_t s = 0; s < n->n_stmts; s++)
        if (n->stmts[s].kind == MLSI_LS_FOR && n->stmts[s].var == var) return s;
    return -1;
}

static mlsys_status take_apart(mlsi_nest_check *k, int32_t var, int64_t c, int64_t turns) {
    mlsi_nest *n = k->n;
    int32_t outer, inner, s = loop_over(n, var);
    mlsi_nx_env env = mlsi_nx_keep_all();
    if (s < 0) return MLSYS_OK;
    MLSI_TRY(add_var(k, (int)n->n_vars, turns, &outer));
    MLSI_TRY(add_var(k, (int)n->n_vars, c, &inner));
    env.of[var] =
        mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', n->vars[outer].code, c), n->vars[inner].code);
    replace(k, &env);
    k->n_symbols = n->tab.n_symbols;
    if (n->vars[outer].symbol >= 0) k->var_of[n->vars[outer].symbol] = outer;
    if (n->vars[inner].symbol >= 0) k->var_of[n->vars[inner].symbol] = inner;
    n->stmts[n->n_stmts] = n->stmts[s];
    n->stmts[n->n_stmts].var = inner;
    n->stmts[n->n_stmts].next = -1;
    n->stmts[s].var = outer;
    n->stmts[s].body = (int32_t)n->n_stmts++;
    return k->st;
}

/* All that is known of a variable comes from its symbol. */
static bool has_range_of_loop(const mlsi_nest_check *k, const mlsi_loop_var *v) {
    int64_t lo, hi;
    const mlsi_symbol *s = v->symbol < 0 ? NULL : &k->n->tab.symbols[v->symbol];
    mlsi_dim_range(&k->n->tab, v->extent, &lo, &hi);
    return s ? s->extent == v->extent && s->min == 0 && s->max == hi - 1 : hi <= 1 && v->code == 0;
}

mlsys_status mlsi_nx_take_apart(mlsi_nest_check *k) {
    int64_t turns, c;
    for (int32_t v = 0; v < k->n->n_vars; v++)
        if (!has_range_of_loop(k, &k->n->vars[v]))
            mlsi_nx_refuse(k, "index: a variable of another range than its loop", "");
    for (int32_t v = 0; v < k->n->n_vars && k->n->n_vars + 2 <= MLSI_NX_VARS; v++) {
        const mlsi_loop_var own = k->n->vars[v];
        c = loop_over(k->n, v) < 0 ? 0 : divisor_of(k, &own, &turns);
        if (c && !mlsi_nx_stop(k)) MLSI_TRY(take_apart(k, v, c, turns));
    }
    return k->st;
}
