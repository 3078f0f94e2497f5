/* The vocabulary of a GGUF file as plain arrays. */
#include "model/gguf.h"
#include "model/tokenizer.h"

#include <string.h>

#define KEY "tokenizer.ggml."

typedef struct arrays { /* what the source borrows, from the allocator */
    mlsi_bytes *tokens, *merges;
    float *scores;
    int32_t *types;
} arrays;

static bool is_absent(const mlsi_gguf *g, const char *key) { return !mlsi_gguf_find(g, key); }

static mlsys_status read_bytes(const mlsi_gguf *g, const char *key, mlsi_bytes *out) {
    mlsi_gguf_str s;
    if (is_absent(g, key)) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_str(g, key, &s));
    *out = (mlsi_bytes){s.data, s.len};
    return MLSYS_OK;
}

static mlsys_status read_strs(mlsi_alloc *a, const mlsi_gguf *g, const char *key, mlsi_bytes **out,
                              uint64_t *n) {
    mlsi_gguf_array array;
    if (is_absent(g, key)) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_array(g, key, MLSI_GGUF_STR, &array));
    MLSI_TRY(MLSI_NEW_N(a, array.count, out));
    for (uint64_t i = 0; i < array.count; i++) {
        mlsi_gguf_str s = mlsi_gguf_array_str(&array, i);
        (*out)[i] = (mlsi_bytes){s.data, s.len};
    }
    *n = array.count;
    return MLSYS_OK;
}

static mlsys_status read_scores(mlsi_alloc *a, const mlsi_gguf *g, arrays *own,
                                mlsi_vocab_source *s) {
    mlsi_gguf_array array;
    if (is_absent(g, KEY "scores")) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_array(g, KEY "scores", MLSI_GGUF_TYPES, &array));
    if (array.type != MLSI_GGUF_F32 && array.type != MLSI_GGUF_I32)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: " KEY "scores: elements are %s, must be f32 or i32",
                         g->file, mlsi_gguf_type_name(array.type));
    MLSI_TRY(MLSI_NEW_N(a, array.count, &own->scores));
    for (uint64_t i = 0; i < array.count; i++)
        own->scores[i] = (float)mlsi_gguf_array_f64(&array, i);
    s->scores = own->scores;
    s->n_scores = array.count;
    return MLSYS_OK;
}

static mlsys_status read_types(mlsi_alloc *a, const mlsi_gguf *g, arrays *own,
                               mlsi_vocab_source *s) {
    mlsi_gguf_array array;
    if (is_absent(g, KEY "token_type")) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_array(g, KEY "token_type", MLSI_GGUF_TYPES, &array));
    if (array.type != MLSI_GGUF_I32 && array.type != MLSI_GGUF_U32)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: " KEY "token_type: elements are %s, must be i32",
                         g->file, mlsi_gguf_type_name(array.type));
    MLSI_TRY(MLSI_NEW_N(a, array.count, &own->types));
    for (uint64_t i = 0; i < array.count; i++)
        own->types[i] = mlsi_gguf_array_i32(&array, i);
    s->types = own->types;
    s->n_types = array.count;
    return MLSYS_OK;
}

static mlsys_status read_id(const mlsi_gguf *g, const char *key, int64_t *out) {
    if (is_absent(g, key)) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_i64(g, key, out));
    if (*out < 0)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: %s: %lld is not a token", g->file, key,
                         (long long)*out);
    return MLSYS_OK;
}

static mlsys_status read_flag(const mlsi_gguf *g, const char *key, int8_t *out) {
    bool value;
    if (is_absent(g, key)) return MLSYS_OK;
    MLSI_TRY(mlsi_gguf_get_bool(g, key, &value));
    *out = value;
    return MLSYS_OK;
}

static mlsys_status read_source(mlsi_alloc *a, const mlsi_gguf *g, arrays *own,
                                mlsi_vocab_source *s) {
    mlsi_vocab_source_init(s);
    if (is_absent(g, KEY "model") || is_absent(g, KEY "tokens"))
        return mlsi_fail(MLSYS_E_NOTFOUND, "%s: no vocabulary: " KEY "%s is missing", g->file,
                         is_absent(g, KEY "model") ? "model" : "tokens");
    MLSI_TRY(read_bytes(g, KEY "model", &s->model));
    MLSI_TRY(read_bytes(g, KEY "pre", &s->pre));
    MLSI_TRY(read_strs(a, g, KEY "tokens", &own->tokens, &s->n_tokens));
    s->tokens = own->tokens;
    MLSI_TRY(read_strs(a, g, KEY "merges", &own->merges, &s->n_merges));
    s->merges = own->merges;
    MLSI_TRY(read_scores(a, g, own, s));
    MLSI_TRY(read_types(a, g, own, s));
    for (int i = 0; i < MLSI_VOCAB_IDS; i++)
        MLSI_TRY(read_id(g, mlsi_vocab_id_key((mlsi_vocab_id)i), &s->ids[i]));
    MLSI_TRY(read_flag(g, KEY "add_bos_token", &s->add_bos));
    MLSI_TRY(read_flag(g, KEY "add_eos_token", &s->add_eos));
    MLSI_TRY(read_flag(g, KEY "add_space_prefix", &s->add_space_prefix));
    MLSI_TRY(read_flag(g, "tokenizer.ggml.normalizer.lowercase", &s->lowercase));
    return read_flag(g, "tokenizer.ggml.normalizer.strip_accents", &s->strip_accents);
}

mlsys_status mlsi_tokenizer_from_gguf(mlsi_alloc *a, const mlsi_gguf *g, mlsi_tokenizer **out) {
    arrays own = {0};
    mlsi_vocab_source source;
    *out = NULL;
    mlsys_status st = read_source(a, g, &own, &source);
    if (st == MLSYS_OK && (st = mlsi_tokenizer_create(a, &source, out)) != MLSYS_OK)
        st = mlsi_fail_in(st, "%s", g->file);
    mlsi_mem_free(a, own.tokens);
    mlsi_mem_free(a, own.merges);
    mlsi_mem_free(a, own.scores);
    mlsi_mem_free(a, own.types);
    return st;
}
