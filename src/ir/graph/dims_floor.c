/* Division of dims. Each rule states its domain; tests/unit/check_dims.c and check_prove.c compare with plain
 * evaluation over whole ranges (BO-09). */
#include "ir/graph/dims.h"

#include "core/faults.h"

#include <string.h>

bool mlsi_term_divide(const mlsi_term *term, const mlsi_term *divisor, mlsi_term *out) {
    memset(out, 0, sizeof *out);
    /* |coef| < 2^63: no overflow */
    if (term->coef % divisor->coef && !mlsi_fault(MLSI_FAULT_DIM_DIVIDES)) return false;
    out->coef = term->coef / divisor->coef;
    int v = 0;
    for (int u = 0; u < term->n; u++) {
        if (v < divisor->n && term->atoms[u] == divisor->atoms[v])
            v++;
        else
            out->atoms[out->n++] = term->atoms[u];
    }
    return v == divisor->n;
}

bool mlsi_expr_divide(const mlsi_symtab *t, const mlsi_expr *x, const mlsi_expr *y, mlsi_expr *q,
                      mlsi_expr *r) {
    memset(q, 0, sizeof *q);
    *r = *x;
    for (int step = 0, i = 0; i < r->n;) {
        mlsi_expr part, product;
        memset(&part, 0, sizeof part);
        if (!mlsi_term_divide(&r->terms[i], &y->terms[0], &part.terms[0])) {
            i++;
            continue;
        }
        part.n = 1;
        if (++step > 2 * MLSI_EXPR_TERMS || !mlsi_expr_add(t, q, &part, 1) ||
            mlsi_expr_multiply(t, &part, y, &product) != MLSI_FITS ||
            !mlsi_expr_add(t, r, &product, -1))
            return false;
        i = 0;
    }
    return true;
}

/* floor(r / b) as one atom, or a number where the ranges leave only one: 0 needs 0 <= r < b, so the
 * lower bound counts as much as the upper one. */
static mlsys_status add_floor(mlsi_symtab *t, const mlsi_expr *r, int64_t b, mlsi_expr *q) {
    mlsi_atom atom;
    mlsi_expr e;
    int64_t lo, hi;
    int na, nb;
    memset(&atom, 0, sizeof atom);
    atom.op = '/';
    atom.b = b;
    MLSI_TRY(mlsi_expr_intern(t, r, &atom.a));
    bool known = mlsi_atom_range(t, &atom, &lo, &hi);
    if (mlsi_fault(MLSI_FAULT_DIM_FLOOR_DOMAIN) && hi == 0) lo = 0;
    if (known && lo == hi) {
        mlsi_term constant = {.coef = lo};
        return mlsi_expr_add_term(t, q, &constant);
    }
    if (mlsi_dim_weight(t, atom.a, &na) + mlsi_dim_weight(t, b, &nb) > MLSI_DIM_WEIGHT ||
        (na > nb ? na : nb) >= MLSI_DIM_NEST)
        return mlsi_dim_too_large();
    MLSI_TRY(mlsi_expr_of_atom(t, &atom, 1, &e));
    return mlsi_expr_add_term(t, q, &e.terms[0]);
}

/* ---- divisions that the extents of variables decide --------------------------------------------------- */

static bool dim_has_variable(const mlsi_symtab *t, int64_t d);

static bool has_variable(const mlsi_symtab *t, const mlsi_expr *e) {
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[e->terms[i].atoms[j]];
            if (atom->op ? dim_has_variable(t, atom->a) || dim_has_variable(t, atom->b)
                         : t->symbols[atom->symbol].extent != 0)
                return true;
        }
    return false;
}

static bool dim_has_variable(const mlsi_symtab *t, int64_t d) {
    return mlsi_dim_is_code(t, d) && has_variable(t, &t->exprs[MLSI_DIM_CODE - d]);
}

/* 0 <= r < y, provably? */
static bool in_window(const mlsi_symtab *t, const mlsi_expr *r, const mlsi_expr *y) {
    mlsi_expr left = *y, minus_one = {.n = 1, .terms = {{.coef = -1}}};
    if (!mlsi_expr_add(t, &left, &minus_one, 1) || !mlsi_expr_add(t, &left, r, -1)) return false;
    bool low = mlsi_fault(MLSI_FAULT_DIM_WINDOW_LOW) || mlsi_expr_prove(t, 0, NULL, r);
    return low && (mlsi_fault(MLSI_FAULT_DIM_WINDOW_HIGH) || mlsi_expr_prove(t, 0, NULL, &left));
}

/* floor(r / y) = 0 where 0 <= r < y, -1 where -y <= r < 0: adds it to q. */
static bool add_known_floor(const mlsi_symtab *t, const mlsi_expr *r, const mlsi_expr *y,
                            mlsi_expr *q) {
    mlsi_expr up = *r, minus_one = {.n = 1, .terms = {{.coef = -1}}};
    if (in_window(t, r, y)) return true;
    return mlsi_expr_add(t, &up, y, 1) && in_window(t, &up, y) &&
           mlsi_expr_add(t, q, &minus_one, 1);
}

static int64_t common(int64_t a, int64_t b) { /* b > 0 */
    if (a < 0) a = -a;
    while (a) {
        int64_t rest = b % a;
        b = a;
        a = rest;
    }
    return b;
}

static mlsi_term common_term(const mlsi_term *a, const mlsi_term *b) {
    mlsi_term g;
    memset(&g, 0, sizeof g);
    g.coef = common(a->coef, b->coef);
    for (int u = 0, v = 0; u < a->n; u++) {
        int from = v;
        while (from < b->n && b->atoms[from] != a->atoms[u])
            from++;
        if (from == b->n) continue;
        g.atoms[g.n++] = a->atoms[u];
        v = from + 1;
    }
    return g;
}

/* r = g * inner + rest, with the multiples of g in inner. */
static bool take_factor(const mlsi_symtab *t, const mlsi_expr *r, const mlsi_term *g,
                        mlsi_expr *inner, mlsi_expr *rest) {
    memset(inner, 0, sizeof *inner);
    memset(rest, 0, sizeof *rest);
    for (int i = 0; i < r->n; i++) {
        mlsi_expr part = {.n = 1}, left = {.n = 1, .terms = {r->terms[i]}};
        if (mlsi_term_divide(&r->terms[i], g, &part.terms[0])) {
            left.n = 0;
        } else if (r->terms[i].n == 0 && g->n == 0) {
            memset(&part.terms[0], 0, sizeof part.terms[0]);
            part.terms[0].coef = mlsi_floor_div(r->terms[i].coef, g->coef);
            left.terms[0].coef = r->terms[i].coef - part.terms[0].coef * g->coef;
        } else {
            part.n = 0;
        }
        if (!mlsi_expr_add(t, inner, &part, 1) || !mlsi_expr_add(t, rest, &left, 1)) return false;
    }
    return true;
}

/* floor((g*x + s) / (g*c)) = floor(x / c) where 0 <= s < g; g, c >= 1. The first g of the terms' common
 * factors with the divisor for which that is so; *done tells whether there is one. */
static mlsys_status floor_by_factor(mlsi_symtab *t, const mlsi_expr *r, const mlsi_expr *y,
                                    mlsi_expr *q, bool *done) {
    *done = false;
    if (y->terms[0].coef < 1) return MLSYS_OK;
    for (int i = 0; i < r->n; i++) {
        mlsi_expr g = {.n = 1, .terms = {common_term(&r->terms[i], &y->terms[0])}}, c = {.n = 1};
        mlsi_expr inner, rest;
        int64_t x, by, part, lo, hi;
        if (g.terms[0].n == 0 && g.terms[0].coef == 1) continue;
        if (!mlsi_term_divide(&y->terms[0], &g.terms[0], &c.terms[0])) continue;
        if (!take_factor(t, r, &g.terms[0], &inner, &rest)) continue;
        if (!mlsi_fault(MLSI_FAULT_DIM_FACTOR_REST) && rest.n && !in_window(t, &rest, &g)) continue;
        MLSI_TRY(mlsi_expr_intern(t, &inner, &x));
        MLSI_TRY(mlsi_expr_intern(t, &c, &by));
        mlsi_dim_range(t, by, &lo, &hi);
        if (lo < 1) continue;
        MLSI_TRY(mlsi_dim_floor(t, x, by, &part));
        *done = mlsi_expr_add_multiple(t, q, part, 1);
        return *done ? MLSYS_OK : mlsi_dim_too_large();
    }
    return MLSYS_OK;
}

/* ---- floor(a / b) ------------------------------------------------------------------------------------- */

/* By long division where that leaves a remainder known to be in [0, b), or none: floor((q*b + r) / b) = q. */
static bool long_division(mlsi_symtab *t, const mlsi_expr *x, const mlsi_expr *y, mlsi_expr *q) {
    mlsi_expr r;
    if (!mlsi_expr_divide(t, x, y, q, &r)) return false;
    return r.n == 0 || (has_variable(t, x) && add_known_floor(t, &r, y, q));
}

/* Terms that b divides leave the division exactly, since floor((q*b + r) / b) is q + floor(r / b); of a
 * constant over a constant the part in [0, b) stays inside. */
static mlsys_status split_terms(const mlsi_symtab *t, const mlsi_expr *x, const mlsi_expr *y,
                                mlsi_expr *q, mlsi_expr *r) {
    memset(q, 0, sizeof *q);
    memset(r, 0, sizeof *r);
    bool number = y->n == 1 && y->terms[0].n == 0;
    int64_t b = y->terms[0].coef;
    for (int i = 0; i < x->n; i++) {
        mlsi_term part, rest = x->terms[i];
        if (y->n == 1 && mlsi_term_divide(&rest, &y->terms[0], &part)) {
            MLSI_TRY(mlsi_expr_add_term(t, q, &part));
            continue;
        }
        if (number && rest.n == 0) {
            part = rest;
            part.coef = mlsi_floor_div(rest.coef, b);
            rest.coef %= b;
            if (rest.coef < 0) rest.coef += b;
            if (mlsi_fault(MLSI_FAULT_DIM_TRUNCATES) && part.coef < 0)
                part.coef += rest.coef > 0, rest.coef = 0;
            MLSI_TRY(mlsi_expr_add_term(t, q, &part));
        }
        MLSI_TRY(mlsi_expr_add_term(t, r, &rest));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_dim_floor(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out) {
    int64_t lo, hi;
    char text[80];
    mlsi_expr x = mlsi_expr_of(t, a), y = mlsi_expr_of(t, b), q, r;
    mlsi_dim_range(t, b, &lo, &hi);
    if (lo < 1)
        return mlsi_fail(MLSYS_E_SHAPE, "dim: divisor %s may be %lld",
                         mlsi_dim_text(t, b, text, sizeof text), (long long)lo);
    if (a == b) return *out = 1, MLSYS_OK;
    if (y.n > 1 && long_division(t, &x, &y, &q)) return mlsi_expr_intern(t, &q, out);
    MLSI_TRY(split_terms(t, &x, &y, &q, &r));
    bool done = r.n == 0;
    if (!done && has_variable(t, &r)) {
        done = add_known_floor(t, &r, &y, &q);
        if (!done && y.n == 1) MLSI_TRY(floor_by_factor(t, &r, &y, &q, &done));
    }
    if (!done) MLSI_TRY(add_floor(t, &r, b, &q));
    return mlsi_expr_intern(t, &q, out);
}

/* ---- exact quotients --------------------------------------------------------------------------------- */

/* a == c * b for a constant c? */
static mlsys_status constant_ratio(mlsi_symtab *t, const mlsi_expr *x, const mlsi_expr *y,
                                   int64_t *out, bool *exact) {
    if (x->n != y->n || x->terms[0].coef % y->terms[0].coef) return MLSYS_OK;
    int64_t c = x->terms[0].coef / y->terms[0].coef, product;
    for (int i = 0; i < x->n; i++) {
        if (mlsi_term_order(t, &x->terms[i], &y->terms[i]) ||
            !mlsi_mul_i64(y->terms[i].coef, c, &product) || product != x->terms[i].coef)
            return MLSYS_OK;
    }
    if (c < 1) return MLSYS_OK;
    return *out = c, *exact = true, MLSYS_OK;
}

mlsys_status mlsi_dim_divide_exact(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out,
                                   bool *exact) {
    *exact = false;
    *out = 0;
    if (b == 0) return MLSYS_OK;
    if (a == b) return *exact = true, *out = 1, MLSYS_OK;
    if (a == 0) return *exact = true, MLSYS_OK;
    mlsi_expr x = mlsi_expr_of(t, a), y = mlsi_expr_of(t, b), q;
    memset(&q, 0, sizeof q);
    if (y.n != 1) return constant_ratio(t, &x, &y, out, exact);
    for (int i = 0; i < x.n; i++) {
        mlsi_term part;
        if (!mlsi_term_divide(&x.terms[i], &y.terms[0], &part)) return MLSYS_OK;
        MLSI_TRY(mlsi_expr_add_term(t, &q, &part));
    }
    *exact = true;
    return mlsi_expr_intern(t, &q, out);
}
