/* Handles: lifetimes. Any order of release works, on any threads. */
#include "core/tensor.h"
#include "support/objects.h"
#include "support/random.h"
#include "support/require.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- order of release, hooks ----------------------------------------------------------------- */

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
    float memory[6];
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

int main(void) {
    Suite *s = suite_create("handle_life");
    TCase *t = tcase_create("handle_life");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, parents_outlive_their_users);
    tcase_add_test(t, one_device_per_context);
    tcase_add_test(t, any_order_of_release);
    tcase_add_test(t, statistics_count_children);
    tcase_add_test(t, many_threads_use_the_same_handles);
    tcase_add_test(t, one_of_many_releases_wins);
    tcase_add_test(t, single_threaded_objects_are_busy);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
