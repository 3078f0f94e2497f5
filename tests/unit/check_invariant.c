/* Loop-invariant motion in nests: which lets leave their loops, near misses in which one condition is not met, and the same bits. */
#include "ir/loop/schedule.h"
#include "support/nest_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct motion_case {
    const char *name, *body; /* statements of the nest */
    const char *moved;       /* what the nest's text holds afterwards, as one piece */
    bool stays;              /* the text is as it was */
} motion_case;

#define FIX "add(in1[i_0], f32(1))"
static const motion_case cases[] = {
    {"a value of the row",
     "for i_0 < M {\n  vector j_1 < N {\n    let %a = " FIX "\n"
     "    out0[i_0,j_1] = mul(in0[i_0,j_1], %a)\n  }\n}\n",
     "for i_0 < M {\n  let %a = " FIX "\n  vector j_1 < N {\n", false},
    {"it varies along the row",
     "for i_0 < M {\n  vector j_1 < N {\n    let %a = add(in0[i_0,j_1], f32(1))\n"
     "    out0[i_0,j_1] = mul(in0[i_0,j_1], %a)\n  }\n}\n",
     NULL, true},
    {"a chain, in its order",
     "for i_0 < M {\n  for j_1 < N {\n    let %a = " FIX "\n    let %b = exp(%a)\n"
     "    out0[i_0,j_1] = mul(in0[i_0,j_1], %b)\n  }\n}\n",
     "for i_0 < M {\n  let %a = " FIX "\n  let %b = exp(%a)\n  for j_1 < N {\n", false},
    {"it reads a let that varies",
     "for i_0 < M {\n  for j_1 < N {\n    let %a = in0[i_0,j_1]\n    let %b = exp(%a)\n"
     "    out0[i_0,j_1] = mul(in1[i_0], %b)\n  }\n}\n",
     NULL, true},
    {"the loop may be empty",
     "for j_1 < N {\n  for i_0 < M {\n    let %a = in0[0,j_1]\n"
     "    out0[i_0,j_1] = mul(in0[i_0,j_1], %a)\n  }\n}\n",
     NULL, true},
    {"out of two loops, not out of the tasks",
     "parallel i_0 < M {\n  for j_1 < N {\n    acc @s: sum f32 of K\n    for k_2 < K {\n"
     "      let %a = " FIX "\n      add @s[k_2] mul(in2[k_2], %a)\n    }\n"
     "    out0[i_0,j_1] = @s\n  }\n}\n",
     "parallel i_0 < M {\n  let %a = " FIX "\n  for j_1 < N {\n", false},
    {"out of the inner one",
     "for i_0 < M {\n  for j_1 < N {\n    acc @s: sum f32 of K\n    for k_2 < K {\n"
     "      let %a = exp(in0[i_0,j_1])\n      add @s[k_2] mul(in2[k_2], %a)\n    }\n"
     "    out0[i_0,j_1] = @s\n  }\n}\n",
     "    let %a = exp(in0[i_0,j_1])\n    for k_2 < K {\n", false},
    {"tasks keep theirs",
     "parallel i_0 < N {\n  let %a = in2[0]\n  for j_1 < N {\n    out1[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
    {"a serial loop does not",
     "for i_0 < N {\n  let %a = in2[0]\n  for j_1 < N {\n    out1[i_0,j_1] = %a\n  }\n}\n",
     "let %a = in2[0]\nfor i_0 < N {\n", false},
    {"the loop writes what is read",
     "for i_0 < M {\n  local t: f32[1]\n  t[0] = in1[i_0]\n  for j_1 < N {\n    let %a = t[0]\n"
     "    out0[i_0,j_1] = %a\n    t[0] = add(%a, f32(1))\n  }\n}\n",
     NULL, true},
    {"the loop only reads it",
     "for i_0 < M {\n  local t: f32[1]\n  t[0] = in1[i_0]\n  for j_1 < N {\n    let %a = t[0]\n"
     "    out0[i_0,j_1] = %a\n  }\n}\n",
     "  t[0] = in1[i_0]\n  let %a = t[0]\n  for j_1 < N {\n", false},
    {"an inner loop gives the terms",
     "for i_0 < M {\n  for j_1 < N {\n    acc @s: sum f32 of K\n    for k_2 < K {\n"
     "      add @s[k_2] in2[k_2]\n    }\n    let %a = @s\n    out0[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
    {"terms of an accumulator from outside",
     "for i_0 < M {\n  acc @s: sum f32 of 1\n  for k_2 < 1 {\n    add @s[0] in2[0]\n    let %a = "
     "@s\n"
     "    for j_1 < N {\n      out0[i_0,j_1] = %a\n    }\n  }\n}\n",
     NULL, true},
    {"the terms are there before",
     "for i_0 < M {\n  acc @s: sum f32 of K\n  for k_2 < K {\n    add @s[k_2] in2[k_2]\n  }\n"
     "  for j_1 < N {\n    let %a = sqrt(@s)\n    out0[i_0,j_1] = %a\n  }\n}\n",
     "  let %a = sqrt(@s)\n  for j_1 < N {\n", false},
    {"a place from data",
     "for i_0 < M {\n  for j_1 < N {\n    bind r_2 < K = cast(in0[i_0,j_1]):i64 clamp\n"
     "    let %a = in2[r_2]\n    out0[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
    {"a random number",
     "for i_0 < M {\n  for j_1 < N {\n    let %a = random_uniform(i_0, index(0), index(1)):f32\n"
     "    out0[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
    {"behind a condition",
     "for i_0 < M {\n  for j_1 < N {\n    out0[i_0,j_1] = f32(2)\n    if 1 <= j_1 < N {\n"
     "      let %a = " FIX "\n      out0[i_0,j_1] = %a\n    }\n  }\n}\n",
     NULL, true},
    {"a guard that the loop moves",
     "for i_0 < M {\n  for j_1 < N {\n    let %a = guard(1 <= j_1 < N, in1[i_0], f32(0))\n"
     "    out0[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
    {"a guard that stands still",
     "for i_0 < M {\n  for j_1 < N {\n    let %a = guard(1 <= i_0 < M, in1[i_0-1], f32(0))\n"
     "    out0[i_0,j_1] = %a\n  }\n}\n",
     "  let %a = guard(1 <= i_0 < M, in1[i_0-1], f32(0))\n  for j_1 < N {\n", false},
    {"copies that are waited for in the loop",
     "for i_0 < M {\n  local t: f32[1]\n  copy t[0] = in1[i_0]\n  for j_1 < N {\n    wait\n"
     "    let %a = t[0]\n    out0[i_0,j_1] = %a\n  }\n}\n",
     NULL, true},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

static void parse(mlsi_nest *n, const char *text) {
    if (mlsi_nest_parse(n, &mlsi_alloc_process, text) != MLSYS_OK)
        ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

static void text_of(const mlsi_nest *n, char *out, size_t size) {
    mlsi_text t;
    mlsi_text_init(&t, n->alloc);
    mlsi_nest_print(n, &t);
    ck_assert_int_eq(t.st, MLSYS_OK);
    snprintf(out, size, "%s", t.data);
    mlsi_text_free(&t);
}

START_TEST(what_leaves_its_loop) {
    const motion_case *c = &cases[_i];
    char text[2048], before[2048], after[2048];
    mlsi_nest n, moved;
    bool second = strstr(c->body, "out1") != NULL;
    snprintf(text, sizeof text,
             "nest motion\nsymbol M in [0,40]\nsymbol N in [1,40]\nsymbol K in [1,600]\n"
             "input in0: f32[M,N]\ninput in1: f32[M]\ninput in2: f32[K]\noutput %s\n%s",
             second ? "out1: f32[N,N]" : "out0: f32[M,N]", c->body);
    parse(&n, text);
    parse(&moved, text);
    text_of(&n, before, sizeof before);
    ck_assert_int_eq(mlsi_nest_move_invariants(&moved), MLSYS_OK);
    ck_assert_int_eq(mlsi_nest_verify(&moved), MLSYS_OK);
    text_of(&moved, after, sizeof after);
    ck_assert_msg(!strcmp(before, after) == c->stays, "%s:\n%s", c->name, after);
    if (c->moved) ck_assert_msg(strstr(after, c->moved) != NULL, "%s:\n%s", c->name, after);
    for (int b = 0; b < NC_BINDINGS; b++) {
        nest_run want = nc_run(&n, nc_bindings[b], 3), got = nc_run(&moved, nc_bindings[b], 3);
        const char *d = nc_difference(&want, &got);
        ck_assert_msg(!d, "%s: binding %d: %s", c->name, b, d);
        nc_run_free(&want);
        nc_run_free(&got);
    }
    mlsi_nest_free(&n);
    mlsi_nest_free(&moved);
}
END_TEST

int main(void) {
    Suite *s = suite_create("invariant");
    TCase *tc = tcase_create("invariant");
    tcase_add_loop_test(tc, what_leaves_its_loop, 0, N_CASES);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
