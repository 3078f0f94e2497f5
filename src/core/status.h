/* Status values with a sentence in a fixed per-thread buffer: no allocation, nothing to free. */
#ifndef MLSI_STATUS_H
#define MLSI_STATUS_H

#include <mlsys/mlsys.h>

/* Record code and sentence, return code.  Sentences read "noun: what was wrong: values". */
mlsys_status mlsi_fail(mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Put "context: " before the recorded sentence and return code; for callers that know more. */
mlsys_status mlsi_fail_in(mlsys_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* The compiler cannot see into them, and would take a failure for a possible success. */
static inline mlsys_status mlsi_failed(mlsys_status recorded, mlsys_status code) {
    (void)recorded;
    return code;
}
#define mlsi_fail(code, ...)    mlsi_failed(mlsi_fail(code, __VA_ARGS__), (code))
#define mlsi_fail_in(code, ...) mlsi_failed(mlsi_fail_in(code, __VA_ARGS__), (code))

#define MLSI_TRY(expr)                                                                             \
    do {                                                                                           \
        mlsys_status mlsi_try_status = (expr);                                                     \
        if (mlsi_try_status != MLSYS_OK) return mlsi_try_status;                                   \
    } while (0)

/* For functions with resources: sets st and jumps to label. */
#define MLSI_TRY_GOTO(label, st, expr)                                                             \
    do {                                                                                           \
        (st) = (expr);                                                                             \
        if ((st) != MLSYS_OK) goto label;                                                          \
    } while (0)

#endif
