/* Kernels of many tasks, long rows and odd extents as generated CUDA C, run by the shim: reductions in the canonical order, rows that
 * are read several times, and what fusion makes of random graphs. The reference is the interpreter of loops. */
#include "ir/codegen/codegen.h"
#include "ir/loop/lower.h"
#include "ir/loop/prove.h"
#include "ir/loop/schedule.h"
#include "ir/passes/passes.h"
#include "support/cuda_kernel.h"
#include "support/fusible_graph.h"
#include "support/loop_case.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261202, MOST = 400, MOST_PARAMS = 32, GRAPHS = 60 };

typedef struct subject {
    mlsi_nest n;
    cuda_kernel k;
    int n_bindings;
    int64_t bindings[2][8];
    char what[200];
} subject;

static program_case pc;
static subject subjects[MOST];
static int n_subjects, blocks_are_workers, parts;
static mlsi_text text;

static void begin(void) {
    pc_open(&pc, 1);
    mlsi_text_init(&text, &pc.ctx->alloc);
    n_subjects = blocks_are_workers = parts = 0;
}

static void end(void) {
    for (int i = 0; i < n_subjects; i++)
        mlsi_nest_free(&subjects[i].n);
    mlsi_text_free(&text);
    pc_close(&pc);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct params {
    kc_tensor t[MOST_PARAMS];
    mlsi_view views[MOST_PARAMS];
    int n;
} params;

static void make_params(const mlsi_nest *n, const int64_t *dims, uint64_t seed, params *p) {
    kc_rng r = kc_seed(seed);
    p->n = n->n_inputs + n->n_outputs;
    ck_assert_int_le(p->n, MOST_PARAMS);
    for (int i = 0; i < p->n; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        int64_t shape[MLSYS_MAX_DIMS] = {0};
        for (int d = 0; d < b->rank; d++)
            ck_assert_int_eq(mlsi_dim_eval(&n->tab, b->dims[d], dims, &shape[d]), MLSYS_OK);
        p->t[i] = kc_tensor_new(&r, b->dtype, b->rank, shape, KC_DENSE);
        if (i < n->n_inputs) kc_fill(&r, &p->t[i], seed % 2 ? KC_ANY : KC_SMALL);
        p->views[i] = p->t[i].view;
    }
}

static void free_params(params *p) {
    for (int i = 0; i < p->n; i++)
        kc_tensor_free(&p->t[i]);
}

static bool same(const mlsi_view *a, const mlsi_view *b, int64_t i) {
    if (!memcmp(kc_at(a, i), kc_at(b, i), (size_t)mlsi_dtype_size(a->dtype))) return true;
    return mlsi_dtype_is_float(a->dtype) && isnan(kc_get_f(a, i)) && isnan(kc_get_f(b, i));
}

static void compare(const subject *s, const params *want, const params *got, const char *how) {
    for (int o = s->n.n_inputs; o < want->n; o++) {
        const mlsi_view *a = &want->views[o], *b = &got->views[o];
        for (int64_t i = 0, n = mlsi_view_count(a); i < n; i++)
            if (!same(a, b, i))
                ck_abort_msg("%s, %s: output %d element %lld of %lld is %.17g, expected %.17g",
                             s->what, how, o - s->n.n_inputs, (long long)i, (long long)n,
                             kc_get_f(b, i), kc_get_f(a, i));
        const uint64_t bytes = (uint64_t)(mlsi_view_count(b) * mlsi_dtype_size(b->dtype));
        const uint64_t head = (uint64_t)((unsigned char *)b->data - got->t[o].block);
        ck_assert_msg(!memcmp(got->t[o].block, got->t[o].before, head) &&
                          !memcmp(got->t[o].block + head + bytes, got->t[o].before + head + bytes,
                                  got->t[o].bytes - head - bytes),
                      "%s: bytes around output %d changed", s->what, o - s->n.n_inputs);
    }
}

/* More and fewer blocks than there are tasks, in both orders of the threads. */
static void run_subject(cuda_shim_module *m, const subject *s, const int64_t *dims, uint64_t seed) {
    params want, got;
    make_params(&s->n, dims, seed, &want);
    mlsys_status st = mlsi_nest_interpret(&s->n, dims, want.views);
    for (int k = 0; k < 2; k++) {
        make_params(&s->n, dims, seed, &got);
        mlsys_status ran = cuda_kernel_run(m, &s->k, &s->n, dims, got.views, k ? 2 : 7,
                                           k ? CUDA_SHIM_DESCENDING : CUDA_SHIM_ASCENDING);
        ck_assert_msg(ran == st, "%s: %s, expected %s", s->what, mlsys_last_error(),
                      mlsys_status_name(st));
        if (st == MLSYS_OK) compare(s, &want, &got, k ? "descending" : "ascending");
        free_params(&got);
    }
    free_params(&want);
}

static void run_all(uint64_t seed) {
    char *source = cuda_kernel_source(text.data);
    cuda_shim_module *m = cuda_shim_load(source);
    ck_assert_msg(m != NULL, "%.2000s", cuda_shim_error());
    for (int i = 0; i < n_subjects; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d", i);
        ck_assert_msg(cuda_kernel_find(m, name, &subjects[i].k), "%s: not in the module", name);
        for (int b = 0; b < subjects[i].n_bindings; b++)
            run_subject(m, &subjects[i], subjects[i].bindings[b], seed + (uint64_t)(2 * i + b));
    }
    cuda_shim_unload(m);
    free(source);
    printf("%d kernels, of %d the worker is a block; %d parts\n", n_subjects, blocks_are_workers,
           parts);
}

/* ---- subjects ---------------------------------------------------------------------------------------------------- */

/* Takes the nest. */
static void add_nest(mlsi_nest *n, bool scheduled, const char *what, const int64_t *binding) {
    char name[32];
    ck_assert_int_lt(n_subjects, MOST);
    subject *s = &subjects[n_subjects];
    *s = (subject){.n = *n, .n_bindings = 1};
    snprintf(name, sizeof name, "k%d", n_subjects++);
    snprintf(s->what, sizeof s->what, "%s", what);
    if (scheduled) OK(mlsi_codegen_cuda_schedule(&s->n));
    OK(mlsi_nest_move_invariants(&s->n));
    OK(mlsi_nest_verify(&s->n));
    mlsys_status st = mlsi_nest_prove(&s->n, MLSI_PROVE_HAZARDS);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", what, mlsys_last_error());
    st = mlsi_codegen_cuda(&s->n, name, &text, &s->k.code);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", what, mlsys_last_error());
    blocks_are_workers += s->k.code.block_is_worker;
    parts += s->k.code.n_parts;
    if (binding) memcpy(s->bindings[0], binding, sizeof *binding * (size_t)s->n.n_shape_symbols);
}

/* A graph's function 0 as one nest, or a nest per node. */
static void add_text(const char *graph, const char *what, const int64_t *binding) {
    mlsi_graph *g;
    loop_case c;
    mlsys_graph handle = pc_parse(&pc, graph);
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "test", &g));
    OK(loop_case_lower(g, what, &c));
    for (int64_t i = 0; i < c.n_parts; i++) {
        add_nest(&c.parts[i].n, true, what, binding);
        c.parts[i].n.alloc = NULL; /* the subject's now */
    }
    loop_case_free(&c);
    mlsi_unpin(g);
    mlsys_release(handle);
}

/* One op of x[R,N]; the type of its result: R and N are replaced by extents, T by the dtype. */
typedef struct row_op {
    const char *call, *result;
    bool floats; /* only these */
} row_op;

static const row_op row_ops[] = {
    {"softmax(%0)", "T[R,N]", true},
    {"softmax(%0) {axis=0}", "T[R,N]", true},
    {"log_softmax(%0)", "T[R,N]", true},
    {"layer_norm(%0, %1, %1)", "T[R,N]", true},
    {"rms_norm(%0, %1)", "T[R,N]", true},
    {"logsumexp(%0) {axis=1}", "T[R]", true},
    {"reduce_mean(%0) {axes=[1]}", "T[R]", true},
    {"reduce_sum(%0) {axes=[1]}", "T[R]", false},
    {"reduce_sum(%0) {axes=[0]}", "T[N]", false},
    {"reduce_sum(%0) {axes=[0, 1]}", "T[]", false},
    {"reduce_prod(%0) {axes=[1]}", "T[R]", false},
    {"reduce_max(%0) {axes=[1]}", "T[R]", false},
    {"reduce_max(%0) {axes=[0]}", "T[N]", false},
    {"argmax(%0) {axis=1}", "i64[R]", false},
    {"argmin(%0) {axis=0}", "i64[N]", false},
    {"transpose(%0) {perm=[1, 0]}", "T[N,R]", false},
    {"neg(%0)", "T[R,N]", false},
    {"sum_squares(%0)", "f32[]", true},
};

/* Replaces R, N and T. */
static void spell(char *to, size_t size, const char *from, int rows, int n, const char *dtype) {
    size_t at = strlen(to);
    for (; *from && at + 16 < size; from++) {
        if (*from == 'R')
            at += (size_t)snprintf(to + at, size - at, "%d", rows);
        else if (*from == 'N')
            at += (size_t)snprintf(to + at, size - at, "%d", n);
        else if (*from == 'T')
            at += (size_t)snprintf(to + at, size - at, "%s", dtype);
        else
            to[at++] = *from, to[at] = '\0';
    }
}

static void add_row_op(const row_op *op, int rows, int n, const char *dtype) {
    char graph[1024] = "functions 1\nfunc 0 \"main\" {\n", what[200];
    spell(graph, sizeof graph,
          "  %0 = input \"x\" : T[R,N]\n  %1 = input \"w\" : T[N]\n  %2 = ", rows, n, dtype);
    strcat(graph, op->call);
    strcat(graph, " : ");
    spell(graph, sizeof graph, op->result, rows, n, dtype);
    strcat(graph, "\n  output \"y\" %2\n}\n");
    snprintf(what, sizeof what, "%s of %s[%d,%d]", op->call, dtype, rows, n);
    add_text(graph, what, NULL);
}

static const int row_shapes[][2] = {{3, 1},    {5, 33},   {4, 128},  {3, 129}, {2, 4096},
                                    {2, 4097}, {1, 9000}, {200, 40}, {0, 50},  {3, 0}};
enum { ROW_SHAPES = sizeof row_shapes / sizeof *row_shapes };

START_TEST(rows_of_all_lengths) {
    static const char *const dtypes[] = {"f32", "bf16", "f64", "i32"};
    const int rows = row_shapes[_i][0], n = row_shapes[_i][1];
    begin();
    for (size_t k = 0; k < sizeof row_ops / sizeof *row_ops; k++)
        for (int d = 0; d < 4; d++) {
            if (row_ops[k].floats && d == 3) continue;
            if ((n == 0 || rows == 0) &&
                (strstr(row_ops[k].call, "max") || strstr(row_ops[k].call, "min")))
                continue; /* of nothing */
            if (strstr(row_ops[k].call, "sum_squares") && d == 2) continue;
            add_row_op(&row_ops[k], rows, n, dtypes[d]);
        }
    run_all(SEED + (uint64_t)_i);
    end();
}
END_TEST

/* Reductions whose runs of 4096 terms are tasks: whole runs, a short last one, more than 128 runs, more than 4096. */
START_TEST(long_rows_of_few) {
    static const char *const dtypes[] = {"f32", "bf16", "f64", "i32"};
    static const int shapes[][2] = {{3, 16384}, {2, 20001}, {1, 130 * 4096}, {7, 16385}};
    const int rows = shapes[_i][0], n = shapes[_i][1];
    begin();
    for (size_t k = 0; k < sizeof row_ops / sizeof *row_ops; k++)
        for (int d = 0; d < 4; d++) {
            if (row_ops[k].floats && d == 3) continue;
            if (strstr(row_ops[k].call, "[0") || strstr(row_ops[k].call, "axis=0") ||
                strstr(row_ops[k].call, "transpose") || strstr(row_ops[k].call, "neg") ||
                (strstr(row_ops[k].call, "sum_squares") && d == 2))
                continue;
            add_row_op(&row_ops[k], rows, n, dtypes[d]);
        }
    ck_assert_int_ge(parts, 20);
    run_all(SEED + (uint64_t)_i);
    end();
}
END_TEST

/* More than 4096 runs: the reduction over them has chunks too. */
START_TEST(a_very_long_row) {
    static const row_op sum = {"reduce_sum(%0) {axes=[1]}", "T[R]", false};
    begin();
    add_row_op(&sum, 1, 4097 * 4096 + 5, "bf16");
    ck_assert_int_eq(parts, 1);
    run_all(SEED);
    end();
}
END_TEST

/* Rows and terms whose number is not known, down to none. */
START_TEST(long_rows_of_symbols) {
    static const int64_t bindings[][2] = {{2, 20001}, {1, 4096}, {3, 7}, {0, 100}, {2, 0}};
    begin();
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++) {
        add_text("symbol B 0 8 1\nsymbol K 0 40000 1\nfunctions 1\nfunc 0 \"main\" {\n"
                 "  %0 = input \"x\" : f32[B,K]\n"
                 "  %1 = reduce_mean(%0) {axes=[1]} : f32[B]\n  output \"y\" %1\n}\n",
                 "means of symbolic rows", bindings[i]);
        add_text("symbol B 0 8 1\nsymbol K 0 40000 1\nfunctions 1\nfunc 0 \"main\" {\n"
                 "  %0 = input \"x\" : f32[B,K]\n  %1 = rms_norm(%0) {axis=1} : f32[B,K]\n"
                 "  output \"y\" %1\n}\n",
                 "norms of symbolic rows", bindings[i]);
    }
    ck_assert_int_eq(parts, n_subjects);
    run_all(SEED);
    end();
}
END_TEST

/* Sums over rows, of 32 columns a block: less than 128 rows, chunks, columns in tiles. */
START_TEST(columns) {
    static const char *const dtypes[] = {"f32", "bf16", "f64"};
    static const int shapes[][2] = {{33, 32},   {127, 40},  {128, 4100}, {129, 31},
                                    {4096, 33}, {4225, 65}, {9000, 34},  {40, 0}};
    static const row_op ops[] = {{"reduce_sum(%0) {axes=[0]}", "T[N]", false},
                                 {"reduce_prod(%0) {axes=[0]}", "T[N]", false},
                                 {"reduce_mean(%0) {axes=[0]}", "T[N]", false},
                                 {"logsumexp(%0) {axis=0}", "T[N]", false}};
    begin();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            for (int d = 0; d < 3; d++)
                if (shapes[i][1] || k < 3)
                    add_row_op(&ops[k], shapes[i][0], shapes[i][1], dtypes[d]);
    ck_assert_ptr_nonnull(strstr(text.data, "_column_fold"));
    run_all(SEED);
    end();
}
END_TEST

/* Tiles whose sides end within them, along loops that are cut themselves. */
START_TEST(transposes) {
    static const row_op turn = {"transpose(%0) {perm=[1, 0]}", "T[N,R]", false};
    static const int shapes[][2] = {{40, 4100}, {4100, 33}, {65, 31}, {16, 16}, {15, 200}};
    begin();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        add_row_op(&turn, shapes[i][0], shapes[i][1], "f32");
        add_row_op(&turn, shapes[i][0], shapes[i][1], "bf16");
        add_row_op(&turn, shapes[i][0], shapes[i][1], "f64");
    }
    run_all(SEED);
    end();
}
END_TEST

/* What one thread of a block stores and another one reads: without the barrier between the loops it is not there. */
START_TEST(a_row_read_backwards) {
    enum { ROWS = 3, LENGTH = 300 };
    const mlsi_type type = {.dtype = MLSYS_F32, .rank = 2, .dims = {ROWS, LENGTH}};
    const int64_t length = LENGTH;
    mlsi_nest n;
    begin();
    mlsi_nest_init(&n, &pc.ctx->alloc, NULL, "backwards");
    const int32_t x = mlsi_nest_param(&n, MLSI_SCOPE_INPUT, "x", &type);
    const int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, "y", &type);
    const int64_t r = mlsi_nest_for(&n, MLSI_LOOP_PARALLEL, "r", ROWS);
    const int32_t row = mlsi_nest_local(&n, "row", MLSYS_F32, 1, &length);
    int64_t at[2] = {r, mlsi_nest_for(&n, MLSI_LOOP_VECTOR, "j", LENGTH)};
    mlsi_nest_store(&n, row, &at[1], mlsi_nest_load(&n, x, at));
    mlsi_nest_end(&n);
    at[1] = mlsi_nest_for(&n, MLSI_LOOP_VECTOR, "k", LENGTH);
    const int64_t back = mlsi_nest_index(&n, '-', LENGTH - 1, at[1]);
    mlsi_nest_store(&n, y, at, mlsi_nest_load(&n, row, &back));
    mlsi_nest_end(&n);
    mlsi_nest_end(&n);
    OK(mlsi_nest_finish(&n));
    add_nest(&n, false, "a row read backwards", NULL);
    ck_assert_int_eq(blocks_are_workers, 1);
    run_all(SEED);
    end();
}
END_TEST

/* ---- what fusion makes ------------------------------------------------------------------------------------------- */

static bool has_own_loops(const mlsi_func *f) {
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (mlsi_op_get(f->nodes[i].op)->nest) return true;
    return false;
}

static void add_fused(const mlsi_graph *g, const int64_t *binding, const char *what) {
    mlsi_program *p;
    mlsys_program program = pc_compile_inside(&pc, g, "fuse=always jit=never");
    OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
    const int32_t n_funcs = (int32_t)p->graph.n_funcs;
    for (int32_t f = 0; p->generated && f < n_funcs; f++) {
        mlsi_nest n;
        int32_t flat;
        if (!p->generated[f].made) continue;
        OK(mlsi_flatten_func(&p->graph, f, &flat));
        OK(mlsi_lower_func(&p->graph, flat, what, &n));
        add_nest(&n, !has_own_loops(&p->graph.funcs[f]), what, binding);
        mlsi_graph_truncate(&p->graph, n_funcs);
    }
    mlsi_unpin(p);
    mlsys_release(program);
}

START_TEST(random_graphs) {
    setenv("MLSYS_CC", "/nonexistent/cc", 1);
    begin();
    for (int i = 0; i < GRAPHS; i++) {
        mlsi_graph g;
        char what[32];
        int64_t binding[FG_SYMBOLS];
        kc_rng r = kc_seed(SEED + (uint64_t)i);
        OK(mlsi_graph_init(&g, pc.ctx));
        fg_graph(&r, &g, pc.device);
        fg_bind(&r, binding);
        snprintf(what, sizeof what, "graph %d", i);
        add_fused(&g, binding, what);
        mlsi_graph_free(&g);
    }
    run_all(SEED);
    end();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda nests");
    TCase *tc = tcase_create("nests");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, rows_of_all_lengths, 0, ROW_SHAPES);
    tcase_add_test(tc, random_graphs);
    tcase_add_loop_test(tc, long_rows_of_few, 0, 4);
    tcase_add_test(tc, a_very_long_row);
    tcase_add_test(tc, columns);
    tcase_add_test(tc, long_rows_of_symbols);
    suite_add_tcase(s, tc);
    TCase *waits = tcase_create("barriers");
    tcase_set_timeout(waits, 120);
    tcase_add_test(waits, a_row_read_backwards);
    tcase_add_test(waits, transposes);
    suite_add_tcase(s, waits);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
