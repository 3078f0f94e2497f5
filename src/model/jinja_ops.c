/* Operators, parts of values, and text in the making. */
#include "model/jinja_impl.h"
#include "model/utf8.h"

#include <math.h>

/* ---- text ------------------------------------------------------------------------------------ */

mlsys_status jinja_text(run *r, uint64_t len, char **out) {
    if (len > UINT32_MAX / 2) return jinja_fail(r, MLSYS_E_UNSUPPORTED, "a string is too long");
    MLSI_TRY(jinja_pay(r, 0, (int64_t)len + 16));
    return mlsi_arena_zalloc(&r->arena, len + 1, (void **)out);
}

mlsys_status jinja_take_text(run *r, mlsi_text *t, value *out) {
    char *s;
    mlsys_status st = t->st;
    if (st == MLSYS_E_UNSUPPORTED) mlsi_fail_in(st, "%s: line %d", r->j->name, r->line);
    if (st == MLSYS_OK) st = jinja_text(r, (uint64_t)t->len, &s);
    if (st == MLSYS_OK) {
        if (t->len) memcpy(s, t->data, (uint64_t)t->len);
        *out = mlsi_jinja_string(s, (uint64_t)t->len);
    }
    mlsi_text_free(t);
    return st;
}

mlsys_status jinja_to_string(run *r, value v, value *out) {
    mlsi_text t;
    if (v.type == MLSI_JINJA_STRING) {
        *out = v;
        return MLSYS_OK;
    }
    mlsi_text_init(&t, r->j->alloc);
    jinja_str(&t, v);
    return jinja_take_text(r, &t, out);
}

mlsys_status jinja_concat(run *r, value a, value b, value *out) {
    char *s;
    uint64_t len = (uint64_t)a.len + b.len;
    MLSI_TRY(jinja_text(r, len, &s));
    if (a.len) memcpy(s, a.s, a.len);
    if (b.len) memcpy(s + a.len, b.s, b.len);
    *out = mlsi_jinja_string(s, len);
    return MLSYS_OK;
}

mlsys_status jinja_write(run *r, const char *s, uint64_t len) {
    MLSI_TRY(jinja_pay(r, 0, (int64_t)len));
    jinja_add_bytes(r->out, s, len);
    return r->out->st;
}

mlsys_status jinja_write_value(run *r, value v) {
    MLSI_TRY(jinja_to_string(r, v, &v));
    return jinja_write(r, v.s, v.len);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static mlsys_status characters(run *r, value s, value *out) {
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (uint64_t i = 0, n; i < s.len; i += n) {
        n = jinja_char_offset(s.s + i, s.len - i, 1);
        MLSI_TRY(jinja_pay(r, 0, sizeof s));
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, mlsi_jinja_string(s.s + i, n)));
    }
    return MLSYS_OK;
}

mlsys_status jinja_items(run *r, value v, const value **items, int64_t *n) {
    *items = NULL;
    *n = 0;
    if (v.type == MLSI_JINJA_UNDEFINED) return MLSYS_OK;
    if (v.type == MLSI_JINJA_STRING) MLSI_TRY(characters(r, v, &v));
    if (v.type == MLSI_JINJA_DICT && !v.dict->is_namespace) {
        *items = v.dict->keys;
        *n = v.dict->n;
        return MLSYS_OK;
    }
    if (v.type != MLSI_JINJA_LIST)
        return jinja_fail(r, MLSYS_E_FORMAT, "%s has no items", jinja_type_name(v));
    *items = v.list->items;
    *n = v.list->n;
    return MLSYS_OK;
}

static value loop_attribute(const loop_state *l, span name) {
    static const value undefined = {.type = MLSI_JINJA_UNDEFINED};
    if (span_is(name, "index")) return mlsi_jinja_int(l->index + 1);
    if (span_is(name, "index0")) return mlsi_jinja_int(l->index);
    if (span_is(name, "revindex")) return mlsi_jinja_int(l->n - l->index);
    if (span_is(name, "revindex0")) return mlsi_jinja_int(l->n - l->index - 1);
    if (span_is(name, "first")) return mlsi_jinja_bool(l->index == 0);
    if (span_is(name, "last")) return mlsi_jinja_bool(l->index == l->n - 1);
    if (span_is(name, "length")) return mlsi_jinja_int(l->n);
    if (span_is(name, "previtem")) return l->index ? l->items[l->index - 1] : undefined;
    if (span_is(name, "nextitem")) return l->index + 1 < l->n ? l->items[l->index + 1] : undefined;
    return undefined;
}

mlsys_status jinja_attribute(run *r, value on, span name, value *out) {
    *out = (value){.type = MLSI_JINJA_UNDEFINED};
    if (on.type == MLSI_JINJA_LOOP) {
        *out = loop_attribute(on.loop, name);
        if (out->type == MLSI_JINJA_UNDEFINED && !span_is(name, "previtem") &&
            !span_is(name, "nextitem"))
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "loop.%.*s is not supported", (int)name.len,
                              name.s);
    } else if (on.type == MLSI_JINJA_DICT) {
        MLSI_TRY(jinja_pay(r, on.dict->n / 8, 0));
        *out = mlsi_jinja_dict_get(on, mlsi_jinja_string(name.s, name.len));
    }
    return MLSYS_OK;
}

mlsys_status jinja_item(run *r, value on, value index, value *out) {
    *out = (value){.type = MLSI_JINJA_UNDEFINED};
    if (on.type == MLSI_JINJA_DICT) {
        MLSI_TRY(jinja_pay(r, on.dict->n / 8, 0));
        *out = mlsi_jinja_dict_get(on, index);
        return MLSYS_OK;
    }
    if (index.type == MLSI_JINJA_STRING)
        return jinja_attribute(r, on, (span){index.s, index.len}, out);
    if (index.type != MLSI_JINJA_INT && index.type != MLSI_JINJA_BOOL) return MLSYS_OK;
    int64_t i = jinja_int_of(index), n;
    if (on.type == MLSI_JINJA_LIST) {
        n = on.list->n;
        if (i < 0) i += n;
        if (i >= 0 && i < n) *out = on.list->items[i];
    } else if (on.type == MLSI_JINJA_STRING) {
        MLSI_TRY(jinja_pay(r, 0, on.len));
        n = jinja_chars(on.s, on.len);
        if (i < 0) i += n;
        if (i < 0 || i >= n) return MLSYS_OK;
        uint64_t at = jinja_char_offset(on.s, on.len, i);
        *out = mlsi_jinja_string(on.s + at, jinja_char_offset(on.s + at, on.len - at, 1));
    }
    return MLSYS_OK;
}

/* Python's rules for the bounds of a slice. */
static mlsys_status bounds(run *r, int64_t n, value start, value stop, int64_t step, int64_t *from,
                           int64_t *to) {
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    *from = step > 0 ? low : high;
    *to = step > 0 ? high : low;
    for (int k = 0; k < 2; k++) {
        value v = k ? stop : start;
        if (v.type == MLSI_JINJA_NONE) continue;
        if (v.type != MLSI_JINJA_INT && v.type != MLSI_JINJA_BOOL)
            return jinja_fail(r, MLSYS_E_FORMAT, "%s in a slice", jinja_type_name(v));
        int64_t i = jinja_int_of(v);
        if (i < 0) i = i < -n ? low : i + n;
        if (i < low) i = low;
        if (i > high) i = high;
        *(k ? to : from) = i;
    }
    return MLSYS_OK;
}

mlsys_status jinja_slice(run *r, value on, value start, value stop, value step, value *out) {
    bool is_string = on.type == MLSI_JINJA_STRING;
    int64_t by = 1, from, to;
    value list = on;
    if (step.type == MLSI_JINJA_INT) by = step.i;
    if ((step.type != MLSI_JINJA_INT && step.type != MLSI_JINJA_NONE) || by == 0 ||
        by < -INT32_MAX || by > INT32_MAX)
        return jinja_fail(r, MLSYS_E_FORMAT, "a slice's step must be an integer and not 0");
    if (is_string) MLSI_TRY(characters(r, on, &list));
    if (list.type != MLSI_JINJA_LIST)
        return jinja_fail(r, MLSYS_E_FORMAT, "a slice of %s", jinja_type_name(on));
    MLSI_TRY(bounds(r, list.list->n, start, stop, by, &from, &to));
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    out->list->is_tuple = list.list->is_tuple;
    mlsi_text text;
    mlsi_text_init(&text, r->j->alloc);
    for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
        value item = list.list->items[i];
        mlsys_status st = MLSYS_OK;
        if (is_string)
            jinja_add_bytes(&text, item.s, item.len);
        else if ((st = jinja_pay(r, 0, sizeof item)) == MLSYS_OK)
            st = mlsi_jinja_list_add(&r->arena, *out, item);
        if (st != MLSYS_OK) return st; /* text is empty here */
    }
    return is_string ? jinja_take_text(r, &text, out) : MLSYS_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

static const char *operator_text(int op) {
    static const char *const texts[] = {
        [TOKEN_EQ] = "==", [TOKEN_NE] = "!=",  [TOKEN_LE] = "<=",        [TOKEN_GE] = ">=",
        [TOKEN_LT] = "<",  [TOKEN_GT] = ">",   [TOKEN_FLOOR_DIV] = "//", [TOKEN_POW] = "**",
        [TOKEN_ADD] = "+", [TOKEN_SUB] = "-",  [TOKEN_MUL] = "*",        [TOKEN_DIV] = "/",
        [TOKEN_MOD] = "%", [TOKEN_TILDE] = "~"};
    return op <= TOKEN_TILDE && texts[op] ? texts[op] : "in";
}

static mlsys_status no_meaning(const run *r, int op, value a, value b) {
    return jinja_fail(r, MLSYS_E_FORMAT, "%s %s %s has no meaning", jinja_type_name(a),
                      operator_text(op), jinja_type_name(b));
}

static mlsys_status integer_power(const run *r, int64_t a, int64_t b, int64_t *out) {
    *out = 1;
    if (a == 0 || a == 1 || a == -1) {
        *out = b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a;
        return MLSYS_OK;
    }
    for (; b > 0; b--)
        if (!mlsi_mul_i64(*out, a, out))
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "an integer overflows");
    return MLSYS_OK;
}

static mlsys_status integers(const run *r, int op, int64_t a, int64_t b, value *out) {
    int64_t v = 0;
    bool fits = true;
    if ((op == TOKEN_DIV || op == TOKEN_FLOOR_DIV || op == TOKEN_MOD) && b == 0)
        return jinja_fail(r, MLSYS_E_FORMAT, "division by zero");
    switch (op) {
    case TOKEN_ADD: fits = mlsi_add_i64(a, b, &v); break;
    case TOKEN_SUB: fits = !__builtin_sub_overflow(a, b, &v); break;
    case TOKEN_MUL: fits = mlsi_mul_i64(a, b, &v); break;
    case TOKEN_FLOOR_DIV:
    case TOKEN_MOD:    /* towards minus infinity */
        if (b == -1) { /* INT64_MIN / -1 traps */
            v = 0;
            fits = op == TOKEN_MOD || !__builtin_sub_overflow((int64_t)0, a, &v);
            break;
        }
        v = op == TOKEN_MOD ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) v += op == TOKEN_MOD ? b : -1;
        break;
    case TOKEN_POW:
        if (b >= 0) {
            MLSI_TRY(integer_power(r, a, b, &v));
            break;
        }
        *out = mlsi_jinja_float(pow((double)a, (double)b));
        return MLSYS_OK;
    default: *out = mlsi_jinja_float((double)a / (double)b); return MLSYS_OK;
    }
    if (!fits) return jinja_fail(r, MLSYS_E_UNSUPPORTED, "an integer overflows");
    *out = mlsi_jinja_int(v);
    return MLSYS_OK;
}

static mlsys_status floats(const run *r, int op, double a, double b, value *out) {
    double v = 0;
    if ((op == TOKEN_DIV || op == TOKEN_FLOOR_DIV || op == TOKEN_MOD) && b == 0)
        return jinja_fail(r, MLSYS_E_FORMAT, "division by zero");
    switch (op) {
    case TOKEN_ADD: v = a + b; break;
    case TOKEN_SUB: v = a - b; break;
    case TOKEN_MUL: v = a * b; break;
    case TOKEN_DIV: v = a / b; break;
    case TOKEN_FLOOR_DIV: v = floor(a / b); break;
    case TOKEN_MOD: v = a - b * floor(a / b); break;
    default: v = pow(a, b);
    }
    *out = mlsi_jinja_float(v);
    return MLSYS_OK;
}

static mlsys_status repeat(run *r, value a, int64_t times, value *out) {
    if (a.type == MLSI_JINJA_STRING) {
        uint64_t len;
        char *s;
        if (times < 0) times = 0;
        if (!mlsi_mul_u64(a.len, (uint64_t)times, &len)) len = UINT64_MAX;
        MLSI_TRY(jinja_text(r, len, &s));
        for (uint64_t i = 0; i < len; i++)
            s[i] = a.s[i % a.len];
        *out = mlsi_jinja_string(s, len);
        return MLSYS_OK;
    }
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t k = 0; k < times && a.list->n; k++)
        for (int64_t i = 0; i < a.list->n; i++) {
            MLSI_TRY(jinja_pay(r, 0, sizeof a));
            MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, a.list->items[i]));
        }
    return MLSYS_OK;
}

static mlsys_status join_lists(run *r, value a, value b, value *out) {
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    out->list->is_tuple = a.list->is_tuple;
    MLSI_TRY(jinja_pay(r, 0, 2 * (a.list->n + b.list->n) * (int64_t)sizeof a));
    for (int64_t i = 0; i < a.list->n; i++)
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, a.list->items[i]));
    for (int64_t i = 0; i < b.list->n; i++)
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, b.list->items[i]));
    return MLSYS_OK;
}

static bool contains_bytes(value text, value part) {
    return !part.len || (text.len >= part.len && memmem(text.s, text.len, part.s, part.len));
}

mlsys_status jinja_contains(run *r, value item, value in, bool *out) {
    *out = false;
    if (in.type == MLSI_JINJA_STRING) {
        if (item.type != MLSI_JINJA_STRING) return no_meaning(r, TOKEN_IN, item, in);
        MLSI_TRY(jinja_pay(r, 0, in.len));
        *out = contains_bytes(in, item);
    } else if (in.type == MLSI_JINJA_DICT) {
        MLSI_TRY(jinja_pay(r, in.dict->n, 0));
        *out = mlsi_jinja_dict_get(in, item).type != MLSI_JINJA_UNDEFINED;
    } else if (in.type == MLSI_JINJA_LIST) {
        for (int64_t i = 0; i < in.list->n && !*out; i++)
            MLSI_TRY(jinja_equal(r, in.list->items[i], item, out));
    } else if (in.type != MLSI_JINJA_UNDEFINED) {
        return no_meaning(r, TOKEN_IN, item, in);
    }
    return MLSYS_OK;
}

static mlsys_status arithmetic(run *r, int op, value a, value b, value *out) {
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.type == MLSI_JINJA_FLOAT || b.type == MLSI_JINJA_FLOAT)
            return floats(r, op, jinja_float_of(a), jinja_float_of(b), out);
        return integers(r, op, jinja_int_of(a), jinja_int_of(b), out);
    }
    if (op == TOKEN_ADD && a.type == b.type) {
        if (a.type == MLSI_JINJA_STRING) return jinja_concat(r, a, b, out);
        if (a.type == MLSI_JINJA_LIST) return join_lists(r, a, b, out);
    }
    if (op == TOKEN_MUL && (a.type == MLSI_JINJA_STRING || a.type == MLSI_JINJA_LIST) &&
        b.type == MLSI_JINJA_INT)
        return repeat(r, a, b.i, out);
    if (op == TOKEN_MOD && a.type == MLSI_JINJA_STRING)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "formatting with %% is not supported");
    return no_meaning(r, op, a, b);
}

mlsys_status jinja_binary(run *r, int op, value a, value b, value *out) {
    bool yes = false;
    int order = 0;
    switch (op) {
    case TOKEN_EQ:
    case TOKEN_NE:
        MLSI_TRY(jinja_equal(r, a, b, &yes));
        *out = mlsi_jinja_bool(yes == (op == TOKEN_EQ));
        return MLSYS_OK;
    case TOKEN_IN:
    case TOKEN_NOT_IN:
        MLSI_TRY(jinja_contains(r, a, b, &yes));
        *out = mlsi_jinja_bool(yes == (op == TOKEN_IN));
        return MLSYS_OK;
    case TOKEN_LT:
    case TOKEN_LE:
    case TOKEN_GT:
    case TOKEN_GE:
        if (!jinja_compare(a, b, &order)) return no_meaning(r, op, a, b);
        *out = mlsi_jinja_bool(op == TOKEN_LT   ? order < 0
                               : op == TOKEN_LE ? order <= 0
                               : op == TOKEN_GT ? order > 0
                                                : order >= 0);
        return MLSYS_OK;
    case TOKEN_TILDE:
        MLSI_TRY(jinja_to_string(r, a, &a));
        MLSI_TRY(jinja_to_string(r, b, &b));
        return jinja_concat(r, a, b, out);
    default: return arithmetic(r, op, a, b, out);
    }
}
