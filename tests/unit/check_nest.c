/* Nests: what construction, verification, proof and the interpreter refuse, each by a fault planted in a good nest; and that
 * what is proved of index maps is so, by running over all iterations. */
#include "ir/loop/prove.h"
#include "support/nest_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

#define AT(...)                                                                                    \
    (const int64_t[]) { __VA_ARGS__ }

static mlsi_symtab symbols;
static int64_t M, N;

static void setup(void) {
    mlsi_symtab_init(&symbols, &mlsi_alloc_process);
    ck_assert_int_eq(mlsi_dim_symbol(&symbols, "M", 0, 5, 1, &M), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(&symbols, "N", 1, 6, 1, &N), MLSYS_OK);
}
static void teardown(void) { mlsi_symtab_free(&symbols); }

static int32_t param(mlsi_nest *n, mlsi_scope scope, int rank, const int64_t *dims) {
    mlsi_type t = {.dtype = MLSYS_F32, .rank = rank};
    memcpy(t.dims, dims, sizeof *dims * (size_t)rank);
    return mlsi_nest_param(n, scope, NULL, &t);
}

/* y[i, j] = x[i, j] - sum over k of x[i, k], by way of a row of LOCAL memory; statements in this order. */
enum { S_ROWS, S_ROW, S_ACC, S_K, S_ADD, S_LET, S_J, S_KEEP, S_J2, S_IF, S_STORE, N_STATEMENTS };

static void build_rows(mlsi_nest *n) {
    mlsi_nest_init(n, &mlsi_alloc_process, &symbols, "rows");
    int32_t x = param(n, MLSI_SCOPE_INPUT, 2, AT(M, N));
    int32_t y = param(n, MLSI_SCOPE_OUTPUT, 2, AT(M, N));
    int64_t i = mlsi_nest_for(n, MLSI_LOOP_PARALLEL, "i", M);
    int32_t row = mlsi_nest_local(n, "row", MLSYS_F32, 1, &N);
    int32_t acc = mlsi_nest_acc(n, MLSI_ACC_SUM, MLSYS_F32, N);
    int64_t k = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "k", N);
    mlsi_nest_add(n, acc, k, mlsi_nest_load(n, x, AT(i, k)), -1);
    mlsi_nest_end(n);
    int32_t sum = mlsi_nest_let(n, "s", mlsi_nest_acc_value(n, acc));
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_VECTOR, "j", N);
    mlsi_nest_store(n, row, &j,
                    mlsi_nest_op(n, MLSI_OP_SUB, 0, mlsi_nest_load(n, x, AT(i, j)), sum, -1));
    mlsi_nest_end(n);
    int64_t j2 = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", N);
    mlsi_nest_if_range(n, 0, j2, N);
    int32_t kept = mlsi_nest_load(n, row, &j2);
    mlsi_nest_store(n, y, AT(i, j2), mlsi_nest_guard(n, 0, j2, N, kept, sum));
    mlsi_nest_end(n);
    mlsi_nest_end(n);
    mlsi_nest_end(n);
    if (mlsi_nest_finish(n) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());
    ck_assert_int_eq(n->n_stmts, N_STATEMENTS);
}

static int32_t expr_of(const mlsi_nest *n, mlsi_lx_kind kind) {
    for (int32_t i = 0; i < n->n_exprs; i++)
        if (n->exprs[i].kind == kind) return i;
    ck_abort_msg("no expression of kind %d", (int)kind);
}

static int64_t index_of(mlsi_nest *n, int op, int64_t a, int64_t b) {
    int64_t d;
    ck_assert_int_eq(mlsi_dim_op(&n->tab, op, a, b, &d), MLSYS_OK);
    return d;
}

/* ---- planted faults -------------------------------------------------------------------------------------- */

/* clang-format off: a line each */
static void undefined_let(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_LET)].ref = 7; }
static void let_before(mlsi_nest *n) { n->stmts[S_ADD].value = expr_of(n, MLSI_LX_LET); }
static void acc_before(mlsi_nest *n) {
    n->stmts[S_ACC].next = S_LET, n->stmts[S_LET].next = S_K, n->stmts[S_K].next = S_J,
    n->stmts[S_ROW].next = S_LET, n->stmts[S_LET].next = S_ACC, n->stmts[S_ACC].next = S_K;
}
static void acc_twice(mlsi_nest *n) {
    n->stmts[S_KEEP].kind = MLSI_LS_ACC, n->stmts[S_KEEP].ref = 0;
}
static void dtype_of_load(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_LOAD)].dtype = MLSYS_F64; }
static void dtype_of_op(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_OP)].dtype = MLSYS_BOOL; }
static void op_is_no_scalar(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_OP)].op = MLSI_OP_SOFTMAX; }
static void op_has_one(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_OP)].n_args = 1; }
static void op_of_itself(mlsi_nest *n) {
    int32_t x = expr_of(n, MLSI_LX_OP);
    n->exprs[x].args[0] = x;
}
static void no_such_expr(mlsi_nest *n) { n->stmts[S_STORE].value = 99; }
static void store_dtype(mlsi_nest *n) { n->buffers[1].dtype = MLSYS_F64; }
static void store_to_input(mlsi_nest *n) { n->stmts[S_STORE].ref = 0; }
static void store_rank(mlsi_nest *n) { n->stmts[S_STORE].n_index = 1; }
static void no_such_buffer(mlsi_nest *n) { n->stmts[S_STORE].ref = 9; }
static void local_before(mlsi_nest *n) { n->stmts[S_ROWS].body = S_ACC; }
static void variable_behind(mlsi_nest *n) { n->stmts[S_STORE].index[1] = n->vars[1].code; }
static void no_such_index(mlsi_nest *n) { n->stmts[S_STORE].index[1] = -5; }
static void variable_twice(mlsi_nest *n) { n->stmts[S_J2].var = n->stmts[S_J].var; }
static void other_symbol(mlsi_nest *n) { n->vars[1].symbol = n->vars[0].symbol; }
static void other_extent(mlsi_nest *n) { n->vars[1].extent = M; }
static void no_symbol(mlsi_nest *n) { n->vars[1].symbol = -1, n->vars[1].code = 0; }
static void parallel_inside(mlsi_nest *n) { n->stmts[S_J2].loop = MLSI_LOOP_PARALLEL; }
static void parallel_beside(mlsi_nest *n) {
    n->stmts[S_ROWS].body = S_ROW, n->stmts[S_ROWS].next = S_LET, n->stmts[S_K].next = -1;
    n->stmts[S_LET].kind = MLSI_LS_WAIT;
    n->stmts[S_LET].value = -1;
    n->stmts[S_LET].next = -1;
}
static void vector_in_vector(mlsi_nest *n) {
    n->stmts[S_J].body = S_J2, n->stmts[S_J].next = -1, n->stmts[S_J2].loop = MLSI_LOOP_VECTOR,
    n->stmts[S_IF].body = S_STORE;
}
static void lane_on_cpu(mlsi_nest *n) { n->stmts[S_J].loop = MLSI_LOOP_LANE; }
static void unrolled_symbol(mlsi_nest *n) { n->stmts[S_J2].loop = MLSI_LOOP_UNROLLED; }
static void no_kind(mlsi_nest *n) { n->stmts[S_J2].loop = 0; }
static void statement_twice(mlsi_nest *n) { n->stmts[S_STORE].next = S_STORE; }
static void no_statement(mlsi_nest *n) { n->stmts[S_STORE].next = 77; }
static void statement_kind(mlsi_nest *n) { n->stmts[S_STORE].kind = 55; }
static void body_of_store(mlsi_nest *n) { n->stmts[S_KEEP].body = S_J2; }
static void barrier_on_cpu(mlsi_nest *n) {
    n->stmts[S_KEEP].kind = MLSI_LS_BARRIER, n->stmts[S_KEEP].value = -1;
}
static void guard_dtype(mlsi_nest *n) {
    n->exprs[expr_of(n, MLSI_LX_GUARD)].args[1] = mlsi_nest_int(n, MLSYS_I32, 1);
}
static void guard_bounds(mlsi_nest *n) { n->exprs[expr_of(n, MLSI_LX_GUARD)].n_index = 2; }
static void if_bounds(mlsi_nest *n) { n->stmts[S_IF].n_index = 1; }
static void if_dtype(mlsi_nest *n) { n->stmts[S_IF].value = expr_of(n, MLSI_LX_LET); }
static void add_two(mlsi_nest *n) { n->stmts[S_ADD].value2 = n->stmts[S_ADD].value; }
static void add_to_none(mlsi_nest *n) { n->stmts[S_ADD].ref = 3; }
static void acc_kind(mlsi_nest *n) { n->accs[0].kind = MLSI_ACC_OR; }
static void acc_narrow(mlsi_nest *n) { n->accs[0].dtype = MLSYS_F16; }
static void acc_init(mlsi_nest *n) { n->accs[0].init = expr_of(n, MLSI_LX_LOAD); }
static void const_bits(mlsi_nest *n) {
    int32_t x = mlsi_nest_float(n, MLSYS_F32, 1);
    n->exprs[x].bits |= (uint64_t)1 << 40;
    n->stmts[S_STORE].value = x;
}
static void same_name(mlsi_nest *n) { n->buffers[1].name = n->buffers[0].name; }
static void bad_name(mlsi_nest *n) { n->buffers[1].name = "a b"; }
static void parameter_twice(mlsi_nest *n) { n->n_inputs = 2; }
static void parameter_number(mlsi_nest *n) { n->buffers[0].param = 4; }
static void negative_axis(mlsi_nest *n) { n->buffers[0].dims[0] = index_of(n, '-', M, 1); }
static void copy_of_op(mlsi_nest *n) { n->stmts[S_KEEP].kind = MLSI_LS_COPY; }
static void shuffled(mlsi_nest *n) {
    int32_t x = expr_of(n, MLSI_LX_LET);
    n->exprs[x].kind = MLSI_LX_SHUFFLE, n->exprs[x].n_index = 1;
}
static void shared_on_cpu(mlsi_nest *n) { n->buffers[2].scope = MLSI_SCOPE_SHARED; }
static void threads_share(mlsi_nest *n) {
    n->stmts[S_ROWS].body = S_ACC, n->stmts[S_ROW].next = S_ROWS, n->first = S_ROW,
    n->stmts[S_ROWS].loop = MLSI_LOOP_BLOCK;
    n->stmts[S_J].loop = MLSI_LOOP_SERIAL;
}

static void subscript_high(mlsi_nest *n) {
    n->stmts[S_STORE].index[1] = index_of(n, '+', n->stmts[S_STORE].index[1], 1);
}
static void subscript_low(mlsi_nest *n) {
    n->stmts[S_STORE].index[0] = index_of(n, '-', n->stmts[S_STORE].index[0], 1);
}
static void load_high(mlsi_nest *n) {
    mlsi_lx *x = &n->exprs[expr_of(n, MLSI_LX_LOAD)];
    x->index[0] = M;
}
static void position_twice(mlsi_nest *n) { n->stmts[S_ADD].index[0] = 0; }
static void position_low(mlsi_nest *n) {
    n->stmts[S_ADD].index[0] = index_of(n, '-', n->vars[1].code, 1);
}
static void fewer_positions(mlsi_nest *n) { n->accs[0].count = index_of(n, '+', N, 1); }
static void read_among(mlsi_nest *n) {
    n->stmts[S_K].body = S_ADD, n->stmts[S_ADD].next = S_LET, n->stmts[S_K].next = S_J,
    n->stmts[S_LET].next = -1;
    n->stmts[S_KEEP].value = expr_of(n, MLSI_LX_LOAD);
    n->exprs[n->stmts[S_KEEP].value].index[1] = n->vars[2].code;
    n->exprs[expr_of(n, MLSI_LX_GUARD)].args[1] = mlsi_nest_float(n, MLSYS_F32, 0);
    n->stmts[S_ADD].value = mlsi_nest_float(n, MLSYS_F32, 1);
}
static void no_terms(mlsi_nest *n) { n->stmts[S_ACC].next = S_LET; }
static void output_column(mlsi_nest *n) { n->stmts[S_STORE].index[1] = 0; }
static void output_cut(mlsi_nest *n) { n->stmts[S_IF].index[0] = 1; }
static void output_by_data(mlsi_nest *n) {
    n->stmts[S_IF].value =
        mlsi_nest_op(n, MLSI_OP_LT, 0, expr_of(n, MLSI_LX_LET), expr_of(n, MLSI_LX_LET), -1);
}
static void hazard_row(mlsi_nest *n) { n->stmts[S_STORE].index[0] = 0; }
static void hazard_shift(mlsi_nest *n) {
    n->stmts[S_J].var = n->stmts[S_J].var;
    int32_t x =
        mlsi_nest_load(n, 1, AT(index_of(n, '-', index_of(n, '-', M, 1), n->vars[0].code), 0));
    n->stmts[S_STORE].value = x;
}
static void hazard_lanes(mlsi_nest *n) { n->stmts[S_KEEP].index[0] = 0; }
static void hazard_neighbour(mlsi_nest *n) {
    mlsi_ls *s = &n->stmts[S_KEEP];
    s->value = mlsi_nest_guard(n, 0, index_of(n, '-', s->index[0], 1), N,
                               mlsi_nest_load(n, 2, AT(index_of(n, '-', s->index[0], 1))),
                               mlsi_nest_float(n, MLSYS_F32, 0));
}

static const struct planted {
    const char *name;
    void (*plant)(mlsi_nest *n);
    unsigned part; /* 0: verification */
    const char *sentence;
} planted[] = {
    {"undefined let", undefined_let, 0, "there is no let 7"},
    {"let before its definition", let_before, 0, "let 0 is not defined here"},
    {"accumulator before", acc_before, 0, "accumulator 0 is not defined here"},
    {"accumulator twice", acc_twice, 0, "accumulator 0 is defined twice"},
    {"dtype of a load", dtype_of_load, 0, "in0 is f32, not f64"},
    {"dtype of an op", dtype_of_op, 0, "sub gives f32, not bool"},
    {"no scalar op", op_is_no_scalar, 0, "softmax is no elementwise op"},
    {"arguments of an op", op_has_one, 0, "sub has 1 arguments"},
    {"circle", op_of_itself, 0, "is part of itself"},
    {"no expression", no_such_expr, 0, "there is no expression 99"},
    {"dtype of a store", store_dtype, 0, "the value is f32, not f64"},
    {"input written", store_to_input, 0, "in0 is an input"},
    {"rank", store_rank, 0, "1 subscripts for out0, which has rank 2"},
    {"no buffer", no_such_buffer, 0, "there is no buffer 9"},
    {"local before ALLOC", local_before, 0, "is not allocated here"},
    {"variable after its loop", variable_behind, 0, "k_1 is not defined here"},
    {"no index", no_such_index, 0, "-5 is no index expression"},
    {"variable twice", variable_twice, 0, "variable 2 is defined twice"},
    {"symbol of another", other_symbol, 0, "is not the variable of its symbol"},
    {"extent of another", other_extent, 0, "is not the variable of its symbol"},
    {"no symbol", no_symbol, 0, "has no symbol"},
    {"parallel inside", parallel_inside, 0, "a loop of tasks is inside"},
    {"parallel beside", parallel_beside, 0,
     "a loop of tasks is inside of something else or beside"},
    {"vector in vector", vector_in_vector, 0, "a loop of this kind is inside of one of kind 3"},
    {"lane on a CPU", lane_on_cpu, 0, "a loop of this kind is inside of one of kind 2"},
    {"unrolled", unrolled_symbol, 0, "is no number"},
    {"kind of loop", no_kind, 0, "there is no kind of loop 0"},
    {"statement twice", statement_twice, 0, "stands in two places"},
    {"no statement", no_statement, 0, "there is no statement 77"},
    {"kind of statement", statement_kind, 0, "there is no kind of statement 55"},
    {"body", body_of_store, 0, "has a body"},
    {"barrier", barrier_on_cpu, 0, "no lanes to wait for"},
    {"dtype of a guard", guard_dtype, 0, "a guard's argument is i32, not f32"},
    {"bounds of a guard", guard_bounds, 0, "a guard needs lo, index, hi"},
    {"bounds of an if", if_bounds, 0, "a condition needs lo, index and hi"},
    {"dtype of an if", if_dtype, 0, "the value is f32, not bool"},
    {"two terms", add_two, 0, "takes a position and one term"},
    {"no accumulator", add_to_none, 0, "accumulator 3 is not open here"},
    {"kind of accumulator", acc_kind, 0, "no reduction 7 of f32"},
    {"narrow sum", acc_narrow, 0, "no reduction 1 of f16"},
    {"first value of a sum", acc_init, 0, "begins with a value and is no product"},
    {"bits of a constant", const_bits, 0, "a constant has more bits than f32"},
    {"same name", same_name, 0, "two buffers are called in0"},
    {"no name", bad_name, 0, "is no name for a buffer"},
    {"no parameter", parameter_twice, 0, "parameter 1 has no buffer"},
    {"number of a parameter", parameter_number, 0, "in0 is parameter 4"},
    {"negative axis", negative_axis, 0, "axis 0 of in0 may have extent -1"},
    {"copy", copy_of_op, 0, "what is copied is no element"},
    {"shuffle", shuffled, 0, "a shuffle of a let that no LANE loop"},
    {"shared", shared_on_cpu, 0, "is shared by no block"},
    {"threads share", threads_share, 0, "is memory of another thread"},
    {"subscript too high", subscript_high, MLSI_PROVE_BOUNDS,
     "store of out0: subscript 1 is not proved"},
    {"subscript too low", subscript_low, MLSI_PROVE_BOUNDS,
     "store of out0: subscript 0 is not proved"},
    {"load too high", load_high, MLSI_PROVE_BOUNDS, "load of in0: subscript 0 is not proved"},
    {"position twice", position_twice, MLSI_PROVE_POSITIONS, "positions of acc_0 are not proved"},
    {"position low", position_low, MLSI_PROVE_POSITIONS, "positions of acc_0 are not proved"},
    {"positions missing", fewer_positions, MLSI_PROVE_POSITIONS,
     "positions of acc_0 are not proved"},
    {"read among", read_among, MLSI_PROVE_POSITIONS, "acc_0 is read among its terms"},
    {"no terms", no_terms, MLSI_PROVE_POSITIONS, "acc_0 is read and gets no terms"},
    {"one column", output_column, MLSI_PROVE_OUTPUTS, "each element of out0 once"},
    {"cut off", output_cut, MLSI_PROVE_OUTPUTS, "each element of out0 once"},
    {"by data", output_by_data, MLSI_PROVE_OUTPUTS, "each element of out0 once"},
    {"rows meet", hazard_row, MLSI_PROVE_HAZARDS, "iterations of i_0 are not proved"},
    {"rows read rows", hazard_shift, MLSI_PROVE_HAZARDS, "iterations of i_0 are not proved"},
    {"lanes meet", hazard_lanes, MLSI_PROVE_HAZARDS, "iterations of j_2 are not proved"},
    {"lanes read lanes", hazard_neighbour, MLSI_PROVE_HAZARDS, "iterations of j_2 are not proved"},
};
/* clang-format on */

START_TEST(planted_faults_are_named) {
    const struct planted *p = &planted[_i];
    mlsi_nest n;
    build_rows(&n);
    p->plant(&n);
    ck_assert_msg(n.status == MLSYS_OK, "%s: %s", p->name, mlsys_last_error());
    mlsys_status st = mlsi_nest_verify(&n);
    if (p->part && st != MLSYS_OK) ck_abort_msg("%s: %s", p->name, mlsys_last_error());
    if (p->part) st = mlsi_nest_prove(&n, p->part);
    ck_assert_msg(st == MLSYS_E_STATE && strstr(mlsys_last_error(), p->sentence),
                  "%s: %s \"%s\", expected \"%s\"", p->name, mlsys_status_name(st),
                  st == MLSYS_OK ? "" : mlsys_last_error(), p->sentence);
    mlsi_nest_free(&n);
}
END_TEST

START_TEST(a_good_nest_is_proved) {
    mlsi_nest n;
    build_rows(&n);
    for (unsigned part = 1; part < MLSI_PROVE_ALL; part *= 2)
        if (mlsi_nest_prove(&n, part) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());
    mlsi_nest_free(&n);
}
END_TEST

/* The samples of schedules are well formed and their subscripts in range. */
START_TEST(samples_verify) {
    mlsi_nest n;
    nc_build(&n, &mlsi_alloc_process, nest_samples[_i].name);
    if (mlsi_nest_prove(&n, MLSI_PROVE_BOUNDS | MLSI_PROVE_POSITIONS) != MLSYS_OK)
        ck_abort_msg("%s: %s", nest_samples[_i].name, mlsys_last_error());
    mlsi_nest_free(&n);
}
END_TEST

/* ---- construction ---------------------------------------------------------------------------------------- */

static void must_fail(mlsi_nest *n, mlsys_status want, const char *sentence) {
    mlsys_status got = mlsi_nest_finish(n);
    ck_assert_msg(got == want && strstr(mlsys_last_error(), sentence),
                  "%s \"%s\", expected %s \"%s\"", mlsys_status_name(got), mlsys_last_error(),
                  mlsys_status_name(want), sentence);
    mlsi_nest_free(n);
}

static void begin(mlsi_nest *n) { mlsi_nest_init(n, &mlsi_alloc_process, &symbols, "made"); }

START_TEST(construction_fails_once) {
    mlsi_nest n;
    begin(&n);
    (void)mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "i", N);
    must_fail(&n, MLSYS_E_INTERNAL, "1 bodies left open");
    begin(&n);
    mlsi_nest_end(&n);
    must_fail(&n, MLSYS_E_INTERNAL, "no body to end");
    begin(&n);
    for (int i = 0; i < 70; i++)
        mlsi_nest_if_range(&n, 0, 0, 1);
    must_fail(&n, MLSYS_E_UNSUPPORTED, "bodies nest deeper than 63");
    begin(&n);
    (void)mlsi_nest_var(&n, "i", index_of(&n, '-', M, 1));
    must_fail(&n, MLSYS_E_INTERNAL, "extent of i may be -1");
    begin(&n);
    (void)mlsi_nest_index(&n, '/', N, M);
    must_fail(&n, MLSYS_E_SHAPE, "divisor M may be 0");
    begin(&n);
    (void)mlsi_nest_op(&n, MLSI_OP_ADD, 0, mlsi_nest_int(&n, MLSYS_I32, 1), -1, -1);
    must_fail(&n, MLSYS_E_INTERNAL, "an argument is missing");
    begin(&n);
    int32_t x = param(&n, MLSI_SCOPE_INPUT, 0, NULL);
    (void)mlsi_nest_bytes(&n, x);
    must_fail(&n, MLSYS_E_UNSUPPORTED, "bytes of rank 0");
    /* after a failure nothing is made, and nothing crashes */
    begin(&n);
    mlsi_nest_end(&n);
    ck_assert_int_eq(mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "i", N), 0);
    ck_assert_int_eq(mlsi_nest_acc(&n, MLSI_ACC_SUM, MLSYS_F32, N), -1);
    ck_assert_int_eq(mlsi_nest_local(&n, "row", MLSYS_F32, 1, &N), -1);
    ck_assert_int_eq(mlsi_nest_load(&n, -1, NULL), -1);
    mlsi_nest_store(&n, -1, NULL, -1);
    mlsi_nest_add(&n, -1, 0, -1, -1);
    must_fail(&n, MLSYS_E_INTERNAL, "no body to end");
}
END_TEST

/* A variable takes no shape symbol's name. */
START_TEST(names_of_variables_are_free) {
    mlsi_symtab t;
    mlsi_nest n;
    int64_t d;
    mlsi_symtab_init(&t, &mlsi_alloc_process);
    ck_assert_int_eq(mlsi_dim_symbol(&t, "i_0", 0, 5, 1, &d), MLSYS_OK);
    mlsi_nest_init(&n, &mlsi_alloc_process, &t, "names");
    int64_t i = mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "i", 6);
    ck_assert(i != d);
    ck_assert_str_eq(n.vars[0].name, "i_0_");
    mlsi_nest_end(&n);
    ck_assert_int_eq(mlsi_nest_verify(&n), MLSYS_OK);
    mlsi_nest_free(&n);
    mlsi_symtab_free(&t);
}
END_TEST

/* ---- what the interpreter refuses ------------------------------------------------------------------------- */

/* clang-format off: a line each */
static void no_first_load(mlsi_nest *n) { n->stmts[S_J].body = -1; }
static void run_short(mlsi_nest *n) { n->stmts[S_IF].index[2] = index_of(n, '-', N, 1); }

static const struct refused {
    void (*plant)(mlsi_nest *n);
    const char *sentence;
} refused[] = {
    {subscript_high, "subscript 1 of out0 is 4, extent 4"},
    {subscript_low, "subscript 0 of out0 is -1, extent 3"},
    {load_high, "subscript 0 of in0 is 3, extent 3"},
    {position_twice, "position 0 of acc_0 is added twice"},
    {position_low, "position -1 of acc_0 is outside its count"},
    {fewer_positions, "acc_0 is read with 4 of 5 terms"},
    {no_terms, "acc_0 is read with 0 of 4 terms"},
    {no_first_load, "is read before it is written"},
    {run_short, "of out0 is never written"},
};
/* clang-format on */

static mlsys_status interpret(const mlsi_nest *n, float *x, float *y) {
    const int64_t dims[2] = {3, 4};
    mlsi_view views[2] = {
        {.data = x, .dtype = MLSYS_F32, .rank = 2, .shape = {3, 4}, .strides = {4, 1}},
        {.data = y, .dtype = MLSYS_F32, .rank = 2, .shape = {3, 4}, .strides = {4, 1}}};
    return mlsi_nest_interpret(n, dims, views);
}

START_TEST(the_interpreter_refuses) {
    const struct refused *c = &refused[_i];
    float x[12] = {0}, y[12];
    mlsi_nest n;
    build_rows(&n);
    c->plant(&n);
    ck_assert_int_eq(mlsi_nest_verify(&n), MLSYS_OK);
    mlsys_status st = interpret(&n, x, y);
    ck_assert_msg(st == MLSYS_E_STATE && strstr(mlsys_last_error(), c->sentence),
                  "%s \"%s\", expected \"%s\"", mlsys_status_name(st),
                  st == MLSYS_OK ? "" : mlsys_last_error(), c->sentence);
    ck_assert_msg(mlsi_nest_prove(&n, MLSI_PROVE_ALL) != MLSYS_OK || c->plant == no_first_load,
                  "\"%s\" is proved", c->sentence);
    mlsi_nest_free(&n);
}
END_TEST

START_TEST(the_interpreter_runs) {
    float x[12], y[12];
    mlsi_nest n;
    for (int i = 0; i < 12; i++)
        x[i] = (float)(i * i);
    build_rows(&n);
    ck_assert_int_eq(interpret(&n, x, y), MLSYS_OK);
    for (int i = 0; i < 12; i++)
        ck_assert(y[i] ==
                  x[i] - (x[i / 4 * 4] + x[i / 4 * 4 + 1] + x[i / 4 * 4 + 2] + x[i / 4 * 4 + 3]));
    mlsi_nest_free(&n);
}
END_TEST

int main(void) {
    Suite *s = suite_create("nests");
    TCase *tc = tcase_create("nest");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_good_nest_is_proved);
    tcase_add_loop_test(tc, planted_faults_are_named, 0, sizeof planted / sizeof planted[0]);
    tcase_add_loop_test(tc, samples_verify, 0, nest_sample_count);
    tcase_add_test(tc, construction_fails_once);
    tcase_add_test(tc, names_of_variables_are_free);
    tcase_add_loop_test(tc, the_interpreter_refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tc, the_interpreter_runs);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
