/* The thread pool: every item once, whoever runs it; nesting and concurrent callers; hosts
 * unharmed. */
#include "core/pool.h"
#include "core/fpenv.h"
#include "support/require.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS_MAX = 20000, WORKERS_MAX = 8 };

typedef struct tally {
    mlsi_pool *pool;
    _Atomic int seen[ITEMS_MAX];
    _Atomic int inside[WORKERS_MAX]; /* is a worker index in use twice at once? */
    _Atomic int clashes, out_of_range;
    int work;
} tally;

static void count_item(void *user, int64_t item, int worker) {
    tally *t = user;
    if (worker < 0 || worker >= mlsi_pool_threads(t->pool)) {
        t->out_of_range++;
        return;
    }
    if (atomic_fetch_add(&t->inside[worker], 1)) t->clashes++;
    for (int i = 0; i < t->work; i++)
        atomic_signal_fence(memory_order_seq_cst);
    t->seen[item]++;
    atomic_fetch_sub(&t->inside[worker], 1);
}

static mlsi_pool *pool_new(mlsi_alloc *a, int threads) {
    mlsi_pool *p;
    mlsi_alloc_init(a, NULL);
    REQUIRE(mlsi_pool_create(a, threads, &p) == MLSYS_OK);
    REQUIRE(mlsi_pool_threads(p) == threads);
    return p;
}

static void pool_end(mlsi_alloc *a, mlsi_pool *p) {
    mlsi_pool_destroy(p);
    REQUIRE(a->live_bytes == 0);
}

START_TEST(every_item_runs_once) {
    static tally t;
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000, ITEMS_MAX};
    for (int threads = 1; threads <= 5; threads++) {
        mlsi_alloc a;
        mlsi_pool *p = pool_new(&a, threads);
        for (int round = 0; round < 60; round++) {
            int64_t n = counts[round % 8];
            memset(&t, 0, sizeof t);
            t.pool = p;
            t.work = round % 3 * 50;
            mlsi_pool_run(p, n, count_item, &t);
            for (int64_t i = 0; i < ITEMS_MAX; i++)
                REQUIRE(t.seen[i] == (i < n));
            REQUIRE(!t.clashes && !t.out_of_range);
        }
        pool_end(&a, p);
    }
}
END_TEST

START_TEST(no_pool_is_serial) {
    static tally t;
    mlsi_pool_run(NULL, 100, count_item, &t);
    for (int i = 0; i < 100; i++)
        REQUIRE(t.seen[i] == 1);
    ck_assert_int_eq(mlsi_pool_threads(NULL), 1);
    mlsi_pool_destroy(NULL);
}
END_TEST

/* A worker that sleeps through a job must not run a part of it later. */
START_TEST(jobs_do_not_leak_into_each_other) {
    mlsi_alloc a;
    mlsi_pool *p = pool_new(&a, 4);
    static tally t;
    for (int round = 0; round < 20000; round++) {
        int n = 1 + round % 5;
        t.pool = p;
        mlsi_pool_run(p, n, count_item, &t);
        for (int i = 0; i < n; i++)
            REQUIRE(atomic_exchange(&t.seen[i], 0) == 1);
    }
    REQUIRE(!t.clashes && !t.out_of_range);
    pool_end(&a, p);
}
END_TEST

/* ---- the end of a job ------------------------------------------------------------------------ */

typedef struct slow {
    _Atomic int taken, done;
} slow;

/* The caller's item ends as soon as a worker has one, which takes much longer. */
static void slow_item(void *user, int64_t item, int worker) {
    slow *s = user;
    (void)item;
    if (worker == 0) {
        for (int i = 0; i < 1000000 && !atomic_load(&s->taken); i++)
            sched_yield();
        return;
    }
    s->taken++;
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    s->done++;
}

START_TEST(a_job_ends_after_its_last_item) {
    mlsi_alloc a;
    mlsi_pool *p = pool_new(&a, 3);
    int taken = 0;
    for (int round = 0; round < 20; round++) {
        slow s = {0};
        mlsi_pool_run(p, 3, slow_item, &s);
        REQUIRE(s.done == s.taken);
        taken += s.taken;
    }
    ck_assert_int_ge(taken, 20); /* workers did take part */
    pool_end(&a, p);
}
END_TEST

/* ---- nesting and concurrent callers ---------------------------------------------------------- */

typedef struct nest {
    mlsi_pool *pool;
    _Atomic int64_t total;
    _Atomic int wrong_worker;
} nest;

typedef struct inner {
    nest *n;
    int worker;
} inner;

static void inner_item(void *user, int64_t item, int worker) {
    inner *x = user;
    x->n->total += item;
    if (worker != x->worker) x->n->wrong_worker++; /* the scratch of the outer item's worker */
}

static void outer_item(void *user, int64_t item, int worker) {
    (void)item;
    inner x = {user, worker};
    mlsi_pool_run(x.n->pool, 10, inner_item, &x);
}

START_TEST(an_item_may_use_the_pool) {
    mlsi_alloc a;
    nest n = {.pool = pool_new(&a, 3)};
    mlsi_pool_run(n.pool, 200, outer_item, &n);
    ck_assert_int_eq(n.total, 200 * 45);
    ck_assert_int_eq(n.wrong_worker, 0);
    pool_end(&a, n.pool);
}
END_TEST

static void *caller_main(void *arg) {
    tally *t = arg;
    for (int round = 0; round < 300; round++) {
        mlsi_pool_run(t->pool, 50, count_item, t);
        for (int i = 0; i < 50; i++)
            if (atomic_exchange(&t->seen[i], 0) != 1) t->out_of_range++;
    }
    return NULL;
}

START_TEST(several_threads_may_call) {
    mlsi_alloc a;
    mlsi_pool *p = pool_new(&a, 3);
    static tally t[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        t[i].pool = p;
        pthread_create(&threads[i], NULL, caller_main, &t[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!t[i].clashes && !t[i].out_of_range);
    }
    pool_end(&a, p);
}
END_TEST

/* ---- the host ------------------------------------------------------------------------------- */

typedef struct facts {
    _Atomic int taken, runs, unblocked, odd_fp;
} facts;

static void look_around(void *user, int64_t item, int worker) {
    facts *f = user;
    (void)item;
    if (worker == 0) { /* wait until a worker has taken an item of this job */
        for (int i = 0; i < 1000000 && !atomic_load(&f->taken); i++)
            sched_yield();
        return;
    }
    f->taken = 1;
    f->runs++;
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (!sigismember(&set, SIGUSR1) || !sigismember(&set, SIGINT)) f->unblocked++;
    if (fegetround() != FE_TONEAREST) f->odd_fp++;
    volatile double tiny = 0x1p-1050;
    if (tiny / 2 == 0) f->odd_fp++; /* flushed to zero */
}

START_TEST(workers_block_signals_and_round_to_nearest) {
    mlsi_alloc a;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    fesetround(FE_UPWARD); /* a thread inherits this */
#if defined(__x86_64__)
    uint32_t csr = _mm_getcsr() | 0x8040; /* flush to zero, denormals are zero */
    _mm_setcsr(csr);
#endif
    mlsi_pool *p = pool_new(&a, 3);
    facts f = {0};
    for (int i = 0; i < 10; i++) {
        f.taken = 0;
        mlsi_pool_run(p, 8, look_around, &f);
    }
    pool_end(&a, p);
    ck_assert_int_eq(fegetround(), FE_UPWARD);
#if defined(__x86_64__)
    ck_assert_uint_eq(_mm_getcsr() & ~0x3fu, csr & ~0x3fu);
#endif
    fesetround(FE_TONEAREST);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ck_assert_int_ge(f.runs, 10);
    ck_assert_int_eq(f.unblocked, 0);
    ck_assert_int_eq(f.odd_fp, 0);
    ck_assert_int_eq(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
}
END_TEST

START_TEST(enter_and_leave_restore_the_caller) {
#if defined(__x86_64__)
    uint32_t odd = 0x1f80 | 0x8040 | 0x4000 | 0x21; /* FTZ, DAZ, upward, two sticky flags */
    _mm_setcsr(odd);
    mlsi_fpenv saved = mlsi_fp_enter();
    volatile double a = 0.1875f, b = 0x1p-124;
    volatile float product = (float)(a * b);
    uint32_t during = _mm_getcsr() & ~0x3fu;
    mlsi_fp_leave(saved);
    uint32_t after = _mm_getcsr();
    _mm_setcsr(0x1f80);
    ck_assert_uint_eq(during, 0x1f80);
    ck_assert_uint_eq(after, odd);
    ck_assert(product == 0x1.8p-127f);
#endif
}
END_TEST

START_TEST(pools_come_and_go) {
    for (int i = 0; i < 200; i++) {
        mlsi_alloc a;
        mlsi_pool *p = pool_new(&a, 1 + i % 4);
        if (i % 2) {
            nest n = {.pool = p};
            mlsi_pool_run(p, 5, outer_item, &n);
        }
        pool_end(&a, p);
    }
    mlsi_pool *p;
    ck_assert_int_eq(mlsi_pool_create(&mlsi_alloc_process, 0, &p), MLSYS_E_ARG);
    ck_assert_ptr_null(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_item_runs_once);
    tcase_add_test(t, no_pool_is_serial);
    tcase_add_test(t, jobs_do_not_leak_into_each_other);
    tcase_add_test(t, a_job_ends_after_its_last_item);
    tcase_add_test(t, an_item_may_use_the_pool);
    tcase_add_test(t, several_threads_may_call);
    tcase_add_test(t, workers_block_signals_and_round_to_nearest);
    tcase_add_test(t, enter_and_leave_restore_the_caller);
    tcase_add_test(t, pools_come_and_go);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
