/* Index expressions: substitution and mixed radix. Shares nothing with ir/loop's prover. */
#include "ir/proof/nest_check.h"

#include <stdio.h>

static const mlsi_expr *expr_of(const mlsi_nest_check *k, int64_t code) {
    return mlsi_dim_is_code(&k->n->tab, code) ? &k->n->tab.exprs[MLSI_DIM_CODE - code] : NULL;
}

/* floor(floor(a / b) / c) is floor(a / (b * c)): the normal form has no rule for it. */
int64_t mlsi_nx_ix(mlsi_nest_check *k, int op, int64_t a, int64_t b) {
    int64_t out = 0;
    const mlsi_expr *e = op == '/' ? expr_of(k, a) : NULL;
    if (e && e->n == 1 && e->terms[0].n == 1 && e->terms[0].coef == 1) {
        mlsi_atom atom = k->n->tab.atoms[e->terms[0].atoms[0]];
        if (atom.op) return mlsi_nx_ix(k, '/', atom.a, mlsi_nx_ix(k, '*', atom.b, b));
    }
    if (k->st != MLSYS_OK) return 0;
    mlsys_status st = mlsi_dim_op(&k->n->tab, op, a, b, &out);
    if (st == MLSYS_E_NOMEM)
        k->st = st;
    else if (st != MLSYS_OK)
        mlsi_nx_uncovered(k, "an index expression is too large for the checker", "");
    return out;
}

static int64_t atom_under(mlsi_nest_check *k, const mlsi_atom *atom, const mlsi_nx_env *env) {
    if (atom->op)
        return mlsi_nx_ix(k, '/', mlsi_nx_subst(k, atom->a, env), mlsi_nx_subst(k, atom->b, env));
    const mlsi_symbol s = k->n->tab.symbols[atom->symbol];
    int32_t var = atom->symbol < k->n_symbols ? k->var_of[atom->symbol] : -1;
    int64_t code = 0;
    if (var >= 0 && env->of[var] != MLSI_NX_KEEP) return env->of[var];
    mlsys_status st = mlsi_dim_symbol(&k->n->tab, s.name, s.min, s.max, s.divisor, &code);
    if (st != MLSYS_OK) k->st = st;
    return s.divisor == 1 ? code : mlsi_nx_ix(k, '/', code, s.divisor);
}

int64_t mlsi_nx_subst(mlsi_nest_check *k, int64_t code, const mlsi_nx_env *env) {
    const mlsi_expr *e = expr_of(k, code);
    int64_t sum = 0;
    if (!e) return code;
    const mlsi_expr own = *e;
    for (int i = 0; i < own.n; i++) {
        int64_t c = own.terms[i].coef, term = c < 0 ? -c : c;
        for (int j = 0; j < own.terms[i].n; j++) {
            mlsi_atom atom = k->n->tab.atoms[own.terms[i].atoms[j]];
            term = mlsi_nx_ix(k, '*', term, atom_under(k, &atom, env));
        }
        sum = mlsi_nx_ix(k, c < 0 ? '-' : '+', sum, term);
    }
    return sum;
}

int64_t mlsi_nx_position(mlsi_nest_check *k, int depth, int64_t count) {
    char name[48];
    int64_t lo, hi, code = 0;
    mlsi_dim_range(&k->n->tab, count, &lo, &hi);
    if (hi <= 1) return 0;
    snprintf(name, sizeof name, "position_%d_%lld", depth, (long long)hi);
    mlsys_status st = mlsi_dim_symbol(&k->n->tab, name, 0, hi - 1, 1, &code);
    if (st != MLSYS_OK) k->st = st;
    return code;
}

int64_t mlsi_nx_digit(mlsi_nest_check *k, int64_t number, int64_t below, int64_t extent) {
    int64_t lo, hi;
    mlsi_dim_range(&k->n->tab, below, &lo, &hi);
    if (lo < 1) return 0; /* of an empty space */
    int64_t q = mlsi_nx_ix(k, '/', number, below);
    if (!extent) return q;
    mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
    if (lo < 1) return 0;
    int64_t turn = mlsi_nx_ix(k, '/', number, mlsi_nx_ix(k, '*', below, extent));
    return mlsi_nx_ix(k, '-', q, mlsi_nx_ix(k, '*', turn, extent));
}

/* ---- mixed radix ------------------------------------------------------------------------------------------------ */

bool mlsi_nx_radix(mlsi_nest_check *k, int64_t code, int n, const int32_t *vars,
                   const mlsi_nx_env *env, mlsi_radix *r) {
    int64_t extent[MLSI_NX_VARS], coef[MLSI_NX_VARS], sum = 0;
    mlsi_nx_env all = *env;
    for (int i = 0; i < n; i++)
        all.of[vars[i]] = 0;
    bool affine = mlsi_nx_subst(k, code, &all) == 0;
    for (int i = 0; i < n; i++) {
        const mlsi_loop_var *v = &k->n->vars[vars[i]];
        all.of[vars[i]] = 1;
        coef[i] = v->symbol < 0 ? 0 : mlsi_nx_subst(k, code, &all);
        all.of[vars[i]] = 0;
        extent[i] = mlsi_nx_subst(k, v->extent, env);
        sum = mlsi_nx_ix(k, '+', sum, mlsi_nx_ix(k, '*', coef[i], v->code));
    }
    for (int i = 0; i < n; i++)
        all.of[vars[i]] = MLSI_NX_KEEP;
    affine = affine && sum == mlsi_nx_subst(k, code, &all);
    *r = (mlsi_radix){.total = 1};
    int left = n;
    for (int i = 0; i < n; i++) /* a loop that turns once moves nothing */
        left -= extent[i] == 1;
    for (int i = 0; affine && i < n; i++) { /* begins anew whenever one has been found */
        if (coef[i] == 0 || coef[i] != r->total) continue;
        r->var[r->n] = vars[i];
        r->coef[r->n++] = coef[i];
        r->total = mlsi_nx_ix(k, '*', r->total, extent[i]);
        coef[i] = 0;
        left -= extent[i] != 1;
        i = -1;
    }
    return affine && left == 0 && !mlsi_nx_stop(k);
}
