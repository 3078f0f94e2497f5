#include "cuda/device.h"
#include "cuda/jit.h"
#include "cuda/module.h"
#include "cuda/rows/rows.h"

#include <stdio.h>
#include <string.h>

static const mlsys_dtype quant_formats[] = {MLSYS_Q4_0, MLSYS_Q4_1, MLSYS_Q5_0, MLSYS_Q5_1,
                                            MLSYS_Q8_0, MLSYS_Q4_K, MLSYS_Q5_K, MLSYS_Q6_K};
static const char *const quant_names[] = {"q4_0", "q4_1", "q5_0", "q5_1",
                                          "q8_0", "q4_k", "q5_k", "q6_k"};

static int format_of(mlsys_dtype t) {
    int i = 0;
    while (quant_formats[i] != t)
        i++;
    return i;
}

mlsi_cuda_unit mlsi_cuda_quant_unit(mlsys_dtype t) {
    return (mlsi_cuda_unit)(MLSI_CUDA_QUANT + format_of(t));
}

void mlsi_cuda_index_of(const mlsi_index *x, cuda_index *out) {
    memset(out, 0, sizeof *out);
    out->count = x->count;
    out->dims = x->dims;
    for (int d = 0; d < x->dims; d++) {
        out->extent[d] = x->extent[d];
        for (int o = 0; o < MLSI_PRODUCT_OPERANDS; o++)
            out->stride[o][d] = x->stride[o][d];
    }
}

static mlsys_status load(mlsi_accel *d, mlsi_cuda_unit unit, mlsi_accel_module **out) {
    static const char *const texts[] = {mlsi_cuda_text_window, mlsi_cuda_text_product,
                                        mlsi_cuda_text_attention, mlsi_cuda_text_rope};
    mlsi_text text;
    if (unit < MLSI_CUDA_QUANT) return mlsi_cuda_load(d, d->alloc, texts[unit], out);
    mlsi_text_init(&text, d->alloc);
    mlsi_text_add(&text, "#define QUANT_FORMAT format_%s\n", quant_names[unit - MLSI_CUDA_QUANT]);
    mlsi_text_add(&text, "%s", mlsi_cuda_text_quant);
    mlsys_status st = text.st;
    if (st == MLSYS_OK) st = mlsi_cuda_load(d, d->alloc, text.data, out);
    mlsi_text_free(&text);
    return st;
}

static mlsys_status unit_of(mlsi_accel *d, mlsi_cuda_unit unit, mlsi_accel_module **out) {
    mlsys_status st = MLSYS_OK;
    pthread_mutex_lock(&d->rows_lock);
    if (!d->rows[unit]) st = load(d, unit, &d->rows[unit]);
    *out = d->rows[unit];
    pthread_mutex_unlock(&d->rows_lock);
    return st;
}

void mlsi_cuda_rows_free(mlsi_accel *d) {
    for (int u = 0; u < MLSI_CUDA_UNITS; u++)
        mlsi_cuda_unload(d->alloc, d->rows[u]);
}

mlsys_status mlsi_cuda_row_launch(const mlsi_kernel_args *args, mlsi_cuda_unit unit,
                                  const char *name, int64_t blocks, uint32_t threads,
                                  uint32_t shared_bytes, void *params) {
    mlsi_accel_module *m;
    if (blocks <= 0) return MLSYS_OK;
    if (blocks > INT32_MAX)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA: %s: %lld blocks, a grid has %d", name,
                         (long long)blocks, INT32_MAX);
    MLSI_TRY(unit_of(args->queue->device, unit, &m));
    mlsi_accel_kernel *k = mlsi_cuda_kernel(m, name);
    if (!k) return mlsi_fail(MLSYS_E_INTERNAL, "CUDA: there is no kernel %s", name);
    void *list[] = {params};
    mlsi_launch l = {.kernel = k,
                     .blocks = (uint32_t)blocks,
                     .threads = threads,
                     .shared_bytes = shared_bytes,
                     .params = list,
                     .what = name};
    return mlsi_cuda_launch(args->queue, &l);
}
