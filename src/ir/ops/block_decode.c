#include "ir/ops/block_decode.h"

#include "core/faults.h"

/* Formats of 32 elements: byte i of q holds element i in its low half and element i + 16 in its
 * high half. Every product and every sum is one f32 rounding. */

static void decode_q4_0(const mlsi_q4_0 *b, float *y) {
    float d = mlsi_f16_to_f32(b->d);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)((b->q[i] & 15) - 8);
        y[i + 16] = d * (float)((b->q[i] >> 4) - 8);
    }
}

static void decode_q4_1(const mlsi_q4_1 *b, float *y) {
    float d = mlsi_f16_to_f32(b->d), m = mlsi_f16_to_f32(b->m);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)(b->q[i] & 15) + m;
        y[i + 16] = d * (float)(b->q[i] >> 4) + m;
    }
}

/* Bit 4 of element i is bit i of the 32-bit little-endian word h. */
static int q5_element(const uint8_t *h, const uint8_t *q, int i) {
    int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
    return low | (h[i / 8] >> (i % 8) & 1) << 4;
}

static void decode_q5_0(const mlsi_q5_0 *b, float *y) {
    float d = mlsi_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)(q5_element(b->h, b->q, i) - 16);
}

static void decode_q5_1(const mlsi_q5_1 *b, float *y) {
    float d = mlsi_f16_to_f32(b->d), m = mlsi_f16_to_f32(b->m);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)q5_element(b->h, b->q, i) + m;
}

static void decode_q8_0(const mlsi_q8_0 *b, float *y) {
    float d = mlsi_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)b->q[i];
}

/* q4_k and q5_k: eight groups of 32, each with a 6-bit scale and a 6-bit minimum packed in 12
 * bytes. Groups 0..3: the low 6 bits of bytes j and j + 4. Groups 4..7: low 4 bits from the halves
 * of byte j + 4, top 2 bits from the top of bytes j - 4 and j. */
static void group_scale(const uint8_t *scales, int j, float *scale, float *min) {
    int s, m;
    if (j < 4) {
        s = scales[j] & 63;
        m = scales[j + 4] & 63;
    } else {
        s = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
        m = (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
    }
    *scale = (float)s;
    *min = (float)m;
}

/* Element i of group j: groups 2p and 2p + 1 share bytes 32p..32p+31, low halves first. */
static int k_nibble(const uint8_t *q, int j, int i) {
    uint8_t byte = q[32 * (j / 2) + i];
    return j % 2 ? byte >> 4 : byte & 15;
}

static void decode_q4_k(const mlsi_q4_k *b, float *y) {
    float d = mlsi_f16_to_f32(b->d), dmin = mlsi_f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++) {
        float sc, mn;
        group_scale(b->scales, j, &sc, &mn);
        for (int i = 0; i < 32; i++)
            y[32 * j + i] = (d * sc) * (float)k_nibble(b->q, j, i) - (dmin * mn);
    }
}

/* Bit 4 of element i of group j is bit j of h[i]. */
static void decode_q5_k(const mlsi_q5_k *b, float *y) {
    float d = mlsi_f16_to_f32(b->d), dmin = mlsi_f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++) {
        float sc, mn;
        group_scale(b->scales, j, &sc, &mn);
        for (int i = 0; i < 32; i++) {
            int q = k_nibble(b->q, j, i) | (b->h[i] >> j & 1) << 4;
            y[32 * j + i] = (d * sc) * (float)q - (dmin * mn);
        }
    }
}

/* Two halves of 128 elements, each of four quarters of 32. In a half, quarters 0 and 1 are the low
 * nibbles of ql[0..31] and ql[32..63], quarters 2 and 3 the high nibbles of the same bytes; bits 4
 * and 5 of quarter r are bits 2r and 2r + 1 of qh. One 8-bit scale per 16 elements. */
static void decode_q6_k(const mlsi_q6_k *b, float *y) {
    float d = mlsi_f16_to_f32(b->d);
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = b->ql + 64 * half, *qh = b->qh + 32 * half;
        for (int r = 0; r < 4; r++) {
            int shift = 2 * r;
            if (r == 2 && mlsi_fault(MLSI_FAULT_BLOCK_Q6_K_HIGH_BITS)) shift = 6;
            for (int i = 0; i < 32; i++) {
                uint8_t byte = ql[32 * (r % 2) + i];
                int low = r < 2 ? byte & 15 : byte >> 4;
                int q = low | (qh[i] >> shift & 3) << 4;
                float sc = (float)b->scales[8 * half + 2 * r + i / 16];
                y[128 * half + 32 * r + i] = (d * sc) * (float)(q - 32);
            }
        }
    }
}

/* Blocks are copied out, since a file may hold them at odd addresses. */
#define DECODE_ALL(type, decode, elems)                                                            \
    for (int64_t i = 0; i < count / (elems); i++) {                                                \
        type block;                                                                                \
        memcpy(&block, (const char *)blocks + i * (int64_t)sizeof block, sizeof block);            \
        decode(&block, out + i * (elems));                                                         \
    }

void mlsi_block_decode(mlsys_dtype dtype, const void *blocks, int64_t count, float *out) {
    switch (dtype) {
    case MLSYS_Q4_0: DECODE_ALL(mlsi_q4_0, decode_q4_0, 32) break;
    case MLSYS_Q4_1: DECODE_ALL(mlsi_q4_1, decode_q4_1, 32) break;
    case MLSYS_Q5_0: DECODE_ALL(mlsi_q5_0, decode_q5_0, 32) break;
    case MLSYS_Q5_1: DECODE_ALL(mlsi_q5_1, decode_q5_1, 32) break;
    case MLSYS_Q8_0: DECODE_ALL(mlsi_q8_0, decode_q8_0, 32) break;
    case MLSYS_Q4_K: DECODE_ALL(mlsi_q4_k, decode_q4_k, 256) break;
    case MLSYS_Q5_K: DECODE_ALL(mlsi_q5_k, decode_q5_k, 256) break;
    case MLSYS_Q6_K: DECODE_ALL(mlsi_q6_k, decode_q6_k, 256) break;
    default: break;
    }
}
