/* Model files through the public API: opening, metadata, tensors, lifetimes, failures. */
#include <mlsys/mlsys.h>

#include "support/gguf_writer.h"
#include "support/skip.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/mlsys-model-XXXXXX";
static char path[256];
static const float weights[6] = {1, -2, 3, 0.5f, 0, -8};

static void write_small(void) {
    gguf_writer w;
    const uint64_t ne[2] = {3, 2}, empty[2] = {32, 0};
    gguf_writer_init(&w);
    gguf_put_str(&w, "general.architecture", "test");
    gguf_put_str(&w, "two.lines", "a\nb");
    gguf_put_f32(&w, "eps", 1e-5f);
    gguf_put_array(&w, "numbers", 5, 3, (const int32_t[]){1, -2, 3});
    gguf_put_tensor(&w, "w", 0, 2, ne, weights);
    gguf_put_tensor(&w, "none", 3, 2, empty, NULL);
    ck_assert_int_eq(gguf_writer_save(&w, path), 0);
    gguf_writer_free(&w);
}

static void setup(void) {
    strcpy(folder,
           "/tmp/mlsys-model-XXXXXX"); /* without forks the last test's name is still there */
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.gguf", folder);
    write_small();
}

static void teardown(void) {
    unlink(path);
    rmdir(folder);
}

static void ok(mlsys_status st) { ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error()); }

static mlsys_ctx new_ctx(void) {
    mlsys_ctx ctx;
    mlsys_config config;
    ok(mlsys_config_create(&config));
    ok(mlsys_config_set_i64(config, "threads", 1));
    ok(mlsys_ctx_create(config, NULL, &ctx));
    mlsys_release(config);
    return ctx;
}

static uint64_t live_handles(mlsys_ctx ctx) {
    mlsys_stats s = {.size = sizeof s};
    ok(mlsys_ctx_stats(ctx, &s));
    return s.live_handles;
}

static mlsys_model open_model(mlsys_ctx ctx, int64_t map) {
    mlsys_config config;
    mlsys_model m;
    ok(mlsys_config_create(&config));
    ok(mlsys_config_set_i64(config, "mmap", map));
    ok(mlsys_model_open(ctx, path, config, &m));
    mlsys_release(config);
    return m;
}

START_TEST(metadata_and_description) {
    mlsys_ctx ctx = new_ctx();
    mlsys_model m = open_model(ctx, 1);
    char buf[1024];
    uint64_t need;
    ok(mlsys_model_meta(m, "general.architecture", buf, sizeof buf, &need));
    ck_assert_str_eq(buf, "test");
    ck_assert_uint_eq(need, 5);
    ok(mlsys_model_meta(m, "eps", buf, sizeof buf, NULL));
    ck_assert_str_eq(buf, "1e-05");
    ok(mlsys_model_meta(m, "numbers", buf, sizeof buf, NULL));
    ck_assert_str_eq(buf, "[1, -2, 3]");
    ok(mlsys_model_meta(m, "two.lines", buf, sizeof buf, NULL));
    ck_assert_str_eq(buf, "a\nb");
    ck_assert_int_eq(mlsys_model_meta(m, "numbers", buf, 4, &need), MLSYS_E_BUFFER);
    ck_assert_str_eq(buf, "[1,");
    ck_assert_uint_eq(need, 11);
    ok(mlsys_model_meta(m, "numbers", NULL, 0, &need));
    ck_assert_uint_eq(need, 11);
    ck_assert_int_eq(mlsys_model_meta(m, "absent", buf, sizeof buf, &need), MLSYS_E_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "t.gguf: no metadata key \"absent\""));
    ok(mlsys_model_describe(m, buf, sizeof buf, &need));
    ck_assert_str_eq(buf,
                     "format: GGUF v3\nbytes: 288\nmetadata: 4\ntensors: 2\n"
                     "general.architecture: \"test\"\ntwo.lines: \"a\\nb\"\neps: 1e-05\n"
                     "numbers: [1, -2, 3]\nw: f32[2,3], 24 bytes\nnone: q4_1[0,32], 0 bytes\n");
    mlsys_release(m);
    ck_assert_uint_eq(live_handles(ctx), 0);
    mlsys_release(ctx);
}
END_TEST

START_TEST(tensors_outlive_the_model) {
    for (int64_t map = 0; map <= 1; map++) {
        mlsys_ctx ctx = new_ctx();
        mlsys_model m = open_model(ctx, map);
        mlsys_tensor w, none, stale;
        int64_t shape[2];
        int32_t rank;
        mlsys_dtype dtype;
        void *data;
        uint64_t bytes;
        ok(mlsys_model_tensor(m, "w", &w));
        ok(mlsys_model_tensor(m, "none", &none));
        mlsys_release(m);
        ck_assert_int_eq(mlsys_model_tensor(m, "w", &stale), MLSYS_E_HANDLE);
        ck_assert_ptr_null(stale);
        ok(mlsys_tensor_shape(w, 2, shape, &rank));
        ok(mlsys_tensor_dtype(w, &dtype));
        ck_assert(rank == 2 && shape[0] == 2 && shape[1] == 3 && dtype == MLSYS_F32);
        ok(mlsys_tensor_data(w, &data, &bytes));
        ck_assert(bytes == sizeof weights && !memcmp(data, weights, sizeof weights));
        ok(mlsys_tensor_shape(none, 2, shape, &rank));
        ck_assert(rank == 2 && shape[0] == 0 && shape[1] == 32);
        mlsys_release(w);
        mlsys_release(none);
        ck_assert_uint_eq(live_handles(ctx), 0);
        mlsys_release(ctx);
    }
}
END_TEST

START_TEST(tensors_are_read_only) {
    mlsys_ctx ctx = new_ctx();
    mlsys_model m = open_model(ctx, 1);
    mlsys_device cpu;
    mlsys_stream stream;
    mlsys_tensor w, view, absent;
    const int64_t shape[1] = {6};
    ok(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    ok(mlsys_stream_create(cpu, NULL, &stream));
    ok(mlsys_model_tensor(m, "w", &w));
    ck_assert_int_eq(mlsys_tensor_write(w, stream, weights, sizeof weights), MLSYS_E_ARG);
    ok(mlsys_tensor_reshape(w, 1, shape, &view, NULL));
    ck_assert_int_eq(mlsys_tensor_write(view, stream, weights, sizeof weights), MLSYS_E_ARG);
    float back[6];
    ok(mlsys_tensor_read(view, stream, back, sizeof back));
    ck_assert(!memcmp(back, weights, sizeof back));
    ck_assert_int_eq(mlsys_model_tensor(m, "absent", &absent), MLSYS_E_NOTFOUND);
    ck_assert_ptr_null(absent);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "no tensor \"absent\" among 2"));
    mlsys_release(w);
    mlsys_release(view);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(m);
    ck_assert_uint_eq(live_handles(ctx), 0);
    mlsys_release(ctx);
}
END_TEST

static void expect_open(mlsys_ctx ctx, const char *file, mlsys_config config, mlsys_status want,
                        const char *text) {
    mlsys_model m = (mlsys_model)(uintptr_t)1;
    mlsys_status st = mlsys_model_open(ctx, file, config, &m);
    ck_assert_msg(st == want && strstr(mlsys_last_error(), text), "status %d: %s", st,
                  mlsys_last_error());
    ck_assert_ptr_null(m);
}

START_TEST(files_that_cannot_be_opened) {
    mlsys_ctx ctx = new_ctx();
    char name[300];
    mlsys_config config;
    ok(mlsys_config_create(&config));
    snprintf(name, sizeof name, "%s/absent.gguf", folder);
    for (int64_t map = 0; map <= 1; map++) {
        ok(mlsys_config_set_i64(config, "mmap", map));
        expect_open(ctx, name, config, MLSYS_E_NOTFOUND, "absent.gguf: cannot open the file: ");
        expect_open(ctx, folder, config, MLSYS_E_IO, ": not a regular file");
        expect_open(ctx, "/dev/null", config, MLSYS_E_IO, "/dev/null: not a regular file");
        ok(truncate(path, 0) == 0 ? MLSYS_OK : MLSYS_E_IO);
        expect_open(ctx, path, config, MLSYS_E_FORMAT,
                    "t.gguf: header needs 24 bytes at offset 0, the file has 0 (truncated)");
        write_small();
        ok(truncate(path, 270) == 0 ? MLSYS_OK : MLSYS_E_IO);
        expect_open(
            ctx, path, config, MLSYS_E_FORMAT,
            "t.gguf: tensor \"w\": needs 24 bytes at offset 0 of the data, the file has 14");
        write_small();
    }
    ok(mlsys_config_set_i64(config, "mmap", 2));
    expect_open(ctx, path, config, MLSYS_E_ARG, "model_open");
    ok(mlsys_config_set_i64(config, "mmap", 1));
    ok(mlsys_config_set_i64(config, "typo", 1));
    expect_open(ctx, path, config, MLSYS_E_NOTFOUND, "typo");
    expect_open(ctx, NULL, NULL, MLSYS_E_ARG, "model_open: path is NULL");
    expect_open(NULL, path, NULL, MLSYS_E_HANDLE, "model_open: ctx");
    ck_assert_int_eq(mlsys_model_open(ctx, path, NULL, NULL), MLSYS_E_ARG);
    mlsys_release(config);
    ck_assert_uint_eq(live_handles(ctx), 0);
    mlsys_release(ctx);
}
END_TEST

/* A file that was read does not depend on the file any more. */
START_TEST(file_that_goes_away_after_reading) {
    mlsys_ctx ctx = new_ctx();
    mlsys_model m = open_model(ctx, 0);
    mlsys_tensor w;
    void *data;
    uint64_t bytes;
    ok(truncate(path, 0) == 0 ? MLSYS_OK : MLSYS_E_IO);
    ok(mlsys_model_tensor(m, "w", &w));
    ok(mlsys_tensor_data(w, &data, &bytes));
    ck_assert(!memcmp(data, weights, sizeof weights));
    mlsys_release(w);
    mlsys_release(m);
    mlsys_release(ctx);
}
END_TEST

START_TEST(config_keys_are_listed) {
    char buf[1024];
    uint64_t need;
    ok(mlsys_config_keys("model_open", buf, sizeof buf, &need));
    ck_assert_ptr_nonnull(strstr(buf, "mmap"));
}
END_TEST

/* ---- allocation failure --------------------------------------------------------------------- */

typedef struct failing {
    int64_t left; /* successful calls until the failure; < 0: never */
    bool for_ever;
} failing;

static void *failing_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                           uint64_t align) {
    failing *f = user;
    void *p = NULL;
    (void)type, (void)index;
    if (f->left == 0) {
        if (!f->for_ever) f->left = -1;
        return NULL;
    }
    if (f->left > 0) f->left--;
    return posix_memalign(&p, align, bytes) ? NULL : p;
}

static void failing_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                            uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    free(p);
}

/* Open, take a tensor, describe; all or nothing. */
static mlsys_status use_model(mlsys_ctx ctx, mlsys_config config) {
    mlsys_model m;
    mlsys_tensor w = NULL;
    char buf[1024];
    uint64_t need;
    mlsys_status st = mlsys_model_open(ctx, path, config, &m);
    if (st != MLSYS_OK) return st;
    st = mlsys_model_tensor(m, "w", &w);
    if (st == MLSYS_OK) st = mlsys_model_describe(m, buf, sizeof buf, &need);
    if (st == MLSYS_OK) st = mlsys_model_meta(m, "numbers", buf, sizeof buf, &need);
    mlsys_release(w);
    mlsys_release(m);
    return st;
}

START_TEST(allocation_failures) {
    failing f = {.left = -1};
    mlsys_hooks h;
    mlsys_ctx ctx;
    mlsys_config config;
    ok(mlsys_hooks_init(&h, sizeof h));
    h.user = &f;
    h.alloc = failing_alloc;
    h.dealloc = failing_dealloc;
    ok(mlsys_config_create(&config));
    ok(mlsys_config_set_i64(config, "threads", 1));
    ok(mlsys_ctx_create(config, &h, &ctx));
    mlsys_release(config);
    ok(mlsys_config_create(&config));
    for (int mode = 0; mode < 4; mode++) {
        ok(mlsys_config_set_i64(config, "mmap", mode / 2));
        mlsys_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        ok(mlsys_ctx_stats(ctx, &before));
        int64_t n = 0;
        for (mlsys_status st = MLSYS_E_NOMEM; st != MLSYS_OK; n++) {
            f.left = n;
            f.for_ever = mode % 2;
            st = use_model(ctx, config);
            f.left = -1;
            ck_assert_msg(st == MLSYS_OK || st == MLSYS_E_NOMEM, "%s", mlsys_last_error());
            ok(mlsys_ctx_stats(ctx, &after));
            ck_assert_uint_eq(after.live_bytes, before.live_bytes);
            ck_assert_uint_eq(after.live_handles, before.live_handles);
            ck_assert_int_lt(n, 1000);
        }
        ck_assert_int_gt(n, 6);
        ok(use_model(ctx, config));
    }
    mlsys_release(config);
    mlsys_release(ctx);
}
END_TEST

/* Files that people use, when they are there. */
static void check_real(const char *variable, const char *arch, const char *tensor) {
    const char *file = getenv(variable);
    if (!file) TEST_SKIP("model file of %s: it is not set", variable);
    mlsys_ctx ctx = new_ctx();
    mlsys_model m;
    mlsys_tensor t;
    char buf[64];
    ok(mlsys_model_open(ctx, file, NULL, &m));
    ok(mlsys_model_meta(m, "general.architecture", buf, sizeof buf, NULL));
    ck_assert_str_eq(buf, arch);
    ok(mlsys_model_tensor(m, tensor, &t));
    mlsys_stats s = {.size = sizeof s};
    struct stat st;
    ok(mlsys_ctx_stats(ctx, &s));
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_uint_lt(s.peak_bytes, (uint64_t)st.st_size / 10); /* weights are mapped, not copied */
    mlsys_release(t);
    mlsys_release(m);
    mlsys_release(ctx);
}

START_TEST(real_smollm2) { check_real("MLSYS_MODEL_SMOLLM2", "llama", "blk.29.ffn_down.weight"); }
END_TEST
START_TEST(real_gemma3) { check_real("MLSYS_MODEL_GEMMA3", "gemma3", "blk.17.ffn_down.weight"); }
END_TEST

int main(void) {
    Suite *s = suite_create("model");
    TCase *t = tcase_create("files");
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, metadata_and_description);
    tcase_add_test(t, tensors_outlive_the_model);
    tcase_add_test(t, tensors_are_read_only);
    tcase_add_test(t, files_that_cannot_be_opened);
    tcase_add_test(t, file_that_goes_away_after_reading);
    tcase_add_test(t, config_keys_are_listed);
    tcase_add_test(t, allocation_failures);
    tcase_add_test(t, real_smollm2);
    tcase_add_test(t, real_gemma3);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
