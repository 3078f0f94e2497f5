/* Steps of optimisers that look at a parameter as a matrix. As in optimizer.c all arithmetic is in the compute
 * type, every written operation rounds, results are rounded once to their dtypes. */
#include "ir/ops/optimizer.h"
#include "ir/ops/elementwise.h"

/* ---- adafactor ----------------------------------------------------------------------------- */

/* w's type without one axis, in x's dtype. */
static mlsi_type without_axis(const mlsi_type *w, int axis, mlsys_dtype dtype) {
    mlsi_type t = {.dtype = dtype};
    for (int d = 0; d < w->rank; d++)
        if (d != axis) t.dims[t.rank++] = w->dims[d];
    return t;
}

static mlsys_status infer_adafactor(mlsi_infer *t) {
    const mlsi_attr_adafactor *a = t->attrs;
    const mlsi_type *w = &t->in[0];
    bool factored = t->n_in > 5 && t->in[5].dtype != 0;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_like(t, 1, w));
    MLSI_TRY(mlsi_infer_scalar(t, 2, false));
    MLSI_TRY(mlsi_infer_scalar(t, 3, true));
    MLSI_TRY(mlsi_infer_range(t, "clip", a->clip, a->clip > 0, "> 0"));
    MLSI_TRY(mlsi_infer_range(t, "decay_rate", a->decay_rate, a->decay_rate >= 0, ">= 0"));
    if (factored && w->rank < 2)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 5,
                               "given for a parameter of rank %d, expected >= 2", w->rank);
    mlsi_type rows = factored ? without_axis(w, w->rank - 1, w->dtype) : *w;
    MLSI_TRY(mlsi_infer_like(t, 4, &rows));
    if (factored) {
        mlsi_type columns = without_axis(w, w->rank - 2, w->dtype);
        MLSI_TRY(mlsi_infer_like(t, 5, &columns));
    }
    if (t->n_out != 2 + factored)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d results: the parameter and %d moments",
                               t->n_out, 1 + factored);
    t->out[0] = *w;
    t->out[1] = t->in[4];
    if (factored) t->out[2] = t->in[5];
    return MLSYS_OK;
}

static void cost_adafactor(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 14 * mlsi_cost_count(&a->out[0]);
    c->transcendentals = 1;
}

typedef struct adafactor {
    mlsi_update s;
    const mlsi_attr_adafactor *at;
    bool factored;
    int rank;
    int32_t square;      /* g * g + eps */
    int32_t fresh, kept; /* t^-decay_rate, and what is left of 1 */
} adafactor;

/* sum / how many elements axes first..last-1 of x have; no elements have the mean 0. */
static int32_t mean_of(mlsi_emit *e, int32_t sum, int32_t x, int first, int last) {
    int32_t count = mlsi_emit_count(e, x, first, last);
    count = mlsi_emit_2(e, MLSI_OP_MAX, count, mlsi_emit_float(e, 1));
    return mlsi_emit_2(e, MLSI_OP_DIV, sum, count);
}

/* Mean over one axis, kept with extent 1. */
static int32_t mean(adafactor *f, int32_t x, int axis) {
    int32_t sum = mlsi_emit_reduce(&f->s.e, MLSI_OP_REDUCE_SUM, x, axis, axis + 1);
    return mean_of(&f->s.e, sum, x, axis, axis + 1);
}

/* sqrt(sum(x * x) / count), as a scalar. */
static int32_t root_mean_square(adafactor *f, int32_t x) {
    int32_t sum = mlsi_emit_1(&f->s.e, MLSI_OP_SUM_SQUARES, x);
    return mlsi_emit_1(&f->s.e, MLSI_OP_SQRT, mean_of(&f->s.e, sum, x, 0, f->rank));
}

static int32_t moment(adafactor *f, int32_t old, int32_t x) {
    int32_t part = mlsi_update_mul(&f->s, f->fresh, x);
    return mlsi_update_add(&f->s, mlsi_update_mul(&f->s, f->kept, old), part);
}

/* The mean of the squares over `axis` enters moment `operand`, which comes back with the axis kept. It is updated
 * in its own shape: a donated one is then written in place. */
static int32_t factor(adafactor *f, int operand, int axis) {
    mlsi_emit *e = &f->s.e;
    int32_t old = mlsi_emit_widen(e, f->s.in[operand]), fresh = mean(f, f->square, axis);
    if (e->st != MLSYS_OK) return 0;
    mlsi_type flat = *mlsi_emit_type(e, old), kept = *mlsi_emit_type(e, fresh);
    int32_t made = moment(f, old, mlsi_emit_reshape(e, fresh, flat.rank, flat.dims));
    mlsi_update_give(&f->s, operand - 3, operand, made);
    return mlsi_emit_reshape(e, made, kept.rank, kept.dims);
}

static int32_t second_moment(adafactor *f) {
    mlsi_emit *e = &f->s.e;
    if (!f->factored) {
        int32_t v = moment(f, mlsi_emit_widen(e, f->s.in[4]), f->square);
        mlsi_update_give(&f->s, 1, 4, v);
        return v;
    }
    int32_t rows = factor(f, 4, f->rank - 1), columns = factor(f, 5, f->rank - 2);
    rows = mlsi_emit_2(e, MLSI_OP_DIV, rows, mean(f, rows, f->rank - 2));
    return mlsi_update_mul(&f->s, rows, columns);
}

/* How far w goes along the clipped update. */
static int32_t rate(adafactor *f, int32_t count) {
    mlsi_emit *e = &f->s.e;
    int32_t rho = f->s.lr;
    if (f->at->relative) {
        int32_t root = mlsi_emit_1(e, MLSI_OP_SQRT, count), one = mlsi_emit_float(e, 1);
        rho = mlsi_emit_2(e, MLSI_OP_MIN, rho, mlsi_emit_2(e, MLSI_OP_DIV, one, root));
    }
    if (!f->at->scale) return rho;
    int32_t size = root_mean_square(f, f->s.w);
    size = mlsi_emit_2(e, MLSI_OP_MAX, size, mlsi_emit_float(e, f->at->eps_w));
    return mlsi_update_mul(&f->s, size, rho);
}

static mlsys_status decompose_adafactor(mlsi_graph *g, int32_t func, const void *attrs,
                                        int32_t n_in, const int32_t *in, int32_t n_out,
                                        int32_t *out) {
    adafactor f = {.s = mlsi_update_begin(g, func, in, out), .at = attrs};
    mlsi_emit *e = &f.s.e;
    (void)n_out;
    f.factored = n_in > 5 && in[5] >= 0;
    if (e->st != MLSYS_OK) return e->st;
    f.rank = mlsi_emit_type(e, in[0])->rank;
    int32_t count = mlsi_emit_cast(e, in[3], e->compute);
    f.fresh = mlsi_emit_2(e, MLSI_OP_POW, count, mlsi_emit_float(e, -f.at->decay_rate));
    f.kept = mlsi_update_sub(&f.s, mlsi_emit_float(e, 1), f.fresh);
    f.square = mlsi_update_mul(&f.s, f.s.g, f.s.g);
    f.square = mlsi_update_add(&f.s, f.square, mlsi_emit_float(e, f.at->eps));
    int32_t root = mlsi_emit_1(e, MLSI_OP_SQRT, second_moment(&f));
    int32_t u = mlsi_emit_2(e, MLSI_OP_DIV, f.s.g, root);
    int32_t over = root_mean_square(&f, u);
    over = mlsi_emit_2(e, MLSI_OP_DIV, over, mlsi_emit_float(e, f.at->clip));
    over = mlsi_emit_2(e, MLSI_OP_MAX, over, mlsi_emit_float(e, 1));
    if (!mlsi_fault(MLSI_FAULT_OPS_ADAFACTOR_CLIP)) u = mlsi_emit_2(e, MLSI_OP_DIV, u, over);
    int32_t change = mlsi_update_mul(&f.s, rate(&f, count), u);
    int32_t w = mlsi_update_decayed(&f.s, f.at->weight_decay);
    mlsi_update_give(&f.s, 0, 0, mlsi_update_sub(&f.s, w, change));
    return e->st;
}

static const mlsi_attr_desc adafactor_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_adafactor, decay_rate, 0.8,
                     "a step enters the moments with count^-decay_rate"),
    MLSI_ATTR_NUMBER(mlsi_attr_adafactor, eps, 1e-30, "added to the squares of g"),
    MLSI_ATTR_NUMBER(mlsi_attr_adafactor, eps_w, 1e-3, "least size of w that scales the step"),
    MLSI_ATTR_NUMBER(mlsi_attr_adafactor, clip, 1, "longest root mean square of an update"),
    MLSI_ATTR_NUMBER(mlsi_attr_adafactor, weight_decay, 0, "of w, decoupled, times lr"),
    MLSI_ATTR_FLAG(mlsi_attr_adafactor, relative, 1, "the rate is at most 1 / sqrt(count)"),
    MLSI_ATTR_FLAG(mlsi_attr_adafactor, scale, 1, "the step is relative to the size of w"),
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_adafactor_step = {
    .min_in = 5,
    .max_in = 6,
    .min_out = 2,
    .max_out = 3,
    .operands = "w, g, lr, count, v, columns?",
    .attrs_size = sizeof(mlsi_attr_adafactor),
    .attrs = adafactor_attrs,
    .infer = infer_adafactor,
    .cost = cost_adafactor,
    .decompose = decompose_adafactor,
    .doc =
        "Adafactor (Shazeer, Stern 2018) without momentum. count: i64, 1 in the first step. f = "
        "count^-decay_rate, s = g * g + eps. With columns (rank >= 2) the second moment is "
        "factored: v has "
        "w's shape without the last axis, columns without the last but one; v' = (1 - f) * v + f * "
        "mean(s, "
        "last axis), columns' = (1 - f) * columns + f * mean(s, last axis but one), V = (v' / "
        "mean(v')) * "
        "columns'. Without: v has w's shape, V = v' = (1 - f) * v + f * s. u = g / sqrt(V), u = u "
        "/ max(1, "
        "rms(u) / clip); rho = min(lr, 1 / sqrt(count)), or lr; w' = (w - lr * weight_decay * w) - "
        "(max(rms(w), eps_w) * rho) * u, without scale rho * u. rms(x) = sqrt(sum(x * x) / n), "
        "canonical "
        "sums. Results: w', v', columns'. Moments start as zeros.",
    .special = "NaN and infinities of g pass into w and the moments; means over no elements are 0. "
               "In place when "
               "operands are donated."};

/* ---- muon ---------------------------------------------------------------------------------- */

static mlsys_status infer_muon(mlsi_infer *t) {
    const mlsi_type *w = &t->in[0];
    char a[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    if (w->rank != 2 || !mlsi_type_static(w))
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0,
                               "%s, expected rank 2 and extents that are numbers",
                               mlsi_type_text(t->symbols, w, a, sizeof a));
    MLSI_TRY(mlsi_infer_like(t, 1, w));
    MLSI_TRY(mlsi_infer_scalar(t, 2, false));
    MLSI_TRY(mlsi_infer_like(t, 3, w));
    t->out[0] = *w;
    t->out[1] = t->in[3];
    return MLSYS_OK;
}

enum { NEWTON_SCHULZ_STEPS = 5 };
/* Jordan 2024: slope at 0 as steep as the iteration bears. */
static const double quintic[3] = {3.4445, -4.7750, 2.0315};

static void cost_muon(const mlsi_cost_args *a, mlsi_op_cost *c) {
    uint64_t m = (uint64_t)a->in[0].shape[0], n = (uint64_t)a->in[0].shape[1];
    uint64_t narrow = m < n ? m : n, wide = m < n ? n : m;
    uint64_t products = 4 * narrow * narrow * wide + 2 * narrow * narrow * narrow;
    c->flops = NEWTON_SCHULZ_STEPS * (products + 3 * narrow * narrow + 2 * m * n) + 14 * m * n;
}

static int32_t product(mlsi_emit *e, int32_t a, int32_t b, bool transpose_b) {
    const mlsi_attr_matmul attrs = {.transpose_b = transpose_b};
    int32_t in[2] = {a, b};
    return mlsi_emit_op(e, MLSI_OP_MATMUL, &attrs, 2, in);
}

static int32_t turned(mlsi_emit *e, int32_t x) {
    const mlsi_attr_transpose swap = {.perm = {2, {1, 0}}};
    return mlsi_emit_op(e, MLSI_OP_TRANSPOSE, &swap, 1, &x);
}

/* The nearest matrix with orthonormal rows, roughly: all singular values of x are driven towards 1. */
static int32_t orthogonal(mlsi_update *s, double eps, int32_t x) {
    mlsi_emit *e = &s->e;
    int32_t norm = mlsi_emit_1(e, MLSI_OP_SQRT, mlsi_emit_1(e, MLSI_OP_SUM_SQUARES, x));
    norm = mlsi_emit_2(e, MLSI_OP_MAX, norm, mlsi_emit_float(e, eps));
    x = mlsi_emit_2(e, MLSI_OP_DIV, x, norm);
    for (int i = 0; i < NEWTON_SCHULZ_STEPS; i++) {
        int32_t gram = product(e, x, x, true), square = product(e, gram, gram, false);
        int32_t first = mlsi_update_times(s, quintic[1], gram);
        int32_t map = mlsi_update_add(s, first, mlsi_update_times(s, quintic[2], square));
        int32_t moved = product(e, map, x, false);
        x = mlsi_update_add(s, mlsi_update_times(s, quintic[0], x), moved);
    }
    return x;
}

static mlsys_status decompose_muon(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_muon *at = attrs;
    mlsi_update s = mlsi_update_begin(g, func, in, out);
    (void)n_in, (void)n_out;
    if (s.e.st != MLSYS_OK) return s.e.st;
    int64_t rows = mlsi_emit_type(&s.e, in[0])->dims[0],
            columns = mlsi_emit_type(&s.e, in[0])->dims[1];
    bool tall = rows > columns;
    int32_t m = mlsi_update_average(&s, at->momentum, mlsi_emit_widen(&s.e, in[3]), s.g);
    mlsi_update_give(&s, 1, 3, m);
    int32_t d = at->nesterov ? mlsi_update_average(&s, at->momentum, m, s.g) : m;
    if (tall) d = turned(&s.e, d); /* the smaller Gram matrix */
    d = orthogonal(&s, at->eps, d);
    if (tall) d = turned(&s.e, d);
    double scale = tall && columns > 0 ? sqrt((double)rows / (double)columns) : 1;
    if (mlsi_fault(MLSI_FAULT_OPS_MUON_TALL)) scale = 1;
    int32_t change = mlsi_update_mul(&s, mlsi_update_times(&s, scale, s.lr), d);
    int32_t w = mlsi_update_decayed(&s, at->weight_decay);
    mlsi_update_give(&s, 0, 0, mlsi_update_sub(&s, w, change));
    return s.e.st;
}

static const mlsi_attr_desc muon_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_muon, momentum, 0.95, "of the moment m"),
    MLSI_ATTR_NUMBER(mlsi_attr_muon, weight_decay, 0.1, "of w, decoupled"),
    MLSI_ATTR_NUMBER(mlsi_attr_muon, eps, 1e-7, "least norm that the direction is divided by"),
    MLSI_ATTR_FLAG(mlsi_attr_muon, nesterov, 1, "look ahead along the moment"),
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_muon_step = {
    .min_in = 4,
    .max_in = 4,
    .min_out = 2,
    .max_out = 2,
    .operands = "w, g, lr, m",
    .attrs_size = sizeof(mlsi_attr_muon),
    .attrs = muon_attrs,
    .infer = infer_muon,
    .cost = cost_muon,
    .decompose = decompose_muon,
    .doc =
        "Muon (Jordan et al. 2024) for a matrix w. m' = momentum * m + (1 - momentum) * g; d = m', "
        "with "
        "nesterov momentum * m' + (1 - momentum) * g; X = d / max(sqrt(sum(d * d)), eps), "
        "transposed if w has "
        "more rows than columns; five times A = X X^T, X = 3.4445 * X + (-4.7750 * A + 2.0315 * (A "
        "A)) X; "
        "transposed back. w' = (w - lr * weight_decay * w) - (sqrt(max(1, rows / columns)) * lr) * "
        "X. "
        "Products along K as in matmul, in the compute type. Results: w', m'. m starts as zeros.",
    .special = "NaN and infinities of g spread over all of w. In place when operands are donated."};
