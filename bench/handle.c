/* What the safety of handles costs: one checked call that does nothing else, on one thread, on two
 * threads with a handle each, and on two threads with the same handle. And what a thread pool job
 * costs. Build against the static library:
 *   cc -O2 -Iinclude -Isrc bench/handle.c build/release/libmlsys.a -lm -lpthread */
#include "core/handle.h"
#include "core/pool.h"
#include "core/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 4000000, JOBS = 100000, ROUNDS = 5 };

typedef struct lane {
    mlsys_tensor tensor;
    double ns; /* per call */
} lane;

/* Processor time: what the call costs even when the machine is shared. */
static int64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *pin_loop(void *arg) {
    lane *l = arg;
    int64_t t0 = thread_ns();
    for (int i = 0; i < CALLS; i++) {
        mlsys_dtype dtype;
        if (mlsys_tensor_dtype(l->tensor, &dtype) != MLSYS_OK) exit(1);
    }
    l->ns = (double)(thread_ns() - t0) / CALLS;
    return NULL;
}

/* Best of ROUNDS: the machine is shared. */
static double measure(int threads, mlsys_tensor a, mlsys_tensor b) {
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        lane lanes[2] = {{a, 0}, {b, 0}};
        pthread_t other;
        if (threads == 2 && pthread_create(&other, NULL, pin_loop, &lanes[1])) exit(1);
        pin_loop(&lanes[0]);
        if (threads == 2) pthread_join(other, NULL);
        double ns = lanes[0].ns > lanes[1].ns ? lanes[0].ns : lanes[1].ns;
        if (ns < best) best = ns;
    }
    return best;
}

static double view_cost(mlsys_tensor t) {
    int64_t t0 = thread_ns();
    for (int i = 0; i < CALLS / 8; i++) {
        mlsys_tensor v;
        if (mlsys_tensor_reverse(t, 0, &v) || mlsys_release(v)) exit(1);
    }
    return (double)(thread_ns() - t0) / (CALLS / 8);
}

static double create_cost(mlsys_device d) {
    int64_t t0 = thread_ns(), shape[1] = {4};
    for (int i = 0; i < CALLS / 8; i++) {
        mlsys_tensor t;
        if (mlsys_tensor_create(d, MLSYS_F32, 1, shape, &t) || mlsys_release(t)) exit(1);
    }
    return (double)(thread_ns() - t0) / (CALLS / 8);
}

static void nothing(void *user, int64_t item, int worker) { (void)user, (void)item, (void)worker; }

static double pool_job(int threads, int64_t items) {
    mlsi_pool *p;
    if (mlsi_pool_create(&mlsi_alloc_process, threads, &p)) exit(1);
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t t0 = mlsi_now_ns();
        for (int i = 0; i < JOBS; i++)
            mlsi_pool_run(p, items, nothing, NULL);
        double ns = (double)(mlsi_now_ns() - t0) / JOBS;
        if (ns < best) best = ns;
    }
    mlsi_pool_destroy(p);
    return best;
}

int main(void) {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_tensor a, b;
    int64_t shape[1] = {4};
    if (mlsys_ctx_create(NULL, NULL, &ctx) || mlsys_device_get(ctx, MLSYS_CPU, 0, &device) ||
        mlsys_tensor_create(device, MLSYS_F32, 1, shape, &a) ||
        mlsys_tensor_create(device, MLSYS_F32, 1, shape, &b)) {
        fprintf(stderr, "%s\n", mlsys_last_error());
        return 1;
    }
    printf("checked call, 1 thread                 %7.1f ns\n", measure(1, a, b));
    printf("checked call, 2 threads, 2 handles     %7.1f ns\n", measure(2, a, b));
    printf("checked call, 2 threads, same handle   %7.1f ns\n", measure(2, a, a));
    printf("view and release                       %7.1f ns\n", view_cost(a));
    printf("new tensor of 4 elements and release   %7.1f ns\n", create_cost(device));
    printf("pool job of 2 empty items, 2 threads   %7.1f ns\n", pool_job(2, 2));
    printf("pool job of 16 empty items, 2 threads  %7.1f ns\n", pool_job(2, 16));
    mlsys_release(a);
    mlsys_release(b);
    mlsys_release(device);
    mlsys_release(ctx);
    return 0;
}
