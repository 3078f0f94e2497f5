/* A test that cannot run here says so by name; the runner counts it as skipped, not as passed. */
#ifndef MLSI_TEST_SKIP_H
#define MLSI_TEST_SKIP_H

#include <stdio.h>

/* Use once, as the last act of a test: TEST_SKIP("gemma3 logits: no model file in the cache"). */
#define TEST_SKIP(...)                                                                             \
    do {                                                                                           \
        fputs("SKIP: ", stdout);                                                                   \
        printf(__VA_ARGS__);                                                                       \
        fputc('\n', stdout);                                                                       \
        fflush(stdout);                                                                            \
        return;                                                                                    \
    } while (0)

#endif
