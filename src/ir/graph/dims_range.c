/* What values a dim can have. */
#include "ir/graph/dims.h"

#include <string.h>

/* Ends saturate; saturated tells that one of them did on the way, and is then only a bound for
 * those bindings under which the expression can be evaluated at all. */
typedef struct interval {
    int64_t min, max;
    bool saturated;
} interval;

static int64_t sat_mul(int64_t a, int64_t b, bool *saturated) {
    int64_t r;
    if (mlsi_mul_i64(a, b, &r)) return r;
    *saturated = true;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static int64_t sat_add(int64_t a, int64_t b, bool *saturated) {
    int64_t r;
    if (mlsi_add_i64(a, b, &r)) return r;
    *saturated = true;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static interval atom_interval(const mlsi_symtab *t, const mlsi_atom *atom);

static interval times(interval x, interval y) {
    bool s = x.saturated || y.saturated;
    int64_t p[4] = {sat_mul(x.min, y.min, &s), sat_mul(x.min, y.max, &s), sat_mul(x.max, y.min, &s),
                    sat_mul(x.max, y.max, &s)};
    interval r = {p[0], p[0], s};
    for (int k = 1; k < 4; k++) {
        if (p[k] < r.min) r.min = p[k];
        if (p[k] > r.max) r.max = p[k];
    }
    return r;
}

static interval plus(interval x, interval y) {
    interval r = {0, 0, x.saturated || y.saturated};
    r.min = sat_add(x.min, y.min, &r.saturated);
    r.max = sat_add(x.max, y.max, &r.saturated);
    return r;
}

/* Term by term: terms that share an atom are taken for independent. */
static interval expr_interval(const mlsi_symtab *t, const mlsi_expr *e) {
    interval sum = {0, 0, false};
    for (int i = 0; i < e->n; i++) {
        interval term = {e->terms[i].coef, e->terms[i].coef, false};
        for (int j = 0; j < e->terms[i].n; j++)
            term = times(term, atom_interval(t, &t->atoms[e->terms[i].atoms[j]]));
        sum = plus(sum, term);
    }
    return sum;
}

static interval dim_interval(const mlsi_symtab *t, int64_t d) {
    if (mlsi_dim_is_code(t, d)) return expr_interval(t, &t->exprs[MLSI_DIM_CODE - d]);
    return (interval){d, d, false};
}

static interval atom_interval(const mlsi_symtab *t, const mlsi_atom *atom) {
    if (!atom->op) {
        const mlsi_symbol *s = &t->symbols[atom->symbol];
        int64_t least = s->min / s->divisor + (s->min % s->divisor != 0);
        return (interval){least, s->max / s->divisor, false};
    }
    interval a = dim_interval(t, atom->a), b = dim_interval(t, atom->b);
    if (b.min < 1) b.min = 1;
    if (b.max < 1) b.max = 1;
    return (interval){mlsi_floor_div(a.min, a.min < 0 ? b.min : b.max),
                      mlsi_floor_div(a.max, a.max < 0 ? b.max : b.min), a.saturated || b.saturated};
}

bool mlsi_atom_range(const mlsi_symtab *t, const mlsi_atom *atom, int64_t *min, int64_t *max) {
    interval r = atom_interval(t, atom);
    *min = r.min;
    *max = r.max;
    return !r.saturated;
}

/* c * floor(r / b) with c = k * b is k * (r - r mod b), and r mod b is in [0, b). Replacing the
 * floor by that shows that a remainder, and what is missing to a multiple, are not negative.
 * Rewrites the first such term of e and adds the interval of -k * (r mod b) to mod. */
static bool open_floor(const mlsi_symtab *t, mlsi_expr *e, interval *mod) {
    for (int i = 0; i < e->n; i++) {
        mlsi_term term = e->terms[i];
        const mlsi_atom *atom = term.n == 1 ? &t->atoms[term.atoms[0]] : NULL;
        if (!atom || !atom->op || atom->b < 1 || term.coef % atom->b) continue;
        int64_t k = term.coef / atom->b;
        mlsi_expr rest = *e;
        memmove(&rest.terms[i], &rest.terms[i + 1], sizeof term * (size_t)(rest.n - i - 1));
        memset(&rest.terms[--rest.n], 0, sizeof term);
        if (!mlsi_expr_add_multiple(t, &rest, atom->a, k)) continue;
        int64_t most = k * (atom->b - 1); /* |most| < |coef| */
        *mod = plus(*mod, (interval){most > 0 ? -most : 0, most > 0 ? 0 : -most, false});
        *e = rest;
        return true;
    }
    return false;
}

void mlsi_dim_range(const mlsi_symtab *t, int64_t d, int64_t *min, int64_t *max) {
    interval r = dim_interval(t, d), mod = {0, 0, false};
    if (mlsi_dim_is_code(t, d)) {
        mlsi_expr e = t->exprs[MLSI_DIM_CODE - d];
        for (int step = 0; step < MLSI_DIM_WEIGHT && open_floor(t, &e, &mod); step++) {
            interval x = plus(expr_interval(t, &e), mod);
            if (x.saturated) break;
            if (x.min > r.min) r.min = x.min;
            if (x.max < r.max) r.max = x.max;
        }
    }
    *min = r.min;
    *max = r.max;
}

/* ---- values ------------------------------------------------------------------------------------
 */

static mlsys_status atom_eval(const mlsi_symtab *t, const mlsi_atom *atom, const int64_t *binding,
                              int64_t *out) {
    if (!atom->op) return *out = binding[atom->symbol] / t->symbols[atom->symbol].divisor, MLSYS_OK;
    int64_t a, b;
    MLSI_TRY(mlsi_dim_eval(t, atom->a, binding, &a));
    MLSI_TRY(mlsi_dim_eval(t, atom->b, binding, &b));
    if (b < 1) return mlsi_fail(MLSYS_E_SHAPE, "dim: division by %lld", (long long)b);
    *out = mlsi_floor_div(a, b);
    return MLSYS_OK;
}

mlsys_status mlsi_dim_eval(const mlsi_symtab *t, int64_t d, const int64_t *binding, int64_t *out) {
    if (!mlsi_dim_is_code(t, d)) return *out = d, MLSYS_OK;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    int64_t sum = 0;
    for (int i = 0; i < e->n; i++) {
        int64_t product = e->terms[i].coef, v;
        for (int j = 0; j < e->terms[i].n; j++) {
            MLSI_TRY(atom_eval(t, &t->atoms[e->terms[i].atoms[j]], binding, &v));
            if (!mlsi_mul_i64(product, v, &product))
                return mlsi_fail(MLSYS_E_SHAPE, "dim: overflow of int64");
        }
        if (!mlsi_add_i64(sum, product, &sum))
            return mlsi_fail(MLSYS_E_SHAPE, "dim: overflow of int64");
    }
    *out = sum;
    return MLSYS_OK;
}

bool mlsi_dim_solve(const mlsi_symtab *t, int64_t d, int64_t value, int32_t *symbol,
                    int64_t *unit) {
    if (!mlsi_dim_is_code(t, d)) return false;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    if (e->n > 2 || e->terms[0].n != 1 || (e->n == 2 && e->terms[1].n)) return false;
    const mlsi_atom *atom = &t->atoms[e->terms[0].atoms[0]];
    int64_t c = e->terms[0].coef, k = e->n == 2 ? e->terms[1].coef : 0, left;
    if (atom->op || !mlsi_add_i64(value, -k, &left) || left % c) return false;
    *symbol = atom->symbol;
    *unit = left / c;
    return *unit >= 0;
}
