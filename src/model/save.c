/* Writing a model as a file, one tensor in memory at a time. A matrix with an adapter becomes
 * W + scale * B A, computed in f32, then rounded once to the stored dtype. */
#include "core/faults.h"
#include "model/gguf_write.h"
#include "model/model.h"

#include <string.h>

static const mlsi_config_key keys[] = {
    {"dtype", 's', "f32", 0, 0,
     "of replaced or merged tensors: f32, f16 or bf16; vectors are f32 always, as the format's "
     "readers expect"},
};

const mlsi_config_key *mlsi_model_save_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

typedef struct saver {
    mlsi_model *m;
    mlsys_stream stream;
    mlsys_dtype dtype;
    mlsi_file_writer *w;
    mlsi_gguf_stored *stored;
} saver;

/* Half a or b of the adapter of the file's tensor "NAME.weight"; NULL when it has none. */
static const mlsi_model_change *adapter_of(const mlsi_model *m, const char *weight, char half) {
    size_t n = strlen(weight), stem;
    for (int64_t i = 0; i < m->n_changes; i++) {
        const char *name = m->changes[i].as.name;
        if (mlsi_adapter_name(name, &stem) == half && stem + 7 == n &&
            !strncmp(name, weight, stem) && !strcmp(weight + stem, ".weight"))
            return &m->changes[i];
    }
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------- */

/* *t becomes op(*t, other), with one attribute at most; the old tensor is released. */
static mlsys_status apply(saver *s, const char *op, mlsys_tensor *t, mlsys_tensor other,
                          const char *dtype) {
    mlsys_tensor in[2] = {*t, other}, out = NULL;
    mlsys_config c = NULL;
    mlsys_status st = dtype ? mlsys_config_create(&c) : MLSYS_OK;
    if (st == MLSYS_OK && dtype) st = mlsys_config_set_str(c, "dtype", dtype);
    if (st == MLSYS_OK) st = mlsys_op_run(s->stream, op, other ? 2 : 1, in, c, 1, &out);
    mlsys_release(c);
    if (st != MLSYS_OK) return st;
    mlsys_release(*t);
    *t = out;
    return MLSYS_OK;
}

/* A tensor of the model in f32. */
static mlsys_status as_f32(saver *s, const mlsi_gguf_tensor *t, mlsys_tensor *out) {
    MLSI_TRY(mlsi_model_tensor(s->m, t, out));
    if (mlsi_dtype_is_block(t->layout.dtype)) return apply(s, "dequantize", out, NULL, "f32");
    return t->layout.dtype == MLSYS_F32 ? MLSYS_OK : apply(s, "cast", out, NULL, "f32");
}

/* *w += scale * b a */
static mlsys_status merge(saver *s, const mlsi_model_change *a, const mlsi_model_change *b,
                          mlsys_tensor *w) {
    mlsys_tensor ta = NULL, tb = NULL, scale = NULL;
    mlsys_device device = mlsi_handle_of(a->tensor->device);
    mlsys_status st = as_f32(s, &a->as, &ta);
    if (st == MLSYS_OK) st = as_f32(s, &b->as, &tb);
    if (st == MLSYS_OK) st = apply(s, "matmul", &tb, ta, NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_create(device, MLSYS_F32, 0, NULL, &scale);
    if (st == MLSYS_OK) st = mlsys_tensor_write(scale, s->stream, &a->scale, sizeof a->scale);
    if (st == MLSYS_OK) st = apply(s, "mul", &tb, scale, NULL);
    if (st == MLSYS_OK && !mlsi_fault(MLSI_FAULT_SAVE_MERGE)) st = apply(s, "add", w, tb, NULL);
    mlsys_release(device);
    mlsys_release(scale);
    mlsys_release(tb);
    mlsys_release(ta);
    return st;
}

static mlsys_status write_changed(saver *s, uint64_t i) {
    const char *name = s->m->gguf->tensors[i].name;
    const mlsi_model_change *a = adapter_of(s->m, name, 'a');
    mlsys_tensor t = NULL;
    void *data = NULL;
    mlsys_status st = as_f32(s, mlsi_model_find(s->m, name), &t);
    if (st == MLSYS_OK && a) st = merge(s, a, adapter_of(s->m, name, 'b'), &t);
    if (st == MLSYS_OK && s->stored[i].dtype != MLSYS_F32)
        st = apply(s, "cast", &t, NULL, mlsi_dtype_get(s->stored[i].dtype)->name);
    if (st == MLSYS_OK) st = mlsys_tensor_data(t, &data, NULL);
    if (st == MLSYS_OK) st = mlsi_gguf_write_tensor(s->w, s->m->gguf, data, s->stored[i].bytes);
    mlsys_release(t);
    return st;
}

/* ---- the file ----------------------------------------------------------------------------------- */

static bool changed(const saver *s, uint64_t i) {
    const char *name = s->m->gguf->tensors[i].name;
    return mlsi_model_change_find(s->m, name) || adapter_of(s->m, name, 'a');
}

static mlsys_status plan(saver *s) {
    const mlsi_gguf *g = s->m->gguf;
    MLSI_TRY(MLSI_NEW_N(&s->m->object.ctx->alloc, g->n_tensors + 1, &s->stored));
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const mlsi_gguf_tensor *t = &g->tensors[i];
        mlsi_layout l;
        s->stored[i] = (mlsi_gguf_stored){t->layout.dtype, t->bytes};
        if (!changed(s, i)) continue;
        s->stored[i].dtype = t->layout.rank < 2 ? MLSYS_F32 : s->dtype;
        MLSI_TRY(mlsi_layout_row_major(&l, s->stored[i].dtype, t->layout.rank, t->layout.shape));
        s->stored[i].bytes = mlsi_layout_bytes(&l);
    }
    return MLSYS_OK;
}

static mlsys_status write_all(saver *s, const char *path) {
    const mlsi_gguf *g = s->m->gguf;
    MLSI_TRY(plan(s));
    MLSI_TRY(mlsi_file_write_begin(&s->m->object.ctx->alloc, path, &s->w));
    mlsys_status st = mlsi_gguf_write_header(s->w, g, s->stored);
    for (uint64_t i = 0; i < g->n_tensors && st == MLSYS_OK; i++)
        st = changed(s, i)
                 ? write_changed(s, i)
                 : mlsi_gguf_write_tensor(s->w, g, g->tensors[i].data, g->tensors[i].bytes);
    if (st == MLSYS_OK) return mlsi_file_write_commit(s->w);
    mlsi_file_write_abort(s->w);
    return st;
}

mlsys_status mlsi_model_save(mlsi_model *m, const char *path, const mlsi_config *config) {
    saver s = {.m = m};
    mlsys_device device = NULL;
    int n;
    const mlsi_config_key *table = mlsi_model_save_config_keys(&n);
    MLSI_TRY(mlsi_config_check(config, "model_save", table, n));
    if (!m->gguf->version)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "model_save: %s: not a model from a GGUF file",
                         m->gguf->file);
    const char *dtype = mlsi_config_str(config, "dtype", "f32");
    s.dtype = mlsi_dtype_by_name(dtype);
    if (s.dtype != MLSYS_F32 && s.dtype != MLSYS_F16 && s.dtype != MLSYS_BF16)
        return mlsi_fail(MLSYS_E_ARG, "model_save: dtype \"%.32s\" is not f32, f16 or bf16", dtype);
    mlsys_status st = mlsi_device_get(m->object.ctx, MLSYS_CPU, 0, &device);
    if (st == MLSYS_OK) st = mlsys_stream_create(device, NULL, &s.stream);
    if (st == MLSYS_OK) st = write_all(&s, path);
    mlsi_mem_free(&m->object.ctx->alloc, s.stored);
    mlsys_release(s.stream);
    mlsys_release(device);
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "model_save");
}
