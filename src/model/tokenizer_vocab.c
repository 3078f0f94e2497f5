/* The vocabulary: checks of the metadata arrays, the bytes of each token, lookup by bytes. */
#include "model/tokenizer_impl.h"
#include "model/utf8.h"

#include "core/hash.h"

#include <math.h>

#define KEY "tokenizer.ggml."

uint32_t mlsi_token_hash(const char *p, uint64_t n) {
    uint64_t h = n * 0x9e3779b97f4a7c15ull, w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    for (w = 0; n; n--)
        w = w << 8 | (unsigned char)p[n - 1];
    return (uint32_t)(mlsi_hash_mix(h ^ w) >> 32);
}

int32_t mlsi_token_find(const mlsi_tokenizer *t, const mlsi_token_table *table, const char *p,
                        uint64_t n) {
    uint32_t hash = mlsi_token_hash(p, n);
    for (uint64_t i = hash;; i++) {
        mlsi_token_slot slot = table->slots[i & table->mask];
        if (slot.id < 0) return -1;
        if (slot.hash != hash) continue;
        mlsi_bytes b = mlsi_token_bytes(t, slot.id);
        if (b.len == n && !memcmp(b.data, p, n)) return slot.id;
    }
}

static mlsys_status table_alloc(mlsi_tokenizer *t, mlsi_token_table *table, int64_t n) {
    uint64_t size = 16;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    MLSI_TRY(MLSI_NEW_N(t->alloc, size, &table->slots));
    for (uint64_t i = 0; i < size; i++)
        table->slots[i].id = -1;
    table->mask = size - 1;
    return MLSYS_OK;
}

/* Of two tokens with the same bytes the first is found. */
static mlsys_status table_put(mlsi_tokenizer *t, mlsi_token_table *table, int32_t id) {
    mlsi_bytes b = mlsi_token_bytes(t, id);
    uint32_t hash = mlsi_token_hash(b.data, b.len);
    for (uint64_t i = 0; i < MLSI_MAX_PROBES; i++) {
        mlsi_token_slot *slot = &table->slots[(hash + i) & table->mask];
        if (slot->id < 0) {
            *slot = (mlsi_token_slot){hash, id};
            return MLSYS_OK;
        }
        if (slot->hash != hash) continue;
        mlsi_bytes other = mlsi_token_bytes(t, slot->id);
        if (other.len == b.len && !memcmp(other.data, b.data, b.len)) return MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_FORMAT, KEY "tokens: more than %d tokens share a hash, up to token %d",
                     MLSI_MAX_PROBES, id);
}

/* ---- the byte map ---------------------------------------------------------------------------- */

/* Printable Latin-1 stands for itself; the 68 other bytes, in order, are U+0100, U+0101, ... */
static int byte_of_char(uint32_t cp) {
    if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xac) || (cp >= 0xae && cp <= 0xff))
        return (int)cp;
    if (cp < 0x100 || cp > 0x143) return -1;
    uint32_t k = cp - 0x100;
    return k < 33 ? (int)k : k < 67 ? (int)(k - 33 + 0x7f) : 0xad;
}

bool mlsi_byte_map_invert(const char *text, uint64_t len, char *out, uint64_t *n) {
    uint64_t k = 0;
    for (uint64_t i = 0; i < len;) {
        uint32_t cp;
        int step = mlsi_utf8_decode(text + i, len - i, &cp);
        int byte = step ? byte_of_char(cp) : -1;
        if (byte < 0) return false;
        out[k++] = (char)byte;
        i += (uint64_t)step;
    }
    *n = k;
    return true;
}

/* ---- bytes of tokens ------------------------------------------------------------------------- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* "<0x0A>" as its byte, -1 for other texts. */
static int byte_token(mlsi_bytes b) {
    if (b.len != 6 || memcmp(b.data, "<0x", 3) || b.data[5] != '>') return -1;
    int high = hex_digit(b.data[3]), low = hex_digit(b.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* U+2581, SentencePiece's mark of a space, as a space: everywhere, or at the start only. */
static uint64_t unmark_spaces(mlsi_bytes b, bool everywhere, char *out) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < b.len;) {
        if (b.len - i >= 3 && !memcmp(b.data + i, "\xe2\x96\x81", 3) && (everywhere || i == 0)) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = b.data[i++];
        }
    }
    return n;
}

static bool is_added(uint8_t type) {
    return type == MLSI_TOKEN_UNKNOWN || type == MLSI_TOKEN_CONTROL ||
           type == MLSI_TOKEN_USER_DEFINED;
}

/* Write the bytes that token id stands for at out. */
static mlsys_status token_bytes(mlsi_tokenizer *t, int32_t id, mlsi_bytes text, char *out,
                                uint64_t *n) {
    t->literal[id] = false;
    if (t->type[id] == MLSI_TOKEN_BYTE) {
        int byte = byte_token(text);
        if (byte < 0)
            return mlsi_fail(MLSYS_E_FORMAT,
                             KEY "tokens[%d]: a byte token reads \"%.*s\", not <0xNN>", id,
                             (int)(text.len < 40 ? text.len : 40), text.data);
        out[0] = (char)byte;
        *n = 1;
        return MLSYS_OK;
    }
    if (!is_added(t->type[id])) {
        if (t->kind != MLSI_TOKENIZER_BPE) {
            *n = unmark_spaces(text, t->kind == MLSI_TOKENIZER_SPM, out);
            return MLSYS_OK;
        }
        if (mlsi_byte_map_invert(text.data, text.len, out, n)) return MLSYS_OK;
    }
    t->literal[id] = true;
    if (text.len) memcpy(out, text.data, text.len);
    *n = text.len;
    return MLSYS_OK;
}

static mlsys_status check_arrays(const mlsi_vocab_source *s) {
    if (!s->n_tokens) return mlsi_fail(MLSYS_E_FORMAT, KEY "tokens: the vocabulary is empty");
    if (s->n_tokens > MLSI_VOCAB_MAX)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "tokens: %llu tokens, at most %d are taken",
                         (unsigned long long)s->n_tokens, MLSI_VOCAB_MAX);
    if (s->types && s->n_types != s->n_tokens)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "token_type: %llu entries for %llu tokens",
                         (unsigned long long)s->n_types, (unsigned long long)s->n_tokens);
    if (s->scores && s->n_scores != s->n_tokens)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "scores: %llu entries for %llu tokens",
                         (unsigned long long)s->n_scores, (unsigned long long)s->n_tokens);
    for (uint64_t i = 0; i < s->n_tokens; i++) {
        if (s->tokens[i].len > MLSI_TOKEN_MAX_BYTES)
            return mlsi_fail(MLSYS_E_FORMAT, KEY "tokens[%llu]: %llu bytes, at most %d are taken",
                             (unsigned long long)i, (unsigned long long)s->tokens[i].len,
                             MLSI_TOKEN_MAX_BYTES);
        if (s->types && (s->types[i] < 0 || s->types[i] > MLSI_TOKEN_BYTE))
            return mlsi_fail(MLSYS_E_FORMAT, KEY "token_type[%llu]: %d is not a token type",
                             (unsigned long long)i, s->types[i]);
        if (s->scores && !isfinite(s->scores[i]))
            return mlsi_fail(MLSYS_E_FORMAT, KEY "scores[%llu]: %g is not finite",
                             (unsigned long long)i, (double)s->scores[i]);
    }
    return MLSYS_OK;
}

static mlsys_status copy_tokens(mlsi_tokenizer *t, const mlsi_vocab_source *s) {
    uint64_t total = 0;
    for (int32_t i = 0; i < t->n; i++)
        total += s->tokens[i].len;
    if (total > UINT32_MAX)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "tokens: %llu bytes in all, at most %u are taken",
                         (unsigned long long)total, UINT32_MAX);
    MLSI_TRY(MLSI_NEW_N(t->alloc, total, &t->bytes));
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->n + 1, &t->start));
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->n, &t->type));
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->n, &t->literal));
    for (int32_t i = 0; i < t->n; i++) {
        uint64_t len;
        t->type[i] = s->types ? (uint8_t)s->types[i] : MLSI_TOKEN_NORMAL;
        MLSI_TRY(token_bytes(t, i, s->tokens[i], t->bytes + t->start[i], &len));
        t->start[i + 1] = t->start[i] + (uint32_t)len;
    }
    return MLSYS_OK;
}

static mlsys_status index_tokens(mlsi_tokenizer *t) {
    int64_t n_literal = 0;
    for (int32_t i = 0; i < t->n; i++)
        n_literal += t->literal[i];
    MLSI_TRY(table_alloc(t, &t->plain, t->n - n_literal));
    MLSI_TRY(table_alloc(t, &t->literals, n_literal));
    for (int b = 0; b < 256; b++)
        t->byte_id[b] = -1;
    for (int32_t i = 0; i < t->n; i++) {
        mlsi_bytes b = mlsi_token_bytes(t, i);
        if (t->type[i] == MLSI_TOKEN_BYTE) { /* spelled out when nothing else fits, never merged */
            unsigned char byte = (unsigned char)b.data[0];
            if (t->byte_id[byte] < 0) t->byte_id[byte] = i;
        } else if (b.len && !t->literal[i]) {
            MLSI_TRY(table_put(t, &t->plain, i));
            if (b.len > t->max_plain) t->max_plain = (uint32_t)b.len;
        } else if (b.len) {
            MLSI_TRY(table_put(t, &t->literals, i));
        }
    }
    if (t->kind == MLSI_TOKENIZER_BPE)
        for (int b = 0; b < 256; b++) {
            char one = (char)b;
            int32_t id = mlsi_token_find(t, &t->plain, &one, 1);
            if (id >= 0) t->byte_id[b] = id;
        }
    return MLSYS_OK;
}

mlsys_status mlsi_vocab_build(mlsi_tokenizer *t, const mlsi_vocab_source *s) {
    MLSI_TRY(check_arrays(s));
    t->n = (int32_t)s->n_tokens;
    if (t->kind == MLSI_TOKENIZER_SPM) {
        if (!s->scores)
            return mlsi_fail(MLSYS_E_FORMAT, KEY "scores: missing, and model \"llama\" needs it");
        MLSI_TRY(MLSI_NEW_N(t->alloc, t->n, &t->scores));
        memcpy(t->scores, s->scores, (uint64_t)t->n * sizeof *t->scores);
    }
    MLSI_TRY(copy_tokens(t, s));
    return index_tokens(t);
}

int32_t mlsi_tokenizer_find(const mlsi_tokenizer *t, const char *name, uint64_t len) {
    char key[MLSI_TOKEN_MAX_BYTES];
    if (!len || len > MLSI_TOKEN_MAX_BYTES) return -1;
    int32_t id = mlsi_token_find(t, &t->literals, name, len);
    if (id >= 0) return id;
    int byte = byte_token((mlsi_bytes){name, len});
    if (byte >= 0 && t->byte_id[byte] >= 0 && t->type[t->byte_id[byte]] == MLSI_TOKEN_BYTE)
        return t->byte_id[byte];
    uint64_t n = 0;
    if (t->kind == MLSI_TOKENIZER_BPE) {
        if (!mlsi_byte_map_invert(name, len, key, &n)) return -1;
    } else {
        n = unmark_spaces((mlsi_bytes){name, len}, t->kind == MLSI_TOKENIZER_SPM, key);
    }
    return mlsi_token_find(t, &t->plain, key, n);
}
