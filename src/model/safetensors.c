#include "model/safetensors.h"

#include <string.h>

#if defined(MLSI_HAVE_JANSSON)

#include "core/faults.h"
#include "core/file_write.h"
#include "model/gguf_scan.h"

#include <jansson.h>

enum { FILE_SHOWN = 160, HEADER_MAX = 100000000, LENGTH_BYTES = 8 };

static const struct {
    const char *name;
    mlsys_dtype dtype; /* 0: known, but not supported here */
} dtypes[] = {{"F64", MLSYS_F64},
              {"F32", MLSYS_F32},
              {"F16", MLSYS_F16},
              {"BF16", MLSYS_BF16},
              {"F8_E4M3", MLSYS_F8E4M3},
              {"F8_E5M2", MLSYS_F8E5M2},
              {"I64", MLSYS_I64},
              {"I32", MLSYS_I32},
              {"I16", MLSYS_I16},
              {"I8", MLSYS_I8},
              {"U8", MLSYS_U8},
              {"BOOL", MLSYS_BOOL},
              {"U16", 0},
              {"U32", 0},
              {"U64", 0}};
enum { DTYPES = (int)(sizeof dtypes / sizeof dtypes[0]) };

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct reader {
    mlsi_gguf *g;
    json_t *root;
    uint64_t data_bytes;
} reader;

#define BAD(r, ...) mlsi_failed(bad((r), MLSYS_E_FORMAT, __VA_ARGS__), MLSYS_E_FORMAT)
static mlsys_status bad(const reader *r, mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
static mlsys_status bad(const reader *r, mlsys_status code, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mlsi_fail(code, "%s: %s", r->g->file, text);
}

/* Names go into sentences and lists: no control characters. JSON text is UTF-8 already. */
static mlsys_status check_name(const reader *r, const char *what, const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n > MLSI_GGUF_MAX_NAME)
        return BAD(r, "%s \"%.64s\" has %zu bytes, 1 to %d", what, name, n, MLSI_GGUF_MAX_NAME);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 32 || name[i] == 127)
            return BAD(r, "%s \"%.*s\" has a control character at byte %zu", what,
                       (int)(i < 64 ? i : 64), name, i);
    return MLSYS_OK;
}

static mlsys_status read_number(const reader *r, const char *name, const char *what,
                                const json_t *v, int64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return BAD(r, "tensor \"%.96s\": %s is no integer from 0 on", name, what);
    *out = json_integer_value(v);
    return MLSYS_OK;
}

static mlsys_status read_dtype(const reader *r, const char *name, const json_t *v,
                               mlsys_dtype *out) {
    const char *text = json_string_value(v);
    if (!text) return BAD(r, "tensor \"%.96s\": dtype is no text", name);
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, text)) continue;
        *out = dtypes[i].dtype;
        if (*out) return MLSYS_OK;
        return bad(r, MLSYS_E_UNSUPPORTED, "tensor \"%.96s\": dtype %s is not supported", name,
                   text);
    }
    return BAD(r, "tensor \"%.96s\": dtype \"%.32s\" is unknown", name, text);
}

static mlsys_status read_shape(const reader *r, const char *name, const json_t *v,
                               mlsys_dtype dtype, mlsi_layout *out) {
    int64_t shape[MLSYS_MAX_DIMS];
    if (!json_is_array(v) || json_array_size(v) > MLSYS_MAX_DIMS)
        return BAD(r, "tensor \"%.96s\": shape is no list of at most %d integers", name,
                   MLSYS_MAX_DIMS);
    for (size_t i = 0; i < json_array_size(v); i++)
        MLSI_TRY(read_number(r, name, "an extent", json_array_get(v, i), &shape[i]));
    mlsys_status st = mlsi_layout_row_major(out, dtype, (int32_t)json_array_size(v), shape);
    if (st == MLSYS_OK) return MLSYS_OK;
    return BAD(r, "tensor \"%.96s\": the shape's bytes do not fit 63 bits", name);
}

static mlsys_status read_range(const reader *r, const json_t *v, mlsi_gguf_tensor *t) {
    int64_t start, end;
    if (!json_is_array(v) || json_array_size(v) != 2)
        return BAD(r, "tensor \"%.96s\": data_offsets is no list of two integers", t->name);
    MLSI_TRY(read_number(r, t->name, "data_offsets[0]", json_array_get(v, 0), &start));
    MLSI_TRY(read_number(r, t->name, "data_offsets[1]", json_array_get(v, 1), &end));
    t->bytes = mlsi_layout_bytes(&t->layout);
    if (end < start || ((uint64_t)end > r->data_bytes && !mlsi_fault(MLSI_FAULT_ST_DATA_BOUND)))
        return BAD(r, "tensor \"%.96s\": data_offsets [%lld, %lld] in %llu bytes of data", t->name,
                   (long long)start, (long long)end, (unsigned long long)r->data_bytes);
    if ((uint64_t)(end - start) != t->bytes && !mlsi_fault(MLSI_FAULT_ST_SHAPE_BYTES))
        return BAD(r, "tensor \"%.96s\": %lld bytes of data, dtype and shape need %llu", t->name,
                   (long long)(end - start), (unsigned long long)t->bytes);
    t->data = r->g->base + r->g->data_start + start;
    return MLSYS_OK;
}

static mlsys_status read_tensor(const reader *r, const char *name, const json_t *v,
                                mlsi_gguf_tensor *t) {
    mlsys_dtype dtype;
    MLSI_TRY(check_name(r, "tensor name", name));
    MLSI_TRY(mlsi_arena_strdup(&r->g->arena, name, &t->name));
    if (!json_is_object(v) || json_object_size(v) != 3)
        return BAD(r, "tensor \"%.96s\": not an object of dtype, shape and data_offsets", name);
    MLSI_TRY(read_dtype(r, name, json_object_get(v, "dtype"), &dtype));
    MLSI_TRY(read_shape(r, name, json_object_get(v, "shape"), dtype, &t->layout));
    MLSI_TRY(read_range(r, json_object_get(v, "data_offsets"), t));
    for (uint64_t i = 0; dtype == MLSYS_BOOL && i < t->bytes; i++)
        if (((const uint8_t *)t->data)[i] > 1)
            return BAD(r, "tensor \"%.96s\": element %llu is %d, no bool", name,
                       (unsigned long long)i, ((const uint8_t *)t->data)[i]);
    return MLSYS_OK;
}

/* A text as GGUF has it: length, bytes. */
static mlsys_status read_meta(const reader *r, const char *key, const json_t *v, mlsi_gguf_kv *kv) {
    MLSI_TRY(check_name(r, "metadata key", key));
    if (!json_is_string(v)) return BAD(r, "metadata \"%.96s\" is no text", key);
    uint64_t n = json_string_length(v);
    uint8_t *bytes;
    MLSI_TRY(mlsi_arena_strdup(&r->g->arena, key, &kv->key));
    MLSI_TRY(mlsi_arena_zalloc(&r->g->arena, n + 9, (void **)&bytes));
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + 8, json_string_value(v), n);
    kv->type = MLSI_GGUF_STR;
    kv->value = bytes;
    return MLSYS_OK;
}

static int order_data(const mlsi_gguf *g, uint32_t a, uint32_t b) {
    const mlsi_gguf_tensor *x = &g->tensors[a], *y = &g->tensors[b];
    if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* In the order of the data, each tensor starts where the one before it ends. */
static mlsys_status check_cover(const reader *r, mlsi_gguf_tensor *sorted) {
    mlsi_gguf *g = r->g;
    uint64_t at = g->data_start;
    mlsi_gguf_sort(g, g->tensors_by_name, g->n_tensors, order_data);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const mlsi_gguf_tensor *t = &g->tensors[g->tensors_by_name[i]];
        uint64_t start = (uint64_t)((const uint8_t *)t->data - g->base);
        if (start != at && !mlsi_fault(MLSI_FAULT_ST_OVERLAP))
            return BAD(r, "tensor \"%.96s\" %s: it starts at byte %llu of the data, expected %llu",
                       t->name, start < at ? "overlaps another one" : "leaves a gap",
                       (unsigned long long)(start - g->data_start),
                       (unsigned long long)(at - g->data_start));
        at = start + t->bytes;
        sorted[i] = *t;
    }
    if (at != g->size)
        return BAD(r, "%llu bytes behind the last tensor", (unsigned long long)(g->size - at));
    g->tensors = sorted;
    mlsi_gguf_sort_names(g);
    return MLSYS_OK;
}

static mlsys_status read_root(reader *r) {
    mlsi_gguf *g = r->g;
    mlsi_arena *arena = &g->arena;
    const char *key;
    json_t *v, *meta = json_object_get(r->root, "__metadata__");
    mlsi_gguf_tensor *sorted;
    if (meta && !json_is_object(meta)) return BAD(r, "__metadata__ is no object");
    uint64_t n_kv = meta ? json_object_size(meta) : 0,
             n = json_object_size(r->root) - (meta != NULL);
    if (n_kv > UINT32_MAX || n > UINT32_MAX) return BAD(r, "too many entries");
    MLSI_TRY(mlsi_arena_zalloc(arena, sizeof *g->kv * n_kv, (void **)&g->kv));
    MLSI_TRY(mlsi_arena_zalloc(arena, sizeof *g->kv_by_key * n_kv, (void **)&g->kv_by_key));
    MLSI_TRY(mlsi_arena_zalloc(arena, sizeof *g->tensors * n, (void **)&g->tensors));
    MLSI_TRY(mlsi_arena_zalloc(arena, sizeof *g->tensors * n, (void **)&sorted));
    MLSI_TRY(
        mlsi_arena_zalloc(arena, sizeof *g->tensors_by_name * n, (void **)&g->tensors_by_name));
    json_object_foreach(meta, key, v) {
        MLSI_TRY(read_meta(r, key, v, &g->kv[g->n_kv]));
        g->n_kv++;
    }
    json_object_foreach(r->root, key, v) {
        if (v == meta) continue;
        MLSI_TRY(read_tensor(r, key, v, &g->tensors[g->n_tensors]));
        g->n_tensors++;
    }
    return check_cover(r, sorted);
}

bool mlsi_safetensors_looks(const void *data, uint64_t size) {
    return size > LENGTH_BYTES && ((const char *)data)[LENGTH_BYTES] == '{' &&
           memcmp(data, "GGUF", 4) != 0;
}

static mlsys_status open_into(mlsi_gguf *g, const char *file) {
    reader r = {.g = g};
    json_error_t error;
    size_t n = strlen(file);
    MLSI_TRY(mlsi_arena_strdup(&g->arena, n > FILE_SHOWN ? file + n - FILE_SHOWN : file, &g->file));
    if (g->size < LENGTH_BYTES)
        return BAD(&r, "%llu bytes are too few for a safetensors file",
                   (unsigned long long)g->size);
    uint64_t header = mlsi_gguf_load_u64(g->base);
    if (header > g->size - LENGTH_BYTES || header > HEADER_MAX)
        return BAD(&r, "a header of %llu bytes is said to be in a file of %llu, at most %d",
                   (unsigned long long)header, (unsigned long long)g->size, HEADER_MAX);
    g->data_start = LENGTH_BYTES + header;
    g->alignment = 1;
    r.data_bytes = g->size - g->data_start;
    if (header == 0 || g->base[LENGTH_BYTES] != '{') return BAD(&r, "the header is no JSON object");
    r.root = json_loadb((const char *)g->base + LENGTH_BYTES, (size_t)header,
                        mlsi_fault(MLSI_FAULT_ST_DUPLICATE) ? 0 : JSON_REJECT_DUPLICATES, &error);
    if (!r.root && json_error_code(&error) == json_error_out_of_memory)
        return mlsi_fail(MLSYS_E_NOMEM, "%s: no memory for the header", g->file);
    if (!r.root) return BAD(&r, "header: %s at byte %d", error.text, error.position);
    mlsys_status st = read_root(&r);
    json_decref(r.root);
    return st;
}

mlsys_status mlsi_safetensors_open(mlsi_alloc *a, const char *file, const void *data, uint64_t size,
                                   mlsi_gguf **out) {
    mlsi_gguf *g;
    *out = NULL;
    MLSI_TRY(MLSI_NEW(a, &g));
    g->alloc = a;
    g->base = data;
    g->size = size;
    mlsi_arena_init(&g->arena, a);
    mlsys_status st = open_into(g, file);
    if (st == MLSYS_OK)
        *out = g;
    else
        mlsi_gguf_close(g);
    return st;
}

/* ---- the header of a new file -------------------------------------------------------------- */

static const char *dtype_name(mlsys_dtype t) {
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == t) return dtypes[i].name;
    return NULL;
}

/* The reference to v goes into o. NULL v: the text was no UTF-8. */
static mlsys_status put(json_t *o, const char *what, const char *name, json_t *v) {
    if (json_object_get(o, name)) {
        json_decref(v);
        return mlsi_fail(MLSYS_E_ARG, "safetensors: %s \"%.96s\" is given twice", what, name);
    }
    if (!json_object_set_new(o, name, v)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "safetensors: %s \"%.96s\": no UTF-8 text, or no memory", what,
                     name);
}

static mlsys_status describe(json_t *root, const mlsi_named_view *t, uint64_t *at) {
    const char *dtype = dtype_name(t->view.dtype);
    if (!t->name || !t->name[0] || !strcmp(t->name, "__metadata__"))
        return mlsi_fail(MLSYS_E_ARG, "safetensors: a tensor has no name, or a reserved one");
    if (!dtype)
        return mlsi_fail(MLSYS_E_DTYPE,
                         "safetensors: tensor \"%.96s\": no dtype of the format is %s", t->name,
                         mlsi_dtype_get(t->view.dtype)->name);
    json_t *shape = json_array();
    for (int i = 0; i < t->view.rank; i++)
        json_array_append_new(shape, json_integer(t->view.shape[i]));
    uint64_t end = *at + mlsi_view_bytes(&t->view); /* below 2^63 each, and in memory together */
    json_t *v = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                          (json_int_t)*at, (json_int_t)end);
    *at = end;
    return put(root, "tensor name", t->name, v);
}

static mlsys_status build_header(json_t *root, int64_t n, const mlsi_named_view *tensors,
                                 const int64_t *order, int64_t n_meta, const char *const *keys,
                                 const char *const *values) {
    uint64_t at = 0;
    if (n_meta) {
        json_t *meta = json_object();
        MLSI_TRY(put(root, "key", "__metadata__", meta));
        for (int64_t i = 0; i < n_meta; i++)
            MLSI_TRY(put(meta, "metadata key", keys[i], json_string(values[i])));
    }
    for (int64_t i = 0; i < n; i++)
        MLSI_TRY(describe(root, &tensors[order[i]], &at));
    return MLSYS_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static mlsys_status write_header(mlsi_file_writer *w, const json_t *root) {
    char *text = json_dumps(root, JSON_COMPACT);
    if (!text) return mlsi_fail(MLSYS_E_NOMEM, "safetensors: no memory for the header");
    uint64_t n = strlen(text), padded = (n + LENGTH_BYTES + 63) / 64 * 64 - LENGTH_BYTES;
    mlsys_status st = padded <= HEADER_MAX
                          ? MLSYS_OK
                          : mlsi_fail(MLSYS_E_ARG, "safetensors: a header of %llu bytes",
                                      (unsigned long long)padded);
    if (st == MLSYS_OK) st = mlsi_file_write(w, &padded, sizeof padded);
    if (st == MLSYS_OK) st = mlsi_file_write(w, text, n);
    if (st == MLSYS_OK && padded > n) { /* less than 64 */
        char fill[64];
        memset(fill, ' ', sizeof fill);
        st = mlsi_file_write(w, fill, padded - n);
    }
    free(text);
    return st;
}

static mlsys_status write_tensor(mlsi_alloc *a, mlsi_file_writer *w, const mlsi_view *v) {
    mlsi_layout l;
    void *dense;
    uint64_t bytes = mlsi_view_bytes(v);
    if (mlsi_view_contiguous(v)) return mlsi_file_write(w, v->data, bytes);
    MLSI_TRY(mlsi_layout_row_major(&l, v->dtype, v->rank, v->shape));
    MLSI_TRY(mlsi_mem_alloc(a, bytes, &dense));
    mlsi_view to = mlsi_view_of(dense, &l);
    mlsi_copy_view(&to, v);
    mlsys_status st = mlsi_file_write(w, dense, bytes);
    mlsi_mem_free(a, dense);
    return st;
}

static mlsys_status write_file(mlsi_alloc *a, const char *path, const json_t *root, int64_t n,
                               const mlsi_named_view *tensors, const int64_t *order) {
    mlsi_file_writer *w;
    MLSI_TRY(mlsi_file_write_begin(a, path, &w));
    mlsys_status st = write_header(w, root);
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++)
        st = write_tensor(a, w, &tensors[order[i]].view);
    if (st == MLSYS_OK) return mlsi_file_write_commit(w);
    mlsi_file_write_abort(w);
    return st;
}

mlsys_status mlsi_safetensors_write(mlsi_alloc *a, const char *path, int64_t n,
                                    const mlsi_named_view *tensors, int64_t n_meta,
                                    const char *const *keys, const char *const *values) {
    int64_t *order;
    json_t *root = json_object();
    if (!root) return mlsi_fail(MLSYS_E_NOMEM, "safetensors: no memory for the header");
    mlsys_status st = MLSI_NEW_N(a, n + 1, &order);
    if (st == MLSYS_OK) {
        mlsi_safetensors_order(n, tensors, order);
        st = build_header(root, n, tensors, order, n_meta, keys, values);
        if (st == MLSYS_OK) st = write_file(a, path, root, n, tensors, order);
        mlsi_mem_free(a, order);
    }
    json_decref(root);
    return st;
}

#else

static mlsys_status absent(void) {
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "safetensors: built without jansson");
}

bool mlsi_safetensors_looks(const void *data, uint64_t size) {
    return size > 8 && ((const char *)data)[8] == '{' && memcmp(data, "GGUF", 4) != 0;
}

mlsys_status mlsi_safetensors_open(mlsi_alloc *a, const char *file, const void *data, uint64_t size,
                                   mlsi_gguf **out) {
    (void)a, (void)file, (void)data, (void)size;
    *out = NULL;
    return absent();
}

mlsys_status mlsi_safetensors_write(mlsi_alloc *a, const char *path, int64_t n,
                                    const mlsi_named_view *tensors, int64_t n_meta,
                                    const char *const *keys, const char *const *values) {
    (void)a, (void)path, (void)n, (void)tensors, (void)n_meta, (void)keys, (void)values;
    return absent();
}

#endif

void mlsi_safetensors_order(int64_t n, const mlsi_named_view *tensors, int64_t *order) {
    int64_t at = 0;
    for (int size = 8; size; size /= 2)
        for (int64_t i = 0; i < n; i++)
            if (!mlsi_dtype_is_block(tensors[i].view.dtype) &&
                mlsi_dtype_size(tensors[i].view.dtype) == size)
                order[at++] = i;
    for (int64_t i = 0; i < n; i++) /* refused later */
        if (mlsi_dtype_is_block(tensors[i].view.dtype)) order[at++] = i;
}
