/* Pooling: maximum, average or sum over a sliding window. */
#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/window.h"
#include "core/faults.h"

#include <math.h>

typedef struct pool_job {
    window w;
    const mlsi_view *x, *y;
    const mlsi_attr_pool *attrs;
    int64_t panels;
    char *work;
    int64_t work_stride;
} pool_job;

typedef struct pool_scratch {
    int64_t *offset, y_offset[WINDOW_PANEL], count[WINDOW_PANEL];
    uint8_t *group;
    float *lanes; /* [SUM_LANES][WINDOW_PANEL] */
} pool_scratch;

/* ---- f32: 64 positions side by side, one lane of the canonical sum per row ------------------- */

V_FN void combine_rows(bool max, float *lane, const float *v) {
    for (int i = 0; i < WINDOW_PANEL; i += VF_LANES) {
        VF a = vf_load(lane + i), b = vf_load(v + i);
        vf_store(lane + i, max ? vf_maximum(a, b) : vf_add(a, b));
    }
}

/* At most one chunk of cells. Result in lane row 0. */
static void panel_f32(const pool_job *job, const char *x, pool_scratch *s) {
    bool max = job->attrs->kind == MLSI_POOL_MAX;
    int64_t cells = job->w.cells, used = cells < SUM_LANES ? cells : SUM_LANES;
    float neutral = max ? -INFINITY : 0.0f;
    for (int64_t i = 0; i < used * WINDOW_PANEL; i++)
        s->lanes[i] = neutral;
    for (int64_t cell = 0; cell < cells; cell++) {
        const int64_t *offset = s->offset + cell * WINDOW_PANEL;
        const uint8_t *group = s->group + cell * WINDOW_GROUPS;
        float v[WINDOW_PANEL];
        for (int j = 0; j < WINDOW_PANEL; j += VF_LANES)
            window_load(v + j, x, offset + j, group[j / VF_LANES], job->x->dtype, neutral);
        float *lane = s->lanes + cell % SUM_LANES * WINDOW_PANEL;
        if (max)
            combine_rows(true, lane, v);
        else
            combine_rows(false, lane, v);
    }
    for (int64_t h = SUM_LANES / 2; h >= 1; h /= 2)
        for (int64_t j = 0; j < h && j + h < used; j++) {
            float *a = s->lanes + j * WINDOW_PANEL, *b = s->lanes + (j + h) * WINDOW_PANEL;
            if (max)
                combine_rows(true, a, b);
            else
                combine_rows(false, a, b);
        }
}

/* ---- any dtype, any number of cells: one position at a time ---------------------------------- */

static double larger(double a, double b) {
    if (isnan(a) || isnan(b)) return a + b;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static double element_float(const char *at, mlsys_dtype t) {
    double d = 0;
    float f = 0;
    if (t == MLSYS_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    load_f32(&f, at, t, 4, 1);
    return (double)f;
}

/* Sum (in the canonical tree, cells outside x being +0) or maximum of the cells of one position. */
static double position_float(const pool_job *job, const char *x, const int64_t *offset) {
    mlsi_sum_tree sum;
    double m = -INFINITY;
    mlsi_sum_tree_init(&sum, false, job->x->dtype != MLSYS_F64);
    for (int64_t cell = 0; cell < job->w.cells; cell++) {
        int64_t at = offset[cell * WINDOW_PANEL];
        double v = window_inside(at) ? element_float(x + at, job->x->dtype) : 0.0;
        if (job->attrs->kind != MLSI_POOL_MAX)
            mlsi_sum_tree_push(&sum, v);
        else if (window_inside(at))
            m = larger(m, v);
    }
    return job->attrs->kind == MLSI_POOL_MAX ? m : mlsi_sum_tree_result(&sum);
}

static int64_t position_int(const pool_job *job, const char *x, const int64_t *offset) {
    bool max = job->attrs->kind == MLSI_POOL_MAX;
    mlsys_dtype t = job->x->dtype;
    int64_t r = max ? mlsi_f64_to_int(-INFINITY, t) : 0;
    for (int64_t cell = 0; cell < job->w.cells; cell++) {
        int64_t at = offset[cell * WINDOW_PANEL], v = 0;
        if (!window_inside(at)) continue;
        load_i64(&v, x + at, t, 8, 1);
        r = !max ? (int64_t)((uint64_t)r + (uint64_t)v) : v > r ? v : r;
    }
    return r;
}

/* ---- items ----------------------------------------------------------------------------------- */

static void count_cells(const pool_job *job, int64_t n, pool_scratch *s) {
    for (int64_t j = 0; j < n; j++) {
        s->count[j] = 0;
        for (int64_t cell = 0; cell < job->w.cells; cell++) {
            int64_t at = s->offset[cell * WINDOW_PANEL + j];
            s->count[j] +=
                window_inside(at) || (job->attrs->count_pad &&
                                      (at == WINDOW_PAD || mlsi_fault(MLSI_FAULT_CPU_POOL_CEIL)));
        }
    }
}

static void pool_positions(const pool_job *job, const char *x, char *y, int64_t n,
                           pool_scratch *s) {
    mlsys_dtype t = job->x->dtype;
    bool average = job->attrs->kind == MLSI_POOL_AVERAGE;
    for (int64_t j = 0; j < n; j++) {
        char *to = y + s->y_offset[j];
        if (compute_type_of(t) == COMPUTE_I64) {
            int64_t v = position_int(job, x, s->offset + j);
            store_i64(to, t, 8, &v, 1);
            continue;
        }
        double v = position_float(job, x, s->offset + j);
        if (average && t == MLSYS_F64)
            v = v / (double)s->count[j];
        else if (average)
            v = (double)((float)v / (float)s->count[j]);
        store_f64(to, t, v);
    }
}

static void pool_item(const void *user, int64_t item, int64_t last, int worker) {
    const pool_job *job = user;
    const mlsi_view *x = job->x, *y = job->y;
    char *work = job->work + worker * job->work_stride;
    pool_scratch s = {.lanes = (float *)(void *)work};
    s.offset = (int64_t *)(void *)(work + SUM_LANES * WINDOW_PANEL * 4);
    s.group = (uint8_t *)(s.offset + job->w.cells * WINDOW_PANEL);
    for (; item < last; item++) {
        int64_t panel = item % job->panels, image = item / job->panels;
        int64_t first = panel * WINDOW_PANEL;
        int64_t n =
            job->w.positions - first < WINDOW_PANEL ? job->w.positions - first : WINDOW_PANEL;
        for (int64_t i = 0; i < job->w.cells * WINDOW_PANEL; i++)
            s.offset[i] = WINDOW_OUTSIDE; /* positions past the end read nothing */
        window_offsets(&job->w, first, n, s.offset, s.y_offset);
        window_groups(&job->w, x->dtype, s.offset, s.group);
        count_cells(job, n, &s);
        for (int64_t c = 0; c < x->shape[1]; c++) {
            const char *from = (const char *)x->data + (image * x->strides[0] + c * x->strides[1]) *
                                                           mlsi_dtype_size(x->dtype);
            char *to = (char *)y->data +
                       (image * y->strides[0] + c * y->strides[1]) * mlsi_dtype_size(y->dtype);
            if (compute_type_of(x->dtype) != COMPUTE_F32 || job->w.cells > SUM_CHUNK) {
                pool_positions(job, from, to, n, &s);
                continue;
            }
            panel_f32(job, from, &s);
            for (int64_t j = 0; j < n && job->attrs->kind == MLSI_POOL_AVERAGE; j++)
                s.lanes[j] = s.lanes[j] / (float)s.count[j];
            window_store(to, s.y_offset, y->dtype, s.lanes, n);
        }
    }
}

static void describe(const mlsi_kernel_args *args, pool_job *job) {
    *job = (pool_job){.x = &args->in[0], .y = &args->out[0], .attrs = args->attrs};
    window_init(&job->w, job->x, job->y, job->attrs->kernel.v, &job->attrs->strides,
                &job->attrs->dilations, &job->attrs->pads);
    job->panels = (job->w.positions + WINDOW_PANEL - 1) / WINDOW_PANEL;
    job->work_stride = SUM_LANES * WINDOW_PANEL * 4 + window_table_bytes(job->w.cells);
}

static uint64_t pool_work(const mlsi_kernel_args *args, int threads) {
    pool_job job;
    describe(args, &job);
    return (uint64_t)job.work_stride * (uint64_t)threads;
}

static mlsys_status pool_run(const mlsi_kernel_args *args) {
    pool_job job;
    describe(args, &job);
    job.work = args->work;
    if (mlsi_view_count(job.y) == 0) return MLSYS_OK;
    mlsi_range_run(args->pool, job.y->shape[0] * job.panels, 1, pool_item, &job);
    return MLSYS_OK;
}

static bool accepts_pool(const mlsi_query *q) {
    return is_plain(q->in[0].dtype) && q->out[0].dtype == q->in[0].dtype;
}

MLSI_KERNEL_TABLE(pool) = {
    {.op = MLSI_OP_POOL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("pool_panels"),
     .accepts = accepts_pool,
     .run = pool_run,
     .work = pool_work},
    {.run = NULL},
};
