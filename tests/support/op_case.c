#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const op_case op_cases[] = {
#define OP_CASE(op, types, operands, attrs, n_out) {#op, types, operands, attrs, n_out},
#include "op_cases.h"
};
const int op_case_count = (int)(sizeof op_cases / sizeof op_cases[0]);

const op_bad op_bads[] = {
#define OP_BAD(op, operands, attrs, n_out, status, text)                                           \
    {#op, operands, attrs, n_out, status, text},
#include "op_cases_bad.h"
};
const int op_bad_count = (int)(sizeof op_bads / sizeof op_bads[0]);

/* ---- reading rows -------------------------------------------------------------------------- */

static const char *const unary_shapes[] = {"T[67]",    "T[]",      "T[0]",    "T[1]",
                                           "T[3,1,5]", "T[2,0,3]", "T[13,37]"};
static const char *const binary_shapes[] = {"T[67]; T[67]",      "T[]; T[]",      "T[3,1]; T[1,5]",
                                            "T[2,3,5]; T[5]",    "T[]; T[7]",     "T[0]; T[1]",
                                            "T[13,37]; T[13,1]", "T[1,1]; T[2,0]"};
static const char *const ternary_shapes[] = {"T[67]; T[67]; T[67]", "T[3,5]; T[]; T[5]",
                                             "T[]; T[2,1]; T[3]", "T[0]; T[1]; T[1]"};
static const char *const select_shapes[] = {"bool[67]; T[67]; T[67]", "bool[3,1]; T[]; T[5]",
                                            "bool[]; T[2,1]; T[3]", "bool[1]; T[0]; T[1]"};

static const struct {
    const char *name;
    const char *const *shapes;
    int n;
} standard[] = {{"@unary", unary_shapes, 7},
                {"@binary", binary_shapes, 8},
                {"@ternary", ternary_shapes, 4},
                {"@select", select_shapes, 4}};

static bool in_class(char class_, mlsys_dtype t) {
    bool f = mlsi_dtype_is_float(t), i = mlsi_dtype_is_int(t), b = t == MLSYS_BOOL;
    switch (class_) {
    case 'F': return f;
    case 'I': return i;
    case 'N': return f || i;
    case 'L': return i || b;
    case 'B': return b;
    case 'P': return f || i || b;
    case 'G': return f && t != MLSYS_F64;
    case 'Q': return mlsi_dtype_is_block(t);
    default: return false;
    }
}

/* The k-th dtype of a class, 0 past the end; the empty class has one nameless member. */
static bool nth_dtype(const char *types, int k, mlsys_dtype *out) {
    int n;
    const mlsys_dtype *all = mlsi_dtype_all(&n);
    *out = 0;
    if (!types[0]) return k == 0;
    for (int i = 0; i < n; i++)
        if (in_class(types[0], all[i]) && k-- == 0) return *out = all[i], true;
    return false;
}

static int count_dtypes(const char *types) {
    int n = 0;
    mlsys_dtype t;
    while (nth_dtype(types, n, &t))
        n++;
    return n;
}

static void skip_space(const char **p) {
    while (**p == ' ')
        (*p)++;
}

static void read_operand(const char **p, mlsys_dtype t, mlsi_symtab *tab, op_operand *o) {
    char name[16];
    memset(o, 0, sizeof *o);
    strcpy(o->domain, "any");
    skip_space(p);
    if (**p == '_') {
        (*p)++;
        o->absent = true;
        return;
    }
    size_t n = strcspn(*p, "[");
    ck_assert_msg(n < sizeof name && (*p)[n] == '[', "operand expected at \"%s\"", *p);
    memcpy(name, *p, n);
    name[n] = 0;
    *p += n + 1;
    o->type.dtype = strcmp(name, "T") ? mlsi_dtype_by_name(name) : t;
    ck_assert_msg(o->type.dtype != 0, "unknown dtype \"%s\"", name);
    while (**p != ']') {
        ck_assert_int_eq(mlsi_dim_parse(tab, p, &o->type.dims[o->type.rank++]), MLSYS_OK);
        if (**p == ',') (*p)++;
    }
    (*p)++;
    if (**p != ':') return;
    n = strcspn(++*p, "(; ");
    ck_assert_uint_lt(n, sizeof o->domain);
    memcpy(o->domain, *p, n);
    o->domain[n] = 0;
    *p += n;
    if (**p == '(') {
        char *end;
        o->bound = strtod(*p + 1, &end);
        ck_assert_msg(*end == ')', "')' expected at \"%s\"", end);
        *p = end + 1;
    }
}

static void read_call(const char *op, const char *operands, const char *attrs, int n_out,
                      mlsys_dtype t, const char *u, mlsi_symtab *tab, op_variant *v) {
    memset(v, 0, sizeof *v);
    v->op = mlsi_op_by_name(op);
    ck_assert_msg(v->op != MLSI_OP_COUNT, "op_cases.h: no op \"%s\"", op);
    v->n_out = n_out;
    v->symbols = tab;
    for (const char *p = operands; *p;) {
        ck_assert_int_lt(v->n_in, KC_OPERANDS);
        read_operand(&p, t, tab, &v->in[v->n_in++]);
        skip_space(&p);
        ck_assert_msg(!*p || *p == ';', "%s: ';' expected at \"%s\"", op, p);
        if (*p) p++;
    }
    if (!attrs[0]) return;
    const char *var = strstr(attrs, "$U");
    size_t head = var ? (size_t)(var - attrs) : strlen(attrs);
    snprintf(v->attrs, sizeof v->attrs, "{%.*s%s%s}", (int)head, attrs, var ? u : "",
             var ? var + 2 : "");
}

bool op_case_variant(const op_case *c, int i, mlsi_symtab *tab, op_variant *out) {
    const char *const *shapes = &c->operands;
    int n_shapes = 1, n_types = count_dtypes(c->types),
        n_u = strstr(c->attrs, "$U") ? count_dtypes("P") : 1;
    for (size_t s = 0; s < sizeof standard / sizeof standard[0]; s++)
        if (!strcmp(c->operands, standard[s].name)) {
            shapes = standard[s].shapes;
            n_shapes = standard[s].n;
        }
    ck_assert_int_gt(n_types, 0);
    if (i >= n_shapes * n_types * n_u) return false;
    mlsys_dtype t, u;
    nth_dtype(c->types, i % n_types, &t);
    nth_dtype("P", i / n_types % n_u, &u);
    read_call(c->op, shapes[i / n_types / n_u], c->attrs, c->n_out, t, mlsi_dtype_get(u)->name, tab,
              out);
    return true;
}

void op_bad_variant(const op_bad *b, mlsi_symtab *tab, op_variant *out) {
    read_call(b->op, b->operands, b->attrs, b->n_out, 0, "", tab, out);
}

void op_case_symbols(mlsi_symtab *tab) {
    int64_t d;
    ck_assert_int_eq(mlsi_dim_symbol(tab, "B", 1, 8, 1, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(tab, "L", 0, 16, 1, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(tab, "S", 2, 12, 2, &d), MLSYS_OK);
}

const char *op_variant_text(const op_variant *v, char *buf, int cap) {
    char type[200];
    int n = snprintf(buf, (size_t)cap, "%s(", mlsi_op_name(v->op));
    for (int i = 0; i < v->n_in && n < cap; i++) {
        const mlsi_type *t = &v->in[i].type;
        bool fixed = v->in[i].absent || mlsi_type_static(t);
        const mlsi_dtype_info *info = mlsi_dtype_get(t->dtype);
        const char *text = v->in[i].absent ? "_"
                           : fixed         ? mlsi_type_text(NULL, t, type, sizeof type)
                                           : info->name;
        n += snprintf(buf + n, (size_t)(cap - n), "%s%s", i ? ", " : "", text);
    }
    if (n < cap) snprintf(buf + n, (size_t)(cap - n), ") %s", v->attrs);
    return buf;
}

/* ---- inputs -------------------------------------------------------------------------------- */

static uint16_t small_f16(kc_rng *r) { return mlsi_f64_to_f16(kc_uniform(r, -0.1, 0.1)); }

/* Random codes under sane scales. */
static void fill_blocks(kc_rng *r, kc_tensor *t) {
    mlsys_dtype dtype = t->view.dtype;
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    int64_t blocks = mlsi_view_count(&t->view) / info->block_elems;
    bool second =
        dtype == MLSYS_Q4_1 || dtype == MLSYS_Q5_1 || dtype == MLSYS_Q4_K || dtype == MLSYS_Q5_K;
    for (int64_t b = 0; b < blocks; b++) {
        unsigned char *p = (unsigned char *)t->view.data + b * info->block_bytes;
        uint16_t d = small_f16(r), m = small_f16(r);
        for (int i = 0; i < info->block_bytes; i++)
            p[i] = (unsigned char)kc_bits(r);
        memcpy(dtype == MLSYS_Q6_K ? p + offsetof(mlsi_q6_k, d) : p, &d, 2);
        if (second) memcpy(p + 2, &m, 2);
    }
}

/* Rows along the last axis: ordinary ones, one in four of nothing but -inf, some holding +inf, NaN
 * or -inf among ordinary values. */
static void fill_rows(kc_rng *r, const mlsi_view *v) {
    int64_t n = mlsi_view_count(v), width = v->rank ? v->shape[v->rank - 1] : 1;
    for (int64_t i = 0; i < n; i++) {
        static const double odd[] = {INFINITY, NAN, -INFINITY, -INFINITY};
        uint64_t row = (uint64_t)(i / width) % 8;
        double x = ldexp(kc_uniform(r, -8, 8), -(int)kc_int(r, 0, 4));
        if (row == 1 || row == 4) x = -INFINITY;
        if (row == 2 && kc_bits(r) % 8 == 0) x = odd[kc_bits(r) % 4];
        if (row == 3 && kc_bits(r) % 2) x = -INFINITY;
        kc_set_f(v, i, x);
    }
}

void op_operand_fill(kc_rng *r, kc_tensor *t, const op_operand *o) {
    const mlsi_view *v = &t->view;
    int64_t n = mlsi_view_count(v);
    if (mlsi_dtype_is_block(v->dtype)) {
        fill_blocks(r, t);
    } else if (!strcmp(o->domain, "small")) {
        kc_fill(r, t, KC_SMALL);
    } else if (!strcmp(o->domain, "finite")) {
        kc_fill(r, t, KC_FINITE);
    } else if (!strcmp(o->domain, "row")) {
        fill_rows(r, v);
    } else if (!strcmp(o->domain, "any")) {
        kc_fill(r, t, KC_ANY);
    } else {
        bool index = !strcmp(o->domain, "index"), constant = !strcmp(o->domain, "const");
        ck_assert_msg(index || constant || !strcmp(o->domain, "below"), "domain \"%s\"", o->domain);
        for (int64_t i = 0; i < n; i++) {
            int64_t b = (int64_t)o->bound;
            kc_set_i(v, i, constant ? b : index ? kc_int(r, -b, b - 1) : kc_int(r, 0, b));
        }
    }
    memcpy(t->before, t->block, t->bytes);
}

/* ---- graphs -------------------------------------------------------------------------------- */

mlsi_ctx *op_ctx_new(void) {
    mlsys_ctx handle;
    mlsys_config config;
    mlsi_ctx *ctx;
    ck_assert_int_eq(mlsys_config_create(&config), MLSYS_OK);
    ck_assert_int_eq(mlsys_config_set_i64(config, "threads", 1), MLSYS_OK);
    ck_assert_int_eq(mlsys_ctx_create(config, NULL, &handle), MLSYS_OK);
    ck_assert_int_eq(mlsi_pin(handle, MLSYS_KIND_CTX, "ctx", &ctx), MLSYS_OK);
    mlsys_release(handle);
    mlsys_release(config);
    return ctx;
}

void op_ctx_free(mlsi_ctx *ctx) { mlsi_unpin(ctx); }

mlsys_status op_variant_graph(mlsi_ctx *ctx, const op_variant *v, mlsi_graph *g) {
    int32_t in[KC_OPERANDS], out[KC_OPERANDS] = {0};
    const mlsi_op_def *def = mlsi_op_get(v->op);
    const char *p = v->attrs;
    ck_assert_int_eq(mlsi_graph_init(g, ctx), MLSYS_OK);
    op_case_symbols(&g->symbols);
    for (int i = 0; i < v->n_in; i++) {
        mlsi_type t = v->in[i].type;
        in[i] = -1;
        if (v->in[i].absent) continue;
        for (int d = 0; d < t.rank; d++)
            ck_assert_int_eq(mlsi_dim_import(&g->symbols, v->symbols, t.dims[d], &t.dims[d]),
                             MLSYS_OK);
        ck_assert_int_eq(mlsi_build_input(g, 0, NULL, &t, &in[i]), MLSYS_OK);
    }
    void *attrs = calloc(1, def->attrs_size);
    mlsys_status st = mlsi_attrs_parse(def, mlsi_op_name(v->op), &g->symbols, &p, attrs);
    if (st == MLSYS_OK) st = mlsi_build_node(g, 0, v->op, attrs, v->n_in, in, v->n_out, out);
    free(attrs);
    for (int i = 0; i < v->n_out && st == MLSYS_OK; i++)
        st = mlsi_build_output(g, 0, NULL, out[i]);
    return st;
}

/* One symbol per distinct extent >= 2: N<extent> in [1, 16384]. */
static int64_t symbol_for(mlsi_graph *g, int64_t extent) {
    char name[32];
    int64_t d;
    if (extent < 2) return extent;
    snprintf(name, sizeof name, "N%lld", (long long)extent);
    ck_assert_int_eq(mlsi_dim_symbol(&g->symbols, name, 1, 16384, 1, &d), MLSYS_OK);
    return d;
}

mlsys_status op_variant_symbolic(mlsi_ctx *ctx, const op_variant *v, bool one, mlsi_graph *g,
                                 int32_t *in, int32_t *out) {
    const mlsi_op_def *def = mlsi_op_get(v->op);
    const char *p = v->attrs;
    ck_assert_int_eq(mlsi_graph_init(g, ctx), MLSYS_OK);
    for (int i = 0; i < v->n_in; i++) {
        mlsi_type t = v->in[i].type;
        in[i] = -1;
        if (v->in[i].absent) continue;
        int n = t.rank - mlsi_dtype_is_block(t.dtype);
        for (int d = 0; d < n; d++)
            if (!one || t.dims[d] == v->in[0].type.dims[0]) t.dims[d] = symbol_for(g, t.dims[d]);
        ck_assert_int_eq(mlsi_build_input(g, 0, NULL, &t, &in[i]), MLSYS_OK);
    }
    void *attrs = calloc(1, def->attrs_size);
    mlsys_status st = mlsi_attrs_parse(def, mlsi_op_name(v->op), &g->symbols, &p, attrs);
    if (st == MLSYS_OK) st = mlsi_build_node(g, 0, v->op, attrs, v->n_in, in, v->n_out, out);
    free(attrs);
    return st;
}
