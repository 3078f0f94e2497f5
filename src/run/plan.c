/* Memory plan: offsets for intervals. In some order, each interval gets the lowest offset free of those placed before it
 * that are alive at the same time. One of all orders is optimal: lowering intervals one by one keeps a plan valid.
 *
 * First by size, the largest first. No plan needs less than the most bytes that are alive at one step; where that is not
 * reached other orders are tried, and all of them where there are few intervals. So the total is the optimum for up to
 * MLSI_PLAN_EXACT intervals, and else at most twice the bytes that are ever alive with one interval x (itself included):
 * by size, each gap below x lies under an interval that is alive with x and larger than the gap, as the gap is
 * smaller than x.
 *
 * Those are found by a tree over the intervals in the order of their first step: a node holds the
 * greatest last step of the placed intervals below it, so a search visits only what it reports. */
#include "core/faults.h"
#include "run/program.h"

#include <string.h>

typedef struct planner {
    mlsi_interval *items;
    int64_t n, leaves;
    int32_t *order;    /* items, largest first */
    int32_t *by_first; /* items in the order of their first step */
    int32_t *rank;     /* where an item stands in by_first */
    int32_t *tree;     /* tree[1] is the root, tree[leaves + r] belongs to by_first[r] */
    int32_t *found;
    int32_t *best; /* the order with the least total so far */
} planner;

enum { NOT_PLACED = -1 };

static int64_t leaves_for(int64_t n) {
    int64_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    return leaves;
}

int64_t mlsi_plan_scratch(int64_t n) { return 5 * n + 2 * leaves_for(n); }

/* ---- sorting: heap sort, in place, no recursion, no worst case ----------------------------------- */

typedef bool (*before_fn)(const mlsi_interval *items, int32_t a, int32_t b);

static bool larger(const mlsi_interval *items, int32_t a, int32_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    if (items[a].first != items[b].first) return items[a].first < items[b].first;
    return a < b;
}

static int64_t life(const mlsi_interval *x) { return (int64_t)x->last - x->first + 1; }

static bool longer(const mlsi_interval *items, int32_t a, int32_t b) {
    if (life(&items[a]) != life(&items[b])) return life(&items[a]) > life(&items[b]);
    return larger(items, a, b);
}

/* Bytes times steps; in floating point, since only the order counts. */
static bool wider(const mlsi_interval *items, int32_t a, int32_t b) {
    double x = (double)items[a].bytes * (double)life(&items[a]);
    double y = (double)items[b].bytes * (double)life(&items[b]);
    return x != y ? x > y : larger(items, a, b);
}

static bool ends_earlier(const mlsi_interval *items, int32_t a, int32_t b) {
    return items[a].last != items[b].last ? items[a].last < items[b].last : a < b;
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

/* ---- orders ------------------------------------------------------------------------------------------ */

/* The most bytes alive at one step; saturates. */
static uint64_t load(planner *p) {
    uint64_t now = 0, most = 0;
    int64_t ended = 0;
    for (int64_t i = 0; i < p->n; i++)
        p->found[i] = (int32_t)i;
    sort(p->items, ends_earlier, p->found, p->n);
    for (int64_t r = 0; r < p->n; r++) {
        const mlsi_interval *x = &p->items[p->by_first[r]];
        for (; ended < p->n && p->items[p->found[ended]].last < x->first; ended++)
            if (life(&p->items[p->found[ended]]) > 0) now -= p->items[p->found[ended]].bytes;
        if (life(x) > 0 && !mlsi_add_u64(now, x->bytes, &now)) return UINT64_MAX;
        if (now > most) most = now;
    }
    return most;
}

/* Each in turn at its lowest offset; reuse false: behind all others. */
static mlsys_status place_all(planner *p, const int32_t *order, bool reuse, uint64_t *total) {
    *total = 0;
    for (int64_t i = 0; i < 2 * p->leaves; i++)
        p->tree[i] = NOT_PLACED;
    for (int64_t i = 0; i < p->n; i++) {
        mlsi_interval *item = &p->items[order[i]];
        uint64_t end;
        item->offset = 0;
        if (!item->bytes) continue;
        item->offset = reuse ? lowest_offset(p, item) : *total;
        if (!mlsi_add_u64(item->offset, item->bytes, &end) || end > (uint64_t)INT64_MAX)
            return mlsi_fail(MLSYS_E_SHAPE, "plan: scratch memory of more than 2^63 bytes");
        if (end > *total) *total = end;
        place(p, order[i]);
    }
    return MLSYS_OK;
}

/* Keeps the order if its total is less. */
static void try_order(planner *p, before_fn before, uint64_t *least) {
    uint64_t total;
    sort(p->items, before, p->order, p->n);
    if (place_all(p, p->order, true, &total) != MLSYS_OK || total >= *least) return;
    *least = total;
    memcpy(p->best, p->order, sizeof *p->best * (size_t)p->n);
}

/* Where interval order[at] lies above those before it in the order. */
static uint64_t end_behind(planner *p, int64_t at) {
    mlsi_interval *x = &p->items[p->order[at]];
    x->offset = 0;
    for (int64_t j = 0; j < at;) {
        const mlsi_interval *o = &p->items[p->order[j++]];
        if (!o->bytes || o->first > x->last || x->first > o->last ||
            o->offset >= x->offset + x->bytes || x->offset >= o->offset + o->bytes)
            continue;
        x->offset = o->offset + o->bytes;
        j = 0;
    }
    return x->offset + x->bytes;
}

/* All orders of the first n of p->order that begin with its first `at`, whose total is so_far. */
static void try_all(planner *p, int64_t n, int64_t at, uint64_t so_far, uint64_t *least) {
    if (so_far >= *least) return;
    if (at == n) {
        *least = so_far;
        memcpy(p->best, p->order, sizeof *p->best * (size_t)p->n);
        return;
    }
    for (int64_t i = at; i < n; i++) {
        int32_t t = p->order[at];
        p->order[at] = p->order[i], p->order[i] = t;
        uint64_t end = end_behind(p, at);
        try_all(p, n, at + 1, end > so_far ? end : so_far, least);
        t = p->order[at];
        p->order[at] = p->order[i], p->order[i] = t;
    }
}

static void find_order(planner *p, uint64_t bound, uint64_t *least) {
    static const before_fn orders[] = {longer, wider, earlier};
    int64_t n = 0;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0] && *least > bound; i++)
        try_order(p, orders[i], least);
    if (*least <= bound || mlsi_fault(MLSI_FAULT_PLAN_ORDERS)) return;
    sort(p->items, larger, p->order, p->n); /* those without bytes stand last */
    while (n < p->n && p->items[p->order[n]].bytes)
        n++;
    if (n <= MLSI_PLAN_EXACT) try_all(p, n, 0, 0, least);
}

mlsys_status mlsi_plan(mlsi_interval *items, int32_t *scratch, int64_t n, bool reuse,
                       uint64_t *total) {
    planner p = {.items = items, .n = n, .leaves = leaves_for(n), .order = scratch};
    p.by_first = p.order + n;
    p.rank = p.by_first + n;
    p.found = p.rank + n;
    p.best = p.found + n;
    p.tree = p.best + n;
    for (int64_t i = 0; i < n; i++)
        p.order[i] = p.by_first[i] = (int32_t)i;
    sort(items, larger, p.order, n);
    sort(items, earlier, p.by_first, n);
    for (int64_t r = 0; r < n; r++)
        p.rank[p.by_first[r]] = (int32_t)r;
    MLSI_TRY(place_all(&p, p.order, reuse, total));
    uint64_t least = *total, bound = reuse ? load(&p) : least;
    if (least <= bound) return MLSYS_OK;
    if (n) memcpy(p.best, p.order, sizeof *p.best * (size_t)n);
    find_order(&p, bound, &least);
    return place_all(&p, p.best, true, total);
}
