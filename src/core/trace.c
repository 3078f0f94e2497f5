#include "core/trace.h"

#include "core/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 48, LANE_BYTES = 16, LANES_MAX = 16 };

typedef struct trace_event {
    char name[NAME_BYTES];
    char lane[LANE_BYTES];
    int64_t t0, t1;
    uint64_t flops, bytes;
    uint32_t thread;
} trace_event;

struct mlsi_trace {
    mlsi_alloc *alloc;
    _Atomic bool on;
    pthread_mutex_t lock; /* ring, capacity, written */
    trace_event *ring;
    int64_t capacity;
    int64_t written; /* events so far; the last `capacity` of them are kept */
};

int64_t mlsi_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

mlsys_status mlsi_trace_create(mlsi_alloc *a, int64_t capacity, mlsi_trace **out) {
    *out = NULL;
    mlsi_trace *t;
    MLSI_TRY(MLSI_NEW(a, &t));
    t->alloc = a;
    pthread_mutex_init(&t->lock, NULL);
    mlsys_status st = mlsi_trace_reserve(t, capacity);
    if (st != MLSYS_OK) {
        mlsi_trace_destroy(t);
        return st;
    }
    *out = t;
    return MLSYS_OK;
}

/* No mutex is destroyed: a forked child may inherit it locked. */
void mlsi_trace_destroy(mlsi_trace *t) {
    if (!t) return;
    mlsi_mem_free(t->alloc, t->ring);
    mlsi_mem_free(t->alloc, t);
}

mlsys_status mlsi_trace_reserve(mlsi_trace *t, int64_t capacity) {
    if (capacity < 0) return mlsi_fail(MLSYS_E_ARG, "trace: capacity %lld", (long long)capacity);
    trace_event *ring = NULL;
    if (capacity) MLSI_TRY(MLSI_NEW_N(t->alloc, capacity, &ring));
    pthread_mutex_lock(&t->lock);
    trace_event *old = t->ring;
    t->ring = ring;
    t->capacity = capacity;
    t->written = 0;
    pthread_mutex_unlock(&t->lock);
    mlsi_mem_free(t->alloc, old);
    return MLSYS_OK;
}

void mlsi_trace_enable(mlsi_trace *t, bool on) {
    if (t) atomic_store_explicit(&t->on, on, memory_order_relaxed);
}

bool mlsi_trace_enabled(const mlsi_trace *t) {
    return t && atomic_load_explicit(&t->on, memory_order_relaxed);
}

static uint32_t thread_number(void) {
    static _Thread_local uint32_t number;
    if (!number) number = (uint32_t)syscall(SYS_gettid);
    return number;
}

static void copy_name(char *dst, size_t cap, const char *src) {
    size_t n = src ? strlen(src) : 0;
    if (n > cap - 1) {
        n = cap - 1;
        while (n && ((unsigned char)src[n] & 0xc0) == 0x80)
            n--; /* keep UTF-8 characters whole */
    }
    if (n) memcpy(dst, src, n);
    dst[n] = 0;
}

void mlsi_trace_add(mlsi_trace *t, const char *lane, const char *name, int64_t t0, int64_t t1,
                    uint64_t flops, uint64_t bytes) {
    if (!mlsi_trace_enabled(t)) return;
    trace_event e = {.t0 = t0, .t1 = t1, .flops = flops, .bytes = bytes};
    copy_name(e.name, sizeof e.name, name);
    copy_name(e.lane, sizeof e.lane, lane);
    e.thread = thread_number();
    pthread_mutex_lock(&t->lock);
    if (t->capacity) t->ring[t->written++ % t->capacity] = e;
    pthread_mutex_unlock(&t->lock);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static bool json_plain(char c) { return (unsigned char)c >= 0x20 && c != '"' && c != '\\'; }

static void add_json_string(mlsi_text *out, const char *s) {
    mlsi_text_add(out, "\"");
    while (*s) {
        int n = 0;
        while (s[n] && json_plain(s[n]))
            n++;
        if (n) mlsi_text_add(out, "%.*s", n, s);
        s += n;
        if (!*s) break;
        if ((unsigned char)*s < 0x20)
            mlsi_text_add(out, "\\u%04x", (unsigned char)*s);
        else
            mlsi_text_add(out, "\\%c", *s);
        s++;
    }
    mlsi_text_add(out, "\"");
}

/* Lanes are shown as processes, threads as their threads. Returns the lane's number from 1. */
static int lane_number(const char *lane, char lanes[LANES_MAX][LANE_BYTES], int *n,
                       mlsi_text *out) {
    for (int i = 0; i < *n; i++)
        if (!strcmp(lanes[i], lane)) return i + 1;
    if (*n == LANES_MAX) return LANES_MAX;
    memcpy(lanes[(*n)++], lane, LANE_BYTES);
    mlsi_text_add(out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":",
                  *n > 1 ? ",\n" : "", *n);
    add_json_string(out, lane);
    mlsi_text_add(out, "}}");
    return *n;
}

static void add_microseconds(mlsi_text *out, int64_t ns) {
    if (ns < 0) ns = 0;
    mlsi_text_add(out, "%lld.%03lld", (long long)(ns / 1000), (long long)(ns % 1000));
}

static void add_event(mlsi_text *out, const trace_event *e, int lane) {
    mlsi_text_add(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"name\":", lane, e->thread);
    add_json_string(out, e->name);
    mlsi_text_add(out, ",\"ts\":");
    add_microseconds(out, e->t0);
    mlsi_text_add(out, ",\"dur\":");
    add_microseconds(out, e->t1 - e->t0);
    if (e->flops || e->bytes)
        mlsi_text_add(out, ",\"args\":{\"flops\":%llu,\"bytes\":%llu}",
                      (unsigned long long)e->flops, (unsigned long long)e->bytes);
    mlsi_text_add(out, "}");
}

void mlsi_trace_json(mlsi_trace *t, mlsi_text *out) {
    /* The allocator may call hooks, so nothing is allocated with the lock held. */
    pthread_mutex_lock(&t->lock);
    int64_t capacity = t->capacity;
    pthread_mutex_unlock(&t->lock);
    trace_event *events = NULL;
    if (capacity && out->st == MLSYS_OK) out->st = MLSI_NEW_N(t->alloc, capacity, &events);
    if (out->st != MLSYS_OK) return;
    pthread_mutex_lock(&t->lock);
    int64_t n = t->written < t->capacity ? t->written : t->capacity;
    if (n > capacity) n = capacity; /* the ring grew meanwhile */
    int64_t first = mlsi_fault(MLSI_FAULT_TRACE_ORDER) ? 0 : t->written - n;
    for (int64_t i = 0; i < n; i++)
        events[i] = t->ring[(first + i) % t->capacity];
    int64_t dropped = t->written - n;
    pthread_mutex_unlock(&t->lock);
    char lanes[LANES_MAX][LANE_BYTES];
    int lane_count = 0;
    mlsi_text_add(out,
                  "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lld},"
                  "\"traceEvents\":[\n",
                  (long long)dropped);
    for (int64_t i = 0; i < n; i++)
        add_event(out, &events[i], lane_number(events[i].lane, lanes, &lane_count, out));
    mlsi_text_add(out, "\n]}\n");
    mlsi_mem_free(t->alloc, events);
}
