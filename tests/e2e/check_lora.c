/* Fine-tuning: a training graph gives the bits of inference, an adapted model the bits of both, and a saved
 * one nearly so. On a tiny random model, and on real ones where their files are. */
#include "support/objects.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/tiny_model.h"
#include "support/trained_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 40 };

static generation_world world;
static int32_t tokens[2 * LENGTH + 1];

static void open_world(void) {
    uint32_t x = 20261130;
    generation_open_tiny(&world, NULL);
    for (int i = 0; i < 2 * LENGTH + 1; i++) {
        x = x * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((x >> 8) % TINY_VOCAB);
    }
}
static void close_world(void) { generation_close_tiny(&world); }

static mlsys_generator generator_of(mlsys_model m, const generation_option *options) {
    generation_world w = world;
    w.model = m;
    return generation_create(&w, options);
}

/* Every row of a training graph's logits is what a generator gives after so many tokens, one at a time. */
static void expect_generator(mlsys_model m, const char *numerics, int64_t vocab, int64_t length,
                             const int32_t *ids, const float *want) {
    float *have = malloc(sizeof *have * (size_t)vocab);
    mlsys_generator g = generator_of(m, OPTIONS(STR("numerics", numerics), INT("context", 64)));
    for (int64_t i = 0; i < length; i++) {
        check_ok(mlsys_generator_append_ids(g, ids + i, 1));
        check_ok(mlsys_generator_logits(g, have, (uint64_t)vocab));
        if (memcmp(have, want + i * vocab, sizeof *have * (size_t)vocab))
            ck_abort_msg("%s: logits after token %lld differ", numerics, (long long)i);
    }
    check_ok(mlsys_release(g));
    g = generator_of(m, OPTIONS(STR("numerics", numerics), INT("context", 64), INT("chunk", 7)));
    check_ok(mlsys_generator_append_ids(g, ids, (uint64_t)length));
    check_ok(mlsys_generator_logits(g, have, (uint64_t)vocab));
    REQUIRE(!memcmp(have, want + (length - 1) * vocab, sizeof *have * (size_t)vocab));
    check_ok(mlsys_release(g));
    free(have);
}

static const char *const modes[] = {"exact", "stable"};

/* ---- the same bits --------------------------------------------------------------------------------- */

START_TEST(training_has_the_bits_of_inference) {
    static float logits[2 * LENGTH * TINY_VOCAB], second[LENGTH * TINY_VOCAB];
    trained_model t;
    trained_create(&t, &world, world.model, OPTIONS(STR("trainable", "none"), INT("batch", 2)),
                   modes[_i], 0, 0);
    ck_assert_int_eq(t.n, 0);
    trained_logits(&t, 2, LENGTH, tokens, logits);
    expect_generator(world.model, modes[_i], TINY_VOCAB, LENGTH, tokens, logits);
    trained_logits(&t, 1, LENGTH, tokens + LENGTH, second);
    ck_assert_mem_eq(logits + LENGTH * TINY_VOCAB, second, sizeof second);
    trained_release(&t);
}
END_TEST

START_TEST(adapters_have_the_same_bits_in_both) {
    static float logits[LENGTH * TINY_VOCAB], plain[LENGTH * TINY_VOCAB];
    trained_model t, none;
    mlsys_model m;
    trained_create(&t, &world, world.model,
                   OPTIONS(STR("trainable", "lora"), INT("lora_rank", 3), REAL("lora_alpha", 12.0),
                           STR("lora_targets", "attn_q,attn_output,ffn_down")),
                   modes[_i], 0, 0);
    ck_assert_int_eq(t.n, 2 * 3 * 2);
    trained_logits(&t, 1, LENGTH, tokens, logits);
    check_ok(trained_adapt(&t, world.model, 12, &m));
    expect_generator(m, modes[_i], TINY_VOCAB, LENGTH, tokens, logits);
    trained_create(&none, &world, world.model, OPTIONS(STR("trainable", "none")), modes[_i], 0, 0);
    trained_logits(&none, 1, LENGTH, tokens, plain);
    ck_assert_mem_ne(logits, plain, sizeof plain);
    trained_release(&none);
    /* the adapters are constants of the adapted model where they are not trained again */
    trained_create(&none, &world, m, OPTIONS(STR("trainable", "none")), modes[_i], 0, 0);
    trained_logits(&none, 1, LENGTH, tokens, plain);
    ck_assert_mem_eq(logits, plain, sizeof plain);
    trained_release(&none);
    trained_release(&t);
    check_ok(mlsys_release(m));
}
END_TEST

START_TEST(replaced_weights_have_the_same_bits_in_both) {
    static float logits[LENGTH * TINY_VOCAB];
    trained_model t;
    mlsys_model m;
    trained_create(&t, &world, world.model, OPTIONS(STR("trainable", "all")), modes[_i], 0, 1);
    ck_assert_int_eq(t.n, 1 + 2 * 9 + 1);
    double first = trained_step(&t, LENGTH, tokens, 0.02f), last = first;
    for (int i = 0; i < 4; i++)
        last = trained_step(&t, LENGTH, tokens, 0.02f);
    ck_assert_double_lt(last, first);
    check_ok(trained_adapt(&t, world.model, 1, &m));
    trained_model again;
    trained_create(&again, &world, m, OPTIONS(STR("trainable", "all")), modes[_i], 0, 0);
    trained_logits(&again, 1, LENGTH, tokens, logits);
    expect_generator(m, modes[_i], TINY_VOCAB, LENGTH, tokens, logits);
    trained_release(&again);
    trained_release(&t);
    check_ok(mlsys_release(m));
}
END_TEST

static void real_model(const char *variable) {
    const char *path = getenv(variable);
    if (!path) TEST_SKIP("%s: not set: training and inference of that model", variable);
    enum { N = 9 };
    static const int32_t ids[N] = {504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767};
    generation_world w;
    trained_model t;
    mlsys_model m;
    generation_open(&w, path, NULL);
    world = w;
    trained_create(&t, &w, w.model, OPTIONS(STR("trainable", "lora"), INT("lora_rank", 2)),
                   "stable", 0, 0);
    ck_assert_int_ge(t.n, 4);
    float *logits = malloc(sizeof *logits * (size_t)(N * t.vocab));
    trained_logits(&t, 1, N, ids, logits);
    check_ok(trained_adapt(&t, w.model, 16, &m));
    expect_generator(m, "stable", t.vocab, N, ids, logits);
    free(logits);
    trained_release(&t);
    check_ok(mlsys_release(m));
    generation_close(&w);
}

START_TEST(smollm2_has_the_same_bits_in_both) { real_model("MLSYS_MODEL_SMOLLM2"); }
END_TEST

START_TEST(gemma3_has_the_same_bits_in_both) { real_model("MLSYS_MODEL_GEMMA3"); }
END_TEST

/* ---- learning and saving --------------------------------------------------------------------------- */

static void saved_path(char path[64]) {
    snprintf(path, 64, "/tmp/mlsys-lora-%ld.gguf", (long)getpid());
}

static void last_logits(mlsys_model m, float *out) {
    mlsys_generator g = generator_of(m, OPTIONS(INT("context", 64)));
    check_ok(mlsys_generator_append_ids(g, tokens, LENGTH));
    check_ok(mlsys_generator_logits(g, out, TINY_VOCAB));
    check_ok(mlsys_release(g));
}

static double distance(const float *a, const float *b) {
    double worst = 0;
    for (int i = 0; i < TINY_VOCAB; i++)
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

START_TEST(a_merged_file_is_the_adapted_model) {
    static const struct {
        const char *dtype;
        double tolerance;
    } rows[] = {{"f32", 1e-4}, {"f16", 2e-2}, {"bf16", 2e-1}};
    float base[TINY_VOCAB], want[TINY_VOCAB], have[TINY_VOCAB];
    char path[64], text[32];
    trained_model t;
    mlsys_model m, saved;
    uint64_t need;
    saved_path(path);
    trained_create(&t, &world, world.model,
                   OPTIONS(STR("trainable", "lora"), STR("lora_targets", "attn_q,attn_v,ffn_up")),
                   "stable", 1, 1);
    double first = trained_step(&t, LENGTH, tokens, 0.5f), last = first;
    for (int i = 0; i < 30; i++)
        last = trained_step(&t, LENGTH, tokens, 0.5f);
    printf("loss %.3f to %.3f\n", first, last);
    ck_assert_double_lt(last, first - 0.3);
    check_ok(trained_adapt(&t, world.model, 16, &m));
    last_logits(world.model, base);
    last_logits(m, want);
    ck_assert_double_gt(distance(base, want), 0.5);
    for (int i = 0; i < 3; i++) {
        mlsys_config c = generation_config(OPTIONS(STR("dtype", rows[i].dtype)));
        check_ok(mlsys_model_save(m, path, c));
        check_ok(mlsys_release(c));
        check_ok(mlsys_model_open(world.ctx, path, NULL, &saved));
        check_ok(mlsys_model_meta(saved, "llama.block_count", text, sizeof text, &need));
        ck_assert_str_eq(text, "2");
        last_logits(saved, have);
        printf("%s: logits differ by at most %g\n", rows[i].dtype, distance(want, have));
        ck_assert_double_lt(distance(want, have), rows[i].tolerance);
        generation out;
        mlsys_generator g = generator_of(saved, OPTIONS(DRAWN));
        check_ok(mlsys_generator_append(g, "the"));
        generation_run(g, 8, &out);
        check_ok(mlsys_release(g));
        check_ok(mlsys_release(saved));
    }
    unlink(path);
    trained_release(&t);
    check_ok(mlsys_release(m));
}
END_TEST

/* Handles of the base and of the tensors may go first. */
START_TEST(an_adapted_model_keeps_what_it_needs) {
    float want[TINY_VOCAB], have[TINY_VOCAB];
    trained_model t;
    mlsys_model base = world.model, m, twice;
    trained_create(&t, &world, base, OPTIONS(STR("trainable", "lora")), "stable", 0, 0);
    check_ok(trained_adapt(&t, base, 16, &m));
    last_logits(m, want);
    check_ok(mlsys_model_adapt(m, 0, NULL, NULL, NULL, &twice));
    check_ok(mlsys_retain(base)); /* the fixture's */
    trained_release(&t);
    check_ok(mlsys_release(m));
    check_ok(mlsys_release(base));
    last_logits(twice, have);
    ck_assert_mem_eq(have, want, sizeof want);
    check_ok(mlsys_release(twice));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lora");
    TCase *tc = tcase_create("tiny"), *real = tcase_create("real");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_loop_test(tc, training_has_the_bits_of_inference, 0, 2);
    tcase_add_loop_test(tc, adapters_have_the_same_bits_in_both, 0, 2);
    tcase_add_loop_test(tc, replaced_weights_have_the_same_bits_in_both, 0, 2);
    tcase_add_test(tc, a_merged_file_is_the_adapted_model);
    tcase_add_test(tc, an_adapted_model_keeps_what_it_needs);
    tcase_set_timeout(real, 300);
    tcase_add_test(real, smollm2_has_the_same_bits_in_both);
    tcase_add_test(real, gemma3_has_the_same_bits_in_both);
    suite_add_tcase(suite, tc);
    suite_add_tcase(suite, real);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
