/* reduce_sum, _mean, _prod, _max, _min, _and, _or over any set of axes; sum_squares over all. */
#include "cpu/kernels/reduce.h"

#include <math.h>

/* ---- chunks ---------------------------------------------------------------------------------- */

V_FN float chunk_f32(reduce_kind kind, const float *x, int64_t n) {
    VF acc[SUM_REGS], identity = vf_set1(reduce_identity(kind));
    float lane[2 * VF_LANES];
    int64_t i = 0;
    for (int r = 0; r < SUM_REGS; r++)
        acc[r] = identity;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (int r = 0; r < SUM_REGS; r++)
            acc[r] = reduce_combine(kind, acc[r], vf_load(x + i + r * VF_LANES));
    for (int r = 0; r < SUM_REGS; r++) {
        int64_t at = i + r * VF_LANES;
        if (at >= n) break;
        int m = n - at < VF_LANES ? (int)(n - at) : VF_LANES;
        VF v = vf_select(vi_lt(vi_iota(), vi_set1(m)), vf_load_n(x + at, m), identity);
        acc[r] = reduce_combine(kind, acc[r], v);
    }
    for (int h = SUM_REGS / 2; h >= 1; h /= 2)
        for (int r = 0; r < h; r++)
            acc[r] = reduce_combine(kind, acc[r], acc[r + h]);
    for (int h = VF_LANES / 2; h >= 1; h /= 2) {
        vf_store(lane, acc[0]);
        vf_store(lane + VF_LANES, acc[0]);
        acc[0] = reduce_combine(kind, acc[0], vf_load(lane + h));
    }
    vf_store(lane, acc[0]);
    return lane[0];
}

static double combine_f64(reduce_kind kind, double a, double b) {
    switch (kind) {
    case REDUCE_PROD: return a * b;
    case REDUCE_MAX:
        if (isnan(a) || isnan(b)) return a + b;
        return a > b || (a == b && !signbit(a)) ? a : b;
    case REDUCE_MIN:
        if (isnan(a) || isnan(b)) return a + b;
        return a < b || (a == b && signbit(a)) ? a : b;
    default: return a + b;
    }
}

static double chunk_f64(reduce_kind kind, const double *x, int64_t n) {
    double lane[SUM_LANES];
    for (int j = 0; j < SUM_LANES; j++)
        lane[j] = (double)reduce_identity(kind);
    for (int64_t i = 0; i < n; i += SUM_LANES) {
        int m = n - i < SUM_LANES ? (int)(n - i) : SUM_LANES;
        for (int j = 0; j < m; j++) {
            double v = kind == REDUCE_SQUARES ? x[i + j] * x[i + j] : x[i + j];
            lane[j] = combine_f64(kind, lane[j], v);
        }
    }
    for (int h = SUM_LANES / 2; h >= 1; h /= 2)
        for (int j = 0; j < h; j++)
            lane[j] = combine_f64(kind, lane[j], lane[j + h]);
    return lane[0];
}

static int64_t combine_i64(reduce_kind kind, int64_t a, int64_t b) {
    switch (kind) {
    case REDUCE_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case REDUCE_MAX: return a > b ? a : b;
    case REDUCE_MIN: return a < b ? a : b;
    default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* An empty row exists for sums, products and bool only: max and min of nothing are or and and. */
static int64_t chunk_i64(reduce_kind kind, const int64_t *x, int64_t n) {
    if (n == 0) return kind == REDUCE_PROD || kind == REDUCE_MIN;
    int64_t v = x[0];
    for (int64_t i = 1; i < n; i++)
        v = combine_i64(kind, v, x[i]);
    return v;
}

static reduce_value reduce_chunk(const reduce_problem *p, const void *x, int64_t n) {
    reduce_value v = {.i = 0};
    switch (p->compute) {
    case COMPUTE_I64: v.i = chunk_i64(p->kind, x, n); break;
    case COMPUTE_F64: v.f = chunk_f64(p->kind, x, n); break;
    case COMPUTE_F32:
        switch (p->kind) {
        case REDUCE_SQUARES: v.f = (double)sum_chunk(NULL, x, n, term_square, vf_zero()); break;
        case REDUCE_PROD: v.f = (double)chunk_f32(REDUCE_PROD, x, n); break;
        case REDUCE_MAX: v.f = (double)chunk_f32(REDUCE_MAX, x, n); break;
        case REDUCE_MIN: v.f = (double)chunk_f32(REDUCE_MIN, x, n); break;
        default: v.f = (double)sum_chunk(NULL, x, n, term_identity, vf_zero()); break;
        }
        break;
    }
    return v;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void reduce_rows(const void *user, int64_t item, int64_t last, int worker) {
    const reduce_problem *p = user;
    void *staged = p->scratch + (int64_t)worker * REDUCE_SCRATCH;
    int size = p->compute == COMPUTE_F32 ? 4 : 8;
    for (; item < last; item++) {
        int64_t result = item / p->chunks, first = item % p->chunks * SUM_CHUNK;
        int64_t n = p->length - first < SUM_CHUNK ? p->length - first : SUM_CHUNK;
        const char *base = p->x + reduce_offset(&p->kept, p->kept.x, result);
        const void *x = p->direct ? (const void *)(base + first * size) : staged;
        if (!p->direct) reduce_gather(p, base, first, n, staged);
        reduce_value v = reduce_chunk(p, x, n);
        if (p->chunks == 1)
            reduce_store(p, result, v);
        else
            p->partial[item] = v;
    }
}

/* Chunks to results. */
static void reduce_merge(const void *user, int64_t result, int64_t last, int worker) {
    const reduce_problem *p = user;
    bool tree = p->compute != COMPUTE_I64 && p->kind <= REDUCE_PROD;
    (void)worker;
    for (; result < last; result++) {
        const reduce_value *part = p->partial + result * p->chunks;
        reduce_value v = part[0];
        mlsi_sum_tree sum;
        if (tree) mlsi_sum_tree_init(&sum, p->kind == REDUCE_PROD, p->compute == COMPUTE_F32);
        for (int64_t c = 0; c < p->chunks; c++) {
            if (tree)
                mlsi_sum_tree_push(&sum, part[c].f);
            else if (p->compute == COMPUTE_I64)
                v.i = c ? combine_i64(p->kind, v.i, part[c].i) : v.i;
            else
                v.f = c ? combine_f64(p->kind, v.f, part[c].f) : v.f;
        }
        if (tree) v.f = mlsi_sum_tree_result(&sum);
        reduce_store(p, result, v);
    }
}

/* ---- the problem ----------------------------------------------------------------------------- */

static bool is_reduced(const mlsi_attr_reduce *attrs, int rank, int d) {
    for (int64_t i = 0; i < attrs->axes.n; i++)
        if (attrs->axes.v[i] == d || attrs->axes.v[i] + rank == d) return true;
    return attrs->axes.n == 0;
}

/* Append a dim, merged with the one before it when x's strides allow. */
static void add_dim(reduce_dims *to, int64_t extent, int64_t x, int64_t y, bool merge) {
    int last = to->rank - 1;
    if (extent == 1) return;
    if (merge && last >= 0 && to->x[last] == x * extent) {
        to->shape[last] *= extent;
        to->x[last] = x;
        return;
    }
    to->shape[to->rank] = extent;
    to->x[to->rank] = x;
    to->y[to->rank++] = y;
}

static int64_t chunk_count(int64_t length) {
    return length <= SUM_CHUNK ? 1 : (length - 1) / SUM_CHUNK + 1;
}

static void describe_problem(const mlsi_kernel_args *args, reduce_problem *p) {
    static const mlsi_attr_reduce all = {{0}, 0};
    const mlsi_attr_reduce *attrs = p->kind == REDUCE_SQUARES ? &all : args->attrs;
    const mlsi_view *x = &args->in[0], *y = &args->out[0];
    int64_t size = mlsi_dtype_size(x->dtype), y_size = mlsi_dtype_size(y->dtype);
    p->dtype = x->dtype;
    p->compute = compute_type_of(x->dtype);
    p->x = x->data;
    p->y = y->data;
    p->results = p->length = 1;
    for (int d = 0, o = 0; d < x->rank; d++) {
        bool reduced = is_reduced(attrs, x->rank, d);
        if (reduced) {
            p->length *= x->shape[d];
            add_dim(&p->reduced, x->shape[d], x->strides[d] * size, 0, true);
        } else {
            p->results *= x->shape[d];
            add_dim(&p->kept, x->shape[d], x->strides[d] * size, y->strides[o] * y_size, false);
        }
        if (!reduced || attrs->keep) o++;
    }
    if (!p->reduced.rank) {
        p->reduced.shape[0] = 1;
        p->reduced.x[0] = size;
        p->reduced.rank = 1;
    }
    p->chunks = chunk_count(p->length);
    p->direct = p->reduced.rank == 1 && is_staged(p->dtype, p->reduced.x[0]);
}

static uint64_t work_of(const mlsi_kernel_args *args, int threads, reduce_kind kind) {
    reduce_problem p = {.kind = kind};
    describe_problem(args, &p);
    uint64_t partial = p.chunks > 1 ? (uint64_t)(p.results * p.chunks) * sizeof(reduce_value) : 0;
    return (partial + 63) / 64 * 64 + (uint64_t)threads * REDUCE_SCRATCH;
}
static uint64_t reduce_work(const mlsi_kernel_args *args, int threads) {
    return work_of(args, threads, REDUCE_SUM);
}
static uint64_t squares_work(const mlsi_kernel_args *args, int threads) {
    return work_of(args, threads, REDUCE_SQUARES);
}

static mlsys_status reduce_run(const mlsi_kernel_args *args, reduce_kind kind) {
    enum { GRAIN = 16384 };
    reduce_problem p = {.kind = kind};
    describe_problem(args, &p);
    uint64_t partial = p.chunks > 1 ? (uint64_t)(p.results * p.chunks) * sizeof(reduce_value) : 0;
    p.partial = args->work;
    p.scratch = (char *)args->work + (partial + 63) / 64 * 64;
    if (p.results == 0) return MLSYS_OK;
    if (kind == REDUCE_SQUARES || !MLSI_K(reduce_columns)(&p, args->pool)) {
        int64_t chunk = p.chunks > 1 ? SUM_CHUNK : p.length + 1;
        mlsi_range_run(args->pool, p.results * p.chunks, GRAIN / chunk, reduce_rows, &p);
    }
    if (p.chunks > 1) mlsi_range_run(args->pool, p.results, GRAIN / p.chunks, reduce_merge, &p);
    return MLSYS_OK;
}

#define REDUCE_RUN(name, kind)                                                                     \
    static mlsys_status name##_run(const mlsi_kernel_args *args) { return reduce_run(args, kind); }
REDUCE_RUN(reduce_sum, REDUCE_SUM)
REDUCE_RUN(reduce_mean, REDUCE_MEAN)
REDUCE_RUN(sum_squares, REDUCE_SQUARES)
REDUCE_RUN(reduce_prod, REDUCE_PROD)
REDUCE_RUN(reduce_max, REDUCE_MAX)
REDUCE_RUN(reduce_min, REDUCE_MIN)

static bool accepts_number(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return is_plain(t) && t != MLSYS_BOOL && q->out[0].dtype == t;
}
static bool accepts_mean(const mlsi_query *q) {
    return accepts_number(q) && mlsi_dtype_is_float(q->in[0].dtype);
}
static bool accepts_squares(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype;
    return is_plain(t) && mlsi_dtype_is_float(t);
}
static bool accepts_bool(const mlsi_query *q) {
    return q->in[0].dtype == MLSYS_BOOL && q->out[0].dtype == MLSYS_BOOL;
}

#define REDUCE_ROW(ID, id, run_fn, accept)                                                         \
    {                                                                                              \
        .op = MLSI_OP_##ID, .isa = MLSI_K_ISA, .name = MLSI_K_NAME(id), .accepts = accept,         \
        .run = run_fn, .work = reduce_work                                                         \
    }

MLSI_KERNEL_TABLE(reduce) = {
    REDUCE_ROW(REDUCE_SUM, "reduce_sum", reduce_sum_run, accepts_number),
    REDUCE_ROW(REDUCE_MEAN, "reduce_mean", reduce_mean_run, accepts_mean),
    {.op = MLSI_OP_SUM_SQUARES,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("sum_squares"),
     .accepts = accepts_squares,
     .run = sum_squares_run,
     .work = squares_work},
    REDUCE_ROW(REDUCE_PROD, "reduce_prod", reduce_prod_run, accepts_number),
    REDUCE_ROW(REDUCE_MAX, "reduce_max", reduce_max_run, accepts_number),
    REDUCE_ROW(REDUCE_MIN, "reduce_min", reduce_min_run, accepts_number),
    REDUCE_ROW(REDUCE_AND, "reduce_and", reduce_min_run, accepts_bool),
    REDUCE_ROW(REDUCE_OR, "reduce_or", reduce_max_run, accepts_bool),
    {.run = NULL},
};
