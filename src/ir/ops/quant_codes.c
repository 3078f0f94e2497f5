#include "ir/ops/quant_codes.h"

/* Low halves of 16 bytes, then their high halves. */
static void nibbles(const uint8_t *bytes, int32_t *q) {
    for (int i = 0; i < 16; i++) {
        q[i] = bytes[i] & 15;
        q[i + 16] = bytes[i] >> 4;
    }
}

static void add_fifth_bits(const uint8_t *h, int32_t *q) {
    for (int i = 0; i < 32; i++)
        q[i] |= (h[i / 8] >> (i % 8) & 1) << 4;
}

/* Scale and minimum of the j-th 32 of q4_k and q5_k: six bits each, packed in 12 bytes. */
static void scale_min(const uint8_t *s, int j, mlsi_quant_codes *c) {
    if (j < 4) {
        c->sc[0] = s[j] & 63;
        c->mn = s[j + 4] & 63;
    } else {
        c->sc[0] = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        c->mn = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
    c->sc[1] = c->sc[0];
}

static void k_nibbles(const uint8_t *bytes, int j, int32_t *q) {
    for (int i = 0; i < 32; i++)
        q[i] = bytes[32 * (j / 2) + i] >> (j % 2 * 4) & 15;
}

static void q6_codes(const mlsi_q6_k *b, int j, mlsi_quant_codes *c) {
    const uint8_t *low = b->ql + j / 4 * 64 + j % 2 * 32, *high = b->qh + j / 4 * 32;
    for (int i = 0; i < 32; i++)
        c->q[i] = ((low[i] >> (j % 4 / 2 * 4) & 15) | (high[i] >> (j % 4 * 2) & 3) << 4) - 32;
    c->sc[0] = b->scales[2 * j];
    c->sc[1] = b->scales[2 * j + 1];
}

static void subtract(int32_t zero, int32_t *q) {
    for (int i = 0; i < 32; i++)
        q[i] -= zero;
}

void mlsi_quant_codes_of(mlsys_dtype dtype, const void *row, int64_t first, mlsi_quant_codes *c) {
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    const char *block = (const char *)row + first / info->block_elems * info->block_bytes;
    int j = (int)(first % info->block_elems / 32);
    uint16_t head[2];
    memcpy(head, block, sizeof head);
    *c = (mlsi_quant_codes){.sc = {1, 1}, .mn = 1};
    c->d = mlsi_f16_to_f32(head[0]);
    c->has_min =
        dtype == MLSYS_Q4_1 || dtype == MLSYS_Q5_1 || dtype == MLSYS_Q4_K || dtype == MLSYS_Q5_K;
    if (c->has_min) c->m = mlsi_f16_to_f32(head[1]);
    switch (dtype) {
    case MLSYS_Q4_0:
        nibbles((const uint8_t *)block + offsetof(mlsi_q4_0, q), c->q);
        subtract(8, c->q);
        break;
    case MLSYS_Q4_1: nibbles((const uint8_t *)block + offsetof(mlsi_q4_1, q), c->q); break;
    case MLSYS_Q5_0:
        nibbles((const uint8_t *)block + offsetof(mlsi_q5_0, q), c->q);
        add_fifth_bits((const uint8_t *)block + offsetof(mlsi_q5_0, h), c->q);
        subtract(16, c->q);
        break;
    case MLSYS_Q5_1:
        nibbles((const uint8_t *)block + offsetof(mlsi_q5_1, q), c->q);
        add_fifth_bits((const uint8_t *)block + offsetof(mlsi_q5_1, h), c->q);
        break;
    case MLSYS_Q8_0:
        for (int i = 0; i < 32; i++)
            c->q[i] = ((const int8_t *)block)[offsetof(mlsi_q8_0, q) + i];
        break;
    case MLSYS_Q4_K:
        scale_min((const uint8_t *)block + offsetof(mlsi_q4_k, scales), j, c);
        k_nibbles((const uint8_t *)block + offsetof(mlsi_q4_k, q), j, c->q);
        c->m = -c->m;
        break;
    case MLSYS_Q5_K:
        scale_min((const uint8_t *)block + offsetof(mlsi_q5_k, scales), j, c);
        k_nibbles((const uint8_t *)block + offsetof(mlsi_q5_k, q), j, c->q);
        for (int i = 0; i < 32; i++)
            c->q[i] |= (((const uint8_t *)block)[offsetof(mlsi_q5_k, h) + i] >> j & 1) << 4;
        c->m = -c->m;
        break;
    default: {
        mlsi_q6_k b;
        memcpy(&b, block, sizeof b);
        c->d = mlsi_f16_to_f32(b.d);
        q6_codes(&b, j, c);
        break;
    }
    }
}
