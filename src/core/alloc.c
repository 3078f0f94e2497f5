#include "core/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, LARGE_PAGE = 2 << 20, CHUNK_BYTES = 64 * 1024 };

typedef struct block_header {
    uint64_t bytes; /* of the whole block, header included */
} block_header;

static void *default_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                           uint64_t align) {
    (void)user, (void)type, (void)index;
    void *p = NULL;
    return posix_memalign(&p, align, bytes) ? NULL : p;
}

static void default_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                            uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    free(p);
}

mlsi_alloc mlsi_alloc_process = {
    .hooks = {.size = sizeof(mlsys_hooks), .alloc = default_alloc, .dealloc = default_dealloc}};

void mlsi_alloc_init(mlsi_alloc *a, const mlsys_hooks *hooks) {
    memset(a, 0, sizeof *a);
    if (hooks) a->hooks = *hooks;
    if (!a->hooks.alloc) {
        a->hooks.alloc = default_alloc;
        a->hooks.dealloc = default_dealloc;
    }
}

static void count_alloc(mlsi_alloc *a, uint64_t bytes) {
    uint64_t live = atomic_fetch_add(&a->live_bytes, bytes) + bytes;
    uint64_t peak = atomic_load(&a->peak_bytes);
    while (peak < live && !atomic_compare_exchange_weak(&a->peak_bytes, &peak, live)) {
    }
    atomic_fetch_add(&a->allocations, 1);
}

mlsys_status mlsi_mem_alloc(mlsi_alloc *a, uint64_t bytes, void **out) {
    *out = NULL;
    uint64_t total;
    if (!mlsi_add_u64(bytes, ALIGN, &total) || total > (uint64_t)1 << 62)
        return mlsi_fail(MLSYS_E_NOMEM, "alloc: %llu bytes is too large",
                         (unsigned long long)bytes);
    char *p = a->hooks.alloc(a->hooks.user, MLSYS_CPU, 0, total, ALIGN);
    if (!p)
        return mlsi_fail(MLSYS_E_NOMEM, "alloc: no memory for %llu bytes (%llu in use)",
                         (unsigned long long)bytes,
                         (unsigned long long)atomic_load(&a->live_bytes));
    ((block_header *)p)->bytes = total;
    count_alloc(a, total);
    *out = p + ALIGN;
    return MLSYS_OK;
}

mlsys_status mlsi_mem_zalloc(mlsi_alloc *a, uint64_t count, uint64_t size, void **out) {
    *out = NULL;
    uint64_t bytes;
    if (!mlsi_mul_u64(count, size, &bytes))
        return mlsi_fail(MLSYS_E_NOMEM, "alloc: %llu x %llu bytes overflows",
                         (unsigned long long)count, (unsigned long long)size);
    MLSI_TRY(mlsi_mem_alloc(a, bytes, out));
    memset(*out, 0, bytes);
    return MLSYS_OK;
}

void mlsi_mem_free(mlsi_alloc *a, void *p) {
    if (!p) return;
    char *block = (char *)p - ALIGN;
    uint64_t bytes = ((block_header *)block)->bytes;
    atomic_fetch_sub(&a->live_bytes, bytes);
    a->hooks.dealloc(a->hooks.user, MLSYS_CPU, 0, block, bytes);
}

void mlsi_mem_large_pages(const mlsi_alloc *a, void *p, uint64_t bytes) {
    uintptr_t first = ((uintptr_t)p + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t end = ((uintptr_t)p + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (a->hooks.alloc != default_alloc || first >= end) return;
    (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* only advice */
}

mlsys_status mlsi_mem_grow(mlsi_alloc *a, void **items, int64_t *cap, int64_t need,
                           uint64_t item_size) {
    if (need <= *cap) return MLSYS_OK;
    int64_t n = *cap < 8 ? 8 : *cap;
    while (n < need) {
        if (!mlsi_mul_i64(n, 2, &n)) return mlsi_fail(MLSYS_E_NOMEM, "alloc: array too large");
    }
    void *p;
    MLSI_TRY(mlsi_mem_zalloc(a, (uint64_t)n, item_size, &p));
    if (*cap) memcpy(p, *items, (uint64_t)*cap * item_size);
    mlsi_mem_free(a, *items);
    *items = p;
    *cap = n;
    return MLSYS_OK;
}

mlsys_status mlsi_mem_strdup(mlsi_alloc *a, const char *s, char **out) {
    size_t n = strlen(s) + 1;
    MLSI_TRY(mlsi_mem_alloc(a, n, (void **)out));
    memcpy(*out, s, n);
    return MLSYS_OK;
}

/* ---- arena ---------------------------------------------------------------------------------- */

struct mlsi_arena_chunk {
    struct mlsi_arena_chunk *next;
    uint64_t used, cap;
    uint64_t pad; /* data starts 16-byte aligned */
};

void mlsi_arena_init(mlsi_arena *arena, mlsi_alloc *a) {
    arena->alloc = a;
    arena->head = NULL;
}

mlsys_status mlsi_arena_zalloc(mlsi_arena *arena, uint64_t bytes, void **out) {
    *out = NULL;
    uint64_t need;
    if (!mlsi_add_u64(bytes, 15, &need))
        return mlsi_fail(MLSYS_E_NOMEM, "arena: %llu bytes is too large",
                         (unsigned long long)bytes);
    need &= ~(uint64_t)15;
    struct mlsi_arena_chunk *c = arena->head;
    if (!c || c->cap - c->used < need) {
        uint64_t cap = need > CHUNK_BYTES ? need : CHUNK_BYTES, total;
        if (!mlsi_add_u64(cap, sizeof *c, &total))
            return mlsi_fail(MLSYS_E_NOMEM, "arena: %llu bytes is too large",
                             (unsigned long long)bytes);
        MLSI_TRY(mlsi_mem_alloc(arena->alloc, total, (void **)&c));
        c->next = arena->head;
        c->used = 0;
        c->cap = cap;
        arena->head = c;
    }
    char *p = (char *)(c + 1) + c->used;
    c->used += need;
    memset(p, 0, need);
    *out = p;
    return MLSYS_OK;
}

mlsys_status mlsi_arena_strdup(mlsi_arena *arena, const char *s, const char **out) {
    size_t n = strlen(s) + 1;
    void *p;
    MLSI_TRY(mlsi_arena_zalloc(arena, n, &p));
    memcpy(p, s, n);
    *out = p;
    return MLSYS_OK;
}

void mlsi_arena_free(mlsi_arena *arena) {
    struct mlsi_arena_chunk *c = arena->head;
    while (c) {
        struct mlsi_arena_chunk *next = c->next;
        mlsi_mem_free(arena->alloc, c);
        c = next;
    }
    arena->head = NULL;
}

/* ---- text ----------------------------------------------------------------------------------- */

void mlsi_text_init(mlsi_text *t, mlsi_alloc *a) {
    memset(t, 0, sizeof *t);
    t->alloc = a;
}

void mlsi_text_add(mlsi_text *t, const char *format, ...) {
    if (t->st != MLSYS_OK) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0) t->st = MLSI_GROW(t->alloc, &t->data, &t->cap, t->len + n + 1);
    if (n >= 0 && t->st == MLSYS_OK) {
        vsnprintf(t->data + t->len, (size_t)n + 1, format, again);
        t->len += n;
    }
    va_end(again);
}

void mlsi_text_free(mlsi_text *t) {
    mlsi_mem_free(t->alloc, t->data);
    t->data = NULL;
    t->len = t->cap = 0;
}

mlsys_status mlsi_text_out(mlsi_text *t, char *buf, uint64_t cap, uint64_t *need) {
    mlsys_status st = t->st;
    if (st == MLSYS_OK) {
        uint64_t total = (uint64_t)t->len + 1;
        if (need) *need = total;
        uint64_t n = total <= cap ? total - 1 : (cap ? cap - 1 : 0);
        if (n) memcpy(buf, t->data, n);
        if (cap) buf[n] = 0;
        if (total > cap && (cap || !need)) /* (NULL, 0, &need) only asks for the size */
            st = mlsi_fail(MLSYS_E_BUFFER, "text: %llu bytes needed, buffer has %llu",
                           (unsigned long long)total, (unsigned long long)cap);
    }
    mlsi_text_free(t);
    return st;
}
