#include "api/api.h"
#include "core/ctx.h"
#include "model/model.h"
#include "model/tokenizer.h"

#include <string.h>

static void tokenizer_destroy(mlsi_object *self) { mlsi_tokenizer_free((mlsi_tokenizer *)self); }

mlsys_status mlsys_model_tokenizer(mlsys_model m, mlsys_tokenizer *out) {
    API_COMPUTES;
    API_OUT_HANDLE(out, "model_tokenizer: out");
    mlsi_model *model;
    mlsi_tokenizer *t;
    MLSI_TRY(mlsi_pin(m, MLSYS_KIND_MODEL, "model_tokenizer: m", &model));
    mlsi_ctx *ctx = model->object.ctx;
    mlsys_status st = mlsi_tokenizer_from_gguf(&ctx->alloc, model->gguf, &t);
    if (st == MLSYS_OK) {
        st =
            mlsi_handle_create((mlsi_object *)t, MLSYS_KIND_TOKENIZER, ctx, tokenizer_destroy, out);
        if (st != MLSYS_OK) mlsi_tokenizer_free(t);
    } else {
        st = mlsi_fail_in(st, "model_tokenizer");
    }
    mlsi_unpin(model);
    return st;
}

static mlsys_status check_flags(int32_t flags, int32_t known, const char *what) {
    if (!(flags & ~known)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "%s: flags: %d has bits outside %d", what, flags, known);
}

mlsys_status mlsys_tokenizer_encode(mlsys_tokenizer t, const char *text, uint64_t bytes,
                                    int32_t flags, int32_t *ids, uint64_t cap, uint64_t *need) {
    API_COMPUTES;
    if (bytes) API_NOT_NULL(text, "tokenizer_encode: text");
    if (cap) API_NOT_NULL(ids, "tokenizer_encode: ids");
    MLSI_TRY(check_flags(flags, MLSI_ENCODE_ADD | MLSI_TOKENS_SPECIAL, "tokenizer_encode"));
    mlsi_tokenizer *tok;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TOKENIZER, "tokenizer_encode: t", &tok));
    mlsi_ids all;
    mlsi_ids_init(&all, &((mlsi_object *)tok)->ctx->alloc);
    mlsys_status st = mlsi_tokenizer_encode(tok, text, bytes, flags, &all);
    if (st == MLSYS_OK) {
        uint64_t n = (uint64_t)all.n, fits = n < cap ? n : cap;
        if (need) *need = n;
        if (fits) memcpy(ids, all.data, fits * sizeof *ids);
        if (n > cap && (cap || !need)) /* (NULL, 0, &need) only asks for the count */
            st = mlsi_fail(MLSYS_E_BUFFER, "tokenizer_encode: %llu ids, the buffer holds %llu",
                           (unsigned long long)n, (unsigned long long)cap);
    }
    mlsi_ids_free(&all);
    mlsi_unpin(tok);
    return st;
}

mlsys_status mlsys_tokenizer_decode(mlsys_tokenizer t, const int32_t *ids, uint64_t n,
                                    int32_t flags, char *buf, uint64_t cap, uint64_t *need) {
    API_TEXT(buf, cap, "tokenizer_decode");
    if (n) API_NOT_NULL(ids, "tokenizer_decode: ids");
    MLSI_TRY(check_flags(flags, MLSI_TOKENS_SPECIAL, "tokenizer_decode"));
    mlsi_tokenizer *tok;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TOKENIZER, "tokenizer_decode: t", &tok));
    mlsi_text text;
    mlsi_text_init(&text, &((mlsi_object *)tok)->ctx->alloc);
    mlsys_status st = mlsi_tokenizer_decode(tok, ids, n, flags, &text);
    if (st == MLSYS_OK)
        st = mlsi_text_out(&text, buf, cap, need);
    else
        mlsi_text_free(&text);
    mlsi_unpin(tok);
    return st;
}

mlsys_status mlsys_tokenizer_vocab(mlsys_tokenizer t, int32_t *size) {
    API_NOT_NULL(size, "tokenizer_vocab: size");
    mlsi_tokenizer *tok;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TOKENIZER, "tokenizer_vocab: t", &tok));
    *size = mlsi_tokenizer_size(tok);
    mlsi_unpin(tok);
    return MLSYS_OK;
}

mlsys_status mlsys_tokenizer_id(mlsys_tokenizer t, const char *name, int32_t *out) {
    API_NOT_NULL(name, "tokenizer_id: name");
    API_NOT_NULL(out, "tokenizer_id: out");
    mlsi_tokenizer *tok;
    MLSI_TRY(mlsi_pin(t, MLSYS_KIND_TOKENIZER, "tokenizer_id: t", &tok));
    *out = mlsi_tokenizer_find(tok, name, strlen(name));
    mlsi_unpin(tok);
    if (*out >= 0) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_NOTFOUND, "tokenizer_id: no token reads \"%.100s\"", name);
}
