/* Memory of one context: hooks, exact counts, checked size arithmetic, growable arrays, arenas.
 *
 * Every block is 64-byte aligned and preceded by a 64-byte header that holds its size, so that the
 * dealloc hook is told the size it allocated. */
#ifndef MLSI_ALLOC_H
#define MLSI_ALLOC_H

#include "core/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mlsi_alloc {
    mlsys_hooks hooks;
    _Atomic uint64_t live_bytes, peak_bytes, allocations;
} mlsi_alloc;

/* The allocator of objects that belong to no context (configs); malloc and free. */
extern mlsi_alloc mlsi_alloc_process;

static inline bool mlsi_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool mlsi_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool mlsi_mul_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool mlsi_add_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* hooks may be NULL: malloc and free. */
void mlsi_alloc_init(mlsi_alloc *a, const mlsys_hooks *hooks);

/* Uninitialised bytes (0 is allowed and gives a valid pointer); *out NULL on failure. */
mlsys_status mlsi_mem_alloc(mlsi_alloc *a, uint64_t bytes, void **out);
/* count * size zeroed bytes, overflow checked. */
mlsys_status mlsi_mem_zalloc(mlsi_alloc *a, uint64_t count, uint64_t size, void **out);
void mlsi_mem_free(mlsi_alloc *a, void *p);
/* Advises the system to hold a block that is read in full, again and again, in large pages. Does nothing
 * to memory of the user's hooks. */
void mlsi_mem_large_pages(const mlsi_alloc *a, void *p, uint64_t bytes);
/* Grow *items (of item_size, capacity *cap) to hold need items; contents kept, new part zeroed. */
mlsys_status mlsi_mem_grow(mlsi_alloc *a, void **items, int64_t *cap, int64_t need,
                           uint64_t item_size);
mlsys_status mlsi_mem_strdup(mlsi_alloc *a, const char *s, char **out);

/* Typed shorthands: MLSI_NEW(a, &p) allocates one zeroed *p; MLSI_NEW_N(a, n, &p) an array. */
#define MLSI_NEW(a, pp)             mlsi_mem_zalloc((a), 1, sizeof **(pp), (void **)(pp))
#define MLSI_NEW_N(a, n, pp)        mlsi_mem_zalloc((a), (uint64_t)(n), sizeof **(pp), (void **)(pp))
#define MLSI_GROW(a, pp, cap, need) mlsi_mem_grow((a), (void **)(pp), (cap), (need), sizeof **(pp))

/* A bump allocator for objects that die together. */
typedef struct mlsi_arena {
    mlsi_alloc *alloc;
    struct mlsi_arena_chunk *head;
} mlsi_arena;

void mlsi_arena_init(mlsi_arena *arena, mlsi_alloc *a);
/* Zeroed, 16-byte aligned. */
mlsys_status mlsi_arena_zalloc(mlsi_arena *arena, uint64_t bytes, void **out);
mlsys_status mlsi_arena_strdup(mlsi_arena *arena, const char *s, const char **out);
void mlsi_arena_free(mlsi_arena *arena);

/* A growing text for printers and dumps. A failed append is remembered in st, later ones are no-ops. */
typedef struct mlsi_text {
    mlsi_alloc *alloc;
    char *data; /* NUL-ended once anything was appended */
    int64_t len, cap;
    mlsys_status st;
} mlsi_text;

void mlsi_text_init(mlsi_text *t, mlsi_alloc *a);
void mlsi_text_add(mlsi_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mlsi_text_free(mlsi_text *t);
/* Copy to a TEXT output of the public API (buf, cap, need) and free t. */
mlsys_status mlsi_text_out(mlsi_text *t, char *buf, uint64_t cap, uint64_t *need);

#endif
