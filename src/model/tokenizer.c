/* Creation, and the way of a text through added tokens and the model's algorithm. */
#include "model/tokenizer_impl.h"
#include "model/token_stream.h"
#include "model/tokenizer_pre.h"

#include <string.h>

#define KEY "tokenizer.ggml."

static const char *const id_keys[MLSI_VOCAB_IDS] = {
    [MLSI_VOCAB_BOS] = KEY "bos_token_id",
    [MLSI_VOCAB_EOS] = KEY "eos_token_id",
    [MLSI_VOCAB_EOT] = KEY "eot_token_id",
    [MLSI_VOCAB_EOM] = KEY "eom_token_id",
    [MLSI_VOCAB_UNK] = KEY "unknown_token_id",
    [MLSI_VOCAB_SEP] = KEY "seperator_token_id", /* sic */
    [MLSI_VOCAB_PAD] = KEY "padding_token_id",
    [MLSI_VOCAB_CLS] = KEY "cls_token_id",
    [MLSI_VOCAB_MASK] = KEY "mask_token_id",
};

const char *mlsi_vocab_id_key(mlsi_vocab_id which) { return id_keys[which]; }

void mlsi_vocab_source_init(mlsi_vocab_source *s) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < MLSI_VOCAB_IDS; i++)
        s->ids[i] = -1;
    s->add_bos = s->add_eos = s->add_space_prefix = s->lowercase = s->strip_accents = -1;
}

/* ---- creation -------------------------------------------------------------------------------- */

static mlsys_status find_kind(mlsi_bytes model, mlsi_tokenizer_kind *kind) {
    static const struct {
        const char *name;
        mlsi_tokenizer_kind kind;
    } kinds[] = {{"gpt2", MLSI_TOKENIZER_BPE},
                 {"llama", MLSI_TOKENIZER_SPM},
                 {"bert", MLSI_TOKENIZER_WORDPIECE}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (model.len == strlen(kinds[i].name) && !memcmp(model.data, kinds[i].name, model.len)) {
            *kind = kinds[i].kind;
            return MLSYS_OK;
        }
    return mlsi_fail(MLSYS_E_UNSUPPORTED, KEY "model: no tokenizer is known as \"%.*s\"",
                     (int)(model.len < 60 ? model.len : 60), model.data);
}

/* Roles that older files leave out have the numbers, or the names, of the first model of the kind.
 */
static int32_t default_id(const mlsi_tokenizer *t, mlsi_vocab_id which) {
    static const char *const bert[MLSI_VOCAB_IDS] = {[MLSI_VOCAB_CLS] = "[CLS]",
                                                     [MLSI_VOCAB_SEP] = "[SEP]",
                                                     [MLSI_VOCAB_UNK] = "[UNK]",
                                                     [MLSI_VOCAB_PAD] = "[PAD]",
                                                     [MLSI_VOCAB_MASK] = "[MASK]"};
    if (t->kind == MLSI_TOKENIZER_WORDPIECE)
        return bert[which] ? mlsi_tokenizer_find(t, bert[which], strlen(bert[which])) : -1;
    if (t->kind != MLSI_TOKENIZER_SPM || which > MLSI_VOCAB_UNK) return -1;
    int32_t id = which == MLSI_VOCAB_BOS   ? 1
                 : which == MLSI_VOCAB_EOS ? 2
                 : which == MLSI_VOCAB_UNK ? 0
                                           : -1;
    return id >= 0 && id < t->n && t->literal[id] ? id : -1;
}

static mlsys_status build_ids(mlsi_tokenizer *t, const mlsi_vocab_source *s) {
    for (int i = 0; i < MLSI_VOCAB_IDS; i++) {
        if (s->ids[i] < -1 || s->ids[i] >= t->n)
            return mlsi_fail(MLSYS_E_FORMAT, "%s: %lld is outside the vocabulary of %d tokens",
                             id_keys[i], (long long)s->ids[i], t->n);
        t->ids[i] = s->ids[i] >= 0 ? (int32_t)s->ids[i] : default_id(t, (mlsi_vocab_id)i);
    }
    if (t->kind == MLSI_TOKENIZER_WORDPIECE) { /* [CLS] text [SEP] */
        if (t->ids[MLSI_VOCAB_BOS] < 0) t->ids[MLSI_VOCAB_BOS] = t->ids[MLSI_VOCAB_CLS];
        if (t->ids[MLSI_VOCAB_EOS] < 0) t->ids[MLSI_VOCAB_EOS] = t->ids[MLSI_VOCAB_SEP];
        if (t->ids[MLSI_VOCAB_UNK] < 0)
            return mlsi_fail(MLSYS_E_FORMAT, "%s: missing, and model \"bert\" needs it",
                             id_keys[MLSI_VOCAB_UNK]);
    }
    if (s->add_bos == 1 && t->ids[MLSI_VOCAB_BOS] < 0)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "add_bos_token: true, but there is no %s",
                         id_keys[MLSI_VOCAB_BOS]);
    if (s->add_eos == 1 && t->ids[MLSI_VOCAB_EOS] < 0)
        return mlsi_fail(MLSYS_E_FORMAT, KEY "add_eos_token: true, but there is no %s",
                         id_keys[MLSI_VOCAB_EOS]);
    t->add_bos = t->add_bos && t->ids[MLSI_VOCAB_BOS] >= 0;
    t->add_eos = t->add_eos && t->ids[MLSI_VOCAB_EOS] >= 0;
    return MLSYS_OK;
}

static bool flag(int8_t given, bool absent) { return given < 0 ? absent : given; }

static mlsys_status build(mlsi_tokenizer *t, const mlsi_vocab_source *s) {
    bool wordpiece = t->kind == MLSI_TOKENIZER_WORDPIECE;
    t->add_bos = flag(s->add_bos, t->kind != MLSI_TOKENIZER_BPE);
    t->add_eos = flag(s->add_eos, wordpiece);
    t->add_space_prefix = flag(s->add_space_prefix, true) && t->kind == MLSI_TOKENIZER_SPM;
    t->lowercase = flag(s->lowercase, true);
    t->strip_accents = flag(s->strip_accents, t->lowercase);
    if (wordpiece) MLSI_TRY(mlsi_wordpiece_check());
    MLSI_TRY(mlsi_vocab_build(t, s));
    MLSI_TRY(mlsi_added_build(t));
    if (t->kind == MLSI_TOKENIZER_BPE) MLSI_TRY(mlsi_bpe_build(t, s));
    if (t->kind == MLSI_TOKENIZER_SPM) mlsi_spm_build(t);
    return build_ids(t, s);
}

mlsys_status mlsi_tokenizer_create(mlsi_alloc *a, const mlsi_vocab_source *source,
                                   mlsi_tokenizer **out) {
    *out = NULL;
    mlsi_tokenizer_kind kind = MLSI_TOKENIZER_BPE;
    MLSI_TRY(find_kind(source->model, &kind));
    mlsi_tokenizer *t;
    MLSI_TRY(MLSI_NEW(a, &t));
    t->alloc = a;
    t->kind = kind;
    mlsys_status st = build(t, source);
    if (st != MLSYS_OK) {
        mlsi_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MLSYS_OK;
}

void mlsi_tokenizer_free(mlsi_tokenizer *t) {
    if (!t) return;
    mlsi_bpe_free(t);
    mlsi_added_free(t);
    mlsi_mem_free(t->alloc, t->plain.slots);
    mlsi_mem_free(t->alloc, t->literals.slots);
    mlsi_mem_free(t->alloc, t->scores);
    mlsi_mem_free(t->alloc, t->literal);
    mlsi_mem_free(t->alloc, t->type);
    mlsi_mem_free(t->alloc, t->start);
    mlsi_mem_free(t->alloc, t->bytes);
    mlsi_mem_free(t->alloc, t);
}

/* ---- encoding -------------------------------------------------------------------------------- */

void mlsi_ids_init(mlsi_ids *ids, mlsi_alloc *a) { *ids = (mlsi_ids){.alloc = a}; }

void mlsi_ids_free(mlsi_ids *ids) {
    mlsi_mem_free(ids->alloc, ids->data);
    *ids = (mlsi_ids){.alloc = ids->alloc};
}

mlsys_status mlsi_encode_byte(mlsi_encode *e, unsigned char byte) {
    const mlsi_tokenizer *t = e->t;
    if (t->byte_id[byte] >= 0) return mlsi_ids_push(e->out, t->byte_id[byte]);
    int32_t unk = t->ids[MLSI_VOCAB_UNK];
    if (unk >= 0 && t->type[unk] != MLSI_TOKEN_CONTROL) return mlsi_ids_push(e->out, unk);
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "tokenizer: byte 0x%02x has no token in this vocabulary",
                     byte);
}

static mlsys_status encode_plain(mlsi_encode *e, const char *text, uint64_t n) {
    switch (e->t->kind) {
    case MLSI_TOKENIZER_BPE: return mlsi_bpe_encode(e, text, n);
    case MLSI_TOKENIZER_SPM: return mlsi_spm_encode(e, text, n);
    default: return mlsi_wordpiece_encode(e, text, n);
    }
}

static mlsys_status encode(mlsi_encode *e, const char *text, uint64_t n, int32_t flags) {
    const mlsi_tokenizer *t = e->t;
    bool add = flags & MLSI_ENCODE_ADD, special = flags & MLSI_TOKENS_SPECIAL;
    if (add && t->add_bos) MLSI_TRY(mlsi_ids_push(e->out, t->ids[MLSI_VOCAB_BOS]));
    for (uint64_t i = 0; i < n;) {
        uint64_t at = n, len = 0;
        int32_t id = mlsi_added_find(t, text, n, i, special, &at, &len);
        if (at > i) MLSI_TRY(encode_plain(e, text + i, at - i));
        e->after_added = false;
        if (id >= 0) {
            MLSI_TRY(mlsi_ids_push(e->out, id));
            e->after_added = true;
        }
        i = at + len;
    }
    if (add && t->add_eos) MLSI_TRY(mlsi_ids_push(e->out, t->ids[MLSI_VOCAB_EOS]));
    return MLSYS_OK;
}

mlsys_status mlsi_tokenizer_encode(const mlsi_tokenizer *t, const char *text, uint64_t bytes,
                                   int32_t flags, mlsi_ids *out) {
    if (bytes >= INT32_MAX)
        return mlsi_fail(MLSYS_E_ARG, "tokenizer_encode: bytes: %llu, at most 2^31-2 are taken",
                         (unsigned long long)bytes);
    int64_t before = out->n;
    mlsi_encode e = {.t = t, .alloc = out->alloc, .out = out, .after_added = true};
    mlsys_status st = mlsi_word_cache_create(&e, bytes);
    if (st == MLSYS_OK) st = encode(&e, text, bytes, flags);
    if (st != MLSYS_OK) out->n = before;
    mlsi_pre_match_free(e.pre);
    mlsi_mem_free(e.alloc, e.cache);
    mlsi_mem_free(e.alloc, e.symbols);
    mlsi_mem_free(e.alloc, e.heap.keys);
    mlsi_mem_free(e.alloc, e.buffer);
    return st;
}

/* ---- decoding, getters ----------------------------------------------------------------------- */

mlsys_status mlsi_tokenizer_decode(const mlsi_tokenizer *t, const int32_t *ids, uint64_t n,
                                   int32_t flags, mlsi_text *out) {
    mlsi_token_stream s;
    mlsi_token_stream_init(&s, t, flags, true);
    for (uint64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->n)
            return mlsi_fail(MLSYS_E_ARG, "tokenizer_decode: ids[%llu]: %d is outside [0,%d)",
                             (unsigned long long)i, ids[i], t->n);
        MLSI_TRY(mlsi_token_stream_next(&s, ids[i], out));
    }
    return mlsi_token_stream_finish(&s, out);
}

int32_t mlsi_tokenizer_size(const mlsi_tokenizer *t) { return t->n; }
int32_t mlsi_tokenizer_special(const mlsi_tokenizer *t, mlsi_vocab_id which) {
    return t->ids[which];
}
mlsi_token_type mlsi_tokenizer_type(const mlsi_tokenizer *t, int32_t id) {
    return (mlsi_token_type)t->type[id];
}
mlsi_bytes mlsi_tokenizer_piece(const mlsi_tokenizer *t, int32_t id) {
    return mlsi_token_bytes(t, id);
}

bool mlsi_tokenizer_is_end(const mlsi_tokenizer *t, int32_t id) {
    static const char *const names[] = {
        "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",         "<|end|>", "<|endoftext|>",
        "<end_of_turn>", "<|end_of_text|>", "<end_of_utterance>", "</s>",    "<eos>",
        "<EOT>",         "[EOT]",           "<|return|>",         "<|call|>"};
    if (id < 0 || id >= t->n) return false;
    if (id == t->ids[MLSI_VOCAB_EOS] || id == t->ids[MLSI_VOCAB_EOT] ||
        id == t->ids[MLSI_VOCAB_EOM])
        return true;
    if (t->type[id] != MLSI_TOKEN_CONTROL) return false;
    mlsi_bytes b = mlsi_token_bytes(t, id);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (b.len == strlen(names[i]) && !memcmp(b.data, names[i], b.len)) return true;
    return false;
}
