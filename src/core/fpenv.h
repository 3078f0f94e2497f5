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
    uint16_t x87; /* libc's text conversions look at its rounding mode */
} mlsi_fpenv;

enum {
    MLSI_MXCSR_DEFAULT = 0x1f80, /* all exceptions masked, nearest, no flush to zero */
    MLSI_X87_DEFAULT = 0x037f    /* the same, 64-bit significands */
};

static inline mlsi_fpenv mlsi_fp_enter(void) {
    mlsi_fpenv saved = {.mxcsr = _mm_getcsr()};
    __asm__ volatile("fnstcw %0" : "=m"(saved.x87));
    uint16_t x87 = MLSI_X87_DEFAULT;
    if (saved.mxcsr != MLSI_MXCSR_DEFAULT) _mm_setcsr(MLSI_MXCSR_DEFAULT);
    if (saved.x87 != x87) __asm__ volatile("fldcw %0" : : "m"(x87));
    return saved;
}
/* Puts the control bits and the caller's exception flags back. */
static inline void mlsi_fp_leave(mlsi_fpenv saved) {
    if (_mm_getcsr() != saved.mxcsr) _mm_setcsr(saved.mxcsr);
    if (saved.x87 != MLSI_X87_DEFAULT) __asm__ volatile("fldcw %0" : : "m"(saved.x87));
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
