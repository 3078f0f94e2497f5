/* scan: running sums, products, maxima and minima along an axis.
 *
 * The row is cut into segments of 64. A segment's chain starts with its first element; the totals
 * of the segments are scanned by the same rule, and the prefix of the earlier segments is combined
 * with each local value. */
#include "cpu/kernels/stage.h"

#include <math.h>

enum { SCAN_SEGMENT = 64 };

/* kind is a constant in each call, so that the loops hold one operation and no choice. */
#define SCAN_LOCAL(suffix, type)                                                                   \
    V_FN void local_##suffix(int64_t kind, type *v, int64_t n) {                                   \
        for (int64_t s = 0; s < n; s += SCAN_SEGMENT) {                                            \
            int64_t last = n - s < SCAN_SEGMENT ? n : s + SCAN_SEGMENT;                            \
            type sum = v[s];                                                                       \
            for (int64_t i = s + 1; i < last; i++)                                                 \
                v[i] = sum = combine_##suffix(kind, sum, v[i]);                                    \
        }                                                                                          \
    }                                                                                              \
    V_FN void prefix_##suffix(int64_t kind, type *v, int64_t n, const type *totals) {              \
        for (int64_t s = SCAN_SEGMENT; s < n; s += SCAN_SEGMENT) {                                 \
            int64_t last = n - s < SCAN_SEGMENT ? n : s + SCAN_SEGMENT;                            \
            type before = totals[s / SCAN_SEGMENT - 1];                                            \
            for (int64_t i = s; i < last; i++)                                                     \
                v[i] = combine_##suffix(kind, before, v[i]);                                       \
        }                                                                                          \
    }

#define SCAN_BY_KIND(call, suffix, ...)                                                            \
    switch (kind) {                                                                                \
    case MLSI_SCAN_SUM: call##_##suffix(MLSI_SCAN_SUM, __VA_ARGS__); break;                        \
    case MLSI_SCAN_PROD: call##_##suffix(MLSI_SCAN_PROD, __VA_ARGS__); break;                      \
    case MLSI_SCAN_MAX: call##_##suffix(MLSI_SCAN_MAX, __VA_ARGS__); break;                        \
    default: call##_##suffix(MLSI_SCAN_MIN, __VA_ARGS__); break;                                   \
    }

#define SCAN(suffix, type)                                                                         \
    SCAN_LOCAL(suffix, type)                                                                       \
    static void scan_##suffix(int64_t kind, type *v, int64_t n, type *totals) {                    \
        int64_t segments = (n + SCAN_SEGMENT - 1) / SCAN_SEGMENT;                                  \
        SCAN_BY_KIND(local, suffix, v, n)                                                          \
        if (segments <= 1) return;                                                                 \
        for (int64_t s = 0; s < segments - 1; s++)                                                 \
            totals[s] = v[s * SCAN_SEGMENT + SCAN_SEGMENT - 1];                                    \
        scan_##suffix(kind, totals, segments - 1, totals + segments);                              \
        SCAN_BY_KIND(prefix, suffix, v, n, totals)                                                 \
    }

#define COMBINE_FLOAT(suffix, type)                                                                \
    V_FN type combine_##suffix(int64_t kind, type a, type b) {                                     \
        switch (kind) {                                                                            \
        case MLSI_SCAN_SUM: return a + b;                                                          \
        case MLSI_SCAN_PROD: return a * b;                                                         \
        case MLSI_SCAN_MAX:                                                                        \
            if (isnan(a) || isnan(b)) return a + b;                                                \
            return a > b || (a == b && !signbit(a)) ? a : b;                                       \
        default:                                                                                   \
            if (isnan(a) || isnan(b)) return a + b;                                                \
            return a < b || (a == b && signbit(a)) ? a : b;                                        \
        }                                                                                          \
    }
COMBINE_FLOAT(f32, float)
COMBINE_FLOAT(f64, double)

V_FN int64_t combine_i64(int64_t kind, int64_t a, int64_t b) {
    switch (kind) {
    case MLSI_SCAN_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case MLSI_SCAN_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case MLSI_SCAN_MAX: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

SCAN(f32, float)
SCAN(f64, double)
SCAN(i64, int64_t)

typedef union scan_value {
    float f32;
    double f64;
    int64_t i64;
} scan_value;

/* Narrow integers wrap at the store only: sums and products modulo 2^64 agree modulo 2^width, and
 * maxima never leave the dtype. */
static scan_value scan_identity(int64_t kind, mlsys_dtype t) {
    scan_value v = {.i64 = kind == MLSI_SCAN_PROD};
    double f = kind == MLSI_SCAN_PROD  ? 1.0
               : kind == MLSI_SCAN_MAX ? -INFINITY
               : kind == MLSI_SCAN_MIN ? INFINITY
                                       : 0.0;
    if (t == MLSYS_F64) {
        v.f64 = f;
    } else if (mlsi_dtype_is_float(t)) {
        v.f32 = (float)f;
    } else if (kind == MLSI_SCAN_MAX || kind == MLSI_SCAN_MIN) {
        v.i64 = mlsi_f64_to_int(f, t); /* saturates at the dtype's ends */
    }
    return v;
}

typedef struct scan_job {
    const mlsi_attr_scan *attrs;
    mlsys_dtype dtype;
    int64_t n, x_step, y_step; /* in bytes, backwards when reversed */
    char *work;
    int64_t work_stride, totals; /* bytes per worker; of them up to the totals */
    int size;                    /* of the compute type */
    scan_value identity;
} scan_job;

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static void scan_line(const scan_job *job, char *y, const char *x, char *v) {
    char *totals = v + job->totals, *from = v + job->size;
    int64_t n = job->n, size = job->size;
    memcpy(v, &job->identity, (size_t)size);
    switch (compute_type_of(job->dtype)) {
    case COMPUTE_F32:
        load_f32((float *)(void *)from, x, job->dtype, job->x_step, n);
        scan_f32(job->attrs->kind, (float *)(void *)from, n, (float *)(void *)totals);
        break;
    case COMPUTE_F64:
        stage_move(from, 8, x, job->x_step, 8, n);
        scan_f64(job->attrs->kind, (double *)(void *)from, n, (double *)(void *)totals);
        break;
    case COMPUTE_I64:
        load_i64((int64_t *)(void *)from, x, job->dtype, job->x_step, n);
        scan_i64(job->attrs->kind, (int64_t *)(void *)from, n, (int64_t *)(void *)totals);
        break;
    }
    if (job->attrs->exclusive) from = v; /* the identity, then the values before each */
    switch (compute_type_of(job->dtype)) {
    case COMPUTE_F32: store_f32(y, job->dtype, job->y_step, (float *)(void *)from, n); break;
    case COMPUTE_F64: stage_move(y, job->y_step, from, 8, 8, n); break;
    case COMPUTE_I64: store_i64(y, job->dtype, job->y_step, (int64_t *)(void *)from, n); break;
    }
}

static void scan_rows(const void *user, char *const *p, const int64_t *stride, int64_t rows,
                      int worker) {
    const scan_job *job = user;
    for (int64_t r = 0; r < rows; r++)
        scan_line(job, p[0] + r * stride[0], p[1] + r * stride[1],
                  job->work + worker * job->work_stride);
}

static int scan_axis(const mlsi_kernel_args *args) {
    const mlsi_attr_scan *attrs = args->attrs;
    return (int)(attrs->axis < 0 ? attrs->axis + args->in[0].rank : attrs->axis);
}

/* The row with the identity before it; then the totals of all levels: n/64 + n/64^2 + ... and one
 * slot a level. */
static void scan_room(int64_t n, int64_t *values, int64_t *bytes) {
    *values = round_up((n + 1) * 8);
    *bytes = *values + round_up((n / SCAN_SEGMENT + n / (SCAN_SEGMENT * 63) + 24) * 8);
}

static uint64_t scan_work(const mlsi_kernel_args *args, int threads) {
    int64_t values, bytes;
    scan_room(args->in[0].shape[scan_axis(args)], &values, &bytes);
    return (uint64_t)bytes * (uint64_t)threads;
}

static mlsys_status scan_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 8192 };
    const mlsi_view *x = &args->in[0], *y = &args->out[0];
    int axis = scan_axis(args);
    int64_t size = mlsi_dtype_size(x->dtype);
    mlsi_view heads_y = mlsi_view_drop(y, axis, 1), heads_x = mlsi_view_drop(x, axis, 1);
    scan_job job = {.attrs = args->attrs, .dtype = x->dtype, .n = x->shape[axis]};
    if (mlsi_view_count(x) == 0) return MLSYS_OK;
    job.x_step = x->strides[axis] * size;
    job.y_step = y->strides[axis] * size;
    job.size = compute_type_of(x->dtype) == COMPUTE_F32 ? 4 : 8;
    job.identity = scan_identity(job.attrs->kind, x->dtype);
    job.work = args->work;
    scan_room(job.n, &job.totals, &job.work_stride);
    if (job.attrs->reverse) {
        heads_x.data = (char *)x->data + (job.n - 1) * job.x_step;
        heads_y.data = (char *)y->data + (job.n - 1) * job.y_step;
        job.x_step = -job.x_step;
        job.y_step = -job.y_step;
    }
    const mlsi_view *views[2] = {&heads_y, &heads_x};
    mlsi_iter it;
    mlsi_iter_init(&it, views, 2);
    mlsi_iter_run(&it, args->pool, GRAIN / job.n, scan_rows, &job);
    return MLSYS_OK;
}

static bool accepts_scan(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return is_plain(t) && t != MLSYS_BOOL && q->out[0].dtype == t;
}

MLSI_KERNEL_TABLE(scan) = {
    {.op = MLSI_OP_SCAN,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("scan_rows"),
     .accepts = accepts_scan,
     .run = scan_run,
     .work = scan_work,
     .in_place = 1},
    {.run = NULL},
};
