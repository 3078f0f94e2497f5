/* Transposing copies: view 0 is gapless along its last dim, view 1 along another one, `turn`.
 *
 * Tiles of 16 elements of the output by 8 rows of it take both sides by whole vectors; bands of
 * 256 by 256 elements keep the pages of both sides in the translation buffers. */
#ifndef MLSI_KERNELS_TRANSPOSE_H
#define MLSI_KERNELS_TRANSPOSE_H

#include "cpu/kernels/stage.h"
#include "core/faults.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { COPY_GRAIN_BYTES = 1 << 18, TILE_ROWS = 8, TILE_COLUMNS = 16, TRANSPOSE_BAND = 256 };

typedef struct transpose_job {
    mlsi_iter it;
    int turn;
    int64_t size, rows, columns, bands_r, bands_c; /* rows and columns of the output */
    bool stream;                                   /* vectors of the output are aligned, too */
} transpose_job;

#if defined(MLSI_ISA_IS_AVX2) || defined(MLSI_ISA_IS_AVX512)
/* t[j] lane i = source row i element j. */
V_FN void transpose_8x8(const char *src, int64_t step, __m256 t[8]) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps((const float *)(const void *)(src + i * step));
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            a[4 * i + 2 * j] = _mm256_shuffle_ps(b[4 * i + j], b[4 * i + j + 2], 0x44);
            a[4 * i + 2 * j + 1] = _mm256_shuffle_ps(b[4 * i + j], b[4 * i + j + 2], 0xee);
        }
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(a[j], a[j + 4], 0x20);
        t[j + 4] = _mm256_permute2f128_ps(a[j], a[j + 4], 0x31);
    }
}

/* The two halves of a line of the output are written one after the other, so that a streamed line
 * leaves the write buffers whole. */
V_FN void transpose_tile_4(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                           bool stream) {
    __m256 left[8], right[8];
    transpose_8x8(src, src_step, left);
    transpose_8x8(src + 8 * src_step, src_step, right);
    for (int j = 0; j < TILE_ROWS; j++) {
        float *to = (float *)(void *)(dst + j * dst_step);
        if (stream) {
            _mm256_stream_ps(to, left[j]);
            _mm256_stream_ps(to + 8, right[j]);
        } else {
            _mm256_storeu_ps(to, left[j]);
            _mm256_storeu_ps(to + 8, right[j]);
        }
    }
}
#else
V_FN void transpose_tile_4(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                           bool stream) {
    (void)stream;
    for (int j = 0; j < TILE_ROWS; j++)
        for (int i = 0; i < TILE_COLUMNS; i++)
            memcpy(dst + j * dst_step + i * 4, src + i * src_step + j * 4, 4);
}
#endif

#if defined(__SSE2__)
/* Eight by eight 16-bit elements. */
V_FN void transpose_8x8_2(char *dst, int64_t dst_step, const char *src, int64_t src_step) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(const void *)(src + i * src_step));
    for (int round = 0; round < 3; round++) { /* each round interleaves rows i and i + 4 */
        for (int i = 0; i < 4; i++) {
            b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
            b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
        }
        for (int i = 0; i < 8; i++)
            a[i] = b[i];
    }
    for (int i = 0; i < 8; i++)
        _mm_storeu_si128((__m128i *)(void *)(dst + i * dst_step), a[i]);
}
#endif

#define TRANSPOSE_ELEMENTS(type)                                                                   \
    for (int64_t r = 0; r < rows; r++)                                                             \
        for (int64_t c = 0; c < columns; c++) {                                                    \
            char *to = dst + r * dst_step + c * (int64_t)sizeof(type);                             \
            memcpy(to, src + c * src_step + r * (int64_t)sizeof(type), sizeof(type));              \
        }

/* Any tile, element by element. */
static inline void transpose_edge(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                                  int64_t rows, int64_t columns, int64_t size) {
    switch (size) {
    case 1: TRANSPOSE_ELEMENTS(uint8_t) break;
    case 2: TRANSPOSE_ELEMENTS(uint16_t) break;
    case 4: TRANSPOSE_ELEMENTS(uint32_t) break;
    default: TRANSPOSE_ELEMENTS(uint64_t) break;
    }
}

static inline void transpose_tile(const transpose_job *job, char *dst, int64_t dst_step,
                                  const char *src, int64_t src_step, int64_t rows,
                                  int64_t columns) {
    bool full = rows >= TILE_ROWS && columns >= TILE_COLUMNS;
    if (full && job->size == 4) {
        if (job->stream)
            transpose_tile_4(dst, dst_step, src, src_step, true);
        else
            transpose_tile_4(dst, dst_step, src, src_step, false);
        return;
    }
#if defined(__SSE2__)
    if (full && job->size == 2) {
        transpose_8x8_2(dst, dst_step, src, src_step);
        transpose_8x8_2(dst + 16, dst_step, src + 8 * src_step, src_step);
        return;
    }
#endif
    transpose_edge(dst, dst_step, src, src_step, rows < TILE_ROWS ? rows : TILE_ROWS,
                   columns < TILE_COLUMNS ? columns : TILE_COLUMNS, job->size);
}

/* A work item is a band of one outer index. */
static inline void transpose_bands(const void *user, int64_t item, int64_t last, int worker) {
    const transpose_job *job = user;
    const mlsi_iter *it = &job->it;
    int inner = it->rank - 1;
    int64_t ds = it->strides[0][job->turn], ss = it->strides[1][inner];
    (void)worker;
    for (; item < last; item++) {
        int64_t c0 = item % job->bands_c * TRANSPOSE_BAND, rest = item / job->bands_c;
        int64_t r0 = rest % job->bands_r * TRANSPOSE_BAND;
        char *dst = it->base[0];
        const char *src = it->base[1];
        rest /= job->bands_r;
        for (int d = inner - 1; d >= 0; d--) {
            if (d == job->turn) continue;
            dst += rest % it->shape[d] * it->strides[0][d];
            src += rest % it->shape[d] * it->strides[1][d];
            rest /= it->shape[d];
        }
        int64_t r1 = r0 + TRANSPOSE_BAND < job->rows ? r0 + TRANSPOSE_BAND : job->rows;
        int64_t c1 = c0 + TRANSPOSE_BAND < job->columns ? c0 + TRANSPOSE_BAND : job->columns;
        if (mlsi_fault(MLSI_FAULT_CPU_TRANSPOSE_BAND)) c1--;
        for (int64_t c = c0; c < c1; c += TILE_COLUMNS)
            for (int64_t r = r0; r < r1; r += TILE_ROWS)
                transpose_tile(job, dst + r * ds + c * job->size, ds, src + c * ss + r * job->size,
                               ss, r1 - r, c1 - c);
    }
    if (job->stream) v_stream_fence();
}

/* False: not a transposing copy. */
static inline bool copy_transposing(const mlsi_iter *it, int64_t size, bool stream,
                                    mlsi_pool *pool) {
    int inner = it->rank - 1, turn = -1;
    if (size > 8 || (size & (size - 1)) || it->count == 0) return false;
    if (it->strides[0][inner] != size) return false;
    if (it->strides[1][inner] == size || it->strides[1][inner] == 0) return false;
    for (int d = 0; d < inner; d++)
        if (it->strides[1][d] == size) turn = d;
    if (turn < 0 || it->shape[turn] < 4 || it->shape[inner] < 4) return false;
    transpose_job job = {.it = *it, .turn = turn, .size = size};
    uintptr_t aligned = (uintptr_t)it->base[0];
    for (int d = 0; d < inner; d++)
        aligned |= (uintptr_t)it->strides[0][d];
    job.stream = stream && size == 4 && aligned % 32 == 0;
    job.rows = it->shape[turn];
    job.columns = it->shape[inner];
    job.bands_r = (job.rows + TRANSPOSE_BAND - 1) / TRANSPOSE_BAND;
    job.bands_c = (job.columns + TRANSPOSE_BAND - 1) / TRANSPOSE_BAND;
    int64_t outer = it->count / (job.rows * job.columns);
    int64_t band = job.rows < TRANSPOSE_BAND ? job.rows : TRANSPOSE_BAND;
    band *= job.columns < TRANSPOSE_BAND ? job.columns : TRANSPOSE_BAND;
    mlsi_range_run(pool, outer * job.bands_r * job.bands_c, COPY_GRAIN_BYTES / (band * size),
                   transpose_bands, &job);
    return true;
}

#endif
