/* What the files of this room share: argument checks that read the same everywhere. */
#ifndef MLSI_API_H
#define MLSI_API_H

#include "core/faults.h"
#include "core/fpenv.h"
#include "core/tensor.h"

#include <locale.h>

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

/* What a host may have set for its thread and numbers must not depend on. */
typedef struct mlsi_api_state {
    mlsi_fpenv fp;
    locale_t locale; /* 0 = not changed */
} mlsi_api_state;

static inline mlsi_api_state mlsi_api_enter(void) {
    mlsi_api_state saved = {mlsi_fp_enter(), (locale_t)0};
    if (mlsi_fault(MLSI_FAULT_API_FP_STATE)) mlsi_fp_leave(saved.fp);
    locale_t c =
        mlsi_fault(MLSI_FAULT_API_LOCALE) ? (locale_t)0 : newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c) saved.locale = uselocale(c);
    return saved;
}
static inline void mlsi_api_leave(const mlsi_api_state *saved) {
    if (saved->locale) freelocale(uselocale(saved->locale));
    mlsi_fp_leave(saved->fp);
}

/* First line of a function that computes or converts numbers: default floating-point state (BO-06) and
 * the C locale's decimal point until it returns, then the caller's again. Both belong to the thread. */
#define API_COMPUTES                                                                               \
    __attribute__((cleanup(mlsi_api_leave), unused)) const mlsi_api_state api_state =              \
        mlsi_api_enter()

/* Copy a versioned struct of the caller into one of ours (known bytes, zeroed before the call):
 * what the caller does not have stays zero, what we do not know must be zero. */
mlsys_status mlsi_api_struct_in(void *ours, uint64_t known, const void *theirs, const char *what);

/* Two objects must come from one context. */
mlsys_status mlsi_api_same_ctx(const mlsi_object *a, const mlsi_object *b, const char *what);

/* Pin n tensors, which must come from ctx (NULL: from any); where they are optional a NULL handle stays NULL. On
 * failure none stay pinned, and all of out is NULL. */
mlsys_status mlsi_api_pin_tensors(const mlsi_ctx *ctx, const char *what, int32_t n,
                                  const mlsys_tensor *handles, bool optional, mlsi_tensor **out);
void mlsi_api_unpin_tensors(int32_t n, mlsi_tensor **t); /* leaves NULL; NULL accepted */

/* Symbols by name: a count, names and values. */
mlsys_status mlsi_api_check_names(const char *what, int32_t n, const char *const *names,
                                  const int64_t *values);

const mlsi_config_key *mlsi_check_gradient_config_keys(int *n);

#endif
