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

/* f: NULL, or what holds; then quotients of less than the divisor are 0. */
static int64_t under(mlsi_nest_check *k, int64_t code, const mlsi_nx_env *env,
                     const mlsi_nx_facts *f);

static int64_t atom_under(mlsi_nest_check *k, const mlsi_atom *atom, const mlsi_nx_env *env,
                          const mlsi_nx_facts *f) {
    if (atom->op) {
        int64_t a = under(k, atom->a, env, f), b = under(k, atom->b, env, f);
        return f && mlsi_nx_within(k, f, 0, a, b) ? 0 : mlsi_nx_ix(k, '/', a, b);
    }
    const mlsi_symbol s = k->n->tab.symbols[atom->symbol];
    int32_t var = atom->symbol < k->n_symbols ? k->var_of[atom->symbol] : -1;
    int64_t code = 0;
    if (var >= 0 && env->of[var] != MLSI_NX_KEEP) return env->of[var];
    mlsys_status st = mlsi_dim_symbol(&k->n->tab, s.name, s.min, s.max, s.divisor, &code);
    if (st != MLSYS_OK) k->st = st;
    return s.divisor == 1 ? code : mlsi_nx_ix(k, '/', code, s.divisor);
}

static int64_t under(mlsi_nest_check *k, int64_t code, const mlsi_nx_env *env,
                     const mlsi_nx_facts *f) {
    const mlsi_expr *e = expr_of(k, code);
    int64_t sum = 0;
    if (!e) return code;
    const mlsi_expr own = *e;
    for (int i = 0; i < own.n; i++) {
        int64_t c = own.terms[i].coef, term = c < 0 ? -c : c;
        for (int j = 0; j < own.terms[i].n; j++) {
            mlsi_atom atom = k->n->tab.atoms[own.terms[i].atoms[j]];
            term = mlsi_nx_ix(k, '*', term, atom_under(k, &atom, env, f));
        }
        sum = mlsi_nx_ix(k, c < 0 ? '-' : '+', sum, term);
    }
    return sum;
}

int64_t mlsi_nx_subst(mlsi_nest_check *k, int64_t code, const mlsi_nx_env *env) {
    return under(k, code, env, NULL);
}

int64_t mlsi_nx_simpler(mlsi_nest_check *k, int64_t code, const mlsi_nx_facts *f) {
    const mlsi_nx_env keep = mlsi_nx_keep_all();
    return under(k, code, &keep, f);
}

/* Names begin with what no loop is called. */
static int64_t any_of(mlsi_nest_check *k, const char *what, int number, int64_t extent) {
    char name[64];
    int64_t lo, hi, code = 0;
    mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
    if (hi <= 1) return 0;
    snprintf(name, sizeof name, "proof_%s_%d_%lld", what, number, (long long)hi);
    mlsys_status st = mlsi_dim_symbol(&k->n->tab, name, 0, hi - 1, 1, &code);
    if (st != MLSYS_OK) k->st = st;
    return code;
}

int64_t mlsi_nx_position(mlsi_nest_check *k, int depth, int64_t count) {
    return any_of(k, "position", depth, count);
}

int64_t mlsi_nx_element(mlsi_nest_check *k, int axis, int64_t extent) {
    return any_of(k, "element", axis, extent);
}

/* What is not known to be 1 at least divides nothing; in a space without elements any digit will do. */
static bool divides(mlsi_nest_check *k, int64_t extent) {
    int64_t lo, hi;
    mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
    if (lo < 1 && hi > 0) mlsi_nx_uncovered(k, "digits of a space that may be empty", "");
    return lo >= 1;
}

int64_t mlsi_nx_digit(mlsi_nest_check *k, int64_t number, int64_t below, int64_t extent) {
    if (!divides(k, below)) return 0;
    int64_t q = mlsi_nx_ix(k, '/', number, below);
    if (!extent) return q;
    if (!divides(k, extent)) return 0;
    int64_t turn = mlsi_nx_ix(k, '/', number, mlsi_nx_ix(k, '*', below, extent));
    return mlsi_nx_ix(k, '-', q, mlsi_nx_ix(k, '*', turn, extent));
}
