/* Filters. */
#include "model/jinja_impl.h"

#include <math.h>
#include <stdlib.h>

typedef mlsys_status filter_fn(run *r, value on, const arguments *args, value *out);

static const value undefined = {.type = MLSI_JINJA_UNDEFINED};

/* Jinja's filters for text take anything, as str() writes it. */
static mlsys_status as_text(run *r, value *on) { return jinja_to_string(r, *on, on); }

static mlsys_status add_item(run *r, value list, value item) {
    MLSI_TRY(jinja_pay(r, 0, sizeof item));
    return mlsi_jinja_list_add(&r->arena, list, item);
}

/* ---- of text --------------------------------------------------------------------------------- */

static mlsys_status filter_trim(run *r, value on, const arguments *args, value *out) {
    MLSI_TRY(as_text(r, &on));
    return jinja_strip(r, on, jinja_argument(args, 0, "chars", mlsi_jinja_none()), true, true, out);
}
static mlsys_status filter_string(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return jinja_to_string(r, on, out);
}
static mlsys_status filter_safe(run *r, value on, const arguments *args, value *out) {
    (void)r, (void)args; /* nothing is escaped, so nothing is to be spared */
    *out = on;
    return MLSYS_OK;
}
static mlsys_status filter_lower(run *r, value on, const arguments *args, value *out) {
    (void)args;
    MLSI_TRY(as_text(r, &on));
    return jinja_change_case(r, on, "lower", out);
}
static mlsys_status filter_upper(run *r, value on, const arguments *args, value *out) {
    (void)args;
    MLSI_TRY(as_text(r, &on));
    return jinja_change_case(r, on, "upper", out);
}
static mlsys_status filter_title(run *r, value on, const arguments *args, value *out) {
    (void)args;
    MLSI_TRY(as_text(r, &on));
    return jinja_change_case(r, on, "title", out);
}
static mlsys_status filter_capitalize(run *r, value on, const arguments *args, value *out) {
    (void)args;
    MLSI_TRY(as_text(r, &on));
    return jinja_change_case(r, on, "capitalize", out);
}
static mlsys_status filter_replace(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"old", "new", NULL};
    MLSI_TRY(jinja_check_arguments(r, "replace", args, names));
    MLSI_TRY(as_text(r, &on));
    return jinja_replace(r, on, jinja_argument(args, 0, "old", undefined),
                         jinja_argument(args, 1, "new", undefined), out);
}

/* HTML's special characters. */
static mlsys_status filter_escape(run *r, value on, const arguments *args, value *out) {
    mlsi_text t;
    (void)args;
    MLSI_TRY(as_text(r, &on));
    mlsi_text_init(&t, r->j->alloc);
    for (uint32_t i = 0; i < on.len; i++) {
        char c = on.s[i];
        const char *e = c == '&'    ? "&amp;"
                        : c == '<'  ? "&lt;"
                        : c == '>'  ? "&gt;"
                        : c == '"'  ? "&#34;"
                        : c == '\'' ? "&#39;"
                                    : NULL;
        jinja_add_bytes(&t, e ? e : &on.s[i], e ? strlen(e) : 1);
    }
    return jinja_take_text(r, &t, out);
}

static mlsys_status filter_indent(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"width", "first", "blank", NULL};
    mlsi_text t;
    value width = jinja_argument(args, 0, "width", mlsi_jinja_int(4));
    bool first = jinja_truth(jinja_argument(args, 1, "first", undefined));
    bool blank = jinja_truth(jinja_argument(args, 2, "blank", undefined));
    MLSI_TRY(jinja_check_arguments(r, "indent", args, names));
    if (width.type == MLSI_JINJA_INT && width.i >= 0 && width.i <= 1000)
        MLSI_TRY(jinja_binary(r, TOKEN_MUL, mlsi_jinja_string(" ", 1), width, &width));
    if (width.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "indent takes a width up to 1000 or a string");
    MLSI_TRY(as_text(r, &on));
    mlsi_text_init(&t, r->j->alloc);
    if (first) jinja_add_bytes(&t, width.s, width.len);
    for (uint32_t i = 0; i < on.len && t.len <= r->memory; i++) {
        jinja_add_bytes(&t, &on.s[i], 1);
        bool empty_line = i + 1 >= on.len || on.s[i + 1] == '\n';
        if (on.s[i] == '\n' && (blank || !empty_line)) jinja_add_bytes(&t, width.s, width.len);
    }
    return jinja_take_text(r, &t, out);
}

/* ---- of numbers ------------------------------------------------------------------------------ */

static mlsys_status filter_int(run *r, value on, const arguments *args, value *out) {
    char buf[64], *end;
    *out = jinja_argument(args, 0, "default", mlsi_jinja_int(0));
    if (on.type == MLSI_JINJA_FLOAT && fabs(on.f) < 9e18) *out = mlsi_jinja_int((int64_t)on.f);
    if (on.type == MLSI_JINJA_INT || on.type == MLSI_JINJA_BOOL)
        *out = mlsi_jinja_int(jinja_int_of(on));
    if (on.type != MLSI_JINJA_STRING) return MLSYS_OK;
    MLSI_TRY(jinja_strip(r, on, mlsi_jinja_none(), true, true, &on));
    if (!on.len || on.len >= sizeof buf) return MLSYS_OK;
    memcpy(buf, on.s, on.len);
    buf[on.len] = 0;
    int64_t v = strtoll(buf, &end, 10);
    if (!*end) {
        *out = mlsi_jinja_int(v);
        return MLSYS_OK;
    }
    double f = strtod(buf, &end);
    if (!*end && fabs(f) < 9e18) *out = mlsi_jinja_int((int64_t)f);
    return MLSYS_OK;
}

static mlsys_status filter_float(run *r, value on, const arguments *args, value *out) {
    char buf[64], *end;
    *out = jinja_argument(args, 0, "default", mlsi_jinja_float(0));
    if (jinja_is_number(on)) *out = mlsi_jinja_float(jinja_float_of(on));
    if (on.type != MLSI_JINJA_STRING) return MLSYS_OK;
    MLSI_TRY(jinja_strip(r, on, mlsi_jinja_none(), true, true, &on));
    if (!on.len || on.len >= sizeof buf) return MLSYS_OK;
    memcpy(buf, on.s, on.len);
    buf[on.len] = 0;
    double f = strtod(buf, &end);
    if (!*end) *out = mlsi_jinja_float(f);
    return MLSYS_OK;
}

static mlsys_status filter_abs(run *r, value on, const arguments *args, value *out) {
    (void)args;
    if (!jinja_is_number(on))
        return jinja_fail(r, MLSYS_E_FORMAT, "abs of %s", jinja_type_name(on));
    if (on.type == MLSI_JINJA_FLOAT)
        *out = mlsi_jinja_float(fabs(on.f));
    else
        return jinja_int_of(on) < 0 ? jinja_binary(r, TOKEN_SUB, mlsi_jinja_int(0), on, out)
                                    : (*out = on, MLSYS_OK);
    return MLSYS_OK;
}

/* ---- of anything ----------------------------------------------------------------------------- */

static mlsys_status filter_length(run *r, value on, const arguments *args, value *out) {
    const value *items;
    int64_t n;
    (void)args;
    if (on.type == MLSI_JINJA_STRING) {
        MLSI_TRY(jinja_pay(r, 0, on.len));
        n = jinja_chars(on.s, on.len);
    } else {
        MLSI_TRY(jinja_items(r, on, &items, &n));
    }
    *out = mlsi_jinja_int(n);
    return MLSYS_OK;
}

static mlsys_status filter_default(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"default_value", "boolean", NULL};
    MLSI_TRY(jinja_check_arguments(r, "default", args, names));
    bool falsy = jinja_truth(jinja_argument(args, 1, "boolean", undefined));
    bool use = on.type == MLSI_JINJA_UNDEFINED || (falsy && !jinja_truth(on));
    *out = use ? jinja_argument(args, 0, "default_value", mlsi_jinja_string("", 0)) : on;
    return MLSYS_OK;
}

static mlsys_status filter_from_json(run *r, value on, const arguments *args, value *out) {
    (void)args;
    if (on.type != MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_FORMAT, "from_json of %s", jinja_type_name(on));
    MLSI_TRY(
        jinja_pay(r, 0, 64 * (int64_t)on.len)); /* no JSON text makes more than that of values */
    mlsys_status st = mlsi_jinja_from_json(&r->arena, on.s, on.len, out);
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "%s: line %d", r->j->name, r->line);
}

static mlsys_status filter_tojson(run *r, value on, const arguments *args, value *out) {
    return jinja_to_json(r, on, args, out);
}

/* ---- of lists -------------------------------------------------------------------------------- */

static mlsys_status copy_items(run *r, value on, value *out) {
    const value *items;
    int64_t n;
    MLSI_TRY(jinja_items(r, on, &items, &n));
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t i = 0; i < n; i++)
        MLSI_TRY(add_item(r, *out, items[i]));
    return MLSYS_OK;
}

static mlsys_status filter_list(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return copy_items(r, on, out);
}

static mlsys_status filter_items(run *r, value on, const arguments *args, value *out) {
    static const arguments no_args;
    (void)args;
    if (on.type == MLSI_JINJA_UNDEFINED) return mlsi_jinja_list_new(&r->arena, out);
    if (on.type != MLSI_JINJA_DICT)
        return jinja_fail(r, MLSYS_E_FORMAT, "items of %s", jinja_type_name(on));
    return jinja_call_method(r, on, (span){"items", 5}, &no_args, out);
}

/* "a.b" or a number: parts of parts. */
static mlsys_status part_of(run *r, value on, value path, value *out) {
    *out = on;
    if (path.type != MLSI_JINJA_STRING) return jinja_item(r, on, path, out);
    for (uint32_t i = 0, k; i <= path.len; i = k + 1) {
        for (k = i; k < path.len && path.s[k] != '.';)
            k++;
        if (out->type == MLSI_JINJA_UNDEFINED) return MLSYS_OK;
        MLSI_TRY(jinja_item(r, *out, mlsi_jinja_string(path.s + i, k - i), out));
    }
    return MLSYS_OK;
}

static mlsys_status filter_join(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"d", "attribute", NULL};
    const value *items;
    int64_t n;
    mlsi_text t;
    value by = jinja_argument(args, 0, "d", mlsi_jinja_string("", 0));
    value attribute = jinja_argument(args, 1, "attribute", undefined);
    MLSI_TRY(jinja_check_arguments(r, "join", args, names));
    MLSI_TRY(as_text(r, &by));
    MLSI_TRY(jinja_items(r, on, &items, &n));
    mlsi_text_init(&t, r->j->alloc);
    for (int64_t i = 0; i < n && t.len <= r->memory; i++) {
        value item = items[i];
        mlsys_status st = MLSYS_OK;
        if (attribute.type != MLSI_JINJA_UNDEFINED) st = part_of(r, item, attribute, &item);
        if (st == MLSYS_OK) st = jinja_pay(r, 1, 0);
        if (st != MLSYS_OK) {
            mlsi_text_free(&t);
            return st;
        }
        if (i) jinja_add_bytes(&t, by.s, by.len);
        jinja_str(&t, item);
    }
    return jinja_take_text(r, &t, out);
}

static mlsys_status end_of(run *r, value on, bool last, value *out) {
    const value *items;
    int64_t n;
    MLSI_TRY(jinja_items(r, on, &items, &n));
    *out = n ? items[last ? n - 1 : 0] : undefined;
    return MLSYS_OK;
}
static mlsys_status filter_first(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return end_of(r, on, false, out);
}
static mlsys_status filter_last(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return end_of(r, on, true, out);
}

static mlsys_status filter_reverse(run *r, value on, const arguments *args, value *out) {
    value none = mlsi_jinja_none();
    (void)args;
    if (on.type != MLSI_JINJA_STRING) MLSI_TRY(copy_items(r, on, &on));
    return jinja_slice(r, on, none, none, mlsi_jinja_int(-1), out);
}

static mlsys_status filter_unique(run *r, value on, const arguments *args, value *out) {
    const value *items;
    int64_t n;
    (void)args;
    MLSI_TRY(jinja_items(r, on, &items, &n));
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t i = 0; i < n; i++) {
        bool seen;
        MLSI_TRY(jinja_contains(r, items[i], *out, &seen));
        if (!seen) MLSI_TRY(add_item(r, *out, items[i]));
    }
    return MLSYS_OK;
}

static mlsys_status extreme(run *r, value on, bool largest, value *out) {
    const value *items;
    int64_t n;
    MLSI_TRY(jinja_items(r, on, &items, &n));
    *out = undefined;
    for (int64_t i = 0; i < n; i++) {
        int order = 0;
        if (i && !jinja_compare(items[i], *out, &order))
            return jinja_fail(r, MLSYS_E_FORMAT, "%s and %s have no order", jinja_type_name(*out),
                              jinja_type_name(items[i]));
        if (!i || (largest ? order > 0 : order < 0)) *out = items[i];
    }
    return jinja_pay(r, n, 0);
}
static mlsys_status filter_max(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return extreme(r, on, true, out);
}
static mlsys_status filter_min(run *r, value on, const arguments *args, value *out) {
    (void)args;
    return extreme(r, on, false, out);
}

static mlsys_status filter_sum(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"attribute", NULL};
    const value *items;
    int64_t n;
    value attribute = jinja_argument(args, 0, "attribute", undefined);
    MLSI_TRY(jinja_check_arguments(r, "sum", args, names));
    MLSI_TRY(jinja_items(r, on, &items, &n));
    *out = mlsi_jinja_int(0);
    for (int64_t i = 0; i < n; i++) {
        value item = items[i];
        if (attribute.type != MLSI_JINJA_UNDEFINED) MLSI_TRY(part_of(r, item, attribute, &item));
        MLSI_TRY(jinja_binary(r, TOKEN_ADD, *out, item, out));
    }
    return jinja_pay(r, n, 0);
}

/* ---- choosing and mapping -------------------------------------------------------------------- */

/* The arguments from place on, without their names. */
static arguments rest(const arguments *args, int from) {
    arguments out = {.n = args->n > from ? args->n - from : 0};
    for (int i = 0; i < out.n; i++) {
        out.v[i] = args->v[from + i];
        out.name[i] = args->name[from + i];
    }
    return out;
}

/* Keep the items, or those of an attribute, that pass (or fail) a test; truth where none is named.
 */
static mlsys_status choose(run *r, value on, const arguments *args, bool by_attribute, bool keep,
                           value *out) {
    const value *items;
    int64_t n;
    int at = by_attribute, which = -1;
    if (args->n > at) {
        value name = args->v[at];
        if (name.type == MLSI_JINJA_STRING) which = jinja_find_test((span){name.s, name.len});
        if (which < 0 && jinja_is_string(name, "==")) which = jinja_find_test((span){"eq", 2});
        if (which < 0)
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the test \"%.*s\" is not supported",
                              name.type == MLSI_JINJA_STRING ? (int)name.len : 1,
                              name.type == MLSI_JINJA_STRING ? name.s : "?");
    }
    if (by_attribute && !args->n) return jinja_fail(r, MLSYS_E_FORMAT, "which attribute?");
    arguments more = rest(args, at + 1);
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    if (!jinja_truth(on)) return MLSYS_OK; /* none has no items, but here it is empty */
    MLSI_TRY(jinja_items(r, on, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        value v = items[i];
        if (by_attribute) MLSI_TRY(part_of(r, v, args->v[0], &v));
        bool yes = jinja_truth(v);
        if (which >= 0) MLSI_TRY(jinja_apply_test(r, which, v, &more, &yes));
        if (yes == keep) MLSI_TRY(add_item(r, *out, items[i]));
        MLSI_TRY(jinja_pay(r, 1, 0));
    }
    return MLSYS_OK;
}
static mlsys_status filter_select(run *r, value on, const arguments *args, value *out) {
    return choose(r, on, args, false, true, out);
}
static mlsys_status filter_reject(run *r, value on, const arguments *args, value *out) {
    return choose(r, on, args, false, false, out);
}
static mlsys_status filter_selectattr(run *r, value on, const arguments *args, value *out) {
    return choose(r, on, args, true, true, out);
}
static mlsys_status filter_rejectattr(run *r, value on, const arguments *args, value *out) {
    return choose(r, on, args, true, false, out);
}

static mlsys_status filter_map(run *r, value on, const arguments *args, value *out) {
    const value *items;
    int64_t n;
    int which = -1;
    value attribute = jinja_argument(args, -1, "attribute", undefined);
    value absent = jinja_argument(args, -1, "default", undefined);
    if (attribute.type == MLSI_JINJA_UNDEFINED) {
        value name = jinja_argument(args, 0, "", undefined);
        if (name.type == MLSI_JINJA_STRING) which = jinja_find_filter((span){name.s, name.len});
        if (which < 0)
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "map needs an attribute or a known filter");
    }
    arguments more = rest(args, 1);
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    if (!jinja_truth(on)) return MLSYS_OK;
    MLSI_TRY(jinja_items(r, on, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        value v;
        if (which >= 0)
            MLSI_TRY(jinja_apply_filter(r, which, items[i], &more, &v));
        else
            MLSI_TRY(part_of(r, items[i], attribute, &v));
        MLSI_TRY(add_item(r, *out, v.type == MLSI_JINJA_UNDEFINED ? absent : v));
    }
    return MLSYS_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    filter_fn *apply;
} filters[] = {
    {"abs", filter_abs},
    {"capitalize", filter_capitalize},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", jinja_filter_dictsort},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"first", filter_first},
    {"float", filter_float},
    {"from_json", filter_from_json},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", filter_lower},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"safe", filter_safe},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"sort", jinja_filter_sort},
    {"string", filter_string},
    {"sum", filter_sum},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"unique", filter_unique},
    {"upper", filter_upper},
};

int jinja_find_filter(span name) {
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++)
        if (span_is(name, filters[i].name)) return (int)i;
    return -1;
}

mlsys_status jinja_apply_filter(run *r, int which, value on, const arguments *args, value *out) {
    MLSI_TRY(jinja_pay(r, 0, 0));
    return filters[which].apply(r, on, args, out);
}
