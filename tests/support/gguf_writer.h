/* Builds GGUF files in memory for tests: every value type, every tensor type, and files that break
 * the rules on purpose. It writes what it is told and checks nothing; it shares no code with the
 * reader. A failed malloc ends the test program. */
#ifndef MLSI_TESTS_GGUF_WRITER_H
#define MLSI_TESTS_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gguf_bytes {
    uint8_t *data;
    size_t len, cap;
} gguf_bytes;

void gguf_bytes_add(gguf_bytes *b, const void *p, size_t n);
void gguf_bytes_u32(gguf_bytes *b, uint32_t v);
void gguf_bytes_u64(gguf_bytes *b, uint64_t v);
void gguf_bytes_str(gguf_bytes *b, const char *s, size_t len); /* length, then bytes */
void gguf_bytes_free(gguf_bytes *b);

/* Set fields after init and before finish to lie: every "wrong" value is used as it is. */
typedef struct gguf_writer {
    uint32_t version; /* 3 */
    uint64_t n_kv;    /* counted by the put functions; may be overwritten before finish */
    uint64_t n_tensors;
    uint64_t alignment; /* 32; of the tensors' offsets and of the data section */
    bool pad_end;       /* pad the last tensor too (true) */
    gguf_bytes kv;      /* metadata section so far */
    gguf_bytes infos;   /* tensor entries so far */
    gguf_bytes data;    /* tensor data so far */
} gguf_writer;

void gguf_writer_init(gguf_writer *w);
void gguf_writer_free(gguf_writer *w);

/* ---- metadata ------------------------------------------------------------------------------- */

/* type is the file's number (0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool, 8 string, 9
 * array, 10 u64, 11 i64, 12 f64); value its bytes in the file. */
void gguf_put_raw(gguf_writer *w, const char *key, uint32_t type, const void *value, size_t bytes);
void gguf_put_u8(gguf_writer *w, const char *key, uint8_t v);
void gguf_put_i8(gguf_writer *w, const char *key, int8_t v);
void gguf_put_u16(gguf_writer *w, const char *key, uint16_t v);
void gguf_put_i16(gguf_writer *w, const char *key, int16_t v);
void gguf_put_u32(gguf_writer *w, const char *key, uint32_t v);
void gguf_put_i32(gguf_writer *w, const char *key, int32_t v);
void gguf_put_f32(gguf_writer *w, const char *key, float v);
void gguf_put_bool(gguf_writer *w, const char *key, bool v);
void gguf_put_str(gguf_writer *w, const char *key, const char *v);
void gguf_put_str_n(gguf_writer *w, const char *key, const char *v, size_t len);
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t v);
void gguf_put_i64(gguf_writer *w, const char *key, int64_t v);
void gguf_put_f64(gguf_writer *w, const char *key, double v);
/* count scalars of a scalar type, laid out as in C. */
void gguf_put_array(gguf_writer *w, const char *key, uint32_t type, uint64_t count, const void *v);
void gguf_put_strs(gguf_writer *w, const char *key, uint64_t count, const char *const *v);
/* general.alignment as metadata, and used by this writer. */
void gguf_put_alignment(gguf_writer *w, uint32_t alignment);

/* ---- tensors -------------------------------------------------------------------------------- */

/* Bytes of a row-major tensor of a ggml type; 0 for an unknown type. ne[0] moves fastest, and must
 * be a multiple of the type's block. */
uint64_t gguf_tensor_bytes(uint32_t ggml_type, int rank, const uint64_t *ne);
/* ne[0] moves fastest (the file's order). data may be NULL: zeros. */
void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t ggml_type, int rank,
                     const uint64_t *ne, const void *data);
/* The same with values for a model: f32 and narrower floats roughly normal times scale, integers
 * small, blocks with random codes and scales so that elements have about that deviation. A function
 * of (seed, name, element) only. */
void gguf_put_random(gguf_writer *w, const char *name, uint32_t ggml_type, int rank,
                     const uint64_t *ne, uint64_t seed, float scale);
/* An entry as it is, without data. */
void gguf_put_tensor_raw(gguf_writer *w, const char *name, uint32_t n_dims, uint32_t dims_written,
                         const uint64_t *ne, uint32_t ggml_type, uint64_t offset);

/* The file, from malloc; free it. w stays usable. */
uint8_t *gguf_writer_finish(const gguf_writer *w, size_t *size);
/* Write the file to path; 0 on success. */
int gguf_writer_save(const gguf_writer *w, const char *path);

/* A file with every metadata type, nested and empty arrays, and a tensor of every supported type.
 */
void gguf_put_everything(gguf_writer *w);

#endif
