/* iota, full, random: outputs without data inputs. */
#include "cpu/kernels/copy_view.h"
#include "core/rng.h"

/* ---- full ------------------------------------------------------------------------------------ */

static mlsys_status full_run(const mlsi_kernel_args *args) {
    const mlsi_attr_full *attrs = args->attrs;
    const mlsi_view *y = &args->out[0];
    char bytes[8] = {0};
    if (mlsi_dtype_is_float(y->dtype))
        store_f64(bytes, y->dtype, attrs->value);
    else
        store_i64(bytes, y->dtype, 8, &attrs->ivalue, 1);
    mlsi_view value = {.data = bytes, .dtype = y->dtype, .rank = 0};
    copy_view(y, &value, args->pool);
    return MLSYS_OK;
}

/* ---- iota ------------------------------------------------------------------------------------ */

typedef struct iota_job {
    mlsi_view line; /* y along the axis */
    int64_t size;
} iota_job;

static void iota_range(const void *user, int64_t i, int64_t last, int worker) {
    const iota_job *job = user;
    (void)worker;
    for (; i < last; i++) {
        char *to = (char *)job->line.data + i * job->line.strides[0] * job->size;
        if (mlsi_dtype_is_float(job->line.dtype))
            store_f64(to, job->line.dtype, (double)i); /* exact: i is below 2^53 */
        else
            store_i64(to, job->line.dtype, 8, &i, 1);
    }
}

/* The first line is counted, the others are copies of it. */
static mlsys_status iota_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 8192 };
    const mlsi_attr_iota *attrs = args->attrs;
    const mlsi_view *y = &args->out[0];
    int axis = (int)(attrs->axis < 0 ? attrs->axis + y->rank : attrs->axis);
    if (mlsi_view_count(y) == 0) return MLSYS_OK;
    iota_job job = {.size = mlsi_dtype_size(y->dtype),
                    .line = {.data = y->data, .dtype = y->dtype, .rank = 1}};
    job.line.shape[0] = y->shape[axis];
    job.line.strides[0] = y->strides[axis];
    mlsi_range_run(args->pool, y->shape[axis], GRAIN, iota_range, &job);
    /* Double the filled part of each other axis until it is whole. */
    mlsi_view filled = *y;
    for (int d = 0; d < y->rank; d++)
        if (d != axis) filled.shape[d] = 1;
    for (int d = y->rank - 1; d >= 0; d--) {
        while (d != axis && filled.shape[d] < y->shape[d]) {
            int64_t have = filled.shape[d], more = y->shape[d] - have;
            mlsi_view from = filled, to = narrow_view(&filled, d, have, more < have ? more : have);
            from.shape[d] = to.shape[d];
            copy_view(&to, &from, args->pool);
            filled.shape[d] = have + to.shape[d];
        }
    }
    return MLSYS_OK;
}

/* ---- random ---------------------------------------------------------------------------------- */

typedef struct random_job {
    const mlsi_view *y;
    int kind;
    uint64_t key, stream;
    int64_t size;
} random_job;

/* Elements are numbered in row-major order, whatever the strides are. */
static void random_range(const void *user, int64_t first, int64_t last, int worker) {
    const random_job *job = user;
    const mlsi_view *y = job->y;
    int inner = y->rank - 1;
    (void)worker;
    while (first < last) {
        stage_block block;
        int64_t rest = first, offset = 0, run = 1, step = job->size;
        for (int d = inner; d >= 0; d--) {
            offset += rest % y->shape[d] * y->strides[d];
            rest /= y->shape[d];
        }
        if (inner >= 0) {
            run = y->shape[inner] - first % y->shape[inner];
            step = y->strides[inner] * job->size;
        }
        if (run > last - first) run = last - first;
        if (run > STAGE) run = STAGE;
        /* The combination of dtype and kind was checked. */
        (void)mlsi_rng_fill(&block, y->dtype, job->kind, job->key, job->stream, (uint64_t)first,
                            run);
        stage_move((char *)y->data + offset * job->size, step, (const char *)&block, job->size,
                   (int)job->size, run);
        first += run;
    }
}

static mlsys_status random_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 4096 };
    const mlsi_attr_random *attrs = args->attrs;
    random_job job = {
        .y = &args->out[0], .kind = (int)attrs->kind, .size = mlsi_dtype_size(args->out[0].dtype)};
    memcpy(&job.key, args->in[0].data, 8);
    memcpy(&job.stream, args->in[1].data, 8);
    MLSI_TRY(mlsi_rng_check(job.y->dtype, job.kind));
    mlsi_range_run(args->pool, mlsi_view_count(job.y), GRAIN, random_range, &job);
    return MLSYS_OK;
}

static bool accepts_created(const mlsi_query *q) { return is_plain(q->out[0].dtype); }
static bool accepts_random(const mlsi_query *q) {
    return accepts_created(q) && q->in[0].dtype == MLSYS_I64 && q->in[1].dtype == MLSYS_I64;
}

#define CREATE_ROW(ID, id, accept)                                                                 \
    {                                                                                              \
        .op = MLSI_OP_##ID, .isa = MLSI_K_ISA, .name = MLSI_K_NAME(#id), .accepts = accept,        \
        .run = id##_run                                                                            \
    }

MLSI_KERNEL_TABLE(create) = {
    CREATE_ROW(IOTA, iota, accepts_created),
    CREATE_ROW(FULL, full, accepts_created),
    CREATE_ROW(RANDOM, random, accepts_random),
    {.run = NULL},
};
