/* "Why not fused": each reason is given for a graph that has only it, every edge between two nodes has an answer, and what
 * compiling tells besides. */
#include "support/program_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static char report[1 << 20];

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static void tell(mlsys_program p, int what) {
    OK(mlsys_program_dump(p, what, report, sizeof report, NULL));
}

static void tell_text(const char *body, const char *settings) {
    char text[1 << 15];
    snprintf(text, sizeof text, "functions 1\nfunc 0 \"main\" {\n%s}\n", body);
    mlsys_graph g = pc_parse(&pc, text);
    mlsys_program p = pc_compile(&pc, g, settings);
    tell(p, MLSYS_DUMP_FUSION);
    mlsys_release(p);
    mlsys_release(g);
}

typedef struct why_case {
    const char *body, *line;
    const char *settings; /* NULL: fuse=always */
} why_case;

#define X "  %0 = input \"x\" : f32[4,8]\n"
static const why_case cases[] = {
    {X "  %1 = input \"w\" : f32[8,8]\n"
       "  %2 = exp(%0) : f32[4,8]\n"
       "  %3 = matmul(%2, %1) : f32[4,8]\n"
       "  output \"y\" %3\n",
     "%2 exp f32[4,8] -> %3 matmul f32[4,8]: matmul has no loops that a kernel can share\n", NULL},
    {X "  %1 = input \"w\" : f32[8,8]\n"
       "  %2 = matmul(%0, %1) : f32[4,8]\n"
       "  %3 = exp(%2) : f32[4,8]\n"
       "  output \"y\" %3\n",
     "%2 matmul f32[4,8] -> %3 exp f32[4,8]: matmul has no loops that a kernel can share\n", NULL},
    {"  %0 = input \"x\" : f64[8]\n"
     "  %1 = exp(%0) : f64[8]\n"
     "  %2 = tanh(%1) : f64[8]\n"
     "  output \"y\" %2\n",
     "%1 exp f64[8] -> %2 tanh f64[8]: tanh has a dtype that generated kernels do not compute\n",
     NULL},
    {X "  %1 = transpose(%0) {perm=[1, 0]} : f32[8,4]\n"
       "  %2 = exp(%1) : f32[8,4]\n"
       "  output \"y\" %2\n",
     "%1 transpose f32[8,4] -> %2 exp f32[8,4]: an operand of exp is not dense in memory\n", NULL},
    {"  %0 = input \"x\" : f32[]\n"
     "  %1 = exp(%0) : f32[]\n"
     "  %2 = tanh(%1) : f32[]\n"
     "  output \"y\" %2\n",
     "%1 exp f32[] -> %2 tanh f32[]: tanh is one element: there is nothing to walk\n", NULL},
    {X "  %1 = input \"b\" : f32[8]\n"
       "  %2 = exp(%1) : f32[8]\n"
       "  %3 = add(%0, %2) : f32[4,8]\n"
       "  output \"y\" %3\n",
     "%2 exp f32[8] -> %3 add f32[4,8]: shapes differ: exp does not walk the kernel's elements\n",
     NULL},
    {X "  %1 = exp(%0) : f32[4,8]\n"
       "  %2 = reduce_sum(%1) {axes=[0]} : f32[8]\n"
       "  output \"y\" %2\n",
     "%1 exp f32[4,8] -> %2 reduce_sum f32[8]: rows differ: reduce_sum does not go over the "
     "kernel's rows\n",
     NULL},
    {X "  %1 = softmax(%0) {axis=0} : f32[4,8]\n"
       "  %2 = exp(%1) : f32[4,8]\n"
       "  output \"y\" %2\n",
     "%1 softmax f32[4,8] -> %2 exp f32[4,8]: rows differ: softmax does not go over the kernel's "
     "rows\n",
     NULL},
    {X "  %1 = reshape(%0) {shape=[32]} : f32[32]\n"
       "  %2 = exp(%1) : f32[32]\n"
       "  output \"y\" %2\n",
     "%1 reshape f32[32] -> %2 exp f32[32]: reshape parts neighbours along the last axis\n", NULL},
    {X "  %1 = input \"w\" : f32[8,8]\n"
       "  %2 = exp(%0) : f32[4,8]\n"
       "  %3 = matmul(%2, %1) : f32[4,8]\n"
       "  %4 = add(%3, %2) : f32[4,8]\n"
       "  output \"y\" %4\n",
     "%2 exp f32[4,8] -> %4 add f32[4,8]: exp is read by another node before the kernel's place\n",
     NULL},
    {X "  %1 = input \"w\" : f32[8,8]\n"
       "  %2 = matmul(%0, %1) : f32[4,8]\n"
       "  %3 = reshape(%2) {shape=[8, 4]} : f32[8,4]\n"
       "  %4 = matmul(%3, %0) : f32[8,8]\n"
       "  output \"y\" %4\n",
     "%2 matmul f32[4,8] -> %3 reshape f32[8,4]: a view: nothing is computed between them\n", NULL},
    {"  %0 = input \"x\" : f32[8]\n"
     "  %1 = broadcast(%0) {shape=[4, 8]} : f32[4,8]\n"
     "  %2 = exp(%1) : f32[4,8]\n"
     "  output \"y\" %2\n",
     "%1 broadcast f32[4,8] -> %2 exp f32[4,8]: no other node would join them", NULL},
    {X "  %1 = exp(%0) : f32[4,8]\n"
       "  %2 = tanh(%1) : f32[4,8]\n"
       "  output \"y\" %2\n",
     "%1 exp f32[4,8] -> %2 tanh f32[4,8]: too little would be saved: less than 1048576 bytes\n",
     "fuse=auto"},
    {X "  %1 = exp(%0) : f32[4,8]\n"
       "  %2 = tanh(%1) : f32[4,8]\n"
       "  output \"y\" %2\n",
     "main: 1 kernels of several nodes\n  fused1, bytes 512 -> 256: %1 exp %2 tanh\nfused1: one "
     "kernel\n",
     NULL},
    {X "  %1 = exp(%0) : f32[4,8]\n"
       "  %2 = tanh(%1) : f32[4,8]\n"
       "  output \"y\" %2\n",
     "fusion did not run", "fuse=never"},
    {X "  %1 = exp(%0) : f32[4,8]\n"
       "  %2 = tanh(%1) : f32[4,8]\n"
       "  output \"y\" %2\n",
     "fusion did not run", "passes_off=fuse"},
};

START_TEST(each_reason) {
    const why_case *c = &cases[_i];
    tell_text(c->body, c->settings ? c->settings : "fuse=always");
    ck_assert_msg(strstr(report, c->line) != NULL, "wanted: %s\ngot: %s", c->line, report);
}
END_TEST

static void add(char *text, size_t cap, const char *format, ...) {
    va_list args;
    size_t n = strlen(text);
    va_start(args, format);
    vsnprintf(text + n, cap - n, format, args);
    va_end(args);
}

/* n nodes, each of the one before. */
static void chain(char *text, size_t cap, int first, int n, const char *type) {
    for (int i = first; i < first + n; i++)
        add(text, cap, "  %%%d = exp(%%%d) : %s\n", i, i - 1, type);
}

START_TEST(full_kernel) {
    char body[8192] = "  %0 = input \"x\" : f32[8]\n";
    chain(body, sizeof body, 1, 70, "f32[8]");
    add(body, sizeof body, "  output \"y\" %%70\n");
    tell_text(body, "fuse=always");
    ck_assert_msg(strstr(report, "%6 exp f32[8] -> %7 exp f32[8]: the kernel has as many nodes as "
                                 "it may\n") != NULL,
                  "%s", report);
    ck_assert(strstr(report, "main: 2 kernels") == report);
}
END_TEST

/* 520 nodes that are no candidates lie between the producer and its reader. */
START_TEST(far_apart) {
    static char body[32000];
    strcpy(body, "  %0 = input \"x\" : f32[2]\n  %1 = input \"z\" : f64[2]\n"
                 "  %2 = exp(%0) : f32[2]\n  %3 = exp(%1) : f64[2]\n");
    chain(body, sizeof body, 4, 519, "f64[2]");
    add(body, sizeof body, "  %%523 = tanh(%%2) : f32[2]\n");
    add(body, sizeof body, "  output \"y\" %%523\n  output \"z\" %%522\n");
    tell_text(body, "fuse=always");
    ck_assert_msg(strstr(report, "%2 exp f32[2] -> %523 tanh f32[2]: too many nodes stand between "
                                 "them\n") != NULL,
                  "%s", report);
}
END_TEST

START_TEST(too_many_operands) {
    char body[16384] = "";
    enum { N = 62 };
    for (int i = 0; i < N; i++)
        add(body, sizeof body, "  %%%d = input \"x%d\" : f32[2]\n", i, i);
    add(body, sizeof body, "  %%%d = add(%%0, %%1) : f32[2]\n", N);
    for (int i = 2; i < N; i++)
        add(body, sizeof body, "  %%%d = add(%%%d, %%%d) : f32[2]\n", N + i - 1, N + i - 2, i);
    add(body, sizeof body, "  output \"y\" %%%d\n", 2 * N - 2);
    tell_text(body, "fuse=always");
    ck_assert_msg(strstr(report, "%121 add f32[2] -> %122 add f32[2]: the kernel would have too "
                                 "many operands or results\n") != NULL,
                  "%s", report);
}
END_TEST

/* ---- all edges ------------------------------------------------------------------------------------------- */

/* A node's operands that nodes make: edges; of those, inside kernels: the calls' bodies have them. */
static int64_t edges_of(const mlsi_func *f) {
    int64_t n = 0;
    for (int64_t i = 0; i < f->n_nodes; i++)
        for (int k = 0; k < f->nodes[i].n_in; k++)
            n += f->nodes[i].in[k] >= 0 && f->values[f->nodes[i].in[k]].kind == MLSI_VALUE_NODE;
    return n;
}

static bool is_view(const char *op) {
    static const char *const views[] = {"broadcast", "slice", "reshape",
                                        "transpose", "iota",  "full"};
    size_t n = strcspn(op, " ");
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        if (strlen(views[i]) == n && !memcmp(op, views[i], n)) return true;
    return false;
}

/* Lines of edges; each has a sentence, and only views are left without having been asked for. */
static int64_t check_lines(uint64_t seed) {
    int64_t n = 0;
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
        char *to = strstr(line, " -> %"), *why = to ? strstr(to, "]: ") : NULL;
        if (strncmp(line, "  %", 3)) continue;
        ck_assert_msg(why && strlen(why) > 8 && !strchr(why, '$'), "seed %llu: %s",
                      (unsigned long long)seed, line);
        if (strstr(why, "a view: nothing"))
            ck_assert_msg(is_view(strchr(to + 5, ' ') + 1), "seed %llu: %s",
                          (unsigned long long)seed, line);
        n++;
    }
    return n;
}

/* Without kernels every edge is one line: nothing is left out, nothing told twice. */
START_TEST(every_edge_has_an_answer) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        mlsi_program *p;
        rg_options o = {
            .nodes = 4 + (int)(seed % 30), .inputs = 3, .outputs = 3, .symbols = seed & 1};
        OK(mlsi_graph_init(&g, pc.ctx));
        rg_graph(&r, &g, pc.device, &o);
        for (int always = 0; always < 2; always++) {
            mlsys_program program =
                pc_compile_inside(&pc, &g, always ? "fuse=always" : "fuse=auto");
            tell(program, MLSYS_DUMP_FUSION);
            bool none = strstr(report, ": 0 kernels") != NULL;
            int64_t told = check_lines(seed);
            OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
            /* The layout pass may have added copies, each one edge. */
            if (none) {
                const mlsi_func *f = &p->graph.funcs[0];
                int64_t copies = 0;
                for (int64_t i = 0; i < f->n_nodes; i++)
                    copies += f->nodes[i].op == MLSI_OP_COPY &&
                              f->values[f->nodes[i].in[0]].kind == MLSI_VALUE_NODE;
                ck_assert_msg(told <= edges_of(f) && told >= edges_of(f) - copies,
                              "seed %llu: %lld of %lld edges", (unsigned long long)seed,
                              (long long)told, (long long)edges_of(f));
            }
            mlsi_unpin(p);
            mlsys_release(program);
        }
        mlsi_graph_free(&g);
    }
}
END_TEST

/* ---- the other dumps --------------------------------------------------------------------------------- */

static mlsys_program softmax_program(const char *settings) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n" X "  %1 = input \"w\" : f32[8,8]\n"
                      "  %2 = matmul(%0, %1) : f32[4,8]\n"
                      "  %3 = exp(%2) : f32[4,8]\n"
                      "  %4 = softmax(%3) : f32[4,8]\n"
                      "  output \"y\" %4\n}\n");
    mlsys_program p = pc_compile(&pc, g, settings);
    mlsys_release(g);
    return p;
}

START_TEST(generated_kernels_are_named) {
    mlsys_program p = softmax_program("fuse=always");
    tell(p, MLSYS_DUMP_KERNELS);
    ck_assert_msg(strstr(report, " fused1 ") && !strstr(report, "reference"), "%s", report);
    tell(p, MLSYS_DUMP_COST);
    ck_assert_msg(strstr(report, "\"kernel\":\"fused1\"") != NULL, "%s", report);
    tell(p, MLSYS_DUMP_CODE);
    ck_assert_msg(!strncmp(report, "/* fused1 */", 12) && strstr(report, "int64_t mlsi_k1("), "%s",
                  report);
    tell(p, MLSYS_DUMP_PICTURE);
    ck_assert_msg(!strncmp(report, "<svg", 4) && strstr(report, "</svg>") &&
                      strstr(report, "exp %3 f32[4,8], kernel fused1") == NULL &&
                      strstr(report, ", kernel fused1</title>"),
                  "%s", report);
    mlsys_release(p);
}
END_TEST

/* Code that could not be made is told, with the sentence. */
START_TEST(blocks_in_place_of_code) {
    setenv("MLSYS_CC", "no-such-compiler", 1);
    mlsys_program p = softmax_program("fuse=always");
    unsetenv("MLSYS_CC");
    tell(p, MLSYS_DUMP_FUSION);
    ck_assert_msg(strstr(report,
                         "\nfused1: one kernel in blocks: generated code: MLSYS_CC names no "
                         "program: no-such-compiler\n") != NULL,
                  "%s", report);
    mlsys_release(p);
}
END_TEST

START_TEST(passes_are_told) {
    mlsys_program p = softmax_program("fuse=always passes_off=cse");
    tell(p, MLSYS_DUMP_PASSES);
    for (int i = 0; mlsi_pipeline[i].name; i++)
        ck_assert_msg(strstr(report, mlsi_pipeline[i].name) != NULL, "%s", report);
    ck_assert_msg(strstr(report, "cse               off\n") != NULL, "%s", report);
    ck_assert_msg(strstr(report, " 4 nodes  nodes over small") == NULL, "%s", report);
    ck_assert_msg(strstr(report, " 3 nodes  nodes over small") != NULL, "%s", report);
    ck_assert_msg(strstr(report, "generate") && strstr(report, "load") && strstr(report, "lower"),
                  "%s", report);
    mlsys_release(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("fuse_report");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, each_reason, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tc, full_kernel);
    tcase_add_test(tc, far_apart);
    tcase_add_test(tc, too_many_operands);
    tcase_add_test(tc, every_edge_has_an_answer);
    tcase_add_test(tc, generated_kernels_are_named);
    tcase_add_test(tc, blocks_in_place_of_code);
    tcase_add_test(tc, passes_are_told);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
