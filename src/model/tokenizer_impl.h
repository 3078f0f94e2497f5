/* Inside of the tokenizer: shared by tokenizer*.c only. */
#ifndef MLSI_TOKENIZER_IMPL_H
#define MLSI_TOKENIZER_IMPL_H

#include "model/tokenizer.h"

#include <string.h>

typedef enum mlsi_tokenizer_kind {
    MLSI_TOKENIZER_BPE,      /* symbols start as bytes; merges by rank inside regex words */
    MLSI_TOKENIZER_SPM,      /* symbols start as characters; merges by score over the whole text */
    MLSI_TOKENIZER_WORDPIECE /* greedy longest pieces of normalised words */
} mlsi_tokenizer_kind;

/* A set of byte strings, each with its id: open addressing over the vocabulary's own bytes. A
 * hostile vocabulary can make strings collide, so probing is bounded and creation fails past the
 * bound. */
typedef struct mlsi_token_slot {
    uint32_t hash;
    int32_t id; /* -1: empty */
} mlsi_token_slot;
typedef struct mlsi_token_table {
    mlsi_token_slot *slots;
    uint64_t mask;
} mlsi_token_table;
enum { MLSI_MAX_PROBES = 1024 };

/* Added tokens as a trie whose edges are hashed. */
typedef struct mlsi_added_edge {
    uint32_t node, child; /* child 0: empty slot, as the root is nobody's child */
    uint32_t byte;
} mlsi_added_edge;
typedef struct mlsi_added {
    mlsi_added_edge *edges;
    uint64_t mask;
    int32_t *id; /* by node: the token that ends here, or -1 */
    uint32_t n_nodes;
    bool first_user[256], first_any[256]; /* bytes that begin a user-defined, any added token */
} mlsi_added;

typedef struct mlsi_merge {
    uint32_t left, right; /* left = UINT32_MAX: empty slot */
    uint32_t rank;
    int32_t merged;
} mlsi_merge;
typedef struct mlsi_bpe {
    mlsi_merge *merges; /* by hash of the pair */
    uint64_t mask;
    bool ignore_merges; /* a word that is a token is that token */
    struct mlsi_pre *pre;
} mlsi_bpe;

struct mlsi_tokenizer {
    mlsi_object object;
    mlsi_alloc *alloc;
    mlsi_tokenizer_kind kind;
    int32_t n;
    int32_t ids[MLSI_VOCAB_IDS];
    bool add_bos, add_eos, add_space_prefix, lowercase, strip_accents;
    char *bytes;     /* what each token stands for, one after the other */
    uint32_t *start; /* n + 1 offsets into bytes */
    uint8_t *type;   /* mlsi_token_type */
    bool *literal;   /* bytes are the file's text: added tokens, and plain ones outside the map */
    float *scores;   /* SPM */
    mlsi_token_table plain;    /* by bytes: what text may become */
    mlsi_token_table literals; /* by bytes: everything else */
    uint32_t max_plain;        /* longest key of plain */
    int32_t byte_id[256];      /* the token of one byte, or -1 */
    mlsi_added added;
    mlsi_bpe bpe;
    bool inner_space[256]; /* SPM: some plain token has a space after this byte */
};

static inline mlsi_bytes mlsi_token_bytes(const mlsi_tokenizer *t, int32_t id) {
    return (mlsi_bytes){t->bytes + t->start[id], t->start[id + 1] - t->start[id]};
}

/* ---- vocabulary (tokenizer_vocab.c) ---------------------------------------------------------- */

mlsys_status mlsi_vocab_build(mlsi_tokenizer *t, const mlsi_vocab_source *s);
uint32_t mlsi_token_hash(const char *p, uint64_t n);
/* -1 when absent. */
int32_t mlsi_token_find(const mlsi_tokenizer *t, const mlsi_token_table *table, const char *p,
                        uint64_t n);
/* Byte-level BPE writes each byte as one printable character. The bytes of such a text; false when
 * a character is outside the map. out has room for len bytes. */
bool mlsi_byte_map_invert(const char *text, uint64_t len, char *out, uint64_t *n);

/* ---- added tokens (tokenizer_added.c) -------------------------------------------------------- */

mlsys_status mlsi_added_build(mlsi_tokenizer *t);
void mlsi_added_free(mlsi_tokenizer *t);
/* The first added token at or after from; its place and length. -1: none. special: control ones
 * too. */
int32_t mlsi_added_find(const mlsi_tokenizer *t, const char *text, uint64_t n, uint64_t from,
                        bool special, uint64_t *at, uint64_t *len);

/* ---- encoding -------------------------------------------------------------------------------- */

/* A min-heap of (priority << 32 | position); out-of-date entries are skipped when they come up. */
typedef struct mlsi_merge_heap {
    uint64_t *keys;
    int64_t n, cap;
} mlsi_merge_heap;

/* Working memory of one encode call. */
typedef struct mlsi_encode {
    const mlsi_tokenizer *t;
    mlsi_alloc *alloc;
    mlsi_ids *out;
    struct mlsi_word_slot *cache; /* NULL: none */
    bool after_added;             /* at the start of the text, or after an added token */
    struct mlsi_pre_match *pre;
    struct mlsi_symbol *symbols;
    int64_t symbols_cap;
    mlsi_merge_heap heap;
    char *buffer; /* normalised text */
    int64_t buffer_cap;
} mlsi_encode;

/* One symbol of a long word: a doubly linked list over an array. */
typedef struct mlsi_symbol {
    int32_t prev, next; /* -1: none */
    int32_t start, len; /* bytes of the word; len 0: merged into its left neighbour */
    int32_t id;         /* -1: no token */
    uint32_t priority;  /* of merging with next; UINT32_MAX: cannot */
    int32_t merged;     /* what that would give */
} mlsi_symbol;

static inline mlsys_status mlsi_ids_push(mlsi_ids *ids, int32_t id) {
    if (ids->n == ids->cap) MLSI_TRY(MLSI_GROW(ids->alloc, &ids->data, &ids->cap, ids->n + 1));
    ids->data[ids->n++] = id;
    return MLSYS_OK;
}
mlsys_status mlsi_word_cache_create(mlsi_encode *e, uint64_t text_bytes);
/* encode(e, p, n), or what it made of the same bytes before. n > 0. */
mlsys_status mlsi_encode_word(mlsi_encode *e, const char *p, uint64_t n,
                              mlsys_status (*encode)(mlsi_encode *e, const char *p, uint64_t n));
mlsys_status mlsi_encode_byte(mlsi_encode *e, unsigned char byte);
/* Merge e->symbols[0..n) by lowest priority, leftmost first among equals. find sets the priority
 * and result of merging symbol i with its right neighbour. O(n log n). */
mlsys_status mlsi_merge_symbols(mlsi_encode *e, int64_t n,
                                void (*find)(const mlsi_encode *e, const char *word, int32_t i),
                                const char *word);

mlsys_status mlsi_bpe_build(mlsi_tokenizer *t, const mlsi_vocab_source *s);
void mlsi_bpe_free(mlsi_tokenizer *t);
mlsys_status mlsi_bpe_encode(mlsi_encode *e, const char *text, uint64_t n);
void mlsi_spm_build(mlsi_tokenizer *t);
mlsys_status mlsi_spm_encode(mlsi_encode *e, const char *text, uint64_t n);
mlsys_status mlsi_wordpiece_check(void); /* UNSUPPORTED: not in this build */
mlsys_status mlsi_wordpiece_encode(mlsi_encode *e, const char *text, uint64_t n);

#endif
