/* Floating-point control state. Results are defined for round-to-nearest with gradual underflow;
 * the host may have set something else, and must find it again. Code that computes brackets its
 * work with enter and leave (a few cycles); worker threads enter once and stay. */
#ifndef MLSI_FPENV_H
#define MLSI_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

typedef struct mlsi_fpenv {
    uint32_t mxcsr;
} mlsi_fpenv;

enum { MLSI_MXCSR_DEFAULT = 0x1f80 }; /* all exceptions masked, nearest, no flush to zero */

static inline mlsi_fpenv mlsi_fp_enter(void) {
    mlsi_fpenv saved = {_mm_getcsr()};
    if (saved.mxcsr != MLSI_MXCSR_DEFAULT) _mm_setcsr(MLSI_MXCSR_DEFAULT);
    return saved;
}
/* Puts the control bits and the caller's exception flags back. */
static inline void mlsi_fp_leave(mlsi_fpenv saved) {
    if (_mm_getcsr() != saved.mxcsr) _mm_setcsr(saved.mxcsr);
}

#else
#include <fenv.h>

typedef struct mlsi_fpenv {
    fenv_t env;
} mlsi_fpenv;

static inline mlsi_fpenv mlsi_fp_enter(void) {
    mlsi_fpenv saved;
    fegetenv(&saved.env);
    fesetenv(FE_DFL_ENV);
    return saved;
}
static inline void mlsi_fp_leave(mlsi_fpenv saved) { fesetenv(&saved.env); }
#endif

#endif
