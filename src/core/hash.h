/* FNV-1a with a final mix: for tables and CSE, not for content addressing (see sha256.h). */
#ifndef MLSI_HASH_H
#define MLSI_HASH_H

#include <stdint.h>
#include <stddef.h>

#define MLSI_HASH_SEED 0xcbf29ce484222325ull

static inline uint64_t mlsi_hash_bytes(uint64_t h, const void *p, size_t n) {
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3ull;
    return h;
}
static inline uint64_t mlsi_hash_u64(uint64_t h, uint64_t v) { return mlsi_hash_bytes(h, &v, 8); }
static inline uint64_t mlsi_hash_mix(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

#endif
