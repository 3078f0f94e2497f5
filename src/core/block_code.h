/* Block code: a nest of loops (ir/loop) as a short program whose registers are tiles, for machines without a C compiler and for
 * programs that are not worth one. ir/codegen/blocks.c writes it, a backend runs it; both see this page only.
 *
 *  - Integers are 64-bit numbers written once: values of shape symbols, loop variables, addresses. They wrap.
 *  - Registers are scalars or tiles of up to MLSI_TILE lanes, of one class: f32 (narrower floats are held as f32 and rounded by
 *    CASTs), f64, i64 (narrower integers likewise), bool (a byte 0 or 1). Each is written at one place, but for results of
 *    guards, which two COPYs write.
 *  - Outside of TILES there is one lane. TILES walks an extent in steps; its body sees the lanes of one step. An instruction
 *    with `one` works on lane 0 only.
 *  - Lanes are a window [low, high) of the tile: RANGE narrows it to where lo <= base + stride * (at + lane) < hi, and ELSE
 *    runs its body for what RANGE left out, once or twice; at is the tile's first element. Bodies of empty windows do not run.
 *  - Memory is addressed by base + stride * (at + lane), in elements.
 *  - An accumulator takes terms in ascending order of their positions: as a run, lane by lane, of one result, or (wide) one
 *    term for each lane's own result. Its order is that of docs/numerics.md. */
#ifndef MLSI_BLOCK_CODE_H
#define MLSI_BLOCK_CODE_H

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/gen_args.h"

enum { MLSI_TILE = 512 };

typedef enum mlsi_tile_class {
    MLSI_TILE_F32 = 0,
    MLSI_TILE_F64,
    MLSI_TILE_I64,
    MLSI_TILE_BOOL,
    MLSI_TILE_CLASSES
} mlsi_tile_class;

static inline mlsi_tile_class mlsi_tile_class_of(mlsys_dtype t) {
    if (t == MLSYS_F64) return MLSI_TILE_F64;
    if (mlsi_dtype_is_float(t)) return MLSI_TILE_F32;
    return t == MLSYS_BOOL ? MLSI_TILE_BOOL : MLSI_TILE_I64;
}
static inline int mlsi_tile_size(mlsi_tile_class c) {
    return c == MLSI_TILE_F32 ? 4 : c == MLSI_TILE_BOOL ? 1 : 8;
}

/* y[i] = f(x[0][i], x[1][i], ...), i < n, on lanes of a class; y may be one of the x. t: dtype of the operands, of a cast
 * that of its result. */
typedef void (*mlsi_tile_fn)(void *y, const void *const *x, int64_t n, mlsys_dtype t);

typedef enum mlsi_block_kind {
    MLSI_BLOCK_NUMBER = 1, /* int dst = value */
    MLSI_BLOCK_ADD,        /* int dst = a + b */
    MLSI_BLOCK_MUL,
    MLSI_BLOCK_DIV,   /* rounded down; b > 0 */
    MLSI_BLOCK_LOOP,  /* int dst = 0 ... int a - 1: body */
    MLSI_BLOCK_TILES, /* at = 0, value, ... below int a: body */
    MLSI_BLOCK_RANGE, /* lo: int a, base: int b, stride: int c, hi: int d: body */
    MLSI_BLOCK_ELSE,  /* likewise */
    MLSI_BLOCK_WHEN,  /* scalar a, a bool: body */
    MLSI_BLOCK_OPEN,  /* dst begins: COPYs write it */
    MLSI_BLOCK_BITS,  /* scalar dst = value, the bits of its class */
    MLSI_BLOCK_INDEX, /* dst = int b + int c * (at + lane), an i64 */
    MLSI_BLOCK_SPREAD, /* tile dst = scalar a, in the window, or (value 1) in all lanes, at most int b of them unless -1 */
    MLSI_BLOCK_COPY,   /* dst = a */
    MLSI_BLOCK_LOAD,   /* dst = buffer a at int b, stride int c, of dtype */
    MLSI_BLOCK_STORE,  /* buffer dst at int b, stride int c, of dtype = a */
    MLSI_BLOCK_OP,     /* dst = fn(a, b, c), n_args of them; op, cls and dtype say which */
    MLSI_BLOCK_BEGIN,  /* accumulator dst; a: what a product along K is added to, -1 = nothing */
    MLSI_BLOCK_TERM,   /* accumulator dst takes a (and b) */
    MLSI_BLOCK_RESULT, /* dst = result of accumulator a */
    /* int dst = scalar a, which must lie in [0, int b); value: the number of the BIND, c: int of the position. */
    MLSI_BLOCK_BIND
} mlsi_block_kind;

typedef struct mlsi_block_instr {
    mlsi_block_kind kind;
    bool one; /* lane 0 only */
    bool
        direct; /* LOAD: the register is the memory; OP: writes where the STORE behind it would; that STORE */
    bool clamp, wrap;
    int32_t n_args;
    int32_t dst, a, b, c, d;
    int32_t body; /* instructions inside, which follow */
    int32_t op;   /* mlsi_op */
    mlsi_tile_class cls;
    mlsys_dtype dtype;
    int64_t value;
    mlsi_tile_fn fn; /* the backend's */
} mlsi_block_instr;

typedef struct mlsi_block_register {
    mlsi_tile_class cls;
    bool tile;       /* else a scalar */
    uint64_t offset; /* in the worker's state */
} mlsi_block_register;

typedef struct mlsi_block_buffer {
    int32_t param; /* number in mlsi_gen_args.data, -1: LOCAL memory */
    int32_t count; /* LOCAL: int with its elements */
    int32_t size;  /* of one element */
} mlsi_block_buffer;

/* How terms make a result: mlsi_acc_kind of ir/loop, in the same order. */
typedef enum mlsi_block_sum {
    MLSI_BLOCK_SUM = 1,
    MLSI_BLOCK_PROD,
    MLSI_BLOCK_DOT,
    MLSI_BLOCK_MAX,
    MLSI_BLOCK_MIN,
    MLSI_BLOCK_AND,
    MLSI_BLOCK_OR,
    MLSI_BLOCK_ARGMAX,
    MLSI_BLOCK_ARGMIN
} mlsi_block_sum;

typedef struct mlsi_block_acc {
    mlsi_block_sum kind;
    mlsi_tile_class cls; /* of the terms */
    bool wide;           /* a result per lane */
    int32_t width;       /* wide: lanes at most */
    int32_t levels;      /* of a tree of sums */
    uint64_t offset;     /* in the worker's state */
} mlsi_block_acc;

/* A wide sum holds 128 tiles per level, so its loop takes narrower ones. */
enum { MLSI_TILE_SUMS = 64 };

typedef struct mlsi_block_code {
    mlsi_block_instr *instrs; /* before the tasks, then those of a task */
    int32_t n_instrs, n_before;
    int32_t n_ints;    /* the first are values of the shape symbols, then the task */
    int32_t n_symbols; /* of them */
    mlsi_block_register *registers;
    int32_t n_registers;
    mlsi_block_buffer *buffers;
    int32_t n_buffers;
    mlsi_block_acc *accs;
    int32_t n_accs;
    uint64_t state_bytes; /* of a worker; LOCAL memory lies behind */
    const void *machine;  /* the backend's */
} mlsi_block_code;

/* A worker's state: integers, addresses of registers, addresses of buffers, then registers and accumulators by offset. */
static inline uint64_t mlsi_block_tables_bytes(const mlsi_block_code *c) {
    uint64_t n = (uint64_t)c->n_ints + (uint64_t)c->n_registers + (uint64_t)c->n_buffers;
    return (8 * n + 63) & ~(uint64_t)63;
}

/* Of an accumulator: how many terms it has, per level; then of sums of floats 128 lanes per level, of others three values,
 * each of them `width` wide. */
enum { MLSI_BLOCK_LEVELS = 8, MLSI_BLOCK_SUM_LANES = 128 };
static inline uint64_t mlsi_block_acc_bytes(const mlsi_block_acc *a) {
    bool tree = a->kind <= MLSI_BLOCK_PROD && a->cls <= MLSI_TILE_F64;
    uint64_t values = tree ? (uint64_t)a->levels * MLSI_BLOCK_SUM_LANES : 3;
    return 8 * MLSI_BLOCK_LEVELS + values * (uint64_t)a->width * 8;
}

#endif
