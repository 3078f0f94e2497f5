/* Elements of the float types that the hand-written kernels take, and indices of a product. */
#ifndef MLSI_CUDA_ELEMENT_CUH
#define MLSI_CUDA_ELEMENT_CUH

#include "cuda/gen_device.h"
#include "cuda/rows/params.h"

V_FN float load_element(const char *p, int type, int64_t i) {
    if (type == CUDA_F32) return ((const float *)p)[i];
    const uint16_t *h = (const uint16_t *)p + i;
    return type == CUDA_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}

V_FN void store_element(char *p, int type, int64_t i, float x) {
    if (type == CUDA_F32) {
        ((float *)p)[i] = x;
        return;
    }
    uint16_t *h = (uint16_t *)p + i;
    if (type == CUDA_F16)
        vf_store_f16(h, x);
    else
        vf_store_bf16(h, x);
}

V_FN int type_bytes(int type) { return type == CUDA_F32 ? 4 : 2; }

V_FN int64_t offset_of(const cuda_index &x, int operand, int64_t i) {
    if (x.dims <= 1) return i * x.stride[operand][0]; /* a stride of 0 where there is no dim */
    int64_t offset = 0;
    for (int d = x.dims - 1; d > 0; d--) {
        const int64_t q = ml_quotient(i, x.extent[d]);
        offset += (i - q * x.extent[d]) * x.stride[operand][d];
        i = q;
    }
    return offset + i * x.stride[operand][0];
}

#endif
