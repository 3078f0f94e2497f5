/* What a module of the shim and cuda_shim.c share. */
#ifndef CUDA_SHIM_MACHINE_H
#define CUDA_SHIM_MACHINE_H

enum { CUDA_SHIM_THREADS = 1024, CUDA_SHIM_SHARED = 1 << 18 };

typedef struct cuda_shim_dim {
    unsigned x, y, z;
} cuda_shim_dim;

typedef struct cuda_shim_machine {
    cuda_shim_dim thread, block, block_dim, grid_dim; /* of the thread that runs */
    void (*barrier)(void); /* returns when all threads of the block have called it */
    void (*warp_barrier)(void);
    unsigned long long slot[2][CUDA_SHIM_THREADS]; /* shuffled values */
    unsigned char turn[CUDA_SHIM_THREADS];
} cuda_shim_machine;

#endif
