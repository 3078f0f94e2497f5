/* Loop IR to C text. The text includes "cpu/gen.h" (the vocabulary of generated code) and gives one function per nest:
 *
 *     int64_t NAME(mlsi_gen_args *a);
 *
 * It runs tasks [begin, end) of the nest's PARALLEL loops and answers 0, or 1 + the number of the BIND that failed,
 * with value and extent in a->error. No device calls, no libraries, no allocation. */
#ifndef MLSI_CODEGEN_H
#define MLSI_CODEGEN_H

#include "core/block_code.h"
#include "ir/loop/nest.h"

/* UNSUPPORTED with the reason where the text cannot say what the nest does (GPU loops, shuffles). Index expressions are
 * interned in the nest's table, which changes nothing that it means. */
mlsys_status mlsi_codegen_c(mlsi_nest *n, const char *name, mlsi_text *out);
/* The same as block code. UNSUPPORTED with the reason where it cannot say what the nest does, or only element by element.
 * Free it also after a failure. */
mlsys_status mlsi_codegen_blocks(mlsi_nest *n, mlsi_block_code *out);
void mlsi_block_code_free(mlsi_alloc *a, mlsi_block_code *code);
/* The default schedule for CPUs of a nest of rows (one whose ops have no loops of their own). */
mlsys_status mlsi_codegen_schedule(mlsi_nest *n);
/* Variables of the PARALLEL loops that nest perfectly from the root, at most 8, and what is inside. */
int mlsi_codegen_chain(const mlsi_nest *n, int32_t *vars, int32_t *inner);
/* How many tasks there are: an index expression, 1 without PARALLEL loops. */
mlsys_status mlsi_codegen_tasks(mlsi_nest *n, int64_t *code);
/* Bytes of LOCAL memory of one worker under values of the nest's shape symbols. */
mlsys_status mlsi_codegen_work(const mlsi_nest *n, const int64_t *dims, uint64_t *bytes);

/* ---- CUDA C (cuda*.c). The text stands behind the vocabulary of src/cuda/gen_device.h and gives one kernel a nest:
 *
 *     extern "C" __global__ void NAME(inputs..., outputs..., int64_t symbols..., char *work, int64_t work_bytes,
 *                                     int64_t tasks, int64_t *error)
 *
 * A task is one iteration of the PARALLEL loops that nest perfectly from the root, or a few neighbours; workers take tasks in turn, a whole grid's
 * stride apart. A worker is a thread, or a block whose threads share each task's VECTOR loops. work: LOCAL memory that
 * neither registers nor shared memory hold, work_bytes of it (mlsi_codegen_cuda_work) for each worker of the grid. The
 * first BIND that fails leaves error[0] = its number + 1, then value, extent, position; error[0] is 0 before.
 *
 * Ahead of it n_parts kernels NAME_p0, NAME_p1, ... of as many tasks each are launched in order, with the same arguments but `tasks`,
 * and as many threads and bytes of shared memory: they leave results of parts of long reductions in `work`, 8 bytes a task, of which no other
 * memory is needed then. */
enum { MLSI_GPU_PARTS = 4 };
typedef struct mlsi_gpu_code {
    int64_t tasks;         /* index expression */
    int32_t threads;       /* of a block */
    bool block_is_worker;  /* else each thread is one */
    uint32_t shared_bytes; /* dynamic shared memory of a block */
    int32_t n_parts;
    int64_t parts[MLSI_GPU_PARTS]; /* tasks: index expressions */
} mlsi_gpu_code;

/* UNSUPPORTED with the reason where the text cannot say what the nest does. */
mlsys_status mlsi_codegen_cuda(mlsi_nest *n, const char *name, mlsi_text *out, mlsi_gpu_code *code);
/* The default schedule for GPUs. */
mlsys_status mlsi_codegen_cuda_schedule(mlsi_nest *n);
/* Tasks of the parts, and the bytes of `work` that they need together. */
mlsys_status mlsi_codegen_cuda_parts(const mlsi_nest *n, const mlsi_gpu_code *code,
                                     const int64_t *dims, int64_t tasks[MLSI_GPU_PARTS],
                                     uint64_t *bytes);
/* Bytes of `work` for one worker under values of the nest's shape symbols. */
mlsys_status mlsi_codegen_cuda_work(const mlsi_nest *n, const mlsi_gpu_code *code,
                                    const int64_t *dims, uint64_t *bytes);

#endif
