#include "cpu/iterate.h"

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

mlsi_view mlsi_view_broadcast(const mlsi_view *v, int rank, const int64_t *shape) {
    mlsi_view b = {.data = v->data, .dtype = v->dtype, .rank = rank};
    for (int d = 0; d < rank; d++) {
        int s = d - (rank - v->rank);
        b.shape[d] = shape[d];
        b.strides[d] = s < 0 || v->shape[s] == 1 ? 0 : v->strides[s];
    }
    return b;
}

mlsi_view mlsi_view_drop(const mlsi_view *v, int axis, int count) {
    mlsi_view r = {.data = v->data, .dtype = v->dtype, .rank = v->rank - count};
    for (int d = 0, to = 0; d < v->rank; d++) {
        if (d >= axis && d < axis + count) continue;
        r.shape[to] = v->shape[d];
        r.strides[to++] = v->strides[d];
    }
    return r;
}

mlsi_view mlsi_view_whole_blocks(const mlsi_view *v) {
    mlsi_view b = *v;
    int64_t block = mlsi_dtype_get(v->dtype)->block_elems;
    if (block == 1 || v->rank == 0) return b;
    for (int d = 0; d < v->rank - 1; d++)
        b.strides[d] /= block;
    b.shape[v->rank - 1] /= block;
    return b;
}

/* Insertion sort, stable: larger strides of view 0 first, those of view 1 break ties. */
static void order_dims(const mlsi_view *b, int n, int *order, int rank) {
    for (int i = 1; i < rank; i++) {
        int d = order[i], j = i;
        for (; j > 0; j--) {
            int e = order[j - 1];
            int64_t sd = magnitude(b[0].strides[d]), se = magnitude(b[0].strides[e]);
            if (sd == se && n > 1) {
                sd = magnitude(b[1].strides[d]);
                se = magnitude(b[1].strides[e]);
            }
            if (se >= sd) break;
            order[j] = e;
        }
        order[j] = d;
    }
}

static bool mergeable(const mlsi_iter *it, int d, const mlsi_view *b, int inner) {
    for (int v = 0; v < it->views; v++)
        if (it->strides[v][d] != b[v].strides[inner] * b[v].shape[inner]) return false;
    return true;
}

void mlsi_iter_init(mlsi_iter *it, const mlsi_view *const *views, int n) {
    mlsi_view b[MLSI_ITER_VIEWS] = {{0}};
    int order[MLSYS_MAX_DIMS], kept = 0;
    int64_t sizes[MLSI_ITER_VIEWS];
    *it = (mlsi_iter){.views = n, .count = 1};
    for (int v = 0; v < n; v++) {
        mlsi_view blocks = mlsi_view_whole_blocks(views[v]);
        mlsi_view shape = v ? b[0] : blocks;
        b[v] = mlsi_view_broadcast(&blocks, shape.rank, shape.shape);
        it->base[v] = views[v]->data;
        sizes[v] = mlsi_dtype_size(views[v]->dtype);
    }
    for (int v = 0; v < n; v++)
        for (int d = 0; d < b[v].rank; d++)
            b[v].strides[d] *= sizes[v];
    for (int d = 0; d < b[0].rank; d++) {
        it->count *= b[0].shape[d];
        if (b[0].shape[d] != 1) order[kept++] = d;
    }
    order_dims(b, n, order, kept);
    for (int i = 0; i < kept; i++) {
        int d = order[i];
        bool merge = it->rank > 0 && mergeable(it, it->rank - 1, b, d);
        int to = merge ? it->rank - 1 : it->rank++;
        it->shape[to] = merge ? it->shape[to] * b[0].shape[d] : b[0].shape[d];
        for (int v = 0; v < n; v++)
            it->strides[v][to] = b[v].strides[d];
    }
    if (!it->rank) it->shape[it->rank++] = 1;
}

typedef struct iter_job {
    const mlsi_iter *it;
    mlsi_run_fn fn;
    const void *user;
    int64_t run, chunk, chunks; /* a run of `run` elements is cut into chunks of `chunk` */
    int64_t per_item, total;    /* chunks of all runs */
} iter_job;

static void run_item(void *user, int64_t item, int worker) {
    const iter_job *job = user;
    const mlsi_iter *it = job->it;
    int64_t first = item * job->per_item, last = first + job->per_item;
    if (last > job->total) last = job->total;
    int64_t outer = first / job->chunks, chunk = first % job->chunks;
    int64_t index[MLSYS_MAX_DIMS] = {0};
    char *row[MLSI_ITER_VIEWS], *p[MLSI_ITER_VIEWS];
    int64_t stride[MLSI_ITER_VIEWS];
    for (int v = 0; v < it->views; v++) {
        row[v] = it->base[v];
        stride[v] = it->strides[v][it->rank - 1];
    }
    for (int d = it->rank - 2; d >= 0; d--) {
        index[d] = outer % it->shape[d];
        outer /= it->shape[d];
        for (int v = 0; v < it->views; v++)
            row[v] += index[d] * it->strides[v][d];
    }
    for (int64_t i = first; i < last; i++) {
        int64_t start = chunk * job->chunk, n = job->run - start;
        for (int v = 0; v < it->views; v++)
            p[v] = row[v] + start * stride[v];
        job->fn(job->user, p, stride, n < job->chunk ? n : job->chunk, worker);
        if (++chunk < job->chunks) continue;
        chunk = 0;
        for (int d = it->rank - 2; d >= 0; d--) {
            int64_t back = ++index[d] < it->shape[d] ? 0 : it->shape[d];
            for (int v = 0; v < it->views; v++)
                row[v] += (1 - back) * it->strides[v][d];
            if (!back) break;
            index[d] = 0;
        }
    }
}

void mlsi_iter_run(const mlsi_iter *it, mlsi_pool *pool, int64_t grain, mlsi_run_fn fn,
                   const void *user) {
    if (!it->count) return;
    int64_t run = it->shape[it->rank - 1];
    if (grain < 1) grain = 1;
    iter_job job = {.it = it, .fn = fn, .user = user, .run = run, .chunk = run, .chunks = 1};
    if (run > grain) {
        job.chunk = grain;
        job.chunks = (run + grain - 1) / grain;
    }
    job.total = it->count / run * job.chunks;
    job.per_item = run >= grain ? 1 : grain / run;
    int64_t items = (job.total + job.per_item - 1) / job.per_item;
    if (items == 1)
        run_item(&job, 0, 0);
    else
        mlsi_pool_run(pool, items, run_item, &job);
}

typedef struct range_job {
    mlsi_range_fn fn;
    const void *user;
    int64_t n, grain;
} range_job;

static void range_item(void *user, int64_t item, int worker) {
    const range_job *job = user;
    int64_t first = item * job->grain;
    job->fn(job->user, first, job->n - first < job->grain ? job->n : first + job->grain, worker);
}

void mlsi_range_run(mlsi_pool *pool, int64_t n, int64_t grain, mlsi_range_fn fn, const void *user) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    range_job job = {fn, user, n, grain};
    if (n <= grain)
        fn(user, 0, n, 0);
    else
        mlsi_pool_run(pool, (n - 1) / grain + 1, range_item, &job);
}
