/* Time, parallel starts, memory and cold caches. */
#include "support/harness.h"
#include "support/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HUGE_PAGE = 2 << 20 };

static double clock_seconds(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static clockid_t the_clock = CLOCK_MONOTONIC;
void bench_count_cpu_time(void) { the_clock = CLOCK_PROCESS_CPUTIME_ID; }
double bench_now(void) { return clock_seconds(the_clock); }
double bench_cpu_time(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

void *bench_memory(uint64_t bytes) {
    const uint64_t align = bytes < HUGE_PAGE ? 64 : HUGE_PAGE;
    uint64_t rounded = (bytes + 64 + align - 1) / align * align;
    void *p = aligned_alloc(align, rounded);
    if (!p) {
        fprintf(stderr, "bench: no memory for %llu bytes\n", (unsigned long long)bytes);
        exit(2);
    }
    if (align == HUGE_PAGE) madvise(p, rounded, MADV_HUGEPAGE); /* refusal costs speed alone */
    return memset(p, 0, rounded);
}

/* ---- parallel ----------------------------------------------------------------------------------
 */

typedef struct lane {
    pthread_t thread;
    pthread_barrier_t *start;
    void (*fn)(void *user, int thread);
    void *user;
    int index;
    double begin, end;
} lane;

static void *run_lane(void *arg) {
    lane *l = arg;
    pthread_barrier_wait(l->start);
    l->begin = bench_now();
    l->fn(l->user, l->index);
    l->end = bench_now();
    return NULL;
}

double bench_parallel(int threads, void (*fn)(void *user, int thread), void *user) {
    pthread_barrier_t start;
    lane *lanes = bench_memory(sizeof *lanes * (uint64_t)threads);
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        lanes[i] = (lane){.start = &start, .fn = fn, .user = user, .index = i};
        if (i && pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i])) {
            fprintf(stderr, "bench: cannot start thread %d of %d\n", i, threads);
            exit(2);
        }
    }
    run_lane(&lanes[0]);
    double begin = lanes[0].begin, end = lanes[0].end;
    for (int i = 1; i < threads; i++) {
        pthread_join(lanes[i].thread, NULL);
        if (lanes[i].begin < begin) begin = lanes[i].begin;
        if (lanes[i].end > end) end = lanes[i].end;
    }
    pthread_barrier_destroy(&start);
    free(lanes);
    return end - begin;
}

/* ---- cold caches -------------------------------------------------------------------------------
 */

typedef struct sweep {
    uint64_t *data;
    uint64_t words_each;
} sweep;

static void sweep_share(void *user, int thread) {
    sweep *s = user;
    uint64_t *p = s->data + s->words_each * (uint64_t)thread;
    for (uint64_t i = 0; i < s->words_each; i += 8)
        p[i]++; /* one word a line: the line is owned, and what it evicts is written back */
}

/* Twice the last level; a virtual machine may be told of the host's whole cache, so there is a
 * ceiling. */
static uint64_t sweep_bytes(void) {
    uint64_t last = bench_cache_bytes(3), bytes, ceiling = bench_memory_bytes() / 8;
    if (!last) last = bench_cache_bytes(2);
    bytes = last ? 2 * last : 64u << 20;
    return bytes < ceiling ? bytes : ceiling;
}

void bench_flush_caches(int threads) {
    static sweep s; /* kept for the life of the process: page faults would hide the work */
    static uint64_t bytes;
    if (!s.data) {
        bytes = sweep_bytes();
        s.data = bench_memory(bytes);
    }
    s.words_each = bytes / 8 / (uint64_t)threads / 8 * 8;
    bench_parallel(threads, sweep_share, &s);
}
