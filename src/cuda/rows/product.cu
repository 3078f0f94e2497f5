/* Products of floats on plain FMA units, in the order of docs/numerics.md: one ascending chain in each segment of 256 along k,
 * segments added in ascending order. So exact mode has the CPU's bits; tensor cores, whose order is their own, cannot.
 *
 * A block computes a square of outputs, a thread T x T of them in registers; tiles of A and B pass through shared memory, the
 * next one on its way in registers while one is multiplied. */
#include "cuda/rows/element.cuh"

enum { PRODUCT_THREADS = 256, PRODUCT_DEPTH = 16, PRODUCT_SEGMENT = 256 };

/* Where rows and depths of a block's operands begin; of two tiles' depths in turn. */
template <int T> struct product_offsets { int64_t row[2][16 * T], k[2][2][PRODUCT_DEPTH]; };

/* What a thread fetches of a tile: element e of it is row r(e), depth k(e). */
template <int T> V_FN void tile_element(int e, int along_k, int *row, int *k) {
    *k = along_k ? e % PRODUCT_DEPTH : e / (16 * T);
    *row = along_k ? e / PRODUCT_DEPTH : e % (16 * T);
}

/* load(i): of an element's offset. */
template <int T, class Load>
V_FN void fetch_tile(int along_k, int64_t rows, int64_t depth, const int64_t *row_at,
                     const int64_t *k_at, float *to, Load load) {
#pragma unroll
    for (int i = 0; i < T; i++) {
        int row, k;
        tile_element<T>(threadIdx.x + i * PRODUCT_THREADS, along_k, &row, &k);
        to[i] = row < rows && k < depth ? load(row_at[row] + k_at[k]) : 0.0f;
    }
}

template <int T>
V_FN void fetch(const char *from, int type, int along_k, int64_t rows, int64_t depth,
                const int64_t *row_at, const int64_t *k_at, float *to) {
    const float *wide = (const float *)from;
    const uint16_t *half = (const uint16_t *)from;
    if (type == CUDA_F32)
        fetch_tile<T>(along_k, rows, depth, row_at, k_at, to, [&](int64_t i) { return wide[i]; });
    else if (type == CUDA_F16)
        fetch_tile<T>(along_k, rows, depth, row_at, k_at, to,
                      [&](int64_t i) { return vf_load_f16(half + i); });
    else
        fetch_tile<T>(along_k, rows, depth, row_at, k_at, to,
                      [&](int64_t i) { return vf_load_bf16(half + i); });
}

template <int T> V_FN void put_tile(const float *from, int along_k, float (*tile)[16 * T + 4]) {
#pragma unroll
    for (int i = 0; i < T; i++) {
        int row, k;
        tile_element<T>(threadIdx.x + i * PRODUCT_THREADS, along_k, &row, &k);
        tile[k][row] = from[i];
    }
}

/* Thread t's outputs along one side: fours, 64 apart. */
V_FN int output_at(int lane, int i) { return i / 4 * 64 + lane * 4 + i % 4; }

template <int T>
V_FN void multiply(const float (*a)[16 * T + 4], const float (*b)[16 * T + 4], int k,
                   float (&s)[T][T]) {
    float x[T], y[T];
    const int m = threadIdx.x / 16, n = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < T; i += 4) {
        const float4 u = *(const float4 *)&a[k][output_at(m, i)];
        const float4 v = *(const float4 *)&b[k][output_at(n, i)];
        x[i] = u.x, x[i + 1] = u.y, x[i + 2] = u.z, x[i + 3] = u.w;
        y[i] = v.x, y[i + 1] = v.y, y[i + 2] = v.z, y[i + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int j = 0; j < T; j++)
            s[i][j] = vf_fma(x[i], y[j], s[i][j]);
}

template <int T> V_FN void add_segment(float (&c)[T][T], float (&s)[T][T], bool first) {
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int j = 0; j < T; j++) {
            c[i][j] = first ? s[i][j] : vf_add(c[i][j], s[i][j]);
            s[i][j] = 0.0f;
        }
}

/* Calls f(element of c, offset in C) for this thread's outputs; rows, columns: how many the block has. */
template <int T, class F>
V_FN void each_output(float (&c)[T][T], const product_offsets<T> &at, int64_t rows, int64_t columns,
                      F f) {
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int j = 0; j < T; j++) {
            const int m = output_at(threadIdx.x / 16, i), n = output_at(threadIdx.x % 16, j);
            if (m < rows && n < columns) f(c[i][j], at.row[0][m] + at.row[1][n]);
        }
}

template <int T>
V_FN void transfer_outputs(float (&c)[T][T], const product_offsets<T> &at, int64_t rows,
                           int64_t columns, char *to, const char *from, int type) {
    float *wide = (float *)to;
    uint16_t *half = (uint16_t *)to;
    if (from)
        each_output<T>(c, at, rows, columns,
                       [&](float &x, int64_t i) { x = load_element(from, type, i); });
    else if (type == CUDA_F32)
        each_output<T>(c, at, rows, columns, [&](float &x, int64_t i) { wide[i] = x; });
    else if (type == CUDA_F16)
        each_output<T>(c, at, rows, columns,
                       [&](float &x, int64_t i) { vf_store_f16(half + i, x); });
    else
        each_output<T>(c, at, rows, columns,
                       [&](float &x, int64_t i) { vf_store_bf16(half + i, x); });
}

/* Where rows m0.. and columns n0.. begin in operand a and operand b of the product. */
template <int T>
V_FN void set_rows(product_offsets<T> *at, const cuda_product &p, int a, int b, int64_t m0,
                   int64_t n0) {
    for (int i = threadIdx.x; i < 16 * T; i += PRODUCT_THREADS) {
        at->row[0][i] = m0 + i < p.m.count ? offset_of(p.m, a, m0 + i) : 0;
        at->row[1][i] = n0 + i < p.n.count ? offset_of(p.n, b, n0 + i) : 0;
    }
}

template <int T> V_FN void set_depths(product_offsets<T> *at, const cuda_product &p, int64_t k0) {
    const int i = threadIdx.x % PRODUCT_DEPTH, operand = threadIdx.x / PRODUCT_DEPTH;
    if (operand < 2 && k0 + i < p.k.count)
        at->k[k0 / PRODUCT_DEPTH & 1][operand][i] = offset_of(p.k, operand, k0 + i);
}

/* One step along k of the segments' chains. Past the end there is nothing to add: -0 + 0 would be +0. */
template <int T>
V_FN void multiply_tiles(const float (*a)[16 * T + 4], const float (*b)[16 * T + 4], int depth,
                         float (&s)[T][T]) {
    if (depth == PRODUCT_DEPTH) {
#pragma unroll
        for (int k = 0; k < PRODUCT_DEPTH; k++)
            multiply<T>(a, b, k, s);
    } else {
#pragma unroll 1
        for (int k = 0; k < depth; k++)
            multiply<T>(a, b, k, s);
    }
}

template <int T> V_FN void product(const cuda_product &p) {
    __shared__ __align__(16) float a_tile[PRODUCT_DEPTH][16 * T + 4];
    __shared__ __align__(16) float b_tile[PRODUCT_DEPTH][16 * T + 4];
    __shared__ product_offsets<T> at;
    const int64_t tiles_n = (p.n.count + 16 * T - 1) / (16 * T),
                  tiles_m = (p.m.count + 16 * T - 1) / (16 * T);
    const int64_t tile = blockIdx.x, rest = ml_quotient(tile, tiles_n);
    const int64_t batch = ml_quotient(rest, tiles_m);
    const int64_t n0 = (tile - rest * tiles_n) * (16 * T), m0 = (rest - batch * tiles_m) * (16 * T);
    const int64_t rows = p.m.count - m0, columns = p.n.count - n0;
    const char *a = p.a + offset_of(p.batch, 0, batch) * type_bytes(p.a_type);
    const char *b = p.b + offset_of(p.batch, 1, batch) * type_bytes(p.b_type);
    const int64_t c_at = offset_of(p.batch, 2, batch) * type_bytes(p.c_type);
    float s[T][T], c[T][T], a_next[T], b_next[T];
    bool first = p.addend == nullptr;
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int j = 0; j < T; j++)
            s[i][j] = c[i][j] = 0.0f;
    if (!first) {
        set_rows<T>(&at, p, 2, 2, m0, n0);
        __syncthreads();
        transfer_outputs<T>(c, at, rows, columns, nullptr, p.addend + c_at, p.c_type);
        __syncthreads();
    }
    set_rows<T>(&at, p, 0, 1, m0, n0);
    set_depths<T>(&at, p, 0);
    __syncthreads();
    for (int64_t k0 = -PRODUCT_DEPTH; k0 < p.k.count; k0 += PRODUCT_DEPTH) {
        const int64_t next = k0 + PRODUCT_DEPTH, left = p.k.count - next;
        if (k0 >= 0) {
            put_tile<T>(a_next, p.a_along_k, a_tile);
            put_tile<T>(b_next, p.b_along_k, b_tile);
            set_depths<T>(&at, p, next);
        }
        __syncthreads();
        if (left > 0) {
            fetch<T>(a, p.a_type, p.a_along_k, rows, left, at.row[0],
                     at.k[next / PRODUCT_DEPTH & 1][0], a_next);
            fetch<T>(b, p.b_type, p.b_along_k, columns, left, at.row[1],
                     at.k[next / PRODUCT_DEPTH & 1][1], b_next);
        }
        const int depth = k0 < 0 ? 0 : left < 0 ? PRODUCT_DEPTH + (int)left : PRODUCT_DEPTH;
        multiply_tiles<T>(a_tile, b_tile, depth, s);
        __syncthreads();
        if (next > 0 && next % PRODUCT_SEGMENT == 0 && left > 0) {
            add_segment<T>(c, s, first);
            first = false;
        }
    }
    add_segment<T>(c, s, first);
    set_rows<T>(&at, p, 2, 2, m0, n0);
    __syncthreads();
    transfer_outputs<T>(c, at, rows, columns, p.c + c_at, nullptr, p.c_type);
}

extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS) mlsi_row_product_4(cuda_product p) {
    product<4>(p);
}
extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS) mlsi_row_product_8(cuda_product p) {
    product<8>(p);
}
