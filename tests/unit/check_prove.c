/* Variables with symbolic extents: every rule of the algebra and of the prover against plain evaluation at all values. */
#include "ir/loop/prove.h"
#include "support/random.h"
#include "support/variable_table.h"

/* ---- what is built has the value that was asked for ------------------------------------------------------- */

typedef struct tree {
    int op; /* 0 number, 's' symbol */
    int64_t value;
    struct tree *a, *b;
} tree;

typedef struct pool {
    tree nodes[32];
    int n;
} pool;

static tree *add_tree(pool *p, tree t) {
    p->nodes[p->n] = t;
    return &p->nodes[p->n++];
}

static tree *random_tree(pool *p, test_random *r, int depth) {
    static const char ops[] = "++--***//%";
    if (depth == 0 || p->n > 12 || test_int(r, 0, 5) == 0)
        return test_int(r, 0, 2)
                   ? add_tree(p, (tree){.op = 's', .value = test_int(r, 0, N_VARIABLE_SYMBOLS - 1)})
                   : add_tree(p, (tree){.value = test_int(r, -5, 9)});
    int op = ops[test_int(r, 0, 9)];
    tree *a = random_tree(p, r, depth - 1), *b;
    if (op == '/' || op == '%')
        b = test_int(r, 0, 1) ? add_tree(p, (tree){.value = test_int(r, 1, 6)})
                              : add_tree(p, (tree){.op = 's', .value = test_int(r, 0, 1)});
    else
        b = random_tree(p, r, depth - 1);
    return add_tree(p, (tree){.op = op, .a = a, .b = b});
}

static int64_t value_of(const tree *e, const int64_t *binding) {
    if (!e->op) return e->value;
    if (e->op == 's') return binding[e->value];
    int64_t a = value_of(e->a, binding), b = value_of(e->b, binding);
    switch (e->op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return mlsi_floor_div(a, b);
    default: return a - b * mlsi_floor_div(a, b);
    }
}

static void name_tree(domain *d, const tree *e) {
    if (e->op == 's') domain_name(d, codes[e->value]);
    if (!e->a) return;
    name_tree(d, e->a);
    name_tree(d, e->b);
}

static mlsys_status build(const tree *e, int64_t *out) {
    int64_t a, b;
    if (!e->op)
        return e->value < 0 ? mlsi_dim_op(&tab, '-', 0, -e->value, out)
                            : (*out = e->value, MLSYS_OK);
    if (e->op == 's') return *out = codes[e->value], MLSYS_OK;
    MLSI_TRY(build(e->a, &a));
    MLSI_TRY(build(e->b, &b));
    return mlsi_dim_op(&tab, e->op, a, b, out);
}

static bool check_tree(const tree *e) {
    int64_t code, lo, hi;
    domain d = {.started = false};
    mlsys_status st = build(e, &code);
    if (st != MLSYS_OK) {
        REQUIRE(st == MLSYS_E_SHAPE || st == MLSYS_E_UNSUPPORTED);
        return false;
    }
    mlsi_dim_range(&tab, code, &lo, &hi);
    name_tree(&d, e);
    while (domain_next(&d)) {
        int64_t want = value_of(e, d.value), got = at(&d, code);
        if (got != want)
            ck_abort_msg("%s is %lld, not %lld at N=%lld P=%lld i=%lld j=%lld f=%lld", text(code),
                         (long long)got, (long long)want, (long long)d.value[S_N],
                         (long long)d.value[S_P], (long long)d.value[V_I], (long long)d.value[V_J],
                         (long long)d.value[V_F]);
        REQUIRE(got >= lo && got <= hi);
    }
    return true;
}

START_TEST(random_expressions) {
    test_random r = test_random_seed("random_expressions", 21);
    int built = 0;
    for (int trial = 0; trial < 6000; trial++) {
        pool p = {.n = 0};
        built += check_tree(random_tree(&p, &r, 4));
        if (trial % 300 == 299) teardown(), setup();
    }
    ck_assert_int_gt(built, 4000);
}
END_TEST

/* floor((c1*x + c2*y + c) / d) for all small numbers: the rules that cut common factors and whole windows. */
START_TEST(divisions_of_two_variables) {
    static const int pairs[][2] = {{V_I, V_J}, {V_J, V_U}, {V_U, V_T}, {V_F, V_U}};
    int x = pairs[_i][0], y = pairs[_i][1];
    for (int64_t c1 = -6; c1 <= 6; c1 += 2)
        for (int64_t c2 = -3; c2 <= 4; c2++)
            for (int64_t c = -5; c <= 5; c++)
                for (int64_t by = 1; by <= 12; by++) {
                    pool p = {.n = 0};
                    tree *a = add_tree(&p, (tree){.op = 's', .value = x});
                    tree *k = add_tree(&p, (tree){.value = c1});
                    a = add_tree(&p, (tree){.op = '*', .a = a, .b = k});
                    tree *b = add_tree(&p, (tree){.op = 's', .value = y});
                    k = add_tree(&p, (tree){.value = c2});
                    b = add_tree(&p, (tree){.op = '*', .a = b, .b = k});
                    a = add_tree(&p, (tree){.op = '+', .a = a, .b = b});
                    k = add_tree(&p, (tree){.value = c});
                    a = add_tree(&p, (tree){.op = '+', .a = a, .b = k});
                    k = add_tree(&p, (tree){.value = by});
                    REQUIRE(check_tree(add_tree(&p, (tree){.op = '/', .a = a, .b = k})));
                }
}
END_TEST

/* floor((m*P*x + y + c) / P), floor((m*P*x + c*y) / (2*P)): windows and factors that are symbols. */
START_TEST(divisions_by_symbols) {
    for (int y = V_I; y <= V_U; y++)
        for (int64_t m = -2; m <= 3; m++)
            for (int64_t c = -3; c <= 3; c++)
                for (int form = 0; form < 4; form++) {
                    pool p = {.n = 0};
                    tree *by = add_tree(&p, (tree){.op = 's', .value = S_P});
                    tree *a = add_tree(&p, (tree){.op = 's', .value = V_I});
                    a = add_tree(&p, (tree){.op = '*', .a = a, .b = by});
                    tree *k = add_tree(&p, (tree){.value = m});
                    a = add_tree(&p, (tree){.op = '*', .a = a, .b = k});
                    tree *b = add_tree(&p, (tree){.op = 's', .value = y});
                    k = add_tree(&p, (tree){.value = c});
                    b = add_tree(&p, (tree){.op = form & 1 ? '*' : '+', .a = b, .b = k});
                    a = add_tree(&p, (tree){.op = '+', .a = a, .b = b});
                    k = add_tree(&p, (tree){.value = form & 2 ? 2 : 1});
                    by = add_tree(&p, (tree){.op = '*', .a = by, .b = k});
                    REQUIRE(check_tree(add_tree(&p, (tree){.op = '/', .a = a, .b = by})));
                    REQUIRE(check_tree(add_tree(&p, (tree){.op = '%', .a = a, .b = by})));
                }
}
END_TEST

/* What loops need: the left text has the right one's code. */
START_TEST(simplifications) {
    static const char *const rows[][2] = {
        {"(i*P+j)/P", "i"},
        {"i*P+j-P*((i*P+j)/P)", "j"},
        {"(f*P+j)/(N*P)", "f/N"},
        {"(u*N*P+i*P+j)/(N*P)", "u"},
        {"(u*N*P+i*P+j)/P-N*((u*N*P+i*P+j)/(N*P))", "i"},
        {"(N-1-i)/N", "0"},
        {"(P*N-1-f)/(N*P)", "0"},
        {"(j-P)/P", "-1"},
        {"(i*6+u)/12", "i/2"},
        {"(12*i+3*u)/6", "(4*i+u)/2"},
        {"t/N", "0"},
        {"t/(i+1)", "0"},
        {"(i*P+i+j)/(P+1)", "i"},
        {"(N*P+N)/(P+1)", "N"},
        {"(f+N*P*u)/(N*P)", "u"},
        {"(i*6+7)/12", "(i+1)/2"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (dim(rows[k][0]) != dim(rows[k][1]))
            ck_abort_msg("%s is %s, not %s", rows[k][0], text(dim(rows[k][0])), rows[k][1]);
}
END_TEST

/* ---- proofs ------------------------------------------------------------------------------------------------ */

static bool always(int n_facts, const mlsi_dim_fact *facts, int64_t code) {
    domain d = {.started = false};
    domain_name(&d, code);
    for (int k = 0; k < n_facts; k++) {
        domain_name(&d, facts[k].big);
        domain_name(&d, facts[k].small);
    }
    while (domain_next(&d)) {
        bool holds = true;
        for (int k = 0; k < n_facts; k++)
            holds = holds && at(&d, facts[k].big) - at(&d, facts[k].small) >= facts[k].least;
        if (holds && at(&d, code) < 0) return false;
    }
    return true;
}

static int64_t random_dim(test_random *r, int depth) {
    for (;;) {
        pool p = {.n = 0};
        int64_t d;
        if (build(random_tree(&p, r, depth), &d) == MLSYS_OK) return d;
    }
}

/* Whatever is proved is true, with and without facts; and most of what is true of such expressions is proved. */
START_TEST(proofs_are_true) {
    test_random r = test_random_seed("proofs_are_true", 22);
    int proved = 0, true_ones = 0;
    for (int trial = 0; trial < 4000; trial++) {
        int64_t e = random_dim(&r, 3), least = test_int(&r, -4, 4);
        mlsi_dim_fact facts[3];
        int n_facts = (int)test_int(&r, 0, 3);
        for (int k = 0; k < n_facts; k++)
            facts[k] = (mlsi_dim_fact){random_dim(&r, 2), random_dim(&r, 1), test_int(&r, -3, 1)};
        bool yes = mlsi_dim_prove(&tab, n_facts, facts, e, 0, least);
        int64_t goal;
        if (mlsi_dim_op(&tab, '-', e, least, &goal) != MLSYS_OK) continue;
        if (least < 0) REQUIRE(mlsi_dim_op(&tab, '+', e, -least, &goal) == MLSYS_OK);
        bool is = always(n_facts, facts, goal);
        if (yes && !is)
            ck_abort_msg("trial %d: %s >= %lld is proved, and false", trial, text(e),
                         (long long)least);
        if (n_facts) continue; /* facts that nothing fulfils prove anything */
        proved += yes;
        true_ones += is;
        if (trial % 100 == 99) teardown(), setup();
    }
    ck_assert_msg(proved * 10 > true_ones * 8, "%d of %d", proved, true_ones);
    ck_assert_int_gt(true_ones - proved, 0);
}
END_TEST

/* k*x*y + l >= c*z under facts with factors of either sign: what multiplies a fact must not be negative. */
START_TEST(facts_are_multiplied_by_what_is_not_negative) {
    int64_t q = dim("(i-j)/2"), goal, proved = 0;
    const mlsi_dim_fact facts[2] = {{dim("j"), dim("u"), 0}, {dim("i"), dim("z"), 1}};
    for (int64_t c = -3; c <= 3; c++)
        for (int k = 0; k < 2; k++) {
            const int64_t left[2] = {facts[k].big, facts[k].small};
            int64_t a, b;
            REQUIRE(mlsi_dim_op(&tab, '-', left[0], left[1], &a) == MLSYS_OK);
            REQUIRE(mlsi_dim_op(&tab, '*', a, q, &b) == MLSYS_OK);
            REQUIRE(mlsi_dim_op(&tab, '+', b, c + 3, &goal) == MLSYS_OK);
            if (!mlsi_dim_prove(&tab, 2, facts, goal, 0, 0)) continue;
            proved++;
            REQUIRE(always(2, facts, goal));
        }
    ck_assert(mlsi_dim_prove(&tab, 2, facts, dim("i*P"), dim("z*P+P"), 0));
    (void)proved;
}
END_TEST

typedef struct proof_case {
    const char *lo, *index, *hi, *given[3]; /* given: lo, index, hi */
} proof_case;

static const proof_case provable[] = {
    {"0", "i*P+j", "N*P", {NULL}},
    {"0", "N-1-i", "N", {NULL}},
    {"0", "f/P", "N", {NULL}},
    {"0", "f-P*(f/P)", "P", {NULL}},
    {"0", "(f/P)*P+j", "N*P", {NULL}},
    {"0", "i-t", "N", {NULL}},
    {"0", "t*P+j", "N*P", {NULL}},
    {"0", "i+u", "N+3", {NULL}},
    {"0", "2*i+1", "2*N", {NULL}},
    {"0", "4*i+u", "N", {"0", "4*i+u", "N"}},
    {"0", "(4*i+u)*P+j", "N*P", {"0", "4*i+u", "N"}},
    {"0", "i-1", "N", {"1", "i", "N"}},
    {"0", "2*i+u-1", "2*N", {"0", "2*i+u-1", "2*N"}},
    {"0", "2*i-2*z", "2*N", {"0", "i-z", "N"}},
    {"0", "z+Z*j", "Z*P", {NULL}},
    {"0", "i/2", "(N+1)/2", {NULL}},
    {"0", "2*((i)/2)", "N", {NULL}},
    {"0", "(K/2)*i+(u/4)", "N*(K/2)", {NULL}},
    {"0", "(i+u)/4", "(N+6)/4", {NULL}},
};

static const proof_case not_provable[] = {
    {"0", "i*P+j+1", "N*P", {NULL}}, {"0", "i-1", "N", {NULL}},     {"0", "N-i", "N", {NULL}},
    {"0", "4*i+u", "N", {NULL}},     {"0", "i+j", "N", {NULL}},     {"0", "t", "i", {NULL}},
    {"0", "i*N+j", "N*P", {NULL}},   {"0", "(f+1)/P", "N", {NULL}}, {"0", "i", "N", {NULL}},
};

static mlsi_facts facts_of(const proof_case *c) {
    mlsi_facts f = {.tab = &tab};
    if (c->given[0]) mlsi_facts_range(&f, dim(c->given[0]), dim(c->given[1]), dim(c->given[2]));
    return f;
}

START_TEST(ranges_that_loops_need) {
    for (size_t k = 0; k < sizeof provable / sizeof provable[0]; k++) {
        const proof_case *c = &provable[k];
        mlsi_facts f = facts_of(c);
        if (!mlsi_prove_in_range(&f, dim(c->lo), dim(c->index), dim(c->hi)))
            ck_abort_msg("%s <= %s < %s is not proved", c->lo, c->index, c->hi);
    }
    for (size_t k = 0; k + 1 < sizeof not_provable / sizeof not_provable[0]; k++) {
        const proof_case *c = &not_provable[k];
        mlsi_facts f = facts_of(c);
        if (mlsi_prove_in_range(&f, dim(c->lo), dim(c->index), dim(c->hi)))
            ck_abort_msg("%s <= %s < %s is proved", c->lo, c->index, c->hi);
    }
}
END_TEST

START_TEST(equal_and_multiple) {
    mlsi_facts f = {.tab = &tab};
    ck_assert(mlsi_prove_equal(&f, dim("i+j"), dim("j+i")));
    ck_assert(!mlsi_prove_equal(&f, dim("i"), dim("j")));
    ck_assert(!mlsi_prove_equal(&f, dim("i/2"), dim("(i+1)/2")));
    mlsi_facts_range(&f, dim("i"), dim("j"), dim("i+1"));
    ck_assert(mlsi_prove_equal(&f, dim("i"), dim("j")));
    for (int64_t by = 1; by <= 12; by++) {
        domain d = {.started = false};
        int64_t e = dim("6*i+K*u*3-12");
        bool is = true;
        domain_name(&d, e);
        while (domain_next(&d))
            is = is && at(&d, e) % by == 0;
        ck_assert_msg(mlsi_prove_multiple(&tab, e, by) == is, "%lld", (long long)by);
    }
    ck_assert(mlsi_prove_multiple(&tab, dim("i*P+P"), dim("P")));
    ck_assert(!mlsi_prove_multiple(&tab, dim("i*P+1"), dim("P")));
    ck_assert(!mlsi_prove_multiple(&tab, 4, 0));
}
END_TEST

/* A stride is what the expression grows by, wherever it is said to be known. */
START_TEST(strides) {
    test_random r = test_random_seed("strides", 23);
    int numbers = 0;
    for (int trial = 0; trial < 2000; trial++) {
        int64_t e = random_dim(&r, 3), grows = INT64_MIN;
        int32_t s = (int32_t)test_int(&r, V_I, V_U);
        mlsi_stride stride = mlsi_index_stride(&tab, e, s);
        domain d = {.started = false};
        domain_name(&d, e);
        domain_name(&d, codes[s]);
        if (stride.kind == MLSI_STRIDE_UNKNOWN) continue;
        numbers += stride.kind == MLSI_STRIDE_NUMBER && stride.value;
        while (domain_next(&d)) {
            if (d.value[s] == d.last[s]) continue;
            int64_t here = at(&d, e);
            d.value[s]++;
            grows = at(&d, e) - here;
            d.value[s]--;
            if (stride.kind == MLSI_STRIDE_NUMBER && grows != stride.value)
                ck_abort_msg("%s grows by %lld, not %lld", text(e), (long long)grows,
                             (long long)stride.value);
        }
        if (trial % 300 == 299) teardown(), setup();
    }
    ck_assert_int_gt(numbers, 100);
    ck_assert(mlsi_index_stride(&tab, dim("i*P+j"), V_J).value == 1);
    ck_assert(mlsi_index_stride(&tab, dim("i*P+j"), V_I).kind == MLSI_STRIDE_FIXED);
    ck_assert(mlsi_index_stride(&tab, dim("i/2"), V_I).kind == MLSI_STRIDE_UNKNOWN);
    ck_assert(mlsi_index_stride(&tab, dim("i*i"), V_I).kind == MLSI_STRIDE_UNKNOWN);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proofs about index expressions");
    TCase *tc = tcase_create("prove");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, random_expressions);
    tcase_add_loop_test(tc, divisions_of_two_variables, 0, 4);
    tcase_add_test(tc, divisions_by_symbols);
    tcase_add_test(tc, simplifications);
    tcase_add_test(tc, proofs_are_true);
    tcase_add_test(tc, facts_are_multiplied_by_what_is_not_negative);
    tcase_add_test(tc, ranges_that_loops_need);
    tcase_add_test(tc, equal_and_multiple);
    tcase_add_test(tc, strides);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
