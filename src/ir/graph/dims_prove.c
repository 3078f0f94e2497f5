/* Is an expression never negative? By replacing what is innermost by its bounds, pointwise: where e = A*x + B and
 * lo <= x <= hi, e is at least A*lo + B if A >= 0, A*hi + B if A <= 0, the lesser of the two whatever A is. It makes no
 * difference whether A and B name x too. A variable lies in [0, extent - 1]; q = floor(a / b) between (a - b + 1) / b
 * and a / b; a symbol in its range. What is left in the end is decided by intervals.
 *
 * Facts f >= 0 come first: e >= 0 follows from m*e - k*f > -m with a number m > 0 and a monomial k >= 0, since e is an integer.
 *
 * Sound, never complete. All bounds are of integers without overflow: ends are saturated toward "unknown". */
#include "ir/graph/dims.h"

#include "core/faults.h"

#include <string.h>

enum { STEPS = 400, LOOKS = 100000 }; /* bound the search */

typedef struct prover {
    const mlsi_symtab *t;
    int n_facts, steps, looks;
    const mlsi_dim_fact *facts;
    uint64_t used; /* facts, on the way to the goal that is looked at */
} prover;

/* ---- intervals whose ends INT64_MIN and INT64_MAX mean unbounded ------------------------------------------ */

typedef struct bounds {
    int64_t lo, hi;
} bounds;

static bool unbounded(int64_t a) { return a == INT64_MIN || a == INT64_MAX; }

static int64_t product(int64_t a, int64_t b) {
    int64_t r;
    if (a == 0 || b == 0) return 0;
    if (!unbounded(a) && !unbounded(b) && mlsi_mul_i64(a, b, &r)) return r;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* A lower end above all numbers, or an upper one below, would count as unbounded on the wrong side. */
static bounds made(int64_t lo, int64_t hi) {
    return (bounds){lo == INT64_MAX ? INT64_MAX - 1 : lo, hi == INT64_MIN ? INT64_MIN + 1 : hi};
}

static bounds times(bounds x, bounds y) {
    int64_t p[4] = {product(x.lo, y.lo), product(x.lo, y.hi), product(x.hi, y.lo),
                    product(x.hi, y.hi)};
    int64_t lo = p[0], hi = p[0];
    for (int k = 1; k < 4; k++) {
        lo = p[k] < lo ? p[k] : lo;
        hi = p[k] > hi ? p[k] : hi;
    }
    return made(lo, hi);
}

/* end: the one that an unbounded summand makes unbounded. */
static int64_t sum(int64_t a, int64_t b, int64_t end) {
    int64_t r;
    if (a == end || b == end) return end;
    if (mlsi_add_i64(a, b, &r)) return r;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static bounds dim_bounds(const mlsi_symtab *t, int64_t d);

static bounds atom_bounds(const mlsi_symtab *t, const mlsi_atom *atom) {
    if (!atom->op) {
        const mlsi_symbol *s = &t->symbols[atom->symbol];
        return (bounds){s->min / s->divisor + (s->min % s->divisor != 0), s->max / s->divisor};
    }
    bounds a = dim_bounds(t, atom->a), b = dim_bounds(t, atom->b), r;
    if (b.lo < 1) b.lo = 1;
    if (b.hi < 1) b.hi = 1;
    r.lo = a.lo == INT64_MIN ? INT64_MIN : mlsi_floor_div(a.lo, a.lo < 0 ? b.lo : b.hi);
    r.hi = a.hi == INT64_MAX ? INT64_MAX : mlsi_floor_div(a.hi, a.hi < 0 ? b.hi : b.lo);
    return made(r.lo, r.hi);
}

static bounds expr_bounds(const mlsi_symtab *t, const mlsi_expr *e) {
    bounds all = {0, 0};
    for (int i = 0; i < e->n; i++) {
        bounds term = {e->terms[i].coef, e->terms[i].coef};
        for (int j = 0; j < e->terms[i].n; j++)
            term = times(term, atom_bounds(t, &t->atoms[e->terms[i].atoms[j]]));
        all = made(sum(all.lo, term.lo, INT64_MIN), sum(all.hi, term.hi, INT64_MAX));
    }
    return all;
}

static bounds dim_bounds(const mlsi_symtab *t, int64_t d) {
    if (mlsi_dim_is_code(t, d)) return expr_bounds(t, &t->exprs[MLSI_DIM_CODE - d]);
    return (bounds){d, d};
}

/* ---- replacing what is innermost ------------------------------------------------------------------------- */

static int32_t dim_symbol(const mlsi_symtab *t, int64_t d) {
    int32_t most = -1;
    if (!mlsi_dim_is_code(t, d)) return most;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++) {
            int32_t s = mlsi_atom_symbol(t, &t->atoms[e->terms[i].atoms[j]]);
            if (s > most) most = s;
        }
    return most;
}

int32_t mlsi_atom_symbol(const mlsi_symtab *t, const mlsi_atom *atom) {
    if (!atom->op) return atom->symbol;
    int32_t a = dim_symbol(t, atom->a), b = dim_symbol(t, atom->b);
    return a > b ? a : b;
}

static bool dim_depends(prover *p, int64_t d, int32_t symbol);

/* Does the atom name the symbol, or a variable whose extent does? Yes also when it takes too long to tell: extents that
 * name two variables each make a tree of them. */
static bool atom_depends(prover *p, const mlsi_atom *atom, int32_t symbol) {
    if (p->looks-- <= 0) return true;
    if (atom->op) return dim_depends(p, atom->a, symbol) || dim_depends(p, atom->b, symbol);
    return atom->symbol == symbol ||
           (atom->symbol > symbol && dim_depends(p, p->t->symbols[atom->symbol].extent, symbol));
}

static bool dim_depends(prover *p, int64_t d, int32_t symbol) {
    if (!mlsi_dim_is_code(p->t, d)) return false;
    const mlsi_expr *e = &p->t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++)
            if (atom_depends(p, &p->t->atoms[e->terms[i].atoms[j]], symbol)) return true;
    return false;
}

/* A symbol on which no other atom of e depends. */
static bool is_free(prover *p, const mlsi_expr *e, int32_t at) {
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++) {
            int32_t other = e->terms[i].atoms[j];
            if (other != at && atom_depends(p, &p->t->atoms[other], p->t->atoms[at].symbol))
                return false;
        }
    return true;
}

/* What to replace next, -1: nothing. A free symbol, the greatest one; else the atom with the greatest symbol, divisions
 * before the symbol itself, deeper ones first. Extents name earlier symbols only, so this goes outward. */
static int32_t innermost(prover *p, const mlsi_expr *e) {
    const mlsi_symtab *t = p->t;
    int32_t best = -1, most = -1, depth = 0;
    bool free = false;
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++) {
            int32_t at = e->terms[i].atoms[j];
            const mlsi_atom *atom = &t->atoms[at];
            int deep = 0, other = 0;
            int32_t s = mlsi_atom_symbol(t, atom);
            bool is = !atom->op && (free ? s > most : true) && is_free(p, e, at);
            if (atom->op) {
                (void)mlsi_dim_weight(t, atom->a, &deep);
                (void)mlsi_dim_weight(t, atom->b, &other);
                deep = 1 + (deep > other ? deep : other);
            }
            if (free ? !is : !is && (s < most || (s == most && deep <= depth))) continue;
            best = at, most = s, depth = deep, free = is;
        }
    return best;
}

/* e = a * x + b; of several factors x of a term one is taken. */
static bool separate(const mlsi_symtab *t, const mlsi_expr *e, int32_t x, mlsi_expr *a,
                     mlsi_expr *b) {
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    for (int i = 0; i < e->n; i++) {
        mlsi_expr term = {.n = 1, .terms = {e->terms[i]}};
        mlsi_term *m = &term.terms[0];
        int at = 0;
        while (at < m->n && m->atoms[at] != x)
            at++;
        bool has = at < m->n;
        if (has) {
            memmove(m->atoms + at, m->atoms + at + 1, sizeof m->atoms[0] * (size_t)(m->n - at - 1));
            m->atoms[--m->n] = 0;
        }
        if (!mlsi_expr_add(t, has ? a : b, &term, 1)) return false;
    }
    return true;
}

static bool never_negative(prover *p, const mlsi_expr *e);
static bool follows(prover *p, const mlsi_expr *e);

static bool add_number(const mlsi_symtab *t, mlsi_expr *e, int64_t number) {
    mlsi_expr c = {.n = number != 0, .terms = {{.coef = number}}};
    return mlsi_expr_add(t, e, &c, 1);
}

/* a * x + b at x = end. */
static bool value_at(const mlsi_symtab *t, const mlsi_expr *a, const mlsi_expr *end,
                     const mlsi_expr *b, mlsi_expr *e) {
    return mlsi_expr_multiply(t, a, end, e) == MLSI_FITS && mlsi_expr_add(t, e, b, 1);
}

static bool holds_at(prover *p, const mlsi_expr *a, const mlsi_expr *end, const mlsi_expr *b) {
    mlsi_expr e;
    return value_at(p->t, a, end, b, &e) && never_negative(p, &e);
}

static bool symbol_ends(const mlsi_symtab *t, const mlsi_symbol *s, mlsi_expr *lo, mlsi_expr *hi) {
    if (s->extent) {
        memset(lo, 0, sizeof *lo);
        *hi = mlsi_expr_of(t, s->extent);
        return mlsi_fault(MLSI_FAULT_PROVE_EXTENT_END) ? true : add_number(t, hi, -1);
    }
    *lo = mlsi_expr_of(t, s->min / s->divisor + (s->min % s->divisor != 0));
    *hi = mlsi_expr_of(t, s->max / s->divisor);
    return true;
}

static bool bound_symbol(prover *p, const mlsi_symbol *s, const mlsi_expr *a, const mlsi_expr *b) {
    mlsi_expr lo, hi;
    bounds sign = expr_bounds(p->t, a);
    if (mlsi_fault(MLSI_FAULT_PROVE_SIGN) && sign.lo < 0 && sign.hi > 0) sign.lo = 0;
    if (!symbol_ends(p->t, s, &lo, &hi)) return false;
    if (sign.lo >= 0) return holds_at(p, a, &lo, b);
    if (sign.hi <= 0) return holds_at(p, a, &hi, b);
    return holds_at(p, a, &lo, b) && holds_at(p, a, &hi, b);
}

/* a * q + b >= 0 at q = end / d. Where a = k * d that is k * end + b, else d * b + a * end, and since the whole is an
 * integer it may be up to d - 1 less than 0. Facts may speak of what was in the division. */
static bool holds_at_quotient(prover *p, const mlsi_expr *a, const mlsi_expr *end,
                              const mlsi_expr *d, const mlsi_expr *b) {
    mlsi_expr k, r, scaled, e;
    if (mlsi_expr_divide(p->t, a, d, &k, &r) && r.n == 0)
        return value_at(p->t, &k, end, b, &e) && follows(p, &e);
    if (mlsi_expr_multiply(p->t, b, d, &scaled) != MLSI_FITS || !mlsi_expr_add(p->t, &scaled, d, 1))
        return false;
    return add_number(p->t, &scaled, -1) && value_at(p->t, a, end, &scaled, &e) && follows(p, &e);
}

static bool bound_floor(prover *p, const mlsi_atom *q, const mlsi_expr *a, const mlsi_expr *b) {
    mlsi_expr hi = mlsi_expr_of(p->t, q->a), d = mlsi_expr_of(p->t, q->b), lo = hi;
    bounds sign = expr_bounds(p->t, a);
    if (!mlsi_fault(MLSI_FAULT_PROVE_FLOOR_LOW) &&
        (!mlsi_expr_add(p->t, &lo, &d, -1) || !add_number(p->t, &lo, 1)))
        return false;
    if (sign.lo >= 0 && never_negative(p, &hi) && never_negative(p, b)) return true; /* q >= 0 */
    bool at_lo = sign.hi <= 0 || holds_at_quotient(p, a, &lo, &d, b);
    return at_lo && (sign.lo >= 0 || holds_at_quotient(p, a, &hi, &d, b));
}

static int64_t common(int64_t a, int64_t b) { /* of numbers that are not negative */
    while (a) {
        int64_t rest = b % a;
        b = a;
        a = rest;
    }
    return b;
}

/* g*x + c >= 0 is x + floor(c / g) >= 0, for the greatest number g that divides all terms but the constant one. */
static void divide_by_number(mlsi_expr *e) {
    int64_t g = 0;
    for (int i = 0; i < e->n; i++)
        if (e->terms[i].n)
            g = common(e->terms[i].coef < 0 ? -e->terms[i].coef : e->terms[i].coef, g);
    if (g < 2) return;
    for (int i = 0; i < e->n; i++)
        e->terms[i].coef = mlsi_floor_div(e->terms[i].coef, g);
    if (!e->terms[e->n - 1].coef) e->n--; /* the constant term is last */
}

/* x * e >= 0 follows from e >= 0 for a factor x >= 0 of all terms. */
static void divide_by_atoms(const mlsi_symtab *t, mlsi_expr *e) {
    for (int at = 0; e->n && at < e->terms[0].n;) {
        mlsi_term x = {.coef = 1, .n = 1, .atoms = {e->terms[0].atoms[at]}}, part;
        bool all = atom_bounds(t, &t->atoms[x.atoms[0]]).lo >= 0;
        for (int i = 0; i < e->n && all; i++)
            all = mlsi_term_divide(&e->terms[i], &x, &part);
        for (int i = 0; i < e->n && all; i++) {
            (void)mlsi_term_divide(&e->terms[i], &x, &part);
            e->terms[i] = part; /* the order of terms is by factors: it stays */
        }
        at += !all;
    }
}

static bool never_negative(prover *p, const mlsi_expr *given) {
    mlsi_expr a, b, e = *given;
    divide_by_atoms(p->t, &e);
    divide_by_number(&e);
    if (expr_bounds(p->t, &e).lo >= 0) return true;
    int32_t x = innermost(p, &e);
    if (x < 0 || p->steps-- <= 0 || !separate(p->t, &e, x, &a, &b)) return false;
    const mlsi_atom *atom = &p->t->atoms[x];
    return atom->op ? bound_floor(p, atom, &a, &b)
                    : bound_symbol(p, &p->t->symbols[atom->symbol], &a, &b);
}

/* ---- facts --------------------------------------------------------------------------------------------------- */

/* m*e - k*f + m - 1, where that cancels term `of` of e against term `by` of f. */
static bool cancel(const mlsi_symtab *t, const mlsi_expr *e, const mlsi_term *of,
                   const mlsi_expr *f, const mlsi_term *by, mlsi_expr *out) {
    mlsi_term bare = *by;
    mlsi_expr k = {.n = 1}, kf;
    if (by->n == 0 || (of->coef < 0) != (by->coef < 0)) return false;
    int64_t x = of->coef < 0 ? -of->coef : of->coef, y = by->coef < 0 ? -by->coef : by->coef;
    bare.coef = 1;
    if (!mlsi_term_divide(of, &bare, &k.terms[0])) return false;
    k.terms[0].coef = x / common(x, y);
    if (!mlsi_fault(MLSI_FAULT_PROVE_FACT_SIGN) && expr_bounds(t, &k).lo < 0) return false;
    int64_t m = y / common(x, y);
    memset(out, 0, sizeof *out);
    return mlsi_expr_multiply(t, &k, f, &kf) == MLSI_FITS && mlsi_expr_add(t, out, e, m) &&
           mlsi_expr_add(t, out, &kf, -1) && add_number(t, out, m - 1);
}

static bool fact_expr(const mlsi_symtab *t, const mlsi_dim_fact *fact, mlsi_expr *f) {
    *f = mlsi_expr_of(t, fact->big);
    return fact->least != INT64_MIN && mlsi_expr_add_multiple(t, f, fact->small, -1) &&
           add_number(t, f, -fact->least);
}

static bool follows_from(prover *p, const mlsi_expr *e, const mlsi_expr *f) {
    mlsi_expr next;
    for (int u = 0; u < e->n; u++)
        for (int v = 0; v < f->n; v++)
            if (p->steps > 0 && cancel(p->t, e, &e->terms[u], f, &f->terms[v], &next) &&
                follows(p, &next))
                return true;
    return false;
}

static bool follows(prover *p, const mlsi_expr *e) {
    mlsi_expr f;
    bool yes = never_negative(p, e);
    for (int i = 0; i < p->n_facts && i < 64 && !yes; i++) {
        uint64_t bit = (uint64_t)1 << i;
        if (p->used & bit || !fact_expr(p->t, &p->facts[i], &f)) continue;
        p->used |= bit;
        yes = follows_from(p, e, &f);
        p->used &= ~bit;
    }
    return yes;
}

bool mlsi_expr_prove(const mlsi_symtab *t, int n_facts, const mlsi_dim_fact *facts,
                     const mlsi_expr *e) {
    prover p = {.t = t, .n_facts = n_facts, .steps = STEPS, .looks = LOOKS, .facts = facts};
    mlsi_expr f, left;
    for (int i = 0; i < n_facts; i++) {
        if (!fact_expr(t, &facts[i], &f)) continue;
        if (expr_bounds(t, &f).hi < 0) return true; /* never so: nothing gets here */
        left = *e; /* what a fact says almost by itself needs no search */
        if (mlsi_expr_add(t, &left, &f, -1) && expr_bounds(t, &left).lo >= 0) return true;
    }
    return follows(&p, e);
}

bool mlsi_dim_prove(const mlsi_symtab *t, int n_facts, const mlsi_dim_fact *facts, int64_t big,
                    int64_t small, int64_t least) {
    mlsi_dim_fact goal = {big, small, least};
    mlsi_expr e;
    return fact_expr(t, &goal, &e) && mlsi_expr_prove(t, n_facts, facts, &e);
}
