/* Metadata that breaks a rule, texts made to hurt, memory that runs out. */
#include "model/gguf.h"
#include "model/tokenizer_pre.h"
#include "support/gguf_writer.h"
#include "support/skip.h"
#include "support/vocab.h"

#include <check.h>
#include <math.h>
#include <time.h>
#include <time.h>

#if !defined(MLSI_HAVE_PCRE2)
#define MLSI_HAVE_PCRE2 0
#endif
#if !defined(MLSI_HAVE_UTF8PROC)
#define MLSI_HAVE_UTF8PROC 0
#endif

static test_vocab v;

static void refuse(mlsys_status want, const char *text) {
    mlsi_alloc memory;
    mlsi_tokenizer *t;
    mlsi_alloc_init(&memory, NULL);
    mlsys_status st = mlsi_tokenizer_create(&memory, &v.source, &t);
    ck_assert_msg(st == want, "status %d, wanted %d (%s): %s", st, want, text, mlsys_last_error());
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(mlsys_last_error(), text) != NULL, "\"%s\" is not in: %s", text,
                  mlsys_last_error());
    ck_assert_uint_eq(memory.live_bytes, 0);
}

static void start(const char *model) {
    vocab_init(&v, model);
    if (!strcmp(model, "gpt2")) vocab_add_bytes(&v);
    vocab_add(&v, "ab", MLSI_TOKEN_NORMAL, 0);
    if (!strcmp(model, "gpt2")) vocab_merge(&v, "a b");
    if (!strcmp(model, "bert")) vocab_add(&v, "[UNK]", MLSI_TOKEN_CONTROL, 0);
}

START_TEST(broken_vocabularies) {
    static const char *const models[] = {"llama", "gpt2", "bert"};
    const char *model = models[_i];
    if (_i == 1 && !MLSI_HAVE_PCRE2) TEST_SKIP("broken gpt2: built without PCRE2");
    if (_i == 2 && !MLSI_HAVE_UTF8PROC) TEST_SKIP("broken bert: built without utf8proc");
    start(model);
    v.source.n_tokens = v.source.n_types = v.source.n_scores = 0;
    refuse(MLSYS_E_FORMAT, "tokenizer.ggml.tokens: the vocabulary is empty");
    start(model);
    v.source.n_types--;
    refuse(MLSYS_E_FORMAT, "tokenizer.ggml.token_type: ");
    start(model);
    v.types[0] = 7;
    refuse(MLSYS_E_FORMAT, "token_type[0]: 7");
    start(model);
    v.types[0] = -1;
    refuse(MLSYS_E_FORMAT, "token_type[0]: -1");
    start(model);
    v.tokens[0].len = MLSI_TOKEN_MAX_BYTES + 1; /* refused before it is read */
    refuse(MLSYS_E_FORMAT, "tokens[0]: 65536 bytes");
    start(model);
    v.source.n_tokens = v.source.n_types = v.source.n_scores = (uint64_t)MLSI_VOCAB_MAX + 1;
    refuse(MLSYS_E_FORMAT, "16777217 tokens");
    start(model);
    v.source.ids[MLSI_VOCAB_EOS] = (int64_t)v.source.n_tokens;
    refuse(MLSYS_E_FORMAT, "tokenizer.ggml.eos_token_id: ");
    start(model);
    v.source.ids[MLSI_VOCAB_PAD] = INT64_MAX;
    refuse(MLSYS_E_FORMAT, "padding_token_id: 9223372036854775807");
    start(model);
    v.source.add_bos = 1;
    refuse(MLSYS_E_FORMAT, "add_bos_token: true, but");
    start(model);
    v.source.add_eos = 1;
    refuse(MLSYS_E_FORMAT, "add_eos_token: true, but");
    start(model);
    v.types[0] = MLSI_TOKEN_BYTE; /* "ab", or the byte 0's character */
    refuse(MLSYS_E_FORMAT, "tokens[0]: a byte token reads");
}
END_TEST

START_TEST(broken_scores_and_words) {
    start("llama");
    v.source.n_scores++;
    refuse(MLSYS_E_FORMAT, "tokenizer.ggml.scores: 2 entries for 1 tokens");
    start("llama");
    v.scores[0] = NAN;
    refuse(MLSYS_E_FORMAT, "scores[0]: nan");
    start("llama");
    v.scores[0] = -INFINITY;
    refuse(MLSYS_E_FORMAT, "scores[0]: -inf");
    start("llama");
    v.source.scores = NULL;
    refuse(MLSYS_E_FORMAT, "scores: missing");
    start("bert");
    v.source.n_tokens = v.source.n_types = 1;
    refuse(MLSI_HAVE_UTF8PROC ? MLSYS_E_FORMAT : MLSYS_E_UNSUPPORTED,
           MLSI_HAVE_UTF8PROC ? "unknown_token_id: missing" : "utf8proc");
    start("t5");
    refuse(MLSYS_E_UNSUPPORTED, "tokenizer.ggml.model: no tokenizer is known as \"t5\"");
    start("");
    refuse(MLSYS_E_UNSUPPORTED, "tokenizer.ggml.model");
}
END_TEST

static void add_merge(const char *text) { v.merges[v.source.n_merges++] = test_bytes_of(text); }

START_TEST(broken_merges) {
    static const struct {
        const char *merge, *error;
    } rows[] = {{"ab", "merges[1]: \"ab\" is not two tokens"},
                {"", "merges[1]: \"\" is not two tokens"},
                {" ", "merges[1]: \" \" is not two tokens"},
                {"a ", "merges[1]: \"\" is not a plain token"},
                {"a xyz", "merges[1]: \"xyz\" is not a plain token"},
                {"\xff b", "merges[1]: \"\xff\" is not a plain token"},
                {"b a", "merges[1]: \"b a\" makes no token"},
                {"a b c", "merges[1]: \"b c\" is not a plain token"},
                {"<s> a", "merges[1]: \"<s>\" is not a plain token"}};
    start("gpt2");
    v.source.pre = test_bytes_of("klingon");
    refuse(MLSYS_E_UNSUPPORTED, "tokenizer.ggml.pre: no pre-tokenizer is known as \"klingon\"");
    if (!MLSI_HAVE_PCRE2) {
        start("gpt2");
        refuse(MLSYS_E_UNSUPPORTED, "PCRE2");
        TEST_SKIP("merges: built without PCRE2");
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start("gpt2");
        vocab_add(&v, "<s>", MLSI_TOKEN_CONTROL, 0);
        add_merge(rows[i].merge);
        refuse(MLSYS_E_FORMAT, rows[i].error);
    }
    start("gpt2");
    v.source.merges = NULL;
    refuse(MLSYS_E_FORMAT, "merges: missing");
    start("gpt2");
    v.merges[0].len = 1 << 20; /* refused before the end is read */
    refuse(MLSYS_E_FORMAT, "is not two tokens");
}
END_TEST

START_TEST(a_failed_encode_leaves_its_output) {
    if (!MLSI_HAVE_PCRE2) TEST_SKIP("encode: built without PCRE2");
    start("gpt2");
    v.tokens['q'] = test_bytes_of("qq");
    mlsi_alloc memory;
    mlsi_tokenizer *t;
    mlsi_ids ids;
    mlsi_alloc_init(&memory, NULL);
    ck_assert_int_eq(mlsi_tokenizer_create(&memory, &v.source, &t), MLSYS_OK);
    mlsi_ids_init(&ids, &memory);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, "ab", 2, 0, &ids), MLSYS_OK);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, "abq", 3, 0, &ids), MLSYS_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "byte 0x71"));
    ck_assert_int_eq(ids.n, 1);
    ck_assert_int_eq(ids.data[0], 256);
    ck_assert_int_eq(mlsi_tokenizer_encode(t, "ab", (uint64_t)1 << 31, 0, &ids), MLSYS_E_ARG);
    mlsi_ids_free(&ids);
    mlsi_tokenizer_free(t);
    ck_assert_uint_eq(memory.live_bytes, 0);
}
END_TEST

/* ---- hostile texts: every pre-tokenizer takes linear time -------------------------------------
 */

static mlsys_status count_bytes(void *arg, const char *p, uint64_t n) {
    (void)p;
    if (!n) ck_abort_msg("an empty word");
    *(uint64_t *)arg += n;
    return MLSYS_OK;
}

START_TEST(no_text_makes_a_pretokenizer_slow) {
    enum { N = 1 << 17 };
    if (!MLSI_HAVE_PCRE2) TEST_SKIP("pre-tokenizers: built without PCRE2");
    static const char *const units[] = {
        " ",         "\n",           " \n",      "a",      "A",        "1",  "'",
        "'a",        "\xe4\xb8\xad", "\xcc\x81", "\x01",   "!",        "\r", "\xe2\x80\xa8",
        "a\xcc\x81", "Aa",           "\xc7\x85", " 1a!\n", "\xc2\xa0", "/\n"};
    static const char *const tails[] = {"", "x", "1\n"};
    static char text[N + 64];
    const char *name = mlsi_pre_name(_i);
    /* One name of each set of expressions; the others are only short. */
    static const char *const sets[] = {"default",   "gpt-2",        "smollm",         "falcon",
                                       "llama-bpe", "qwen2",        "qwen35",         "tekken",
                                       "gpt-4o",    "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                       "bloom",     "viking",       "seed-coder",     "bailingmoe"};
    uint64_t most = 1000;
    for (int i = 0; i < 16; i++)
        if (!strcmp(name, sets[i])) most = N;
    mlsi_alloc memory;
    mlsi_pre_traits traits;
    mlsi_pre *p;
    mlsi_pre_match *m;
    mlsi_alloc_init(&memory, NULL);
    ck_assert_msg(mlsi_pre_create(&memory, test_bytes_of(name), &traits, &p) == MLSYS_OK, "%s",
                  mlsys_last_error());
    ck_assert_int_eq(mlsi_pre_match_create(p, &m), MLSYS_OK);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (int k = 0; k < 3; k++) {
            uint64_t n = 0, seen = 0;
            for (size_t len = strlen(units[u]); n + len <= most; n += len)
                memcpy(text + n, units[u], len);
            memcpy(text + n, tails[k], strlen(tails[k]));
            n += strlen(tails[k]);
            clock_t before = clock(); /* of the processor, so that other programs do not count */
            mlsys_status st = mlsi_pre_split(m, text, n, count_bytes, &seen);
            double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
            if (st != MLSYS_OK) ck_abort_msg("%s: %s", name, mlsys_last_error());
            if (seconds > 1) ck_abort_msg("%s: %.1f s for unit %zu, tail %d", name, seconds, u, k);
            if (seen != n) ck_abort_msg("%s: the words are not the text", name);
        }
    mlsi_pre_match_free(m);
    mlsi_pre_free(p);
    ck_assert_uint_eq(memory.live_bytes, 0);
}
END_TEST

/* ---- memory that runs out ---------------------------------------------------------------------
 */

static mlsys_status make_and_use(mlsi_alloc *memory) {
    static char text[20000];
    mlsi_tokenizer *t = NULL;
    mlsi_ids ids;
    mlsi_text back;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "ab ba\nab"[i % 8];
    memset(text + 1000, 'a', 200); /* a long word */
    mlsi_ids_init(&ids, memory);
    mlsi_text_init(&back, memory);
    mlsys_status st = mlsi_tokenizer_create(memory, &v.source, &t);
    if (st == MLSYS_OK) st = mlsi_tokenizer_encode(t, text, sizeof text, MLSI_ENCODE_ADD, &ids);
    if (st == MLSYS_OK) st = mlsi_tokenizer_decode(t, ids.data, (uint64_t)ids.n, 0, &back);
    if (st == MLSYS_OK && ids.n < 1000) ck_abort_msg("too few ids");
    mlsi_text_free(&back);
    mlsi_ids_free(&ids);
    mlsi_tokenizer_free(t);
    return st;
}

START_TEST(every_allocation_may_fail) {
    static const char *const models[] = {"llama", "gpt2", "bert"};
    if (_i == 1 && !MLSI_HAVE_PCRE2) TEST_SKIP("memory of gpt2: built without PCRE2");
    if (_i == 2 && !MLSI_HAVE_UTF8PROC) TEST_SKIP("memory of bert: built without utf8proc");
    start(models[_i]);
    vocab_add(&v, "[UNK]", MLSI_TOKEN_UNKNOWN, 0);
    vocab_add(&v, "[user]", MLSI_TOKEN_USER_DEFINED, 0);
    v.source.ids[MLSI_VOCAB_UNK] = (int64_t)v.source.n_tokens - 2;
    int64_t n = 0;
    for (mlsys_status st = MLSYS_E_NOMEM; st != MLSYS_OK; n++) {
        vocab_budget b = {n};
        mlsi_alloc memory;
        mlsys_hooks hooks = vocab_limited_hooks(&b);
        mlsi_alloc_init(&memory, &hooks);
        st = make_and_use(&memory);
        if (st != MLSYS_OK && st != MLSYS_E_NOMEM)
            ck_abort_msg("allocation %lld: status %d: %s", (long long)n, st, mlsys_last_error());
        if (memory.live_bytes) ck_abort_msg("allocation %lld: leak", (long long)n);
        ck_assert_int_lt(n, 2000);
    }
    ck_assert_int_gt(n, 15);
}
END_TEST

/* ---- from a file ------------------------------------------------------------------------------
 */

static mlsys_status from_file(gguf_writer *w) {
    size_t size;
    uint8_t *file = gguf_writer_finish(w, &size);
    mlsi_gguf *g;
    mlsi_tokenizer *t = NULL;
    gguf_writer_free(w);
    ck_assert_msg(mlsi_gguf_open(&mlsi_alloc_process, "t.gguf", file, size, &g) == MLSYS_OK, "%s",
                  mlsys_last_error());
    mlsys_status st = mlsi_tokenizer_from_gguf(&mlsi_alloc_process, g, &t);
    mlsi_gguf_close(g);
    free(file);
    if (st == MLSYS_OK) ck_assert_int_eq(mlsi_tokenizer_find(t, "\xe2\x96\x81hi", 5), 3);
    mlsi_tokenizer_free(t);
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
    return st;
}

START_TEST(files) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81hi"};
    static const int32_t types[] = {2, 3, 3, 1};
    static const float scores[] = {0, 0, 0, -1};
    gguf_writer w;
    for (int what = 0; what < 8; what++) {
        gguf_writer_init(&w);
        if (what != 1) gguf_put_str(&w, "tokenizer.ggml.model", "llama");
        if (what != 2) gguf_put_strs(&w, "tokenizer.ggml.tokens", 4, tokens);
        if (what != 3) gguf_put_array(&w, "tokenizer.ggml.scores", 6, 4, scores);
        if (what == 4)
            gguf_put_str(&w, "tokenizer.ggml.token_type", "normal");
        else
            gguf_put_array(&w, "tokenizer.ggml.token_type", 5, what == 5 ? 3 : 4, types);
        if (what == 6) gguf_put_i32(&w, "tokenizer.ggml.bos_token_id", -1);
        if (what == 7) gguf_put_u32(&w, "tokenizer.ggml.add_bos_token", 1);
        static const struct {
            mlsys_status st;
            const char *text;
        } want[] = {{MLSYS_OK, ""},
                    {MLSYS_E_NOTFOUND, "t.gguf: no vocabulary: tokenizer.ggml.model"},
                    {MLSYS_E_NOTFOUND, "tokenizer.ggml.tokens is missing"},
                    {MLSYS_E_FORMAT, "t.gguf: tokenizer.ggml.scores: missing"},
                    {MLSYS_E_FORMAT, "tokenizer.ggml.token_type"},
                    {MLSYS_E_FORMAT, "t.gguf: tokenizer.ggml.token_type: 3 entries for 4"},
                    {MLSYS_E_FORMAT, "tokenizer.ggml.bos_token_id: -1"},
                    {MLSYS_E_FORMAT, "tokenizer.ggml.add_bos_token"}};
        mlsys_status st = from_file(&w);
        ck_assert_msg(st == want[what].st, "%d: status %d: %s", what, st, mlsys_last_error());
        if (st != MLSYS_OK)
            ck_assert_msg(strstr(mlsys_last_error(), want[what].text) != NULL, "%d: %s", what,
                          mlsys_last_error());
    }
}
END_TEST

int main(void) {
    int names = 0;
    while (mlsi_pre_name(names))
        names++;
    Suite *s = suite_create("tokenizer_reject");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, broken_vocabularies, 0, 3);
    tcase_add_test(tc, broken_scores_and_words);
    tcase_add_test(tc, broken_merges);
    tcase_add_test(tc, a_failed_encode_leaves_its_output);
    tcase_add_loop_test(tc, no_text_makes_a_pretokenizer_slow, 0, names);
    tcase_add_loop_test(tc, every_allocation_may_fail, 0, 3);
    tcase_add_test(tc, files);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
