/* Chat templates of many models against Jinja itself: the same text, or an error on both sides. */
#include "model/chat_template.h"
#include "support/skip.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Two templates lean on what Jinja does only inside Python: a lazy list that cannot be written as
 * JSON, and text marked safe, which makes Jinja escape what is added to it. */
static const char *const known[] = {"llama-cpp-deepseek-r1.jinja",
                                    "meetkai-functionary-medium-v3.1.jinja"};
enum { KNOWN_DIFFERENCES = 6 };

static char folder[] = "/tmp/mlsys-chat-templates-XXXXXX";

/* From malloc, NUL-ended; NULL when the file is not there. */
static char *read_part(int n, const char *part, size_t *size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%d.%s", folder, n, part);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*size + 1);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(fread(p, 1, *size, f), *size);
    p[*size] = 0;
    fclose(f);
    return p;
}

static bool is_known(const char *name) {
    return !strcmp(name, known[0]) || !strcmp(name, known[1]);
}

/* 1: alike. */
static int compare(int n, const char *name) {
    size_t source_size, json_size, want_size = 0;
    char *source = read_part(n, "template", &source_size), *json = read_part(n, "json", &json_size);
    char *want = read_part(n, "want", &want_size);
    mlsi_chat_template *c;
    mlsi_text got;
    mlsi_text_init(&got, &mlsi_alloc_process);
    mlsys_status st =
        mlsi_chat_template_create(&mlsi_alloc_process, (mlsi_bytes){source, source_size},
                                  (mlsi_bytes){"<s>", 3}, (mlsi_bytes){"</s>", 4}, &c);
    if (st == MLSYS_OK) st = mlsi_chat_template_render(c, NULL, 0, true, json, &got);
    bool alike =
        want ? st == MLSYS_OK && (size_t)got.len == want_size && !memcmp(got.data, want, want_size)
             : st != MLSYS_OK;
    if (!alike && !is_known(name))
        ck_abort_msg("%s with %s:\n%s\ninstead of\n%s", name, json,
                     st == MLSYS_OK ? got.data : mlsys_last_error(), want ? want : "an error");
    if (st != MLSYS_OK && strncmp(mlsys_last_error(), "chat template: line ", 20))
        ck_abort_msg("%s: an error without its line: %s", name, mlsys_last_error());
    mlsi_chat_template_free(c);
    mlsi_text_free(&got);
    free(source), free(json), free(want);
    return alike;
}

START_TEST(texts_are_jinjas) {
    char command[8192];
    const char *suites = getenv("MLSYS_SUITES"), *model = getenv("MLSYS_MODEL_SMOLLM2");
    if (!suites || !*suites) TEST_SKIP("chat templates: no suites");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof command,
             "python3 tests/peer/chat_templates.py %s '%s/templates' "
             "'%s/tokenizer/ggml-vocab-qwen2.gguf' "
             "%s%s%s",
             folder, suites, suites, model ? "'" : "", model ? model : "", model ? "'" : "");
    int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        TEST_SKIP("chat templates: python3 with jinja2 and gguf is needed");
    ck_assert_int_eq(status, 0);
    int n = 0, alike = 0;
    size_t size;
    for (char *name; (name = read_part(n, "name", &size)); n++) {
        alike += compare(n, name);
        free(name);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    printf("%d of %d renderings alike\n", alike, n);
    ck_assert_int_ge(n, 600);
    ck_assert_int_ge(alike, n - KNOWN_DIFFERENCES);
    ck_assert_uint_eq(mlsi_alloc_process.live_bytes, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("chat_templates");
    TCase *tc = tcase_create("peers");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, texts_are_jinjas);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
