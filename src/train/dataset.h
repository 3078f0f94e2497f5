/* Training data: examples in tensors' or files' memory, handed out in batches in a shuffled order.
 *
 * A dataset does not change after it was made, so any number of threads may take batches of it. */
#ifndef MLSI_DATASET_H
#define MLSI_DATASET_H

#include "core/file_bytes.h"
#include "core/tensor.h"

enum { MLSI_DATASET_FIELDS = 16 };

/* The bytes of a file, or what is packed in it when it is a gzip file. */
typedef struct mlsi_dataset_file {
    mlsi_file_bytes raw;
    mlsi_alloc *alloc;
    void *unpacked; /* NULL: the file is as it is */
    const uint8_t *data;
    uint64_t size;
} mlsi_dataset_file;

/* How many bytes must be packed in a gzip file, from the first head_bytes of them (20, or all when there are
 * fewer). */
typedef mlsys_status (*mlsi_dataset_measure)(const char *file, const uint8_t *head,
                                             uint64_t head_bytes, uint64_t *total);

typedef struct mlsi_dataset {
    mlsi_object object;
    mlsi_device *device; /* pinned; of the batches */
    int64_t count;       /* examples, >= 1 */
    int32_t n_fields;
    bool shuffle;
    uint64_t seed;
    /* Examples along axis 0. Of tokens there is one view [N] of ids, u16 as i16 and u32 as i32: its two
     * fields are the windows [i * length, i * length + length) and the same one later. */
    mlsi_view fields[MLSI_DATASET_FIELDS];
    int64_t length;   /* of tokens; 0 = other data */
    bool is_unsigned; /* the ids */
    /* what the views lie in */
    mlsi_dataset_file files[2];
    void *owned[2];
    mlsi_tensor *tensors[MLSI_DATASET_FIELDS]; /* pinned */
} mlsi_dataset;

const mlsi_config_key *mlsi_dataset_config_keys(int *n);
mlsys_status mlsi_dataset_open(mlsi_ctx *ctx, const char *path, const mlsi_config *c,
                               mlsys_dataset *out);
mlsys_status mlsi_dataset_wrap(mlsi_ctx *ctx, int32_t n, mlsi_tensor *const *fields,
                               const mlsi_config *c, mlsys_dataset *out);
/* out has n_fields entries, all NULL after a failure. */
mlsys_status mlsi_dataset_batch(const mlsi_dataset *d, int64_t position, int64_t n,
                                mlsys_tensor *out);

/* ---- files --------------------------------------------------------------------------------- */

/* measure NULL: a gzip file's trailer says how much is in it. What it says, or what measure does, is checked
 * against what the file could hold before memory is taken. */
mlsys_status mlsi_dataset_file_open(mlsi_alloc *a, const char *path, mlsi_dataset_measure measure,
                                    mlsi_dataset_file *out);
void mlsi_dataset_file_close(mlsi_dataset_file *f);
/* The bytes of a gzip file (one member): *out is allocated. UNSUPPORTED without zlib. */
mlsys_status mlsi_gzip_unpack(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                              mlsi_dataset_measure measure, void **out, uint64_t *out_size);

/* IDX: bytes 0 0 type rank, then rank extents (u32, big-endian), then the elements; here bytes. */
typedef struct mlsi_idx {
    int32_t rank; /* 1..8 */
    int64_t dims[MLSYS_MAX_DIMS];
    const uint8_t *elements;
} mlsi_idx;
mlsys_status mlsi_idx_measure(const char *file, const uint8_t *head, uint64_t head_bytes,
                              uint64_t *total);
mlsys_status mlsi_idx_read(const char *file, const uint8_t *data, uint64_t size, mlsi_idx *out);

/* CSV by RFC 4180: numbers [rows, columns] and, when a label column is named, labels [rows]; both allocated.
 * columns: names as one CSV record, NULL = all but the label's. Without a header line columns are named by
 * their numbers from 0. Memory is at most a small multiple of the text's size. */
typedef struct mlsi_csv {
    int64_t rows, columns;
    float *numbers;
    int64_t *labels; /* NULL: none named */
} mlsi_csv;
mlsys_status mlsi_csv_read(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                           bool header, const char *columns, const char *label, mlsi_csv *out);

/* The windows over n ids of d->fields[0]; sets count. */
mlsys_status mlsi_tokens_windows(mlsi_dataset *d, const char *what, int64_t n);
/* A token file's ids as d->fields[0]. */
mlsys_status mlsi_tokens_read(mlsi_dataset *d, const char *file, const char *dtype);
/* Ids first .. first + length - 1 and the same one later; -1, or the number of an id beyond i32. */
int64_t mlsi_tokens_copy(const mlsi_dataset *d, int64_t example, int32_t *inputs, int32_t *targets);

#endif
