/* Every row of tests/op_cases.h as loops: the call is lowered to a nest, or to one per node where a composite's values
 * do not share loops, with fixed and with symbolic extents, and the loop interpreter must give the bits of the
 * reference interpreter: the same failures, too. */
#include "support/loop_call.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261205 };

/* Composites some of whose rows are several nests, for parts of them walk different rows. Control ops (call, if, while,
 * custom) have no loops and no rows; all others have loops. */
static const char *const several[] = {"adafactor_step", "muon_step", NULL};

START_TEST(loops_give_the_bits_of_the_reference) {
    const op_case *c = &op_cases[_i];
    uint64_t seed = SEED + (uint64_t)_i;
    kc_rng r = kc_seed(seed);
    mlsi_ctx *ctx = op_ctx_new();
    op_variant v;
    int ran = 0;
    printf("%s(%s) {%s}: seed %llu\n", c->op, c->operands, c->attrs, (unsigned long long)seed);
    for (int k = 0; op_case_variant(c, k, NULL, &v); k++) {
        for (int mode = 0; mode < LC_MODES; mode++) {
            lc_call *w = lc_lower(ctx, &v, mode);
            ck_assert_msg(!w->built || w->st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
            if (w->built) lc_compare(w, &v, &r, loop_part_interpret, NULL), ran++;
            lc_free(w);
            free(w);
        }
    }
    printf("%s: %d nests\n", c->op, ran);
    op_ctx_free(ctx);
}
END_TEST

static bool is_listed(const char *op) {
    for (int i = 0; several[i]; i++)
        if (!strcmp(several[i], op)) return true;
    return false;
}

/* An op that lost its rule, or whose values no longer share loops, must not pass node by node unseen. */
START_TEST(what_is_several_nests_is_listed) {
    static char first[MLSI_OP_COUNT][256], text[8192];
    mlsi_ctx *ctx = op_ctx_new();
    for (int i = 0; i < op_case_count; i++) {
        op_variant v;
        for (int k = 0; op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            for (int mode = 0; mode < LC_MODES; mode++) {
                lc_call *w = lc_lower(ctx, &v, mode);
                ck_assert_msg(!w->built || w->st == MLSYS_OK, "%s: %s", w->text,
                              mlsys_last_error());
                if (w->built && w->c.parts[0].node >= 0 && !first[v.op][0])
                    snprintf(first[v.op], sizeof first[v.op], "%.250s", w->text);
                lc_free(w);
                free(w);
            }
        }
    }
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        const char *name = mlsi_op_name((mlsi_op)op);
        size_t n = strlen(text);
        if (is_listed(name) != (first[op][0] != 0))
            snprintf(text + n, sizeof text - n, "\n%s %.250s",
                     first[op][0] ? "not in the list:" : "in the list, but one nest:",
                     first[op][0] ? first[op] : name);
    }
    op_ctx_free(ctx);
    ck_assert_msg(!text[0], "the list is wrong:%s", text);
}
END_TEST

/* An element of an operand. */
static bool loads(const mlsi_nest *n, int32_t value) {
    const mlsi_lx *x = &n->exprs[value];
    if (x->kind == MLSI_LX_LOAD) return n->buffers[x->ref].scope == MLSI_SCOPE_INPUT;
    for (int64_t i = 0; x->kind == MLSI_LX_LET && i < n->n_stmts; i++)
        if (n->stmts[i].kind == MLSI_LS_LET && n->stmts[i].ref == x->ref)
            return loads(n, n->stmts[i].value);
    for (int i = 0; i < x->n_args; i++)
        if (loads(n, x->args[i])) return true;
    return false;
}

static bool refuses_data(const mlsi_nest *n) {
    for (int64_t i = 0; i < n->n_stmts; i++)
        if (n->stmts[i].kind == MLSI_LS_BIND && !n->stmts[i].clamp && loads(n, n->stmts[i].value))
            return true;
    return false;
}

/* Whose loops hold an index from data that must lie in a range, has the trait of it; passes rely on that. */
START_TEST(what_may_fail_says_so) {
    bool seen[MLSI_OP_COUNT] = {false};
    mlsi_ctx *ctx = op_ctx_new();
    for (int i = 0; i < op_case_count; i++) {
        op_variant v;
        for (int k = 0; op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            lc_call *w = lc_lower(ctx, &v, LC_FIXED);
            for (int p = 0; w->built && w->st == MLSYS_OK && p < w->c.n_parts; p++)
                seen[v.op] |= refuses_data(&w->c.parts[p].n);
            lc_free(w);
            free(w);
        }
    }
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        bool says = (mlsi_op_get((mlsi_op)op)->traits & MLSI_TRAIT_CHECKS_DATA) != 0;
        ck_assert_msg(says == seen[op], "%s", mlsi_op_name((mlsi_op)op));
    }
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("loops");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, what_is_several_nests_is_listed);
    tcase_add_test(tc, what_may_fail_says_so);
    tcase_add_loop_test(tc, loops_give_the_bits_of_the_reference, 0, op_case_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
