/* BO-06: nothing that a caller does to its floating-point state changes a result, and nothing that
 * the library does changes that state. */
#include <mlsys/mlsys.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

typedef struct fp_state {
    uint32_t mxcsr;
    uint16_t x87;
} fp_state;

static fp_state fp_get(void) {
    fp_state s = {.mxcsr = _mm_getcsr()};
    __asm__ volatile("fnstcw %0" : "=m"(s.x87));
    return s;
}

static void fp_set(fp_state s) {
    _mm_setcsr(s.mxcsr);
    __asm__ volatile("fldcw %0" : : "m"(s.x87));
}

static const fp_state normal = {0x1f80, 0x037f};
static const struct {
    const char *name;
    fp_state state;
} states[] = {
    {"default", {0x1f80, 0x037f}},
    {"flush to zero", {0x1f80 | 0x8040, 0x037f}},
    {"upward", {0x1f80 | 0x4000, 0x0b7f}},
    {"downward, flush to zero", {0x1f80 | 0x2000 | 0x8040, 0x077f}},
    {"toward zero, 24-bit x87, sticky flags", {0x1f80 | 0x6000 | 0x3f, 0x0c7f}},
};
enum { STATES = (int)(sizeof states / sizeof states[0]), N = 64, OUTPUTS = 6 };

/* One failure is remembered instead of asserted: the checker must not run in an odd state. */
static mlsys_status failed;
static char failure[256];
static fp_state expected;
static int changed;

static float data[N]; /* filled before the state is set: arithmetic raises flags */

static void fill_data(void) {
    for (int i = 0; i < N; i++) /* subnormals and values whose products need rounding */
        data[i] = i % 4 == 0 ? ldexpf((float)(i + 1), -140) : (float)(i - 30) * 0x1.19999ap-3f;
}

static int step(mlsys_status st) {
    fp_state now = fp_get();
    if (now.mxcsr != expected.mxcsr || now.x87 != expected.x87) changed++;
    if (st == MLSYS_OK || failed) return st;
    failed = st;
    strncpy(failure, mlsys_last_error(), sizeof failure - 1);
    return st;
}

typedef struct results {
    float v[OUTPUTS][N];
    uint64_t text_hash;
} results;

static void text_of(mlsys_graph g, results *r) {
    char text[4096];
    uint64_t need;
    if (step(mlsys_graph_print(g, text, sizeof text, &need))) return;
    r->text_hash = 14695981039346656037ull;
    for (const char *p = text; *p; p++)
        r->text_hash = (r->text_hash ^ (unsigned char)*p) * 1099511628211ull;
}

/* y = softmax(exp(x) * 0.1), z = (x * c) @ x, with c folded from constants. */
static void build(mlsys_ctx ctx, mlsys_tensor c, mlsys_graph *g) {
    mlsys_value x, k, e, p, y, xc, cc, z;
    mlsys_dim shape[2] = {8, 8};
    if (step(mlsys_graph_create(ctx, g)) ||
        step(mlsys_graph_input(*g, "x", MLSYS_F32, 2, shape, &x)) ||
        step(mlsys_graph_const(*g, c, &k)) || step(mlsys_graph_op(*g, "exp", 1, &x, NULL, 1, &e)) ||
        step(mlsys_graph_op(*g, "mul", 2, (mlsys_value[]){e, k}, NULL, 1, &p)) ||
        step(mlsys_graph_op(*g, "softmax", 1, &p, NULL, 1, &y)) ||
        step(mlsys_graph_op(*g, "mul", 2, (mlsys_value[]){k, k}, NULL, 1, &cc)) || /* folds */
        step(mlsys_graph_op(*g, "mul", 2, (mlsys_value[]){x, cc}, NULL, 1, &xc)) ||
        step(mlsys_graph_op(*g, "matmul", 2, (mlsys_value[]){xc, x}, NULL, 1, &z)) ||
        step(mlsys_graph_output(*g, "y", y)))
        return;
    step(mlsys_graph_output(*g, "z", z));
}

static void run_all(int threads, results *r) {
    mlsys_config config = NULL;
    mlsys_ctx ctx = NULL;
    mlsys_device d = NULL;
    mlsys_stream s = NULL;
    mlsys_tensor x = NULL, c = NULL, o[OUTPUTS] = {NULL};
    mlsys_graph g = NULL;
    mlsys_program p = NULL;
    int64_t shape[2] = {8, 8};
    if (step(mlsys_config_create(&config)) ||
        step(mlsys_config_set_i64(config, "threads", threads)) ||
        step(mlsys_ctx_create(config, NULL, &ctx)) ||
        step(mlsys_device_get(ctx, MLSYS_CPU, 0, &d)) || step(mlsys_stream_create(d, NULL, &s)) ||
        step(mlsys_tensor_create(d, MLSYS_F32, 2, shape, &x)) ||
        step(mlsys_tensor_create(d, MLSYS_F32, 2, shape, &c)) ||
        step(mlsys_tensor_write(x, s, data, sizeof data)) ||
        step(mlsys_tensor_random(c, s, "normal", 3, 4)))
        goto end;
    build(ctx, c, &g);
    if (failed) goto end;
    text_of(g, r);
    step(mlsys_graph_compile(g, d, NULL, &p));
    if (p) step(mlsys_program_run(p, s, 1, &x, 2, &o[0]));
    step(mlsys_graph_interpret(g, s, 1, &x, 2, &o[2]));
    step(mlsys_op_run(s, "mul", 2, (mlsys_tensor[]){x, c}, NULL, 1, &o[4]));
    step(mlsys_op_run(s, "exp", 1, &c, NULL, 1, &o[5]));
    for (int i = 0; i < OUTPUTS && !failed; i++)
        step(mlsys_tensor_read(o[i], s, r->v[i], sizeof r->v[i]));
end:
    for (int i = 0; i < OUTPUTS; i++)
        step(mlsys_release(o[i]));
    step(mlsys_release(p));
    step(mlsys_release(g));
    step(mlsys_release(x));
    step(mlsys_release(c));
    step(mlsys_release(s));
    step(mlsys_release(d));
    step(mlsys_release(ctx));
    step(mlsys_release(config));
}

START_TEST(results_do_not_depend_on_the_callers_state) {
    static results want, got;
    fill_data();
    for (int threads = 1; threads <= 3; threads += 2)
        for (int i = 0; i < STATES; i++) {
            memset(&got, 0, sizeof got);
            failed = MLSYS_OK;
            changed = 0;
            expected = states[i].state;
            fp_set(expected);
            run_all(threads, &got);
            fp_set(normal);
            ck_assert_msg(!failed, "%s: %s: %s", states[i].name, mlsys_status_name(failed),
                          failure);
            ck_assert_msg(!changed, "%s: changed by %d calls", states[i].name, changed);
            if (threads == 1 && i == 0) want = got;
            for (int k = 0; k < OUTPUTS; k++)
                ck_assert_msg(!memcmp(got.v[k], want.v[k], sizeof got.v[k]),
                              "%s, %d threads: output %d differs", states[i].name, threads, k);
            ck_assert_msg(got.text_hash == want.text_hash, "%s: the text differs", states[i].name);
        }
    /* The inputs were not too easy: a product is subnormal. */
    ck_assert(fabsf(want.v[4][0]) > 0 && fabsf(want.v[4][0]) < 0x1p-126f);
}
END_TEST
#else
START_TEST(results_do_not_depend_on_the_callers_state) {}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("fp_state");
    TCase *t = tcase_create("fp_state");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, results_do_not_depend_on_the_callers_state);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures != 0;
}
