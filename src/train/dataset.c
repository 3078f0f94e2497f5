#include "train/dataset.h"

#include "core/faults.h"
#include "train/shuffle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const mlsi_config_key keys[] = {
    {"format", 's', "", 0, 0, "of a file: idx, csv or tokens"},
    {"labels", 's', "", 0, 0, "idx: path of the file of labels; empty: images alone"},
    {"header", 'i', "1", 0, 1,
     "csv: 1: the first line names the columns; 0: they are named 0, 1, ..."},
    {"columns", 's', "", 0, 0,
     "csv: names of the columns of numbers, with commas between; empty: all but the label's"},
    {"label", 's', "", 0, 0, "csv: name of the column of integer labels; empty: no labels"},
    {"dtype", 's', "u16", 0, 0, "tokens: ids as they lie in the file: u16, u32 or i32"},
    {"length", 'i', "0", 1, 1 << 30, "tokens: ids in an example"},
    {"shuffle", 'i', "1", 0, 1, "1: a new order in each epoch; 0: always as they lie in the file"},
    {"seed", 'i', "0", -0x1p63, 0x1p63, "of the orders"},
};

const mlsi_config_key *mlsi_dataset_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

/* ---- the object ----------------------------------------------------------------------------- */

static void dataset_free(mlsi_alloc *a, mlsi_dataset *d) {
    for (int i = 0; i < 2; i++) {
        mlsi_dataset_file_close(&d->files[i]);
        mlsi_mem_free(a, d->owned[i]);
    }
    for (int i = 0; i < MLSI_DATASET_FIELDS; i++)
        mlsi_unpin(d->tensors[i]);
    mlsi_unpin(d->device);
    mlsi_mem_free(a, d);
}

static void dataset_destroy(mlsi_object *self) {
    dataset_free(&self->ctx->alloc, (mlsi_dataset *)self);
}

static mlsys_status dataset_new(mlsi_ctx *ctx, const mlsi_config *c, mlsi_dataset **out) {
    mlsys_device handle;
    MLSI_TRY(mlsi_device_get(ctx, MLSYS_CPU, 0, &handle));
    mlsys_status st = MLSI_NEW(&ctx->alloc, out);
    if (st == MLSYS_OK) {
        st = mlsi_pin(handle, MLSYS_KIND_DEVICE, "dataset: device", &(*out)->device);
        (*out)->length = mlsi_config_i64(c, "length", 0);
        (*out)->shuffle = mlsi_config_i64(c, "shuffle", 1) != 0;
        (*out)->seed = (uint64_t)mlsi_config_i64(c, "seed", 0);
    }
    mlsi_handle_release(handle, "dataset: device");
    return st;
}

/* Settings that the format has no use for are mistakes. */
static mlsys_status check_settings(const mlsi_config *c, const char *call, const char *format,
                                   const char *allowed) {
    int n;
    MLSI_TRY(mlsi_config_check(c, call, mlsi_dataset_config_keys(&n),
                               (int)(sizeof keys / sizeof keys[0])));
    for (int i = 0; i < n; i++) {
        char word[16];
        snprintf(word, sizeof word, "%s ", keys[i].name);
        if (mlsi_config_find(c, keys[i].name) && !strstr(allowed, word))
            return mlsi_fail(MLSYS_E_ARG, "%s: key \"%s\" has no use for %s", call, keys[i].name,
                             format);
    }
    return MLSYS_OK;
}

static const char *setting(const mlsi_config *c, const char *key) { /* NULL: not set, or empty */
    const char *s = mlsi_config_str(c, key, "");
    return s[0] ? s : NULL;
}

static mlsi_view *add_field(mlsi_dataset *d, mlsys_dtype dtype, const void *data, int32_t rank,
                            const int64_t *shape) {
    mlsi_view *v = &d->fields[d->n_fields++];
    int64_t stride = 1;
    v->data = (void *)(uintptr_t)data;
    v->dtype = dtype;
    v->rank = rank;
    for (int32_t k = rank - 1; k >= 0; k--) {
        v->shape[k] = shape[k];
        v->strides[k] = stride;
        stride *= shape[k];
    }
    return v;
}

/* ---- files ---------------------------------------------------------------------------------- */

static mlsys_status read_labels(mlsi_dataset *d, mlsi_alloc *a, const char *path) {
    mlsi_idx x;
    int64_t *labels;
    MLSI_TRY(mlsi_dataset_file_open(a, path, mlsi_idx_measure, &d->files[1]));
    MLSI_TRY(mlsi_idx_read(path, d->files[1].data, d->files[1].size, &x));
    if (x.rank != 1)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: labels of rank %d, expected 1", path, x.rank);
    if (x.dims[0] != d->count)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: %" PRId64 " labels for %" PRId64 " examples",
                         path, x.dims[0], d->count);
    MLSI_TRY(MLSI_NEW_N(a, d->count, &labels));
    d->owned[0] = labels;
    for (int64_t i = 0; i < d->count; i++)
        labels[i] = x.elements[i];
    mlsi_dataset_file_close(&d->files[1]);
    add_field(d, MLSYS_I64, labels, 1, &d->count);
    return MLSYS_OK;
}

static mlsys_status load_idx(mlsi_dataset *d, mlsi_alloc *a, const char *path,
                             const mlsi_config *c) {
    mlsi_idx x;
    const char *labels = setting(c, "labels");
    MLSI_TRY(check_settings(c, "dataset_open", "idx", "format labels shuffle seed "));
    MLSI_TRY(mlsi_dataset_file_open(a, path, mlsi_idx_measure, &d->files[0]));
    MLSI_TRY(mlsi_idx_read(path, d->files[0].data, d->files[0].size, &x));
    d->count = x.dims[0];
    add_field(d, MLSYS_U8, x.elements, x.rank, x.dims);
    return labels ? read_labels(d, a, labels) : MLSYS_OK;
}

static mlsys_status load_csv(mlsi_dataset *d, mlsi_alloc *a, const char *path,
                             const mlsi_config *c) {
    mlsi_csv table;
    MLSI_TRY(check_settings(c, "dataset_open", "csv", "format header columns label shuffle seed "));
    MLSI_TRY(mlsi_dataset_file_open(a, path, NULL, &d->files[0]));
    MLSI_TRY(mlsi_csv_read(a, path, d->files[0].data, d->files[0].size,
                           mlsi_config_i64(c, "header", 1) != 0, setting(c, "columns"),
                           setting(c, "label"), &table));
    mlsi_dataset_file_close(&d->files[0]);
    d->owned[0] = table.numbers;
    d->owned[1] = table.labels;
    d->count = table.rows;
    add_field(d, MLSYS_F32, table.numbers, 2, (int64_t[]){table.rows, table.columns});
    if (table.labels) add_field(d, MLSYS_I64, table.labels, 1, &table.rows);
    return MLSYS_OK;
}

static mlsys_status load_tokens(mlsi_dataset *d, mlsi_alloc *a, const char *path,
                                const mlsi_config *c) {
    MLSI_TRY(check_settings(c, "dataset_open", "tokens", "format dtype length shuffle seed "));
    if (!d->length)
        return mlsi_fail(MLSYS_E_ARG,
                         "dataset_open: tokens need \"length\", the ids of an example");
    MLSI_TRY(mlsi_dataset_file_open(a, path, NULL, &d->files[0]));
    return mlsi_tokens_read(d, path, mlsi_config_str(c, "dtype", "u16"));
}

static mlsys_status load(mlsi_dataset *d, mlsi_alloc *a, const char *path, const mlsi_config *c) {
    const char *format = mlsi_config_str(c, "format", "");
    if (!strcmp(format, "idx")) return load_idx(d, a, path, c);
    if (!strcmp(format, "csv")) return load_csv(d, a, path, c);
    if (!strcmp(format, "tokens")) return load_tokens(d, a, path, c);
    return mlsi_fail(MLSYS_E_ARG,
                     "dataset_open: key \"format\" is none of idx, csv, tokens: \"%.32s\"", format);
}

static mlsys_status finish(mlsi_ctx *ctx, mlsi_dataset *d, mlsys_status st, mlsys_dataset *out) {
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&d->object, MLSYS_KIND_DATASET, ctx, dataset_destroy, out);
    if (st != MLSYS_OK && d) dataset_free(&ctx->alloc, d);
    return st;
}

mlsys_status mlsi_dataset_open(mlsi_ctx *ctx, const char *path, const mlsi_config *c,
                               mlsys_dataset *out) {
    mlsi_dataset *d = NULL;
    int n;
    *out = NULL;
    MLSI_TRY(mlsi_config_check(c, "dataset_open", mlsi_dataset_config_keys(&n),
                               (int)(sizeof keys / sizeof keys[0])));
    mlsys_status st = dataset_new(ctx, c, &d);
    if (st == MLSYS_OK) st = load(d, &ctx->alloc, path, c);
    return finish(ctx, d, st, out);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static mlsys_status wrap_tokens(mlsi_dataset *d, int32_t n) {
    char text[128];
    const mlsi_layout *l = &d->tensors[0]->layout;
    if (n != 1)
        return mlsi_fail(MLSYS_E_ARG, "dataset_wrap: %d tensors; tokens (\"length\") are one", n);
    if (l->dtype != MLSYS_I32 || l->rank != 1)
        return mlsi_fail(l->rank == 1 ? MLSYS_E_DTYPE : MLSYS_E_SHAPE,
                         "dataset_wrap: tokens are %s, expected i32 [N]",
                         mlsi_layout_text(l, text, sizeof text));
    d->fields[0] = mlsi_tensor_view_of(d->tensors[0]);
    if (mlsi_tokens_windows(d, "dataset_wrap", l->shape[0]) == MLSYS_OK) return MLSYS_OK;
    return mlsi_fail_in(MLSYS_E_SHAPE, "fields");
}

static mlsys_status wrap_field(mlsi_dataset *d, int32_t i) {
    char text[128];
    const mlsi_layout *l = &d->tensors[i]->layout;
    mlsi_layout_text(l, text, sizeof text);
    if (l->rank < 1)
        return mlsi_fail(MLSYS_E_SHAPE, "dataset_wrap: field %d is %s: no axis of examples", i,
                         text);
    if (l->rank == 1 && mlsi_dtype_get(l->dtype)->block_elems > 1)
        return mlsi_fail(MLSYS_E_SHAPE, "dataset_wrap: field %d is %s: blocks along the examples",
                         i, text);
    if (l->shape[0] < 1 || (i && l->shape[0] != d->count))
        return mlsi_fail(MLSYS_E_SHAPE, "dataset_wrap: field %d is %s, expected %s%" PRId64, i,
                         text, i ? "examples: " : "examples, at least ", i ? d->count : 1);
    d->count = l->shape[0];
    d->fields[d->n_fields++] = mlsi_tensor_view_of(d->tensors[i]);
    return MLSYS_OK;
}

static mlsys_status wrap(mlsi_dataset *d, int32_t n, mlsi_tensor *const *fields) {
    for (int32_t i = 0; i < n; i++) {
        mlsi_repin(fields[i]);
        d->tensors[i] = fields[i];
    }
    if (d->length) return wrap_tokens(d, n);
    for (int32_t i = 0; i < n; i++)
        MLSI_TRY(wrap_field(d, i));
    return MLSYS_OK;
}

mlsys_status mlsi_dataset_wrap(mlsi_ctx *ctx, int32_t n, mlsi_tensor *const *fields,
                               const mlsi_config *c, mlsys_dataset *out) {
    mlsi_dataset *d = NULL;
    *out = NULL;
    MLSI_TRY(check_settings(c, "dataset_wrap", "tensors", "length shuffle seed "));
    mlsys_status st = dataset_new(ctx, c, &d);
    if (st == MLSYS_OK) st = wrap(d, n, fields);
    return finish(ctx, d, st, out);
}

/* ---- batches -------------------------------------------------------------------------------- */

typedef struct batch_job {
    const mlsi_dataset *d;
    int64_t position, n, per_item;
    mlsi_view out[MLSI_DATASET_FIELDS];
    _Atomic int64_t bad; /* the least number of an id that is no i32; INT64_MAX = none */
} batch_job;

static int64_t example_at(const mlsi_dataset *d, int64_t position) {
    int64_t epoch = position / d->count, i = position % d->count;
    return d->shuffle ? mlsi_shuffle(d->seed, epoch, d->count, i) : i;
}

/* Example i of examples that lie along axis 0. */
static mlsi_view row_of(const mlsi_view *v, int64_t i) {
    mlsi_view row = {.dtype = v->dtype, .rank = v->rank - 1};
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    row.data = (char *)v->data + i * (v->strides[0] / info->block_elems) * info->block_bytes;
    memcpy(row.shape, v->shape + 1, sizeof *row.shape * (size_t)row.rank);
    memcpy(row.strides, v->strides + 1, sizeof *row.strides * (size_t)row.rank);
    return row;
}

static void copy_tokens(batch_job *job, int64_t example, int64_t k) {
    int64_t length = job->d->length;
    int64_t bad = mlsi_tokens_copy(job->d, example, (int32_t *)job->out[0].data + k * length,
                                   (int32_t *)job->out[1].data + k * length);
    int64_t least = atomic_load(&job->bad);
    while (bad >= 0 && bad < least && !atomic_compare_exchange_weak(&job->bad, &least, bad))
        ;
}

static void copy_examples(void *user, int64_t item, int worker) {
    batch_job *job = user;
    int64_t first = item * job->per_item, left = job->n - first;
    (void)worker;
    for (int64_t k = first; k < first + (left < job->per_item ? left : job->per_item); k++) {
        int64_t example = example_at(job->d, job->position + k);
        if (job->d->length) {
            copy_tokens(job, example, k);
            continue;
        }
        for (int32_t f = 0; f < job->d->n_fields; f++) {
            mlsi_view to = row_of(&job->out[f], k), from = row_of(&job->d->fields[f], example);
            mlsi_copy_view(&to, &from);
        }
    }
}

/* A batch of field f: [n] and the shape of an example. */
static mlsys_status field_new(const mlsi_dataset *d, int32_t f, int64_t n, mlsys_tensor *out,
                              mlsi_view *view) {
    const mlsi_view *v = &d->fields[d->length ? 0 : f];
    mlsi_layout l = {.dtype = d->length ? MLSYS_I32 : v->dtype, .rank = d->length ? 2 : v->rank};
    mlsi_tensor *t;
    memcpy(l.shape, v->shape, sizeof l.shape);
    l.shape[0] = n;
    if (d->length) l.shape[1] = d->length;
    MLSI_TRY(mlsi_tensor_new(d->device, &l, out));
    MLSI_TRY(mlsi_pin(*out, MLSYS_KIND_TENSOR, "dataset_batch: out", &t));
    *view = mlsi_tensor_view_of(t);
    mlsi_unpin(t);
    return MLSYS_OK;
}

static mlsys_status fill(batch_job *job) {
    enum { BYTES_PER_ITEM = 1 << 16 };
    uint64_t bytes = 1; /* of an example, about */
    for (int32_t f = 0; f < job->d->n_fields; f++)
        bytes += mlsi_view_bytes(&job->out[f]) / (uint64_t)job->n;
    job->per_item = bytes < BYTES_PER_ITEM ? (int64_t)(BYTES_PER_ITEM / bytes) : 1;
    mlsi_pool_run(job->d->object.ctx->pool, (job->n + job->per_item - 1) / job->per_item,
                  copy_examples, job);
    int64_t bad = atomic_load(&job->bad);
    if (bad == INT64_MAX) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT, "dataset_batch: token %" PRId64 " of the file is beyond i32",
                     bad);
}

mlsys_status mlsi_dataset_batch(const mlsi_dataset *d, int64_t position, int64_t n,
                                mlsys_tensor *out) {
    batch_job job = {.d = d, .position = position, .n = n, .bad = INT64_MAX};
    int64_t end;
    mlsys_status st = MLSYS_OK;
    memset(out, 0, sizeof *out * (size_t)d->n_fields);
    if (position < 0 || n < 1 || !mlsi_add_i64(position, n, &end))
        return mlsi_fail(MLSYS_E_ARG,
                         "dataset_batch: position %" PRId64 " and n %" PRId64
                         " are no part of the sequence",
                         position, n);
    for (int32_t f = 0; f < d->n_fields && st == MLSYS_OK; f++)
        st = field_new(d, f, n, &out[f], &job.out[f]);
    if (st == MLSYS_OK) st = fill(&job);
    for (int32_t f = 0; f < d->n_fields && st != MLSYS_OK; f++) {
        mlsi_handle_release(out[f], "dataset_batch");
        out[f] = NULL;
    }
    return st;
}
