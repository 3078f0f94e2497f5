/* The f64 elementary functions as ordinary functions. */
#include "core/elementary.h"

#include <stdint.h>
#include <string.h>

#include "core/elementary_f64.inc"

#define DEFINE_1(name, ulp32, ulp64)                                                               \
    double mlsi_ed_##name(double x) { return ed_##name(x); }
#define DEFINE_2(name, ulp32, ulp64)                                                               \
    double mlsi_ed_##name(double x, double y) { return ed_##name(x, y); }
MLSI_ELEMENTARY_UNARY(DEFINE_1)
MLSI_ELEMENTARY_BINARY(DEFINE_2)
