/* attention: online softmax over key segments of 64, in the order of docs/numerics.md; no Lq x Lk buffer.
 *
 * A tile is up to 48 (query position, head of the group) rows that share one kv head. For each segment its
 * keys are transposed once into lanes; scores and weighted values are FMA chains for 6 rows at a
 * time (attention_tile.h). Work items are tiles; when there are few of them (decoding), segments are
 * spread over the workers, their summaries stored, and merged in ascending order afterwards, which
 * is the same arithmetic.
 *
 * Bound: 4 * D flops per visible (row, key); decode reads each cached key and value once per kv head. */
#include "core/faults.h"
#include "cpu/kernels/attention_tile.h"
#include "cpu/kernels/stage.h"
#include "core/elementary.inc"

#include <math.h>

enum { TILE_ROWS = 48, SPLIT_BELOW = 8, ITEM_SEGMENTS = 4, K_SEGMENT = 256 };

typedef struct att {
    const mlsi_kernel_args *args;
    const mlsi_attr_attention *attrs;
    const mlsi_view *q, *k, *v, *mask, *kv_len, *out, *lse;
    int64_t B, Lq, H, Hkv, G, Lk, D, Dv;
    int64_t rows, tile_rows, tiles, n_tiles; /* rows and tiles of one kv head; all tiles */
    int64_t max_segments, item_count;        /* segments; split: items per tile */
    bool split;
    float scale;
    int64_t mask_strides[4];
    int64_t worker_floats, summary_floats;
    float *summaries; /* split: [n_tiles][max_segments][tile_rows][Dv + 2] */
} att;

typedef struct tile { /* one worker's view of one tile */
    const att *a;
    int64_t b, kv_head, first_row, n_rows, n_keys;
    float *kt, *key_rows, *values, *q, *s, *s2, *seg_o, *run_o, *seg_m, *seg_l, *run_m, *run_l;
    bool started[TILE_ROWS], visible[TILE_ROWS];
    int64_t lo[TILE_ROWS], hi[TILE_ROWS];
} tile;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void shape_of(att *a, const mlsi_kernel_args *args) {
    memset(a, 0, sizeof *a);
    a->args = args;
    a->attrs = args->attrs;
    a->q = &args->in[0], a->k = &args->in[1], a->v = &args->in[2];
    a->mask = args->n_in > 3 && args->in[3].dtype ? &args->in[3] : NULL;
    a->kv_len = args->n_in > 4 && args->in[4].dtype ? &args->in[4] : NULL;
    a->out = &args->out[0];
    a->lse = args->n_out > 1 ? &args->out[1] : NULL;
    a->B = a->q->shape[0], a->Lq = a->q->shape[1], a->H = a->q->shape[2], a->D = a->q->shape[3];
    a->Lk = a->k->shape[1], a->Hkv = a->k->shape[2], a->Dv = a->v->shape[3];
    a->G = a->Hkv ? a->H / a->Hkv : 0;
    a->rows = a->Lq * a->G;
    a->tile_rows = a->rows < TILE_ROWS ? a->rows : TILE_ROWS;
    a->tiles = a->tile_rows ? divide_up(a->rows, a->tile_rows) : 0;
    a->n_tiles = a->B * a->Hkv * a->tiles;
    a->max_segments = divide_up(a->Lk, ATT_SEGMENT);
    a->split = a->n_tiles < SPLIT_BELOW && a->max_segments > ITEM_SEGMENTS;
    a->item_count = a->split ? divide_up(a->max_segments, ITEM_SEGMENTS) : 1;
    a->scale = (float)a->attrs->scale; /* inference has put the default in */
    int64_t R = a->tile_rows;
    a->worker_floats = ATT_SEGMENT * (a->D + a->Dv + 2 * R) + 8 * a->D + R * (a->D + 2 * a->Dv + 4);
    a->worker_floats = divide_up(a->worker_floats, 16) * 16;
    a->summary_floats = a->split ? a->n_tiles * a->max_segments * R * (a->Dv + 2) : 0;
}

static uint64_t attention_work(const mlsi_kernel_args *args, int threads) {
    att a;
    shape_of(&a, args);
    return sizeof(float) *
           ((uint64_t)a.worker_floats * (uint64_t)threads + (uint64_t)a.summary_floats);
}

static char *at4(const mlsi_view *v, int64_t i, int64_t j, int64_t k) {
    return (char *)v->data +
           (i * v->strides[0] + j * v->strides[1] + k * v->strides[2]) * mlsi_dtype_size(v->dtype);
}

static int64_t read_length(const mlsi_view *v, int64_t b) {
    const char *p = (const char *)v->data + b * v->strides[0] * mlsi_dtype_size(v->dtype);
    if (v->dtype == MLSYS_I64) {
        int64_t n;
        memcpy(&n, p, sizeof n);
        return n;
    }
    int32_t n;
    memcpy(&n, p, sizeof n);
    return n;
}

/* Which keys each row may see: [lo, hi). */
static void row_limits(tile *t) {
    const att *a = t->a;
    const mlsi_attr_attention *at = a->attrs;
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t i = (t->first_row + r) / a->G;
        int64_t p = at->causal == MLSI_CAUSAL_BOTTOM_RIGHT ? t->n_keys - a->Lq + i : i;
        if (mlsi_fault(MLSI_FAULT_KERNEL_ATTENTION_LIMIT)) p++;
        t->lo[r] = at->window > 0 && p - at->window + 1 > 0 ? p - at->window + 1 : 0;
        t->hi[r] = at->causal != MLSI_CAUSAL_NONE && p + 1 < t->n_keys ? p + 1 : t->n_keys;
        if (t->hi[r] < t->lo[r]) t->hi[r] = t->lo[r];
        t->started[r] = false;
    }
}

static void open_tile(tile *t, const att *a, int64_t index, int worker) {
    int64_t head = index / a->tiles, R = a->tile_rows;
    float *p = (float *)a->args->work + a->worker_floats * worker;
    memset(t, 0, sizeof *t);
    t->a = a;
    t->b = head / a->Hkv;
    t->kv_head = head % a->Hkv;
    t->first_row = index % a->tiles * R;
    t->n_rows = a->rows - t->first_row < R ? a->rows - t->first_row : R;
    t->n_keys = a->kv_len ? read_length(a->kv_len, t->b) : a->Lk;
    t->kt = p, p += ATT_SEGMENT * a->D;
    t->values = p, p += ATT_SEGMENT * a->Dv;
    t->s = p, p += ATT_SEGMENT * R;
    t->s2 = p, p += ATT_SEGMENT * R;
    t->key_rows = p, p += 8 * a->D;
    t->q = p, p += R * a->D;
    t->seg_o = p, p += R * a->Dv;
    t->run_o = p, p += R * a->Dv;
    t->seg_m = p, t->seg_l = p + R, t->run_m = p + 2 * R, t->run_l = p + 3 * R;
    row_limits(t);
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t i = (t->first_row + r) / a->G, g = (t->first_row + r) % a->G;
        load_f32(t->q + r * a->D, at4(a->q, t->b, i, t->kv_head * a->G + g), a->q->dtype,
                 a->q->strides[3] * mlsi_dtype_size(a->q->dtype), a->D);
    }
}

/* s [rows, 64] = q . k along D, in segments of 256 added in order. */
static void scores(tile *t, int64_t first, int64_t n) {
    const att *a = t->a;
    pack_keys(t->kt, at4(a->k, t->b, first, t->kv_head),
              a->k->strides[1] * mlsi_dtype_size(a->k->dtype), a->k->dtype, n, a->D, t->key_rows);
    if (a->D == 0) memset(t->s, 0, sizeof *t->s * (size_t)(t->n_rows * ATT_SEGMENT));
    for (int64_t d = 0; d < a->D; d += K_SEGMENT) {
        int64_t dn = a->D - d < K_SEGMENT ? a->D - d : K_SEGMENT;
        float *to = d ? t->s2 : t->s;
        chain(t->n_rows, dn, t->q + d, a->D, t->kt + d * ATT_SEGMENT, ATT_SEGMENT, to, ATT_SEGMENT,
              ATT_SEGMENT);
        for (int64_t i = 0; d && i < t->n_rows * ATT_SEGMENT; i += VF_LANES)
            vf_store(t->s + i, vf_add(vf_load(t->s + i), vf_load(t->s2 + i)));
    }
}

static void apply_mask(const tile *t, int64_t r, int64_t first, float *s, int64_t lo, int64_t hi) {
    const att *a = t->a;
    int64_t i = (t->first_row + r) / a->G, h = t->kv_head * a->G + (t->first_row + r) % a->G;
    const char *row = (const char *)a->mask->data;
    int64_t size = mlsi_dtype_size(a->mask->dtype);
    row += (t->b * a->mask_strides[0] + h * a->mask_strides[1] + i * a->mask_strides[2]) * size;
    for (int64_t j = lo; j < hi; j++) {
        const char *p = row + (first + j) * a->mask_strides[3] * size;
        float add = 0;
        if (a->mask->dtype == MLSYS_BOOL) {
            if (!*(const uint8_t *)p) s[j] = -INFINITY;
            continue;
        }
        load_row(&add, p, a->mask->dtype, 1);
        s[j] = s[j] + add;
    }
}

/* One row of a segment: scale, cap, masks; then s holds exp(s - m), 0 where invisible, and x the scores.
 * Answers whether anything is visible, and whether all of [lo, hi) is. */
static bool softmax_segment(const tile *t, int64_t r, int64_t first, float *s, float *x, int64_t lo,
                            int64_t hi, bool *dense) {
    const att *a = t->a;
    float cap = (float)a->attrs->softcap;
    VF m[ATT_REGS], top = vf_set1(-INFINITY);
    for (int i = 0; i < ATT_SEGMENT; i += VF_LANES) {
        VF v = vf_mul(vf_load(s + i), vf_set1(a->scale));
        if (cap != 0) v = vf_mul(vf_set1(cap), ef_tanh(vf_div(v, vf_set1(cap))));
        vf_store(s + i, v);
    }
    for (int64_t j = 0; j < lo; j++)
        s[j] = -INFINITY;
    for (int64_t j = hi; j < ATT_SEGMENT; j++)
        s[j] = -INFINITY;
    if (a->mask) apply_mask(t, r, first, s, lo, hi);
    for (int i = 0; i < ATT_REGS; i++) {
        m[i] = vf_load(s + i * VF_LANES);
        vf_store(x + i * VF_LANES, m[i]);
        top = vf_maximum(top, m[i]);
    }
    float seg_m = vf_reduce_maximum(top);
    *dense = true;
    if (seg_m == -INFINITY) return false;
    for (int64_t j = lo; j < hi; j++)
        *dense &= x[j] != -INFINITY;
    for (int i = 0; i < ATT_REGS; i++) {
        VM none = vf_eq(m[i], vf_set1(-INFINITY));
        m[i] = vf_select(none, vf_zero(), ef_exp(vf_sub(m[i], vf_set1(seg_m))));
        vf_store(s + i * VF_LANES, m[i]);
    }
    for (int h = ATT_REGS / 2; h >= 1; h /= 2)
        for (int i = 0; i < h; i++)
            m[i] = vf_add(m[i], m[i + h]);
    t->seg_m[r] = seg_m;
    t->seg_l[r] = vf_reduce_add(m[0]);
    return true;
}

/* o = chain over the visible keys only. */
static void sparse_values(const float *e, const float *x, int64_t lo, int64_t hi,
                          const float *values, int64_t ldv, float *o, int64_t n) {
    for (int64_t at = 0; at < n; at += VF_LANES) {
        int w = n - at < VF_LANES ? (int)(n - at) : VF_LANES;
        VF acc = vf_zero();
        for (int64_t j = lo; j < hi; j++)
            if (x[j] != -INFINITY)
                acc = vf_fma(vf_set1(e[j]), vf_load_n(values + j * ldv + at, w), acc);
        vf_store_n(o + at, acc, w);
    }
}

/* Weighted values of all rows; neighbours with the same limits go together. */
static void weigh_values(tile *t, int64_t first, int64_t n, const bool *dense) {
    const att *a = t->a;
    const float *values = t->values;
    int64_t ldv = a->Dv;
    if (a->v->dtype == MLSYS_F32) {
        values = (const float *)(const void *)at4(a->v, t->b, first, t->kv_head);
        ldv = a->v->strides[1];
    } else {
        for (int64_t j = 0; j < n; j++)
            load_row(t->values + j * a->Dv, at4(a->v, t->b, first + j, t->kv_head), a->v->dtype,
                     a->Dv);
    }
    for (int64_t r = 0; r < t->n_rows;) {
        int64_t lo = t->lo[r] > first ? t->lo[r] - first : 0;
        int64_t hi = t->hi[r] - first < ATT_SEGMENT ? t->hi[r] - first : ATT_SEGMENT;
        int64_t end = r + 1;
        if (t->visible[r] && !dense[r])
            sparse_values(t->s + r * ATT_SEGMENT, t->s2 + r * ATT_SEGMENT, lo, hi, values, ldv,
                          t->seg_o + r * a->Dv, a->Dv);
        if (t->visible[r] && dense[r]) {
            while (end < t->n_rows && t->visible[end] && dense[end] &&
                   (t->lo[end] > first ? t->lo[end] - first : 0) == lo &&
                   (t->hi[end] - first < ATT_SEGMENT ? t->hi[end] - first : ATT_SEGMENT) == hi)
                end++;
            chain(end - r, hi - lo, t->s + r * ATT_SEGMENT + lo, ATT_SEGMENT, values + lo * ldv,
                  ldv, t->seg_o + r * a->Dv, a->Dv, a->Dv);
        }
        r = end;
    }
}

static void segment(tile *t, int64_t seg) {
    int64_t first = seg * ATT_SEGMENT;
    int64_t n = t->n_keys - first < ATT_SEGMENT ? t->n_keys - first : ATT_SEGMENT;
    bool dense[TILE_ROWS];
    scores(t, first, n);
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t lo = t->lo[r] > first ? t->lo[r] - first : 0;
        int64_t hi = t->hi[r] - first < ATT_SEGMENT ? t->hi[r] - first : ATT_SEGMENT;
        t->visible[r] = lo < hi && softmax_segment(t, r, first, t->s + r * ATT_SEGMENT,
                                                   t->s2 + r * ATT_SEGMENT, lo, hi, &dense[r]);
    }
    weigh_values(t, first, n, dense);
}

/* (m, l, o) <- merge of itself and a later segment's. */
static void merge(float *m, float *l, float *o, float seg_m, float seg_l, const float *seg_o,
                  int64_t n) {
    float pair[VF_LANES] = {0}, top = vf_reduce_maximum(vf_maximum(vf_set1(*m), vf_set1(seg_m)));
    pair[0] = *m - top;
    pair[1] = seg_m - top;
    vf_store(pair, ef_exp(vf_load(pair)));
    VF a = vf_set1(pair[0]), b = vf_set1(pair[1]);
    *m = top;
    vf_store(pair, vf_fma(vf_set1(*l), a, vf_mul(vf_set1(seg_l), b)));
    *l = pair[0];
    for (int64_t i = 0; i < n; i += VF_LANES) {
        int w = n - i < VF_LANES ? (int)(n - i) : VF_LANES;
        VF part = vf_mul(vf_load_n(seg_o + i, w), b);
        VF v = vf_fma(vf_load_n(o + i, w), a, part);
        if (mlsi_fault(MLSI_FAULT_KERNEL_ATTENTION_MERGE))
            v = vf_add(vf_mul(vf_load_n(o + i, w), a), part);
        vf_store_n(o + i, v, w);
    }
}

static void merge_or_start(bool *started, float *m, float *l, float *o, float seg_m, float seg_l,
                           const float *seg_o, int64_t n) {
    if (*started) {
        merge(m, l, o, seg_m, seg_l, seg_o, n);
        return;
    }
    *started = true;
    *m = seg_m;
    *l = seg_l;
    memcpy(o, seg_o, sizeof *o * (size_t)n);
}

static void write_row(const att *a, int64_t b, int64_t kv_head, int64_t row, bool started, float m,
                      float l, float *o) {
    int64_t i = row / a->G, h = kv_head * a->G + row % a->G, size = mlsi_dtype_size(a->out->dtype);
    if (!started) memset(o, 0, sizeof *o * (size_t)a->Dv);
    for (int64_t d = 0; started && d < a->Dv; d += VF_LANES) {
        int w = a->Dv - d < VF_LANES ? (int)(a->Dv - d) : VF_LANES;
        vf_store_n(o + d, vf_div(vf_load_n(o + d, w), vf_set1(l)), w);
    }
    store_f32(at4(a->out, b, i, h), a->out->dtype, a->out->strides[3] * size, o, a->Dv);
    if (!a->lse) return;
    float lanes[VF_LANES];
    vf_store(lanes, vf_add(vf_set1(m), ef_log(vf_set1(l))));
    if (!started) lanes[0] = -INFINITY;
    memcpy(at4(a->lse, b, h, i), lanes, sizeof(float));
}

static void segment_range(const tile *t, int64_t *first, int64_t *last) {
    int64_t lo = INT64_MAX, hi = 0;
    for (int64_t r = 0; r < t->n_rows; r++) {
        if (t->lo[r] < lo) lo = t->lo[r];
        if (t->hi[r] > hi) hi = t->hi[r];
    }
    *first = lo / ATT_SEGMENT;
    *last = divide_up(hi, ATT_SEGMENT);
}

static void run_tile(void *user, int64_t item, int worker) {
    const att *a = user;
    tile t;
    int64_t first, last;
    open_tile(&t, a, item, worker);
    segment_range(&t, &first, &last);
    for (int64_t seg = first; seg < last; seg++) {
        segment(&t, seg);
        for (int64_t r = 0; r < t.n_rows; r++)
            if (t.visible[r])
                merge_or_start(&t.started[r], &t.run_m[r], &t.run_l[r], t.run_o + r * a->Dv,
                               t.seg_m[r], t.seg_l[r], t.seg_o + r * a->Dv, a->Dv);
    }
    for (int64_t r = 0; r < t.n_rows; r++)
        write_row(a, t.b, t.kv_head, t.first_row + r, t.started[r], t.run_m[r], t.run_l[r],
                  t.run_o + r * a->Dv);
}

static float *summary(const att *a, int64_t tile_index, int64_t seg, int64_t r) {
    return a->summaries + ((tile_index * a->max_segments + seg) * a->tile_rows + r) * (a->Dv + 2);
}

/* A few segments of a tile: summaries m, l, o; l < 0 marks a row that saw nothing. */
static void run_part(void *user, int64_t item, int worker) {
    const att *a = user;
    tile t;
    int64_t index = item / a->item_count, first, last;
    int64_t seg = item % a->item_count * ITEM_SEGMENTS, end = seg + ITEM_SEGMENTS;
    open_tile(&t, a, index, worker);
    segment_range(&t, &first, &last);
    if (end > last) end = last;
    for (seg = seg > first ? seg : first; seg < end; seg++) {
        segment(&t, seg);
        for (int64_t r = 0; r < t.n_rows; r++) {
            float *to = summary(a, index, seg, r);
            to[0] = t.seg_m[r];
            to[1] = t.visible[r] ? t.seg_l[r] : -1.0f;
            if (t.visible[r]) memcpy(to + 2, t.seg_o + r * a->Dv, sizeof *to * (size_t)a->Dv);
        }
    }
}

static void merge_tile(void *user, int64_t item, int worker) {
    const att *a = user;
    tile t;
    int64_t first, last;
    open_tile(&t, a, item, worker);
    segment_range(&t, &first, &last);
    for (int64_t r = 0; r < t.n_rows; r++) {
        bool started = false;
        for (int64_t seg = first; seg < last; seg++) {
            const float *from = summary(a, item, seg, r);
            if (from[1] < 0) continue; /* a NaN is not < 0 and does take part */
            merge_or_start(&started, &t.run_m[r], &t.run_l[r], t.run_o, from[0], from[1], from + 2,
                           a->Dv);
        }
        write_row(a, t.b, t.kv_head, t.first_row + r, started, t.run_m[r], t.run_l[r], t.run_o);
    }
}

static mlsys_status attention_run(const mlsi_kernel_args *args) {
    att a;
    shape_of(&a, args);
    for (int64_t b = 0; a.kv_len && b < a.B; b++) {
        int64_t n = read_length(a.kv_len, b);
        if (n < 0 || n > a.Lk)
            return mlsi_fail(MLSYS_E_ARG, "attention: kv_len[%lld] is %lld, outside [0,%lld]",
                             (long long)b, (long long)n, (long long)a.Lk);
    }
    for (int d = 0; a.mask && d < 4; d++) {
        int from = a.mask->rank - 4 + d;
        a.mask_strides[d] = from < 0 || a.mask->shape[from] == 1 ? 0 : a.mask->strides[from];
    }
    if (!a.split) {
        mlsi_pool_run(args->pool, a.n_tiles, run_tile, &a);
        return MLSYS_OK;
    }
    a.summaries = (float *)args->work + args->work_bytes / sizeof(float) - a.summary_floats;
    mlsi_pool_run(args->pool, a.n_tiles * a.item_count, run_part, &a);
    mlsi_pool_run(args->pool, a.n_tiles, merge_tile, &a);
    return MLSYS_OK;
}

static bool wide(mlsys_dtype t) { return t == MLSYS_F32 || t == MLSYS_F16 || t == MLSYS_BF16; }

static bool accepts(const mlsi_query *q) {
    for (int i = 0; i < 3; i++)
        if (!wide(q->in[i].dtype) || (i && !q->in[i].inner_unit)) return false;
    if (q->n_in > 3 && q->in[3].present && q->in[3].dtype != MLSYS_BOOL && !wide(q->in[3].dtype))
        return false;
    if (q->n_in > 4 && q->in[4].present && q->in[4].dtype != MLSYS_I32 &&
        q->in[4].dtype != MLSYS_I64)
        return false;
    return true;
}

MLSI_KERNEL_TABLE(attention) = {
    {.op = MLSI_OP_ATTENTION,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("attention_online"),
     .accepts = accepts,
     .run = attention_run,
     .work = attention_work},
    {.run = NULL},
};
