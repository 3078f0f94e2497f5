/* CUDA C to loaded code, with the fake's compiler and driver: parts, the cache on disk, targets, failures. */
#include "core/cache_folder.h"
#include "cuda/jit.h"
#include "cuda/nvrtc.h"
#include "support/fake_cuda.h"
#include "support/failing_alloc.h"
#include "support/require.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const mlsi_accelerator *acc = &mlsi_cuda_accelerator;
static fake_cuda *fake;
static failing_alloc host;
static mlsi_alloc host_alloc;
static mlsi_accel *device;
static char cache[64];

static void setup(void) {
    mlsys_hooks hooks;
    strcpy(cache, "/tmp/mlsys-cuda-jit-XXXXXX");
    REQUIRE(mkdtemp(cache));
    setenv("MLSYS_CACHE", cache, 1);
    fake = fake_cuda_use(true);
    host = (failing_alloc){0};
    hooks = failing_alloc_hooks(&host);
    mlsi_alloc_init(&host_alloc, &hooks);
    device = fake_cuda_open(&host_alloc, 0);
}

/* Calls see, if not NULL, with each file of the cache; the number of them. */
static int each_file(void (*see)(const char *path)) {
    char path[400], folder[100];
    int n = 0;
    snprintf(folder, sizeof folder, "%s/jit", cache);
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (see) see(path);
        n++;
    }
    closedir(dir);
    return n;
}

static void erase(const char *path) { REQUIRE(unlink(path) == 0); }

static void teardown(void) {
    char folder[100];
    acc->close(device);
    fake_cuda_check_clean(fake);
    ck_assert_int_eq(host.blocks, 0);
    (void)each_file(erase);
    snprintf(folder, sizeof folder, "%s/jit", cache);
    (void)rmdir(folder);
    REQUIRE(rmdir(cache) == 0);
}

/* n kernels k0, k1, ...; the one that is changed has another body. */
static char *text_of(int n, int changed, const char *head) {
    char *text = malloc((size_t)n * 100 + 200);
    int at = sprintf(text, "%s", head);
    for (int i = 0; i < n; i++)
        at += sprintf(text + at, "extern \"C\" __global__ void k%d(int *p) {\n    *p = %d;\n}\n", i,
                      i == changed ? -1 : i);
    return text;
}

/* All n kernels are there, in parts; so many of them were compiled now. */
static void expect_load(int n, int changed, int compiles) {
    char *text = text_of(n, changed, "static __device__ int before;\n"), name[32];
    mlsi_accel_module *m;
    int64_t before = fake->compiles;
    fake_cuda_ok(acc->load(device, &host_alloc, text, &m));
    ck_assert_int_eq(fake->compiles - before, compiles);
    ck_assert_int_eq(fake->modules, n ? (n + 15) / 16 : 1);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "k%d", i);
        REQUIRE(acc->kernel(m, name));
    }
    snprintf(name, sizeof name, "k%d", n);
    ck_assert_ptr_null(acc->kernel(m, name));
    acc->unload(&host_alloc, m);
    free(text);
}

START_TEST(parts_hold_all_kernels) {
    static const int counts[] = {0, 1, 15, 16, 17, 32, 33, 300};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        (void)each_file(erase);
        expect_load(counts[i], -1, counts[i] ? (counts[i] + 15) / 16 : 1);
    }
}
END_TEST

START_TEST(compiled_parts_are_kept) {
    expect_load(40, -1, 3);
    ck_assert_int_eq(each_file(NULL), 3);
    expect_load(40, -1, 0);
    expect_load(40, 17, 1); /* the part that differs */
    ck_assert_int_eq(each_file(NULL), 4);
    expect_load(45, -1, 1);
}
END_TEST

static void flip(const char *path) {
    FILE *f = fopen(path, "r+");
    REQUIRE(f && fseek(f, 10, SEEK_SET) == 0);
    int c = fgetc(f);
    REQUIRE(fseek(f, 10, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF && fclose(f) == 0);
}
static void shorten(const char *path) { REQUIRE(truncate(path, 20) == 0); }
static void empty(const char *path) { REQUIRE(truncate(path, 0) == 0); }
static void open_to_all(const char *path) { REQUIRE(chmod(path, 0666) == 0); }

START_TEST(damaged_files_are_made_again) {
    void (*const damages[])(const char *) = {flip, shorten, empty, open_to_all, erase};
    expect_load(20, -1, 2);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        ck_assert_int_eq(each_file(damages[i]), 2);
        expect_load(20, -1, 2);
        expect_load(20, -1, 0);
    }
}
END_TEST

START_TEST(without_a_cache_it_works_each_time) {
    setenv("MLSYS_CACHE", "/proc/nowhere", 1);
    expect_load(20, -1, 2);
    expect_load(20, -1, 2);
    ck_assert_int_eq(each_file(NULL), 0);
}
END_TEST

static void expect_fails(const char *text, mlsys_status code, const char *part) {
    mlsi_accel_module *m = (mlsi_accel_module *)cache;
    ck_assert_int_eq(acc->load(device, &host_alloc, text, &m), code);
    ck_assert_ptr_null(m);
    if (!strstr(mlsys_last_error(), part)) ck_abort_msg("%s", mlsys_last_error());
}

START_TEST(a_refused_text_has_its_first_error) {
    char *text = text_of(40, -1, "");
    void *code = text;
    uint64_t bytes = 1;
    mlsi_text log;
    strcat(text, "#error no such thing\n");
    expect_fails(text, MLSYS_E_IO, "CUDA C: gen.cu(7): error: #error no such thing");
    ck_assert_int_eq(each_file(NULL), 2); /* the others are kept */
    mlsi_text_init(&log, &host_alloc);
    ck_assert_int_eq(mlsi_cuda_compile(&host_alloc, text, 90, &code, &bytes, &log), MLSYS_E_IO);
    ck_assert_ptr_null(code);
    ck_assert_str_eq(log.data, "a warning first\ngen.cu(7): error: #error no such thing\n\nmore\n");
    mlsi_text_free(&log);
    free(text);
}
END_TEST

START_TEST(any_failed_allocation_is_a_status) {
    char *text = text_of(20, -1, "");
    mlsi_accel_module *m;
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        int64_t blocks = host.blocks;
        REQUIRE(n < 1000);
        (void)each_file(erase);
        host.fail_at = host.calls + n;
        mlsys_status st = acc->load(device, &host_alloc, text, &m);
        done = host.calls < host.fail_at;
        host.fail_at = 0;
        if (st == MLSYS_OK)
            acc->unload(&host_alloc, m);
        else
            ck_assert_int_eq(st, MLSYS_E_NOMEM);
        ck_assert_int_eq(host.blocks, blocks);
        ck_assert_int_eq(fake->modules, 0);
    }
    free(text);
}
END_TEST

START_TEST(a_new_device_gets_ptx) {
    void *code;
    uint64_t bytes;
    char target[MLSI_NVRTC_TARGET];
    static const mlsi_nvrtc newer = {.n_known = 5, .known = {75, 80, 86, 90, 120}};
    static const struct {
        int arch;
        const char *target;
        bool ptx;
    } rows[] = {{75, "sm_75", false},      {80, "sm_80", false},       {86, "sm_86", false},
                {87, "sm_86", false},      {89, "sm_86", false},       {90, "sm_90a", false},
                {100, "compute_90", true}, {121, "sm_120", false},     {130, "compute_120", true},
                {79, "sm_75", false},      {990, "compute_120", true}, {70, NULL, false},
                {52, NULL, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool ptx;
        mlsys_status st = mlsi_nvrtc_target(&newer, rows[i].arch, target, &ptx);
        ck_assert_int_eq(st, rows[i].target ? MLSYS_OK : MLSYS_E_UNSUPPORTED);
        if (st != MLSYS_OK) continue;
        ck_assert_str_eq(strchr(target, '=') + 1, rows[i].target);
        ck_assert_int_eq(ptx, rows[i].ptx);
    }
    fake_cuda_ok(mlsi_cuda_compile(&host_alloc, "text", 130, &code, &bytes, NULL));
    ck_assert_uint_eq(bytes, strlen(mlsi_gen_device_text) + strlen("FAKE\ntext") + 1);
    mlsi_mem_free(&host_alloc, code);
    ck_assert_int_eq(mlsi_cuda_compile(&host_alloc, "text", 52, &code, &bytes, NULL),
                     MLSYS_E_UNSUPPORTED);
    ck_assert_str_eq(mlsys_last_error(), "CUDA C: NVRTC 13.0 does not know sm_52");
}
END_TEST

/* In a process of its own, where no compiler was found before. */
START_TEST(without_a_compiler_it_is_unsupported) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        const mlsi_nvrtc *n;
        setenv("MLSYS_NVRTC", "/nowhere/libnvrtc.so", 1);
        bool ok = mlsi_nvrtc_get(&n) == MLSYS_E_UNSUPPORTED && !n &&
                  strstr(mlsys_last_error(), "CUDA C: no NVRTC: /nowhere/libnvrtc.so: cannot open");
        setenv("MLSYS_NVRTC", "libm.so.6", 1);
        ok &= mlsi_nvrtc_get(&n) == MLSYS_E_UNSUPPORTED && !n &&
              strstr(mlsys_last_error(), "libm.so.6 has no nvrtcVersion");
        _exit(ok ? 0 : 1);
    }
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_jit");
    TCase *t = tcase_create("cuda_jit");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, without_a_compiler_it_is_unsupported);
    tcase_add_test(t, parts_hold_all_kernels);
    tcase_add_test(t, compiled_parts_are_kept);
    tcase_add_test(t, damaged_files_are_made_again);
    tcase_add_test(t, without_a_cache_it_works_each_time);
    tcase_add_test(t, a_refused_text_has_its_first_error);
    tcase_add_test(t, any_failed_allocation_is_a_status);
    tcase_add_test(t, a_new_device_gets_ptx);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
