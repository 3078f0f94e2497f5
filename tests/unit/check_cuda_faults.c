/* A CUDA device whose driver fails: at any call, for good or once; a driver that is absent, old or finds nothing. Each time there is
 * a sentence, nothing is left behind, and the process goes on. */
#include "cuda/device.h"
#include "cuda/module.h"
#include "support/fake_cuda.h"
#include "support/failing_alloc.h"
#include "support/require.h"

#include <check.h>
#include <string.h>

static const mlsi_accelerator *acc = &mlsi_cuda_accelerator;
static fake_cuda *fake;
static failing_alloc host;
static mlsi_alloc host_alloc;

static void expect_fails(mlsys_status st, mlsys_status code, const char *part) {
    ck_assert_int_eq(st, code);
    if (!strstr(mlsys_last_error(), part)) ck_abort_msg("%s", mlsys_last_error());
}

static void setup(void) {
    mlsys_hooks hooks;
    fake = fake_cuda_use(true);
    host = (failing_alloc){0};
    hooks = failing_alloc_hooks(&host);
    mlsi_alloc_init(&host_alloc, &hooks);
}

static void teardown(void) {
    fake_cuda_check_clean(fake);
    ck_assert_int_eq(host.blocks, 0);
}

/* ---- no driver. First: what is found once stays ---------------------------------------------------- */

static void expect_no_device(const char *why) {
    int32_t n = 7;
    mlsys_ctx ctx;
    mlsys_device device;
    fake_cuda_ok(mlsys_ctx_create(NULL, NULL, &ctx));
    fake_cuda_ok(mlsys_device_count(ctx, MLSYS_CUDA, &n));
    ck_assert_int_eq(n, 0);
    expect_fails(mlsys_device_get(ctx, MLSYS_CUDA, 0, &device), MLSYS_E_DEVICE, why);
    ck_assert_ptr_null(device);
    mlsys_release(ctx);
}

START_TEST(the_driver_may_be_absent_old_or_broken) {
    setenv("MLSYS_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    expect_no_device("device_get: CUDA: /nowhere/libcuda.so.1: cannot open shared object file");
    setenv("MLSYS_CUDA_DRIVER", "libm.so.6", 1);
    expect_no_device("CUDA: libm.so.6 has no cuGetErrorName: the driver is too old");
    fake = fake_cuda_use(true);
    fake->init = CUDA_ERROR_NO_DEVICE;
    expect_no_device("CUDA: cuInit: words of the driver (CUDA_ERROR_NO_DEVICE)");
    fake->init = 0;
    fake->devices = 0;
    expect_no_device("CUDA: the driver finds no device");
    fake->devices = 1;
    int32_t n;
    fake_cuda_ok(acc->count(&n));
    ck_assert_int_eq(n, 1);
}
END_TEST

/* ---- failures that stay ------------------------------------------------------------------------------- */

static mlsi_accel_module *load(mlsi_accel *d) {
    static char image[] = "FAKE void first( void second(";
    mlsi_accel_module *m;
    fake_cuda_ok(
        mlsi_cuda_module_load(d, &host_alloc, &(mlsi_cuda_image){image, sizeof image}, 1, &m));
    return m;
}

static mlsys_status launch(mlsi_queue *q, mlsi_accel_kernel *k, const char *what) {
    return acc->launch(q, &(mlsi_launch){.kernel = k, .blocks = 1, .threads = 1, .what = what});
}

START_TEST(an_illegal_access_ends_the_device) {
    const char *why = "CUDA device 0: cuStreamSynchronize: words of the driver "
                      "(CUDA_ERROR_ILLEGAL_ADDRESS), in matmul or one of the 2 launches behind it";
    mlsi_accel *d = fake_cuda_open(&host_alloc, 0);
    mlsi_queue *q, *other, *none;
    void *recorded;
    char *p, *none_p;
    mlsi_accel_module *m = load(d), *none_m;
    fake_cuda_ok(acc->queue_create(d, &q));
    fake_cuda_ok(acc->queue_create(d, &other));
    fake_cuda_ok(acc->allocate(d, 100, &p));
    fake->deferred = true;
    fake->poison = 2;
    mlsi_accel_kernel *k = acc->kernel(m, "first");
    fake_cuda_ok(launch(q, k, "matmul"));
    fake_cuda_ok(launch(q, k, "add"));
    fake_cuda_ok(launch(q, k, "softmax"));
    expect_fails(acc->sync(q), MLSYS_E_DEVICE, why);
    int64_t launches = fake->launches;
    expect_fails(acc->sync(other), MLSYS_E_DEVICE, why);
    expect_fails(launch(other, k, "more"), MLSYS_E_DEVICE, why);
    expect_fails(acc->allocate(d, 1, &none_p), MLSYS_E_DEVICE, why);
    expect_fails(acc->fill(q, p, 1, 1), MLSYS_E_DEVICE, why);
    expect_fails(acc->copy(q, p, p + 1, 1), MLSYS_E_DEVICE, why);
    expect_fails(acc->upload(q, p, "x", 1), MLSYS_E_DEVICE, why);
    expect_fails(acc->download(q, &none_p, p, 1), MLSYS_E_DEVICE, why);
    expect_fails(acc->trim(d), MLSYS_E_DEVICE, why);
    expect_fails(acc->queue_create(d, &none), MLSYS_E_DEVICE, why);
    expect_fails(acc->record_begin(q), MLSYS_E_DEVICE, why);
    expect_fails(acc->record_end(q, &recorded), MLSYS_E_DEVICE, why);
    expect_fails(acc->load(d, &host_alloc, "text", &none_m), MLSYS_E_DEVICE, why);
    ck_assert_int_eq(fake->launches, launches);
    ck_assert_uint_eq(acc->resident(k, 32, 0), 1);
    acc->release(d, p);
    acc->unload(&host_alloc, m);
    acc->queue_destroy(q), acc->queue_destroy(other);
    acc->close(d);
    d = fake_cuda_open(&host_alloc, 0); /* the next context works */
    fake_cuda_ok(acc->allocate(d, 100, &p));
    acc->close(d);
}
END_TEST

START_TEST(tensors_of_a_failed_device_can_be_released) {
    float values[4] = {0};
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream s;
    mlsys_tensor t, u;
    fake_cuda_ok(mlsys_ctx_create(NULL, NULL, &ctx));
    fake_cuda_ok(mlsys_device_get(ctx, MLSYS_CUDA, 0, &device));
    fake_cuda_ok(mlsys_stream_create(device, NULL, &s));
    fake_cuda_ok(mlsys_tensor_create(device, MLSYS_F32, 1, (int64_t[]){4}, &t));
    fake_cuda_fail(fake, "cuMemcpyHtoDAsync", 1, CUDA_ERROR_LAUNCH_FAILED);
    expect_fails(mlsys_tensor_write(t, s, values, sizeof values), MLSYS_E_DEVICE,
                 "CUDA device 0: cuMemcpyHtoDAsync: error 719");
    expect_fails(mlsys_tensor_read(t, s, values, sizeof values), MLSYS_E_DEVICE,
                 "CUDA device 0: cuMemcpyHtoDAsync: error 719");
    expect_fails(mlsys_tensor_create(device, MLSYS_F32, 1, (int64_t[]){4}, &u), MLSYS_E_DEVICE,
                 "CUDA device 0: cuMemcpyHtoDAsync: error 719");
    mlsys_release(t), mlsys_release(s), mlsys_release(device), mlsys_release(ctx);
}
END_TEST

START_TEST(failures_that_pass_leave_the_device_usable) {
    char *p;
    mlsi_accel *d = fake_cuda_open(&host_alloc, 0);
    fake_cuda_fail(fake, "cuMemAlloc", 1, CUDA_ERROR_INVALID_HANDLE);
    expect_fails(acc->allocate(d, 1, &p), MLSYS_E_DEVICE,
                 "CUDA device 0: cuMemAlloc: words of the driver (CUDA_ERROR_INVALID_HANDLE)");
    fake_cuda_ok(acc->allocate(d, 1, &p));
    acc->release(d, p);
    acc->close(d);
}
END_TEST

/* ---- the n-th call fails ------------------------------------------------------------------------------- */

typedef struct things {
    mlsi_accel *d;
    mlsi_queue *q[2];
    mlsi_accel_module *m;
    char *p[3];
    void *recorded;
} things;

static mlsys_status use_memory(things *t) {
    static char from[MLSI_STAGE_BYTES + 1], to[sizeof from];
    MLSI_TRY(acc->allocate(t->d, 1000, &t->p[0]));
    MLSI_TRY(acc->allocate(t->d, sizeof from, &t->p[1]));
    MLSI_TRY(acc->upload(t->q[0], t->p[1], from, sizeof from));
    MLSI_TRY(acc->fill(t->q[1], t->p[0], 1, 1000));
    acc->release(t->d, t->p[0]);
    t->p[0] = NULL;
    MLSI_TRY(acc->allocate(t->d, 900, &t->p[2]));
    MLSI_TRY(acc->copy(t->q[0], t->p[2], t->p[1], 900));
    MLSI_TRY(acc->download(t->q[0], to, t->p[1], sizeof to));
    REQUIRE(!memcmp(from, to, sizeof to));
    MLSI_TRY(acc->sync(t->q[1]));
    return acc->trim(t->d);
}

static mlsys_status use_code(things *t) {
    const char *text =
        "extern \"C\" __global__ void first(\nextern \"C\" __global__ void second(\n";
    MLSI_TRY(acc->load(t->d, &host_alloc, text, &t->m));
    mlsi_accel_kernel *k = acc->kernel(t->m, "second");
    if (!k) return mlsys_last_status();
    mlsi_launch l = {.kernel = k, .blocks = 3, .threads = 32, .shared_bytes = 100 << 10};
    MLSI_TRY(acc->launch(t->q[0], &l));
    (void)acc->resident(k, 32, 200 << 10);
    MLSI_TRY(acc->record_begin(t->q[1]));
    mlsys_status st = acc->launch(t->q[1], &l), end = acc->record_end(t->q[1], &t->recorded);
    if (st != MLSYS_OK) return st;
    MLSI_TRY(end);
    MLSI_TRY(acc->replay(t->q[0], t->recorded));
    MLSI_TRY(acc->record_begin(t->q[1])); /* is not ended */
    return acc->sync(t->q[0]);
}

static mlsys_status use_all(things *t) {
    int32_t n;
    MLSI_TRY(acc->count(&n));
    MLSI_TRY(acc->open(&host_alloc, 0, 0, &t->d));
    MLSI_TRY(acc->queue_create(t->d, &t->q[0]));
    MLSI_TRY(acc->queue_create(t->d, &t->q[1]));
    MLSI_TRY(use_memory(t));
    return use_code(t);
}

static void release_all(things *t) {
    mlsi_accel_memory memory;
    if (!t->d) return;
    acc->memory(t->d, &memory);
    for (int i = 0; i < 3; i++)
        acc->release(t->d, t->p[i]);
    acc->record_free(t->d, t->recorded);
    acc->unload(&host_alloc, t->m);
    acc->queue_destroy(t->q[0]), acc->queue_destroy(t->q[1]);
    acc->close(t->d);
}

/* The sentence names the call; but what ends the context in a call whose result nobody has is told by the next one. */
static void expect_sentence(mlsys_status st, CUresult with) {
    const char *why = mlsys_last_error();
    bool nomem = with == CUDA_ERROR_OUT_OF_MEMORY && strcmp(fake->failed_in, "cuDeviceGetCount");
    bool later =
        with == CUDA_ERROR_ILLEGAL_ADDRESS &&
        (!strcmp(fake->failed_in, "cuCtxPopCurrent") || !strcmp(fake->failed_in, "cuGraphDestroy"));
    ck_assert_int_eq(st, nomem ? MLSYS_E_NOMEM : MLSYS_E_DEVICE);
    ck_assert_int_eq(mlsys_last_status(), st);
    if (strncmp(why, "CUDA", 4) || !(later || strstr(why, fake->failed_in)))
        ck_abort_msg("%s fails: %s", fake->failed_in, why);
}

START_TEST(every_call_of_the_driver_may_fail) {
    static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_HANDLE,
                                     CUDA_ERROR_ILLEGAL_ADDRESS};
    const CUresult with = codes[_i % 3];
    int64_t n, failures = 0;
    setenv("MLSYS_CACHE", "/proc/nowhere", 1);
    for (n = 1;; n++) {
        things t = {0};
        fake->deferred = _i / 3;
        fake_cuda_fail(fake, NULL, n, with);
        mlsys_status st = use_all(&t);
        /* Memory that is refused is tried again, and events may be; then nothing failed. */
        if (st != MLSYS_OK && strcmp(fake->failed_in, "cuMemAlloc")) expect_sentence(st, with);
        failures += st != MLSYS_OK;
        release_all(&t);
        bool reached = fake->calls >= n;
        if (reached && !strcmp(fake->failed_in, "cuCtxPushCurrent")) fake->left = 0;
        ck_assert_int_eq(fake->depth, 0);
        ck_assert_int_eq(fake->bad_context, 0);
        if (fake->left)
            ck_abort_msg("call %lld, %s: leaves %lld", (long long)n, fake->failed_in,
                         (long long)fake->left);
        ck_assert_int_eq(host.blocks, 0);
        if (!reached) break;
    }
    ck_assert_int_gt(n, 100);
    ck_assert_int_gt(failures, 50);
}
END_TEST

START_TEST(every_allocation_of_the_host_may_fail) {
    setenv("MLSYS_CACHE", "/proc/nowhere", 1);
    for (int64_t n = 1;; n++) {
        things t = {0};
        fake->deferred = true;
        host.calls = 0;
        host.fail_at = n;
        mlsys_status st = use_all(&t);
        if (st != MLSYS_OK) ck_assert_int_eq(st, MLSYS_E_NOMEM);
        release_all(&t);
        fake_cuda_check_clean(fake);
        ck_assert_int_eq(host.blocks, 0);
        if (host.calls < n) break;
    }
    host.fail_at = 0;
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_faults");
    TCase *t = tcase_create("cuda_faults");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_driver_may_be_absent_old_or_broken);
    tcase_add_test(t, an_illegal_access_ends_the_device);
    tcase_add_test(t, tensors_of_a_failed_device_can_be_released);
    tcase_add_test(t, failures_that_pass_leave_the_device_usable);
    tcase_add_loop_test(t, every_call_of_the_driver_may_fail, 0, 6);
    tcase_add_test(t, every_allocation_of_the_host_may_fail);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
