/* ck_assert talks to the test runner each time; this one only when it fails, for long loops. */
#ifndef MLSI_TESTS_REQUIRE_H
#define MLSI_TESTS_REQUIRE_H

#include <check.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) ck_abort_msg("not true: %s", #condition);                                \
    } while (0)

#endif
