/* Ops by every road: eager, in a program, by the interpreter; two threads on one program. */
#include "autodiff/reverse.h"
#include "support/op_case.h"
#include "support/program_case.h"
#include "support/require.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

enum { MOST = KC_OPERANDS };

static mlsi_tensor *pinned(mlsys_tensor t) {
    mlsi_tensor *x;
    OK(mlsi_pin(t, MLSYS_KIND_TENSOR, "test", &x));
    return x;
}

/* A tensor of this type; strided ones run backwards through a transposed one. */
static mlsys_tensor tensor_like(const mlsi_type *t, bool strided) {
    int64_t shape[MLSYS_MAX_DIMS];
    mlsys_tensor base, view, turned;
    if (!strided || mlsi_dtype_is_block(t->dtype) || t->rank == 0)
        return pc_tensor(&pc, t->dtype, t->rank, t->dims, NULL);
    int32_t perm[MLSYS_MAX_DIMS];
    for (int d = 0; d < t->rank; d++) {
        shape[d] = t->dims[t->rank - 1 - d];
        perm[d] = t->rank - 1 - d;
    }
    base = pc_tensor(&pc, t->dtype, t->rank, shape, NULL);
    OK(mlsys_tensor_permute(base, t->rank, perm, &view));
    OK(mlsys_tensor_reverse(view, 0, &turned));
    pc_release(1, &base);
    pc_release(1, &view);
    return turned;
}

static void fill_operand(kc_rng *r, mlsys_tensor t, const op_operand *o) {
    unsigned char none = 0, before = 0;
    kc_tensor k = {.view = rg_view(t), .block = &none, .before = &before};
    op_operand_fill(r, &k, o);
}

static void eager(mlsi_graph *g, int n_in, const mlsys_tensor *in, int n_out, mlsys_tensor *out,
                  const char *text) {
    mlsi_tensor *tensors[MOST];
    mlsi_stream *s;
    for (int i = 0; i < n_in; i++)
        tensors[i] = pinned(in[i]);
    OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "test", &s));
    mlsys_status st = mlsi_eager_run(g, s, n_in, tensors, n_out, out);
    if (st != MLSYS_OK) ck_abort_msg("%s: eager: %s", text, mlsys_last_error());
    mlsi_unpin(s);
    for (int i = 0; i < n_in; i++)
        mlsi_unpin(tensors[i]);
}

static void require_same(int n, const mlsys_tensor *got, const mlsys_tensor *want, const char *text,
                         const char *road) {
    for (int o = 0; o < n; o++) {
        int64_t at = rg_difference(got[o], want[o]);
        if (at >= 0)
            ck_abort_msg("%s: %s: result %d differs at element %lld", text, road, o, (long long)at);
    }
}

static void check_variant(const op_variant *v, kc_rng *r, bool strided) {
    mlsi_graph g;
    mlsys_tensor in[MOST], want[MOST] = {0}, got[MOST] = {0};
    char text[512];
    int n = 0;
    op_variant_text(v, text, sizeof text);
    OK(op_variant_graph(pc.ctx, v, &g));
    for (int i = 0; i < v->n_in; i++) {
        if (v->in[i].absent) continue;
        in[n] = tensor_like(&v->in[i].type, strided);
        fill_operand(r, in[n++], &v->in[i]);
    }
    pc_interpret_inside(&pc, &g, n, in, v->n_out, want);
    eager(&g, n, in, v->n_out, got, text);
    require_same(v->n_out, got, want, text, "eager");
    pc_release(v->n_out, got);
    for (int o = 0; o < v->n_out; o++)
        got[o] = tensor_like(mlsi_type_of(&g, 0, g.funcs[0].outputs[o].value), strided);
    eager(&g, n, in, v->n_out, got, text);
    require_same(v->n_out, got, want, text, "eager into given outputs");
    pc_release(v->n_out, got);
    mlsys_program p = pc_compile_inside(&pc, &g, "");
    if (mlsys_program_run(p, pc.stream, n, in, v->n_out, got) != MLSYS_OK)
        ck_abort_msg("%s: program: %s", text, mlsys_last_error());
    require_same(v->n_out, got, want, text, "program");
    OK(mlsys_release(p));
    pc_release(v->n_out, got);
    pc_release(v->n_out, want);
    pc_release(n, in);
    mlsi_graph_free(&g);
}

enum { PER_ROW = 6 }; /* variants of a row; conformance runs all of them */

START_TEST(all_roads_give_the_same_bits) {
    kc_rng r = kc_seed(31);
    int checked = 0;
    printf("seed 31\n");
    for (int c = 0; c < op_case_count; c++) {
        op_variant v;
        for (int i = 0; i < PER_ROW && op_case_variant(&op_cases[c], i, NULL, &v); i++, checked++)
            check_variant(&v, &r, (c + i) % 2);
    }
    printf("%d calls\n", checked);
}
END_TEST

/* ---- custom ops --------------------------------------------------------------------------------------- */

typedef struct scale_op { /* user data: what the callbacks saw, and how they shall fail */
    int infers, runs, destroyed;
    mlsys_status infer_fails, run_fails;
    const char *sentence;
    int bad_result; /* 1 dtype, 2 rank, 3 extent */
} scale_op;

static mlsys_status scale_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                                const int32_t *ndims, const int64_t *in_shapes, mlsys_config attrs,
                                int32_t n_out, mlsys_dtype *out_dtypes, int32_t *out_ndims,
                                int64_t *out_shapes) {
    scale_op *s = user;
    int64_t factor = 0;
    s->infers++;
    if (n_in != 2 || n_out != 1 || dtypes[0] != MLSYS_F32)
        return mlsys_set_error(MLSYS_E_DTYPE, "only f32");
    if (attrs && mlsys_config_get_i64(attrs, "factor", &factor) != MLSYS_OK)
        return mlsys_last_status();
    if (s->infer_fails)
        return s->sentence ? mlsys_set_error(s->infer_fails, s->sentence) : s->infer_fails;
    out_dtypes[0] = s->bad_result == 1 ? 999 : dtypes[0];
    out_ndims[0] = s->bad_result == 2 ? 9 : ndims[0];
    memcpy(out_shapes, in_shapes, sizeof *in_shapes * 8);
    if (s->bad_result == 3) out_shapes[0] = -17;
    return MLSYS_OK;
}

/* y = x * factor + (0 or the optional second operand's first element) */
static mlsys_status scale_run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                              mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    scale_op *s = user;
    int64_t factor = 2;
    float add = 0;
    s->runs++;
    if (!stream || n_in != 2 || n_out != 1) return mlsys_set_error(MLSYS_E_ARG, "wrong counts");
    if (s->run_fails)
        return s->sentence ? mlsys_set_error(s->run_fails, s->sentence) : s->run_fails;
    if (attrs && mlsys_config_get_i64(attrs, "factor", &factor) != MLSYS_OK)
        return mlsys_last_status();
    mlsi_view x = rg_view(in[0]), y = rg_view(out[0]);
    if (in[1]) add = *(const float *)rg_view(in[1]).data;
    for (int64_t i = 0, n = mlsi_view_count(&x); i < n; i++)
        *(float *)kc_at(&y, i) = *(const float *)kc_at(&x, i) * (float)factor + add;
    void *data;
    uint64_t bytes;
    return mlsys_tensor_data(out[0], &data, &bytes);
}

static void scale_destroy(void *user) { ((scale_op *)user)->destroyed++; }

static scale_op scale;

static void register_scale(void) {
    mlsys_opdef d;
    memset(&scale, 0, sizeof scale);
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "scale", d.user = &scale, d.n_in = 2, d.n_out = 1;
    d.infer = scale_infer, d.run = scale_run, d.destroy = scale_destroy;
    OK(mlsys_op_register(pc.ctx_handle, &d));
}

static const char *const scaled =
    "symbol B 1 8 1\nfunctions 4\n"
    "func 3 \"twice\" {\n  %0 = input \"x\" : f32[4,B]\n  %1 = custom \"scale\"(%0, _) "
    "{\"factor\"=2} : f32[4,B]\n"
    "  output \"\" %1\n}\n"
    "func 2 \"step\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[4,B]\n"
    "  %2 = const i64[] hex:0100000000000000\n  %3 = add(%0, %2) : i64[]\n"
    "  %4 = custom \"scale\"(%1, %1) {\"factor\"=3} : f32[4,B]\n  %5 = const bool[] hex:01\n"
    "  %6 = if(%5, %4) {fn1=3, fn2=3} : f32[4,B]\n  output \"\" %3\n  output \"\" %6\n}\n"
    "func 1 \"cond\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[4,B]\n"
    "  %2 = const i64[] hex:0300000000000000\n  %3 = lt(%0, %2) : bool[]\n  output \"\" %3\n}\n"
    "func 0 \"main\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[B,4]\n"
    "  %2 = transpose(%1) {perm=[1,0]} : f32[4,B]\n  %3 = custom \"scale\"(%2, _) {\"factor\"=-1} "
    ": f32[4,B]\n"
    "  %4 = reverse(%3) {axes=[1]} : f32[4,B]\n  %5 = custom \"scale\"(%4, %3) : f32[4,B]\n"
    "  %6, %7 = while(%0, %5) {fn1=1, fn2=2} : i64[], f32[4,B]\n"
    "  output \"y\" %7\n  output \"z\" %3\n}\n";

START_TEST(custom_ops_in_programs) {
    register_scale();
    mlsys_graph g = pc_parse(&pc, scaled);
    mlsys_program p = pc_compile(&pc, g, "");
    int64_t zero = 0;
    kc_rng r = kc_seed(12);
    OK(mlsys_program_reserve(p, pc.stream, 0, NULL, NULL));
    for (int64_t b = 1; b <= 8; b += 3) {
        mlsys_tensor in[2], out[2], want[2] = {0};
        in[0] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &zero);
        in[1] = pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){b, 4});
        for (int o = 0; o < 2; o++)
            out[o] = pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){4, b}, NULL);
        int runs = scale.runs;
        OK(mlsys_graph_interpret(g, pc.stream, 2, in, 2, want));
        ck_assert_int_eq(scale.runs - runs, 2 + 3 * 2);
        uint64_t before = pc_allocations(&pc);
        OK(mlsys_program_run(p, pc.stream, 2, in, 2, out));
        ck_assert_uint_eq(pc_allocations(&pc),
                          before); /* their tensors were made with the binding */
        require_same(2, out, want, "scale", "program");
        pc_release(2, in);
        pc_release(2, out);
        pc_release(2, want);
    }
    OK(mlsys_release(p));
    OK(mlsys_release(g));
    ck_assert_int_eq(scale.destroyed, 0);
}
END_TEST

START_TEST(custom_ops_eager) {
    register_scale();
    mlsys_config c;
    float data[6] = {1, 2, 3, 4, 5, 6};
    mlsys_tensor x = pc_f32(&pc, 6, data), view, out[1] = {0}, in[2];
    OK(mlsys_tensor_slice(x, 0, 5, INT64_MIN, -2, &view));
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "factor", 10));
    in[0] = view, in[1] = NULL;
    OK(mlsys_op_run(pc.stream, "scale", 2, in, c, 1, out));
    ck_assert(((const float *)rg_view(out[0]).data)[0] == 60 &&
              ((const float *)rg_view(out[0]).data)[2] == 20);
    in[1] = x;
    OK(mlsys_op_run(pc.stream, "scale", 2, in, NULL, 1, out)); /* into the given output */
    ck_assert(((const float *)rg_view(out[0]).data)[0] == 13);
    pc_expect(mlsys_op_run(pc.stream, "scale", 1, in, NULL, 1, out), MLSYS_E_ARG, "takes 2 and 1");
    mlsys_tensor wrong[2] = {pc_tensor(&pc, MLSYS_I32, 1, (const int64_t[]){3}, NULL), NULL},
                 none[1] = {0};
    pc_expect(mlsys_op_run(pc.stream, "scale", 2, wrong, NULL, 1, none), MLSYS_E_CALLBACK,
              "only f32");
    pc_release(1, wrong);
    pc_release(1, out);
    pc_release(1, &view);
    pc_release(1, &x);
    OK(mlsys_release(c));
}
END_TEST

START_TEST(failing_custom_ops) {
    register_scale();
    mlsys_graph g;
    mlsys_value x, y;
    const mlsys_dim four[1] = {4};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 1, four, &x));
    mlsys_value in[2] = {x, 0};
    scale.infer_fails = MLSYS_E_SHAPE, scale.sentence = "too square";
    pc_expect(mlsys_graph_op(g, "scale", 2, in, NULL, 1, &y), MLSYS_E_CALLBACK,
              "scale: infer returned E_SHAPE: too square");
    scale.sentence = NULL, scale.infer_fails = MLSYS_E_IO;
    pc_expect(mlsys_graph_op(g, "scale", 2, in, NULL, 1, &y), MLSYS_E_CALLBACK,
              "infer returned E_IO");
    ck_assert_msg(!strstr(mlsys_last_error(), "too square"), "an old sentence: %s",
                  mlsys_last_error());
    scale.infer_fails = MLSYS_OK;
    for (scale.bad_result = 1; scale.bad_result <= 3; scale.bad_result++)
        pc_expect(mlsys_graph_op(g, "scale", 2, in, NULL, 1, &y), MLSYS_E_CALLBACK,
                  "scale: result 0");
    scale.bad_result = 0;
    OK(mlsys_graph_op(g, "scale", 2, in, NULL, 1, &y));
    OK(mlsys_graph_output(g, NULL, y));
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor t = pc_f32(&pc, 4, (const float[]){1, 2, 3, 4}), out[1] = {0}, want[1] = {0};
    scale.run_fails = MLSYS_E_STATE, scale.sentence = "tired";
    pc_expect(mlsys_program_run(p, pc.stream, 1, &t, 1, out), MLSYS_E_CALLBACK,
              "run: step 0 (custom): custom op scale: run returned E_STATE: tired");
    pc_expect(mlsys_graph_interpret(g, pc.stream, 1, &t, 1, out), MLSYS_E_CALLBACK,
              "returned E_STATE: tired");
    pc_expect(mlsys_op_run(pc.stream, "scale", 2, (mlsys_tensor[]){t, NULL}, NULL, 1, out),
              MLSYS_E_CALLBACK, "tired");
    scale.sentence = NULL, scale.run_fails = MLSYS_E_NOMEM;
    pc_expect(mlsys_program_run(p, pc.stream, 1, &t, 1, out), MLSYS_E_CALLBACK,
              "run returned E_NOMEM");
    ck_assert_msg(!strstr(mlsys_last_error(), "tired"), "an old sentence: %s", mlsys_last_error());
    ck_assert_ptr_null(out[0]);
    scale.run_fails = MLSYS_OK;
    OK(mlsys_program_run(p, pc.stream, 1, &t, 1, out)); /* nothing is broken by a failure */
    OK(mlsys_graph_interpret(g, pc.stream, 1, &t, 1, want));
    require_same(1, out, want, "scale", "after failures");
    scale.infer_fails = MLSYS_E_SHAPE; /* a changed mind is seen when compiling */
    mlsys_program none;
    pc_expect(mlsys_graph_compile(g, pc.device_handle, NULL, &none), MLSYS_E_CALLBACK, "scale");
    ck_assert_ptr_null(none);
    pc_release(1, &t);
    pc_release(1, out);
    pc_release(1, want);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(custom_ops_die_with_the_context) {
    register_scale();
    pc_close(&pc);
    ck_assert_int_eq(scale.destroyed, 1);
    pc_open(&pc, 1);
}
END_TEST

/* What a callback must not do, and what each of these calls answered inside it. */
typedef struct nested_calls {
    mlsys_program program; /* on the same stream */
    mlsys_stream other;
    int runs;
    mlsys_status busy[6], other_stream;
    char sentence[128];
} nested_calls;

static mlsys_status nested_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                                 const int32_t *ndims, const int64_t *in_shapes, mlsys_config attrs,
                                 int32_t n_out, mlsys_dtype *out_dtypes, int32_t *out_ndims,
                                 int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, sizeof *in_shapes * 8);
    return MLSYS_OK;
}

static mlsys_status nested_run(void *user, mlsys_stream stream, int32_t n_in,
                               const mlsys_tensor *in, mlsys_config attrs, int32_t n_out,
                               const mlsys_tensor *out) {
    nested_calls *c = user;
    float host[4] = {0};
    mlsys_tensor result[1] = {0};
    (void)n_in, (void)attrs, (void)n_out;
    c->runs++;
    c->other_stream = mlsys_op_run(c->other, "neg", 1, in, NULL, 1, result);
    if (c->other_stream == MLSYS_OK)
        c->other_stream = mlsys_tensor_read(result[0], c->other, host, sizeof host);
    pc_release(1, result);
    void *y;
    if (mlsys_tensor_data(out[0], &y, NULL) != MLSYS_OK) return mlsys_last_status();
    memcpy(y, host, sizeof host);
    c->busy[0] = mlsys_tensor_read(in[0], stream, host, sizeof host);
    c->busy[1] = mlsys_tensor_write(out[0], stream, host, sizeof host);
    c->busy[2] = mlsys_tensor_copy(out[0], in[0], stream);
    c->busy[3] = mlsys_op_run(stream, "neg", 1, in, NULL, 1, result);
    c->busy[4] = mlsys_program_run(c->program, stream, 1, in, 1, result);
    c->busy[5] = mlsys_stream_sync(stream);
    snprintf(c->sentence, sizeof c->sentence, "%s", mlsys_last_error());
    return MLSYS_OK;
}

static void expect_nested(nested_calls *c, mlsys_status st, mlsys_tensor *out) {
    OK(st);
    ck_assert_int_eq(c->runs, 1);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(c->busy[i] == MLSYS_E_BUSY, "call %d: %s", i, mlsys_status_name(c->busy[i]));
    ck_assert_str_eq(c->sentence, "stream_sync: stream: the stream is in use by another call");
    ck_assert_int_eq(c->other_stream, MLSYS_OK);
    for (int i = 0; i < 4; i++) /* what the refused calls did not touch */
        ck_assert(((const float *)rg_view(out[0]).data)[i] == (float)-(i + 1));
    pc_release(1, out);
    c->runs = 0;
    memset(c->busy, 0, sizeof c->busy);
}

START_TEST(the_stream_is_busy_inside_a_custom_op) {
    nested_calls c = {0};
    mlsys_opdef d;
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "nested", d.user = &c, d.n_in = 1, d.n_out = 1;
    d.infer = nested_infer, d.run = nested_run;
    OK(mlsys_op_register(pc.ctx_handle, &d));
    mlsys_graph inner =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n"
                      "  %1 = exp(%0) : f32[4]\n  output \"\" %1\n}\n");
    mlsys_graph g = pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n"
                                  "  %1 = custom \"nested\"(%0) : f32[4]\n  output \"\" %1\n}\n");
    c.program = pc_compile(&pc, inner, "");
    mlsi_graph *inside; /* it has no gradient, and says so */
    int32_t x0 = 0, y0 = 1, dx = 0;
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    pc_expect(mlsi_gradient(inside, 0, 1, &y0, NULL, 1, &x0, &dx), MLSYS_E_UNSUPPORTED,
              "gradient: nested cannot be differentiated");
    mlsi_unpin(inside);
    OK(mlsys_stream_create(pc.device_handle, NULL, &c.other));
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor x = pc_f32(&pc, 4, (const float[]){1, 2, 3, 4}), out[1] = {0};
    expect_nested(&c, mlsys_program_run(p, pc.stream, 1, &x, 1, out), out);
    expect_nested(&c, mlsys_graph_interpret(g, pc.stream, 1, &x, 1, out), out);
    expect_nested(&c, mlsys_op_run(pc.stream, "nested", 1, &x, NULL, 1, out), out);
    OK(mlsys_stream_sync(pc.stream)); /* and free again afterwards */
    pc_release(1, &x);
    OK(mlsys_release(p));
    OK(mlsys_release(c.program));
    OK(mlsys_release(c.other));
    OK(mlsys_release(g));
    OK(mlsys_release(inner));
}
END_TEST

/* ---- two threads ----------------------------------------------------------------------------------------- */

enum { RUNS = 60, THREADS = 3 };

static mlsys_program shared_program;
static mlsys_tensor shared_weight;

typedef struct worker {
    int number, failures;
    mlsys_tensor want[4], in[4];
} worker;

static void *work(void *user) {
    worker *w = user;
    mlsys_stream stream;
    if (mlsys_stream_create(pc.device_handle, NULL, &stream) != MLSYS_OK)
        return w->failures++, NULL;
    for (int i = 0; i < RUNS; i++) {
        mlsys_tensor in[2] = {w->in[i % 4], shared_weight}, out[1] = {NULL};
        if (mlsys_program_run(shared_program, stream, 2, in, 1, out) != MLSYS_OK ||
            rg_difference(out[0], w->want[i % 4]) >= 0)
            w->failures++;
        mlsys_release(out[0]);
    }
    mlsys_release(stream);
    return NULL;
}

/* One program and one constant weight, a stream for each thread, extents that differ from run to run. */
START_TEST(threads_share_a_program) {
    mlsys_graph g =
        pc_parse(&pc, "symbol L 1 40 1\nfunctions 1\nfunc 0 \"main\" {\n"
                      "  %0 = input \"x\" : f32[L,16]\n  %1 = input \"w\" : f32[16,16]\n"
                      "  %2 = matmul(%0, %1) : f32[L,16]\n  %3 = softmax(%2) : f32[L,16]\n"
                      "  %4 = transpose(%3) {perm=[1,0]} : f32[16,L]\n"
                      "  %5 = matmul(%4, %3) : f32[16,16]\n  %6 = exp(%5) : f32[16,16]\n"
                      "  output \"\" %6\n}\n");
    worker w[THREADS] = {{0}};
    pthread_t threads[THREADS];
    kc_rng r = kc_seed(77);
    shared_program = pc_compile(&pc, g, "");
    shared_weight = pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){16, 16});
    for (int t = 0; t < THREADS; t++) {
        w[t].number = t;
        for (int k = 0; k < 4; k++) {
            w[t].in[k] =
                pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){1 + 13 * ((t + k) % 4), 16});
            mlsys_tensor in[2] = {w[t].in[k], shared_weight};
            OK(mlsys_graph_interpret(g, pc.stream, 2, in, 1, &w[t].want[k]));
        }
    }
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, work, &w[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        ck_assert_int_eq(w[t].failures, 0);
        pc_release(4, w[t].in);
        pc_release(4, w[t].want);
    }
    pc_release(1, &shared_weight);
    OK(mlsys_release(shared_program));
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("program ops");
    TCase *tc = tcase_create("ops");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, all_roads_give_the_same_bits);
    tcase_add_test(tc, custom_ops_in_programs);
    tcase_add_test(tc, custom_ops_eager);
    tcase_add_test(tc, failing_custom_ops);
    tcase_add_test(tc, the_stream_is_busy_inside_a_custom_op);
    tcase_add_test(tc, custom_ops_die_with_the_context);
    tcase_add_test(tc, threads_share_a_program);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
