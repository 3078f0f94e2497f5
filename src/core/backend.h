/* The device interface. A backend is data: a table of kernel rows. The compile driver asks for a row
 * (op, operand facts, attributes), plans its scratch, packs its constants, and calls it.
 *
 * Contract of a kernel
 *  - Reads only the elements of its input views, writes every element of its output views (which
 *    never self-overlap and never overlap an input unless the row says in-place) and nothing else.
 *  - Allocates nothing: scratch comes in `work`, of exactly the bytes that the row's work function
 *    asked for; 64-byte aligned, contents arbitrary.
 *  - Gives the bits that docs/numerics.md states for the op, for any thread count and instruction set.
 *  - Legal extents may be 0. Errors that depend on values (an index out of range) return a status
 *    whose sentence names op, position and value; outputs may then be partly written. */
#ifndef MLSI_BACKEND_H
#define MLSI_BACKEND_H

#include "core/accelerator.h"
#include "core/alloc.h"
#include "core/block_code.h"
#include "core/gen_args.h"
#include "core/layout.h"
#include "core/op_attrs.h"
#include "core/pool.h"

enum { MLSI_MAX_OPERANDS = 64 }; /* inputs of one op; concat takes the most */

typedef enum mlsi_op {
#define MLSI_OP(ID, name, family) MLSI_OP_##ID,
#include "core/op_list.h"
#undef MLSI_OP
    MLSI_OP_COUNT
} mlsi_op;

typedef enum mlsi_isa { MLSI_ISA_PORTABLE = 0, MLSI_ISA_AVX2 = 1, MLSI_ISA_AVX512 = 2 } mlsi_isa;

typedef enum mlsi_numerics { MLSI_EXACT = 1, MLSI_STABLE = 2, MLSI_FAST = 3 } mlsi_numerics;

/* What is known about an operand when a row is chosen. */
typedef struct mlsi_operand {
    bool present; /* optional inputs may be absent */
    mlsys_dtype dtype;
    int32_t rank;
    int64_t shape[MLSYS_MAX_DIMS]; /* -1 = known only at run time */
    bool contiguous;               /* row-major and gapless in every run */
    bool inner_unit;               /* last stride is 1 (or extent 1) in every run */
    bool constant;                 /* the same bytes in every run: may be packed */
} mlsi_operand;

typedef struct mlsi_query {
    mlsi_op op;
    const void *attrs;
    int n_in, n_out;
    const mlsi_operand *in, *out;
    mlsi_numerics numerics;
} mlsi_query;

typedef struct mlsi_kernel_args {
    const void *attrs; /* the op's attribute struct, dims resolved */
    int n_in, n_out;
    const mlsi_view *in; /* data NULL when absent */
    const mlsi_view *out;
    const void *packed; /* from the row's pack function, or NULL */
    void *work;
    uint64_t work_bytes;
    mlsi_pool *pool;
    mlsi_queue
        *queue;     /* rows of an accelerator: all data is the device's, and the work is queued */
    int64_t *error; /* of such rows that have `failed`: four words of the device, 0 before */
} mlsi_kernel_args;

typedef struct mlsi_kernel {
    mlsi_op op;
    mlsi_isa isa;     /* needs at least this */
    const char *name; /* op, dtype, idea: "matmul_q4_1_rows32_avx2" */
    bool (*accepts)(const mlsi_query *q);
    mlsys_status (*run)(const mlsi_kernel_args *args);
    /* Scratch bytes for these shapes (data pointers are not looked at); NULL = none. threads is the
     * number of workers. Must be monotone in the extents. */
    uint64_t (*work)(const mlsi_kernel_args *args, int threads);
    /* Output 0 may share input i's buffer if bit i is set, of several outputs output r that of the r-th bit: same
     * shape, dtype and layout, and every element is read before it (or any later-read one) is overwritten. */
    uint32_t in_place;
    /* Rows of an accelerator that values can fail: the status of what their kernel left in error, error[0] != 0. */
    mlsys_status (*failed)(const int64_t error[4]);
    /* Elementwise ops: the op on tiles of each class (core/block_code.h), NULL where it is not defined; NULL = none. */
    const mlsi_tile_fn *tile;
    /* Constant packing of input pack_input, done once at compile; NULL = none. The kernel then gets
     * `packed` and must not read in[pack_input].data. */
    int pack_input;
    uint64_t (*pack_bytes)(const mlsi_view *constant, const void *attrs);
    void (*pack)(const mlsi_view *constant, const void *attrs, void *packed, mlsi_pool *pool);
} mlsi_kernel;

/* Loaded generated code. */
typedef struct mlsi_module mlsi_module;

typedef struct mlsi_backend {
    const char *name;
    mlsys_devtype type;
    /* Memory and queues of its devices; then every op without a row becomes a generated kernel. NULL: the host. */
    const mlsi_accelerator *accel;
    /* First row of op that accepts q and needs at most isa, which the machine has; NULL = none. */
    const mlsi_kernel *(*find)(const mlsi_query *q, mlsi_isa isa);
    /* i-th row of the whole table, NULL past the end: for listings and conformance tests. */
    const mlsi_kernel *(*row)(int i);
    /* Compile C text (ir/codegen) for an instruction set, or find it in the cache, and load it. NULL: no generated code.
     * UNSUPPORTED where the machine has no compiler, IO where it fails. Any thread. */
    mlsys_status (*load)(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out);
    /* The same without the cache: code that is tried out and thrown away. */
    mlsys_status (*load_once)(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out);
    mlsi_gen_fn (*function)(const mlsi_module *m, const char *name); /* NULL: it has none */
    void (*unload)(mlsi_alloc *a, mlsi_module *m);
    bool (*cached)(mlsi_alloc *a, const char *text, mlsi_isa isa); /* would load find it? */
    /* Functions for block code's ops. UNSUPPORTED names an op that has none. NULL: no block code. */
    mlsys_status (*bind_blocks)(mlsi_block_code *code, mlsi_isa isa);
    /* As a generated function; a->work: the code's state_bytes, then LOCAL memory. */
    int64_t (*run_blocks)(const mlsi_block_code *code, mlsi_gen_args *a);
    mlsi_isa (*isa)(void); /* the best instruction set of this machine; slow, a context keeps it */
} mlsi_backend;

extern const mlsi_backend mlsi_cpu_backend;
extern const mlsi_backend mlsi_cuda_backend;

const char *mlsi_op_name(mlsi_op op); /* text name, from op_list.h */
/* MLSI_OP_COUNT when unknown. */
mlsi_op mlsi_op_by_name(const char *name);

#endif
