/* Fusion and generated code: what becomes one kernel, and that its bits are those of the steps. */
#include "support/failing_alloc.h"
#include "support/fuse_cases.h"
#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static kc_rng rng;

static void setup(void) {
    rng = kc_seed(20261130);
    pc_open(&pc, 2);
}
static void teardown(void) { pc_close(&pc); }

static int count_calls(mlsys_program program) {
    mlsi_program *p;
    int calls = 0;
    OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
    for (int64_t i = 0; i < p->graph.funcs[0].n_nodes; i++)
        if (mlsi_generated_of(p, &p->graph.funcs[0].nodes[i])) calls++;
    mlsi_unpin(p);
    return calls;
}

START_TEST(test_same_bits) {
    const fuse_case *c = &cases[_i];
    mlsys_graph g = pc_parse(&pc, c->text);
    mlsys_tensor in[5] = {NULL};
    static const char *const settings[] = {"fuse=always numerics=exact",
                                           "fuse=always isa=avx2 numerics=exact",
                                           "fuse=always isa=portable numerics=exact",
                                           "fuse=always jit=never numerics=exact",
                                           "fuse=always jit=never isa=avx2 numerics=exact",
                                           "fuse=always jit=never isa=portable numerics=exact"};
    for (int i = 0; i < c->n_in; i++)
        in[i] = pc_random(&pc, &rng, c->dtypes[i], c->ranks[i], c->shapes[i]);
    for (int s = 0; s < 6; s++) {
        mlsys_program program = pc_compile(&pc, g, settings[s]);
        ck_assert_msg(count_calls(program) == c->calls, "%s: %d generated kernels, expected %d",
                      c->name, count_calls(program), c->calls);
        mlsys_release(program);
        pc_compare(&pc, g, settings[s], c->n_in, in, c->n_out);
    }
    pc_release(c->n_in, in);
    mlsys_release(g);
}
END_TEST

/* Compiling with the first, second, ... allocation failing: an error each time, nothing leaked, and then it works; as
 * generated code, and as blocks. */
START_TEST(test_every_allocation_fails) {
    program_case failing;
    failing_alloc memory = {0};
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    pc_open_hooks(&failing, 1, &hooks);
    mlsys_graph g = pc_parse(&failing, cases[1].text);
    mlsys_config config;
    mlsys_program program = NULL;
    OK(mlsys_config_create(&config));
    OK(mlsys_config_set_str(config, "fuse", "always"));
    OK(mlsys_config_set_i64(config, "verify", 1));
    OK(mlsys_config_set_str(config, "jit", _i ? "never" : "always"));
    int64_t blocks = memory.blocks, failures = 0;
    for (int64_t n = 1; !program; n++) {
        memory.fail_at = memory.calls + n;
        mlsys_status st = mlsys_graph_compile(g, failing.device_handle, config, &program);
        memory.fail_at = 0;
        if (st == MLSYS_OK) break;
        ck_assert_msg(st == MLSYS_E_NOMEM, "allocation %lld: %s", (long long)n, mlsys_last_error());
        ck_assert_msg(memory.blocks == blocks, "allocation %lld leaks %lld blocks", (long long)n,
                      (long long)(memory.blocks - blocks));
        failures++;
    }
    ck_assert_int_gt(failures, 50);
    ck_assert_int_eq(count_calls(program), 1);
    mlsys_release(program);
    mlsys_release(config);
    mlsys_release(g);
    pc_close(&failing);
}
END_TEST

static bool in_blocks(mlsys_program program) {
    mlsi_program *p;
    bool blocks = false;
    OK(mlsi_pin(program, MLSYS_KIND_PROGRAM, "test", &p));
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        blocks |= p->generated && p->generated[f].run_blocks;
    mlsi_unpin(p);
    return blocks;
}

/* Without a compiler there is block code, with the same bits. */
START_TEST(test_without_a_compiler) {
    mlsys_graph g = pc_parse(&pc, cases[2].text);
    mlsys_tensor in[2];
    for (int i = 0; i < 2; i++)
        in[i] = pc_random(&pc, &rng, cases[2].dtypes[i], cases[2].ranks[i], cases[2].shapes[i]);
    ck_assert_int_eq(setenv("MLSYS_CC", "/nonexistent/cc", 1), 0);
    mlsys_program program = pc_compile(&pc, g, "fuse=always");
    ck_assert_int_eq(count_calls(program), 1);
    ck_assert(in_blocks(program));
    mlsys_release(program);
    pc_compare(&pc, g, "fuse=always", 2, in, 1);
    unsetenv("MLSYS_CC");
    pc_release(2, in);
    mlsys_release(g);
}
END_TEST

START_TEST(test_jit_of_another_name) {
    mlsys_graph g = pc_parse(&pc, cases[0].text);
    mlsys_config config;
    mlsys_program program;
    OK(mlsys_config_create(&config));
    OK(mlsys_config_set_str(config, "jit", "sometimes"));
    ck_assert_int_eq(mlsys_graph_compile(g, pc.device_handle, config, &program), MLSYS_E_ARG);
    ck_assert_str_eq(mlsys_last_error(), "compile: jit \"sometimes\" is not auto, always or never");
    mlsys_release(config);
    mlsys_release(g);
}
END_TEST

/* The cache on disk: a broken object is made again, a folder that others may write is not used. */
START_TEST(test_cache) {
    char folder[] = "/tmp/mlsys-test-XXXXXX", path[600], command[700];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("MLSYS_CACHE", folder, 1), 0);
    mlsys_graph g = pc_parse(&pc, cases[0].text);
    mlsys_program program = pc_compile(&pc, g, "fuse=always");
    ck_assert_int_eq(count_calls(program), 1);
    mlsys_release(program);
    snprintf(command, sizeof command, "cd %s/jit && ls *.so | head -1", folder);
    FILE *list = popen(command, "r");
    ck_assert(list && fgets(path, sizeof path, list));
    pclose(list);
    path[strcspn(path, "\n")] = 0;
    snprintf(command, sizeof command,
             "cd %s/jit && printf x | dd of=%s bs=1 seek=4000 conv=notrunc 2>/dev/null", folder,
             path);
    ck_assert_int_eq(system(command), 0);
    program = pc_compile(&pc, g, "fuse=always");
    ck_assert_int_eq(count_calls(program), 1);
    mlsys_release(program);
    program = pc_compile(&pc, g, "fuse=always jit=auto"); /* small, but it is there */
    ck_assert_int_eq(count_calls(program), 1);
    ck_assert(!in_blocks(program));
    mlsys_release(program);
    snprintf(command, sizeof command, "rm -rf %s/jit/* && chmod 777 %s/jit", folder, folder);
    ck_assert_int_eq(system(command), 0);
    program = pc_compile(&pc, g, "fuse=always jit=auto");
    ck_assert_int_eq(count_calls(program), 1);
    ck_assert(in_blocks(program));
    mlsys_release(program);
    program = pc_compile(&pc, g, "fuse=always");
    ck_assert_int_eq(count_calls(program), 1);
    ck_assert(!in_blocks(program));
    mlsys_release(program);
    snprintf(command, sizeof command, "test -z \"$(ls -A %s/jit)\" && rm -rf %s", folder, folder);
    ck_assert_int_eq(system(command), 0);
    unsetenv("MLSYS_CACHE");
    mlsys_release(g);
}
END_TEST

int main(void) {
    Suite *s = suite_create("fuse");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_same_bits, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_loop_test(tc, test_every_allocation_fails, 0, 2);
    tcase_add_test(tc, test_without_a_compiler);
    tcase_add_test(tc, test_cache);
    tcase_add_test(tc, test_jit_of_another_name);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
