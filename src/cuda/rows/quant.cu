/* quant_matmul on packed panels (core/quant_panel.h), activations in f32, in the order of docs/numerics.md.
 *
 * Few rows of x: a block is a panel of 32 rows of W, a lane one of them; warps share the segments of 256 along k, whose sums
 * one after another are added. Each word of a panel is read once, by neighbours side by side.
 * Many rows: square tiles of outputs as in product.cu, B's tiles expanded from the panels. */
#include "cuda/rows/element.cuh"

/* As mlsi_panel_format. */
template <int Bits, bool Signed, bool Min, int Block, int ScaleBytes> struct panel_format {
    enum {
        bits = Bits,
        has_sign = Signed,
        has_min = Min,
        runs = Block / 32, /* of a block */
        scales = ScaleBytes,
        fields = 32 / Bits,
        base = 32 - 32 / Bits * Bits,
        head_bytes = (Min ? 4 : 2) * 32,
        run_bytes = ScaleBytes * 32 + Bits * 128,
        block_bytes = head_bytes + Block / 32 * run_bytes
    };
};
typedef panel_format<4, true, false, 32, 0> format_q4_0;
typedef panel_format<4, false, true, 32, 0> format_q4_1;
typedef panel_format<5, true, false, 32, 0> format_q5_0;
typedef panel_format<5, false, true, 32, 0> format_q5_1;
typedef panel_format<8, true, false, 32, 0> format_q8_0;
typedef panel_format<4, false, true, 256, 2> format_q4_k;
typedef panel_format<5, false, true, 256, 2> format_q5_k;
typedef panel_format<6, true, false, 256, 2> format_q6_k;

/* 32 elements of one row of W, as they lie in the panel. */
template <class F> struct run_bits {
    uint32_t words[F::bits];
    uint16_t d, m;
    uint8_t sc, mn;
};

/* at: the panel, or a copy that begins at a block. */
template <class F> V_FN void load_run(const uint8_t *at, int run, int row, run_bits<F> *r) {
    const uint8_t *block = at + run / F::runs * F::block_bytes;
    at = block + F::head_bytes + run % F::runs * F::run_bytes;
    r->d = ((const uint16_t *)block)[row];
    r->m = F::has_min ? ((const uint16_t *)block)[32 + row] : 0;
    r->sc = F::scales ? at[row] : 0;
    r->mn = F::scales ? at[32 + row] : 0;
    const uint32_t *words = (const uint32_t *)(at + F::scales * 32);
#pragma unroll
    for (int w = 0; w < F::bits; w++)
        r->words[w] = words[w * 32 + row];
}

/* Scales of the first and the last 16 elements, and the minimum. Codes with a sign stand at the top of a word, 2^(32 - bits) too
 * large, which the scale undoes exactly. */
template <class F> V_FN void affine_of(const run_bits<F> &r, float *scale, float *min) {
    const float unit = F::has_sign ? 1.0f / (float)(1u << (32 - F::bits)) : 1.0f;
    scale[0] = vf_load_f16(&r.d);
    if (F::has_sign) scale[0] = vf_mul(scale[0], unit);
    scale[1] = scale[0];
    *min = F::has_min ? vf_load_f16(&r.m) : 0.0f;
    if (F::scales && F::has_min) {
        scale[0] = scale[1] = vf_mul(scale[0], (float)r.sc);
        *min = vf_neg(vf_mul(*min, (float)r.mn));
    } else if (F::scales) {
        scale[1] = vf_mul(scale[1], (float)(int8_t)r.mn);
        scale[0] = vf_mul(scale[0], (float)(int8_t)r.sc);
    }
}

/* Code k: fields lie from a word's top down; of 5 and 6 bits the last two codes lie in the words' low bits. */
template <class F> V_FN int code_of(const uint32_t *words, int k) {
    uint32_t q;
    if ((F::bits == 5 || F::bits == 6) && k >= 30) {
        const int w = k == 30 ? 0 : 3;
        q = (words[w] & 3) | (words[w + 1] & 3) << 2;
        if (F::bits == 5)
            q |= (words[2] << (k == 30 ? 4 : 3)) & 16;
        else
            q |= (words[w + 2] & 3) << 4;
        return (int)(F::has_sign ? q << (32 - F::bits) : q);
    }
    const int at = F::base + F::bits * (k % F::fields);
    const uint32_t word = words[k / F::fields];
    if (F::has_sign) return (int)((word << (32 - F::bits - at)) & (0xffffffffu << (32 - F::bits)));
    return (int)((word >> at) & ((1u << F::bits) - 1));
}

template <class F> V_FN float weight_of(float scale, float min, int code) {
    return F::has_min ? vf_fma(scale, vi_cvt_f(code), min) : vf_mul(scale, vi_cvt_f(code));
}

/* ---- few rows --------------------------------------------------------------------------------------------------- */

enum { QUANT_WARPS = 8, QUANT_SEGMENT = 256 };

/* A warp's copy of so many runs: all loads are under way at once, where runs one by one would each wait for memory. */
template <class F> V_FN void stage_panel(const uint8_t *panel, int64_t run, int runs, uint8_t *to) {
    const uint4 *from = (const uint4 *)(panel + run / F::runs * F::block_bytes);
    const int n = runs / F::runs * F::block_bytes / 16;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < n; i += 32)
        ((uint4 *)to)[i] = from[i];
}

/* s[r] = chain of a segment of row r of x with this lane's row of W; x: [R][QUANT_SEGMENT]. */
template <class F, int R>
V_FN void segment_sums(const uint8_t *panel, int runs, int lane, const float *x, float *s) {
    run_bits<F> now, next;
    load_run<F>(panel, 0, lane, &next);
#pragma unroll
    for (int r = 0; r < R; r++)
        s[r] = 0.0f;
    for (int i = 0; i < runs; i++) {
        float scale[2], min;
        now = next;
        if (i + 1 < runs) load_run<F>(panel, i + 1, lane, &next);
        affine_of<F>(now, scale, &min);
#pragma unroll
        for (int k = 0; k < 32; k += 4) {
            float w[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                w[j] = weight_of<F>(scale[k / 16], min, code_of<F>(now.words, k + j));
#pragma unroll
            for (int r = 0; r < R; r++) {
                const float4 v = *(const float4 *)(x + r * QUANT_SEGMENT + i * 32 + k);
                s[r] = vf_fma(v.x, w[0], s[r]);
                s[r] = vf_fma(v.y, w[1], s[r]);
                s[r] = vf_fma(v.z, w[2], s[r]);
                s[r] = vf_fma(v.w, w[3], s[r]);
            }
        }
    }
}

/* Elements [k0, k0 + n) of R rows of x from row m0, by one warp. */
template <int R>
V_FN void stage_rows(const cuda_quant_product &p, int64_t m0, int64_t k0, int n, float *x) {
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t row = m0 + r < p.m.count ? offset_of(p.m, 0, m0 + r) : 0;
        for (int k = threadIdx.x % 32; k < n; k += 32)
            x[r * QUANT_SEGMENT + k] =
                m0 + r < p.m.count ? load_element(p.x, p.x_type, row + (k0 + k) * p.x_step) : 0.0f;
    }
}

template <class F, int R> V_FN void quant_rows(const cuda_quant_product &p) {
    __shared__ float part[QUANT_WARPS][R][32], sum[R][32];
    const int64_t panels = (p.n + 31) / 32, group = ml_quotient(blockIdx.x, panels);
    const int64_t panel = blockIdx.x - group * panels, m0 = group * R;
    const uint8_t *at = p.panels + panel * (p.k / (F::runs * 32)) * F::block_bytes;
    enum { W_BYTES = QUANT_SEGMENT / 32 / F::runs * F::block_bytes };
    uint8_t *w = ml_shared + threadIdx.x / 32 * (W_BYTES + R * QUANT_SEGMENT * 4); /* the warp's */
    float *x = (float *)(w + W_BYTES);
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t segments = (p.k + QUANT_SEGMENT - 1) / QUANT_SEGMENT;
    for (int i = threadIdx.x; i < R * 32; i += blockDim.x)
        sum[i / 32][i % 32] = 0.0f;
    for (int64_t first = 0; first < segments; first += warps) {
        float s[R];
        const int64_t k0 = (first + warp) * QUANT_SEGMENT;
        if (k0 < p.k) {
            const int n = (int)(p.k - k0 < QUANT_SEGMENT ? p.k - k0 : QUANT_SEGMENT);
            stage_panel<F>(at, k0 / 32, n / 32, w);
            stage_rows<R>(p, m0, k0, n, x);
            __syncwarp();
            segment_sums<F, R>(w, n / 32, lane, x, s);
        }
        __syncthreads();
        if (k0 < p.k)
#pragma unroll
            for (int r = 0; r < R; r++)
                part[warp][r][lane] = s[r];
        __syncthreads();
        for (int i = threadIdx.x; i < R * 32; i += blockDim.x)
            for (int u = 0; u < warps && first + u < segments; u++) {
                const float y = part[u][i / 32][i % 32];
                sum[i / 32][i % 32] = first + u == 0 ? y : vf_add(sum[i / 32][i % 32], y);
            }
    }
    for (int i = threadIdx.x; i < R * 32; i += blockDim.x) {
        const int64_t m = m0 + i / 32, n = panel * 32 + i % 32;
        if (m < p.m.count && n < p.n)
            store_element(p.y, p.y_type, offset_of(p.m, 2, m) + n * p.y_step, sum[i / 32][i % 32]);
    }
}

/* ---- many rows --------------------------------------------------------------------------------------------------- */

enum { QUANT_THREADS = 256, QUANT_SIDE = 64 };

/* Rows n0.. of W along 32 k as a tile [k][row]: thread t gives row t % 64 eight elements. */
template <class F>
V_FN void expand_tile(const cuda_quant_product &p, int64_t n0, int64_t run,
                      float (*tile)[QUANT_SIDE + 4]) {
    const int row = threadIdx.x % QUANT_SIDE, k0 = threadIdx.x / QUANT_SIDE * 8;
    const int64_t panel = n0 / 32 + row / 32, panels = (p.n + 31) / 32;
    float scale[2], min;
    run_bits<F> r;
    if (panel >= panels) {
        for (int k = 0; k < 8; k++)
            tile[k0 + k][row] = 0.0f;
        return;
    }
    load_run<F>(p.panels + (panel * (p.k / (F::runs * 32)) + run / F::runs) * F::block_bytes,
                (int)(run % F::runs), row % 32, &r);
    affine_of<F>(r, scale, &min);
#pragma unroll
    for (int k = 0; k < 32; k++)
        if (k / 8 == k0 / 8)
            tile[k][row] = weight_of<F>(scale[k / 16], min, code_of<F>(r.words, k));
}

template <class F> V_FN void quant_tiles(const cuda_quant_product &p) {
    __shared__ __align__(16) float x[32][QUANT_SIDE + 4], w[32][QUANT_SIDE + 4];
    __shared__ int64_t x_row[QUANT_SIDE];
    const int64_t tiles = (p.n + QUANT_SIDE - 1) / QUANT_SIDE;
    const int64_t row = ml_quotient(blockIdx.x, tiles);
    const int64_t m0 = row * QUANT_SIDE, n0 = (blockIdx.x - row * tiles) * QUANT_SIDE;
    const int tm = threadIdx.x / 16 * 4, tn = threadIdx.x % 16 * 4;
    float s[4][4], c[4][4];
    for (int i = threadIdx.x; i < QUANT_SIDE; i += QUANT_THREADS)
        x_row[i] = m0 + i < p.m.count ? offset_of(p.m, 0, m0 + i) : 0;
#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i / 4][i % 4] = c[i / 4][i % 4] = 0.0f;
    for (int64_t k0 = 0; k0 < p.k; k0 += 32) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int m = threadIdx.x / 32 + i * 8, k = threadIdx.x % 32;
            x[k][m] = m0 + m < p.m.count
                          ? load_element(p.x, p.x_type, x_row[m] + (k0 + k) * p.x_step)
                          : 0.0f;
        }
        expand_tile<F>(p, n0, k0 / 32, w);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k++) {
            const float4 u = *(const float4 *)&x[k][tm], v = *(const float4 *)&w[k][tn];
            const float a[4] = {u.x, u.y, u.z, u.w}, b[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 16; i++)
                s[i / 4][i % 4] = vf_fma(a[i / 4], b[i % 4], s[i / 4][i % 4]);
        }
        if ((k0 + 32) % QUANT_SEGMENT == 0 || k0 + 32 == p.k)
#pragma unroll
            for (int i = 0; i < 16; i++) {
                c[i / 4][i % 4] =
                    k0 < QUANT_SEGMENT ? s[i / 4][i % 4] : vf_add(c[i / 4][i % 4], s[i / 4][i % 4]);
                s[i / 4][i % 4] = 0.0f;
            }
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int64_t m = m0 + tm + i / 4, n = n0 + tn + i % 4;
        if (m < p.m.count && n < p.n)
            store_element(p.y, p.y_type, offset_of(p.m, 2, m) + n * p.y_step, c[i / 4][i % 4]);
    }
}

/* A unit has the kernels of one format. */
#ifndef QUANT_FORMAT
#define QUANT_FORMAT format_q4_1
#endif

extern "C" __global__ void __launch_bounds__(256) mlsi_row_quant_rows_1(cuda_quant_product p) {
    quant_rows<QUANT_FORMAT, 1>(p);
}
extern "C" __global__ void __launch_bounds__(256) mlsi_row_quant_rows_4(cuda_quant_product p) {
    quant_rows<QUANT_FORMAT, 4>(p);
}
extern "C" __global__ void __launch_bounds__(QUANT_THREADS)
    mlsi_row_quant_tiles(cuda_quant_product p) {
    quant_tiles<QUANT_FORMAT>(p);
}
