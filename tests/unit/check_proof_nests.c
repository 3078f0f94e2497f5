/* Nests against their functions: what the lowering makes is proved, and a nest with any number changed is refused or computes
 * the same bits. */
#include "ir/codegen/codegen.h"
#include "ir/loop/lower.h"
#include "ir/passes/passes.h"
#include "support/op_case.h"
#include "support/program_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static mlsi_graph graph;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static int64_t proved, uncovered;

static void judge(mlsi_graph *g, int32_t func, mlsi_nest *n, const char *what) {
    mlsi_verdict v;
    OK(mlsi_check_nest(g, func, n, &v));
    proved += v.answer == MLSI_PROVED;
    uncovered += v.answer == MLSI_NOT_COVERED;
    if (v.answer == MLSI_NOT_COVERED && getenv("VERBOSE")) printf("%s: %s\n", what, v.why);
    if (v.answer == MLSI_REFUSED) {
        mlsi_text t;
        mlsi_text_init(&t, &pc.ctx->alloc);
        mlsi_graph_print(g, &t);
        ck_abort_msg("%s: %s\n%s", what, v.why, t.data);
    }
}

static void lower_and_judge(mlsi_graph *g, int32_t func, const char *what) {
    mlsi_nest n;
    mlsys_status st = mlsi_lower_func(g, func, what, &n);
    if (st == MLSYS_OK) {
        judge(g, func, &n, what);
        if (!strstr(what, "own loops") && mlsi_codegen_schedule(&n) == MLSYS_OK)
            judge(g, func, &n, what);
    } else {
        REQUIRE(st == MLSYS_E_UNSUPPORTED);
    }
    mlsi_nest_free(&n);
}

START_TEST(every_op_is_proved_or_not_covered) {
    mlsi_symtab tab;
    mlsi_symtab_init(&tab, &pc.ctx->alloc);
    op_case_symbols(&tab);
    proved = uncovered = 0;
    for (int c = 0; c < op_case_count; c++) {
        op_variant v;
        char text[256];
        for (int i = 0; op_case_variant(&op_cases[c], i, &tab, &v); i++) {
            for (int symbolic = 0; symbolic < 3; symbolic++) {
                int32_t in[KC_OPERANDS], out[KC_OPERANDS];
                mlsi_graph g;
                mlsys_status st = symbolic
                                      ? op_variant_symbolic(pc.ctx, &v, symbolic == 2, &g, in, out)
                                      : op_variant_graph(pc.ctx, &v, &g);
                for (int o = 0; symbolic && o < v.n_out && st == MLSYS_OK; o++)
                    st = mlsi_build_output(&g, 0, NULL, out[o]);
                if (st == MLSYS_OK) {
                    mlsi_pass_ctx p = {.g = &g};
                    OK(mlsi_decompose_to_loops(&p, 0));
                    lower_and_judge(&g, 0, op_variant_text(&v, text, sizeof text));
                }
                mlsi_graph_free(&g);
            }
        }
    }
    mlsi_symtab_free(&tab);
    printf("%lld nests proved, %lld not covered\n", (long long)proved, (long long)uncovered);
    REQUIRE(proved > 1000);
}
END_TEST

/* ---- real groups ------------------------------------------------------------------------------------ */

START_TEST(fused_functions_are_proved) {
    proved = uncovered = 0;
    printf("seeds 1 to 200\n");
    for (uint64_t seed = 1; seed <= 200; seed++) {
        kc_rng r = kc_seed(seed);
        rg_options o = {.nodes = 40, .inputs = 3, .outputs = 3, .symbols = seed & 1};
        OK(mlsi_graph_init(&graph, pc.ctx));
        rg_graph(&r, &graph, pc.device, &o);
        mlsi_pass_ctx p = {.g = &graph,
                           .device = pc.device,
                           .backend = &mlsi_cpu_backend,
                           .isa_limit = (mlsi_isa)pc.ctx->isa_limit,
                           .numerics = MLSI_EXACT,
                           .fuse_least = 1};
        OK(mlsi_passes_run(&p, "", false));
        int64_t n_funcs = graph.n_funcs;
        for (int32_t f = 1; f < n_funcs; f++) {
            int32_t flat;
            char what[64];
            snprintf(what, sizeof what, "seed %llu function %d", (unsigned long long)seed, f);
            lower_and_judge(&graph, f, what);
            OK(mlsi_flatten_func(&graph, f, &flat));
            if (flat != f) lower_and_judge(&graph, flat, what);
            mlsi_graph_truncate(&graph, n_funcs);
        }
        mlsi_graph_free(&graph);
    }
    printf("%lld nests proved, %lld not covered\n", (long long)proved, (long long)uncovered);
    REQUIRE(proved > 50);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proof nests");
    TCase *tc = tcase_create("nests");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_op_is_proved_or_not_covered);
    tcase_add_test(tc, fused_functions_are_proved);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
