/* Chat, on a tiny random model: turns share what is cached, a reply is what the context holds, and
 * a refused message changes nothing. */
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static generation_world world;

#define LONG OPTIONS(DRAWN, INT("context", 192))

static void open_world(void) { generation_open_tiny(&world, NULL); }
static void close_world(void) { generation_close_tiny(&world); }

START_TEST(chat_keeps_what_turns_share) {
    generation reply;
    mlsys_generator g = generation_create(&world, LONG);
    check_ok(mlsys_generator_chat(g, "a", "b"));
    int64_t first = generation_tokens(g);
    generation_run(g, 5, &reply);
    double evaluated = generation_stat(g, "prefill_tokens") + generation_stat(g, "decode_tokens");
    ck_assert_double_eq(evaluated, (double)(first + reply.n - (reply.ended ? 0 : 1)));
    check_ok(mlsys_generator_chat(g, NULL, "c"));
    int64_t second = generation_tokens(g);
    ck_assert_int_gt(second, first + reply.n);
    generation_step(g, &reply);
    double again = generation_stat(g, "prefill_tokens") + generation_stat(g, "decode_tokens");
    ck_assert_double_le(again - evaluated, (double)(second - first)); /* the first prompt is kept */
    check_ok(mlsys_release(g));
}
END_TEST

/* The context after a second turn is the template's text with the reply in its place: a reply that
 * was produced twice, with a rewind between, counts once. */
START_TEST(chat_takes_the_reply_once) {
    generation reply, again, tail, tail_again;
    mlsys_generator g = generation_create(&world, LONG), h = generation_create(&world, LONG);
    check_ok(mlsys_generator_chat(g, NULL, "b"));
    int64_t n = generation_tokens(g);
    generation_run(g, 4, &reply);
    check_ok(mlsys_generator_rewind(g, n));
    generation_run(g, 4, &again);
    generation_equal(&reply, &again, "a reply, twice");
    check_ok(mlsys_generator_chat(g, NULL, "c"));
    check_ok(mlsys_generator_chat(h, NULL, "b"));
    generation_run(h, 4, &again);
    check_ok(mlsys_generator_chat(h, NULL, "c"));
    ck_assert_int_eq(generation_tokens(g), generation_tokens(h));
    generation_run(g, 6, &tail);
    generation_run(h, 6, &tail_again);
    generation_equal(&tail, &tail_again, "with and without a second reply");
    check_ok(mlsys_release(g));
    check_ok(mlsys_release(h));
}
END_TEST

/* Rewinding before a message takes the message back; at 0 a system message may come again. */
START_TEST(rewind_takes_messages_back) {
    generation reply, tail, tail_again;
    mlsys_generator g = generation_create(&world, LONG);
    check_ok(mlsys_generator_chat(g, NULL, "b"));
    generation_run(g, 3, &reply);
    int64_t n = generation_tokens(g);
    check_ok(mlsys_generator_chat(g, NULL, "c"));
    int64_t with_c = generation_tokens(g);
    generation_run(g, 6, &tail);
    check_ok(mlsys_generator_rewind(g, n));
    check_ok(mlsys_generator_chat(g, NULL, "c"));
    ck_assert_int_eq(generation_tokens(g), with_c);
    generation_run(g, 6, &tail_again);
    generation_equal(&tail, &tail_again, "a message, taken back and said again");
    generation_expect(mlsys_generator_chat(g, "s", "d"), MLSYS_E_STATE, "only at the start");
    check_ok(mlsys_generator_rewind(g, 0));
    check_ok(mlsys_generator_chat(g, "s", "d"));
    check_ok(mlsys_release(g));
}
END_TEST

static void put_shy_template(gguf_writer *w) {
    gguf_put_str(w, "tokenizer.chat_template",
                 "{% if messages|length > 1 %}{% for m in messages %}{{ m['content'] }}{% endfor %}"
                 "{% endif %}");
}

/* A message of which the template makes nothing lies at 0, and is forgotten with the context. */
START_TEST(a_rewind_to_nothing_takes_empty_messages_back) {
    char other[64];
    generation_world w;
    snprintf(other, sizeof other, "/tmp/mlsys-shy-%ld.gguf", (long)getpid());
    ck_assert_int_eq(tiny_model_write_but(other, "tokenizer.chat_template", put_shy_template), 0);
    generation_open(&w, other, NULL);
    mlsys_generator g = generation_create(&w, NULL);
    check_ok(mlsys_generator_chat(g, NULL, "the"));
    ck_assert_int_eq(generation_tokens(g), 0);
    check_ok(mlsys_generator_rewind(g, 0));
    check_ok(mlsys_generator_chat(g, NULL, "the"));
    ck_assert_int_eq(generation_tokens(g), 0);
    check_ok(mlsys_generator_chat(g, NULL, "the"));
    ck_assert_int_gt(generation_tokens(g), 0);
    check_ok(mlsys_release(g));
    generation_close(&w);
    unlink(other);
}
END_TEST

START_TEST(chat_refuses_control_tokens) {
    mlsys_generator g = generation_create(&world, NULL);
    generation_expect(mlsys_generator_chat(g, NULL, "x<|im_end|>"), MLSYS_E_ARG, "user message");
    generation_expect(mlsys_generator_chat(g, "</s>", "x"), MLSYS_E_ARG, "system message");
    ck_assert_int_eq(generation_tokens(g), 0);
    check_ok(mlsys_generator_chat(g, "a < b", "x <|im_en|>"));
    check_ok(mlsys_release(g));
}
END_TEST

START_TEST(chat_needs_a_template) {
    char other[64];
    generation_world w;
    snprintf(other, sizeof other, "/tmp/mlsys-plain-%ld.gguf", (long)getpid());
    ck_assert_int_eq(tiny_model_write_but(other, "tokenizer.chat_template", NULL), 0);
    generation_open(&w, other, NULL);
    mlsys_generator g = generation_create(&w, NULL);
    generation_expect(mlsys_generator_chat(g, NULL, "x"), MLSYS_E_NOTFOUND,
                      "tokenizer.chat_template");
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "/tmp/mlsys-plain-"));
    ck_assert_int_eq(generation_tokens(g), 0);
    check_ok(mlsys_generator_append(g, "x"));
    check_ok(mlsys_release(g));
    generation_close(&w);
    unlink(other);
}
END_TEST

static void add_chat(Suite *suite) {
    TCase *tc = tcase_create("chat");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_test(tc, chat_keeps_what_turns_share);
    tcase_add_test(tc, chat_takes_the_reply_once);
    tcase_add_test(tc, rewind_takes_messages_back);
    tcase_add_test(tc, a_rewind_to_nothing_takes_empty_messages_back);
    tcase_add_test(tc, chat_refuses_control_tokens);
    tcase_add_test(tc, chat_needs_a_template);
    suite_add_tcase(suite, tc);
}

int main(void) {
    Suite *suite = suite_create("chat");
    add_chat(suite);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
