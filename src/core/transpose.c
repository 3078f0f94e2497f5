/* A tile is one cache line wide on both sides: 64 / unit units squared. Its source lines are read
 * once, each at a stretch, into a small buffer; from there 16-byte blocks are transposed in
 * registers and stored, four or more lines at a time. So rows whose addresses differ by a power of
 * two, which share a cache set, do not throw each other's lines out half used. */
#include "core/transpose.h"

#include "core/faults.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LINE = 64 };

#if defined(__SSE2__)

/* One step of a transposition by halves: interleave unit-wide items of rows i and i + n/2. */
#define LOAD(i)     _mm_loadu_si128((const __m128i *)(src + (i)*LINE))
#define STORE(i, v) _mm_storeu_si128((__m128i *)(dst + (i)*dst_row), v)

static void block_8(char *dst, int64_t dst_row, const char *src) {
    __m128i a = LOAD(0), b = LOAD(1);
    STORE(0, _mm_unpacklo_epi64(a, b));
    STORE(1, _mm_unpackhi_epi64(a, b));
}

static void block_4(char *dst, int64_t dst_row, const char *src) {
    __m128i a = LOAD(0), b = LOAD(1), c = LOAD(2), d = LOAD(3);
    __m128i ac0 = _mm_unpacklo_epi32(a, c), ac1 = _mm_unpackhi_epi32(a, c);
    __m128i bd0 = _mm_unpacklo_epi32(b, d), bd1 = _mm_unpackhi_epi32(b, d);
    STORE(0, _mm_unpacklo_epi32(ac0, bd0));
    STORE(1, _mm_unpackhi_epi32(ac0, bd0));
    STORE(2, _mm_unpacklo_epi32(ac1, bd1));
    STORE(3, _mm_unpackhi_epi32(ac1, bd1));
}

/* n rows of n units; after log2(n) perfect shuffles of the rows the block is transposed. */
#define SHUFFLE_2(i)                                                                               \
    w[2 * (i)] = _mm_unpacklo_epi16(v[i], v[(i) + 4]);                                             \
    w[2 * (i) + 1] = _mm_unpackhi_epi16(v[i], v[(i) + 4])

static inline void shuffle_rows_2(__m128i w[8], const __m128i v[8]) {
    SHUFFLE_2(0);
    SHUFFLE_2(1);
    SHUFFLE_2(2);
    SHUFFLE_2(3);
}

static void block_2(char *dst, int64_t dst_row, const char *src) {
    __m128i v[8] = {LOAD(0), LOAD(1), LOAD(2), LOAD(3), LOAD(4), LOAD(5), LOAD(6), LOAD(7)}, w[8];
    shuffle_rows_2(w, v);
    shuffle_rows_2(v, w);
    shuffle_rows_2(w, v);
    STORE(0, w[0]);
    STORE(1, w[1]);
    STORE(2, w[2]);
    STORE(3, w[3]);
    STORE(4, w[4]);
    STORE(5, w[5]);
    STORE(6, w[6]);
    STORE(7, w[7]);
}

#define SHUFFLE_1(i)                                                                               \
    w[2 * (i)] = _mm_unpacklo_epi8(v[i], v[(i) + 8]);                                              \
    w[2 * (i) + 1] = _mm_unpackhi_epi8(v[i], v[(i) + 8])

static inline void shuffle_rows_1(__m128i w[16], const __m128i v[16]) {
    SHUFFLE_1(0);
    SHUFFLE_1(1);
    SHUFFLE_1(2);
    SHUFFLE_1(3);
    SHUFFLE_1(4);
    SHUFFLE_1(5);
    SHUFFLE_1(6);
    SHUFFLE_1(7);
}

static void block_1(char *dst, int64_t dst_row, const char *src) {
    __m128i v[16] = {LOAD(0), LOAD(1), LOAD(2),  LOAD(3),  LOAD(4),  LOAD(5),  LOAD(6),  LOAD(7),
                     LOAD(8), LOAD(9), LOAD(10), LOAD(11), LOAD(12), LOAD(13), LOAD(14), LOAD(15)};
    __m128i w[16];
    shuffle_rows_1(w, v);
    shuffle_rows_1(v, w);
    shuffle_rows_1(w, v);
    shuffle_rows_1(v, w);
    for (int i = 0; i < 16; i++)
        STORE(i, v[i]);
}

#undef SHUFFLE_1
#undef SHUFFLE_2
#undef LOAD
#undef STORE

#else

static void block_of(char *dst, int64_t dst_row, const char *src, int unit) {
    for (int r = 0; r < 16 / unit; r++)
        for (int c = 0; c < 16 / unit; c++)
            memcpy(dst + r * dst_row + c * unit, src + c * LINE + r * unit, (size_t)unit);
}
static void block_8(char *dst, int64_t dst_row, const char *src) { block_of(dst, dst_row, src, 8); }
static void block_4(char *dst, int64_t dst_row, const char *src) { block_of(dst, dst_row, src, 4); }
static void block_2(char *dst, int64_t dst_row, const char *src) { block_of(dst, dst_row, src, 2); }
static void block_1(char *dst, int64_t dst_row, const char *src) { block_of(dst, dst_row, src, 1); }

#endif

typedef void (*block_fn)(char *dst, int64_t dst_row, const char *src);

static void full_tile(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t unit,
                      block_fn block) {
    _Alignas(64) char buffer[LINE * LINE]; /* 64 / unit rows of it are used */
    int64_t side = LINE / unit, n = 16 / unit;
    for (int64_t r = 0; r < side; r++) /* stores wait for their line one by one, requests do not */
        __builtin_prefetch(dst + r * dst_row, 1);
    for (int64_t c = 0; c < side; c++)
        memcpy(buffer + c * LINE, src + c * src_row, LINE);
    for (int64_t r = 0; r < side; r += n)
        for (int64_t c = 0; c < side; c += n)
            block(dst + r * dst_row + c * unit, dst_row, buffer + c * LINE + r * unit);
}

/* Any extents, one unit at a time. */
static void edge(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows,
                 int64_t cols, int64_t unit) {
#define EACH(bytes)                                                                                \
    for (int64_t r = 0; r < rows; r++)                                                             \
        for (int64_t c = 0; c < cols; c++)                                                         \
            memcpy(dst + r * dst_row + c * (bytes), src + c * src_row + r * (bytes), bytes);
    if (unit == 1)
        EACH(1)
    else if (unit == 2)
        EACH(2)
    else if (unit == 4)
        EACH(4)
    else
        EACH(8)
#undef EACH
}

void mlsi_transpose(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows,
                    int64_t cols, int64_t unit) {
    block_fn block = unit == 1 ? block_1 : unit == 2 ? block_2 : unit == 4 ? block_4 : block_8;
    int64_t side = LINE / unit;
    if (cols < side) { /* few streams: tiles would gain nothing */
        edge(dst, dst_row, src, src_row, rows, cols, unit);
        return;
    }
    for (int64_t c = 0; c < cols; c += side)
        for (int64_t r = 0; r < rows; r += side) {
            int64_t h = rows - r < side ? rows - r : side, w = cols - c < side ? cols - c : side;
            if (mlsi_fault(MLSI_FAULT_COPY_TILE_EDGE) && w > 1 && w < side) w--;
            char *d = dst + r * dst_row + c * unit;
            const char *s = src + c * src_row + r * unit;
            if (h == side && w == side)
                full_tile(d, dst_row, s, src_row, unit, block);
            else
                edge(d, dst_row, s, src_row, h, w, unit);
        }
}
