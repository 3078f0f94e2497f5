/* The loop interpreter's state, between interp.c and interp_acc.c. */
#ifndef MLSI_LOOP_INTERP_H
#define MLSI_LOOP_INTERP_H

#include "ir/loop/nest.h"

/* Of an element; a copy's destination is arbitrary until the next WAIT. */
enum { MLSI_UNWRITTEN = 0, MLSI_WRITTEN, MLSI_COPYING };

typedef struct mlsi_machine_buffer {
    char *data, *own;
    uint8_t *written; /* per element, of the enum; NULL: an input */
} mlsi_machine_buffer;

typedef struct mlsi_machine_acc { /* terms by position */
    uint64_t *a, *b;
    uint8_t *seen;
    int64_t count, added;
    uint64_t init; /* of the chain, when init_known */
    bool init_known;
} mlsi_machine_acc;

typedef struct mlsi_machine {
    const mlsi_nest *n;
    int64_t *binding; /* a value per symbol of the nest's table */
    uint64_t *lets;
    mlsi_machine_buffer *buffers;
    mlsi_machine_acc *accs;
} mlsi_machine;

/* An element at base (index expressions) + offset (numbers; NULL = 0), in range; written: NULL for an input's. */
mlsys_status mlsi_machine_element(mlsi_machine *m, int32_t buffer, const int64_t *base,
                                  const int64_t *offset, char **data, uint8_t **written);
/* Its bits; it must have been written. */
mlsys_status mlsi_machine_load(mlsi_machine *m, int32_t buffer, const int64_t *base,
                               const int64_t *offset, uint64_t *out);
mlsys_status mlsi_machine_mma(mlsi_machine *m, const mlsi_ls *s);

/* The elementwise op on scalars. */
mlsys_status mlsi_machine_op(mlsi_machine *m, mlsi_op op, mlsys_dtype dtype, int n,
                             const mlsys_dtype *dtypes, uint64_t *args, uint64_t *out);

mlsys_status mlsi_machine_acc_begin(mlsi_machine *m, int32_t acc, int64_t count);
mlsys_status mlsi_machine_acc_add(mlsi_machine *m, int32_t acc, int64_t position, uint64_t a,
                                  uint64_t b);
/* STATE when a position is missing. */
mlsys_status mlsi_machine_acc_value(mlsi_machine *m, int32_t acc, uint64_t *out);
void mlsi_machine_acc_free(mlsi_machine *m, int32_t acc);

#endif
