/* Random numbers for tests: SplitMix64. A suite prints its seed; MLSYS_TEST_SEED replays one. */
#ifndef MLSI_TESTS_RANDOM_H
#define MLSI_TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct test_random {
    uint64_t state;
} test_random;

static inline test_random test_random_seed(const char *test, uint64_t seed) {
    const char *wanted = getenv("MLSYS_TEST_SEED");
    if (wanted) seed = strtoull(wanted, NULL, 0);
    printf("%s: MLSYS_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    fflush(stdout);
    return (test_random){seed};
}

static inline uint64_t test_bits(test_random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* In [lo, hi]. */
static inline int64_t test_int(test_random *r, int64_t lo, int64_t hi) {
    return lo + (int64_t)(test_bits(r) % (uint64_t)(hi - lo + 1));
}

#endif
