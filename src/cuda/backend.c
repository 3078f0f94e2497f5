/* The CUDA backend: its devices, and its hand-written kernels. Every other op becomes a generated kernel. */
#include "core/backend.h"

#include "cuda/rows/rows.h"

static const mlsi_kernel *const tables[] = {mlsi_cuda_window_rows, mlsi_cuda_product_rows,
                                            mlsi_cuda_quant_rows, mlsi_cuda_attention_rows,
                                            mlsi_cuda_rope_rows};

static const mlsi_kernel *row(int i) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const mlsi_kernel *k = tables[t]; k->run; k++)
            if (i-- == 0) return k;
    return NULL;
}

static const mlsi_kernel *find(const mlsi_query *q, mlsi_isa isa) {
    const mlsi_kernel *k;
    (void)isa;
    for (int i = 0; (k = row(i)); i++)
        if (k->op == q->op && k->accepts(q)) return k;
    return NULL;
}

const mlsi_backend mlsi_cuda_backend = {
    .name = "cuda", .type = MLSYS_CUDA, .accel = &mlsi_cuda_accelerator, .find = find, .row = row};
