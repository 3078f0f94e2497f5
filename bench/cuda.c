/* Kernels on a CUDA device beside its memory's speed. Prints a line of JSON a case; bench/cuda_torch.py runs it beside PyTorch and
 * makes a table. A time is that of a whole run of a compiled program, replayed as one graph, with the wait for its end (about
 * ten microseconds). */
#include <mlsys/mlsys.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM = 4, TEXT = 2048, OPERANDS = 4 };

typedef struct cuda_case {
    const char *name, *inputs, *body; /* $T the dtype, $R rows, $C columns */
    int64_t rows, columns;
    int reads, writes; /* whole matrices */
    double flops;      /* per element of the result; products only */
} cuda_case;

#define MATRIX(n) "  %" #n " = input \"x" #n "\" : $T[$R,$C]\n"
#define ROW(n)    "  %" #n " = input \"x" #n "\" : $T[$C]\n"
#define OUT(n)    "  output \"y\" %" #n "\n"

#define SIZES(name, inputs, body)                                                                  \
    {name, inputs, body, 16384, 4096, 1, 1, 0}, {name, inputs, body, 4096, 32768, 1, 1, 0},        \
        {name, inputs, body, 65536, 1024, 1, 1, 0}, {                                              \
        name, inputs, body, 64, 1 << 20, 1, 1, 0                                                   \
    }

static const cuda_case cases[] = {
    {"neg", MATRIX(0), "  %1 = neg(%0) : $T[$R,$C]\n" OUT(1), 16384, 8192, 1, 1, 0},
    {"gelu(a*b+c)*sigmoid(a)+b", MATRIX(0) MATRIX(1) MATRIX(2),
     "  %3 = mul(%0, %1) : $T[$R,$C]\n  %4 = add(%3, %2) : $T[$R,$C]\n  %5 = gelu(%4) : $T[$R,$C]\n"
     "  %6 = sigmoid(%0) : $T[$R,$C]\n  %7 = mul(%5, %6) : $T[$R,$C]\n"
     "  %8 = add(%7, %1) : $T[$R,$C]\n" OUT(8),
     16384, 8192, 3, 1, 0},
    {"transpose", MATRIX(0), "  %1 = transpose(%0) {perm=[1,0]} : $T[$C,$R]\n" OUT(1), 16384, 16384,
     1, 1, 0},
    {"sum of all", MATRIX(0), "  %1 = reduce_sum(%0) {axes=[0,1]} : $T[]\n" OUT(1), 16384, 8192, 1,
     0, 0},
    {"sum of rows", MATRIX(0), "  %1 = reduce_sum(%0) {axes=[1]} : $T[$R]\n" OUT(1), 16384, 8192, 1,
     0, 0},
    {"sum of columns", MATRIX(0), "  %1 = reduce_sum(%0) {axes=[0]} : $T[$C]\n" OUT(1), 16384, 8192,
     1, 0, 0},
    SIZES("softmax", MATRIX(0), "  %1 = softmax(%0) : $T[$R,$C]\n" OUT(1)),
    SIZES("layer_norm", MATRIX(0) ROW(1) ROW(2),
          "  %3 = layer_norm(%0, %1, %2) : $T[$R,$C]\n" OUT(3)),
    SIZES("rms_norm", MATRIX(0) ROW(1), "  %2 = rms_norm(%0, %1) : $T[$R,$C]\n" OUT(2)),
    {"matmul", MATRIX(0) MATRIX(1), "  %2 = matmul(%0, %1) : $T[$R,$C]\n" OUT(2), 4096, 4096, 2, 1,
     8192},
};

typedef struct bench {
    mlsys_ctx ctx;
    mlsys_device cuda;
    mlsys_stream stream;
} bench;

static void need(mlsys_status st, const char *what) {
    if (st == MLSYS_OK) return;
    fprintf(stderr, "cuda: %s: %s\n", what, mlsys_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void expand(const cuda_case *c, const char *dtype, const char *from, char *to) {
    for (; *from; from++) {
        if (*from != '$') {
            *to++ = *from;
            continue;
        }
        from++;
        to += *from == 'T' ? sprintf(to, "%s", dtype)
                           : sprintf(to, "%lld", (long long)(*from == 'R' ? c->rows : c->columns));
    }
    *to = 0;
}

static mlsys_program compile(const bench *b, const cuda_case *c, const char *dtype) {
    char plain[TEXT], text[TEXT];
    mlsys_graph g;
    mlsys_program p;
    snprintf(plain, sizeof plain, "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n%s%s}\n", c->inputs,
             c->body);
    expand(c, dtype, plain, text);
    need(mlsys_graph_parse(b->ctx, text, &g), c->name);
    need(mlsys_graph_compile(g, b->cuda, NULL, &p), c->name);
    mlsys_release(g);
    return p;
}

/* Random operands, as many as the text has. */
static int make_inputs(const bench *b, const cuda_case *c, mlsys_dtype dtype, mlsys_tensor *in) {
    int n = 0;
    for (const char *at = c->inputs; (at = strstr(at, " = input ")); at++, n++) {
        const char *type = strstr(at, "$T[");
        int32_t rank = type[4] == 'R' ? 2 : 1;
        const int64_t both[2] = {c->rows, c->columns};
        need(mlsys_tensor_create(b->cuda, dtype, rank, both + 2 - rank, &in[n]), c->name);
        need(mlsys_tensor_random(in[n], b->stream, "normal", 7, (uint64_t)n), c->name);
    }
    return n;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const bench *b, const cuda_case *c, mlsys_dtype dtype, int times) {
    const char *name = dtype == MLSYS_F32 ? "f32" : "bf16";
    mlsys_tensor in[OPERANDS], out[1] = {NULL};
    double *seconds = malloc(sizeof *seconds * (size_t)times);
    if (!seconds) exit(1);
    mlsys_program p = compile(b, c, name);
    int n = make_inputs(b, c, dtype, in);
    for (int i = -WARM; i < times; i++) {
        double begun = now();
        need(mlsys_program_run(p, b->stream, n, in, 1, out), c->name);
        if (i >= 0) seconds[i] = now() - begun;
    }
    qsort(seconds, (size_t)times, sizeof *seconds, by_value);
    double median = seconds[times / 2], size = dtype == MLSYS_F32 ? 4 : 2;
    double elements = (double)c->rows * (double)c->columns;
    printf("{\"name\": \"%s\", \"dtype\": \"%s\", \"rows\": %lld, \"columns\": %lld, \"seconds\": "
           "%.9f, \"bytes\": %.0f, \"flops\": %.0f}\n",
           c->name, name, (long long)c->rows, (long long)c->columns, median,
           elements * size * (c->reads + c->writes), elements * c->flops);
    fflush(stdout);
    for (int i = 0; i < n; i++)
        mlsys_release(in[i]);
    mlsys_release(out[0]);
    mlsys_release(p);
    free(seconds);
}

int main(int argc, char **argv) {
    int times = argc > 2 && !strcmp(argv[1], "--times") ? atoi(argv[2]) : 20;
    const char *only = argc > 4 && !strcmp(argv[3], "--only") ? argv[4] : "";
    bench b;
    if (times < 1) {
        fprintf(stderr, "usage: cuda [--times N [--only NAME]]\n");
        return 2;
    }
    need(mlsys_ctx_create(NULL, NULL, &b.ctx), "context");
    need(mlsys_device_get(b.ctx, MLSYS_CUDA, 0, &b.cuda), "device");
    need(mlsys_stream_create(b.cuda, NULL, &b.stream), "stream");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strstr(cases[i].name, only)) continue;
        measure(&b, &cases[i], MLSYS_F32, times);
        measure(&b, &cases[i], MLSYS_BF16, times);
    }
    mlsys_release(b.stream);
    mlsys_release(b.cuda);
    mlsys_release(b.ctx);
    return 0;
}
