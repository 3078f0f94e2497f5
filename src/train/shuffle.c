/* A balanced Feistel network permutes [0, 4^k), the smallest such range that holds count; values outside
 * [0, count) are sent through it again until one is inside (cycle walking: Black and Rogaway, "Ciphers with
 * arbitrary finite domains", CT-RSA 2002), which restricts the permutation to [0, count). The range is less
 * than four times count, so that takes fewer than four turns on average. */
#include "train/shuffle.h"

#include "core/faults.h"
#include "core/rng.h"

enum { ROUNDS = 8 };

/* Streams count down from the top: those of weights and dropout count up from 0 under the same seed. */
static uint64_t round_stream(int64_t epoch, int round) {
    return ~((uint64_t)epoch * ROUNDS + (uint64_t)round);
}

static uint64_t permute(uint64_t seed, int64_t epoch, int half, uint64_t x) {
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;
    if (mlsi_fault(MLSI_FAULT_SHUFFLE_EPOCH)) epoch = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t mixed = mlsi_rng_bits32(seed, round_stream(epoch, round), right) & mask;
        uint64_t next = mlsi_fault(MLSI_FAULT_SHUFFLE_BIJECTION) ? left & mixed : left ^ mixed;
        left = right;
        right = next;
    }
    return left << half | right;
}

int64_t mlsi_shuffle(uint64_t seed, int64_t epoch, int64_t count, int64_t i) {
    int half = 1; /* 2 * half bits; a half has at most 32, since count < 2^63 */
    while (half < 32 && (uint64_t)1 << (2 * half) < (uint64_t)count)
        half++;
    if (count <= 1) return 0;
    uint64_t x = (uint64_t)i;
    do
        x = permute(seed, epoch, half, x);
    while (x >= (uint64_t)count);
    return (int64_t)x;
}
