/* What block code needs of an instruction set besides the ops (core/block_code.h): tiles to memory and back, accumulators. */
#ifndef MLSI_CPU_TILE_H
#define MLSI_CPU_TILE_H

#include "core/backend.h"

typedef struct mlsi_tile_machine {
    /* n elements of dtype t, `stride` bytes apart, to and from a tile of its class. */
    void (*load)(void *tile, const char *src, mlsys_dtype t, int64_t stride, int64_t n);
    void (*store)(char *dst, mlsys_dtype t, int64_t stride, const void *tile, int64_t n);
    void (*spread)(void *tile, const void *scalar, mlsi_tile_class c, int64_t n);
    /* init: the scalar or tile that a product along K is added to, or NULL. */
    void (*begin)(const mlsi_block_acc *a, void *state, int64_t lane, const void *init, int64_t n);
    /* A run of n terms of one result; of wide ones a term for each of n results, from `lane` on. */
    void (*term)(const mlsi_block_acc *a, void *state, int64_t lane, const void *x, const void *y,
                 int64_t n);
    void (*result)(const mlsi_block_acc *a, void *state, int64_t lane, void *out, int64_t n);
} mlsi_tile_machine;

extern const mlsi_tile_machine mlsi_tile_machine_portable;
extern const mlsi_tile_machine mlsi_tile_machine_avx2;
extern const mlsi_tile_machine mlsi_tile_machine_avx512;

/* blocks.c */
mlsys_status mlsi_cpu_bind_blocks(mlsi_block_code *code, mlsi_isa isa);
int64_t mlsi_cpu_run_blocks(const mlsi_block_code *code, mlsi_gen_args *a);
/* kernel_table.c: the op on tiles of a class, for an instruction set; NULL = none. */
mlsi_tile_fn mlsi_cpu_tile_fn(mlsi_op op, mlsi_tile_class c, mlsi_isa isa);

#endif
