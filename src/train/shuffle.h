/* The order of examples: a keyed permutation by random access, so that a run resumes inside an epoch by a number. */
#ifndef MLSI_SHUFFLE_H
#define MLSI_SHUFFLE_H

#include <stdint.h>

/* Image of i, 0 <= i < count, under the permutation of [0, count) that seed and epoch choose. */
int64_t mlsi_shuffle(uint64_t seed, int64_t epoch, int64_t count, int64_t i);

#endif
