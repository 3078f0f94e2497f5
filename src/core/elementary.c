/* The scalar f32 instance of the elementary functions, and the table of all of them. */
#include "core/elementary.h"

#include "core/elementary_scalar.h"
#include "core/elementary.inc"
#include "core/faults.h"

static inline float checked(float y) {
    if (mlsi_fault(MLSI_FAULT_ELEMENTARY_LAST_BIT)) return vf_from_bits(vf_bits(y) ^ 1);
    return y;
}

static inline float checked_2(float x, float y, float r) {
    if (mlsi_fault(MLSI_FAULT_ELEMENTARY_NAN_RULE) && (x != x || y != y)) return x + y;
    return checked(r);
}

#define DEFINE_1(name, ulp32, ulp64)                                                               \
    float mlsi_ef_##name(float x) { return checked(ef_##name(x)); }
#define DEFINE_2(name, ulp32, ulp64)                                                               \
    float mlsi_ef_##name(float x, float y) { return checked_2(x, y, ef_##name(x, y)); }
MLSI_ELEMENTARY_UNARY(DEFINE_1)
MLSI_ELEMENTARY_BINARY(DEFINE_2)

#define ROW_1(name, ulp32, ulp64) {#name, mlsi_ef_##name, mlsi_ed_##name, 0, 0, ulp32, ulp64},
#define ROW_2(name, ulp32, ulp64) {#name, 0, 0, mlsi_ef_##name, mlsi_ed_##name, ulp32, ulp64},
const mlsi_elementary_row mlsi_elementary_table[] = {MLSI_ELEMENTARY_UNARY(ROW_1)
                                                         MLSI_ELEMENTARY_BINARY(ROW_2)};
const int mlsi_elementary_count =
    (int)(sizeof mlsi_elementary_table / sizeof mlsi_elementary_table[0]);
