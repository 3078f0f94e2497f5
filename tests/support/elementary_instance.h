/* The f32 elementary functions and the vector vocabulary, instantiated once per instruction set,
 * behind ordinary functions that a test can call. */
#ifndef MLSYS_TESTS_ELEMENTARY_INSTANCE_H
#define MLSYS_TESTS_ELEMENTARY_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct elementary_instance {
    const char *isa;
    int lanes;
    int available; /* 0: this machine cannot run it; do not call */
    /* out[i] = row(x[i]) or row(x[i], y[i]); row indexes mlsi_elementary_table */
    void (*map)(int row, const float *x, const float *y, float *out, size_t n);
    /* out[i] = one vocabulary operation, named by index; see vocabulary_op_name */
    void (*op)(int op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out,
               size_t n);
    void (*to_f16)(const float *x, uint16_t *out, size_t n);
    void (*from_f16)(const uint16_t *x, float *out, size_t n);
    void (*to_bf16)(const float *x, uint16_t *out, size_t n);
    void (*from_bf16)(const uint16_t *x, float *out, size_t n);
    /* r[0] sum, r[1] maximum, r[2] minimum of 16 values by the folding tree */
    void (*reduce16)(const float *x, float *r);
} elementary_instance;

enum { ELEMENTARY_INSTANCES = 4 };
/* 0 portable, 1 avx2, 2 avx2 with two registers a vector, 3 avx512 */
const elementary_instance *elementary_instance_get(int i);

/* Operations of the vocabulary that op() runs; V1 unary, V2 binary, V3 ternary on f32; I on i32. */
/* clang-format off */
#define VOCABULARY_OPS(F1, F2, F3, I2, IS, M2)                                                     \
    F1(neg)                                                                                        \
    F1(abs)                                                                                        \
    F1(sqrt)                                                                                       \
    F1(rint)                                                                                       \
    F1(floor) F1(ceil) F1(trunc) F2(add) F2(sub) F2(mul) F2(div) F2(copysign) F2(min_sel)          \
        F2(max_sel) F2(minimum) F2(maximum) F3(fma) F3(fms) F3(fnma) I2(add) I2(sub) I2(mul)       \
            I2(mulhi_u) I2(and) I2(or) I2(xor) I2(sllv) I2(srlv) I2(min) I2(max) IS(sll) IS(srl)   \
                IS(sra) M2(lt) M2(le) M2(gt) M2(ge) M2(eq) M2(ne)
/* clang-format on */

#define VOCABULARY_F_(n) VOCABULARY_F_##n,
#define VOCABULARY_I_(n) VOCABULARY_I_##n,
#define VOCABULARY_M_(n) VOCABULARY_M_##n,
enum {
    VOCABULARY_OPS(VOCABULARY_F_, VOCABULARY_F_, VOCABULARY_F_, VOCABULARY_I_, VOCABULARY_I_,
                   VOCABULARY_M_) VOCABULARY_I_eq,
    VOCABULARY_I_gt,
    VOCABULARY_I_lt,
    VOCABULARY_F_isnan,
    VOCABULARY_F_cvt_i,
    VOCABULARY_F_cvtt_i,
    VOCABULARY_I_cvt_f,
    VOCABULARY_OP_COUNT
};

#endif
