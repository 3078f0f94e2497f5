/* slice: start, stop and step per axis, with ONNX's clamping. */
#include "ir/ops/loops.h"
#include "ir/ops/gradient.h"
#include "ir/ops/movement.h"

static const mlsi_attr_desc slice_attrs[] = {
    {.name = "starts",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_slice, starts),
     .required = true,
     .help = "first index per axis; negative ones count from the end"},
    {.name = "stops",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_slice, stops),
     .required = true,
     .help = "index behind the last per axis; negative ones count from the end; INT64_MAX and "
             "INT64_MIN "
             "are the open ends of positive and negative steps"},
    {.name = "steps",
     .kind = MLSI_ATTR_LIST,
     .offset = offsetof(mlsi_attr_slice, steps),
     .help = "step per axis, not 0; empty: all 1"},
    {.name = NULL}};

/* One axis whose extent or bounds hold symbols. */
typedef struct axis_slice {
    const mlsi_infer *t;
    int axis;
    int64_t extent, start, stop, step;
} axis_slice;

static mlsys_status unproved(const axis_slice *s, const char *what, int64_t dim) {
    char a[128], b[128];
    return mlsi_infer_fail(s->t, MLSYS_E_SHAPE, 0,
                           "axis %d: cannot prove that %s %s lies inside extent %s", s->axis, what,
                           mlsi_dim_text(s->t->symbols, dim, a, sizeof a),
                           mlsi_dim_text(s->t->symbols, s->extent, b, sizeof b));
}

static bool provably_at_most(mlsi_symtab *tab, int64_t a, int64_t b) {
    int64_t d, lo, hi;
    if (mlsi_dim_op(tab, '-', b, a, &d) != MLSYS_OK) return false;
    mlsi_dim_range(tab, d, &lo, &hi);
    return lo >= 0;
}

/* A bound of a forward slice as a dim in [0, extent]. */
static mlsys_status forward_bound(const axis_slice *s, const char *what, int64_t v, int64_t *out) {
    mlsi_symtab *tab = s->t->symbols;
    int64_t lo, hi, extent_lo, extent_hi;
    mlsi_dim_range(tab, s->extent, &extent_lo, &extent_hi);
    mlsi_dim_range(tab, v, &lo, &hi);
    if (lo >= extent_hi) return *out = s->extent, MLSYS_OK;    /* INT64_MAX, or past any extent */
    if (hi < 0 && hi <= -extent_hi) return *out = 0, MLSYS_OK; /* INT64_MIN, or before any */
    if (hi < 0 && !mlsi_dim_is_code(tab, v)) {
        MLSI_TRY(mlsi_dim_op(tab, '-', s->extent, -v, out));
        return -v <= extent_lo ? MLSYS_OK : unproved(s, what, *out);
    }
    *out = v;
    if (lo < 0 || !provably_at_most(tab, v, s->extent)) return unproved(s, what, v);
    return MLSYS_OK;
}

static mlsys_status symbolic_count(const axis_slice *s, int64_t *count) {
    mlsi_symtab *tab = s->t->symbols;
    int64_t first, last, distance;
    if (s->step < 0) {
        if ((s->start != INT64_MAX && s->start != -1) || s->stop != INT64_MIN)
            return mlsi_infer_fail(
                s->t, MLSYS_E_SHAPE, 0,
                "axis %d: a negative step over a symbolic extent needs start -1 or "
                "INT64_MAX and stop INT64_MIN",
                s->axis);
        if (s->step == INT64_MIN) return *count = 1, unproved(s, "step", s->step);
        distance = s->extent;
    } else {
        MLSI_TRY(forward_bound(s, "start", s->start, &first));
        MLSI_TRY(forward_bound(s, "stop", s->stop, &last));
        if (provably_at_most(tab, last, first)) return *count = 0, MLSYS_OK;
        if (!provably_at_most(tab, first, last)) return unproved(s, "start before stop", last);
        MLSI_TRY(mlsi_dim_op(tab, '-', last, first, &distance));
    }
    int64_t stride = s->step < 0 ? -s->step : s->step;
    if (stride == 1) return *count = distance, MLSYS_OK;
    MLSI_TRY(mlsi_dim_op(tab, '+', distance, stride - 1, count));
    return mlsi_dim_op(tab, '/', *count, stride, count);
}

static mlsys_status infer_slice(mlsi_infer *t) {
    mlsi_attr_slice *attrs = t->attrs;
    int rank = t->in[0].rank;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_PLAIN));
    if (attrs->steps.n == 0)
        for (int i = 0; i < rank; i++)
            attrs->steps.v[attrs->steps.n++] = 1;
    if (attrs->starts.n != rank || attrs->stops.n != rank || attrs->steps.n != rank)
        return mlsi_infer_fail(
            t, MLSYS_E_ARG, 0, "rank %d: %lld starts, %lld stops and %lld steps given", rank,
            (long long)attrs->starts.n, (long long)attrs->stops.n, (long long)attrs->steps.n);
    t->out[0] = t->in[0];
    for (int d = 0; d < rank; d++) {
        axis_slice s = {
            t, d, t->in[0].dims[d], attrs->starts.v[d], attrs->stops.v[d], attrs->steps.v[d]};
        int64_t first;
        if (s.step == 0) return mlsi_infer_fail(t, MLSYS_E_ARG, 0, "axis %d: step is 0", d);
        if (s.extent < 0 || mlsi_dim_is_code(t->symbols, s.start) ||
            mlsi_dim_is_code(t->symbols, s.stop))
            MLSI_TRY(symbolic_count(&s, &t->out[0].dims[d]));
        else
            mlsi_slice_range(s.extent, s.start, s.stop, s.step, &first, &t->out[0].dims[d]);
    }
    return MLSYS_OK;
}

static mlsys_status ref_slice(const mlsi_ref_args *a) {
    const mlsi_attr_slice *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t first[MLSYS_MAX_DIMS], index[MLSYS_MAX_DIMS], count;
    for (int d = 0; d < x->rank; d++)
        mlsi_slice_range(x->shape[d], attrs->starts.v[d], attrs->stops.v[d], attrs->steps.v[d],
                         &first[d], &count);
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        for (int d = 0; d < y->rank; d++)
            index[d] = first[d] + index[d] * attrs->steps.v[d];
        mlsi_ref_move(y, i, x, mlsi_ref_ravel(x->rank, x->shape, index));
    }
    return MLSYS_OK;
}

static mlsys_status view_slice(const void *attrs, const mlsi_layout *in,
                               const mlsi_layout *out_type, mlsi_layout *out, bool *is_view) {
    const mlsi_attr_slice *s = attrs;
    (void)out_type;
    *out = *in;
    *is_view = true;
    for (int d = 0; d < in->rank; d++)
        MLSI_TRY(mlsi_layout_slice(out, d, s->starts.v[d], s->stops.v[d], s->steps.v[d], out));
    return MLSYS_OK;
}

static void cost_slice(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->bytes_read = mlsi_view_bytes(&a->out[0]);
}

const mlsi_op_def mlsi_op_def_slice = {
    .shares = MLSI_SHARES_MOVEMENT,
    .element = mlsi_loops_slice,
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .traits = MLSI_TRAIT_VIEW | MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .attrs_size = sizeof(mlsi_attr_slice),
    .attrs = slice_attrs,
    .infer = infer_slice,
    .cost = cost_slice,
    .ref = ref_slice,
    .view = view_slice,
    .vjp = mlsi_vjp_slice,
    .doc =
        "Elements start, start + step, ... before stop of each axis. A negative start or stop has "
        "the "
        "extent n added; then both are clamped, as ONNX says: for a positive step to [0, n]; for a "
        "negative one start to [0, n - 1] and stop to [-1, n - 1]. With symbolic extents the "
        "bounds must provably need no clamping, or be open "
        "ends.",
    .special = "Empty results are legal; step 0 is an error. Bits are kept.",
    .onnx = "Slice"};
