#include "network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A builder that remembers its first failure, so that a network reads like its formula. */
typedef struct builder {
    mlsys_graph g;
    mlsys_status st;
    mlsys_dim batch;
} builder;

static mlsys_value op(builder *b, const char *name, int32_t n, const mlsys_value *in,
                      mlsys_config attrs) {
    mlsys_value out = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_op(b->g, name, n, in, attrs, 1, &out);
    if (attrs) mlsys_release(attrs);
    return out;
}
static mlsys_value op1(builder *b, const char *name, mlsys_value x) {
    return op(b, name, 1, &x, NULL);
}
static mlsys_value op2(builder *b, const char *name, mlsys_value x, mlsys_value y) {
    mlsys_value in[2] = {x, y};
    return op(b, name, 2, in, NULL);
}
static mlsys_config list(builder *b, const char *key, int32_t n, const int64_t *v) {
    mlsys_config c = NULL;
    if (b->st == MLSYS_OK) b->st = mlsys_config_create(&c);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_i64s(c, key, n, v);
    return c;
}
static mlsys_value reshape(builder *b, mlsys_value x, int32_t rank, const mlsys_dim *shape) {
    return op(b, "reshape", 1, &x, list(b, "shape", rank, shape));
}
static mlsys_value input(builder *b, const char *name, mlsys_dtype t, int32_t rank,
                         const mlsys_dim *shape) {
    mlsys_value out = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_input(b->g, name, t, rank, shape, &out);
    return out;
}

/* ---- the two networks ---------------------------------------------------------------------- */

static void add_parameter(network *n, int rank, const int64_t *shape, double spread) {
    parameter *p = &n->parameters[n->n];
    snprintf(p->name, sizeof p->name, "%s%d", n->n % 2 ? "bias" : "weight", n->n / 2);
    n->n++;
    p->rank = rank;
    memcpy(p->shape, shape, sizeof *shape * (size_t)rank);
    p->spread = spread;
}

/* Weights with He's spread for the inputs of one unit, then a bias of zeros. */
static void add_layer(network *n, int rank, const int64_t *shape, int64_t units, double inputs) {
    add_parameter(n, rank, shape, sqrt(2 / inputs));
    if (rank == 2) /* dense: [in, units], and [units] */
        add_parameter(n, 1, &units, 0);
    else /* convolution: [units, in, 3, 3], and [units, 1, 1] */
        add_parameter(n, 3, (const int64_t[]){units, 1, 1}, 0);
}

int network_of(const char *name, int64_t side, network *out) {
    memset(out, 0, sizeof *out);
    out->name = name;
    out->side = side;
    out->classes = 10;
    out->rate = 0.0015;
    if (!strcmp(name, "mlp")) {
        add_layer(out, 2, (const int64_t[]){side * side, 512}, 512, (double)(side * side));
        add_layer(out, 2, (const int64_t[]){512, 256}, 256, 512);
        add_layer(out, 2, (const int64_t[]){256, 10}, 10, 256);
        return 1;
    }
    if (strcmp(name, "conv") || side % 4) return 0;
    int64_t flat = 64 * (side / 4) * (side / 4);
    out->rate = 0.002;
    out->mirrored = 1;
    add_layer(out, 4, (const int64_t[]){32, 1, 3, 3}, 32, 9);
    add_layer(out, 4, (const int64_t[]){64, 32, 3, 3}, 64, 9 * 32);
    add_layer(out, 2, (const int64_t[]){flat, 128}, 128, (double)flat);
    add_layer(out, 2, (const int64_t[]){128, 10}, 10, 128);
    return 1;
}

static mlsys_value dense(builder *b, mlsys_value x, const mlsys_value *p) {
    return op2(b, "add", op2(b, "matmul", x, p[0]), p[1]);
}

/* 3x3, same extent, ReLU, then the maximum of 2x2. */
static mlsys_value conv_layer(builder *b, mlsys_value x, const mlsys_value *p) {
    const int64_t ones[4] = {1, 1, 1, 1}, twos[2] = {2, 2};
    mlsys_value in[2] = {x, p[0]};
    x = op2(b, "add", op(b, "conv", 2, in, list(b, "pads", 4, ones)), p[1]);
    x = op1(b, "relu", x);
    mlsys_config window = list(b, "kernel", 2, twos);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_i64s(window, "strides", 2, twos);
    return op(b, "pool", 1, &x, window);
}

static mlsys_value logits(builder *b, const network *n, mlsys_value images, const mlsys_value *p) {
    mlsys_config as_float = NULL;
    mlsys_value x = images, level = 0;
    if (b->st == MLSYS_OK) b->st = mlsys_config_create(&as_float);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_str(as_float, "dtype", "f32");
    x = op(b, "cast", 1, &x, as_float);
    mlsys_config unit = list(b, "shape", 0, NULL);
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_str(unit, "dtype", "f32");
    if (b->st == MLSYS_OK) b->st = mlsys_config_set_f64(unit, "value", 1.0 / 255);
    level = op(b, "full", 0, NULL, unit);
    x = op2(b, "mul", x, level);
    if (!strcmp(n->name, "mlp")) {
        const mlsys_dim flat[2] = {b->batch, n->side * n->side};
        x = op1(b, "relu", dense(b, reshape(b, x, 2, flat), p));
        x = op1(b, "relu", dense(b, x, p + 2));
        return dense(b, x, p + 4);
    }
    const mlsys_dim plane[4] = {b->batch, 1, n->side, n->side};
    const mlsys_dim flat[2] = {b->batch, n->parameters[4].shape[0]};
    x = conv_layer(b, reshape(b, x, 4, plane), p);
    x = conv_layer(b, x, p + 2);
    x = op1(b, "relu", dense(b, reshape(b, x, 2, flat), p + 4));
    return dense(b, x, p + 6);
}

/* ---- graphs -------------------------------------------------------------------------------- */

static builder begin(const network *n, mlsys_ctx ctx, mlsys_value *images) {
    builder b = {0};
    b.st = mlsys_graph_create(ctx, &b.g);
    if (b.st == MLSYS_OK) b.st = mlsys_graph_symbol(b.g, "B", 1, 4096, 1, &b.batch);
    const mlsys_dim shape[3] = {b.batch, n->side, n->side};
    *images = input(&b, "images", MLSYS_U8, 3, shape);
    return b;
}

static mlsys_status finish(builder *b, mlsys_graph *out) {
    *out = b->g;
    if (b->st == MLSYS_OK) return MLSYS_OK;
    mlsys_release(b->g);
    *out = NULL;
    return b->st;
}

static void parameter_inputs(builder *b, const network *n, mlsys_value *out) {
    for (int i = 0; i < n->n; i++) {
        const parameter *p = &n->parameters[i];
        out[i] = input(b, p->name, MLSYS_F32, p->rank, p->shape);
    }
}

mlsys_status network_loss(const network *n, mlsys_ctx ctx, mlsys_graph *out, mlsys_value *loss,
                          mlsys_value *parameters) {
    mlsys_value images;
    builder b = begin(n, ctx, &images);
    mlsys_value labels = input(&b, "labels", MLSYS_I64, 1, &b.batch);
    parameter_inputs(&b, n, parameters);
    *loss =
        op1(&b, "reduce_mean", op2(&b, "cross_entropy", logits(&b, n, images, parameters), labels));
    return finish(&b, out);
}

mlsys_status network_classes(const network *n, mlsys_ctx ctx, mlsys_graph *out) {
    mlsys_value images, w[MAX_PARAMETERS];
    builder b = begin(n, ctx, &images);
    parameter_inputs(&b, n, w);
    mlsys_value classes = op1(&b, "argmax", logits(&b, n, images, w));
    if (b.st == MLSYS_OK) b.st = mlsys_graph_output(b.g, "classes", classes);
    return finish(&b, out);
}

mlsys_status network_trained(const network *n, mlsys_ctx ctx, const mlsys_tensor *weights,
                             mlsys_graph *out) {
    mlsys_value images, w[MAX_PARAMETERS];
    builder b = begin(n, ctx, &images);
    for (int i = 0; i < n->n && b.st == MLSYS_OK; i++)
        b.st = mlsys_graph_const(b.g, weights[i], &w[i]);
    mlsys_value scores = logits(&b, n, images, w);
    mlsys_value classes = op1(&b, "argmax", scores);
    if (b.st == MLSYS_OK) b.st = mlsys_graph_output(b.g, "scores", scores);
    if (b.st == MLSYS_OK) b.st = mlsys_graph_output(b.g, "classes", classes);
    return finish(&b, out);
}
