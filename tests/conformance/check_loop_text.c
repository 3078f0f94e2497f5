/* Nests of every row of tests/op_cases.h: they verify, their subscripts and the positions of their reductions are proved, and
 * their text reads back to the same text. Which outputs are written by data, so that no store is proved to write each
 * element once, is listed. */
#include "ir/loop/prove.h"
#include "support/loop_case.h"
#include "support/op_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const by_data[] = {"sort", "topk", NULL};

static bool is_listed(const char *op) {
    for (int i = 0; by_data[i]; i++)
        if (!strcmp(by_data[i], op)) return true;
    return false;
}

static void check_text(const mlsi_nest *n, const char *what) {
    mlsi_text first, second;
    mlsi_nest back;
    mlsi_text_init(&first, n->alloc);
    mlsi_text_init(&second, n->alloc);
    mlsi_nest_print(n, &first);
    ck_assert_msg(first.st == MLSYS_OK, "%s: print: %s", what, mlsys_last_error());
    mlsys_status st = mlsi_nest_parse(&back, n->alloc, first.data);
    if (st != MLSYS_OK) ck_abort_msg("%s: %s\n%s", what, mlsys_last_error(), first.data);
    mlsi_nest_print(&back, &second);
    ck_assert_msg(second.st == MLSYS_OK, "%s: print again: %s", what, mlsys_last_error());
    if (strcmp(first.data, second.data))
        ck_abort_msg("%s:\n%s\nreads back as\n%s", what, first.data, second.data);
    mlsi_nest_free(&back);
    mlsi_text_free(&first);
    mlsi_text_free(&second);
}

static int unproved_outputs;

static void check_nest(const mlsi_nest *n, const char *what) {
    if (mlsi_nest_verify(n) != MLSYS_OK) ck_abort_msg("%s: %s", what, mlsys_last_error());
    if (mlsi_nest_prove(n, MLSI_PROVE_BOUNDS | MLSI_PROVE_POSITIONS) != MLSYS_OK)
        ck_abort_msg("%s: %s", what, mlsys_last_error());
    unproved_outputs += mlsi_nest_prove(n, MLSI_PROVE_OUTPUTS) != MLSYS_OK;
    check_text(n, what);
}

static int check_variant(mlsi_ctx *ctx, const op_variant *v, int mode) {
    int32_t in[KC_OPERANDS], out[KC_OPERANDS];
    mlsi_graph g;
    char what[600];
    int nests = 0;
    snprintf(what + strlen(op_variant_text(v, what, 560)), 30, ", mode %d", mode);
    mlsys_status st =
        mode ? op_variant_symbolic(ctx, v, mode == 1, &g, in, out) : op_variant_graph(ctx, v, &g);
    for (int o = 0; mode && o < v->n_out && st == MLSYS_OK; o++)
        st = mlsi_build_output(&g, 0, NULL, out[o]);
    if (st == MLSYS_OK) {
        loop_case c;
        st = loop_case_lower(&g, mlsi_op_name(v->op), &c);
        for (int i = 0; i < c.n_parts && st == MLSYS_OK; i++, nests++)
            check_nest(&c.parts[i].n, what);
        loop_case_free(&c);
    }
    mlsi_graph_free(&g);
    return nests;
}

START_TEST(nests_of_ops) {
    const op_case *c = &op_cases[_i];
    mlsi_ctx *ctx = op_ctx_new();
    op_variant v;
    int nests = 0;
    unproved_outputs = 0;
    for (int k = 0; op_case_variant(c, k, NULL, &v); k++)
        for (int mode = 0; mode < 3; mode++)
            nests += check_variant(ctx, &v, mode);
    printf("%s(%s) {%s}: %d nests\n", c->op, c->operands, c->attrs, nests);
    ck_assert_int_gt(nests, 0);
    if (unproved_outputs && !is_listed(c->op))
        ck_abort_msg("%s: outputs of %d nests are not proved to be written once", c->op,
                     unproved_outputs);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("text and proofs of loops");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, nests_of_ops, 0, op_case_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
