/* Philox 4x32-10 (Salmon et al., SC 2011): core/rng.h says what the numbers are. Text of this file goes into generated
 * code. */
#ifndef MLSI_PHILOX_H
#define MLSI_PHILOX_H

#include "core/text_fn.h"

#include <stdint.h>

#ifndef PHILOX_FAULT
#define PHILOX_FAULT 0 /* a planted fault of tests */
#endif

/* One round: two 32x32->64 products; high halves mix with the other words and the key. */
MLSI_TEXT_FN void philox_round(uint32_t c[4], const uint32_t k[2]) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)p0;
}

MLSI_TEXT_FN void philox_block(uint64_t key, uint64_t stream, uint64_t block, uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    int rounds = PHILOX_FAULT ? 9 : 10;
    for (int round = 0; round < rounds; round++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; w++)
        out[w] = c[w];
}

MLSI_TEXT_FN uint32_t philox_bits32(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    philox_block(key, stream, i / 4, w);
    return w[i % 4];
}

/* Two words that share a block, since 2i is even. */
MLSI_TEXT_FN void philox_pair(uint64_t key, uint64_t stream, uint64_t i, uint32_t out[2]) {
    uint32_t w[4];
    philox_block(key, stream, i / 2, w);
    out[0] = w[i % 2 * 2];
    out[1] = w[i % 2 * 2 + 1];
}

MLSI_TEXT_FN uint64_t philox_bits64(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    philox_pair(key, stream, i, w);
    return (uint64_t)w[1] << 32 | w[0];
}

MLSI_TEXT_FN float philox_uniform32(uint64_t key, uint64_t stream, uint64_t i) {
    return (float)(philox_bits32(key, stream, i) >> 8) * 0x1p-24f;
}

MLSI_TEXT_FN double philox_uniform64(uint64_t key, uint64_t stream, uint64_t i) {
    return (double)(philox_bits64(key, stream, i) >> 11) * 0x1p-53;
}

#endif
