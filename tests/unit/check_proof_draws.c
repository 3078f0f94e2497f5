/* Nests behind schedules against their functions: what a tuner draws is followed, and a drawn nest with a fault is not. */
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"
#include "ir/loop/schedule_space.h"
#include "support/nest_group.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 59 };

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static const mlsi_schedule_target cpu = {.local_bytes = 1 << 16};

static char *program_of(const mlsi_schedule_space *s, const mlsi_point *p) {
    mlsi_schedule program;
    mlsi_text t;
    mlsi_schedule_init(&program, &pc.ctx->alloc);
    mlsi_text_init(&t, &pc.ctx->alloc);
    OK(mlsi_schedule_space_program(s, p, &program));
    mlsi_schedule_print(&program, &t);
    for (char *c = t.data; c && *c; c++)
        if (*c == '\n') *c = ' ';
    char *copy = strdup(t.data ? t.data : "");
    mlsi_text_free(&t);
    mlsi_schedule_free(&program);
    return copy;
}

static void draw(const mlsi_schedule_space *s, const nest_group *c, uint64_t number, mlsi_point *p,
                 mlsi_nest *made) {
    bool legal;
    OK(mlsi_schedule_space_draw(s, &c->n, 1, number, p));
    OK(mlsi_schedule_space_try(s, &c->n, p, made, &legal));
    REQUIRE(legal);
}

/* What is left: quotients of negative numbers have no one normal form, and what fills a copy of an input for a reduction
 * in two stages is not known to reach the last run. */
START_TEST(draws_are_proved) {
    nest_group c;
    mlsi_schedule_space space;
    int certified = 0, proved = 0;
    ng_open(&pc, _i, false, &c);
    OK(mlsi_schedule_space_of(&c.n, &cpu, &space));
    for (uint64_t number = 0; number < DRAWS; number++) {
        mlsi_point p;
        mlsi_nest made;
        mlsi_verdict v;
        draw(&space, &c, number, &p, &made);
        char *program = program_of(&space, &p);
        OK(mlsi_check_nest(&c.graph, 0, &made, &v));
        certified += v.answer == MLSI_PROVED;
        if (v.answer != MLSI_PROVED) printf("%s\n    %s\n", v.why, program);
        for (int k = 0; k < 4; k++) {
            mlsys_status st = mlsi_nest_prove(&made, 1u << k);
            proved += st == MLSYS_OK;
            if (st != MLSYS_OK) printf("%s\n    %s\n", mlsys_last_error(), program);
        }
        free(program);
        mlsi_nest_free(&made);
    }
    printf("group %d: of %d draws %d certified, %d of %d parts proved\n", _i, DRAWS, certified,
           proved, 4 * DRAWS);
    ck_assert_int_ge(certified, DRAWS - 2);
    ck_assert_int_ge(proved, 4 * DRAWS - 23);
    ng_close(&c);
}
END_TEST

/* ---- faults in what a schedule made -------------------------------------------------------------------------------- */

typedef enum fault { EXTENT, OFFSET, SWAPPED, NO_GUARD, GUARD_END, RUN_COUNT, FAULTS } fault;
static const char *const fault_names[FAULTS] = {"extent",        "offset",       "swapped loops",
                                                "guard dropped", "end of guard", "count of a run"};

static int64_t moved(mlsi_nest *n, int64_t code, int by) {
    int64_t out = code;
    OK(mlsi_dim_op(&n->tab, by < 0 ? '-' : '+', code, 1, &out));
    return out;
}

static void set_extent(mlsi_nest *n, int32_t var, int64_t extent) {
    int64_t lo, hi;
    n->vars[var].extent = extent;
    if (n->vars[var].symbol < 0) return;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    n->tab.symbols[n->vars[var].symbol].extent = extent;
    n->tab.symbols[n->vars[var].symbol].max = hi - 1;
}

/* Two loops change places in the subscripts of a statement. */
static void swap_vars(mlsi_nest *n, mlsi_ls *s, const mlsi_loop_var *a, const mlsi_loop_var *b) {
    const int32_t symbols[2] = {a->symbol, b->symbol};
    const int64_t by[2] = {b->code, a->code};
    for (int i = 0; i < s->n_index; i++)
        REQUIRE(mlsi_index_replace(n, s->index[i], 2, symbols, by, &s->index[i]));
}

/* The k-th place for the fault; false past the last. */
static bool plant(mlsi_nest *n, fault f, int k) {
    for (int32_t i = 0; i < n->n_stmts; i++) {
        mlsi_ls *s = &n->stmts[i];
        bool guard = s->kind == MLSI_LS_IF && s->value < 0;
        switch (f) {
        case EXTENT:
            if (s->kind != MLSI_LS_FOR || k-- > 0) break;
            return set_extent(n, s->var, moved(n, n->vars[s->var].extent, k % 2 ? -1 : 1)), true;
        case OFFSET:
            if ((s->kind != MLSI_LS_STORE && s->kind != MLSI_LS_ADD) || !s->n_index || k-- > 0)
                break;
            return s->index[s->n_index - 1] = moved(n, s->index[s->n_index - 1], 1), true;
        case SWAPPED:
            if (s->kind != MLSI_LS_STORE || k-- > 0) break;
            for (int32_t a = 0; a + 1 < n->n_vars; a++)
                if (mlsi_dim_names(&n->tab, s->index[0], n->vars[a].symbol))
                    return swap_vars(n, s, &n->vars[a], &n->vars[a + 1]), true;
            return false;
        case NO_GUARD:
            if (!guard || k-- > 0) break;
            return s->index[0] = INT64_C(0), s->index[2] = 1 << 20, true;
        case GUARD_END:
            if (!guard || k-- > 0) break;
            return s->index[2] = moved(n, s->index[2], -1), true;
        default:
            if (i >= n->n_accs || k-- > 0) break;
            return n->accs[i].count = moved(n, n->accs[i].count, -1), true;
        }
    }
    return false;
}

/* A nest that is proved in spite of its fault has the bits: loops of one turn, a guard that cuts nothing. */
START_TEST(faults_are_found) {
    nest_group c;
    mlsi_schedule_space space;
    int found[FAULTS] = {0}, harmless[FAULTS] = {0};
    ng_open(&pc, _i, false, &c);
    OK(mlsi_schedule_space_of(&c.n, &cpu, &space));
    const uint64_t want = ng_outputs(&c, &c.n);
    for (uint64_t number = 0; number < DRAWS; number += 14)
        for (int f = 0; f < FAULTS; f++)
            for (int k = 0; k < 64; k++) {
                mlsi_point p;
                mlsi_nest made;
                mlsi_verdict v;
                draw(&space, &c, number, &p, &made);
                bool planted = plant(&made, (fault)f, k);
                OK(mlsi_check_nest(&c.graph, 0, &made, &v));
                found[f] += planted && v.answer != MLSI_PROVED;
                harmless[f] += planted && v.answer == MLSI_PROVED;
                if (planted && v.answer == MLSI_PROVED && ng_outputs(&c, &made) != want)
                    ck_abort_msg("%s, place %d: proved\n%s", fault_names[f], k,
                                 program_of(&space, &p));
                mlsi_nest_free(&made);
                if (!planted) break;
            }
    for (int f = 0; f < FAULTS; f++)
        printf("group %d, %s: %d found, %d harmless\n", _i, fault_names[f], found[f], harmless[f]);
    ck_assert_int_gt(found[EXTENT], 0);
    ck_assert_int_gt(found[OFFSET], 0);
    ng_close(&c);
}
END_TEST

/* ---- reductions in two stages --------------------------------------------------------------------------------------- */

static const struct runs {
    const char *op, *dtype, *result;
    mlsi_acc_kind outer, run;
    int64_t length, last; /* of a run; of the last one, wrong if it is not `length` */
    mlsi_answer answer;
} runs[] = {
    {"reduce_sum", "i32", "i32", MLSI_ACC_SUM, MLSI_ACC_SUM, 8, 8, MLSI_PROVED},
    {"reduce_sum", "f32", "f32", MLSI_ACC_SUM, MLSI_ACC_SUM, 4096, 4096, MLSI_PROVED},
    {"reduce_prod", "f32", "f32", MLSI_ACC_PROD, MLSI_ACC_PROD, 4096, 4096, MLSI_PROVED},
    {"reduce_max", "f32", "f32", MLSI_ACC_MAX, MLSI_ACC_MAX, 8, 8, MLSI_PROVED},
    {"reduce_min", "i32", "i32", MLSI_ACC_MIN, MLSI_ACC_MIN, 64, 64, MLSI_PROVED},
    {"reduce_or", "bool", "bool", MLSI_ACC_OR, MLSI_ACC_OR, 8, 8, MLSI_PROVED},
    {"reduce_sum", "f32", "f32", MLSI_ACC_SUM, MLSI_ACC_SUM, 8, 8, MLSI_REFUSED},
    {"reduce_prod", "f32", "f32", MLSI_ACC_PROD, MLSI_ACC_PROD, 2048, 2048, MLSI_REFUSED},
    {"reduce_sum", "i32", "i32", MLSI_ACC_MAX, MLSI_ACC_SUM, 8, 8, MLSI_REFUSED},
    {"reduce_max", "f32", "f32", MLSI_ACC_MAX, MLSI_ACC_MIN, 8, 8, MLSI_REFUSED},
    {"argmax", "f32", "i64", MLSI_ACC_ARGMAX, MLSI_ACC_ARGMAX, 8, 8, MLSI_REFUSED},
    {"reduce_sum", "i32", "i32", MLSI_ACC_SUM, MLSI_ACC_SUM, 8, 7, MLSI_REFUSED},
};
enum { N_RUNS = (int)(sizeof runs / sizeof runs[0]), ALL = 8192 };

/* for k: run = the reduction of x[length * k + g] over g; out = the reduction of the runs. */
static void nest_of_runs(const mlsi_graph *g, const struct runs *r, mlsi_nest *n) {
    const mlsi_type *in = mlsi_type_of(g, 0, 0), *out = mlsi_type_of(g, 0, 1);
    mlsi_nest_init(n, &pc.ctx->alloc, &g->symbols, "runs");
    int32_t x = mlsi_nest_param(n, MLSI_SCOPE_INPUT, NULL, in);
    int32_t y = mlsi_nest_param(n, MLSI_SCOPE_OUTPUT, NULL, out);
    int32_t outer = mlsi_nest_acc(n, r->outer, in->dtype, ALL / r->length);
    int64_t k = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "k", ALL / r->length);
    int32_t run = mlsi_nest_acc(n, r->run, in->dtype, r->last);
    int64_t i = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "g", r->last);
    int64_t at = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', k, r->length), i);
    mlsi_nest_add(n, run, i, mlsi_nest_load(n, x, &at), -1);
    mlsi_nest_end(n);
    mlsi_nest_add(n, outer, k, mlsi_nest_cast(n, mlsi_nest_acc_value(n, run), in->dtype), -1);
    mlsi_nest_end(n);
    mlsi_nest_store(n, y, NULL, mlsi_nest_acc_value(n, outer));
    OK(mlsi_nest_finish(n));
}

START_TEST(runs_that_make_the_whole) {
    const struct runs *r = &runs[_i];
    char text[400];
    mlsi_graph g;
    mlsi_nest n;
    mlsi_verdict v;
    const char *attrs = strcmp(r->op, "argmax") ? "axes=[0], keep=false" : "axis=0, keep=false";
    snprintf(text, sizeof text,
             "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n%%0 = input \"x\" : %s[%d]\n"
             "%%1 = %s(%%0) {%s} : %s[]\noutput \"\" %%1\n}\n",
             r->dtype, ALL, r->op, attrs, r->result);
    OK(mlsi_graph_init(&g, pc.ctx));
    OK(mlsi_graph_parse(&g, pc.device, text));
    nest_of_runs(&g, r, &n);
    OK(mlsi_check_nest(&g, 0, &n, &v));
    ck_assert_msg(v.answer == r->answer, "%s of %s: %d %s", r->op, r->dtype, v.answer, v.why);
    mlsi_nest_free(&n);
    mlsi_graph_free(&g);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proof draws");
    TCase *tc = tcase_create("draws");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, draws_are_proved, 0, nest_group_count);
    tcase_add_loop_test(tc, faults_are_found, 0, nest_group_count);
    tcase_add_loop_test(tc, runs_that_make_the_whole, 0, N_RUNS);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
