/* Reader of the text form; see print.c. */
#include "core/faults.h"
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = MLSI_MAX_NAME + 1 };

typedef struct reader {
    mlsi_graph *g;
    mlsi_device *device;
    const char *p;
    int line;
    int32_t func;
} reader;

static mlsys_status fail(const reader *r, const char *what) {
    char near[24];
    size_t n = 0;
    while (n < sizeof near - 1 && r->p[n] && r->p[n] != '\n')
        near[n] = r->p[n], n++;
    near[n] = 0;
    return mlsi_fail(MLSYS_E_FORMAT, "ir: line %d: %s at \"%s\"", r->line, what, near);
}

static mlsys_status in_line(const reader *r, mlsys_status st) {
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "ir: line %d", r->line);
}

static void blanks(reader *r) {
    while (*r->p == ' ')
        r->p++;
}

static void next_line(reader *r) {
    while (*r->p == '\n' || *r->p == ' ')
        r->line += *r->p++ == '\n';
}

static bool accept(reader *r, const char *token) {
    size_t n = strlen(token);
    blanks(r);
    if (strncmp(r->p, token, n)) return false;
    r->p += n;
    return true;
}

static mlsys_status expect(reader *r, const char *token) {
    char what[64];
    if (accept(r, token)) return MLSYS_OK;
    strcpy(what, "expected ");
    strncat(what, token, sizeof what - 16);
    return fail(r, what);
}

static mlsys_status read_int(reader *r, int64_t *out) {
    char *end;
    blanks(r);
    if (*r->p != '-' && (*r->p < '0' || *r->p > '9')) return fail(r, "expected an integer");
    errno = 0;
    long long v = strtoll(r->p, &end, 10);
    if (end == r->p) return fail(r, "expected an integer");
    if (errno) return fail(r, "integer is too large");
    r->p = end;
    *out = v;
    return MLSYS_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static mlsys_status read_text(reader *r, char *out, size_t cap) {
    size_t n = 0;
    MLSI_TRY(expect(r, "\""));
    while (*r->p != '"') {
        char c = *r->p++;
        if (c == 0 || c == '\n') return r->p--, fail(r, "unended string");
        if (c == '\\') {
            int hi = r->p[0] == 'x' ? hex_digit(r->p[1]) : -1,
                lo = hi < 0 ? -1 : hex_digit(r->p[2]);
            if (lo < 0 || hi * 16 + lo == 0) return fail(r, "bad escape");
            c = (char)(hi * 16 + lo);
            r->p += 3;
        }
        if (n == cap - 1) return fail(r, "string is too long");
        out[n++] = c;
    }
    r->p++;
    out[n] = 0;
    return MLSYS_OK;
}

static mlsys_status read_string(reader *r, char out[NAME_BYTES]) {
    return read_text(r, out, NAME_BYTES);
}

static mlsys_status read_word(reader *r, char out[NAME_BYTES]) {
    size_t n;
    blanks(r);
    n = strspn(r->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (n == 0 || n >= NAME_BYTES) return fail(r, "expected a name");
    memcpy(out, r->p, n);
    out[n] = 0;
    r->p += n;
    return MLSYS_OK;
}

static mlsys_status read_type(reader *r, mlsi_type *t) {
    char word[NAME_BYTES];
    memset(t, 0, sizeof *t);
    MLSI_TRY(read_word(r, word));
    t->dtype = mlsi_dtype_by_name(word);
    if (!t->dtype) return fail(r, "unknown dtype");
    MLSI_TRY(expect(r, "["));
    if (accept(r, "]")) return MLSYS_OK;
    do {
        if (t->rank == MLSYS_MAX_DIMS) return fail(r, "rank above 8");
        MLSI_TRY(in_line(r, mlsi_dim_parse(&r->g->symbols, &r->p, &t->dims[t->rank++])));
    } while (accept(r, ","));
    return expect(r, "]");
}

static mlsys_status read_value(reader *r, int32_t *out) {
    int64_t v;
    MLSI_TRY(expect(r, "%"));
    MLSI_TRY(read_int(r, &v));
    if (v < 0 || v >= r->g->funcs[r->func].n_values) return fail(r, "value is not defined yet");
    *out = (int32_t)v;
    return MLSYS_OK;
}

static mlsys_status read_input(reader *r) {
    char name[NAME_BYTES];
    mlsi_type t;
    int32_t v;
    MLSI_TRY(read_string(r, name));
    MLSI_TRY(expect(r, ":"));
    MLSI_TRY(read_type(r, &t));
    MLSI_TRY(in_line(r, mlsi_build_input(r->g, r->func, name[0] ? name : NULL, &t, &v)));
    if (accept(r, "donated"))
        r->g->funcs[r->func].donated[r->g->funcs[r->func].n_inputs - 1] = true;
    return MLSYS_OK;
}

static mlsys_status read_const(reader *r) {
    mlsi_type t;
    mlsi_layout l;
    void *bytes;
    int32_t v;
    MLSI_TRY(read_type(r, &t));
    if (!mlsi_type_static(&t)) return fail(r, "a constant has a symbolic extent");
    MLSI_TRY(in_line(r, mlsi_layout_row_major(&l, t.dtype, t.rank, t.dims)));
    MLSI_TRY(expect(r, "hex:"));
    uint64_t n = mlsi_layout_bytes(&l), digits = 0;
    while (hex_digit(r->p[digits]) >= 0)
        digits++; /* the text bounds the allocation */
    if (digits / 2 != n || digits % 2) return fail(r, "hex digits do not match the type");
    MLSI_TRY(mlsi_mem_alloc(r->g->alloc, n, &bytes));
    for (uint64_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(hex_digit(r->p[2 * i]) * 16 + hex_digit(r->p[2 * i + 1]));
    r->p += digits;
    mlsys_status st = mlsi_build_const_bytes(r->g, r->func, r->device, &l, bytes, &v);
    mlsi_mem_free(r->g->alloc, bytes);
    return in_line(r, st);
}

static mlsys_status read_custom_list(reader *r, mlsi_config_entry *e) {
    if (accept(r, "]")) return MLSYS_OK;
    do {
        if (e->n == (int32_t)(sizeof e->v / sizeof e->v[0])) return fail(r, "list is too long");
        MLSI_TRY(read_int(r, &e->v[e->n++]));
    } while (accept(r, ","));
    return expect(r, "]");
}

/* Hexadecimal floats, inf and nan, as %a writes them; everything else is an integer. */
static mlsys_status read_custom_number(reader *r, mlsi_config_entry *e) {
    size_t n = strcspn(r->p, ",}\n ");
    char *end;
    e->type = memchr(r->p, 'x', n) || memchr(r->p, 'n', n) ? 'f' : 'i';
    if (e->type == 'i') return read_int(r, &e->i);
    if (*r->p != '-' && *r->p != '0' && *r->p != 'i' && *r->p != 'n')
        return fail(r, "expected a value");
    e->f = strtod(r->p, &end);
    if (end != r->p + n) return fail(r, "expected a value");
    r->p = end;
    return MLSYS_OK;
}

static mlsys_status read_custom_value(reader *r, mlsi_config *c, const char *key) {
    mlsi_config_entry e = {0};
    void *text;
    blanks(r);
    if (*r->p == '"') {
        size_t longest = strcspn(r->p + 1, "\"\n") + 1;
        e.type = 's';
        MLSI_TRY(mlsi_arena_zalloc(&r->g->arena, longest, &text));
        e.s = text;
        MLSI_TRY(read_text(r, e.s, longest));
    } else if (accept(r, "[")) {
        e.type = 'v';
        MLSI_TRY(read_custom_list(r, &e));
    } else {
        MLSI_TRY(read_custom_number(r, &e));
    }
    if (mlsi_config_find(c, key)) return fail(r, "key named twice before");
    return in_line(r, mlsi_config_set(c, key, &e));
}

static mlsys_status read_custom_entries(reader *r, mlsi_config *c) {
    char key[NAME_BYTES];
    if (accept(r, "}")) return MLSYS_OK;
    do {
        MLSI_TRY(read_string(r, key));
        MLSI_TRY(expect(r, "="));
        MLSI_TRY(read_custom_value(r, c, key));
    } while (accept(r, ","));
    return expect(r, "}");
}

static mlsys_status read_custom_attrs(reader *r, mlsi_config **out) {
    mlsys_config handle;
    *out = NULL;
    if (!accept(r, "{")) return MLSYS_OK;
    MLSI_TRY(mlsi_config_create(&handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_CONFIG, "ir", out);
    if (st == MLSYS_OK) st = read_custom_entries(r, *out);
    if (st != MLSYS_OK) {
        mlsi_unpin(*out);
        *out = NULL;
        mlsys_release(handle);
    }
    return st;
}

static mlsys_status read_custom(reader *r, const char *name, mlsi_attr_custom *a) {
    mlsi_graph *g = r->g;
    mlsi_custom_use use = {mlsi_custom_op_find(g->ctx, name), NULL};
    if (!use.op) return fail(r, "custom op is not registered");
    MLSI_TRY(MLSI_GROW(g->alloc, &g->customs, &g->cap_customs, g->n_customs + 1));
    MLSI_TRY(read_custom_attrs(r, &use.attrs));
    a->op_index = g->n_customs; /* the graph owns the attributes from here on */
    g->customs[g->n_customs++] = use;
    return MLSYS_OK;
}

static mlsys_status read_operands(reader *r, int32_t *n, int32_t *in) {
    *n = 0;
    MLSI_TRY(expect(r, "("));
    if (accept(r, ")")) return MLSYS_OK;
    do {
        if (*n == MLSI_MAX_OPERANDS) return fail(r, "too many operands");
        in[*n] = -1;
        if (!accept(r, "_")) MLSI_TRY(read_value(r, &in[*n]));
        ++*n;
    } while (accept(r, ","));
    return expect(r, ")");
}

static mlsys_status check_types(reader *r, int32_t n_out, const int32_t *out) {
    mlsi_type t;
    MLSI_TRY(expect(r, ":"));
    for (int i = 0; i < n_out; i++) {
        if (i) MLSI_TRY(expect(r, ","));
        MLSI_TRY(read_type(r, &t));
        if (!mlsi_type_equal(&t, mlsi_type_of(r->g, r->func, out[i])) &&
            !mlsi_fault(MLSI_FAULT_IR_TYPES))
            return fail(r, "the written type is not the op's");
    }
    return MLSYS_OK;
}

static mlsys_status check_callees(reader *r, mlsi_op op, const mlsi_attr_control *c) {
    if (c->fn1 <= r->func || c->fn1 >= r->g->n_funcs ||
        (op != MLSI_OP_CALL && (c->fn2 <= r->func || c->fn2 >= r->g->n_funcs)))
        return fail(r, "names a function that is not a later one");
    return MLSYS_OK;
}

static mlsys_status read_node(reader *r, int32_t n_out) {
    char name[NAME_BYTES];
    int32_t n_in, in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    _Alignas(16) char attrs[1024];
    MLSI_TRY(read_word(r, name));
    mlsi_op op = mlsi_op_by_name(name);
    if (op == MLSI_OP_COUNT) return fail(r, "unknown op before");
    const mlsi_op_def *def = mlsi_op_get(op);
    if (op == MLSI_OP_CUSTOM) MLSI_TRY(read_string(r, name));
    MLSI_TRY(read_operands(r, &n_in, in));
    if (op == MLSI_OP_CUSTOM) {
        MLSI_TRY(read_custom(r, name, (mlsi_attr_custom *)(void *)attrs));
    } else {
        blanks(r);
        MLSI_TRY(in_line(r, mlsi_attrs_parse(def, name, &r->g->symbols, &r->p, attrs)));
        if (def->traits & MLSI_TRAIT_CONTROL)
            MLSI_TRY(check_callees(r, op, (const mlsi_attr_control *)(const void *)attrs));
    }
    MLSI_TRY(in_line(r, mlsi_build_node(r->g, r->func, op, attrs, n_in, in, n_out, out)));
    return check_types(r, n_out, out);
}

/* "%3 = ..." or "%3, %4 = ...": numbers must be the next ones. */
static mlsys_status read_definition(reader *r) {
    int64_t next = r->g->funcs[r->func].n_values, v;
    int32_t n_out = 0;
    do {
        MLSI_TRY(expect(r, "%"));
        MLSI_TRY(read_int(r, &v));
        if (v != next + n_out || n_out == MLSI_MAX_OPERANDS)
            return fail(r, "value out of sequence");
        n_out++;
    } while (accept(r, ","));
    MLSI_TRY(expect(r, "="));
    if (accept(r, "input ")) return n_out == 1 ? read_input(r) : fail(r, "one value expected");
    if (accept(r, "const ")) return n_out == 1 ? read_const(r) : fail(r, "one value expected");
    return read_node(r, n_out);
}

static mlsys_status read_func(reader *r) {
    char name[NAME_BYTES];
    MLSI_TRY(read_string(r, name));
    MLSI_TRY(mlsi_arena_strdup(&r->g->arena, name, &r->g->funcs[r->func].name));
    MLSI_TRY(expect(r, "{"));
    for (;;) {
        next_line(r);
        if (accept(r, "}")) return MLSYS_OK;
        if (accept(r, "output ")) {
            int32_t v;
            MLSI_TRY(read_string(r, name));
            MLSI_TRY(read_value(r, &v));
            MLSI_TRY(mlsi_build_output(r->g, r->func, name[0] ? name : NULL, v));
        } else {
            MLSI_TRY(read_definition(r));
        }
        blanks(r);
        if (*r->p != '\n') return fail(r, "expected the end of the line");
    }
}

static mlsys_status read_symbols(reader *r) {
    char name[NAME_BYTES];
    int64_t min, max, divisor, d;
    next_line(r);
    while (accept(r, "symbol ")) {
        MLSI_TRY(read_word(r, name));
        MLSI_TRY(read_int(r, &min));
        MLSI_TRY(read_int(r, &max));
        MLSI_TRY(read_int(r, &divisor));
        MLSI_TRY(in_line(r, mlsi_dim_symbol(&r->g->symbols, name, min, max, divisor, &d)));
        next_line(r);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_graph_parse(mlsi_graph *g, mlsi_device *device, const char *text) {
    reader r = {.g = g, .device = device, .p = text, .line = 1};
    int64_t n, index;
    int32_t added;
    MLSI_TRY(expect(&r, "mlsys-ir 1"));
    MLSI_TRY(read_symbols(&r));
    MLSI_TRY(expect(&r, "functions "));
    MLSI_TRY(read_int(&r, &n));
    if (n < 1 || n > MLSI_MAX_FUNCS) return fail(&r, "function count is out of range");
    while (g->n_funcs < n)
        MLSI_TRY(mlsi_func_add(g, "", &added));
    for (int64_t i = n - 1; i >= 0; i--) {
        next_line(&r);
        MLSI_TRY(expect(&r, "func "));
        MLSI_TRY(read_int(&r, &index));
        if (index != i) return fail(&r, "function out of sequence");
        r.func = (int32_t)i;
        MLSI_TRY(read_func(&r));
    }
    next_line(&r);
    return *r.p ? fail(&r, "text after the last function") : mlsi_graph_verify(g);
}
