/* Any bytes as text for three small vocabularies, or as a vocabulary and a text for it.
 * Demanded: ids in range, byte-level decode(encode(s)) = s, streaming = whole, no control token
 * from plain text, known statuses, and no memory left behind. */
#include "model/token_stream.h"
#include "support/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

static mlsi_alloc memory;

static void check_decode(const mlsi_tokenizer *t, const mlsi_ids *ids, int32_t flags,
                         mlsi_text *whole) {
    mlsi_token_stream s;
    mlsi_text parts;
    mlsi_text_init(&parts, &memory);
    mlsi_text_init(whole, &memory);
    mlsi_token_stream_init(&s, t, flags, true);
    for (int64_t i = 0; i < ids->n; i++) {
        DEMAND(ids->data[i] >= 0 && ids->data[i] < mlsi_tokenizer_size(t));
        DEMAND(mlsi_token_stream_next(&s, ids->data[i], &parts) == MLSYS_OK);
    }
    DEMAND(mlsi_token_stream_finish(&s, &parts) == MLSYS_OK);
    DEMAND(mlsi_tokenizer_decode(t, ids->data, (uint64_t)ids->n, flags, whole) == MLSYS_OK);
    DEMAND(whole->len == parts.len && !memcmp(whole->data, parts.data, (size_t)parts.len));
    mlsi_text_free(&parts);
}

static void check_text(const mlsi_tokenizer *t, const char *text, size_t n, int32_t flags,
                       bool comes_back) {
    mlsi_ids ids;
    mlsi_text back;
    mlsi_ids_init(&ids, &memory);
    mlsys_status st = mlsi_tokenizer_encode(t, text, n, flags, &ids);
    DEMAND(st == MLSYS_OK || st == MLSYS_E_UNSUPPORTED);
    if (st != MLSYS_OK) DEMAND(ids.n == 0);
    for (int64_t i = 0; i < ids.n && !flags; i++)
        DEMAND(mlsi_tokenizer_type(t, ids.data[i]) != MLSI_TOKEN_CONTROL || !comes_back);
    check_decode(t, &ids, MLSI_TOKENS_SPECIAL, &back);
    if (comes_back && !(flags & MLSI_ENCODE_ADD))
        DEMAND(st == MLSYS_OK && (size_t)back.len == n && (!n || !memcmp(back.data, text, n)));
    mlsi_text_free(&back);
    mlsi_ids_free(&ids);
}

/* ---- vocabularies of our own ----------------------------------------------------------------- */

static void fill_bpe(test_vocab *v) {
    static const char *const merges[] = {"a a",   "aa aa",  "h e", "l l",
                                         "he ll", "hell o", "Ġ w", "Ã ¤"};
    vocab_init(v, "gpt2");
    vocab_add_bytes(v);
    for (int i = 0; i < 8; i++)
        vocab_merge(v, merges[i]);
    vocab_add(v, "<|", MLSI_TOKEN_USER_DEFINED, 0);
    vocab_add(v, "<|im|>", MLSI_TOKEN_CONTROL, 0);
    vocab_add(v, "<|im|><", MLSI_TOKEN_USER_DEFINED, 0);
    vocab_add(v, "\xc3\x96", MLSI_TOKEN_USER_DEFINED, 0);
}

static void fill_spm(test_vocab *v) {
    static const char *const pieces[] = {"a",
                                         "b",
                                         "ab",
                                         "aa",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x81\x61",
                                         "\xe2\x96\x81\xe2\x96\x81",
                                         "\xc3\xa4",
                                         "ba",
                                         "aab"};
    char byte[8];
    vocab_init(v, "llama");
    vocab_add(v, "<unk>", MLSI_TOKEN_UNKNOWN, 0);
    vocab_add(v, "<s>", MLSI_TOKEN_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)b);
        vocab_add(v, byte, MLSI_TOKEN_BYTE, 0);
    }
    for (int i = 0; i < 10; i++)
        vocab_add(v, pieces[i], MLSI_TOKEN_NORMAL, (float)(i * 7 % 5));
    vocab_add(v, "  ", MLSI_TOKEN_USER_DEFINED, 0);
}

static void fill_words(test_vocab *v) {
    static const char *const pieces[] = {"\xe2\x96\x81\x61", "a",  "b",
                                         "\xe2\x96\x81,",    "ab", "\xe2\x96\x81\xe4\xb8\xad"};
    vocab_init(v, "bert");
    vocab_add(v, "[UNK]", MLSI_TOKEN_CONTROL, 0);
    for (int i = 0; i < 6; i++)
        vocab_add(v, pieces[i], MLSI_TOKEN_NORMAL, 0);
    v->source.ids[MLSI_VOCAB_UNK] = 0;
}

static bool has_mark(const char *text, size_t n) { /* which comes back as a space */
    for (size_t i = 0; i + 3 <= n; i++)
        if (!memcmp(text + i, "\xe2\x96\x81", 3)) return true;
    return false;
}

static void own_vocabulary(int which, int32_t flags, const char *text, size_t n) {
    static test_vocab v;
    static mlsi_tokenizer *made[3]; /* once; they stay */
    static void (*const fill[])(test_vocab *) = {fill_bpe, fill_spm, fill_words};
    if (!made[which]) {
        fill[which](&v);
        mlsys_status st = mlsi_tokenizer_create(&mlsi_alloc_process, &v.source, &made[which]);
        DEMAND(st == MLSYS_OK || st == MLSYS_E_UNSUPPORTED); /* a build without a library */
        if (st != MLSYS_OK) return;
    }
    uint64_t before = mlsi_alloc_process.live_bytes;
    bool comes_back = which == 0 || (which == 1 && !has_mark(text, n));
    check_text(made[which], text, n, flags, comes_back);
    DEMAND(mlsi_alloc_process.live_bytes == before);
}

/* ---- a vocabulary from the bytes --------------------------------------------------------------
 */

typedef struct input {
    const uint8_t *p;
    size_t n;
} input;

static unsigned take(input *in) {
    if (!in->n) return 0;
    in->n--;
    return *in->p++;
}

static mlsi_bytes take_bytes(input *in) {
    size_t n = take(in) % 16;
    if (n > in->n) n = in->n;
    mlsi_bytes b = {(const char *)in->p, n};
    in->p += n;
    in->n -= n;
    return b;
}

static void foreign_vocabulary(input in) {
    static const char *const models[] = {"gpt2", "llama", "bert", "t5"};
    static const char *const pres[] = {"gpt-2", "", "llama-bpe", "nothing"};
    static mlsi_bytes tokens[64], merges[64];
    static int32_t types[64];
    static float scores[64];
    mlsi_vocab_source s;
    mlsi_tokenizer *t;
    unsigned how = take(&in);
    mlsi_vocab_source_init(&s);
    s.model = test_bytes_of(models[how % 4]);
    s.pre = test_bytes_of(pres[how / 4 % 4]);
    s.n_tokens = take(&in) % 64;
    s.n_merges = take(&in) % 64;
    s.n_types = s.n_scores = s.n_tokens;
    for (uint64_t i = 0; i < s.n_tokens; i++) {
        tokens[i] = take_bytes(&in);
        unsigned b = take(&in);
        types[i] = (int32_t)(b % 7);
        scores[i] = (float)(b / 7);
        if (b == 255) types[i] = -1;
    }
    for (uint64_t i = 0; i < s.n_merges; i++)
        merges[i] = take_bytes(&in);
    s.tokens = tokens;
    s.merges = how & 16 ? NULL : merges;
    s.types = how & 32 ? NULL : types;
    s.scores = how & 64 ? NULL : scores;
    for (int i = 0; i < MLSI_VOCAB_IDS; i++)
        s.ids[i] = (int64_t)take(&in) % 80 - 16;
    s.add_bos = (int8_t)((int)(take(&in) % 3) - 1);
    s.add_space_prefix = (int8_t)((int)(take(&in) % 3) - 1);
    mlsys_status st = mlsi_tokenizer_create(&memory, &s, &t);
    DEMAND(st == MLSYS_OK || st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED);
    DEMAND((st == MLSYS_OK) == (t != NULL));
    if (st == MLSYS_OK) check_text(t, (const char *)in.p, in.n, (int32_t)(how >> 7) * 3, false);
    mlsi_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    unsigned how = take(&in);
    mlsi_alloc_init(&memory, NULL);
    if (how % 4 < 3)
        own_vocabulary((int)(how % 4), (int32_t)(how / 4 % 4), (const char *)in.p, in.n);
    else
        foreign_vocabulary(in);
    DEMAND(memory.live_bytes == 0);
    return 0;
}
