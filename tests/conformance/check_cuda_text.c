/* Every row of tests/op_cases.h as generated CUDA C: lowered, scheduled for a GPU, written, compiled for the host by the shim
 * (tests/cuda_shim) and run there, it must give the bits of the reference interpreter, in whatever order the threads of a block
 * run between two barriers. Where NVRTC is found it must take the same text for sm_90 without a word. */
#include "ir/codegen/codegen.h"
#include "support/cuda_kernel.h"
#include "support/loop_call.h"
#include "support/skip.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SOME of a row's variants, or all of them with MLSYS_TEST_ALL. */
enum { SEED = 20261201, ROWS = 64, SOME = 2, MOST = 8192, MOST_PARTS = 12 };

typedef struct written {
    lc_call *w;
    op_variant v;
    int first; /* kernel of part 0 */
} written;

static written calls[MOST];
static cuda_kernel kernels[4 * MOST];
static int n_calls, n_kernels;
static cuda_shim_module *module;
static uint32_t runs;

static mlsys_status run_code(void *user, const loop_part *part, const int64_t *dims,
                             const mlsi_view *params, int n_params) {
    const written *call = user;
    const cuda_kernel *k = &kernels[call->first + (part - call->w->c.parts)];
    (void)n_params;
    runs++;
    return cuda_kernel_run(module, k, &part->n, dims, params, 1 + runs % 3,
                           (cuda_shim_order)(runs / 3 % CUDA_SHIM_ORDERS));
}

static mlsys_status write_part(const loop_case *c, loop_part *part, int number, mlsi_text *text) {
    char name[32];
    snprintf(name, sizeof name, "k%d", number);
    MLSI_TRY(loop_part_schedule_cuda(c, part));
    return mlsi_codegen_cuda(&part->n, name, text, &kernels[number].code);
}

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
        mlsys_status st = write_part(&w->c, &w->c.parts[i], n_kernels, text);
        ck_assert_msg(st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
    }
}

static void write_rows(mlsi_ctx *ctx, int rows, int some, mlsi_text *text) {
    const bool all = getenv("MLSYS_TEST_ALL") != NULL;
    kc_rng r = kc_seed(SEED + 1000 + (uint64_t)rows);
    n_calls = n_kernels = 0;
    for (int i = rows * ROWS; i < (rows + 1) * ROWS && i < op_case_count; i++) {
        op_variant v;
        int variants = 0;
        while (op_case_variant(&op_cases[i], variants, NULL, &v))
            variants++;
        for (int k = 0; k < (all ? variants * LC_MODES : some); k++) {
            int variant = all ? k / LC_MODES : (int)kc_int(&r, 0, variants - 1);
            op_case_variant(&op_cases[i], variant, NULL, &v);
            write_call(ctx, &v, all ? k % LC_MODES : (int)kc_int(&r, 0, LC_MODES - 1), text);
        }
    }
}

static void free_calls(void) {
    for (int i = 0; i < n_calls; i++) {
        lc_free(calls[i].w);
        free(calls[i].w);
    }
}

START_TEST(cuda_code_gives_the_bits_of_the_reference) {
    mlsi_ctx *ctx = op_ctx_new();
    mlsi_text text;
    mlsi_text_init(&text, &ctx->alloc);
    write_rows(ctx, _i, SOME, &text);
    if (n_kernels) {
        kc_rng r = kc_seed(SEED + (uint64_t)_i);
        char *source = cuda_kernel_source(text.data);
        module = cuda_shim_load(source);
        ck_assert_msg(module != NULL, "%.2000s", cuda_shim_error());
        for (int i = 0; i < n_kernels; i++) {
            char name[32];
            snprintf(name, sizeof name, "k%d", i);
            ck_assert_msg(cuda_kernel_find(module, name, &kernels[i]), "%s: not in the module",
                          name);
        }
        for (int i = 0; i < n_calls; i++)
            lc_compare(calls[i].w, &calls[i].v, &r, run_code, &calls[i]);
        cuda_shim_unload(module);
        free(source);
    }
    printf("rows from %d: %d calls, %d kernels\n", _i * ROWS, n_calls, n_kernels);
    free_calls();
    mlsi_text_free(&text);
    op_ctx_free(ctx);
}
END_TEST

START_TEST(nvrtc_takes_cuda_code_without_a_word) {
    mlsi_ctx *ctx = op_ctx_new();
    mlsi_text text;
    char log[2048];
    mlsi_text_init(&text, &ctx->alloc);
    write_rows(ctx, _i, 1, &text); /* machine code takes its time */
    int result = 1;
    if (n_kernels) {
        char *source = cuda_kernel_source(text.data);
        result = cuda_kernel_nvrtc(source, log, sizeof log);
        free(source);
    }
    free_calls();
    mlsi_text_free(&text);
    op_ctx_free(ctx);
    if (result < 0) TEST_SKIP("check_cuda_text: no NVRTC on this machine");
    ck_assert_msg(result == 1, "rows from %d: %s", _i * ROWS, log);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda text");
    const int batches = (op_case_count + ROWS - 1) / ROWS;
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, cuda_code_gives_the_bits_of_the_reference, 0, batches);
    suite_add_tcase(s, tc);
    TCase *rtc = tcase_create("nvrtc");
    tcase_set_timeout(rtc, 300);
    tcase_add_loop_test(rtc, nvrtc_takes_cuda_code_without_a_word, 0, batches);
    suite_add_tcase(s, rtc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
