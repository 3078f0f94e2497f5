#include "support/fusible_graph.h"

#include "ir/ops/op_def.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VALUES = 128, TRIES = 12, MOST = 24000 };

typedef struct gen {
    kc_rng *r;
    mlsi_graph *g;
    mlsi_device *device;
    int32_t values[MAX_VALUES];
    int n;
    mlsi_type space; /* what most values have */
    int64_t symbols[FG_SYMBOLS];
} gen;

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

static int64_t pick(gen *x, int64_t lo, int64_t hi) { return kc_int(x->r, lo, hi); }
static bool one_in(gen *x, int n) { return pick(x, 1, n) == 1; }
static const mlsi_type *type_of(const gen *x, int32_t v) { return mlsi_type_of(x->g, 0, v); }

static int64_t elements(const gen *x, int64_t rank, const int64_t *dims) {
    int64_t n = 1, lo, hi;
    for (int64_t d = 0; d < rank; d++) {
        mlsi_dim_range(&x->g->symbols, dims[d], &lo, &hi);
        if (!mlsi_mul_i64(n, hi, &n)) return INT64_MAX;
    }
    return n;
}

mlsys_status fg_symbols(mlsi_graph *g, int64_t *codes) {
    MLSI_TRY(mlsi_dim_symbol(&g->symbols, "B", 1, 4, 1, &codes[0]));
    MLSI_TRY(mlsi_dim_symbol(&g->symbols, "L", 0, 140, 1, &codes[1]));
    return mlsi_dim_symbol(&g->symbols, "S", 8, 72, 8, &codes[2]);
}

void fg_bind(kc_rng *r, int64_t *binding) {
    static const int64_t lengths[] = {0, 1, 7, 8, 9, 127, 128, 129, 140};
    binding[0] = kc_int(r, 1, 4);
    binding[1] = kc_int(r, 0, 2) ? kc_int(r, 0, 140) : lengths[kc_int(r, 0, COUNT(lengths) - 1)];
    binding[2] = 8 * kc_int(r, 1, 9);
}

/* Newer values more often, so that graphs get deep. */
static int32_t any_value(gen *x) {
    int64_t i = pick(x, 0, x->n - 1), j = pick(x, 0, x->n - 1);
    return x->values[i > j ? i : j];
}

static int32_t value_of(gen *x, mlsys_dtype dtype, int least_rank) {
    for (int k = 0; k < 4 * x->n; k++) {
        int32_t v = any_value(x);
        if (type_of(x, v)->dtype == dtype && type_of(x, v)->rank >= least_rank) return v;
    }
    return -1;
}

static int32_t float_value(gen *x, int least_rank) {
    for (int k = 0; k < 4 * x->n; k++) {
        int32_t v = any_value(x);
        if (mlsi_dtype_is_float(type_of(x, v)->dtype) && type_of(x, v)->rank >= least_rank)
            return v;
    }
    return -1;
}

/* False where inference refuses the node; nothing is left of it then. */
static int32_t emit(gen *x, mlsi_op op, const void *attrs, int n_in, const int32_t *in) {
    int32_t out;
    for (int i = 0; i < n_in; i++)
        if (in[i] < 0) return -1;
    if (x->n == MAX_VALUES) return -1;
    if (mlsi_build_node(x->g, 0, op, attrs, n_in, in, 1, &out) != MLSYS_OK) return -1;
    return x->values[x->n++] = out;
}

/* Operands that broadcast to no more than MOST elements. */
static int32_t emit_broadcast(gen *x, mlsi_op op, const void *attrs, int n_in, const int32_t *in) {
    int64_t dims[MLSYS_MAX_DIMS] = {0};
    int rank = 0;
    for (int i = 0; i < n_in; i++) {
        if (in[i] < 0) return -1;
        rank = type_of(x, in[i])->rank > rank ? type_of(x, in[i])->rank : rank;
    }
    for (int d = 0; d < rank; d++) {
        dims[d] = 1;
        for (int i = 0; i < n_in; i++) {
            const mlsi_type *t = type_of(x, in[i]);
            int own = d - (rank - t->rank);
            if (own >= 0 && t->dims[own] != 1) dims[d] = t->dims[own];
        }
    }
    return elements(x, rank, dims) > MOST ? -1 : emit(x, op, attrs, n_in, in);
}

/* ---- types -------------------------------------------------------------------------------------------- */

static mlsys_dtype main_dtype(gen *x) {
    static const mlsys_dtype dtypes[] = {MLSYS_F32,  MLSYS_F32, MLSYS_F32, MLSYS_F32, MLSYS_F32,
                                         MLSYS_F32,  MLSYS_F32, MLSYS_F16, MLSYS_F16, MLSYS_BF16,
                                         MLSYS_BF16, MLSYS_I32, MLSYS_I64};
    static const mlsys_dtype rare[] = {MLSYS_F64, MLSYS_F8E4M3, MLSYS_F8E5M2, MLSYS_I16,
                                       MLSYS_I8,  MLSYS_U8,     MLSYS_BOOL};
    return one_in(x, 12) ? rare[pick(x, 0, COUNT(rare) - 1)]
                         : dtypes[pick(x, 0, COUNT(dtypes) - 1)];
}

static int64_t row_extent(gen *x) {
    static const int64_t extents[] = {1,  2,   3,   7,   8,   9,   15,  16,  17,  31,  33,
                                      64, 100, 127, 128, 129, 130, 255, 256, 257, 300, 513};
    if (one_in(x, 4)) return x->symbols[pick(x, 1, 2)];
    if (one_in(x, 40)) return pick(x, 0, 1) ? 0 : pick(x, 4094, 4099);
    return extents[pick(x, 0, COUNT(extents) - 1)];
}

static int64_t small_extent(gen *x) {
    static const int64_t extents[] = {1, 2, 2, 3, 4, 5, 8, 11};
    return one_in(x, 4) ? x->symbols[0] : extents[pick(x, 0, COUNT(extents) - 1)];
}

static void pick_space(gen *x) {
    mlsi_type *t = &x->space;
    do {
        t->rank = (int32_t)(one_in(x, 5) ? 1 : one_in(x, 3) ? pick(x, 3, 4) : 2);
        t->dtype = main_dtype(x);
        for (int d = 0; d + 1 < t->rank; d++)
            t->dims[d] = small_extent(x);
        t->dims[t->rank - 1] = row_extent(x);
        if (t->rank == 1 && one_in(x, 4)) t->dims[0] = pick(x, 4090, 8200);
    } while (elements(x, t->rank, t->dims) > MOST);
}

/* Like the space, one of its rows, a column, one element; or nearly. */
static mlsi_type related_type(gen *x) {
    mlsi_type t = x->space;
    int d = (int)pick(x, 0, t.rank - 1);
    t.dtype = one_in(x, 8) ? MLSYS_BOOL : one_in(x, 10) ? main_dtype(x) : t.dtype;
    switch (pick(x, 0, 17)) {
    case 0: /* a row of every leading axis */
    case 1:
        t.dims[0] = t.dims[t.rank - 1];
        t.rank = 1;
        break;
    case 2: /* a value per row, with its axis */
    case 3: t.dims[t.rank - 1] = 1; break;
    case 4: t.rank--; break; /* without it */
    case 5: t.rank = 0; break;
    case 6:
        for (int k = 0; k < t.rank; k++)
            t.dims[k] = 1;
        break;
    case 7: t.dims[d] = 1; break;
    case 8: /* near misses from here */ t.dims[d] = pick(x, 1, 3); break;
    case 9: /* one axis more in front */
        memmove(t.dims + 1, t.dims, sizeof t.dims[0] * (size_t)t.rank++);
        t.dims[0] = pick(x, 1, 2);
        break;
    case 10: /* two axes in the other order */
        t.dims[d] = x->space.dims[0];
        t.dims[0] = x->space.dims[d];
        break;
    default: break;
    }
    return t;
}

/* ---- leaves ------------------------------------------------------------------------------------------- */

static int32_t add_input(gen *x, const mlsi_type *t) {
    char name[16];
    int32_t v;
    snprintf(name, sizeof name, "in%d", (int)x->g->funcs[0].n_inputs);
    ck_assert_int_eq(mlsi_build_input(x->g, 0, name, t, &v), MLSYS_OK);
    return x->values[x->n++] = v;
}

/* Scalars, mostly: those are written into kernels. */
static bool constant(gen *x) {
    mlsi_type t = {.dtype = x->space.dtype,
                   .rank = (int32_t)pick(x, 0, 2) * (int32_t)pick(x, 0, 1)};
    mlsi_layout l;
    mlsys_tensor handle;
    mlsi_tensor *tensor;
    int32_t v;
    for (int d = 0; d < t.rank; d++)
        t.dims[d] = 1;
    if (one_in(x, 4) && x->space.dims[x->space.rank - 1] >= 0) {
        t.rank = 1;
        t.dims[0] = x->space.dims[x->space.rank - 1];
    }
    ck_assert_int_eq(mlsi_layout_row_major(&l, t.dtype, t.rank, t.dims), MLSYS_OK);
    ck_assert_int_eq(mlsi_tensor_new(x->device, &l, &handle), MLSYS_OK);
    mlsi_view view = rg_view(handle);
    rg_fill(x->r, &view);
    if (one_in(x, 6)) handle = rg_random_view(x->r, handle);
    ck_assert_int_eq(mlsi_pin(handle, MLSYS_KIND_TENSOR, "const", &tensor), MLSYS_OK);
    ck_assert_int_eq(mlsi_build_const(x->g, 0, tensor, &v), MLSYS_OK);
    mlsi_unpin(tensor);
    ck_assert_int_eq(mlsys_release(handle), MLSYS_OK);
    x->values[x->n++] = v;
    return true;
}

static bool create(gen *x) {
    static const double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e30, NAN, INFINITY};
    mlsi_attr_iota iota = {.dtype = one_in(x, 3) ? MLSYS_I32 : x->space.dtype,
                           .axis = pick(x, 0, x->space.rank - 1)};
    mlsi_attr_full full = {.dtype = x->space.dtype, .ivalue = pick(x, -3, 3)};
    mlsi_list shape = {.n = x->space.rank};
    memcpy(shape.v, x->space.dims, sizeof(int64_t) * (size_t)shape.n);
    full.value = values[pick(x, 0, COUNT(values) - 1)];
    if (pick(x, 0, 1)) {
        iota.shape = shape;
        return emit(x, MLSI_OP_IOTA, &iota, 0, NULL) >= 0;
    }
    if (pick(x, 0, 1)) full.shape = shape;
    return emit(x, MLSI_OP_FULL, &full, 0, NULL) >= 0;
}

/* ---- elementwise -------------------------------------------------------------------------------------- */

static bool unary(gen *x) {
    static const mlsi_op ops[] = {
        MLSI_OP_NEG,  MLSI_OP_ABS,   MLSI_OP_SIGN,      MLSI_OP_FLOOR, MLSI_OP_ROUND,
        MLSI_OP_CEIL, MLSI_OP_TRUNC, MLSI_OP_SQRT,      MLSI_OP_EXP,   MLSI_OP_EXP,
        MLSI_OP_LOG,  MLSI_OP_SIN,   MLSI_OP_TANH,      MLSI_OP_ERF,   MLSI_OP_NOT,
        MLSI_OP_COPY, MLSI_OP_RSQRT, MLSI_OP_COS,       MLSI_OP_RELU,  MLSI_OP_SIGMOID,
        MLSI_OP_SILU, MLSI_OP_GELU,  MLSI_OP_IS_NAN,    MLSI_OP_EXPM1, MLSI_OP_LOG1P,
        MLSI_OP_CBRT, MLSI_OP_ATAN,  MLSI_OP_IS_FINITE, MLSI_OP_EXP2};
    int32_t v = any_value(x);
    return emit(x, ops[pick(x, 0, COUNT(ops) - 1)], NULL, 1, &v) >= 0;
}

static bool cast(gen *x) {
    int32_t v = any_value(x);
    mlsi_attr_cast a = {.dtype = main_dtype(x)};
    return emit(x, MLSI_OP_CAST, &a, 1, &v) >= 0;
}

static bool binary(gen *x) {
    static const mlsi_op ops[] = {
        MLSI_OP_ADD,        MLSI_OP_SUB, MLSI_OP_MUL, MLSI_OP_DIV,   MLSI_OP_MAX,
        MLSI_OP_MIN,        MLSI_OP_ADD, MLSI_OP_MUL, MLSI_OP_SUB,   MLSI_OP_POW,
        MLSI_OP_AND,        MLSI_OP_OR,  MLSI_OP_XOR, MLSI_OP_REM,   MLSI_OP_MOD,
        MLSI_OP_EQ,         MLSI_OP_NE,  MLSI_OP_LT,  MLSI_OP_LE,    MLSI_OP_GT,
        MLSI_OP_GE,         MLSI_OP_ADD, MLSI_OP_MUL, MLSI_OP_ATAN2, MLSI_OP_SHIFT_LEFT,
        MLSI_OP_SHIFT_RIGHT};
    int32_t in[2] = {any_value(x), -1};
    in[1] = value_of(x, type_of(x, in[0])->dtype, 0);
    if (pick(x, 0, 1)) {
        int32_t t = in[0];
        in[0] = in[1], in[1] = t;
    }
    return emit_broadcast(x, ops[pick(x, 0, COUNT(ops) - 1)], NULL, 2, in) >= 0;
}

static bool ternary(gen *x) {
    int32_t in[3] = {value_of(x, MLSYS_BOOL, 0), any_value(x), -1};
    mlsys_dtype dtype = type_of(x, in[1])->dtype;
    in[2] = value_of(x, dtype, 0);
    if (pick(x, 0, 2)) return emit_broadcast(x, MLSI_OP_SELECT, NULL, 3, in) >= 0;
    in[0] = value_of(x, dtype, 0);
    return emit_broadcast(x, pick(x, 0, 1) ? MLSI_OP_CLAMP : MLSI_OP_FMA, NULL, 3, in) >= 0;
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static void reduced_axes(gen *x, int64_t rank, mlsi_list *axes) {
    int64_t how = pick(x, 0, 9), count = pick(x, 1, rank);
    axes->n = 0;
    if (one_in(x, 3)) count = 1;
    for (int64_t d = 0; d < rank; d++) {
        bool takes = how < 6 ? d >= rank - count : how < 8 ? d < count : pick(x, 0, 1);
        if (takes) axes->v[axes->n++] = d;
    }
}

static int32_t reduced(gen *x, int32_t v) {
    static const mlsi_op ops[] = {MLSI_OP_REDUCE_SUM, MLSI_OP_REDUCE_SUM,  MLSI_OP_REDUCE_MAX,
                                  MLSI_OP_REDUCE_MIN, MLSI_OP_REDUCE_MEAN, MLSI_OP_REDUCE_PROD,
                                  MLSI_OP_REDUCE_MAX};
    static const mlsi_op truth[] = {MLSI_OP_REDUCE_AND, MLSI_OP_REDUCE_OR};
    if (v < 0) return -1;
    mlsi_attr_reduce a = {.keep = pick(x, 0, 2) > 0};
    reduced_axes(x, type_of(x, v)->rank, &a.axes);
    if (type_of(x, v)->dtype == MLSYS_BOOL) return emit(x, truth[pick(x, 0, 1)], &a, 1, &v);
    return emit(x, ops[pick(x, 0, COUNT(ops) - 1)], &a, 1, &v);
}

static bool reduce(gen *x) {
    int32_t v = any_value(x);
    return type_of(x, v)->rank && reduced(x, v) >= 0;
}

/* What a norm is made of: a value and a reduction of it, together again. */
static bool recombine(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_SUB, MLSI_OP_MUL, MLSI_OP_DIV, MLSI_OP_ADD};
    int32_t v = float_value(x, 1), in[2] = {v, -1};
    if (v < 0) return false;
    in[1] = reduced(x, v);
    if (in[1] >= 0 && one_in(x, 3)) in[1] = emit(x, MLSI_OP_EXP, NULL, 1, &in[1]);
    return in[1] >= 0 && emit_broadcast(x, ops[pick(x, 0, 3)], NULL, 2, in) >= 0;
}

static bool row(gen *x) {
    static const mlsi_op ops[] = {MLSI_OP_SOFTMAX,   MLSI_OP_SOFTMAX, MLSI_OP_LOG_SOFTMAX,
                                  MLSI_OP_LOGSUMEXP, MLSI_OP_ARGMAX,  MLSI_OP_SCAN};
    _Alignas(16) char attrs[1024];
    int64_t k = one_in(x, 4) ? pick(x, 3, 5) : pick(x, 0, 2);
    int32_t v = float_value(x, 1);
    char text[48];
    const char *p = text;
    if (v < 0) return false;
    int rank = type_of(x, v)->rank;
    snprintf(text, sizeof text, "{axis=%d}", one_in(x, 8) ? (int)pick(x, 0, rank - 1) : rank - 1);
    if (mlsi_attrs_parse(mlsi_op_get(ops[k]), mlsi_op_name(ops[k]), &x->g->symbols, &p, attrs))
        ck_abort_msg("%s", mlsys_last_error());
    return emit(x, ops[k], attrs, 1, &v) >= 0;
}

static bool norm(gen *x) {
    int32_t in[3] = {float_value(x, 1), -1, -1};
    if (in[0] < 0) return false;
    const mlsi_type *t = type_of(x, in[0]);
    mlsi_type gamma = {.dtype = t->dtype, .rank = 1, .dims = {t->dims[t->rank - 1]}};
    for (int i = 0; i < x->n; i++)
        if (mlsi_type_equal(type_of(x, x->values[i]), &gamma)) in[1] = x->values[i];
    if (in[1] < 0 && x->g->funcs[0].n_inputs < 11) in[1] = add_input(x, &gamma);
    in[2] = in[1];
    _Alignas(16) char attrs[1024];
    mlsi_op op = pick(x, 0, 1) ? MLSI_OP_RMS_NORM : MLSI_OP_LAYER_NORM;
    mlsi_attrs_default(mlsi_op_get(op), attrs);
    return emit(x, op, attrs, op == MLSI_OP_RMS_NORM ? 2 : 3, in) >= 0;
}

/* ---- views -------------------------------------------------------------------------------------------- */

static void clear_rest(mlsi_list *list) {
    memset(list->v + list->n, 0, sizeof list->v - sizeof list->v[0] * (size_t)list->n);
}

static bool broadcast(gen *x) {
    int32_t v = any_value(x);
    const mlsi_type *t = type_of(x, v);
    mlsi_attr_shape a = {{.n = x->space.rank}};
    memcpy(a.shape.v, x->space.dims, sizeof(int64_t) * (size_t)a.shape.n);
    if (one_in(x, 4) && t->rank < 4) {
        a.shape.n = t->rank + 1;
        a.shape.v[0] = pick(x, 1, 3);
        memcpy(a.shape.v + 1, t->dims, sizeof(int64_t) * (size_t)t->rank);
    }
    clear_rest(&a.shape);
    return elements(x, a.shape.n, a.shape.v) <= MOST && emit(x, MLSI_OP_BROADCAST, &a, 1, &v) >= 0;
}

static bool reshape(gen *x) {
    int32_t v = any_value(x);
    const mlsi_type *t = type_of(x, v);
    mlsi_attr_shape a = {{.n = x->space.rank}};
    int64_t how = pick(x, 0, 3), at = pick(x, 0, t->rank);
    memcpy(a.shape.v, x->space.dims, sizeof(int64_t) * (size_t)a.shape.n); /* back to the space */
    if (how == 1) {                                                        /* leading axes merged */
        if (t->rank < 2) return false;
        a.shape.n = 2;
        a.shape.v[0] = -1, a.shape.v[1] = t->dims[t->rank - 1];
    } else if (how == 2) { /* an axis of 1 somewhere */
        if (t->rank > 4) return false;
        a.shape.n = t->rank + 1;
        for (int64_t d = 0, k = 0; d < a.shape.n; d++)
            a.shape.v[d] = d == at ? 1 : t->dims[k++];
    } else if (how == 3) { /* flat, or the last axis split */
        a.shape.n = one_in(x, 2) ? 1 : 2;
        a.shape.v[0] = -1, a.shape.v[1] = 8;
    }
    clear_rest(&a.shape);
    return emit(x, MLSI_OP_RESHAPE, &a, 1, &v) >= 0;
}

static bool transpose(gen *x) {
    int32_t v = any_value(x);
    mlsi_attr_transpose a = {{.n = type_of(x, v)->rank}};
    int64_t last = a.perm.n - one_in(x, 2); /* may keep the last axis */
    for (int64_t i = 0; i < a.perm.n; i++)
        a.perm.v[i] = i;
    for (int64_t i = 0; i + 1 < last; i++) {
        int64_t j = pick(x, i, last - 1), k = a.perm.v[i];
        a.perm.v[i] = a.perm.v[j];
        a.perm.v[j] = k;
    }
    return emit(x, MLSI_OP_TRANSPOSE, &a, 1, &v) >= 0;
}

static bool slice(gen *x) {
    static const int64_t steps[] = {1, 1, 1, 1, 2, -1};
    int32_t v = any_value(x);
    mlsi_attr_slice a = {{0}, {0}, {0}};
    a.starts.n = a.stops.n = a.steps.n = type_of(x, v)->rank;
    for (int64_t d = 0; d < a.starts.n; d++) {
        bool whole = pick(x, 0, 1);
        a.steps.v[d] = whole ? 1 : steps[pick(x, 0, 5)];
        a.starts.v[d] = whole ? 0 : a.steps.v[d] > 0 ? pick(x, 0, 3) : pick(x, -3, 4);
        a.stops.v[d] = !whole && one_in(x, 3) ? pick(x, -2, 9)
                       : a.steps.v[d] > 0     ? INT64_MAX
                                              : INT64_MIN;
    }
    return emit(x, MLSI_OP_SLICE, &a, 1, &v) >= 0;
}

/* Halves swapped, as rotary embeddings have it; edges; a view that runs backwards. */
static bool move(gen *x) {
    int32_t v = any_value(x), in[2];
    int64_t rank = type_of(x, v)->rank;
    mlsi_attr_axis axis = {rank ? pick(x, 0, rank - 1) : 0};
    mlsi_attr_axes axes = {{.n = 1}};
    mlsi_attr_pad pad = {.value = 1, .low.n = rank, .high.n = rank};
    if (!rank) return false;
    switch (pick(x, 0, 2)) {
    case 0:
        in[0] = v, in[1] = value_of(x, type_of(x, v)->dtype, 1);
        return emit(x, MLSI_OP_CONCAT, &axis, 2, in) >= 0;
    case 1: axes.axes.v[0] = axis.axis; return emit(x, MLSI_OP_REVERSE, &axes, 1, &v) >= 0;
    default:
        pad.low.v[axis.axis] = pick(x, 0, 2), pad.high.v[axis.axis] = pick(x, -1, 1);
        return emit(x, MLSI_OP_PAD, &pad, 1, &v) >= 0;
    }
}

static bool product(gen *x) {
    int32_t in[2] = {value_of(x, x->space.dtype, 2), value_of(x, x->space.dtype, 2)};
    mlsi_attr_matmul a = {false, pick(x, 0, 2) > 0};
    if (in[0] < 0 || in[1] < 0 ||
        elements(x, type_of(x, in[0])->rank, type_of(x, in[0])->dims) > 2000 ||
        elements(x, type_of(x, in[1])->rank, type_of(x, in[1])->dims) > 2000)
        return false;
    return emit(x, MLSI_OP_MATMUL, &a, 2, in) >= 0;
}

/* ---- graphs ------------------------------------------------------------------------------------------- */

static void add_node(gen *x) {
    static bool (*const kinds[])(gen *) = {
        unary,     unary,   unary,   unary,    binary, binary,    binary,    binary,
        binary,    ternary, ternary, cast,     reduce, reduce,    recombine, recombine,
        recombine, row,     row,     norm,     norm,   broadcast, broadcast, reshape,
        transpose, slice,   create,  constant, move,   product};
    for (int k = 0; k < TRIES; k++)
        if (kinds[pick(x, 0, COUNT(kinds) - 1)](x)) return;
}

/* What nobody reads, and a few of what others read too. */
static void add_outputs(gen *x) {
    const mlsi_func *f = &x->g->funcs[0];
    int64_t more = pick(x, 0, 3), n = 0;
    for (int i = x->n - 1; i >= 0 && n < 8; i--) {
        int32_t v = x->values[i];
        bool read = false;
        if (f->values[v].kind != MLSI_VALUE_NODE && n) continue;
        for (int64_t k = 0; k < f->n_nodes; k++)
            for (int j = 0; j < f->nodes[k].n_in; j++)
                read |= f->nodes[k].in[j] == v;
        if (read && (!more || pick(x, 0, 2))) continue;
        more -= read;
        ck_assert_int_eq(mlsi_build_output(x->g, 0, NULL, v), MLSYS_OK);
        n++;
    }
}

void fg_graph(kc_rng *r, mlsi_graph *g, mlsi_device *device) {
    gen x = {.r = r, .g = g, .device = device};
    ck_assert_int_eq(fg_symbols(g, x.symbols), MLSYS_OK);
    pick_space(&x);
    (void)add_input(&x, &x.space);
    for (int64_t i = pick(&x, 1, 4); i > 0; i--) {
        mlsi_type t = related_type(&x);
        if (elements(&x, t.rank, t.dims) <= MOST) (void)add_input(&x, &t);
    }
    for (int64_t i = pick(&x, 2, one_in(&x, 8) ? 40 : 14); i > 0; i--)
        add_node(&x);
    add_outputs(&x);
}
