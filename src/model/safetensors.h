/* Safetensors files: 8 bytes with the length of a JSON header, the header, then the tensors' bytes without gaps.
 *
 * The index of a file is the one of gguf.h, with version 0: its metadata are texts, its tensors are in the order
 * of their bytes. The whole header is validated before anything is used: its length, the JSON (no key twice, no
 * trailing bytes), dtypes, extents and their products, that offsets fit dtype and shape and that together they
 * cover the data exactly once, and that booleans are 0 or 1. Tensors need not be aligned. */
#ifndef MLSI_SAFETENSORS_H
#define MLSI_SAFETENSORS_H

#include "core/tensor.h"
#include "model/gguf.h"

/* Does the file look like one? By its first bytes. */
bool mlsi_safetensors_looks(const void *data, uint64_t size);
/* As mlsi_gguf_open; free with mlsi_gguf_close. Errors FORMAT: broken, the sentence names file and tensor;
 * UNSUPPORTED: a dtype that there is none for here, or a build without jansson. */
mlsys_status mlsi_safetensors_open(mlsi_alloc *a, const char *file, const void *data, uint64_t size,
                                   mlsi_gguf **out);

typedef struct mlsi_named_view {
    const char *name;
    mlsi_view view;
} mlsi_named_view;

/* Write a file as file_write.h does. Names, keys and values are UTF-8; names and keys occur once. The tensors are
 * laid out by descending element size, so that all are aligned. Errors ARG: a name; DTYPE: one that the format
 * lacks; IO. */
mlsys_status mlsi_safetensors_write(mlsi_alloc *a, const char *path, int64_t n,
                                    const mlsi_named_view *tensors, int64_t n_meta,
                                    const char *const *keys, const char *const *values);
/* The indices of tensors in the order that a file has them. */
void mlsi_safetensors_order(int64_t n, const mlsi_named_view *tensors, int64_t *order);

#endif
