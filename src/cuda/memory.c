#include "cuda/device.h"

#include "core/faults.h"
#include <stdlib.h>
#include <string.h>

void mlsi_cuda_memory_init(mlsi_cuda_memory *m, uint64_t limit) {
    const char *guard = getenv("MLSYS_CUDA_GUARD");
    m->limit = limit;
    m->guard = guard && !strcmp(guard, "1");
}

/* ---- waiting blocks ------------------------------------------------------------------------------- */

static void unlink_waiting(mlsi_cuda_memory *m, mlsi_cuda_block *b) {
    *(b->before ? &b->before->behind : &m->oldest) = b->behind;
    *(b->behind ? &b->behind->before : &m->newest) = b->before;
    b->before = b->behind = NULL;
}

static void link_waiting(mlsi_cuda_memory *m, mlsi_cuda_block *b, mlsi_cuda_fence *f) {
    b->state = MLSI_BLOCK_WAITING;
    b->fence = f;
    b->before = m->newest;
    b->behind = NULL;
    *(m->newest ? &m->newest->behind : &m->oldest) = b;
    m->newest = b;
}

typedef enum sweep_reach { SWEEP_OLDEST, SWEEP_ALL, SWEEP_WAIT } sweep_reach;

/* Blocks whose fence has passed become free. OLDEST: from the oldest on, up to one that has not; WAIT: waits for all. */
static mlsys_status sweep(mlsi_accel *d, sweep_reach reach) {
    mlsi_cuda_memory *m = &d->memory;
    for (mlsi_cuda_block *b = m->oldest, *next; b; b = next) {
        bool passed;
        next = b->behind;
        MLSI_TRY(mlsi_cuda_fence_test(d, b->fence, reach == SWEEP_WAIT, &passed));
        if (!passed && reach == SWEEP_OLDEST) break;
        if (!passed) continue;
        unlink_waiting(m, b);
        mlsi_cuda_fence_drop(d, b->fence);
        b->fence = NULL;
        mlsi_cuda_block_give(d->alloc, m, b);
    }
    return MLSYS_OK;
}

/* ---- segments ---------------------------------------------------------------------------------------- */

static mlsys_status free_unused(mlsi_accel *d) {
    mlsi_cuda_segment *s;
    mlsys_status st = MLSYS_OK;
    while (st == MLSYS_OK && (s = mlsi_cuda_segment_unused(&d->memory))) {
        CUresult r = d->driver->mem_free((CUdeviceptr)(uintptr_t)s->address);
        mlsi_cuda_segment_free(d->alloc, s);
        st = mlsi_cuda_check(d, r, "cuMemFree", "");
    }
    return st;
}

/* NOMEM without a sentence when the driver or the limit refuses. */
static mlsys_status grow(mlsi_accel *d, uint64_t bytes, bool small) {
    mlsi_cuda_memory *m = &d->memory;
    CUdeviceptr p = 0;
    if (m->limit && !mlsi_fault(MLSI_FAULT_CUDA_LIMIT) &&
        (bytes > m->limit || m->held > m->limit - bytes))
        return MLSYS_E_NOMEM;
    CUresult r = d->driver->mem_alloc(&p, (size_t)bytes);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) return MLSYS_E_NOMEM;
    MLSI_TRY(mlsi_cuda_check(d, r, "cuMemAlloc", ""));
    m->driver_calls++;
    mlsys_status st = mlsi_cuda_segment_add(d->alloc, m, (char *)(uintptr_t)p, bytes, small);
    if (st != MLSYS_OK) (void)d->driver->mem_free(p);
    return st;
}

static uint64_t segment_for(uint64_t bytes, bool small) {
    if (small) return MLSI_CUDA_SLAB;
    return bytes <= MLSI_CUDA_SEGMENT / 2 ? MLSI_CUDA_SEGMENT : bytes;
}

static mlsys_status no_memory(mlsi_accel *d, uint64_t asked) {
    size_t free = 0, total = 0;
    const mlsi_cuda_memory *m = &d->memory;
    MLSI_TRY(mlsi_cuda_check(d, d->driver->mem_get_info(&free, &total), "cuMemGetInfo", ""));
    return mlsi_fail(
        MLSYS_E_NOMEM,
        "CUDA device %d: %llu bytes asked; used %llu, kept %llu with a largest hole of "
        "%llu, limit %llu, free on the device %llu",
        d->index, (unsigned long long)asked, (unsigned long long)m->used,
        (unsigned long long)(m->held - m->used), (unsigned long long)mlsi_cuda_largest_hole(m),
        (unsigned long long)m->limit, (unsigned long long)free);
}

/* Free, else passed by now, else fresh, else what is waited for, else fresh behind a trim, else fresh without spare. */
static mlsys_status find_block(mlsi_accel *d, uint64_t bytes, uint64_t asked,
                               mlsi_cuda_block **out) {
    mlsi_cuda_memory *m = &d->memory;
    bool small = bytes <= MLSI_CUDA_SMALL_MOST;
    uint64_t segment = segment_for(bytes, small);
    MLSI_TRY(sweep(d, SWEEP_OLDEST));
    if ((*out = mlsi_cuda_block_take(d->alloc, m, bytes, small))) return MLSYS_OK;
    MLSI_TRY(sweep(d, SWEEP_ALL));
    if ((*out = mlsi_cuda_block_take(d->alloc, m, bytes, small))) return MLSYS_OK;
    mlsys_status st = grow(d, segment, small);
    if (st == MLSYS_E_NOMEM) {
        MLSI_TRY(sweep(d, SWEEP_WAIT));
        if ((*out = mlsi_cuda_block_take(d->alloc, m, bytes, small))) return MLSYS_OK;
        MLSI_TRY(free_unused(d));
        st = grow(d, segment, small);
    }
    if (st == MLSYS_E_NOMEM && segment != bytes) st = grow(d, bytes, small);
    if (st == MLSYS_E_NOMEM) return no_memory(d, asked);
    MLSI_TRY(st);
    *out = mlsi_cuda_block_take(d->alloc, m, bytes, small);
    return *out ? MLSYS_OK : mlsi_fail(MLSYS_E_INTERNAL, "CUDA: a fresh segment has no block");
}

/* ---- allocate, release --------------------------------------------------------------------------------- */

static mlsys_status round_up(uint64_t bytes, uint64_t extra, uint64_t *out) {
    uint64_t n = bytes ? bytes : 1;
    if (mlsi_add_u64(n, extra, &n)) {
        uint64_t unit = n <= MLSI_CUDA_SMALL_MOST ? MLSI_CUDA_SMALL_ROUND : MLSI_CUDA_LARGE_ROUND;
        if (mlsi_add_u64(n, unit - 1, &n)) return *out = n - n % unit, MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_NOMEM, "CUDA: %llu bytes asked", (unsigned long long)bytes);
}

static uint64_t guard_of(const mlsi_cuda_memory *m) { return m->guard ? MLSI_CUDA_GUARD : 0; }

static mlsys_status allocate(mlsi_accel *d, uint64_t bytes, char **out) {
    mlsi_cuda_memory *m = &d->memory;
    mlsi_cuda_block *b;
    uint64_t rounded;
    MLSI_TRY(round_up(bytes, 2 * guard_of(m), &rounded));
    MLSI_TRY(mlsi_cuda_table_reserve(d->alloc, m));
    MLSI_TRY(find_block(d, rounded, bytes, &b));
    b->asked = bytes;
    b->number = ++m->numbers;
    mlsys_status st = m->guard ? mlsi_cuda_guard_paint(d, b) : MLSYS_OK;
    if (st != MLSYS_OK) {
        mlsi_cuda_block_give(d->alloc, m, b);
        return st;
    }
    mlsi_cuda_table_add(m, b);
    m->used += b->bytes;
    if (m->used > m->most) m->most = m->used;
    return *out = b->address + guard_of(m), MLSYS_OK;
}

mlsys_status mlsi_cuda_allocate(mlsi_accel *d, uint64_t bytes, char **out) {
    *out = NULL;
    MLSI_TRY(mlsi_cuda_enter(d));
    pthread_mutex_lock(&d->lock);
    mlsys_status st = allocate(d, bytes, out);
    pthread_mutex_unlock(&d->lock);
    mlsi_cuda_leave(d);
    return st;
}

/* Where no fence can be made, the queues are waited for. */
static mlsys_status wait_for_queues(mlsi_accel *d) {
    for (mlsi_queue *q = d->queues; q; q = q->next)
        if (mlsi_cuda_dirty(q))
            MLSI_TRY(mlsi_cuda_check(d, d->driver->stream_synchronize(q->stream),
                                     "cuStreamSynchronize", ""));
    return MLSYS_OK;
}

static void release(mlsi_accel *d, char *p) {
    mlsi_cuda_memory *m = &d->memory;
    mlsi_cuda_block *b = mlsi_cuda_table_remove(m, p - guard_of(m));
    mlsi_cuda_fence *f = NULL;
    if (!b) return;
    m->used -= b->bytes;
    if (mlsi_fault(MLSI_FAULT_CUDA_FENCE)) {
        mlsi_cuda_block_give(d->alloc, m, b);
        return;
    }
    mlsys_status st = m->guard ? mlsi_cuda_guard_check(d, b) : mlsi_cuda_fence_now(d, &f);
    if (st != MLSYS_OK && !atomic_load(&d->failed)) st = wait_for_queues(d);
    if (f)
        link_waiting(m, b, f);
    else if (st == MLSYS_OK)
        mlsi_cuda_block_give(d->alloc, m, b);
    else /* nobody knows when it is free */
        b->state = MLSI_BLOCK_WAITING;
}

/* On a device that failed, or in a forked child, memory stays until close. */
void mlsi_cuda_release(mlsi_accel *d, char *p) {
    if (!p || mlsi_cuda_enter(d) != MLSYS_OK) return;
    pthread_mutex_lock(&d->lock);
    release(d, p);
    pthread_mutex_unlock(&d->lock);
    mlsi_cuda_leave(d);
}

mlsys_status mlsi_cuda_trim(mlsi_accel *d) {
    MLSI_TRY(mlsi_cuda_enter(d));
    pthread_mutex_lock(&d->lock);
    mlsys_status st = sweep(d, SWEEP_WAIT);
    if (st == MLSYS_OK) st = free_unused(d);
    pthread_mutex_unlock(&d->lock);
    mlsi_cuda_leave(d);
    return st;
}

void mlsi_cuda_memory_of(mlsi_accel *d, mlsi_accel_memory *out) {
    const mlsi_cuda_memory *m = &d->memory;
    size_t free = 0, total = 0;
    *out = (mlsi_accel_memory){0};
    if (mlsi_cuda_is_child(d)) return;
    if (mlsi_cuda_enter(d) == MLSYS_OK) {
        if (d->driver->mem_get_info(&free, &total)) free = total = 0;
        mlsi_cuda_leave(d);
    }
    pthread_mutex_lock(&d->lock);
    *out = (mlsi_accel_memory){.used = m->used,
                               .cached = m->held - m->used,
                               .most = m->most,
                               .device_free = free,
                               .device_total = total ? total : d->total,
                               .allocations = m->driver_calls};
    pthread_mutex_unlock(&d->lock);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

void mlsi_cuda_memory_give_back(mlsi_accel *d) {
    mlsi_cuda_memory *m = &d->memory;
    for (mlsi_cuda_block *b = m->oldest, *next; b; b = next) {
        next = b->behind;
        mlsi_cuda_fence_drop(d, b->fence);
        b->fence = NULL;
    }
    m->oldest = m->newest = NULL;
    mlsi_cuda_fence_drop(d, m->fence);
    m->fence = NULL;
    for (int64_t i = 0; i < m->n_events; i++)
        (void)d->driver->event_destroy(m->events[i]);
    for (mlsi_cuda_segment *s = m->segments; s; s = s->next)
        (void)d->driver->mem_free((CUdeviceptr)(uintptr_t)s->address);
}

/* In a forked child the fences are still there. */
void mlsi_cuda_memory_free(mlsi_accel *d) {
    mlsi_cuda_memory *m = &d->memory;
    for (mlsi_cuda_block *b = m->oldest; b; b = b->behind)
        if (b->fence && !--b->fence->refs) mlsi_mem_free(d->alloc, b->fence);
    if (m->fence && !--m->fence->refs) mlsi_mem_free(d->alloc, m->fence);
    for (mlsi_cuda_segment *s = m->segments, *next; s; s = next) {
        next = s->next;
        mlsi_cuda_segment_free(d->alloc, s);
    }
    mlsi_mem_free(d->alloc, m->table);
    mlsi_mem_free(d->alloc, m->events);
}
