/* Handles: misuse of every argument is an answer, never a crash, also in a forked child. */
#include "core/handle.h"
#include "support/objects.h"
#include "support/random.h"
#include "support/require.h"

#include "core/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- every function that takes a handle ------------------------------------------------------ */

static objects good; /* what the calls below use for their other arguments */
static float memory[6];
static int64_t two_three[2] = {2, 3};

/* X(name in the error, kind, call with h in the argument's place) */
#define CALLS(X)                                                                                   \
    X("retain: handle", 0, mlsys_retain(h))                                                        \
    X("handle_kind: handle", 0, mlsys_handle_kind(h, &kind))                                       \
    X("config_set_i64: config", CONFIG, mlsys_config_set_i64(h, "k", 1))                           \
    X("config_set_f64: config", CONFIG, mlsys_config_set_f64(h, "k", 1))                           \
    X("config_set_str: config", CONFIG, mlsys_config_set_str(h, "k", "v"))                         \
    X("config_set_i64s: config", CONFIG, mlsys_config_set_i64s(h, "k", 2, two_three))              \
    X("config_get_i64: config", CONFIG, mlsys_config_get_i64(h, "threads", &number))               \
    X("ctx_read_log: ctx", CTX, mlsys_ctx_read_log(h, text, sizeof text, NULL))                    \
    X("ctx_stats: ctx", CTX, mlsys_ctx_stats(h, &stats))                                           \
    X("profile_start: ctx", CTX, mlsys_profile_start(h, NULL))                                     \
    X("profile_stop: ctx", CTX, mlsys_profile_stop(h))                                             \
    X("profile_read: ctx", CTX, mlsys_profile_read(h, NULL, 0, &size))                             \
    X("device_count: ctx", CTX, mlsys_device_count(h, MLSYS_CPU, &count))                          \
    X("device_get: ctx", CTX, mlsys_device_get(h, MLSYS_CPU, 0, (mlsys_device *)&out))             \
    X("device_describe: device", DEVICE, mlsys_device_describe(h, text, sizeof text, NULL))        \
    X("stream_create: device", DEVICE, mlsys_stream_create(h, NULL, (mlsys_stream *)&out))         \
    X("tensor_create: device", DEVICE, mlsys_tensor_create(h, MLSYS_F32, 2, two_three, T))         \
    X("tensor_wrap: device", DEVICE,                                                               \
      mlsys_tensor_wrap(h, MLSYS_F32, 2, two_three, NULL, 0, memory, sizeof memory, NULL, NULL,    \
                        T))                                                                        \
    X("stream_sync: stream", STREAM, mlsys_stream_sync(h))                                         \
    X("stream_scratch_bytes: stream", STREAM, mlsys_stream_scratch_bytes(h, &size))                \
    X("tensor_view: t", TENSOR, mlsys_tensor_view(h, 2, two_three, NULL, 0, T))                    \
    X("tensor_permute: t", TENSOR, mlsys_tensor_permute(h, 2, (int32_t[]){1, 0}, T))               \
    X("tensor_transpose: t", TENSOR, mlsys_tensor_transpose(h, 0, 1, T))                           \
    X("tensor_slice: t", TENSOR, mlsys_tensor_slice(h, 0, 0, 1, 1, T))                             \
    X("tensor_reverse: t", TENSOR, mlsys_tensor_reverse(h, 0, T))                                  \
    X("tensor_broadcast: t", TENSOR, mlsys_tensor_broadcast(h, 2, two_three, T))                   \
    X("tensor_reshape: t", TENSOR, mlsys_tensor_reshape(h, 1, (int64_t[]){6}, T, NULL))            \
    X("tensor_shape: t", TENSOR, mlsys_tensor_shape(h, 0, NULL, &count))                           \
    X("tensor_strides: t", TENSOR, mlsys_tensor_strides(h, 0, NULL, &number))                      \
    X("tensor_dtype: t", TENSOR, mlsys_tensor_dtype(h, &count))                                    \
    X("tensor_device: t", TENSOR, mlsys_tensor_device(h, (mlsys_device *)&out))                    \
    X("tensor_bounds: t", TENSOR, mlsys_tensor_bounds(h, &size, &size))                            \
    X("tensor_layout: t", TENSOR, mlsys_tensor_layout(h, &count, &count))                          \
    X("tensor_data: t", TENSOR, mlsys_tensor_data(h, &pointer, &size))                             \
    X("tensor_storage_id: t", TENSOR, mlsys_tensor_storage_id(h, &size))                           \
    X("tensor_write: t", TENSOR, mlsys_tensor_write(h, good.stream, memory, sizeof memory))        \
    X("tensor_write: stream", STREAM, mlsys_tensor_write(good.tensor, h, memory, sizeof memory))   \
    X("tensor_read: t", TENSOR, mlsys_tensor_read(h, good.stream, memory, sizeof memory))          \
    X("tensor_read: stream", STREAM, mlsys_tensor_read(good.tensor, h, memory, sizeof memory))     \
    X("tensor_copy: dst", TENSOR, mlsys_tensor_copy(h, good.tensor, good.stream))                  \
    X("tensor_copy: src", TENSOR, mlsys_tensor_copy(good.tensor, h, good.stream))                  \
    X("tensor_copy: stream", STREAM, mlsys_tensor_copy(good.tensor, good.tensor, h))               \
    X("tensor_random: t", TENSOR, mlsys_tensor_random(h, good.stream, "normal", 1, 2))             \
    X("tensor_random: stream", STREAM, mlsys_tensor_random(good.tensor, h, "normal", 1, 2))        \
    X("tensor_to_dlpack: t", TENSOR, to_dlpack(h))

enum { MLSYS_KIND_0 = 0 };

static mlsys_status to_dlpack(mlsys_tensor t) {
    void *managed;
    mlsys_status st = mlsys_tensor_to_dlpack(t, NULL, 0, &managed);
    if (st != MLSYS_OK) REQUIRE(managed == NULL);
    mlsys_dlpack_free(managed);
    return st;
}

/* Run call i with handle h; what a good call made is released. */
static mlsys_status call(int i, void *h) {
    mlsys_kind kind;
    int64_t number;
    int32_t count;
    uint64_t size;
    void *out = NULL, *pointer;
    char text[256];
    mlsys_stats stats = {.size = sizeof stats};
    mlsys_tensor *T = (mlsys_tensor *)&out;
    mlsys_status st = MLSYS_E_INTERNAL;
    int k = 0;
#define ONE(what, kind_, expr)                                                                     \
    if (i == k++) st = expr;
    CALLS(ONE)
#undef ONE
    if (st != MLSYS_OK) REQUIRE(out == NULL);
    if (out) check_ok(mlsys_release(out));
    if (i == 0 && st == MLSYS_OK) check_ok(mlsys_release(h)); /* retain */
    return st;
}

static const struct {
    const char *what;
    mlsys_kind kind;
} calls[] = {
#define ROW(what, kind, expr) {what, MLSYS_KIND_##kind},
    CALLS(ROW)
#undef ROW
};
enum { CALL_COUNT = (int)(sizeof calls / sizeof calls[0]) };

static void expect_refused(int i, void *h, const char *why) {
    char sentence[128];
    mlsys_status st = call(i, h);
    snprintf(sentence, sizeof sentence, "%s %s", calls[i].what, why);
    if (st != MLSYS_E_HANDLE || strncmp(mlsys_last_error(), sentence, strlen(sentence)))
        ck_abort_msg("%s: %s \"%s\"", sentence, mlsys_status_name(st), mlsys_last_error());
}

START_TEST(every_argument_accepts_the_right_kind) {
    good = objects_create(NULL);
    for (int i = 0; i < CALL_COUNT; i++)
        for (int k = 0; k < OBJECTS; k++) {
            void *h = *object_at(&good, k);
            mlsys_kind kind;
            check_ok(mlsys_handle_kind(h, &kind));
            if (calls[i].kind == 0 || calls[i].kind == kind) check_ok(call(i, h));
        }
    objects_release(&good);
}
END_TEST

START_TEST(every_argument_refuses_null_and_wrong_kinds) {
    good = objects_create(NULL);
    for (int i = 0; i < CALL_COUNT; i++) {
        expect_refused(i, NULL, "is NULL");
        for (int k = 0; k < OBJECTS; k++) {
            void *h = *object_at(&good, k);
            mlsys_kind kind;
            check_ok(mlsys_handle_kind(h, &kind));
            if (calls[i].kind && calls[i].kind != kind) expect_refused(i, h, "is a ");
        }
    }
    objects_release(&good);
}
END_TEST

START_TEST(every_argument_refuses_forged_handles) {
    test_random r = test_random_seed("forged", 6);
    good = objects_create(NULL);
    int local = 0;
    for (int i = 0; i < CALL_COUNT; i++) {
        expect_refused(i, &local, "is not a handle"); /* an address */
        expect_refused(i, (void *)(intptr_t)-1, "is not a handle");
        expect_refused(i, (void *)1, "is not a handle");
        for (int k = 0; k < OBJECTS; k++) {
            uint64_t h = (uint64_t)(uintptr_t)*object_at(&good, k);
            expect_refused(i, (void *)(h & ~(uint64_t)1), "is ");
            expect_refused(i, (void *)(h + ((uint64_t)1 << 32)), "is "); /* future generation */
            expect_refused(i, (void *)(h | (uint64_t)1 << 63), "is ");
            expect_refused(i, (void *)(h ^ 0x80), "is ");                    /* unknown kind */
            expect_refused(i, (void *)(h | (uint64_t)0xffffff << 8), "is "); /* slot never used */
        }
        for (int n = 0; n < 2000; n++) {
            uint64_t h = test_bits(&r);
            bool real = false;
            for (int k = 0; k < OBJECTS; k++)
                real = real || h == (uint64_t)(uintptr_t)*object_at(&good, k);
            if (!real) REQUIRE(call(i, (void *)h) == MLSYS_E_HANDLE);
        }
    }
    objects_release(&good);
}
END_TEST

START_TEST(every_argument_refuses_released_handles) {
    good = objects_create(NULL);
    objects dead = objects_create(NULL);
    objects_release(&dead);
    for (int i = 0; i < CALL_COUNT; i++)
        for (int k = 0; k < OBJECTS; k++) {
            void *h = *object_at(&dead, k);
            mlsys_kind kind = k == 0   ? MLSYS_KIND_CONFIG
                              : k == 1 ? MLSYS_KIND_CTX
                              : k == 2 ? MLSYS_KIND_DEVICE
                              : k == 3 ? MLSYS_KIND_STREAM
                                       : MLSYS_KIND_TENSOR;
            if (!calls[i].kind || calls[i].kind == kind)
                expect_refused(i, h, "is a released handle");
            else
                REQUIRE(call(i, h) == MLSYS_E_HANDLE);
        }
    /* The slots are used again by objects of the same kinds: the old names stay dead. */
    objects again = objects_create(NULL);
    for (int i = 0; i < CALL_COUNT; i++)
        for (int k = 0; k < OBJECTS; k++)
            REQUIRE(call(i, *object_at(&dead, k)) == MLSYS_E_HANDLE);
    objects_release(&again);
    objects_release(&good);
}
END_TEST

START_TEST(released_twice) {
    objects o = objects_create(NULL);
    ck_assert_int_eq(mlsys_release(NULL), MLSYS_OK);
    for (int k = OBJECTS - 1; k >= 0; k--) {
        void *h = *object_at(&o, k);
        check_ok(mlsys_retain(h));
        check_ok(mlsys_release(h));
        check_ok(mlsys_release(h));
        ck_assert_int_eq(mlsys_release(h), MLSYS_E_HANDLE);
        ck_assert_str_eq(mlsys_last_error(), "release: handle is a released handle");
        ck_assert_int_eq(mlsys_retain(h), MLSYS_E_HANDLE);
    }
}
END_TEST

/* ---- fork ----------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
enum { CHILD_THREADS = 1 }; /* TSan allows no threads after a fork */
#else
enum { CHILD_THREADS = 3 };
#endif

static void in_child(int parent) {
    char want[128];
    for (int i = 0; i < CALL_COUNT; i++)
        for (int k = 0; k < OBJECTS; k++) {
            /* Some calls pin two handles; the first one that is checked is named. */
            mlsys_status st = call(i, *object_at(&good, k));
            if (st != MLSYS_E_STATE && st != MLSYS_E_HANDLE) _exit(10 + i);
            snprintf(want, sizeof want, "was created in process %d before a fork", parent);
            if (st == MLSYS_E_STATE && !strstr(mlsys_last_error(), want)) _exit(100);
        }
    if (mlsys_stream_sync(good.stream) != MLSYS_E_STATE) _exit(101);
    if (mlsys_tensor_data(good.tensor, &(void *){NULL}, NULL) != MLSYS_E_STATE) _exit(102);
    mlsys_ctx own; /* a context of its own works */
    mlsys_config threads;
    if (mlsys_config_create(&threads) || mlsys_config_set_i64(threads, "threads", CHILD_THREADS) ||
        mlsys_ctx_create(threads, NULL, &own) || mlsys_release(own) || mlsys_release(threads))
        _exit(103);
    for (int k = 0; k < OBJECTS; k++)
        if (mlsys_release(*object_at(&good, k)) != MLSYS_OK) _exit(104);
    if (mlsys_release(good.ctx) != MLSYS_E_HANDLE) _exit(105);
    _exit(0);
}

START_TEST(a_forked_child_is_refused) {
    good = objects_create(NULL);
    int parent = (int)getpid(), result;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) in_child(parent);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert_msg(WIFEXITED(result) && WEXITSTATUS(result) == 0, "child: %d", WEXITSTATUS(result));
    check_ok(mlsys_stream_sync(good.stream)); /* the parent goes on */
    objects_release(&good);
}
END_TEST

int main(void) {
    Suite *s = suite_create("handle");
    TCase *t = tcase_create("handle");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_argument_accepts_the_right_kind);
    tcase_add_test(t, every_argument_refuses_null_and_wrong_kinds);
    tcase_add_test(t, every_argument_refuses_forged_handles);
    tcase_add_test(t, every_argument_refuses_released_handles);
    tcase_add_test(t, released_twice);
    tcase_add_test(t, a_forked_child_is_refused);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
