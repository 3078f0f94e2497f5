/* Symbolic dims at their limits: what is refused, with which sentence, and what is large and works. */
#include "support/dim_table.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

static void must_fail(mlsys_status got, mlsys_status want, const char *sentence) {
    ck_assert_msg(got == want && strstr(mlsys_last_error(), sentence),
                  "%s \"%s\", expected %s \"%s\"", mlsys_status_name(got), mlsys_last_error(),
                  mlsys_status_name(want), sentence);
}

START_TEST(overflow_is_an_error) {
    int64_t a, big, d, binding[N_SYMBOLS] = {12, 5, 9}, lo, hi;
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "A", 0, 12, 1, &a), MLSYS_OK);
    must_fail(mlsi_dim_op(&tab, '*', INT64_MAX, 2, &d), MLSYS_E_SHAPE, "overflow");
    must_fail(mlsi_dim_op(&tab, '+', INT64_MAX, 1, &d), MLSYS_E_SHAPE, "overflow");
    ck_assert_int_eq(mlsi_dim_op(&tab, '-', 0, INT64_MAX, &d), MLSYS_OK);
    must_fail(mlsi_dim_op(&tab, '-', d, 1, &d), MLSYS_E_SHAPE, "overflow"); /* INT64_MIN */
    must_fail(mlsi_dim_op(&tab, '-', d, 2, &d), MLSYS_E_SHAPE, "overflow");
    ck_assert_int_eq(mlsi_dim_op(&tab, '/', d, 3, &big), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_eval(&tab, big, binding, &d), MLSYS_OK);
    ck_assert(d == -3074457345618258603);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', a, INT64_MAX / 4, &big), MLSYS_OK);
    mlsi_dim_range(&tab, big, &lo, &hi);
    ck_assert(lo == 0 && hi == INT64_MAX);
    must_fail(mlsi_dim_eval(&tab, big, binding, &d), MLSYS_E_SHAPE, "overflow");
    must_fail(mlsi_dim_op(&tab, '*', big, 8, &d), MLSYS_E_SHAPE, "overflow");
    binding[0] = 4;
    ck_assert_int_eq(mlsi_dim_eval(&tab, big, binding, &d), MLSYS_OK);
    /* A quotient of what may overflow is not folded by its saturated range. */
    ck_assert_int_eq(mlsi_dim_op(&tab, '-', big, INT64_MAX / 2, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '/', d, INT64_MAX, &d), MLSYS_OK);
    ck_assert(mlsi_dim_is_code(&tab, d));
    binding[0] = 1;
    ck_assert_int_eq(mlsi_dim_eval(&tab, d, binding, &lo), MLSYS_OK);
    ck_assert_int_eq(lo, -1);
}
END_TEST

START_TEST(large_expressions_are_refused) {
    int64_t a, b, c, d, e;
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "A", 0, 12, 1, &a), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "B", 1, 5, 1, &b), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', a, a, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', d, d, &d), MLSYS_OK);
    must_fail(mlsi_dim_op(&tab, '*', d, a, &d), MLSYS_E_UNSUPPORTED, "factors");
    /* Nested divisions double the written text: refused before that hurts. */
    int nested = 0;
    for (d = a; nested < 64; nested++) {
        if (mlsi_dim_op(&tab, '/', d, 5, &c) != MLSYS_OK) break;
        ck_assert_int_eq(mlsi_dim_op(&tab, '*', c, c, &c), MLSYS_OK);
        ck_assert_int_eq(mlsi_dim_op(&tab, '+', c, b, &d), MLSYS_OK);
    }
    ck_assert_int_lt(nested, MLSI_DIM_NEST + 1);
    ck_assert_int_eq(mlsys_last_status(), MLSYS_E_UNSUPPORTED);
    d = a;
    for (nested = 0; nested < 64; nested++) {
        if (mlsi_dim_op(&tab, '+', d, b, &e) != MLSYS_OK ||
            mlsi_dim_op(&tab, '/', e, 2, &d) != MLSYS_OK)
            break;
    }
    ck_assert_int_eq(nested, MLSI_DIM_NEST);
    const char *p = text(&tab, d);
    char copy[512];
    strcpy(copy, p);
    p = copy;
    ck_assert_int_eq(mlsi_dim_parse(&tab, &p, &e), MLSYS_OK);
    ck_assert(e == d);
}
END_TEST

START_TEST(long_texts_are_whole) {
    char name[64], wide[64];
    int64_t s[4], t[4], x = 1, y, d;
    memset(name, 'n', sizeof name);
    name[63] = 0;
    for (int i = 0; i < 4; i++) {
        name[62] = (char)('a' + i);
        ck_assert_int_eq(mlsi_dim_symbol(&tab, name, 0, 9, 1, &s[i]), MLSYS_OK);
        strcpy(wide, name);
        wide[0] = 'w';
        ck_assert_int_eq(mlsi_dim_symbol(&tab, wide, 0, 9, 1, &t[i]), MLSYS_OK);
    }
    ck_assert_int_eq(mlsi_dim_op(&tab, '+', s[0], s[1], &x), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '+', s[2], s[3], &y), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', x, y, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '+', t[0], t[1], &x), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', d, x, &d), MLSYS_OK);
    mlsi_text printed;
    mlsi_text_init(&printed, &mlsi_alloc_process);
    mlsi_dim_print(&tab, d, &printed);
    ck_assert_int_gt(printed.len, 8 * 3 * 63);
    const char *p = printed.data;
    ck_assert_int_eq(mlsi_dim_parse(&tab, &p, &x), MLSYS_OK);
    ck_assert(x == d && !*p);
    mlsi_text_free(&printed);
    char cut[40]; /* the buffer form cuts and ends */
    mlsi_dim_text(&tab, d, cut, sizeof cut);
    ck_assert_uint_eq(strlen(cut), sizeof cut - 1);
}
END_TEST

START_TEST(wrong_arguments) {
    int64_t d, a;
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "A", 0, 12, 1, &a), MLSYS_OK);
    must_fail(mlsi_dim_symbol(&tab, "A", 0, 13, 1, &d), MLSYS_E_ARG,
              "differs from the earlier [0, 12]");
    must_fail(mlsi_dim_symbol(&tab, "", 0, 1, 1, &d), MLSYS_E_ARG, "not a name");
    must_fail(mlsi_dim_symbol(&tab, NULL, 0, 1, 1, &d), MLSYS_E_ARG, "not a name");
    must_fail(mlsi_dim_symbol(&tab, "2L", 0, 1, 1, &d), MLSYS_E_ARG, "not a name");
    must_fail(mlsi_dim_symbol(&tab, "a-b", 0, 1, 1, &d), MLSYS_E_ARG, "\"a-b\" is not a name");
    must_fail(mlsi_dim_symbol(&tab, "X", -1, 1, 1, &d), MLSYS_E_ARG, "range [-1, 1]");
    must_fail(mlsi_dim_symbol(&tab, "X", 3, 2, 1, &d), MLSYS_E_ARG, "holds no extent");
    must_fail(mlsi_dim_symbol(&tab, "X", 5, 7, 4, &d), MLSYS_E_ARG, "divisor 4 holds no extent");
    must_fail(mlsi_dim_symbol(&tab, "X", 0, 7, 0, &d), MLSYS_E_ARG, "divisor 0");
    must_fail(mlsi_dim_op(&tab, '^', 1, 2, &d), MLSYS_E_ARG, "operator 94");
    must_fail(mlsi_dim_op(&tab, '/', 4, 0, &d), MLSYS_E_SHAPE, "divisor 0 may be 0");
    must_fail(mlsi_dim_op(&tab, '%', 4, a, &d), MLSYS_E_SHAPE, "divisor A may be 0");
    must_fail(mlsi_dim_op(&tab, '+', MLSI_DIM_CODE - 999, 1, &d), MLSYS_E_ARG, "not a dim");
    must_fail(mlsi_dim_op(&tab, '+', 1, -1, &d), MLSYS_E_ARG, "-1 is not a dim");
    ck_assert(!mlsi_dim_valid(&tab, INT64_MIN) && !mlsi_dim_valid(&tab, -1) &&
              mlsi_dim_valid(&tab, 0));
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "ONE", 4, 7, 4, &d), MLSYS_OK);
    ck_assert_int_eq(d, 4); /* one value: a constant */
}
END_TEST

START_TEST(malformed_text) {
    static const char *const bad[] = {"",
                                      "+",
                                      "A+",
                                      "(A",
                                      "A*",
                                      "A/",
                                      "A/0",
                                      "A/A",
                                      "Z",
                                      "A-*B",
                                      "2**A",
                                      "()",
                                      "A B+",
                                      "--A",
                                      "A%",
                                      "9999999999999999999999",
                                      "9223372036854775808",
                                      "9223372036854775807*2",
                                      "A/(0)"};
    char deep[256];
    int64_t d;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *p = bad[i];
        mlsys_status st = mlsi_dim_parse(&tab, &p, &d);
        if (st == MLSYS_OK) ck_assert_msg(*p, "\"%s\" was read", bad[i]);
        ck_assert_int_eq(p >= bad[i] && p <= bad[i] + strlen(bad[i]), 1);
    }
    memset(deep, '(', sizeof deep);
    deep[200] = '1';
    memset(deep + 201, ')', 50);
    deep[251] = 0;
    const char *p = deep;
    must_fail(mlsi_dim_parse(&tab, &p, &d), MLSYS_E_FORMAT, "nested deeper");
}
END_TEST

START_TEST(many_expressions) {
    int64_t a, d, first = 0;
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "A", 0, 12, 1, &a), MLSYS_OK);
    for (int64_t i = 1; i <= 100000; i++) {
        REQUIRE(mlsi_dim_op(&tab, '+', a, i, &d) == MLSYS_OK);
        if (i == 1) first = d;
    }
    ck_assert_int_eq(mlsi_dim_op(&tab, '+', a, 1, &d), MLSYS_OK);
    ck_assert(d == first);
}
END_TEST

int main(void) {
    Suite *s = suite_create("dims at their limits");
    TCase *tc = tcase_create("dims");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, overflow_is_an_error);
    tcase_add_test(tc, large_expressions_are_refused);
    tcase_add_test(tc, long_texts_are_whole);
    tcase_add_test(tc, wrong_arguments);
    tcase_add_test(tc, malformed_text);
    tcase_add_test(tc, many_expressions);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
