/* Functions, tests, and the methods of lists, dicts and loops. */
#include "model/jinja_impl.h"

/* ---- arguments ------------------------------------------------------------------------------- */

value jinja_argument(const arguments *args, int place, const char *name, value absent) {
    for (int i = 0; i < args->n; i++)
        if (args->name[i].len ? span_is(args->name[i], name) : i == place) return args->v[i];
    return absent;
}

mlsys_status jinja_check_arguments(run *r, const char *what, const arguments *args,
                                   const char *const *names) {
    int most = 0;
    while (names[most])
        most++;
    for (int i = 0; i < args->n; i++) {
        bool known = !args->name[i].len && i < most;
        for (int k = 0; args->name[i].len && k < most; k++)
            known |= span_is(args->name[i], names[k]);
        if (known) continue;
        if (args->name[i].len)
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "%s does not take \"%.*s\"", what,
                              (int)args->name[i].len, args->name[i].s);
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "%s takes at most %d arguments", what, most);
    }
    return MLSYS_OK;
}

/* ---- functions ------------------------------------------------------------------------------- */

static mlsys_status call_raise(run *r, const arguments *args, value *out) {
    value text = jinja_argument(args, 0, "message", mlsi_jinja_string("", 0));
    MLSI_TRY(jinja_to_string(r, text, out));
    return jinja_fail(r, MLSYS_E_ARG, "the template refuses the conversation: %.*s",
                      (int)(out->len < 400 ? out->len : 400), out->s);
}

static mlsys_status call_dict(run *r, const arguments *args, value *out) {
    MLSI_TRY(mlsi_jinja_dict_new(&r->arena, out));
    MLSI_TRY(jinja_pay(r, 0, 2 * args->n * (int64_t)sizeof *out));
    for (int i = 0; i < args->n; i++) {
        if (!args->name[i].len)
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "dict and namespace take keywords only");
        value key = mlsi_jinja_string(args->name[i].s, args->name[i].len);
        MLSI_TRY(mlsi_jinja_dict_set(&r->arena, *out, key, args->v[i]));
    }
    return MLSYS_OK;
}

static mlsys_status call_namespace(run *r, const arguments *args, value *out) {
    MLSI_TRY(call_dict(r, args, out));
    out->dict->is_namespace = true;
    return MLSYS_OK;
}

static mlsys_status call_range(run *r, const arguments *args, value *out) {
    int64_t v[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3)
        return jinja_fail(r, MLSYS_E_FORMAT, "range takes 1 to 3 arguments");
    for (int i = 0; i < args->n; i++) {
        if (args->v[i].type != MLSI_JINJA_INT || args->name[i].len)
            return jinja_fail(r, MLSYS_E_FORMAT, "range takes integers");
        v[args->n == 1 ? 1 : i] = args->v[i].i;
    }
    if (!v[2]) return jinja_fail(r, MLSYS_E_FORMAT, "range with step 0");
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1];) {
        MLSI_TRY(jinja_pay(r, 0, sizeof *out));
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, mlsi_jinja_int(i)));
        if (!mlsi_add_i64(i, v[2], &i)) break;
    }
    return MLSYS_OK;
}

static const struct {
    const char *name;
    mlsys_status (*call)(run *r, const arguments *args, value *out);
} functions[] = {{"raise_exception", call_raise},
                 {"namespace", call_namespace},
                 {"dict", call_dict},
                 {"range", call_range}};

mlsys_status jinja_find_function(const run *r, span name, value *out) {
    (void)r;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (span_is(name, functions[i].name))
            *out = (value){.type = MLSI_JINJA_FUNCTION, .i = (int64_t)i};
    return MLSYS_OK;
}

mlsys_status jinja_call_function(run *r, value f, const arguments *args, value *out) {
    return functions[f.i].call(r, args, out);
}

/* ---- methods --------------------------------------------------------------------------------- */

static mlsys_status dict_parts(run *r, value on, span name, value *out) {
    bool keys = !span_is(name, "values"), values = !span_is(name, "keys");
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t i = 0; i < on.dict->n; i++) {
        value item = keys ? on.dict->keys[i] : on.dict->values[i];
        MLSI_TRY(jinja_pay(r, 0, 6 * sizeof item));
        if (keys && values) {
            MLSI_TRY(mlsi_jinja_list_new(&r->arena, &item));
            item.list->is_tuple = true;
            MLSI_TRY(mlsi_jinja_list_add(&r->arena, item, on.dict->keys[i]));
            MLSI_TRY(mlsi_jinja_list_add(&r->arena, item, on.dict->values[i]));
        }
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, item));
    }
    return MLSYS_OK;
}

static mlsys_status dict_method(run *r, value on, span name, const arguments *args, value *out) {
    if (span_is(name, "get")) {
        value key = jinja_argument(args, 0, "", mlsi_jinja_none());
        MLSI_TRY(jinja_pay(r, on.dict->n / 8, 0));
        *out = mlsi_jinja_dict_get(on, key);
        if (out->type == MLSI_JINJA_UNDEFINED)
            *out = jinja_argument(args, 1, "", mlsi_jinja_none());
        return MLSYS_OK;
    }
    if (span_is(name, "items") || span_is(name, "keys") || span_is(name, "values"))
        return dict_parts(r, on, name, out);
    value f = mlsi_jinja_dict_get(on, mlsi_jinja_string(name.s, name.len));
    if (f.type != MLSI_JINJA_UNDEFINED) return jinja_call(r, f, args, out);
    return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the method \"%.*s\" of a dict is not supported",
                      (int)name.len, name.s);
}

static mlsys_status list_method(run *r, value on, span name, const arguments *args, value *out) {
    value item = jinja_argument(args, 0, "", mlsi_jinja_none());
    bool count = span_is(name, "count"), same;
    int64_t n = 0;
    if (!count && !span_is(name, "index"))
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the method \"%.*s\" of a list is not supported",
                          (int)name.len, name.s);
    for (int64_t i = 0; i < on.list->n; i++) {
        MLSI_TRY(jinja_equal(r, on.list->items[i], item, &same));
        n += same;
        if (!same || count) continue;
        *out = mlsi_jinja_int(i);
        return MLSYS_OK;
    }
    *out = mlsi_jinja_int(n);
    return count ? MLSYS_OK : jinja_fail(r, MLSYS_E_FORMAT, "index: no such item in the list");
}

mlsys_status jinja_call_method(run *r, value on, span name, const arguments *args, value *out) {
    switch (on.type) {
    case MLSI_JINJA_STRING: return jinja_string_method(r, on, name, args, out);
    case MLSI_JINJA_DICT: return dict_method(r, on, name, args, out);
    case MLSI_JINJA_LIST: return list_method(r, on, name, args, out);
    default: break;
    }
    if (!span_is(name, "cycle") || !args->n)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "loop.%.*s() is not supported", (int)name.len,
                          name.s);
    *out = args->v[on.loop->index % args->n];
    return MLSYS_OK;
}

/* ---- tests ----------------------------------------------------------------------------------- */

typedef enum test_id {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_NUMBER,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_BOOLEAN,
    TEST_TRUE,
    TEST_FALSE,
    TEST_MAPPING,
    TEST_ITERABLE,
    TEST_SEQUENCE,
    TEST_CALLABLE,
    TEST_SAMEAS,
    TEST_IN,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLEBY,
    TEST_LOWER,
    TEST_UPPER,
    TEST_EQ,
    TEST_NE,
    TEST_LT,
    TEST_LE,
    TEST_GT,
    TEST_GE
} test_id;

static const struct {
    const char *name;
    test_id id;
} tests[] = {{"defined", TEST_DEFINED},
             {"undefined", TEST_UNDEFINED},
             {"none", TEST_NONE},
             {"string", TEST_STRING},
             {"number", TEST_NUMBER},
             {"integer", TEST_INTEGER},
             {"float", TEST_FLOAT},
             {"boolean", TEST_BOOLEAN},
             {"true", TEST_TRUE},
             {"false", TEST_FALSE},
             {"mapping", TEST_MAPPING},
             {"iterable", TEST_ITERABLE},
             {"sequence", TEST_SEQUENCE},
             {"callable", TEST_CALLABLE},
             {"sameas", TEST_SAMEAS},
             {"in", TEST_IN},
             {"odd", TEST_ODD},
             {"even", TEST_EVEN},
             {"divisibleby", TEST_DIVISIBLEBY},
             {"lower", TEST_LOWER},
             {"upper", TEST_UPPER},
             {"eq", TEST_EQ},
             {"equalto", TEST_EQ},
             {"ne", TEST_NE},
             {"lt", TEST_LT},
             {"lessthan", TEST_LT},
             {"le", TEST_LE},
             {"gt", TEST_GT},
             {"greaterthan", TEST_GT},
             {"ge", TEST_GE}};

int jinja_find_test(span name) {
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (span_is(name, tests[i].name)) return (int)tests[i].id;
    return -1;
}

static bool is_type(test_id which, value v) {
    switch (which) {
    case TEST_DEFINED: return v.type != MLSI_JINJA_UNDEFINED;
    case TEST_UNDEFINED: return v.type == MLSI_JINJA_UNDEFINED;
    case TEST_NONE: return v.type == MLSI_JINJA_NONE;
    case TEST_STRING: return v.type == MLSI_JINJA_STRING;
    case TEST_NUMBER: return jinja_is_number(v);
    case TEST_INTEGER: return v.type == MLSI_JINJA_INT;
    case TEST_FLOAT: return v.type == MLSI_JINJA_FLOAT;
    case TEST_BOOLEAN: return v.type == MLSI_JINJA_BOOL;
    case TEST_TRUE: return v.type == MLSI_JINJA_BOOL && v.b;
    case TEST_FALSE: return v.type == MLSI_JINJA_BOOL && !v.b;
    case TEST_MAPPING: return v.type == MLSI_JINJA_DICT && !v.dict->is_namespace;
    case TEST_ITERABLE:
    case TEST_SEQUENCE: /* undefined too, as in Jinja */
        return v.type == MLSI_JINJA_LIST || v.type == MLSI_JINJA_STRING ||
               v.type == MLSI_JINJA_UNDEFINED ||
               (v.type == MLSI_JINJA_DICT && !v.dict->is_namespace);
    default:
        return v.type == MLSI_JINJA_MACRO || v.type == MLSI_JINJA_FUNCTION ||
               v.type == MLSI_JINJA_METHOD;
    }
}

static mlsys_status is_case(run *r, test_id which, value on, bool *out) {
    value same;
    *out = false;
    if (on.type != MLSI_JINJA_STRING) return MLSYS_OK;
    MLSI_TRY(jinja_change_case(r, on, which == TEST_LOWER ? "lower" : "upper", &same));
    return jinja_equal(r, on, same, out);
}

mlsys_status jinja_apply_test(run *r, int which, value on, const arguments *args, bool *out) {
    static const int operators[] = {TOKEN_EQ, TOKEN_NE, TOKEN_LT, TOKEN_LE, TOKEN_GT, TOKEN_GE};
    value b = jinja_argument(args, 0, "", (value){.type = MLSI_JINJA_UNDEFINED}), v;
    if (which >= TEST_EQ) {
        MLSI_TRY(jinja_binary(r, operators[which - TEST_EQ], on, b, &v));
        *out = v.b;
        return MLSYS_OK;
    }
    switch (which) {
    case TEST_IN: return jinja_contains(r, on, b, out);
    case TEST_SAMEAS:
        *out = false;
        return on.type == b.type ? jinja_equal(r, on, b, out) : MLSYS_OK;
    case TEST_LOWER:
    case TEST_UPPER: return is_case(r, (test_id)which, on, out);
    case TEST_ODD:
    case TEST_EVEN:
    case TEST_DIVISIBLEBY:
        if (which != TEST_DIVISIBLEBY) b = mlsi_jinja_int(2);
        MLSI_TRY(jinja_binary(r, TOKEN_MOD, on, b, &v));
        *out = jinja_truth(v) == (which == TEST_ODD);
        return MLSYS_OK;
    default: *out = is_type((test_id)which, on); return MLSYS_OK;
    }
}
