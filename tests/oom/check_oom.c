/* Each allocation of each call fails in turn, alone or with all later ones: the call says E_NOMEM, leaves
 * nothing behind, and works when it is tried again, with the bits of a run without failures. */
#include "support/failing_alloc.h"
#include "support/tiny_model.h"

#include <check.h>
#include <mlsys/mlsys.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static failing_alloc memory;
static bool failing;     /* inject failures at all */
static int64_t failures; /* injected so far */
static int64_t survived; /* of these, calls that did without the memory */

/* The n-th allocation of the call fails for n = 1, 2, ... until the call succeeds without a failure. A call
 * that fails gives back all it had allocated, unless it appends to an object (steady false). */
#define TRY(call, steady)                                                                          \
    do {                                                                                           \
        for (int64_t try_n_ = 1;; try_n_++) {                                                      \
            int64_t try_blocks_ = memory.blocks;                                                   \
            memory.all_after = try_n_ % 2;                                                         \
            memory.fail_at = failing ? memory.calls + try_n_ : 0;                                  \
            if (end_try(#call, (call), try_blocks_, steady)) break;                                \
        }                                                                                          \
    } while (0)

static int end_try(const char *call, mlsys_status st, int64_t blocks, int steady) {
    bool hit = memory.fail_at && memory.calls >= memory.fail_at;
    memory.fail_at = 0;
    if (st == MLSYS_OK) {
        if (hit) printf("%s did without an allocation\n", call);
        survived += hit;
        return 1;
    }
    failures++;
    if (!failing || st != MLSYS_E_NOMEM)
        ck_abort_msg("%s: %s \"%s\"", call, mlsys_status_name(st), mlsys_last_error());
    if (mlsys_last_status() != MLSYS_E_NOMEM)
        ck_abort_msg("%s: recorded as %s", call, mlsys_status_name(mlsys_last_status()));
    if (steady && memory.blocks != blocks)
        ck_abort_msg("%s: %lld blocks stayed after \"%s\"", call,
                     (long long)(memory.blocks - blocks), mlsys_last_error());
    return 0;
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s: %s", #call, mlsys_last_error());                 \
    } while (0)

typedef struct world {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
} world;

static void open_world(world *w) {
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "threads", 2));
    TRY(mlsys_ctx_create(c, &hooks, &w->ctx), 1);
    OK(mlsys_release(c));
    TRY(mlsys_device_get(w->ctx, MLSYS_CPU, 0, &w->device), 1);
    TRY(mlsys_stream_create(w->device, NULL, &w->stream), 1);
}

static void close_world(world *w) {
    mlsys_stats stats = {.size = sizeof stats};
    OK(mlsys_release(w->stream));
    OK(mlsys_release(w->device));
    OK(mlsys_ctx_stats(w->ctx, &stats));
    ck_assert_uint_eq(stats.live_handles, 0);
    OK(mlsys_release(w->ctx));
    ck_assert_int_eq(memory.blocks, 0);
    ck_assert_int_eq(memory.bytes, 0);
    ck_assert_int_eq(memory.destroyed, 1);
}

static uint64_t hash(uint64_t h, const void *p, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)p)[i]) * 0x100000001b3ull;
    return h;
}

static uint64_t hash_tensor(uint64_t h, mlsys_tensor t) {
    void *data;
    uint64_t bytes;
    OK(mlsys_tensor_data(t, &data, &bytes));
    return hash(h, data, bytes);
}

/* ---- graphs and programs ----------------------------------------------------------------------------- */

static mlsys_status same_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                               const int32_t *ndims, const int64_t *in_shapes, mlsys_config attrs,
                               int32_t n_out, mlsys_dtype *out_dtypes, int32_t *out_ndims,
                               int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, sizeof *in_shapes * 8);
    return MLSYS_OK;
}

static mlsys_status copy_run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                             mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    void *from, *to;
    uint64_t bytes;
    (void)user, (void)stream, (void)n_in, (void)attrs, (void)n_out;
    mlsys_status st = mlsys_tensor_data(in[0], &from, &bytes);
    if (st == MLSYS_OK) st = mlsys_tensor_data(out[0], &to, &bytes);
    if (st == MLSYS_OK) memcpy(to, from, bytes);
    return st;
}

/* in and the result must not be one variable: a failed call sets the result to 0. */
static mlsys_value op(mlsys_graph g, const char *name, int32_t n_in, const mlsys_value *in,
                      mlsys_config c) {
    mlsys_value y;
    TRY(mlsys_graph_op(g, name, n_in, in, c, 1, &y), 0);
    return y;
}

/* i + 1 and exp(x): the body of the loop, and its condition i < 3. */
static void build_loop(world *w, mlsys_graph *cond, mlsys_graph *body) {
    const int64_t three = 3, one = 1;
    for (int k = 0; k < 2; k++) {
        mlsys_graph *g = k ? body : cond;
        mlsys_value i, x, c, y;
        mlsys_tensor t;
        const mlsys_dim shape[2] = {4, 8};
        TRY(mlsys_graph_create(w->ctx, g), 1);
        TRY(mlsys_graph_input(*g, "i", MLSYS_I64, 0, NULL, &i), 0);
        TRY(mlsys_graph_input(*g, "x", MLSYS_F32, 2, shape, &x), 0);
        TRY(mlsys_tensor_create(w->device, MLSYS_I64, 0, NULL, &t), 1);
        OK(mlsys_tensor_write(t, w->stream, k ? &one : &three, 8));
        TRY(mlsys_graph_const(*g, t, &c), 0);
        OK(mlsys_release(t));
        mlsys_value in[2] = {i, c};
        y = op(*g, k ? "add" : "lt", 2, in, NULL);
        TRY(mlsys_graph_output(*g, "y", y), 0);
        if (!k) continue;
        y = op(*g, "sin", 1, &x, NULL);
        TRY(mlsys_graph_output(*g, "z", y), 0);
    }
}

static void build_graph(world *w, mlsys_graph *out) {
    mlsys_graph g, cond, body;
    mlsys_dim b;
    mlsys_config c;
    mlsys_value x, i, w1, y, r[2], n;
    mlsys_tensor t;
    const int64_t shape[2] = {8, 8};
    float weights[64];
    for (int k = 0; k < 64; k++)
        weights[k] = (float)(k % 11) / 8;
    build_loop(w, &cond, &body);
    TRY(mlsys_graph_create(w->ctx, &g), 1);
    TRY(mlsys_graph_symbol(g, "B", 1, 16, 1, &b), 0);
    TRY(mlsys_graph_dim(g, '*', b, 2, &n), 0);
    const mlsys_dim four[2] = {4, 8}, many[2] = {b, 8};
    (void)n;
    TRY(mlsys_graph_input(g, "i", MLSYS_I64, 0, NULL, &i), 0);
    TRY(mlsys_graph_input(g, "x", MLSYS_F32, 2, four, &x), 0);
    TRY(mlsys_graph_input(g, "v", MLSYS_F32, 2, many, &y), 0);
    OK(mlsys_graph_donate(g, x));
    TRY(mlsys_tensor_create(w->device, MLSYS_F32, 2, shape, &t), 1);
    OK(mlsys_tensor_write(t, w->stream, weights, sizeof weights));
    TRY(mlsys_graph_const(g, t, &w1), 0);
    OK(mlsys_release(t));
    mlsys_value in[2] = {i, x};
    TRY(mlsys_graph_control(g, "while", cond, body, 2, in, 2, r), 0);
    in[0] = y, in[1] = w1;
    y = op(g, "matmul", 2, in, NULL);
    y = op(g, "softmax", 1, &y, NULL);
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "note", "kept"));
    y = op(g, "mine", 1, &y, c);
    OK(mlsys_release(c));
    in[0] = w1, in[1] = w1; /* folds */
    mlsys_value folded;
    folded = op(g, "add", 2, in, NULL);
    in[0] = y, in[1] = folded;
    y = op(g, "matmul", 2, in, NULL);
    y = op(g, "transpose", 1, &y, NULL);
    TRY(mlsys_graph_output(g, "y", y), 0);
    TRY(mlsys_graph_output(g, "r", r[1]), 0);
    TRY(mlsys_graph_verify(g), 0);
    OK(mlsys_release(cond));
    OK(mlsys_release(body));
    *out = g;
}

static mlsys_tensor make(world *w, mlsys_dtype dtype, int32_t rank, int64_t a, int64_t b) {
    const int64_t shape[2] = {a, b};
    void *data;
    uint64_t bytes;
    mlsys_tensor t;
    TRY(mlsys_tensor_create(w->device, dtype, rank, shape, &t), 1);
    OK(mlsys_tensor_data(t, &data, &bytes));
    if (dtype == MLSYS_F32)
        for (uint64_t i = 0; i < bytes / 4; i++)
            ((float *)data)[i] = (float)(i % 13) / 16 - 0.25f;
    else
        memset(data, 0, bytes);
    return t;
}

static uint64_t run_graph(world *w, mlsys_graph g, uint64_t h) {
    static char text[65536];
    mlsys_graph back, narrow;
    mlsys_program p;
    mlsys_cost cost = {.size = sizeof cost};
    TRY(mlsys_graph_print(g, text, sizeof text, NULL), 1);
    h = hash(h, text, strlen(text));
    TRY(mlsys_graph_parse(w->ctx, text, &back), 1);
    TRY(mlsys_graph_parse(w->ctx, text, &narrow), 1);
    TRY(mlsys_graph_narrow(narrow, MLSYS_BF16, NULL, 0, NULL), 0);
    TRY(mlsys_graph_print(narrow, text, sizeof text, NULL), 1);
    h = hash(h, text, strlen(text));
    OK(mlsys_release(narrow));
    TRY(mlsys_graph_compile(back, w->device, NULL, &p), 1);
    TRY(mlsys_program_cost(p, 0, NULL, NULL, &cost), 1);
    for (int what = MLSYS_DUMP_GRAPH; what <= MLSYS_DUMP_PICTURE; what++)
        TRY(mlsys_program_dump(p, what, text, sizeof text, NULL), 1);
    TRY(mlsys_program_reserve(p, w->stream, 0, NULL, NULL), 0);
    for (int turn = 0; turn < 3; turn++) {
        mlsys_tensor in[3] = {make(w, MLSYS_I64, 0, 0, 0), make(w, MLSYS_F32, 2, 4, 8),
                              make(w, MLSYS_F32, 2, 5, 8)};
        mlsys_tensor out[2] = {NULL, NULL};
        if (turn == 0) TRY(mlsys_program_run(p, w->stream, 3, in, 2, out), 0);
        if (turn == 1) TRY(mlsys_graph_interpret(g, w->stream, 3, in, 2, out), 1);
        mlsys_stream fresh; /* binds the program inside the run */
        TRY(mlsys_stream_create(w->device, NULL, &fresh), 1);
        if (turn == 2) TRY(mlsys_program_run(p, fresh, 3, in, 2, out), 0);
        OK(mlsys_release(fresh));
        uint64_t result = hash_tensor(hash_tensor(1, out[0]), out[1]);
        static uint64_t first;
        if (turn == 0) first = result;
        ck_assert_uint_eq(result, first);
        h = hash(h, &result, 8);
        for (int i = 0; i < 3; i++)
            OK(mlsys_release(in[i]));
        for (int o = 0; o < 2; o++)
            OK(mlsys_release(out[o]));
    }
    OK(mlsys_release(p));
    OK(mlsys_release(back));
    return h;
}

static uint64_t run_eager(world *w, uint64_t h) {
    mlsys_tensor x = make(w, MLSYS_F32, 2, 6, 8), view, out[1] = {NULL};
    TRY(mlsys_tensor_transpose(x, 0, 1, &view), 1);
    TRY(mlsys_op_run(w->stream, "exp", 1, &x, NULL, 1, out), 1);
    h = hash_tensor(h, out[0]);
    OK(mlsys_release(out[0]));
    out[0] = NULL;
    TRY(mlsys_op_run(w->stream, "softmax", 1, &view, NULL, 1, out), 0);
    h = hash_tensor(h, out[0]);
    mlsys_tensor given = make(w, MLSYS_F32, 2, 6, 8);
    TRY(mlsys_op_run(w->stream, "mine", 1, &x, NULL, 1, &given), 0);
    h = hash_tensor(h, given);
    OK(mlsys_release(given));
    OK(mlsys_release(out[0]));
    out[0] = NULL;
    TRY(mlsys_matmul(w->stream, x, view, &out[0]), 0);
    h = hash_tensor(h, out[0]);
    OK(mlsys_release(out[0]));
    OK(mlsys_release(view));
    OK(mlsys_release(x));
    return h;
}

static uint64_t graphs(void) {
    world w;
    mlsys_graph g;
    mlsys_opdef d;
    memset(&memory, 0, sizeof memory);
    open_world(&w);
    OK(mlsys_opdef_init(&d, sizeof d));
    d.name = "mine", d.n_in = d.n_out = 1, d.infer = same_infer, d.run = copy_run;
    TRY(mlsys_op_register(w.ctx, &d), 1);
    build_graph(&w, &g);
    uint64_t h = run_graph(&w, g, 1);
    OK(mlsys_release(g));
    h = run_eager(&w, h);
    close_world(&w);
    return h;
}

START_TEST(graphs_and_programs) {
    failing = false;
    uint64_t want = graphs();
    failing = true, failures = 0;
    uint64_t got = graphs();
    printf("graphs and programs: %lld failed allocations\n", (long long)failures);
    ck_assert_uint_eq(got, want);
    ck_assert_int_gt(failures, 500);
    ck_assert_int_eq(survived, 0);
}
END_TEST

/* ---- derivatives ---------------------------------------------------------------------------------------- */

static uint64_t derivatives(void) {
    static char text[65536];
    static const char *const policies[] = {"none", "every", "sqrt", "ops", "bytes"};
    world w;
    uint64_t h = 1;
    memset(&memory, 0, sizeof memory);
    open_world(&w);
    for (int k = 0; k < 5; k++) {
        mlsys_graph g;
        mlsys_config c;
        mlsys_value x, d[2];
        const mlsys_dim shape[2] = {4, 4};
        TRY(mlsys_graph_create(w.ctx, &g), 1);
        TRY(mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &x), 0);
        mlsys_value y = op(g, "gelu", 1, &x, NULL), in[2] = {y, x};
        y = op(g, "matmul", 2, in, NULL);
        in[0] = y;
        y = op(g, "softmax", 1, in, NULL);
        OK(mlsys_config_create(&c));
        OK(mlsys_config_set_str(c, "checkpoint", policies[k]));
        OK(mlsys_config_set_i64(c, "every", 1));
        TRY(mlsys_graph_gradient(g, 1, &y, NULL, 1, &x, c, d), 0);
        TRY(mlsys_graph_tangent(g, 1, &x, &x, 1, &y, d + 1), 0);
        for (int i = 0; i < 2; i++)
            TRY(mlsys_graph_output(g, i ? "t" : "d", d[i]), 0);
        TRY(mlsys_graph_print(g, text, sizeof text, NULL), 1);
        h = hash(h, text, strlen(text));
        OK(mlsys_release(c));
        OK(mlsys_release(g));
    }
    close_world(&w);
    return h;
}

START_TEST(derivatives_of_graphs) {
    failing = false;
    uint64_t want = derivatives();
    failing = true, failures = 0;
    uint64_t got = derivatives();
    printf("derivatives: %lld failed allocations\n", (long long)failures);
    ck_assert_uint_eq(got, want);
    ck_assert_int_gt(failures, 100);
    ck_assert_int_eq(survived, 0);
}
END_TEST

/* ---- models -------------------------------------------------------------------------------------------- */

static char model_path[64];

static uint64_t generate(world *w, mlsys_model m, uint64_t h) {
    static char text[MLSYS_GENERATOR_TEXT];
    mlsys_generator g;
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "context", 32));
    OK(mlsys_config_set_i64(c, "chunk", 4));
    OK(mlsys_config_set_f64(c, "temperature", 0.8));
    TRY(mlsys_generator_create(m, w->stream, c, &g), 0);
    OK(mlsys_release(c));
    TRY(mlsys_generator_append(g, "abc defg"), 0);
    for (int i = 0; i < 6; i++) {
        int32_t id;
        TRY(mlsys_generator_next(g, &id, text, sizeof text, NULL), 0);
        h = hash(hash(h, &id, sizeof id), text, strlen(text));
    }
    OK(mlsys_release(g));
    return h;
}

static uint64_t models(void) {
    static char text[65536];
    world w;
    mlsys_model m;
    mlsys_tokenizer tok;
    mlsys_graph g;
    mlsys_program p;
    mlsys_tensor t;
    int32_t ids[64];
    uint64_t n, h = 1;
    memset(&memory, 0, sizeof memory);
    open_world(&w);
    TRY(mlsys_model_open(w.ctx, model_path, NULL, &m), 1);
    TRY(mlsys_model_describe(m, text, sizeof text, NULL), 1);
    TRY(mlsys_model_tensor(m, "token_embd.weight", &t), 1);
    OK(mlsys_release(t));
    TRY(mlsys_model_tokenizer(m, &tok), 0);
    TRY(mlsys_tokenizer_encode(tok, "hello there", 11, 0, ids, 64, &n), 0);
    h = hash(h, ids, n * sizeof *ids);
    TRY(mlsys_tokenizer_decode(tok, ids, n, 0, text, sizeof text, NULL), 0);
    h = hash(h, text, strlen(text));
    TRY(mlsys_model_graph(m, NULL, &g), 1);
    TRY(mlsys_graph_compile(g, w.device, NULL, &p), 1);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
    h = generate(&w, m, h);
    OK(mlsys_release(tok));
    OK(mlsys_release(m));
    close_world(&w);
    return h;
}

START_TEST(models_and_generators) {
    snprintf(model_path, sizeof model_path, "/tmp/mlsys-oom-%d.gguf", (int)getpid());
    ck_assert_int_eq(tiny_model_write(model_path), 0);
    failing = false;
    uint64_t want = models();
    failing = true, failures = 0;
    uint64_t got = models();
    unlink(model_path);
    printf("models and generators: %lld failed allocations\n", (long long)failures);
    ck_assert_uint_eq(got, want);
    ck_assert_int_gt(failures, 500);
}
END_TEST

int main(void) {
    Suite *s = suite_create("oom");
    TCase *tc = tcase_create("oom");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, graphs_and_programs);
    tcase_add_test(tc, derivatives_of_graphs);
    tcase_add_test(tc, models_and_generators);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
