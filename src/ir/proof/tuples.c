#include "ir/proof/tuples.h"

#include "core/hash.h"

#include <string.h>

void mlsi_tuples_init(mlsi_tuples *t, mlsi_alloc *a) {
    memset(t, 0, sizeof *t);
    t->alloc = a;
}

void mlsi_tuples_free(mlsi_tuples *t) {
    mlsi_mem_free(t->alloc, t->words);
    mlsi_mem_free(t->alloc, t->items);
    mlsi_mem_free(t->alloc, t->slots);
    mlsi_tuples_init(t, t->alloc);
}

/* Where the tuple is, or would be. */
static int64_t slot_of(const mlsi_tuples *t, const int64_t *words, int n) {
    size_t bytes = sizeof *words * (size_t)n;
    uint64_t h = mlsi_hash_mix(mlsi_hash_bytes(MLSI_HASH_SEED, words, bytes));
    int64_t at = (int64_t)(h & (uint64_t)(t->n_slots - 1));
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        const mlsi_tuple_item *i = &t->items[t->slots[at] - 1];
        if (i->n == n && !memcmp(t->words + i->at, words, bytes)) break;
    }
    return at;
}

static mlsys_status grow_slots(mlsi_tuples *t) {
    int64_t n = t->n_slots ? 2 * t->n_slots : 256;
    int32_t *slots;
    MLSI_TRY(MLSI_NEW_N(t->alloc, n, &slots));
    mlsi_mem_free(t->alloc, t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (int64_t i = 0; i < t->n_items; i++)
        t->slots[slot_of(t, t->words + t->items[i].at, t->items[i].n)] = (int32_t)i + 1;
    return MLSYS_OK;
}

mlsys_status mlsi_tuple(mlsi_tuples *t, const int64_t *words, int n, int32_t *id) {
    if (2 * t->n_items >= t->n_slots) MLSI_TRY(grow_slots(t));
    int64_t at = slot_of(t, words, n);
    if (!t->slots[at]) {
        if (t->n_items >= INT32_MAX - 1)
            return mlsi_fail(MLSYS_E_UNSUPPORTED, "proof: more than 2^31 expressions");
        MLSI_TRY(MLSI_GROW(t->alloc, &t->words, &t->cap_words, t->n_words + n));
        MLSI_TRY(MLSI_GROW(t->alloc, &t->items, &t->cap_items, t->n_items + 1));
        memcpy(t->words + t->n_words, words, sizeof *words * (size_t)n);
        t->items[t->n_items] = (mlsi_tuple_item){t->n_words, n};
        t->n_words += n;
        t->slots[at] = (int32_t)++t->n_items;
    }
    *id = t->slots[at] - 1;
    return MLSYS_OK;
}
