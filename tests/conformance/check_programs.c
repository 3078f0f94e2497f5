/* Every row of tests/op_cases.h as a program (on a CUDA device with MLSYS_TEST_DEVICE=cuda; MLSYS_TEST_PART=k/n: every
 * n-th row; MLSYS_TEST_OP: of these ops; MLSYS_TEST_VARIANTS: the first so many types of a row): the call is printed, parsed, compiled and run through the public API, with fixed and with symbolic extents, on dense and strided tensors, and must give
 * the bits of the reference interpreter. Covers printer, parser, passes, memory plan and execution
 * of each op. */
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261204 };

typedef struct trial {
    const op_variant *v;
    mlsi_ctx *ctx;
    mlsys_device device;
    mlsys_stream stream;
    char text[512];
    kc_tensor in[KC_OPERANDS], expected[KC_OPERANDS];
} trial;

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s: %s: %s", t->text, #call, mlsys_last_error());    \
    } while (0)

static uint64_t dense_bytes(const mlsi_view *v) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    return (uint64_t)(mlsi_view_count(v) / info->block_elems * info->block_bytes);
}

static bool on_cuda(void) {
    const char *name = getenv("MLSYS_TEST_DEVICE");
    return name && !strcmp(name, "cuda");
}

/* The whole block on the device, and the operand as a view of it. */
static mlsys_tensor move(const trial *t, const kc_tensor *x, const int64_t *strides,
                         int64_t offset) {
    const mlsi_dtype_info *info = mlsi_dtype_get(x->view.dtype);
    const int64_t elems = (int64_t)x->bytes / info->block_bytes * info->block_elems;
    mlsys_tensor all, tensor;
    OK(mlsys_tensor_create(t->device, x->view.dtype, 1, &elems, &all));
    OK(mlsys_tensor_write(all, t->stream, x->block,
                          (uint64_t)(elems / info->block_elems * info->block_bytes)));
    if (strides) {
        OK(mlsys_tensor_view(all, x->view.rank, x->view.shape, strides, offset, &tensor));
    } else {
        mlsys_release(all);
        OK(mlsys_tensor_create(t->device, x->view.dtype, x->view.rank, x->view.shape, &tensor));
        OK(mlsys_tensor_write(tensor, t->stream, x->view.data, dense_bytes(&x->view)));
        return tensor;
    }
    mlsys_release(all);
    return tensor;
}

static mlsys_tensor wrap(const trial *t, const kc_tensor *x) {
    const mlsi_dtype_info *info = mlsi_dtype_get(x->view.dtype);
    const int64_t *strides = info->block_elems > 1 ? NULL : x->view.strides; /* blocks: dense */
    mlsys_tensor tensor;
    int64_t offset =
        ((unsigned char *)x->view.data - x->block) / info->block_bytes * info->block_elems;
    if (on_cuda()) return move(t, x, strides, offset);
    OK(mlsys_tensor_wrap(t->device, x->view.dtype, x->view.rank, x->view.shape, strides, offset,
                         x->block, x->bytes, NULL, NULL, &tensor));
    return tensor;
}

static bool same_bytes(mlsys_dtype dtype, const unsigned char *a, const unsigned char *b,
                       uint64_t bytes) {
    if (!memcmp(a, b, bytes)) return true;
    if (!mlsi_dtype_is_float(dtype)) return false;
    int64_t n = (int64_t)bytes / mlsi_dtype_size(dtype);
    mlsi_view x = {.data = (void *)a, .dtype = dtype, .rank = 1, .shape = {n}, .strides = {1}},
              y = x;
    y.data = (void *)b;
    for (int64_t i = 0; i < n; i++)
        if (memcmp(kc_at(&x, i), kc_at(&y, i), (size_t)mlsi_dtype_size(dtype)) &&
            !(isnan(kc_get_f(&x, i)) && isnan(kc_get_f(&y, i))))
            return false;
    return true;
}

static void run_and_compare(const trial *t, mlsys_program program, const char *what) {
    mlsys_tensor in[KC_OPERANDS], out[KC_OPERANDS] = {NULL};
    int n = 0;
    for (int i = 0; i < t->v->n_in; i++)
        if (!t->v->in[i].absent) in[n++] = wrap(t, &t->in[i]);
    OK(mlsys_program_run(program, t->stream, n, in, t->v->n_out, out));
    for (int o = 0; o < t->v->n_out; o++) {
        const mlsi_view *want = &t->expected[o].view;
        uint64_t bytes = dense_bytes(want);
        unsigned char *got = malloc(bytes + 1);
        OK(mlsys_tensor_read(out[o], t->stream, got, bytes));
        ck_assert_msg(same_bytes(want->dtype, got, want->data, bytes), "%s: %s: result %d differs",
                      t->text, what, o);
        free(got);
        mlsys_release(out[o]);
    }
    while (n)
        mlsys_release(in[--n]);
}

/* g printed, parsed and compiled. */
static mlsys_program compile(const trial *t, const mlsi_graph *g) {
    mlsi_text text;
    mlsys_graph graph;
    mlsys_program program;
    mlsys_ctx handle = mlsi_handle_of(t->ctx);
    mlsi_text_init(&text, &t->ctx->alloc);
    mlsi_graph_print(g, &text);
    mlsys_status st = mlsys_graph_parse(handle, text.data, &graph);
    ck_assert_msg(st == MLSYS_OK, "%s: parse: %s\n%s", t->text, mlsys_last_error(), text.data);
    OK(mlsys_graph_verify(graph));
    OK(mlsys_graph_compile(graph, t->device, NULL, &program));
    mlsi_text_free(&text);
    mlsys_release(graph);
    mlsys_release(handle);
    return program;
}

static void make_operands(trial *t, const mlsi_graph *g, kc_rng *r, kc_layout layout) {
    mlsi_view views[KC_OPERANDS], results[KC_OPERANDS];
    int n = 0;
    for (int i = 0; i < t->v->n_in; i++) {
        const mlsi_type *type = &t->v->in[i].type;
        if (t->v->in[i].absent) continue;
        t->in[i] = kc_tensor_new(r, type->dtype, type->rank, type->dims,
                                 mlsi_dtype_is_block(type->dtype) ? KC_DENSE : layout);
        op_operand_fill(r, &t->in[i], &t->v->in[i]);
        views[n++] = t->in[i].view;
    }
    for (int o = 0; o < t->v->n_out; o++) {
        const mlsi_type *type = mlsi_type_of(g, 0, g->funcs[0].outputs[o].value);
        t->expected[o] = kc_tensor_new(r, type->dtype, type->rank, type->dims, KC_DENSE);
        results[o] = t->expected[o].view;
    }
    OK(mlsi_interpret(g, 0, n, views, t->v->n_out, results));
}

static void free_operands(trial *t) {
    for (int i = 0; i < t->v->n_in; i++)
        kc_tensor_free(&t->in[i]);
    for (int o = 0; o < t->v->n_out; o++)
        kc_tensor_free(&t->expected[o]);
}

/* A program of the symbolic call, or NULL where it is refused as not provable. */
static mlsys_program compile_symbolic(const trial *t, bool one) {
    mlsi_graph g;
    int32_t in[KC_OPERANDS], out[KC_OPERANDS];
    mlsys_program program = NULL;
    mlsys_status st = op_variant_symbolic(t->ctx, t->v, one, &g, in, out);
    for (int o = 0; o < t->v->n_out && st == MLSYS_OK; o++)
        st = mlsi_build_output(&g, 0, NULL, out[o]);
    if (st == MLSYS_OK) program = compile(t, &g);
    mlsi_graph_free(&g);
    return program;
}

static void check_variant(trial *t, kc_rng *r) {
    mlsi_graph g;
    mlsys_program programs[3];
    static const char *const names[] = {"program", "program of one symbol", "program of symbols"};
    op_variant_text(t->v, t->text, sizeof t->text);
    OK(op_variant_graph(t->ctx, t->v, &g));
    programs[0] = compile(t, &g);
    programs[1] = compile_symbolic(t, true);
    programs[2] = compile_symbolic(t, false);
    for (int pass = 0; pass < 2; pass++) {
        make_operands(t, &g, r,
                      pass ? (kc_layout)kc_int(r, KC_PERMUTED, KC_LAYOUTS - 1) : KC_DENSE);
        for (int p = 0; p < 3; p++)
            if (programs[p]) run_and_compare(t, programs[p], names[p]);
        free_operands(t);
    }
    for (int p = 0; p < 3; p++)
        mlsys_release(programs[p]);
    mlsi_graph_free(&g);
}

/* Of the rows that the environment asks for? */
static bool is_wanted(const char *op, int row) {
    const char *ops = getenv("MLSYS_TEST_OP");
    const size_t n = strlen(op);
    int part = 0, parts = 1;
    if (getenv("MLSYS_TEST_PART")) sscanf(getenv("MLSYS_TEST_PART"), "%d/%d", &part, &parts);
    if (row % parts != part) return false;
    for (const char *at = ops; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, op, n) && (!at[n] || at[n] == ',')) return true;
    }
    return !ops;
}

static int variants_wanted(void) {
    const char *most = getenv("MLSYS_TEST_VARIANTS");
    return most ? atoi(most) : INT32_MAX;
}

START_TEST(programs_give_the_bits_of_the_reference) {
    const op_case *c = &op_cases[_i];
    uint64_t seed = SEED + (uint64_t)_i;
    kc_rng r = kc_seed(seed);
    op_variant v;
    trial call = {.v = &v, .ctx = op_ctx_new()}, *t = &call;
    mlsys_ctx handle = mlsi_handle_of(t->ctx);
    if (!is_wanted(c->op, _i)) {
        mlsys_release(handle);
        op_ctx_free(t->ctx);
        return;
    }
    printf("%s(%s) {%s}: seed %llu\n", c->op, c->operands, c->attrs, (unsigned long long)seed);
    OK(mlsys_device_get(handle, on_cuda() ? MLSYS_CUDA : MLSYS_CPU, 0, &t->device));
    OK(mlsys_stream_create(t->device, NULL, &t->stream));
    for (int k = 0; k < variants_wanted() && op_case_variant(c, k, NULL, &v); k++)
        check_variant(t, &r);
    mlsys_release(t->stream);
    mlsys_release(t->device);
    mlsys_release(handle);
    op_ctx_free(t->ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("programs");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, programs_give_the_bits_of_the_reference, 0, op_case_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
