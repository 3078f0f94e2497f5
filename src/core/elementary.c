/* The scalar f32 instance of the elementary functions, and the table of all of them. */
#include "core/elementary.h"

#include "core/elementary_scalar.h"
#include "core/elementary.inc"

#define DEFINE_1(name, ulp32, ulp64)                                                               \
    float mlsi_ef_##name(float x) { return ef_##name(x); }
#define DEFINE_2(name, ulp32, ulp64)                                                               \
    float mlsi_ef_##name(float x, float y) { return ef_##name(x, y); }
MLSI_ELEMENTARY_UNARY(DEFINE_1)
MLSI_ELEMENTARY_BINARY(DEFINE_2)

#define ROW_1(name, ulp32, ulp64) {#name, mlsi_ef_##name, mlsi_ed_##name, 0, 0, ulp32, ulp64},
#define ROW_2(name, ulp32, ulp64) {#name, 0, 0, mlsi_ef_##name, mlsi_ed_##name, ulp32, ulp64},
const mlsi_elementary_row mlsi_elementary_table[] = {MLSI_ELEMENTARY_UNARY(ROW_1)
                                                         MLSI_ELEMENTARY_BINARY(ROW_2)};
const int mlsi_elementary_count =
    (int)(sizeof mlsi_elementary_table / sizeof mlsi_elementary_table[0]);
