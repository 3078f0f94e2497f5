/* mlsys_opdef.gradient: rules from C give the bits of built-in ops, differentiate again, work inside functions, and
 * can neither corrupt the graph nor reach around the calls that they may make. */
#include "support/program_case.h"

#include <pthread.h>
#include <string.h>

static program_case pc;

typedef enum misdeed {
    BEHAVE,
    WRONG_TYPE,
    MADE_UP,
    FAIL,
    FAIL_SILENTLY,
    RELEASE,
    KEEP,
    REACH_OUT,
    OTHER_THREAD,
    DOUBLE
} misdeed;

/* What a rule was called with, and what it is to do wrong. */
static struct {
    misdeed misdeed;
    int calls, wanted[2], has_dout[2];
    int64_t attr, extent;
    mlsys_graph kept, outer;
    mlsys_value value;
    mlsys_status from_thread;
} seen;

/* ---- ops ------------------------------------------------------------------------------------ */

static mlsys_status same_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                               const int32_t *ndims, const int64_t *in_shapes, mlsys_config attrs,
                               int32_t n_out, mlsys_dtype *out_dtypes, int32_t *out_ndims,
                               int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs;
    for (int o = 0; o < n_out; o++) {
        out_dtypes[o] = dtypes[0];
        out_ndims[o] = ndims[0];
        memcpy(out_shapes + 8 * o, in_shapes, sizeof *in_shapes * 8);
    }
    return MLSYS_OK;
}

/* out[0] = x * w, out[1] = x + w of equal shapes; with one operand x * x. */
static mlsys_status pair_run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                             mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    const float *x = rg_view(in[0]).data, *w = rg_view(in[n_in - 1]).data;
    mlsi_view v = rg_view(in[0]);
    int64_t n = mlsi_view_count(&v);
    (void)user, (void)stream, (void)attrs;
    for (int64_t i = 0; v.dtype == MLSYS_F64 && i < n; i++) {
        const double *a = (const double *)x, *b = (const double *)w;
        double product = a[i] * b[i], sum = a[i] + b[i];
        ((double *)rg_view(out[0]).data)[i] = product;
        if (n_out > 1) ((double *)rg_view(out[1]).data)[i] = sum;
    }
    if (v.dtype == MLSYS_F64) return MLSYS_OK;
    for (int64_t i = 0; i < n; i++) {
        float product = x[i] * w[i], sum = x[i] + w[i];
        ((float *)rg_view(out[0]).data)[i] = product;
        if (n_out > 1) ((float *)rg_view(out[1]).data)[i] = sum;
    }
    return MLSYS_OK;
}

static mlsys_value emit(mlsys_graph g, const char *op, mlsys_value a, mlsys_value b) {
    mlsys_value in[2] = {a, b}, out;
    OK(mlsys_graph_op(g, op, 2, in, NULL, 1, &out));
    return out;
}

static void *from_thread(void *g) {
    mlsys_value in[2] = {seen.value, seen.value}, out;
    seen.from_thread = mlsys_graph_op(g, "mul", 2, in, NULL, 1, &out);
    return NULL;
}

/* Calls that a rule may not make. */
static void reach_out(mlsys_graph g, mlsys_value x) {
    mlsys_value v = x, out;
    mlsys_dim dim;
    mlsys_program p;
    char text[64];
    pc_expect(mlsys_graph_input(g, "sneaked", MLSYS_F32, 0, NULL, &out), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_symbol(g, "S", 1, 2, 1, &dim), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_output(g, "sneaked", x), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_donate(g, x), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_print(g, text, sizeof text, NULL), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_verify(g), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_compile(g, pc.device_handle, NULL, &p), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_gradient(g, 1, &v, NULL, 1, &v, NULL, &out), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_control(g, "call", g, NULL, 1, &v, 1, &out), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_output(seen.outer, "sneaked", x), MLSYS_E_BUSY, "in use");
    pc_expect(mlsys_graph_op(seen.outer, "neg", 1, &v, NULL, 1, &out), MLSYS_E_BUSY, "in use");
}

static mlsys_status misbehave(mlsys_graph g, const mlsys_value *in, mlsys_value *din) {
    pthread_t t;
    switch (seen.misdeed) {
    case WRONG_TYPE: {
        mlsys_config c;
        OK(mlsys_config_create(&c));
        OK(mlsys_config_set_str(c, "dtype", "f64"));
        OK(mlsys_graph_op(g, "cast", 1, in, c, 1, &din[0]));
        OK(mlsys_release(c));
        return MLSYS_OK;
    }
    case MADE_UP: din[0] = in[0] + 1000; return MLSYS_OK;
    case FAIL: return mlsys_set_error(MLSYS_E_ARG, "no luck today");
    case FAIL_SILENTLY: return MLSYS_E_TIMEOUT;
    case RELEASE: OK(mlsys_release(g)); return MLSYS_OK;
    case KEEP: OK(mlsys_retain(seen.kept = g)); break;
    case REACH_OUT: reach_out(g, in[0]); break;
    case OTHER_THREAD:
        seen.value = in[0];
        if (pthread_create(&t, NULL, from_thread, g) || pthread_join(t, NULL)) return MLSYS_E_STATE;
        break;
    default: break;
    }
    return MLSYS_OK;
}

/* din = dout[0] * other + dout[1]; the operand twice with one operand. */
static mlsys_status pair_gradient(void *user, mlsys_graph g, int32_t n_in, const mlsys_value *in,
                                  mlsys_config attrs, int32_t n_out, const mlsys_value *out,
                                  const mlsys_value *dout, const int32_t *wanted,
                                  mlsys_value *din) {
    mlsys_dim shape[8];
    mlsys_dtype t;
    int32_t rank;
    (void)user, (void)out;
    seen.calls++;
    OK(mlsys_graph_type(g, in[0], &t, 8, shape, &rank));
    seen.extent = rank ? shape[0] : 0;
    if (attrs) OK(mlsys_config_get_i64(attrs, "tag", &seen.attr));
    for (int k = 0; k < 2; k++) {
        seen.wanted[k] = k < n_in && wanted[k];
        seen.has_dout[k] = k < n_out && dout[k] != 0;
    }
    if (seen.misdeed != BEHAVE) {
        mlsys_status st = misbehave(g, in, din);
        if (st != MLSYS_OK || din[0] || seen.misdeed == RELEASE) return st;
    }
    for (int k = 0; k < n_in; k++) {
        if (!wanted[k]) continue;
        if (dout[0]) din[k] = emit(g, "mul", dout[0], in[n_in - 1 - k]);
        if (n_in == 1) din[k] = emit(g, "add", din[k], din[k]);
        if (seen.misdeed == DOUBLE && din[k]) din[k] = emit(g, "add", din[k], din[k]);
        if (n_out > 1 && dout[1]) din[k] = din[k] ? emit(g, "add", din[k], dout[1]) : dout[1];
    }
    return MLSYS_OK;
}

static void add_op(const char *name, int n_in, int n_out, int has_gradient) {
    mlsys_opdef d;
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = name;
    d.n_in = n_in;
    d.n_out = n_out;
    d.infer = same_infer;
    d.run = pair_run;
    if (has_gradient) d.gradient = pair_gradient;
    OK(mlsys_op_register(pc.ctx_handle, &d));
}

static void setup(void) {
    pc_open(&pc, 2);
    memset(&seen, 0, sizeof seen);
    add_op("pair", 2, 2, 1);
    add_op("square", 1, 1, 1);
    add_op("no_rule", 1, 1, 0);
}
static void teardown(void) { pc_close(&pc); }

/* ---- values --------------------------------------------------------------------------------- */

static mlsys_value input(mlsys_graph g, const char *name, mlsys_dim extent) {
    mlsys_value v;
    OK(mlsys_graph_input(g, name, MLSYS_F32, 1, &extent, &v));
    return v;
}

/* sum of what a graph of two inputs computes, and its gradients by both, by one program. */
static void run2(mlsys_graph g, int n_out, float out[][4]) {
    static const float x[4] = {0.5f, -3, 7.25f, 1e-3f}, w[4] = {2, 0.1f, -1.5f, 0};
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor in[2] = {pc_f32(&pc, 4, x), pc_f32(&pc, 4, w)}, result[8] = {0};
    OK(mlsys_program_run(p, pc.stream, 2, in, n_out, result));
    for (int i = 0; i < n_out; i++)
        memcpy(out[i], rg_view(result[i]).data, sizeof out[i]);
    pc_release(2, in);
    pc_release(n_out, result);
    OK(mlsys_release(p));
}

static mlsys_graph graph(mlsys_value v[2]) {
    mlsys_graph g;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    v[0] = input(g, "x", 4);
    v[1] = input(g, "w", 4);
    return g;
}

static void outputs(mlsys_graph g, int n, const mlsys_value *v) {
    for (int i = 0; i < n; i++)
        OK(mlsys_graph_output(g, NULL, v[i]));
}

/* y = (x w) * (x + w), by pair or by built-in ops; dx, dw, and d dx / dw. */
static mlsys_graph product_of_pair(int custom) {
    mlsys_value v[2], two[2], y, d[3];
    mlsys_graph g = graph(v);
    if (custom) {
        OK(mlsys_graph_op(g, "pair", 2, v, NULL, 2, two));
    } else {
        two[0] = emit(g, "mul", v[0], v[1]);
        two[1] = emit(g, "add", v[0], v[1]);
    }
    y = emit(g, "mul", two[0], two[1]);
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 2, v, NULL, d));
    OK(mlsys_graph_gradient(g, 1, &d[0], NULL, 1, &v[1], NULL, &d[2]));
    outputs(g, 3, d);
    OK(mlsys_graph_verify(g));
    return g;
}

START_TEST(the_values_of_built_in_ops) {
    float got[3][4], want[3][4];
    mlsys_graph g = product_of_pair(1), plain = product_of_pair(0);
    ck_assert_int_eq(seen.calls, 2); /* once for each gradient */
    run2(g, 3, got);
    run2(plain, 3, want);
    for (int i = 0; i < 12; i++) /* sums are in another order */
        ck_assert_msg(got[i / 4][i % 4] - want[i / 4][i % 4] < 1e-5f &&
                          want[i / 4][i % 4] - got[i / 4][i % 4] < 1e-5f,
                      "%d: %g, expected %g", i, (double)got[i / 4][i % 4],
                      (double)want[i / 4][i % 4]);
    OK(mlsys_release(g));
    OK(mlsys_release(plain));
}
END_TEST

START_TEST(only_what_is_asked_for) {
    mlsys_value v[2], two[2], d[2];
    mlsys_config c;
    mlsys_graph g = graph(v);
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "tag", 42));
    OK(mlsys_graph_op(g, "pair", 2, v, c, 2, two));
    OK(mlsys_release(c));
    OK(mlsys_graph_gradient(g, 1, &two[1], NULL, 1, &v[1], NULL, d));
    ck_assert_int_eq(seen.calls, 1);
    ck_assert(!seen.wanted[0] && seen.wanted[1] && !seen.has_dout[0] && seen.has_dout[1]);
    ck_assert_int_eq(seen.attr, 42);
    OK(mlsys_graph_gradient(g, 1, &two[0], NULL, 2, v, NULL, d));
    ck_assert(seen.wanted[0] && seen.wanted[1] && seen.has_dout[0] && !seen.has_dout[1]);
    OK(mlsys_release(g));
}
END_TEST

START_TEST(derivatives_of_derivatives) {
    float got[3][4];
    mlsys_value v[2], y, d[3];
    mlsys_graph g = graph(v);
    OK(mlsys_graph_op(g, "square", 1, v, NULL, 1, &y));
    OK(mlsys_graph_op(g, "square", 1, &y, NULL, 1, &y));
    mlsys_value by = y;
    for (int i = 0; i < 3; i++) {
        OK(mlsys_graph_gradient(g, 1, &by, NULL, 1, v, NULL, &d[i]));
        by = d[i];
    }
    outputs(g, 3, d);
    run2(g, 3, got);
    static const float x[4] = {0.5f, -3, 7.25f, 1e-3f};
    for (int i = 0; i < 4; i++) {
        float want[3] = {4 * x[i] * x[i] * x[i], 12 * x[i] * x[i], 24 * x[i]};
        for (int k = 0; k < 3; k++)
            ck_assert_float_eq_tol(got[k][i], want[k], 1e-5f * (want[k] < 0 ? -want[k] : want[k]));
    }
    OK(mlsys_release(g));
}
END_TEST

/* square inside a function: its values are not those of main. kind call, if (both branches) or while (3 turns). */
static void inside(const char *kind, float want) {
    mlsys_value v[2], in[3], out[2], y, d;
    mlsys_graph f, cond, g = graph(v);
    float got[1][4];
    mlsys_dim four = 4;
    OK(mlsys_graph_create(pc.ctx_handle, &f));
    OK(mlsys_graph_create(pc.ctx_handle, &cond));
    int loop = !strcmp(kind, "while");
    mlsys_value i = 0, a, b, one, three;
    int64_t n1 = 1, n3 = 3;
    mlsys_tensor t1 = pc_tensor(&pc, MLSYS_I64, 0, NULL, &n1),
                 t3 = pc_tensor(&pc, MLSYS_I64, 0, NULL, &n3);
    if (loop) OK(mlsys_graph_input(f, "i", MLSYS_I64, 0, NULL, &i));
    OK(mlsys_graph_input(f, "a", MLSYS_F32, 1, &four, &a));
    OK(mlsys_graph_op(f, "square", 1, &a, NULL, 1, &b));
    if (loop) {
        OK(mlsys_graph_const(f, t1, &one));
        OK(mlsys_graph_output(f, NULL, emit(f, "add", i, one)));
        OK(mlsys_graph_input(cond, "i", MLSYS_I64, 0, NULL, &i));
        OK(mlsys_graph_input(cond, "a", MLSYS_F32, 1, &four, &a));
        OK(mlsys_graph_const(cond, t3, &three));
        OK(mlsys_graph_output(cond, NULL, emit(cond, "lt", i, three)));
    }
    OK(mlsys_graph_output(f, NULL, b));
    in[0] = in[1] = v[0];
    if (loop) OK(mlsys_graph_const(g, t1, &in[0])); /* from 1: two turns */
    if (!strcmp(kind, "if")) in[0] = emit(g, "eq", in[0], in[0]);
    if (!strcmp(kind, "if")) {
        mlsys_config c;
        OK(mlsys_config_create(&c));
        OK(mlsys_config_set_i64s(c, "axes", 1, (int64_t[]){0}));
        OK(mlsys_graph_op(g, "reduce_and", 1, &in[0], c, 1, &in[2]));
        in[0] = in[2];
        OK(mlsys_release(c));
    }
    if (loop)
        OK(mlsys_graph_control(g, kind, cond, f, 2, in, 2, out));
    else if (!strcmp(kind, "if"))
        OK(mlsys_graph_control(g, kind, f, f, 2, in, 1, out));
    else
        OK(mlsys_graph_control(g, kind, f, NULL, 1, in, 1, out));
    y = out[loop];
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &d));
    OK(mlsys_graph_verify(g));
    outputs(g, 1, &d);
    run2(g, 1, got);
    ck_assert_msg(got[0][0] == want, "%s: %g, expected %g", kind, (double)got[0][0], (double)want);
    pc_release(1, &t1);
    pc_release(1, &t3);
    OK(mlsys_release(f));
    OK(mlsys_release(cond));
    OK(mlsys_release(g));
}

START_TEST(inside_functions) {
    inside("call", 1); /* 2 x at 0.5 */
    inside("if", 1);
    inside("while", 0.5f); /* x^4: 4 x^3 */
}
END_TEST

/* The public check, for rules of the user's too: right, and wrong by a factor. */
START_TEST(checked_against_differences) {
    const double x[4] = {0.5, -1, 2, 0.25};
    mlsys_graph g;
    mlsys_value v[2], two[2];
    mlsys_dim four = 4;
    mlsys_tensor in[2] = {pc_tensor(&pc, MLSYS_F64, 1, &four, x),
                          pc_tensor(&pc, MLSYS_F64, 1, &four, x)};
    mlsys_gradient_report r = {.size = sizeof r};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F64, 1, &four, &v[0]));
    OK(mlsys_graph_input(g, "w", MLSYS_F64, 1, &four, &v[1]));
    OK(mlsys_graph_op(g, "pair", 2, v, NULL, 2, two));
    OK(mlsys_graph_output(g, NULL, emit(g, "mul", two[0], two[1])));
    OK(mlsys_graph_check_gradient(g, 2, in, NULL, &r));
    ck_assert_int_eq(r.checked, 8);
    seen.misdeed = DOUBLE;
    pc_expect(mlsys_graph_check_gradient(g, 2, in, NULL, &r), MLSYS_E_ARG, "difference quotient");
    OK(mlsys_release(g));
    pc_release(2, in);
}
END_TEST

START_TEST(symbolic_shapes) {
    mlsys_graph g;
    mlsys_dim b;
    mlsys_value x, y, d;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_symbol(g, "B", 1, 8, 1, &b));
    x = input(g, "x", b);
    OK(mlsys_graph_op(g, "square", 1, &x, NULL, 1, &y));
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, &x, NULL, &d));
    ck_assert(seen.extent == b);
    OK(mlsys_release(g));
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

static void refused(misdeed m, mlsys_status code, const char *part) {
    static char before[4096], after[4096];
    mlsys_value v[2], y, d = 77;
    mlsys_graph g = graph(v);
    OK(mlsys_graph_op(g, "square", 1, v, NULL, 1, &y));
    OK(mlsys_graph_print(g, before, sizeof before, NULL));
    seen.misdeed = m;
    seen.outer = g;
    pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &d), code, part);
    ck_assert_int_eq(d, 0);
    OK(mlsys_graph_print(g, after, sizeof after, NULL));
    ck_assert_str_eq(before, after);
    OK(mlsys_graph_verify(g));
    seen.misdeed = BEHAVE;
    OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &d));
    OK(mlsys_release(g));
}

START_TEST(what_a_rule_may_get_wrong) {
    refused(WRONG_TYPE, MLSYS_E_CALLBACK,
            "custom op square: gradient: din[0] is f64[4], the operand is f32[4]");
    refused(MADE_UP, MLSYS_E_CALLBACK, "custom op square: gradient: din[0]");
    refused(FAIL, MLSYS_E_CALLBACK, "custom op square: gradient returned E_ARG: no luck today");
    refused(FAIL_SILENTLY, MLSYS_E_CALLBACK, "custom op square: gradient returned E_TIMEOUT");
    refused(RELEASE, MLSYS_E_CALLBACK, "square: gradient released the graph");
    mlsys_value v[2], y, d;
    mlsys_graph g = graph(v);
    OK(mlsys_graph_op(g, "no_rule", 1, v, NULL, 1, &y));
    pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &d), MLSYS_E_UNSUPPORTED,
              "no_rule cannot be differentiated");
    OK(mlsys_release(g));
}
END_TEST

START_TEST(what_a_rule_cannot_reach) {
    mlsys_value v[2], y, d;
    mlsys_graph g = graph(v);
    char text[4096];
    OK(mlsys_graph_op(g, "square", 1, v, NULL, 1, &y));
    seen.outer = g;
    for (seen.misdeed = KEEP; seen.misdeed <= OTHER_THREAD; seen.misdeed++) {
        OK(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &d));
        ck_assert(d != 0);
    }
    ck_assert_int_eq(seen.from_thread, MLSYS_E_BUSY);
    OK(mlsys_graph_print(g, text, sizeof text, NULL));
    ck_assert(!strstr(text, "sneaked"));
    /* What was kept is an empty graph of its own: values of the rule mean nothing there. */
    OK(mlsys_graph_print(seen.kept, text, sizeof text, NULL));
    ck_assert(!strstr(text, "%0"));
    pc_expect(mlsys_graph_op(seen.kept, "neg", 1, &seen.value, NULL, 1, &y), MLSYS_E_ARG,
              "not a value of this graph");
    OK(mlsys_release(g));
    OK(mlsys_release(seen.kept));
}
END_TEST

/* A program that was compiled before the field was there. */
START_TEST(an_older_struct_has_no_rule) {
    mlsys_opdef d;
    mlsys_value v[2], y, dx;
    OK(mlsys_opdef_init(&d, sizeof d));
    d.size = offsetof(mlsys_opdef, gradient);
    d.name = "older";
    d.n_in = d.n_out = 1;
    d.infer = same_infer;
    d.run = pair_run;
    d.gradient = pair_gradient; /* behind its size */
    OK(mlsys_op_register(pc.ctx_handle, &d));
    mlsys_graph g = graph(v);
    OK(mlsys_graph_op(g, "older", 1, v, NULL, 1, &y));
    pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, 1, v, NULL, &dx), MLSYS_E_UNSUPPORTED, "older");
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("custom_gradient");
    TCase *tc = tcase_create("custom_gradient");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_values_of_built_in_ops);
    tcase_add_test(tc, only_what_is_asked_for);
    tcase_add_test(tc, derivatives_of_derivatives);
    tcase_add_test(tc, inside_functions);
    tcase_add_test(tc, checked_against_differences);
    tcase_add_test(tc, symbolic_shapes);
    tcase_add_test(tc, what_a_rule_may_get_wrong);
    tcase_add_test(tc, what_a_rule_cannot_reach);
    tcase_add_test(tc, an_older_struct_has_no_rule);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
