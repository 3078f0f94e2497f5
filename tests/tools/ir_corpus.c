/* Writes the committed fuzz corpus of the IR reader: ir_corpus FOLDER. One graph of each op in
 * tests/op_cases.h with small operands, and some random graphs.
 * Build: link with tests/support/{op_case,kernel_case,random_graph,random_tensors}.c and libmlsys.a. */
#include "support/op_case.h"
#include "support/random_graph.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void save(const mlsi_graph *g, const char *name) {
    char path[1024];
    mlsi_text t;
    snprintf(path, sizeof path, "%s/%s.ir", folder, name);
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    FILE *f = t.st == MLSYS_OK && t.len < 6000 ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(t.data, 1, (size_t)t.len, f);
        fclose(f);
    }
    mlsi_text_free(&t);
}

static int64_t elements(const op_variant *v) {
    int64_t sum = 0;
    for (int i = 0; i < v->n_in; i++) {
        int64_t n = 1;
        for (int d = 0; d < v->in[i].type.rank; d++)
            n *= v->in[i].type.dims[d];
        sum += v->in[i].absent ? 0 : n;
    }
    return sum;
}

/* The smallest call of an op that is not empty. */
static void save_op(mlsi_ctx *ctx, mlsi_op op) {
    op_variant best, v;
    int64_t least = 0;
    mlsi_graph g;
    for (int c = 0; c < op_case_count; c++)
        for (int i = 0; !strcmp(op_cases[c].op, mlsi_op_name(op)) &&
                        op_case_variant(&op_cases[c], i, NULL, &v);
             i++)
            if (!least || (elements(&v) > 3 && elements(&v) < least))
                best = v, least = elements(&v) + !elements(&v);
    if (!least || op_variant_graph(ctx, &best, &g) != MLSYS_OK) return;
    save(&g, mlsi_op_name(op));
    mlsi_graph_free(&g);
}

START_TEST(corpus) {
    mlsi_ctx *ctx = op_ctx_new();
    mlsys_device handle;
    mlsi_device *device;
    ck_assert_int_eq(mlsi_device_get(ctx, MLSYS_CPU, 0, &handle), MLSYS_OK);
    ck_assert_int_eq(mlsi_pin(handle, MLSYS_KIND_DEVICE, "device", &device), MLSYS_OK);
    for (int op = 0; op < MLSI_OP_COUNT; op++)
        save_op(ctx, (mlsi_op)op);
    for (uint64_t seed = 1; seed <= 24; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        char name[32];
        rg_options o = {.nodes = 4 + (int)seed % 8,
                        .inputs = 2,
                        .outputs = 2,
                        .symbols = seed & 1,
                        .control = seed % 3 == 0,
                        .donate = seed % 4 == 0};
        ck_assert_int_eq(mlsi_graph_init(&g, ctx), MLSYS_OK);
        rg_graph(&r, &g, device, &o);
        snprintf(name, sizeof name, "random%02d", (int)seed);
        save(&g, name);
        mlsi_graph_free(&g);
    }
    mlsi_unpin(device);
    mlsys_release(handle);
    op_ctx_free(ctx);
}
END_TEST

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    Suite *s = suite_create("corpus");
    TCase *tc = tcase_create("corpus");
    tcase_add_test(tc, corpus);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
