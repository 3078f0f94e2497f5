/* Reductions whose results lie side by side: 128 lanes of a panel of columns are kept in scratch,
 * and each element of a row of x is one vector operation away from its lane. */
#include "cpu/kernels/reduce.h"
#include "core/faults.h"

typedef struct column_job {
    const reduce_problem *p;
    reduce_dims heads;       /* kept dims but the column dim */
    int64_t columns, x_step; /* of the column dim; the step in bytes */
    int64_t stride;          /* of the column dim in the linear index of results */
    int64_t panels;
} column_job;

V_FN void combine_row(reduce_kind kind, float *lane, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(lane + i, reduce_combine(kind, vf_load(lane + i), vf_load(x + i)));
    for (; i < n; i++) {
        VF v = reduce_combine(kind, vf_set1(lane[i]), vf_set1(x[i]));
        vf_store_n(lane + i, v, 1);
    }
}

/* One chunk of rows for n columns; the result is left in lane 0. */
V_FN void column_chunk(const column_job *job, reduce_kind kind, const char *base, int64_t first,
                       int64_t rows, int64_t n, float *lanes) {
    enum { AHEAD = 6 };
    const reduce_problem *p = job->p;
    float *wide = lanes + SUM_LANES * COLUMN_PANEL;
    int64_t used = rows < SUM_LANES ? rows : SUM_LANES;
    bool direct = is_staged(p->dtype, job->x_step);
    float identity = reduce_identity(kind);
    for (int64_t j = 0; j < (used ? used : 1); j++)
        for (int64_t i = 0; i < n; i++)
            lanes[j * COLUMN_PANEL + i] = identity;
    bool even = p->reduced.rank == 1; /* rows a fixed step apart */
    int64_t step = p->reduced.x[0];
    for (int64_t i = 0; i < rows; i++) {
        const char *src = base + (even ? (first + i) * step
                                       : reduce_offset(&p->reduced, p->reduced.x, first + i));
        /* Each row is a new page to the hardware's prefetcher. */
        for (int64_t b = 0; even && i + AHEAD < rows && b < n * 4; b += 64)
            __builtin_prefetch(src + AHEAD * step + b);
        if (!direct) load_f32(wide, src, p->dtype, job->x_step, n);
        combine_row(kind, lanes + i % SUM_LANES * COLUMN_PANEL,
                    direct ? (const float *)(const void *)src : wide, n);
    }
    /* Lanes that got no element hold the identity: leaving them out changes nothing. */
    for (int64_t h = SUM_LANES / 2; h >= 1; h /= 2)
        for (int64_t j = 0; j < h && j + h < used - mlsi_fault(MLSI_FAULT_CPU_REDUCE_TAIL); j++)
            combine_row(kind, lanes + j * COLUMN_PANEL, lanes + (j + h) * COLUMN_PANEL, n);
}

static void column_item(const void *user, int64_t item, int64_t last, int worker) {
    const column_job *job = user;
    const reduce_problem *p = job->p;
    float *lanes = (float *)(void *)(p->scratch + (int64_t)worker * REDUCE_SCRATCH);
    for (; item < last; item++) {
        int64_t chunk = item % p->chunks, panel = item / p->chunks % job->panels;
        int64_t head = item / p->chunks / job->panels;
        int64_t column = panel * COLUMN_PANEL, first = chunk * SUM_CHUNK;
        int64_t n = job->columns - column < COLUMN_PANEL ? job->columns - column : COLUMN_PANEL;
        int64_t rows = p->length - first < SUM_CHUNK ? p->length - first : SUM_CHUNK;
        const char *base =
            p->x + reduce_offset(&job->heads, job->heads.x, head) + column * job->x_step;
        switch (p->kind) {
        case REDUCE_PROD: column_chunk(job, REDUCE_PROD, base, first, rows, n, lanes); break;
        case REDUCE_MAX: column_chunk(job, REDUCE_MAX, base, first, rows, n, lanes); break;
        case REDUCE_MIN: column_chunk(job, REDUCE_MIN, base, first, rows, n, lanes); break;
        default: column_chunk(job, REDUCE_SUM, base, first, rows, n, lanes); break;
        }
        /* The linear index of the result: head's index with the column dim put back. */
        int64_t inner = head % job->stride, outer = head / job->stride;
        for (int64_t i = 0; i < n; i++) {
            int64_t result = (outer * job->columns + column + i) * job->stride + inner;
            reduce_value v = {.f = (double)lanes[i]};
            if (p->chunks == 1)
                reduce_store(p, result, v);
            else
                p->partial[result * p->chunks + chunk] = v;
        }
    }
}

bool MLSI_K(reduce_columns)(const reduce_problem *p, mlsi_pool *pool) {
    enum { LEAST_COLUMNS = 16, GRAIN = 32768 };
    column_job job = {.p = p, .stride = 1};
    int column_dim = -1;
    int64_t size = mlsi_dtype_size(p->dtype), run = p->reduced.x[p->reduced.rank - 1];
    if (p->compute != COMPUTE_F32 || run == size || p->length < 2) return false;
    for (int d = 0; d < p->kept.rank; d++)
        if (p->kept.x[d] == size && p->kept.shape[d] >= LEAST_COLUMNS) column_dim = d;
    if (column_dim < 0) return false;
    for (int d = 0; d < p->kept.rank; d++) {
        if (d == column_dim) {
            job.columns = p->kept.shape[d];
            job.x_step = p->kept.x[d];
            continue;
        }
        if (d > column_dim) job.stride *= p->kept.shape[d];
        job.heads.shape[job.heads.rank] = p->kept.shape[d];
        job.heads.x[job.heads.rank++] = p->kept.x[d];
    }
    job.panels = (job.columns + COLUMN_PANEL - 1) / COLUMN_PANEL;
    int64_t width = job.columns < COLUMN_PANEL ? job.columns : COLUMN_PANEL;
    int64_t rows = p->length < SUM_CHUNK ? p->length : SUM_CHUNK;
    mlsi_range_run(pool, p->results / job.columns * job.panels * p->chunks, GRAIN / (width * rows),
                   column_item, &job);
    return true;
}
