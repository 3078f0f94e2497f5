/* Generation, on a tiny random model: the tokens are a function of the context, the seed and
 * nothing else, and a refused call changes nothing. */
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prompt[] = "the weather: thethe!";
static generation_world world;

static void open_world(void) { generation_open_tiny(&world, NULL); }
static void close_world(void) { generation_close_tiny(&world); }

static mlsys_generator start(const generation_option *options) {
    mlsys_generator g = generation_create(&world, options);
    check_ok(mlsys_generator_append(g, prompt));
    return g;
}

static void logits_of(mlsys_generator g, float *out) {
    check_ok(mlsys_generator_logits(g, out, TINY_VOCAB));
}

/* ---- what does not matter -------------------------------------------------------------------- */

START_TEST(chunks_do_not_matter) {
    static const int chunks[] = {1, 7, 64, 256};
    static const char *const numerics[] = {"exact", "stable"};
    generation first, again;
    float want[TINY_VOCAB], have[TINY_VOCAB];
    for (int i = 0; i < 4; i++) {
        mlsys_generator g = start(OPTIONS(DRAWN, INT("chunk", chunks[i]), STR("kv", "f32"),
                                          STR("numerics", numerics[_i])));
        logits_of(g, i ? have : want);
        generation_run(g, 24, i ? &again : &first);
        if (i) generation_equal(&first, &again, "chunk 1 and another");
        if (i && _i == 0) ck_assert_mem_eq(have, want, sizeof want);
        check_ok(mlsys_release(g));
    }
    ck_assert_int_ge(first.n, 8);
}
END_TEST

START_TEST(narrow_caches_work) {
    static const char *const kinds[] = {"f32", "f16", "bf16"};
    float want[TINY_VOCAB], have[TINY_VOCAB];
    double f32_bytes = 0;
    for (int i = 0; i < 3; i++) {
        mlsys_generator g = start(OPTIONS(STR("kv", kinds[i]), INT("context", 48)));
        logits_of(g, i ? have : want);
        double bytes = generation_stat(g, "cache_bytes");
        if (!i) f32_bytes = bytes;
        /* 2 layers, k and v, 48 positions, 2 kv heads of 16 */
        ck_assert_double_eq(bytes, (i ? 2.0 : 4.0) * 2 * 2 * 48 * 2 * 16);
        for (int j = 0; i && j < TINY_VOCAB; j++)
            REQUIRE(have[j] - want[j] < 0.25f && want[j] - have[j] < 0.25f);
        if (i) ck_assert_mem_ne(have, want, sizeof want);
        check_ok(mlsys_release(g));
    }
    ck_assert_double_gt(f32_bytes, 0);
}
END_TEST

/* ---- rewind and append ----------------------------------------------------------------------- */

START_TEST(rewind_and_again) {
    generation first, again;
    float want[TINY_VOCAB], have[TINY_VOCAB];
    mlsys_generator g = start(OPTIONS(DRAWN, INT("chunk", 8)));
    int64_t n = generation_tokens(g);
    logits_of(g, want);
    generation_run(g, 20, &first);
    ck_assert_int_eq(generation_tokens(g), n + first.n);
    for (int back = 0; back < 3; back++) {
        check_ok(mlsys_generator_rewind(g, n));
        ck_assert_int_eq(generation_tokens(g), n);
        logits_of(g, have);
        ck_assert_mem_eq(have, want, sizeof want);
        generation_run(g, 20, &again);
        generation_equal(&first, &again, "before and after a rewind");
    }
    /* right after an evaluation, which is of no use to the shorter context */
    check_ok(mlsys_generator_rewind(g, n));
    check_ok(mlsys_generator_append(g, "x"));
    logits_of(g, have);
    ck_assert_mem_ne(have, want, sizeof want);
    check_ok(mlsys_generator_rewind(g, n));
    logits_of(g, have);
    ck_assert_mem_eq(have, want, sizeof want);
    generation_run(g, 20, &again);
    /* from the middle of what was produced */
    check_ok(mlsys_generator_rewind(g, n + 6));
    generation_run(g, 20 - 6, &again);
    ck_assert_int_eq(again.n, first.n - 6);
    for (int i = 0; i < again.n; i++)
        ck_assert_int_eq(again.ids[i], first.ids[6 + i]);
    generation_expect(mlsys_generator_rewind(g, -1), MLSYS_E_ARG, "-1");
    generation_expect(mlsys_generator_rewind(g, generation_tokens(g) + 1), MLSYS_E_ARG, "rewind");
    check_ok(mlsys_generator_rewind(g, 0));
    generation_expect(mlsys_generator_logits(g, have, TINY_VOCAB), MLSYS_E_STATE, "empty");
    check_ok(mlsys_release(g));
}
END_TEST

/* Producing and appending is the same as appending all of it. */
START_TEST(append_after_generation) {
    generation first, tail, tail_again;
    float want[TINY_VOCAB], have[TINY_VOCAB];
    mlsys_generator g = start(OPTIONS(DRAWN)), h = start(OPTIONS(DRAWN));
    generation_run(g, 6, &first);
    check_ok(mlsys_generator_append(g, "the"));
    logits_of(g, want);
    generation_run(g, 6, &tail);
    check_ok(mlsys_generator_append_ids(h, first.ids, (uint64_t)first.n));
    check_ok(mlsys_generator_append(h, "the"));
    logits_of(h, have);
    ck_assert_mem_eq(have, want, sizeof want);
    generation_run(h, 6, &tail_again);
    generation_equal(&tail, &tail_again, "produced and appended");
    check_ok(mlsys_release(g));
    check_ok(mlsys_release(h));
}
END_TEST

START_TEST(wrong_ids_append_nothing) {
    static const int32_t bad[2][3] = {{7, TINY_VOCAB, 9}, {7, 8, -1}};
    static const char *const part[2] = {"token 1 is 264, outside [0,264)", "token 2 is -1"};
    float want[TINY_VOCAB], have[TINY_VOCAB];
    mlsys_generator g = start(NULL);
    int64_t n = generation_tokens(g);
    logits_of(g, want);
    for (int i = 0; i < 2; i++) {
        generation_expect(mlsys_generator_append_ids(g, bad[i], 3), MLSYS_E_ARG, part[i]);
        ck_assert_int_eq(generation_tokens(g), n);
    }
    check_ok(mlsys_generator_append_ids(g, NULL, 0));
    logits_of(g, have);
    ck_assert_mem_eq(have, want, sizeof want);
    check_ok(mlsys_release(g));
}
END_TEST

/* ---- the end of the context ------------------------------------------------------------------ */

START_TEST(a_full_context_ends_the_text) {
    generation whole, produced;
    int32_t id = 7;
    mlsys_generator big = start(OPTIONS(DRAWN, INT("context", 64)));
    mlsys_generator g = start(OPTIONS(DRAWN, INT("context", 32)));
    generation_run(big, 64, &whole);
    generation_run(g, 64, &produced);
    ck_assert(produced.ended);
    ck_assert_int_eq(generation_tokens(g), 32);
    ck_assert_int_gt(produced.n, 4);
    for (int i = 0; i < produced.n; i++)
        ck_assert_int_eq(produced.ids[i], whole.ids[i]);
    ck_assert_mem_eq(produced.text, whole.text, produced.len < whole.len ? produced.len - 3 : 0);
    /* again, and after a refused append, nothing moves */
    ck_assert_int_eq(generation_step(g, &produced), -1);
    generation_expect(mlsys_generator_append_ids(g, &id, 1), MLSYS_E_ARG,
                      "context holds 32 of 32 tokens, 1 more");
    generation_expect(mlsys_generator_append(g, "x"), MLSYS_E_ARG, "32 of 32");
    ck_assert_int_eq(generation_tokens(g), 32);
    check_ok(mlsys_generator_rewind(g, 31));
    check_ok(mlsys_generator_append_ids(g, &id, 1));
    check_ok(mlsys_release(g));
    check_ok(mlsys_release(big));
}
END_TEST

START_TEST(too_long_a_prompt_appends_nothing) {
    char text[200];
    generation out;
    mlsys_generator g = generation_create(&world, OPTIONS(INT("context", 16), DRAWN));
    check_ok(mlsys_generator_append(g, "ab"));
    int64_t n = generation_tokens(g);
    memset(text, 'q', sizeof text - 1);
    text[sizeof text - 1] = 0;
    generation_expect(mlsys_generator_append(g, text), MLSYS_E_ARG, "do not fit");
    ck_assert_int_eq(generation_tokens(g), n);
    generation_expect(mlsys_generator_chat(g, NULL, text), MLSYS_E_ARG, "the context 16");
    ck_assert_int_eq(generation_tokens(g), n);
    generation_run(g, 2, &out);
    ck_assert_int_eq(out.n, 2);
    /* a prompt that fills the context exactly leaves room for no token */
    check_ok(mlsys_generator_rewind(g, 0));
    int32_t ids[16];
    for (int i = 0; i < 16; i++)
        ids[i] = 100 + i;
    check_ok(mlsys_generator_append_ids(g, ids, 16));
    generation_run(g, 2, &out);
    ck_assert(out.n == 0 && out.ended);
    check_ok(mlsys_release(g));
}
END_TEST

/* ---- next ------------------------------------------------------------------------------------ */

START_TEST(a_small_buffer_produces_nothing) {
    static char text[MLSYS_GENERATOR_TEXT];
    generation want, have;
    int32_t id = 3;
    mlsys_generator g = start(OPTIONS(DRAWN)), h = start(OPTIONS(DRAWN));
    generation_run(h, 5, &want);
    int64_t n = generation_tokens(g);
    for (int i = 0; i < 3; i++) {
        uint64_t need = 0, cap = i ? sizeof text - 1 : 0;
        text[0] = 'x';
        generation_expect(mlsys_generator_next(g, &id, text, cap, &need), MLSYS_E_BUFFER,
                          i ? "65538" : "cap 0");
        ck_assert_uint_eq(need, sizeof text);
        ck_assert_int_eq(text[0], cap ? 0 : 'x');
        ck_assert_int_eq(id, -1);
        ck_assert_int_eq(generation_tokens(g), n);
    }
    generation_run(g, 5, &have);
    generation_equal(&want, &have, "without and with a refused buffer");
    check_ok(mlsys_release(g));
    check_ok(mlsys_release(h));
}
END_TEST

START_TEST(an_empty_context_has_no_next) {
    static char text[MLSYS_GENERATOR_TEXT];
    int32_t id;
    mlsys_generator g = generation_create(&world, NULL);
    generation_expect(mlsys_generator_next(g, &id, text, sizeof text, NULL), MLSYS_E_STATE,
                      "empty");
    check_ok(mlsys_generator_append(g, "")); /* the begin token alone */
    ck_assert_int_eq(generation_tokens(g), 1);
    check_ok(mlsys_generator_next(g, &id, text, sizeof text, NULL));
    check_ok(mlsys_release(g));
}
END_TEST

/* The pieces are whole characters of UTF-8 and add up to what the tokenizer decodes. */
START_TEST(pieces_add_up) {
    generation out;
    char text[4096];
    mlsys_tokenizer t;
    mlsys_generator g = start(OPTIONS(DRAWN, INT("seed", 77)));
    generation_run(g, 64, &out);
    ck_assert(out.ended);
    check_ok(mlsys_model_tokenizer(world.model, &t));
    check_ok(mlsys_tokenizer_decode(t, out.ids, (uint64_t)out.n, 0, text, sizeof text, NULL));
    const char *have = out.text, *want = text;
    while (*have == ' ')
        have++; /* decode drops the space before a text's first word */
    while (*want == ' ')
        want++;
    ck_assert_str_eq(have, want);
    check_ok(mlsys_release(t));
    check_ok(mlsys_release(g));
}
END_TEST

START_TEST(draws_follow_seed_and_position) {
    generation runs[4], again;
    int different = 0;
    for (int seed = 0; seed < 4; seed++) {
        mlsys_generator g = start(OPTIONS(REAL("temperature", 2.0), INT("seed", seed)));
        int64_t n = generation_tokens(g);
        generation_run(g, 12, &runs[seed]);
        check_ok(mlsys_generator_rewind(g, n));
        generation_run(g, 12, &again);
        generation_equal(&runs[seed], &again, "one seed, twice");
        check_ok(mlsys_release(g));
        for (int i = 0; i < seed; i++)
            different += runs[i].n != runs[seed].n ||
                         memcmp(runs[i].ids, runs[seed].ids, sizeof(int32_t) * (size_t)runs[i].n);
    }
    ck_assert_int_eq(different, 6);
}
END_TEST

START_TEST(stats_count) {
    generation out;
    double v;
    mlsys_generator g = start(OPTIONS(DRAWN, INT("context", 40), INT("chunk", 5)));
    int64_t n = generation_tokens(g);
    ck_assert_double_eq(generation_stat(g, "context"), 40);
    ck_assert_double_eq(generation_stat(g, "vocab"), TINY_VOCAB);
    ck_assert_double_eq(generation_stat(g, "prefill_tokens"), 0);
    generation_run(g, 6, &out);
    ck_assert_int_eq(out.n, 6);
    ck_assert_double_eq(generation_stat(g, "prefill_tokens"), (double)n);
    ck_assert_double_eq(generation_stat(g, "decode_tokens"), 5); /* the 6th is not evaluated yet */
    ck_assert_double_gt(generation_stat(g, "prefill_seconds"), 0);
    ck_assert_double_gt(generation_stat(g, "decode_seconds"), 0);
    ck_assert_double_gt(generation_stat(g, "scratch_bytes"), 0);
    generation_expect(mlsys_generator_stat(g, "speed", &v), MLSYS_E_NOTFOUND, "\"speed\"");
    check_ok(mlsys_release(g));
}
END_TEST

/* Every name that is listed is answered, and the list has those that the tests above ask for. */
START_TEST(stats_are_listed) {
    static const char *const known[] = {"tokens",         "context",     "prefill_tokens",
                                        "decode_seconds", "cache_bytes", "scratch_bytes",
                                        "vocab"};
    char text[2048], name[64], line[80];
    int n = 0;
    mlsys_generator g = start(NULL);
    check_ok(mlsys_config_keys("generator_stats", text, sizeof text, NULL));
    for (const char *at = text; *at; at = strchr(at, '\n') + 1, n++) {
        REQUIRE(sscanf(at, "%63s f64: ", name) == 1 && strchr(at, '\n'));
        generation_stat(g, name);
    }
    ck_assert_int_eq(n, 9);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        snprintf(line, sizeof line, "%s%s f64: ", i ? "\n" : "", known[i]);
        ck_assert_msg(strstr(text, line) != NULL, "%s is not listed", known[i]);
    }
    check_ok(mlsys_release(g));
}
END_TEST

START_TEST(options_are_checked) {
    static const struct {
        generation_option option;
        mlsys_status status;
        const char *part;
    } cases[] = {{INT("contexts", 3), MLSYS_E_NOTFOUND, "\"contexts\""},
                 {INT("chunk", 0), MLSYS_E_ARG, "\"chunk\""},
                 {INT("context", -1), MLSYS_E_ARG, "\"context\""},
                 {STR("kv", "q8_0"), MLSYS_E_ARG, "kv \"q8_0\""},
                 {STR("act", "int4"), MLSYS_E_ARG, "act \"int4\""},
                 {STR("numerics", "quick"), MLSYS_E_ARG, "quick"},
                 {REAL("temperature", -0.5), MLSYS_E_ARG, "\"temperature\""},
                 {REAL("temperature", __builtin_nan("")), MLSYS_E_ARG, "\"temperature\""},
                 {REAL("top_p", 1.5), MLSYS_E_ARG, "\"top_p\""},
                 {REAL("min_p", -1), MLSYS_E_ARG, "\"min_p\""},
                 {REAL("repetition_penalty", 0), MLSYS_E_ARG, "\"repetition_penalty\""},
                 {INT("seed", -1), MLSYS_E_ARG, "\"seed\""}};
    mlsys_stats before = {.size = sizeof before}, after = before;
    check_ok(mlsys_ctx_stats(world.ctx, &before));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mlsys_generator g = (mlsys_generator)&g;
        mlsys_config c = generation_config(OPTIONS(cases[i].option));
        generation_expect(mlsys_generator_create(world.model, world.stream, c, &g), cases[i].status,
                          cases[i].part);
        ck_assert_ptr_null(g);
        check_ok(mlsys_release(c));
    }
    check_ok(mlsys_ctx_stats(world.ctx, &after));
    ck_assert_uint_eq(after.live_handles, before.live_handles);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
}
END_TEST

/* ---- a real model ---------------------------------------------------------------------------- */

START_TEST(smollm2_answers) {
    const char *real = getenv("MLSYS_MODEL_SMOLLM2");
    generation first, again;
    generation_world w;
    if (!real) TEST_SKIP("generation with SmolLM2: MLSYS_MODEL_SMOLLM2 is not set");
    generation_open(&w, real, NULL);
    mlsys_generator g = generation_create(&w, OPTIONS(INT("context", 128), INT("chunk", 64)));
    check_ok(mlsys_generator_append(g, "The capital of France is"));
    int64_t n = generation_tokens(g);
    generation_run(g, 4, &first);
    printf("SmolLM2: The capital of France is%s\n", first.text);
    ck_assert_ptr_nonnull(strstr(first.text, "Paris"));
    check_ok(mlsys_generator_rewind(g, n));
    generation_run(g, 4, &again);
    generation_equal(&first, &again, "SmolLM2, before and after a rewind");
    check_ok(mlsys_release(g));
    generation_close(&w);
}
END_TEST

/* ---- */

static void add_context(Suite *suite) {
    TCase *tc = tcase_create("context");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_loop_test(tc, chunks_do_not_matter, 0, 2);
    tcase_add_test(tc, narrow_caches_work);
    tcase_add_test(tc, rewind_and_again);
    tcase_add_test(tc, append_after_generation);
    tcase_add_test(tc, wrong_ids_append_nothing);
    tcase_add_test(tc, a_full_context_ends_the_text);
    tcase_add_test(tc, too_long_a_prompt_appends_nothing);
    tcase_add_test(tc, a_small_buffer_produces_nothing);
    tcase_add_test(tc, an_empty_context_has_no_next);
    tcase_add_test(tc, pieces_add_up);
    tcase_add_test(tc, draws_follow_seed_and_position);
    tcase_add_test(tc, stats_count);
    tcase_add_test(tc, stats_are_listed);
    tcase_add_test(tc, options_are_checked);
    tcase_add_test(tc, smollm2_answers);
    suite_add_tcase(suite, tc);
}

int main(void) {
    Suite *suite = suite_create("generate");
    add_context(suite);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
