/* The text of a generation is that of its tokens, byte for byte, whatever comes between two of them;
 * on a tiny model whose tokens are parts of one character of four bytes, and texts of the greatest
 * length. A high temperature draws them evenly. */
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 65535, TOKENS_MAX = 192, TEXT_MAX = TOKENS_MAX * LONGEST + 1, HELD_MAX = 3 };

static generation_world world;
static char path[64];

/* Bytes f0 9f 98, three in ten each, and 80, and three long tokens. */
static void put_tokens(gguf_writer *w) {
    static const char *const special[5] = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    static const char *const bytes[10] = {"<0xF0>", "<0xF0>", "<0xF0>", "<0x9F>", "<0x9F>",
                                          "<0x9F>", "<0x98>", "<0x98>", "<0x98>", "<0x80>"};
    static char longest[3][LONGEST + 1];
    const char *tokens[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++)
        tokens[i] = i < 5 ? special[i] : i < 261 ? bytes[i % 10] : longest[i - 261];
    for (int i = 0; i < 3; i++)
        memset(longest[i], 'a' + i, LONGEST);
    gguf_put_strs(w, "tokenizer.ggml.tokens", TINY_VOCAB, tokens);
}

static void open_world(void) {
    snprintf(path, sizeof path, "/tmp/mlsys-generation-text-%ld.gguf", (long)getpid());
    ck_assert_int_eq(tiny_model_write_but(path, "tokenizer.ggml.tokens", put_tokens), 0);
    generation_open(&world, path, NULL);
}

static void close_world(void) {
    generation_close(&world);
    unlink(path);
}

typedef struct produced {
    mlsys_generator g;
    mlsys_tokenizer tokenizer;
    int32_t ids[TOKENS_MAX];
    int n;
    char *text;
    size_t len;
    uint64_t most; /* of any step's need */
} produced;

static produced begin(int seed) {
    static const int32_t first[1] = {1};
    produced p = {.text = malloc(TEXT_MAX)};
    REQUIRE(p.text);
    p.g = generation_create(
        &world, OPTIONS(REAL("temperature", 1e6), INT("seed", seed), INT("context", TOKENS_MAX)));
    check_ok(mlsys_model_tokenizer(world.model, &p.tokenizer));
    check_ok(mlsys_generator_append_ids(p.g, first, 1));
    return p;
}

static void end(produced *p) {
    check_ok(mlsys_release(p->g));
    check_ok(mlsys_release(p->tokenizer));
    free(p->text);
}

static int32_t step(produced *p) {
    static char text[MLSYS_GENERATOR_TEXT];
    int32_t id;
    uint64_t need;
    check_ok(mlsys_generator_next(p->g, &id, text, sizeof text, &need));
    memcpy(p->text + p->len, text, need - 1);
    p->len += need - 1;
    if (need > p->most) p->most = need;
    if (id >= 0) p->ids[p->n++] = id;
    return id;
}

/* Bytes of the tokens so far that no step has given out. */
static size_t held(const produced *p) {
    static char text[TEXT_MAX];
    uint64_t need;
    check_ok(
        mlsys_tokenizer_decode(p->tokenizer, p->ids, (uint64_t)p->n, 0, text, sizeof text, &need));
    REQUIRE(need - 1 >= p->len);
    ck_assert_msg(!memcmp(text, p->text, p->len), "the text is not that of the tokens");
    return need - 1 - p->len;
}

static void run_on(produced *p, int steps) {
    while (steps-- > 0 && step(p) >= 0) {
    }
}

/* Produce until exactly so many bytes are held back; false: the text ended first. */
static bool run_until_held(produced *p, size_t bytes) {
    while (p->n < TOKENS_MAX / 4 && step(p) >= 0)
        if (held(p) == bytes) return true;
    return false;
}

START_TEST(the_longest_text_is_delivered) {
    uint64_t most = 0;
    for (int seed = 0; seed < 400 && most < MLSYS_GENERATOR_TEXT; seed++) {
        produced p = begin(seed);
        run_on(&p, TOKENS_MAX);
        ck_assert_uint_eq(held(&p), 0);
        if (p.most > most) most = p.most;
        end(&p);
    }
    ck_assert_uint_eq(most, MLSYS_GENERATOR_TEXT); /* three bytes held, then a longest token */
}
END_TEST

/* ---- what comes between two tokens ----------------------------------------------------------- */

static void append_one(produced *p) {
    static const int32_t id[1] = {14}; /* 80, which would complete f0 9f 98, is not produced */
    check_ok(mlsys_generator_append_ids(p->g, id, 1));
}
static void append_and_take_back(produced *p) {
    int64_t n = generation_tokens(p->g);
    append_one(p);
    append_one(p);
    check_ok(mlsys_generator_rewind(p->g, n + 1));
    check_ok(mlsys_generator_rewind(p->g, n));
}
static void say(produced *p) { check_ok(mlsys_generator_chat(p->g, NULL, "b")); }
static void say_twice(produced *p) {
    say(p);
    say(p);
}
static void nothing(produced *p) {
    check_ok(mlsys_generator_append_ids(p->g, NULL, 0));
    check_ok(mlsys_generator_rewind(p->g, generation_tokens(p->g)));
}
/* The draw depends on seed and position: the same token comes again. */
static void take_back_one(produced *p) {
    check_ok(mlsys_generator_rewind(p->g, generation_tokens(p->g) - 1));
    p->n--;
}

static const struct {
    const char *name;
    void (*between)(produced *p);
    bool same; /* what follows is as if nothing had been between */
} cases[] = {{"append", append_one, false}, {"append and rewind", append_and_take_back, false},
             {"chat", say, false},          {"two messages", say_twice, false},
             {"nothing", nothing, true},    {"rewind by one", take_back_one, true}};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

static void check_between(int c, int seed, size_t bytes, int *tried) {
    produced p = begin(seed), whole = begin(seed);
    if (run_until_held(&p, bytes)) {
        ++*tried;
        cases[c].between(&p);
        run_on(&p, 12);
        run_on(&whole, p.n);
        ck_assert_msg(held(&p) <= HELD_MAX, "%s: %d bytes are lost or held", cases[c].name,
                      (int)held(&p));
        if (cases[c].same) {
            ck_assert_mem_eq(p.ids, whole.ids, sizeof *p.ids * (size_t)p.n);
            ck_assert_uint_eq(p.len, whole.len);
        }
        run_on(&p, TOKENS_MAX);
        ck_assert_msg(held(&p) == 0, "%s: %d bytes of the text are lost", cases[c].name,
                      (int)held(&p));
    }
    end(&p);
    end(&whole);
}

START_TEST(nothing_produced_is_lost) {
    for (size_t bytes = 1; bytes <= HELD_MAX; bytes++) {
        int tried = 0;
        for (int seed = 0; seed < 12 || tried < 2; seed++)
            check_between(_i, seed, bytes, &tried);
    }
}
END_TEST

/* Tokens that are forgotten take along what they had not given out. */
START_TEST(a_rewind_forgets_the_text_of_its_tokens) {
    int tried = 0;
    for (int seed = 0; seed < 40 || tried < 2; seed++) {
        produced p = begin(seed);
        if (run_until_held(&p, 2)) {
            check_ok(mlsys_generator_rewind(p.g, generation_tokens(p.g) - 2));
            p.n -= 2;
            tried += held(&p) == 0; /* a token without text between the two leaves the first's */
            append_one(&p);
            run_on(&p, TOKENS_MAX);
            ck_assert_uint_eq(held(&p), 0);
        }
        end(&p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("generation text");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_test(tc, the_longest_text_is_delivered);
    tcase_add_loop_test(tc, nothing_produced_is_lost, 0, CASES);
    tcase_add_test(tc, a_rewind_forgets_the_text_of_its_tokens);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
