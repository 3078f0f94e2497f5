/* What computing forward values again costs and saves: one step of gradients of networks of 48 residual layers,
 * with all forward values kept and by "sqrt", interleaved. Both must give the bits of a third program: portable
 * kernels, no memory shared. Memory is the scratch of a run, which holds all but inputs and outputs. */
#include "support/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 48, PER_LAYER = 8, MAX_PARAMETERS = LAYERS * PER_LAYER };

typedef struct shape {
    const char *name;
    int64_t rows, width; /* rows: of a batch, or tokens of one sequence */
    int64_t head;        /* 0: no attention */
} shape;

static const shape shapes[] = {{"48 layers, feed-forward", 512, 96, 0},
                               {"48 layers, attention", 256, 96, 32}};

typedef struct step {
    const shape *what;
    bench_library *lib;
    mlsys_graph g;
    mlsys_program program;
    mlsys_stream stream;
    mlsys_tensor in[MAX_PARAMETERS + 1], out[MAX_PARAMETERS + 1];
    int n; /* parameters */
    uint64_t expected, scratch;
    mlsys_cost cost;
} step;

/* ---- the graph ----------------------------------------------------------------------------- */

typedef struct network {
    step *s;
    mlsys_value parameters[MAX_PARAMETERS];
} network;

static mlsys_value op(network *net, const char *name, int n, const mlsys_value *in,
                      mlsys_config attrs) {
    mlsys_value out;
    bench_need(mlsys_graph_op(net->s->g, name, n, in, attrs, 1, &out), name);
    if (attrs) bench_need(mlsys_release(attrs), "release");
    return out;
}

static mlsys_config text(const char *key, const char *value) {
    mlsys_config c;
    bench_need(mlsys_config_create(&c), "config");
    bench_need(mlsys_config_set_str(c, key, value), key);
    return c;
}

static mlsys_value reshape(network *net, mlsys_value x, int n, const int64_t *dims) {
    mlsys_config c;
    bench_need(mlsys_config_create(&c), "config");
    bench_need(mlsys_config_set_i64s(c, "shape", n, dims), "shape");
    return op(net, "reshape", 1, &x, c);
}

/* A parameter with small random numbers. */
static mlsys_value parameter(network *net, int rank, int64_t a, int64_t b) {
    step *s = net->s;
    const int64_t dims[2] = {a, b};
    mlsys_value v;
    mlsys_tensor t, scale, scaled = NULL;
    const float size = rank == 1 ? 1 : 0.05f;
    int i = s->n++;
    bench_need(mlsys_graph_input(s->g, NULL, MLSYS_F32, rank, dims, &v), "input");
    bench_need(mlsys_tensor_create(s->lib->device, MLSYS_F32, rank, dims, &t), "tensor");
    bench_need(mlsys_tensor_random(t, s->stream, "normal", 1, (uint64_t)i + 1), "random");
    bench_need(mlsys_tensor_create(s->lib->device, MLSYS_F32, 0, NULL, &scale), "tensor");
    bench_need(mlsys_tensor_write(scale, s->stream, &size, sizeof size), "write");
    const mlsys_tensor in[2] = {t, scale};
    bench_need(mlsys_op_run(s->stream, "mul", 2, in, NULL, 1, &scaled), "mul");
    bench_need(mlsys_release(t), "release");
    bench_need(mlsys_release(scale), "release");
    s->in[1 + i] = scaled;
    net->parameters[i] = v;
    return v;
}

static mlsys_value matmul(network *net, mlsys_value x, int64_t from, int64_t to) {
    const mlsys_value in[2] = {x, parameter(net, 2, from, to)};
    return op(net, "matmul", 2, in, NULL);
}

static mlsys_value normed(network *net, mlsys_value x) {
    const mlsys_value in[2] = {x, parameter(net, 1, net->s->what->width, 0)};
    return op(net, "rms_norm", 2, in, NULL);
}

static mlsys_value add(network *net, mlsys_value a, mlsys_value b) {
    const mlsys_value in[2] = {a, b};
    return op(net, "add", 2, in, NULL);
}

static mlsys_value layer(network *net, mlsys_value x) {
    const shape *w = net->s->what;
    const int64_t heads[4] = {1, w->rows, w->head ? w->width / w->head : 0, w->head},
                  flat[2] = {w->rows, w->width};
    if (w->head) {
        mlsys_value h = normed(net, x), qkv[3];
        for (int i = 0; i < 3; i++)
            qkv[i] = reshape(net, matmul(net, h, w->width, w->width), 4, heads);
        h = op(net, "attention", 3, qkv, text("causal", "top_left"));
        x = add(net, x, matmul(net, reshape(net, h, 2, flat), w->width, w->width));
    }
    mlsys_value h = matmul(net, normed(net, x), w->width, 4 * w->width);
    h = op(net, "gelu", 1, &h, NULL);
    return add(net, x, matmul(net, h, 4 * w->width, w->width));
}

static void build(step *s, const char *policy) {
    network *net = calloc(1, sizeof *net);
    const int64_t dims[2] = {s->what->rows, s->what->width};
    mlsys_value x, loss, *d = calloc(MAX_PARAMETERS, sizeof *d);
    if (!net || !d) exit(2);
    net->s = s;
    bench_need(mlsys_graph_create(s->lib->ctx, &s->g), "graph");
    bench_need(mlsys_graph_input(s->g, "x", MLSYS_F32, 2, dims, &x), "input");
    bench_need(mlsys_tensor_create(s->lib->device, MLSYS_F32, 2, dims, &s->in[0]), "tensor");
    bench_need(mlsys_tensor_random(s->in[0], s->stream, "normal", 2, 0), "random");
    for (int i = 0; i < LAYERS; i++)
        x = layer(net, x);
    const mlsys_value square[2] = {x, x};
    x = op(net, "mul", 2, square, NULL);
    loss = op(net, "reduce_mean", 1, &x, NULL);
    mlsys_config c = text("checkpoint", policy);
    bench_need(mlsys_graph_gradient(s->g, 1, &loss, NULL, s->n, net->parameters, c, d), "gradient");
    bench_need(mlsys_release(c), "release");
    bench_need(mlsys_graph_output(s->g, "loss", loss), "output");
    for (int i = 0; i < s->n; i++)
        bench_need(mlsys_graph_output(s->g, NULL, d[i]), "output");
    free(net);
    free(d);
}

/* ---- subjects ------------------------------------------------------------------------------ */

static bool call(void *user) {
    step *s = user;
    return mlsys_program_run(s->program, s->stream, s->n + 1, s->in, s->n + 1, s->out) == MLSYS_OK;
}

static uint64_t digest(void *user) {
    step *s = user;
    uint64_t all[MAX_PARAMETERS + 1];
    for (int i = 0; i <= s->n; i++) {
        void *data;
        uint64_t bytes;
        bench_need(mlsys_tensor_data(s->out[i], &data, &bytes), "data");
        all[i] = bench_digest(data, bytes);
    }
    return bench_digest(all, sizeof *all * (size_t)(s->n + 1));
}

static void check(void *user, bench_verdict *v) {
    step *s = user;
    uint64_t got = digest(s);
    bench_judge(
        v, got == s->expected,
        "portable kernels, everything kept, no memory shared: loss and all gradients, equal bits",
        got == s->expected ? "equal" : "%s: other bits", s->what->name);
}

static void open_step(step *s, bench_library *l, const shape *what, const char *policy,
                      const char *isa, int plan) {
    mlsys_config c = text("numerics", "exact");
    *s = (step){.what = what, .lib = l, .cost = {.size = sizeof s->cost}};
    bench_need(mlsys_stream_create(l->device, NULL, &s->stream), "stream");
    build(s, policy);
    bench_need(mlsys_config_set_str(c, "isa", isa), "isa");
    bench_need(mlsys_config_set_i64(c, "plan", plan), "plan");
    bench_need(mlsys_graph_compile(s->g, l->device, c, &s->program), "compile");
    bench_need(mlsys_program_cost(s->program, 0, NULL, NULL, &s->cost), "cost");
    bench_need(mlsys_release(c), "release");
    if (!call(s)) bench_need(mlsys_last_status(), "run");
    bench_need(mlsys_stream_scratch_bytes(s->stream, &s->scratch), "scratch");
}

static void close_step(step *s) {
    for (int i = 0; i <= s->n; i++) {
        bench_need(mlsys_release(s->in[i]), "release");
        bench_need(mlsys_release(s->out[i]), "release");
    }
    bench_need(mlsys_release(s->program), "release");
    bench_need(mlsys_release(s->g), "release");
    bench_need(mlsys_release(s->stream), "release");
}

static bench_subject subject(step *s, int threads, const char *name) {
    return (bench_subject){.name = name,
                           .boundary = BENCH_CALL,
                           .cache = BENCH_WARM,
                           .threads = threads,
                           .user = s,
                           .call = call,
                           .digest = digest,
                           .check = check};
}

static void add_result(bench_program *p, const step *s, const bench_subject *subject,
                       const bench_result *r) {
    bench_record record = {NULL, 0, 0};
    char dims[BENCH_TEXT];
    snprintf(dims, sizeof dims, "%lld x %lld", (long long)s->what->rows, (long long)s->what->width);
    bench_set_result(&record, subject, r, (uint64_t)p->seed);
    bench_set_text(&record, "shape", dims);
    bench_set_text(&record, "dtype", "f32");
    bench_set_text(&record, "numerics", "exact");
    bench_set_number(&record, "flops", (double)s->cost.flops);
    bench_set_number(&record, "scratch_bytes", (double)s->scratch);
    bench_report_add(&p->report, BENCH_RECORD_RESULT, &record);
}

static void compare(bench_program *p, const shape *what, int threads) {
    static bench_pair pair;
    static step kept, again, reference;
    bench_library l;
    bench_record record = {NULL, 0, 0};
    char names[2][BENCH_TEXT];
    bench_sampling how = {.warmup = 1,
                          .samples = p->samples ? (int)p->samples
                                     : p->quick ? 5
                                                : 15,
                          .sample_seconds = 0.01};
    bench_library_open(&l, threads, NULL);
    open_step(&reference, &l, what, "none", "portable", 0);
    open_step(&kept, &l, what, "none", "auto", 1);
    open_step(&again, &l, what, "sqrt", "auto", 1);
    kept.expected = again.expected = digest(&reference);
    snprintf(names[0], sizeof names[0], "%s, none", what->name);
    snprintf(names[1], sizeof names[1], "%s, sqrt", what->name);
    bench_subject a = subject(&kept, threads, names[0]), b = subject(&again, threads, names[1]);
    bool ok = bench_measure_pair(&a, &b, &how, (uint64_t)p->seed, &pair);
    add_result(p, &kept, &a, &pair.a);
    add_result(p, &again, &b, &pair.b);
    bench_set_pair(&record, what->name, "none", "sqrt", "the same library", threads, &pair);
    bench_report_add(&p->report, BENCH_RECORD_COMPARISON, &record);
    printf("%-24s %d thread%s scratch %.1f -> %.1f MB, %.1f times less; ", what->name, threads,
           threads > 1 ? "s" : " ", (double)kept.scratch * 1e-6, (double)again.scratch * 1e-6,
           (double)kept.scratch / (double)again.scratch);
    if (ok)
        printf("%.3f of the time [%.3f, %.3f], %.3f of the flops\n", pair.ratio.median,
               pair.ratio.low, pair.ratio.high, (double)again.cost.flops / (double)kept.cost.flops);
    else
        printf("WRONG, no time: %s; %s\n", pair.a.verdict.finding, pair.b.verdict.finding);
    p->wrong += !ok;
    close_step(&reference);
    close_step(&kept);
    close_step(&again);
    bench_library_close(&l);
}

int main(int argc, char **argv) {
    static bench_program p = {
        .name = "bench_checkpoint",
        .summary = "Time and memory of gradients that compute forward values again."};
    const bench_option own[] = {{NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run = {NULL, 0, 0};
    int counts[2], status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    int n = bench_thread_counts(&p, counts);
    putchar('\n');
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++)
            if (bench_wanted(&p, shapes[k].name)) compare(&p, &shapes[k], counts[i]);
    return bench_end(&p, &run);
}
