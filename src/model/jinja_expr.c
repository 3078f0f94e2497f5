/* Expressions, from loose to tight:  if-else, or, and, not, comparisons, + -, ~, * / // %, **,
 * sign, then postfix: attributes, items, calls, filters, tests. */
#include "model/jinja_impl.h"

#include "core/faults.h"

mlsys_status jinja_node_new(parser *p, node_kind kind, node **out) {
    MLSI_TRY(mlsi_arena_zalloc(&p->j->arena, sizeof **out, (void **)out));
    (*out)->kind = kind;
    (*out)->line = p->now.line;
    return MLSYS_OK;
}

bool jinja_is_name(const parser *p, const char *name) {
    return p->now.kind == TOKEN_NAME && span_is(p->now.text, name);
}

mlsys_status jinja_expect(parser *p, token_kind kind, const char *what) {
    char buf[64];
    if (p->now.kind == kind) return jinja_next(p);
    return jinja_syntax(p, MLSYS_E_FORMAT, "%s expected, found %s", what,
                        jinja_token_text(&p->now, buf));
}

static mlsys_status unary(parser *p, bool with_filter, node **out);

static mlsys_status new_binary(parser *p, int op, node *a, node *b, node **out) {
    MLSI_TRY(jinja_node_new(p, NODE_BINARY, out));
    (*out)->op = op;
    (*out)->a = a;
    (*out)->b = b;
    return MLSYS_OK;
}

static mlsys_status wrap(parser *p, node_kind kind, node *a, node **out) {
    MLSI_TRY(jinja_node_new(p, kind, out));
    (*out)->a = a;
    return MLSYS_OK;
}

/* ---- primaries ------------------------------------------------------------------------------- */

/* Items up to close, separated by commas; the opening bracket is behind us. */
static mlsys_status items(parser *p, token_kind close, const char *what, node **out, bool *comma) {
    node **tail = out;
    *comma = false;
    while (p->now.kind != close) {
        MLSI_TRY(jinja_parse_expression(p, true, tail));
        tail = &(*tail)->next;
        if (p->now.kind != TOKEN_COMMA) break;
        *comma = true;
        MLSI_TRY(jinja_next(p));
    }
    return jinja_expect(p, close, what);
}

static mlsys_status dict(parser *p, node **out) {
    MLSI_TRY(jinja_node_new(p, NODE_DICT, out));
    node **tail = &(*out)->a;
    while (p->now.kind != TOKEN_RBRACE) {
        for (int i = 0; i < 2; i++) {
            MLSI_TRY(jinja_parse_expression(p, true, tail));
            tail = &(*tail)->next;
            if (i == 0) MLSI_TRY(jinja_expect(p, TOKEN_COLON, "\":\""));
        }
        if (p->now.kind != TOKEN_COMMA) break;
        MLSI_TRY(jinja_next(p));
    }
    return jinja_expect(p, TOKEN_RBRACE, "\"}\"");
}

static mlsys_status name_or_constant(parser *p, node **out) {
    static const struct {
        const char *name;
        value value;
    } constants[] = {{"true", {.type = MLSI_JINJA_BOOL, .b = true}},
                     {"True", {.type = MLSI_JINJA_BOOL, .b = true}},
                     {"false", {.type = MLSI_JINJA_BOOL}},
                     {"False", {.type = MLSI_JINJA_BOOL}},
                     {"none", {.type = MLSI_JINJA_NONE}},
                     {"None", {.type = MLSI_JINJA_NONE}}};
    MLSI_TRY(jinja_node_new(p, NODE_NAME, out));
    (*out)->name = p->now.text;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (span_is(p->now.text, constants[i].name)) {
            (*out)->kind = NODE_CONSTANT;
            (*out)->value = constants[i].value;
        }
    return jinja_next(p);
}

static mlsys_status strings(parser *p, node **out) { /* adjacent ones are one */
    MLSI_TRY(jinja_node_new(p, NODE_CONSTANT, out));
    (*out)->value = p->now.value;
    MLSI_TRY(jinja_next(p));
    while (p->now.kind == TOKEN_STRING) {
        value a = (*out)->value, b = p->now.value;
        char *s;
        MLSI_TRY(mlsi_arena_zalloc(&p->j->arena, (uint64_t)a.len + b.len, (void **)&s));
        memcpy(s, a.s, a.len);
        memcpy(s + a.len, b.s, b.len);
        (*out)->value = mlsi_jinja_string(s, (uint64_t)a.len + b.len);
        MLSI_TRY(jinja_next(p));
    }
    return MLSYS_OK;
}

static mlsys_status primary(parser *p, node **out) {
    char buf[64];
    bool comma;
    node *list = NULL;
    switch (p->now.kind) {
    case TOKEN_NAME: return name_or_constant(p, out);
    case TOKEN_STRING: return strings(p, out);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        MLSI_TRY(jinja_node_new(p, NODE_CONSTANT, out));
        (*out)->value = p->now.value;
        return jinja_next(p);
    case TOKEN_LPAREN:
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(items(p, TOKEN_RPAREN, "\")\"", &list, &comma));
        if (list && !comma) {
            *out = list;
            return MLSYS_OK;
        }
        MLSI_TRY(wrap(p, NODE_LIST, list, out));
        (*out)->op = 1;
        return MLSYS_OK;
    case TOKEN_LBRACKET:
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(items(p, TOKEN_RBRACKET, "\"]\"", &list, &comma));
        return wrap(p, NODE_LIST, list, out);
    case TOKEN_LBRACE: MLSI_TRY(jinja_next(p)); return dict(p, out);
    default:
        return jinja_syntax(p, MLSYS_E_FORMAT, "an expression expected, found %s",
                            jinja_token_text(&p->now, buf));
    }
}

/* ---- postfix --------------------------------------------------------------------------------- */

mlsys_status jinja_parse_arguments(parser *p, node **out) {
    node **tail = out;
    *out = NULL;
    while (p->now.kind != TOKEN_RPAREN) {
        if (p->now.kind == TOKEN_MUL || p->now.kind == TOKEN_POW)
            return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "arguments from a list are not supported");
        MLSI_TRY(jinja_node_new(p, NODE_ARGUMENT, tail));
        node *arg = *tail;
        MLSI_TRY(jinja_parse_expression(p, true, &arg->a));
        if (p->now.kind == TOKEN_ASSIGN) {
            if (arg->a->kind != NODE_NAME)
                return jinja_syntax(p, MLSYS_E_FORMAT, "a keyword is a name");
            arg->name = arg->a->name;
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_expression(p, true, &arg->a));
        }
        tail = &arg->next;
        if (p->now.kind != TOKEN_COMMA) break;
        MLSI_TRY(jinja_next(p));
    }
    return jinja_expect(p, TOKEN_RPAREN, "\")\"");
}

/* "a:b:c]" after "[". */
static mlsys_status subscript(parser *p, node *on, node **out) {
    node *part[3] = {NULL};
    int colons = 0;
    for (;;) {
        if (p->now.kind == TOKEN_COLON && colons < 2) {
            colons++;
            MLSI_TRY(jinja_next(p));
        } else if (p->now.kind == TOKEN_RBRACKET || part[colons]) {
            break;
        } else {
            MLSI_TRY(jinja_parse_expression(p, true, &part[colons]));
        }
    }
    if (!colons && !part[0]) return jinja_syntax(p, MLSYS_E_FORMAT, "an index expected in []");
    MLSI_TRY(wrap(p, colons ? NODE_SLICE : NODE_ITEM, on, out));
    (*out)->b = part[0];
    (*out)->c = part[1];
    (*out)->d = part[2];
    return jinja_expect(p, TOKEN_RBRACKET, "\"]\"");
}

static mlsys_status attribute(parser *p, node *on, node **out) {
    char buf[64];
    if (p->now.kind == TOKEN_INT) { /* a.0 is a[0] */
        MLSI_TRY(wrap(p, NODE_ITEM, on, out));
        return primary(p, &(*out)->b);
    }
    if (p->now.kind != TOKEN_NAME)
        return jinja_syntax(p, MLSYS_E_FORMAT, "a name expected behind \".\", found %s",
                            jinja_token_text(&p->now, buf));
    MLSI_TRY(wrap(p, NODE_ATTRIBUTE, on, out));
    (*out)->name = p->now.text;
    return jinja_next(p);
}

static mlsys_status postfix(parser *p, node *n, node **out) {
    for (;;) {
        token_kind k = p->now.kind;
        if (k != TOKEN_DOT && k != TOKEN_LBRACKET && k != TOKEN_LPAREN) break;
        MLSI_TRY(jinja_next(p));
        node *on = n;
        if (k == TOKEN_DOT) {
            MLSI_TRY(attribute(p, on, &n));
        } else if (k == TOKEN_LBRACKET) {
            MLSI_TRY(subscript(p, on, &n));
        } else {
            MLSI_TRY(wrap(p, NODE_CALL, on, &n));
            MLSI_TRY(jinja_parse_arguments(p, &n->b));
        }
    }
    *out = n;
    return MLSYS_OK;
}

mlsys_status jinja_parse_filters(parser *p, node *on, node **out) {
    char buf[64];
    for (;;) {
        if (p->now.kind != TOKEN_NAME)
            return jinja_syntax(p, MLSYS_E_FORMAT, "a filter's name expected, found %s",
                                jinja_token_text(&p->now, buf));
        int which = jinja_find_filter(p->now.text);
        if (which < 0)
            return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "the filter %s is not supported",
                                jinja_token_text(&p->now, buf));
        node *n;
        MLSI_TRY(wrap(p, NODE_FILTER, on, &n));
        n->op = which;
        n->name = p->now.text;
        MLSI_TRY(jinja_next(p));
        if (p->now.kind == TOKEN_LPAREN) {
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_arguments(p, &n->b));
        }
        on = *out = n;
        if (p->now.kind != TOKEN_PIPE) return MLSYS_OK;
        MLSI_TRY(jinja_next(p));
    }
}

/* An argument without brackets, as in "is divisibleby 3". */
static bool starts_argument(const parser *p) {
    switch (p->now.kind) {
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE: return true;
    case TOKEN_NAME:
        return !jinja_is_name(p, "else") && !jinja_is_name(p, "or") && !jinja_is_name(p, "and") &&
               !jinja_is_name(p, "is") && !jinja_is_name(p, "if") && !jinja_is_name(p, "in") &&
               !jinja_is_name(p, "not");
    default: return false;
    }
}

static mlsys_status test(parser *p, node *on, node **out) { /* behind "is" */
    char buf[64];
    bool negated = jinja_is_name(p, "not");
    node *n;
    if (negated) MLSI_TRY(jinja_next(p));
    if (p->now.kind != TOKEN_NAME)
        return jinja_syntax(p, MLSYS_E_FORMAT, "a test's name expected, found %s",
                            jinja_token_text(&p->now, buf));
    int which = jinja_find_test(p->now.text);
    if (which < 0)
        return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "the test %s is not supported",
                            jinja_token_text(&p->now, buf));
    MLSI_TRY(wrap(p, NODE_TEST, on, &n));
    n->op = which;
    n->name = p->now.text;
    MLSI_TRY(jinja_next(p));
    if (p->now.kind == TOKEN_LPAREN) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(jinja_parse_arguments(p, &n->b));
    } else if (starts_argument(p)) {
        MLSI_TRY(jinja_node_new(p, NODE_ARGUMENT, &n->b));
        MLSI_TRY(primary(p, &n->b->a));
        MLSI_TRY(postfix(p, n->b->a, &n->b->a));
    }
    *out = n;
    return negated ? wrap(p, NODE_NOT, n, out) : MLSYS_OK;
}

static mlsys_status filters_and_tests(parser *p, node *n, node **out) {
    for (;;) {
        if (p->now.kind == TOKEN_PIPE) {
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_filters(p, n, &n));
        } else if (jinja_is_name(p, "is")) {
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(test(p, n, &n));
        } else if (p->now.kind == TOKEN_LPAREN) {
            MLSI_TRY(postfix(p, n, &n));
        } else {
            break;
        }
    }
    *out = n;
    return MLSYS_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

static mlsys_status enter(parser *p) {
    if (++p->depth <= MAX_PARSE_DEPTH || mlsi_fault(MLSI_FAULT_JINJA_DEPTH)) return MLSYS_OK;
    return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "nested deeper than %d", MAX_PARSE_DEPTH);
}

static mlsys_status unary(parser *p, bool with_filter, node **out) {
    node *n;
    MLSI_TRY(enter(p));
    if (p->now.kind == TOKEN_SUB || p->now.kind == TOKEN_ADD) {
        node_kind kind = p->now.kind == TOKEN_SUB ? NODE_NEGATE : NODE_PLUS;
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(unary(p, false, &n));
        MLSI_TRY(wrap(p, kind, n, &n));
    } else {
        MLSI_TRY(primary(p, &n));
        MLSI_TRY(postfix(p, n, &n));
    }
    if (with_filter) MLSI_TRY(filters_and_tests(p, n, &n));
    *out = n;
    p->depth--;
    return MLSYS_OK;
}

/* Operators of one level each, all left-associative, as in Jinja ("**" too). */
static int level_of(token_kind k) {
    switch (k) {
    case TOKEN_ADD:
    case TOKEN_SUB: return 0;
    case TOKEN_TILDE: return 1;
    case TOKEN_MUL:
    case TOKEN_DIV:
    case TOKEN_FLOOR_DIV:
    case TOKEN_MOD: return 2;
    case TOKEN_POW: return 3;
    default: return -1;
    }
}

static mlsys_status arithmetic(parser *p, int level, node **out) {
    if (level > 3) return unary(p, true, out);
    MLSI_TRY(arithmetic(p, level + 1, out));
    while (level_of(p->now.kind) == level) {
        token_kind op = p->now.kind;
        node *b;
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(arithmetic(p, level + 1, &b));
        MLSI_TRY(new_binary(p, op, *out, b, out));
    }
    return MLSYS_OK;
}

static mlsys_status comparison_operator(parser *p, int *op) {
    *op = -1;
    if (p->now.kind >= TOKEN_EQ && p->now.kind <= TOKEN_GT) {
        *op = p->now.kind;
        return jinja_next(p);
    }
    if (jinja_is_name(p, "in")) {
        *op = TOKEN_IN;
        return jinja_next(p);
    }
    if (!jinja_is_name(p, "not")) return MLSYS_OK;
    MLSI_TRY(jinja_next(p));
    if (!jinja_is_name(p, "in"))
        return jinja_syntax(p, MLSYS_E_FORMAT, "\"in\" expected behind \"not\"");
    *op = TOKEN_NOT_IN;
    return jinja_next(p);
}

static mlsys_status comparison(parser *p, node **out) {
    int op, count = 0;
    MLSI_TRY(arithmetic(p, 0, out));
    for (;;) {
        MLSI_TRY(comparison_operator(p, &op));
        if (op < 0) return MLSYS_OK;
        node *b;
        if (count++)
            return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "chained comparisons are not supported");
        MLSI_TRY(arithmetic(p, 0, &b));
        MLSI_TRY(new_binary(p, op, *out, b, out));
    }
}

static mlsys_status negation(parser *p, node **out) {
    if (!jinja_is_name(p, "not")) return comparison(p, out);
    node *n;
    MLSI_TRY(enter(p));
    MLSI_TRY(jinja_next(p));
    MLSI_TRY(negation(p, &n));
    p->depth--;
    return wrap(p, NODE_NOT, n, out);
}

static mlsys_status logic(parser *p, bool or_level, node **out) {
    node *b;
    MLSI_TRY(or_level ? logic(p, false, out) : negation(p, out));
    while (jinja_is_name(p, or_level ? "or" : "and")) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(or_level ? logic(p, false, &b) : negation(p, &b));
        MLSI_TRY(new_binary(p, or_level ? TOKEN_OR : TOKEN_AND, *out, b, out));
    }
    return MLSYS_OK;
}

mlsys_status jinja_parse_expression(parser *p, bool with_condition, node **out) {
    node *n;
    MLSI_TRY(enter(p));
    MLSI_TRY(logic(p, true, &n));
    while (with_condition && jinja_is_name(p, "if")) {
        node *a = n;
        MLSI_TRY(wrap(p, NODE_CONDITION, a, &n));
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(logic(p, true, &n->b));
        if (jinja_is_name(p, "else")) {
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_expression(p, true, &n->c));
        }
    }
    p->depth--;
    *out = n;
    return MLSYS_OK;
}

mlsys_status jinja_parse_tuple(parser *p, bool with_condition, node **out) {
    MLSI_TRY(jinja_parse_expression(p, with_condition, out));
    if (p->now.kind != TOKEN_COMMA) return MLSYS_OK;
    node *first = *out, **tail = &first->next;
    while (p->now.kind == TOKEN_COMMA) {
        MLSI_TRY(jinja_next(p));
        if (p->now.kind == TOKEN_BLOCK_END || p->now.kind == TOKEN_OUTPUT_END) break;
        MLSI_TRY(jinja_parse_expression(p, with_condition, tail));
        tail = &(*tail)->next;
    }
    MLSI_TRY(wrap(p, NODE_LIST, first, out));
    (*out)->op = 1;
    return MLSYS_OK;
}
