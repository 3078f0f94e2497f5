/* Loop-invariant motion: what moves out of a while loop, what stays because one condition is not met, and that both give the bits
 * of the interpreter for no turn, one and several. */
#include "ir/passes/passes.h"
#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static mlsi_graph graph;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* ---- cases ----------------------------------------------------------------------------------------- */

#define CARRIED                                                                                    \
    "  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[4]\n  %2 = input \"w\" : f32[4]\n"       \
    "  %3 = input \"k\" : i64[1]\n"

typedef struct hoist_case {
    const char *name;
    const char *body;    /* lines from %6 on; %5 is i + 1 */
    const char *outputs; /* three: x, w, k of the next turn */
    const char *cond;    /* lines from %6 on; %5 is i < 3; NULL: %5 is the condition */
    int moved;
    mlsi_op inside; /* the body still has it (moved 0), or not */
    int copies;     /* in the body, where values move */
} hoist_case;

#define STAYS "output \"\" %2\n  output \"\" %3\n"
static const hoist_case cases[] = {
    {"a product of what is handed on", "  %6 = mul(%2, %2) : f32[4]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %7\n  " STAYS, NULL, 1, MLSI_OP_MUL},
    {"the loop changes w", "  %6 = mul(%2, %2) : f32[4]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %7\n  output \"\" %7\n  output \"\" %3\n", NULL, 0, MLSI_OP_MUL},
    {"x and w change places", "  %6 = mul(%2, %2) : f32[4]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %2\n  output \"\" %7\n  output \"\" %3\n", NULL, 0, MLSI_OP_MUL},
    {"one operand changes", "  %6 = mul(%2, %1) : f32[4]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %7\n  " STAYS, NULL, 0, MLSI_OP_MUL},
    {"two values",
     "  %6 = mul(%2, %2) : f32[4]\n  %7 = exp(%2) : f32[4]\n  %8 = fma(%1, %6, %7) : f32[4]\n",
     "output \"\" %8\n  " STAYS, NULL, 2, MLSI_OP_EXP},
    {"a chain moves whole",
     "  %6 = mul(%2, %2) : f32[4]\n  %7 = exp(%6) : f32[4]\n  %8 = add(%1, %7) : f32[4]\n",
     "output \"\" %8\n  " STAYS, NULL, 1, MLSI_OP_MUL},
    {"a result that is the same in every turn", "  %6 = exp(%2) : f32[4]\n",
     "output \"\" %6\n  " STAYS, NULL, 1, MLSI_OP_EXP, 1},
    {"both results of a sort", /* and movement with its reader */
     "  %6, %7 = topk(%2) {axis=0, k=4} : f32[4], i64[4]\n  %8 = cast(%7) {dtype=f32} : f32[4]\n"
     "  %9 = mul(%1, %6) : f32[4]\n  %10 = add(%9, %8) : f32[4]\n",
     "output \"\" %10\n  " STAYS, NULL, 2, MLSI_OP_TOPK},
    {"an index may be out of range",
     "  %6 = gather(%2, %3) {axis=0} : f32[1]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %7\n  " STAYS, NULL, 0, MLSI_OP_GATHER},
    {"a random draw",
     "  %6 = reshape(%3) {shape=[]} : i64[]\n"
     "  %7 = random(%6, %6) {dtype=f32, shape=[4], kind=uniform} : f32[4]\n  %8 = add(%1, %7) : "
     "f32[4]\n",
     "output \"\" %8\n  " STAYS, NULL, 0, MLSI_OP_RANDOM},
    {"a barrier",
     "  %6 = barrier(%2) : f32[4]\n  %7 = exp(%6) : f32[4]\n  %8 = add(%1, %7) : f32[4]\n",
     "output \"\" %8\n  " STAYS, NULL, 0, MLSI_OP_EXP},
    {"movement alone", "  %6 = reverse(%2) {axes=[0]} : f32[4]\n  %7 = add(%1, %6) : f32[4]\n",
     "output \"\" %7\n  " STAYS, NULL, 0, MLSI_OP_REVERSE},
    {"movement stays, what it reads moves",
     "  %6 = exp(%2) : f32[4]\n  %7 = reverse(%6) {axes=[0]} : f32[4]\n  %8 = add(%1, %7) : "
     "f32[4]\n",
     "output \"\" %8\n  " STAYS, NULL, 1, MLSI_OP_EXP},
    {"a megabyte fits",
     "  %6 = broadcast(%2) {shape=[65536,4]} : f32[65536,4]\n  %7 = exp(%6) : f32[65536,4]\n"
     "  %8 = mul(%7, %1) : f32[65536,4]\n  %9 = reduce_max(%8) {axes=[0]} : f32[4]\n",
     "output \"\" %9\n  " STAYS, NULL, 1, MLSI_OP_EXP},
    {"more than that does not",
     "  %6 = broadcast(%2) {shape=[65537,4]} : f32[65537,4]\n  %7 = exp(%6) : f32[65537,4]\n"
     "  %8 = mul(%7, %1) : f32[65537,4]\n  %9 = reduce_max(%8) {axes=[0]} : f32[4]\n",
     "output \"\" %9\n  " STAYS, NULL, 0, MLSI_OP_EXP},
    {"what does not fit is computed outside where its result does",
     "  %6 = broadcast(%2) {shape=[65537,4]} : f32[65537,4]\n  %7 = exp(%6) : f32[65537,4]\n"
     "  %8 = reduce_max(%7) {axes=[0]} : f32[4]\n  %9 = mul(%8, %1) : f32[4]\n",
     "output \"\" %9\n  " STAYS, NULL, 1, MLSI_OP_EXP},
    {"the condition computes it", "  %6 = add(%1, %2) : f32[4]\n", "output \"\" %6\n  " STAYS,
     "  %6 = exp(%2) : f32[4]\n  %7 = reduce_sum(%6) {axes=[0]} : f32[]\n"
     "  %8 = const f32[] hex:0000c842\n  %9 = lt(%7, %8) : bool[]\n  %10 = and(%5, %9) : bool[]\n",
     1, MLSI_OP_EXP},
    {"the condition's value changes with x", "  %6 = add(%1, %2) : f32[4]\n",
     "output \"\" %6\n  " STAYS,
     "  %6 = exp(%1) : f32[4]\n  %7 = reduce_sum(%6) {axes=[0]} : f32[]\n"
     "  %8 = const f32[] hex:0000c842\n  %9 = lt(%7, %8) : bool[]\n  %10 = and(%5, %9) : bool[]\n",
     0, MLSI_OP_EXP},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

static int last_value(const char *lines, int none) {
    int v = none;
    for (const char *p = lines; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (sscanf(p, " %%%d", &v) == 1 && sscanf(p, " %%%*d, %%%d", &v) == 1) continue;
    return v;
}

static const char *text_of(const hoist_case *c) {
    static char text[8192];
    snprintf(text, sizeof text,
             "functions 3\nfunc 2 \"body\" {\n%s"
             "  %%4 = const i64[] hex:0100000000000000\n  %%5 = add(%%0, %%4) : i64[]\n%s"
             "  output \"\" %%5\n  %s}\nfunc 1 \"cond\" {\n%s"
             "  %%4 = const i64[] hex:0300000000000000\n  %%5 = lt(%%0, %%4) : bool[]\n%s"
             "  output \"\" %%%d\n}\nfunc 0 \"main\" {\n%s"
             "  %%4, %%5, %%6, %%7 = while(%%0, %%1, %%2, %%3) {fn1=1, fn2=2} : i64[], f32[4], "
             "f32[4], i64[1]\n  output \"x\" %%5\n  output \"w\" %%6\n}\n",
             CARRIED, c->body, c->outputs, CARRIED, c->cond ? c->cond : "", last_value(c->cond, 5),
             CARRIED);
    return text;
}

static const mlsi_node *find(const mlsi_graph *g, int32_t func, mlsi_op op) {
    for (int64_t i = 0; i < g->funcs[func].n_nodes; i++)
        if (g->funcs[func].nodes[i].op == op) return &g->funcs[func].nodes[i];
    return NULL;
}

static int count(const mlsi_graph *g, int32_t func, mlsi_op op) {
    int n = 0;
    for (int64_t i = 0; i < g->funcs[func].n_nodes; i++)
        n += g->funcs[func].nodes[i].op == op;
    return n;
}

static void inputs(int64_t start, int64_t index, mlsys_tensor *in) {
    const float x[4] = {1, -2.5f, 0.375f, -0.0f}, w[4] = {0.5f, 3, -1.25f, 0.1f};
    in[0] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &start);
    in[1] = pc_f32(&pc, 4, x);
    in[2] = pc_f32(&pc, 4, w);
    in[3] = pc_tensor(&pc, MLSYS_I64, 1, (const int64_t[]){1}, &index);
}

/* How many values moved; what the loop's functions still hold. */
START_TEST(what_moves) {
    const hoist_case *c = &cases[_i];
    mlsys_graph g = pc_parse(&pc, text_of(c));
    mlsys_program program = pc_compile(&pc, g, "fuse=never");
    mlsi_program *p;
    OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
    const mlsi_node *loop = find(&p->graph, 0, MLSI_OP_WHILE);
    const mlsi_attr_control *a = loop->attrs;
    bool inside =
        find(&p->graph, (int32_t)a->fn2, c->inside) || find(&p->graph, (int32_t)a->fn1, c->inside);
    ck_assert_msg(loop->n_in == 4 + c->moved, "%s: %d moved, expected %d", c->name, loop->n_in - 4,
                  c->moved);
    ck_assert_msg(inside == !c->moved, "%s: %s is %s the loop", c->name, mlsi_op_name(c->inside),
                  inside ? "inside" : "outside");
    /* What is handed on is not copied: in no turn, and nothing is kept for it. */
    if (c->moved)
        ck_assert_msg(count(&p->graph, (int32_t)a->fn2, MLSI_OP_COPY) == c->copies, "%s: copies",
                      c->name);
    mlsi_unpin(p);
    OK(mlsys_release(program));
    for (int64_t start = 0; start <= 3; start++) { /* 3, 2, 1 and no turns */
        mlsys_tensor in[4];
        inputs(start, 2, in);
        pc_compare(&pc, g, "numerics=exact", 4, in, 2);
        pc_compare(&pc, g, "numerics=exact fuse=always", 4, in, 2);
        pc_compare(&pc, g, "numerics=exact passes_off=hoist,dce,cse,cse2", 4, in, 2);
        pc_release(4, in);
    }
    OK(mlsys_release(g));
}
END_TEST

/* A loop without a turn does not meet the wrong index; one with a turn does. */
START_TEST(no_turn_no_error) {
    const hoist_case *c = &cases[8];
    ck_assert_int_eq(c->inside, MLSI_OP_GATHER);
    mlsys_graph g = pc_parse(&pc, text_of(c));
    mlsys_program p = pc_compile(&pc, g, "");
    for (int64_t start = 2; start <= 3; start++) {
        mlsys_tensor in[4], out[2] = {0};
        inputs(start, 99, in);
        mlsys_status st = mlsys_program_run(p, pc.stream, 4, in, 2, out);
        ck_assert_msg((st == MLSYS_OK) == (start == 3), "%s", mlsys_last_error());
        pc_release(4, in);
        pc_release(2, out);
    }
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* ---- several loops -------------------------------------------------------------------------------------- */

#define PAIR                                                                                       \
    "  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[4]\n  %2 = input \"w\" : f32[4]\n"
#define COND(n)                                                                                    \
    "func " #n " \"cond\" {\n" PAIR "  %3 = full() {dtype=i64, shape=[], ivalue=3} : i64[]\n"      \
    "  %4 = lt(%0, %3) : bool[]\n  output \"\" %4\n}\n"
#define STEP "  %3 = full() {dtype=i64, shape=[], ivalue=1} : i64[]\n  %4 = add(%0, %3) : i64[]\n"
#define MAIN "func 0 \"main\" {\n" PAIR

static void check_text(const char *text, int in_main) {
    mlsys_graph g = pc_parse(&pc, text);
    mlsys_program program = pc_compile(&pc, g, "fuse=never");
    mlsi_program *p;
    OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
    ck_assert_int_eq(count(&p->graph, 0, MLSI_OP_EXP), in_main);
    mlsi_unpin(p);
    OK(mlsys_release(program));
    for (int64_t start = 0; start <= 3; start++) {
        mlsys_tensor in[4];
        inputs(start, 0, in);
        pc_compare(&pc, g, "numerics=exact", 3, in, 1);
        pc_release(4, in);
    }
    OK(mlsys_release(g));
}

/* Out of the inner loop into the body of the outer one, and out of that. The inner one's functions keep their places. */
START_TEST(out_of_two_loops) {
    check_text("functions 5\nfunc 4 \"inner\" {\n" PAIR STEP "  %5 = exp(%2) : f32[4]\n"
               "  %6 = add(%1, %5) : f32[4]\n  output \"\" %4\n  output \"\" %6\n  output \"\" "
               "%2\n}\n" COND(
                   3) "func 2 \"outer\" {\n" PAIR STEP
                      "  %5, %6, %7 = while(%0, %1, %2) {fn1=3, fn2=4} : i64[], f32[4], f32[4]\n"
                      "  output \"\" %4\n  output \"\" %6\n  output \"\" %2\n}\n" COND(1) MAIN
               "  %3, %4, %5 = while(%0, %1, %2) {fn1=1, fn2=2} : i64[], f32[4], f32[4]\n"
               "  output \"\" %4\n}\n",
               1);
}
END_TEST

/* A body that two loops have stays as it is: what it would get more of must be the same for both. */
START_TEST(a_shared_body_stays) {
    check_text("functions 3\nfunc 2 \"body\" {\n" PAIR STEP "  %5 = exp(%2) : f32[4]\n"
               "  %6 = add(%1, %5) : f32[4]\n  output \"\" %4\n  output \"\" %6\n  output \"\" "
               "%2\n}\n" COND(1) MAIN
               "  %3, %4, %5 = while(%0, %1, %2) {fn1=1, fn2=2} : i64[], f32[4], f32[4]\n"
               "  %6, %7, %8 = while(%0, %2, %1) {fn1=1, fn2=2} : i64[], f32[4], f32[4]\n"
               "  %9 = add(%4, %7) : f32[4]\n  output \"\" %9\n}\n",
               0);
}
END_TEST

/* ---- the certificate ---------------------------------------------------------------------------------------- */

typedef struct moved_case {
    const char *old_body; /* lines from %5 on, then outputs of x and w */
    const char *value;    /* %3 of the new main */
    const char *loop;     /* operands of the new loop */
    const char *
        new_body; /* lines from %6 on (%3 is the moved value, %5 is i + 1), outputs of x, w and it */
    int limit;    /* of the new condition */
    const char *why; /* NULL: holds */
} moved_case;

#define OLD                                                                                        \
    "  %5 = exp(%2) : f32[4]\n  %6 = add(%1, %5) : f32[4]\n  output \"\" %4\n  output \"\" %6\n  " \
    "output \"\" %2\n"
#define NEW "  %6 = add(%1, %3) : f32[4]\n  output \"\" %5\n  output \"\" %6\n  output \"\" %2\n"
static const moved_case moved_cases[] = {
    {OLD, "exp(%2)", "%0, %1, %2, %3", NEW "  output \"\" %3\n", 3, NULL},
    {OLD, "exp2(%2)", "%0, %1, %2, %3", NEW "  output \"\" %3\n", 3, "body is another"},
    {OLD, "exp(%1)", "%0, %1, %2, %3", NEW "  output \"\" %3\n", 3, "body is another"},
    {OLD, "exp(%2)", "%0, %2, %2, %3", NEW "  output \"\" %3\n", 3, "an operand differs"},
    {OLD, "exp(%2)", "%0, %1, %2, %3", NEW "  output \"\" %6\n", 3, "changes in the loop"},
    {OLD, "exp(%2)", "%0, %1, %2, %3", NEW "  output \"\" %3\n", 2, "condition is another"},
    {OLD, "exp(%2)", "%0, %1, %2, %3",
     "  %6 = sub(%1, %3) : f32[4]\n  output \"\" %5\n  output \"\" %6\n  output \"\" %2\n  "
     "output \"\" %3\n",
     3, "body is another"},
    {"  %5 = exp(%2) : f32[4]\n  %6 = add(%1, %5) : f32[4]\n  output \"\" %4\n  output \"\" %6\n  "
     "output \"\" %6\n",
     "exp(%2)", "%0, %1, %2, %3",
     "  %6 = add(%1, %3) : f32[4]\n  output \"\" %5\n  output \"\" %6\n  output \"\" %6\n  "
     "output \"\" %3\n",
     3, "body is another"},
};
enum { N_MOVED = (int)(sizeof moved_cases / sizeof moved_cases[0]) };

/* Functions: 0 main before, 1 main after, 2 and 3 the old loop's, 4 and 5 the new one's. */
static void parse_moved(const moved_case *c) {
    char text[8192];
    snprintf(
        text, sizeof text,
        "mlsys-ir 1\nfunctions 6\nfunc 5 \"body\" {\n%s"
        "  %%3 = input \"h\" : f32[4]\n  %%4 = full() {dtype=i64, shape=[], ivalue=1} : i64[]\n"
        "  %%5 = add(%%0, %%4) : i64[]\n%s}\nfunc 4 \"cond\" {\n%s"
        "  %%3 = input \"h\" : f32[4]\n  %%4 = full() {dtype=i64, shape=[], ivalue=%d} : i64[]\n"
        "  %%5 = lt(%%0, %%4) : bool[]\n  output \"\" %%5\n}\nfunc 3 \"body\" {\n%s%s%s}\n%s"
        "func 1 \"main\" {\n%s  %%3 = %s : f32[4]\n"
        "  %%4, %%5, %%6, %%7 = while(%s) {fn1=4, fn2=5} : i64[], f32[4], f32[4], f32[4]\n"
        "  output \"\" %%5\n}\nfunc 0 \"main\" {\n%s"
        "  %%3, %%4, %%5 = while(%%0, %%1, %%2) {fn1=2, fn2=3} : i64[], f32[4], f32[4]\n"
        "  output \"\" %%4\n}\n",
        PAIR, c->new_body, PAIR, c->limit, PAIR, STEP, c->old_body, COND(2), PAIR, c->value,
        c->loop, PAIR);
    OK(mlsi_graph_init(&graph, pc.ctx));
    mlsys_status st = mlsi_graph_parse(&graph, pc.device, text);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

static void run_main(int32_t func, float *out) {
    int64_t zero = 0;
    const float x[4] = {1, -2.5f, 0.375f, -0.0f}, w[4] = {0.5f, 3, -1.25f, 0.1f};
    mlsi_layout s, l;
    OK(mlsi_type_layout(&graph.symbols, mlsi_type_of(&graph, func, 0), NULL, &s));
    OK(mlsi_type_layout(&graph.symbols, mlsi_type_of(&graph, func, 1), NULL, &l));
    mlsi_view in[3] = {mlsi_view_of(&zero, &s), mlsi_view_of((void *)(uintptr_t)x, &l),
                       mlsi_view_of((void *)(uintptr_t)w, &l)};
    mlsi_view view = mlsi_view_of(out, &l);
    OK(mlsi_interpret(&graph, func, 3, in, 1, &view));
}

/* What holds gives the same bits, and what is refused would be wrong if it were believed. */
START_TEST(each_condition_of_the_certificate) {
    const moved_case *m = &moved_cases[_i];
    mlsi_certificate c;
    float a[4], b[4];
    parse_moved(m);
    OK(mlsi_graph_verify(&graph));
    mlsi_certificate_init(&c, &pc.ctx->alloc, "test", MLSI_EXACT, 0);
    for (int32_t v = 0; v < 3; v++)
        OK(mlsi_certificate_add(&c, v, v, MLSI_BY_INPUT, NULL));
    OK(mlsi_certificate_add(&c, 4, 5, MLSI_BY_MOVED, NULL));
    const mlsi_proof_claim claim = {&graph, 0, 1, 0, "test", MLSI_EXACT};
    mlsys_status st = mlsi_check_certificate(&claim, &c);
    if (m->why)
        ck_assert_msg(st == MLSYS_E_INTERNAL && strstr(mlsys_last_error(), m->why), "%d: %s", _i,
                      st == MLSYS_OK ? "accepted" : mlsys_last_error());
    else
        OK(st);
    run_main(0, a);
    run_main(1, b);
    ck_assert_msg(!memcmp(a, b, sizeof a) == !m->why, "case %d", _i);
    c.pairs[3].after = 6; /* another result */
    ck_assert_int_eq(mlsi_check_certificate(&claim, &c), MLSYS_E_INTERNAL);
    mlsi_certificate_free(&c);
    mlsi_graph_free(&graph);
}
END_TEST

int main(void) {
    Suite *s = suite_create("hoist");
    TCase *tc = tcase_create("hoist");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, what_moves, 0, N_CASES);
    tcase_add_test(tc, no_turn_no_error);
    tcase_add_test(tc, out_of_two_loops);
    tcase_add_test(tc, a_shared_body_stays);
    tcase_add_loop_test(tc, each_condition_of_the_certificate, 0, N_MOVED);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
