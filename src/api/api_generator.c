#include "api/api.h"
#include "engine/generator.h"

#include <string.h>

_Static_assert(MLSYS_GENERATOR_TEXT == MLSI_TOKEN_MAX_BYTES + MLSI_STREAM_HELD + 1,
               "a text buffer holds the longest token after the longest unfinished character");

mlsys_status mlsys_generator_create(mlsys_model model, mlsys_stream stream, mlsys_config config,
                                    mlsys_generator *out) {
    API_COMPUTES;
    mlsi_model *m;
    mlsi_stream *s = NULL;
    mlsi_config *c = NULL;
    API_OUT_HANDLE(out, "generator_create: out");
    MLSI_TRY(mlsi_pin(model, MLSYS_KIND_MODEL, "generator_create: m", &m));
    mlsys_status st = mlsi_pin(stream, MLSYS_KIND_STREAM, "generator_create: stream", &s);
    if (st == MLSYS_OK) st = mlsi_api_same_ctx(&m->object, &s->object, "generator_create: stream");
    if (st == MLSYS_OK && config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "generator_create: config", &c);
    if (st == MLSYS_OK) st = mlsi_generator_create(m, s, c, out);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(s);
    mlsi_unpin(m);
    return st;
}

mlsys_status mlsys_generator_chat(mlsys_generator generator, const char *system, const char *user) {
    API_COMPUTES;
    mlsi_generator *g;
    API_NOT_NULL(user, "generator_chat: user");
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_chat: g", &g));
    mlsys_status st = mlsi_generator_chat(g, system, user);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_append(mlsys_generator generator, const char *text) {
    API_COMPUTES;
    mlsi_generator *g;
    API_NOT_NULL(text, "generator_append: text");
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_append: g", &g));
    mlsys_status st = mlsi_generator_append_text(g, text, strlen(text));
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_append_ids(mlsys_generator generator, const int32_t *ids, uint64_t n) {
    API_COMPUTES;
    mlsi_generator *g;
    if (n) API_NOT_NULL(ids, "generator_append_ids: ids");
    if (n > INT32_MAX)
        return mlsi_fail(MLSYS_E_ARG, "generator_append_ids: n is %llu", (unsigned long long)n);
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_append_ids: g", &g));
    mlsys_status st = mlsi_generator_append(g, ids, (int64_t)n);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_next(mlsys_generator generator, int32_t *id, char *buf, uint64_t cap,
                                  uint64_t *need) {
    API_COMPUTES;
    mlsi_generator *g;
    mlsi_text text;
    API_NOT_NULL(id, "generator_next: id");
    API_TEXT(buf, cap, "generator_next");
    *id = -1;
    if (cap < MLSYS_GENERATOR_TEXT) {
        if (need) *need = MLSYS_GENERATOR_TEXT;
        if (cap) buf[0] = 0;
        return mlsi_fail(MLSYS_E_BUFFER, "generator_next: cap %llu is below %d",
                         (unsigned long long)cap, MLSYS_GENERATOR_TEXT);
    }
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_next: g", &g));
    mlsi_text_init(&text, &g->object.ctx->alloc);
    mlsys_status st = mlsi_generator_next(g, id, &text);
    if (st == MLSYS_OK) mlsi_text_add(&text, "%s", ""); /* an empty text is a text */
    if (st == MLSYS_OK)
        st = mlsi_text_out(&text, buf, cap, need);
    else
        mlsi_text_free(&text);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_logits(mlsys_generator generator, float *out, uint64_t count) {
    API_COMPUTES;
    mlsi_generator *g;
    float *logits;
    API_NOT_NULL(out, "generator_logits: out");
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_logits: g", &g));
    mlsys_status st = MLSYS_OK;
    if (count != (uint64_t)g->vocab)
        st = mlsi_fail(MLSYS_E_ARG, "generator_logits: count %llu, the vocabulary has %lld",
                       (unsigned long long)count, (long long)g->vocab);
    if (st == MLSYS_OK) st = mlsi_generator_evaluate(g);
    if (st == MLSYS_OK) st = mlsi_generator_read_logits(g, &logits);
    if (st == MLSYS_OK) memcpy(out, logits, sizeof *out * (size_t)count);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_stat(mlsys_generator generator, const char *name, double *out) {
    mlsi_generator *g;
    API_NOT_NULL(name, "generator_stat: name");
    API_NOT_NULL(out, "generator_stat: out");
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_stat: g", &g));
    mlsys_status st = mlsi_generator_stat(g, name, out);
    mlsi_unpin_exclusive(g);
    return st;
}

mlsys_status mlsys_generator_rewind(mlsys_generator generator, int64_t n) {
    mlsi_generator *g;
    MLSI_TRY(mlsi_pin_exclusive(generator, MLSYS_KIND_GENERATOR, "generator_rewind: g", &g));
    mlsys_status st = MLSYS_OK;
    if (n < 0 || n > g->n_history)
        st = mlsi_fail(MLSYS_E_ARG, "generator_rewind: n is %lld, the context holds %lld",
                       (long long)n, (long long)g->n_history);
    else
        mlsi_generator_rewind(g, n);
    mlsi_unpin_exclusive(g);
    return st;
}
