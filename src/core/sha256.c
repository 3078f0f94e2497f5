#include "core/sha256.h"

#include "core/faults.h"

#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* Round i + j: variable `name` of the standard (0 = a ... 7 = h) is v[(name - j) mod 8]. */
#define V(name, j) v[((name) - (j)) & 7]
#define ROUND(j, i)                                                                                \
    do {                                                                                           \
        uint32_t a = V(0, j), e = V(4, j);                                                         \
        uint32_t t = V(7, j) + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +                          \
                     ((e & V(5, j)) ^ (~e & V(6, j))) + K[(i) + (j)] + w[(i) + (j)];               \
        V(3, j) += t;                                                                              \
        V(7, j) = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +                                   \
                  ((a & V(1, j)) ^ (a & V(2, j)) ^ (V(1, j) & V(2, j)));                           \
    } while (0)

static void compress(uint32_t s[8], const uint8_t *p) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, s, sizeof v);
    /* Eight rounds turn the roles of the variables once around, so nothing is moved. */
    for (int i = 0; i < 64; i += 8) {
        ROUND(0, i);
        ROUND(1, i);
        ROUND(2, i);
        ROUND(3, i);
        ROUND(4, i);
        ROUND(5, i);
        ROUND(6, i);
        ROUND(7, i);
    }
    for (int i = 0; i < 8; i++)
        s[i] += v[i];
}
#undef ROUND
#undef V

void mlsi_sha256_init(mlsi_sha256 *h) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, start, sizeof start);
    h->bytes = 0;
}

void mlsi_sha256_add(mlsi_sha256 *h, const void *data, size_t n) {
    const uint8_t *p = data;
    size_t held = h->bytes % 64;
    h->bytes += n;
    if (held) {
        size_t take = n < 64 - held ? n : 64 - held;
        if (take) memcpy(h->block + held, p, take);
        p += take;
        n -= take;
        if (held + take < 64) return;
        compress(h->state, h->block);
    }
    for (; n >= 64; n -= 64, p += 64)
        compress(h->state, p);
    if (n) memcpy(h->block, p, n);
}

void mlsi_sha256_finish(mlsi_sha256 *h, uint8_t digest[32]) {
    uint64_t bits = h->bytes * 8;
    uint8_t pad[72] = {0x80}; /* 1 bit, zeros up to 56 modulo 64, then the length */
    size_t zeros = (119 - h->bytes % 64) % 64 + 1;
    if (mlsi_fault(MLSI_FAULT_SHA256_LENGTH)) bits = h->bytes;
    for (int i = 0; i < 8; i++)
        pad[zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    mlsi_sha256_add(h, pad, zeros + 8);
    for (int i = 0; i < 8; i++)
        for (int b = 0; b < 4; b++)
            digest[4 * i + b] = (uint8_t)(h->state[i] >> (24 - 8 * b));
}

void mlsi_sha256_hex(const uint8_t digest[32], char text[65]) {
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = hex[digest[i] >> 4];
        text[2 * i + 1] = hex[digest[i] & 15];
    }
    text[64] = 0;
}
