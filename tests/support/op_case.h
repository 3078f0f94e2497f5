/* Rows of tests/op_cases.h and op_cases_bad.h as data: variants with all dtypes and extents fixed,
 * and inputs for them. */
#ifndef MLSI_TEST_OP_CASE_H
#define MLSI_TEST_OP_CASE_H

#include "ir/ops/op_def.h"
#include "support/kernel_case.h"

typedef struct op_case {
    const char *op, *types, *operands, *attrs;
    int n_out;
} op_case;

typedef struct op_bad {
    const char *op, *operands, *attrs;
    int n_out;
    mlsys_status status;
    const char *text;
} op_bad;

extern const op_case op_cases[];
extern const int op_case_count;
extern const op_bad op_bads[];
extern const int op_bad_count;

typedef struct op_operand {
    bool absent;
    mlsi_type type;
    char domain[16]; /* "any" when none is written */
    double bound;    /* the number in parentheses */
} op_operand;

/* One call. */
typedef struct op_variant {
    mlsi_op op;
    int n_in, n_out;
    op_operand in[KC_OPERANDS];
    const mlsi_symtab *symbols; /* of the dims */
    char attrs[256];            /* with braces, or empty */
} op_variant;

/* The symbols B, L, S. */
void op_case_symbols(mlsi_symtab *tab);
/* Variant i of a row; false past the last. Fails the test on a row that cannot be read. */
bool op_case_variant(const op_case *c, int i, mlsi_symtab *tab, op_variant *out);
/* The operands of a bad row; their dims may be symbolic. */
void op_bad_variant(const op_bad *b, mlsi_symtab *tab, op_variant *out);

/* Values of the operand's domain. */
void op_operand_fill(kc_rng *r, kc_tensor *t, const op_operand *o);
/* "matmul(f32[2,3], f32[3,4]) {transpose_b=true}" in a buffer of the caller. */
const char *op_variant_text(const op_variant *v, char *buf, int cap);

/* A context for graphs, pinned; freed by op_ctx_free. */
mlsi_ctx *op_ctx_new(void);
void op_ctx_free(mlsi_ctx *ctx);
/* A graph whose function 0 is this call and whose outputs are its results, in g (initialised here,
 * to be freed also after a failure). The status of building it. */
mlsys_status op_variant_graph(mlsi_ctx *ctx, const op_variant *v, mlsi_graph *g);
/* The same call with symbolic operand types, without outputs: one symbol N<extent> in [1, 16384] per
 * distinct extent >= 2; with `one` only extents equal to operand 0's first become symbols. in and
 * out receive value numbers. The call may be refused as not provable: MLSYS_E_SHAPE. */
mlsys_status op_variant_symbolic(mlsi_ctx *ctx, const op_variant *v, bool one, mlsi_graph *g,
                                 int32_t *in, int32_t *out);

#endif
