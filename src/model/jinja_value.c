/* Values as Python sees them: truth, equality, order, str(), repr(). */
#include "model/jinja_impl.h"
#include "model/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_REPR_DEPTH = 50, MAX_REPR_BYTES = 1 << 24 };

/* ---- making ---------------------------------------------------------------------------------- */

mlsys_status mlsi_jinja_list_new(mlsi_arena *a, value *out) {
    out->type = MLSI_JINJA_LIST;
    return mlsi_arena_zalloc(a, sizeof *out->list, (void **)&out->list);
}

mlsys_status mlsi_jinja_dict_new(mlsi_arena *a, value *out) {
    out->type = MLSI_JINJA_DICT;
    return mlsi_arena_zalloc(a, sizeof *out->dict, (void **)&out->dict);
}

/* The arena keeps the old array; doubling makes that a constant factor. */
static mlsys_status grow(mlsi_arena *a, value **items, int64_t n, int64_t cap) {
    value *p;
    MLSI_TRY(mlsi_arena_zalloc(a, (uint64_t)cap * sizeof *p, (void **)&p));
    if (n) memcpy(p, *items, (uint64_t)n * sizeof *p);
    *items = p;
    return MLSYS_OK;
}

mlsys_status mlsi_jinja_list_add(mlsi_arena *a, value list, value item) {
    mlsi_jinja_list *l = list.list;
    if (l->n == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 4;
        MLSI_TRY(grow(a, &l->items, l->n, cap));
        l->cap = cap;
    }
    l->items[l->n++] = item;
    return MLSYS_OK;
}

mlsys_status mlsi_jinja_dict_set(mlsi_arena *a, value dict, value key, value v) {
    mlsi_jinja_dict *d = dict.dict;
    for (int64_t i = 0; i < d->n; i++)
        if (jinja_same_key(d->keys[i], key)) {
            d->values[i] = v;
            return MLSYS_OK;
        }
    if (d->n == d->cap) {
        int64_t cap = d->cap ? 2 * d->cap : 4;
        MLSI_TRY(grow(a, &d->keys, d->n, cap));
        MLSI_TRY(grow(a, &d->values, d->n, cap));
        d->cap = cap;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
    return MLSYS_OK;
}

mlsys_status mlsi_jinja_dict_put(mlsi_arena *a, value dict, const char *key, value v) {
    return mlsi_jinja_dict_set(a, dict, mlsi_jinja_string(key, strlen(key)), v);
}

value mlsi_jinja_dict_get(value dict, value key) {
    for (int64_t i = 0; i < dict.dict->n; i++)
        if (jinja_same_key(dict.dict->keys[i], key)) return dict.dict->values[i];
    return (value){.type = MLSI_JINJA_UNDEFINED};
}

/* ---- comparing ------------------------------------------------------------------------------- */

const char *jinja_type_name(value v) {
    static const char *const names[] = {"undefined", "none",     "a boolean",  "an integer",
                                        "a float",   "a string", "a list",     "a dict",
                                        "a loop",    "a macro",  "a function", "a method"};
    return names[v.type];
}

bool jinja_truth(value v) {
    switch (v.type) {
    case MLSI_JINJA_UNDEFINED:
    case MLSI_JINJA_NONE: return false;
    case MLSI_JINJA_BOOL: return v.b;
    case MLSI_JINJA_INT: return v.i != 0;
    case MLSI_JINJA_FLOAT: return v.f != 0;
    case MLSI_JINJA_STRING: return v.len != 0;
    case MLSI_JINJA_LIST: return v.list->n != 0;
    case MLSI_JINJA_DICT: return v.dict->is_namespace || v.dict->n != 0;
    default: return true;
    }
}

bool jinja_same_key(value a, value b) {
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.type == MLSI_JINJA_FLOAT || b.type == MLSI_JINJA_FLOAT)
            return jinja_float_of(a) == jinja_float_of(b);
        return jinja_int_of(a) == jinja_int_of(b);
    }
    if (a.type != b.type) return false;
    if (a.type == MLSI_JINJA_STRING) return a.len == b.len && !memcmp(a.s, b.s, a.len);
    return a.type == MLSI_JINJA_NONE || a.type == MLSI_JINJA_UNDEFINED;
}

static mlsys_status equal_dicts(run *r, value a, value b, bool *out) {
    *out = a.dict->n == b.dict->n;
    for (int64_t i = 0; *out && i < a.dict->n; i++) {
        value other = mlsi_jinja_dict_get(b, a.dict->keys[i]);
        MLSI_TRY(jinja_pay(r, b.dict->n, 0));
        *out = other.type != MLSI_JINJA_UNDEFINED;
        if (*out) MLSI_TRY(jinja_equal(r, a.dict->values[i], other, out));
    }
    return MLSYS_OK;
}

/* Values hold others, but never themselves: only namespaces can, and those are compared by
 * identity. Still one value may be reached on many ways, so every step is paid for. */
mlsys_status jinja_equal(run *r, value a, value b, bool *out) {
    MLSI_TRY(jinja_pay(r, 1, 0));
    *out = false;
    if (a.type != b.type || a.type <= MLSI_JINJA_STRING) {
        *out = jinja_same_key(a, b);
        return MLSYS_OK;
    }
    *out = a.list == b.list; /* the same object */
    if (*out) return MLSYS_OK;
    if (a.type == MLSI_JINJA_DICT && !a.dict->is_namespace && !b.dict->is_namespace)
        return equal_dicts(r, a, b, out);
    if (a.type != MLSI_JINJA_LIST) return MLSYS_OK;
    *out = a.list->n == b.list->n && a.list->is_tuple == b.list->is_tuple;
    for (int64_t i = 0; *out && i < a.list->n; i++)
        MLSI_TRY(jinja_equal(r, a.list->items[i], b.list->items[i], out));
    return MLSYS_OK;
}

bool jinja_compare(value a, value b, int *order) {
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.type == MLSI_JINJA_FLOAT || b.type == MLSI_JINJA_FLOAT) {
            double x = jinja_float_of(a), y = jinja_float_of(b);
            *order = (x > y) - (x < y);
        } else {
            int64_t x = jinja_int_of(a), y = jinja_int_of(b);
            *order = (x > y) - (x < y);
        }
        return true;
    }
    if (a.type != MLSI_JINJA_STRING || b.type != MLSI_JINJA_STRING) return false;
    /* The order of UTF-8 bytes is the order of characters. */
    uint32_t n = a.len < b.len ? a.len : b.len;
    *order = n ? memcmp(a.s, b.s, n) : 0;
    if (!*order) *order = (a.len > b.len) - (a.len < b.len);
    return true;
}

/* ---- characters ------------------------------------------------------------------------------ */

static int step(const char *s, uint64_t len, uint32_t *c) {
    int n = mlsi_utf8_decode(s, len, c);
    if (!n) *c = 0xfffd;
    return n ? n : 1;
}

int64_t jinja_chars(const char *s, uint64_t len) {
    int64_t n = 0;
    uint32_t c;
    for (uint64_t i = 0; i < len; n++)
        i += (uint64_t)step(s + i, len - i, &c);
    return n;
}

uint64_t jinja_char_offset(const char *s, uint64_t len, int64_t chars) {
    uint64_t i = 0;
    uint32_t c;
    for (; chars > 0 && i < len; chars--)
        i += (uint64_t)step(s + i, len - i, &c);
    return i;
}

bool jinja_is_space(uint32_t c) { /* Python's str.isspace */
    return (c >= 28 && c <= 31) || mlsi_is_white_space(c);
}

/* ---- writing --------------------------------------------------------------------------------- */

void jinja_add_bytes(mlsi_text *t, const char *s, uint64_t n) {
    if (t->st != MLSYS_OK) return;
    t->st = MLSI_GROW(t->alloc, &t->data, &t->cap, t->len + (int64_t)n + 1);
    if (t->st != MLSYS_OK) return;
    if (n) memcpy(t->data + t->len, s, n);
    t->len += (int64_t)n;
    t->data[t->len] = 0;
}

static void add_float(mlsi_text *t, double f) {
    char buf[40];
    if (isnan(f) || isinf(f)) {
        mlsi_text_add(t, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    do { /* the shortest digits that read back */
        snprintf(buf, sizeof buf, "%.*e", digits - 1, f);
    } while (strtod(buf, NULL) != f && ++digits <= 17);
    int exponent = atoi(strchr(buf, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        snprintf(buf, sizeof buf, "%.*f", decimals > 1 ? decimals : 1, f);
    }
    mlsi_text_add(t, "%s", buf);
}

static void repr_string(mlsi_text *t, value v) {
    char quote = memchr(v.s, '\'', v.len) && !memchr(v.s, '"', v.len) ? '"' : '\'';
    mlsi_text_add(t, "%c", quote);
    for (uint32_t i = 0; i < v.len; i++) {
        char c = v.s[i];
        const char *escaped = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        if (escaped)
            mlsi_text_add(t, "%s", escaped);
        else if (c == quote || c == '\\')
            mlsi_text_add(t, "\\%c", c);
        else if ((unsigned char)c < 0x20 || c == 0x7f)
            mlsi_text_add(t, "\\x%02x", c);
        else
            jinja_add_bytes(t, &c, 1);
    }
    mlsi_text_add(t, "%c", quote);
}

static void add_text(mlsi_text *t, const char *s) { jinja_add_bytes(t, s, strlen(s)); }

static void repr_list(mlsi_text *t, const mlsi_jinja_list *l, int depth) {
    add_text(t, l->is_tuple ? "(" : "[");
    for (int64_t i = 0; i < l->n && t->st == MLSYS_OK; i++) {
        if (i) add_text(t, ", ");
        jinja_repr(t, l->items[i], depth + 1);
    }
    add_text(t, !l->is_tuple ? "]" : l->n == 1 ? ",)" : ")");
}

/* One value may be reached on many ways, so a small tree can print long: that is the limit here. */
static bool is_full(mlsi_text *t) {
    if (t->st == MLSYS_OK && t->len > MAX_REPR_BYTES)
        t->st =
            mlsi_fail(MLSYS_E_UNSUPPORTED, "a value prints longer than %d bytes", MAX_REPR_BYTES);
    return t->st != MLSYS_OK;
}

void jinja_repr(mlsi_text *t, value v, int depth) {
    if (is_full(t)) return;
    if (depth > MAX_REPR_DEPTH || (v.type == MLSI_JINJA_DICT && v.dict->is_namespace)) {
        t->st = mlsi_fail(MLSYS_E_UNSUPPORTED, "printing %s is not supported",
                          depth > MAX_REPR_DEPTH ? "a value so deep" : "a namespace");
        return;
    }
    switch (v.type) {
    case MLSI_JINJA_UNDEFINED: add_text(t, "Undefined"); break;
    case MLSI_JINJA_STRING: repr_string(t, v); break;
    case MLSI_JINJA_LIST: repr_list(t, v.list, depth); break;
    case MLSI_JINJA_DICT:
        add_text(t, "{");
        for (int64_t i = 0; i < v.dict->n && t->st == MLSYS_OK; i++) {
            if (i) add_text(t, ", ");
            jinja_repr(t, v.dict->keys[i], depth + 1);
            add_text(t, ": ");
            jinja_repr(t, v.dict->values[i], depth + 1);
        }
        add_text(t, "}");
        break;
    default: jinja_str(t, v);
    }
}

void jinja_str(mlsi_text *t, value v) {
    switch (v.type) {
    case MLSI_JINJA_UNDEFINED: break;
    case MLSI_JINJA_NONE: add_text(t, "None"); break;
    case MLSI_JINJA_BOOL: add_text(t, v.b ? "True" : "False"); break;
    case MLSI_JINJA_INT: mlsi_text_add(t, "%" PRId64, v.i); break;
    case MLSI_JINJA_FLOAT: add_float(t, v.f); break;
    case MLSI_JINJA_STRING: jinja_add_bytes(t, v.s, v.len); break;
    case MLSI_JINJA_LIST:
    case MLSI_JINJA_DICT: jinja_repr(t, v, 0); break;
    default: mlsi_text_add(t, "<%s>", jinja_type_name(v));
    }
}
