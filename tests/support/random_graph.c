#include "support/random_graph.h"

#include "ir/ops/op_def.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VALUES = 512, TRIES = 12 };

typedef struct gen {
    kc_rng *r;
    mlsi_graph *g;
    mlsi_device *device;
    int32_t func;
    bool symbols;
    int32_t values[MAX_VALUES];
    int n;
    int64_t dims[16]; /* extents to choose from */
    int n_dims;
} gen;

static int64_t pick(gen *x, int64_t lo, int64_t hi) { return kc_int(x->r, lo, hi); }

static const mlsi_type *type_of(const gen *x, int32_t v) { return mlsi_type_of(x->g, x->func, v); }

static void keep(gen *x, int32_t v) {
    if (x->n < MAX_VALUES) x->values[x->n++] = v;
}

/* Newer values more often, so that graphs get deep. */
static int32_t any_value(gen *x) {
    int64_t i = pick(x, 0, x->n - 1), j = pick(x, 0, x->n - 1);
    return x->values[i > j ? i : j];
}

static int32_t value_like(gen *x, bool (*fits)(const mlsi_type *t, const void *user),
                          const void *user) {
    for (int k = 0; k < 4 * x->n; k++) {
        int32_t v = any_value(x);
        if (fits(type_of(x, v), user)) return v;
    }
    return -1;
}

static bool is_float(const mlsi_type *t, const void *u) {
    return (void)u, mlsi_dtype_is_float(t->dtype);
}
static bool is_bool(const mlsi_type *t, const void *u) { return (void)u, t->dtype == MLSYS_BOOL; }
static bool has_axes(const mlsi_type *t, const void *u) {
    return (void)u, t->rank > 0 && mlsi_dtype_is_float(t->dtype);
}
static bool same_dtype(const mlsi_type *t, const void *dtype) {
    return t->dtype == *(const mlsys_dtype *)dtype;
}
static bool same_type(const mlsi_type *t, const void *other) { return mlsi_type_equal(t, other); }

static bool emit(gen *x, mlsi_op op, const void *attrs, int n_in, const int32_t *in, int n_out) {
    int32_t out[MLSI_MAX_OPERANDS];
    for (int i = 0; i < n_in; i++)
        if (in[i] < 0) return false;
    if (mlsi_build_node(x->g, x->func, op, attrs, n_in, in, n_out, out) != MLSYS_OK) return false;
    for (int i = 0; i < n_out; i++)
        keep(x, out[i]);
    return true;
}

static bool emit_text(gen *x, mlsi_op op, const char *attrs, int n_in, const int32_t *in,
                      int n_out) {
    _Alignas(16) char own[1024];
    const char *p = attrs;
    if (mlsi_attrs_parse(mlsi_op_get(op), mlsi_op_name(op), &x->g->symbols, &p, own) != MLSYS_OK)
        ck_abort_msg("%s %s: %s", mlsi_op_name(op), attrs, mlsys_last_error());
    return emit(x, op, own, n_in, in, n_out);
}

/* ---- inputs and constants
 * ------------------------------------------------------------------------ */

static mlsys_dtype any_dtype(gen *x) {
    static const mlsys_dtype dtypes[] = {MLSYS_F32, MLSYS_F32, MLSYS_F32,  MLSYS_F32,
                                         MLSYS_F64, MLSYS_F16, MLSYS_BF16, MLSYS_F8E4M3,
                                         MLSYS_I64, MLSYS_I32, MLSYS_U8,   MLSYS_F8E5M2,
                                         MLSYS_I16, MLSYS_I8,  MLSYS_BOOL};
    return dtypes[pick(x, 0, (int64_t)(sizeof dtypes / sizeof dtypes[0]) - 1)];
}

static mlsi_type any_type(gen *x, bool constant) {
    mlsi_type t = {.dtype = any_dtype(x), .rank = (int32_t)pick(x, 0, 3)};
    for (int d = 0; d < t.rank; d++) {
        do
            t.dims[d] = x->dims[pick(x, 0, x->n_dims - 1)];
        while (constant && t.dims[d] < 0);
    }
    return t;
}

static void add_const(gen *x) {
    mlsi_type t = any_type(x, true);
    mlsi_layout l;
    mlsys_tensor handle;
    mlsi_tensor *tensor;
    int32_t v;
    ck_assert_int_eq(mlsi_layout_row_major(&l, t.dtype, t.rank, t.dims), MLSYS_OK);
    ck_assert_int_eq(mlsi_tensor_new(x->device, &l, &handle), MLSYS_OK);
    mlsi_view view = rg_view(handle);
    rg_fill(x->r, &view);
    for (int64_t k = pick(x, -1, 2); k > 0; k--)
        handle = rg_random_view(x->r, handle);
    ck_assert_int_eq(mlsi_pin(handle, MLSYS_KIND_TENSOR, "const", &tensor), MLSYS_OK);
    ck_assert_int_eq(mlsi_build_const(x->g, x->func, tensor, &v), MLSYS_OK);
    mlsi_unpin(tensor);
    ck_assert_int_eq(mlsys_release(handle), MLSYS_OK);
    keep(x, v);
}

/* Neutral elements and near misses, for the rules of simplify. */
static bool add_splat(gen *x) {
    static const double values[] = {0.0, -0.0, 1.0, -1.0, 2.0, NAN, INFINITY, 1e-30};
    int32_t v = any_value(x);
    mlsi_attr_full a = {.dtype = type_of(x, v)->dtype, .ivalue = pick(x, 0, 2)};
    a.value = values[pick(x, 0, 7)];
    if (pick(x, 0, 1)) {
        a.shape.n = type_of(x, v)->rank;
        memcpy(a.shape.v, type_of(x, v)->dims, sizeof(int64_t) * (size_t)a.shape.n);
    }
    if (!emit(x, MLSI_OP_FULL, &a, 0, NULL, 1)) return false;
    const mlsi_op ops[] = {MLSI_OP_ADD, MLSI_OP_MUL, MLSI_OP_SUB, MLSI_OP_DIV};
    int32_t splat = x->values[x->n - 1], in[2] = {v, splat}, swapped[2] = {splat, v};
    return emit(x, ops[pick(x, 0, 3)], NULL, 2, pick(x, 0, 2) ? in : swapped, 1);
}

/* ---- ops by shape of their operands
 * ---------------------------------------------------------------- */

static bool unary(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_NEG,       MLSI_OP_NEG,   MLSI_OP_ABS,     MLSI_OP_SIGN,
                                  MLSI_OP_FLOOR,     MLSI_OP_ROUND, MLSI_OP_SQRT,    MLSI_OP_RSQRT,
                                  MLSI_OP_EXP,       MLSI_OP_LOG,   MLSI_OP_SIN,     MLSI_OP_TANH,
                                  MLSI_OP_ERF,       MLSI_OP_NOT,   MLSI_OP_NOT,     MLSI_OP_COPY,
                                  MLSI_OP_IS_FINITE, MLSI_OP_RELU,  MLSI_OP_SIGMOID, MLSI_OP_SILU,
                                  MLSI_OP_GELU,      MLSI_OP_IS_NAN};
    int32_t v = any_value(x);
    return emit(x, ops[pick(x, 0, (int64_t)(sizeof ops / sizeof ops[0]) - 1)], NULL, 1, &v, 1);
}

static bool cast(gen *x) {
    int32_t v = any_value(x);
    mlsi_attr_cast a = {.dtype = any_dtype(x)};
    return emit(x, MLSI_OP_CAST, &a, 1, &v, 1);
}

static bool binary(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_ADD, MLSI_OP_SUB, MLSI_OP_MUL, MLSI_OP_DIV, MLSI_OP_MAX,
                                  MLSI_OP_MIN, MLSI_OP_REM, MLSI_OP_POW, MLSI_OP_AND, MLSI_OP_XOR,
                                  MLSI_OP_EQ,  MLSI_OP_LT,  MLSI_OP_GE,  MLSI_OP_ADD, MLSI_OP_MUL};
    int32_t in[2] = {any_value(x), -1};
    mlsys_dtype dtype = type_of(x, in[0])->dtype;
    in[1] = value_like(x, same_dtype, &dtype);
    return emit(x, ops[pick(x, 0, (int64_t)(sizeof ops / sizeof ops[0]) - 1)], NULL, 2, in, 1);
}

static bool ternary(gen *x) {
    int32_t in[3] = {value_like(x, is_bool, NULL), any_value(x), -1};
    mlsys_dtype dtype = type_of(x, in[1])->dtype;
    in[2] = value_like(x, same_dtype, &dtype);
    if (pick(x, 0, 2)) return emit(x, MLSI_OP_SELECT, NULL, 3, in, 1);
    in[0] = value_like(x, same_dtype, &dtype);
    return emit(x, pick(x, 0, 1) ? MLSI_OP_CLAMP : MLSI_OP_FMA, NULL, 3, in, 1);
}

static bool reshape(gen *x) {
    int32_t v = any_value(x);
    const mlsi_type *t = type_of(x, v);
    mlsi_attr_shape a = {{0}};
    switch (pick(x, 0, 3)) {
    case 0: /* flat */
        a.shape.n = 1;
        a.shape.v[0] = -1;
        break;
    case 1: /* an axis of 1 somewhere */
        if (t->rank == MLSYS_MAX_DIMS) return false;
        a.shape.n = t->rank + 1;
        for (int64_t d = 0, at = pick(x, 0, t->rank), k = 0; d < a.shape.n; d++)
            a.shape.v[d] = d == at ? 1 : t->dims[k++];
        break;
    case 2: /* the first two merged */
        if (t->rank < 2) return false;
        a.shape.n = t->rank - 1;
        a.shape.v[0] = -1;
        for (int d = 2; d < t->rank; d++)
            a.shape.v[d - 1] = t->dims[d];
        break;
    default: /* the first one split */
        if (t->rank == 0 || t->rank == MLSYS_MAX_DIMS) return false;
        a.shape.n = t->rank + 1;
        a.shape.v[0] = -1;
        a.shape.v[1] = pick(x, 1, 3);
        for (int d = 1; d < t->rank; d++)
            a.shape.v[d + 1] = t->dims[d];
        break;
    }
    return emit(x, MLSI_OP_RESHAPE, &a, 1, &v, 1);
}

static bool broadcast(gen *x) {
    int32_t v = any_value(x);
    const mlsi_type *t = type_of(x, v);
    mlsi_attr_shape a = {{0}};
    if (t->rank > 3) return false;
    int64_t more = pick(x, 0, 1);
    a.shape.n = t->rank + more;
    for (int64_t d = 0; d < a.shape.n; d++) {
        bool fresh = d < more || (t->dims[d - more] == 1 && pick(x, 0, 1));
        a.shape.v[d] = fresh ? x->dims[pick(x, 0, x->n_dims - 1)] : t->dims[d - more];
    }
    return emit(x, MLSI_OP_BROADCAST, &a, 1, &v, 1);
}

static bool transpose(gen *x) {
    int32_t v = any_value(x);
    mlsi_attr_transpose a = {{.n = type_of(x, v)->rank}};
    for (int64_t i = 0; i < a.perm.n; i++)
        a.perm.v[i] = i;
    for (int64_t i = 0; i + 1 < a.perm.n; i++) {
        int64_t j = pick(x, i, a.perm.n - 1), k = a.perm.v[i];
        a.perm.v[i] = a.perm.v[j];
        a.perm.v[j] = k;
    }
    return emit(x, MLSI_OP_TRANSPOSE, &a, 1, &v, 1);
}

static bool slice(gen *x) {
    static const int64_t steps[] = {1, 1, 1, 2, -1, -2};
    int32_t v = any_value(x);
    mlsi_attr_slice a = {{0}, {0}, {0}};
    a.starts.n = a.stops.n = a.steps.n = type_of(x, v)->rank;
    for (int64_t d = 0; d < a.starts.n; d++) {
        a.steps.v[d] = steps[pick(x, 0, 5)];
        a.starts.v[d] = a.steps.v[d] > 0 ? (pick(x, 0, 2) ? 0 : pick(x, -3, 3)) : pick(x, -3, 4);
        a.stops.v[d] = pick(x, 0, 1) ? pick(x, -2, 4) : a.steps.v[d] > 0 ? INT64_MAX : INT64_MIN;
    }
    return emit(x, MLSI_OP_SLICE, &a, 1, &v, 1);
}

static bool reverse_or_pad(gen *x) {
    int32_t v = any_value(x);
    int64_t rank = type_of(x, v)->rank;
    if (pick(x, 0, 1)) {
        mlsi_attr_axes a = {{0}};
        for (int64_t d = 0; d < rank; d++)
            if (pick(x, 0, 1)) a.axes.v[a.axes.n++] = d;
        return emit(x, MLSI_OP_REVERSE, &a, 1, &v, 1);
    }
    mlsi_attr_pad a = {.value = (double)pick(x, -1, 1)};
    a.low.n = a.high.n = rank;
    for (int64_t d = 0; d < rank; d++) {
        a.low.v[d] = pick(x, -1, 1) * pick(x, 0, 1);
        a.high.v[d] = pick(x, 0, 2) * pick(x, 0, 1);
    }
    return emit(x, MLSI_OP_PAD, &a, 1, &v, 1);
}

static bool concat(gen *x) {
    int32_t in[3] = {any_value(x), -1, -1};
    int n = (int)pick(x, 1, 3);
    mlsi_attr_axis a = {0};
    mlsi_type t = *type_of(x, in[0]);
    if (t.rank == 0) return false;
    a.axis = pick(x, 0, t.rank - 1);
    for (int i = 1; i < n; i++)
        in[i] = value_like(x, same_type, &t);
    return emit(x, MLSI_OP_CONCAT, &a, n, in, 1);
}

static bool reduce(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_REDUCE_SUM, MLSI_OP_REDUCE_PROD, MLSI_OP_REDUCE_MAX,
                                  MLSI_OP_REDUCE_AND, MLSI_OP_REDUCE_MEAN};
    int32_t v = any_value(x);
    mlsi_attr_reduce a = {.keep = pick(x, 0, 1)};
    int64_t rank = type_of(x, v)->rank;
    for (int64_t d = 0; d < rank; d++)
        if (pick(x, 0, 1)) a.axes.v[a.axes.n++] = d;
    return emit(x, ops[pick(x, 0, 4)], &a, 1, &v, 1);
}

static bool row(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_SOFTMAX, MLSI_OP_LOG_SOFTMAX, MLSI_OP_LOGSUMEXP,
                                  MLSI_OP_ARGMAX,  MLSI_OP_ARGMIN,      MLSI_OP_SORT};
    static const char *const scans[] = {"sum", "prod", "max", "min"};
    int32_t v = value_like(x, has_axes, NULL);
    char text[64];
    if (v < 0) return false;
    int axis = -(int)pick(x, 1, type_of(x, v)->rank), op = (int)pick(x, 0, 7);
    snprintf(text, sizeof text, "{axis=%d}", axis);
    if (op < 6) return emit_text(x, ops[op], text, 1, &v, ops[op] == MLSI_OP_SORT ? 2 : 1);
    snprintf(text, sizeof text, "{kind=%s, axis=%d, exclusive=%s}", scans[pick(x, 0, 3)], axis,
             op == 6 ? "true" : "false");
    return emit_text(x, MLSI_OP_SCAN, text, 1, &v, 1);
}

static bool norm(gen *x) {
    int32_t in[3] = {value_like(x, has_axes, NULL), -1, -1};
    if (in[0] < 0) return false;
    const mlsi_type *t = type_of(x, in[0]);
    mlsi_type gamma = {.dtype = t->dtype, .rank = 1, .dims = {t->dims[t->rank - 1]}};
    in[1] = value_like(x, same_type, &gamma);
    if (in[1] < 0) return false;
    in[2] = in[1];
    return pick(x, 0, 1) ? emit_text(x, MLSI_OP_RMS_NORM, "{axis=-1}", 2, in, 1)
                         : emit_text(x, MLSI_OP_LAYER_NORM, "{axis=-1}", 3, in, 1);
}

static bool product(gen *x) {
    int32_t in[2] = {value_like(x, is_float, NULL), -1};
    mlsi_attr_matmul a = {pick(x, 0, 1), pick(x, 0, 1)};
    if (in[0] < 0) return false;
    mlsys_dtype dtype = type_of(x, in[0])->dtype;
    for (int k = 0; k < 16; k++) {
        in[1] = value_like(x, same_dtype, &dtype);
        if (emit(x, MLSI_OP_MATMUL, &a, 2, in, 1)) return true;
    }
    return false;
}

/* Indices that are always in range: a remainder of an iota. */
static bool gather(gen *x) {
    int32_t v = any_value(x), index, in[2];
    const mlsi_type *t = type_of(x, v);
    if (t->rank == 0) return false;
    int64_t axis = pick(x, 0, t->rank - 1), n = t->dims[axis];
    if (n < 1) return false;
    char text[96];
    snprintf(text, sizeof text, "{dtype=i32, shape=[%d], axis=0}", (int)pick(x, 0, 4));
    if (!emit_text(x, MLSI_OP_IOTA, text, 0, NULL, 1)) return false;
    index = x->values[x->n - 1];
    snprintf(text, sizeof text, "{dtype=i32, shape=[], ivalue=%lld}", (long long)n);
    if (!emit_text(x, MLSI_OP_FULL, text, 0, NULL, 1)) return false;
    in[0] = index, in[1] = x->values[x->n - 1];
    if (!emit(x, MLSI_OP_MOD, NULL, 2, in, 1)) return false;
    in[0] = v, in[1] = x->values[x->n - 1];
    mlsi_attr_axis a = {axis};
    return emit(x, MLSI_OP_GATHER, &a, 2, in, 1);
}

static bool create(gen *x) {
    mlsi_type t = any_type(x, false);
    if (pick(x, 0, 1) || t.rank == 0) return add_splat(x);
    mlsi_attr_iota a = {.dtype = t.dtype, .axis = pick(x, 0, t.rank - 1)};
    a.shape.n = t.rank;
    memcpy(a.shape.v, t.dims, sizeof(int64_t) * (size_t)t.rank);
    return emit(x, MLSI_OP_IOTA, &a, 0, NULL, 1);
}

/* The same node again, for cse. */
static bool again(gen *x) {
    const mlsi_func *f = &x->g->funcs[x->func];
    if (!f->n_nodes) return false;
    mlsi_node node = f->nodes[pick(x, 0, f->n_nodes - 1)];
    int32_t in[MLSI_MAX_OPERANDS];
    if (mlsi_op_get(node.op)->traits & MLSI_TRAIT_CONTROL) return false;
    if (node.n_in) memcpy(in, node.in, sizeof *in * (size_t)node.n_in);
    return emit(x, node.op, node.attrs, node.n_in, in, node.n_out);
}

static void add_node(gen *x) {
    static bool (*const kinds[])(gen *) = {
        unary,  unary,     binary,    binary,  binary, ternary,   reshape,        reshape,
        cast,   transpose, transpose, slice,   slice,  broadcast, reverse_or_pad, concat,
        reduce, row,       norm,      product, gather, create,    again};
    for (int k = 0; k < TRIES; k++)
        if (kinds[pick(x, 0, (int64_t)(sizeof kinds / sizeof kinds[0]) - 1)](x)) return;
}

/* ---- functions ----------------------------------------------------------------------------------
 */

static void start(gen *x, kc_rng *r, mlsi_graph *g, mlsi_device *device, int32_t func,
                  bool symbols) {
    static const int64_t extents[] = {0, 1, 1, 1, 2, 2, 3, 3, 5, 5};
    memset(x, 0, sizeof *x);
    x->r = r, x->g = g, x->device = device, x->func = func, x->symbols = symbols;
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        x->dims[x->n_dims++] = extents[i];
    if (!symbols) return;
    x->n_dims -= 4;
    ck_assert_int_eq(mlsi_dim_symbol(&g->symbols, "B", 1, 4, 1, &x->dims[x->n_dims++]), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(&g->symbols, "L", 0, 6, 1, &x->dims[x->n_dims++]), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(&g->symbols, "S", 2, 6, 2, &x->dims[x->n_dims++]), MLSYS_OK);
}

/* A function of one value that gives one of the same type: random nodes, then something of that
 * type. */
static void fill_body(gen *x, const mlsi_type *t, int nodes) {
    int32_t in, out = -1;
    ck_assert_int_eq(mlsi_build_input(x->g, x->func, "x", t, &in), MLSYS_OK);
    keep(x, in);
    for (int i = 0; i < nodes; i++)
        add_node(x);
    out = value_like(x, same_type, t);
    ck_assert_int_eq(mlsi_build_output(x->g, x->func, "y", out < 0 ? in : out), MLSYS_OK);
}

static int32_t add_body(gen *x, const mlsi_type *t) {
    gen y;
    int32_t func;
    ck_assert_int_eq(mlsi_func_add(x->g, "body", &func), MLSYS_OK);
    start(&y, x->r, x->g, x->device, func, x->symbols);
    fill_body(&y, t, (int)pick(x, 1, 5));
    return func;
}

static void add_call(gen *x) {
    int32_t v = any_value(x);
    mlsi_type t = *type_of(x, v);
    mlsi_attr_control c = {add_body(x, &t), 0};
    ck_assert_msg(emit(x, MLSI_OP_CALL, &c, 1, &v, 1), "call: %s", mlsys_last_error());
}

static void add_if(gen *x) {
    int32_t in[2] = {-1, any_value(x)};
    mlsi_type t = *type_of(x, in[1]), flag = {.dtype = MLSYS_BOOL};
    in[0] = value_like(x, same_type, &flag);
    if (in[0] < 0) {
        char text[64];
        snprintf(text, sizeof text, "{dtype=bool, shape=[], ivalue=%d}", (int)pick(x, 0, 1));
        if (!emit_text(x, MLSI_OP_FULL, text, 0, NULL, 1)) return;
        in[0] = x->values[x->n - 1];
    }
    mlsi_attr_control c = {add_body(x, &t), add_body(x, &t)};
    ck_assert_msg(emit(x, MLSI_OP_IF, &c, 2, in, 1), "if: %s", mlsys_last_error());
}

/* for (i = 0; i < n; i++) value = body(value) */
static void add_while(gen *x) {
    int32_t in[2] = {-1, any_value(x)}, func, a, b, k, out;
    mlsi_type t = *type_of(x, in[1]), counter = {.dtype = MLSYS_I64};
    mlsi_attr_control c = {0, 0};
    gen y;
    if (!emit_text(x, MLSI_OP_FULL, "{dtype=i64, shape=[]}", 0, NULL, 1)) return;
    in[0] = x->values[x->n - 1];
    ck_assert_int_eq(mlsi_func_add(x->g, "cond", &func), MLSYS_OK);
    start(&y, x->r, x->g, x->device, func, x->symbols);
    ck_assert_int_eq(mlsi_build_input(x->g, func, "i", &counter, &a), MLSYS_OK);
    ck_assert_int_eq(mlsi_build_input(x->g, func, "x", &t, &b), MLSYS_OK);
    char text[64];
    snprintf(text, sizeof text, "{dtype=i64, shape=[], ivalue=%d}", (int)pick(x, 0, 3));
    ck_assert(emit_text(&y, MLSI_OP_FULL, text, 0, NULL, 1));
    int32_t compared[2] = {a, y.values[y.n - 1]};
    ck_assert_int_eq(mlsi_build_node(x->g, func, MLSI_OP_LT, NULL, 2, compared, 1, &out), MLSYS_OK);
    ck_assert_int_eq(mlsi_build_output(x->g, func, NULL, out), MLSYS_OK);
    c.fn1 = func;
    ck_assert_int_eq(mlsi_func_add(x->g, "step", &func), MLSYS_OK);
    start(&y, x->r, x->g, x->device, func, x->symbols);
    ck_assert_int_eq(mlsi_build_input(x->g, func, "i", &counter, &a), MLSYS_OK);
    ck_assert(emit_text(&y, MLSI_OP_FULL, "{dtype=i64, shape=[], ivalue=1}", 0, NULL, 1));
    int32_t added[2] = {a, y.values[y.n - 1]};
    ck_assert_int_eq(mlsi_build_node(x->g, func, MLSI_OP_ADD, NULL, 2, added, 1, &k), MLSYS_OK);
    ck_assert_int_eq(mlsi_build_output(x->g, func, NULL, k), MLSYS_OK);
    y.n = 0; /* the body does not see the counter */
    fill_body(&y, &t, (int)pick(x, 1, 4));
    c.fn2 = func;
    ck_assert_msg(emit(x, MLSI_OP_WHILE, &c, 2, in, 2), "while: %s", mlsys_last_error());
}

void rg_graph(kc_rng *r, mlsi_graph *g, mlsi_device *device, const rg_options *o) {
    gen x;
    start(&x, r, g, device, 0, o->symbols);
    for (int i = 0; i < o->inputs; i++) {
        char name[16];
        int32_t v;
        mlsi_type t = any_type(&x, false);
        snprintf(name, sizeof name, "in%d", i);
        ck_assert_int_eq(mlsi_build_input(g, 0, name, &t, &v), MLSYS_OK);
        g->funcs[0].donated[i] = o->donate && pick(&x, 0, 1);
        keep(&x, v);
    }
    for (int i = 0; i < o->nodes / 8 + 1; i++)
        add_const(&x);
    for (int i = 0; i < o->nodes; i++) {
        int64_t kind = o->control ? pick(&x, 0, 11) : 11;
        if (kind == 0)
            add_call(&x);
        else if (kind == 1)
            add_if(&x);
        else if (kind == 2)
            add_while(&x);
        else
            add_node(&x);
    }
    for (int i = 0; i < o->outputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "out%d", i);
        ck_assert_int_eq(mlsi_build_output(g, 0, i % 3 ? name : NULL, any_value(&x)), MLSYS_OK);
    }
}
