/* One step of an optimiser for one parameter: composites, so that they are graphs, eager calls and programs like
 * all else, and a kernel may claim one whole. All arithmetic is in the compute type (f32; f64 for f64), every
 * written operation rounds, results are rounded once to their dtypes; what counts steps is in f64. Moments have their own dtypes, so f32
 * moments may go with narrow parameters. */
#include "ir/ops/optimizer.h"

/* ---- type rules ---------------------------------------------------------------------------- */

mlsys_status mlsi_infer_scalar(const mlsi_infer *t, int i, bool integer) {
    char a[160];
    const mlsi_type *x = &t->in[i];
    bool fits = integer ? x->dtype == MLSYS_I64 : mlsi_dtype_is_float(x->dtype);
    if (fits && x->rank == 0) return MLSYS_OK;
    return mlsi_infer_fail(t, fits ? MLSYS_E_SHAPE : MLSYS_E_DTYPE, i, "%s, expected a scalar %s",
                           mlsi_type_text(t->symbols, x, a, sizeof a), integer ? "i64" : "float");
}

mlsys_status mlsi_infer_like(const mlsi_infer *t, int i, const mlsi_type *like) {
    char a[160], b[160];
    mlsi_type want = *like;
    MLSI_TRY(mlsi_infer_class(t, i, MLSI_FLOATS));
    want.dtype = t->in[i].dtype;
    if (mlsi_type_equal(&want, &t->in[i]) &&
        (want.dtype == MLSYS_F64) == (t->in[0].dtype == MLSYS_F64))
        return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s does not go with %s",
                           mlsi_type_text(t->symbols, &t->in[i], a, sizeof a),
                           mlsi_type_text(t->symbols, like, b, sizeof b));
}

mlsys_status mlsi_infer_range(const mlsi_infer *t, const char *name, double value, bool fits,
                              const char *expected) {
    if (fits) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %g, expected %s", name, value,
                           expected);
}

/* w, g, lr, then the moments: floats of w's shape, f64 only together. Results: w, then the moments. */
static mlsys_status infer_step(mlsi_infer *t, int moments) {
    int given = 0;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_scalar(t, 2, false));
    t->out[0] = t->in[0];
    for (int i = 1; i < 3 + moments && i < t->n_in; i++) {
        if (i == 2 || !t->in[i].dtype) continue;
        MLSI_TRY(mlsi_infer_like(t, i, &t->in[0]));
        if (i < 3) continue;
        if (++given < t->n_out) t->out[given] = t->in[i];
    }
    if (t->n_out == 1 + given) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d results: the parameter and %d moments", t->n_out,
                           given);
}

static mlsys_status infer_one_moment(mlsi_infer *t) { return infer_step(t, 1); }
static mlsys_status infer_adam(mlsi_infer *t) {
    MLSI_TRY(infer_step(t, 2));
    return mlsi_infer_scalar(t, 5, true);
}

static void cost_step(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 6 * (uint64_t)a->n_out * mlsi_cost_count(&a->out[0]);
}

/* ---- formulas ------------------------------------------------------------------------------ */

mlsi_update mlsi_update_begin(mlsi_graph *g, int32_t func, const int32_t *in, int32_t *out) {
    mlsi_update s = {.e = mlsi_emit_begin(g, func, in[0]), .in = in, .out = out};
    s.w = mlsi_emit_widen(&s.e, in[0]);
    s.g = mlsi_emit_widen(&s.e, in[1]);
    s.lr = mlsi_emit_widen(&s.e, in[2]);
    return s;
}

int32_t mlsi_update_average(mlsi_update *s, double beta, int32_t m, int32_t x) {
    int32_t old = mlsi_update_times(s, beta, m), fresh = mlsi_update_times(s, 1 - beta, x);
    return mlsi_update_add(s, old, fresh);
}

void mlsi_update_give(mlsi_update *s, int result, int operand, int32_t value) {
    if (s->e.st == MLSYS_OK)
        s->out[result] = mlsi_emit_cast(&s->e, value, mlsi_emit_type(&s->e, s->in[operand])->dtype);
}

int32_t mlsi_update_decayed(mlsi_update *s, double decay) {
    if (decay == 0) return s->w;
    return mlsi_update_sub(s, s->w, mlsi_update_mul(s, mlsi_update_times(s, decay, s->lr), s->w));
}

static mlsys_status decompose_sgd(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                  const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_sgd *at = attrs;
    mlsi_update s = mlsi_update_begin(g, func, in, out);
    (void)n_in;
    int32_t d = at->weight_decay == 0
                    ? s.g
                    : mlsi_update_add(&s, s.g, mlsi_update_times(&s, at->weight_decay, s.w));
    if (n_out > 1) {
        int32_t m = mlsi_emit_widen(&s.e, in[3]), old = mlsi_update_times(&s, at->momentum, m);
        m = mlsi_update_add(&s, old, mlsi_update_times(&s, 1 - at->dampening, d));
        mlsi_update_give(&s, 1, 3, m);
        d = at->nesterov ? mlsi_update_add(&s, d, mlsi_update_times(&s, at->momentum, m)) : m;
    }
    mlsi_update_give(&s, 0, 0, mlsi_update_sub(&s, s.w, mlsi_update_mul(&s, s.lr, d)));
    return s.e.st;
}

/* 1 - beta^step, in f64, rounded once: in f32 the difference loses ten bits where beta is 0.999. */
static int32_t correction(mlsi_update *s, double beta, int32_t count) {
    int32_t base = mlsi_emit_scalar(&s->e, MLSYS_F64, beta);
    int32_t one = mlsi_emit_scalar(&s->e, MLSYS_F64, 1);
    int32_t power = mlsi_emit_2(&s->e, MLSI_OP_POW, base, count);
    return mlsi_emit_cast(&s->e, mlsi_emit_2(&s->e, MLSI_OP_SUB, one, power), s->e.compute);
}

static mlsys_status decompose_adam(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_adam *at = attrs;
    mlsi_update s = mlsi_update_begin(g, func, in, out);
    (void)n_in, (void)n_out;
    int32_t count = mlsi_emit_cast(&s.e, in[5], MLSYS_F64), w = s.w, d = s.g;
    if (at->decoupled)
        w = mlsi_update_decayed(&s, at->weight_decay);
    else if (at->weight_decay != 0)
        d = mlsi_update_add(&s, d, mlsi_update_times(&s, at->weight_decay, s.w));
    int32_t m = mlsi_update_average(&s, at->beta1, mlsi_emit_widen(&s.e, in[3]), d);
    int32_t v =
        mlsi_update_average(&s, at->beta2, mlsi_emit_widen(&s.e, in[4]), mlsi_update_mul(&s, d, d));
    mlsi_update_give(&s, 1, 3, m);
    mlsi_update_give(&s, 2, 4, v);
    int32_t c1 = correction(&s, at->beta1, count), c2 = correction(&s, at->beta2, count);
    int32_t root = mlsi_emit_1(&s.e, MLSI_OP_SQRT, mlsi_emit_2(&s.e, MLSI_OP_DIV, v, c2));
    int32_t below = mlsi_update_add(&s, root, mlsi_emit_float(&s.e, at->eps));
    int32_t rate = mlsi_emit_2(&s.e, MLSI_OP_DIV, s.lr, c1);
    int32_t change = mlsi_emit_2(&s.e, MLSI_OP_DIV, m, below);
    mlsi_update_give(&s, 0, 0, mlsi_update_sub(&s, w, mlsi_update_mul(&s, rate, change)));
    return s.e.st;
}

static mlsys_status decompose_lion(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_lion *at = attrs;
    mlsi_update s = mlsi_update_begin(g, func, in, out);
    (void)n_in, (void)n_out;
    int32_t m = mlsi_emit_widen(&s.e, in[3]);
    int32_t direction = mlsi_emit_1(&s.e, MLSI_OP_SIGN, mlsi_update_average(&s, at->beta1, m, s.g));
    mlsi_update_give(&s, 1, 3, mlsi_update_average(&s, at->beta2, m, s.g));
    mlsi_update_give(&s, 0, 0,
                     mlsi_update_sub(&s, mlsi_update_decayed(&s, at->weight_decay),
                                     mlsi_update_mul(&s, s.lr, direction)));
    return s.e.st;
}

static mlsys_status infer_ema(mlsi_infer *t) {
    const mlsi_attr_ema *a = t->attrs;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_like(t, 1, &t->in[0]));
    MLSI_TRY(mlsi_infer_range(t, "decay", a->decay, a->decay >= 0 && a->decay <= 1, "in [0,1]"));
    t->out[0] = t->in[0];
    return MLSYS_OK;
}

static mlsys_status decompose_ema(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                  const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_ema *at = attrs;
    mlsi_update s = {.e = mlsi_emit_begin(g, func, in[0]), .in = in, .out = out};
    (void)n_in, (void)n_out;
    int32_t e = mlsi_emit_widen(&s.e, in[0]), w = mlsi_emit_widen(&s.e, in[1]);
    mlsi_update_give(&s, 0, 0, mlsi_update_average(&s, at->decay, e, w));
    return s.e.st;
}

static void cost_ema(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 3 * mlsi_cost_count(&a->out[0]);
}

/* ---- definitions --------------------------------------------------------------------------- */

static const mlsi_attr_desc sgd_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_sgd, momentum, 0.9, "of the moment m, if there is one"),
    MLSI_ATTR_NUMBER(mlsi_attr_sgd, dampening, 0, "of what enters the moment"),
    MLSI_ATTR_NUMBER(mlsi_attr_sgd, weight_decay, 0, "times w, added to g"),
    MLSI_ATTR_FLAG(mlsi_attr_sgd, nesterov, 0, "look ahead along the moment"),
    {.name = NULL}};
static const mlsi_attr_desc adam_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_adam, beta1, 0.9, "of the first moment"),
    MLSI_ATTR_NUMBER(mlsi_attr_adam, beta2, 0.999, "of the second moment"),
    MLSI_ATTR_NUMBER(mlsi_attr_adam, eps, 1e-8, "added to the root of the second moment"),
    MLSI_ATTR_NUMBER(mlsi_attr_adam, weight_decay, 0.01, "of w"),
    MLSI_ATTR_FLAG(mlsi_attr_adam, decoupled, 1,
                   "AdamW: w decays by itself; else the decay is added to g"),
    {.name = NULL}};
static const mlsi_attr_desc lion_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_lion, beta1, 0.9, "of the direction"),
    MLSI_ATTR_NUMBER(mlsi_attr_lion, beta2, 0.99, "of the moment"),
    MLSI_ATTR_NUMBER(mlsi_attr_lion, weight_decay, 0, "of w, decoupled"),
    {.name = NULL}};
static const mlsi_attr_desc ema_attrs[] = {
    MLSI_ATTR_NUMBER(mlsi_attr_ema, decay, 0.999, "of the average"), {.name = NULL}};

#define STEP(type, list) .min_out = 1, .attrs_size = sizeof(type), .attrs = list, .cost = cost_step
#define SPECIAL                                                                                    \
    .special = "NaN and infinities of g pass into w and the moments. In place when operands are "  \
               "donated."

const mlsi_op_def mlsi_op_def_sgd_step = {
    STEP(mlsi_attr_sgd, sgd_attrs),
    .min_in = 3,
    .max_in = 4,
    .max_out = 2,
    .operands = "w, g, lr, m?",
    .infer = infer_one_moment,
    .decompose = decompose_sgd,
    .doc =
        "d = g + weight_decay * w; with m: m' = momentum * m + (1 - dampening) * d, d = m', or d + "
        "momentum * m' with nesterov; w' = w - lr * d. Results: w', m'. m starts as zeros.",
    SPECIAL};
const mlsi_op_def mlsi_op_def_adam_step = {
    STEP(mlsi_attr_adam, adam_attrs),
    .min_in = 6,
    .max_in = 6,
    .max_out = 3,
    .operands = "w, g, lr, m, v, count",
    .infer = infer_adam,
    .decompose = decompose_adam,
    .doc = "Adam (Kingma, Ba 2015), AdamW (Loshchilov, Hutter 2019) when decoupled. count: i64, 1 "
           "in the first "
           "step. m' = beta1 * m + (1 - beta1) * g, v' = beta2 * v + (1 - beta2) * (g * g), w' = "
           "(w - lr * "
           "weight_decay * w) - (lr / (1 - beta1^count)) * (m' / (sqrt(v' / (1 - beta2^count)) + "
           "eps)), with 1 - beta^count computed in f64 and rounded once. Not "
           "decoupled: weight_decay * w is added to g and w does not decay. Results: w', m', v'.",
    SPECIAL};
const mlsi_op_def mlsi_op_def_lion_step = {
    STEP(mlsi_attr_lion, lion_attrs),
    .min_in = 4,
    .max_in = 4,
    .max_out = 2,
    .operands = "w, g, lr, m",
    .infer = infer_one_moment,
    .decompose = decompose_lion,
    .doc = "Lion (Chen et al. 2023): w' = (w - lr * weight_decay * w) - lr * sign(beta1 * m + (1 - "
           "beta1) * g), "
           "m' = beta2 * m + (1 - beta2) * g. Results: w', m'.",
    SPECIAL};
const mlsi_op_def mlsi_op_def_ema_step = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "e, w",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .attrs_size = sizeof(mlsi_attr_ema),
    .attrs = ema_attrs,
    .infer = infer_ema,
    .cost = cost_ema,
    .decompose = decompose_ema,
    .doc = "Exponential moving average of a parameter: e' = decay * e + (1 - decay) * w, in e's "
           "dtype. e starts as w.",
    .special = "NaN and infinities of w pass into e. In place when e is donated."};
