/* Nests against their functions: what the lowering makes is proved, and a nest with any number changed is refused or computes
 * the same bits. */
#include "ir/codegen/codegen.h"
#include "core/faults.h"
#include "ir/loop/lower.h"
#include "ir/passes/passes.h"
#include "support/nest_group.h"
#include "support/op_case.h"
#include "support/program_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static mlsi_graph graph;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static int64_t proved, uncovered;

static void judge(mlsi_graph *g, int32_t func, mlsi_nest *n, const char *what) {
    mlsi_verdict v;
    OK(mlsi_check_nest(g, func, n, &v));
    proved += v.answer == MLSI_PROVED;
    uncovered += v.answer == MLSI_NOT_COVERED;
    if (v.answer == MLSI_REFUSED) {
        mlsi_text t;
        mlsi_text_init(&t, &pc.ctx->alloc);
        mlsi_graph_print(g, &t);
        ck_abort_msg("%s: %s\n%s", what, v.why, t.data);
    }
}

static void lower_and_judge(mlsi_graph *g, int32_t func, const char *what) {
    mlsi_nest n;
    mlsys_status st = mlsi_lower_func(g, func, what, &n);
    if (st == MLSYS_OK) {
        judge(g, func, &n, what);
        if (!strstr(what, "own loops") && mlsi_codegen_schedule(&n) == MLSYS_OK)
            judge(g, func, &n, what);
    } else {
        REQUIRE(st == MLSYS_E_UNSUPPORTED);
    }
    mlsi_nest_free(&n);
}

START_TEST(every_op_is_proved_or_not_covered) {
    mlsi_symtab tab;
    mlsi_symtab_init(&tab, &pc.ctx->alloc);
    op_case_symbols(&tab);
    proved = uncovered = 0;
    for (int c = 0; c < op_case_count; c++) {
        op_variant v;
        char text[256];
        for (int i = 0; op_case_variant(&op_cases[c], i, &tab, &v); i++) {
            for (int symbolic = 0; symbolic < 3; symbolic++) {
                int32_t in[KC_OPERANDS], out[KC_OPERANDS];
                mlsi_graph g;
                mlsys_status st = symbolic
                                      ? op_variant_symbolic(pc.ctx, &v, symbolic == 2, &g, in, out)
                                      : op_variant_graph(pc.ctx, &v, &g);
                for (int o = 0; symbolic && o < v.n_out && st == MLSYS_OK; o++)
                    st = mlsi_build_output(&g, 0, NULL, out[o]);
                if (st == MLSYS_OK) {
                    mlsi_pass_ctx p = {.g = &g};
                    OK(mlsi_decompose_to_loops(&p, 0));
                    lower_and_judge(&g, 0, op_variant_text(&v, text, sizeof text));
                }
                mlsi_graph_free(&g);
            }
        }
    }
    mlsi_symtab_free(&tab);
    printf("%lld nests proved, %lld not covered\n", (long long)proved, (long long)uncovered);
    REQUIRE(proved > 1000);
}
END_TEST

/* ---- groups as fusion makes them -------------------------------------------------------------------- */

START_TEST(groups_are_proved) {
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        nest_group c;
        mlsi_verdict v;
        ng_open(&pc, _i, scheduled, &c);
        OK(mlsi_check_nest(&c.graph, 0, &c.n, &v));
        ck_assert_msg(v.answer == MLSI_PROVED, "%s", v.why);
        REQUIRE(ng_outputs(&c, &c.n) != 0);
        ng_close(&c);
    }
}
END_TEST

/* ---- changed nests ---------------------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t want;
    int64_t refused, uncovered, true_anyway, too_strict;
    char example[200];
} tally;

static void judge_change(tally *t, nest_group *c, const char *what, int64_t which) {
    mlsi_verdict v;
    OK(mlsi_check_nest(&c->graph, 0, &c->n, &v));
    if (v.answer == MLSI_PROVED) {
        if (ng_outputs(c, &c->n) != t->want)
            ck_abort_msg("%s %lld was changed and proved", what, (long long)which);
        t->true_anyway++;
    } else {
        t->refused += v.answer == MLSI_REFUSED;
        t->uncovered += v.answer == MLSI_NOT_COVERED;
    }
}

static int64_t shifted(nest_group *c, int64_t code, int op) {
    int64_t out = code;
    OK(mlsi_dim_op(&c->n.tab, op, code, 1, &out));
    return out;
}

static void change_index(tally *t, nest_group *c, int64_t *index, const char *what, int64_t which) {
    const int64_t was = *index;
    for (int k = 0; k < 3 + (int)c->n.n_vars; k++) {
        *index = k == 0   ? shifted(c, was, '+')
                 : k == 1 ? shifted(c, was, '-')
                 : k == 2 ? 0
                          : c->n.vars[k - 3].code;
        if (*index != was) judge_change(t, c, what, which);
    }
    *index = was;
}

static void change_exprs(tally *t, nest_group *c) {
    static const mlsi_op ops[] = {MLSI_OP_ADD, MLSI_OP_SUB, MLSI_OP_MUL, MLSI_OP_DIV,
                                  MLSI_OP_MAX, MLSI_OP_EXP, MLSI_OP_NEG, MLSI_OP_TANH};
    for (int64_t i = 0; i < c->n.n_exprs; i++) {
        mlsi_lx *x = &c->n.exprs[i];
        const mlsi_lx was = *x;
        for (int k = 0; k < x->n_index; k++)
            change_index(t, c, &c->n.exprs[i].index[k], "index of expression", i);
        if (x->kind == MLSI_LX_OP) {
            for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
                if (ops[k] == was.op || mlsi_op_get(ops[k])->min_in != was.n_args) continue;
                x->op = ops[k];
                judge_change(t, c, "op of expression", i);
            }
            *x = was;
            if (x->n_args > 1) {
                x->args[0] = was.args[1], x->args[1] = was.args[0];
                if (c->n.exprs[was.args[0]].dtype == c->n.exprs[was.args[1]].dtype)
                    judge_change(t, c, "arguments of expression", i);
            }
        }
        *x = was;
        if (x->kind == MLSI_LX_CONST) x->bits ^= 1, judge_change(t, c, "constant", i);
        *x = was;
        for (int32_t b = 0; x->kind == MLSI_LX_LOAD && b < c->n.n_buffers; b++) {
            const mlsi_loop_buffer *to = &c->n.buffers[b], *from = &c->n.buffers[was.ref];
            if (b == was.ref || to->rank != from->rank || to->dtype != from->dtype ||
                to->scope == MLSI_SCOPE_OUTPUT)
                continue;
            x->ref = b;
            judge_change(t, c, "buffer of load", i);
            *x = was;
        }
        for (int32_t l = 0; x->kind == MLSI_LX_LET && l < c->n.n_lets; l++) {
            if (l == was.ref || c->n.lets[l].dtype != c->n.lets[was.ref].dtype) continue;
            x->ref = l;
            if (l < was.ref) judge_change(t, c, "let", i);
            *x = was;
        }
    }
}

/* Takes a statement out of its body; the link that named it, to put it back. */
static int32_t *link_of(mlsi_nest *n, int32_t s) {
    if (n->first == s) return &n->first;
    for (int64_t i = 0; i < n->n_stmts; i++) {
        if (n->stmts[i].next == s) return &n->stmts[i].next;
        if (n->stmts[i].body == s) return &n->stmts[i].body;
    }
    return NULL;
}

/* Of the loop and of its variable's range. */
static void set_extent(mlsi_nest *n, int32_t var, int64_t extent) {
    int64_t lo, hi;
    n->vars[var].extent = extent;
    if (n->vars[var].symbol < 0) return;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    n->tab.symbols[n->vars[var].symbol].extent = extent;
    n->tab.symbols[n->vars[var].symbol].max = hi - 1;
}

static void change_stmts(tally *t, nest_group *c) {
    for (int32_t i = 0; i < c->n.n_stmts; i++) {
        mlsi_ls *s = &c->n.stmts[i];
        for (int k = 0; k < s->n_index; k++)
            change_index(t, c, &c->n.stmts[i].index[k], "index of statement", i);
        int32_t *link = link_of(&c->n, i);
        if (link && s->kind != MLSI_LS_ALLOC) {
            *link = s->next;
            judge_change(t, c, "statement removed:", i);
            *link = i;
        }
        if (s->kind == MLSI_LS_FOR) {
            const int64_t was = c->n.vars[s->var].extent;
            for (int k = 0; k < 2; k++) {
                set_extent(&c->n, s->var, shifted(c, was, k ? '+' : '-'));
                judge_change(t, c, "extent of loop", i);
            }
            set_extent(&c->n, s->var, was);
        }
    }
    for (int64_t i = 0; i < c->n.n_accs; i++) {
        mlsi_acc *a = &c->n.accs[i];
        const mlsi_acc was = *a;
        a->kind = was.kind == MLSI_ACC_SUM ? MLSI_ACC_PROD : MLSI_ACC_SUM;
        judge_change(t, c, "kind of accumulator", i);
        *a = was;
        a->count = shifted(c, was.count, '+');
        judge_change(t, c, "count of accumulator", i);
        *a = was;
    }
}

START_TEST(changed_nests_are_refused) {
    tally t = {0};
    nest_group c;
    ng_open(&pc, _i / 2, _i & 1, &c);
    t.want = ng_outputs(&c, &c.n);
    change_exprs(&t, &c);
    change_stmts(&t, &c);
    printf("group %d: %lld changes refused, %lld not covered, %lld left the bits\n", _i / 2,
           (long long)t.refused, (long long)t.uncovered, (long long)t.true_anyway);
    REQUIRE(t.refused > 10 * (t.uncovered + t.true_anyway));
    ng_close(&c);
}
END_TEST

/* ---- nests by hand: what no lowering makes -------------------------------------------------------------- */

/* out[i] = exp(x[i]) of x : f32[64], wrong in one way each. */
typedef enum twist {
    RIGHT,
    STORED_TWICE,   /* an inner loop stores each element again */
    LEFT_OUT,       /* a loop ends early */
    DEAD_LOAD,      /* a load that nothing needs, out of range */
    AHEAD_OF_GUARD, /* loaded before the guard of a ragged tile */
    SHARED_MEMORY,  /* parallel turns write LOCAL memory of all of them */
    READ_TOO_EARLY, /* LOCAL memory read before it is written */
    READ_ELSEWHERE, /* LOCAL memory read at the next element */
    READ_FIRST,     /* LOCAL memory of a turn to come */
    GUARDED_STORE,  /* a guard leaves out the last element */
    GUARDED_FIRST,  /* the first one */
    TWISTS
} twist;
static const char *const twist_why[TWISTS] = {NULL,
                                              "index: elements are not stored once each",
                                              "index: elements are not stored once each",
                                              "index: a subscript may be out of range",
                                              "index: a subscript may be out of range",
                                              "hazard: parallel turns write the same memory",
                                              "memory is read that is not known to be written",
                                              "index: a subscript may be out of range",
                                              "memory is read that is not known to be written",
                                              "index: elements are not stored once each",
                                              "a guard leaves elements out"};

static void hand_nest(twist w, mlsi_nest *n) {
    const int64_t d64[1] = {64}, width = w == AHEAD_OF_GUARD ? 10 : 8;
    mlsi_nest_init(n, &pc.ctx->alloc, &graph.symbols, "hand");
    int32_t x = mlsi_nest_param(n, MLSI_SCOPE_INPUT, NULL, mlsi_type_of(&graph, 0, 0));
    int32_t y = mlsi_nest_param(n, MLSI_SCOPE_OUTPUT, NULL, mlsi_type_of(&graph, 0, 1));
    bool local = w >= SHARED_MEMORY && w <= READ_FIRST;
    int32_t row = local ? mlsi_nest_local(n, "row", MLSYS_F32, 1, d64) : -1;
    mlsi_loop_kind kind = local && w != SHARED_MEMORY ? MLSI_LOOP_SERIAL : MLSI_LOOP_PARALLEL;
    int64_t tile = mlsi_nest_for(n, kind, "tile", w == AHEAD_OF_GUARD ? 7 : 8);
    int64_t within = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", width);
    int64_t i = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', tile, width), within);
    int64_t next = mlsi_nest_index(n, '+', i, 1);
    int64_t turned = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', within, 8), tile);
    if (w == LEFT_OUT) set_extent(n, 1, 7);
    if (w == STORED_TWICE) mlsi_nest_for(n, MLSI_LOOP_SERIAL, "again", 2);
    if (w == DEAD_LOAD) mlsi_nest_let(n, "v", mlsi_nest_load(n, x, &next));
    int32_t v = mlsi_nest_let(n, "v", mlsi_nest_load(n, x, &i));
    if (w == AHEAD_OF_GUARD) mlsi_nest_if_range(n, 0, i, 64);
    if (w == GUARDED_STORE) mlsi_nest_if_range(n, 0, i, 63);
    if (w == GUARDED_FIRST) mlsi_nest_if_range(n, 1, i, 64);
    int32_t e = mlsi_nest_let(n, "e", mlsi_nest_op(n, MLSI_OP_EXP, MLSYS_F32, v, -1, -1));
    if (w == READ_TOO_EARLY) mlsi_nest_store(n, y, &i, mlsi_nest_load(n, row, &i));
    if (local) mlsi_nest_store(n, row, &i, e);
    if (w == READ_FIRST) /* row by column: some are written later */
        mlsi_nest_store(n, y, &turned, mlsi_nest_load(n, row, &turned));
    else if (w != READ_TOO_EARLY)
        mlsi_nest_store(n, y, &i,
                        local ? mlsi_nest_load(n, row, w == READ_ELSEWHERE ? &next : &i) : e);
    while (n->depth > 0 && n->status == MLSYS_OK)
        mlsi_nest_end(n);
    OK(mlsi_nest_finish(n));
}

START_TEST(nests_by_hand) {
    mlsi_nest n;
    mlsi_verdict v;
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsi_graph_parse(&graph, pc.device,
                        "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n%0 = input \"x\" : f32[64]\n"
                        "%1 = exp(%0) : f32[64]\noutput \"\" %1\n}\n"));
    hand_nest((twist)_i, &n);
    OK(mlsi_check_nest(&graph, 0, &n, &v));
    if (twist_why[_i])
        ck_assert_msg(v.answer == MLSI_REFUSED && strstr(v.why, twist_why[_i]), "%d: %d %s", _i,
                      v.answer, v.why);
    else
        ck_assert_msg(v.answer == MLSI_PROVED, "%s", v.why);
    mlsi_nest_free(&n);
    mlsi_graph_free(&graph);
}
END_TEST

/* Each axis is taken once, but not each element: one loop is both subscripts. */
START_TEST(a_diagonal_is_not_all) {
    mlsi_nest n;
    mlsi_verdict v;
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsi_graph_parse(&graph, pc.device,
                        "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n%0 = input \"x\" : f32[8,8]\n"
                        "%1 = exp(%0) : f32[8,8]\noutput \"\" %1\n}\n"));
    for (int whole = 0; whole < 2; whole++) {
        mlsi_nest_init(&n, &pc.ctx->alloc, &graph.symbols, "diagonal");
        int32_t x = mlsi_nest_param(&n, MLSI_SCOPE_INPUT, NULL, mlsi_type_of(&graph, 0, 0));
        int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, mlsi_type_of(&graph, 0, 1));
        int64_t i = mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "i", 8);
        int64_t j = whole ? mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "j", 8) : i;
        const int64_t at[2] = {i, j};
        mlsi_nest_store(
            &n, y, at, mlsi_nest_op(&n, MLSI_OP_EXP, MLSYS_F32, mlsi_nest_load(&n, x, at), -1, -1));
        while (n.depth > 0 && n.status == MLSYS_OK)
            mlsi_nest_end(&n);
        OK(mlsi_nest_finish(&n));
        OK(mlsi_check_nest(&graph, 0, &n, &v));
        ck_assert_int_eq(v.answer, whole ? MLSI_PROVED : MLSI_REFUSED);
        mlsi_nest_free(&n);
    }
    mlsi_graph_free(&graph);
}
END_TEST

/* ---- planted miscompiles ------------------------------------------------------------------------------------ */

#if defined(MLSI_FAULTS) && MLSI_FAULTS
static const struct {
    int fault;
    const char *op; /* its rows bite; NULL: the groups */
} planted[] = {{MLSI_FAULT_LOOPS_POSITION, NULL},       {MLSI_FAULT_LOWER_GUARD, NULL},
               {MLSI_FAULT_LOWER_HELD, NULL},           {MLSI_FAULT_LOOPS_PAD_HIGH, "pad"},
               {MLSI_FAULT_LOOPS_CONCAT_END, "concat"}, {MLSI_FAULT_LOOPS_ARGMIN, "argmin"},
               {MLSI_FAULT_LOOPS_COUNT, "layer_norm"}};
enum { N_PLANTED = (int)(sizeof planted / sizeof planted[0]) };

static int refused_groups(int fault) {
    int refused = 0;
    for (int i = 0; i < nest_group_count; i++) {
        nest_group c;
        mlsi_verdict v;
        ng_open(&pc, i, false, &c);
        uint64_t want = ng_outputs(&c, &c.n);
        ng_close(&c);
        mlsi_fault_select(fault);
        ng_open(&pc, i, false, &c);
        mlsi_fault_select(MLSI_FAULT_NONE);
        OK(mlsi_check_nest(&c.graph, 0, &c.n, &v));
        refused += v.answer == MLSI_REFUSED;
        if (v.answer == MLSI_PROVED) REQUIRE(ng_outputs(&c, &c.n) == want);
        ng_close(&c);
    }
    return refused;
}

static int refused_rows(int fault, const char *op) {
    int refused = 0;
    mlsi_symtab tab;
    mlsi_symtab_init(&tab, &pc.ctx->alloc);
    op_case_symbols(&tab);
    for (int r = 0; r < op_case_count; r++) {
        op_variant v;
        for (int i = 0; !strcmp(op_cases[r].op, op) && op_case_variant(&op_cases[r], i, &tab, &v);
             i++) {
            int32_t in[KC_OPERANDS], out[KC_OPERANDS];
            mlsi_verdict verdict;
            mlsi_nest n;
            mlsi_pass_ctx p = {.g = &graph};
            if (op_variant_symbolic(pc.ctx, &v, false, &graph, in, out) == MLSYS_OK) {
                OK(mlsi_build_output(&graph, 0, NULL, out[0]));
                OK(mlsi_decompose_to_loops(&p, 0));
                mlsi_fault_select(fault);
                mlsys_status st = mlsi_lower_func(&graph, 0, "row", &n);
                mlsi_fault_select(MLSI_FAULT_NONE);
                if (st == MLSYS_OK) OK(mlsi_check_nest(&graph, 0, &n, &verdict));
                refused += st == MLSYS_OK && verdict.answer == MLSI_REFUSED;
                mlsi_nest_free(&n);
            }
            mlsi_graph_free(&graph);
        }
    }
    mlsi_symtab_free(&tab);
    return refused;
}

START_TEST(planted_lowerings_are_refused) {
    int refused = planted[_i].op ? refused_rows(planted[_i].fault, planted[_i].op)
                                 : refused_groups(planted[_i].fault);
    printf("fault %d: %d refused\n", _i, refused);
    ck_assert_int_gt(refused, 0);
}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("proof nests");
    TCase *tc = tcase_create("nests");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_op_is_proved_or_not_covered);
    tcase_add_loop_test(tc, groups_are_proved, 0, nest_group_count);
    tcase_add_loop_test(tc, changed_nests_are_refused, 0, 2 * nest_group_count);
    tcase_add_loop_test(tc, nests_by_hand, 0, TWISTS);
    tcase_add_test(tc, a_diagonal_is_not_all);
#if defined(MLSI_FAULTS) && MLSI_FAULTS
    tcase_add_loop_test(tc, planted_lowerings_are_refused, 0, N_PLANTED);
#endif
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
