/* Programs: the plan of real ones, arguments of a run, symbols, and that a run allocates nothing. */
#include "support/program_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

/* ---- plan --------------------------------------------------------------------------------------- */

typedef struct life { /* of a planned buffer, from what steps really touch */
    uint64_t low, high;
    int64_t first, last;
} life;

static void check_apart(const life *a, int64_t n, uint64_t arena) {
    uint64_t end = 0;
    for (int64_t i = 0; i < n; i++) {
        if (a[i].first < 0 || a[i].low == a[i].high) continue;
        REQUIRE(a[i].low % MLSI_PLAN_ALIGN == 0 && a[i].high <= arena);
        if (a[i].high > end) end = a[i].high;
        for (int64_t j = 0; j < i; j++)
            if (a[j].first >= 0 && a[j].low < a[j].high && a[i].first <= a[j].last &&
                a[j].first <= a[i].last && a[i].low < a[j].high && a[j].low < a[i].high)
                ck_abort_msg("buffers %lld and %lld share memory while both are alive",
                             (long long)i, (long long)j);
    }
    REQUIRE(end <= arena && arena - end < MLSI_PLAN_ALIGN);
}

/* Lifetimes are recomputed from the operands of the steps, not taken from the slots. */
static void check_routine(const mlsi_routine *r, const mlsi_bound_routine *b, const mlsi_func *f) {
    int64_t n = r->n_slots + r->n_steps;
    life *lives = malloc(sizeof *lives * (size_t)(n + 1));
    ck_assert_ptr_nonnull(lives);
    for (int64_t i = 0; i < n; i++)
        lives[i] = (life){0, 0, -1, -1};
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_node *node = &f->nodes[r->steps[i].node];
        for (int k = 0; k < node->n_in + node->n_out; k++) {
            int32_t slot = b->operand_slot[r->steps[i].first_operand + k];
            if (slot < 0 || r->slots[slot].kind != MLSI_SLOT_SCRATCH) continue;
            life *x = &lives[slot];
            if (x->first < 0) x->first = i;
            x->last = i;
            x->low = b->slot_offset[slot];
            x->high = x->low + b->slot_bytes[slot];
        }
        lives[r->n_slots + i] =
            (life){b->work_offset[i], b->work_offset[i] + b->work_bytes[i], i, i};
    }
    check_apart(lives, n, b->arena_bytes);
    free(lives);
}

START_TEST(live_buffers_are_apart) {
    printf("seeds 1 to 150\n");
    for (uint64_t seed = 1; seed <= 150; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        mlsi_program *p;
        mlsi_stream *s;
        mlsi_bound *b;
        mlsys_tensor in[3], out[3] = {0};
        rg_options o = {
            .nodes = 25, .inputs = 3, .outputs = 3, .symbols = seed & 1, .control = seed & 2};
        OK(mlsi_graph_init(&g, pc.ctx));
        rg_graph(&r, &g, pc.device, &o);
        mlsys_program program = pc_compile_inside(&pc, &g, seed % 5 ? "" : "plan=0");
        rg_inputs(&r, &g, pc.device_handle, rg_bind(&r), in);
        OK(mlsys_program_run(program, pc.stream, 3, in, 3, out));
        OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
        OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "test", &s));
        OK(mlsi_bound_get(p, s, &b));
        ck_assert(b->valid);
        for (int64_t i = 0; i < p->n_routines; i++)
            check_routine(&p->routines[i], &b->routines[i], &p->graph.funcs[p->routines[i].func]);
        mlsi_unpin(s);
        mlsi_unpin(p);
        pc_release(3, in);
        pc_release(3, out);
        OK(mlsys_release(program));
        mlsi_graph_free(&g);
    }
}
END_TEST

static const char *const layers =
    "symbol B 1 8 1\nsymbol L 0 64 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : "
    "f32[B,L,8]\n"
    "  %1 = input \"w\" : f32[8,16]\n  %2 = input \"v\" : f32[16,8]\n  %3 = matmul(%0, %1) : "
    "f32[B,L,16]\n"
    "  %4 = gelu(%3) : f32[B,L,16]\n  %5 = matmul(%4, %2) : f32[B,L,8]\n  %6 = add(%5, %0) : "
    "f32[B,L,8]\n"
    "  %7 = softmax(%6) : f32[B,L,8]\n  %8 = transpose(%7) {perm=[0,2,1]} : f32[B,8,L]\n"
    "  %9 = matmul(%8, %6) : f32[B,8,8]\n  %10 = exp(%9) : f32[B,8,8]\n"
    "  output \"y\" %10\n  output \"z\" %6\n}\n";

static void layer_inputs(int64_t b, int64_t l, mlsys_tensor *in) {
    kc_rng r = kc_seed((uint64_t)(b * 100 + l));
    in[0] = pc_random(&pc, &r, MLSYS_F32, 3, (const int64_t[]){b, l, 8});
    in[1] = pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){8, 16});
    in[2] = pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){16, 8});
}

/* The plan as JSON says what the stream then holds, and its buffers are apart. */
START_TEST(plan_predicts_scratch) {
    mlsys_graph g = pc_parse(&pc, layers);
    static const char *const settings[] = {"", "plan=0", "passes_off=dce,fold,cse"};
    for (int s = 0; s < 3; s++) {
        mlsys_program p = pc_compile(&pc, g, settings[s]);
        mlsys_stream stream;
        mlsys_tensor in[3], out[2] = {0};
        mlsys_cost cost = {.size = sizeof cost};
        const char *const names[2] = {"B", "L"};
        const int64_t values[2] = {3, 17};
        uint64_t held;
        char text[16384];
        OK(mlsys_stream_create(pc.device_handle, NULL, &stream));
        OK(mlsys_program_cost(p, 2, names, values, &cost));
        layer_inputs(3, 17, in);
        OK(mlsys_program_run(p, stream, 3, in, 2, out));
        OK(mlsys_stream_scratch_bytes(stream, &held));
        ck_assert_uint_eq(cost.peak_bytes, held + (3 * 8 * 8 + 3 * 17 * 8) * 4);
        pc_release(3, in);
        pc_release(2, out);
        OK(mlsys_program_reserve(p, stream, 0, NULL, NULL)); /* all symbols at their maximum */
        OK(mlsys_stream_scratch_bytes(stream, &held));
        OK(mlsys_program_dump(p, MLSYS_DUMP_MEMPLAN, text, sizeof text, NULL));
        unsigned long long arena, without;
        ck_assert_int_eq(
            sscanf(text, "{\"arena_bytes\":%llu,\"without_reuse\":%llu", &arena, &without), 2);
        ck_assert_uint_eq(arena, held);
        ck_assert(s == 1 ? arena == without : arena < without);
        int buffers = 0;
        life lives[32];
        for (const char *at = text; (at = strstr(at, "{\"slot\":")) != NULL; at++, buffers++) {
            unsigned long long offset, bytes;
            int value, slot, first, last;
            ck_assert_int_eq(
                sscanf(at,
                       "{\"slot\":%d,\"value\":%d,\"offset\":%llu,\"bytes\":%llu,\"first\":%d,"
                       "\"last\":%d}",
                       &slot, &value, &offset, &bytes, &first, &last),
                6);
            lives[buffers] = (life){offset, offset + bytes, first, last};
        }
        ck_assert_int_ge(buffers, 2);
        for (const char *at = text; (at = strstr(at, "{\"work_of_step\":")) != NULL;
             at++, buffers++) {
            unsigned long long offset, bytes;
            int step;
            ck_assert_int_eq(sscanf(at, "{\"work_of_step\":%d,\"offset\":%llu,\"bytes\":%llu}",
                                    &step, &offset, &bytes),
                             3);
            lives[buffers] = (life){offset, offset + bytes, step, step};
        }
        check_apart(lives, buffers, arena);
        OK(mlsys_release(stream));
        OK(mlsys_release(p));
    }
    OK(mlsys_release(g));
}
END_TEST

START_TEST(huge_symbols_do_not_wrap) {
    mlsys_graph g = pc_parse(
        &pc, "symbol N 1 2305843009213693951 1\nfunctions 1\nfunc 0 \"main\" {\n"
             "  %0 = input \"x\" : f32[N]\n  %1 = exp(%0) : f32[N]\n"
             "  %2 = reverse(%1) {axes=[0]} : f32[N]\n  %3 = concat(%1, %2) {axis=0} : f32[2*N]\n"
             "  %4 = sin(%3) : f32[2*N]\n  %5 = reduce_sum(%4) : f32[]\n  output \"\" %5\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_cost cost = {.size = sizeof cost};
    const char *const name = "N";
    const int64_t some = 5, many = (int64_t)1 << 60;
    char text[4096];
    pc_expect(mlsys_program_reserve(p, pc.stream, 0, NULL, NULL), MLSYS_E_SHAPE, "");
    pc_expect(mlsys_program_cost(p, 1, &name, &many, &cost), MLSYS_E_SHAPE, "");
    pc_expect(mlsys_program_dump(p, MLSYS_DUMP_MEMPLAN, text, sizeof text, NULL), MLSYS_E_SHAPE,
              "");
    OK(mlsys_program_cost(p, 1, &name, &some, &cost));
    mlsys_tensor in[1] = {pc_f32(&pc, 5, (const float[]){1, 2, 3, 4, 5})};
    pc_compare(&pc, g, "", 1, in, 1); /* and the program still works */
    pc_release(1, in);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* ---- symbols ------------------------------------------------------------------------------------ */

START_TEST(one_program_serves_all_extents) {
    mlsys_graph g = pc_parse(&pc, layers);
    mlsys_program p = pc_compile(&pc, g, "");
    static const int64_t lengths[] = {64, 1, 0, 17, 64, 3};
    for (int64_t b = 1; b <= 8; b += 3)
        for (int i = 0; i < 6; i++) {
            mlsys_tensor in[3], out[2] = {0}, want[2] = {0};
            layer_inputs(b, lengths[i], in);
            OK(mlsys_program_run(p, pc.stream, 3, in, 2, out));
            OK(mlsys_graph_interpret(g, pc.stream, 3, in, 2, want));
            for (int o = 0; o < 2; o++)
                ck_assert_int_eq(rg_difference(out[o], want[o]), -1);
            pc_release(3, in);
            pc_release(2, out);
            pc_release(2, want);
        }
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(extents_outside_are_refused) {
    mlsys_graph g = pc_parse(&pc, "symbol B 2 8 2\nsymbol L 1 9 1\nfunctions 1\nfunc 0 \"main\" {\n"
                                  "  %0 = input \"x\" : f32[B,L]\n  %1 = input \"y\" : f32[L]\n"
                                  "  %2 = add(%0, %1) : f32[B,L]\n  output \"z\" %2\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    static const struct {
        int64_t b, l, y;
        const char *text;
    } cases[] = {
        {10, 3, 3, "input 0 (x): extent 0 = 10 gives B = 10, outside [2, 8] in steps of 2"},
        {3, 3, 3, "B = 3, outside [2, 8] in steps of 2"},
        {0, 3, 3, "B = 0"},
        {2, 0, 0, "L = 0, outside [1, 9]"},
        {2, 10, 10, "L = 10"},
        {2, 3, 4, "input 1 (y) is f32[4], expected f32[L]"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t shape[2] = {cases[i].b, cases[i].l};
        mlsys_tensor out[1] = {0}, in[2] = {pc_tensor(&pc, MLSYS_F32, 2, shape, NULL),
                                            pc_tensor(&pc, MLSYS_F32, 1, &cases[i].y, NULL)};
        pc_expect(mlsys_program_run(p, pc.stream, 2, in, 1, out), MLSYS_E_SHAPE, cases[i].text);
        pc_expect(mlsys_graph_interpret(g, pc.stream, 2, in, 1, out), MLSYS_E_SHAPE, cases[i].text);
        ck_assert_ptr_null(out[0]);
        pc_release(2, in);
    }
    mlsys_tensor out[1] = {0}, in[2] = {pc_tensor(&pc, MLSYS_F64, 2, (const int64_t[]){2, 3}, NULL),
                                        pc_f32(&pc, 3, NULL)};
    pc_expect(mlsys_program_run(p, pc.stream, 2, in, 1, out), MLSYS_E_DTYPE,
              "f64[2,3], expected f32[B,L]");
    pc_expect(mlsys_program_run(p, pc.stream, 1, in, 1, out), MLSYS_E_ARG,
              "1 inputs and 1 outputs given");
    pc_release(2, in);
    mlsys_cost cost = {.size = sizeof cost};
    const char *names[] = {"B", "Q"};
    const int64_t bad[] = {3}, good[] = {4, 1};
    pc_expect(mlsys_program_cost(p, 1, names, bad, &cost), MLSYS_E_SHAPE,
              "B = 3 is outside [2, 8]");
    pc_expect(mlsys_program_cost(p, 2, names, good, &cost), MLSYS_E_NOTFOUND, "no symbol \"Q\"");
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* Symbols that no input holds plainly: solved where that is possible, else at their maximum. */
START_TEST(symbols_from_expressions) {
    mlsys_graph g = pc_parse(&pc, "symbol L 1 9 1\nsymbol S 2 6 2\nsymbol U 3 5 1\nfunctions 1\n"
                                  "func 0 \"main\" {\n  %0 = input \"x\" : f32[2*L+1]\n"
                                  "  %1 = input \"y\" : f32[((S)/(2))]\n"
                                  "  %2 = iota() {dtype=f32, shape=[L]} : f32[L]\n"
                                  "  %3 = iota() {dtype=f32, shape=[S]} : f32[S]\n"
                                  "  %4 = iota() {dtype=f32, shape=[U]} : f32[U]\n"
                                  "  output \"\" %2\n  output \"\" %3\n  output \"\" %4\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor in[2] = {pc_f32(&pc, 7, NULL), pc_f32(&pc, 2, NULL)}, out[3] = {0};
    int64_t extent;
    int32_t rank;
    OK(mlsys_program_run(p, pc.stream, 2, in, 3, out));
    static const int64_t want[3] = {3, 4, 5};
    for (int o = 0; o < 3; o++) {
        OK(mlsys_tensor_shape(out[o], 1, &extent, &rank));
        ck_assert_int_eq(extent, want[o]);
    }
    pc_release(3, out);
    pc_release(2, in);
    in[0] = pc_f32(&pc, 8, NULL), in[1] = pc_f32(&pc, 2, NULL);
    pc_expect(mlsys_program_run(p, pc.stream, 2, in, 3, out), MLSYS_E_SHAPE,
              "f32[8], expected f32[2*L+1]");
    pc_release(1, in);
    in[0] = pc_f32(&pc, 21, NULL);
    pc_expect(mlsys_program_run(p, pc.stream, 2, in, 3, out), MLSYS_E_SHAPE,
              "extent 0 = 21 gives L = 10, outside [1, 9]");
    pc_release(2, in);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(unused_symbols_keep_their_names) {
    mlsys_graph g = pc_parse(&pc, "symbol Q 1 9 1\nfunctions 1\nfunc 0 \"main\" {\n"
                                  "  %0 = input \"x\" : f32[2]\n  output \"\" %0\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    const char *const name = "Q";
    OK(mlsys_program_reserve(p, pc.stream, 1, &name, (const int64_t[]){3}));
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* ---- nothing is allocated while a program runs ---------------------------------------------------- */

static void count_runs(mlsys_program p, int n_in, const mlsys_tensor *in, int n_out,
                       mlsys_tensor *out) {
    uint64_t before = pc_allocations(&pc);
    for (int i = 0; i < 3; i++)
        OK(mlsys_program_run(p, pc.stream, n_in, in, n_out, out));
    ck_assert_uint_eq(pc_allocations(&pc), before);
}

START_TEST(runs_allocate_nothing) {
    mlsys_graph g = pc_parse(&pc, layers);
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_reserve(p, pc.stream, 0, NULL, NULL));
    static const int64_t extents[][2] = {{8, 64}, {1, 1}, {3, 0}, {8, 64}, {5, 7}};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) { /* binding again included */
        int64_t b = extents[i][0], l = extents[i][1];
        mlsys_tensor in[3], out[2];
        layer_inputs(b, l, in);
        out[0] = pc_tensor(&pc, MLSYS_F32, 3, (const int64_t[]){b, 8, 8}, NULL);
        out[1] = pc_tensor(&pc, MLSYS_F32, 3, (const int64_t[]){b, l, 8}, NULL);
        count_runs(p, 3, in, 2, out);
        pc_release(3, in);
        pc_release(2, out);
    }
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(control_flow_allocates_nothing) {
    mlsys_graph g = pc_parse(
        &pc,
        "functions 4\nfunc 3 \"sq\" {\n  %0 = input \"x\" : f32[64]\n  %1 = mul(%0, %0) : f32[64]\n"
        "  %2 = softmax(%1) : f32[64]\n  output \"\" %2\n}\n"
        "func 2 \"step\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[64]\n"
        "  %2 = const i64[] hex:0100000000000000\n  %3 = add(%0, %2) : i64[]\n"
        "  %4 = const bool[] hex:01\n  %5 = if(%4, %1) {fn1=3, fn2=3} : f32[64]\n"
        "  output \"\" %3\n  output \"\" %5\n}\n"
        "func 1 \"cond\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[64]\n"
        "  %2 = const i64[] hex:0500000000000000\n  %3 = lt(%0, %2) : bool[]\n  output \"\" %3\n}\n"
        "func 0 \"main\" {\n  %0 = input \"i\" : i64[]\n  %1 = input \"x\" : f32[64]\n"
        "  %2, %3 = while(%0, %1) {fn1=1, fn2=2} : i64[], f32[64]\n  output \"\" %3\n}\n");
    int64_t zero = 0;
    kc_rng r = kc_seed(4);
    mlsys_tensor in[2] = {pc_tensor(&pc, MLSYS_I64, 0, NULL, &zero),
                          pc_random(&pc, &r, MLSYS_F32, 1, (const int64_t[]){64})};
    mlsys_tensor out[1] = {pc_f32(&pc, 64, NULL)};
    pc_compare(&pc, g, "", 2, in, 1);
    pc_compare(&pc, g, "plan=0", 2, in, 1);
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_run(p, pc.stream, 2, in, 1, out));
    count_runs(p, 2, in, 1, out);
    pc_release(2, in);
    pc_release(1, out);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* An if costs its dearer branch, a while one turn. */
START_TEST(cost_of_control_flow) {
    mlsys_graph g = pc_parse(
        &pc, "functions 3\nfunc 2 \"long\" {\n  %0 = input \"x\" : f32[100]\n  %1 = add(%0, %0) : "
             "f32[100]\n"
             "  %2 = mul(%1, %0) : f32[100]\n  output \"\" %2\n}\n"
             "func 1 \"short\" {\n  %0 = input \"x\" : f32[100]\n  %1 = add(%0, %0) : f32[100]\n"
             "  output \"\" %1\n}\nfunc 0 \"main\" {\n  %0 = input \"p\" : bool[]\n"
             "  %1 = input \"x\" : f32[100]\n  %2 = if(%0, %1) {fn1=1, fn2=2} : f32[100]\n"
             "  %3 = add(%2, %1) : f32[100]\n  output \"\" %3\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_cost cost = {.size = sizeof cost};
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    ck_assert_uint_eq(cost.flops, 300);
    ck_assert_uint_eq(cost.bytes_written, 1200);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* Eager calls compile programs behind the scenes; they must not push real ones out of the stream. */
START_TEST(eager_calls_leave_programs_bound) {
    mlsys_graph g = pc_parse(&pc, layers);
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor in[3], out[2];
    layer_inputs(2, 5, in);
    out[0] = pc_tensor(&pc, MLSYS_F32, 3, (const int64_t[]){2, 8, 8}, NULL);
    out[1] = pc_tensor(&pc, MLSYS_F32, 3, (const int64_t[]){2, 5, 8}, NULL);
    OK(mlsys_program_run(p, pc.stream, 3, in, 2, out));
    mlsys_tensor given[1] = {pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){8, 16}, NULL)};
    for (int i = 0; i < 20; i++)
        OK(mlsys_op_run(pc.stream, "exp", 1, &in[1], NULL, 1, given));
    count_runs(p, 3, in, 2, out);
    pc_release(1, given);
    pc_release(3, in);
    pc_release(2, out);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* More programs than a stream remembers, in turn. */
START_TEST(a_stream_forgets_old_programs) {
    enum { N = 12 };
    mlsys_program p[N];
    mlsys_tensor in[1] = {pc_f32(&pc, 4, (const float[]){1, 2, 3, 4})};
    for (int i = 0; i < N; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[4]\n"
                 "  %%1 = full() {dtype=f32, shape=[], value=%d} : f32[]\n  %%2 = mul(%%0, %%1) : "
                 "f32[4]\n"
                 "  output \"\" %%2\n}\n",
                 i + 2);
        mlsys_graph g = pc_parse(&pc, text);
        p[i] = pc_compile(&pc, g, "");
        OK(mlsys_release(g));
    }
    kc_rng r = kc_seed(8);
    for (int turn = 0; turn < 300; turn++) {
        int i = (int)kc_int(&r, 0, N - 1);
        mlsys_tensor out[1] = {0};
        OK(mlsys_program_run(p[i], pc.stream, 1, in, 1, out));
        ck_assert(((const float *)rg_view(out[0]).data)[3] == 4.0f * (float)(i + 2));
        pc_release(1, out);
    }
    for (int i = 0; i < N; i++)
        OK(mlsys_release(p[i]));
    pc_release(1, in);
}
END_TEST

int main(void) {
    Suite *s = suite_create("program");
    TCase *tc = tcase_create("program");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, live_buffers_are_apart);
    tcase_add_test(tc, plan_predicts_scratch);
    tcase_add_test(tc, huge_symbols_do_not_wrap);
    tcase_add_test(tc, one_program_serves_all_extents);
    tcase_add_test(tc, extents_outside_are_refused);
    tcase_add_test(tc, symbols_from_expressions);
    tcase_add_test(tc, unused_symbols_keep_their_names);
    tcase_add_test(tc, runs_allocate_nothing);
    tcase_add_test(tc, control_flow_allocates_nothing);
    tcase_add_test(tc, cost_of_control_flow);
    tcase_add_test(tc, eager_calls_leave_programs_bound);
    tcase_add_test(tc, a_stream_forgets_old_programs);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
