/* Random schedules: whatever is accepted keeps the bits, whatever is refused leaves the nest alone. */
#include "ir/loop/lower.h"
#include "ir/loop/schedule_primitives.h"
#include "support/graph_case.h"
#include "support/nest_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRIMITIVES = MLSI_SCHEDULE_TENSORIZE + 1, SMALL = 5 };

static int64_t accepted[PRIMITIVES], refused[PRIMITIVES];

/* ---- random steps --------------------------------------------------------------------------------------------------- */

static const char *random_loop(test_random *r, const mlsi_nest *n) {
    int32_t loops[256];
    int count = 0;
    for (int32_t i = 0; i < n->n_stmts && count < 256; i++)
        if (n->stmts[i].kind == MLSI_LS_FOR) loops[count++] = n->stmts[i].var;
    return n->vars[loops[test_int(r, 0, count - 1)]].name;
}

/* A loop inside the given one, most often: pairs that are nested are of interest. */
static const char *inner_loop(test_random *r, const mlsi_nest *n, const char *outer) {
    for (int32_t i = 0; i < n->n_stmts; i++) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind != MLSI_LS_FOR || strcmp(n->vars[s->var].name, outer)) continue;
        for (int32_t b = s->body; b >= 0; b = n->stmts[b].body)
            if (n->stmts[b].kind == MLSI_LS_FOR && test_int(r, 0, 2))
                return n->vars[n->stmts[b].var].name;
    }
    return random_loop(r, n);
}

static const char *random_buffer(test_random *r, const mlsi_nest *n, bool local) {
    for (int tries = 0; local && tries < 8; tries++) {
        const mlsi_loop_buffer *b = &n->buffers[test_int(r, 0, n->n_buffers - 1)];
        if (b->param < 0) return b->name;
    }
    return n->buffers[test_int(r, 0, n->n_buffers - 1)].name;
}

static void name(mlsi_directive *s, const char *text) {
    snprintf(s->names[s->n_names++], MLSI_STEP_NAME, "%s", text);
}

static mlsi_directive random_step(test_random *r, const mlsi_nest *n, int number) {
    static const int64_t factors[] = {1, 2, 3, 4, 5, 8, 64};
    static const char *const kinds[] = {"grid", "block", "lane"};
    mlsi_directive s = {.primitive = (mlsi_primitive)test_int(r, 1, PRIMITIVES - 1)};
    const mlsi_primitive_row *row = mlsi_primitive_get(s.primitive);
    bool buffers =
        s.primitive >= MLSI_SCHEDULE_CACHE_READ && s.primitive <= MLSI_SCHEDULE_COMPUTE_AT;
    if (buffers) name(&s, random_buffer(r, n, s.primitive == MLSI_SCHEDULE_COMPUTE_AT));
    name(&s, random_loop(r, n));
    if (s.primitive == MLSI_SCHEDULE_BIND) name(&s, kinds[test_int(r, 0, 2)]);
    while (s.n_names < row->min_names || (s.n_names < row->max_names && test_int(r, 0, 1)))
        name(&s, inner_loop(r, n, s.names[s.n_names - 1]));
    if (s.primitive == MLSI_SCHEDULE_REORDER && s.n_names > 1 && test_int(r, 0, 3)) {
        char first[MLSI_STEP_NAME]; /* an order that is another one */
        memcpy(first, s.names[0], sizeof first);
        memcpy(s.names[0], s.names[s.n_names - 1], sizeof first);
        memcpy(s.names[s.n_names - 1], first, sizeof first);
    }
    for (; s.n_numbers < row->numbers; s.n_numbers++)
        s.numbers[s.n_numbers] = factors[test_int(r, 0, 6)];
    for (; s.n_results < row->results; s.n_results++)
        snprintf(s.results[s.n_results], MLSI_STEP_NAME, "x%d_%d", number, s.n_results);
    return s;
}

/* ---- properties -------------------------------------------------------------------------------------------------------- */

static char *step_text(const mlsi_schedule *s) {
    mlsi_text t;
    mlsi_text_init(&t, s->alloc);
    mlsi_schedule_print(s, &t);
    char *copy = strdup(t.data ? t.data : "");
    mlsi_text_free(&t);
    return copy;
}

typedef struct original {
    const mlsi_nest *nest;
    nest_run runs[SMALL];
} original;

static original original_of(const mlsi_nest *n) {
    original o = {.nest = n};
    for (int b = 0; b < SMALL; b++)
        o.runs[b] = nc_run(n, nc_bindings[b], 1);
    return o;
}

static void original_free(original *o) {
    for (int b = 0; b < SMALL; b++)
        nc_run_free(&o->runs[b]);
}

static void same(const original *before, const mlsi_nest *after, const mlsi_schedule *s, int b) {
    mlsi_nest back;
    nc_reverse(after, &back);
    nest_run got = nc_run(after, nc_bindings[b], 1), reversed = nc_run(&back, nc_bindings[b], 1);
    const char *forth = nc_difference(&before->runs[b], &got);
    const char *d = forth ? forth : nc_difference(&before->runs[b], &reversed);
    if (d)
        ck_abort_msg("%s: binding %d%s: %s\n%s", before->nest->name, b,
                     forth ? "" : ", loops that are not serial backwards", d, step_text(s));
    nc_run_free(&got);
    nc_run_free(&reversed);
    mlsi_nest_free(&back);
}

static bool same_statement(const mlsi_ls *a, const mlsi_ls *b) {
    bool same = a->kind == b->kind && a->next == b->next && a->body == b->body &&
                a->var == b->var && a->ref == b->ref && a->value == b->value &&
                a->value2 == b->value2 && a->loop == b->loop && a->clamp == b->clamp &&
                a->wrap == b->wrap && a->n_index == b->n_index;
    for (int k = 0; same && k < a->n_index; k++)
        same = a->index[k] == b->index[k];
    return same;
}

/* The printed program does the same as its steps did. */
static void replay(const mlsi_nest *before, const mlsi_nest *after, const mlsi_schedule *s) {
    mlsi_nest again;
    mlsi_schedule read;
    char *text = step_text(s), *second;
    mlsi_schedule_init(&read, s->alloc);
    OK(mlsi_nest_copy(before, &again));
    OK(mlsi_schedule_parse(&read, text));
    second = step_text(&read);
    ck_assert_str_eq(text, second);
    OK(mlsi_schedule_run(&again, &read));
    REQUIRE(again.n_stmts == after->n_stmts && again.n_exprs == after->n_exprs);
    for (int64_t i = 0; i < again.n_stmts; i++)
        if (!same_statement(&again.stmts[i], &after->stmts[i]))
            ck_abort_msg("%s: statement %lld differs\n%s", before->name, (long long)i, text);
    free(text);
    free(second);
    mlsi_schedule_free(&read);
    mlsi_nest_free(&again);
}

static void random_schedule(const original *from, test_random *r, int steps) {
    const mlsi_nest *before = from->nest;
    mlsi_nest n;
    mlsi_schedule s;
    mlsi_schedule_init(&s, before->alloc);
    OK(mlsi_nest_copy(before, &n));
    for (int i = 0; i < steps; i++) {
        mlsi_directive step = random_step(r, &n, i);
        int64_t stmts = n.n_stmts;
        mlsys_status st = mlsi_schedule_step(&n, &step);
        if (st != MLSYS_OK) {
            if (st != MLSYS_E_UNSUPPORTED && st != MLSYS_E_ARG)
                ck_abort_msg("%s: %s\n%s", before->name, mlsys_last_error(), step_text(&s));
            REQUIRE(n.n_stmts == stmts && n.status == MLSYS_OK);
            refused[step.primitive]++;
            continue;
        }
        accepted[step.primitive]++;
        OK(MLSI_GROW(s.alloc, &s.steps, &s.cap, s.n + 1));
        s.steps[s.n++] = step;
        same(from, &n, &s, (int)test_int(r, 0, SMALL - 1));
    }
    same(from, &n, &s, (int)test_int(r, 0, SMALL - 1));
    replay(before, &n, &s);
    mlsi_schedule_free(&s);
    mlsi_nest_free(&n);
}

static void report(void) {
    for (int p = 1; p < PRIMITIVES; p++)
        printf("  %-12s %5lld accepted, %5lld refused\n",
               mlsi_primitive_get((mlsi_primitive)p)->name, (long long)accepted[p],
               (long long)refused[p]);
}

START_TEST(random_schedules_keep_the_bits) {
    enum { ROUNDS = 60 };
    test_random r = test_random_seed(nest_samples[_i].name, 4711 + (uint64_t)_i);
    mlsi_nest n;
    nc_build(&n, inside->alloc, nest_samples[_i].name);
    original o = original_of(&n);
    for (int i = 0; i < ROUNDS; i++)
        random_schedule(&o, &r, 16);
    report();
    original_free(&o);
    mlsi_nest_free(&n);
}
END_TEST

/* ---- nests that nobody wrote ---------------------------------------------------------------------------------------------- */

/* t[.., ..] = t[.., ..] + x in two loops, at subscripts that may collide: what meets is found, or the bits differ. */
static int64_t random_subscript(test_random *r, mlsi_nest *n, int64_t i, int64_t j,
                                int64_t extent) {
    static const int factors[] = {-2, -1, 0, 0, 1, 1, 2, 3, 4};
    int64_t sum = test_int(r, 0, 12); /* keeps it from being negative */
    int a = factors[test_int(r, 0, 8)], b = factors[test_int(r, 0, 8)];
    sum = mlsi_nest_index(n, a < 0 ? '-' : '+', sum, mlsi_nest_index(n, '*', i, a < 0 ? -a : a));
    sum = mlsi_nest_index(n, b < 0 ? '-' : '+', sum, mlsi_nest_index(n, '*', j, b < 0 ? -b : b));
    if (test_int(r, 0, 3) == 0) sum = mlsi_nest_index(n, '/', sum, test_int(r, 2, 4));
    return mlsi_nest_index(n, '%', sum, extent);
}

static void random_nest(test_random *r, mlsi_nest *n, mlsi_alloc *a) {
    int64_t size[2] = {test_int(r, 4, 9), test_int(r, 4, 9)}, at[2], from[2];
    int64_t loops[2] = {test_int(r, 2, 4), test_int(r, 2, 4)};
    mlsi_type in = {.dtype = MLSYS_F32, .rank = 2, .dims = {loops[0], loops[1]}};
    mlsi_type out = {.dtype = MLSYS_F32, .rank = 2, .dims = {size[0], size[1]}};
    mlsi_nest_init(n, a, NULL, "random");
    int32_t x = mlsi_nest_param(n, MLSI_SCOPE_INPUT, NULL, &in);
    int32_t y = mlsi_nest_param(n, MLSI_SCOPE_OUTPUT, NULL, &out);
    for (int d = 0; d < 2; d++)
        at[d] = mlsi_nest_for(n, MLSI_LOOP_SERIAL, d ? "b" : "a", size[d]);
    mlsi_nest_store(n, y, at, mlsi_nest_float(n, MLSYS_F32, 1));
    mlsi_nest_end(n);
    mlsi_nest_end(n);
    int64_t i = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", loops[0]);
    int64_t j = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "j", loops[1]);
    for (int d = 0; d < 2; d++) {
        at[d] = random_subscript(r, n, i, j, size[d]);
        from[d] = test_int(r, 0, 1) ? at[d] : random_subscript(r, n, i, j, size[d]);
    }
    int32_t term = mlsi_nest_load(n, x, (const int64_t[]){i, j});
    if (test_int(r, 0, 2))
        term = mlsi_nest_op(n, MLSI_OP_ADD, 0, mlsi_nest_load(n, y, from), term, -1);
    mlsi_nest_store(n, y, at, term);
    mlsi_nest_end(n);
    mlsi_nest_end(n);
    OK(mlsi_nest_finish(n));
}

START_TEST(dependences_are_found) {
    enum { ROUNDS = 3000 };
    static const char *const schedules[] = {"reorder(j_3, i_2)", "vectorize(i_2)", "vectorize(j_3)",
                                            "fuse(i_2, j_3) -> f; vectorize(f)"};
    test_random r = test_random_seed("dependences", 99);
    int taken[4] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        mlsi_nest before;
        random_nest(&r, &before, inside->alloc);
        original o = original_of(&before);
        for (int k = 0; k < 4; k++) {
            mlsi_nest after;
            mlsi_schedule s;
            OK(mlsi_nest_copy(&before, &after));
            mlsi_schedule_init(&s, inside->alloc);
            OK(mlsi_schedule_parse(&s, schedules[k]));
            if (mlsi_schedule_run(&after, &s) == MLSYS_OK) {
                taken[k]++;
                same(&o, &after, &s, 0);
            }
            mlsi_schedule_free(&s);
            mlsi_nest_free(&after);
        }
        original_free(&o);
        mlsi_nest_free(&before);
    }
    for (int k = 0; k < 4; k++) {
        printf("  %s: %d of %d accepted\n", schedules[k], taken[k], ROUNDS);
        ck_assert_msg(taken[k] > ROUNDS / 100, "%s: only %d accepted", schedules[k], taken[k]);
    }
}
END_TEST

/* ---- nests of functions -------------------------------------------------------------------------------------------------------- */

static const char *const functions[] = {
    /* elementwise with broadcasting */
    "  %0 = input \"x\" : f32[M,N]\n  %1 = input \"b\" : f32[N]\n  %2 = mul(%0, %1) : f32[M,N]\n"
    "  %3 = tanh(%2) : f32[M,N]\n  %4 = add(%3, %0) : f32[M,N]\n  output \"y\" %4\n",
    /* softmax */
    "  %0 = input \"x\" : f32[M,N]\n  %1 = reduce_max(%0) {axes=[1], keep=true} : f32[M,1]\n"
    "  %2 = sub(%0, %1) : f32[M,N]\n  %3 = exp(%2) : f32[M,N]\n"
    "  %4 = reduce_sum(%3) {axes=[1], keep=true} : f32[M,1]\n  %5 = div(%3, %4) : f32[M,N]\n"
    "  output \"y\" %5\n",
    /* movement */
    "  %0 = input \"x\" : f32[M,N,4]\n  %1 = transpose(%0) {perm=[2, 1, 0]} : f32[4,N,M]\n"
    "  %2 = reshape(%1) {shape=[4*N, M]} : f32[4*N,M]\n  %3 = neg(%2) : f32[4*N,M]\n"
    "  output \"y\" %3\n",
    /* a reduction over two axes */
    "  %0 = input \"x\" : f32[M,N,3]\n  %1 = mul(%0, %0) : f32[M,N,3]\n"
    "  %2 = reduce_sum(%1) {axes=[1, 2]} : f32[M]\n  %3 = sqrt(%2) : f32[M]\n"
    "  output \"y\" %3\n",
};
enum { N_FUNCTIONS = (int)(sizeof functions / sizeof functions[0]) };

START_TEST(schedules_of_functions) {
    enum { ROUNDS = 60 };
    char text[2000];
    mlsi_graph g;
    mlsi_nest n;
    test_random r = test_random_seed("functions", 17 + (uint64_t)_i);
    snprintf(text, sizeof text,
             "mlsys-ir 1\nsymbol M 0 40 1\nsymbol N 1 40 1\nsymbol K 1 600 1\nfunctions 1\n"
             "func 0 \"main\" {\n%s}\n",
             functions[_i]);
    OK(mlsi_graph_init(&g, ctx));
    OK(mlsi_graph_parse(&g, device, text));
    OK(mlsi_lower_func(&g, 0, "function", &n));
    original o = original_of(&n);
    for (int i = 0; i < ROUNDS; i++)
        random_schedule(&o, &r, 12);
    report();
    original_free(&o);
    mlsi_nest_free(&n);
    mlsi_graph_free(&g);
}
END_TEST

/* ---- text that nobody wrote ------------------------------------------------------------------------------------------------------- */

/* Characters changed at random: read and printed text reads back, other text is refused. */
START_TEST(any_text_is_read_or_refused) {
    static const char start[] = "tile(i_0, j_1, 4, 8) -> a, b, c, d; cache_read(in0, b) -> x;\n"
                                "reorder(a, b); # c\n vectorize(d); fuse(a, b) -> e;";
    static const char letters[] = "ab_01;,()->#\n $x";
    test_random r = test_random_seed("text", 5);
    int good = 0;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof start];
        mlsi_schedule s;
        memcpy(text, start, sizeof start);
        for (int64_t k = test_int(&r, 0, 3); k > 0; k--)
            text[test_int(&r, 0, sizeof start - 2)] = letters[test_int(&r, 0, sizeof letters - 2)];
        mlsi_schedule_init(&s, inside->alloc);
        mlsys_status st = mlsi_schedule_parse(&s, text);
        if (st != MLSYS_OK) expect(st, MLSYS_E_ARG, "schedule: ");
        good += st == MLSYS_OK;
        char *first = step_text(&s), *second;
        mlsi_schedule_free(&s);
        OK(mlsi_schedule_parse(&s, first));
        second = step_text(&s);
        ck_assert_str_eq(first, second);
        free(first);
        free(second);
        mlsi_schedule_free(&s);
    }
    printf("  %d of 20000 texts read\n", good);
    ck_assert(good > 1000 && good < 19000);
}
END_TEST

int main(void) {
    Suite *s = suite_create("schedule_random");
    TCase *c = tcase_create("random");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, random_schedules_keep_the_bits, 0, nest_sample_count);
    tcase_add_test(c, dependences_are_found);
    tcase_add_loop_test(c, schedules_of_functions, 0, N_FUNCTIONS);
    tcase_add_test(c, any_text_is_read_or_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
