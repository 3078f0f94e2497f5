/* Attributes by description: one loop over an op's descriptors for each thing one can do with them.
 */
#include "core/faults.h"
#include "core/hash.h"
#include "ir/ops/op_def.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mlsi_attr_desc no_attrs[] = {{.name = NULL}};

static const mlsi_attr_desc *descriptors(const mlsi_op_def *def) {
    return def->attrs ? def->attrs : no_attrs;
}

static void *field(const mlsi_attr_desc *d, void *attrs) { return (char *)attrs + d->offset; }
static const void *field_const(const mlsi_attr_desc *d, const void *attrs) {
    return (const char *)attrs + d->offset;
}
static bool is_list(const mlsi_attr_desc *d) {
    return d->kind == MLSI_ATTR_LIST || d->kind == MLSI_ATTR_DIMS;
}

void mlsi_attrs_default(const mlsi_op_def *def, void *attrs) {
    memset(attrs, 0, def->attrs_size);
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++) {
        if (d->kind == MLSI_ATTR_F64)
            *(double *)field(d, attrs) = d->default_f;
        else if (!is_list(d))
            *(int64_t *)field(d, attrs) = d->default_i;
    }
}

/* ---- setting one attribute ---------------------------------------------------------------------
 */

static mlsys_status expected(const mlsi_attr_desc *d, const char *op, const char *what) {
    return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s: expected %s", op, d->name, what);
}

static mlsys_status set_int(const mlsi_attr_desc *d, const char *op, int64_t v, void *attrs) {
    int64_t n = 0;
    switch (d->kind) {
    case MLSI_ATTR_F64: *(double *)field(d, attrs) = (double)v; return MLSYS_OK;
    case MLSI_ATTR_BOOL:
        if (v != 0 && v != 1) return expected(d, op, "0 or 1");
        break;
    case MLSI_ATTR_ENUM:
        while (d->names[n])
            n++;
        if (v < 0 || v >= n)
            return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s: %lld outside [0,%lld]", op, d->name,
                             (long long)v, (long long)(n - 1));
        break;
    case MLSI_ATTR_DTYPE:
        if (v != 0 && (v < INT32_MIN || v > INT32_MAX || !mlsi_dtype_get((mlsys_dtype)v)))
            return mlsi_fail(MLSYS_E_DTYPE, "%s: attribute %s: unknown dtype %lld", op, d->name,
                             (long long)v);
        break;
    case MLSI_ATTR_LIST:
    case MLSI_ATTR_DIMS: {
        mlsi_list *l = field(d, attrs);
        memset(l, 0, sizeof *l);
        l->n = 1;
        l->v[0] = v;
        return MLSYS_OK;
    }
    default: break;
    }
    *(int64_t *)field(d, attrs) = v;
    return MLSYS_OK;
}

static mlsys_status set_float(const mlsi_attr_desc *d, const char *op, double v, void *attrs) {
    if (d->kind != MLSI_ATTR_F64) return expected(d, op, is_list(d) ? "integers" : "an integer");
    *(double *)field(d, attrs) = v;
    return MLSYS_OK;
}

static mlsys_status set_enum(const mlsi_attr_desc *d, const char *op, const char *s, void *attrs) {
    char all[160] = "";
    for (int64_t i = 0; d->names[i]; i++) {
        if (!strcmp(d->names[i], s)) return set_int(d, op, i, attrs);
        size_t used = strlen(all);
        if (used + strlen(d->names[i]) + 3 < sizeof all) {
            if (i) strcat(all, ", ");
            strcat(all, d->names[i]);
        }
    }
    return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s: \"%.40s\" is not one of %s", op, d->name, s,
                     all);
}

/* A word: name of an enum value or dtype, true, false, inf, nan. */
static mlsys_status set_word(const mlsi_attr_desc *d, const char *op, const char *s, void *attrs) {
    switch (d->kind) {
    case MLSI_ATTR_BOOL:
        if (!strcmp(s, "true")) return set_int(d, op, 1, attrs);
        if (!strcmp(s, "false")) return set_int(d, op, 0, attrs);
        return expected(d, op, "true or false");
    case MLSI_ATTR_ENUM: return set_enum(d, op, s, attrs);
    case MLSI_ATTR_DTYPE: {
        mlsys_dtype t = mlsi_dtype_by_name(s);
        if (!t)
            return mlsi_fail(MLSYS_E_DTYPE, "%s: attribute %s: unknown dtype \"%.40s\"", op,
                             d->name, s);
        return set_int(d, op, t, attrs);
    }
    case MLSI_ATTR_F64: {
        char *end;
        double v = strtod(s, &end);
        if (end == s || *end) return expected(d, op, "a number");
        return set_float(d, op, v, attrs);
    }
    default: return expected(d, op, is_list(d) ? "integers" : "an integer");
    }
}

static mlsys_status set_list(const mlsi_attr_desc *d, const char *op, int64_t n, const int64_t *v,
                             void *attrs) {
    if (!is_list(d)) return expected(d, op, "one value, not a list");
    if (n < 0 || n > MLSI_LIST_CAP)
        return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s: %lld entries, at most %d", op, d->name,
                         (long long)n, MLSI_LIST_CAP);
    mlsi_list *l = field(d, attrs);
    memset(l, 0, sizeof *l);
    l->n = n;
    if (n) memcpy(l->v, v, sizeof *v * (size_t)n);
    return MLSYS_OK;
}

static const mlsi_attr_desc *find(const mlsi_op_def *def, const char *name) {
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        if (!strcmp(d->name, name)) return d;
    return NULL;
}

/* An expression of numbers is the number that it is ("- 5" counts from the end like -5). Other far negative
 * numbers in DIMS are codes or nothing: a stale code must not pass for a number. */
static mlsys_status settle_dims(const mlsi_attr_desc *d, const char *op, const mlsi_symtab *tab,
                                mlsi_list *l) {
    for (int64_t i = 0; i < l->n; i++) {
        if (l->v[i] > MLSI_DIM_CODE || l->v[i] == INT64_MIN) continue;
        bool code = tab && mlsi_dim_is_code(tab, l->v[i]);
        if (code && mlsi_dim_constant(tab, l->v[i], &l->v[i])) code = l->v[i] > MLSI_DIM_CODE;
        if (!code)
            return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s: entry %lld is not a dim of this graph",
                             op, d->name, (long long)i);
    }
    return MLSYS_OK;
}

static mlsys_status settle(const mlsi_op_def *def, const char *op, const mlsi_symtab *tab,
                           void *attrs) {
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        if (d->kind == MLSI_ATTR_DIMS) MLSI_TRY(settle_dims(d, op, tab, field(d, attrs)));
    return MLSYS_OK;
}

mlsys_status mlsi_attrs_from_config(const mlsi_op_def *def, const char *op, const mlsi_symtab *tab,
                                    const mlsi_config *c, void *attrs) {
    mlsi_attrs_default(def, attrs);
    for (int64_t i = 0; c && i < c->count; i++) {
        const mlsi_config_entry *e = &c->entries[i];
        const mlsi_attr_desc *d = find(def, e->key);
        if (!d) return mlsi_fail(MLSYS_E_ARG, "%s: no attribute \"%.60s\"", op, e->key);
        switch (e->type) {
        case 'i': MLSI_TRY(set_int(d, op, e->i, attrs)); break;
        case 'f': MLSI_TRY(set_float(d, op, e->f, attrs)); break;
        case 's': MLSI_TRY(set_word(d, op, e->s, attrs)); break;
        default: MLSI_TRY(set_list(d, op, e->n, e->v, attrs)); break;
        }
    }
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        if (d->required && !(c && mlsi_config_find(c, d->name)))
            return mlsi_fail(MLSYS_E_ARG, "%s: attribute %s is required", op, d->name);
    return settle(def, op, tab, attrs);
}

/* ---- text --------------------------------------------------------------------------------------
 */

static bool is_default(const mlsi_attr_desc *d, const void *attrs) {
    const void *p = field_const(d, attrs);
    if (is_list(d)) return ((const mlsi_list *)p)->n == 0;
    if (d->kind == MLSI_ATTR_F64) return !memcmp(p, &d->default_f, sizeof(double));
    return *(const int64_t *)p == d->default_i;
}

static void print_list(const mlsi_list *l, const mlsi_symtab *tab, mlsi_text *out) {
    mlsi_text_add(out, "[");
    for (int64_t i = 0; i < l->n; i++) {
        mlsi_text_add(out, i ? ", " : "");
        if (tab)
            mlsi_dim_print(tab, l->v[i], out);
        else
            mlsi_text_add(out, "%lld", (long long)l->v[i]);
    }
    mlsi_text_add(out, "]");
}

static void print_value(const mlsi_attr_desc *d, const void *attrs, const mlsi_symtab *tab,
                        mlsi_text *out) {
    const void *p = field_const(d, attrs);
    int64_t v = is_list(d) || d->kind == MLSI_ATTR_F64 ? 0 : *(const int64_t *)p;
    switch (d->kind) {
    case MLSI_ATTR_BOOL: mlsi_text_add(out, v ? "true" : "false"); break;
    case MLSI_ATTR_ENUM: mlsi_text_add(out, "%s", d->names[v]); break;
    case MLSI_ATTR_DTYPE: {
        const mlsi_dtype_info *info = mlsi_dtype_get((mlsys_dtype)v);
        mlsi_text_add(out, "%s", info ? info->name : "0");
        break;
    }
    case MLSI_ATTR_F64: mlsi_text_add(out, "%.17g", *(const double *)p); break;
    case MLSI_ATTR_LIST: print_list(p, NULL, out); break;
    case MLSI_ATTR_DIMS: print_list(p, tab, out); break;
    default: mlsi_text_add(out, "%lld", (long long)v); break;
    }
}

void mlsi_attrs_print(const mlsi_op_def *def, const void *attrs, const mlsi_symtab *tab,
                      mlsi_text *out) {
    int printed = 0;
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++) {
        if (!d->required && is_default(d, attrs)) continue;
        mlsi_text_add(out, "%s%s=", printed++ ? ", " : "{", d->name);
        print_value(d, attrs, tab, out);
    }
    if (printed) mlsi_text_add(out, "}");
}

static void skip_space(const char **p) {
    while (**p == ' ' || **p == '\t' || **p == '\n')
        (*p)++;
}

static mlsys_status bad_text(const char *op, const char *what, const char *p) {
    return mlsi_fail(MLSYS_E_FORMAT, "%s: attributes: %s expected at \"%.20s\"", op, what, p);
}

/* Letters, digits, _ and, for numbers, sign and point. */
static bool read_word(const char **p, char *word, size_t cap) {
    size_t n = strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.");
    if (n == 0 || n >= cap) return false;
    memcpy(word, *p, n);
    word[n] = 0;
    *p += n;
    return true;
}

static bool plain_integer(const char **p, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(*p, &end, 10);
    if (end == *p || errno || (*end && strchr("*/+-.(eE", *end))) return false;
    *p = end;
    *out = v;
    return true;
}

static mlsys_status parse_list(const mlsi_attr_desc *d, const char *op, mlsi_symtab *tab,
                               const char **p, void *attrs) {
    int64_t v[MLSI_LIST_CAP], n = 0;
    (*p)++; /* '[' */
    skip_space(p);
    while (**p != ']') {
        if (n == MLSI_LIST_CAP) return bad_text(op, "at most 16 entries and ']'", *p);
        if (!plain_integer(p, &v[n])) {
            if (d->kind != MLSI_ATTR_DIMS || !tab) return bad_text(op, "an integer", *p);
            MLSI_TRY(mlsi_dim_parse(tab, p, &v[n]));
        }
        n++;
        skip_space(p);
        if (**p == ',') {
            (*p)++;
            skip_space(p);
        } else if (**p != ']') {
            return bad_text(op, "',' or ']'", *p);
        }
    }
    (*p)++;
    return set_list(d, op, n, v, attrs);
}

static mlsys_status parse_value(const mlsi_attr_desc *d, const char *op, mlsi_symtab *tab,
                                const char **p, void *attrs) {
    char word[64];
    if (**p == '[') return parse_list(d, op, tab, p, attrs);
    const char *q = *p;
    if (!read_word(&q, word, sizeof word)) return bad_text(op, "a value", *p);
    bool number = d->kind != MLSI_ATTR_F64 && d->kind != MLSI_ATTR_ENUM;
    int64_t v;
    const char *w = word;
    *p = q;
    if (number && plain_integer(&w, &v) && !*w) return set_int(d, op, v, attrs);
    return set_word(d, op, word, attrs);
}

static mlsys_status parse_entries(const mlsi_op_def *def, const char *op, mlsi_symtab *tab,
                                  const char **p, void *attrs, uint64_t *seen) {
    for (;;) {
        char name[64];
        skip_space(p);
        const char *at = *p;
        if (!read_word(p, name, sizeof name)) return bad_text(op, "a name", *p);
        const mlsi_attr_desc *d = find(def, name);
        if (!d) return mlsi_fail(MLSYS_E_FORMAT, "%s: no attribute \"%s\"", op, name);
        uint64_t bit = (uint64_t)1 << (d - descriptors(def));
        if (*seen & bit) return bad_text(op, "each attribute once", at);
        *seen |= bit;
        skip_space(p);
        if (*(*p)++ != '=') return bad_text(op, "'='", *p - 1);
        skip_space(p);
        MLSI_TRY(parse_value(d, op, tab, p, attrs));
        skip_space(p);
        if (**p == '}') return (*p)++, MLSYS_OK;
        if (*(*p)++ != ',') return bad_text(op, "',' or '}'", *p - 1);
    }
}

mlsys_status mlsi_attrs_parse(const mlsi_op_def *def, const char *op, mlsi_symtab *tab,
                              const char **p, void *attrs) {
    uint64_t seen = 0;
    mlsi_attrs_default(def, attrs);
    if (**p == '{') {
        (*p)++;
        MLSI_TRY(parse_entries(def, op, tab, p, attrs, &seen));
    }
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        if (d->required && !(seen >> (d - descriptors(def)) & 1))
            return mlsi_fail(MLSYS_E_FORMAT, "%s: attribute %s is required", op, d->name);
    return settle(def, op, tab, attrs);
}

/* ---- values ------------------------------------------------------------------------------------
 */

mlsys_status mlsi_attrs_resolve(const mlsi_op_def *def, const void *attrs, const mlsi_symtab *tab,
                                const int64_t *binding, void *resolved) {
    memcpy(resolved, attrs, def->attrs_size);
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++) {
        if (d->kind != MLSI_ATTR_DIMS) continue;
        mlsi_list *l = field(d, resolved);
        for (int64_t i = 0; i < l->n; i++)
            MLSI_TRY(mlsi_dim_eval(tab, l->v[i], binding, &l->v[i]));
    }
    return MLSYS_OK;
}

static size_t field_bytes(const mlsi_attr_desc *d) {
    return is_list(d) ? sizeof(mlsi_list) : sizeof(int64_t);
}

bool mlsi_attrs_equal(const mlsi_op_def *def, const void *a, const void *b) {
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        if (memcmp(field_const(d, a), field_const(d, b), field_bytes(d)) &&
            !(mlsi_fault(MLSI_FAULT_OPS_ATTR_EQUAL) && d->kind == MLSI_ATTR_F64))
            return false;
    return true;
}

uint64_t mlsi_attrs_hash(const mlsi_op_def *def, const void *attrs) {
    uint64_t h = MLSI_HASH_SEED;
    for (const mlsi_attr_desc *d = descriptors(def); d->name; d++)
        h = mlsi_hash_bytes(h, field_const(d, attrs), field_bytes(d));
    return mlsi_hash_mix(h);
}
