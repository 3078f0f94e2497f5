/* Opening: the header is walked twice. The first walk checks everything and allocates nothing, so
 * that counts in the file never decide an allocation before the entries are known to exist; the
 * second records. Then names are sorted (duplicates, lookup) and tensor ranges (overlap). */
#include "model/gguf_scan.h"

#include "core/faults.h"
#include "core/layout.h"

enum { DEFAULT_ALIGNMENT = 32, FILE_SHOWN = 200 };

/* ---- tensor entries ------------------------------------------------------------------------- */

typedef struct tensor_entry {
    const mlsi_gguf_tensor_type *type;
    uint32_t rank;
    uint64_t ne[MLSI_GGUF_MAX_DIMS];
    uint64_t offset; /* from the start of the data section */
    uint64_t bytes;
} tensor_entry;

/* Elements and bytes must fit 63 bits even when an extent is 0: a product that wraps is never taken
 * for an empty tensor, and strides of the other extents stay representable. */
static mlsys_status tensor_bytes(const mlsi_gguf_scan *s, tensor_entry *e) {
    const mlsi_dtype_info *info = mlsi_dtype_get(e->type->dtype);
    uint64_t per_block = (uint64_t)info->block_elems, ne0 = e->rank ? e->ne[0] : 1;
    uint64_t count = 1, bound;
    bool empty = false, fits = true;
    for (uint32_t i = 0; i < e->rank; i++) {
        if (e->ne[i] > INT64_MAX)
            return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "dim %u is %llu, above 2^63-1", i,
                                 (unsigned long long)e->ne[i]);
        uint64_t n = e->ne[i] ? e->ne[i] : 1;
        empty = empty || !e->ne[i];
        fits = fits && mlsi_mul_u64(count, n, &count) && count <= INT64_MAX;
        if (mlsi_fault(MLSI_FAULT_GGUF_DIM_PRODUCT)) fits = true;
    }
    if (!fits) return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "%u dims product overflows", e->rank);
    if (ne0 % per_block != 0)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "dim 0 is %llu, not a multiple of the %llu elements of a %s block",
                             (unsigned long long)ne0, (unsigned long long)per_block, e->type->name);
    /* A block per element is the bound that layouts keep. */
    if (!mlsi_mul_u64(count, (uint64_t)info->block_bytes, &bound) || bound > INT64_MAX)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "%u dims of %s: byte size overflows", e->rank,
                             e->type->name);
    e->bytes = empty ? 0 : count / per_block * (uint64_t)info->block_bytes;
    return MLSYS_OK;
}

static mlsys_status read_tensor(mlsi_gguf_scan *s, tensor_entry *e) {
    uint32_t number;
    memset(e, 0, sizeof *e);
    MLSI_TRY(mlsi_gguf_read_name(s, "name"));
    MLSI_TRY(mlsi_gguf_read_u32(s, "dim count", &e->rank));
    if (e->rank > MLSI_GGUF_MAX_DIMS)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "has %u dims, GGUF allows %d", e->rank,
                             MLSI_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < e->rank; i++)
        MLSI_TRY(mlsi_gguf_read_u64(s, "dim", &e->ne[i]));
    MLSI_TRY(mlsi_gguf_read_u32(s, "type", &number));
    MLSI_TRY(mlsi_gguf_read_u64(s, "offset", &e->offset));
    e->type = mlsi_gguf_tensor_type_get(number);
    if (!e->type || !e->type->dtype)
        return mlsi_gguf_bad(s, MLSYS_E_UNSUPPORTED, "type %u (%s) is not supported", number,
                             e->type ? e->type->name : "unknown");
    MLSI_TRY(tensor_bytes(s, e));
    if (e->offset % s->alignment != 0)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "offset %llu is not a multiple of the alignment %llu",
                             (unsigned long long)e->offset, (unsigned long long)s->alignment);
    return MLSYS_OK;
}

/* ---- the two walks -------------------------------------------------------------------------- */

static mlsys_status read_preamble(mlsi_gguf_scan *s, mlsi_gguf *g) {
    s->item = NULL;
    MLSI_TRY(mlsi_gguf_need(s, 24, "header"));
    if (memcmp(s->base, "GGUF", 4) != 0)
        return mlsi_gguf_bad(
            s, MLSYS_E_FORMAT,
            "not a GGUF file: the first bytes are %02x %02x %02x %02x, not \"GGUF\"", s->base[0],
            s->base[1], s->base[2], s->base[3]);
    s->pos = 4;
    MLSI_TRY(mlsi_gguf_read_u32(s, "version", &g->version));
    if (g->version != 0 && (g->version & 0xFFFF) == 0)
        return mlsi_gguf_bad(
            s, MLSYS_E_UNSUPPORTED,
            "the file is big-endian (version bytes 0x%08x); only little-endian GGUF "
            "is read",
            g->version);
    if (g->version != 2 && g->version != 3)
        return mlsi_gguf_bad(s, MLSYS_E_UNSUPPORTED,
                             "GGUF version %u is not supported (2 and 3 are)", g->version);
    MLSI_TRY(mlsi_gguf_read_u64(s, "tensor count", &g->n_tensors));
    MLSI_TRY(mlsi_gguf_read_u64(s, "metadata count", &g->n_kv));
    uint64_t left = s->size - s->pos;
    if (g->n_kv > left / MLSI_GGUF_MIN_KV || g->n_kv > INT32_MAX)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "%llu metadata entries do not fit in the %llu bytes that follow",
                             (unsigned long long)g->n_kv, (unsigned long long)left);
    if (g->n_tensors > left / MLSI_GGUF_MIN_TENSOR || g->n_tensors > INT32_MAX)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "%llu tensors do not fit in the %llu bytes that follow",
                             (unsigned long long)g->n_tensors, (unsigned long long)left);
    return MLSYS_OK;
}

/* Where the data section starts: the end of the header, rounded up. */
static mlsys_status find_data(mlsi_gguf_scan *s, mlsi_gguf *g) {
    s->item = NULL;
    g->alignment = s->alignment;
    if (!mlsi_add_u64(s->pos, s->alignment - 1, &g->data_start))
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "start of the data overflows");
    g->data_start &= ~(s->alignment - 1);
    return MLSYS_OK;
}

static mlsys_status check_walk(mlsi_gguf_scan *s, mlsi_gguf *g) {
    MLSI_TRY(read_preamble(s, g));
    s->item = "metadata";
    for (s->index = 0; s->index < g->n_kv; s->index++) {
        mlsi_gguf_kv unused;
        MLSI_TRY(mlsi_gguf_read_kv(s, NULL, &unused));
    }
    s->item = "tensor";
    for (s->index = 0; s->index < g->n_tensors; s->index++) {
        tensor_entry unused;
        MLSI_TRY(read_tensor(s, &unused));
    }
    return find_data(s, g);
}

/* Bytes present are known only now that data_start is. */
static mlsys_status record_tensor(mlsi_gguf_scan *s, mlsi_gguf *g, mlsi_gguf_tensor *t) {
    tensor_entry e;
    MLSI_TRY(read_tensor(s, &e));
    uint64_t begin, end, present = g->data_start < g->size ? g->size - g->data_start : 0;
    if ((!mlsi_add_u64(e.offset, e.bytes, &end) || end > present) &&
        !mlsi_fault(MLSI_FAULT_GGUF_DATA_BOUND))
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "needs %llu bytes at offset %llu of the data, the file has %llu bytes "
                             "of data (truncated)",
                             (unsigned long long)e.bytes, (unsigned long long)e.offset,
                             (unsigned long long)present);
    begin = g->data_start + e.offset; /* <= size, or a bare sum when the tensor is empty */
    int64_t shape[MLSI_GGUF_MAX_DIMS];
    for (uint32_t i = 0; i < e.rank; i++)
        shape[i] = (int64_t)e.ne[e.rank - 1 - i];
    MLSI_TRY(mlsi_layout_row_major(&t->layout, e.type->dtype, (int32_t)e.rank, shape));
    char *name;
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, s->name.len + 1, (void **)&name));
    memcpy(name, s->name.data, s->name.len);
    t->name = name;
    t->bytes = e.bytes;
    t->data = g->base + (e.bytes ? begin : 0);
    return MLSYS_OK;
}

static mlsys_status record_walk(mlsi_gguf_scan *s, mlsi_gguf *g) {
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, g->n_kv * sizeof *g->kv, (void **)&g->kv));
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, g->n_tensors * sizeof *g->tensors, (void **)&g->tensors));
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, g->n_kv * 4, (void **)&g->kv_by_key));
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, g->n_tensors * 4, (void **)&g->tensors_by_name));
    s->pos = 24;
    s->item = "metadata";
    for (s->index = 0; s->index < g->n_kv; s->index++)
        MLSI_TRY(mlsi_gguf_read_kv(s, &g->arena, &g->kv[s->index]));
    s->item = "tensor";
    for (s->index = 0; s->index < g->n_tensors; s->index++)
        MLSI_TRY(record_tensor(s, g, &g->tensors[s->index]));
    s->item = NULL;
    return MLSYS_OK;
}

/* ---- order: names and ranges ---------------------------------------------------------------- */

static int order_keys(const mlsi_gguf *g, uint32_t a, uint32_t b) {
    return strcmp(g->kv[a].key, g->kv[b].key);
}
static int order_names(const mlsi_gguf *g, uint32_t a, uint32_t b) {
    return strcmp(g->tensors[a].name, g->tensors[b].name);
}
/* Empty tensors first: they overlap nothing. */
static int order_data(const mlsi_gguf *g, uint32_t a, uint32_t b) {
    const mlsi_gguf_tensor *x = &g->tensors[a], *y = &g->tensors[b];
    if ((x->bytes == 0) != (y->bytes == 0)) return x->bytes == 0 ? -1 : 1;
    return ((const char *)x->data > (const char *)y->data) -
           ((const char *)x->data < (const char *)y->data);
}

static void sift(const mlsi_gguf *g, uint32_t *v, uint64_t root, uint64_t n,
                 mlsi_gguf_order_fn order) {
    for (uint64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && order(g, v[child], v[child + 1]) < 0) child++;
        if (order(g, v[root], v[child]) >= 0) return;
        uint32_t t = v[root];
        v[root] = v[child];
        v[child] = t;
    }
}

void mlsi_gguf_sort(const mlsi_gguf *g, uint32_t *v, uint64_t n, mlsi_gguf_order_fn order) {
    for (uint64_t i = 0; i < n; i++)
        v[i] = (uint32_t)i;
    for (uint64_t i = n / 2; i-- > 0;)
        sift(g, v, i, n, order);
    for (uint64_t end = n; end-- > 1;) {
        uint32_t t = v[0];
        v[0] = v[end];
        v[end] = t;
        sift(g, v, 0, end, order);
    }
}

void mlsi_gguf_sort_names(mlsi_gguf *g) {
    mlsi_gguf_sort(g, g->kv_by_key, g->n_kv, order_keys);
    mlsi_gguf_sort(g, g->tensors_by_name, g->n_tensors, order_names);
}

static mlsys_status check_names(mlsi_gguf_scan *s, mlsi_gguf *g) {
    mlsi_gguf_sort_names(g);
    for (uint64_t i = 1; i < g->n_kv; i++)
        if (!order_keys(g, g->kv_by_key[i - 1], g->kv_by_key[i]) &&
            !mlsi_fault(MLSI_FAULT_GGUF_DUPLICATE))
            return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "metadata key \"%.96s\" occurs twice",
                                 g->kv[g->kv_by_key[i]].key);
    for (uint64_t i = 1; i < g->n_tensors; i++)
        if (!order_names(g, g->tensors_by_name[i - 1], g->tensors_by_name[i]))
            return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "tensor name \"%.96s\" occurs twice",
                                 g->tensors[g->tensors_by_name[i]].name);
    return MLSYS_OK;
}

static mlsys_status check_overlap(mlsi_gguf_scan *s, mlsi_gguf *g) {
    uint32_t *v;
    MLSI_TRY(MLSI_NEW_N(g->alloc, g->n_tensors, &v));
    mlsi_gguf_sort(g, v, g->n_tensors, order_data);
    mlsys_status st = MLSYS_OK;
    for (uint64_t i = 1; i < g->n_tensors && st == MLSYS_OK; i++) {
        const mlsi_gguf_tensor *x = &g->tensors[v[i - 1]], *y = &g->tensors[v[i]];
        if (x->bytes && (const char *)x->data + x->bytes > (const char *)y->data &&
            !mlsi_fault(MLSI_FAULT_GGUF_OVERLAP))
            st = mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                               "tensors \"%.96s\" and \"%.96s\" overlap: %llu bytes at file offset "
                               "%llu, and the next at %llu",
                               x->name, y->name, (unsigned long long)x->bytes,
                               (unsigned long long)((const uint8_t *)x->data - g->base),
                               (unsigned long long)((const uint8_t *)y->data - g->base));
    }
    mlsi_mem_free(g->alloc, v);
    return st;
}

/* ---- open and close ------------------------------------------------------------------------- */

static mlsys_status open_into(mlsi_gguf *g, const char *file) {
    size_t n = strlen(file);
    const char *tail = n > FILE_SHOWN ? file + n - FILE_SHOWN : file; /* leave room for the cause */
    MLSI_TRY(mlsi_arena_strdup(&g->arena, tail, &g->file));
    mlsi_gguf_scan s = {
        .file = g->file, .base = g->base, .size = g->size, .alignment = DEFAULT_ALIGNMENT};
    MLSI_TRY(check_walk(&s, g));
    MLSI_TRY(record_walk(&s, g));
    MLSI_TRY(check_names(&s, g));
    return check_overlap(&s, g);
}

mlsys_status mlsi_gguf_open(mlsi_alloc *a, const char *file, const void *data, uint64_t size,
                            mlsi_gguf **out) {
    *out = NULL;
    if ((uintptr_t)data % 8 != 0)
        return mlsi_fail(MLSYS_E_ARG, "%.200s: bytes in memory must be aligned to 8", file);
    mlsi_gguf *g;
    MLSI_TRY(MLSI_NEW(a, &g));
    g->alloc = a;
    g->base = data;
    g->size = size;
    mlsi_arena_init(&g->arena, a);
    mlsys_status st = open_into(g, file);
    if (st != MLSYS_OK) {
        mlsi_gguf_close(g);
        return st;
    }
    *out = g;
    return MLSYS_OK;
}

void mlsi_gguf_close(mlsi_gguf *g) {
    if (!g) return;
    mlsi_arena_free(&g->arena);
    mlsi_mem_free(g->alloc, g);
}
