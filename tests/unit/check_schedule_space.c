/* The space of schedules: points are functions of the seed, legal ones keep the bits, good ones are in it. */
#include "ir/loop/schedule_space.h"
#include "support/graph_case.h"
#include "support/nest_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mlsi_schedule_target cpu = {.local_bytes = 1 << 16}, gpu = {.gpu = true};

static char *program_of(const mlsi_schedule_space *s, const mlsi_point *p) {
    mlsi_schedule program;
    mlsi_text t;
    mlsi_schedule_init(&program, inside->alloc);
    mlsi_text_init(&t, inside->alloc);
    OK(mlsi_schedule_space_program(s, p, &program));
    mlsi_schedule_print(&program, &t);
    char *copy = strdup(t.data ? t.data : "");
    mlsi_text_free(&t);
    mlsi_schedule_free(&program);
    return copy;
}

static void same_bits(const mlsi_nest *before, const mlsi_nest *after, const char *program) {
    mlsi_nest back;
    nc_reverse(after, &back);
    for (int b = 2; b < 5; b++) {
        nest_run want = nc_run(before, nc_bindings[b], 1), got = nc_run(after, nc_bindings[b], 1);
        nest_run reversed = nc_run(&back, nc_bindings[b], 1);
        const char *d = nc_difference(&want, &got);
        if (!d) d = nc_difference(&want, &reversed);
        if (d) ck_abort_msg("%s: %s\n%s", before->name, d, program);
        nc_run_free(&want);
        nc_run_free(&got);
        nc_run_free(&reversed);
    }
    mlsi_nest_free(&back);
}

static void check_point(const mlsi_schedule_space *s, const mlsi_nest *n, const mlsi_point *p) {
    mlsi_nest made;
    bool legal;
    char *program = program_of(s, p);
    OK(mlsi_schedule_space_try(s, n, p, &made, &legal));
    REQUIRE(legal);
    same_bits(n, &made, program);
    mlsi_nest_free(&made);
    free(program);
}

static const char *const samples[] = {"elementwise", "transposed", "matmul",  "softmax",
                                      "sum_i32",     "window",     "scatter", "stencil"};
enum { N_SAMPLES = (int)(sizeof samples / sizeof samples[0]) };

static int programs_of(const mlsi_schedule_space *s, const mlsi_nest *n, uint64_t seed, int count) {
    enum { MOST = 64 };
    char *seen[MOST];
    int different = 0;
    for (int i = 0; i < count && i < MOST; i++) {
        mlsi_point p, again;
        OK(mlsi_schedule_space_draw(s, n, seed, (uint64_t)i, &p));
        OK(mlsi_schedule_space_draw(s, n, seed, (uint64_t)i, &again));
        REQUIRE(!memcmp(&p, &again, sizeof p));
        check_point(s, n, &p);
        seen[i] = program_of(s, &p);
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new &= strcmp(seen[k], seen[i]) != 0;
        different += is_new;
    }
    for (int i = 0; i < count && i < MOST; i++)
        free(seen[i]);
    return different;
}

START_TEST(draws_are_legal_and_differ) {
    mlsi_nest n;
    mlsi_schedule_space s;
    nc_build(&n, inside->alloc, samples[_i]);
    for (int target = 0; target < 2; target++) {
        OK(mlsi_schedule_space_of(&n, target ? &gpu : &cpu, &s));
        int different = programs_of(&s, &n, 7, 40);
        printf("%s, %s: %lld points, %d of 40 draws differ\n", samples[_i], target ? "gpu" : "cpu",
               (long long)mlsi_schedule_space_size(&s), different);
        ck_assert_int_ge(different, 10);
    }
    mlsi_nest_free(&n);
}
END_TEST

static bool adds(const mlsi_nest *n, int32_t first) {
    bool any = false;
    for (int32_t s = first; s >= 0; s = n->stmts[s].next)
        any = any || n->stmts[s].kind == MLSI_LS_ADD || adds(n, n->stmts[s].body);
    return any;
}

/* Inner loops are marked as a reduction's where one of their statements adds a term. */
START_TEST(reductions_are_marked) {
    mlsi_nest n;
    mlsi_schedule_space s;
    int marked = 0, plain = 0;
    for (int k = 0; k < N_SAMPLES; k++) {
        nc_build(&n, inside->alloc, samples[k]);
        OK(mlsi_schedule_space_of(&n, &cpu, &s));
        for (int i = 0; i < s.n_inner; i++)
            for (int32_t f = 0; f < n.n_stmts; f++) {
                const mlsi_ls *loop = &n.stmts[f];
                if (loop->kind != MLSI_LS_FOR || strcmp(n.vars[loop->var].name, s.inner[i]))
                    continue;
                REQUIRE(s.reduces[i] == adds(&n, loop->body));
                *(s.reduces[i] ? &marked : &plain) += 1;
            }
        mlsi_nest_free(&n);
    }
    REQUIRE(marked > 0 && plain > 0);
}
END_TEST

/* Every child is legal, is not its parent, and mostly like it. */
START_TEST(mutations_are_small_and_legal) {
    mlsi_nest n;
    mlsi_schedule_space s;
    mlsi_point parent, second;
    nc_build(&n, inside->alloc, samples[_i]);
    OK(mlsi_schedule_space_of(&n, &cpu, &s));
    OK(mlsi_schedule_space_draw(&s, &n, 3, 0, &parent));
    OK(mlsi_schedule_space_draw(&s, &n, 3, 1, &second));
    for (uint64_t i = 0; i < 40; i++) {
        mlsi_point child, again;
        int changes = 0;
        OK(mlsi_schedule_space_mutate(&s, &n, &parent, NULL, 5, i, &child));
        OK(mlsi_schedule_space_mutate(&s, &n, &parent, NULL, 5, i, &again));
        REQUIRE(!memcmp(&child, &again, sizeof child));
        for (int c = 0; c < s.n_choices; c++)
            changes += child.option[c] != parent.option[c];
        REQUIRE(changes >= 1 && changes <= 2);
        check_point(&s, &n, &child);
        OK(mlsi_schedule_space_mutate(&s, &n, &parent, &second, 5, i, &child));
        check_point(&s, &n, &child);
        parent = child;
    }
    mlsi_nest_free(&n);
}
END_TEST

/* Points are all different, the first changes nothing; every legal one of a small space keeps the bits. */
START_TEST(points_are_counted) {
    mlsi_nest n;
    mlsi_schedule_space s;
    nc_build(&n, inside->alloc, "running");
    OK(mlsi_schedule_space_of(&n, &cpu, &s));
    int64_t size = mlsi_schedule_space_size(&s);
    int legal_ones = 0;
    REQUIRE(size > 4 && size < 1000);
    for (int64_t i = 0; i < size; i++) {
        mlsi_point p = mlsi_schedule_space_point(&s, i);
        mlsi_nest made;
        bool legal;
        for (int64_t k = 0; k < i; k++) {
            mlsi_point q = mlsi_schedule_space_point(&s, k);
            REQUIRE(memcmp(&p, &q, sizeof p));
        }
        OK(mlsi_schedule_space_try(&s, &n, &p, &made, &legal));
        if (i == 0) REQUIRE(legal);
        if (!legal) continue;
        legal_ones++;
        same_bits(&n, &made, "running");
        mlsi_nest_free(&made);
    }
    printf("running: %d of %lld points are legal\n", legal_ones, (long long)size);
    mlsi_nest_free(&n);
}
END_TEST

/* What one would write by hand is a point. */
START_TEST(known_schedules_are_points) {
    static const char *const hands[][2] = {
        {"matmul", "split(i_0, 4) -> i_0_o, i_0_i;\nsplit(j_1, 8) -> j_1_o, j_1_i;\n"
                   "reorder(i_0_o, j_1_o, i_0_i, j_1_i);\nvectorize(j_1_i);\nunroll(i_0_i);\n"
                   "fuse(i_0_o, j_1_o) -> tasks;\nparallel(tasks);\n"},
        {"softmax", "vectorize(j_1);\nvectorize(j_2);\nvectorize(j_3);\nparallel(i_0);\n"}};
    for (int h = 0; h < 2; h++) {
        mlsi_nest n;
        mlsi_schedule_space s;
        bool found = false;
        nc_build(&n, inside->alloc, hands[h][0]);
        OK(mlsi_schedule_space_of(&n, &(mlsi_schedule_target){0}, &s));
        int64_t size = mlsi_schedule_space_size(&s);
        for (int64_t i = 0; i < size && !found; i++) {
            mlsi_point p = mlsi_schedule_space_point(&s, i);
            char *program = program_of(&s, &p);
            found = !strcmp(program, hands[h][1]);
            free(program);
        }
        ck_assert_msg(found, "not among %lld points:\n%s", (long long)size, hands[h][1]);
        mlsi_nest_free(&n);
    }
}
END_TEST

START_TEST(nothing_to_schedule_is_an_error) {
    mlsi_nest n;
    mlsi_schedule_space s;
    mlsi_type scalar = {.dtype = MLSYS_F32};
    mlsi_nest_init(&n, inside->alloc, NULL, "scalar");
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &scalar);
    mlsi_nest_store(&n, y, NULL, mlsi_nest_float(&n, MLSYS_F32, 1));
    OK(mlsi_nest_finish(&n));
    expect(mlsi_schedule_space_of(&n, &cpu, &s), MLSYS_E_UNSUPPORTED, "no loops to schedule");
    mlsi_nest_free(&n);
}
END_TEST

int main(void) {
    Suite *s = suite_create("schedule_space");
    TCase *c = tcase_create("space");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, draws_are_legal_and_differ, 0, N_SAMPLES);
    tcase_add_loop_test(c, mutations_are_small_and_legal, 0, N_SAMPLES);
    tcase_add_test(c, reductions_are_marked);
    tcase_add_test(c, points_are_counted);
    tcase_add_test(c, known_schedules_are_points);
    tcase_add_test(c, nothing_to_schedule_is_an_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
