/* Memory of a device, kept for reuse. The driver's allocator waits for the whole device, so it is asked for segments, which are
 * cut into blocks:
 *
 *  - small requests (up to 1 MiB, rounded to 512 bytes) from slabs of 2 MiB,
 *  - large ones (rounded to 2 MiB) from segments of 20 MiB up to 10 MiB asked, else of their own size.
 *
 * The smallest block that is large enough is taken, and split; a block that comes back joins its free neighbours. Work that is
 * queued may still use a released block: it waits behind a fence, the events of all queues that have work, until they passed. */
#ifndef MLSI_CUDA_MEMORY_H
#define MLSI_CUDA_MEMORY_H

#include "core/accelerator.h"
#include "cuda/driver.h"

enum {
    MLSI_CUDA_SMALL_ROUND = 512,
    MLSI_CUDA_SMALL_MOST = 1 << 20,
    MLSI_CUDA_SLAB = 2 << 20,
    MLSI_CUDA_LARGE_ROUND = 2 << 20,
    MLSI_CUDA_SEGMENT = 20 << 20,
    MLSI_CUDA_BINS = MLSI_CUDA_SLAB / MLSI_CUDA_SMALL_ROUND + 1,
    MLSI_CUDA_GUARD = 256
};

/* Events that have to pass; shared by the blocks that were released with no new work in between. */
typedef struct mlsi_cuda_fence {
    int64_t refs;
    uint64_t mark; /* how much work there was */
    int64_t n;
    CUevent events[];
} mlsi_cuda_fence;

typedef enum mlsi_cuda_state {
    MLSI_BLOCK_FREE,
    MLSI_BLOCK_USED,
    MLSI_BLOCK_WAITING
} mlsi_cuda_state;

typedef struct mlsi_cuda_block {
    struct mlsi_cuda_segment *segment;
    char *address;
    uint64_t bytes, asked, number; /* number: of the allocation */
    mlsi_cuda_state state;
    mlsi_cuda_fence *fence;               /* WAITING */
    struct mlsi_cuda_block *left, *right; /* neighbours in the segment */
    struct mlsi_cuda_block *before,
        *behind; /* FREE: in its bin; USED: in the table (behind only); WAITING: in the list */
} mlsi_cuda_block;

typedef struct mlsi_cuda_segment {
    char *address;
    uint64_t bytes;
    bool small;
    mlsi_cuda_block *first;
    struct mlsi_cuda_segment *next;
} mlsi_cuda_segment;

typedef struct mlsi_cuda_memory {
    uint64_t limit, held, used, most, driver_calls, numbers;
    bool guard; /* MLSYS_CUDA_GUARD: a pattern on both sides of each allocation */
    mlsi_cuda_segment *segments;
    mlsi_cuda_block *bins[MLSI_CUDA_BINS]; /* free blocks of slabs, by bytes / 512 */
    uint64_t filled[(MLSI_CUDA_BINS + 63) / 64];
    mlsi_cuda_block *large;           /* free blocks of other segments */
    mlsi_cuda_block **table;          /* used blocks, by address */
    uint64_t table_size, table_count; /* size: a power of 2 */
    mlsi_cuda_block *oldest, *newest; /* waiting */
    mlsi_cuda_fence *fence;           /* the last one */
    CUevent *events;                  /* to be used again */
    int64_t n_events, cap_events;
} mlsi_cuda_memory;

void mlsi_cuda_memory_init(mlsi_cuda_memory *m, uint64_t limit);
/* Inside enter: segments and events go back to the driver, whatever state they have. */
void mlsi_cuda_memory_give_back(mlsi_accel *d);
/* The host's part. */
void mlsi_cuda_memory_free(mlsi_accel *d);

mlsys_status mlsi_cuda_allocate(mlsi_accel *d, uint64_t bytes, char **out);
void mlsi_cuda_release(mlsi_accel *d, char *p);
void mlsi_cuda_memory_of(mlsi_accel *d, mlsi_accel_memory *out);
mlsys_status mlsi_cuda_trim(mlsi_accel *d);
/* A picture of all segments and blocks as SVG. */
mlsys_status mlsi_cuda_memory_svg(mlsi_accel *d, mlsi_text *out);

/* ---- blocks.c: no driver -------------------------------------------------------------------------- */

/* The best free block, split; NULL: none. bytes: a multiple of the kind's rounding. */
mlsi_cuda_block *mlsi_cuda_block_take(mlsi_alloc *a, mlsi_cuda_memory *m, uint64_t bytes,
                                      bool small);
/* Becomes free, and joins its neighbours. */
void mlsi_cuda_block_give(mlsi_alloc *a, mlsi_cuda_memory *m, mlsi_cuda_block *b);
mlsys_status mlsi_cuda_segment_add(mlsi_alloc *a, mlsi_cuda_memory *m, char *address,
                                   uint64_t bytes, bool small);
/* The next segment without used or waiting blocks, taken out of *m; NULL: none. */
mlsi_cuda_segment *mlsi_cuda_segment_unused(mlsi_cuda_memory *m);
void mlsi_cuda_segment_free(mlsi_alloc *a, mlsi_cuda_segment *s);
uint64_t mlsi_cuda_largest_hole(const mlsi_cuda_memory *m);
/* Table of used blocks. reserve makes room for one more. */
mlsys_status mlsi_cuda_table_reserve(mlsi_alloc *a, mlsi_cuda_memory *m);
void mlsi_cuda_table_add(mlsi_cuda_memory *m, mlsi_cuda_block *b);
mlsi_cuda_block *mlsi_cuda_table_remove(mlsi_cuda_memory *m, const char *address);

/* ---- fence.c: under the device's lock, inside enter ------------------------------------------------- */

/* Behind all work that was given to the queues; *out NULL: there is none. */
mlsys_status mlsi_cuda_fence_now(mlsi_accel *d, mlsi_cuda_fence **out);
/* wait: until it passed. *passed is right also after a failure. */
mlsys_status mlsi_cuda_fence_test(mlsi_accel *d, mlsi_cuda_fence *f, bool wait, bool *passed);
void mlsi_cuda_fence_drop(mlsi_accel *d, mlsi_cuda_fence *f); /* NULL accepted */

/* ---- guard.c: the same ------------------------------------------------------------------------------- */

mlsys_status mlsi_cuda_guard_paint(mlsi_accel *d, const mlsi_cuda_block *b);
/* Waits for all work. A pattern that was written over ends the device, by a sentence that names the allocation. */
mlsys_status mlsi_cuda_guard_check(mlsi_accel *d, const mlsi_cuda_block *b);

#endif
