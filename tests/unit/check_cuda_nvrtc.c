/* NVIDIA's own compiler, where there is one: it takes our options, targets and texts. No device is needed. */
#include "cuda/jit.h"
#include "cuda/nvrtc.h"
#include "support/require.h"
#include "support/skip.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

static const char text[] =
    "static __device__ float twice(float x) { return x + x; }\n"
    "extern \"C\" __global__ void mul_add(float *a, const float *b, long long n) {\n"
    "    __int128 wide = (__int128)n * n;\n"
    "    if (wide > threadIdx.x) a[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x] + twice(b[0]);\n"
    "}\n"
    "extern \"C\" __global__ void divide(float *a, const float *b) { a[0] = a[0] / b[0]; }\n";

static const mlsi_nvrtc *compiler(void) {
    const mlsi_nvrtc *n;
    return mlsi_nvrtc_get(&n) == MLSYS_OK ? n : NULL;
}

static void compile(const char *source, int arch, char **code, uint64_t *bytes) {
    void *p;
    mlsys_status st = mlsi_cuda_compile(&mlsi_alloc_process, source, arch, &p, bytes, NULL);
    if (st != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());
    *code = p;
}

START_TEST(all_known_devices_get_machine_code) {
    const mlsi_nvrtc *n = compiler();
    if (!n) TEST_SKIP("NVRTC: %s", mlsys_last_error());
    for (int i = 0; i < n->n_known; i++) {
        char *code;
        uint64_t bytes;
        compile(text, n->known[i], &code, &bytes);
        REQUIRE(bytes > 1000 && !memcmp(code, "\177ELF", 4));
        mlsi_mem_free(&mlsi_alloc_process, code);
    }
}
END_TEST

/* The bits of results: nothing is contracted, division and subnormals are IEEE's. */
START_TEST(options_keep_ieee_arithmetic) {
    char *code;
    uint64_t bytes;
    if (!compiler()) TEST_SKIP("NVRTC: %s", mlsys_last_error());
    compile(text, 990, &code, &bytes); /* no such device yet: PTX */
    REQUIRE(bytes == strlen(code) + 1);
    REQUIRE(strstr(code, ".entry mul_add(") && strstr(code, ".entry divide("));
    REQUIRE(strstr(code, "mul.rn.f32") && strstr(code, "add.rn.f32") && strstr(code, "div.rn.f32"));
    REQUIRE(!strstr(code, "fma.rn.f32") && !strstr(code, ".ftz"));
    mlsi_mem_free(&mlsi_alloc_process, code);
}
END_TEST

START_TEST(a_refused_text_has_its_first_error) {
    void *code;
    uint64_t bytes;
    mlsi_text log;
    if (!compiler()) TEST_SKIP("NVRTC: %s", mlsys_last_error());
    mlsi_text_init(&log, &mlsi_alloc_process);
    mlsys_status st = mlsi_cuda_compile(&mlsi_alloc_process, "int x = nothing;\nint y = neither;\n",
                                        90, &code, &bytes, &log);
    ck_assert_int_eq(st, MLSYS_E_IO);
    REQUIRE(strstr(mlsys_last_error(), "): error: identifier \"nothing\" is undefined"));
    REQUIRE(strstr(log.data, "neither"));
    mlsi_text_free(&log);
}
END_TEST

static void *compile_from_thread(void *wrong) {
    for (int i = 0; i < 3; i++) {
        void *code = NULL;
        uint64_t bytes;
        if (mlsi_cuda_compile(&mlsi_alloc_process, text, 90, &code, &bytes, NULL) ||
            memcmp(code, "\177ELF", 4))
            return wrong;
        mlsi_mem_free(&mlsi_alloc_process, code);
    }
    return NULL;
}

START_TEST(threads_compile_at_the_same_time) {
    pthread_t threads[4];
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_from_thread, &wrong), 0);
    if (!compiler()) wrong = -1;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        ck_assert(wrong < 0 || !result);
    }
    if (wrong < 0) TEST_SKIP("NVRTC: %s", mlsys_last_error());
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_nvrtc");
    TCase *t = tcase_create("cuda_nvrtc");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, all_known_devices_get_machine_code);
    tcase_add_test(t, options_keep_ieee_arithmetic);
    tcase_add_test(t, a_refused_text_has_its_first_error);
    tcase_add_test(t, threads_compile_at_the_same_time);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
