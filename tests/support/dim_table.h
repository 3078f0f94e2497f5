/* A table with three symbols, made anew for each test of symbolic dims. */
#ifndef MLSI_TESTS_DIM_TABLE_H
#define MLSI_TESTS_DIM_TABLE_H

#include "ir/graph/dims.h"

#include <check.h>

enum { N_SYMBOLS = 3 };

static const mlsi_symbol symbols[N_SYMBOLS] = {
    {"A", 0, 12, 1, 0}, {"B", 1, 5, 1, 0}, {"C", 2, 10, 3, 0}};

static mlsi_symtab tab;

static inline void make_table(mlsi_symtab *t) {
    int64_t d;
    mlsi_symtab_init(t, &mlsi_alloc_process);
    for (int i = 0; i < N_SYMBOLS; i++)
        ck_assert_int_eq(mlsi_dim_symbol(t, symbols[i].name, symbols[i].min, symbols[i].max,
                                         symbols[i].divisor, &d),
                         MLSYS_OK);
}

static inline void setup(void) { make_table(&tab); }
static inline void teardown(void) { mlsi_symtab_free(&tab); }

static inline const char *text(const mlsi_symtab *t, int64_t d) {
    static char buf[512];
    return mlsi_dim_text(t, d, buf, sizeof buf);
}

#endif
