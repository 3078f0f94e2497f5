#include "ir/graph/dims.h"

#include <string.h>

void mlsi_symtab_init(mlsi_symtab *t, mlsi_alloc *a) {
    memset(t, 0, sizeof *t);
    t->alloc = a;
    mlsi_arena_init(&t->arena, a);
}

void mlsi_symtab_free(mlsi_symtab *t) {
    mlsi_mem_free(t->alloc, t->symbols);
    mlsi_mem_free(t->alloc, t->atoms);
    mlsi_mem_free(t->alloc, t->exprs);
    mlsi_arena_free(&t->arena);
    t->symbols = NULL, t->atoms = NULL, t->exprs = NULL;
    t->n_symbols = t->n_atoms = t->n_exprs = 0;
    t->cap_symbols = t->cap_atoms = t->cap_exprs = 0;
}

bool mlsi_dim_valid(const mlsi_symtab *t, int64_t d) { return d >= 0 || mlsi_dim_is_code(t, d); }

static mlsys_status too_large(void) {
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "dim: expression has more than %d terms or %d factors in a term",
                     MLSI_EXPR_TERMS, MLSI_TERM_ATOMS);
}

static mlsys_status overflow(void) { return mlsi_fail(MLSYS_E_SHAPE, "dim: overflow of int64"); }

static mlsi_expr expand(const mlsi_symtab *t, int64_t d) {
    mlsi_expr e;
    memset(&e, 0, sizeof e);
    if (d < 0) return t->exprs[MLSI_DIM_CODE - d];
    if (d > 0) {
        e.n = 1;
        e.terms[0].coef = d;
    }
    return e;
}

/* Fixed order: more factors first, then by factors; the constant term is last. */
static int term_order(const mlsi_term *a, const mlsi_term *b) {
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++)
        if (a->atoms[i] != b->atoms[i]) return a->atoms[i] < b->atoms[i] ? -1 : 1;
    return 0;
}

/* e += term, keeping order and dropping zero coefficients. */
static mlsys_status add_term(mlsi_expr *e, const mlsi_term *term) {
    int i = 0;
    if (!term->coef) return MLSYS_OK;
    while (i < e->n && term_order(&e->terms[i], term) < 0) i++;
    if (i < e->n && term_order(&e->terms[i], term) == 0) {
        if (!mlsi_add_i64(e->terms[i].coef, term->coef, &e->terms[i].coef)) return overflow();
        if (!e->terms[i].coef) {
            memmove(&e->terms[i], &e->terms[i + 1], sizeof *term * (size_t)(e->n - i - 1));
            memset(&e->terms[--e->n], 0, sizeof *term);
        }
        return MLSYS_OK;
    }
    if (e->n == MLSI_EXPR_TERMS) return too_large();
    memmove(&e->terms[i + 1], &e->terms[i], sizeof *term * (size_t)(e->n - i));
    e->terms[i] = *term;
    e->n++;
    return MLSYS_OK;
}

static mlsys_status intern(mlsi_symtab *t, const mlsi_expr *e, int64_t *out) {
    if (e->n == 0) return *out = 0, MLSYS_OK;
    if (e->n == 1 && e->terms[0].n == 0 && e->terms[0].coef > 0)
        return *out = e->terms[0].coef, MLSYS_OK;
    for (int64_t i = 0; i < t->n_exprs; i++)
        if (!memcmp(&t->exprs[i], e, sizeof *e)) return *out = MLSI_DIM_CODE - i, MLSYS_OK;
    MLSI_TRY(MLSI_GROW(t->alloc, &t->exprs, &t->cap_exprs, t->n_exprs + 1));
    *out = MLSI_DIM_CODE - t->n_exprs;
    t->exprs[t->n_exprs++] = *e;
    return MLSYS_OK;
}

static void atom_range(const mlsi_symtab *t, const mlsi_atom *atom, int64_t *lo, int64_t *hi);

static mlsys_status atom_dim(mlsi_symtab *t, const mlsi_atom *atom, int64_t *out) {
    int64_t i = 0;
    while (i < t->n_atoms && memcmp(&t->atoms[i], atom, sizeof *atom)) i++;
    if (i == t->n_atoms) {
        MLSI_TRY(MLSI_GROW(t->alloc, &t->atoms, &t->cap_atoms, i + 1));
        t->atoms[t->n_atoms++] = *atom;
    }
    mlsi_expr e;
    memset(&e, 0, sizeof e);
    e.n = 1;
    e.terms[0].coef = 1;
    e.terms[0].n = 1;
    e.terms[0].atoms[0] = (int32_t)i;
    return intern(t, &e, out);
}

mlsys_status mlsi_dim_symbol(mlsi_symtab *t, const char *name, int64_t min, int64_t max,
                             int64_t divisor, int64_t *out) {
    if (!name || !name[0] || strlen(name) > 63 || strspn(name, "0123456789") ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
        return mlsi_fail(MLSYS_E_ARG, "symbol: \"%s\" is not a name (letters, digits, _; at most 63)",
                         name ? name : "");
    if (min < 0 || max < min || divisor < 1 || max / divisor * divisor < min)
        return mlsi_fail(MLSYS_E_ARG, "symbol %s: range [%lld, %lld] divisor %lld holds no extent", name,
                         (long long)min, (long long)max, (long long)divisor);
    int64_t i = 0;
    while (i < t->n_symbols && strcmp(t->symbols[i].name, name)) i++;
    if (i < t->n_symbols) {
        const mlsi_symbol *s = &t->symbols[i];
        if (s->min != min || s->max != max || s->divisor != divisor)
            return mlsi_fail(MLSYS_E_ARG,
                             "symbol %s: range [%lld, %lld] divisor %lld differs from the earlier "
                             "[%lld, %lld] divisor %lld",
                             name, (long long)min, (long long)max, (long long)divisor,
                             (long long)s->min, (long long)s->max, (long long)s->divisor);
    } else {
        MLSI_TRY(MLSI_GROW(t->alloc, &t->symbols, &t->cap_symbols, i + 1));
        mlsi_symbol s = {NULL, min, max, divisor};
        MLSI_TRY(mlsi_arena_strdup(&t->arena, name, &s.name));
        t->symbols[t->n_symbols++] = s;
    }
    mlsi_atom atom;
    memset(&atom, 0, sizeof atom);
    atom.symbol = (int32_t)i;
    int64_t lo, hi;
    atom_range(t, &atom, &lo, &hi);
    if (lo == hi) return *out = lo, MLSYS_OK; /* one value only: as good as a constant */
    return atom_dim(t, &atom, out);
}

static mlsys_status multiply(const mlsi_expr *a, const mlsi_expr *b, mlsi_expr *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            const mlsi_term *x = &a->terms[i], *y = &b->terms[j];
            mlsi_term p;
            memset(&p, 0, sizeof p);
            if (!mlsi_mul_i64(x->coef, y->coef, &p.coef)) return overflow();
            if (x->n + y->n > MLSI_TERM_ATOMS) return too_large();
            for (int u = 0, v = 0; u < x->n || v < y->n;)
                p.atoms[p.n++] = v == y->n || (u < x->n && x->atoms[u] <= y->atoms[v])
                                     ? x->atoms[u++]
                                     : y->atoms[v++];
            MLSI_TRY(add_term(out, &p));
        }
    return MLSYS_OK;
}

/* term / divisor when every factor of the divisor is in the term. */
static bool divide_term(const mlsi_term *term, const mlsi_term *divisor, mlsi_term *out) {
    memset(out, 0, sizeof *out);
    if (term->coef % divisor->coef) return false;
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

/* floor(a / b): terms that b divides leave the division exactly, since floor(q*b + r over b) is
 * q + floor(r / b); what remains becomes one atom. */
static mlsys_status divide(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out) {
    int64_t lo, hi;
    mlsi_dim_range(t, b, &lo, &hi);
    if (lo < 1) return mlsi_fail(MLSYS_E_SHAPE, "dim: divisor may be %lld", (long long)lo);
    mlsi_expr x = expand(t, a), y = expand(t, b), q, r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (a == b) return *out = 1, MLSYS_OK;
    for (int i = 0; i < x.n; i++) {
        mlsi_term part, rest = x.terms[i];
        if (y.n == 1 && divide_term(&x.terms[i], &y.terms[0], &part)) {
            MLSI_TRY(add_term(&q, &part));
            continue;
        }
        if (b > 0 && rest.n == 0) { /* constant over constant: keep the remainder in [0, b) */
            int64_t f = rest.coef / b - (rest.coef % b < 0);
            part = rest;
            part.coef = f;
            rest.coef -= f * b;
            MLSI_TRY(add_term(&q, &part));
        }
        MLSI_TRY(add_term(&r, &rest));
    }
    if (r.n && !(b > 0 && r.n == 1 && r.terms[0].n == 0)) {
        mlsi_atom atom;
        memset(&atom, 0, sizeof atom);
        atom.op = '/';
        MLSI_TRY(intern(t, &r, &atom.a));
        atom.b = b;
        int64_t d;
        MLSI_TRY(atom_dim(t, &atom, &d));
        mlsi_expr e = expand(t, d);
        MLSI_TRY(add_term(&q, &e.terms[0]));
    }
    return intern(t, &q, out);
}

mlsys_status mlsi_dim_op(mlsi_symtab *t, int op, int64_t a, int64_t b, int64_t *out) {
    if (!mlsi_dim_valid(t, a) || !mlsi_dim_valid(t, b))
        return mlsi_fail(MLSYS_E_ARG, "dim: %lld is not a dim of this graph",
                         (long long)(mlsi_dim_valid(t, a) ? b : a));
    if (op == '/') return divide(t, a, b, out);
    if (op == '%') { /* a - b * floor(a / b) */
        int64_t q;
        MLSI_TRY(divide(t, a, b, &q));
        MLSI_TRY(mlsi_dim_op(t, '*', q, b, &q));
        return mlsi_dim_op(t, '-', a, q, out);
    }
    mlsi_expr x = expand(t, a), y = expand(t, b), r;
    if (op == '*') {
        MLSI_TRY(multiply(&x, &y, &r));
        return intern(t, &r, out);
    }
    if (op != '+' && op != '-')
        return mlsi_fail(MLSYS_E_ARG, "dim: operator %d is not one of + - * / %%", op);
    for (int i = 0; i < y.n; i++) {
        mlsi_term term = y.terms[i];
        if (op == '-' && !mlsi_mul_i64(term.coef, -1, &term.coef)) return overflow();
        MLSI_TRY(add_term(&x, &term));
    }
    return intern(t, &x, out);
}

mlsys_status mlsi_dim_divide_exact(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out,
                                   bool *exact) {
    *exact = false;
    *out = 0;
    if (b == 0) return MLSYS_OK;
    if (a == b) return *exact = true, *out = 1, MLSYS_OK;
    mlsi_expr x = expand(t, a), y = expand(t, b), q;
    memset(&q, 0, sizeof q);
    if (y.n != 1) { /* a == c * b for a constant c? */
        if (x.n != y.n || x.terms[0].coef % y.terms[0].coef) return MLSYS_OK;
        int64_t c = x.terms[0].coef / y.terms[0].coef, product;
        if (c < 1 || mlsi_dim_op(t, '*', b, c, &product) != MLSYS_OK || product != a)
            return MLSYS_OK;
        return *out = c, *exact = true, MLSYS_OK;
    }
    for (int i = 0; i < x.n; i++) {
        mlsi_term part;
        if (!divide_term(&x.terms[i], &y.terms[0], &part)) return MLSYS_OK;
        MLSI_TRY(add_term(&q, &part));
    }
    *exact = true;
    return intern(t, &q, out);
}

static int64_t sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (mlsi_mul_i64(a, b, &r)) return r;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
static int64_t sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (mlsi_add_i64(a, b, &r)) return r;
    return a < 0 ? INT64_MIN : INT64_MAX;
}
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

static void atom_range(const mlsi_symtab *t, const mlsi_atom *atom, int64_t *lo, int64_t *hi) {
    if (!atom->op) {
        const mlsi_symbol *s = &t->symbols[atom->symbol];
        int64_t d = s->divisor;
        *lo = s->min % d ? sat_add(s->min - s->min % d, d) : s->min;
        *hi = s->max - s->max % d;
        return;
    }
    int64_t a0, a1, b0, b1;
    mlsi_dim_range(t, atom->a, &a0, &a1);
    mlsi_dim_range(t, atom->b, &b0, &b1);
    if (b0 < 1) b0 = 1;
    *lo = floor_div(a0, a0 < 0 ? b0 : b1);
    *hi = floor_div(a1, a1 < 0 ? b1 : b0);
}

void mlsi_dim_range(const mlsi_symtab *t, int64_t d, int64_t *min, int64_t *max) {
    if (!mlsi_dim_is_code(t, d)) {
        *min = *max = d;
        return;
    }
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    *min = *max = 0;
    for (int i = 0; i < e->n; i++) {
        int64_t lo = e->terms[i].coef, hi = lo;
        for (int j = 0; j < e->terms[i].n; j++) {
            int64_t a, b;
            atom_range(t, &t->atoms[e->terms[i].atoms[j]], &a, &b);
            int64_t p[4] = {sat_mul(lo, a), sat_mul(lo, b), sat_mul(hi, a), sat_mul(hi, b)};
            lo = hi = p[0];
            for (int k = 1; k < 4; k++) {
                if (p[k] < lo) lo = p[k];
                if (p[k] > hi) hi = p[k];
            }
        }
        *min = sat_add(*min, lo);
        *max = sat_add(*max, hi);
    }
}

static mlsys_status atom_eval(const mlsi_symtab *t, const mlsi_atom *atom, const int64_t *binding,
                              int64_t *out) {
    if (!atom->op) return *out = binding[atom->symbol], MLSYS_OK;
    int64_t a, b;
    MLSI_TRY(mlsi_dim_eval(t, atom->a, binding, &a));
    MLSI_TRY(mlsi_dim_eval(t, atom->b, binding, &b));
    if (b < 1) return mlsi_fail(MLSYS_E_SHAPE, "dim: division by %lld", (long long)b);
    *out = floor_div(a, b);
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
            if (!mlsi_mul_i64(product, v, &product)) return overflow();
        }
        if (!mlsi_add_i64(sum, product, &sum)) return overflow();
    }
    *out = sum;
    return MLSYS_OK;
}

int32_t mlsi_dim_as_symbol(const mlsi_symtab *t, int64_t d) {
    if (!mlsi_dim_is_code(t, d)) return -1;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    if (e->n != 1 || e->terms[0].coef != 1 || e->terms[0].n != 1) return -1;
    const mlsi_atom *atom = &t->atoms[e->terms[0].atoms[0]];
    return atom->op ? -1 : atom->symbol;
}

mlsys_status mlsi_dim_import(mlsi_symtab *to, const mlsi_symtab *from, int64_t d, int64_t *out) {
    if (!mlsi_dim_is_code(from, d)) return *out = d, MLSYS_OK;
    mlsi_expr e = from->exprs[MLSI_DIM_CODE - d];
    int64_t sum = 0;
    for (int i = 0; i < e.n; i++) {
        mlsi_expr c;
        memset(&c, 0, sizeof c);
        c.n = 1;
        c.terms[0].coef = e.terms[i].coef;
        int64_t product, v;
        MLSI_TRY(intern(to, &c, &product));
        for (int j = 0; j < e.terms[i].n; j++) {
            mlsi_atom atom = from->atoms[e.terms[i].atoms[j]];
            if (!atom.op) {
                const mlsi_symbol *s = &from->symbols[atom.symbol];
                MLSI_TRY(mlsi_dim_symbol(to, s->name, s->min, s->max, s->divisor, &v));
            } else {
                MLSI_TRY(mlsi_dim_import(to, from, atom.a, &atom.a));
                MLSI_TRY(mlsi_dim_import(to, from, atom.b, &atom.b));
                MLSI_TRY(mlsi_dim_op(to, atom.op, atom.a, atom.b, &v));
            }
            MLSI_TRY(mlsi_dim_op(to, '*', product, v, &product));
        }
        MLSI_TRY(mlsi_dim_op(to, '+', sum, product, &sum));
    }
    *out = sum;
    return MLSYS_OK;
}
