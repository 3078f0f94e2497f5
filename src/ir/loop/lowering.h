/* The driver's state, between lower_func.c, lower_rows.c and lower_element.c. */
#ifndef MLSI_LOWERING_H
#define MLSI_LOWERING_H

#include "ir/ops/op_def.h"

typedef enum mlsi_place {
    MLSI_PLACE_INLINE = 0, /* computed where it is read */
    MLSI_PLACE_PARAM,      /* element of buffer */
    MLSI_PLACE_CONST,      /* expr, without loop variables */
    MLSI_PLACE_ROW,        /* one value per row: expr, valid while row_known */
    MLSI_PLACE_TEMP        /* one row in LOCAL memory once it is filled */
} mlsi_place;

typedef struct mlsi_lowered {
    mlsi_place place;
    int32_t buffer, expr;
    bool known;   /* ROW, TEMP: computed in this row */
    bool filling; /* TEMP: the loop that fills it is open */
} mlsi_lowered;

/* An element that a let holds, while the body that has the let is open. */
typedef struct mlsi_held {
    int32_t value, expr;
    int32_t depth, body; /* of the nest's open bodies; the body's statement */
    int64_t index[MLSYS_MAX_DIMS];
} mlsi_held;

struct mlsi_lowering {
    const mlsi_graph *g;
    const mlsi_func *f;
    int32_t func;
    mlsi_nest *n;
    mlsi_lowered *values; /* per value of f */
    mlsi_held *held;
    int64_t n_held, cap_held;
    int32_t lazy;      /* > 0: inside a guard: nothing may be computed ahead */
    int32_t nest_node; /* the one node with loops of its own, -1 = none */
    int32_t row_rank;  /* loops around rows */
    int32_t space_rank,
        row_axis
            [MLSYS_MAX_DIMS]; /* the axes that they walk in values of this rank; in others the leading */
    int64_t row[MLSYS_MAX_DIMS], row_extent[MLSYS_MAX_DIMS];
    int32_t inner_rank; /* the open loops inside a row, when they walk all of it */
    int64_t inner[MLSYS_MAX_DIMS], inner_extent[MLSYS_MAX_DIMS];
};

/* Does the op compute an element from elements? Is it a reduction per element? (lower_element.c) */
bool mlsi_lower_has_element(const mlsi_op_def *def);
mlsi_lower mlsi_lower_of(mlsi_lowering *d, const mlsi_node *node);
/* An element of a value, in its dtype. */
int32_t mlsi_lower_value(mlsi_lowering *d, int32_t value, const int64_t *index);
/* From here to the end of the innermost open body this element is expr. */
void mlsi_lower_hold(mlsi_lowering *d, int32_t value, const int64_t *index, int32_t expr);
/* UNSUPPORTED, with the nest's name. */
void mlsi_lower_refuse(mlsi_lowering *d, const char *why, const char *what);
/* The axes of a value of this rank, those of the row loops first: dims or an index in this order, and back. */
void mlsi_lower_split(const mlsi_lowering *d, int rank, const int64_t *from, int64_t *to);
void mlsi_lower_join(const mlsi_lowering *d, int rank, const int64_t *from, int64_t *to);
/* Loops over the reduced space, the terms, and the result at index (lower_rows.c). */
int32_t mlsi_lower_reduction(mlsi_lowering *d, const mlsi_node *node, const int64_t *index);
/* All outputs, row by row: reductions once a row, then what reads them. */
void mlsi_lower_rows(mlsi_lowering *d);

#endif
