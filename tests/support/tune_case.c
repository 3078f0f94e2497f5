#include "support/tune_case.h"

#include "run/tune_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char cache[64];

const char *tc_cache(void) {
    snprintf(cache, sizeof cache, "/tmp/mlsys-tune-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache));
    ck_assert_int_eq(setenv("MLSYS_CACHE", cache, 1), 0);
    return cache;
}

void tc_cache_remove(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    ck_assert_int_eq(system(command), 0);
}

void tc_open(tune_case *t, int threads) { tc_open_hooks(t, threads, NULL); }

void tc_open_hooks(tune_case *t, int threads, const mlsys_hooks *hooks) {
    pc_open_hooks(&t->pc, threads, hooks);
    t->graph = pc_parse(&t->pc, "symbol B 1 64 1\nfunctions 1\nfunc 0 \"main\" {\n"
                                "%0 = input \"x\" : f32[B,96]\n%1 = mul(%0, %0) : f32[B,96]\n"
                                "%2 = softmax(%1) {axis=1} : f32[B,96]\noutput \"y\" %2\n}\n");
    t->handle = pc_compile(&t->pc, t->graph, "fuse=always");
    OK(mlsi_pin(t->handle, MLSYS_KIND_PROGRAM, "program", &t->program));
}

void tc_close(tune_case *t) {
    mlsi_unpin(t->program);
    OK(mlsys_release(t->handle));
    OK(mlsys_release(t->graph));
    pc_close(&t->pc);
}

int32_t tc_func(const tune_case *t) {
    for (int32_t f = 0; f < t->program->graph.n_funcs; f++)
        if (t->program->generated && t->program->generated[f].fn) return f;
    ck_abort_msg("the program has no generated kernel");
}

mlsi_tune_key tc_key(const tune_case *t, int64_t b) {
    mlsi_tune_bench bench;
    mlsi_tune_key key;
    OK(mlsi_tune_bench_open(t->program, tc_func(t), &b, 0, &bench));
    OK(mlsi_tune_key_of(t->pc.ctx, t->program->isa_limit, &bench.nest, &key));
    OK(mlsi_tune_key_bind(&bench.nest, &b, &key));
    mlsi_tune_bench_close(&bench);
    return key;
}

mlsys_tune_report tc_tune(const tune_case *t, int64_t candidates, uint64_t seed) {
    static const char *const names[] = {"B"};
    mlsys_tune_report report = {.size = sizeof report};
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "budget_ms", 60000));
    OK(mlsys_config_set_i64(c, "candidates", candidates));
    OK(mlsys_config_set_i64(c, "seed", (int64_t)seed));
    OK(mlsys_program_tune(t->handle, 1, names, (int64_t[]){16}, c, NULL, NULL, &report));
    OK(mlsys_release(c));
    return report;
}

void tc_record(const tune_case *t, int64_t b, int64_t number, int64_t time, const char *schedule) {
    mlsi_tune_key key = tc_key(t, b);
    mlsi_tune_record r = {.number = number,
                          .verdict = MLSI_TUNE_TIMED,
                          .time = time,
                          .ns = 1,
                          .schedule = (char *)(uintptr_t)schedule};
    OK(mlsi_tune_append(t->pc.ctx, &key, &r));
}

mlsi_tune_records tc_read(const tune_case *t, int64_t b) {
    mlsi_tune_key key = tc_key(t, b);
    mlsi_tune_records r;
    OK(mlsi_tune_records_read(t->pc.ctx, &key, &r));
    return r;
}

char *tc_code(const tune_case *t, const char *settings) {
    mlsys_program p = pc_compile(&t->pc, t->graph, settings);
    uint64_t need;
    (void)mlsys_program_dump(p, MLSYS_DUMP_CODE, NULL, 0, &need);
    char *text = malloc(need);
    ck_assert_ptr_nonnull(text);
    OK(mlsys_program_dump(p, MLSYS_DUMP_CODE, text, need, NULL));
    OK(mlsys_release(p));
    return text;
}

char *tc_log(const tune_case *t) {
    enum { MOST = 1 << 20 };
    char *text = calloc(1, MOST);
    uint64_t need;
    ck_assert_ptr_nonnull(text);
    OK(mlsys_ctx_read_log(t->pc.ctx_handle, text, MOST, &need));
    return text;
}

void tc_path(const tune_case *t, int64_t b, char path[]) {
    mlsi_tune_key key = tc_key(t, b);
    char folder[MLSI_PATH_SIZE];
    ck_assert(mlsi_tune_folder(&key, folder));
    mlsi_tune_path(&key, folder, path);
}
