/* dynamic_update_slice where all but the window is in place already: the window's elements, one a thread. */
#include "cuda/rows/element.cuh"

V_FN void copy_element(char *to, const char *from, int size) {
    switch (size) {
    case 1: *to = *from; break;
    case 2: *(uint16_t *)to = *(const uint16_t *)from; break;
    case 4: *(uint32_t *)to = *(const uint32_t *)from; break;
    default: *(uint64_t *)to = *(const uint64_t *)from; break;
    }
}

extern "C" __global__ void __launch_bounds__(256) mlsi_row_window(cuda_window p) {
    int64_t to = 0;
    for (int d = 0; d < p.rank; d++) {
        const int64_t start = p.starts[d * p.starts_stride];
        if (start < 0 || start > p.shape[d] - p.extent[d]) {
            if (blockIdx.x == 0 && threadIdx.x == 0) ml_fail(p.error, 1, start, p.extent[d], d);
            return;
        }
        to += start * p.y_stride[d];
    }
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = i, y = to, update = 0;
        for (int d = p.rank - 1; d >= 0; d--) {
            const int64_t q = ml_quotient(rest, p.extent[d]), at = rest - q * p.extent[d];
            y += at * p.y_stride[d];
            update += at * p.update_stride[d];
            rest = q;
        }
        copy_element(p.y + y * p.size, p.update + update * p.size, p.size);
    }
}
