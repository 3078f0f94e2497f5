#include "api/api.h"
#include "api/api_graph.h"
#include "model/safetensors.h"
#include "train/state_file.h"

enum { MAX_PARAMETERS = MLSI_MAX_ARGS };

static mlsys_status own_values(mlsi_graph *g, mlsys_value loss, int32_t n,
                               const mlsys_value *params, int32_t *l, int32_t *p) {
    MLSI_TRY(mlsi_graph_own_values(g, 1, &loss, "trainer_create: loss", l));
    MLSI_TRY(mlsi_graph_own_values(g, n, params, "trainer_create: params", p));
    bool given = *l >= 0;
    for (int32_t i = 0; i < n; i++)
        given = given && p[i] >= 0;
    return given ? MLSYS_OK
                 : mlsi_fail(MLSYS_E_ARG, "trainer_create: loss or a parameter is 0, no value");
}

static mlsys_status create(mlsi_graph *g, mlsys_value loss, int32_t n, const mlsys_value *params,
                           const mlsys_tensor *initial, mlsi_stream *s, const mlsi_config *c,
                           mlsys_trainer *out) {
    mlsi_tensor *tensors[MAX_PARAMETERS];
    int32_t values[MAX_PARAMETERS], l;
    MLSI_TRY(mlsi_api_same_ctx(&g->object, &s->object, "trainer_create: stream"));
    MLSI_TRY(own_values(g, loss, n, params, &l, values));
    MLSI_TRY(
        mlsi_api_pin_tensors(g->object.ctx, "trainer_create: initial", n, initial, false, tensors));
    mlsys_status st = mlsi_trainer_create(g, l, n, values, tensors, s, c, out);
    mlsi_api_unpin_tensors(n, tensors);
    return st;
}

mlsys_status mlsys_trainer_create(mlsys_graph graph, mlsys_value loss, int32_t n,
                                  const mlsys_value *params, const mlsys_tensor *initial,
                                  mlsys_stream stream, mlsys_config config, mlsys_trainer *out) {
    API_COMPUTES;
    mlsi_graph *g = NULL;
    mlsi_stream *s = NULL;
    mlsi_config *c = NULL;
    API_OUT_HANDLE(out, "trainer_create: out");
    API_NOT_NULL(params, "trainer_create: params");
    API_NOT_NULL(initial, "trainer_create: initial");
    if (n < 1 || n > MAX_PARAMETERS)
        return mlsi_fail(MLSYS_E_ARG, "trainer_create: n is %d, outside 1..%d", n, MAX_PARAMETERS);
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "trainer_create: g", &g));
    mlsys_status st = mlsi_pin(stream, MLSYS_KIND_STREAM, "trainer_create: stream", &s);
    if (st == MLSYS_OK && config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "trainer_create: config", &c);
    if (st == MLSYS_OK) st = create(g, loss, n, params, initial, s, c, out);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(s);
    mlsi_unpin_exclusive(g);
    return st;
}

/* A call that takes a batch, with everything that it needs pinned. */
typedef struct batch_call {
    mlsi_trainer *t;
    mlsi_stream *s;
    int32_t n_in;
    mlsi_tensor *in[MLSI_MAX_ARGS];
} batch_call;

static mlsys_status batch_begin(batch_call *b, mlsys_trainer trainer, const char *what,
                                int32_t n_in, const mlsys_tensor *in) {
    b->t = NULL, b->s = NULL, b->n_in = 0;
    if (n_in < 0 || n_in > MLSI_MAX_ARGS)
        return mlsi_fail(MLSYS_E_ARG, "%s: n_in is %d, outside 0..%d", what, n_in, MLSI_MAX_ARGS);
    if (n_in && !in) return mlsi_fail(MLSYS_E_ARG, "%s: in is NULL", what);
    MLSI_TRY(mlsi_pin_exclusive(trainer, MLSYS_KIND_TRAINER, what, &b->t));
    MLSI_TRY(mlsi_pin_exclusive(b->t->stream_handle, MLSYS_KIND_STREAM, what, &b->s));
    MLSI_TRY(mlsi_api_pin_tensors(b->t->object.ctx, what, n_in, in, false, b->in));
    b->n_in = n_in;
    return MLSYS_OK;
}

static void batch_end(batch_call *b) {
    mlsi_api_unpin_tensors(b->n_in, b->in);
    mlsi_unpin_exclusive(b->s);
    mlsi_unpin_exclusive(b->t);
}

mlsys_status mlsys_trainer_step(mlsys_trainer trainer, int32_t n_in, const mlsys_tensor *in,
                                double *loss) {
    API_COMPUTES;
    batch_call b;
    mlsys_status st = batch_begin(&b, trainer, "trainer_step", n_in, in);
    if (st == MLSYS_OK) st = mlsi_trainer_step(b.t, n_in, b.in, loss);
    batch_end(&b);
    return st;
}

mlsys_status mlsys_trainer_find_nonfinite(mlsys_trainer trainer, int32_t n_in,
                                          const mlsys_tensor *in, char *buf, uint64_t cap,
                                          uint64_t *need) {
    API_COMPUTES;
    batch_call b;
    mlsi_text text;
    API_TEXT(buf, cap, "trainer_find_nonfinite");
    mlsys_status st = batch_begin(&b, trainer, "trainer_find_nonfinite", n_in, in);
    if (st == MLSYS_OK) {
        mlsi_text_init(&text, &b.t->object.ctx->alloc);
        st = mlsi_trainer_find_nonfinite(b.t, n_in, b.in, &text);
        if (st == MLSYS_OK)
            st = mlsi_text_out(&text, buf, cap, need);
        else
            mlsi_text_free(&text);
    }
    batch_end(&b);
    return st;
}

mlsys_status mlsys_trainer_stat(mlsys_trainer trainer, const char *name, double *out) {
    API_COMPUTES;
    mlsi_trainer *t;
    API_NOT_NULL(name, "trainer_stat: name");
    API_NOT_NULL(out, "trainer_stat: out");
    MLSI_TRY(mlsi_pin_exclusive(trainer, MLSYS_KIND_TRAINER, "trainer_stat: t", &t));
    mlsys_status st = mlsi_trainer_stat(t, name, out);
    mlsi_unpin_exclusive(t);
    return st;
}

mlsys_status mlsys_trainer_tensor(mlsys_trainer trainer, const char *name, mlsys_tensor *out) {
    API_COMPUTES;
    mlsi_trainer *t;
    API_OUT_HANDLE(out, "trainer_tensor: out");
    API_NOT_NULL(name, "trainer_tensor: name");
    MLSI_TRY(mlsi_pin_exclusive(trainer, MLSYS_KIND_TRAINER, "trainer_tensor: t", &t));
    mlsys_status st = mlsi_trainer_tensor(t, name, out);
    mlsi_unpin_exclusive(t);
    return st;
}

mlsys_status mlsys_trainer_save(mlsys_trainer trainer, const char *path) {
    API_COMPUTES;
    mlsi_trainer *t;
    API_NOT_NULL(path, "trainer_save: path");
    MLSI_TRY(mlsi_pin_exclusive(trainer, MLSYS_KIND_TRAINER, "trainer_save: t", &t));
    mlsys_status st = mlsi_trainer_save(t, path);
    mlsi_unpin_exclusive(t);
    return st;
}

mlsys_status mlsys_trainer_load(mlsys_trainer trainer, const char *path) {
    API_COMPUTES;
    mlsi_trainer *t;
    API_NOT_NULL(path, "trainer_load: path");
    MLSI_TRY(mlsi_pin_exclusive(trainer, MLSYS_KIND_TRAINER, "trainer_load: t", &t));
    mlsys_status st = mlsi_trainer_load(t, path);
    mlsi_unpin_exclusive(t);
    return st;
}

static mlsys_status check_texts(const char *what, int32_t n, const char *const *texts) {
    if (n) API_NOT_NULL(texts, what);
    for (int32_t i = 0; i < n; i++)
        if (!texts[i]) return mlsi_fail(MLSYS_E_ARG, "%s[%d] is NULL", what, i);
    return MLSYS_OK;
}

mlsys_status mlsys_tensors_save(const char *path, int32_t n, const char *const *names,
                                const mlsys_tensor *tensors, int32_t n_meta,
                                const char *const *keys, const char *const *values) {
    API_COMPUTES;
    mlsi_alloc *a = &mlsi_alloc_process;
    mlsi_named_view *views = NULL;
    mlsi_tensor **pinned = NULL;
    API_NOT_NULL(path, "tensors_save: path");
    if (n < 0 || n_meta < 0)
        return mlsi_fail(MLSYS_E_ARG, "tensors_save: n is %d, n_meta %d", n, n_meta);
    MLSI_TRY(check_texts("tensors_save: names", n, names));
    MLSI_TRY(check_texts("tensors_save: keys", n_meta, keys));
    MLSI_TRY(check_texts("tensors_save: values", n_meta, values));
    if (n) API_NOT_NULL(tensors, "tensors_save: tensors");
    mlsys_status st = MLSI_NEW_N(a, n, &views);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, n, &pinned);
    if (st == MLSYS_OK)
        st = mlsi_api_pin_tensors(NULL, "tensors_save: tensors", n, tensors, false, pinned);
    for (int32_t i = 0; i < n && st == MLSYS_OK; i++)
        views[i] = (mlsi_named_view){names[i], mlsi_tensor_view_of(pinned[i])};
    if (st == MLSYS_OK) st = mlsi_safetensors_write(a, path, n, views, n_meta, keys, values);
    mlsi_api_unpin_tensors(n, pinned);
    mlsi_mem_free(a, pinned);
    mlsi_mem_free(a, views);
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "tensors_save");
}
