/* A language model of 2 layers with random weights and a byte-level SentencePiece vocabulary, for
 * tests that need a real file but no sense in what it says. */
#ifndef MLSI_TESTS_TINY_MODEL_H
#define MLSI_TESTS_TINY_MODEL_H

#include "support/gguf_writer.h"

enum { TINY_VOCAB = 264, TINY_CONTEXT = 64, TINY_WIDTH = 64, TINY_FFN = 96 };

/* Write the file; the same bytes each time. Returns 0, or -1 when it cannot be written. */
int tiny_model_write(const char *path);
/* The same file without the metadata key or tensor named `omit` (NULL: with all), and with what
 * `put` (may be NULL) writes instead. */
int tiny_model_write_but(const char *path, const char *omit, void (*put)(gguf_writer *w));

#endif
