/* What the files of this room share: argument checks that read the same everywhere. */
#ifndef MLSI_API_H
#define MLSI_API_H

#include "core/faults.h"
#include "core/fpenv.h"
#include "core/tensor.h"

/* Refuse a NULL pointer argument; what is "function: argument". */
#define API_NOT_NULL(p, what)                                                                      \
    do {                                                                                           \
        if (!(p)) return mlsi_fail(MLSYS_E_ARG, "%s is NULL", (what));                             \
    } while (0)

/* Out-handles are write-only: NULL until the call succeeds. */
#define API_OUT_HANDLE(out, what)                                                                  \
    do {                                                                                           \
        API_NOT_NULL(out, what);                                                                   \
        *(out) = NULL;                                                                             \
    } while (0)

/* A TEXT output needs a buffer when it has a capacity. */
#define API_TEXT(buf, cap, what)                                                                   \
    do {                                                                                           \
        if ((cap) && !(buf))                                                                       \
            return mlsi_fail(MLSYS_E_ARG, "%s: buf is NULL, cap is %llu", (what),                  \
                             (unsigned long long)(cap));                                           \
    } while (0)

static inline mlsi_fpenv mlsi_api_fp_enter(void) {
    mlsi_fpenv saved = mlsi_fp_enter();
    if (mlsi_fault(MLSI_FAULT_API_FP_STATE)) mlsi_fp_leave(saved);
    return saved;
}
static inline void mlsi_api_fp_leave(const mlsi_fpenv *saved) { mlsi_fp_leave(*saved); }

/* First line of a function that computes or converts numbers: default floating-point state until it
 * returns, then the caller's again (BO-06). */
#define API_COMPUTES                                                                               \
    __attribute__((cleanup(mlsi_api_fp_leave), unused)) const mlsi_fpenv api_fpenv =               \
        mlsi_api_fp_enter()

/* Copy a versioned struct of the caller into one of ours (known bytes, zeroed before the call):
 * what the caller does not have stays zero, what we do not know must be zero. */
mlsys_status mlsi_api_struct_in(void *ours, uint64_t known, const void *theirs, const char *what);

/* Two objects must come from one context. */
mlsys_status mlsi_api_same_ctx(const mlsi_object *a, const mlsi_object *b, const char *what);

#endif
