/* Speed of single ops beside the hardware's limits: elementwise, softmax, RMS norm, matmul,
 * block-quantised matmul, attention. See docs/bench.md. */
#include "support/blas_peer.h"
#include "support/one_op.h"
#include "support/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32_1(n)                                                                                   \
    { MLSYS_F32, 1, {n}, .row = 1 }
#define F32_2(m, n)                                                                                \
    { MLSYS_F32, 2, {m, n}, .row = 1 }

#define UNARY(text, op_name, n)                                                                    \
    { .name = text, .op = op_name, .in = {F32_1(n)}, .out_row = 1, .rows = 4096, .columns = 1 }
#define ROWS(text, op_name, m, n)                                                                  \
    { .name = text, .op = op_name, .in = {F32_2(m, n)}, .out_row = 1, .rows = 2, .columns = 1 }
/* Weights are constants, as in a model, so they are packed once; the second form has two inputs. */
#define MATMUL(text, m, n, k, is_constant)                                                         \
    {                                                                                              \
        .name = text, .op = "matmul", .out_row = 1, .out_column = 2, .rows = 3, .columns = 17,     \
        .in = {                                                                                    \
            F32_2(m, k),                                                                           \
            {MLSYS_F32, 2, {k, n}, .column = 2, .constant = is_constant}                           \
        }                                                                                          \
    }
#define QUANT(text, type, m, n, k)                                                                 \
    {                                                                                              \
        .name = text, .op = "quant_matmul", .out_row = 1, .out_column = 2, .rows = 3,              \
        .columns = 17, .in = {                                                                     \
            F32_2(m, k),                                                                           \
            {type, 2, {n, k}, .column = 1, .constant = true}                                       \
        }                                                                                          \
    }
/* Queries are the last lq positions of lk. */
#define ATTENTION(text, lq, lk, heads, kv_heads, d)                                                \
    {                                                                                              \
        .name = text, .op = "attention", .out_row = 2, .rows = 2, .columns = 1, .last_rows = true, \
        .in = {{MLSYS_F32, 4, {1, lq, heads, d}, .row = 2},                                        \
               {MLSYS_F32, 4, {1, lk, kv_heads, d}},                                               \
               {MLSYS_F32, 4, {1, lk, kv_heads, d}}},                                              \
        .attrs = {                                                                                 \
            {"causal", "bottom_right"}                                                             \
        }                                                                                          \
    }

enum { MI = 1 << 20 };

static const one_op_case cases[] = {
    {.name = "add 1Mi",
     .op = "add",
     .in = {F32_1(MI), F32_1(MI)},
     .out_row = 1,
     .rows = 4096,
     .columns = 1},
    UNARY("exp 1Mi", "exp", MI),
    UNARY("silu 1Mi", "silu", MI),
    UNARY("gelu 1Mi", "gelu", MI),
    ROWS("softmax 1024x1024", "softmax", 1024, 1024),
    {.name = "rms_norm 1024x1024",
     .op = "rms_norm",
     .out_row = 1,
     .rows = 2,
     .columns = 1,
     .in = {F32_2(1024, 1024), {MLSYS_F32, 1, {1024}}}},
    MATMUL("matmul 512x512x512", 512, 512, 512, false),
    MATMUL("matmul packed 512x512x512", 512, 512, 512, true),
    MATMUL("matmul packed 128x3072x768", 128, 3072, 768, true),
    MATMUL("matmul packed 1x4096x4096", 1, 4096, 4096, true),
    QUANT("quant_matmul q4_1 1x1536x576", MLSYS_Q4_1, 1, 1536, 576),
    QUANT("quant_matmul q4_1 512x1536x576", MLSYS_Q4_1, 512, 1536, 576),
    QUANT("quant_matmul q8_0 1x49152x576", MLSYS_Q8_0, 1, 49152, 576),
    QUANT("quant_matmul q5_0 512x2048x640", MLSYS_Q5_0, 512, 2048, 640),
    QUANT("quant_matmul q4_k 512x640x1024", MLSYS_Q4_K, 512, 640, 1024),
    QUANT("quant_matmul q6_k 1x640x2048", MLSYS_Q6_K, 1, 640, 2048),
    ATTENTION("attention causal L512 H12 D64", 512, 512, 12, 12, 64),
    ATTENTION("attention decode L2048 H9/3 D64", 1, 2048, 9, 3, 64),
};

static const one_op_case more_cases[] = {
    {.name = "add 16Mi",
     .op = "add",
     .in = {F32_1(16 * MI), F32_1(16 * MI)},
     .out_row = 1,
     .rows = 4096,
     .columns = 1},
    UNARY("gelu 16Mi", "gelu", 16 * MI),
    ROWS("softmax 4096x4096", "softmax", 4096, 4096),
    MATMUL("matmul 1024x1024x1024", 1024, 1024, 1024, false),
    MATMUL("matmul packed 1024x1024x1024", 1024, 1024, 1024, true),
    MATMUL("matmul packed 2048x2048x2048", 2048, 2048, 2048, true),
    MATMUL("matmul packed 32x4096x4096", 32, 4096, 4096, true),
    MATMUL("matmul packed 128x768x3072", 128, 768, 3072, true),
    QUANT("quant_matmul q4_1 1x576x1536", MLSYS_Q4_1, 1, 576, 1536),
    QUANT("quant_matmul q8_0 512x2048x640", MLSYS_Q8_0, 512, 2048, 640),
    QUANT("quant_matmul q5_1 512x2048x640", MLSYS_Q5_1, 512, 2048, 640),
    QUANT("quant_matmul q5_k 512x640x2048", MLSYS_Q5_K, 512, 640, 2048),
    QUANT("quant_matmul q6_k 512x640x2048", MLSYS_Q6_K, 512, 640, 2048),
};

/* ---- one line ------------------------------------------------------------------------------ */

static void report(bench_program *p, const one_op *o, const bench_subject *s,
                   const bench_result *r) {
    bench_summary t = bench_result_summary(r, (uint64_t)p->seed);
    bench_roof top = bench_cost_roof(p, &o->cost, s);
    bench_record record = {NULL, 0, 0};
    char shapes[BENCH_TEXT];
    one_op_shapes(o->what, shapes, sizeof shapes);
    bench_set_result(&record, s, r, (uint64_t)p->seed);
    bench_set_text(&record, "shape", shapes);
    bench_set_text(&record, "dtype", "f32 result");
    bench_set_text(&record, "numerics", o->numerics);
    if (p->plant) bench_set_flag(&record, "planted", true);
    if (r->verdict.judgement == BENCH_PASS) {
        bench_set_text(&record, "kernel", o->kernel);
        bench_set_rates(&record, &t, &o->cost, &top);
        if (s->cache == BENCH_WARM && s->boundary == BENCH_KERNEL)
            bench_roofline_add(&p->roofline, s->name,
                               bench_operations(&o->cost) /
                                   (double)(o->cost.bytes_read + o->cost.bytes_written),
                               bench_operations(&o->cost) / t.median, s->threads);
    } else {
        p->wrong++;
    }
    bench_report_add(&p->report, BENCH_RECORD_RESULT, &record);
    bench_print_rates(s, r, &t, &o->cost, &top);
    fflush(stdout);
}

/* ---- measuring --------------------------------------------------------------------------------- */

typedef struct plan {
    bench_program *p;
    bench_sampling how;
    bool call, cold;
    const char *blas; /* path of an OpenBLAS, or NULL */
} plan;

static const float *floats(mlsys_tensor t) {
    void *data;
    bench_need(mlsys_tensor_data(t, &data, NULL), "operand");
    return data;
}

/* An f32 product beside OpenBLAS. */
static void compare_blas(const plan *x, one_op *o, int threads) {
    static bench_pair pair;
    static blas_peer blas;
    const one_op_case *c = o->what;
    bench_record record = {NULL, 0, 0};
    if (!blas_open(&blas, x->blas, threads)) return;
    int64_t m = c->in[0].shape[0], k = c->in[0].shape[1], n = c->in[1].shape[1];
    blas_product product = {.blas = &blas,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a = floats(o->in[0]),
                            .b = floats(o->in[1]),
                            .c = bench_memory(sizeof(float) * (uint64_t)(m * n)),
                            .seed = (uint64_t)x->p->seed};
    bench_subject ours = one_op_subject(o, BENCH_CALL, BENCH_WARM, threads, c->name);
    bench_subject theirs = blas_subject(&product, threads, "OpenBLAS");
    bench_sampling how = x->how;
    how.settle_seconds = threads > 1 ? 0.1 : 0; /* OpenBLAS's threads spin for 2^26 cycles */
    bool ok = bench_measure_pair(&ours, &theirs, &how, (uint64_t)x->p->seed, &pair);
    bench_set_pair(&record, c->name, "libmlsys", "OpenBLAS", blas.settings, threads, &pair);
    bench_report_add(&x->p->report, BENCH_RECORD_COMPARISON, &record);
    if (ok)
        printf("    OpenBLAS %.1f us; its time / ours %.2f [%.2f, %.2f]\n",
               bench_result_summary(&pair.b, 1).median * 1e6, pair.ratio.median, pair.ratio.low,
               pair.ratio.high);
    else
        printf("    OpenBLAS: no comparison: %s; %s\n", pair.a.verdict.finding,
               pair.b.verdict.finding);
    free(product.c);
}

static void measure(const plan *x, const one_op_case *c, int threads) {
    static bench_result r;
    one_op o = {.portable_limit = x->p->quick ? 1.2e9 : 2e10, .plant = x->p->plant};
    one_op_open(&o, c, threads, "exact", (uint64_t)x->p->seed);
    for (int boundary = BENCH_KERNEL; boundary <= (x->call ? BENCH_CALL : BENCH_KERNEL); boundary++)
        for (int cache = BENCH_WARM; cache <= (x->cold ? BENCH_COLD : BENCH_WARM); cache++) {
            bench_subject s =
                one_op_subject(&o, (bench_boundary)boundary, (bench_cache)cache, threads, c->name);
            bench_measure(&s, &x->how, &r);
            report(x->p, &o, &s, &r);
        }
    if (x->blas && !strcmp(c->op, "matmul")) compare_blas(x, &o, threads);
    one_op_close(&o);
}

static void run_cases(const plan *x, const one_op_case *list, size_t n) {
    int counts[2], n_counts = bench_thread_counts(x->p, counts);
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < n_counts; t++)
            if (bench_wanted(x->p, list[i].name)) measure(x, &list[i], counts[t]);
}

int main(int argc, char **argv) {
    static bench_program p = {
        .name = "bench_kernels",
        .summary = "Time of single ops and how near they come to the hardware's limits."};
    plan x = {.p = &p, .blas = getenv("MLSYS_OPENBLAS")};
    const bench_option own[] = {
        {"--call", NULL, "measure the public call too", BENCH_FLAG, &x.call},
        {"--cold", NULL, "measure with cold caches too", BENCH_FLAG, &x.cold},
        {"--blas", "FILE", "an OpenBLAS to compare f32 products with (default: MLSYS_OPENBLAS)",
         BENCH_STRING, &x.blas},
        {NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run = {NULL, 0, 0};
    int status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    x.how = (bench_sampling){
        .warmup = 2, .samples = p.quick ? 9 : 25, .sample_seconds = p.quick ? 0.01 : 0.03};
    if (p.samples) x.how.samples = (int)p.samples;
    if (x.blas && !*x.blas) x.blas = NULL;
    if (!x.blas) puts("SKIP: OpenBLAS: MLSYS_OPENBLAS is not set");
    printf("\n%-34s boundary, cache, threads; median of one call, p95, half the spread, rates, %% "
           "of the roof\n",
           "op");
    run_cases(&x, cases, sizeof cases / sizeof cases[0]);
    if (!p.quick) run_cases(&x, more_cases, sizeof more_cases / sizeof more_cases[0]);
    return bench_end(&p, &run);
}
