/* Queues of CUDA devices on the fake driver: order, transfers through pinned memory, launches, recordings, and tensors through the
 * public interface. */
#include "cuda/device.h"
#include "cuda/module.h"
#include "support/fake_cuda.h"
#include "support/failing_alloc.h"
#include "support/random.h"
#include "support/require.h"

#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const mlsi_accelerator *acc = &mlsi_cuda_accelerator;
static fake_cuda *fake;
static failing_alloc host;
static mlsi_alloc host_alloc;
static mlsi_accel *device;
static mlsi_queue *queue;

/* ---- kernels of the fake --------------------------------------------------------------------------- */

/* out[i] += add */
static void run_add(void **params, unsigned blocks, unsigned threads, unsigned shared) {
    int64_t *out, add;
    memcpy(&out, params[0], 8), memcpy(&add, params[1], 8);
    for (unsigned i = 0; i < blocks * threads; i++)
        out[i] += add + shared / 1024;
}
/* out[i] = 3 * out[i] */
static void run_triple(void **params, unsigned blocks, unsigned threads, unsigned shared) {
    int64_t *out;
    (void)shared;
    memcpy(&out, params[0], 8);
    for (unsigned i = 0; i < blocks * threads; i++)
        out[i] *= 3;
}
static const fake_kernel kernels[] = {{"add", 2, run_add}, {"triple", 1, run_triple}};

static mlsi_accel_module *load(void) {
    static char first[] = "FAKE void add(", second[] = "FAKE void triple(void nothing(";
    const mlsi_cuda_image images[] = {{first, sizeof first}, {second, sizeof second}};
    mlsi_accel_module *m;
    fake_cuda_ok(mlsi_cuda_module_load(device, &host_alloc, images, 2, &m));
    return m;
}

static void setup(void) {
    mlsys_hooks hooks;
    fake = fake_cuda_use(false);
    fake->kernels = kernels, fake->n_kernels = 2;
    host = (failing_alloc){0};
    hooks = failing_alloc_hooks(&host);
    mlsi_alloc_init(&host_alloc, &hooks);
    device = fake_cuda_open(&host_alloc, 0);
    fake_cuda_ok(acc->queue_create(device, &queue));
}

static void teardown(void) {
    acc->queue_destroy(queue);
    acc->close(device);
    fake_cuda_check_clean(fake);
    ck_assert_int_eq(host.blocks, 0);
}

static char *get(uint64_t bytes) {
    char *p;
    fake_cuda_ok(acc->allocate(device, bytes, &p));
    return p;
}

static void expect_fails(mlsys_status st, mlsys_status code, const char *part) {
    ck_assert_int_eq(st, code);
    if (!strstr(mlsys_last_error(), part)) ck_abort_msg("%s", mlsys_last_error());
}

/* ---- transfers -------------------------------------------------------------------------------------- */

START_TEST(transfers_of_any_size) {
    enum { STAGE = MLSI_STAGE_BYTES };
    static const int64_t sizes[] = {0,         1,         511,           STAGE - 1, STAGE,
                                    STAGE + 1, 2 * STAGE, 3 * STAGE + 7, 5 * STAGE};
    test_random r = test_random_seed("transfers", 0x5eed1);
    fake->deferred = _i;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = (size_t)sizes[k];
        char *from = malloc(n + 1), *want = malloc(n + 1), *to = malloc(n + 1), *p = get(n);
        for (size_t i = 0; i < n; i++)
            want[i] = from[i] = (char)test_bits(&r);
        to[n] = 77;
        fake_cuda_ok(acc->upload(queue, p, from, n));
        memset(from, 0, n); /* it may change now */
        if (n) fake_cuda_ok(acc->upload(queue, p, want, 1));
        fake_cuda_ok(acc->download(queue, to, p, n));
        REQUIRE(!memcmp(to, want, n));
        REQUIRE(to[n] == 77);
        acc->release(device, p);
        free(from), free(want), free(to);
    }
}
END_TEST

START_TEST(uploads_do_not_wait) {
    char byte = 5, *p = get(10 * MLSI_STAGE_BYTES);
    static char big[2 * MLSI_STAGE_BYTES];
    fake->deferred = true;
    fake_cuda_ok(acc->upload(queue, p, &byte, 1));
    ck_assert_int_ne(p[0], 5);
    ck_assert_int_eq(fake->syncs, 0);
    fake_cuda_ok(acc->sync(queue));
    ck_assert_int_eq(p[0], 5);
    fake_cuda_ok(acc->upload(queue, p, big, sizeof big)); /* one piece for each stage */
    ck_assert_int_eq(p[0], 5);
    acc->release(device, p);
}
END_TEST

START_TEST(work_runs_in_order) {
    char *p = get(64), *q = get(64), seen[64];
    fake->deferred = true;
    fake_cuda_ok(acc->fill(queue, p, 1, 64));
    fake_cuda_ok(acc->copy(queue, q, p, 32));
    fake_cuda_ok(acc->fill(queue, p, 2, 64));
    fake_cuda_ok(acc->copy(queue, q + 32, p, 32));
    fake_cuda_ok(acc->fill(queue, q, 3, 0));
    fake_cuda_ok(acc->copy(queue, q, p, 0));
    fake_cuda_ok(acc->download(queue, seen, q, 64));
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(seen[i], i < 32 ? 1 : 2);
    acc->release(device, p), acc->release(device, q);
}
END_TEST

/* ---- launches ----------------------------------------------------------------------------------------- */

static mlsys_status launch(mlsi_accel_kernel *k, char *to, int64_t add, uint32_t blocks,
                           uint32_t shared) {
    void *params[] = {&to, &add};
    mlsi_launch l = {
        .kernel = k, .blocks = blocks, .threads = 2, .shared_bytes = shared, .params = params};
    return acc->launch(queue, &l);
}

START_TEST(kernels_are_found_and_run) {
    int64_t seen[4];
    mlsi_accel_module *m = load();
    mlsi_accel_kernel *add = acc->kernel(m, "add"), *triple = acc->kernel(m, "triple");
    char *p = get(sizeof seen);
    ck_assert_ptr_null(acc->kernel(m, "absent"));
    ck_assert_ptr_eq(acc->kernel(m, "add"), add);
    fake->deferred = true;
    fake_cuda_ok(acc->fill(queue, p, 0, sizeof seen));
    fake_cuda_ok(launch(add, p, 5, 2, 0));
    fake_cuda_ok(launch(triple, p, 0, 1, 0));
    fake_cuda_ok(acc->download(queue, seen, p, sizeof seen));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(seen[i], i < 2 ? 15 : 5);
    expect_fails(launch(add, p, 1, 0, 0), MLSYS_E_ARG, "add: 0 blocks of 2 threads");
    acc->release(device, p);
    acc->unload(&host_alloc, m);
    acc->unload(&host_alloc, NULL);
}
END_TEST

START_TEST(shared_memory_is_asked_for_once) {
    mlsi_accel_module *m = load();
    mlsi_accel_kernel *add = acc->kernel(m, "add");
    char *p = get(64);
    fake_cuda_ok(launch(add, p, 0, 1, 48 << 10));
    ck_assert_int_eq(fake->attribute_sets, 0);
    for (int i = 0; i < 3; i++)
        fake_cuda_ok(launch(add, p, 0, 1, 100 << 10));
    ck_assert_int_eq(fake->attribute_sets, 1);
    ck_assert_uint_eq(acc->resident(add, 256, 226 << 10), 8 * 132);
    fake_cuda_ok(launch(add, p, 0, 1, 226 << 10));
    ck_assert_int_eq(fake->attribute_sets, 2);
    expect_fails(launch(add, p, 0, 1, 227 << 10), MLSYS_E_UNSUPPORTED,
                 "add takes 233472 bytes of shared memory, a block has 232448");
    expect_fails(launch(add, p, 0, 1, UINT32_MAX), MLSYS_E_UNSUPPORTED, "takes 4294968319 bytes");
    ck_assert_uint_eq(acc->resident(add, 256, UINT32_MAX), 1);
    acc->release(device, p);
    acc->unload(&host_alloc, m);
}
END_TEST

/* ---- recordings ------------------------------------------------------------------------------------------ */

START_TEST(recordings_replay) {
    int64_t seen[2];
    void *recorded;
    mlsi_accel_module *m = load();
    mlsi_accel_kernel *add = acc->kernel(m, "add"), *triple = acc->kernel(m, "triple");
    char *p = get(sizeof seen);
    fake->deferred = _i;
    fake_cuda_ok(acc->fill(queue, p, 0, sizeof seen));
    fake_cuda_ok(acc->record_begin(queue));
    fake_cuda_ok(launch(add, p, 1, 1, 0));
    fake_cuda_ok(launch(triple, p, 0, 1, 0));
    acc->release(device, get(100)); /* needs no event of the queue */
    fake_cuda_ok(acc->record_end(queue, &recorded));
    for (int i = 0; i < 3; i++)
        fake_cuda_ok(acc->replay(queue, recorded));
    fake_cuda_ok(acc->download(queue, seen, p, sizeof seen));
    ck_assert_int_eq(seen[0], ((0 + 1) * 3 + 1) * 9 + 3);
    acc->record_free(device, recorded);
    acc->record_free(device, NULL);
    acc->release(device, p);
    acc->unload(&host_alloc, m);
}
END_TEST

START_TEST(recordings_refuse_what_the_host_must_do) {
    char byte = 1, *p = get(64);
    void *recorded = &byte, *other = NULL;
    expect_fails(acc->record_end(queue, &recorded), MLSYS_E_STATE, "nothing is being recorded");
    ck_assert_ptr_null(recorded);
    fake_cuda_ok(acc->record_begin(queue));
    expect_fails(acc->upload(queue, p, &byte, 1), MLSYS_E_UNSUPPORTED, "cannot hold an upload");
    expect_fails(acc->download(queue, &byte, p, 1), MLSYS_E_UNSUPPORTED, "hold a download");
    expect_fails(acc->sync(queue), MLSYS_E_UNSUPPORTED, "hold a wait");
    expect_fails(acc->record_begin(queue), MLSYS_E_UNSUPPORTED, "hold a recording");
    expect_fails(acc->replay(queue, other), MLSYS_E_UNSUPPORTED, "hold a replay");
    fake_cuda_ok(acc->fill(queue, p, 4, 64)); /* and goes on */
    fake_cuda_ok(acc->record_end(queue, &recorded));
    fake_cuda_ok(acc->replay(queue, recorded));
    ck_assert_int_eq(p[63], 4);
    acc->record_free(device, recorded);
    acc->release(device, p);
}
END_TEST

START_TEST(a_failed_recording_is_forgotten) {
    char *p = get(64);
    void *recorded = p;
    fake_cuda_ok(acc->record_begin(queue));
    fake_cuda_fail(fake, "cuMemsetD8Async", 1, CUDA_ERROR_INVALID_HANDLE);
    expect_fails(acc->fill(queue, p, 1, 64), MLSYS_E_DEVICE, "cuMemsetD8Async: words");
    fake_cuda_ok(acc->fill(queue, p, 2, 64));
    expect_fails(acc->record_end(queue, &recorded), MLSYS_E_DEVICE,
                 "the recording failed: CUDA device 0: cuMemsetD8Async: words of the driver");
    ck_assert_ptr_null(recorded);
    fake_cuda_ok(acc->fill(queue, p, 3, 64)); /* works as before */
    ck_assert_int_eq(p[0], 3);
    fake_cuda_ok(acc->record_begin(queue)); /* destroyed while recording, in teardown */
    fake_cuda_ok(acc->fill(queue, p, 2, 64));
}
END_TEST

/* ---- the host's side ---------------------------------------------------------------------------------- */

START_TEST(the_hosts_current_context_stays) {
    CUcontext mine = (CUcontext)(uintptr_t)0x1234, popped;
    const mlsi_driver *driver;
    fake_cuda_ok(mlsi_driver_get(&driver));
    (void)driver->ctx_push(mine);
    char *p = get(64);
    fake_cuda_ok(acc->fill(queue, p, 1, 64));
    fake_cuda_ok(acc->sync(queue));
    acc->release(device, p);
    ck_assert_int_eq(fake->depth, 1);
    (void)driver->ctx_pop(&popped);
    ck_assert_ptr_eq(popped, mine);
}
END_TEST

START_TEST(a_forked_child_can_only_close) {
    int status;
    char *p = get(64);
    fflush(NULL);
    fake->calls = 0;
    pid_t child = fork();
    if (!child) {
        char *q, part[64];
        int32_t n;
        snprintf(part, sizeof part, "was opened in process %d before a fork", (int)getppid());
        bool ok = acc->allocate(device, 1, &q) == MLSYS_E_STATE && strstr(mlsys_last_error(), part);
        ok &= acc->sync(queue) == MLSYS_E_STATE && acc->fill(queue, p, 1, 1) == MLSYS_E_STATE;
        ok &= acc->count(&n) == MLSYS_E_DEVICE && strstr(mlsys_last_error(), "before a fork");
        mlsi_accel_memory m;
        acc->memory(device, &m);
        acc->release(device, p);
        acc->queue_destroy(queue);
        acc->close(device);
        ok &= host.blocks == 0 && fake->calls == 0;
        _exit(ok ? 0 : 1);
    }
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    acc->release(device, p);
}
END_TEST

/* ---- tensors ------------------------------------------------------------------------------------------ */

typedef struct user {
    mlsys_ctx ctx;
    mlsys_device device;
} user;

static user user_create(void) {
    user u;
    fake_cuda_ok(mlsys_ctx_create(NULL, NULL, &u.ctx));
    fake_cuda_ok(mlsys_device_get(u.ctx, MLSYS_CUDA, 0, &u.device));
    return u;
}

static void user_release(user u) { mlsys_release(u.device), mlsys_release(u.ctx); }

START_TEST(devices_are_counted_and_described) {
    char text[400];
    uint64_t need;
    int32_t n;
    mlsys_device absent;
    user u = user_create();
    fake->devices = 2;
    fake_cuda_ok(mlsys_device_count(u.ctx, MLSYS_CUDA, &n));
    ck_assert_int_eq(n, 2);
    expect_fails(mlsys_device_get(u.ctx, MLSYS_CUDA, 2, &absent), MLSYS_E_DEVICE,
                 "CUDA device 2 is absent: there are 2");
    fake_cuda_ok(mlsys_device_describe(u.device, text, sizeof text, &need));
    ck_assert_str_eq(text, "{\"type\":\"cuda\",\"index\":0,\"name\":\"Fake H 9\",\"capability\":"
                           "\"9.0\",\"multiprocessors\":132,\"memory\":1073741824,\"driver\":"
                           "\"13.0\"}");
    user_release(u);
}
END_TEST

/* Writing, reading and copying by way of a transposed view; DLPack out and in again. */
static void use_tensors(user u, float first) {
    float values[12], seen[12];
    mlsys_tensor t, view, copy, back;
    mlsys_stream stream;
    void *managed;
    fake_cuda_ok(mlsys_stream_create(u.device, NULL, &stream));
    for (int i = 0; i < 12; i++)
        values[i] = first + (float)i;
    fake_cuda_ok(mlsys_tensor_create(u.device, MLSYS_F32, 2, (int64_t[]){3, 4}, &t));
    fake_cuda_ok(mlsys_tensor_write(t, stream, values, sizeof values));
    fake_cuda_ok(mlsys_tensor_view(t, 2, (int64_t[]){4, 3}, (int64_t[]){1, 4}, 0, &view));
    fake_cuda_ok(mlsys_tensor_create(u.device, MLSYS_F32, 2, (int64_t[]){4, 3}, &copy));
    fake_cuda_ok(mlsys_tensor_copy(copy, view, stream));
    fake_cuda_ok(mlsys_tensor_read(copy, stream, seen, sizeof seen));
    for (int i = 0; i < 12; i++)
        REQUIRE(seen[i] == values[i % 3 * 4 + i / 3]);
    fake_cuda_ok(mlsys_tensor_to_dlpack(view, NULL, 0, &managed));
    fake_cuda_ok(mlsys_tensor_from_dlpack(u.device, managed, NULL, &back));
    fake_cuda_ok(mlsys_tensor_read(back, stream, seen, sizeof seen));
    for (int i = 0; i < 12; i++)
        REQUIRE(seen[i] == values[i % 3 * 4 + i / 3]);
    mlsys_release(back), mlsys_release(copy), mlsys_release(view), mlsys_release(t);
    mlsys_release(stream);
}

START_TEST(tensors_live_on_the_device) {
    user u = user_create();
    fake->deferred = _i;
    use_tensors(u, 1);
    user_release(u);
}
END_TEST

static void *use_from_thread(void *first) {
    user u = user_create();
    for (int i = 0; i < 50; i++)
        use_tensors(u, (float)(uintptr_t)first + (float)i);
    user_release(u);
    return NULL;
}

START_TEST(two_contexts_in_two_threads) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use_from_thread, (void *)(100 * i));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_queue");
    TCase *t = tcase_create("cuda_queue");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, transfers_of_any_size, 0, 2);
    tcase_add_test(t, uploads_do_not_wait);
    tcase_add_test(t, work_runs_in_order);
    tcase_add_test(t, kernels_are_found_and_run);
    tcase_add_test(t, shared_memory_is_asked_for_once);
    tcase_add_loop_test(t, recordings_replay, 0, 2);
    tcase_add_test(t, recordings_refuse_what_the_host_must_do);
    tcase_add_test(t, a_failed_recording_is_forgotten);
    tcase_add_test(t, the_hosts_current_context_stays);
    tcase_add_test(t, a_forked_child_can_only_close);
    tcase_add_test(t, devices_are_counted_and_described);
    tcase_add_loop_test(t, tensors_live_on_the_device, 0, 2);
    tcase_add_test(t, two_contexts_in_two_threads);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
