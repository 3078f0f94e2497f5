#include "core/rng.h"

#include "core/elementary.h"
#include "core/faults.h"

/* One round: two 32x32->64 products; high halves mix with the other words and the key. */
static void philox_round(uint32_t c[4], const uint32_t k[2]) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)p0;
}

void mlsi_philox(uint64_t key, uint64_t stream, uint64_t block, uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    int rounds = mlsi_fault(MLSI_FAULT_RNG_ROUNDS) ? 9 : 10;
    for (int round = 0; round < rounds; round++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; w++)
        out[w] = c[w];
}

uint32_t mlsi_rng_bits32(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    mlsi_philox(key, stream, i / 4, w);
    return w[i % 4];
}

/* Two words that share a block, since 2i is even. */
static void pair(uint64_t key, uint64_t stream, uint64_t i, uint32_t out[2]) {
    uint32_t w[4];
    mlsi_philox(key, stream, i / 2, w);
    out[0] = w[i % 2 * 2];
    out[1] = w[i % 2 * 2 + 1];
}

uint64_t mlsi_rng_bits64(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    pair(key, stream, i, w);
    return (uint64_t)w[1] << 32 | w[0];
}

float mlsi_rng_uniform32(uint64_t key, uint64_t stream, uint64_t i) {
    return (float)(mlsi_rng_bits32(key, stream, i) >> 8) * 0x1p-24f;
}

double mlsi_rng_uniform64(uint64_t key, uint64_t stream, uint64_t i) {
    return (double)(mlsi_rng_bits64(key, stream, i) >> 11) * 0x1p-53;
}

/* sqrt(-2 log u) * cos(2 pi v), u in (0, 1], v in [0, 1); each written operation rounds. */
float mlsi_rng_normal32(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    pair(key, stream, i, w);
    float u = (float)((w[0] >> 8) + 1) * 0x1p-24f, v = (float)(w[1] >> 8) * 0x1p-24f;
    return mlsi_ef_sqrt(-2.0f * mlsi_ef_log(u)) * mlsi_ef_cos(0x1.921fb6p+2f * v);
}

double mlsi_rng_normal64(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    pair(key, stream, i, w);
    double u = ((double)w[0] + 1.0) * 0x1p-32, v = (double)w[1] * 0x1p-32;
    return mlsi_ed_sqrt(-2.0 * mlsi_ed_log(u)) * mlsi_ed_cos(0x1.921fb54442d18p+2 * v);
}
