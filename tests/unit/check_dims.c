/* Symbolic dims: every rule of the algebra against plain evaluation of the expression it came from.
 */
#include "support/dim_table.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 24 };

/* An expression as it was asked for: leaves are constants and symbols, values by plain arithmetic.
 */
typedef struct tree {
    int op; /* 0 constant, 's' symbol */
    int64_t value;
    struct tree *a, *b;
} tree;

typedef struct pool {
    tree nodes[MAX_NODES];
    int n;
} pool;

static tree *leaf(pool *p, int64_t value) {
    p->nodes[p->n] = (tree){0, value, NULL, NULL};
    return &p->nodes[p->n++];
}
static tree *symbol(pool *p, int64_t i) {
    p->nodes[p->n] = (tree){'s', i, NULL, NULL};
    return &p->nodes[p->n++];
}
static tree *node(pool *p, int op, tree *a, tree *b) {
    p->nodes[p->n] = (tree){op, 0, a, b};
    return &p->nodes[p->n++];
}

static int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q * b > a ? q - 1 : q;
}

/* *ok = false where a division is by less than 1. */
static int64_t value_of(const tree *e, const int64_t *binding, bool *ok) {
    if (!e->op) return e->value;
    if (e->op == 's') return binding[e->value];
    int64_t a = value_of(e->a, binding, ok), b = value_of(e->b, binding, ok);
    switch (e->op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    default:
        if (b < 1) return *ok = false, 0;
        return e->op == '/' ? floor_div(a, b) : a - b * floor_div(a, b);
    }
}

static mlsys_status build(mlsi_symtab *t, const tree *e, int64_t *out) {
    int64_t a, b;
    if (!e->op)
        return e->value < 0 ? mlsi_dim_op(t, '-', 0, -e->value, out) : (*out = e->value, MLSYS_OK);
    if (e->op == 's') {
        const mlsi_symbol *s = &symbols[e->value];
        return mlsi_dim_symbol(t, s->name, s->min, s->max, s->divisor, out);
    }
    MLSI_TRY(build(t, e->a, &a));
    MLSI_TRY(build(t, e->b, &b));
    return mlsi_dim_op(t, e->op, a, b, out);
}

/* The next binding of all symbols; false after the last. */
static bool next_binding(int64_t *binding) {
    for (int i = 0; i < N_SYMBOLS; i++) {
        const mlsi_symbol *s = &symbols[i];
        binding[i] += s->divisor;
        if (binding[i] <= s->max) return true;
        binding[i] = (s->min + s->divisor - 1) / s->divisor * s->divisor;
    }
    return false;
}

static void first_binding(int64_t *binding) {
    for (int i = 0; i < N_SYMBOLS; i++)
        binding[i] =
            (symbols[i].min + symbols[i].divisor - 1) / symbols[i].divisor * symbols[i].divisor;
}

/* The dim has the tree's value under all bindings, and its range holds them. */
static void check_values(const mlsi_symtab *t, const tree *e, int64_t d) {
    int64_t binding[N_SYMBOLS], lo, hi, got;
    mlsi_dim_range(t, d, &lo, &hi);
    first_binding(binding);
    do {
        bool ok = true;
        int64_t want = value_of(e, binding, &ok);
        if (!ok) ck_abort_msg("%s: built, but divides by less than 1", text(t, d));
        REQUIRE(mlsi_dim_eval(t, d, binding, &got) == MLSYS_OK);
        if (got != want)
            ck_abort_msg("%s is %lld, not %lld, at A=%lld B=%lld C=%lld", text(t, d),
                         (long long)got, (long long)want, (long long)binding[0],
                         (long long)binding[1], (long long)binding[2]);
        if (got < lo || got > hi)
            ck_abort_msg("%s is %lld, outside its range [%lld, %lld]", text(t, d), (long long)got,
                         (long long)lo, (long long)hi);
    } while (next_binding(binding));
}

static void check_text(const tree *e, int64_t d) {
    mlsi_text printed, again;
    int64_t back, other;
    mlsi_symtab fresh;
    mlsi_text_init(&printed, &mlsi_alloc_process);
    mlsi_text_init(&again, &mlsi_alloc_process);
    mlsi_dim_print(&tab, d, &printed);
    const char *p = printed.data;
    if (mlsi_dim_parse(&tab, &p, &back) != MLSYS_OK)
        ck_abort_msg("%s: %s", printed.data, mlsys_last_error());
    if (*p || back != d) ck_abort_msg("%s reads back as %s", printed.data, text(&tab, back));
    make_table(&fresh);
    p = printed.data;
    REQUIRE(mlsi_dim_parse(&fresh, &p, &other) == MLSYS_OK);
    check_values(&fresh, e, other);
    mlsi_dim_print(&fresh, other, &again);
    if (strcmp(printed.data, again.data))
        ck_abort_msg("%s prints as %s in a new table", printed.data, again.data);
    mlsi_symtab_free(&fresh);
    mlsi_text_free(&printed);
    mlsi_text_free(&again);
}

/* Into a table that holds the symbols in another order and knows other expressions. */
static void check_import(const tree *e, int64_t d) {
    mlsi_symtab to;
    int64_t moved, back, x, binding[N_SYMBOLS], swapped[N_SYMBOLS], got;
    mlsi_symtab_init(&to, &mlsi_alloc_process);
    for (int i = N_SYMBOLS - 1; i >= 0; i--) {
        const mlsi_symbol *s = &symbols[i];
        REQUIRE(mlsi_dim_symbol(&to, s->name, s->min, s->max, s->divisor, &x) == MLSYS_OK);
        REQUIRE(mlsi_dim_op(&to, '/', x, 7, &x) == MLSYS_OK);
    }
    if (mlsi_dim_import(&to, &tab, d, &moved) != MLSYS_OK)
        ck_abort_msg("%s: import: %s", text(&tab, d), mlsys_last_error());
    first_binding(binding);
    do {
        bool ok = true;
        for (int i = 0; i < N_SYMBOLS; i++)
            swapped[N_SYMBOLS - 1 - i] = binding[i];
        REQUIRE(mlsi_dim_eval(&to, moved, swapped, &got) == MLSYS_OK);
        REQUIRE(got == value_of(e, binding, &ok));
    } while (next_binding(binding));
    REQUIRE(mlsi_dim_import(&tab, &to, moved, &back) == MLSYS_OK);
    if (back != d) ck_abort_msg("%s comes back as something else", text(&tab, d));
    mlsi_symtab_free(&to);
}

/* Returns whether the expression could be built. */
static bool check(const tree *e, bool whole) {
    int64_t d;
    mlsys_status st = build(&tab, e, &d);
    if (st != MLSYS_OK) {
        REQUIRE(st == MLSYS_E_SHAPE || st == MLSYS_E_UNSUPPORTED);
        return false;
    }
    check_values(&tab, e, d);
    if (whole) check_text(e, d);
    if (whole) check_import(e, d);
    return true;
}

/* ---- the rules, one by one, for all constants 1..9 ----------------------------------------------
 */

/* x = A - shift, so that it runs over negative values too. */
static tree *shifted(pool *p, int64_t shift) { return node(p, '-', symbol(p, 0), leaf(p, shift)); }

START_TEST(floor_division_by_constants) {
    for (int64_t m = 1; m <= 9; m++)
        for (int64_t k = 1; k <= 9; k++)
            for (int64_t c = -20; c <= 20; c++)
                for (int op = 0; op < 2; op++) {
                    pool p = {.n = 0};
                    tree *x =
                        node(&p, '+', node(&p, '*', leaf(&p, m), symbol(&p, _i)), leaf(&p, c));
                    REQUIRE(check(node(&p, op ? '%' : '/', x, leaf(&p, k)), c % 5 == 0));
                }
}
END_TEST

START_TEST(floor_division_of_negative_multiples) {
    for (int64_t m = 1; m <= 9; m++)
        for (int64_t k = 1; k <= 9; k++)
            for (int64_t c = -9; c <= 9; c++) {
                pool p = {.n = 0};
                tree *x = node(&p, '-', leaf(&p, c), node(&p, '*', leaf(&p, m), symbol(&p, _i)));
                REQUIRE(check(node(&p, '/', x, leaf(&p, k)), false));
            }
}
END_TEST

/* floor((m*S + c) / B), floor((m*A*B + c) / B), ... for a divisor that is a symbol. */
START_TEST(floor_division_by_symbols) {
    for (int64_t m = 1; m <= 9; m++)
        for (int64_t c = -9; c <= 9; c++)
            for (int s = 0; s < N_SYMBOLS; s++)
                for (int form = 0; form < 4; form++) {
                    pool p = {.n = 0};
                    tree *x = node(&p, '*', leaf(&p, m), symbol(&p, s));
                    tree *b = symbol(&p, form & 1 ? 2 : 1);
                    if (form & 2) x = node(&p, '*', x, b);
                    REQUIRE(check(node(&p, '/', node(&p, '+', x, leaf(&p, c)), b), c == 0));
                    REQUIRE(check(node(&p, '%', node(&p, '+', x, leaf(&p, c)), b), false));
                }
}
END_TEST

/* BO-09: floor((x + k - 1) / k) * k is the next multiple of k, also for x <= 0, where it is not >=
 * x rounded toward zero; its distance to x is in [0, k). */
START_TEST(next_multiple_of_negative_numbers) {
    for (int64_t k = 1; k <= 9; k++)
        for (int64_t shift = 0; shift <= 20; shift++) {
            pool p = {.n = 0};
            int64_t d, lo, hi;
            tree *x = shifted(&p, shift), *up = node(&p, '+', x, leaf(&p, k - 1));
            tree *multiple = node(&p, '*', node(&p, '/', up, leaf(&p, k)), leaf(&p, k));
            REQUIRE(check(multiple, true));
            tree *gap = node(&p, '-', multiple, x);
            REQUIRE(check(gap, true));
            REQUIRE(build(&tab, gap, &d) == MLSYS_OK);
            mlsi_dim_range(&tab, d, &lo, &hi);
            if (lo < 0 || hi > k - 1)
                ck_abort_msg("%s: range [%lld, %lld], expected within [0, %lld]", text(&tab, d),
                             (long long)lo, (long long)hi, (long long)k - 1);
        }
}
END_TEST

/* A quotient that the ranges fix is a number, and only then. */
START_TEST(quotients_fixed_by_ranges) {
    for (int64_t k = 1; k <= 40; k++)
        for (int64_t shift = -20; shift <= 20; shift++) {
            pool p = {.n = 0};
            int64_t d;
            tree *e = node(&p, '/', shifted(&p, shift), leaf(&p, k));
            REQUIRE(check(e, false));
            REQUIRE(build(&tab, e, &d) == MLSYS_OK);
            int64_t least = floor_div(-shift, k), most = floor_div(12 - shift, k), number;
            bool known = mlsi_dim_eval(&tab, d, (const int64_t[]){0, 1, 3}, &number) == MLSYS_OK &&
                         (d >= 0 || !strpbrk(text(&tab, d), "ABC"));
            REQUIRE(known == (least == most));
        }
}
END_TEST

START_TEST(remainders_have_their_range) {
    static const int64_t divisors[] = {1, 2, 4, 7, 9};
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++)
        for (int64_t m = 1; m <= 9; m++)
            for (int64_t c = -9; c <= 9; c++) {
                pool p = {.n = 0};
                int64_t d, lo, hi;
                tree *x = node(&p, '-', node(&p, '*', leaf(&p, m), symbol(&p, 0)), symbol(&p, 1));
                tree *e = node(&p, '%', node(&p, '+', x, leaf(&p, c)), leaf(&p, divisors[i]));
                REQUIRE(check(e, false));
                REQUIRE(build(&tab, e, &d) == MLSYS_OK);
                mlsi_dim_range(&tab, d, &lo, &hi);
                REQUIRE(lo >= 0 && hi < divisors[i]);
            }
}
END_TEST

START_TEST(a_multiple_divides_exactly) {
    int64_t c, third, back, q, d;
    bool exact;
    ck_assert_int_eq(mlsi_dim_symbol(&tab, "C", 2, 10, 3, &c), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_op(&tab, '/', c, 3, &third), MLSYS_OK);
    ck_assert_str_eq(text(&tab, third), "((C)/(3))");
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', third, 3, &back), MLSYS_OK);
    ck_assert(back == c);
    ck_assert_int_eq(mlsi_dim_op(&tab, '%', c, 3, &d), MLSYS_OK);
    ck_assert_int_eq(d, 0);
    ck_assert_int_eq(mlsi_dim_divide_exact(&tab, c, 3, &q, &exact), MLSYS_OK);
    ck_assert(exact && q == third);
    ck_assert_int_eq(mlsi_dim_divide_exact(&tab, c, 2, &q, &exact), MLSYS_OK);
    ck_assert(!exact);
    ck_assert_int_eq(mlsi_dim_divide_exact(&tab, 0, c, &q, &exact), MLSYS_OK);
    ck_assert(exact && q == 0);
    ck_assert_int_eq(mlsi_dim_as_symbol(&tab, c), 2);
    ck_assert_int_eq(mlsi_dim_as_symbol(&tab, third), -1);
    ck_assert_int_eq(mlsi_dim_op(&tab, '*', c, 2, &d), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_as_symbol(&tab, d), -1);
}
END_TEST

/* Whatever divide_exact calls exact is: quotient * b = a, everywhere. */
START_TEST(exact_quotients) {
    test_random r = test_random_seed("exact_quotients", 11);
    int found = 0;
    for (int trial = 0; trial < 4000; trial++) {
        pool p = {.n = 0};
        int64_t a, b, q, product;
        bool exact;
        tree *x = node(&p, '*', leaf(&p, test_int(&r, 1, 6)), symbol(&p, test_int(&r, 0, 2)));
        if (trial % 2) x = node(&p, '+', x, leaf(&p, test_int(&r, 0, 6)));
        tree *y =
            trial % 3 ? leaf(&p, test_int(&r, 1, 6)) : node(&p, '+', symbol(&p, 0), leaf(&p, 1));
        tree *z = trial % 5 ? node(&p, '*', x, y) : x;
        REQUIRE(build(&tab, z, &a) == MLSYS_OK && build(&tab, y, &b) == MLSYS_OK);
        REQUIRE(mlsi_dim_divide_exact(&tab, a, b, &q, &exact) == MLSYS_OK);
        if (!exact) continue;
        found++;
        REQUIRE(mlsi_dim_op(&tab, '*', q, b, &product) == MLSYS_OK);
        if (product != a) ck_abort_msg("%s is not the product", text(&tab, a));
    }
    ck_assert_int_gt(found, 1000);
}
END_TEST

/* ---- random expressions -------------------------------------------------------------------------
 */

static tree *random_tree(pool *p, test_random *r, int depth) {
    static const char ops[] = "++--**//%";
    if (depth == 0 || p->n > MAX_NODES / 2 || test_int(r, 0, 5) == 0)
        return test_int(r, 0, 1) ? leaf(p, test_int(r, -9, 9)) : symbol(p, test_int(r, 0, 2));
    int op = ops[test_int(r, 0, 8)];
    tree *a = random_tree(p, r, depth - 1);
    tree *b = op == '/' || op == '%'
                  ? (test_int(r, 0, 3) ? leaf(p, test_int(r, 1, 9)) : symbol(p, test_int(r, 1, 2)))
                  : random_tree(p, r, depth - 1);
    return node(p, op, a, b);
}

START_TEST(random_expressions) {
    test_random r = test_random_seed("random_expressions", 5);
    int built = 0;
    for (int trial = 0; trial < 3000; trial++) {
        pool p = {.n = 0};
        built += check(random_tree(&p, &r, 4), trial % 4 == 0);
        if (trial % 200 == 199) teardown(), setup(); /* the table must not grow without end */
    }
    ck_assert_int_gt(built, 2000);
}
END_TEST

/* Sums and products give one code in whatever order they are made. */
START_TEST(normal_form_is_unique) {
    test_random r = test_random_seed("normal_form_is_unique", 6);
    int compared = 0;
    for (int trial = 0; trial < 2000; trial++) {
        pool p = {.n = 0};
        int64_t d[6];
        tree *x = random_tree(&p, &r, 1), *y = random_tree(&p, &r, 1), *z = random_tree(&p, &r, 1);
        tree *forms[6] = {node(&p, '*', node(&p, '+', x, y), z),
                          node(&p, '*', z, node(&p, '+', y, x)),
                          NULL,
                          NULL,
                          NULL,
                          NULL};
        pool more = {.n = 0};
        forms[2] = node(&more, '+', node(&more, '*', z, x), node(&more, '*', y, z));
        forms[3] = node(&more, '-', forms[2], node(&more, '-', x, x));
        forms[4] = node(&more, '+', y, node(&more, '-', forms[0], y));
        forms[5] = node(&more, '-', leaf(&more, 0), node(&more, '-', leaf(&more, 0), forms[1]));
        bool all = true;
        for (int i = 0; i < 6; i++)
            all = all && build(&tab, forms[i], &d[i]) == MLSYS_OK;
        if (!all) continue;
        compared++;
        for (int i = 1; i < 6; i++)
            if (d[i] != d[0]) ck_abort_msg("form %d of %s is another dim", i, text(&tab, d[0]));
    }
    ck_assert_int_gt(compared, 1500);
}
END_TEST

/* The order of terms does not depend on what was interned first. */
START_TEST(text_does_not_depend_on_history) {
    mlsi_symtab other;
    int64_t d, e, f;
    const char *p;
    make_table(&other);
    p = "((A)/(2))";
    ck_assert_int_eq(mlsi_dim_parse(&other, &p, &d), MLSYS_OK);
    p = "((B)/(3))+((A)/(2))+((A+B)/(5))+A";
    ck_assert_int_eq(mlsi_dim_parse(&tab, &p, &e), MLSYS_OK);
    p = "A+((A+B)/(5))+((A)/(2))+((B)/(3))";
    ck_assert_int_eq(mlsi_dim_parse(&other, &p, &f), MLSYS_OK);
    char mine[256];
    mlsi_dim_text(&tab, e, mine, sizeof mine);
    ck_assert_str_eq(mine, text(&other, f));
    mlsi_symtab_free(&other);
}
END_TEST

int main(void) {
    Suite *s = suite_create("dims");
    TCase *tc = tcase_create("dims");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, floor_division_by_constants, 0, N_SYMBOLS);
    tcase_add_loop_test(tc, floor_division_of_negative_multiples, 0, N_SYMBOLS);
    tcase_add_test(tc, floor_division_by_symbols);
    tcase_add_test(tc, next_multiple_of_negative_numbers);
    tcase_add_test(tc, quotients_fixed_by_ranges);
    tcase_add_test(tc, remainders_have_their_range);
    tcase_add_test(tc, a_multiple_divides_exactly);
    tcase_add_test(tc, exact_quotients);
    tcase_add_test(tc, random_expressions);
    tcase_add_test(tc, normal_form_is_unique);
    tcase_add_test(tc, text_does_not_depend_on_history);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
