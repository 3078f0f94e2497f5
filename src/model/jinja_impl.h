/* Inside of the template engine: shared by jinja*.c only. */
#ifndef MLSI_JINJA_IMPL_H
#define MLSI_JINJA_IMPL_H

#include "model/jinja.h"

#include <string.h>

typedef mlsi_jinja_value value;
typedef struct mlsi_jinja_node node;

typedef struct span {
    const char *s;
    uint32_t len;
} span;

static inline bool span_is(span a, const char *text) {
    return a.len == strlen(text) && !memcmp(a.s, text, a.len);
}

/* ---- syntax tree ----------------------------------------------------------------------------- */

typedef enum node_kind {
    /* statements */
    NODE_TEXT,      /* value */
    NODE_OUTPUT,    /* a */
    NODE_IF,        /* a: condition, b: body, c: what else holds */
    NODE_FOR,       /* a: names, b: iterable, c: body, d: condition or NULL, e: body when empty */
    NODE_SET,       /* a: names or one NODE_ATTRIBUTE, b: expression */
    NODE_SET_BLOCK, /* a: the same, b: filter or NULL, c: body */
    NODE_MACRO,     /* name, a: parameters (NODE_ARGUMENT), c: body */
    NODE_FILTER_BLOCK, /* b: filter, c: body */
    NODE_BREAK,
    NODE_CONTINUE,
    /* expressions */
    NODE_CONSTANT,  /* value */
    NODE_NAME,      /* name */
    NODE_LIST,      /* a: items; op 1: a tuple */
    NODE_DICT,      /* a: keys and values, alternating */
    NODE_ATTRIBUTE, /* a, name */
    NODE_ITEM,      /* a, b: index */
    NODE_SLICE,     /* a, b: start, c: stop, d: step; each may be NULL */
    NODE_CALL,      /* a: function, b: arguments */
    NODE_FILTER,    /* a (NULL: the block's text), op: which, b: arguments */
    NODE_TEST,      /* a, op: which, b: arguments, negated by NODE_NOT */
    NODE_NOT,       /* a */
    NODE_NEGATE,    /* a */
    NODE_PLUS,      /* a */
    NODE_BINARY,    /* op: a token, a, b */
    NODE_CONDITION, /* a if b else c; c may be NULL */
    NODE_ARGUMENT   /* name ("": positional), a: value or default */
} node_kind;

struct mlsi_jinja_node {
    node_kind kind;
    int op;
    int line;
    span name;
    value value;
    node *a, *b, *c, *d, *e;
    node *next; /* in a list */
};

struct mlsi_jinja {
    mlsi_alloc *alloc;
    mlsi_arena arena; /* everything below, and the source */
    const char *name;
    node *body;
};

/* ---- tokens (jinja_lex.c) -------------------------------------------------------------------- */

typedef enum token_kind {
    TOKEN_TEXT, /* outside tags: span */
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_OUTPUT_BEGIN,
    TOKEN_OUTPUT_END,
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING, /* value: unescaped */
    TOKEN_EOF,
    /* operators */
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LE,
    TOKEN_GE,
    TOKEN_LT,
    TOKEN_GT,
    TOKEN_FLOOR_DIV,
    TOKEN_POW,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_DIV,
    TOKEN_MOD,
    TOKEN_TILDE,
    TOKEN_PIPE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    /* only as operators of the tree */
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_IN,
    TOKEN_NOT_IN
} token_kind;

typedef struct token {
    token_kind kind;
    int line;
    span text;   /* as written */
    value value; /* of a literal */
} token;

typedef struct parser {
    mlsi_jinja *j;
    const char *at, *end;
    int line;
    bool in_tag;       /* between {% or {{ and its end */
    bool in_output;    /* ... of {{ */
    int brackets;      /* open ones inside the tag */
    bool strip_next;   /* the last tag ended with "-" */
    bool trim_newline; /* the last tag was a block or a comment */
    token now;         /* one token of look-ahead */
    int depth, loops;
} parser;

enum { MAX_PARSE_DEPTH = 200 };

/* "NAME: line N: ..." with the parser's line. */
mlsys_status jinja_syntax(const parser *p, mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
mlsys_status jinja_next(parser *p); /* advance: the next token becomes p->now */
const char *jinja_token_text(const token *t, char buf[64]); /* for messages */

/* ---- parsing --------------------------------------------------------------------------------- */

mlsys_status jinja_node_new(parser *p, node_kind kind, node **out);
bool jinja_is_name(const parser *p, const char *name);
mlsys_status jinja_expect(parser *p, token_kind kind, const char *what);
mlsys_status jinja_parse_expression(parser *p, bool with_condition, node **out);
/* "a" or "a, b" without brackets: names to assign to, or a tuple. */
mlsys_status jinja_parse_tuple(parser *p, bool with_condition, node **out);
mlsys_status jinja_parse_arguments(parser *p, node **out);         /* after "(", through ")" */
mlsys_status jinja_parse_filters(parser *p, node *on, node **out); /* names behind "|" */
mlsys_status jinja_parse_template(parser *p);

/* ---- values (jinja_value.c) ------------------------------------------------------------------ */

bool jinja_truth(value v);
bool jinja_same_key(value a, value b); /* of dict keys: strings, numbers, booleans, none */
const char *jinja_type_name(value v);
static inline bool jinja_is_string(value v, const char *text) {
    return v.type == MLSI_JINJA_STRING && v.len == strlen(text) && !memcmp(v.s, text, v.len);
}
static inline bool jinja_is_number(value v) {
    return v.type == MLSI_JINJA_BOOL || v.type == MLSI_JINJA_INT || v.type == MLSI_JINJA_FLOAT;
}
static inline int64_t jinja_int_of(value v) { return v.type == MLSI_JINJA_BOOL ? v.b : v.i; }
static inline double jinja_float_of(value v) {
    return v.type == MLSI_JINJA_FLOAT ? v.f : (double)jinja_int_of(v);
}
/* < 0, 0, > 0; false when the types have no order. */
bool jinja_compare(value a, value b, int *order);
/* Characters of a string; malformed bytes count one each. */
int64_t jinja_chars(const char *s, uint64_t len);
uint64_t jinja_char_offset(const char *s, uint64_t len, int64_t chars);
bool jinja_is_space(uint32_t c);

/* ---- running --------------------------------------------------------------------------------- */

typedef struct scope {
    struct scope *parent;
    span *names;
    value *values;
    int64_t n, cap;
} scope;

typedef struct mlsi_jinja_loop {
    const value *items;
    int64_t index, n;
} loop_state;

typedef struct mlsi_jinja_macro {
    const node *definition;
    scope *where; /* it was defined */
} macro;

typedef struct mlsi_jinja_method {
    value on;
    span name;
} method;

typedef enum flow { FLOW_NORMAL, FLOW_BREAK, FLOW_CONTINUE } flow;

typedef struct run {
    const mlsi_jinja *j;
    mlsi_arena arena;
    value globals;
    scope *scope;
    mlsi_text *out;
    flow flow;
    int line, depth;
    int64_t steps, memory; /* left */
} run;

enum { MAX_RUN_DEPTH = 400 };

mlsys_status jinja_fail(const run *r, mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* Pay for work on so many bytes. */
mlsys_status jinja_pay(run *r, int64_t steps, int64_t bytes);
mlsys_status jinja_eval(run *r, const node *n, value *out);
mlsys_status jinja_exec(run *r, const node *list);
/* The body's text instead of its output. */
mlsys_status jinja_capture(run *r, const node *body, value *out);
mlsys_status jinja_write(run *r, const char *s, uint64_t len);
mlsys_status jinja_write_value(run *r, value v); /* as {{ }} does */

/* Arguments of a call: evaluated, names of keywords beside them. */
typedef struct arguments {
    value v[16];
    span name[16]; /* len 0: positional */
    int n;
} arguments;
mlsys_status jinja_eval_arguments(run *r, const node *list, arguments *out);
/* Argument by place or keyword; absent when neither is given. Counts what was used. */
value jinja_argument(const arguments *args, int place, const char *name, value absent);
mlsys_status jinja_check_arguments(run *r, const char *what, const arguments *args,
                                   const char *const *names);

/* A list of what a for loop would see. */
mlsys_status jinja_items(run *r, value v, const value **items, int64_t *n);
mlsys_status jinja_attribute(run *r, value on, span name, value *out);
mlsys_status jinja_item(run *r, value on, value index, value *out);
mlsys_status jinja_slice(run *r, value on, value start, value stop, value step, value *out);
mlsys_status jinja_binary(run *r, int op, value a, value b, value *out);
mlsys_status jinja_equal(run *r, value a, value b, bool *out);
mlsys_status jinja_contains(run *r, value item, value in, bool *out);

/* A string from the arena, being written. */
mlsys_status jinja_text(run *r, uint64_t len, char **out);
mlsys_status jinja_concat(run *r, value a, value b, value *out); /* of strings */
mlsys_status jinja_to_string(run *r, value v, value *out);       /* Python's str() */
void jinja_repr(mlsi_text *t, value v, int depth);               /* Python's repr() */
void jinja_str(mlsi_text *t, value v);
void jinja_add_bytes(mlsi_text *t, const char *s, uint64_t n);
mlsys_status jinja_take_text(run *r, mlsi_text *t, value *out); /* copies to the arena, frees t */

int jinja_find_filter(span name); /* -1: unknown */
int jinja_find_test(span name);
mlsys_status jinja_apply_filter(run *r, int which, value on, const arguments *args, value *out);
mlsys_status jinja_apply_test(run *r, int which, value on, const arguments *args, bool *out);
mlsys_status jinja_find_function(const run *r, span name, value *out); /* UNDEFINED: none */
mlsys_status jinja_call(run *r, value f, const arguments *args, value *out);
mlsys_status jinja_call_function(run *r, value f, const arguments *args, value *out);
mlsys_status jinja_call_method(run *r, value on, span name, const arguments *args, value *out);
mlsys_status jinja_filter_sort(run *r, value on, const arguments *args, value *out);
mlsys_status jinja_filter_dictsort(run *r, value on, const arguments *args, value *out);
mlsys_status jinja_to_json(run *r, value v, const arguments *args, value *out);
mlsys_status jinja_string_method(run *r, value on, span name, const arguments *args, value *out);
mlsys_status jinja_strip(run *r, value on, value chars, bool left, bool right, value *out);
mlsys_status jinja_replace(run *r, value on, value from, value to, value *out);
mlsys_status jinja_change_case(run *r, value on, const char *how, value *out);

#endif
