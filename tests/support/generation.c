#include "support/generation.h"

#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tiny_path(char path[64]) {
    snprintf(path, 64, "/tmp/mlsys-generation-%ld.gguf", (long)getpid());
}

void generation_open_tiny(generation_world *w, const mlsys_hooks *hooks) {
    char path[64];
    tiny_path(path);
    ck_assert_int_eq(tiny_model_write(path), 0);
    generation_open(w, path, hooks);
}

void generation_close_tiny(generation_world *w) {
    char path[64];
    tiny_path(path);
    generation_close(w);
    unlink(path);
}

void generation_expect(mlsys_status got, mlsys_status want, const char *part) {
    if (got != want || !strstr(mlsys_last_error(), part))
        ck_abort_msg("%s \"%s\", expected %s with \"%s\"", mlsys_status_name(got),
                     mlsys_last_error(), mlsys_status_name(want), part);
}

int64_t generation_tokens(mlsys_generator g) { return (int64_t)generation_stat(g, "tokens"); }

void generation_open(generation_world *w, const char *path, const mlsys_hooks *hooks) {
    mlsys_config c;
    memset(w, 0, sizeof *w);
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_i64(c, "threads", 2));
    check_ok(mlsys_ctx_create(c, hooks, &w->ctx));
    check_ok(mlsys_release(c));
    check_ok(mlsys_device_get(w->ctx, MLSYS_CPU, 0, &w->device));
    check_ok(mlsys_stream_create(w->device, NULL, &w->stream));
    check_ok(mlsys_model_open(w->ctx, path, NULL, &w->model));
}

void generation_close(generation_world *w) {
    check_ok(mlsys_release(w->model));
    check_ok(mlsys_release(w->stream));
    check_ok(mlsys_release(w->device));
    check_ok(mlsys_release(w->ctx));
}

mlsys_config generation_config(const generation_option *options) {
    mlsys_config c;
    check_ok(mlsys_config_create(&c));
    for (const generation_option *o = options; o && o->key; o++) {
        if (o->text)
            check_ok(mlsys_config_set_str(c, o->key, o->text));
        else if (o->real)
            check_ok(mlsys_config_set_f64(c, o->key, o->number));
        else
            check_ok(mlsys_config_set_i64(c, o->key, (int64_t)o->number));
    }
    return c;
}

mlsys_generator generation_create(const generation_world *w, const generation_option *options) {
    mlsys_generator g;
    mlsys_config c = generation_config(options);
    check_ok(mlsys_generator_create(w->model, w->stream, c, &g));
    check_ok(mlsys_release(c));
    return g;
}

int32_t generation_step(mlsys_generator g, generation *out) {
    static char text[MLSYS_GENERATOR_TEXT];
    int32_t id;
    uint64_t need;
    check_ok(mlsys_generator_next(g, &id, text, sizeof text, &need));
    REQUIRE(need >= 1 && text[need - 1] == 0 && out->len + need <= sizeof out->text);
    memcpy(out->text + out->len, text, need);
    out->len += need - 1;
    if (id < 0) {
        ck_assert_int_eq(id, -1);
        out->ended = 1;
    } else {
        REQUIRE(out->n < GENERATION_MAX);
        out->ids[out->n++] = id;
    }
    return id;
}

void generation_run(mlsys_generator g, int max, generation *out) {
    out->n = out->ended = 0;
    out->len = 0;
    out->text[0] = 0;
    while (out->n < max && generation_step(g, out) >= 0) {
    }
}

double generation_stat(mlsys_generator g, const char *name) {
    double v;
    check_ok(mlsys_generator_stat(g, name, &v));
    return v;
}

void generation_equal(const generation *a, const generation *b, const char *what) {
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->ids[i] != b->ids[i])
            ck_abort_msg("%s: token %d is %d and %d", what, i, a->ids[i], b->ids[i]);
    if (a->n != b->n) ck_abort_msg("%s: %d and %d tokens", what, a->n, b->n);
    if (a->ended != b->ended) ck_abort_msg("%s: only one of the two ended", what);
    if (a->len != b->len || memcmp(a->text, b->text, a->len))
        ck_abort_msg("%s: texts differ: \"%s\" and \"%s\"", what, a->text, b->text);
}
