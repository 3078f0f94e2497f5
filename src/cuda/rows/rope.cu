/* Rotary position embedding: a thread turns one pair, or hands on one element behind the pairs. The roundings are those of the
 * op's rule: an angle, its sine and cosine, two products and a sum. */
#include "cuda/rows/element.cuh"

V_FN void turn_pair(const cuda_rope &p, int64_t x, int64_t y, float position, int64_t i) {
    const float angle = vf_mul(position, p.freqs[i * p.freqs_step]);
    const float c = ef_cos(angle), s = ef_sin(angle);
    const int64_t first = p.halves ? i : 2 * i, second = p.halves ? i + p.pairs : 2 * i + 1;
    const float a = load_element(p.x, p.type, x + first * p.x_stride[3]);
    const float b = load_element(p.x, p.type, x + second * p.x_stride[3]);
    store_element(p.y, p.type, y + first * p.y_stride[3], vf_sub(vf_mul(a, c), vf_mul(b, s)));
    store_element(p.y, p.type, y + second * p.y_stride[3], vf_add(vf_mul(b, c), vf_mul(a, s)));
}

extern "C" __global__ void __launch_bounds__(128) mlsi_row_rope(cuda_rope p) {
    const int64_t each = p.width - p.pairs; /* pairs, then the elements behind them */
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < p.rows * each;
         t += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = ml_quotient(t, each), i = t - row * each;
        const int64_t token = ml_quotient(row, p.heads), h = row - token * p.heads;
        const int64_t b = ml_quotient(token, p.length), l = token - b * p.length;
        const int64_t x = b * p.x_stride[0] + l * p.x_stride[1] + h * p.x_stride[2];
        const int64_t y = b * p.y_stride[0] + l * p.y_stride[1] + h * p.y_stride[2];
        const int64_t at = b * p.position_stride[0] + l * p.position_stride[1];
        const int64_t position = p.positions_are_i64 ? ((const int64_t *)p.positions)[at]
                                                     : ((const int32_t *)p.positions)[at];
        if (i < p.pairs) {
            turn_pair(p, x, y, (float)position, i);
            continue;
        }
        const float e = load_element(p.x, p.type, x + (i + p.pairs) * p.x_stride[3]);
        if (p.x != p.y) store_element(p.y, p.type, y + (i + p.pairs) * p.y_stride[3], e);
    }
}
