/* Which index maps are proved one to one and onto, against running over all iterations: random nests and the ones that
 * lowering and schedules make. */
#include "ir/loop/prove.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 4096, MOST_VARS = 4 };

static mlsi_symtab symbols;
static int64_t N, P;

static void setup(void) {
    mlsi_symtab_init(&symbols, &mlsi_alloc_process);
    ck_assert_int_eq(mlsi_dim_symbol(&symbols, "N", 0, 5, 1, &N), MLSYS_OK);
    ck_assert_int_eq(mlsi_dim_symbol(&symbols, "P", 1, 4, 1, &P), MLSYS_OK);
}
static void teardown(void) { mlsi_symtab_free(&symbols); }

/* A store to out0, of one or two axes, in loops and a condition. */
typedef struct map {
    mlsi_nest n;
    int n_vars, rank, n_conditions;
    int64_t index[2], dims[2], conditions[2][3];
} map;

static int64_t parse(mlsi_nest *n, const char *text) {
    int64_t d = 0;
    const char *p = text;
    if (mlsi_dim_parse(&n->tab, &p, &d) != MLSYS_OK || *p)
        ck_abort_msg("%s: %s", text, mlsys_last_error());
    return d;
}

static int64_t at(const map *m, int64_t code, const int64_t *binding) {
    int64_t v;
    REQUIRE(mlsi_dim_eval(&m->n.tab, code, binding, &v) == MLSYS_OK);
    return v;
}

/* Counts how often each cell of the box is met; false: outside of it. */
static bool count_cells(const map *m, int var, int64_t *binding, int *cells) {
    if (var == m->n_vars) {
        for (int c = 0; c < m->n_conditions; c++) {
            int64_t i = at(m, m->conditions[c][1], binding);
            if (i < at(m, m->conditions[c][0], binding) || i >= at(m, m->conditions[c][2], binding))
                return true;
        }
        int64_t cell = 0;
        for (int d = 0; d < m->rank; d++) {
            int64_t i = at(m, m->index[d], binding), extent = at(m, m->dims[d], binding);
            if (i < 0 || i >= extent) return false;
            cell = cell * extent + i;
        }
        REQUIRE(cell < MOST_CELLS);
        cells[cell]++;
        return true;
    }
    int64_t extent = at(m, m->n.vars[var].extent, binding);
    for (int64_t i = 0; i < extent; i++) {
        if (m->n.vars[var].symbol >= 0) binding[m->n.vars[var].symbol] = i;
        if (!count_cells(m, var + 1, binding, cells)) return false;
    }
    return true;
}

/* Once each, for all values of the shape symbols. */
static bool is_onto(const map *m) {
    static int cells[MOST_CELLS];
    int64_t binding[64] = {0};
    for (int64_t a = 0; a <= 5; a++)
        for (int64_t b = 1; b <= 4; b++) {
            int64_t all = 1;
            binding[0] = a, binding[1] = b;
            for (int d = 0; d < m->rank; d++)
                all *= at(m, m->dims[d], binding);
            if (all < 0 || all > MOST_CELLS) return false;
            memset(cells, 0, sizeof cells);
            if (!count_cells(m, 0, binding, cells)) return false;
            for (int64_t i = 0; i < all; i++)
                if (cells[i] != 1) return false;
        }
    return true;
}

static void begin(map *m) {
    memset(m, 0, sizeof *m);
    mlsi_nest_init(&m->n, &mlsi_alloc_process, &symbols, "map");
}

static bool proved(map *m) {
    int32_t vars[MOST_VARS] = {0, 1, 2, 3};
    const mlsi_facts f = {.tab = &m->n.tab};
    mlsi_region r = {m->n_vars, m->n_conditions, vars, (const int64_t(*)[3])m->conditions};
    bool yes;
    REQUIRE(m->n.status == MLSYS_OK);
    REQUIRE(mlsi_prove_onto(&m->n, &f, &r, m->rank, m->index, m->dims, &yes) == MLSYS_OK);
    return yes;
}

/* ---- random maps ------------------------------------------------------------------------------------------- */

static int64_t random_extent(test_random *r) {
    return test_int(r, 0, 2) ? test_int(r, 0, 4) : test_int(r, 0, 1) ? N : P;
}

static int64_t random_index(map *m, test_random *r) {
    int64_t e = test_int(r, 0, 5) ? 0 : test_int(r, 0, 2);
    for (int v = 0; v < m->n_vars; v++) {
        static const int64_t numbers[] = {0, 1, 1, 1, 2, 3, 4, 6};
        int64_t k = test_int(r, 0, 3) ? numbers[test_int(r, 0, 7)] : test_int(r, 0, 1) ? N : P;
        int64_t term = mlsi_nest_index(&m->n, '*', m->n.vars[v].code, k);
        e = mlsi_nest_index(&m->n, test_int(r, 0, 9) ? '+' : '-', e, term);
    }
    return e;
}

static void random_map(map *m, test_random *r) {
    begin(m);
    m->n_vars = (int)test_int(r, 1, 3);
    for (int v = 0; v < m->n_vars; v++)
        (void)mlsi_nest_var(&m->n, "v", random_extent(r));
    m->rank = (int)test_int(r, 1, 2);
    for (int d = 0; d < m->rank; d++) {
        m->index[d] = random_index(m, r);
        m->dims[d] =
            test_int(r, 0, 3) ? random_extent(r) : mlsi_nest_index(&m->n, '*', random_extent(r), P);
    }
    m->n_conditions = test_int(r, 0, 3) == 0;
    if (m->n_conditions) {
        m->conditions[0][0] = test_int(r, 0, 4) == 0;
        m->conditions[0][1] = test_int(r, 0, 1) ? m->index[0] : random_index(m, r);
        m->conditions[0][2] = test_int(r, 0, 1) ? m->dims[0] : random_extent(r);
    }
}

START_TEST(what_is_proved_is_onto) {
    test_random r = test_random_seed("what_is_proved_is_onto", 31);
    int yes = 0, is = 0;
    for (int trial = 0; trial < 200000; trial++) {
        map m;
        random_map(&m, &r);
        bool claims = proved(&m);
        if (claims && !is_onto(&m)) {
            char a[100], b[100];
            ck_abort_msg(
                "trial %d: rank %d, %d variables, %d conditions: %s in %s is proved, and is "
                "not onto",
                trial, m.rank, m.n_vars, m.n_conditions,
                mlsi_dim_text(&m.n.tab, m.index[0], a, sizeof a),
                mlsi_dim_text(&m.n.tab, m.dims[0], b, sizeof b));
        }
        yes += claims;
        if (trial % 20 == 0) is += is_onto(&m);
        mlsi_nest_free(&m.n);
    }
    ck_assert_msg(yes > 800, "%d proved", yes);
    ck_assert_msg(yes * 10 > 20 * is * 6, "%d proved of about %d", yes, 20 * is);
}
END_TEST

/* ---- maps that loops have ---------------------------------------------------------------------------------- */

typedef struct row {
    const char *extents[MOST_VARS], *index[2], *dims[2], *condition[3];
    bool onto;
} row;

static const row rows[] = {
    {{"N", "P"}, {"v_0", "v_1"}, {"N", "P"}, {NULL}, true},
    {{"N", "P"}, {"v_1", "v_0"}, {"P", "N"}, {NULL}, true},
    {{"N", "P"}, {"v_0*P+v_1"}, {"N*P"}, {NULL}, true},
    {{"N", "P"}, {"v_0+N*v_1"}, {"N*P"}, {NULL}, true},
    {{"P", "3", "2"}, {"v_0*6+v_1*2+v_2"}, {"6*P"}, {NULL}, true},
    {{"(N+3)/4", "4"}, {"4*v_0+v_1"}, {"N"}, {"0", "4*v_0+v_1", "N"}, true},
    {{"(N+3)/4", "4", "P"}, {"4*v_0+v_1", "v_2"}, {"N", "P"}, {"0", "4*v_0+v_1", "N"}, true},
    {{"(N+3)/4", "4", "P"}, {"(4*v_0+v_1)*P+v_2"}, {"N*P"}, {"0", "4*v_0+v_1", "N"}, true},
    {{"N*P"}, {"v_0/P", "v_0-P*(v_0/P)"}, {"N", "P"}, {NULL}, true},
    {{"N"}, {"N-1-v_0"}, {"N"}, {NULL}, true},
    {{"N", "P"}, {"N-1-v_0", "P-1-v_1"}, {"N", "P"}, {NULL}, true},
    {{"N", "1"}, {"v_0", "0"}, {"N", "1"}, {NULL}, true},
    {{"0", "N"}, {"v_1", "0"}, {"N", "0"}, {NULL}, true},
    {{"N", "P"}, {"v_0*P+v_1+1"}, {"N*P"}, {NULL}, false},
    {{"N", "P"}, {"v_0+v_1"}, {"N"}, {NULL}, false},
    {{"N", "2"}, {"v_0"}, {"N"}, {NULL}, false},
    {{"N"}, {"2*v_0"}, {"2*N"}, {NULL}, false},
    {{"N/2", "2"}, {"2*v_0+v_1"}, {"N"}, {"0", "2*v_0+v_1", "N"}, false},
    {{"(N+3)/4", "4"}, {"4*v_0+v_1"}, {"N"}, {"1", "4*v_0+v_1", "N"}, false},
    {{"N"}, {"v_0"}, {"N"}, {"0", "v_0", "P"}, false},
    {{"N", "4"}, {"3*v_0+v_1"}, {"3*N+1"}, {NULL}, false},
    {{"P", "P"}, {"v_0*3+v_1"}, {"P*3"}, {NULL}, false},
};

START_TEST(maps_that_loops_have) {
    const row *c = &rows[_i];
    map m;
    begin(&m);
    for (; m.n_vars < MOST_VARS && c->extents[m.n_vars]; m.n_vars++)
        (void)mlsi_nest_var(&m.n, "v", parse(&m.n, c->extents[m.n_vars]));
    for (; m.rank < 2 && c->index[m.rank]; m.rank++) {
        m.index[m.rank] = parse(&m.n, c->index[m.rank]);
        m.dims[m.rank] = parse(&m.n, c->dims[m.rank]);
    }
    m.n_conditions = c->condition[0] != NULL;
    for (int k = 0; k < 3 && m.n_conditions; k++)
        m.conditions[0][k] = parse(&m.n, c->condition[k]);
    ck_assert_msg(proved(&m) == c->onto, "%s: %s", c->index[0], c->onto ? "unproved" : "proved");
    ck_assert_msg(is_onto(&m) == c->onto, "%s: the row is wrong", c->index[0]);
    mlsi_nest_free(&m.n);
}
END_TEST

/* ---- loops at once ------------------------------------------------------------------------------------------- */

/* parallel v_0 { for v_1 { for v_2 { out0[a, b] = 0 or in LOCAL-free form reads out0[c, d] } } }: which elements does each
 * v_0 touch, and do two of them meet where one writes? */
typedef struct touched {
    int writer[64], reader[64]; /* 1 + v_0; -1: several */
} touched;

static void mark(int *who, int64_t v) { *who = *who == 0 || *who == v + 1 ? (int)v + 1 : -1; }

static bool conflicts(const mlsi_nest *n, const int64_t *store, const int64_t *load,
                      const int64_t extents[3]) {
    touched t;
    int64_t binding[16] = {0};
    memset(&t, 0, sizeof t);
    for (int64_t a = 0; a < extents[0]; a++)
        for (int64_t b = 0; b < extents[1]; b++)
            for (int64_t c = 0; c < extents[2]; c++) {
                const int64_t v[3] = {a, b, c};
                int64_t w[2], r[2];
                for (int k = 0; k < 3; k++)
                    if (n->vars[k].symbol >= 0) binding[n->vars[k].symbol] = v[k];
                for (int d = 0; d < 2; d++) {
                    REQUIRE(mlsi_dim_eval(&n->tab, store[d], binding, &w[d]) == MLSYS_OK);
                    REQUIRE(mlsi_dim_eval(&n->tab, load[d], binding, &r[d]) == MLSYS_OK);
                }
                mark(&t.writer[w[0] * 8 + w[1]], a);
                mark(&t.reader[r[0] * 8 + r[1]], a);
            }
    for (int i = 0; i < 64; i++) {
        if (t.writer[i] == -1) return true;
        if (t.writer[i] && t.reader[i] && t.reader[i] != t.writer[i]) return true;
    }
    return false;
}

static int64_t subscript(mlsi_nest *n, test_random *r) {
    for (;;) {
        int64_t e = test_int(r, 0, 2), lo, hi;
        for (int v = 0; v < 3; v++)
            e = mlsi_nest_index(n, test_int(r, 0, 5) ? '+' : '-', e,
                                mlsi_nest_index(n, '*', n->vars[v].code, test_int(r, 0, 3)));
        mlsi_dim_range(&n->tab, e, &lo, &hi);
        if (lo >= 0 && hi < 8) return e;
    }
}

START_TEST(what_is_proved_does_not_meet) {
    test_random r = test_random_seed("what_is_proved_does_not_meet", 32);
    int yes = 0, none = 0;
    for (int trial = 0; trial < 20000; trial++) {
        mlsi_nest n;
        int64_t extents[3], store[2], load[2];
        mlsi_type t = {.dtype = MLSYS_F32, .rank = 2, .dims = {8, 8}};
        mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "at_once");
        int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &t);
        for (int k = 0; k < 3; k++) {
            extents[k] = test_int(&r, 1, 3);
            (void)mlsi_nest_for(&n, k ? MLSI_LOOP_SERIAL : MLSI_LOOP_PARALLEL, "v", extents[k]);
        }
        for (int d = 0; d < 2; d++) {
            store[d] = subscript(&n, &r);
            load[d] = test_int(&r, 0, 1) ? store[d] : subscript(&n, &r);
        }
        mlsi_nest_store(&n, y, store, mlsi_nest_load(&n, y, load));
        for (int k = 0; k < 3; k++)
            mlsi_nest_end(&n);
        REQUIRE(mlsi_nest_finish(&n) == MLSYS_OK);
        bool claims = mlsi_nest_prove(&n, MLSI_PROVE_HAZARDS) == MLSYS_OK;
        bool meets = conflicts(&n, store, load, extents);
        if (claims && meets)
            ck_abort_msg("trial %d: iterations meet, and are proved not to", trial);
        yes += claims;
        none += !meets;
        mlsi_nest_free(&n);
    }
    ck_assert_msg(yes * 10 > none * 6 && yes < 20000, "%d of %d", yes, none);
}
END_TEST

int main(void) {
    Suite *s = suite_create("index maps of nests");
    TCase *tc = tcase_create("maps");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, what_is_proved_is_onto);
    tcase_add_loop_test(tc, maps_that_loops_have, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(tc, what_is_proved_does_not_meet);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
