/* SHA-256 (FIPS 180-4): content hashes of files and of results. */
#ifndef MLSI_SHA256_H
#define MLSI_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct mlsi_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* fed so far */
    uint8_t block[64];
} mlsi_sha256;

void mlsi_sha256_init(mlsi_sha256 *h);
void mlsi_sha256_add(mlsi_sha256 *h, const void *p, size_t n);
void mlsi_sha256_finish(mlsi_sha256 *h, uint8_t digest[32]);
/* 64 lower-case hex digits and a NUL. */
void mlsi_sha256_hex(const uint8_t digest[32], char text[65]);

#endif
