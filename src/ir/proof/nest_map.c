/* Places in the text of a nest, what is known there, and maps from iterations to elements. */
#include "ir/proof/nest_check.h"

#include <string.h>

static const mlsi_ls *stmt(const mlsi_nest_check *k, int32_t s) { return &k->n->stmts[s]; }

/* ---- places -------------------------------------------------------------------------------------------------------- */

int32_t mlsi_nx_only(mlsi_nest_check *k, mlsi_ls_kind kind, int32_t ref, const char *what) {
    int32_t found = -1;
    for (int32_t s = 0; s < k->n->n_stmts; s++) {
        if (stmt(k, s)->kind != kind || stmt(k, s)->ref != ref || k->order[s] < 0) continue;
        if (found >= 0) mlsi_nx_uncovered(k, "more than one statement gives ", what);
        found = s;
    }
    if (found < 0) mlsi_nx_refuse(k, "no statement gives ", what);
    return mlsi_nx_stop(k) ? -1 : found;
}

bool mlsi_nx_encloses(const mlsi_nest_check *k, int32_t outer, int32_t s) {
    while (s >= 0 && s != outer)
        s = k->parent[s];
    return s == outer;
}

bool mlsi_nx_in_scope(const mlsi_nest_check *k, int32_t s, int32_t at) {
    return k->order[s] < k->order[at] && mlsi_nx_encloses(k, k->parent[s], at);
}

bool mlsi_nx_never_runs(const mlsi_nest_check *k, int32_t s) {
    for (; s >= 0; s = k->parent[s])
        if (stmt(k, s)->kind == MLSI_LS_FOR && k->n->vars[stmt(k, s)->var].extent == 0) return true;
    return false;
}

/* ---- what is known -------------------------------------------------------------------------------------------------- */

static void add_fact(mlsi_nx_facts *f, int64_t big, int64_t small, int64_t least) {
    if (f->n < MLSI_NX_FACTS) f->list[f->n++] = (mlsi_dim_fact){big, small, least};
}

void mlsi_nx_know(mlsi_nx_facts *f, int64_t lo, int64_t x, int64_t hi) {
    add_fact(f, hi, x, 1);
    add_fact(f, x, lo, 0);
}

/* The iteration runs: it is in the range of each loop around, and no guard leaves it out. */
void mlsi_nx_facts_at(mlsi_nest_check *k, int32_t at, const mlsi_nx_env *env, mlsi_nx_facts *f) {
    int64_t lo, hi;
    f->n = 0;
    for (int32_t p = k->parent[at]; p >= 0; p = k->parent[p]) {
        const mlsi_ls s = *stmt(k, p);
        if (s.kind == MLSI_LS_IF && s.value < 0)
            mlsi_nx_know(f, mlsi_nx_subst(k, s.index[0], env), mlsi_nx_subst(k, s.index[1], env),
                         mlsi_nx_subst(k, s.index[2], env));
        if (s.kind != MLSI_LS_FOR) continue;
        int64_t extent = mlsi_nx_subst(k, k->n->vars[s.var].extent, env);
        mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
        if (env->of[s.var] != MLSI_NX_KEEP)
            mlsi_nx_know(f, 0, env->of[s.var], extent);
        else if (lo < 1)
            add_fact(f, extent, 0, 1);
    }
}

static bool at_least(mlsi_nest_check *k, const mlsi_nx_facts *f, int64_t big, int64_t small,
                     int64_t least) {
    return !mlsi_nx_stop(k) && mlsi_dim_prove(&k->n->tab, f->n, f->list, big, small, least);
}

bool mlsi_nx_within(mlsi_nest_check *k, const mlsi_nx_facts *f, int64_t lo, int64_t x, int64_t hi) {
    return at_least(k, f, x, lo, 0) && at_least(k, f, hi, x, 1);
}

/* ---- one to one -------------------------------------------------------------------------------------------------------- */

/* Loops and guards from a body down to a statement; env: what the loops' variables are found to be. */
typedef struct path {
    mlsi_nest_check *k;
    int n, n_guards;
    int32_t vars[MLSI_NX_VARS], guards[MLSI_NX_VARS];
    bool used[MLSI_NX_VARS]; /* by an axis */
    mlsi_nx_env own, *env;   /* own: the loops' variables KEEP, others fixed by what is around */
    mlsi_nx_facts facts;
} path;

/* A digit of a number: a loop's variable, or the index of a guard, which is a number of its own. */
typedef struct digit {
    int64_t coef, extent;
    int32_t var, guard; /* one of them; -1 */
} digit;

typedef struct sum { /* base + sum of coef * variable of the path */
    int64_t base, coef[MLSI_NX_VARS];
} sum;

static bool number_digits(path *p, int64_t code, int64_t number, uint64_t tried);

static path path_to(mlsi_nest_check *k, int32_t since, int32_t s, const mlsi_nx_facts *f,
                    mlsi_nx_env *env) {
    path p = {.k = k, .own = *env, .env = env, .facts = *f};
    int32_t body = since < 0 ? -1 : k->parent[since];
    for (s = k->parent[s]; s != body && s >= 0; s = k->parent[s])
        if (stmt(k, s)->kind == MLSI_LS_FOR)
            p.own.of[p.vars[p.n++] = stmt(k, s)->var] = MLSI_NX_KEEP;
        else if (p.n_guards < MLSI_NX_VARS)
            p.guards[p.n_guards++] = s;
        else
            mlsi_nx_uncovered(k, "too many guards", "");
    return p;
}

static bool is_sum(const path *p, int64_t code, sum *out) {
    mlsi_nest_check *k = p->k;
    mlsi_nx_env at = p->own;
    for (int i = 0; i < p->n; i++)
        at.of[p->vars[i]] = 0;
    int64_t all = out->base = mlsi_nx_subst(k, code, &at);
    for (int i = 0; i < p->n; i++) {
        const mlsi_loop_var *v = &k->n->vars[p->vars[i]];
        at.of[p->vars[i]] = 1;
        out->coef[i] =
            v->symbol < 0 ? 0 : mlsi_nx_ix(k, '-', mlsi_nx_subst(k, code, &at), out->base);
        at.of[p->vars[i]] = 0;
        all = mlsi_nx_ix(k, '+', all, mlsi_nx_ix(k, '*', out->coef[i], v->code));
    }
    return all == mlsi_nx_subst(k, code, &p->own) && !mlsi_nx_stop(k);
}

/* An extent is the same in all iterations of the path, else -1. */
static int64_t fixed(const path *p, int64_t extent) {
    mlsi_nx_env at = p->own;
    int64_t here = mlsi_nx_subst(p->k, extent, &at);
    for (int j = 0; j < p->n; j++)
        at.of[p->vars[j]] = 0;
    return here == mlsi_nx_subst(p->k, extent, &at) ? here : -1;
}

static int64_t extent_of(const path *p, int i) {
    return fixed(p, p->k->n->vars[p->vars[i]].extent);
}

/* How many variables the guard's index has, all of them in s with `times` that coefficient; 0 = it is no digit of s. */
static int guard_is_digit(const path *p, const mlsi_ls *guard, const sum *s, const bool *taken,
                          int64_t *times) {
    sum g;
    int n = 0, unit = -1;
    if (guard->index[0] != 0 || !is_sum(p, guard->index[1], &g) || g.base) return 0;
    for (int i = 0; i < p->n; i++)
        if (g.coef[i] == 1) unit = i;
    if (unit < 0 || s->coef[unit] == 0) return 0;
    *times = s->coef[unit];
    for (int i = 0; i < p->n; i++) {
        if (!g.coef[i]) continue;
        if (taken[i] || p->used[i] || mlsi_nx_ix(p->k, '*', *times, g.coef[i]) != s->coef[i])
            return 0;
        n++;
    }
    return n;
}

/* The guard over the most loops becomes a digit in their place; false when there is none. */
static bool take_guard(const path *p, const sum *s, uint64_t tried, bool *taken, digit *out) {
    int most = 0, best = -1;
    int64_t times;
    for (int g = 0; g < p->n_guards && g < 64; g++) {
        const mlsi_ls own = *stmt(p->k, p->guards[g]);
        int64_t extent = own.value < 0 ? fixed(p, own.index[2]) : -1;
        int n = tried >> g & 1 || extent == -1 ? 0 : guard_is_digit(p, &own, s, taken, &times);
        if (n <= most) continue;
        most = n, best = g;
        *out = (digit){times, extent, -1, g};
    }
    if (best < 0) return false;
    sum g;
    (void)is_sum(p, stmt(p->k, p->guards[best])->index[1], &g);
    for (int i = 0; i < p->n; i++)
        taken[i] |= g.coef[i] != 0;
    return true;
}

/* Least first, each coefficient at least the one before times its extent: so the number tells the digits. exact: equal,
 * beginning with 1, so that [0, total) has no gaps. */
static bool in_order(const path *p, digit *d, int n, int64_t *total, bool *exact) {
    *total = 1;
    *exact = true;
    for (int i = 0; i < n; i++) {
        int next = -1;
        for (int j = i; j < n && next < 0; j++)
            if (d[j].coef == *total) next = j;
        for (int j = i; j < n && next < 0; j++) {
            bool least = at_least(p->k, &p->facts, d[j].coef, *total, 0);
            for (int o = i; o < n && least; o++)
                least = at_least(p->k, &p->facts, d[o].coef, d[j].coef, 0);
            if (least) next = j;
        }
        if (next < 0) return false;
        const digit own = d[next];
        d[next] = d[i];
        d[i] = own;
        *exact = *exact && own.coef == *total;
        *total = mlsi_nx_ix(p->k, '*', own.coef, own.extent);
    }
    return true;
}

static bool give(path *p, const digit *d, int64_t value, uint64_t tried) {
    if (d->guard < 0) return p->env->of[d->var] = value, true;
    return number_digits(p, stmt(p->k, p->guards[d->guard])->index[1], value,
                         tried | (uint64_t)1 << d->guard);
}

/* The digits of the number, greatest first; where there are gaps they must be shown to be in range. */
static bool give_all(path *p, digit *d, int n, int64_t number, uint64_t tried) {
    int64_t total, rest = number, value;
    bool exact;
    if (!in_order(p, d, n, &total, &exact)) return false;
    if (exact && !mlsi_nx_within(p->k, &p->facts, 0, number, total)) return false;
    for (int i = n - 1; i >= 0; i--) {
        if (exact) {
            value = mlsi_nx_digit(p->k, number, d[i].coef, i == n - 1 ? 0 : d[i].extent);
        } else {
            if (!at_least(p->k, &p->facts, d[i].coef, 1, 0)) return false;
            value = mlsi_nx_ix(p->k, '/', rest, d[i].coef);
            rest = mlsi_nx_ix(p->k, '-', rest, mlsi_nx_ix(p->k, '*', value, d[i].coef));
            if (!mlsi_nx_within(p->k, &p->facts, 0, value, d[i].extent)) return false;
        }
        mlsi_nx_know(&p->facts, 0, value, d[i].extent);
        if (!give(p, &d[i], value, tried)) return false;
    }
    return exact || rest == 0;
}

/* code is the number for exactly one choice of the loops that it names, which no other axis names. tried: guards that are
 * no digits of it. */
static bool number_digits(path *p, int64_t code, int64_t number, uint64_t tried) {
    digit d[MLSI_NX_VARS];
    bool taken[MLSI_NX_VARS] = {false};
    sum s;
    int n = 0;
    if (!is_sum(p, code, &s)) return false;
    for (int i = 0; i < p->n; i++)
        if (s.coef[i] && p->used[i]) return false;
    while (n < MLSI_NX_VARS && take_guard(p, &s, tried, taken, &d[n]))
        n++;
    for (int i = 0; i < p->n; i++) {
        if (!s.coef[i] || taken[i]) continue;
        p->used[i] = true;
        d[n++] = (digit){s.coef[i], extent_of(p, i), p->vars[i], -1};
        if (d[n - 1].extent == -1) return false;
    }
    if (!give_all(p, d, n, mlsi_nx_ix(p->k, '-', number, s.base), tried)) return false;
    mlsi_nx_env found = p->own;
    for (int i = 0; i < p->n; i++)
        if (s.coef[i]) found.of[p->vars[i]] = p->env->of[p->vars[i]];
    return mlsi_nx_subst(p->k, code, &found) == number;
}

/* All axes together, by their row-major number: what merged axes give. */
static bool number_of_axes(path *p, const mlsi_nx_box *b) {
    mlsi_nest_check *k = p->k;
    int64_t code = 0, whole = 0, below = 1;
    for (int d = 0; d < b->rank; d++) {
        code = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', code, b->extent[d]), b->code[d]);
        whole = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', whole, b->extent[d]), b->element[d]);
    }
    for (int d = b->rank - 1; d >= 0; d--) {
        if (mlsi_nx_digit(k, code, below, d ? b->extent[d] : 0) != b->code[d]) return false;
        below = mlsi_nx_ix(k, '*', below, b->extent[d]);
    }
    memset(p->used, 0, sizeof p->used);
    return number_digits(p, code, whole, 0);
}

/* What no axis names turns once: by its extent, or by a guard that leaves one turn. */
static bool others_turn_once(path *p) {
    mlsi_nest_check *k = p->k;
    for (int g = 0; g < p->n_guards && g < 64; g++) {
        const mlsi_ls own = *stmt(k, p->guards[g]);
        int64_t hi = own.value < 0 && own.index[0] == 0 ? fixed(p, own.index[2]) : -1;
        const path before = *p;
        if (hi != -1 && at_least(k, &p->facts, 1, hi, 0) &&
            !number_digits(p, own.index[1], 0, (uint64_t)1 << g))
            *p = before;
    }
    for (int i = 0; i < p->n; i++) {
        int64_t extent = extent_of(p, i);
        bool once = extent == 1 || (extent != -1 && k->n->vars[p->vars[i]].symbol < 0 &&
                                    at_least(k, &p->facts, extent, 1, 0));
        if (!p->used[i] && !once) return false;
    }
    return true;
}

/* No guard leaves the element's iteration out, and none lets another one name what is outside. */
static bool stays_inside(path *p, int32_t s, const mlsi_nx_box *b) {
    mlsi_nest_check *k = p->k;
    mlsi_nx_facts inside;
    for (int g = 0; g < p->n_guards; g++) {
        const mlsi_ls own = *stmt(k, p->guards[g]);
        if (own.value >= 0 || !mlsi_nx_within(k, &p->facts, mlsi_nx_subst(k, own.index[0], p->env),
                                              mlsi_nx_subst(k, own.index[1], p->env),
                                              mlsi_nx_subst(k, own.index[2], p->env)))
            mlsi_nx_refuse(k, "a guard leaves elements out", "");
    }
    mlsi_nx_facts_at(k, s, &p->own, &inside);
    for (int d = 0; d < b->rank; d++)
        if (!mlsi_nx_within(k, &inside, 0, mlsi_nx_subst(k, b->code[d], &p->own), b->extent[d]))
            return false;
    return !mlsi_nx_stop(k);
}

bool mlsi_nx_maps_onto(mlsi_nest_check *k, int32_t since, int32_t s, const mlsi_nx_box *b,
                       const mlsi_nx_facts *f, mlsi_nx_env *env) {
    path p = path_to(k, since, s, f, env);
    bool apart = true;
    for (int d = 0; d < b->rank && apart; d++)
        apart = number_digits(&p, b->code[d], b->element[d], 0);
    if (!apart) p.facts = *f;
    return (apart || number_of_axes(&p, b)) && others_turn_once(&p) && stays_inside(&p, s, b);
}
