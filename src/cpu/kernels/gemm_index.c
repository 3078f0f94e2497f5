/* Indices of a product: nests of dims with one stride per operand. */
#include "core/faults.h"
#include "cpu/kernels/gemm.h"

void MLSI_K(gemm_index_add)(gemm_index *x, int64_t extent, int64_t sa, int64_t sb, int64_t sc) {
    x->count *= extent;
    if (extent == 1) return;
    x->extent[x->dims] = extent;
    x->stride[GEMM_A][x->dims] = sa;
    x->stride[GEMM_B][x->dims] = sb;
    x->stride[GEMM_C][x->dims] = sc;
    x->dims++;
}

void MLSI_K(gemm_index_merge)(gemm_index *x) {
    int last = 0;
    for (int d = 1; d < x->dims; d++) {
        bool one = true;
        for (int o = 0; o < (mlsi_fault(MLSI_FAULT_GEMM_MERGE) ? GEMM_C : GEMM_OPERANDS); o++)
            one = one && x->stride[o][last] == x->stride[o][d] * x->extent[d];
        if (one)
            x->extent[last] *= x->extent[d];
        else
            x->extent[++last] = x->extent[d];
        for (int o = 0; o < GEMM_OPERANDS; o++)
            x->stride[o][last] = x->stride[o][d];
    }
    if (x->dims) x->dims = last + 1;
}

int64_t MLSI_K(gemm_index_offset)(const gemm_index *x, gemm_operand o, int64_t i) {
    int64_t offset = 0;
    for (int d = x->dims - 1; d > 0; d--) {
        offset += i % x->extent[d] * x->stride[o][d];
        i /= x->extent[d];
    }
    return x->dims ? offset + i * x->stride[o][0] : 0;
}

void MLSI_K(gemm_index_offsets)(const gemm_index *x, gemm_operand o, int64_t first, int64_t n,
                                int64_t *offsets) {
    int inner = x->dims ? x->dims - 1 : 0;
    int64_t step = x->dims ? x->stride[o][inner] : 0;
    for (int64_t i = 0; i < n;) {
        int64_t base = MLSI_K(gemm_index_offset)(x, o, first + i), run = n - i;
        if (x->dims > 1) { /* up to the end of the innermost dim */
            int64_t left = x->extent[inner] - (first + i) % x->extent[inner];
            if (left < run) run = left;
        }
        for (int64_t j = 0; j < run; j++)
            offsets[i + j] = base + j * step;
        i += run;
    }
}
