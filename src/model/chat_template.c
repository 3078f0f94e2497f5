#include "model/chat_template.h"
#include "model/gguf.h"
#include "model/tokenizer_impl.h"

#define KEY "tokenizer.chat_template"

struct mlsi_chat_template {
    mlsi_alloc *alloc;
    mlsi_jinja *jinja;
    mlsi_bytes bos, eos;
    char tokens[]; /* their bytes */
};

mlsys_status mlsi_chat_template_create(mlsi_alloc *a, mlsi_bytes source, mlsi_bytes bos,
                                       mlsi_bytes eos, mlsi_chat_template **out) {
    mlsi_chat_template *c;
    *out = NULL;
    if (bos.len > MLSI_TOKEN_MAX_BYTES || eos.len > MLSI_TOKEN_MAX_BYTES)
        return mlsi_fail(MLSYS_E_ARG, "chat template: a begin or end token of more than %d bytes",
                         MLSI_TOKEN_MAX_BYTES);
    MLSI_TRY(mlsi_mem_zalloc(a, 1, sizeof *c + bos.len + eos.len, (void **)&c));
    c->alloc = a;
    if (bos.len) memcpy(c->tokens, bos.data, bos.len);
    if (eos.len) memcpy(c->tokens + bos.len, eos.data, eos.len);
    c->bos = (mlsi_bytes){c->tokens, bos.len};
    c->eos = (mlsi_bytes){c->tokens + bos.len, eos.len};
    mlsys_status st = mlsi_jinja_create(a, "chat template", source.data, source.len, &c->jinja);
    if (st != MLSYS_OK) {
        mlsi_chat_template_free(c);
        return st;
    }
    *out = c;
    return MLSYS_OK;
}

static mlsi_bytes token_text(const mlsi_tokenizer *t, mlsi_vocab_id which) {
    int32_t id = mlsi_tokenizer_special(t, which);
    return id < 0 ? (mlsi_bytes){"", 0} : mlsi_tokenizer_piece(t, id);
}

mlsys_status mlsi_chat_template_from_gguf(mlsi_alloc *a, const mlsi_gguf *g,
                                          const mlsi_tokenizer *t, mlsi_chat_template **out) {
    mlsi_gguf_str s;
    *out = NULL;
    if (!mlsi_gguf_find(g, KEY))
        return mlsi_fail(MLSYS_E_NOTFOUND, "%s: the model has no " KEY, g->file);
    MLSI_TRY(mlsi_gguf_get_str(g, KEY, &s));
    mlsys_status st =
        mlsi_chat_template_create(a, (mlsi_bytes){s.data, s.len}, token_text(t, MLSI_VOCAB_BOS),
                                  token_text(t, MLSI_VOCAB_EOS), out);
    return st == MLSYS_OK ? st : mlsi_fail_in(st, "%s", g->file);
}

void mlsi_chat_template_free(mlsi_chat_template *c) {
    if (!c) return;
    mlsi_jinja_free(c->jinja);
    mlsi_mem_free(c->alloc, c);
}

static mlsi_jinja_value string_of(mlsi_bytes b) { return mlsi_jinja_string(b.data, b.len); }

static mlsys_status put_messages(mlsi_arena *a, mlsi_jinja_value globals,
                                 const mlsi_chat_message *messages, int64_t n) {
    mlsi_jinja_value list, message;
    MLSI_TRY(mlsi_jinja_list_new(a, &list));
    for (int64_t i = 0; i < n; i++) {
        const mlsi_chat_message *m = &messages[i];
        if (m->role.len > INT32_MAX || m->content.len > INT32_MAX)
            return mlsi_fail(MLSYS_E_ARG, "chat template: message %lld has more than 2^31 bytes",
                             (long long)i);
        MLSI_TRY(mlsi_jinja_dict_new(a, &message));
        MLSI_TRY(mlsi_jinja_dict_put(a, message, "role", string_of(m->role)));
        MLSI_TRY(mlsi_jinja_dict_put(a, message, "content", string_of(m->content)));
        MLSI_TRY(mlsi_jinja_list_add(a, list, message));
    }
    return mlsi_jinja_dict_put(a, globals, "messages", list);
}

static mlsys_status put_variables(mlsi_arena *a, mlsi_jinja_value globals, const char *json) {
    mlsi_jinja_value more;
    MLSI_TRY(mlsi_jinja_from_json(a, json, strlen(json), &more));
    if (more.type != MLSI_JINJA_DICT)
        return mlsi_fail(MLSYS_E_ARG, "chat template: variables must be a JSON object");
    for (int64_t i = 0; i < more.dict->n; i++)
        MLSI_TRY(mlsi_jinja_dict_set(a, globals, more.dict->keys[i], more.dict->values[i]));
    return MLSYS_OK;
}

static mlsys_status render(const mlsi_chat_template *c, mlsi_arena *a,
                           const mlsi_chat_message *messages, int64_t n, bool add_generation_prompt,
                           const char *variables, mlsi_text *out) {
    mlsi_jinja_value globals;
    MLSI_TRY(mlsi_jinja_dict_new(a, &globals));
    MLSI_TRY(put_messages(a, globals, messages, n));
    MLSI_TRY(mlsi_jinja_dict_put(a, globals, "add_generation_prompt",
                                 mlsi_jinja_bool(add_generation_prompt)));
    MLSI_TRY(mlsi_jinja_dict_put(a, globals, "bos_token", string_of(c->bos)));
    MLSI_TRY(mlsi_jinja_dict_put(a, globals, "eos_token", string_of(c->eos)));
    if (variables) MLSI_TRY(put_variables(a, globals, variables));
    return mlsi_jinja_render(c->jinja, globals, NULL, out);
}

mlsys_status mlsi_chat_template_render(const mlsi_chat_template *c,
                                       const mlsi_chat_message *messages, int64_t n,
                                       bool add_generation_prompt, const char *variables,
                                       mlsi_text *out) {
    mlsi_arena arena;
    mlsi_arena_init(&arena, c->alloc);
    mlsys_status st = render(c, &arena, messages, n, add_generation_prompt, variables, out);
    mlsi_arena_free(&arena);
    return st;
}

bool mlsi_chat_has_special(const mlsi_tokenizer *t, mlsi_bytes text) {
    uint64_t at = 0, len = 0;
    for (uint64_t from = 0; from < text.len; from = at + len) {
        int32_t id = mlsi_added_find(t, text.data, text.len, from, true, &at, &len);
        if (id < 0) return false;
        if (mlsi_tokenizer_type(t, id) != MLSI_TOKEN_USER_DEFINED) return true;
    }
    return false;
}
