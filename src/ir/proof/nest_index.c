/* Index expressions: substitution, mixed radix, and bounds by monotony. Shares nothing with ir/loop's prover. */
#include "ir/proof/nest_check.h"

#include <string.h>

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

static int64_t atom_under(mlsi_nest_check *k, const mlsi_atom *atom, const int64_t *env) {
    if (atom->op)
        return mlsi_nx_ix(k, '/', mlsi_nx_subst(k, atom->a, env), mlsi_nx_subst(k, atom->b, env));
    const mlsi_symbol s = k->n->tab.symbols[atom->symbol];
    int32_t var = atom->symbol < k->n_symbols ? k->var_of[atom->symbol] : -1;
    int64_t code = 0;
    if (var >= 0 && env[var] != MLSI_NX_KEEP) return env[var];
    mlsys_status st = mlsi_dim_symbol(&k->n->tab, s.name, s.min, s.max, s.divisor, &code);
    if (st != MLSYS_OK) k->st = st;
    return s.divisor == 1 ? code : mlsi_nx_ix(k, '/', code, s.divisor);
}

int64_t mlsi_nx_subst(mlsi_nest_check *k, int64_t code, const int64_t *env) {
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
    mlsi_text t;
    mlsi_text_init(&t, k->n->alloc);
    mlsi_text_add(&t, "position_%d_%lld", depth, (long long)hi);
    mlsys_status st = t.st;
    if (st == MLSYS_OK) {
        memcpy(name, t.data, (size_t)t.len + 1);
        st = mlsi_dim_symbol(&k->n->tab, name, 0, hi - 1, 1, &code);
    }
    mlsi_text_free(&t);
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

bool mlsi_nx_radix(mlsi_nest_check *k, int64_t code, int n, const int32_t *vars, const int64_t *env,
                   mlsi_radix *r) {
    int64_t own[MLSI_RADIX_VARS], coef[MLSI_RADIX_VARS], *all, sum = 0;
    if (n > MLSI_RADIX_VARS) return false;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &all);
    if (st != MLSYS_OK) return k->st = st, false;
    memcpy(all, env, sizeof *all * (size_t)k->n->n_vars);
    for (int i = 0; i < n; i++)
        all[vars[i]] = 0;
    bool affine = mlsi_nx_subst(k, code, all) == 0;
    for (int i = 0; i < n; i++) {
        all[vars[i]] = 1;
        coef[i] = k->n->vars[vars[i]].symbol < 0 ? 0 : mlsi_nx_subst(k, code, all);
        all[vars[i]] = 0;
        own[i] = mlsi_nx_subst(k, k->n->vars[vars[i]].extent, env);
        sum = mlsi_nx_ix(k, '+', sum, mlsi_nx_ix(k, '*', coef[i], k->n->vars[vars[i]].code));
    }
    for (int i = 0; i < n; i++)
        all[vars[i]] = MLSI_NX_KEEP;
    affine = affine && sum == mlsi_nx_subst(k, code, all);
    mlsi_mem_free(k->n->alloc, all);
    r->n = 0;
    r->total = 1;
    for (bool found = affine; found;) {
        found = false;
        for (int i = 0; i < n && !found; i++) {
            if (coef[i] == 0 || coef[i] != r->total) continue;
            r->var[r->n] = vars[i];
            r->coef[r->n++] = coef[i];
            r->total = mlsi_nx_ix(k, '*', r->total, own[i]);
            coef[i] = 0;
            found = true;
        }
    }
    for (int i = 0; i < n;
         i++) { /* loops that never turn twice have no variable; they may not turn at all */
        affine = affine && coef[i] == 0;
        if (k->n->vars[vars[i]].symbol < 0) r->total = mlsi_nx_ix(k, '*', r->total, own[i]);
    }
    return affine && !mlsi_nx_stop(k);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------- */

enum { FREE = 0, RISES = 1, FALLS = -1, UNKNOWN = 2 };

/* How an expression moves when the variable of a symbol grows. */
static int direction(const mlsi_nest_check *k, int64_t code, int32_t symbol) {
    const mlsi_expr *e = expr_of(k, code);
    int all = FREE;
    for (int i = 0; e && i < e->n; i++) {
        const mlsi_term *t = &e->terms[i];
        int dir = FREE;
        for (int j = 0; j < t->n; j++) {
            const mlsi_atom *a = &k->n->tab.atoms[t->atoms[j]];
            int64_t lo, hi;
            int d = a->op ? direction(k, a->a, symbol) : a->symbol == symbol ? RISES : FREE;
            if (a->op && direction(k, a->b, symbol) != FREE) d = UNKNOWN;
            if (t->n > 1 && (!mlsi_atom_range(&k->n->tab, a, &lo, &hi) || lo < 0)) d = UNKNOWN;
            if (d != FREE) dir = dir == FREE || dir == d ? d : UNKNOWN;
        }
        if (dir != FREE && dir != UNKNOWN && t->coef < 0) dir = -dir;
        if (dir != FREE) all = all == FREE || all == dir ? dir : UNKNOWN;
    }
    return all;
}

/* The least value over the loops around stmt, from the innermost out; extents are at least 1 inside. */
static bool least_is_nonnegative(mlsi_nest_check *k, int64_t code, int32_t stmt, int64_t *env) {
    int64_t lo, hi;
    for (int32_t s = stmt; s >= 0; s = k->parent[s]) {
        const mlsi_ls *l = &k->n->stmts[s];
        const mlsi_loop_var *v = l->kind == MLSI_LS_FOR ? &k->n->vars[l->var] : NULL;
        int d = v && v->symbol >= 0 ? direction(k, code, v->symbol) : FREE;
        mlsi_dim_range(&k->n->tab, code, &lo, &hi);
        if (lo >= 0) return true;
        if (d == FREE || d == UNKNOWN) continue;
        env[l->var] = d == RISES ? 0 : mlsi_nx_ix(k, '-', v->extent, 1);
        code = mlsi_nx_subst(k, code, env);
        env[l->var] = MLSI_NX_KEEP;
    }
    mlsi_dim_range(&k->n->tab, code, &lo, &hi);
    return lo >= 0;
}

/* How often x stands in code: by the first of x's products that code has too. */
static int64_t scale_of(const mlsi_nest_check *k, int64_t code, int64_t x) {
    const mlsi_expr *e = expr_of(k, code), *f = expr_of(k, x);
    for (int i = 0; e && f && i < f->n; i++)
        for (int j = 0; j < e->n; j++) {
            const mlsi_term *s = &f->terms[i], *t = &e->terms[j];
            bool same = s->n && s->n == t->n && !memcmp(s->atoms, t->atoms, sizeof s->atoms);
            if (same && t->coef % s->coef == 0) return t->coef / s->coef;
        }
    return 1;
}

/* lo <= x < hi is two facts that are >= 0, and so are their multiples. */
static bool under_range(mlsi_nest_check *k, int64_t code, int32_t stmt, int64_t *env, int64_t lo,
                        int64_t x, int64_t hi) {
    int64_t c = scale_of(k, code, x);
    int64_t above = mlsi_nx_ix(k, '-', x, lo);
    int64_t below = mlsi_nx_ix(k, '-', mlsi_nx_ix(k, '-', hi, 1), x);
    int64_t fact = mlsi_nx_ix(k, '*', c < 0 ? -c : c, c < 0 ? below : above);
    return least_is_nonnegative(k, mlsi_nx_ix(k, '-', code, fact), stmt, env);
}

/* The i-th floor division of an expression. */
static bool floor_of(const mlsi_nest_check *k, const mlsi_expr *e, int i, mlsi_atom *a) {
    for (int t = 0; t < e->n; t++)
        for (int j = 0; j < e->terms[t].n; j++) {
            *a = k->n->tab.atoms[e->terms[t].atoms[j]];
            if (a->op && i-- == 0) return true;
        }
    return false;
}

/* What floors are: q = floor(x / b) has b q <= x < b q + b; floor(x / (b c)) = floor(q / c); and q is at most
 * floor((hi - 1) / b) where a guard says x < hi. */
static bool under_floors(mlsi_nest_check *k, int64_t code, int32_t stmt, int64_t *env,
                         const mlsi_expr *e) {
    mlsi_atom a, b;
    for (int i = 0; floor_of(k, e, i, &a); i++) {
        int64_t q = mlsi_nx_ix(k, '/', a.a, a.b), bq = mlsi_nx_ix(k, '*', q, a.b), c;
        bool exact;
        if (under_range(k, code, stmt, env, bq, a.a, mlsi_nx_ix(k, '+', bq, a.b))) return true;
        for (int j = 0; floor_of(k, e, j, &b); j++) {
            if (b.a != a.a || a.b == b.b ||
                mlsi_dim_divide_exact(&k->n->tab, a.b, b.b, &c, &exact) != MLSYS_OK || !exact)
                continue;
            int64_t cq = mlsi_nx_ix(k, '*', q, c), fine = mlsi_nx_ix(k, '/', b.a, b.b);
            if (under_range(k, code, stmt, env, cq, fine, mlsi_nx_ix(k, '+', cq, c))) return true;
        }
        for (int32_t s = stmt; s >= 0; s = k->parent[s]) {
            const mlsi_ls *l = &k->n->stmts[s];
            if (l->kind != MLSI_LS_IF || l->value >= 0 || l->index[1] != a.a) continue;
            int64_t most = mlsi_nx_ix(k, '/', mlsi_nx_ix(k, '-', l->index[2], 1), a.b);
            if (least_is_nonnegative(k, mlsi_nx_ix(k, '-', code, mlsi_nx_ix(k, '-', most, q)), stmt,
                                     env))
                return true;
        }
    }
    return false;
}

bool mlsi_nx_nonnegative(mlsi_nest_check *k, int64_t code, int32_t stmt, int guards,
                         const int64_t (*range)[3]) {
    int64_t *env;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &env);
    if (st != MLSYS_OK) return k->st = st, false;
    for (int64_t i = 0; i < k->n->n_vars; i++)
        env[i] = MLSI_NX_KEEP;
    bool yes = least_is_nonnegative(k, code, stmt, env);
    for (int32_t s = stmt; s >= 0 && !yes; s = k->parent[s]) { /* inside, extents are at least 1 */
        if (k->n->stmts[s].kind != MLSI_LS_FOR) continue;
        int64_t lo, hi, extent = k->n->vars[k->n->stmts[s].var].extent;
        mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
        int64_t rest = mlsi_nx_ix(k, '-', code, mlsi_nx_ix(k, '-', extent, 1));
        yes = hi < 1 || (lo < 1 && least_is_nonnegative(k, rest, stmt, env));
    }
    for (int i = 0; i < guards && !yes; i++)
        yes = under_range(k, code, stmt, env, range[i][0], range[i][1], range[i][2]);
    for (int32_t s = stmt; s >= 0 && !yes; s = k->parent[s]) {
        const mlsi_ls *l = &k->n->stmts[s];
        if (l->kind == MLSI_LS_IF && l->value < 0)
            yes = under_range(k, code, stmt, env, l->index[0], l->index[1], l->index[2]);
    }
    const mlsi_expr *e = expr_of(k, code), own = e ? *e : (mlsi_expr){0};
    if (!yes) yes = under_floors(k, code, stmt, env, &own);
    mlsi_mem_free(k->n->alloc, env);
    return yes && !mlsi_nx_stop(k);
}
