#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- weights ----------------------------------------------------------------------------------- */

static void add_weight(gpt *m, int layer, const char *part, int64_t rows, int64_t columns,
                       double spread, float start) {
    gpt_weight *w = &m->weights[m->n++];
    if (layer < 0)
        snprintf(w->name, sizeof w->name, "%s", part);
    else
        snprintf(w->name, sizeof w->name, "h%d.%s", layer, part);
    w->rank = columns ? 2 : 1;
    w->shape[0] = rows;
    w->shape[1] = columns;
    w->spread = spread;
    w->start = start;
}

/* W [out, in] and its bias. What ends in the residual sum starts smaller, the more layers add to it. */
static void add_linear(gpt *m, int layer, const char *part, int64_t out, int64_t in,
                       double spread) {
    char name[24];
    snprintf(name, sizeof name, "%s.weight", part);
    add_weight(m, layer, name, out, in, spread, 0);
    snprintf(name, sizeof name, "%s.bias", part);
    add_weight(m, layer, name, out, 0, 0, 0);
}

static void add_norm(gpt *m, int layer, const char *part) {
    char name[24];
    snprintf(name, sizeof name, "%s.weight", part);
    add_weight(m, layer, name, m->width, 0, 0, 1);
    snprintf(name, sizeof name, "%s.bias", part);
    add_weight(m, layer, name, m->width, 0, 0, 0);
}

int gpt_init(gpt *m, int64_t layers, int64_t heads, int64_t width, int64_t context) {
    memset(m, 0, sizeof *m);
    if (layers < 1 || layers > GPT_MAX_LAYERS || heads < 1 || width < 1 || width > 1 << 14 ||
        width % heads || context < 2 || context > 1 << 14)
        return 0;
    m->layers = layers, m->heads = heads, m->width = width, m->context = context;
    double inner = 0.02, last = 0.02 / sqrt(2 * (double)layers);
    add_weight(m, -1, "token_table", GPT_VOCAB, width, 0.02, 0);
    add_weight(m, -1, "place_table", context, width, 0.02, 0);
    for (int i = 0; i < layers; i++) {
        add_norm(m, i, "norm1");
        add_linear(m, i, "query", width, width, inner);
        add_linear(m, i, "key", width, width, inner);
        add_linear(m, i, "value", width, width, inner);
        add_linear(m, i, "project", width, width, last);
        add_norm(m, i, "norm2");
        add_linear(m, i, "up", 4 * width, width, inner);
        add_linear(m, i, "down", width, 4 * width, last);
    }
    add_norm(m, -1, "norm");
    return 1;
}

/* ---- a builder that remembers its first failure, so that the model reads like its formula -------- */

typedef struct builder {
    const gpt *m;
    mlsys_graph g;
    mlsys_status st;
    mlsys_dim batch, length;
    mlsys_value weights[GPT_MAX_WEIGHTS];
    int32_t used; /* weights are taken in the order of the list */
} builder;

/* An op with at most one attribute, which attrs holds and this releases. */
static mlsys_value op(builder *b, const char *name, int32_t n, const mlsys_value *in,
                      mlsys_config attrs) {
    mlsys_value out = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_op(b->g, name, n, in, attrs, 1, &out);
    mlsys_release(attrs);
    return out;
}
static mlsys_value op2(builder *b, const char *name, mlsys_value x, mlsys_value y) {
    mlsys_value in[2] = {x, y};
    return op(b, name, 2, in, NULL);
}
static mlsys_config attrs(builder *b) {
    mlsys_config c = NULL;
    if (b->st == MLSYS_OK) b->st = mlsys_config_create(&c);
    return c;
}
static mlsys_config list(builder *b, const char *key, int32_t n, const int64_t *v) {
    mlsys_config c = attrs(b);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_i64s(c, key, n, v);
    return c;
}
static mlsys_config text(builder *b, const char *key, const char *value) {
    mlsys_config c = attrs(b);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_str(c, key, value);
    return c;
}
static mlsys_value input(builder *b, const char *name, mlsys_dtype dtype, int32_t rank,
                         const mlsys_dim *shape) {
    mlsys_value v = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_input(b->g, name, dtype, rank, shape, &v);
    return v;
}
static mlsys_value next_weight(builder *b) { return b->weights[b->used++]; }

/* ---- the model ---------------------------------------------------------------------------------- */

static mlsys_value times_transposed(builder *b, mlsys_value x, mlsys_value w) {
    mlsys_value in[2] = {x, w};
    mlsys_config c = attrs(b);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_i64(c, "transpose_b", 1);
    return op(b, "matmul", 2, in, c);
}

/* x W^T + bias */
static mlsys_value linear(builder *b, mlsys_value x) {
    mlsys_value y = times_transposed(b, x, next_weight(b));
    return op2(b, "add", y, next_weight(b));
}

static mlsys_value norm(builder *b, mlsys_value x) {
    mlsys_value in[3] = {x};
    in[1] = next_weight(b);
    in[2] = next_weight(b);
    return op(b, "layer_norm", 3, in, NULL);
}

static mlsys_value attend(builder *b, mlsys_value x) {
    const mlsys_dim heads[4] = {b->batch, b->length, b->m->heads, b->m->width / b->m->heads};
    const mlsys_dim flat[3] = {b->batch, b->length, b->m->width};
    mlsys_value qkv[3];
    for (int i = 0; i < 3; i++) {
        mlsys_value y = linear(b, x);
        qkv[i] = op(b, "reshape", 1, &y, list(b, "shape", 4, heads));
    }
    mlsys_value o = op(b, "attention", 3, qkv, text(b, "causal", "top_left"));
    return linear(b, op(b, "reshape", 1, &o, list(b, "shape", 3, flat)));
}

static mlsys_value feed_forward(builder *b, mlsys_value x) {
    mlsys_value y = linear(b, x);
    return linear(b, op(b, "gelu", 1, &y, NULL));
}

static mlsys_value embed(builder *b, mlsys_value table, mlsys_value ids) {
    return op2(b, "embedding", table, ids);
}

/* Logits [B, L, 256], or only of the last place. */
static mlsys_value logits(builder *b, mlsys_value tokens, int last_only) {
    const int64_t from[3] = {0, -1, 0}, to[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
    mlsys_value table = next_weight(b);
    mlsys_config count = list(b, "shape", 1, &b->length);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_str(count, "dtype", "i32");
    mlsys_value places = embed(b, next_weight(b), op(b, "iota", 0, NULL, count));
    mlsys_value x = op2(b, "add", embed(b, table, tokens), places);
    for (int64_t i = 0; i < b->m->layers; i++) {
        x = op2(b, "add", x, attend(b, norm(b, x)));
        x = op2(b, "add", x, feed_forward(b, norm(b, x)));
    }
    if (last_only) {
        mlsys_config range = list(b, "starts", 3, from);
        if (b->st == MLSYS_OK) b->st = mlsys_config_set_i64s(range, "stops", 3, to);
        x = op(b, "slice", 1, &x, range);
    }
    return times_transposed(b, norm(b, x), table);
}

/* ---- the two graphs ----------------------------------------------------------------------------- */

static void begin(builder *b, const gpt *m, mlsys_ctx ctx) {
    memset(b, 0, sizeof *b);
    b->m = m;
    b->st = mlsys_graph_create(ctx, &b->g);
}

static mlsys_value inputs(builder *b) {
    const mlsys_dim shape[2] = {b->batch, b->length};
    mlsys_value tokens = input(b, "tokens", MLSYS_I32, 2, shape);
    for (int32_t i = 0; i < b->m->n; i++)
        b->weights[i] = input(b, b->m->weights[i].name, MLSYS_F32, b->m->weights[i].rank,
                              b->m->weights[i].shape);
    return tokens;
}

static mlsys_status finish(builder *b, const char *name, mlsys_value v, mlsys_graph *out) {
    if (b->st == MLSYS_OK) b->st = mlsys_graph_output(b->g, name, v);
    *out = b->g;
    if (b->st == MLSYS_OK) return MLSYS_OK;
    mlsys_release(b->g);
    *out = NULL;
    return b->st;
}

mlsys_status gpt_loss_graph(const gpt *m, mlsys_ctx ctx, int64_t batch, mlsys_graph *out,
                            mlsys_value *weights, mlsys_value *loss) {
    builder b;
    begin(&b, m, ctx);
    b.batch = batch;
    b.length = m->context;
    const mlsys_dim shape[2] = {b.batch, b.length};
    mlsys_value tokens = inputs(&b);
    mlsys_value targets = input(&b, "targets", MLSYS_I32, 2, shape);
    mlsys_value rows = op2(&b, "cross_entropy", logits(&b, tokens, 0), targets);
    *loss = op(&b, "reduce_mean", 1, &rows, NULL);
    memcpy(weights, b.weights, sizeof *weights * (size_t)m->n);
    return finish(&b, "loss", *loss, out);
}

mlsys_status gpt_next_graph(const gpt *m, mlsys_ctx ctx, mlsys_graph *out) {
    builder b;
    begin(&b, m, ctx);
    b.batch = 1;
    if (b.st == MLSYS_OK) b.st = mlsys_graph_symbol(b.g, "L", 1, m->context, 1, &b.length);
    mlsys_value tokens = inputs(&b);
    return finish(&b, "logits", logits(&b, tokens, 1), out);
}
