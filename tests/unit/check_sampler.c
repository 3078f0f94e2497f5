/* The sampler against a literal reference: which tokens remain, with which probability, and which
 * one the draw of (seed, position) picks. */
#include "core/elementary.h"
#include "core/rng.h"
#include "engine/sampler.h"
#include "support/random.h"
#include "support/require.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_MAX = 300, HISTORY_MAX = 40 };

static const mlsi_sampler plain = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .repetition_window = 64};

static mlsi_candidate room[VOCAB_MAX];

static int32_t sample(const mlsi_sampler *s, const float *logits, int n, const int32_t *history,
                      int n_history) {
    int32_t id = -7;
    mlsys_status st = mlsi_sample(s, logits, n, history, n_history, room, &id);
    if (st != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());
    REQUIRE(id >= 0 && id < n);
    return id;
}

static int32_t pick(const mlsi_sampler *s, const float *logits, int n) {
    return sample(s, logits, n, NULL, 0);
}

/* ---- reference ------------------------------------------------------------------------------- */

typedef struct reference {
    int n;                 /* tokens kept */
    int32_t id[VOCAB_MAX]; /* best first */
    double p[VOCAB_MAX];   /* share of each, adding up to 1 */
} reference;

static float penalised(const mlsi_sampler *s, float logit, int32_t id, const int32_t *history,
                       int n) {
    int first = n > s->repetition_window ? n - (int)s->repetition_window : 0, seen = 0;
    for (int i = first; i < n; i++)
        seen |= history[i] == id;
    if (!seen) return logit;
    return logit > 0 ? logit / (float)s->repetition_penalty : logit * (float)s->repetition_penalty;
}

/* Selection sort, softmax in long double, then each rule in its own pass. */
static void reference_keep(const mlsi_sampler *s, const float *logits, int n,
                           const int32_t *history, int n_history, reference *r) {
    float x[VOCAB_MAX];
    long double w[VOCAB_MAX], total = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        x[i] = penalised(s, logits[i], i, history, n_history);
        r->id[i] = i;
    }
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (x[r->id[j]] > x[r->id[i]] || (x[r->id[j]] == x[r->id[i]] && r->id[j] < r->id[i])) {
                int32_t t = r->id[i];
                r->id[i] = r->id[j];
                r->id[j] = t;
            }
    r->n = s->top_k && s->top_k < n ? (int)s->top_k : n;
    for (int i = 0; i < r->n; i++)
        w[i] = expl(((long double)x[r->id[i]] - x[r->id[0]]) / s->temperature);
    int kept = 0;
    while (kept < r->n && (kept == 0 || w[kept] >= s->min_p))
        kept++;
    r->n = kept;
    for (int i = 0; i < r->n; i++)
        total += w[i];
    for (kept = 0; kept < r->n && (kept == 0 || sum < s->top_p * total); kept++)
        sum += w[kept];
    r->n = kept;
    for (int i = 0; i < r->n; i++)
        r->p[i] = (double)(w[i] / sum);
}

/* The token whose stretch of [0,1) holds u, or -1 when u is too near an edge to tell. */
static int32_t reference_draw(const reference *r, double u) {
    double below = 0;
    for (int i = 0; i < r->n; i++) {
        below += r->p[i];
        if (fabs(u - below) < 1e-9 && i + 1 < r->n) return -1;
        if (u < below || i + 1 == r->n) return r->id[i];
    }
    return -1;
}

static void random_logits(test_random *rng, float *x, int n, float scale) {
    for (int i = 0; i < n; i++)
        x[i] = ((float)test_int(rng, -1000, 1000) / 1000) * scale;
}

/* ---- the whole vocabulary in order: what a draw is, to the last bit --------------------------- */

static int by_rank(const void *a, const void *b) {
    const mlsi_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* weight: of each token in order. Returns how many min_p leaves. */
static int order_all(const mlsi_sampler *s, const float *logits, int n, int32_t *id,
                     double *weight) {
    static mlsi_candidate c[VOCAB_MAX];
    int k = s->top_k && s->top_k < n ? (int)s->top_k : n, kept = 0;
    for (int i = 0; i < n; i++)
        c[i] = (mlsi_candidate){logits[i], i};
    qsort(c, (size_t)n, sizeof *c, by_rank);
    double top = c[0].logit;
    for (; kept < k; kept++) {
        id[kept] = c[kept].id;
        weight[kept] =
            c[kept].logit == top ? 1 : mlsi_ed_exp((c[kept].logit - top) / s->temperature);
        if (kept && weight[kept] < s->min_p) break;
    }
    return kept;
}

static int32_t ordered_draw(const mlsi_sampler *s, int k, const int32_t *id, const double *weight) {
    double total = 0, mass = 0, below = 0;
    for (int i = 0; i < k; i++)
        total += weight[i];
    int kept = 0;
    while (kept < k && (kept == 0 || mass < s->top_p * total))
        mass += weight[kept++];
    double u = mlsi_rng_uniform64(s->seed, 0, 0) * mass;
    for (int i = 0; i < kept; i++) {
        below += weight[i];
        if (u < below) return id[i];
    }
    return id[kept - 1];
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(greedy_takes_the_first_of_the_best) {
    mlsi_sampler s = plain;
    s.temperature = 0;
    static const float ties[] = {-1, 3, 2, 3, 3}, infinite[] = {1, -INFINITY, INFINITY, INFINITY};
    static const float low[] = {-INFINITY, -INFINITY, -3e38f}, zeros[] = {-0.0f, 0.0f};
    ck_assert_int_eq(pick(&s, ties, 5), 1);
    ck_assert_int_eq(pick(&s, infinite, 4), 2);
    ck_assert_int_eq(pick(&s, low, 3), 2);
    ck_assert_int_eq(pick(&s, zeros, 2), 0);
    ck_assert_int_eq(pick(&s, low + 2, 1), 0);
    s.seed = 99, s.top_k = 3, s.top_p = 0.1; /* no draw: none of these matter */
    ck_assert_int_eq(pick(&s, ties, 5), 1);
}
END_TEST

START_TEST(random_rules_match_the_reference) {
    test_random rng = test_random_seed("sampler", 20240601);
    int told = 0;
    for (int trial = 0; trial < 3000; trial++) {
        float x[VOCAB_MAX];
        int32_t history[HISTORY_MAX];
        int n = (int)test_int(&rng, 1, trial % 10 ? 40 : VOCAB_MAX),
            len = (int)test_int(&rng, 0, HISTORY_MAX);
        mlsi_sampler s = plain;
        reference r;
        random_logits(&rng, x, n, trial % 3 ? 4.0f : 0.004f); /* ties among the second kind */
        if (trial % 7 == 0) x[test_int(&rng, 0, n - 1)] = x[test_int(&rng, 0, n - 1)];
        if (trial % 11 == 0 && n > 1) x[test_int(&rng, 1, n - 1)] = -INFINITY;
        for (int i = 0; i < len; i++)
            history[i] = (int32_t)test_int(&rng, 0, n - 1);
        s.temperature = (double)test_int(&rng, 1, 300) / 100;
        if (test_int(&rng, 0, 1)) s.top_k = test_int(&rng, 0, n + 2);
        if (test_int(&rng, 0, 1))
            s.top_p = (double)test_int(&rng, 0, 1000) / 1000 + 1e-5 * (trial % 2);
        if (s.top_p > 1) s.top_p = 1;
        if (test_int(&rng, 0, 1)) s.min_p = (double)test_int(&rng, 0, 1000) / 1000 + 3e-6;
        if (test_int(&rng, 0, 1)) s.repetition_penalty = (double)test_int(&rng, 50, 200) / 100;
        s.repetition_window = test_int(&rng, 0, HISTORY_MAX + 3);
        s.seed = test_bits(&rng) >> 11;
        reference_keep(&s, x, n, history, len, &r);
        int32_t want = reference_draw(&r, mlsi_rng_uniform64(s.seed, 0, (uint64_t)len));
        int32_t have = sample(&s, x, n, history, len);
        if (want < 0) continue;
        told++;
        ck_assert_msg(have == want,
                      "trial %d: token %d, expected %d (n %d, kept %d, T %g, k %lld, p %g, min %g, "
                      "penalty %g)",
                      trial, have, want, n, r.n, s.temperature, (long long)s.top_k, s.top_p,
                      s.min_p, s.repetition_penalty);
    }
    ck_assert_int_gt(told, 2900);
}
END_TEST

/* Looking at the nucleus alone must not change one draw. In half of the trials top_p is the share of
 * the first few tokens, where the last bit of a sum decides whether one more belongs to them. */
START_TEST(draws_are_those_of_the_whole_order) {
    static int32_t id[VOCAB_MAX];
    static double weight[VOCAB_MAX];
    test_random rng = test_random_seed("sampler_order", 20240602);
    for (int trial = 0; trial < 6000; trial++) {
        float x[VOCAB_MAX];
        int n = (int)test_int(&rng, 1, trial % 10 ? 30 : VOCAB_MAX);
        mlsi_sampler s = plain;
        random_logits(&rng, x, n, trial % 4 == 3 ? 0 : 3.0f);
        if (trial % 11 == 0 && n > 1) x[test_int(&rng, 1, n - 1)] = -INFINITY;
        s.temperature = (double)test_int(&rng, 1, 300) / 100;
        if (trial % 5 == 0) s.top_k = test_int(&rng, 1, n + 2);
        if (trial % 7 == 0) s.min_p = (double)test_int(&rng, 1, 1000) / 1000;
        if (trial % 3 == 0) s.top_p = (double)test_int(&rng, 0, 1000) / 1000;
        int k = order_all(&s, x, n, id, weight);
        if (trial % 2) {
            double sum = 0, total = 0;
            int64_t first = test_int(&rng, 1, k);
            for (int i = 0; i < k; i++) {
                total += weight[i];
                if (i < first) sum = total;
            }
            s.top_p = sum / total;
        }
        for (int i = 0; i < 16; i++) {
            s.seed = test_bits(&rng) >> 11;
            int32_t want = ordered_draw(&s, k, id, weight), have = pick(&s, x, n);
            ck_assert_msg(have == want,
                          "trial %d: token %d, expected %d (n %d, T %g, k %lld, p %.17g, min %g)",
                          trial, have, want, n, s.temperature, (long long)s.top_k, s.top_p,
                          s.min_p);
        }
    }
}
END_TEST

/* The same token twice in the window counts once; one before the window does not count. */
START_TEST(penalty_by_hand) {
    static const float x[] = {2.0f, 1.5f, -1.0f, -1.5f};
    static const int32_t twice[] = {0, 0, 0}, old[] = {0, 3, 3}, strange[] = {-1, 4, 1 << 30, 0};
    mlsi_sampler s = plain;
    s.temperature = 0;
    s.repetition_penalty = 1.25; /* 2 / 1.25 = 1.6 > 1.5; twice would be 1.28 */
    ck_assert_int_eq(sample(&s, x, 4, twice, 3), 0);
    s.repetition_penalty = 1.5;
    ck_assert_int_eq(sample(&s, x, 4, twice, 3), 1);
    ck_assert_int_eq(sample(&s, x, 4, strange, 4), 1);
    s.repetition_window = 2;
    ck_assert_int_eq(sample(&s, x, 4, old, 3), 0);
    s.repetition_window = 0;
    ck_assert_int_eq(sample(&s, x, 4, twice, 3), 0);
    /* negative logits move down */
    s.repetition_window = 64;
    ck_assert_int_eq(sample(&s, x + 2, 2, twice, 3), 0); /* -1 * 1.5 = -1.5: a tie */
    s.repetition_penalty = 1.6;
    ck_assert_int_eq(sample(&s, x + 2, 2, twice, 3), 1);
}
END_TEST

START_TEST(top_k_cuts_ties_by_id) {
    float x[64];
    mlsi_sampler s = plain;
    for (int i = 0; i < 64; i++)
        x[i] = i == 40 ? 1 : 0.5f;
    s.top_k = 3;
    for (s.seed = 0; s.seed < 200; s.seed++) {
        int32_t id = pick(&s, x, 64);
        ck_assert(id == 40 || id == 0 || id == 1);
    }
    s.top_k = 1;
    ck_assert_int_eq(pick(&s, x, 64), 40);
    s.top_k = 0, s.top_p = 0;
    ck_assert_int_eq(pick(&s, x, 64), 40);
    s.top_p = 1, s.min_p = 1; /* only what equals the best */
    ck_assert_int_eq(pick(&s, x, 64), 40);
    /* exactly at the limit: min_p keeps, top_p has enough */
    static const float two[] = {1, 1, 0.5f};
    int second = 0;
    for (s.seed = 0; s.seed < 200; s.seed++) {
        int32_t id = pick(&s, two, 3);
        ck_assert(id == 0 || id == 1);
        second += id;
    }
    ck_assert(second > 50 && second < 150);
    s.min_p = 0, s.top_p = 0.5;
    for (s.seed = 0; s.seed < 200; s.seed++)
        ck_assert_int_eq(pick(&s, two, 2), 0);
}
END_TEST

static void expect_refused(const float *x, int n, const char *part) {
    for (int t = 0; t < 2; t++) {
        mlsi_sampler s = plain;
        int32_t id = -7;
        s.temperature = t;
        ck_assert_int_eq(mlsi_sample(&s, x, n, NULL, 0, room, &id), MLSYS_E_STATE);
        ck_assert_msg(strstr(mlsys_last_error(), part) != NULL, "%s", mlsys_last_error());
        ck_assert_int_eq(id, -7);
    }
}

START_TEST(nan_and_nothing_are_refused) {
    static const float nan1[] = {1, 2, NAN, NAN}, nan2[] = {NAN}, nan3[] = {INFINITY, 2, 3, -NAN};
    static const float none[] = {-INFINITY, -INFINITY}, all[] = {INFINITY, INFINITY};
    expect_refused(nan1, 4, "token 2 is NaN");
    expect_refused(nan2, 1, "token 0 is NaN");
    expect_refused(nan3, 4, "token 3 is NaN");
    expect_refused(none, 2, "none of 2 logits is finite");
    expect_refused(all, 2, "none of 2 logits is finite");
}
END_TEST

/* An infinite logit beside finite ones takes everything, and equal ones share. */
START_TEST(infinite_logits_win) {
    static const float x[] = {3, INFINITY, 2, -INFINITY, INFINITY};
    mlsi_sampler s = plain;
    int count[5] = {0};
    for (s.seed = 0; s.seed < 400; s.seed++)
        count[pick(&s, x, 5)]++;
    ck_assert_int_eq(count[1] + count[4], 400);
    ck_assert(count[1] > 120 && count[4] > 120);
    /* a penalty that overflows */
    static const float big[] = {3e38f, 1, -3e38f};
    static const int32_t history[] = {0, 2};
    s.repetition_penalty = 0.01;
    ck_assert_int_eq(sample(&s, big, 3, history, 2), 0);
    s.repetition_penalty = 100;
    s.temperature = 1e-3;
    ck_assert_int_eq(sample(&s, big, 3, history, 2), 0);
}
END_TEST

START_TEST(extreme_temperatures) {
    static const double cold[] = {5e-324, 1e-300, 1e-30, 1e-6};
    static const float x[] = {1.0f, 1.5f, -3.0f, 1.4375f};
    mlsi_sampler s = plain;
    int count[4] = {0};
    for (int i = 0; i < 4; i++)
        for (s.temperature = cold[i], s.seed = 0; s.seed < 50; s.seed++)
            ck_assert_int_eq(pick(&s, x, 4), 1);
    s.temperature = 1e6; /* uniform */
    for (s.seed = 0; s.seed < 4000; s.seed++)
        count[pick(&s, x, 4)]++;
    for (int i = 0; i < 4; i++)
        ck_assert(count[i] > 850 && count[i] < 1150); /* 5.5 sigma */
}
END_TEST

/* Pearson's statistic of 20,000 draws at consecutive positions: the seed is fixed, so this passes
 * or fails for good. 15 degrees of freedom; 44.3 is the 1e-4 quantile. */
START_TEST(draws_have_the_right_shares) {
    enum { N = 16, DRAWS = 20000 };
    test_random rng = test_random_seed("sampler_shares", 7);
    static int32_t history[DRAWS];
    float x[N];
    int count[N] = {0};
    mlsi_sampler s = plain;
    reference r;
    random_logits(&rng, x, N, 1.5f);
    s.temperature = 0.9;
    s.seed = 123456789;
    reference_keep(&s, x, N, NULL, 0, &r);
    for (int i = 0; i < DRAWS; i++)
        count[sample(&s, x, N, history, i)]++;
    double chi = 0;
    for (int i = 0; i < r.n; i++) {
        double want = r.p[i] * DRAWS, d = count[r.id[i]] - want;
        REQUIRE(want > 20);
        chi += d * d / want;
    }
    printf("chi-square %.2f, 15 degrees of freedom\n", chi);
    ck_assert_double_lt(chi, 44.3);
    /* a wrong temperature would show */
    s.temperature = 1.0;
    reference_keep(&s, x, N, NULL, 0, &r);
    chi = 0;
    for (int i = 0; i < r.n; i++) {
        double want = r.p[i] * DRAWS, d = count[r.id[i]] - want;
        chi += d * d / want;
    }
    ck_assert_double_gt(chi, 44.3);
}
END_TEST

/* The draw depends on seed and position, not on what the history holds. */
START_TEST(the_draw_is_keyed) {
    float x[100];
    int32_t a[8] = {0}, b[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    int by_seed = 0, by_position = 0;
    mlsi_sampler s = plain;
    for (int i = 0; i < 100; i++)
        x[i] = 0;
    for (s.seed = 1; s.seed < 50; s.seed++) {
        int32_t here = sample(&s, x, 100, a, 5);
        ck_assert_int_eq(here, sample(&s, x, 100, b, 5));
        by_position += here != sample(&s, x, 100, a, 6);
        s.seed++;
        by_seed += here != sample(&s, x, 100, a, 5);
        s.seed--;
    }
    ck_assert(by_seed > 40 && by_position > 40);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sampler");
    TCase *tc = tcase_create("sampler");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, greedy_takes_the_first_of_the_best);
    tcase_add_test(tc, random_rules_match_the_reference);
    tcase_add_test(tc, draws_are_those_of_the_whole_order);
    tcase_add_test(tc, penalty_by_hand);
    tcase_add_test(tc, top_k_cuts_ties_by_id);
    tcase_add_test(tc, nan_and_nothing_are_refused);
    tcase_add_test(tc, infinite_logits_win);
    tcase_add_test(tc, extreme_temperatures);
    tcase_add_test(tc, draws_have_the_right_shares);
    tcase_add_test(tc, the_draw_is_keyed);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
