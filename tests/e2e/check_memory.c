/* Memory is known before a run: what mlsys_program_cost predicts is what a stream holds and a run
 * allocates, to the byte, and a run with reserved scratch and given outputs allocates nothing. */
#include "support/generation.h"
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 8, CONTEXT = 64, KV_HEADS = 2, HEAD = 16, CACHES = 4 };

static generation_world world;

typedef struct arguments {
    int n_in, n_out, n_given; /* the first outputs are always given: donated caches */
    mlsys_tensor in[MAX_ARGS], out[MAX_ARGS];
    mlsys_dtype dtype[MAX_ARGS]; /* of outputs */
    int32_t rank[MAX_ARGS];
    int64_t shape[MAX_ARGS][4];
} arguments;

typedef struct subject {
    const char *name, *symbol;
    int64_t max;
    void (*build)(mlsys_graph *out);
    void (*arguments)(int64_t n, arguments *a);
} subject;

/* ---- building -------------------------------------------------------------------------------- */

static mlsys_tensor tensor(mlsys_dtype dtype, int32_t rank, const int64_t *shape) {
    mlsys_tensor t;
    void *data;
    uint64_t bytes;
    check_ok(mlsys_tensor_create(world.device, dtype, rank, shape, &t));
    check_ok(mlsys_tensor_data(t, &data, &bytes));
    memset(data, 0, bytes);
    return t;
}

static mlsys_value op(mlsys_graph g, const char *name, int n, const mlsys_value *in,
                      mlsys_config attrs) {
    mlsys_value out;
    check_ok(mlsys_graph_op(g, name, n, in, attrs, 1, &out));
    check_ok(mlsys_release(attrs));
    return out;
}

/* x times a weight [n_in, n_out]. */
static mlsys_value project(mlsys_graph g, mlsys_value x, int64_t n_in, int64_t n_out) {
    const int64_t shape[2] = {n_in, n_out};
    mlsys_tensor t = tensor(MLSYS_F32, 2, shape);
    mlsys_value in[2] = {x, 0};
    check_ok(mlsys_tensor_random(t, world.stream, "normal", 3, (uint64_t)(n_in + n_out)));
    check_ok(mlsys_graph_const(g, t, &in[1]));
    check_ok(mlsys_release(t));
    return op(g, "matmul", 2, in, NULL);
}

static mlsys_value reshape(mlsys_graph g, mlsys_value x, int32_t rank, const mlsys_dim *shape) {
    mlsys_config c;
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_i64s(c, "shape", rank, shape));
    return op(g, "reshape", 1, &x, c);
}

static mlsys_value input(mlsys_graph g, const char *symbol, int64_t max, int64_t width,
                         mlsys_dim *n) {
    mlsys_value x;
    check_ok(mlsys_graph_symbol(g, symbol, 1, max, 1, n));
    const mlsys_dim shape[2] = {*n, width};
    check_ok(mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &x));
    return x;
}

/* Two outputs, so that one of them is alive while the other is made. */
static void build_mlp(mlsys_graph *out) {
    mlsys_dim n;
    check_ok(mlsys_graph_create(world.ctx, out));
    mlsys_value x = input(*out, "N", 96, 48, &n), h = project(*out, x, 48, 200);
    h = op(*out, "gelu", 1, &h, NULL);
    check_ok(mlsys_graph_output(*out, "hidden", project(*out, h, 200, 24)));
    h = project(*out, h, 200, 72);
    h = op(*out, "silu", 1, &h, NULL);
    check_ok(mlsys_graph_output(*out, "y", project(*out, h, 72, 40)));
}

static void mlp_arguments(int64_t n, arguments *a) {
    const int64_t x[2] = {n, 48};
    *a = (arguments){.n_in = 1,
                     .n_out = 2,
                     .dtype = {MLSYS_F32, MLSYS_F32},
                     .rank = {2, 2},
                     .shape = {{n, 24}, {n, 40}}};
    a->in[0] = tensor(MLSYS_F32, 2, x);
}

static void build_attention(mlsys_graph *out) {
    mlsys_dim n;
    mlsys_config c;
    check_ok(mlsys_graph_create(world.ctx, out));
    mlsys_value x = input(*out, "T", 80, 64, &n), qkv[3];
    const mlsys_dim heads[4] = {1, n, 4, 16}, flat[2] = {n, 64};
    for (int i = 0; i < 3; i++)
        qkv[i] = reshape(*out, project(*out, x, 64, 64), 4, heads);
    check_ok(mlsys_config_create(&c));
    check_ok(mlsys_config_set_str(c, "causal", "bottom_right"));
    mlsys_value o = reshape(*out, op(*out, "attention", 3, qkv, c), 2, flat);
    mlsys_value sum[2] = {x, project(*out, o, 64, 64)};
    check_ok(mlsys_graph_output(*out, "y", op(*out, "add", 2, sum, NULL)));
}

static void attention_arguments(int64_t n, arguments *a) {
    const int64_t x[2] = {n, 64};
    *a = (arguments){.n_in = 1, .n_out = 1, .dtype = {MLSYS_F32}, .rank = {2}, .shape = {{n, 64}}};
    a->in[0] = tensor(MLSYS_F32, 2, x);
}

static void build_language_model(mlsys_graph *out) {
    mlsys_config c = generation_config(
        OPTIONS(INT("context", CONTEXT), INT("chunk", CONTEXT), STR("logits", "all")));
    check_ok(mlsys_model_graph(world.model, c, out));
    check_ok(mlsys_release(c));
}

static void language_model_arguments(int64_t n, arguments *a) {
    const int64_t tokens[2] = {1, n}, cache[4] = {1, CONTEXT, KV_HEADS, HEAD};
    *a = (arguments){.n_in = 2 + CACHES, .n_out = CACHES + 1, .n_given = CACHES};
    a->in[0] = tensor(MLSYS_I32, 2, tokens);
    a->in[1] = tensor(MLSYS_I64, 0, NULL);
    for (int i = 0; i < CACHES; i++) {
        a->in[2 + i] = a->out[i] = tensor(MLSYS_F32, 4, cache);
        check_ok(mlsys_retain(a->out[i]));
    }
    a->dtype[CACHES] = MLSYS_F32;
    a->rank[CACHES] = 3;
    a->shape[CACHES][0] = 1, a->shape[CACHES][1] = n, a->shape[CACHES][2] = TINY_VOCAB;
}

static const subject subjects[] = {
    {"mlp", "N", 96, build_mlp, mlp_arguments},
    {"attention", "T", 80, build_attention, attention_arguments},
    {"language model", "L", CONTEXT, build_language_model, language_model_arguments}};
enum { N_SUBJECTS = 3 };

static mlsys_program compile(const subject *s, int plan) {
    mlsys_graph g;
    mlsys_program p;
    mlsys_config c = generation_config(OPTIONS(INT("plan", plan)));
    s->build(&g);
    check_ok(mlsys_graph_compile(g, world.device, c, &p));
    check_ok(mlsys_release(c));
    check_ok(mlsys_release(g));
    return p;
}

static void release_arguments(arguments *a) {
    for (int i = 0; i < a->n_in; i++)
        check_ok(mlsys_release(a->in[i]));
    for (int i = 0; i < a->n_out; i++)
        check_ok(mlsys_release(a->out[i]));
}

/* ---- measuring ------------------------------------------------------------------------------- */

static mlsys_stats stats(void) {
    mlsys_stats s = {.size = sizeof s};
    check_ok(mlsys_ctx_stats(world.ctx, &s));
    return s;
}

static uint64_t scratch_of(mlsys_stream s) {
    uint64_t bytes;
    check_ok(mlsys_stream_scratch_bytes(s, &bytes));
    return bytes;
}

static uint64_t predicted_peak(mlsys_program p, const subject *s, int64_t n) {
    mlsys_cost cost = {.size = sizeof cost};
    check_ok(mlsys_program_cost(p, 1, &s->symbol, &n, &cost));
    return cost.peak_bytes;
}

/* A run on a fresh stream that makes its outputs: scratch and outputs add up to the prediction. */
static void measure(mlsys_program p, const subject *s, int64_t n) {
    arguments a;
    mlsys_stream stream;
    uint64_t made = 0, bytes;
    void *data;
    s->arguments(n, &a);
    check_ok(mlsys_stream_create(world.device, NULL, &stream));
    ck_assert_uint_eq(scratch_of(stream), 0);
    check_ok(mlsys_program_run(p, stream, a.n_in, a.in, a.n_out, a.out));
    for (int i = a.n_given; i < a.n_out; i++) {
        check_ok(mlsys_tensor_data(a.out[i], &data, &bytes));
        made += bytes;
    }
    uint64_t scratch = scratch_of(stream), predicted = predicted_peak(p, s, n);
    ck_assert_msg(predicted == scratch + made,
                  "%s, %s = %lld: %llu predicted, %llu scratch + %llu outputs", s->name, s->symbol,
                  (long long)n, (unsigned long long)predicted, (unsigned long long)scratch,
                  (unsigned long long)made);
    printf("%s, %s = %lld: peak %llu = scratch %llu + outputs %llu\n", s->name, s->symbol,
           (long long)n, (unsigned long long)predicted, (unsigned long long)scratch,
           (unsigned long long)made);
    release_arguments(&a);
    check_ok(mlsys_release(stream));
}

START_TEST(the_prediction_is_exact) {
    const subject *s = &subjects[_i / 2];
    mlsys_program p = compile(s, _i % 2);
    const int64_t sizes[] = {1, 2, 3, 17, s->max / 2, s->max};
    for (int i = 0; i < 6; i++)
        measure(p, s, sizes[i]);
    check_ok(mlsys_release(p));
}
END_TEST

/* The plan as dumped is at the maximum, is what reserve takes, and reuse makes it smaller. */
START_TEST(the_plan_is_what_a_stream_holds) {
    static char text[1 << 16];
    const subject *s = &subjects[_i];
    unsigned long long arena[2] = {0}, unshared[2] = {0};
    for (int plan = 0; plan < 2; plan++) {
        mlsys_program p = compile(s, plan);
        mlsys_stream stream;
        check_ok(mlsys_stream_create(world.device, NULL, &stream));
        check_ok(mlsys_program_dump(p, MLSYS_DUMP_MEMPLAN, text, sizeof text, NULL));
        ck_assert_int_eq(sscanf(text, "{\"arena_bytes\":%llu,\"without_reuse\":%llu", &arena[plan],
                                &unshared[plan]),
                         2);
        check_ok(mlsys_program_reserve(p, stream, 0, NULL, NULL));
        ck_assert_uint_eq(scratch_of(stream), arena[plan]);
        check_ok(mlsys_release(p));
        check_ok(mlsys_release(stream));
    }
    ck_assert_uint_eq(arena[0], unshared[0]);
    ck_assert_uint_lt(arena[1], unshared[1]);
    ck_assert_uint_le(unshared[1], unshared[0]); /* ops in place share without the planner */
    printf("%s: %llu bytes planned, %llu without reuse\n", s->name, arena[1], arena[0]);
}
END_TEST

START_TEST(a_reserved_run_allocates_nothing) {
    const subject *s = &subjects[_i];
    mlsys_program p = compile(s, 1);
    mlsys_stream stream;
    arguments a[3];
    const int64_t sizes[3] = {s->max, 1, s->max / 2};
    check_ok(mlsys_stream_create(world.device, NULL, &stream));
    check_ok(mlsys_program_reserve(p, stream, 1, &s->symbol, &s->max));
    for (int k = 0; k < 3; k++) {
        s->arguments(sizes[k], &a[k]);
        for (int i = a[k].n_given; i < a[k].n_out; i++)
            a[k].out[i] = tensor(a[k].dtype[i], a[k].rank[i], a[k].shape[i]);
    }
    mlsys_stats before = stats();
    for (int run = 0; run < 9; run++) {
        arguments *b = &a[run % 3];
        check_ok(mlsys_program_run(p, stream, b->n_in, b->in, b->n_out, b->out));
        mlsys_stats after = stats();
        ck_assert_msg(after.allocations == before.allocations, "%s, run %d: %llu allocations",
                      s->name, run, (unsigned long long)(after.allocations - before.allocations));
        ck_assert_uint_eq(after.live_bytes, before.live_bytes);
        ck_assert_uint_eq(after.live_handles, before.live_handles);
    }
    /* the counter counts: a missing output is an allocation */
    check_ok(mlsys_release(a[0].out[a[0].n_out - 1]));
    a[0].out[a[0].n_out - 1] = NULL;
    before = stats();
    check_ok(mlsys_program_run(p, stream, a[0].n_in, a[0].in, a[0].n_out, a[0].out));
    ck_assert_uint_gt(stats().allocations, before.allocations);
    for (int k = 0; k < 3; k++)
        release_arguments(&a[k]);
    check_ok(mlsys_release(stream));
    check_ok(mlsys_release(p));
}
END_TEST

/* A decode step makes a view of the token buffer and a text, and gives both back. */
START_TEST(a_decode_step_allocates_small_things_only) {
    enum { PER_STEP = 2, STEPS = 16 };
    generation out;
    mlsys_generator g = generation_create(&world, OPTIONS(DRAWN));
    check_ok(mlsys_generator_append(g, "the weather: thethe!"));
    generation_run(g, 4, &out);
    mlsys_stats before = stats(), after = before;
    for (int i = 0; i < STEPS; i++) {
        REQUIRE(generation_step(g, &out) >= 0);
        after = stats();
        ck_assert_uint_eq(after.live_bytes, before.live_bytes);
        ck_assert_uint_eq(after.live_handles, before.live_handles);
    }
    ck_assert_uint_eq(after.peak_bytes, before.peak_bytes);
    printf("decode: %.2f allocations a step\n",
           (double)(after.allocations - before.allocations) / STEPS);
    ck_assert_uint_eq(after.allocations - before.allocations, PER_STEP * STEPS);
    check_ok(mlsys_release(g));
}
END_TEST

static void open_world(void) { generation_open_tiny(&world, NULL); }
static void close_world(void) { generation_close_tiny(&world); }

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *tc = tcase_create("memory");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_add_loop_test(tc, the_prediction_is_exact, 0, 2 * N_SUBJECTS);
    tcase_add_loop_test(tc, the_plan_is_what_a_stream_holds, 0, N_SUBJECTS);
    tcase_add_loop_test(tc, a_reserved_run_allocates_nothing, 0, N_SUBJECTS);
    tcase_add_test(tc, a_decode_step_allocates_small_things_only);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
