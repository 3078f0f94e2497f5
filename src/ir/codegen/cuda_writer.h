/* Writing one nest as CUDA C, between the cuda*.c files; the C writer asks them where its text is for a GPU.
 *
 * In a kernel whose worker is a block, statements outside of shared loops run in all threads alike (MLSI_C_BLOCK): they compute
 * the same values, and thread 0 stores. The threads share the iterations of a shared loop, and each runs its own as a
 * thread does (MLSI_C_THREAD). */
#ifndef MLSI_CUDA_WRITER_H
#define MLSI_CUDA_WRITER_H

#include "ir/codegen/c_writer.h"

enum {
    MLSI_CUDA_THREADS =
        128, /* of a block that is a worker: thread t is lane t of the canonical tree */
    MLSI_CUDA_SCRATCH = 2048,     /* bytes of shared memory in which reductions are folded */
    MLSI_CUDA_SHARED = 32 * 1024, /* most bytes of LOCAL buffers in shared memory */
    MLSI_CUDA_SIDE = 32,          /* of a tile */
    MLSI_CUDA_ARRAY = 1024        /* most bytes of a LOCAL buffer that is an array of one thread */
};

/* Which threads have touched a buffer since the last barrier. */
typedef enum mlsi_cuda_by { MLSI_CUDA_NONE, MLSI_CUDA_FIRST, MLSI_CUDA_ALL } mlsi_cuda_by;
typedef struct mlsi_cuda_touched {
    uint8_t written, read; /* mlsi_cuda_by */
} mlsi_cuda_touched;

/* A loop over runs of a reduction's terms that has a kernel of its own (cuda_parts.c). */
typedef struct mlsi_cuda_part {
    int32_t loop, body;  /* its statement, and the first one in it */
    int32_t add, before; /* the ADD at its end, what stands before the loop */
} mlsi_cuda_part;

typedef struct mlsi_cuda_plan {
    bool block;   /* is the worker a block? */
    bool *shared; /* per statement: a loop whose iterations the threads share */
    bool *spread; /* per accumulator: its terms come from shared loops alone */
    /* Per buffer. All inputs are one more, at n_buffers: an output may have been given an input's memory. */
    mlsi_cuda_touched *touched;
    int pack;           /* iterations of the last loop that are one task; 1: no packs */
    int32_t pack_loop;  /* the last loop's statement */
    bool *packed_load;  /* per expression: of a pack, or of a tile */
    bool *packed_store; /* per statement */
    int32_t tile_var;   /* tasks are tiles of this variable and the last one; -1: no tiles */
    bool columns;       /* tasks are 32 columns */
    mlsi_cuda_part parts[MLSI_GPU_PARTS];
    int n_parts, part; /* whose kernel is written; n_parts: the nest's own */
} mlsi_cuda_plan;

/* ---- cuda.c ---- */

/* Where a LOCAL buffer is. */
typedef enum mlsi_cuda_place {
    MLSI_CUDA_IN_ARRAY,  /* a thread's own */
    MLSI_CUDA_IN_SHARED, /* of a block, `at` bytes from the begin of its shared memory */
    MLSI_CUDA_IN_WORK
} mlsi_cuda_place;
mlsi_cuda_place mlsi_cuda_place_of(const mlsi_nest *n, bool block, int32_t buffer, int64_t *at);
/* Most bytes of a LOCAL buffer; INT64_MAX where there is no bound. */
int64_t mlsi_cuda_most_bytes(const mlsi_nest *n, int32_t buffer);
/* Has each thread a copy of the buffer? */
bool mlsi_cuda_is_private(const mlsi_c_writer *w, int32_t buffer);
void mlsi_cuda_alloc(mlsi_c_writer *w, int32_t buffer, const char *type);

/* ---- cuda_plan.c ---- */

mlsys_status mlsi_cuda_plan_init(mlsi_cuda_plan *p, mlsi_nest *n);
void mlsi_cuda_plan_free(mlsi_cuda_plan *p, const mlsi_nest *n);
/* Is it a float's sum or product, whose terms have lanes? */
bool mlsi_cuda_is_tree(const mlsi_acc *a);
/* May it have more than one chunk of 4096 terms? */
bool mlsi_cuda_has_chunks(const mlsi_nest *n, const mlsi_acc *a);
/* Of a shared loop's terms of trees: the position of iteration 0. False: it gives none. */
bool mlsi_cuda_first_position(mlsi_nest *n, const mlsi_ls *loop, int64_t *position);

/* ---- cuda_acc.c: reductions in the writer's text ---- */

/* What follows "ml_KIND_TYPE" in the name of an accumulator's state. */
const char *mlsi_cuda_acc_variant(const mlsi_c_writer *w, int32_t acc);
/* Arguments ahead of the term, and of the end behind the state. */
void mlsi_cuda_add(mlsi_c_writer *w, const mlsi_ls *s);
void mlsi_cuda_end(mlsi_c_writer *w, int32_t acc);

/* ---- cuda_pack.c ---- */

/* No loops, conditions and failures, and nothing is read but inputs. */
bool mlsi_cuda_is_plain(const mlsi_nest *n, int32_t first);
/* The innermost of the tasks' loops, -1 = there is none. */
int32_t mlsi_cuda_last_loop(const mlsi_nest *n);
void mlsi_cuda_find_pack(mlsi_c_writer *w);
/* The task of a pack. */
void mlsi_cuda_pack_body(mlsi_c_writer *w);
/* Writes what stands for the element in the pack; false: it is none of a pack. */
bool mlsi_cuda_packed_load(mlsi_c_writer *w, const mlsi_lx *x);
bool mlsi_cuda_packed_store(mlsi_c_writer *w, const mlsi_ls *s);

/* ---- cuda_tile.c ---- */

void mlsi_cuda_find_tile(mlsi_c_writer *w);
/* The task of a tile. */
void mlsi_cuda_tile_body(mlsi_c_writer *w);
bool mlsi_cuda_tiled_load(mlsi_c_writer *w, const mlsi_lx *x);
uint32_t mlsi_cuda_tile_bytes(const mlsi_c_writer *w);

/* ---- cuda_column.c ---- */

void mlsi_cuda_find_columns(mlsi_c_writer *w);
/* The task of 32 columns. */
void mlsi_cuda_column_body(mlsi_c_writer *w);
void mlsi_cuda_column_loop(mlsi_c_writer *w, const mlsi_ls *s);
/* Ahead of a store: who does it. */
void mlsi_cuda_column_store(mlsi_c_writer *w);

/* ---- cuda_parts.c ---- */

void mlsi_cuda_find_parts(mlsi_c_writer *w, mlsi_gpu_code *code);
/* The task of a part's kernel. */
void mlsi_cuda_part_body(mlsi_c_writer *w, int32_t inner);
/* The part's kernel is written; from now on its runs' results are in memory, and its loop holds nothing else. */
void mlsi_cuda_end_part(mlsi_c_writer *w, int part);
void mlsi_cuda_restore_parts(mlsi_c_writer *w);
/* Of the ADD of a part: the statement in its kernel, the term in the later ones. False: it has no part. */
bool mlsi_cuda_leave_run(mlsi_c_writer *w, const mlsi_ls *add);
bool mlsi_cuda_take_run(mlsi_c_writer *w, const mlsi_ls *add);

/* ---- cuda_block.c: statements that all threads of a block run ---- */

/* Ahead of a statement: the barrier that it needs. */
void mlsi_cuda_before(mlsi_c_writer *w, const mlsi_ls *s);
/* Where a body ends that runs again: the barrier that this needs. locals: only LOCAL memory counts. */
void mlsi_cuda_again(mlsi_c_writer *w, int32_t first, bool locals);
/* All threads have met. */
void mlsi_cuda_met(mlsi_c_writer *w);
void mlsi_cuda_block_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut);
void mlsi_cuda_block_if(mlsi_c_writer *w, const mlsi_ls *s);

#endif
