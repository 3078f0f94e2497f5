#include "engine/sampler.h"

#include "core/elementary.h"
#include "core/faults.h"
#include "core/rng.h"

#include <float.h>
#include <math.h>

static bool better(mlsi_candidate a, mlsi_candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void swap(mlsi_candidate *a, mlsi_candidate *b) {
    mlsi_candidate t = *a;
    *a = *b;
    *b = t;
}

/* Max-heap by `better`. */
static void sift(mlsi_candidate *c, int64_t root, int64_t n) {
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= n) return;
        if (child + 1 < n && better(c[child + 1], c[child])) child++;
        if (!better(c[child], c[root])) return;
        swap(&c[child], &c[root]);
        root = child;
    }
}

static mlsys_status load(const float *logits, int64_t n, mlsi_candidate *c) {
    bool finite = false;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]))
            return mlsi_fail(MLSYS_E_STATE, "sample: the logit of token %lld is NaN", (long long)i);
        finite |= isfinite(logits[i]) != 0;
        c[i] = (mlsi_candidate){logits[i], (int32_t)i};
    }
    if (!finite)
        return mlsi_fail(MLSYS_E_STATE, "sample: none of %lld logits is finite", (long long)n);
    return MLSYS_OK;
}

/* From the logits as given, so that a token counts once, however often it occurred. */
static void penalise(const mlsi_sampler *s, const float *logits, int64_t n, const int32_t *history,
                     int64_t n_history, mlsi_candidate *c) {
    float penalty = (float)s->repetition_penalty;
    int64_t first = n_history > s->repetition_window ? n_history - s->repetition_window : 0;
    for (int64_t i = first; i < n_history; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= n) continue;
        c[id].logit = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
}

static int32_t greedy(const mlsi_candidate *c, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (better(c[i], c[best])) best = i;
    return c[best].id;
}

/* The candidates in order, as far as somebody asked: the first of them is c[n - 1], the second
 * c[n - 2]; the others are a heap at the front. A vocabulary has 10^5 tokens, and a draw rarely
 * looks past a few hundred. */
typedef struct ranking {
    const mlsi_sampler *s;
    mlsi_candidate *c;
    int64_t n, ordered;
    float top;
} ranking;

static ranking rank(const mlsi_sampler *s, mlsi_candidate *c, int64_t n) {
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(c, i, n);
    return (ranking){.s = s, .c = c, .n = n, .top = c[0].logit};
}

/* The i-th best. */
static mlsi_candidate ranked(ranking *r, int64_t i) {
    for (; r->ordered <= i; r->ordered++) {
        int64_t last = r->n - 1 - r->ordered;
        swap(&r->c[0], &r->c[last]);
        sift(r->c, 0, last);
    }
    return r->c[r->n - 1 - i];
}

/* exp((logit - top) / temperature); 1 at the top, were it infinite. f64, so that a long tail adds
 * up. */
static double weight_of(const ranking *r, mlsi_candidate c) {
    double top = r->top;
    return c.logit == r->top ? 1 : mlsi_ed_exp((c.logit - top) / r->s->temperature);
}

/* Tokens from the best down whose weights, added in this order, first reach a limit that lies in
 * [low, high]; 0 when these do not tell. *mass = their sum. */
static int64_t nucleus(ranking *r, int64_t k, double low, double high, double *mass) {
    *mass = 0;
    for (int64_t i = 0; i < k; i++) {
        *mass += weight_of(r, ranked(r, i));
        if (*mass >= high) return i + 1;
        if (*mass >= low) return 0;
    }
    return k;
}

/* The first of k tokens whose sum of weights so far exceeds a u in [low, high]; -1 when these do
 * not tell. */
static int64_t draw(ranking *r, int64_t k, double low, double high) {
    double below = 0;
    for (int64_t i = 0; i < k; i++) {
        below += weight_of(r, ranked(r, i));
        if (below > high) return i;
        if (below > low) return -1;
    }
    return k - 1;
}

/* The definition: every sum is taken from the best token down. */
static int64_t draw_in_order(ranking *r, int64_t k, double uniform) {
    double total = 0, mass;
    for (int64_t i = 0; i < k; i++) {
        double weight = weight_of(r, ranked(r, i));
        if (i && weight < r->s->min_p)
            k = i;
        else
            total += weight;
    }
    double limit = r->s->top_p * total;
    k = nucleus(r, k, limit, limit, &mass);
    return draw(r, k, uniform * mass, uniform * mass);
}

/* The same token without ordering the tail, which counts for the total alone: added in another order
 * it is right to 2 n units of rounding. -1 when what depends on it lies that near to a limit. */
static int64_t draw_from_all(ranking *r, double uniform) {
    double total = 0, slack = 4 * (double)(r->n + 8) * DBL_EPSILON, mass;
    for (int64_t i = 0; i < r->n; i++)
        total += weight_of(r, r->c[i]);
    if (mlsi_fault(MLSI_FAULT_SAMPLER_TAIL)) slack = 0;
    double low = total * (1 - slack), high = total * (1 + slack);
    double top_p = r->s->top_p;
    if (top_p == 1) return draw(r, r->n, uniform * low, uniform * high);
    int64_t k = nucleus(r, r->n, top_p * low, top_p * high, &mass);
    return k ? draw(r, k, uniform * mass, uniform * mass) : -1;
}

mlsys_status mlsi_sample(const mlsi_sampler *s, const float *logits, int64_t n,
                         const int32_t *history, int64_t n_history, mlsi_candidate *candidates,
                         int32_t *out) {
    mlsi_candidate *c = candidates;
    MLSI_TRY(load(logits, n, c));
    if (s->repetition_penalty != 1) penalise(s, logits, n, history, n_history, c);
    if (s->temperature == 0) return *out = greedy(c, n), MLSYS_OK;
    double uniform = mlsi_rng_uniform64(s->seed, 0, (uint64_t)n_history);
    int64_t k = s->top_k && s->top_k < n ? s->top_k : n, at = -1;
    ranking r = rank(s, c, n);
    if (k == n && s->min_p == 0) at = draw_from_all(&r, uniform);
    if (at < 0) at = draw_in_order(&r, k, uniform);
    *out = ranked(&r, at).id;
    return MLSYS_OK;
}
