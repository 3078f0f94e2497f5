/* The learning rate of a step, as a scalar of the graph, so that a training program needs nothing from outside
 * but the step's number. Computed in f64 and rounded once to f32: 2^24 steps are not the last. */
#include "ir/ops/elementwise.h"
#include "ir/ops/optimizer.h"

#include <float.h>

static mlsys_status infer_rate(mlsi_infer *t) {
    const mlsi_attr_learning_rate *a = t->attrs;
    bool decays = a->schedule == MLSI_SCHEDULE_LINEAR || a->schedule == MLSI_SCHEDULE_COSINE ||
                  a->schedule == MLSI_SCHEDULE_WSD;
    MLSI_TRY(mlsi_infer_scalar(t, 0, true));
    MLSI_TRY(mlsi_infer_range(t, "rate", a->rate, a->rate >= 0 && a->rate <= FLT_MAX,
                              "a number of f32 >= 0"));
    MLSI_TRY(mlsi_infer_range(t, "floor", a->floor, a->floor >= 0 && a->floor <= 1, "in [0,1]"));
    MLSI_TRY(mlsi_infer_range(t, "warmup", (double)a->warmup, a->warmup >= 0, ">= 0"));
    MLSI_TRY(mlsi_infer_range(t, "steps", (double)a->steps, !decays || a->steps > a->warmup,
                              "more than warmup"));
    if (a->schedule == MLSI_SCHEDULE_STEP) {
        MLSI_TRY(
            mlsi_infer_range(t, "factor", a->factor, a->factor > 0 && a->factor <= 1, "in (0,1]"));
        MLSI_TRY(mlsi_infer_range(t, "every", (double)a->every, a->every >= 1, ">= 1"));
    }
    if (a->schedule == MLSI_SCHEDULE_WSD)
        MLSI_TRY(mlsi_infer_range(t, "decay", (double)a->decay,
                                  a->decay >= 1 && a->decay <= a->steps - a->warmup,
                                  "1 to steps - warmup"));
    t->out[0] = (mlsi_type){.dtype = MLSYS_F32};
    return MLSYS_OK;
}

static void cost_rate(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_learning_rate *at = a->attrs;
    c->flops = 8;
    c->transcendentals =
        at->schedule == MLSI_SCHEDULE_COSINE || at->schedule == MLSI_SCHEDULE_STEP ? 1 : 0;
}

/* (a - b) limited to [0, most], as a whole number. */
static int32_t steps_since(mlsi_emit *e, int32_t step, int64_t before, int64_t most) {
    int32_t from = mlsi_emit_int(e, MLSYS_I64, before), end = mlsi_emit_int(e, MLSYS_I64, most);
    int32_t past = mlsi_emit_2(e, MLSI_OP_SUB, step, from);
    past = mlsi_emit_2(e, MLSI_OP_MIN, past, end);
    return mlsi_emit_2(e, MLSI_OP_MAX, past, mlsi_emit_int(e, MLSYS_I64, 0));
}

static int32_t share_of(mlsi_emit *e, int32_t whole, int64_t of) {
    int32_t n = mlsi_emit_cast(e, whole, e->compute);
    return mlsi_emit_2(e, MLSI_OP_DIV, n, mlsi_emit_float(e, (double)of));
}

/* floor + (1 - floor) * x */
static int32_t above_floor(mlsi_emit *e, double floor, int32_t x) {
    int32_t part = mlsi_emit_2(e, MLSI_OP_MUL, x, mlsi_emit_float(e, 1 - floor));
    return mlsi_emit_2(e, MLSI_OP_ADD, part, mlsi_emit_float(e, floor));
}

static int32_t rest_of(mlsi_emit *e, int32_t p) {
    int32_t one = mlsi_emit_float(e, 1);
    return mlsi_emit_2(e, MLSI_OP_SUB, one, p);
}

/* The factor of the rate behind the warm-up. */
static int32_t decayed_share(mlsi_emit *e, const mlsi_attr_learning_rate *a, int32_t step) {
    int32_t x;
    switch (a->schedule) {
    case MLSI_SCHEDULE_LINEAR:
        x = share_of(e, steps_since(e, step, a->warmup, a->steps - a->warmup),
                     a->steps - a->warmup);
        return above_floor(e, a->floor, rest_of(e, x));
    case MLSI_SCHEDULE_COSINE:
        x = share_of(e, steps_since(e, step, a->warmup, a->steps - a->warmup),
                     a->steps - a->warmup);
        x = mlsi_emit_2(e, MLSI_OP_MUL, x, mlsi_emit_float(e, 3.14159265358979323846));
        x = mlsi_emit_1(e, MLSI_OP_COS, x);
        x = mlsi_emit_2(e, MLSI_OP_ADD, x, mlsi_emit_float(e, 1));
        x = mlsi_emit_2(e, MLSI_OP_MUL, x, mlsi_emit_float(e, 0.5));
        return above_floor(e, a->floor, x);
    case MLSI_SCHEDULE_INVERSE_SQRT:
        x = mlsi_emit_cast(e, step, e->compute);
        x = mlsi_emit_2(e, MLSI_OP_DIV, mlsi_emit_float(e, a->warmup > 1 ? (double)a->warmup : 1),
                        x);
        x = mlsi_emit_1(e, MLSI_OP_SQRT, x);
        return mlsi_emit_2(e, MLSI_OP_MAX, x, mlsi_emit_float(e, a->floor));
    case MLSI_SCHEDULE_STEP: {
        int32_t base = mlsi_emit_float(e, a->factor);
        x = steps_since(e, step, a->warmup + (a->warmup < INT64_MAX), INT64_MAX);
        x = mlsi_emit_2(e, MLSI_OP_DIV, x, mlsi_emit_int(e, MLSYS_I64, a->every));
        x = mlsi_emit_2(e, MLSI_OP_POW, base, mlsi_emit_cast(e, x, e->compute));
        return mlsi_emit_2(e, MLSI_OP_MAX, x, mlsi_emit_float(e, a->floor));
    }
    case MLSI_SCHEDULE_WSD:
        x = share_of(e, steps_since(e, step, a->steps - a->decay, a->decay), a->decay);
        return above_floor(e, a->floor, rest_of(e, x));
    default: return mlsi_emit_float(e, 1);
    }
}

static mlsys_status decompose_rate(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_learning_rate *a = attrs;
    mlsi_emit e = {.g = g, .func = func, .compute = MLSYS_F64};
    (void)n_in, (void)n_out;
    int32_t step = mlsi_emit_2(&e, MLSI_OP_MAX, in[0], mlsi_emit_int(&e, MLSYS_I64, 1));
    int32_t share = decayed_share(&e, a, step);
    if (a->warmup) {
        int32_t rising = share_of(&e, step, a->warmup);
        int32_t warm = mlsi_emit_2(&e, MLSI_OP_LT, step, mlsi_emit_int(&e, MLSYS_I64, a->warmup));
        if (mlsi_fault(MLSI_FAULT_OPS_WARMUP)) warm = mlsi_emit_1(&e, MLSI_OP_NOT, warm);
        share = mlsi_emit_select(&e, warm, rising, share);
    }
    share = mlsi_emit_2(&e, MLSI_OP_MUL, share, mlsi_emit_float(&e, a->rate));
    out[0] = mlsi_emit_cast(&e, share, MLSYS_F32);
    return e.st;
}

static const char *const schedules[] = {"constant", "linear", "cosine", "inverse_sqrt",
                                        "step",     "wsd",    NULL};
static const mlsi_attr_desc rate_attrs[] = {
    {.name = "schedule",
     .kind = MLSI_ATTR_ENUM,
     .offset = offsetof(mlsi_attr_learning_rate, schedule),
     .names = schedules,
     .help = "what follows the warm-up"},
    MLSI_ATTR_NUMBER(mlsi_attr_learning_rate, rate, 0.001, "the highest rate"),
    MLSI_ATTR_WHOLE(mlsi_attr_learning_rate, warmup, 0, "steps of linear rise; its last has rate"),
    MLSI_ATTR_WHOLE(mlsi_attr_learning_rate, steps, 0,
                    "the step that reaches the floor, warm-up included (linear, cosine, wsd)"),
    MLSI_ATTR_NUMBER(mlsi_attr_learning_rate, floor, 0, "least share of rate after the warm-up"),
    MLSI_ATTR_NUMBER(mlsi_attr_learning_rate, factor, 0.1, "of one drop (step)"),
    MLSI_ATTR_WHOLE(mlsi_attr_learning_rate, every, 0, "steps between drops (step)"),
    MLSI_ATTR_WHOLE(mlsi_attr_learning_rate, decay, 0, "steps of the final decline (wsd)"),
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_learning_rate = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "step",
    .attrs_size = sizeof(mlsi_attr_learning_rate),
    .attrs = rate_attrs,
    .infer = infer_rate,
    .cost = cost_rate,
    .decompose = decompose_rate,
    .doc = "Learning rate of a step, i64, 1 in the first step: f32 rate * s. With t = max(step, "
           "1), W = "
           "warmup: s = t / W where t < W, else with p = min((t - W) / (steps - W), 1): constant: "
           "1; linear: "
           "floor + (1 - floor) * (1 - p); cosine (Loshchilov, Hutter 2017, without restarts): "
           "floor + (1 - "
           "floor) * (0.5 * (1 + cos(pi * p))); inverse_sqrt (Vaswani et al. 2017): max(floor, "
           "sqrt(max(W, 1) "
           "/ t)); step: max(floor, factor^((t - W - 1) / every)) with a whole quotient >= 0; wsd "
           "(Hu et al. "
           "2024): 1 until steps - decay, then floor + (1 - floor) * (1 - q), q = min((t - steps + "
           "decay) / "
           "decay, 1). Computed in f64, rounded once.",
    .special = "Steps below 1 count as 1; beyond steps the rate stays at its floor."};
