/* Text and tags. What lies outside tags is one token; whitespace control happens here. */
#include "model/jinja_impl.h"
#include "model/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

mlsys_status jinja_syntax(const parser *p, mlsys_status code, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mlsi_fail(code, "%s: line %d: %s", p->j->name, p->line, text);
}

const char *jinja_token_text(const token *t, char buf[64]) {
    if (t->kind == TOKEN_EOF) return "the end of the template";
    snprintf(buf, 64, "\"%.*s\"", (int)(t->text.len < 50 ? t->text.len : 50), t->text.s);
    return buf;
}

static void advance(parser *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p->line += p->at[i] == '\n';
    p->at += n;
}

static bool starts(const parser *p, const char *text) {
    size_t n = strlen(text);
    return (size_t)(p->end - p->at) >= n && !memcmp(p->at, text, n);
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void set_token(parser *p, token_kind kind, int64_t len) {
    p->now.kind = kind;
    p->now.line = p->line;
    p->now.text = (span){p->at, (uint32_t)len};
}

/* ---- outside tags ---------------------------------------------------------------------------- */

static const char *find_tag(const char *at, const char *end) {
    for (; (at = memchr(at, '{', (size_t)(end - at))) && at + 1 < end; at++)
        if (at[1] == '{' || at[1] == '%' || at[1] == '#') return at;
    return NULL;
}

/* The text before a tag at q, without the blanks that the tag takes away. */
static const char *end_of_text(const char *start, const char *q, const char *end, bool line_start) {
    char sign = q + 2 < end ? q[2] : 0;
    if (sign == '-') {
        while (q > start && is_blank(q[-1]))
            q--;
        return q;
    }
    if (sign == '+' || q[1] == '{') return q;
    const char *k = q;
    while (k > start && is_blank(k[-1]) && k[-1] != '\n')
        k--;
    return k > start ? (k[-1] == '\n' ? k : q) : (line_start ? k : q);
}

static mlsys_status skip_comment(parser *p) {
    const char *k = p->at + 2;
    while (k + 1 < p->end && !(k[0] == '#' && k[1] == '}'))
        k++;
    if (k + 1 >= p->end) return jinja_syntax(p, MLSYS_E_FORMAT, "the comment does not end");
    p->strip_next = k[-1] == '-' && k - 1 > p->at + 1;
    p->trim_newline = k[-1] != '+';
    advance(p, k + 2 - p->at);
    return MLSYS_OK;
}

static mlsys_status lex_text(parser *p) {
    for (;;) {
        bool line_start = p->at == p->end ? false : p->at == p->now.text.s; /* the very start */
        const char *start = p->at;
        if (p->strip_next)
            while (p->at < p->end && is_blank(*p->at))
                advance(p, 1);
        else if (p->trim_newline)
            advance(p, starts(p, "\r\n") ? 2 : starts(p, "\n") ? 1 : 0);
        if (p->at > start) line_start = p->at[-1] == '\n';
        p->strip_next = p->trim_newline = false;
        if (p->at == p->end) {
            set_token(p, TOKEN_EOF, 0);
            return MLSYS_OK;
        }
        const char *q = find_tag(p->at, p->end);
        if (!q) q = p->end;
        const char *stop = q == p->end ? q : end_of_text(p->at, q, p->end, line_start);
        if (stop > p->at) {
            set_token(p, TOKEN_TEXT, stop - p->at);
            advance(p, q - p->at);
            return MLSYS_OK;
        }
        advance(p, q - p->at);
        if (q[1] == '#') {
            MLSI_TRY(skip_comment(p));
            continue;
        }
        p->in_tag = true;
        p->in_output = q[1] == '{';
        p->brackets = 0;
        set_token(p, p->in_output ? TOKEN_OUTPUT_BEGIN : TOKEN_BLOCK_BEGIN, 2);
        advance(p, q + 2 < p->end && (q[2] == '-' || q[2] == '+') ? 3 : 2);
        return MLSYS_OK;
    }
}

/* ---- inside tags ----------------------------------------------------------------------------- */

static int hex_value(const char *s, int n, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return 0;
        *out = *out * 16 + (uint32_t)d;
    }
    return 1;
}

/* One escape at s (behind the backslash); its length, and its bytes at out. 0: unknown or cut. */
static int unescape(const char *s, const char *end, char *out, int *n) {
    static const char from[] = "ntr\\'\"abfv0/", to[] = "\n\t\r\\'\"\a\b\f\v\0/";
    const char *k = s < end && *s ? strchr(from, *s) : NULL;
    uint32_t cp;
    int digits;
    if (k) {
        *out = to[k - from];
        *n = 1;
        return 1;
    }
    digits = s >= end ? 0 : *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    if (!digits || end - s <= digits || !hex_value(s + 1, digits, &cp)) return 0;
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) return 0;
    *n = mlsi_utf8_encode(cp, out);
    return 1 + digits;
}

static mlsys_status lex_string(parser *p) {
    char quote = *p->at, *out;
    const char *k = p->at + 1;
    while (k < p->end && *k != quote)
        k += *k == '\\' ? 2 : 1;
    if (k >= p->end) return jinja_syntax(p, MLSYS_E_FORMAT, "the string does not end");
    set_token(p, TOKEN_STRING, k + 1 - p->at);
    MLSI_TRY(mlsi_arena_zalloc(&p->j->arena, (uint64_t)(k - p->at), (void **)&out));
    uint64_t n = 0;
    for (const char *s = p->at + 1; s < k;) {
        int made = 1, used = 1;
        if (*s == '\\') {
            used = unescape(s + 1, k, out + n, &made);
            if (!used && (s[1] == 'x' || s[1] == 'u' || s[1] == 'U' || s[1] == 'N'))
                return jinja_syntax(p, MLSYS_E_FORMAT, "a broken escape in the string");
            if (used)
                used++;
            else { /* as Python: an unknown escape stays as it is */
                out[n] = '\\';
                used = 1;
            }
        } else {
            out[n] = *s;
        }
        n += (uint64_t)made;
        s += used;
    }
    p->now.value = mlsi_jinja_string(out, n);
    advance(p, k + 1 - p->at);
    return MLSYS_OK;
}

static mlsys_status lex_number(parser *p) {
    const char *k = p->at;
    char digits[64];
    while (k < p->end && *k >= '0' && *k <= '9')
        k++;
    bool real = k + 1 < p->end && *k == '.' && k[1] >= '0' && k[1] <= '9';
    if (real)
        for (k++; k < p->end && *k >= '0' && *k <= '9';)
            k++;
    const char *e = k;
    if (e < p->end && (*e | 32) == 'e') {
        e++;
        if (e < p->end && (*e == '+' || *e == '-')) e++;
        for (; e < p->end && *e >= '0' && *e <= '9'; real = true)
            k = ++e;
    }
    if (k - p->at >= (int64_t)sizeof digits)
        return jinja_syntax(p, MLSYS_E_FORMAT, "the number is too long");
    set_token(p, real ? TOKEN_FLOAT : TOKEN_INT, k - p->at);
    memcpy(digits, p->at, (size_t)(k - p->at));
    digits[k - p->at] = 0;
    if (real) {
        p->now.value = mlsi_jinja_float(strtod(digits, NULL));
    } else {
        int64_t v = 0;
        for (const char *d = digits; *d; d++)
            if (!mlsi_mul_i64(v, 10, &v) || !mlsi_add_i64(v, *d - '0', &v))
                return jinja_syntax(p, MLSYS_E_FORMAT, "%s is too large", digits);
        p->now.value = mlsi_jinja_int(v);
    }
    advance(p, k - p->at);
    return MLSYS_OK;
}

static mlsys_status lex_operator(parser *p) {
    static const struct {
        const char *text;
        token_kind kind;
    } ops[] = {
        {"==", TOKEN_EQ},        {"!=", TOKEN_NE},      {"<=", TOKEN_LE},      {">=", TOKEN_GE},
        {"//", TOKEN_FLOOR_DIV}, {"**", TOKEN_POW},     {"<", TOKEN_LT},       {">", TOKEN_GT},
        {"+", TOKEN_ADD},        {"-", TOKEN_SUB},      {"*", TOKEN_MUL},      {"/", TOKEN_DIV},
        {"%", TOKEN_MOD},        {"~", TOKEN_TILDE},    {"|", TOKEN_PIPE},     {"=", TOKEN_ASSIGN},
        {".", TOKEN_DOT},        {",", TOKEN_COMMA},    {":", TOKEN_COLON},    {"(", TOKEN_LPAREN},
        {")", TOKEN_RPAREN},     {"[", TOKEN_LBRACKET}, {"]", TOKEN_RBRACKET}, {"{", TOKEN_LBRACE},
        {"}", TOKEN_RBRACE}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (!starts(p, ops[i].text)) continue;
        token_kind k = ops[i].kind;
        if (k == TOKEN_LPAREN || k == TOKEN_LBRACKET || k == TOKEN_LBRACE) p->brackets++;
        if (k == TOKEN_RPAREN || k == TOKEN_RBRACKET || k == TOKEN_RBRACE) p->brackets--;
        set_token(p, k, (int64_t)strlen(ops[i].text));
        advance(p, (int64_t)strlen(ops[i].text));
        return MLSYS_OK;
    }
    return jinja_syntax(p, MLSYS_E_FORMAT, "the character 0x%02x has no place in a tag",
                        (unsigned char)*p->at);
}

/* The end of the tag, with its sign; 0 when it is not here. */
static int tag_end(const parser *p) {
    const char *plain = p->in_output ? "}}" : "%}";
    if (p->brackets > 0) return 0;
    if (starts(p, plain)) return 2;
    if (p->end - p->at >= 3 && (*p->at == '-' || *p->at == '+') && p->at[1] == plain[0] &&
        p->at[2] == plain[1])
        return 3;
    return 0;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

mlsys_status jinja_next(parser *p) {
    if (!p->in_tag) return lex_text(p);
    while (p->at < p->end && is_blank(*p->at))
        advance(p, 1);
    if (p->at == p->end) return jinja_syntax(p, MLSYS_E_FORMAT, "the tag does not end");
    int n = tag_end(p);
    if (n) {
        set_token(p, p->in_output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END, n);
        p->strip_next = *p->at == '-';
        p->trim_newline = !p->in_output && *p->at != '+';
        p->in_tag = false;
        advance(p, n);
        return MLSYS_OK;
    }
    if (*p->at == '"' || *p->at == '\'') return lex_string(p);
    if (*p->at >= '0' && *p->at <= '9') return lex_number(p);
    if (!is_word(*p->at)) return lex_operator(p);
    const char *k = p->at;
    while (k < p->end && is_word(*k))
        k++;
    set_token(p, TOKEN_NAME, k - p->at);
    advance(p, k - p->at);
    return MLSYS_OK;
}
