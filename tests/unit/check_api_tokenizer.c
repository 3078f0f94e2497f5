/* Tokenizers through the public header: arguments, sizes, lifetimes, threads. */
#include "support/gguf_writer.h"
#include "support/skip.h"

#include <mlsys/mlsys.h>

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mlsys_ctx ctx;
static mlsys_model model;

/* A SentencePiece vocabulary, which needs no optional library; saved and opened as a model. */
static void open_model(void) {
    static const char *const tokens[] = {"<unk>",    "<s>",   "</s>", "\xe2\x96\x81",
                                         "h",        "i",     "hi",   "\xe2\x96\x81hi",
                                         "\xc3\xa4", "[user]"};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 4};
    static const float scores[] = {0, 0, 0, -9, -9, -9, -2, -1, -9, 0};
    char path[] = "/tmp/mlsys-tokenizer-XXXXXX";
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_str(&w, "general.architecture", "llama");
    gguf_put_str(&w, "tokenizer.ggml.model", "llama");
    gguf_put_strs(&w, "tokenizer.ggml.tokens", 10, tokens);
    gguf_put_array(&w, "tokenizer.ggml.scores", 6, 10, scores);
    gguf_put_array(&w, "tokenizer.ggml.token_type", 5, 10, types);
    gguf_put_u32(&w, "tokenizer.ggml.unknown_token_id", 0);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(gguf_writer_save(&w, path), 0);
    gguf_writer_free(&w);
    ck_assert_int_eq(mlsys_ctx_create(NULL, NULL, &ctx), MLSYS_OK);
    mlsys_status st = mlsys_model_open(ctx, path, NULL, &model);
    unlink(path);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
}

START_TEST(text_to_ids_and_back) {
    mlsys_tokenizer t;
    int32_t ids[8], n;
    uint64_t need;
    char text[16];
    open_model();
    ck_assert_int_eq(mlsys_model_tokenizer(model, &t), MLSYS_OK);
    /* A tokenizer stands on its own. */
    ck_assert_int_eq(mlsys_release(model), MLSYS_OK);
    ck_assert_int_eq(mlsys_release(ctx), MLSYS_OK);
    ck_assert_int_eq(mlsys_tokenizer_vocab(t, &n), MLSYS_OK);
    ck_assert_int_eq(n, 10);
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "hi hi", 5, 1, ids, 8, &need), MLSYS_OK);
    ck_assert_uint_eq(need, 3);
    ck_assert_int_eq(ids[0], 1);
    ck_assert_int_eq(ids[1], 7);
    ck_assert_int_eq(ids[2], 7);
    ck_assert_int_eq(mlsys_tokenizer_decode(t, ids, 3, 0, text, sizeof text, &need), MLSYS_OK);
    ck_assert_str_eq(text, "hi hi");
    ck_assert_uint_eq(need, 6);
    ck_assert_int_eq(mlsys_tokenizer_decode(t, ids, 3, 2, text, sizeof text, &need), MLSYS_OK);
    ck_assert_str_eq(text, "<s>hi hi");
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "</s>hi", 6, 2, ids, 8, NULL), MLSYS_OK);
    ck_assert_int_eq(ids[0], 2);
    ck_assert_int_eq(mlsys_tokenizer_id(t, "\xe2\x96\x81hi", &n), MLSYS_OK);
    ck_assert_int_eq(n, 7);
    ck_assert_int_eq(mlsys_tokenizer_id(t, "[user]", &n), MLSYS_OK);
    ck_assert_int_eq(n, 9);
    ck_assert_int_eq(mlsys_tokenizer_id(t, "nothing", &n), MLSYS_E_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "\"nothing\""));
    ck_assert_int_eq(mlsys_release(t), MLSYS_OK);
    ck_assert_int_eq(mlsys_tokenizer_vocab(t, &n), MLSYS_E_HANDLE);
}
END_TEST

START_TEST(sizes_and_arguments) {
    mlsys_tokenizer t;
    int32_t ids[8] = {-7, -7, -7, -7, -7, -7, -7, -7}, bad = 10, n;
    uint64_t need = 99;
    char text[16];
    open_model();
    ck_assert_int_eq(mlsys_model_tokenizer(model, &t), MLSYS_OK);
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "hihihi", 6, 0, NULL, 0, &need), MLSYS_OK);
    ck_assert_uint_eq(need, 3); /* only asked */
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "hihihi", 6, 0, ids, 2, &need), MLSYS_E_BUFFER);
    ck_assert_uint_eq(need, 3);
    ck_assert_int_eq(ids[1], 6);
    ck_assert_int_eq(ids[2], -7); /* not written past cap */
    ck_assert_int_eq(mlsys_tokenizer_encode(t, NULL, 0, 0, ids, 8, &need), MLSYS_OK);
    ck_assert_uint_eq(need, 0);
    ck_assert_int_eq(mlsys_tokenizer_encode(t, NULL, 1, 0, ids, 8, &need), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "a", 1, 0, NULL, 8, &need), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_encode(t, "a", 1, 4, ids, 8, &need), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_encode(NULL, "a", 1, 0, ids, 8, &need), MLSYS_E_HANDLE);
    ck_assert_int_eq(mlsys_tokenizer_encode((mlsys_tokenizer)model, "a", 1, 0, ids, 8, &need),
                     MLSYS_E_HANDLE);
    ck_assert_int_eq(mlsys_tokenizer_decode(t, ids, 2, 0, text, 4, &need), MLSYS_E_BUFFER);
    ck_assert_uint_eq(need, 5);
    ck_assert_str_eq(text, "hih");
    ck_assert_int_eq(mlsys_tokenizer_decode(t, NULL, 0, 0, text, 4, &need), MLSYS_OK);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(mlsys_tokenizer_decode(t, &bad, 1, 0, text, 4, &need), MLSYS_E_ARG);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "ids[0]: 10 is outside [0,10)"));
    ck_assert_int_eq(mlsys_tokenizer_decode(t, NULL, 1, 0, text, 4, &need), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_decode(t, ids, 1, 1, text, 4, &need), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_vocab(t, NULL), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_id(t, NULL, &n), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tokenizer_id(t, "hi", NULL), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_model_tokenizer(model, NULL), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_release(t), MLSYS_OK);
    ck_assert_int_eq(mlsys_release(model), MLSYS_OK);
    ck_assert_int_eq(mlsys_release(ctx), MLSYS_OK);
}
END_TEST

static void *use(void *tokenizer) {
    static const char text[] = "hi hihi \xc3\xa4 [user]hi";
    for (int i = 0; i < 200; i++) {
        int32_t ids[32];
        uint64_t n, need;
        char back[64];
        if (mlsys_tokenizer_encode(tokenizer, text, sizeof text - 1, 1, ids, 32, &n) != MLSYS_OK ||
            mlsys_tokenizer_decode(tokenizer, ids, n, 0, back, sizeof back, &need) != MLSYS_OK ||
            strcmp(back, text))
            return "wrong";
    }
    return NULL;
}

START_TEST(threads_share_a_tokenizer) {
    mlsys_tokenizer t;
    pthread_t threads[4];
    open_model();
    ck_assert_int_eq(mlsys_model_tokenizer(model, &t), MLSYS_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, t), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    ck_assert_int_eq(mlsys_release(t), MLSYS_OK);
    ck_assert_int_eq(mlsys_release(model), MLSYS_OK);
    ck_assert_int_eq(mlsys_release(ctx), MLSYS_OK);
}
END_TEST

int main(void) {
    Suite *s = suite_create("api_tokenizer");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, text_to_ids_and_back);
    tcase_add_test(tc, sizes_and_arguments);
    tcase_add_test(tc, threads_share_a_tokenizer);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
