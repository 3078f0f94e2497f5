/* Tests of CUDA without a device: the library finds the fake driver of tests/fake_cuda. */
#ifndef MLSI_TESTS_FAKE_CUDA_H
#define MLSI_TESTS_FAKE_CUDA_H

#include "core/accelerator.h"
#include "fake_cuda/fake_cuda.h"

/* Its knobs and counts, as they are at the start of a process. compiler: it is NVRTC, too. */
fake_cuda *fake_cuda_use(bool compiler);
/* The at-th call of `where` (NULL: of any function) from now on fails. */
void fake_cuda_fail(fake_cuda *f, const char *where, int64_t at, CUresult with);
/* What must hold when all devices are closed: nothing is left, contexts are balanced. */
void fake_cuda_check_clean(const fake_cuda *f);

/* Device 0, open. */
mlsi_accel *fake_cuda_open(mlsi_alloc *a, uint64_t limit);
void fake_cuda_ok(mlsys_status st); /* fails the test with the sentence */

#endif
