/* The matrix product of the loop interpreter. */
#include "ir/loop/interp.h"

#include "core/dtype.h"
#include "ir/ops/op_def.h"

#include <string.h>

enum { SEGMENT = 256 };

typedef struct product {
    mlsi_machine *m;
    const mlsi_lx *a, *b;
    mlsys_dtype dtype;
    int64_t row, column, first;
    mlsys_status st;
} product;

/* The factor at (row, column) of an operand's tile, in the product's dtype. */
static mlsys_status factor(product *p, const mlsi_lx *x, int64_t row, int64_t column,
                           uint64_t *out) {
    int64_t offset[MLSYS_MAX_DIMS] = {0};
    uint64_t bits;
    mlsys_dtype from = x->dtype;
    offset[x->n_index - 2] = row;
    offset[x->n_index - 1] = column;
    MLSI_TRY(mlsi_machine_load(p->m, x->ref, x->index, offset, &bits));
    if (from == p->dtype) return *out = bits, MLSYS_OK;
    return mlsi_machine_op(p->m, MLSI_OP_CAST, p->dtype, 1, &from, &bits, out);
}

static mlsys_status factors(product *p, int64_t k, uint64_t *a, uint64_t *b) {
    MLSI_TRY(factor(p, p->a, p->row, p->first + k, a));
    return factor(p, p->b, p->first + k, p->column, b);
}

static void float_factors(void *user, int64_t k, double *a, double *b) {
    product *p = user;
    uint64_t bits[2] = {0, 0};
    if (p->st == MLSYS_OK) p->st = factors(p, k, &bits[0], &bits[1]);
    *a = mlsi_ref_get_f(&(mlsi_view){.data = &bits[0], .dtype = p->dtype}, 0);
    *b = mlsi_ref_get_f(&(mlsi_view){.data = &bits[1], .dtype = p->dtype}, 0);
}

/* The terms [first, first + count) in the product's dtype. */
static mlsys_status segment(product *p, int64_t count, uint64_t *out) {
    const mlsys_dtype two[2] = {p->dtype, p->dtype};
    *out = 0;
    if (mlsi_dtype_is_float(p->dtype)) {
        double sum = mlsi_ref_dot(p->dtype == MLSYS_F64, -0.0, count, float_factors, p);
        mlsi_ref_set_f(&(mlsi_view){.data = out, .dtype = p->dtype}, 0, sum);
        return p->st;
    }
    for (int64_t k = 0; k < count; k++) {
        uint64_t pair[2], sum[2] = {*out, 0};
        MLSI_TRY(factors(p, k, &pair[0], &pair[1]));
        MLSI_TRY(mlsi_machine_op(p->m, MLSI_OP_MUL, p->dtype, 2, two, pair, &sum[1]));
        MLSI_TRY(mlsi_machine_op(p->m, MLSI_OP_ADD, p->dtype, 2, two, sum, out));
    }
    return MLSYS_OK;
}

static mlsys_status add_product(product *p, int32_t tile, int64_t depth) {
    const int64_t zero[2] = {0, 0}, at[2] = {p->row, p->column};
    const mlsys_dtype two[2] = {p->dtype, p->dtype};
    for (p->first = 0; p->first < depth; p->first += SEGMENT) {
        uint64_t sum[2], bits;
        char *data;
        uint8_t *written;
        int64_t left = depth - p->first;
        MLSI_TRY(mlsi_machine_load(p->m, tile, zero, at, &sum[0]));
        MLSI_TRY(segment(p, left < SEGMENT ? left : SEGMENT, &sum[1]));
        MLSI_TRY(mlsi_machine_op(p->m, MLSI_OP_ADD, p->dtype, 2, two, sum, &bits));
        MLSI_TRY(mlsi_machine_element(p->m, tile, zero, at, &data, &written));
        memcpy(data, &bits, (size_t)mlsi_dtype_size(p->dtype));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_machine_mma(mlsi_machine *m, const mlsi_ls *s) {
    const mlsi_nest *n = m->n;
    product p = {.m = m,
                 .a = &n->exprs[s->value],
                 .b = &n->exprs[s->value2],
                 .dtype = n->buffers[s->ref].dtype};
    int64_t size[3];
    for (int i = 0; i < 3; i++)
        MLSI_TRY(mlsi_dim_eval(&n->tab, s->index[i], m->binding, &size[i]));
    for (p.row = 0; p.row < size[0]; p.row++)
        for (p.column = 0; p.column < size[1]; p.column++)
            MLSI_TRY(add_product(&p, s->ref, size[2]));
    return MLSYS_OK;
}
