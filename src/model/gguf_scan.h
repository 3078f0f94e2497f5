/* Reading GGUF bytes under a bound: every step checks the bytes that it needs before it looks. */
#ifndef MLSI_GGUF_SCAN_H
#define MLSI_GGUF_SCAN_H

#include "model/gguf.h"

/* Little-endian loads at any address. */
static inline uint32_t mlsi_gguf_load_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t mlsi_gguf_load_u64(const void *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

typedef struct mlsi_gguf_scan {
    const char *file;
    const uint8_t *base;
    uint64_t size, pos; /* pos <= size */
    /* What is being read, for sentences: "metadata 3" or "tensor 7", and its name once known. */
    const char *item;
    uint64_t index;
    mlsi_gguf_str name;
    uint64_t alignment; /* general.alignment as met so far */
} mlsi_gguf_scan;

/* Fail with "<file>: <item> <index> "<name>": <text>". */
mlsys_status mlsi_gguf_bad(const mlsi_gguf_scan *s, mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* bytes more bytes must be present at pos; field names them. */
mlsys_status mlsi_gguf_need(const mlsi_gguf_scan *s, uint64_t bytes, const char *field);
mlsys_status mlsi_gguf_read_u32(mlsi_gguf_scan *s, const char *field, uint32_t *out);
mlsys_status mlsi_gguf_read_u64(mlsi_gguf_scan *s, const char *field, uint64_t *out);
mlsys_status mlsi_gguf_read_str(mlsi_gguf_scan *s, const char *field, mlsi_gguf_str *out);
/* A key or tensor name: 1..65535 bytes of UTF-8 without control characters; becomes s->name. */
mlsys_status mlsi_gguf_read_name(mlsi_gguf_scan *s, const char *field);

/* One metadata entry. With arena NULL it is only checked; otherwise it is also recorded in *kv,
 * with its name and string table in the arena. */
mlsys_status mlsi_gguf_read_kv(mlsi_gguf_scan *s, mlsi_arena *arena, mlsi_gguf_kv *kv);

/* Step over one value that has been checked: *p moves from its first byte to behind its last. */
void mlsi_gguf_skip_value(mlsi_gguf_type type, const uint8_t **p);

/* Bytes of one scalar; 0 for strings, arrays and unknown types. */
uint64_t mlsi_gguf_scalar_bytes(uint32_t type);

/* The smallest legal entry: length, one byte of key, type, one byte of value. */
enum { MLSI_GGUF_MIN_KV = 8 + 1 + 4 + 1 };
/* Length, one byte of name, dim count, type, offset. */
enum { MLSI_GGUF_MIN_TENSOR = 8 + 1 + 4 + 4 + 8 };

#endif
