/* Methods of strings, with Python's meaning. */
#include "model/jinja_impl.h"
#include "model/utf8.h"

#if defined(MLSI_HAVE_UTF8PROC) && MLSI_HAVE_UTF8PROC
#include <utf8proc.h>
static bool has_case_tables(void) { return true; }
static uint32_t to_case(uint32_t c, char how) {
    return (uint32_t)(how == 'l'   ? utf8proc_tolower((utf8proc_int32_t)c)
                      : how == 'u' ? utf8proc_toupper((utf8proc_int32_t)c)
                                   : utf8proc_totitle((utf8proc_int32_t)c));
}
static bool is_cased(uint32_t c) {
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}
#else
static bool has_case_tables(void) { return false; }
static bool is_cased(uint32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
static uint32_t to_case(uint32_t c, char how) {
    return !is_cased(c) ? c : how == 'l' ? c | 32 : c & ~(uint32_t)32;
}
#endif

/* how: "lower", "upper", "title" (each word), "capitalize" (the first character). */
mlsys_status jinja_change_case(run *r, value on, const char *how, value *out) {
    char *s, kind = how[0];
    uint64_t n = 0;
    bool inside = false, first = true;
    MLSI_TRY(jinja_text(r, 2 * (uint64_t)on.len, &s)); /* one mapping grows 2 bytes to 3 */
    for (uint32_t i = 0; i < on.len;) {
        uint32_t c;
        int len = mlsi_utf8_decode(on.s + i, on.len - i, &c);
        if (!len) { /* not UTF-8: as it is */
            s[n++] = on.s[i++];
            continue;
        }
        if (c >= 0x80 && !has_case_tables())
            return jinja_fail(r, MLSYS_E_UNSUPPORTED,
                              "%s of U+%04X needs utf8proc, which this build "
                              "of the library was made without",
                              how, c);
        bool cased = is_cased(c);
        char to = kind == 'l' || kind == 'u' ? kind : (kind == 't' ? inside : !first) ? 'l' : 't';
        n += (uint64_t)mlsi_utf8_encode(to_case(c, to), s + n);
        inside = cased;
        first = false;
        i += (uint32_t)len;
    }
    *out = mlsi_jinja_string(s, n);
    return MLSYS_OK;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool in_set(const char *s, uint64_t len, value chars) {
    uint32_t c;
    if (chars.type == MLSI_JINJA_NONE) return mlsi_utf8_decode(s, len, &c) && jinja_is_space(c);
    for (uint32_t i = 0, n; i < chars.len; i += n) {
        n = (uint32_t)jinja_char_offset(chars.s + i, chars.len - i, 1);
        if (n == len && !memcmp(chars.s + i, s, n)) return true;
    }
    return false;
}

mlsys_status jinja_strip(run *r, value on, value chars, bool left, bool right, value *out) {
    const char *s = on.s;
    uint64_t len = on.len, n;
    if (chars.type != MLSI_JINJA_NONE && chars.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "strip takes a string, not %s",
                          jinja_type_name(chars));
    MLSI_TRY(jinja_pay(r, 0, on.len));
    while (left && len && (n = jinja_char_offset(s, len, 1), in_set(s, n, chars))) {
        s += n;
        len -= n;
    }
    while (right && len) {
        for (n = 1; n < len && n < 4 && ((unsigned char)s[len - n] & 0xc0) == 0x80;)
            n++;
        if (jinja_char_offset(s + len - n, n, 1) != n) n = 1; /* not UTF-8 */
        if (!in_set(s + len - n, n, chars)) break;
        len -= n;
    }
    *out = mlsi_jinja_string(s, len);
    return MLSYS_OK;
}

static bool has_end(value on, value part, bool at_start) {
    if (part.type != MLSI_JINJA_STRING || part.len > on.len) return false;
    return !part.len || !memcmp(at_start ? on.s : on.s + on.len - part.len, part.s, part.len);
}

static mlsys_status ends(run *r, value on, value part, bool at_start, value *out) {
    bool yes = has_end(on, part, at_start);
    if (part.type == MLSI_JINJA_LIST)
        for (int64_t i = 0; i < part.list->n; i++)
            yes |= has_end(on, part.list->items[i], at_start);
    else if (part.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "%s takes a string, not %s",
                          at_start ? "startswith" : "endswith", jinja_type_name(part));
    *out = mlsi_jinja_bool(yes);
    return MLSYS_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static mlsys_status add_part(run *r, value list, const char *s, uint64_t len) {
    MLSI_TRY(jinja_pay(r, 0, sizeof list));
    return mlsi_jinja_list_add(&r->arena, list, mlsi_jinja_string(s, len));
}

static mlsys_status split_at_spaces(run *r, value on, int64_t max, value *out) {
    value none = mlsi_jinja_none();
    const char *s = on.s, *end = on.s + on.len;
    for (;;) {
        uint64_t n = 0;
        while (s < end && in_set(s, n = jinja_char_offset(s, (uint64_t)(end - s), 1), none))
            s += n;
        if (s == end) return MLSYS_OK;
        const char *k = s;
        if (max-- == 0) {
            value rest = mlsi_jinja_string(s, (uint64_t)(end - s));
            MLSI_TRY(jinja_strip(r, rest, none, false, true, &rest));
            return add_part(r, *out, rest.s, rest.len);
        }
        while (k < end && !in_set(k, n = jinja_char_offset(k, (uint64_t)(end - k), 1), none))
            k += n;
        MLSI_TRY(add_part(r, *out, s, (uint64_t)(k - s)));
        s = k;
    }
}

static mlsys_status split(run *r, value on, value by, value limit, value *out) {
    int64_t max = limit.type == MLSI_JINJA_INT && limit.i >= 0 ? limit.i : INT64_MAX;
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    MLSI_TRY(jinja_pay(r, 0, on.len));
    if (by.type == MLSI_JINJA_NONE) return split_at_spaces(r, on, max, out);
    if (by.type != MLSI_JINJA_STRING || !by.len)
        return jinja_fail(r, MLSYS_E_FORMAT, "split takes a string that is not empty");
    const char *s = on.s, *end = on.s + on.len, *k;
    while (max-- > 0 && (k = memmem(s, (size_t)(end - s), by.s, by.len))) {
        MLSI_TRY(add_part(r, *out, s, (uint64_t)(k - s)));
        s = k + by.len;
    }
    return add_part(r, *out, s, (uint64_t)(end - s));
}

static mlsys_status split_from_right(run *r, value on, value by, value limit, value *out) {
    if (limit.type != MLSI_JINJA_INT || limit.i < 0) return split(r, on, by, limit, out);
    if (by.type != MLSI_JINJA_STRING || !by.len)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "rsplit at spaces is not supported");
    value all;
    MLSI_TRY(split(r, on, by, mlsi_jinja_none(), &all));
    int64_t n = all.list->n, keep = limit.i < n - 1 ? n - 1 - limit.i : 0;
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    value last = all.list->items[keep];
    MLSI_TRY(add_part(r, *out, on.s, (uint64_t)(last.s + last.len - on.s)));
    for (int64_t i = keep + 1; i < n; i++)
        MLSI_TRY(add_part(r, *out, all.list->items[i].s, all.list->items[i].len));
    return MLSYS_OK;
}

static mlsys_status split_lines(run *r, value on, value *out) {
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (uint32_t i = 0, k; i < on.len; i = k) {
        for (k = i; k < on.len && on.s[k] != '\n' && on.s[k] != '\r';)
            k++;
        MLSI_TRY(add_part(r, *out, on.s + i, k - i));
        if (k + 1 < on.len && on.s[k] == '\r' && on.s[k + 1] == '\n') k++;
        if (k < on.len) k++;
    }
    return MLSYS_OK;
}

mlsys_status jinja_replace(run *r, value on, value from, value to, value *out) {
    mlsi_text t;
    if (from.type != MLSI_JINJA_STRING || to.type != MLSI_JINJA_STRING || !from.len)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "replace takes two strings, the first not empty");
    MLSI_TRY(jinja_pay(r, 0, on.len));
    mlsi_text_init(&t, r->j->alloc);
    const char *s = on.s, *end = on.s + on.len, *k;
    while ((k = memmem(s, (size_t)(end - s), from.s, from.len)) && t.len <= r->memory) {
        jinja_add_bytes(&t, s, (uint64_t)(k - s));
        jinja_add_bytes(&t, to.s, to.len);
        s = k + from.len;
    }
    jinja_add_bytes(&t, s, (uint64_t)(end - s));
    return jinja_take_text(r, &t, out);
}

static value find(value on, value part) {
    const char *k = memmem(on.s, on.len, part.s, part.len);
    return mlsi_jinja_int(k ? jinja_chars(on.s, (uint64_t)(k - on.s)) : -1);
}

static value count(value on, value part) {
    int64_t n = part.len ? 0 : jinja_chars(on.s, on.len) + 1;
    const char *s = on.s, *end = on.s + on.len, *k;
    for (; part.len && (k = memmem(s, (size_t)(end - s), part.s, part.len)); s = k + part.len)
        n++;
    return mlsi_jinja_int(n);
}

static mlsys_status all_are(run *r, value on, bool digits, value *out) {
    bool yes = on.len > 0;
    MLSI_TRY(jinja_pay(r, 0, on.len));
    for (uint64_t i = 0, n; i < on.len && yes; i += n) {
        n = jinja_char_offset(on.s + i, on.len - i, 1);
        yes = digits ? on.s[i] >= '0' && on.s[i] <= '9' : in_set(on.s + i, n, mlsi_jinja_none());
    }
    *out = mlsi_jinja_bool(yes);
    return MLSYS_OK;
}

mlsys_status jinja_string_method(run *r, value on, span name, const arguments *args, value *out) {
    value a = jinja_argument(args, 0, "", mlsi_jinja_none());
    value b = jinja_argument(args, 1, "maxsplit", mlsi_jinja_none());
    bool l = span_is(name, "lstrip"), rs = span_is(name, "rstrip");
    if (l || rs || span_is(name, "strip")) return jinja_strip(r, on, a, !rs, !l, out);
    if (span_is(name, "split")) return split(r, on, a, b, out);
    if (span_is(name, "rsplit")) return split_from_right(r, on, a, b, out);
    if (span_is(name, "splitlines")) return split_lines(r, on, out);
    if (span_is(name, "startswith")) return ends(r, on, a, true, out);
    if (span_is(name, "endswith")) return ends(r, on, a, false, out);
    if (span_is(name, "replace")) return jinja_replace(r, on, a, b, out);
    if (span_is(name, "isdigit")) return all_are(r, on, true, out);
    if (span_is(name, "isspace")) return all_are(r, on, false, out);
    static const char *const cases[] = {"lower", "upper", "title", "capitalize"};
    for (int i = 0; i < 4; i++)
        if (span_is(name, cases[i])) return jinja_change_case(r, on, cases[i], out);
    if (a.type != MLSI_JINJA_STRING) a = mlsi_jinja_string("", 0);
    MLSI_TRY(jinja_pay(r, 0, on.len));
    if (span_is(name, "find")) {
        *out = find(on, a);
        return MLSYS_OK;
    }
    if (span_is(name, "count")) {
        *out = count(on, a);
        return MLSYS_OK;
    }
    bool prefix = span_is(name, "removeprefix");
    if (prefix || span_is(name, "removesuffix")) {
        *out = on;
        if (!has_end(on, a, prefix)) return MLSYS_OK;
        *out = mlsi_jinja_string(prefix ? on.s + a.len : on.s, on.len - a.len);
        return MLSYS_OK;
    }
    return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the method \"%.*s\" of a string is not supported",
                      (int)name.len, name.s);
}
