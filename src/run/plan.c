/* Memory plan: offsets for intervals. Greedy by size: the largest interval first, each at the lowest
 * offset free of those placed before it that are alive at the same time.
 *
 * Those are found by a tree over the intervals in the order of their first step: a node holds the
 * greatest last step of the placed intervals below it, so a search visits only what it reports. */
#include "core/faults.h"
#include "run/program.h"

typedef struct planner {
    mlsi_interval *items;
    int64_t n, leaves;
    int32_t *order;    /* items, largest first */
    int32_t *by_first; /* items in the order of their first step */
    int32_t *rank;     /* where an item stands in by_first */
    int32_t *tree;     /* tree[1] is the root, tree[leaves + r] belongs to by_first[r] */
    int32_t *found;
} planner;

enum { NOT_PLACED = -1 };

static int64_t leaves_for(int64_t n) {
    int64_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    return leaves;
}

int64_t mlsi_plan_scratch(int64_t n) { return 4 * n + 2 * leaves_for(n); }

/* ---- sorting: heap sort, in place, no recursion, no worst case ----------------------------------- */

typedef bool (*before_fn)(const mlsi_interval *items, int32_t a, int32_t b);

static bool larger(const mlsi_interval *items, int32_t a, int32_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    if (items[a].first != items[b].first) return items[a].first < items[b].first;
    return a < b;
}

static bool earlier(const mlsi_interval *items, int32_t a, int32_t b) {
    return items[a].first != items[b].first ? items[a].first < items[b].first : a < b;
}

static bool lower(const mlsi_interval *items, int32_t a, int32_t b) {
    return items[a].offset != items[b].offset ? items[a].offset < items[b].offset : a < b;
}

static void sift(const mlsi_interval *items, before_fn before, int32_t *a, int64_t root,
                 int64_t end) {
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= end) return;
        if (child + 1 < end && before(items, a[child], a[child + 1])) child++;
        if (!before(items, a[root], a[child])) return;
        int32_t t = a[root];
        a[root] = a[child];
        a[child] = t;
        root = child;
    }
}

static void sort(const mlsi_interval *items, before_fn before, int32_t *a, int64_t n) {
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(items, before, a, i, n);
    for (int64_t end = n - 1; end > 0; end--) {
        int32_t t = a[0];
        a[0] = a[end];
        a[end] = t;
        sift(items, before, a, 0, end);
    }
}

/* ---- who is alive together ----------------------------------------------------------------------- */

static void place(planner *p, int32_t item) {
    int64_t at = p->leaves + p->rank[item];
    for (p->tree[at] = p->items[item].last, at /= 2; at; at /= 2) {
        int32_t a = p->tree[2 * at], b = p->tree[2 * at + 1];
        p->tree[at] = a > b ? a : b;
    }
}

/* Ranks below this one start no later than step. */
static int64_t ranks_until(const planner *p, int32_t step) {
    int64_t low = 0, high = p->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (p->items[p->by_first[middle]].first <= step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Placed intervals that are alive with item, into found. */
static int64_t find_alive(planner *p, const mlsi_interval *item) {
    int64_t end = ranks_until(p, item->last), n = 0, stack[128];
    int depth = 0;
    stack[depth++] = 1;
    while (depth) {
        int64_t node = stack[--depth], first = node, width = 1;
        if (p->tree[node] < item->first) continue;
        for (; first < p->leaves; first *= 2)
            width *= 2;
        first -= p->leaves; /* ranks [first, first + width) are below */
        if (first >= end) continue;
        if (width == 1) {
            p->found[n++] = p->by_first[first];
            continue;
        }
        stack[depth++] = 2 * node + 1;
        stack[depth++] = 2 * node;
    }
    return n;
}

/* The lowest gap among them that holds item. */
static uint64_t lowest_offset(planner *p, const mlsi_interval *item) {
    int64_t n = find_alive(p, item);
    uint64_t at = 0;
    if (mlsi_fault(MLSI_FAULT_PLAN_OVERLAP) && n > 1) n--;
    sort(p->items, lower, p->found, n);
    for (int64_t i = 0; i < n; i++) {
        const mlsi_interval *o = &p->items[p->found[i]];
        if (o->offset >= at && o->offset - at >= item->bytes) break;
        if (o->offset + o->bytes > at) at = o->offset + o->bytes;
    }
    return at;
}

mlsys_status mlsi_plan(mlsi_interval *items, int32_t *scratch, int64_t n, bool reuse,
                       uint64_t *total) {
    planner p = {.items = items, .n = n, .leaves = leaves_for(n), .order = scratch};
    p.by_first = p.order + n;
    p.rank = p.by_first + n;
    p.found = p.rank + n;
    p.tree = p.found + n;
    *total = 0;
    for (int64_t i = 0; i < n; i++)
        p.order[i] = p.by_first[i] = (int32_t)i;
    sort(items, larger, p.order, n);
    sort(items, earlier, p.by_first, n);
    for (int64_t r = 0; r < n; r++)
        p.rank[p.by_first[r]] = (int32_t)r;
    for (int64_t i = 0; i < 2 * p.leaves; i++)
        p.tree[i] = NOT_PLACED;
    for (int64_t i = 0; i < n; i++) {
        mlsi_interval *item = &items[p.order[i]];
        uint64_t end;
        item->offset = 0;
        if (!item->bytes) continue;
        item->offset = reuse ? lowest_offset(&p, item) : *total;
        if (!mlsi_add_u64(item->offset, item->bytes, &end) || end > (uint64_t)INT64_MAX)
            return mlsi_fail(MLSYS_E_SHAPE, "plan: scratch memory of more than 2^63 bytes");
        if (end > *total) *total = end;
        place(&p, p.order[i]);
    }
    return MLSYS_OK;
}
