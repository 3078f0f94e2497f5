#include "support/training.h"

#include "core/sha256.h"
#include "train/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tn_names[TR_PARAMS] = {"w0", "b0", "w1", "b1"};

static mlsys_value op(training *t, const char *name, int32_t n, const mlsys_value *in) {
    mlsys_value out;
    OK(mlsys_graph_op(t->g, name, n, in, NULL, 1, &out));
    return out;
}

static mlsys_value op2(training *t, const char *name, mlsys_value a, mlsys_value b) {
    const mlsys_value in[2] = {a, b};
    return op(t, name, 2, in);
}

static void build(training *t) {
    static const int64_t shapes[TR_PARAMS][2] = {
        {TR_IN, TR_HIDDEN}, {TR_HIDDEN}, {TR_HIDDEN, TR_CLASSES}, {TR_CLASSES}};
    mlsys_dim batch, shape[2];
    mlsys_value x, labels, *p = t->params;
    OK(mlsys_graph_create(t->pc.ctx_handle, &t->g));
    OK(mlsys_graph_symbol(t->g, "B", 1, 1024, 1, &batch));
    shape[0] = batch, shape[1] = TR_IN;
    OK(mlsys_graph_input(t->g, "x", MLSYS_F32, 2, shape, &x));
    OK(mlsys_graph_input(t->g, "labels", MLSYS_I64, 1, &batch, &labels));
    kc_rng r = kc_seed(11);
    for (int i = 0; i < TR_PARAMS; i++) {
        int32_t rank = i % 2 ? 1 : 2;
        OK(mlsys_graph_input(t->g, tn_names[i], MLSYS_F32, rank, shapes[i], &p[i]));
        t->initial[i] = pc_tensor(&t->pc, MLSYS_F32, rank, shapes[i], NULL);
        mlsi_view v = rg_view(t->initial[i]);
        for (int64_t k = 0; k < mlsi_view_count(&v); k++)
            ((float *)v.data)[k] = (float)kc_uniform(&r, -0.5, 0.5);
    }
    mlsys_value h = op2(t, "add", op2(t, "matmul", x, p[0]), p[1]);
    h = op(t, "silu", 1, &h);
    mlsys_value logits = op2(t, "add", op2(t, "matmul", h, p[2]), p[3]);
    mlsys_value each = op2(t, "cross_entropy", logits, labels);
    t->loss = op(t, "reduce_mean", 1, &each);
}

void tn_open(training *t, int threads) { tn_open_hooks(t, threads, NULL); }

void tn_open_hooks(training *t, int threads, const mlsys_hooks *hooks) {
    memset(t, 0, sizeof *t);
    pc_open_hooks(&t->pc, threads, hooks);
    build(t);
}

void tn_close(training *t) {
    pc_release(TR_PARAMS, t->initial);
    OK(mlsys_release(t->g));
    pc_close(&t->pc);
}

mlsys_config tn_config(const char *settings) {
    mlsys_config c;
    char text[512], *save = NULL;
    int n;
    const mlsi_config_key *keys = mlsi_trainer_config_keys(&n);
    OK(mlsys_config_create(&c));
    snprintf(text, sizeof text, "%s", settings);
    for (char *s = strtok_r(text, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        char *value = strchr(s, '='), type = 's';
        *value++ = 0;
        for (int k = 0; k < n; k++)
            if (!strcmp(keys[k].name, s)) type = keys[k].type;
        if (type == 'i')
            OK(mlsys_config_set_i64(c, s, atoll(value)));
        else if (type == 'f')
            OK(mlsys_config_set_f64(c, s, strtod(value, NULL)));
        else
            OK(mlsys_config_set_str(c, s, value));
    }
    return c;
}

mlsys_trainer tn_create(training *t, const char *settings) {
    mlsys_trainer out;
    mlsys_config c = tn_config(settings);
    OK(mlsys_trainer_create(t->g, t->loss, TR_PARAMS, t->params, t->initial, t->pc.stream, c,
                            &out));
    OK(mlsys_release(c));
    return out;
}

void tn_batch(training *t, int64_t number, int64_t n, mlsys_tensor in[2]) {
    const int64_t shape[2] = {n, TR_IN};
    kc_rng r = kc_seed(1000 + (uint64_t)number);
    in[0] = pc_tensor(&t->pc, MLSYS_F32, 2, shape, NULL);
    in[1] = pc_tensor(&t->pc, MLSYS_I64, 1, shape, NULL);
    float *x = rg_view(in[0]).data;
    int64_t *label = rg_view(in[1]).data;
    for (int64_t i = 0; i < n; i++) {
        int most = 0;
        for (int k = 0; k < TR_IN; k++) {
            float *at = &x[i * TR_IN + k];
            *at = (float)kc_uniform(&r, -1, 1);
            if (k<TR_CLASSES && * at> x[i * TR_IN + most]) most = k;
        }
        label[i] = most; /* the largest of the first numbers: can be learnt */
    }
}

double tn_steps(training *t, mlsys_trainer trainer, int64_t first, int64_t last) {
    double loss = 0;
    for (int64_t i = first; i < last; i++) {
        mlsys_tensor in[2];
        tn_batch(t, i, 16, in);
        OK(mlsys_trainer_step(trainer, 2, in, &loss));
        pc_release(2, in);
    }
    return loss;
}

double tn_stat(mlsys_trainer trainer, const char *name) {
    double value;
    OK(mlsys_trainer_stat(trainer, name, &value));
    return value;
}

static void add(mlsys_trainer trainer, const char *name, mlsi_sha256 *sha) {
    mlsys_tensor t;
    OK(mlsys_trainer_tensor(trainer, name, &t));
    mlsi_view v = rg_view(t);
    mlsi_sha256_add(sha, v.data, mlsi_view_bytes(&v));
    OK(mlsys_release(t));
}

static void finish(mlsi_sha256 *sha, char hash[65]) {
    uint8_t digest[32];
    mlsi_sha256_finish(sha, digest);
    mlsi_sha256_hex(digest, hash);
}

void tn_hash_of(mlsys_trainer trainer, const char *name, char hash[65]) {
    mlsi_sha256 sha;
    mlsi_sha256_init(&sha);
    add(trainer, name, &sha);
    finish(&sha, hash);
}

void tn_hash(mlsys_trainer trainer, char hash[65]) {
    mlsi_sha256 sha;
    mlsi_sha256_init(&sha);
    for (int i = 0; i < TR_PARAMS; i++)
        add(trainer, tn_names[i], &sha);
    finish(&sha, hash);
}
