/* Indices of a product: nests of dims with one stride per operand. */
#include "core/product.h"

#include "core/faults.h"

void mlsi_index_add(mlsi_index *x, int64_t extent, int64_t sa, int64_t sb, int64_t sc) {
    x->count *= extent;
    if (extent == 1) return;
    x->extent[x->dims] = extent;
    x->stride[MLSI_PRODUCT_A][x->dims] = sa;
    x->stride[MLSI_PRODUCT_B][x->dims] = sb;
    x->stride[MLSI_PRODUCT_C][x->dims] = sc;
    x->dims++;
}

void mlsi_index_merge(mlsi_index *x) {
    int last = 0;
    for (int d = 1; d < x->dims; d++) {
        bool one = true;
        for (int o = 0;
             o < (mlsi_fault(MLSI_FAULT_GEMM_MERGE) ? MLSI_PRODUCT_C : MLSI_PRODUCT_OPERANDS); o++)
            one = one && x->stride[o][last] == x->stride[o][d] * x->extent[d];
        if (one)
            x->extent[last] *= x->extent[d];
        else
            x->extent[++last] = x->extent[d];
        for (int o = 0; o < MLSI_PRODUCT_OPERANDS; o++)
            x->stride[o][last] = x->stride[o][d];
    }
    if (x->dims) x->dims = last + 1;
}

int64_t mlsi_index_offset(const mlsi_index *x, mlsi_product_operand o, int64_t i) {
    int64_t offset = 0;
    for (int d = x->dims - 1; d > 0; d--) {
        offset += i % x->extent[d] * x->stride[o][d];
        i /= x->extent[d];
    }
    return x->dims ? offset + i * x->stride[o][0] : 0;
}

void mlsi_index_offsets(const mlsi_index *x, mlsi_product_operand o, int64_t first, int64_t n,
                        int64_t *offsets) {
    int inner = x->dims ? x->dims - 1 : 0;
    int64_t step = x->dims ? x->stride[o][inner] : 0;
    for (int64_t i = 0; i < n;) {
        int64_t base = mlsi_index_offset(x, o, first + i), run = n - i;
        if (x->dims > 1) { /* up to the end of the innermost dim */
            int64_t left = x->extent[inner] - (first + i) % x->extent[inner];
            if (left < run) run = left;
        }
        for (int64_t j = 0; j < run; j++)
            offsets[i + j] = base + j * step;
        i += run;
    }
}

void mlsi_product_merge(mlsi_product *p) {
    mlsi_index_merge(&p->batch);
    mlsi_index_merge(&p->m);
    mlsi_index_merge(&p->n);
    mlsi_index_merge(&p->k);
}

static bool in_list(const mlsi_list *l, int64_t d) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == d) return true;
    return false;
}

void mlsi_product_of_dot(mlsi_product *p, const mlsi_view *a, const mlsi_view *b,
                         const mlsi_view *c, const mlsi_attr_dot *at, bool ordinals) {
    *p = (mlsi_product){{.count = 1}, {.count = 1}, {.count = 1}, {.count = 1}};
    int out = 0;
    int64_t matrices = 1, ordinal[MLSI_LIST_CAP];
    for (int64_t i = at->rhs_batch.n - 1; i >= 0; i--) {
        ordinal[i] = matrices;
        matrices *= b->shape[at->rhs_batch.v[i]];
    }
    for (int64_t i = 0; i < at->rhs_batch.n; i++, out++) {
        int64_t db = at->rhs_batch.v[i];
        mlsi_index_add(&p->batch, b->shape[db], a ? a->strides[at->lhs_batch.v[i]] : 0,
                       ordinals ? ordinal[i] : b->strides[db], c ? c->strides[out] : 0);
    }
    for (int d = 0; a && d < a->rank; d++)
        if (!in_list(&at->lhs_batch, d) && !in_list(&at->lhs_contract, d))
            mlsi_index_add(&p->m, a->shape[d], a->strides[d], 0, c->strides[out++]);
    for (int d = 0; d < b->rank; d++)
        if (!in_list(&at->rhs_batch, d) && !in_list(&at->rhs_contract, d))
            mlsi_index_add(&p->n, b->shape[d], 0, b->strides[d], c ? c->strides[out++] : 0);
    for (int64_t i = 0; i < at->rhs_contract.n; i++) {
        int64_t db = at->rhs_contract.v[i];
        mlsi_index_add(&p->k, b->shape[db], a ? a->strides[at->lhs_contract.v[i]] : 0,
                       b->strides[db], 0);
    }
    mlsi_product_merge(p);
}
