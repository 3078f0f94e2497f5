#include "model/model.h"

#include "model/safetensors.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN_ITEMS = 8 };

static const mlsi_config_key open_keys[] = {
    {"mmap", 'i', "1", 0, 1,
     "1: map the file, which must keep its contents and length while the model or a tensor of it "
     "lives (a page that has gone raises SIGBUS); 0: read it into memory"},
};

const mlsi_config_key *mlsi_model_open_config_keys(int *n) {
    *n = (int)(sizeof open_keys / sizeof open_keys[0]);
    return open_keys;
}

void mlsi_model_free(mlsi_alloc *a, mlsi_model *m) {
    for (int64_t i = 0; i < m->n_changes; i++)
        mlsi_unpin(m->changes[i].tensor);
    if (m->base) {
        mlsi_mem_free(a, m->changes);
        mlsi_arena_free(&m->arena);
        mlsi_unpin(m->base);
    } else {
        mlsi_gguf_close(m->gguf);
        mlsi_file_bytes_close(&m->file);
    }
    mlsi_mem_free(a, m);
}

void mlsi_model_destroy(mlsi_object *self) {
    mlsi_model_free(&self->ctx->alloc, (mlsi_model *)self);
}

static mlsys_status load(mlsi_model *m, mlsi_ctx *ctx, const char *path,
                         const mlsi_config *config) {
    bool map = mlsi_config_i64(config, "mmap", 1) != 0;
    MLSI_TRY(mlsi_file_bytes_open(&ctx->alloc, path, map, &m->file));
    size_t n = strlen(path);
    bool named = n > 12 && !strcmp(path + n - 12, ".safetensors");
    if (named || mlsi_safetensors_looks(m->file.data, m->file.size))
        return mlsi_safetensors_open(&ctx->alloc, path, m->file.data, m->file.size, &m->gguf);
    return mlsi_gguf_open(&ctx->alloc, path, m->file.data, m->file.size, &m->gguf);
}

mlsys_status mlsi_model_open(mlsi_ctx *ctx, const char *path, const mlsi_config *config,
                             mlsys_model *out) {
    int n;
    const mlsi_config_key *keys = mlsi_model_open_config_keys(&n);
    *out = NULL;
    MLSI_TRY(mlsi_config_check(config, "model_open", keys, n));
    mlsi_model *m;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &m));
    mlsys_status st = load(m, ctx, path, config);
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&m->object, MLSYS_KIND_MODEL, ctx, mlsi_model_destroy, out);
    if (st != MLSYS_OK) {
        mlsi_model_free(&ctx->alloc, m);
        return mlsi_fail_in(st, "model_open");
    }
    mlsi_log(ctx, MLSYS_LOG_INFO, "model",
             "%s: %s, %" PRIu64 " metadata keys, %" PRIu64 " tensors, %" PRIu64 " bytes %s",
             m->gguf->file, m->gguf->version ? "GGUF" : "safetensors", m->gguf->n_kv,
             m->gguf->n_tensors, m->file.size, m->file.mapped ? "mapped" : "read");
    return MLSYS_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

const mlsi_model_change *mlsi_model_change_find(const mlsi_model *m, const char *name) {
    for (int64_t low = 0, high = m->n_changes; low < high;) {
        int64_t mid = low + (high - low) / 2;
        int c = strcmp(name, m->changes[mid].as.name);
        if (c == 0) return &m->changes[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const mlsi_gguf_tensor *mlsi_model_find(const mlsi_model *m, const char *name) {
    const mlsi_model_change *change = mlsi_model_change_find(m, name);
    return change ? &change->as : mlsi_gguf_tensor_find(m->gguf, name);
}

mlsys_status mlsi_model_get(const mlsi_model *m, const char *name, const mlsi_gguf_tensor **out) {
    *out = mlsi_model_find(m, name);
    return *out ? MLSYS_OK : mlsi_gguf_tensor_get(m->gguf, name, out);
}

static void drop_model(void *model) { mlsi_unpin(model); }

static mlsys_status storage_of(mlsi_model *m, const mlsi_gguf_tensor *t, mlsi_storage **out) {
    mlsi_repin(m);
    mlsys_status st = mlsi_storage_adopt(m->object.ctx, (void *)(uintptr_t)t->data, t->bytes, true,
                                         drop_model, m, out);
    if (st != MLSYS_OK) mlsi_unpin(m);
    return st;
}

/* Safetensors files may have a tensor anywhere. */
static mlsys_status aligned_copy(mlsi_device *cpu, const mlsi_gguf_tensor *t, mlsys_tensor *out) {
    mlsi_tensor *copy;
    MLSI_TRY(mlsi_tensor_new(cpu, &t->layout, out));
    mlsys_status st = mlsi_pin(*out, MLSYS_KIND_TENSOR, "model_tensor: copy", &copy);
    if (st == MLSYS_OK) {
        memcpy(mlsi_tensor_view_of(copy).data, t->data, t->bytes);
        mlsi_unpin(copy);
    }
    return st;
}

mlsys_status mlsi_model_tensor(mlsi_model *m, const mlsi_gguf_tensor *t, mlsys_tensor *out) {
    mlsys_device handle;
    mlsi_device *cpu = NULL;
    mlsi_storage *storage = NULL;
    const mlsi_model_change *change = mlsi_model_change_find(m, t->name);
    *out = NULL;
    if (change)
        return mlsi_tensor_make(change->tensor->device, change->tensor->storage,
                                &change->tensor->layout, out);
    MLSI_TRY(mlsi_device_get(m->object.ctx, MLSYS_CPU, 0, &handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_DEVICE, "model_tensor: device", &cpu);
    if (st == MLSYS_OK && (uintptr_t)t->data % (uintptr_t)mlsi_dtype_align(t->layout.dtype)) {
        st = aligned_copy(cpu, t, out);
    } else {
        if (st == MLSYS_OK) st = storage_of(m, t, &storage);
        if (st == MLSYS_OK) st = mlsi_tensor_make(cpu, storage, &t->layout, out);
    }
    mlsi_storage_release(storage);
    mlsi_unpin(cpu);
    mlsi_handle_release(handle, "model_tensor: device");
    return st;
}

/* ---- description ---------------------------------------------------------------------------- */

static void describe_tensor(const mlsi_gguf_tensor *t, mlsi_text *out) {
    char text[128];
    mlsi_text_add(out, "%s: %s, %" PRIu64 " bytes\n", t->name,
                  mlsi_layout_text(&t->layout, text, sizeof text), t->bytes);
}

void mlsi_model_describe(const mlsi_model *m, mlsi_text *out) {
    const mlsi_gguf *g = m->gguf;
    if (g->version)
        mlsi_text_add(out, "format: GGUF v%u\n", g->version);
    else
        mlsi_text_add(out, "format: safetensors\n");
    mlsi_text_add(out, "bytes: %" PRIu64 "\nmetadata: %" PRIu64 "\ntensors: %" PRIu64 "\n", g->size,
                  g->n_kv, g->n_tensors);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        mlsi_text_add(out, "%s: ", g->kv[i].key);
        mlsi_gguf_value_text(&g->kv[i], true, SHOWN_ITEMS, out);
        mlsi_text_add(out, "\n");
    }
    for (uint64_t i = 0; i < g->n_tensors; i++)
        describe_tensor(mlsi_model_find(m, g->tensors[i].name), out);
    for (int64_t i = 0; i < m->n_changes; i++)
        if (!mlsi_gguf_tensor_find(g, m->changes[i].as.name))
            describe_tensor(&m->changes[i].as, out);
}
