/* Loop IR: a nest of loops that computes some buffers from others.
 *
 * Semantics
 *  - A nest has buffers (memory), loop variables, named scalars (lets), accumulators, scalar expressions and a
 *    tree of statements. Statements of one body run one after the other. Meaning is that of the serial run in
 *    the order of the text, whatever the kinds of the loops: kinds say how a backend may run it, and a nest is
 *    legal (verify.c, schedules) only where that cannot be seen.
 *  - Index expressions are dims (ir/graph/dims.h) over the shape symbols and the loop variables: sums of
 *    products, floor divisions and remainders, exact integers in one normal form. A loop variable is a symbol of
 *    the nest's table with the range [0, extent - 1]; its extent may name symbols and outer variables.
 *  - A buffer is accessed by one subscript per axis; every subscript must lie in [0, extent) for all values of the
 *    symbols and variables in range (prove.h proves it). Parameters are dense and row-major; an input is never written,
 *    an output never overlaps an input unless the nest was proved safe in place. An output may be read after it was
 *    written. LOCAL memory belongs to one iteration of the loops around its ALLOC, SHARED to one BLOCK iteration; their
 *    contents are arbitrary after ALLOC. A buffer declared `bytes` shows the bytes of a block dtype.
 *  - Scalar expressions have a dtype and no effects, and mean what the elementwise op of that name means (bits:
 *    docs/numerics.md; narrow floats are computed in f32 and rounded to the expression's dtype).
 *  - GUARD evaluates its first argument only where lo <= index < hi, else its second: subscripts of the
 *    first are proved under that condition. IF likewise for statements.
 *  - BIND gives a variable a value from data: a scalar i64 that must lie in [0, extent), else the nest fails with a
 *    sentence (text, value, position if it has one, range), or, with a clamp, is moved to the nearer end. With wrap
 *    the range is [-extent, extent), and negative values count from the end.
 *  - A reduction is an accumulator and the statements ADD that give it terms: (position, term). Positions are an index
 *    expression; over all iterations between the ACC that opens it and its first read they must take each value of
 *    [0, count) exactly once, in any order of the loops. The result is a function of the sequence by position alone:
 *    the order of docs/numerics.md that the accumulator's kind names. So loops may be reordered, split and run in parallel
 *    freely, and a backend realises the order.
 *  - Loop kinds: PARALLEL iterations may run at once on several threads, VECTOR ones in lockstep on lanes of a register,
 *    UNROLLED are written out; GRID, BLOCK and LANE are a GPU's blocks, warps and lanes. BARRIER separates phases of the
 *    lanes of one block: what one lane wrote to SHARED or global memory before it, others may read after it. COPY starts an
 *    asynchronous copy, whose destination is arbitrary until the next WAIT. MMA adds the product of two tiles to a third
 *    in the order of its accumulator kind. SHUFFLE reads a let of the lane of the same BLOCK with the given number.
 *  - Extents of 0 are legal: the body does not run. Integer overflow of scalars wraps; of index expressions it cannot
 *    happen (symbols are bounded, dims.h checks). */
#ifndef MLSI_NEST_H
#define MLSI_NEST_H

#include "ir/graph/ir.h"

typedef enum mlsi_scope {
    MLSI_SCOPE_INPUT = 1, /* parameter, read only */
    MLSI_SCOPE_OUTPUT,    /* parameter, every element is written */
    MLSI_SCOPE_LOCAL,     /* memory of one thread */
    MLSI_SCOPE_SHARED     /* memory of one GPU block */
} mlsi_scope;

typedef enum mlsi_loop_kind {
    MLSI_LOOP_SERIAL = 1,
    MLSI_LOOP_PARALLEL,
    MLSI_LOOP_VECTOR,
    MLSI_LOOP_UNROLLED,
    MLSI_LOOP_GRID,
    MLSI_LOOP_BLOCK,
    MLSI_LOOP_LANE
} mlsi_loop_kind;

typedef struct mlsi_loop_buffer {
    const char *name;
    mlsi_scope scope;
    mlsys_dtype dtype;
    int32_t rank;
    int64_t dims[MLSYS_MAX_DIMS]; /* index expressions over shape symbols */
    int32_t param;                /* input or output number; -1 for LOCAL and SHARED */
    bool bytes; /* u8 view of a block dtype: last axes are (blocks, bytes of a block) */
} mlsi_loop_buffer;

typedef struct mlsi_loop_var {
    const char *name;
    int64_t
        code; /* the variable as an index expression; 0 where the extent is provably at most 1 */
    int64_t extent; /* in [0, extent) */
    int32_t symbol; /* in the nest's table, -1 when code is 0 */
} mlsi_loop_var;

/* How the terms of a reduction make its result; see docs/numerics.md. */
typedef enum mlsi_acc_kind {
    MLSI_ACC_SUM = 1, /* floats: the canonical tree; integers wrap */
    MLSI_ACC_PROD,    /* likewise */
    MLSI_ACC_DOT,     /* terms are pairs: products along K, segments of 256, fma chains */
    MLSI_ACC_MAX,     /* NaN if any is NaN; count >= 1 */
    MLSI_ACC_MIN,
    MLSI_ACC_AND, /* bool */
    MLSI_ACC_OR,
    MLSI_ACC_ARGMAX, /* i64: position of the first greatest term; NaN counts as greatest */
    MLSI_ACC_ARGMIN
} mlsi_acc_kind;

typedef struct mlsi_acc {
    const char *name;
    mlsi_acc_kind kind;
    mlsys_dtype dtype; /* of the terms; SUM, PROD and DOT of floats: f32 or f64, the compute type */
    int64_t count;     /* index expression */
    int32_t
        init; /* DOT: what the first segment is added to, an expression known at ACC; -1 = nothing */
} mlsi_acc;

typedef enum mlsi_lx_kind {
    MLSI_LX_CONST = 1, /* bits */
    MLSI_LX_INDEX,     /* index[0] as i64 */
    MLSI_LX_LOAD,      /* element of buffer ref at index */
    MLSI_LX_OP,        /* elementwise primitive of args; cast and bitcast to dtype */
    MLSI_LX_LET,       /* let ref */
    MLSI_LX_ACC,       /* result of accumulator ref */
    MLSI_LX_GUARD,     /* index[0] <= index[1] < index[2] ? args[0] : args[1] */
    MLSI_LX_RANDOM,    /* args: key, stream (i64); index[0]: position; bits: MLSI_RANDOM_ kind */
    MLSI_LX_SHUFFLE    /* let ref of lane index[0] */
} mlsi_lx_kind;

typedef struct mlsi_lx {
    mlsi_lx_kind kind;
    mlsys_dtype dtype;
    mlsi_op op;
    int32_t ref;
    int32_t n_args, args[3]; /* expression numbers */
    int32_t n_index;
    int64_t index[MLSYS_MAX_DIMS];
    uint64_t bits; /* CONST: the element's bytes, low end first */
} mlsi_lx;

typedef enum mlsi_ls_kind {
    MLSI_LS_FOR = 1, /* var, loop, body */
    MLSI_LS_LET,     /* ref = value */
    MLSI_LS_STORE,   /* buffer ref at index = value, of the buffer's dtype */
    MLSI_LS_IF,      /* value (bool), or index[0] <= index[1] < index[2] when value is -1: body */
    MLSI_LS_ALLOC,   /* buffer ref begins here */
    MLSI_LS_ACC,     /* accumulator ref begins */
    MLSI_LS_ADD,     /* to accumulator ref: position index[0], term value (and value2: DOT) */
    MLSI_LS_BIND, /* var from value; text; clamp or wrap; index[0], if any: position, for the sentence */
    MLSI_LS_BARRIER,
    MLSI_LS_COPY, /* one element: buffer ref at index from value (a LOAD), asynchronously */
    MLSI_LS_WAIT,
    /* The tile ref[M,N], from element 0 on, gets a * b added: value is a LOAD of a's first element, [M,K] on its buffer's
     * last two axes, value2 of b's, [K,N]; index: M, N, K. Elements are cast to ref's dtype; of floats each segment of
     * 256 of K is one fma chain from +0, and the segments are added in turn. */
    MLSI_LS_MMA
} mlsi_ls_kind;

typedef struct mlsi_ls {
    mlsi_ls_kind kind;
    int32_t next; /* sibling, -1 = last */
    int32_t body; /* first statement inside, -1 = none */
    int32_t var, ref, value, value2;
    mlsi_loop_kind loop;
    bool clamp, wrap;
    int32_t n_index;
    int64_t index[MLSYS_MAX_DIMS];
    const char *text;
} mlsi_ls;

typedef struct mlsi_let {
    const char *name;
    mlsys_dtype dtype;
} mlsi_let;

typedef struct mlsi_nest {
    mlsi_alloc *alloc;
    mlsi_arena arena; /* names */
    mlsi_symtab tab;  /* shape symbols first, in their graph's order; then variables */
    int64_t n_shape_symbols;
    const char *name;
    int32_t n_inputs, n_outputs; /* parameters */
    mlsi_loop_buffer *buffers;
    int64_t n_buffers, cap_buffers;
    mlsi_loop_var *vars;
    int64_t n_vars, cap_vars;
    mlsi_let *lets;
    int64_t n_lets, cap_lets;
    mlsi_acc *accs;
    int64_t n_accs, cap_accs;
    mlsi_lx *exprs;
    int64_t n_exprs, cap_exprs;
    mlsi_ls *stmts;
    int64_t n_stmts, cap_stmts;
    int32_t first; /* statement of the root body, -1 = none */
    /* building: the open bodies and the first failure, after which calls do nothing */
    struct {
        int32_t stmt, last; /* -1 = root */
    } open[64];
    int32_t depth;
    mlsys_status status;
} mlsi_nest;

/* ---- construction (build.c). Errors stick: check n->status, or mlsi_nest_finish, once. Expression and other numbers
 * are -1 after a failure, and are accepted as arguments then. ------------------------------------------------- */

/* symbols: the shape symbols, copied; NULL = none. */
void mlsi_nest_init(mlsi_nest *n, mlsi_alloc *a, const mlsi_symtab *symbols, const char *name);
void mlsi_nest_free(mlsi_nest *n);
/* All bodies closed, no failure. */
mlsys_status mlsi_nest_finish(mlsi_nest *n);
/* Records a failure (the sentence is the thread's). */
void mlsi_nest_fail(mlsi_nest *n, mlsys_status st);

/* A parameter of a graph type (dims are codes of the graph's table, which init copied in order). */
int32_t mlsi_nest_param(mlsi_nest *n, mlsi_scope scope, const char *name, const mlsi_type *type);
/* The parameter's blocks as bytes: [..., blocks, bytes of a block]. */
int32_t mlsi_nest_bytes(mlsi_nest *n, int32_t buffer);
/* Appends ALLOC; dims are index expressions. */
int32_t mlsi_nest_local(mlsi_nest *n, const char *name, mlsys_dtype dtype, int32_t rank,
                        const int64_t *dims);

/* Index arithmetic: op in + - * / %. */
int64_t mlsi_nest_index(mlsi_nest *n, int op, int64_t a, int64_t b);
/* A variable that a FOR or BIND will define; its extent >= 0 for all symbols. */
int32_t mlsi_nest_var(mlsi_nest *n, const char *name, int64_t extent);

/* Opens a loop; the variable's code. Statements go inside until mlsi_nest_end. */
int64_t mlsi_nest_for(mlsi_nest *n, mlsi_loop_kind kind, const char *name, int64_t extent);
void mlsi_nest_if(mlsi_nest *n, int32_t value);
void mlsi_nest_if_range(mlsi_nest *n, int64_t lo, int64_t index, int64_t hi);
void mlsi_nest_end(mlsi_nest *n);
/* Names a value; the LET expression, to use instead of it. */
int32_t mlsi_nest_let(mlsi_nest *n, const char *name, int32_t value);
void mlsi_nest_store(mlsi_nest *n, int32_t buffer, const int64_t *index, int32_t value);
int32_t mlsi_nest_acc(mlsi_nest *n, mlsi_acc_kind kind, mlsys_dtype dtype, int64_t count);
void mlsi_nest_add(mlsi_nest *n, int32_t acc, int64_t position, int32_t value, int32_t value2);
/* The variable's code. text: "gather: index", static. */
int64_t mlsi_nest_bind(mlsi_nest *n, const char *name, int32_t value, int64_t extent, bool clamp,
                       const char *text);
/* A value of a tensor of indices, at that position of it. */
int64_t mlsi_nest_bind_at(mlsi_nest *n, const char *name, int32_t value, int64_t position,
                          int64_t extent, bool wrap, const char *text);

int32_t mlsi_nest_const(mlsi_nest *n, mlsys_dtype dtype, const void *element);
int32_t mlsi_nest_float(mlsi_nest *n, mlsys_dtype dtype, double value); /* rounded once */
int32_t mlsi_nest_int(mlsi_nest *n, mlsys_dtype dtype, int64_t value);  /* wraps; bool: != 0 */
int32_t mlsi_nest_index_value(mlsi_nest *n, int64_t index);
int32_t mlsi_nest_load(mlsi_nest *n, int32_t buffer, const int64_t *index);
/* dtype 0: that of the last argument (bool for predicates). */
int32_t mlsi_nest_op(mlsi_nest *n, mlsi_op op, mlsys_dtype dtype, int32_t a, int32_t b, int32_t c);
int32_t mlsi_nest_cast(mlsi_nest *n, int32_t value, mlsys_dtype dtype); /* itself when it has it */
int32_t mlsi_nest_acc_value(mlsi_nest *n, int32_t acc);
int32_t mlsi_nest_guard(mlsi_nest *n, int64_t lo, int64_t index, int64_t hi, int32_t then,
                        int32_t other);
int32_t mlsi_nest_random(mlsi_nest *n, int32_t key, int32_t stream, int64_t position, int kind,
                         mlsys_dtype dtype);
mlsys_dtype mlsi_nest_dtype(const mlsi_nest *n, int32_t value);
/* Has it BINDs, which may fail? */
bool mlsi_nest_binds(const mlsi_nest *n);
/* Result dtype of an accumulator. */
mlsys_dtype mlsi_acc_result(const mlsi_acc *a);

/* ---- checks, text, meaning ------------------------------------------------------------------------- */

/* Every rule of this page that can be decided without proof of bounds: scopes, definitions before uses, dtypes, numbers
 * in range, loops' kinds (one PARALLEL nest outermost, no PARALLEL inside VECTOR...). */
mlsys_status mlsi_nest_verify(const mlsi_nest *n);
/* The text form (print.c). Of a nest that does not verify nothing but out's status is set. */
void mlsi_nest_print(const mlsi_nest *n, mlsi_text *out);
/* n uninitialised; reads what print writes. Free it also after a failure. */
mlsys_status mlsi_nest_parse(mlsi_nest *n, mlsi_alloc *a, const char *text);
/* Runs the nest: dims: a value per shape symbol; params: dense views, inputs then outputs. Checks every subscript, that no
 * LOCAL or output element is read before it is written, that positions of reductions cover [0, count) once, and
 * that each output element is written (STATE errors name the statement): a wrong nest is an error, not a crash. */
mlsys_status mlsi_nest_interpret(const mlsi_nest *n, const int64_t *dims, const mlsi_view *params);

#endif
