/* The caching allocator of CUDA devices, on the fake driver: blocks are apart, are reused behind the work that may use them, join
 * again, and keep to the limit. */
#include "cuda/device.h"
#include "support/fake_cuda.h"
#include "support/failing_alloc.h"
#include "support/random.h"
#include "support/require.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static const mlsi_accelerator *acc = &mlsi_cuda_accelerator;
static fake_cuda *fake;
static failing_alloc host;
static mlsi_alloc host_alloc;
static mlsi_accel *device;

static void open_device(uint64_t limit) {
    mlsys_hooks hooks;
    fake = fake_cuda_use(false);
    host = (failing_alloc){0};
    hooks = failing_alloc_hooks(&host);
    mlsi_alloc_init(&host_alloc, &hooks);
    device = fake_cuda_open(&host_alloc, limit);
}

static void setup(void) { open_device(0); }

static void teardown(void) {
    unsetenv("MLSYS_CUDA_GUARD");
    acc->close(device);
    fake_cuda_check_clean(fake);
    ck_assert_int_eq(host.blocks, 0);
}

static char *get(uint64_t bytes) {
    char *p;
    fake_cuda_ok(acc->allocate(device, bytes, &p));
    REQUIRE(p && (uintptr_t)p % MLSI_ACCEL_ALIGN == 0);
    return p;
}

static mlsi_accel_memory stats(void) {
    mlsi_accel_memory m;
    acc->memory(device, &m);
    return m;
}

/* ---- reference: what is out, and what was released under which work ------------------------------- */

typedef struct span {
    char *p;
    uint64_t bytes;
    int state; /* 0 none, 1 out, 2 released */
    unsigned char byte;
    uint64_t due[2]; /* the work that was queued when it was released */
} span;

/* Two queues that count in memory what they have done. */
static mlsi_queue *queues[2];
static char *counters[2];
static uint64_t queued[2];

static bool is_done(int k, uint64_t due) {
    return queued[k] - (unsigned char)(queued[k] - (unsigned char)counters[k][0]) >= due;
}

static bool is_free(const span *s) {
    return !s->state || (s->state == 2 && is_done(0, s->due[0]) && is_done(1, s->due[1]));
}

enum { SPANS = 300 };

static void expect_apart(const span *all, const char *p, uint64_t bytes) {
    for (int i = 0; i < SPANS; i++)
        REQUIRE(is_free(&all[i]) || p + bytes <= all[i].p || p >= all[i].p + all[i].bytes);
}

static uint64_t random_size(test_random *r) {
    static const uint64_t most[] = {64, 4 * KIB, MIB, 3 * MIB, 12 * MIB};
    return (uint64_t)test_int(r, 0, (int64_t)most[test_int(r, 0, 4)]);
}

/* Memory is written whole (up to 64 KiB of it) when it is given, and still so when it is released. */
static void take_span(test_random *r, span *all, span *s) {
    uint64_t bytes = random_size(r);
    char *p = get(bytes);
    expect_apart(all, p, bytes ? bytes : 1);
    *s = (span){p, bytes ? bytes : 1, 1, (unsigned char)test_bits(r), {0, 0}};
    memset(p, s->byte, bytes < 64 * KIB ? bytes : 64 * KIB);
}

static void release_span(span *s) {
    for (uint64_t i = 0; i < s->bytes && i < 64 * KIB && s->byte; i += 61)
        REQUIRE((unsigned char)s->p[i] == s->byte || s->bytes == 1);
    acc->release(device, s->p);
    s->state = 2;
    s->due[0] = queued[0], s->due[1] = queued[1];
}

static void expect_used(const span *all) {
    uint64_t least = 0;
    for (int i = 0; i < SPANS; i++)
        if (all[i].state == 1) least += all[i].bytes;
    mlsi_accel_memory m = stats();
    REQUIRE(m.used >= least && m.most >= m.used);
    REQUIRE(m.used + m.cached == fake->bytes);
    REQUIRE(m.device_free == fake->memory - fake->bytes && m.device_total == fake->memory);
}

START_TEST(random_use_keeps_blocks_apart) {
    static span all[SPANS];
    test_random r = test_random_seed("blocks", 0x5eed0 + (uint64_t)_i);
    memset(all, 0, sizeof all);
    fake->deferred = _i % 2;
    fake->memory = (uint64_t)4 << 30;
    for (int k = 0; k < 2; k++) {
        fake_cuda_ok(acc->queue_create(device, &queues[k]));
        counters[k] = get(64);
        counters[k][0] = 0;
        queued[k] = 0;
    }
    for (int step = 0; step < 4000; step++) {
        span *s = &all[test_int(&r, 0, SPANS - 1)];
        int k = (int)test_int(&r, 0, 1);
        if (s->state == 1)
            release_span(s);
        else if (is_free(s))
            take_span(&r, all, s);
        if (test_int(&r, 0, 9) == 0)
            fake_cuda_ok(acc->fill(queues[k], counters[k], (uint8_t)++queued[k], 64));
        if (test_int(&r, 0, 79) == 0) fake_cuda_ok(acc->sync(queues[k]));
        if (test_int(&r, 0, 499) == 0) fake_cuda_ok(acc->trim(device));
        expect_used(all);
    }
    for (int i = 0; i < SPANS; i++)
        if (all[i].state == 1) release_span(&all[i]);
    for (int k = 0; k < 2; k++) {
        acc->queue_destroy(queues[k]);
        acc->release(device, counters[k]);
    }
    ck_assert_uint_eq(stats().used, 0);
    fake_cuda_ok(acc->trim(device));
    ck_assert_uint_eq(stats().cached, 0);
    ck_assert_uint_eq(fake->bytes, 0);
}
END_TEST

/* ---- sizes ------------------------------------------------------------------------------------------- */

START_TEST(small_requests_share_slabs) {
    char *p[64];
    for (int i = 0; i < 64; i++)
        p[i] = get(32 * KIB - (uint64_t)i);
    ck_assert_uint_eq(stats().allocations, 1);
    ck_assert_uint_eq(stats().used, 2 * MIB);
    for (int i = 0; i < 64; i++)
        acc->release(device, p[i * 37 % 64]);
    ck_assert_uint_eq(mlsi_cuda_largest_hole(&device->memory), 2 * MIB);
    ck_assert_uint_eq(stats().used, 0);
    ck_assert_uint_eq(stats().most, 2 * MIB);
}
END_TEST

START_TEST(large_requests_get_segments) {
    char *a = get(MIB + 1), *b = get(10 * MIB), *c = get(10 * MIB + 1);
    ck_assert_uint_eq(stats().allocations, 2); /* a and b in one of 20 MiB, c its own 12 */
    ck_assert_uint_eq(stats().used, 2 * MIB + 10 * MIB + 12 * MIB);
    ck_assert_uint_eq(stats().cached, 8 * MIB);
    acc->release(device, a), acc->release(device, c);
    char *d = get(7 * MIB); /* the hole of 8, not the 12 */
    ck_assert(d == b + 10 * MIB);
    acc->release(device, b), acc->release(device, d);
    ck_assert_uint_eq(mlsi_cuda_largest_hole(&device->memory), 20 * MIB);
}
END_TEST

START_TEST(the_best_fit_is_taken) {
    char *p[7];
    for (int i = 0; i < 7; i++)
        p[i] = get((uint64_t)(i % 2 ? 8 : 8 * (i + 1)) * KIB);
    acc->release(device, p[2]),
        acc->release(device, p[4]); /* holes of 24 and 40 KiB, and the rest */
    ck_assert(get(20 * KIB) == p[2]);
    ck_assert(get(20 * KIB) == p[4]);
}
END_TEST

START_TEST(nothing_is_an_address_too) {
    char *p = get(0), *q = get(0);
    ck_assert(p != q);
    acc->release(device, p), acc->release(device, q);
    acc->release(device, NULL);
    acc->release(device, p + 1); /* unknown: nothing happens */
    ck_assert_uint_eq(stats().used, 0);
}
END_TEST

/* ---- the end of memory ------------------------------------------------------------------------------- */

static void expect_nomem(uint64_t bytes, const char *part) {
    char *p = (char *)1;
    ck_assert_int_eq(acc->allocate(device, bytes, &p), MLSYS_E_NOMEM);
    ck_assert_ptr_null(p);
    if (!strstr(mlsys_last_error(), part)) ck_abort_msg("%s", mlsys_last_error());
}

START_TEST(the_limit_holds) {
    acc->close(device);
    device = fake_cuda_open(&host_alloc, 30 * MIB);
    char *a = get(20 * MIB), *b = get(6 * MIB); /* b: no room for a segment of 20 */
    ck_assert_uint_le(fake->bytes, 30 * MIB);
    expect_nomem(6 * MIB, "6291456 bytes asked; used 27262976, kept 0 with a largest hole of 0, "
                          "limit 31457280, free on the device 1046478848");
    acc->release(device, a);
    a = get(21 * MIB + 1); /* the kept 20 are given back for it */
    ck_assert_uint_le(fake->bytes, 30 * MIB);
    acc->release(device, a), acc->release(device, b);
}
END_TEST

START_TEST(a_full_device_is_trimmed_first) {
    fake->memory = 64 * MIB;
    char *a = get(30 * MIB), *b = get(30 * MIB);
    acc->release(device, a), acc->release(device, b);
    a = get(50 * MIB);
    ck_assert_int_eq(fake->frees, 2);
    expect_nomem(20 * MIB, "free on the device 14680064");
    expect_nomem(UINT64_MAX, "18446744073709551615 bytes asked");
    acc->release(device, a);
    acc->release(device, get(60 * MIB));
}
END_TEST

START_TEST(memory_behind_work_is_waited_for_before_none_is_left) {
    mlsi_queue *q;
    fake->memory = 40 * MIB;
    fake->deferred = true;
    fake_cuda_ok(acc->queue_create(device, &q));
    char *a = get(30 * MIB);
    fake_cuda_ok(acc->fill(q, a, 7, 30 * MIB));
    acc->release(device, a);
    ck_assert(get(30 * MIB) == a);
    ck_assert_int_eq(a[30 * MIB - 1], 7); /* it ran */
    ck_assert_int_eq(fake->frees, 0);
    acc->queue_destroy(q);
}
END_TEST

/* ---- fences -------------------------------------------------------------------------------------------- */

START_TEST(fences_are_shared_and_events_reused) {
    mlsi_queue *q;
    char *p[100];
    fake->deferred = true;
    fake_cuda_ok(acc->queue_create(device, &q));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            p[i] = get(100);
        fake_cuda_ok(acc->fill(q, p[0], 1, 100));
        for (int i = 0; i < 100; i++)
            acc->release(device, p[i]);
        ck_assert_int_le(fake->events, 2);
        fake_cuda_ok(acc->sync(q));
    }
    acc->queue_destroy(q);
}
END_TEST

START_TEST(without_a_fence_the_queue_is_waited_for) {
    mlsi_queue *q;
    fake->deferred = true;
    fake_cuda_ok(acc->queue_create(device, &q));
    char *p = get(100), *other = get(100);
    fake_cuda_ok(acc->fill(q, other, 9, 100));
    fake_cuda_fail(fake, "cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    acc->release(device, p);
    ck_assert_int_eq(other[99], 9);
    ck_assert(get(100) == p);
    host.fail_at = host.calls + 1; /* no memory for the fence */
    fake_cuda_ok(acc->fill(q, other, 8, 100));
    acc->release(device, p);
    ck_assert_int_eq(other[99], 8);
    acc->queue_destroy(q);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------------------- */

static void *use_from_thread(void *seed) {
    test_random r = {(uint64_t)(uintptr_t)seed};
    mlsi_queue *q;
    char *p[20] = {NULL};
    if (acc->queue_create(device, &q)) return "no queue";
    for (int i = 0; i < 2000; i++) {
        int k = (int)test_int(&r, 0, 19);
        unsigned char mark = (unsigned char)(uintptr_t)seed, seen[16];
        if (p[k]) {
            if (acc->download(q, seen, p[k], 16)) return "no download";
            for (int j = 0; j < 16; j++)
                if (seen[j] != mark) return "another thread's bytes";
            acc->release(device, p[k]);
            p[k] = NULL;
        } else {
            if (acc->allocate(device, 16 + random_size(&r) % (64 * KIB), &p[k])) return "no memory";
            if (acc->fill(q, p[k], mark, 16)) return "no fill";
        }
    }
    for (int k = 0; k < 20; k++)
        acc->release(device, p[k]);
    acc->queue_destroy(q);
    return NULL;
}

START_TEST(threads_share_a_device) {
    pthread_t threads[4];
    fake->deferred = true;
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_from_thread, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong) ck_abort_msg("%s", (const char *)wrong);
    }
    ck_assert_uint_eq(stats().used, 0);
}
END_TEST

/* ---- guard, picture ---------------------------------------------------------------------------------------- */

START_TEST(guards_find_what_is_written_outside) {
    static const struct {
        int at;
        const char *words;
    } rows[] = {{-1, "1 bytes were written before allocation 2 (of 1000 bytes), the first 1 bytes"},
                {-200, "1 bytes were written before allocation 2 (of 1000 bytes), the first 200"},
                {1000, "1 bytes were written behind allocation 2 (of 1000 bytes), the first 0"},
                {1255, "1 bytes were written behind allocation 2 (of 1000 bytes), the first 255"}};
    char *p, *q;
    acc->close(device);
    setenv("MLSYS_CUDA_GUARD", "1", 1);
    device = fake_cuda_open(&host_alloc, 0);
    p = get(1000), q = get(1000);
    memset(p, 1, 1000), memset(q, 1, 1000);
    acc->release(device, p);
    ck_assert_int_eq(acc->allocate(device, 1, &p), MLSYS_OK);
    q[rows[_i].at] ^= 1;
    acc->release(device, q);
    ck_assert_int_eq(acc->allocate(device, 1, &p), MLSYS_E_DEVICE);
    if (!strstr(mlsys_last_error(), rows[_i].words)) ck_abort_msg("%s", mlsys_last_error());
}
END_TEST

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

START_TEST(the_picture_has_each_block) {
    mlsi_text svg;
    mlsi_text_init(&svg, &host_alloc);
    char *a = get(100), *b = get(200), *c = get(3 * MIB);
    acc->release(device, a);
    fake_cuda_ok(mlsi_cuda_memory_svg(device, &svg));
    ck_assert_int_eq(count_of(svg.data, "<svg"), 1);
    ck_assert_int_eq(count_of(svg.data, "</svg>"), 1);
    ck_assert_int_eq(count_of(svg.data, "class=\"used\""), 2);
    ck_assert_int_eq(count_of(svg.data, "class=\"free\""), 3);
    ck_assert_int_eq(count_of(svg.data, "class=\"waiting\""), 0);
    ck_assert_int_eq(count_of(svg.data, "200 bytes asked"), 1);
    mlsi_text_free(&svg);
    acc->release(device, b), acc->release(device, c);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_memory");
    TCase *t = tcase_create("cuda_memory");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, random_use_keeps_blocks_apart, 0, 6);
    tcase_add_test(t, small_requests_share_slabs);
    tcase_add_test(t, large_requests_get_segments);
    tcase_add_test(t, the_best_fit_is_taken);
    tcase_add_test(t, nothing_is_an_address_too);
    tcase_add_test(t, the_limit_holds);
    tcase_add_test(t, a_full_device_is_trimmed_first);
    tcase_add_test(t, memory_behind_work_is_waited_for_before_none_is_left);
    tcase_add_test(t, fences_are_shared_and_events_reused);
    tcase_add_test(t, without_a_fence_the_queue_is_waited_for);
    tcase_add_test(t, threads_share_a_device);
    tcase_add_loop_test(t, guards_find_what_is_written_outside, 0, 4);
    tcase_add_test(t, the_picture_has_each_block);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
