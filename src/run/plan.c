/* Memory plan: offsets for intervals. Greedy by size: the largest interval first, each at the lowest
 * offset free of those placed before it that are alive at the same time. */
#include "run/program.h"

static bool before(const mlsi_interval *items, int32_t a, int32_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    if (items[a].first != items[b].first) return items[a].first < items[b].first;
    return a < b;
}

static void sift(const mlsi_interval *items, int32_t *order, int64_t start, int64_t end) {
    for (int64_t root = start;;) {
        int64_t child = 2 * root + 1;
        if (child >= end) return;
        if (child + 1 < end && before(items, order[child], order[child + 1])) child++;
        if (!before(items, order[root], order[child])) return;
        int32_t t = order[root];
        order[root] = order[child];
        order[child] = t;
        root = child;
    }
}

/* Heap sort: in place, no recursion, no worst case. */
static void sort_order(const mlsi_interval *items, int32_t *order, int64_t n) {
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(items, order, i, n);
    for (int64_t end = n - 1; end > 0; end--) {
        int32_t t = order[0];
        order[0] = order[end];
        order[end] = t;
        sift(items, order, 0, end);
    }
}

static bool alive_together(const mlsi_interval *a, const mlsi_interval *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest offset at which item fits: restart above each conflict until none is left. Each restart moves
 * past at least one placed interval, so this ends. */
static uint64_t lowest_offset(const mlsi_interval *items, const int32_t *order, int64_t placed,
                              const mlsi_interval *item) {
    uint64_t at = 0;
    for (int64_t i = 0; i < placed;) {
        const mlsi_interval *o = &items[order[i]];
        bool conflict = o->bytes && alive_together(o, item) && at < o->offset + o->bytes &&
                        o->offset < at + item->bytes;
        if (!conflict) {
            i++;
            continue;
        }
        at = o->offset + o->bytes;
        i = 0;
    }
    return at;
}

uint64_t mlsi_plan(mlsi_interval *items, int32_t *order, int64_t n, bool reuse) {
    uint64_t total = 0;
    sort_order(items, order, n);
    for (int64_t i = 0; i < n; i++) {
        mlsi_interval *item = &items[order[i]];
        item->offset = 0;
        if (!item->bytes) continue;
        item->offset = reuse ? lowest_offset(items, order, i, item) : total;
        if (item->offset + item->bytes > total) total = item->offset + item->bytes;
    }
    return total;
}
