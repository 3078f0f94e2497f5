#include "train/state_file.h"

#include "core/faults.h"
#include "core/sha256.h"
#include "core/file_bytes.h"
#include "model/safetensors.h"

#include <string.h>

static const char format_name[] = "mlsys.trainer", format_version[] = "1";

enum { META_FORMAT, META_VERSION, META_OPTIMIZER, META_MODEL, META_SETTINGS, META_SHA256, METAS };
static const char *const meta_keys[METAS] = {"format", "version",  "optimizer",
                                             "model",  "settings", "sha256"};

/* Of a file's contents: what describes the run, then each state's name and bytes. */
static void sum_begin(mlsi_sha256 *sha, const char *const values[METAS]) {
    mlsi_sha256_init(sha);
    for (int i = 0; i < META_SHA256; i++)
        mlsi_sha256_add(sha, values[i], strlen(values[i]) + 1);
}
static void sum_state(mlsi_sha256 *sha, const char *name, const void *data, uint64_t bytes) {
    mlsi_sha256_add(sha, name, strlen(name) + 1);
    mlsi_sha256_add(sha, data, bytes);
}
static void sum_end(mlsi_sha256 *sha, char text[65]) {
    uint8_t digest[32];
    mlsi_sha256_finish(sha, digest);
    mlsi_sha256_hex(digest, text);
}

static void describe(const mlsi_trainer *t, const char *values[METAS]) {
    values[META_FORMAT] = format_name;
    values[META_VERSION] = format_version;
    values[META_OPTIMIZER] = t->optimizer;
    values[META_MODEL] = t->model;
    values[META_SETTINGS] = t->settings.data;
}

/* The view's elements on the host: a device's are copied, for the caller to free. */
static mlsys_status fetch(const mlsi_tensor *state, mlsi_view *v) {
    if (mlsi_is_host(state->device)) return MLSYS_OK;
    v->data = NULL;
    MLSI_TRY(mlsi_mem_alloc(&state->object.ctx->alloc, mlsi_view_bytes(v), &v->data));
    return mlsi_tensor_download(state, v->data);
}

mlsys_status mlsi_trainer_save(const mlsi_trainer *t, const char *path) {
    mlsi_alloc *a = &t->object.ctx->alloc;
    int32_t n = t->graph.n_states;
    mlsi_named_view *views;
    const char *values[METAS];
    char sum[65];
    mlsi_sha256 sha;
    MLSI_TRY(MLSI_NEW_N(a, n, &views));
    describe(t, values);
    sum_begin(&sha, values);
    mlsys_status st = MLSYS_OK;
    for (int32_t i = 0; i < n && st == MLSYS_OK; i++) {
        views[i] =
            (mlsi_named_view){t->graph.states[i].name, mlsi_tensor_view_of(t->state[i].tensor)};
        st = fetch(t->state[i].tensor, &views[i].view);
        if (st == MLSYS_OK)
            sum_state(&sha, views[i].name, views[i].view.data, mlsi_view_bytes(&views[i].view));
    }
    sum_end(&sha, sum);
    values[META_SHA256] = sum;
    if (st == MLSYS_OK) st = mlsi_safetensors_write(a, path, n, views, METAS, meta_keys, values);
    for (int32_t i = 0; i < n; i++)
        if (!mlsi_is_host(t->stream->device)) mlsi_mem_free(a, views[i].view.data);
    mlsi_mem_free(a, views);
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "trainer_save");
}

/* ---- load ---------------------------------------------------------------------------------- */

/* A text of the metadata, without its length; NUL-ended in the arena. */
static mlsys_status meta(mlsi_gguf *g, int which, const char **out) {
    mlsi_gguf_str s;
    char *text;
    if (!mlsi_gguf_find(g, meta_keys[which]))
        return mlsi_fail(MLSYS_E_FORMAT, "%s: not a trainer's file: no metadata \"%s\"", g->file,
                         meta_keys[which]);
    MLSI_TRY(mlsi_gguf_get_str(g, meta_keys[which], &s));
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, s.len + 1, (void **)&text));
    memcpy(text, s.data, s.len);
    *out = text;
    return MLSYS_OK;
}

/* The first line that differs of two texts of "key value" lines. */
static mlsys_status settings_differ(const mlsi_gguf *g, const char *theirs, const char *ours) {
    while (*theirs && *ours) {
        int n = (int)strcspn(theirs, "\n"), m = (int)strcspn(ours, "\n");
        if (n != m || memcmp(theirs, ours, (size_t)n))
            return mlsi_fail(MLSYS_E_FORMAT,
                             "%s: of another run: its setting is \"%.*s\", this one's \"%.*s\" "
                             "(resume = state would allow that)",
                             g->file, n < 80 ? n : 80, theirs, m < 80 ? m : 80, ours);
        theirs += n + (theirs[n] == '\n');
        ours += m + (ours[m] == '\n');
    }
    return mlsi_fail(MLSYS_E_FORMAT, "%s: of another run: other settings", g->file);
}

static mlsys_status check_run(const mlsi_trainer *t, const mlsi_gguf *g,
                              const char *const values[METAS]) {
    if (strcmp(values[META_FORMAT], format_name) || strcmp(values[META_VERSION], format_version))
        return mlsi_fail(MLSYS_E_FORMAT, "%s: format \"%.40s\" version \"%.16s\", expected %s %s",
                         g->file, values[META_FORMAT], values[META_VERSION], format_name,
                         format_version);
    if (strcmp(values[META_OPTIMIZER], t->optimizer))
        return mlsi_fail(MLSYS_E_FORMAT,
                         "%s: of another run: its optimizer is %.32s, this one's %s", g->file,
                         values[META_OPTIMIZER], t->optimizer);
    return MLSYS_OK;
}

static mlsys_status check_states(const mlsi_trainer *t, const mlsi_gguf *g,
                                 const mlsi_gguf_tensor **found) {
    char have[160], want[160];
    for (int32_t i = 0; i < t->graph.n_states; i++) {
        const mlsi_layout *l = &t->state[i].tensor->layout;
        found[i] = mlsi_gguf_tensor_find(g, t->graph.states[i].name);
        if (!found[i])
            return mlsi_fail(MLSYS_E_FORMAT, "%s: of another run: it has no %s", g->file,
                             t->graph.states[i].name);
        if (found[i]->layout.dtype == l->dtype && found[i]->layout.rank == l->rank &&
            !memcmp(found[i]->layout.shape, l->shape, sizeof *l->shape * (size_t)l->rank))
            continue;
        return mlsi_fail(MLSYS_E_FORMAT, "%s: of another run: its %s is %s, this one's %s", g->file,
                         t->graph.states[i].name,
                         mlsi_layout_text(&found[i]->layout, have, sizeof have),
                         mlsi_layout_text(l, want, sizeof want));
    }
    for (uint64_t k = 0; k < g->n_tensors && g->n_tensors != (uint64_t)t->graph.n_states; k++) {
        int32_t i = 0;
        while (i < t->graph.n_states && strcmp(t->graph.states[i].name, g->tensors[k].name))
            i++;
        if (i == t->graph.n_states)
            return mlsi_fail(MLSYS_E_FORMAT, "%s: of another run: it has %.96s, which is none here",
                             g->file, g->tensors[k].name);
    }
    return MLSYS_OK;
}

static mlsys_status check_sum(const mlsi_trainer *t, const mlsi_gguf *g,
                              const char *const values[METAS],
                              const mlsi_gguf_tensor *const *found) {
    mlsi_sha256 sha;
    char sum[65];
    sum_begin(&sha, values);
    for (int32_t i = 0; i < t->graph.n_states; i++)
        sum_state(&sha, t->graph.states[i].name, found[i]->data, found[i]->bytes);
    sum_end(&sha, sum);
    if (!strcmp(sum, values[META_SHA256]) || mlsi_fault(MLSI_FAULT_TRAIN_FILE_SUM)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT, "%s: the contents do not have the SHA-256 that it names",
                     g->file);
}

static mlsys_status load(mlsi_trainer *t, mlsi_gguf *g, const mlsi_gguf_tensor **found) {
    const char *values[METAS];
    for (int i = 0; i < METAS; i++)
        MLSI_TRY(meta(g, i, &values[i]));
    MLSI_TRY(check_run(t, g, values));
    MLSI_TRY(check_states(t, g, found));
    if (t->same_settings && strcmp(values[META_SETTINGS], t->settings.data))
        return settings_differ(g, values[META_SETTINGS], t->settings.data);
    if (t->same_settings && strcmp(values[META_MODEL], t->model))
        return mlsi_fail(MLSYS_E_FORMAT,
                         "%s: of another run: the model's graph differs (resume = state would "
                         "allow that)",
                         g->file);
    MLSI_TRY(check_sum(t, g, values, found));
    for (int32_t i = 0; i < t->graph.n_states; i++) {
        bool kept = t->graph.states[i].parameter >= 0 && i >= t->graph.n_params;
        if (kept && mlsi_fault(MLSI_FAULT_TRAIN_FILE_MOMENTS)) continue;
        MLSI_TRY(mlsi_tensor_upload(t->state[i].tensor, found[i]->data));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_trainer_load(mlsi_trainer *t, const char *path) {
    mlsi_alloc *a = &t->object.ctx->alloc;
    mlsi_file_bytes file;
    mlsi_gguf *g = NULL;
    const mlsi_gguf_tensor **found = NULL;
    mlsys_status st = mlsi_file_bytes_open(a, path, true, &file);
    if (st == MLSYS_OK) {
        st = mlsi_safetensors_open(a, path, file.data, file.size, &g);
        if (st == MLSYS_OK) st = MLSI_NEW_N(a, t->graph.n_states, &found);
        if (st == MLSYS_OK) st = load(t, g, found);
        mlsi_mem_free(a, found);
        mlsi_gguf_close(g);
        mlsi_file_bytes_close(&file);
    }
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "trainer_load");
}
