/* Text form of dims. */
#include "ir/graph/dims.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 4 * MLSI_DIM_NEST }; /* of parentheses; printing uses two per nested division */

/* Where text goes: a buffer that cuts, or a growing text. */
typedef struct sink {
    char *buf;
    int cap, n;
    mlsi_text *text;
} sink;

static void put(sink *s, const char *text) {
    if (s->text) {
        mlsi_text_add(s->text, "%s", text);
        return;
    }
    for (; *text && s->n < s->cap - 1; text++)
        s->buf[s->n++] = *text;
    s->buf[s->n] = 0;
}

static void put_int(sink *s, int64_t v) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)v);
    put(s, number);
}

static void write_dim(const mlsi_symtab *t, int64_t d, sink *s);

static void write_atom(const mlsi_symtab *t, const mlsi_atom *atom, bool whole, sink *s) {
    if (!atom->op) {
        const mlsi_symbol *symbol = &t->symbols[atom->symbol];
        put(s, whole ? "" : "((");
        put(s, symbol->name);
        if (whole) return;
        put(s, ")/(");
        put_int(s, symbol->divisor);
        put(s, "))");
        return;
    }
    put(s, "((");
    write_dim(t, atom->a, s);
    put(s, ")/(");
    write_dim(t, atom->b, s);
    put(s, "))");
}

/* A symbol is divisor times its unit: where the coefficient holds the divisor the symbol is
 * written, else the unit as a division. */
static void write_term(const mlsi_symtab *t, const mlsi_term *term, bool first, sink *s) {
    bool whole[MLSI_TERM_ATOMS];
    int64_t coef = term->coef;
    for (int j = 0; j < term->n; j++) {
        const mlsi_atom *atom = &t->atoms[term->atoms[j]];
        int64_t divisor = atom->op ? 1 : t->symbols[atom->symbol].divisor;
        whole[j] = coef % divisor == 0;
        if (whole[j]) coef /= divisor;
    }
    if (!first && coef > 0) put(s, "+");
    bool unit = term->n && (coef == 1 || coef == -1);
    if (!unit)
        put_int(s, coef);
    else if (coef < 0)
        put(s, "-");
    for (int j = 0; j < term->n; j++) {
        if (j || !unit) put(s, "*");
        write_atom(t, &t->atoms[term->atoms[j]], whole[j], s);
    }
}

static void write_dim(const mlsi_symtab *t, int64_t d, sink *s) {
    if (!mlsi_dim_is_code(t, d)) {
        put_int(s, d);
        return;
    }
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n; i++)
        write_term(t, &e->terms[i], i == 0, s);
}

const char *mlsi_dim_text(const mlsi_symtab *t, int64_t d, char *buf, int cap) {
    sink s = {.buf = buf, .cap = cap};
    buf[0] = 0;
    write_dim(t, d, &s);
    return buf;
}

void mlsi_dim_print(const mlsi_symtab *t, int64_t d, mlsi_text *out) {
    sink s = {.text = out};
    write_dim(t, d, &s);
}

static void skip_space(const char **p) {
    while (**p == ' ')
        (*p)++;
}

static mlsys_status parse_sum(mlsi_symtab *t, const char **p, int depth, int64_t *out);

static mlsys_status parse_factor(mlsi_symtab *t, const char **p, int depth, int64_t *out) {
    skip_space(p);
    if (depth > MAX_DEPTH)
        return mlsi_fail(MLSYS_E_FORMAT, "dim: nested deeper than %d", MAX_DEPTH);
    if (**p == '(') {
        (*p)++;
        MLSI_TRY(parse_sum(t, p, depth + 1, out));
        skip_space(p);
        if (**p != ')') return mlsi_fail(MLSYS_E_FORMAT, "dim: ')' expected at \"%.10s\"", *p);
        (*p)++;
        return MLSYS_OK;
    }
    if (**p >= '0' && **p <= '9') {
        int64_t v = 0;
        for (; **p >= '0' && **p <= '9'; (*p)++)
            if (!mlsi_mul_i64(v, 10, &v) || !mlsi_add_i64(v, **p - '0', &v))
                return mlsi_fail(MLSYS_E_FORMAT, "dim: integer is too large");
        *out = v;
        return MLSYS_OK;
    }
    size_t n = strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    for (int64_t i = 0; n && i < t->n_symbols; i++) {
        const mlsi_symbol *s = &t->symbols[i];
        if (strlen(s->name) != n || strncmp(s->name, *p, n)) continue;
        *p += n;
        return mlsi_dim_symbol(t, s->name, s->min, s->max, s->divisor, out);
    }
    return mlsi_fail(MLSYS_E_FORMAT, "dim: integer or known symbol expected at \"%.20s\"", *p);
}

static mlsys_status parse_product(mlsi_symtab *t, const char **p, int depth, int64_t *out) {
    MLSI_TRY(parse_factor(t, p, depth, out));
    for (;;) {
        skip_space(p);
        char op = **p;
        if (op != '*' && op != '/') return MLSYS_OK;
        (*p)++;
        int64_t b;
        MLSI_TRY(parse_factor(t, p, depth, &b));
        MLSI_TRY(mlsi_dim_op(t, op, *out, b, out));
    }
}

static mlsys_status parse_sum(mlsi_symtab *t, const char **p, int depth, int64_t *out) {
    skip_space(p);
    bool negative = **p == '-';
    if (negative) (*p)++;
    MLSI_TRY(parse_product(t, p, depth, out));
    if (negative) MLSI_TRY(mlsi_dim_op(t, '-', 0, *out, out));
    for (;;) {
        skip_space(p);
        char op = **p;
        if (op != '+' && op != '-') return MLSYS_OK;
        (*p)++;
        int64_t b;
        MLSI_TRY(parse_product(t, p, depth, &b));
        MLSI_TRY(mlsi_dim_op(t, op, *out, b, out));
    }
}

mlsys_status mlsi_dim_parse(mlsi_symtab *t, const char **p, int64_t *out) {
    return parse_sum(t, p, 0, out);
}
