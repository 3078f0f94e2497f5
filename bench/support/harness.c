#include "support/harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *bench_boundary_name(bench_boundary b) {
    return b == BENCH_KERNEL       ? "kernel"
           : b == BENCH_CALL       ? "call"
           : b == BENCH_END_TO_END ? "end to end"
                                   : NULL;
}

const char *bench_cache_name(bench_cache c) {
    return c == BENCH_WARM ? "warm" : c == BENCH_COLD ? "cold" : NULL;
}

void bench_judge(bench_verdict *v, bool pass, const char *oracle, const char *finding, ...) {
    va_list args;
    v->judgement = pass ? BENCH_PASS : BENCH_FAIL;
    snprintf(v->oracle, sizeof v->oracle, "%s", oracle);
    va_start(args, finding);
    vsnprintf(v->finding, sizeof v->finding, finding, args);
    va_end(args);
}

uint64_t bench_digest(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, p + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ word) * 1099511628211u;
        h ^= h >> 29; /* or high bits would never reach low ones */
    }
    return h;
}

/* ---- judging -----------------------------------------------------------------------------------
 */

static void drop_samples(bench_result *r) {
    r->n = 0;
    r->cpu_share = NAN;
    for (int i = 0; i < BENCH_MAX_SAMPLES; i++)
        r->seconds[i] = NAN;
}

static bool call_once(const bench_subject *s, bench_result *r) {
    if (s->before) s->before(s->user);
    if (s->call(s->user)) return true;
    bench_judge(&r->verdict, false, r->verdict.oracle[0] ? r->verdict.oracle : "the call's status",
                "the call failed");
    drop_samples(r);
    return false;
}

static bool judge(const bench_subject *s, bench_result *r) {
    memset(r, 0, sizeof *r);
    drop_samples(r);
    if (!call_once(s, r)) return false;
    s->check(s->user, &r->verdict);
    if (r->verdict.judgement == BENCH_UNJUDGED)
        bench_judge(&r->verdict, false, "none", "the subject gave no verdict");
    r->verdict.digest = s->digest(s->user);
    return r->verdict.judgement == BENCH_PASS;
}

/* ---- sampling ----------------------------------------------------------------------------------
 */

/* Mean seconds of one call over r->repeats calls; `before` and the flush run outside the clock. */
static bool take_sample(const bench_subject *s, bench_result *r, double *out) {
    double wall = 0, cpu = 0;
    for (int64_t done = 0; done < r->repeats;) {
        int64_t batch = s->before ? 1 : r->repeats;
        if (s->before) s->before(s->user);
        if (s->cache == BENCH_COLD) bench_flush_caches(s->threads);
        double c0 = bench_cpu_time(), t0 = bench_now();
        for (int64_t i = 0; i < batch; i++)
            if (!s->call(s->user)) {
                bench_judge(&r->verdict, false, "the call's status", "a timed call failed");
                drop_samples(r);
                return false;
            }
        wall += bench_now() - t0;
        cpu += bench_cpu_time() - c0;
        done += batch;
    }
    r->wall += wall;
    r->cpu += cpu;
    *out = wall / (double)r->repeats;
    return true;
}

/* Judge, and find the calls per sample from the fastest of the warm-up calls. */
bool bench_prepare(const bench_subject *s, const bench_sampling *how, bench_result *r) {
    double fastest = INFINITY, seconds;
    if (!judge(s, r)) return false;
    r->repeats = 1;
    for (int i = 0; i < how->warmup; i++) {
        if (!take_sample(s, r, &seconds)) return false;
        if (seconds < fastest) fastest = seconds;
    }
    r->wall = r->cpu = 0;
    /* A cold cache is cold for one call only. */
    if (s->cache == BENCH_COLD || !isfinite(fastest) || fastest >= how->sample_seconds) return true;
    double repeats = how->sample_seconds / (fastest > 1e-8 ? fastest : 1e-8);
    r->repeats = repeats < 1 ? 1 : (int64_t)repeats;
    return true;
}

bool bench_sample(const bench_subject *s, bench_result *r) {
    if (r->verdict.judgement != BENCH_PASS || r->n == BENCH_MAX_SAMPLES) return false;
    if (!take_sample(s, r, &r->seconds[r->n])) return false;
    r->n++;
    return true;
}

/* What was timed must be what was judged. */
bool bench_finish(const bench_subject *s, bench_result *r) {
    if (r->verdict.judgement != BENCH_PASS) return false;
    r->cpu_share = r->cpu / (r->wall * s->threads);
    if (s->digest(s->user) == r->verdict.digest) return true;
    char oracle[BENCH_TEXT];
    memcpy(oracle, r->verdict.oracle, sizeof oracle);
    bench_judge(&r->verdict, false, oracle,
                "the output after timing is not the one that was judged");
    drop_samples(r);
    return false;
}

static int clamp_samples(int n) {
    return n < 1 ? 1 : n > BENCH_MAX_SAMPLES ? BENCH_MAX_SAMPLES : n;
}

bool bench_measure(const bench_subject *s, const bench_sampling *how, bench_result *r) {
    if (!bench_prepare(s, how, r)) return false;
    for (int i = clamp_samples(how->samples); i > 0; i--)
        if (!bench_sample(s, r)) return false;
    return bench_finish(s, r);
}

bool bench_measure_pair(const bench_subject *a, const bench_subject *b, const bench_sampling *how,
                        uint64_t seed, bench_pair *out) {
    int n = clamp_samples(how->samples);
    const bench_subject *s[2] = {a, b};
    bench_result *r[2] = {&out->a, &out->b};
    out->ratio = bench_summarise(NULL, 0, seed);
    bool ready[2] = {bench_prepare(a, how, r[0]), bench_prepare(b, how, r[1])};
    if (!ready[0] || !ready[1]) return false;
    for (int i = 0; i < 2 * n; i++) {
        int j = (i + i / 2) % 2; /* a b, b a, a b, ... */
        if (how->settle_seconds > 0) usleep((useconds_t)(how->settle_seconds * 1e6));
        if (!bench_sample(s[j], r[j])) return false;
    }
    bool same = bench_finish(a, r[0]);
    if (!bench_finish(b, r[1]) || !same) return false;
    out->ratio = bench_ratio(out->b.seconds, out->a.seconds, n, seed);
    return true;
}
