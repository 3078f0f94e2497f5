/* Words met before in the same call, with their ids: natural text repeats itself, so most words
 * cost one look-up instead of a merge. Direct-mapped: a new word takes the place of an older one.
 */
#include "model/tokenizer_impl.h"

enum { SLOTS = 4096, MAX_WORD = 32, MAX_IDS = 6, MIN_TEXT = 8192 };

struct mlsi_word_slot { /* one cache line */
    uint32_t hash;
    uint8_t len, n; /* len 0: empty */
    int32_t ids[MAX_IDS];
    char word[MAX_WORD];
};

mlsys_status mlsi_word_cache_create(mlsi_encode *e, uint64_t text_bytes) {
    if (text_bytes < MIN_TEXT) return MLSYS_OK; /* would not pay for clearing it */
    return MLSI_NEW_N(e->alloc, SLOTS, &e->cache);
}

static mlsys_status push_all(mlsi_ids *out, const int32_t *ids, int n) {
    MLSI_TRY(MLSI_GROW(out->alloc, &out->data, &out->cap, out->n + n));
    for (int i = 0; i < n; i++)
        out->data[out->n + i] = ids[i];
    out->n += n;
    return MLSYS_OK;
}

mlsys_status mlsi_encode_word(mlsi_encode *e, const char *p, uint64_t n,
                              mlsys_status (*encode)(mlsi_encode *e, const char *p, uint64_t n)) {
    if (!e->cache || n > MAX_WORD) return encode(e, p, n);
    uint32_t hash = mlsi_token_hash(p, n);
    struct mlsi_word_slot *slot = &e->cache[hash % SLOTS];
    if (slot->hash == hash && slot->len == n && !memcmp(slot->word, p, n))
        return push_all(e->out, slot->ids, slot->n);
    int64_t before = e->out->n;
    MLSI_TRY(encode(e, p, n));
    int64_t made = e->out->n - before;
    if (made > MAX_IDS) return MLSYS_OK;
    slot->hash = hash;
    slot->len = (uint8_t)n;
    slot->n = (uint8_t)made;
    memcpy(slot->word, p, n);
    for (int64_t i = 0; i < made; i++)
        slot->ids[i] = e->out->data[before + i];
    return MLSYS_OK;
}
