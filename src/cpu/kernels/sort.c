/* sort and topk along an axis.
 *
 * Elements become unsigned keys whose order is the wanted one: NaN greatest and all alike, -0 as
 * +0, complemented when descending. A stable sort of (key, position) then serves all dtypes and
 * both directions, and the values are fetched by position, bit for bit. */
#include "cpu/kernels/stage.h"
#include "core/faults.h"

#include <math.h>

typedef struct entry {
    uint64_t key;
    int64_t at;
} entry;

typedef struct sort_job {
    mlsys_dtype dtype;
    int64_t n, take;
    int64_t x_step, value_step, position_step; /* bytes along the axis */
    bool descending, positions;
    char *work; /* two arrays of n entries per worker */
    int64_t work_stride;
} sort_job;

/* ---- keys ------------------------------------------------------------------------------------ */

static uint64_t key_of_f64(double x) {
    uint64_t u;
    if (isnan(x)) return UINT64_MAX;
    if (!mlsi_fault(MLSI_FAULT_CPU_SORT_ZERO)) x = x + 0.0; /* -0 becomes +0 */
    memcpy(&u, &x, sizeof u);
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static uint64_t key_of_f32(float x) {
    if (isnan(x)) return UINT32_MAX;
    uint32_t u = mlsi_f32_bits(x + 0.0f);
    return u >> 31 ? (uint32_t)~u : u | (uint32_t)1 << 31;
}

/* Keys of f32 and of integers below 64 bits leave the top bytes zero, which the sort skips. */
static void load_entries(const sort_job *job, const char *x, entry *e) {
    uint64_t top = 0;
    compute_type compute = compute_type_of(job->dtype);
    int bits = compute == COMPUTE_I64 ? 8 * mlsi_dtype_size(job->dtype) : 64;
    if (compute == COMPUTE_F32) bits = 32;
    uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (mlsi_dtype_get(job->dtype)->is_signed) top = (uint64_t)1 << (bits - 1);
    for (int64_t i = 0; i < job->n; i += STAGE) {
        stage_block b;
        int64_t m = job->n - i < STAGE ? job->n - i : STAGE;
        stage_load(&b, x + i * job->x_step, job->dtype, job->x_step, m);
        for (int64_t k = 0; k < m; k++) {
            uint64_t key = compute == COMPUTE_F32   ? key_of_f32(b.f32[k])
                           : compute == COMPUTE_F64 ? key_of_f64(b.f64[k])
                                                    : ((uint64_t)b.i64[k] & mask) ^ top;
            e[i + k] = (entry){job->descending ? ~key & mask : key, i + k};
        }
    }
}

/* ---- the sort -------------------------------------------------------------------------------- */

static void insertion_sort(entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        entry x = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].key > x.key; j--)
            e[j] = e[j - 1];
        e[j] = x;
    }
}

/* Least significant byte first; a byte that is the same everywhere costs nothing. Returns the
 * sorted one of the two arrays. */
static entry *radix_sort(entry *e, entry *other, int64_t n) {
    int64_t count[8][256];
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 8; b++)
            count[b][e[i].key >> (8 * b) & 255]++;
    for (int b = 0; b < 8; b++) {
        int64_t start = 0;
        if (count[b][e[0].key >> (8 * b) & 255] == n) continue;
        for (int v = 0; v < 256; v++) {
            int64_t c = count[b][v];
            count[b][v] = start;
            start += c;
        }
        for (int64_t i = 0; i < n; i++)
            other[count[b][e[i].key >> (8 * b) & 255]++] = e[i];
        entry *t = e;
        e = other;
        other = t;
    }
    return e;
}

static entry *stable_sort(entry *e, entry *other, int64_t n) {
    enum { SMALL = 48 };
    if (n > SMALL) return radix_sort(e, other, n);
    insertion_sort(e, n);
    return e;
}

/* The first `take` of the sorted order, in `best`. An element enters only if it is before the last
 * one, so of equal elements the earlier stay. */
static entry *select_first(const entry *e, entry *best, int64_t n, int64_t take) {
    int64_t have = 0;
    for (int64_t i = 0; i < n && take > 0; i++) {
        if (have == take && e[i].key >= best[take - 1].key) continue;
        int64_t j = have < take ? have++ : take - 1;
        for (; j > 0 && best[j - 1].key > e[i].key; j--)
            best[j] = best[j - 1];
        best[j] = e[i];
    }
    return best;
}

/* p: values, x, positions. */
static void sort_rows(const void *user, char *const *p, const int64_t *stride, int64_t rows,
                      int worker) {
    enum { SELECT = 256 };
    const sort_job *job = user;
    entry *e = (entry *)(void *)(job->work + worker * job->work_stride), *other = e + job->n;
    int size = mlsi_dtype_size(job->dtype);
    for (int64_t r = 0; r < rows; r++) {
        const char *x = p[1] + r * stride[1];
        load_entries(job, x, e);
        bool few = job->take <= SELECT && job->take < job->n / 2;
        const entry *s =
            few ? select_first(e, other, job->n, job->take) : stable_sort(e, other, job->n);
        for (int64_t i = 0; i < job->take; i++) {
            memcpy(p[0] + r * stride[0] + i * job->value_step, x + s[i].at * job->x_step,
                   (size_t)size);
            if (job->positions)
                memcpy(p[2] + r * stride[2] + i * job->position_step, &s[i].at, sizeof s[i].at);
        }
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

static int64_t row_entries_bytes(const mlsi_view *x, int axis) {
    return (2 * x->shape[axis] * (int64_t)sizeof(entry) + 63) / 64 * 64;
}

static void sort_axis_run(const mlsi_kernel_args *args, int64_t attr_axis, bool descending) {
    enum { GRAIN = 4096 };
    const mlsi_view *x = &args->in[0], *values = &args->out[0];
    int axis = (int)(attr_axis < 0 ? attr_axis + x->rank : attr_axis);
    int64_t size = mlsi_dtype_size(x->dtype);
    sort_job job = {.dtype = x->dtype,
                    .n = x->shape[axis],
                    .take = values->shape[axis],
                    .x_step = x->strides[axis] * size,
                    .value_step = values->strides[axis] * size,
                    .descending = descending,
                    .positions = args->n_out > 1 && args->out[1].data,
                    .work = args->work,
                    .work_stride = row_entries_bytes(x, axis)};
    mlsi_view heads[3] = {mlsi_view_drop(values, axis, 1), mlsi_view_drop(x, axis, 1)};
    const mlsi_view *views[3] = {&heads[0], &heads[1], &heads[2]};
    mlsi_iter it;
    if (job.positions) {
        job.position_step = args->out[1].strides[axis] * 8;
        heads[2] = mlsi_view_drop(&args->out[1], axis, 1);
    }
    if (job.n == 0 || job.take == 0) return;
    mlsi_iter_init(&it, views, job.positions ? 3 : 2);
    mlsi_iter_run(&it, args->pool, GRAIN / job.n, sort_rows, &job);
}

static uint64_t axis_work(const mlsi_kernel_args *args, int64_t axis, int threads) {
    const mlsi_view *x = &args->in[0];
    return (uint64_t)row_entries_bytes(x, (int)(axis < 0 ? axis + x->rank : axis)) *
           (uint64_t)threads;
}

static uint64_t sort_work(const mlsi_kernel_args *args, int threads) {
    return axis_work(args, ((const mlsi_attr_sort *)args->attrs)->axis, threads);
}
static mlsys_status sort_run(const mlsi_kernel_args *args) {
    const mlsi_attr_sort *attrs = args->attrs;
    sort_axis_run(args, attrs->axis, attrs->descending != 0);
    return MLSYS_OK;
}

static uint64_t topk_work(const mlsi_kernel_args *args, int threads) {
    return axis_work(args, ((const mlsi_attr_topk *)args->attrs)->axis, threads);
}
static mlsys_status topk_run(const mlsi_kernel_args *args) {
    sort_axis_run(args, ((const mlsi_attr_topk *)args->attrs)->axis, true);
    return MLSYS_OK;
}

static bool accepts_order(const mlsi_query *q) {
    return is_plain(q->in[0].dtype) && q->out[0].dtype == q->in[0].dtype &&
           (q->n_out < 2 || q->out[1].dtype == MLSYS_I64);
}

MLSI_KERNEL_TABLE(sort) = {
    {.op = MLSI_OP_SORT,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("sort_rows"),
     .accepts = accepts_order,
     .run = sort_run,
     .work = sort_work},
    {.op = MLSI_OP_TOPK,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("topk_rows"),
     .accepts = accepts_order,
     .run = topk_run,
     .work = topk_work},
    {.run = NULL},
};
