/* Certificates of the passes: those of real pipelines hold, changed ones are refused, and planted miscompiles do not get
 * past them. */
#include "autodiff/reverse.h"
#include "core/faults.h"
#include "core/hash.h"
#include "ir/passes/passes.h"
#include "support/generation.h"
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

static mlsi_pass_ctx pass_ctx(mlsi_graph *g) {
    return (mlsi_pass_ctx){.g = g,
                           .device = pc.device,
                           .backend = &mlsi_cpu_backend,
                           .isa_limit = (mlsi_isa)pc.ctx->isa_limit,
                           .numerics = MLSI_EXACT,
                           .fuse_least = 1,
                           .prove = true};
}

static void parse(const char *text) {
    OK(mlsi_graph_init(&graph, pc.ctx));
    mlsys_status st = mlsi_graph_parse(&graph, pc.device, text);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

/* ---- real pipelines ------------------------------------------------------------------------------- */

static int64_t reasons[MLSI_BY_GROUPED + 1];

static mlsys_status count_reasons(void *user, const mlsi_proof_claim *claim,
                                  const mlsi_certificate *c) {
    (void)user, (void)claim;
    for (int64_t i = 0; i < c->n_pairs; i++)
        reasons[c->pairs[i].by]++;
    return MLSYS_OK;
}

static void prove_pipeline(mlsi_graph *g, const char *off, const char *what) {
    mlsi_pass_ctx p = pass_ctx(g);
    p.proved = count_reasons;
    mlsys_status st = mlsi_passes_run(&p, off, false);
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", what, mlsys_last_error());
}

static void random_graph(uint64_t seed, int nodes) {
    kc_rng r = kc_seed(seed);
    rg_options o = {
        .nodes = nodes, .inputs = 3, .outputs = 3, .symbols = seed & 1, .control = seed >> 1 & 1};
    OK(mlsi_graph_init(&graph, pc.ctx));
    rg_graph(&r, &graph, pc.device, &o);
}

START_TEST(random_graphs_are_proved) {
    static const char *const off[] = {"", "simplify,simplify2", "fold,fold2", "cse,cse2,dce",
                                      "simplify,fold,cse"};
    printf("seeds 1 to 300\n");
    memset(reasons, 0, sizeof reasons);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        char what[64];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        random_graph(seed, 4 + (int)(seed % 40));
        prove_pipeline(&graph, off[seed % 5], what);
        mlsi_graph_free(&graph);
    }
    for (int by = MLSI_BY_INPUT; by <= MLSI_BY_GROUPED; by++) /* each reason has been used */
        ck_assert_msg(reasons[by] > 0, "reason %d", by);
}
END_TEST

START_TEST(every_op_is_proved) {
    mlsi_symtab tab;
    mlsi_symtab_init(&tab, &pc.ctx->alloc);
    op_case_symbols(&tab);
    for (int c = 0; c < op_case_count; c++) {
        op_variant v;
        char text[256];
        for (int i = 0; i < 3 && op_case_variant(&op_cases[c], i, &tab, &v); i++) {
            mlsi_graph g;
            if (op_variant_graph(pc.ctx, &v, &g) == MLSYS_OK)
                prove_pipeline(&g, "", op_variant_text(&v, text, sizeof text));
            mlsi_graph_free(&g);
        }
    }
    mlsi_symtab_free(&tab);
}
END_TEST

START_TEST(a_language_model_is_proved) {
    generation_world world;
    mlsys_graph handle;
    mlsi_graph *g, copy;
    int32_t func;
    mlsi_device *device;
    generation_open_tiny(&world, NULL);
    OK(mlsys_model_graph(world.model, NULL, &handle));
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "test", &g));
    OK(mlsi_pin(world.device, MLSYS_KIND_DEVICE, "test", &device));
    OK(mlsi_graph_init(&copy, g->ctx));
    mlsi_graph_truncate(&copy, 0);
    OK(mlsi_graph_import(&copy, g, 0, &func));
    mlsi_pass_ctx p = pass_ctx(&copy);
    p.device = device;
    OK(mlsi_passes_run(&p, "", true));
    ck_assert_int_gt(copy.funcs[0].n_nodes, 20);
    mlsi_graph_free(&copy);
    mlsi_unpin(device);
    mlsi_unpin(g);
    OK(mlsys_release(handle));
    generation_close_tiny(&world);
}
END_TEST

/* A block of a transformer and its gradient: attention becomes its twin with a log-sum-exp. */
START_TEST(a_training_step_is_proved) {
    int32_t y = 0, x[3] = {0, 1, 2}, dx[3];
    parse("mlsys-ir 1\nsymbol B 1 8 1\nfunctions 1\nfunc 0 \"main\" {\n"
          "  %0 = input \"x\" : f32[B,6,8]\n  %1 = input \"w\" : f32[8,8]\n"
          "  %2 = input \"g\" : f32[8]\n  %3 = rms_norm(%0, %2) {axis=2} : f32[B,6,8]\n"
          "  %4 = matmul(%3, %1) : f32[B,6,8]\n"
          "  %5 = reshape(%4) {shape=[B,6,2,4]} : f32[B,6,2,4]\n"
          "  %6 = attention(%5, %5, %5) {causal=top_left} : f32[B,6,2,4]\n"
          "  %7 = reshape(%6) {shape=[B,6,8]} : f32[B,6,8]\n  %8 = gelu(%7) : f32[B,6,8]\n"
          "  %9 = softmax(%8) {axis=2} : f32[B,6,8]\n"
          "  %10 = reduce_sum(%9) {axes=[0,1,2]} : f32[]\n  output \"\" %10\n}\n");
    y = graph.funcs[0].outputs[0].value;
    OK(mlsi_gradient(&graph, 0, 1, &y, (int32_t[]){-1}, 3, x, dx));
    for (int i = 0; i < 3; i++)
        OK(mlsi_build_output(&graph, 0, NULL, dx[i]));
    prove_pipeline(&graph, "", "training step");
    mlsi_graph_free(&graph);
}
END_TEST

/* ---- changed certificates -------------------------------------------------------------------------- */

/* What a value is, by a hash of its expression in which copies are not seen and constants are their bytes. Not the
 * checker's: a second opinion. */
static uint64_t *expressions(const mlsi_graph *g, const mlsi_func *f) {
    uint64_t *h = calloc((size_t)f->n_values + 1, sizeof *h);
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        h[v] = mlsi_hash_mix(mlsi_hash_u64(
            mlsi_hash_u64(MLSI_HASH_SEED, (uint64_t)def->kind * 7919 + (uint64_t)def->result),
            (uint64_t)def->index));
        if (def->kind == MLSI_VALUE_CONST) {
            const mlsi_tensor *t = g->consts[def->index];
            h[v] = mlsi_hash_bytes((uint64_t)def->type.dtype, mlsi_tensor_view_of(t).data,
                                   mlsi_layout_bytes(&t->layout));
            h[v] = mlsi_hash_mix(mlsi_hash_bytes(h[v], def->type.dims, sizeof def->type.dims));
        }
        if (def->kind != MLSI_VALUE_NODE) continue;
        const mlsi_node *n = &f->nodes[def->index];
        uint64_t x = mlsi_hash_u64(mlsi_attrs_hash(mlsi_op_get(n->op), n->attrs), n->op);
        for (int i = 0; i < n->n_in; i++)
            x = mlsi_hash_u64(x, n->in[i] < 0 ? 1 : h[n->in[i]]);
        h[v] = mlsi_hash_mix(mlsi_hash_u64(x, (uint64_t)def->result));
        if (n->op == MLSI_OP_COPY) h[v] = h[n->in[0]];
    }
    return h;
}

typedef struct tampering {
    kc_rng r;
    int64_t refused, true_anyway;
    uint64_t *before, *after;
} tampering;

/* A certificate that the checker takes must be true: the pair's value is the one that was there, written elsewhere. */
static void judge(tampering *t, const mlsi_proof_claim *claim, mlsi_certificate *c, int64_t i,
                  const mlsi_proof_pair *was, const char *what) {
    mlsi_proof_pair *p = &c->pairs[i];
    mlsys_status st = mlsi_check_certificate(claim, c);
    if (st == MLSYS_OK) {
        const mlsi_func *f = &claim->g->funcs[claim->before];
        bool same = p->by == was->by && p->identity == was->identity && p->before < f->n_values &&
                    t->before[p->before] == t->before[was->before] &&
                    t->after[p->after] == t->after[was->after];
        /* An identity on a constant is also what the reference gives. */
        same |= p->by == MLSI_BY_FOLDED && p->after == was->after &&
                claim->g->funcs[claim->after].values[p->after].kind == MLSI_VALUE_CONST;
        if (!same) {
            mlsi_text text;
            mlsi_text_init(&text, &pc.ctx->alloc);
            *p = *was;
            mlsi_certificate_print(c, &text);
            mlsi_graph_print(claim->g, &text);
            ck_abort_msg("%s of pair %lld (%%%d) was changed and accepted\n%s", what, (long long)i,
                         was->before, text.data);
        }
        t->true_anyway++;
    } else {
        REQUIRE(st == MLSYS_E_INTERNAL && strstr(mlsys_last_error(), claim->pass));
        t->refused++;
    }
    *p = *was;
}

static void tamper_pair(tampering *t, const mlsi_proof_claim *claim, mlsi_certificate *c,
                        int64_t i) {
    const mlsi_func *after = &claim->g->funcs[claim->after];
    const mlsi_proof_pair was = c->pairs[i];
    mlsi_proof_pair *p = &c->pairs[i];
    mlsi_op op;
    for (int k = 0; k < 6; k++) {
        p->after = k == 0 ? -1 : (int32_t)kc_int(&t->r, 0, after->n_values);
        if (p->after != was.after) judge(t, claim, c, i, &was, "after");
    }
    for (int k = -1; k <= 1; k += 2) {
        p->before += k;
        judge(t, claim, c, i, &was, "before");
    }
    for (int by = 0; by <= MLSI_BY_GROUPED + 1; by++) {
        if (by == (int)was.by) continue;
        p->by = (mlsi_reason)by;
        judge(t, claim, c, i, &was, "by");
        p->by = (mlsi_reason)by;
        p->identity = NULL;
        judge(t, claim, c, i, &was, "by");
    }
    for (int k = 0; mlsi_identity_name(k, &op); k++) {
        p->identity = mlsi_identity_name(k, &op);
        if (was.identity && !strcmp(p->identity, was.identity)) p->identity = "no_such_identity";
        judge(t, claim, c, i, &was, "identity");
    }
    p->identity = was.identity ? NULL : "add_zero";
    judge(t, claim, c, i, &was, "identity");
}

static void refuse_whole(const mlsi_proof_claim *claim, const mlsi_certificate *c) {
    REQUIRE(mlsi_check_certificate(claim, c) == MLSYS_E_INTERNAL);
}

static mlsys_status tamper(void *user, const mlsi_proof_claim *claim, const mlsi_certificate *c) {
    tampering *t = user;
    mlsi_certificate own = *c;
    t->before = expressions(claim->g, &claim->g->funcs[claim->before]);
    t->after = expressions(claim->g, &claim->g->funcs[claim->after]);
    own.pairs = malloc(sizeof *c->pairs * (size_t)(c->n_pairs + 1));
    memcpy(own.pairs, c->pairs, sizeof *c->pairs * (size_t)c->n_pairs);
    for (int64_t i = 0; i < c->n_pairs; i++)
        tamper_pair(t, claim, &own, i);
    own.pass = "nothing", refuse_whole(claim, &own), own.pass = c->pass;
    own.numerics = MLSI_FAST, refuse_whole(claim, &own), own.numerics = c->numerics;
    own.func++, refuse_whole(claim, &own), own.func = c->func;
    own.pairs[c->n_pairs] = c->pairs[0];
    own.n_pairs++, refuse_whole(claim, &own);
    own.n_pairs = 0, refuse_whole(claim, &own);
    OK(mlsi_check_certificate(claim, c));
    free(own.pairs);
    free(t->before);
    free(t->after);
    return MLSYS_OK;
}

START_TEST(changed_certificates_are_refused) {
    tampering t = {.r = kc_seed(7)};
    uint64_t first = 400 + 20 * (uint64_t)_i;
    printf("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)first + 19);
    for (uint64_t seed = first; seed < first + 20; seed++) {
        random_graph(seed, 4 + (int)(seed % 17));
        mlsi_pass_ctx p = pass_ctx(&graph);
        p.proved = tamper;
        p.user = &t;
        OK(mlsi_passes_run(&p, "", false));
        mlsi_graph_free(&graph);
    }
    printf("%lld changes refused, %lld left it true\n", (long long)t.refused,
           (long long)t.true_anyway);
    REQUIRE(t.refused > 50 * t.true_anyway && t.refused > 1000);
}
END_TEST

/* ---- planted miscompiles ------------------------------------------------------------------------------ */

#if defined(MLSI_FAULTS) && MLSI_FAULTS

static const struct {
    int fault;
    const char *pass, *why; /* of the sentence */
} planted[] = {
    {MLSI_FAULT_EXP_PRODUCT, "certificate of simplify", "mul_one): the other operand is not 1"},
    {MLSI_FAULT_ADD_POSITIVE_ZERO, "certificate of simplify", "add_zero): the other operand is"},
    {MLSI_FAULT_SLICE_STEP, "certificate of simplify", "slice_all): a step is not 1"},
    {MLSI_FAULT_SIMPLIFY_OPERAND, "certificate of simplify", "div_one): the new value is not"},
    {MLSI_FAULT_INVOLUTION_OP, "certificate of simplify", "): the operand is not the same op"},
    {MLSI_FAULT_TRANSPOSE_ORDER, "certificate of simplify", "(identity transpose_"},
    {MLSI_FAULT_FOLD_BITS, "certificate of fold", "(folded): the reference gives other elements"},
    {MLSI_FAULT_CSE_ATTRS, "certificate of cse", "(same): the attributes differ"},
    {MLSI_FAULT_CSE_OPERAND, "certificate of cse", "(same): an operand differs"},
    {MLSI_FAULT_DECOMPOSE_OPERAND, "certificate of decompose", "(decomposed): the new value is"},
    {MLSI_FAULT_INLINE_ARGS, "certificate of inline", "(inlined): the new value is another"},
    {MLSI_FAULT_REWRITE_OUTPUT, "certificate of inline", "observability: an output is not"},
    {MLSI_FAULT_REWRITE_DONATED, "certificate of inline", "observability: an input has another"},
    {MLSI_FAULT_FUSE_ARGUMENT, "certificate of fuse", "(grouped): the body is another"},
    {MLSI_FAULT_FUSE_RESULT, "certificate of fuse", "(grouped): the body is another"},
    {MLSI_FAULT_LAYOUT_OUTPUT, "certificate of layout", "observability: an output is not"},
};
enum { N_PLANTED = (int)(sizeof planted / sizeof planted[0]) };

#define X4           "  %0 = input \"x\" : f32[4]\n"
#define Y4           "  %1 = input \"y\" : f32[4]\n"
#define BITTEN(body) "functions 1\nfunc 0 \"main\" {\n" body "}\n"
static const char *const bitten[] =
    {/* what random graphs seldom have */
     BITTEN(X4 Y4 "  %2 = exp(%0) : f32[4]\n  %3 = exp(%1) : f32[4]\n  %4 = mul(%2, %3) : f32[4]\n"
                  "  output \"\" %4\n"),
     BITTEN(X4 "  %1 = full() {dtype=f32, shape=[4]} : f32[4]\n  %2 = add(%0, %1) : f32[4]\n"
               "  output \"\" %2\n"),
     BITTEN("  %0 = input \"x\" : f32[2,3,4]\n  %1 = transpose(%0) {perm=[1,2,0]} : f32[3,4,2]\n"
            "  %2 = transpose(%1) {perm=[0,2,1]} : f32[3,2,4]\n  output \"\" %2\n"),
     BITTEN(X4 "  %1 = softmax(%0) {axis=0} : f32[4]\n"
               "  %2 = softmax(%0) {axis=0, masked_zero=true} : f32[4]\n  output \"\" %1\n"
               "  output \"\" %2\n"),
     BITTEN(
         "  %0 = input \"x\" : f64[4]\n  %1 = input \"g\" : f64[4]\n  %2 = input \"b\" : f64[4]\n"
         "  %3 = layer_norm(%0, %1, %2) {axis=0} : f64[4]\n  output \"\" %3\n"),
     BITTEN(X4 "  %1 = slice(%0) {starts=[3], stops=[-9223372036854775808], steps=[-1]} : f32[4]\n"
               "  output \"\" %1\n"),
     BITTEN(X4 Y4 "  %2 = sub(%0, %1) : f32[4]\n  %3 = exp(%2) : f32[4]\n  %4 = tanh(%3) : f32[4]\n"
                  "  output \"\" %3\n  output \"\" %4\n"),
     "functions 2\nfunc 1 \"f\" {\n" X4 Y4 "  %2 = sub(%0, %1) : f32[4]\n  output \"\" %2\n}\n"
     "func 0 \"main\" {\n" X4 Y4 "  %2 = call(%1, %0) {fn1=1} : f32[4]\n  output \"\" %2\n}\n"};
enum { N_BITTEN = (int)(sizeof bitten / sizeof bitten[0]) };

/* Passes under the fault: refused with that sentence somewhere, and never wrong where it is not refused. */
START_TEST(planted_miscompiles_are_refused) {
    int refused = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        char text[2048];
        if (seed < N_BITTEN) {
            snprintf(text, sizeof text, "mlsys-ir 1\n%s", bitten[seed]);
            parse(text);
        } else {
            random_graph(seed, 4 + (int)(seed % 40));
        }
        mlsi_graph was;
        int32_t func;
        OK(mlsi_graph_init(&was, pc.ctx));
        mlsi_graph_truncate(&was, 0);
        OK(mlsi_graph_import(&was, &graph, 0, &func));
        mlsi_pass_ctx p = pass_ctx(&graph);
        mlsi_fault_select(planted[_i].fault);
        mlsys_status st = mlsi_passes_run(&p, "", false);
        mlsi_fault_select(MLSI_FAULT_NONE);
        refused += st != MLSYS_OK && strstr(mlsys_last_error(), planted[_i].pass) &&
                   strstr(mlsys_last_error(), planted[_i].why);
        if (st == MLSYS_OK && seed >= N_BITTEN) {
            mlsys_tensor in[3], got[3] = {0}, want[3] = {0};
            kc_rng r = kc_seed(seed);
            rg_inputs(&r, &was, pc.device_handle, rg_bind(&r), in);
            pc_interpret_inside(&pc, &was, 3, in, 3, want);
            pc_interpret_inside(&pc, &graph, 3, in, 3, got);
            for (int o = 0; o < 3; o++)
                REQUIRE(rg_difference(got[o], want[o]) < 0);
            pc_release(3, in), pc_release(3, got), pc_release(3, want);
        }
        mlsi_graph_free(&was);
        mlsi_graph_free(&graph);
    }
    printf("%s: %d of 300 graphs refused\n", planted[_i].why, refused);
    ck_assert_int_gt(refused, 0);
}
END_TEST

#endif

int main(void) {
    Suite *s = suite_create("proof");
    TCase *tc = tcase_create("proof");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, random_graphs_are_proved);
    tcase_add_test(tc, every_op_is_proved);
    tcase_add_test(tc, a_language_model_is_proved);
    tcase_add_test(tc, a_training_step_is_proved);
    tcase_add_loop_test(tc, changed_certificates_are_refused, 0, 4);
#if defined(MLSI_FAULTS) && MLSI_FAULTS
    tcase_add_loop_test(tc, planted_miscompiles_are_refused, 0, N_PLANTED);
#endif
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
