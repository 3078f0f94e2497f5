#include "support/trained_model.h"

#include "support/objects.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mlsys_value op(mlsys_graph g, const char *name, int32_t n, const mlsys_value *in) {
    mlsys_value out;
    check_ok(mlsys_graph_op(g, name, n, in, NULL, 1, &out));
    return out;
}

/* The f32 values that a weight of the model starts from. */
static mlsys_tensor weight_of(const trained_model *t, mlsys_model m, const char *name) {
    mlsys_tensor w, out = NULL;
    mlsys_config c;
    mlsys_dtype dtype;
    check_ok(mlsys_model_tensor(m, name, &w));
    check_ok(mlsys_tensor_dtype(w, &dtype));
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_str(c, "dtype", "f32"));
    check_ok(
        mlsys_op_run(t->w->stream, dtype >= MLSYS_Q4_0 ? "dequantize" : "cast", 1, &w, c, 1, &out));
    check_ok(mlsys_release(c));
    check_ok(mlsys_release(w));
    return out;
}

static float *floats(mlsys_tensor t) {
    void *p;
    check_ok(mlsys_tensor_data(t, &p, NULL));
    return p;
}

/* The input of this name, if the graph has it, becomes the next of params. */
static void declare(trained_model *t, mlsys_model m, const char *name, int zero_b) {
    trained_param *p = &t->params[t->n];
    mlsys_value v;
    if (mlsys_graph_find(t->g, name, &v) != MLSYS_OK) return;
    REQUIRE(t->n < TRAINED_MAX && strlen(name) < sizeof p->name);
    strcpy(p->name, name);
    check_ok(mlsys_graph_type(t->g, v, NULL, 2, p->shape, &p->rank));
    p->count = p->shape[0] * (p->rank == 2 ? p->shape[1] : 1);
    t->n++;
    if (strstr(name, ".weight")) {
        p->t = weight_of(t, m, name);
        return;
    }
    check_ok(mlsys_tensor_create(t->w->device, MLSYS_F32, p->rank, p->shape, &p->t));
    check_ok(mlsys_tensor_random(p->t, t->w->stream, "normal", 3, (uint64_t)t->n));
    for (int64_t i = 0; i < p->count; i++)
        floats(p->t)[i] *= zero_b && strstr(name, ".lora_b") ? 0 : 0.05f;
}

/* In the order of the header's promise. */
static void declare_all(trained_model *t, mlsys_model m, int zero_b) {
    static const char *const parts[] = {
        "attn_norm",    "attn_q",      "attn_k",      "attn_v",
        "attn_q_norm",  "attn_k_norm", "attn_output", "post_attention_norm",
        "ffn_norm",     "ffn_gate",    "ffn_up",      "ffn_down",
        "post_ffw_norm"};
    static const char *const suffixes[] = {"weight", "lora_a", "lora_b"};
    char name[64];
    declare(t, m, "token_embd.weight", zero_b);
    for (int layer = 0; layer < 64; layer++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            for (int k = 0; k < 3; k++) {
                snprintf(name, sizeof name, "blk.%d.%s.%s", layer, parts[i], suffixes[k]);
                declare(t, m, name, zero_b);
            }
    declare(t, m, "output_norm.weight", zero_b);
    declare(t, m, "output.weight", zero_b);
    declare(t, m, "output.lora_a", zero_b);
    declare(t, m, "output.lora_b", zero_b);
}

static void add_step(trained_model *t) {
    mlsys_value in[2], x[TRAINED_MAX], dx[TRAINED_MAX];
    mlsys_dim shape[2];
    check_ok(mlsys_graph_find(t->g, "tokens", &in[1]));
    check_ok(mlsys_graph_type(t->g, in[1], NULL, 2, shape, NULL));
    check_ok(mlsys_graph_input(t->g, "targets", MLSYS_I32, 2, shape, &in[1]));
    check_ok(mlsys_graph_find(t->g, "logits", &in[0]));
    mlsys_value rows = op(t->g, "cross_entropy", 2, in);
    t->loss = op(t->g, "reduce_mean", 1, &rows);
    for (int i = 0; i < t->n; i++)
        check_ok(mlsys_graph_find(t->g, t->params[i].name, &x[i]));
    check_ok(mlsys_graph_gradient(t->g, 1, &t->loss, NULL, t->n, x, NULL, dx));
    check_ok(mlsys_graph_output(t->g, "loss", t->loss));
    for (int i = 0; i < t->n; i++) {
        REQUIRE(dx[i]);
        check_ok(mlsys_graph_output(t->g, NULL, dx[i]));
    }
}

void trained_create(trained_model *t, const generation_world *w, mlsys_model m,
                    const generation_option *options, const char *numerics, int zero_b, int step) {
    mlsys_config c = generation_config(options);
    mlsys_value logits;
    mlsys_dim shape[3];
    memset(t, 0, sizeof *t);
    t->w = w;
    check_ok(mlsys_config_set_str(c, "mode", "train"));
    check_ok(mlsys_model_graph(m, c, &t->g));
    check_ok(mlsys_release(c));
    check_ok(mlsys_graph_find(t->g, "logits", &logits));
    check_ok(mlsys_graph_type(t->g, logits, NULL, 3, shape, NULL));
    t->vocab = shape[2];
    declare_all(t, m, zero_b);
    if (step) add_step(t);
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_str(c, "numerics", numerics));
    check_ok(mlsys_graph_compile(t->g, w->device, c, &t->p));
    check_ok(mlsys_release(c));
}

void trained_release(trained_model *t) {
    for (int i = 0; i < t->n; i++)
        check_ok(mlsys_release(t->params[i].t));
    check_ok(mlsys_release(t->p));
    check_ok(mlsys_release(t->g));
}

static mlsys_tensor token_tensor(const trained_model *t, int64_t batch, int64_t length,
                                 const int32_t *tokens) {
    const int64_t shape[2] = {batch, length};
    mlsys_tensor out;
    check_ok(mlsys_tensor_create(t->w->device, MLSYS_I32, 2, shape, &out));
    check_ok(
        mlsys_tensor_write(out, t->w->stream, tokens, sizeof *tokens * (size_t)(batch * length)));
    return out;
}

void trained_logits(trained_model *t, int64_t batch, int64_t length, const int32_t *tokens,
                    float *out) {
    mlsys_tensor in[TRAINED_MAX + 1] = {token_tensor(t, batch, length, tokens)}, result = NULL;
    for (int i = 0; i < t->n; i++)
        in[1 + i] = t->params[i].t;
    check_ok(mlsys_program_run(t->p, t->w->stream, 1 + t->n, in, 1, &result));
    memcpy(out, floats(result), sizeof *out * (size_t)(batch * length * t->vocab));
    check_ok(mlsys_release(result));
    check_ok(mlsys_release(in[0]));
}

double trained_step(trained_model *t, int64_t length, const int32_t *tokens, float rate) {
    mlsys_tensor in[TRAINED_MAX + 2] = {token_tensor(t, 1, length, tokens)};
    mlsys_tensor out[TRAINED_MAX + 2] = {0};
    for (int i = 0; i < t->n; i++)
        in[1 + i] = t->params[i].t;
    in[1 + t->n] = token_tensor(t, 1, length, tokens + 1);
    check_ok(mlsys_program_run(t->p, t->w->stream, 2 + t->n, in, 2 + t->n, out));
    double loss = floats(out[1])[0];
    for (int i = 0; i < t->n; i++)
        for (int64_t k = 0; k < t->params[i].count; k++)
            floats(t->params[i].t)[k] -= rate * floats(out[2 + i])[k];
    for (int i = 0; i < 2 + t->n; i++)
        check_ok(mlsys_release(out[i]));
    check_ok(mlsys_release(in[0]));
    check_ok(mlsys_release(in[1 + t->n]));
    return loss;
}

mlsys_status trained_adapt(trained_model *t, mlsys_model m, double alpha, mlsys_model *out) {
    const char *names[TRAINED_MAX];
    mlsys_tensor tensors[TRAINED_MAX];
    mlsys_config c;
    for (int i = 0; i < t->n; i++) {
        names[i] = t->params[i].name;
        tensors[i] = t->params[i].t;
    }
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_f64(c, "lora_alpha", alpha));
    mlsys_status st = mlsys_model_adapt(m, t->n, names, tensors, c, out);
    check_ok(mlsys_release(c));
    return st;
}
