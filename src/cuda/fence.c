/* Fences: released memory is handed out again behind the work that was queued when it was released. */
#include "cuda/device.h"

/* All work ever given to queues: the same number means that nothing was given in between. */
static uint64_t work_so_far(const mlsi_accel *d, int64_t *queues, bool *dirty) {
    uint64_t n = d->issued_before;
    *queues = 0;
    *dirty = false;
    for (const mlsi_queue *q = d->queues; q; q = q->next) {
        n += atomic_load(&q->issued);
        *dirty |= mlsi_cuda_dirty(q);
        ++*queues;
    }
    return n;
}

static mlsys_status take_event(mlsi_accel *d, CUevent *out) {
    mlsi_cuda_memory *m = &d->memory;
    if (m->n_events) return *out = m->events[--m->n_events], MLSYS_OK;
    return mlsi_cuda_check(d, d->driver->event_create(out, CU_EVENT_DISABLE_TIMING),
                           "cuEventCreate", "");
}

static void give_event(mlsi_accel *d, CUevent e) {
    mlsi_cuda_memory *m = &d->memory;
    if (MLSI_GROW(d->alloc, &m->events, &m->cap_events, m->n_events + 1) == MLSYS_OK)
        m->events[m->n_events++] = e;
    else
        (void)d->driver->event_destroy(e);
}

void mlsi_cuda_fence_drop(mlsi_accel *d, mlsi_cuda_fence *f) {
    if (!f || --f->refs) return;
    for (int64_t i = 0; i < f->n; i++)
        give_event(d, f->events[i]);
    mlsi_mem_free(d->alloc, f);
}

static mlsys_status record_event(mlsi_accel *d, const mlsi_queue *q, mlsi_cuda_fence *f) {
    CUevent e;
    MLSI_TRY(take_event(d, &e));
    mlsys_status st =
        mlsi_cuda_check(d, d->driver->event_record(e, q->stream), "cuEventRecord", "");
    if (st != MLSYS_OK)
        give_event(d, e);
    else
        f->events[f->n++] = e;
    return st;
}

mlsys_status mlsi_cuda_fence_now(mlsi_accel *d, mlsi_cuda_fence **out) {
    mlsi_cuda_memory *m = &d->memory;
    mlsi_cuda_fence *f;
    int64_t queues;
    bool dirty;
    uint64_t mark = work_so_far(d, &queues, &dirty);
    *out = NULL;
    if (!dirty) return MLSYS_OK;
    if (m->fence && m->fence->mark == mark) {
        m->fence->refs++;
        return *out = m->fence, MLSYS_OK;
    }
    MLSI_TRY(mlsi_mem_zalloc(d->alloc, 1, sizeof *f + (uint64_t)queues * sizeof f->events[0],
                             (void **)&f));
    f->refs = 1;
    f->mark = mark;
    for (const mlsi_queue *q = d->queues; q; q = q->next) {
        mlsys_status st = mlsi_cuda_dirty(q) ? record_event(d, q, f) : MLSYS_OK;
        if (st == MLSYS_OK) continue;
        mlsi_cuda_fence_drop(d, f);
        return st;
    }
    mlsi_cuda_fence_drop(d, m->fence);
    m->fence = f;
    f->refs++;
    return *out = f, MLSYS_OK;
}

mlsys_status mlsi_cuda_fence_test(mlsi_accel *d, mlsi_cuda_fence *f, bool wait, bool *passed) {
    *passed = false;
    while (f->n) {
        CUevent e = f->events[f->n - 1];
        CUresult r = wait ? d->driver->event_synchronize(e) : d->driver->event_query(e);
        if (r == CUDA_ERROR_NOT_READY) return MLSYS_OK;
        MLSI_TRY(mlsi_cuda_check(d, r, wait ? "cuEventSynchronize" : "cuEventQuery", ""));
        f->n--;
        give_event(d, e);
    }
    return *passed = true, MLSYS_OK;
}
