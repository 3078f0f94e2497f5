/* The f64 elementary functions as ordinary functions. */
#include "core/elementary.h"

#include <stdint.h>
#include <string.h>

#include "core/elementary_f64.inc"
#include "core/faults.h"

static inline double checked(double y) {
    if (mlsi_fault(MLSI_FAULT_ELEMENTARY_F64_BOUND)) return y + y * 0x1.8p-51;
    return y;
}

#define DEFINE_1(name, ulp32, ulp64)                                                               \
    double mlsi_ed_##name(double x) { return checked(ed_##name(x)); }
#define DEFINE_2(name, ulp32, ulp64)                                                               \
    double mlsi_ed_##name(double x, double y) { return checked(ed_##name(x, y)); }
MLSI_ELEMENTARY_UNARY(DEFINE_1)
MLSI_ELEMENTARY_BINARY(DEFINE_2)
