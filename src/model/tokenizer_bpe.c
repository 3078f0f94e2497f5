/* Byte-level BPE: words by regular expression, then merges of token pairs by rank. */
#include "model/tokenizer_impl.h"
#include "model/tokenizer_pre.h"
#include "model/utf8.h"

#include "core/faults.h"
#include "core/hash.h"

enum { SHORT_WORD = 32 }; /* up to here a scan beats a heap */

#define MERGES "tokenizer.ggml.merges"

static uint64_t pair_hash(uint32_t left, uint32_t right) {
    uint64_t h = (left * 0x9e3779b97f4a7c15ull + right) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

static const mlsi_merge *find_merge(const mlsi_bpe *b, uint32_t left, uint32_t right) {
    for (uint64_t i = pair_hash(left, right);; i++) {
        const mlsi_merge *m = &b->merges[i & b->mask];
        if (m->left == left && m->right == right) return m;
        if (m->left == UINT32_MAX) return NULL;
    }
}

/* ---- building -------------------------------------------------------------------------------- */

/* The id of a piece of merges[i], as the file spells it. */
static mlsys_status piece_id(const mlsi_tokenizer *t, uint64_t i, mlsi_bytes piece, char *key,
                             uint32_t *id) {
    uint64_t n;
    int32_t found = -1;
    if (mlsi_byte_map_invert(piece.data, piece.len, key, &n))
        found = mlsi_token_find(t, &t->plain, key, n);
    if (found < 0)
        return mlsi_fail(MLSYS_E_FORMAT, MERGES "[%llu]: \"%.*s\" is not a plain token",
                         (unsigned long long)i, (int)(piece.len < 60 ? piece.len : 60), piece.data);
    *id = (uint32_t)found;
    return MLSYS_OK;
}

static mlsys_status put_merge(mlsi_bpe *b, mlsi_merge merge) {
    for (uint64_t k = 0; k < MLSI_MAX_PROBES; k++) {
        mlsi_merge *slot = &b->merges[(pair_hash(merge.left, merge.right) + k) & b->mask];
        if (slot->left == merge.left && slot->right == merge.right)
            return MLSYS_OK; /* first wins */
        if (slot->left != UINT32_MAX) continue;
        *slot = merge;
        return MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_FORMAT, MERGES ": more than %d pairs share a hash, up to merge %u",
                     MLSI_MAX_PROBES, merge.rank);
}

static mlsys_status add_merge(mlsi_tokenizer *t, const mlsi_vocab_source *s, uint64_t i,
                              char *key) {
    mlsi_bytes text = s->merges[i];
    const char *space = text.len > 1 ? memchr(text.data + 1, ' ', text.len - 1) : NULL;
    if (!space || text.len > 2 * MLSI_TOKEN_MAX_BYTES)
        return mlsi_fail(MLSYS_E_FORMAT, MERGES "[%llu]: \"%.*s\" is not two tokens with a space",
                         (unsigned long long)i, (int)(text.len < 60 ? text.len : 60), text.data);
    uint64_t at = (uint64_t)(space - text.data);
    mlsi_bytes left = {text.data, at}, right = {space + 1, text.len - at - 1};
    mlsi_merge m = {.rank = (uint32_t)i};
    MLSI_TRY(piece_id(t, i, left, key, &m.left));
    MLSI_TRY(piece_id(t, i, right, key, &m.right));
    mlsi_bytes a = mlsi_token_bytes(t, (int32_t)m.left), b = mlsi_token_bytes(t, (int32_t)m.right);
    memcpy(key, a.data, a.len);
    memcpy(key + a.len, b.data, b.len);
    m.merged = mlsi_token_find(t, &t->plain, key, a.len + b.len);
    if (m.merged < 0)
        return mlsi_fail(MLSYS_E_FORMAT, MERGES "[%llu]: \"%.*s\" makes no token",
                         (unsigned long long)i, (int)(text.len < 60 ? text.len : 60), text.data);
    return put_merge(&t->bpe, m);
}

mlsys_status mlsi_bpe_build(mlsi_tokenizer *t, const mlsi_vocab_source *s) {
    mlsi_pre_traits traits;
    MLSI_TRY(mlsi_pre_create(t->alloc, s->pre, &traits, &t->bpe.pre));
    t->bpe.ignore_merges = traits.ignore_merges;
    if (s->add_bos < 0) t->add_bos = traits.add_bos;
    if (!s->merges)
        return mlsi_fail(MLSYS_E_FORMAT, MERGES ": missing, and model \"gpt2\" needs it");
    if (s->n_merges >= UINT32_MAX / 2)
        return mlsi_fail(MLSYS_E_FORMAT, MERGES ": %llu merges are too many",
                         (unsigned long long)s->n_merges);
    uint64_t size = 16;
    while (size < 2 * s->n_merges)
        size *= 2;
    MLSI_TRY(MLSI_NEW_N(t->alloc, size, &t->bpe.merges));
    for (uint64_t i = 0; i < size; i++)
        t->bpe.merges[i].left = UINT32_MAX;
    t->bpe.mask = size - 1;
    char *key;
    MLSI_TRY(MLSI_NEW_N(t->alloc, 2 * MLSI_TOKEN_MAX_BYTES, &key));
    mlsys_status st = MLSYS_OK;
    for (uint64_t i = 0; st == MLSYS_OK && i < s->n_merges; i++)
        st = add_merge(t, s, i, key);
    mlsi_mem_free(t->alloc, key);
    return st;
}

void mlsi_bpe_free(mlsi_tokenizer *t) {
    mlsi_mem_free(t->alloc, t->bpe.merges);
    mlsi_pre_free(t->bpe.pre);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* A short word, in place: the best pair is looked for by a scan, the symbols behind it move up. */
static mlsys_status encode_short(mlsi_encode *e, const unsigned char *p, int n) {
    const mlsi_bpe *b = &e->t->bpe;
    const mlsi_merge *merge[SHORT_WORD]; /* of symbol i with symbol i + 1 */
    int32_t id[SHORT_WORD];
    for (int i = 0; i < n; i++)
        id[i] = e->t->byte_id[p[i]];
    for (int i = 0; i + 1 < n; i++)
        merge[i] = find_merge(b, (uint32_t)id[i], (uint32_t)id[i + 1]);
    for (;;) {
        int best = -1;
        for (int i = 0; i + 1 < n; i++)
            if (merge[i] && (best < 0 || merge[i]->rank < merge[best]->rank)) best = i;
        if (best < 0) break;
        id[best] = merge[best]->merged;
        n--;
        for (int i = best + 1; i < n; i++)
            id[i] = id[i + 1];
        for (int i = best + 1; i + 1 < n; i++)
            merge[i] = merge[i + 1];
        if (best + 1 < n) merge[best] = find_merge(b, (uint32_t)id[best], (uint32_t)id[best + 1]);
        if (best > 0) merge[best - 1] = find_merge(b, (uint32_t)id[best - 1], (uint32_t)id[best]);
    }
    for (int i = 0; i < n; i++)
        MLSI_TRY(mlsi_ids_push(e->out, id[i]));
    return MLSYS_OK;
}

static void find_pair(const mlsi_encode *e, const char *word, int32_t i) {
    (void)word;
    mlsi_symbol *s = &e->symbols[i];
    const mlsi_merge *m =
        s->next < 0 ? NULL
                    : find_merge(&e->t->bpe, (uint32_t)s->id, (uint32_t)e->symbols[s->next].id);
    s->priority = m ? m->rank : UINT32_MAX;
    if (m) s->merged = m->merged;
}

static mlsys_status encode_long(mlsi_encode *e, const char *p, uint64_t n) {
    MLSI_TRY(MLSI_GROW(e->alloc, &e->symbols, &e->symbols_cap, (int64_t)n));
    for (int32_t i = 0; i < (int32_t)n; i++)
        e->symbols[i] = (mlsi_symbol){.prev = i - 1,
                                      .next = i + 1 < (int32_t)n ? i + 1 : -1,
                                      .start = i,
                                      .len = 1,
                                      .id = e->t->byte_id[(unsigned char)p[i]]};
    MLSI_TRY(mlsi_merge_symbols(e, (int64_t)n, find_pair, p));
    for (int32_t i = 0; i >= 0; i = e->symbols[i].next)
        MLSI_TRY(mlsi_ids_push(e->out, e->symbols[i].id));
    return MLSYS_OK;
}

static mlsys_status encode_word(mlsi_encode *e, const char *p, uint64_t n) {
    const mlsi_tokenizer *t = e->t;
    if (t->bpe.ignore_merges && n <= t->max_plain) {
        int32_t id = mlsi_token_find(t, &t->plain, p, n);
        if (id >= 0) return mlsi_ids_push(e->out, id);
    }
    /* A byte without a token parts the word: no merge reaches across it. */
    for (uint64_t i = 0, run; i < n; i += run) {
        for (run = 0; i + run < n && t->byte_id[(unsigned char)p[i + run]] >= 0;)
            run++;
        if (run == 0) {
            MLSI_TRY(mlsi_encode_byte(e, (unsigned char)p[i]));
            run = 1;
        } else if (run <= SHORT_WORD) {
            MLSI_TRY(encode_short(e, (const unsigned char *)p + i, (int)run));
        } else {
            MLSI_TRY(encode_long(e, p + i, run));
        }
    }
    return MLSYS_OK;
}

static mlsys_status on_word(void *arg, const char *p, uint64_t n) {
    return mlsi_encode_word(arg, p, n, encode_word);
}

mlsys_status mlsi_bpe_encode(mlsi_encode *e, const char *text, uint64_t n) {
    if (!e->pre) MLSI_TRY(mlsi_pre_match_create(e->t->bpe.pre, &e->pre));
    for (uint64_t i = 0; i < n;) {
        uint64_t valid = mlsi_utf8_valid_prefix(text + i, n - i), bad = 0;
        if (valid) MLSI_TRY(mlsi_pre_split(e->pre, text + i, valid, on_word, e));
        i += valid;
        for (uint32_t cp; i + bad < n && !mlsi_utf8_decode(text + i + bad, n - i - bad, &cp);)
            bad++;
        if (bad && !mlsi_fault(MLSI_FAULT_BPE_BAD_BYTES)) MLSI_TRY(encode_word(e, text + i, bad));
        i += bad;
    }
    return MLSYS_OK;
}
