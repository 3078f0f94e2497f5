/* A job is opened on a gate. Workers enter an open gate, claim items until none is left, and leave;
 * the caller does the same, closes the gate and waits until it is empty. So a worker that wakes up
 * too late costs nothing, and a job of tiny items is finished by whoever is awake.
 *
 * Waiting is a short spin and then a futex, so an idle pool uses no processor time. */
#include "core/pool.h"

#include "core/faults.h"
#include "core/fork.h"
#include "core/fpenv.h"
#include "core/trace.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_NS = 20000 }; /* longer than the gap between two kernels, shorter than a time slice */

enum {
    GATE_OPEN = 1 << 30,
    GATE_AWAITED = 1 << 29, /* the caller sleeps until the gate is empty */
    GATE_INSIDE = GATE_AWAITED - 1
};

typedef struct pool_worker {
    mlsi_pool *pool;
    int index; /* the caller is 0 */
    pthread_t thread;
} pool_worker;

struct mlsi_pool {
    mlsi_alloc *alloc;
    int threads; /* the caller and workers */
    uint32_t epoch;
    pool_worker *workers;              /* threads - 1 */
    _Alignas(64) _Atomic int taken;    /* a caller has the workers */
    _Alignas(64) _Atomic uint32_t job; /* changes with each job; workers sleep on it */
    _Atomic int sleepers;
    _Atomic int stop;
    mlsi_pool_fn fn; /* written while the gate is closed and empty */
    void *user;
    int64_t n;
    _Alignas(64) _Atomic uint32_t gate;
    _Alignas(64) _Atomic int64_t next;
};

/* The pool and worker whose item this thread is running. */
static _Thread_local const mlsi_pool *current_pool;
static _Thread_local int current_worker;

static void futex_wait(_Atomic uint32_t *word, uint32_t while_equal) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_equal, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin while *word == value, at most SPIN_NS. */
static bool spin_until_changed(_Atomic uint32_t *word, uint32_t value) {
    int64_t end = 0;
    for (;;) {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
            relax();
        }
        int64_t now = mlsi_now_ns();
        if (!end) end = now + SPIN_NS;
        if (now >= end) return false;
    }
}

static void run_items(mlsi_pool *p, int worker) {
    const mlsi_pool *outer_pool = current_pool;
    int outer_worker = current_worker;
    current_pool = p;
    current_worker = worker;
    mlsi_pool_fn fn = p->fn;
    void *user = p->user;
    int64_t n = p->n;
    for (;;) {
        int64_t item = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (item >= n) break;
        fn(user, item, worker);
    }
    current_pool = outer_pool;
    current_worker = outer_worker;
}

static bool gate_enter(mlsi_pool *p) {
    uint32_t g = atomic_load_explicit(&p->gate, memory_order_relaxed);
    while (g & GATE_OPEN)
        if (atomic_compare_exchange_weak_explicit(&p->gate, &g, g + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void gate_leave(mlsi_pool *p) {
    uint32_t g = atomic_fetch_sub_explicit(&p->gate, 1, memory_order_acq_rel) - 1;
    if ((g & GATE_AWAITED) && !(g & GATE_INSIDE)) futex_wake(&p->gate, 1);
}

/* Close and wait for the workers inside. */
static void gate_close(mlsi_pool *p) {
    uint32_t g = atomic_fetch_and_explicit(&p->gate, ~(uint32_t)GATE_OPEN, memory_order_acq_rel) &
                 ~(uint32_t)GATE_OPEN;
    while (g & GATE_INSIDE && !mlsi_fault(MLSI_FAULT_POOL_WAIT)) {
        if (g & GATE_AWAITED) {
            futex_wait(&p->gate, g);
        } else if (!spin_until_changed(&p->gate, g)) {
            g = atomic_fetch_or(&p->gate, GATE_AWAITED) | GATE_AWAITED;
            continue;
        }
        g = atomic_load_explicit(&p->gate, memory_order_acquire);
    }
    atomic_store_explicit(&p->gate, 0, memory_order_relaxed);
}

static void *worker_main(void *arg) {
    const pool_worker *self = arg;
    mlsi_pool *p = self->pool;
    if (!mlsi_fault(MLSI_FAULT_POOL_FP_STATE)) mlsi_fp_enter();
    uint32_t seen = 0;
    for (;;) {
        if (!spin_until_changed(&p->job, seen)) {
            atomic_fetch_add(&p->sleepers, 1);
            while (atomic_load(&p->job) == seen)
                futex_wait(&p->job, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        seen = atomic_load_explicit(&p->job, memory_order_acquire);
        if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return NULL;
        if (!gate_enter(p)) continue;
        run_items(p, self->index);
        gate_leave(p);
    }
}

/* Start workers with all signals blocked: a host's handlers never run on them. */
static void start_workers(mlsi_pool *p, int threads) {
    sigset_t all, before;
    sigfillset(&all);
    if (mlsi_fault(MLSI_FAULT_POOL_SIGNALS)) sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < threads; i++) {
        pool_worker *w = &p->workers[i - 1];
        w->pool = p;
        w->index = i;
        if (pthread_create(&w->thread, NULL, worker_main, w)) break;
        p->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

mlsys_status mlsi_pool_create(mlsi_alloc *a, int threads, mlsi_pool **out) {
    *out = NULL;
    if (threads < 1) return mlsi_fail(MLSYS_E_ARG, "pool: %d threads", threads);
    mlsi_pool *p;
    MLSI_TRY(MLSI_NEW(a, &p));
    p->alloc = a;
    p->epoch = mlsi_fork_epoch();
    p->threads = 1;
    mlsys_status st = MLSI_NEW_N(a, threads, &p->workers);
    if (st != MLSYS_OK) {
        mlsi_mem_free(a, p);
        return st;
    }
    start_workers(p, threads);
    *out = p;
    return MLSYS_OK;
}

void mlsi_pool_destroy(mlsi_pool *pool) {
    if (!pool) return;
    if (pool->epoch == mlsi_fork_epoch()) { /* a forked child has no workers to join */
        atomic_store(&pool->stop, 1);
        atomic_fetch_add(&pool->job, 1);
        futex_wake(&pool->job, INT_MAX);
        for (int i = 0; i < pool->threads - 1; i++)
            pthread_join(pool->workers[i].thread, NULL);
    }
    mlsi_mem_free(pool->alloc, pool->workers);
    mlsi_mem_free(pool->alloc, pool);
}

int mlsi_pool_threads(const mlsi_pool *pool) { return pool ? pool->threads : 1; }

static void run_alone(const mlsi_pool *pool, int64_t n, mlsi_pool_fn fn, void *user) {
    int worker = pool && current_pool == pool ? current_worker : 0;
    for (int64_t i = 0; i < n; i++)
        fn(user, i, worker);
}

void mlsi_pool_run(mlsi_pool *pool, int64_t n, mlsi_pool_fn fn, void *user) {
    int free_ = 0;
    if (n < 2 || !pool || pool->threads < 2 || current_pool == pool ||
        !atomic_compare_exchange_strong_explicit(&pool->taken, &free_, 1, memory_order_acquire,
                                                 memory_order_relaxed)) {
        run_alone(pool, n, fn, user);
        return;
    }
    pool->fn = fn;
    pool->user = user;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->gate, GATE_OPEN, memory_order_release);
    atomic_fetch_add(&pool->job, 1);
    if (atomic_load(&pool->sleepers)) {
        int64_t wanted = n - 1 < pool->threads - 1 ? n - 1 : pool->threads - 1;
        futex_wake(&pool->job, (int)wanted);
    }
    run_items(pool, 0);
    gate_close(pool);
    atomic_store_explicit(&pool->taken, 0, memory_order_release);
}
