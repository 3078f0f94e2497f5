/* conv whose result has few positions and many channels, as the gradient of a filter: images are the
 * filter's input channels, channels are the batch, the kernel is all of dy.
 *
 *     y[r, o] = sum over k of x[base(r) + offset(k)] * w[k, o]      r = (image, position), k = (channel, cell)
 *
 * w is laid out once as [K][o] in tiles; x is read where it lies, one element for all o of a tile, so windows
 * are never copied. Segments of 256 FMA chains, added in ascending order, as stated for conv.
 *
 * Bound: 2 flops per (r, o, k); per k a tile loads its rows, one offset and two registers of w. */
#include "core/faults.h"
#include "cpu/iterate.h"
#include "cpu/kernels/addend.h"

#include <string.h>

enum {
    SEGMENT = 256,
    TILE_N = 2 * VF_LANES,
#if defined(MLSI_ISA_IS_AVX512)
    TILE_M = 12,
#else
    TILE_M = 6,
#endif
    FEW_POSITIONS = 48,
    ITEM_ROWS = 24 * TILE_M /* so that their sums and a segment of w stay near */
};

typedef struct filter_job {
    const mlsi_view *x, *w, *y;
    const mlsi_attr_conv *at;
    bool accumulate; /* the chains go on from what y holds */
    int spatial;
    int64_t rows, k, channels, tiles, chunks;
    int64_t *base, *to, *offset; /* elements: of x and y per row, of x per k */
    float *packed;               /* [tiles][k][TILE_N] */
    float *sums;                 /* per worker [ITEM_ROWS][TILE_N] */
} filter_job;

static int64_t at_or(const mlsi_list *l, int i, int64_t otherwise) {
    return l->n ? l->v[i] : otherwise;
}

static void describe(const mlsi_kernel_args *args, filter_job *job) {
    *job =
        (filter_job){.x = &args->in[0], .w = &args->in[1], .y = &args->out[0], .at = args->attrs};
    job->spatial = job->x->rank - 2;
    job->rows = job->x->shape[0];
    job->k = job->w->shape[1];
    job->channels = job->w->shape[0];
    for (int d = 0; d < job->spatial; d++) {
        job->rows *= job->y->shape[2 + d];
        job->k *= job->w->shape[2 + d];
    }
    job->tiles = (job->channels + TILE_N - 1) / TILE_N;
    job->chunks = (job->rows + ITEM_ROWS - 1) / ITEM_ROWS;
}

static uint64_t whole_lines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static uint64_t table_bytes(const filter_job *job) {
    return whole_lines((uint64_t)(2 * job->rows + job->k) * sizeof(int64_t));
}

static uint64_t filter_work(const mlsi_kernel_args *args, int threads) {
    filter_job job;
    describe(args, &job);
    return table_bytes(&job) + (uint64_t)(job.tiles * job.k * TILE_N) * sizeof(float) +
           (uint64_t)threads * ITEM_ROWS * TILE_N * sizeof(float);
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Offsets of the row-major cells of a box: n outer steps, then `extent` per axis. */
static void box_offsets(const filter_job *job, int64_t outer, int64_t outer_step,
                        const int64_t *extent, const int64_t *step, int64_t *out) {
    int64_t n = 0, index[MLSYS_MAX_DIMS];
    for (int64_t i = 0; i < outer; i++) {
        int64_t cells = 1, at = i * outer_step;
        for (int d = 0; d < job->spatial; d++)
            cells *= extent[d], index[d] = 0;
        for (int64_t c = 0; c < cells; c++) {
            out[n++] = at;
            for (int d = job->spatial - 1; d >= 0; d--) {
                at += step[d];
                if (++index[d] < extent[d]) break;
                at -= extent[d] * step[d];
                index[d] = 0;
            }
        }
    }
}

static void make_tables(filter_job *job) {
    const mlsi_view *x = job->x, *w = job->w, *y = job->y;
    int64_t window[MLSYS_MAX_DIMS], cell[MLSYS_MAX_DIMS];
    for (int d = 0; d < job->spatial; d++) {
        window[d] = at_or(&job->at->strides, d, 1) * x->strides[2 + d];
        cell[d] = at_or(&job->at->dilations, d, 1) * x->strides[2 + d];
    }
    box_offsets(job, x->shape[0], x->strides[0], y->shape + 2, window, job->base);
    box_offsets(job, x->shape[0], y->strides[0], y->shape + 2, y->strides + 2, job->to);
    box_offsets(job, w->shape[1], x->strides[1], w->shape + 2, cell, job->offset);
}

/* ---- w in tiles ---------------------------------------------------------------------------- */

/* One input channel of w, all tiles: its cells are rows of TILE_N channels. */
static void pack_channel(const void *user, int64_t first, int64_t last, int worker) {
    const filter_job *job = user;
    const mlsi_view *w = job->w;
    int64_t cells = job->k / w->shape[1], index[MLSYS_MAX_DIMS];
    (void)worker;
    for (int64_t c = first; c < last; c++) {
        const float *from = (const float *)w->data + c * w->strides[1];
        for (int d = 0; d < job->spatial; d++)
            index[d] = 0;
        for (int64_t i = 0; i < cells; i++) {
            for (int64_t o = 0; o < job->tiles * TILE_N; o++) {
                float *to = job->packed + (o / TILE_N * job->k + c * cells + i) * TILE_N;
                to[o % TILE_N] = o < job->channels ? from[o * w->strides[0]] : 0;
            }
            for (int d = job->spatial - 1; d >= 0; d--) {
                from += w->strides[2 + d];
                if (++index[d] < w->shape[2 + d]) break;
                from -= w->shape[2 + d] * w->strides[2 + d];
                index[d] = 0;
            }
        }
    }
}

/* ---- products ------------------------------------------------------------------------------ */

/* sum[m][..] (+)= the chains of m rows over kn values of k. */
V_FN void tile(int m, const float *x, const int64_t *base, const int64_t *offset, const float *w,
               int64_t kn, float *sum, bool first) {
    VF s0[TILE_M], s1[TILE_M];
    int64_t row[TILE_M];
    for (int i = 0; i < m; i++) {
        s0[i] = s1[i] = vf_zero();
        row[i] = base[i];
    }
    for (int64_t k = 0; k < kn; k++) {
        const float *at = x + offset[k];
        VF b0 = vf_load(w + k * TILE_N), b1 = vf_load(w + k * TILE_N + VF_LANES);
        for (int i = 0; i < m; i++) {
            VF a = vf_set1(at[row[i]]);
            s0[i] = vf_fma(a, b0, s0[i]);
            s1[i] = vf_fma(a, b1, s1[i]);
        }
    }
    for (int i = 0; i < m; i++) {
        float *to = sum + i * TILE_N;
        bool alone = first || mlsi_fault(MLSI_FAULT_CPU_CONV_FILTER_SEGMENT);
        vf_store(to, alone ? s0[i] : vf_add(vf_load(to), s0[i]));
        vf_store(to + VF_LANES, first ? s1[i] : vf_add(vf_load(to + VF_LANES), s1[i]));
    }
}

static void tile_full(const float *x, const int64_t *base, const int64_t *offset, const float *w,
                      int64_t kn, float *sum, bool first) {
    tile(TILE_M, x, base, offset, w, kn, sum, first);
}
static void tile_three(const float *x, const int64_t *base, const int64_t *offset, const float *w,
                       int64_t kn, float *sum, bool first) {
    tile(3, x, base, offset, w, kn, sum, first);
}
static void tile_one(const float *x, const int64_t *base, const int64_t *offset, const float *w,
                     int64_t kn, float *sum, bool first) {
    tile(1, x, base, offset, w, kn, sum, first);
}

/* Rows of sums from y's memory, or to it. */
static void move_rows(const filter_job *job, int64_t row, int64_t n, int64_t tile_index, bool load,
                      float *sum) {
    int64_t o0 = tile_index * TILE_N, step = job->y->strides[1];
    int64_t m = job->channels - o0 < TILE_N ? job->channels - o0 : TILE_N;
    for (int64_t r = 0; r < n; r++, sum += TILE_N) {
        float *y = (float *)job->y->data + job->to[row + r] + o0 * step;
        for (int64_t o = 0; o < m; o++)
            if (load)
                sum[o] = y[o * step];
            else
                y[o * step] = sum[o];
        for (int64_t o = m; load && o < TILE_N; o++)
            sum[o] = 0;
    }
}

/* A chunk of rows against one tile of channels. */
static void filter_item(void *user, int64_t item, int worker) {
    const filter_job *job = user;
    int64_t t = item % job->tiles, row = item / job->tiles * ITEM_ROWS;
    int64_t n = job->rows - row < ITEM_ROWS ? job->rows - row : ITEM_ROWS;
    float *sum = job->sums + (int64_t)worker * ITEM_ROWS * TILE_N;
    const float *x = job->x->data;
    if (job->accumulate) move_rows(job, row, n, t, true, sum);
    for (int64_t k = 0; k == 0 || k < job->k; k += SEGMENT) {
        bool first = k == 0 && !job->accumulate;
        int64_t kn = job->k - k < SEGMENT ? job->k - k : SEGMENT;
        const float *w = job->packed + (t * job->k + k) * TILE_N;
        const int64_t *offset = job->offset + k;
        for (int64_t r = 0, m; r < n; r += m) {
            const int64_t *base = job->base + row + r;
            m = n - r >= TILE_M ? TILE_M : n - r >= 3 ? 3 : 1;
            if (m == TILE_M)
                tile_full(x, base, offset, w, kn, sum + r * TILE_N, first);
            else if (m == 3)
                tile_three(x, base, offset, w, kn, sum + r * TILE_N, first);
            else
                tile_one(x, base, offset, w, kn, sum + r * TILE_N, first);
        }
    }
    move_rows(job, row, n, t, false, sum);
}

static mlsys_status filter_run(const mlsi_kernel_args *args) {
    filter_job job;
    char *work = args->work;
    describe(args, &job);
    if (mlsi_view_count(job.y) == 0) return MLSYS_OK;
    job.accumulate = addend_in_result(args);
    job.base = (int64_t *)(void *)work;
    job.to = job.base + job.rows;
    job.offset = job.to + job.rows;
    job.packed = (float *)(void *)(work + table_bytes(&job));
    job.sums = job.packed + job.tiles * job.k * TILE_N;
    make_tables(&job);
    if (job.k) mlsi_range_run(args->pool, job.w->shape[1], 4, pack_channel, &job);
    mlsi_pool_run(args->pool, job.chunks * job.tiles, filter_item, &job);
    return MLSYS_OK;
}

/* ---- the row ------------------------------------------------------------------------------- */

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_conv *at = q->attrs;
    int64_t positions = 1;
    for (int i = 0; i < 2; i++)
        if (q->in[i].dtype != MLSYS_F32) return false;
    if (q->out[0].dtype != MLSYS_F32 || at->transposed || at->groups != 1) return false;
    if (q->out[0].shape[1] < TILE_N) return false;
    for (int64_t i = 0; i < at->pads.n; i++)
        if (at->pads.v[i]) return false;
    for (int d = 2; d < q->out[0].rank; d++) {
        if (q->out[0].shape[d] < 0) return false;
        positions *= q->out[0].shape[d];
        if (positions > FEW_POSITIONS) return false;
    }
    return true;
}

MLSI_KERNEL_TABLE(conv_filter) = {{.op = MLSI_OP_CONV,
                                   .isa = MLSI_K_ISA,
                                   .name = MLSI_K_NAME("conv_filter"),
                                   .accepts = accepts,
                                   .in_place = ADDEND_IN_PLACE,
                                   .run = filter_run,
                                   .work = filter_work},
                                  {.run = NULL}};
