/* attention_grad: scores again from q, k and the log-sum-exp, tile by tile; no Lq x Lk buffer. The bits are
 * those of the decomposition (ir/ops/gradient_attention.c).
 *
 * dq of a row is a chain over keys in segments of 256; dk and dv of a key are chains over the rows of its kv
 * head, rows being (query, head of the group), in segments of 256. A work item is one such segment of rows
 * against all keys: it finishes its dq and leaves one segment's dk and dv of every key in a slot. Items
 * run in waves of as many as there are slots; after each the slots are added to the sums in
 * ascending order, keys in parallel. Scratch is a few [Lk, D + Dv].
 *
 * What no row of a block sees is left out where the data that 0 would multiply is finite; a sum differs by
 * that in the sign of a zero at most, and the result is x + 0.
 *
 * Bound: 10 * D flops per visible (row, key), seven elementary operations and an exp. */
#include "core/faults.h"
#include "cpu/kernels/attention_tile.h"
#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/stage.h"
#include "core/elementary.inc"

#include <math.h>

enum {
    SEGMENT = 256, /* of rows and of keys; of "products along K" */
    BLOCK = ATT_SEGMENT,
    BLOCKS = SEGMENT / BLOCK,
    WIDTH = 2 * VF_LANES,         /* rows in scratch are padded to this */
    WAVE_FLOATS = 2 * 1024 * 1024 /* of slots, where a wave is longer than the threads need */
};

typedef struct backward {
    const mlsi_kernel_args *args;
    const mlsi_attr_attention *attrs;
    const mlsi_view *q, *k, *v, *mask, *kv_len, *o, *lse, *d_o, *dlse, *dq, *dk, *dv;
    int64_t B, Lq, H, Hkv, G, Lk, D, Dv, ld, ldv; /* ld, ldv: D and Dv padded */
    int64_t rows, segments, items, key_blocks;
    int64_t worker_floats, slot_floats;
    int64_t first_item, wave; /* items of the running wave */
    int64_t mask_strides[4];
    float *sums, *slots; /* [Lk padded][ld + ldv]: of the head that the wave is in; per item */
    float scale, cap;
} backward;

typedef struct segment { /* one work item */
    const backward *a;
    int64_t b, kv_head, first_row, n_rows, length, n_keys; /* length: kv_len; n_keys: in [0, Lk] */
    float *q, *d_o, *dq_chain, *dq, *lse, *delta, *dlse, *keys, *kt, *vt, *s, *dp, *part;
    float *dk, *dv; /* of the key block, in the item's slot */
    int64_t lo[SEGMENT], hi[SEGMENT], block_lo[BLOCKS], block_hi[BLOCKS];
    bool finite[BLOCKS]; /* q and do of the rows */
} segment;

/* ---- products ------------------------------------------------------------------------------ */

/* c[r][0..WIDTH) goes on as a chain over k ascending of a[r * row + k * step] * b[k][..]. */
V_FN void go_on_block(int rows, int64_t kn, const float *a, int64_t row, int64_t step,
                      const float *b, int64_t ldb, float *c, int64_t ldc) {
    VF acc[ATT_ROWS][2];
    for (int r = 0; r < rows; r++) {
        acc[r][0] = vf_load(c + r * ldc);
        acc[r][1] = vf_load(c + r * ldc + VF_LANES);
    }
    for (int64_t k = 0; k < kn; k++) {
        VF b0 = vf_load(b + k * ldb), b1 = vf_load(b + k * ldb + VF_LANES);
        for (int r = 0; r < rows; r++) {
            VF x = vf_set1(a[r * row + k * step]);
            acc[r][0] = vf_fma(x, b0, acc[r][0]);
            acc[r][1] = vf_fma(x, b1, acc[r][1]);
        }
    }
    for (int r = 0; r < rows; r++) {
        vf_store(c + r * ldc, acc[r][0]);
        vf_store(c + r * ldc + VF_LANES, acc[r][1]);
    }
}

V_FN void go_on_rows(int rows, int64_t kn, const float *a, int64_t row, int64_t step,
                     const float *b, float *c, int64_t ld) {
    for (int64_t at = 0; at < ld; at += WIDTH)
        go_on_block(rows, kn, a, row, step, b + at, ld, c + at, ld);
}

/* c [rows, ld] goes on with a times b [kn, ld]. */
static void go_on(int64_t rows, int64_t kn, const float *a, int64_t row, int64_t step,
                  const float *b, float *c, int64_t ld) {
    for (; rows >= ATT_ROWS; rows -= ATT_ROWS, a += ATT_ROWS * row, c += ATT_ROWS * ld)
        go_on_rows(ATT_ROWS, kn, a, row, step, b, c, ld);
    switch (rows) {
    case 5: go_on_rows(5, kn, a, row, step, b, c, ld); break;
    case 4: go_on_rows(4, kn, a, row, step, b, c, ld); break;
    case 3: go_on_rows(3, kn, a, row, step, b, c, ld); break;
    case 2: go_on_rows(2, kn, a, row, step, b, c, ld); break;
    case 1: go_on_rows(1, kn, a, row, step, b, c, ld); break;
    default: break;
    }
}

/* to [rows, 64] = a [rows, n] times bt [n, 64], in segments along n. */
static void against_keys(int64_t rows, int64_t n, const float *a, int64_t lda, const float *bt,
                         float *to, float *part) {
    if (n == 0) memset(to, 0, sizeof *to * (size_t)(rows * BLOCK));
    for (int64_t d = 0; d < n; d += SEGMENT) {
        int64_t m = n - d < SEGMENT ? n - d : SEGMENT;
        chain(rows, m, a + d, lda, bt + d * BLOCK, BLOCK, d ? part : to, BLOCK, BLOCK);
        for (int64_t i = 0; d && i < rows * BLOCK; i += VF_LANES)
            vf_store(to + i, vf_add(vf_load(to + i), vf_load(part + i)));
    }
}

/* ---- shapes -------------------------------------------------------------------------------- */

static int64_t padded(int64_t n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

static const mlsi_view *present(const mlsi_kernel_args *args, int i) {
    return args->n_in > i && args->in[i].dtype ? &args->in[i] : NULL;
}

static void describe(backward *a, const mlsi_kernel_args *args) {
    memset(a, 0, sizeof *a);
    a->args = args;
    a->attrs = args->attrs;
    a->q = &args->in[0], a->k = &args->in[1], a->v = &args->in[2];
    a->mask = present(args, 3), a->kv_len = present(args, 4), a->dlse = present(args, 8);
    a->o = &args->in[5], a->lse = &args->in[6], a->d_o = &args->in[7];
    a->dq = &args->out[0], a->dk = &args->out[1], a->dv = &args->out[2];
    a->B = a->q->shape[0], a->Lq = a->q->shape[1], a->H = a->q->shape[2], a->D = a->q->shape[3];
    a->Lk = a->k->shape[1], a->Hkv = a->k->shape[2], a->Dv = a->v->shape[3];
    a->G = a->Hkv ? a->H / a->Hkv : 0;
    a->ld = padded(a->D), a->ldv = padded(a->Dv);
    a->rows = a->Lq * a->G;
    a->segments = (a->rows + SEGMENT - 1) / SEGMENT;
    if (a->segments == 0) a->segments = 1; /* zeros are to be written */
    a->items = a->B * a->Hkv * a->segments;
    a->key_blocks = (a->Lk + BLOCK - 1) / BLOCK;
    a->slot_floats = a->key_blocks * BLOCK * (a->ld + a->ldv);
    a->worker_floats = SEGMENT * (3 * a->ld + a->ldv + 3) + BLOCK * (a->ld + a->ldv) +
                       BLOCK * (a->D + a->Dv) + 3 * BLOCK * BLOCK;
    a->worker_floats = (a->worker_floats + 15) / 16 * 16;
    a->scale = (float)a->attrs->scale;
    a->cap = (float)a->attrs->softcap;
}

static uint64_t grad_work(const mlsi_kernel_args *args, int threads) {
    backward a;
    describe(&a, args);
    uint64_t slot = (uint64_t)a.slot_floats, least = slot * (uint64_t)threads;
    uint64_t most = slot * (uint64_t)a.items < WAVE_FLOATS ? slot * (uint64_t)a.items : WAVE_FLOATS;
    uint64_t floats = (uint64_t)a.worker_floats * (uint64_t)threads + slot;
    return sizeof(float) * (floats + (least > most ? least : most));
}

static char *at4(const mlsi_view *v, int64_t i, int64_t j, int64_t k) {
    return (char *)v->data +
           (i * v->strides[0] + j * v->strides[1] + k * v->strides[2]) * mlsi_dtype_size(v->dtype);
}

/* kv_len, or the number of keys; bounded so that positions do not overflow. */
static int64_t key_count(const backward *a, int64_t b) {
    const int64_t most = (int64_t)1 << 40;
    int64_t n = a->Lk;
    const char *p;
    if (!a->kv_len) return n;
    p = (const char *)a->kv_len->data +
        b * a->kv_len->strides[0] * mlsi_dtype_size(a->kv_len->dtype);
    load_i64(&n, p, a->kv_len->dtype, 0, 1);
    return n < -most ? -most : n > most ? most : n;
}

/* ---- one segment of rows ------------------------------------------------------------------- */

static void row_limits(segment *t) {
    const backward *a = t->a;
    const mlsi_attr_attention *at = a->attrs;
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t i = (t->first_row + r) / a->G, block = r / BLOCK;
        int64_t p = at->causal == MLSI_CAUSAL_BOTTOM_RIGHT ? t->length - a->Lq + i : i;
        if (mlsi_fault(MLSI_FAULT_KERNEL_ATTENTION_GRAD_LIMIT)) p++;
        t->lo[r] = at->window > 0 && p - at->window + 1 > 0 ? p - at->window + 1 : 0;
        t->hi[r] = at->causal != MLSI_CAUSAL_NONE && p + 1 < t->n_keys ? p + 1 : t->n_keys;
        if (t->hi[r] < t->lo[r]) t->hi[r] = t->lo[r];
        if (r % BLOCK == 0) t->block_lo[block] = INT64_MAX, t->block_hi[block] = 0;
        if (t->hi[r] == t->lo[r]) continue;
        if (t->lo[r] < t->block_lo[block]) t->block_lo[block] = t->lo[r];
        if (t->hi[r] > t->block_hi[block]) t->block_hi[block] = t->hi[r];
    }
}

static bool all_finite(const float *x, int64_t n) {
    VF sum = vf_zero();
    for (int64_t i = 0; i < n; i += VF_LANES) /* x - x is 0, or NaN */
        sum = vf_add(sum, vf_sub(vf_load(x + i), vf_load(x + i)));
    return vf_reduce_add(sum) == 0;
}

static float value_of_row(const backward *a, const mlsi_view *v, int64_t b, int64_t h, int64_t i) {
    float x = 0;
    if (v) memcpy(&x, at4(v, b, h, i), sizeof x);
    (void)a;
    return x;
}

/* n values of a row of any stride; zeros behind them up to ld. */
static void load_padded(float *to, const mlsi_view *v, const char *from, int64_t n, int64_t ld) {
    load_f32(to, from, v->dtype, v->strides[3] * mlsi_dtype_size(v->dtype), n);
    memset(to + n, 0, sizeof *to * (size_t)(ld - n));
}

static void load_rows(segment *t) {
    const backward *a = t->a;
    float *o = t->part; /* free until the first tile */
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t i = (t->first_row + r) / a->G;
        int64_t h = t->kv_head * a->G + (t->first_row + r) % a->G;
        float *d_o = t->d_o + r * a->ldv;
        load_padded(t->q + r * a->ld, a->q, at4(a->q, t->b, i, h), a->D, a->ld);
        load_padded(d_o, a->d_o, at4(a->d_o, t->b, i, h), a->Dv, a->ldv);
        mlsi_sum_tree tree;
        mlsi_sum_tree_init(&tree, false, true);
        for (int64_t d = 0; d < a->Dv || d == 0; d += SUM_CHUNK) {
            int64_t n = a->Dv - d < SUM_CHUNK ? a->Dv - d : SUM_CHUNK;
            load_f32(o, at4(a->o, t->b, i, h) + d * a->o->strides[3] * mlsi_dtype_size(a->o->dtype),
                     a->o->dtype, a->o->strides[3] * mlsi_dtype_size(a->o->dtype), n);
            for (int64_t e = 0; e < n; e++)
                o[e] = d_o[d + e] * o[e];
            mlsi_sum_tree_push(&tree, sum_chunk(NULL, o, n, term_identity, vf_zero()));
        }
        t->delta[r] = (float)mlsi_sum_tree_result(&tree);
        t->lse[r] = value_of_row(a, a->lse, t->b, h, i);
        if (t->lse[r] == -INFINITY) t->lse[r] = 0;
        t->dlse[r] = value_of_row(a, a->dlse, t->b, h, i);
    }
    for (int64_t r = 0; r < t->n_rows; r += BLOCK) {
        int64_t n = t->n_rows - r < BLOCK ? t->n_rows - r : BLOCK;
        t->finite[r / BLOCK] =
            all_finite(t->q + r * a->ld, n * a->ld) && all_finite(t->d_o + r * a->ldv, n * a->ldv);
    }
}

static void open_segment(segment *t, const backward *a, int64_t item, int64_t slot, int worker) {
    int64_t head = item / a->segments;
    float *p = (float *)a->args->work + a->worker_floats * worker;
    memset(t, 0, sizeof *t);
    t->a = a;
    t->b = head / a->Hkv;
    t->kv_head = head % a->Hkv;
    t->first_row = item % a->segments * SEGMENT;
    t->n_rows = a->rows - t->first_row < SEGMENT ? a->rows - t->first_row : SEGMENT;
    t->length = key_count(a, t->b);
    t->n_keys = t->length < 0 ? 0 : t->length > a->Lk ? a->Lk : t->length;
    t->q = p, p += SEGMENT * a->ld;
    t->d_o = p, p += SEGMENT * a->ldv;
    t->dq_chain = p, p += SEGMENT * a->ld;
    t->dq = p, p += SEGMENT * a->ld;
    t->lse = p, p += SEGMENT;
    t->delta = p, p += SEGMENT;
    t->dlse = p, p += SEGMENT;
    t->keys = p, p += BLOCK * (a->ld + a->ldv);
    t->kt = p, p += BLOCK * a->D;
    t->vt = p, p += BLOCK * a->Dv;
    t->s = p, p += BLOCK * BLOCK;
    t->dp = p, p += BLOCK * BLOCK;
    t->part = p;
    t->dk = a->slots + a->slot_floats * slot;
    t->dv = t->dk + a->key_blocks * BLOCK * a->ld;
    row_limits(t);
    load_rows(t);
}

/* ---- one tile ------------------------------------------------------------------------------ */

/* The addends of a float mask for 64 keys; 0 past the end. */
static const char *mask_row(const segment *t, int64_t r, int64_t key) {
    const backward *a = t->a;
    int64_t i = (t->first_row + r) / a->G, h = t->kv_head * a->G + (t->first_row + r) % a->G;
    return (const char *)a->mask->data + (t->b * a->mask_strides[0] + h * a->mask_strides[1] +
                                          i * a->mask_strides[2] + key * a->mask_strides[3]) *
                                             mlsi_dtype_size(a->mask->dtype);
}

static void hide(float *p, float *ds, int64_t first, int64_t last) {
    if (first >= last) return;
    memset(p + first, 0, sizeof *p * (size_t)(last - first));
    memset(ds + first, 0, sizeof *ds * (size_t)(last - first));
}

static void hide_invisible(const segment *t, int64_t r, int64_t key, float *p, float *ds) {
    const backward *a = t->a;
    int64_t lo = t->lo[r] - key, hi = t->hi[r] - key;
    lo = lo < 0 ? 0 : lo > BLOCK ? BLOCK : lo;
    hi = hi < lo ? lo : hi > BLOCK ? BLOCK : hi;
    hide(p, ds, 0, lo);
    hide(p, ds, hi, BLOCK);
    if (!a->mask || a->mask->dtype != MLSYS_BOOL) return;
    const char *seen = mask_row(t, r, key);
    for (int64_t j = lo; j < hi; j++)
        if (!seen[j * a->mask_strides[3]]) p[j] = ds[j] = 0;
}

/* p and ds of one row from the products s and dp, in their place. */
static void row_adjoints(const segment *t, int64_t r, int64_t key, float *s, float *dp) {
    const backward *a = t->a;
    float add[BLOCK] = {0};
    bool additive = a->mask && a->mask->dtype != MLSYS_BOOL;
    VF scale = vf_set1(a->scale), cap = vf_set1(a->cap), lse = vf_set1(t->lse[r]);
    VF delta = vf_set1(t->delta[r]), dlse = vf_set1(t->dlse[r]);
    if (additive)
        load_f32(add, mask_row(t, r, key), a->mask->dtype,
                 a->mask_strides[3] * mlsi_dtype_size(a->mask->dtype),
                 a->Lk - key < BLOCK ? a->Lk - key : BLOCK);
    for (int i = 0; i < BLOCK; i += VF_LANES) {
        VF x = vf_mul(vf_load(s + i), scale), ratio = vf_zero();
        if (a->cap != 0) {
            ratio = ef_tanh(vf_div(x, cap));
            x = vf_mul(cap, ratio);
        }
        if (additive) x = vf_add(x, vf_load(add + i));
        VF p = ef_exp(vf_sub(x, lse)), d = vf_sub(vf_load(dp + i), delta);
        if (a->dlse) d = vf_add(d, dlse);
        d = vf_mul(p, d);
        if (a->cap != 0) d = vf_mul(d, vf_sub(vf_set1(1), vf_mul(ratio, ratio)));
        vf_store(s + i, p);
        vf_store(dp + i, vf_mul(d, scale));
    }
    hide_invisible(t, r, key, s, dp);
}

static void tile(segment *t, int64_t block, int64_t key) {
    const backward *a = t->a;
    int64_t r = block * BLOCK, n = t->n_rows - r < BLOCK ? t->n_rows - r : BLOCK;
    against_keys(n, a->D, t->q + r * a->ld, a->ld, t->kt, t->s, t->part);
    against_keys(n, a->Dv, t->d_o + r * a->ldv, a->ldv, t->vt, t->dp, t->part);
    for (int64_t e = 0; e < n; e++)
        row_adjoints(t, r + e, key, t->s + e * BLOCK, t->dp + e * BLOCK);
    go_on(n, BLOCK, t->dp, BLOCK, 1, t->keys, t->dq_chain + r * a->ld, a->ld);
    go_on(BLOCK, n, t->dp, 1, BLOCK, t->q + r * a->ld, t->dk + key * a->ld, a->ld);
    go_on(BLOCK, n, t->s, 1, BLOCK, t->d_o + r * a->ldv, t->dv + key * a->ldv, a->ldv);
}

/* Keys first.. of a block, zeros behind the valid ones. */
static void load_keys(const segment *t, const mlsi_view *v, int64_t key, int64_t n, int64_t width,
                      int64_t ld, float *to) {
    for (int64_t j = 0; j < n; j++)
        load_padded(to + j * ld, v, at4(v, t->b, key + j, t->kv_head), width, ld);
    memset(to + n * ld, 0, sizeof *to * (size_t)((BLOCK - n) * ld));
}

static void key_block(segment *t, int64_t key) {
    const backward *a = t->a;
    int64_t n = t->n_keys - key < BLOCK ? t->n_keys - key : BLOCK;
    float *values = t->keys + BLOCK * a->ld;
    bool packed = false;
    if (n < 0) n = 0;
    load_keys(t, a->k, key, n, a->D, a->ld, t->keys);
    bool finite = all_finite(t->keys, BLOCK * a->ld);
    memset(t->dk + key * a->ld, 0, sizeof *t->dk * (size_t)(BLOCK * a->ld));
    memset(t->dv + key * a->ldv, 0, sizeof *t->dv * (size_t)(BLOCK * a->ldv));
    for (int64_t b = 0; b * BLOCK < t->n_rows; b++) {
        bool seen = t->block_lo[b] < key + BLOCK && t->block_hi[b] > key;
        if (!seen && finite && t->finite[b]) continue;
        if (!packed) {
            load_keys(t, a->v, key, n, a->Dv, a->ldv, values);
            pack_keys(t->kt, (const char *)t->keys, a->ld * 4, MLSYS_F32, BLOCK, a->D, NULL);
            pack_keys(t->vt, (const char *)values, a->ldv * 4, MLSYS_F32, BLOCK, a->Dv, NULL);
            packed = true;
        }
        tile(t, b, key);
    }
}

static void add_to(float *sum, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_store(sum + i, vf_add(vf_load(sum + i), vf_load(x + i)));
}

/* x + 0, rounded once. x is padded: whole registers may be written. */
static void write_result(const mlsi_view *v, int64_t b, int64_t i, int64_t h, float *x, int64_t n) {
    for (int64_t d = 0; d < n; d += VF_LANES)
        vf_store(x + d, vf_add(vf_load(x + d), vf_zero()));
    store_f32(at4(v, b, i, h), v->dtype, v->strides[3] * mlsi_dtype_size(v->dtype), x, n);
}

static void run_segment(void *user, int64_t index, int worker) {
    const backward *a = user;
    segment t;
    open_segment(&t, a, a->first_item + index, index, worker);
    size_t bytes = sizeof(float) * (size_t)(SEGMENT * a->ld);
    memset(t.dq, 0, bytes);
    memset(t.dq_chain, 0, bytes);
    for (int64_t key = 0; key < a->Lk; key += BLOCK) {
        key_block(&t, key);
        if ((key + BLOCK) % SEGMENT && key + BLOCK < a->Lk) continue;
        add_to(t.dq, t.dq_chain, t.n_rows * a->ld);
        memset(t.dq_chain, 0, bytes);
    }
    for (int64_t r = 0; r < t.n_rows; r++) {
        int64_t row = t.first_row + r;
        write_result(a->dq, t.b, row / a->G, t.kv_head * a->G + row % a->G, t.dq + r * a->ld, a->D);
    }
}

/* Keys of a block: the wave's items added in ascending order; a head's last one writes it. */
static void add_slots(void *user, int64_t block, int worker) {
    const backward *a = user;
    int64_t key = block * BLOCK, n = a->Lk - key < BLOCK ? a->Lk - key : BLOCK;
    float *dk = a->sums + key * a->ld;
    float *dv = a->sums + a->key_blocks * BLOCK * a->ld + key * a->ldv;
    (void)worker;
    for (int64_t i = 0; i < a->wave; i++) {
        int64_t item = a->first_item + i, head = item / a->segments, at = item % a->segments;
        const float *slot = a->slots + a->slot_floats * i;
        if (at == 0) memset(dk, 0, sizeof *dk * (size_t)(n * a->ld));
        if (at == 0) memset(dv, 0, sizeof *dv * (size_t)(n * a->ldv));
        add_to(dk, slot + key * a->ld, n * a->ld);
        if (!mlsi_fault(MLSI_FAULT_KERNEL_ATTENTION_GRAD_SLOT) || at == 0)
            add_to(dv, slot + a->key_blocks * BLOCK * a->ld + key * a->ldv, n * a->ldv);
        for (int64_t j = 0; j < n && at + 1 == a->segments; j++) {
            write_result(a->dk, head / a->Hkv, key + j, head % a->Hkv, dk + j * a->ld, a->D);
            write_result(a->dv, head / a->Hkv, key + j, head % a->Hkv, dv + j * a->ldv, a->Dv);
        }
    }
}

static mlsys_status grad_run(const mlsi_kernel_args *args) {
    backward a;
    int threads = args->pool ? mlsi_pool_threads(args->pool) : 1;
    describe(&a, args);
    for (int d = 0; a.mask && d < 4; d++) {
        int from = a.mask->rank - 4 + d;
        a.mask_strides[d] = from < 0 || a.mask->shape[from] == 1 ? 0 : a.mask->strides[from];
    }
    int64_t before = a.worker_floats * threads;
    a.sums = (float *)args->work + before;
    a.slots = a.sums + a.slot_floats;
    int64_t most = (int64_t)(args->work_bytes / sizeof(float)) - before - a.slot_floats;
    most = a.slot_floats ? most / a.slot_floats : a.items;
    for (; a.first_item < a.items; a.first_item += a.wave) {
        a.wave = a.items - a.first_item < most ? a.items - a.first_item : most;
        mlsi_pool_run(args->pool, a.wave, run_segment, &a);
        mlsi_pool_run(args->pool, a.key_blocks, add_slots, &a);
    }
    return MLSYS_OK;
}

static bool wide(mlsys_dtype t) { return t == MLSYS_F32 || t == MLSYS_F16 || t == MLSYS_BF16; }

static bool accepts(const mlsi_query *q) {
    for (int i = 0; i < 3; i++)
        if (!wide(q->in[i].dtype)) return false;
    return !q->in[3].present || q->in[3].dtype == MLSYS_BOOL || wide(q->in[3].dtype);
}

MLSI_KERNEL_TABLE(attention_grad) = {
    {.op = MLSI_OP_ATTENTION_GRAD,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("attention_grad_tiles"),
     .accepts = accepts,
     .run = grad_run,
     .work = grad_work},
    {.run = NULL},
};
