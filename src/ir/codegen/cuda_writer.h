/* What the C writer asks where its text is CUDA C. */
#ifndef MLSI_CUDA_WRITER_H
#define MLSI_CUDA_WRITER_H

#include "ir/codegen/c_writer.h"

enum {
    MLSI_CUDA_THREADS = 128,      /* of a block that is a worker: thread t is lane t of the canonical tree */
    MLSI_CUDA_SCRATCH = 2048,     /* bytes of shared memory in which reductions are folded */
    MLSI_CUDA_SHARED = 32 * 1024, /* most bytes of LOCAL buffers in shared memory */
    MLSI_CUDA_ARRAY = 1024        /* most bytes of a LOCAL buffer that is an array of one thread */
};

/* The state of a block's kernel. */
typedef struct mlsi_cuda_block {
    bool *spread; /* per accumulator: its terms come from loops that threads share */
    /* Per buffer, since the last barrier: did a thread write it, did threads read it? All inputs are one buffer more, at
     * n_buffers: an output may have been given an input's memory. */
    bool *written, *read;
} mlsi_cuda_block;

/* Where a LOCAL buffer is. */
typedef enum mlsi_cuda_place {
    MLSI_CUDA_IN_ARRAY,  /* a thread's own */
    MLSI_CUDA_IN_SHARED, /* of a block, `at` bytes behind the scratch */
    MLSI_CUDA_IN_WORK
} mlsi_cuda_place;
mlsi_cuda_place mlsi_cuda_place_of(const mlsi_nest *n, bool block, int32_t buffer, int64_t *at);

/* cuda.c */
void mlsi_cuda_alloc(mlsi_c_writer *w, int32_t buffer, const char *type);
/* The type of an accumulator's state; suffix: f32, f64 or int. */
void mlsi_cuda_acc_type(mlsi_c_writer *w, int32_t acc, const char *suffix);

/* cuda_block.c: statements that all threads of a block run. */
/* May the threads share this loop: do its iterations neither fail nor give terms in another order than lanes have? spread as
 * in mlsi_cuda_block. */
bool mlsi_cuda_shares(const mlsi_nest *n, const bool *spread, const mlsi_ls *loop);
/* Which accumulators get their terms from shared loops alone. */
void mlsi_cuda_find_spread(const mlsi_nest *n, int32_t first, bool *spread);
/* Is there a loop that threads share? */
bool mlsi_cuda_has_shared(const mlsi_nest *n, const bool *spread, int32_t first);
/* Ahead of a statement: the barrier that it needs. */
void mlsi_cuda_before(mlsi_c_writer *w, const mlsi_ls *s);
void mlsi_cuda_barrier(mlsi_c_writer *w);
/* An accumulator's result was asked for: if threads gave terms, they have met. */
void mlsi_cuda_result(mlsi_c_writer *w, int32_t acc);
void mlsi_cuda_block_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut);
/* Does a statement with all that is in it write LOCAL memory of the block? */
bool mlsi_cuda_writes_local(const mlsi_nest *n, int32_t first);

#endif
