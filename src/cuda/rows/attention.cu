/* Attention in the order of docs/numerics.md: key segments of 64 counted from key 0, a softmax inside a segment, summaries merged
 * in ascending order.
 *
 * A block is one query of one head. Its warps take segments in turn: a lane has two keys' scores, then a few elements of the
 * weighted values; their summaries meet in shared memory, a round of one segment a warp at a time. */
#include "cuda/rows/element.cuh"

enum { ATTENTION_SEGMENT = 64, ATTENTION_ACROSS = 4, ATTENTION_AHEAD = 16, ATTENTION_SERIAL = 256 };

/* A warp's place in shared memory: e[64], then o[value_dim]; before all of them q[dim] and the block's o[value_dim]. */
typedef struct attention_block {
    const cuda_attention *p;
    int64_t b, h, i, kv, n, lo, hi; /* keys [lo, hi) may be seen */
    float *q, *o, *e, *seg_o;
} attention_block;

V_FN float4 load_four(const char *p, int type, int64_t i) {
    float4 v;
    if (type == CUDA_F32) return *(const float4 *)((const float *)p + i);
    const uint2 u = *(const uint2 *)((const uint16_t *)p + i);
    const uint16_t h[4] = {(uint16_t)u.x, (uint16_t)(u.x >> 16), (uint16_t)u.y,
                           (uint16_t)(u.y >> 16)};
    v.x = type == CUDA_F16 ? vf_load_f16(h) : vf_load_bf16(h);
    v.y = type == CUDA_F16 ? vf_load_f16(h + 1) : vf_load_bf16(h + 1);
    v.z = type == CUDA_F16 ? vf_load_f16(h + 2) : vf_load_bf16(h + 2);
    v.w = type == CUDA_F16 ? vf_load_f16(h + 3) : vf_load_bf16(h + 3);
    return v;
}

/* q . key along the head, in segments of 256. */
V_FN float score_of(const attention_block *a, int64_t key) {
    const cuda_attention *p = a->p;
    const int64_t at = a->b * p->k_stride[0] + key * p->k_stride[1] + a->kv * p->k_stride[2];
    float c = 0.0f;
    for (int64_t d0 = 0; d0 < p->dim; d0 += ATTENTION_SERIAL) {
        const int64_t end = d0 + ATTENTION_SERIAL < p->dim ? d0 + ATTENTION_SERIAL : p->dim;
        float s = 0.0f;
        int64_t d = d0;
#pragma unroll 8
        for (; p->wide && d + 4 <= end; d += 4) {
            const float4 k = load_four(p->k, p->k_type, at + d);
            s = vf_fma(a->q[d], k.x, s);
            s = vf_fma(a->q[d + 1], k.y, s);
            s = vf_fma(a->q[d + 2], k.z, s);
            s = vf_fma(a->q[d + 3], k.w, s);
        }
        for (; d < end; d++)
            s = vf_fma(a->q[d], load_element(p->k, p->k_type, at + d * p->k_stride[3]), s);
        c = d0 ? vf_add(c, s) : s;
    }
    return c;
}

/* Scaled, capped and masked; -inf: not visible. */
V_FN float visible_score(const attention_block *a, int64_t key) {
    const cuda_attention *p = a->p;
    if (key < a->lo || key >= a->hi) return -__builtin_inff();
    float s = vf_mul(score_of(a, key), p->scale);
    if (p->cap != 0.0f) s = vf_mul(p->cap, ef_tanh(vf_div(s, p->cap)));
    if (!p->mask_type) return s;
    const int64_t at = a->b * p->mask_stride[0] + a->h * p->mask_stride[1] +
                       a->i * p->mask_stride[2] + key * p->mask_stride[3];
    if (p->mask_type == 32) return p->mask[at] ? s : -__builtin_inff();
    return vf_add(s, load_element(p->mask, p->mask_type, at));
}

/* N keys from j on; all their values are loaded before the first is used. */
template <int N>
V_FN void weigh_some(const attention_block *a, int64_t at, int j, int64_t d0, float *o) {
    const cuda_attention *p = a->p;
#pragma unroll
    for (int i = 0; i < ATTENTION_ACROSS; i++) {
        const int64_t d = d0 + 32 * i;
        float v[N];
        if (d >= p->value_dim) continue;
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] =
                load_element(p->v, p->v_type, at + (j + k) * p->v_stride[1] + d * p->v_stride[3]);
#pragma unroll
        for (int k = 0; k < N; k++)
            o[i] = vf_fma(a->e[j + k], v[k], o[i]);
    }
}

/* o = chain of e * v over visible keys, a few elements a lane. seen: bit j of the segment's key j. */
V_FN void weigh_values(const attention_block *a, int64_t first, uint64_t seen) {
    const cuda_attention *p = a->p;
    const int64_t at = a->b * p->v_stride[0] + first * p->v_stride[1] + a->kv * p->v_stride[2];
    for (int64_t d0 = threadIdx.x % 32; d0 < p->value_dim; d0 += 32 * ATTENTION_ACROSS) {
        float o[ATTENTION_ACROSS];
#pragma unroll
        for (int i = 0; i < ATTENTION_ACROSS; i++)
            o[i] = 0.0f;
        if (seen == ~(uint64_t)0) {
            for (int j = 0; j < ATTENTION_SEGMENT; j += ATTENTION_AHEAD)
                weigh_some<ATTENTION_AHEAD>(a, at, j, d0, o);
        } else {
            for (int j = 0; j < ATTENTION_SEGMENT; j++)
                if (seen >> j & 1) weigh_some<1>(a, at, j, d0, o);
        }
#pragma unroll
        for (int i = 0; i < ATTENTION_ACROSS; i++)
            if (d0 + 32 * i < p->value_dim) a->seg_o[d0 + 32 * i] = o[i];
    }
}

/* One warp: e, m, l and o of a segment. False: nothing of it is visible. */
V_FN bool segment_of(const attention_block *a, int64_t first, float *m, float *l) {
    const int lane = threadIdx.x % 32;
    const float x0 = visible_score(a, first + lane), x1 = visible_score(a, first + lane + 32);
    float top = vf_maximum(x0, x1);
    for (int h = 16; h; h /= 2)
        top = vf_maximum(top, __shfl_xor_sync(0xffffffffu, top, h));
    if (top == -__builtin_inff()) return false;
    const bool see0 = x0 != -__builtin_inff(), see1 = x1 != -__builtin_inff();
    const float e0 = see0 ? ef_exp(vf_sub(x0, top)) : 0.0f;
    const float e1 = see1 ? ef_exp(vf_sub(x1, top)) : 0.0f;
    const uint64_t seen = (uint64_t)__ballot_sync(0xffffffffu, see0) |
                          (uint64_t)__ballot_sync(0xffffffffu, see1) << 32;
    float sum = vf_add(e0, e1);
    for (int h = 16; h; h /= 2)
        sum = vf_add(sum, __shfl_xor_sync(0xffffffffu, sum, h));
    a->e[lane] = e0;
    a->e[lane + 32] = e1;
    __syncwarp();
    weigh_values(a, first, seen);
    *m = top, *l = sum;
    return true;
}

V_FN int64_t keys_of(const cuda_attention &p, int64_t b) {
    if (!p.len) return p.keys;
    const int64_t n = p.len_is_i64 ? ((const int64_t *)p.len)[b * p.len_stride]
                                   : ((const int32_t *)p.len)[b * p.len_stride];
    if (n >= 0 && n <= p.keys) return n;
    if (threadIdx.x == 0) ml_fail(p.error, 1, n, p.keys, b);
    return n < 0 ? 0 : p.keys;
}

V_FN void open_block(attention_block *a, const cuda_attention &p, float *shared) {
    const int64_t row = ml_quotient(blockIdx.x, p.heads);
    a->p = &p;
    a->h = blockIdx.x - row * p.heads;
    a->b = ml_quotient(row, p.queries);
    a->i = row - a->b * p.queries;
    a->kv = ml_quotient(a->h, p.heads / p.kv_heads);
    a->n = keys_of(p, a->b);
    const int64_t at = p.causal == 2 ? a->n - p.queries + a->i : a->i;
    a->lo = p.window > 0 && at - p.window + 1 > 0 ? at - p.window + 1 : 0;
    a->hi = p.causal && at + 1 < a->n ? at + 1 : a->n;
    if (a->hi < a->lo) a->hi = a->lo;
    a->q = shared;
    a->o = a->q + p.dim;
    a->e = a->o + p.value_dim + threadIdx.x / 32 * (ATTENTION_SEGMENT + p.value_dim);
    a->seg_o = a->e + ATTENTION_SEGMENT;
    const int64_t q = a->b * p.q_stride[0] + a->i * p.q_stride[1] + a->h * p.q_stride[2];
    for (int64_t d = threadIdx.x; d < p.dim; d += blockDim.x)
        a->q[d] = load_element(p.q, p.q_type, q + d * p.q_stride[3]);
}

/* (m, l, o) <- merge of itself and a later segment's; all threads have m and l, each its elements of o. */
V_FN void merge_segment(const attention_block *a, bool start, float *m, float *l, float seg_m,
                        float seg_l, const float *seg_o) {
    const float top = start ? seg_m : vf_maximum(*m, seg_m);
    const float old = start ? 0.0f : ef_exp(vf_sub(*m, top)),
                add = start ? 1.0f : ef_exp(vf_sub(seg_m, top));
    for (int64_t d = threadIdx.x; d < a->p->value_dim; d += blockDim.x)
        a->o[d] = start ? seg_o[d] : vf_fma(a->o[d], old, vf_mul(seg_o[d], add));
    *l = start ? seg_l : vf_fma(*l, old, vf_mul(seg_l, add));
    *m = top;
}

extern "C" __global__ void __launch_bounds__(256) mlsi_row_attention(cuda_attention p) {
    enum { WARPS_MOST = 8 };
    __shared__ float seg_m[WARPS_MOST], seg_l[WARPS_MOST];
    __shared__ int seen[WARPS_MOST];
    attention_block a;
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
    float m = -__builtin_inff(), l = 0.0f;
    bool started = false;
    open_block(&a, p, (float *)ml_shared);
    __syncthreads();
    for (int64_t first = a.lo / ATTENTION_SEGMENT; first * ATTENTION_SEGMENT < a.hi;
         first += warps) {
        float sm = 0.0f, sl = 0.0f;
        const int64_t key = (first + warp) * ATTENTION_SEGMENT;
        const bool visible = key < a.hi && segment_of(&a, key, &sm, &sl);
        if (threadIdx.x % 32 == 0) seg_m[warp] = sm, seg_l[warp] = sl, seen[warp] = visible;
        __syncthreads();
        for (int w = 0; w < warps; w++) {
            if (!seen[w]) continue;
            const float *o = a.seg_o + (w - warp) * (ATTENTION_SEGMENT + p.value_dim);
            merge_segment(&a, !started, &m, &l, seg_m[w], seg_l[w], o);
            started = true;
        }
        __syncthreads();
    }
    const int64_t out = a.b * p.out_stride[0] + a.i * p.out_stride[1] + a.h * p.out_stride[2];
    for (int64_t d = threadIdx.x; d < p.value_dim; d += blockDim.x)
        store_element(p.out, p.out_type, out + d * p.out_stride[3],
                      started ? vf_div(a.o[d], l) : 0.0f);
    if (p.lse && threadIdx.x == 0)
        p.lse[a.b * p.lse_stride[0] + a.h * p.lse_stride[1] + a.i * p.lse_stride[2]] =
            started ? vf_add(m, ef_log(l)) : -__builtin_inff();
}
