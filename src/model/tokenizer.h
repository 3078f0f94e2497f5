/* Tokenizers: byte-level BPE ("gpt2"), SentencePiece-style BPE ("llama"), WordPiece ("bert").
 *
 * encode: the text is cut at added tokens, leftmost first and longest at the same place:
 * user-defined ones always, control ones only where the caller asks. What lies between goes through
 * the model's algorithm. Added tokens are literal text on both ways: neither the byte map of
 * byte-level BPE nor the space mark of SentencePiece touches them. Text that no rule allows to
 * become a control token never does: plain text cannot merge into one.
 *
 * Bytes that are not UTF-8: byte-level BPE makes each maximal run of them a word of its own, so
 * that decode(encode(s)) = s holds for any bytes; SentencePiece spells them in byte tokens;
 * WordPiece drops them like U+FFFD. A byte that the vocabulary cannot spell is its unknown token
 * where that is a plain token, otherwise an error: nothing is dropped silently.
 *
 * Threads: a tokenizer is immutable; any thread may use it. */
#ifndef MLSI_TOKENIZER_H
#define MLSI_TOKENIZER_H

#include "core/handle.h"

struct mlsi_gguf;

typedef enum mlsi_token_type { /* GGUF's numbers */
                               MLSI_TOKEN_UNDEFINED = 0,
                               MLSI_TOKEN_NORMAL = 1,
                               MLSI_TOKEN_UNKNOWN = 2,
                               MLSI_TOKEN_CONTROL = 3,
                               MLSI_TOKEN_USER_DEFINED = 4,
                               MLSI_TOKEN_UNUSED = 5,
                               MLSI_TOKEN_BYTE = 6
} mlsi_token_type;

typedef enum mlsi_vocab_id {
    MLSI_VOCAB_BOS,
    MLSI_VOCAB_EOS,
    MLSI_VOCAB_EOT,
    MLSI_VOCAB_EOM,
    MLSI_VOCAB_UNK,
    MLSI_VOCAB_SEP,
    MLSI_VOCAB_PAD,
    MLSI_VOCAB_CLS,
    MLSI_VOCAB_MASK,
    MLSI_VOCAB_IDS
} mlsi_vocab_id;

enum {
    MLSI_ENCODE_ADD = 1,    /* begin and end tokens as the model's metadata says */
    MLSI_TOKENS_SPECIAL = 2 /* encode: recognise control tokens; decode: write them out */
};
enum { MLSI_TOKEN_MAX_BYTES = 65535, MLSI_VOCAB_MAX = 1 << 24 };

typedef struct mlsi_bytes {
    const char *data;
    uint64_t len;
} mlsi_bytes;

/* What a tokenizer is made from: the "tokenizer.ggml.*" metadata of a GGUF file, as plain arrays.
 * Everything is borrowed for the call. Absent: NULL, -1. */
typedef struct mlsi_vocab_source {
    mlsi_bytes model; /* .model */
    mlsi_bytes pre;   /* .pre */
    const mlsi_bytes *tokens;
    uint64_t n_tokens;
    const float *scores;
    uint64_t n_scores;
    const int32_t *types;
    uint64_t n_types;
    const mlsi_bytes *merges; /* "left right" */
    uint64_t n_merges;
    int64_t ids[MLSI_VOCAB_IDS]; /* .bos_token_id and the like */
    int8_t add_bos, add_eos, add_space_prefix;
    int8_t lowercase, strip_accents; /* of WordPiece */
} mlsi_vocab_source;

void mlsi_vocab_source_init(mlsi_vocab_source *s);  /* everything absent */
const char *mlsi_vocab_id_key(mlsi_vocab_id which); /* "tokenizer.ggml.bos_token_id", ... */

typedef struct mlsi_tokenizer mlsi_tokenizer; /* begins with an mlsi_object */

/* Errors FORMAT: a broken rule, named by key and value; UNSUPPORTED: a model or pre-tokenizer that
 * is unknown, or that this build has no library for; NOMEM. */
mlsys_status mlsi_tokenizer_create(mlsi_alloc *a, const mlsi_vocab_source *source,
                                   mlsi_tokenizer **out);
/* From a model file's metadata. Errors: the same, and NOTFOUND without a vocabulary. */
mlsys_status mlsi_tokenizer_from_gguf(mlsi_alloc *a, const struct mlsi_gguf *g,
                                      mlsi_tokenizer **out);
void mlsi_tokenizer_free(mlsi_tokenizer *t); /* NULL accepted */

/* Token ids from the allocator given to init. */
typedef struct mlsi_ids {
    mlsi_alloc *alloc;
    int32_t *data;
    int64_t n, cap;
} mlsi_ids;

void mlsi_ids_init(mlsi_ids *ids, mlsi_alloc *a);
void mlsi_ids_free(mlsi_ids *ids);

/* Appends to out; on failure out is as before. Errors ARG: bytes >= 2^31; UNSUPPORTED: a byte
 * without a token; NOMEM. */
mlsys_status mlsi_tokenizer_encode(const mlsi_tokenizer *t, const char *text, uint64_t bytes,
                                   int32_t flags, mlsi_ids *out);
/* Appends the text of n ids to out. The space that encode puts before the text is taken away again.
 * Errors ARG: an id outside the vocabulary; NOMEM. For token-by-token decoding see token_stream.h.
 */
mlsys_status mlsi_tokenizer_decode(const mlsi_tokenizer *t, const int32_t *ids, uint64_t n,
                                   int32_t flags, mlsi_text *out);

int32_t mlsi_tokenizer_size(const mlsi_tokenizer *t);
/* The id of a role, -1 when the model has none. */
int32_t mlsi_tokenizer_special(const mlsi_tokenizer *t, mlsi_vocab_id which);
mlsi_token_type mlsi_tokenizer_type(const mlsi_tokenizer *t, int32_t id); /* id in range */
/* Whether id ends a turn or a text: EOS, EOT, EOM, or a control token with a known name of that
 * kind. */
bool mlsi_tokenizer_is_end(const mlsi_tokenizer *t, int32_t id);
/* The id whose text in the vocabulary file is name, -1 when there is none. */
int32_t mlsi_tokenizer_find(const mlsi_tokenizer *t, const char *name, uint64_t len);
/* The bytes that a token stands for, without the rule for leading spaces. id in range. */
mlsi_bytes mlsi_tokenizer_piece(const mlsi_tokenizer *t, int32_t id);

#endif
