/* Every row of tests/op_cases.h as generated C: lowered, scheduled, written, compiled and run, it must give the bits of
 * the reference interpreter, on every instruction set of this machine. Many rows share one module: a compiler's start costs
 * more than their code. */
#include "ir/codegen/codegen.h"
#include "support/loop_call.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SOME of a row's variants, or all of them with MLSYS_TEST_ALL (an hour). */
enum { SEED = 20261206, ROWS = 64, SOME = 3, MOST = 8192, MOST_PARTS = 24 };

typedef struct written {
    lc_call *w;
    op_variant v;
    int first; /* kernel of part 0 */
} written;

typedef struct kernel {
    mlsi_gen_fn fn;
    int64_t tasks;
} kernel;

static written calls[MOST];
static kernel kernels[4 * MOST];
static int n_calls, n_kernels;

static mlsys_status run_code(void *user, const loop_part *part, const int64_t *dims,
                             const mlsi_view *params, int n_params) {
    const written *call = user;
    const kernel *k = &kernels[call->first + (part - call->w->c.parts)];
    char *data[2 * MLSI_MAX_OPERANDS];
    int64_t tasks;
    uint64_t work;
    for (int i = 0; i < n_params; i++)
        data[i] = params[i].data;
    ck_assert_int_eq(mlsi_dim_eval(&part->n.tab, k->tasks, dims, &tasks), MLSYS_OK);
    ck_assert_int_eq(mlsi_codegen_work(&part->n, dims, &work), MLSYS_OK);
    void *memory = aligned_alloc(64, (work + 127) & ~(uint64_t)63);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xa5, work);
    mlsi_gen_args a = {.data = data, .dims = dims, .work = memory, .begin = 0, .end = tasks};
    int64_t r = k->fn(&a);
    free(memory);
    return r ? mlsi_fail(MLSYS_E_ARG, "bind %lld: %lld", (long long)r, (long long)a.error[0])
             : MLSYS_OK;
}

static mlsys_status write_part(const loop_case *c, loop_part *part, kernel *k, int number,
                               mlsi_text *text) {
    char name[32];
    snprintf(name, sizeof name, "k%d", number);
    MLSI_TRY(loop_part_schedule(c, part));
    MLSI_TRY(mlsi_codegen_tasks(&part->n, &k->tasks));
    return mlsi_codegen_c(&part->n, name, text);
}

/* The text of one call. Symbolic types that are not provable, and composites of very many parts, are let go. */
static void write_call(mlsi_ctx *ctx, const op_variant *v, int mode, mlsi_text *text) {
    lc_call *w = lc_lower(ctx, v, mode);
    ck_assert_msg(!w->built || w->st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
    if (!w->built || (w->c.n_parts > MOST_PARTS && !getenv("MLSYS_TEST_ALL"))) {
        lc_free(w);
        free(w);
        return;
    }
    ck_assert_int_lt(n_calls, MOST);
    calls[n_calls++] = (written){.w = w, .v = *v, .first = n_kernels};
    for (int64_t i = 0; i < w->c.n_parts; i++, n_kernels++) {
        ck_assert_int_lt(n_kernels, 4 * MOST);
        mlsys_status st = write_part(&w->c, &w->c.parts[i], &kernels[n_kernels], n_kernels, text);
        ck_assert_msg(st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
    }
}

static void run_calls(mlsi_ctx *ctx, const char *text, mlsi_isa isa, uint64_t seed) {
    mlsi_module *module;
    kc_rng r = kc_seed(seed);
    if (mlsi_cpu_backend.load(&ctx->alloc, text, isa, &module) != MLSYS_OK)
        ck_abort_msg("%s", mlsys_last_error());
    for (int i = 0; i < n_kernels; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d", i);
        kernels[i].fn = mlsi_cpu_backend.function(module, name);
        ck_assert_msg(kernels[i].fn != NULL, "%s: not in the module", name);
    }
    for (int i = 0; i < n_calls; i++)
        lc_compare(calls[i].w, &calls[i].v, &r, run_code, &calls[i]);
    mlsi_cpu_backend.unload(&ctx->alloc, module);
}

START_TEST(generated_code_gives_the_bits_of_the_reference) {
    mlsi_ctx *ctx = op_ctx_new();
    mlsi_text text;
    mlsi_text_init(&text, &ctx->alloc);
    n_calls = n_kernels = 0;
    kc_rng r = kc_seed(SEED + 1000 + (uint64_t)_i);
    bool all = getenv("MLSYS_TEST_ALL") != NULL;
    for (int i = _i * ROWS; i < (_i + 1) * ROWS && i < op_case_count; i++) {
        op_variant v;
        int variants = 0;
        while (op_case_variant(&op_cases[i], variants, NULL, &v))
            variants++;
        for (int k = 0; k < (all ? variants * LC_MODES : SOME); k++) {
            int variant = all ? k / LC_MODES : (int)kc_int(&r, 0, variants - 1);
            op_case_variant(&op_cases[i], variant, NULL, &v);
            write_call(ctx, &v, all ? k % LC_MODES : (int)kc_int(&r, 0, LC_MODES - 1), &text);
        }
    }
    for (int isa = MLSI_ISA_PORTABLE; isa <= ctx->isa_limit && n_calls; isa++)
        run_calls(ctx, text.data, (mlsi_isa)isa, SEED + (uint64_t)_i);
    printf("rows from %d: %d calls, %d kernels\n", _i * ROWS, n_calls, n_kernels);
    for (int i = 0; i < n_calls; i++) {
        lc_free(calls[i].w);
        free(calls[i].w);
    }
    mlsi_text_free(&text);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("generated");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, generated_code_gives_the_bits_of_the_reference, 0,
                        (op_case_count + ROWS - 1) / ROWS);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
