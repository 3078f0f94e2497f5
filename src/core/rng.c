#include "core/rng.h"

#include "core/elementary.h"
#include "core/faults.h"

#define PHILOX_FAULT mlsi_fault(MLSI_FAULT_RNG_ROUNDS)
#include "core/philox.h"

void mlsi_philox(uint64_t key, uint64_t stream, uint64_t block, uint32_t out[4]) {
    philox_block(key, stream, block, out);
}
uint32_t mlsi_rng_bits32(uint64_t key, uint64_t stream, uint64_t i) {
    return philox_bits32(key, stream, i);
}
uint64_t mlsi_rng_bits64(uint64_t key, uint64_t stream, uint64_t i) {
    return philox_bits64(key, stream, i);
}
float mlsi_rng_uniform32(uint64_t key, uint64_t stream, uint64_t i) {
    return philox_uniform32(key, stream, i);
}
double mlsi_rng_uniform64(uint64_t key, uint64_t stream, uint64_t i) {
    return philox_uniform64(key, stream, i);
}

/* sqrt(-2 log u) * cos(2 pi v), u in (0, 1], v in [0, 1); each written operation rounds. */
float mlsi_rng_normal32(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    philox_pair(key, stream, i, w);
    float u = (float)((w[0] >> 8) + 1) * 0x1p-24f, v = (float)(w[1] >> 8) * 0x1p-24f;
    return mlsi_ef_sqrt(-2.0f * mlsi_ef_log(u)) * mlsi_ef_cos(0x1.921fb6p+2f * v);
}

double mlsi_rng_normal64(uint64_t key, uint64_t stream, uint64_t i) {
    uint32_t w[2];
    philox_pair(key, stream, i, w);
    double u = ((double)w[0] + 1.0) * 0x1p-32, v = (double)w[1] * 0x1p-32;
    return mlsi_ed_sqrt(-2.0 * mlsi_ed_log(u)) * mlsi_ed_cos(0x1.921fb54442d18p+2 * v);
}
