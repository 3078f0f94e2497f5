/* Elementwise steps of optimisers in one pass over memory instead of one per written operation: f32, contiguous.
 * Operations and roundings are those of the decompositions in ir/ops/optimizer.c, in that order. */
#include "core/elementary.h"
#include "cpu/iterate.h"
#include "cpu/kernel.h"

enum { TENSORS = 4, BLOCK = 2048, GRAIN = 8 };

typedef struct update_job {
    const float *in[TENSORS]; /* w, g, m, v */
    float *out[TENSORS - 1];  /* w, m, v */
    int64_t n;
    /* Vectors of one number each: attributes, and scalars of the step. */
    VF lr, rate, decay, mu, fresh, mu2, fresh2, eps, correction;
    bool decayed, coupled, moment, nesterov;
} update_job;

typedef void (*update_fn)(const update_job *j, const VF *x, VF *y);

V_FN void update_block(const update_job *j, int64_t i, int m, int n_in, int n_out, update_fn fn) {
    VF x[TENSORS], y[TENSORS - 1];
    for (int k = 0; k < TENSORS; k++)
        x[k] = y[k < TENSORS - 1 ? k : 0] = vf_zero();
    for (int k = 0; k < n_in; k++)
        x[k] = m == VF_LANES ? vf_load(j->in[k] + i) : vf_load_n(j->in[k] + i, m);
    fn(j, x, y);
    for (int k = 0; k < n_out; k++) {
        if (m == VF_LANES)
            vf_store(j->out[k] + i, y[k]);
        else
            vf_store_n(j->out[k] + i, y[k], m);
    }
}

/* Blocks [item, last) of the tensors. */
V_FN void update_blocks(const update_job *j, int64_t item, int64_t last, int n_in, int n_out,
                        update_fn fn) {
    int64_t i = item * BLOCK, end = last * BLOCK < j->n ? last * BLOCK : j->n;
    for (; i + VF_LANES <= end; i += VF_LANES)
        update_block(j, i, VF_LANES, n_in, n_out, fn);
    if (i < end) update_block(j, i, (int)(end - i), n_in, n_out, fn);
}

/* a * x + b * y, three roundings. */
V_FN VF weighed(VF a, VF x, VF b, VF y) { return vf_add(vf_mul(x, a), vf_mul(y, b)); }
/* w - (lr * decay) * w */
V_FN VF decayed(const update_job *j, VF w) {
    return j->decayed ? vf_sub(w, vf_mul(j->rate, w)) : w;
}

V_FN void sgd(const update_job *j, const VF *x, VF *y) {
    VF d = j->coupled ? vf_add(x[1], vf_mul(x[0], j->decay)) : x[1];
    if (j->moment) {
        y[1] = weighed(j->mu, x[2], j->fresh, d);
        d = j->nesterov ? vf_add(d, vf_mul(y[1], j->mu)) : y[1];
    }
    y[0] = vf_sub(x[0], vf_mul(j->lr, d));
}

V_FN void adam(const update_job *j, const VF *x, VF *y) {
    VF w = decayed(j, x[0]);
    VF d = j->coupled ? vf_add(x[1], vf_mul(x[0], j->decay)) : x[1];
    VF m = weighed(j->mu, x[2], j->fresh, d), v = weighed(j->mu2, x[3], j->fresh2, vf_mul(d, d));
    VF below = vf_add(vf_sqrt(vf_div(v, j->correction)), j->eps);
    y[0] = vf_sub(w, vf_mul(j->lr, vf_div(m, below)));
    y[1] = m;
    y[2] = v;
}

V_FN void lion(const update_job *j, const VF *x, VF *y) {
    VF a = weighed(j->mu, x[2], j->fresh, x[1]);
    VM keep = vm_or(vf_eq(a, vf_zero()), vf_isnan(a));
    VF sign = vf_select(keep, a, vf_copysign(vf_set1(1.0f), a));
    y[0] = vf_sub(decayed(j, x[0]), vf_mul(j->lr, sign));
    y[1] = weighed(j->mu2, x[2], j->fresh2, x[1]);
}

V_FN void ema(const update_job *j, const VF *x, VF *y) {
    y[0] = weighed(j->mu, x[0], j->fresh, x[1]);
}

#define BLOCKS(fn, n_in, n_out)                                                                    \
    static void fn##_blocks(const void *user, int64_t item, int64_t last, int worker) {            \
        (void)worker;                                                                              \
        update_blocks(user, item, last, n_in, n_out, fn);                                          \
    }
BLOCKS(sgd, 2, 1)
BLOCKS(adam, 4, 3)
BLOCKS(lion, 3, 2)
BLOCKS(ema, 2, 1)
static void sgd_moment_blocks(const void *user, int64_t item, int64_t last, int worker) {
    (void)worker;
    update_blocks(user, item, last, 3, 2, sgd);
}

/* ---- calls --------------------------------------------------------------------------------- */

static float scalar_of(const mlsi_view *v) { return *(const float *)v->data; }
static VF number(double value) { return vf_set1((float)value); }

/* Operands 0, 1 and, behind the rate, the moments. */
static mlsys_status run_blocks(const mlsi_kernel_args *args, update_job *j, mlsi_range_fn fn) {
    j->n = mlsi_view_count(&args->out[0]);
    j->in[0] = args->in[0].data;
    j->in[1] = args->in[1].data;
    for (int k = 1; k < args->n_out; k++)
        j->in[1 + k] = args->in[2 + k].data;
    for (int k = 0; k < args->n_out; k++)
        j->out[k] = args->out[k].data;
    mlsi_range_run(args->pool, (j->n + BLOCK - 1) / BLOCK, GRAIN, fn, j);
    return MLSYS_OK;
}

static mlsys_status sgd_run(const mlsi_kernel_args *args) {
    const mlsi_attr_sgd *at = args->attrs;
    update_job j = {.lr = vf_set1(scalar_of(&args->in[2])),
                    .decay = number(at->weight_decay),
                    .mu = number(at->momentum),
                    .fresh = number(1 - at->dampening),
                    .coupled = at->weight_decay != 0,
                    .moment = args->n_out > 1,
                    .nesterov = at->nesterov != 0};
    return run_blocks(args, &j, j.moment ? sgd_moment_blocks : sgd_blocks);
}

static mlsys_status adam_run(const mlsi_kernel_args *args) {
    const mlsi_attr_adam *at = args->attrs;
    float lr = scalar_of(&args->in[2]);
    double count = (double)*(const int64_t *)args->in[5].data;
    float c1 = (float)(1.0 - mlsi_ed_pow(at->beta1, count));
    float c2 = (float)(1.0 - mlsi_ed_pow(at->beta2, count));
    update_job j = {.lr = vf_set1(lr / c1),
                    .rate = vf_set1(lr * (float)at->weight_decay),
                    .decay = number(at->weight_decay),
                    .mu = number(at->beta1),
                    .fresh = number(1 - at->beta1),
                    .mu2 = number(at->beta2),
                    .fresh2 = number(1 - at->beta2),
                    .eps = number(at->eps),
                    .correction = vf_set1(c2),
                    .decayed = at->decoupled && at->weight_decay != 0,
                    .coupled = !at->decoupled && at->weight_decay != 0};
    return run_blocks(args, &j, adam_blocks);
}

static mlsys_status lion_run(const mlsi_kernel_args *args) {
    const mlsi_attr_lion *at = args->attrs;
    float lr = scalar_of(&args->in[2]);
    update_job j = {.lr = vf_set1(lr),
                    .rate = vf_set1(lr * (float)at->weight_decay),
                    .mu = number(at->beta1),
                    .fresh = number(1 - at->beta1),
                    .mu2 = number(at->beta2),
                    .fresh2 = number(1 - at->beta2),
                    .decayed = at->weight_decay != 0};
    return run_blocks(args, &j, lion_blocks);
}

static mlsys_status ema_run(const mlsi_kernel_args *args) {
    const mlsi_attr_ema *at = args->attrs;
    update_job j = {.mu = number(at->decay), .fresh = number(1 - at->decay)};
    return run_blocks(args, &j, ema_blocks);
}

static bool accepts_update(const mlsi_query *q) {
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i].present &&
            (!q->in[i].contiguous || (q->in[i].dtype != MLSYS_F32 && q->in[i].dtype != MLSYS_I64)))
            return false;
    for (int i = 0; i < q->n_out; i++)
        if (q->out[i].dtype != MLSYS_F32 || !q->out[i].contiguous) return false;
    return true;
}

#define UPDATE_ROW(ID, name_, places)                                                              \
    {                                                                                              \
        .op = MLSI_OP_##ID, .isa = MLSI_K_ISA, .name = MLSI_K_NAME(#name_ "_step"),                \
        .accepts = accepts_update, .run = name_##_run, .in_place = places                          \
    }

MLSI_KERNEL_TABLE(optimizer) = {
    UPDATE_ROW(SGD_STEP, sgd, 1 << 0 | 1 << 3),
    UPDATE_ROW(ADAM_STEP, adam, 1 << 0 | 1 << 3 | 1 << 4),
    UPDATE_ROW(LION_STEP, lion, 1 << 0 | 1 << 3),
    UPDATE_ROW(EMA_STEP, ema, 1 << 0),
    {.run = NULL},
};
