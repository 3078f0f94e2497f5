/* What is kept for the backward pass.
 *
 * Sizes are those of the symbols at their maximum. Time is estimated from the ops' cost rules: only ratios count.
 * Everything is a function of the graph, the settings and the order of nodes, so the same graph is cut the same
 * way everywhere. */
#include "autodiff/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mlsi_config_key keys[] = {
    {"checkpoint", 's', "none", 0, 0,
     "what is kept for the backward pass: none (all that it reads), every, sqrt, ops, bytes"},
    {"every", 'i', "32", 1, 1e9, "every: nodes per segment; what crosses a boundary is kept"},
    {"keep", 's', "dot_general,matmul,quant_matmul,conv,attention", 0, 0,
     "ops: whose results are kept"},
    {"bytes", 'i', "0", 0, 9e18, "bytes: of forward values alive in the backward pass"}};

const mlsi_config_key *mlsi_gradient_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

/* Is op's name in the list? */
static bool named_in(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p = strchr(p, ','), p = p ? p + 1 : NULL)
        if (strcspn(p, ",") == n && !memcmp(p, name, n)) return true;
    return false;
}

static mlsys_status check_names(const char *list) {
    for (const char *p = list; p && *p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        size_t n = strcspn(p, ",");
        int op = 0;
        while (op < MLSI_OP_COUNT &&
               (strlen(mlsi_op_name((mlsi_op)op)) != n || memcmp(mlsi_op_name((mlsi_op)op), p, n)))
            op++;
        if (op == MLSI_OP_COUNT)
            return mlsi_fail(MLSYS_E_NOTFOUND, "gradient: keep names no op \"%.*s\"",
                             n > 64 ? 64 : (int)n, p);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_checkpoint_read(const mlsi_config *c, mlsi_checkpoint *out) {
    static const char *const kinds[] = {"none", "every", "sqrt", "ops", "bytes"};
    int n, kind = 0;
    const mlsi_config_key *table = mlsi_gradient_config_keys(&n);
    MLSI_TRY(mlsi_config_check(c, "gradient", table, n));
    const char *name = mlsi_config_str(c, "checkpoint", kinds[0]);
    while (kind < 5 && strcmp(kinds[kind], name))
        kind++;
    if (kind == 5)
        return mlsi_fail(MLSYS_E_ARG,
                         "gradient: checkpoint \"%.64s\" is not none, every, sqrt, ops or bytes",
                         name);
    *out = (mlsi_checkpoint){.kind = (mlsi_checkpoint_kind)kind,
                             .every = mlsi_config_i64(c, "every", 32),
                             .bytes = mlsi_config_i64(c, "bytes", 0),
                             .keep = mlsi_config_str(c, "keep", keys[2].default_text)};
    return out->kind == MLSI_CHECKPOINT_OPS ? check_names(out->keep) : MLSYS_OK;
}

/* ---- sizes and times ----------------------------------------------------------------------- */

typedef struct chooser {
    mlsi_replay *r;
    const mlsi_func *f;
    mlsi_arena arena;
    int64_t *binding;
    double *bytes, *time; /* per value; per node */
    int32_t *root;        /* per value: the value whose memory a view shows */
    bool *useful;         /* per node: it would run again if nothing was kept */
    int64_t *born, *last; /* per value: steps of the walk between which it is alive */
    double *change;       /* per step: bytes that come; then those that go, at n_nodes + step */
    double *live;         /* per node: bytes that a cut before it would keep */
    double *before;       /* per node: weight of the nodes before it */
    int32_t *order;       /* values, most time per byte first */
    int64_t n_order;
} chooser;

#define ARRAY(c, n, out)                                                                           \
    mlsi_arena_zalloc(&(c)->arena, sizeof **(out) * ((size_t)(n) + 1), (void **)(out))

static const double unknown =
    1e18; /* of what does not fit 63 bits with the symbols at their maximum */

static mlsys_status bind(chooser *c) {
    const mlsi_symtab *t = &c->r->g->symbols;
    MLSI_TRY(ARRAY(c, t->n_symbols, &c->binding));
    for (int64_t i = 0; i < t->n_symbols; i++)
        c->binding[i] = t->symbols[i].max - t->symbols[i].max % t->symbols[i].divisor;
    return MLSYS_OK;
}

/* By the op's cost rule: operations, and ten for each byte moved or elementary function. */
static double time_of(const chooser *c, const mlsi_func *f, const mlsi_node *node) {
    mlsi_view views[2 * MLSI_MAX_OPERANDS];
    _Alignas(16) char attrs[1024];
    mlsi_op_cost cost = {0};
    const mlsi_op_def *def = mlsi_op_get(node->op);
    memset(views, 0, sizeof views);
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        mlsi_layout l;
        int32_t v = i < node->n_in ? node->in[i] : node->first_out + i - node->n_in;
        if (v < 0) continue;
        if (mlsi_type_layout(&c->r->g->symbols, &f->values[v].type, c->binding, &l) != MLSYS_OK)
            return unknown;
        views[i] = mlsi_view_of(NULL, &l);
        *(i < node->n_in ? &cost.bytes_read : &cost.bytes_written) += mlsi_layout_bytes(&l);
    }
    if (mlsi_attrs_resolve(def, node->attrs, &c->r->g->symbols, c->binding, attrs) != MLSYS_OK)
        return unknown;
    mlsi_cost_args a = {.attrs = attrs,
                        .n_in = node->n_in,
                        .n_out = node->n_out,
                        .in = views,
                        .out = views + node->n_in};
    if (def->cost) def->cost(&a, &cost);
    return (double)cost.flops + 10 * ((double)cost.transcendentals + (double)cost.bytes_read +
                                      (double)cost.bytes_written);
}

/* Functions name later ones only. One turn of a while; both branches of an if. */
static mlsys_status measure_functions(chooser *c, double **out) {
    const mlsi_graph *g = c->r->g;
    double *time;
    MLSI_TRY(ARRAY(c, g->n_funcs, &time));
    for (int64_t k = g->n_funcs - 1; k > c->r->func; k--)
        for (int64_t i = 0; i < g->funcs[k].n_nodes; i++) {
            const mlsi_node *node = &g->funcs[k].nodes[i];
            const mlsi_attr_control *a = node->attrs;
            if (node->op == MLSI_OP_CALL || node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE)
                time[k] += time[a->fn1] + (node->op == MLSI_OP_CALL ? 0 : time[a->fn2]);
            else
                time[k] += time_of(c, &g->funcs[k], node);
        }
    *out = time;
    return MLSYS_OK;
}

static mlsys_status measure(chooser *c) {
    const mlsi_replay *r = c->r;
    double *functions;
    MLSI_TRY(ARRAY(c, r->n_values, &c->bytes));
    MLSI_TRY(ARRAY(c, r->n_nodes, &c->time));
    MLSI_TRY(ARRAY(c, r->n_values, &c->root));
    MLSI_TRY(measure_functions(c, &functions));
    for (int64_t v = 0; v < r->n_values; v++) {
        mlsi_layout l;
        const mlsi_value_def *def = &c->f->values[v];
        c->root[v] = (int32_t)v;
        if (r->kind[v] == MLSI_REPLAY_VIEW) c->root[v] = c->root[c->f->nodes[def->index].in[0]];
        if (r->kind[v] != MLSI_REPLAY_COMPUTED) continue;
        bool fits = mlsi_type_layout(&r->g->symbols, &def->type, c->binding, &l) == MLSYS_OK;
        c->bytes[v] = fits ? (double)mlsi_layout_bytes(&l) : unknown;
    }
    for (int64_t i = 0; i < r->n_nodes; i++) {
        const mlsi_node *node = &c->f->nodes[i];
        const mlsi_attr_control *a = node->attrs;
        if (r->kind[node->first_out] != MLSI_REPLAY_COMPUTED) continue;
        if (node->op == MLSI_OP_CALL || node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE)
            c->time[i] = functions[a->fn1] + (node->op == MLSI_OP_CALL ? 0 : functions[a->fn2]);
        else
            c->time[i] = time_of(c, c->f, node);
    }
    return MLSYS_OK;
}

/* ---- what a choice costs ------------------------------------------------------------------- */

static void forget(chooser *c, bool kept_too) {
    memset(c->r->done, 0, sizeof *c->r->done * (size_t)c->r->n_nodes);
    if (kept_too) memset(c->r->kept, 0, sizeof *c->r->kept * (size_t)c->r->n_values);
    c->r->n_batch = 0;
}

static void read_at(chooser *c, int32_t v, int64_t step) {
    if (v >= 0) c->last[c->root[v]] = step;
}

/* The walk back with what is kept now. Steps are nodes, from the last to the first. time: of computing again;
 * peak: forward values alive at once, kept or computed again. */
static void estimate(chooser *c, double *peak, double *time) {
    mlsi_replay *r = c->r;
    int64_t n = r->n_nodes;
    forget(c, false);
    *peak = *time = 0;
    for (int64_t v = 0; v < r->n_values; v++)
        c->born[v] = r->kept[v] ? n - 1 : -1, c->last[v] = -1;
    for (int64_t i = n - 1, done = 0; i >= 0; i--) {
        for (int64_t k = r->need_start[i]; k < r->need_start[i + 1]; k++) {
            read_at(c, r->need[k], i);
            mlsi_replay_demand(r, r->need[k], 0);
        }
        for (; done < r->n_batch; done++) {
            const mlsi_node *node = &c->f->nodes[r->batch[done]];
            *time += c->time[r->batch[done]];
            for (int k = 0; k < node->n_in; k++)
                read_at(c, node->in[k], i);
            for (int k = 0; k < node->n_out; k++)
                if (c->born[node->first_out + k] < 0) c->born[node->first_out + k] = i;
        }
    }
    memset(c->change, 0, sizeof *c->change * (size_t)(2 * n));
    for (int64_t v = 0; v < r->n_values; v++) {
        if (c->born[v] < 0 || (r->kept[v] && c->last[v] < 0)) continue;
        c->change[c->born[v]] += c->bytes[v];
        c->change[n + (c->last[v] < 0 ? c->born[v] : c->last[v])] += c->bytes[v];
    }
    double alive = 0;
    for (int64_t i = n - 1; i >= 0; i--) {
        alive += c->change[i];
        if (alive > *peak) *peak = alive;
        alive -= c->change[n + i];
    }
}

static void keep_needs(chooser *c, int64_t first) {
    const mlsi_replay *r = c->r;
    for (int64_t k = r->need_start[first]; k < r->need_start[r->n_nodes]; k++) {
        int32_t v = c->root[r->need[k]];
        if (r->kind[v] == MLSI_REPLAY_COMPUTED) r->kept[v] = true;
    }
}

/* ---- segments ------------------------------------------------------------------------------ */

/* Which nodes matter at all, and for each place between nodes the bytes of values that are made before it and
 * read from it on, by nodes that may run again or by rules. */
static void find_live(chooser *c) {
    mlsi_replay *r = c->r;
    forget(c, true);
    for (int64_t k = 0; k < r->need_start[r->n_nodes]; k++)
        mlsi_replay_demand(r, r->need[k], 0);
    memcpy(c->useful, r->done, sizeof *c->useful * (size_t)r->n_nodes);
    memset(c->last, 0, sizeof *c->last * (size_t)r->n_values);
    for (int64_t i = 0; i < r->n_nodes; i++) { /* ascending: the last reader stays */
        for (int64_t k = r->need_start[i]; k < r->need_start[i + 1]; k++)
            read_at(c, r->need[k], i);
        for (int k = 0; c->useful[i] && k < c->f->nodes[i].n_in; k++)
            read_at(c, c->f->nodes[i].in[k], i);
    }
    memset(c->live, 0, sizeof *c->live * (size_t)(r->n_nodes + 1));
    for (int64_t v = 0; v < r->n_values; v++) {
        int64_t n = c->f->values[v].index;
        if (r->kind[v] != MLSI_REPLAY_COMPUTED || c->last[v] <= n) continue;
        c->live[n + 1] += c->bytes[v];
        c->live[c->last[v] + 1] -= c->bytes[v];
    }
    for (int64_t i = 1; i <= r->n_nodes; i++)
        c->live[i] += c->live[i - 1];
}

static bool counts(const chooser *c, int64_t node) {
    return c->useful[node] && c->r->kind[c->f->nodes[node].first_out] == MLSI_REPLAY_COMPUTED;
}

/* Sets before; the total. by_bytes: of results, else one for each node. */
static double weigh(chooser *c, bool by_bytes) {
    double sum = 0;
    for (int64_t i = 0; i < c->r->n_nodes; i++) {
        c->before[i] = sum;
        if (!counts(c, i)) continue;
        if (!by_bytes) sum += 1;
        for (int k = 0; by_bytes && k < c->f->nodes[i].n_out; k++)
            sum += c->bytes[c->f->nodes[i].first_out + k];
    }
    return c->before[c->r->n_nodes] = sum;
}

/* The place after `from` whose weight is at most a third of a segment off the target and where the least is
 * alive, the nearest of equal ones; without one the first place past the target. -1 = none. */
static int64_t best_cut(const chooser *c, int64_t from, double target, double segment) {
    int64_t best = -1;
    for (int64_t p = from + 1; p < c->r->n_nodes; p++) {
        double off = fabs(c->before[p] - target);
        if (best < 0 && c->before[p] >= target) best = p;
        if (c->before[p] > target + segment / 3) break;
        if (off > segment / 3) continue;
        if (best < 0 || c->live[p] < c->live[best] ||
            (c->live[p] == c->live[best] && off < fabs(c->before[best] - target)))
            best = p;
    }
    return best;
}

/* The last segment runs just before the backward pass, so all of it is kept. Of the others what a later one reads
 * is kept; the last ones come first, for what they read may be made by several before. */
static void keep_crossing(chooser *c, const int64_t *cuts, int64_t n_cuts) {
    mlsi_replay *r = c->r;
    int64_t end = n_cuts ? cuts[n_cuts - 1] : 0;
    forget(c, true);
    keep_needs(c, end);
    for (int64_t s = n_cuts - 1; s >= 0; s--) {
        int64_t start = s ? cuts[s - 1] : 0;
        for (int64_t k = r->need_start[end] - 1; k >= r->need_start[start]; k--)
            mlsi_replay_demand(r, r->need[k], start);
        end = start;
    }
}

/* Segments of this weight. */
static mlsys_status keep_segments(chooser *c, double total, double segment) {
    int64_t n = 0, from = 0, *cuts;
    MLSI_TRY(MLSI_NEW_N(c->r->g->alloc, c->r->n_nodes + 1, &cuts));
    for (int64_t j = 1; (double)j * segment < total && n < c->r->n_nodes; j++) {
        int64_t p = best_cut(c, from, (double)j * segment, segment);
        if (p < 0) break;
        cuts[n++] = from = p;
        while ((double)(j + 1) * segment <= c->before[p]) /* a heavy node takes several shares */
            j++;
    }
    keep_crossing(c, cuts, n);
    mlsi_mem_free(c->r->g->alloc, cuts);
    return MLSYS_OK;
}

/* ---- policies ------------------------------------------------------------------------------ */

static int64_t count_useful(const chooser *c) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->r->n_nodes; i++)
        n += counts(c, i);
    return n;
}

static void keep_ops(chooser *c, const char *list) {
    forget(c, true);
    for (int64_t i = 0; i < c->r->n_nodes; i++) {
        const mlsi_node *node = &c->f->nodes[i];
        if (!counts(c, i) || !named_in(list, mlsi_op_name(node->op))) continue;
        for (int k = 0; k < node->n_out; k++)
            c->r->kept[node->first_out + k] =
                c->r->kind[node->first_out + k] == MLSI_REPLAY_COMPUTED;
    }
}

typedef struct candidate {
    double ratio;
    int32_t value;
} candidate;

static int dearest_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->ratio != y->ratio) return x->ratio < y->ratio ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

/* What would be computed again, most time per byte first. */
static mlsys_status rank(chooser *c) {
    candidate *all;
    c->n_order = 0;
    MLSI_TRY(MLSI_NEW_N(c->r->g->alloc, c->r->n_values + 1, &all));
    for (int32_t v = 0; v < c->r->n_values; v++)
        if (c->r->kind[v] == MLSI_REPLAY_COMPUTED && !c->r->kept[v] &&
            c->useful[c->f->values[v].index])
            all[c->n_order++] = (candidate){c->time[c->f->values[v].index] / (c->bytes[v] + 1), v};
    qsort(all, (size_t)c->n_order, sizeof *all, dearest_first);
    for (int64_t i = 0; i < c->n_order; i++)
        c->order[i] = all[i].value;
    mlsi_mem_free(c->r->g->alloc, all);
    return MLSYS_OK;
}

static void keep_first(chooser *c, int64_t from, int64_t to, bool kept) {
    for (int64_t i = from; i < to; i++)
        c->r->kept[c->order[i]] = kept;
}

/* As many of the dearest ones as the budget lets, on top of what is kept. */
static mlsys_status fill(chooser *c, double budget, double *peak, double *time) {
    int64_t low = 0, high;
    MLSI_TRY(rank(c));
    for (high = c->n_order; low < high;) {
        int64_t middle = low + (high - low + 1) / 2;
        keep_first(c, low, middle, true);
        estimate(c, peak, time);
        if (*peak <= budget) {
            low = middle;
        } else {
            keep_first(c, low, middle, false);
            high = middle - 1;
        }
    }
    estimate(c, peak, time);
    return MLSYS_OK;
}

/* Of all numbers of segments that fit, filled up, the one that costs least time; if none fits, the one that
 * needs least. */
static mlsys_status keep_within(chooser *c, double budget) {
    double total = weigh(c, true), peak, time, best_peak, best_time;
    int64_t n = count_useful(c);
    bool *best;
    size_t size = sizeof *best * (size_t)c->r->n_values;
    MLSI_TRY(ARRAY(c, c->r->n_values, &best));
    forget(c, true);
    keep_needs(c, 0);
    estimate(c, &best_peak, &best_time);
    if (best_peak <= budget) return MLSYS_OK;
    memcpy(best, c->r->kept, size);
    for (int64_t s = 2; s <= n; s += s / 3 + 1) {
        MLSI_TRY(keep_segments(c, total, total / (double)s));
        estimate(c, &peak, &time);
        if (peak <= budget) MLSI_TRY(fill(c, budget, &peak, &time));
        bool fits = peak <= budget, fitted = best_peak <= budget;
        if (fits != fitted ? !fits : fits ? time >= best_time : peak >= best_peak) continue;
        memcpy(best, c->r->kept, size);
        best_peak = peak, best_time = time;
    }
    memcpy(c->r->kept, best, size);
    return MLSYS_OK;
}

static mlsys_status choose(chooser *c, const mlsi_checkpoint *p) {
    int64_t n = c->r->n_nodes;
    MLSI_TRY(bind(c));
    MLSI_TRY(measure(c));
    MLSI_TRY(ARRAY(c, n, &c->useful));
    MLSI_TRY(ARRAY(c, c->r->n_values, &c->born));
    MLSI_TRY(ARRAY(c, c->r->n_values, &c->last));
    MLSI_TRY(ARRAY(c, c->r->n_values, &c->order));
    MLSI_TRY(ARRAY(c, 2 * n, &c->change));
    MLSI_TRY(ARRAY(c, n + 1, &c->live));
    MLSI_TRY(ARRAY(c, n + 1, &c->before));
    find_live(c);
    switch (p->kind) {
    case MLSI_CHECKPOINT_EVERY: return keep_segments(c, weigh(c, false), (double)p->every);
    case MLSI_CHECKPOINT_SQRT: {
        double total = weigh(c, true), segments = ceil(sqrt((double)count_useful(c)));
        return keep_segments(c, total, segments > 0 ? total / segments : 1);
    }
    case MLSI_CHECKPOINT_OPS: keep_ops(c, p->keep); return MLSYS_OK;
    case MLSI_CHECKPOINT_BYTES: return keep_within(c, (double)p->bytes);
    default: keep_needs(c, 0); return MLSYS_OK;
    }
}

mlsys_status mlsi_replay_choose(mlsi_replay *r, const mlsi_checkpoint *p) {
    chooser c = {.r = r, .f = &r->g->funcs[r->func]};
    mlsi_arena_init(&c.arena, r->g->alloc);
    mlsys_status st = choose(&c, p);
    mlsi_arena_free(&c.arena);
    if (st == MLSYS_OK) {
        memset(r->done, 0, sizeof *r->done * (size_t)r->n_nodes);
        r->n_batch = 0;
    }
    return st;
}
