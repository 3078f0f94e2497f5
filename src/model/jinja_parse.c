/* Statements. */
#include "model/jinja_impl.h"

static mlsys_status body(parser *p, node **out);

static bool at_end_tag(const parser *p, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (jinja_is_name(p, names[i])) return true;
    return false;
}

static mlsys_status end_of_block(parser *p) {
    return jinja_expect(p, TOKEN_BLOCK_END, "the end of the tag");
}

/* "endif %}" and the like. */
static mlsys_status end_tag(parser *p, const char *name, int line) {
    char buf[64];
    if (!jinja_is_name(p, name))
        return jinja_syntax(p, MLSYS_E_FORMAT, "%s of line %d expected, found %s", name, line,
                            jinja_token_text(&p->now, buf));
    MLSI_TRY(jinja_next(p));
    return end_of_block(p);
}

/* Names to assign to: one, or several with commas, in brackets or not; or namespace.attribute. */
static mlsys_status target(parser *p, bool attribute, node **out) {
    bool bracket = p->now.kind == TOKEN_LPAREN;
    char buf[64];
    node **tail = out;
    if (bracket) MLSI_TRY(jinja_next(p));
    for (;;) {
        if (p->now.kind != TOKEN_NAME)
            return jinja_syntax(p, MLSYS_E_FORMAT, "a name expected, found %s",
                                jinja_token_text(&p->now, buf));
        MLSI_TRY(jinja_node_new(p, NODE_NAME, tail));
        (*tail)->name = p->now.text;
        MLSI_TRY(jinja_next(p));
        if (attribute && p->now.kind == TOKEN_DOT) {
            node *on = *tail;
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_node_new(p, NODE_ATTRIBUTE, out));
            (*out)->a = on;
            (*out)->name = p->now.text;
            return jinja_expect(p, TOKEN_NAME, "an attribute's name");
        }
        tail = &(*tail)->next;
        if (p->now.kind != TOKEN_COMMA) break;
        MLSI_TRY(jinja_next(p));
        attribute = false;
    }
    return bracket ? jinja_expect(p, TOKEN_RPAREN, "\")\"") : MLSYS_OK;
}

static mlsys_status parse_if(parser *p, node *n) {
    int line = n->line;
    for (;;) {
        MLSI_TRY(jinja_parse_tuple(p, true, &n->a));
        MLSI_TRY(end_of_block(p));
        MLSI_TRY(body(p, &n->b));
        if (!jinja_is_name(p, "elif")) break;
        MLSI_TRY(jinja_node_new(p, NODE_IF, &n->c));
        n = n->c;
        MLSI_TRY(jinja_next(p));
    }
    if (jinja_is_name(p, "else")) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(end_of_block(p));
        MLSI_TRY(body(p, &n->c));
    }
    return end_tag(p, "endif", line);
}

static mlsys_status parse_for(parser *p, node *n) {
    MLSI_TRY(target(p, false, &n->a));
    if (!jinja_is_name(p, "in")) return jinja_syntax(p, MLSYS_E_FORMAT, "\"in\" expected");
    MLSI_TRY(jinja_next(p));
    MLSI_TRY(jinja_parse_tuple(p, false, &n->b));
    if (jinja_is_name(p, "if")) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(jinja_parse_expression(p, true, &n->d));
    }
    if (jinja_is_name(p, "recursive"))
        return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "recursive loops are not supported");
    MLSI_TRY(end_of_block(p));
    p->loops++;
    MLSI_TRY(body(p, &n->c));
    p->loops--;
    if (jinja_is_name(p, "else")) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(end_of_block(p));
        MLSI_TRY(body(p, &n->e));
    }
    return end_tag(p, "endfor", n->line);
}

static mlsys_status parse_set(parser *p, node *n) {
    MLSI_TRY(target(p, true, &n->a));
    if (p->now.kind == TOKEN_ASSIGN) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(jinja_parse_tuple(p, true, &n->b));
        return end_of_block(p);
    }
    n->kind = NODE_SET_BLOCK;
    if (p->now.kind == TOKEN_PIPE) {
        MLSI_TRY(jinja_next(p));
        MLSI_TRY(jinja_parse_filters(p, NULL, &n->b));
    }
    MLSI_TRY(end_of_block(p));
    MLSI_TRY(body(p, &n->c));
    return end_tag(p, "endset", n->line);
}

static mlsys_status parse_macro(parser *p, node *n) {
    n->name = p->now.text;
    MLSI_TRY(jinja_expect(p, TOKEN_NAME, "the macro's name"));
    MLSI_TRY(jinja_expect(p, TOKEN_LPAREN, "\"(\""));
    node **tail = &n->a;
    while (p->now.kind != TOKEN_RPAREN) {
        MLSI_TRY(jinja_node_new(p, NODE_ARGUMENT, tail));
        (*tail)->name = p->now.text;
        MLSI_TRY(jinja_expect(p, TOKEN_NAME, "a parameter's name"));
        if (p->now.kind == TOKEN_ASSIGN) {
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_expression(p, true, &(*tail)->a));
        }
        tail = &(*tail)->next;
        if (p->now.kind != TOKEN_COMMA) break;
        MLSI_TRY(jinja_next(p));
    }
    MLSI_TRY(jinja_expect(p, TOKEN_RPAREN, "\")\""));
    MLSI_TRY(end_of_block(p));
    int loops = p->loops;
    p->loops = 0;
    MLSI_TRY(body(p, &n->c));
    p->loops = loops;
    return end_tag(p, "endmacro", n->line);
}

static mlsys_status parse_filter_block(parser *p, node *n) {
    MLSI_TRY(jinja_parse_filters(p, NULL, &n->b));
    MLSI_TRY(end_of_block(p));
    MLSI_TRY(body(p, &n->c));
    return end_tag(p, "endfilter", n->line);
}

static mlsys_status parse_jump(parser *p, node *n) {
    if (p->loops) return end_of_block(p);
    return jinja_syntax(p, MLSYS_E_FORMAT, "%s outside a loop",
                        n->kind == NODE_BREAK ? "break" : "continue");
}

/* Marks what the model itself would write, for training; here it is its body. */
static mlsys_status parse_generation(parser *p, node *n) {
    MLSI_TRY(jinja_node_new(p, NODE_CONSTANT, &n->a));
    n->a->value = mlsi_jinja_bool(true);
    MLSI_TRY(end_of_block(p));
    MLSI_TRY(body(p, &n->b));
    return end_tag(p, "endgeneration", n->line);
}

static mlsys_status statement(parser *p, node **out) {
    static const struct {
        const char *name;
        node_kind kind;
        mlsys_status (*parse)(parser *p, node *n);
    } statements[] = {
        {"if", NODE_IF, parse_if},
        {"for", NODE_FOR, parse_for},
        {"set", NODE_SET, parse_set},
        {"macro", NODE_MACRO, parse_macro},
        {"break", NODE_BREAK, parse_jump},
        {"continue", NODE_CONTINUE, parse_jump},
        {"generation", NODE_IF, parse_generation},
        {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    };
    char buf[64];
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!jinja_is_name(p, statements[i].name)) continue;
        MLSI_TRY(jinja_node_new(p, statements[i].kind, out));
        MLSI_TRY(jinja_next(p));
        return statements[i].parse(p, *out);
    }
    return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "the statement %s is not supported",
                        jinja_token_text(&p->now, buf));
}

/* Statements up to a tag that ends or divides a block (its name is the current token) or the end.
 */
static mlsys_status body(parser *p, node **out) {
    static const char *const ends[] = {"elif",     "else",      "endif",         "endfor", "endset",
                                       "endmacro", "endfilter", "endgeneration", NULL};
    if (++p->depth > MAX_PARSE_DEPTH)
        return jinja_syntax(p, MLSYS_E_UNSUPPORTED, "nested deeper than %d", MAX_PARSE_DEPTH);
    while (p->now.kind != TOKEN_EOF) {
        if (p->now.kind == TOKEN_TEXT) {
            MLSI_TRY(jinja_node_new(p, NODE_TEXT, out));
            (*out)->value = mlsi_jinja_string(p->now.text.s, p->now.text.len);
            MLSI_TRY(jinja_next(p));
        } else if (p->now.kind == TOKEN_OUTPUT_BEGIN) {
            MLSI_TRY(jinja_node_new(p, NODE_OUTPUT, out));
            MLSI_TRY(jinja_next(p));
            MLSI_TRY(jinja_parse_tuple(p, true, &(*out)->a));
            MLSI_TRY(jinja_expect(p, TOKEN_OUTPUT_END, "\"}}\""));
        } else {
            MLSI_TRY(jinja_expect(p, TOKEN_BLOCK_BEGIN, "a tag"));
            if (at_end_tag(p, ends)) break;
            MLSI_TRY(statement(p, out));
        }
        out = &(*out)->next;
    }
    p->depth--;
    return MLSYS_OK;
}

mlsys_status jinja_parse_template(parser *p) {
    char buf[64];
    MLSI_TRY(jinja_next(p));
    MLSI_TRY(body(p, &p->j->body));
    if (p->now.kind == TOKEN_EOF) return MLSYS_OK;
    return jinja_syntax(p, MLSYS_E_FORMAT, "%s without its beginning",
                        jinja_token_text(&p->now, buf));
}
