/* SentencePiece-style and WordPiece tokenizers. */
#include "model/token_stream.h"
#include "support/random.h"
#include "support/skip.h"
#include "support/vocab.h"

#include <check.h>

static test_vocab v;
static mlsi_alloc memory;

static mlsi_tokenizer *make(void) {
    mlsi_tokenizer *t;
    mlsi_alloc_init(&memory, NULL);
    ck_assert_msg(mlsi_tokenizer_create(&memory, &v.source, &t) == MLSYS_OK, "%s",
                  mlsys_last_error());
    return t;
}

static void done(mlsi_tokenizer *t) {
    mlsi_tokenizer_free(t);
    ck_assert_uint_eq(memory.live_bytes, 0);
}

/* The ids as the vocabulary's texts, joined by " ". */
static void expect(const mlsi_tokenizer *t, const char *text, int32_t flags, const char *want) {
    char got[4096] = "";
    mlsi_ids ids;
    mlsi_ids_init(&ids, &memory);
    ck_assert_msg(mlsi_tokenizer_encode(t, text, strlen(text), flags, &ids) == MLSYS_OK, "%s",
                  mlsys_last_error());
    for (int64_t i = 0; i < ids.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "",
                 v.tokens[ids.data[i]].data);
    ck_assert_str_eq(got, want);
    mlsi_ids_free(&ids);
}

static void expect_back(const mlsi_tokenizer *t, const char *text, size_t len, int32_t flags) {
    mlsi_ids ids;
    mlsi_text back;
    mlsi_ids_init(&ids, &memory);
    mlsi_text_init(&back, &memory);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, text, len, flags, &ids), MLSYS_OK);
    ck_assert_int_eq(mlsi_tokenizer_decode(t, ids.data, (uint64_t)ids.n, flags & 2, &back),
                     MLSYS_OK);
    if ((size_t)back.len != len || memcmp(back.data, text, len))
        ck_abort_msg("\"%.*s\" came back as \"%s\"", (int)len, text, back.data);
    mlsi_text_free(&back);
    mlsi_ids_free(&ids);
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

static void pieces(void) {
    char byte[8];
    vocab_init(&v, "llama");
    vocab_add(&v, "<unk>", MLSI_TOKEN_UNKNOWN, 0);
    vocab_add(&v, "<s>", MLSI_TOKEN_CONTROL, 0);
    vocab_add(&v, "</s>", MLSI_TOKEN_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)b);
        vocab_add(&v, byte, MLSI_TOKEN_BYTE, 0);
    }
    static const char *const chars[] = {"\xe2\x96\x81", "a", "b", "c", "s", "<", ">", "\xc3\xa4"};
    for (int i = 0; i < 8; i++)
        vocab_add(&v, chars[i], MLSI_TOKEN_NORMAL, -100 - (float)i);
    vocab_add(&v, "bc", MLSI_TOKEN_NORMAL, -1);
    vocab_add(&v, "ab", MLSI_TOKEN_NORMAL, -2);
    vocab_add(&v,
              "\xe2\x96\x81"
              "a",
              MLSI_TOKEN_NORMAL, -3);
    vocab_add(&v, "aa", MLSI_TOKEN_NORMAL, -4);
    vocab_add(&v, "<s", MLSI_TOKEN_NORMAL, -5);
    vocab_add(&v, "\xe2\x96\x81\xe2\x96\x81", MLSI_TOKEN_NORMAL, -6);
    v.source.add_bos = 1;
}

#define SP "\xe2\x96\x81"

START_TEST(highest_score_first) {
    pieces();
    v.source.add_space_prefix = 0;
    mlsi_tokenizer *t = make();
    expect(t, "abc", 0, "a bc");
    expect(t, "ab", 0, "ab");
    expect(t, "aaa", 0, "aa a"); /* leftmost among equals */
    expect(t, " a", 0, SP "a");
    expect(t, "a a", 0, "a " SP "a");
    expect(t, "a   b", 0, "a " SP SP " " SP " b");
    expect(t, SP "a", 0, SP "a"); /* the mark in a text is a space */
    expect(t, "", MLSI_ENCODE_ADD, "<s>");
    done(t);
}
END_TEST

START_TEST(space_prefix_comes_and_goes) {
    pieces();
    mlsi_tokenizer *t = make();
    expect(t, "a", 0, SP "a");
    expect(t, " a", 0, SP " " SP "a");
    expect(t, "a</s>a", MLSI_TOKENS_SPECIAL, SP "a </s> " SP "a");
    expect(t, "", 0, "");
    static const char *const texts[] = {"a",    " a",          "  ab c",           "\n", "a</s>a",
                                        "</s>", "x\xc3\xa4 y", "\xf0\x9f\xa6\x99", " "};
    for (int i = 0; i < 9; i++) {
        expect_back(t, texts[i], strlen(texts[i]), 0);
        expect_back(t, texts[i], strlen(texts[i]), MLSI_TOKENS_SPECIAL);
    }
    expect_back(t, "ab c", 4, MLSI_ENCODE_ADD);
    /* The continuation of a text keeps its space. */
    mlsi_token_stream s;
    mlsi_text text;
    mlsi_text_init(&text, &memory);
    mlsi_token_stream_init(&s, t, 0, false);
    ck_assert_int_eq(mlsi_token_stream_next(&s, mlsi_tokenizer_find(t, SP "a", 4), &text),
                     MLSYS_OK);
    ck_assert_str_eq(text.data, " a");
    mlsi_text_free(&text);
    done(t);
}
END_TEST

START_TEST(what_has_no_piece_is_spelled_in_bytes) {
    pieces();
    v.source.add_space_prefix = 0;
    mlsi_tokenizer *t = make();
    expect(t, "x", 0, "<0x78>");
    expect(t, "\xc3\xa4", 0, "\xc3\xa4");
    expect(t, "\xc3\xb6", 0, "<0xC3> <0xB6>");
    expect(t, "a\xc3", 0, "a <0xC3>");
    expect(t, "<0x41>", 0, "< <0x30> <0x78> <0x34> <0x31> >"); /* a text is not the byte token */
    expect(t, "<s>", 0, "<s >");                               /* nor the control token */
    expect(t, "<s>", MLSI_TOKENS_SPECIAL, "<s>");
    test_random r = test_random_seed("what_has_no_piece", 9);
    for (int round = 0; round < 1000; round++) {
        char text[40];
        size_t len = (size_t)test_int(&r, 0, 40);
        for (size_t i = 0; i < len; i++)
            text[i] =
                (char)(test_int(&r, 0, 1) ? "ab c<s>\n"[test_int(&r, 0, 7)] : test_int(&r, 0, 255));
        bool mark = false; /* which comes back as a space */
        for (size_t i = 0; i + 3 <= len; i++)
            mark |= !memcmp(text + i, SP, 3);
        if (!mark) expect_back(t, text, len, 0);
    }
    done(t);
}
END_TEST

START_TEST(without_byte_tokens_the_unknown_token_stands) {
    vocab_init(&v, "llama");
    vocab_add(&v, "<unk>", MLSI_TOKEN_UNKNOWN, 0);
    vocab_add(&v, "a", MLSI_TOKEN_NORMAL, 0);
    v.source.add_space_prefix = 0;
    v.source.ids[MLSI_VOCAB_UNK] = 0;
    mlsi_tokenizer *t = make();
    expect(t, "axa", 0, "a <unk> a");
    done(t);
    v.types[0] = MLSI_TOKEN_CONTROL; /* would let a text make a control token */
    t = make();
    mlsi_ids ids;
    mlsi_ids_init(&ids, &memory);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, "axa", 3, 0, &ids), MLSYS_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "0x78"));
    ck_assert_int_eq(ids.n, 0);
    mlsi_ids_free(&ids);
    done(t);
}
END_TEST

/* The rule as it is written, against texts that are cut at spaces and against long runs. */
START_TEST(merges_equal_the_rule) {
    test_random r = test_random_seed("spm merges_equal_the_rule", 21);
    static char symbols[128][64];
    for (int round = 0; round < 40; round++) {
        pieces();
        v.source.add_space_prefix = 0;
        for (int k = 0; k < 30; k++) {
            char text[64] = "";
            for (int64_t n = test_int(&r, 2, 5); n > 0; n--)
                strcat(text, test_int(&r, 0, 3)
                                 ? (const char *[]){"a", "b", "c"}[test_int(&r, 0, 2)]
                             : round % 2 ? SP
                                         : "s");
            if (vocab_find(&v, text, strlen(text)) < 0)
                vocab_add(&v, text, MLSI_TOKEN_NORMAL, (float)test_int(&r, -50, -1));
        }
        mlsi_tokenizer *t = make();
        for (int k = 0; k < 20; k++) {
            char text[512] = "", want[4096] = "";
            int64_t n = test_int(&r, 1, 100);
            for (int64_t i = 0; i < n; i++) {
                const char *c = (const char *[]){"a", "b", "c", "s", SP}[test_int(&r, 0, 4)];
                strcpy(symbols[i], c);
                strcat(text, c);
            }
            for (;;) {
                int64_t best = -1;
                float score = 0;
                char joint[128];
                for (int64_t i = 0; i + 1 < n; i++) {
                    snprintf(joint, sizeof joint, "%s%s", symbols[i], symbols[i + 1]);
                    int32_t id = vocab_find(&v, joint, strlen(joint));
                    if (id < 0 || (best >= 0 && v.scores[id] <= score)) continue;
                    best = i;
                    score = v.scores[id];
                }
                if (best < 0) break;
                snprintf(joint, sizeof joint, "%s%s", symbols[best], symbols[best + 1]);
                memcpy(symbols[best], joint, 64);
                n--;
                memmove(symbols[best + 1], symbols[best + 2], (size_t)(n - best - 1) * 64);
            }
            for (int64_t i = 0; i < n; i++) {
                if (i) strcat(want, " ");
                strcat(want, symbols[i]);
            }
            expect(t, text, 0, want);
        }
        done(t);
    }
}
END_TEST

START_TEST(a_long_run_is_not_quadratic) {
    enum { N = 1 << 20 };
    pieces();
    mlsi_tokenizer *t = make();
    char *text = malloc(N);
    mlsi_ids ids;
    for (int k = 0; k < 3; k++) {
        memset(text, "a \xc3"[k], N);
        mlsi_ids_init(&ids, &memory);
        ck_assert_int_eq(mlsi_tokenizer_encode(t, text, N, 0, &ids), MLSYS_OK);
        ck_assert_int_ge(ids.n, N / 2);
        mlsi_ids_free(&ids);
    }
    free(text);
    done(t);
}
END_TEST

/* ---- WordPiece ------------------------------------------------------------------------------- */

static void words(void) {
    static const char *const tokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    static const char *const plain[] = {
        SP "hello", SP "he",           "llo",  SP "w", "or",   "ld",          "l",   SP ",", SP "!",
        SP "un",    SP "\xe4\xb8\xad", SP "a", "a",    SP "$", SP "\xce\xb1", SP "i"};
    vocab_init(&v, "bert");
    for (int i = 0; i < 5; i++)
        vocab_add(&v, tokens[i], MLSI_TOKEN_CONTROL, 0);
    for (int i = 0; i < 16; i++)
        vocab_add(&v, plain[i], MLSI_TOKEN_NORMAL, 0);
    v.source.ids[MLSI_VOCAB_UNK] = 1;
}

#if !defined(MLSI_HAVE_UTF8PROC)
#define MLSI_HAVE_UTF8PROC 0
#endif

START_TEST(wordpiece_normalises_and_takes_the_longest) {
    if (!MLSI_HAVE_UTF8PROC) TEST_SKIP("wordpiece: built without utf8proc");
    words();
    mlsi_tokenizer *t = make();
    expect(t, "Hello, world!", 0, SP "hello " SP ", " SP "w or ld " SP "!");
    expect(t, "Hello, world!", MLSI_ENCODE_ADD,
           "[CLS] " SP "hello " SP ", " SP "w or ld " SP "! [SEP]");
    expect(t, "H\xc3\xa9llo", 0, SP "hello");  /* composed accent */
    expect(t, "He\xcc\x81llo", 0, SP "hello"); /* combining accent */
    expect(t, "\xc4\xb0", 0, SP "i");          /* dotted capital I */
    expect(t,
           "a\xe4\xb8\xad"
           "a",
           0, SP "a " SP "\xe4\xb8\xad " SP "a");
    expect(t, "hellox he", 0, "[UNK] " SP "he");       /* a word is known whole or not at all */
    expect(t, "he\xc2\xa0llo\x01", 0, SP "he [UNK]");  /* "llo" begins no word */
    expect(t, "he\x01llo\xef\xbf\xbd", 0, SP "hello"); /* control characters are dropped */
    expect(t, "he\xffllo", 0, SP "hello");             /* and what is not UTF-8 */
    expect(t, "$\xce\x91", 0, SP "$ " SP "\xce\xb1");
    expect(t, " \t\n", 0, "");
    expect(t, "[SEP] he", MLSI_TOKENS_SPECIAL, "[SEP] " SP "he");
    expect(t, "[SEP]", 0, "[UNK] [UNK] [UNK]");
    char longest[102];
    memset(longest, 'a', 101);
    longest[101] = 0;
    expect(t, longest, 0, "[UNK]"); /* more than 100 characters */
    longest[100] = 0;
    mlsi_ids ids;
    mlsi_ids_init(&ids, &memory);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, longest, 100, 0, &ids), MLSYS_OK);
    ck_assert_int_eq(ids.n, 100);
    mlsi_ids_free(&ids);
    mlsi_text text;
    mlsi_text_init(&text, &memory);
    const int32_t hello[] = {2, 5, 12, 8, 9, 10, 3};
    ck_assert_int_eq(mlsi_tokenizer_decode(t, hello, 7, 0, &text), MLSYS_OK);
    ck_assert_str_eq(text.data, "hello , world");
    mlsi_text_free(&text);
    done(t);
    v.source.lowercase = 0;
    t = make();
    expect(t, "Hello hello", 0, "[UNK] " SP "hello");
    done(t);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tokenizer_spm");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, highest_score_first);
    tcase_add_test(tc, space_prefix_comes_and_goes);
    tcase_add_test(tc, what_has_no_piece_is_spelled_in_bytes);
    tcase_add_test(tc, without_byte_tokens_the_unknown_token_stands);
    tcase_add_test(tc, merges_equal_the_rule);
    tcase_add_test(tc, a_long_run_is_not_quadratic);
    tcase_add_test(tc, wordpiece_normalises_and_takes_the_longest);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
