/* Handles: misuse of every argument is an answer, never a crash; any order of release works. */
#include "core/handle.h"
#include "support/random.h"
#include "support/require.h"

#include "core/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct objects {
    mlsys_config config;
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_tensor tensor;
} objects;

enum { OBJECTS = 5 };

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static objects objects_create(const mlsys_hooks *hooks) {
    objects o = {0};
    check_ok(mlsys_config_create(&o.config));
    check_ok(mlsys_config_set_i64(o.config, "threads", 2));
    check_ok(mlsys_ctx_create(o.config, hooks, &o.ctx));
    check_ok(mlsys_device_get(o.ctx, MLSYS_CPU, 0, &o.device));
    check_ok(mlsys_stream_create(o.device, NULL, &o.stream));
    check_ok(mlsys_tensor_create(o.device, MLSYS_F32, 2, (int64_t[]){2, 3}, &o.tensor));
    return o;
}

static void **object_at(objects *o, int i) {
    void **all[OBJECTS] = {(void **)&o->config, (void **)&o->ctx, (void **)&o->device,
                           (void **)&o->stream, (void **)&o->tensor};
    return all[i];
}

static void objects_release(objects *o) {
    for (int i = 0; i < OBJECTS; i++)
        check_ok(mlsys_release(*object_at(o, i)));
}

/* ---- every function that takes a handle -------------------------------------------------------
 */

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

/* A device whose user left lives on in its tensor, and comes back by name. */
START_TEST(parents_outlive_their_users) {
    objects o = objects_create(NULL);
    check_ok(mlsys_release(o.ctx));
    check_ok(mlsys_release(o.device));
    ck_assert_int_eq(mlsys_stream_create(o.device, NULL, &(mlsys_stream){0}), MLSYS_E_HANDLE);
    mlsys_device device;
    check_ok(mlsys_tensor_device(o.tensor, &device));
    ck_assert_ptr_eq(device, o.device);
    mlsys_tensor t;
    check_ok(mlsys_tensor_create(device, MLSYS_U8, 0, NULL, &t));
    check_ok(mlsys_release(device));
    check_ok(mlsys_release(t));
    check_ok(mlsys_release(o.tensor));
    check_ok(mlsys_release(o.stream));
    check_ok(mlsys_release(o.config));
}
END_TEST

START_TEST(one_device_per_context) {
    objects o = objects_create(NULL);
    mlsys_device again;
    for (int i = 0; i < 3; i++) {
        check_ok(mlsys_device_get(o.ctx, MLSYS_CPU, 0, &again));
        ck_assert_ptr_eq(again, o.device);
        check_ok(mlsys_release(again));
    }
    check_ok(mlsys_release(o.tensor));
    check_ok(mlsys_release(o.stream));
    check_ok(mlsys_release(o.device));
    check_ok(mlsys_device_get(o.ctx, MLSYS_CPU, 0, &again)); /* a new object */
    ck_assert_ptr_ne(again, o.device);
    ck_assert_int_eq(mlsys_device_get(o.ctx, MLSYS_CPU, 1, &o.device), MLSYS_E_DEVICE);
    ck_assert_int_eq(mlsys_device_get(o.ctx, 3, 0, &o.device), MLSYS_E_ARG);
    check_ok(mlsys_release(again));
    check_ok(mlsys_release(o.ctx));
    check_ok(mlsys_release(o.config));
}
END_TEST

/* ---- order of release, hooks ------------------------------------------------------------------
 */

typedef struct counts {
    _Atomic int64_t blocks, bytes;
    _Atomic int destroyed;
} counts;

static void *counted_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                           uint64_t align) {
    counts *c = user;
    void *p = NULL;
    if (type != MLSYS_CPU || index || posix_memalign(&p, align, bytes)) return NULL;
    c->blocks++;
    c->bytes += (int64_t)bytes;
    return p;
}
static void counted_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                            uint64_t bytes) {
    (void)type, (void)index;
    counts *c = user;
    if (c->destroyed) abort(); /* destroy comes after the last use */
    c->blocks--;
    c->bytes -= (int64_t)bytes;
    free(p);
}
static void counted_destroy(void *user) { ((counts *)user)->destroyed++; }

static mlsys_hooks counting_hooks(counts *c) {
    mlsys_hooks h;
    mlsys_hooks_init(&h, sizeof h);
    h.user = c;
    h.alloc = counted_alloc;
    h.dealloc = counted_dealloc;
    h.destroy = counted_destroy;
    return h;
}

START_TEST(any_order_of_release) {
    for (int order = 0; order < 720; order++) {
        counts c = {0};
        mlsys_hooks h = counting_hooks(&c);
        objects o = objects_create(&h);
        mlsys_tensor view;
        check_ok(mlsys_tensor_reverse(o.tensor, 0, &view));
        void *left[OBJECTS + 1];
        for (int k = 0; k < OBJECTS; k++)
            left[k] = *object_at(&o, k);
        left[OBJECTS] = view;
        for (int n = OBJECTS + 1, code = order; n > 0; n--) {
            int pick = code % n;
            code /= n;
            REQUIRE(c.destroyed == 0 || left[pick] == o.config);
            check_ok(mlsys_release(left[pick]));
            left[pick] = left[n - 1];
        }
        REQUIRE(c.destroyed == 1);
        REQUIRE(c.blocks == 0 && c.bytes == 0);
    }
}
END_TEST

START_TEST(statistics_count_children) {
    counts c = {0};
    mlsys_hooks h = counting_hooks(&c);
    objects o = objects_create(&h);
    mlsys_stats s = {.size = sizeof s};
    check_ok(mlsys_ctx_stats(o.ctx, &s));
    ck_assert_uint_eq(s.live_handles, 3);
    ck_assert_uint_eq(s.live_bytes, (uint64_t)c.bytes);
    ck_assert_uint_ge(s.peak_bytes, s.live_bytes);
    ck_assert_uint_ge(s.allocations, (uint64_t)c.blocks);
    check_ok(mlsys_release(o.tensor));
    s.live_handles = 77;
    s.size = 24; /* an older caller: nothing past 24 bytes is written */
    check_ok(mlsys_ctx_stats(o.ctx, &s));
    ck_assert_uint_eq(s.live_handles, 77);
    s.size = sizeof s;
    check_ok(mlsys_ctx_stats(o.ctx, &s));
    ck_assert_uint_eq(s.live_handles, 2);
    s.size = 4;
    ck_assert_int_eq(mlsys_ctx_stats(o.ctx, &s), MLSYS_E_ARG);
    check_ok(mlsys_release(o.stream));
    check_ok(mlsys_release(o.device));
    check_ok(mlsys_release(o.ctx));
    check_ok(mlsys_release(o.config));
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct hammer {
    objects *o;
    int rounds, thread;
} hammer;

static void *hammer_main(void *arg) {
    hammer *h = arg;
    test_random r = {(uint64_t)h->thread};
    for (int i = 0; i < h->rounds; i++) {
        mlsys_tensor v = NULL;
        mlsys_device d = NULL;
        void *any = *object_at(h->o, (int)test_int(&r, 1, OBJECTS - 1));
        mlsys_kind kind;
        check_ok(mlsys_retain(any));
        check_ok(mlsys_handle_kind(any, &kind));
        check_ok(mlsys_release(any));
        check_ok(mlsys_tensor_slice(h->o->tensor, 0, 0, 1, 1, &v));
        check_ok(mlsys_device_get(h->o->ctx, MLSYS_CPU, 0, &d));
        check_ok(mlsys_release(d));
        check_ok(mlsys_release(v));
        mlsys_status st = mlsys_stream_sync(h->o->stream);
        if (st != MLSYS_OK && st != MLSYS_E_BUSY) check_ok(st);
    }
    return NULL;
}

START_TEST(many_threads_use_the_same_handles) {
    counts c = {0};
    mlsys_hooks hooks = counting_hooks(&c);
    objects o = objects_create(&hooks);
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    hammer h[THREADS];
    for (int i = 0; i < THREADS; i++) {
        h[i] = (hammer){&o, 3000, i};
        pthread_create(&threads[i], NULL, hammer_main, &h[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    objects_release(&o);
    ck_assert_int_eq(c.destroyed, 1);
    ck_assert_int_eq(c.blocks, 0);
}
END_TEST

typedef struct racer {
    _Atomic(void *) *handle;
    _Atomic int *phase;
    int released, thread;
} racer;

/* All threads release the same single reference: exactly one succeeds. */
static void *racer_main(void *arg) {
    racer *r = arg;
    for (int round = 1; round <= 2000; round++) {
        while (atomic_load(r->phase) < round)
            sched_yield();
        void *h = atomic_load(r->handle);
        mlsys_dtype dtype;
        mlsys_status st = mlsys_tensor_dtype(h, &dtype);
        if (st != MLSYS_OK && st != MLSYS_E_HANDLE) check_ok(st);
        if (mlsys_release(h) == MLSYS_OK) r->released++;
        atomic_fetch_sub(&r->phase[1], 1);
    }
    return NULL;
}

START_TEST(one_of_many_releases_wins) {
    objects o = objects_create(NULL);
    enum { THREADS = 3 };
    _Atomic(void *) handle = NULL;
    _Atomic int phase[2] = {0, 0};
    pthread_t threads[THREADS];
    racer r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        r[i] = (racer){&handle, phase, 0, i};
        pthread_create(&threads[i], NULL, racer_main, &r[i]);
    }
    for (int round = 1; round <= 2000; round++) {
        mlsys_tensor t;
        check_ok(mlsys_tensor_create(o.device, MLSYS_U8, 0, NULL, &t));
        atomic_store(&handle, (void *)t);
        atomic_store(&phase[1], THREADS);
        atomic_store(&phase[0], round);
        while (atomic_load(&phase[1]))
            sched_yield();
    }
    int total = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        total += r[i].released;
    }
    ck_assert_int_eq(total, 2000);
    objects_release(&o);
}
END_TEST

START_TEST(single_threaded_objects_are_busy) {
    objects o = objects_create(NULL);
    mlsi_stream *s;
    check_ok(mlsi_pin_exclusive(o.stream, MLSYS_KIND_STREAM, "test: stream", &s));
    ck_assert_int_eq(mlsys_stream_sync(o.stream), MLSYS_E_BUSY);
    ck_assert_str_eq(mlsys_last_error(),
                     "stream_sync: stream: the stream is in use by another call");
    ck_assert_int_eq(mlsys_tensor_read(o.tensor, o.stream, memory, sizeof memory), MLSYS_E_BUSY);
    mlsi_unpin_exclusive(s);
    check_ok(mlsys_stream_sync(o.stream));
    mlsi_config *c;
    check_ok(mlsi_pin_exclusive(o.config, MLSYS_KIND_CONFIG, "test: config", &c));
    ck_assert_int_eq(mlsys_config_set_i64(o.config, "k", 1), MLSYS_E_BUSY);
    ck_assert_int_eq(mlsys_ctx_create(o.config, NULL, &(mlsys_ctx){0}), MLSYS_E_BUSY);
    mlsi_unpin_exclusive(c);
    objects_release(&o);
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
    tcase_add_test(t, parents_outlive_their_users);
    tcase_add_test(t, one_device_per_context);
    tcase_add_test(t, any_order_of_release);
    tcase_add_test(t, statistics_count_children);
    tcase_add_test(t, many_threads_use_the_same_handles);
    tcase_add_test(t, one_of_many_releases_wins);
    tcase_add_test(t, single_threaded_objects_are_busy);
    tcase_add_test(t, a_forked_child_is_refused);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
