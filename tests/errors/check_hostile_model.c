/* Model files that are well formed but no model: every flaw is refused with one sentence that names
 * the file, the field or tensor, and the value; nothing is kept; the good file works afterwards. */
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q8_0 = 8, GGML_I32 = 26, GGML_BF16 = 30 };

typedef struct flaw {
    const char *name; /* of the key or tensor that is replaced or added */
    char kind; /* '-' left out, 'u' u64, 'f' f32, 's' string, 't' tensor, 'n' f32 ones of which one
                  NaN */
    double number;
    const char *text;
    uint32_t type; /* of a tensor */
    uint64_t ne[2];
    mlsys_status status;
    const char *part;  /* of the sentence, beside the file's name */
    const char *field; /* named in it; NULL: name */
} flaw;

#define WITHOUT(name, status, part)                                                                \
    { name, '-', 0, NULL, 0, {0}, status, part, NULL }
#define COUNT(name, value, status, part)                                                           \
    { name, 'u', value, NULL, 0, {0}, status, part, NULL }
#define NUMBER(name, value, part)                                                                  \
    { name, 'f', value, NULL, 0, {0}, MLSYS_E_FORMAT, part, NULL }
#define TEXT(name, value, status, part)                                                            \
    { name, 's', 0, value, 0, {0}, status, part, NULL }
#define TENSOR(name, type, n0, n1, part)                                                           \
    { name, 't', 0, NULL, type, {n0, n1}, MLSYS_E_FORMAT, part, NULL }
#define F MLSYS_E_FORMAT

static const flaw graph_flaws[] = {
    WITHOUT("general.architecture", MLSYS_E_NOTFOUND, ""),
    TEXT("general.architecture", "mamba", MLSYS_E_UNSUPPORTED, "\"mamba\" is not one of"),
    TEXT("general.architecture", "", MLSYS_E_UNSUPPORTED, "\"\" is not one of"),
    COUNT("general.architecture", 3, F, ""),
    WITHOUT("llama.block_count", MLSYS_E_NOTFOUND, ""),
    COUNT("llama.block_count", 0, F, "is 0"),
    COUNT("llama.block_count", 3, MLSYS_E_NOTFOUND, "blk.2.attn_norm.weight"),
    COUNT("llama.block_count", 501, MLSYS_E_UNSUPPORTED, "501"),
    COUNT("llama.block_count", 1048577, F, "is 1048577"),
    NUMBER("llama.block_count", 2.5, ""),
    TEXT("llama.block_count", "2", F, ""),
    WITHOUT("llama.embedding_length", MLSYS_E_NOTFOUND, ""),
    COUNT("llama.embedding_length", 0, F, "is 0"),
    COUNT("llama.embedding_length", 1099511627776.0, F, "is 1099511627776"),
    COUNT("llama.embedding_length", 128, F, "expected"),
    WITHOUT("llama.feed_forward_length", MLSYS_E_NOTFOUND, ""),
    COUNT("llama.feed_forward_length", 0, F, "is 0"),
    COUNT("llama.feed_forward_length", 97, F, "blk.0.ffn_gate.weight"),
    COUNT("llama.feed_forward_length", 1048577, F, "is 1048577"),
    COUNT("llama.context_length", 0, F, "is 0"),
    COUNT("llama.context_length", 4e18, F, "is 4000000000000000000"),
    WITHOUT("llama.attention.head_count", MLSYS_E_NOTFOUND, ""),
    COUNT("llama.attention.head_count", 0, F, "is 0"),
    COUNT("llama.attention.head_count", 1, F, "not a multiple of the 2"),
    COUNT("llama.attention.head_count", 2, F, "blk.0.attn_k.weight"),
    COUNT("llama.attention.head_count", 1048576, F, "is 1048576"),
    COUNT("llama.attention.head_count", 6, F, "does not divide embedding_length 64"),
    COUNT("llama.attention.head_count_kv", 0, F, "is 0"),
    COUNT("llama.attention.head_count_kv", 4, F, "blk.0.attn_k.weight"),
    COUNT("llama.attention.head_count_kv", 1048577, F, "is 1048577"),
    COUNT("llama.attention.key_length", 0, F, "is 0"),
    COUNT("llama.attention.key_length", 1048576, F, "blk.0.attn_q.weight"),
    COUNT("llama.attention.key_length", 15, F, "rope.dimension_count is 15"),
    COUNT("llama.attention.value_length", 8, F, "blk.0.attn_v.weight"),
    COUNT("llama.attention.sliding_window", 1048577, F, "is 1048577"),
    NUMBER("llama.attention.layer_norm_rms_epsilon", -1e-5f, "is -1e-05"),
    NUMBER("llama.attention.layer_norm_rms_epsilon", NAN, "nan"),
    NUMBER("llama.attn_logit_softcapping", -1, "is -1"),
    COUNT("llama.rope.dimension_count", 15, F, "is 15"),
    COUNT("llama.rope.dimension_count", 18, F, "is 18"),
    COUNT("llama.rope.dimension_count", 0, F, "is 0"),
    NUMBER("llama.rope.freq_base", 0, "is 0"),
    NUMBER("llama.rope.freq_base", -10000, "is -10000"),
    NUMBER("llama.rope.freq_base", INFINITY, "inf"),
    NUMBER("llama.rope.scaling.factor", -4, "is -4"),
    TEXT("llama.rope.scaling.type", "yarn", MLSYS_E_UNSUPPORTED, "\"yarn\""),
    WITHOUT("token_embd.weight", MLSYS_E_NOTFOUND, "no tensor"),
    WITHOUT("output_norm.weight", MLSYS_E_NOTFOUND, "no tensor"),
    WITHOUT("blk.1.ffn_down.weight", MLSYS_E_NOTFOUND, "no tensor"),
    TENSOR("token_embd.weight", GGML_F32, TINY_WIDTH, 0, "rank 1"),
    TENSOR("token_embd.weight", GGML_F32, 32, TINY_VOCAB, "expected"),
    TENSOR("token_embd.weight", GGML_I32, TINY_WIDTH, TINY_VOCAB, "i32[264,64]"),
    TENSOR("blk.0.attn_q.weight", GGML_F32, TINY_WIDTH, 65, "f32[65,64], expected f32[64,64]"),
    TENSOR("blk.0.attn_q.weight", GGML_F32, TINY_WIDTH, 0, "f32[64], expected f32[64,64]"),
    TENSOR("blk.1.ffn_down.weight", GGML_I32, TINY_FFN, TINY_WIDTH, "i32[64,96]"),
    TENSOR("blk.1.attn_norm.weight", GGML_I32, TINY_WIDTH, 0, "i32[64], expected a float type"),
    TENSOR("blk.1.attn_norm.weight", GGML_Q8_0, TINY_WIDTH, 0, "q8_0[64], expected a float type"),
    TENSOR("blk.1.attn_norm.weight", GGML_F32, 32, 0, "f32[32], expected f32[64]"),
    TENSOR("blk.1.attn_q.bias", GGML_F32, 32, 0, "f32[32], expected f32[64]"),
    TENSOR("output.weight", GGML_F32, TINY_WIDTH, TINY_VOCAB - 1,
           "f32[263,64], expected f32[264,64]"),
    TENSOR("rope_freqs.weight", GGML_F32, 7, 0, "f32[8]"),
    TENSOR("rope_freqs.weight", GGML_F16, 8, 0, "f32[8]"),
};

/* Only generation looks at these. */
static const flaw generator_flaws[] = {
    WITHOUT("tokenizer.ggml.model", MLSYS_E_NOTFOUND, ""),
    TEXT("tokenizer.ggml.model", "abacus", MLSYS_E_UNSUPPORTED, "\"abacus\""),
    WITHOUT("tokenizer.ggml.tokens", MLSYS_E_NOTFOUND, ""),
    WITHOUT("tokenizer.ggml.scores", F, ""),
    COUNT("tokenizer.ggml.eos_token_id", 264, F, "264"),
    {"token_embd.weight",
     't',
     0,
     NULL,
     GGML_F32,
     {TINY_WIDTH, TINY_VOCAB + 1},
     F,
     "264 tokens in the vocabulary, 265 rows in token_embd",
     "token_embd"},
    {"token_embd.weight",
     't',
     0,
     NULL,
     GGML_F32,
     {TINY_WIDTH, 1},
     F,
     "264 tokens in the vocabulary, 1 rows in token_embd",
     "token_embd"},
};

enum {
    N_GRAPH_FLAWS = (int)(sizeof graph_flaws / sizeof graph_flaws[0]),
    N_GENERATOR_FLAWS = (int)(sizeof generator_flaws / sizeof generator_flaws[0])
};

static generation_world world; /* with the good model */
static const flaw *current;

static void put_flaw(gguf_writer *w) {
    const flaw *f = current;
    int rank = f->ne[1] ? 2 : 1;
    if (f->kind == 'u') gguf_put_u64(w, f->name, (uint64_t)f->number);
    if (f->kind == 'f') gguf_put_f32(w, f->name, (float)f->number);
    if (f->kind == 's') gguf_put_str(w, f->name, f->text);
    if (f->kind == 't') gguf_put_tensor(w, f->name, f->type, rank, f->ne, NULL);
    if (f->kind != 'n') return;
    size_t n = (size_t)(f->ne[0] * (rank == 2 ? f->ne[1] : 1));
    float *x = malloc(n * sizeof *x);
    REQUIRE(x);
    for (size_t i = 0; i < n; i++)
        x[i] = 1;
    x[(size_t)f->number] = NAN;
    gguf_put_tensor(w, f->name, GGML_F32, rank, f->ne, x);
    free(x);
}

static const char *flawed_name(void) {
    static char name[64];
    snprintf(name, sizeof name, "mlsys-hostile-%ld.gguf", (long)getpid());
    return name;
}

static void open_flawed(const flaw *f, mlsys_model *out) {
    char path[96];
    snprintf(path, sizeof path, "/tmp/%s", flawed_name());
    current = f;
    ck_assert_int_eq(tiny_model_write_but(path, f->name, put_flaw), 0);
    check_ok(mlsys_model_open(world.ctx, path, NULL, out));
    unlink(path);
}

static mlsys_stats stats(void) {
    mlsys_stats s = {.size = sizeof s};
    check_ok(mlsys_ctx_stats(world.ctx, &s));
    return s;
}

static void check_sentence(const flaw *f, const char *call, mlsys_status st) {
    const char *e = mlsys_last_error(), *field = f->field ? f->field : f->name;
    ck_assert_msg(st == f->status, "%s, %s %c: %s \"%s\"", call, f->name, f->kind,
                  mlsys_status_name(st), e);
    /* a shape can be blamed on the tensor that no longer fits */
    ck_assert_msg(strstr(e, field) || (f->part[0] && strstr(e, f->part)), "%s: no %s in \"%s\"",
                  call, field, e);
    ck_assert_msg(strstr(e, f->part) != NULL, "%s, %s: no \"%s\" in \"%s\"", call, f->name, f->part,
                  e);
    ck_assert_msg(strstr(e, flawed_name()) != NULL, "%s, %s: no file in \"%s\"", call, f->name, e);
    ck_assert_msg(!strchr(e, '\n') && strlen(e) < 300, "%s: \"%s\"", call, e);
}

static void check_good_model(void) {
    generation out;
    mlsys_graph g;
    check_ok(mlsys_model_graph(world.model, NULL, &g));
    check_ok(mlsys_release(g));
    mlsys_generator gen = generation_create(&world, NULL);
    check_ok(mlsys_generator_append(gen, "ab"));
    generation_run(gen, 2, &out);
    check_ok(mlsys_release(gen));
}

static void refuse(const flaw *f, int graph_too) {
    mlsys_model m;
    mlsys_graph g = (mlsys_graph)&g;
    mlsys_generator gen = (mlsys_generator)&gen;
    mlsys_stats before = stats();
    open_flawed(f, &m);
    if (graph_too) {
        check_sentence(f, "model_graph", mlsys_model_graph(m, NULL, &g));
        ck_assert_ptr_null(g);
    } else {
        check_ok(mlsys_model_graph(m, NULL, &g));
        check_ok(mlsys_release(g));
    }
    check_sentence(f, "generator_create", mlsys_generator_create(m, world.stream, NULL, &gen));
    ck_assert_ptr_null(gen);
    check_ok(mlsys_release(m));
    mlsys_stats after = stats();
    ck_assert_uint_eq(after.live_handles, before.live_handles);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
}

START_TEST(graph_and_generator_refuse) {
    refuse(&graph_flaws[_i], 1);
    check_good_model();
}
END_TEST

START_TEST(generator_refuses) {
    refuse(&generator_flaws[_i], 0);
    check_good_model();
}
END_TEST

/* What looks odd and is right: other types of weights, an output matrix, biases, factors of rope.
 */
static const flaw fine[] = {
    TENSOR("token_embd.weight", GGML_F32, TINY_WIDTH, TINY_VOCAB, ""),
    TENSOR("token_embd.weight", GGML_F16, TINY_WIDTH, TINY_VOCAB, ""),
    TENSOR("output.weight", GGML_BF16, TINY_WIDTH, TINY_VOCAB, ""),
    TENSOR("output_norm.weight", GGML_F16, TINY_WIDTH, 0, ""),
    TENSOR("blk.0.attn_norm.weight", GGML_BF16, TINY_WIDTH, 0, ""),
    TENSOR("blk.0.attn_q.bias", GGML_F16, 64, 0, ""),
    TENSOR("blk.1.ffn_up.weight", GGML_F16, TINY_WIDTH, TINY_FFN, ""),
    TEXT("llama.rope.scaling.type", "linear", MLSYS_OK, ""),
    NUMBER("llama.rope.scaling.factor", 2, ""),
    COUNT("llama.rope.dimension_count", 8, MLSYS_OK, ""),
    WITHOUT("llama.context_length", MLSYS_OK, ""),
    WITHOUT("llama.rope.freq_base", MLSYS_OK, ""),
};

START_TEST(unusual_models_run) {
    mlsys_model m;
    generation out;
    generation_world w = world;
    open_flawed(&fine[_i], &m);
    w.model = m;
    mlsys_generator g = generation_create(&w, OPTIONS(INT("context", 32)));
    check_ok(mlsys_generator_append(g, "the"));
    generation_run(g, 3, &out);
    check_ok(mlsys_release(g));
    check_ok(mlsys_release(m));
}
END_TEST

/* A NaN weight is a legal file; the logits that it spoils are refused by the token's number, and
 * the generator stays usable. */
static const flaw spoilt[] = {
    {"output.weight",
     'n',
     17 * TINY_WIDTH + 3,
     NULL,
     0,
     {TINY_WIDTH, TINY_VOCAB},
     MLSYS_E_STATE,
     "the logit of token 17 is NaN",
     NULL},
    {"output_norm.weight",
     'n',
     5,
     NULL,
     0,
     {TINY_WIDTH, 0},
     MLSYS_E_STATE,
     "the logit of token 0 is NaN",
     NULL},
};

START_TEST(nan_weights_are_named) {
    static char text[MLSYS_GENERATOR_TEXT];
    static float logits[TINY_VOCAB];
    mlsys_model m;
    int32_t id;
    generation_world w = world;
    mlsys_stats before = stats();
    open_flawed(&spoilt[_i], &m);
    w.model = m;
    for (int greedy = 0; greedy < 2; greedy++) {
        mlsys_generator g = generation_create(&w, OPTIONS(REAL("temperature", 1 - greedy)));
        check_ok(mlsys_generator_append(g, "the"));
        int64_t n = generation_tokens(g);
        for (int i = 0; i < 2; i++) {
            generation_expect(mlsys_generator_next(g, &id, text, sizeof text, NULL), MLSYS_E_STATE,
                              spoilt[_i].part);
            ck_assert_int_eq(id, -1);
            ck_assert_int_eq(generation_tokens(g), n);
        }
        check_ok(mlsys_generator_logits(g, logits, TINY_VOCAB));
        ck_assert(isnan(logits[17]));
        ck_assert(!isnan(logits[16]) == (_i == 0));
        check_ok(mlsys_release(g));
    }
    check_ok(mlsys_release(m));
    ck_assert_uint_eq(stats().live_handles, before.live_handles);
}
END_TEST

static void open_world(void) {
    generation_open_tiny(&world, NULL);
    check_good_model(); /* the stream has its scratch */
}

static void close_world(void) { generation_close_tiny(&world); }

int main(void) {
    Suite *suite = suite_create("hostile_model");
    TCase *tc = tcase_create("hostile_model");
    tcase_set_timeout(tc, 60);
    tcase_add_unchecked_fixture(tc, open_world, close_world);
    tcase_add_loop_test(tc, graph_and_generator_refuse, 0, N_GRAPH_FLAWS);
    tcase_add_loop_test(tc, generator_refuses, 0, N_GENERATOR_FLAWS);
    tcase_add_loop_test(tc, unusual_models_run, 0, (int)(sizeof fine / sizeof fine[0]));
    tcase_add_loop_test(tc, nan_weights_are_named, 0, 2);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
