/* Merging the symbols of a long word: a linked list of symbols, a heap of candidate merges.
 *
 * The order is total: lowest priority first, leftmost among equals. A heap key holds both, so that
 * an entry is current exactly when its symbol still has that priority; others are skipped. Each
 * merge pushes at most two keys, so n symbols cost O(n log n). */
#include "model/tokenizer_impl.h"

static mlsys_status heap_push(mlsi_encode *e, uint64_t key) {
    mlsi_merge_heap *h = &e->heap;
    if (h->n == h->cap) MLSI_TRY(MLSI_GROW(e->alloc, &h->keys, &h->cap, h->n + 1));
    int64_t i = h->n++;
    for (int64_t up; i > 0 && h->keys[up = (i - 1) / 2] > key; i = up)
        h->keys[i] = h->keys[up];
    h->keys[i] = key;
    return MLSYS_OK;
}

static uint64_t heap_pop(mlsi_merge_heap *h) {
    uint64_t top = h->keys[0], last = h->keys[--h->n];
    int64_t i = 0;
    for (int64_t down; (down = 2 * i + 1) < h->n; i = down) {
        if (down + 1 < h->n && h->keys[down + 1] < h->keys[down]) down++;
        if (h->keys[down] >= last) break;
        h->keys[i] = h->keys[down];
    }
    h->keys[i] = last;
    return top;
}

static mlsys_status offer(mlsi_encode *e, int32_t i) {
    uint32_t priority = e->symbols[i].priority;
    return priority == UINT32_MAX ? MLSYS_OK : heap_push(e, (uint64_t)priority << 32 | (uint32_t)i);
}

mlsys_status mlsi_merge_symbols(mlsi_encode *e, int64_t n,
                                void (*find)(const mlsi_encode *e, const char *word, int32_t i),
                                const char *word) {
    mlsi_symbol *s = e->symbols;
    e->heap.n = 0;
    for (int32_t i = 0; i < n; i++) {
        find(e, word, i);
        MLSI_TRY(offer(e, i));
    }
    while (e->heap.n) {
        uint64_t key = heap_pop(&e->heap);
        int32_t i = (int32_t)(uint32_t)key;
        if (s[i].len == 0 || s[i].priority != key >> 32) continue;
        int32_t right = s[i].next;
        s[i].id = s[i].merged;
        s[i].len += s[right].len;
        s[i].next = s[right].next;
        s[right].len = 0;
        if (s[i].next >= 0) s[s[i].next].prev = i;
        find(e, word, i);
        MLSI_TRY(offer(e, i));
        if (s[i].prev < 0) continue;
        find(e, word, s[i].prev);
        MLSI_TRY(offer(e, s[i].prev));
    }
    return MLSYS_OK;
}
