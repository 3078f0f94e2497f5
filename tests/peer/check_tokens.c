/* Token ids against the peers' own expectations: $MLSYS_SUITES/tokenizer/ggml-vocab-NAME.gguf with
 * texts
 * (.inp) and ids (.out), made without begin and end tokens and without recognising control tokens.
 */
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "support/skip.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"gpt-2",          "smollm",       "falcon",    "mpt",
                                    "refact",         "starcoder",    "llama-bpe", "qwen2",
                                    "deepseek-coder", "deepseek-llm", "command-r", "qwen35",
                                    "llama-spm",      "phi-3",        "bert-bge"};
enum { NAMES = sizeof names / sizeof names[0] };
static const char separator[] = "\n__ggml_vocab_test__\n";

/* The whole file, NUL-ended, from malloc; NULL when it cannot be read. */
static char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *p = aligned_alloc(64, ((size_t)n + 64) / 64 * 64);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(fread(p, 1, (size_t)n, f), (size_t)n);
    p[n] = 0;
    fclose(f);
    *size = (size_t)n;
    return p;
}

static char *suite_file(const char *name, const char *end, size_t *size) {
    char path[4096];
    const char *suites = getenv("MLSYS_SUITES");
    if (!suites || !*suites) return NULL;
    snprintf(path, sizeof path, "%s/tokenizer/ggml-vocab-%s.gguf%s", suites, name, end);
    return read_file(path, size);
}

static char *vocabulary(const char *name, size_t *size) {
    if (strcmp(name, "smollm")) return suite_file(name, "", size);
    const char *model = getenv("MLSYS_MODEL_SMOLLM2");
    return model && *model ? read_file(model, size) : NULL;
}

static void check_text(const mlsi_tokenizer *t, const char *name, int nr, const char *text,
                       size_t len, char *expected) {
    mlsi_ids ids;
    mlsi_ids_init(&ids, &mlsi_alloc_process);
    ck_assert_msg(mlsi_tokenizer_encode(t, text, len, 0, &ids) == MLSYS_OK, "%s text %d: %s", name,
                  nr, mlsys_last_error());
    char *rest = expected;
    for (int64_t i = 0; i < ids.n; i++) {
        long want = strtol(rest, &rest, 10);
        ck_assert_msg(ids.data[i] == want, "%s text %d: id %lld is %d, expected %ld, text \"%.*s\"",
                      name, nr, (long long)i, ids.data[i], want, (int)len, text);
    }
    ck_assert_msg(!*rest || strspn(rest, " ") == strlen(rest), "%s text %d: ids missing:%s", name,
                  nr, rest);
    mlsi_text back;
    mlsi_text_init(&back, &mlsi_alloc_process);
    ck_assert_int_eq(mlsi_tokenizer_decode(t, ids.data, (uint64_t)ids.n, 0, &back), MLSYS_OK);
    if (strcmp(name, "bert-bge")) { /* WordPiece normalises */
        ck_assert_msg((size_t)back.len == len, "%s text %d: decoded to \"%s\"", name, nr,
                      back.data);
        ck_assert_msg(!len || !memcmp(back.data, text, len), "%s text %d: decoded to \"%s\"", name,
                      nr, back.data);
    }
    mlsi_text_free(&back);
    mlsi_ids_free(&ids);
}

START_TEST(ids_are_the_peers) {
    const char *name = names[_i];
    size_t size, inp_size, out_size;
    char *file = vocabulary(name, &size);
    char *inp = suite_file(name, ".inp", &inp_size), *out = suite_file(name, ".out", &out_size);
    if (!file || !inp || !out) {
        free(file), free(inp), free(out);
        TEST_SKIP("token ids of %s: no vocabulary or expectations", name);
    }
    mlsi_gguf *g;
    mlsi_tokenizer *t;
    ck_assert_msg(mlsi_gguf_open(&mlsi_alloc_process, name, file, size, &g) == MLSYS_OK, "%s",
                  mlsys_last_error());
    mlsys_status st = mlsi_tokenizer_from_gguf(&mlsi_alloc_process, g, &t);
    if (st == MLSYS_E_UNSUPPORTED && strstr(mlsys_last_error(), "made without"))
        TEST_SKIP("token ids of %s: %s", name, mlsys_last_error());
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    mlsi_gguf_close(g);
    free(file); /* a tokenizer stands on its own */
    int texts = 0;
    char *text = inp, *line = out;
    for (char *end; (end = strstr(text, separator)); text = end + strlen(separator)) {
        char *line_end = strchr(line, '\n');
        ck_assert_ptr_nonnull(line_end);
        *line_end = 0;
        check_text(t, name, texts++, text, (size_t)(end - text), line);
        line = line_end + 1;
    }
    ck_assert_int_ge(texts, 40);
    mlsi_tokenizer_free(t);
    free(inp), free(out);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tokens");
    TCase *tc = tcase_create("peers");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, ids_are_the_peers, 0, NAMES);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
