/* Outputs of generated kernels in the memory of their inputs: the prover and the checker allow the same, what they refuse
 * gives other bits, and plans use it. */
#include "ir/loop/prove.h"
#include "support/fusible_graph.h"
#include "support/nest_case.h"
#include "support/program_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* ---- nests ------------------------------------------------------------------------------------------------ */

enum { X = 0, Y = 1, Z = 2, SIDE = 24 }; /* parameters; all are f32[SIDE,SIDE] */

#define AT(...)                                                                                    \
    (const int64_t[]) { __VA_ARGS__ }

static int32_t plus(mlsi_nest *n, int32_t a, int32_t b) {
    return mlsi_nest_op(n, MLSI_OP_ADD, 0, a, b, -1);
}
static int32_t load(mlsi_nest *n, int64_t i, int64_t j) { return mlsi_nest_load(n, X, AT(i, j)); }
static int64_t loop(mlsi_nest *n, const char *name) {
    return mlsi_nest_for(n, MLSI_LOOP_SERIAL, name, SIDE);
}
static int64_t back(mlsi_nest *n, int64_t i) { return mlsi_nest_index(n, '-', SIDE - 1, i); }
static void end(mlsi_nest *n, int count) {
    while (count--)
        mlsi_nest_end(n);
}
static int32_t greatest(mlsi_nest *n, int64_t row) {
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_MAX, MLSYS_F32, SIDE);
    int64_t k = loop(n, "k");
    mlsi_nest_add(n, acc, k, load(n, row, k), -1);
    end(n, 1);
    return mlsi_nest_acc_value(n, acc);
}
static int32_t greatest_of_all(mlsi_nest *n) {
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_MAX, MLSYS_F32, SIDE * SIDE);
    int64_t r = loop(n, "r"), k = loop(n, "k");
    int64_t at = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', r, SIDE), k);
    mlsi_nest_add(n, acc, at, load(n, r, k), -1);
    end(n, 2);
    return mlsi_nest_acc_value(n, acc);
}

static void same_element(mlsi_nest *n) {
    int64_t i = loop(n, "i"), j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), load(n, i, j)));
    mlsi_nest_store(n, Z, AT(i, j), mlsi_nest_float(n, MLSYS_F32, 1));
    end(n, 2);
}
static void reversed(mlsi_nest *n) {
    int64_t i = loop(n, "i"), j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), load(n, i, back(n, j))));
    mlsi_nest_store(n, Z, AT(i, j), mlsi_nest_float(n, MLSYS_F32, 1));
    end(n, 2);
}
static void offset(mlsi_nest *n) { /* the element before; the first one itself */
    int64_t i = loop(n, "i"), j = loop(n, "j");
    int32_t before =
        mlsi_nest_guard(n, 1, j, SIDE, load(n, i, mlsi_nest_index(n, '-', j, 1)), load(n, i, j));
    mlsi_nest_store(n, Y, AT(i, j), before);
    mlsi_nest_store(n, Z, AT(i, j), mlsi_nest_float(n, MLSYS_F32, 1));
    end(n, 2);
}
static void transposed(mlsi_nest *n) {
    int64_t i = loop(n, "i"), j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), load(n, j, i));
    mlsi_nest_store(n, Z, AT(j, i), load(n, j, i));
    end(n, 2);
}
static void rows(mlsi_nest *n) {
    int64_t i = loop(n, "i");
    int32_t most = greatest(n, i);
    int64_t j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), most));
    mlsi_nest_store(n, Z, AT(i, j), most);
    end(n, 2);
}
static void all_rows(mlsi_nest *n) {
    int32_t most = greatest_of_all(n);
    int64_t i = loop(n, "i"), j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), most));
    mlsi_nest_store(n, Z, AT(back(n, i), j), most);
    end(n, 2);
}
static void all_rows_each_time(mlsi_nest *n) {
    int64_t i = loop(n, "i");
    int32_t most = greatest_of_all(n);
    int64_t j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, most, most));
    mlsi_nest_store(n, Z, AT(i, j), plus(n, most, most));
    end(n, 2);
}
static void another_row(mlsi_nest *n) {
    int64_t i = loop(n, "i");
    int32_t most = greatest(n, back(n, i));
    int64_t j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), most);
    mlsi_nest_store(n, Z, AT(back(n, i), j), most);
    end(n, 2);
}
static void behind(mlsi_nest *n) {
    int64_t i = loop(n, "i"), j = loop(n, "j");
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), load(n, i, j)));
    mlsi_nest_store(n, Z, AT(i, j), load(n, i, j));
    end(n, 2);
}
static void named(mlsi_nest *n) {
    int64_t i = loop(n, "i"), j = loop(n, "j");
    int32_t x = mlsi_nest_let(n, "x", load(n, i, j));
    mlsi_nest_store(n, Y, AT(i, j), plus(n, x, x));
    mlsi_nest_store(n, Z, AT(i, j), x);
    end(n, 2);
}
static void tiles(mlsi_nest *n) { /* ragged ones of one axis */
    int64_t i = loop(n, "i"), tile = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "tile", 4);
    int64_t in = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "in", 7);
    int64_t j = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', tile, 7), in);
    mlsi_nest_if_range(n, 0, j, SIDE);
    mlsi_nest_store(n, Y, AT(i, j), plus(n, load(n, i, j), load(n, i, j)));
    mlsi_nest_store(n, Z, AT(i, j), mlsi_nest_float(n, MLSYS_F32, 1));
    end(n, 4);
}

static const struct {
    const char *name;
    void (*build)(mlsi_nest *n);
    bool y, z; /* may lie in the memory of x */
} nests[] = {{"the same element", same_element, true, true},
             {"the same and a turned row", reversed, false, false},
             {"the element before", offset, false, false},
             {"transposed", transposed, false, true},
             {"the row before its elements", rows, true, true},
             {"all before all", all_rows, true, false},
             {"all before each row", all_rows_each_time, false, false},
             {"another row", another_row, false, true},
             {"behind the first store", behind, false, true},
             {"once, by name", named, true, true},
             {"ragged tiles", tiles, true, true}};
enum { N_NESTS = (int)(sizeof nests / sizeof nests[0]) };

static void build(mlsi_nest *n, int i) {
    const mlsi_type t = {.dtype = MLSYS_F32, .rank = 2, .dims = {SIDE, SIDE}};
    mlsi_nest_init(n, &pc.ctx->alloc, NULL, nests[i].name);
    mlsi_nest_param(n, MLSI_SCOPE_INPUT, "x", &t);
    mlsi_nest_param(n, MLSI_SCOPE_OUTPUT, "y", &t);
    mlsi_nest_param(n, MLSI_SCOPE_OUTPUT, "z", &t);
    nests[i].build(n);
    OK(mlsi_nest_finish(n));
    OK(mlsi_nest_verify(n));
}

/* Both outputs, one of which may lie in x's memory. */
static void run(const mlsi_nest *n, int shared, float out[2][SIDE * SIDE]) {
    static float x[SIDE * SIDE];
    const mlsi_type t = {.dtype = MLSYS_F32, .rank = 2, .dims = {SIDE, SIDE}};
    mlsi_layout l;
    test_random r = {3};
    OK(mlsi_type_layout(&n->tab, &t, NULL, &l));
    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)test_int(&r, -1000, 1000);
    const mlsi_view params[3] = {mlsi_view_of(x, &l), mlsi_view_of(shared == Y ? x : out[0], &l),
                                 mlsi_view_of(shared == Z ? x : out[1], &l)};
    OK(mlsi_nest_interpret(n, NULL, params));
    if (shared) memcpy(out[shared - Y], x, sizeof x);
}

START_TEST(prover_and_checker_agree_with_memory) {
    static float apart[2][SIDE * SIDE], together[2][SIDE * SIDE];
    mlsi_nest n;
    build(&n, _i);
    run(&n, 0, apart);
    for (int b = Y; b <= Z; b++) {
        const bool may = b == Y ? nests[_i].y : nests[_i].z;
        const uint64_t claim[2] = {b == Y, b == Z};
        mlsi_verdict v;
        mlsys_status st = mlsi_prove_in_place(&n, X, b);
        ck_assert_msg((st == MLSYS_OK) == may, "%s: %s", nests[_i].name, mlsys_last_error());
        OK(mlsi_check_in_place(&n, claim, &v));
        ck_assert_msg((v.answer == MLSI_PROVED) == may, "%s: %s", nests[_i].name, v.why);
        run(&n, b, together);
        ck_assert_msg(!memcmp(apart, together, sizeof apart) == may, "%s: %s", nests[_i].name,
                      may ? "other bits" : "nothing is wrong with it");
    }
    mlsi_nest_free(&n);
}
END_TEST

START_TEST(other_types_have_other_memory) {
    const mlsi_type types[] = {{.dtype = MLSYS_F32, .rank = 1, .dims = {8}},
                               {.dtype = MLSYS_I32, .rank = 1, .dims = {8}},
                               {.dtype = MLSYS_F32, .rank = 1, .dims = {9}}};
    static const uint64_t claim[1] = {1};
    for (int i = 0; i < 3; i++) {
        mlsi_nest n;
        mlsi_verdict v;
        mlsi_nest_init(&n, &pc.ctx->alloc, NULL, "types");
        mlsi_nest_param(&n, MLSI_SCOPE_INPUT, "x", &types[0]);
        mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, "y", &types[i]);
        int64_t k = mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "k", types[i].dims[0]);
        mlsi_nest_store(&n, 1, &k, mlsi_nest_int(&n, types[i].dtype, 1));
        end(&n, 1);
        OK(mlsi_nest_finish(&n));
        REQUIRE((mlsi_prove_in_place(&n, 0, 1) == MLSYS_OK) == !i);
        OK(mlsi_check_in_place(&n, claim, &v));
        REQUIRE((v.answer == MLSI_PROVED) == !i);
        mlsi_nest_free(&n);
    }
}
END_TEST

/* ---- programs ---------------------------------------------------------------------------------------------- */

static mlsi_program *pinned(mlsys_program handle) {
    mlsi_program *p;
    OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "test", &p));
    return p;
}

static const char *const modes[] = {"fuse=always jit=never numerics=exact",
                                    "fuse=always jit=always numerics=exact"};

#define MAIN "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[64,64]\n"
static const struct {
    const char *text;
    uint64_t wides; /* in the arena */
    int in_place;   /* results of kernels in an operand's memory */
} programs[] = {
    {MAIN "  %1 = matmul(%0, %0) : f32[64,64]\n  %2 = exp(%1) : f32[64,64]\n"
          "  %3 = mul(%2, %1) : f32[64,64]\n  %4 = matmul(%3, %0) : f32[64,64]\n"
          "  output \"y\" %4\n}\n",
     1, 1},
    {MAIN "  %1 = matmul(%0, %0) : f32[64,64]\n  %2 = softmax(%1) {axis=1} : f32[64,64]\n"
          "  %3 = mul(%2, %1) : f32[64,64]\n  %4 = matmul(%3, %0) : f32[64,64]\n"
          "  output \"y\" %4\n}\n",
     1, 1},
    {MAIN "  %1 = matmul(%0, %0) : f32[64,64]\n  %2 = reverse(%1) {axes=[0]} : f32[64,64]\n"
          "  %3 = mul(%2, %1) : f32[64,64]\n  %4 = exp(%3) : f32[64,64]\n"
          "  %5 = matmul(%4, %0) : f32[64,64]\n  output \"y\" %5\n}\n",
     2, 0}, /* the turned rows are read after they would be gone */
    {MAIN "  %1 = matmul(%0, %0) : f32[64,64]\n  %2 = exp(%1) : f32[64,64]\n"
          "  %3 = mul(%2, %1) : f32[64,64]\n  %4 = matmul(%3, %1) : f32[64,64]\n"
          "  output \"y\" %4\n}\n",
     2, 0}, /* read later */
};
enum { N_PROGRAMS = (int)(sizeof programs / sizeof programs[0]) };

static int count_in_place(const mlsi_program *p) {
    const mlsi_routine *r = &p->routines[0];
    int count = 0;
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_node *node = &p->graph.funcs[0].nodes[r->steps[i].node];
        bool shared = false;
        for (int k = 0; k < node->n_in && mlsi_generated_of(p, node); k++)
            shared |= r->slot_of[node->in[k]] == r->slot_of[node->first_out];
        count += shared;
    }
    return count;
}

/* The plan holds, and does not where the kernels allow nothing. */
static uint64_t check_plan(mlsi_program *p, int in_place) {
    static const uint64_t nothing[2] = {0};
    mlsi_bound *b;
    const mlsi_routine *r = &p->routines[0];
    OK(mlsi_bound_create(p, &b));
    OK(mlsi_bound_names(b, 0, NULL, NULL));
    OK(mlsi_bound_bind(b));
    const mlsi_bound_routine *br = &b->routines[0];
    mlsi_plan_claim c = {&p->graph,      0,          r->n_steps,     r->n_slots,     b->proof.steps,
                         b->proof.slots, r->slot_of, r->alias_input, br->arena_bytes};
    OK(mlsi_check_plan(&c, b->proof.scratch));
    for (int64_t i = 0; i < r->n_steps; i++)
        if (b->proof.steps[i].generated) b->proof.steps[i].generated = nothing;
    mlsys_status st = mlsi_check_plan(&c, b->proof.scratch);
    REQUIRE((st == MLSYS_OK) == !in_place);
    if (in_place) REQUIRE(strstr(mlsys_last_error(), "written over an operand"));
    uint64_t most = 0; /* without the steps' work */
    for (int64_t s = 0; s < r->n_slots; s++)
        if (r->slots[s].kind == MLSI_SLOT_SCRATCH && r->slots[s].value >= 0)
            most += br->slot_bytes[s];
    mlsi_bound_free(&pc.ctx->alloc, b);
    return most;
}

START_TEST(kernels_write_over_what_they_have_read) {
    const int64_t shape[2] = {64, 64};
    kc_rng r = kc_seed(11);
    mlsys_graph g = pc_parse(&pc, programs[_i / 2].text);
    mlsys_program handle = pc_compile(&pc, g, modes[_i % 2]);
    mlsi_program *p = pinned(handle);
    ck_assert_int_eq(count_in_place(p), programs[_i / 2].in_place);
    ck_assert_uint_eq(check_plan(p, programs[_i / 2].in_place),
                      programs[_i / 2].wides * 64 * 64 * sizeof(float));
    mlsi_unpin(p);
    OK(mlsys_release(handle));
    mlsys_tensor in[1] = {pc_random(&pc, &r, MLSYS_F32, 2, shape)};
    pc_compare(&pc, g, modes[_i % 2], 1, in, 1);
    pc_release(1, in);
    OK(mlsys_release(g));
}
END_TEST

enum { MOST_ARGS = 16 };

static void make_inputs(kc_rng *r, const mlsi_graph *g, mlsys_tensor *in) {
    const mlsi_func *f = &g->funcs[0];
    int64_t binding[FG_SYMBOLS];
    fg_bind(r, binding);
    for (int64_t i = 0; i < f->n_inputs; i++) {
        const mlsi_type *t = &f->values[f->inputs[i]].type;
        int64_t shape[MLSYS_MAX_DIMS] = {0};
        for (int d = 0; d < t->rank; d++)
            OK(mlsi_dim_eval(&g->symbols, t->dims[d], binding, &shape[d]));
        in[i] = pc_random(&pc, r, t->dtype, t->rank, shape);
    }
}

/* The checker confirms all that the prover allows. */
static void check_kernels(const mlsi_program *p, uint64_t seed, int counts[2]) {
    counts[0] += count_in_place(p);
    for (int64_t f = 0; p->generated && f < p->graph.n_funcs; f++) {
        const char *why = p->generated[f].refused;
        counts[1] += p->generated[f].made;
        ck_assert_msg(!why || !strstr(why, "proof"), "seed %llu: %s", (unsigned long long)seed,
                      why);
    }
}

static void check_seed(uint64_t seed, int counts[2]) {
    kc_rng r = kc_seed(seed);
    mlsi_graph g;
    mlsys_tensor in[MOST_ARGS], want[MOST_ARGS] = {0}, got[MOST_ARGS] = {0};
    OK(mlsi_graph_init(&g, pc.ctx));
    fg_graph(&r, &g, pc.device);
    const int n_in = (int)g.funcs[0].n_inputs, n_out = (int)g.funcs[0].n_outputs;
    for (int i = 0; i < n_in; i++)
        g.funcs[0].donated[i] = seed & 1;
    make_inputs(&r, &g, in);
    pc_interpret_inside(&pc, &g, n_in, in, n_out, want);
    mlsys_program handle = pc_compile_inside(&pc, &g, modes[0]);
    mlsi_program *p = pinned(handle);
    check_kernels(p, seed, counts);
    mlsi_unpin(p);
    OK(mlsys_program_run(handle, pc.stream, n_in, in, n_out, got));
    for (int i = 0; i < n_out; i++)
        ck_assert_msg(rg_difference(got[i], want[i]) < 0, "seed %llu", (unsigned long long)seed);
    pc_release(n_in, in), pc_release(n_out, want), pc_release(n_out, got);
    OK(mlsys_release(handle));
    mlsi_graph_free(&g);
}

START_TEST(random_kernels) {
    uint64_t seed = test_random_seed("check_in_place", 1).state % 100000;
    int counts[2] = {0};
    for (uint64_t k = 0; k < 200; k++)
        check_seed(seed + k, counts);
    printf("%d of %d kernels in place\n", counts[0], counts[1]);
    ck_assert_int_gt(counts[0], 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("in_place");
    TCase *t = tcase_create("in_place");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, prover_and_checker_agree_with_memory, 0, N_NESTS);
    tcase_add_test(t, other_types_have_other_memory);
    tcase_add_loop_test(t, kernels_write_over_what_they_have_read, 0, 2 * N_PROGRAMS);
    tcase_add_test(t, random_kernels);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
