/* The verifier's state, between verify.c (statements, scopes) and verify_value.c (expressions). */
#ifndef MLSI_LOOP_VERIFY_H
#define MLSI_LOOP_VERIFY_H

#include "ir/loop/nest.h"

/* What a name is at the place that is looked at. Each is defined once. */
enum { MLSI_NAME_UNKNOWN = 0, MLSI_NAME_KNOWN, MLSI_NAME_LEFT };

typedef struct mlsi_checker {
    const mlsi_nest *n;
    int32_t stmt;                          /* that is looked at, -1 = none yet: for sentences */
    uint8_t *vars, *lets, *accs, *buffers; /* MLSI_NAME_... */
    uint8_t *symbols;                      /* per symbol: may it be named here? */
    uint8_t *reached;                      /* per statement */
    uint8_t *open;                         /* per expression: an argument of it is looked at */
    int32_t *checked;  /* per expression: the last statement in which it was, + 1 */
    int32_t *let_lane; /* per let: the LANE loop around its definition, -1 = none */
    int32_t *
        owner; /* per LOCAL buffer: the innermost loop of several threads around its ALLOC, -1 = none */
    int32_t loops[64], n_loops; /* FORs around */
    mlsi_symtab none;           /* no symbols: for types of scalars */
} mlsi_checker;

/* STATE, in the statement that is looked at. */
mlsys_status mlsi_checker_fail(const mlsi_checker *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Is a loop of a GPU around? The innermost loop around whose iterations are threads (lane: of the lanes), -1 = none. */
bool mlsi_checker_on_gpu(const mlsi_checker *c);
int32_t mlsi_checker_thread(const mlsi_checker *c, bool lane);

mlsys_status mlsi_check_buffers(mlsi_checker *c);
/* What a statement defines; it is known until its body ends. */
mlsys_status mlsi_define_var(mlsi_checker *c, int32_t var);
mlsys_status mlsi_define_let(mlsi_checker *c, const mlsi_ls *s);
mlsys_status mlsi_define_acc(mlsi_checker *c, const mlsi_ls *s);
mlsys_status mlsi_define_local(mlsi_checker *c, const mlsi_ls *s);

/* An index expression of the table whose symbols are all known here. */
mlsys_status mlsi_check_index(const mlsi_checker *c, int64_t index);
/* An access: a buffer that may be read or written by elements here, with one subscript per axis. */
mlsys_status mlsi_check_access(const mlsi_checker *c, int32_t buffer, int32_t n_index,
                               const int64_t *index);
/* A scalar expression of the dtype (0: any). */
mlsys_status mlsi_check_value(mlsi_checker *c, int32_t value, mlsys_dtype dtype);

#endif
