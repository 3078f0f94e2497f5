/* Maps from iterations to elements: one to one, onto. */
#include "core/faults.h"
#include "ir/loop/prove.h"

#include <string.h>

/* ---- which variables an expression names ---------------------------------------------------------------- */

static bool dim_is_inner(const mlsi_symtab *t, int64_t d, const bool *inner);

static bool atom_is_inner(const mlsi_symtab *t, const mlsi_atom *atom, const bool *inner) {
    return atom->op ? dim_is_inner(t, atom->a, inner) || dim_is_inner(t, atom->b, inner)
                    : inner[atom->symbol];
}

static bool term_is_inner(const mlsi_symtab *t, const mlsi_term *term, const bool *inner) {
    for (int j = 0; j < term->n; j++)
        if (atom_is_inner(t, &t->atoms[term->atoms[j]], inner)) return true;
    return false;
}

static bool dim_is_inner(const mlsi_symtab *t, int64_t d, const bool *inner) {
    mlsi_expr e = mlsi_expr_of(t, d);
    for (int i = 0; i < e.n; i++)
        if (term_is_inner(t, &e.terms[i], inner)) return true;
    return false;
}

/* ---- digits ------------------------------------------------------------------------------------------------ */

/* e = a * (variable of the symbol) + b, where b does not name it and a names no inner variable. */
static bool separate(const mlsi_symtab *t, const mlsi_expr *e, int32_t symbol, const bool *inner,
                     mlsi_expr *a, mlsi_expr *b) {
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    for (int i = 0; i < e->n; i++) {
        mlsi_expr part = {.n = 1}, whole = {.n = 1, .terms = {e->terms[i]}};
        mlsi_term *left = &part.terms[0];
        int degree = 0;
        left->coef = e->terms[i].coef;
        for (int j = 0; j < e->terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[e->terms[i].atoms[j]];
            if (atom->op && mlsi_atom_symbol(t, atom) >= symbol) return false; /* may name it */
            if (!atom->op && atom->symbol == symbol)
                degree++;
            else
                left->atoms[left->n++] = e->terms[i].atoms[j];
        }
        if (degree > 1 || (degree && term_is_inner(t, left, inner))) return false;
        if (!mlsi_expr_add(t, degree ? a : b, degree ? &part : &whole, 1)) return false;
    }
    return a->n > 0;
}

static bool at_least(const mlsi_facts *f, const mlsi_expr *big, const mlsi_expr *small,
                     int64_t least) {
    mlsi_expr e = *big, c = {.n = least != 0, .terms = {{.coef = -least}}};
    return mlsi_expr_add(f->tab, &e, &c, 1) && (!small || mlsi_expr_add(f->tab, &e, small, -1)) &&
           mlsi_expr_prove(f->tab, f->n, f->list, &e);
}

/* Where a variable's coefficient is negative, v becomes extent - 1 - v, so that it counts up. */
static bool turn(const mlsi_facts *f, const bool *inner, int32_t symbol, mlsi_expr *e,
                 mlsi_digits *out) {
    const mlsi_symtab *t = f->tab;
    mlsi_expr a, b, up, last, moved;
    if (!separate(t, e, symbol, inner, &a, &b)) return true; /* no digit as it is */
    memset(&up, 0, sizeof up);
    if (!mlsi_expr_add(t, &up, &a, -1)) return false;
    if (at_least(f, &a, NULL, 0) || !at_least(f, &up, NULL, 0)) return true;
    last = mlsi_expr_of(t, t->symbols[symbol].extent);
    if (dim_is_inner(t, t->symbols[symbol].extent, inner)) return false;
    mlsi_expr one = {.n = 1, .terms = {{.coef = 1}}};
    if (!mlsi_expr_add(t, &last, &one, -1) || mlsi_expr_multiply(t, &a, &last, &moved) != MLSI_FITS)
        return false;
    /* a*v + b -> a*(extent - 1) - a*v + b */
    mlsi_expr down = *e;
    if (!mlsi_expr_add(t, &down, &b, -1) || !mlsi_expr_add(t, e, &down, -2) ||
        !mlsi_expr_add(t, e, &moved, 1) || out->n_turned == MLSI_MAP_DIGITS)
        return false;
    out->turned[out->n_turned++] = symbol;
    return true;
}

/* The first variable that is a digit of rest = a * v + b, b in [0, a); rest becomes b. */
static bool next_digit(const mlsi_facts *f, const bool *inner, mlsi_expr *rest, mlsi_digits *out) {
    mlsi_expr a, b;
    for (int i = 0; i < rest->n; i++)
        for (int j = 0; j < rest->terms[i].n; j++) {
            const mlsi_atom *atom = &f->tab->atoms[rest->terms[i].atoms[j]];
            if (atom->op || !inner[atom->symbol] || out->n == MLSI_MAP_DIGITS) continue;
            if (!separate(f->tab, rest, atom->symbol, inner, &a, &b)) continue;
            if (!at_least(f, &a, NULL, 1) || !at_least(f, &b, NULL, 0)) continue;
            if (!mlsi_fault(MLSI_FAULT_MAP_OVERLAP) && !at_least(f, &a, &b, 1)) continue;
            out->symbol[out->n] = atom->symbol;
            out->weight[out->n++] = a;
            *rest = b;
            return true;
        }
    return false;
}

void mlsi_find_digits(const mlsi_facts *f, const bool *inner, const mlsi_expr *number,
                      mlsi_digits *out, bool *whole) {
    const mlsi_symtab *t = f->tab;
    mlsi_facts own = *f;
    mlsi_expr e = *number, rest;
    memset(out, 0, sizeof *out);
    memset(&rest, 0, sizeof rest);
    *whole = false;
    for (int32_t s = 0; s < t->n_symbols; s++)
        if (inner[s] && t->symbols[s].extent && !turn(f, inner, s, &e, out)) return;
    if (out->n_turned)
        own.n = 0; /* what is known of a turned variable is not true of what it became */
    for (int i = 0; i < number->n; i++)
        for (int j = 0; j < number->terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[number->terms[i].atoms[j]];
            if (!atom->op && inner[atom->symbol])
                mlsi_facts_loop(&own, t->symbols[atom->symbol].extent);
        }
    for (int i = 0; i < e.n; i++) {
        mlsi_expr part = {.n = 1, .terms = {e.terms[i]}};
        (void)mlsi_expr_add(t, term_is_inner(t, &e.terms[i], inner) ? &rest : &out->base, &part, 1);
    }
    while (rest.n && next_digit(&own, inner, &rest, out)) {
    }
    *whole = rest.n == 0;
}

/* ---- onto -------------------------------------------------------------------------------------------------- */

bool mlsi_linear_number(const mlsi_symtab *t, int rank, const int64_t *index, const int64_t *dims,
                        mlsi_expr *out) {
    memset(out, 0, sizeof *out);
    for (int d = 0; d < rank; d++) {
        mlsi_expr extent = mlsi_expr_of(t, dims[d]), e;
        if (mlsi_expr_multiply(t, out, &extent, &e) != MLSI_FITS ||
            !mlsi_expr_add_multiple(t, &e, index[d], 1))
            return false;
        *out = e;
    }
    return true;
}

typedef struct onto {
    const mlsi_nest *n;
    const mlsi_facts *f;
    const mlsi_region *r;
    const bool *inner; /* per symbol: a variable of the region */
    bool *unused;      /* those that are no digit yet */
    uint64_t matched;  /* conditions that are the bound of digits */
} onto;

/* Digits with their radices, greatest first; runs that a condition bounds are one digit without a symbol. */
typedef struct radix {
    int32_t symbol;
    mlsi_expr weight, count;
} radix;

static bool equal(const mlsi_facts *f, const mlsi_expr *a, const mlsi_expr *b) {
    return at_least(f, a, b, 0) && at_least(f, b, a, 0);
}

/* a counts how often b is full. */
static bool follows_on(const onto *o, const radix *a, const radix *b) {
    mlsi_expr full;
    return mlsi_fault(MLSI_FAULT_MAP_GAP) ||
           (mlsi_expr_multiply(&o->n->tab, &b->weight, &b->count, &full) == MLSI_FITS &&
            equal(o->f, &a->weight, &full));
}

/* Is weight[to] times the condition's index the number of the digits from..to, without gaps between these, and do they
 * reach its bound? */
static bool bounds_run(const onto *o, const int64_t condition[3], const radix *r, int from,
                       int to) {
    const mlsi_symtab *t = &o->n->tab;
    mlsi_expr index = mlsi_expr_of(t, condition[1]), hi = mlsi_expr_of(t, condition[2]), sum, e;
    mlsi_expr counts = mlsi_expr_of(t, 1);
    memset(&sum, 0, sizeof sum);
    for (int i = from; i <= to; i++) {
        mlsi_expr v = {.n = 0};
        for (int64_t k = 0; k < o->n->n_vars; k++)
            if (o->n->vars[k].symbol == r[i].symbol) v = mlsi_expr_of(t, o->n->vars[k].code);
        if (!v.n || mlsi_expr_multiply(t, &r[i].weight, &v, &e) != MLSI_FITS ||
            !mlsi_expr_add(t, &sum, &e, 1) || (i > from && !follows_on(o, &r[i - 1], &r[i])) ||
            mlsi_expr_multiply(t, &counts, &r[i].count, &e) != MLSI_FITS)
            return false;
        counts = e;
    }
    return mlsi_expr_multiply(t, &r[to].weight, &index, &e) == MLSI_FITS &&
           mlsi_expr_add(t, &e, &sum, -1) && e.n == 0 &&
           (mlsi_fault(MLSI_FAULT_MAP_SHORT) || at_least(o->f, &counts, &hi, 0)) &&
           at_least(o->f, &hi, NULL, 0);
}

static void match_conditions(onto *o, radix *r, int *n) {
    for (int c = 0; c < o->r->n_conditions && c < 64; c++) {
        const int64_t *condition = o->r->conditions[c];
        if (condition[0] != 0 || o->matched >> c & 1 ||
            dim_is_inner(&o->n->tab, condition[2], o->inner))
            continue;
        for (int from = 0; from < *n; from++)
            for (int to = from; to < *n && !(o->matched >> c & 1); to++) {
                if (!bounds_run(o, condition, r, from, to)) continue;
                r[from].symbol = -1;
                r[from].weight = r[to].weight;
                r[from].count = mlsi_expr_of(&o->n->tab, condition[2]);
                memmove(r + from + 1, r + to + 1, sizeof *r * (size_t)(*n - to - 1));
                *n -= to - from;
                o->matched |= (uint64_t)1 << c;
            }
    }
}

/* In an iteration of the region. */
static mlsi_facts facts_inside(const onto *o) {
    mlsi_facts f = *o->f;
    for (int i = 0; i < o->r->n_vars; i++)
        mlsi_facts_loop(&f, o->n->vars[o->r->vars[i]].extent);
    for (int c = 0; c < o->r->n_conditions; c++)
        mlsi_facts_range(&f, o->r->conditions[c][0], o->r->conditions[c][1],
                         o->r->conditions[c][2]);
    return f;
}

/* A row-major number names an element only where each subscript is in its own range. */
static bool in_ranges(const onto *o, int rank, const int64_t *index, const int64_t *dims) {
    const mlsi_facts f = facts_inside(o);
    for (int d = 0; d < rank; d++)
        if (!mlsi_prove_in_range(&f, 0, index[d], dims[d])) return false;
    return true;
}

/* The axes' linear number runs over [0, product of dims) once: weights are the products of the counts behind them. */
static bool axes_onto(onto *o, int rank, const int64_t *index, const int64_t *dims) {
    const mlsi_symtab *t = &o->n->tab;
    mlsi_expr number, all = mlsi_expr_of(t, 1), e;
    mlsi_digits d;
    radix r[MLSI_MAP_DIGITS];
    bool whole;
    if (!mlsi_linear_number(t, rank, index, dims, &number)) return false;
    const mlsi_facts inside = facts_inside(o); /* conditions left unmatched have to follow */
    mlsi_find_digits(&inside, o->inner, &number, &d, &whole);
    if (!whole || d.base.n) return false;
    for (int i = 0; i < d.n; i++) {
        int64_t extent = t->symbols[d.symbol[i]].extent;
        if (dim_is_inner(t, extent, o->inner)) return false;
        r[i] = (radix){d.symbol[i], d.weight[i], mlsi_expr_of(t, extent)};
        o->unused[d.symbol[i]] = false;
    }
    if (!d.n_turned) match_conditions(o, r, &d.n);
    for (int k = 0; k < rank; k++) {
        mlsi_expr extent = mlsi_expr_of(t, dims[k]);
        if (mlsi_expr_multiply(t, &all, &extent, &e) != MLSI_FITS) return false;
        all = e;
    }
    mlsi_expr below = mlsi_expr_of(t, 1);
    for (int i = d.n - 1; i >= 0; i--) {
        if (!equal(o->f, &r[i].weight, &below)) return false;
        if (mlsi_expr_multiply(t, &below, &r[i].count, &e) != MLSI_FITS) return false;
        below = e;
    }
    return equal(o->f, &below, &all);
}

/* Do the index expressions of axes a and b name a variable of the region in common? */
static bool entangled(const onto *o, int64_t a, int64_t b) {
    for (int i = 0; i < o->r->n_vars; i++) {
        int32_t s = o->n->vars[o->r->vars[i]].symbol;
        if (s >= 0 && mlsi_dim_names(&o->n->tab, a, s) && mlsi_dim_names(&o->n->tab, b, s))
            return true;
    }
    return false;
}

/* One behind the last axis that the axes from..to are entangled with, directly or through others. */
static int group_end(const onto *o, int rank, const int64_t *index, int from) {
    int to = from + 1;
    for (int i = from; i < to; i++)
        for (int k = to; k < rank; k++)
            if (entangled(o, index[i], index[k])) to = k + 1;
    return to;
}

/* Axes in the shortest groups that share no variables; each is onto by itself. */
static bool groups_onto(onto *o, int rank, const int64_t *index, const int64_t *dims) {
    for (int from = 0, to; from < rank; from = to) {
        to = group_end(o, rank, index, from);
        if (!axes_onto(o, to - from, index + from, dims + from)) return false;
        if (to - from > 1 && !mlsi_fault(MLSI_FAULT_MAP_RANGE) &&
            !in_ranges(o, to - from, index + from, dims + from))
            return false;
    }
    return true;
}

/* What no digit stands for must not multiply the iterations, nor cut some of them away. */
static bool nothing_left(const onto *o) {
    mlsi_facts f = *o->f;
    for (int i = 0; i < o->r->n_vars; i++) {
        const mlsi_loop_var *v = &o->n->vars[o->r->vars[i]];
        if (v->symbol >= 0 ? o->unused[v->symbol] : !mlsi_prove_equal(o->f, v->extent, 1))
            return false;
        mlsi_facts_loop(&f, v->extent);
    }
    for (int c = 0; c < o->r->n_conditions; c++) {
        const int64_t *condition = o->r->conditions[c];
        bool matched = c < 64 && o->matched >> c & 1;
        if (!matched && !mlsi_fault(MLSI_FAULT_MAP_CONDITION) &&
            !mlsi_prove_in_range(&f, condition[0], condition[1], condition[2]))
            return false;
        mlsi_facts_range(&f, condition[0], condition[1], condition[2]);
    }
    return true;
}

/* A condition that leaves one turn of loops that nothing else names is an axis of its own. */
static bool conditions_onto(onto *o) {
    const int64_t one = 1;
    for (int c = 0; c < o->r->n_conditions && c < 64; c++) {
        const int64_t *condition = o->r->conditions[c];
        bool unused = false;
        if (condition[0] != 0 || condition[2] != 1 || o->matched >> c & 1) continue;
        for (int i = 0; i < o->r->n_vars; i++) {
            int32_t s = o->n->vars[o->r->vars[i]].symbol;
            unused |= s >= 0 && o->unused[s] && mlsi_dim_names(&o->n->tab, condition[1], s);
        }
        if (unused && !axes_onto(o, 1, &condition[1], &one)) return false;
    }
    return true;
}

static bool never_runs(const onto *o) {
    for (int i = 0; i < o->r->n_vars; i++)
        if (o->n->vars[o->r->vars[i]].extent == 0) return true;
    return false;
}

mlsys_status mlsi_prove_onto(const mlsi_nest *n, const mlsi_facts *f, const mlsi_region *r,
                             int rank, const int64_t *index, const int64_t *dims, bool *proved) {
    onto o = {.n = n, .f = f, .r = r};
    bool *marks;
    *proved = false;
    MLSI_TRY(MLSI_NEW_N(n->alloc, 2 * n->tab.n_symbols + 1, &marks));
    o.inner = marks;
    o.unused = marks + n->tab.n_symbols;
    for (int i = 0; i < r->n_vars; i++) {
        int32_t s = n->vars[r->vars[i]].symbol;
        if (s >= 0) marks[s] = o.unused[s] = true;
    }
    if (never_runs(&o)) {
        for (int d = 0; d < rank; d++)
            *proved = *proved || dims[d] == 0;
    } else {
        *proved = groups_onto(&o, rank, index, dims) && conditions_onto(&o) && nothing_left(&o);
    }
    mlsi_mem_free(n->alloc, marks);
    return MLSYS_OK;
}
