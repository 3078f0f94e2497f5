/* Small vocabularies for tests of tokenizers, written as GGUF metadata has them. */
#ifndef MLSI_TESTS_VOCAB_H
#define MLSI_TESTS_VOCAB_H

#include "model/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_TOKENS = 4096, VOCAB_MERGES = 4096, VOCAB_TEXT = 1 << 18 };

/* Too large for a stack: keep it static. */
typedef struct test_vocab {
    mlsi_bytes tokens[VOCAB_TOKENS], merges[VOCAB_MERGES];
    int32_t types[VOCAB_TOKENS];
    float scores[VOCAB_TOKENS];
    mlsi_vocab_source source;
    size_t used;
    char text[VOCAB_TEXT]; /* what tokens and merges point into */
} test_vocab;

static inline mlsi_bytes test_bytes_of(const char *s) { return (mlsi_bytes){s, strlen(s)}; }

static inline void vocab_init(test_vocab *v, const char *model) {
    mlsi_vocab_source_init(&v->source);
    v->used = 0;
    v->source.model = test_bytes_of(model);
    v->source.tokens = v->tokens;
    v->source.types = v->types;
    if (!strcmp(model, "llama")) v->source.scores = v->scores;
    if (!strcmp(model, "gpt2")) {
        v->source.merges = v->merges;
        v->source.pre = test_bytes_of("gpt-2");
    }
}

static inline mlsi_bytes vocab_keep(test_vocab *v, const char *s, size_t len) {
    char *p = v->text + v->used;
    if (len + 1 > sizeof v->text - v->used) exit(99);
    memcpy(p, s, len);
    p[len] = 0;
    v->used += len + 1;
    return (mlsi_bytes){p, len};
}

static inline int32_t vocab_add_n(test_vocab *v, const char *text, size_t len, int32_t type,
                                  float score) {
    uint64_t i = v->source.n_tokens++;
    if (i >= VOCAB_TOKENS) exit(99);
    v->tokens[i] = vocab_keep(v, text, len);
    v->types[i] = type;
    v->scores[i] = score;
    v->source.n_types = v->source.n_tokens;
    if (v->source.scores) v->source.n_scores = v->source.n_tokens;
    return (int32_t)i;
}

static inline int32_t vocab_add(test_vocab *v, const char *text, int32_t type, float score) {
    return vocab_add_n(v, text, strlen(text), type, score);
}

static inline int32_t vocab_find(const test_vocab *v, const char *text, size_t len) {
    for (uint64_t i = 0; i < v->source.n_tokens; i++)
        if (v->tokens[i].len == len && !memcmp(v->tokens[i].data, text, len)) return (int32_t)i;
    return -1;
}

/* The character that byte-level BPE writes for a byte, as UTF-8; its length. */
static inline int byte_char(unsigned char byte, char out[3]) {
    unsigned cp = byte, k = 0;
    if (byte <= 0x20) k = byte;
    if (byte >= 0x7f && byte <= 0xa0) k = 33u + byte - 0x7f;
    if (byte == 0xad) k = 67;
    if (byte <= 0x20 || (byte >= 0x7f && byte <= 0xa0) || byte == 0xad) cp = 0x100 + k;
    out[2] = 0;
    if (cp < 0x80) {
        out[0] = (char)cp;
        out[1] = 0;
        return 1;
    }
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
}

/* Tokens 0 to 255: the bytes. */
static inline void vocab_add_bytes(test_vocab *v) {
    char c[3];
    for (int b = 0; b < 256; b++) {
        byte_char((unsigned char)b, c);
        vocab_add(v, c, MLSI_TOKEN_NORMAL, 0);
    }
}

/* "left right": a merge, and its token where it is new. */
static inline int32_t vocab_merge(test_vocab *v, const char *pair) {
    char joint[256];
    const char *space = strchr(pair + 1, ' ');
    if (v->source.n_merges >= VOCAB_MERGES || !space) exit(99);
    v->merges[v->source.n_merges++] = vocab_keep(v, pair, strlen(pair));
    snprintf(joint, sizeof joint, "%.*s%s", (int)(space - pair), pair, space + 1);
    int32_t id = vocab_find(v, joint, strlen(joint));
    return id >= 0 ? id : vocab_add(v, joint, MLSI_TOKEN_NORMAL, 0);
}

/* ---- an allocator that gives out so many blocks ------------------------------------------------
 */

typedef struct vocab_budget {
    int64_t left;
} vocab_budget;

static inline void *vocab_limited_alloc(void *user, mlsys_devtype type, int32_t index,
                                        uint64_t bytes, uint64_t align) {
    vocab_budget *b = user;
    void *p = NULL;
    (void)type, (void)index;
    if (b->left-- <= 0) return NULL;
    return posix_memalign(&p, align, bytes) ? NULL : p;
}
static inline void vocab_limited_free(void *user, mlsys_devtype type, int32_t index, void *p,
                                      uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    free(p);
}
static inline mlsys_hooks vocab_limited_hooks(vocab_budget *b) {
    return (mlsys_hooks){.size = sizeof(mlsys_hooks),
                         .user = b,
                         .alloc = vocab_limited_alloc,
                         .dealloc = vocab_limited_free};
}

#endif
