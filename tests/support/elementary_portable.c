#define MLSI_ISA_IS_PORTABLE 1
#include "support/elementary_instance.inc"

void elementary_fill_portable(elementary_instance *e);
void elementary_fill_avx2(elementary_instance *e);
void elementary_fill_avx2_pairs(elementary_instance *e);
void elementary_fill_avx512(elementary_instance *e);

void elementary_fill_portable(elementary_instance *e) { INSTANCE_FILL(e); }

const elementary_instance *elementary_instance_get(int i) {
    static _Thread_local elementary_instance all[ELEMENTARY_INSTANCES];
    static void (*const fill[])(elementary_instance *) = {
        elementary_fill_portable, elementary_fill_avx2, elementary_fill_avx2_pairs,
        elementary_fill_avx512};
    all[i] = (elementary_instance){0};
    fill[i](&all[i]);
    return &all[i];
}
