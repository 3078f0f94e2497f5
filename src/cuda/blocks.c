/* Segments cut into blocks: free lists, splitting, joining, the table of used blocks. */
#include "cuda/memory.h"

#include "core/faults.h"
#include <string.h>

/* ---- free lists --------------------------------------------------------------------------------- */

static int bin_of(const mlsi_cuda_block *b) { return (int)(b->bytes / MLSI_CUDA_SMALL_ROUND); }

static mlsi_cuda_block **list_of(mlsi_cuda_memory *m, const mlsi_cuda_block *b) {
    return b->segment->small ? &m->bins[bin_of(b)] : &m->large;
}

static void link_free(mlsi_cuda_memory *m, mlsi_cuda_block *b) {
    mlsi_cuda_block **list = list_of(m, b);
    b->state = MLSI_BLOCK_FREE;
    b->before = NULL;
    b->behind = *list;
    if (*list) (*list)->before = b;
    *list = b;
    if (b->segment->small) m->filled[bin_of(b) / 64] |= (uint64_t)1 << bin_of(b) % 64;
}

static void unlink_free(mlsi_cuda_memory *m, mlsi_cuda_block *b) {
    mlsi_cuda_block **list = list_of(m, b);
    if (b->before)
        b->before->behind = b->behind;
    else
        *list = b->behind;
    if (b->behind) b->behind->before = b->before;
    b->before = b->behind = NULL;
    if (b->segment->small && !*list) m->filled[bin_of(b) / 64] &= ~((uint64_t)1 << bin_of(b) % 64);
}

static mlsi_cuda_block *best_small(const mlsi_cuda_memory *m, uint64_t bytes) {
    uint64_t bin = bytes / MLSI_CUDA_SMALL_ROUND, word = bin / 64;
    uint64_t bits = m->filled[word] & (~(uint64_t)0 << bin % 64);
    while (!bits && ++word < sizeof m->filled / sizeof *m->filled)
        bits = m->filled[word];
    return bits ? m->bins[word * 64 + (uint64_t)__builtin_ctzll(bits)] : NULL;
}

static mlsi_cuda_block *best_large(const mlsi_cuda_memory *m, uint64_t bytes) {
    mlsi_cuda_block *best = NULL;
    for (mlsi_cuda_block *b = m->large; b; b = b->behind)
        if (b->bytes >= bytes &&
            (!best || (b->bytes < best->bytes) != mlsi_fault(MLSI_FAULT_CUDA_BEST_FIT)))
            best = b;
    return best;
}

uint64_t mlsi_cuda_largest_hole(const mlsi_cuda_memory *m) {
    uint64_t most = 0;
    for (const mlsi_cuda_segment *s = m->segments; s; s = s->next)
        for (const mlsi_cuda_block *b = s->first; b; b = b->right)
            if (b->state == MLSI_BLOCK_FREE && b->bytes > most) most = b->bytes;
    return most;
}

/* ---- split and join -------------------------------------------------------------------------------- */

/* Without memory for the rest's record the block stays whole. */
static void split(mlsi_alloc *a, mlsi_cuda_memory *m, mlsi_cuda_block *b, uint64_t bytes) {
    mlsi_cuda_block *rest;
    if (b->bytes == bytes || MLSI_NEW(a, &rest) != MLSYS_OK) return;
    rest->segment = b->segment;
    rest->address = b->address + bytes;
    rest->bytes = b->bytes - bytes;
    rest->left = b;
    rest->right = b->right;
    if (b->right) b->right->left = rest;
    b->right = rest;
    b->bytes = bytes;
    link_free(m, rest);
}

mlsi_cuda_block *mlsi_cuda_block_take(mlsi_alloc *a, mlsi_cuda_memory *m, uint64_t bytes,
                                      bool small) {
    mlsi_cuda_block *b = small ? best_small(m, bytes) : best_large(m, bytes);
    if (!b) return NULL;
    unlink_free(m, b);
    split(a, m, b, bytes);
    b->state = MLSI_BLOCK_USED;
    return b;
}

/* b takes over its right neighbour. */
static void join(mlsi_alloc *a, mlsi_cuda_block *b) {
    mlsi_cuda_block *gone = b->right;
    b->bytes += gone->bytes;
    b->right = gone->right;
    if (b->right) b->right->left = b;
    mlsi_mem_free(a, gone);
}

void mlsi_cuda_block_give(mlsi_alloc *a, mlsi_cuda_memory *m, mlsi_cuda_block *b) {
    if (b->right && b->right->state == MLSI_BLOCK_FREE) {
        unlink_free(m, b->right);
        join(a, b);
    }
    if (b->left && b->left->state == MLSI_BLOCK_FREE && !mlsi_fault(MLSI_FAULT_CUDA_JOIN)) {
        b = b->left;
        unlink_free(m, b);
        join(a, b);
    }
    link_free(m, b);
}

/* ---- segments ---------------------------------------------------------------------------------------- */

mlsys_status mlsi_cuda_segment_add(mlsi_alloc *a, mlsi_cuda_memory *m, char *address,
                                   uint64_t bytes, bool small) {
    mlsi_cuda_segment *s;
    mlsi_cuda_block *b;
    MLSI_TRY(MLSI_NEW(a, &s));
    mlsys_status st = MLSI_NEW(a, &b);
    if (st != MLSYS_OK) {
        mlsi_mem_free(a, s);
        return st;
    }
    *s = (mlsi_cuda_segment){address, bytes, small, b, m->segments};
    m->segments = s;
    m->held += bytes;
    b->segment = s;
    b->address = address;
    b->bytes = bytes;
    link_free(m, b);
    return MLSYS_OK;
}

mlsi_cuda_segment *mlsi_cuda_segment_unused(mlsi_cuda_memory *m) {
    for (mlsi_cuda_segment **link = &m->segments; *link; link = &(*link)->next) {
        mlsi_cuda_segment *s = *link;
        if (s->first->state != MLSI_BLOCK_FREE || s->first->right) continue;
        unlink_free(m, s->first);
        *link = s->next;
        m->held -= s->bytes;
        return s;
    }
    return NULL;
}

void mlsi_cuda_segment_free(mlsi_alloc *a, mlsi_cuda_segment *s) {
    for (mlsi_cuda_block *b = s->first, *next; b; b = next) {
        next = b->right;
        mlsi_mem_free(a, b);
    }
    mlsi_mem_free(a, s);
}

/* ---- table of used blocks ------------------------------------------------------------------------------ */

static mlsi_cuda_block **slot(const mlsi_cuda_memory *m, const char *address) {
    uint64_t h = (uint64_t)(uintptr_t)address / MLSI_CUDA_SMALL_ROUND * 0x9e3779b97f4a7c15ull;
    return &m->table[h >> 32 & (m->table_size - 1)];
}

mlsys_status mlsi_cuda_table_reserve(mlsi_alloc *a, mlsi_cuda_memory *m) {
    enum { FIRST = 256 };
    if (m->table_count < m->table_size) return MLSYS_OK;
    mlsi_cuda_block **old = m->table, **fresh;
    uint64_t old_size = m->table_size, size = old_size ? 2 * old_size : FIRST;
    MLSI_TRY(MLSI_NEW_N(a, size, &fresh));
    m->table = fresh;
    m->table_size = size;
    m->table_count = 0;
    for (uint64_t i = 0; i < old_size; i++)
        for (mlsi_cuda_block *b = old[i], *next; b; b = next) {
            next = b->behind;
            mlsi_cuda_table_add(m, b);
        }
    mlsi_mem_free(a, old);
    return MLSYS_OK;
}

void mlsi_cuda_table_add(mlsi_cuda_memory *m, mlsi_cuda_block *b) {
    mlsi_cuda_block **list = slot(m, b->address);
    b->behind = *list;
    *list = b;
    m->table_count++;
}

mlsi_cuda_block *mlsi_cuda_table_remove(mlsi_cuda_memory *m, const char *address) {
    if (!m->table_size) return NULL;
    for (mlsi_cuda_block **link = slot(m, address); *link; link = &(*link)->behind) {
        mlsi_cuda_block *b = *link;
        if (b->address != address) continue;
        *link = b->behind;
        b->behind = NULL;
        m->table_count--;
        return b;
    }
    return NULL;
}
