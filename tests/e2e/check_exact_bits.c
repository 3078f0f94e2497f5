/* The contract of numerics=exact, on a whole language model: one SHA-256 of the logits of 64 positions,
 * whatever the instruction set, threads, batch, chunking and memory plan. */
#include "core/sha256.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/tiny_model.h"

#include <check.h>
#include <mlsys/mlsys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());                            \
    } while (0)

enum { POSITIONS = 64 };

typedef struct setting { /* one way to run the model */
    const char *isa;
    int threads, batch, row, chunk, plan;
} setting;

static const setting settings[] = {
    {"auto", 1, 1, 0, 64, 1},   {"portable", 2, 1, 0, 64, 1}, {"avx2", 2, 1, 0, 64, 1},
    {"avx512", 2, 1, 0, 64, 1}, {"auto", 2, 1, 0, 64, 1},     {"auto", 3, 1, 0, 64, 1},
    {"auto", 7, 1, 0, 64, 1},   {"auto", 2, 8, 5, 64, 1},     {"auto", 2, 1, 0, 1, 1},
    {"auto", 2, 1, 0, 7, 1},    {"auto", 2, 1, 0, 64, 0},     {"portable", 7, 1, 0, 7, 0},
    {"cuda", 1, 1, 0, 64, 1},   {"cuda", 1, 8, 5, 64, 1},     {"cuda", 1, 1, 0, 1, 1},
    {"cuda", 1, 1, 0, 7, 0},
};
enum { N_SETTINGS = (int)(sizeof settings / sizeof settings[0]) };

static char model_path[512];
static int32_t vocab;
static char reference[65];
static uint32_t text_under_test;

typedef struct run {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_model model;
    mlsys_graph graph;
    mlsys_program program;
} run;

static mlsys_config config_of(const char *const *keys, const int64_t *values, int n) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    for (int i = 0; i < n; i++)
        OK(mlsys_config_set_i64(c, keys[i], values[i]));
    return c;
}

static void open_run(run *r, const setting *s) {
    const char *const ctx_keys[] = {"threads"}, *const graph_keys[] = {"context", "chunk", "batch"};
    const int64_t ctx_values[] = {s->threads}, graph_values[] = {POSITIONS, s->chunk, s->batch};
    mlsys_config c = config_of(ctx_keys, ctx_values, 1);
    if (strcmp(s->isa, "cuda")) OK(mlsys_config_set_str(c, "isa", s->isa));
    OK(mlsys_ctx_create(c, NULL, &r->ctx));
    OK(mlsys_release(c));
    OK(mlsys_device_get(r->ctx, strcmp(s->isa, "cuda") ? MLSYS_CPU : MLSYS_CUDA, 0, &r->device));
    OK(mlsys_stream_create(r->device, NULL, &r->stream));
    OK(mlsys_model_open(r->ctx, model_path, NULL, &r->model));
    c = config_of(graph_keys, graph_values, 3);
    OK(mlsys_config_set_str(c, "logits", "all"));
    OK(mlsys_model_graph(r->model, c, &r->graph));
    OK(mlsys_release(c));
    const char *const plan_keys[] = {"plan"};
    const int64_t plan_values[] = {s->plan};
    c = config_of(plan_keys, plan_values, 1);
    OK(mlsys_config_set_str(c, "numerics", "exact"));
    OK(mlsys_graph_compile(r->graph, r->device, c, &r->program));
    OK(mlsys_release(c));
}

static void close_run(run *r) {
    void *handles[] = {r->program, r->graph, r->model, r->stream, r->device, r->ctx};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        OK(mlsys_release(handles[i]));
}

/* The same pseudo-random text for every row under test; other rows of the batch hold something else. */
static int32_t token(int position, int row, int row_under_test) {
    uint32_t h = (uint32_t)position * 2654435761u +
                 (row == row_under_test ? text_under_test : 97u * (uint32_t)(row + 1));
    return (int32_t)((h >> 7) % (uint32_t)vocab);
}

static int count_caches(const run *r) {
    char text[64];
    OK(mlsys_model_meta(r->model, "llama.block_count", text, sizeof text, NULL));
    return 2 * atoi(text);
}

static mlsys_tensor make(const run *r, mlsys_dtype dtype, int32_t rank, const int64_t *shape) {
    mlsys_tensor t;
    uint64_t low, high;
    OK(mlsys_tensor_create(r->device, dtype, rank, shape, &t));
    OK(mlsys_tensor_bounds(t, &low, &high));
    void *zeros = calloc(1, high + 1);
    ck_assert_ptr_nonnull(zeros);
    OK(mlsys_tensor_write(t, r->stream, zeros, high));
    free(zeros);
    return t;
}

static void cache_shape(const run *r, const setting *s, int64_t shape[4]) {
    char text[64];
    int64_t heads, kv_heads, width;
    OK(mlsys_model_meta(r->model, "llama.attention.head_count", text, sizeof text, NULL));
    heads = atoll(text);
    OK(mlsys_model_meta(r->model, "llama.attention.head_count_kv", text, sizeof text, NULL));
    kv_heads = atoll(text);
    OK(mlsys_model_meta(r->model, "llama.embedding_length", text, sizeof text, NULL));
    width = atoll(text);
    shape[0] = s->batch, shape[1] = POSITIONS, shape[2] = kv_heads, shape[3] = width / heads;
}

static void step(run *r, const setting *s, int first, int n, mlsys_tensor *in, mlsys_tensor *out,
                 int n_caches, mlsi_sha256 *hash) {
    const int64_t tokens_shape[2] = {s->batch, n}, logits_shape[3] = {s->batch, n, vocab};
    int64_t start = first;
    int32_t *ids = malloc(sizeof *ids * (size_t)(s->batch * n));
    float *logits = malloc(sizeof *logits * (size_t)(s->batch * n) * (size_t)vocab);
    ck_assert(ids && logits);
    for (int b = 0; b < s->batch; b++)
        for (int i = 0; i < n; i++)
            ids[b * n + i] = token(first + i, b, s->row);
    in[0] = make(r, MLSYS_I32, 2, tokens_shape);
    in[1] = make(r, MLSYS_I64, 0, NULL);
    out[n_caches] = make(r, MLSYS_F32, 3, logits_shape);
    OK(mlsys_tensor_write(in[0], r->stream, ids, sizeof *ids * (size_t)(s->batch * n)));
    OK(mlsys_tensor_write(in[1], r->stream, &start, sizeof start));
    OK(mlsys_program_run(r->program, r->stream, n_caches + 2, in, n_caches + 1, out));
    uint64_t row_bytes = sizeof *logits * (uint64_t)n * (uint64_t)vocab;
    OK(mlsys_tensor_read(out[n_caches], r->stream, logits, row_bytes * (uint64_t)s->batch));
    mlsi_sha256_add(hash, (const char *)logits + row_bytes * (uint64_t)s->row, row_bytes);
    OK(mlsys_release(in[0]));
    OK(mlsys_release(in[1]));
    OK(mlsys_release(out[n_caches]));
    free(ids);
    free(logits);
}

static void logits_hash(const setting *s, char hex[65]) {
    run r;
    mlsi_sha256 hash;
    int64_t shape[4];
    open_run(&r, s);
    int n_caches = count_caches(&r);
    mlsys_tensor *in = calloc((size_t)n_caches + 2, sizeof *in);
    mlsys_tensor *out = calloc((size_t)n_caches + 1, sizeof *out);
    ck_assert(in && out);
    cache_shape(&r, s, shape);
    for (int i = 0; i < n_caches; i++)
        out[i] = in[2 + i] = make(&r, MLSYS_F32, 4, shape);
    mlsi_sha256_init(&hash);
    for (int at = 0; at < POSITIONS; at += s->chunk)
        step(&r, s, at, at + s->chunk < POSITIONS ? s->chunk : POSITIONS - at, in, out, n_caches,
             &hash);
    uint8_t digest[32];
    mlsi_sha256_finish(&hash, digest);
    mlsi_sha256_hex(digest, hex);
    for (int i = 0; i < n_caches; i++)
        OK(mlsys_release(out[i]));
    free(in);
    free(out);
    close_run(&r);
}

static void describe(const setting *s, char *text, size_t cap) {
    snprintf(text, cap, "isa %s, threads %d, batch %d row %d, chunk %d, plan %d", s->isa,
             s->threads, s->batch, s->row, s->chunk, s->plan);
}

static bool has_cuda(void) {
    mlsys_ctx ctx;
    int32_t n = 0;
    OK(mlsys_ctx_create(NULL, NULL, &ctx));
    bool yes = mlsys_device_count(ctx, MLSYS_CUDA, &n) == MLSYS_OK && n > 0;
    OK(mlsys_release(ctx));
    return yes;
}

START_TEST(every_way_gives_the_same_bits) {
    const setting *s = &settings[_i];
    char hex[65], text[128];
    describe(s, text, sizeof text);
    if (!strcmp(s->isa, "cuda") && !has_cuda())
        TEST_SKIP("exact bits of a CUDA device: there is none");
    if (!strcmp(s->isa, "avx512") && !mlsys_has_feature("avx512"))
        TEST_SKIP("exact bits of AVX-512: this machine has none");
    logits_hash(s, hex);
    printf("%s  %s\n", hex, text);
    ck_assert_msg(!strcmp(hex, reference), "%s: %s, expected %s", text, hex, reference);
}
END_TEST

/* A check that cannot fail proves nothing: another text must change the hash. */
START_TEST(another_text_gives_other_bits) {
    const setting s = settings[0];
    char hex[65];
    text_under_test = 1;
    logits_hash(&s, hex);
    text_under_test = 0;
    ck_assert_str_ne(hex, reference);
}
END_TEST

static void prepare(void) {
    const char *real = getenv("MLSYS_MODEL_SMOLLM2");
    run r;
    mlsys_tokenizer t;
    if (real) {
        snprintf(model_path, sizeof model_path, "%s", real);
    } else {
        printf("SKIP: exact bits of SmolLM2: MLSYS_MODEL_SMOLLM2 is not set, a tiny model stands "
               "in\n");
        snprintf(model_path, sizeof model_path, "/tmp/mlsys-tiny-%ld.gguf", (long)getpid());
        ck_assert_int_eq(tiny_model_write(model_path), 0);
    }
    open_run(&r, &settings[0]);
    OK(mlsys_model_tokenizer(r.model, &t));
    OK(mlsys_tokenizer_vocab(t, &vocab));
    OK(mlsys_release(t));
    close_run(&r);
    logits_hash(&settings[0], reference);
}

static void finish(void) {
    if (!getenv("MLSYS_MODEL_SMOLLM2")) unlink(model_path);
}

int main(void) {
    Suite *suite = suite_create("exact_bits");
    TCase *tc = tcase_create("logits");
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, prepare, finish);
    tcase_add_loop_test(tc, every_way_gives_the_same_bits, 0, N_SETTINGS);
    tcase_add_test(tc, another_text_gives_other_bits);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
