/* One step of an optimiser for one parameter: composites, so that they are graphs, eager calls and programs like
 * all else, and a kernel may claim one whole. All arithmetic is in the compute type (f32; f64 for f64), every
 * written operation rounds, results are rounded once to their dtypes. Moments have their own dtypes, so f32
 * moments may go with narrow parameters. */
#include "ir/ops/decompose.h"
#include "ir/ops/elementwise.h"

/* ---- type rules ---------------------------------------------------------------------------- */

static mlsys_status need_scalar(const mlsi_infer *t, int i, bool integer) {
    char a[160];
    const mlsi_type *x = &t->in[i];
    bool fits = integer ? x->dtype == MLSYS_I64 : mlsi_dtype_is_float(x->dtype);
    if (fits && x->rank == 0) return MLSYS_OK;
    return mlsi_infer_fail(t, fits ? MLSYS_E_SHAPE : MLSYS_E_DTYPE, i, "%s, expected a scalar %s",
                           mlsi_type_text(t->symbols, x, a, sizeof a), integer ? "i64" : "float");
}

/* w, g, lr, then the moments: floats of w's shape, f64 only together. Results: w, then the moments. */
static mlsys_status infer_step(mlsi_infer *t, int moments) {
    char a[160], b[160];
    int given = 0;
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(need_scalar(t, 2, false));
    t->out[0] = t->in[0];
    for (int i = 1; i < 3 + moments && i < t->n_in; i++) {
        if (i == 2 || !t->in[i].dtype) continue;
        mlsi_type w = t->in[0];
        MLSI_TRY(mlsi_infer_class(t, i, MLSI_FLOATS));
        w.dtype = t->in[i].dtype;
        if (!mlsi_type_equal(&w, &t->in[i]) ||
            (w.dtype == MLSYS_F64) != (t->in[0].dtype == MLSYS_F64))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s does not go with %s",
                                   mlsi_type_text(t->symbols, &t->in[i], a, sizeof a),
                                   mlsi_type_text(t->symbols, &t->in[0], b, sizeof b));
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
    return need_scalar(t, 5, true);
}

static void cost_step(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 6 * (uint64_t)a->n_out * mlsi_cost_count(&a->out[0]);
}

/* ---- formulas ------------------------------------------------------------------------------ */

typedef struct step {
    mlsi_emit e;
    int32_t w, g, lr; /* in the compute type */
    const int32_t *in;
    int32_t *out;
} step;

static step begin(mlsi_graph *g, int32_t func, const int32_t *in, int32_t *out) {
    step s = {.e = mlsi_emit_begin(g, func, in[0]), .in = in, .out = out};
    s.w = mlsi_emit_widen(&s.e, in[0]);
    s.g = mlsi_emit_widen(&s.e, in[1]);
    s.lr = mlsi_emit_widen(&s.e, in[2]);
    return s;
}
static int32_t add(step *s, int32_t a, int32_t b) { return mlsi_emit_2(&s->e, MLSI_OP_ADD, a, b); }
static int32_t sub(step *s, int32_t a, int32_t b) { return mlsi_emit_2(&s->e, MLSI_OP_SUB, a, b); }
static int32_t mul(step *s, int32_t a, int32_t b) { return mlsi_emit_2(&s->e, MLSI_OP_MUL, a, b); }
static int32_t times(step *s, double factor, int32_t a) {
    return mul(s, a, mlsi_emit_float(&s->e, factor));
}
/* beta * m + (1 - beta) * x */
static int32_t average(step *s, double beta, int32_t m, int32_t x) {
    int32_t old = times(s, beta, m), fresh = times(s, 1 - beta, x);
    return add(s, old, fresh);
}
static void give(step *s, int result, int operand, int32_t value) {
    if (s->e.st == MLSYS_OK)
        s->out[result] = mlsi_emit_cast(&s->e, value, mlsi_emit_type(&s->e, s->in[operand])->dtype);
}
/* w - lr * decay * w: weight decay that no moment sees. */
static int32_t decayed(step *s, double decay) {
    if (decay == 0) return s->w;
    return sub(s, s->w, mul(s, times(s, decay, s->lr), s->w));
}

static mlsys_status decompose_sgd(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                  const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_sgd *at = attrs;
    step s = begin(g, func, in, out);
    (void)n_in;
    int32_t d = at->weight_decay == 0 ? s.g : add(&s, s.g, times(&s, at->weight_decay, s.w));
    if (n_out > 1) {
        int32_t m = mlsi_emit_widen(&s.e, in[3]), old = times(&s, at->momentum, m);
        m = add(&s, old, times(&s, 1 - at->dampening, d));
        give(&s, 1, 3, m);
        d = at->nesterov ? add(&s, d, times(&s, at->momentum, m)) : m;
    }
    give(&s, 0, 0, sub(&s, s.w, mul(&s, s.lr, d)));
    return s.e.st;
}

/* 1 - beta^step */
static int32_t correction(step *s, double beta, int32_t count) {
    int32_t base = mlsi_emit_float(&s->e, beta), one = mlsi_emit_float(&s->e, 1);
    return sub(s, one, mlsi_emit_2(&s->e, MLSI_OP_POW, base, count));
}

static mlsys_status decompose_adam(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_adam *at = attrs;
    step s = begin(g, func, in, out);
    (void)n_in, (void)n_out;
    int32_t count = mlsi_emit_cast(&s.e, in[5], s.e.compute), w = s.w, d = s.g;
    if (at->decoupled)
        w = decayed(&s, at->weight_decay);
    else if (at->weight_decay != 0)
        d = add(&s, d, times(&s, at->weight_decay, s.w));
    int32_t m = average(&s, at->beta1, mlsi_emit_widen(&s.e, in[3]), d);
    int32_t v = average(&s, at->beta2, mlsi_emit_widen(&s.e, in[4]), mul(&s, d, d));
    give(&s, 1, 3, m);
    give(&s, 2, 4, v);
    int32_t c1 = correction(&s, at->beta1, count), c2 = correction(&s, at->beta2, count);
    int32_t root = mlsi_emit_1(&s.e, MLSI_OP_SQRT, mlsi_emit_2(&s.e, MLSI_OP_DIV, v, c2));
    int32_t below = add(&s, root, mlsi_emit_float(&s.e, at->eps));
    int32_t rate = mlsi_emit_2(&s.e, MLSI_OP_DIV, s.lr, c1);
    int32_t change = mlsi_emit_2(&s.e, MLSI_OP_DIV, m, below);
    give(&s, 0, 0, sub(&s, w, mul(&s, rate, change)));
    return s.e.st;
}

static mlsys_status decompose_lion(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_lion *at = attrs;
    step s = begin(g, func, in, out);
    (void)n_in, (void)n_out;
    int32_t m = mlsi_emit_widen(&s.e, in[3]);
    int32_t direction = mlsi_emit_1(&s.e, MLSI_OP_SIGN, average(&s, at->beta1, m, s.g));
    give(&s, 1, 3, average(&s, at->beta2, m, s.g));
    give(&s, 0, 0, sub(&s, decayed(&s, at->weight_decay), mul(&s, s.lr, direction)));
    return s.e.st;
}

/* ---- definitions --------------------------------------------------------------------------- */

#define NUMBER(type, field, value, text)                                                           \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_F64, .offset = offsetof(type, field),                    \
        .default_f = value, .help = text                                                           \
    }
#define FLAG(type, field, value, text)                                                             \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_BOOL, .offset = offsetof(type, field),                   \
        .default_i = value, .help = text                                                           \
    }

static const mlsi_attr_desc sgd_attrs[] = {
    NUMBER(mlsi_attr_sgd, momentum, 0.9, "of the moment m, if there is one"),
    NUMBER(mlsi_attr_sgd, dampening, 0, "of what enters the moment"),
    NUMBER(mlsi_attr_sgd, weight_decay, 0, "times w, added to g"),
    FLAG(mlsi_attr_sgd, nesterov, 0, "look ahead along the moment"),
    {.name = NULL}};
static const mlsi_attr_desc adam_attrs[] = {
    NUMBER(mlsi_attr_adam, beta1, 0.9, "of the first moment"),
    NUMBER(mlsi_attr_adam, beta2, 0.999, "of the second moment"),
    NUMBER(mlsi_attr_adam, eps, 1e-8, "added to the root of the second moment"),
    NUMBER(mlsi_attr_adam, weight_decay, 0.01, "of w"),
    FLAG(mlsi_attr_adam, decoupled, 1, "AdamW: w decays by itself; else the decay is added to g"),
    {.name = NULL}};
static const mlsi_attr_desc lion_attrs[] = {
    NUMBER(mlsi_attr_lion, beta1, 0.9, "of the direction"),
    NUMBER(mlsi_attr_lion, beta2, 0.99, "of the moment"),
    NUMBER(mlsi_attr_lion, weight_decay, 0, "of w, decoupled"),
    {.name = NULL}};

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
           "eps)). Not "
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
