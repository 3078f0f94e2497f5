/* dot_general of floats. */
#include "core/faults.h"
#include "cuda/rows/rows.h"

static int32_t is_along(const mlsi_index *k, const mlsi_index *rows, mlsi_product_operand o) {
    int64_t step = mlsi_index_stride(k, o), other = mlsi_index_stride(rows, o);
    return (step < 0 ? -step : step) <= (other < 0 ? -other : other);
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static mlsys_status run(const mlsi_kernel_args *args) {
    enum { THREADS = 256, ENOUGH = 132 }; /* blocks that leave no multiprocessor idle */
    const mlsi_view *a = &args->in[0], *b = &args->in[1], *c = &args->out[0];
    const mlsi_view *addend = args->n_in > 2 && args->in[2].dtype ? &args->in[2] : NULL;
    mlsi_product g;
    mlsi_product_of_dot(&g, a, b, c, args->attrs, false);
    cuda_product p = {.a = a->data,
                      .b = b->data,
                      .c = c->data,
                      .addend =
                          addend && !mlsi_fault(MLSI_FAULT_CUDA_ROW_ADDEND) ? addend->data : NULL,
                      .a_type = a->dtype,
                      .b_type = b->dtype,
                      .c_type = c->dtype,
                      .a_along_k = is_along(&g.k, &g.m, MLSI_PRODUCT_A),
                      .b_along_k = is_along(&g.k, &g.n, MLSI_PRODUCT_B)};
    mlsi_cuda_index_of(&g.batch, &p.batch);
    mlsi_cuda_index_of(&g.m, &p.m);
    mlsi_cuda_index_of(&g.n, &p.n);
    mlsi_cuda_index_of(&g.k, &p.k);
    bool large = g.batch.count * divide_up(g.m.count, 128) * divide_up(g.n.count, 128) >= ENOUGH;
    int64_t side = large ? 128 : 64;
    return mlsi_cuda_row_launch(
        args, MLSI_CUDA_PRODUCT, large ? "mlsi_row_product_8" : "mlsi_row_product_4",
        g.batch.count * divide_up(g.m.count, side) * divide_up(g.n.count, side), THREADS, 0, &p);
}

/* The addend is laid out as the result: both are contiguous. */
static bool accepts(const mlsi_query *q) {
    if (q->n_in > 2 && q->in[2].present &&
        (q->in[2].dtype != q->out[0].dtype || !q->in[2].contiguous || !q->out[0].contiguous))
        return false;
    return mlsi_cuda_takes(q->in[0].dtype) && mlsi_cuda_takes(q->in[1].dtype) &&
           mlsi_cuda_takes(q->out[0].dtype);
}

const mlsi_kernel mlsi_cuda_product_rows[] = {{.op = MLSI_OP_DOT_GENERAL,
                                               .name = "dot_general_tiles_cuda",
                                               .accepts = accepts,
                                               .run = run,
                                               .in_place = 1 << 2},
                                              {.run = NULL}};
