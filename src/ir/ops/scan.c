/* scan: running sums, products, maxima, minima. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/reference.h"

enum { SEGMENT = 64 };

static const char *const scan_kinds[] = {"sum", "prod", "max", "min", NULL};

static mlsys_status infer_scan(mlsi_infer *t) {
    mlsi_attr_scan *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_NUMBERS));
    MLSI_TRY(mlsi_infer_axis(t, "axis", t->in[0].rank, &attrs->axis));
    if (attrs->kind < MLSI_SCAN_SUM || attrs->kind > MLSI_SCAN_MIN)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute kind: %lld", (long long)attrs->kind);
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

/* Elements are doubles (floats) or integers; one struct serves both. */
typedef struct scan_value {
    double f;
    int64_t i;
} scan_value;
typedef struct scan_op {
    int64_t kind;
    bool is_float, f64;
    mlsys_dtype dtype;
} scan_op;

static scan_value combine(const scan_op *o, scan_value a, scan_value b) {
    scan_value r = {0, 0};
    if (o->is_float) {
        switch (o->kind) {
        case MLSI_SCAN_SUM: r.f = mlsi_ref_add(o->f64, a.f, b.f); break;
        case MLSI_SCAN_PROD: r.f = mlsi_ref_mul(o->f64, a.f, b.f); break;
        case MLSI_SCAN_MAX: r.f = mlsi_ref_max(a.f, b.f); break;
        default: r.f = mlsi_ref_min(a.f, b.f); break;
        }
        return r;
    }
    switch (o->kind) {
    case MLSI_SCAN_SUM: r.i = mlsi_ref_iadd(a.i, b.i); break;
    case MLSI_SCAN_PROD: r.i = mlsi_ref_imul(a.i, b.i); break;
    case MLSI_SCAN_MAX: r.i = a.i > b.i ? a.i : b.i; break;
    default: r.i = a.i < b.i ? a.i : b.i; break;
    }
    return r;
}

static scan_value identity(const scan_op *o) {
    scan_value r = {0, 0};
    int bits = o->is_float ? 0 : 8 * mlsi_dtype_size(o->dtype);
    bool is_signed = mlsi_dtype_get(o->dtype)->is_signed;
    switch (o->kind) {
    case MLSI_SCAN_PROD: r.f = 1, r.i = 1; break;
    case MLSI_SCAN_MAX:
        r.f = -INFINITY;
        if (bits && is_signed) r.i = bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
        break;
    case MLSI_SCAN_MIN:
        r.f = INFINITY;
        if (bits) r.i = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - (is_signed ? 1 : 0))) - 1;
        break;
    default: break;
    }
    return r;
}

/* Inclusive, in place. totals has room for what the levels above need: n / 64 + n / 64^2 + ... */
static void scan_inclusive(const scan_op *o, scan_value *v, int64_t n, scan_value *totals) {
    int64_t segments = (n + SEGMENT - 1) / SEGMENT;
    if (mlsi_fault(MLSI_FAULT_OPS_SCAN_CHAIN)) segments = 1;
    for (int64_t i = 0; i < n; i++)
        if (segments == 1 ? i > 0 : i % SEGMENT != 0) v[i] = combine(o, v[i - 1], v[i]);
    if (segments <= 1) return;
    for (int64_t s = 0; s < segments; s++)
        totals[s] = v[s == segments - 1 ? n - 1 : s * SEGMENT + SEGMENT - 1];
    scan_inclusive(o, totals, segments, totals + segments);
    for (int64_t i = SEGMENT; i < n; i++)
        v[i] = combine(o, totals[i / SEGMENT - 1], v[i]);
}

static void scan_row(const mlsi_ref_args *a, const scan_op *o, int64_t *index, scan_value *v) {
    const mlsi_attr_scan *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t n = x->shape[attrs->axis];
    for (int64_t i = 0; i < n; i++) {
        index[attrs->axis] = attrs->reverse ? n - 1 - i : i;
        int64_t at = mlsi_ref_ravel(x->rank, x->shape, index);
        v[i] = o->is_float ? (scan_value){.f = mlsi_ref_get_f(x, at)}
                           : (scan_value){.i = mlsi_ref_get_i(x, at)};
    }
    scan_inclusive(o, v, n, v + n);
    for (int64_t i = 0; i < n; i++) {
        index[attrs->axis] = attrs->reverse ? n - 1 - i : i;
        int64_t at = mlsi_ref_ravel(y->rank, y->shape, index);
        scan_value r = !attrs->exclusive ? v[i] : i ? v[i - 1] : identity(o);
        if (o->is_float)
            mlsi_ref_set_f(y, at, r.f);
        else
            mlsi_ref_set_i(y, at, r.i);
    }
}

static mlsys_status ref_scan(const mlsi_ref_args *a) {
    const mlsi_attr_scan *attrs = a->attrs;
    const mlsi_view *x = &a->in[0];
    scan_op o = {attrs->kind, mlsi_dtype_is_float(x->dtype), mlsi_ref_is_f64(x->dtype), x->dtype};
    int64_t n = x->shape[attrs->axis], rows = 1, index[MLSYS_MAX_DIMS], heads[MLSYS_MAX_DIMS];
    scan_value *v;
    for (int d = 0; d < x->rank; d++) {
        heads[d] = d == attrs->axis ? 1 : x->shape[d];
        rows *= heads[d];
    }
    MLSI_TRY(MLSI_NEW_N(a->alloc, 2 * n + 64, &v));
    for (int64_t r = 0; r < rows && n; r++) {
        mlsi_ref_unravel(x->rank, heads, r, index);
        scan_row(a, &o, index, v);
    }
    mlsi_mem_free(a->alloc, v);
    return MLSYS_OK;
}

static void cost_scan(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 2 * mlsi_cost_count(&a->in[0]);
}

static const mlsi_attr_desc scan_attrs[] = {{.name = "kind",
                                             .kind = MLSI_ATTR_ENUM,
                                             .offset = offsetof(mlsi_attr_scan, kind),
                                             .names = scan_kinds,
                                             .help = "what is accumulated"},
                                            {.name = "axis",
                                             .kind = MLSI_ATTR_I64,
                                             .offset = offsetof(mlsi_attr_scan, axis),
                                             .default_i = -1,
                                             .help = "axis along which it runs"},
                                            {.name = "exclusive",
                                             .kind = MLSI_ATTR_BOOL,
                                             .offset = offsetof(mlsi_attr_scan, exclusive),
                                             .help = "leave the element itself out"},
                                            {.name = "reverse",
                                             .kind = MLSI_ATTR_BOOL,
                                             .offset = offsetof(mlsi_attr_scan, reverse),
                                             .help = "run from the end"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_scan = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_scan),
    .attrs = scan_attrs,
    .infer = infer_scan,
    .nest = mlsi_loops_scan,
    .cost = cost_scan,
    .ref = ref_scan,
    .vjp = mlsi_vjp_scan,
    .doc = "y[i] = x[0] op ... op x[i] along axis, in segments of 64 (docs/numerics.md); in the "
           "compute "
           "type, each result rounded once. Exclusive: the identity, then y[i - 1].",
    .special =
        "Identities: 0, 1, for max and min the infinities or the dtype's ends. NaN spreads to all "
        "later results. Integers wrap.",
    .onnx = "CumSum"};
