/* Allocator hooks that count what is out and fail the n-th allocation from now on. */
#ifndef MLSI_TESTS_FAILING_ALLOC_H
#define MLSI_TESTS_FAILING_ALLOC_H

#include <mlsys/mlsys.h>

#include <stdatomic.h>
#include <stdlib.h>

typedef struct failing_alloc {
    _Atomic int64_t blocks, bytes; /* out now */
    _Atomic int64_t calls;         /* allocations asked for */
    int64_t fail_at;               /* the call that fails, from 1; 0 = none */
    int all_after;                 /* every later one fails too */
    _Atomic int destroyed;
} failing_alloc;

static inline void *failing_alloc_alloc(void *user, mlsys_devtype type, int32_t index,
                                        uint64_t bytes, uint64_t align) {
    failing_alloc *f = user;
    (void)type, (void)index;
    int64_t call = atomic_fetch_add(&f->calls, 1) + 1;
    if (f->fail_at && (call == f->fail_at || (f->all_after && call > f->fail_at))) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, align, bytes)) return NULL;
    f->blocks++;
    f->bytes += (int64_t)bytes;
    return p;
}

static inline void failing_alloc_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                                         uint64_t bytes) {
    failing_alloc *f = user;
    (void)type, (void)index;
    f->blocks--;
    f->bytes -= (int64_t)bytes;
    free(p);
}

static inline void failing_alloc_destroy(void *user) { ((failing_alloc *)user)->destroyed++; }

static inline mlsys_hooks failing_alloc_hooks(failing_alloc *f) {
    mlsys_hooks h;
    mlsys_hooks_init(&h, sizeof h);
    h.user = f;
    h.alloc = failing_alloc_alloc;
    h.dealloc = failing_alloc_dealloc;
    h.destroy = failing_alloc_destroy;
    return h;
}

#endif
