#include "ir/graph/dims.h"

#include "core/faults.h"
#include "core/hash.h"

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
    mlsi_mem_free(t->alloc, t->slots);
    mlsi_arena_free(&t->arena);
    t->symbols = NULL, t->atoms = NULL, t->exprs = NULL, t->slots = NULL;
    t->n_symbols = t->n_atoms = t->n_exprs = t->n_slots = 0;
    t->cap_symbols = t->cap_atoms = t->cap_exprs = 0;
}

mlsys_status mlsi_symtab_copy(mlsi_symtab *to, const mlsi_symtab *from) {
    mlsi_alloc *a = to->alloc;
    MLSI_TRY(MLSI_GROW(a, &to->symbols, &to->cap_symbols, from->n_symbols));
    for (int64_t i = 0; i < from->n_symbols; i++) {
        to->symbols[i] = from->symbols[i];
        MLSI_TRY(mlsi_arena_strdup(&to->arena, from->symbols[i].name, &to->symbols[i].name));
        to->n_symbols = i + 1;
    }
    MLSI_TRY(MLSI_GROW(a, &to->atoms, &to->cap_atoms, from->n_atoms));
    MLSI_TRY(MLSI_GROW(a, &to->exprs, &to->cap_exprs, from->n_exprs));
    MLSI_TRY(MLSI_NEW_N(a, from->n_slots, &to->slots));
    if (from->n_atoms) memcpy(to->atoms, from->atoms, sizeof *to->atoms * (size_t)from->n_atoms);
    if (from->n_exprs) memcpy(to->exprs, from->exprs, sizeof *to->exprs * (size_t)from->n_exprs);
    if (from->n_slots) memcpy(to->slots, from->slots, sizeof *to->slots * (size_t)from->n_slots);
    to->n_atoms = from->n_atoms;
    to->n_exprs = from->n_exprs;
    to->n_slots = from->n_slots;
    return MLSYS_OK;
}

bool mlsi_dim_valid(const mlsi_symtab *t, int64_t d) { return d >= 0 || mlsi_dim_is_code(t, d); }

mlsys_status mlsi_dim_too_large(void) {
    return mlsi_fail(
        MLSYS_E_UNSUPPORTED,
        "dim: expression has more than %d terms, %d factors in a term, or divisions nested "
        "deeper than %d",
        MLSI_EXPR_TERMS, MLSI_TERM_ATOMS, MLSI_DIM_NEST);
}

static mlsys_status refuse(mlsi_expr_fit fit) {
    if (fit == MLSI_FITS) return MLSYS_OK;
    return fit == MLSI_FIT_FULL ? mlsi_dim_too_large()
                                : mlsi_fail(MLSYS_E_SHAPE, "dim: overflow of int64");
}

mlsi_expr mlsi_expr_of(const mlsi_symtab *t, int64_t d) {
    mlsi_expr e;
    memset(&e, 0, sizeof e);
    if (mlsi_dim_is_code(t, d)) return t->exprs[MLSI_DIM_CODE - d];
    if (d) {
        e.n = 1;
        e.terms[0].coef = d;
    }
    return e;
}

/* ---- the fixed order ------------------------------------------------------------------------- */

static int order_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int atom_order(const mlsi_symtab *t, int32_t i, int32_t j);

/* More factors first, then by factors; the constant term is last. */
int mlsi_term_order(const mlsi_symtab *t, const mlsi_term *a, const mlsi_term *b) {
    int c = order_i64(b->n, a->n);
    for (int i = 0; i < a->n && !c; i++)
        c = atom_order(t, a->atoms[i], b->atoms[i]);
    return c;
}

static int dim_order(const mlsi_symtab *t, int64_t a, int64_t b) {
    if (a == b) return 0;
    mlsi_expr x = mlsi_expr_of(t, a), y = mlsi_expr_of(t, b);
    int c = order_i64(x.n, y.n);
    for (int i = 0; i < x.n && !c; i++) {
        c = mlsi_term_order(t, &x.terms[i], &y.terms[i]);
        if (!c) c = order_i64(x.terms[i].coef, y.terms[i].coef);
    }
    return c;
}

/* Symbols first, by number; then divisions by structure. Their nesting is bounded. */
static int atom_order(const mlsi_symtab *t, int32_t i, int32_t j) {
    const mlsi_atom *a = &t->atoms[i], *b = &t->atoms[j];
    if (i == j) return 0;
    if (!a->op || !b->op) {
        if (a->op || b->op) return a->op ? 1 : -1;
        return order_i64(a->symbol, b->symbol);
    }
    int c = dim_order(t, a->a, b->a);
    return c ? c : dim_order(t, a->b, b->b);
}

/* e += term, keeping order and dropping zero coefficients. */
static mlsi_expr_fit try_add(const mlsi_symtab *t, mlsi_expr *e, const mlsi_term *term) {
    int i = 0;
    if (!term->coef) return MLSI_FITS;
    if (term->coef == INT64_MIN) return MLSI_FIT_OVERFLOW;
    while (i < e->n && mlsi_term_order(t, &e->terms[i], term) < 0)
        i++;
    if (i < e->n && mlsi_term_order(t, &e->terms[i], term) == 0) {
        int64_t *coef = &e->terms[i].coef;
        if (!mlsi_add_i64(*coef, term->coef, coef) || *coef == INT64_MIN) return MLSI_FIT_OVERFLOW;
        if (!*coef) {
            memmove(&e->terms[i], &e->terms[i + 1], sizeof *term * (size_t)(e->n - i - 1));
            memset(&e->terms[--e->n], 0, sizeof *term);
        }
        return MLSI_FITS;
    }
    if (e->n == MLSI_EXPR_TERMS) return MLSI_FIT_FULL;
    memmove(&e->terms[i + 1], &e->terms[i], sizeof *term * (size_t)(e->n - i));
    e->terms[i] = *term;
    e->n++;
    return MLSI_FITS;
}

mlsys_status mlsi_expr_add_term(const mlsi_symtab *t, mlsi_expr *e, const mlsi_term *term) {
    return refuse(try_add(t, e, term));
}

bool mlsi_expr_add(const mlsi_symtab *t, mlsi_expr *e, const mlsi_expr *x, int64_t k) {
    for (int i = 0; i < x->n; i++) {
        mlsi_term term = x->terms[i];
        if (!mlsi_mul_i64(term.coef, k, &term.coef)) return false;
        if (try_add(t, e, &term) != MLSI_FITS) return false;
    }
    return true;
}

bool mlsi_expr_add_multiple(const mlsi_symtab *t, mlsi_expr *e, int64_t d, int64_t k) {
    mlsi_expr x = mlsi_expr_of(t, d);
    return mlsi_expr_add(t, e, &x, k);
}

/* ---- interning ------------------------------------------------------------------------------- */

static uint64_t expr_hash(const mlsi_expr *e) {
    uint64_t h = mlsi_hash_u64(MLSI_HASH_SEED, (uint64_t)e->n);
    return mlsi_hash_mix(mlsi_hash_bytes(h, e->terms, sizeof e->terms[0] * (size_t)e->n));
}

static mlsys_status rehash(mlsi_symtab *t) {
    int64_t n = t->n_slots ? 2 * t->n_slots : 64;
    int32_t *slots;
    MLSI_TRY(MLSI_NEW_N(t->alloc, n, &slots));
    for (int64_t i = 0; i < t->n_exprs; i++) {
        int64_t at = (int64_t)(expr_hash(&t->exprs[i]) & (uint64_t)(n - 1));
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (int32_t)(i + 1);
    }
    mlsi_mem_free(t->alloc, t->slots);
    t->slots = slots;
    t->n_slots = n;
    return MLSYS_OK;
}

mlsys_status mlsi_expr_intern(mlsi_symtab *t, const mlsi_expr *e, int64_t *out) {
    if (e->n == 0) return *out = 0, MLSYS_OK;
    if (e->n == 1 && e->terms[0].n == 0 && e->terms[0].coef > 0)
        return *out = e->terms[0].coef, MLSYS_OK;
    if (t->n_exprs * 2 >= t->n_slots) MLSI_TRY(rehash(t));
    int64_t at = (int64_t)(expr_hash(e) & (uint64_t)(t->n_slots - 1));
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1))
        if (!memcmp(&t->exprs[t->slots[at] - 1], e, sizeof *e))
            return *out = MLSI_DIM_CODE - (t->slots[at] - 1), MLSYS_OK;
    if (t->n_exprs == INT32_MAX - 1)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "dim: more than 2^31 expressions");
    MLSI_TRY(MLSI_GROW(t->alloc, &t->exprs, &t->cap_exprs, t->n_exprs + 1));
    *out = MLSI_DIM_CODE - t->n_exprs;
    t->exprs[t->n_exprs++] = *e;
    t->slots[at] = (int32_t)t->n_exprs;
    return MLSYS_OK;
}

mlsys_status mlsi_expr_of_atom(mlsi_symtab *t, const mlsi_atom *atom, int64_t coef,
                               mlsi_expr *out) {
    int64_t i = 0;
    while (i < t->n_atoms && memcmp(&t->atoms[i], atom, sizeof *atom))
        i++;
    if (i == t->n_atoms) {
        MLSI_TRY(MLSI_GROW(t->alloc, &t->atoms, &t->cap_atoms, i + 1));
        t->atoms[t->n_atoms++] = *atom;
    }
    memset(out, 0, sizeof *out);
    out->n = 1;
    out->terms[0].coef = coef;
    out->terms[0].n = 1;
    out->terms[0].atoms[0] = (int32_t)i;
    return MLSYS_OK;
}

int mlsi_dim_weight(const mlsi_symtab *t, int64_t d, int *nest) {
    int weight = 1;
    *nest = 0;
    if (!mlsi_dim_is_code(t, d)) return weight;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n; i++)
        for (int j = 0; j < e->terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[e->terms[i].atoms[j]];
            int a = 0, b = 0;
            weight++;
            if (!atom->op) continue;
            weight += mlsi_dim_weight(t, atom->a, &a) + mlsi_dim_weight(t, atom->b, &b);
            a = (a > b ? a : b) + 1;
            if (a > *nest) *nest = a;
        }
    return weight;
}

/* ---- construction ---------------------------------------------------------------------------- */

static mlsys_status check_symbol(const char *name, int64_t min, int64_t max, int64_t divisor) {
    if (!name || !name[0] || strlen(name) > 63 || strspn(name, "0123456789") ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
        return mlsi_fail(MLSYS_E_ARG,
                         "symbol: \"%.80s\" is not a name (letters, digits, _; at most 63)",
                         name ? name : "");
    if (min < 0 || max < min || divisor < 1 || max / divisor * divisor < min)
        return mlsi_fail(MLSYS_E_ARG, "symbol %s: range [%lld, %lld] divisor %lld holds no extent",
                         name, (long long)min, (long long)max, (long long)divisor);
    return MLSYS_OK;
}

mlsys_status mlsi_dim_symbol(mlsi_symtab *t, const char *name, int64_t min, int64_t max,
                             int64_t divisor, int64_t *out) {
    MLSI_TRY(check_symbol(name, min, max, divisor));
    int64_t i = 0;
    while (i < t->n_symbols && strcmp(t->symbols[i].name, name))
        i++;
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
        mlsi_symbol s = {.min = min, .max = max, .divisor = divisor};
        MLSI_TRY(mlsi_arena_strdup(&t->arena, name, &s.name));
        t->symbols[t->n_symbols++] = s;
    }
    int64_t least = min / divisor + (min % divisor != 0), most = max / divisor;
    if (least == most) return *out = least * divisor, MLSYS_OK; /* one value: a constant */
    mlsi_atom atom;
    mlsi_expr e;
    memset(&atom, 0, sizeof atom);
    atom.symbol = (int32_t)i;
    MLSI_TRY(mlsi_expr_of_atom(t, &atom, divisor, &e));
    return mlsi_expr_intern(t, &e, out);
}

mlsys_status mlsi_dim_variable(mlsi_symtab *t, const char *name, int64_t extent, int64_t *out) {
    int64_t lo, hi;
    mlsi_dim_range(t, extent, &lo, &hi);
    if (!mlsi_dim_valid(t, extent) || hi < 2)
        return mlsi_fail(MLSYS_E_ARG, "variable %.80s: no values in an extent of at most %lld",
                         name, (long long)hi);
    for (int64_t i = 0; i < t->n_symbols; i++)
        if (!strcmp(t->symbols[i].name, name))
            return mlsi_fail(MLSYS_E_ARG, "variable %.80s: the name is taken", name);
    MLSI_TRY(mlsi_dim_symbol(t, name, 0, hi - 1, 1, out));
    t->symbols[t->n_symbols - 1].extent = extent;
    return MLSYS_OK;
}

mlsi_expr_fit mlsi_expr_multiply(const mlsi_symtab *t, const mlsi_expr *a, const mlsi_expr *b,
                                 mlsi_expr *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            const mlsi_term *x = &a->terms[i], *y = &b->terms[j];
            mlsi_term p;
            memset(&p, 0, sizeof p);
            if (!mlsi_mul_i64(x->coef, y->coef, &p.coef)) return MLSI_FIT_OVERFLOW;
            if (x->n + y->n > MLSI_TERM_ATOMS) return MLSI_FIT_FULL;
            for (int u = 0, v = 0; u < x->n || v < y->n;)
                p.atoms[p.n++] =
                    v == y->n || (u < x->n && atom_order(t, x->atoms[u], y->atoms[v]) <= 0)
                        ? x->atoms[u++]
                        : y->atoms[v++];
            mlsi_expr_fit fit = try_add(t, out, &p);
            if (fit != MLSI_FITS) return fit;
        }
    return MLSI_FITS;
}

mlsys_status mlsi_dim_op(mlsi_symtab *t, int op, int64_t a, int64_t b, int64_t *out) {
    if (!mlsi_dim_valid(t, a) || !mlsi_dim_valid(t, b))
        return mlsi_fail(MLSYS_E_ARG, "dim: %lld is not a dim of this graph",
                         (long long)(mlsi_dim_valid(t, a) ? b : a));
    if (op == '/') return mlsi_dim_floor(t, a, b, out);
    if (op == '%') { /* a - b * floor(a / b) */
        int64_t q;
        MLSI_TRY(mlsi_dim_floor(t, a, b, &q));
        MLSI_TRY(mlsi_dim_op(t, '*', q, b, &q));
        return mlsi_dim_op(t, '-', a, q, out);
    }
    mlsi_expr x = mlsi_expr_of(t, a), y = mlsi_expr_of(t, b), r;
    if (op == '*') {
        MLSI_TRY(refuse(mlsi_expr_multiply(t, &x, &y, &r)));
        return mlsi_expr_intern(t, &r, out);
    }
    if (op != '+' && op != '-')
        return mlsi_fail(MLSYS_E_ARG, "dim: operator %d is not one of + - * / %%", op);
    for (int i = 0; i < y.n; i++) {
        mlsi_term term = y.terms[i];
        if (op == '-') term.coef = -term.coef;
        MLSI_TRY(mlsi_expr_add_term(t, &x, &term));
    }
    return mlsi_expr_intern(t, &x, out);
}

/* A number below 0 as a dim, which holds such only as an expression. */
static mlsys_status as_dim(mlsi_symtab *t, int64_t v, int64_t *out) {
    if (v >= 0 || v <= MLSI_DIM_CODE) return *out = v, MLSYS_OK;
    return mlsi_dim_op(t, '-', 0, -v, out);
}

mlsys_status mlsi_dim_combine(mlsi_symtab *t, int64_t a, int64_t k, int64_t b, int64_t *out) {
    int64_t product;
    MLSI_TRY(as_dim(t, a, &a));
    MLSI_TRY(as_dim(t, b, &b));
    MLSI_TRY(as_dim(t, k, &k));
    MLSI_TRY(mlsi_dim_op(t, '*', k, b, &product));
    MLSI_TRY(mlsi_dim_op(t, '+', a, product, out));
    mlsi_dim_constant(t, *out, out);
    return *out >= 0 || *out > MLSI_DIM_CODE || mlsi_dim_is_code(t, *out)
               ? MLSYS_OK
               : mlsi_fail(MLSYS_E_SHAPE, "dim: overflow of int64");
}

bool mlsi_dim_constant(const mlsi_symtab *t, int64_t d, int64_t *value) {
    if (!mlsi_dim_is_code(t, d)) return false;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    if (e->n != 1 || e->terms[0].n) return false;
    *value = e->terms[0].coef;
    return true;
}

int32_t mlsi_dim_as_symbol(const mlsi_symtab *t, int64_t d) {
    if (!mlsi_dim_is_code(t, d)) return -1;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    if (e->n != 1 || e->terms[0].n != 1) return -1;
    const mlsi_atom *atom = &t->atoms[e->terms[0].atoms[0]];
    if (atom->op || e->terms[0].coef != t->symbols[atom->symbol].divisor) return -1;
    return atom->symbol;
}

/* A variable that is new brings its extent along. */
static mlsys_status import_symbol(mlsi_symtab *to, const mlsi_symtab *from, const mlsi_symbol *s,
                                  int64_t *out) {
    int64_t extent = 0;
    bool known = false;
    for (int64_t i = 0; i < to->n_symbols && !known; i++)
        known = !strcmp(to->symbols[i].name, s->name);
    if (!known && s->extent) MLSI_TRY(mlsi_dim_import(to, from, s->extent, &extent));
    MLSI_TRY(mlsi_dim_symbol(to, s->name, s->min, s->max, s->divisor, out));
    if (!known) to->symbols[to->n_symbols - 1].extent = extent;
    return MLSYS_OK;
}

/* One term of another table's expression. */
static mlsys_status import_term(mlsi_symtab *to, const mlsi_symtab *from, const mlsi_term *term,
                                int64_t *out) {
    int64_t v;
    mlsi_expr c;
    memset(&c, 0, sizeof c);
    c.n = 1;
    c.terms[0].coef = term->coef;
    MLSI_TRY(mlsi_expr_intern(to, &c, out));
    for (int j = 0; j < term->n; j++) {
        mlsi_atom atom = from->atoms[term->atoms[j]];
        if (atom.op) {
            MLSI_TRY(mlsi_dim_import(to, from, atom.a, &atom.a));
            MLSI_TRY(mlsi_dim_import(to, from, atom.b, &atom.b));
            MLSI_TRY(mlsi_dim_op(to, atom.op, atom.a, atom.b, &v));
        } else {
            const mlsi_symbol *s = &from->symbols[atom.symbol];
            MLSI_TRY(import_symbol(to, from, s, &v));
            MLSI_TRY(mlsi_dim_op(to, '/', v, s->divisor, &v)); /* its unit */
        }
        MLSI_TRY(mlsi_dim_op(to, '*', *out, v, out));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_dim_import(mlsi_symtab *to, const mlsi_symtab *from, int64_t d, int64_t *out) {
    if (!mlsi_dim_is_code(from, d)) return *out = d, MLSYS_OK;
    mlsi_expr e = from->exprs[MLSI_DIM_CODE - d];
    int64_t sum = 0, term;
    for (int i = 0; i < e.n; i++) {
        MLSI_TRY(import_term(to, from, &e.terms[i], &term));
        MLSI_TRY(mlsi_dim_op(to, '+', sum, term, &sum));
    }
    *out = sum;
    return MLSYS_OK;
}
