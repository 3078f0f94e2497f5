#include "tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        mlsys_status try_ = (call);                                                                \
        if (try_ != MLSYS_OK) return try_;                                                         \
    } while (0)

/* ---- the graph ---------------------------------------------------------------------------------- */

static mlsys_status training_graph(tuning *t) {
    mlsys_config c;
    TRY(mlsys_config_create(&c));
    mlsys_status st = mlsys_config_set_str(c, "mode", "train");
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "batch", t->batch);
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "context", t->length);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "trainable", t->rank ? "lora" : "all");
    if (st == MLSYS_OK && t->rank) st = mlsys_config_set_i64(c, "lora_rank", t->rank);
    if (st == MLSYS_OK && t->rank) st = mlsys_config_set_f64(c, "lora_alpha", t->alpha);
    if (st == MLSYS_OK && t->rank) st = mlsys_config_set_str(c, "lora_targets", t->targets);
    if (st == MLSYS_OK) st = mlsys_model_graph(t->model, c, &t->g);
    mlsys_release(c);
    return st;
}

/* The mean cross-entropy of the logits with targets, which are the tokens one later. */
static mlsys_status add_loss(tuning *t) {
    mlsys_value tokens, in[2], rows;
    mlsys_dim shape[2];
    TRY(mlsys_graph_find(t->g, "tokens", &tokens));
    TRY(mlsys_graph_find(t->g, "logits", &in[0]));
    TRY(mlsys_graph_type(t->g, tokens, NULL, 2, shape, NULL));
    TRY(mlsys_graph_input(t->g, "targets", MLSYS_I32, 2, shape, &in[1]));
    TRY(mlsys_graph_op(t->g, "cross_entropy", 2, in, NULL, 1, &rows));
    TRY(mlsys_graph_op(t->g, "reduce_mean", 1, &rows, NULL, 1, &t->loss));
    return mlsys_graph_output(t->g, "loss", t->loss);
}

/* ---- what is trained ---------------------------------------------------------------------------- */

/* Room for two more. */
static mlsys_status grow(tuning *t) {
    size_t n = (size_t)t->n + 2;
    void *names = realloc(t->names, sizeof *t->names * n);
    if (names) t->names = names;
    void *values = realloc(t->values, sizeof *t->values * n);
    if (values) t->values = values;
    void *start = realloc(t->start, sizeof *t->start * n);
    if (start) t->start = start;
    return names && values && start ? MLSYS_OK : mlsys_set_error(MLSYS_E_NOMEM, "no memory");
}

/* Take the input "<stem><suffix>" if the graph has one. */
static mlsys_status take_input(tuning *t, const char *stem, size_t length, const char *suffix) {
    char name[256];
    mlsys_value v;
    if (length + strlen(suffix) >= sizeof name) return MLSYS_OK;
    snprintf(name, sizeof name, "%.*s%s", (int)length, stem, suffix);
    if (mlsys_graph_find(t->g, name, &v) != MLSYS_OK) return MLSYS_OK;
    TRY(grow(t));
    t->names[t->n] = strdup(name);
    t->values[t->n] = v;
    t->start[t->n] = NULL;
    return t->names[t->n++] ? MLSYS_OK : mlsys_set_error(MLSYS_E_NOMEM, "no memory");
}

/* The model's description lists its tensors, one "NAME: type" a line; each may be an input, or have adapters
 * that are. */
static mlsys_status take_inputs(tuning *t) {
    static const char weight[] = ".weight";
    uint64_t need = 0;
    mlsys_model_describe(t->model, NULL, 0, &need);
    char *text = malloc(need);
    if (!text) return mlsys_set_error(MLSYS_E_NOMEM, "no memory");
    mlsys_status st = mlsys_model_describe(t->model, text, need, NULL);
    for (char *line = text, *end; st == MLSYS_OK && (end = strchr(line, '\n')); line = end + 1) {
        char *colon = memchr(line, ':', (size_t)(end - line));
        size_t n = colon ? (size_t)(colon - line) : 0;
        if (!n) continue;
        st = take_input(t, line, n, "");
        if (n < sizeof weight || strncmp(colon - (sizeof weight - 1), weight, sizeof weight - 1))
            continue;
        if (st == MLSYS_OK) st = take_input(t, line, n - (sizeof weight - 1), ".lora_a");
        if (st == MLSYS_OK) st = take_input(t, line, n - (sizeof weight - 1), ".lora_b");
    }
    free(text);
    return st;
}

/* Into the order of the graph's inputs, in which a program takes them: that of their values. */
static void sort_inputs(tuning *t) {
    for (int i = 1; i < t->n; i++)
        for (int k = i; k > 0 && t->values[k] < t->values[k - 1]; k--) {
            mlsys_value v = t->values[k];
            char *name = t->names[k];
            t->values[k] = t->values[k - 1], t->names[k] = t->names[k - 1];
            t->values[k - 1] = v, t->names[k - 1] = name;
        }
}

/* The model's tensor in f32. */
static mlsys_status start_weight(tuning *t, int i) {
    mlsys_tensor w = NULL;
    mlsys_dtype dtype;
    mlsys_config c = NULL;
    int32_t block = 1;
    mlsys_status st = mlsys_model_tensor(t->model, t->names[i], &w);
    if (st == MLSYS_OK) st = mlsys_tensor_dtype(w, &dtype);
    if (st == MLSYS_OK) st = mlsys_dtype_info(dtype, &block, NULL, NULL);
    if (st == MLSYS_OK) st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "dtype", "f32");
    if (st == MLSYS_OK)
        st = mlsys_op_run(t->stream, block > 1 ? "dequantize" : "cast", 1, &w, c, 1, &t->start[i]);
    mlsys_release(c);
    mlsys_release(w);
    return st;
}

/* A is random, of spread 1 / sqrt(its inputs), and B zero: b a is zero, but B's gradient is not. */
static mlsys_status start_adapter(tuning *t, int i, unsigned long seed) {
    mlsys_dim shape[2];
    void *data;
    uint64_t bytes;
    int half_b = !strcmp(strrchr(t->names[i], '.'), ".lora_b");
    TRY(mlsys_graph_type(t->g, t->values[i], NULL, 2, shape, NULL));
    TRY(mlsys_tensor_create(t->cpu, MLSYS_F32, 2, shape, &t->start[i]));
    if (!half_b) TRY(mlsys_tensor_random(t->start[i], t->stream, "normal", seed, (uint64_t)i));
    TRY(mlsys_tensor_data(t->start[i], &data, &bytes));
    if (half_b) memset(data, 0, bytes);
    float *p = data, spread = (float)(1 / sqrt((double)shape[1]));
    for (uint64_t k = 0; k < bytes / sizeof *p && !half_b; k++)
        p[k] *= spread;
    return MLSYS_OK;
}

mlsys_status tuning_build(tuning *t, unsigned long seed) {
    TRY(training_graph(t));
    TRY(add_loss(t));
    TRY(take_inputs(t));
    sort_inputs(t);
    for (int i = 0; i < t->n; i++)
        TRY(t->rank ? start_adapter(t, i, seed) : start_weight(t, i));
    return MLSYS_OK;
}

/* ---- the result --------------------------------------------------------------------------------- */

mlsys_status tuning_result(const tuning *t, mlsys_trainer trainer, mlsys_model *out) {
    mlsys_tensor *now = calloc((size_t)t->n + 1, sizeof *now);
    mlsys_config c = NULL;
    if (!now) return mlsys_set_error(MLSYS_E_NOMEM, "no memory");
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "lora_alpha", t->alpha);
    for (int i = 0; i < t->n && st == MLSYS_OK; i++)
        st = mlsys_trainer_tensor(trainer, t->names[i], &now[i]);
    if (st == MLSYS_OK)
        st = mlsys_model_adapt(t->model, t->n, (const char *const *)t->names, now, c, out);
    for (int i = 0; i < t->n; i++)
        mlsys_release(now[i]);
    free(now);
    mlsys_release(c);
    return st;
}

void tuning_release(tuning *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->names[i]);
        mlsys_release(t->start[i]);
    }
    free(t->names);
    free(t->values);
    free(t->start);
    mlsys_release(t->g);
}
