/* The state of writing one nest as block code, between the block_*.c files.
 *
 * Each open body is a scope with instructions of its own, which move into the scope around when it closes. What needs only
 * variables of outer scopes is written there, behind what stands there already and before the open body: so addresses leave
 * the loops that they do not depend on. */
#ifndef MLSI_BLOCK_WRITER_H
#define MLSI_BLOCK_WRITER_H

#include "ir/codegen/codegen.h"

enum { MLSI_BLOCK_SCOPES = 80, MLSI_BLOCK_MOST = 1 << 16 };

typedef struct mlsi_block_scope {
    mlsi_block_instr head; /* kind 0: the root's, before the tasks; then a task's */
    mlsi_block_instr *instrs;
    int64_t n, cap;
} mlsi_block_scope;

typedef struct mlsi_block_fact {
    int32_t scope;  /* that writes it */
    int32_t spread; /* a scalar's tile, -1 = none that is open */
} mlsi_block_fact;

typedef struct mlsi_block_writer {
    mlsi_nest *n;
    mlsi_block_code *code;
    mlsi_block_scope scopes[MLSI_BLOCK_SCOPES];
    int32_t depth;        /* of the innermost scope */
    int32_t ranges;       /* scopes around that narrow the lanes */
    int32_t vector_var;   /* of the tiles around, -1 = none */
    int32_t tiles;        /* the scope inside them */
    int32_t step;         /* their width */
    int32_t tiles_extent; /* int */
    int32_t lane_int;     /* stands for the vector variable in integers; -1: it may not occur */
    int64_t written;      /* instructions in all */

    int32_t *int_of_symbol; /* per symbol of the nest's table: its int, -1 = not open */
    mlsi_block_instr *ints; /* per int: what makes it; kind 0: a symbol or variable */
    int32_t *int_depth;     /* per int: scope */
    bool *int_lives;        /* its scope is open */
    int64_t cap_ints, cap_depths, cap_lives;
    int64_t cap_registers;
    int32_t *let_register, *acc_register; /* -1 = not yet */
    int32_t *acc_ranges;                  /* per accumulator: ranges where it began */
    mlsi_block_fact *facts;               /* per register */
    int64_t cap_facts;
    mlsys_status status;
} mlsi_block_writer;

void mlsi_block_refuse(mlsi_block_writer *w, const char *why);
/* Appends to a scope. */
void mlsi_block_emit(mlsi_block_writer *w, int32_t scope, const mlsi_block_instr *i);
void mlsi_block_open(mlsi_block_writer *w, const mlsi_block_instr *head);
void mlsi_block_close(mlsi_block_writer *w);

/* block_index.c: integers; each is written in the outermost scope that has its operands. */
int32_t mlsi_block_int_new(mlsi_block_writer *w, int32_t scope);
int32_t mlsi_block_number(mlsi_block_writer *w, int64_t value);
int32_t mlsi_block_int(mlsi_block_writer *w, int64_t code);
/* x modulo by, and the quotient; both >= 0. */
int32_t mlsi_block_rest(mlsi_block_writer *w, int32_t x, int32_t by, int32_t *quotient);
/* code as base + stride * vector variable. */
typedef struct mlsi_block_affine {
    int32_t base, stride;
    bool varies, unit;
} mlsi_block_affine;
mlsi_block_affine mlsi_block_affine_of(mlsi_block_writer *w, int64_t code);
/* The same of an element's row-major number. */
mlsi_block_affine mlsi_block_address(mlsi_block_writer *w, int32_t buffer, const int64_t *index);

/* block_value.c: the register that holds an expression's value. */
int32_t mlsi_block_register_new(mlsi_block_writer *w, int32_t scope, mlsi_tile_class cls,
                                bool tile);
int32_t mlsi_block_value(mlsi_block_writer *w, int32_t expr);
/* As a tile where tiles are around. */
int32_t mlsi_block_lanes(mlsi_block_writer *w, int32_t reg);
/* Rounds or wraps what was computed to the dtype. */
int32_t mlsi_block_fit(mlsi_block_writer *w, int32_t reg, mlsys_dtype t);

/* block_stmt.c */
void mlsi_block_task(mlsi_block_writer *w);

/* block_finish.c: memory of registers and accumulators, what needs none. */
mlsys_status mlsi_block_finish(mlsi_block_writer *w);

#endif
