/* conv and transposed conv, direct.
 *
 * A work item is a panel of 64 result positions of one image and group. The elements that meet a
 * segment of 256 (channel, cell) pairs are laid out as a [256][64] block, padding as zeros, and
 * every output channel takes its chain over that block: the stated order (segments of 256 FMA
 * chains, added in ascending order), and the block stays in the nearest caches while the weights
 * stream by. */
#include "cpu/kernels/window.h"
#include "core/faults.h"
#include "cpu/kernels/addend.h"

#include <math.h>

enum {
    SEGMENT = 256,
    TILE_N = 2 * VF_LANES, /* positions of a register tile */
#if defined(MLSI_ISA_IS_AVX512)
    TILE_M = 12 /* channels of a register tile */
#else
    TILE_M = 6
#endif
};

typedef struct conv_job {
    window w;
    const mlsi_view *x, *y;
    const mlsi_attr_conv *attrs;
    int64_t in_group, out_group, k;
    const float *weights;                   /* [groups * out_group][k] */
    bool accumulate;                        /* the chains go on from what y holds */
    int64_t panels, splits, split_channels; /* the channels of a group are cut into splits */
    char *work;
    int64_t work_stride;
} conv_job;

/* Parts of a worker's scratch. */
typedef struct conv_scratch {
    int64_t *offset, y_offset[WINDOW_PANEL];
    uint8_t *group;
    float *block; /* [panel / TILE_N][SEGMENT][TILE_N] */
    float *sum;   /* [split_channels][WINDOW_PANEL] */
} conv_scratch;

/* ---- the block ------------------------------------------------------------------------------- */

static void fill_block(const conv_job *job, const char *image, int64_t k0, int64_t kn, int64_t n,
                       conv_scratch *s) {
    n = (n + TILE_N - 1) / TILE_N * TILE_N;
    int64_t step = job->x->strides[1] * mlsi_dtype_size(job->x->dtype);
    int64_t cells = job->w.cells, c = k0 / cells, cell = k0 % cells;
    for (int64_t k = 0; k < kn; k++) {
        const int64_t *offset = s->offset + cell * WINDOW_PANEL;
        const uint8_t *group = s->group + cell * WINDOW_GROUPS;
        for (int64_t j = 0; j < n; j += VF_LANES) {
            float *to = s->block + (j / TILE_N * SEGMENT + k) * TILE_N + j % TILE_N;
            window_load(to, image + c * step, offset + j, group[j / VF_LANES], job->x->dtype, 0);
        }
        if (++cell == cells) cell = 0, c++;
    }
}

/* ---- register tiles -------------------------------------------------------------------------- */

/* sum[m][0..TILE_N) (+)= the chains of m channels over kn block rows. */
V_FN void tile(int m, const float *w, int64_t w_step, const float *block, int64_t kn, float *sum,
               bool first) {
    VF s0[TILE_M], s1[TILE_M];
    for (int i = 0; i < m; i++)
        s0[i] = s1[i] = vf_zero();
    for (int64_t k = 0; k < kn; k++) {
        VF b0 = vf_load(block + k * TILE_N), b1 = vf_load(block + k * TILE_N + VF_LANES);
        for (int i = 0; i < m; i++) {
            VF a = vf_set1(w[i * w_step + k]);
            s0[i] = vf_fma(a, b0, s0[i]);
            s1[i] = vf_fma(a, b1, s1[i]);
        }
    }
    for (int i = 0; i < m; i++) {
        float *to = sum + i * WINDOW_PANEL;
        bool alone = first || mlsi_fault(MLSI_FAULT_CPU_CONV_SEGMENT);
        vf_store(to, alone ? s0[i] : vf_add(vf_load(to), s0[i]));
        vf_store(to + VF_LANES, first ? s1[i] : vf_add(vf_load(to + VF_LANES), s1[i]));
    }
}

static void tile_full(const float *w, int64_t w_step, const float *block, int64_t kn, float *sum,
                      bool first) {
    tile(TILE_M, w, w_step, block, kn, sum, first);
}
static void tile_pair(const float *w, int64_t w_step, const float *block, int64_t kn, float *sum,
                      bool first) {
    tile(2, w, w_step, block, kn, sum, first);
}
static void tile_one(const float *w, int64_t w_step, const float *block, int64_t kn, float *sum,
                     bool first) {
    tile(1, w, w_step, block, kn, sum, first);
}

static void segment_products(const conv_job *job, const float *w, int64_t channels, int64_t n,
                             int64_t kn, bool first, conv_scratch *s) {
    for (int64_t o = 0, m; o < channels; o += m) {
        m = channels - o >= TILE_M ? TILE_M : channels - o >= 2 ? 2 : 1;
        for (int64_t j = 0; j < n; j += TILE_N) {
            const float *block = s->block + j / TILE_N * SEGMENT * TILE_N;
            float *sum = s->sum + o * WINDOW_PANEL + j;
            if (m == TILE_M)
                tile_full(w + o * job->k, job->k, block, kn, sum, first);
            else if (m == 2)
                tile_pair(w + o * job->k, job->k, block, kn, sum, first);
            else
                tile_one(w + o * job->k, job->k, block, kn, sum, first);
        }
    }
}

/* ---- items ----------------------------------------------------------------------------------- */

static conv_scratch scratch_of(const conv_job *job, int worker) {
    char *at = job->work + worker * job->work_stride;
    conv_scratch s = {.block = (float *)(void *)at};
    s.sum = s.block + SEGMENT * WINDOW_PANEL;
    s.offset = (int64_t *)(void *)(s.sum + job->out_group * WINDOW_PANEL);
    s.group = (uint8_t *)(s.offset + job->w.cells * WINDOW_PANEL);
    return s;
}

/* The tables of a panel; positions past the end read nothing. */
static int64_t enter_panel(const conv_job *job, int64_t panel, conv_scratch *s) {
    int64_t first = panel * WINDOW_PANEL, n = job->w.positions - first;
    if (n > WINDOW_PANEL) n = WINDOW_PANEL;
    for (int64_t i = 0; i < job->w.cells * WINDOW_PANEL; i++)
        s->offset[i] = WINDOW_PAD;
    window_offsets(&job->w, first, n, s->offset, s->y_offset);
    window_groups(&job->w, job->x->dtype, s->offset, s->group);
    return n;
}

/* What one channel of y holds, and zeros up to a whole tile. */
static void begin_sums(const conv_job *job, const char *y, int64_t n, const conv_scratch *s,
                       float *sum) {
    for (int64_t j = 0; j < n; j++)
        load_f32(sum + j, y + s->y_offset[j], job->y->dtype, 4, 1);
    for (int64_t j = n; j % TILE_N; j++)
        sum[j] = 0;
}

static void conv_item(const void *user, int64_t item, int64_t last, int worker) {
    const conv_job *job = user;
    int64_t groups = job->attrs->groups, images = job->x->shape[0], entered = -1, n = 0;
    int64_t x_size = mlsi_dtype_size(job->x->dtype), y_size = mlsi_dtype_size(job->y->dtype);
    int64_t y_step = job->y->strides[1] * y_size;
    conv_scratch s = scratch_of(job, worker);
    for (; item < last; item++) { /* panels last, so that their tables serve many items */
        int64_t o0 = item % job->splits * job->split_channels, g = item / job->splits % groups;
        int64_t image = item / job->splits / groups % images;
        int64_t panel = item / job->splits / groups / images, channels = job->out_group - o0;
        if (channels > job->split_channels) channels = job->split_channels;
        if (panel != entered) n = enter_panel(job, panel, &s);
        entered = panel;
        const char *x =
            (const char *)job->x->data +
            (image * job->x->strides[0] + g * job->in_group * job->x->strides[1]) * x_size;
        const float *w = job->weights + (g * job->out_group + o0) * job->k;
        char *y = (char *)job->y->data + image * job->y->strides[0] * y_size +
                  (g * job->out_group + o0) * y_step;
        for (int64_t o = 0; job->accumulate && o < channels; o++)
            begin_sums(job, y + o * y_step, n, &s, s.sum + o * WINDOW_PANEL);
        for (int64_t k0 = 0; k0 < job->k || k0 == 0; k0 += SEGMENT) {
            int64_t kn = job->k - k0 < SEGMENT ? job->k - k0 : SEGMENT;
            fill_block(job, x, k0, kn, n, &s);
            segment_products(job, w + k0, channels, n, kn, k0 == 0 && !job->accumulate, &s);
        }
        for (int64_t o = 0; o < channels; o++)
            window_store(y + o * y_step, s.y_offset, job->y->dtype, s.sum + o * WINDOW_PANEL, n);
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool weights_direct(const mlsi_attr_conv *attrs, const mlsi_view *w) {
    return !attrs->transposed && w->dtype == MLSYS_F32 && mlsi_view_contiguous(w);
}

/* [Cout][channel of the group][cells] from w [Cout, C/groups, cells] or, transposed, [C,
 * Cout/groups, cells]. */
static void pack_weights(const conv_job *job, const mlsi_view *w, float *to) {
    int64_t size = mlsi_dtype_size(w->dtype), rows = job->out_group * job->attrs->groups;
    for (int64_t o = 0; o < rows; o++)
        for (int64_t c = 0; c < job->in_group; c++) {
            int64_t i0 = o, i1 = c;
            if (job->attrs->transposed) {
                i0 = o / job->out_group * job->in_group + c;
                i1 = o % job->out_group;
            }
            const char *from =
                (const char *)w->data + (i0 * w->strides[0] + i1 * w->strides[1]) * size;
            for (int64_t cell = 0; cell < job->w.cells; cell++) {
                int64_t offset = 0, rest = cell;
                for (int d = w->rank - 1; d >= 2; d--) {
                    offset += rest % w->shape[d] * w->strides[d];
                    rest /= w->shape[d];
                }
                load_f32(to++, from + offset * size, w->dtype, 4, 1);
            }
        }
}

/* ---- f64 ------------------------------------------------------------------------------------- */

static double element64(const char *at) {
    double v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* One result: the stated order, literally. */
static double conv_dot64(const conv_job *job, const mlsi_view *w, const char *x, int64_t channel,
                         const int64_t *offset, const char *y) {
    double c = job->accumulate ? element64(y) : 0;
    int64_t group = channel / job->out_group, cells = job->w.cells;
    for (int64_t k0 = 0; k0 == 0 || k0 < job->k; k0 += SEGMENT) {
        double s = 0;
        for (int64_t k = k0; k < job->k && k < k0 + SEGMENT; k++) {
            int64_t cell = k % cells, in = k / cells, rest = cell;
            int64_t at = channel * w->strides[0] + in * w->strides[1];
            if (job->attrs->transposed)
                at = (group * job->in_group + in) * w->strides[0] +
                     channel % job->out_group * w->strides[1];
            for (int d = w->rank - 1; d >= 2; d--) {
                at += rest % w->shape[d] * w->strides[d];
                rest /= w->shape[d];
            }
            int64_t from = offset[cell * WINDOW_PANEL];
            double a =
                window_inside(from) ? element64(x + in * job->x->strides[1] * 8 + from) : 0.0;
            s = fma(a, element64((const char *)w->data + at * 8), s);
        }
        c = k0 || job->accumulate ? c + s : s;
    }
    return c;
}

static void conv_item64(const void *user, int64_t item, int64_t last, int worker) {
    const conv_job *job = user;
    const mlsi_view *x = job->x, *y = job->y;
    conv_scratch s = scratch_of(job, worker);
    for (; item < last; item++) {
        int64_t first = item % job->panels * WINDOW_PANEL, image = item / job->panels;
        int64_t n =
            job->w.positions - first < WINDOW_PANEL ? job->w.positions - first : WINDOW_PANEL;
        window_offsets(&job->w, first, n, s.offset, s.y_offset);
        for (int64_t o = 0; o < y->shape[1]; o++) {
            const char *from =
                (const char *)x->data +
                (image * x->strides[0] + o / job->out_group * job->in_group * x->strides[1]) * 8;
            char *to = (char *)y->data + (image * y->strides[0] + o * y->strides[1]) * 8;
            for (int64_t j = 0; j < n; j++) {
                double v = conv_dot64(job, (const mlsi_view *)(const void *)job->weights, from, o,
                                      s.offset + j, to + s.y_offset[j]);
                memcpy(to + s.y_offset[j], &v, sizeof v);
            }
        }
    }
}

/* ---- the op ---------------------------------------------------------------------------------- */

static void describe(const mlsi_kernel_args *args, conv_job *job) {
    const mlsi_view *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    *job = (conv_job){.x = x, .y = y, .attrs = args->attrs};
    window_init(&job->w, x, y, w->shape + 2, &job->attrs->strides, &job->attrs->dilations,
                &job->attrs->pads);
    job->w.transposed = job->attrs->transposed != 0;
    job->in_group = x->shape[1] / job->attrs->groups;
    job->out_group = y->shape[1] / job->attrs->groups;
    job->k = job->in_group * job->w.cells;
    job->panels = (job->w.positions + WINDOW_PANEL - 1) / WINDOW_PANEL;
    int64_t floats = SEGMENT * WINDOW_PANEL + job->out_group * WINDOW_PANEL;
    job->work_stride = floats * 4 + window_table_bytes(job->w.cells);
    job->work_stride = (job->work_stride + 63) / 64 * 64;
}

static uint64_t packed_bytes(const conv_job *job) {
    return ((uint64_t)(job->out_group * job->attrs->groups * job->k) * 4 + 63) / 64 * 64;
}

static uint64_t conv_work(const mlsi_kernel_args *args, int threads) {
    conv_job job;
    describe(args, &job);
    bool packs = args->in[0].dtype != MLSYS_F64 && !weights_direct(job.attrs, &args->in[1]);
    return (packs ? packed_bytes(&job) : 0) + (uint64_t)job.work_stride * (uint64_t)threads;
}

/* Cut the channels of a group too when there are few panels. */
static void choose_splits(conv_job *job, int64_t items, int threads) {
    int64_t wanted = items >= 4 * threads ? 1 : (4 * threads + items - 1) / items;
    int64_t most = job->out_group / (4 * TILE_M) > 1 ? job->out_group / (4 * TILE_M) : 1;
    job->splits = wanted < most ? wanted : most;
    job->split_channels = (job->out_group + job->splits - 1) / job->splits;
    job->split_channels = (job->split_channels + TILE_M - 1) / TILE_M * TILE_M;
    job->splits = (job->out_group + job->split_channels - 1) / job->split_channels;
}

static mlsys_status conv_run(const mlsi_kernel_args *args) {
    conv_job job;
    const mlsi_view *w = &args->in[1];
    int threads = args->pool ? mlsi_pool_threads(args->pool) : 1;
    describe(args, &job);
    if (mlsi_view_count(job.y) == 0) return MLSYS_OK;
    job.accumulate = addend_in_result(args);
    job.work = args->work;
    int64_t items = job.y->shape[0] * job.panels;
    if (job.x->dtype == MLSYS_F64) {
        job.weights = (const float *)(const void *)w; /* read through the view */
        mlsi_range_run(args->pool, items, 1, conv_item64, &job);
        return MLSYS_OK;
    }
    job.weights = w->data;
    if (!weights_direct(job.attrs, w)) {
        job.weights = args->work;
        job.work += packed_bytes(&job);
        pack_weights(&job, w, args->work);
    }
    items *= job.attrs->groups;
    choose_splits(&job, items, threads);
    /* A few ranges per thread: enough to even out, long enough to keep a panel's tables. */
    items *= job.splits;
    mlsi_range_run(args->pool, items, (items + 8 * threads - 1) / (8 * threads), conv_item, &job);
    return MLSYS_OK;
}

static bool accepts_conv(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return mlsi_dtype_is_float(t) && q->in[1].dtype == t && q->out[0].dtype == t;
}

MLSI_KERNEL_TABLE(conv) = {
    {.op = MLSI_OP_CONV,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("conv_direct"),
     .in_place = ADDEND_IN_PLACE,
     .accepts = accepts_conv,
     .run = conv_run,
     .work = conv_work},
    {.run = NULL},
};
