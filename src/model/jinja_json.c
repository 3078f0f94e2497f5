/* JSON: the filter tojson, and values from JSON texts. */
#include "model/jinja_impl.h"
#include "model/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_DEPTH = 100, MAX_KEYS = 10000 };

/* ---- writing, in the form of Python's json.dumps ----------------------------------------------
 */

typedef struct writer {
    run *r;
    mlsi_text text;
    value indent; /* a string, or none: one line */
    value between, after_key;
    bool ascii, sort_keys;
    int depth;
} writer;

static void write_string(writer *w, value v) {
    static const char plain[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
    mlsi_text *t = &w->text;
    jinja_add_bytes(t, "\"", 1);
    for (uint32_t i = 0; i < v.len;) {
        uint32_t c;
        int n = mlsi_utf8_decode(v.s + i, v.len - i, &c);
        if (!n) { /* not UTF-8 */
            c = 0xfffd;
            n = 1;
        }
        const char *k = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
        if (k)
            mlsi_text_add(t, "\\%c", letter[k - plain]);
        else if (c < 0x20 || (w->ascii && c >= 0x7f && c < 0x10000))
            mlsi_text_add(t, "\\u%04x", c);
        else if (w->ascii && c >= 0x10000)
            mlsi_text_add(t, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else if (c == 0xfffd)
            jinja_add_bytes(t, "\xef\xbf\xbd", 3);
        else
            jinja_add_bytes(t, v.s + i, (uint64_t)n);
        i += (uint32_t)n;
    }
    jinja_add_bytes(t, "\"", 1);
}

static void new_line(writer *w) {
    if (w->indent.type != MLSI_JINJA_STRING) return;
    jinja_add_bytes(&w->text, "\n", 1);
    for (int i = 0; i < w->depth; i++)
        jinja_add_bytes(&w->text, w->indent.s, w->indent.len);
}

static mlsys_status write(writer *w, value v);

static mlsys_status write_members(writer *w, value v) {
    bool dict = v.type == MLSI_JINJA_DICT;
    int64_t n = dict ? v.dict->n : v.list->n;
    if (!n) {
        mlsi_text_add(&w->text, dict ? "{}" : "[]");
        return w->text.st;
    }
    if (++w->depth > MAX_DEPTH)
        return jinja_fail(w->r, MLSYS_E_UNSUPPORTED, "tojson: nested deeper than %d", MAX_DEPTH);
    mlsi_text_add(&w->text, dict ? "{" : "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) jinja_add_bytes(&w->text, w->between.s, w->between.len);
        new_line(w);
        if (dict) {
            value key;
            MLSI_TRY(jinja_to_string(w->r, v.dict->keys[i], &key));
            write_string(w, key);
            jinja_add_bytes(&w->text, w->after_key.s, w->after_key.len);
        }
        MLSI_TRY(write(w, dict ? v.dict->values[i] : v.list->items[i]));
    }
    w->depth--;
    new_line(w);
    mlsi_text_add(&w->text, dict ? "}" : "]");
    return w->text.st;
}

static mlsys_status sorted_copy(writer *w, value v, value *out) {
    static const arguments no_args;
    value pairs;
    MLSI_TRY(jinja_filter_dictsort(w->r, v, &no_args, &pairs));
    MLSI_TRY(mlsi_jinja_dict_new(&w->r->arena, out));
    for (int64_t i = 0; i < pairs.list->n; i++) {
        const value *pair = pairs.list->items[i].list->items;
        MLSI_TRY(jinja_pay(w->r, i, 4 * sizeof *pair));
        MLSI_TRY(mlsi_jinja_dict_set(&w->r->arena, *out, pair[0], pair[1]));
    }
    return MLSYS_OK;
}

static mlsys_status write(writer *w, value v) {
    MLSI_TRY(jinja_pay(w->r, 1, 0));
    if (w->text.st == MLSYS_OK && w->text.len > w->r->memory)
        return jinja_pay(w->r, 0, w->text.len);
    switch (v.type) {
    case MLSI_JINJA_NONE: mlsi_text_add(&w->text, "null"); break;
    case MLSI_JINJA_BOOL: mlsi_text_add(&w->text, v.b ? "true" : "false"); break;
    case MLSI_JINJA_INT: mlsi_text_add(&w->text, "%" PRId64, v.i); break;
    case MLSI_JINJA_FLOAT:
        if (isfinite(v.f))
            jinja_str(&w->text, v);
        else
            mlsi_text_add(&w->text, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
        break;
    case MLSI_JINJA_STRING: write_string(w, v); break;
    case MLSI_JINJA_DICT:
        if (v.dict->is_namespace) goto refuse;
        if (w->sort_keys) MLSI_TRY(sorted_copy(w, v, &v));
        return write_members(w, v);
    case MLSI_JINJA_LIST: return write_members(w, v);
    default: goto refuse;
    }
    return w->text.st;
refuse:
    return jinja_fail(w->r, MLSYS_E_FORMAT, "tojson of %s",
                      v.type == MLSI_JINJA_DICT ? "a namespace" : jinja_type_name(v));
}

mlsys_status jinja_to_json(run *r, value v, const arguments *args, value *out) {
    static const char *const names[] = {"indent", "ensure_ascii", "separators", "sort_keys", NULL};
    value none = mlsi_jinja_none(), no = mlsi_jinja_bool(false);
    writer w = {.r = r, .indent = jinja_argument(args, 0, "indent", none)};
    value separators = jinja_argument(args, -1, "separators", none);
    MLSI_TRY(jinja_check_arguments(r, "tojson", args, names));
    w.ascii = jinja_truth(jinja_argument(args, -1, "ensure_ascii", no));
    w.sort_keys = jinja_truth(jinja_argument(args, -1, "sort_keys", no));
    if (w.indent.type == MLSI_JINJA_INT && w.indent.i >= 0 && w.indent.i <= 100)
        MLSI_TRY(jinja_binary(r, TOKEN_MUL, mlsi_jinja_string(" ", 1), w.indent, &w.indent));
    if (w.indent.type != MLSI_JINJA_NONE && w.indent.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "tojson: indent must be an integer up to 100");
    bool lines = w.indent.type == MLSI_JINJA_STRING;
    w.between = lines ? mlsi_jinja_string(",", 1) : mlsi_jinja_string(", ", 2);
    w.after_key = mlsi_jinja_string(": ", 2);
    if (separators.type == MLSI_JINJA_LIST && separators.list->n == 2) {
        w.between = separators.list->items[0];
        w.after_key = separators.list->items[1];
    }
    if (w.between.type != MLSI_JINJA_STRING || w.after_key.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "tojson: separators must be two strings");
    mlsi_text_init(&w.text, r->j->alloc);
    mlsys_status st = write(&w, v);
    if (st != MLSYS_OK) {
        mlsi_text_free(&w.text);
        return st;
    }
    return jinja_take_text(r, &w.text, out);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    mlsi_arena *arena;
    const char *start, *at, *end;
    int depth;
} reader;

static mlsys_status broken(const reader *d, const char *what) {
    return mlsi_fail(MLSYS_E_FORMAT, "json: byte %lld: %s", (long long)(d->at - d->start), what);
}

static void skip_blanks(reader *d) {
    while (d->at < d->end && memchr(" \t\n\r", *d->at, 4))
        d->at++;
}

static bool take(reader *d, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(d->end - d->at) < n || memcmp(d->at, text, n)) return false;
    d->at += n;
    return true;
}

static bool hex4(reader *d, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, d->at++) {
        char c = d->at < d->end ? *d->at : 0;
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) return false;
        *out = *out * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

static mlsys_status read_escape(reader *d, char *out, int *n) {
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    const char *k = d->at < d->end && *d->at ? strchr(letter, *d->at) : NULL;
    uint32_t c, low;
    if (k) {
        out[0] = plain[k - letter];
        *n = 1;
        d->at++;
        return MLSYS_OK;
    }
    if (!take(d, "u") || !hex4(d, &c)) return broken(d, "a broken escape");
    if (c >= 0xdc00 && c < 0xe000) return broken(d, "half a surrogate pair");
    if (c >= 0xd800 && c < 0xdc00) {
        if (!take(d, "\\u") || !hex4(d, &low) || low < 0xdc00 || low >= 0xe000)
            return broken(d, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *n = mlsi_utf8_encode(c, out);
    return MLSYS_OK;
}

static mlsys_status read_string(reader *d, value *out) {
    const char *k = ++d->at;
    char *s;
    while (k < d->end && *k != '"')
        k += *k == '\\' ? 2 : 1;
    if (k >= d->end) return broken(d, "the string does not end");
    MLSI_TRY(mlsi_arena_zalloc(d->arena, (uint64_t)(k - d->at) + 1, (void **)&s));
    uint64_t n = 0;
    while (d->at < k) {
        int made = 1;
        if ((unsigned char)*d->at < 0x20) return broken(d, "a control character in a string");
        if (*d->at == '\\') {
            d->at++;
            MLSI_TRY(read_escape(d, s + n, &made));
        } else {
            s[n] = *d->at++;
        }
        n += (uint64_t)made;
    }
    d->at = k + 1;
    *out = mlsi_jinja_string(s, n);
    return MLSYS_OK;
}

static mlsys_status read_number(reader *d, value *out) {
    char buf[64], *end;
    size_t n = 0;
    bool real = false;
    while (d->at + n < d->end && d->at[n] && strchr("+-.eE0123456789", d->at[n])) {
        real |= strchr(".eE", d->at[n]) != NULL;
        if (++n >= sizeof buf) return broken(d, "a number of more than 63 characters");
    }
    memcpy(buf, d->at, n);
    buf[n] = 0;
    const char *digits = buf + (buf[0] == '-');
    if (*digits < '0' || *digits > '9') return broken(d, "a value expected");
    if (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
        return broken(d, "a leading zero");
    double f = strtod(buf, &end);
    if (*end || end[-1] == '.') return broken(d, "a broken number");
    if (!real && fabs(f) < 9e18)
        *out = mlsi_jinja_int(strtoll(buf, NULL, 10));
    else
        *out = mlsi_jinja_float(f);
    d->at += n;
    return MLSYS_OK;
}

static mlsys_status read_value(reader *d, value *out);

static mlsys_status read_members(reader *d, bool dict, value *out) {
    value key = {.type = MLSI_JINJA_NONE}, v;
    const char *close = dict ? "}" : "]";
    if (++d->depth > MAX_DEPTH) return broken(d, "nested deeper than 100");
    MLSI_TRY(dict ? mlsi_jinja_dict_new(d->arena, out) : mlsi_jinja_list_new(d->arena, out));
    d->at++;
    skip_blanks(d);
    for (bool first = true; !(first && take(d, close)); first = false) {
        skip_blanks(d);
        if (dict) {
            if (d->at == d->end || *d->at != '"') return broken(d, "a key expected");
            MLSI_TRY(read_string(d, &key));
            if (out->dict->n >= MAX_KEYS) return broken(d, "an object with more than 10000 keys");
            skip_blanks(d);
            if (!take(d, ":")) return broken(d, "\":\" expected");
        }
        MLSI_TRY(read_value(d, &v));
        MLSI_TRY(dict ? mlsi_jinja_dict_set(d->arena, *out, key, v)
                      : mlsi_jinja_list_add(d->arena, *out, v));
        skip_blanks(d);
        if (take(d, close)) break;
        if (!take(d, ",")) return broken(d, "\",\" or the end expected");
    }
    d->depth--;
    return MLSYS_OK;
}

static mlsys_status read_value(reader *d, value *out) {
    skip_blanks(d);
    char c = d->at < d->end ? *d->at : 0;
    if (c == '"') return read_string(d, out);
    if (c == '{' || c == '[') return read_members(d, c == '{', out);
    *out = mlsi_jinja_none();
    if (take(d, "null")) return MLSYS_OK;
    *out = mlsi_jinja_bool(c == 't');
    if (take(d, "true") || take(d, "false")) return MLSYS_OK;
    return read_number(d, out);
}

mlsys_status mlsi_jinja_from_json(mlsi_arena *a, const char *text, uint64_t len, value *out) {
    reader d = {.arena = a, .start = text, .at = text, .end = text + len};
    MLSI_TRY(read_value(&d, out));
    skip_blanks(&d);
    return d.at == d.end ? MLSYS_OK : broken(&d, "more than one value");
}
