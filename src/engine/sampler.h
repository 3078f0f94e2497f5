/* Choosing the next token from logits.
 *
 * Order: repetition penalty, then greedy when temperature is 0; else temperature, top-k, min-p,
 * top-p, and one draw. The draw is a function of (seed, position) alone, so a batch neighbour, a
 * retry or a resumed conversation cannot change it. */
#ifndef MLSI_SAMPLER_H
#define MLSI_SAMPLER_H

#include "core/ctx.h"

typedef struct mlsi_sampler {
    double temperature;        /* 0 = greedy */
    int64_t top_k;             /* 0 = all */
    double top_p;              /* 1 = all */
    double min_p;              /* 0 = all; keep p >= min_p * max p */
    double repetition_penalty; /* 1 = none; divides positive and multiplies negative logits */
    int64_t repetition_window; /* last tokens that count */
    uint64_t seed;
} mlsi_sampler;

typedef struct mlsi_candidate {
    float logit;
    int32_t id;
} mlsi_candidate;

/* candidates: room for n. history: tokens so far, n_history of them; the drawn token's position is
 * n_history. Ties go to the lower id.
 * Errors STATE: a logit is NaN, or no logit is finite; the sentence names the first one. */
mlsys_status mlsi_sample(const mlsi_sampler *s, const float *logits, int64_t n,
                         const int32_t *history, int64_t n_history, mlsi_candidate *candidates,
                         int32_t *out);

#endif
