#include "support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gguf_bytes_add(gguf_bytes *b, const void *p, size_t n) {
    if (b->len + n > b->cap) {
        b->cap = (b->len + n) * 2 + 64;
        b->data = realloc(b->data, b->cap);
        if (!b->data) {
            fprintf(stderr, "gguf_writer: no memory\n");
            exit(99);
        }
    }
    if (n == 0) return;
    if (p)
        memcpy(b->data + b->len, p, n);
    else
        memset(b->data + b->len, 0, n);
    b->len += n;
}

void gguf_bytes_u32(gguf_bytes *b, uint32_t v) { gguf_bytes_add(b, &v, 4); }
void gguf_bytes_u64(gguf_bytes *b, uint64_t v) { gguf_bytes_add(b, &v, 8); }

void gguf_bytes_str(gguf_bytes *b, const char *s, size_t len) {
    gguf_bytes_u64(b, len);
    gguf_bytes_add(b, s, len);
}

void gguf_bytes_free(gguf_bytes *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

void gguf_writer_init(gguf_writer *w) {
    memset(w, 0, sizeof *w);
    w->version = 3;
    w->alignment = 32;
    w->pad_end = true;
}

void gguf_writer_free(gguf_writer *w) {
    gguf_bytes_free(&w->kv);
    gguf_bytes_free(&w->infos);
    gguf_bytes_free(&w->data);
}

/* ---- metadata ------------------------------------------------------------------------------- */

void gguf_put_raw(gguf_writer *w, const char *key, uint32_t type, const void *value, size_t bytes) {
    gguf_bytes_str(&w->kv, key, strlen(key));
    gguf_bytes_u32(&w->kv, type);
    gguf_bytes_add(&w->kv, value, bytes);
    w->n_kv++;
}

void gguf_put_u8(gguf_writer *w, const char *key, uint8_t v) { gguf_put_raw(w, key, 0, &v, 1); }
void gguf_put_i8(gguf_writer *w, const char *key, int8_t v) { gguf_put_raw(w, key, 1, &v, 1); }
void gguf_put_u16(gguf_writer *w, const char *key, uint16_t v) { gguf_put_raw(w, key, 2, &v, 2); }
void gguf_put_i16(gguf_writer *w, const char *key, int16_t v) { gguf_put_raw(w, key, 3, &v, 2); }
void gguf_put_u32(gguf_writer *w, const char *key, uint32_t v) { gguf_put_raw(w, key, 4, &v, 4); }
void gguf_put_i32(gguf_writer *w, const char *key, int32_t v) { gguf_put_raw(w, key, 5, &v, 4); }
void gguf_put_f32(gguf_writer *w, const char *key, float v) { gguf_put_raw(w, key, 6, &v, 4); }
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t v) { gguf_put_raw(w, key, 10, &v, 8); }
void gguf_put_i64(gguf_writer *w, const char *key, int64_t v) { gguf_put_raw(w, key, 11, &v, 8); }
void gguf_put_f64(gguf_writer *w, const char *key, double v) { gguf_put_raw(w, key, 12, &v, 8); }

void gguf_put_bool(gguf_writer *w, const char *key, bool v) {
    uint8_t byte = v;
    gguf_put_raw(w, key, 7, &byte, 1);
}

void gguf_put_str_n(gguf_writer *w, const char *key, const char *v, size_t len) {
    gguf_put_raw(w, key, 8, NULL, 0);
    gguf_bytes_str(&w->kv, v, len);
}

void gguf_put_str(gguf_writer *w, const char *key, const char *v) {
    gguf_put_str_n(w, key, v, strlen(v));
}

void gguf_put_array(gguf_writer *w, const char *key, uint32_t type, uint64_t count, const void *v) {
    static const uint8_t bytes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    gguf_put_raw(w, key, 9, NULL, 0);
    gguf_bytes_u32(&w->kv, type);
    gguf_bytes_u64(&w->kv, count);
    gguf_bytes_add(&w->kv, v, (size_t)count * (type < 13 ? bytes[type] : 0));
}

void gguf_put_strs(gguf_writer *w, const char *key, uint64_t count, const char *const *v) {
    gguf_put_array(w, key, 8, count, NULL);
    for (uint64_t i = 0; i < count; i++)
        gguf_bytes_str(&w->kv, v[i], strlen(v[i]));
}

void gguf_put_alignment(gguf_writer *w, uint32_t alignment) {
    gguf_put_u32(w, "general.alignment", alignment);
    w->alignment = alignment;
}

/* ---- tensors -------------------------------------------------------------------------------- */

typedef struct block_fact {
    uint32_t type;
    uint32_t elems, bytes;
    int d, dmin;       /* positions of the f16 scale and second scale; -1: none */
    float d_per_scale; /* scale field that gives elements a deviation of about 1 */
    float dmin_per_d;
} block_fact;

/* Codes are uniform, so q4 has deviation 4.6, q5 9.2, q8 74; K formats multiply a 6-bit group
 * scale. */
static const block_fact facts[] = {
    {0, 1, 4, -1, -1, 0, 0},
    {1, 1, 2, -1, -1, 0, 0},
    {24, 1, 1, -1, -1, 0, 0},
    {25, 1, 2, -1, -1, 0, 0},
    {26, 1, 4, -1, -1, 0, 0},
    {27, 1, 8, -1, -1, 0, 0},
    {28, 1, 8, -1, -1, 0, 0},
    {30, 1, 2, -1, -1, 0, 0},
    {2, 32, 18, 0, -1, 0.217f, 0},
    {3, 32, 20, 0, 2, 0.217f, -7.5f},
    {6, 32, 22, 0, -1, 0.108f, 0},
    {7, 32, 24, 0, 2, 0.108f, -15.5f},
    {8, 32, 34, 0, -1, 0.0135f, 0},
    {12, 256, 144, 0, 2, 0.006f, 7.5f},
    {13, 256, 176, 0, 2, 0.003f, 15.5f},
    {14, 256, 210, 208, -1, 0.00073f, 0},
};
enum { N_FACTS = (int)(sizeof facts / sizeof facts[0]) };

static const block_fact *fact_of(uint32_t type) {
    for (int i = 0; i < N_FACTS; i++)
        if (facts[i].type == type) return &facts[i];
    return NULL;
}

uint64_t gguf_tensor_bytes(uint32_t ggml_type, int rank, const uint64_t *ne) {
    const block_fact *f = fact_of(ggml_type);
    uint64_t n = 1;
    if (!f) return 0;
    for (int i = 0; i < rank; i++)
        n *= ne[i];
    return n / f->elems * f->bytes;
}

void gguf_put_tensor_raw(gguf_writer *w, const char *name, uint32_t n_dims, uint32_t dims_written,
                         const uint64_t *ne, uint32_t ggml_type, uint64_t offset) {
    gguf_bytes_str(&w->infos, name, strlen(name));
    gguf_bytes_u32(&w->infos, n_dims);
    for (uint32_t i = 0; i < dims_written; i++)
        gguf_bytes_u64(&w->infos, ne[i]);
    gguf_bytes_u32(&w->infos, ggml_type);
    gguf_bytes_u64(&w->infos, offset);
    w->n_tensors++;
}

static void pad(gguf_bytes *b, uint64_t alignment) {
    uint64_t over = alignment ? b->len % alignment : 0;
    if (over) gguf_bytes_add(b, NULL, (size_t)(alignment - over));
}

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t ggml_type, int rank,
                     const uint64_t *ne, const void *data) {
    pad(&w->data, w->alignment);
    gguf_put_tensor_raw(w, name, (uint32_t)rank, (uint32_t)rank, ne, ggml_type, w->data.len);
    gguf_bytes_add(&w->data, data, (size_t)gguf_tensor_bytes(ggml_type, rank, ne));
}

/* ---- random contents ------------------------------------------------------------------------ */

static uint64_t next_bits(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Sum of four uniforms, deviation 1: near enough to normal, and free of library functions. */
static float next_normal(uint64_t *state) {
    uint64_t u = next_bits(state);
    int32_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int32_t)(u >> (16 * i) & 0xFFFF);
    return (float)(sum - 2 * 65535) / 37836.0f;
}

/* Rounding toward zero is enough here; values below the normal range become 0. */
static uint16_t f16_bits(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    int exp = (int)(u >> 23 & 255) - 127 + 15;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (exp <= 0) return sign;
    if (exp >= 31) return (uint16_t)(sign | 0x7BFF);
    return (uint16_t)(sign | exp << 10 | (u >> 13 & 0x3FF));
}

static void random_plain(uint32_t type, uint8_t *p, uint64_t *state, float scale) {
    float v = next_normal(state) * scale;
    double wide = v;
    int64_t small = (int64_t)(next_bits(state) % 201) - 100;
    uint32_t u;
    uint16_t half;
    memcpy(&u, &v, 4);
    switch (type) {
    case 0: memcpy(p, &v, 4); break;
    case 1: half = f16_bits(v), memcpy(p, &half, 2); break;
    case 28: memcpy(p, &wide, 8); break;
    case 30: half = (uint16_t)(u >> 16), memcpy(p, &half, 2); break;
    default: memcpy(p, &small, fact_of(type)->bytes); break; /* little-endian two's complement */
    }
}

static void random_block(const block_fact *f, uint8_t *p, uint64_t *state, float scale) {
    for (uint32_t i = 0; i < f->bytes; i++)
        p[i] = (uint8_t)next_bits(state);
    float d = scale * f->d_per_scale * (0.75f + (float)(next_bits(state) & 255) / 512.0f);
    uint16_t half = f16_bits(d);
    memcpy(p + f->d, &half, 2);
    half = f16_bits(d * f->dmin_per_d);
    if (f->dmin >= 0) memcpy(p + f->dmin, &half, 2);
}

void gguf_put_random(gguf_writer *w, const char *name, uint32_t ggml_type, int rank,
                     const uint64_t *ne, uint64_t seed, float scale) {
    const block_fact *f = fact_of(ggml_type);
    gguf_put_tensor(w, name, ggml_type, rank, ne, NULL);
    if (!f) return;
    uint64_t bytes = gguf_tensor_bytes(ggml_type, rank, ne), state = seed;
    for (const char *c = name; *c; c++)
        state = next_bits(&state) ^ (uint8_t)*c;
    uint8_t *p = w->data.data + (w->data.len - bytes);
    for (uint64_t i = 0; i < bytes; i += f->bytes) {
        if (f->d < 0)
            random_plain(ggml_type, p + i, &state, scale);
        else
            random_block(f, p + i, &state, scale);
    }
}

/* ---- the file ------------------------------------------------------------------------------- */

uint8_t *gguf_writer_finish(const gguf_writer *w, size_t *size) {
    gguf_bytes out = {0};
    gguf_bytes_add(&out, "GGUF", 4);
    gguf_bytes_u32(&out, w->version);
    gguf_bytes_u64(&out, w->n_tensors);
    gguf_bytes_u64(&out, w->n_kv);
    gguf_bytes_add(&out, w->kv.data, w->kv.len);
    gguf_bytes_add(&out, w->infos.data, w->infos.len);
    pad(&out, w->alignment);
    gguf_bytes_add(&out, w->data.data, w->data.len);
    if (w->pad_end) pad(&out, w->alignment);
    *size = out.len;
    return out.data;
}

int gguf_writer_save(const gguf_writer *w, const char *path) {
    size_t size;
    uint8_t *data = gguf_writer_finish(w, &size);
    FILE *f = fopen(path, "wb");
    size_t written = f ? fwrite(data, 1, size, f) : 0;
    int failed = f ? fclose(f) : 1;
    free(data);
    return failed || written != size ? 1 : 0;
}

static void put_nested(gguf_writer *w) {
    static const uint32_t numbers[3] = {7, 8, 9};
    gguf_put_array(w, "array.nested", 9, 2, NULL);
    gguf_bytes_u32(&w->kv, 4);
    gguf_bytes_u64(&w->kv, 3);
    gguf_bytes_add(&w->kv, numbers, sizeof numbers);
    gguf_bytes_u32(&w->kv, 8);
    gguf_bytes_u64(&w->kv, 2);
    gguf_bytes_str(&w->kv, "x", 1);
    gguf_bytes_str(&w->kv, "", 0);
}

void gguf_put_everything(gguf_writer *w) {
    static const char *const words[] = {"a", "", "\xC4\xA0word", "q\"\\\n"};
    static const float floats[] = {0.5f, -1.0f, 1e-5f};
    static const double doubles[] = {0.1, -2.0};
    static const int32_t ints[] = {-1, 0, 2147483647};
    static const uint8_t bools[] = {1, 0, 1};
    static const uint64_t longs[] = {0, UINT64_MAX};
    gguf_put_str(w, "general.architecture", "test");
    gguf_put_u8(w, "u8", 255);
    gguf_put_i8(w, "i8", -128);
    gguf_put_u16(w, "u16", 65535);
    gguf_put_i16(w, "i16", -32768);
    gguf_put_u32(w, "u32", 4294967295u);
    gguf_put_i32(w, "i32", -2147483647 - 1);
    gguf_put_f32(w, "f32", 0.1f);
    gguf_put_bool(w, "bool", true);
    gguf_put_str_n(w, "str", "zero\0inside", 11);
    gguf_put_u64(w, "u64", UINT64_MAX);
    gguf_put_i64(w, "i64", INT64_MIN);
    gguf_put_f64(w, "f64", 0.1);
    gguf_put_strs(w, "array.str", 4, words);
    gguf_put_array(w, "array.f32", 6, 3, floats);
    gguf_put_array(w, "array.f64", 12, 2, doubles);
    gguf_put_array(w, "array.i32", 5, 3, ints);
    gguf_put_array(w, "array.bool", 7, 3, bools);
    gguf_put_array(w, "array.u64", 10, 2, longs);
    gguf_put_array(w, "array.empty", 8, 0, NULL);
    put_nested(w);
    const uint64_t odd[4] = {3, 1, 2, 5}, empty[2] = {0, 4};
    for (int i = 0; i < N_FACTS; i++) {
        char name[32];
        const uint64_t rows[2] = {facts[i].elems, 3};
        snprintf(name, sizeof name, "blk.0.type%u.weight", facts[i].type);
        gguf_put_random(w, name, facts[i].type, 2, rows, 1, 0.5f);
    }
    gguf_put_random(w, "odd", 0, 4, odd, 1, 1.0f);
    gguf_put_random(w, "scalar", 0, 0, NULL, 1, 1.0f);
    gguf_put_tensor(w, "empty", 3, 2, empty, NULL);
}
