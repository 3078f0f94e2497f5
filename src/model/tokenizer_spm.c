/* SentencePiece-style BPE: symbols start as characters, and the pair whose joint text is the token
 * of the highest score is merged first. */
#include "model/tokenizer_impl.h"
#include "model/utf8.h"

/* Merges never reach across a place where no token can lie, so the text is cut there and the parts
 * are done one by one, with the same result: before a space after a byte that no token has before a
 * space. */
void mlsi_spm_build(mlsi_tokenizer *t) {
    for (int32_t id = 0; id < t->n; id++) {
        mlsi_bytes b = mlsi_token_bytes(t, id);
        for (uint64_t i = 1; !t->literal[id] && i < b.len; i++)
            if (b.data[i] == ' ') t->inner_space[(unsigned char)b.data[i - 1]] = true;
    }
}

/* Scores as priorities: the order of floats, turned round, as unsigned integers below UINT32_MAX.
 */
static uint32_t priority_of(float score) {
    union {
        float f;
        uint32_t u;
    } v = {score + 0.0f}; /* -0 is 0 */
    uint32_t ascending = v.u >> 31 ? ~v.u : v.u | 0x80000000u;
    return ~ascending; /* finite scores: never 0 or UINT32_MAX */
}

static void find_joint(const mlsi_encode *e, const char *word, int32_t i) {
    const mlsi_tokenizer *t = e->t;
    mlsi_symbol *s = &e->symbols[i];
    s->priority = UINT32_MAX;
    if (s->next < 0) return;
    uint32_t len = (uint32_t)(s->len + e->symbols[s->next].len);
    if (len > t->max_plain) return;
    int32_t id = mlsi_token_find(t, &t->plain, word + s->start, len);
    if (id < 0) return;
    s->merged = id;
    s->priority = priority_of(t->scores[id]);
}

static mlsys_status encode_part(mlsi_encode *e, const char *p, uint64_t n) {
    const mlsi_tokenizer *t = e->t;
    MLSI_TRY(MLSI_GROW(e->alloc, &e->symbols, &e->symbols_cap, (int64_t)n));
    int32_t count = 0;
    for (uint64_t i = 0; i < n; count++) {
        uint32_t cp;
        int len = mlsi_utf8_decode(p + i, n - i, &cp);
        if (!len) len = 1; /* not UTF-8: a symbol of one byte */
        e->symbols[count] =
            (mlsi_symbol){.prev = count - 1,
                          .next = count + 1,
                          .start = (int32_t)i,
                          .len = len,
                          .id = mlsi_token_find(t, &t->plain, p + i, (uint64_t)len)};
        i += (uint64_t)len;
    }
    e->symbols[count - 1].next = -1;
    MLSI_TRY(mlsi_merge_symbols(e, count, find_joint, p));
    for (int32_t i = 0; i >= 0; i = e->symbols[i].next) {
        const mlsi_symbol *s = &e->symbols[i];
        if (s->id >= 0) {
            MLSI_TRY(mlsi_ids_push(e->out, s->id));
            continue;
        }
        for (int32_t k = 0; k < s->len; k++)
            MLSI_TRY(mlsi_encode_byte(e, (unsigned char)p[s->start + k]));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_spm_encode(mlsi_encode *e, const char *text, uint64_t n) {
    const mlsi_tokenizer *t = e->t;
    MLSI_TRY(MLSI_GROW(e->alloc, &e->buffer, &e->buffer_cap, (int64_t)n + 1));
    char *p = e->buffer;
    uint64_t len = 0;
    if (t->add_space_prefix && e->after_added) p[len++] = ' ';
    for (uint64_t i = 0;
         i < n;) { /* the mark of a space in the text is a space, as in the vocabulary */
        bool mark = n - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3);
        p[len++] = mark ? ' ' : text[i];
        i += mark ? 3 : 1;
    }
    for (uint64_t i = 0, end; i < len; i = end) {
        for (end = i + 1; end < len; end++)
            if (p[end] == ' ' && !t->inner_space[(unsigned char)p[end - 1]]) break;
        MLSI_TRY(mlsi_encode_word(e, p + i, end - i, encode_part));
    }
    return MLSYS_OK;
}
