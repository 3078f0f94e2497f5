/* gather and embedding: rows of a table by index. Addresses are 64-bit throughout. */
#include "cpu/kernels/copy_view.h"
#include "cpu/kernels/index_operand.h"
#include "cpu/kernels/quant.h"

enum { INDEX_GRAIN_BYTES = 1 << 16 };

/* ---- gather ---------------------------------------------------------------------------------- */

typedef struct gather_job {
    mlsi_iter slab; /* x and y without the axis and the index dims: view 0 is y */
    const mlsi_view *x, *y;
    int axis, index_dims;
    int64_t size;
    copy_job copy;
    const int64_t *index;
} gather_job;

static void gather_range(const void *user, int64_t j, int64_t last, int worker) {
    const gather_job *job = user;
    mlsi_iter slab = job->slab;
    (void)worker;
    for (; j < last; j++) {
        int64_t to = dims_offset(job->y, job->axis, job->index_dims, j);
        slab.base[0] = (char *)job->y->data + to * job->size;
        slab.base[1] =
            (char *)job->x->data + job->index[j] * job->x->strides[job->axis] * job->size;
        if (slab.rank == 1)
            stage_move(slab.base[0], slab.strides[0][0], slab.base[1], slab.strides[1][0],
                       (int)job->size, slab.shape[0]);
        else
            mlsi_iter_run(&slab, NULL, slab.count, copy_run, &job->copy);
    }
}

static int gather_axis(const mlsi_kernel_args *args) {
    const mlsi_attr_axis *attrs = args->attrs;
    return (int)(attrs->axis < 0 ? attrs->axis + args->in[0].rank : attrs->axis);
}

static uint64_t index_work(const mlsi_kernel_args *args, int threads) {
    (void)threads;
    return (uint64_t)mlsi_view_count(&args->in[1]) * sizeof(int64_t);
}

static mlsys_status gather_run(const mlsi_kernel_args *args) {
    const mlsi_view *x = &args->in[0], *ids = &args->in[1], *y = &args->out[0];
    gather_job job = {.x = x,
                      .y = y,
                      .axis = gather_axis(args),
                      .index_dims = ids->rank,
                      .size = mlsi_dtype_size(x->dtype),
                      .index = args->work};
    job.copy.size = job.size;
    MLSI_TRY(load_indices("gather", ids, x->shape[job.axis], args->work));
    if (mlsi_view_count(y) == 0) return MLSYS_OK;
    mlsi_view slab_y = mlsi_view_drop(y, job.axis, ids->rank);
    mlsi_view slab_x = mlsi_view_drop(x, job.axis, 1);
    const mlsi_view *views[2] = {&slab_y, &slab_x};
    mlsi_iter_init(&job.slab, views, 2);
    mlsi_range_run(args->pool, mlsi_view_count(ids),
                   INDEX_GRAIN_BYTES / (job.slab.count * job.size), gather_range, &job);
    return MLSYS_OK;
}

static bool accepts_gather(const mlsi_query *q) {
    return is_plain(q->in[0].dtype) && q->in[0].dtype == q->out[0].dtype &&
           is_index_dtype(q->in[1].dtype);
}

/* ---- embedding ------------------------------------------------------------------------------- */

typedef struct embedding_job {
    const mlsi_view *table, *ids, *y;
    const int64_t *index;
} embedding_job;

static void embedding_row(const embedding_job *job, char *to, const char *from) {
    const mlsi_view *table = job->table, *y = job->y;
    int64_t width = table->shape[1], size = mlsi_dtype_size(y->dtype);
    int64_t to_step = y->strides[y->rank - 1] * size;
    if (table->dtype == y->dtype) {
        stage_move(to, to_step, from, table->strides[1] * size, (int)size, width);
        return;
    }
    for (int64_t i = 0; i < width; i += STAGE) {
        float row[STAGE];
        int64_t n = width - i < STAGE ? width - i : STAGE;
        if (mlsi_dtype_is_block(table->dtype)) {
            MLSI_K(quant_dequantize)(table->dtype, (const uint8_t *)from, i, n, row);
        } else {
            int64_t step = table->strides[1] * mlsi_dtype_size(table->dtype);
            load_f32(row, from + i * step, table->dtype, step, n);
        }
        store_f32(to + i * to_step, y->dtype, to_step, row, n);
    }
}

static void embedding_range(const void *user, int64_t j, int64_t last, int worker) {
    const embedding_job *job = user;
    const mlsi_dtype_info *info = mlsi_dtype_get(job->table->dtype);
    int64_t row_bytes = job->table->strides[0] / info->block_elems * info->block_bytes;
    int64_t size = mlsi_dtype_size(job->y->dtype);
    (void)worker;
    for (; j < last; j++)
        embedding_row(job, (char *)job->y->data + dims_offset(job->y, 0, job->ids->rank, j) * size,
                      (const char *)job->table->data + job->index[j] * row_bytes);
}

static mlsys_status embedding_run(const mlsi_kernel_args *args) {
    const mlsi_view *table = &args->in[0], *ids = &args->in[1], *y = &args->out[0];
    embedding_job job = {.table = table, .ids = ids, .y = y, .index = args->work};
    MLSI_TRY(load_indices("embedding", ids, table->shape[0], args->work));
    if (mlsi_view_count(y) == 0) return MLSYS_OK;
    mlsi_range_run(args->pool, mlsi_view_count(ids), INDEX_GRAIN_BYTES / (4 * table->shape[1]),
                   embedding_range, &job);
    return MLSYS_OK;
}

static bool accepts_embedding(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype, y = q->out[0].dtype;
    if (!is_index_dtype(q->in[1].dtype)) return false;
    if (t == y) return is_plain(t);
    return mlsi_dtype_is_float(y) && y != MLSYS_F64 && t != MLSYS_F64 &&
           (mlsi_dtype_is_float(t) || mlsi_dtype_is_block(t));
}

MLSI_KERNEL_TABLE(index_gather) = {
    {.op = MLSI_OP_GATHER,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("gather_rows"),
     .accepts = accepts_gather,
     .run = gather_run,
     .work = index_work},
    {.op = MLSI_OP_EMBEDDING,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("embedding_rows"),
     .accepts = accepts_embedding,
     .run = embedding_run,
     .work = index_work},
    {.run = NULL},
};
