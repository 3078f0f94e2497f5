/* The state of writing one nest as C, between the c_*.c files. */
#ifndef MLSI_C_WRITER_H
#define MLSI_C_WRITER_H

#include "core/dtype.h"
#include "ir/codegen/codegen.h"
#include "ir/ops/op_def.h"

/* Where an expression stands: outside vector loops, in a whole register of lanes, in the last, partial one. */
typedef enum mlsi_c_mode { MLSI_C_SCALAR, MLSI_C_FULL, MLSI_C_TAIL } mlsi_c_mode;

/* Who runs a statement: the function of a CPU, a GPU's thread on its own, or all threads of a block, which compute the same
 * (cuda_block.c). */
typedef enum mlsi_c_worker { MLSI_C_HOST, MLSI_C_THREAD, MLSI_C_BLOCK } mlsi_c_worker;

typedef struct mlsi_c_writer {
    mlsi_nest *n; /* expressions are interned in its table */
    mlsi_text *out;
    mlsi_c_mode mode;
    mlsi_c_worker worker;
    struct mlsi_cuda_plan *plan; /* of a GPU's kernel (cuda_writer.h) */
    int32_t vector_var;          /* of the vector loop around, -1 = none */
    bool lanes_are_terms;        /* the vector loop is a reduction's: lane number u of 128 */
    bool *let_is_vector;         /* per let */
    int32_t
        *let_index; /* per let: the INDEX that it names without being in a register, -1 = none */
    bool *acc_is_vector; /* per accumulator: one per lane of the vector loop */
    bool *acc_in_lanes;  /* per accumulator: terms come in lanes */
    mlsys_status status;
    int32_t row_var, row_first,
        row_last; /* of a kernel of rows: its task variable, first and last loop; -1 */
} mlsi_c_writer;

/* Registers: float for f32 and narrower, double, int64_t, and int for bool; in lanes VF, VI and VM. */
typedef enum mlsi_c_class { MLSI_C_F32, MLSI_C_F64, MLSI_C_INT, MLSI_C_BOOL } mlsi_c_class;
mlsi_c_class mlsi_c_class_of(mlsys_dtype t);
const char *mlsi_c_memory_type(mlsys_dtype t); /* NULL: no C text for it */
const char *mlsi_c_register_type(mlsys_dtype t, bool vector);

void mlsi_c_refuse(mlsi_c_writer *w, const char *why);

/* c_index.c */
void mlsi_c_index(mlsi_c_writer *w, int64_t code);
/* The constant by which code grows with the variable: false when it is none. */
bool mlsi_c_stride(const mlsi_nest *n, int64_t code, int32_t var, int64_t *stride);
/* The address of buffer's element, without the name: "i*in0_s0 + j". */
void mlsi_c_address(mlsi_c_writer *w, int32_t buffer, const int64_t *index);
/* How an access moves with a variable: not at all, to the next element, or else. */
typedef enum mlsi_c_access { MLSI_C_SAME, MLSI_C_UNIT, MLSI_C_OTHER } mlsi_c_access;
mlsi_c_access mlsi_c_access_of(const mlsi_nest *n, int32_t buffer, const int64_t *index,
                               int32_t var);

/* c_expr.c */
void mlsi_c_value(mlsi_c_writer *w, int32_t expr);  /* in the mode's register type */
void mlsi_c_scalar(mlsi_c_writer *w, int32_t expr); /* as a scalar whatever the mode */
const char *mlsi_c_load_name(mlsys_dtype t);        /* the call that loads lanes; NULL = none */
mlsys_dtype mlsi_c_args_dtype(const mlsi_nest *n, const mlsi_lx *x);

/* c_lanes.c */
/* Can everything that a statement list computes be in lanes of var? */
bool mlsi_c_fits_lanes(mlsi_c_writer *w, int32_t first, int32_t var);
/* Does an expression's value differ between the lanes? */
bool mlsi_c_varies(const mlsi_c_writer *w, int32_t expr);
/* What a LET is in the loops around it: in lanes, or a name for an index. */
void mlsi_c_define_let(mlsi_c_writer *w, const mlsi_ls *s);
/* A comparison or a cast of numbers that count lanes, and its text. */
bool mlsi_c_is_index_op(const mlsi_c_writer *w, const mlsi_lx *x);
void mlsi_c_index_op(mlsi_c_writer *w, const mlsi_lx *x);

/* c_ahead.c */
void mlsi_c_find_row(mlsi_c_writer *w, int32_t row_var, int32_t body);
void mlsi_c_ahead(mlsi_c_writer *w, const mlsi_ls *loop); /* inside a loop over whole registers */

/* c_func.c */
mlsys_status mlsi_c_writer_init(mlsi_c_writer *w, mlsi_nest *n, mlsi_text *out);
void mlsi_c_writer_free(mlsi_c_writer *w);
void mlsi_c_declare_strides(mlsi_c_writer *w, const mlsi_loop_buffer *b);
/* "const int64_t m_NAME_at = ...", where LOCAL memory begins, behind that of the one named before it, or at 0. */
void mlsi_c_declare_place(mlsi_c_writer *w, const mlsi_loop_buffer *b, const char *before);
/* Bytes of a LOCAL buffer, to a multiple of 64, more. */
mlsys_status mlsi_c_add_local(const mlsi_nest *n, const mlsi_loop_buffer *b, const int64_t *dims,
                              uint64_t *bytes);

/* c_stmt.c: the statements of a body. */
void mlsi_c_body(mlsi_c_writer *w, int32_t first);
/* A ragged tile: the loop's whole body is one range test of base + variable; that test, or NULL. */
const mlsi_ls *mlsi_c_ragged(const mlsi_c_writer *w, const mlsi_ls *s);
/* "{ const int64_t n_NAME = ...": the extent, cut by the tile's end; NAME. */
const char *mlsi_c_extent(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut);
void mlsi_c_acc_type(mlsi_c_writer *w, int32_t acc);
bool mlsi_c_adds_to(const mlsi_nest *n, int32_t first, int32_t acc);
/* The call that stores lanes of a dtype; NULL = none. */
const char *mlsi_c_store_name(mlsys_dtype t);

/* schedule_c.c */
/* Loops whose bodies hold no loop become vectors. */
void mlsi_c_innermost_are_lanes(mlsi_nest *n, int32_t first);

/* c_ops.c: text with $0 $1 $2 for the arguments; NULL = none. */
const char *mlsi_c_op(mlsi_op op, mlsi_c_class class_of_args, bool vector);
void mlsi_c_cast(mlsi_c_writer *w, mlsys_dtype from, mlsys_dtype to, int32_t arg);
bool mlsi_c_casts_in_lanes(mlsys_dtype from, mlsys_dtype to);

#endif
