#include "core/dtype.h"
#include "core/faults.h"
#include "core/op_attrs.h"
#include "core/rng.h"

mlsys_status mlsi_rng_check(mlsys_dtype dtype, int kind) {
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    bool known = kind >= MLSI_RANDOM_BITS && kind <= MLSI_RANDOM_NORMAL;
    if (!known) return mlsi_fail(MLSYS_E_ARG, "random: unknown kind %d", kind);
    if (kind == MLSI_RANDOM_BITS ? mlsi_dtype_is_int(dtype) : mlsi_dtype_is_float(dtype))
        return MLSYS_OK;
    return mlsi_fail(MLSYS_E_DTYPE, "random: %s gives %s, not %s",
                     kind == MLSI_RANDOM_BITS ? "bits" : "uniform or normal",
                     kind == MLSI_RANDOM_BITS ? "integers" : "floats", info ? info->name : "?");
}

/* Store the float x, exact or to be rounded, as element i of dst. */
static void store_float(void *dst, mlsys_dtype dtype, int64_t i, float x) {
    switch (dtype) {
    case MLSYS_F16: ((uint16_t *)dst)[i] = mlsi_f32_to_f16(x); break;
    case MLSYS_BF16: ((uint16_t *)dst)[i] = mlsi_f32_to_bf16(x); break;
    case MLSYS_F8E4M3: ((uint8_t *)dst)[i] = mlsi_f32_to_f8e4m3(x); break;
    case MLSYS_F8E5M2: ((uint8_t *)dst)[i] = mlsi_f32_to_f8e5m2(x); break;
    default: ((float *)dst)[i] = x; break;
    }
}

static int significand_bits(mlsys_dtype dtype) {
    switch (dtype) {
    case MLSYS_F16: return 11;
    case MLSYS_BF16: return 8;
    case MLSYS_F8E4M3: return 4;
    case MLSYS_F8E5M2: return 3;
    default: return 24;
    }
}

/* The current block is kept, so that its four words cost one evaluation. */
typedef struct word_source {
    uint64_t key, stream, block;
    bool filled;
    uint32_t words[4];
} word_source;

static const uint32_t *words_of_block(word_source *s, uint64_t block) {
    if (!s->filled || s->block != block) {
        mlsi_philox(s->key, s->stream, block, s->words);
        s->block = block;
        s->filled = true;
    }
    return s->words;
}

static void fill_bits(void *dst, mlsys_dtype dtype, word_source *s, uint64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t e = first + (uint64_t)i;
        if (dtype == MLSYS_I64) {
            const uint32_t *w = words_of_block(s, e / 2) + e % 2 * 2;
            ((int64_t *)dst)[i] = (int64_t)((uint64_t)w[1] << 32 | w[0]);
            continue;
        }
        uint32_t w = words_of_block(s, e / 4)[e % 4];
        if (dtype == MLSYS_I32)
            ((uint32_t *)dst)[i] = w;
        else if (dtype == MLSYS_I16)
            ((uint16_t *)dst)[i] = (uint16_t)w;
        else
            ((uint8_t *)dst)[i] = (uint8_t)w;
    }
}

static void fill_uniform(void *dst, mlsys_dtype dtype, word_source *s, uint64_t first, int64_t n) {
    int bits = significand_bits(dtype);
    float unit = 1.0f / (float)(1 << bits);
    for (int64_t i = 0; i < n; i++) {
        uint64_t e = first + (uint64_t)i;
        if (dtype == MLSYS_F64) {
            const uint32_t *w = words_of_block(s, e / 2) + e % 2 * 2;
            ((double *)dst)[i] = (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
        } else {
            uint32_t w = words_of_block(s, e / 4)[e % 4];
            float x = (float)(w >> (32 - bits)) * unit;
            if (mlsi_fault(MLSI_FAULT_RNG_UNIFORM_ROUNDS)) x = (float)(w >> 8) * 0x1p-24f;
            store_float(dst, dtype, i, x);
        }
    }
}

mlsys_status mlsi_rng_fill(void *dst, mlsys_dtype dtype, int kind, uint64_t key, uint64_t stream,
                           uint64_t first, int64_t n) {
    MLSI_TRY(mlsi_rng_check(dtype, kind));
    word_source s = {.key = key, .stream = stream};
    if (kind == MLSI_RANDOM_BITS) fill_bits(dst, dtype, &s, first, n);
    if (kind == MLSI_RANDOM_UNIFORM) fill_uniform(dst, dtype, &s, first, n);
    if (kind != MLSI_RANDOM_NORMAL) return MLSYS_OK;
    for (int64_t i = 0; i < n; i++) {
        uint64_t e = first + (uint64_t)i;
        if (dtype == MLSYS_F64)
            ((double *)dst)[i] = mlsi_rng_normal64(key, stream, e);
        else
            store_float(dst, dtype, i, mlsi_rng_normal32(key, stream, e));
    }
    return MLSYS_OK;
}
