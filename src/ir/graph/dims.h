/* Symbolic extents. A dim is an int64: >= 0 an extent, < 0 the name of an interned expression.
 *
 * Expressions are kept in one normal form, a sum of integer multiples of products of atoms in a
 * fixed order, so two dims are provably equal by this algebra exactly when their codes are equal.
 * Atoms are units of symbols and floor divisions that did not cancel. A symbol (a name with min,
 * max, divisor) is divisor times its unit, so S/2 is exact when S is a multiple of 2; a remainder a
 * % b is a - b*floor(a/b). The order looks at structure only, never at when something was interned,
 * so equal expressions print equally in every table with the same symbols. All arithmetic is
 * checked; an overflow is an error, never a wrong extent.
 *
 * A variable is a symbol whose upper bound is a dim itself. It has values only where its extent is at least 1, and
 * expressions that name it mean something only there: so floor((i*N + j) / N) is i for j in [0, N).
 *
 * Codes of expressions are MLSI_DIM_CODE, MLSI_DIM_CODE - 1, ...: far from the small negative
 * numbers that keep their own meaning in attributes that may hold dims (reshape's -1, slice
 * bounds). */
#ifndef MLSI_IR_DIMS_H
#define MLSI_IR_DIMS_H

#include "core/alloc.h"

#define MLSI_DIM_CODE (-((int64_t)1 << 40))

/* Bounds of an expression; nesting and weight bound every recursion over one. */
enum { MLSI_TERM_ATOMS = 4, MLSI_EXPR_TERMS = 12, MLSI_DIM_NEST = 8, MLSI_DIM_WEIGHT = 64 };

typedef struct mlsi_symbol {
    const char *name;
    int64_t min, max, divisor;
    int64_t extent; /* 0, or a dim of earlier symbols: the symbol is a variable in [0, extent) */
} mlsi_symbol;

typedef struct mlsi_atom {
    int32_t op;     /* 0 = unit of a symbol: value / divisor; '/' = floor division */
    int32_t symbol; /* index of the symbol */
    int64_t a, b;   /* operand dims of '/' */
} mlsi_atom;

typedef struct mlsi_term { /* compared as bytes: no padding */
    int64_t coef;
    int32_t n; /* atoms, ascending; n = 0 is the constant term */
    int32_t atoms[MLSI_TERM_ATOMS];
    int32_t zero;
} mlsi_term;

typedef struct mlsi_expr {
    int32_t n, zero;
    mlsi_term terms[MLSI_EXPR_TERMS]; /* in the fixed order; coef is neither 0 nor INT64_MIN */
} mlsi_expr;

typedef struct mlsi_symtab {
    mlsi_alloc *alloc;
    mlsi_arena arena; /* names */
    mlsi_symbol *symbols;
    int64_t n_symbols, cap_symbols;
    mlsi_atom *atoms;
    int64_t n_atoms, cap_atoms;
    mlsi_expr *exprs;
    int64_t n_exprs, cap_exprs;
    int32_t *slots; /* hash table of exprs: number + 1, 0 = free */
    int64_t n_slots;
} mlsi_symtab;

void mlsi_symtab_init(mlsi_symtab *t, mlsi_alloc *a);
void mlsi_symtab_free(mlsi_symtab *t);
/* The same symbols and expressions with the same codes, in an initialised empty table. */
mlsys_status mlsi_symtab_copy(mlsi_symtab *to, const mlsi_symtab *from);

/* A symbol; the same name again must have the same range and gives the same dim. */
mlsys_status mlsi_dim_symbol(mlsi_symtab *t, const char *name, int64_t min, int64_t max,
                             int64_t divisor, int64_t *out);
/* A variable in [0, extent) under a name that is not taken; its range must leave it at least two values (one: it is
 * the number 0, and no variable). */
mlsys_status mlsi_dim_variable(mlsi_symtab *t, const char *name, int64_t extent, int64_t *out);
/* op in '+', '-', '*', '/', '%' ('/' rounds down, so '%' is in [0, b); b must be provably > 0).
 * Intermediate expressions may be negative; a type's extents may not (mlsi_dim_range tells). */
mlsys_status mlsi_dim_op(mlsi_symtab *t, int op, int64_t a, int64_t b, int64_t *out);
/* a + k * b of dims and of numbers of either sign, such as crops; a number where no symbol is left. */
mlsys_status mlsi_dim_combine(mlsi_symtab *t, int64_t a, int64_t k, int64_t b, int64_t *out);
/* Exact quotient a / b when b provably divides a, else *exact = false. */
mlsys_status mlsi_dim_divide_exact(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out, bool *exact);
/* Interval that holds the value for all symbols in range; saturates at the int64 ends. Not always
 * the smallest one. */
void mlsi_dim_range(const mlsi_symtab *t, int64_t d, int64_t *min, int64_t *max);
/* Value under a binding (one int64 per symbol, each a multiple of its divisor). */
mlsys_status mlsi_dim_eval(const mlsi_symtab *t, int64_t d, const int64_t *binding, int64_t *out);
/* Does d name an expression without symbols? Such are negative: others are their own dims. */
bool mlsi_dim_constant(const mlsi_symtab *t, int64_t d, int64_t *value);
/* Is d a plain symbol? Its index, or -1. */
int32_t mlsi_dim_as_symbol(const mlsi_symtab *t, int64_t d);
/* Is d = c * unit + k for one symbol's unit (the symbol over its divisor) and numbers c, k, and does it
 * take the value at a whole unit? */
bool mlsi_dim_solve(const mlsi_symtab *t, int64_t d, int64_t value, int32_t *symbol, int64_t *unit);
/* Does d name an expression of this table? Other negative numbers pass unchanged through
 * mlsi_dim_eval, mlsi_dim_import and mlsi_dim_text. */
static inline bool mlsi_dim_is_code(const mlsi_symtab *t, int64_t d) {
    return d <= MLSI_DIM_CODE && MLSI_DIM_CODE - d < t->n_exprs;
}
/* An extent or a code of this table? */
bool mlsi_dim_valid(const mlsi_symtab *t, int64_t d);
/* "B", "2*L+1", "(L+3)/2": reads back through mlsi_dim_parse. */
void mlsi_dim_print(const mlsi_symtab *t, int64_t d, mlsi_text *out);
const char *mlsi_dim_text(const mlsi_symtab *t, int64_t d, char *buf, int cap);
/* Parse an expression of + - * / ( ) integers and known symbols at *p; *p moves past it. */
mlsys_status mlsi_dim_parse(mlsi_symtab *t, const char **p, int64_t *out);
/* Translate a dim of one table into another one (symbols by name). */
mlsys_status mlsi_dim_import(mlsi_symtab *to, const mlsi_symtab *from, int64_t d, int64_t *out);

/* What holds besides the ranges of the symbols: big - small >= least. */
typedef struct mlsi_dim_fact {
    int64_t big, small, least;
} mlsi_dim_fact;

/* big - small >= least for all values of the symbols under which the facts hold? Never yes wrongly; no may mean unknown.
 * Changes nothing in the table and leaves the thread's sentence alone. */
bool mlsi_dim_prove(const mlsi_symtab *t, int n_facts, const mlsi_dim_fact *facts, int64_t big,
                    int64_t small, int64_t least);

/* ---- expressions; the files of this module and the prover of loops (ir/loop) ---- */

typedef enum mlsi_expr_fit { MLSI_FITS = 0, MLSI_FIT_OVERFLOW, MLSI_FIT_FULL } mlsi_expr_fit;

mlsi_expr mlsi_expr_of(const mlsi_symtab *t, int64_t d);
mlsys_status mlsi_expr_intern(mlsi_symtab *t, const mlsi_expr *e, int64_t *out);
/* e += k * d; false when that overflows or has too many terms. */
bool mlsi_expr_add_multiple(const mlsi_symtab *t, mlsi_expr *e, int64_t d, int64_t k);
/* e += k * x; likewise. */
bool mlsi_expr_add(const mlsi_symtab *t, mlsi_expr *e, const mlsi_expr *x, int64_t k);
mlsys_status mlsi_expr_add_term(const mlsi_symtab *t, mlsi_expr *e, const mlsi_term *term);
mlsi_expr_fit mlsi_expr_multiply(const mlsi_symtab *t, const mlsi_expr *a, const mlsi_expr *b,
                                 mlsi_expr *out);
/* x = q * y + r by long division from the leading terms; false when that does not fit. */
bool mlsi_expr_divide(const mlsi_symtab *t, const mlsi_expr *x, const mlsi_expr *y, mlsi_expr *q,
                      mlsi_expr *r);
/* term / divisor when every factor of the divisor is in the term. */
bool mlsi_term_divide(const mlsi_term *term, const mlsi_term *divisor, mlsi_term *out);
int mlsi_term_order(const mlsi_symtab *t, const mlsi_term *a, const mlsi_term *b);
/* coef times one atom; the atom is interned when new. */
mlsys_status mlsi_expr_of_atom(mlsi_symtab *t, const mlsi_atom *atom, int64_t coef, mlsi_expr *out);
/* Atoms of the written-out expression, and how deep its divisions nest. */
int mlsi_dim_weight(const mlsi_symtab *t, int64_t d, int *nest);
mlsys_status mlsi_dim_too_large(void);
mlsys_status mlsi_dim_floor(mlsi_symtab *t, int64_t a, int64_t b, int64_t *out);
/* Interval of an atom; false when an end saturated on the way. */
bool mlsi_atom_range(const mlsi_symtab *t, const mlsi_atom *atom, int64_t *min, int64_t *max);
/* The greatest symbol in an atom. */
int32_t mlsi_atom_symbol(const mlsi_symtab *t, const mlsi_atom *atom);
/* e >= 0? As mlsi_dim_prove. */
bool mlsi_expr_prove(const mlsi_symtab *t, int n_facts, const mlsi_dim_fact *facts,
                     const mlsi_expr *e);

static inline int64_t mlsi_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

#endif
