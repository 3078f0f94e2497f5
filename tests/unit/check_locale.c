/* A host whose locale has a decimal comma gets and gives the same text as any other. */
#include "support/skip.h"

#include <check.h>
#include <locale.h>
#include <mlsys/mlsys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());                            \
    } while (0)

/* A locale with a comma: one that is installed, or one made for this test. */
static const char *comma_locale(char *folder, size_t cap) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ru_RU.UTF-8"};
    char command[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i])) return names[i];
    snprintf(folder, cap, "/tmp/mlsys-locale-%d", (int)getpid());
    snprintf(command, sizeof command,
             "mkdir -p %s && localedef -c -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder,
             folder);
    if (system(command)) return NULL;
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8");
}

static const char *const text =
    "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2,4]\n  %1 = input \"g\" "
    ": f32[4]\n"
    "  %2 = rms_norm(%0, %1) {axis=1, eps=0.001953125} : f32[2,4]\n"
    "  %3 = full() {dtype=f32, shape=[], value=0.25} : f32[]\n  %4 = mul(%2, %3) : f32[2,4]\n"
    "  output \"\" %4\n}\n";

static void compare_texts(mlsys_ctx ctx, mlsys_device device) {
    char got[8192];
    mlsys_graph g;
    mlsys_program p;
    mlsys_config c;
    mlsys_value x, y;
    OK(mlsys_graph_parse(ctx, text, &g));
    OK(mlsys_graph_print(g, got, sizeof got, NULL));
    ck_assert_str_eq(got, text);
    OK(mlsys_graph_compile(g, device, NULL, &p));
    for (int what = MLSYS_DUMP_COST; what <= MLSYS_DUMP_PASSES; what++) {
        if (what == MLSYS_DUMP_FUSION || what == MLSYS_DUMP_CODE) continue; /* f32[2,4] */
        OK(mlsys_program_dump(p, what, got, sizeof got, NULL));
        for (const char *at = got; (at = strpbrk(at, "0123456789")) != NULL;
             at++) /* 0,5 is no JSON */
            ck_assert_msg(!(at[1] == ',' && at[2] >= '0' && at[2] <= '9'), "%.40s", at);
    }
    OK(mlsys_config_create(&c)); /* a number given as text */
    OK(mlsys_config_set_str(c, "dtype", "f32"));
    OK(mlsys_config_set_str(c, "value", "0.5"));
    OK(mlsys_config_set_i64s(c, "shape", 0, NULL));
    OK(mlsys_graph_op(g, "full", 0, NULL, c, 1, &x));
    OK(mlsys_graph_op(g, "neg", 1, &x, NULL, 1, &y));
    OK(mlsys_graph_print(g, got, sizeof got, NULL));
    ck_assert_ptr_nonnull(strstr(got, "value=0.5"));
    OK(mlsys_config_keys("generate", got, sizeof got, NULL));
    ck_assert_ptr_null(strstr(got, "0,01"));
    OK(mlsys_release(c));
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}

START_TEST(decimal_comma) {
    char folder[128] = "", command[256];
    mlsys_ctx ctx;
    mlsys_device device;
    char number[16];
    const char *name = comma_locale(folder, sizeof folder);
    if (!name) TEST_SKIP("decimal_comma: no locale with a comma, and none could be made");
    snprintf(number, sizeof number, "%.1f", 0.5);
    ck_assert_str_eq(number, "0,5"); /* the host sees its own */
    OK(mlsys_ctx_create(NULL, NULL, &ctx));
    OK(mlsys_device_get(ctx, MLSYS_CPU, 0, &device));
    compare_texts(ctx, device);
    OK(mlsys_release(device));
    OK(mlsys_release(ctx));
    snprintf(number, sizeof number, "%.1f", 0.5);
    ck_assert_str_eq(number, "0,5"); /* and still does */
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (folder[0] && system(command)) fprintf(stderr, "%s stays\n", folder);
}
END_TEST

int main(void) {
    Suite *s = suite_create("locale");
    TCase *tc = tcase_create("locale");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, decimal_comma);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
