/* Attention with an order of sums that chunking, paging and splitting cannot change; the order is
 * docs/numerics.md, "Attention", written here literally. */
#include "ir/ops/attention.h"
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/reference.h"

#include <string.h>

enum { SEGMENT = 64 };

/* ---- type rule ----------------------------------------------------------------------------- */

static mlsys_status bad_operand(const mlsi_infer *t, int i, const char *expected) {
    char a[160];
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, i, "%s, expected %s",
                           mlsi_type_text(t->symbols, &t->in[i], a, sizeof a), expected);
}

static mlsys_status check_dtypes(const mlsi_infer *t) {
    for (int i = 0; i < 3; i++)
        MLSI_TRY(mlsi_infer_class(t, i, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_same_dtype(t, 1, 2));
    bool mixed = (t->in[0].dtype == MLSYS_F64) != (t->in[1].dtype == MLSYS_F64);
    if (mixed) return mlsi_infer_same_dtype(t, 0, 1);
    return MLSYS_OK;
}

static mlsys_status check_heads(const mlsi_infer *t) {
    const mlsi_type *q = &t->in[0], *k = &t->in[1], *v = &t->in[2];
    for (int i = 0; i < 3; i++)
        if (t->in[i].rank != 4) return bad_operand(t, i, "rank 4");
    if (k->dims[0] != q->dims[0] || k->dims[3] != q->dims[3])
        return bad_operand(t, 1, "[B, Lk, Hkv, D] with B and D of q");
    if (memcmp(v->dims, k->dims, 3 * sizeof *v->dims))
        return bad_operand(t, 2, "[B, Lk, Hkv, Dv] with B, Lk and Hkv of k");
    if (q->dims[3] < 0) return bad_operand(t, 0, "an integer as D");
    if (q->dims[2] < 0 || k->dims[2] < 0 ||
        (k->dims[2] ? q->dims[2] % k->dims[2] : q->dims[2]) != 0)
        return bad_operand(t, 1, "a number of heads Hkv that divides q's");
    return MLSYS_OK;
}

static mlsys_status check_mask(const mlsi_infer *t) {
    const mlsi_type *q = &t->in[0], *k = &t->in[1], *m = &t->in[3];
    if (!m->dtype) return MLSYS_OK;
    int64_t full[4] = {q->dims[0], q->dims[2], q->dims[1], k->dims[1]};
    MLSI_TRY(mlsi_infer_class(t, 3, MLSI_FLOATS | MLSI_BOOLS));
    if (m->dtype == MLSYS_F64 && q->dtype != MLSYS_F64) return mlsi_infer_same_dtype(t, 0, 3);
    bool fits = m->rank <= 4;
    for (int d = 0; d < m->rank && fits; d++)
        fits = m->dims[d] == 1 || m->dims[d] == full[d + 4 - m->rank];
    return fits ? MLSYS_OK : bad_operand(t, 3, "a shape that broadcasts to [B, H, Lq, Lk]");
}

static mlsys_status check_kv_len(const mlsi_infer *t) {
    const mlsi_type *n = &t->in[4];
    if (!n->dtype) return MLSYS_OK;
    if (n->dtype != MLSYS_I32 && n->dtype != MLSYS_I64)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, 4, "dtype %s, expected i32 or i64",
                               mlsi_dtype_get(n->dtype)->name);
    if (n->rank != 1 || n->dims[0] != t->in[0].dims[0]) return bad_operand(t, 4, "[B]");
    return MLSYS_OK;
}

static mlsys_status check_attrs(const mlsi_infer *t, mlsi_attr_attention *at) {
    if (at->causal < MLSI_CAUSAL_NONE || at->causal > MLSI_CAUSAL_BOTTOM_RIGHT)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute causal: %lld", (long long)at->causal);
    if (at->window < 0)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute window: %lld is negative",
                               (long long)at->window);
    if (!isfinite(at->scale) || !isfinite(at->softcap) || at->softcap < 0)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1,
                               "attributes scale %g, softcap %g: expected finite "
                               "numbers and softcap >= 0",
                               at->scale, at->softcap);
    return MLSYS_OK;
}

mlsys_status mlsi_infer_attention(const mlsi_infer *t) {
    mlsi_attr_attention *at = t->attrs;
    mlsi_type in[5];
    int n = t->n_in < 5 ? t->n_in : 5;
    memset(in, 0, sizeof in);
    memcpy(in, t->in, sizeof *in * (size_t)n);
    mlsi_infer all = *t; /* with absent optional operands filled in */
    all.in = in;
    MLSI_TRY(check_attrs(t, at));
    MLSI_TRY(check_dtypes(&all));
    MLSI_TRY(check_heads(&all));
    MLSI_TRY(check_mask(&all));
    MLSI_TRY(check_kv_len(&all));
    if (at->scale == 0) at->scale = in[0].dims[3] ? 1.0 / sqrt((double)in[0].dims[3]) : 1.0;
    return MLSYS_OK;
}

static mlsys_status infer_attention(mlsi_infer *t) {
    const mlsi_attr_attention *at = t->attrs;
    const mlsi_type *q = &t->in[0], *v = &t->in[2];
    MLSI_TRY(mlsi_infer_attention(t));
    if (t->n_out != (at->lse ? 2 : 1))
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "%d results asked, lse = %lld gives %d",
                               t->n_out, (long long)at->lse, at->lse ? 2 : 1);
    t->out[0] = *q;
    t->out[0].dims[3] = v->dims[3];
    if (at->lse)
        t->out[1] = (mlsi_type){
            q->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32, 3, {q->dims[0], q->dims[2], q->dims[1]}};
    return MLSYS_OK;
}

/* ---- reference ----------------------------------------------------------------------------- */

/* One query row: batch b, head h, query i. */
typedef struct query {
    const mlsi_ref_args *a;
    const mlsi_attr_attention *at;
    bool f64;
    int64_t b, h, i, kv_head;
    int64_t keys, valid, position; /* Lk, n, p */
    int64_t key;                   /* whose score is being computed */
} query;

static double element4(const mlsi_view *v, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    int64_t index[4] = {i0, i1, i2, i3};
    return mlsi_ref_get_f(v, mlsi_ref_ravel(4, v->shape, index));
}

static void score_pair(void *user, int64_t k, double *a, double *b) {
    const query *q = user;
    *a = element4(&q->a->in[0], q->b, q->i, q->h, k);
    *b = element4(&q->a->in[1], q->b, q->key, q->kv_head, k);
}

/* The mask's element for this query and key; *allowed for bool masks, else the addend. */
static double mask_value(const query *q, int64_t key, bool *allowed) {
    const mlsi_view *m = q->a->n_in > 3 ? &q->a->in[3] : NULL;
    int64_t full[4] = {q->b, q->h, q->i, key}, index[4] = {0};
    *allowed = true;
    if (!m || !m->data) return 0;
    for (int d = 0; d < m->rank; d++)
        index[d] = m->shape[d] == 1 ? 0 : full[d + 4 - m->rank];
    int64_t at = mlsi_ref_ravel(m->rank, m->shape, index);
    if (m->dtype != MLSYS_BOOL) return mlsi_ref_get_f(m, at);
    *allowed = mlsi_ref_get_i(m, at) != 0;
    return 0;
}

/* The score of a visible key; false when the key is invisible. */
static bool score(query *q, int64_t key, double *out) {
    bool allowed, additive = q->a->n_in > 3 && q->a->in[3].data && q->a->in[3].dtype != MLSYS_BOOL;
    double addend = mask_value(q, key, &allowed), cap = mlsi_ref_narrow(q->f64, q->at->softcap);
    if (key >= q->valid || !allowed) return false;
    if (q->at->causal != MLSI_CAUSAL_NONE && key > q->position) return false;
    if (q->at->window > 0 && key <= q->position - q->at->window) return false;
    q->key = key;
    double s = mlsi_ref_dot(q->f64, -0.0, q->a->in[0].shape[3], score_pair, q);
    s = mlsi_ref_mul(q->f64, s, mlsi_ref_narrow(q->f64, q->at->scale));
    if (cap > 0) {
        double r = mlsi_ref_div(q->f64, s, cap);
        r = q->f64 ? mlsi_ed_tanh(r) : (double)mlsi_ef_tanh((float)r);
        s = mlsi_ref_mul(q->f64, cap, r);
    }
    if (additive) s = mlsi_ref_add(q->f64, s, addend);
    *out = s;
    return s != -INFINITY;
}

typedef struct segment {
    bool visible[SEGMENT];
    double e[SEGMENT]; /* scores, then exp(s - m); +0 where invisible */
    double m, l;
} segment;

static double slot(void *user, int64_t i) { return ((const segment *)user)->e[i]; }

/* Keys first..first+63; false when none is visible. */
static bool read_segment(query *q, int64_t first, segment *g) {
    bool any = false;
    for (int j = 0; j < SEGMENT; j++) {
        g->e[j] = 0;
        g->visible[j] = first + j < q->keys && score(q, first + j, &g->e[j]);
        if (!g->visible[j]) {
            g->e[j] = 0;
            continue;
        }
        g->m = any ? mlsi_ref_max(g->m, g->e[j]) : g->e[j];
        any = true;
    }
    for (int j = 0; j < SEGMENT; j++)
        if (g->visible[j]) g->e[j] = mlsi_ref_exp(q->f64, mlsi_ref_sub(q->f64, g->e[j], g->m));
    g->l = mlsi_ref_sum(q->f64, SEGMENT, slot, g);
    return any;
}

static double segment_value(const query *q, const segment *g, int64_t first, int64_t d) {
    double o = 0;
    for (int j = 0; j < SEGMENT; j++)
        if (g->visible[j])
            o = mlsi_ref_fma(q->f64, g->e[j],
                             element4(&q->a->in[2], q->b, first + j, q->kv_head, d), o);
    return o;
}

/* o has room for Dv values. Returns the log-sum-exp. */
static double attend(query *q, double *o, int64_t width) {
    bool started = false;
    double m = 0, l = 0;
    segment g;
    memset(&g, 0, sizeof g);
    for (int64_t first = 0; first < q->keys; first += SEGMENT) {
        if (!read_segment(q, first, &g)) continue;
        double top = started ? mlsi_ref_max(m, g.m) : g.m;
        double a = started ? mlsi_ref_exp(q->f64, mlsi_ref_sub(q->f64, m, top)) : 0;
        double b = started ? mlsi_ref_exp(q->f64, mlsi_ref_sub(q->f64, g.m, top)) : 1;
        for (int64_t d = 0; d < width; d++) {
            double part = segment_value(q, &g, first, d);
            o[d] = started ? mlsi_ref_fma(q->f64, o[d], a, mlsi_ref_mul(q->f64, part, b)) : part;
        }
        l = started ? mlsi_ref_fma(q->f64, l, a, mlsi_ref_mul(q->f64, g.l, b)) : g.l;
        m = top;
        started = true;
    }
    double none = mlsi_fault(MLSI_FAULT_OPS_MASKED_ROW_NAN) ? NAN : 0;
    for (int64_t d = 0; d < width; d++)
        o[d] = started ? mlsi_ref_div(q->f64, o[d], l) : none;
    return started ? mlsi_ref_add(q->f64, m, mlsi_ref_log(q->f64, l)) : -INFINITY;
}

static mlsys_status valid_keys(const mlsi_ref_args *a, int64_t b, int64_t *out) {
    int64_t keys = a->in[1].shape[1];
    *out = keys;
    if (a->n_in < 5 || !a->in[4].data) return MLSYS_OK;
    *out = mlsi_ref_get_i(&a->in[4], b);
    if (*out >= 0 && *out <= keys) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "attention: kv_len[%lld] is %lld, outside [0,%lld]", (long long)b,
                     (long long)*out, (long long)keys);
}

static void attend_batch(const mlsi_ref_args *a, query *q, double *o) {
    const mlsi_view *y = &a->out[0];
    int64_t queries = y->shape[1], heads = y->shape[2], width = y->shape[3];
    for (q->h = 0; q->h < heads; q->h++)
        for (q->i = 0; q->i < queries; q->i++) {
            q->kv_head = q->h / (heads / a->in[1].shape[2]);
            q->position =
                q->at->causal == MLSI_CAUSAL_BOTTOM_RIGHT ? q->valid - queries + q->i : q->i;
            if (mlsi_fault(MLSI_FAULT_OPS_ALIGNMENT)) q->position = q->i;
            double lse = attend(q, o, width);
            int64_t at = ((q->b * queries + q->i) * heads + q->h) * width;
            for (int64_t d = 0; d < width; d++)
                mlsi_ref_set_f(y, at + d, o[d]);
            if (a->n_out > 1)
                mlsi_ref_set_f(&a->out[1], (q->b * heads + q->h) * queries + q->i, lse);
        }
}

static mlsys_status ref_attention(const mlsi_ref_args *a) {
    query q = {
        .a = a, .at = a->attrs, .f64 = mlsi_ref_is_f64(a->in[0].dtype), .keys = a->in[1].shape[1]};
    double *o;
    for (int64_t b = 0; b < a->in[0].shape[0]; b++)
        MLSI_TRY(valid_keys(a, b, &q.valid));
    MLSI_TRY(MLSI_NEW_N(a->alloc, a->out[0].shape[3] + 1, &o));
    for (q.b = 0; q.b < a->in[0].shape[0]; q.b++) {
        (void)valid_keys(a, q.b, &q.valid); /* checked above */
        attend_batch(a, &q, o);
    }
    mlsi_mem_free(a->alloc, o);
    return MLSYS_OK;
}

/* All keys count, an upper bound: what masks and kv_len hide is known only in the run. */
static void cost_attention(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_view *q = &a->in[0], *k = &a->in[1], *v = &a->in[2];
    uint64_t scores = (uint64_t)(q->shape[0] * q->shape[1] * q->shape[2]) * (uint64_t)k->shape[1];
    c->flops = 2 * scores * (uint64_t)(q->shape[3] + v->shape[3]);
    c->transcendentals = scores;
}

const char *const mlsi_causal_names[] = {"none", "top_left", "bottom_right", NULL};
static const mlsi_attr_desc attention_attrs[] = {
    MLSI_ATTENTION_ATTRS,
    {.name = "lse",
     .kind = MLSI_ATTR_BOOL,
     .offset = offsetof(mlsi_attr_attention, lse),
     .help = "second result: log-sum-exp of the scores [B, H, Lq]"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_attention = {
    .min_in = 3,
    .max_in = 5,
    .min_out = 1,
    .max_out = 2,
    .operands = "q, k, v, mask?, kv_len?",
    .traits = MLSI_TRAIT_DIFFERENTIABLE | MLSI_TRAIT_CHECKS_DATA,
    .narrow = MLSI_NARROW_COMPUTES,
    .narrow_keeps = 1u << 3, /* the mask */

    .attrs_size = sizeof(mlsi_attr_attention),
    .attrs = attention_attrs,
    .infer = infer_attention,
    .cost = cost_attention,
    .ref = ref_attention,
    .nest = mlsi_loops_attention,
    .vjp = mlsi_vjp_attention,
    .doc = "q [B, Lq, H, D], k [B, Lk, Hkv, D], v [B, Lk, Hkv, Dv] to [B, Lq, H, Dv] of q's dtype: "
           "softmax(q k^T * "
           "scale) v per head; head h reads head h / (H / Hkv) of k and v. mask (bool: true = "
           "visible, or a float "
           "that is added) broadcasts to [B, H, Lq, Lk]; kv_len (i32 or i64 [B]) is the number n "
           "of valid keys, "
           "default Lk. k and v share a dtype, which may be a narrower float than q's. Order of "
           "sums, positions "
           "and visibility: docs/numerics.md, \"Attention\". Whole prefill, chunks, one token at a "
           "time: the same "
           "bits. There is no default alignment: causal names one. The log-sum-exp is f32 (f64 for "
           "f64).",
    .special =
        "A query without visible key gives zeros and a log-sum-exp of -inf. Invisible keys have no "
        "influence, whatever they hold. A NaN score makes its query NaN. kv_len outside [0, Lk] is "
        "an "
        "error at run time.",
    .onnx = "Attention"};
