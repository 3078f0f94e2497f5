/* Every row of tests/op_cases_bad.h is refused, with its status and its sentence. */
#include "support/op_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(is_refused) {
    const op_bad *b = &op_bads[_i];
    mlsi_alloc alloc;
    mlsi_symtab tab;
    mlsi_graph g;
    op_variant v;
    mlsi_alloc_init(&alloc, NULL);
    mlsi_symtab_init(&tab, &alloc);
    op_case_symbols(&tab);
    op_bad_variant(b, &tab, &v);
    mlsi_ctx *ctx = op_ctx_new();
    mlsys_status st = op_variant_graph(ctx, &v, &g);
    const char *said = mlsys_last_error();
    ck_assert_msg(st != MLSYS_OK, "%s(%s) {%s} was accepted", b->op, b->operands, b->attrs);
    ck_assert_msg(st == b->status && strstr(said, b->text),
                  "%s(%s) {%s}: %s \"%s\", expected %s \"%s\"", b->op, b->operands, b->attrs,
                  mlsys_status_name(st), said, mlsys_status_name(b->status), b->text);
    ck_assert_msg(!strncmp(said, b->op, strlen(b->op)), "\"%s\" does not begin with the op", said);
    ck_assert_int_eq(g.funcs[0].n_nodes, 0);
    mlsi_graph_free(&g);
    op_ctx_free(ctx);
    mlsi_symtab_free(&tab);
}
END_TEST

START_TEST(every_op_has_two_rows) {
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        int rows = 0;
        for (int i = 0; i < op_bad_count; i++)
            rows += !strcmp(op_bads[i].op, mlsi_op_name((mlsi_op)op));
        ck_assert_msg(rows >= 2, "%s: %d rows OP_BAD", mlsi_op_name((mlsi_op)op), rows);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("op errors");
    TCase *tc = tcase_create("rows");
    tcase_add_test(tc, every_op_has_two_rows);
    tcase_add_loop_test(tc, is_refused, 0, op_bad_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
