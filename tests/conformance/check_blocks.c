/* Every row of tests/op_cases.h as block code: lowered, scheduled, written and run, it must give the bits of the reference
 * interpreter, on every instruction set of this machine. What block code cannot say is counted by reason, and an op whose
 * loops it can say must not be among it. */
#include "ir/codegen/codegen.h"
#include "support/loop_call.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261130, ROWS = 64, SOME = 6 };

typedef struct kernel {
    mlsi_block_code code;
    int64_t tasks;
} kernel;

typedef struct written {
    lc_call *w;
    kernel *kernels; /* per part */
} written;

static mlsys_status run_blocks(void *user, const loop_part *part, const int64_t *dims,
                               const mlsi_view *params, int n_params) {
    const written *call = user;
    const kernel *k = &call->kernels[part - call->w->c.parts];
    char *data[2 * MLSI_MAX_OPERANDS];
    int64_t tasks, r = 0;
    uint64_t local;
    for (int i = 0; i < n_params; i++)
        data[i] = params[i].data;
    ck_assert_int_eq(mlsi_dim_eval(&part->n.tab, k->tasks, dims, &tasks), MLSYS_OK);
    ck_assert_int_eq(mlsi_codegen_work(&part->n, dims, &local), MLSYS_OK);
    uint64_t bytes = (k->code.state_bytes + local + 127) & ~(uint64_t)63;
    char *memory = aligned_alloc(64, bytes);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xa5, bytes);
    mlsi_gen_args a = {.data = data, .dims = dims, .work = memory};
    for (int64_t half = 0; half < 2 && !r; half++) { /* as two workers */
        a.begin = half ? tasks / 2 : 0;
        a.end = half ? tasks : tasks / 2;
        r = mlsi_cpu_backend.run_blocks(&k->code, &a);
    }
    for (uint64_t i = k->code.state_bytes + local; i < bytes; i++)
        ck_assert_msg(memory[i] == (char)0xa5, "%s: work memory is left", call->w->text);
    free(memory);
    return r ? mlsi_fail(MLSYS_E_ARG, "bind %lld: %lld", (long long)r, (long long)a.error[0])
             : MLSYS_OK;
}

/* False: block code cannot say it, and why. */
static bool write_part(const lc_call *w, loop_part *part, kernel *k, mlsi_isa isa, char *why) {
    mlsys_status st = loop_part_schedule(&w->c, part);
    if (st == MLSYS_OK) st = mlsi_codegen_tasks(&part->n, &k->tasks);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
    st = mlsi_codegen_blocks(&part->n, &k->code);
    if (st == MLSYS_OK) st = mlsi_cpu_backend.bind_blocks(&k->code, isa);
    ck_assert_msg(st == MLSYS_OK || st == MLSYS_E_UNSUPPORTED, "%s: %s", w->text,
                  mlsys_last_error());
    if (st != MLSYS_OK) snprintf(why, 256, "%s", mlsys_last_error());
    return st == MLSYS_OK;
}

static int n_run, n_refused;

/* Ops with dtypes, layouts or loops of their own that block code does not say (docs/blocks.md). */
static bool may_be_refused(mlsi_op op) {
    static const mlsi_op list[] = {MLSI_OP_SCAN,         MLSI_OP_ATTENTION,  MLSI_OP_ATTENTION_GRAD,
                                   MLSI_OP_SCATTER,      MLSI_OP_SORT,       MLSI_OP_TOPK,
                                   MLSI_OP_QUANT_MATMUL, MLSI_OP_DEQUANTIZE, MLSI_OP_EMBEDDING,
                                   MLSI_OP_RANDOM,       MLSI_OP_BITCAST,    MLSI_OP_SOFTMAX,
                                   MLSI_OP_ROPE,         MLSI_OP_CONV};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i] == op) return true;
    return false;
}

static void check_call(mlsi_ctx *ctx, const op_variant *v, int mode, mlsi_isa isa, kc_rng *r) {
    char why[256];
    lc_call *w = lc_lower(ctx, v, mode);
    ck_assert_msg(!w->built || w->st == MLSYS_OK, "%s: %s", w->text, mlsys_last_error());
    written call = {.w = w, .kernels = calloc((size_t)w->c.n_parts + 1, sizeof(kernel))};
    bool said = w->built;
    for (int64_t i = 0; i < w->c.n_parts && said; i++) {
        said = write_part(w, &w->c.parts[i], &call.kernels[i], isa, why);
        if (said) continue;
        n_refused++;
        ck_assert_msg(may_be_refused(v->op), "%s: %s", w->text, why);
        if (getenv("MLSYS_TEST_ALL")) printf("%s: %s\n", w->text, why);
    }
    if (said) {
        lc_compare(w, v, r, run_blocks, &call);
        n_run++;
    }
    for (int64_t i = 0; i < w->c.n_parts; i++)
        mlsi_block_code_free(&ctx->alloc, &call.kernels[i].code);
    free(call.kernels);
    lc_free(w);
    free(w);
}

START_TEST(blocks_give_the_bits_of_the_reference) {
    mlsi_ctx *ctx = op_ctx_new();
    kc_rng r = kc_seed(SEED + 1000 + (uint64_t)_i);
    bool all = getenv("MLSYS_TEST_ALL") != NULL;
    n_run = n_refused = 0;
    for (int i = _i * ROWS; i < (_i + 1) * ROWS && i < op_case_count; i++) {
        op_variant v;
        int variants = 0;
        while (op_case_variant(&op_cases[i], variants, NULL, &v))
            variants++;
        for (int k = 0; k < (all ? variants * LC_MODES : SOME); k++) {
            int variant = all ? k / LC_MODES : (int)kc_int(&r, 0, variants - 1);
            int mode = all ? k % LC_MODES : (int)kc_int(&r, 0, LC_MODES - 1);
            op_case_variant(&op_cases[i], variant, NULL, &v);
            for (int isa = MLSI_ISA_PORTABLE; isa <= ctx->isa_limit; isa++)
                check_call(ctx, &v, mode, (mlsi_isa)isa, &r);
        }
    }
    printf("rows from %d: %d calls in blocks, %d not\n", _i * ROWS, n_run, n_refused);
    op_ctx_free(ctx);
}
END_TEST

/* y = -x in the memory of x, then z = x + x: x is read before it is overwritten, in every tile. */
START_TEST(a_result_in_place_leaves_what_was_read) {
    enum { N = 3 * MLSI_TILE + 5 };
    mlsi_ctx *ctx = op_ctx_new();
    const int64_t dims[] = {N};
    const mlsi_type t = {.dtype = MLSYS_F32, .rank = 1, .dims = {N}};
    static float x[N], z[N];
    mlsi_nest n;
    mlsi_block_code code;
    mlsi_nest_init(&n, &ctx->alloc, NULL, "in_place");
    int32_t in = mlsi_nest_param(&n, MLSI_SCOPE_INPUT, "x", &t);
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, "y", &t);
    int32_t twice = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, "z", &t);
    int64_t i = mlsi_nest_for(&n, MLSI_LOOP_VECTOR, "i", dims[0]);
    int32_t v = mlsi_nest_let(&n, "v", mlsi_nest_load(&n, in, &i));
    mlsi_nest_store(&n, y, &i, mlsi_nest_op(&n, MLSI_OP_NEG, 0, v, -1, -1));
    mlsi_nest_store(&n, twice, &i, mlsi_nest_op(&n, MLSI_OP_ADD, 0, v, v, -1));
    mlsi_nest_end(&n);
    ck_assert_int_eq(mlsi_nest_finish(&n), MLSYS_OK);
    ck_assert_int_eq(mlsi_codegen_blocks(&n, &code), MLSYS_OK);
    for (int isa = MLSI_ISA_PORTABLE; isa <= ctx->isa_limit; isa++) {
        char *data[] = {(char *)x, (char *)x, (char *)z};
        void *work = aligned_alloc(64, (code.state_bytes + 63) & ~(uint64_t)63);
        mlsi_gen_args a = {.data = data, .work = work, .end = 1};
        for (int k = 0; k < N; k++)
            x[k] = (float)(k + 1), z[k] = 0;
        ck_assert_int_eq(mlsi_cpu_backend.bind_blocks(&code, (mlsi_isa)isa), MLSYS_OK);
        ck_assert_int_eq(mlsi_cpu_backend.run_blocks(&code, &a), 0);
        for (int k = 0; k < N; k++)
            ck_assert_msg(x[k] == -(float)(k + 1) && z[k] == 2 * (float)(k + 1),
                          "element %d: %g %g", k, (double)x[k], (double)z[k]);
        free(work);
    }
    mlsi_block_code_free(&ctx->alloc, &code);
    mlsi_nest_free(&n);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("blocks");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, blocks_give_the_bits_of_the_reference, 0,
                        (op_case_count + ROWS - 1) / ROWS);
    tcase_add_test(tc, a_result_in_place_leaves_what_was_read);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
