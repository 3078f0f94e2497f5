/* The text form, between print.c, parse.c and parse_value.c. */
#ifndef MLSI_LOOP_TEXT_H
#define MLSI_LOOP_TEXT_H

#include "ir/loop/nest.h"

/* Words of kinds; NULL: there is no such kind. */
const char *mlsi_loop_word(int kind);
const char *mlsi_acc_word(int kind);
const char *mlsi_random_word(int kind);
/* Dtype of an elementwise op whose last argument has the dtype, unless it is written; 0 = always written. */
mlsys_dtype mlsi_nest_op_dtype(mlsi_op op, mlsys_dtype last);

/* Names as they are written: those of the nest where they are words and unlike the earlier ones of their kind, else with
 * underscores added. */
typedef struct mlsi_nest_names {
    mlsi_arena arena;
    const char *nest, **buffers, **lets, **accs;
} mlsi_nest_names;
mlsys_status mlsi_nest_names_make(const mlsi_nest *n, mlsi_nest_names *out);
void mlsi_nest_names_free(const mlsi_nest *n, mlsi_nest_names *names);

enum { MLSI_WORD_BYTES = 300 };

typedef struct mlsi_nest_reader {
    mlsi_nest *n;
    const char *p;
    int line, depth; /* of bodies or of values that are open */
    int32_t *shared; /* the expressions $1, $2, ... */
    int64_t n_shared, cap_shared;
} mlsi_nest_reader;

/* FORMAT, with the line and what stands there. */
mlsys_status mlsi_read_fail(const mlsi_nest_reader *r, const char *what);
bool mlsi_read_accept(mlsi_nest_reader *r, const char *token);
mlsys_status mlsi_read_expect(mlsi_nest_reader *r, const char *token);
mlsys_status mlsi_read_word(mlsi_nest_reader *r, char out[MLSI_WORD_BYTES]);
/* The same word again, if it is one; else nothing is read. */
bool mlsi_read_accept_word(mlsi_nest_reader *r, const char *word);
mlsys_status mlsi_read_i64(mlsi_nest_reader *r, int64_t *out);
mlsys_status mlsi_read_index(mlsi_nest_reader *r, int64_t *out);
/* lo <= index < hi */
mlsys_status mlsi_read_range(mlsi_nest_reader *r, int64_t out[3]);
/* Indices up to the closing token. */
mlsys_status mlsi_read_indices(mlsi_nest_reader *r, const char *end, int32_t *n, int64_t *out);
mlsys_status mlsi_read_dtype(mlsi_nest_reader *r, mlsys_dtype *out);
/* A buffer, let or accumulator by its name. */
mlsys_status mlsi_read_buffer(mlsi_nest_reader *r, int32_t *out);
mlsys_status mlsi_read_let(mlsi_nest_reader *r, int32_t *out);
mlsys_status mlsi_read_acc(mlsi_nest_reader *r, int32_t *out);
mlsys_status mlsi_read_value(mlsi_nest_reader *r, int32_t *out);

#endif
