/* Facts, ranges, multiples, strides. */
#include "ir/loop/prove.h"

#include "core/faults.h"

#include <string.h>

static void add_fact(mlsi_facts *f, int64_t big, int64_t small, int64_t least) {
    if (f->n < (int)(sizeof f->list / sizeof f->list[0]))
        f->list[f->n++] = (mlsi_dim_fact){big, small, least};
}

void mlsi_facts_range(mlsi_facts *f, int64_t lo, int64_t index, int64_t hi) {
    add_fact(f, index, lo, 0);
    add_fact(f, hi, index, 1);
}

void mlsi_facts_loop(mlsi_facts *f, int64_t extent) {
    int64_t lo, hi;
    mlsi_dim_range(f->tab, extent, &lo, &hi);
    if (lo < 1) add_fact(f, extent, 0, 1);
}

bool mlsi_prove_in_range(const mlsi_facts *f, int64_t lo, int64_t index, int64_t hi) {
    return (mlsi_fault(MLSI_FAULT_PROVE_LOWER_END) ||
            mlsi_dim_prove(f->tab, f->n, f->list, index, lo, 0)) &&
           mlsi_dim_prove(f->tab, f->n, f->list, hi, index, 1);
}

bool mlsi_prove_equal(const mlsi_facts *f, int64_t a, int64_t b) {
    return a == b || (mlsi_dim_prove(f->tab, f->n, f->list, a, b, 0) &&
                      mlsi_dim_prove(f->tab, f->n, f->list, b, a, 0));
}

bool mlsi_prove_multiple(const mlsi_symtab *t, int64_t a, int64_t b) {
    mlsi_expr x = mlsi_expr_of(t, a), y = mlsi_expr_of(t, b), q, r;
    return y.n > 0 && mlsi_expr_divide(t, &x, &y, &q, &r) && r.n == 0;
}

/* ---- strides --------------------------------------------------------------------------------------------- */

static bool atom_names(const mlsi_symtab *t, const mlsi_atom *atom, int32_t symbol) {
    return atom->op ? mlsi_dim_names(t, atom->a, symbol) || mlsi_dim_names(t, atom->b, symbol)
                    : atom->symbol == symbol;
}

bool mlsi_dim_names(const mlsi_symtab *t, int64_t d, int32_t symbol) {
    mlsi_expr e = mlsi_expr_of(t, d);
    for (int i = 0; i < e.n; i++)
        for (int j = 0; j < e.terms[i].n; j++)
            if (atom_names(t, &t->atoms[e.terms[i].atoms[j]], symbol)) return true;
    return false;
}

/* e = out * variable + what does not name it. */
static bool coefficient(const mlsi_symtab *t, const mlsi_expr *e, int32_t symbol, mlsi_expr *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < e->n; i++) {
        mlsi_expr part = {.n = 1};
        mlsi_term *left = &part.terms[0];
        int degree = 0;
        left->coef = e->terms[i].coef;
        for (int j = 0; j < e->terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[e->terms[i].atoms[j]];
            if (atom->op && atom_names(t, atom, symbol)) return false;
            if (!atom->op && atom->symbol == symbol)
                degree++;
            else
                left->atoms[left->n++] = e->terms[i].atoms[j];
        }
        if (degree > 1) return false;
        if (degree && !mlsi_expr_add(t, out, &part, 1)) return false;
    }
    return true;
}

static mlsi_stride stride_of(const mlsi_expr *coefficient) {
    if (!coefficient->n) return (mlsi_stride){MLSI_STRIDE_NUMBER, 0};
    if (coefficient->n == 1 && !coefficient->terms[0].n)
        return (mlsi_stride){MLSI_STRIDE_NUMBER, coefficient->terms[0].coef};
    return (mlsi_stride){MLSI_STRIDE_FIXED, 0};
}

mlsi_stride mlsi_index_stride(const mlsi_symtab *t, int64_t index, int32_t symbol) {
    mlsi_expr e = mlsi_expr_of(t, index), c;
    if (!coefficient(t, &e, symbol, &c)) return (mlsi_stride){MLSI_STRIDE_UNKNOWN, 0};
    return stride_of(&c);
}
