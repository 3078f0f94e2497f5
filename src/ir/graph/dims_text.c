/* Text form of dims. */
#include "ir/graph/dims.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32 }; /* of parentheses and nested divisions in text */

static void put(char *buf, int cap, int *n, const char *s) {
    int len = (int)strlen(s);
    for (int i = 0; i < len && *n < cap - 1; i++) buf[(*n)++] = s[i];
    buf[*n] = 0;
}

static void write_dim(const mlsi_symtab *t, int64_t d, char *buf, int cap, int *n) {
    char number[32];
    if (!mlsi_dim_is_code(t, d)) {
        snprintf(number, sizeof number, "%lld", (long long)d);
        put(buf, cap, n, number);
        return;
    }
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n; i++) {
        const mlsi_term *term = &e->terms[i];
        if (i && term->coef > 0) put(buf, cap, n, "+");
        bool unit = term->n && (term->coef == 1 || term->coef == -1);
        snprintf(number, sizeof number, "%lld", (long long)term->coef);
        put(buf, cap, n, unit ? (term->coef < 0 ? "-" : "") : number);
        for (int j = 0; j < term->n; j++) {
            const mlsi_atom *atom = &t->atoms[term->atoms[j]];
            if (j || !unit) put(buf, cap, n, "*");
            if (!atom->op) {
                put(buf, cap, n, t->symbols[atom->symbol].name);
                continue;
            }
            put(buf, cap, n, "((");
            write_dim(t, atom->a, buf, cap, n);
            put(buf, cap, n, ")/(");
            write_dim(t, atom->b, buf, cap, n);
            put(buf, cap, n, "))");
        }
    }
}

const char *mlsi_dim_text(const mlsi_symtab *t, int64_t d, char *buf, int cap) {
    int n = 0;
    buf[0] = 0;
    write_dim(t, d, buf, cap, &n);
    return buf;
}

void mlsi_dim_print(const mlsi_symtab *t, int64_t d, mlsi_text *out) {
    char buf[1024];
    mlsi_text_add(out, "%s", mlsi_dim_text(t, d, buf, sizeof buf));
}

static void skip_space(const char **p) {
    while (**p == ' ') (*p)++;
}

static mlsys_status parse_sum(mlsi_symtab *t, const char **p, int depth, int64_t *out);

static mlsys_status parse_factor(mlsi_symtab *t, const char **p, int depth, int64_t *out) {
    skip_space(p);
    if (depth > MAX_DEPTH) return mlsi_fail(MLSYS_E_FORMAT, "dim: nested deeper than %d", MAX_DEPTH);
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
    size_t n =
        strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
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
