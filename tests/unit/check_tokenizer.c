/* Byte-level BPE, added tokens, streaming. */
#include "model/token_stream.h"
#include "model/utf8.h"
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

static mlsi_ids encode(const mlsi_tokenizer *t, const char *text, size_t len, int32_t flags) {
    mlsi_ids ids;
    mlsi_ids_init(&ids, &memory);
    ck_assert_msg(mlsi_tokenizer_encode(t, text, len, flags, &ids) == MLSYS_OK, "%s",
                  mlsys_last_error());
    return ids;
}

/* The ids as their texts, joined by "|". */
static void expect(const mlsi_tokenizer *t, const char *text, int32_t flags, const char *want) {
    char got[4096] = "";
    mlsi_ids ids = encode(t, text, strlen(text), flags);
    for (int64_t i = 0; i < ids.n; i++) {
        mlsi_bytes b = mlsi_tokenizer_piece(t, ids.data[i]);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", i ? "|" : "", (int)b.len,
                 b.data);
    }
    ck_assert_str_eq(got, want);
    mlsi_ids_free(&ids);
}

static void expect_round_trip(const mlsi_tokenizer *t, const char *text, size_t len,
                              int32_t flags) {
    mlsi_ids ids = encode(t, text, len, flags);
    mlsi_text back;
    mlsi_text_init(&back, &memory);
    ck_assert_int_eq(mlsi_tokenizer_decode(t, ids.data, (uint64_t)ids.n, flags, &back), MLSYS_OK);
    if ((size_t)back.len != len || memcmp(back.data, text, len))
        ck_abort_msg("decode(encode(s)) is not s: \"%.*s\"", (int)len, text);
    mlsi_text_free(&back);
    mlsi_ids_free(&ids);
}

#define NEEDS_PCRE2(what)                                                                          \
    do {                                                                                           \
        if (!MLSI_HAVE_PCRE2) TEST_SKIP("%s: built without PCRE2", what);                          \
    } while (0)
#if !defined(MLSI_HAVE_PCRE2)
#define MLSI_HAVE_PCRE2 0
#endif

static void english(void) {
    vocab_init(&v, "gpt2");
    vocab_add_bytes(&v);
    vocab_merge(&v, "h e");
    vocab_merge(&v, "l l");
    vocab_merge(&v, "he ll");
    vocab_merge(&v, "hell o");
    vocab_merge(&v, "Ġ w");
    vocab_merge(&v, "Ġw o");
    vocab_merge(&v, "r l");
    vocab_merge(&v, "Ġwo rl");
    vocab_merge(&v, "Ġworl d");
}

START_TEST(merges_follow_their_ranks) {
    NEEDS_PCRE2("bpe");
    vocab_init(&v, "gpt2");
    vocab_add_bytes(&v);
    vocab_merge(&v, "b c"); /* before a b */
    vocab_merge(&v, "a b");
    vocab_merge(&v, "ab c"); /* never: b c comes first */
    mlsi_tokenizer *t = make();
    expect(t, "abc", 0, "a|bc");
    expect(t, "abab", 0, "ab|ab");
    expect(t, "", 0, "");
    done(t);
}
END_TEST

START_TEST(words_do_not_merge_across_the_expression) {
    NEEDS_PCRE2("bpe");
    english();
    mlsi_tokenizer *t = make();
    expect(t, "hello world", 0, "hello| world");
    expect(t, "hello  world", 0, "hello| | world");
    expect(t, "helloworld", 0, "hello|w|o|rl|d");
    expect(t, "hell", 0, "hell");
    expect(t, "hello's", 0, "hello|'|s");
    done(t);
}
END_TEST

/* The rule as it is written: again and again the pair of the lowest rank, leftmost first. */
static int64_t plain_merge(char (*symbols)[128], int64_t n) {
    for (;;) {
        uint64_t best_rank = UINT64_MAX;
        int64_t best = -1;
        for (int64_t i = 0; i + 1 < n; i++) {
            char pair[256];
            snprintf(pair, sizeof pair, "%s %s", symbols[i], symbols[i + 1]);
            for (uint64_t k = 0; k < v.source.n_merges && k < best_rank; k++)
                if (!strcmp(v.merges[k].data, pair)) {
                    best_rank = k;
                    best = i;
                }
        }
        if (best < 0) return n;
        size_t at = strlen(symbols[best]);
        memmove(symbols[best] + at, symbols[best + 1], strlen(symbols[best + 1]) + 1);
        memmove(symbols[best + 1], symbols[best + 2], (size_t)(n - best - 2) * sizeof *symbols);
        n--;
    }
}

static void random_merges(test_random *r) {
    vocab_init(&v, "gpt2");
    vocab_add_bytes(&v);
    for (int k = 0; k < 40; k++) {
        char pair[128];
        mlsi_bytes left, right;
        do {
            uint64_t n = v.source.n_tokens;
            left = k < 4 || test_int(r, 0, 1) ? v.tokens['a' + test_int(r, 0, 2)]
                                              : v.tokens[test_int(r, 256, (int64_t)n - 1)];
            right = k < 4 || test_int(r, 0, 1) ? v.tokens['a' + test_int(r, 0, 2)]
                                               : v.tokens[test_int(r, 256, (int64_t)n - 1)];
        } while (left.len + right.len > 40);
        snprintf(pair, sizeof pair, "%s %s", left.data, right.data);
        vocab_merge(&v, pair);
    }
}

START_TEST(merges_equal_the_rule_for_short_and_long_words) {
    NEEDS_PCRE2("bpe");
    test_random r = test_random_seed("merges_equal_the_rule", 7);
    static char symbols[128][128];
    for (int round = 0; round < 30; round++) {
        random_merges(&r);
        mlsi_tokenizer *t = make();
        for (int k = 0; k < 12; k++) {
            char word[128] = "", want[512] = "";
            int64_t n = test_int(&r, 1, k % 2 ? 31 : 100);
            for (int64_t i = 0; i < n; i++) {
                word[i] = (char)('a' + test_int(&r, 0, 2));
                snprintf(symbols[i], sizeof symbols[i], "%c", word[i]);
            }
            word[n] = 0;
            n = plain_merge(symbols, n);
            for (int64_t i = 0; i < n; i++) {
                if (i) strcat(want, "|");
                strcat(want, symbols[i]);
            }
            expect(t, word, 0, want);
        }
        done(t);
    }
}
END_TEST

START_TEST(a_long_run_is_not_quadratic) {
    NEEDS_PCRE2("bpe");
    enum { N = 1 << 20 };
    vocab_init(&v, "gpt2");
    vocab_add_bytes(&v);
    vocab_merge(&v, "a a");
    vocab_merge(&v, "aa aa");
    vocab_merge(&v, "aaaa aaaa");
    mlsi_tokenizer *t = make();
    char *text = malloc(N + 3);
    memset(text, 'a', N + 3);
    mlsi_ids ids = encode(t, text, N + 3, 0);
    ck_assert_int_eq(ids.n, N / 8 + 2); /* the rest: aa, a */
    ck_assert_int_eq(ids.data[0], vocab_find(&v, "aaaaaaaa", 8));
    ck_assert_int_eq(ids.data[ids.n - 1], 'a');
    mlsi_ids_free(&ids);
    free(text);
    done(t);
}
END_TEST

/* A text of more than the size where words are remembered, against its parts, which are below it.
 */
START_TEST(remembered_words_are_the_same) {
    NEEDS_PCRE2("bpe");
    enum { PARTS = 60, PART = 1000 };
    static const char *const words[] = {"hello", " world", " worl", " hello",
                                        "rl",    " ",      "\n",    "\xc3\xa9",
                                        "12",    " hehe",  "!?",    "helloworldhelloworld"};
    static char text[PARTS * (PART + 32)];
    size_t start[PARTS + 1] = {0};
    test_random r = test_random_seed("remembered_words", 3);
    english();
    vocab_add(&v, "<part>", MLSI_TOKEN_USER_DEFINED, 0); /* parts meet at a token, so none is cut */
    mlsi_tokenizer *t = make();
    size_t len = 0;
    for (int i = 0; i < PARTS; i++) {
        while (len < start[i] + PART) {
            const char *w = words[test_int(&r, 0, 11)];
            memcpy(text + len, w, strlen(w));
            len += strlen(w);
        }
        memcpy(text + len, "<part>", 6);
        start[i + 1] = len += 6;
    }
    mlsi_ids all = encode(t, text, len, 0);
    int64_t k = 0;
    for (int i = 0; i < PARTS; i++) {
        mlsi_ids part = encode(t, text + start[i], start[i + 1] - start[i], 0);
        if (k + part.n > all.n ||
            memcmp(part.data, all.data + k, (size_t)part.n * sizeof *part.data))
            ck_abort_msg("part %d has other ids", i);
        k += part.n;
        mlsi_ids_free(&part);
    }
    ck_assert_int_eq(k, all.n);
    mlsi_ids_free(&all);
    done(t);
}
END_TEST

START_TEST(any_bytes_come_back) {
    NEEDS_PCRE2("bpe");
    english();
    mlsi_tokenizer *t = make();
    test_random r = test_random_seed("any_bytes_come_back", 11);
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t len = (size_t)test_int(&r, 0, 60);
        for (size_t i = 0; i < len; i++)
            text[i] =
                (char)(test_int(&r, 0, 2) ? test_int(&r, 0, 255) : "hel wo\n1"[test_int(&r, 0, 7)]);
        expect_round_trip(t, text, len, 0);
    }
    done(t);
}
END_TEST

/* ---- added tokens ---------------------------------------------------------------------------- */

/* huggingface/tokenizers #1392: characters of the byte map in an added token lost bytes. */
START_TEST(added_tokens_are_literal) {
    NEEDS_PCRE2("added tokens");
    int32_t type = _i ? MLSI_TOKEN_CONTROL : MLSI_TOKEN_USER_DEFINED;
    english();
    for (int b = 0; b < 256; b++) {
        char c[3], text[32];
        byte_char((unsigned char)b, c);
        snprintf(text, sizeof text, "il%sveyou", c);
        vocab_add(&v, text, type, 0);
    }
    mlsi_tokenizer *t = make();
    for (int b = 0; b < 256; b++) {
        char c[3], text[32], around[160];
        byte_char((unsigned char)b, c);
        snprintf(text, sizeof text, "il%sveyou", c);
        int32_t id = mlsi_tokenizer_find(t, text, strlen(text));
        ck_assert_int_eq(id, vocab_find(&v, text, strlen(text)));
        mlsi_ids ids = encode(t, text, strlen(text), MLSI_TOKENS_SPECIAL);
        ck_assert_int_eq(ids.n, 1);
        ck_assert_int_eq(ids.data[0], id);
        mlsi_ids_free(&ids);
        snprintf(around, sizeof around, "hello%shello %s%s world", text, text, text);
        ids = encode(t, around, strlen(around), MLSI_TOKENS_SPECIAL);
        ck_assert_int_eq(ids.data[1], id);
        mlsi_ids_free(&ids);
        expect_round_trip(t, around, strlen(around), MLSI_TOKENS_SPECIAL);
    }
    done(t);
}
END_TEST

START_TEST(added_tokens_match_leftmost_and_longest) {
    NEEDS_PCRE2("added tokens");
    english();
    vocab_add(&v, "<a", MLSI_TOKEN_USER_DEFINED, 0);
    vocab_add(&v, "<a>", MLSI_TOKEN_USER_DEFINED, 0);
    vocab_add(&v, "<a><", MLSI_TOKEN_CONTROL, 0);
    vocab_add(&v, "><b>>>>", MLSI_TOKEN_USER_DEFINED, 0); /* longer, but starts later */
    vocab_add(&v, "lo w", MLSI_TOKEN_USER_DEFINED, 0);
    mlsi_tokenizer *t = make();
    expect(t, "x<a>y", 0, "x|<a>|y");
    expect(t, "x<ay", 0, "x|<a|y");
    expect(t, "<a><b>>>>", 0, "<a>|<|b|>|>|>|>"); /* leftmost wins over longest */
    expect(t, "<a><b>>>>", MLSI_TOKENS_SPECIAL, "<a><|b|>|>|>|>");
    expect(t, "<a<a>", 0, "<a|<a>");
    expect(t, "><b>>>", 0, ">|<|b|>|>|>");
    expect(t, "<", 0, "<");
    expect(t, "hello world", 0, "he|l|lo w|o|rl|d");
    done(t);
}
END_TEST

START_TEST(control_tokens_come_only_when_asked) {
    NEEDS_PCRE2("added tokens");
    english();
    int32_t bos = vocab_add(&v, "<s>", MLSI_TOKEN_CONTROL, 0);
    int32_t eos = vocab_add(&v, "</s>", MLSI_TOKEN_CONTROL, 0);
    v.source.ids[MLSI_VOCAB_BOS] = bos;
    v.source.ids[MLSI_VOCAB_EOS] = eos;
    v.source.add_bos = v.source.add_eos = 1;
    mlsi_tokenizer *t = make();
    expect(t, "<s>hello", 0, "<|s|>|hello");
    expect(t, "<s>hello", MLSI_TOKENS_SPECIAL, "<s>|hello");
    expect(t, "<s>hello", MLSI_ENCODE_ADD, "<s>|<|s|>|hello|</s>");
    expect(t, "", MLSI_ENCODE_ADD, "<s>|</s>");
    ck_assert(mlsi_tokenizer_is_end(t, eos));
    ck_assert(!mlsi_tokenizer_is_end(t, bos));
    ck_assert(!mlsi_tokenizer_is_end(t, -1));
    mlsi_text text;
    mlsi_text_init(&text, &memory);
    const int32_t ids[] = {bos, 'x', eos};
    ck_assert_int_eq(mlsi_tokenizer_decode(t, ids, 3, 0, &text), MLSYS_OK);
    ck_assert_str_eq(text.data, "x");
    text.len = 0;
    ck_assert_int_eq(mlsi_tokenizer_decode(t, ids, 3, MLSI_TOKENS_SPECIAL, &text), MLSYS_OK);
    ck_assert_str_eq(text.data, "<s>x</s>");
    mlsi_text_free(&text);
    done(t);
}
END_TEST

START_TEST(a_word_that_is_a_token_ignores_merges) {
    NEEDS_PCRE2("llama-bpe");
    english();
    v.source.pre = test_bytes_of("llama-bpe");
    vocab_add(&v, "xyz", MLSI_TOKEN_NORMAL, 0); /* no merge makes it */
    mlsi_tokenizer *t = make();
    expect(t, "xyz", 0, "xyz");
    expect(t, "xyzx", 0, "x|y|z|x");
    done(t);
    v.source.pre = test_bytes_of("gpt-2");
    t = make();
    expect(t, "xyz", 0, "x|y|z");
    done(t);
}
END_TEST

/* ---- streaming ------------------------------------------------------------------------------- */

/* Of a well-formed text every piece is well-formed. */
static void stream_equals_whole(const mlsi_tokenizer *t, const int32_t *ids, int64_t n,
                                int32_t flags, bool well_formed) {
    mlsi_text whole, parts, piece;
    mlsi_token_stream s;
    mlsi_text_init(&whole, &memory);
    mlsi_text_init(&parts, &memory);
    for (int64_t i = 0; i < n; i++) { /* the pieces, with no rule but the bytes */
        mlsi_bytes b = mlsi_tokenizer_piece(t, ids[i]);
        bool hidden = mlsi_tokenizer_type(t, ids[i]) == MLSI_TOKEN_CONTROL && !flags;
        for (uint64_t k = 0; k < b.len && !hidden; k++)
            mlsi_text_add(&whole, "%c", b.data[k]);
    }
    mlsi_token_stream_init(&s, t, flags, true);
    for (int64_t i = 0; i <= n; i++) {
        mlsi_text_init(&piece, &memory);
        ck_assert_int_eq(i < n ? mlsi_token_stream_next(&s, ids[i], &piece)
                               : mlsi_token_stream_finish(&s, &piece),
                         MLSYS_OK);
        if (well_formed &&
            mlsi_utf8_valid_prefix(piece.data, (uint64_t)piece.len) < (uint64_t)piece.len)
            ck_abort_msg("piece %lld is not whole characters", (long long)i);
        for (int64_t k = 0; k < piece.len; k++)
            mlsi_text_add(&parts, "%c", piece.data[k]);
        mlsi_text_free(&piece);
    }
    if (whole.len != parts.len || (whole.len && memcmp(whole.data, parts.data, (size_t)whole.len)))
        ck_abort_msg("streaming gave \"%s\", whole \"%s\"", parts.data, whole.data);
    mlsi_text_free(&whole);
    mlsi_text_free(&parts);
}

START_TEST(streaming_never_splits_a_character) {
    NEEDS_PCRE2("streaming");
    english();
    vocab_merge(&v, "Ã ¤"); /* ä */
    vocab_merge(&v, "ð Ł"); /* half of an emoji */
    vocab_merge(&v, "¤ ð"); /* the end of one and the start of another */
    vocab_add(&v, "<\xc3\x96>", MLSI_TOKEN_CONTROL, 0);
    vocab_add(&v, "\xc3\x96", MLSI_TOKEN_USER_DEFINED, 0);
    mlsi_tokenizer *t = make();
    test_random r = test_random_seed("streaming", 5);
    static const char text[] = "h\xc3\xa4llo \xf0\x9f\xa6\x99 \xe2\x82\xac";
    mlsi_ids ids = encode(t, text, strlen(text), 0);
    stream_equals_whole(t, ids.data, ids.n, 0, true);
    stream_equals_whole(t, ids.data, ids.n - 1, 0, false); /* stops inside a character */
    mlsi_ids_free(&ids);
    int32_t random_ids[40];
    for (int round = 0; round < 1000; round++) {
        int64_t n = test_int(&r, 0, 40);
        for (int64_t i = 0; i < n; i++)
            random_ids[i] =
                (int32_t)(test_int(&r, 0, 1) ? test_int(&r, 0x80, 0xff)
                                             : test_int(&r, 0, mlsi_tokenizer_size(t) - 1));
        stream_equals_whole(t, random_ids, n, round % 2 ? MLSI_TOKENS_SPECIAL : 0, false);
    }
    mlsi_text text_out;
    mlsi_token_stream s;
    mlsi_text_init(&text_out, &memory);
    mlsi_token_stream_init(&s, t, 0, true);
    ck_assert_int_eq(mlsi_token_stream_next(&s, mlsi_tokenizer_size(t), &text_out), MLSYS_E_ARG);
    ck_assert_int_eq(mlsi_token_stream_next(&s, -1, &text_out), MLSYS_E_ARG);
    mlsi_text_free(&text_out);
    done(t);
}
END_TEST

START_TEST(incomplete_tails) {
    static const struct {
        const char *bytes;
        int tail;
    } rows[] = {{"", 0},
                {"a", 0},
                {"\xc3", 1},
                {"\xc3\xa4", 0},
                {"\xe2\x82", 2},
                {"x\xe2", 1},
                {"\xf0\x9f\xa6", 3},
                {"\xf0\x9f\xa6\x99", 0},
                {"\xc1", 0},
                {"\x80\x80\x80", 0},
                {"\xed\xa0", 0},
                {"\xed\x9f", 2},
                {"\xe0\x80", 0},
                {"\xf4\x90", 0},
                {"\xf5", 0},
                {"\xf0\x8f\xbf", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(mlsi_utf8_incomplete_tail(rows[i].bytes, strlen(rows[i].bytes)) ==
                          rows[i].tail,
                      "row %zu", i);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tokenizer");
    TCase *tc = tcase_create("bpe");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, merges_follow_their_ranks);
    tcase_add_test(tc, words_do_not_merge_across_the_expression);
    tcase_add_test(tc, merges_equal_the_rule_for_short_and_long_words);
    tcase_add_test(tc, a_long_run_is_not_quadratic);
    tcase_add_test(tc, remembered_words_are_the_same);
    tcase_add_test(tc, any_bytes_come_back);
    tcase_add_loop_test(tc, added_tokens_are_literal, 0, 2);
    tcase_add_test(tc, added_tokens_match_leftmost_and_longest);
    tcase_add_test(tc, control_tokens_come_only_when_asked);
    tcase_add_test(tc, a_word_that_is_a_token_ignores_merges);
    tcase_add_test(tc, streaming_never_splits_a_character);
    tcase_add_test(tc, incomplete_tails);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
