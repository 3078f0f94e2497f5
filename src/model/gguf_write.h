/* Writing GGUF v3: the metadata of a file that is open, and tensors whose bytes follow one by one. */
#ifndef MLSI_GGUF_WRITE_H
#define MLSI_GGUF_WRITE_H

#include "core/file_write.h"
#include "model/gguf.h"

/* How tensor i of the open file is stored in the new one; shape and name are the same. */
typedef struct mlsi_gguf_stored {
    mlsys_dtype dtype;
    uint64_t bytes;
} mlsi_gguf_stored;

/* Header, metadata and tensor list, up to where the first tensor's bytes go. "general.file_type" is set to
 * what most elements of matrices are stored as, when that changes. */
mlsys_status mlsi_gguf_write_header(mlsi_file_writer *w, const mlsi_gguf *g,
                                    const mlsi_gguf_stored *stored);
/* The bytes of the next tensor, in the order of the file, and the padding behind them. */
mlsys_status mlsi_gguf_write_tensor(mlsi_file_writer *w, const mlsi_gguf *g, const void *data,
                                    uint64_t bytes);

#endif
