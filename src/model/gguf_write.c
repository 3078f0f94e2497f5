#include "model/gguf_write.h"

#include "model/gguf_scan.h"

static mlsys_status put_u32(mlsi_file_writer *w, uint32_t v) { return mlsi_file_write(w, &v, 4); }
static mlsys_status put_u64(mlsi_file_writer *w, uint64_t v) { return mlsi_file_write(w, &v, 8); }

static mlsys_status put_name(mlsi_file_writer *w, const char *name) {
    MLSI_TRY(put_u64(w, strlen(name)));
    return mlsi_file_write(w, name, strlen(name));
}

static uint64_t padding(const mlsi_gguf *g, uint64_t at) {
    return (g->alignment - at % g->alignment) % g->alignment;
}

static mlsys_status put_padding(mlsi_file_writer *w, const mlsi_gguf *g, uint64_t at) {
    static const char zeros[256];
    for (uint64_t n = padding(g, at), k; n; n -= k) {
        k = n < sizeof zeros ? n : sizeof zeros;
        MLSI_TRY(mlsi_file_write(w, zeros, k));
    }
    return MLSYS_OK;
}

/* ---- general.file_type -------------------------------------------------------------------------- */

/* Numbers of the format for "mostly this dtype"; of the variants of one dtype the plainest. */
static const struct {
    mlsys_dtype dtype;
    uint32_t number;
} file_types[] = {{MLSYS_F32, 0},   {MLSYS_F16, 1},   {MLSYS_Q4_0, 2}, {MLSYS_Q4_1, 3},
                  {MLSYS_Q8_0, 7},  {MLSYS_Q5_0, 8},  {MLSYS_Q5_1, 9}, {MLSYS_Q4_K, 14},
                  {MLSYS_Q5_K, 16}, {MLSYS_Q6_K, 18}, {MLSYS_BF16, 32}};
enum { FILE_TYPES = (int)(sizeof file_types / sizeof file_types[0]) };

/* Row of file_types that most elements of matrices are of; stored NULL: in the open file. -1: there are none. */
static int most_common(const mlsi_gguf *g, const mlsi_gguf_stored *stored) {
    uint64_t count[FILE_TYPES] = {0};
    int best = -1;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        for (int k = 0; k < FILE_TYPES && g->tensors[i].layout.rank >= 2; k++)
            if (file_types[k].dtype == (stored ? stored[i].dtype : g->tensors[i].layout.dtype))
                count[k] += (uint64_t)mlsi_layout_count(&g->tensors[i].layout);
    for (int k = 0; k < FILE_TYPES; k++)
        if (count[k] > (best < 0 ? 0 : count[best])) best = k;
    return best;
}

/* ---- the parts ---------------------------------------------------------------------------------- */

static mlsys_status put_metadata(mlsi_file_writer *w, const mlsi_gguf *g,
                                 const mlsi_gguf_stored *stored) {
    int now = most_common(g, stored);
    bool changed = now >= 0 && now != most_common(g, NULL);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const mlsi_gguf_kv *kv = &g->kv[i];
        const uint8_t *end = kv->value;
        MLSI_TRY(put_name(w, kv->key));
        if (changed && !strcmp(kv->key, "general.file_type")) {
            MLSI_TRY(put_u32(w, MLSI_GGUF_U32));
            MLSI_TRY(put_u32(w, file_types[now].number));
            continue;
        }
        mlsi_gguf_skip_value(kv->type, &end);
        MLSI_TRY(put_u32(w, kv->type));
        MLSI_TRY(mlsi_file_write(w, kv->value, (uint64_t)(end - kv->value)));
    }
    return MLSYS_OK;
}

static uint64_t metadata_bytes(const mlsi_gguf *g, const mlsi_gguf_stored *stored) {
    uint64_t n = 0;
    int now = most_common(g, stored);
    bool changed = now >= 0 && now != most_common(g, NULL);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const uint8_t *end = g->kv[i].value;
        mlsi_gguf_skip_value(g->kv[i].type, &end);
        bool replaced = changed && !strcmp(g->kv[i].key, "general.file_type");
        n += 8 + strlen(g->kv[i].key) + 4 + (replaced ? 4 : (uint64_t)(end - g->kv[i].value));
    }
    return n;
}

static mlsys_status put_tensor_list(mlsi_file_writer *w, const mlsi_gguf *g,
                                    const mlsi_gguf_stored *stored) {
    uint64_t offset = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const mlsi_gguf_tensor *t = &g->tensors[i];
        MLSI_TRY(put_name(w, t->name));
        MLSI_TRY(put_u32(w, (uint32_t)t->layout.rank));
        for (int32_t d = t->layout.rank; d-- > 0;)
            MLSI_TRY(put_u64(w, (uint64_t)t->layout.shape[d]));
        MLSI_TRY(put_u32(w, mlsi_gguf_tensor_type_of(stored[i].dtype)));
        MLSI_TRY(put_u64(w, offset));
        offset += stored[i].bytes + padding(g, stored[i].bytes);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_write_header(mlsi_file_writer *w, const mlsi_gguf *g,
                                    const mlsi_gguf_stored *stored) {
    uint64_t bytes = 24 + metadata_bytes(g, stored);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        bytes += 8 + strlen(g->tensors[i].name) + 4 + 8 * (uint64_t)g->tensors[i].layout.rank + 12;
    MLSI_TRY(mlsi_file_write(w, "GGUF\3\0\0", 8));
    MLSI_TRY(put_u64(w, g->n_tensors));
    MLSI_TRY(put_u64(w, g->n_kv));
    MLSI_TRY(put_metadata(w, g, stored));
    MLSI_TRY(put_tensor_list(w, g, stored));
    return put_padding(w, g, bytes);
}

mlsys_status mlsi_gguf_write_tensor(mlsi_file_writer *w, const mlsi_gguf *g, const void *data,
                                    uint64_t bytes) {
    MLSI_TRY(mlsi_file_write(w, data, bytes));
    return put_padding(w, g, bytes);
}
