/* GGUF v2 and v3: a checked index over the bytes of a model file.
 *
 * mlsi_gguf_open validates the whole header before anything is used: counts, lengths, types,
 * nesting, duplicates, extents, products, alignment, bounds and overlaps of tensor data. Afterwards
 * every pointer handed out lies inside the file, and lookups cannot fail for reasons of format.
 *
 * The bytes are borrowed: they must outlive the index and must not change. Memory of the index is
 * at most 10 times the header's bytes plus 128 KiB, whatever the file claims.
 *
 * Threads: an open index is immutable; any thread may read it. */
#ifndef MLSI_GGUF_H
#define MLSI_GGUF_H

#include "core/alloc.h"
#include "core/layout.h"

typedef enum mlsi_gguf_type {
    MLSI_GGUF_U8 = 0,
    MLSI_GGUF_I8 = 1,
    MLSI_GGUF_U16 = 2,
    MLSI_GGUF_I16 = 3,
    MLSI_GGUF_U32 = 4,
    MLSI_GGUF_I32 = 5,
    MLSI_GGUF_F32 = 6,
    MLSI_GGUF_BOOL = 7,
    MLSI_GGUF_STR = 8,
    MLSI_GGUF_ARRAY = 9,
    MLSI_GGUF_U64 = 10,
    MLSI_GGUF_I64 = 11,
    MLSI_GGUF_F64 = 12,
    MLSI_GGUF_TYPES = 13 /* in lookups: any type */
} mlsi_gguf_type;

enum { MLSI_GGUF_MAX_DIMS = 4, MLSI_GGUF_MAX_NESTING = 4, MLSI_GGUF_MAX_NAME = 65535 };

/* Bytes inside the file: not NUL-ended, any byte may occur. */
typedef struct mlsi_gguf_str {
    const char *data;
    uint64_t len;
} mlsi_gguf_str;

/* An array inside the file. Elements are not aligned: read them by the functions below. */
typedef struct mlsi_gguf_array {
    mlsi_gguf_type type; /* of the elements */
    uint64_t count;
    const uint8_t *data;     /* the first element */
    const uint64_t *strings; /* offset from data of each string's length field; NULL otherwise */
} mlsi_gguf_array;

typedef struct mlsi_gguf_kv {
    const char *key; /* NUL-ended UTF-8 without control characters */
    mlsi_gguf_type type;
    const uint8_t *value;  /* where the value's bytes start in the file */
    mlsi_gguf_array array; /* of MLSI_GGUF_ARRAY */
} mlsi_gguf_kv;

typedef struct mlsi_gguf_tensor {
    const char *name;   /* NUL-ended UTF-8 without control characters */
    mlsi_layout layout; /* row-major; the file's dims reversed, so shape[rank-1] is its ne[0] */
    const void *data;   /* inside the file, aligned to the file's alignment */
    uint64_t bytes;
} mlsi_gguf_tensor;

typedef struct mlsi_gguf {
    mlsi_alloc *alloc;
    mlsi_arena arena; /* names, string tables, the arrays below */
    const char *file; /* for error sentences */
    const uint8_t *base;
    uint64_t size;
    uint32_t version;    /* 0: of a safetensors file */
    uint64_t alignment;  /* of tensor data: a power of two >= 8 */
    uint64_t data_start; /* file offset of the tensor data */
    uint64_t n_kv, n_tensors;
    mlsi_gguf_kv *kv;          /* in the file's order */
    mlsi_gguf_tensor *tensors; /* in the file's order */
    uint32_t *kv_by_key;       /* indices in ascending order of key bytes */
    uint32_t *tensors_by_name;
} mlsi_gguf;

/* Index size bytes at data (aligned to 8). file names them in error sentences "<file>: ..."; it is
 * copied. Errors FORMAT (broken rule), UNSUPPORTED (version, byte order, tensor type), NOMEM. */
mlsys_status mlsi_gguf_open(mlsi_alloc *a, const char *file, const void *data, uint64_t size,
                            mlsi_gguf **out);
void mlsi_gguf_close(mlsi_gguf *g); /* NULL accepted */

/* ---- metadata ------------------------------------------------------------------------------- */

/* NULL when the key is absent. */
const mlsi_gguf_kv *mlsi_gguf_find(const mlsi_gguf *g, const char *key);

/* Typed lookups. Errors NOTFOUND: no such key; FORMAT: a value of another type, or out of range.
 * u64, i64 take every integer type, f64 takes floats and integers, bool takes bool only. */
mlsys_status mlsi_gguf_get_u64(const mlsi_gguf *g, const char *key, uint64_t *out);
mlsys_status mlsi_gguf_get_i64(const mlsi_gguf *g, const char *key, int64_t *out);
mlsys_status mlsi_gguf_get_f64(const mlsi_gguf *g, const char *key, double *out);
mlsys_status mlsi_gguf_get_bool(const mlsi_gguf *g, const char *key, bool *out);
mlsys_status mlsi_gguf_get_str(const mlsi_gguf *g, const char *key, mlsi_gguf_str *out);
/* type: what the elements must be, or MLSI_GGUF_TYPES for any. */
mlsys_status mlsi_gguf_get_array(const mlsi_gguf *g, const char *key, mlsi_gguf_type type,
                                 mlsi_gguf_array *out);
/* The same with a value for an absent key; a present key of a wrong type stays an error. */
mlsys_status mlsi_gguf_get_u64_or(const mlsi_gguf *g, const char *key, uint64_t absent,
                                  uint64_t *out);
mlsys_status mlsi_gguf_get_i64_or(const mlsi_gguf *g, const char *key, int64_t absent,
                                  int64_t *out);
mlsys_status mlsi_gguf_get_f64_or(const mlsi_gguf *g, const char *key, double absent, double *out);
mlsys_status mlsi_gguf_get_bool_or(const mlsi_gguf *g, const char *key, bool absent, bool *out);

/* Element i < count of an array; the array's type must allow it (any integer type for i64, floats
 * and integers for f64). u64 elements above INT64_MAX wrap: check the type where that matters. */
mlsi_gguf_str mlsi_gguf_array_str(const mlsi_gguf_array *a, uint64_t i);
int64_t mlsi_gguf_array_i64(const mlsi_gguf_array *a, uint64_t i);
double mlsi_gguf_array_f64(const mlsi_gguf_array *a, uint64_t i);
float mlsi_gguf_array_f32(const mlsi_gguf_array *a, uint64_t i);   /* of MLSI_GGUF_F32 */
int32_t mlsi_gguf_array_i32(const mlsi_gguf_array *a, uint64_t i); /* of MLSI_GGUF_I32 or _U32 */
bool mlsi_gguf_array_bool(const mlsi_gguf_array *a, uint64_t i);

bool mlsi_gguf_str_eq(mlsi_gguf_str s, const char *text);
const char *mlsi_gguf_type_name(mlsi_gguf_type type); /* "u8" ... "f64"; "?" for others */

/* The value as text: numbers in decimal (the shortest digits that read back), arrays as JSON with
 * at most max_items elements of each, then "... n in all". A string that is the value itself is
 * written as it is, or as JSON when quoted. */
void mlsi_gguf_value_text(const mlsi_gguf_kv *kv, bool quoted, uint64_t max_items, mlsi_text *out);

/* ---- tensors -------------------------------------------------------------------------------- */

/* NULL when absent. */
const mlsi_gguf_tensor *mlsi_gguf_tensor_find(const mlsi_gguf *g, const char *name);
/* The same as an error NOTFOUND that names file and tensor. */
mlsys_status mlsi_gguf_tensor_get(const mlsi_gguf *g, const char *name,
                                  const mlsi_gguf_tensor **out);

/* One row of GGUF's tensor type numbers. */
typedef struct mlsi_gguf_tensor_type {
    uint32_t number;
    const char *name;
    mlsys_dtype dtype; /* 0: known, but not supported here */
} mlsi_gguf_tensor_type;
/* NULL for an unknown number. */
const mlsi_gguf_tensor_type *mlsi_gguf_tensor_type_get(uint32_t number);
/* The number that stores dtype; UINT32_MAX when the format has none. */
uint32_t mlsi_gguf_tensor_type_of(mlsys_dtype dtype);

/* ---- between the files of this room ----------------------------------------------------------- */

/* < 0, 0, > 0 as entry a comes before, with or after entry b. */
typedef int (*mlsi_gguf_order_fn)(const mlsi_gguf *g, uint32_t a, uint32_t b);
/* v = 0 .. n - 1 in ascending order. Heap sort: no memory, and no input that makes it quadratic. */
void mlsi_gguf_sort(const mlsi_gguf *g, uint32_t *v, uint64_t n, mlsi_gguf_order_fn order);
/* Fill kv_by_key and tensors_by_name. */
void mlsi_gguf_sort_names(mlsi_gguf *g);

#endif
