/* Statements and expressions at work. */
#include "model/jinja_impl.h"

/* ---- names ----------------------------------------------------------------------------------- */

static bool same_span(span a, span b) { return a.len == b.len && !memcmp(a.s, b.s, a.len); }

static mlsys_status assign(run *r, scope *s, span name, value v) {
    for (int64_t i = 0; i < s->n; i++)
        if (same_span(s->names[i], name)) {
            s->values[i] = v;
            return MLSYS_OK;
        }
    if (s->n == s->cap) {
        int64_t cap = s->cap ? 2 * s->cap : 4;
        span *names;
        value *values;
        MLSI_TRY(jinja_pay(r, 0, cap * (int64_t)(sizeof *names + sizeof *values)));
        MLSI_TRY(mlsi_arena_zalloc(&r->arena, (uint64_t)cap * sizeof *names, (void **)&names));
        MLSI_TRY(mlsi_arena_zalloc(&r->arena, (uint64_t)cap * sizeof *values, (void **)&values));
        if (s->n) {
            memcpy(names, s->names, (uint64_t)s->n * sizeof *names);
            memcpy(values, s->values, (uint64_t)s->n * sizeof *values);
        }
        s->names = names;
        s->values = values;
        s->cap = cap;
    }
    s->names[s->n] = name;
    s->values[s->n++] = v;
    return MLSYS_OK;
}

static mlsys_status look_up(run *r, span name, value *out) {
    for (const scope *s = r->scope; s; s = s->parent)
        for (int64_t i = 0; i < s->n; i++)
            if (same_span(s->names[i], name)) {
                *out = s->values[i];
                return MLSYS_OK;
            }
    *out = mlsi_jinja_dict_get(r->globals, mlsi_jinja_string(name.s, name.len));
    return out->type == MLSI_JINJA_UNDEFINED ? jinja_find_function(r, name, out) : MLSYS_OK;
}

static mlsys_status push_scope(run *r, scope *parent) {
    scope *s;
    MLSI_TRY(mlsi_arena_zalloc(&r->arena, sizeof *s, (void **)&s));
    s->parent = parent;
    r->scope = s;
    return MLSYS_OK;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static mlsys_status eval_list(run *r, const node *n, value *out) {
    value item;
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    out->list->is_tuple = n->op;
    for (const node *k = n->a; k; k = k->next) {
        MLSI_TRY(jinja_eval(r, k, &item));
        MLSI_TRY(jinja_pay(r, 0, sizeof item));
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, item));
    }
    return MLSYS_OK;
}

static mlsys_status eval_dict(run *r, const node *n, value *out) {
    value key, v;
    MLSI_TRY(mlsi_jinja_dict_new(&r->arena, out));
    for (const node *k = n->a; k; k = k->next->next) {
        MLSI_TRY(jinja_eval(r, k, &key));
        MLSI_TRY(jinja_eval(r, k->next, &v));
        if (key.type > MLSI_JINJA_STRING || key.type == MLSI_JINJA_UNDEFINED)
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "%s as a key of a dict",
                              jinja_type_name(key));
        MLSI_TRY(jinja_pay(r, out->dict->n, 2 * sizeof v));
        MLSI_TRY(mlsi_jinja_dict_set(&r->arena, *out, key, v));
    }
    return MLSYS_OK;
}

/* A name that means something to the reader, for errors about undefined values. */
static mlsys_status undefined(const run *r, const node *n, const char *doing) {
    if (n->name.len)
        return jinja_fail(r, MLSYS_E_FORMAT, "%s \"%.*s\", which is undefined", doing,
                          (int)n->name.len, n->name.s);
    return jinja_fail(r, MLSYS_E_FORMAT, "%s an undefined value", doing);
}

static mlsys_status eval_part(run *r, const node *n, value *out) {
    value on, b = {.type = MLSI_JINJA_NONE}, c = b, d = b;
    MLSI_TRY(jinja_eval(r, n->a, &on));
    r->line = n->line;
    if (on.type == MLSI_JINJA_UNDEFINED) return undefined(r, n->a, "taking a part of");
    if (n->kind == NODE_ATTRIBUTE) return jinja_attribute(r, on, n->name, out);
    if (n->b) MLSI_TRY(jinja_eval(r, n->b, &b));
    if (n->kind == NODE_ITEM) return jinja_item(r, on, b, out);
    if (n->c) MLSI_TRY(jinja_eval(r, n->c, &c));
    if (n->d) MLSI_TRY(jinja_eval(r, n->d, &d));
    return jinja_slice(r, on, b, c, d, out);
}

mlsys_status jinja_eval_arguments(run *r, const node *list, arguments *out) {
    out->n = 0;
    for (const node *k = list; k; k = k->next, out->n++) {
        if (out->n == (int)(sizeof out->v / sizeof out->v[0]))
            return jinja_fail(r, MLSYS_E_UNSUPPORTED, "a call with more than %d arguments", out->n);
        out->name[out->n] = k->name;
        MLSI_TRY(jinja_eval(r, k->a, &out->v[out->n]));
    }
    return MLSYS_OK;
}

static bool has_methods(value v) {
    return v.type == MLSI_JINJA_STRING || v.type == MLSI_JINJA_LIST || v.type == MLSI_JINJA_LOOP ||
           (v.type == MLSI_JINJA_DICT && !v.dict->is_namespace);
}

static mlsys_status eval_call(run *r, const node *n, value *out) {
    arguments args;
    value f, on;
    if (n->a->kind == NODE_ATTRIBUTE) {
        MLSI_TRY(jinja_eval(r, n->a->a, &on));
        r->line = n->line;
        if (on.type == MLSI_JINJA_UNDEFINED) return undefined(r, n->a->a, "calling a method of");
        if (has_methods(on)) {
            MLSI_TRY(jinja_eval_arguments(r, n->b, &args));
            r->line = n->line;
            return jinja_call_method(r, on, n->a->name, &args, out);
        }
        MLSI_TRY(jinja_attribute(r, on, n->a->name, &f));
    } else {
        MLSI_TRY(jinja_eval(r, n->a, &f));
    }
    MLSI_TRY(jinja_eval_arguments(r, n->b, &args));
    r->line = n->line;
    if (f.type == MLSI_JINJA_UNDEFINED) {
        mlsys_status st = undefined(r, n->a, "calling");
        return n->a->kind == NODE_NAME
                   ? jinja_fail(r, MLSYS_E_UNSUPPORTED, "the function \"%.*s\" is not known",
                                (int)n->a->name.len, n->a->name.s)
                   : st;
    }
    return jinja_call(r, f, &args, out);
}

static mlsys_status eval_filter(run *r, const node *n, const value *block, value *out) {
    arguments args;
    value on;
    if (!n->a)
        on = *block;
    else if (block && n->a->kind == NODE_FILTER)
        MLSI_TRY(eval_filter(r, n->a, block, &on));
    else
        MLSI_TRY(jinja_eval(r, n->a, &on));
    MLSI_TRY(jinja_eval_arguments(r, n->b, &args));
    r->line = n->line;
    return jinja_apply_filter(r, n->op, on, &args, out);
}

static mlsys_status eval_binary(run *r, const node *n, value *out) {
    value a, b;
    MLSI_TRY(jinja_eval(r, n->a, &a));
    if (n->op == TOKEN_AND || n->op == TOKEN_OR) {
        *out = a;
        return jinja_truth(a) == (n->op == TOKEN_OR) ? MLSYS_OK : jinja_eval(r, n->b, out);
    }
    MLSI_TRY(jinja_eval(r, n->b, &b));
    r->line = n->line;
    if (n->op != TOKEN_EQ && n->op != TOKEN_NE && n->op != TOKEN_TILDE) {
        if (a.type == MLSI_JINJA_UNDEFINED) return undefined(r, n->a, "computing with");
        if (b.type == MLSI_JINJA_UNDEFINED && n->op != TOKEN_IN && n->op != TOKEN_NOT_IN)
            return undefined(r, n->b, "computing with");
    }
    return jinja_binary(r, n->op, a, b, out);
}

static mlsys_status eval_sign(run *r, const node *n, value *out) {
    value zero = mlsi_jinja_int(0), a;
    MLSI_TRY(jinja_eval(r, n->a, &a));
    if (a.type == MLSI_JINJA_FLOAT) { /* 0 - 0.0 would lose the sign */
        *out = mlsi_jinja_float(n->kind == NODE_NEGATE ? -a.f : a.f);
        return MLSYS_OK;
    }
    return jinja_binary(r, n->kind == NODE_NEGATE ? TOKEN_SUB : TOKEN_ADD, zero, a, out);
}

static mlsys_status eval_test(run *r, const node *n, value *out) {
    arguments args;
    value on;
    bool yes;
    MLSI_TRY(jinja_eval(r, n->a, &on));
    MLSI_TRY(jinja_eval_arguments(r, n->b, &args));
    r->line = n->line;
    MLSI_TRY(jinja_apply_test(r, n->op, on, &args, &yes));
    *out = mlsi_jinja_bool(yes);
    return MLSYS_OK;
}

static mlsys_status eval_condition(run *r, const node *n, value *out) {
    value condition;
    MLSI_TRY(jinja_eval(r, n->b, &condition));
    if (jinja_truth(condition)) return jinja_eval(r, n->a, out);
    *out = (value){.type = MLSI_JINJA_UNDEFINED};
    return n->c ? jinja_eval(r, n->c, out) : MLSYS_OK;
}

static mlsys_status dispatch(run *r, const node *n, value *out) {
    switch (n->kind) {
    case NODE_CONSTANT: *out = n->value; return MLSYS_OK;
    case NODE_NAME: return look_up(r, n->name, out);
    case NODE_LIST: return eval_list(r, n, out);
    case NODE_DICT: return eval_dict(r, n, out);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
    case NODE_SLICE: return eval_part(r, n, out);
    case NODE_CALL: return eval_call(r, n, out);
    case NODE_FILTER: return eval_filter(r, n, NULL, out);
    case NODE_TEST: return eval_test(r, n, out);
    case NODE_NOT:
        MLSI_TRY(jinja_eval(r, n->a, out));
        *out = mlsi_jinja_bool(!jinja_truth(*out));
        return MLSYS_OK;
    case NODE_NEGATE:
    case NODE_PLUS: return eval_sign(r, n, out);
    case NODE_BINARY: return eval_binary(r, n, out);
    case NODE_CONDITION: return eval_condition(r, n, out);
    default: return jinja_fail(r, MLSYS_E_INTERNAL, "node %d is no expression", n->kind);
    }
}

mlsys_status jinja_eval(run *r, const node *n, value *out) {
    r->line = n->line;
    MLSI_TRY(jinja_pay(r, 0, 0));
    if (++r->depth > MAX_RUN_DEPTH)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "nested deeper than %d", MAX_RUN_DEPTH);
    mlsys_status st = dispatch(r, n, out);
    r->depth--;
    return st;
}

/* ---- statements ------------------------------------------------------------------------------ */

static mlsys_status assign_names(run *r, const node *names, value v) {
    const value *items;
    int64_t n, want = 0;
    if (names->kind == NODE_ATTRIBUTE) {
        value on;
        MLSI_TRY(jinja_eval(r, names->a, &on));
        if (on.type != MLSI_JINJA_DICT || !on.dict->is_namespace)
            return jinja_fail(r, MLSYS_E_FORMAT, "only a namespace's attributes can be set");
        MLSI_TRY(jinja_pay(r, on.dict->n, 2 * sizeof v));
        return mlsi_jinja_dict_set(&r->arena, on, mlsi_jinja_string(names->name.s, names->name.len),
                                   v);
    }
    if (!names->next) return assign(r, r->scope, names->name, v);
    MLSI_TRY(jinja_items(r, v, &items, &n));
    for (const node *k = names; k; k = k->next)
        want++;
    if (n != want)
        return jinja_fail(r, MLSYS_E_FORMAT, "%lld values for %lld names", (long long)n,
                          (long long)want);
    for (const node *k = names; k; k = k->next, items++)
        MLSI_TRY(assign(r, r->scope, k->name, *items));
    return MLSYS_OK;
}

/* The items for which the loop's condition holds. */
static mlsys_status select_items(run *r, const node *n, const value **items, int64_t *count) {
    value kept, yes;
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, &kept));
    for (int64_t i = 0; i < *count; i++) {
        r->scope->n = 0;
        MLSI_TRY(assign_names(r, n->a, (*items)[i]));
        MLSI_TRY(jinja_eval(r, n->d, &yes));
        if (!jinja_truth(yes)) continue;
        MLSI_TRY(jinja_pay(r, 0, sizeof yes));
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, kept, (*items)[i]));
    }
    *items = kept.list->items;
    *count = kept.list->n;
    return MLSYS_OK;
}

static mlsys_status run_loop(run *r, const node *n, loop_state *loop) {
    value self = {.type = MLSI_JINJA_LOOP, .loop = loop};
    for (loop->index = 0; loop->index < loop->n; loop->index++) {
        r->scope->n = 0;
        MLSI_TRY(assign(r, r->scope, (span){"loop", 4}, self));
        MLSI_TRY(assign_names(r, n->a, loop->items[loop->index]));
        MLSI_TRY(jinja_exec(r, n->c));
        flow how = r->flow;
        r->flow = FLOW_NORMAL;
        if (how == FLOW_BREAK) break;
    }
    return MLSYS_OK;
}

static mlsys_status exec_for(run *r, const node *n) {
    value over;
    loop_state *loop;
    scope *outer = r->scope;
    MLSI_TRY(jinja_eval(r, n->b, &over));
    r->line = n->line;
    MLSI_TRY(jinja_pay(r, 0, sizeof *loop + sizeof(scope)));
    MLSI_TRY(mlsi_arena_zalloc(&r->arena, sizeof *loop, (void **)&loop));
    MLSI_TRY(jinja_items(r, over, &loop->items, &loop->n));
    MLSI_TRY(push_scope(r, outer));
    if (n->d) MLSI_TRY(select_items(r, n, &loop->items, &loop->n));
    MLSI_TRY(loop->n ? run_loop(r, n, loop) : jinja_exec(r, n->e));
    r->scope = outer;
    return MLSYS_OK;
}

static mlsys_status exec_if(run *r, const node *n) {
    for (;;) {
        value condition;
        MLSI_TRY(jinja_eval(r, n->a, &condition));
        if (jinja_truth(condition)) return jinja_exec(r, n->b);
        if (!n->c || n->c->kind != NODE_IF || n->c->next) return jinja_exec(r, n->c);
        n = n->c; /* elif, or an if that is all there is in the else */
    }
}

static mlsys_status exec_macro(run *r, const node *n) {
    macro *m;
    MLSI_TRY(jinja_pay(r, 0, sizeof *m));
    MLSI_TRY(mlsi_arena_zalloc(&r->arena, sizeof *m, (void **)&m));
    m->definition = n;
    m->where = r->scope;
    return assign(r, r->scope, n->name, (value){.type = MLSI_JINJA_MACRO, .macro = m});
}

static mlsys_status exec_one(run *r, const node *n) {
    value v;
    switch (n->kind) {
    case NODE_TEXT: return jinja_write(r, n->value.s, n->value.len);
    case NODE_OUTPUT: MLSI_TRY(jinja_eval(r, n->a, &v)); return jinja_write_value(r, v);
    case NODE_IF: return exec_if(r, n);
    case NODE_FOR: return exec_for(r, n);
    case NODE_SET:
        MLSI_TRY(jinja_eval(r, n->b, &v));
        r->line = n->line;
        return assign_names(r, n->a, v);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        MLSI_TRY(jinja_capture(r, n->c, &v));
        if (n->b) MLSI_TRY(eval_filter(r, n->b, &v, &v));
        return n->kind == NODE_SET_BLOCK ? assign_names(r, n->a, v) : jinja_write_value(r, v);
    case NODE_MACRO: return exec_macro(r, n);
    case NODE_BREAK: r->flow = FLOW_BREAK; return MLSYS_OK;
    case NODE_CONTINUE: r->flow = FLOW_CONTINUE; return MLSYS_OK;
    default: return jinja_fail(r, MLSYS_E_INTERNAL, "node %d is no statement", n->kind);
    }
}

mlsys_status jinja_exec(run *r, const node *list) {
    if (++r->depth > MAX_RUN_DEPTH)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "nested deeper than %d", MAX_RUN_DEPTH);
    for (const node *n = list; n && r->flow == FLOW_NORMAL; n = n->next) {
        r->line = n->line;
        MLSI_TRY(jinja_pay(r, 0, 0));
        MLSI_TRY(exec_one(r, n));
    }
    r->depth--;
    return MLSYS_OK;
}

mlsys_status jinja_capture(run *r, const node *body, value *out) {
    mlsi_text text, *outer = r->out;
    scope *outer_scope = r->scope;
    mlsi_text_init(&text, r->j->alloc);
    r->out = &text;
    mlsys_status st = push_scope(r, outer_scope);
    if (st == MLSYS_OK) st = jinja_exec(r, body);
    r->out = outer;
    r->scope = outer_scope;
    if (st != MLSYS_OK) {
        mlsi_text_free(&text);
        return st;
    }
    return jinja_take_text(r, &text, out);
}

/* ---- calls of macros ------------------------------------------------------------------------- */

static mlsys_status call_macro(run *r, const macro *m, const arguments *args, value *out) {
    const node *d = m->definition;
    scope *caller = r->scope;
    flow how = r->flow;
    int place = 0, used = 0;
    MLSI_TRY(jinja_pay(r, 0, sizeof *caller));
    MLSI_TRY(push_scope(r, m->where));
    for (const node *k = d->a; k; k = k->next, place++) {
        value v = {.type = MLSI_JINJA_UNDEFINED};
        bool given = false;
        for (int i = 0; i < args->n && !given; i++) {
            given = args->name[i].len ? same_span(args->name[i], k->name) : i == place;
            if (given) v = args->v[i];
        }
        used += given;
        if (!given && k->a) MLSI_TRY(jinja_eval(r, k->a, &v));
        MLSI_TRY(assign(r, r->scope, k->name, v));
    }
    if (used != args->n)
        return jinja_fail(r, MLSYS_E_FORMAT, "the macro %.*s does not take these %d arguments",
                          (int)d->name.len, d->name.s, args->n);
    r->flow = FLOW_NORMAL;
    MLSI_TRY(jinja_capture(r, d->c, out));
    r->flow = how;
    r->scope = caller;
    return MLSYS_OK;
}

mlsys_status jinja_call(run *r, value f, const arguments *args, value *out) {
    if (f.type == MLSI_JINJA_MACRO) return call_macro(r, f.macro, args, out);
    if (f.type == MLSI_JINJA_FUNCTION) return jinja_call_function(r, f, args, out);
    if (f.type == MLSI_JINJA_METHOD)
        return jinja_call_method(r, f.method->on, f.method->name, args, out);
    return jinja_fail(r, MLSYS_E_FORMAT, "%s is not a function", jinja_type_name(f));
}
