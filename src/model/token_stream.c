#include "model/token_stream.h"
#include "model/tokenizer_impl.h"
#include "model/utf8.h"

#include "core/faults.h"

void mlsi_token_stream_init(mlsi_token_stream *s, const mlsi_tokenizer *t, int32_t flags,
                            bool at_start) {
    *s = (mlsi_token_stream){.t = t, .flags = flags, .drop_space = at_start};
}

/* Room for n more bytes and a NUL; the text stays NUL-ended without them. */
static mlsys_status reserve(mlsi_text *out, uint64_t n) {
    if (out->st != MLSYS_OK) return out->st;
    MLSI_TRY(MLSI_GROW(out->alloc, &out->data, &out->cap, out->len + (int64_t)n + 1));
    out->data[out->len] = 0;
    return MLSYS_OK;
}

static void append(mlsi_text *out, const char *p, uint64_t n) {
    if (n) memcpy(out->data + out->len, p, n);
    out->len += (int64_t)n;
    out->data[out->len] = 0;
}

/* What id adds to the text; updates the rule for spaces. */
static mlsi_bytes piece(const mlsi_token_stream *s, int32_t id, bool *drop_space) {
    const mlsi_tokenizer *t = s->t;
    mlsi_bytes b = mlsi_token_bytes(t, id);
    int type = t->type[id];
    bool hidden = type == MLSI_TOKEN_CONTROL || type == MLSI_TOKEN_UNKNOWN;
    if (hidden && !(s->flags & MLSI_TOKENS_SPECIAL)) return (mlsi_bytes){b.data, 0};
    if (hidden || type == MLSI_TOKEN_USER_DEFINED) {
        /* encode puts a space after every added token */
        *drop_space = t->kind == MLSI_TOKENIZER_SPM;
        return b;
    }
    if (!b.len) return b;
    bool spaced = t->add_space_prefix || t->kind == MLSI_TOKENIZER_WORDPIECE;
    if (*drop_space && spaced && b.data[0] == ' ' && type != MLSI_TOKEN_BYTE) {
        b.data++;
        b.len--;
    }
    *drop_space = false;
    return b;
}

mlsys_status mlsi_token_stream_next(mlsi_token_stream *s, int32_t id, mlsi_text *out) {
    if (id < 0 || id >= s->t->n)
        return mlsi_fail(MLSYS_E_ARG, "token_stream: id %d is outside [0,%d)", id, s->t->n);
    bool drop_space = s->drop_space;
    mlsi_bytes b = piece(s, id, &drop_space);
    MLSI_TRY(reserve(out, b.len + (uint64_t)s->n_held));
    s->drop_space = drop_space;
    if (!b.len) return MLSYS_OK;
    append(out, s->held, (uint64_t)s->n_held);
    append(out, b.data, b.len);
    uint64_t fresh = b.len + (uint64_t)s->n_held;
    s->n_held = mlsi_utf8_incomplete_tail(out->data + out->len - fresh, fresh);
    if (mlsi_fault(MLSI_FAULT_STREAM_TAIL)) s->n_held = 0;
    out->len -= s->n_held;
    memcpy(s->held, out->data + out->len, (uint64_t)s->n_held);
    out->data[out->len] = 0;
    return MLSYS_OK;
}

mlsys_status mlsi_token_stream_finish(mlsi_token_stream *s, mlsi_text *out) {
    MLSI_TRY(reserve(out, (uint64_t)s->n_held));
    append(out, s->held, (uint64_t)s->n_held);
    s->n_held = 0;
    return MLSYS_OK;
}
