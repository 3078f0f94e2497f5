/* Prefill and decode of language models, end to end through the public interface, beside llama.cpp
 * on the same file, threads and sizes. See docs/bench.md. */
#include "support/llama_bench.h"
#include "support/llm.h"
#include "support/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct llm_test { /* after `depth` tokens: a prompt, or tokens one by one */
    const char *name;
    int depth, prompt, generate;
} llm_test;

typedef struct llm_bench {
    bench_program *p;
    const char *model, *peer, *flash_attention;
    llm_options how;
    long rounds;
    bool profile;
} llm_bench;

/* ---- what the hardware would allow -------------------------------------------------------------
 */

typedef struct bound {
    double flops, bytes;       /* a token */
    double arithmetic, memory; /* tokens a second */
} bound;

static bound bound_of(const llm_bench *b, const llm *m, const llm_test *t) {
    int n = t->prompt + t->generate;
    bound x = {0, 0, 0, 0};
    if (t->prompt) {
        x.flops = llm_flops(m, t->depth, t->prompt);
        x.bytes = llm_bytes(m, t->depth, t->prompt);
    }
    for (int i = 0; i < t->generate; i++) {
        x.flops += llm_flops(m, t->depth + i, 1);
        x.bytes += llm_bytes(m, t->depth + i, 1);
    }
    x.flops /= n;
    x.bytes /= n;
    x.arithmetic = bench_peak_flops(&b->p->limits, NULL, m->how.threads) / x.flops;
    x.memory =
        bench_bandwidth(&b->p->limits, BENCH_LIMIT_READ, m->how.threads, UINT64_MAX) / x.bytes;
    return x;
}

/* ---- reporting ---------------------------------------------------------------------------------
 */

static const char *base_name(const char *path) {
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

static void set_bound(bench_record *r, const llm *m, const bound *x, double rate) {
    bench_set_number(r, "tokens_s", rate);
    bench_set_number(r, "flops_per_token", x->flops);
    bench_set_number(r, "bytes_per_token", x->bytes);
    bench_set_number(r, "bandwidth_percent", 100 * rate / x->memory);
    bench_set_number(r, "fma_percent", 100 * rate / x->arithmetic);
    bench_set_number(r, "constant_bytes", (double)m->constant_bytes);
    bench_set_number(r, "scratch_bytes", (double)m->scratch_bytes);
    bench_set_number(r, "cache_bytes", (double)m->cache_bytes);
}

static void report_result(llm_bench *b, const llm *m, const llm_test *t, const bench_subject *s,
                          const bench_result *r) {
    bench_summary time = bench_result_summary(r, (uint64_t)b->p->seed);
    bound x = bound_of(b, m, t);
    double rate = (t->prompt + t->generate) / time.median;
    bench_record record = {NULL, 0, 0};
    char shape[64], dtype[64];
    snprintf(shape, sizeof shape, "depth %d, prompt %d, generate %d", t->depth, t->prompt,
             t->generate);
    snprintf(dtype, sizeof dtype, "weights of the file, activations %s, cache %s", m->how.act,
             m->how.kv);
    bench_set_result(&record, s, r, (uint64_t)b->p->seed);
    bench_set_text(&record, "shape", shape);
    bench_set_text(&record, "dtype", dtype);
    bench_set_text(&record, "numerics", m->how.numerics);
    if (b->p->plant) bench_set_flag(&record, "planted", true);
    printf("%-11s %d thread%s %-6s ", t->name, m->how.threads, m->how.threads > 1 ? "s" : " ",
           m->how.numerics);
    if (r->verdict.judgement == BENCH_PASS) {
        set_bound(&record, m, &x, rate);
        bench_set_number(&record, "tokens", t->prompt + t->generate);
        printf("%7.1f tok/s +-%2.0f %%, %3.0f %% of bandwidth, %3.0f %% of FMA%s", rate,
               50 * bench_spread(&time), 100 * rate / x.memory, 100 * rate / x.arithmetic,
               r->cpu_share < 0.85 ? " (disturbed)" : "");
        bench_roofline_add(&b->p->roofline, s->name, x.flops / x.bytes, x.flops * rate,
                           m->how.threads);
    } else {
        b->p->wrong++;
        printf("WRONG, no time: %s", r->verdict.finding);
    }
    bench_report_add(&b->p->report, BENCH_RECORD_RESULT, &record);
}

static void report_comparison(llm_bench *b, const bench_subject *s, const bench_result *r,
                              const double *ours, const double *theirs, const char *settings) {
    bench_record record = {NULL, 0, 0};
    bench_summary ratio = bench_ratio(ours, theirs, r->n, (uint64_t)b->p->seed);
    bench_summary a = bench_summarise(ours, r->n, 1), t = bench_summarise(theirs, r->n, 1);
    bool pass = r->verdict.judgement == BENCH_PASS;
    bench_set_text(&record, "name", s->name);
    bench_set_text(&record, "ours", "libmlsys");
    bench_set_text(&record, "peer", "llama.cpp");
    bench_set_number(&record, "threads", s->threads);
    bench_set_text(&record, "verdict", pass ? "pass" : "fail");
    bench_set_text(&record, "ratio_of", "tokens a second, ours / peer, pair by pair");
    bench_set_text(&record, "method",
                   "interleaved: ours in this process, the peer in one of its own a sample; order "
                   "swapped each round");
    bench_set_text(&record, "peer_settings", settings);
    if (pass) {
        bench_set_numbers(&record, "raw_ours", ours, r->n);
        bench_set_numbers(&record, "raw_peer", theirs, r->n);
        bench_set_number(&record, "median_ours", a.median);
        bench_set_number(&record, "median_peer", t.median);
        bench_set_text(&record, "unit", "token/s");
        bench_set_summary(&record, &ratio);
        printf("; llama.cpp %.1f, ratio %.2f [%.2f, %.2f]", t.median, ratio.median, ratio.low,
               ratio.high);
    }
    bench_report_add(&b->p->report, BENCH_RECORD_COMPARISON, &record);
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

static void run_test(llm_bench *b, llm *m, const llm_test *t, const char *peer) {
    static bench_result r;
    double ours[BENCH_MAX_SAMPLES], theirs[BENCH_MAX_SAMPLES];
    char name[128];
    snprintf(name, sizeof name, "%.60s %s %s", base_name(b->model), t->name, m->how.numerics);
    if (!bench_wanted(b->p, name)) return;
    bench_subject s = llm_subject(m, t->depth, t->prompt, t->generate, name);
    m->plant = b->p->plant;
    /* Judging runs the timed work three times: that is the warm-up. */
    bench_sampling how = {.warmup = 0, .samples = (int)b->rounds, .sample_seconds = 0};
    llama_bench rival = {.program = peer,
                         .model = b->model,
                         .flash_attention = b->flash_attention,
                         .threads = m->how.threads,
                         .cpu_time = b->p->cpu_time};
    bool ready = bench_prepare(&s, &how, &r);
    for (int i = 0; ready && i < how.samples; i++)
        for (int turn = 0; turn < 2; turn++) {
            if ((i + turn) % 2 == 0)
                ready = ready && bench_sample(&s, &r);
            else if (peer && !llama_bench_run(&rival, t->depth, t->prompt, t->generate, &theirs[i]))
                peer = NULL;
        }
    if (ready) bench_finish(&s, &r);
    for (int i = 0; i < r.n; i++)
        ours[i] = (t->prompt + t->generate) / r.seconds[i];
    report_result(b, m, t, &s, &r);
    if (peer) report_comparison(b, &s, &r, ours, theirs, rival.settings);
    putchar('\n');
    if (b->profile && r.n) bench_profile(b->p, &m->lib, m->how.threads, s.call, s.user);
    fflush(stdout);
}

static void run_model(llm_bench *b, const llm_test *tests, const char *const *numerics) {
    static llm m;
    int counts[2], n_counts = bench_thread_counts(b->p, counts);
    for (int i = 0; i < n_counts; i++)
        for (int k = 0; numerics[k]; k++) {
            b->how.threads = counts[i];
            b->how.numerics = numerics[k];
            llm_open(&m, b->model, &b->how);
            if (!i && !k)
                printf("\n%s: %.1f MB; weights read a token %.1f MB, %.3f GFLOP in prefill, %.3f "
                       "in decode; weights and packed copies %.1f MB\n",
                       base_name(b->model), (double)m.file_bytes * 1e-6,
                       (m.block_bytes + m.head_bytes) * 1e-6, llm_flops(&m, 0, 512) / 512 * 1e-9,
                       llm_flops(&m, 0, 1) * 1e-9, (double)m.constant_bytes * 1e-6);
            /* The peer is run beside the first mode alone. */
            for (const llm_test *t = tests; t->name; t++)
                run_test(b, &m, t, k ? NULL : b->peer);
            llm_close(&m);
        }
}

static void run_models(llm_bench *b, const llm_test *tests, const char *const *numerics) {
    static const char *const variables[] = {"MLSYS_MODEL_SMOLLM2", "MLSYS_MODEL_GEMMA3"};
    if (b->model) {
        run_model(b, tests, numerics);
        return;
    }
    for (int i = 0; i < 2; i++) {
        b->model = getenv(variables[i]);
        if (b->model && *b->model)
            run_model(b, tests, numerics);
        else
            printf("SKIP: %s is not set (tools/fetch-model.sh obtains the file)\n", variables[i]);
    }
}

int main(int argc, char **argv) {
    static bench_program p = {
        .name = "bench_llm",
        .summary = "Prefill and decode tokens a second, end to end, beside llama.cpp."};
    static const llm_test quick[] = {{"pp512", 0, 512, 0}, {"tg32", 0, 0, 32}, {NULL, 0, 0, 0}};
    static const llm_test all[] = {
        {"pp512", 0, 512, 0}, {"tg128", 0, 0, 128}, {"tg64@d2048", 2048, 0, 64}, {NULL, 0, 0, 0}};
    static const char *const both[] = {"stable", "exact", NULL};
    const char *one[] = {NULL, NULL};
    llm_bench b = {.p = &p,
                   .peer = getenv("MLSYS_LLAMA_BENCH"),
                   .flash_attention = "auto",
                   .how = {.act = "f32", .kv = "f32", .context = 2048 + 64, .chunk = 512}};
    const bench_option own[] = {
        {"--model", "FILE", "GGUF file (default: MLSYS_MODEL_SMOLLM2 and MLSYS_MODEL_GEMMA3)",
         BENCH_STRING, &b.model},
        {"--peer", "PROGRAM", "llama-bench (default: MLSYS_LLAMA_BENCH)", BENCH_STRING, &b.peer},
        {"--flash", "MODE", "the peer's -fa: auto, on or off (default auto)", BENCH_STRING,
         &b.flash_attention},
        {"--numerics", "MODE", "exact, stable or fast (default: stable, then exact)", BENCH_STRING,
         &one[0]},
        {"--act", "TYPE", "activations of quantised products: f32 or int8 (default f32)",
         BENCH_STRING, &b.how.act},
        {"--kv", "TYPE", "cache: f32, f16 or bf16 (default f32)", BENCH_STRING, &b.how.kv},
        {"--profile", NULL, "print the kernels that take most of each test", BENCH_FLAG,
         &b.profile},
        {NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run = {NULL, 0, 0};
    int status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    if (b.peer && !*b.peer) b.peer = NULL;
    b.rounds = p.samples ? p.samples : p.quick ? 2 : 7;
    if (b.rounds > BENCH_MAX_SAMPLES) b.rounds = BENCH_MAX_SAMPLES;
    if (p.quick) b.how.context = 512;
    if (!b.peer)
        puts("SKIP: llama.cpp: MLSYS_LLAMA_BENCH is not set (docs/bench.md says how to obtain it)");
    if (p.quick && !one[0]) one[0] = "stable";
    run_models(&b, p.quick ? quick : all, one[0] ? one : both);
    if (!p.report.n[BENCH_RECORD_RESULT]) return p.report.refused != 0; /* skipped, and said so */
    return bench_end(&p, &run);
}
