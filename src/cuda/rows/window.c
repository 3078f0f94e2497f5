/* dynamic_update_slice: whole x is copied where it is not in place already, then the window is written. */
#include "cuda/device.h"
#include "core/faults.h"
#include "cuda/rows/rows.h"

#include <string.h>

static mlsys_status run(const mlsi_kernel_args *args) {
    enum { THREADS = 256, BLOCKS_MOST = 1024 };
    const mlsi_view *x = &args->in[0], *update = &args->in[1], *starts = &args->in[2],
                    *y = &args->out[0];
    cuda_window p;
    memset(&p, 0, sizeof p);
    p.y = y->data, p.update = update->data, p.starts = starts->data;
    p.starts_stride = mlsi_fault(MLSI_FAULT_CUDA_ROW_STARTS) ? 0 : starts->strides[0];
    p.rank = y->rank, p.size = mlsi_dtype_size(y->dtype);
    p.error = args->error;
    p.count = 1;
    for (int d = 0; d < y->rank; d++) {
        p.shape[d] = y->shape[d], p.extent[d] = update->shape[d];
        p.y_stride[d] = y->strides[d], p.update_stride[d] = update->strides[d];
        p.count *= update->shape[d];
    }
    if (y->data != x->data)
        MLSI_TRY(mlsi_cuda_copy(args->queue, y->data, x->data, mlsi_view_bytes(y)));
    /* One block at least: it looks at starts. */
    int64_t blocks = (p.count + THREADS - 1) / THREADS;
    blocks = blocks < 1 ? 1 : blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
    return mlsi_cuda_row_launch(args, MLSI_CUDA_WINDOW, "mlsi_row_window", blocks, THREADS, 0, &p);
}

static bool accepts(const mlsi_query *q) {
    int size = mlsi_dtype_is_block(q->in[0].dtype) ? 0 : mlsi_dtype_size(q->in[0].dtype);
    return (size == 1 || size == 2 || size == 4 || size == 8) && q->in[0].contiguous &&
           q->out[0].contiguous && q->in[2].dtype == MLSYS_I64;
}

static mlsys_status failed(const int64_t e[4]) {
    return mlsi_fail(
        MLSYS_E_ARG,
        "dynamic_update_slice: start outside its range: axis %lld, start %lld, size %lld",
        (long long)e[3], (long long)e[1], (long long)e[2]);
}

const mlsi_kernel mlsi_cuda_window_rows[] = {{.op = MLSI_OP_DYNAMIC_UPDATE_SLICE,
                                              .name = "dynamic_update_slice_cuda",
                                              .accepts = accepts,
                                              .run = run,
                                              .in_place = 1,
                                              .failed = failed},
                                             {.run = NULL}};
