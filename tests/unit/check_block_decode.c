/* Reference decoding of block dtypes: blocks are packed here from known codes, element by element,
 * and the decoded value must have the bits of the format's formula. tests/peer/dequant.py compares
 * with an independent implementation. */
#include "ir/ops/block_decode.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What an element is made of. */
typedef struct code {
    int q, scale, min; /* scale and min: of the group, K formats only */
} code;

static uint64_t rng_state;

static uint32_t next_bits(void) {
    rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(rng_state >> 33);
}

/* f16 bit patterns: ordinary, negative, subnormal, zeros, largest, infinities, NaN. */
static const uint16_t scales16[] = {0x3800, 0x2E66, 0xB555, 0x0001, 0x83FF, 0x0000,
                                    0x8000, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x0400};
enum { N_SCALES = (int)(sizeof scales16 / sizeof scales16[0]) };

static void set_bits(uint8_t *p, int shift, int value) { *p = (uint8_t)(*p | value << shift); }

static void pack_low_nibble_32(uint8_t *q, const code *c) {
    for (int i = 0; i < 32; i++)
        set_bits(&q[i % 16], i < 16 ? 0 : 4, c[i].q & 15);
}

static void pack_fifth_bit_32(uint8_t *h, const code *c) {
    for (int i = 0; i < 32; i++)
        set_bits(&h[i / 8], i % 8, c[i].q >> 4);
}

/* 8 scales and 8 minima of 6 bits: bytes 0-3 scales 0-3, bytes 4-7 minima 0-3, bytes 8-11 the low
 * nibbles of scales 4-7 and minima 4-7, whose upper two bits top up bytes 0-3 and 4-7. */
static void pack_group_scales(uint8_t *p, const code *c) {
    for (int g = 0; g < 4; g++) {
        p[g] = (uint8_t)(c[32 * g].scale | (c[32 * (g + 4)].scale >> 4) << 6);
        p[g + 4] = (uint8_t)(c[32 * g].min | (c[32 * (g + 4)].min >> 4) << 6);
        p[g + 8] = (uint8_t)((c[32 * (g + 4)].scale & 15) | (c[32 * (g + 4)].min & 15) << 4);
    }
}

static void pack_k_nibbles(uint8_t *q, const code *c) {
    for (int i = 0; i < 256; i++)
        set_bits(&q[i / 64 * 32 + i % 32], i / 32 % 2 * 4, c[i].q & 15);
}

static void pack(mlsys_dtype t, uint16_t d, uint16_t m, const code *c, uint8_t *out) {
    memset(out, 0, 256);
    switch (t) {
    case MLSYS_Q4_0: memcpy(out, &d, 2), pack_low_nibble_32(out + 2, c); break;
    case MLSYS_Q4_1:
        memcpy(out, &d, 2), memcpy(out + 2, &m, 2), pack_low_nibble_32(out + 4, c);
        break;
    case MLSYS_Q5_0:
        memcpy(out, &d, 2), pack_fifth_bit_32(out + 2, c), pack_low_nibble_32(out + 6, c);
        break;
    case MLSYS_Q5_1:
        memcpy(out, &d, 2), memcpy(out + 2, &m, 2);
        pack_fifth_bit_32(out + 4, c), pack_low_nibble_32(out + 8, c);
        break;
    case MLSYS_Q8_0:
        memcpy(out, &d, 2);
        for (int i = 0; i < 32; i++)
            out[2 + i] = (uint8_t)c[i].q;
        break;
    case MLSYS_Q4_K:
    case MLSYS_Q5_K:
        memcpy(out, &d, 2), memcpy(out + 2, &m, 2), pack_group_scales(out + 4, c);
        for (int i = 0; t == MLSYS_Q5_K && i < 256; i++)
            set_bits(&out[16 + i % 32], i / 32, c[i].q >> 4);
        pack_k_nibbles(out + (t == MLSYS_Q5_K ? 48 : 16), c);
        break;
    default: /* q6_k */
        for (int i = 0; i < 256; i++) {
            int half = i / 128, r = i % 128 / 32, j = i % 32;
            set_bits(&out[64 * half + 32 * (r % 2) + j], r / 2 * 4, c[i].q & 15);
            set_bits(&out[128 + 32 * half + j], 2 * r, c[i].q >> 4);
            out[192 + i / 16] = (uint8_t)c[i].scale;
        }
        memcpy(out + 208, &d, 2);
    }
}

static float formula(mlsys_dtype t, float d, float m, code c) {
    volatile float y; /* one rounding per operation */
    volatile float z;
    switch (t) {
    case MLSYS_Q4_0: return d * (float)(c.q - 8);
    case MLSYS_Q5_0: return d * (float)(c.q - 16);
    case MLSYS_Q8_0: return d * (float)(int8_t)c.q;
    case MLSYS_Q4_1:
    case MLSYS_Q5_1: y = d * (float)c.q; return y + m;
    case MLSYS_Q6_K: y = d * (float)(int8_t)c.scale; return y * (float)(c.q - 32);
    default:
        y = d * (float)c.scale;
        y = y * (float)c.q;
        z = m * (float)c.min;
        return y - z;
    }
}

static int code_bits(mlsys_dtype t) {
    if (t == MLSYS_Q8_0) return 8;
    if (t == MLSYS_Q6_K) return 6;
    return t == MLSYS_Q4_0 || t == MLSYS_Q4_1 || t == MLSYS_Q4_K ? 4 : 5;
}

static void random_codes(mlsys_dtype t, code *c) {
    int group = t == MLSYS_Q6_K ? 16 : 32;
    for (int i = 0; i < 256; i++) {
        c[i].q = (int)(next_bits() & ((1u << code_bits(t)) - 1));
        c[i].scale = i % group ? c[i - 1].scale : (int)(next_bits() & (t == MLSYS_Q6_K ? 255 : 63));
        c[i].min = i % group ? c[i - 1].min : (int)(next_bits() & 63);
    }
}

static void compare(mlsys_dtype t, uint16_t d, uint16_t m, const code *c) {
    int n = mlsi_dtype_get(t)->block_elems, bytes = mlsi_dtype_get(t)->block_bytes;
    uint8_t block[256];
    pack(t, d, m, c, block);
    uint8_t *odd = malloc((size_t)bytes + 1); /* an odd address, and an end that a sanitizer sees */
    memcpy(odd + 1, block, (size_t)bytes);
    float y[258];
    memset(y, 0x7A, sizeof y);
    mlsi_block_decode(t, odd + 1, n, y + 1);
    free(odd);
    float before = mlsi_bits_f32(0x7A7A7A7A);
    if (y[0] != before || y[n + 1] != before) ck_abort_msg("wrote outside");
    for (int i = 0; i < n; i++) {
        float want = formula(t, mlsi_f16_to_f32(d), mlsi_f16_to_f32(m), c[i]);
        bool same = isnan(want) ? isnan(y[i + 1]) : mlsi_f32_bits(want) == mlsi_f32_bits(y[i + 1]);
        if (!same) /* a passed ck_assert costs a message to the runner */
            ck_abort_msg("%s element %d q %d scale %d min %d d %04x m %04x: %a, wanted %a",
                         mlsi_dtype_get(t)->name, i, c[i].q, c[i].scale, c[i].min, d, m,
                         (double)y[i + 1], (double)want);
    }
}

static const mlsys_dtype formats[] = {MLSYS_Q4_0, MLSYS_Q4_1, MLSYS_Q5_0, MLSYS_Q5_1,
                                      MLSYS_Q8_0, MLSYS_Q4_K, MLSYS_Q5_K, MLSYS_Q6_K};
enum { N_FORMATS = (int)(sizeof formats / sizeof formats[0]) };

START_TEST(random_blocks) {
    rng_state = 20250101;
    printf("block_decode: seed %llu\n", (unsigned long long)rng_state);
    code c[256];
    for (int k = 0; k < N_FORMATS; k++)
        for (int i = 0; i < N_SCALES; i++)
            for (int j = 0; j < N_SCALES; j++) {
                random_codes(formats[k], c);
                compare(formats[k], scales16[i], scales16[j], c);
            }
}
END_TEST

/* Each element takes each code while all others are zero, so that bits cannot stand in for
 * another's. */
START_TEST(one_element_at_a_time) {
    for (int k = 0; k < N_FORMATS; k++) {
        mlsys_dtype t = formats[k];
        int n = mlsi_dtype_get(t)->block_elems;
        for (int i = 0; i < n; i++)
            for (int bit = 0; bit < code_bits(t); bit++) {
                code c[256] = {0};
                for (int j = 0; j < n; j++)
                    c[j].scale = 1;
                c[i].q = 1 << bit;
                compare(t, 0x3C00, 0x3800, c);
            }
    }
}
END_TEST

/* Numbers worked out by hand. */
START_TEST(known_values) {
    mlsi_q4_0 a = {.d = 0x3800}; /* 0.5 */
    float y[512];
    a.q[0] = 0xF0;
    a.q[15] = 0x19;
    mlsi_block_decode(MLSYS_Q4_0, &a, 32, y);
    ck_assert(y[0] == -4.0f && y[16] == 3.5f && y[15] == 0.5f && y[31] == -3.5f && y[1] == -4.0f);
    mlsi_q5_1 b[2] = {{.d = 0x4000, .m = 0xBC00}, {.d = 0x3C00}}; /* 2, -1; 1, 0 */
    b[0].q[3] = 0xA5;
    b[0].h[0] = 8; /* element 3 */
    b[0].h[2] = 0;
    b[1].h[3] = 0x80; /* element 31 */
    mlsi_block_decode(MLSYS_Q5_1, b, 64, y);
    ck_assert(y[3] == 2 * 21 - 1 && y[19] == 2 * 10 - 1 && y[0] == -1.0f);
    ck_assert(y[63] == 16.0f && y[62] == 0.0f);
    mlsi_q6_k e = {.d = 0x3C00};
    e.scales[15] = -3;
    e.ql[127] = 0x70; /* second half, quarters 1 (low) and 3 (high) of j = 31 */
    e.qh[63] = 0xC0;  /* quarter 3: bits 4 and 5 */
    mlsi_block_decode(MLSYS_Q6_K, &e, 256, y);
    ck_assert(y[255] == -3.0f * (7 + 48 - 32) && y[191] == 0.0f && y[240] == 96.0f);
}
END_TEST

START_TEST(no_blocks) {
    float y = 7;
    for (int k = 0; k < N_FORMATS; k++)
        mlsi_block_decode(formats[k], "", 0, &y);
    ck_assert(y == 7);
}
END_TEST

int main(void) {
    Suite *s = suite_create("block_decode");
    TCase *t = tcase_create("decode");
    suite_add_tcase(s, t);
    tcase_add_test(t, random_blocks);
    tcase_add_test(t, one_element_at_a_time);
    tcase_add_test(t, known_values);
    tcase_add_test(t, no_blocks);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
