/* Nests behind schedules against their functions: what a tuner draws is followed, and a drawn nest with a fault is not. */
#include "ir/loop/prove.h"
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

static void print_program(const mlsi_schedule_space *s, const mlsi_point *p, const char *why) {
    mlsi_schedule program;
    mlsi_text t;
    mlsi_schedule_init(&program, &pc.ctx->alloc);
    mlsi_text_init(&t, &pc.ctx->alloc);
    OK(mlsi_schedule_space_program(s, p, &program));
    mlsi_schedule_print(&program, &t);
    for (char *c = t.data; c && *c; c++)
        if (*c == '\n') *c = ' ';
    printf("  %s\n    %s\n", why, t.data);
    mlsi_text_free(&t);
    mlsi_schedule_free(&program);
}

START_TEST(draws_are_proved) {
    static const mlsi_schedule_target cpu = {.local_bytes = 1 << 16};
    nest_group c;
    mlsi_schedule_space space;
    int certified = 0, proved = 0;
    ng_open(&pc, _i, false, &c);
    OK(mlsi_schedule_space_of(&c.n, &cpu, &space));
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        mlsi_point p;
        mlsi_nest made;
        mlsi_verdict v;
        bool legal;
        OK(mlsi_schedule_space_draw(&space, &c.n, 1, draw, &p));
        OK(mlsi_schedule_space_try(&space, &c.n, &p, &made, &legal));
        OK(mlsi_check_nest(&c.graph, 0, &made, &v));
        certified += v.answer == MLSI_PROVED;
        if (v.answer != MLSI_PROVED) print_program(&space, &p, v.why);
        for (int k = 0; k < 4; k++) {
            mlsys_status st = mlsi_nest_prove(&made, 1u << k);
            proved += st == MLSYS_OK;
            if (st != MLSYS_OK) print_program(&space, &p, mlsys_last_error());
        }
        mlsi_nest_free(&made);
    }
    printf("group %d: of %d draws %d certified, %d of %d parts proved\n", _i, DRAWS, certified,
           proved, 4 * DRAWS);
    ng_close(&c);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proof draws");
    TCase *tc = tcase_create("draws");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, draws_are_proved, 0, nest_group_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
