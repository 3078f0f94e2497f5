/* Speed of what the compiler makes of elementwise-and-reduce subgraphs: one generated kernel each, beside the hardware's limits,
 * the separate kernels, and compiled PyTorch and ONNX Runtime (bench/compiler_torch.py). See docs/bench.md. */
#include "support/compiler_cases.h"
#include "support/rates.h"
#include "support/torch_peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 8, OUTPUTS = 3, TEXT = 8192, PEERS = 2 };

/* ---- texts and operands -------------------------------------------------------------------------- */

static void expand(const char *text, int64_t rows, int64_t columns, char *out, size_t cap) {
    size_t used = 0;
    for (; *text && used + 24 < cap; text++) {
        if (*text != '$') {
            out[used++] = *text;
            continue;
        }
        text++;
        int64_t value = *text == 'R' ? rows : *text == 'C' ? columns : rows * columns;
        used += (size_t)snprintf(out + used, cap - used, "%lld", (long long)value);
    }
    out[used] = 0;
}

/* A program of a case, with its operands. */
typedef struct subject {
    const compiler_case *what;
    int64_t rows, columns;
    bench_library lib;
    mlsys_program fused;
    mlsys_tensor in[INPUTS], out[OUTPUTS];
    int n_in, n_out;
    mlsys_cost before, after;
    uint64_t expected; /* digest of what separate kernels give */
    bool plant;
} subject;

static void *data_of(mlsys_tensor t, uint64_t *bytes) {
    void *data;
    bench_need(mlsys_tensor_data(t, &data, bytes), "operand");
    return data;
}

/* Flags are true nine times of ten, integers below columns. */
static void add_input(subject *x, mlsys_dtype dtype, int ndim, const int64_t *shape) {
    mlsys_tensor *t = &x->in[x->n_in];
    uint64_t bytes;
    bench_need(mlsys_tensor_create(x->lib.device, dtype, ndim, shape, t), "operand");
    if (dtype == MLSYS_BOOL) {
        unsigned char *p = data_of(*t, &bytes);
        for (uint64_t i = 0; i < bytes; i++)
            p[i] = i * 7919 % 10 != 3;
    } else if (dtype == MLSYS_I32) {
        int32_t *p = data_of(*t, &bytes);
        for (uint64_t i = 0; i < bytes / sizeof *p; i++)
            p[i] = (int32_t)(i * 7919 % (uint64_t)x->columns);
    } else {
        bench_need(mlsys_tensor_random(*t, x->lib.stream, "uniform", 7, (uint64_t)x->n_in),
                   "operand");
    }
    x->n_in++;
}

/* Inputs as the text declares them: "x" : f32[A,B] */
static void add_inputs(subject *x, const char *text) {
    for (const char *at = text; (at = strstr(at, "= input ")) != NULL;) {
        int64_t shape[4];
        int ndim = 0;
        at = strstr(at, " : ") + 3;
        mlsys_dtype dtype = *at == 'b' ? MLSYS_BOOL : *at == 'i' ? MLSYS_I32 : MLSYS_F32;
        at = strchr(at, '[');
        while (*at != ']' && at[1] != ']')
            shape[ndim++] = strtoll(at + 1, (char **)(uintptr_t)&at, 10);
        add_input(x, dtype, ndim, shape);
    }
    for (const char *at = text; (at = strstr(at, "output ")) != NULL; at++)
        x->n_out++;
}

static mlsys_program compile(const subject *x, const char *text, const char *fuse,
                             mlsys_cost *cost) {
    mlsys_config c;
    mlsys_graph g;
    mlsys_program p;
    bench_need(mlsys_graph_parse(x->lib.ctx, text, &g), x->what ? x->what->name : "block");
    bench_need(mlsys_config_create(&c), "config");
    bench_need(mlsys_config_set_str(c, "numerics", "exact"), "numerics");
    bench_need(mlsys_config_set_str(c, "fuse", fuse), "fuse");
    bench_need(mlsys_graph_compile(g, x->lib.device, c, &p), "compile");
    cost->size = sizeof *cost;
    bench_need(mlsys_program_cost(p, 0, NULL, NULL, cost), "cost");
    bench_need(mlsys_release(c), "release");
    bench_need(mlsys_release(g), "release");
    return p;
}

static uint64_t digest(void *user) {
    subject *x = user;
    uint64_t each[OUTPUTS], bytes;
    for (int i = 0; i < x->n_out; i++) {
        const void *data = data_of(x->out[i], &bytes);
        each[i] = bench_digest(data, bytes);
    }
    return bench_digest(each, sizeof *each * (size_t)x->n_out);
}

static void run(subject *x, mlsys_program p) {
    bench_need(mlsys_program_run(p, x->lib.stream, x->n_in, x->in, x->n_out, x->out), "run");
}

static void release_outputs(subject *x) {
    for (int i = 0; i < x->n_out; i++) {
        bench_need(mlsys_release(x->out[i]), "release");
        x->out[i] = NULL;
    }
}

/* Both programs; what separate kernels give is kept as a digest. */
static void subject_open(subject *x, const compiler_case *c, int64_t rows, int threads,
                         bool plant) {
    char text[TEXT];
    *x = (subject){.what = c, .rows = rows, .columns = c->columns, .plant = plant};
    bench_library_open(&x->lib, threads, NULL);
    expand(c->text, rows, x->columns, text, sizeof text);
    add_inputs(x, text);
    mlsys_program separate = compile(x, text, "never", &x->before);
    x->fused = compile(x, text, "always", &x->after);
    run(x, separate);
    x->expected = digest(x);
    bench_need(mlsys_release(separate), "release");
    release_outputs(x); /* no old results */
}

static void subject_close(subject *x) {
    release_outputs(x);
    for (int i = 0; i < x->n_in; i++)
        bench_need(mlsys_release(x->in[i]), "release");
    bench_need(mlsys_release(x->fused), "release");
    bench_library_close(&x->lib);
}

/* ---- as a subject of the harness -------------------------------------------------------------------- */

static bool call(void *user) {
    subject *x = user;
    uint64_t bytes;
    if (mlsys_program_run(x->fused, x->lib.stream, x->n_in, x->in, x->n_out, x->out) != MLSYS_OK)
        return false;
    if (x->plant) {
        unsigned char *p = data_of(x->out[0], &bytes);
        p[bytes / 2 / 4 * 4] ^= 1;
    }
    return true;
}

static void check(void *user, bench_verdict *v) {
    subject *x = user;
    bool same = digest(x) == x->expected;
    bench_judge(v, same && x->after.kernels == 1,
                "separate kernels, every byte of every result, equal bits; one kernel",
                "%s bits, %d kernels", same ? "equal" : "OTHER", (int)x->after.kernels);
}

static bench_subject as_subject(subject *x, int threads) {
    return (bench_subject){.name = x->what->name,
                           .boundary = BENCH_CALL,
                           .cache = BENCH_WARM,
                           .threads = threads,
                           .user = x,
                           .call = call,
                           .digest = digest,
                           .check = check};
}

static double moved(const mlsys_cost *c) { return (double)(c->bytes_read + c->bytes_written); }

static void report(bench_program *p, const subject *x, const bench_subject *s,
                   const bench_result *r) {
    bench_record record = {NULL, 0, 0};
    bench_summary t = bench_result_summary(r, (uint64_t)p->seed);
    bench_roof top = bench_cost_roof(p, &x->after, s);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)x->rows, (long long)x->columns);
    bench_set_result(&record, s, r, (uint64_t)p->seed);
    bench_set_text(&record, "shape", shape);
    bench_set_text(&record, "dtype", "f32");
    bench_set_text(&record, "numerics", "exact");
    if (p->plant) bench_set_flag(&record, "planted", true);
    if (r->verdict.judgement == BENCH_PASS) {
        double read = bench_bandwidth(&p->limits, BENCH_LIMIT_READ, s->threads, UINT64_MAX);
        double copy = bench_bandwidth(&p->limits, BENCH_LIMIT_COPY, s->threads, UINT64_MAX);
        double least = (double)x->after.bytes_read / read +
                       (double)x->after.bytes_written * fmax(2 / copy - 1 / read, 0);
        bench_set_rates(&record, &t, &x->after, &top);
        bench_set_number(&record, "bandwidth_percent", 100 * least / t.median);
        bench_set_number(&record, "kernels_before", (double)x->before.kernels);
        bench_set_number(&record, "kernels_after", (double)x->after.kernels);
        bench_set_number(&record, "bytes_before", moved(&x->before));
        bench_set_number(&record, "bytes_after", moved(&x->after));
    } else {
        p->wrong++;
    }
    bench_report_add(&p->report, BENCH_RECORD_RESULT, &record);
    bench_print_rates(s, r, &t, &x->after, &top);
    printf("    kernels %d -> %d, MB %.1f -> %.1f\n", (int)x->before.kernels, (int)x->after.kernels,
           moved(&x->before) * 1e-6, moved(&x->after) * 1e-6);
    fflush(stdout);
}

/* ---- peers -------------------------------------------------------------------------------------------- */

typedef struct plan {
    bench_program *p;
    torch_peer peer;
    bench_sampling how;
    char folder[64];
    double log_ratio; /* of the subgraphs, on all threads */
    int n_ratios;
} plan;

static bool write_inputs(const subject *x, const char *path) {
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;
    for (int i = 0; i < x->n_in && ok; i++) {
        uint64_t bytes;
        const void *data = data_of(x->in[i], &bytes);
        ok = fwrite(data, 1, bytes, f) == bytes;
    }
    if (f && fclose(f)) ok = false;
    return ok;
}

/* Largest difference of our results and those in the file, in parts of each result's greatest value. */
static double largest_difference(const subject *x, const char *path) {
    FILE *f = fopen(path, "rb");
    double worst = f ? 0 : INFINITY;
    for (int i = 0; i < x->n_out && f; i++) {
        uint64_t bytes;
        const float *ours = data_of(x->out[i], &bytes);
        float *theirs = bench_memory(bytes);
        double greatest = 0, difference = 0;
        if (fread(theirs, 1, bytes, f) != bytes) difference = INFINITY;
        for (uint64_t k = 0; k < bytes / 4; k++) {
            greatest = fmax(greatest, fabs((double)theirs[k]));
            double d = fabs((double)ours[k] - (double)theirs[k]);
            if (!(d <= difference)) difference = d;
        }
        if (!(difference / greatest <= worst)) worst = difference / greatest;
        free(theirs);
    }
    if (f && fgetc(f) != EOF) worst = INFINITY;
    if (f) fclose(f);
    return worst;
}

/* Does the peer's function mean what ours does? On few rows, the peer uncompiled; at full size it compares itself. */
static bool same_meaning(plan *q, const compiler_case *c, char *why, size_t cap) {
    char in[96], out[96], answer[BENCH_TEXT];
    subject x;
    subject_open(&x, c, 24, 1, false);
    run(&x, x.fused);
    snprintf(in, sizeof in, "%s/in", q->folder);
    snprintf(out, sizeof out, "%s/out", q->folder);
    double worst = INFINITY;
    if (!write_inputs(&x, in))
        snprintf(why, cap, "cannot write %s", in);
    else if (!torch_peer_ask(&q->peer, answer, sizeof answer, "check %d %d %s %s %s", 24,
                             (int)x.columns, in, out, c->name))
        snprintf(why, cap, "%.200s", answer);
    else
        snprintf(why, cap, "outputs differ by %.1e of the greatest value",
                 worst = largest_difference(&x, out));
    unlink(in);
    unlink(out);
    subject_close(&x);
    return worst <= 1e-4;
}

/* One sample of the peer, of as many calls as one of ours. */
static bool peer_sample(plan *q, bench_result *r) {
    char answer[BENCH_TEXT];
    if (!torch_peer_ask(&q->peer, answer, sizeof answer, "time %lld", (long long)r->repeats))
        return false;
    r->seconds[r->n++] = strtod(answer, NULL);
    return true;
}

static bool interleave(plan *q, const bench_subject *s, bench_pair *pair) {
    if (!bench_prepare(s, &q->how, &pair->a)) return false;
    pair->b.repeats = pair->a.repeats;
    bool ok = peer_sample(q, &pair->b); /* a warm-up */
    pair->b.n = 0;
    for (int i = 0; i < 2 * q->how.samples && ok; i++) {
        usleep(20000); /* OpenMP's threads spin for a while */
        ok = (i + i / 2) % 2 ? peer_sample(q, &pair->b) : bench_sample(s, &pair->a);
    }
    if (!ok || !bench_finish(s, &pair->a)) return false;
    bench_judge(&pair->b.verdict, true, "itself uncompiled; ours on few rows", "agrees");
    pair->ratio = bench_ratio(pair->b.seconds, pair->a.seconds, pair->a.n, (uint64_t)q->p->seed);
    return true;
}

/* The ratio to one peer, 0 when there is none. */
static double compare(plan *q, subject *x, const bench_subject *s, const char *peer) {
    static bench_pair pair;
    char answer[BENCH_TEXT], ours[BENCH_TEXT];
    bench_record record = {NULL, 0, 0};
    memset(&pair, 0, sizeof pair);
    if (!torch_peer_ask(&q->peer, answer, sizeof answer, "open %s %d %lld %lld %s", peer,
                        s->threads, (long long)x->rows, (long long)x->columns, x->what->name)) {
        printf("    %s: %s\n", peer, answer);
        return 0;
    }
    bool ok = interleave(q, s, &pair);
    snprintf(ours, sizeof ours, "%s", x->what->name);
    bench_set_pair(&record, ours, "libmlsys", peer, q->peer.settings, s->threads, &pair);
    bench_set_text(&record, "method", "interleaved, two processes, order swapped each round");
    bench_report_add(&q->p->report, BENCH_RECORD_COMPARISON, &record);
    if (!torch_peer_ask(&q->peer, answer, sizeof answer, "close")) ok = false;
    if (!ok) {
        printf("    %s: no comparison\n", peer);
        return 0;
    }
    printf("    %s %.1f us; its time / ours %.2f [%.2f, %.2f]\n", peer,
           bench_result_summary(&pair.b, 1).median * 1e6, pair.ratio.median, pair.ratio.low,
           pair.ratio.high);
    fflush(stdout);
    return pair.ratio.median;
}

static void compare_all(plan *q, subject *x, const bench_subject *s) {
    char why[BENCH_TEXT], names[BENCH_TEXT];
    double best = INFINITY;
    if (!q->peer.pid || x->what->kind == CASE_LIMIT) return;
    if (!same_meaning(q, x->what, why, sizeof why)) {
        printf("    peer: not the same function: %s\n", why);
        q->p->wrong++;
        return;
    }
    snprintf(names, sizeof names, "%s", q->peer.names);
    for (char *peer = strtok(names, " "); peer; peer = strtok(NULL, " ")) {
        double ratio = compare(q, x, s, peer);
        if (ratio > 0 && ratio < best) best = ratio;
    }
    if (x->what->kind != CASE_SUBGRAPH || !isfinite(best) || s->threads != (int)q->p->threads)
        return;
    q->log_ratio += log(best);
    q->n_ratios++;
}

/* ---- measuring --------------------------------------------------------------------------------------- */

static void measure(plan *q, const compiler_case *c, int threads) {
    static bench_result r;
    subject x;
    subject_open(&x, c, q->p->quick ? c->rows / 4 : c->rows, threads, q->p->plant);
    bench_subject s = as_subject(&x, threads);
    if (bench_measure(&s, &q->how, &r)) {
        report(q->p, &x, &s, &r);
        compare_all(q, &x, &s);
    } else {
        report(q->p, &x, &s, &r);
    }
    subject_close(&x);
}

static void block(void) {
    static const char *const fuse[] = {"never", "auto", "always"};
    for (int i = 0; i < 3; i++) {
        subject x = {.what = NULL};
        mlsys_cost cost = {0};
        bench_library_open(&x.lib, 1, NULL);
        mlsys_program p = compile(&x, llama_block, fuse[i], &cost);
        printf("Llama block, 512 positions, fuse=%s: %d kernels, %.1f MB\n", fuse[i],
               (int)cost.kernels, moved(&cost) * 1e-6);
        bench_need(mlsys_release(p), "release");
        bench_library_close(&x.lib);
    }
}

int main(int argc, char **argv) {
    static bench_program p = {.name = "bench_compiler",
                              .summary = "Time of generated kernels beside the hardware's limits "
                                         "and compiled PyTorch and ONNX Runtime."};
    static plan q = {.p = &p, .folder = "/tmp/mlsys-bench-XXXXXX"};
    const char *python = "python3", *script = "bench/compiler_torch.py";
    bool alone = false;
    const bench_option own[] = {
        {"--python", "FILE", "a Python with PyTorch (default: python3)", BENCH_STRING, &python},
        {"--script", "FILE", "the peer's script (default: bench/compiler_torch.py)", BENCH_STRING,
         &script},
        {"--alone", NULL, "no peer", BENCH_FLAG, &alone},
        {NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run_record = {NULL, 0, 0};
    int counts[2], status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    int n = bench_thread_counts(&p, counts);
    q.how = (bench_sampling){.warmup = 2,
                             .samples = p.samples ? (int)p.samples
                                        : p.quick ? 5
                                                  : 15,
                             .sample_seconds = p.quick ? 0.01 : 0.05};
    if (!mkdtemp(q.folder)) return perror(q.folder), 1;
    if (alone || !torch_peer_open(&q.peer, python, script)) puts("SKIP: PyTorch: no peer");
    block();
    for (size_t i = 0; i < sizeof compiler_cases / sizeof compiler_cases[0]; i++)
        for (int t = p.quick ? n - 1 : 0; t < n; t++)
            if (bench_wanted(&p, compiler_cases[i].name))
                measure(&q, &compiler_cases[i], counts[t]);
    if (q.n_ratios)
        printf("geometric mean over %d subgraphs of (best peer's time / ours): %.3f\n", q.n_ratios,
               exp(q.log_ratio / q.n_ratios));
    torch_peer_close(&q.peer);
    rmdir(q.folder);
    return bench_end(&p, &run_record);
}
