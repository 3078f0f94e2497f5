/* Codes of blocks as files have them, and their packing into panels. */
#include "core/quant_panel.h"

#include "core/small_float.h"

#include <stddef.h>
#include <string.h>

/* ---- a run's codes ------------------------------------------------------------------------------ */

static float f16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return mlsi_f16_to_f32(h);
}

/* 6-bit scale and minimum of run `sub` from the 12 bytes of q4_k and q5_k. */
static void scale_min_k(const uint8_t *s, int sub, mlsi_panel_codes *c) {
    if (sub < 4) {
        c->sc[0] = s[sub] & 63, c->mn = s[sub + 4] & 63;
    } else {
        c->sc[0] = (s[sub + 4] & 15) | (s[sub - 4] >> 6) << 4;
        c->mn = (s[sub + 4] >> 4) | (s[sub] >> 6) << 4;
    }
    c->sc[1] = c->sc[0];
}

/* 16 bytes: low nibbles are elements 0..15, high ones 16..31; h: their fifth bits, or NULL. */
static void codes_nibbles(const uint8_t *q, const uint8_t *h, uint8_t *out) {
    uint32_t high = 0;
    if (h) memcpy(&high, h, 4);
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)((q[i] & 15) | (high >> i & 1) << 4);
        out[i + 16] = (uint8_t)((q[i] >> 4) | (high >> (i + 16) & 1) << 4);
    }
}

/* Runs 2j and 2j+1 of q4_k and q5_k share 32 bytes, low and high nibbles. */
static void codes_k(const uint8_t *q, const uint8_t *h, int sub, uint8_t *out) {
    q += sub / 2 * 32;
    for (int i = 0; i < 32; i++) {
        int low = sub % 2 ? q[i] >> 4 : q[i] & 15;
        out[i] = (uint8_t)(low | (h ? (h[i] >> sub & 1) << 4 : 0));
    }
}

/* q6_k: each half of 128 has 64 bytes of nibbles (runs 0, 1 low; 2, 3 high) and 32 of bit pairs. */
static void codes_q6_k(const mlsi_q6_k *b, int sub, mlsi_panel_codes *c) {
    const uint8_t *ql = b->ql + sub / 4 * 64 + sub % 2 * 32, *qh = b->qh + sub / 4 * 32;
    int run = sub % 4;
    for (int i = 0; i < 32; i++) {
        int low = run < 2 ? ql[i] & 15 : ql[i] >> 4;
        c->q[i] = (uint8_t)(low | (qh[i] >> (2 * run) & 3) << 4);
    }
    c->sc[0] = b->scales[sub * 2], c->sc[1] = b->scales[sub * 2 + 1];
}

void mlsi_panel_codes_of(mlsys_dtype t, const uint8_t *block, int sub, mlsi_panel_codes *c) {
    c->m = 0.0f, c->sc[0] = c->sc[1] = 1, c->mn = 0;
    if (t != MLSYS_Q6_K) c->d = f16_at(block);
    switch (t) {
    case MLSYS_Q4_0: codes_nibbles(block + 2, NULL, c->q); break;
    case MLSYS_Q4_1: c->m = f16_at(block + 2), codes_nibbles(block + 4, NULL, c->q); break;
    case MLSYS_Q5_0: codes_nibbles(block + 6, block + 2, c->q); break;
    case MLSYS_Q5_1: c->m = f16_at(block + 2), codes_nibbles(block + 8, block + 4, c->q); break;
    case MLSYS_Q8_0:
        for (int i = 0; i < 32; i++)
            c->q[i] = (uint8_t)(block[2 + i] ^ 0x80); /* zero point 128, like the others */
        break;
    case MLSYS_Q4_K:
        c->m = f16_at(block + 2), scale_min_k(block + 4, sub, c);
        codes_k(block + 16, NULL, sub, c->q);
        break;
    case MLSYS_Q5_K:
        c->m = f16_at(block + 2), scale_min_k(block + 4, sub, c);
        codes_k(block + 48, block + 16, sub, c->q);
        break;
    default:
        c->d = f16_at(block + offsetof(mlsi_q6_k, d));
        codes_q6_k((const mlsi_q6_k *)(const void *)block, sub, c);
        break;
    }
}

/* ---- packing ---------------------------------------------------------------------------------- */

/* Eight bytes of a nibble each to one word, byte i to bits 4i. */
static uint32_t eight_nibbles(const uint8_t *q) {
    uint64_t v;
    memcpy(&v, q, 8); /* little-endian, as all supported machines */
    v = (v | v >> 4) & 0x00ff00ff00ff00ff;
    v = (v | v >> 8) & 0x0000ffff0000ffff;
    return (uint32_t)(v | v >> 16);
}

static void pack_words(int bits, const uint8_t q[32], uint32_t *words) {
    if (bits == 8) {
        memcpy(words, q, 32);
        return;
    }
    if (bits == 4) {
        for (int w = 0; w < 4; w++)
            words[w] = eight_nibbles(q + 8 * w);
        return;
    }
    int fields = mlsi_panel_fields(bits), base = mlsi_panel_base(bits);
    for (int w = 0; w < bits; w++) {
        uint32_t word = 0;
        for (int j = 0; j < fields && w * fields + j < 32; j++)
            word |= (uint32_t)q[w * fields + j] << (base + bits * j);
        words[w] = word;
    }
    if (bits == 5) {
        words[0] |= q[30] & 3u, words[1] |= q[30] >> 2 & 3u, words[2] |= q[30] >> 4 & 1u;
        words[3] |= q[31] & 3u, words[4] |= q[31] >> 2 & 3u, words[2] |= (q[31] >> 4 & 1u) << 1;
    }
    if (bits == 6)
        for (int i = 0; i < 6; i++)
            words[i] |= (uint32_t)q[30 + i / 3] >> (i % 3 * 2) & 3u;
}

int64_t mlsi_panel_packed_bytes(mlsys_dtype t, int64_t n, int64_t k) {
    mlsi_panel_format f = mlsi_panel_format_of(t);
    return (n + MLSI_PANEL_ROWS - 1) / MLSI_PANEL_ROWS * (k / f.block) * mlsi_panel_block_bytes(f);
}

typedef struct pack_job {
    mlsys_dtype t;
    const uint8_t *w;
    int64_t row_bytes, n, k;
    uint8_t *packed;
} pack_job;

/* Run `sub` of a block of one row into column `row` of the packed block. */
static void pack_run(const pack_job *job, mlsi_panel_format f, const uint8_t *block, int sub,
                     int row, uint8_t *out) {
    mlsi_panel_codes c;
    uint32_t words[8];
    uint16_t head[2] = {0, 0};
    mlsi_panel_codes_of(job->t, block, sub, &c);
    if (f.is_signed)
        for (int i = 0; i < 32; i++)
            c.q[i] = (uint8_t)((c.q[i] ^ 1u << (f.bits - 1)) & ((1u << f.bits) - 1));
    pack_words(f.bits, c.q, words);
    if (job->t == MLSYS_Q6_K)
        memcpy(head, block + sizeof(mlsi_q6_k) - 2, 2);
    else
        memcpy(head, block, f.has_min ? 4 : 2);
    memcpy(out + row * 2, &head[0], 2);
    if (f.has_min) memcpy(out + (MLSI_PANEL_ROWS + row) * 2, &head[1], 2);
    out += mlsi_panel_head_bytes(f) + sub * mlsi_panel_sub_bytes(f);
    if (f.scale_bytes) {
        out[row] = (uint8_t)c.sc[0];
        out[MLSI_PANEL_ROWS + row] = (uint8_t)(f.has_min ? c.mn : c.sc[1]);
        out += 2 * MLSI_PANEL_ROWS;
    }
    for (int i = 0; i < f.bits; i++)
        memcpy(out + (i * MLSI_PANEL_ROWS + row) * 4, &words[i], 4);
}

static void pack_panel(void *user, int64_t panel, int worker) {
    (void)worker;
    const pack_job *job = user;
    mlsi_panel_format f = mlsi_panel_format_of(job->t);
    int64_t blocks = job->k / f.block, bytes = mlsi_panel_block_bytes(f);
    int file_bytes = mlsi_dtype_get(job->t)->block_bytes;
    uint8_t *out = job->packed + panel * blocks * bytes;
    int64_t row0 = panel * MLSI_PANEL_ROWS,
            rows = job->n - row0 < MLSI_PANEL_ROWS ? job->n - row0 : MLSI_PANEL_ROWS;
    if (blocks > 0 && rows < MLSI_PANEL_ROWS)
        memset(out, 0, (size_t)(blocks * bytes)); /* missing rows weigh 0 */
    for (int64_t b = 0; b < blocks; b++, out += bytes)
        for (int row = 0; row < rows; row++) {
            const uint8_t *block = job->w + (row0 + row) * job->row_bytes + b * file_bytes;
            for (int sub = 0; sub < f.block / 32; sub++)
                pack_run(job, f, block, sub, row, out);
        }
}

void mlsi_panel_pack(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t n, int64_t k,
                     uint8_t *packed, mlsi_pool *pool) {
    pack_job job = {t, w, row_bytes, n, k, packed};
    mlsi_pool_run(pool, (n + MLSI_PANEL_ROWS - 1) / MLSI_PANEL_ROWS, pack_panel, &job);
}
