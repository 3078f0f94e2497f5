/* Orders of tasks by list scheduling over live bytes, forwards and backwards, and how much memory each would need.
 *
 * A list holds the tasks that may come next, in the order of a base. LEAST takes, of the first WINDOW of them, the one behind which
 * the fewest bytes are alive; EAGER the first that leaves no more bytes alive than it found, else simply the first. Backwards, from
 * the results, a task gives its results' bytes and takes those of operands that nobody behind it reads: so a
 * value is computed as late as its readers let it, which forwards cannot be seen.
 * Orders that one way makes are bases for EAGER. */
#include "core/faults.h"
#include "ir/passes/order.h"

#include <string.h>

enum { WINDOW = 32 };

typedef enum choice { LEAST, EAGER } choice;

typedef struct lister {
    const mlsi_tasks *t;
    bool backwards;
    int32_t *rank;    /* per task: its place in the base */
    int32_t *pending; /* per task: neighbours that must come first */
    int32_t *left;    /* per root: readers that have not come; backwards: those that have */
    int32_t *list;    /* tasks that may come next, by rank */
    int32_t *views;   /* views that may: they come at once */
    int32_t n_list, n_views, n_order;
    int32_t *order;
} lister;

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

/* Change of the live bytes: while the task runs, and behind it. Sums saturate by halves: only their order counts. */
typedef struct change {
    int64_t during, after;
} change;

static int64_t sum(int64_t a, int64_t b) {
    int64_t s;
    return mlsi_add_i64(a, b, &s) ? s : a < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
}

/* The root of operand i, -1 where there is none or an earlier operand has it too. */
static int32_t own_root(const mlsi_tasks *t, const mlsi_node *node, int i) {
    if (node->in[i] < 0) return -1;
    int32_t root = t->root[node->in[i]];
    for (int k = 0; k < i; k++)
        if (node->in[k] >= 0 && t->root[node->in[k]] == root) return -1;
    return root;
}

static change change_of(const mlsi_tasks *t, const int32_t *left, int32_t n) {
    const mlsi_node *node = &t->f->nodes[n];
    int64_t made = 0, gone = 0, shared = 0, unread = 0;
    for (int i = 0; i < node->n_out; i++) {
        int32_t v = node->first_out + i;
        made = sum(made, t->bytes[v]);
        if (!t->readers[v]) unread = sum(unread, t->bytes[v]);
    }
    for (int i = 0; i < node->n_in; i++) {
        int32_t root = own_root(t, node, i);
        if (root < 0 || left[root] != 1 || !t->bytes[root]) continue;
        gone = sum(gone, t->bytes[root]);
        if (i < 32 && t->in_place[n] >> i & 1 &&
            mlsi_type_equal(&t->f->values[root].type, &t->f->values[node->first_out].type))
            shared = t->bytes[node->first_out];
    }
    return (change){sum(made, -shared), sum(sum(made, -gone), -unread)};
}

static int64_t change_backwards(const mlsi_tasks *t, const int32_t *come, int32_t n) {
    const mlsi_node *node = &t->f->nodes[n];
    int64_t bytes = 0;
    for (int i = 0; i < node->n_in; i++) {
        int32_t root = own_root(t, node, i);
        if (root >= 0 && !come[root]) bytes = sum(bytes, t->bytes[root]);
    }
    for (int i = 0; i < node->n_out; i++)
        bytes = sum(bytes, -t->bytes[node->first_out + i]);
    return bytes;
}

static void count_task(const mlsi_tasks *t, int32_t *left, int32_t n, int by) {
    const mlsi_node *node = &t->f->nodes[n];
    for (int i = 0; i < node->n_in && !t->view[n]; i++) {
        int32_t root = own_root(t, node, i);
        if (root >= 0) left[root] += by;
    }
}

static int64_t peak_of(const mlsi_tasks *t, int32_t *left, const int32_t *order) {
    int64_t live = 0, peak = 0;
    memcpy(left, t->readers, sizeof *left * (size_t)t->f->n_values);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->view[order[i]]) continue;
        change c = change_of(t, left, order[i]);
        if (sum(live, c.during) > peak) peak = sum(live, c.during);
        live = sum(live, c.after);
        count_task(t, left, order[i], -1);
    }
    return peak;
}

mlsys_status mlsi_order_peak(const mlsi_tasks *t, const int32_t *order, int64_t *bytes) {
    int32_t *left;
    MLSI_TRY(MLSI_NEW_N(t->alloc, t->f->n_values + 1, &left));
    *bytes = peak_of(t, left, order);
    mlsi_mem_free(t->alloc, left);
    return MLSYS_OK;
}

/* ---- lists ---------------------------------------------------------------------------------------------------- */

static void may_come(lister *l, int32_t n) {
    int32_t low = 0, high = l->n_list;
    if (l->t->view[n]) {
        l->views[l->n_views++] = n;
        return;
    }
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (l->rank[l->list[middle]] < l->rank[n])
            low = middle + 1;
        else
            high = middle;
    }
    memmove(l->list + low + 1, l->list + low, sizeof *l->list * (size_t)(l->n_list++ - low));
    l->list[low] = n;
}

static int32_t best_in_list(const lister *l, choice by) {
    int32_t best = 0, n = l->n_list < WINDOW ? l->n_list : WINDOW;
    change least = {INT64_MAX, INT64_MAX};
    for (int32_t i = 0; i < n; i++) {
        change c = {0, 0};
        if (l->backwards)
            c.after = change_backwards(l->t, l->left, l->list[i]);
        else
            c = change_of(l->t, l->left, l->list[i]);
        if (by == EAGER && c.after <= 0) return i;
        if (by == EAGER ||
            (c.after > least.after || (c.after == least.after && c.during >= least.during)))
            continue;
        least = c;
        best = i;
    }
    return best;
}

static int32_t take(lister *l, choice by) {
    if (l->n_views) return l->views[--l->n_views];
    int32_t at = best_in_list(l, by), n = l->list[at];
    l->n_list--;
    memmove(l->list + at, l->list + at + 1, sizeof *l->list * (size_t)(l->n_list - at));
    return n;
}

/* From base into l->order. */
static void list_tasks(lister *l, const int32_t *base, bool backwards, choice by) {
    const mlsi_tasks *t = l->t;
    const int32_t *first = backwards ? t->first_prev : t->first_next;
    const int32_t *next = backwards ? t->prev : t->next;
    const int32_t *waits = backwards ? t->first_next : t->first_prev;
    l->backwards = backwards;
    l->n_list = l->n_views = l->n_order = 0;
    for (int32_t i = 0; i < t->n; i++)
        l->rank[base[i]] = backwards ? t->n - 1 - i : i;
    if (backwards)
        memset(l->left, 0, sizeof *l->left * (size_t)t->f->n_values);
    else
        memcpy(l->left, t->readers, sizeof *l->left * (size_t)t->f->n_values);
    for (int32_t i = 0; i < t->n; i++) {
        l->pending[i] = waits[i + 1] - waits[i];
        if (!l->pending[i]) may_come(l, i);
    }
    while (l->n_list || l->n_views) {
        int32_t n = take(l, by);
        l->order[backwards ? t->n - 1 - l->n_order : l->n_order] = n;
        l->n_order++;
        count_task(t, l->left, n, backwards ? 1 : -1);
        for (int32_t e = first[n]; e < first[n + 1]; e++)
            if (--l->pending[next[e]] == 0) may_come(l, next[e]);
    }
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

/* l->order into best where it needs less. */
static void keep_less(lister *l, int32_t *best, int64_t *least) {
    int64_t peak = peak_of(l->t, l->left, l->order);
    if (peak >= *least) return;
    *least = peak;
    memcpy(best, l->order, sizeof *best * (size_t)l->t->n);
}

/* The graph's order, one by LEAST, one backwards; and each of them made EAGER. */
static void search(lister *l, int32_t *base, int32_t *order, bool *better) {
    enum { AS_IT_IS, FORWARDS, BACKWARDS, WAYS };
    const size_t bytes = sizeof *order * (size_t)l->t->n;
    const int64_t before = peak_of(l->t, l->left, order);
    int64_t least = before;
    for (int way = AS_IT_IS; way < WAYS; way++) {
        for (int32_t i = 0; i < l->t->n; i++)
            base[i] = i;
        if (way != AS_IT_IS) {
            list_tasks(l, base, way == BACKWARDS, LEAST);
            keep_less(l, order, &least);
            memcpy(base, l->order, bytes);
        }
        list_tasks(l, base, false, EAGER);
        keep_less(l, order, &least);
    }
    *better = least < before - before / 64; /* the plan is asked, which costs time */
}

mlsys_status mlsi_order_search(const mlsi_tasks *t, int32_t *order, bool *better) {
    lister l = {.t = t};
    int32_t *room;
    *better = false;
    if (t->n < 3) return MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(t->alloc, 6 * (int64_t)t->n + t->f->n_values + 1, &room));
    l.rank = room;
    l.pending = l.rank + t->n;
    l.list = l.pending + t->n;
    l.views = l.list + t->n;
    l.order = l.views + t->n;
    l.left = l.order + 2 * t->n;
    search(&l, l.order + t->n, order, better);
    mlsi_mem_free(t->alloc, room);
    return MLSYS_OK;
}
