#include "engine/sampler.h"

#include "core/elementary.h"
#include "core/rng.h"

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

/* Move the k best, in order, to the end of c; the first of them is c[n - 1]. */
static void heap_order(mlsi_candidate *c, int64_t n, int64_t k) {
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(c, i, n);
    for (int64_t i = 0; i < k; i++) {
        swap(&c[0], &c[n - 1 - i]);
        sift(c, 0, n - 1 - i);
    }
}

/* exp((logit - top) / temperature); 1 at the top, were it infinite. f64, so that a long tail adds
 * up. */
static double weight_of(const mlsi_sampler *s, mlsi_candidate c, double top) {
    return c.logit == top ? 1 : mlsi_ed_exp((c.logit - top) / s->temperature);
}

mlsys_status mlsi_sample(const mlsi_sampler *s, const float *logits, int64_t n,
                         const int32_t *history, int64_t n_history, mlsi_candidate *candidates,
                         int32_t *out) {
    mlsi_candidate *c = candidates;
    MLSI_TRY(load(logits, n, c));
    if (s->repetition_penalty != 1) penalise(s, logits, n, history, n_history, c);
    if (s->temperature == 0) return *out = greedy(c, n), MLSYS_OK;
    int64_t k = s->top_k && s->top_k < n ? s->top_k : n;
    heap_order(c, n, k);
    double top = c[n - 1].logit, total = 0, weight = 0;
    for (int64_t i = 0; i < k; i++) {
        weight = weight_of(s, c[n - 1 - i], top);
        if (i && weight < s->min_p) {
            k = i;
            break;
        }
        total += weight;
    }
    double mass = 0, limit = s->top_p * total;
    for (int64_t i = 0; i < k; i++) {
        mass += weight_of(s, c[n - 1 - i], top);
        if (mass >= limit) k = i + 1;
    }
    double u = mlsi_rng_uniform64(s->seed, 0, (uint64_t)n_history) * mass, below = 0;
    for (int64_t i = 0; i < k; i++) {
        *out = c[n - 1 - i].id;
        below += weight_of(s, c[n - 1 - i], top);
        if (u < below) break;
    }
    return MLSYS_OK;
}
