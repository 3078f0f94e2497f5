/* What the small programs share: stop at the first failure with the library's sentence. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <mlsys/mlsys.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MLSYS_OK) {                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, mlsys_last_error());                \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

/* A condition that the lesson claims; the program fails when it does not hold. */
#define CLAIM(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#endif
